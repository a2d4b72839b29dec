/* What the steps of a program cost: times from many calls, bytes and memory from its buffers, and, where the graph is
   at hand, operations and which part of training a step belongs to. Read next: profile.c (times), profile_cost.c (the
   graph), profile_words.c, profile_write.c and profile_html.c (what is made of it), profile_command.c. */
#ifndef WEFT_CLI_PROFILE_H
#define WEFT_CLI_PROFILE_H

#include "base/arena.h"
#include "base/text.h"
#include "cli/cli.h"
#include "ir/graph.h"
#include "runtime/session.h"

typedef enum cli_profile_part { CLI_PROFILE_FORWARD, CLI_PROFILE_BACKWARD, CLI_PROFILE_UPDATE } cli_profile_part;
enum { CLI_PROFILE_PARTS = 3, CLI_PROFILE_NORMS_MAX = 512 };

typedef struct cli_profile_step {
    int step;
    double best, sum;          /* seconds: the fastest call, all calls */
    int64_t bytes, live;       /* of its buffers, each once; of all temporaries that are alive then */
    double operations;         /* multiplications and additions; 0 = unknown or none */
    cli_profile_part part;     /* with a graph */
    int forward;               /* of a backward step: the step whose derivative it belongs to; -1 = unknown */
    const char *kernel, *what; /* what: "matmul at gpt.c:72" */
    const char *place;         /* its end: "gpt.c:72"; "" = unknown */
    const char *origin;        /* of a backward step: the place of what it is the derivative of; "" = unknown */
    const char *parameter;     /* a state or constant with a name that it, or its origin, reads; "" = none */
    int64_t blocks;
} cli_profile_step;

typedef struct cli_profile_data {
    const cli_arguments *arguments;
    weft_frame *frame;
    cli_profile_step *steps; /* in the order of the program */
    int count, calls;
    bool has_graph;   /* operations and parts are known */
    double total;     /* of the fastest times */
    double last;      /* when the step before ended */
    double copy_rate; /* bytes a second of a large copy, read and written; 0 = not measured */
    int threads;
    weft_arena arena; /* texts */
    int norm_count;   /* of gradients, largest first */
    const char *norm_names[CLI_PROFILE_NORMS_MAX];
    double norms[CLI_PROFILE_NORMS_MAX];
} cli_profile_data;

typedef weft_status (*cli_profile_call)(void *self);
/* Times the steps over many calls: `runs` of them, or about two seconds when 0. Then cli_profile_release. */
weft_status cli_profile_measure(const cli_arguments *arguments, weft_session *session, cli_profile_call call,
                                void *self, int runs, cli_profile_data *out_profile) WEFT_MUST_USE;
void cli_profile_release(cli_profile_data *profile);
/* Steps by time, as a table. limit: rows, 0 = all. */
void cli_profile_print(const cli_profile_data *profile, int limit);

/* Operations and parts, from the graph that was compiled (which stays as it is). */
weft_status cli_profile_add_graph(cli_profile_data *profile, weft_context *context, weft_graph *graph) WEFT_MUST_USE;
/* How fast memory is copied here, for judging steps. */
weft_status cli_profile_measure_copy(cli_profile_data *profile) WEFT_MUST_USE;

/* What takes the time and why, a sentence a line. */
void cli_profile_words(const cli_profile_data *profile, weft_text *text);
/* Events for chrome://tracing and Perfetto. */
weft_status cli_profile_write_trace(const cli_profile_data *profile, const char *path) WEFT_MUST_USE;
/* Steps and what they wait for, for Graphviz. */
weft_status cli_profile_write_dot(const cli_profile_data *profile, const char *path) WEFT_MUST_USE;
weft_status cli_profile_write_html(const cli_profile_data *profile, const char *path) WEFT_MUST_USE;

#endif
