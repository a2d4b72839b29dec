/* Reductions, norms, scans and orders. Sums of narrow floats are computed in f32 and rounded once. Read next: dot.c. */
#include "frontend/ops/common.h"

const char *weft_ops_reduction_name(weft_reduction kind) {
    static const char *const names[] = {"sum", "product", "max", "min", "and", "or", "set"};
    return names[kind];
}

/* The shape with the axes at extent 1. */
static weft_value *keep_axes(weft_graph *g, weft_value *reduced, const weft_value *x, int count, const int64_t *axes) {
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) shape[i] = x->type.dims[i];
    for (int i = 0; i < count; i++) shape[axes[i]] = 1;
    return weft_reshape(g, reduced, x->type.rank, shape);
}

weft_value *weft_reduce(weft_graph *g, weft_reduction kind, weft_value *x, int axis_count, const int64_t *axes,
                        bool keep) {
    if (weft_ops_absent(g, &x)) return x;
    int64_t full[WEFT_MAX_RANK];
    int count;
    if (!weft_ops_axes(g, axis_count, axes, x->type.rank, &count, full)) return weft_value_poison(g);
    if (count == 0) return x;
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_axes, count, full),
                                    weft_attr_string(WEFT_ATTR_kind, weft_ops_reduction_name(kind))};
    weft_value *reduced = weft_build(g, WEFT_OP_reduce, 1, &x, 2, attributes);
    return keep ? keep_axes(g, reduced, x, count, full) : reduced;
}

weft_value *weft_reduce_sum(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    return weft_reduce(g, WEFT_SUM, x, axis_count, axes, keep);
}
weft_value *weft_reduce_product(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    return weft_reduce(g, WEFT_PRODUCT, x, axis_count, axes, keep);
}
weft_value *weft_reduce_max(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    return weft_reduce(g, WEFT_MAX, x, axis_count, axes, keep);
}
weft_value *weft_reduce_min(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    return weft_reduce(g, WEFT_MIN, x, axis_count, axes, keep);
}

/* Number of reduced elements as a scalar of dtype. */
static weft_value *reduced_count(weft_graph *g, const weft_value *x, int axis_count, const int64_t *axes,
                                 weft_dtype dtype) {
    int64_t full[WEFT_MAX_RANK];
    int count;
    if (!weft_ops_axes(g, axis_count, axes, x->type.rank, &count, full)) return weft_value_poison(g);
    weft_dim product = 1;
    for (int i = 0; i < count; i++) product = weft_dim_multiply(g->dims, product, x->type.dims[full[i]]);
    return weft_convert(g, weft_extent(g, product), dtype);
}

weft_value *weft_reduce_mean(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    if (weft_ops_absent(g, &x)) return x;
    weft_dtype compute = weft_ops_compute_dtype(x->type.dtype);
    weft_value *sum = weft_reduce_sum(g, weft_convert(g, x, compute), axis_count, axes, keep);
    return weft_convert(g, weft_div(g, sum, reduced_count(g, x, axis_count, axes, compute)), x->type.dtype);
}

weft_value *weft_reduce_variance(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    if (weft_ops_absent(g, &x)) return x;
    weft_value *wide = weft_convert(g, x, weft_ops_compute_dtype(x->type.dtype));
    weft_value *deviation = weft_sub(g, wide, weft_reduce_mean(g, wide, axis_count, axes, true));
    return weft_convert(g, weft_reduce_mean(g, weft_square(g, deviation), axis_count, axes, keep), x->type.dtype);
}

weft_value *weft_reduce_log_sum_exp(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep) {
    if (weft_ops_absent(g, &x)) return x;
    weft_value *wide = weft_convert(g, x, weft_ops_compute_dtype(x->type.dtype));
    weft_value *top = weft_reduce_max(g, wide, axis_count, axes, true);
    if (weft_value_is_poison(top)) return top;
    /* an infinite maximum must not become inf - inf */
    top = weft_where(g, weft_is_finite(g, top), top, weft_scalar(g, top->type.dtype, 0));
    top = weft_build(g, WEFT_OP_stop_gradient, 1, &top, 0, NULL); /* the result does not depend on it */
    weft_value *sum = weft_reduce_sum(g, weft_exp(g, weft_sub(g, wide, top)), axis_count, axes, true);
    weft_value *result = weft_add(g, weft_log(g, sum), top);
    int64_t full[WEFT_MAX_RANK];
    int count;
    if (!keep && weft_ops_axes(g, axis_count, axes, x->type.rank, &count, full) && count > 0)
        result = weft_squeeze(g, result, count, full);
    return weft_convert(g, result, x->type.dtype);
}

weft_value *weft_arg_reduce(weft_graph *g, weft_reduction kind, weft_value *x, int axis, bool keep, bool select_last) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, axis),
                                    weft_attr_string(WEFT_ATTR_kind, weft_ops_reduction_name(kind)),
                                    weft_attr_int(WEFT_ATTR_select_last, select_last)};
    weft_value *reduced = weft_build(g, WEFT_OP_arg_reduce, 1, &x, 3, attributes);
    int64_t one = axis;
    return keep ? keep_axes(g, reduced, x, 1, &one) : reduced;
}

weft_value *weft_cumulative(weft_graph *g, weft_reduction kind, weft_value *x, int axis, bool exclusive, bool reverse) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    weft_attribute attributes[4] = {
        weft_attr_int(WEFT_ATTR_axis, axis), weft_attr_string(WEFT_ATTR_kind, weft_ops_reduction_name(kind)),
        weft_attr_int(WEFT_ATTR_exclusive, exclusive), weft_attr_int(WEFT_ATTR_reverse, reverse)};
    return weft_build(g, WEFT_OP_cumulative, 1, &x, 4, attributes);
}

static weft_value *softmax_like(weft_graph *g, weft_op op, weft_value *x, int axis) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_axis, axis);
    return weft_build(g, op, 1, &x, 1, &attribute);
}
weft_value *weft_softmax(weft_graph *g, weft_value *x, int axis) { return softmax_like(g, WEFT_OP_softmax, x, axis); }
weft_value *weft_log_softmax(weft_graph *g, weft_value *x, int axis) {
    return softmax_like(g, WEFT_OP_log_softmax, x, axis);
}

static weft_value *norm(weft_graph *g, weft_op op, int operand_count, weft_value *const *operands, int axis_count,
                        const int64_t *axes, double epsilon) {
    if (weft_ops_absent_any(g, operands, operand_count)) return weft_value_poison(g);
    int64_t full[WEFT_MAX_RANK];
    int count;
    if (!weft_ops_axes(g, axis_count, axes, operands[0]->type.rank, &count, full)) return weft_value_poison(g);
    weft_value *fitted[3] = {operands[0]};
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0; i < count; i++) shape[i] = operands[0]->type.dims[full[i]];
    for (int i = 1; i < operand_count; i++) fitted[i] = weft_broadcast_to(g, operands[i], count, shape);
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_axes, count, full),
                                    weft_attr_float(WEFT_ATTR_epsilon, epsilon)};
    return weft_build(g, op, operand_count, fitted, 2, attributes);
}

weft_value *weft_layer_norm(weft_graph *g, weft_value *x, weft_value *scale, weft_value *bias, int axis_count,
                            const int64_t *axes, double epsilon) {
    if (bias && !scale) return weft_add(g, weft_layer_norm(g, x, NULL, NULL, axis_count, axes, epsilon), bias);
    weft_value *operands[3] = {x, scale, bias};
    return norm(g, WEFT_OP_layer_norm, 1 + (scale != NULL) + (bias != NULL), operands, axis_count, axes, epsilon);
}

weft_value *weft_rms_norm(weft_graph *g, weft_value *x, weft_value *scale, int axis_count, const int64_t *axes,
                          double epsilon) {
    weft_value *operands[2] = {x, scale};
    return norm(g, WEFT_OP_rms_norm, scale ? 2 : 1, operands, axis_count, axes, epsilon);
}

weft_value *weft_cross_entropy(weft_graph *g, weft_value *logits, weft_value *labels) {
    weft_value *operands[2] = {logits, labels};
    return weft_build(g, WEFT_OP_cross_entropy, 2, operands, 0, NULL);
}

void weft_sort(weft_graph *g, int count, weft_value *const *values, int axis, bool descending, bool stable,
               weft_value **results) {
    if (!weft_ops_results(g, "sort", count, results) || count < 1 || weft_ops_absent_any(g, values, count)) return;
    if (!weft_ops_axis(g, axis, values[0]->type.rank, &axis)) return;
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, axis),
                                    weft_attr_int(WEFT_ATTR_descending, descending),
                                    weft_attr_int(WEFT_ATTR_stable, stable)};
    weft_node *node = weft_node_create(g, WEFT_OP_sort, count, values, 3, attributes, 0, NULL);
    for (int i = 0; node && i < count && i < node->result_count; i++) results[i] = weft_node_result(node, i);
}

void weft_top_k(weft_graph *g, weft_value *x, weft_dim k, int axis, bool largest, weft_value **out_values,
                weft_value **out_indices) {
    if (!weft_ops_results(g, "top_k", 1, out_values) || !weft_ops_results(g, "top_k", 1, out_indices)) return;
    if (weft_ops_absent(g, &x) || !weft_ops_axis(g, axis, x->type.rank, &axis)) return;
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, axis), weft_attr_dims(WEFT_ATTR_k, 1, &k),
                                    weft_attr_int(WEFT_ATTR_descending, largest)};
    weft_node *node = weft_node_create(g, WEFT_OP_top_k, 1, &x, 3, attributes, 0, NULL);
    if (!node || node->result_count != 2) return;
    *out_values = weft_node_result(node, 0);
    *out_indices = weft_node_result(node, 1);
}

void weft_nonzero(weft_graph *g, weft_value *x, const char *symbol, weft_value **out_indices, weft_value **out_count) {
    if (!weft_ops_results(g, "nonzero", 1, out_indices) || !weft_ops_results(g, "nonzero", 1, out_count)) return;
    if (weft_ops_absent(g, &x)) return;
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_symbol, symbol);
    weft_node *node = weft_node_create(g, WEFT_OP_nonzero, 1, &x, symbol ? 1 : 0, &attribute, 0, NULL);
    if (!node || node->result_count != 2) return;
    *out_indices = weft_node_result(node, 0);
    *out_count = weft_node_result(node, 1);
}
