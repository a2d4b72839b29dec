/* A multilayer perceptron with the names of torch.nn.Sequential(Linear, activation, Linear, ...): 0.weight, 0.bias,
   2.weight, ... Initial values as torch.nn.Linear has them: uniform in 1 / sqrt(inputs). */
#include "base/need.h"
#include "weft/nn.h"

#include <math.h>
#include <stdio.h>

static weft_value *activate(weft_graph *g, weft_nn_activation activation, weft_value *x) {
    switch (activation) {
    case WEFT_NN_GELU: return weft_nn_gelu(g, x);
    case WEFT_NN_TANH: return weft_tanh(g, x);
    case WEFT_NN_SILU: return weft_silu(g, x);
    case WEFT_NN_RELU: break;
    }
    return weft_relu(g, x);
}

weft_value *weft_nn_mlp(weft_parameters *parameters, const weft_nn_mlp_options *options, weft_value *x) {
    if (!parameters) return NULL; /* there is no graph for a problem; what takes the result has one */
    weft_graph *g = weft_parameters_graph(parameters);
    weft_nn_mlp_options own = WEFT_NN_MLP_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_MLP_OPTIONS_INIT))) return x;
    if (own.count < 2 || !own.widths) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a perceptron needs two widths or more"));
        return x;
    }
    for (int i = 0; i + 1 < own.count; i++) {
        char weight[160], bias[160];
        const char *prefix = own.prefix ? own.prefix : "";
        int64_t inputs = own.widths[i], outputs = own.widths[i + 1];
        double scale = 1 / sqrt((double)(inputs > 0 ? inputs : 1));
        snprintf(weight, sizeof weight, "%.100s%d.weight", prefix, 2 * i);
        snprintf(bias, sizeof bias, "%.100s%d.bias", prefix, 2 * i);
        weft_value *w =
            weft_parameters_add(parameters, weight, WEFT_INIT_UNIFORM, scale, 2, (int64_t[]){outputs, inputs});
        weft_value *b = weft_parameters_add(parameters, bias, WEFT_INIT_UNIFORM, scale, 1, &outputs);
        if (i) x = activate(g, own.activation, x);
        x = weft_nn_linear(g, x, w, b);
    }
    return x;
}
