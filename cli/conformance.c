/* weft conformance onnx FOLDER: the node tests of the ONNX package (a folder per test: model.onnx, test_data_set_0 with
   input_K.pb and output_K.pb). Inputs whose value decides a shape are handed to the importer, as a user would.
   Tolerance: the suite's own, |a - b| <= 1e-7 + 1e-3 |b|, NaN equal to NaN. Excluded tests count as failures in the
   score. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/file.h"
#include "cli/cli.h"

#ifdef WEFT_HAVE_ONNX
#include "frontend/onnx/import.h"
#include "weft/onnx.h"

enum { PORTS_MAX = 64, NEED_ROUNDS = 6 };

typedef weft_status (*run_function)(weft_graph *graph, int input_count, weft_tensor *const *inputs, int output_count,
                                    weft_tensor **outputs);

typedef struct test_case {
    weft_context *context;
    weft_arena arena;
    const char *folder;
    int input_count, expected_count, needed_count;
    const char *names[PORTS_MAX];
    weft_tensor *inputs[PORTS_MAX], *expected[PORTS_MAX];
    bool needed[PORTS_MAX];
    char dims[512]; /* lengths of sequence inputs */
} test_case;

static void note_need(void *self, const char *input) {
    test_case *test = self;
    for (int i = 0; i < test->input_count; i++)
        if (!test->needed[i] && strcmp(test->names[i], input) == 0) test->needed[i] = true, test->needed_count++;
}

static weft_status add_tensor(test_case *test, const Onnx__TensorProto *proto, bool input, const char *name) {
    int *count = input ? &test->input_count : &test->expected_count;
    if (*count >= PORTS_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "more than %d tensors", PORTS_MAX);
    WEFT_TRY(weft_onnx_tensor_create(test->context, proto, NULL, &(input ? test->inputs : test->expected)[*count]),
             "a tensor of the test");
    if (input) test->names[*count] = name;
    (*count)++;
    return NULL;
}

/* A sequence is its items: x.0, x.1 ... */
static weft_status add_sequence(test_case *test, const Onnx__SequenceProto *sequence, bool input, const char *name) {
    for (size_t i = 0; i < sequence->n_tensor_values; i++) {
        const char *part = weft_arena_format(&test->arena, "%s.%zu", name, i);
        if (!part) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "names");
        WEFT_TRY(add_tensor(test, sequence->tensor_values[i], input, part), "item %zu", i);
    }
    if (sequence->n_sequence_values) return WEFT_STATUS(WEFT_UNSUPPORTED, "sequences of sequences");
    size_t length = strlen(test->dims);
    if (input)
        snprintf(test->dims + length, sizeof test->dims - length, "%s%s=%zu", length ? "," : "", name,
                 sequence->n_tensor_values);
    return NULL;
}

static const Onnx__TypeProto *inside_optional(const Onnx__TypeProto *type) {
    return type && type->optional_type ? type->optional_type->elem_type : type;
}

static weft_status read_value(test_case *test, const Onnx__ValueInfoProto *info, const void *data, size_t bytes,
                              bool input) {
    const Onnx__TypeProto *type = inside_optional(info->type);
    bool optional = info->type && info->type->optional_type, sequence = type && type->sequence_type;
    const ProtobufCMessageDescriptor *descriptor = optional   ? &onnx__optional_proto__descriptor
                                                   : sequence ? &onnx__sequence_proto__descriptor
                                                              : &onnx__tensor_proto__descriptor;
    ProtobufCMessage *message;
    WEFT_TRY(weft_onnx_message_unpack(&test->arena, descriptor, data, bytes, &message), "%s", info->name);
    if (optional) {
        const Onnx__OptionalProto *value = (const Onnx__OptionalProto *)message;
        if (value->tensor_value) return add_tensor(test, value->tensor_value, input, info->name);
        if (value->sequence_value) return add_sequence(test, value->sequence_value, input, info->name);
        size_t length = strlen(test->dims);
        if (input) snprintf(test->dims + length, sizeof test->dims - length, "%s%s=0", length ? "," : "", info->name);
        return input ? NULL : WEFT_STATUS(WEFT_UNSUPPORTED, "%s is an empty optional", info->name);
    }
    if (sequence) return add_sequence(test, (const Onnx__SequenceProto *)message, input, info->name);
    return add_tensor(test, (const Onnx__TensorProto *)message, input, info->name);
}

static bool is_initializer(const Onnx__GraphProto *graph, const char *name) {
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && strcmp(graph->initializer[i]->name, name) == 0) return true;
    return false;
}

/* Files are numbered over the inputs that are not initializers (old files list those as inputs too). */
static weft_status read_ports(test_case *test, const Onnx__GraphProto *graph, bool input) {
    size_t count = input ? graph->n_input : graph->n_output;
    Onnx__ValueInfoProto *const *ports = input ? graph->input : graph->output;
    for (size_t i = 0, number = 0; i < count; i++) {
        char path[1024];
        if (!ports[i]->name) return WEFT_STATUS(WEFT_INVALID_DATA, "a port without a name");
        if (input && is_initializer(graph, ports[i]->name)) continue;
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%zu.pb", test->folder, input ? "input" : "output", number++);
        weft_file file;
        WEFT_TRY(weft_file_map(path, &file), "test data");
        weft_status status = read_value(test, ports[i], file.data, file.bytes, input);
        weft_file_unmap(&file);
        WEFT_TRY(status, "%s", path);
    }
    return NULL;
}

static weft_status import_case(test_case *test, const char *model_path, weft_graph **out_graph) {
    weft_status status = NULL;
    for (int round = 0; round < NEED_ROUNDS; round++) {
        weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
        const char *names[PORTS_MAX];
        weft_tensor *tensors[PORTS_MAX];
        for (int i = 0; i < test->input_count; i++)
            if (test->needed[i])
                names[options.constant_count] = test->names[i], tensors[options.constant_count++] = test->inputs[i];
        options.constant_names = names, options.constants = tensors, options.need = note_need, options.need_self = test;
        options.dims = test->dims[0] ? test->dims : NULL;
        int before = test->needed_count;
        status = weft_onnx_import(test->context, model_path, &options, out_graph);
        if (!status || test->needed_count == before) return status;
        if (round + 1 < NEED_ROUNDS) weft_status_release(status);
    }
    return status;
}

/* -- comparison */

static double number_at(const weft_tensor *tensor, int64_t i) {
    weft_dtype dtype = weft_tensor_dtype(tensor);
    const void *data = weft_tensor_data(tensor);
    if (dtype == WEFT_U64) return (double)(uint64_t)weft_element_i64(dtype, data, i);
    return weft_dtype_is_float(dtype) ? weft_element_double(dtype, data, i) : (double)weft_element_i64(dtype, data, i);
}

static weft_status compare(const weft_tensor *got, const weft_tensor *want, int output) {
    weft_dtype dtype = weft_tensor_dtype(want);
    if (weft_tensor_dtype(got) != dtype)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %d is %s, expected %s", output,
                           weft_dtype_name(weft_tensor_dtype(got)), weft_dtype_name(dtype));
    bool same = weft_tensor_rank(got) == weft_tensor_rank(want);
    for (int i = 0; same && i < weft_tensor_rank(want); i++)
        same = weft_tensor_shape(got)[i] == weft_tensor_shape(want)[i];
    if (!same)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %d has another shape than expected (rank %d, %d)", output,
                           weft_tensor_rank(got), weft_tensor_rank(want));
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) return WEFT_STATUS(WEFT_UNSUPPORTED, "complex outputs");
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = number_at(got, i), b = number_at(want, i);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-7 + 1e-3 * fabs(b)) continue;
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %d element %lld is %.9g, expected %.9g", output, (long long)i,
                           a, b);
    }
    return NULL;
}

static weft_status run_graph(test_case *test, weft_graph *graph, run_function run) {
    weft_tensor *inputs[PORTS_MAX], *outputs[PORTS_MAX] = {NULL};
    int input_count = weft_graph_input_count(graph), output_count = weft_graph_output_count(graph);
    if (input_count > PORTS_MAX || output_count > PORTS_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "too many inputs or outputs");
    for (int i = 0; i < input_count; i++) {
        inputs[i] = NULL;
        for (int k = 0; k < test->input_count; k++)
            if (strcmp(test->names[k], weft_graph_input_name(graph, i)) == 0) inputs[i] = test->inputs[k];
        if (!inputs[i]) return WEFT_STATUS(WEFT_NOT_FOUND, "no data for input %s", weft_graph_input_name(graph, i));
    }
    weft_status status = run(graph, input_count, inputs, output_count, outputs);
    if (!status && output_count != test->expected_count)
        status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%d outputs, expected %d", output_count, test->expected_count);
    for (int i = 0; !status && i < output_count; i++) status = compare(outputs[i], test->expected[i], i);
    for (int i = 0; i < output_count; i++) weft_tensor_release(outputs[i]);
    return status;
}

static weft_status run_case(weft_context *context, const char *folder, run_function run) {
    test_case test = {.context = context, .folder = folder};
    char path[1024];
    weft_file file = {0};
    weft_graph *graph = NULL;
    const Onnx__ModelProto *model;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    weft_arena_init(context->allocator, &test.arena);
    weft_status status = weft_file_map(path, &file);
    if (!status) status = weft_onnx_model_unpack(&test.arena, file.data, file.bytes, &model);
    if (!status) status = read_ports(&test, model->graph, true);
    if (!status) status = read_ports(&test, model->graph, false);
    if (!status) status = import_case(&test, path, &graph);
    if (!status) status = run_graph(&test, graph, run);
    weft_graph_release(graph);
    for (int i = 0; i < test.input_count; i++) weft_tensor_release(test.inputs[i]);
    for (int i = 0; i < test.expected_count; i++) weft_tensor_release(test.expected[i]);
    weft_arena_deinit(&test.arena);
    weft_file_unmap(&file);
    return status;
}

/* -- the suite */

static weft_status run_compiled(weft_graph *graph, int input_count, weft_tensor *const *inputs, int output_count,
                                weft_tensor **outputs) {
    weft_function *function;
    WEFT_TRY(weft_function_create(graph, NULL, &function), "compiling");
    weft_status status = weft_function_call(function, input_count, inputs, output_count, outputs);
    weft_function_release(function);
    return status;
}

/* The reason behind "NAME reason" in the list; NULL when the test is not excluded. */
static const char *exclusion(const char *list, const char *name, char *reason, size_t capacity) {
    size_t length = strlen(name);
    for (const char *line = list; line && *line;) {
        size_t bytes = strcspn(line, "\n");
        if (bytes >= length && strncmp(line, name, length) == 0 && (bytes == length || line[length] == ' ')) {
            snprintf(reason, capacity, "%.*s", (int)(bytes - length), line + length);
            return reason;
        }
        line += bytes + (line[bytes] == '\n');
    }
    return NULL;
}

static int is_test(const struct dirent *entry) { return strncmp(entry->d_name, "test_", 5) == 0; }

static int run_suite(cli_arguments *arguments, const char *root, const char *exclusions, run_function run) {
    struct dirent **entries;
    int count = scandir(root, &entries, is_test, alphasort), passed = 0, failed = 0, excluded = 0, surprises = 0;
    const char *filter = cli_text(arguments, "filter", "");
    bool quiet = cli_flag(arguments, "quiet");
    if (count < 0) return cli_fail(WEFT_STATUS(WEFT_NOT_FOUND, "%s is not a folder of node tests", root));
    for (int i = 0; i < count; i++) {
        char folder[900], text[1200], reason[200];
        const char *name = entries[i]->d_name;
        snprintf(folder, sizeof folder, "%s/%s", root, name);
        if (strstr(name, filter)) {
            const char *why = exclusion(exclusions, name, reason, sizeof reason);
            weft_status status = run_case(arguments->context, folder, run);
            if (status) weft_status_format(status, text, sizeof text);
            if (status && why)
                excluded++;
            else if (status) {
                failed++;
                if (!quiet) printf("FAIL %s: %s\n", name, text);
            } else
                passed++;
            if (!status && why) surprises++, printf("PASSES although excluded: %s\n", name);
            weft_status_release(status);
        }
        free(entries[i]);
    }
    free(entries);
    if (!passed && !failed && !excluded)
        return cli_fail(
            *filter ? WEFT_STATUS(WEFT_NOT_FOUND, "%s: no test has \"%s\" in its name", root, filter)
                    : WEFT_STATUS(WEFT_NOT_FOUND, "%s has no folder test_...; is it that of node tests?", root));
    printf("%d passed, %d failed, %d excluded\n", passed, failed, excluded);
    return failed || surprises ? 1 : 0;
}

int cli_run_conformance(cli_arguments *arguments) {
    if (arguments->positional_count != 2 || strcmp(arguments->positional[0], "onnx") != 0) {
        fprintf(stderr, "weft: conformance wants: onnx FOLDER\n");
        return 2;
    }
    const char *path = cli_text(arguments, "exclude", NULL);
    char *list = NULL;
    if (path) {
        weft_file file;
        weft_status status = weft_file_map(path, &file);
        if (status) return cli_fail(status);
        list = calloc(file.bytes + 1, 1);
        if (list && file.bytes) memcpy(list, file.data, file.bytes);
        weft_file_unmap(&file);
    }
    int code = run_suite(arguments, arguments->positional[1], list,
                         cli_flag(arguments, "interpret") ? weft_graph_interpret : run_compiled);
    free(list);
    return code;
}

#else
int cli_run_conformance(cli_arguments *arguments) {
    (void)arguments;
    return cli_fail(WEFT_STATUS(WEFT_UNSUPPORTED,
                                "this build has no ONNX importer: install libprotobuf-c-dev and protobuf-c-compiler"));
}
#endif
