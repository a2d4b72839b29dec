/* 16-bit lanes, one in a register: floats and integers. Before gfx10 most results clear the upper half, later all of
   them keep it. Read next: packed.c. Source: AMD instruction set documents; LLVM, GCNSubtarget (what clears the upper
   half). */
#include "tests/amdgcn/emulator/half.h"

typedef enum half_op {
    F_ADD,
    F_SUB,
    F_SUBREV,
    F_MUL,
    F_MIN,
    F_MAX,
    F_FMA,
    F_MIN3,
    F_MAX3,
    F_MED3,
    F_MINIMUM,
    F_MAXIMUM,
    F_RCP,
    F_RSQ,
    F_SQRT,
    F_EXP,
    F_LOG,
    F_SIN,
    F_COS,
    F_TRUNC,
    F_CEIL,
    F_FLOOR,
    F_RNDNE,
    F_FRACT,
    F_MANT,
    ADD,
    ADD_I,
    SUB,
    SUB_I,
    SUBREV,
    MUL,
    LSHL,
    LSHR,
    ASHR,
    MIN_U,
    MIN_I,
    MAX_U,
    MAX_I,
    MAD,
    MIN3_U,
    MIN3_I,
    MAX3_U,
    MAX3_I,
    MED3_U,
    MED3_I,
    AND,
    OR,
    XOR,
    MOV,
    NOT
} half_op;

/* The 16 bits of a source, with its sign modifiers when `floats`. */
static void take(amdgcn_wave *w, const amdgcn_operand *o, bool floats, uint32_t *out) {
    uint32_t space[LANES];
    const uint32_t *words = amdgcn_words(w, o, 0, space);
    int shift = o->half && o->kind != CONSTANT ? 16 : 0;
    uint32_t keep = floats && o->absolute ? 0x7fff : 0xffff, flip = floats && o->negate ? 0x8000 : 0;
    for (int l = 0; l < LANES; l++) out[l] = (words[l] >> shift & keep) ^ flip;
}

static void put(amdgcn_wave *w, const amdgcn_instruction *i, const uint32_t *values, bool keeps) {
    uint32_t space[LANES];
    const uint32_t *before = amdgcn_row(w, &i->out[0], 0);
    bool high = i->out[0].half, kept = keeps || i->low_half || high;
    for (int l = 0; l < LANES; l++) {
        uint32_t value = values[l] & 0xffff;
        space[l] = high ? (before[l] & 0xffff) | value << 16 : kept ? (before[l] & 0xffff0000) | value : value;
    }
    amdgcn_put(w, &i->out[0], 0, space);
}

static double smaller(double a, double b) { return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b; }
static double larger(double a, double b) { return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b; }

static double float_of(int op, double a, double b, double c) {
    int exponent;
    switch (op) {
    case F_ADD: return a + b;
    case F_SUB: return a - b;
    case F_SUBREV: return b - a;
    case F_MUL: return a * b;
    case F_MIN: return smaller(a, b);
    case F_MAX: return larger(a, b);
    case F_MINIMUM: return a != a ? a : b != b ? b : smaller(a, b);
    case F_MAXIMUM: return a != a ? a : b != b ? b : larger(a, b);
    case F_FMA: return amdgcn_odd_fma(a, b, c);
    case F_MIN3: return smaller(smaller(a, b), c);
    case F_MAX3: return larger(larger(a, b), c);
    case F_MED3:
        return a != a || b != b || c != c ? smaller(smaller(a, b), c) : larger(smaller(a, b), smaller(larger(a, b), c));
    case F_RCP: return 1 / a;
    case F_RSQ: return 1 / sqrt(a);
    case F_SQRT: return sqrt(a);
    case F_EXP: return exp2(a);
    case F_LOG: return log2(a);
    case F_SIN: return sin(6.283185307179586476925 * (a - floor(a)));
    case F_COS: return cos(6.283185307179586476925 * (a - floor(a)));
    case F_TRUNC: return trunc(a);
    case F_CEIL: return ceil(a);
    case F_FLOOR: return floor(a);
    case F_RNDNE: return rint(a);
    case F_FRACT: a -= floor(a); return a < 1 ? a : 0.99951171875;
    default: return isfinite(a) && a != 0 ? frexp(a, &exponent) : a;
    }
}

static void floats(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t in[3][LANES], r[LANES];
    for (int s = 0; s < 3; s++) take(w, &i->in[s < i->sources ? s : 0], true, in[s]);
    for (int l = 0; l < LANES; l++) {
        double x = float_of(i->op, (double)amdgcn_from_half(in[0][l]), (double)amdgcn_from_half(in[1][l]),
                            (double)amdgcn_from_half(in[2][l]));
        if (i->scale) x = (double)amdgcn_from_half(amdgcn_to_half(x)) * (i->scale > 0 ? i->scale : 0.5);
        if (i->clamp) x = x > 0 ? (x < 1 ? x : 1) : 0;
        r[l] = amdgcn_to_half(x);
    }
    put(w, i, r, i->op == F_FMA);
}

static void exponent(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t in[LANES], r[LANES];
    take(w, &i->in[0], true, in);
    for (int l = 0; l < LANES; l++) {
        int e = 0;
        float x = amdgcn_from_half(in[l]);
        if (isfinite(x) && x != 0) (void)frexpf(x, &e);
        r[l] = (uint32_t)e;
    }
    put(w, i, r, false);
}

static void load_exponent(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t in[2][LANES], r[LANES];
    take(w, &i->in[0], true, in[0]);
    take(w, &i->in[1], false, in[1]);
    for (int l = 0; l < LANES; l++) r[l] = amdgcn_to_half(ldexp((double)amdgcn_from_half(in[0][l]), (int16_t)in[1][l]));
    put(w, i, r, false);
}

/* The quotient comes as f16 from an f32 division; only its special cases are put right. */
static void divide_fixup(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t in[3][LANES], r[LANES];
    for (int s = 0; s < 3; s++) take(w, &i->in[s], true, in[s]);
    for (int l = 0; l < LANES; l++) {
        float d = amdgcn_from_half(in[1][l]), n = amdgcn_from_half(in[2][l]);
        uint32_t sign = (in[1][l] ^ in[2][l]) & 0x8000;
        if (n != n || d != d)
            r[l] = (n != n ? in[2][l] : in[1][l]) | 0x200;
        else if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
            r[l] = 0xfe00;
        else if (d == 0 || isinf(n))
            r[l] = sign | 0x7c00;
        else
            r[l] = isinf(d) || n == 0 ? sign : sign | (in[0][l] & 0x7fff);
    }
    put(w, i, r, true);
}

static uint32_t integer_of(int op, uint32_t a, uint32_t b, uint32_t c) {
    int32_t x = (int16_t)a, y = (int16_t)b, z = (int16_t)c, low = x < y ? x : y, high = x < y ? y : x;
    uint32_t low_u = a < b ? a : b, high_u = a < b ? b : a;
    switch (op) {
    case ADD:
    case ADD_I: return a + b;
    case SUB:
    case SUB_I: return a - b;
    case SUBREV: return b - a;
    case MUL: return a * b;
    case LSHL: return b << (a & 15);
    case LSHR: return b >> (a & 15);
    case ASHR: return (uint32_t)(y >> (a & 15));
    case MIN_U: return low_u;
    case MAX_U: return high_u;
    case MIN_I: return (uint32_t)low;
    case MAX_I: return (uint32_t)high;
    case MAD: return a * b + c;
    case MIN3_U: return low_u < c ? low_u : c;
    case MAX3_U: return high_u > c ? high_u : c;
    case MED3_U: return c < low_u ? low_u : c > high_u ? high_u : c;
    case MIN3_I: return (uint32_t)(low < z ? low : z);
    case MAX3_I: return (uint32_t)(high > z ? high : z);
    case MED3_I: return (uint32_t)(z < low ? low : z > high ? high : z);
    case AND: return a & b;
    case OR: return a | b;
    case XOR: return a ^ b;
    case NOT: return ~a;
    default: return a;
    }
}

static void integers(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t in[3][LANES], r[LANES];
    for (int s = 0; s < 3; s++) take(w, &i->in[s < i->sources ? s : 0], false, in[s]);
    for (int l = 0; l < LANES; l++) r[l] = integer_of(i->op, in[0][l], in[1][l], in[2][l]);
    for (int l = 0; i->clamp && l < LANES; l++) {
        int32_t exact = i->op == ADD_I ? (int16_t)in[0][l] + (int16_t)in[1][l] : (int16_t)in[0][l] - (int16_t)in[1][l];
        if (i->op == ADD && in[0][l] + in[1][l] > 0xffff) r[l] = 0xffff;
        if (i->op == SUB && in[1][l] > in[0][l]) r[l] = 0;
        if (i->op == ADD_I || i->op == SUB_I)
            r[l] = (uint32_t)(exact > INT16_MAX ? INT16_MAX : exact < INT16_MIN ? INT16_MIN : exact);
    }
    put(w, i, r, i->op == MAD);
}

static void choose(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a[LANES], b[LANES];
    take(w, &i->in[0], true, a);
    take(w, &i->in[1], true, b);
    uint64_t mask = i->sources > 2 ? amdgcn_lanes_get(w, &i->in[2]) : w->pair[SCALAR_VCC / 2];
    for (int l = 0; l < LANES; l++) a[l] = mask >> l & 1 ? b[l] : a[l];
    put(w, i, a, false);
}

static void pack(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a[LANES], b[LANES];
    take(w, &i->in[0], true, a);
    take(w, &i->in[1], true, b);
    for (int l = 0; l < LANES; l++) a[l] |= b[l] << 16;
    amdgcn_put(w, &i->out[0], 0, a);
}

const amdgcn_opcode amdgcn_half_opcodes[] = {
    {"v_add_f16", floats, F_ADD, "1h"},         {"v_sub_f16", floats, F_SUB, "1h"},
    {"v_subrev_f16", floats, F_SUBREV, "1h"},   {"v_mul_f16", floats, F_MUL, "1h"},
    {"v_min_f16", floats, F_MIN, "1h"},         {"v_max_f16", floats, F_MAX, "1h"},
    {"v_min_num_f16", floats, F_MIN, "1h"},     {"v_max_num_f16", floats, F_MAX, "1h"},
    {"v_minimum_f16", floats, F_MINIMUM, "1h"}, {"v_maximum_f16", floats, F_MAXIMUM, "1h"},
    {"v_fma_f16", floats, F_FMA, "1h"},         {"v_fmac_f16", floats, F_FMA, "1hd"},
    {"v_fmaak_f16", floats, F_FMA, "1h"},       {"v_fmamk_f16", floats, F_FMA, "1h"},
    {"v_min3_f16", floats, F_MIN3, "1h"},       {"v_max3_f16", floats, F_MAX3, "1h"},
    {"v_med3_f16", floats, F_MED3, "1h"},       {"v_min3_num_f16", floats, F_MIN3, "1h"},
    {"v_max3_num_f16", floats, F_MAX3, "1h"},   {"v_med3_num_f16", floats, F_MED3, "1h"},
    {"v_rcp_f16", floats, F_RCP, "1h"},         {"v_rsq_f16", floats, F_RSQ, "1h"},
    {"v_sqrt_f16", floats, F_SQRT, "1h"},       {"v_exp_f16", floats, F_EXP, "1h"},
    {"v_log_f16", floats, F_LOG, "1h"},         {"v_sin_f16", floats, F_SIN, "1h"},
    {"v_cos_f16", floats, F_COS, "1h"},         {"v_trunc_f16", floats, F_TRUNC, "1h"},
    {"v_ceil_f16", floats, F_CEIL, "1h"},       {"v_floor_f16", floats, F_FLOOR, "1h"},
    {"v_rndne_f16", floats, F_RNDNE, "1h"},     {"v_fract_f16", floats, F_FRACT, "1h"},
    {"v_frexp_mant_f16", floats, F_MANT, "1h"}, {"v_frexp_exp_i16_f16", exponent, 0, "1h"},
    {"v_ldexp_f16", load_exponent, 0, "1h"},    {"v_div_fixup_f16", divide_fixup, 0, "1h"},
    {"v_add_u16", integers, ADD, "1h"},         {"v_add_nc_u16", integers, ADD, "1h"},
    {"v_add_i16", integers, ADD_I, "1h"},       {"v_add_nc_i16", integers, ADD_I, "1h"},
    {"v_sub_u16", integers, SUB, "1h"},         {"v_sub_nc_u16", integers, SUB, "1h"},
    {"v_sub_i16", integers, SUB_I, "1h"},       {"v_sub_nc_i16", integers, SUB_I, "1h"},
    {"v_subrev_u16", integers, SUBREV, "1h"},   {"v_mul_lo_u16", integers, MUL, "1h"},
    {"v_lshlrev_b16", integers, LSHL, "1h"},    {"v_lshrrev_b16", integers, LSHR, "1h"},
    {"v_ashrrev_i16", integers, ASHR, "1h"},    {"v_min_u16", integers, MIN_U, "1h"},
    {"v_max_u16", integers, MAX_U, "1h"},       {"v_min_i16", integers, MIN_I, "1h"},
    {"v_max_i16", integers, MAX_I, "1h"},       {"v_mad_u16", integers, MAD, "1h"},
    {"v_mad_i16", integers, MAD, "1h"},         {"v_mad_legacy_u16", integers, MAD, "1h"},
    {"v_min3_u16", integers, MIN3_U, "1h"},     {"v_min3_i16", integers, MIN3_I, "1h"},
    {"v_max3_u16", integers, MAX3_U, "1h"},     {"v_max3_i16", integers, MAX3_I, "1h"},
    {"v_med3_u16", integers, MED3_U, "1h"},     {"v_med3_i16", integers, MED3_I, "1h"},
    {"v_and_b16", integers, AND, "1h"},         {"v_or_b16", integers, OR, "1h"},
    {"v_xor_b16", integers, XOR, "1h"},         {"v_mov_b16", integers, MOV, "1h"},
    {"v_not_b16", integers, NOT, "1h"},         {"v_cndmask_b16", choose, 0, "1h"},
    {"v_pack_b32_f16", pack, 0, "1h"},          {0}};
