/* 32-bit and 16-bit integers of lanes: arithmetic, bits, carries, selections.
   Read next: wide.c (64 bits). Source: AMD instruction set documents, VOP1, VOP2, VOP3. */
#include "tests/amdgcn/emulator/internal.h"

typedef enum integer_op {
    MOV,
    NOT,
    BREV,
    FFBH_U,
    FFBL,
    FFBH_I,
    ADD,
    SUB,
    SUBREV,
    MUL_LO,
    MUL_HI_U,
    MUL_HI_I,
    MUL_U24,
    MUL_I24,
    MUL_HI_U24,
    MUL_HI_I24,
    MIN_U,
    MIN_I,
    MAX_U,
    MAX_I,
    AND,
    OR,
    XOR,
    XNOR,
    LSHL,
    LSHR,
    ASHR,
    BCNT,
    BFM,
    CVT_PK_U16,
    CVT_PK_I16,
    ADD3,
    LSHL_ADD,
    ADD_LSHL,
    XAD,
    LSHL_OR,
    AND_OR,
    OR3,
    XOR3,
    BFE_U,
    BFE_I,
    BFI,
    ALIGNBIT,
    ALIGNBYTE,
    PERM,
    MAD_U24,
    MAD_I24,
    MIN3_U,
    MIN3_I,
    MAX3_U,
    MAX3_I,
    MED3_U,
    MED3_I,
    MINMAX_U,
    MINMAX_I,
    MAXMIN_U,
    MAXMIN_I,
    SAD_U8,
    SAD_U32,
    MAD_U32_U16,
    MAD_I32_I16
} integer_op;

/* -- one source */

static uint32_t unary_of(int op, uint32_t a) {
    uint32_t r = 0;
    switch (op) {
    case NOT: return ~a;
    case BREV:
        for (int bit = 0; bit < 32; bit++) r |= (a >> bit & 1) << (31 - bit);
        return r;
    case FFBH_U: return a ? (uint32_t)__builtin_clz(a) : UINT32_MAX;
    case FFBL: return a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX;
    default: r = (int32_t)a < 0 ? ~a : a; return r ? (uint32_t)__builtin_clz(r) : UINT32_MAX;
    }
}

static void unary(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space);
    for (int l = 0; l < LANES; l++) r[l] = unary_of(i->op, a[l]);
    amdgcn_put(w, &i->out[0], 0, r);
}

/* v_mov_b32 takes float modifiers where it is encoded with them */
static void move(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES];
    amdgcn_put(w, &i->out[0], 0, (const uint32_t *)amdgcn_floats(w, &i->in[0], space));
}

static void move_wide(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[LANES];
    amdgcn_put_wide(w, &i->out[0], amdgcn_wide(w, &i->in[0], space));
}

/* -- two sources */

WIDE static void binary(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    const lane_i32 *sa = (const lane_i32 *)a, *sb = (const lane_i32 *)b;
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
    case MUL_LO:
        for (int l = 0; l < LANES; l++) r[l] = a[l] * b[l];
        break;
    case MUL_HI_U:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)((uint64_t)a[l] * b[l] >> 32);
        break;
    case MUL_HI_I:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)((uint64_t)((int64_t)sa[l] * sb[l]) >> 32);
        break;
    case MUL_U24:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] & 0xffffff) * (b[l] & 0xffffff);
        break;
    case MUL_I24:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)(sa[l] << 8 >> 8) * (uint32_t)(sb[l] << 8 >> 8);
        break;
    case MUL_HI_U24:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)((uint64_t)(a[l] & 0xffffff) * (b[l] & 0xffffff) >> 32);
        break;
    case MUL_HI_I24:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)((int64_t)(sa[l] << 8 >> 8) * (sb[l] << 8 >> 8) >> 32);
        break;
    case MIN_U:
        for (int l = 0; l < LANES; l++) r[l] = a[l] < b[l] ? a[l] : b[l];
        break;
    case MAX_U:
        for (int l = 0; l < LANES; l++) r[l] = a[l] > b[l] ? a[l] : b[l];
        break;
    case MIN_I:
        for (int l = 0; l < LANES; l++) r[l] = sa[l] < sb[l] ? a[l] : b[l];
        break;
    case MAX_I:
        for (int l = 0; l < LANES; l++) r[l] = sa[l] > sb[l] ? a[l] : b[l];
        break;
    case AND:
        for (int l = 0; l < LANES; l++) r[l] = a[l] & b[l];
        break;
    case OR:
        for (int l = 0; l < LANES; l++) r[l] = a[l] | b[l];
        break;
    case XOR:
        for (int l = 0; l < LANES; l++) r[l] = a[l] ^ b[l];
        break;
    case XNOR:
        for (int l = 0; l < LANES; l++) r[l] = ~(a[l] ^ b[l]);
        break;
    case LSHL:
        for (int l = 0; l < LANES; l++) r[l] = b[l] << (a[l] & 31);
        break; /* the count is the first source */
    case LSHR:
        for (int l = 0; l < LANES; l++) r[l] = b[l] >> (a[l] & 31);
        break;
    case ASHR:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)(sb[l] >> (a[l] & 31));
        break;
    case BCNT:
        for (int l = 0; l < LANES; l++) r[l] = (uint32_t)__builtin_popcount(a[l]) + b[l];
        break;
    case CVT_PK_U16:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] > 0xffff ? 0xffff : a[l]) | (b[l] > 0xffff ? 0xffff : b[l]) << 16;
        break;
    case CVT_PK_I16:
        for (int l = 0; l < LANES; l++) {
            int32_t x = sa[l] > 32767    ? 32767
                        : sa[l] < -32768 ? -32768
                                         : sa[l],
                    y = sb[l] > 32767    ? 32767
                        : sb[l] < -32768 ? -32768
                                         : sb[l];
            r[l] = ((uint32_t)x & 0xffff) | (uint32_t)y << 16;
        }
        break;
    default:
        for (int l = 0; l < LANES; l++) r[l] = ((UINT32_C(1) << (a[l] & 31)) - 1) << (b[l] & 31);
        break; /* BFM */
    }
    if (i->clamp) { /* v_add_u32 and v_sub_u32 saturate */
        for (int l = 0; l < LANES; l++) {
            if (i->op == ADD && r[l] < a[l]) r[l] = UINT32_MAX;
            if (i->op == SUB && b[l] > a[l]) r[l] = 0;
            if (i->op == SUBREV && a[l] > b[l]) r[l] = 0;
        }
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* Saturating signed sums: v_add_i32 with clamp. */
static void signed_sum(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES];
    const lane_i32 *a = (const lane_i32 *)amdgcn_words(w, &i->in[0], 0, space[0]),
                   *b = (const lane_i32 *)amdgcn_words(w, &i->in[1], 0, space[1]);
    for (int l = 0; l < LANES; l++) {
        int64_t exact = i->op == ADD ? (int64_t)a[l] + b[l] : (int64_t)a[l] - b[l];
        if (i->clamp) exact = exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact;
        r[l] = (uint32_t)exact;
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* -- three sources */

static uint32_t permuted(uint32_t high, uint32_t low, uint32_t selector) {
    uint64_t bytes = (uint64_t)high << 32 | low;
    uint32_t r = 0;
    for (int byte = 0; byte < 4; byte++) {
        uint32_t s = selector >> 8 * byte & 255, value;
        if (s < 8)
            value = bytes >> 8 * s & 255;
        else if (s < 12)
            value = bytes >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
        else
            value = s == 12 ? 0 : 255;
        r |= value << 8 * byte;
    }
    return r;
}

static uint32_t extracted(uint32_t a, uint32_t offset, uint32_t width, bool extend) {
    uint32_t r = extend ? (uint32_t)((int32_t)a >> (offset & 31)) : a >> (offset & 31); /* beyond the word: signs */
    width &= 31;
    if (!width) return 0;
    r &= (UINT32_C(1) << width) - 1;
    return extend && (r >> (width - 1) & 1) ? r | UINT32_MAX << width : r;
}

static uint32_t difference_bytes(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (int byte = 0; byte < 4; byte++) {
        int x = a >> 8 * byte & 255, y = b >> 8 * byte & 255;
        sum += (uint32_t)(x > y ? x - y : y - x);
    }
    return sum;
}

static uint32_t ordered(int op, uint32_t a, uint32_t b, uint32_t c) {
    int32_t x = (int32_t)a, y = (int32_t)b, z = (int32_t)c;
    uint32_t low_u = a < b ? a : b, high_u = a < b ? b : a;
    int32_t low = x < y ? x : y, high = x < y ? y : x;
    switch (op) {
    case MIN3_U: return low_u < c ? low_u : c;
    case MAX3_U: return high_u > c ? high_u : c;
    case MED3_U: return c < low_u ? low_u : c > high_u ? high_u : c;
    case MIN3_I: return (uint32_t)(low < z ? low : z);
    case MAX3_I: return (uint32_t)(high > z ? high : z);
    case MED3_I: return (uint32_t)(z < low ? low : z > high ? high : z);
    case MINMAX_U: return low_u > c ? low_u : c;
    case MINMAX_I: return (uint32_t)(low > z ? low : z);
    case MAXMIN_U: return high_u < c ? high_u : c;
    default: return (uint32_t)(high < z ? high : z);
    }
}

static uint32_t ternary_of(int op, uint32_t a, uint32_t b, uint32_t c) {
    switch (op) {
    case BFE_U:
    case BFE_I: return extracted(a, b, c, op == BFE_I);
    case ALIGNBIT: return (uint32_t)(((uint64_t)a << 32 | b) >> (c & 31));
    case ALIGNBYTE: return (uint32_t)(((uint64_t)a << 32 | b) >> 8 * (c & 3));
    case PERM: return permuted(a, b, c);
    case MAD_U24: return (a & 0xffffff) * (b & 0xffffff) + c;
    case MAD_I24: return (uint32_t)((int32_t)(a << 8) >> 8) * (uint32_t)((int32_t)(b << 8) >> 8) + c;
    case SAD_U8: return difference_bytes(a, b) + c;
    case SAD_U32: return (a > b ? a - b : b - a) + c;
    case MAD_U32_U16: return (a & 0xffff) * (b & 0xffff) + c;
    case MAD_I32_I16: return (uint32_t)((int32_t)(int16_t)a * (int16_t)b) + c;
    default: return ordered(op, a, b, c);
    }
}

WIDE static void ternary(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]),
                   *c = amdgcn_words(w, &i->in[2], 0, space[2]);
    switch (i->op) {
    case ADD3:
        for (int l = 0; l < LANES; l++) r[l] = a[l] + b[l] + c[l];
        break;
    case LSHL_ADD:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] << (b[l] & 31)) + c[l];
        break;
    case ADD_LSHL:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] + b[l]) << (c[l] & 31);
        break;
    case XAD:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] ^ b[l]) + c[l];
        break;
    case LSHL_OR:
        for (int l = 0; l < LANES; l++) r[l] = a[l] << (b[l] & 31) | c[l];
        break;
    case AND_OR:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] & b[l]) | c[l];
        break;
    case OR3:
        for (int l = 0; l < LANES; l++) r[l] = a[l] | b[l] | c[l];
        break;
    case XOR3:
        for (int l = 0; l < LANES; l++) r[l] = a[l] ^ b[l] ^ c[l];
        break;
    case BFI:
        for (int l = 0; l < LANES; l++) r[l] = (a[l] & b[l]) | (~a[l] & c[l]);
        break;
    default:
        for (int l = 0; l < LANES; l++) r[l] = ternary_of(i->op, a[l], b[l], c[l]);
        break;
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* -- carries: destination, mask of carries; for the later words a mask of carries in */

static void carry(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    uint64_t in = i->sources > 2 ? amdgcn_lanes_get(w, &i->in[2]) : 0, out = 0;
    for (int l = 0; l < LANES; l++) {
        uint64_t bit = in >> l & 1, exact;
        if (i->op == ADD)
            exact = (uint64_t)a[l] + b[l] + bit;
        else
            exact = i->op == SUB ? (uint64_t)a[l] - b[l] - bit : (uint64_t)b[l] - a[l] - bit;
        r[l] = (uint32_t)exact;
        out |= (exact >> 32 & 1) << l;
    }
    amdgcn_put(w, &i->out[0], 0, r);
    amdgcn_lanes_set(w, &i->out[1], out & amdgcn_exec(w));
}

/* v_cndmask_b32: in pairs (VOPD) the mask is VCC without being named */
static void choose(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES];
    const uint32_t *a = (const uint32_t *)amdgcn_floats(w, &i->in[0], space[0]),
                   *b = (const uint32_t *)amdgcn_floats(w, &i->in[1], space[1]);
    uint64_t mask = i->sources > 2 ? amdgcn_lanes_get(w, &i->in[2]) : w->pair[SCALAR_VCC / 2];
    for (int l = 0; l < LANES; l++) r[l] = mask >> l & 1 ? b[l] : a[l];
    amdgcn_put(w, &i->out[0], 0, r);
}

const amdgcn_opcode amdgcn_integer_opcodes[] = {{"v_mov_b32", move, 0, "1f"},
                                                {"v_mov_b64", move_wide, 0, "1I"},
                                                {"v_accvgpr_write_b32", move, 0, "1f"},
                                                {"v_accvgpr_read_b32", move, 0, "1f"},
                                                {"v_accvgpr_write", move, 0, "1f"},
                                                {"v_accvgpr_read", move, 0, "1f"},
                                                {"v_accvgpr_mov_b32", move, 0, "1f"},
                                                {"v_nop", amdgcn_run_nothing, 0, "-"},
                                                {"v_not_b32", unary, NOT, "1"},
                                                {"v_bfrev_b32", unary, BREV, "1"},
                                                {"v_ffbh_u32", unary, FFBH_U, "1"},
                                                {"v_clz_i32_u32", unary, FFBH_U, "1"},
                                                {"v_ffbl_b32", unary, FFBL, "1"},
                                                {"v_ctz_i32_b32", unary, FFBL, "1"},
                                                {"v_ffbh_i32", unary, FFBH_I, "1"},
                                                {"v_cls_i32", unary, FFBH_I, "1"},
                                                {"v_add_u32", binary, ADD, "1"},
                                                {"v_add_nc_u32", binary, ADD, "1"},
                                                {"v_sub_u32", binary, SUB, "1"},
                                                {"v_sub_nc_u32", binary, SUB, "1"},
                                                {"v_subrev_u32", binary, SUBREV, "1"},
                                                {"v_subrev_nc_u32", binary, SUBREV, "1"},
                                                {"v_add_i32", signed_sum, ADD, "1"},
                                                {"v_add_nc_i32", signed_sum, ADD, "1"},
                                                {"v_sub_i32", signed_sum, SUB, "1"},
                                                {"v_sub_nc_i32", signed_sum, SUB, "1"},
                                                {"v_mul_lo_u32", binary, MUL_LO, "1"},
                                                {"v_mul_hi_u32", binary, MUL_HI_U, "1"},
                                                {"v_mul_hi_i32", binary, MUL_HI_I, "1"},
                                                {"v_mul_u32_u24", binary, MUL_U24, "1"},
                                                {"v_mul_i32_i24", binary, MUL_I24, "1"},
                                                {"v_mul_hi_u32_u24", binary, MUL_HI_U24, "1"},
                                                {"v_mul_hi_i32_i24", binary, MUL_HI_I24, "1"},
                                                {"v_min_u32", binary, MIN_U, "1"},
                                                {"v_max_u32", binary, MAX_U, "1"},
                                                {"v_min_i32", binary, MIN_I, "1"},
                                                {"v_max_i32", binary, MAX_I, "1"},
                                                {"v_and_b32", binary, AND, "1"},
                                                {"v_or_b32", binary, OR, "1"},
                                                {"v_xor_b32", binary, XOR, "1"},
                                                {"v_xnor_b32", binary, XNOR, "1"},
                                                {"v_lshlrev_b32", binary, LSHL, "1"},
                                                {"v_lshrrev_b32", binary, LSHR, "1"},
                                                {"v_ashrrev_i32", binary, ASHR, "1"},
                                                {"v_bcnt_u32_b32", binary, BCNT, "1"},
                                                {"v_bfm_b32", binary, BFM, "1"},
                                                {"v_cvt_pk_u16_u32", binary, CVT_PK_U16, "1"},
                                                {"v_cvt_pk_i16_i32", binary, CVT_PK_I16, "1"},
                                                {"v_add3_u32", ternary, ADD3, "1"},
                                                {"v_lshl_add_u32", ternary, LSHL_ADD, "1"},
                                                {"v_add_lshl_u32", ternary, ADD_LSHL, "1"},
                                                {"v_xad_u32", ternary, XAD, "1"},
                                                {"v_lshl_or_b32", ternary, LSHL_OR, "1"},
                                                {"v_and_or_b32", ternary, AND_OR, "1"},
                                                {"v_or3_b32", ternary, OR3, "1"},
                                                {"v_xor3_b32", ternary, XOR3, "1"},
                                                {"v_bfe_u32", ternary, BFE_U, "1"},
                                                {"v_bfe_i32", ternary, BFE_I, "1"},
                                                {"v_bfi_b32", ternary, BFI, "1"},
                                                {"v_alignbit_b32", ternary, ALIGNBIT, "1"},
                                                {"v_alignbyte_b32", ternary, ALIGNBYTE, "1"},
                                                {"v_perm_b32", ternary, PERM, "1"},
                                                {"v_mad_u32_u24", ternary, MAD_U24, "1"},
                                                {"v_mad_i32_i24", ternary, MAD_I24, "1"},
                                                {"v_mad_u32_u16", ternary, MAD_U32_U16, "1"},
                                                {"v_mad_i32_i16", ternary, MAD_I32_I16, "1"},
                                                {"v_min3_u32", ternary, MIN3_U, "1"},
                                                {"v_min3_i32", ternary, MIN3_I, "1"},
                                                {"v_max3_u32", ternary, MAX3_U, "1"},
                                                {"v_max3_i32", ternary, MAX3_I, "1"},
                                                {"v_med3_u32", ternary, MED3_U, "1"},
                                                {"v_med3_i32", ternary, MED3_I, "1"},
                                                {"v_minmax_u32", ternary, MINMAX_U, "1"},
                                                {"v_minmax_i32", ternary, MINMAX_I, "1"},
                                                {"v_maxmin_u32", ternary, MAXMIN_U, "1"},
                                                {"v_maxmin_i32", ternary, MAXMIN_I, "1"},
                                                {"v_sad_u8", ternary, SAD_U8, "1"},
                                                {"v_sad_u32", ternary, SAD_U32, "1"},
                                                {"v_add_co_u32", carry, ADD, "2"},
                                                {"v_addc_co_u32", carry, ADD, "2"},
                                                {"v_add_co_ci_u32", carry, ADD, "2"},
                                                {"v_sub_co_u32", carry, SUB, "2"},
                                                {"v_subb_co_u32", carry, SUB, "2"},
                                                {"v_sub_co_ci_u32", carry, SUB, "2"},
                                                {"v_subrev_co_u32", carry, SUBREV, "2"},
                                                {"v_subbrev_co_u32", carry, SUBREV, "2"},
                                                {"v_subrev_co_ci_u32", carry, SUBREV, "2"},
                                                {"v_cndmask_b32", choose, 0, "1f"},
                                                {0}};
