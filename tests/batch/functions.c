/* Functions: axes, nesting, chunks, randomness, transforms of transforms; interpreted and compiled. */
#include "tests/batch/testing.h"

#include "base/tensor.h"

static weft_graph *new_graph(const char *name) {
    weft_graph *g;
    expect(weft_graph_create(test_context, name, &g), name);
    return g;
}

/* tanh(x w) summed: x [3], w [3, 4] -> scalar */
static void network(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    (void)self;
    weft_value *row = weft_reshape(g, x[0], 2, (weft_dim[]){1, 3});
    weft_value *h = weft_tanh(g, weft_matmul(g, row, x[1]));
    results[0] = weft_reduce_sum(g, weft_mul(g, h, weft_exp(g, h)), 0, NULL, false);
}

/* Axis 1 of x [3, B], w not in the batch; the result's axis is the only one. */
START_TEST(axes) {
    weft_graph *g = new_graph("axes");
    weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F64, 2, (weft_dim[]){3, 5}),
                         weft_graph_input(g, "w", WEFT_F64, 2, (weft_dim[]){3, 4})};
    weft_value *y, *z, *one, *column = weft_slice_axis(g, in[0], 1, 2, 3);
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    o.in_axes = (int[]){-1, WEFT_VMAP_NONE};
    weft_vmap(g, &o, network, NULL, 2, in, 1, &y);
    network(NULL, g, (weft_value *[]){weft_reshape(g, column, 1, (weft_dim[]){3}), in[1]}, &one);
    /* a matrix of results: element [i] of the batch is w scaled by x's column, batch axis last */
    weft_value *element = weft_placeholder(g, WEFT_F64, 1, (weft_dim[]){3});
    weft_value *scaled = weft_mul(g, in[1], weft_reshape(g, element, 2, (weft_dim[]){3, 1}));
    o.out_axes = (int[]){2};
    weft_vmap_values(g, &o, 1, &scaled, 1, &element, in, &z);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "one", one);
    weft_graph_output(g, "z", z);
    weft_tensor *x[2] = {random_tensor(WEFT_F64, 2, (int64_t[]){3, 5}, -1, 1),
                         random_tensor(WEFT_F64, 2, (int64_t[]){3, 4}, -1, 1)},
                *out[3];
    run_both_ways(g, 2, x, 3, out, "axes");
    ck_assert_int_eq(out[0]->rank, 1);
    ck_assert_double_eq_tol(((double *)out[0]->data)[2], ((double *)out[1]->data)[0], 1e-12);
    ck_assert_int_eq(out[2]->shape[2], 5);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            for (int b = 0; b < 5; b++)
                ck_assert_double_eq_tol(((double *)out[2]->data)[(i * 4 + j) * 5 + b],
                                        ((double *)x[1]->data)[i * 4 + j] * ((double *)x[0]->data)[i * 5 + b], 1e-12);
    release_all(3, out), release_all(2, x);
    weft_graph_release(g);
}
END_TEST

/* x - y for scalars: nested twice it is the table of all differences. */
static void difference(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    (void)self;
    results[0] = weft_sub(g, x[0], x[1]);
}
static void over_second(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    o.in_axes = (int[]){WEFT_VMAP_NONE, 0};
    weft_vmap(g, &o, difference, self, 2, x, 1, results);
}
START_TEST(nested) {
    weft_graph *g = new_graph("nested");
    weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){4}),
                         weft_graph_input(g, "y", WEFT_F32, 1, (weft_dim[]){6})},
               *table;
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    o.in_axes = (int[]){0, WEFT_VMAP_NONE};
    weft_vmap(g, &o, over_second, NULL, 2, in, 1, &table);
    weft_graph_output(g, "table", table);
    weft_tensor *x[2] = {random_tensor(WEFT_F32, 1, (int64_t[]){4}, -1, 1),
                         random_tensor(WEFT_F32, 1, (int64_t[]){6}, -1, 1)},
                *out[1];
    run_both_ways(g, 2, x, 1, out, "nested");
    ck_assert(out[0]->rank == 2 && out[0]->shape[0] == 4 && out[0]->shape[1] == 6);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 6; j++)
            ck_assert_float_eq(((float *)out[0]->data)[i * 6 + j], ((float *)x[0]->data)[i] - ((float *)x[1]->data)[j]);
    release_all(1, out), release_all(2, x);
    weft_graph_release(g);
}
END_TEST

/* The gradient of the network with respect to w, for one sample. */
static void sample_gradient(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    weft_value *loss;
    network(self, g, x, &loss);
    weft_gradient(g, loss, NULL, 1, &x[1], results);
}
/* vmap of a gradient: each sample's own; their sum is the gradient of the summed losses, which is a gradient of a vmap.
 */
START_TEST(per_sample_gradients) {
    weft_graph *g = new_graph("per sample");
    weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F64, 2, (weft_dim[]){5, 3}),
                         weft_graph_input(g, "w", WEFT_F64, 2, (weft_dim[]){3, 4})};
    weft_value *each, *losses, *whole, *one;
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    o.in_axes = (int[]){0, WEFT_VMAP_NONE};
    weft_vmap(g, &o, sample_gradient, NULL, 2, in, 1, &each);
    weft_vmap(g, &o, network, NULL, 2, in, 1, &losses);
    weft_gradient(g, losses, NULL, 1, &in[1], &whole);
    weft_value *row = weft_reshape(g, weft_slice_axis(g, in[0], 0, 3, 4), 1, (weft_dim[]){3});
    sample_gradient(NULL, g, (weft_value *[]){row, in[1]}, &one);
    weft_graph_output(g, "sum", weft_reduce_sum(g, each, 1, (int64_t[]){0}, false));
    weft_graph_output(g, "whole", whole);
    weft_graph_output(g, "third", weft_reshape(g, weft_slice_axis(g, each, 0, 3, 4), 2, (weft_dim[]){3, 4}));
    weft_graph_output(g, "one", one);
    weft_tensor *x[2] = {random_tensor(WEFT_F64, 2, (int64_t[]){5, 3}, -1, 1),
                         random_tensor(WEFT_F64, 2, (int64_t[]){3, 4}, -1, 1)},
                *out[4];
    run_both_ways(g, 2, x, 4, out, "per sample");
    compare(out[0], out[1], 1e-12, "sum of per-sample gradients");
    compare(out[2], out[3], 1e-12, "one sample's gradient");
    release_all(4, out), release_all(2, x);
    weft_graph_release(g);
}
END_TEST

/* In chunks of 3: 9 elements whole, 11 with a rest, 2 without a whole chunk. */
START_TEST(chunks) {
    const int64_t lengths[3] = {9, 11, 2}, n = lengths[_i];
    weft_graph *g = new_graph("chunks");
    weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F64, 2, (weft_dim[]){n, 3}),
                         weft_graph_input(g, "w", WEFT_F64, 2, (weft_dim[]){3, 4})},
               *whole, *cut;
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    o.in_axes = (int[]){0, WEFT_VMAP_NONE};
    weft_vmap(g, &o, sample_gradient, NULL, 2, in, 1, &whole);
    o.chunk_size = 3;
    weft_vmap(g, &o, sample_gradient, NULL, 2, in, 1, &cut);
    weft_graph_output(g, "whole", whole);
    weft_graph_output(g, "cut", cut);
    weft_tensor *x[2] = {random_tensor(WEFT_F64, 2, (int64_t[]){n, 3}, -1, 1),
                         random_tensor(WEFT_F64, 2, (int64_t[]){3, 4}, -1, 1)},
                *out[2];
    run_both_ways(g, 2, x, 2, out, "chunks");
    compare(out[0], out[1], 1e-12, "chunks");
    release_all(2, out), release_all(2, x);
    weft_graph_release(g);
}
END_TEST

static void noise(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    weft_value *bits = weft_rng_bits(g, self ? self : x[1], WEFT_U32, 1, (weft_dim[]){2});
    results[0] = weft_add(
        g, x[0], weft_convert(g, weft_shift_right_logical(g, bits, weft_scalar_integer(g, WEFT_U32, 8)), WEFT_F64));
}
static bool rows_equal(const weft_tensor *t) {
    const double *x = t->data;
    return x[0] == x[2] && x[1] == x[3];
}
START_TEST(randomness) {
    weft_graph *g = new_graph("randomness");
    weft_value *key = weft_graph_input(g, "key", WEFT_U64, 1, (weft_dim[]){2});
    weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F64, 2, (weft_dim[]){3, 2}),
                         weft_graph_input(g, "keys", WEFT_U64, 2, (weft_dim[]){3, 2})},
               *same, *different, *own;
    weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
    o.randomness = WEFT_VMAP_SAME;
    weft_vmap(g, &o, noise, key, 1, in, 1, &same);
    o.randomness = WEFT_VMAP_DIFFERENT;
    weft_vmap(g, &o, noise, key, 1, in, 1, &different);
    o.randomness = WEFT_VMAP_ERROR;
    weft_vmap(g, &o, noise, NULL, 2, in, 1, &own);
    weft_graph_output(g, "same", same);
    weft_graph_output(g, "different", different);
    weft_graph_output(g, "own", own);
    weft_tensor *x[3] = {random_tensor(WEFT_U64, 1, (int64_t[]){2}, 0, 1),
                         random_tensor(WEFT_F64, 2, (int64_t[]){3, 2}, 0, 0),
                         random_tensor(WEFT_U64, 2, (int64_t[]){3, 2}, 0, 1)},
                *out[3];
    for (int i = 0; i < 6; i++) ((uint64_t *)x[2]->data)[i] = (uint64_t)(i < 4 ? i % 2 : i);
    run_both_ways(g, 3, x, 3, out, "randomness");
    ck_assert(rows_equal(out[0]));
    ck_assert(!rows_equal(out[1]));
    ck_assert_msg(rows_equal(out[2]), "elements 0 and 1 have one key");
    ck_assert(((double *)out[2]->data)[0] != ((double *)out[2]->data)[4]);
    release_all(3, out), release_all(3, x);
    weft_vmap(g, &o, noise, key, 1, in, 1, &same);
    weft_status status = weft_graph_verify(g);
    ck_assert_msg(status != NULL, "one key for the batch is a problem unless asked for");
    weft_status_release(status);
    weft_graph_release(g);
}
END_TEST

/* Both Jacobians and the Hessian against each other and against products with vectors. */
START_TEST(jacobians) {
    weft_graph *g = new_graph("jacobians");
    weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){3}),
                         weft_graph_input(g, "w", WEFT_F64, 2, (weft_dim[]){3, 4})};
    weft_value *v = weft_graph_input(g, "v", WEFT_F64, 2, (weft_dim[]){3, 4});
    weft_value *row = weft_reshape(g, in[0], 2, (weft_dim[]){1, 3});
    weft_value *y = weft_softmax(g, weft_square(g, weft_matmul(g, row, in[1])), 1), *loss, *hv, *vh;
    network(NULL, g, in, &loss);
    weft_hvp(g, loss, 1, &in[1], &v, &hv);
    weft_vhp(g, loss, 1, &in[1], &v, &vh);
    weft_value *hessian = weft_hessian(g, loss, in[1]), *gradient;
    weft_gradient(g, loss, NULL, 1, &in[1], &gradient);
    weft_value *flat = weft_reshape(g, hessian, 2, (weft_dim[]){12, 12}),
               *column = weft_reshape(g, v, 2, (weft_dim[]){12, 1});
    weft_graph_output(g, "forward", weft_jacobian_forward(g, y, in[1]));
    weft_graph_output(g, "reverse", weft_jacobian_reverse(g, y, in[1]));
    weft_graph_output(g, "hessian", hessian);
    weft_graph_output(g, "hessian by rows", weft_jacobian_reverse(g, gradient, in[1]));
    weft_graph_output(g, "hvp", hv);
    weft_graph_output(g, "vhp", vh);
    weft_graph_output(g, "Hv", weft_reshape(g, weft_matmul(g, flat, column), 2, (weft_dim[]){3, 4}));
    weft_tensor *x[3] = {random_tensor(WEFT_F64, 1, (int64_t[]){3}, -1, 1),
                         random_tensor(WEFT_F64, 2, (int64_t[]){3, 4}, -1, 1),
                         random_tensor(WEFT_F64, 2, (int64_t[]){3, 4}, -1, 1)},
                *out[7];
    run_both_ways(g, 3, x, 7, out, "jacobians");
    ck_assert(out[0]->rank == 4 && out[2]->rank == 4);
    compare(out[0], out[1], 1e-12, "Jacobians");
    compare(out[2], out[3], 1e-12, "Hessians");
    compare(out[4], out[5], 1e-12, "hvp and vhp");
    compare(out[4], out[6], 1e-12, "hvp and the Hessian");
    release_all(7, out), release_all(3, x);
    weft_graph_release(g);
}
END_TEST

/* Extents that nobody declared: a batch, a Jacobian and a Hessian of symbolic size. */
START_TEST(symbolic) {
    weft_graph *g = new_graph("symbolic");
    weft_value *x = weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){WEFT_DIM_ANY});
    weft_value *y = weft_mul(g, weft_sin(g, x), weft_reverse(g, x, 1, (int64_t[]){0}));
    weft_graph_output(g, "forward", weft_jacobian_forward(g, y, x));
    weft_graph_output(g, "reverse", weft_jacobian_reverse(g, y, x));
    weft_graph_output(g, "hessian", weft_hessian(g, weft_reduce_sum(g, weft_exp(g, x), 0, NULL, false), x));
    weft_graph_output(g, "exp", weft_exp(g, x));
    weft_tensor *in = random_tensor(WEFT_F64, 1, (int64_t[]){5}, -1, 1), *out[4];
    run_both_ways(g, 1, &in, 4, out, "symbolic");
    compare(out[0], out[1], 1e-12, "Jacobians");
    ck_assert(out[0]->shape[0] == 5 && out[0]->shape[1] == 5);
    for (int i = 0; i < 25; i++)
        ck_assert_double_eq_tol(((double *)out[2]->data)[i], i % 6 ? 0 : ((double *)out[3]->data)[i / 6], 1e-12);
    release_all(4, out), release_all(1, &in);
    weft_graph_release(g);
}
END_TEST

/* x -> x after its own number of halvings until below 1: the batch's loops end at different trips. */
static void loop_more(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    (void)self;
    results[0] = weft_compare(g, WEFT_GT, x[0], weft_scalar(g, WEFT_F64, 1));
}
static void loop_body(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    (void)self;
    results[0] = weft_mul_number(g, x[0], 0.5);
    results[1] = weft_add(g, x[1], weft_scalar_integer(g, WEFT_I64, 1));
}
static void halvings(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    weft_value *start[2] = {x[0], weft_scalar_integer(g, WEFT_I64, 0)};
    weft_while(g, 2, start, -1, loop_more, loop_body, self, results);
}
START_TEST(loops) {
    weft_graph *g = new_graph("loops");
    weft_value *x = weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){WEFT_DIM_ANY}), *y[2];
    weft_vmap(g, NULL, halvings, NULL, 1, &x, 2, y);
    weft_graph_output(g, "y", y[0]);
    weft_graph_output(g, "trips", y[1]);
    const double start[5] = {0.3, 1.5, 40, 1e6, 2}, end[5] = {0.3, 0.75, 0.625, 0.95367431640625, 1};
    const int64_t trips[5] = {0, 1, 6, 20, 1};
    weft_tensor *in = random_tensor(WEFT_F64, 1, (int64_t[]){5}, 0, 1), *out[2];
    for (int i = 0; i < 5; i++) ((double *)in->data)[i] = start[i];
    run_both_ways(g, 1, &in, 2, out, "loops");
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq(((double *)out[0]->data)[i], end[i]);
        ck_assert_int_eq(((int64_t *)out[1]->data)[i], trips[i]);
    }
    release_all(2, out), release_all(1, &in);
    weft_graph_release(g);
}
END_TEST

/* Lengths that differ, an axis that is not there, a body that gives nothing: problems, not crashes. */
static void nothing(void *self, weft_graph *g, weft_value *const *x, weft_value **results) {
    (void)self, (void)g, (void)x, (void)results;
}
START_TEST(mistakes) {
    for (int kind = 0; kind < 4; kind++) {
        weft_graph *g = new_graph("mistakes");
        weft_value *in[2] = {weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){4}),
                             weft_graph_input(g, "y", WEFT_F64, 1, (weft_dim[]){kind == 0 ? 5 : 4})},
                   *y;
        int wanted[4][2] = {{0, 0}, {1, 0}, {0, 0}, {WEFT_VMAP_NONE, WEFT_VMAP_NONE}};
        weft_vmap_options o = WEFT_VMAP_OPTIONS_INIT;
        o.in_axes = wanted[kind];
        weft_vmap(g, &o, kind == 2 ? nothing : difference, NULL, 2, in, 1, &y);
        weft_graph_output(g, "y", y);
        weft_status status = weft_graph_verify(g);
        ck_assert_msg(status != NULL, "mistake %d went through", kind);
        weft_status_release(status);
        weft_graph_release(g);
    }
}
END_TEST

TCase *case_functions(void) {
    TCase *c = tcase_create("functions");
    tcase_add_test(c, axes);
    tcase_add_test(c, nested);
    tcase_add_test(c, per_sample_gradients);
    tcase_add_loop_test(c, chunks, 0, 3);
    tcase_add_test(c, randomness);
    tcase_add_test(c, jacobians);
    tcase_add_test(c, symbolic);
    tcase_add_test(c, loops);
    tcase_add_test(c, mistakes);
    return c;
}
