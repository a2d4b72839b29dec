/* The compiler on one screen: copy, pipeline, lower, generate. */
#include "compile/unit.h"

#include "ir/verify.h"
#include "passes/pass.h"

#include <string.h>

static void report(const weft_compile_options *options, int done, int total, const char *what) {
    if (options->progress) options->progress(options->progress_self, done, total, what);
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
    unit->weights = weft_allocate(unit->context->allocator, (size_t)unit->program->weights_bytes + 1);
    if (!unit->weights)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %lld bytes of weights",
                           (long long)unit->program->weights_bytes);
    weft_lowered_weights(lowered, unit->weights);
    return NULL;
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
    weft_status status = weft_lower(copy, unit->capability, threads, &unit->arena, &kernels, &lowered);
    if (!status) {
        unit->program = lowered.program;
        report(options, 3, 4, "code");
        status = generate(unit, &lowered, options);
    }
    if (!status) report(options, 4, 4, "done");
    weft_arena_deinit(&kernels);
    return status;
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
    if (unit->program) {
        weft_free(allocator, unit->weights, (size_t)unit->program->weights_bytes + 1);
        weft_dim_table_release(unit->program->dims);
    }
    weft_free(allocator, unit->image, unit->image_bytes);
    weft_arena_deinit(&unit->arena);
    weft_free(allocator, unit, sizeof *unit);
    weft_context_release(context);
}

static void release_unit(void *self) { weft_unit_release(self); }

weft_status weft_unit_load(weft_unit *unit, weft_device *device, weft_program **out_program) {
    weft_program_source source = {
        .data = unit->program,
        .weights = unit->weights,
        .release = release_unit,
        .self = unit,
        .code = {.arch = unit->capability->arch, .data = unit->image, .bytes = unit->image_bytes}};
    return weft_program_create(unit->context, device, &source, out_program);
}
