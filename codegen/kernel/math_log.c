/* log, log1p, asinh, acosh, atanh.

   x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)], by integer arithmetic on the bits. F32: log(1 + f) = f - f^2/2 + f^3
   P(f). F64: with s = f / (2 + f), log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))): the form keeps the error of f^2/2
   small. log1p adds the rounding error of 1 + x, divided by 1 + x, to the low part; the inverse hyperbolic functions
   are log1p of an argument without cancellation. */
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

#define LN2         0x1.62e42fefa39efp-1
#define LN2_LOW     0x1.abc9e3b39803fp-56
#define LN2_F32     0x1.62e430p-1
#define LN2_LOW_F32 (-0x1.05c610p-29)

/* The exponent is extracted as an unsigned number e + 2^(exponent bits) and becomes a float by its bits alone: there is
   no vector conversion from i64 in AVX2. */
weft_kmath_split weft_kmath_log_split(const weft_kmath *m, weft_kval x) {
    uint64_t half_root = m->single ? 0x3f3504f3 : UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t offset = UINT64_C(1) << (m->single ? 8 : 11),
             carrier = m->single ? 0x4b000000 : UINT64_C(0x4330000000000000);
    weft_kval bits = to_bits(m, x);
    weft_kval biased = shr(m, add(m, bits, whole(m, m->u, (offset << m->mantissa) - half_root)), m->mantissa);
    weft_kval number = from_bits(m, weft_k_or(m->k, biased, whole(m, m->u, carrier)));
    weft_kval e = sub(m, number, num(m, ldexp(1, m->mantissa) + (double)offset));
    weft_kval one_f = from_bits(m, sub(m, bits, shl(m, sub(m, biased, whole(m, m->u, offset)), m->mantissa)));
    return (weft_kmath_split){e, sub(m, one_f, num(m, 1))};
}

static weft_kval log_f32(const weft_kmath *m, weft_kmath_split s, weft_kval extra) {
    weft_kval z = mul(m, s.f, s.f);
    weft_kval tail =
        mul(m, mul(m, z, s.f),
            weft_kmath_poly(m, s.f, log_f32_polynomial, (int)(sizeof log_f32_polynomial / sizeof *log_f32_polynomial)));
    tail = mad(m, s.e, num(m, LN2_LOW_F32), tail);
    if (extra != WEFT_KNONE) tail = add(m, tail, extra);
    tail = mad(m, z, num(m, -0.5), tail);
    return mad(m, s.e, num(m, LN2_F32), add(m, s.f, tail));
}

static weft_kval log_f64(const weft_kmath *m, weft_kmath_split v, weft_kval extra) {
    weft_kval half = mul(m, mul(m, v.f, v.f), num(m, 0.5));
    weft_kval s = quo(m, v.f, add(m, v.f, num(m, 2)));
    weft_kval z = mul(m, s, s);
    weft_kval r = mul(m, z, WEFT_KMATH_POLY(m, z, log_ratio));
    weft_kval tail = mad(m, s, add(m, half, r), mul(m, v.e, num(m, LN2_LOW)));
    if (extra != WEFT_KNONE) tail = add(m, tail, extra);
    return mad(m, v.e, num(m, LN2), sub(m, v.f, sub(m, half, tail)));
}

/* log(x) with `extra` added to the low part; every x. */
static weft_kval log_with(const weft_kmath *m, weft_kval x, weft_kval extra) {
    double least = m->single ? 0x1p-126 : 0x1p-1022;
    int shift = m->single ? 24 : 54;
    weft_kval subnormal = less(m, x, num(m, least));
    weft_kmath_split s = weft_kmath_log_split(m, pick(m, subnormal, mul(m, x, num(m, ldexp(1, shift))), x));
    s.e = sub(m, s.e, pick(m, subnormal, num(m, shift), num(m, 0)));
    weft_kval result = m->single ? log_f32(m, s, extra) : log_f64(m, s, extra);
    result = pick(m, less(m, x, num(m, INFINITY)), result, x); /* infinity and NaN stay */
    weft_kval outside = pick(m, same(m, x, num(m, 0)), num(m, -INFINITY), num(m, NAN));
    return pick(m, weft_k_le(m->k, x, num(m, 0)), outside, result);
}

weft_kval weft_kmath_log(const weft_kmath *m, weft_kval x) { return log_with(m, x, WEFT_KNONE); }

weft_kval weft_kmath_log1p(const weft_kmath *m, weft_kval x) {
    weft_kval one = num(m, 1), u = add(m, x, one);
    /* Knuth's two-sum: the exact rounding error of u */
    weft_kval back = sub(m, u, one);
    weft_kval error = add(m, sub(m, one, sub(m, u, back)), sub(m, x, back));
    weft_kval result = log_with(m, u, quo(m, error, u));
    return pick(m, same(m, x, num(m, 0)), x, result);
}

/* Past this sqrt(a^2 +- 1) = a to well below rounding, and a^2 may overflow: log(2 a) is used. */
static double large(const weft_kmath *m) { return m->single ? 0x1p13 : 0x1p28; }

/* log1p(argument), or log(2 a) as log1p(a - 1) + ln2 where `big` */
static weft_kval log_choice(const weft_kmath *m, weft_kval big, weft_kval a, weft_kval argument) {
    weft_kval result = weft_kmath_log1p(m, pick(m, big, sub(m, a, num(m, 1)), argument));
    return add(m, result, pick(m, big, num(m, LN2), num(m, 0)));
}

/* asinh(a) = log1p(a + a^2 / (1 + sqrt(1 + a^2))) */
weft_kval weft_kmath_asinh(const weft_kmath *m, weft_kval x) {
    weft_kval a = mag(m, x), square = mul(m, a, a), one = num(m, 1);
    weft_kval argument = add(m, a, quo(m, square, add(m, root(m, add(m, square, one)), one)));
    return with_sign(m, log_choice(m, less(m, num(m, large(m)), a), a, argument), x);
}

/* With t = x - 1: acosh(x) = log1p(t + sqrt(t (t + 2))) */
weft_kval weft_kmath_acosh(const weft_kmath *m, weft_kval x) {
    weft_kval t = sub(m, x, num(m, 1));
    weft_kval argument = add(m, t, root(m, mul(m, t, add(m, t, num(m, 2)))));
    weft_kval result = log_choice(m, less(m, num(m, large(m)), x), x, argument);
    return pick(m, less(m, x, num(m, 1)), num(m, NAN), result);
}

/* atanh(a) = log1p(2 a / (1 - a)) / 2 */
weft_kval weft_kmath_atanh(const weft_kmath *m, weft_kval x) {
    weft_kval a = mag(m, x);
    weft_kval argument = quo(m, add(m, a, a), sub(m, num(m, 1), a));
    return with_sign(m, mul(m, weft_kmath_log1p(m, argument), num(m, 0.5)), x);
}
