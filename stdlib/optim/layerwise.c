/* Methods that scale each parameter as a whole. NovoGrad: Ginsburg et al. 2019, algorithm 1. LARS: You, Gitman,
   Ginsburg 2017, in the form of Zbontar et al. 2021: the rate of a parameter is trust |p| / |g + decay p|; vectors are
   updated without it. */
#include "stdlib/optim/method.h"

/* v is the average of |g|^2 and starts as the first one; m = beta1 m + g / (sqrt(v) + epsilon) + decay p. */
void weft_optim_novograd(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_value *square = weft_reduce_sum(g, weft_square(g, pass->p->gradient), 0, NULL, false);
    weft_value *first = weft_compare(g, WEFT_LE, o->step, weft_scalar_integer(g, WEFT_I64, 1));
    weft_value *v = weft_optim_average(g, weft_optim_scalar_state(pass, "v"), square, o->beta2);
    v = weft_where(g, first, square, v);
    weft_optim_state_set(pass, "v", v);
    weft_value *scale = weft_reciprocal(g, weft_add_number(g, weft_sqrt(g, v), o->epsilon));
    weft_value *direction = weft_mul(g, pass->p->gradient, scale);
    if (pass->decay) direction = weft_add(g, direction, weft_mul(g, pass->decay, pass->p->value));
    weft_value *m = weft_add(g, weft_mul_number(g, weft_optim_state(pass, "m", false), o->beta1), direction);
    weft_optim_state_set(pass, "m", m);
    weft_optim_finish(pass, weft_sub(g, pass->p->value, weft_mul(g, pass->rate, m)));
}

void weft_optim_lars(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_value *direction = pass->p->gradient, *one = weft_scalar(g, pass->dtype, 1);
    if (weft_value_rank(pass->p->value) > 1) {
        direction = weft_optim_gradient(pass);
        weft_value *size = weft_optim_norm(g, pass->p->value), *length = weft_optim_norm(g, direction);
        weft_value *zero = weft_scalar(g, pass->dtype, 0);
        weft_value *usable = weft_and(g, weft_compare(g, WEFT_GT, size, zero), weft_compare(g, WEFT_GT, length, zero));
        weft_value *ratio = weft_div(g, weft_mul_number(g, size, o->trust), weft_where(g, usable, length, one));
        direction = weft_mul(g, direction, weft_where(g, usable, ratio, one));
    }
    weft_value *m = weft_add(g, weft_mul_number(g, weft_optim_state(pass, "m", false), o->beta1), direction);
    weft_optim_state_set(pass, "m", m);
    weft_optim_finish(pass, weft_sub(g, pass->p->value, weft_mul(g, pass->rate, m)));
}
