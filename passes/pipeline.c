/* The compiler's passes on one screen: the table of passes, and running a pipeline string over it.
   Each pass sees a finished, verified graph and leaves one. A new pass: one row here and its header. */
#include <string.h>

#include "passes/decompose.h"
#include "passes/fuse/budget.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/recompute.h"
#include "passes/pass.h"
#include "passes/raise/raise.h"
#include "passes/simplify/simplify.h"

#include "ir/print.h"
#include "ir/verify.h"

const char *const weft_pipeline_standard = "simplify,raise,simplify,decompose,simplify,fuse,recompute";

typedef struct pass_row {
    const char *name;
    const char *what; /* for the reader of this table */
    weft_status (*run)(weft_pass_context *context);
    bool portable; /* knows no target: the same graph for all of them */
} pass_row;

static const pass_row passes[] = {
    {"raise", "find derived ops (gelu, norms, softmax) in graphs that spell them out", weft_pass_raise, true},
    {"simplify", "algebra, constant folding, common subexpressions, dead code", weft_pass_simplify, true},
    {"decompose", "write out the derived ops that are left in core ops", weft_pass_decompose, false},
    {"fuse", "cut the graph into groups of one kernel each", weft_pass_fuse, false},
    {"recompute", "compute cheap values again where they are read instead of writing them", weft_pass_recompute, false},
    {"budget", "run groups again so that a program takes no more memory than it may", weft_pass_budget, false},
};

static const pass_row *find_pass(const char *name, size_t bytes) {
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (strlen(passes[i].name) == bytes && memcmp(passes[i].name, name, bytes) == 0) return &passes[i];
    return NULL;
}

size_t weft_pipeline_portable(const char *pipeline) {
    size_t front = 0;
    for (const char *at = pipeline; *at;) {
        at += strspn(at, " ");
        size_t name = strcspn(at, ",{ ");
        const pass_row *pass = find_pass(at, name);
        if (!pass || !pass->portable) break;
        at += name;
        if (*at == '{') at += strcspn(at, "}") + (strchr(at, '}') != NULL);
        at += strspn(at, " ");
        front = (size_t)(at - pipeline);
        if (*at != ',') break;
        at++;
    }
    return front;
}

static bool verifies(const weft_graph *graph) {
#ifndef NDEBUG
    (void)graph;
    return true;
#else
    return graph->context->verify;
#endif
}

/* Is the pass one of the comma-separated names? */
static bool is_listed(const char *names, const char *pass) {
    size_t length = strlen(pass);
    while (*names) {
        size_t word = strcspn(names, ",");
        if (word == length && memcmp(names, pass, length) == 0) return true;
        names += word;
        names += *names == ',';
    }
    return false;
}

/* A pass that WEFT_DUMP misspells would never be written. */
static weft_status check_dumps(void) {
    const char *names = weft_env_get(WEFT_ENV_DUMP);
    while (*names) {
        size_t word = strcspn(names, ",");
        if (!find_pass(names, word))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                               "%s=%s: no pass is called \"%.*s\"; separate names of passes by commas",
                               weft_env_name(WEFT_ENV_DUMP), weft_env_get(WEFT_ENV_DUMP), (int)word, names);
        names += word;
        names += *names == ',';
    }
    return NULL;
}

static weft_status dump(weft_graph *graph, const pass_row *pass) {
    weft_text text;
    weft_text_init(graph->context->allocator, &text);
    weft_status status = weft_print(graph, &(weft_print_options){.locations = true, .elide_constants = true}, &text);
    if (!status) weft_context_log(graph->context, WEFT_LOG_INFO, "after %s:\n%s", pass->name, weft_text_string(&text));
    weft_text_deinit(&text);
    return status;
}

static weft_status run_pass(weft_pass_context *context, const pass_row *pass) {
    weft_graph *graph = context->graph;
    WEFT_TRY(weft_graph_finish(graph), "before pass %s", pass->name);
    WEFT_TRY(pass->run(context), "pass %s", pass->name);
    if (graph->out_of_memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "pass %s", pass->name);
    if (verifies(graph)) WEFT_TRY(weft_verify(graph), "after pass %s", pass->name);
    if (is_listed(weft_env_get(WEFT_ENV_DUMP), pass->name)) WEFT_TRY(dump(graph, pass), "after pass %s", pass->name);
    return NULL;
}

/* One item: name or name{options}; *at moves past it. */
static weft_status run_item(weft_pass_context *context, weft_arena *arena, const char **at) {
    size_t name = strcspn(*at, ",{ ");
    const pass_row *pass = find_pass(*at, name);
    if (!pass) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "pipeline: no pass is called \"%.*s\"", (int)name, *at);
    *at += name;
    context->options = "";
    if (**at == '{') {
        size_t length = strcspn(*at, "}");
        if ((*at)[length] != '}')
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "pipeline: options of %s do not end", pass->name);
        context->options = weft_arena_copy_string(arena, *at + 1, length - 1);
        if (!context->options) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "pipeline");
        *at += length + 1;
    }
    return run_pass(context, pass);
}

weft_status weft_pipeline_run(weft_pass_context *context, const char *pipeline) {
    weft_arena arena;
    weft_arena_init(context->graph->context->allocator, &arena);
    weft_status status = check_dumps();
    const char *options = context->options;
    for (const char *at = pipeline; *at && !status;) {
        at += strspn(at, " ");
        status = run_item(context, &arena, &at);
        at += strspn(at, " ");
        if (!status && *at == ',')
            at++;
        else if (!status && *at)
            status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "pipeline: expected , at \"%.20s\"", at);
    }
    weft_graph *graph = context->graph;
    if (weft_status_code(status) != WEFT_OUT_OF_MEMORY &&
        (graph->out_of_memory || weft_dim_out_of_memory(graph->dims))) {
        weft_status_release(status); /* what a pass says then is a consequence */
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "graph %s: no memory during its passes", graph->name);
    }
    context->options = options;
    weft_arena_deinit(&arena);
    return weft_status_annotate(status, __FILE__, __LINE__, "pipeline %s", pipeline);
}
