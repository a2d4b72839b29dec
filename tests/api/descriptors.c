/* Every descriptor of include/weft under the one rule of its first field: what no INIT can have set is refused, and the
   refusal names the INIT; a caller that knows fewer fields, or more, is served. The headers are read, so that a
   descriptor that is missing here is noticed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"
#include "weft/compile.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/onnx.h"
#include "weft/runtime.h"
#include "weft/train.h"
#include "weft/transform.h"

static weft_context *context;
static weft_graph *graph;
static weft_parameters *parameters;
static weft_value *x, *labels, *image, *out_values[2];
static weft_graph *graph_out;
static weft_context *context_out;
static weft_parameters *parameters_out;
static weft_program *program_out;
static weft_function *function_out;
static weft_loader *loader_out;
static weft_train_result result_out;
static weft_parameter parameter;

static void set_up(void) {
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_graph_create(context, "descriptors", &graph));
    ck_assert_ptr_null(weft_parameters_create(context, graph, NULL, &parameters));
    x = weft_graph_input(graph, "x", WEFT_F32, 2, (weft_dim[]){2, 3});
    labels = weft_graph_input(graph, "labels", WEFT_I64, 2, (weft_dim[]){2, 3});
    image = weft_graph_input(graph, "image", WEFT_F32, 4, (weft_dim[]){1, 2, 8, 8});
    weft_value *p = weft_parameters_add(parameters, "p", WEFT_INIT_ZEROS, 0, 1, (int64_t[]){3});
    parameter = (weft_parameter){.name = "p", .value = p, .gradient = p, .rate_scale = 1};
}

static void tear_down(void) {
    weft_function_release(function_out);
    weft_program_release(program_out);
    weft_parameters_release(parameters_out);
    weft_context_release(context_out);
    weft_graph_release(graph_out);
    weft_parameters_release(parameters);
    weft_graph_release(graph);
    weft_context_release(context);
}

static void body(void *self, weft_graph *g, weft_value *const *inputs, weft_value **results) {
    (void)self;
    (void)g;
    results[0] = inputs[0];
}

/* type, INIT, a call that takes o: its status, or a problem of the graph (PROBLEM). */
#define PROBLEM(call) ((void)(call), weft_graph_verify(graph))
#if WEFT_HAVE_ONNX
#define ONNX_CASES(X)                                                                                                  \
    X(weft_onnx_options, WEFT_ONNX_OPTIONS_INIT, weft_onnx_import_memory(context, "", 0, NULL, o, &graph_out))
enum { ONNX_ABSENT = 0 };
#else
#define ONNX_CASES(X)
enum { ONNX_ABSENT = 1 };
#endif
#define CASES(X)                                                                                                       \
    X(weft_context_options, WEFT_CONTEXT_OPTIONS_INIT, weft_context_create(o, &context_out))                           \
    X(weft_compile_options, WEFT_COMPILE_OPTIONS_INIT, weft_compile_file(graph, o, "/nonexistent/x.weft"))             \
    X(weft_compile_options, WEFT_COMPILE_OPTIONS_INIT, weft_compile(graph, o, &program_out))                           \
    X(weft_compile_options, WEFT_COMPILE_OPTIONS_INIT, weft_function_create(graph, o, &function_out))                  \
    X(weft_compile_options, WEFT_COMPILE_OPTIONS_INIT, weft_compile_web(graph, o, "/proc/nonexistent"))                \
    X(weft_compile_options, WEFT_COMPILE_OPTIONS_INIT,                                                                 \
      weft_compile_artifact(context, "/nonexistent", o, &program_out))                                                 \
    X(weft_load_options, WEFT_LOAD_OPTIONS_INIT, weft_program_load(context, "/nonexistent", o, &program_out))          \
    ONNX_CASES(X)                                                                                                      \
    X(weft_parameters_options, WEFT_PARAMETERS_OPTIONS_INIT,                                                           \
      weft_parameters_create(context, graph, o, &parameters_out))                                                      \
    X(weft_loader_options, WEFT_LOADER_OPTIONS_INIT,                                                                   \
      weft_loader_create(context, NULL, weft_corpus_fill, NULL, o, &loader_out))                                       \
    X(weft_train_options, WEFT_TRAIN_OPTIONS_INIT, weft_train(context, o, &result_out))                                \
    X(weft_gather_options, WEFT_GATHER_OPTIONS_INIT, PROBLEM(weft_gather(graph, x, labels, o)))                        \
    X(weft_gather_options, WEFT_GATHER_OPTIONS_INIT, PROBLEM(weft_scatter(graph, WEFT_SUM, x, labels, x, o)))          \
    X(weft_dot_options, WEFT_DOT_OPTIONS_INIT, PROBLEM(weft_dot_general(graph, x, x, o)))                              \
    X(weft_scaled_dot_options, WEFT_SCALED_DOT_OPTIONS_INIT, PROBLEM(weft_scaled_dot(graph, x, x, x, x, o)))           \
    X(weft_convolution_options, WEFT_CONVOLUTION_OPTIONS_INIT, PROBLEM(weft_convolution(graph, image, image, o)))      \
    X(weft_convolution_options, WEFT_CONVOLUTION_OPTIONS_INIT,                                                         \
      PROBLEM(weft_convolution_transpose(graph, image, image, o)))                                                     \
    X(weft_pool_options, WEFT_POOL_OPTIONS_INIT, PROBLEM(weft_max_pool(graph, image, o)))                              \
    X(weft_pool_options, WEFT_POOL_OPTIONS_INIT, PROBLEM(weft_sum_pool(graph, image, o)))                              \
    X(weft_pool_options, WEFT_POOL_OPTIONS_INIT, PROBLEM(weft_average_pool(graph, image, o)))                          \
    X(weft_window_options, WEFT_WINDOW_OPTIONS_INIT, PROBLEM(weft_reduce_window(graph, WEFT_SUM, x, o)))               \
    X(weft_window_options, WEFT_WINDOW_OPTIONS_INIT, PROBLEM(weft_select_and_scatter(graph, x, x, o)))                 \
    X(weft_attention_options, WEFT_ATTENTION_OPTIONS_INIT,                                                             \
      PROBLEM(weft_attention(graph, image, image, image, NULL, o)))                                                    \
    X(weft_vmap_options, WEFT_VMAP_OPTIONS_INIT, PROBLEM(weft_vmap(graph, o, body, NULL, 1, &x, 1, out_values)))       \
    X(weft_vmap_options, WEFT_VMAP_OPTIONS_INIT,                                                                       \
      PROBLEM(weft_vmap_values(graph, o, 1, &x, 1, &x, &labels, out_values)))                                          \
    X(weft_remat_options, WEFT_REMAT_OPTIONS_INIT, PROBLEM((weft_remat_begin(graph, o), weft_remat_end(graph))))       \
    X(weft_cross_entropy_options, WEFT_CROSS_ENTROPY_OPTIONS_INIT,                                                     \
      PROBLEM(weft_loss_cross_entropy(graph, x, weft_flatten(graph, labels, 0), o)))                                   \
    X(weft_cross_entropy_options, WEFT_CROSS_ENTROPY_OPTIONS_INIT,                                                     \
      PROBLEM(weft_loss_linear_cross_entropy(graph, x, x, weft_flatten(graph, labels, 0), 0, o)))                      \
    X(weft_loss_scale, WEFT_LOSS_SCALE_INIT, PROBLEM(weft_parameters_gradient_scaled(parameters, parameter.value, o))) \
    X(weft_nn_experts_options, WEFT_NN_EXPERTS_OPTIONS_INIT,                                                           \
      PROBLEM(weft_nn_experts(parameters, o, "e", x, NULL, NULL)))                                                     \
    X(weft_nn_rope_options, WEFT_NN_ROPE_OPTIONS_INIT,                                                                 \
      PROBLEM(weft_nn_rope_tables(graph, o, WEFT_F32, NULL, 4, &out_values[0], &out_values[1])))                       \
    X(weft_nn_bert_options, WEFT_NN_BERT_OPTIONS_INIT, PROBLEM(weft_nn_bert(graph, NULL, o, labels, labels)))          \
    X(weft_nn_vit_options, WEFT_NN_VIT_OPTIONS_INIT, PROBLEM(weft_nn_vit(graph, NULL, o, image)))                      \
    X(weft_nn_vit_model, WEFT_NN_VIT_MODEL_INIT, PROBLEM(weft_nn_vit_train(parameters, o, image)))                     \
    X(weft_nn_mlp_options, WEFT_NN_MLP_OPTIONS_INIT, PROBLEM(weft_nn_mlp(parameters, o, x)))                           \
    X(weft_nn_resnet_options, WEFT_NN_RESNET_OPTIONS_INIT, PROBLEM(weft_nn_resnet(parameters, o, image)))              \
    X(weft_nn_llama_options, WEFT_NN_LLAMA_OPTIONS_INIT, PROBLEM(weft_nn_llama(parameters, o, labels)))                \
    X(weft_nn_llama_options, WEFT_NN_LLAMA_OPTIONS_INIT,                                                               \
      PROBLEM(weft_nn_llama_loss(parameters, o, labels, labels, 0, NULL)))                                             \
    X(weft_nn_gpt_options, WEFT_NN_GPT_OPTIONS_INIT, PROBLEM(weft_nn_gpt(parameters, o, labels)))                      \
    X(weft_nn_gpt_options, WEFT_NN_GPT_OPTIONS_INIT, PROBLEM(weft_nn_gpt_hidden(parameters, o, labels, NULL)))         \
    X(weft_nn_gpt_options, WEFT_NN_GPT_OPTIONS_INIT,                                                                   \
      PROBLEM(weft_nn_gpt_loss(parameters, o, labels, labels, 0, NULL)))                                               \
    X(weft_optim_options, weft_optim_defaults, PROBLEM(weft_optim_update(graph, o, 1, &parameter)))                    \
    X(weft_optim_ema_options, WEFT_OPTIM_EMA_OPTIONS_INIT, PROBLEM(weft_optim_ema(graph, o, 1, &parameter, NULL)))     \
    X(weft_optim_swa_options, WEFT_OPTIM_SWA_OPTIONS_INIT, PROBLEM(weft_optim_swa(graph, o, 1, &parameter, NULL)))     \
    X(weft_optim_swa_options, WEFT_OPTIM_SWA_OPTIONS_INIT,                                                             \
      PROBLEM(weft_optim_swag_sample(graph, o, x, 1, 1, &parameter, out_values)))                                      \
    X(weft_optim_kfac_options, WEFT_OPTIM_KFAC_OPTIONS_INIT, PROBLEM(weft_optim_kfac(graph, o, 0, NULL)))              \
    X(weft_rate_schedule, WEFT_RATE_SCHEDULE_INIT, PROBLEM(weft_rate_schedule_value(graph, o, x, WEFT_F32)))

typedef struct descriptor {
    const char *type, *init, *call;
    size_t bytes;
} descriptor;
static const descriptor descriptors[] = {
#define X(type, init, call) {#type, #init, #call, sizeof(type)},
    CASES(X)
#undef X
};
enum { COUNT = sizeof descriptors / sizeof *descriptors, ROOM = 4096 };

/* Calls number with a descriptor that begins with this and is 0 behind it. */
static weft_status call(int number, size_t struct_bytes) {
    static union {
        max_align_t align;
        unsigned char bytes[ROOM];
    } room;
    int n = 0;
    memset(&room, 0, sizeof room);
    memcpy(&room, &struct_bytes, sizeof struct_bytes);
#define X(type, init, call)                                                                                            \
    if (n++ == number) {                                                                                               \
        type *o = (type *)(void *)&room;                                                                               \
        return call;                                                                                                   \
    }
    CASES(X)
#undef X
    return NULL;
}

/* Each in a process of its own: what is refused once is a problem of the graph for good. */
static const size_t wrong[] = {
    0,        1,           sizeof(size_t) - 1, sizeof(size_t) + 1, 4 * sizeof(size_t) + 4, ROOM + sizeof(size_t),
    SIZE_MAX, SIZE_MAX - 7};
enum { WRONG = sizeof wrong / sizeof *wrong, RIGHT = 3 };

START_TEST(refused) {
    int number = _i / WRONG;
    size_t bytes = wrong[_i % WRONG];
    char wanted[128];
    printf("%s %zu\n", descriptors[number].call, bytes);
    (void)fflush(stdout);
    weft_status status = call(number, bytes);
    (void)snprintf(wanted, sizeof wanted, "struct_bytes is %zu: descriptors start as %s", bytes,
                   descriptors[number].init);
    ck_assert_msg(weft_status_code(status) == WEFT_INVALID_ARGUMENT && strstr(weft_status_message(status), wanted),
                  "%s with %zu: %s", descriptors[number].call, bytes, weft_status_message(status));
    weft_status_release(status);
}
END_TEST

START_TEST(served) {
    int number = _i / RIGHT;
    const descriptor *d = &descriptors[number];
    size_t bytes = _i % RIGHT == 0 ? sizeof(size_t) : _i % RIGHT == 1 ? d->bytes : d->bytes + sizeof(size_t);
    printf("%s %zu\n", d->call, bytes);
    (void)fflush(stdout);
    weft_status status = call(number, bytes);
    ck_assert_msg(!strstr(weft_status_message(status), "struct_bytes"), "%s with %zu: %s", d->call, bytes,
                  weft_status_message(status));
    weft_status_release(status);
}
END_TEST

/* A caller that knows only some fields gets the defaults of the rest. */
START_TEST(defaults) {
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.struct_bytes = offsetof(weft_attention_options, window_left);
    o.window_left = 5, o.window_right = 7; /* behind what it knows */
    weft_value *y = weft_attention(graph, image, image, image, NULL, &o);
    weft_graph_output(graph, "y", y);
    char *text;
    ck_assert_ptr_null(weft_graph_print(graph, &text));
    ck_assert_msg(strstr(text, "window_left = -1, window_right = -1") != NULL, "%s", text);
    weft_string_release(context, text);
}
END_TEST

static const char include_folder[] = WEFT_SOURCE_DIR "/include/weft";

static int count_in(const char *path, const char *word) {
    FILE *file = fopen(path, "r");
    char line[512];
    int count = 0;
    ck_assert_msg(file != NULL, "%s", path);
    while (fgets(line, sizeof line, file)) count += strstr(line, word) != NULL;
    ck_assert_int_eq(fclose(file), 0);
    return count;
}

START_TEST(complete) {
    int in_headers = 0, here = 0;
    DIR *folder = opendir(include_folder);
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[1024];
        if (!strstr(entry->d_name, ".h")) continue;
        (void)snprintf(path, sizeof path, "%s/%s", include_folder, entry->d_name);
        in_headers += count_in(path, "size_t struct_bytes;");
    }
    ck_assert_int_eq(closedir(folder), 0);
    for (int i = 0; i < COUNT; i++) {
        int first = 0;
        while (strcmp(descriptors[first].type, descriptors[i].type) != 0) first++;
        here += first == i;
    }
    ck_assert_int_gt(in_headers, 20);
    ck_assert_int_eq(in_headers, here + ONNX_ABSENT);
}
END_TEST

Suite *descriptors_suite(void) {
    Suite *suite = suite_create("descriptors");
    TCase *tests = tcase_create("descriptors");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, refused, 0, COUNT * WRONG);
    tcase_add_loop_test(tests, served, 0, COUNT * RIGHT);
    tcase_add_test(tests, defaults);
    tcase_add_test(tests, complete);
    suite_add_tcase(suite, tests);
    return suite;
}
