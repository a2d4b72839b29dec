/* Result types of products: dot_general and convolution. */
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
