/* Rows with sums of columns beside them, on GPUs: the backward pass of a norm reads what the gradients of its scale and
   bias are made of, and writes what the gradient of the bias before it sums. One launch does all of it: blocks take
   rows in turns, row after row as reduce_held.c does, and each thread keeps the sums of its columns in registers from
   row to row. Each turn leaves its partial sums in a temporary, [turns][columns]; a second launch adds them in order.

   Letters: N rows, D columns. Read next: reduce_held.c. */
#include <string.h>

#include "codegen/builders/reduce.h"

enum { VECTORS_MAX = 4, REGISTERS_MAX = 96, THREADS_OF_A_PROCESSOR = 512, COLUMNS = 32, GROUPS_MAX = 32 };

typedef struct shape {
    int lanes, threads, rows; /* of a row's thread; of a row; rows a block takes at once */
} shape;

static bool is_x(const weft_graph *graph, const weft_type *type, const weft_type *x) {
    if (type->rank != x->rank) return false;
    for (int i = 0; i < x->rank; i++)
        if (type->dims[i] != x->dims[i] && !weft_dim_known_equal(graph->dims, type->dims[i], x->dims[i])) return false;
    return true;
}

static void widen(const weft_type *type, int *widest) {
    int bytes = weft_dtype_bits(type->dtype) / 8;
    if (bytes > *widest) *widest = bytes;
}

/* Do a row's operands and the sums fit the registers of its threads? */
static bool shape_of(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability, shape *out) {
    const weft_block *block = weft_fusion_block(fusion);
    const weft_node *first = weft_fusion_find(fusion, WEFT_OP_reduce);
    const weft_type *x = weft_operand_type(first, 0);
    weft_dim columns = x->dims[x->rank - 1];
    int widest = 4, held = 0; /* sums are of four bytes */
    if (!weft_dim_is_number(columns) || columns < capability->warp) return false;
    for (int i = 0; i < block->argument_count; i++)
        if (is_x(graph, &block->arguments[i]->type, x)) widen(&block->arguments[i]->type, &widest), held++;
    for (int i = 0; i < fusion->result_count; i++)
        if (is_x(graph, &fusion->results[i].type, x)) widen(&fusion->results[i].type, &widest);
    for (const weft_node *node = block->first; node; node = node->next)
        held += node->op == WEFT_OP_reduce && node->results[0].type.rank == 1 && x->rank > 1 &&
                weft_node_attribute(node, WEFT_ATTR_axes)->count == x->rank - 1;
    out->lanes = capability->vector_bytes / widest;
    if (out->lanes > 8) out->lanes = 8;
    while (out->lanes > 1 && columns % out->lanes) out->lanes /= 2;
    int most = capability->threads_max < 512 ? capability->threads_max : 512;
    out->threads = capability->warp < 32 ? 32 : capability->warp;
    while (out->threads * 2 <= most && (int64_t)out->threads * out->lanes * VECTORS_MAX < columns) out->threads *= 2;
    int64_t step = (int64_t)out->lanes * out->threads, vectors = (columns + step - 1) / step;
    bool warps = out->threads == capability->warp && out->threads * 4 <= capability->threads_max;
    out->rows = warps ? 4 : 1;
    return vectors <= VECTORS_MAX && columns >= out->lanes && vectors * out->lanes * held <= REGISTERS_MAX;
}

bool weft_reduce_beside_fits(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability) {
    shape own;
    const weft_node *first = weft_fusion_find(fusion, WEFT_OP_reduce);
    bool sides = false;
    for (const weft_node *node = weft_fusion_block(fusion)->first; node && first; node = node->next)
        sides |= node->op == WEFT_OP_reduce && weft_node_attribute(node, WEFT_ATTR_axes)->as.ints[0] !=
                                                   weft_node_attribute(first, WEFT_ATTR_axes)->as.ints[0];
    return sides && capability && capability->warp > 1 && weft_reduction_fits_with_sides(graph, fusion) &&
           shape_of(graph, fusion, capability, &own);
}

/* As many as a processor has room for; few rows leave some out. */
static int64_t blocks_of(const weft_reduction *r, const shape *own) {
    const weft_capability *capability = r->request->capability;
    int64_t low, rows,
        blocks = (int64_t)capability->multiprocessors * THREADS_OF_A_PROCESSOR / (own->threads * own->rows);
    weft_dim_bounds(r->request->graph->dims, r->kept.extent, &low, &rows);
    int64_t needed = rows < INT32_MAX ? (rows + own->rows - 1) / own->rows : blocks;
    if (blocks > needed) blocks = needed;
    return blocks > 0 ? blocks : 1;
}

static weft_status build_rows(const weft_build_request *request, const shape *own, int64_t *out_turns,
                              weft_kernel_plan *plan) {
    weft_reduction *r = weft_arena_allocate(request->arena, sizeof *r);
    if (!r) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: reduction", request->name);
    WEFT_TRY(weft_reduction_init(request, "", r), "rows");
    WEFT_TRY(weft_plan_init(request, 2, r->side_count, plan), "rows");
    r->lanes = own->lanes, r->threads = own->threads;
    int64_t blocks = blocks_of(r, own), turns = blocks * own->rows;
    weft_kval temps[WEFT_REDUCE_SIDES_MAX];
    for (int i = 0; i < r->side_count; i++) {
        weft_dtype carrier = weft_index_carrier(r->side[i]->results[0].type.dtype);
        temps[i] =
            weft_kernel_buffer(r->k, WEFT_ARGUMENT_TEMP, i, carrier, true, weft_arena_format(request->arena, "t%d", i));
        plan->temps[i].bytes =
            weft_dim_multiply(request->graph->dims, r->lane_extent, turns * (weft_dtype_bits(carrier) / 8));
    }
    weft_reduce_held_beside(r, temps, blocks, own->rows);
    WEFT_TRY(weft_index_finish(&r->c), "rows");
    *out_turns = turns;
    return weft_plan_set(request, plan, 0, r->k);
}

/* Partial sums of the turns group, group + groups, ... of one column, for all sides. */
static void add_turns(weft_reduction *r, const weft_kval *temps, int64_t turns, int groups, weft_kval group,
                      weft_kval column, weft_kval *sums) {
    weft_kernel *k = r->k;
    for (int i = 0; i < r->side_count; i++)
        sums[i] = weft_k_var(k, weft_index_identity(&r->c, weft_node_string(r->side[i], WEFT_ATTR_kind, "sum"),
                                                    r->side[i]->results[0].type.dtype, 1));
    weft_kval turn = weft_k_for(k, group, weft_k_index(k, turns), weft_k_index(k, groups), 4);
    weft_kval at = weft_k_add(k, weft_k_mul(k, turn, weft_k_index(k, r->lane_extent)), column);
    for (int i = 0; i < r->side_count; i++) {
        weft_kval part = weft_k_load(k, temps[i], at, 1, WEFT_KNONE, WEFT_KNONE);
        weft_k_set(k, sums[i],
                   weft_index_combine(&r->c, weft_node_string(r->side[i], WEFT_ATTR_kind, "sum"),
                                      r->side[i]->results[0].type.dtype, weft_k_get(k, sums[i]), part));
    }
    weft_k_end(k);
}

/* A block: 32 columns by groups of turns; the groups are added in order through shared memory. */
static weft_status build_sums(const weft_build_request *request, int64_t turns, weft_kernel_plan *plan) {
    weft_reduction *r = weft_arena_allocate(request->arena, sizeof *r);
    if (!r) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: reduction", request->name);
    WEFT_TRY(weft_reduction_init(request, "_sides", r), "sums of columns");
    weft_kernel *k = r->k;
    int most = request->capability->threads_max / COLUMNS, groups = most < GROUPS_MAX ? most : GROUPS_MAX;
    weft_kval temps[WEFT_REDUCE_SIDES_MAX], sums[WEFT_REDUCE_SIDES_MAX], shared[WEFT_REDUCE_SIDES_MAX];
    for (int i = 0; i < r->side_count; i++) {
        weft_dtype carrier = weft_index_carrier(r->side[i]->results[0].type.dtype);
        temps[i] =
            weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, i, carrier, false, weft_arena_format(request->arena, "t%d", i));
        shared[i] = weft_k_shared(k, carrier, (int64_t)COLUMNS * groups);
    }
    r->threads = 1, k->threads = COLUMNS * groups;
    k->grid = weft_dim_divide_ceil(k->dims, r->lane_extent, COLUMNS);
    weft_kval thread = weft_k_thread(k), width = weft_k_index(k, COLUMNS), end = weft_k_index(k, r->lane_extent);
    weft_kval group = weft_k_div(k, thread, width), lane = weft_k_rem(k, thread, width);
    weft_kval own = weft_k_add(k, weft_k_mul(k, weft_k_block(k), width), lane);
    weft_kval column = weft_k_min(k, own, weft_k_sub(k, end, weft_k_index(k, 1)));
    add_turns(r, temps, turns, groups, group, column, sums);
    for (int i = 0; i < r->side_count; i++) weft_k_store(k, shared[i], thread, WEFT_KNONE, weft_k_get(k, sums[i]));
    weft_k_barrier(k);
    weft_k_if(k, weft_k_and(k, weft_k_lt(k, thread, width), weft_k_lt(k, own, end)));
    size_t mark = weft_index_mark(&r->c);
    for (int i = 0; i < r->side_count; i++) {
        weft_dtype dtype = r->side[i]->results[0].type.dtype;
        const char *kind = weft_node_string(r->side[i], WEFT_ATTR_kind, "sum");
        weft_kval sum = weft_k_load(k, shared[i], lane, 1, WEFT_KNONE, WEFT_KNONE);
        for (int g = 1; g < groups; g++)
            sum = weft_index_combine(&r->c, kind, dtype, sum,
                                     weft_k_load(k, shared[i], weft_k_add(k, lane, weft_k_index(k, g * COLUMNS)), 1,
                                                 WEFT_KNONE, WEFT_KNONE));
        weft_index_bind(&r->c, &r->side[i]->results[0], weft_index_round(&r->c, dtype, sum));
    }
    for (int i = 0; i < request->fusion->result_count; i++)
        if (r->forms[i] == WEFT_REDUCE_SIDE) weft_index_emit_flat(&r->c, i, weft_lane_range(own, 1), 1, WEFT_KNONE);
    weft_index_release(&r->c, mark);
    weft_k_end(k);
    WEFT_TRY(weft_index_finish(&r->c), "sums of columns");
    return weft_plan_set(request, plan, 1, k);
}

weft_status weft_reduce_beside(const weft_build_request *request, weft_kernel_plan *out_plan) {
    shape own;
    int64_t turns = 0;
    if (!shape_of(request->graph, request->fusion, request->capability, &own))
        return WEFT_STATUS(WEFT_INTERNAL, "%s: rows are not held", request->name);
    WEFT_TRY(build_rows(request, &own, &turns, out_plan), "rows with sums of columns");
    return build_sums(request, turns, out_plan);
}
