/* gelu (Hendrycks and Gimpel 2016), silu, softplus. */
#include <string.h>

#include "ir/ops/compute.h"

/* x / 2 * (1 + inner) */
static weft_value *half_gate(weft_graph *graph, weft_value *x, weft_value *inner) {
    weft_value *gate = weft_emit_binary_scalar(graph, WEFT_OP_add, inner, 1);
    return weft_emit_binary(graph, WEFT_OP_mul, weft_emit_binary_scalar(graph, WEFT_OP_mul, x, 0.5), gate);
}

void weft_decompose_gelu(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                         weft_value **out_results) {
    weft_value *x = weft_compute_value(graph, operands[0]), *inner;
    if (strcmp(weft_node_string(node, WEFT_ATTR_approximate, "none"), "tanh") == 0) {
        /* tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) */
        weft_value *cube = weft_emit_binary(graph, WEFT_OP_mul, weft_emit_binary(graph, WEFT_OP_mul, x, x), x);
        weft_value *sum =
            weft_emit_binary(graph, WEFT_OP_add, x, weft_emit_binary_scalar(graph, WEFT_OP_mul, cube, 0.044715));
        inner = weft_emit_unary(graph, WEFT_OP_tanh,
                                weft_emit_binary_scalar(graph, WEFT_OP_mul, sum, 0.79788456080286535588));
    } else {
        inner =
            weft_emit_unary(graph, WEFT_OP_erf, weft_emit_binary_scalar(graph, WEFT_OP_mul, x, 0.70710678118654752440));
    }
    out_results[0] = weft_emit_convert(graph, half_gate(graph, x, inner), operands[0]->type.dtype);
}

void weft_decompose_silu(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                         weft_value **out_results) {
    (void)node;
    weft_value *x = weft_compute_value(graph, operands[0]);
    weft_value *y = weft_emit_binary(graph, WEFT_OP_mul, x, weft_emit_unary(graph, WEFT_OP_logistic, x));
    out_results[0] = weft_emit_convert(graph, y, operands[0]->type.dtype);
}

/* max(x, 0) + log1p(exp(-|x|)): exact at both ends. */
void weft_decompose_softplus(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                             weft_value **out_results) {
    (void)node;
    weft_value *x = weft_compute_value(graph, operands[0]);
    weft_value *magnitude = weft_emit_unary(graph, WEFT_OP_neg, weft_emit_unary(graph, WEFT_OP_abs, x));
    weft_value *tail = weft_emit_unary(graph, WEFT_OP_log1p, weft_emit_unary(graph, WEFT_OP_exp, magnitude));
    weft_value *y = weft_emit_binary(graph, WEFT_OP_add, weft_emit_binary_scalar(graph, WEFT_OP_max, x, 0), tail);
    out_results[0] = weft_emit_convert(graph, y, operands[0]->type.dtype);
}
