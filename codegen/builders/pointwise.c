/* Builder "pointwise": every result element is computed on its own. Also the builder of single ops whose value at an
   index needs no help from its neighbours: reduce_window, arg_reduce, rng_bits, dynamic_update_slice, gather.

   Iteration space: the results' shape with neighbouring axes merged where all accesses allow it (collapse.c); rows =
   all groups but the last, columns = the last group, contiguous for the stores. CPU: a block is a rectangle of about
   block_elements, vectors along columns, the tail masked or one by one. GPU: one thread makes one vector.
   Results of different shapes but equal element counts share one row-major position. Other counts are spaces of their
   own: the blocks of a launch are dealt to them one after the other, so that the updates of many tensors are one
   launch. Read next: index.h, collapse.c, plan.h. */
#include "codegen/builders/index_internal.h"
#include "codegen/builders/plan.h"

#include <string.h>

typedef struct pointwise {
    weft_index_context c;
    const weft_build_request *request;
    int result_count;
    int *results; /* of one element count */
    weft_kernel *k;
    bool flat; /* positions, no axes */
    int rank, lanes;
    const weft_dim *dims; /* of all results, unless flat */
    uint32_t merge;
    weft_dim rows, columns;
    int column_axis; /* where the column's index stands */
    int row_count;   /* axes before the columns' group */
    bool spread;     /* CPU: columns are several groups of axes, split lane by lane */
    weft_kval row;   /* spread: number of the row */
    bool tiled;      /* CPU: walk the rows of a tile for each vector of columns (strided loads) */
    weft_kval row_first, row_last;
    int space_count;
    weft_dim piece, per_block, pieces,
        grid; /* CPU: columns and rows of a block, blocks of a row; GPU: vectors of a row */
} pointwise;

static bool same_shape(weft_graph *graph, const weft_type *a, const weft_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] && !weft_dim_known_equal(graph->dims, a->dims[i], b->dims[i])) return false;
    return true;
}

/* Rows of a few elements would leave most lanes idle: axes further out join the columns until a vector is full. Lanes
   are then split by the extents of the inner groups, which are numbers: cheap, where a position in everything would be
   divided by symbolic extents. */
static void spread_columns(pointwise *p) {
    weft_dim_table *table = p->request->graph->dims;
    while (p->row_count > 0 && weft_dim_is_number(p->columns) && p->columns < 4 * p->lanes) {
        int axis = --p->row_count;
        p->columns = weft_dim_multiply(table, p->columns, p->dims[axis]);
        while (p->row_count > 0 && (p->merge >> (p->row_count - 1) & 1))
            p->columns = weft_dim_multiply(table, p->columns, p->dims[--p->row_count]);
    }
    p->rows = 1;
    for (int i = 0; i < p->row_count; i++) p->rows = weft_dim_multiply(table, p->rows, p->dims[i]);
    p->spread = true;
}

/* Splits the results' shape into rows and columns. */
static void choose_space(pointwise *p) {
    const weft_node *fusion = p->request->fusion;
    weft_dim_table *table = p->request->graph->dims;
    const weft_type *type = &fusion->results[p->results[0]].type;
    p->rank = type->rank;
    p->dims = type->dims;
    p->merge = ~(uint32_t)0;
    for (int i = 0; i < p->result_count; i++) {
        p->merge &= weft_index_mergeable(&p->c, weft_fusion_yield(fusion, p->results[i]));
        p->flat |= !same_shape(p->request->graph, type, &fusion->results[p->results[i]].type);
    }
    p->rows = p->columns = 1;
    int axis = p->rank - 1;
    while (axis > 0 && p->dims[axis] == 1) axis--;
    p->column_axis = axis;
    for (bool joined = true; axis >= 0 && joined; axis--) {
        p->columns = weft_dim_multiply(table, p->columns, p->dims[axis]);
        joined = axis > 0 && (p->merge >> (axis - 1) & 1);
        p->row_count = axis;
    }
    for (; axis >= 0; axis--) p->rows = weft_dim_multiply(table, p->rows, p->dims[axis]);
    bool short_rows = weft_dim_is_number(p->columns) && p->rows != 1 &&
                      p->columns < (weft_capability_is_cpu(p->request->capability) ? p->lanes : p->lanes / 2);
    if (weft_fusion_stores_narrow(fusion) || p->rows == 1) p->flat = true;
    if (short_rows && !p->flat && weft_capability_is_cpu(p->request->capability)) spread_columns(p);
    if (short_rows && !p->spread) p->flat = true;
    if (p->flat) {
        p->columns = weft_type_count(p->request->graph, type);
        p->rows = 1;
    }
}

/* GPUs: everything is computed before the first store. Results may lie where operands do (updates in place), so no load
   can pass a store by itself, and each would wait for memory after the one before. */
static void read_ahead(pointwise *p, const weft_lane_index *index, weft_lane_index at, int lanes, weft_kval mask) {
    if (weft_capability_is_cpu(p->request->capability) || p->result_count < 2) return;
    for (int i = 0; i < p->result_count; i++) {
        const weft_value *value = weft_fusion_yield(p->request->fusion, p->results[i]);
        if (weft_dtype_kind_of(value->type.dtype) == WEFT_KIND_COMPLEX) continue;
        if (p->flat)
            (void)weft_index_value_flat(&p->c, value, at, lanes, mask);
        else
            (void)weft_index_value(&p->c, value, index, lanes, mask);
    }
}

/* All results at columns column .. column + lanes - 1 of one row. */
static void emit_point(pointwise *p, const weft_lane_index *row, weft_kval column, int64_t divisor, int lanes,
                       weft_kval mask) {
    weft_index_context *c = &p->c;
    size_t mark = weft_index_mark(c);
    weft_lane_index at = weft_lane_range(column, divisor), index[WEFT_MAX_RANK];
    weft_lane_index position = at;
    for (int i = 0; i < p->rank && !p->flat; i++) index[i] = i == p->column_axis ? at : row[i];
    if (p->spread) {
        weft_index_unflatten_merged(c, p->column_axis - p->row_count + 1, p->dims + p->row_count,
                                    p->merge >> p->row_count, at, lanes, index + p->row_count);
        weft_lane_index before = weft_lane_scalar(weft_k_mul(p->k, p->row, weft_k_extent(p->k, p->columns)));
        before.divisor = weft_dim_divisor(p->request->graph->dims, p->columns);
        position = weft_lane_add(c, before, at, lanes);
    }
    read_ahead(p, index, at, lanes, mask);
    for (int i = 0; i < p->result_count; i++) {
        if (p->flat)
            weft_index_emit_flat(c, p->results[i], at, lanes, mask);
        else if (p->spread)
            weft_index_emit_known(c, p->results[i], index, position, lanes, mask);
        else
            weft_index_emit(c, p->results[i], index, lanes, mask);
    }
    weft_index_release(c, mark);
}

/* The axes of a row number: those before the columns' group. */
static void row_axes(pointwise *p, weft_kval row, weft_lane_index *out) {
    p->row = row;
    for (int i = 0; i < p->rank; i++) out[i] = weft_lane_scalar(weft_k_index(p->k, 0));
    weft_index_unflatten_merged(&p->c, p->row_count, p->dims, p->merge, weft_lane_scalar(row), 1, out);
}

static int narrow_step(const pointwise *p) {
    int step = 1;
    for (int i = 0; i < p->result_count; i++) {
        int bits = weft_dtype_bits(p->request->fusion->results[p->results[i]].type.dtype);
        if (bits < 8 && 8 / bits > step) step = 8 / bits;
    }
    return step;
}

/* One vector of columns: of the row at `row`, or of every row of the tile. */
static void emit_columns(pointwise *p, const weft_lane_index *row, weft_kval column, int lanes, weft_kval mask) {
    if (!p->tiled) {
        emit_point(p, row, column, lanes, lanes, mask);
        return;
    }
    weft_lane_index axes[WEFT_MAX_RANK];
    size_t mark = weft_index_mark(&p->c);
    weft_kval at = weft_k_for(p->k, p->row_first, p->row_last, weft_k_index(p->k, 1), 0);
    row_axes(p, at, axes);
    emit_point(p, axes, column, lanes, lanes, mask);
    weft_index_release(&p->c, mark);
    weft_k_end(p->k);
}

/* Columns [lo, hi) of one row; lo is a multiple of the lanes. */
static void column_loop(pointwise *p, const weft_lane_index *row, weft_kval lo, weft_kval hi) {
    weft_kernel *k = p->k;
    int lanes = p->lanes;
    weft_kval width = weft_k_index(k, lanes);
    size_t mark = weft_index_mark(&p->c);
    weft_kval whole = weft_k_add(k, lo, weft_k_mul(k, weft_k_div(k, weft_k_sub(k, hi, lo), width), width));
    weft_kval column = weft_k_for(k, lo, whole, width, 0);
    emit_columns(p, row, column, lanes, WEFT_KNONE);
    weft_k_end(k);
    weft_index_release(&p->c, mark);
    int64_t from, to;
    if (weft_k_is_constant(k, whole, &from) && weft_k_is_constant(k, hi, &to) && from >= to) return;
    bool narrow = weft_fusion_stores_narrow(p->request->fusion);
    if (narrow || weft_tail_is_masked(p->request)) {
        int step = narrow ? narrow_step(p) : lanes;
        column = weft_k_for(k, whole, hi, weft_k_index(k, step), 0);
        weft_kval mask = weft_index_below(&p->c, weft_lane_range(column, step), step, hi);
        emit_columns(p, row, column, step, mask);
    } else {
        column = weft_k_for(k, whole, hi, weft_k_index(k, 1), 0);
        emit_columns(p, row, column, 1, WEFT_KNONE);
    }
    weft_k_end(k);
    weft_index_release(&p->c, mark);
}

enum { TILE_ROWS = 32, TILE_COLUMNS = 256, TILE_LANES = 8 };

/* A block is rows_per_block rows by column_piece columns. */
static void split_cpu(pointwise *p, int64_t elements) {
    weft_dim_table *table = p->request->graph->dims;
    p->piece = p->tiled ? TILE_COLUMNS : elements;
    p->per_block = p->tiled ? TILE_ROWS : 1;
    p->pieces = weft_dim_divide_ceil(table, p->columns, p->piece);
    if (p->rows != 1 && !p->tiled)
        p->per_block = weft_dim_at_least_one(
            table, weft_dim_divide_floor(table, elements, weft_dim_at_least_one(table, p->columns)));
    p->grid = weft_dim_multiply(table, weft_dim_divide_ceil(table, p->rows, p->per_block), p->pieces);
}

static void build_cpu(pointwise *p, weft_kval block) {
    weft_kernel *k = p->k;
    weft_dim piece = p->piece, per_block = p->per_block, pieces = p->pieces;
    weft_kval row_block = block, column_block = block;
    if (p->rows != 1) {
        row_block = weft_k_div(k, block, weft_k_extent(k, pieces));
        column_block = weft_k_rem(k, block, weft_k_extent(k, pieces));
    }
    weft_kval lo = weft_k_mul(k, column_block, weft_k_index(k, piece));
    weft_kval hi = weft_k_min(k, weft_k_add(k, lo, weft_k_index(k, piece)), weft_k_extent(k, p->columns));
    if (pieces == 1) { /* constants where they are known */
        lo = weft_k_index(k, 0);
        hi = weft_k_extent(k, p->columns);
    }
    weft_lane_index axes[WEFT_MAX_RANK];
    if (p->rows == 1) {
        p->row = weft_k_index(k, 0);
        for (int i = 0; i < p->rank; i++) axes[i] = weft_lane_scalar(weft_k_index(k, 0));
        column_loop(p, axes, lo, hi);
        return;
    }
    weft_kval rows = weft_k_extent(k, per_block), first = weft_k_mul(k, row_block, rows);
    weft_kval last = weft_k_min(k, weft_k_add(k, first, rows), weft_k_extent(k, p->rows));
    if (p->tiled) {
        p->row_first = first;
        p->row_last = last;
        column_loop(p, axes, lo, hi);
        return;
    }
    size_t mark = weft_index_mark(&p->c);
    weft_kval row = weft_k_for(k, first, last, weft_k_index(k, 1), 0);
    row_axes(p, row, axes);
    column_loop(p, axes, lo, hi);
    weft_index_release(&p->c, mark);
    weft_k_end(k);
}

/* One thread, one vector. Rows whose length is no multiple of the vector would break its alignment: narrower vectors.
 */
static void split_gpu(pointwise *p) {
    weft_dim_table *table = p->request->graph->dims;
    if (p->rows != 1) {
        int64_t known = weft_dim_divisor(table, p->columns);
        while (p->lanes > 1 && known % p->lanes) p->lanes /= 2;
    }
    p->pieces = weft_dim_divide_ceil(table, p->columns, p->lanes);
    p->grid = weft_dim_divide_ceil(table, weft_dim_multiply(table, p->rows, p->pieces), p->k->threads);
}

static void build_gpu(pointwise *p, weft_kval block) {
    weft_kernel *k = p->k;
    weft_dim_table *table = p->request->graph->dims;
    weft_dim chunks = p->pieces, total = weft_dim_multiply(table, p->rows, chunks);
    weft_kval id = weft_k_add(k, weft_k_mul(k, block, weft_k_index(k, k->threads)), weft_k_thread(k));
    weft_k_if(k, weft_k_lt(k, id, weft_k_extent(k, total)));
    size_t mark = weft_index_mark(&p->c);
    weft_kval chunk = id;
    weft_lane_index axes[WEFT_MAX_RANK];
    for (int i = 0; i < p->rank; i++) axes[i] = weft_lane_scalar(weft_k_index(k, 0));
    if (p->rows != 1) {
        row_axes(p, weft_k_div(k, id, weft_k_extent(k, chunks)), axes);
        chunk = weft_k_rem(k, id, weft_k_extent(k, chunks));
    }
    weft_kval column = weft_k_mul(k, chunk, weft_k_index(k, p->lanes)), mask = WEFT_KNONE;
    if (weft_dim_divisor(table, p->columns) % p->lanes)
        mask = weft_index_below(&p->c, weft_lane_range(column, p->lanes), p->lanes, weft_k_extent(k, p->columns));
    emit_point(p, axes, column, p->lanes, p->lanes, mask);
    weft_index_release(&p->c, mark);
    weft_k_end(k);
}

/* Results with the element count of the first one not done yet: one space. */
static bool next_space(const weft_build_request *request, bool *done, pointwise *p) {
    weft_graph *graph = request->graph;
    weft_dim count = WEFT_DIM_INVALID;
    p->result_count = 0;
    for (int i = 0; i < request->fusion->result_count; i++) {
        if (done[i]) continue;
        weft_dim own = weft_type_count(graph, &request->fusion->results[i].type);
        if (p->result_count && own != count && !weft_dim_known_equal(graph->dims, own, count)) continue;
        count = own;
        done[i] = true;
        p->results[p->result_count++] = i;
    }
    return p->result_count > 0;
}

/* Does a vector load take its elements one by one? */
static bool gathers(const weft_kernel *k) {
    for (size_t i = 0; i < k->instr_count; i++) {
        const weft_kinstr *instr = &k->instrs[i];
        if (instr->op == WEFT_K_load && weft_ktype_of(k, weft_koperand(k, instr, 1)).lanes > 1) return true;
    }
    return false;
}

static int vector_lanes(const pointwise *p) {
    const weft_build_request *request = p->request;
    int lanes = request->schedule->vector > 0 ? request->schedule->vector : weft_fusion_lanes(request);
    return p->tiled && lanes > TILE_LANES ? TILE_LANES : lanes;
}

/* The space of the results at hand, for the blocks from `first` on. */
static void emit_space(pointwise *p, weft_kval block) {
    if (weft_capability_is_cpu(p->request->capability))
        build_cpu(p, block);
    else
        build_gpu(p, block);
}

static void split_space(pointwise *p) {
    int64_t elements = p->request->schedule->block_elements > 0 ? p->request->schedule->block_elements : 4096;
    p->lanes = vector_lanes(p);
    p->flat = p->spread = false;
    choose_space(p);
    if (weft_capability_is_cpu(p->request->capability))
        split_cpu(p, (elements + p->lanes - 1) / p->lanes * p->lanes);
    else
        split_gpu(p);
}

/* Each space under a condition on the block, in the order of `done`: those before it have the blocks below. */
static void emit_spaces(pointwise *p, bool *done) {
    weft_kernel *k = p->k;
    weft_dim_table *table = p->request->graph->dims;
    weft_dim first = 0;
    int open = 0;
    for (bool more = next_space(p->request, done, p); more;) {
        size_t mark = weft_index_mark(&p->c);
        p->space_count++;
        split_space(p);
        weft_dim end = weft_dim_add(table, first, p->grid);
        bool last = true;
        for (int i = 0; i < p->request->fusion->result_count; i++) last &= done[i];
        weft_kval block = weft_k_block(k);
        if (!last) {
            weft_k_if(k, weft_k_lt(k, block, weft_k_extent(k, end)));
            open++;
        }
        emit_space(p, first == 0 ? block : weft_k_sub(k, block, weft_k_extent(k, first)));
        weft_index_release(&p->c, mark);
        if (!last) weft_k_else(k);
        first = end;
        more = next_space(p->request, done, p);
    }
    while (open-- > 0) weft_k_end(k);
    k->grid = first;
}

/* The kernel. On CPUs one of a single space is made again in tiles when its vectors turn out to gather from many lines
   of memory: the rows of a tile then find their elements in the same lines. */
static weft_status emit_kernel(pointwise *p, bool *done) {
    const weft_build_request *request = p->request;
    bool cpu = weft_capability_is_cpu(request->capability);
    p->space_count = 0;
    memset(done, 0, (size_t)request->fusion->result_count * sizeof *done);
    p->k = weft_plan_kernel(request, "");
    if (!p->k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    int most = request->capability->threads_max < 256 ? request->capability->threads_max : 256;
    if (!cpu) p->k->threads = request->schedule->threads > 0 ? request->schedule->threads : most;
    WEFT_TRY(weft_index_init(request, p->k, &p->c), "pointwise");
    emit_spaces(p, done);
    return weft_index_finish(&p->c);
}

weft_status weft_pointwise_build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    int count = request->fusion->result_count;
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "pointwise");
    out_plan->launch_count = 0;
    if (weft_fusion_is_empty(request)) return NULL;
    bool *done = weft_arena_allocate_array(request->arena, (size_t)count + 1, sizeof *done);
    int *results = weft_arena_allocate_array(request->arena, (size_t)count + 1, sizeof *results);
    if (!done || !results) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: results", request->name);
    pointwise p = {.request = request, .results = results};
    WEFT_TRY(emit_kernel(&p, done), "pointwise");
    if (p.space_count == 1 && weft_capability_is_cpu(request->capability) && !p.flat && !p.spread && p.rows != 1 &&
        gathers(p.k)) {
        p.tiled = true;
        WEFT_TRY(emit_kernel(&p, done), "pointwise in tiles");
    }
    return weft_plan_set(request, out_plan, out_plan->launch_count++, p.k);
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)capacity;
    return weft_propose_default(request, "pointwise", out_schedules);
}

/* Every op of the region must have a value at an index. */
bool weft_pointwise_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                            const char **out_reason) {
    if (!weft_fusion_fits_index(graph, fusion, capability))
        return *out_reason = "more elements than 32-bit indices reach", false;
    int buffers = fusion->result_count;
    for (int i = 0; i < weft_fusion_block(fusion)->argument_count; i++)
        if (weft_fusion_block(fusion)->arguments[i]->uses) buffers++;
    if (capability->bindings_max && buffers > capability->bindings_max)
        return *out_reason = "more buffers than the target can bind", false;
    for (const weft_node *node = weft_fusion_block(fusion)->first; node; node = node->next)
        if (!weft_index_has_value(node->op)) return *out_reason = "an op of the region has no value at an index", false;
    if (fusion->result_count == 0) return *out_reason = "no results", false;
    return true;
}

const weft_builder weft_builder_pointwise = {"pointwise", weft_pointwise_accepts, propose, weft_pointwise_build};
const weft_builder weft_builder_reduce_window = {"reduce_window", weft_pointwise_accepts, propose,
                                                 weft_pointwise_build};
const weft_builder weft_builder_dynamic_update_slice = {"dynamic_update_slice", weft_pointwise_accepts, propose,
                                                        weft_pointwise_build};
const weft_builder weft_builder_rng_bits = {"rng_bits", weft_pointwise_accepts, propose, weft_pointwise_build};
const weft_builder weft_builder_arg_reduce = {"arg_reduce", weft_pointwise_accepts, propose, weft_pointwise_build};
const weft_builder weft_builder_gather = {"gather", weft_pointwise_accepts, propose, weft_pointwise_build};
