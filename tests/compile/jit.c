/* weft_function with the real compiler: what compiles, what the log says, what is refused. */
#include <string.h>

#include "tests/compile/testing.h"

static test_log log_lines;
static weft_context *context;
static weft_graph *graph;
static weft_function *function;

static void set_up(void) {
    memset(&log_lines, 0, sizeof log_lines);
    graph = NULL, function = NULL;
    assert_fine(test_context(NULL, &log_lines, "", &context));
}

static void tear_down(void) {
    weft_function_release(function);
    weft_graph_release(graph);
    weft_context_release(context);
}

static void start(const char *name) {
    assert_fine(test_sample_graph(context, test_sample_find(name), &graph));
    assert_fine(weft_function_create(graph, NULL, &function));
}

static void call_with(int64_t batch) {
    weft_tensor *inputs[TEST_PORTS] = {0}, *outputs[TEST_PORTS] = {0};
    assert_fine(test_inputs(context, graph, batch, inputs));
    assert_fine(
        weft_function_call(function, weft_graph_input_count(graph), inputs, weft_graph_output_count(graph), outputs));
    test_compare(graph, inputs, outputs);
    test_release(inputs);
    test_release(outputs);
}

START_TEST(test_undeclared_batch) {
    start("anonymous");
    static const int64_t batches[] = {1, 7, 64, 1, 7, 3};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        call_with(batches[i]);
        ck_assert_int_eq(weft_function_compile_count(function), i ? 2 : 1);
    }
    ck_assert_msg(strstr(log_lines.text, "compile 1 of anonymous") && strstr(log_lines.text, "first call"), "%s",
                  log_lines.text);
    ck_assert_msg(strstr(log_lines.text, "was 1, is 7: symbolic from now on"), "%s", log_lines.text);
}
END_TEST

START_TEST(test_declared_batch) {
    start("symbolic");
    static const int64_t batches[] = {1, 64, 17};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) call_with(batches[i]);
    ck_assert_int_eq(weft_function_compile_count(function), 1);
}
END_TEST

static weft_status call_shape(weft_dtype dtype, int rank, const int64_t *shape) {
    weft_tensor *input, *outputs[2] = {0};
    assert_fine(weft_tensor_create(context, dtype, rank, shape, &input));
    weft_status status = weft_function_call(function, 1, &input, 2, outputs);
    ck_assert(!status || (!outputs[0] && !outputs[1]));
    weft_tensor_release(outputs[0]);
    weft_tensor_release(outputs[1]);
    weft_tensor_release(input);
    return status;
}

START_TEST(test_refused) {
    start("symbolic");
    for (int round = 0; round < 2; round++) { /* before and after there is a program */
        assert_fails(call_shape(WEFT_F32, 2, (int64_t[]){65, 8}), WEFT_OUT_OF_RANGE, "B");
        assert_fails(call_shape(WEFT_F32, 2, (int64_t[]){0, 8}), WEFT_OUT_OF_RANGE, "B");
        assert_fails(call_shape(WEFT_F64, 2, (int64_t[]){2, 8}), WEFT_INVALID_ARGUMENT, "f64");
        assert_fails(call_shape(WEFT_F32, 1, (int64_t[]){8}), WEFT_INVALID_ARGUMENT, "x");
        assert_fails(call_shape(WEFT_F32, 2, (int64_t[]){2, 9}), WEFT_INVALID_ARGUMENT, "9");
        weft_tensor *input = NULL, *outputs[2] = {0};
        assert_fails(weft_function_call(function, 1, &input, 2, outputs), WEFT_INVALID_ARGUMENT, "x");
        assert_fails(weft_function_call(function, 0, NULL, 2, outputs), WEFT_INVALID_ARGUMENT, NULL);
        assert_fine(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){2, 8}, &input));
        assert_fails(weft_function_call(function, 2, (weft_tensor *[]){input, input}, 2, outputs),
                     WEFT_INVALID_ARGUMENT, NULL);
        assert_fails(weft_function_call(function, 1, &input, 1, outputs), WEFT_INVALID_ARGUMENT, NULL);
        assert_fine(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){2, 6}, &outputs[1]));
        weft_tensor *kept = outputs[1];
        assert_fails(weft_function_call(function, 1, &input, 2, outputs), WEFT_INVALID_ARGUMENT, "twice");
        ck_assert_ptr_null(outputs[0]);
        ck_assert_ptr_eq(outputs[1], kept);
        weft_tensor_release(kept);
        weft_tensor_release(input);
        call_with(5);
    }
    ck_assert_int_eq(weft_function_compile_count(function), 1);
}
END_TEST

/* The text of an option may go after the call that took it. */
START_TEST(test_options_are_copied) {
    char pipeline[256];
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    assert_fine(test_sample_graph(context, test_sample_find("anonymous"), &graph));
    strcpy(pipeline, "nonsense");
    options.pipeline = pipeline;
    assert_fine(weft_function_create(graph, &options, &function));
    memset(pipeline, 'x', sizeof pipeline);
    weft_tensor *input, *output = NULL;
    assert_fine(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){2, 6}, &input));
    assert_fails(weft_function_call(function, 1, &input, 1, &output), WEFT_INVALID_ARGUMENT, "nonsense");
    weft_tensor_release(input);
}
END_TEST

START_TEST(test_wrong_targets) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    weft_program *program;
    assert_fine(test_sample_graph(context, test_sample_find("mlp"), &graph));
    static const char *const targets[] = {"", ",", "tpu", "cpu:x86-64-v9", "cpu,cpu", "cuda:99", "cpu:"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        options.targets = targets[i];
        weft_status status = weft_compile(graph, &options, &program);
        ck_assert_msg(status != NULL, "\"%s\"", targets[i]);
        ck_assert_int_ne(weft_status_code(status), WEFT_INTERNAL);
        ck_assert_ptr_null(program);
        weft_status_release(status);
        status = weft_function_create(graph, &options, &function);
        ck_assert_msg(status != NULL, "\"%s\"", targets[i]);
        ck_assert_ptr_null(function);
        weft_status_release(status);
    }
}
END_TEST

/* Programs of one function read the graph's own constants: a second one takes no second copy. */
START_TEST(test_weights_are_shared) {
    enum { ROWS = 20000, COLUMNS = 32 }; /* 2.5 MB */
    const long table_bytes = (long)ROWS * COLUMNS * 4;
    test_allocator counter = {.left = -1};
    weft_context *own;
    weft_tensor *table, *ids, *output = NULL;
    assert_fine(test_context(&counter, NULL, "", &own));
    assert_fine(weft_tensor_create(own, WEFT_F32, 2, (int64_t[]){ROWS, COLUMNS}, &table));
    float *rows = weft_tensor_data(table);
    for (int i = 0; i < ROWS * COLUMNS; i++) rows[i] = (float)i;
    assert_fine(weft_graph_create(own, "rows", &graph));
    weft_value *x = weft_graph_input(graph, "x", WEFT_I32, 1, (weft_dim[]){WEFT_DIM_ANY});
    weft_graph_output(graph, "y", weft_embedding(graph, weft_graph_parameter(graph, "table", table), x));
    weft_tensor_release(table);
    assert_fine(weft_function_create(graph, NULL, &function));
    long before = atomic_load(&counter.live_bytes);
    for (int64_t count = 1; count < 3; count++) {
        assert_fine(weft_tensor_create(own, WEFT_I32, 1, &count, &ids));
        ((int32_t *)weft_tensor_data(ids))[count - 1] = ROWS - 7;
        assert_fine(weft_function_call(function, 1, &ids, 1, &output));
        const float *y = weft_tensor_data(output);
        for (int i = 0; i < COLUMNS; i++)
            ck_assert_float_eq(y[(count - 1) * COLUMNS + i], (float)((ROWS - 7) * COLUMNS + i));
        weft_tensor_release(output);
        output = NULL;
        weft_tensor_release(ids);
        ck_assert_int_eq(weft_function_compile_count(function), (int)count);
        ck_assert_int_lt(atomic_load(&counter.live_bytes) - before, table_bytes / 2);
    }
    weft_function_release(function);
    weft_graph_release(graph);
    weft_context_release(own);
    function = NULL, graph = NULL;
    ck_assert_int_eq(atomic_load(&counter.live_bytes), 0);
}
END_TEST

Suite *jit_suite(void) {
    Suite *suite = suite_create("jit");
    TCase *tests = tcase_create("jit");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_undeclared_batch);
    tcase_add_test(tests, test_declared_batch);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_options_are_copied);
    tcase_add_test(tests, test_wrong_targets);
    tcase_add_test(tests, test_weights_are_shared);
    suite_add_tcase(suite, tests);
    return suite;
}
