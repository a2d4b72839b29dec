/* A fusion becomes the launches of its builder's plan. Equal groups share plan and kernels; each has its own buffers.
 */
#include "compile/lower.h"

#include "codegen/kernel/verify.h"
#include "codegen/target.h"

#include <string.h>

typedef struct shared_plan {
    weft_kernel_plan plan;
    int **kernels; /* per launch and variant: number in the program */
} shared_plan;

weft_status weft_lower_add_kernel(weft_lowering *l, weft_kernel *kernel, int *out_number) {
    if (!WEFT_ARRAY_RESERVE(l->allocator, l->kernels, l->kernel_capacity, (size_t)l->kernel_count + 1) ||
        !WEFT_ARRAY_RESERVE(l->allocator, l->kernel_records, l->kernel_record_capacity, (size_t)l->kernel_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding kernel %s", kernel->name);
    weft_program_kernel record = {
        .threads = kernel->threads, .cluster = kernel->cluster, .hash = weft_kernel_hash(kernel)};
    WEFT_TRY(weft_lower_extent(l, l->target->scratch_bytes(kernel), &record.scratch_bytes), "scratch of kernel %s",
             kernel->name);
    record.name = weft_arena_copy_string(l->arena, kernel->name, strlen(kernel->name));
    if (!record.name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding kernel %s", kernel->name);
    l->kernels[l->kernel_count] = kernel;
    l->kernel_records[l->kernel_count] = record;
    *out_number = l->kernel_count++;
    return NULL;
}

static weft_status build_plan(weft_lowering *l, const weft_node *fusion, shared_plan **out_plan) {
    const char *anchor = weft_node_string(fusion, WEFT_ATTR_anchor, ""), *reason = NULL;
    const weft_builder *builder = weft_builder_find(anchor, l->graph, fusion, l->capability, &reason);
    if (!builder)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "no builder for %s on %s %s: %s", anchor, l->capability->target,
                           l->capability->arch, reason ? reason : "none is registered");
    weft_schedule schedule = {0};
    weft_build_request request = {.graph = l->graph,
                                  .fusion = fusion,
                                  .schedule = &schedule,
                                  .capability = l->capability,
                                  .arena = l->kernel_arena,
                                  .thread_count = l->thread_count};
    request.name = weft_arena_format(l->kernel_arena, "k%d_%s", l->plan_count++, anchor);
    shared_plan *shared = weft_arena_allocate(l->kernel_arena, sizeof *shared);
    if (!request.name || !shared) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", anchor);
    if (builder->propose(&request, 1, &schedule) < 1)
        return WEFT_STATUS(WEFT_INTERNAL, "builder %s proposed no schedule", builder->name);
    WEFT_TRY(builder->build(&request, &shared->plan), "building %s", request.name);
    shared->kernels =
        weft_arena_allocate_array(l->kernel_arena, (size_t)shared->plan.launch_count + 1, sizeof *shared->kernels);
    if (!shared->kernels) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", anchor);
    for (int i = 0; i < shared->plan.launch_count; i++) {
        const weft_plan_launch *launch = &shared->plan.launches[i];
        shared->kernels[i] =
            weft_arena_allocate_array(l->kernel_arena, (size_t)launch->variant_count, sizeof **shared->kernels);
        if (!shared->kernels[i]) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", anchor);
        for (int v = 0; v < launch->variant_count; v++) {
            WEFT_TRY(weft_kernel_verify(launch->variants[v].kernel), "kernel %s", launch->variants[v].kernel->name);
            WEFT_TRY(weft_lower_add_kernel(l, launch->variants[v].kernel, &shared->kernels[i][v]), "building %s",
                     anchor);
        }
    }
    *out_plan = shared;
    return NULL;
}

static weft_status find_plan(weft_lowering *l, const weft_node *fusion, shared_plan **out_plan) {
    weft_text key;
    weft_text_init(l->allocator, &key);
    weft_status status = weft_structure_key(fusion, &key);
    *out_plan = status ? NULL : weft_map_find(&l->plans, key.data, key.length);
    if (!status && !*out_plan) {
        status = build_plan(l, fusion, out_plan);
        if (!status && !weft_map_put(&l->plans, key.data, key.length, *out_plan))
            status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "sharing a plan");
    }
    weft_text_deinit(&key);
    return status;
}

static weft_status bind_conditions(weft_lowering *l, const weft_plan_variant *from, weft_launch_variant *to) {
    weft_condition *conditions =
        weft_arena_allocate_array(l->arena, (size_t)from->condition_count + 1, sizeof *conditions);
    if (!conditions) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "binding a launch");
    for (int i = 0; i < from->condition_count; i++) {
        conditions[i].relation = from->conditions[i].relation;
        WEFT_TRY(weft_lower_extent(l, from->conditions[i].lhs, &conditions[i].lhs), "binding a launch");
        WEFT_TRY(weft_lower_extent(l, from->conditions[i].rhs, &conditions[i].rhs), "binding a launch");
    }
    to->conditions = conditions;
    to->condition_count = from->condition_count;
    return NULL;
}

static weft_status bind_map(weft_lowering *l, const weft_tensor_map *from, const int *buffers, weft_tensor_map *to) {
    *to = *from;
    to->buffer = buffers[from->buffer];
    for (int d = 0; d < from->rank; d++) {
        WEFT_TRY(weft_lower_extent(l, from->extent[d], &to->extent[d]), "binding a tensor map");
        if (d > 0) WEFT_TRY(weft_lower_extent(l, from->stride_bytes[d], &to->stride_bytes[d]), "binding a tensor map");
    }
    return NULL;
}

/* Does the kernel leave the argument's memory as it is? Tensor maps write what they name without naming it in an
   instruction. */
static bool only_reads(const weft_kernel *kernel, const weft_kargument *argument) {
    for (size_t i = 0; i < kernel->argument_count; i++)
        if (kernel->arguments[i].source == WEFT_ARGUMENT_TENSOR_MAP)
            return argument->source == WEFT_ARGUMENT_OPERAND && !argument->writes;
    return !argument->stores;
}

static weft_status bind_variant(weft_lowering *l, const weft_node *fusion, const weft_kernel_plan *plan,
                                const int *temps, const weft_plan_variant *from, int number, weft_launch_variant *to) {
    const weft_kernel *kernel = from->kernel;
    size_t count = kernel->argument_count + 1;
    int *buffers = weft_arena_allocate_array(l->arena, count, sizeof *buffers);
    weft_dim *extents = weft_arena_allocate_array(l->arena, count, sizeof *extents);
    weft_tensor_map *maps = weft_arena_allocate_array(l->arena, count, sizeof *maps);
    int *reads = weft_arena_allocate_array(l->arena, count, sizeof *reads);
    if (!buffers || !extents || !maps || !reads) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "binding a launch");
    to->kernel = number;
    WEFT_TRY(bind_conditions(l, from, to), "kernel %s", kernel->name);
    WEFT_TRY(weft_lower_extent(l, kernel->grid, &to->grid), "grid of %s", kernel->name);
    for (size_t i = 0; i < kernel->argument_count; i++) {
        const weft_kargument *argument = &kernel->arguments[i];
        int *buffer = &buffers[to->buffer_count];
        switch (argument->source) {
        case WEFT_ARGUMENT_OPERAND:
            WEFT_TRY(weft_lower_buffer(l, fusion->operands[argument->index], buffer), "kernel %s", kernel->name);
            break;
        case WEFT_ARGUMENT_RESULT:
            WEFT_TRY(weft_lower_result(l, &fusion->results[argument->index], buffer), "kernel %s", kernel->name);
            break;
        case WEFT_ARGUMENT_TEMP: *buffer = temps[argument->index]; break;
        case WEFT_ARGUMENT_EXTENT:
            WEFT_TRY(weft_lower_extent(l, argument->extent, &extents[to->extent_count++]), "kernel %s", kernel->name);
            continue;
        case WEFT_ARGUMENT_TENSOR_MAP: to->map_count++; continue;
        }
        weft_lower_touch(l, *buffer);
        if (only_reads(kernel, argument)) reads[to->read_count++] = to->buffer_count;
        to->buffer_count++;
    }
    int map = 0;
    for (size_t i = 0; i < kernel->argument_count; i++)
        if (kernel->arguments[i].source == WEFT_ARGUMENT_TENSOR_MAP)
            WEFT_TRY(bind_map(l, &plan->maps[kernel->arguments[i].index], buffers, &maps[map++]), "kernel %s",
                     kernel->name);
    to->buffers = buffers, to->extents = extents, to->maps = maps, to->reads = reads;
    return NULL;
}

static bool is_constant_operand(const weft_node *fusion, int operand) {
    const weft_node *producer =
        operand >= 0 && operand < fusion->operand_count ? fusion->operands[operand]->node : NULL;
    return producer && producer->op == WEFT_OP_constant;
}

static weft_status make_temps(weft_lowering *l, const weft_node *fusion, const weft_kernel_plan *plan, int *temps) {
    for (int i = 0; i < plan->temp_count; i++) {
        bool kept = plan->temps[i].persistent && is_constant_operand(fusion, plan->temps[i].operand);
        weft_buffer buffer = {.kind = kept ? WEFT_BUFFER_PERSISTENT : WEFT_BUFFER_TEMP,
                              .first_step = -1,
                              .last_step = -1,
                              .name = kept ? "packed" : "scratch"};
        WEFT_TRY(weft_lower_extent(l, plan->temps[i].bytes, &buffer.bytes), "temporary of a kernel");
        WEFT_TRY(weft_lower_add_buffer(l, &buffer, &temps[i]), "temporary of a kernel");
    }
    return NULL;
}

/* A packing launch runs at load when every operand it reads is a constant. */
static bool packs_at_load(const weft_node *fusion, const weft_plan_launch *launch) {
    if (!launch->packs) return false;
    for (int v = 0; v < launch->variant_count; v++) {
        const weft_kernel *kernel = launch->variants[v].kernel;
        for (size_t i = 0; i < kernel->argument_count; i++)
            if (kernel->arguments[i].source == WEFT_ARGUMENT_OPERAND &&
                !is_constant_operand(fusion, kernel->arguments[i].index))
                return false;
    }
    return true;
}

/* nonzero names a size that later extents use: the count is read as soon as it is there. */
static weft_status read_size(weft_lowering *l, const weft_node *fusion) {
    const weft_node *node = fusion->regions[0]->block->first;
    const weft_attribute *symbol =
        node && node->op == WEFT_OP_nonzero ? weft_node_attribute(node, WEFT_ATTR_symbol) : NULL;
    if (!symbol) return NULL;
    weft_step step = {.kind = WEFT_STEP_READ_DIM,
                      .location = weft_lower_location(l, fusion),
                      .symbol = weft_dim_symbol_find(l->dims, symbol->as.string)};
    WEFT_TRY(weft_lower_buffer(l, &fusion->results[1], &step.buffers[0]), "reading a size");
    weft_lower_touch(l, step.buffers[0]);
    return weft_lower_add_step(l, &step);
}

weft_status weft_lower_fusion(weft_lowering *l, const weft_node *fusion) {
    shared_plan *shared;
    WEFT_TRY(find_plan(l, fusion, &shared), "lowering a group");
    const weft_kernel_plan *plan = &shared->plan;
    int *temps = weft_arena_allocate_array(l->kernel_arena, (size_t)plan->temp_count + 1, sizeof *temps);
    if (!temps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "lowering a group");
    WEFT_TRY(make_temps(l, fusion, plan, temps), "lowering a group");
    for (int i = 0; i < plan->launch_count; i++) {
        const weft_plan_launch *launch = &plan->launches[i];
        weft_step step = {.kind = WEFT_STEP_LAUNCH,
                          .variant_count = launch->variant_count,
                          .location = weft_lower_location(l, fusion)};
        weft_launch_variant *variants =
            weft_arena_allocate_array(l->arena, (size_t)launch->variant_count, sizeof *variants);
        if (!variants) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "lowering a group");
        int saved = l->region;
        if (packs_at_load(fusion, launch)) l->region = WEFT_REGION_LOAD;
        weft_status status = NULL;
        for (int v = 0; v < launch->variant_count && !status; v++)
            status = bind_variant(l, fusion, plan, temps, &launch->variants[v], shared->kernels[i][v], &variants[v]);
        step.variants = variants;
        if (!status) status = weft_lower_add_step(l, &step);
        l->region = saved;
        WEFT_TRY(status, "binding %s", step.location);
    }
    for (int i = 0; i < fusion->result_count; i++) { /* a result without elements needs no launch, but a place */
        int number;
        WEFT_TRY(weft_lower_result(l, &fusion->results[i], &number), "placing a result");
        if (l->buffer_list[number].first_step < 0) weft_lower_touch(l, number);
    }
    return read_size(l, fusion);
}
