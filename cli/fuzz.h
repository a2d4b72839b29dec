/* Random graphs for differential testing: weft fuzz and the tests of passes draw from the same generator. */
#ifndef WEFT_CLI_FUZZ_H
#define WEFT_CLI_FUZZ_H

#include "cli/cli.h"

typedef struct cli_random {
    unsigned long long state;
} cli_random;
unsigned long long cli_random_bits(cli_random *random);
int cli_random_below(cli_random *random, int limit);

/* A graph of up to `ops` operations over a few inputs; every third seed has a symbolic extent "B" in [1, 9]. */
weft_status cli_fuzz_graph(weft_context *context, unsigned long long seed, int ops,
                           weft_graph **out_graph) WEFT_MUST_USE;
/* Inputs for it, with B = extent. */
weft_status cli_fuzz_inputs(weft_context *context, weft_graph *graph, unsigned long long seed, int64_t extent,
                            weft_tensor **out_inputs) WEFT_MUST_USE;

typedef enum cli_fuzz_outcome { CLI_FUZZ_PASSED, CLI_FUZZ_FAILED, CLI_FUZZ_SKIPPED } cli_fuzz_outcome;
/* The derivatives of the graph of a seed, first or second ones: forward against reverse mode, compiled against
   interpreted. Prints failures. */
cli_fuzz_outcome cli_fuzz_gradients(weft_context *context, unsigned long long seed, int ops, bool second,
                                    const char *device);
/* vmap of the graph of a seed against one element at a time. Prints failures. */
cli_fuzz_outcome cli_fuzz_batches(weft_context *context, unsigned long long seed, int ops);
void cli_fuzz_print_status(unsigned long long seed, weft_status status);
/* CLI_VALUES_MAX tensors, those that are there. */
void cli_fuzz_release(weft_tensor **tensors);

#endif
