/* Result types of products: dot_general, ragged_dot, scaled_dot and convolution. */
#include "ir/infer/check.h"

#include <stdio.h>

/* Dtypes that may be multiplied: equal ones, two integers, two floats of 8 bits or fewer. */
static bool product_dtypes(weft_infer *infer) {
    weft_dtype a = weft_infer_operand(infer, 0)->dtype, b = weft_infer_operand(infer, 1)->dtype;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_NUMBER | WEFT_ALLOW_COMPLEX)) return false;
    bool integers = weft_dtype_is_integer(a) && weft_dtype_is_integer(b);
    bool narrow =
        weft_dtype_is_float(a) && weft_dtype_is_float(b) && weft_dtype_bits(a) <= 8 && weft_dtype_bits(b) <= 8;
    if (a != b && !integers && !narrow)
        return weft_infer_fail(infer, "%s times %s is not defined; convert one", weft_dtype_name(a),
                               weft_dtype_name(b));
    weft_dtype result = weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype;
    weft_dtype sum = weft_node_dtype(infer->node, WEFT_ATTR_accumulate, result);
    int kind = weft_dtype_allowed(a, WEFT_ALLOW_INTEGER) ? WEFT_ALLOW_NUMBER
               : weft_dtype_allowed(a, WEFT_ALLOW_FLOAT) ? WEFT_ALLOW_FLOAT
                                                         : WEFT_ALLOW_COMPLEX;
    if (!weft_dtype_allowed(result, kind) || !weft_dtype_allowed(sum, kind))
        return weft_infer_fail(infer, "%s times %s cannot give %s accumulated in %s", weft_dtype_name(a),
                               weft_dtype_name(b), weft_dtype_name(result), weft_dtype_name(sum));
    return true;
}

/* Paired axes have equal extents; marks them as taken. */
static bool pair_axes(weft_infer *infer, weft_attribute_name left, weft_attribute_name right, unsigned *taken) {
    const weft_type *lhs = weft_infer_operand(infer, 0), *rhs = weft_infer_operand(infer, 1);
    const weft_attribute *a = weft_infer_attribute(infer, left), *b = weft_infer_attribute(infer, right);
    if (!weft_infer_axes(infer, left, lhs->rank, false) || !weft_infer_axes(infer, right, rhs->rank, false) ||
        !weft_infer_count(infer, right, a->count))
        return false;
    for (int i = 0; i < a->count; i++) {
        int64_t x = a->as.ints[i], y = b->as.ints[i];
        if (!weft_graph_assume_equal(infer->graph, lhs->dims[x], rhs->dims[y]))
            return weft_infer_fail(infer, "axis %lld of %s and axis %lld of %s differ", (long long)x,
                                   weft_infer_type_text(infer, lhs), (long long)y, weft_infer_type_text(infer, rhs));
        if ((taken[0] & (1u << x)) || (taken[1] & (1u << y)))
            return weft_infer_fail(infer, "an axis is both batch and contracted");
        taken[0] |= 1u << x;
        taken[1] |= 1u << y;
    }
    return true;
}

bool weft_infer_dot_general(weft_infer *infer) {
    unsigned taken[2] = {0, 0};
    if (!product_dtypes(infer) || !pair_axes(infer, WEFT_ATTR_lhs_batch, WEFT_ATTR_rhs_batch, taken) ||
        !pair_axes(infer, WEFT_ATTR_lhs_contract, WEFT_ATTR_rhs_contract, taken))
        return false;
    const weft_attribute *batch = weft_infer_attribute(infer, WEFT_ATTR_lhs_batch);
    const weft_type *lhs = weft_infer_operand(infer, 0);
    weft_dim dims[3 * WEFT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < batch->count; i++) dims[rank++] = lhs->dims[batch->as.ints[i]];
    for (int side = 0; side < 2; side++) {
        const weft_type *x = weft_infer_operand(infer, side);
        for (int i = 0; i < x->rank; i++)
            if (!(taken[side] & (1u << i))) dims[rank++] = x->dims[i];
    }
    return weft_infer_emit(infer, weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype, rank, dims);
}

/* Operand 1 where the rhs has an axis of groups: extents that rows, columns and groups must agree in. */
static bool ragged_extents(weft_infer *infer, int64_t contract, weft_dim groups) {
    const weft_type *x = weft_infer_operand(infer, 0), *w = weft_infer_operand(infer, 1);
    if (!weft_graph_assume_equal(infer->graph, w->dims[contract], x->dims[contract ? 1 : 0]))
        return weft_infer_fail(infer, "axis %d of %s and axis %lld of %s differ", contract ? 1 : 0,
                               weft_infer_type_text(infer, x), (long long)contract, weft_infer_type_text(infer, w));
    if (contract && !weft_graph_assume_equal(infer->graph, w->dims[0], groups))
        return weft_infer_fail(infer, "%s has not a matrix for each of %s groups", weft_infer_type_text(infer, w),
                               weft_infer_dim_text(infer, groups));
    return true;
}

bool weft_infer_ragged_dot(weft_infer *infer) {
    const weft_attribute *axis = weft_infer_attribute(infer, WEFT_ATTR_rhs_contract);
    if (!product_dtypes(infer) || !weft_infer_dtype(infer, 0, WEFT_ALLOW_NUMBER) || !weft_infer_rank(infer, 0, 2, 2) ||
        !weft_infer_dtype(infer, 2, WEFT_ALLOW_INTEGER) || !weft_infer_rank(infer, 2, 1, 1))
        return false;
    const weft_type *x = weft_infer_operand(infer, 0), *w = weft_infer_operand(infer, 1),
                    *offsets = weft_infer_operand(infer, 2);
    if (offsets->dtype != WEFT_I32 && offsets->dtype != WEFT_I64)
        return weft_infer_fail(infer, "offsets %s must be i32 or i64", weft_infer_type_text(infer, offsets));
    int64_t contract = axis->count == 1 ? axis->as.ints[0] : -1;
    if (contract < 0 || contract > 2) return weft_infer_fail(infer, "rhs_contract must be one axis, 0, 1 or 2");
    if (!weft_infer_rank(infer, 1, contract ? 3 : 2, contract ? 3 : 2)) return false;
    weft_dim groups = weft_dim_subtract(infer->graph->dims, offsets->dims[0], 1);
    if (!weft_graph_assume_at_most(infer->graph, 0, groups))
        return weft_infer_fail(infer, "offsets %s need a first and a last entry", weft_infer_type_text(infer, offsets));
    if (!ragged_extents(infer, contract, groups)) return false;
    weft_dim by_row[2] = {x->dims[0], contract ? w->dims[3 - contract] : 1},
             by_group[3] = {groups, x->dims[1], w->dims[1]};
    return weft_infer_emit(infer, weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype, contract ? 2 : 3,
                           contract ? by_row : by_group);
}

/* Operand 2 + side holds one scale for each block of operand `side`; leading axes agree. */
static bool block_scales(weft_infer *infer, int side) {
    const weft_type *x = weft_infer_operand(infer, side), *scale = weft_infer_operand(infer, 2 + side);
    const int64_t *block = weft_infer_attribute(infer, WEFT_ATTR_block)->as.ints;
    weft_dim_table *dims = infer->graph->dims;
    bool equal = weft_infer_rank(infer, 2 + side, x->rank, x->rank);
    for (int i = 0; equal && i < x->rank; i++) {
        int64_t size = i == x->rank - 1 ? block[2] : i == x->rank - 2 ? block[side] : 1;
        equal = weft_graph_assume_equal(infer->graph, scale->dims[i], weft_dim_divide_ceil(dims, x->dims[i], size));
    }
    if (equal) return true;
    return weft_infer_fail(infer, "%s is not one scale for each block of %s", weft_infer_type_text(infer, scale),
                           weft_infer_type_text(infer, x));
}

bool weft_infer_scaled_dot(weft_infer *infer) {
    const weft_type *a = weft_infer_operand(infer, 0), *b = weft_infer_operand(infer, 1);
    if (!weft_infer_ints(infer, WEFT_ATTR_block, 3, 1) || !weft_infer_rank(infer, 0, 2, WEFT_MAX_RANK - 2) ||
        !weft_infer_rank(infer, 1, a->rank, a->rank))
        return false;
    for (int i = 0; i < 4; i++) {
        if (!weft_infer_dtype(infer, i, WEFT_ALLOW_FLOAT)) return false;
        if (weft_dtype_bits(weft_infer_operand(infer, i)->dtype) > 32)
            return weft_infer_fail(infer, "%s is wider than its sums in f32",
                                   weft_infer_type_text(infer, weft_infer_operand(infer, i)));
    }
    for (int i = 0; i < a->rank; i++)
        if (i != a->rank - 2 && !weft_graph_assume_equal(infer->graph, a->dims[i], b->dims[i]))
            return weft_infer_fail(infer, "axis %d of %s and of %s differ", i, weft_infer_type_text(infer, a),
                                   weft_infer_type_text(infer, b));
    weft_dtype dtype = weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype;
    if (!weft_dtype_is_float(dtype)) return weft_infer_fail(infer, "a result of %s", weft_dtype_name(dtype));
    if (!block_scales(infer, 0) || !block_scales(infer, 1)) return false;
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < a->rank - 1; i++) dims[i] = a->dims[i];
    dims[a->rank - 1] = b->dims[b->rank - 2];
    return weft_infer_emit(infer, dtype, a->rank, dims);
}

static bool convolution_attributes(weft_infer *infer, int spatial) {
    return weft_infer_ints(infer, WEFT_ATTR_stride, spatial, 1) && weft_infer_count(infer, WEFT_ATTR_low, spatial) &&
           weft_infer_count(infer, WEFT_ATTR_high, spatial) && weft_infer_ints(infer, WEFT_ATTR_dilation, spatial, 1) &&
           weft_infer_ints(infer, WEFT_ATTR_base_dilation, spatial, 1);
}

/* Channels: C = groups * (C / groups of the weights), and the output channels divide into groups. */
static bool convolution_channels(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *w = weft_infer_operand(infer, 1);
    weft_dim_table *dims = infer->graph->dims;
    int64_t groups = weft_infer_attribute(infer, WEFT_ATTR_groups)->as.integer;
    if (groups < 1) return weft_infer_fail(infer, "groups %lld", (long long)groups);
    if (!weft_graph_assume_equal(infer->graph, x->dims[1], weft_dim_multiply(dims, w->dims[1], groups)))
        return weft_infer_fail(infer, "%s has %s channels, %s with %lld groups needs %s",
                               weft_infer_type_text(infer, x), weft_infer_dim_text(infer, x->dims[1]),
                               weft_infer_type_text(infer, w), (long long)groups,
                               weft_infer_dim_text(infer, weft_dim_multiply(dims, w->dims[1], groups)));
    if (!weft_graph_assume_equal(infer->graph, weft_dim_modulo(dims, w->dims[0], groups), 0))
        return weft_infer_fail(infer, "%s output channels do not divide into %lld groups",
                               weft_infer_dim_text(infer, w->dims[0]), (long long)groups);
    return true;
}

bool weft_infer_convolution(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0), *w = weft_infer_operand(infer, 1);
    if (!product_dtypes(infer) || !weft_infer_rank(infer, 0, 2, WEFT_MAX_RANK) ||
        !weft_infer_rank(infer, 1, x->rank, x->rank))
        return false;
    int spatial = x->rank - 2;
    if (!convolution_attributes(infer, spatial) || !convolution_channels(infer)) return false;
    weft_dim dims[WEFT_MAX_RANK] = {x->dims[0], w->dims[0]};
    for (int i = 0; i < spatial; i++) {
        if (!weft_dim_is_number(w->dims[i + 2]) || w->dims[i + 2] == 0)
            return weft_infer_fail(infer, "axis %d of the weights %s must be a positive number", i + 2,
                                   weft_infer_type_text(infer, w));
        weft_window_axis axis = {
            .extent = x->dims[i + 2],
            .low = weft_infer_attribute(infer, WEFT_ATTR_low)->as.dims[i],
            .high = weft_infer_attribute(infer, WEFT_ATTR_high)->as.dims[i],
            .window = w->dims[i + 2],
            .stride = weft_infer_attribute(infer, WEFT_ATTR_stride)->as.ints[i],
            .dilation = weft_infer_attribute(infer, WEFT_ATTR_dilation)->as.ints[i],
            .base_dilation = weft_infer_attribute(infer, WEFT_ATTR_base_dilation)->as.ints[i],
        };
        dims[i + 2] = weft_window_extent(infer->graph, &axis);
    }
    return weft_infer_emit(infer, weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype, x->rank, dims);
}
