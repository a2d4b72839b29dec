/* f32 arithmetic of lanes. Approximations of the hardware (rcp, rsq, exp, log, sqrt, sin, cos) are within one unit in
   the last place and drop denormals; here they round towards zero and drop them too, so that code which needs more
   shows it. Read next: integer.c. Source: AMD instruction set documents, VOP1, VOP2, VOP3. */
#include "tests/amdgcn/emulator/half.h"

typedef enum float_op {
    ADD,
    SUB,
    SUBREV,
    MUL,
    MUL_ZERO,
    MIN,
    MAX,
    MINIMUM,
    MAXIMUM,
    FMA,
    MIN3,
    MAX3,
    MED3,
    MINMAX,
    MAXMIN,
    MINIMUM3,
    MAXIMUM3,
    MAD,
    TRUNC,
    CEIL,
    FLOOR,
    RNDNE,
    FRACT,
    RCP,
    RSQ,
    SQRT,
    EXP,
    LOG,
    SIN,
    COS,
    FREXP_MANT
} float_op;

/* -- one number at a time */

static inline float smaller(float a, float b) { /* minNum; -0 below +0 */
    if (a < b || b != b) return a;
    if (b < a || a != a) return b;
    return number_f32(number_bits32(a) | number_bits32(b));
}

static inline float larger(float a, float b) {
    if (a > b || b != b) return a;
    if (b > a || a != a) return b;
    return number_f32(number_bits32(a) & number_bits32(b));
}

static inline float smaller_or_nan(float a, float b) { return a != a ? a : b != b ? b : smaller(a, b); }
static inline float larger_or_nan(float a, float b) { return a != a ? a : b != b ? b : larger(a, b); }

static float median(float a, float b, float c) {
    if (a != a || b != b || c != c) return smaller(smaller(a, b), c);
    return larger(smaller(a, b), smaller(larger(a, b), c));
}

static inline float dropped(float x) { return fabsf(x) < 0x1p-126F ? copysignf(0, x) : x; }

/* x rounded towards zero, without denormals. */
static float approximate(double x) {
    float f = (float)x;
    if (f != f || isinf(x)) return f;
    if (fabs((double)f) > fabs(x)) f = number_f32(number_bits32(f) - 1);
    return dropped(f);
}

/* v_mad_f32 rounds the product and drops denormals everywhere */
static inline float multiplied_added(float a, float b, float c) {
    return dropped(dropped(dropped(a) * dropped(b)) + dropped(c));
}

static float fraction(float x) {
    float f = x - floorf(x);
    return f < 1 ? f : number_f32(0x3f7fffff);
}

static float turned(float x, bool cosine) { /* the argument counts turns */
    if (!isfinite(x)) return NAN;
    double turn = (double)x - floor((double)x), angle = turn * 6.283185307179586476925;
    if (turn == 0 || turn == 0.5) return cosine ? (turn == 0 ? 1 : -1) : 0;
    return (float)(cosine ? cos(angle) : sin(angle));
}

static float unary(int op, float x) {
    int exponent;
    switch (op) {
    case RCP: return approximate(1.0 / (double)dropped(x));
    case RSQ: return approximate(1.0 / sqrt((double)dropped(x)));
    case SQRT: return approximate(sqrt((double)dropped(x)));
    case EXP: return approximate(exp2((double)dropped(x)));
    case LOG: return approximate(log2((double)dropped(x)));
    case SIN: return turned(x, false);
    case COS: return turned(x, true);
    case FRACT: return fraction(x);
    default: return isfinite(x) && x != 0 ? frexpf(x, &exponent) : x;
    }
}

static void finish(amdgcn_wave *w, const amdgcn_instruction *i, uint32_t *result) {
    lane_f32 *r = (lane_f32 *)result;
    if (i->scale) {
        float factor = i->scale > 0 ? (float)i->scale : 0.5F;
        for (int l = 0; l < LANES; l++) r[l] *= factor;
    }
    if (i->clamp)
        for (int l = 0; l < LANES; l++) r[l] = r[l] > 0 ? (r[l] < 1 ? r[l] : 1) : 0;
    amdgcn_put(w, &i->out[0], 0, result);
}

/* -- two or three sources */

WIDE static void arithmetic(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]);
    lane_f32 *r = (lane_f32 *)result;
    switch (i->op) {
    case ADD:
        for (int l = 0; l < LANES; l++) r[l] = a[l] + b[l];
        break;
    case SUB:
        for (int l = 0; l < LANES; l++) r[l] = a[l] - b[l];
        break;
    case SUBREV:
        for (int l = 0; l < LANES; l++) r[l] = b[l] - a[l];
        break;
    case MUL:
        for (int l = 0; l < LANES; l++) r[l] = a[l] * b[l];
        break;
    case MUL_ZERO:
        for (int l = 0; l < LANES; l++) r[l] = a[l] == 0 || b[l] == 0 ? 0 : a[l] * b[l];
        break;
    case MIN:
        for (int l = 0; l < LANES; l++) r[l] = smaller(a[l], b[l]);
        break;
    case MAX:
        for (int l = 0; l < LANES; l++) r[l] = larger(a[l], b[l]);
        break;
    case MINIMUM:
        for (int l = 0; l < LANES; l++) r[l] = smaller_or_nan(a[l], b[l]);
        break;
    default:
        for (int l = 0; l < LANES; l++) r[l] = larger_or_nan(a[l], b[l]);
        break;
    }
    finish(w, i, result);
}

WIDE static void arithmetic3(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]),
                   *c = amdgcn_floats(w, &i->in[2], space[2]);
    lane_f32 *r = (lane_f32 *)result;
    switch (i->op) {
    case FMA:
        for (int l = 0; l < LANES; l++) r[l] = __builtin_fmaf(a[l], b[l], c[l]);
        break;
    case MAD:
        for (int l = 0; l < LANES; l++) r[l] = multiplied_added(a[l], b[l], c[l]);
        break;
    case MIN3:
        for (int l = 0; l < LANES; l++) r[l] = smaller(smaller(a[l], b[l]), c[l]);
        break;
    case MAX3:
        for (int l = 0; l < LANES; l++) r[l] = larger(larger(a[l], b[l]), c[l]);
        break;
    case MED3:
        for (int l = 0; l < LANES; l++) r[l] = median(a[l], b[l], c[l]);
        break;
    case MINMAX:
        for (int l = 0; l < LANES; l++) r[l] = larger(smaller(a[l], b[l]), c[l]);
        break;
    case MAXMIN:
        for (int l = 0; l < LANES; l++) r[l] = smaller(larger(a[l], b[l]), c[l]);
        break;
    case MINIMUM3:
        for (int l = 0; l < LANES; l++) r[l] = smaller_or_nan(smaller_or_nan(a[l], b[l]), c[l]);
        break;
    default:
        for (int l = 0; l < LANES; l++) r[l] = larger_or_nan(larger_or_nan(a[l], b[l]), c[l]);
        break;
    }
    finish(w, i, result);
}

/* -- one source */

WIDE static void rounding(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space);
    lane_f32 *r = (lane_f32 *)result;
    switch (i->op) {
    case TRUNC:
        for (int l = 0; l < LANES; l++) r[l] = __builtin_truncf(a[l]);
        break;
    case CEIL:
        for (int l = 0; l < LANES; l++) r[l] = __builtin_ceilf(a[l]);
        break;
    case FLOOR:
        for (int l = 0; l < LANES; l++) r[l] = __builtin_floorf(a[l]);
        break;
    default:
        for (int l = 0; l < LANES; l++) r[l] = __builtin_rintf(a[l]);
        break;
    }
    finish(w, i, result);
}

static void function(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space);
    lane_f32 *r = (lane_f32 *)result;
    uint64_t exec = amdgcn_exec(w);
    for (int l = 0; l < LANES; l++) r[l] = exec >> l & 1 ? unary(i->op, a[l]) : 0;
    finish(w, i, result);
}

static void exponent(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space);
    for (int l = 0; l < LANES; l++) {
        int e = 0;
        if (isfinite(a[l]) && a[l] != 0) (void)frexpf(a[l], &e);
        result[l] = (uint32_t)e;
    }
    amdgcn_put(w, &i->out[0], 0, result);
}

static void load_exponent(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]);
    const uint32_t *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    lane_f32 *r = (lane_f32 *)result;
    for (int l = 0; l < LANES; l++) r[l] = ldexpf(a[l], (int32_t)b[l]);
    finish(w, i, result);
}

/* -- division in three steps; the ISA documents give the conditions */

static int biased(float x) { return (int)(number_bits32(x) >> 23 & 255); }
static bool is_denormal(double x) { return x != 0 && fabs(x) < 0x1p-126; }

static float scale_one(float s0, float s1, float s2, bool *out_flag) {
    double reciprocal = 1.0 / (double)s1, quotient = (double)s2 / (double)s1;
    *out_flag = false;
    if (s2 == 0 || s1 == 0) return NAN;
    if (biased(s2) - biased(s1) >= 96) {
        *out_flag = true;
        return s0 == s1 ? ldexpf(s0, 64) : s0;
    }
    if (is_denormal((double)s1)) return ldexpf(s0, 64);
    if (is_denormal(reciprocal) && is_denormal(quotient)) {
        *out_flag = true;
        return s0 == s1 ? ldexpf(s0, 64) : s0;
    }
    if (is_denormal(reciprocal)) return ldexpf(s0, -64);
    if (is_denormal(quotient)) {
        *out_flag = true;
        return s0 == s2 ? ldexpf(s0, 64) : s0;
    }
    return biased(s2) <= 23 ? ldexpf(s0, 64) : s0;
}

static void divide_scale(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]),
                   *c = amdgcn_floats(w, &i->in[2], space[2]);
    uint64_t flags = 0;
    for (int l = 0; l < LANES; l++) {
        bool flag;
        result[l] = number_bits32(scale_one(a[l], b[l], c[l], &flag));
        flags |= (uint64_t)flag << l;
    }
    amdgcn_put(w, &i->out[0], 0, result);
    amdgcn_lanes_set(w, &i->out[1], flags & amdgcn_exec(w));
}

WIDE static void fuse(const lane_f32 *a, const lane_f32 *b, const lane_f32 *c, lane_f32 *out) {
    for (int l = 0; l < LANES; l++) out[l] = __builtin_fmaf(a[l], b[l], c[l]);
}

static void divide_fmas(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]),
                   *c = amdgcn_floats(w, &i->in[2], space[2]);
    uint64_t vcc = w->pair[SCALAR_VCC / 2];
    fuse(a, b, c, (lane_f32 *)result);
    for (int l = 0; l < LANES && vcc; l++)
        if (vcc >> l & 1) { /* one rounding, of the scaled sum */
            double sum = amdgcn_odd_fma((double)a[l], (double)b[l], (double)c[l]);
            result[l] = number_bits32((float)ldexp(sum, biased(c[l]) > 127 ? 64 : -64));
        }
    finish(w, i, result);
}

static float fixed_up(float q, float d, float n) {
    bool negative = signbit(d) != signbit(n);
    if (n != n) return n;
    if (d != d) return d;
    if ((d == 0 && n == 0) || (isinf(d) && isinf(n))) return -NAN;
    if (d == 0 || isinf(n)) return negative ? -INFINITY : INFINITY;
    if (isinf(d) || n == 0) return negative ? -0.0F : 0.0F;
    if (biased(n) - biased(d) < -150) return negative ? -0.0F : 0.0F;
    if (q != q) return negative ? -INFINITY : INFINITY; /* the estimate has overflowed */
    return negative ? -fabsf(q) : fabsf(q);
}

static void divide_fixup(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], result[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]),
                   *c = amdgcn_floats(w, &i->in[2], space[2]);
    for (int l = 0; l < LANES; l++) result[l] = number_bits32(fixed_up(a[l], b[l], c[l]));
    finish(w, i, result);
}

const amdgcn_opcode amdgcn_float_opcodes[] = {{"v_add_f32", arithmetic, ADD, "1f"},
                                              {"v_sub_f32", arithmetic, SUB, "1f"},
                                              {"v_subrev_f32", arithmetic, SUBREV, "1f"},
                                              {"v_mul_f32", arithmetic, MUL, "1f"},
                                              {"v_mul_legacy_f32", arithmetic, MUL_ZERO, "1f"},
                                              {"v_mul_dx9_zero_f32", arithmetic, MUL_ZERO, "1f"},
                                              {"v_min_f32", arithmetic, MIN, "1f"},
                                              {"v_max_f32", arithmetic, MAX, "1f"},
                                              {"v_min_num_f32", arithmetic, MIN, "1f"},
                                              {"v_max_num_f32", arithmetic, MAX, "1f"},
                                              {"v_minimum_f32", arithmetic, MINIMUM, "1f"},
                                              {"v_maximum_f32", arithmetic, MAXIMUM, "1f"},
                                              {"v_fma_f32", arithmetic3, FMA, "1f"},
                                              {"v_fmac_f32", arithmetic3, FMA, "1fd"},
                                              {"v_fmaak_f32", arithmetic3, FMA, "1f"},
                                              {"v_fmamk_f32", arithmetic3, FMA, "1f"},
                                              {"v_mad_f32", arithmetic3, MAD, "1f"},
                                              {"v_mac_f32", arithmetic3, MAD, "1fd"},
                                              {"v_madak_f32", arithmetic3, MAD, "1f"},
                                              {"v_madmk_f32", arithmetic3, MAD, "1f"},
                                              {"v_min3_f32", arithmetic3, MIN3, "1f"},
                                              {"v_max3_f32", arithmetic3, MAX3, "1f"},
                                              {"v_med3_f32", arithmetic3, MED3, "1f"},
                                              {"v_min3_num_f32", arithmetic3, MIN3, "1f"},
                                              {"v_max3_num_f32", arithmetic3, MAX3, "1f"},
                                              {"v_med3_num_f32", arithmetic3, MED3, "1f"},
                                              {"v_minmax_f32", arithmetic3, MINMAX, "1f"},
                                              {"v_maxmin_f32", arithmetic3, MAXMIN, "1f"},
                                              {"v_minmax_num_f32", arithmetic3, MINMAX, "1f"},
                                              {"v_maxmin_num_f32", arithmetic3, MAXMIN, "1f"},
                                              {"v_minimum3_f32", arithmetic3, MINIMUM3, "1f"},
                                              {"v_maximum3_f32", arithmetic3, MAXIMUM3, "1f"},
                                              {"v_trunc_f32", rounding, TRUNC, "1f"},
                                              {"v_ceil_f32", rounding, CEIL, "1f"},
                                              {"v_floor_f32", rounding, FLOOR, "1f"},
                                              {"v_rndne_f32", rounding, RNDNE, "1f"},
                                              {"v_fract_f32", function, FRACT, "1f"},
                                              {"v_rcp_f32", function, RCP, "1f"},
                                              {"v_rcp_iflag_f32", function, RCP, "1f"},
                                              {"v_rsq_f32", function, RSQ, "1f"},
                                              {"v_sqrt_f32", function, SQRT, "1f"},
                                              {"v_exp_f32", function, EXP, "1f"},
                                              {"v_log_f32", function, LOG, "1f"},
                                              {"v_sin_f32", function, SIN, "1f"},
                                              {"v_cos_f32", function, COS, "1f"},
                                              {"v_frexp_mant_f32", function, FREXP_MANT, "1f"},
                                              {"v_frexp_exp_i32_f32", exponent, 0, "1f"},
                                              {"v_ldexp_f32", load_exponent, 0, "1f"},
                                              {"v_div_scale_f32", divide_scale, 0, "2f"},
                                              {"v_div_fmas_f32", divide_fmas, 0, "1f"},
                                              {"v_div_fixup_f32", divide_fixup, 0, "1f"},
                                              {0}};
