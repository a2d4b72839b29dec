/* Shared pieces of math_*.c: short names for building float expressions of one type, polynomials, exponent tricks.

   Letters: m the context, x y the arguments, r a reduced argument, z = r * r, n an integer multiple as a float.
   Minimum and maximum follow the kernel IR: the second operand wins when unordered, so low(m, c, x) keeps a NaN of x.
 */
#ifndef WEFT_CODEGEN_KERNEL_MATH_INTERNAL_H
#define WEFT_CODEGEN_KERNEL_MATH_INTERNAL_H

#include <math.h>

#include "codegen/kernel/build.h"

typedef struct weft_kmath {
    weft_kernel *k;
    weft_dtype f, i, u; /* float type, and the integers of its width */
    int lanes;
    int mantissa;  /* stored bits: 23 or 52 */
    int bias;      /* of the exponent */
    bool single;   /* F32 */
    bool hardware; /* F32 on a target with exp2_fast and friends */
} weft_kmath;

#define WEFT_KMATH_POLY(m, x, name)                                                                                    \
    ((m)->single ? weft_kmath_poly((m), (x), name##_f32, (int)(sizeof name##_f32 / sizeof *name##_f32))                \
                 : weft_kmath_poly((m), (x), name##_f64, (int)(sizeof name##_f64 / sizeof *name##_f64)))

/* c[0] + c[1] x + ... by Horner's rule */
weft_kval weft_kmath_poly(const weft_kmath *m, weft_kval x, const double *c, int count);
/* a / b: one rounding on CPUs; a * rcp_fast(b) where there is hardware (b moderate, about 1.5 ulp). */
weft_kval weft_kmath_quotient(const weft_kmath *m, weft_kval a, weft_kval b);
/* 2^n for an integer vector n inside the normal exponents */
weft_kval weft_kmath_pow2(const weft_kmath *m, weft_kval n);

typedef struct weft_kmath_reduced {
    weft_kval r; /* |r| <= ln2 / 2 */
    weft_kval n; /* integer vector: x = n ln2 + r */
} weft_kmath_reduced;
weft_kmath_reduced weft_kmath_exp_reduce(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_expm1_poly(const weft_kmath *m, weft_kval r); /* expm1(r), |r| <= ln2 / 2 */
weft_kval weft_kmath_exp(const weft_kmath *m, weft_kval x);
/* exp(x + tail), |tail| <= ulp(x) or so; clamps x */
weft_kval weft_kmath_exp_tail(const weft_kmath *m, weft_kval x, weft_kval tail);
weft_kval weft_kmath_expm1(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_sinh(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_cosh(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_tanh(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_logistic(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_log(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_log1p(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_asinh(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_acosh(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_atanh(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_sin(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_cos(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_tan(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_asin(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_acos(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_atan(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_atan2(const weft_kmath *m, weft_kval y, weft_kval x);
weft_kval weft_kmath_erf(const weft_kmath *m, weft_kval x);
weft_kval weft_kmath_pow(const weft_kmath *m, weft_kval x, weft_kval y);
weft_kval weft_kmath_rem(const weft_kmath *m, weft_kval x, weft_kval y);

/* The mantissa and exponent of a positive normal number: x = 2^e * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)]. */
typedef struct weft_kmath_split {
    weft_kval e; /* as a float */
    weft_kval f;
} weft_kmath_split;
weft_kmath_split weft_kmath_log_split(const weft_kmath *m, weft_kval x);

static inline weft_kval num(const weft_kmath *m, double value) {
    return weft_k_constant_lanes(m->k, m->f, value, m->lanes);
}
/* an integer vector constant (of the unsigned or signed type) */
static inline weft_kval whole(const weft_kmath *m, weft_dtype elem, uint64_t value) {
    return weft_k_splat(m->k, weft_k_integer(m->k, elem, (int64_t)value), m->lanes);
}
static inline weft_kval add(const weft_kmath *m, weft_kval a, weft_kval b) { return weft_k_add(m->k, a, b); }
static inline weft_kval sub(const weft_kmath *m, weft_kval a, weft_kval b) { return weft_k_sub(m->k, a, b); }
static inline weft_kval mul(const weft_kmath *m, weft_kval a, weft_kval b) { return weft_k_mul(m->k, a, b); }
static inline weft_kval quo(const weft_kmath *m, weft_kval a, weft_kval b) { return weft_k_div(m->k, a, b); }
static inline weft_kval mad(const weft_kmath *m, weft_kval a, weft_kval b, weft_kval c) {
    return weft_k_fma(m->k, a, b, c);
}
static inline weft_kval neg(const weft_kmath *m, weft_kval a) { return weft_k_unary(m->k, WEFT_K_neg, a); }
static inline weft_kval mag(const weft_kmath *m, weft_kval a) { return weft_k_unary(m->k, WEFT_K_abs, a); }
static inline weft_kval root(const weft_kmath *m, weft_kval a) { return weft_k_unary(m->k, WEFT_K_sqrt, a); }
static inline weft_kval low(const weft_kmath *m, double c, weft_kval x) { return weft_k_min(m->k, num(m, c), x); }
static inline weft_kval high(const weft_kmath *m, double c, weft_kval x) { return weft_k_max(m->k, num(m, c), x); }
static inline weft_kval with_sign(const weft_kmath *m, weft_kval a, weft_kval sign) {
    return weft_k_binary(m->k, WEFT_K_copysign, a, sign);
}
static inline weft_kval pick(const weft_kmath *m, weft_kval mask, weft_kval a, weft_kval b) {
    return weft_k_select(m->k, mask, a, b);
}
static inline weft_kval less(const weft_kmath *m, weft_kval a, weft_kval b) { return weft_k_lt(m->k, a, b); }
static inline weft_kval same(const weft_kmath *m, weft_kval a, weft_kval b) { return weft_k_eq(m->k, a, b); }
static inline weft_kval shl(const weft_kmath *m, weft_kval a, int bits) {
    return weft_k_binary(m->k, WEFT_K_shl, a, weft_k_integer(m->k, (weft_dtype)weft_ktype_of(m->k, a).elem, bits));
}
static inline weft_kval shr(const weft_kmath *m, weft_kval a, int bits) {
    return weft_k_binary(m->k, WEFT_K_shr, a, weft_k_integer(m->k, (weft_dtype)weft_ktype_of(m->k, a).elem, bits));
}
static inline weft_kval to_bits(const weft_kmath *m, weft_kval a) { return weft_k_bitcast(m->k, a, m->u); }
static inline weft_kval from_bits(const weft_kmath *m, weft_kval a) { return weft_k_bitcast(m->k, a, m->f); }

#endif
