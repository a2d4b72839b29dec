/* ONNX activation functions. Narrow floats are computed in f32 and rounded once. Read next: reduce.c. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

static void finish(weft_onnx_node *node, weft_value *result) {
    weft_value *x = weft_onnx_input(node, 0);
    if (!weft_value_is_poison(result)) weft_onnx_output(node, 0, weft_convert(node->graph, result, x->type.dtype));
}

static weft_value *wide_input(weft_onnx_node *node) { return weft_onnx_widen(node->graph, weft_onnx_input(node, 0)); }

void weft_onnx_import_elu(weft_onnx_node *node) {
    finish(node, weft_elu(node->graph, wide_input(node), weft_onnx_float(node, "alpha", 1)));
}

void weft_onnx_import_selu(weft_onnx_node *node) {
    double alpha = weft_onnx_float(node, "alpha", 1.67326319217681884765625),
           gamma = weft_onnx_float(node, "gamma", 1.05070102214813232421875);
    finish(node, weft_mul_number(node->graph, weft_elu(node->graph, wide_input(node), alpha), gamma));
}

/* max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). */
void weft_onnx_import_celu(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    double alpha = weft_onnx_float(node, "alpha", 1);
    weft_value *x = wide_input(node), *low = weft_mul_number(g, weft_expm1(g, weft_mul_number(g, x, 1 / alpha)), alpha);
    if (weft_value_is_poison(low)) return;
    finish(node, weft_add(g, weft_relu(g, x), weft_min(g, low, weft_onnx_scalar_like(g, low, 0))));
}

void weft_onnx_import_leaky_relu(weft_onnx_node *node) {
    finish(node, weft_leaky_relu(node->graph, wide_input(node), weft_onnx_float(node, "alpha", 0.01f)));
}

void weft_onnx_import_thresholded_relu(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = wide_input(node);
    if (weft_value_is_poison(x)) return;
    weft_value *above = weft_compare(g, WEFT_GT, x, weft_onnx_scalar_like(g, x, weft_onnx_float(node, "alpha", 1)));
    finish(node, weft_where(g, above, x, weft_onnx_scalar_like(g, x, 0)));
}

void weft_onnx_import_prelu(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *slope = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(slope)) return;
    /* before version 7 a vector of slopes goes along the channels */
    if (node->version < 7 && slope->type.rank == 1 && x->type.rank > 2) {
        int64_t axes[WEFT_MAX_RANK];
        for (int i = 0; i < x->type.rank - 2; i++) axes[i] = i + 1;
        slope = weft_unsqueeze(g, slope, x->type.rank - 2, axes);
    }
    weft_value *below = weft_compare(g, WEFT_LT, x, weft_onnx_scalar_like(g, x, 0));
    weft_onnx_output(node, 0, weft_where(g, below, weft_mul(g, x, slope), x));
}

void weft_onnx_import_hard_sigmoid(weft_onnx_node *node) {
    double alpha = weft_onnx_float(node, "alpha", 0.2f), beta = weft_onnx_float(node, "beta", 0.5);
    finish(node, weft_hard_sigmoid(node->graph, wide_input(node), alpha, beta));
}

void weft_onnx_import_hard_swish(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = wide_input(node);
    finish(node, weft_mul(g, x, weft_hard_sigmoid(g, x, 1.0 / 6, 0.5)));
}

void weft_onnx_import_softplus(weft_onnx_node *node) { finish(node, weft_softplus(node->graph, wide_input(node))); }

void weft_onnx_import_softsign(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = wide_input(node);
    finish(node, weft_div(g, x, weft_add_number(g, weft_abs(g, x), 1)));
}

void weft_onnx_import_mish(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = wide_input(node);
    finish(node, weft_mul(g, x, weft_tanh(g, weft_softplus(g, x))));
}

/* x * sigmoid(alpha * x). */
void weft_onnx_import_swish(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    double alpha = weft_onnx_float(node, "alpha", 1);
    weft_value *x = wide_input(node);
    finish(node, alpha == 1 ? weft_silu(g, x) : weft_mul(g, x, weft_logistic(g, weft_mul_number(g, x, alpha))));
}

void weft_onnx_import_gelu(weft_onnx_node *node) {
    bool tanh_form = weft_onnx_string_is(node, "approximate", "none", "tanh");
    weft_onnx_output(node, 0, weft_gelu(node->graph, weft_onnx_input(node, 0), tanh_form));
}

/* x < -lambda: x + bias; x > lambda: x - bias; else 0. */
void weft_onnx_import_shrink(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *original = weft_onnx_input(node, 0);
    if (weft_value_is_poison(original)) return;
    weft_value *x = weft_convert(
        g, original, weft_dtype_is_float(original->type.dtype) ? weft_onnx_wide(original->type.dtype) : WEFT_F64);
    double lambda = weft_onnx_float(node, "lambd", 0.5), bias = weft_onnx_float(node, "bias", 0);
    weft_value *low = weft_compare(g, WEFT_LT, x, weft_onnx_scalar_like(g, x, -lambda));
    weft_value *high = weft_compare(g, WEFT_GT, x, weft_onnx_scalar_like(g, x, lambda));
    weft_value *rest = weft_where(g, high, weft_add_number(g, x, -bias), weft_onnx_scalar_like(g, x, 0));
    finish(node, weft_where(g, low, weft_add_number(g, x, bias), rest));
}

void weft_onnx_import_clip(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    weft_value *low = weft_onnx_optional(node, 1), *high = weft_onnx_optional(node, 2);
    if (node->version < 11) {
        if (weft_onnx_attribute(node, "min")) low = weft_onnx_scalar_like(g, x, weft_onnx_float(node, "min", 0));
        if (weft_onnx_attribute(node, "max")) high = weft_onnx_scalar_like(g, x, weft_onnx_float(node, "max", 0));
    }
    if (low) x = weft_max(g, x, low);
    if (high) x = weft_min(g, x, high);
    weft_onnx_output(node, 0, x);
}

/* -- along an axis. Before version 13 the input is flattened to a matrix at the axis */

static weft_value *flattened(weft_onnx_node *node, weft_value *x, int *axis) {
    *axis = weft_onnx_int32(node, "axis", node->version < 13 ? 1 : -1);
    if (node->version >= 13 || weft_value_is_poison(x)) return x;
    weft_value *matrix = weft_flatten(node->graph, x, *axis);
    *axis = 1;
    return matrix;
}

static void restore(weft_onnx_node *node, weft_value *result) {
    weft_value *x = weft_onnx_input(node, 0);
    if (!weft_value_is_poison(result) && !weft_value_is_poison(x))
        weft_onnx_output(node, 0, weft_reshape(node->graph, result, x->type.rank, x->type.dims));
}

void weft_onnx_import_softmax(weft_onnx_node *node) {
    int axis;
    weft_value *x = flattened(node, weft_onnx_input(node, 0), &axis);
    bool log = strcmp(node->proto->op_type, "LogSoftmax") == 0;
    restore(node, log ? weft_log_softmax(node->graph, x, axis) : weft_softmax(node->graph, x, axis));
}

/* One where the first maximum is, else zero. */
void weft_onnx_import_hardmax(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    int axis;
    weft_value *x = flattened(node, weft_onnx_input(node, 0), &axis);
    weft_value *best = weft_arg_reduce(g, WEFT_MAX, x, axis, true, false);
    if (weft_value_is_poison(best)) return;
    weft_value *position = weft_iota(g, WEFT_I64, x->type.rank, x->type.dims, axis);
    restore(node, weft_convert(g, weft_compare(g, WEFT_EQ, position, best), x->type.dtype));
}
