/* weft fuzz: random graphs, interpreter against compiled code; a failure is cut down and printed as text. */
#include "cli/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/compare.h"
#include "ir/build.h"
#include "ir/print.h"

enum { EXTENTS = 2, OPS_MIN = 3, OPS_SPREAD = 22 };

/* Where compiled code runs, and how close it must come. */
typedef struct place {
    const char *device; /* NULL: this CPU */
    cli_contract contract;
} place;

static void print_graph(weft_graph *graph) {
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_print_options options = {.elide_constants = true};
    weft_status status = weft_print(graph, &options, &text);
    if (!status) fputs(weft_text_string(&text), stdout);
    weft_status_release(status);
    weft_text_deinit(&text);
}

/* Does the piece of `depth` steps above node fail? Prints it when it does. */
static bool piece_fails(const place *p, weft_graph *graph, const weft_node *node, int depth, const cli_values *values) {
    weft_graph *piece = NULL;
    weft_tensor *inputs[CLI_VALUES_MAX] = {0};
    int count = 0, bad = -1;
    cli_difference d;
    weft_status status = cli_extract(graph, node, depth, values, &piece, inputs, &count);
    if (!status) status = cli_check_graph(piece, p->device, inputs, &p->contract, &bad, &d);
    bool fails = status != NULL || bad >= 0;
    if (fails && piece) {
        print_graph(piece);
        if (status)
            printf("  %s: %s\n", weft_code_name(weft_status_code(status)), weft_status_message(status));
        else
            printf("  output %d element %lld: got %.9g, expected %.9g\n", bad, (long long)d.element, d.got, d.expected);
    }
    weft_status_release(status);
    for (int i = 0; i < count; i++) weft_tensor_release(inputs[i]);
    weft_graph_release(piece);
    return fails;
}

/* Prints the first small piece that fails; false when none does alone. */
static bool print_piece(const place *p, weft_graph *graph, weft_tensor *const *inputs) {
    cli_values values;
    weft_status status = cli_values_record(graph, inputs, &values);
    bool found = false;
    for (int depth = 0; !status && !found && depth < 8; depth++)
        for (const weft_node *node = graph->body->block->first; node && !found; node = node->next)
            if (node->result_count && node->op != WEFT_OP_constant) found = piece_fails(p, graph, node, depth, &values);
    weft_status_release(status);
    cli_values_release(&values);
    return found;
}

/* Cuts the graph down: with extents fixed to those of the inputs if it fails so too, else as it is. */
static void shrink(const place *p, weft_graph *graph, int64_t extent, weft_tensor *const *inputs) {
    weft_graph *copy = NULL;
    weft_dim fixed[1] = {extent};
    bool found = false;
    weft_status status = NULL;
    if (weft_dim_symbol_count(graph->dims)) status = weft_graph_clone(graph, fixed, &copy);
    if (copy) found = print_piece(p, copy, inputs);
    if (!found) found = print_piece(p, graph, inputs);
    if (!found) print_graph(graph);
    weft_status_release(status);
    weft_graph_release(copy);
}

/* One seed at one extent; true when compiled code agrees. */
static bool check(const place *p, weft_context *context, weft_graph *graph, weft_function *function,
                  unsigned long long seed, int64_t extent) {
    int input_count = weft_graph_input_count(graph), output_count = weft_graph_output_count(graph), bad = -1;
    weft_tensor *inputs[CLI_VALUES_MAX] = {0}, *expected[CLI_VALUES_MAX] = {0}, *got[CLI_VALUES_MAX] = {0};
    cli_difference d = {0};
    weft_status status = cli_fuzz_inputs(context, graph, seed, extent, inputs);
    if (!status) status = weft_graph_interpret(graph, input_count, inputs, output_count, expected);
    if (!status) status = weft_function_call(function, input_count, inputs, output_count, got);
    for (int i = 0; !status && i < output_count && bad < 0; i++) {
        d = cli_compare(got[i], expected[i], &p->contract);
        if (d.differs) bad = i;
    }
    bool fine = !status && bad < 0;
    if (!fine) {
        printf("seed %llu, B = %lld: ", seed, (long long)extent);
        if (status)
            printf("%s: %s\n", weft_code_name(weft_status_code(status)), weft_status_message(status));
        else
            printf("output %d element %lld: got %.9g, expected %.9g\n", bad, (long long)d.element, d.got, d.expected);
        shrink(p, graph, extent, inputs);
    }
    weft_status_release(status);
    for (int i = 0; i < CLI_VALUES_MAX; i++)
        weft_tensor_release(inputs[i]), weft_tensor_release(expected[i]), weft_tensor_release(got[i]);
    return fine;
}

static void count_ops(const weft_block *block, long long *counts) {
    for (const weft_node *node = block->first; node; node = node->next) {
        counts[node->op]++;
        for (int i = 0; i < node->region_count; i++) count_ops(node->regions[i]->block, counts);
    }
}

static bool run_seed(const place *p, weft_context *context, unsigned long long seed, long long *counts) {
    weft_graph *graph = NULL;
    weft_function *function = NULL;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = p->device;
    weft_status status = cli_fuzz_graph(context, seed, OPS_MIN + (int)(seed % OPS_SPREAD), &graph);
    if (!status) count_ops(graph->body->block, counts);
    if (!status) status = weft_function_create(graph, &options, &function);
    if (status) {
        size_t length = weft_status_format(status, NULL, 0);
        char *text = malloc(length + 1);
        if (text) weft_status_format(status, text, length + 1), printf("seed %llu: %s\n", seed, text);
        free(text);
    }
    bool fine = !status;
    for (int i = 0; fine && i < EXTENTS; i++)
        fine = check(p, context, graph, function, seed, i ? 1 + (int64_t)(seed / 3 % 9) : 5);
    weft_status_release(status);
    weft_function_release(function);
    weft_graph_release(graph);
    return fine;
}

static int run_transforms(cli_arguments *arguments) {
    bool batches = cli_flag(arguments, "batches");
    long long count = cli_number(arguments, "count", 1000), first = cli_number(arguments, "seed", 1), outcomes[3] = {0};
    cli_progress progress;
    cli_progress_start(&progress, "fuzz");
    for (long long i = 0; i < count; i++) {
        unsigned long long seed = (unsigned long long)(first + i);
        int ops = OPS_MIN + (int)(seed % OPS_SPREAD);
        cli_fuzz_outcome outcome =
            batches ? cli_fuzz_batches(arguments->context, seed, ops)
                    : cli_fuzz_gradients(arguments->context, seed, ops, cli_flag(arguments, "second"),
                                         cli_text(arguments, "device", NULL));
        outcomes[outcome]++;
        cli_progress_at(&progress, i + 1, count, outcomes[CLI_FUZZ_FAILED] ? "with failures" : "");
    }
    cli_progress_end(&progress);
    printf("%lld passed, %lld failed, %lld not applicable\n", outcomes[CLI_FUZZ_PASSED], outcomes[CLI_FUZZ_FAILED],
           outcomes[CLI_FUZZ_SKIPPED]);
    return outcomes[CLI_FUZZ_FAILED] ? 1 : 0;
}

/* Options that would have no effect. */
static int check_usage(cli_arguments *arguments) {
    bool gradients = cli_flag(arguments, "gradients"), batches = cli_flag(arguments, "batches");
    const char *wrong = gradients && batches                          ? "--gradients and --batches exclude each other"
                        : cli_flag(arguments, "second") && !gradients ? "--second goes with --gradients"
                        : cli_text(arguments, "device", NULL) && batches ? "--batches is interpreted: no --device"
                        : cli_flag(arguments, "statistics") && (gradients || batches)
                            ? "--statistics goes with neither --gradients nor --batches"
                            : NULL;
    return wrong ? fprintf(stderr, "weft fuzz: %s\n", wrong), 2 : 0;
}

int cli_run_fuzz(cli_arguments *arguments) {
    int code = check_usage(arguments);
    if (code) return code;
    if (cli_flag(arguments, "gradients") || cli_flag(arguments, "batches")) return run_transforms(arguments);
    long long count = cli_number(arguments, "count", 1000), seed = cli_number(arguments, "seed", 1), failed = 0,
              counts[WEFT_OP_COUNT] = {0};
    place p = {.device = cli_text(arguments, "device", NULL), .contract = {WEFT_TOLERANCE_GRAPH, "cpu", 1, 1}};
    if (p.device && strncmp(p.device, "cpu", 3) != 0) p.contract.target = "gpu";
    cli_progress progress;
    cli_progress_start(&progress, "fuzz");
    for (long long i = 0; i < count; i++) {
        if (!run_seed(&p, arguments->context, (unsigned long long)(seed + i), counts)) failed++;
        cli_progress_at(&progress, i + 1, count, failed ? "with failures" : "");
    }
    cli_progress_end(&progress);
    for (int op = 0; op < WEFT_OP_COUNT && cli_flag(arguments, "statistics"); op++)
        printf("%-24s %lld\n", weft_op_get((weft_op)op)->name, counts[op]);
    printf("%lld passed, %lld failed\n", count - failed, failed);
    return failed ? 1 : 0;
}
