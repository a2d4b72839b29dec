/* The dtype table and exact conversion of single elements.

   Floats: every format is (exponent bits, mantissa bits, bias, what the top codes mean); one decoder and one encoder
   read that record. Encoding rounds to nearest, ties to even, on the double's integer significand, so no step rounds
   twice. Out-of-range rules follow ONNX Cast: without saturation overflow and infinity give infinity, or NaN in formats
   without infinities; with saturation formats of 8 bits and below give the largest finite value for both, wider ones
   for finite overflow only. f4e2m1fn always saturates and maps NaN to zero (it has neither); f8e8m0fnu holds powers of
   two only: ties go up, zero becomes 2^-127, negative values NaN.
   Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0; ONNX, "Float stored in 8 bits". */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"

typedef struct weft_dtype_row {
    const char *name;
    int bits;
    weft_dtype_kind kind;
} weft_dtype_row;

static const weft_dtype_row rows[WEFT_DTYPE_COUNT] = {
#define X(id, value, name, bits, kind) [value] = {name, bits, WEFT_KIND_##kind},
    WEFT_DTYPES(X)
#undef X
};

static bool valid(weft_dtype dtype) { return (unsigned)dtype < WEFT_DTYPE_COUNT; }

const char *weft_dtype_name(weft_dtype dtype) { return valid(dtype) ? rows[dtype].name : rows[WEFT_INVALID].name; }

int weft_dtype_bits(weft_dtype dtype) { return valid(dtype) ? rows[dtype].bits : 0; }

weft_dtype weft_dtype_find(const char *name) {
    for (int i = 1; name && i < WEFT_DTYPE_COUNT; i++)
        if (!strcmp(rows[i].name, name)) return (weft_dtype)i;
    return WEFT_INVALID;
}

weft_dtype_kind weft_dtype_kind_of(weft_dtype dtype) { return valid(dtype) ? rows[dtype].kind : WEFT_KIND_NONE; }

bool weft_dtype_bytes(weft_dtype dtype, int64_t count, size_t *out_bytes) {
    int bits = weft_dtype_bits(dtype);
    if (count < 0) return false;
    if (bits >= 8) return weft_size_multiply((size_t)count, (size_t)bits / 8, out_bytes);
    if (bits == 0) return *out_bytes = 0, false;
    int per_byte = 8 / bits;
    *out_bytes = (size_t)(count / per_byte) + (count % per_byte != 0);
    return true;
}

typedef enum weft_float_top {
    TOP_IEEE,  /* all-ones exponent: infinity, NaNs */
    TOP_FN,    /* all-ones code is NaN, no infinity */
    TOP_FNUZ,  /* negative zero is NaN, no infinity */
    TOP_FINITE /* neither */
} weft_float_top;

typedef struct weft_float_format {
    int exponent_bits, mantissa_bits, bias;
    weft_float_top top;
} weft_float_format;

static bool format_of(weft_dtype dtype, weft_float_format *out) {
    static const weft_float_format formats[WEFT_DTYPE_COUNT] = {
        [WEFT_F16] = {5, 10, 15, TOP_IEEE},      [WEFT_BF16] = {8, 7, 127, TOP_IEEE},
        [WEFT_F32] = {8, 23, 127, TOP_IEEE},     [WEFT_F64] = {11, 52, 1023, TOP_IEEE},
        [WEFT_F8E4M3FN] = {4, 3, 7, TOP_FN},     [WEFT_F8E4M3FNUZ] = {4, 3, 8, TOP_FNUZ},
        [WEFT_F8E5M2] = {5, 2, 15, TOP_IEEE},    [WEFT_F8E5M2FNUZ] = {5, 2, 16, TOP_FNUZ},
        [WEFT_F4E2M1FN] = {2, 1, 1, TOP_FINITE},
    };
    if (!valid(dtype) || !formats[dtype].exponent_bits) return false;
    *out = formats[dtype];
    return true;
}

static double f64_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t all_ones(int bits) { return ((uint64_t)1 << bits) - 1; }

static bool code_is_nan(const weft_float_format *f, uint64_t magnitude, bool negative) {
    switch (f->top) {
    case TOP_IEEE: return magnitude > all_ones(f->exponent_bits) << f->mantissa_bits;
    case TOP_FN: return magnitude == all_ones(f->exponent_bits + f->mantissa_bits);
    case TOP_FNUZ: return negative && magnitude == 0;
    case TOP_FINITE: return false;
    }
    return false;
}

double weft_float_decode(weft_dtype dtype, uint64_t bits) {
    weft_float_format f;
    if (dtype == WEFT_F64) return f64_of_bits(bits);
    if (dtype == WEFT_F8E8M0FNU) return (bits & 255) == 255 ? (double)NAN : ldexp(1, (int)(bits & 255) - 127);
    if (!format_of(dtype, &f)) return (double)NAN;
    uint64_t magnitude = bits & all_ones(f.exponent_bits + f.mantissa_bits);
    bool negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
    if (code_is_nan(&f, magnitude, negative)) return negative && f.top != TOP_FNUZ ? -(double)NAN : (double)NAN;
    int exponent = (int)(magnitude >> f.mantissa_bits);
    uint64_t significand = magnitude & all_ones(f.mantissa_bits);
    double value;
    if (f.top == TOP_IEEE && exponent == (int)all_ones(f.exponent_bits))
        value = (double)INFINITY;
    else if (exponent == 0)
        value = (double)significand * f64_of_bits((uint64_t)(1 - f.bias - f.mantissa_bits + 1023) << 52);
    else
        value = f64_of_bits((uint64_t)(exponent - f.bias + 1023) << 52 | significand << (52 - f.mantissa_bits));
    return negative ? -value : value;
}

/* The code of the largest finite magnitude. */
static uint64_t largest_code(const weft_float_format *f) {
    uint64_t ones = all_ones(f->exponent_bits + f->mantissa_bits);
    if (f->top == TOP_IEEE) return (all_ones(f->exponent_bits) << f->mantissa_bits) - 1;
    return f->top == TOP_FN ? ones - 1 : ones;
}

static uint64_t nan_code(const weft_float_format *f, bool negative) {
    uint64_t sign = (uint64_t)1 << (f->exponent_bits + f->mantissa_bits);
    switch (f->top) {
    case TOP_IEEE:
        return (negative ? sign : 0) | all_ones(f->exponent_bits) << f->mantissa_bits |
               (uint64_t)1 << (f->mantissa_bits - 1);
    case TOP_FN: return (negative ? sign : 0) | (sign - 1);
    case TOP_FNUZ: return sign;
    case TOP_FINITE: return 0;
    }
    return 0;
}

static uint64_t encode_e8m0(double value, bool saturate) {
    if (isnan(value) || value < 0) return 255;
    if (value == 0) return 0;
    if (isinf(value)) return 255;
    int exponent; /* value = m * 2^exponent with m in [0.5, 1); 0.75 is the tie between two powers, and goes up */
    int code = 127 + (frexp(value, &exponent) >= 0.75 ? 1 : 0);
    code += exponent - 1;
    if (code < 0) return 0;
    return code <= 254 ? (uint64_t)code : saturate ? 254 : 255;
}

/* Magnitude code of a finite positive value, rounded; may lie past the largest. */
static uint64_t round_magnitude(const weft_float_format *f, double value) {
    uint64_t bits = bits_of_f64(value);
    int exponent = (int)(bits >> 52) - 1023;
    uint64_t significand = bits & all_ones(52);
    if (exponent == -1023)
        exponent = -1022; /* a subnormal double */
    else
        significand |= (uint64_t)1 << 52;
    int least = 1 - f->bias; /* exponent of the smallest normal number */
    int shift = 52 - f->mantissa_bits + (exponent < least ? least - exponent : 0);
    if (shift > 54) return 0; /* below half of the smallest subnormal */
    uint64_t kept = significand >> shift, rest = significand & all_ones(shift),
             half = shift ? (uint64_t)1 << (shift - 1) : 0;
    if (shift && (rest > half || (rest == half && (kept & 1)))) kept++;
    /* A carry out of the significand moves into the exponent field by itself. */
    uint64_t base = exponent < least ? 0 : (uint64_t)(exponent - least) << f->mantissa_bits;
    return base + kept;
}

uint64_t weft_float_encode(weft_dtype dtype, double value, bool saturate) {
    weft_float_format f;
    if (dtype == WEFT_F64) return bits_of_f64(value);
    if (dtype == WEFT_F8E8M0FNU) return encode_e8m0(value, saturate);
    if (!format_of(dtype, &f)) return 0;
    bool negative = signbit(value) != 0, narrow = f.exponent_bits + f.mantissa_bits < 8;
    uint64_t sign = negative ? (uint64_t)1 << (f.exponent_bits + f.mantissa_bits) : 0, largest = largest_code(&f);
    if (isnan(value)) return nan_code(&f, negative);
    if (f.top == TOP_FINITE) saturate = true;
    uint64_t code = isinf(value) ? largest + 1 : round_magnitude(&f, fabs(value));
    if (code > largest) {
        if (saturate && (narrow || !isinf(value)))
            code = largest;
        else if (f.top == TOP_IEEE)
            code = all_ones(f.exponent_bits) << f.mantissa_bits;
        else
            return nan_code(&f, negative);
    }
    if (code == 0 && f.top == TOP_FNUZ) return 0; /* no negative zero */
    return sign | code;
}

/* Raw bits of element index of a packed array; types of 64 bits and less. */
static uint64_t load_bits(int bits, const void *data, int64_t index) {
    const unsigned char *bytes = data;
    switch (bits) {
    case 2: return (unsigned)bytes[index >> 2] >> ((index & 3) * 2) & 3u;
    case 4: return (unsigned)bytes[index >> 1] >> ((index & 1) * 4) & 15u;
    case 8: return bytes[index];
    case 16: {
        uint16_t v;
        memcpy(&v, bytes + index * 2, sizeof v);
        return v;
    }
    case 32: {
        uint32_t v;
        memcpy(&v, bytes + index * 4, sizeof v);
        return v;
    }
    case 64: {
        uint64_t v;
        memcpy(&v, bytes + index * 8, sizeof v);
        return v;
    }
    default: return 0;
    }
}

static void store_bits(int bits, void *data, int64_t index, uint64_t value) {
    unsigned char *bytes = data;
    if (bits < 8) {
        int per_byte = 8 / bits, shift = (int)(index % per_byte) * bits;
        unsigned mask = (unsigned)all_ones(bits) << shift;
        unsigned char *byte = &bytes[index / per_byte];
        *byte = (unsigned char)((*byte & ~mask) | ((unsigned)value << shift & mask));
        return;
    }
    switch (bits) {
    case 8: bytes[index] = (unsigned char)value; return;
    case 16: memcpy(bytes + index * 2, &(uint16_t){(uint16_t)value}, 2); return;
    case 32: memcpy(bytes + index * 4, &(uint32_t){(uint32_t)value}, 4); return;
    case 64: memcpy(bytes + index * 8, &value, 8); return;
    default: return;
    }
}

int64_t weft_element_i64(weft_dtype dtype, const void *data, int64_t index) {
    int bits = weft_dtype_bits(dtype);
    switch (weft_dtype_kind_of(dtype)) {
    case WEFT_KIND_BOOL: return load_bits(8, data, index) != 0;
    case WEFT_KIND_UNSIGNED: return (int64_t)load_bits(bits, data, index);
    case WEFT_KIND_SIGNED: {
        uint64_t value = load_bits(bits, data, index), sign = (uint64_t)1 << (bits - 1);
        return (int64_t)((value ^ sign) - sign);
    }
    case WEFT_KIND_FLOAT:
    case WEFT_KIND_COMPLEX: {
        double value = weft_element_double(dtype, data, index);
        if (isnan(value)) return 0;
        return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
    }
    case WEFT_KIND_NONE:
    case WEFT_KIND_STRING: return 0;
    }
    return 0;
}

double weft_element_double(weft_dtype dtype, const void *data, int64_t index) {
    if (dtype == WEFT_F32 || dtype == WEFT_C64) {
        float value;
        memcpy(&value, (const unsigned char *)data + index * (dtype == WEFT_F32 ? 4 : 8), sizeof value);
        return (double)value;
    }
    if (dtype == WEFT_C128) return f64_of_bits(load_bits(64, data, index * 2));
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_FLOAT)
        return weft_float_decode(dtype, load_bits(weft_dtype_bits(dtype), data, index));
    int64_t value = weft_element_i64(dtype, data, index);
    return dtype == WEFT_U64 ? (double)(uint64_t)value : (double)value;
}

static int64_t clamp_to_integer(weft_dtype dtype, double value) {
    int bits = weft_dtype_bits(dtype);
    if (isnan(value)) return 0;
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_UNSIGNED) {
        if (value <= 0) return 0;
        if (value >= ldexp(1, bits)) return bits == 64 ? -1 : (int64_t)all_ones(bits);
        return (int64_t)(uint64_t)value;
    }
    if (value >= ldexp(1, bits - 1)) return (int64_t)all_ones(bits - 1);
    if (value <= -ldexp(1, bits - 1)) return -(int64_t)all_ones(bits - 1) - 1;
    return (int64_t)value;
}

void weft_element_set_double(weft_dtype dtype, void *data, int64_t index, double value) {
    int bits = weft_dtype_bits(dtype);
    if (dtype == WEFT_F32) {
        memcpy((unsigned char *)data + index * 4, &(float){(float)value}, 4);
        return;
    }
    switch (weft_dtype_kind_of(dtype)) {
    case WEFT_KIND_BOOL: store_bits(8, data, index, value != 0); return;
    case WEFT_KIND_SIGNED:
    case WEFT_KIND_UNSIGNED: store_bits(bits, data, index, (uint64_t)clamp_to_integer(dtype, value)); return;
    case WEFT_KIND_FLOAT: store_bits(bits, data, index, weft_float_encode(dtype, value, false)); return;
    case WEFT_KIND_COMPLEX: {
        weft_dtype part = dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
        weft_element_set_double(part, data, index * 2, value);
        weft_element_set_double(part, data, index * 2 + 1, 0);
        return;
    }
    case WEFT_KIND_NONE:
    case WEFT_KIND_STRING: return;
    }
}

void weft_element_set_i64(weft_dtype dtype, void *data, int64_t index, int64_t value) {
    switch (weft_dtype_kind_of(dtype)) {
    case WEFT_KIND_BOOL: store_bits(8, data, index, value != 0); return;
    case WEFT_KIND_SIGNED:
    case WEFT_KIND_UNSIGNED: store_bits(weft_dtype_bits(dtype), data, index, (uint64_t)value); return;
    case WEFT_KIND_FLOAT:
    case WEFT_KIND_COMPLEX: weft_element_set_double(dtype, data, index, (double)value); return;
    case WEFT_KIND_NONE:
    case WEFT_KIND_STRING: return;
    }
}

uint64_t weft_element_bits(weft_dtype dtype, const void *data, int64_t index) {
    return load_bits(weft_dtype_bits(dtype), data, index);
}

void weft_element_set_bits(weft_dtype dtype, void *data, int64_t index, uint64_t bits) {
    store_bits(weft_dtype_bits(dtype), data, index, bits);
}
