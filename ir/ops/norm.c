/* layer_norm (Ba, Kiros and Hinton 2016) and rms_norm (Zhang and Sennrich 2019); both accumulate in the compute dtype.
 */
#include "ir/ops/compute.h"

/* Mean over axes, spread back to x. */
static weft_value *spread_mean(weft_graph *graph, weft_value *x, const weft_attribute *axes) {
    if (weft_value_is_poison(x)) return x;
    weft_dim count = 1;
    for (int i = 0; i < axes->count; i++) count = weft_dim_multiply(graph->dims, count, x->type.dims[axes->as.ints[i]]);
    weft_value *sum = weft_emit_reduce(graph, x, "sum", axes->count, axes->as.ints);
    weft_value *divisor =
        weft_emit_broadcast_to(graph, weft_emit_extent(graph, count, x->type.dtype), sum->type.rank, sum->type.dims);
    weft_value *mean = weft_emit_binary(graph, WEFT_OP_div, sum, divisor);
    return weft_emit_spread(graph, mean, x, axes->count, axes->as.ints);
}

/* x / sqrt(mean(x * x) + epsilon), then scale and bias over the normalised axes. */
static weft_value *normalise(weft_graph *graph, const weft_node *node, weft_value *x, weft_value *const *operands) {
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    weft_value *variance = spread_mean(graph, weft_emit_binary(graph, WEFT_OP_mul, x, x), axes);
    weft_value *shifted =
        weft_emit_binary_scalar(graph, WEFT_OP_add, variance, weft_node_float(node, WEFT_ATTR_epsilon, 0));
    weft_value *y = weft_emit_binary(graph, WEFT_OP_mul, x, weft_emit_unary(graph, WEFT_OP_rsqrt, shifted));
    for (int i = 1; i < node->operand_count; i++) {
        weft_value *parameter = weft_emit_convert(graph, operands[i], x->type.dtype);
        parameter = weft_emit_broadcast(graph, parameter, x->type.rank, x->type.dims, axes->as.ints);
        y = weft_emit_binary(graph, i == 1 ? WEFT_OP_mul : WEFT_OP_add, y, parameter);
    }
    return weft_emit_convert(graph, y, operands[0]->type.dtype);
}

void weft_decompose_layer_norm(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                               weft_value **out_results) {
    weft_value *x = weft_compute_value(graph, operands[0]);
    weft_value *mean = spread_mean(graph, x, weft_node_attribute(node, WEFT_ATTR_axes));
    out_results[0] = normalise(graph, node, weft_emit_binary(graph, WEFT_OP_sub, x, mean), operands);
}

void weft_decompose_rms_norm(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                             weft_value **out_results) {
    out_results[0] = normalise(graph, node, weft_compute_value(graph, operands[0]), operands);
}
