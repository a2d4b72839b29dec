/* NULL at the door: a call that returns a status refuses a missing object, path or name; an op without an operand
   records a problem at its place, which verify returns. Each case runs in a process of its own: a crash names it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/compile.h"
#include "weft/dlpack.h"
#include "weft/nn.h"
#include "weft/npy.h"
#include "weft/onnx.h"
#include "weft/ops.h"
#include "weft/runtime.h"
#include "weft/safetensors.h"
#include "weft/train.h"
#include "weft/transform.h"

static weft_context *context;
static weft_graph *graph;
static weft_value *x;
static weft_tensor *tensor;
static const weft_dim shape[2] = {2, 3};
static int64_t axes[2] = {0, 1};

static void set_up(void) {
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_graph_create(context, "null", &graph));
    ck_assert_ptr_null(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){2, 3}, &tensor));
    x = weft_graph_input(graph, "x", WEFT_F32, 2, shape);
}

static void tear_down(void) {
    weft_tensor_release(tensor);
    weft_graph_release(graph);
    weft_context_release(context);
}

/* Results go here, whatever their type. */
static weft_graph *graph_out;
static weft_tensor *tensor_out;
static weft_program *program_out;
static weft_session *session_out;
static weft_function *function_out;
static weft_device *device_out;
static weft_safetensors *file_out;
static weft_dl_managed *managed_out;
static char *text_out;
static int64_t number_out;
static weft_parameters *parameters_out;
static weft_loader *loader_out;
static weft_tensor *const *batch_out;
static weft_corpus *corpus_out;
static weft_images *images_out;
static weft_train_result result_out;
static weft_train_options no_options = WEFT_TRAIN_OPTIONS_INIT;

#define STATUS_CASES(X)                                                                                                \
    X(weft_parameters_create(NULL, graph, NULL, &parameters_out))                                                      \
    X(weft_parameters_create(context, NULL, NULL, &parameters_out))                                                    \
    X(weft_loader_create(context, NULL, weft_corpus_fill, NULL, NULL, &loader_out))                                    \
    X(weft_loader_get(NULL, 0, &batch_out))                                                                            \
    X(weft_corpus_open(context, NULL, &corpus_out))                                                                    \
    X(weft_corpus_fill(NULL, 0, NULL))                                                                                 \
    X(weft_images_open_idx(context, "x", NULL, &images_out))                                                           \
    X(weft_images_fill(NULL, 0, NULL))                                                                                 \
    X(weft_checkpoint_write(context, NULL, NULL, "x", 0, 0))                                                           \
    X(weft_checkpoint_read(context, NULL, NULL, "x", &number_out))                                                     \
    X(weft_train(context, NULL, &result_out))                                                                          \
    X(weft_train(context, &no_options, &result_out))                                                                   \
    X(weft_train_report(context, "x", NULL))                                                                           \
    X(weft_compile(NULL, NULL, &program_out))                                                                          \
    X(weft_compile_file(NULL, NULL, "/tmp/null.weft"))                                                                 \
    X(weft_compile_file(graph, NULL, NULL))                                                                            \
    X(weft_compile_artifact(NULL, "x.weft", NULL, &program_out))                                                       \
    X(weft_compile_artifact(context, NULL, NULL, &program_out))                                                        \
    X(weft_function_create(NULL, NULL, &function_out))                                                                 \
    X(weft_function_call(NULL, 0, NULL, 0, NULL))                                                                      \
    X(weft_device_open(NULL, "cpu", &device_out))                                                                      \
    X(weft_device_open(context, NULL, &device_out))                                                                    \
    X(weft_device_report(NULL, &text_out))                                                                             \
    X(weft_tensor_to_dlpack(NULL, &managed_out))                                                                       \
    X(weft_tensor_from_dlpack(context, NULL, &tensor_out))                                                             \
    X(weft_graph_create(NULL, "g", &graph_out))                                                                        \
    X(weft_graph_verify(NULL))                                                                                         \
    X(weft_graph_print(NULL, &text_out))                                                                               \
    X(weft_graph_parse(NULL, "", 0, &graph_out))                                                                       \
    X(weft_graph_parse(context, NULL, 5, &graph_out))                                                                  \
    X(weft_graph_interpret(NULL, 0, NULL, 0, NULL))                                                                    \
    X(weft_npy_read(NULL, "x.npy", &tensor_out))                                                                       \
    X(weft_npy_read(context, NULL, &tensor_out))                                                                       \
    X(weft_npy_write(context, NULL, tensor))                                                                           \
    X(weft_npy_write(context, "/tmp/null.npy", NULL))                                                                  \
    X(weft_program_load(NULL, "x.weft", NULL, &program_out))                                                           \
    X(weft_program_load(context, NULL, NULL, &program_out))                                                            \
    X(weft_program_memory(NULL, 0, NULL, &number_out, &number_out))                                                    \
    X(weft_session_create(NULL, &session_out))                                                                         \
    X(weft_session_call(NULL, 0, NULL, 0, NULL))                                                                       \
    X(weft_session_read_state(NULL, "s", &tensor_out))                                                                 \
    X(weft_session_write_state(NULL, "s", tensor))                                                                     \
    X(weft_session_copy_states(NULL, NULL))                                                                            \
    X(weft_safetensors_open(NULL, "x.safetensors", &file_out))                                                         \
    X(weft_safetensors_open(context, NULL, &file_out))                                                                 \
    X(weft_safetensors_get(NULL, 0, &tensor_out))                                                                      \
    X(weft_safetensors_write(context, NULL, 0, NULL, NULL, 0, NULL, NULL))                                             \
    X(weft_tensor_create(NULL, WEFT_F32, 0, NULL, &tensor_out))                                                        \
    X(weft_tensor_create(context, WEFT_F32, 1, NULL, &tensor_out))                                                     \
    X(weft_tensor_create_copy(NULL, WEFT_F32, 0, NULL, "1234", &tensor_out))                                           \
    X(weft_tensor_create_copy(context, WEFT_F32, 0, NULL, NULL, &tensor_out))                                          \
    X(weft_tensor_wrap(NULL, WEFT_F32, 0, NULL, NULL, axes, NULL, NULL, &tensor_out))                                  \
    X(weft_tensor_wrap(context, WEFT_F32, 1, NULL, NULL, axes, NULL, NULL, &tensor_out))                               \
    X(weft_tensor_wrap(context, WEFT_F32, 1, axes + 1, NULL, NULL, NULL, NULL, &tensor_out))                           \
    X(weft_graph_interpret(graph, 1, NULL, 0, NULL))                                                                   \
    X(weft_graph_interpret(graph, 0, NULL, 1, NULL))                                                                   \
    X(weft_safetensors_write(context, "/tmp/null.safetensors", 1, NULL, NULL, 0, NULL, NULL))

#define ONNX_CASES(X)                                                                                                  \
    X(weft_onnx_import(NULL, "x.onnx", NULL, &graph_out))                                                              \
    X(weft_onnx_import(context, NULL, NULL, &graph_out))                                                               \
    X(weft_onnx_import_memory(NULL, "", 0, NULL, NULL, &graph_out))                                                    \
    X(weft_onnx_import_memory(context, NULL, 9, NULL, NULL, &graph_out))                                               \
    X(weft_onnx_audit(NULL, "x.onnx", &text_out))                                                                      \
    X(weft_onnx_audit(context, NULL, &text_out))                                                                       \
    X(weft_onnx_tensor_read(NULL, "", 0, &tensor_out, NULL))                                                           \
    X(weft_onnx_operator_table(NULL, &text_out))

#define VALUE_CASES(X)                                                                                                 \
    X(weft_abs(graph, NULL))                                                                                           \
    X(weft_relu(graph, NULL))                                                                                          \
    X(weft_square(graph, NULL))                                                                                        \
    X(weft_clip(graph, NULL, 0, 1))                                                                                    \
    X(weft_gelu(graph, NULL, false))                                                                                   \
    X(weft_leaky_relu(graph, NULL, 0.5))                                                                               \
    X(weft_convert(graph, NULL, WEFT_F32))                                                                             \
    X(weft_bitcast(graph, NULL, WEFT_F32))                                                                             \
    X(weft_add(graph, x, NULL))                                                                                        \
    X(weft_add(graph, NULL, x))                                                                                        \
    X(weft_mod(graph, x, NULL))                                                                                        \
    X(weft_pow(graph, NULL, NULL))                                                                                     \
    X(weft_complex(graph, x, NULL))                                                                                    \
    X(weft_compare(graph, WEFT_LT, x, NULL))                                                                           \
    X(weft_where(graph, NULL, x, x))                                                                                   \
    X(weft_add_number(graph, NULL, 1))                                                                                 \
    X(weft_mul_number(graph, NULL, 1))                                                                                 \
    X(weft_reshape(graph, NULL, 2, shape))                                                                             \
    X(weft_reshape(graph, x, 2, NULL))                                                                                 \
    X(weft_transpose(graph, NULL, axes))                                                                               \
    X(weft_broadcast_to(graph, NULL, 2, shape))                                                                        \
    X(weft_broadcast_to(graph, x, 2, NULL))                                                                            \
    X(weft_squeeze(graph, NULL, 1, axes))                                                                              \
    X(weft_unsqueeze(graph, NULL, 1, axes))                                                                            \
    X(weft_flatten(graph, NULL, 0))                                                                                    \
    X(weft_slice_axis(graph, NULL, 0, 0, 1))                                                                           \
    X(weft_reverse(graph, NULL, 1, axes))                                                                              \
    X(weft_concat(graph, 0, 2, (weft_value *[]){x, NULL}))                                                             \
    X(weft_stack(graph, 0, 2, (weft_value *[]){NULL, x}))                                                              \
    X(weft_triangle(graph, NULL, true, NULL))                                                                          \
    X(weft_take(graph, NULL, x, 0))                                                                                    \
    X(weft_take(graph, x, NULL, 0))                                                                                    \
    X(weft_embedding(graph, NULL, NULL))                                                                               \
    X(weft_take_along(graph, x, NULL, 0))                                                                              \
    X(weft_gather_nd(graph, x, NULL))                                                                                  \
    X(weft_scatter_nd(graph, WEFT_SUM, x, NULL, x))                                                                    \
    X(weft_one_hot(graph, NULL, 3, 0, x, x))                                                                           \
    X(weft_reduce_sum(graph, NULL, 1, axes, false))                                                                    \
    X(weft_reduce_sum(graph, x, 1, NULL, false))                                                                       \
    X(weft_reduce_mean(graph, NULL, 0, NULL, true))                                                                    \
    X(weft_reduce_variance(graph, NULL, 1, axes, true))                                                                \
    X(weft_reduce_log_sum_exp(graph, NULL, 1, axes, true))                                                             \
    X(weft_arg_reduce(graph, WEFT_MAX, NULL, 0, false, false))                                                         \
    X(weft_cumulative(graph, WEFT_SUM, NULL, 0, false, false))                                                         \
    X(weft_softmax(graph, NULL, -1))                                                                                   \
    X(weft_layer_norm(graph, NULL, NULL, NULL, 1, axes, 1e-5))                                                         \
    X(weft_rms_norm(graph, NULL, NULL, 1, axes, 1e-5))                                                                 \
    X(weft_cross_entropy(graph, NULL, NULL))                                                                           \
    X(weft_matmul(graph, x, NULL))                                                                                     \
    X(weft_matmul(graph, NULL, x))                                                                                     \
    X(weft_convolution(graph, x, NULL, NULL))                                                                          \
    X(weft_max_pool(graph, NULL, NULL))                                                                                \
    X(weft_average_pool(graph, x, NULL))                                                                               \
    X(weft_attention(graph, NULL, NULL, NULL, NULL, NULL))                                                             \
    X(weft_rope(graph, NULL, x, x, false))                                                                             \
    X(weft_fft(graph, NULL, 0, false))                                                                                 \
    X(weft_cholesky(graph, NULL, true))                                                                                \
    X(weft_rng_bits(graph, NULL, WEFT_U32, 2, shape))                                                                  \
    X(weft_random_normal(graph, NULL, WEFT_F32, 2, shape, 0, 1))                                                       \
    X(weft_state_read(graph, NULL))                                                                                    \
    X(weft_optimization_barrier(graph, NULL))                                                                          \
    X(weft_nn_linear(graph, NULL, x, x))                                                                               \
    X(weft_stop_gradient(graph, NULL))                                                                                 \
    X(weft_graph_constant(graph, NULL))                                                                                \
    X(weft_graph_input(graph, "n", WEFT_F32, 2, NULL))

/* By position in the lists. */
static weft_status call_status(int number) {
    int n = 0;
#define X(call)                                                                                                        \
    if (n++ == number) return call;
    STATUS_CASES(X)
#if WEFT_HAVE_ONNX
    ONNX_CASES(X)
#endif
#undef X
    return NULL;
}
static weft_value *call_value(int number) {
    int n = 0;
#define X(call)                                                                                                        \
    if (n++ == number) return call;
    VALUE_CASES(X)
#undef X
    return NULL;
}
#define X(call) #call,
static const char *const status_texts[] = {STATUS_CASES(X)
#if WEFT_HAVE_ONNX
                                               ONNX_CASES(X)
#endif
};
static const char *const value_texts[] = {VALUE_CASES(X)};
#undef X

START_TEST(test_status) {
    printf("%s\n", status_texts[_i]); /* the last line names a crash */
    fflush(stdout);
    weft_status status = call_status(_i);
    ck_assert_msg(weft_status_code(status) == WEFT_INVALID_ARGUMENT, "%s: %s", status_texts[_i],
                  weft_code_name(weft_status_code(status)));
    ck_assert_msg(strstr(weft_status_message(status), "missing") != NULL, "%s: %s", status_texts[_i],
                  weft_status_message(status));
    weft_status_release(status);
}
END_TEST

START_TEST(test_value) {
    printf("%s\n", value_texts[_i]);
    fflush(stdout);
    weft_value *value = call_value(_i);
    ck_assert_msg(value != NULL && weft_value_dtype(value) == WEFT_INVALID, "%s: a value", value_texts[_i]);
    weft_status status = weft_graph_verify(graph);
    ck_assert_msg(weft_status_code(status) == WEFT_INVALID_ARGUMENT, "%s: %s", value_texts[_i],
                  weft_code_name(weft_status_code(status)));
    weft_status_release(status);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("api");
    TCase *tests = tcase_create("missing");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_status, 0, (int)(sizeof status_texts / sizeof *status_texts));
    tcase_add_loop_test(tests, test_value, 0, (int)(sizeof value_texts / sizeof *value_texts));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
