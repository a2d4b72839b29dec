/* Comparisons of lanes into masks: v_cmp; v_cmpx also makes the result EXEC. Inactive lanes give zeros.
   Read next: convert.c. Source: AMD instruction set documents, VOPC. */
#include "tests/amdgcn/emulator/half.h"

/* The sixteen conditions of floats are sets of the outcomes less, equal, greater, unordered. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8, EXECUTES = 16, SIGNED = 32, CLASS = 64 };

static void put(amdgcn_wave *w, const amdgcn_instruction *i, uint64_t mask) {
    mask &= amdgcn_exec(w) & amdgcn_all(w);
    if (i->destinations) amdgcn_lanes_set(w, &i->out[0], mask);
    if (i->op & EXECUTES) w->pair[SCALAR_EXEC / 2] = mask;
}

static uint64_t outcome(bool less, bool equal, bool greater, int op) {
    return (less && (op & LESS)) || (equal && (op & EQUAL)) || (greater && (op & GREATER)) ||
           (!less && !equal && !greater && (op & UNORDERED));
}

static void floats(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]);
    uint64_t mask = 0;
    for (int l = 0; l < LANES; l++) mask |= outcome(a[l] < b[l], a[l] == b[l], a[l] > b[l], i->op) << l;
    put(w, i, mask);
}

static void doubles(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[2][LANES], mask = 0;
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space[0]),
                   *b = (const lane_f64 *)amdgcn_wide(w, &i->in[1], space[1]);
    for (int l = 0; l < LANES; l++) mask |= outcome(a[l] < b[l], a[l] == b[l], a[l] > b[l], i->op) << l;
    put(w, i, mask);
}

static uint32_t half_of(uint32_t word, const amdgcn_operand *o) {
    uint32_t bits = word >> (o->half && o->kind != CONSTANT ? 16 : 0) & 0xffff;
    return (bits & (o->absolute ? 0x7fff : 0xffff)) ^ (o->negate ? 0x8000 : 0);
}

static void halves(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    uint64_t mask = 0;
    for (int l = 0; l < LANES; l++) {
        float x = amdgcn_from_half(half_of(a[l], &i->in[0])), y = amdgcn_from_half(half_of(b[l], &i->in[1]));
        mask |= outcome(x < y, x == y, x > y, i->op) << l;
    }
    put(w, i, mask);
}

WIDE static void words(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], flip = i->op & SIGNED ? 0x80000000 : 0;
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    uint64_t mask = 0;
    for (int l = 0; l < LANES; l++) {
        uint32_t x = a[l] ^ flip, y = b[l] ^ flip;
        mask |= (uint64_t)(x < y ? i->op & LESS : x == y ? (i->op & EQUAL) >> 1 : (i->op & GREATER) >> 2) << l;
    }
    put(w, i, mask);
}

static void shorts(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], flip = i->op & SIGNED ? 0x8000 : 0;
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    uint64_t mask = 0;
    for (int l = 0; l < LANES; l++) {
        uint32_t x = half_of(a[l], &i->in[0]) ^ flip, y = half_of(b[l], &i->in[1]) ^ flip;
        mask |= outcome(x < y, x == y, x > y, i->op) << l;
    }
    put(w, i, mask);
}

static void longs(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[2][LANES], mask = 0, flip = i->op & SIGNED ? UINT64_C(1) << 63 : 0;
    const uint64_t *a = amdgcn_wide(w, &i->in[0], space[0]), *b = amdgcn_wide(w, &i->in[1], space[1]);
    for (int l = 0; l < LANES; l++) {
        uint64_t x = a[l] ^ flip, y = b[l] ^ flip;
        mask |= outcome(x < y, x == y, x > y, i->op) << l;
    }
    put(w, i, mask);
}

/* The bit of the ten classes that x belongs to. */
static uint32_t class_of(double x, double smallest, bool quiet) {
    bool negative = signbit(x);
    if (x != x) return quiet ? 2 : 1;
    if (isinf(x)) return negative ? 4 : 512;
    if (x == 0) return negative ? 32 : 64;
    if (fabs(x) < smallest) return negative ? 16 : 128;
    return negative ? 8 : 256;
}

enum { OF_F32, OF_F64, OF_F16 };

static void classes(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES];
    uint64_t wide[LANES], mask = 0;
    const uint32_t *b = amdgcn_words(w, &i->in[1], 0, space[1]),
                   *a = (const uint32_t *)amdgcn_floats(w, &i->in[0], space[0]);
    int type = i->op >> 8;
    const uint64_t *d = type == OF_F64 ? amdgcn_wide(w, &i->in[0], wide) : NULL;
    if (type == OF_F16) a = amdgcn_words(w, &i->in[0], 0, space[0]);
    for (int l = 0; l < LANES; l++) {
        uint32_t c;
        if (d)
            c = class_of(number_f64(d[l]), 0x1p-1022, d[l] >> 51 & 1);
        else if (type == OF_F32)
            c = class_of((double)number_f32(a[l]), 0x1p-126, a[l] >> 22 & 1);
        else
            c = class_of((double)amdgcn_from_half(half_of(a[l], &i->in[0])), 0x1p-14, a[l] >> 9 & 1);
        mask |= (uint64_t)((c & b[l]) != 0) << l;
    }
    put(w, i, mask);
}

#define FLOAT_ROWS(PREFIX, TYPE, RUN, FORM, MORE)                                                                      \
    {PREFIX "f_" TYPE, RUN, MORE, FORM}, {PREFIX "lt_" TYPE, RUN, LESS | MORE, FORM},                                  \
        {PREFIX "eq_" TYPE, RUN, EQUAL | MORE, FORM}, {PREFIX "le_" TYPE, RUN, LESS | EQUAL | MORE, FORM},             \
        {PREFIX "gt_" TYPE, RUN, GREATER | MORE, FORM}, {PREFIX "lg_" TYPE, RUN, LESS | GREATER | MORE, FORM},         \
        {PREFIX "ge_" TYPE, RUN, GREATER | EQUAL | MORE, FORM},                                                        \
        {PREFIX "o_" TYPE, RUN, LESS | EQUAL | GREATER | MORE, FORM}, {PREFIX "u_" TYPE, RUN, UNORDERED | MORE, FORM}, \
        {PREFIX "nge_" TYPE, RUN, LESS | UNORDERED | MORE, FORM},                                                      \
        {PREFIX "nlg_" TYPE, RUN, EQUAL | UNORDERED | MORE, FORM},                                                     \
        {PREFIX "ngt_" TYPE, RUN, LESS | EQUAL | UNORDERED | MORE, FORM},                                              \
        {PREFIX "nle_" TYPE, RUN, GREATER | UNORDERED | MORE, FORM},                                                   \
        {PREFIX "neq_" TYPE, RUN, LESS | GREATER | UNORDERED | MORE, FORM},                                            \
        {PREFIX "nlt_" TYPE, RUN, GREATER | EQUAL | UNORDERED | MORE, FORM},                                           \
        {PREFIX "t_" TYPE, RUN, LESS | EQUAL | GREATER | UNORDERED | MORE, FORM}, {                                    \
        PREFIX "tru_" TYPE, RUN, LESS | EQUAL | GREATER | UNORDERED | MORE, FORM                                       \
    }

#define INTEGER_ROWS(PREFIX, TYPE, RUN, FORM, MORE)                                                                    \
    {PREFIX "f_" TYPE, RUN, MORE, FORM}, {PREFIX "lt_" TYPE, RUN, LESS | MORE, FORM},                                  \
        {PREFIX "eq_" TYPE, RUN, EQUAL | MORE, FORM}, {PREFIX "le_" TYPE, RUN, LESS | EQUAL | MORE, FORM},             \
        {PREFIX "gt_" TYPE, RUN, GREATER | MORE, FORM}, {PREFIX "ne_" TYPE, RUN, LESS | GREATER | MORE, FORM},         \
        {PREFIX "ge_" TYPE, RUN, GREATER | EQUAL | MORE, FORM}, {                                                      \
        PREFIX "t_" TYPE, RUN, LESS | EQUAL | GREATER | MORE, FORM                                                     \
    }

#define ROWS_OF(PREFIX, COUNT, MORE)                                                                                   \
    FLOAT_ROWS(PREFIX, "f32", floats, COUNT "f", MORE), FLOAT_ROWS(PREFIX, "f64", doubles, COUNT "F", MORE),           \
        FLOAT_ROWS(PREFIX, "f16", halves, COUNT "h", MORE), INTEGER_ROWS(PREFIX, "u32", words, COUNT "i", MORE),       \
        INTEGER_ROWS(PREFIX, "i32", words, COUNT "i", SIGNED | MORE),                                                  \
        INTEGER_ROWS(PREFIX, "u16", shorts, COUNT "h", MORE),                                                          \
        INTEGER_ROWS(PREFIX, "i16", shorts, COUNT "h", SIGNED | MORE),                                                 \
        INTEGER_ROWS(PREFIX, "u64", longs, COUNT "I", MORE),                                                           \
        INTEGER_ROWS(PREFIX, "i64", longs, COUNT "I", SIGNED | MORE),                                                  \
        {PREFIX "class_f32", classes, CLASS | MORE | OF_F32 << 8, COUNT "f"},                                          \
        {PREFIX "class_f64", classes, CLASS | MORE | OF_F64 << 8, COUNT "I"},                                          \
        {PREFIX "class_f16", classes, CLASS | MORE | OF_F16 << 8, COUNT "h"}

/* Form x: what is in front of the two sources, if anything. */
const amdgcn_opcode amdgcn_compare_opcodes[] = {ROWS_OF("v_cmp_", "1", 0), ROWS_OF("v_cmpx_", "x", EXECUTES), {0}};
