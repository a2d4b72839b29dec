/* Few results and long reductions: a first launch reduces pieces into temporaries, a second combines them in piece
   order and computes the results. Only for one level; results of X's shape are written by the first launch, where no
   reduction is behind them. Temporary t holds the partial results
   of reduce t: [pieces][results], carriers. */
#include "codegen/builders/reduce.h"

enum { PIECE_MIN = 8192, PIECES_MAX = 1024, COLUMN_ROWS_MIN = 16, COLUMN_THREADS_MAX = 512, COLUMN_VECTORS_MAX = 2048 };
enum { INVARIANT_PIECES_MAX = 32, INVARIANT_COLUMN_ROWS = 1024 };

static int parallelism(const weft_build_request *request) {
    const weft_capability *capability = request->capability;
    if (!weft_capability_is_cpu(capability)) return capability->multiprocessors * 4;
    return request->thread_count > 1 ? request->thread_count * 2 : 1;
}

/* Vectors of columns, rounded up to whole warps; 0 where their number is open. */
static int64_t column_vectors(const weft_reduction *r) {
    weft_dim_table *table = r->request->graph->dims;
    int64_t low, high;
    weft_dim_bounds(table, weft_dim_divide_ceil(table, r->lane_extent, r->lanes), &low, &high);
    return high <= 0 || high > INT32_MAX ? 0 : (high + 31) / 32 * 32;
}

/* Columns on a GPU: a block takes all columns of a row of results, so pieces are what fills the machine. */
static bool split_columns(const weft_reduction *r, int *out_pieces) {
    weft_dim_table *table = r->request->graph->dims;
    const weft_capability *capability = r->request->capability;
    int64_t low, rows, length, length_max, threads = column_vectors(r);
    weft_dim_bounds(table, r->kept.extent, &low, &rows);
    weft_dim_bounds(table, r->outer.extent, &length, &length_max);
    if (!threads || threads > COLUMN_VECTORS_MAX || rows <= 0 || rows > INT32_MAX) return false;
    int64_t wanted = (int64_t)capability->multiprocessors * 1024 / (rows * threads); /* half of what fits */
    if (wanted > length / COLUMN_ROWS_MIN) wanted = length / COLUMN_ROWS_MIN;
    *out_pieces = (int)(wanted < PIECES_MAX ? wanted : PIECES_MAX);
    return *out_pieces > 1;
}

/* Pieces that follow from the reduced extents alone: long ones are cut whether or not other results fill the machine.
 */
static bool split_by_length(const weft_reduction *r, int *out_pieces) {
    weft_dim_table *table = r->request->graph->dims;
    int64_t length, length_max, piece = r->rows ? PIECE_MIN : INVARIANT_COLUMN_ROWS;
    weft_dim_bounds(table, weft_dim_multiply(table, r->outer.extent, r->rows ? r->lane_extent : 1), &length,
                    &length_max);
    int64_t pieces = length / piece;
    *out_pieces = (int)(pieces < INVARIANT_PIECES_MAX ? pieces : INVARIANT_PIECES_MAX);
    return *out_pieces > 1;
}

bool weft_reduce_should_split(const weft_reduction *r, int *out_pieces) {
    weft_dim_table *table = r->request->graph->dims;
    if (r->levels != 1 || r->full_waits) return false;
    if (r->request->capability->batch_invariant) return split_by_length(r, out_pieces);
    if (!r->rows && !weft_capability_is_cpu(r->request->capability)) return split_columns(r, out_pieces);
    int64_t low, results, length, length_max, wanted = parallelism(r->request);
    weft_dim count = r->kept.extent;
    if (!r->rows)
        count =
            weft_dim_multiply(table, count, weft_dim_divide_ceil(table, r->lane_extent, (int64_t)r->lanes * r->unroll));
    weft_dim_bounds(table, count, &low, &results);
    weft_dim_bounds(table, weft_dim_multiply(table, r->outer.extent, r->rows ? r->lane_extent : 1), &length,
                    &length_max);
    if (results >= wanted || results <= 0) return false;
    int64_t pieces = wanted / results, work = r->rows ? length : length * r->lanes * r->unroll;
    if (pieces > work / PIECE_MIN) pieces = work / PIECE_MIN;
    if (pieces > PIECES_MAX) pieces = PIECES_MAX;
    *out_pieces = (int)pieces;
    return pieces > 1;
}

/* [lo, hi) of piece number `piece`, in multiples of `unit`. */
static void piece_range(weft_reduction *r, weft_kval piece, int pieces, weft_dim extent, int64_t unit, weft_kval *lo,
                        weft_kval *hi) {
    weft_kernel *k = r->k;
    weft_dim_table *table = r->request->graph->dims;
    weft_dim size =
        weft_dim_multiply(table, weft_dim_divide_ceil(table, weft_dim_divide_ceil(table, extent, pieces), unit), unit);
    weft_kval width = weft_k_extent(k, size), end = weft_k_extent(k, extent);
    *lo = weft_k_min(k, weft_k_mul(k, piece, width), end);
    *hi = weft_k_min(k, weft_k_add(k, *lo, width), end);
}

typedef struct split {
    weft_reduction *r;
    weft_kval *temps, base, lo, hi; /* base: position of piece and row in a temporary */
} split;

static void partial_rows(split *s, int pieces) {
    weft_reduction *r = s->r;
    weft_kernel *k = r->k;
    weft_kval zero = weft_k_index(k, 0), block = weft_k_block(k), count = weft_k_index(k, pieces),
              results[WEFT_REDUCTIONS_MAX];
    weft_kval row = weft_k_div(k, block, count), piece = weft_k_rem(k, block, count);
    weft_lane_index index[WEFT_MAX_RANK];
    weft_reduce_row_index(r, row, index);
    weft_reduce_range range = {zero, weft_ix_extent(&r->c, r->outer.extent), zero,
                               weft_ix_extent(&r->c, r->lane_extent)};
    if (r->outer.extent != 1)
        piece_range(r, piece, pieces, r->outer.extent, 1, &range.outer_lo, &range.outer_hi);
    else
        piece_range(r, piece, pieces, r->lane_extent, r->lanes, &range.lane_lo, &range.lane_hi);
    weft_reduce_row_pass(r, 0, index, &range, results);
    weft_kval at = weft_k_add(k, weft_k_mul(k, piece, weft_k_extent(k, r->kept.extent)), row);
    if (r->threads > 1) weft_k_if(k, weft_k_eq(k, weft_k_thread(k), zero));
    for (int i = 0; i < r->count; i++) weft_k_store(k, s->temps[i], at, WEFT_KNONE, results[i]);
    if (r->threads > 1) weft_k_end(k);
}

static void partial_columns(weft_reduction *r, const weft_lane_index *row, weft_kval column, int count, int lanes,
                            weft_kval mask) {
    weft_kernel *k = r->k;
    const split *s = r->split;
    weft_lane_index index[WEFT_MAX_RANK];
    weft_kval results[WEFT_REDUCE_UNROLL_MAX][WEFT_REDUCTIONS_MAX];
    weft_column_group g = {.count = count, .lanes = lanes, .mask = mask};
    for (int a = 0; a < r->x->rank; a++) index[a] = row[a];
    for (int u = 0; u < count; u++) g.column[u] = weft_k_add(k, column, weft_k_index(k, (int64_t)u * lanes));
    weft_reduce_column_pass(r, 0, index, &g, s->lo, s->hi, results);
    for (int u = 0; u < count; u++)
        for (int i = 0; i < r->count; i++)
            weft_k_store(k, s->temps[i], weft_k_add(k, s->base, g.column[u]), mask,
                         weft_k_splat(k, results[u][i], lanes));
}

static void partials_of_columns(split *s, int pieces) {
    weft_reduction *r = s->r;
    weft_kernel *k = r->k;
    weft_dim_table *table = r->request->graph->dims;
    bool gpu = !weft_capability_is_cpu(r->request->capability);
    weft_kval block = weft_k_block(k), count = weft_k_index(k, pieces), row_number = weft_k_div(k, block, count), piece;
    piece = weft_k_rem(k, block, count);
    weft_lane_index row[WEFT_MAX_RANK];
    weft_dim results = weft_dim_multiply(table, r->kept.extent, r->lane_extent);
    r->split = s;
    piece_range(r, piece, pieces, r->outer.extent, 1, &s->lo, &s->hi);
    s->base = weft_k_mul(k, piece, weft_k_extent(k, results));
    if (!gpu) {
        weft_reduce_row_index(r, row_number, row);
        s->base = weft_k_add(k, s->base, weft_k_mul(k, row_number, weft_k_extent(k, r->lane_extent)));
        weft_reduce_for_columns(r, row, weft_k_index(k, 0), weft_k_extent(k, r->lane_extent), partial_columns);
        return;
    }
    /* one block: a piece of the reduced axes for all columns of a row, a vector of columns a thread */
    weft_reduce_row_index(r, row_number, row);
    s->base = weft_k_add(k, s->base, weft_k_mul(k, row_number, weft_k_extent(k, r->lane_extent)));
    size_t mark = weft_index_mark(&r->c);
    weft_kval first = weft_k_mul(k, weft_k_thread(k), weft_k_index(k, r->lanes));
    weft_kval column =
        weft_k_for(k, first, weft_k_extent(k, r->lane_extent), weft_k_index(k, (int64_t)r->lanes * k->threads), 0);
    partial_columns(r, row, column, 1, r->lanes, WEFT_KNONE);
    weft_k_end(k);
    weft_index_release(&r->c, mark);
}

static weft_status build_partials(const weft_build_request *request, int pieces, weft_kernel_plan *plan) {
    weft_dim_table *table = request->graph->dims;
    weft_reduction *r = weft_arena_allocate(request->arena, sizeof *r);
    if (!r) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: reduction", request->name);
    WEFT_TRY(weft_reduction_init(request, "_partial", r), "partial results");
    r->full_early = r->any_full;
    weft_kval temps[WEFT_REDUCTIONS_MAX];
    for (int i = 0; i < r->count; i++) {
        weft_dtype carrier = weft_index_carrier(r->nodes[i]->results[0].type.dtype);
        temps[i] =
            weft_kernel_buffer(r->k, WEFT_ARGUMENT_TEMP, i, carrier, true, weft_arena_format(request->arena, "t%d", i));
        weft_dim results = r->rows ? r->kept.extent : weft_dim_multiply(table, r->kept.extent, r->lane_extent);
        plan->temps[i].bytes = weft_dim_multiply(table, results, (int64_t)pieces * (weft_dtype_bits(carrier) / 8));
    }
    r->threads = 1;
    if (!weft_capability_is_cpu(request->capability)) {
        int64_t vectors = column_vectors(r);
        weft_reduce_prepare_gpu(r);
        if (!r->rows)
            r->threads = 1,
            r->k->threads = (int)(vectors && vectors < COLUMN_THREADS_MAX ? vectors : COLUMN_THREADS_MAX);
        /* four blocks on a processor, as parallelism() counts them */
        if (r->rows && r->lanes * r->count <= 8)
            r->k->registers = request->capability->registers / (4 * r->k->threads) / 8 * 8;
    }
    r->k->grid = weft_dim_multiply(table, r->kept.extent, pieces);
    split s = {.r = r, .temps = temps};
    if (r->rows)
        partial_rows(&s, pieces);
    else
        partials_of_columns(&s, pieces);
    WEFT_TRY(weft_index_finish(&r->c), "partial results");
    return weft_plan_set(request, plan, 0, r->k);
}

/* Results at row-major positions: each reduce is the combination of its pieces in order. */
static void combine_at(weft_reduction *r, const weft_kval *temps, int pieces, weft_kval position, int lanes,
                       weft_kval mask) {
    weft_kernel *k = r->k;
    weft_dim_table *table = r->request->graph->dims;
    weft_dim results = r->rows ? r->kept.extent : weft_dim_multiply(table, r->kept.extent, r->lane_extent);
    size_t mark = weft_index_mark(&r->c);
    for (int i = 0; i < r->count; i++) {
        const weft_value *value = &r->nodes[i]->results[0];
        weft_dtype carrier = weft_index_carrier(value->type.dtype);
        weft_kval sum = weft_k_var(k, weft_index_identity(&r->c, r->kind[i], value->type.dtype, lanes));
        weft_kval piece = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, pieces), weft_k_index(k, 1), 0);
        weft_kval at = weft_k_add(k, weft_k_mul(k, piece, weft_k_extent(k, results)), position);
        weft_kval part = weft_k_load(k, temps[i], at, lanes, mask,
                                     mask == WEFT_KNONE ? WEFT_KNONE : weft_index_zero(&r->c, carrier));
        weft_k_set(k, sum, weft_index_combine(&r->c, r->kind[i], value->type.dtype, weft_k_get(k, sum), part));
        weft_k_end(k);
        weft_index_bind(&r->c, value, weft_index_round(&r->c, value->type.dtype, weft_k_get(k, sum)));
    }
    for (int i = 0; i < r->request->fusion->result_count; i++)
        if (r->forms[i] != WEFT_REDUCE_FULL)
            weft_index_emit_flat(&r->c, i, weft_lane_range(position, lanes), lanes, mask);
    weft_index_release(&r->c, mark);
}

/* A block a result: its threads walk the pieces together, so that the loads of one do not wait for each other. */
static weft_status combine_by_block(weft_reduction *r, weft_dim result_count, const weft_kval *temps, int pieces,
                                    weft_kernel_plan *plan) {
    weft_kernel *k = r->k;
    weft_kval position = weft_k_block(k), sums[1][WEFT_REDUCTIONS_MAX], results = weft_k_extent(k, result_count);
    r->threads = k->threads, k->grid = result_count;
    for (int i = 0; i < r->count; i++) {
        const weft_value *value = &r->nodes[i]->results[0];
        sums[0][i] = weft_k_var(k, weft_index_identity(&r->c, r->kind[i], value->type.dtype, 1));
        weft_kval piece = weft_k_for(k, weft_k_thread(k), weft_k_index(k, pieces), weft_k_index(k, k->threads), 4);
        weft_kval part =
            weft_k_load(k, temps[i], weft_k_add(k, weft_k_mul(k, piece, results), position), 1, WEFT_KNONE, WEFT_KNONE);
        weft_k_set(k, sums[0][i],
                   weft_index_combine(&r->c, r->kind[i], value->type.dtype, weft_k_get(k, sums[0][i]), part));
        weft_k_end(k);
        weft_kval sum = weft_reduce_combine(r, i, 1, sums, WEFT_KNONE);
        weft_index_bind(&r->c, value, weft_index_round(&r->c, value->type.dtype, sum));
    }
    weft_k_if(k, weft_k_eq(k, weft_k_thread(k), weft_k_index(k, 0)));
    size_t mark = weft_index_mark(&r->c);
    for (int i = 0; i < r->request->fusion->result_count; i++)
        if (r->forms[i] != WEFT_REDUCE_FULL)
            weft_index_emit_flat(&r->c, i, weft_lane_range(position, 1), 1, WEFT_KNONE);
    weft_index_release(&r->c, mark);
    weft_k_end(k);
    WEFT_TRY(weft_index_finish(&r->c), "combination");
    return weft_plan_set(r->request, plan, 1, k);
}

static weft_status build_combination(const weft_build_request *request, int pieces, weft_kernel_plan *plan) {
    weft_dim_table *table = request->graph->dims;
    weft_reduction *r = weft_arena_allocate(request->arena, sizeof *r);
    if (!r) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: reduction", request->name);
    WEFT_TRY(weft_reduction_init(request, "_combine", r), "combination");
    weft_kernel *k = r->k;
    weft_kval temps[WEFT_REDUCTIONS_MAX];
    for (int i = 0; i < r->count; i++)
        temps[i] = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, i, weft_index_carrier(r->nodes[i]->results[0].type.dtype),
                                      false, weft_arena_format(request->arena, "t%d", i));
    bool cpu = weft_capability_is_cpu(request->capability);
    k->threads = cpu ? 1 : 128;
    weft_dim results = r->rows ? r->kept.extent : weft_dim_multiply(table, r->kept.extent, r->lane_extent);
    if (!cpu && pieces >= (r->rows ? 4 : 16)) return combine_by_block(r, results, temps, pieces, plan);
    int lanes = cpu && !r->rows ? r->lanes : 1;
    k->grid = weft_dim_divide_ceil(table, results, (int64_t)lanes * k->threads);
    weft_kval id = weft_k_add(k, weft_k_mul(k, weft_k_block(k), weft_k_index(k, k->threads)), weft_k_thread(k));
    weft_kval position = weft_k_mul(k, id, weft_k_index(k, lanes));
    weft_kval end = weft_k_extent(k, results), mask = WEFT_KNONE;
    if (lanes > 1) mask = weft_index_below(&r->c, weft_lane_range(position, lanes), lanes, end);
    if (!cpu) weft_k_if(k, weft_k_lt(k, position, end));
    combine_at(r, temps, pieces, position, lanes, mask);
    if (!cpu) weft_k_end(k);
    WEFT_TRY(weft_index_finish(&r->c), "combination");
    return weft_plan_set(request, plan, 1, k);
}

weft_status weft_reduce_split(const weft_build_request *request, int pieces, weft_kernel_plan *out_plan) {
    int count = 0;
    for (const weft_node *node = weft_fusion_block(request->fusion)->first; node; node = node->next)
        count += node->op == WEFT_OP_reduce;
    WEFT_TRY(weft_plan_init(request, 2, count, out_plan), "split reduction");
    WEFT_TRY(build_partials(request, pieces, out_plan), "split reduction");
    return build_combination(request, pieces, out_plan);
}
