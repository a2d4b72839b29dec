/* SOAP: Adam in the eigenvectors of Shampoo's factors. L, R: averages of G G^T and G^T G (beta3); QL, QR: their
   eigenvectors, largest first. G' = QL^T G QR; m: average of G; v: average of G'^2, in the eigenvectors;
   p -= rate sqrt(1 - beta2^t) / (1 - beta1^t) QL ((QL^T m QR) / (sqrt(v) + epsilon)) QR^T, then the decay. The first
   step makes the eigenvectors and moves nothing (t counts the others); every `period` steps after that one power
   iteration with QR brings them up to date, v in their order. Sides longer than size_max are not turned; vectors take
   plain Adam. Source: Vyas et al. 2024, algorithm 3, with the details of the authors' program. */
#include "stdlib/optim/method.h"

typedef struct side {
    weft_value *factor, *q; /* NULL: this side is not turned */
} side;

typedef struct basis {
    weft_optim_pass *pass;
    side sides[2]; /* left, right */
    weft_value *v; /* after this step's average */
    weft_value *due;
} basis;

/* a^T x b of what is turned: into the eigenvectors. */
static weft_value *turn(weft_graph *g, const basis *b, weft_value *x) {
    if (b->sides[0].q) x = weft_matmul(g, weft_optim_transposed(g, b->sides[0].q), x);
    return b->sides[1].q ? weft_matmul(g, x, b->sides[1].q) : x;
}

static weft_value *turn_back(weft_graph *g, const basis *b, weft_value *x) {
    if (b->sides[0].q) x = weft_matmul(g, b->sides[0].q, x);
    return b->sides[1].q ? weft_matmul(g, x, weft_optim_transposed(g, b->sides[1].q)) : x;
}

/* results: v, then q of each turned side. */
static void keep(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const basis *b = self;
    (void)g, (void)arguments;
    *results++ = b->v;
    for (int i = 0; i < 2; i++)
        if (b->sides[i].q) *results++ = b->sides[i].q;
}

static void make(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const basis *b = self;
    (void)arguments;
    *results++ = b->v;
    for (int i = 0; i < 2; i++) {
        weft_value *values, *vectors;
        if (!b->sides[i].q) continue;
        weft_eigh(g, b->sides[i].factor, &values, &vectors);
        *results++ = weft_reverse(g, vectors, 1, (int64_t[]){1}); /* they come smallest first */
    }
}

/* Columns by their estimated eigenvalues, then one step of power iteration. */
static void improve(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const basis *b = self;
    weft_value *v = b->v, **q_results = results + 1;
    (void)arguments;
    for (int i = 0; i < 2; i++) {
        weft_value *q = b->sides[i].q, *values, *places, *rest, *mapped;
        if (!q) continue;
        mapped = weft_matmul(g, b->sides[i].factor, q);
        weft_value *estimate = weft_reduce_sum(g, weft_mul(g, q, mapped), 1, (int64_t[]){0}, false);
        weft_top_k(g, estimate, weft_value_dim(q, 0), 0, true, &values, &places);
        v = weft_take(g, v, places, i);
        weft_qr(g, weft_take(g, mapped, places, 1), q_results++, &rest);
    }
    results[0] = v;
}

static void improve_when_due(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const basis *b = self;
    (void)arguments;
    weft_cond(g, b->due, improve, keep, self, 1 + (b->sides[0].q != NULL) + (b->sides[1].q != NULL), results);
}

static const char *const factor_names[2] = {"left", "right"}, *const vector_names[2] = {"left_vectors",
                                                                                        "right_vectors"};

static void read_sides(basis *b, weft_value *gradient) {
    weft_graph *g = b->pass->g;
    for (int i = 0; i < 2; i++) {
        weft_dim n = weft_value_dim(gradient, i);
        if (b->pass->o->size_max > 0 && n > b->pass->o->size_max) continue;
        weft_value *turned = weft_optim_transposed(g, gradient);
        weft_value *square = i ? weft_matmul(g, turned, gradient) : weft_matmul(g, gradient, turned);
        b->sides[i].factor = weft_optim_average(
            g, weft_optim_shaped_state(b->pass, factor_names[i], 2, (int64_t[]){n, n}), square, b->pass->o->beta3);
        b->sides[i].q = weft_optim_shaped_state(b->pass, vector_names[i], 2, (int64_t[]){n, n});
        weft_optim_state_set(b->pass, factor_names[i], b->sides[i].factor);
    }
}

static void write_sides(basis *b, weft_value *first) {
    weft_graph *g = b->pass->g;
    const weft_optim_options *o = b->pass->o;
    weft_value *t = weft_sub(g, o->step, weft_scalar_integer(g, WEFT_I64, 1)), *results[3];
    weft_value *phase = weft_rem(g, t, weft_scalar_integer(g, WEFT_I64, o->period > 0 ? o->period : 1));
    b->due = weft_compare(g, WEFT_EQ, phase, weft_scalar_integer(g, WEFT_I64, 0));
    int count = 1 + (b->sides[0].q != NULL) + (b->sides[1].q != NULL), at = 1;
    if (count == 1)
        results[0] = b->v;
    else
        weft_cond(g, first, make, improve_when_due, b, count, results);
    for (int i = 0; i < 2; i++)
        if (b->sides[i].q) weft_optim_state_set(b->pass, vector_names[i], results[at++]);
    weft_dim shape[WEFT_MAX_RANK];
    int rank = weft_optim_shape(b->pass, shape);
    weft_optim_state_set(b->pass, "v", weft_reshape(g, results[0], rank, shape));
}

void weft_optim_soap(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    const weft_optim_options *o = pass->o;
    weft_dim shape[WEFT_MAX_RANK];
    int rank = weft_optim_shape(pass, shape);
    bool matrix = rank > 1;
    weft_value *gradient = weft_optim_gradient(pass), *m = weft_optim_state(pass, "m", false),
               *v = weft_optim_state(pass, "v", false);
    weft_value *first = weft_compare(g, WEFT_EQ, o->step, weft_scalar_integer(g, WEFT_I64, 1));
    if (matrix) gradient = weft_flatten(g, gradient, 1), m = weft_flatten(g, m, 1), v = weft_flatten(g, v, 1);
    basis b = {.pass = pass};
    if (matrix) read_sides(&b, gradient);
    m = weft_where(g, first, m, weft_optim_average(g, m, gradient, o->beta1));
    b.v = weft_where(g, first, v, weft_optim_average(g, v, weft_square(g, turn(g, &b, gradient)), o->beta2));
    weft_optim_state_set(pass, "m", weft_reshape(g, m, rank, shape));
    weft_value *root = weft_add_number(g, weft_sqrt(g, b.v), o->epsilon);
    weft_value *direction = weft_reshape(g, turn_back(g, &b, weft_div(g, turn(g, &b, m), root)), rank, shape);
    /* t = step - 1 counts from the second call on */
    weft_value *late = weft_max(g, weft_add_number(g, pass->step, -1), weft_scalar(g, pass->dtype, 1));
    weft_value *moved = weft_optim_stepped(pass, late, direction);
    write_sides(&b, first);
    weft_optim_finish(pass, weft_where(g, first, pass->p->value, moved));
}
