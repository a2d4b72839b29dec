/* Reductions along the last axes: lanes run along the row. Each level is one pass with several independent vector
   accumulators (CPU) or one per thread (GPU: shuffles, then shared memory), combined in a fixed tree; a last pass
   writes results of X's shape. Rows are spread over blocks; on GPUs a block is a row. Read next: reduce_held.c. */
#include "codegen/builders/reduce.h"

typedef struct sweep {
    weft_reduction *r;
    int pass;
    weft_lane_index *index;
    weft_kval base; /* position of the row piece in kept scratch: outer index times row length */
} sweep;

static bool known_empty(const weft_kernel *k, weft_kval lo, weft_kval hi) {
    int64_t a, b;
    return weft_k_is_constant(k, lo, &a) && weft_k_is_constant(k, hi, &b) && a >= b;
}

static void visit(sweep *s, weft_kval column, int64_t divisor, int lanes, weft_kval mask,
                  const weft_kval *accumulators) {
    weft_reduction *r = s->r;
    size_t mark = weft_index_mark(&r->c);
    weft_lane_index at = weft_lane_range(column, divisor);
    s->index[r->lane_axis] = at;
    weft_lane_index position = at;
    if (s->base != WEFT_KNONE) position = (weft_lane_index){weft_k_add(r->k, s->base, column), 1, 1};
    if (r->keep_base != WEFT_KNONE) position = (weft_lane_index){weft_k_add(r->k, r->keep_base, column), 1, r->lanes};
    weft_reduction_visit(r, s->pass, s->index, position, lanes, mask, accumulators);
    weft_index_release(&r->c, mark);
}

/* Columns [lo, whole) by `count` vectors at a time. */
static void vector_loop(sweep *s, weft_kval lo, weft_kval hi, int count,
                        weft_kval (*accumulators)[WEFT_REDUCTIONS_MAX]) {
    weft_reduction *r = s->r;
    weft_kernel *k = r->k;
    if (known_empty(k, lo, hi)) return;
    size_t mark = weft_index_mark(&r->c);
    weft_kval column = weft_k_for(k, lo, hi, weft_k_index(k, (int64_t)count * r->lanes), 0);
    for (int u = 0; u < count; u++)
        visit(s, weft_k_add(k, column, weft_k_index(k, (int64_t)u * r->lanes)), r->lanes, r->lanes, WEFT_KNONE,
              accumulators[u]);
    weft_k_end(k);
    weft_index_release(&r->c, mark);
}

static weft_kval whole_steps(weft_kernel *k, weft_kval lo, weft_kval hi, int64_t step) {
    weft_kval width = weft_k_index(k, step);
    return weft_k_add(k, lo, weft_k_mul(k, weft_k_div(k, weft_k_sub(k, hi, lo), width), width));
}

static void sweep_cpu(sweep *s, weft_kval lo, weft_kval hi, int unroll, weft_kval (*accumulators)[WEFT_REDUCTIONS_MAX],
                      const weft_kval *scalars) {
    weft_reduction *r = s->r;
    weft_kernel *k = r->k;
    weft_kval start = lo;
    if (unroll > 1) {
        weft_kval unrolled = whole_steps(k, lo, hi, (int64_t)unroll * r->lanes);
        vector_loop(s, start, unrolled, unroll, accumulators);
        start = unrolled;
    }
    weft_kval whole = whole_steps(k, lo, hi, r->lanes);
    vector_loop(s, start, whole, 1, accumulators);
    if (known_empty(k, whole, hi) || r->lanes == 1) return;
    size_t mark = weft_index_mark(&r->c);
    bool masked = weft_tail_is_masked(r->request);
    int lanes = masked ? r->lanes : 1;
    weft_kval column = weft_k_for(k, whole, hi, weft_k_index(k, lanes), 0), mask = WEFT_KNONE;
    if (masked) mask = weft_index_below(&r->c, weft_lane_range(column, lanes), lanes, hi);
    visit(s, column, lanes, lanes, mask, masked ? accumulators[0] : scalars);
    weft_k_end(k);
    weft_index_release(&r->c, mark);
}

/* -- combining */

/* Narrow elements travel between lanes as 32 bits. */
static weft_kval shuffle(weft_kernel *k, weft_kval value, int distance) {
    weft_dtype elem = (weft_dtype)weft_ktype_of(k, value).elem;
    if (weft_dtype_bits(elem) >= 32) return weft_k_shuffle_xor(k, value, distance);
    weft_kval wide = elem == WEFT_BOOL
                         ? weft_k_select(k, value, weft_k_integer(k, WEFT_I32, 1), weft_k_integer(k, WEFT_I32, 0))
                         : weft_k_convert(k, value, WEFT_I32);
    return weft_k_convert(k, weft_k_shuffle_xor(k, wide, distance), elem);
}

/* Without warps: halves of the block's values in shared memory are combined until one is left. */
static weft_kval tree_combine(weft_reduction *r, int i, weft_kval value) {
    weft_kernel *k = r->k;
    weft_dtype dtype = r->nodes[i]->results[0].type.dtype;
    weft_kval shared = weft_k_shared(k, weft_index_carrier(dtype), r->threads), thread = weft_k_thread(k);
    weft_k_store(k, shared, thread, WEFT_KNONE, value);
    weft_k_barrier(k);
    int steps = 0; /* a loop: compilers of shaders take long over many barriers */
    while (1 << (steps + 1) <= r->threads) steps++;
    size_t mark = weft_index_mark(&r->c);
    weft_kval step = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, steps), weft_k_index(k, 1), 0);
    weft_kval half = weft_k_binary(k, WEFT_K_shr, weft_k_index(k, r->threads / 2), step);
    weft_k_if(k, weft_k_lt(k, thread, half));
    weft_kval other = weft_k_add(k, thread, half);
    weft_kval a = weft_k_load(k, shared, thread, 1, WEFT_KNONE, WEFT_KNONE),
              b = weft_k_load(k, shared, other, 1, WEFT_KNONE, WEFT_KNONE);
    weft_k_store(k, shared, thread, WEFT_KNONE, weft_index_combine(&r->c, r->kind[i], dtype, a, b));
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_end(k);
    weft_index_release(&r->c, mark);
    return weft_k_load(k, shared, weft_k_index(k, 0), 1, WEFT_KNONE, WEFT_KNONE);
}

/* The same scalar in all threads of the block, combined in a fixed order. */
static weft_kval block_combine(weft_reduction *r, int i, weft_kval value) {
    weft_kernel *k = r->k;
    weft_dtype dtype = r->nodes[i]->results[0].type.dtype;
    int warp = k->capability->warp, threads = r->threads;
    for (int distance = warp / 2; distance > 0; distance /= 2)
        value = weft_index_combine(&r->c, r->kind[i], dtype, value, shuffle(k, value, distance));
    if (threads <= warp) return value;
    if (warp == 1) return tree_combine(r, i, value);
    int parts = threads / warp;
    weft_kval shared = weft_k_shared(k, weft_index_carrier(dtype), parts), thread = weft_k_thread(k);
    weft_kval leader = weft_k_eq(k, weft_k_rem(k, thread, weft_k_index(k, warp)), weft_k_index(k, 0));
    weft_k_if(k, leader);
    weft_k_store(k, shared, weft_k_div(k, thread, weft_k_index(k, warp)), WEFT_KNONE, value);
    weft_k_end(k);
    weft_k_barrier(k);
    value = weft_k_load(k, shared, weft_k_index(k, 0), 1, WEFT_KNONE, WEFT_KNONE);
    for (int p = 1; p < parts; p++)
        value = weft_index_combine(&r->c, r->kind[i], dtype, value,
                                   weft_k_load(k, shared, weft_k_index(k, p), 1, WEFT_KNONE, WEFT_KNONE));
    return value;
}

weft_kval weft_reduce_combine(weft_reduction *r, int i, int unroll, weft_kval (*accumulators)[WEFT_REDUCTIONS_MAX],
                              weft_kval scalar) {
    weft_kernel *k = r->k;
    weft_dtype dtype = r->nodes[i]->results[0].type.dtype;
    weft_kval parts[WEFT_REDUCE_UNROLL_MAX];
    for (int u = 0; u < unroll; u++) parts[u] = weft_k_get(k, accumulators[u][i]);
    for (int half = unroll / 2; half > 0; half /= 2)
        for (int u = 0; u < half; u++)
            parts[u] = weft_index_combine(&r->c, r->kind[i], dtype, parts[u], parts[u + half]);
    weft_kval result = weft_index_combine_lanes(&r->c, r->kind[i], dtype, parts[0]);
    if (scalar != WEFT_KNONE) result = weft_index_combine(&r->c, r->kind[i], dtype, result, weft_k_get(k, scalar));
    return r->threads > 1 ? block_combine(r, i, result) : result;
}

/* Vectors a thread of a GPU has in flight in one pass over a long row. */
static int unroll_gpu(const weft_reduction *r) {
    int64_t low, high;
    weft_dim_bounds(r->request->graph->dims, r->lane_extent, &low, &high);
    return high / 8 >= (int64_t)r->lanes * r->threads ? WEFT_REDUCE_UNROLL_MAX : 1;
}

/* The threads of a block walk the columns together, `unroll` vectors a thread at a time while that many are left: their
   loads are in flight at once. */
static void sweep_gpu(sweep *s, weft_kval lo, weft_kval hi, int sets, weft_kval (*accumulators)[WEFT_REDUCTIONS_MAX]) {
    weft_reduction *r = s->r;
    weft_kernel *k = r->k;
    size_t mark = weft_index_mark(&r->c);
    int64_t stride = (int64_t)r->lanes * r->threads;
    int unroll = unroll_gpu(r);
    weft_kval first = weft_k_add(k, lo, weft_k_mul(k, weft_k_thread(k), weft_k_index(k, r->lanes)));
    if (unroll > 1) {
        weft_kval step = weft_k_index(k, unroll * stride), end = whole_steps(k, lo, hi, unroll * stride);
        weft_kval column = weft_k_for(k, first, end, step, 0);
        size_t inner = weft_index_mark(&r->c);
        weft_kval columns[WEFT_REDUCE_UNROLL_MAX];
        for (int u = 0; u < unroll; u++) {
            columns[u] = weft_k_add(k, column, weft_k_index(k, u * stride));
            s->index[r->lane_axis] = weft_lane_range(columns[u], r->lanes);
            weft_reduction_fetch(r, s->pass, s->index, r->lanes);
        }
        for (int u = 0; u < unroll; u++) visit(s, columns[u], r->lanes, r->lanes, WEFT_KNONE, accumulators[u % sets]);
        weft_index_release(&r->c, inner);
        weft_k_end(k);
        first = weft_k_add(k, first, weft_k_sub(k, end, lo));
    }
    weft_kval column = weft_k_for(k, first, hi, weft_k_index(k, stride), 0);
    visit(s, column, r->lanes, r->lanes, WEFT_KNONE, accumulators[0]);
    weft_k_end(k);
    weft_index_release(&r->c, mark);
}

void weft_reduce_row_pass(weft_reduction *r, int pass, weft_lane_index *index, const weft_reduce_range *range,
                          weft_kval *out_results) {
    weft_kernel *k = r->k;
    bool gpu = r->threads > 1, last = pass == r->levels, scalar_tail = !gpu && !weft_tail_is_masked(r->request);
    int unroll = last ? 1 : gpu ? (r->lanes < 4 ? unroll_gpu(r) : 1) : r->unroll; /* four lanes hide an addition */
    weft_kval accumulators[WEFT_REDUCE_UNROLL_MAX][WEFT_REDUCTIONS_MAX], scalars[WEFT_REDUCTIONS_MAX];
    for (int u = 0; u < unroll; u++) weft_reduction_start(r, pass, r->lanes, accumulators[u]);
    for (int i = 0; i < r->count; i++) scalars[i] = WEFT_KNONE;
    if (scalar_tail) weft_reduction_start(r, pass, 1, scalars);
    sweep s = {r, pass, index, WEFT_KNONE};
    bool outer = r->outer.extent != 1;
    size_t mark = weft_index_mark(&r->c);
    if (outer) {
        weft_kval o = weft_k_for(k, range->outer_lo, range->outer_hi, weft_k_index(k, 1), 0);
        weft_axis_set_index(r, &r->outer, o, index);
        s.base = weft_k_mul(k, o, weft_ix_extent(&r->c, r->lane_extent));
    }
    if (gpu)
        sweep_gpu(&s, range->lane_lo, range->lane_hi, unroll, accumulators);
    else
        sweep_cpu(&s, range->lane_lo, range->lane_hi, unroll, accumulators, scalars);
    weft_index_release(&r->c, mark);
    if (outer) weft_k_end(k);
    for (int i = 0; i < r->count; i++)
        if (r->level[i] == pass) out_results[i] = weft_reduce_combine(r, i, unroll, accumulators, scalars[i]);
}

/* -- the kernel */

static void emit_row(weft_reduction *r, weft_kval row) {
    weft_kernel *k = r->k;
    weft_lane_index index[WEFT_MAX_RANK];
    weft_kval zero = weft_k_index(k, 0), results[WEFT_REDUCTIONS_MAX];
    for (int a = 0; a < r->x->rank; a++) index[a] = weft_lane_scalar(zero);
    size_t mark = weft_index_mark(&r->c);
    weft_axis_set_index(r, &r->kept, row, index);
    weft_reduce_range range = {zero, weft_ix_extent(&r->c, r->outer.extent), zero,
                               weft_ix_extent(&r->c, r->lane_extent)};
    weft_kval labels[WEFT_REDUCTIONS_MAX];
    if (!r->labels) weft_reduction_read_labels(r, index, labels), r->labels = labels;
    for (int pass = 0; pass < r->levels; pass++) {
        if (pass == weft_reduction_first_pick(r)) weft_reduction_place_picks(r, index);
        weft_reduction_bind_picks(r, pass, index);
        if (weft_reduction_pass_is_empty(r, pass)) continue;
        weft_reduce_row_pass(r, pass, index, &range, results);
        for (int i = 0; i < r->count; i++) {
            if (r->level[i] != pass) continue;
            const weft_value *value = &r->nodes[i]->results[0];
            weft_index_bind(&r->c, value, weft_index_round(&r->c, value->type.dtype, results[i]));
        }
    }
    r->labels = NULL;
    if (r->any_full) weft_reduce_row_pass(r, r->levels, index, &range, results);
    if (r->threads > 1) weft_k_if(k, weft_k_eq(k, weft_k_thread(k), zero));
    weft_reduction_emit_results(r, index, 1, WEFT_KNONE);
    if (r->threads > 1) weft_k_end(k);
    weft_index_release(&r->c, mark);
}

/* About four vectors a thread, a power of two of whole warps. */
static int choose_threads(const weft_reduction *r) {
    const weft_capability *capability = r->request->capability;
    int64_t low, high, warp = capability->warp > 1 ? capability->warp : 1;
    weft_dim_bounds(r->request->graph->dims, r->lane_extent, &low, &high);
    int64_t most = capability->threads_max < 512 ? capability->threads_max : 512, threads = warp < 32 ? 32 : warp;
    if (high == INT64_MAX) return (int)(most < 256 ? most : 256);
    while (threads * 2 <= most && threads * r->lanes * 4 < high) threads *= 2;
    return (int)threads;
}

/* Registers a thread that let two blocks share a processor: one loads its row while the other stores. */
static int blocks_of_two(const weft_kernel *k) { return k->capability->registers / (2 * k->threads) / 8 * 8; }

void weft_reduce_prepare_gpu(weft_reduction *r) {
    int64_t known = weft_dim_divisor(r->request->graph->dims, r->lane_extent);
    int widest = weft_reduction_widest_argument(r); /* what lies in memory sets the vectors */
    for (int i = 0; i < r->request->fusion->result_count && widest > 0; i++) {
        int bytes = weft_dtype_bits(r->request->fusion->results[i].type.dtype) / 8;
        if (r->forms[i] == WEFT_REDUCE_FULL && bytes > widest) widest = bytes;
    }
    if (r->rows && widest > 0) {
        int lanes = r->request->capability->vector_bytes / widest;
        r->lanes = lanes > 8 ? 8 : lanes > r->lanes ? lanes : r->lanes;
    }
    while (r->lanes > 1 && known % r->lanes) r->lanes /= 2;
    r->threads = choose_threads(r);
    int wished = r->request->schedule->stages > 1 ? r->request->schedule->threads : 0;
    if (wished > r->threads && wished <= r->request->capability->threads_max) r->threads = wished;
    r->k->threads = r->threads;
}

/* A block keeps two rows and more in shared memory: copies of the next ones are under way while it walks this one. */
static bool rows_of_ring(weft_reduction *r) {
    weft_row_ring ring;
    if (!weft_row_ring_init(&ring, r)) return false;
    r->keep_count = ring.count;
    for (int i = 0; i < ring.count; i++)
        r->keep[i] = (weft_reduce_keep){ring.value[i], -1, ring.value[i]->type.dtype, ring.memory[i]};
    weft_kval row = weft_row_ring_begin(&ring);
    r->keep_base = ring.base;
    emit_row(r, row);
    weft_row_ring_end(&ring);
    return true;
}

void weft_reduce_rows(weft_reduction *r) {
    weft_kernel *k = r->k;
    weft_dim_table *table = r->request->graph->dims;
    if (!weft_capability_is_cpu(r->request->capability)) {
        weft_reduce_prepare_gpu(r);
        if (weft_reduce_held(r) || rows_of_ring(r)) return;
        weft_reduction_make_scratch(r);
        if (r->keep_count > 0 && r->lanes * r->count <= 24) k->registers = blocks_of_two(k);
        k->grid = r->kept.extent;
        emit_row(r, weft_k_block(k));
        return;
    }
    weft_reduction_make_scratch(r);
    r->threads = 1;
    int64_t elements = r->request->schedule->block_elements > 0 ? r->request->schedule->block_elements : 4096;
    weft_dim length = weft_dim_at_least_one(table, weft_dim_multiply(table, r->outer.extent, r->lane_extent));
    weft_dim per_block = weft_dim_at_least_one(table, weft_dim_divide_floor(table, elements, length));
    k->grid = weft_dim_divide_ceil(table, r->kept.extent, per_block);
    weft_kval rows = weft_k_extent(k, per_block), first = weft_k_mul(k, weft_k_block(k), rows);
    weft_kval last = weft_k_min(k, weft_k_add(k, first, rows), weft_k_extent(k, r->kept.extent));
    weft_kval row = weft_k_for(k, first, last, weft_k_index(k, 1), 0);
    emit_row(r, row);
    weft_k_end(k);
}
