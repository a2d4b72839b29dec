/* Averages of parameters over the steps; corrected: Kingma, Ba 2015, section 3, applied to parameters. */
#include "base/need.h"
#include "stdlib/optim/method.h"

void weft_optim_ema(weft_graph *g, const weft_optim_ema_options *options, int count, const weft_parameter *parameters,
                    weft_value **out_averages) {
    if (!options || (count > 0 && !parameters)) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_optim_ema: the %s are missing",
                                         options ? "parameters" : "options"));
        return;
    }
    weft_optim_ema_options own = WEFT_OPTIM_EMA_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_OPTIM_EMA_OPTIONS_INIT))) return;
    weft_optim_updates updates;
    weft_optim_updates_begin(g, &updates);
    for (int i = 0; i < count; i++) {
        weft_parameter p = parameters[i];
        weft_optim_pass pass = {.g = g, .updates = &updates, .p = &p, .dtype = weft_value_dtype(p.value)};
        weft_value *momentum = weft_convert(g, own.momentum, pass.dtype);
        weft_value *rest = weft_sub(g, weft_scalar(g, pass.dtype, 1), momentum);
        weft_value *average = weft_mul(g, momentum, weft_optim_state(&pass, "ema", !own.corrected));
        average = weft_add(g, average, weft_mul(g, rest, p.updated ? p.updated : p.value));
        weft_optim_state_set(&pass, "ema", average);
        if (!out_averages) continue;
        if (own.corrected) { /* 1 - momentum^step */
            weft_value *power = weft_pow(g, momentum, weft_convert(g, own.step, pass.dtype));
            average = weft_div(g, average, weft_sub(g, weft_scalar(g, pass.dtype, 1), power));
        }
        out_averages[i] = average;
    }
    weft_optim_updates_end(&updates);
}
