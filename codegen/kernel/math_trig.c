/* sin, cos, tan.

   x = n pi/2 + r, |r| <= pi/4. Up to a limit n comes by rounding x 2/pi and pi/2 is subtracted in three parts by fused
   multiply-adds (Cody and Waite): the first is exact, the others leave less than the closest any number of the type
   comes to a multiple of pi/2. Beyond, Payne and Hanek: the mantissa times a window of 2/pi's bits, in integers modulo
   4; that path sits in an `if` that is taken only when a lane needs it. Letters: w bits of a word, m mantissa as an
   integer. */
#include "codegen/kernel/math_coefficients.h"
#include "codegen/kernel/math_internal.h"

typedef struct quadrant {
    weft_kval r; /* |r| <= pi/4 */
    weft_kval q; /* unsigned; the low two bits count */
} quadrant;

static weft_kval limit(const weft_kmath *m) { return num(m, m->single ? 100000 : 0x1p20); }

static quadrant reduce_small(const weft_kmath *m, weft_kval x) {
    static const double parts[2][3] = {{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110},
                                       {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50}};
    weft_kval magic = num(m, 1.5 * ldexp(1, m->mantissa));
    weft_kval t = mad(m, x, num(m, 0x1.45f306dc9c883p-1), magic);
    weft_kval n = sub(m, t, magic), r = x;
    for (int part = 0; part < 3; part++) r = mad(m, n, num(m, -parts[m->single][part]), r);
    return (quadrant){r, to_bits(m, t)};
}

/* Word `index + ahead` of 2/pi for a vector index: a chain of selects over masks at_least[j]: index >= j. */
static weft_kval window_word(const weft_kmath *m, const weft_kval *at_least, int choices, int ahead) {
    weft_kval word = WEFT_KNONE;
    for (int n = 0; n < choices; n++) {
        int at = n + ahead;
        uint64_t bits = m->single ? two_over_pi[(at + 1) / 2] >> ((at + 1) % 2 ? 0 : 32) & UINT32_MAX : two_over_pi[at];
        weft_kval candidate = whole(m, m->u, bits);
        word = n ? pick(m, at_least[n], candidate, word) : candidate;
    }
    return word;
}

static weft_kval high_product(const weft_kmath *m, weft_kval a, weft_kval b) {
    return weft_k_binary(m->k, WEFT_K_mul_high, a, b);
}

/* a + b and the carry of it as 0 or 1 */
static weft_kval add_carry(const weft_kmath *m, weft_kval a, weft_kval b, weft_kval *out_carry) {
    weft_kval sum = add(m, a, b);
    *out_carry = weft_k_convert(m->k, less(m, sum, a), m->u);
    return sum;
}

enum { MAX_CHOICES = 18 };

/* x 2/pi modulo 4 as a fraction of two words: bits 2^1 2^0 . 2^-1 2^-2 ... */
static void payne_hanek(const weft_kmath *m, weft_kval x, weft_kval *out_top, weft_kval *out_next) {
    int w = m->single ? 32 : 64, shift_bits = m->single ? 5 : 6;
    weft_kval bits = to_bits(m, mag(m, x));
    weft_kval one = whole(m, m->u, UINT64_C(1) << m->mantissa);
    weft_kval mantissa = weft_k_or(m->k, weft_k_and(m->k, bits, whole(m, m->u, (UINT64_C(1) << m->mantissa) - 1)), one);
    /* x = mantissa 2^e; the window starts at bit e - 2 of 2/pi, counted behind w zeros. Exponents below the limit's
       give a window before the zeros: those lanes are not used, the index wraps to something legal by the chain. */
    int exponent_bias = m->bias + m->mantissa;
    weft_kval start = add(m, shr(m, bits, m->mantissa), whole(m, m->u, (uint64_t)(w - 2 - exponent_bias)));
    weft_kval index = shr(m, start, shift_bits), offset = weft_k_and(m->k, start, whole(m, m->u, (uint64_t)w - 1));
    int choices = m->single ? 5 : 17;
    weft_kval at_least[MAX_CHOICES], words[4], window[3];
    for (int n = 1; n < choices; n++) at_least[n] = weft_k_le(m->k, whole(m, m->u, (uint64_t)n), index);
    for (int n = 0; n < 4; n++) words[n] = window_word(m, at_least, choices, n);
    weft_kval back = sub(m, whole(m, m->u, (uint64_t)w - 1), offset);
    for (int n = 0; n < 3; n++) { /* funnel shift; the right part in two steps, as a shift by w has no meaning */
        weft_kval left = weft_k_binary(m->k, WEFT_K_shl, words[n], offset);
        weft_kval right = weft_k_binary(m->k, WEFT_K_shr, shr(m, words[n + 1], 1), back);
        window[n] = weft_k_or(m->k, left, right);
    }
    weft_kval carry, ignored;
    weft_kval next = add_carry(m, mul(m, mantissa, window[1]), high_product(m, mantissa, window[2]), &carry);
    weft_kval top = add_carry(m, mul(m, mantissa, window[0]), high_product(m, mantissa, window[1]), &ignored);
    *out_top = add(m, top, carry);
    *out_next = next;
}

static quadrant reduce_large(const weft_kmath *m, weft_kval x) {
    int w = m->single ? 32 : 64, spare = w - m->mantissa - 1;
    weft_kval top, next;
    payne_hanek(m, x, &top, &next);
    weft_kval q = shr(m, add(m, top, whole(m, m->u, UINT64_C(1) << (w - 3))), w - 2);
    weft_kval fraction = sub(m, top, shl(m, q, w - 2)); /* signed, in units of 2^(2 - w) */
    /* three exact pieces: the word's upper mantissa bits, the bits across, the rest */
    weft_kval a = weft_k_convert(m->k, shr(m, weft_k_bitcast(m->k, fraction, m->i), spare), m->f);
    weft_kval across =
        weft_k_or(m->k, shl(m, weft_k_and(m->k, fraction, whole(m, m->u, (UINT64_C(1) << spare) - 1)), w - 2 * spare),
                  shr(m, next, 2 * spare));
    weft_kval rest = weft_k_and(m->k, next, whole(m, m->u, (UINT64_C(1) << 2 * spare) - 1));
    weft_kval b = weft_k_convert(m->k, weft_k_bitcast(m->k, across, m->i), m->f);
    weft_kval c = weft_k_convert(m->k, weft_k_bitcast(m->k, rest, m->i), m->f);
    weft_kval high_part = mul(m, a, num(m, ldexp(1, 2 - w + spare)));
    weft_kval low_part = mad(m, b, num(m, ldexp(1, 2 - w - (w - 2 * spare))), mul(m, c, num(m, ldexp(1, 2 - 2 * w))));
    double pi_half = m->single ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0,
           pi_low = m->single ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54;
    weft_kval r =
        mad(m, high_part, num(m, pi_half), mad(m, high_part, num(m, pi_low), mul(m, low_part, num(m, pi_half))));
    /* of |x|; the sign turns both around; infinity and NaN give NaN */
    weft_kval negative = less(m, x, num(m, 0));
    q = pick(m, negative, sub(m, whole(m, m->u, 0), q), q);
    return (quadrant){add(m, pick(m, negative, neg(m, r), r), sub(m, x, x)), q};
}

static quadrant reduce(const weft_kmath *m, weft_kval x) {
    weft_kernel *k = m->k;
    quadrant small = reduce_small(m, x);
    weft_kval near = less(m, mag(m, x), limit(m)), far = weft_k_unary(k, WEFT_K_not, near);
    weft_kval r = weft_k_var(k, small.r), q = weft_k_var(k, small.q);
    weft_k_if(k, weft_k_reduce(k, WEFT_K_reduce_or, far));
    quadrant big = reduce_large(m, x);
    weft_k_set(k, r, pick(m, far, big.r, small.r));
    weft_k_set(k, q, pick(m, far, big.q, small.q));
    weft_k_end(k);
    return (quadrant){weft_k_get(k, r), weft_k_get(k, q)};
}

static weft_kval sin_poly(const weft_kmath *m, weft_kval r, weft_kval z) {
    return mad(m, mul(m, r, z), WEFT_KMATH_POLY(m, z, sin), r);
}

/* 1 - z/2 + z^2 P(z), with the rounding error of 1 - z/2 put back */
static weft_kval cos_poly(const weft_kmath *m, weft_kval z) {
    weft_kval half = mul(m, z, num(m, 0.5)), head = sub(m, num(m, 1), half);
    weft_kval lost = sub(m, sub(m, num(m, 1), head), half);
    return add(m, head, mad(m, mul(m, z, z), WEFT_KMATH_POLY(m, z, cos), lost));
}

static weft_kval is_odd(const weft_kmath *m, weft_kval q) {
    return weft_k_ne(m->k, weft_k_and(m->k, q, whole(m, m->u, 1)), whole(m, m->u, 0));
}

/* sin(r + q pi/2) */
static weft_kval turned(const weft_kmath *m, weft_kval r, weft_kval q) {
    weft_kval z = mul(m, r, r);
    weft_kval value = pick(m, is_odd(m, q), cos_poly(m, z), sin_poly(m, r, z));
    weft_kval flip = shl(m, weft_k_and(m->k, q, whole(m, m->u, 2)), m->single ? 30 : 62);
    return from_bits(m, weft_k_xor(m->k, to_bits(m, value), flip));
}

static weft_kval keep_zero(const weft_kmath *m, weft_kval x, weft_kval result) {
    return pick(m, same(m, x, num(m, 0)), x, result);
}

weft_kval weft_kmath_sin(const weft_kmath *m, weft_kval x) {
    quadrant v = reduce(m, x);
    return keep_zero(m, x, turned(m, v.r, v.q));
}

weft_kval weft_kmath_cos(const weft_kmath *m, weft_kval x) {
    quadrant v = reduce(m, x);
    return turned(m, v.r, add(m, v.q, whole(m, m->u, 1)));
}

weft_kval weft_kmath_tan(const weft_kmath *m, weft_kval x) {
    quadrant v = reduce(m, x);
    weft_kval z = mul(m, v.r, v.r), s = sin_poly(m, v.r, z), c = cos_poly(m, z), odd = is_odd(m, v.q);
    return keep_zero(m, x, quo(m, pick(m, odd, neg(m, c), s), pick(m, odd, s, c)));
}
