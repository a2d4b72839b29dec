/* weft selftest: every op of the table x every dtype it takes, on this machine, against the interpreter. An op that has no
   builder counts as unsupported and is named; it fails nothing, since compiling it is a status, not a wrong number. */
#include <string.h>

#include "base/dtype.h"
#include "cli/compare.h"
#include "cli/fuzz.h"
#include "tests/ir/sample.h"

enum { EXTENT = 5 };

typedef struct tally {
    int passed, failed, unsupported;
} tally;

static void report(bool json, const weft_node *node, weft_dtype dtype, int variant, const char *result, const char *why) {
    const char *op = weft_op_get(node->op)->name;
    if (json) printf("{\"op\": \"%s\", \"dtype\": \"%s\", \"variant\": %d, \"result\": \"%s\", \"why\": \"%s\"}\n", op, weft_dtype_name(dtype), variant, result, why);
    else if (strcmp(result, "passed") != 0) printf("%-11s %-24s %-12s variant %d  %s\n", result, op, weft_dtype_name(dtype), variant, why);
}

static void check_one(cli_arguments *arguments, weft_graph *graph, const weft_node *node, weft_dtype dtype, int variant, tally *t) {
    weft_tensor *inputs[CLI_VALUES_MAX] = {0};
    cli_difference d = {0};
    int bad = -1;
    char why[400] = "";
    weft_status status = weft_graph_verify(graph);
    if (!status) status = cli_fuzz_inputs(arguments->context, graph, 17 + (unsigned long long)variant, EXTENT, inputs);
    if (!status) status = cli_check_graph(graph, inputs, &bad, &d);
    bool unsupported = weft_status_code(status) == WEFT_UNSUPPORTED;
    if (status) snprintf(why, sizeof why, "%s", weft_status_message(status));
    else if (bad >= 0) snprintf(why, sizeof why, "output %d element %lld: got %.9g, expected %.9g", bad, (long long)d.element, d.got, d.expected);
    if (unsupported) t->unsupported++;
    else if (why[0]) t->failed++;
    else t->passed++;
    report(cli_flag(arguments, "json"), node, dtype, variant, unsupported ? "unsupported" : why[0] ? "FAILED" : "passed", why);
    weft_status_release(status);
    for (int i = 0; i < CLI_VALUES_MAX; i++) weft_tensor_release(inputs[i]);
}

int cli_run_selftest(cli_arguments *arguments) {
    tally t = {0};
    cli_progress progress;
    cli_progress_start(&progress, "selftest");
    for (weft_op op = 0; op < WEFT_OP_COUNT; op++) {
        for (weft_dtype dtype = WEFT_BOOL; dtype < WEFT_DTYPE_COUNT; dtype++) {
            for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
                weft_graph *graph;
                weft_status status = weft_graph_create(arguments->context, "sample", &graph);
                if (status) return cli_fail(status);
                weft_node *node = weft_sample_node(graph, op, dtype, variant);
                if (node) check_one(arguments, graph, node, dtype, variant, &t);
                weft_graph_release(graph);
                if (!node) break;
            }
        }
        cli_progress_at(&progress, op + 1, WEFT_OP_COUNT, weft_op_get(op)->name);
    }
    cli_progress_end(&progress);
    printf("%d passed, %d failed, %d unsupported\n", t.passed, t.failed, t.unsupported);
    return t.failed ? 1 : 0;
}
