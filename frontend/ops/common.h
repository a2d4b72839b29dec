/* What the files of frontend/ops share. Read next: elementwise.c. */
#ifndef WEFT_FRONTEND_OPS_COMMON_H
#define WEFT_FRONTEND_OPS_COMMON_H

#define WEFT_OPS_NO_LOCATION
#include "ir/build.h"
#include "weft/ops.h"

/* Operands at the door. A missing one (NULL) is a problem and becomes poison; a poisoned one had its problem. True: the
   caller returns poison. */
bool weft_ops_absent(weft_graph *g, weft_value **value);
bool weft_ops_absent_any(weft_graph *g, weft_value *const *values, int count);
/* An array that must be there for count > 0; false after a problem. */
bool weft_ops_given(weft_graph *g, const void *array, int count, const char *what);
/* Poison at every place for a result; false after a problem when there is none. */
bool weft_ops_results(weft_graph *g, const char *op, int count, weft_value **results);
/* -1 is the last of rank axes. Records a problem and returns false when out of range. */
bool weft_ops_axis(weft_graph *g, int64_t axis, int rank, int *out_axis);
/* The same for a list; axis_count 0 gives all axes. Duplicates are a problem. out_axes: WEFT_MAX_RANK entries, sorted.
 */
bool weft_ops_axes(weft_graph *g, int axis_count, const int64_t *axes, int rank, int *out_count, int64_t *out_axes);
/* Shapes aligned at the last axis; writes the joint shape. */
bool weft_ops_broadcast_shapes(weft_graph *g, const weft_type *a, const weft_type *b, int *out_rank,
                               weft_dim *out_shape);
/* f32 for 16-bit and narrower floats, else dtype itself. */
weft_dtype weft_ops_compute_dtype(weft_dtype dtype);
const char *weft_ops_reduction_name(weft_reduction kind);

#endif
