/* Rows on a GPU that fit the registers of their threads: each thread takes a few whole vectors, written out one after
   another; what a pass computes is still known in the next, so that every element is read once and nothing goes through
   memory. Rows of one warp go several to a block, without a barrier. A vector past the end is read from the last one
   and counts as the identity. Read next: reduce_columns.c. */
#include "codegen/builders/reduce.h"

enum { HELD_VECTORS = 4, HELD_REGISTERS = 64, HELD_ROWS = 4 };

typedef struct held {
    weft_reduction *r;
    int vectors;              /* of a thread */
    weft_kval thread, exists; /* of the row; the row exists: WEFT_KNONE = always */
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

static void emit_row(held *h, weft_kval row) {
    weft_reduction *r = h->r;
    weft_kernel *k = r->k;
    for (int a = 0; a < r->x->rank; a++) h->index[a] = weft_lane_scalar(weft_k_index(k, 0));
    weft_axis_set_index(r, &r->kept, row, h->index);
    place_columns(h);
    /* labels first, then the row: what waits for a label would hold up the loads behind it */
    weft_kval labels[WEFT_REDUCTIONS_MAX];
    weft_reduction_read_labels(r, h->index, labels);
    r->labels = labels;
    for (int u = 0; u < h->vectors; u++) weft_reduction_fetch(r, 0, index_at(h, u), r->lanes);
    weft_reduction_place_picks(r, h->index);
    r->labels = NULL;
    for (int pass = 0; pass < r->levels; pass++) {
        weft_reduction_bind_picks(r, pass, h->index);
        reduce_pass(h, pass);
    }
    size_t mark = weft_index_mark(&r->c);
    if (h->exists != WEFT_KNONE) weft_k_if(k, h->exists);
    if (r->any_full) store_pass(h);
    size_t last = weft_index_mark(&r->c);
    weft_k_if(k, weft_k_eq(k, h->thread, weft_k_index(k, 0)));
    weft_reduction_emit_results(r, h->index, 1, WEFT_KNONE);
    weft_k_end(k);
    weft_index_release(&r->c, last);
    if (h->exists != WEFT_KNONE) weft_k_end(k);
    weft_index_release(&r->c, mark);
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
    held h = {.r = r, .vectors = (int)vectors, .exists = WEFT_KNONE};
    int rows =
        r->threads == k->capability->warp && r->threads * HELD_ROWS <= k->capability->threads_max ? HELD_ROWS : 1;
    weft_kval thread = weft_k_thread(k), row = weft_k_block(k), width = weft_k_index(k, r->threads);
    h.thread = thread;
    k->threads = r->threads * rows;
    k->grid = weft_dim_divide_ceil(dims, r->kept.extent, rows);
    if (rows > 1) {
        weft_kval count = weft_k_extent(k, r->kept.extent);
        h.thread = weft_k_rem(k, thread, width);
        row = weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, rows)), weft_k_div(k, thread, width));
        int64_t known = weft_dim_divisor(dims, r->kept.extent);
        if (known == 0 || known % rows) {
            h.exists = weft_k_lt(k, row, count);
            row = weft_k_min(k, row, weft_k_sub(k, count, weft_k_index(k, 1)));
        }
    }
    emit_row(&h, row);
    return true;
}
