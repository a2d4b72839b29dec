/* erf.

   F32: x P(x^2) / Q(x^2) on |x| <= 3.925, past which erf rounds to 1. F64: x P(x^2) below 1; above, 1 - exp(-x^2)
   erfcx(x) with erfcx a polynomial in (x - 2) / (x + 2): the error of the product is scaled down by erfc <= 0.16. */
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

static weft_kval erf_f32(const weft_kmath *m, weft_kval x) {
    weft_kval a = low(m, 3.925, mag(m, x)), z = mul(m, a, a);
    weft_kval p = weft_kmath_poly(m, z, erf_p_f32, (int)(sizeof erf_p_f32 / sizeof *erf_p_f32));
    weft_kval q = weft_kmath_poly(m, z, erf_q_f32, (int)(sizeof erf_q_f32 / sizeof *erf_q_f32));
    return with_sign(m, low(m, 1, weft_kmath_quotient(m, mul(m, a, p), q)), x);
}

weft_kval weft_kmath_erf(const weft_kmath *m, weft_kval x) {
    if (m->single) return erf_f32(m, x);
    weft_kval a = mag(m, x), z = mul(m, a, a);
    weft_kval small = mul(m, a, weft_kmath_poly(m, z, erf_f64, (int)(sizeof erf_f64 / sizeof *erf_f64)));
    weft_kval b = high(m, 1, low(m, 6, a));
    weft_kval t = quo(m, sub(m, b, num(m, 2)), add(m, b, num(m, 2)));
    weft_kval erfcx = weft_kmath_poly(m, t, erfcx_f64, (int)(sizeof erfcx_f64 / sizeof *erfcx_f64));
    weft_kmath_reduced reduced = weft_kmath_exp_reduce(m, neg(m, mul(m, b, b)));
    weft_kval e = mul(m, add(m, weft_kmath_expm1_poly(m, reduced.r), num(m, 1)), weft_kmath_pow2(m, reduced.n));
    weft_kval tail = mad(m, neg(m, e), erfcx, num(m, 1));
    return with_sign(m, pick(m, less(m, a, num(m, 1)), small, tail), x);
}
