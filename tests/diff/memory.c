/* Transforms while an allocation fails, for every one: "out of memory", nothing leaks. And missing arguments. */
#include "tests/diff/testing.h"

#include "tests/support/failing.h"

#include <string.h>

static void step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    results[0] = weft_tanh(g, weft_matmul(g, weft_add(g, a[0], a[1]), self));
}
static void more(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_compare(g, WEFT_LT, weft_reduce_sum(g, a[0], 0, NULL, false), weft_scalar(g, WEFT_F64, 9));
}
static void grow(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_add(g, a[0], weft_exp(g, a[0]));
}
static void same(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)self, (void)g;
    results[0] = a[0];
}
static void rule(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_mul(g, a[1], a[2]);
}
static void branch(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)a;
    results[0] = weft_sin(g, self);
}

static weft_status build(weft_context *context, weft_graph **out_graph) {
    weft_status status = weft_graph_create(context, "memory", out_graph);
    if (status) return status;
    weft_graph *g = *out_graph;
    weft_value *x = weft_graph_input(g, "x", WEFT_F64, 2, (weft_dim[]){2, 3}), *gradients[2], *h, *looped, *held, *y;
    weft_value *w = weft_graph_input(g, "w", WEFT_F64, 2, (weft_dim[]){3, 3}), *out[2];
    weft_value *xs = weft_graph_input(g, "xs", WEFT_F64, 3, (weft_dim[]){4, 2, 3}), *batch;
    weft_remat_begin(g, NULL);
    weft_scan(g, 1, &x, 1, &xs, 4, false, step, w, 0, &h);
    weft_remat_end(g);
    weft_while(g, 1, &h, 2, more, grow, NULL, &looped);
    weft_custom_vjp(g, 1, &looped, same, rule, NULL, 1, &held);
    weft_value *test = weft_compare(g, WEFT_LT, weft_reduce_sum(g, x, 0, NULL, false), weft_scalar(g, WEFT_F64, 0));
    weft_cond(g, test, branch, branch, held, 1, &y);
    weft_value *loss = weft_reduce_sum(g, weft_softmax(g, y, 1), 0, NULL, false);
    weft_value *inputs[2] = {x, w};
    weft_gradient(g, loss, NULL, 2, inputs, gradients);
    weft_hvp(g, loss, 1, inputs, inputs, out);
    weft_vmap_values(g, NULL, 1, gradients, 1, &x, &xs, &batch);
    weft_graph_output(g, "batch", batch);
    weft_graph_output(g, "hv", out[0]);
    weft_graph_output(g, "jacobian", weft_jacobian_forward(g, weft_matmul(g, x, w), w));
    return weft_graph_verify(g);
}

static weft_status everything(weft_allocator allocator) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.allocator = allocator;
    options.cache_folder = "";
    options.thread_count = 1;
    weft_context *context = NULL;
    weft_graph *graph = NULL;
    weft_status status = weft_context_create(&options, &context);
    if (!status) status = build(context, &graph);
    weft_graph_release(graph);
    weft_context_release(context);
    return status;
}

START_TEST(allocation_failures) {
    for (long n = 0;; n++) {
        failing state = {n, 0, false};
        weft_status status = everything((weft_allocator){&state, failing_resize});
        ck_assert_msg(state.live_bytes == 0, "allocation %ld: %ld bytes leak", n, state.live_bytes);
        if (!status) {
            ck_assert_int_gt(n, 100);
            ck_assert_msg(!state.failed, "allocation %ld failed and nobody noticed", n);
            return;
        }
        ck_assert_msg(weft_status_code(status) == WEFT_OUT_OF_MEMORY, "allocation %ld: %s", n,
                      weft_status_message(status));
        weft_status_release(status);
    }
}
END_TEST

/* Each call alone in a graph: a problem, never a crash. */
static void call(weft_graph *g, int number, weft_value *x) {
    weft_value *none = NULL, *out[2], *two[2] = {x, NULL};
    switch (number) {
    case 0: weft_apply(g, 1, &none, 1, &x, &x, out); return;
    case 1: weft_apply(g, 1, &x, 1, &x, &none, out); return;
    case 2: weft_jvp(g, NULL, 1, &x, &x); return;
    case 3: weft_jvp(g, x, 2, two, two); return;
    case 4: weft_linearize(g, 1, &x, 1, &none, out, out + 1); return;
    case 5: weft_linear_transpose(g, 1, &none, NULL, 1, &x, out); return;
    case 6: weft_vjp(g, 1, &x, NULL, 2, two, out); return;
    case 7: weft_gradient(g, NULL, NULL, 1, &x, out); return;
    case 8: weft_hvp(g, x, 1, &x, &none, out); return;
    case 9: weft_vhp(g, x, 1, &none, &x, out); return;
    case 10: weft_jacobian_forward(g, x, NULL); return;
    case 11: weft_jacobian_reverse(g, NULL, x); return;
    case 12: weft_hessian(g, NULL, x); return;
    case 13: weft_vmap(g, NULL, NULL, NULL, 1, &x, 1, out); return;
    case 14: weft_vmap(g, NULL, same, NULL, 1, &none, 1, out); return;
    case 15: weft_vmap_values(g, NULL, 1, &none, 1, &x, &x, out); return;
    case 16: weft_vmap_values(g, NULL, 1, &x, 1, &x, &none, out); return;
    case 17: weft_custom_jvp(g, 1, &x, NULL, rule, NULL, 1, out); return;
    case 18: weft_custom_vjp(g, 1, &none, same, rule, NULL, 1, out); return;
    case 19: weft_save_name(g, NULL, "name"); return;
    case 20: weft_placeholder_like(g, NULL); return;
    default: weft_remat_end(g); return;
    }
}
START_TEST(missing_arguments) {
    weft_context *context;
    weft_graph *g;
    expect(weft_context_create(NULL, &context), "context");
    expect(weft_graph_create(context, "missing", &g), "graph");
    call(g, _i, weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){3}));
    weft_status status = weft_graph_verify(g);
    ck_assert_msg(status != NULL, "call %d went through", _i);
    weft_status_release(status);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

TCase *case_memory(void) {
    TCase *c = tcase_create("memory");
    tcase_set_timeout(c, 200);
    tcase_add_test(c, allocation_failures);
    tcase_add_loop_test(c, missing_arguments, 0, 22);
    return c;
}
