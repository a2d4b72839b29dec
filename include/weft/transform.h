/* Transforms of functions: derivatives, rematerialisation, functions with a derivative of their own.

   A function is what lies between values that exist: a transform takes its results and its inputs, both values of the
   graph, and builds the transformed function at the insertion point as ordinary nodes. Nothing that exists changes, so
   transforms nest in any order: the gradient of a Hessian-vector product is three calls. An input may be any value, not
   only an input of the graph: results are taken as functions of it with what lies behind it left out. What a transform
   leaves without use is dead code, which the compiler drops.

       weft_value *y = model(g, x, w);                      // values as usual
       weft_gradient(g, loss, NULL, 1, &w, &dw);            // d loss / d w
       weft_hvp(g, loss, 1, &w, &v, &hv);                   // its Hessian times v
       weft_apply(g, 1, &y, 1, &x, &x2, &y2);               // the same model at other inputs

   Shapes: a tangent and a gradient have the shape and dtype of their value. Dtypes: floats; values of other types have
   no derivative (zero). Complex values in between are pairs: their cotangents go with Re u Re v + Im u Im v.
   Accumulation: sums of contributions in the value's dtype. A value and its gradient share their nodes; there is no
   joint call for both. A read of a state is a value like others: the gradient with respect to it is the one with
   respect to the state at that point, and reads after an update depend on what was put there. Loops and branches:
   forward mode of each; reverse mode keeps what a scan's trips leave behind, and takes a while whose bound is known, as
   that many trips. A loop or branch that updates a state, or reads one that changes, is a problem. Errors: an op
   without a derivative records a problem of the graph with its reason (docs/ops.md); weft_graph_verify returns it.
   Ownership: values belong to the graph; arrays are read during the call, and an array of results is another one than
   those of arguments. Threading: thread-compatible, as the graph. Source: forward mode as Pearlmutter 1994; reverse
   mode as the transpose of the linearised program (Radul, Paszke, Frostig, Johnson, Maclaurin 2022). */
#ifndef WEFT_TRANSFORM_H
#define WEFT_TRANSFORM_H

#include <limits.h>

#include "weft/graph.h"
#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- functions */

/* An argument to build a function on before its real argument exists. Used as it is, it is zero. */
WEFT_API weft_value *weft_placeholder(weft_graph *graph, weft_dtype dtype, int rank, const weft_dim *shape);
WEFT_API weft_value *weft_placeholder_like(weft_graph *graph, weft_value *like);
/* Calls the function inputs -> values at other arguments, of the inputs' types. */
WEFT_API void weft_apply(weft_graph *graph, int value_count, weft_value *const *values, int input_count,
                         weft_value *const *inputs, weft_value *const *arguments, weft_value **out_values);

/* -- first derivatives */

/* Directional derivative: the tangent of `value` when inputs[i] moves along tangents[i]. */
WEFT_API weft_value *weft_jvp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs,
                              weft_value *const *tangents);
WEFT_API void weft_jvp_many(weft_graph *graph, int value_count, weft_value *const *values, int count,
                            weft_value *const *inputs, weft_value *const *tangents, weft_value **out_tangents);
/* The derivative at this point as a linear function out_directions -> out_tangents, to be called with weft_apply as
   often as wanted without the work of the values, or transposed. The directions are placeholders. */
WEFT_API void weft_linearize(weft_graph *graph, int value_count, weft_value *const *values, int count,
                             weft_value *const *inputs, weft_value **out_directions, weft_value **out_tangents);
/* For values that are linear in inputs: out_cotangents = transpose(inputs -> values) applied to cotangents. */
WEFT_API void weft_linear_transpose(weft_graph *graph, int value_count, weft_value *const *values,
                                    weft_value *const *cotangents, int count, weft_value *const *inputs,
                                    weft_value **out_cotangents);
/* Vector-Jacobian products: out_gradients[i] = sum over j of (d values[j] / d inputs[i])^T cotangents[j]. cotangents
   NULL, or one of them: ones. */
WEFT_API void weft_vjp(weft_graph *graph, int value_count, weft_value *const *values, weft_value *const *cotangents,
                       int count, weft_value *const *inputs, weft_value **out_gradients);
/* The same for one value; for a loss, cotangent NULL. */
WEFT_API void weft_gradient(weft_graph *graph, weft_value *value, weft_value *cotangent, int count,
                            weft_value *const *inputs, weft_value **out_gradients);

/* -- second derivatives of a scalar (of the sum of value's elements otherwise) */

/* Hessian times vectors, forward over reverse. */
WEFT_API void weft_hvp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs,
                       weft_value *const *vectors, weft_value **out_products);
/* Vectors times Hessian, reverse over reverse: the same numbers for twice differentiable functions. */
WEFT_API void weft_vhp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs,
                       weft_value *const *vectors, weft_value **out_products);

/* Jacobian of `value` by `input`: value's shape, then input's. Forward: one column at a time in one batch, for few
   inputs; reverse: one row at a time in one batch, for few values. */
WEFT_API weft_value *weft_jacobian_forward(weft_graph *graph, weft_value *value, weft_value *input);
WEFT_API weft_value *weft_jacobian_reverse(weft_graph *graph, weft_value *value, weft_value *input);
/* Second derivatives of a scalar value: input's shape twice. Forward over reverse. */
WEFT_API weft_value *weft_hessian(weft_graph *graph, weft_value *value, weft_value *input);

/* -- batches: a function of elements becomes a function of batches of them, as one computation (every op has a rule,
   see docs/ops.md; where no single op computes a batch, a scan goes element by element). */
typedef enum weft_vmap_randomness {
    WEFT_VMAP_ERROR,     /* rng_bits with one key for all elements is a problem; keys of their own are fine */
    WEFT_VMAP_DIFFERENT, /* other bits for each element */
    WEFT_VMAP_SAME       /* the same bits for each element */
} weft_vmap_randomness;
#define WEFT_VMAP_NONE INT_MIN
typedef struct weft_vmap_options {
    size_t struct_bytes;
    const int *in_axes;  /* by input: the batch's axis, negative from the end; WEFT_VMAP_NONE = none; NULL = all 0 */
    const int *out_axes; /* by output; NULL = all 0 */
    weft_vmap_randomness randomness;
    int64_t chunk_size; /* elements at a time, in a loop; 0 = all. The batch's length must be a number, or a multiple */
} weft_vmap_options;
#define WEFT_VMAP_OPTIONS_INIT {sizeof(weft_vmap_options), 0, 0, WEFT_VMAP_ERROR, 0}
/* outputs = body of every element of inputs. The body builds the function of one element; it may use outer values,
   which are the same for every element, and call weft_vmap again. options may be NULL. */
WEFT_API void weft_vmap(weft_graph *graph, const weft_vmap_options *options, weft_body body, void *self,
                        int input_count, weft_value *const *inputs, int output_count, weft_value **outputs);
/* The function inputs -> values, which exists, of every element of batches; batches[i] NULL: that input stays.
   chunk_size is not used. Randomness is about every draw that values depend on. */
WEFT_API void weft_vmap_values(weft_graph *graph, const weft_vmap_options *options, int value_count,
                               weft_value *const *values, int input_count, weft_value *const *inputs,
                               weft_value *const *batches, weft_value **out_batches);

/* -- what derivatives may keep: nodes made between begin and end (which nest) form a scope. The reverse part computes
   values of the scope anew, from what entered it and what the policy keeps, instead of holding them in memory from the
   forward part: the same nodes on the same values, so equal bits. */
typedef enum weft_save {
    WEFT_SAVE_NOTHING,
    WEFT_SAVE_EVERYTHING,
    WEFT_SAVE_PRODUCTS,          /* results of dot_general, convolution, attention */
    WEFT_SAVE_ALL_BUT_ATTENTION, /* attention is computed again in the reverse part */
    WEFT_SAVE_NAMED,             /* values that weft_save_name gave one of `names` */
    WEFT_SAVE_WITHIN_BUDGET,     /* as much as fits budget_bytes: elementwise values are dropped first, then reductions,
                                    then products, larger ones first. Extents without a bound count at their minimum. */
} weft_save;
typedef struct weft_remat_options {
    size_t struct_bytes;
    weft_save save;
    int name_count;
    const char *const *names;
    int64_t budget_bytes;
} weft_remat_options;
#define WEFT_REMAT_OPTIONS_INIT {sizeof(weft_remat_options), WEFT_SAVE_NOTHING, 0, 0, 0}
/* options NULL: nothing is kept. */
WEFT_API void weft_remat_begin(weft_graph *graph, const weft_remat_options *options);
WEFT_API void weft_remat_end(weft_graph *graph);
/* Names the result of a node. Returns it. */
WEFT_API weft_value *weft_save_name(weft_graph *graph, weft_value *value, const char *name);

/* -- states and debugging */

/* A copy of a finished graph without states: each becomes an input and an output of its name behind the others, in the
   order of their declaration; what the program read and updated is a value. A state that is updated inside a loop or
   branch: "unsupported". */
WEFT_API weft_status weft_functionalize(weft_graph *graph, weft_graph **out_graph) WEFT_MUST_USE;
/* i64 scalar: the number of the first node, in the order they run, that makes NaN out of numbers or an infinity out of
   finite numbers; -1 = none. Call it when the graph is built, give it out, and ask weft_anomaly_describe (of this
   graph, as it is) for the node, where it was built, and whose derivative it belongs to. Loops and branches count as
   one node. The text is the caller's: weft_string_release. */
WEFT_API weft_value *weft_anomaly(weft_graph *graph);
WEFT_API weft_status weft_anomaly_describe(weft_graph *graph, int64_t number, char **out_text) WEFT_MUST_USE;

/* -- functions with a derivative of their own */

/* x, as a constant to every derivative. */
WEFT_API weft_value *weft_stop_gradient(weft_graph *graph, weft_value *x);
/* outputs = body(inputs), with this forward rule: rule(inputs, a tangent for each float input) -> a tangent for each
   float output. It must be linear in the tangents; gradients are its transpose. Values that body or rule use besides
   their arguments must not depend on what is differentiated: that is a problem of the graph. */
WEFT_API void weft_custom_jvp(weft_graph *graph, int input_count, weft_value *const *inputs, weft_body body,
                              weft_body rule, void *self, int output_count, weft_value **outputs);
/* The same with a reverse rule: rule(inputs, outputs, a cotangent for each float output) -> a cotangent for each float
   input. Any function may stand there (clipped or replaced gradients). Forward mode has no rule then: gradients of
   gradients differentiate the rule itself. */
WEFT_API void weft_custom_vjp(weft_graph *graph, int input_count, weft_value *const *inputs, weft_body body,
                              weft_body rule, void *self, int output_count, weft_value **outputs);

#ifdef __cplusplus
}
#endif
#endif
