/* weft bisect: the first pass, then the first group, whose numbers leave the contract. */
#include "cli/compare.h"
#include "cli/runner.h"

#include <string.h>

#include "codegen/builders/builder.h"
#include "ir/build.h"
#include "passes/pass.h"

static weft_status interpret(weft_graph *graph, weft_tensor *const *inputs, weft_tensor **outputs) {
    return weft_graph_interpret(graph, weft_graph_input_count(graph), inputs, weft_graph_output_count(graph), outputs);
}

/* The passes as the compiler runs them for --target. */
static weft_status run_passes(cli_arguments *arguments, weft_graph *graph, const char *passes) {
    const weft_capability *capability;
    WEFT_TRY(cli_find_capability(arguments, &capability), "passes");
    weft_pass_context pass = {.graph = graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    WEFT_TRY(weft_graph_finish(graph), "passes");
    return weft_pipeline_run(&pass, passes);
}

/* Runs the passes up to `end` (a position in the standard pipeline) and compares with the reference outputs. */
static weft_status check_passes(cli_arguments *arguments, weft_graph *graph, const char *passes,
                                weft_tensor *const *inputs, weft_tensor *const *expected, bool *out_differs) {
    weft_graph *copy;
    weft_tensor *outputs[CLI_VALUES_MAX] = {0};
    WEFT_TRY(weft_graph_clone(graph, NULL, &copy), "copying the graph");
    weft_status status = run_passes(arguments, copy, passes);
    if (!status) status = interpret(copy, inputs, outputs);
    *out_differs = false;
    for (int i = 0; !status && i < weft_graph_output_count(graph); i++)
        *out_differs |= cli_compare(outputs[i], expected[i], NULL).differs;
    for (int i = 0; i < CLI_VALUES_MAX; i++) weft_tensor_release(outputs[i]);
    weft_graph_release(copy);
    return status;
}

static weft_status bisect_passes(cli_arguments *arguments, weft_graph *graph, weft_tensor *const *inputs,
                                 bool *out_found) {
    weft_tensor *expected[CLI_VALUES_MAX] = {0};
    WEFT_TRY(interpret(graph, inputs, expected), "the reference");
    weft_status status = NULL;
    char passes[256] = "";
    const char *at = weft_pipeline_standard;
    *out_found = false;
    while (!status && *at && !*out_found) {
        size_t length = strcspn(at, ",");
        size_t used = strlen(passes);
        snprintf(passes + used, sizeof passes - used, "%s%.*s", used ? "," : "", (int)length, at);
        status = check_passes(arguments, graph, passes, inputs, expected, out_found);
        if (!status) cli_print("%-40s %s\n", passes, *out_found ? "DIFFERS" : "same");
        at += length + (at[length] == ',');
    }
    for (int i = 0; i < CLI_VALUES_MAX; i++) weft_tensor_release(expected[i]);
    return status;
}

/* Each group of the fused graph alone, on the interpreter's values. */
static weft_status bisect_groups(cli_arguments *arguments, weft_graph *graph, weft_tensor *const *inputs,
                                 bool *out_found) {
    cli_values values;
    const char *target = cli_text(arguments, "target", "cpu");
    if (strchr(target, ':')) return NULL; /* code for another machine */
    WEFT_TRY(run_passes(arguments, graph, weft_pipeline_standard), "fusing");
    weft_status status = cli_values_record(graph, inputs, &values);
    cli_progress progress;
    cli_progress_start(&progress, "groups");
    for (const weft_node *node = graph->body->block->first; node && !status && !*out_found; node = node->next) {
        if (!node->result_count || node->op == WEFT_OP_constant) continue;
        weft_graph *piece = NULL;
        weft_tensor *cut[CLI_VALUES_MAX] = {0};
        int count = 0, bad = -1;
        cli_difference d;
        status = cli_extract(graph, node, 0, &values, &piece, cut, &count);
        if (!status) status = cli_check_graph(piece, target, cut, NULL, &bad, &d);
        if (!status && bad >= 0) {
            *out_found = true;
            cli_print("group %s at %s: result %d element %lld: got %.9g, expected %.9g\n",
                      weft_node_string(node, WEFT_ATTR_anchor, weft_op_get(node->op)->name),
                      node->location.name ? node->location.name : "?", bad, (long long)d.element, d.got, d.expected);
        }
        for (int i = 0; i < count; i++) weft_tensor_release(cut[i]);
        weft_graph_release(piece);
        cli_progress_at(&progress, node->id, graph->next_id, node->location.name);
    }
    cli_progress_end(&progress);
    cli_values_release(&values);
    return status;
}

int cli_run_bisect(cli_arguments *arguments) {
    cli_named_tensor tensors[CLI_VALUES_MAX] = {{0}};
    weft_tensor *inputs[CLI_VALUES_MAX] = {0};
    cli_runner runner = {0};
    int count = 0;
    bool found = false;
    weft_status status = cli_read_inputs(arguments, tensors, &count);
    if (!status) status = cli_runner_open(arguments, count, tensors, &runner);
    if (!status && !runner.graph) status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "bisect needs a model, not an artifact");
    if (!status) status = cli_runner_inputs(arguments, &runner, 0, count, tensors, NULL, 0, inputs);
    if (!status) status = bisect_passes(arguments, runner.graph, inputs, &found);
    if (!status && !found) status = bisect_groups(arguments, runner.graph, inputs, &found);
    bool groups = !strchr(cli_text(arguments, "target", "cpu"), ':');
    if (!status && !found)
        cli_print("no pass%s changes the numbers beyond the contract\n", groups ? " and no group" : "");
    cli_release_tensors(CLI_VALUES_MAX, inputs);
    cli_runner_close(&runner);
    cli_release_inputs(count, tensors);
    return status ? cli_fail(status) : found;
}
