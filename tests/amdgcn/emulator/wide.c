/* 64-bit lanes: f64 arithmetic, shifts, sums and products. Approximations of f64 are good to 24 bits, as the
   hardware's. Read next: half.c. Source: AMD instruction set documents, VOP1, VOP3. */
#include "tests/amdgcn/emulator/half.h"

typedef enum wide_op {
    ADD,
    MUL,
    MIN,
    MAX,
    MINIMUM,
    MAXIMUM,
    FMA,
    TRUNC,
    CEIL,
    FLOOR,
    RNDNE,
    FRACT,
    RCP,
    RSQ,
    SQRT,
    FREXP_MANT,
    LSHLREV,
    LSHRREV,
    ASHRREV,
    MAD_U,
    MAD_I
} wide_op;

static void finish(amdgcn_wave *w, const amdgcn_instruction *i, uint64_t *result) {
    lane_f64 *r = (lane_f64 *)result;
    if (i->scale) {
        double factor = i->scale > 0 ? (double)i->scale : 0.5;
        for (int l = 0; l < LANES; l++) r[l] *= factor;
    }
    if (i->clamp)
        for (int l = 0; l < LANES; l++) r[l] = r[l] > 0 ? (r[l] < 1 ? r[l] : 1) : 0;
    amdgcn_put_wide(w, &i->out[0], result);
}

static double smaller(double a, double b) {
    if (a < b || b != b) return a;
    if (b < a || a != a) return b;
    return number_f64(number_bits64(a) | number_bits64(b));
}

static double larger(double a, double b) {
    if (a > b || b != b) return a;
    if (b > a || a != a) return b;
    return number_f64(number_bits64(a) & number_bits64(b));
}

static double approximate(double x) { return isfinite(x) ? number_f64(number_bits64(x) & ~UINT64_C(0x1fffffff)) : x; }

static double unary_of(int op, double x) {
    int exponent;
    switch (op) {
    case TRUNC: return trunc(x);
    case CEIL: return ceil(x);
    case FLOOR: return floor(x);
    case RNDNE: return rint(x);
    case FRACT: x -= floor(x); return x < 1 ? x : number_f64(0x3fefffffffffffff);
    case RCP: return approximate(1 / x);
    case RSQ: return approximate(1 / sqrt(x));
    case SQRT: return approximate(sqrt(x));
    default: return isfinite(x) && x != 0 ? frexp(x, &exponent) : x;
    }
}

static void unary(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[LANES], result[LANES];
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space);
    lane_f64 *r = (lane_f64 *)result;
    uint64_t exec = amdgcn_exec(w);
    for (int l = 0; l < LANES; l++) r[l] = exec >> l & 1 ? unary_of(i->op, a[l]) : 0;
    finish(w, i, result);
}

WIDE static void arithmetic(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[3][LANES], result[LANES];
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space[0]),
                   *b = (const lane_f64 *)amdgcn_wide(w, &i->in[1], space[1]),
                   *c = i->sources > 2 ? (const lane_f64 *)amdgcn_wide(w, &i->in[2], space[2]) : a;
    lane_f64 *r = (lane_f64 *)result;
    switch (i->op) {
    case ADD:
        for (int l = 0; l < LANES; l++) r[l] = a[l] + b[l];
        break;
    case MUL:
        for (int l = 0; l < LANES; l++) r[l] = a[l] * b[l];
        break;
    case FMA:
        for (int l = 0; l < LANES; l++) r[l] = __builtin_fma(a[l], b[l], c[l]);
        break;
    case MIN:
        for (int l = 0; l < LANES; l++) r[l] = smaller(a[l], b[l]);
        break;
    case MAX:
        for (int l = 0; l < LANES; l++) r[l] = larger(a[l], b[l]);
        break;
    case MINIMUM:
        for (int l = 0; l < LANES; l++) r[l] = a[l] != a[l] ? a[l] : b[l] != b[l] ? b[l] : smaller(a[l], b[l]);
        break;
    default:
        for (int l = 0; l < LANES; l++) r[l] = a[l] != a[l] ? a[l] : b[l] != b[l] ? b[l] : larger(a[l], b[l]);
        break;
    }
    finish(w, i, result);
}

static void exponent(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[LANES];
    uint32_t r[LANES];
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space);
    for (int l = 0; l < LANES; l++) {
        int e = 0;
        if (isfinite(a[l]) && a[l] != 0) (void)frexp(a[l], &e);
        r[l] = (uint32_t)e;
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

static void load_exponent(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[LANES], result[LANES];
    uint32_t count[LANES];
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space);
    const uint32_t *b = amdgcn_words(w, &i->in[1], 0, count);
    lane_f64 *r = (lane_f64 *)result;
    for (int l = 0; l < LANES; l++) r[l] = ldexp(a[l], (int32_t)b[l]);
    finish(w, i, result);
}

/* -- division */

static int biased(double x) { return (int)(number_bits64(x) >> 52 & 2047); }
static bool is_denormal(double x) { return x != 0 && fabs(x) < 0x1p-1022; }

static double scale_one(double s0, double s1, double s2, bool *out_flag) {
    *out_flag = false;
    if (s2 == 0 || s1 == 0) return NAN;
    bool small = is_denormal(1 / s1), small_quotient = is_denormal(s2 / s1);
    if (biased(s2) - biased(s1) >= 768) {
        *out_flag = true;
        return s0 == s1 ? ldexp(s0, 128) : s0;
    }
    if (is_denormal(s1)) return ldexp(s0, 128);
    if (small && small_quotient) {
        *out_flag = true;
        return s0 == s1 ? ldexp(s0, 128) : s0;
    }
    if (small) return ldexp(s0, -128);
    if (small_quotient) {
        *out_flag = true;
        return s0 == s2 ? ldexp(s0, 128) : s0;
    }
    return biased(s2) <= 53 ? ldexp(s0, 128) : s0;
}

static double fixed_up(double q, double d, double n) {
    bool negative = signbit(d) != signbit(n);
    if (n != n) return n;
    if (d != d) return d;
    if ((d == 0 && n == 0) || (isinf(d) && isinf(n))) return -(double)NAN;
    if (d == 0 || isinf(n)) return negative ? -(double)INFINITY : (double)INFINITY;
    if (isinf(d) || n == 0) return negative ? -0.0 : 0.0;
    if (biased(n) - biased(d) < -1075) return negative ? -0.0 : 0.0;
    if (q != q) return negative ? -(double)INFINITY : (double)INFINITY;
    return negative ? -fabs(q) : fabs(q);
}

/* sum, the rounded a * b + c, scaled, with one rounding: where scaling rounds to a denormal and the sum lies half way
   between two of them, what the sum has lost decides. It lies near c, so that their difference is exact. */
static double scaled_sum(double a, double b, double c, double sum) {
    int by = biased(c) > 1023 ? 128 : -128;
    double scaled = ldexp(sum, by), over = sum - ldexp(scaled, -by), rest = fma(a, b, c - sum);
    if (fabs(scaled) > 0x1p-1022 || fabs(over) != ldexp(0x1p-1022, -53 - by)) return scaled;
    if (rest == 0 || (rest > 0) != (over > 0)) return scaled;
    return scaled + (over > 0 ? 0x1p-1074 : -0x1p-1074);
}

enum { SCALE, FMAS, FIXUP };

static void divide(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[3][LANES], result[LANES], flags = 0, vcc = w->pair[SCALAR_VCC / 2];
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space[0]),
                   *b = (const lane_f64 *)amdgcn_wide(w, &i->in[1], space[1]),
                   *c = (const lane_f64 *)amdgcn_wide(w, &i->in[2], space[2]);
    lane_f64 *r = (lane_f64 *)result;
    for (int l = 0; l < LANES; l++) {
        bool flag = false;
        if (i->op == SCALE) {
            r[l] = scale_one(a[l], b[l], c[l], &flag);
        } else if (i->op == FIXUP) {
            r[l] = fixed_up(a[l], b[l], c[l]);
        } else {
            r[l] = fma(a[l], b[l], c[l]);
            if (vcc >> l & 1) r[l] = scaled_sum(a[l], b[l], c[l], r[l]);
        }
        flags |= (uint64_t)flag << l;
    }
    finish(w, i, result);
    if (i->op == SCALE) amdgcn_lanes_set(w, &i->out[1], flags & amdgcn_exec(w));
}

/* -- integers */

static void shift(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES];
    uint64_t wide[LANES], r[LANES];
    const uint32_t *n = amdgcn_words(w, &i->in[0], 0, space);
    const uint64_t *a = amdgcn_wide(w, &i->in[1], wide);
    for (int l = 0; l < LANES; l++) {
        if (i->op == LSHLREV)
            r[l] = a[l] << (n[l] & 63);
        else
            r[l] = i->op == LSHRREV ? a[l] >> (n[l] & 63) : (uint64_t)((int64_t)a[l] >> (n[l] & 63));
    }
    amdgcn_put_wide(w, &i->out[0], r);
}

/* v_lshl_add_u64: (a << b) + c; b at most 4 */
static void shift_add(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES];
    uint64_t wide[2][LANES], r[LANES];
    const uint64_t *a = amdgcn_wide(w, &i->in[0], wide[0]), *c = amdgcn_wide(w, &i->in[2], wide[1]);
    const uint32_t *b = amdgcn_words(w, &i->in[1], 0, space);
    for (int l = 0; l < LANES; l++) r[l] = (a[l] << (b[l] & 7)) + c[l];
    amdgcn_put_wide(w, &i->out[0], r);
}

/* v_mad_u64_u32: 32 x 32 + 64, and the carry */
static void multiply_add(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES];
    uint64_t wide[LANES], r[LANES], carries = 0;
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    const uint64_t *c = amdgcn_wide(w, &i->in[2], wide);
    for (int l = 0; l < LANES; l++) {
        uint64_t product = i->op == MAD_U ? (uint64_t)a[l] * b[l] : (uint64_t)((int64_t)(int32_t)a[l] * (int32_t)b[l]);
        r[l] = product + c[l];
        carries |= (uint64_t)(r[l] < product) << l;
    }
    amdgcn_put_wide(w, &i->out[0], r);
    amdgcn_lanes_set(w, &i->out[1], carries & amdgcn_exec(w));
}

const amdgcn_opcode amdgcn_wide_opcodes[] = {{"v_add_f64", arithmetic, ADD, "1F"},
                                             {"v_mul_f64", arithmetic, MUL, "1F"},
                                             {"v_min_f64", arithmetic, MIN, "1F"},
                                             {"v_max_f64", arithmetic, MAX, "1F"},
                                             {"v_min_num_f64", arithmetic, MIN, "1F"},
                                             {"v_max_num_f64", arithmetic, MAX, "1F"},
                                             {"v_minimum_f64", arithmetic, MINIMUM, "1F"},
                                             {"v_maximum_f64", arithmetic, MAXIMUM, "1F"},
                                             {"v_fma_f64", arithmetic, FMA, "1F"},
                                             {"v_fmac_f64", arithmetic, FMA, "1Fd"},
                                             {"v_trunc_f64", unary, TRUNC, "1F"},
                                             {"v_ceil_f64", unary, CEIL, "1F"},
                                             {"v_floor_f64", unary, FLOOR, "1F"},
                                             {"v_rndne_f64", unary, RNDNE, "1F"},
                                             {"v_fract_f64", unary, FRACT, "1F"},
                                             {"v_rcp_f64", unary, RCP, "1F"},
                                             {"v_rsq_f64", unary, RSQ, "1F"},
                                             {"v_sqrt_f64", unary, SQRT, "1F"},
                                             {"v_frexp_mant_f64", unary, FREXP_MANT, "1F"},
                                             {"v_frexp_exp_i32_f64", exponent, 0, "1F"},
                                             {"v_ldexp_f64", load_exponent, 0, "1I"},
                                             {"v_div_scale_f64", divide, SCALE, "2F"},
                                             {"v_div_fmas_f64", divide, FMAS, "1F"},
                                             {"v_div_fixup_f64", divide, FIXUP, "1F"},
                                             {"v_lshlrev_b64", shift, LSHLREV, "1I"},
                                             {"v_lshrrev_b64", shift, LSHRREV, "1I"},
                                             {"v_ashrrev_i64", shift, ASHRREV, "1I"},
                                             {"v_lshl_add_u64", shift_add, 0, "1I"},
                                             {"v_mad_u64_u32", multiply_add, MAD_U, "2I"},
                                             {"v_mad_i64_i32", multiply_add, MAD_I, "2I"},
                                             {"v_mad_co_u64_u32", multiply_add, MAD_U, "2I"},
                                             {"v_mad_co_i64_i32", multiply_add, MAD_I, "2I"},
                                             {0}};
