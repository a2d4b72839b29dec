/* Sophia-G: p -= rate sign(m) min(|m| / (rho h + epsilon), 1), h the average of scale * c^2 taken every `period` steps,
   from the first; c (the parameter's `curvature`) is the gradient with labels drawn from the model. Source: Liu et al.
   2023, algorithms 2 and 3. */
#include "stdlib/optim/method.h"

void weft_optim_sophia(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    if (!pass->p->curvature) {
        weft_graph_report(
            g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "parameter %s: sophia needs its curvature gradient", pass->p->name));
        return;
    }
    weft_value *gradient = weft_optim_gradient(pass);
    weft_value *m = weft_optim_average(g, weft_optim_state(pass, "m", false), gradient, o->beta1);
    weft_value *h = weft_optim_state(pass, "h", false);
    weft_value *fresh = weft_mul_number(g, weft_square(g, pass->p->curvature), o->curvature_scale);
    int64_t period = o->period > 1 ? o->period : 1;
    weft_value *phase = weft_rem(g, o->step, weft_scalar_integer(g, WEFT_I64, period));
    weft_value *now = weft_compare(g, WEFT_EQ, phase, weft_scalar_integer(g, WEFT_I64, period == 1 ? 0 : 1));
    h = weft_where(g, now, weft_optim_average(g, h, fresh, o->beta2), h);
    weft_optim_state_set(pass, "m", m);
    weft_optim_state_set(pass, "h", h);
    weft_value *bound = weft_add_number(g, weft_mul_number(g, h, o->trust), o->epsilon);
    weft_value *ratio = weft_min(g, weft_div(g, weft_abs(g, m), bound), weft_scalar(g, pass->dtype, 1));
    weft_value *step = weft_mul(g, pass->rate, weft_mul(g, weft_sign(g, m), ratio));
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), step));
}
