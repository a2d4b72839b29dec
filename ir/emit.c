/* The constructors of emit.h. */
#include "ir/emit.h"

#include <string.h>

#include "base/tensor.h"

weft_value *weft_emit_unary(weft_graph *graph, weft_op op, weft_value *x) {
    return weft_build(graph, op, 1, &x, 0, NULL);
}

weft_value *weft_emit_binary(weft_graph *graph, weft_op op, weft_value *x, weft_value *y) {
    weft_value *operands[2] = {x, y};
    return weft_build(graph, op, 2, operands, 0, NULL);
}

weft_value *weft_emit_compare(weft_graph *graph, const char *direction, weft_value *x, weft_value *y) {
    weft_value *operands[2] = {x, y};
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_direction, direction);
    return weft_build(graph, WEFT_OP_compare, 2, operands, 1, &attribute);
}

weft_value *weft_emit_select(weft_graph *graph, weft_value *predicate, weft_value *yes, weft_value *no) {
    weft_value *operands[3] = {predicate, yes, no};
    return weft_build(graph, WEFT_OP_select, 3, operands, 0, NULL);
}

weft_value *weft_emit_convert(weft_graph *graph, weft_value *x, weft_dtype dtype) {
    if (x->type.dtype == dtype || weft_value_is_poison(x)) return x;
    weft_attribute attribute = weft_attr_dtype(WEFT_ATTR_dtype, dtype);
    return weft_build(graph, WEFT_OP_convert, 1, &x, 1, &attribute);
}

weft_value *weft_emit_scalar(weft_graph *graph, weft_dtype dtype, double value) {
    weft_tensor *tensor;
    weft_status status = weft_tensor_create(graph->context, dtype, 0, NULL, &tensor);
    if (status) {
        if (weft_status_code(status) == WEFT_OUT_OF_MEMORY)
            graph->out_of_memory = true;
        else
            weft_graph_problem(graph, "scalar of %s: %s", weft_dtype_name(dtype), weft_status_message(status));
        weft_status_release(status);
        return weft_value_poison(graph);
    }
    if (dtype == WEFT_C64)
        ((float *)tensor->data)[0] = (float)value;
    else if (dtype == WEFT_C128)
        ((double *)tensor->data)[0] = value;
    else if (weft_dtype_is_float(dtype))
        weft_element_set_double(dtype, tensor->data, 0, value);
    else
        weft_element_set_i64(dtype, tensor->data, 0, (int64_t)value);
    weft_value *constant = weft_graph_constant(graph, tensor);
    weft_tensor_release(tensor);
    return constant;
}

weft_value *weft_emit_splat(weft_graph *graph, weft_dtype dtype, double value, int rank, const weft_dim *dims) {
    return weft_emit_broadcast(graph, weft_emit_scalar(graph, dtype, value), rank, dims, NULL);
}

weft_value *weft_emit_splat_like(weft_graph *graph, double value, const weft_value *like) {
    if (weft_value_is_poison(like)) return weft_value_poison(graph);
    return weft_emit_splat(graph, like->type.dtype, value, like->type.rank, like->type.dims);
}

weft_value *weft_emit_binary_scalar(weft_graph *graph, weft_op op, weft_value *x, double value) {
    return weft_emit_binary(graph, op, x, weft_emit_splat_like(graph, value, x));
}

weft_value *weft_emit_extent(weft_graph *graph, weft_dim extent, weft_dtype dtype) {
    if (weft_dim_is_number(extent)) return weft_emit_scalar(graph, dtype, (double)extent);
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_extent, 1, &extent);
    return weft_emit_convert(graph, weft_build(graph, WEFT_OP_dim, 0, NULL, 1, &attribute), dtype);
}

/* The identity is no node. */
static bool same_shape(const weft_value *x, int rank, const weft_dim *dims) {
    if (x->type.rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (x->type.dims[i] != dims[i]) return false;
    return true;
}

weft_value *weft_emit_broadcast(weft_graph *graph, weft_value *x, int rank, const weft_dim *dims, const int64_t *axes) {
    if (rank > 0 && !dims) return weft_value_poison(graph); /* the shape of a poisoned value */
    if (weft_value_is_poison(x) || same_shape(x, rank, dims)) return x;
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, rank, dims),
                                    weft_attr_ints(WEFT_ATTR_axes, x->type.rank, axes)};
    return weft_build(graph, WEFT_OP_broadcast, 1, &x, 2, attributes);
}

weft_value *weft_emit_broadcast_to(weft_graph *graph, weft_value *x, int rank, const weft_dim *dims) {
    if (weft_value_is_poison(x)) return x;
    if (x->type.rank > rank) {
        weft_graph_problem(graph, "a value of rank %d does not broadcast to rank %d", x->type.rank, rank);
        return weft_value_poison(graph);
    }
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) axes[i] = rank - x->type.rank + i;
    return weft_emit_broadcast(graph, x, rank, dims, axes);
}

weft_value *weft_emit_reshape(weft_graph *graph, weft_value *x, int rank, const weft_dim *dims) {
    if (rank > 0 && !dims) return weft_value_poison(graph);
    if (weft_value_is_poison(x) || same_shape(x, rank, dims)) return x;
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_shape, rank, dims);
    return weft_build(graph, WEFT_OP_reshape, 1, &x, 1, &attribute);
}

weft_value *weft_emit_transpose(weft_graph *graph, weft_value *x, const int64_t *permutation) {
    bool identity = true;
    for (int i = 0; i < x->type.rank; i++) identity &= permutation[i] == i;
    if (identity) return x;
    weft_attribute attribute = weft_attr_ints(WEFT_ATTR_permutation, x->type.rank, permutation);
    return weft_build(graph, WEFT_OP_transpose, 1, &x, 1, &attribute);
}

weft_value *weft_emit_reduce(weft_graph *graph, weft_value *x, const char *kind, int axis_count, const int64_t *axes) {
    if (axis_count == 0) return x;
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_axes, axis_count, axes),
                                    weft_attr_string(WEFT_ATTR_kind, kind)};
    return weft_build(graph, WEFT_OP_reduce, 1, &x, 2, attributes);
}

weft_value *weft_emit_spread(weft_graph *graph, weft_value *x, const weft_value *like, int axis_count,
                             const int64_t *axes) {
    if (weft_value_is_poison(like)) return weft_value_poison(graph);
    int64_t kept[WEFT_MAX_RANK];
    int count = 0;
    for (int i = 0; i < like->type.rank; i++) {
        bool reduced = false;
        for (int a = 0; a < axis_count; a++) reduced |= axes[a] == i;
        if (!reduced) kept[count++] = i;
    }
    return weft_emit_broadcast(graph, x, like->type.rank, like->type.dims, kept);
}

weft_value *weft_emit_iota(weft_graph *graph, weft_dtype dtype, int rank, const weft_dim *dims, int axis) {
    if (rank > 0 && !dims) return weft_value_poison(graph);
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_shape, rank, dims), weft_attr_int(WEFT_ATTR_axis, axis),
                                    weft_attr_dtype(WEFT_ATTR_dtype, dtype)};
    return weft_build(graph, WEFT_OP_iota, 0, NULL, 3, attributes);
}

weft_value *weft_emit_slice_axis(weft_graph *graph, weft_value *x, int axis, weft_dim start, weft_dim limit,
                                 int64_t stride) {
    weft_dim starts[WEFT_MAX_RANK] = {0}, limits[WEFT_MAX_RANK];
    int64_t strides[WEFT_MAX_RANK];
    int rank = x->type.rank;
    for (int i = 0; i < rank; i++) {
        starts[i] = i == axis ? start : 0;
        limits[i] = i == axis ? limit : x->type.dims[i];
        strides[i] = i == axis ? stride : 1;
    }
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_start, rank, starts),
                                    weft_attr_dims(WEFT_ATTR_limit, rank, limits),
                                    weft_attr_ints(WEFT_ATTR_stride, rank, strides)};
    return weft_build(graph, WEFT_OP_slice, 1, &x, 3, attributes);
}

weft_value *weft_emit_concat(weft_graph *graph, int axis, int count, weft_value *const *values) {
    if (count == 1) return values[0];
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_axis, axis);
    return weft_build(graph, WEFT_OP_concat, count, values, 1, &attribute);
}

weft_value *weft_emit_dot(weft_graph *graph, weft_value *lhs, weft_value *rhs, const weft_dot_axes *axes,
                          weft_dtype dtype, weft_dtype accumulate) {
    weft_value *operands[2] = {lhs, rhs};
    weft_attribute attributes[6] = {
        weft_attr_ints(WEFT_ATTR_lhs_batch, axes->batch_count, axes->lhs_batch),
        weft_attr_ints(WEFT_ATTR_rhs_batch, axes->batch_count, axes->rhs_batch),
        weft_attr_ints(WEFT_ATTR_lhs_contract, axes->contract_count, axes->lhs_contract),
        weft_attr_ints(WEFT_ATTR_rhs_contract, axes->contract_count, axes->rhs_contract),
        weft_attr_dtype(WEFT_ATTR_dtype, dtype),
        weft_attr_dtype(WEFT_ATTR_accumulate, accumulate),
    };
    return weft_build(graph, WEFT_OP_dot_general, 2, operands, accumulate == WEFT_INVALID ? 5 : 6, attributes);
}
