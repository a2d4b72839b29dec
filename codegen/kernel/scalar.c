/* What arithmetic means, a lane at a time: every row of kernel_ops.def that only computes.

   Invariant: results are canonical (scalar.h). Read next: fold.c (known operands), simulate_values.c (all others). */
#include "codegen/kernel/scalar.h"

#include <math.h>
#include <string.h>

int64_t weft_kscalar_wrap(weft_dtype elem, int64_t value) {
    if (elem == WEFT_BOOL) return value != 0;
    int bits = weft_dtype_bits(elem);
    if (bits <= 0 || bits >= 64) return value;
    uint64_t low = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
    bool negative = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED && (low >> (bits - 1) & 1);
    return (int64_t)(negative ? low | ~UINT64_C(0) << bits : low);
}

float weft_kscalar_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

uint64_t weft_kscalar_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

double weft_kscalar_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t weft_kscalar_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

double weft_kscalar_decode(weft_dtype elem, uint64_t bits) {
    return elem == WEFT_F32   ? (double)weft_kscalar_f32(bits)
           : elem == WEFT_F64 ? weft_kscalar_f64(bits)
                              : weft_float_decode(elem, bits);
}

uint64_t weft_kscalar_encode(weft_dtype elem, double value) {
    return elem == WEFT_F32   ? weft_kscalar_of_f32((float)value)
           : elem == WEFT_F64 ? weft_kscalar_of_f64(value)
                              : weft_float_encode(elem, value, false);
}

static bool f32_binary(weft_kop op, float a, float b, float *out) {
    switch ((int)op) {
    case WEFT_K_add: *out = a + b; return true;
    case WEFT_K_sub: *out = a - b; return true;
    case WEFT_K_mul: *out = a * b; return true;
    case WEFT_K_div: *out = a / b; return true;
    case WEFT_K_min: *out = a < b ? a : b; return true;
    case WEFT_K_max: *out = a > b ? a : b; return true;
    case WEFT_K_copysign: *out = copysignf(a, b); return true;
    default: return false;
    }
}

static bool f64_binary(weft_kop op, double a, double b, double *out) {
    switch ((int)op) {
    case WEFT_K_add: *out = a + b; return true;
    case WEFT_K_sub: *out = a - b; return true;
    case WEFT_K_mul: *out = a * b; return true;
    case WEFT_K_div: *out = a / b; return true;
    case WEFT_K_min: *out = a < b ? a : b; return true;
    case WEFT_K_max: *out = a > b ? a : b; return true;
    case WEFT_K_copysign: *out = copysign(a, b); return true;
    default: return false;
    }
}

bool weft_kscalar_compare(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b) {
    if (weft_dtype_is_float(elem)) {
        double x = weft_kscalar_decode(elem, a), y = weft_kscalar_decode(elem, b);
        return op == WEFT_K_eq ? x == y : op == WEFT_K_ne ? x != y : op == WEFT_K_lt ? x < y : x <= y;
    }
    bool less = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED ? (int64_t)a < (int64_t)b : a < b;
    return op == WEFT_K_eq ? a == b : op == WEFT_K_ne ? a != b : op == WEFT_K_lt ? less : less || a == b;
}

static uint64_t upper_half(weft_dtype elem, uint64_t a, uint64_t b) {
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    int bits = weft_dtype_bits(elem);
    if (bits < 64)
        return (uint64_t)weft_kscalar_wrap(elem,
                                           is_signed ? (int64_t)a * (int64_t)b >> bits : (int64_t)(a * b >> bits));
    uint64_t al = a & UINT32_MAX, ah = a >> 32, bl = b & UINT32_MAX, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (middle & UINT32_MAX);
    uint64_t high = ah * bh + (middle >> 32) + (other >> 32);
    if (is_signed) high -= ((int64_t)a < 0 ? b : 0) + ((int64_t)b < 0 ? a : 0);
    return high;
}

/* NULL, or what is wrong with the operands. */
static const char *integer_binary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b, uint64_t *out) {
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    int bits = weft_dtype_bits(elem);
    uint64_t r = 0;
    if ((op == WEFT_K_div || op == WEFT_K_rem) && b == 0) return "integer division by zero";
    if ((op == WEFT_K_shl || op == WEFT_K_shr) && b >= (uint64_t)bits) return "shift by the width or more";
    bool overflow = is_signed && (int64_t)b == -1; /* minimum / -1 wraps */
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch ((int)op) {
    case WEFT_K_add: r = a + b; break;
    case WEFT_K_sub: r = a - b; break;
    case WEFT_K_mul: r = a * b; break;
    case WEFT_K_div: r = overflow ? 0 - a : is_signed ? (uint64_t)((int64_t)a / (int64_t)b) : a / b; break;
    case WEFT_K_rem: r = overflow ? 0 : is_signed ? (uint64_t)((int64_t)a % (int64_t)b) : a % b; break;
    case WEFT_K_min: r = less ? a : b; break;
    case WEFT_K_max: r = less ? b : a; break;
    case WEFT_K_and: r = a & b; break;
    case WEFT_K_or: r = a | b; break;
    case WEFT_K_xor: r = a ^ b; break;
    case WEFT_K_shl: r = a << b; break;
    case WEFT_K_shr: r = is_signed ? (uint64_t)((int64_t)a >> b) : a >> b; break;
    case WEFT_K_mul_high: *out = upper_half(elem, a, b); return NULL;
    default: return "no meaning for integers";
    }
    *out = (uint64_t)weft_kscalar_wrap(elem, (int64_t)r);
    return NULL;
}

const char *weft_kscalar_binary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b, uint64_t *out) {
    if (elem == WEFT_F32) {
        float r;
        if (!f32_binary(op, weft_kscalar_f32(a), weft_kscalar_f32(b), &r)) return "no meaning for floats";
        *out = weft_kscalar_of_f32(r);
        return NULL;
    }
    if (elem == WEFT_F64) {
        double r;
        if (!f64_binary(op, weft_kscalar_f64(a), weft_kscalar_f64(b), &r)) return "no meaning for floats";
        *out = weft_kscalar_of_f64(r);
        return NULL;
    }
    if (weft_dtype_is_float(elem)) return "arithmetic in a storage type";
    return integer_binary(op, elem, a, b, out);
}

static const char *float_unary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t *out) {
    bool single = elem == WEFT_F32;
    double x = weft_kscalar_decode(elem, a), r;
    switch ((int)op) {
    case WEFT_K_neg: *out = a ^ (single ? UINT64_C(0x80000000) : UINT64_C(1) << 63); return NULL;
    case WEFT_K_abs: *out = a & (single ? UINT64_C(0x7fffffff) : UINT64_MAX >> 1); return NULL;
    case WEFT_K_floor: r = floor(x); break;
    case WEFT_K_ceil: r = ceil(x); break;
    case WEFT_K_trunc: r = trunc(x); break;
    case WEFT_K_round: r = rint(x); break; /* the default mode: to even */
    case WEFT_K_sqrt: r = sqrt(x); break;  /* double rounding of a root is innocent */
    case WEFT_K_exp2_fast: r = exp2(x); break;
    case WEFT_K_log2_fast: r = log2(x); break;
    case WEFT_K_rcp_fast: r = 1 / x; break;
    case WEFT_K_rsqrt_fast: r = 1 / sqrt(x); break;
    case WEFT_K_tanh_fast: r = tanh(x); break;
    default: return "no meaning for floats";
    }
    *out = weft_kscalar_encode(elem, r);
    return NULL;
}

const char *weft_kscalar_unary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t *out) {
    if (elem == WEFT_F32 || elem == WEFT_F64) return float_unary(op, elem, a, out);
    if (weft_dtype_is_float(elem)) return "arithmetic in a storage type";
    int bits = weft_dtype_bits(elem);
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    uint64_t r;
    switch ((int)op) {
    case WEFT_K_not: r = elem == WEFT_BOOL ? !a : ~a; break;
    case WEFT_K_neg: r = 0 - a; break;
    case WEFT_K_abs: r = is_signed && (int64_t)a < 0 ? 0 - a : a; break;
    case WEFT_K_popcount: r = (uint64_t)__builtin_popcountll(bits < 64 ? a & ((UINT64_C(1) << bits) - 1) : a); break;
    default: return "no meaning for integers";
    }
    *out = (uint64_t)weft_kscalar_wrap(elem, (int64_t)r);
    return NULL;
}

static int64_t saturate(weft_dtype elem, double value) {
    int bits = weft_dtype_bits(elem);
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits);
    if (isnan(value)) return 0;
    if (value <= low) return is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
    if (value >= high) return (int64_t)(UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0)));
    return is_signed ? (int64_t)value : (int64_t)(uint64_t)value;
}

uint64_t weft_kscalar_convert(weft_dtype from, weft_dtype to, uint64_t a) {
    if (weft_dtype_is_float(from)) {
        double x = weft_kscalar_decode(from, a);
        if (to == WEFT_BOOL) return x != 0;
        return weft_dtype_is_float(to) ? weft_kscalar_encode(to, x) : (uint64_t)saturate(to, x);
    }
    if (!weft_dtype_is_float(to)) return (uint64_t)weft_kscalar_wrap(to, (int64_t)a);
    bool is_unsigned = weft_dtype_kind_of(from) == WEFT_KIND_UNSIGNED;
    if (to == WEFT_F32) return weft_kscalar_of_f32(is_unsigned ? (float)a : (float)(int64_t)a);
    return weft_kscalar_encode(to, is_unsigned ? (double)a : (double)(int64_t)a);
}

uint64_t weft_kscalar_raw(weft_dtype elem, uint64_t a) {
    int bits = weft_dtype_bits(elem);
    return bits < 64 ? a & ((UINT64_C(1) << bits) - 1) : a;
}

uint64_t weft_kscalar_constant(const weft_kinstr *constant) {
    weft_dtype elem = (weft_dtype)constant->type.elem;
    return weft_dtype_is_float(elem) ? weft_kscalar_encode(elem, constant->f) : (uint64_t)constant->i;
}
