/* See harness.h. */
#include "tests/cuda/harness.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/program.h"

void cuda_check(weft_status status) {
    if (!status) return;
    char text[4096];
    (void)weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_abort_msg("%s", text);
}

bool cuda_build_choice(compiled *c, const weft_capability *capability, int choice, bool *out_more) {
    int number = 0, way = choice / WAY;
    choice %= WAY;
    c->count = 0;
    for (const weft_node *node = c->graph->body->block->first; node; node = node->next) {
        if (node->op != WEFT_OP_fusion) continue;
        const char *anchor = weft_node_string(node, WEFT_ATTR_anchor, ""), *reason = "";
        const weft_builder *builder = weft_builder_find(anchor, c->graph, node, capability, &reason);
        if (!builder) {
            printf("  %s: no builder for %s: %s\n", capability->arch, anchor, reason);
            return false;
        }
        weft_build_request request = {.graph = c->graph,
                                      .fusion = node,
                                      .capability = capability,
                                      .arena = &c->arena,
                                      .name = weft_arena_format(&c->arena, "%s_%d", anchor, number++),
                                      .thread_count = capability->multiprocessors};
        weft_schedule schedules[16];
        int proposed = builder->propose(&request, 16, schedules);
        ck_assert_int_ge(proposed, 1);
        schedules[choice < proposed ? choice : proposed - 1].way ^= way;
        request.schedule = &schedules[choice < proposed ? choice : proposed - 1];
        c->schedule = *request.schedule;
        *out_more = choice + 1 < proposed;
        if (getenv("WEFT_TEST_VERBOSE")) {
            weft_text text;
            weft_text_init(weft_dim_table_allocator(c->graph->dims), &text);
            weft_schedule_print(request.schedule, &text);
            printf("  choice %d: %s\n", choice, weft_text_string(&text));
            fflush(stdout);
            weft_text_deinit(&text);
        }
        cuda_check(builder->build(&request, &c->plan));
        for (int i = 0; i < c->plan.launch_count; i++)
            for (int v = 0; v < c->plan.launches[i].variant_count; v++) {
                ck_assert_int_lt(c->count, KERNELS_MAX);
                c->kernels[c->count++] = c->plan.launches[i].variants[v].kernel;
            }
    }
    return true;
}

weft_tensor *cuda_random_tensor(weft_context *context, const weft_value *value, uint64_t *state) {
    int64_t shape[WEFT_MAX_RANK];
    weft_tensor *tensor;
    for (int i = 0; i < weft_value_rank(value); i++) shape[i] = weft_value_dim(value, i);
    cuda_check(weft_tensor_create(context, weft_value_dtype(value), weft_value_rank(value), shape, &tensor));
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        double x = (double)(*state >> 40) / 8388608.0 - 1.0;
        if (tensor->dtype == WEFT_BOOL) x = i / 37 % 3 != 0 && x > -0.8; /* runs with holes */
        if (tensor->dtype == WEFT_I32) x = (double)(i / 45);             /* numbers of sequences side by side */
        if (tensor->dtype == WEFT_I32 && tensor->rank == 1)
            x = (double)(3 + 61 * (i - i / 3));                    /* offsets of groups, some empty */
        if (tensor->dtype == WEFT_U64) x = (double)(*state >> 40); /* steps */
        weft_element_set_double(tensor->dtype, tensor->data, i, x);
    }
    return tensor;
}

/* Binds a kernel's arguments to tensors, temporaries and maps as a driver would, and runs it. */
static void simulate_kernel(const compiled *c, const weft_kernel *kernel, weft_tensor *const *inputs, int input_count,
                            weft_tensor *const *results, const weft_sim_buffer *temps, uint64_t seed,
                            weft_allocator allocator, weft_sim_counts *counts) {
    enum { ARGUMENTS_MAX = 32 };
    const weft_node *fusion = c->graph->body->block->first;
    weft_sim_buffer buffers[ARGUMENTS_MAX] = {{0}};
    weft_tensor_map maps[ARGUMENTS_MAX];
    int memories[ARGUMENTS_MAX], memory_count = 0;
    ck_assert_uint_lt(kernel->argument_count, ARGUMENTS_MAX);
    for (size_t i = 0; i < kernel->argument_count; i++) {
        const weft_kargument *argument = &kernel->arguments[i];
        weft_tensor *tensor = argument->source == WEFT_ARGUMENT_RESULT ? results[argument->index] : NULL;
        if (argument->source == WEFT_ARGUMENT_OPERAND)
            for (int n = 0; n < input_count; n++)
                if (fusion->operands[argument->index] == c->graph->body->block->arguments[n]) tensor = inputs[n];
        if (tensor) buffers[i] = (weft_sim_buffer){tensor->data, tensor->bytes};
        if (argument->source == WEFT_ARGUMENT_TEMP) buffers[i] = temps[argument->index];
        if (tensor || argument->source == WEFT_ARGUMENT_TEMP) memories[memory_count++] = (int)i;
    }
    for (size_t i = 0; i < kernel->argument_count; i++) {
        if (kernel->arguments[i].source != WEFT_ARGUMENT_TENSOR_MAP) continue;
        maps[i] = c->plan.maps[kernel->arguments[i].index];
        maps[i].buffer = memories[maps[i].buffer];
        buffers[i] = (weft_sim_buffer){&maps[i], sizeof maps[i]};
    }
    weft_sim_options options = {.seed = seed, .counts = counts};
    cuda_check(weft_kernel_simulate(kernel, NULL, buffers, &options, allocator));
}

void cuda_simulate_plan(const compiled *c, weft_tensor *const *inputs, int input_count, weft_tensor *const *results,
                        uint64_t seed, weft_context *context, weft_sim_counts *counts) {
    weft_sim_buffer temps[16] = {{0}};
    ck_assert_int_le(c->plan.temp_count, 16);
    for (int i = 0; i < c->plan.temp_count; i++) {
        ck_assert(weft_dim_is_number(c->plan.temps[i].bytes));
        temps[i].bytes = (size_t)c->plan.temps[i].bytes;
        temps[i].data = weft_allocate(context->allocator, temps[i].bytes);
        ck_assert_ptr_nonnull(temps[i].data);
    }
    for (int i = 0; i < c->count; i++)
        simulate_kernel(c, c->kernels[i], inputs, input_count, results, temps, seed, context->allocator, counts);
    for (int i = 0; i < c->plan.temp_count; i++) weft_free(context->allocator, temps[i].data, temps[i].bytes);
}
