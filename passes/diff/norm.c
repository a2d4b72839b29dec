/* Derivatives of layer_norm and rms_norm. With n = (x - mean) r, r = 1 / sqrt(variance + epsilon), the tangent of n is
   r (dx - mean(dx) - n mean(n dx)); rms_norm has no means to subtract (Ba, Kiros and Hinton 2016; Zhang and Sennrich
   2019). Written on n, a backward pass needs x and two numbers a row; through the decomposition it would need the
   pieces of the quotient, each as large as x. Read next: ir/ops/norm.c. */
#include "passes/diff/diff.h"

#include "ir/ops/compute.h"

/* The mean over the normalised axes, without them. */
static weft_value *mean_of(weft_graph *g, weft_value *x, const weft_attribute *axes) {
    weft_dim count = 1;
    if (weft_value_is_poison(x)) return x;
    for (int i = 0; i < axes->count; i++) count = weft_dim_multiply(g->dims, count, x->type.dims[axes->as.ints[i]]);
    weft_value *sum = weft_emit_reduce(g, x, "sum", axes->count, axes->as.ints);
    weft_value *divisor =
        weft_emit_broadcast_to(g, weft_emit_extent(g, count, x->type.dtype), sum->type.rank, sum->type.dims);
    return weft_emit_binary(g, WEFT_OP_div, sum, divisor);
}

static weft_value *spread(weft_graph *g, weft_value *rows, const weft_value *like, const weft_attribute *axes) {
    return weft_value_is_poison(rows) ? rows : weft_emit_spread(g, rows, like, axes->count, axes->as.ints);
}

static weft_value *parameter(weft_graph *g, weft_value *value, const weft_value *like, const weft_attribute *axes) {
    value = weft_emit_convert(g, value, like->type.dtype);
    return weft_emit_broadcast(g, value, like->type.rank, like->type.dims, axes->as.ints);
}

static void push(weft_jvp_rule *rule, bool centred) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    weft_value *x = weft_compute_value(g, node->operands[0]), *tangent = NULL;
    if (weft_value_is_poison(x)) return;
    if (centred) x = weft_emit_binary(g, WEFT_OP_sub, x, spread(g, mean_of(g, x, axes), x, axes));
    weft_value *variance = mean_of(g, weft_emit_binary(g, WEFT_OP_mul, x, x), axes);
    variance = weft_emit_binary_scalar(g, WEFT_OP_add, variance, weft_node_float(node, WEFT_ATTR_epsilon, 0));
    weft_value *root = spread(g, weft_emit_unary(g, WEFT_OP_rsqrt, variance), x, axes);
    weft_value *n = weft_emit_binary(g, WEFT_OP_mul, x, root);
    if (rule->tangents[0]) {
        weft_value *dx = weft_compute_value(g, rule->tangents[0]);
        weft_value *along = mean_of(g, weft_emit_binary(g, WEFT_OP_mul, n, dx), axes);
        tangent = weft_emit_binary(g, WEFT_OP_mul, n, spread(g, along, x, axes));
        if (centred) dx = weft_emit_binary(g, WEFT_OP_sub, dx, spread(g, mean_of(g, dx, axes), x, axes));
        tangent = weft_emit_binary(g, WEFT_OP_mul, root, weft_emit_binary(g, WEFT_OP_sub, dx, tangent));
        if (node->operand_count > 1)
            tangent = weft_emit_binary(g, WEFT_OP_mul, tangent, parameter(g, node->operands[1], x, axes));
    }
    if (node->operand_count > 1 && rule->tangents[1])
        tangent =
            weft_diff_sum(g, tangent, weft_emit_binary(g, WEFT_OP_mul, n, parameter(g, rule->tangents[1], x, axes)));
    if (node->operand_count > 2 && rule->tangents[2])
        tangent = weft_diff_sum(g, tangent, parameter(g, rule->tangents[2], x, axes));
    rule->out_tangents[0] = tangent ? weft_emit_convert(g, tangent, node->operands[0]->type.dtype) : NULL;
}

void weft_jvp_layer_norm(weft_jvp_rule *rule) { push(rule, true); }
void weft_jvp_rms_norm(weft_jvp_rule *rule) { push(rule, false); }
