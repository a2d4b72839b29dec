/* Shared memory of a block (LDS): loads, stores, pairs of either, atomics. Every access lies inside the block's bytes.
   Read next: matrix.c. Source: AMD instruction set documents, DS. */
#include "tests/amdgcn/emulator/access.h"

enum { STRIDE64 = 1 << 8, RETURNS = 1 << 9, SWAPPED = 1 << 10 };

static inline uint8_t *at_lane(amdgcn_wave *w, int lane, uint32_t address, unsigned bytes) {
    int64_t limit = w->block->shared_bytes;
    if ((int64_t)address + bytes <= limit) return w->block->shared + address;
    amdgcn_fail(w, lane, "an access of %u bytes at %#x of %lld bytes of shared memory", bytes, address,
                (long long)limit);
    return NULL;
}

static void load(amdgcn_wave *w, const amdgcn_instruction *i) {
    unsigned bytes = (unsigned)i->op & BYTES;
    uint32_t space[LANES];
    const uint32_t *at = amdgcn_words(w, &i->in[0], 0, space);
    uint32_t start[LANES];
    memcpy(start, at, sizeof start); /* the destination may be the address */
    for (int l = 0; l < w->lanes; l++) {
        if (!amdgcn_active(w, l)) continue;
        const uint8_t *from = at_lane(w, l, start[l] + (uint32_t)i->offset, bytes);
        if (!from) return;
        uint32_t values[4] = {0};
        memcpy(values, from, bytes);
        if (bytes < 4) values[0] = amdgcn_loaded(i->op, values[0], w->rows[i->out[0].index][l]);
        for (unsigned word = 0; word < (bytes + 3) / 4; word++) w->rows[i->out[0].index + (int)word][l] = values[word];
    }
}

static void store(amdgcn_wave *w, const amdgcn_instruction *i) {
    unsigned bytes = (unsigned)i->op & BYTES;
    uint32_t space[LANES];
    const uint32_t *at = amdgcn_words(w, &i->in[0], 0, space);
    for (int l = 0; l < w->lanes; l++) {
        if (!amdgcn_active(w, l)) continue;
        uint8_t *to = at_lane(w, l, at[l] + (uint32_t)i->offset, bytes);
        if (!to) return;
        uint32_t values[4];
        for (unsigned word = 0; word < (bytes + 3) / 4; word++) values[word] = w->rows[i->in[1].index + (int)word][l];
        if (i->op & HIGH_HALF) values[0] >>= 16;
        memcpy(to, values, bytes);
    }
}

/* Two elements of 4 or 8 bytes; offsets count elements, or 64 of them. */
static void load_two(amdgcn_wave *w, const amdgcn_instruction *i) {
    unsigned bytes = (unsigned)i->op & BYTES, unit = bytes * (i->op & STRIDE64 ? 64 : 1), words = bytes / 4;
    uint32_t space[LANES], start[LANES], values[4][LANES],
        offset[2] = {(uint32_t)i->offset * unit, (uint32_t)i->offset1 * unit};
    memcpy(start, amdgcn_words(w, &i->in[0], 0, space), sizeof start);
    uint64_t exec = amdgcn_exec(w);
    for (int l = 0; l < w->lanes; l++) {
        if (!(exec >> l & 1)) continue;
        for (unsigned n = 0; n < 2; n++) {
            const uint8_t *from = at_lane(w, l, start[l] + offset[n], bytes);
            if (!from) return;
            memcpy(&values[n * words][l], from, 4);
            if (words == 2) memcpy(&values[n * 2 + 1][l], from + 4, 4);
        }
    }
    for (int word = 0; word < (int)words * 2; word++) amdgcn_put(w, &i->out[0], word, values[word]);
}

static void store_two(amdgcn_wave *w, const amdgcn_instruction *i) {
    unsigned bytes = (unsigned)i->op & BYTES, unit = bytes * (i->op & STRIDE64 ? 64 : 1);
    uint32_t space[LANES];
    const uint32_t *at = amdgcn_words(w, &i->in[0], 0, space);
    for (int l = 0; l < w->lanes; l++) {
        if (!amdgcn_active(w, l)) continue;
        for (int n = 0; n < 2; n++) {
            uint32_t values[2];
            uint8_t *to = at_lane(w, l, at[l] + (uint32_t)(n ? i->offset1 : i->offset) * unit, bytes);
            if (!to) return;
            for (int word = 0; word < (int)bytes / 4; word++) values[word] = w->rows[i->in[1 + n].index + word][l];
            memcpy(to, values, bytes);
        }
    }
}

static uint64_t value_of(const amdgcn_wave *w, const amdgcn_operand *o, int words, int lane) {
    uint64_t value = w->rows[o->index][lane];
    return words > 1 ? value | (uint64_t)w->rows[o->index + 1][lane] << 32 : value;
}

/* Compare and swap: data is the new value and the second one is compared with, SWAPPED (up to gfx10) the other way. */
static void atomic(amdgcn_wave *w, const amdgcn_instruction *i) {
    int bytes = i->op & BYTES, words = bytes / 4, op = i->op >> ATOMIC_SHIFT;
    uint32_t space[LANES], start[LANES];
    memcpy(start, amdgcn_words(w, &i->in[0], 0, space), sizeof start);
    for (int l = 0; l < w->lanes; l++) {
        if (!amdgcn_active(w, l)) continue;
        uint8_t *to = at_lane(w, l, start[l] + (uint32_t)i->offset, (unsigned)bytes);
        if (!to) return;
        uint64_t old = 0, value = value_of(w, &i->in[1], words, l), compare = 0;
        if (op == A_COMPARE) {
            compare = value_of(w, &i->in[2], words, l);
            if (i->op & SWAPPED) {
                uint64_t first = value;
                value = compare, compare = first;
            }
        }
        memcpy(&old, to, (size_t)bytes);
        uint64_t result = amdgcn_atomic_apply(op, bytes, old, value, compare);
        memcpy(to, &result, (size_t)bytes);
        for (int word = 0; word < words && (i->op & RETURNS); word++)
            w->rows[i->out[0].index + word][l] = (uint32_t)(old >> 32 * word);
    }
}

#define ATOMIC(NAME, TYPE, OP, SIZE)                                                                                   \
    {"ds_" NAME "_" TYPE, atomic, SIZE | OP << ATOMIC_SHIFT, "0"},                                                     \
        {"ds_" NAME "_rtn_" TYPE, atomic, SIZE | RETURNS | OP << ATOMIC_SHIFT, "1"}
#define ATOMIC_PAIR(NAME, LETTER, OP) ATOMIC(NAME, LETTER "32", OP, 4), ATOMIC(NAME, LETTER "64", OP, 8)

const amdgcn_opcode amdgcn_shared_opcodes[] = {
    {"ds_read_b32", load, 4, "1"},
    {"ds_load_b32", load, 4, "1"},
    {"ds_read_b64", load, 8, "1"},
    {"ds_load_b64", load, 8, "1"},
    {"ds_read_b96", load, 12, "1"},
    {"ds_load_b96", load, 12, "1"},
    {"ds_read_b128", load, 16, "1"},
    {"ds_load_b128", load, 16, "1"},
    {"ds_read_u8", load, 1, "1"},
    {"ds_load_u8", load, 1, "1"},
    {"ds_read_i8", load, 1 | EXTENDS, "1"},
    {"ds_load_i8", load, 1 | EXTENDS, "1"},
    {"ds_read_u16", load, 2, "1"},
    {"ds_load_u16", load, 2, "1"},
    {"ds_read_i16", load, 2 | EXTENDS, "1"},
    {"ds_load_i16", load, 2 | EXTENDS, "1"},
    {"ds_read_u8_d16", load, 1 | LOW_HALF, "1"},
    {"ds_load_u8_d16", load, 1 | LOW_HALF, "1"},
    {"ds_read_u8_d16_hi", load, 1 | HIGH_HALF, "1"},
    {"ds_load_u8_d16_hi", load, 1 | HIGH_HALF, "1"},
    {"ds_read_i8_d16", load, 1 | EXTENDS | LOW_HALF, "1"},
    {"ds_load_i8_d16", load, 1 | EXTENDS | LOW_HALF, "1"},
    {"ds_read_i8_d16_hi", load, 1 | EXTENDS | HIGH_HALF, "1"},
    {"ds_load_i8_d16_hi", load, 1 | EXTENDS | HIGH_HALF, "1"},
    {"ds_read_u16_d16", load, 2 | LOW_HALF, "1"},
    {"ds_load_u16_d16", load, 2 | LOW_HALF, "1"},
    {"ds_read_u16_d16_hi", load, 2 | HIGH_HALF, "1"},
    {"ds_load_u16_d16_hi", load, 2 | HIGH_HALF, "1"},
    {"ds_write_b8", store, 1, "0"},
    {"ds_store_b8", store, 1, "0"},
    {"ds_write_b16", store, 2, "0"},
    {"ds_store_b16", store, 2, "0"},
    {"ds_write_b32", store, 4, "0"},
    {"ds_store_b32", store, 4, "0"},
    {"ds_write_b64", store, 8, "0"},
    {"ds_store_b64", store, 8, "0"},
    {"ds_write_b96", store, 12, "0"},
    {"ds_store_b96", store, 12, "0"},
    {"ds_write_b128", store, 16, "0"},
    {"ds_store_b128", store, 16, "0"},
    {"ds_write_b8_d16_hi", store, 1 | HIGH_HALF, "0"},
    {"ds_store_b8_d16_hi", store, 1 | HIGH_HALF, "0"},
    {"ds_write_b16_d16_hi", store, 2 | HIGH_HALF, "0"},
    {"ds_store_b16_d16_hi", store, 2 | HIGH_HALF, "0"},
    {"ds_read2_b32", load_two, 4, "1"},
    {"ds_load_2addr_b32", load_two, 4, "1"},
    {"ds_read2_b64", load_two, 8, "1"},
    {"ds_load_2addr_b64", load_two, 8, "1"},
    {"ds_read2st64_b32", load_two, 4 | STRIDE64, "1"},
    {"ds_load_2addr_stride64_b32", load_two, 4 | STRIDE64, "1"},
    {"ds_read2st64_b64", load_two, 8 | STRIDE64, "1"},
    {"ds_load_2addr_stride64_b64", load_two, 8 | STRIDE64, "1"},
    {"ds_write2_b32", store_two, 4, "0"},
    {"ds_store_2addr_b32", store_two, 4, "0"},
    {"ds_write2_b64", store_two, 8, "0"},
    {"ds_store_2addr_b64", store_two, 8, "0"},
    {"ds_write2st64_b32", store_two, 4 | STRIDE64, "0"},
    {"ds_store_2addr_stride64_b32", store_two, 4 | STRIDE64, "0"},
    {"ds_write2st64_b64", store_two, 8 | STRIDE64, "0"},
    {"ds_store_2addr_stride64_b64", store_two, 8 | STRIDE64, "0"},
    {"ds_nop", amdgcn_run_nothing, 0, "-"},
    {"ds_cmpst_b32", atomic, 4 | SWAPPED | A_COMPARE << ATOMIC_SHIFT, "0"},
    {"ds_cmpst_rtn_b32", atomic, 4 | SWAPPED | RETURNS | A_COMPARE << ATOMIC_SHIFT, "1"},
    {"ds_cmpst_b64", atomic, 8 | SWAPPED | A_COMPARE << ATOMIC_SHIFT, "0"},
    {"ds_cmpst_rtn_b64", atomic, 8 | SWAPPED | RETURNS | A_COMPARE << ATOMIC_SHIFT, "1"},
    ATOMIC_PAIR("cmpstore", "b", A_COMPARE),
    ATOMIC_PAIR("add", "u", A_ADD),
    ATOMIC_PAIR("sub", "u", A_SUB),
    ATOMIC_PAIR("rsub", "u", A_RSUB),
    ATOMIC_PAIR("inc", "u", A_INC),
    ATOMIC_PAIR("dec", "u", A_DEC),
    ATOMIC_PAIR("min", "i", A_MIN_I),
    ATOMIC_PAIR("max", "i", A_MAX_I),
    ATOMIC_PAIR("min", "u", A_MIN_U),
    ATOMIC_PAIR("max", "u", A_MAX_U),
    ATOMIC_PAIR("and", "b", A_AND),
    ATOMIC_PAIR("or", "b", A_OR),
    ATOMIC_PAIR("xor", "b", A_XOR),
    ATOMIC_PAIR("wrxchg", "b", A_SWAP),
    ATOMIC_PAIR("storexchg", "b", A_SWAP),
    ATOMIC_PAIR("add", "f", A_ADD_F),
    ATOMIC_PAIR("min", "f", A_MIN_F),
    ATOMIC_PAIR("max", "f", A_MAX_F),
    ATOMIC("min_num", "f32", A_MIN_F, 4),
    ATOMIC("max_num", "f32", A_MAX_F, 4),
    {0}};
