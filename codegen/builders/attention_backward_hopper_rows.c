/* Row by row before and after the products of attention_backward_hopper.c, where dQ is summed in no fixed order.

   prepare: delta = rowsum(dO O); the log-sum-exp in base 2, +inf for rows past the end and rows that see no key, so
   that P is 0 there; dQ sums and tile counters are cleared. D / 8 threads a row, above 128 columns 32. finish: dQ sums,
   which lie as accumulator fragments of 64 x 64, become rows of 16-bit values; turned through shared memory, so that
   every lane writes 16 bytes. Both fragments of a tile: halves of D (128) or of the queries (64). */
#include "codegen/builders/attention_backward_hopper.h"

#include <math.h>

static weft_kval wide_load(weft_kernel *k, weft_kval memory, weft_kval at, int lanes, weft_kval mask) {
    weft_kval value = weft_k_load(k, memory, at, lanes, mask, WEFT_KNONE);
    if (!k->failed) k->instrs[value].align_bytes = 16;
    return value;
}

static void wide_store(weft_kernel *k, weft_kval memory, weft_kval at, weft_kval value, int align) {
    weft_k_store(k, memory, at, WEFT_KNONE, value);
    if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = align;
}

/* Sum of the products of 8 elements. */
static weft_kval dot8(weft_kernel *k, weft_kval x, weft_kval y) {
    x = weft_k_convert(k, x, WEFT_F32), y = weft_k_convert(k, y, WEFT_F32);
    return weft_k_reduce(k, WEFT_K_reduce_add, weft_k_mul(k, x, y));
}

void weft_backward_prepare(weft_backward *b) {
    weft_kernel *k = b->k;
    weft_dim_table *dims = k->dims;
    bool clears = b->sums && !b->owned;                    /* an owner's first addition to a tile is a store */
    int lanes = weft_backward_wide(b) ? 32 : b->width / 8; /* of a row */
    int per_block = 256 / lanes;                           /* rows, of which every head has a multiple */
    weft_kval o, g;
    weft_attention_side o_side = weft_backward_lines_in(b, WEFT_BACKWARD_O, "o", &o),
                        g_side = weft_backward_lines_in(b, WEFT_BACKWARD_DO, "do", &g);
    weft_kval lse = weft_backward_operand(b, WEFT_BACKWARD_LSE, "lse"),
              lse2 = weft_backward_temp(b, WEFT_BACKWARD_LSE2, WEFT_F32, true, "lse2"),
              delta = weft_backward_temp(b, WEFT_BACKWARD_DELTA, WEFT_F32, true, "delta"),
              counters = weft_backward_temp(b, WEFT_BACKWARD_COUNTERS, WEFT_I32, true, "counters"),
              sums = !clears ? WEFT_KNONE : weft_backward_temp(b, WEFT_BACKWARD_SUMS, WEFT_F32, true, "sums");
    k->threads = 256;
    k->grid = weft_dim_divide_floor(dims, weft_dim_multiply(dims, b->rows, b->heads), per_block);
    weft_kval thread = weft_k_thread(k), block = weft_k_block(k), zero = weft_k_index(k, 0);
    weft_kval part = weft_k_rem(k, thread, weft_k_index(k, lanes)),
              row = weft_k_add(k, weft_k_mul(k, block, weft_k_index(k, per_block)),
                               weft_k_div(k, thread, weft_k_index(k, lanes)));
    weft_kval rows = weft_k_extent(k, b->rows), queries = weft_k_extent(k, b->queries);
    weft_kval head = weft_k_div(k, row, rows), own = weft_k_sub(k, row, weft_k_mul(k, head, rows)),
              inside = weft_k_lt(k, own, queries), line = weft_k_add(k, weft_k_mul(k, head, queries), own);
    weft_kval leader = weft_k_eq(k, part, zero);
    weft_kval column = weft_k_mul(k, part, weft_k_index(k, 8));
    weft_kval o_at = weft_k_add(k, weft_k_times(k, weft_attention_line(k, &o_side, own, head), b->columns), column),
              g_at = weft_k_add(k, weft_k_times(k, weft_attention_line(k, &g_side, own, head), b->columns), column);
    weft_kval there = weft_k_and(k, inside, weft_k_lt(k, column, weft_k_index(k, b->columns)));
    weft_kval sum = dot8(k, wide_load(k, o, o_at, 8, there), wide_load(k, g, g_at, 8, there));
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        sum = weft_k_add(k, sum, weft_k_shuffle_xor(k, sum, distance));
    weft_k_if(k, leader);
    weft_kval l = weft_k_load(k, lse, line, 1, inside, weft_k_f32(k, -INFINITY));
    weft_kval none = weft_k_eq(k, l, weft_k_f32(k, -INFINITY));
    weft_k_store(k, lse2, row, WEFT_KNONE,
                 weft_k_select(k, none, weft_k_f32(k, INFINITY), weft_k_mul(k, l, weft_k_f32(k, 1.4426950408889634))));
    weft_k_store(k, delta, row, WEFT_KNONE, sum);
    weft_k_end(k);
    weft_k_if(k, weft_k_and(k, weft_k_eq(k, block, zero), weft_k_lt(k, thread, weft_k_index(k, 2))));
    weft_k_store(k, counters, thread, WEFT_KNONE, weft_k_integer(k, WEFT_I32, 0));
    weft_k_end(k);
    if (!clears) return;
    weft_kval to =
        weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, b->width)), weft_k_mul(k, part, weft_k_index(k, 4)));
    for (int half = 0; half < 2; half++)
        wide_store(k, sums, weft_k_add(k, to, weft_k_index(k, (int64_t)half * 4 * lanes)),
                   weft_k_constant_lanes(k, WEFT_F32, 0, 4), 16);
}

void weft_backward_finish(weft_backward *b) {
    enum { PITCH = 72 }; /* 16-bit elements of a row in shared memory: 8 past 64 keep rows apart in the banks */
    weft_kernel *k = b->k;
    weft_dim_table *dims = k->dims;
    weft_kval sums = weft_backward_temp(b, WEFT_BACKWARD_SUMS, WEFT_F32, false, "sums"), dq;
    weft_attention_side side = weft_backward_lines_out(b, WEFT_BACKWARD_DQ, "dq", &dq);
    k->threads = 128;
    k->grid = weft_dim_multiply(dims, weft_dim_multiply(dims, b->tiles, b->heads), 2);
    weft_kval tile_memory = weft_k_shared(k, b->dtype, 64 * PITCH);
    weft_kval thread = weft_k_thread(k), block = weft_k_block(k), two = weft_k_index(k, 2);
    weft_kval part = weft_k_rem(k, block, two), pair = weft_k_div(k, block, two), tiles = weft_k_extent(k, b->tiles);
    weft_kval tile = weft_k_rem(k, pair, tiles), head = weft_k_div(k, pair, tiles);
    weft_kval lane = weft_k_rem(k, thread, weft_k_index(k, 32)),
              row = weft_k_add(k, weft_k_mul(k, weft_k_div(k, thread, weft_k_index(k, 32)), weft_k_index(k, 16)),
                               weft_k_div(k, lane, weft_k_index(k, 4)));
    weft_kval from =
        weft_k_add(k, weft_k_mul(k, block, weft_k_index(k, 4096)), weft_k_mul(k, thread, weft_k_index(k, 4)));
    weft_kval to = weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, PITCH)),
                              weft_k_mul(k, weft_k_rem(k, lane, weft_k_index(k, 4)), two));
    for (int i = 0; i < 8; i++) {
        weft_kval x = wide_load(k, sums, weft_k_add(k, from, weft_k_index(k, 512 * i)), 4, WEFT_KNONE);
        for (int h = 0; h < 2; h++) {
            weft_kval pair_of = weft_k_constant_lanes(k, WEFT_F32, 0, 2);
            for (int e = 0; e < 2; e++)
                pair_of = weft_k_insert(k, pair_of, e,
                                        weft_k_mul(k, weft_k_extract(k, x, 2 * h + e), weft_k_f32(k, b->scale)));
            wide_store(k, tile_memory, weft_k_add(k, to, weft_k_index(k, 8 * i + 8 * PITCH * h)),
                       weft_k_convert(k, pair_of, b->dtype), 4);
        }
    }
    weft_k_barrier(k);
    bool wide = b->width == 128;
    weft_kval q0 = weft_k_mul(k, tile, weft_k_index(k, b->bm)), column = weft_k_index(k, 0);
    if (wide)
        column = weft_k_mul(k, part, weft_k_index(k, 64));
    else
        q0 = weft_k_add(k, q0, weft_k_mul(k, part, weft_k_index(k, 64)));
    weft_kval queries = weft_k_extent(k, b->queries), chunk = weft_k_rem(k, thread, weft_k_index(k, 8));
    chunk = weft_k_mul(k, chunk, weft_k_index(k, 8));
    column = weft_k_add(k, column, chunk);
    for (int i = 0; i < 4; i++) {
        weft_kval r = weft_k_add(k, weft_k_div(k, thread, weft_k_index(k, 8)), weft_k_index(k, 16 * i)),
                  query = weft_k_add(k, q0, r);
        weft_kval value =
            wide_load(k, tile_memory, weft_k_add(k, weft_k_mul(k, r, weft_k_index(k, PITCH)), chunk), 8, WEFT_KNONE);
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, query, queries), weft_k_lt(k, column, weft_k_index(k, b->columns))));
        weft_kval line = weft_attention_line(k, &side, query, head);
        wide_store(k, dq, weft_k_add(k, weft_k_mul(k, line, weft_k_index(k, b->columns)), column), value, 16);
        weft_k_end(k);
    }
}
