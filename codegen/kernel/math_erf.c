/* erf.

   F32: erf(a) = -expm1(-y), y = -log(erfc(a)) = a (2 / sqrt(pi) + a B(a)), a smooth positive function: no division, no
   cases, and the error of B shrinks as erf nears 1. F64: x P(x^2) below 1; above, 1 - exp(-x^2) erfcx(x) with erfcx a
   polynomial in (x - 2) / (x + 2): the error of the product is scaled down by erfc <= 0.16. */
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

static weft_kval erf_f32(const weft_kmath *m, weft_kval x) {
    weft_kval a = low(m, 3.93, mag(m, x)); /* erf rounds to 1 there */
    weft_kval bend = weft_kmath_poly(m, a, erf_bend_f32, (int)(sizeof erf_bend_f32 / sizeof *erf_bend_f32));
    double first = 0x1.20dd76p+0, first_low = 0x1.20dd750429b6dp+0 - first;
    weft_kval minus = neg(m, a);
    weft_kval y = mad(m, minus, num(m, first), mul(m, minus, mad(m, a, bend, num(m, first_low))));
    weft_kmath_reduced reduced = weft_kmath_exp_reduce(m, y);
    weft_kval s = weft_kmath_pow2(m, reduced.n), p = weft_kmath_expm1_poly(m, reduced.r);
    return with_sign(m, mad(m, neg(m, s), p, sub(m, num(m, 1), s)), x);
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
