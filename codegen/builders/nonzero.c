/* Builder "nonzero": row-major indices of the elements that are not zero, [rank, bound], and their count. Columns from
   the count on are 0. Launches: zeros; then one worker walks x in order, since where an index goes depends on all
   elements before it. */
#include "codegen/builders/stage.h"

static void zeros(weft_index_context *c, void *self, weft_lane_index position, int lanes, weft_kval mask) {
    (void)self;
    if (lanes > 0) weft_index_store_flat(c, 0, position, lanes, mask, weft_k_integer(c->kernel, WEFT_I64, 0));
}

static weft_kval is_nonzero(weft_index_context *c, const weft_value *x, weft_lane_index position) {
    weft_kernel *k = c->kernel;
    weft_parts value = weft_index_evaluate(c, x, weft_position_point(x, position, 1, WEFT_KNONE));
    if (x->type.dtype == WEFT_BOOL) return value.part[0];
    weft_kval zero = weft_index_zero(c, weft_index_carrier(x->type.dtype)), real = weft_k_ne(k, value.part[0], zero);
    return value.part[1] == WEFT_KNONE ? real : weft_k_or(k, real, weft_k_ne(k, value.part[1], zero));
}

static void walk(weft_index_context *c, const weft_node *node) {
    weft_kernel *k = c->kernel;
    const weft_value *x = node->operands[0];
    weft_dim bound = weft_type_count(c->graph, &x->type);
    bool one_thread = k->threads > 1;
    if (one_thread) weft_k_if(k, weft_k_eq(k, weft_k_thread(k), weft_k_index(k, 0)));
    weft_kval one = weft_k_index(k, 1), zero = weft_k_index(k, 0), extent = weft_k_extent(k, bound),
              count = weft_k_var(k, zero);
    size_t mark = weft_index_mark(c);
    weft_kval i = weft_k_for(k, zero, extent, one, 0);
    weft_lane_index position = weft_lane_scalar(i), axes[WEFT_MAX_RANK];
    weft_k_if(k, is_nonzero(c, x, position));
    size_t inside = weft_index_mark(c);
    weft_kval column = weft_k_get(k, count);
    weft_index_unflatten(c, x->type.rank, x->type.dims, position, 1, axes);
    for (int axis = 0; axis < x->type.rank; axis++) {
        weft_kval at = weft_k_add(k, weft_k_mul(k, weft_k_index(k, axis), extent), column);
        weft_index_store_flat(c, 0, weft_lane_scalar(at), 1, WEFT_KNONE, weft_k_convert(k, axes[axis].base, WEFT_I64));
    }
    weft_k_set(k, count, weft_k_add(k, column, one));
    weft_index_release(c, inside);
    weft_k_end(k);
    weft_index_release(c, mark);
    weft_k_end(k);
    weft_index_store_flat(c, 1, weft_lane_scalar(zero), 1, WEFT_KNONE,
                          weft_k_convert(k, weft_k_get(k, count), WEFT_I64));
    if (one_thread) weft_k_end(k);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_node *node = weft_single_node(request, WEFT_OP_nonzero);
    WEFT_TRY(weft_plan_init(request, 2, 0, out_plan), "nonzero");
    out_plan->launch_count = 0;
    weft_dim count = weft_type_count(request->graph, &node->results[0].type);
    if (count != 0)
        WEFT_TRY(weft_flat_launch(request, out_plan, "_zeros", count, weft_fusion_lanes(request), zeros, NULL),
                 "nonzero");
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    weft_index_context c;
    WEFT_TRY(weft_index_init(request, k, &c), "nonzero");
    k->grid = 1;
    if (!weft_capability_is_cpu(request->capability)) k->threads = 32;
    walk(&c, node);
    WEFT_TRY(weft_index_finish(&c), "nonzero");
    return weft_plan_set(request, out_plan, out_plan->launch_count++, k);
}

const weft_builder weft_builder_nonzero = {"nonzero", weft_single_accepts, weft_single_propose, build};
