/* What lanes do together: read one of them, count those in front, permute. Lanes that are not active give zeros.
   Read next: memory.c. Source: AMD instruction set documents, VOP1, VOP3, DS permutes. */
#include "tests/amdgcn/emulator/internal.h"

static void read_first(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t exec = amdgcn_exec(w);
    int lane = exec ? __builtin_ctzll(exec) : 0;
    uint32_t space[LANES];
    amdgcn_set32(w, &i->out[0], 0, amdgcn_words(w, &i->in[0], 0, space)[lane]);
}

static void read_one(amdgcn_wave *w, const amdgcn_instruction *i) {
    int lane = (int)amdgcn_scalar32(w, &i->in[1], 0) & (w->lanes - 1);
    amdgcn_set32(w, &i->out[0], 0, amdgcn_row(w, &i->in[0], 0)[lane]);
}

/* EXEC does not matter */
static void write_one(amdgcn_wave *w, const amdgcn_instruction *i) {
    int lane = (int)amdgcn_scalar32(w, &i->in[1], 0) & (w->lanes - 1);
    amdgcn_row(w, &i->out[0], 0)[lane] = amdgcn_scalar32(w, &i->in[0], 0);
}

enum { LOW, HIGH };

static void count_before(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space[0]), *b = amdgcn_words(w, &i->in[1], 0, space[1]);
    for (int l = 0; l < LANES; l++) {
        uint64_t before = (UINT64_C(1) << l) - 1;
        uint32_t mask = i->op == LOW ? (uint32_t)before : (uint32_t)(before >> 32);
        r[l] = (uint32_t)__builtin_popcount(a[l] & mask) + b[l];
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* op: 0, or 16 for the neighbouring row. The two scalars hold sixteen numbers of lanes. op_sel: inactive lanes are
   read; what is not read is zero. */
static void permute_rows(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t r[LANES];
    const uint32_t *a = amdgcn_row(w, &i->in[0], 0), *old = amdgcn_row(w, &i->out[0], 0);
    uint64_t picks = amdgcn_scalar32(w, &i->in[1], 0) | (uint64_t)amdgcn_scalar32(w, &i->in[2], 0) << 32;
    for (int l = 0; l < LANES; l++) {
        int from = ((l & ~15) ^ i->op) | (int)(picks >> 4 * (l & 15) & 15);
        bool valid = (i->op_sel & 1) || amdgcn_active(w, from);
        r[l] = valid ? a[from] : i->op_sel >> 1 & 1 ? 0 : old[l];
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

static void swap_halves(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t r[LANES];
    const uint32_t *a = amdgcn_row(w, &i->in[0], 0);
    for (int l = 0; l < LANES; l++) r[l] = a[w->lanes == 64 ? l ^ 32 : l];
    amdgcn_put(w, &i->out[0], 0, r);
}

static void swap(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t a[LANES], b[LANES];
    memcpy(a, amdgcn_row(w, &i->in[0], 0), sizeof a);
    memcpy(b, amdgcn_row(w, &i->in[1], 0), sizeof b);
    amdgcn_put(w, &i->in[0], 0, b);
    amdgcn_put(w, &i->in[1], 0, a);
}

/* -- permutes through the shared memory's crossbar; no memory is touched */

static void pull(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES];
    const uint32_t *at = amdgcn_words(w, &i->in[0], 0, space[0]), *data = amdgcn_words(w, &i->in[1], 0, space[1]);
    for (int l = 0; l < LANES; l++) {
        int from = (int)((at[l] + (uint32_t)i->offset) / 4 % (unsigned)w->lanes);
        r[l] = amdgcn_active(w, from) ? data[from] : 0;
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

static void push(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[LANES] = {0};
    const uint32_t *at = amdgcn_words(w, &i->in[0], 0, space[0]), *data = amdgcn_words(w, &i->in[1], 0, space[1]);
    for (int l = 0; l < w->lanes; l++)
        if (amdgcn_active(w, l)) r[(at[l] + (uint32_t)i->offset) / 4 % (unsigned)w->lanes] = data[l];
    amdgcn_put(w, &i->out[0], 0, r);
}

static void swizzle(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space);
    int code = (int)i->offset;
    if ((code & 0xff00) != 0x8000 && (code & 0x8000)) {
        amdgcn_fail(w, -1, "swizzle %#x", (unsigned)code);
        return;
    }
    for (int l = 0; l < LANES; l++) {
        int from = code & 0x8000 ? (l & ~3) | (code >> 2 * (l & 3) & 3)
                                 : (l & ~31) | ((((l & 31) & (code & 31)) | (code >> 5 & 31)) ^ (code >> 10 & 31));
        r[l] = amdgcn_active(w, from) ? a[from] : 0;
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

const amdgcn_opcode amdgcn_lane_opcodes[] = {{"v_readfirstlane_b32", read_first, 0, "1"},
                                             {"v_readlane_b32", read_one, 0, "1"},
                                             {"v_writelane_b32", write_one, 0, "1"},
                                             {"v_mbcnt_lo_u32_b32", count_before, LOW, "1"},
                                             {"v_mbcnt_hi_u32_b32", count_before, HIGH, "1"},
                                             {"v_permlane16_b32", permute_rows, 0, "1"},
                                             {"v_permlanex16_b32", permute_rows, 16, "1"},
                                             {"v_permlane64_b32", swap_halves, 0, "1"},
                                             {"v_swap_b32", swap, 0, "0"},
                                             {"ds_bpermute_b32", pull, 0, "1"},
                                             {"ds_permute_b32", push, 0, "1"},
                                             {"ds_swizzle_b32", swizzle, 0, "1"},
                                             {0}};
