/* Short constructors for nodes, for decompositions and passes: each builds one node (or none, when it would be the
   identity) at the graph's insertion point and returns its value, poisoned on a problem. */
#ifndef WEFT_IR_EMIT_H
#define WEFT_IR_EMIT_H

#include "ir/build.h"

weft_value *weft_emit_unary(weft_graph *graph, weft_op op, weft_value *x);
weft_value *weft_emit_binary(weft_graph *graph, weft_op op, weft_value *x, weft_value *y);
weft_value *weft_emit_compare(weft_graph *graph, const char *direction, weft_value *x, weft_value *y);
weft_value *weft_emit_select(weft_graph *graph, weft_value *predicate, weft_value *yes, weft_value *no);
/* The value itself when it has the dtype. */
weft_value *weft_emit_convert(weft_graph *graph, weft_value *x, weft_dtype dtype);
/* A scalar constant of any numeric dtype or bool; floats round to the dtype. */
weft_value *weft_emit_scalar(weft_graph *graph, weft_dtype dtype, double value);
/* A scalar constant broadcast to a shape; splat_like takes dtype and shape of another value. */
weft_value *weft_emit_splat(weft_graph *graph, weft_dtype dtype, double value, int rank, const weft_dim *dims);
weft_value *weft_emit_splat_like(weft_graph *graph, double value, const weft_value *like);
/* op(x, value) with a scalar. */
weft_value *weft_emit_binary_scalar(weft_graph *graph, weft_op op, weft_value *x, double value);
/* The value of an extent as a scalar of a dtype. */
weft_value *weft_emit_extent(weft_graph *graph, weft_dim extent, weft_dtype dtype);
/* Operand axis i becomes result axis axes[i]. */
weft_value *weft_emit_broadcast(weft_graph *graph, weft_value *x, int rank, const weft_dim *dims, const int64_t *axes);
/* Axes aligned from the last, as numpy does. */
weft_value *weft_emit_broadcast_to(weft_graph *graph, weft_value *x, int rank, const weft_dim *dims);
weft_value *weft_emit_reshape(weft_graph *graph, weft_value *x, int rank, const weft_dim *dims);
weft_value *weft_emit_transpose(weft_graph *graph, weft_value *x, const int64_t *permutation);
weft_value *weft_emit_reduce(weft_graph *graph, weft_value *x, const char *kind, int axis_count, const int64_t *axes);
/* A reduced value spread over the axes it was reduced from, to the type of `like`. */
weft_value *weft_emit_spread(weft_graph *graph, weft_value *x, const weft_value *like, int axis_count,
                             const int64_t *axes);
weft_value *weft_emit_iota(weft_graph *graph, weft_dtype dtype, int rank, const weft_dim *dims, int axis);
/* [start, limit) with a stride along one axis, the others whole. */
weft_value *weft_emit_slice_axis(weft_graph *graph, weft_value *x, int axis, weft_dim start, weft_dim limit,
                                 int64_t stride);
weft_value *weft_emit_concat(weft_graph *graph, int axis, int count, weft_value *const *values);

typedef struct weft_dot_axes {
    int batch_count, contract_count;
    const int64_t *lhs_batch, *rhs_batch, *lhs_contract, *rhs_contract;
} weft_dot_axes;
/* accumulate WEFT_INVALID = the default for the operands. */
weft_value *weft_emit_dot(weft_graph *graph, weft_value *lhs, weft_value *rhs, const weft_dot_axes *axes,
                          weft_dtype dtype, weft_dtype accumulate);

#endif
