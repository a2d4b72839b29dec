/* Reductions that keep the last axes: lanes are neighbouring results. A block takes a piece of columns and walks the
   reduced axes for each level with several vectors of columns at once, so that memory is read in whole lines; a last
   walk writes results of X's shape. Read next: reduce_split.c. */
#include "codegen/builders/reduce.h"

/* The reduced axes from lo to hi for `count` vectors of columns; leaves results[u][i] unrounded. */
void weft_reduce_column_pass(weft_reduction *r, int pass, weft_lane_index *index, const weft_column_group *g,
                             weft_kval lo, weft_kval hi, weft_kval (*results)[WEFT_REDUCTIONS_MAX]) {
    weft_kernel *k = r->k;
    weft_kval accumulators[WEFT_REDUCE_UNROLL_MAX][WEFT_REDUCTIONS_MAX];
    for (int u = 0; u < g->count; u++) weft_reduction_start(r, pass, g->lanes, accumulators[u]);
    size_t mark = weft_index_mark(&r->c);
    /* GPUs: loads of four rows are under way at once */
    int unroll = weft_capability_is_cpu(r->request->capability) ? 0 : 4;
    weft_kval step = weft_k_for(k, lo, hi, weft_k_index(k, 1), unroll);
    weft_axis_set_index(r, &r->outer, step, index);
    for (int u = 0; u < g->count; u++) {
        size_t inner = weft_index_mark(&r->c);
        for (int i = 0; i < r->count; i++) {
            const weft_value *value = &r->nodes[i]->results[0];
            if (r->level[i] < pass)
                weft_index_bind(&r->c, value, weft_index_round(&r->c, value->type.dtype, results[u][i]));
        }
        index[r->lane_axis] = weft_lane_range(g->column[u], g->lanes);
        weft_reduction_visit(r, pass, index, index[r->lane_axis], g->lanes, g->mask, accumulators[u]);
        weft_index_release(&r->c, inner);
    }
    weft_k_end(k);
    weft_index_release(&r->c, mark);
    for (int u = 0; u < g->count; u++)
        for (int i = 0; i < r->count; i++)
            if (r->level[i] == pass) results[u][i] = weft_k_get(k, accumulators[u][i]);
}

static void emit_columns(weft_reduction *r, const weft_lane_index *row, weft_kval column, int count, int lanes,
                         weft_kval mask) {
    weft_kernel *k = r->k;
    weft_lane_index index[WEFT_MAX_RANK];
    weft_kval results[WEFT_REDUCE_UNROLL_MAX][WEFT_REDUCTIONS_MAX];
    weft_column_group g = {.count = count, .lanes = lanes, .mask = mask};
    for (int a = 0; a < r->x->rank; a++) index[a] = row[a];
    for (int u = 0; u < count; u++) g.column[u] = weft_k_add(k, column, weft_k_index(k, (int64_t)u * lanes));
    weft_kval zero = weft_k_index(k, 0), length = weft_ix_extent(&r->c, r->outer.extent);
    size_t mark = weft_index_mark(&r->c);
    for (int pass = 0; pass < r->levels + r->any_full; pass++)
        weft_reduce_column_pass(r, pass, index, &g, zero, length, results);
    for (int u = 0; u < count; u++) {
        size_t inner = weft_index_mark(&r->c);
        for (int i = 0; i < r->count; i++) {
            const weft_value *value = &r->nodes[i]->results[0];
            weft_index_bind(&r->c, value, weft_index_round(&r->c, value->type.dtype, results[u][i]));
        }
        index[r->lane_axis] = weft_lane_range(g.column[u], lanes);
        weft_reduction_emit_results(r, index, lanes, mask);
        weft_index_release(&r->c, inner);
    }
    weft_index_release(&r->c, mark);
}

static bool known_empty(const weft_kernel *k, weft_kval lo, weft_kval hi) {
    int64_t a, b;
    return weft_k_is_constant(k, lo, &a) && weft_k_is_constant(k, hi, &b) && a >= b;
}

static void loop(weft_reduction *r, const weft_lane_index *row, weft_kval lo, weft_kval hi, int count, int lanes,
                 bool masked, weft_column_body body) {
    weft_kernel *k = r->k;
    if (known_empty(k, lo, hi)) return;
    size_t mark = weft_index_mark(&r->c);
    weft_kval column = weft_k_for(k, lo, hi, weft_k_index(k, (int64_t)count * lanes), 0), mask = WEFT_KNONE;
    if (masked) mask = weft_index_below(&r->c, weft_lane_range(column, lanes), lanes, hi);
    body(r, row, column, count, lanes, mask);
    weft_index_release(&r->c, mark);
    weft_k_end(k);
}

void weft_reduce_for_columns(weft_reduction *r, const weft_lane_index *row, weft_kval lo, weft_kval hi,
                             weft_column_body body) {
    weft_kernel *k = r->k;
    weft_kval span = weft_k_sub(k, hi, lo), start = lo, whole = lo;
    int steps[2] = {r->unroll, 1};
    for (int i = r->unroll > 1 ? 0 : 1; i < 2; i++) {
        weft_kval step = weft_k_index(k, (int64_t)steps[i] * r->lanes);
        whole = weft_k_add(k, lo, weft_k_mul(k, weft_k_div(k, span, step), step));
        loop(r, row, start, whole, steps[i], r->lanes, false, body);
        start = whole;
    }
    bool masked = weft_tail_is_masked(r->request);
    if (r->lanes > 1) loop(r, row, whole, hi, 1, masked ? r->lanes : 1, masked, body);
}

/* Position `row` of the kept axes before the columns. */
void weft_reduce_row_index(weft_reduction *r, weft_kval row, weft_lane_index *out) {
    for (int a = 0; a < r->x->rank; a++) out[a] = weft_lane_scalar(weft_k_index(r->k, 0));
    weft_axis_set_index(r, &r->kept, row, out);
}

static void build_gpu(weft_reduction *r) {
    weft_kernel *k = r->k;
    weft_dim_table *table = r->request->graph->dims;
    int64_t known = weft_dim_divisor(table, r->lane_extent);
    while (r->lanes > 1 && (known % r->lanes || r->lanes > 4)) r->lanes /= 2;
    int most = r->request->capability->threads_max < 256 ? r->request->capability->threads_max : 256;
    int threads = r->request->schedule->threads > 0 ? r->request->schedule->threads : most;
    r->threads = 1; /* threads do not cooperate */
    k->threads = threads;
    weft_dim chunks = weft_dim_divide_ceil(table, r->lane_extent, r->lanes),
             total = weft_dim_multiply(table, r->kept.extent, chunks);
    k->grid = weft_dim_divide_ceil(table, total, threads);
    weft_kval id = weft_k_add(k, weft_k_mul(k, weft_k_block(k), weft_k_index(k, threads)), weft_k_thread(k));
    weft_k_if(k, weft_k_lt(k, id, weft_k_extent(k, total)));
    size_t mark = weft_index_mark(&r->c);
    weft_lane_index row[WEFT_MAX_RANK];
    weft_reduce_row_index(r, weft_k_div(k, id, weft_k_extent(k, chunks)), row);
    weft_kval chunk = weft_k_rem(k, id, weft_k_extent(k, chunks));
    emit_columns(r, row, weft_k_mul(k, chunk, weft_k_index(k, r->lanes)), 1, r->lanes, WEFT_KNONE);
    weft_index_release(&r->c, mark);
    weft_k_end(k);
}

void weft_reduce_columns(weft_reduction *r) {
    weft_kernel *k = r->k;
    weft_dim_table *table = r->request->graph->dims;
    if (!weft_capability_is_cpu(r->request->capability)) {
        build_gpu(r);
        return;
    }
    r->threads = 1;
    int64_t elements = r->request->schedule->block_elements > 0 ? r->request->schedule->block_elements : 4096;
    int64_t vectors = (int64_t)r->lanes * r->unroll;
    weft_dim length = weft_dim_at_least_one(table, r->outer.extent);
    weft_dim groups = weft_dim_at_least_one(table, weft_dim_divide_floor(table, elements / vectors, length));
    weft_dim piece = weft_dim_multiply(table, groups, vectors); /* columns of a block */
    weft_dim pieces = weft_dim_divide_ceil(table, r->lane_extent, piece);
    k->grid = weft_dim_multiply(table, r->kept.extent, pieces);
    weft_kval block = weft_k_block(k), count = weft_k_extent(k, pieces), width = weft_k_extent(k, piece);
    weft_kval lo = weft_k_mul(k, weft_k_rem(k, block, count), width);
    weft_kval hi = weft_k_min(k, weft_k_add(k, lo, width), weft_k_extent(k, r->lane_extent));
    weft_lane_index row[WEFT_MAX_RANK];
    size_t mark = weft_index_mark(&r->c);
    weft_reduce_row_index(r, weft_k_div(k, block, count), row);
    weft_reduce_for_columns(r, row, lo, hi, emit_columns);
    weft_index_release(&r->c, mark);
}
