/* Relatives of Adam, m and v as there. AdaBound: Luo, Xiong, Liu, Sun 2019, algorithm 2. AdEMAMix: Pagliardini, Ablin,
   Grangier 2024, algorithm 1, with its warm-ups of alpha (linear) and beta3 (linear in half life). */
#include "stdlib/optim/method.h"

#include <math.h>

void weft_optim_adabound(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_value *gradient = weft_optim_gradient(pass), *one = weft_scalar(g, pass->dtype, 1);
    weft_value *m = weft_optim_average(g, weft_optim_state(pass, "m", false), gradient, o->beta1);
    weft_value *v = weft_optim_average(g, weft_optim_state(pass, "v", false), weft_square(g, gradient), o->beta2);
    weft_optim_state_set(pass, "m", m);
    weft_optim_state_set(pass, "v", v);
    /* the bounds close in on final_rate: from 0 and from infinity */
    weft_value *time = weft_mul_number(g, pass->step, o->gamma);
    weft_value *below = weft_sub(g, one, weft_reciprocal(g, weft_add_number(g, time, 1)));
    weft_value *above = weft_add(g, one, weft_reciprocal(g, time));
    weft_value *rate = weft_mul(g, pass->rate, weft_sqrt(g, weft_optim_correction(pass, o->beta2)));
    rate = weft_div(g, rate, weft_optim_correction(pass, o->beta1));
    weft_value *each = weft_div(g, rate, weft_add_number(g, weft_sqrt(g, v), o->epsilon));
    each = weft_max(g, each, weft_mul_number(g, below, o->final_rate));
    each = weft_min(g, each, weft_mul_number(g, above, o->final_rate));
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_mul(g, each, m)));
}

/* min(step / length, 1) */
static weft_value *progress(weft_optim_pass *pass, int64_t length) {
    weft_value *share = weft_mul_number(pass->g, pass->step, 1.0 / (double)length);
    return weft_min(pass->g, share, weft_scalar(pass->g, pass->dtype, 1));
}

/* 1 - beta3 of this step: 1 / log beta is linear in the step, from beta1 to beta3. */
static weft_value *slow_share(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    if (o->beta3_warmup <= 0) return weft_scalar(g, pass->dtype, 1 - o->beta3);
    double from = 1 / log(o->beta1), to = 1 / log(o->beta3);
    weft_value *inverse = weft_mul_number(g, progress(pass, o->beta3_warmup), to - from);
    return weft_neg(g, weft_expm1(g, weft_reciprocal(g, weft_add_number(g, inverse, from))));
}

void weft_optim_ademamix(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_value *gradient = weft_optim_gradient(pass);
    weft_value *m = weft_optim_average(g, weft_optim_state(pass, "m", false), gradient, o->beta1);
    weft_value *v = weft_optim_average(g, weft_optim_state(pass, "v", false), weft_square(g, gradient), o->beta2);
    weft_value *slow = weft_optim_state(pass, "m_slow", false);
    slow = weft_add(g, slow, weft_mul(g, weft_sub(g, gradient, slow), slow_share(pass)));
    weft_optim_state_set(pass, "m", m);
    weft_optim_state_set(pass, "v", v);
    weft_optim_state_set(pass, "m_slow", slow);
    weft_value *alpha = weft_scalar(g, pass->dtype, o->alpha);
    if (o->alpha_warmup > 0) alpha = weft_mul(g, alpha, progress(pass, o->alpha_warmup));
    weft_value *sum = weft_mul(g, m, weft_reciprocal(g, weft_optim_correction(pass, o->beta1)));
    sum = weft_add(g, sum, weft_mul(g, alpha, slow));
    weft_value *scale = weft_rsqrt(g, weft_optim_correction(pass, o->beta2));
    weft_value *root = weft_add_number(g, weft_mul(g, weft_sqrt(g, v), scale), o->epsilon);
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_mul(g, pass->rate, weft_div(g, sum, root))));
}
