/* Builder "select_and_scatter": the gradient of max pooling. x, source -> y of x's shape: y is zero but where an
   element of x is the first largest of a window; it receives the sum of the sources of its windows, windows in
   row-major order. Axes with a window of 1, stride 1 and no padding (batch, channels) are independent: one item is a
   position of those. Launches: zeros; windows; packing when y is staged. */
#include "codegen/builders/stage.h"

typedef struct pooling {
    weft_index_context *c;
    const weft_build_request *request;
    const weft_node *node;
    const weft_type *x, *source;
    const int64_t *window, *stride;
    const weft_dim *low;
    bool independent[WEFT_MAX_RANK];
    weft_stage stage;
    weft_kval y;
} pooling;

static void zeros(weft_index_context *c, void *self, weft_lane_index position, int lanes, weft_kval mask) {
    pooling *p = self;
    if (lanes == 0) {
        p->y = weft_stage_buffer(c, &p->stage);
        return;
    }
    weft_kval zero = weft_index_zero(c, weft_index_carrier(p->stage.dtype));
    weft_index_store_buffer(c, p->y, p->stage.dtype, position, lanes, mask, zero);
}

/* Loops over the window of one source element; leaves the position of the selected element in `where`, or -1. */
static void select_element(pooling *p, const weft_lane_index *from, weft_kval where, weft_kval best) {
    weft_index_context *c = p->c;
    weft_kernel *k = c->kernel;
    weft_dim_table *table = c->graph->dims;
    weft_lane_index at[WEFT_MAX_RANK];
    weft_kval inside = WEFT_KNONE, zero = weft_k_index(k, 0);
    int loops = 0;
    size_t mark = weft_index_mark(c);
    for (int i = 0; i < p->x->rank; i++) {
        at[i] = from[i];
        if (p->independent[i]) continue;
        weft_kval corner = weft_k_mul(k, from[i].base, weft_k_index(k, p->stride[i]));
        weft_dim back = weft_dim_subtract(table, weft_dim_number(table, 0), p->low[i]);
        corner = weft_k_add(k, corner, weft_ix_extent(c, back));
        weft_kval step = weft_k_for(k, zero, weft_k_index(k, p->window[i]), weft_k_index(k, 1), 0);
        loops++;
        at[i] = weft_lane_scalar(weft_k_add(k, corner, step));
        weft_kval fits =
            weft_k_and(k, weft_k_le(k, zero, at[i].base), weft_k_lt(k, at[i].base, weft_ix_extent(c, p->x->dims[i])));
        inside = inside == WEFT_KNONE ? fits : weft_k_and(k, inside, fits);
    }
    if (inside != WEFT_KNONE) weft_k_if(k, inside);
    weft_kval value = weft_index_value(c, p->node->operands[0], at, 1, WEFT_KNONE), old = weft_k_get(k, best);
    weft_kval better =
        weft_k_or(k, weft_k_lt(k, weft_k_get(k, where), zero), weft_index_compare(c, "gt", p->x->dtype, value, old));
    if (weft_dtype_is_float(p->x->dtype))
        better = weft_k_or(k, better, weft_k_and(k, weft_k_ne(k, value, value), weft_k_eq(k, old, old)));
    weft_kval position = weft_index_position(c, p->x->rank, p->x->dims, at, 1).base;
    weft_k_set(k, best, weft_k_select(k, better, value, old));
    weft_k_set(k, where, weft_k_select(k, better, position, weft_k_get(k, where)));
    weft_index_release(c, mark);
    if (inside != WEFT_KNONE) weft_k_end(k);
    while (loops-- > 0) weft_k_end(k);
}

static void emit_windows(pooling *p) {
    weft_index_context *c = p->c;
    weft_kernel *k = c->kernel;
    weft_dim_table *table = c->graph->dims;
    weft_dim items = 1, windows = 1, outer[WEFT_MAX_RANK], inner[WEFT_MAX_RANK];
    for (int i = 0; i < p->x->rank; i++) {
        outer[i] = p->independent[i] ? p->source->dims[i] : 1;
        inner[i] = p->independent[i] ? 1 : p->source->dims[i];
        items = weft_dim_multiply(table, items, outer[i]);
        windows = weft_dim_multiply(table, windows, inner[i]);
    }
    weft_items work =
        weft_items_begin(c, items, weft_items_per_block(p->request, weft_dim_multiply(table, windows, 8)));
    weft_lane_index row[WEFT_MAX_RANK], from[WEFT_MAX_RANK];
    weft_index_unflatten(c, p->x->rank, outer, weft_lane_scalar(work.item), 1, row);
    size_t mark = weft_index_mark(c);
    weft_kval step = weft_k_for(k, weft_k_index(k, 0), weft_ix_extent(c, windows), weft_k_index(k, 1), 0);
    weft_index_unflatten(c, p->x->rank, inner, weft_lane_scalar(step), 1, from);
    for (int i = 0; i < p->x->rank; i++)
        if (p->independent[i]) from[i] = row[i];
    weft_kval where = weft_k_var(k, weft_k_index(k, -1)),
              best = weft_k_var(k, weft_index_zero(c, weft_index_carrier(p->x->dtype)));
    select_element(p, from, where, best);
    weft_kval at = weft_k_get(k, where);
    weft_k_if(k, weft_k_le(k, weft_k_index(k, 0), at));
    size_t inside = weft_index_mark(c);
    weft_kval value = weft_index_value(c, p->node->operands[1], from, 1, WEFT_KNONE);
    weft_kval old = weft_index_load(c, p->y, p->stage.dtype, weft_lane_scalar(at), 1, WEFT_KNONE);
    weft_kval sum = weft_k_add(k, old, value);
    if (!p->stage.staged) sum = weft_index_round(c, p->x->dtype, sum);
    weft_index_store_buffer(c, p->y, p->stage.dtype, weft_lane_scalar(at), 1, WEFT_KNONE, sum);
    weft_index_release(c, inside);
    weft_k_end(k);
    weft_index_release(c, mark);
    weft_k_end(k);
    weft_items_end(c, &work);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    pooling p = {.request = request, .node = weft_single_node(request, WEFT_OP_select_and_scatter)};
    WEFT_TRY(weft_plan_init(request, 3, 1, out_plan), "select_and_scatter");
    out_plan->launch_count = out_plan->temp_count = 0;
    if (weft_fusion_is_empty(request)) return NULL;
    p.x = weft_operand_type(p.node, 0);
    p.source = weft_operand_type(p.node, 1);
    p.window = weft_node_attribute(p.node, WEFT_ATTR_window)->as.ints;
    p.stride = weft_node_attribute(p.node, WEFT_ATTR_stride)->as.ints;
    p.low = weft_node_attribute(p.node, WEFT_ATTR_low)->as.dims;
    const weft_dim *high = weft_node_attribute(p.node, WEFT_ATTR_high)->as.dims;
    for (int i = 0; i < p.x->rank; i++)
        p.independent[i] = p.window[i] == 1 && p.stride[i] == 1 && p.low[i] == 0 && high[i] == 0;
    p.stage = weft_stage_make(request, out_plan, 0, true);
    weft_dim count = weft_type_count(request->graph, p.x);
    WEFT_TRY(weft_flat_launch(request, out_plan, "_zeros", count, weft_fusion_lanes(request), zeros, &p),
             "select_and_scatter");
    weft_kernel *k = weft_plan_kernel(request, "");
    p.c = weft_arena_allocate(request->arena, sizeof *p.c);
    if (!k || !p.c) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    WEFT_TRY(weft_index_init(request, k, p.c), "select_and_scatter");
    p.y = weft_stage_buffer(p.c, &p.stage);
    emit_windows(&p);
    WEFT_TRY(weft_index_finish(p.c), "select_and_scatter");
    WEFT_TRY(weft_plan_set(request, out_plan, out_plan->launch_count++, k), "select_and_scatter");
    return weft_stage_finish(request, out_plan, &p.stage);
}

const weft_builder weft_builder_select_and_scatter = {"select_and_scatter", weft_single_accepts, weft_single_propose,
                                                      build};
