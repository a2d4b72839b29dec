/* The public compile functions. Read next: unit.c (the compiler itself), lower.c. */
#include "weft/compile.h"

#include "base/artifact.h"
#include "base/need.h"
#include "base/tensor.h"
#include "codegen/target.h"
#include "compile/relower.h"
#include "compile/unit.h"
#include "runtime/driver.h"
#include "runtime/jit.h"

#include <math.h>
#include <string.h>

/* options: the caller's, or NULL. Values that mean nothing are mistakes, not defaults. */
static weft_status read_options(const weft_compile_options *options, weft_compile_options *out_options) {
    static const uint32_t known = WEFT_RELAX_F32_PRODUCTS | WEFT_RELAX_F8_SUMS | WEFT_RELAX_SUM_ORDER;
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    WEFT_TRY(WEFT_OPTIONS_READ(o, options, WEFT_COMPILE_OPTIONS_INIT), "options");
    if (!o.targets) o.targets = "cpu";
    if (o.memory_bytes < 0 || !(o.memory_share >= 0 && isfinite(o.memory_share)))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "options.memory_bytes is %lld and options.memory_share %g: a budget is positive, 0 is none",
                           (long long)o.memory_bytes, o.memory_share);
    if (o.memory_bytes > 0 && o.memory_share > 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "options.memory_bytes and options.memory_share exclude each other");
    if (o.relax & ~known)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "options.relax is 0x%x; what is known is 0x%x", o.relax, known);
    if (o.thread_count < 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "options.thread_count is %d; 0 takes the context's", o.thread_count);
    *out_options = o;
    return NULL;
}

weft_status weft_unit_capability(const weft_device *device, const weft_capability **out_capability) {
    weft_device_info info;
    weft_device_get_info(device, &info);
    *out_capability = weft_capability_find(info.driver, info.arch);
    const weft_capability *record;
    int best = 0;
    for (int i = 0; !weft_capability_find(info.driver, info.arch) && (record = weft_capability_get(i)); i++) {
        int fits = strcmp(record->target, info.driver) ? 0 : device->driver->match(device, record->arch);
        if (fits > best) best = fits, *out_capability = record;
    }
    if (!*out_capability)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "no capability record for %s %s", info.driver, info.arch);
    return NULL;
}

static weft_status compile_and_load(weft_graph *graph, const weft_dim *replacement, const weft_compile_options *options,
                                    weft_device *device, weft_weight_pool *pool, weft_program **out_program) {
    const weft_capability *capability;
    weft_unit *unit;
    WEFT_TRY(weft_unit_capability(device, &capability), "compiling %s", graph->name);
    WEFT_TRY(weft_unit_compile(graph, replacement, capability, options, &unit), "compiling %s for %s", graph->name,
             capability->arch);
    return weft_unit_load(unit, device, pool, out_program);
}

weft_status weft_compile(weft_graph *graph, const weft_compile_options *options, weft_program **out_program) {
    WEFT_NEED(out_program, "out_program");
    *out_program = NULL;
    WEFT_NEED(graph, "the graph");
    weft_compile_options o;
    WEFT_TRY(read_options(options, &o), "compiling %s", graph->name);
    weft_device *device;
    WEFT_TRY(weft_graph_verify(graph), "compiling %s", graph->name);
    WEFT_TRY(weft_device_open(graph->context, o.targets, &device), "compiling %s", graph->name);
    weft_status status = compile_and_load(graph, NULL, &o, device, NULL, out_program);
    weft_device_release(device);
    return status;
}

/* -- artifacts */

enum { TARGETS_MAX = 16 };

static bool block_holds(const weft_block *block, weft_dtype dtype) {
    for (int i = 0; i < block->argument_count; i++)
        if (block->arguments[i]->type.dtype == dtype) return true;
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->result_count; i++)
            if (node->results[i].type.dtype == dtype) return true;
        for (int i = 0; i < node->region_count; i++)
            if (block_holds(node->regions[i]->block, dtype)) return true;
    }
    return false;
}

/* "cpu" stands for both CPU variants; "cpu:x86-64-v3", "cuda:sm_90a" for one architecture. Code that differs from
   another record's for f16 only is left out where the graph has none. */
static weft_status parse_targets(const weft_graph *graph, const char *text, const weft_capability **out,
                                 int *out_count) {
    bool halves = block_holds(graph->body->block, WEFT_F16);
    *out_count = 0;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        const char *colon = memchr(at, ':', length);
        int before = *out_count;
        for (int i = 0; weft_capability_get(i); i++) {
            const weft_capability *record = weft_capability_get(i);
            size_t name = colon ? (size_t)(colon - at) : length;
            if (strlen(record->target) != name || memcmp(record->target, at, name) != 0) continue;
            if (!colon && (record->by_name || (record->native_f16 && !halves))) continue;
            if (colon &&
                (strlen(record->arch) != length - name - 1 || memcmp(record->arch, colon + 1, length - name - 1) != 0))
                continue;
            if (!weft_target_find(record->target))
                return WEFT_STATUS(WEFT_UNSUPPORTED,
                                   "this build has no code generator for %s; `weft doctor` says what is missing",
                                   record->target);
            for (int k = 0; k < before; k++)
                if (out[k] == record)
                    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "target %s:%s is given twice", record->target,
                                       record->arch);
            if (*out_count == TARGETS_MAX)
                return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "more than %d targets", TARGETS_MAX);
            out[(*out_count)++] = record;
        }
        if (*out_count == before)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "there is no target \"%.*s\"", (int)length, at);
        at += length + (at[length] == ',');
    }
    return *out_count ? NULL : WEFT_STATUS(WEFT_INVALID_ARGUMENT, "no target is given");
}

/* Offsets count from the start of what all units share, instead of the unit's own constants. */
static weft_status share_constants(weft_unit *unit, weft_constants *constants) {
    size_t bytes = (size_t)unit->program->buffer_count * sizeof *unit->program->buffers;
    weft_buffer *buffers = weft_arena_copy(&unit->arena, unit->program->buffers, bytes);
    if (!buffers) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "constants for %s", unit->capability->arch);
    for (int i = 0; i < unit->program->buffer_count; i++) {
        const weft_tensor *tensor = unit->constants[i];
        int64_t offset;
        if (!tensor) continue;
        WEFT_TRY(weft_constants_add(constants, tensor->data, tensor->bytes, &offset), "constants for %s",
                 unit->capability->arch);
        buffers[i].offset = offset;
    }
    unit->program->buffers = buffers;
    unit->program->weights_bytes = constants->bytes;
    return NULL;
}

static weft_status write_content(weft_graph *graph, const char *path, const weft_constants *constants,
                                 weft_artifact_content *content) {
    weft_allocator allocator = graph->context->allocator;
    void *weights = weft_allocate(allocator, (size_t)constants->bytes + 1);
    if (!weights) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%lld bytes of weights", (long long)constants->bytes);
    weft_constants_write(constants, weights);
    content->weights = weights;
    content->weights_bytes = (uint64_t)constants->bytes;
    weft_status status = weft_artifact_write(allocator, path, content);
    weft_free(allocator, weights, (size_t)constants->bytes + 1);
    return status;
}

static weft_status write_artifact(weft_graph *graph, const weft_compile_options *options, const char *path, int count,
                                  weft_unit *const *units) {
    weft_artifact_target targets[TARGETS_MAX];
    weft_artifact_content content = {
        .name = graph->name, .target_count = count, .targets = targets, .batch_invariant = options->batch_invariant};
    weft_constants constants;
    weft_text text;
    weft_status status = NULL;
    weft_constants_init(graph->context->allocator, &constants);
    weft_text_init(graph->context->allocator, &text);
    for (int i = 0; i < count && !status; i++) {
        status = share_constants(units[i], &constants);
        targets[i] = (weft_artifact_target){.program = units[i]->program,
                                            .arch = units[i]->capability->arch,
                                            .code = units[i]->image,
                                            .code_bytes = units[i]->image_bytes};
    }
    if (!status && !options->no_graph) {
        status = weft_graph_text_make(graph, &constants, &text);
        content.graph = weft_text_string(&text), content.graph_bytes = text.length;
    }
    if (!status) status = write_content(graph, path, &constants, &content);
    weft_text_deinit(&text);
    weft_constants_deinit(&constants);
    return status;
}

static weft_status compile_targets(weft_graph *graph, const weft_compile_options *options, const char *path, int count,
                                   const weft_capability *const *records) {
    weft_unit *units[TARGETS_MAX] = {0};
    weft_status status = NULL;
    for (int i = 0; i < count && !status; i++) {
        status = weft_unit_compile(graph, NULL, records[i], options, &units[i]);
        if (status) status = weft_status_annotate(status, __FILE__, __LINE__, "compiling for %s", records[i]->arch);
    }
    if (!status) status = write_artifact(graph, options, path, count, units);
    for (int i = 0; i < count; i++) weft_unit_release(units[i]);
    return status;
}

weft_status weft_compile_file(weft_graph *graph, const weft_compile_options *options, const char *path) {
    WEFT_NEED(graph, "the graph");
    WEFT_NEED(path, "the path");
    weft_compile_options o;
    WEFT_TRY(read_options(options, &o), "compiling %s", graph->name);
    const weft_capability *records[TARGETS_MAX];
    weft_graph *prepared;
    int count;
    WEFT_TRY(weft_graph_verify(graph), "compiling %s", graph->name);
    WEFT_TRY(parse_targets(graph, o.targets, records, &count), "compiling %s", graph->name);
    WEFT_TRY(weft_unit_prepare(graph, &o, &prepared, &o.pipeline), "compiling %s", graph->name);
    weft_status status = compile_targets(prepared, &o, path, count, records);
    weft_graph_release(prepared);
    return weft_status_annotate(status, __FILE__, __LINE__, "compiling %s", graph->name);
}

/* -- just in time */

struct weft_function {
    weft_graph *graph; /* behind the portable passes: what programs have in common is made once */
    weft_compile_options options;
    weft_arena arena;
    weft_program_data *signature;
    weft_device *device;
    weft_weight_pool *pool;
    weft_jit *jit;
    char targets[64];
};

static weft_status compile_fixed(void *self, const int64_t *fixed, weft_program **out_program) {
    weft_function *function = self;
    return compile_and_load(function->graph, fixed, &function->options, function->device, function->pool, out_program);
}

void weft_function_release(weft_function *function) {
    if (!function) return;
    weft_context *context = function->graph->context;
    weft_context_retain(context);
    weft_jit_release(function->jit);
    weft_weight_pool_release(function->pool);
    if (function->device) weft_device_release(function->device);
    if (function->signature) weft_dim_table_release(function->signature->dims);
    weft_arena_deinit(&function->arena);
    weft_graph_release(function->graph);
    weft_free(context->allocator, function, sizeof *function);
    weft_context_release(context);
}

/* The passes may leave symbols and guards as they are only: a program is compiled for the signature's symbols, and the
   signature's guards are those that no other program can meet. */
static weft_status prepare_function(weft_function *f) {
    weft_graph *prepared;
    const char *rest;
    WEFT_TRY(weft_unit_prepare(f->graph, &f->options, &prepared, &rest), "passes");
    bool same = prepared->guard_count == f->graph->guard_count &&
                weft_dim_symbol_count(prepared->dims) == weft_dim_symbol_count(f->graph->dims);
    weft_graph *dropped = same ? f->graph : prepared;
    if (same) f->graph = prepared;
    weft_graph_release(dropped);
    return NULL;
}

static weft_status start_function(weft_function *f) {
    WEFT_TRY(weft_graph_verify(f->graph), "preparing %s", f->graph->name);
    if (strlen(f->options.targets) >= sizeof f->targets)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a function runs on one target; \"%s\" is too long for one",
                           f->options.targets);
    memcpy(f->targets, f->options.targets, strlen(f->options.targets) + 1);
    f->options.targets = f->targets;
    if (f->options.pipeline) { /* the caller's text may go */
        f->options.pipeline = weft_arena_copy_string(&f->arena, f->options.pipeline, strlen(f->options.pipeline));
        if (!f->options.pipeline) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "preparing %s", f->graph->name);
    }
    WEFT_TRY(weft_device_open(f->graph->context, f->targets, &f->device), "preparing %s", f->graph->name);
    weft_program_data *signature;
    WEFT_TRY(weft_lower_signature(f->graph, &f->arena, &signature), "preparing %s", f->graph->name);
    f->signature = signature;
    WEFT_TRY(weft_weight_pool_create(f->graph->context, f->device, &f->pool), "preparing %s", f->graph->name);
    WEFT_TRY(prepare_function(f), "preparing %s", f->graph->name);
    weft_jit_options options = {
        .context = f->graph->context, .signature = signature, .compile = compile_fixed, .compile_self = f};
    return weft_jit_create(&options, &f->jit);
}

weft_status weft_function_create(weft_graph *graph, const weft_compile_options *options, weft_function **out_function) {
    WEFT_NEED(out_function, "out_function");
    *out_function = NULL;
    WEFT_NEED(graph, "the graph");
    weft_compile_options o;
    WEFT_TRY(read_options(options, &o), "preparing %s", graph->name);
    weft_allocator allocator = graph->context->allocator;
    weft_function *function = weft_allocate(allocator, sizeof *function);
    if (!function) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "preparing %s", graph->name);
    function->graph = graph;
    weft_graph_retain(graph);
    function->options = o;
    weft_arena_init(allocator, &function->arena);
    weft_status status = start_function(function);
    if (status)
        weft_function_release(function);
    else
        *out_function = function;
    return status;
}

weft_status weft_function_call(weft_function *function, int input_count, weft_tensor *const *inputs, int output_count,
                               weft_tensor **outputs) {
    WEFT_NEED(function, "the function");
    WEFT_NEED_LIST(inputs, input_count, "the list of inputs");
    WEFT_NEED_LIST(outputs, output_count, "the list of outputs");
    return weft_jit_call(function->jit, input_count, inputs, output_count, outputs);
}

int weft_function_compile_count(const weft_function *function) {
    return function ? weft_jit_compile_count(function->jit) : 0;
}
