/* Allocation n fails, for every n: building, printing, parsing and copying a graph end in "out of memory" and leak
   nothing; when nothing fails they succeed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir/print.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "tests/ir/sample.h"
#include "tests/support/failing.h"
#include "weft/ops.h"
#include "weft/transform.h"

static weft_status build(weft_context *context, weft_graph **out_graph) {
    static const weft_op ops[] = {WEFT_OP_add,        WEFT_OP_constant, WEFT_OP_reduce,     WEFT_OP_dot_general,
                                  WEFT_OP_while,      WEFT_OP_scan,     WEFT_OP_state_read, WEFT_OP_reduce_window,
                                  WEFT_OP_layer_norm, WEFT_OP_attention};
    weft_status status = weft_graph_create(context, "memory", out_graph);
    if (status) return status;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        weft_graph_at(*out_graph, "memory.c", (int)i);
        weft_sample_node(*out_graph, ops[i], WEFT_F32, ops[i] == WEFT_OP_state_read ? 0 : 2);
    }
    return weft_graph_verify(*out_graph);
}

/* A loss through products, rows, branches of the shape rules, and its gradients. */
static weft_status build_gradients(weft_context *context, weft_graph **out_graph) {
    weft_status status = weft_graph_create(context, "gradients", out_graph);
    if (status) return status;
    weft_graph *g = *out_graph;
    weft_value *x[2] = {weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){3, 4}),
                        weft_graph_input(g, "w", WEFT_F32, 2, (weft_dim[]){4, 5})},
               *gradients[2] = {NULL, NULL};
    weft_value *h = weft_gelu(g, weft_matmul(g, x[0], x[1]), true);
    weft_value *y = weft_reduce_max(g, weft_softmax(g, weft_transpose(g, h, NULL), 1), 1, (int64_t[]){0}, false);
    weft_gradient(g, weft_reduce_sum(g, weft_square(g, y), 0, NULL, false), NULL, 2, x, gradients);
    for (int i = 0; i < 2; i++) weft_graph_output(g, i ? "gw" : "gx", gradients[i]);
    return weft_graph_verify(g);
}

/* Everything once; the first status ends it. */
static weft_status everything(weft_allocator allocator, const char *pipeline,
                              weft_status (*make)(weft_context *, weft_graph **)) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.allocator = allocator;
    options.cache_folder = "";
    options.thread_count = 1;
    weft_context *context = NULL;
    weft_graph *graph = NULL, *parsed = NULL, *copy = NULL;
    char *text = NULL;
    weft_status status = weft_context_create(&options, &context);
    if (!status) status = make(context, &graph);
    if (!status) status = weft_graph_print(graph, &text);
    if (!status) status = weft_graph_parse(context, text, strlen(text), &parsed);
    if (!status) status = weft_graph_clone(parsed, NULL, &copy);
    if (!status && pipeline) {
        weft_pass_context pass = {.graph = copy, .options = ""};
        status = weft_pipeline_run(&pass, pipeline);
    }
    if (context) weft_string_release(context, text);
    weft_graph_release(copy);
    weft_graph_release(parsed);
    weft_graph_release(graph);
    weft_context_release(context);
    return status;
}

static void fail_each(const char *pipeline, long step, weft_status (*make)(weft_context *, weft_graph **)) {
    for (long n = 0;; n += step) {
        failing state = {n, 0, false};
        weft_status status = everything((weft_allocator){&state, failing_resize}, pipeline, make);
        ck_assert_msg(state.live_bytes == 0, "allocation %ld: %ld bytes leak", n, state.live_bytes);
        if (!status) {
            ck_assert_int_gt(n, 100); /* the loop met the whole of it */
            ck_assert_msg(!state.failed, "allocation %ld failed and nobody noticed", n);
            return;
        }
        ck_assert_msg(weft_status_code(status) == WEFT_OUT_OF_MEMORY, "allocation %ld: %s", n,
                      weft_status_message(status));
        weft_status_release(status);
    }
}

START_TEST(test_text_and_copies) { fail_each(NULL, 1, build); }
END_TEST
START_TEST(test_gradients) { fail_each(NULL, 1, build_gradients); }
END_TEST
START_TEST(test_passes) { fail_each("raise,simplify,decompose,simplify", 1, build); }
END_TEST

Suite *memory_suite(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_text_and_copies);
    tcase_add_test(tests, test_gradients);
    tcase_add_test(tests, test_passes);
    suite_add_tcase(suite, tests);
    return suite;
}
