/* asin, acos, atan, atan2.

   asin: x + x z P(z) on |x| <= 1/2, z = x^2; above, with z = (1 - |x|) / 2 and s = sqrt(z), asin = pi/2 - 2 (s + s z
   P(z)): one polynomial serves both. atan: the quotient of the smaller by the larger of (|x|, 1), one polynomial on [0,
   1], reflected at pi/4; atan2 likewise. pi/2 and pi are used in two parts. */
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

static double half_pi(const weft_kmath *m) { return m->single ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0; }
static double half_pi_low(const weft_kmath *m) { return m->single ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54; }

typedef struct arc {
    weft_kval a, outer; /* |x|; |x| > 1/2 */
    weft_kval s;        /* the argument of the polynomial */
    weft_kval tail;     /* asin(s) - s */
} arc;

static arc arc_of(const weft_kmath *m, weft_kval x) {
    arc v = {.a = mag(m, x)};
    v.outer = less(m, num(m, 0.5), v.a);
    weft_kval z = pick(m, v.outer, mul(m, sub(m, num(m, 1), v.a), num(m, 0.5)), mul(m, v.a, v.a));
    v.s = pick(m, v.outer, root(m, z), v.a);
    v.tail = mul(m, mul(m, v.s, z), WEFT_KMATH_POLY(m, z, asin));
    return v;
}

weft_kval weft_kmath_asin(const weft_kmath *m, weft_kval x) {
    arc v = arc_of(m, x);
    weft_kval inner = add(m, v.s, v.tail), two = num(m, -2);
    weft_kval low_part = mad(m, v.tail, two, num(m, half_pi_low(m)));
    weft_kval outer = add(m, mad(m, v.s, two, num(m, half_pi(m))), low_part);
    return with_sign(m, pick(m, v.outer, outer, inner), x);
}

/* |x| <= 1/2: pi/2 - asin(x); x > 1/2: 2 asin(s); x < -1/2: pi - 2 asin(s). */
weft_kval weft_kmath_acos(const weft_kmath *m, weft_kval x) {
    arc v = arc_of(m, x);
    weft_kval negative = less(m, x, num(m, 0)), zero = num(m, 0);
    weft_kval factor = pick(m, v.outer, num(m, 2), num(m, 1));
    weft_kval head = mul(m, v.s, factor), tail = mul(m, v.tail, factor); /* of asin(|x|) or 2 asin(s) */
    /* subtract when outer and negative, or neither */
    weft_kval minus = weft_k_unary(m->k, WEFT_K_not, weft_k_xor(m->k, v.outer, negative));
    weft_kval base = pick(m, v.outer, pick(m, negative, num(m, 2 * half_pi(m)), zero), num(m, half_pi(m)));
    weft_kval base_low = pick(m, v.outer, pick(m, negative, num(m, 2 * half_pi_low(m)), zero), num(m, half_pi_low(m)));
    weft_kval sign_head = pick(m, minus, neg(m, head), head), sign_tail = pick(m, minus, neg(m, tail), tail);
    return add(m, add(m, base, sign_head), add(m, base_low, sign_tail));
}

/* atan(t) - t for 0 <= t <= 1 */
static weft_kval atan_tail(const weft_kmath *m, weft_kval t) {
    weft_kval z = mul(m, t, t);
    return mul(m, mul(m, t, z), WEFT_KMATH_POLY(m, z, atan));
}

weft_kval weft_kmath_atan(const weft_kmath *m, weft_kval x) {
    weft_kval a = mag(m, x), one = num(m, 1), outer = less(m, one, a);
    weft_kval t = pick(m, outer, quo(m, one, a), a), tail = atan_tail(m, t);
    weft_kval reflected = add(m, sub(m, num(m, half_pi(m)), t), sub(m, num(m, half_pi_low(m)), tail));
    return with_sign(m, pick(m, outer, reflected, add(m, t, tail)), x);
}

weft_kval weft_kmath_atan2(const weft_kmath *m, weft_kval y, weft_kval x) {
    weft_kernel *k = m->k;
    weft_kval zero = num(m, 0), a = mag(m, y), b = mag(m, x), steep = less(m, b, a);
    weft_kval over = pick(m, steep, b, a), under = pick(m, steep, a, b);
    weft_kval t = quo(m, over, under);
    /* both zero: 0; both infinite: 1 */
    t = pick(m, same(m, under, zero), zero, pick(m, same(m, over, num(m, INFINITY)), num(m, 1), t));
    weft_kval tail = atan_tail(m, t);
    /* angle of (|x|, |y|) as base + sign (t + tail), then mirrored when x is negative, -0 included */
    weft_kval left = less(m, weft_k_bitcast(k, x, m->i), whole(m, m->i, 0));
    weft_kval minus = weft_k_xor(k, steep, left);
    double quarter_turn = half_pi(m), quarter_low = half_pi_low(m);
    weft_kval base = pick(m, steep, num(m, quarter_turn), pick(m, left, num(m, 2 * quarter_turn), zero));
    weft_kval base_low = pick(m, steep, num(m, quarter_low), pick(m, left, num(m, 2 * quarter_low), zero));
    weft_kval sign_t = pick(m, minus, neg(m, t), t), sign_tail = pick(m, minus, neg(m, tail), tail);
    weft_kval angle = add(m, add(m, base, sign_t), add(m, base_low, sign_tail));
    weft_kval ordered = weft_k_and(k, same(m, x, x), same(m, y, y));
    return pick(m, ordered, with_sign(m, angle, y), add(m, x, y));
}
