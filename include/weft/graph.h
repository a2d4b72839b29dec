/* Building graphs.

       weft_graph *g;
       weft_graph_create(context, "mlp", &g);
       weft_dim shape[2] = {WEFT_DIM_ANY, 784};
       weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, shape);
       weft_value *y = weft_relu(g, weft_add(g, weft_matmul(g, x, w), b));    // ops.h
       weft_graph_output(g, "y", y);
       weft_status status = weft_graph_verify(g);                             // every problem, with its file:line

   Errors: an op that cannot be built records a problem with its location and returns a poisoned value; ops on poisoned
   values stay quiet; weft_graph_verify returns all problems as one status. No op returns NULL. The graph itself must be
   there: without one there is no place for a problem.
   Ownership: values belong to their graph. Threading: a graph is thread-compatible. */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_graph weft_graph;
typedef struct weft_value weft_value;

/* An extent: a number >= 0, or a symbolic expression of the graph (negative). */
typedef int64_t weft_dim;
/* An extent that nobody declared: the JIT specialises it and makes it symbolic at the second size. */
#define WEFT_DIM_ANY INT64_MIN

WEFT_API weft_status weft_graph_create(weft_context *context, const char *name, weft_graph **out_graph) WEFT_MUST_USE;
WEFT_API void weft_graph_retain(weft_graph *graph);
WEFT_API void weft_graph_release(weft_graph *graph);

/* A declared symbol with inclusive bounds; it is a multiple of `divisor` (1 = anything). maximum INT64_MAX = no bound.
 */
WEFT_API weft_dim weft_graph_symbol(weft_graph *graph, const char *name, int64_t minimum, int64_t maximum,
                                    int64_t divisor);
/* Arithmetic on extents; results are interned, equal expressions compare equal with ==. */
WEFT_API weft_dim weft_dim_plus(weft_graph *graph, weft_dim a, weft_dim b);
WEFT_API weft_dim weft_dim_minus(weft_graph *graph, weft_dim a, weft_dim b);
WEFT_API weft_dim weft_dim_times(weft_graph *graph, weft_dim a, weft_dim b);
WEFT_API weft_dim weft_dim_floor_divide(weft_graph *graph, weft_dim a, weft_dim b);

WEFT_API weft_value *weft_graph_input(weft_graph *graph, const char *name, weft_dtype dtype, int rank,
                                      const weft_dim *shape);
/* The graph keeps the tensor. */
WEFT_API weft_value *weft_graph_constant(weft_graph *graph, weft_tensor *tensor);
/* A named constant, kept once: what inference takes parameters for. Training keeps them in states. */
WEFT_API weft_value *weft_graph_parameter(weft_graph *graph, const char *name, weft_tensor *initial);
/* Declares a state: a tensor of fixed dtype and shape that belongs to the session and outlives calls (parameters in
   training, moments, caches, counters). Names are unique in a graph. It starts as `initial`, which the graph keeps, or
   as zeros. weft_state_read and weft_state_update (ops.h) use it; weft_session_read_state and _write_state (runtime.h)
   reach it from outside. */
WEFT_API void weft_graph_state(weft_graph *graph, const char *name, weft_tensor *initial);
WEFT_API void weft_graph_state_zeros(weft_graph *graph, const char *name, weft_dtype dtype, int rank,
                                     const int64_t *shape);
WEFT_API void weft_graph_output(weft_graph *graph, const char *name, weft_value *value);

/* All problems so far, then the verifier. */
WEFT_API weft_status weft_graph_verify(weft_graph *graph) WEFT_MUST_USE;

/* The text form (.wir). The string is owned by the caller: weft_string_release. */
WEFT_API weft_status weft_graph_print(weft_graph *graph, char **out_text) WEFT_MUST_USE;
WEFT_API weft_status weft_graph_parse(weft_context *context, const char *text, size_t text_bytes,
                                      weft_graph **out_graph) WEFT_MUST_USE;

WEFT_API weft_dtype weft_value_dtype(const weft_value *value);
WEFT_API int weft_value_rank(const weft_value *value);
WEFT_API weft_dim weft_value_dim(const weft_value *value, int axis);

WEFT_API int weft_graph_input_count(const weft_graph *graph);
WEFT_API const char *weft_graph_input_name(const weft_graph *graph, int index);
WEFT_API weft_value *weft_graph_input_value(const weft_graph *graph, int index);
WEFT_API int weft_graph_output_count(const weft_graph *graph);
WEFT_API const char *weft_graph_output_name(const weft_graph *graph, int index);
WEFT_API weft_value *weft_graph_output_value(const weft_graph *graph, int index);

/* Evaluates the graph with the reference interpreter (plain loops, f64 accumulation). Slow; it defines the meaning.
   outputs[i] is written with a new tensor that the caller releases. */
WEFT_API weft_status weft_graph_interpret(weft_graph *graph, int input_count, weft_tensor *const *inputs,
                                          int output_count, weft_tensor **outputs) WEFT_MUST_USE;

/* Records the problem behind a status, with the current location, and releases it: for functions that build with data
   from elsewhere. True: there was one. */
WEFT_API bool weft_graph_report(weft_graph *graph, weft_status status);
/* Records where the next ops were called; the op macros of ops.h do it. Returns graph. */
WEFT_API weft_graph *weft_graph_at(weft_graph *graph, const char *file, int line);

#ifdef __cplusplus
}
#endif
#endif
