/* Adam and AdamW: m and v are averages of g and g^2; p -= rate m' / (sqrt(v') + epsilon) with m' = m / (1 - beta1^t),
   v' = v / (1 - beta2^t). Source: Kingma, Ba 2015, algorithm 1; decoupled decay: Loshchilov, Hutter 2019, algorithm 2;
   amsgrad: Reddi, Kale, Kumar 2018. */
#include "stdlib/optim/method.h"

void weft_optim_adam(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_value *gradient = weft_optim_gradient(pass);
    weft_value *m = weft_optim_average(g, weft_optim_state(pass, "m", false), gradient, o->beta1);
    weft_value *v = weft_optim_average(g, weft_optim_state(pass, "v", false), weft_square(g, gradient), o->beta2);
    weft_optim_state_set(pass, "m", m);
    weft_optim_state_set(pass, "v", v);
    if (o->amsgrad) {
        v = weft_max(g, weft_optim_state(pass, "v_max", false), v);
        weft_optim_state_set(pass, "v_max", v);
    }
    weft_value *rate = weft_div(g, pass->rate, weft_optim_correction(pass, o->beta1));
    weft_value *scale = weft_rsqrt(g, weft_optim_correction(pass, o->beta2));
    weft_value *root = weft_add_number(g, weft_mul(g, weft_sqrt(g, v), scale), o->epsilon);
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_div(g, weft_mul(g, rate, m), root)));
}

void weft_optim_adamw(weft_optim_pass *pass) { weft_optim_adam(pass); }
