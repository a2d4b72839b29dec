/* Indexed reads and writes, all on the StableHLO gather and scatter. Indices are never negative here: importers
   normalise. Read next: reduce.c. */
#include "base/need.h"
#include "frontend/ops/common.h"

static int gather_attributes(const weft_gather_options *o, weft_attribute *attributes) {
    attributes[0] = weft_attr_ints(WEFT_ATTR_offset_axes, o->offset_count, o->offset_axes);
    attributes[1] = weft_attr_ints(WEFT_ATTR_collapsed_axes, o->collapsed_count, o->collapsed_axes);
    attributes[2] = weft_attr_ints(WEFT_ATTR_index_map, o->index_map_count, o->index_map);
    attributes[3] = weft_attr_int(WEFT_ATTR_index_axis, o->index_axis);
    return 4;
}

weft_value *weft_gather(weft_graph *g, weft_value *x, weft_value *starts, const weft_gather_options *options) {
    weft_value *operands[2] = {x, starts};
    if (weft_ops_absent_any(g, operands, 2) || !weft_ops_given(g, options, 1, "the options"))
        return weft_value_poison(g);
    weft_gather_options own = WEFT_GATHER_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_GATHER_OPTIONS_INIT))) return weft_value_poison(g);
    weft_attribute attributes[5];
    int count = gather_attributes(&own, attributes);
    attributes[count++] = weft_attr_dims(WEFT_ATTR_sizes, x->type.rank, own.sizes);
    return weft_build(g, WEFT_OP_gather, 2, operands, count, attributes);
}

weft_value *weft_scatter(weft_graph *g, weft_reduction kind, weft_value *x, weft_value *indices, weft_value *updates,
                         const weft_gather_options *options) {
    weft_value *operands[3] = {x, indices, updates};
    if (weft_ops_absent_any(g, operands, 3) || !weft_ops_given(g, options, 1, "the options"))
        return weft_value_poison(g);
    weft_gather_options own = WEFT_GATHER_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_GATHER_OPTIONS_INIT))) return weft_value_poison(g);
    weft_attribute attributes[5];
    int count = gather_attributes(&own, attributes);
    attributes[count++] = weft_attr_string(WEFT_ATTR_kind, weft_ops_reduction_name(kind));
    return weft_build(g, WEFT_OP_scatter, 3, operands, count, attributes);
}

/* indices of any shape gain a last axis of 1: the index vector. */
static weft_value *index_vectors(weft_graph *g, weft_value *indices) {
    int64_t last = -1;
    return weft_unsqueeze(g, indices, 1, &last);
}

weft_value *weft_take(weft_graph *g, weft_value *x, weft_value *indices, int axis) {
    weft_value *operands[2] = {x, indices};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    int rank = x->type.rank, index_rank = indices->type.rank;
    if (!weft_ops_axis(g, axis, rank, &axis)) return weft_value_poison(g);
    if (rank - 1 + index_rank > WEFT_MAX_RANK) {
        weft_graph_problem(g, "take of rank %d by indices of rank %d", rank, index_rank);
        return weft_value_poison(g);
    }
    int64_t offset[WEFT_MAX_RANK], collapsed = axis, map = axis;
    weft_dim sizes[WEFT_MAX_RANK];
    int count = 0;
    for (int i = 0; i < rank; i++) {
        sizes[i] = i == axis ? 1 : x->type.dims[i];
        if (i != axis) offset[count++] = i < axis ? i : i + index_rank - 1;
    }
    weft_gather_options options = WEFT_GATHER_OPTIONS_INIT;
    options.offset_axes = offset, options.offset_count = count;
    options.collapsed_axes = &collapsed, options.collapsed_count = 1;
    options.index_map = &map, options.index_map_count = 1;
    options.index_axis = index_rank;
    options.sizes = sizes;
    return weft_gather(g, x, index_vectors(g, indices), &options);
}

weft_value *weft_embedding(weft_graph *g, weft_value *table, weft_value *ids) { return weft_take(g, table, ids, 0); }

weft_value *weft_gather_nd(weft_graph *g, weft_value *x, weft_value *indices) {
    weft_value *operands[2] = {x, indices};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    int rank = x->type.rank, index_rank = indices->type.rank;
    weft_dim components = index_rank > 0 ? indices->type.dims[index_rank - 1] : -1;
    if (!weft_dim_is_number(components) || components > rank || index_rank - 1 + rank - components > WEFT_MAX_RANK) {
        weft_graph_problem(g, "gather_nd: the last extent of the indices must be a number of at most %d", rank);
        return weft_value_poison(g);
    }
    int k = (int)components, offset_count = 0;
    int64_t offset[WEFT_MAX_RANK], map[WEFT_MAX_RANK];
    weft_dim sizes[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        sizes[i] = i < k ? 1 : x->type.dims[i];
        if (i < k) map[i] = i;
        if (i >= k) offset[offset_count++] = index_rank - 1 + i - k;
    }
    weft_gather_options options = WEFT_GATHER_OPTIONS_INIT;
    options.offset_axes = offset, options.offset_count = offset_count;
    options.collapsed_axes = map, options.collapsed_count = k;
    options.index_map = map, options.index_map_count = k;
    options.index_axis = index_rank - 1;
    options.sizes = sizes;
    return weft_gather(g, x, indices, &options);
}

weft_value *weft_scatter_nd(weft_graph *g, weft_reduction kind, weft_value *x, weft_value *indices,
                            weft_value *updates) {
    weft_value *operands[3] = {x, indices, updates};
    if (weft_ops_absent_any(g, operands, 3)) return weft_value_poison(g);
    int rank = x->type.rank, index_rank = indices->type.rank;
    weft_dim components = index_rank > 0 ? indices->type.dims[index_rank - 1] : -1;
    if (!weft_dim_is_number(components) || components > rank) {
        weft_graph_problem(g, "scatter_nd: the last extent of the indices must be a number of at most %d", rank);
        return weft_value_poison(g);
    }
    int k = (int)components, window_count = 0;
    int64_t window[WEFT_MAX_RANK], map[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        if (i < k) map[i] = i;
        if (i >= k) window[window_count++] = index_rank - 1 + i - k;
    }
    weft_gather_options options = WEFT_GATHER_OPTIONS_INIT;
    options.offset_axes = window, options.offset_count = window_count;
    options.collapsed_axes = map, options.collapsed_count = k;
    options.index_map = map, options.index_map_count = k;
    options.index_axis = index_rank - 1;
    return weft_scatter(g, kind, x, indices, updates, &options);
}

/* Full addresses [shape of indices..., rank]: component `axis` is the index itself, the others count positions. */
static weft_value *full_addresses(weft_graph *g, const weft_value *x, weft_value *indices, int axis) {
    weft_value *parts[WEFT_MAX_RANK];
    int rank = x->type.rank;
    if (indices->type.rank != rank || rank + 1 > WEFT_MAX_RANK) {
        weft_graph_problem(g, "indices of rank %d for a tensor of rank %d", indices->type.rank, rank);
        return weft_value_poison(g);
    }
    for (int i = 0; i < rank; i++)
        parts[i] = i == axis ? weft_convert(g, indices, WEFT_I64) : weft_iota(g, WEFT_I64, rank, indices->type.dims, i);
    return weft_stack(g, rank, rank, parts);
}

weft_value *weft_take_along(weft_graph *g, weft_value *x, weft_value *indices, int axis) {
    weft_value *operands[2] = {x, indices};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    return weft_gather_nd(g, x, full_addresses(g, x, indices, axis));
}

weft_value *weft_put_along(weft_graph *g, weft_reduction kind, weft_value *x, weft_value *indices, weft_value *updates,
                           int axis) {
    weft_value *operands[3] = {x, indices, updates};
    if (weft_ops_absent_any(g, operands, 3)) return weft_value_poison(g);
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    return weft_scatter_nd(g, kind, x, full_addresses(g, x, indices, axis), updates);
}

weft_value *weft_one_hot(weft_graph *g, weft_value *indices, weft_dim depth, int axis, weft_value *on,
                         weft_value *off) {
    if (weft_ops_absent(g, &indices)) return indices;
    int rank = indices->type.rank + 1;
    if (rank > WEFT_MAX_RANK) {
        weft_graph_problem(g, "one_hot of rank %d", indices->type.rank);
        return weft_value_poison(g);
    }
    if (!weft_ops_axis(g, axis, rank, &axis)) return weft_value_poison(g);
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0, from = 0; i < rank; i++) shape[i] = i == axis ? depth : indices->type.dims[from++];
    weft_value *position = weft_iota(g, indices->type.dtype, rank, shape, axis);
    int64_t at = axis;
    return weft_where(g, weft_compare(g, WEFT_EQ, position, weft_unsqueeze(g, indices, 1, &at)), on, off);
}
