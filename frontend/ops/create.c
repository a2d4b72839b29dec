/* Values from nothing: scalars, filled tensors, iota, extents, random numbers, states. Read next: elementwise.c. */
#include <math.h>

#include "frontend/ops/common.h"

/* The graph keeps the tensor; the local reference is dropped on every path. */
static weft_value *constant_of(weft_graph *g, weft_status status, weft_tensor *tensor) {
    if (status) {
        weft_graph_report(g, status);
        return weft_value_poison(g);
    }
    weft_value *value = weft_graph_constant(g, tensor);
    weft_tensor_release(tensor);
    return value;
}

weft_value *weft_scalar(weft_graph *g, weft_dtype dtype, double value) {
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create(g->context, dtype, 0, NULL, &tensor);
    if (!status) {
        if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) {
            if (dtype == WEFT_C64)
                ((float *)weft_tensor_data(tensor))[0] = (float)value;
            else
                ((double *)weft_tensor_data(tensor))[0] = value;
        } else if (weft_dtype_is_float(dtype))
            weft_element_set_double(dtype, weft_tensor_data(tensor), 0, value);
        else
            weft_element_set_i64(dtype, weft_tensor_data(tensor), 0, (int64_t)value);
    }
    return constant_of(g, status, tensor);
}

weft_value *weft_scalar_integer(weft_graph *g, weft_dtype dtype, int64_t value) {
    if (!weft_dtype_is_integer(dtype) && dtype != WEFT_BOOL) return weft_scalar(g, dtype, (double)value);
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create(g->context, dtype, 0, NULL, &tensor);
    if (!status) weft_element_set_i64(dtype, weft_tensor_data(tensor), 0, value);
    return constant_of(g, status, tensor);
}

weft_value *weft_full(weft_graph *g, weft_dtype dtype, int rank, const weft_dim *shape, double value) {
    return weft_broadcast_to(g, weft_scalar(g, dtype, value), rank, shape);
}

weft_value *weft_integers(weft_graph *g, int count, const int64_t *values) {
    weft_tensor *tensor = NULL;
    int64_t shape[1] = {count};
    weft_status status = weft_tensor_create_copy(g->context, WEFT_I64, 1, shape, values, &tensor);
    return constant_of(g, status, tensor);
}

weft_value *weft_iota(weft_graph *g, weft_dtype dtype, int rank, const weft_dim *shape, int axis) {
    if (!weft_ops_given(g, shape, rank, "the shape")) return weft_value_poison(g);
    if (!weft_ops_axis(g, axis, rank, &axis)) return weft_value_poison(g);
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_shape, rank, shape), weft_attr_int(WEFT_ATTR_axis, axis),
                                    weft_attr_dtype(WEFT_ATTR_dtype, dtype)};
    return weft_build(g, WEFT_OP_iota, 0, NULL, 3, attributes);
}

weft_value *weft_extent(weft_graph *g, weft_dim extent) {
    if (weft_dim_is_number(extent)) return weft_scalar_integer(g, WEFT_I64, extent);
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_extent, 1, &extent);
    return weft_build(g, WEFT_OP_dim, 0, NULL, 1, &attribute);
}

weft_value *weft_rng_bits(weft_graph *g, weft_value *key, weft_dtype dtype, int rank, const weft_dim *shape) {
    if (!weft_ops_given(g, shape, rank, "the shape")) return weft_value_poison(g);
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, rank, shape),
                                    weft_attr_dtype(WEFT_ATTR_dtype, dtype)};
    return weft_build(g, WEFT_OP_rng_bits, 1, &key, 2, attributes);
}

/* Uniform in [0, 1) in f32 (24 bits) or f64 (53 bits). */
static weft_value *unit_uniform(weft_graph *g, weft_value *key, weft_dtype compute, int rank, const weft_dim *shape) {
    weft_dtype bits = compute == WEFT_F64 ? WEFT_U64 : WEFT_U32;
    weft_value *raw = weft_rng_bits(g, key, bits, rank, shape);
    weft_value *top = weft_shift_right_logical(g, raw, weft_scalar_integer(g, bits, compute == WEFT_F64 ? 11 : 8));
    return weft_mul_number(g, weft_convert(g, top, compute), compute == WEFT_F64 ? 0x1p-53 : 0x1p-24);
}

weft_value *weft_random_uniform(weft_graph *g, weft_value *key, weft_dtype dtype, int rank, const weft_dim *shape,
                                double low, double high) {
    weft_dtype compute = weft_ops_compute_dtype(dtype);
    weft_value *unit = unit_uniform(g, key, compute, rank, shape);
    return weft_convert(g, weft_add_number(g, weft_mul_number(g, unit, high - low), low), dtype);
}

weft_value *weft_random_normal(weft_graph *g, weft_value *key, weft_dtype dtype, int rank, const weft_dim *shape,
                               double mean, double deviation) {
    /* two uniforms of one key: the shape gains a leading axis of 2 */
    if (rank + 1 > WEFT_MAX_RANK) {
        weft_graph_problem(g, "random numbers of rank %d", rank);
        return weft_value_poison(g);
    }
    if (!weft_ops_given(g, shape, rank, "the shape")) return weft_value_poison(g);
    weft_dtype compute = weft_ops_compute_dtype(dtype);
    weft_dim pair[WEFT_MAX_RANK] = {2};
    for (int i = 0; i < rank; i++) pair[i + 1] = shape[i];
    weft_value *unit = unit_uniform(g, key, compute, rank + 1, pair);
    int64_t first = 0;
    weft_value *a = weft_squeeze(g, weft_slice_axis(g, unit, 0, 0, 1), 1, &first);
    weft_value *b = weft_squeeze(g, weft_slice_axis(g, unit, 0, 1, 2), 1, &first);
    /* 1 - u lies in (0, 1]: the logarithm is finite */
    weft_value *log_u = weft_log(g, weft_sub(g, weft_scalar(g, compute, 1), a));
    weft_value *radius = weft_sqrt(g, weft_mul_number(g, log_u, -2));
    weft_value *normal = weft_mul(g, radius, weft_cos(g, weft_mul_number(g, b, 6.283185307179586)));
    return weft_convert(g, weft_add_number(g, weft_mul_number(g, normal, deviation), mean), dtype);
}

weft_value *weft_state_read(weft_graph *g, const char *name) {
    if (!weft_ops_given(g, name, 1, "the state's name")) return weft_value_poison(g);
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_name, name);
    return weft_build(g, WEFT_OP_state_read, 0, NULL, 1, &attribute);
}

void weft_state_update(weft_graph *g, const char *name, weft_value *value) {
    if (!weft_ops_given(g, name, 1, "the state's name")) return;
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_name, name);
    (void)weft_node_create(g, WEFT_OP_state_update, 1, &value, 1, &attribute, 0, NULL);
}
