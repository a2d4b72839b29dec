/* Runs the kernel plan of one fusion: builder, code, temporaries, launches. For tests and benchmarks of builders.
   A graph holds constants and one fusion; buffers are given by operand and result number. */
#ifndef WEFT_TESTS_SUPPORT_PLAN_RUN_H
#define WEFT_TESTS_SUPPORT_PLAN_RUN_H

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "codegen/builders/builder.h"
#include "codegen/target.h"
#include "ir/build.h"
#include "passes/fuse/fuse.h"
#include "runtime/driver.h"
#include "runtime/drivers/cpu/cpu.h"

typedef struct plan_run {
    weft_graph *graph;
    const weft_node *fusion;
    weft_arena arena;
    weft_kernel_plan plan;
    weft_schedule schedule;
    weft_code_image code;
    weft_cpu_image image;
    weft_cpu_kernel *functions; /* by launch * VARIANTS + variant */
    void **temps;
    void **scratch; /* by thread */
    weft_pool *pool;
    int thread_count;
    double compile_ms;
} plan_run;

enum { PLAN_VARIANTS = 8 };

/* Wraps the whole body (constants apart) into fusions; returns the only one. */
static inline weft_status plan_fuse(weft_graph *graph, const weft_capability *capability, weft_node **out_fusion) {
    WEFT_TRY(weft_graph_finish(graph), "finishing");
    weft_pass_context context = {.graph = graph, .capability = capability, .options = ""};

    WEFT_TRY(weft_pass_fuse(&context), "fusing");
    *out_fusion = NULL;
    for (weft_node *node = graph->body->block->first; node; node = node->next) {
        if (node->op != WEFT_OP_fusion) continue;
        if (*out_fusion) return WEFT_STATUS(WEFT_INTERNAL, "more than one fusion");
        *out_fusion = node;
    }
    return *out_fusion ? NULL : WEFT_STATUS(WEFT_INTERNAL, "no fusion");
}

static inline weft_status plan_open(weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                                    int threads, const int64_t *symbols, plan_run *out) {
    *out = (plan_run){.graph = graph, .fusion = fusion, .thread_count = threads};
    weft_arena_init(weft_allocator_system(), &out->arena);
    const char *reason = "";
    const char *anchor = weft_node_string(fusion, WEFT_ATTR_anchor, "");
    const weft_builder *builder = weft_builder_find(anchor, graph, fusion, capability, &reason);
    if (!builder) return WEFT_STATUS(WEFT_UNSUPPORTED, "%s: %s", anchor, reason);
    weft_build_request request = {.graph = graph,
                                  .fusion = fusion,
                                  .schedule = &out->schedule,
                                  .capability = capability,
                                  .arena = &out->arena,
                                  .name = "kernel",
                                  .thread_count = threads};
    if (builder->propose(&request, 1, &out->schedule) < 1) return WEFT_STATUS(WEFT_INTERNAL, "no schedule");
    WEFT_TRY(builder->build(&request, &out->plan), "building");
    weft_kernel **kernels = calloc((size_t)out->plan.launch_count * PLAN_VARIANTS + 1, sizeof *kernels);
    int count = 0;
    for (int l = 0; l < out->plan.launch_count; l++)
        for (int v = 0; v < out->plan.launches[l].variant_count; v++)
            kernels[count++] = out->plan.launches[l].variants[v].kernel;
    weft_status status = weft_target_find("cpu")->compile(graph->context, capability, count, kernels, 1, &out->code);
    free(kernels);
    if (!status) status = weft_cpu_image_map(out->code.data, out->code.bytes, &out->image);
    if (status) return status;
    out->functions = calloc((size_t)out->plan.launch_count * PLAN_VARIANTS + 1, sizeof *out->functions);
    weft_dim scratch = 64;
    for (int l = 0; l < out->plan.launch_count; l++)
        for (int v = 0; v < out->plan.launches[l].variant_count; v++) {
            void *address;
            weft_kernel *kernel = out->plan.launches[l].variants[v].kernel;
            WEFT_TRY(weft_cpu_image_find(&out->image, kernel->name, &address), "looking up");
            memcpy(&out->functions[l * PLAN_VARIANTS + v], &address, sizeof address);
            scratch = weft_dim_add(graph->dims, scratch, weft_target_find("cpu")->scratch_bytes(kernel));
        }
    int64_t bytes = 0;
    out->temps = calloc((size_t)out->plan.temp_count + 1, sizeof *out->temps);
    for (int i = 0; i < out->plan.temp_count; i++) {
        if (!weft_dim_evaluate(graph->dims, out->plan.temps[i].bytes, symbols, &bytes))
            return WEFT_STATUS(WEFT_INTERNAL, "temporary");
        out->temps[i] = aligned_alloc(64, (size_t)(bytes + 8255) / 64 * 64);
        memset(out->temps[i], 0x7f, (size_t)bytes); /* poison: large NaN-free floats */
    }
    if (!weft_dim_evaluate(graph->dims, scratch, symbols, &bytes)) return WEFT_STATUS(WEFT_INTERNAL, "scratch");
    out->scratch = calloc((size_t)threads, sizeof *out->scratch);
    for (int i = 0; i < threads; i++) out->scratch[i] = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    return weft_pool_create(weft_allocator_system(), threads, &out->pool);
}

typedef struct plan_call {
    plan_run *run;
    weft_cpu_kernel function;
    void **buffers;
    int64_t *extents;
} plan_call;

static inline void plan_work(void *self, int thread, int64_t lo, int64_t hi) {
    plan_call *call = self;
    call->function(call->buffers, call->extents, lo, hi, call->run->scratch[thread]);
}

static inline weft_status plan_launch(plan_run *run, int number, const int64_t *symbols, void *const *operands,
                                      void *const *results) {
    const weft_plan_launch *launch = &run->plan.launches[number];
    int chosen = 0;
    for (; chosen + 1 < launch->variant_count; chosen++) {
        bool holds = true;
        for (int i = 0; i < launch->variants[chosen].condition_count; i++)
            holds &= weft_condition_holds(run->graph->dims, &launch->variants[chosen].conditions[i], symbols);
        if (holds) break;
    }
    const weft_kernel *kernel = launch->variants[chosen].kernel;
    void *buffers[32];
    int64_t extents[64], grid;
    int buffer_count = 0, extent_count = 0;
    for (size_t i = 0; i < kernel->argument_count; i++) {
        const weft_kargument *argument = &kernel->arguments[i];
        switch (argument->source) {
        case WEFT_ARGUMENT_OPERAND: buffers[buffer_count++] = operands[argument->index]; break;
        case WEFT_ARGUMENT_RESULT: buffers[buffer_count++] = results[argument->index]; break;
        case WEFT_ARGUMENT_TEMP: buffers[buffer_count++] = run->temps[argument->index]; break;
        case WEFT_ARGUMENT_EXTENT:
            if (!weft_dim_evaluate(run->graph->dims, argument->extent, symbols, &extents[extent_count++]))
                return WEFT_STATUS(WEFT_INTERNAL, "extent");
            break;
        case WEFT_ARGUMENT_TENSOR_MAP: return WEFT_STATUS(WEFT_UNSUPPORTED, "tensor map");
        }
    }
    if (!weft_dim_evaluate(run->graph->dims, kernel->grid, symbols, &grid)) return WEFT_STATUS(WEFT_INTERNAL, "grid");
    plan_call call = {run, run->functions[number * PLAN_VARIANTS + chosen], buffers, extents};
    weft_pool_run(run->pool, grid, 0, plan_work, &call);
    return NULL;
}

/* The launches that are done once (packs true), or the others. */
static inline weft_status plan_execute(plan_run *run, bool packs, const int64_t *symbols, void *const *operands,
                                       void *const *results) {
    for (int l = 0; l < run->plan.launch_count; l++)
        if (run->plan.launches[l].packs == packs)
            WEFT_TRY(plan_launch(run, l, symbols, operands, results), "launch %d", l);
    return NULL;
}

static inline void plan_close(plan_run *run) {
    weft_pool_release(run->pool);
    for (int i = 0; i < run->plan.temp_count && run->temps; i++) free(run->temps[i]);
    for (int i = 0; i < run->thread_count && run->scratch; i++) free(run->scratch[i]);
    free(run->temps);
    free(run->scratch);
    free(run->functions);
    weft_cpu_image_unmap(&run->image);
    weft_free(run->graph->context->allocator, run->code.data, run->code.bytes);
    weft_arena_deinit(&run->arena);
}

#endif
