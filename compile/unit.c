/* The compiler on one screen: copy, pipeline, lower, generate. */
#include "compile/unit.h"

#include "base/tensor.h"
#include "ir/verify.h"
#include "passes/pass.h"

#include <stdio.h>
#include <string.h>

static void report(const weft_compile_options *options, int done, int total, const char *what) {
    if (options->progress) options->progress(options->progress_self, done, total, what);
}

enum { ALIGN = 64 };

/* The tensor itself where kernels can read it in place, else a copy. */
static weft_status hold(weft_context *context, weft_tensor *tensor, weft_tensor **out_tensor) {
    if (tensor->packed && (uintptr_t)tensor->data % ALIGN == 0) {
        weft_tensor_retain(tensor);
        *out_tensor = tensor;
        return NULL;
    }
    WEFT_TRY(weft_tensor_create_uncleared(context, tensor->dtype, tensor->rank, tensor->shape, out_tensor),
             "copying a constant");
    weft_tensor_pack(tensor, (*out_tensor)->data);
    return NULL;
}

static weft_status hold_constants(weft_unit *unit, const weft_lowered *lowered) {
    size_t count = (size_t)unit->program->buffer_count;
    unit->constants = weft_arena_allocate_array(&unit->arena, count + 1, sizeof *unit->constants);
    unit->constant_data = weft_arena_allocate_array(&unit->arena, count + 1, sizeof *unit->constant_data);
    if (!unit->constants || !unit->constant_data)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "holding the constants of %s", unit->program->name);
    for (size_t i = 0; i < count; i++) {
        if (!lowered->weights[i]) continue;
        WEFT_TRY(hold(unit->context, lowered->weights[i], &unit->constants[i]), "constants of %s", unit->program->name);
        unit->constant_data[i] = unit->constants[i]->data;
    }
    return NULL;
}

static weft_status generate(weft_unit *unit, const weft_lowered *lowered, const weft_compile_options *options) {
    const weft_target *target = weft_target_find(unit->capability->target);
    weft_code_image image;
    int threads = options->thread_count > 0 ? options->thread_count : unit->context->thread_count;
    WEFT_TRY(weft_cache_compile(unit->context, target, unit->capability, unit->program->kernel_count, lowered->kernels,
                                threads, &image),
             "generating %d kernels for %s", unit->program->kernel_count, unit->capability->arch);
    unit->image = image.data;
    unit->image_bytes = image.bytes;
    return hold_constants(unit, lowered);
}

/* -- a budget of memory: what the plan of the lowered program takes decides, not an estimate */

enum { BUDGET_ROUNDS = 6 };

/* Temporaries, states and constants; -1 where an extent is open. */
static weft_status planned_bytes(const weft_unit *unit, const weft_program_data *program, int64_t *out_bytes) {
    weft_allocator allocator = unit->context->allocator;
    *out_bytes = -1;
    if (weft_dim_symbol_count(program->dims)) return NULL;
    size_t bytes = ((size_t)program->buffer_count + 1) * sizeof(int64_t);
    int64_t *offsets = weft_allocate(allocator, bytes), total = 0;
    if (!offsets) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "planning the memory of %s", program->name);
    weft_status status = weft_memory_plan(program, NULL, allocator, offsets, &total);
    weft_free(allocator, offsets, bytes);
    for (int i = 0; i < program->buffer_count; i++) {
        const weft_buffer *buffer = &program->buffers[i];
        if (buffer->kind == WEFT_BUFFER_STATE || buffer->kind == WEFT_BUFFER_CONSTANT) total += buffer->bytes;
    }
    *out_bytes = total;
    return status;
}

typedef struct lowering {
    weft_unit *unit;
    weft_graph *graph;
    const weft_lower_settings *settings;
    weft_arena *kernels;
    weft_lowered *lowered;
    int64_t bytes; /* planned */
} lowering;

static void discard(lowering *l) {
    weft_dim_table_release(l->lowered->program->dims);
    weft_arena_deinit(l->kernels);
    weft_arena_init(l->unit->context->allocator, l->kernels);
}

static weft_status lower(lowering *l) {
    WEFT_TRY(weft_lower(l->graph, l->unit->capability, l->settings, &l->unit->arena, l->kernels, l->lowered),
             "lowering %s", l->graph->name);
    weft_status status = planned_bytes(l->unit, l->lowered->program, &l->bytes);
    if (status) discard(l);
    return status;
}

/* The pass "budget" knows sums of sizes; what placement and the builders' own temporaries add is taken off until the
   plan itself fits. */
static weft_status lower_within(lowering *l, weft_pass_context *pass, int64_t budget) {
    int64_t target = budget;
    for (int round = 0;; round++) {
        char text[64];
        snprintf(text, sizeof text, "budget{bytes=%lld}", (long long)target);
        WEFT_TRY(weft_pipeline_run(pass, text), "compiling %s", l->graph->name);
        WEFT_TRY(lower(l), "compiling %s", l->graph->name);
        if (l->bytes <= budget) return NULL;
        discard(l);
        if (round == BUDGET_ROUNDS)
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: %.1f MB are planned for a budget of %.1f MB", l->graph->name,
                               (double)l->bytes / 1e6, (double)budget / 1e6);
        target -= l->bytes - budget + budget / 1000;
    }
}

static weft_status lower_graph(lowering *l, weft_pass_context *pass, const weft_compile_options *options) {
    int64_t budget = options->memory_bytes;
    WEFT_TRY(lower(l), "compiling %s", l->graph->name);
    if (budget <= 0 && !(options->memory_share > 0)) return NULL;
    if (budget <= 0 && l->bytes >= 0) {
        double share = options->memory_share * (double)l->bytes;
        budget = share < (double)l->bytes ? (int64_t)share : l->bytes;
    }
    bool open = l->bytes < 0, fits = !open && l->bytes <= budget; /* the pass knows sums only, and might refuse */
    if (fits) return NULL;
    discard(l);
    if (open && options->memory_bytes <= 0)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: a share of its memory, whose size is open: give bytes",
                           l->graph->name);
    if (budget <= 0)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: a share of %g of its memory is less than a byte", l->graph->name,
                           options->memory_share);
    return lower_within(l, pass, budget);
}

static weft_status compile_copy(weft_unit *unit, weft_graph *copy, const weft_compile_options *options) {
    weft_pass_context pass = {
        .graph = copy, .capability = unit->capability, .options = "", .claims = weft_builder_claims};
    WEFT_TRY(weft_graph_finish(copy), "compiling %s", copy->name);
    WEFT_TRY(weft_verify(copy), "compiling %s", copy->name);
    report(options, 1, 4, "passes");
    WEFT_TRY(weft_pipeline_run(&pass, options->pipeline ? options->pipeline : weft_pipeline_standard), "compiling %s",
             copy->name);
    report(options, 2, 4, "kernels");
    int threads = options->thread_count > 0 ? options->thread_count : unit->context->thread_count;
    weft_arena kernels;
    weft_arena_init(unit->context->allocator, &kernels);
    weft_lowered lowered;
    weft_lower_settings settings = {.thread_count = threads, .keep_launches = options->keep_launches};
    lowering l = {unit, copy, &settings, &kernels, &lowered, 0};
    weft_status status = lower_graph(&l, &pass, options);
    if (!status) {
        unit->program = lowered.program;
        report(options, 3, 4, "code");
        status = generate(unit, &lowered, options);
    }
    if (!status) report(options, 4, 4, "done");
    weft_arena_deinit(&kernels);
    return status;
}

weft_status weft_unit_prepare(weft_graph *graph, const weft_compile_options *options, weft_graph **out_graph,
                              const char **out_rest) {
    const char *pipeline = options->pipeline ? options->pipeline : weft_pipeline_standard;
    weft_arena arena;
    weft_arena_init(graph->context->allocator, &arena);
    size_t bytes = weft_pipeline_portable(pipeline);
    char *front = weft_arena_copy_string(&arena, pipeline, bytes);
    *out_graph = NULL;
    *out_rest = pipeline + bytes + (pipeline[bytes] == ',');
    weft_status status =
        front ? weft_graph_clone(graph, NULL, out_graph) : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "preparing %s", graph->name);
    if (!status) status = weft_graph_finish(*out_graph);
    if (!status) status = weft_verify(*out_graph);
    weft_pass_context pass = {.graph = *out_graph, .options = ""};
    if (!status) status = weft_pipeline_run(&pass, front);
    weft_arena_deinit(&arena);
    if (!status) return NULL;
    weft_graph_release(*out_graph);
    *out_graph = NULL;
    return weft_status_annotate(status, __FILE__, __LINE__, "preparing %s", graph->name);
}

weft_status weft_unit_compile(weft_graph *graph, const weft_dim *replacement, const weft_capability *capability,
                              const weft_compile_options *options, weft_unit **out_unit) {
    *out_unit = NULL;
    weft_allocator allocator = graph->context->allocator;
    weft_unit *unit = weft_allocate(allocator, sizeof *unit);
    if (!unit) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "compiling %s", graph->name);
    unit->context = graph->context;
    unit->own = *capability;
    unit->own.relax_f32 = options->relax & WEFT_RELAX_F32_PRODUCTS;
    unit->own.relax_f8 = options->relax & WEFT_RELAX_F8_SUMS;
    unit->own.relax_order = options->relax & WEFT_RELAX_SUM_ORDER;
    unit->own.batch_invariant = options->batch_invariant;
    unit->capability = &unit->own;
    weft_context_retain(unit->context);
    weft_arena_init(allocator, &unit->arena);
    weft_graph *copy = NULL;
    weft_status status = weft_graph_clone(graph, replacement, &copy);
    if (!status) status = compile_copy(unit, copy, options);
    weft_graph_release(copy);
    if (status)
        weft_unit_release(unit);
    else
        *out_unit = unit;
    return status;
}

void weft_unit_release(weft_unit *unit) {
    if (!unit) return;
    weft_context *context = unit->context;
    weft_allocator allocator = context->allocator;
    for (int i = 0; unit->constants && i < unit->program->buffer_count; i++) weft_tensor_release(unit->constants[i]);
    if (unit->program) weft_dim_table_release(unit->program->dims);
    weft_free(allocator, unit->image, unit->image_bytes);
    weft_arena_deinit(&unit->arena);
    weft_free(allocator, unit, sizeof *unit);
    weft_context_release(context);
}

static void release_unit(void *self) { weft_unit_release(self); }

void weft_unit_weights(const weft_unit *unit, void *out_weights) {
    for (int i = 0; i < unit->program->buffer_count; i++)
        if (unit->constants[i])
            memcpy((char *)out_weights + unit->program->buffers[i].offset, unit->constants[i]->data,
                   unit->constants[i]->bytes);
}

static weft_status load(weft_unit *unit, weft_device *device, weft_weight_pool *pool, weft_program **out_program) {
    weft_program_source source = {
        .data = unit->program,
        .constants = unit->constant_data,
        .pool = pool,
        .release = release_unit,
        .self = unit,
        .code = {.arch = unit->capability->arch, .data = unit->image, .bytes = unit->image_bytes}};
    return weft_program_create(unit->context, device, &source, out_program);
}

weft_status weft_unit_load(weft_unit *unit, weft_device *device, weft_weight_pool *pool, weft_program **out_program) {
    *out_program = NULL;
    if (pool) return load(unit, device, pool, out_program);
    weft_status status = weft_weight_pool_create(unit->context, device, &pool);
    if (status)
        weft_unit_release(unit);
    else
        status = load(unit, device, pool, out_program);
    weft_weight_pool_release(pool);
    return status;
}
