/* Comparing results with the reference, and cutting a piece out of a graph: what fuzz, bisect and selftest share. */
#ifndef WEFT_CLI_COMPARE_H
#define WEFT_CLI_COMPARE_H

#include "cli/cli.h"
#include "ir/interpret.h"

typedef struct cli_difference {
    double worst;      /* largest |a - b| / (1 + |b|); infinity for NaN against a number or different shapes */
    int64_t element;   /* where */
    double got, expected;
    bool differs;      /* beyond the tolerance of the dtype */
    bool unstable;     /* cli_check_graph: a second run gave other bits */
} cli_difference;

/* tolerance 0 = that of the dtype. */
cli_difference cli_compare(const weft_tensor *got, const weft_tensor *expected, double tolerance);

/* Every value of a graph's body for given inputs, by the interpreter. */
typedef struct cli_values {
    weft_map tensors; /* value -> tensor */
} cli_values;
weft_status cli_values_record(weft_graph *graph, weft_tensor *const *inputs, cli_values *out_values) WEFT_MUST_USE;
void cli_values_release(cli_values *values);
weft_tensor *cli_values_find(const cli_values *values, const weft_value *value);

/* The nodes of the body that lie within `depth` steps above node, as a graph of its own: values from further up become
   inputs (out_inputs: their recorded tensors, retained; at most CLI_VALUES_MAX), results of node the outputs. */
weft_status cli_extract(weft_graph *graph, const weft_node *node, int depth, const cli_values *values, weft_graph **out_graph,
                        weft_tensor **out_inputs, int *out_input_count) WEFT_MUST_USE;

/* Compiles for a device (NULL = cpu) and runs twice; compares every output with the interpreter, and the bits of both runs.
   *out_bad = number of the first bad output or -1. */
weft_status cli_check_graph(weft_graph *graph, const char *device, weft_tensor *const *inputs, int *out_bad, cli_difference *out_difference) WEFT_MUST_USE;

#endif
