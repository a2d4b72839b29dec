/* From graphs to programs: ahead of time into an artifact, or just in time behind shape guards.

   Threading: compile functions are thread-safe for different graphs; a weft_function is thread-compatible. */
#ifndef WEFT_COMPILE_H
#define WEFT_COMPILE_H

#include "weft/graph.h"
#include "weft/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What kernels may give up for speed, or'ed. Nothing else is affected, and nothing changes on targets that have no such
   mode. */
typedef enum weft_relax {
    WEFT_RELAX_NONE = 0,
    WEFT_RELAX_F32_PRODUCTS = 1, /* operands of f32 products and convolutions keep 10 bits of fraction (tf32) */
    WEFT_RELAX_F8_SUMS = 2,      /* sums of 8-bit float products stay in the unit's adder, about 14 bits, over all of k;
                                    default: they move into f32 every 128 elements */
    WEFT_RELAX_SUM_ORDER = 4     /* gradients of attention: dQ is added up in whatever order blocks finish, so its last
                                    bits vary from call to call; default: same inputs, same bits */
} weft_relax;

typedef struct weft_compile_options {
    size_t struct_bytes;
    const char *targets;  /* default "cpu": comma-separated; cpu = cpu:x86-64-v3 and cpu:x86-64-v4 in artifacts, the
                             host's in memory */
    const char *pipeline; /* default: the standard one; "simplify,fuse,..." */
    int thread_count;     /* kernels are scheduled for this many threads; default: the context's */
    bool no_graph;        /* leave graph.wir out of the artifact: it can then not be re-lowered */
    /* progress: called with 0..total from one thread; may be NULL */
    void (*progress)(void *self, int done, int total, const char *what);
    void *progress_self;
    uint32_t relax;     /* weft_relax; default: none */
    bool keep_launches; /* a launch for each group, also where small ones that are ready together would share one: for
                           looking at them one by one */
    /* A row's result has the same bits alone and in any batch, in this program and in others compiled so: products,
       reductions and attention take their instructions, the order of their sums and its pieces from the extents of one
       row. Products and decoding of few rows lose speed: they are not cut into pieces to fill a device. Default: the
       fastest schedule of each extent. */
    bool batch_invariant;
    /* A budget for temporaries, constants and states together, in bytes or as a share of what they take without one;
       default: none. What is kept long and cheap to make again is made twice until it holds, by the same operations.
       Only extents that are numbers count. OUT_OF_MEMORY when even that is too much. */
    int64_t memory_bytes;
    double memory_share;
} weft_compile_options;
#define WEFT_COMPILE_OPTIONS_INIT                                                                                      \
    {sizeof(weft_compile_options), 0, 0, 0, false, 0, 0, WEFT_RELAX_NONE, false, false, 0, 0.0}

/* Compiles for the host and loads. */
WEFT_API weft_status weft_compile(weft_graph *graph, const weft_compile_options *options,
                                  weft_program **out_program) WEFT_MUST_USE;
/* Writes an artifact for every target of options->targets. The file appears complete or not at all. */
WEFT_API weft_status weft_compile_file(weft_graph *graph, const weft_compile_options *options,
                                       const char *path) WEFT_MUST_USE;

/* Writes a folder of static files that runs the model in a browser through WebGPU: index.html, weft.js (one module) and
   model.weft. The folder is made when it is missing; files of these names are replaced. options->targets and no_graph
   have no say. */
WEFT_API weft_status weft_compile_web(weft_graph *graph, const weft_compile_options *options,
                                      const char *folder) WEFT_MUST_USE;

/* Compiles the graph inside an artifact again and loads it: for machines that it has no code for, and for files whose
   code is not to be trusted (no code of the file runs). NOT_FOUND when the file was written without its graph. */
WEFT_API weft_status weft_compile_artifact(weft_context *context, const char *path, const weft_compile_options *options,
                                           weft_program **out_program) WEFT_MUST_USE;

/* A graph compiled on demand: the first call compiles what it saw; an undeclared extent that changes becomes symbolic;
   declared ones start symbolic. Each compile is logged with its reason (WEFT_LOG_INFO). */
typedef struct weft_function weft_function;
WEFT_API weft_status weft_function_create(weft_graph *graph, const weft_compile_options *options,
                                          weft_function **out_function) WEFT_MUST_USE;
WEFT_API void weft_function_release(weft_function *function);
/* As weft_session_call. */
WEFT_API weft_status weft_function_call(weft_function *function, int input_count, weft_tensor *const *inputs,
                                        int output_count, weft_tensor **outputs) WEFT_MUST_USE;
/* Programs compiled so far. */
WEFT_API int weft_function_compile_count(const weft_function *function);

#ifdef __cplusplus
}
#endif
#endif
