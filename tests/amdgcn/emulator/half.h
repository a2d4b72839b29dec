/* f16, bf16 and 8-bit floats as numbers: exact widening, rounding to nearest even; sums of products with one rounding.
 */
#ifndef WEFT_TESTS_AMDGCN_HALF_H
#define WEFT_TESTS_AMDGCN_HALF_H

#include <math.h>

#include "tests/amdgcn/emulator/internal.h"

static inline float amdgcn_from_half(uint32_t bits) {
    uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    /* 2^112 moves the exponent from f16's bias to f32's, denormals included */
    float value = number_f32(magnitude << 13) * 0x1p112F;
    uint32_t word = magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13 : number_bits32(value);
    return number_f32(word | sign);
}

/* From f64, rounded once: f32 and sums of products of f16 are exact in f64 or carry a sticky bit. */
static inline uint32_t amdgcn_to_half(double value) {
    uint64_t bits = number_bits64(value);
    uint32_t sign = (uint32_t)(bits >> 48) & 0x8000;
    double magnitude = fabs(value);
    if (value != value) return sign | 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    if (exponent < -14) exponent = -14;
    double scaled = rint(ldexp(magnitude, 10 - exponent)); /* at most 2048 */
    return sign | (uint32_t)(scaled + (double)((exponent + 14) * 1024));
}

static inline float amdgcn_from_bf16(uint32_t bits) { return number_f32(bits << 16); }

/* s, the nearest to a sum that exceeds it by `rest`, rounded to odd instead: one more rounding is then right. */
static inline double amdgcn_odd(double s, double rest) {
    uint64_t bits = number_bits64(s);
    if (rest == 0 || !isfinite(s) || (bits & 1)) return s;
    return number_f64((rest > 0) == (s > 0) ? bits | 1 : bits - 1);
}

/* a * b + c rounded to odd; the product must be exact, as that of two f32 or f16 is. */
static inline double amdgcn_odd_fma(double a, double b, double c) {
    double p = a * b, s = p + c, back = s - p;
    return amdgcn_odd(s, (p - (s - back)) + (c - back));
}

/* 8-bit floats; before gfx12 without infinities and negative zero, their exponents biased by one more ("fnuz"). */
typedef struct amdgcn_eight {
    int mantissa, bias;
    bool fnuz;
} amdgcn_eight;

static inline amdgcn_eight amdgcn_eight_format(bool is_bf8, bool fnuz) {
    return is_bf8 ? (amdgcn_eight){2, fnuz ? 16 : 15, fnuz} : (amdgcn_eight){3, fnuz ? 8 : 7, fnuz};
}

static inline float amdgcn_from_eight(amdgcn_eight f, uint32_t bits) {
    uint32_t sign = bits >> 7 & 1, magnitude = bits & 127, fraction = magnitude & ((1U << f.mantissa) - 1);
    int exponent = (int)(magnitude >> f.mantissa), top = 127 >> f.mantissa;
    if (f.fnuz && bits == 0x80) return NAN;
    if (!f.fnuz && f.mantissa == 3 && magnitude == 127) return NAN;
    if (!f.fnuz && f.mantissa == 2 && exponent == top) return fraction ? NAN : sign ? -INFINITY : INFINITY;
    float x = exponent ? ldexpf(1 + (float)fraction / (float)(1 << f.mantissa), exponent - f.bias)
                       : ldexpf((float)fraction / (float)(1 << f.mantissa), 1 - f.bias);
    return sign ? -x : x;
}

/* Nearest even, saturating (the hardware's default with clamping on). */
static inline uint32_t amdgcn_to_eight(amdgcn_eight f, float x) {
    uint32_t sign = signbit(x) ? 0x80 : 0, best = 0;
    if (x != x) return f.fnuz ? 0x80 : 0x7f;
    float magnitude = fabsf(x), error = INFINITY;
    for (uint32_t bits = 0; bits < 128; bits++) {
        float candidate = amdgcn_from_eight(f, bits), distance = fabsf(candidate - magnitude);
        if (!isfinite(candidate)) continue;
        if (distance < error || (distance == error && !(bits & 1))) error = distance, best = bits;
    }
    return best || !f.fnuz ? best | sign : 0;
}

#endif
