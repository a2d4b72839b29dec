/* The public compile functions. Read next: unit.c (the compiler itself), lower.c. */
#include "weft/compile.h"

#include "compile/unit.h"
#include "runtime/jit.h"

#include <string.h>

static weft_compile_options with_defaults(const weft_compile_options *options) {
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    if (options) memcpy(&o, options, options->struct_bytes < sizeof o ? options->struct_bytes : sizeof o);
    if (!o.targets) o.targets = "cpu";
    return o;
}

/* The record for what a device runs. */
static weft_status capability_of(const weft_device *device, const weft_capability **out_capability) {
    weft_device_info info;
    weft_device_get_info(device, &info);
    *out_capability = weft_capability_find(info.driver, info.arch);
    if (!*out_capability) return WEFT_STATUS(WEFT_UNSUPPORTED, "no capability record for %s %s", info.driver, info.arch);
    return NULL;
}

static weft_status compile_and_load(weft_graph *graph, const weft_dim *replacement, const weft_compile_options *options,
                                    weft_device *device, weft_program **out_program) {
    const weft_capability *capability;
    weft_unit *unit;
    WEFT_TRY(capability_of(device, &capability), "compiling %s", graph->name);
    WEFT_TRY(weft_unit_compile(graph, replacement, capability, options, &unit), "compiling %s for %s", graph->name, capability->arch);
    return weft_unit_load(unit, device, out_program);
}

weft_status weft_compile(weft_graph *graph, const weft_compile_options *options, weft_program **out_program) {
    *out_program = NULL;
    weft_compile_options o = with_defaults(options);
    weft_device *device;
    WEFT_TRY(weft_graph_verify(graph), "compiling %s", graph->name);
    WEFT_TRY(weft_device_open(graph->context, o.targets, &device), "compiling %s", graph->name);
    weft_status status = compile_and_load(graph, NULL, &o, device, out_program);
    weft_device_release(device);
    return status;
}

struct weft_function {
    weft_graph *graph;
    weft_compile_options options;
    weft_arena arena;
    weft_program_data *signature;
    weft_device *device;
    weft_jit *jit;
    char targets[64];
};

static weft_status compile_fixed(void *self, const int64_t *fixed, weft_program **out_program) {
    weft_function *function = self;
    return compile_and_load(function->graph, fixed, &function->options, function->device, out_program);
}

void weft_function_release(weft_function *function) {
    if (!function) return;
    weft_context *context = function->graph->context;
    weft_context_retain(context);
    weft_jit_release(function->jit);
    if (function->device) weft_device_release(function->device);
    if (function->signature) weft_dim_table_release(function->signature->dims);
    weft_arena_deinit(&function->arena);
    weft_graph_release(function->graph);
    weft_free(context->allocator, function, sizeof *function);
    weft_context_release(context);
}

static weft_status start_function(weft_function *f) {
    WEFT_TRY(weft_graph_verify(f->graph), "preparing %s", f->graph->name);
    if (strlen(f->options.targets) >= sizeof f->targets)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a function runs on one target; \"%s\" is too long for one", f->options.targets);
    memcpy(f->targets, f->options.targets, strlen(f->options.targets) + 1);
    f->options.targets = f->targets;
    WEFT_TRY(weft_device_open(f->graph->context, f->targets, &f->device), "preparing %s", f->graph->name);
    weft_program_data *signature;
    WEFT_TRY(weft_lower_signature(f->graph, &f->arena, &signature), "preparing %s", f->graph->name);
    f->signature = signature;
    weft_jit_options options = {.context = f->graph->context, .signature = signature, .compile = compile_fixed, .compile_self = f};
    return weft_jit_create(&options, &f->jit);
}

weft_status weft_function_create(weft_graph *graph, const weft_compile_options *options, weft_function **out_function) {
    *out_function = NULL;
    weft_allocator allocator = graph->context->allocator;
    weft_function *function = weft_allocate(allocator, sizeof *function);
    if (!function) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "preparing %s", graph->name);
    function->graph = graph;
    weft_graph_retain(graph);
    function->options = with_defaults(options);
    weft_arena_init(allocator, &function->arena);
    weft_status status = start_function(function);
    if (status) weft_function_release(function);
    else *out_function = function;
    return status;
}

weft_status weft_function_call(weft_function *function, int input_count, weft_tensor *const *inputs, int output_count, weft_tensor **outputs) {
    return weft_jit_call(function->jit, input_count, inputs, output_count, outputs);
}

int weft_function_compile_count(const weft_function *function) { return weft_jit_compile_count(function->jit); }
