/* Derivatives of reductions and cumulative reductions. Windows: reduce_window.c. */
#include "passes/diff/diff.h"

#include <string.h>

static bool is_kind(const weft_node *node, const char *kind) {
    return !strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), kind);
}

/* d prod(x) = sum over i of dx_i times the product of the others: exclusive products from both ends along one axis. */
static weft_value *product_of_others(weft_graph *g, weft_value *x, int64_t axis) {
    weft_value *ends[2];
    for (int i = 0; i < 2; i++) {
        weft_attribute attributes[4] = {weft_attr_int(WEFT_ATTR_axis, axis),
                                        weft_attr_string(WEFT_ATTR_kind, "product"),
                                        weft_attr_int(WEFT_ATTR_exclusive, 1), weft_attr_int(WEFT_ATTR_reverse, i)};
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
    weft_value *at = weft_emit_select(g, weft_emit_compare(g, "eq", x, spread), weft_emit_splat_like(g, 1, x),
                                      weft_diff_zeros(g, x));
    weft_value *count = weft_emit_reduce(g, at, "sum", axes->count, axes->as.ints);
    weft_value *sum =
        weft_emit_reduce(g, weft_emit_binary(g, WEFT_OP_mul, rule->tangents[0], at), "sum", axes->count, axes->as.ints);
    rule->out_tangents[0] = weft_emit_binary(g, WEFT_OP_div, sum, count);
}

void weft_jvp_reduce(weft_jvp_rule *rule) {
    const weft_attribute *axes = weft_node_attribute(rule->node, WEFT_ATTR_axes);
    if (is_kind(rule->node, "sum"))
        rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, rule->tangents);
    else if (is_kind(rule->node, "product"))
        reduce_product(rule, axes);
    else
        reduce_extremum(rule, axes);
}

void weft_transpose_reduce(weft_transpose_rule *rule) {
    const weft_attribute *axes = weft_node_attribute(rule->node, WEFT_ATTR_axes);
    rule->out_cotangents[0] =
        weft_emit_spread(rule->graph, rule->cotangents[0], rule->node->operands[0], axes->count, axes->as.ints);
}

/* x moved along an axis by `distance` towards its end (negative: its start), `fill` where nothing comes from. */
static weft_value *shift(weft_graph *g, weft_value *x, int axis, int64_t distance, double fill) {
    weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    int64_t interior[WEFT_MAX_RANK] = {0};
    low[axis] = weft_dim_number(g->dims, distance), high[axis] = weft_dim_number(g->dims, -distance);
    weft_value *operands[2] = {x, weft_emit_scalar(g, x->type.dtype, fill)};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, x->type.rank, low),
                                    weft_attr_dims(WEFT_ATTR_high, x->type.rank, high),
                                    weft_attr_ints(WEFT_ATTR_interior, x->type.rank, interior)};
    return weft_build(g, WEFT_OP_pad, 2, operands, 3, attributes);
}

static weft_value *accumulate(weft_graph *g, weft_value *x, const char *kind, int axis, bool reverse) {
    weft_attribute attributes[4] = {weft_attr_int(WEFT_ATTR_axis, axis), weft_attr_string(WEFT_ATTR_kind, kind),
                                    weft_attr_int(WEFT_ATTR_exclusive, 0), weft_attr_int(WEFT_ATTR_reverse, reverse)};
    return weft_build(g, WEFT_OP_cumulative, 1, &x, 4, attributes);
}

/* The running product of dual numbers (p, t): (p, t)(q, u) = (pq, tq + pu), doubling the reach (Hillis and Steele
   1986). Zeros need no care, as no division happens. */
static weft_value *cumulative_product(weft_jvp_rule *rule, int axis, bool reverse) {
    weft_graph *g = rule->graph;
    weft_value *p = rule->node->operands[0], *t = rule->tangents[0];
    int64_t least, extent;
    weft_dim_bounds(g->dims, p->type.dims[axis], &least, &extent);
    for (int64_t reach = 1; reach < extent && reach < INT64_MAX / 2; reach *= 2) {
        int64_t distance = reverse ? -reach : reach;
        weft_value *q = shift(g, p, axis, distance, 1), *u = shift(g, t, axis, distance, 0);
        t = weft_emit_binary(g, WEFT_OP_add, weft_emit_binary(g, WEFT_OP_mul, t, q),
                             weft_emit_binary(g, WEFT_OP_mul, u, p));
        p = weft_emit_binary(g, WEFT_OP_mul, p, q);
    }
    return t;
}

/* max, min: the tangent at the last position so far that attains the extremum. */
static weft_value *cumulative_extremum(weft_jvp_rule *rule, const char *kind, int axis, bool reverse) {
    weft_graph *g = rule->graph;
    weft_value *x = rule->node->operands[0], *y = accumulate(g, x, kind, axis, reverse);
    weft_value *at = weft_emit_iota(g, WEFT_I64, x->type.rank, x->type.dims, axis), *start;
    if (reverse)
        start = weft_emit_broadcast_to(
            g, weft_emit_binary_scalar(g, WEFT_OP_sub, weft_emit_extent(g, x->type.dims[axis], WEFT_I64), 1),
            x->type.rank, x->type.dims);
    else
        start = weft_emit_splat_like(g, 0, at);
    weft_value *records = weft_emit_select(g, weft_emit_compare(g, "eq", x, y), at, start);
    return weft_diff_take_along(g, rule->tangents[0], accumulate(g, records, reverse ? "min" : "max", axis, reverse),
                                axis);
}

void weft_jvp_cumulative(weft_jvp_rule *rule) {
    int axis = (int)weft_node_int(rule->node, WEFT_ATTR_axis, 0);
    bool reverse = weft_node_int(rule->node, WEFT_ATTR_reverse, 0) != 0;
    if (is_kind(rule->node, "sum")) {
        rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, rule->tangents);
        return;
    }
    weft_value *t = is_kind(rule->node, "product")
                        ? cumulative_product(rule, axis, reverse)
                        : cumulative_extremum(rule, weft_node_string(rule->node, WEFT_ATTR_kind, ""), axis, reverse);
    bool exclusive = weft_node_int(rule->node, WEFT_ATTR_exclusive, 0) != 0;
    rule->out_tangents[0] = exclusive ? shift(rule->graph, t, axis, reverse ? -1 : 1, 0) : t;
}

/* A cumulative sum from the other end. */
void weft_transpose_cumulative(weft_transpose_rule *rule) {
    const weft_node *node = rule->node;
    weft_attribute attributes[4] = {weft_attr_int(WEFT_ATTR_axis, weft_node_int(node, WEFT_ATTR_axis, 0)),
                                    weft_attr_string(WEFT_ATTR_kind, "sum"),
                                    weft_attr_int(WEFT_ATTR_exclusive, weft_node_int(node, WEFT_ATTR_exclusive, 0)),
                                    weft_attr_int(WEFT_ATTR_reverse, !weft_node_int(node, WEFT_ATTR_reverse, 0))};
    rule->out_cotangents[0] = weft_build(rule->graph, WEFT_OP_cumulative, 1, rule->cotangents, 4, attributes);
}
