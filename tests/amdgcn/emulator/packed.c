/* Two or four values in a register: packed f16, integers of 16 bits, pairs of f32, mixed precision, dot products.
   op_sel picks the halves that make the low result, op_sel_hi those of the high one. Read next: compare.c.
   Source: AMD instruction set documents, VOP3P. */
#include "tests/amdgcn/emulator/half.h"

typedef enum packed_op {
    F_ADD,
    F_MUL,
    F_MIN,
    F_MAX,
    F_FMA,
    F_MINIMUM,
    F_MAXIMUM,
    ADD,
    SUB,
    ADD_I,
    SUB_I,
    MUL,
    MAD,
    LSHL,
    LSHR,
    ASHR,
    MIN_U,
    MAX_U,
    MIN_I,
    MAX_I,
    LO,
    HI,
    FULL,
    DOT2_F16,
    DOT2_BF16,
    DOT4_I8,
    DOT4_U8,
    DOT4_IU8,
    DOT8_I4,
    DOT8_U4,
    DOT8_IU4,
    DOT2_I16,
    DOT2_U16
} packed_op;

static double smaller(double a, double b) { return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b; }
static double larger(double a, double b) { return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b; }

static uint32_t float_of(int op, uint32_t x, uint32_t y, uint32_t z) {
    double a = (double)amdgcn_from_half(x), b = (double)amdgcn_from_half(y), r;
    switch (op) {
    case F_ADD: r = a + b; break;
    case F_MUL: r = a * b; break;
    case F_MIN: r = smaller(a, b); break;
    case F_MAX: r = larger(a, b); break;
    case F_MINIMUM: r = a != a ? a : b != b ? b : smaller(a, b); break;
    case F_MAXIMUM: r = a != a ? a : b != b ? b : larger(a, b); break;
    default: r = amdgcn_odd_fma(a, b, (double)amdgcn_from_half(z)); break;
    }
    return amdgcn_to_half(r);
}

static uint32_t integer_of(int op, uint32_t a, uint32_t b, uint32_t c) {
    int32_t x = (int16_t)a, y = (int16_t)b;
    switch (op) {
    case ADD:
    case ADD_I: return a + b;
    case SUB:
    case SUB_I: return a - b;
    case MUL: return a * b;
    case MAD: return a * b + c;
    case LSHL: return b << (a & 15);
    case LSHR: return b >> (a & 15);
    case ASHR: return (uint32_t)(y >> (a & 15));
    case MIN_U: return a < b ? a : b;
    case MAX_U: return a > b ? a : b;
    case MIN_I: return (uint32_t)(x < y ? x : y);
    default: return (uint32_t)(x > y ? x : y);
    }
}

static void pairs(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], r[LANES] = {0};
    const uint32_t *in[3];
    for (int s = 0; s < 3; s++) in[s] = amdgcn_words(w, &i->in[s < i->sources ? s : 0], 0, space[s]);
    if (i->clamp && i->op > F_MAXIMUM) {
        amdgcn_fail(w, -1, "saturating packed integers");
        return;
    }
    for (int half = 0; half < 2; half++) {
        unsigned select = half ? i->op_sel_hi : i->op_sel, negate = half ? i->neg_hi : i->neg_lo;
        for (int l = 0; l < LANES; l++) {
            uint32_t v[3];
            for (int s = 0; s < 3; s++)
                v[s] = (in[s][l] >> (select >> s & 1 ? 16 : 0) & 0xffff) ^ (negate >> s & 1 ? 0x8000 : 0);
            uint32_t x = i->op <= F_MAXIMUM ? float_of(i->op, v[0], v[1], v[2]) : integer_of(i->op, v[0], v[1], v[2]);
            if (i->clamp) {
                float f = amdgcn_from_half(x);
                x = f > 0 ? (f < 1 ? x : 0x3c00) : 0;
            }
            r[l] |= (x & 0xffff) << 16 * half;
        }
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* One word of a source of pairs of f32; a single register or constant serves both. */
static const uint32_t *word_of(amdgcn_wave *w, const amdgcn_operand *o, bool high, uint32_t *space) {
    return amdgcn_words(w, o, high && o->count > 1 ? 1 : 0, space);
}

WIDE static void float_pairs(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], result[2][LANES];
    for (int half = 0; half < 2; half++) {
        unsigned select = half ? i->op_sel_hi : i->op_sel, negate = half ? i->neg_hi : i->neg_lo;
        for (int s = 0; s < i->sources; s++) {
            const uint32_t *from = word_of(w, &i->in[s], select >> s & 1, space[s]);
            uint32_t flip = negate >> s & 1 ? 0x80000000 : 0;
            for (int l = 0; l < LANES; l++) space[s][l] = from[l] ^ flip;
        }
        const lane_f32 *a = (const lane_f32 *)space[0], *b = (const lane_f32 *)space[1],
                       *c = (const lane_f32 *)space[2];
        lane_f32 *r = (lane_f32 *)result[half];
        if (i->op == F_ADD)
            for (int l = 0; l < LANES; l++) r[l] = a[l] + b[l];
        else if (i->op == F_MUL)
            for (int l = 0; l < LANES; l++) r[l] = a[l] * b[l];
        else
            for (int l = 0; l < LANES; l++) r[l] = __builtin_fmaf(a[l], b[l], c[l]);
        if (i->clamp)
            for (int l = 0; l < LANES; l++) r[l] = r[l] > 0 ? (r[l] < 1 ? r[l] : 1) : 0;
    }
    amdgcn_put(w, &i->out[0], 0, result[0]);
    amdgcn_put(w, &i->out[0], 1, result[1]);
}

/* v_pk_mov_b32: op_sel bit 0 picks the word of the first source, bit 1 that of the second */
static void move_pairs(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], low[LANES], high[LANES];
    memcpy(low, word_of(w, &i->in[0], i->op_sel & 1, space[0]), sizeof low);
    memcpy(high, word_of(w, &i->in[1], i->op_sel >> 1 & 1, space[1]), sizeof high);
    amdgcn_put(w, &i->out[0], 0, low);
    amdgcn_put(w, &i->out[0], 1, high);
}

/* v_fma_mix: each source f32, or (op_sel_hi) a half that op_sel picks */
static void mixed(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    float v[3][LANES];
    for (int s = 0; s < 3; s++) {
        const uint32_t *from = amdgcn_words(w, &i->in[s], 0, space);
        bool half = i->op_sel_hi >> s & 1;
        int shift = i->op_sel >> s & 1 ? 16 : 0;
        for (int l = 0; l < LANES; l++) {
            float x = half ? amdgcn_from_half(from[l] >> shift & 0xffff) : number_f32(from[l]);
            if (i->in[s].absolute) x = fabsf(x);
            v[s][l] = i->in[s].negate ? -x : x;
        }
    }
    const uint32_t *before = amdgcn_row(w, &i->out[0], 0);
    for (int l = 0; l < LANES; l++) {
        float x = fmaf(v[0][l], v[1][l], v[2][l]);
        if (i->clamp) x = x > 0 ? (x < 1 ? x : 1) : 0;
        if (i->op == FULL)
            r[l] = number_bits32(x);
        else
            r[l] = i->op == LO ? (before[l] & 0xffff0000) | amdgcn_to_half((double)x)
                               : (before[l] & 0xffff) | amdgcn_to_half((double)x) << 16;
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* -- dot products */

static uint32_t dot_integers(uint32_t a, uint32_t b, uint32_t c, int bits, bool signed_a, bool signed_b, bool clamp) {
    int64_t sum = signed_a || signed_b ? (int64_t)(int32_t)c : (int64_t)c;
    for (int at = 0; at < 32; at += bits) {
        uint32_t x = a >> at & ((UINT32_C(1) << bits) - 1), y = b >> at & ((UINT32_C(1) << bits) - 1);
        int64_t p = x, q = y;
        if (signed_a && x >> (bits - 1)) p -= INT64_C(1) << bits;
        if (signed_b && y >> (bits - 1)) q -= INT64_C(1) << bits;
        sum += p * q;
    }
    if (clamp && (signed_a || signed_b)) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    if (clamp && !signed_a && !signed_b) sum = sum > (int64_t)UINT32_MAX ? (int64_t)UINT32_MAX : sum;
    return (uint32_t)sum;
}

static void dots(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]),
                   *c = amdgcn_words(w, &i->in[2], 0, space[2]);
    bool sa = i->neg_lo & 1, sb = i->neg_lo >> 1 & 1;
    for (int l = 0; l < LANES; l++) {
        switch (i->op) {
        case DOT2_F16:
            r[l] = number_bits32(
                fmaf(amdgcn_from_half(a[l] >> 16), amdgcn_from_half(b[l] >> 16),
                     fmaf(amdgcn_from_half(a[l] & 0xffff), amdgcn_from_half(b[l] & 0xffff), number_f32(c[l]))));
            break;
        case DOT2_BF16:
            r[l] = number_bits32(fmaf(number_f32(a[l] & 0xffff0000), number_f32(b[l] & 0xffff0000),
                                      fmaf(number_f32(a[l] << 16), number_f32(b[l] << 16), number_f32(c[l]))));
            break;
        case DOT4_I8: r[l] = dot_integers(a[l], b[l], c[l], 8, true, true, i->clamp); break;
        case DOT4_U8: r[l] = dot_integers(a[l], b[l], c[l], 8, false, false, i->clamp); break;
        case DOT4_IU8: r[l] = dot_integers(a[l], b[l], c[l], 8, sa, sb, i->clamp); break;
        case DOT8_I4: r[l] = dot_integers(a[l], b[l], c[l], 4, true, true, i->clamp); break;
        case DOT8_U4: r[l] = dot_integers(a[l], b[l], c[l], 4, false, false, i->clamp); break;
        case DOT8_IU4: r[l] = dot_integers(a[l], b[l], c[l], 4, sa, sb, i->clamp); break;
        case DOT2_I16: r[l] = dot_integers(a[l], b[l], c[l], 16, true, true, i->clamp); break;
        default: r[l] = dot_integers(a[l], b[l], c[l], 16, false, false, i->clamp); break;
        }
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

const amdgcn_opcode amdgcn_packed_opcodes[] = {{"v_pk_add_f16", pairs, F_ADD, "1p"},
                                               {"v_pk_mul_f16", pairs, F_MUL, "1p"},
                                               {"v_pk_min_f16", pairs, F_MIN, "1p"},
                                               {"v_pk_max_f16", pairs, F_MAX, "1p"},
                                               {"v_pk_min_num_f16", pairs, F_MIN, "1p"},
                                               {"v_pk_max_num_f16", pairs, F_MAX, "1p"},
                                               {"v_pk_minimum_f16", pairs, F_MINIMUM, "1p"},
                                               {"v_pk_maximum_f16", pairs, F_MAXIMUM, "1p"},
                                               {"v_pk_fma_f16", pairs, F_FMA, "1p"},
                                               {"v_pk_fmac_f16", pairs, F_FMA, "1pd"},
                                               {"v_pk_add_u16", pairs, ADD, "1p"},
                                               {"v_pk_add_i16", pairs, ADD_I, "1p"},
                                               {"v_pk_sub_u16", pairs, SUB, "1p"},
                                               {"v_pk_sub_i16", pairs, SUB_I, "1p"},
                                               {"v_pk_mul_lo_u16", pairs, MUL, "1p"},
                                               {"v_pk_mad_u16", pairs, MAD, "1p"},
                                               {"v_pk_mad_i16", pairs, MAD, "1p"},
                                               {"v_pk_lshlrev_b16", pairs, LSHL, "1p"},
                                               {"v_pk_lshrrev_b16", pairs, LSHR, "1p"},
                                               {"v_pk_ashrrev_i16", pairs, ASHR, "1p"},
                                               {"v_pk_min_u16", pairs, MIN_U, "1p"},
                                               {"v_pk_max_u16", pairs, MAX_U, "1p"},
                                               {"v_pk_min_i16", pairs, MIN_I, "1p"},
                                               {"v_pk_max_i16", pairs, MAX_I, "1p"},
                                               {"v_pk_add_f32", float_pairs, F_ADD, "1P"},
                                               {"v_pk_mul_f32", float_pairs, F_MUL, "1P"},
                                               {"v_pk_fma_f32", float_pairs, F_FMA, "1P"},
                                               {"v_pk_mov_b32", move_pairs, 0, "1P"},
                                               {"v_fma_mix_f32", mixed, FULL, "1m"},
                                               {"v_fma_mixlo_f16", mixed, LO, "1m"},
                                               {"v_fma_mixhi_f16", mixed, HI, "1m"},
                                               {"v_dot2_f32_f16", dots, DOT2_F16, "1f"},
                                               {"v_dot2c_f32_f16", dots, DOT2_F16, "1fd"},
                                               {"v_dot2acc_f32_f16", dots, DOT2_F16, "1fd"},
                                               {"v_dot2_f32_bf16", dots, DOT2_BF16, "1f"},
                                               {"v_dot2c_f32_bf16", dots, DOT2_BF16, "1fd"},
                                               {"v_dot2acc_f32_bf16", dots, DOT2_BF16, "1fd"},
                                               {"v_dot4_i32_i8", dots, DOT4_I8, "1"},
                                               {"v_dot4c_i32_i8", dots, DOT4_I8, "1id"},
                                               {"v_dot4_u32_u8", dots, DOT4_U8, "1"},
                                               {"v_dot4_i32_iu8", dots, DOT4_IU8, "1"},
                                               {"v_dot8_i32_i4", dots, DOT8_I4, "1"},
                                               {"v_dot8c_i32_i4", dots, DOT8_I4, "1id"},
                                               {"v_dot8_u32_u4", dots, DOT8_U4, "1"},
                                               {"v_dot8_i32_iu4", dots, DOT8_IU4, "1"},
                                               {"v_dot2_i32_i16", dots, DOT2_I16, "1"},
                                               {"v_dot2_u32_u16", dots, DOT2_U16, "1"},
                                               {0}};
