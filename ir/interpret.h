/* The reference interpreter: defines what each op means. Plain loops, no sharing of code with code generation.
   Modes: EXACT accumulates and computes floats in f64, rounding once per op; ROUNDED is the same with f32 accumulation
   where a target would use f32. Constant folding, weft bisect and every test of generated code use it. */
#ifndef WEFT_IR_INTERPRET_H
#define WEFT_IR_INTERPRET_H

#include "ir/graph.h"

typedef enum weft_interpret_mode { WEFT_INTERPRET_EXACT, WEFT_INTERPRET_ROUNDED } weft_interpret_mode;

/* The value of a symbol that nothing has bound yet. */
#define WEFT_SYMBOL_UNBOUND INT64_MIN

typedef struct weft_interpreter {
    weft_graph *graph;
    weft_interpret_mode mode;
    int symbol_count;
    int64_t *symbols; /* values by symbol index; data-dependent ones set as they are met */
    weft_map values;  /* weft_value* -> weft_tensor*, of the active blocks */
    weft_map states;  /* name -> weft_tensor* */
    /* called after each node when set: for bisect and anomaly search. A status stops the run. */
    weft_status (*observe)(void *self, const weft_node *node, weft_tensor *const *results);
    void *observe_self;
} weft_interpreter;

/* Hook: inputs are packed row-major host tensors; writes results[i] (new tensors, owned by the caller). */
typedef weft_status (*weft_interpret_hook)(weft_interpreter *interpreter, const weft_node *node,
                                           weft_tensor *const *inputs, weft_tensor **results);

#define HOOK(name)                                                                                                     \
    weft_status weft_interpret_##name(weft_interpreter *interpreter, const weft_node *node,                            \
                                      weft_tensor *const *inputs, weft_tensor **results) WEFT_MUST_USE;
#define NONE(reason)
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, ...) interpret
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK

/* An interpreter keeps the graph's states between runs: a training loop is init, run, run, ..., deinit. */
weft_status weft_interpreter_init(weft_graph *graph, weft_interpret_mode mode,
                                  weft_interpreter *out_interpreter) WEFT_MUST_USE;
void weft_interpreter_deinit(weft_interpreter *interpreter);
/* Binds symbols from the inputs' shapes, checks types, bounds, equal extents and guards, runs the body. outputs[i] are
   new tensors of the caller. */
weft_status weft_interpreter_run(weft_interpreter *interpreter, int input_count, weft_tensor *const *inputs,
                                 int output_count, weft_tensor **outputs) WEFT_MUST_USE;
weft_tensor *weft_interpreter_state(const weft_interpreter *interpreter, const char *name); /* borrowed; NULL */

/* One run of a graph with fresh states. */
weft_status weft_interpret(weft_graph *graph, weft_interpret_mode mode, int input_count, weft_tensor *const *inputs,
                           int output_count, weft_tensor **outputs) WEFT_MUST_USE;
/* The same with an observer (see weft_interpreter.observe). */
weft_status weft_interpret_observed(weft_graph *graph, weft_interpret_mode mode, int input_count,
                                    weft_tensor *const *inputs, int output_count, weft_tensor **outputs,
                                    weft_status (*observe)(void *self, const weft_node *node,
                                                           weft_tensor *const *results),
                                    void *self) WEFT_MUST_USE;
/* One node on given tensors (constant folding). Derived ops run through their decomposition. */
weft_status weft_interpret_node(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) WEFT_MUST_USE;
weft_status weft_interpret_block(weft_interpreter *interpreter, const weft_block *block, weft_tensor *const *arguments,
                                 int result_count, weft_tensor **results) WEFT_MUST_USE;
/* Shape of a result under the current symbol values. */
weft_status weft_interpret_shape(const weft_interpreter *interpreter, const weft_type *type,
                                 int64_t *out_shape) WEFT_MUST_USE;

#endif
