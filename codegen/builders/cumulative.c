/* Builder "cumulative": running sum, product, max, min, and, or along one axis. x [outer, n, inner] -> the same shape.
   One item is a line, or a vector of neighbouring lines when the axis is not the last. The running value is kept in the
   carrier and rounded when it is stored, as the interpreter does. Single scans do not split: the order of sums is
   fixed. */
#include "codegen/builders/stage.h"

typedef struct scan {
    weft_index_context c;
    const weft_node *node;
    const weft_type *x;
    int axis, lanes;
    bool exclusive, reverse;
    const char *kind;
    weft_stage stage;
    weft_kval result;
} scan;

static void store(scan *s, const weft_lane_index *index, weft_kval mask, weft_parts value) {
    if (value.part[1] == WEFT_KNONE) value.part[0] = weft_index_round(&s->c, s->x->dtype, value.part[0]);
    weft_point point = weft_axes_point(&s->node->results[0], index, s->lanes, mask);
    weft_index_store_point(&s->c, s->result, s->stage.dtype, point, value);
}

static weft_parts element(scan *s, const weft_lane_index *index, weft_kval mask) {
    const weft_value *x = s->node->operands[0];
    return weft_parts_splat(&s->c, weft_index_evaluate(&s->c, x, weft_axes_point(x, index, s->lanes, mask)), s->lanes);
}

/* One vector of lines at index (all axes but the scanned one). */
static void scan_lines(scan *s, weft_lane_index *index, weft_kval mask) {
    weft_index_context *c = &s->c;
    weft_kernel *k = c->kernel;
    bool pair = weft_dtype_kind_of(s->x->dtype) == WEFT_KIND_COMPLEX;
    weft_dtype part = pair ? weft_index_carrier(s->x->dtype) : s->x->dtype;
    weft_kval real = weft_k_var(k, weft_index_identity(c, s->kind, part, s->lanes)), imaginary = WEFT_KNONE;
    if (pair) imaginary = weft_k_var(k, weft_k_splat(k, weft_index_zero(c, part), s->lanes));
    size_t mark = weft_index_mark(c);
    weft_kval extent = weft_ix_extent(c, s->x->dims[s->axis]),
              step = weft_k_for(k, weft_k_index(k, 0), extent, weft_k_index(k, 1), 0);
    weft_kval at = step;
    if (s->reverse) at = weft_k_sub(k, weft_k_sub(k, extent, weft_k_index(k, 1)), step);
    index[s->axis] = weft_lane_scalar(at);
    weft_parts old = {{weft_k_get(k, real), pair ? weft_k_get(k, imaginary) : WEFT_KNONE}};
    weft_parts sum = weft_index_combine_parts(c, s->kind, s->x->dtype, old, element(s, index, mask));
    weft_k_set(k, real, sum.part[0]);
    if (pair) weft_k_set(k, imaginary, sum.part[1]);
    store(s, index, mask, s->exclusive ? old : sum);
    weft_index_release(c, mark);
    weft_k_end(k);
}

/* Lanes along the last axis longer than 1, when that is not the scanned one. */
static int lane_axis(const weft_type *x, int axis) {
    int last = x->rank - 1;
    while (last > 0 && x->dims[last] == 1) last--;
    return last == axis ? -1 : last;
}

static void emit(scan *s, const weft_build_request *request) {
    weft_index_context *c = &s->c;
    weft_kernel *k = c->kernel;
    weft_dim_table *table = request->graph->dims;
    int along = lane_axis(s->x, s->axis);
    weft_lane_index index[WEFT_MAX_RANK];
    for (int i = 0; i < s->x->rank; i++) index[i] = weft_lane_constant(c, 0);
    if (along < 0 || s->lanes == 1) {
        s->lanes = 1;
        weft_dim lines = weft_line_count(request, s->x->rank, s->x->dims, s->axis);
        weft_items items = weft_items_begin(c, lines, weft_items_per_block(request, s->x->dims[s->axis]));
        weft_line_index(c, s->x->rank, s->x->dims, s->axis, items.item, index);
        scan_lines(s, index, WEFT_KNONE);
        weft_items_end(c, &items);
        return;
    }
    weft_dim others[WEFT_MAX_RANK], rows = 1, pieces = weft_dim_divide_ceil(table, s->x->dims[along], s->lanes);
    for (int i = 0; i < s->x->rank; i++) {
        others[i] = i == s->axis || i == along ? 1 : s->x->dims[i];
        rows = weft_dim_multiply(table, rows, others[i]);
    }
    weft_dim work = weft_dim_multiply(table, s->x->dims[s->axis], s->lanes);
    weft_items items = weft_items_begin(c, weft_dim_multiply(table, rows, pieces), weft_items_per_block(request, work));
    weft_kval count = weft_k_extent(k, pieces);
    weft_index_unflatten(c, s->x->rank, others, weft_lane_scalar(weft_k_div(k, items.item, count)), 1, index);
    weft_kval column = weft_k_mul(k, weft_k_rem(k, items.item, count), weft_k_index(k, s->lanes)), mask = WEFT_KNONE;
    index[along] = weft_lane_range(column, s->lanes);
    if (weft_dim_divisor(table, s->x->dims[along]) % s->lanes)
        mask = weft_index_below(c, index[along], s->lanes, weft_ix_extent(c, s->x->dims[along]));
    scan_lines(s, index, mask);
    weft_items_end(c, &items);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    bool empty = weft_fusion_is_empty(request);
    WEFT_TRY(weft_plan_init(request, 2, 1, out_plan), "cumulative");
    out_plan->launch_count = out_plan->temp_count = 0;
    if (empty) return NULL;
    weft_kernel *k = weft_plan_kernel(request, "");
    scan s = {.node = weft_single_node(request, WEFT_OP_cumulative)};
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    WEFT_TRY(weft_index_init(request, k, &s.c), "cumulative");
    s.stage = weft_stage_make(request, out_plan, 0, false);
    s.result = weft_stage_buffer(&s.c, &s.stage);
    s.x = weft_operand_type(s.node, 0);
    s.axis = (int)weft_node_int(s.node, WEFT_ATTR_axis, 0);
    s.exclusive = weft_node_int(s.node, WEFT_ATTR_exclusive, 0) != 0;
    s.reverse = weft_node_int(s.node, WEFT_ATTR_reverse, 0) != 0;
    s.kind = weft_node_string(s.node, WEFT_ATTR_kind, "sum");
    s.lanes = weft_capability_is_cpu(request->capability) ? weft_fusion_lanes(request) : 1;
    emit(&s, request);
    WEFT_TRY(weft_index_finish(&s.c), "cumulative");
    WEFT_TRY(weft_plan_set(request, out_plan, out_plan->launch_count++, k), "cumulative");
    return weft_stage_finish(request, out_plan, &s.stage);
}

const weft_builder weft_builder_cumulative = {"cumulative", weft_single_accepts, weft_single_propose, build};
