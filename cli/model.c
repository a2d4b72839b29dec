/* Opening models, making inputs, finding the target they are for. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/capability.h"
#include "base/dim.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/text.h"
#include "compile/unit.h"
#include "ir/build.h"
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

/* "4", "1..64": within what the graph declares. */
static weft_status check_dim(const weft_dim_table *dims, const char *text, int *out_symbol, int64_t *out_value) {
    char name[64], *end = NULL;
    size_t length = strcspn(text, "=");
    const weft_symbol *symbol = NULL;
    *out_symbol = -1;
    if (text[length] && length < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        *out_symbol = weft_dim_symbol_find(dims, name);
    }
    if (*out_symbol < 0) return WEFT_STATUS(WEFT_NOT_FOUND, "--dim %s: the graph has no extent of that name", text);
    symbol = weft_dim_symbol_get(dims, *out_symbol);
    const char *at = text + length + 1;
    errno = 0;
    long long low = strtoll(at, &end, 10), high = low;
    bool fine = end != at && !errno, range = fine && !strncmp(end, "..", 2);
    if (range) at = end + 2, high = strtoll(at, &end, 10), fine = end != at && !errno && high >= low;
    if (!fine || *end || low < symbol->minimum || high > symbol->maximum || (!range && low % symbol->divisor != 0))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "--dim %s: wanted N or LO..HI within [%lld, %lld], multiples of %lld",
                           text, (long long)symbol->minimum, (long long)symbol->maximum, (long long)symbol->divisor);
    *out_value = range ? WEFT_DIM_ANY : low;
    return NULL;
}

/* --dim for a graph, whose symbols have their bounds: NAME=N fixes one; a range is where random inputs come from. */
static weft_status fix_dims(cli_arguments *arguments, weft_graph **graph) {
    const cli_value *given = cli_get(arguments, "dim");
    int count = weft_dim_symbol_count((*graph)->dims), symbol;
    if (!given || !given->count) return NULL;
    weft_dim *replacement = calloc((size_t)count + 1, sizeof *replacement);
    if (!replacement) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "fixing extents");
    for (int i = 0; i < count; i++) replacement[i] = WEFT_DIM_ANY;
    weft_status status = NULL;
    for (int i = 0; i < given->count && !status; i++) {
        int64_t value = WEFT_DIM_ANY;
        status = check_dim((*graph)->dims, given->texts[i], &symbol, &value);
        if (!status) replacement[symbol] = value;
    }
    weft_graph *fixed = NULL;
    if (!status) status = weft_graph_clone(*graph, replacement, &fixed);
    free(replacement);
    if (status) return status;
    weft_graph_release(*graph);
    *graph = fixed;
    return NULL;
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
    if (!status) status = fix_dims(arguments, out_graph);
    if (!status) return NULL;
    weft_graph_release(*out_graph);
    *out_graph = NULL;
    return weft_status_annotate(status, __FILE__, __LINE__, "reading %s", path);
}

weft_status cli_read_tensor(weft_context *context, const char *text, cli_named_tensor *out_tensor) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "\"%s\": expected NAME=FILE.npy", text);
    WEFT_TRY(weft_npy_read(context, equals + 1, &out_tensor->tensor), "reading an input");
    out_tensor->name = strndup(text, (size_t)(equals - text));
    if (out_tensor->name) return NULL;
    weft_tensor_release(out_tensor->tensor);
    return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reading an input");
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
    if (colon) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)(colon - target), target);
        *out_capability = weft_capability_find(name, colon + 1);
    } else {
        WEFT_TRY(weft_device_open(arguments->context, target, &device), "looking for %s", target);
        weft_status status = weft_unit_capability(device, out_capability);
        weft_device_release(device);
        WEFT_TRY(status, "looking for %s", target);
    }
    return *out_capability ? NULL : WEFT_STATUS(WEFT_UNSUPPORTED, "there is no target \"%s\"", target);
}
