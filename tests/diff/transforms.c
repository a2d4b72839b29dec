/* Transforms beside jvp and gradient: calls at other arguments, linear functions and their transposes, products with
   Hessians, rules of one's own, states, loops without a bound. */
#include "tests/diff/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/build.h"

static weft_context *context;
static weft_graph *g;

static void set_up(void) {
    expect(weft_context_create(NULL, &context), "context");
    expect(weft_graph_create(context, "transforms", &g), "graph");
}
static void tear_down(void) {
    weft_graph_release(g);
    weft_context_release(context);
}

static weft_value *input(const char *name, int64_t extent) {
    return weft_graph_input(g, name, WEFT_F64, 1, (weft_dim[]){extent});
}
static weft_value *sum(weft_value *x) { return weft_reduce_sum(g, x, 0, NULL, false); }

static void run(int input_count, weft_tensor **in, int output_count, weft_tensor **out, const char *name) {
    memset(out, 0, (size_t)output_count * sizeof *out);
    expect(weft_graph_verify(g), name);
    expect(weft_graph_interpret(g, input_count, in, output_count, out), name);
    compare_compiled(g, input_count, in, output_count, out, 1e-9, name);
}
static void near(weft_tensor *a, weft_tensor *b, const char *name) {
    ck_assert_int_eq(weft_tensor_element_count(a), weft_tensor_element_count(b));
    for (int64_t i = 0; i < weft_tensor_element_count(a); i++)
        ck_assert_msg(fabs(elements(a)[i] - elements(b)[i]) <= 1e-12 * (1 + fabs(elements(b)[i])),
                      "%s: %.15g, not %.15g", name, elements(a)[i], elements(b)[i]);
}
static void release(int count, weft_tensor **tensors) {
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]);
}
static void expect_problem(const char *words) {
    weft_status status = weft_graph_verify(g);
    char text[2000];
    ck_assert_msg(status != NULL, "no problem was recorded: %s", words);
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, words) != NULL, "the problem does not say \"%s\": %s", words, text);
    weft_status_release(status);
}

/* f(x) at x and at another place; its derivative as a function, called twice and transposed. */
START_TEST(linear_functions) {
    weft_value *x = input("x", 4), *a = input("a", 4), *b = input("b", 4), *u = input("u", 4);
    weft_value *y = weft_mul(g, weft_tanh(g, x), weft_reverse(g, x, 1, (int64_t[]){0})), *z, *t, *dy, *da, *db, *back;
    weft_apply(g, 1, &y, 1, &x, &a, &z);
    weft_linearize(g, 1, &y, 1, &x, &t, &dy);
    weft_apply(g, 1, &dy, 1, &t, &a, &da);
    weft_apply(g, 1, &dy, 1, &t, &b, &db);
    weft_linear_transpose(g, 1, &dy, &u, 1, &t, &back);
    weft_value *gradient;
    weft_gradient(g, y, u, 1, &x, &gradient);
    weft_value *outputs[] = {z,    weft_mul(g, weft_tanh(g, a), weft_reverse(g, a, 1, (int64_t[]){0})),
                             da,   weft_jvp(g, y, 1, &x, &a),
                             db,   weft_jvp(g, y, 1, &x, &b),
                             back, gradient};
    static const char *const names[8] = {"z", "z2", "da", "da2", "db", "db2", "back", "gradient"};
    for (int i = 0; i < 8; i++) weft_graph_output(g, names[i], outputs[i]);
    weft_tensor *in[4], *out[8];
    for (int i = 0; i < 4; i++) in[i] = random_tensor(context, 1, (int64_t[]){4}, -1, 1);
    run(4, in, 8, out, "linear functions");
    for (int i = 0; i < 8; i += 2) near(out[i], out[i + 1], names[i]);
    release(8, out), release(4, in);
}
END_TEST

START_TEST(not_linear) {
    weft_value *x = input("x", 4), *y = weft_square(g, x), *back, *u = input("u", 4);
    weft_linear_transpose(g, 1, &y, &u, 1, &x, &back);
    weft_graph_output(g, "back", back);
    expect_problem("not linear");
}
END_TEST

/* Several values, one of them twice among the inputs. */
START_TEST(many_values) {
    weft_value *x = input("x", 3), *y[2] = {weft_sin(g, x), weft_exp(g, x)}, *u[2] = {input("u", 3), input("v", 3)};
    weft_value *both[2], *t[2];
    weft_vjp(g, 2, y, u, 2, (weft_value *[]){x, x}, both);
    weft_jvp_many(g, 2, y, 1, &x, &u[0], t);
    weft_graph_output(g, "both", both[0]);
    weft_graph_output(g, "again", both[1]);
    weft_graph_output(g, "expected", weft_add(g, weft_mul(g, u[0], weft_cos(g, x)), weft_mul(g, u[1], y[1])));
    weft_graph_output(g, "t", t[1]);
    weft_graph_output(g, "expected t", weft_mul(g, u[0], y[1]));
    weft_tensor *in[3], *out[5];
    for (int i = 0; i < 3; i++) in[i] = random_tensor(context, 1, (int64_t[]){3}, -1, 1);
    run(3, in, 5, out, "many values");
    near(out[0], out[2], "vjp"), near(out[1], out[2], "vjp, second time"), near(out[3], out[4], "jvp");
    release(5, out), release(3, in);
}
END_TEST

/* Hv = vH, against the formula: f = sum(exp(x)^2 x), over two inputs. */
START_TEST(second_order) {
    weft_value *x[2] = {input("x", 3), input("y", 3)}, *v[2] = {input("v", 3), input("w", 3)}, *hv[2], *vh[2];
    weft_value *f = sum(weft_mul(g, weft_exp(g, x[0]), weft_square(g, x[1])));
    weft_hvp(g, f, 2, x, v, hv);
    weft_vhp(g, f, 2, x, v, vh);
    weft_value *e = weft_exp(g, x[0]), *cross = weft_mul_number(g, weft_mul(g, e, x[1]), 2);
    weft_value *expected[2] = {
        weft_add(g, weft_mul(g, weft_mul(g, e, weft_square(g, x[1])), v[0]), weft_mul(g, cross, v[1])),
        weft_add(g, weft_mul(g, cross, v[0]), weft_mul(g, weft_mul_number(g, e, 2), v[1]))};
    static const char *const names[3][2] = {{"hv0", "hv1"}, {"vh0", "vh1"}, {"e0", "e1"}};
    for (int i = 0; i < 2; i++) weft_graph_output(g, names[0][i], hv[i]);
    for (int i = 0; i < 2; i++) weft_graph_output(g, names[1][i], vh[i]);
    for (int i = 0; i < 2; i++) weft_graph_output(g, names[2][i], expected[i]);
    weft_tensor *in[4], *out[6];
    for (int i = 0; i < 4; i++) in[i] = random_tensor(context, 1, (int64_t[]){3}, -1, 1);
    run(4, in, 6, out, "second order");
    for (int i = 0; i < 4; i++) near(out[i], out[4 + i % 2], "Hessian product");
    release(6, out), release(4, in);
}
END_TEST

START_TEST(stopped) {
    weft_value *x = input("x", 3), *y = sum(weft_mul(g, x, weft_stop_gradient(g, weft_exp(g, x)))), *gradient;
    weft_gradient(g, y, NULL, 1, &x, &gradient);
    weft_graph_output(g, "gradient", gradient);
    weft_graph_output(g, "expected", weft_exp(g, x));
    weft_tensor *in[1] = {random_tensor(context, 1, (int64_t[]){3}, -1, 1)}, *out[2];
    run(1, in, 2, out, "stop_gradient");
    near(out[0], out[1], "stop_gradient");
    release(2, out), release(1, in);
}
END_TEST

/* round(x) k, k an integer input: forward rule = identity in x (straight through). */
static void rounded(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_mul(graph, weft_round(graph, a[0]), weft_convert(graph, a[1], WEFT_F64));
    results[1] = a[1];
}
static void straight_through(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self; /* x, k, tangent of x */
    results[0] = weft_mul(graph, a[2], weft_convert(graph, a[1], WEFT_F64));
}
START_TEST(forward_rule) {
    weft_value *x = input("x", 3), *k = weft_integers(g, 3, (int64_t[]){2, 3, 4}), *y[2], *gradient;
    weft_custom_jvp(g, 2, (weft_value *[]){x, k}, rounded, straight_through, NULL, 2, y);
    weft_gradient(g, sum(weft_square(g, y[0])), NULL, 1, &x, &gradient);
    weft_graph_output(g, "gradient", gradient);
    weft_graph_output(g, "expected", weft_mul(g, weft_mul_number(g, y[0], 2), weft_convert(g, k, WEFT_F64)));
    weft_graph_output(g, "jvp", weft_jvp(g, y[0], 1, &x, &x));
    weft_graph_output(g, "expected jvp", weft_mul(g, x, weft_convert(g, k, WEFT_F64)));
    weft_tensor *in[1] = {random_tensor(context, 1, (int64_t[]){3}, -3, 3)}, *out[4];
    run(1, in, 4, out, "forward rule");
    near(out[0], out[1], "gradient"), near(out[2], out[3], "jvp");
    release(4, out), release(1, in);
}
END_TEST

/* The identity whose gradient is clipped to [-1, 1] and scaled by the function's own result. */
static void identity(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_mul_number(graph, a[0], 1);
}
static void clipped(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self; /* x, y, cotangent of y */
    results[0] = weft_mul(graph, weft_clip(graph, a[2], -1, 1), a[1]);
}
/* Also as a batch, and differentiated again through the rule itself. */
START_TEST(reverse_rule) {
    weft_value *x = input("x", 4), *y, *gradient, *batch, *second;
    weft_custom_vjp(g, 1, &x, identity, clipped, NULL, 1, &y);
    weft_gradient(g, sum(weft_mul(g, weft_square(g, y), weft_square(g, y))), NULL, 1, &x, &gradient);
    weft_value *cube = weft_mul_number(g, weft_mul(g, x, weft_square(g, x)), 4);
    weft_value *expected = weft_mul(g, weft_clip(g, cube, -1, 1), x);
    /* rows of a batch, each by itself */
    weft_value *rows = weft_graph_input(g, "rows", WEFT_F64, 2, (weft_dim[]){2, 4});
    weft_vmap_values(g, NULL, 1, &gradient, 1, &x, &rows, &batch);
    weft_value *batched_function, *of_batch;
    weft_value *losses = weft_mul(g, weft_square(g, y), weft_square(g, y));
    weft_vmap_values(g, NULL, 1, &losses, 1, &x, &rows, &batched_function);
    weft_gradient(g, batched_function, NULL, 1, &rows, &of_batch);
    /* y c with the rule (clip(c) y): its derivative in x where nothing is clipped is 16 x^3 */
    weft_gradient(g, sum(gradient), NULL, 1, &x, &second);
    weft_graph_output(g, "gradient", gradient);
    weft_graph_output(g, "expected", expected);
    weft_graph_output(g, "batch", batch);
    weft_graph_output(g, "of batch", of_batch);
    weft_graph_output(g, "second", second);
    weft_tensor *in[2] = {random_tensor(context, 1, (int64_t[]){4}, -1, 1),
                          random_tensor(context, 2, (int64_t[]){2, 4}, -1, 1)},
                *out[5];
    elements(in[0])[0] = 0.9, elements(in[0])[1] = 0.3;
    run(2, in, 5, out, "reverse rule");
    near(out[0], out[1], "gradient"), near(out[2], out[3], "batches");
    ck_assert_double_eq_tol(elements(out[0])[0], 0.9, 1e-12);
    /* unclipped: d/dx of 4 x^4 where the residual y of the rule is x itself: through y's own rule, clipped to 1 */
    ck_assert(isfinite(elements(out[4])[1]) && elements(out[4])[1] != 0);
    release(5, out), release(2, in);
}
END_TEST

static void uses_outside(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    results[0] = weft_mul(graph, a[0], self);
}
START_TEST(rule_mistakes) {
    weft_value *x = input("x", 3), *y, *gradient;
    weft_custom_vjp(g, 1, &x, uses_outside, clipped, x, 1, &y);
    weft_gradient(g, sum(y), NULL, 1, &x, &gradient);
    expect_problem("not one of its arguments");
}
END_TEST

/* The gradient with respect to a state at entry; a read after an update depends on what was put there. */
START_TEST(states) {
    weft_type type = weft_type_make(g, WEFT_F64, 1, (weft_dim[]){3});
    weft_graph_add_state(g, "s", &type, NULL);
    weft_value *x = input("x", 3), *before = weft_state_read(g, "s"), *gradients[2];
    weft_state_update(g, "s", weft_add(g, weft_sin(g, x), weft_mul(g, before, x)));
    weft_value *after = weft_state_read(g, "s");
    weft_gradient(g, sum(weft_square(g, after)), NULL, 2, (weft_value *[]){x, before}, gradients);
    weft_value *twice = weft_mul_number(g, after, 2);
    weft_graph_output(g, "gradient", gradients[0]);
    weft_graph_output(g, "expected", weft_mul(g, twice, weft_add(g, weft_cos(g, x), before)));
    weft_graph_output(g, "state gradient", gradients[1]);
    weft_graph_output(g, "expected state gradient", weft_mul(g, twice, x));
    weft_tensor *in[1] = {random_tensor(context, 1, (int64_t[]){3}, 0.5, 1)}, *out[4];
    run(1, in, 4, out, "states");
    near(out[0], out[1], "gradient"), near(out[2], out[3], "gradient of a state");
    ck_assert(elements(out[0])[0] != 0);
    release(4, out), release(1, in);
}
END_TEST

static void updating(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self;
    weft_state_update(graph, "s", a[0]);
    results[0] = weft_mul(graph, a[0], a[0]);
}
START_TEST(state_in_loop) {
    weft_type type = weft_type_make(g, WEFT_F64, 1, (weft_dim[]){3});
    weft_graph_add_state(g, "s", &type, NULL);
    weft_value *x = input("x", 3), *y, *gradient;
    weft_scan(g, 1, &x, 0, NULL, 2, false, updating, NULL, 0, &y);
    weft_gradient(g, sum(weft_state_read(g, "s")), NULL, 1, &x, &gradient);
    expect_problem("carry it as a value");
}
END_TEST

/* Copies of a region would update a state twice, or read what it became since: gradients, calls and batches say so. A
   read of a state that never changes is fine. */
static void reading(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_mul(graph, a[0], weft_state_read(graph, "s"));
}
START_TEST(states_in_regions) {
    weft_type type = weft_type_make(g, WEFT_F64, 1, (weft_dim[]){3});
    weft_graph_add_state(g, "s", &type, NULL);
    weft_value *x = input("x", 3), *rows = weft_graph_input(g, "rows", WEFT_F64, 2, (weft_dim[]){2, 3}), *y, *z;
    if (_i == 1) weft_state_update(g, "s", x);
    weft_scan(g, 1, &x, 0, NULL, 2, false, _i < 2 ? reading : updating, NULL, 0, &y);
    if (_i == 3)
        weft_vmap_values(g, NULL, 1, &y, 1, &x, &rows, &z);
    else if (_i == 4)
        weft_apply(g, 1, &y, 1, &x, (weft_value *[]){weft_sin(g, x)}, &z);
    else if (_i == 5)
        weft_vmap(g, NULL, updating, NULL, 1, &rows, 1, &z);
    else
        weft_gradient(g, y, NULL, 1, &x, &z);
    weft_graph_output(g, "z", z);
    if (_i == 0)
        expect(weft_graph_verify(g), "a state that does not change");
    else
        expect_problem("state");
}
END_TEST

/* while without a bound: forward against differences; reverse says what is missing. */
static void more(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] =
        weft_compare(graph, WEFT_GT, weft_reduce_sum(graph, a[0], 0, NULL, false), weft_scalar(graph, WEFT_F64, 1));
}
static void halve(void *self, weft_graph *graph, weft_value *const *a, weft_value **results) {
    results[0] = weft_mul(graph, weft_mul_number(graph, weft_sin(graph, a[0]), 0.5), self);
}
START_TEST(unbounded_while) {
    weft_value *x = input("x", 3), *w = input("w", 3), *y, *gradient;
    weft_while(g, 1, &x, -1, more, halve, w, &y);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "t", weft_jvp(g, y, 2, (weft_value *[]){x, w}, (weft_value *[]){w, x}));
    weft_tensor *in[2] = {random_tensor(context, 1, (int64_t[]){3}, 0.8, 1.5),
                          random_tensor(context, 1, (int64_t[]){3}, 0.8, 1.5)},
                *out[2], *up[2], *down[2], *moved[2];
    run(2, in, 2, out, "unbounded while");
    const double h = 1e-6;
    for (int side = 0; side < 2; side++) {
        for (int k = 0; k < 2; k++) {
            moved[k] = random_tensor(context, 1, (int64_t[]){3}, 0, 0);
            for (int i = 0; i < 3; i++)
                elements(moved[k])[i] = elements(in[k])[i] + (side ? -h : h) * elements(in[1 - k])[i];
        }
        weft_tensor **to = side ? down : up;
        memset(to, 0, 2 * sizeof *to);
        expect(weft_graph_interpret(g, 2, moved, 2, to), "differences");
        release(2, moved);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(elements(out[1])[i], (elements(up[0])[i] - elements(down[0])[i]) / (2 * h), 1e-7);
    ck_assert(elements(out[1])[0] != 0);
    release(2, out), release(2, up), release(2, down), release(2, in);
    weft_gradient(g, sum(y), NULL, 1, &x, &gradient);
    expect_problem("needs a trip bound");
}
END_TEST

/* Two steps of a counter with a product: by its state, and as values in and out. */
START_TEST(functionalized) {
    weft_type type = weft_type_make(g, WEFT_F64, 1, (weft_dim[]){3});
    weft_graph_add_state(g, "s", &type, NULL);
    weft_value *x = input("x", 3);
    weft_state_update(g, "s", weft_add(g, weft_state_read(g, "s"), x));
    weft_graph_output(g, "y", weft_mul(g, weft_state_read(g, "s"), x));
    weft_graph *f;
    expect(weft_graph_verify(g), "states");
    expect(weft_functionalize(g, &f), "functionalize");
    ck_assert_int_eq(weft_graph_input_count(f), 2);
    ck_assert_int_eq(weft_graph_output_count(f), 2);
    ck_assert_str_eq(weft_graph_input_name(f, 1), "s");
    weft_tensor *in[2] = {random_tensor(context, 1, (int64_t[]){3}, 0.5, 1),
                          random_tensor(context, 1, (int64_t[]){3}, 0, 0)};
    for (int i = 0; i < 2; i++) {
        weft_tensor *out[2] = {0};
        expect(weft_graph_interpret(f, 2, in, 2, out), "functionalized");
        compare_compiled(f, 2, in, 2, out, 1e-12, "functionalized");
        for (int k = 0; k < 3; k++) {
            ck_assert_double_eq_tol(elements(out[1])[k], (i + 1) * elements(in[0])[k], 1e-12);
            ck_assert_double_eq_tol(elements(out[0])[k], elements(out[1])[k] * elements(in[0])[k], 1e-12);
        }
        weft_tensor_release(in[1]), weft_tensor_release(out[0]);
        in[1] = out[1];
    }
    release(2, in);
    weft_graph_release(f);
    weft_value *y;
    weft_scan(g, 1, &x, 0, NULL, 2, false, updating, NULL, 0, &y);
    weft_status status = weft_functionalize(g, &f);
    ck_assert_int_eq(weft_status_code(status), WEFT_UNSUPPORTED);
    ck_assert(f == NULL);
    weft_status_release(status);
}
END_TEST

/* sqrt at 0 is fine, its derivative is not; log of a negative number is not. A mask of infinities is. */
START_TEST(anomalies) {
    weft_value *x = input("x", 3), *gradient, *mask = weft_full(g, WEFT_F64, 1, (weft_dim[]){3}, -INFINITY);
    weft_value *y = weft_sqrt(g, x);
    int line = __LINE__ - 1;
    weft_value *masked = weft_exp(g, weft_where(g, weft_compare(g, WEFT_GT, x, weft_mul_number(g, x, 0)), y, mask));
    weft_gradient(g, sum(masked), NULL, 1, &x, &gradient);
    weft_graph_output(g, "gradient", gradient);
    weft_graph_output(g, "first", weft_convert(g, weft_anomaly(g), WEFT_F64));
    const double starts[3] = {1, 0, -1};
    static const char *const words[3] = {"every value is finite", "in the derivative of sqrt", "sqrt at "};
    for (int i = 0; i < 3; i++) {
        weft_tensor *in[1] = {random_tensor(context, 1, (int64_t[]){3}, 1, 2)}, *out[2] = {0};
        elements(in[0])[1] = starts[i];
        expect(weft_graph_verify(g), "anomaly");
        expect(weft_graph_interpret(g, 1, in, 2, out), "anomaly");
        int64_t number = (int64_t)elements(out[1])[0];
        ck_assert_int_eq(number >= 0, i > 0);
        char *text, place[300];
        expect(weft_anomaly_describe(g, number, &text), "describe");
        ck_assert_msg(strstr(text, words[i]) != NULL, "start %g: %s", starts[i], text);
        snprintf(place, sizeof place, "transforms.c:%d", line);
        ck_assert_msg(i == 0 || strstr(text, place) != NULL, "start %g: %s, not at %s", starts[i], text, place);
        weft_string_release(context, text);
        release(2, out), release(1, in);
    }
}
END_TEST

TCase *case_transforms(void) {
    TCase *c = tcase_create("transforms");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, linear_functions);
    tcase_add_test(c, not_linear);
    tcase_add_test(c, many_values);
    tcase_add_test(c, second_order);
    tcase_add_test(c, stopped);
    tcase_add_test(c, forward_rule);
    tcase_add_test(c, reverse_rule);
    tcase_add_test(c, rule_mistakes);
    tcase_add_test(c, states);
    tcase_add_test(c, state_in_loop);
    tcase_add_loop_test(c, states_in_regions, 0, 6);
    tcase_add_test(c, unbounded_while);
    tcase_add_test(c, functionalized);
    tcase_add_test(c, anomalies);
    return c;
}
