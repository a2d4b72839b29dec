/* Derivatives of reductions, cumulative sums and windows. */
#include "passes/diff/diff.h"

#include <string.h>

static bool is_kind(const weft_node *node, const char *kind) { return !strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), kind); }

/* d prod(x) = sum over i of dx_i times the product of the others: exclusive products from both ends along one axis. */
static weft_value *product_of_others(weft_graph *g, weft_value *x, int64_t axis) {
    weft_value *ends[2];
    for (int i = 0; i < 2; i++) {
        weft_attribute attributes[4] = {weft_attr_int(WEFT_ATTR_axis, axis), weft_attr_string(WEFT_ATTR_kind, "product"), weft_attr_int(WEFT_ATTR_exclusive, 1),
                                        weft_attr_int(WEFT_ATTR_reverse, i)};
        ends[i] = weft_build(g, WEFT_OP_cumulative, 1, &x, 4, attributes);
    }
    return weft_emit_binary(g, WEFT_OP_mul, ends[0], ends[1]);
}

static void reduce_product(weft_jvp_rule *rule, const weft_attribute *axes) {
    weft_graph *g = rule->graph;
    weft_value *x = rule->node->operands[0], *t = rule->tangents[0];
    for (int i = axes->count - 1; i >= 0; i--) { /* axes are ascending: dropping the last keeps the others' numbers */
        int64_t axis = axes->as.ints[i];
        t = weft_emit_reduce(g, weft_emit_binary(g, WEFT_OP_mul, t, product_of_others(g, x, axis)), "sum", 1, &axis);
        x = weft_emit_reduce(g, x, "product", 1, &axis);
    }
    rule->out_tangents[0] = t;
}

/* max, min: the mean tangent of the elements that attain it. */
static void reduce_extremum(weft_jvp_rule *rule, const weft_attribute *axes) {
    weft_graph *g = rule->graph;
    weft_value *x = rule->node->operands[0];
    weft_value *spread = weft_emit_spread(g, &rule->node->results[0], x, axes->count, axes->as.ints);
    weft_value *at = weft_emit_select(g, weft_emit_compare(g, "eq", x, spread), weft_emit_splat_like(g, 1, x), weft_diff_zeros(g, x));
    weft_value *count = weft_emit_reduce(g, at, "sum", axes->count, axes->as.ints);
    weft_value *sum = weft_emit_reduce(g, weft_emit_binary(g, WEFT_OP_mul, rule->tangents[0], at), "sum", axes->count, axes->as.ints);
    rule->out_tangents[0] = weft_emit_binary(g, WEFT_OP_div, sum, count);
}

void weft_jvp_reduce(weft_jvp_rule *rule) {
    const weft_attribute *axes = weft_node_attribute(rule->node, WEFT_ATTR_axes);
    if (is_kind(rule->node, "sum")) rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, rule->tangents);
    else if (is_kind(rule->node, "product")) reduce_product(rule, axes);
    else reduce_extremum(rule, axes);
}

void weft_transpose_reduce(weft_transpose_rule *rule) {
    const weft_attribute *axes = weft_node_attribute(rule->node, WEFT_ATTR_axes);
    rule->out_cotangents[0] = weft_emit_spread(rule->graph, rule->cotangents[0], rule->node->operands[0], axes->count, axes->as.ints);
}

void weft_jvp_cumulative(weft_jvp_rule *rule) {
    if (is_kind(rule->node, "sum")) rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, rule->tangents);
    else weft_graph_problem(rule->graph, "cumulative %s cannot be differentiated", weft_node_string(rule->node, WEFT_ATTR_kind, ""));
}

/* A cumulative sum from the other end. */
void weft_transpose_cumulative(weft_transpose_rule *rule) {
    const weft_node *node = rule->node;
    weft_attribute attributes[4] = {weft_attr_int(WEFT_ATTR_axis, weft_node_int(node, WEFT_ATTR_axis, 0)), weft_attr_string(WEFT_ATTR_kind, "sum"),
                                    weft_attr_int(WEFT_ATTR_exclusive, weft_node_int(node, WEFT_ATTR_exclusive, 0)),
                                    weft_attr_int(WEFT_ATTR_reverse, !weft_node_int(node, WEFT_ATTR_reverse, 0))};
    rule->out_cotangents[0] = weft_build(rule->graph, WEFT_OP_cumulative, 1, rule->cotangents, 4, attributes);
}

void weft_jvp_reduce_window(weft_jvp_rule *rule) {
    if (is_kind(rule->node, "sum")) rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, rule->tangents);
    else weft_graph_problem(rule->graph, "reduce_window %s cannot be differentiated yet", weft_node_string(rule->node, WEFT_ATTR_kind, ""));
}

/* Input element s receives the windows that cover it: a window sum over the cotangent spread by the stride. */
void weft_transpose_reduce_window(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_attribute *window = weft_node_attribute(node, WEFT_ATTR_window), *stride = weft_node_attribute(node, WEFT_ATTR_stride),
                         *dilation = weft_node_attribute(node, WEFT_ATTR_dilation), *base = weft_node_attribute(node, WEFT_ATTR_base_dilation),
                         *low = weft_node_attribute(node, WEFT_ATTR_low);
    weft_dim new_low[WEFT_MAX_RANK], new_high[WEFT_MAX_RANK];
    for (int i = 0; i < window->count; i++) {
        weft_dim reach = weft_dim_number(g->dims, dilation->as.ints[i] * (window->as.ints[i] - 1));
        weft_dim spread_in = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, node->operands[0]->type.dims[i], 1), base->as.ints[i]);
        weft_dim spread_out = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, node->results[0].type.dims[i], 1), stride->as.ints[i]);
        new_low[i] = weft_dim_subtract(g->dims, reach, low->as.dims[i]);
        new_high[i] = weft_dim_subtract(g->dims, weft_dim_add(g->dims, weft_dim_subtract(g->dims, spread_in, spread_out), reach), new_low[i]);
    }
    weft_attribute attributes[7] = {weft_attr_string(WEFT_ATTR_kind, "sum"),
                                    *window,
                                    weft_attr_ints(WEFT_ATTR_stride, base->count, base->as.ints),
                                    *dilation,
                                    weft_attr_ints(WEFT_ATTR_base_dilation, stride->count, stride->as.ints),
                                    weft_attr_dims(WEFT_ATTR_low, window->count, new_low),
                                    weft_attr_dims(WEFT_ATTR_high, window->count, new_high)};
    rule->out_cotangents[0] = weft_build(g, WEFT_OP_reduce_window, 1, rule->cotangents, 7, attributes);
}
