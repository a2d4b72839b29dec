/* A model ready to be called, whatever its file: an artifact's session, a just-in-time function, or the interpreter. */
#ifndef WEFT_CLI_RUNNER_H
#define WEFT_CLI_RUNNER_H

#include "cli/cli.h"

typedef struct cli_port {
    const char *name;
    weft_dtype dtype;
    int rank;
    int64_t shape[WEFT_MAX_RANK];    /* -1 = symbolic */
    char symbols[WEFT_MAX_RANK][32]; /* text of symbolic extents */
} cli_port;

typedef struct cli_runner {
    weft_graph *graph;
    weft_function *function;
    weft_program *program;
    weft_session *session;
    bool interpret, ahead; /* ahead: of time, not just in time */
    int input_count, output_count;
    cli_port inputs[CLI_VALUES_MAX], outputs[CLI_VALUES_MAX];
} cli_runner;

weft_status cli_runner_open(cli_arguments *arguments, int tensor_count, const cli_named_tensor *tensors,
                            cli_runner *out_runner) WEFT_MUST_USE;
/* The same, but a graph is compiled ahead of time: there is a session. */
weft_status cli_runner_open_ahead(cli_arguments *arguments, int tensor_count, const cli_named_tensor *tensors,
                                  cli_runner *out_runner) WEFT_MUST_USE;
void cli_runner_close(cli_runner *runner);
weft_status cli_runner_call(cli_runner *runner, weft_tensor *const *inputs, weft_tensor **outputs) WEFT_MUST_USE;
/* Inputs by name from tensors: for call k the k-th of that name (the last when there are fewer); the others random,
   symbolic extents from --dim NAME=N (else the range's end, else 1). */
weft_status cli_runner_inputs(cli_arguments *arguments, const cli_runner *runner, int call, int tensor_count,
                              const cli_named_tensor *tensors, const char *dim_name, int64_t dim_value,
                              weft_tensor **out_inputs) WEFT_MUST_USE;
weft_status cli_read_inputs(cli_arguments *arguments, cli_named_tensor *out_tensors, int *out_count) WEFT_MUST_USE;
void cli_release_inputs(int count, cli_named_tensor *tensors);
void cli_release_tensors(int count, weft_tensor **tensors);

/* sweep.c: the sizes low..high of an extent through the runner and through programs compiled for one size each. */
weft_status cli_sweep_specialized(cli_arguments *arguments, cli_runner *runner, const char *name, int64_t low,
                                  int64_t high, int count, const cli_named_tensor *tensors) WEFT_MUST_USE;

/* profile.c: calls a session many times and prints its steps by time. */
weft_status cli_profile(cli_arguments *arguments, cli_runner *runner, weft_tensor *const *inputs) WEFT_MUST_USE;

/* The command's --relax and --batch-invariant as options of a compile; INVALID_ARGUMENT names what is not known. */
weft_status cli_numerics(const cli_arguments *arguments, weft_compile_options *options) WEFT_MUST_USE;

#endif
