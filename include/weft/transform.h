/* Transforms of graphs: derivatives.

   Both functions append ordinary nodes to the graph, so they nest: a gradient may be differentiated again, and compiled
   like everything else.
   Shapes: a tangent and a gradient have the shape and dtype of their value. Dtypes: floats; values of other types have
   no derivative (zero). Accumulation: sums of contributions in the value's dtype. Errors: an op without a derivative
   records a problem of the graph with its reason; weft_graph_verify returns it. Threading: thread-compatible, as the
   graph. Source: forward mode as Pearlmutter 1994; reverse mode as the transpose of the linearised program (Radul,
   Paszke, Frostig, Johnson, Maclaurin 2022). */
#ifndef WEFT_TRANSFORM_H
#define WEFT_TRANSFORM_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Directional derivative: the tangent of `value` when inputs[i] moves along tangents[i]. inputs are values of the graph
   that `value` may depend on. */
WEFT_API weft_value *weft_jvp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs,
                              weft_value *const *tangents);

/* Vector-Jacobian products: out_gradients[i] = (d value / d inputs[i])^T cotangent. For a loss, cotangent NULL = ones.
 */
WEFT_API void weft_gradient(weft_graph *graph, weft_value *value, weft_value *cotangent, int count,
                            weft_value *const *inputs, weft_value **out_gradients);

#ifdef __cplusplus
}
#endif
#endif
