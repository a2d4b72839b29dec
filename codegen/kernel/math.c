/* Elementary functions: dispatch, and what all families share.

   Bounds in ulp over the whole domain, measured by tests/kernel/math.c against long double (F32 / F64):
   see the table in README.md. Families: math_exp.c, math_log.c, math_trig.c, math_arc.c, math_erf.c, math_pow.c.
   Invariant: no tables in memory, no calls, no branches except the large-argument path of sin, cos and tan and the loop
   of rem, which run only when a lane needs them.
   Sources: W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980); M. Payne and R. Hanek, Radian
   reduction for trigonometric functions (1983); the polynomials are our own (scripts/math_coefficients.py). */
#include "codegen/kernel/math.h"

#include "codegen/kernel/math_internal.h"

weft_kval weft_kmath_poly(const weft_kmath *m, weft_kval x, const double *c, int count) {
    weft_kval sum = num(m, c[count - 1]);
    for (int n = count - 2; n >= 0; n--) sum = weft_k_mad(m->k, sum, x, num(m, c[n]));
    return sum;
}

weft_kval weft_kmath_quotient(const weft_kmath *m, weft_kval a, weft_kval b) {
    return m->hardware ? mul(m, a, weft_k_unary(m->k, WEFT_K_rcp_fast, b)) : quo(m, a, b);
}

weft_kval weft_kmath_pow2(const weft_kmath *m, weft_kval n) {
    return from_bits(m, shl(m, add(m, n, whole(m, m->i, (uint64_t)m->bias)), m->mantissa));
}

static weft_kmath context(weft_kernel *k, weft_kval value) {
    weft_ktype type = weft_ktype_of(k, value);
    bool single = type.elem == WEFT_F32;
    return (weft_kmath){.k = k,
                        .f = (weft_dtype)type.elem,
                        .i = single ? WEFT_I32 : WEFT_I64,
                        .u = single ? WEFT_U32 : WEFT_U64,
                        .lanes = type.lanes,
                        .mantissa = single ? 23 : 52,
                        .bias = single ? 127 : 1023,
                        .single = single,
                        .hardware = single && k->capability->fast_math};
}

static weft_kval sign_of(const weft_kmath *m, weft_kval x) {
    weft_kval one = with_sign(m, num(m, 1), x);
    return pick(m, less(m, num(m, 0), mag(m, x)), one, x); /* zeros and NaN are their own sign */
}

static weft_kval reciprocal_root(const weft_kmath *m, weft_kval x) {
    return m->hardware ? weft_k_unary(m->k, WEFT_K_rsqrt_fast, x) : quo(m, num(m, 1), root(m, x));
}

weft_kval weft_k_math_unary(weft_kernel *k, weft_op op, weft_kval value) {
    weft_kmath context_of = context(k, value), *m = &context_of;
    switch ((int)op) {
    case WEFT_OP_abs: return mag(m, value);
    case WEFT_OP_neg: return neg(m, value);
    case WEFT_OP_sign: return sign_of(m, value);
    case WEFT_OP_ceil: return weft_k_unary(k, WEFT_K_ceil, value);
    case WEFT_OP_floor: return weft_k_unary(k, WEFT_K_floor, value);
    case WEFT_OP_round: return weft_k_unary(k, WEFT_K_round, value);
    case WEFT_OP_sqrt: return root(m, value);
    case WEFT_OP_rsqrt: return reciprocal_root(m, value);
    case WEFT_OP_exp: return weft_kmath_exp(m, value);
    case WEFT_OP_expm1: return weft_kmath_expm1(m, value);
    case WEFT_OP_log: return weft_kmath_log(m, value);
    case WEFT_OP_log1p: return weft_kmath_log1p(m, value);
    case WEFT_OP_sin: return weft_kmath_sin(m, value);
    case WEFT_OP_cos: return weft_kmath_cos(m, value);
    case WEFT_OP_tan: return weft_kmath_tan(m, value);
    case WEFT_OP_asin: return weft_kmath_asin(m, value);
    case WEFT_OP_acos: return weft_kmath_acos(m, value);
    case WEFT_OP_atan: return weft_kmath_atan(m, value);
    case WEFT_OP_sinh: return weft_kmath_sinh(m, value);
    case WEFT_OP_cosh: return weft_kmath_cosh(m, value);
    case WEFT_OP_asinh: return weft_kmath_asinh(m, value);
    case WEFT_OP_acosh: return weft_kmath_acosh(m, value);
    case WEFT_OP_atanh: return weft_kmath_atanh(m, value);
    case WEFT_OP_tanh: return weft_kmath_tanh(m, value);
    case WEFT_OP_logistic: return weft_kmath_logistic(m, value);
    case WEFT_OP_erf: return weft_kmath_erf(m, value);
    default: return WEFT_KNONE;
    }
}

weft_kval weft_k_math_binary(weft_kernel *k, weft_op op, weft_kval a, weft_kval b) {
    int lanes =
        weft_ktype_of(k, a).lanes > weft_ktype_of(k, b).lanes ? weft_ktype_of(k, a).lanes : weft_ktype_of(k, b).lanes;
    a = weft_k_splat(k, a, lanes);
    b = weft_k_splat(k, b, lanes);
    weft_kmath context_of = context(k, a), *m = &context_of;
    switch ((int)op) {
    case WEFT_OP_pow: return weft_kmath_pow(m, a, b);
    case WEFT_OP_atan2: return weft_kmath_atan2(m, a, b);
    case WEFT_OP_rem: return weft_kmath_rem(m, a, b);
    default: return WEFT_KNONE;
    }
}
