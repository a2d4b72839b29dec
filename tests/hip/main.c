/* The HIP driver against a runtime that executes code objects on this CPU. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/hip/testing.h"
#include "weft/compile.h"
#include "weft/graph.h"
#include "weft/ops.h"

#ifndef WEFT_FAKE_HIP
#define WEFT_FAKE_HIP "" /* built without LLVM: neither code nor an emulator */
#endif

enum { DEPTH = 24, WIDTH = 40, ROWS_MAX = 9 };

fake_hip_fail_function hip_fail;
fake_hip_live_function hip_live;
fake_hip_calls_function hip_calls;
fake_hip_reset_function hip_reset;
fake_hip_matrix_function hip_matrix;

void hip_use(const char *arch) {
    if (hip_live) return;
    setenv("WEFT_FAKE_HIP_ARCH", arch, 1);
    void *library = dlopen(WEFT_FAKE_HIP, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    *(void **)&hip_fail = dlsym(library, "fake_hip_fail");
    *(void **)&hip_live = dlsym(library, "fake_hip_live");
    *(void **)&hip_calls = dlsym(library, "fake_hip_calls");
    *(void **)&hip_reset = dlsym(library, "fake_hip_reset");
    *(void **)&hip_matrix = dlsym(library, "fake_hip_matrix");
    ck_assert(hip_fail && hip_live && hip_calls && hip_reset && hip_matrix);
}

static float weight(int i) { return (float)(i * 37 % 101 - 50) / 64; }
static float input(int call, int i) { return (float)((i * 29 + call * 13) % 83 - 41) / 32; }

static const char text[] =
    "graph @m {\n"
    "  symbol B in [1, 9] divisor 1\n"
    "  input %0 \"x\" : f32[B, 24]\n"
    "  input %1 \"w\" : f32[24, 40]\n"
    "  %2 = dot_general %0, %1 {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], dtype = f32, accumulate = f32} : f32[B, 40]\n"
    "  %3 = softmax %2 {axis = 1} : f32[B, 40]\n"
    "  output \"y\" %3\n"
    "}\n";

const char *hip_model(const char *arch) {
    static char path[64];
    if (path[0]) return path;
    weft_context *context;
    weft_graph *graph;
    char target[40];
    snprintf(target, sizeof target, "amdgcn:%s", arch);
    snprintf(path, sizeof path, "/tmp/weft-hip-%d.weft", (int)getpid());
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_graph_parse(context, text, sizeof text - 1, &graph));
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = target;
    assert_fine(weft_compile_file(graph, &options, path));
    weft_graph_release(graph);
    weft_context_release(context);
    return path;
}

static weft_status compare(int call, int rows, const float *y) {
    for (int r = 0; r < rows; r++) {
        double sums[WIDTH], most = -INFINITY, total = 0;
        for (int c = 0; c < WIDTH; c++) {
            sums[c] = 0;
            for (int k = 0; k < DEPTH; k++)
                sums[c] += (double)input(call, r * DEPTH + k) * (double)weight(k * WIDTH + c);
            most = fmax(most, sums[c]);
        }
        for (int c = 0; c < WIDTH; c++) total += exp(sums[c] - most);
        for (int c = 0; c < WIDTH; c++) {
            double expected = exp(sums[c] - most) / total, got = (double)y[r * WIDTH + c];
            if (!(fabs(got - expected) <= 1e-5 * expected + 1e-7))
                return WEFT_STATUS(WEFT_INVALID_DATA, "call %d: y[%d, %d] is %g, not %g", call, r, c, got, expected);
        }
    }
    return NULL;
}

static weft_status call_once(weft_context *context, weft_session *session, int call) {
    int64_t rows = call < 6 ? 7 : call % ROWS_MAX + 1, x_shape[2] = {rows, DEPTH}, w_shape[2] = {DEPTH, WIDTH};
    weft_tensor *inputs[2] = {0}, *y = NULL;
    weft_status status = weft_tensor_create(context, WEFT_F32, 2, x_shape, &inputs[0]);
    if (!status) status = weft_tensor_create(context, WEFT_F32, 2, w_shape, &inputs[1]);
    if (!status) {
        float *x = weft_tensor_data(inputs[0]), *w = weft_tensor_data(inputs[1]);
        for (int i = 0; i < (int)rows * DEPTH; i++) x[i] = input(call, i);
        for (int i = 0; i < DEPTH * WIDTH; i++) w[i] = weight(i);
        status = weft_session_call(session, 2, inputs, 1, &y);
    }
    if (!status) status = compare(call, (int)rows, weft_tensor_data(y));
    weft_tensor_release(y);
    weft_tensor_release(inputs[0]);
    weft_tensor_release(inputs[1]);
    return status;
}

weft_status hip_scenario(const char *arch, int calls) {
    const char *path = hip_model(arch);
    weft_context *context;
    weft_program *program = NULL;
    weft_session *session = NULL;
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    options.device = "amdgcn";
    WEFT_TRY(weft_context_create(NULL, &context), "scenario");
    weft_status status = weft_program_load(context, path, &options, &program);
    if (!status) status = weft_session_create(program, &session);
    for (int call = 0; call < calls && !status; call++) status = call_once(context, session, call);
    weft_session_release(session);
    weft_program_release(program);
    weft_context_release(context);
    return status;
}

int main(void) {
    if (!WEFT_FAKE_HIP[0]) return printf("no code for AMD GPUs in this build\n") > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    SRunner *runner = srunner_create(suite_conformance());
    srunner_add_suite(runner, suite_failures());
    srunner_add_suite(runner, suite_products());
    srunner_add_suite(runner, suite_rtc());
    srunner_add_suite(runner, suite_gradients());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
