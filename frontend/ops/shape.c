/* Operations that move elements. Read next: gather.c. */
#include "frontend/ops/common.h"

/* Quotient of the two products, for the extent that reshape infers. */
static bool infer_extent(weft_graph *g, const weft_value *x, int rank, const weft_dim *shape, weft_dim *out) {
    weft_dim known = 1, total = weft_type_count(g, &x->type);
    for (int i = 0; i < rank; i++)
        if (shape[i] != WEFT_DIM_ANY) known = weft_dim_multiply(g->dims, known, shape[i]);
    if (known == 0) {
        weft_graph_problem(g, "reshape cannot infer an extent beside an extent of 0");
        return false;
    }
    if (weft_dim_is_number(total) && weft_dim_is_number(known)) {
        if (total % known == 0) {
            *out = total / known;
            return true;
        }
        weft_graph_problem(g, "reshape of %lld elements to a multiple of %lld", (long long)total, (long long)known);
        return false;
    }
    if (!weft_dim_divide_exact(g->dims, total, known, out)) *out = weft_dim_divide_floor(g->dims, total, known);
    return true;
}

weft_value *weft_reshape(weft_graph *g, weft_value *x, int rank, const weft_dim *shape) {
    if (weft_ops_absent(g, &x)) return x;
    weft_dim full[WEFT_MAX_RANK];
    if (rank < 0 || rank > WEFT_MAX_RANK) {
        weft_graph_problem(g, "reshape to rank %d", rank);
        return weft_value_poison(g);
    }
    if (!weft_ops_given(g, shape, rank, "the shape")) return weft_value_poison(g);
    int inferred = -1;
    for (int i = 0; i < rank; i++) {
        full[i] = shape[i];
        if (shape[i] != WEFT_DIM_ANY) continue;
        if (inferred >= 0) {
            weft_graph_problem(g, "reshape infers one extent only: axes %d and %d ask for it", inferred, i);
            return weft_value_poison(g);
        }
        inferred = i;
    }
    if (inferred >= 0 && !infer_extent(g, x, rank, shape, &full[inferred])) return weft_value_poison(g);
    bool same = rank == x->type.rank;
    for (int i = 0; same && i < rank; i++) same = full[i] == x->type.dims[i];
    if (same) return x;
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_shape, rank, full);
    return weft_build(g, WEFT_OP_reshape, 1, &x, 1, &attribute);
}

weft_value *weft_transpose(weft_graph *g, weft_value *x, const int64_t *permutation) {
    if (weft_ops_absent(g, &x)) return x;
    int rank = x->type.rank;
    int64_t full[WEFT_MAX_RANK];
    bool identity = true;
    for (int i = 0; i < rank; i++) {
        int axis = rank - 1 - i;
        if (permutation && !weft_ops_axis(g, permutation[i], rank, &axis)) return weft_value_poison(g);
        full[i] = axis;
        identity = identity && axis == i;
    }
    if (identity) return x;
    weft_attribute attribute = weft_attr_ints(WEFT_ATTR_permutation, rank, full);
    return weft_build(g, WEFT_OP_transpose, 1, &x, 1, &attribute);
}

weft_value *weft_broadcast(weft_graph *g, weft_value *x, int rank, const weft_dim *shape, const int64_t *axes) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_given(g, shape, rank, "the shape") || !weft_ops_given(g, axes, x->type.rank, "the list of axes"))
        return weft_value_poison(g);
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, rank, shape),
                                    weft_attr_ints(WEFT_ATTR_axes, x->type.rank, axes)};
    return weft_build(g, WEFT_OP_broadcast, 1, &x, 2, attributes);
}

weft_value *weft_broadcast_to(weft_graph *g, weft_value *x, int rank, const weft_dim *shape) {
    if (weft_ops_absent(g, &x)) return x;
    if (rank < x->type.rank || rank > WEFT_MAX_RANK) {
        weft_graph_problem(g, "cannot broadcast rank %d to rank %d", x->type.rank, rank);
        return weft_value_poison(g);
    }
    if (!weft_ops_given(g, shape, rank, "the shape")) return weft_value_poison(g);
    bool same = rank == x->type.rank;
    for (int i = 0; same && i < rank; i++) same = shape[i] == x->type.dims[i];
    if (same) return x;
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) axes[i] = i + rank - x->type.rank;
    return weft_broadcast(g, x, rank, shape, axes);
}

weft_value *weft_squeeze(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_given(g, axes, axis_count, "the list of axes")) return weft_value_poison(g);
    bool drop[WEFT_MAX_RANK] = {false};
    for (int i = 0; i < x->type.rank; i++) drop[i] = axis_count == 0 && x->type.dims[i] == 1;
    for (int i = 0; i < axis_count; i++) {
        int axis;
        if (!weft_ops_axis(g, axes[i], x->type.rank, &axis)) return weft_value_poison(g);
        if (weft_dim_is_number(x->type.dims[axis]) && x->type.dims[axis] != 1) {
            weft_graph_problem(g, "squeeze of axis %d, whose extent is %lld", axis, (long long)x->type.dims[axis]);
            return weft_value_poison(g);
        }
        drop[axis] = true;
    }
    weft_dim shape[WEFT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->type.rank; i++)
        if (!drop[i]) shape[rank++] = x->type.dims[i];
    return weft_reshape(g, x, rank, shape);
}

weft_value *weft_unsqueeze(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes) {
    if (weft_ops_absent(g, &x)) return x;
    int rank = x->type.rank + axis_count;
    bool one[WEFT_MAX_RANK] = {false};
    if (!weft_ops_given(g, axes, axis_count, "the list of axes")) return weft_value_poison(g);
    if (rank > WEFT_MAX_RANK) {
        weft_graph_problem(g, "rank %d is above %d", rank, WEFT_MAX_RANK);
        return weft_value_poison(g);
    }
    for (int i = 0; i < axis_count; i++) {
        int axis;
        if (!weft_ops_axis(g, axes[i], rank, &axis)) return weft_value_poison(g);
        if (one[axis]) {
            weft_graph_problem(g, "axis %d appears twice", axis);
            return weft_value_poison(g);
        }
        one[axis] = true;
    }
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0, from = 0; i < rank; i++) shape[i] = one[i] ? 1 : x->type.dims[from++];
    return weft_reshape(g, x, rank, shape);
}

weft_value *weft_flatten(weft_graph *g, weft_value *x, int axis) {
    if (weft_ops_absent(g, &x)) return x;
    int rank = x->type.rank;
    if (axis < -rank || axis > rank) {
        weft_graph_problem(g, "flatten at axis %d of rank %d", axis, rank);
        return weft_value_poison(g);
    }
    if (axis < 0) axis += rank;
    weft_dim shape[2] = {1, 1};
    for (int i = 0; i < rank; i++) {
        weft_dim *side = &shape[i < axis ? 0 : 1];
        *side = weft_dim_multiply(g->dims, *side, x->type.dims[i]);
    }
    return weft_reshape(g, x, 2, shape);
}

weft_value *weft_slice(weft_graph *g, weft_value *x, const weft_dim *start, const weft_dim *limit,
                       const int64_t *stride) {
    if (weft_ops_absent(g, &x)) return x;
    int rank = x->type.rank;
    if (!weft_ops_given(g, start, rank, "the start") || !weft_ops_given(g, limit, rank, "the limit"))
        return weft_value_poison(g);
    int64_t ones[WEFT_MAX_RANK];
    bool whole = true;
    for (int i = 0; i < rank; i++) {
        ones[i] = 1;
        whole = whole && start[i] == 0 && limit[i] == x->type.dims[i] && (!stride || stride[i] == 1);
    }
    if (whole) return x;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_start, rank, start),
                                    weft_attr_dims(WEFT_ATTR_limit, rank, limit),
                                    weft_attr_ints(WEFT_ATTR_stride, rank, stride ? stride : ones)};
    return weft_build(g, WEFT_OP_slice, 1, &x, 3, attributes);
}

weft_value *weft_slice_axis(weft_graph *g, weft_value *x, int axis, weft_dim start, weft_dim limit) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    weft_dim starts[WEFT_MAX_RANK] = {0}, limits[WEFT_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) limits[i] = x->type.dims[i];
    starts[axis] = start;
    limits[axis] = limit;
    return weft_slice(g, x, starts, limits, NULL);
}

weft_value *weft_reverse(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes) {
    if (weft_ops_absent(g, &x) || axis_count == 0) return x;
    int64_t full[WEFT_MAX_RANK];
    int count;
    if (!weft_ops_axes(g, axis_count, axes, x->type.rank, &count, full)) return weft_value_poison(g);
    weft_attribute attribute = weft_attr_ints(WEFT_ATTR_axes, count, full);
    return weft_build(g, WEFT_OP_reverse, 1, &x, 1, &attribute);
}

weft_value *weft_pad(weft_graph *g, weft_value *x, weft_value *fill, const weft_dim *low, const weft_dim *high,
                     const int64_t *interior) {
    weft_value *operands[2] = {x, fill};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    int rank = x->type.rank;
    if (!weft_ops_given(g, low, rank, "the padding") || !weft_ops_given(g, high, rank, "the padding"))
        return weft_value_poison(g);
    int64_t zeros[WEFT_MAX_RANK] = {0};
    bool none = true;
    for (int i = 0; i < rank; i++) none = none && low[i] == 0 && high[i] == 0 && (!interior || interior[i] == 0);
    if (none) return x;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, rank, low),
                                    weft_attr_dims(WEFT_ATTR_high, rank, high),
                                    weft_attr_ints(WEFT_ATTR_interior, rank, interior ? interior : zeros)};
    return weft_build(g, WEFT_OP_pad, 2, operands, 3, attributes);
}

weft_value *weft_concat(weft_graph *g, int axis, int count, weft_value *const *values) {
    if (count < 1) {
        weft_graph_problem(g, "concat of nothing");
        return weft_value_poison(g);
    }
    if (weft_ops_absent_any(g, values, count)) return weft_value_poison(g);
    if (!weft_ops_axis(g, axis, values[0]->type.rank, &axis)) return weft_value_poison(g);
    if (count == 1) return values[0];
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_axis, axis);
    return weft_build(g, WEFT_OP_concat, count, values, 1, &attribute);
}

weft_value *weft_stack(weft_graph *g, int axis, int count, weft_value *const *values) {
    if (count < 1) {
        weft_graph_problem(g, "stack of nothing");
        return weft_value_poison(g);
    }
    if (weft_ops_absent_any(g, values, count)) return weft_value_poison(g);
    if (!weft_ops_axis(g, axis, values[0]->type.rank + 1, &axis)) return weft_value_poison(g);
    weft_value **parts = weft_arena_allocate_array(&g->arena, (size_t)count, sizeof *parts);
    if (!parts) {
        g->out_of_memory = true;
        return weft_value_poison(g);
    }
    int64_t at = axis;
    for (int i = 0; i < count; i++) parts[i] = weft_unsqueeze(g, values[i], 1, &at);
    return weft_concat(g, axis, count, parts);
}

weft_value *weft_dynamic_slice(weft_graph *g, weft_value *x, weft_value *const *starts, const weft_dim *sizes) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_given(g, starts, x->type.rank, "the list of starts") ||
        !weft_ops_given(g, sizes, x->type.rank, "the list of sizes"))
        return weft_value_poison(g);
    weft_value *operands[WEFT_MAX_RANK + 1] = {x};
    for (int i = 0; i < x->type.rank; i++) operands[i + 1] = starts[i];
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_sizes, x->type.rank, sizes);
    return weft_build(g, WEFT_OP_dynamic_slice, x->type.rank + 1, operands, 1, &attribute);
}

weft_value *weft_dynamic_update_slice(weft_graph *g, weft_value *x, weft_value *update, weft_value *const *starts) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_given(g, starts, x->type.rank, "the list of starts")) return weft_value_poison(g);
    weft_value *operands[WEFT_MAX_RANK + 2] = {x, update};
    for (int i = 0; i < x->type.rank; i++) operands[i + 2] = starts[i];
    return weft_build(g, WEFT_OP_dynamic_update_slice, x->type.rank + 2, operands, 0, NULL);
}

weft_value *weft_triangle(weft_graph *g, weft_value *x, bool upper, weft_value *diagonal) {
    weft_value *operands[2] = {x, diagonal};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    int rank = x->type.rank;
    if (rank < 2) {
        weft_graph_problem(g, "a triangle of rank %d", rank);
        return weft_value_poison(g);
    }
    const weft_dim *matrix = x->type.dims + rank - 2;
    weft_value *row = weft_iota(g, WEFT_I64, 2, matrix, 0), *column = weft_iota(g, WEFT_I64, 2, matrix, 1);
    weft_value *offset = weft_sub(g, column, row);
    weft_value *keep = weft_compare(g, upper ? WEFT_GE : WEFT_LE, offset, diagonal);
    return weft_where(g, keep, x, weft_scalar(g, x->type.dtype, 0));
}
