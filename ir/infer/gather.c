/* Result types of gather and scatter, as StableHLO defines them. */
#include "ir/infer/check.h"

/* index_axis and index_map against the indices and x; how many components an index has. */
static bool index_attributes(weft_infer *infer, const weft_type *x, const weft_type *indices, int *out_index_axis) {
    int64_t axis = weft_infer_attribute(infer, WEFT_ATTR_index_axis)->as.integer;
    if (!weft_dtype_allowed(indices->dtype, WEFT_ALLOW_INTEGER))
        return weft_infer_fail(infer, "the indices are %s; they must be integers",
                               weft_infer_type_text(infer, indices));
    if (axis < 0 || axis > indices->rank)
        return weft_infer_fail(infer, "index_axis %lld for indices %s", (long long)axis,
                               weft_infer_type_text(infer, indices));
    weft_dim components = axis == indices->rank ? 1 : indices->dims[axis];
    if (!weft_infer_axes(infer, WEFT_ATTR_index_map, x->rank, false)) return false;
    if (components != weft_infer_attribute(infer, WEFT_ATTR_index_map)->count)
        return weft_infer_fail(infer, "index_map has %d entries, an index has %s components",
                               weft_infer_attribute(infer, WEFT_ATTR_index_map)->count,
                               weft_infer_dim_text(infer, components));
    *out_index_axis = (int)axis;
    return true;
}

static bool contains(const weft_attribute *axes, int axis) {
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* The slice that each index addresses: sizes fit into x, collapsed axes have size 1. */
static bool slice_sizes(weft_infer *infer, const weft_type *x) {
    const weft_attribute *collapsed = weft_infer_attribute(infer, WEFT_ATTR_collapsed_axes);
    if (!weft_infer_count(infer, WEFT_ATTR_sizes, x->rank)) return false;
    const weft_dim *sizes = weft_infer_attribute(infer, WEFT_ATTR_sizes)->as.dims;
    for (int i = 0; i < x->rank; i++) {
        if (!weft_graph_assume_at_most(infer->graph, sizes[i], x->dims[i]))
            return weft_infer_fail(infer, "sizes[%d] is %s, the operand is %s", i, weft_infer_dim_text(infer, sizes[i]),
                                   weft_infer_type_text(infer, x));
        if (contains(collapsed, i) && sizes[i] != 1)
            return weft_infer_fail(infer, "sizes[%d] is %s, a collapsed axis needs 1", i,
                                   weft_infer_dim_text(infer, sizes[i]));
    }
    return true;
}

bool weft_infer_gather(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *indices = weft_infer_operand(infer, 1);
    int index_axis;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_ANY) || !index_attributes(infer, x, indices, &index_axis) ||
        !weft_infer_axes(infer, WEFT_ATTR_collapsed_axes, x->rank, true) || !slice_sizes(infer, x))
        return false;
    const weft_attribute *collapsed = weft_infer_attribute(infer, WEFT_ATTR_collapsed_axes);
    const weft_dim *sizes = weft_infer_attribute(infer, WEFT_ATTR_sizes)->as.dims;
    int batch_rank = indices->rank - (index_axis < indices->rank), window_rank = x->rank - collapsed->count;
    int rank = batch_rank + window_rank;
    if (rank > WEFT_MAX_RANK) return weft_infer_fail(infer, "the result has rank %d, at most %d", rank, WEFT_MAX_RANK);
    if (!weft_infer_axes(infer, WEFT_ATTR_offset_axes, rank, true) ||
        !weft_infer_count(infer, WEFT_ATTR_offset_axes, window_rank))
        return false;
    const weft_attribute *offset = weft_infer_attribute(infer, WEFT_ATTR_offset_axes);
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0, window = 0, batch = 0; i < rank; i++) {
        if (contains(offset, i)) {
            while (contains(collapsed, window)) window++;
            dims[i] = sizes[window++];
        } else {
            if (batch == index_axis) batch++;
            dims[i] = indices->dims[batch++];
        }
    }
    return weft_infer_emit(infer, x->dtype, rank, dims);
}

/* Window axes of the updates fit into x, the others are the indices'. */
static bool update_shape(weft_infer *infer, int index_axis) {
    const weft_type *x = weft_infer_operand(infer, 0), *indices = weft_infer_operand(infer, 1);
    const weft_type *updates = weft_infer_operand(infer, 2);
    const weft_attribute *inserted = weft_infer_attribute(infer, WEFT_ATTR_collapsed_axes);
    const weft_attribute *window_axes = weft_infer_attribute(infer, WEFT_ATTR_offset_axes);
    for (int i = 0, window = 0, batch = 0; i < updates->rank; i++) {
        bool fits;
        if (contains(window_axes, i)) {
            while (contains(inserted, window)) window++;
            fits = weft_graph_assume_at_most(infer->graph, updates->dims[i], x->dims[window++]);
        } else {
            if (batch == index_axis) batch++;
            fits = weft_graph_assume_equal(infer->graph, updates->dims[i], indices->dims[batch++]);
        }
        if (!fits)
            return weft_infer_fail(infer, "axis %d of the updates %s does not fit x %s and indices %s", i,
                                   weft_infer_type_text(infer, updates), weft_infer_type_text(infer, x),
                                   weft_infer_type_text(infer, indices));
    }
    return true;
}

bool weft_infer_scatter(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *indices = weft_infer_operand(infer, 1);
    const weft_type *updates = weft_infer_operand(infer, 2);
    int index_axis;
    if (!weft_infer_word(infer, WEFT_ATTR_kind, "set sum product max min")) return false;
    bool set = weft_infer_attribute(infer, WEFT_ATTR_kind)->as.string[0] == 's' &&
               weft_infer_attribute(infer, WEFT_ATTR_kind)->as.string[1] == 'e';
    if (!weft_infer_dtype(infer, 0, set ? WEFT_ALLOW_ANY : WEFT_ALLOW_NUMBER) ||
        !index_attributes(infer, x, indices, &index_axis) ||
        !weft_infer_axes(infer, WEFT_ATTR_collapsed_axes, x->rank, true) ||
        !weft_infer_axes(infer, WEFT_ATTR_offset_axes, updates->rank, true))
        return false;
    int batch_rank = indices->rank - (index_axis < indices->rank);
    int window_rank = x->rank - weft_infer_attribute(infer, WEFT_ATTR_collapsed_axes)->count;
    if (updates->dtype != x->dtype || updates->rank != batch_rank + window_rank)
        return weft_infer_fail(infer, "the updates are %s; x %s and indices %s need rank %d of %s",
                               weft_infer_type_text(infer, updates), weft_infer_type_text(infer, x),
                               weft_infer_type_text(infer, indices), batch_rank + window_rank,
                               weft_dtype_name(x->dtype));
    return weft_infer_count(infer, WEFT_ATTR_offset_axes, window_rank) && update_shape(infer, index_axis) &&
           weft_infer_emit_type(infer, x);
}
