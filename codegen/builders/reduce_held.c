/* Rows on a GPU that fit the registers of their threads: each thread takes a few whole vectors, written out one after
   another; what a pass computes is still known in the next, so that every element is read once and nothing goes through
   memory. Rows of one warp go several to a block, without a barrier. A vector past the end is read from the last one
   and counts as the identity. Read next: reduce_columns.c. */
#include <string.h>

#include "codegen/builders/reduce.h"

enum { HELD_VECTORS = 4, HELD_REGISTERS = 64, HELD_ROWS = 4, ROWS_OF_A_WARP = 2 };

typedef struct held {
    weft_reduction *r;
    int vectors;      /* of a thread */
    weft_kval thread; /* of the row */
    weft_lane_index index[WEFT_MAX_RANK];
    weft_kval column[HELD_VECTORS], inside[HELD_VECTORS]; /* inside: WEFT_KNONE = always */
} held;

static const weft_lane_index *index_at(held *h, int u) {
    h->index[h->r->lane_axis] = weft_lane_range(h->column[u], h->r->lanes);
    return h->index;
}

static void place_columns(held *h) {
    weft_reduction *r = h->r;
    weft_kernel *k = r->k;
    int64_t step = (int64_t)r->lanes * r->threads;
    for (int u = 0; u < h->vectors; u++) {
        weft_kval own = weft_k_add(k, weft_k_mul(k, h->thread, weft_k_index(k, r->lanes)), weft_k_index(k, u * step));
        h->column[u] = own, h->inside[u] = WEFT_KNONE;
        if ((u + 1) * step <= r->lane_extent) continue;
        h->inside[u] = weft_k_lt(k, own, weft_k_index(k, r->lane_extent));
        h->column[u] = weft_k_min(k, own, weft_k_index(k, r->lane_extent - r->lanes));
    }
}

static void reduce_pass(held *h, int pass) {
    weft_reduction *r = h->r;
    weft_index_context *c = &r->c;
    for (int i = 0; i < r->count; i++) {
        if (r->level[i] != pass) continue;
        weft_kval sums[1][WEFT_REDUCTIONS_MAX], sum = WEFT_KNONE;
        weft_dtype dtype = r->nodes[i]->results[0].type.dtype;
        for (int u = 0; u < h->vectors; u++) {
            weft_kval value = weft_index_value(c, r->nodes[i]->operands[0], index_at(h, u), r->lanes, WEFT_KNONE);
            if (h->inside[u] != WEFT_KNONE)
                value = weft_index_select(c, weft_k_splat(r->k, h->inside[u], r->lanes), value,
                                          weft_index_identity(c, r->kind[i], dtype, r->lanes));
            sum = sum == WEFT_KNONE ? value : weft_index_combine(c, r->kind[i], dtype, sum, value);
        }
        sums[0][i] = weft_k_var(r->k, sum);
        sum = weft_reduce_combine(r, i, 1, sums, WEFT_KNONE);
        weft_index_bind(c, &r->nodes[i]->results[0], weft_index_round(c, dtype, sum));
    }
}

static void store_pass(held *h) {
    weft_reduction *r = h->r;
    for (int u = 0; u < h->vectors; u++) {
        size_t mark = weft_index_mark(&r->c);
        if (h->inside[u] != WEFT_KNONE) weft_k_if(r->k, h->inside[u]);
        for (int i = 0; i < r->request->fusion->result_count; i++)
            if (r->forms[i] == WEFT_REDUCE_FULL) weft_index_emit(&r->c, i, index_at(h, u), r->lanes, WEFT_KNONE);
        if (h->inside[u] == WEFT_KNONE) continue;
        weft_k_end(r->k);
        weft_index_release(&r->c, mark);
    }
}

static void reduce_results(held *h) {
    weft_reduction *r = h->r;
    weft_kernel *k = r->k;
    if (r->any_full) store_pass(h);
    size_t mark = weft_index_mark(&r->c);
    weft_k_if(k, weft_k_eq(k, h->thread, weft_k_index(k, 0)));
    weft_reduction_emit_results(r, h->index, 1, WEFT_KNONE);
    weft_k_end(k);
    weft_index_release(&r->c, mark);
}

/* The passes over a row that was fetched, and its results. */
static void reduce_row(held *h, weft_kval exists) {
    weft_reduction *r = h->r;
    weft_kernel *k = r->k;
    for (int pass = 0; pass < r->levels; pass++) {
        weft_reduction_bind_picks(r, pass, h->index);
        reduce_pass(h, pass);
    }
    size_t mark = weft_index_mark(&r->c);
    if (exists != WEFT_KNONE) weft_k_if(k, exists);
    reduce_results(h);
    if (exists != WEFT_KNONE) weft_k_end(k);
    weft_index_release(&r->c, mark);
}

/* -- rows in turns, sums of columns beside them */

/* The thread's columns of the row join the sums. */
static void add_sides(held *h, weft_kval (*sums)[HELD_VECTORS]) {
    weft_reduction *r = h->r;
    for (int u = 0; u < h->vectors; u++)
        for (int i = 0; i < r->side_count; i++) {
            weft_dtype dtype = r->side[i]->results[0].type.dtype;
            const char *kind = weft_node_string(r->side[i], WEFT_ATTR_kind, "sum");
            weft_kval value = weft_index_value(&r->c, r->side[i]->operands[0], index_at(h, u), r->lanes, WEFT_KNONE);
            if (h->inside[u] != WEFT_KNONE)
                value = weft_index_select(&r->c, weft_k_splat(r->k, h->inside[u], r->lanes), value,
                                          weft_index_identity(&r->c, kind, dtype, r->lanes));
            weft_k_set(r->k, sums[i][u], weft_index_combine(&r->c, kind, dtype, weft_k_get(r->k, sums[i][u]), value));
        }
}

static void store_sides(held *h, const weft_kval *temps, weft_kval turn, weft_kval (*sums)[HELD_VECTORS]) {
    weft_reduction *r = h->r;
    weft_kernel *k = r->k;
    weft_kval base = weft_k_mul(k, turn, weft_k_index(k, r->lane_extent));
    for (int u = 0; u < h->vectors; u++) {
        if (h->inside[u] != WEFT_KNONE) weft_k_if(k, h->inside[u]);
        for (int i = 0; i < r->side_count; i++)
            weft_k_store(k, temps[i], weft_k_add(k, base, h->column[u]), WEFT_KNONE, weft_k_get(k, sums[i][u]));
        if (h->inside[u] != WEFT_KNONE) weft_k_end(k);
    }
}

void weft_reduce_held_beside(weft_reduction *r, const weft_kval *temps, int64_t blocks, int rows) {
    weft_kernel *k = r->k;
    weft_kval turn = weft_k_block(k), sums[WEFT_REDUCE_SIDES_MAX][HELD_VECTORS];
    int64_t step = (int64_t)r->lanes * r->threads;
    held h = {.r = r, .vectors = (int)((r->lane_extent + step - 1) / step), .thread = weft_k_thread(k)};
    r->keep_count = 0;
    k->threads = r->threads * rows, k->grid = weft_dim_number(k->dims, blocks);
    if (rows > 1) {
        weft_kval width = weft_k_index(k, r->threads);
        turn = weft_k_add(k, weft_k_mul(k, turn, weft_k_index(k, rows)), weft_k_div(k, h.thread, width));
        h.thread = weft_k_rem(k, h.thread, width);
    }
    place_columns(&h);
    for (int i = 0; i < r->side_count; i++)
        for (int u = 0; u < h.vectors; u++)
            sums[i][u] = weft_k_var(k, weft_index_identity(&r->c, weft_node_string(r->side[i], WEFT_ATTR_kind, "sum"),
                                                           r->side[i]->results[0].type.dtype, r->lanes));
    weft_kval row = weft_k_for(k, turn, weft_k_extent(k, r->kept.extent), weft_k_index(k, blocks * rows), 0);
    size_t mark = weft_index_mark(&r->c);
    for (int a = 0; a < r->x->rank; a++) h.index[a] = weft_lane_scalar(weft_k_index(k, 0));
    weft_axis_set_index(r, &r->kept, row, h.index);
    for (int u = 0; u < h.vectors; u++) weft_reduction_fetch(r, 0, index_at(&h, u), r->lanes);
    for (int pass = 0; pass < r->levels; pass++) reduce_pass(&h, pass);
    add_sides(&h, sums);
    reduce_results(&h);
    if (r->threads > k->capability->warp) weft_k_barrier(k); /* sums of warps are read before the next row's come */
    weft_index_release(&r->c, mark);
    weft_k_end(k);
    store_sides(&h, temps, turn, sums);
}

/* Rows of this thread's warp, all of them under way before the first is reduced. */
static void emit_rows(held *h, int count, const weft_kval *row, const weft_kval *exists) {
    weft_reduction *r = h->r;
    weft_kernel *k = r->k;
    weft_lane_index index[ROWS_OF_A_WARP][WEFT_MAX_RANK];
    weft_reduce_pick picks[ROWS_OF_A_WARP][WEFT_REDUCTIONS_MAX];
    weft_kval labels[ROWS_OF_A_WARP][WEFT_REDUCTIONS_MAX];
    place_columns(h);
    for (int n = 0; n < count; n++) {
        for (int a = 0; a < r->x->rank; a++) index[n][a] = weft_lane_scalar(weft_k_index(k, 0));
        weft_axis_set_index(r, &r->kept, row[n], index[n]);
        /* labels first, then the row: what waits for a label would hold up the loads behind it */
        weft_reduction_read_labels(r, index[n], labels[n]);
        memcpy(h->index, index[n], sizeof h->index);
        for (int u = 0; u < h->vectors; u++) weft_reduction_fetch(r, 0, index_at(h, u), r->lanes);
    }
    for (int n = 0; n < count; n++) {
        r->labels = labels[n];
        weft_reduction_place_picks(r, index[n]);
        memcpy(picks[n], r->pick, sizeof r->pick);
    }
    r->labels = NULL;
    for (int n = 0; n < count; n++) {
        size_t mark = weft_index_mark(&r->c);
        memcpy(h->index, index[n], sizeof h->index);
        memcpy(r->pick, picks[n], sizeof r->pick);
        reduce_row(h, exists[n]);
        weft_index_release(&r->c, mark);
    }
}

/* Vectors of a thread; 0: rows are not held. */
int64_t weft_reduce_held_vectors(const weft_reduction *r) {
    if (r->outer.extent != 1 || !weft_dim_is_number(r->lane_extent) || r->lane_extent < r->lanes) return 0;
    int64_t step = (int64_t)r->lanes * r->threads, vectors = (r->lane_extent + step - 1) / step;
    bool fits = vectors <= HELD_VECTORS && vectors * r->lanes * weft_reduction_row_arguments(r) <= HELD_REGISTERS;
    return fits ? vectors : 0;
}

bool weft_reduce_held(weft_reduction *r) {
    weft_kernel *k = r->k;
    weft_dim_table *dims = k->dims;
    int64_t vectors = weft_reduce_held_vectors(r);
    if (!vectors) return false;
    r->keep_count = 0;
    held h = {.r = r, .vectors = (int)vectors, .thread = weft_k_thread(k)};
    bool warps = r->threads == k->capability->warp && r->threads * HELD_ROWS <= k->capability->threads_max;
    int rows = warps ? HELD_ROWS : 1, each = warps && r->request->schedule->unroll > 1 ? ROWS_OF_A_WARP : 1;
    weft_kval row[ROWS_OF_A_WARP] = {weft_k_block(k)}, exists[ROWS_OF_A_WARP] = {WEFT_KNONE};
    k->threads = r->threads * rows;
    k->grid = weft_dim_divide_ceil(dims, r->kept.extent, rows * each);
    if (warps) {
        weft_kval thread = h.thread, width = weft_k_index(k, r->threads), count = weft_k_extent(k, r->kept.extent);
        int64_t known = weft_dim_divisor(dims, r->kept.extent);
        weft_kval first =
            weft_k_add(k, weft_k_mul(k, row[0], weft_k_index(k, rows * each)), weft_k_div(k, thread, width));
        h.thread = weft_k_rem(k, thread, width);
        for (int n = 0; n < each; n++) {
            row[n] = weft_k_add(k, first, weft_k_index(k, n * rows)), exists[n] = WEFT_KNONE;
            if (known != 0 && known % (rows * each) == 0) continue;
            exists[n] = weft_k_lt(k, row[n], count);
            row[n] = weft_k_min(k, row[n], weft_k_sub(k, count, weft_k_index(k, 1)));
        }
    }
    emit_rows(&h, each, row, exists);
    return true;
}
