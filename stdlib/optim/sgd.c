/* Gradient descent with momentum. Source: Sutskever, Martens, Dahl, Hinton 2013 in the form without the rate inside the
   momentum: m = beta m + g; p -= rate m, Nesterov: p -= rate (g + beta m). */
#include "stdlib/optim/method.h"

void weft_optim_sgd(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    weft_value *direction = weft_optim_gradient(pass);
    if (pass->o->beta1 > 0) {
        weft_value *m = weft_mul_number(g, weft_optim_state(pass, "m", false), pass->o->beta1);
        m = weft_add(g, m, direction);
        weft_optim_state_set(pass, "m", m);
        direction = pass->o->nesterov ? weft_add(g, direction, weft_mul_number(g, m, pass->o->beta1)) : m;
    }
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_mul(g, pass->rate, direction)));
}
