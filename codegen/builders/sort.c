/* Builders "sort" and "top_k": stable merge sort of each line along an axis. x [outer, n, inner].
   Keys and positions of a line go to temporaries (ping and pong of n each); runs of width 1, 2, 4 ... are merged; then
   results are written in order. Floats: -0 = +0, NaN last in both directions; equal keys keep their order. One line is
   one item: lines run in parallel, a line does not. */
#include "codegen/builders/stage.h"

typedef struct sorter {
    weft_index_context c;
    const weft_build_request *request;
    const weft_node *node;
    const weft_type *x;
    int axis;
    bool descending;
    weft_kval keys, order; /* temporaries [lines, 2, n]: carriers, index dtype */
    weft_kval n, base;     /* base: of the line in them */
    weft_stage stages[16];
    weft_kval results[16];
} sorter;

/* Does key b, which is later in the line, come before key a? */
static weft_kval comes_before(sorter *s, weft_kval b, weft_kval a) {
    weft_kernel *k = s->c.kernel;
    weft_kval less = weft_index_compare(&s->c, s->descending ? "gt" : "lt", s->x->dtype, b, a);
    if (!weft_dtype_is_float(s->x->dtype)) return less;
    weft_kval number = weft_k_eq(k, b, b), nan = weft_k_ne(k, a, a);
    return weft_k_or(k, less, weft_k_and(k, number, nan));
}

static weft_kval key_at(sorter *s, weft_kval at) {
    return weft_k_load(s->c.kernel, s->keys, at, 1, WEFT_KNONE, WEFT_KNONE);
}

static void fill_line(sorter *s, weft_lane_index *index) {
    weft_kernel *k = s->c.kernel;
    size_t mark = weft_index_mark(&s->c);
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), s->n, weft_k_index(k, 1), 0), at = weft_k_add(k, s->base, i);
    index[s->axis] = weft_lane_scalar(i);
    weft_k_store(k, s->keys, at, WEFT_KNONE, weft_index_value(&s->c, s->node->operands[0], index, 1, WEFT_KNONE));
    weft_k_store(k, s->order, at, WEFT_KNONE, i);
    weft_index_release(&s->c, mark);
    weft_k_end(k);
}

/* Merges runs [lo, middle) and [middle, hi) of half `from` into half `to`. */
static void merge_runs(sorter *s, weft_kval lo, weft_kval middle, weft_kval hi, weft_kval from, weft_kval to) {
    weft_kernel *k = s->c.kernel;
    weft_kval one = weft_k_index(k, 1), left = weft_k_var(k, lo), right = weft_k_var(k, middle);
    weft_kval last_left = weft_k_sub(k, middle, one), last_right = weft_k_sub(k, hi, one);
    weft_kval out = weft_k_for(k, lo, hi, one, 0);
    weft_kval a = weft_k_get(k, left), b = weft_k_get(k, right);
    weft_kval a_at = weft_k_add(k, from, weft_k_min(k, a, last_left)),
              b_at = weft_k_add(k, from, weft_k_min(k, b, last_right));
    weft_kval a_key = key_at(s, a_at), b_key = key_at(s, b_at);
    weft_kval a_done = weft_k_le(k, middle, a), b_left = weft_k_lt(k, b, hi);
    weft_kval take_right = weft_k_and(k, b_left, weft_k_or(k, a_done, comes_before(s, b_key, a_key)));
    weft_kval at = weft_k_add(k, to, out), source = weft_k_select(k, take_right, b_at, a_at);
    weft_k_store(k, s->keys, at, WEFT_KNONE, weft_k_select(k, take_right, b_key, a_key));
    weft_k_store(k, s->order, at, WEFT_KNONE, weft_k_load(k, s->order, source, 1, WEFT_KNONE, WEFT_KNONE));
    weft_k_set(k, right, weft_k_select(k, take_right, weft_k_add(k, b, one), b));
    weft_k_set(k, left, weft_k_select(k, take_right, a, weft_k_add(k, a, one)));
    weft_k_end(k);
}

/* Position of the half that holds the sorted line. */
static weft_kval sort_line(sorter *s) {
    weft_kernel *k = s->c.kernel;
    weft_kval zero = weft_k_index(k, 0), width = weft_k_var(k, weft_k_index(k, 1)), half = weft_k_var(k, zero);
    weft_k_while(k);
    weft_k_test(k, weft_k_lt(k, weft_k_get(k, width), s->n));
    weft_kval w = weft_k_get(k, width), from_half = weft_k_get(k, half), to_half = weft_k_sub(k, s->n, from_half);
    weft_kval twice = weft_k_add(k, w, w), from = weft_k_add(k, s->base, from_half),
              to = weft_k_add(k, s->base, to_half);
    weft_kval lo = weft_k_for(k, zero, s->n, twice, 0);
    weft_kval middle = weft_k_min(k, weft_k_add(k, lo, w), s->n), hi = weft_k_min(k, weft_k_add(k, lo, twice), s->n);
    merge_runs(s, lo, middle, hi, from, to);
    weft_k_end(k);
    weft_k_set(k, width, twice);
    weft_k_set(k, half, to_half);
    weft_k_end(k);
    return weft_k_add(k, s->base, weft_k_get(k, half));
}

static void store(sorter *s, int result, const weft_lane_index *index, weft_parts value) {
    weft_point point = weft_axes_point(&s->node->results[result], index, 1, WEFT_KNONE);
    weft_index_store_point(&s->c, s->results[result], s->stages[result].dtype, point, value);
}

static void write_line(sorter *s, weft_lane_index *index, weft_kval sorted, weft_dim count) {
    weft_index_context *c = &s->c;
    weft_kernel *k = c->kernel;
    size_t mark = weft_index_mark(c);
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), weft_k_extent(k, count), weft_k_index(k, 1), 0);
    weft_kval at = weft_k_add(k, sorted, i), from = weft_k_load(k, s->order, at, 1, WEFT_KNONE, WEFT_KNONE);
    weft_lane_index there[WEFT_MAX_RANK];
    for (int a = 0; a < s->x->rank; a++) there[a] = index[a];
    there[s->axis] = weft_lane_scalar(from);
    index[s->axis] = weft_lane_scalar(i);
    if (s->node->op == WEFT_OP_top_k) {
        store(s, 0, index, weft_parts_one(key_at(s, at)));
        store(s, 1, index, weft_parts_one(weft_k_convert(k, from, WEFT_I64)));
    } else {
        store(s, 0, index, weft_parts_one(key_at(s, at)));
        for (int r = 1; r < s->node->operand_count; r++) {
            const weft_value *value = s->node->operands[r];
            store(s, r, index, weft_index_evaluate(c, value, weft_axes_point(value, there, 1, WEFT_KNONE)));
        }
    }
    weft_index_release(c, mark);
    weft_k_end(k);
}

static weft_status build_sort(const weft_build_request *request, weft_kernel_plan *plan, weft_op op) {
    weft_dim_table *table = request->graph->dims;
    sorter *s = weft_arena_allocate(request->arena, sizeof *s);
    int results = request->fusion->result_count;
    WEFT_TRY(weft_plan_init(request, 1 + results, 2 + results, plan), "sort");
    plan->launch_count = 0;
    plan->temp_count = 2;
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!s || !k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    *s = (sorter){.request = request, .node = weft_single_node(request, op)};
    s->x = weft_operand_type(s->node, 0);
    s->axis = (int)weft_node_int(s->node, WEFT_ATTR_axis, 0);
    s->descending = weft_node_int(s->node, WEFT_ATTR_descending, 0) != 0;
    weft_dim lines = weft_line_count(request, s->x->rank, s->x->dims, s->axis), n = s->x->dims[s->axis];
    weft_dtype carrier = weft_index_carrier(s->x->dtype), index_dtype = request->capability->index_dtype;
    weft_dim places = weft_dim_multiply(table, weft_dim_multiply(table, lines, n), 2);
    plan->temps[0].bytes = weft_dim_multiply(table, places, weft_dtype_bits(carrier) / 8);
    plan->temps[1].bytes = weft_dim_multiply(table, places, weft_dtype_bits(index_dtype) / 8);
    if (weft_fusion_is_empty(request)) return NULL;
    WEFT_TRY(weft_index_init(request, k, &s->c), "sort");
    s->keys = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, 0, carrier, true, "keys");
    s->order = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, 1, index_dtype, true, "order");
    for (int r = 0; r < results; r++) {
        s->stages[r] = weft_stage_make(request, plan, r, false);
        s->results[r] = weft_stage_buffer(&s->c, &s->stages[r]);
    }
    weft_items items = weft_items_begin(&s->c, lines, weft_items_per_block(request, weft_dim_multiply(table, n, 16)));
    weft_lane_index index[WEFT_MAX_RANK];
    weft_line_index(&s->c, s->x->rank, s->x->dims, s->axis, items.item, index);
    s->n = weft_k_extent(k, n);
    s->base = weft_k_mul(k, items.item, weft_k_mul(k, s->n, weft_k_index(k, 2)));
    fill_line(s, index);
    weft_kval sorted = sort_line(s);
    write_line(s, index, sorted, op == WEFT_OP_top_k ? weft_node_attribute(s->node, WEFT_ATTR_k)->as.dims[0] : n);
    weft_items_end(&s->c, &items);
    WEFT_TRY(weft_index_finish(&s->c), "sort");
    WEFT_TRY(weft_plan_set(request, plan, plan->launch_count++, k), "sort");
    for (int r = 0; r < results; r++) WEFT_TRY(weft_stage_finish(request, plan, &s->stages[r]), "sort");
    return NULL;
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    return build_sort(request, out_plan, WEFT_OP_sort);
}

static weft_status build_top_k(const weft_build_request *request, weft_kernel_plan *out_plan) {
    return build_sort(request, out_plan, WEFT_OP_top_k);
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    if (!weft_single_accepts(graph, fusion, capability, out_reason)) return false;
    if (fusion->result_count > 16) return *out_reason = "more than 16 results", false;
    return true;
}

const weft_builder weft_builder_sort = {"sort", accepts, weft_single_propose, build};
const weft_builder weft_builder_top_k = {"top_k", accepts, weft_single_propose, build_top_k};
