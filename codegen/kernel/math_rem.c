/* rem: C's fmod, exact.

   While a lane has a >= b: c = b 2^k with a / c between 1 and 2^21 (2^50), q = trunc(a / c), a -= q c in one fused
   multiply-add. q is right or one too large, and both remainders are multiples of an ulp that fit the type, so every
   step is exact; a negative one gets c back. Quotients below 2^20 (2^49) take one step. Invariant: lanes without an
   answer (b = 0, a infinite, NaN) run as 0 rem 1 and give NaN. */
#include "codegen/kernel/math_internal.h"

/* floor(log2(v)) + bias of a positive number, subnormals included */
static weft_kval exponent(const weft_kmath *m, weft_kval v) {
    int shift = m->mantissa + 1;
    weft_kval subnormal = less(m, v, num(m, m->single ? 0x1p-126 : 0x1p-1022));
    weft_kval bits = to_bits(m, pick(m, subnormal, mul(m, v, num(m, ldexp(1, shift))), v));
    weft_kval field = weft_k_bitcast(m->k, shr(m, bits, m->mantissa), m->i);
    return sub(m, field, pick(m, subnormal, whole(m, m->i, (uint64_t)shift), whole(m, m->i, 0)));
}

/* b 2^k, k >= 0 up to three times the largest factor */
static weft_kval scaled(const weft_kmath *m, weft_kval b, weft_kval k) {
    weft_kval most = whole(m, m->i, m->single ? 120 : 1000);
    for (int step = 0; step < 3; step++) {
        weft_kval part = weft_k_min(m->k, k, most);
        b = mul(m, b, weft_kmath_pow2(m, part));
        k = sub(m, k, part);
    }
    return b;
}

weft_kval weft_kmath_rem(const weft_kmath *m, weft_kval x, weft_kval y) {
    weft_kernel *k = m->k;
    weft_kval zero = num(m, 0), a = mag(m, x), b = mag(m, y);
    weft_kval valid = weft_k_and(k, less(m, a, num(m, INFINITY)), less(m, zero, b));
    b = pick(m, valid, b, num(m, 1));
    weft_kval rest = weft_k_var(k, pick(m, valid, a, zero));
    weft_kval b_exponent = exponent(m, b);
    weft_k_while(k);
    a = weft_k_get(k, rest);
    weft_kval active = weft_k_le(k, b, a);
    weft_k_test(k, weft_k_reduce(k, WEFT_K_reduce_or, active));
    weft_kval gap = sub(m, sub(m, exponent(m, a), b_exponent), whole(m, m->i, m->single ? 20 : 49));
    weft_kval c = scaled(m, b, weft_k_max(k, gap, whole(m, m->i, 0)));
    weft_kval q = weft_k_unary(k, WEFT_K_trunc, quo(m, a, c));
    weft_kval r = mad(m, neg(m, q), c, a);
    r = pick(m, less(m, r, zero), add(m, r, c), r);
    weft_k_set(k, rest, pick(m, active, r, a));
    weft_k_end(k);
    return pick(m, valid, with_sign(m, weft_k_get(k, rest), x), num(m, NAN));
}
