/* Muon: the momentum of a matrix, with its singular values brought near 1 by five steps of a Newton-Schulz iteration.
   Source: Jordan et al. 2024; the iteration: Bernstein, Newhouse 2024. R rows, C columns. */
#include "stdlib/optim/method.h"

#include <math.h>

enum { ITERATIONS = 5 };
static const double a = 3.4445, b = -4.7750, c = 2.0315;

/* x [R, C] -> about U V^T. The smaller of R R and C C products is used. */
static weft_value *orthogonal(weft_graph *g, weft_value *x, double epsilon) {
    bool tall = weft_value_dim(x, 0) > weft_value_dim(x, 1);
    x = weft_div(g, x, weft_add_number(g, weft_optim_norm(g, x), epsilon));
    if (tall) x = weft_optim_transposed(g, x);
    for (int i = 0; i < ITERATIONS; i++) {
        weft_value *gram = weft_matmul(g, x, weft_optim_transposed(g, x));
        weft_value *mixed = weft_add(g, weft_mul_number(g, gram, b), weft_mul_number(g, weft_matmul(g, gram, gram), c));
        x = weft_add(g, weft_mul_number(g, x, a), weft_matmul(g, mixed, x));
    }
    return tall ? weft_optim_transposed(g, x) : x;
}

void weft_optim_muon(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    int rank = weft_value_rank(pass->p->value);
    if (rank < 2) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "parameter %s: muon updates matrices, not rank %d",
                                         pass->p->name, rank));
        return;
    }
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = weft_value_dim(pass->p->value, i);
    weft_value *gradient = weft_optim_gradient(pass);
    weft_value *m = weft_optim_average(g, weft_optim_state(pass, "m", false), gradient, o->beta1);
    weft_optim_state_set(pass, "m", m);
    weft_value *direction = o->nesterov ? weft_optim_average(g, m, gradient, o->beta1) : m;
    direction = orthogonal(g, weft_flatten(g, direction, 1), o->epsilon);
    weft_dim rows = weft_value_dim(direction, 0), columns = weft_value_dim(direction, 1);
    double scale = rows > columns ? sqrt((double)rows / (double)columns) : 1;
    if (o->match_rms) scale = 0.2 * sqrt((double)(rows > columns ? rows : columns));
    weft_value *step = weft_mul(g, weft_mul_number(g, pass->rate, scale), weft_reshape(g, direction, rank, shape));
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), step));
}
