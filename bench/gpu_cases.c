/* Small cases of every family of kernels, each compiled, called until its recording is replayed, and dropped: something
   to run under a tool that watches memory and barriers (gpu_models.sh --part sanitizer). Results are not compared here;
   bench/gpu.sh --part test does that. One line a case; last line "cases: N of M ran". Read next: tests/cuda/cases.h. */
#include <stdio.h>
#include <string.h>

#include "tests/cuda/cases.h"
#include "weft/compile.h"
#include "weft/device.h"
#include "weft/graph.h"

enum { NUMBERS_MAX = 12, PORTS_MAX = 16, CALLS = 4 };

static const struct {
    const char *name;
    int count;
    int64_t numbers[NUMBERS_MAX];
} cases[] = {{"matmul", 6, {300, 520, 200, 1, 0, 0}},
             {"matmul", 6, {129, 257, 33, 0, 1, 0}},
             {"matmul", 6, {301, 523, 201, 2, 0, 1}},
             {"matmul", 6, {2304, 264, 128, 1, 0, 0}},
             {"matmul", 6, {7, 136, 4096, 1, 0, 0}},
             {"matmul", 6, {129, 257, 48, 0, 2, 3}},
             {"matmul", 6, {300, 520, 200, 1, 0, 10}},
             {"matmul", 6, {129, 257, 33, 2, 0, 2}},
             {"scaled_dot", 5, {129, 577, 400, 1, 3}},
             {"ragged_dot", 6, {300, 5, 72, 136, 1, 0}},
             {"ragged_dot", 6, {190, 5, 67, 70, 2, 0}},
             {"ragged_dot", 6, {300, 5, 72, 136, 0, 0}},
             {"attention", 8, {1, 2, 1, 300, 300, 128, 1, 0}},
             {"attention", 8, {1, 2, 2, 193, 127, 64, 0, 1}},
             {"attention", 8, {2, 8, 2, 1, 1000, 128, 0, 0}},
             {"attention_form", 12, {1, 2, 1, 127, 129, 64, 0, 0, 20, 9, 0, 0}},
             {"attention_form", 12, {1, 4, 2, 384, 384, 128, 1, 0, -1, -1, 0, 4}},
             {"attention_backward", 8, {1, 2, 1, 300, 300, 128, 1, 0}},
             {"attention_backward", 8, {1, 2, 2, 200, 333, 64, 0, 1}},
             {"convolution_half", 8, {2, 64, 72, 14, 3, 1, 1, 1}},
             {"convolution", 8, {1, 32, 32, 29, 3, 1, 1, 32}},
             {"softmax", 3, {9, 50304, 0}},
             {"layer_norm", 3, {33, 257, 0}},
             {"cross_entropy", 2, {301, 768}},
             {"sum", 1, {65537}},
             {"mlp", 4, {129, 5, 33, 4}}};

/* Floats below 1 in size; integers 0 or 1, which are labels, segments and truths; lists of i32 are offsets of groups,
   some of them empty. */
static void fill(weft_tensor *tensor, uint64_t *random) {
    unsigned char *data = weft_tensor_data(tensor);
    int64_t count = weft_tensor_element_count(tensor);
    size_t bytes = weft_tensor_bytes(tensor) / (size_t)(count ? count : 1);
    for (int64_t i = 0; i < count; i++) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t draw = (uint32_t)(*random >> 32), sign = draw >> 31, value = draw & 1;
        switch ((int)weft_tensor_dtype(tensor)) { /* in [0.5, 1), of either sign */
        case WEFT_F32: value = sign << 31 | 126u << 23 | (draw & 0x7fffff); break;
        case WEFT_BF16: value = sign << 15 | 126u << 7 | (draw & 0x7f); break;
        case WEFT_F16:
        case WEFT_F8E5M2: value = sign << 15 | 14u << 10 | (draw & 0x3ff); break;
        case WEFT_F8E4M3FN: value = sign << 7 | 6u << 3 | (draw & 7); break;
        case WEFT_I32: value = weft_tensor_rank(tensor) == 1 ? (uint32_t)(3 + 61 * (i - i / 3)) : value; break;
        default: break;
        }
        if (weft_tensor_dtype(tensor) == WEFT_F8E5M2) value >>= 8; /* the upper half of an f16 */
        memset(data + (size_t)i * bytes, 0, bytes);
        memcpy(data + (size_t)i * bytes, &value, bytes < sizeof value ? bytes : sizeof value);
    }
}

static weft_status call(weft_context *context, weft_program *program) {
    weft_tensor *inputs[PORTS_MAX] = {0}, *outputs[PORTS_MAX] = {0};
    weft_session *session = NULL;
    uint64_t random = 3;
    int input_count = weft_program_input_count(program), output_count = weft_program_output_count(program);
    if (input_count > PORTS_MAX || output_count > PORTS_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many ports");
    weft_status status = weft_session_create(program, &session);
    for (int i = 0; i < input_count && !status; i++) {
        weft_port_info info;
        weft_program_input(program, i, &info);
        status = weft_tensor_create(context, info.dtype, info.rank, info.shape, &inputs[i]);
        if (!status) fill(inputs[i], &random);
    }
    for (int n = 0; n < CALLS && !status; n++) {
        status = weft_session_call(session, input_count, inputs, output_count, outputs);
        for (int i = 0; i < output_count; i++) weft_tensor_release(outputs[i]), outputs[i] = NULL;
    }
    for (int i = 0; i < input_count; i++) weft_tensor_release(inputs[i]);
    weft_session_release(session);
    return status;
}

static weft_status run(weft_context *context, int number) {
    const int64_t *numbers = cases[number].numbers;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    weft_graph *graph = NULL;
    weft_program *program = NULL;
    options.targets = "cuda:0";
    if (!strcmp(cases[number].name, "matmul") && numbers[5] & 8) options.relax = WEFT_RELAX_F32_PRODUCTS;
    weft_status status = weft_bench_graph(context, cases[number].name, cases[number].count, numbers, &graph);
    if (!status) status = weft_compile(graph, &options, &program);
    if (!status) status = call(context, program);
    weft_program_release(program);
    weft_graph_release(graph);
    return status;
}

int main(void) {
    int count = sizeof cases / sizeof *cases, right = 0;
    weft_context *context = NULL;
    weft_status status = weft_context_create(NULL, &context);
    for (int i = 0; i < count && !status; i++) {
        char text[1500] = "";
        weft_status own = run(context, i);
        if (own) (void)weft_status_format(own, text, sizeof text);
        printf("%-8s %s", own ? "FAILED" : "ran", cases[i].name);
        for (int n = 0; n < cases[i].count; n++) printf(" %lld", (long long)cases[i].numbers[n]);
        printf("%s%s\n", own ? ": " : "", text);
        fflush(stdout);
        right += !own;
        weft_status_release(own);
    }
    weft_status_release(status);
    weft_context_release(context);
    printf("cases: %d of %d ran\n", right, count);
    return right == count ? 0 : 1;
}
