/* GaLore: Adam on gradients projected to few dimensions. Every `period` steps, from the first, B becomes the `rank`
   leading singular vectors of the gradient G on its shorter side, by eigenvectors of the smaller of G G^T and G^T G; R
   = G B (rows >= columns) or B^T G; m, v: averages of R and R^2; p -= rate alpha sqrt(1 - beta2^t) / (1 - beta1^t)
   back(m / (sqrt(v) + epsilon)), then the decay. m and v keep their coordinates when B changes. The sign of a singular
   vector is no one's: here its components' sum is not negative. Vectors take plain Adam. Source: Zhao et al. 2024,
   algorithm 2. */
#include "stdlib/optim/method.h"

typedef struct projector {
    weft_value *gradient, *kept;
    weft_dim rank;
    bool tall;
} projector;

static void compute(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const projector *p = self;
    weft_value *x = p->gradient, *values, *vectors;
    (void)arguments;
    weft_eigh(g,
              p->tall ? weft_matmul(g, weft_optim_transposed(g, x), x) : weft_matmul(g, x, weft_optim_transposed(g, x)),
              &values, &vectors);
    vectors = weft_slice_axis(g, weft_reverse(g, vectors, 1, (int64_t[]){1}), 1, 0, p->rank);
    weft_value *sum = weft_reduce_sum(g, vectors, 1, (int64_t[]){0}, false),
               *zero = weft_scalar(g, weft_value_dtype(x), 0);
    weft_value *one = weft_scalar(g, weft_value_dtype(x), 1);
    results[0] = weft_mul(g, vectors, weft_where(g, weft_compare(g, WEFT_LT, sum, zero), weft_neg(g, one), one));
}

static void keep(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const projector *p = self;
    (void)g, (void)arguments;
    results[0] = p->kept;
}

static weft_value *direction_of(weft_optim_pass *pass, weft_value *m, weft_value *v) {
    weft_graph *g = pass->g;
    weft_optim_state_set(pass, "m", m);
    weft_optim_state_set(pass, "v", v);
    return weft_div(g, m, weft_add_number(g, weft_sqrt(g, v), pass->o->epsilon));
}

static weft_value *averages(weft_optim_pass *pass, weft_value *m, weft_value *v, weft_value *r) {
    weft_graph *g = pass->g;
    return direction_of(pass, weft_optim_average(g, m, r, pass->o->beta1),
                        weft_optim_average(g, v, weft_square(g, r), pass->o->beta2));
}

static weft_value *projected(weft_optim_pass *pass, weft_value *gradient) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_dim rows = weft_value_dim(gradient, 0), columns = weft_value_dim(gradient, 1);
    projector p = {.gradient = gradient, .tall = rows >= columns};
    weft_dim side = p.tall ? columns : rows;
    p.rank = o->rank > 0 && o->rank < side ? o->rank : side;
    p.kept = weft_optim_shaped_state(pass, "basis", 2, (int64_t[]){side, p.rank});
    weft_value *phase = weft_rem(g, o->step, weft_scalar_integer(g, WEFT_I64, o->period > 0 ? o->period : 1));
    weft_value *due = weft_compare(g, WEFT_EQ, phase, weft_scalar_integer(g, WEFT_I64, o->period > 1)), *basis;
    weft_cond(g, due, compute, keep, &p, 1, &basis);
    weft_optim_state_set(pass, "basis", basis);
    weft_value *r =
        p.tall ? weft_matmul(g, gradient, basis) : weft_matmul(g, weft_optim_transposed(g, basis), gradient);
    int64_t shape[2] = {p.tall ? rows : p.rank, p.tall ? p.rank : columns};
    weft_value *low =
        averages(pass, weft_optim_shaped_state(pass, "m", 2, shape), weft_optim_shaped_state(pass, "v", 2, shape), r);
    weft_value *back = p.tall ? weft_matmul(g, low, weft_optim_transposed(g, basis)) : weft_matmul(g, basis, low);
    return weft_mul_number(g, back, o->alpha);
}

void weft_optim_galore(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    weft_dim shape[WEFT_MAX_RANK];
    int rank = weft_optim_shape(pass, shape);
    weft_value *gradient = weft_optim_gradient(pass), *direction;
    if (rank > 1)
        direction = weft_reshape(g, projected(pass, weft_flatten(g, gradient, 1)), rank, shape);
    else
        direction = averages(pass, weft_optim_state(pass, "m", false), weft_optim_state(pass, "v", false), gradient);
    weft_optim_finish(pass, weft_optim_stepped(pass, pass->step, direction));
}
