/* Clipping of gradients, by their norm together (Pascanu, Mikolov, Bengio 2013) or by value. */
#include "stdlib/optim/method.h"

/* A list of gradients at the door; a gradient that is missing is a problem of the op that takes it. */
static bool has_list(weft_graph *g, int count, const weft_parameter *parameters) {
    if (count <= 0 || parameters) return true;
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "clipping: the parameters are missing"));
    return false;
}

/* A negative one would turn gradients round. */
static bool is_maximum(weft_graph *g, double maximum) {
    if (maximum >= 0) return true;
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "clipping: the maximum is %g; it is at least 0", maximum));
    return false;
}

weft_value *weft_optim_gradient_norm(weft_graph *g, int count, const weft_parameter *parameters) {
    weft_value *sum = NULL;
    if (!has_list(g, count, parameters)) count = 0;
    for (int i = 0; i < count; i++) {
        weft_value *square = weft_reduce_sum(g, weft_square(g, parameters[i].gradient), 0, NULL, false);
        sum = sum ? weft_add(g, sum, square) : square;
    }
    return sum ? weft_sqrt(g, sum) : weft_scalar(g, WEFT_F32, 0);
}

weft_value *weft_optim_clip_norm(weft_graph *g, int count, weft_parameter *parameters, double maximum) {
    weft_value *norm = weft_optim_gradient_norm(g, count, parameters);
    if (!parameters || weft_value_dtype(norm) == WEFT_INVALID || !is_maximum(g, maximum)) return norm;
    weft_dtype dtype = weft_value_dtype(norm);
    weft_value *scale = weft_div(g, weft_scalar(g, dtype, maximum), weft_add_number(g, norm, 1e-6));
    scale = weft_min(g, scale, weft_scalar(g, dtype, 1));
    for (int i = 0; i < count; i++) parameters[i].gradient = weft_mul(g, parameters[i].gradient, scale);
    return norm;
}

void weft_optim_clip_value(weft_graph *g, int count, weft_parameter *parameters, double maximum) {
    if (!has_list(g, count, parameters) || !is_maximum(g, maximum)) return;
    for (int i = 0; i < count; i++) parameters[i].gradient = weft_clip(g, parameters[i].gradient, -maximum, maximum);
}
