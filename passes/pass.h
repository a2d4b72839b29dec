/* A pass changes a finished, verified graph and leaves a verified one. pipeline.c runs a string of them. */
#ifndef WEFT_PASSES_PASS_H
#define WEFT_PASSES_PASS_H

#include "base/capability.h"
#include "ir/build.h"

typedef struct weft_pass_context {
    weft_graph *graph;
    const weft_capability *capability; /* NULL before a target is chosen */
    const char *options;               /* text inside {...}, "" when none */
    /* Does a builder take this derived op whole? "decompose" leaves those. Or this fusion, rows with sums of columns
       beside them? NULL = none does. */
    bool (*claims)(const weft_graph *graph, const weft_node *node, const weft_capability *capability);
} weft_pass_context;

/* "raise,simplify,fuse{options}": verifies after each pass in debug builds or with WEFT_VERIFY=1; WEFT_DUMP logs. */
weft_status weft_pipeline_run(weft_pass_context *context, const char *pipeline) WEFT_MUST_USE;
extern const char *const weft_pipeline_standard;
/* Bytes of the front of a pipeline, without the comma behind it, whose passes are all portable. */
size_t weft_pipeline_portable(const char *pipeline);

#endif
