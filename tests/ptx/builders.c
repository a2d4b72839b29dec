/* Kernels of every portable builder at small extents: graph -> compiled for sm_80 -> PTX -> the CUDA driver on the
   interpreted card, against the graph interpreter. Needs NVRTC; without it a line says so. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/tensor.h"
#include "codegen/cuda/nvrtc.h"
#include "compile/unit.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/harness.h"
#include "tests/support/status.h"
#include "weft/runtime.h"

static const struct {
    const char *name;
    int count;
    int64_t numbers[12];
    double tolerance; /* relative to 1 + |value| */
} rows[] = {
    {"pointwise", 1, {5003}, 1e-5},
    {"copy", 1, {1021}, 0},
    {"sum", 1, {40007}, 1e-3},
    {"softmax", 3, {33, 257, 2}, 1e-5},
    {"softmax", 3, {5, 768, 0}, 0.01},
    {"layer_norm", 3, {7, 264, 0}, 0.04},
    {"rms_norm", 3, {3, 2056, 2}, 1e-4},
    {"cross_entropy", 2, {3, 1032}, 1e-4},
    {"matmul", 6, {70, 67, 19, 0, 0, 2}, 1e-4},
    {"matmul", 6, {66, 3, 8, 2, 1, 2}, 1e-4},
    {"matmul", 6, {130, 136, 72, 1, 0, 0}, 0.01},
    {"matmul", 6, {70, 72, 136, 0, 1, 1}, 0.01},
    {"matmul", 6, {67, 75, 69, 2, 0, 0}, 0.01},
    {"matmul", 6, {66, 68, 330, 0, 0, 0}, 0.01},
    {"matmul", 6, {66, 130, 34, 0, 1, 10}, 0.02},
    {"matmul", 6, {33, 35, 41, 2, 2, 5}, 0.02},
    {"matmul_batched", 5, {3, 66, 70, 40, 0}, 0.01},
    {"convolution", 8, {1, 4, 6, 9, 3, 2, 1, 2}, 1e-4},
    {"convolution", 8, {2, 3, 5, 7, 1, 1, 0, 1}, 1e-4},
    {"convolution_half", 8, {1, 6, 33, 9, 3, 2, 1, 1}, 0.02},
    {"convolution_half", 8, {2, 64, 72, 6, 1, 1, 0, 2}, 0.02},
    {"attention", 8, {1, 2, 1, 37, 45, 64, 1, 0}, 0.02},
    {"attention_tokens", 6, {1, 2, 33, 64, 0, 0}, 0.02},
    {"mlp", 4, {70, 2, 64, 3}, 1e-4},
};
enum { ROWS = sizeof rows / sizeof *rows, TENSORS = 8 };

static bool has_compiler(weft_context *context) {
    weft_nvrtc *nvrtc;
    weft_status missing = weft_nvrtc_open(context, &nvrtc);
    if (missing) printf("  skipped: %s\n", weft_status_message(missing));
    if (!missing) weft_nvrtc_close(nvrtc);
    weft_status_release(missing);
    return !missing;
}

static void compare(int row, int output, const weft_tensor *want, const weft_tensor *got) {
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = weft_element_double(want->dtype, want->data, i), b = weft_element_double(got->dtype, got->data, i);
        ck_assert_msg(fabs(a - b) <= rows[row].tolerance * (1 + fabs(a)), "%s output %d element %lld: %g instead of %g",
                      rows[row].name, output, (long long)i, b, a);
    }
}

static void run(weft_context *context, weft_graph *graph, int row, int inputs, weft_tensor **tensors, int outputs,
                weft_tensor **got) {
    weft_capability card =
        weft_bench_capability(weft_capability_find("cuda", "sm_80"), rows[row].name, rows[row].numbers);
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    weft_device *device;
    weft_unit *unit;
    weft_program *program;
    weft_session *session;
    assert_fine(weft_device_open(context, "cuda", &device));
    assert_fine(weft_unit_compile(graph, NULL, &card, &options, &unit));
    assert_fine(weft_unit_load(unit, device, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_session_call(session, inputs, tensors, outputs, got));
    weft_session_release(session);
    weft_program_release(program);
    weft_device_release(device);
}

START_TEST(each_builder) {
    weft_context *context;
    weft_graph *graph;
    weft_tensor *tensors[TENSORS] = {0}, *want[TENSORS] = {0}, *got[TENSORS] = {0};
    uint64_t state = 1;
    /* its name is the first that the driver asks for, so that the driver is served with it */
    ck_assert_msg(dlopen(WEFT_FAKE_CUDA, RTLD_NOW) != NULL, "%s", dlerror());
    (void)setenv("WEFT_POISON", "1", 1);
    assert_fine(weft_context_create(NULL, &context));
    if (!has_compiler(context)) {
        weft_context_release(context);
        return;
    }
    assert_fine(weft_bench_graph(context, rows[_i].name, rows[_i].count, rows[_i].numbers, &graph));
    int inputs = weft_graph_input_count(graph), outputs = weft_graph_output_count(graph);
    for (int i = 0; i < inputs; i++) tensors[i] = cuda_random_tensor(context, weft_graph_input_value(graph, i), &state);
    assert_fine(weft_graph_interpret(graph, inputs, tensors, outputs, want));
    run(context, graph, _i, inputs, tensors, outputs, got);
    for (int i = 0; i < outputs; i++) compare(_i, i, want[i], got[i]);
    for (int i = 0; i < inputs; i++) weft_tensor_release(tensors[i]);
    for (int i = 0; i < outputs; i++) weft_tensor_release(want[i]), weft_tensor_release(got[i]);
    weft_graph_release(graph);
    weft_context_release(context);
}
END_TEST

/* -- recordings: calls with the same shapes are replayed as a graph, its free nodes in another order each time */

static const char branches[] =
    "graph @m {\n"
    "  input %0 \"x\" : f32[37, 40]\n"
    "  input %1 \"w\" : f32[40, 40]\n"
    "  %2 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32, accumulate = f32} : f32[37, 40]\n"
    "  %3 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32, accumulate = f32} : f32[37, 40]\n"
    "  %4 = softmax %2 {axis = 1} : f32[37, 40]\n"
    "  %5 = softmax %3 {axis = 0} : f32[37, 40]\n"
    "  %6 = dot_general %4, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32, accumulate = f32} : f32[37, 40]\n"
    "  %7 = dot_general %5, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32, accumulate = f32} : f32[37, 40]\n"
    "  %8 = mul %6, %7 : f32[37, 40]\n"
    "  output \"y\" %8\n"
    "}\n";

START_TEST(recordings) {
    enum { CALLS = 12 };
    weft_context *context;
    weft_graph *graph;
    weft_device *device;
    weft_unit *unit;
    weft_program *program;
    weft_session *session;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    void *library = dlopen(WEFT_FAKE_CUDA, RTLD_NOW);
    int (*replays)(void), (*transfers)(void);
    ck_assert_msg(library != NULL, "%s", dlerror());
    *(void **)&replays = dlsym(library, "card_graph_launches");
    *(void **)&transfers = dlsym(library, "card_transfers");
    assert_fine(weft_context_create(NULL, &context));
    if (!has_compiler(context)) {
        weft_context_release(context);
        return;
    }
    assert_fine(weft_graph_parse(context, branches, sizeof branches - 1, &graph));
    assert_fine(weft_device_open(context, "cuda", &device));
    assert_fine(weft_unit_compile(graph, NULL, weft_capability_find("cuda", "sm_80"), &options, &unit));
    assert_fine(weft_unit_load(unit, device, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    uint64_t state = 9;
    int before = transfers();
    for (int call = 0; call < CALLS; call++) {
        weft_tensor *tensors[2], *want, *got = NULL;
        for (int i = 0; i < 2; i++) tensors[i] = cuda_random_tensor(context, weft_graph_input_value(graph, i), &state);
        assert_fine(weft_graph_interpret(graph, 2, tensors, 1, &want));
        assert_fine(weft_session_call(session, 2, tensors, 1, &got));
        for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
            double a = weft_element_double(WEFT_F32, want->data, i), b = weft_element_double(WEFT_F32, got->data, i);
            ck_assert_msg(fabs(a - b) <= 1e-4 * (1 + fabs(a)), "call %d element %lld: %g instead of %g", call,
                          (long long)i, b, a);
        }
        weft_tensor_release(tensors[0]);
        weft_tensor_release(tensors[1]);
        weft_tensor_release(want);
        weft_tensor_release(got);
    }
    ck_assert_msg(replays() >= CALLS / 2, "%d replays of %d calls", replays(), CALLS);
    int sent = transfers() - before, apart = 2 * (CALLS - replays()); /* two inputs in one copy, one result */
    ck_assert_msg(sent == apart, "%d copies for %d calls without a recording", sent, CALLS - replays());
    weft_session_release(session);
    weft_program_release(program);
    weft_device_release(device);
    weft_graph_release(graph);
    weft_context_release(context);
}
END_TEST

void add_builder_tests(Suite *suite) {
    TCase *tests = tcase_create("builders");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, each_builder, 0, ROWS);
    tcase_add_test(tests, recordings);
    suite_add_tcase(suite, tests);
}
