/* Allocation n fails, for every n: graph, compile, load, call, artifact and just-in-time function end in "out of
   memory" or succeed, and nothing leaks. Compiled code comes from a disk cache that a first run filled, so that the
   loop is about Weft's own memory; a few runs generate code. LLVM's own memory is outside. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/compile/testing.h"

enum { EACH = 2000, STRIDE = 37 };

typedef struct job {
    const test_sample *sample;
    const char *cache, *artifact;
} job;

static test_allocator *armed;

/* The interpreter is no part of the loop. */
static void compare(weft_graph *graph, weft_tensor *const *inputs, weft_tensor *const *outputs) {
    armed->left = -1;
    armed->sticky = false;
    test_compare(graph, inputs, outputs);
}

static weft_status run_program(weft_context *context, weft_graph *graph) {
    weft_program *program = NULL;
    weft_session *session = NULL;
    weft_tensor *inputs[TEST_PORTS] = {0}, *outputs[TEST_PORTS] = {0};
    weft_status status = weft_compile(graph, NULL, &program);
    if (!status) status = weft_session_create(program, &session);
    if (!status) status = test_inputs(context, graph, 3, inputs);
    if (!status)
        status =
            weft_session_call(session, weft_graph_input_count(graph), inputs, weft_graph_output_count(graph), outputs);
    for (int i = 0; i < TEST_PORTS; i++) ck_assert_msg(!status || !outputs[i], "an output of a failed call");
    if (!status) compare(graph, inputs, outputs);
    test_release(inputs);
    test_release(outputs);
    weft_session_release(session);
    weft_program_release(program);
    return status;
}

static weft_status run_function(weft_context *context, weft_graph *graph) {
    weft_function *function = NULL;
    weft_status status = weft_function_create(graph, NULL, &function);
    for (int64_t batch = 1; !status && batch < 10; batch += 3) {
        weft_tensor *inputs[TEST_PORTS] = {0}, *outputs[TEST_PORTS] = {0};
        status = test_inputs(context, graph, batch, inputs);
        if (!status)
            status = weft_function_call(function, weft_graph_input_count(graph), inputs, weft_graph_output_count(graph),
                                        outputs);
        for (int i = 0; i < TEST_PORTS; i++) ck_assert_msg(!status || !outputs[i], "an output of a failed call");
        test_release(inputs);
        test_release(outputs);
    }
    weft_function_release(function);
    return status;
}

static weft_status run_artifact(weft_context *context, weft_graph *graph, const char *path) {
    weft_program *program = NULL;
    weft_status status = weft_compile_file(graph, NULL, path);
    ck_assert_msg(!status || access(path, F_OK), "a failed compile left its file");
    if (!status) status = weft_program_load(context, path, NULL, &program);
    ck_assert((status == NULL) == (program != NULL));
    weft_program_release(program);
    return status;
}

static weft_status everything(test_allocator *allocator, const job *j,
                              weft_status (*run)(weft_context *, weft_graph *)) {
    weft_context *context = NULL;
    weft_graph *graph = NULL;
    armed = allocator;
    weft_status status = test_context(allocator, NULL, j->cache, &context);
    if (!status) status = test_sample_graph(context, j->sample, &graph);
    if (!status) status = j->artifact ? run_artifact(context, graph, j->artifact) : run(context, graph);
    weft_graph_release(graph);
    weft_context_release(context);
    return status;
}

static void fail_each(const job *j, weft_status (*run)(weft_context *, weft_graph *), bool sticky, long each,
                      long stride) {
    test_allocator whole = {.left = -1};
    assert_fine(everything(&whole, j, run));
    assert_fine(everything(&whole, j, run)); /* from the cache */
    ck_assert_int_eq(whole.live_bytes, 0);
    long total = whole.count;
    for (long n = 0; n < total; n += n < each ? 1 : stride) {
        test_allocator state = {.left = n, .sticky = sticky};
        if (j->artifact) (void)unlink(j->artifact);
        weft_status status = everything(&state, j, run);
        weft_code code = weft_status_code(status);
        char text[2048];
        weft_status_format(status, text, sizeof text);
        ck_assert_msg(code == WEFT_OK || code == WEFT_OUT_OF_MEMORY, "%s, allocation %ld: %s", j->sample->name, n,
                      text);
        ck_assert_msg(state.live_bytes == 0, "%s, allocation %ld: %ld bytes leak; %s", j->sample->name, n,
                      (long)state.live_bytes, text);
        weft_status_release(status);
    }
}

static char folder[512];
static void set_up(void) { test_folder_make(folder, sizeof folder); }
static void tear_down(void) { test_folder_remove(folder); }

static const char *const names[] = {"mlp", "convolution", "cond", "while", "scan", "symbolic"};
enum { NAMES = sizeof names / sizeof *names };

START_TEST(test_programs) {
    job j = {test_sample_find(names[_i]), folder, NULL};
    fail_each(&j, run_program, false, EACH, STRIDE);
}
END_TEST

START_TEST(test_programs_for_good) {
    job j = {test_sample_find(names[_i]), folder, NULL};
    fail_each(&j, run_program, true, 0, STRIDE);
}
END_TEST

START_TEST(test_code_generation) {
    job j = {test_sample_find("mlp"), "", NULL};
    fail_each(&j, run_program, false, 0, 499);
}
END_TEST

START_TEST(test_functions) {
    job j = {test_sample_find("anonymous"), folder, NULL};
    fail_each(&j, run_function, false, EACH, STRIDE);
}
END_TEST

START_TEST(test_artifacts) {
    char path[600];
    snprintf(path, sizeof path, "%s.weft", folder);
    job j = {test_sample_find("symbolic"), folder, path};
    fail_each(&j, NULL, false, EACH, STRIDE);
    (void)unlink(path);
}
END_TEST

Suite *memory_suite(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_set_timeout(tests, 200);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_programs, 0, NAMES);
    tcase_add_loop_test(tests, test_programs_for_good, 0, NAMES);
    tcase_add_test(tests, test_code_generation);
    tcase_add_test(tests, test_functions);
    tcase_add_test(tests, test_artifacts);
    suite_add_tcase(suite, tests);
    return suite;
}
