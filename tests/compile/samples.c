/* Every sample compiled for this machine against the interpreter. */
#include <string.h>

#include "tests/compile/testing.h"

static weft_context *context;
static void set_up(void) { assert_fine(test_context(NULL, NULL, "", &context)); }
static void tear_down(void) { weft_context_release(context); }

static void run_sample(const test_sample *sample, int64_t batch) {
    weft_graph *graph;
    weft_program *program;
    weft_session *session;
    weft_tensor *inputs[TEST_PORTS] = {0}, *outputs[TEST_PORTS] = {0};
    assert_fine(test_sample_graph(context, sample, &graph));
    assert_fine(weft_compile(graph, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(test_inputs(context, graph, batch, inputs));
    int count = weft_graph_output_count(graph);
    for (int round = 0; round < 2; round++) {               /* the second writes into the first's outputs */
        if (round && !strcmp(sample->name, "state")) break; /* its second call differs: test_states */
        assert_fine(weft_session_call(session, weft_graph_input_count(graph), inputs, count, outputs));
        test_compare(graph, inputs, outputs);
    }
    test_release(inputs);
    test_release(outputs);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(graph);
}

START_TEST(test_samples_run) {
    for (const test_sample *sample = test_samples; sample->name; sample++) run_sample(sample, 3);
}
END_TEST

START_TEST(test_no_rows) { run_sample(test_sample_find("empty_batch"), 0); }
END_TEST

static void assert_values(weft_tensor *tensor, const float *values) {
    for (int i = 0; i < 3; i++) ck_assert_float_eq(((float *)weft_tensor_data(tensor))[i], values[i]);
}

static void call_state(weft_session *session, const float *x, const float *old, const float *next) {
    weft_tensor *input, *outputs[3] = {0};
    assert_fine(weft_tensor_create_copy(context, WEFT_F32, 1, (int64_t[]){3}, x, &input));
    assert_fine(weft_session_call(session, 1, &input, 3, outputs));
    assert_values(outputs[0], old);
    assert_values(outputs[1], next);
    for (int i = 0; i < 3; i++) weft_tensor_release(outputs[i]);
    weft_tensor_release(input);
}

/* Initial values, values kept between calls, a session of its own for each caller. */
START_TEST(test_states) {
    weft_graph *graph;
    weft_program *program;
    weft_session *session, *other;
    weft_tensor *total;
    assert_fine(test_sample_graph(context, test_sample_find("state"), &graph));
    assert_fine(weft_compile(graph, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_session_create(program, &other));
    call_state(session, (float[]){1, 2, 3}, (float[]){5, 6, 7}, (float[]){6, 8, 10});
    call_state(session, (float[]){1, 1, 1}, (float[]){6, 8, 10}, (float[]){7, 9, 11});
    call_state(other, (float[]){0, 0, 1}, (float[]){5, 6, 7}, (float[]){5, 6, 8});
    assert_fine(weft_session_read_state(session, "total", &total));
    assert_values(total, (float[]){13, 17, 21});
    weft_tensor_release(total);
    assert_fails(weft_session_read_state(session, "nothing", &total), WEFT_NOT_FOUND, "nothing");
    weft_session_release(session);
    weft_session_release(other);
    weft_program_release(program);
    weft_graph_release(graph);
}
END_TEST

Suite *samples_suite(void) {
    Suite *suite = suite_create("samples");
    TCase *tests = tcase_create("samples");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_samples_run);
    tcase_add_test(tests, test_no_rows);
    tcase_add_test(tests, test_states);
    suite_add_tcase(suite, tests);
    return suite;
}
