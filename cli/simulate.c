/* Kernels in the simulator: the graph runs through the pipeline, the interpreter gives every value of the fused graph,
   and each fusion is built and simulated alone on those values. A wrong number or a fault names one kernel. */
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "cli/compare.h"
#include "codegen/builders/builder.h"
#include "codegen/kernel/simulate.h"
#include "codegen/kernel/verify.h"
#include "passes/pass.h"

enum { ARGUMENTS_MAX = 128 };

typedef struct simulation {
    weft_graph *graph;
    const weft_node *fusion;
    const weft_capability *capability;
    weft_arena arena;
    weft_kernel_plan plan;
    const weft_tensor *operands[CLI_VALUES_MAX];
    weft_tensor *results[CLI_VALUES_MAX];
    void *temps[CLI_VALUES_MAX];
    size_t temp_bytes[CLI_VALUES_MAX];
} simulation;

static weft_status build(simulation *s) {
    const char *anchor = weft_node_string(s->fusion, WEFT_ATTR_anchor, ""), *reason = "none is registered";
    const weft_builder *builder = weft_builder_find(anchor, s->graph, s->fusion, s->capability, &reason);
    if (!builder)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "no builder for %s on %s %s: %s", anchor, s->capability->target,
                           s->capability->arch, reason);
    weft_schedule schedule = {0};
    weft_build_request request = {.graph = s->graph,
                                  .fusion = s->fusion,
                                  .schedule = &schedule,
                                  .capability = s->capability,
                                  .arena = &s->arena,
                                  .name = "kernel",
                                  .thread_count = 2};
    if (builder->propose(&request, 1, &schedule) < 1)
        return WEFT_STATUS(WEFT_INTERNAL, "builder %s proposed no schedule", builder->name);
    WEFT_TRY(builder->build(&request, &s->plan), "building %s", anchor);
    if (s->plan.temp_count > CLI_VALUES_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many temporaries");
    for (int i = 0; i < s->plan.temp_count; i++) {
        int64_t bytes;
        if (!weft_dim_evaluate(s->graph->dims, s->plan.temps[i].bytes, NULL, &bytes))
            return WEFT_STATUS(WEFT_INTERNAL, "size of a temporary");
        s->temp_bytes[i] = (size_t)bytes;
        s->temps[i] = malloc((size_t)bytes + 1);
        if (!s->temps[i]) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "temporaries");
        memset(s->temps[i], 0xa5, (size_t)bytes); /* poison */
    }
    return NULL;
}

static weft_status launch(simulation *s, const weft_plan_launch *launch) {
    int v = 0;
    for (; v < launch->variant_count; v++) {
        bool holds = true;
        for (int i = 0; i < launch->variants[v].condition_count; i++)
            holds &= weft_condition_holds(s->graph->dims, &launch->variants[v].conditions[i], NULL);
        if (holds) break;
    }
    if (v == launch->variant_count) return WEFT_STATUS(WEFT_INTERNAL, "no variant of a launch holds");
    const weft_kernel *kernel = launch->variants[v].kernel;
    weft_sim_buffer buffers[ARGUMENTS_MAX] = {0};
    weft_tensor_map maps[ARGUMENTS_MAX];
    int memories[ARGUMENTS_MAX], memory_count = 0; /* arguments that are memory, in order */
    if (kernel->argument_count > ARGUMENTS_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many arguments");
    WEFT_TRY(weft_kernel_verify(kernel), "kernel %s", kernel->name);
    for (size_t a = 0; a < kernel->argument_count; a++) {
        int i = kernel->arguments[a].index;
        switch (kernel->arguments[a].source) {
        case WEFT_ARGUMENT_OPERAND: buffers[a] = (weft_sim_buffer){s->operands[i]->data, s->operands[i]->bytes}; break;
        case WEFT_ARGUMENT_RESULT: buffers[a] = (weft_sim_buffer){s->results[i]->data, s->results[i]->bytes}; break;
        case WEFT_ARGUMENT_TEMP: buffers[a] = (weft_sim_buffer){s->temps[i], s->temp_bytes[i]}; break;
        case WEFT_ARGUMENT_EXTENT:
        case WEFT_ARGUMENT_TENSOR_MAP: continue;
        }
        memories[memory_count++] = (int)a;
    }
    for (size_t a = 0; a < kernel->argument_count; a++) {
        if (kernel->arguments[a].source != WEFT_ARGUMENT_TENSOR_MAP) continue;
        maps[a] = s->plan.maps[kernel->arguments[a].index];
        maps[a].buffer = memories[maps[a].buffer];
        buffers[a] = (weft_sim_buffer){&maps[a], sizeof maps[a]};
    }
    return weft_kernel_simulate(kernel, NULL, buffers, NULL, s->graph->context->allocator);
}

/* *out_difference.differs: a result left the contract. */
static weft_status simulate_fusion(simulation *s, const cli_values *values, const cli_contract *contract,
                                   cli_difference *out_difference) {
    const weft_node *fusion = s->fusion;
    if (fusion->operand_count > CLI_VALUES_MAX || fusion->result_count > CLI_VALUES_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "too many operands");
    for (int i = 0; i < fusion->operand_count; i++) s->operands[i] = cli_values_find(values, fusion->operands[i]);
    for (int i = 0; i < fusion->result_count; i++) {
        const weft_tensor *expected = cli_values_find(values, &fusion->results[i]);
        WEFT_TRY(
            weft_tensor_create(s->graph->context, expected->dtype, expected->rank, expected->shape, &s->results[i]),
            "result %d", i);
        memset(s->results[i]->data, 0xa5, s->results[i]->bytes);
    }
    WEFT_TRY(build(s), "building");
    for (int i = 0; i < s->plan.launch_count; i++)
        WEFT_TRY(launch(s, &s->plan.launches[i]), "launch %d of %s", i, weft_node_string(fusion, WEFT_ATTR_anchor, ""));
    for (int i = 0; i < fusion->result_count && !out_difference->differs; i++)
        *out_difference = cli_compare(s->results[i], cli_values_find(values, &fusion->results[i]), contract);
    return NULL;
}

/* The graph with the inputs' extents, fused for a target. */
static weft_status fuse(weft_graph *graph, weft_tensor *const *inputs, const weft_capability *capability,
                        weft_graph **out_graph) {
    weft_dim fixed[CLI_VALUES_MAX];
    int symbols = weft_dim_symbol_count(graph->dims);
    if (symbols > CLI_VALUES_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "too many symbols");
    for (int i = 0; i < symbols; i++) fixed[i] = WEFT_DIM_ANY;
    for (int i = 0; i < weft_graph_input_count(graph); i++) {
        const weft_type *type = &weft_graph_input_value(graph, i)->type;
        for (int d = 0; d < type->rank; d++)
            for (int k = 0; k < symbols; k++)
                if (type->dims[d] == weft_dim_symbol_value(graph->dims, k)) fixed[k] = weft_tensor_shape(inputs[i])[d];
    }
    WEFT_TRY(weft_graph_clone(graph, symbols ? fixed : NULL, out_graph), "fixing the extents");
    WEFT_TRY(weft_graph_finish(*out_graph), "finishing");
    weft_pass_context pass = {
        .graph = *out_graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    return weft_pipeline_run(&pass, weft_pipeline_standard);
}

weft_status cli_simulate_graph(weft_graph *graph, weft_tensor *const *inputs, const cli_contract *contract,
                               const weft_capability *capability, int *out_bad, cli_difference *out_difference) {
    weft_graph *fused = NULL;
    cli_values values = {0};
    *out_bad = -1;
    *out_difference = (cli_difference){0};
    weft_status status = fuse(graph, inputs, capability, &fused);
    if (!status) status = cli_values_record(fused, inputs, &values);
    for (const weft_node *node = fused && !status ? fused->body->block->first : NULL; node && !status && *out_bad < 0;
         node = node->next) {
        if (node->op != WEFT_OP_fusion) continue;
        simulation s = {.graph = fused, .fusion = node, .capability = capability};
        weft_arena_init(weft_allocator_system(), &s.arena);
        status = simulate_fusion(&s, &values, contract, out_difference);
        if (!status && out_difference->differs) *out_bad = 0;
        for (int i = 0; i < CLI_VALUES_MAX; i++) weft_tensor_release(s.results[i]), free(s.temps[i]);
        weft_arena_deinit(&s.arena);
    }
    cli_values_release(&values);
    weft_graph_release(fused);
    return status;
}
