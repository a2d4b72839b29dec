/* pow.

   exp(y log|x|) with the logarithm and the product in double-word arithmetic (a value and the rounding error of it,
   after Dekker 1971), since y log x may be 700 and every bit lost there is lost in the result. log as in math_log.c,
   with s = f / (2 + f): log(1 + f) = 2 s + s z (2/3 + z Q(z)), z = s^2; the terms up to 2/3 carry their errors. Special
   cases follow C17 annex F.10.4.4. */
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

typedef struct pair {
    weft_kval high, low;
} pair;

/* a + b for |a| >= |b| or a = 0, with the exact error plus `rest` */
static pair fast_sum(const weft_kmath *m, weft_kval a, weft_kval b, weft_kval rest) {
    weft_kval sum = add(m, a, b);
    return (pair){sum, add(m, sub(m, b, sub(m, sum, a)), rest)};
}

/* The product with its exact error, and the cross terms of the low parts. */
static pair product(const weft_kmath *m, pair a, pair b) {
    weft_kval high = mul(m, a.high, b.high);
    weft_kval error = mad(m, a.high, b.high, neg(m, high));
    return (pair){high, mad(m, a.high, b.low, mad(m, a.low, b.high, error))};
}

/* log(a) of a positive finite a */
static pair log_pair(const weft_kmath *m, weft_kval a) {
    double least = m->single ? 0x1p-126 : 0x1p-1022;
    int shift = m->single ? 24 : 54;
    weft_kval subnormal = less(m, a, num(m, least));
    weft_kmath_split v = weft_kmath_log_split(m, pick(m, subnormal, mul(m, a, num(m, ldexp(1, shift))), a));
    weft_kval e = sub(m, v.e, pick(m, subnormal, num(m, shift), num(m, 0)));
    weft_kval two = num(m, 2), d = add(m, v.f, two), d_low = sub(m, v.f, sub(m, d, two));
    pair s = {quo(m, v.f, d), WEFT_KNONE};
    weft_kval minus = neg(m, s.high);
    s.low = quo(m, mad(m, minus, d_low, mad(m, minus, d, v.f)), d);
    pair z = product(m, s, s);
    weft_kval q = mul(m, z.high, WEFT_KMATH_POLY(m, z.high, log_tail));
    double third = m->single ? 0x1.555556p-1 : 0x1.5555555555555p-1;
    double third_low = m->single ? -0x1.555556p-26 : 0x1.5555555555555p-55;
    pair c = fast_sum(m, num(m, third), q, num(m, third_low));
    pair k = product(m, s, product(m, z, c));
    pair mantissa = fast_sum(m, mul(m, s.high, two), k.high, mad(m, s.low, two, k.low));
    /* e times this is exact: trailing zeros for the bits of e */
    double ln2 = m->single ? 0x1.62e4p-1 : 0x1.62e42feep-1,
           ln2_low = m->single ? 0x1.7f7d1cf79abcap-20 : 0x1.a39ef35793c76p-33;
    weft_kval low_part = mad(m, e, num(m, ln2_low), mantissa.low);
    pair sum = fast_sum(m, mul(m, e, num(m, ln2)), mantissa.high, low_part);
    return fast_sum(m, sum.high, sum.low, num(m, 0));
}

weft_kval weft_kmath_pow(const weft_kmath *m, weft_kval x, weft_kval y) {
    weft_kernel *k = m->k;
    weft_kval zero = num(m, 0), one = num(m, 1), infinite = num(m, INFINITY), a = mag(m, x);
    pair l = log_pair(m, a);
    weft_kval high = mul(m, y, l.high);
    weft_kval tail = mad(m, y, l.low, mad(m, y, l.high, neg(m, high)));
    tail = pick(m, less(m, mag(m, high), num(m, m->single ? 110 : 800)), tail, zero);
    weft_kval r = weft_kmath_exp_tail(m, high, tail);

    r = pick(m, same(m, a, one), one, r);
    weft_kval is_zero = same(m, a, zero), is_infinite = same(m, a, infinite);
    weft_kval grows = weft_k_xor(k, is_zero, less(m, zero, y)); /* |x| = 0 with y < 0, infinite with y > 0 */
    r = pick(m, weft_k_or(k, is_zero, is_infinite), pick(m, grows, infinite, zero), r);

    weft_kval half = mul(m, y, num(m, 0.5));
    weft_kval whole_y = same(m, y, weft_k_unary(k, WEFT_K_trunc, y));
    weft_kval odd = weft_k_and(k, whole_y, weft_k_ne(k, half, weft_k_unary(k, WEFT_K_trunc, half)));
    r = pick(m, odd, with_sign(m, r, x), r);
    weft_kval undefined =
        weft_k_and(k, less(m, x, zero), weft_k_unary(k, WEFT_K_not, weft_k_or(k, whole_y, is_infinite)));
    r = pick(m, undefined, num(m, NAN), r);
    weft_kval ordered = weft_k_and(k, same(m, x, x), same(m, y, y));
    r = pick(m, ordered, r, add(m, x, y));
    return pick(m, weft_k_or(k, same(m, y, zero), same(m, x, one)), one, r);
}
