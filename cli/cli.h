/* The weft command. main.c has the table of commands; each command is one file and one row. options.c parses against
   the row and prints all help from the same tables. Exit codes: 0 done, 1 the command failed, 2 wrong usage. */
#ifndef WEFT_CLI_H
#define WEFT_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "weft/compile.h"
#include "weft/graph.h"

typedef enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_NUMBER, CLI_LIST } cli_kind;

typedef struct cli_option {
    const char *name;   /* "output" for --output */
    const char *letter; /* "o" for -o; NULL */
    cli_kind kind;
    const char *argument; /* shown in help: FILE, N, NAME=FILE */
    const char *help;
} cli_option;

enum { CLI_OPTIONS_MAX = 16, CLI_VALUES_MAX = 64 };

typedef struct cli_value {
    const char *texts[CLI_VALUES_MAX]; /* LIST: in order */
    int count;                         /* times given */
    long long number;
} cli_value;

typedef struct cli_arguments {
    const struct cli_command *command;
    const char *positional[CLI_VALUES_MAX];
    int positional_count;
    cli_value values[CLI_OPTIONS_MAX]; /* by option */
    weft_context *context;
    const char *constants[CLI_VALUES_MAX]; /* --input names that became constants of the model */
    int constant_count;
} cli_arguments;

typedef struct cli_command {
    const char *name, *positional, *summary;
    cli_option options[CLI_OPTIONS_MAX]; /* ends with a NULL name */
    int (*run)(cli_arguments *arguments);
} cli_command;

extern const cli_command cli_commands[]; /* ends with a NULL name */

/* 0, or an exit code after a message on stderr. */
int cli_parse(const cli_command *command, int count, char **texts, cli_arguments *out_arguments);
void cli_help(FILE *file);
void cli_command_help(const cli_command *command, FILE *file);
const cli_value *cli_get(const cli_arguments *arguments, const char *name);
const char *cli_text(const cli_arguments *arguments, const char *name, const char *fallback);
long long cli_number(const cli_arguments *arguments, const char *name, long long fallback);
bool cli_flag(const cli_arguments *arguments, const char *name);

/* No file to write is the model itself, no two are one. --option is named in the message. */
weft_status cli_check_outputs(const cli_arguments *arguments) WEFT_MUST_USE;
weft_status cli_check_output(const char *model, const char *option, const char *output) WEFT_MUST_USE;

/* To stdout. Names of a model are in it: control characters become \xNN (base/printable.h). */
void cli_print(const char *format, ...) WEFT_PRINTF(1, 2);

/* Prints and releases a status; returns the exit code 1. */
int cli_fail(weft_status status);

/* A bar on a terminal once something takes over two seconds, plain lines otherwise. */
typedef struct cli_progress {
    const char *what;
    double start;
    int shown;
    double last_line;
} cli_progress;
void cli_progress_start(cli_progress *progress, const char *what);
void cli_progress_at(cli_progress *progress, long long done, long long total, const char *detail);
void cli_progress_end(cli_progress *progress);
double cli_now(void); /* seconds */
/* The same for timing calls: with --threads 1 the time of this thread alone, which other work on the machine does not
   lengthen. */
double cli_work_now(const cli_arguments *arguments);

/* Opens .onnx, .wir: a graph. dims: "B=1..64" texts. Inputs needed by value are taken from inputs (may be NULL). */
typedef struct cli_named_tensor {
    char *name; /* from malloc: cli_release_inputs */
    weft_tensor *tensor;
} cli_named_tensor;
weft_status cli_open_graph(cli_arguments *arguments, const char *path, int tensor_count,
                           const cli_named_tensor *tensors, weft_graph **out_graph) WEFT_MUST_USE;
bool cli_is_artifact(const char *path);
/* "x=file.npy" */
weft_status cli_read_tensor(weft_context *context, const char *text, cli_named_tensor *out_tensor) WEFT_MUST_USE;
/* Random tensors for a program's or graph's inputs at the extents given by --dim NAME=VALUE (default 1). */
weft_status cli_random_tensor(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                              unsigned long long seed, weft_tensor **out_tensor) WEFT_MUST_USE;

/* What --target names: a driver ("cuda": the device of this machine) or a driver and an architecture ("cuda:sm_90a":
   no device needed). Default: this CPU. */
struct weft_capability;
weft_status cli_find_capability(cli_arguments *arguments, const struct weft_capability **out_capability) WEFT_MUST_USE;

int cli_run_compile(cli_arguments *arguments);
int cli_run_run(cli_arguments *arguments);
int cli_run_inspect(cli_arguments *arguments);
int cli_run_audit(cli_arguments *arguments);
int cli_run_bench(cli_arguments *arguments);
int cli_run_train(cli_arguments *arguments);
int cli_run_profile(cli_arguments *arguments);
int cli_run_bisect(cli_arguments *arguments);
int cli_run_selftest(cli_arguments *arguments);
int cli_run_fuzz(cli_arguments *arguments);
int cli_run_conformance(cli_arguments *arguments);
int cli_run_doctor(cli_arguments *arguments);

#endif
