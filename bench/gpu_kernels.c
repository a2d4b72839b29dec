/* libweft_bench: one fused graph, compiled for the CUDA device and launched on raw device pointers, so that a program
   which holds a peer's tensors (gpu_peers/) can time both side by side on one stream.

   The graph goes the compiler's way: passes, builders, kernel IR, CUDA C, NVRTC, driver; only memory comes from
   outside. One process, one device, one thread. Read next: tests/cuda/cases.h, gpu_peers/. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "base/tensor.h"
#include "bench/clock.h"
#include "codegen/builders/builder.h"
#include "codegen/target.h"
#include "passes/pass.h"
#include "runtime/driver.h"
#include "runtime/drivers/cuda/cuda.h"
#include "tests/cuda/cases.h"

enum { LAUNCHES_MAX = 64, COPIES_MAX = 4, BUFFERS_MAX = 32, MAPS_MAX = 32 };

typedef struct bound_launch {
    weft_launch launch;
    void **slots[BUFFERS_MAX]; /* where each buffer's address is found at launch */
    void *buffers[BUFFERS_MAX];
    int64_t extents[BUFFERS_MAX];
    weft_launch_map maps[MAPS_MAX];
    int map_buffers[MAPS_MAX];
} bound_launch;

typedef struct bound_copy {
    void **to, **from;
    size_t bytes;
} bound_copy;

typedef struct weft_bench {
    weft_graph *graph;
    weft_arena arena;
    weft_capability capability; /* the device's record and what the case permits */
    weft_code_image image;
    weft_module *module;
    weft_program_data data;
    weft_program_kernel kernels[LAUNCHES_MAX];
    weft_kernel *code[LAUNCHES_MAX];
    bound_launch launches[LAUNCHES_MAX];
    bound_copy copies[COPIES_MAX];
    int launch_count, copy_count;
    weft_map memory; /* weft_value -> void ** */
    void *owned[LAUNCHES_MAX];
    size_t owned_bytes[LAUNCHES_MAX];
    int owned_count, port_count; /* the first port_count are inputs and outputs, lent by the caller */
    double compile_seconds;
    char text[4096];
} weft_bench;

static struct {
    weft_context *context;
    weft_device *device;
    const weft_capability *capability;
    bool batch_invariant; /* of the cases that are created next */
    char error[2048];
} bench;

static int report(weft_status status) {
    if (!status) return 0;
    (void)weft_status_format(status, bench.error, sizeof bench.error);
    weft_status_release(status);
    return 1;
}

/* -- memory */

static weft_status own_memory(weft_bench *b, size_t bytes, void ***out_slot) {
    if (b->owned_count == LAUNCHES_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many temporaries");
    *out_slot = &b->owned[b->owned_count];
    b->owned_bytes[b->owned_count] = bytes;
    WEFT_TRY(bench.device->driver->allocate(bench.device, bytes, *out_slot), "temporary");
    b->owned_count++;
    return NULL;
}

static weft_status slot_of(weft_bench *b, const weft_value *value, void ***out_slot) {
    *out_slot = weft_map_find(&b->memory, &value, sizeof value);
    if (*out_slot) return NULL;
    int64_t elements = 1;
    for (int i = 0; i < value->type.rank; i++) elements *= value->type.dims[i];
    WEFT_TRY(own_memory(b, (size_t)elements * (size_t)weft_dtype_bits(value->type.dtype) / 8, out_slot), "value %%%d",
             value->id);
    if (value->node && value->node->op == WEFT_OP_constant) {
        const weft_tensor *tensor = weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
        WEFT_TRY(bench.device->driver->upload(bench.device, **out_slot, tensor->data, tensor->bytes), "constant");
    }
    return weft_map_put(&b->memory, &value, sizeof value, *out_slot) ? NULL
                                                                     : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "memory map");
}

static weft_status evaluate(weft_bench *b, weft_dim dim, int64_t *out_value) {
    if (!weft_dim_evaluate(b->graph->dims, dim, NULL, out_value))
        return WEFT_STATUS(WEFT_INTERNAL, "an extent without a value");
    return NULL;
}

/* -- binding a kernel plan */

static weft_status bind_map(weft_bench *b, bound_launch *bound, const weft_tensor_map *from, int index) {
    weft_launch_map *to = &bound->maps[index];
    *to = (weft_launch_map){.dtype = from->dtype, .rank = from->rank, .swizzle_bytes = from->swizzle_bytes};
    for (int i = 0; i < from->rank; i++) {
        to->box[i] = from->box[i];
        WEFT_TRY(evaluate(b, from->extent[i], &to->extent[i]), "tensor map");
        if (i > 0) WEFT_TRY(evaluate(b, from->stride_bytes[i], &to->stride_bytes[i]), "tensor map");
    }
    bound->map_buffers[index] = from->buffer;
    return NULL;
}

static weft_status bind_launch(weft_bench *b, const weft_node *fusion, const weft_kernel_plan *plan, void ***temps,
                               weft_kernel *kernel) {
    if (b->launch_count == LAUNCHES_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many launches");
    bound_launch *bound = &b->launches[b->launch_count];
    weft_program_kernel *record = &b->kernels[b->launch_count];
    for (size_t i = 0; i < kernel->argument_count; i++) {
        const weft_kargument *argument = &kernel->arguments[i];
        if (bound->launch.buffer_count == BUFFERS_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many buffers");
        void ***slot = &bound->slots[bound->launch.buffer_count];
        switch (argument->source) {
        case WEFT_ARGUMENT_OPERAND: WEFT_TRY(slot_of(b, fusion->operands[argument->index], slot), "operand"); break;
        case WEFT_ARGUMENT_RESULT: WEFT_TRY(slot_of(b, &fusion->results[argument->index], slot), "result"); break;
        case WEFT_ARGUMENT_TEMP: *slot = temps[argument->index]; break;
        case WEFT_ARGUMENT_EXTENT:
            WEFT_TRY(evaluate(b, argument->extent, &bound->extents[bound->launch.extent_count++]), "extent");
            continue;
        case WEFT_ARGUMENT_TENSOR_MAP:
            WEFT_TRY(bind_map(b, bound, &plan->maps[argument->index], bound->launch.map_count++), "kernel %s",
                     kernel->name);
            continue;
        }
        bound->launch.buffer_count++;
    }
    WEFT_TRY(evaluate(b, kernel->grid, &bound->launch.grid), "grid");
    WEFT_TRY(evaluate(b, weft_target_find("cuda")->scratch_bytes(kernel), &bound->launch.scratch_bytes),
             "shared memory");
    *record = (weft_program_kernel){.name = kernel->name, .threads = kernel->threads, .cluster = kernel->cluster};
    bound->launch.kernel = b->launch_count;
    b->code[b->launch_count++] = kernel;
    return NULL;
}

static weft_status bind_plan(weft_bench *b, const weft_node *fusion, const weft_kernel_plan *plan) {
    void **temps[16];
    if (plan->temp_count > 16) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many temporaries");
    for (int i = 0; i < plan->temp_count; i++) {
        int64_t bytes;
        WEFT_TRY(evaluate(b, plan->temps[i].bytes, &bytes), "temporary");
        WEFT_TRY(own_memory(b, (size_t)bytes, &temps[i]), "temporary");
    }
    for (int i = 0; i < plan->launch_count; i++) {
        const weft_plan_launch *launch = &plan->launches[i];
        for (int v = 0; v < launch->variant_count; v++) { /* extents are numbers: the first that holds */
            bool holds = true;
            for (int c = 0; c < launch->variants[v].condition_count; c++)
                holds &= weft_condition_holds(b->graph->dims, &launch->variants[v].conditions[c], NULL);
            if (!holds) continue;
            WEFT_TRY(bind_launch(b, fusion, plan, temps, launch->variants[v].kernel), "launch %d", i);
            break;
        }
    }
    return NULL;
}

/* A reshape beside the kernels shares the memory of its operand: with an output, the output's. From an input to an
   output it is a copy. */
static weft_status share_memory(weft_bench *b, const weft_node *node) {
    const weft_value *from = node->operands[0], *to = &node->results[0];
    void **slot = weft_map_find(&b->memory, &to, sizeof to);
    if (slot && weft_map_has(&b->memory, &from, sizeof from)) {
        if (b->copy_count == COPIES_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many copies");
        bound_copy *copy = &b->copies[b->copy_count++];
        int64_t bits = weft_dtype_bits(to->type.dtype);
        for (int i = 0; i < to->type.rank; i++) bits *= to->type.dims[i];
        copy->to = slot, copy->bytes = (size_t)bits / 8;
        return slot_of(b, from, &copy->from);
    }
    if (!slot) WEFT_TRY(slot_of(b, from, &slot), "reshape");
    if (!weft_map_put(&b->memory, &from, sizeof from, slot) || !weft_map_put(&b->memory, &to, sizeof to, slot))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "reshape");
    return NULL;
}

/* choice: which of the builder's proposals; past the last = OUT_OF_RANGE. Thousands: bits of schedule.way that differ.
 */
static weft_status build_fusion(weft_bench *b, const weft_node *fusion, int choice, int number) {
    const char *anchor = weft_node_string(fusion, WEFT_ATTR_anchor, ""), *reason = "";
    const weft_builder *builder = weft_builder_find(anchor, b->graph, fusion, &b->capability, &reason);
    if (!builder) return WEFT_STATUS(WEFT_UNSUPPORTED, "no builder for %s: %s", anchor, reason);
    weft_build_request request = {.graph = b->graph,
                                  .fusion = fusion,
                                  .capability = &b->capability,
                                  .arena = &b->arena,
                                  .name = weft_arena_format(&b->arena, "%s_%d", anchor, number),
                                  .thread_count = bench.capability->multiprocessors};
    weft_schedule schedules[16];
    int count = builder->propose(&request, 16, schedules);
    int way = choice / 1000;
    choice %= 1000;
    if (choice >= count) return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%s proposes %d schedules", builder->name, count);
    schedules[choice].way ^= way;
    request.schedule = &schedules[choice];
    weft_kernel_plan plan;
    WEFT_TRY(builder->build(&request, &plan), "building %s", anchor);
    weft_text text;
    weft_text_init(bench.context->allocator, &text);
    weft_schedule_print(request.schedule, &text);
    size_t used = strlen(b->text);
    snprintf(b->text + used, sizeof b->text - used, "%s%s %s", used ? "; " : "", anchor, weft_text_string(&text));
    weft_text_deinit(&text);
    return bind_plan(b, fusion, &plan);
}

static weft_status build_graph(weft_bench *b, int choice) {
    weft_pass_context pass = {
        .graph = b->graph, .capability = &b->capability, .options = "", .claims = weft_builder_claims};
    WEFT_TRY(weft_graph_finish(b->graph), "case");
    WEFT_TRY(weft_pipeline_run(&pass, weft_pipeline_standard), "passes");
    int number = 0;
    const weft_node *last = b->graph->body->block->last;
    for (int i = 0; i < last->operand_count; i++) {
        const weft_value *value = last->operands[i];
        if (!weft_map_put(&b->memory, &value, sizeof value, &b->owned[weft_graph_input_count(b->graph) + i]))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "outputs");
    }
    for (const weft_node *node = last; node; node = node->previous)
        if (node->op == WEFT_OP_reshape) WEFT_TRY(share_memory(b, node), "case");
    for (const weft_node *node = b->graph->body->block->first; node; node = node->next) {
        if (node->op == WEFT_OP_fusion)
            WEFT_TRY(build_fusion(b, node, choice, number++), "case");
        else if (node->op != WEFT_OP_constant && node->op != WEFT_OP_yield && node->op != WEFT_OP_reshape)
            return WEFT_STATUS(WEFT_UNSUPPORTED, "op %s is left beside the kernels", weft_op_get(node->op)->name);
    }
    return NULL;
}

static weft_status compile(weft_bench *b) {
    double start = clock_seconds();
    WEFT_TRY(weft_target_find("cuda")->compile(bench.context, &b->capability, b->launch_count, b->code, 4, &b->image),
             "compiling");
    b->compile_seconds = clock_seconds() - start;
    b->data =
        (weft_program_data){.name = "bench", .kernel_count = b->launch_count, .kernels = b->kernels, .target = "cuda"};
    weft_binary binary = {bench.capability->arch, b->image.data, b->image.bytes};
    WEFT_TRY(bench.device->driver->load(bench.device, &b->data, &binary, &b->module), "loading");
    for (int i = 0; i < b->launch_count; i++) {
        int registers, local;
        WEFT_TRY(weft_cuda_kernel_info(bench.device, b->module, i, &registers, &local), "kernel %d", i);
        size_t used = strlen(b->text);
        snprintf(b->text + used, sizeof b->text - used, "; %s: %d registers, %d local bytes, grid %lld, shared %lld",
                 b->kernels[i].name, registers, local, (long long)b->launches[i].launch.grid,
                 (long long)b->launches[i].launch.scratch_bytes);
    }
    return NULL;
}

/* -- what gpu_peers/ calls. 0 = success; weft_bench_error otherwise */

WEFT_API const char *weft_bench_error(void);
WEFT_API int weft_bench_open(int ordinal);
WEFT_API void weft_bench_close(void);
WEFT_API void weft_bench_set_batch_invariant(int on); /* for what is created from now on */
WEFT_API int weft_bench_create(const char *name, int count, const int64_t *numbers, int choice, weft_bench **out_bench);
WEFT_API void weft_bench_release(weft_bench *b);
WEFT_API int weft_bench_run(weft_bench *b, int input_count, void *const *inputs, int output_count, void *const *outputs,
                            void *stream);
WEFT_API const char *weft_bench_text(const weft_bench *b);
WEFT_API double weft_bench_compile_seconds(const weft_bench *b);
WEFT_API int weft_bench_print(const weft_bench *b, const char *path);

const char *weft_bench_error(void) { return bench.error; }
const char *weft_bench_text(const weft_bench *b) { return b->text; }
double weft_bench_compile_seconds(const weft_bench *b) { return b->compile_seconds; }

int weft_bench_open(int ordinal) {
    char name[32];
    weft_device_info info;
    snprintf(name, sizeof name, "cuda:%d", ordinal);
    if (report(weft_context_create(NULL, &bench.context))) return 1;
    if (report(weft_device_open(bench.context, name, &bench.device))) return 1;
    weft_device_get_info(bench.device, &info);
    bench.capability = weft_capability_find("cuda", info.arch);
    return bench.capability ? 0 : report(WEFT_STATUS(WEFT_UNSUPPORTED, "no record of %s", info.arch));
}

void weft_bench_close(void) {
    weft_device_release(bench.device);
    weft_context_release(bench.context);
    bench.device = NULL, bench.context = NULL;
}

void weft_bench_set_batch_invariant(int on) { bench.batch_invariant = on; }

void weft_bench_release(weft_bench *b) {
    if (!b) return;
    if (b->module) bench.device->driver->unload(bench.device, b->module);
    for (int i = b->port_count; i < b->owned_count; i++)
        bench.device->driver->free(bench.device, b->owned[i], b->owned_bytes[i]);
    weft_free(bench.context->allocator, b->image.data, b->image.bytes);
    weft_map_deinit(&b->memory);
    weft_arena_deinit(&b->arena);
    if (b->graph) weft_graph_release(b->graph);
    weft_free(bench.context->allocator, b, sizeof *b);
}

int weft_bench_create(const char *name, int count, const int64_t *numbers, int choice, weft_bench **out_bench) {
    *out_bench = NULL;
    weft_bench *b = weft_allocate(bench.context->allocator, sizeof *b);
    if (!b) return report(WEFT_STATUS(WEFT_OUT_OF_MEMORY, "case %s", name));
    b->capability = weft_bench_capability(bench.capability, name, numbers);
    b->capability.batch_invariant = bench.batch_invariant;
    weft_arena_init(bench.context->allocator, &b->arena);
    weft_map_init(bench.context->allocator, &b->memory);
    weft_status status = weft_bench_graph(bench.context, name, count, numbers, &b->graph);
    /* inputs and outputs have the first slots */
    if (!status) b->port_count = b->owned_count = weft_graph_input_count(b->graph) + weft_graph_output_count(b->graph);
    if (!status) {
        status = weft_graph_finish(b->graph);
        for (int i = 0; !status && i < weft_graph_input_count(b->graph); i++) {
            const weft_value *value = b->graph->body->block->arguments[i];
            if (!weft_map_put(&b->memory, &value, sizeof value, &b->owned[i]))
                status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "case %s", name);
        }
    }
    if (!status) status = build_graph(b, choice);
    if (!status && b->launch_count > 0) status = compile(b);
    if (status) {
        weft_bench_release(b);
        return report(weft_status_annotate(status, __FILE__, __LINE__, "case %s", name));
    }
    *out_bench = b;
    return 0;
}

int weft_bench_run(weft_bench *b, int input_count, void *const *inputs, int output_count, void *const *outputs,
                   void *stream) {
    /* the CUDA runtime's default stream is NULL there and CU_STREAM_LEGACY, 1, in the driver's calls */
    weft_cuda_use_stream(bench.device, stream ? stream : (void *)1);
    for (int i = 0; i < input_count; i++) b->owned[i] = inputs[i];
    for (int i = 0; i < output_count; i++) b->owned[input_count + i] = outputs[i];
    for (int n = 0; n < b->launch_count; n++) {
        bound_launch *bound = &b->launches[n];
        for (int i = 0; i < bound->launch.buffer_count; i++) bound->buffers[i] = *bound->slots[i];
        for (int i = 0; i < bound->launch.map_count; i++) bound->maps[i].memory = bound->buffers[bound->map_buffers[i]];
        bound->launch.buffers = bound->buffers, bound->launch.extents = bound->extents,
        bound->launch.maps = bound->maps;
        if (report(bench.device->driver->launch(bench.device, b->module, &bound->launch))) return 1;
    }
    for (int i = 0; i < b->copy_count; i++) {
        const bound_copy *copy = &b->copies[i];
        if (report(bench.device->driver->copy(bench.device, *copy->to, *copy->from, copy->bytes))) return 1;
    }
    return 0;
}

int weft_bench_print(const weft_bench *b, const char *path) {
    weft_text text;
    weft_text_init(bench.context->allocator, &text);
    weft_status status = NULL;
    for (int i = 0; !status && i < b->launch_count; i++) status = weft_target_find("cuda")->print(b->code[i], &text);
    if (!status) status = weft_file_write_all(bench.context->allocator, path, weft_text_string(&text), text.length);
    weft_text_deinit(&text);
    return report(status);
}
