/* The tile of simt.h by simdgroup matrices (Metal): fetching, shared memory and the loop over k are the same, products
   are of 8 x 8 matrices of f32. Block: 64 x 64 outputs by four simdgroups of 32 x 32 = 4 x 4 matrices. A matrix is two
   neighbours of a row in each lane (codegen/kernel/matrix.h), so a lies with k innermost and b with n: both are read as
   pairs. For a store, lanes that are neighbours exchange pairs: each then has four neighbours of a row. Sums run over k
   in order, in the unit's own order within 8. Read next: codegen/metal/prelude.c. */
#include "codegen/builders/simt.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/ring.h"

enum { TILE = 64, DEPTH = 16, SIMDGROUP_THREADS = 128, EACH = 4, SIZE = 8 };

static weft_kval index_of(weft_simt *s, int64_t value) { return weft_k_index(s->k, value); }
static weft_kval plus(weft_simt *s, weft_kval a, weft_kval b) { return weft_k_add(s->k, a, b); }
static weft_kval times(weft_simt *s, weft_kval a, int64_t b) { return weft_k_mul(s->k, a, index_of(s, b)); }
/* (value >> shift) % count, a power of two */
static weft_kval bits_of(weft_simt *s, weft_kval value, int shift, int count) {
    weft_kval moved = shift ? weft_k_binary(s->k, WEFT_K_shr, value, index_of(s, shift)) : value;
    return weft_k_and(s->k, moved, index_of(s, count - 1));
}

bool weft_simt_simdgroup_schedule(const weft_capability *capability, weft_dtype sum, const char *name,
                                  weft_schedule *out_schedule) {
    int bytes = 2 * 4 * (TILE * (DEPTH + 8) + DEPTH * (TILE + 8));
    if (!capability->simdgroup_matrix || sum != WEFT_F32 || capability->threads_max < SIMDGROUP_THREADS ||
        bytes > capability->shared_bytes)
        return false;
    *out_schedule = (weft_schedule){.builder = name,
                                    .tile_m = TILE,
                                    .tile_n = TILE,
                                    .tile_k = DEPTH,
                                    .threads = SIMDGROUP_THREADS,
                                    .vector = 2,
                                    .stages = 2,
                                    .raster = 8};
    return true;
}

/* Registers of a simdgroup's matrices: sums[4][4]. */
void weft_simt_simdgroup_begin(weft_simt *s) {
    s->sums = weft_k_regs(s->k, WEFT_F32, 2, EACH * EACH);
    for (int i = 0; i < EACH * EACH; i++)
        weft_k_set_at(s->k, s->sums, index_of(s, i), weft_k_constant_lanes(s->k, WEFT_F32, 0, 2));
}

/* This lane's row of every matrix, the first of its two columns, and where its simdgroup starts on a side. */
static weft_kval lane_row(weft_simt *s) {
    return plus(s, times(s, bits_of(s, s->thread, 4, 2), 4), bits_of(s, s->thread, 1, 4));
}
static weft_kval lane_column(weft_simt *s) {
    return plus(s, times(s, bits_of(s, s->thread, 3, 2), 4), times(s, bits_of(s, s->thread, 0, 2), 2));
}
static weft_kval start_of(weft_simt *s, int side) { return times(s, bits_of(s, s->thread, side ? 5 : 6, 2), TILE / 2); }

static weft_kval load_pair(weft_simt *s, int side, weft_kval buffer, weft_kval kk, weft_kval row) {
    weft_kval pair =
        weft_k_load(s->k, s->shared[side], weft_simt_shared_at(s, side, buffer, kk, row), 2, WEFT_KNONE, WEFT_KNONE);
    if (!s->k->failed) s->k->instrs[pair].align_bytes = 2 * (int)sizeof(float);
    return pair;
}

void weft_simt_simdgroup_multiply(weft_simt *s, weft_kval buffer) {
    weft_kernel *k = s->k;
    weft_kval row = lane_row(s), column = lane_column(s);
    weft_kval a = weft_k_regs(k, WEFT_F32, 2, EACH), b = weft_k_regs(k, WEFT_F32, 2, EACH);
    weft_kval step = weft_k_for(k, index_of(s, 0), index_of(s, s->bk), index_of(s, SIZE), -1);
    size_t mark = weft_index_mark(s->index);
    for (int i = 0; i < EACH; i++) {
        weft_kval line = plus(s, plus(s, start_of(s, 0), row), index_of(s, SIZE * i));
        weft_k_set_at(k, a, index_of(s, i), load_pair(s, 0, buffer, plus(s, step, column), line));
        weft_kval across = plus(s, plus(s, start_of(s, 1), column), index_of(s, SIZE * i));
        weft_k_set_at(k, b, index_of(s, i), load_pair(s, 1, buffer, plus(s, step, row), across));
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            weft_k_effect(k, WEFT_K_mma, 6,
                          (weft_kval[]){s->sums, index_of(s, i * EACH + j), a, index_of(s, i), b, index_of(s, j)},
                          WEFT_SIMDGROUP_F32, 0);
    weft_index_release(s->index, mark);
    weft_k_end(k);
}

/* Two matrices beside each other: even lanes take four neighbours of the first, odd ones of the second. */
static weft_kval four_of(weft_simt *s, int first, weft_kval odd) {
    weft_kernel *k = s->k;
    weft_kval pair[2] = {weft_k_get_at(k, s->sums, index_of(s, first)),
                         weft_k_get_at(k, s->sums, index_of(s, first + 1))};
    weft_kval four = weft_k_constant_lanes(k, WEFT_F32, 0, 4);
    for (int e = 0; e < 2; e++) {
        weft_kval x = weft_k_extract(k, pair[0], e), y = weft_k_extract(k, pair[1], e);
        weft_kval own = weft_k_select(k, odd, y, x), other = weft_k_shuffle_xor(k, weft_k_select(k, odd, x, y), 1);
        four = weft_k_insert(k, four, e, weft_k_select(k, odd, other, own));
        four = weft_k_insert(k, four, 2 + e, weft_k_select(k, odd, own, other));
    }
    return four;
}

void weft_simt_simdgroup_store(weft_simt *s) {
    weft_kernel *k = s->k;
    weft_kval m = weft_k_extent(k, s->m), n = weft_k_extent(k, s->n);
    weft_kval bit = bits_of(s, s->thread, 0, 2), odd = weft_k_eq(k, bit, index_of(s, 1));
    weft_kval first = plus(s, plus(s, s->n0, start_of(s, 1)), times(s, bits_of(s, s->thread, 3, 2), 4));
    bool whole = weft_dim_divisor(k->dims, s->n) % 4 == 0;
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j += 2) {
            weft_kval four = four_of(s, i * EACH + j, odd);
            weft_kval row = plus(s, plus(s, s->m0, start_of(s, 0)), plus(s, lane_row(s), index_of(s, SIZE * i)));
            weft_kval column = plus(s, first, times(s, plus(s, bit, index_of(s, j)), SIZE));
            weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
            size_t mark = weft_index_mark(s->index);
            weft_lane_index range = weft_lane_range(column, 4);
            weft_kval mask = whole ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
            s->store(s, row, range, mask, four);
            weft_index_release(s->index, mark);
            weft_k_end(k);
        }
}
