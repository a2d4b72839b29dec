/* Loops and branches that the card decides itself: conditional nodes of graphs, against the graph interpreter and
   against the same program where the driver is too old for them. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/device.h"
#include "weft/ops.h"

enum { N = 50, CALLS = 5 };
static const int64_t limits[CALLS] = {7, 0, 1, 12, 7};

static weft_value *index_of(weft_graph *g, int64_t value) { return weft_scalar_integer(g, WEFT_I64, value); }

/* carries of the outer loop: i, x; self: the limit, an input */
static void outer_condition(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    static const int64_t axis = 0;
    weft_value *size = weft_reduce_sum(g, weft_square(g, a[1]), 1, &axis, false);
    weft_value *large = weft_compare(g, WEFT_GT, size, weft_scalar(g, WEFT_F32, 0.5));
    out[0] = weft_and(g, weft_compare(g, WEFT_LT, a[0], self), large);
}

static void inner_condition(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    out[0] = weft_compare(g, WEFT_LT, a[0], self);
}

static void inner_body(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    (void)self;
    out[0] = weft_add(g, a[0], index_of(g, 1));
    out[1] = weft_add(g, weft_mul_number(g, a[1], 0.9), weft_mul_number(g, weft_sin(g, a[1]), 0.05));
}

typedef struct branch {
    weft_value *x, *w;
} branch;

static void odd(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    const branch *b = self;
    (void)a;
    out[0] = weft_tanh(g, weft_matmul(g, b->x, b->w));
}

static void even(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    const branch *b = self;
    (void)a;
    out[0] = weft_add_number(g, weft_mul_number(g, b->x, 1.5), 0.01);
}

/* Every trip: one of two branches, then a loop of i trips. */
static void outer_body(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    (void)self;
    branch b = {a[1], weft_mul_number(g, weft_iota(g, WEFT_F32, 2, (weft_dim[]){N, N}, 1), 0.01)};
    weft_value *is_odd = weft_compare(g, WEFT_EQ, weft_rem(g, a[0], index_of(g, 2)), index_of(g, 1)), *x, *inner[2];
    weft_cond(g, is_odd, odd, even, &b, 1, &x);
    weft_while(g, 2, (weft_value *[]){index_of(g, 0), x}, -1, inner_condition, inner_body, a[0], inner);
    out[0] = weft_add(g, a[0], index_of(g, 1));
    out[1] = inner[1];
}

static weft_status build(weft_context *context, weft_graph **out_graph) {
    WEFT_TRY(weft_graph_create(context, "loops", out_graph), "graph");
    weft_graph *g = *out_graph;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){N});
    weft_value *limit = weft_graph_input(g, "limit", WEFT_I64, 0, NULL), *results[2];
    weft_while(g, 2, (weft_value *[]){index_of(g, 0), weft_mul_number(g, x, 2)}, -1, outer_condition, outer_body, limit,
               results);
    weft_graph_output(g, "trips", results[0]);
    weft_graph_output(g, "x", weft_add(g, results[1], x));
    return weft_graph_verify(g);
}

/* A loop of known trips: h = tanh(h w + x_t), a column of x each trip; all h and the last one. */
static void recurrent(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    (void)self;
    weft_value *w = weft_mul_number(g, weft_iota(g, WEFT_F32, 2, (weft_dim[]){N, N}, 0), 0.002);
    out[0] = weft_tanh(g, weft_add(g, weft_matmul(g, a[0], w), a[1]));
    out[1] = weft_mul_number(g, out[0], 2);
}

static weft_status build_scan(weft_context *context, weft_graph **out_graph) {
    enum { T = 6 };
    WEFT_TRY(weft_graph_create(context, "scan", out_graph), "graph");
    weft_graph *g = *out_graph;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){N});
    weft_value *limit = weft_graph_input(g, "limit", WEFT_I64, 0, NULL), *results[2];
    weft_value *all = weft_broadcast_to(g, x, 2, (weft_dim[]){T, N});
    all = weft_mul(g, all, weft_iota(g, WEFT_F32, 2, (weft_dim[]){T, N}, 0));
    weft_scan(g, 1, &x, 1, &all, T, false, recurrent, NULL, 1, results);
    static const int64_t axis = 0;
    weft_graph_output(g, "trips", weft_mul(g, limit, index_of(g, 1)));
    weft_graph_output(g, "x", weft_add(g, results[0], weft_reduce_sum(g, results[1], 1, &axis, false)));
    return weft_graph_verify(g);
}

static void make_inputs(weft_context *context, int call, weft_tensor **inputs) {
    assert_fine(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){N}, &inputs[0]));
    assert_fine(weft_tensor_create_copy(context, WEFT_I64, 0, NULL, &limits[call], &inputs[1]));
    float *x = weft_tensor_data(inputs[0]);
    for (int i = 0; i < N; i++) x[i] = (float)((i * 37 + call * 11) % 100) / 100.0f - 0.4f;
}

static void call(weft_context *context, weft_graph *graph, weft_session *session, int number) {
    weft_tensor *inputs[2], *want[2] = {0}, *got[2] = {0};
    make_inputs(context, number, inputs);
    assert_fine(weft_graph_interpret(graph, 2, inputs, 2, want));
    assert_fine(weft_session_call(session, 2, inputs, 2, got));
    int64_t trips = *(int64_t *)weft_tensor_data(got[0]);
    ck_assert_int_eq(trips, *(int64_t *)weft_tensor_data(want[0]));
    ck_assert_int_eq(trips, limits[number]); /* the other condition never ends it: the count of trips is known */
    const float *a = weft_tensor_data(want[1]), *b = weft_tensor_data(got[1]);
    for (int i = 0; i < N; i++)
        ck_assert_msg(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(a[i])), "call %d, element %d: %g instead of %g", number,
                      i, (double)b[i], (double)a[i]);
    for (int i = 0; i < 2; i++) {
        weft_tensor_release(inputs[i]);
        weft_tensor_release(want[i]);
        weft_tensor_release(got[i]);
    }
}

/* Graphs that were launched, for all calls. */
static int run(int version, weft_status (*make)(weft_context *, weft_graph **)) {
    void *library = dlopen(WEFT_FAKE_CUDA, RTLD_NOW);
    int (*launches)(void);
    void (*set_version)(int);
    weft_context *context;
    weft_graph *graph;
    weft_program *program = NULL;
    weft_session *session;
    char *report;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "cuda";
    ck_assert_msg(library != NULL, "%s", dlerror());
    *(void **)&launches = dlsym(library, "card_graph_launches");
    *(void **)&set_version = dlsym(library, "card_set_version");
    set_version(version);
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(make(context, &graph));
    weft_status status = weft_compile(graph, &options, &program);
    if (status) { /* without a run-time compiler */
        assert_fails(status, WEFT_UNAVAILABLE, NULL);
        weft_graph_release(graph);
        weft_context_release(context);
        return -1;
    }
    assert_fine(weft_device_report(context, &report));
    ck_assert_msg(strstr(report, version < 12040 ? "the driver is older than CUDA 12.4" : "loops run in graphs") !=
                      NULL,
                  "%s", report);
    weft_string_release(context, report);
    assert_fine(weft_session_create(program, &session));
    int before = launches();
    for (int i = 0; i < CALLS; i++) call(context, graph, session, i);
    int count = launches() - before;
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(graph);
    weft_context_release(context);
    return count;
}

START_TEST(in_graphs) {
    int count = run(13000, build);
    ck_assert_msg(count == CALLS || count < 0, "%d graphs for %d calls", count, CALLS);
}
END_TEST

START_TEST(from_the_host) { ck_assert_int_le(run(12030, build), 0); }
END_TEST

/* From the third call on, whatever the driver. */
START_TEST(of_known_trips) {
    int count = run(_i ? 12030 : 13000, build_scan);
    ck_assert_msg(count == CALLS - 2 || count < 0, "%d graphs for %d calls", count, CALLS);
}
END_TEST

void add_loop_tests(Suite *suite) {
    TCase *tests = tcase_create("loops");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, in_graphs);
    tcase_add_test(tests, from_the_host);
    tcase_add_loop_test(tests, of_known_trips, 0, 2);
    suite_add_tcase(suite, tests);
}
