/* Result types of ops that make or move elements without computing on them. */
#include "ir/infer/check.h"

bool weft_infer_constant(weft_infer *infer) {
    const weft_tensor *value = weft_infer_attribute(infer, WEFT_ATTR_value)->as.tensor;
    if (!weft_dtype_allowed(value->dtype, WEFT_ALLOW_ANY))
        return weft_infer_fail(infer, "a tensor of %s cannot be in a graph", weft_dtype_name(value->dtype));
    if (value->device) return weft_infer_fail(infer, "the tensor is in device memory; constants live on the host");
    return weft_infer_emit(infer, value->dtype, value->rank, value->shape);
}

bool weft_infer_iota(weft_infer *infer) {
    const weft_attribute *shape = weft_infer_attribute(infer, WEFT_ATTR_shape);
    weft_dtype dtype = weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype;
    int axis;
    if (!weft_dtype_allowed(dtype, WEFT_ALLOW_NUMBER))
        return weft_infer_fail(infer, "of %s is not defined", weft_dtype_name(dtype));
    return weft_infer_axis(infer, WEFT_ATTR_axis, shape->count, &axis) &&
           weft_infer_emit(infer, dtype, shape->count, shape->as.dims);
}

bool weft_infer_dim(weft_infer *infer) {
    return weft_infer_count(infer, WEFT_ATTR_extent, 1) && weft_infer_emit(infer, WEFT_I64, 0, NULL);
}

bool weft_infer_reshape(weft_infer *infer) {
    const weft_attribute *shape = weft_infer_attribute(infer, WEFT_ATTR_shape);
    const weft_type *x = weft_infer_operand(infer, 0);
    weft_type to = {x->dtype, shape->count, shape->as.dims};
    weft_graph *graph = infer->graph;
    if (!weft_infer_emit_type(infer, &to)) return false;
    weft_dim from_count = weft_type_count(graph, x), to_count = weft_type_count(graph, &to);
    if (weft_graph_assume_equal(graph, from_count, to_count)) return true;
    return weft_infer_fail(infer, "%s to %s: the numbers of elements differ (%s and %s)",
                           weft_infer_type_text(infer, x), weft_infer_type_text(infer, &to),
                           weft_infer_dim_text(infer, from_count), weft_infer_dim_text(infer, to_count));
}

bool weft_infer_transpose(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    if (!weft_infer_count(infer, WEFT_ATTR_permutation, x->rank) ||
        !weft_infer_axes(infer, WEFT_ATTR_permutation, x->rank, false))
        return false;
    const int64_t *permutation = weft_infer_attribute(infer, WEFT_ATTR_permutation)->as.ints;
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[permutation[i]];
    return weft_infer_emit(infer, x->dtype, x->rank, dims);
}

bool weft_infer_broadcast(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    const weft_attribute *shape = weft_infer_attribute(infer, WEFT_ATTR_shape);
    if (!weft_infer_count(infer, WEFT_ATTR_axes, x->rank) ||
        !weft_infer_axes(infer, WEFT_ATTR_axes, shape->count, true))
        return false;
    const int64_t *axes = weft_infer_attribute(infer, WEFT_ATTR_axes)->as.ints;
    for (int i = 0; i < x->rank; i++) {
        weft_dim from = x->dims[i], to = shape->as.dims[axes[i]];
        if (from == 1 || weft_graph_assume_equal(infer->graph, from, to)) continue;
        return weft_infer_fail(infer, "operand axis %d is %s, result axis %lld is %s; only 1 stretches", i,
                               weft_infer_dim_text(infer, from), (long long)axes[i], weft_infer_dim_text(infer, to));
    }
    return weft_infer_emit(infer, x->dtype, shape->count, shape->as.dims);
}

/* 0 <= start <= limit <= extent; what bounds cannot show is assumed under a guard. */
static bool slice_axis_fits(weft_infer *infer, int axis, weft_dim start, weft_dim limit, weft_dim extent) {
    weft_graph *graph = infer->graph;
    if (weft_graph_assume_at_most(graph, 0, start) && weft_graph_assume_at_most(graph, start, limit) &&
        weft_graph_assume_at_most(graph, limit, extent))
        return true;
    return weft_infer_fail(infer, "axis %d: [%s, %s) is not inside %s", axis, weft_infer_dim_text(infer, start),
                           weft_infer_dim_text(infer, limit), weft_infer_dim_text(infer, extent));
}

bool weft_infer_slice(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    if (!weft_infer_count(infer, WEFT_ATTR_start, x->rank) || !weft_infer_count(infer, WEFT_ATTR_limit, x->rank) ||
        !weft_infer_ints(infer, WEFT_ATTR_stride, x->rank, 1))
        return false;
    const weft_dim *start = weft_infer_attribute(infer, WEFT_ATTR_start)->as.dims;
    const weft_dim *limit = weft_infer_attribute(infer, WEFT_ATTR_limit)->as.dims;
    const int64_t *stride = weft_infer_attribute(infer, WEFT_ATTR_stride)->as.ints;
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        if (!slice_axis_fits(infer, i, start[i], limit[i], x->dims[i])) return false;
        weft_dim_table *table = infer->graph->dims;
        dims[i] = weft_dim_divide_ceil(table, weft_dim_subtract(table, limit[i], start[i]), stride[i]);
    }
    return weft_infer_emit(infer, x->dtype, x->rank, dims);
}

bool weft_infer_reverse(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    return weft_infer_axes(infer, WEFT_ATTR_axes, x->rank, true) && weft_infer_emit_type(infer, x);
}

bool weft_infer_pad(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *fill = weft_infer_operand(infer, 1);
    if (fill->rank != 0 || fill->dtype != x->dtype)
        return weft_infer_fail(infer, "operand 1 is %s; it must be a scalar of %s", weft_infer_type_text(infer, fill),
                               weft_dtype_name(x->dtype));
    if (!weft_infer_count(infer, WEFT_ATTR_low, x->rank) || !weft_infer_count(infer, WEFT_ATTR_high, x->rank) ||
        !weft_infer_ints(infer, WEFT_ATTR_interior, x->rank, 0))
        return false;
    const weft_dim *low = weft_infer_attribute(infer, WEFT_ATTR_low)->as.dims;
    const weft_dim *high = weft_infer_attribute(infer, WEFT_ATTR_high)->as.dims;
    const int64_t *interior = weft_infer_attribute(infer, WEFT_ATTR_interior)->as.ints;
    weft_dim_table *table = infer->graph->dims;
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        weft_dim extent = x->dims[i];
        if (interior[i] && extent != 0) { /* holes between elements: extent + max(extent - 1, 0) * interior */
            weft_dim gaps = weft_dim_subtract(table, extent, 1);
            int64_t minimum, maximum;
            weft_dim_bounds(table, gaps, &minimum, &maximum);
            if (minimum < 0) gaps = weft_dim_maximum(table, gaps, 0);
            extent = weft_dim_add(table, extent, weft_dim_multiply(table, gaps, interior[i]));
        }
        dims[i] = weft_dim_add(table, weft_dim_add(table, extent, low[i]), high[i]);
    }
    return weft_infer_emit(infer, x->dtype, x->rank, dims);
}

bool weft_infer_concat(weft_infer *infer) {
    const weft_type *first = weft_infer_operand(infer, 0);
    int axis;
    if (!weft_infer_axis(infer, WEFT_ATTR_axis, first->rank, &axis)) return false;
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < first->rank; i++) dims[i] = first->dims[i];
    for (int n = 1; n < infer->node->operand_count; n++) {
        const weft_type *x = weft_infer_operand(infer, n);
        bool fits = x->rank == first->rank && x->dtype == first->dtype;
        for (int i = 0; fits && i < x->rank; i++)
            fits = i == axis || weft_graph_assume_equal(infer->graph, x->dims[i], first->dims[i]);
        if (!fits)
            return weft_infer_fail(infer, "operand %d is %s, operand 0 is %s; all but axis %d must agree", n,
                                   weft_infer_type_text(infer, x), weft_infer_type_text(infer, first), axis);
        dims[axis] = weft_dim_add(infer->graph->dims, dims[axis], x->dims[axis]);
    }
    return weft_infer_emit(infer, first->dtype, first->rank, dims);
}

/* Operands from `first` on: one i64 scalar per axis. */
static bool start_scalars(weft_infer *infer, int first, int rank) {
    if (infer->node->operand_count != first + rank)
        return weft_infer_fail(infer, "%d start indices, the rank is %d", infer->node->operand_count - first, rank);
    for (int i = first; i < first + rank; i++) {
        const weft_type *start = weft_infer_operand(infer, i);
        if (start->rank != 0 || start->dtype != WEFT_I64)
            return weft_infer_fail(infer, "operand %d is %s; starts are i64 scalars", i,
                                   weft_infer_type_text(infer, start));
    }
    return true;
}

/* part <= whole, proved or assumed under a guard. */
static bool extent_fits(weft_infer *infer, weft_dim part, weft_dim whole, int axis) {
    if (weft_graph_assume_at_most(infer->graph, part, whole)) return true;
    return weft_infer_fail(infer, "a slice of %s along axis %d does not fit into %s", weft_infer_dim_text(infer, part),
                           axis, weft_infer_dim_text(infer, whole));
}

bool weft_infer_dynamic_slice(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    const weft_attribute *sizes = weft_infer_attribute(infer, WEFT_ATTR_sizes);
    if (!weft_infer_count(infer, WEFT_ATTR_sizes, x->rank) || !start_scalars(infer, 1, x->rank)) return false;
    for (int i = 0; i < x->rank; i++)
        if (!extent_fits(infer, sizes->as.dims[i], x->dims[i], i)) return false;
    return weft_infer_emit(infer, x->dtype, x->rank, sizes->as.dims);
}

bool weft_infer_dynamic_update_slice(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *update = weft_infer_operand(infer, 1);
    if (update->dtype != x->dtype || update->rank != x->rank)
        return weft_infer_fail(infer, "the update is %s for %s", weft_infer_type_text(infer, update),
                               weft_infer_type_text(infer, x));
    for (int i = 0; i < x->rank; i++)
        if (!extent_fits(infer, update->dims[i], x->dims[i], i)) return false;
    return start_scalars(infer, 2, x->rank) && weft_infer_emit_type(infer, x);
}

bool weft_infer_identity(weft_infer *infer) {
    for (int i = 0; i < infer->node->operand_count; i++)
        if (!weft_infer_emit_type(infer, weft_infer_operand(infer, i))) return false;
    return true;
}
