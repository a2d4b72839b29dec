/* Schedule-Free AdamW: the parameter is y = (1 - beta1) z + beta1 x, where the gradient is taken; z takes the steps, x
   is the weighted average of z. x is not stored: it follows from y and z. Source: Defazio et al. 2024, with averaging
   weights (largest rate)^2 step^polynomial. */
#include "stdlib/optim/method.h"

static void share(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_dtype dtype = pass->dtype;
    weft_graph_state_zeros(g, "optim/rate_max", dtype, 0, NULL);
    weft_graph_state_zeros(g, "optim/weight_sum", dtype, 0, NULL);
    weft_value *warm = weft_scalar(g, dtype, 1);
    if (o->warmup > 0) warm = weft_min(g, warm, weft_mul_number(g, pass->step, 1.0 / (double)o->warmup));
    weft_value *base = weft_mul(g, weft_convert(g, o->rate, dtype), warm);
    weft_value *largest = weft_max(g, weft_state_read(g, "optim/rate_max"), base);
    weft_value *weight = weft_square(g, largest);
    if (o->polynomial != 0) weight = weft_mul(g, weight, weft_pow(g, pass->step, weft_scalar(g, dtype, o->polynomial)));
    weft_value *sum = weft_add(g, weft_state_read(g, "optim/weight_sum"), weight);
    weft_state_update(g, "optim/rate_max", largest);
    weft_state_update(g, "optim/weight_sum", sum);
    weft_value *none = weft_compare(g, WEFT_EQ, sum, weft_scalar(g, dtype, 0));
    pass->shared[0] = weft_where(g, none, weft_scalar(g, dtype, 0), weft_div(g, weight, sum));
    pass->shared[1] = warm;
}

void weft_optim_schedule_free_adamw(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    if (!pass->shared[0]) share(pass);
    weft_value *weight = weft_convert(g, pass->shared[0], pass->dtype);
    weft_value *rate = weft_mul(g, pass->rate, weft_convert(g, pass->shared[1], pass->dtype));
    weft_value *y = pass->p->value, *gradient = pass->p->gradient, *z = weft_optim_state(pass, "z", true);
    weft_value *v = weft_optim_average(g, weft_optim_state(pass, "v", false), weft_square(g, gradient), o->beta2);
    weft_optim_state_set(pass, "v", v);
    weft_value *scale = weft_rsqrt(g, weft_optim_correction(pass, o->beta2));
    weft_value *root = weft_add_number(g, weft_mul(g, weft_sqrt(g, v), scale), o->epsilon);
    weft_value *direction = weft_div(g, gradient, root);
    if (pass->decay) direction = weft_add(g, direction, weft_mul(g, pass->decay, y));
    weft_value *step = weft_mul(g, rate, direction);
    weft_value *next = weft_add(g, y, weft_mul(g, weight, weft_sub(g, z, y)));
    /* rate (1 - beta1 (1 - weight)) */
    weft_value *share_of_step = weft_add_number(g, weft_mul_number(g, weight, o->beta1), 1 - o->beta1);
    weft_optim_state_set(pass, "z", weft_sub(g, z, step));
    weft_optim_finish(pass, weft_sub(g, next, weft_mul(g, share_of_step, step)));
}
