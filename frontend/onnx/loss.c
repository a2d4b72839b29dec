/* ONNX losses and optimizer steps. Read next: signal.c. Source: ONNX 1.22; Duchi et al. 2011 (Adagrad), Kingma and Ba
   2015 (Adam), Sutskever et al. 2013 (momentum). */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

/* Negative picked log probabilities with class weights and an ignored label. log_p [N, C, d...], labels [N, d...]. */
static void negative_log_likelihood(weft_onnx_node *node, weft_value *log_p, weft_value *labels, weft_value *weights,
                                    weft_dtype dtype) {
    weft_graph *g = node->graph;
    if (weft_value_is_poison(log_p) || weft_value_is_poison(labels)) return;
    const Onnx__AttributeProto *ignore = weft_onnx_attribute(node, "ignore_index");
    const char *reduction = weft_onnx_string(node, "reduction", "mean");
    int64_t classes = 1;
    labels = weft_convert(g, labels, WEFT_I64);
    weft_value *ignored = ignore ? weft_compare(g, WEFT_EQ, labels, weft_scalar_integer(g, WEFT_I64, ignore->i)) : NULL;
    if (ignored) labels = weft_where(g, ignored, weft_scalar_integer(g, WEFT_I64, 0), labels);
    labels = weft_onnx_wrap_indices(g, labels, log_p->type.dims[1]);
    weft_value *picked =
        weft_squeeze(g, weft_take_along(g, log_p, weft_unsqueeze(g, labels, 1, &classes), 1), 1, &classes);
    weft_value *loss = weft_neg(g, picked);
    if (weft_value_is_poison(loss)) return;
    weft_value *weight = weights ? weft_take(g, weft_onnx_widen(g, weights), labels, 0)
                                 : weft_full(g, loss->type.dtype, loss->type.rank, loss->type.dims, 1);
    if (ignored) weight = weft_where(g, ignored, weft_onnx_scalar_like(g, loss, 0), weight);
    /* an ignored -infinity must not become NaN */
    loss = weft_mul(g, ignored ? weft_where(g, ignored, weft_onnx_scalar_like(g, loss, 0), loss) : loss, weight);
    if (strcmp(reduction, "mean") == 0)
        loss = weft_div(g, weft_reduce_sum(g, loss, 0, NULL, false), weft_reduce_sum(g, weight, 0, NULL, false));
    else if (strcmp(reduction, "sum") == 0)
        loss = weft_reduce_sum(g, loss, 0, NULL, false);
    else if (strcmp(reduction, "none") != 0)
        weft_onnx_problem(node, "reduction %s", reduction);
    if (!weft_value_is_poison(loss)) weft_onnx_output(node, 0, weft_convert(g, loss, dtype));
}

void weft_onnx_import_negative_log_likelihood_loss(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    negative_log_likelihood(node, weft_onnx_widen(node->graph, x), weft_onnx_input(node, 1),
                            weft_onnx_optional(node, 2), x->type.dtype);
}

void weft_onnx_import_softmax_cross_entropy_loss(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    weft_value *log_p = weft_log_softmax(g, weft_onnx_widen(g, x), 1);
    negative_log_likelihood(node, log_p, weft_onnx_input(node, 1), weft_onnx_optional(node, 2), x->type.dtype);
    if (!weft_value_is_poison(log_p)) weft_onnx_output(node, 1, weft_convert(g, log_p, x->type.dtype));
}

/* -- optimizer steps: inputs rate, step, then per kind n tensors each */

typedef struct step {
    weft_value *rate, *count; /* f32 and i64 scalars */
    double norm, epsilon;
} step;

static int read_step(weft_onnx_node *node, int kinds, step *s) {
    weft_graph *g = node->graph;
    int tensors = node->input_count - 2;
    s->rate = weft_reshape(g, weft_onnx_input(node, 0), 0, NULL),
    s->count = weft_reshape(g, weft_onnx_input(node, 1), 0, NULL);
    s->norm = weft_onnx_float(node, "norm_coefficient", 0), s->epsilon = weft_onnx_float(node, "epsilon", 1e-6f);
    if (tensors < kinds || tensors % kinds)
        weft_onnx_problem(node, "%d tensors are not %d per parameter", tensors, kinds);
    return tensors % kinds ? 0 : tensors / kinds;
}

void weft_onnx_import_adagrad(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    step s;
    int n = read_step(node, 3, &s);
    double decay = weft_onnx_float(node, "decay_factor", 0);
    for (int i = 0; i < n; i++) {
        weft_value *x = weft_onnx_input(node, 2 + i), *grad = weft_onnx_input(node, 2 + n + i),
                   *h = weft_onnx_input(node, 2 + 2 * n + i);
        if (weft_value_is_poison(x) || weft_value_is_poison(s.rate)) return;
        weft_value *decayed =
            weft_add_number(g, weft_mul_number(g, weft_convert(g, s.count, s.rate->type.dtype), decay), 1);
        weft_value *rate = weft_convert(g, weft_div(g, s.rate, decayed), x->type.dtype);
        weft_value *whole = weft_add(g, grad, weft_mul_number(g, x, s.norm)),
                   *next = weft_add(g, h, weft_square(g, whole));
        weft_value *scaled = weft_div(g, weft_mul(g, rate, whole), weft_add_number(g, weft_sqrt(g, next), s.epsilon));
        weft_onnx_output(node, i, weft_sub(g, x, scaled));
        weft_onnx_output(node, n + i, next);
    }
}

void weft_onnx_import_adam(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    step s;
    int n = read_step(node, 4, &s);
    double alpha = weft_onnx_float(node, "alpha", 0.9f), beta = weft_onnx_float(node, "beta", 0.999f),
           after = weft_onnx_float(node, "norm_coefficient_post", 0);
    for (int i = 0; i < n; i++) {
        weft_value *x = weft_onnx_input(node, 2 + i), *grad = weft_onnx_input(node, 2 + n + i),
                   *v = weft_onnx_input(node, 2 + 2 * n + i), *h = weft_onnx_input(node, 2 + 3 * n + i);
        if (weft_value_is_poison(x) || weft_value_is_poison(s.rate)) return;
        weft_dtype dtype = x->type.dtype;
        weft_value *whole = weft_add(g, grad, weft_mul_number(g, x, s.norm));
        weft_value *next_v = weft_add(g, weft_mul_number(g, v, alpha), weft_mul_number(g, whole, 1 - alpha));
        weft_value *next_h =
            weft_add(g, weft_mul_number(g, h, beta), weft_mul_number(g, weft_square(g, whole), 1 - beta));
        /* bias correction from the second step on */
        weft_value *t = weft_convert(g, s.count, dtype), *one = weft_scalar(g, dtype, 1);
        weft_value *corrected = weft_div(g, weft_sqrt(g, weft_sub(g, one, weft_pow(g, weft_scalar(g, dtype, beta), t))),
                                         weft_sub(g, one, weft_pow(g, weft_scalar(g, dtype, alpha), t)));
        weft_value *rate = weft_convert(g, s.rate, dtype),
                   *later = weft_compare(g, WEFT_GT, s.count, weft_scalar_integer(g, WEFT_I64, 0));
        rate = weft_where(g, later, weft_mul(g, rate, corrected), rate);
        weft_value *moved =
            weft_sub(g, x, weft_div(g, weft_mul(g, rate, next_v), weft_add_number(g, weft_sqrt(g, next_h), s.epsilon)));
        weft_onnx_output(node, i, weft_mul_number(g, moved, 1 - after));
        weft_onnx_output(node, n + i, next_v);
        weft_onnx_output(node, 2 * n + i, next_h);
    }
}

void weft_onnx_import_momentum(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    step s;
    int n = read_step(node, 3, &s);
    double alpha = weft_onnx_float(node, "alpha", 0), beta = weft_onnx_float(node, "beta", 0);
    bool nesterov = weft_onnx_string_is(node, "mode", "standard", "nesterov");
    for (int i = 0; i < n; i++) {
        weft_value *x = weft_onnx_input(node, 2 + i), *grad = weft_onnx_input(node, 2 + n + i),
                   *v = weft_onnx_input(node, 2 + 2 * n + i);
        if (weft_value_is_poison(x)) return;
        weft_dtype dtype = x->type.dtype;
        weft_value *whole = weft_add(g, grad, weft_mul_number(g, x, s.norm));
        /* the first step does not damp */
        weft_value *later = weft_compare(g, WEFT_GT, s.count, weft_scalar_integer(g, WEFT_I64, 0));
        weft_value *damp = weft_where(g, later, weft_scalar(g, dtype, beta), weft_scalar(g, dtype, 1));
        weft_value *next = weft_add(g, weft_mul_number(g, v, alpha), weft_mul(g, damp, whole));
        weft_value *direction = nesterov ? weft_add(g, whole, weft_mul_number(g, next, alpha)) : next;
        weft_onnx_output(node, i, weft_sub(g, x, weft_mul(g, weft_convert(g, s.rate, dtype), direction)));
        weft_onnx_output(node, n + i, next);
    }
}
