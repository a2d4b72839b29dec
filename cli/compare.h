/* Comparing results with the reference, and cutting a piece out of a graph: what fuzz, bisect and selftest share. */
#ifndef WEFT_CLI_COMPARE_H
#define WEFT_CLI_COMPARE_H

#include "base/capability.h"
#include "base/tolerance.h"
#include "cli/cli.h"
#include "ir/interpret.h"

typedef struct cli_difference {
    double worst;    /* largest |a - b| / (1 + |b|); infinity for NaN against a number or different shapes */
    int64_t element; /* the first one beyond the tolerance, else the worst; -1 = none */
    double got, expected;
    bool differs;  /* beyond the tolerance */
    bool unstable; /* cli_check_graph: a second run gave other bits */
} cli_difference;

/* What base/tolerance.h needs to know of a result. */
typedef struct cli_contract {
    weft_tolerance_class class;
    const char *target;
    double terms, scale; /* of sums */
} cli_contract;
/* What one node may do to its results, given its inputs. */
cli_contract cli_contract_of(const weft_node *node, int input_count, weft_tensor *const *inputs);

/* contract NULL = that of a whole graph. */
cli_difference cli_compare(const weft_tensor *got, const weft_tensor *expected, const cli_contract *contract);

/* Every value of a graph's body for given inputs, by the interpreter. */
typedef struct cli_values {
    weft_map tensors; /* value -> tensor */
} cli_values;
weft_status cli_values_record(weft_graph *graph, weft_tensor *const *inputs, cli_values *out_values) WEFT_MUST_USE;
void cli_values_release(cli_values *values);
weft_tensor *cli_values_find(const cli_values *values, const weft_value *value);

/* The nodes of the body that lie within `depth` steps above node, as a graph of its own: values from further up become
   inputs (out_inputs: their recorded tensors, retained; at most CLI_VALUES_MAX), results of node the outputs. What the
   regions of a taken node capture counts as above it. Symbols stay symbols. */
weft_status cli_extract(weft_graph *graph, const weft_node *node, int depth, const cli_values *values,
                        weft_graph **out_graph, weft_tensor **out_inputs, int *out_input_count) WEFT_MUST_USE;

/* Compiles for a device (NULL = cpu) and runs several times; compares every output with the interpreter, and the bits
 *of the first and the last run. out_bad = number of the first bad output or -1. */
weft_status cli_check_graph(weft_graph *graph, const char *device, weft_tensor *const *inputs,
                            const cli_contract *contract, int *out_bad, cli_difference *out_difference) WEFT_MUST_USE;
/* Every kernel of the fused graph runs alone in the simulator, on the interpreter's values, built for `capability`.
   Symbols take the extents of the inputs. */
weft_status cli_simulate_graph(weft_graph *graph, weft_tensor *const *inputs, const cli_contract *contract,
                               const weft_capability *capability, int *out_bad,
                               cli_difference *out_difference) WEFT_MUST_USE;

#endif
