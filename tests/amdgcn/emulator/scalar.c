/* Scalar arithmetic: one value for the wavefront, in general registers; most instructions also set SCC.
   Read next: control.c (jumps, scalar loads), float.c. Source: AMD instruction set documents, SOP1, SOP2, SOPC, SOPK.
 */
#include <math.h>

#include "tests/amdgcn/emulator/internal.h"

typedef enum scalar_op {
    ADD_U,
    ADD_I,
    SUB_U,
    SUB_I,
    ADDC,
    SUBB,
    MUL,
    MUL_HI_U,
    MUL_HI_I,
    MIN_U,
    MIN_I,
    MAX_U,
    MAX_I,
    AND,
    OR,
    XOR,
    ANDN,
    ORN,
    NAND,
    NOR,
    XNOR,
    LSHL,
    LSHR,
    ASHR,
    BFE_U,
    BFE_I,
    BFM,
    LSHL_ADD1,
    LSHL_ADD2,
    LSHL_ADD3,
    LSHL_ADD4,
    PACK_LL,
    PACK_LH,
    PACK_HH,
    PACK_HL,
    ABSDIFF,
    CSELECT,
    ADD_NC,
    SUB_NC,
    MOV,
    MOVK,
    NOT,
    BREV,
    BCNT0,
    BCNT1,
    FF1,
    FLBIT,
    CLS,
    SEXT8,
    SEXT16,
    ABS,
    CMOV,
    BITSET0,
    BITSET1,
    WQM,
    FF1_WIDE,
    FLBIT_WIDE,
    BCNT1_WIDE,
    BCNT0_WIDE,
    EQ,
    NE,
    GT_U,
    GE_U,
    LT_U,
    LE_U,
    GT_I,
    GE_I,
    LT_I,
    LE_I,
    BIT0,
    BIT1
} scalar_op;

/* -- two sources */

static uint32_t field(uint32_t value, unsigned offset, unsigned width, bool extend) {
    if (!width) return 0;
    uint64_t bits = extend ? (uint64_t)((int64_t)(int32_t)value >> offset) : (uint64_t)value >> offset;
    if (width < 32) bits &= (UINT64_C(1) << width) - 1;
    if (extend && width < 32 && (bits >> (width - 1) & 1)) bits |= UINT64_MAX << width;
    return (uint32_t)bits;
}

static uint32_t logic(int op, uint32_t a, uint32_t b) {
    switch (op) {
    case AND: return a & b;
    case OR: return a | b;
    case XOR: return a ^ b;
    case ANDN: return a & ~b;
    case ORN: return a | ~b;
    case NAND: return ~(a & b);
    case NOR: return ~(a | b);
    default: return ~(a ^ b);
    }
}

static uint32_t sum(amdgcn_wave *w, int op, uint32_t a, uint32_t b) {
    bool less = op == SUB_U || op == SUB_I || op == SUBB;
    uint64_t carry = op == ADDC || op == SUBB ? w->scc : 0;
    uint64_t exact = less ? (uint64_t)a - b - carry : (uint64_t)a + b + carry;
    uint32_t result = (uint32_t)exact;
    if (op == ADD_I || op == SUB_I) {
        int64_t wide = less ? (int64_t)(int32_t)a - (int32_t)b : (int64_t)(int32_t)a + (int32_t)b;
        w->scc = wide != (int32_t)result;
    } else {
        w->scc = exact >> 32 & 1;
    }
    return result;
}

static void binary(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a = amdgcn_scalar32(w, &i->in[0], 0), b = amdgcn_scalar32(w, &i->in[1], 0), r = 0;
    int32_t sa = (int32_t)a, sb = (int32_t)b;
    bool kept = w->scc, nonzero = true; /* SCC: as before; result != 0 */
    switch (i->op) {
    case ADD_U:
    case ADD_I:
    case SUB_U:
    case SUB_I:
    case ADDC:
    case SUBB:
        r = sum(w, i->op, a, b);
        nonzero = false;
        kept = w->scc;
        break;
    case MUL:
        r = a * b;
        nonzero = false;
        break;
    case MUL_HI_U:
        r = (uint32_t)((uint64_t)a * b >> 32);
        nonzero = false;
        break;
    case MUL_HI_I:
        r = (uint32_t)((int64_t)sa * sb >> 32);
        nonzero = false;
        break;
    case MIN_U:
        r = a < b ? a : b;
        kept = a < b;
        nonzero = false;
        break;
    case MAX_U:
        r = a > b ? a : b;
        kept = a > b;
        nonzero = false;
        break;
    case MIN_I:
        r = sa < sb ? a : b;
        kept = sa < sb;
        nonzero = false;
        break;
    case MAX_I:
        r = sa > sb ? a : b;
        kept = sa > sb;
        nonzero = false;
        break;
    case LSHL: r = a << (b & 31); break;
    case LSHR: r = a >> (b & 31); break;
    case ASHR: r = (uint32_t)(sa >> (b & 31)); break;
    case BFE_U:
    case BFE_I: r = field(a, b & 31, b >> 16 & 127, i->op == BFE_I); break;
    case BFM:
        r = ((UINT32_C(1) << (a & 31)) - 1) << (b & 31);
        nonzero = false;
        break;
    case LSHL_ADD1:
    case LSHL_ADD2:
    case LSHL_ADD3:
    case LSHL_ADD4: {
        uint64_t exact = ((uint64_t)a << (i->op - LSHL_ADD1 + 1)) + b;
        r = (uint32_t)exact;
        kept = exact >> 32 != 0;
        nonzero = false;
        break;
    }
    case PACK_LL:
        r = (a & 0xffff) | b << 16;
        nonzero = false;
        break;
    case PACK_LH:
        r = (a & 0xffff) | (b & 0xffff0000);
        nonzero = false;
        break;
    case PACK_HH:
        r = a >> 16 | (b & 0xffff0000);
        nonzero = false;
        break;
    case PACK_HL:
        r = a >> 16 | b << 16;
        nonzero = false;
        break;
    case ABSDIFF: r = sa > sb ? a - b : b - a; break;
    case CSELECT:
        r = w->scc ? a : b;
        nonzero = false;
        break;
    default: r = logic(i->op, a, b); break;
    }
    w->scc = nonzero ? r != 0 : kept;
    amdgcn_set32(w, &i->out[0], 0, r);
}

static void binary_wide(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t a = amdgcn_scalar64(w, &i->in[0]), b = amdgcn_scalar64(w, &i->in[1]), r = 0;
    bool kept = w->scc, nonzero = true;
    switch (i->op) {
    case LSHL: r = a << (b & 63); break;
    case LSHR: r = a >> (b & 63); break;
    case ASHR: r = (uint64_t)((int64_t)a >> (b & 63)); break;
    case CSELECT:
        r = w->scc ? a : b;
        nonzero = false;
        break;
    case ADD_NC:
        r = a + b;
        nonzero = false;
        break;
    case SUB_NC:
        r = a - b;
        nonzero = false;
        break;
    case MUL:
        r = a * b;
        nonzero = false;
        break;
    case BFM:
        r = ((UINT64_C(1) << (a & 63)) - 1) << (b & 63);
        nonzero = false;
        break;
    case BFE_U:
    case BFE_I: {
        unsigned offset = b & 63, width = b >> 16 & 127;
        r = !width ? 0 : i->op == BFE_I ? (uint64_t)((int64_t)a >> offset) : a >> offset;
        if (width && width < 64) r &= (UINT64_C(1) << width) - 1;
        if (i->op == BFE_I && width && width < 64 && (r >> (width - 1) & 1)) r |= UINT64_MAX << width;
        break;
    }
    default:
        r = logic(i->op, (uint32_t)a, (uint32_t)b) | (uint64_t)logic(i->op, (uint32_t)(a >> 32), (uint32_t)(b >> 32))
                                                         << 32;
        break;
    }
    w->scc = nonzero ? r != 0 : kept;
    amdgcn_set64(w, &i->out[0], r);
}

/* -- one source */

static uint32_t leading_sign(uint32_t a) { /* bits equal to the sign, -1 when all are */
    uint32_t x = (int32_t)a < 0 ? ~a : a;
    return x ? (uint32_t)__builtin_clz(x) : UINT32_MAX;
}

static uint32_t reversed(uint32_t a) {
    uint32_t r = 0;
    for (int bit = 0; bit < 32; bit++) r |= (a >> bit & 1) << (31 - bit);
    return r;
}

static void unary(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a = amdgcn_scalar32(w, &i->in[0], 0), r = a;
    uint64_t wide = i->op >= FF1_WIDE && i->op <= BCNT0_WIDE ? amdgcn_scalar64(w, &i->in[0]) : 0;
    bool nonzero = false;
    switch (i->op) {
    case MOVK: r = (uint32_t)(int32_t)(int16_t)a; break;
    case NOT:
        r = ~a;
        nonzero = true;
        break;
    case BREV: r = reversed(a); break;
    case BCNT1:
        r = (uint32_t)__builtin_popcount(a);
        nonzero = true;
        break;
    case BCNT0:
        r = 32 - (uint32_t)__builtin_popcount(a);
        nonzero = true;
        break;
    case BCNT1_WIDE:
        r = (uint32_t)__builtin_popcountll(wide);
        nonzero = true;
        break;
    case BCNT0_WIDE:
        r = 64 - (uint32_t)__builtin_popcountll(wide);
        nonzero = true;
        break;
    case FF1: r = a ? (uint32_t)__builtin_ctz(a) : UINT32_MAX; break;
    case FF1_WIDE: r = wide ? (uint32_t)__builtin_ctzll(wide) : UINT32_MAX; break;
    case FLBIT: r = a ? (uint32_t)__builtin_clz(a) : UINT32_MAX; break;
    case FLBIT_WIDE: r = wide ? (uint32_t)__builtin_clzll(wide) : UINT32_MAX; break;
    case CLS: r = leading_sign(a); break;
    case SEXT8: r = (uint32_t)(int32_t)(int8_t)a; break;
    case SEXT16: r = (uint32_t)(int32_t)(int16_t)a; break;
    case ABS:
        r = (int32_t)a < 0 ? 0 - a : a;
        nonzero = true;
        break;
    case CMOV: r = w->scc ? a : amdgcn_scalar32(w, &i->out[0], 0); break;
    case BITSET0: r = amdgcn_scalar32(w, &i->out[0], 0) & ~(UINT32_C(1) << (a & 31)); break;
    case BITSET1: r = amdgcn_scalar32(w, &i->out[0], 0) | UINT32_C(1) << (a & 31); break;
    default: break;
    }
    if (nonzero) w->scc = r != 0;
    amdgcn_set32(w, &i->out[0], 0, r);
}

static void unary_wide(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t a = amdgcn_scalar64(w, &i->in[0]), r = a;
    switch (i->op) {
    case NOT:
        r = ~a;
        w->scc = r != 0;
        break;
    case BREV: r = (uint64_t)reversed((uint32_t)a) << 32 | reversed((uint32_t)(a >> 32)); break;
    case CMOV: r = w->scc ? a : amdgcn_scalar64(w, &i->out[0]); break;
    case BITSET0: r = amdgcn_scalar64(w, &i->out[0]) & ~(UINT64_C(1) << (a & 63)); break;
    case BITSET1: r = amdgcn_scalar64(w, &i->out[0]) | UINT64_C(1) << (a & 63); break;
    default: break;
    }
    amdgcn_set64(w, &i->out[0], r);
}

/* s_OP_saveexec: the old EXEC to the destination, the new one is OP(source, EXEC); andn1: with the source negated. */
enum {
    SAVE_AND,
    SAVE_OR,
    SAVE_XOR,
    SAVE_ANDN2,
    SAVE_ORN2,
    SAVE_NAND,
    SAVE_NOR,
    SAVE_XNOR,
    SAVE_ANDN1,
    SAVE_ORN1,
    WRITE_ANDN1,
    WRITE_ANDN2
};

static void save_exec(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t old = amdgcn_exec(w), all = amdgcn_all(w), s = amdgcn_lanes_get(w, &i->in[0]), r = 0;
    switch (i->op) {
    case SAVE_AND: r = s & old; break;
    case SAVE_OR: r = s | old; break;
    case SAVE_XOR: r = s ^ old; break;
    case SAVE_ANDN2:
    case WRITE_ANDN2: r = s & ~old; break;
    case SAVE_ORN2: r = s | ~old; break;
    case SAVE_NAND: r = ~(s & old); break;
    case SAVE_NOR: r = ~(s | old); break;
    case SAVE_XNOR: r = ~(s ^ old); break;
    case SAVE_ANDN1:
    case WRITE_ANDN1: r = ~s & old; break;
    default: r = ~s | old; break;
    }
    r &= all;
    amdgcn_lanes_set(w, &i->out[0], i->op >= WRITE_ANDN1 ? r : old);
    w->pair[SCALAR_EXEC / 2] = r;
    w->scc = r != 0;
}

/* -- comparisons */

static void compare(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a = amdgcn_scalar32(w, &i->in[0], 0), b = amdgcn_scalar32(w, &i->in[1], 0);
    int32_t sa = (int32_t)a, sb = (int32_t)b;
    switch (i->op) {
    case EQ: w->scc = a == b; break;
    case NE: w->scc = a != b; break;
    case GT_U: w->scc = a > b; break;
    case GE_U: w->scc = a >= b; break;
    case LT_U: w->scc = a < b; break;
    case LE_U: w->scc = a <= b; break;
    case GT_I: w->scc = sa > sb; break;
    case GE_I: w->scc = sa >= sb; break;
    case LT_I: w->scc = sa < sb; break;
    case LE_I: w->scc = sa <= sb; break;
    case BIT0: w->scc = !(a >> (b & 31) & 1); break;
    default: w->scc = a >> (b & 31) & 1; break;
    }
}

static void compare_wide(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t a = amdgcn_scalar64(w, &i->in[0]), b = amdgcn_scalar64(w, &i->in[1]);
    switch (i->op) {
    case EQ: w->scc = a == b; break;
    case NE: w->scc = a != b; break;
    case BIT0: w->scc = !(a >> (b & 63) & 1); break;
    default: w->scc = a >> (b & 63) & 1; break;
    }
}

/* The constant of SOPK has 16 bits; signed where the comparison is. */
static void compare_short(amdgcn_wave *w, const amdgcn_instruction *i) {
    amdgcn_instruction wide = *i;
    bool is_signed = i->op == EQ || i->op == NE || i->op >= GT_I;
    uint64_t c = i->in[1].constant;
    wide.in[1].constant = is_signed ? (uint64_t)(int64_t)(int16_t)c : c & 0xffff;
    compare(w, &wide);
}

/* s_addk_i32, s_mulk_i32: the destination is the first source */
static void arithmetic_short(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a = amdgcn_scalar32(w, &i->out[0], 0), b = (uint32_t)(int32_t)(int16_t)i->in[0].constant;
    amdgcn_set32(w, &i->out[0], 0, i->op == MUL ? a * b : sum(w, ADD_I, a, b));
}

/* -- floats of gfx12 */

enum {
    F_ADD,
    F_SUB,
    F_MUL,
    F_MIN,
    F_MAX,
    F_FMAC,
    F_FMA,
    F_FROM_I,
    F_FROM_U,
    F_TO_I,
    F_TO_U,
    F_CEIL,
    F_FLOOR,
    F_TRUNC,
    F_RNDNE,
    F_LT,
    F_EQ,
    F_LE,
    F_GT,
    F_LG,
    F_GE,
    F_O,
    F_U,
    F_NGE,
    F_NLG,
    F_NGT,
    F_NLE,
    F_NEQ,
    F_NLT
};

static float scalar_float(const amdgcn_wave *w, const amdgcn_operand *o) {
    float value = number_f32(amdgcn_scalar32(w, o, 0));
    if (o->absolute) value = fabsf(value);
    return o->negate ? -value : value;
}

static uint32_t to_integer(float a, bool is_signed) {
    if (a != a) return 0;
    if (is_signed) return a <= -0x1p31F ? 0x80000000 : a >= 0x1p31F ? 0x7fffffff : (uint32_t)(int32_t)a;
    return a <= 0 ? 0 : a >= 0x1p32F ? UINT32_MAX : (uint32_t)a;
}

static void floating(amdgcn_wave *w, const amdgcn_instruction *i) {
    float a = scalar_float(w, &i->in[0]), b = i->sources > 1 ? scalar_float(w, &i->in[1]) : 0, r = 0;
    uint32_t bits = amdgcn_scalar32(w, &i->in[0], 0);
    switch (i->op) {
    case F_ADD: r = a + b; break;
    case F_SUB: r = a - b; break;
    case F_MUL: r = a * b; break;
    case F_MIN: r = fminf(a, b); break;
    case F_MAX: r = fmaxf(a, b); break;
    case F_FMAC:
    case F_FMA: r = fmaf(a, b, scalar_float(w, &i->in[2])); break;
    case F_FROM_I: r = (float)(int32_t)bits; break;
    case F_FROM_U: r = (float)bits; break;
    case F_TO_I:
    case F_TO_U: amdgcn_set32(w, &i->out[0], 0, to_integer(a, i->op == F_TO_I)); return;
    case F_CEIL: r = ceilf(a); break;
    case F_FLOOR: r = floorf(a); break;
    case F_TRUNC: r = truncf(a); break;
    default: r = rintf(a); break;
    }
    amdgcn_set32(w, &i->out[0], 0, number_bits32(r));
}

static void compare_floating(amdgcn_wave *w, const amdgcn_instruction *i) {
    float a = scalar_float(w, &i->in[0]), b = scalar_float(w, &i->in[1]);
    switch (i->op) {
    case F_LT: w->scc = a < b; break;
    case F_EQ: w->scc = a == b; break;
    case F_LE: w->scc = a <= b; break;
    case F_GT: w->scc = a > b; break;
    case F_LG: w->scc = a < b || a > b; break;
    case F_GE: w->scc = a >= b; break;
    case F_O: w->scc = a == a && b == b; break;
    case F_U: w->scc = a != a || b != b; break;
    case F_NGE: w->scc = !(a >= b); break;
    case F_NLG: w->scc = !(a < b || a > b); break;
    case F_NGT: w->scc = !(a > b); break;
    case F_NLE: w->scc = !(a <= b); break;
    case F_NEQ: w->scc = a != b; break;
    default: w->scc = !(a < b); break;
    }
}

const amdgcn_opcode amdgcn_scalar_opcodes[] = {{"s_add_u32", binary, ADD_U, "1"},
                                               {"s_add_co_u32", binary, ADD_U, "1"},
                                               {"s_add_i32", binary, ADD_I, "1"},
                                               {"s_add_co_i32", binary, ADD_I, "1"},
                                               {"s_sub_u32", binary, SUB_U, "1"},
                                               {"s_sub_co_u32", binary, SUB_U, "1"},
                                               {"s_sub_i32", binary, SUB_I, "1"},
                                               {"s_sub_co_i32", binary, SUB_I, "1"},
                                               {"s_addc_u32", binary, ADDC, "1"},
                                               {"s_add_co_ci_u32", binary, ADDC, "1"},
                                               {"s_subb_u32", binary, SUBB, "1"},
                                               {"s_sub_co_ci_u32", binary, SUBB, "1"},
                                               {"s_mul_i32", binary, MUL, "1"},
                                               {"s_mul_hi_u32", binary, MUL_HI_U, "1"},
                                               {"s_mul_hi_i32", binary, MUL_HI_I, "1"},
                                               {"s_min_u32", binary, MIN_U, "1"},
                                               {"s_min_i32", binary, MIN_I, "1"},
                                               {"s_max_u32", binary, MAX_U, "1"},
                                               {"s_max_i32", binary, MAX_I, "1"},
                                               {"s_and_b32", binary, AND, "1"},
                                               {"s_or_b32", binary, OR, "1"},
                                               {"s_xor_b32", binary, XOR, "1"},
                                               {"s_andn2_b32", binary, ANDN, "1"},
                                               {"s_and_not1_b32", binary, ANDN, "1"},
                                               {"s_orn2_b32", binary, ORN, "1"},
                                               {"s_or_not1_b32", binary, ORN, "1"},
                                               {"s_nand_b32", binary, NAND, "1"},
                                               {"s_nor_b32", binary, NOR, "1"},
                                               {"s_xnor_b32", binary, XNOR, "1"},
                                               {"s_lshl_b32", binary, LSHL, "1"},
                                               {"s_lshr_b32", binary, LSHR, "1"},
                                               {"s_ashr_i32", binary, ASHR, "1"},
                                               {"s_bfe_u32", binary, BFE_U, "1"},
                                               {"s_bfe_i32", binary, BFE_I, "1"},
                                               {"s_bfm_b32", binary, BFM, "1"},
                                               {"s_lshl1_add_u32", binary, LSHL_ADD1, "1"},
                                               {"s_lshl2_add_u32", binary, LSHL_ADD2, "1"},
                                               {"s_lshl3_add_u32", binary, LSHL_ADD3, "1"},
                                               {"s_lshl4_add_u32", binary, LSHL_ADD4, "1"},
                                               {"s_pack_ll_b32_b16", binary, PACK_LL, "1"},
                                               {"s_pack_lh_b32_b16", binary, PACK_LH, "1"},
                                               {"s_pack_hh_b32_b16", binary, PACK_HH, "1"},
                                               {"s_pack_hl_b32_b16", binary, PACK_HL, "1"},
                                               {"s_absdiff_i32", binary, ABSDIFF, "1"},
                                               {"s_cselect_b32", binary, CSELECT, "1"},
                                               {"s_and_b64", binary_wide, AND, "1I"},
                                               {"s_or_b64", binary_wide, OR, "1I"},
                                               {"s_xor_b64", binary_wide, XOR, "1I"},
                                               {"s_andn2_b64", binary_wide, ANDN, "1I"},
                                               {"s_and_not1_b64", binary_wide, ANDN, "1I"},
                                               {"s_orn2_b64", binary_wide, ORN, "1I"},
                                               {"s_or_not1_b64", binary_wide, ORN, "1I"},
                                               {"s_nand_b64", binary_wide, NAND, "1I"},
                                               {"s_nor_b64", binary_wide, NOR, "1I"},
                                               {"s_xnor_b64", binary_wide, XNOR, "1I"},
                                               {"s_lshl_b64", binary_wide, LSHL, "1I"},
                                               {"s_lshr_b64", binary_wide, LSHR, "1I"},
                                               {"s_ashr_i64", binary_wide, ASHR, "1I"},
                                               {"s_cselect_b64", binary_wide, CSELECT, "1I"},
                                               {"s_bfe_u64", binary_wide, BFE_U, "1I"},
                                               {"s_bfe_i64", binary_wide, BFE_I, "1I"},
                                               {"s_bfm_b64", binary_wide, BFM, "1I"},
                                               {"s_add_nc_u64", binary_wide, ADD_NC, "1I"},
                                               {"s_add_u64", binary_wide, ADD_NC, "1I"},
                                               {"s_sub_u64", binary_wide, SUB_NC, "1I"},
                                               {"s_sub_nc_u64", binary_wide, SUB_NC, "1I"},
                                               {"s_mul_u64", binary_wide, MUL, "1I"},
                                               {"s_mov_b32", unary, MOV, "1"},
                                               {"s_movk_i32", unary, MOVK, "1"},
                                               {"s_not_b32", unary, NOT, "1"},
                                               {"s_brev_b32", unary, BREV, "1"},
                                               {"s_bcnt0_i32_b32", unary, BCNT0, "1"},
                                               {"s_bcnt1_i32_b32", unary, BCNT1, "1"},
                                               {"s_bcnt0_i32_b64", unary, BCNT0_WIDE, "1"},
                                               {"s_bcnt1_i32_b64", unary, BCNT1_WIDE, "1"},
                                               {"s_ff1_i32_b32", unary, FF1, "1"},
                                               {"s_ctz_i32_b32", unary, FF1, "1"},
                                               {"s_ff1_i32_b64", unary, FF1_WIDE, "1"},
                                               {"s_ctz_i32_b64", unary, FF1_WIDE, "1"},
                                               {"s_flbit_i32_b32", unary, FLBIT, "1"},
                                               {"s_clz_i32_u32", unary, FLBIT, "1"},
                                               {"s_flbit_i32_b64", unary, FLBIT_WIDE, "1"},
                                               {"s_clz_i32_u64", unary, FLBIT_WIDE, "1"},
                                               {"s_flbit_i32", unary, CLS, "1"},
                                               {"s_cls_i32", unary, CLS, "1"},
                                               {"s_sext_i32_i8", unary, SEXT8, "1"},
                                               {"s_sext_i32_i16", unary, SEXT16, "1"},
                                               {"s_abs_i32", unary, ABS, "1"},
                                               {"s_cmov_b32", unary, CMOV, "1"},
                                               {"s_bitset0_b32", unary, BITSET0, "1"},
                                               {"s_bitset1_b32", unary, BITSET1, "1"},
                                               {"s_mov_b64", unary_wide, MOV, "1I"},
                                               {"s_not_b64", unary_wide, NOT, "1I"},
                                               {"s_brev_b64", unary_wide, BREV, "1I"},
                                               {"s_cmov_b64", unary_wide, CMOV, "1I"},
                                               {"s_bitset0_b64", unary_wide, BITSET0, "1I"},
                                               {"s_bitset1_b64", unary_wide, BITSET1, "1I"},
                                               {"s_and_saveexec_b32", save_exec, SAVE_AND, "1"},
                                               {"s_and_saveexec_b64", save_exec, SAVE_AND, "1I"},
                                               {"s_or_saveexec_b32", save_exec, SAVE_OR, "1"},
                                               {"s_or_saveexec_b64", save_exec, SAVE_OR, "1I"},
                                               {"s_xor_saveexec_b32", save_exec, SAVE_XOR, "1"},
                                               {"s_xor_saveexec_b64", save_exec, SAVE_XOR, "1I"},
                                               {"s_andn2_saveexec_b32", save_exec, SAVE_ANDN2, "1"},
                                               {"s_andn2_saveexec_b64", save_exec, SAVE_ANDN2, "1I"},
                                               {"s_and_not1_saveexec_b32", save_exec, SAVE_ANDN2, "1"},
                                               {"s_and_not1_saveexec_b64", save_exec, SAVE_ANDN2, "1I"},
                                               {"s_orn2_saveexec_b32", save_exec, SAVE_ORN2, "1"},
                                               {"s_orn2_saveexec_b64", save_exec, SAVE_ORN2, "1I"},
                                               {"s_or_not1_saveexec_b32", save_exec, SAVE_ORN2, "1"},
                                               {"s_or_not1_saveexec_b64", save_exec, SAVE_ORN2, "1I"},
                                               {"s_andn1_saveexec_b32", save_exec, SAVE_ANDN1, "1"},
                                               {"s_andn1_saveexec_b64", save_exec, SAVE_ANDN1, "1I"},
                                               {"s_and_not0_saveexec_b32", save_exec, SAVE_ANDN1, "1"},
                                               {"s_and_not0_saveexec_b64", save_exec, SAVE_ANDN1, "1I"},
                                               {"s_orn1_saveexec_b32", save_exec, SAVE_ORN1, "1"},
                                               {"s_orn1_saveexec_b64", save_exec, SAVE_ORN1, "1I"},
                                               {"s_nand_saveexec_b32", save_exec, SAVE_NAND, "1"},
                                               {"s_nand_saveexec_b64", save_exec, SAVE_NAND, "1I"},
                                               {"s_nor_saveexec_b32", save_exec, SAVE_NOR, "1"},
                                               {"s_nor_saveexec_b64", save_exec, SAVE_NOR, "1I"},
                                               {"s_xnor_saveexec_b32", save_exec, SAVE_XNOR, "1"},
                                               {"s_xnor_saveexec_b64", save_exec, SAVE_XNOR, "1I"},
                                               {"s_andn1_wrexec_b32", save_exec, WRITE_ANDN1, "1"},
                                               {"s_andn1_wrexec_b64", save_exec, WRITE_ANDN1, "1I"},
                                               {"s_and_not0_wrexec_b32", save_exec, WRITE_ANDN1, "1"},
                                               {"s_and_not0_wrexec_b64", save_exec, WRITE_ANDN1, "1I"},
                                               {"s_andn2_wrexec_b32", save_exec, WRITE_ANDN2, "1"},
                                               {"s_andn2_wrexec_b64", save_exec, WRITE_ANDN2, "1I"},
                                               {"s_and_not1_wrexec_b32", save_exec, WRITE_ANDN2, "1"},
                                               {"s_and_not1_wrexec_b64", save_exec, WRITE_ANDN2, "1I"},
                                               {"s_cmp_eq_i32", compare, EQ, "0"},
                                               {"s_cmp_eq_u32", compare, EQ, "0"},
                                               {"s_cmp_lg_i32", compare, NE, "0"},
                                               {"s_cmp_lg_u32", compare, NE, "0"},
                                               {"s_cmp_gt_u32", compare, GT_U, "0"},
                                               {"s_cmp_ge_u32", compare, GE_U, "0"},
                                               {"s_cmp_lt_u32", compare, LT_U, "0"},
                                               {"s_cmp_le_u32", compare, LE_U, "0"},
                                               {"s_cmp_gt_i32", compare, GT_I, "0"},
                                               {"s_cmp_ge_i32", compare, GE_I, "0"},
                                               {"s_cmp_lt_i32", compare, LT_I, "0"},
                                               {"s_cmp_le_i32", compare, LE_I, "0"},
                                               {"s_bitcmp0_b32", compare, BIT0, "0"},
                                               {"s_bitcmp1_b32", compare, BIT1, "0"},
                                               {"s_cmp_eq_u64", compare_wide, EQ, "0I"},
                                               {"s_cmp_lg_u64", compare_wide, NE, "0I"},
                                               {"s_bitcmp0_b64", compare_wide, BIT0, "0I"},
                                               {"s_bitcmp1_b64", compare_wide, BIT1, "0I"},
                                               {"s_cmpk_eq_i32", compare_short, EQ, "0"},
                                               {"s_cmpk_lg_i32", compare_short, NE, "0"},
                                               {"s_cmpk_gt_i32", compare_short, GT_I, "0"},
                                               {"s_cmpk_ge_i32", compare_short, GE_I, "0"},
                                               {"s_cmpk_lt_i32", compare_short, LT_I, "0"},
                                               {"s_cmpk_le_i32", compare_short, LE_I, "0"},
                                               {"s_cmpk_gt_u32", compare_short, GT_U, "0"},
                                               {"s_cmpk_ge_u32", compare_short, GE_U, "0"},
                                               {"s_cmpk_lt_u32", compare_short, LT_U, "0"},
                                               {"s_cmpk_le_u32", compare_short, LE_U, "0"},
                                               {"s_addk_i32", arithmetic_short, ADD_I, "1"},
                                               {"s_addk_co_i32", arithmetic_short, ADD_I, "1"},
                                               {"s_mulk_i32", arithmetic_short, MUL, "1"},
                                               {"s_add_f32", floating, F_ADD, "1f"},
                                               {"s_sub_f32", floating, F_SUB, "1f"},
                                               {"s_mul_f32", floating, F_MUL, "1f"},
                                               {"s_min_num_f32", floating, F_MIN, "1f"},
                                               {"s_max_num_f32", floating, F_MAX, "1f"},
                                               {"s_fmac_f32", floating, F_FMAC, "1fd"},
                                               {"s_fmaak_f32", floating, F_FMA, "1f"},
                                               {"s_fmamk_f32", floating, F_FMA, "1f"},
                                               {"s_cvt_f32_i32", floating, F_FROM_I, "1i"},
                                               {"s_cvt_f32_u32", floating, F_FROM_U, "1i"},
                                               {"s_cvt_i32_f32", floating, F_TO_I, "1f"},
                                               {"s_cvt_u32_f32", floating, F_TO_U, "1f"},
                                               {"s_ceil_f32", floating, F_CEIL, "1f"},
                                               {"s_floor_f32", floating, F_FLOOR, "1f"},
                                               {"s_trunc_f32", floating, F_TRUNC, "1f"},
                                               {"s_rndne_f32", floating, F_RNDNE, "1f"},
                                               {"s_cmp_lt_f32", compare_floating, F_LT, "0f"},
                                               {"s_cmp_eq_f32", compare_floating, F_EQ, "0f"},
                                               {"s_cmp_le_f32", compare_floating, F_LE, "0f"},
                                               {"s_cmp_gt_f32", compare_floating, F_GT, "0f"},
                                               {"s_cmp_lg_f32", compare_floating, F_LG, "0f"},
                                               {"s_cmp_ge_f32", compare_floating, F_GE, "0f"},
                                               {"s_cmp_o_f32", compare_floating, F_O, "0f"},
                                               {"s_cmp_u_f32", compare_floating, F_U, "0f"},
                                               {"s_cmp_nge_f32", compare_floating, F_NGE, "0f"},
                                               {"s_cmp_nlg_f32", compare_floating, F_NLG, "0f"},
                                               {"s_cmp_ngt_f32", compare_floating, F_NGT, "0f"},
                                               {"s_cmp_nle_f32", compare_floating, F_NLE, "0f"},
                                               {"s_cmp_neq_f32", compare_floating, F_NEQ, "0f"},
                                               {"s_cmp_nlt_f32", compare_floating, F_NLT, "0f"},
                                               {0}};
