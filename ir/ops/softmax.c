/* softmax, log_softmax and cross-entropy: shifted by the maximum, so that exp never overflows. What is added to a row
   does not change its softmax, so the maximum is a constant to derivatives: they would sum to zero what passes through
   it. */
#include <float.h>

#include "ir/ops/compute.h"

weft_softmax_parts weft_softmax_build(weft_graph *graph, weft_value *x, int64_t axis, bool guard_empty_rows) {
    weft_value *maximum = weft_emit_reduce(graph, x, "max", 1, &axis);
    if (guard_empty_rows)
        maximum = weft_emit_binary_scalar(graph, WEFT_OP_max, maximum,
                                          x->type.dtype == WEFT_F64 ? -DBL_MAX : -(double)FLT_MAX);
    maximum = weft_emit_unary(graph, WEFT_OP_stop_gradient, maximum);
    weft_softmax_parts parts = {.maximum = maximum};
    parts.shifted = weft_emit_binary(graph, WEFT_OP_sub, x, weft_emit_spread(graph, maximum, x, 1, &axis));
    parts.exponent = weft_emit_unary(graph, WEFT_OP_exp, parts.shifted);
    parts.sum = weft_emit_reduce(graph, parts.exponent, "sum", 1, &axis);
    return parts;
}

void weft_decompose_softmax(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                            weft_value **out_results) {
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0);
    weft_value *x = weft_compute_value(graph, operands[0]);
    weft_softmax_parts parts = weft_softmax_build(graph, x, axis, false);
    weft_value *y =
        weft_emit_binary(graph, WEFT_OP_div, parts.exponent, weft_emit_spread(graph, parts.sum, x, 1, &axis));
    out_results[0] = weft_emit_convert(graph, y, operands[0]->type.dtype);
}

void weft_decompose_log_softmax(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                                weft_value **out_results) {
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0);
    weft_value *x = weft_compute_value(graph, operands[0]);
    weft_softmax_parts parts = weft_softmax_build(graph, x, axis, false);
    weft_value *log = weft_emit_unary(graph, WEFT_OP_log, parts.sum);
    weft_value *y = weft_emit_binary(graph, WEFT_OP_sub, parts.shifted, weft_emit_spread(graph, log, x, 1, &axis));
    out_results[0] = weft_emit_convert(graph, y, operands[0]->type.dtype);
}

/* log(sum exp(z)) - z[label], z = logits - max. The label is picked by comparison: a label outside [0, C) picks
   nothing, and its row has the gradient of log(sum exp). */
void weft_decompose_cross_entropy(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                                  weft_value **out_results) {
    (void)node;
    int64_t row = 0, class = 1;
    weft_value *x = weft_compute_value(graph, operands[0]);
    weft_softmax_parts parts = weft_softmax_build(graph, x, class, false);
    weft_value *labels = weft_emit_broadcast(graph, operands[1], 2, x->type.dims, &row);
    weft_value *classes = weft_emit_iota(graph, WEFT_I64, 2, x->type.dims, 1);
    weft_value *zero = weft_emit_splat_like(graph, 0, parts.shifted);
    weft_value *picked = weft_emit_select(graph, weft_emit_compare(graph, "eq", labels, classes), parts.shifted, zero);
    weft_value *log = weft_emit_unary(graph, WEFT_OP_log, parts.sum);
    weft_value *y = weft_emit_binary(graph, WEFT_OP_sub, log, weft_emit_reduce(graph, picked, "sum", 1, &class));
    out_results[0] = weft_emit_convert(graph, y, operands[0]->type.dtype);
}
