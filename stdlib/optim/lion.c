/* Lion: p -= rate sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g. Source: Chen et al. 2023, algorithm 2. */
#include "stdlib/optim/method.h"

void weft_optim_lion(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    weft_value *gradient = weft_optim_gradient(pass), *m = weft_optim_state(pass, "m", false);
    weft_value *direction = weft_sign(g, weft_optim_average(g, m, gradient, pass->o->beta1));
    weft_optim_state_set(pass, "m", weft_optim_average(g, m, gradient, pass->o->beta2));
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_mul(g, pass->rate, direction)));
}
