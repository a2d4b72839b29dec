/* Opening models, making inputs, finding the target they are for. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "base/capability.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/text.h"
#include "weft/npy.h"
#include "weft/onnx.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

bool cli_is_artifact(const char *path) { return ends_with(path, ".weft"); }

/* --dim values joined by commas, for the importer. */
static weft_status join_dims(cli_arguments *arguments, weft_text *text) {
    const cli_value *dims = cli_get(arguments, "dim");
    for (int i = 0; dims && i < dims->count; i++) weft_text_append(text, "%s%s", i ? "," : "", dims->texts[i]);
    return weft_text_status(text);
}

typedef struct needs {
    const cli_named_tensor *tensors;
    int tensor_count, count;
    const char *names[CLI_VALUES_MAX];
    weft_tensor *constants[CLI_VALUES_MAX];
} needs;

static void need_input(void *self, const char *input) {
    needs *n = self;
    for (int i = 0; i < n->tensor_count && n->count < CLI_VALUES_MAX; i++)
        if (!strcmp(n->tensors[i].name, input)) {
            n->names[n->count] = n->tensors[i].name;
            n->constants[n->count++] = n->tensors[i].tensor;
        }
}

static weft_status import_onnx(cli_arguments *arguments, const char *path, int tensor_count,
                               const cli_named_tensor *tensors, weft_graph **out_graph) {
#if WEFT_HAVE_ONNX
    weft_text dims;
    weft_text_init(weft_allocator_system(), &dims);
    needs n = {.tensors = tensors, .tensor_count = tensor_count};
    weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
    options.need = need_input, options.need_self = &n;
    weft_status status = join_dims(arguments, &dims);
    for (int round = 0; !status; round++) { /* inputs that decide shapes become constants; that may bring up others */
        int before = n.count;
        options.dims = weft_text_string(&dims);
        options.constant_count = n.count, options.constant_names = n.names, options.constants = n.constants;
        status = weft_onnx_import(arguments->context, path, &options, out_graph);
        if (!status || n.count == before || round == CLI_VALUES_MAX) break;
        weft_status_release(status);
        status = NULL;
    }
    weft_text_deinit(&dims);
    memcpy(arguments->constants, n.names, sizeof n.names);
    arguments->constant_count = n.count;
    return status;
#else
    (void)arguments, (void)tensor_count, (void)tensors, (void)out_graph, (void)need_input, (void)join_dims;
    return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: this build has no ONNX importer (protobuf-c was not found)", path);
#endif
}

weft_status cli_open_graph(cli_arguments *arguments, const char *path, int tensor_count,
                           const cli_named_tensor *tensors, weft_graph **out_graph) {
    *out_graph = NULL;
    if (ends_with(path, ".onnx")) return import_onnx(arguments, path, tensor_count, tensors, out_graph);
    if (cli_is_artifact(path))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "%s is compiled already; this command takes a model ending in .onnx or .wir", path);
    if (!ends_with(path, ".wir"))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s: expected a model ending in .onnx, .wir or .weft", path);
    weft_file file;
    WEFT_TRY(weft_file_map(path, &file), "opening %s", path);
    weft_status status = weft_graph_parse(arguments->context, file.data, file.bytes, out_graph);
    weft_file_unmap(&file);
    return status ? weft_status_annotate(status, __FILE__, __LINE__, "reading %s", path) : NULL;
}

weft_status cli_read_tensor(weft_context *context, const char *text, cli_named_tensor *out_tensor) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "\"%s\": expected NAME=FILE.npy", text);
    char *name = strndup(text, (size_t)(equals - text)); /* lives as long as the command */
    if (!name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reading an input");
    out_tensor->name = name;
    return weft_npy_read(context, equals + 1, &out_tensor->tensor);
}

static unsigned long long next_random(unsigned long long *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
    unsigned long long z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

weft_status cli_random_tensor(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                              unsigned long long seed, weft_tensor **out_tensor) {
    WEFT_TRY(weft_tensor_create(context, dtype, rank, shape, out_tensor), "making a random input");
    void *data = weft_tensor_data(*out_tensor);
    bool real = weft_dtype_is_float(dtype);
    for (int64_t i = 0; i < weft_tensor_element_count(*out_tensor); i++) {
        unsigned long long bits = next_random(&seed);
        if (real)
            weft_element_set_double(dtype, data, i, (double)(bits >> 11) * 0x1p-53 * 2 - 1);
        else
            weft_element_set_i64(dtype, data, i, (int64_t)(bits & 1)); /* small: safe as an index */
    }
    return NULL;
}

weft_status cli_find_capability(cli_arguments *arguments, const weft_capability **out_capability) {
    const char *target = cli_text(arguments, "target", "cpu"), *colon = strchr(target, ':');
    weft_device *device;
    weft_device_info info;
    if (colon) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(colon - target), target);
        *out_capability = weft_capability_find(name, colon + 1);
    } else {
        WEFT_TRY(weft_device_open(arguments->context, target, &device), "looking for %s", target);
        weft_device_get_info(device, &info);
        *out_capability = weft_capability_find(info.driver, info.arch);
        weft_device_release(device);
    }
    return *out_capability ? NULL : WEFT_STATUS(WEFT_UNSUPPORTED, "there is no target \"%s\"", target);
}
