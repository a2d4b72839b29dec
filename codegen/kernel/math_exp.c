/* exp, expm1, sinh, cosh, tanh, logistic.

   x = n ln2 + r with |r| <= ln2 / 2 (n by adding and subtracting 1.5 * 2^mantissa), then one polynomial for expm1(r)
   with small relative error serves all: exp(x) = 2^n (1 + p), expm1(x) = 2^n p + (2^n - 1). The first fused
   multiply-add of the reduction is exact, because x and n ln2_high are multiples of ulp(1/2) and nearly cancel. Powers
   of two are applied in two factors, so results may be subnormal or reach infinity. */
#include "codegen/kernel/math.h"
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

#define LN2         0x1.62e42fefa39efp-1
#define LN2_LOW     0x1.abc9e3b39803fp-56
#define LN2_F32     0x1.62e430p-1
#define LN2_LOW_F32 (-0x1.05c610p-29)
#define LOG2E       0x1.71547652b82fep+0

weft_kmath_reduced weft_kmath_exp_reduce(const weft_kmath *m, weft_kval x) {
    weft_kval magic = num(m, 1.5 * ldexp(1, m->mantissa));
    weft_kval t = mad(m, x, num(m, LOG2E), magic);
    weft_kval n = sub(m, t, magic);
    weft_kval r = mad(m, n, num(m, m->single ? -LN2_F32 : -LN2), x);
    r = mad(m, n, num(m, m->single ? -LN2_LOW_F32 : -LN2_LOW), r);
    weft_kval whole_n = sub(m, weft_k_bitcast(m->k, t, m->i), weft_k_bitcast(m->k, magic, m->i));
    return (weft_kmath_reduced){r, whole_n};
}

weft_kval weft_kmath_expm1_poly(const weft_kmath *m, weft_kval r) {
    weft_kval q = WEFT_KMATH_POLY(m, r, exp);
    return mad(m, mul(m, r, r), q, r);
}

static weft_kval clamp(const weft_kmath *m, weft_kval x, double lo, double hi) { return high(m, lo, low(m, hi, x)); }

/* p 2^n with n of any size the clamps allow. */
static weft_kval scale(const weft_kmath *m, weft_kval p, weft_kval n) {
    weft_kval first = shr(m, n, 1);
    return mul(m, mul(m, p, weft_kmath_pow2(m, first)), weft_kmath_pow2(m, sub(m, n, first)));
}

/* Below the lower clamp the result is 0 and its factor is: multiplying down to 0 would underflow, which processors
   handle in microcode, hundreds of cycles for each masked score of an attention. */
weft_kval weft_kmath_exp_tail(const weft_kmath *m, weft_kval x, weft_kval tail) {
    weft_kval vanishes = less(m, x, num(m, m->single ? -104 : -746));
    x = m->single ? clamp(m, x, -104, 89) : clamp(m, x, -746, 710);
    weft_kmath_reduced reduced = weft_kmath_exp_reduce(m, x);
    weft_kval r = tail == WEFT_KNONE ? reduced.r : add(m, reduced.r, tail);
    weft_kval factor = add(m, weft_kmath_expm1_poly(m, r), num(m, 1));
    return scale(m, pick(m, vanishes, num(m, 0), factor), reduced.n);
}

/* 2^t = 2^n 2^f, f by the hardware with log2(e) in two pieces. n is a whole number whose power is normal, made of its
   bits; beyond its ends f is more than a fraction, and the product rounds to a subnormal or overflows. */
static weft_kval exp_hardware(const weft_kmath *m, weft_kval x) {
    weft_kval magic = num(m, 1.5 * ldexp(1, m->mantissa));
    weft_kval n = clamp(m, sub(m, mad(m, x, num(m, LOG2E), magic), magic), -126, 127);
    weft_kval f = mad(m, x, num(m, LOG2E), neg(m, n));
    f = mad(m, x, num(m, LOG2E - (double)(float)LOG2E), f);
    weft_kval whole_n = sub(m, weft_k_bitcast(m->k, add(m, n, magic), m->i), weft_k_bitcast(m->k, magic, m->i));
    return mul(m, weft_k_unary(m->k, WEFT_K_exp2_fast, f), weft_kmath_pow2(m, whole_n));
}

weft_kval weft_kmath_exp(const weft_kmath *m, weft_kval x) {
    return m->hardware ? exp_hardware(m, x) : weft_kmath_exp_tail(m, x, WEFT_KNONE);
}

weft_kval weft_k_math_exp_coarse(weft_kernel *k, weft_kval value) {
    weft_kval scale = weft_k_constant_lanes(k, WEFT_F32, LOG2E, weft_ktype_of(k, value).lanes);
    return weft_k_unary(k, WEFT_K_exp2_fast, weft_k_mul(k, value, scale));
}

/* expm1(x) / 4 and exp(x) / 4 for x up to where sinh overflows: 2^(n - 2) stays finite. */
static weft_kval quarter(const weft_kmath *m, weft_kval x, bool less_one) {
    x = m->single ? clamp(m, x, -30, 89.7) : clamp(m, x, -60, 710.7);
    weft_kmath_reduced reduced = weft_kmath_exp_reduce(m, x);
    weft_kval p = weft_kmath_expm1_poly(m, reduced.r);
    weft_kval s = weft_kmath_pow2(m, sub(m, reduced.n, whole(m, m->i, 2)));
    return mad(m, s, p, less_one ? sub(m, s, num(m, 0.25)) : s);
}

static weft_kval four_times(const weft_kmath *m, weft_kval x) { return mul(m, mul(m, x, num(m, 2)), num(m, 2)); }

/* f(x) = x to rounding below this: keeps subnormals and the sign of zero. */
static weft_kval or_tiny(const weft_kmath *m, weft_kval x, weft_kval result) {
    return pick(m, less(m, mag(m, x), num(m, m->single ? 0x1p-26 : 0x1p-55)), x, result);
}

weft_kval weft_kmath_expm1(const weft_kmath *m, weft_kval x) {
    return or_tiny(m, x, four_times(m, quarter(m, x, true)));
}

/* With h = expm1(|x|) / 4: sinh = (4 h + 4 h / (4 h + 1)) / 2 = 2 (h + h / (4 h + 1)). */
weft_kval weft_kmath_sinh(const weft_kmath *m, weft_kval x) {
    weft_kval h = quarter(m, mag(m, x), true);
    weft_kval sum = add(m, h, quo(m, h, mad(m, h, num(m, 4), num(m, 1))));
    return with_sign(m, or_tiny(m, mag(m, x), add(m, sum, sum)), x);
}

/* With h = exp(|x|) / 4: cosh = 2 (h + 1 / (16 h)). */
weft_kval weft_kmath_cosh(const weft_kmath *m, weft_kval x) {
    weft_kval h = quarter(m, mag(m, x), false);
    weft_kval sum = add(m, h, quo(m, num(m, 0.0625), h));
    return add(m, sum, sum);
}

/* With t = expm1(2 |x|): tanh = t / (t + 2). Well conditioned everywhere, no cases. */
weft_kval weft_kmath_tanh(const weft_kmath *m, weft_kval x) {
    weft_kval a = low(m, m->single ? 10 : 20, mag(m, x));
    weft_kmath_reduced reduced = weft_kmath_exp_reduce(m, add(m, a, a));
    weft_kval s = weft_kmath_pow2(m, reduced.n);
    weft_kval t = mad(m, s, weft_kmath_expm1_poly(m, reduced.r), sub(m, s, num(m, 1)));
    return with_sign(m, weft_kmath_quotient(m, t, add(m, t, num(m, 2))), x);
}

/* With e = exp(-|x|): 1 / (1 + e), or e / (1 + e) on the left, which reaches the subnormals. */
weft_kval weft_kmath_logistic(const weft_kmath *m, weft_kval x) {
    weft_kval e = weft_kmath_exp(m, neg(m, mag(m, x)));
    weft_kval top = pick(m, less(m, x, num(m, 0)), e, num(m, 1));
    return weft_kmath_quotient(m, top, add(m, e, num(m, 1)));
}
