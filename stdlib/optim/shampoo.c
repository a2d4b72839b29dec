/* Shampoo: L += G G^T, R += G^T G, p -= rate L^(-1/4) G R^(-1/4), with epsilon I added to L and R; vectors by the
   square root of their sum of squares. Source: Gupta, Koren, Singer 2018, algorithms 1 and 2. The roots come from
   products alone, by the coupled iteration of Guo, Higham 2006: M = z A, X = z^(1/4) I; T = (5 I - M) / 4; X = X T; M =
   T^4 M; M tends to I and X to A^(-1/4). No eigenvectors: products are what every target has fast kernels for. */
#include "stdlib/optim/method.h"

#include <math.h>

enum { ROOT = 4, ITERATIONS_MAX = 60 };

typedef struct root_loop {
    weft_value *identity;
    double tolerance; /* of |M - I| */
} root_loop;

/* arguments: trip, X, M. */
static void goes_on(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const root_loop *loop = self;
    weft_value *off = weft_abs(g, weft_sub(g, arguments[2], loop->identity));
    weft_value *far = weft_reduce_max(g, off, 0, NULL, false);
    weft_value *more = weft_compare(g, WEFT_GT, far, weft_scalar(g, weft_value_dtype(far), loop->tolerance));
    weft_value *early = weft_compare(g, WEFT_LT, arguments[0], weft_scalar_integer(g, WEFT_I64, ITERATIONS_MAX));
    results[0] = weft_and(g, more, early);
}

static void iterate(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const root_loop *loop = self;
    weft_value *x = arguments[1], *m = arguments[2];
    weft_value *t =
        weft_sub(g, weft_mul_number(g, loop->identity, (ROOT + 1.0) / ROOT), weft_mul_number(g, m, 1.0 / ROOT));
    weft_value *square = weft_matmul(g, t, t);
    results[0] = weft_add(g, arguments[0], weft_scalar_integer(g, WEFT_I64, 1));
    results[1] = weft_matmul(g, x, t);
    results[2] = weft_matmul(g, weft_matmul(g, square, square), m);
}

/* (a + epsilon I)^(-1/4) of a symmetric a with no negative eigenvalue. */
static weft_value *inverse_root(weft_graph *g, weft_value *a, double epsilon) {
    weft_dtype dtype = weft_value_dtype(a);
    root_loop loop = {weft_optim_identity(g, weft_value_dim(a, 0), dtype), dtype == WEFT_F64 ? 1e-12 : 1e-5};
    a = weft_add(g, a, weft_mul_number(g, loop.identity, epsilon));
    /* the norm bounds the eigenvalues: those of z a lie in (0, 2.5] */
    weft_value *z = weft_div(g, weft_scalar(g, dtype, (ROOT + 1.0) / 2), weft_optim_norm(g, a));
    weft_value *start[3] = {weft_scalar_integer(g, WEFT_I64, 0),
                            weft_mul(g, loop.identity, weft_sqrt(g, weft_sqrt(g, z))), weft_mul(g, a, z)};
    weft_value *end[3];
    weft_while(g, 3, start, ITERATIONS_MAX, goes_on, iterate, &loop, end);
    return end[1];
}

typedef struct roots {
    weft_value *left, *right; /* sums */
    weft_value *kept[2];
    double epsilon;
} roots;

static void compute_roots(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const roots *r = self;
    (void)arguments;
    results[0] = inverse_root(g, r->left, r->epsilon);
    results[1] = inverse_root(g, r->right, r->epsilon);
}

static void keep_roots(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const roots *r = self;
    (void)arguments, (void)g;
    results[0] = r->kept[0];
    results[1] = r->kept[1];
}

static weft_value *square_state(weft_optim_pass *pass, const char *suffix, weft_dim n) {
    return weft_optim_shaped_state(pass, suffix, 2, (int64_t[]){n, n});
}

static weft_value *precondition(weft_optim_pass *pass, weft_value *gradient) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_dim rows = weft_value_dim(gradient, 0), columns = weft_value_dim(gradient, 1);
    weft_value *transposed = weft_transpose(g, gradient, NULL), *result[2];
    roots r = {.epsilon = o->epsilon};
    r.left = weft_add(g, square_state(pass, "left", rows), weft_matmul(g, gradient, transposed));
    r.right = weft_add(g, square_state(pass, "right", columns), weft_matmul(g, transposed, gradient));
    weft_optim_state_set(pass, "left", r.left);
    weft_optim_state_set(pass, "right", r.right);
    if (o->period > 1) {
        r.kept[0] = square_state(pass, "left_root", rows);
        r.kept[1] = square_state(pass, "right_root", columns);
        weft_value *phase = weft_rem(g, o->step, weft_scalar_integer(g, WEFT_I64, o->period));
        weft_value *due = weft_compare(g, WEFT_EQ, phase, weft_scalar_integer(g, WEFT_I64, 1));
        weft_cond(g, due, compute_roots, keep_roots, &r, 2, result);
        weft_optim_state_set(pass, "left_root", result[0]);
        weft_optim_state_set(pass, "right_root", result[1]);
    } else {
        compute_roots(&r, g, NULL, result);
    }
    return weft_matmul(g, weft_matmul(g, result[0], gradient), result[1]);
}

void weft_optim_shampoo(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_dim shape[WEFT_MAX_RANK];
    int rank = weft_optim_shape(pass, shape);
    weft_value *gradient = weft_optim_gradient(pass), *direction;
    if (rank > 1) {
        direction = weft_reshape(g, precondition(pass, weft_flatten(g, gradient, 1)), rank, shape);
    } else {
        weft_value *sum = weft_add(g, weft_optim_state(pass, "sum", false), weft_square(g, gradient));
        weft_optim_state_set(pass, "sum", sum);
        direction = weft_mul(g, gradient, weft_rsqrt(g, weft_add_number(g, sum, o->epsilon)));
    }
    if (o->beta1 > 0) {
        direction = weft_add(g, weft_mul_number(g, weft_optim_state(pass, "m", false), o->beta1), direction);
        weft_optim_state_set(pass, "m", direction);
    }
    weft_optim_finish(pass, weft_sub(g, weft_optim_decayed(pass), weft_mul(g, pass->rate, direction)));
}
