/* RAdam: Liu et al. 2020, algorithm 2; Ranger: RAdam on centralised gradients (Yong, Huang, Hua, Zhang 2020) with a
   look-ahead (optim.c). While the variance of 1 / sqrt(v) is intractable, a step goes along m alone. */
#include "stdlib/optim/method.h"

#include <math.h>

/* The rectification, 0 where it does not exist; in f64, since its terms nearly cancel. */
static weft_value *rectification(weft_optim_pass *pass, weft_value **out_exists) {
    weft_graph *g = pass->g;
    double beta2 = pass->o->beta2, last = 2 / (1 - beta2) - 1;
    weft_value *t = weft_convert(g, pass->o->step, WEFT_F64);
    weft_value *power = weft_exp(g, weft_mul_number(g, t, log(beta2)));
    weft_value *rest = weft_add_number(g, weft_neg(g, power), 1);
    weft_value *length = weft_div(g, weft_mul(g, weft_mul_number(g, t, -2), power), rest);
    length = weft_add_number(g, length, last);
    *out_exists = weft_compare(g, WEFT_GT, length, weft_scalar(g, WEFT_F64, 5));
    weft_value *top = weft_mul(g, weft_add_number(g, length, -4), weft_add_number(g, length, -2));
    weft_value *ratio = weft_mul_number(g, weft_div(g, top, length), last / ((last - 4) * (last - 2)));
    ratio = weft_mul(g, ratio, rest); /* 1 - beta2^t: the correction of v */
    return weft_convert(g, weft_sqrt(g, weft_max(g, ratio, weft_scalar(g, WEFT_F64, 0))), pass->dtype);
}

static void update(weft_optim_pass *pass, weft_value *gradient) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_value *exists, *rectified = rectification(pass, &exists);
    weft_value *m = weft_optim_average(g, weft_optim_state(pass, "m", false), gradient, o->beta1);
    weft_value *v = weft_optim_average(g, weft_optim_state(pass, "v", false), weft_square(g, gradient), o->beta2);
    weft_optim_state_set(pass, "m", m);
    weft_optim_state_set(pass, "v", v);
    weft_value *rate = weft_div(g, pass->rate, weft_optim_correction(pass, o->beta1));
    weft_value *scale = weft_div(g, rectified, weft_add_number(g, weft_sqrt(g, v), o->epsilon));
    scale = weft_where(g, exists, scale, weft_scalar(g, pass->dtype, 1));
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_mul(g, weft_mul(g, rate, m), scale)));
}

void weft_optim_radam(weft_optim_pass *pass) { update(pass, weft_optim_gradient(pass)); }

void weft_optim_ranger(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    weft_parameter own = *pass->p;
    int rank = weft_value_rank(own.value);
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 1; i < rank; i++) axes[i - 1] = i;
    if (rank > 1) own.gradient = weft_sub(g, own.gradient, weft_reduce_mean(g, own.gradient, rank - 1, axes, true));
    weft_parameter *caller = pass->p;
    pass->p = &own;
    update(pass, weft_optim_gradient(pass));
    pass->p = caller;
    caller->updated = own.updated;
}
