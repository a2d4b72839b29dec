/* NULL at the door: a call that returns a status refuses a missing object, path or name; an op without an operand
   records a problem at its place, which verify returns. Each case runs in a process of its own: a crash names it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/api.h"
#include "weft/compile.h"
#include "weft/dlpack.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/npy.h"
#include "weft/onnx.h"
#include "weft/ops.h"
#include "weft/optim.h"
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

static weft_value *value_out[4];
static const weft_dim foreign = -123456789;
static weft_parameter parameter = {.name = "p"}, no_parameter;
static weft_optim_options no_rate = {.struct_bytes = sizeof no_rate},
                          wrong_method = {.struct_bytes = sizeof wrong_method, .method = (weft_optim_method)-7};
static weft_rate_schedule wrong_schedule = {.struct_bytes = sizeof wrong_schedule, .kind = (weft_rate_schedule_kind)99};

static void set_up(void) {
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_graph_create(context, "null", &graph));
    ck_assert_ptr_null(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){2, 3}, &tensor));
    x = weft_graph_input(graph, "x", WEFT_F32, 2, shape);
    parameter.value = x;
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

/* Lists with a missing entry. */
static const char *const no_name[1], *const one_name[1] = {"a"};
static weft_tensor *const no_tensor[1];
static weft_onnx_options one_constant = WEFT_ONNX_OPTIONS_INIT;
static weft_tensor **twice(void) {
    static weft_tensor *list[2];
    list[0] = list[1] = tensor;
    return list;
}
static weft_onnx_options *with_constants(int count, const char *const *names, weft_tensor *const *tensors) {
    one_constant.constant_count = count, one_constant.constant_names = names, one_constant.constants = tensors;
    return &one_constant;
}

#define STATUS_CASES(X)                                                                                                \
    X(weft_parameters_create(NULL, graph, NULL, &parameters_out))                                                      \
    X(weft_parameters_create(context, NULL, NULL, &parameters_out))                                                    \
    X(weft_loader_create(context, NULL, weft_corpus_fill, NULL, NULL, &loader_out))                                    \
    X(weft_loader_get(NULL, 0, &batch_out))                                                                            \
    X(weft_corpus_open(context, NULL, &corpus_out))                                                                    \
    X(weft_corpus_fill(NULL, 0, NULL))                                                                                 \
    X(weft_images_open_idx(context, "x", NULL, &images_out))                                                           \
    X(weft_images_open_cifar(context, 1, NULL, &images_out))                                                           \
    X(weft_images_open_folder(context, NULL, true, &images_out))                                                       \
    X(weft_images_fill(NULL, 0, NULL))                                                                                 \
    X(weft_sequences_create(NULL, NULL, NULL))                                                                         \
    X(weft_sequences_fill(NULL, 0, NULL))                                                                              \
    X(weft_sequences_batch_length(NULL, 0, 0, 0, NULL))                                                                \
    X(weft_sequences_padding(NULL, 0, 0, 0, NULL))                                                                     \
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
    X(weft_safetensors_write(context, "/tmp/null.safetensors", 1, NULL, NULL, 0, NULL, NULL))                          \
    X(weft_safetensors_write(context, "/tmp/null.safetensors", 1, no_name, twice(), 0, NULL, NULL))                    \
    X(weft_safetensors_write(context, "/tmp/null.safetensors", 1, one_name, no_tensor, 0, NULL, NULL))                 \
    X(weft_safetensors_write(context, "/tmp/null.safetensors", 1, one_name, twice(), 1, one_name, no_name))            \
    X(weft_compile_web(NULL, NULL, "/tmp/null-web"))                                                                   \
    X(weft_compile_web(graph, NULL, NULL))                                                                             \
    X(weft_compile(graph, NULL, NULL))                                                                                 \
    X(weft_compile_artifact(context, "x.weft", NULL, NULL))                                                            \
    X(weft_function_create(graph, NULL, NULL))                                                                         \
    X(weft_context_create(NULL, NULL))                                                                                 \
    X(weft_device_open(context, "cpu", NULL))                                                                          \
    X(weft_device_report(context, NULL))                                                                               \
    X(weft_tensor_to_dlpack(tensor, NULL))                                                                             \
    X(weft_graph_create(context, "g", NULL))                                                                           \
    X(weft_graph_print(graph, NULL))                                                                                   \
    X(weft_graph_parse(context, "", 0, NULL))                                                                          \
    X(weft_npy_read(context, "x.npy", NULL))                                                                           \
    X(weft_program_load(context, "x.weft", NULL, NULL))                                                                \
    X(weft_session_create(NULL, NULL))                                                                                 \
    X(weft_safetensors_open(context, "x", NULL))                                                                       \
    X(weft_tensor_create(context, WEFT_F32, 2, shape, NULL))                                                           \
    X(weft_tensor_create_copy(context, WEFT_F32, 0, NULL, "1234", NULL))                                               \
    X(weft_tensor_wrap(context, WEFT_F32, 0, NULL, NULL, axes, NULL, NULL, NULL))                                      \
    X(weft_parameters_create(context, graph, NULL, NULL))                                                              \
    X(weft_loader_create(context, NULL, weft_corpus_fill, NULL, NULL, NULL))                                           \
    X(weft_corpus_open(context, "x", NULL))                                                                            \
    X(weft_images_open_idx(context, "x", "y", NULL))                                                                   \
    X(weft_images_open_folder(context, "x", true, NULL))                                                               \
    X(weft_checkpoint_read(context, NULL, NULL, "x", NULL))                                                            \
    X(weft_train(context, &no_options, NULL))

#define ONNX_CASES(X)                                                                                                  \
    X(weft_onnx_import(NULL, "x.onnx", NULL, &graph_out))                                                              \
    X(weft_onnx_import(context, NULL, NULL, &graph_out))                                                               \
    X(weft_onnx_import_memory(NULL, "", 0, NULL, NULL, &graph_out))                                                    \
    X(weft_onnx_import_memory(context, NULL, 9, NULL, NULL, &graph_out))                                               \
    X(weft_onnx_audit(NULL, "x.onnx", &text_out))                                                                      \
    X(weft_onnx_audit(context, NULL, &text_out))                                                                       \
    X(weft_onnx_tensor_read(NULL, "", 0, &tensor_out, NULL))                                                           \
    X(weft_onnx_operator_table(NULL, &text_out))                                                                       \
    X(weft_onnx_import(context, "x.onnx", NULL, NULL))                                                                 \
    X(weft_onnx_audit(context, "x.onnx", NULL))                                                                        \
    X(weft_onnx_operator_table(context, NULL))                                                                         \
    X(weft_onnx_import_memory(context, "", 0, NULL, with_constants(1, NULL, NULL), &graph_out))                        \
    X(weft_onnx_import_memory(context, "", 0, NULL, with_constants(1, no_name, twice()), &graph_out))                  \
    X(weft_onnx_import_memory(context, "", 0, NULL, with_constants(1, one_name, no_tensor), &graph_out))

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
    X(weft_ragged_dot(graph, x, NULL, x, 1, WEFT_INVALID))                                                             \
    X(weft_scaled_dot(graph, x, x, NULL, x, NULL))                                                                     \
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
    X(weft_graph_input(graph, "n", WEFT_F32, 2, NULL))                                                                 \
    X(weft_graph_input(graph, NULL, WEFT_F32, 2, shape))                                                               \
    X(weft_graph_input(graph, "n", WEFT_F32, 1, &foreign))                                                             \
    X(weft_compare(graph, (weft_comparison) - 7, x, x))                                                                \
    X(weft_compare(graph, (weft_comparison)99, x, x))                                                                  \
    X(weft_loss_cross_entropy(graph, NULL, NULL, NULL))                                                                \
    X(weft_loss_linear_cross_entropy(graph, NULL, x, NULL, 0, NULL))                                                   \
    X(weft_loss_linear_cross_entropy(graph, x, NULL, NULL, 3, NULL))                                                   \
    X(weft_loss_binary_cross_entropy(graph, NULL, x))                                                                  \
    X(weft_loss_focal(graph, NULL, x, 0.5, 2))                                                                         \
    X(weft_loss_huber(graph, NULL, NULL, 1))                                                                           \
    X(weft_loss_distillation(graph, NULL, NULL, NULL, 1, 1))                                                           \
    X(weft_loss_nt_xent(graph, NULL, NULL, 1))                                                                         \
    X(weft_loss_info_nce(graph, NULL, x, 1))                                                                           \
    X(weft_loss_sup_con(graph, NULL, NULL, 1))                                                                         \
    X(weft_loss_barlow_twins(graph, NULL, NULL, 1))                                                                    \
    X(weft_nn_self_attention(graph, x, NULL, 2, NULL, false, 0, NULL))                                                 \
    X(weft_nn_mean_pool(graph, NULL, NULL))                                                                            \
    X(weft_nn_bert(graph, NULL, NULL, NULL, NULL))                                                                     \
    X(weft_nn_vit(graph, NULL, NULL, NULL))

/* Calls without a result, or with results that stay what they were. */
#define PROBLEM_CASES(X)                                                                                               \
    X(weft_sort(graph, 1, &x, 0, false, false, NULL))                                                                  \
    X(weft_top_k(graph, x, 1, 0, true, NULL, NULL))                                                                    \
    X(weft_nonzero(graph, x, NULL, NULL, NULL))                                                                        \
    X(weft_qr(graph, x, NULL, NULL))                                                                                   \
    X(weft_eigh(graph, x, NULL, NULL))                                                                                 \
    X(weft_while(graph, 1, &x, 0, NULL, NULL, NULL, value_out))                                                        \
    X(weft_while(graph, 1, &x, 0, NULL, NULL, NULL, NULL))                                                             \
    X(weft_cond(graph, x, NULL, NULL, NULL, 1, value_out))                                                             \
    X(weft_scan(graph, 1, NULL, 1, NULL, 1, false, NULL, NULL, 1, value_out))                                          \
    X(weft_apply(graph, 1, &x, 1, &x, &x, NULL))                                                                       \
    X(weft_gradient(graph, x, NULL, 1, &x, NULL))                                                                      \
    X(weft_jvp_many(graph, 1, &x, 1, &x, &x, NULL))                                                                    \
    X(weft_linearize(graph, 1, &x, 1, &x, NULL, NULL))                                                                 \
    X(weft_linear_transpose(graph, 1, &x, &x, 1, &x, NULL))                                                            \
    X(weft_hvp(graph, x, 1, &x, &x, NULL))                                                                             \
    X(weft_vhp(graph, x, 1, &x, &x, NULL))                                                                             \
    X(weft_vmap(graph, NULL, NULL, NULL, 1, &x, 1, NULL))                                                              \
    X(weft_vmap_values(graph, NULL, 1, &x, 1, &x, &x, NULL))                                                           \
    X(weft_custom_jvp(graph, 1, &x, NULL, NULL, NULL, 1, NULL))                                                        \
    X(weft_optim_update(graph, NULL, 1, &parameter))                                                                   \
    X(weft_optim_update(graph, &wrong_method, 1, &parameter))                                                          \
    X(weft_optim_update(graph, &no_rate, 1, NULL))                                                                     \
    X(weft_optim_update(graph, &no_rate, 1, &parameter))                                                               \
    X(weft_optim_update(graph, &no_rate, 1, &no_parameter))                                                            \
    X((void)weft_optim_clip_norm(graph, 1, NULL, 1))                                                                   \
    X(weft_optim_clip_value(graph, 1, NULL, 1))                                                                        \
    X(weft_optim_ema(graph, NULL, 1, &parameter, NULL))                                                                \
    X((void)weft_rate_schedule_value(graph, NULL, x, WEFT_F32))                                                        \
    X((void)weft_rate_schedule_value(graph, &wrong_schedule, x, WEFT_F32))                                             \
    X((void)weft_graph_symbol(graph, NULL, 1, 2, 1))                                                                   \
    X(weft_graph_output(graph, NULL, x))

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
static void call_problem(int number) {
    int n = 0;
#define X(call)                                                                                                        \
    if (n++ == number) call;
    PROBLEM_CASES(X)
#undef X
}
#define X(call) #call,
static const char *const status_texts[] = {STATUS_CASES(X)
#if WEFT_HAVE_ONNX
                                               ONNX_CASES(X)
#endif
};
static const char *const value_texts[] = {VALUE_CASES(X)};
static const char *const problem_texts[] = {PROBLEM_CASES(X)};
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

START_TEST(test_problem) {
    printf("%s\n", problem_texts[_i]);
    fflush(stdout);
    call_problem(_i);
    weft_status status = weft_graph_verify(graph);
    ck_assert_msg(weft_status_code(status) == WEFT_INVALID_ARGUMENT, "%s: %s", problem_texts[_i],
                  weft_code_name(weft_status_code(status)));
    weft_status_release(status);
}
END_TEST

static void refuse(weft_status status, const char *part) {
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    ck_assert_msg(strstr(weft_status_message(status), part) != NULL, "%s", weft_status_message(status));
    weft_status_release(status);
}

/* Names that would make a file which readers refuse: nothing is written. */
START_TEST(test_names) {
    static const char path[] = "/tmp/null.safetensors";
    static const char *const two[2] = {"a", "a"}, *const not_utf8[1] = {"a\xff"};
    refuse(weft_safetensors_write(context, path, 2, two, twice(), 0, NULL, NULL), "twice");
    refuse(weft_safetensors_write(context, path, 1, not_utf8, twice(), 0, NULL, NULL), "UTF-8");
    refuse(weft_safetensors_write(context, path, 1, one_name, twice(), 2, two, two), "twice");
    refuse(weft_safetensors_write(context, path, 1, one_name, twice(), 1, one_name, not_utf8), "UTF-8");
    ck_assert(access(path, F_OK) != 0);
#if WEFT_HAVE_ONNX
    refuse(weft_onnx_import_memory(context, "", 0, NULL, with_constants(-1, NULL, NULL), &graph_out), "-1 constants");
#endif
}
END_TEST

/* What is not there has no type, no extents, no elements, no name. */
START_TEST(test_getters) {
    weft_port_info port;
    weft_program_input(NULL, 0, &port);
    ck_assert(port.name == NULL && port.rank == 0 && port.dtype == WEFT_INVALID);
    ck_assert(weft_value_dtype(NULL) == WEFT_INVALID && weft_value_rank(NULL) == 0);
    ck_assert(weft_value_dim(NULL, 0) == weft_value_dim(x, 2) && weft_value_dim(x, 1) == 3);
    ck_assert(weft_graph_input_count(NULL) == 0 && weft_graph_output_count(NULL) == 0);
    ck_assert(!weft_graph_input_name(graph, -1) && !weft_graph_input_name(graph, 1) &&
              !weft_graph_input_value(graph, 1));
    ck_assert_str_eq(weft_graph_input_name(graph, 0), "x");
    ck_assert(!weft_graph_output_name(graph, 0) && !weft_graph_output_value(graph, -1));
    ck_assert(weft_tensor_dtype(NULL) == WEFT_INVALID && weft_tensor_rank(NULL) == 0 && !weft_tensor_shape(NULL));
    ck_assert(!weft_tensor_strides(NULL) && !weft_tensor_data(NULL) && !weft_tensor_is_packed(NULL));
    ck_assert(weft_tensor_element_count(NULL) == 0 && weft_tensor_bytes(NULL) == 0);
    ck_assert(weft_program_input_count(NULL) == 0 && weft_program_output_count(NULL) == 0);
    ck_assert(weft_program_state_count(NULL) == 0 && !weft_program_state_name(NULL, 0) && !weft_program_arch(NULL));
    ck_assert(weft_safetensors_count(NULL) == 0 && weft_safetensors_find(NULL, "a") == -1);
    ck_assert(!weft_safetensors_name(NULL, 0) && !weft_safetensors_metadata(NULL, "a"));
    ck_assert(weft_function_compile_count(NULL) == 0 && weft_dtype_find(NULL) == WEFT_INVALID);
    ck_assert(weft_corpus_count(NULL) == 0 && weft_corpus_vocabulary(NULL) == 0 && weft_images_count(NULL) == 0);
    ck_assert(!weft_optim_name((weft_optim_method)-7) && weft_optim_find(NULL) == WEFT_OPTIM_COUNT);
    ck_assert(!weft_rate_schedule_name((weft_rate_schedule_kind)-7) &&
              weft_rate_schedule_find(NULL) == WEFT_RATE_SCHEDULE_COUNT);
    weft_graph_retain(NULL);
    weft_session_trim(NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("api");
    TCase *tests = tcase_create("missing");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_status, 0, (int)(sizeof status_texts / sizeof *status_texts));
    tcase_add_loop_test(tests, test_value, 0, (int)(sizeof value_texts / sizeof *value_texts));
    tcase_add_loop_test(tests, test_problem, 0, (int)(sizeof problem_texts / sizeof *problem_texts));
    tcase_add_test(tests, test_names);
    tcase_add_test(tests, test_getters);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_add_suite(runner, descriptors_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
