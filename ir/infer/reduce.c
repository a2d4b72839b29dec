/* Result types of reductions, scans and windows. */
#include "ir/infer/check.h"

bool weft_infer_reduce(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    if (!weft_infer_reduction(infer, x->dtype) || !weft_infer_axes(infer, WEFT_ATTR_axes, x->rank, true)) return false;
    const weft_attribute *axes = weft_infer_attribute(infer, WEFT_ATTR_axes);
    weft_dim dims[WEFT_MAX_RANK];
    int rank = 0;
    for (int i = 0, next = 0; i < x->rank; i++) {
        if (next < axes->count && axes->as.ints[next] == i)
            next++;
        else
            dims[rank++] = x->dims[i];
    }
    return weft_infer_emit(infer, x->dtype, rank, dims);
}

/* The shape without one axis. */
static int drop_axis(const weft_type *x, int axis, weft_dim *dims) {
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != axis) dims[rank++] = x->dims[i];
    return rank;
}

bool weft_infer_arg_reduce(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    int axis;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_NUMBER) || !weft_infer_word(infer, WEFT_ATTR_kind, "max min") ||
        !weft_infer_axis(infer, WEFT_ATTR_axis, x->rank, &axis) || !weft_infer_flag(infer, WEFT_ATTR_select_last))
        return false;
    if (x->dims[axis] == 0) return weft_infer_fail(infer, "axis %d is empty", axis);
    weft_dim dims[WEFT_MAX_RANK];
    return weft_graph_assume_at_most(infer->graph, 1, x->dims[axis]) &&
           weft_infer_emit(infer, WEFT_I64, drop_axis(x, axis, dims), dims);
}

bool weft_infer_cumulative(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    int axis;
    return weft_infer_reduction(infer, x->dtype) && weft_infer_axis(infer, WEFT_ATTR_axis, x->rank, &axis) &&
           weft_infer_flag(infer, WEFT_ATTR_exclusive) && weft_infer_flag(infer, WEFT_ATTR_reverse) &&
           weft_infer_emit_type(infer, x);
}

/* Window attributes of the right length; optional dilations are 1. */
static bool window_dims(weft_infer *infer, const weft_type *x, weft_dim *dims) {
    const weft_attribute *dilation = weft_infer_attribute(infer, WEFT_ATTR_dilation);
    const weft_attribute *base = weft_infer_attribute(infer, WEFT_ATTR_base_dilation);
    if (!weft_infer_ints(infer, WEFT_ATTR_window, x->rank, 1) ||
        !weft_infer_ints(infer, WEFT_ATTR_stride, x->rank, 1) || !weft_infer_count(infer, WEFT_ATTR_low, x->rank) ||
        !weft_infer_count(infer, WEFT_ATTR_high, x->rank) ||
        (dilation && !weft_infer_ints(infer, WEFT_ATTR_dilation, x->rank, 1)) ||
        (base && !weft_infer_ints(infer, WEFT_ATTR_base_dilation, x->rank, 1)))
        return false;
    for (int i = 0; i < x->rank; i++) {
        weft_window_axis axis = {
            .extent = x->dims[i],
            .low = weft_infer_attribute(infer, WEFT_ATTR_low)->as.dims[i],
            .high = weft_infer_attribute(infer, WEFT_ATTR_high)->as.dims[i],
            .window = weft_infer_attribute(infer, WEFT_ATTR_window)->as.ints[i],
            .stride = weft_infer_attribute(infer, WEFT_ATTR_stride)->as.ints[i],
            .dilation = dilation ? dilation->as.ints[i] : 1,
            .base_dilation = base ? base->as.ints[i] : 1,
        };
        dims[i] = weft_window_extent(infer->graph, &axis);
    }
    return true;
}

bool weft_infer_reduce_window(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    weft_dim dims[WEFT_MAX_RANK];
    return weft_infer_reduction(infer, x->dtype) && window_dims(infer, x, dims) &&
           weft_infer_emit(infer, x->dtype, x->rank, dims);
}

bool weft_infer_select_and_scatter(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *source = weft_infer_operand(infer, 1);
    weft_dim dims[WEFT_MAX_RANK];
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_NUMBER) || !window_dims(infer, x, dims)) return false;
    weft_type expected = {x->dtype, x->rank, dims};
    if (source->dtype != x->dtype || !weft_infer_shapes_equal(infer, &expected, source))
        return weft_infer_fail(infer, "operand 1 is %s, the windows of operand 0 are %s",
                               weft_infer_type_text(infer, source), weft_infer_type_text(infer, &expected));
    return weft_infer_emit_type(infer, x);
}
