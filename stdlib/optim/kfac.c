/* K-FAC: gradients of linear layers, multiplied by the inverse of a Kronecker product that stands for their Fisher
   matrix. a: inputs [N, I], with a column of ones when there is a bias; s: N times the gradients of `loss` by the
   outputs [N, O]; A, S: averages of a^T a / N and s^T s / N; pi = sqrt((tr A / dim A) / (tr S / dim S)); G <- (S +
   sqrt(damping) / pi I)^-1 G (A + pi sqrt(damping) I)^-1. Source: Martens, Grosse 2015, sections 3 and 6.3. */
#include "base/need.h"
#include "stdlib/optim/method.h"
#include "weft/transform.h"

#include <math.h>

/* All axes but the last as one. */
static weft_value *as_rows(weft_graph *g, weft_value *x) {
    int rank = weft_value_rank(x);
    return rank == 2 ? x : weft_flatten(g, x, rank - 1);
}

/* The average of x^T x / N; the first step takes it whole. */
static weft_value *factor(weft_optim_pass *pass, const weft_optim_kfac_options *o, const char *suffix, weft_value *x) {
    weft_graph *g = pass->g;
    weft_dim n = weft_value_dim(x, 1);
    weft_value *count = weft_convert(g, weft_extent(g, weft_value_dim(x, 0)), pass->dtype);
    weft_value *now = weft_div(g, weft_matmul(g, weft_optim_transposed(g, x), x), count);
    weft_value *old = weft_optim_shaped_state(pass, suffix, 2, (int64_t[]){n, n});
    weft_value *first = weft_compare(g, WEFT_EQ, o->step, weft_scalar_integer(g, WEFT_I64, 1));
    weft_value *average = weft_where(g, first, now, weft_optim_average(g, old, now, o->momentum));
    weft_optim_state_set(pass, suffix, average);
    return average;
}

/* tr x / dim x */
static weft_value *mean_diagonal(weft_graph *g, weft_value *x, weft_value *identity) {
    weft_value *trace = weft_reduce_sum(g, weft_mul(g, x, identity), 0, NULL, false);
    return weft_div(g, trace, weft_convert(g, weft_extent(g, weft_value_dim(x, 0)), weft_value_dtype(x)));
}

/* (matrix + shift I)^-1 x of a symmetric matrix with no negative eigenvalue. */
static weft_value *solve(weft_graph *g, weft_value *matrix, weft_value *identity, weft_value *shift, weft_value *x) {
    weft_value *l = weft_cholesky(g, weft_add(g, matrix, weft_mul(g, identity, shift)), true);
    weft_value *half = weft_triangular_solve(g, l, x, true, true, false, false);
    return weft_triangular_solve(g, l, half, true, true, true, false);
}

/* [O, I] or [O, I + 1]: the gradients of weight and bias as one matrix. */
static weft_value *joint_gradient(weft_graph *g, const weft_optim_layer *layer) {
    weft_value *gradient = layer->weight->gradient;
    if (layer->inputs_first) gradient = weft_optim_transposed(g, gradient);
    if (!layer->bias) return gradient;
    return weft_concat(g, 1, 2,
                       (weft_value *[]){gradient, weft_unsqueeze(g, layer->bias->gradient, 1, (int64_t[]){1})});
}

static void give_back(weft_graph *g, const weft_optim_layer *layer, weft_value *joint, weft_dim inputs) {
    weft_value *weight = weft_slice_axis(g, joint, 1, 0, inputs);
    layer->weight->gradient = layer->inputs_first ? weft_optim_transposed(g, weight) : weight;
    if (!layer->bias) return;
    weft_dim outputs = weft_value_dim(joint, 0);
    layer->bias->gradient = weft_reshape(g, weft_slice_axis(g, joint, 1, inputs, inputs + 1), 1, &outputs);
}

static void precondition(weft_optim_pass *pass, const weft_optim_kfac_options *o, const weft_optim_layer *layer,
                         weft_value *output_gradient) {
    weft_graph *g = pass->g;
    weft_value *a = as_rows(g, layer->input), *s = as_rows(g, output_gradient);
    weft_dim inputs = weft_value_dim(a, 1);
    weft_value *count = weft_convert(g, weft_extent(g, weft_value_dim(a, 0)), pass->dtype);
    if (layer->bias) {
        weft_dim column[2] = {weft_value_dim(a, 0), 1};
        weft_value *ones = weft_broadcast_to(g, weft_scalar(g, pass->dtype, 1), 2, column);
        a = weft_concat(g, 1, 2, (weft_value *[]){a, ones});
    }
    weft_value *left = factor(pass, o, "kfac_outputs", weft_mul(g, s, count)),
               *right = factor(pass, o, "kfac_inputs", a);
    weft_value *left_one = weft_optim_identity(g, weft_value_dim(left, 0), pass->dtype),
               *right_one = weft_optim_identity(g, weft_value_dim(right, 0), pass->dtype);
    weft_value *pi = weft_sqrt(g, weft_div(g, mean_diagonal(g, right, right_one), mean_diagonal(g, left, left_one)));
    weft_value *root = weft_scalar(g, pass->dtype, sqrt(o->damping));
    weft_value *half = solve(g, left, left_one, weft_div(g, root, pi), joint_gradient(g, layer));
    weft_value *joint =
        weft_optim_transposed(g, solve(g, right, right_one, weft_mul(g, root, pi), weft_optim_transposed(g, half)));
    give_back(g, layer, joint, inputs);
}

static bool is_whole(weft_graph *g, const weft_optim_layer *layer) {
    const weft_parameter *w = layer->weight, *b = layer->bias;
    if (w && w->name && w->gradient && layer->input && layer->output && (!b || b->gradient)) return true;
    weft_graph_report(
        g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kfac: a layer lacks its weight, a gradient, input or output"));
    return false;
}

void weft_optim_kfac(weft_graph *g, const weft_optim_kfac_options *options, int count, const weft_optim_layer *layers) {
    weft_optim_kfac_options own = WEFT_OPTIM_KFAC_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_OPTIM_KFAC_OPTIONS_INIT))) return;
    if (!own.step || !own.loss || (count > 0 && !layers)) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kfac needs options with step and loss, and layers"));
        return;
    }
    weft_optim_updates updates;
    weft_optim_updates_begin(g, &updates);
    for (int i = 0; i < count; i++) {
        if (!is_whole(g, &layers[i])) continue;
        weft_optim_pass pass = {
            .g = g, .updates = &updates, .p = layers[i].weight, .dtype = weft_value_dtype(layers[i].weight->value)};
        weft_value *gradient;
        weft_gradient(g, own.loss, NULL, 1, &layers[i].output, &gradient);
        precondition(&pass, &own, &layers[i], gradient);
    }
    weft_optim_updates_end(&updates);
}
