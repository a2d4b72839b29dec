/* ONNX quantisation. Scales are per tensor, per axis or per block of an axis. Read next: recurrent.c. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "frontend/onnx/import.h"

static bool integer_range(weft_dtype dtype, double *low, double *high) {
    int bits = weft_dtype_bits(dtype);
    bool is_signed = weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED;
    if (!weft_dtype_is_integer(dtype) || bits > 16) return false;
    *low = is_signed ? -ldexp(1, bits - 1) : 0;
    *high = is_signed ? ldexp(1, bits - 1) - 1 : ldexp(1, bits) - 1;
    return true;
}

/* round(x) + zero point, saturated to the zero point's type. x is f32. */
weft_value *weft_onnx_requantize(weft_graph *g, weft_value *x, weft_value *zero) {
    double low, high;
    if (weft_value_is_poison(x) || weft_value_is_poison(zero)) return weft_value_poison(g);
    weft_dtype dtype = zero->type.dtype;
    if (!integer_range(dtype, &low, &high)) /* 8-bit floats: a zero point is zero */
        return weft_convert_saturate(g, weft_add(g, x, weft_convert(g, zero, x->type.dtype)), dtype);
    if (zero->type.rank == 1 && zero->type.dims[0] == 1) zero = weft_reshape(g, zero, 0, NULL);
    weft_value *shifted = weft_add(g, weft_round(g, x), weft_convert(g, zero, x->type.dtype));
    return weft_convert(g, weft_clip(g, shifted, low, high), dtype);
}

/* A scale or zero point fitted to x: per tensor as it is, per axis along it, blocked by repeating along it. */
static weft_value *fit(weft_onnx_node *node, const weft_value *x, weft_value *scale, int axis) {
    weft_graph *g = node->graph;
    if (weft_value_is_poison(scale) || scale->type.rank == 0) return scale;
    int rank = x->type.rank;
    weft_dim shape[WEFT_MAX_RANK];
    if (scale->type.rank == 1 && (rank != 1 || scale->type.dims[0] == 1)) {
        if (scale->type.dims[0] == 1) return weft_reshape(g, scale, 0, NULL);
        for (int i = 0; i < rank; i++) shape[i] = i == axis ? scale->type.dims[0] : 1;
        return weft_reshape(g, scale, rank, shape);
    }
    if (scale->type.rank == 1 && !weft_onnx_int(node, "block_size", 0)) return scale;
    int64_t block = weft_onnx_int(node, "block_size", 0);
    if (scale->type.rank != rank || rank + 1 > WEFT_MAX_RANK || block < 1) {
        weft_onnx_problem(node, "scales of rank %d with a block size of %lld for a rank of %d", scale->type.rank,
                          (long long)block, rank);
        return weft_value_poison(g);
    }
    weft_dim pair[WEFT_MAX_RANK], merged[WEFT_MAX_RANK];
    int64_t at = axis + 1;
    for (int i = 0; i <= rank; i++)
        pair[i] = i <= axis ? scale->type.dims[i] : i == axis + 1 ? block : scale->type.dims[i - 1];
    for (int i = 0; i < rank; i++)
        merged[i] = i == axis ? weft_dim_multiply(g->dims, scale->type.dims[i], block) : scale->type.dims[i];
    weft_value *repeated =
        weft_reshape(g, weft_broadcast_to(g, weft_unsqueeze(g, scale, 1, &at), rank + 1, pair), rank, merged);
    /* the last block may be cut short */
    return weft_slice_axis(g, repeated, axis, 0, x->type.dims[axis]);
}

static bool quantise_axis(weft_onnx_node *node, const weft_value *x, int *axis) {
    int64_t given = weft_onnx_int(node, "axis", 1), rank = x->type.rank;
    if (given < 0) given += rank;
    if (rank > 0 && (given < 0 || given >= rank)) given = 0; /* per-tensor scales do not look at it */
    *axis = (int)given;
    return true;
}

void weft_onnx_import_quantize_linear(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1), *zero = weft_onnx_optional(node, 2);
    int axis;
    if (weft_value_is_poison(x) || weft_value_is_poison(scale) || !quantise_axis(node, x, &axis)) return;
    weft_dtype dtype = zero ? zero->type.dtype : weft_onnx_dtype_attribute(node, "output_dtype", WEFT_U8);
    if (dtype == WEFT_INVALID && !zero) dtype = WEFT_U8;
    weft_dtype precision =
        weft_onnx_int(node, "precision", 0) ? weft_onnx_dtype_attribute(node, "precision", WEFT_F32) : WEFT_F32;
    if (precision == WEFT_INVALID) return;
    weft_value *wide = weft_convert(g, x, weft_onnx_wide(precision));
    weft_value *fitted = fit(node, x, weft_convert(g, scale, weft_onnx_wide(precision)), axis);
    weft_value *ratio = weft_div(g, wide, fitted);
    double low, high;
    if (weft_value_is_poison(ratio)) return;
    if (!integer_range(dtype, &low, &high)) {
        if (zero) ratio = weft_add(g, ratio, fit(node, x, weft_convert(g, zero, ratio->type.dtype), axis));
        bool saturate = weft_onnx_int(node, "saturate", 1) != 0;
        weft_onnx_output(node, 0, saturate ? weft_convert_saturate(g, ratio, dtype) : weft_convert(g, ratio, dtype));
        return;
    }
    weft_value *rounded = weft_round(g, ratio);
    if (zero) rounded = weft_add(g, rounded, fit(node, x, weft_convert(g, zero, rounded->type.dtype), axis));
    weft_onnx_output(node, 0, weft_convert(g, weft_clip(g, rounded, low, high), dtype));
}

void weft_onnx_import_dequantize_linear(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1), *zero = weft_onnx_optional(node, 2);
    int axis;
    if (weft_value_is_poison(x) || weft_value_is_poison(scale) || !quantise_axis(node, x, &axis)) return;
    weft_dtype result = weft_onnx_dtype_attribute(node, "output_dtype", scale->type.dtype);
    if (weft_onnx_int(node, "output_dtype", 0) == 0) result = scale->type.dtype;
    if (result == WEFT_INVALID) return;
    weft_value *wide = weft_convert(g, x, WEFT_F32);
    if (zero) wide = weft_sub(g, wide, fit(node, x, weft_convert(g, zero, WEFT_F32), axis));
    weft_value *fitted = fit(node, x, weft_convert(g, scale, WEFT_F32), axis);
    weft_onnx_output(node, 0, weft_convert(g, weft_mul(g, wide, fitted), result));
}

/* scale = (max(0, x) - min(0, x)) / 255, zero point in u8. */
void weft_onnx_import_dynamic_quantize_linear(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    weft_value *nothing = weft_onnx_scalar_like(g, x, 0);
    weft_value *high = weft_max(g, weft_reduce_max(g, x, 0, NULL, false), nothing),
               *low = weft_min(g, weft_reduce_min(g, x, 0, NULL, false), nothing);
    weft_value *scale = weft_div(g, weft_sub(g, high, low), weft_onnx_scalar_like(g, x, 255));
    weft_value *flat = weft_compare(g, WEFT_EQ, scale, nothing),
               *divisor = weft_where(g, flat, weft_onnx_scalar_like(g, x, 1), scale);
    weft_value *zero = weft_clip(g, weft_round(g, weft_div(g, weft_neg(g, low), divisor)), 0, 255);
    weft_value *zero_point = weft_convert(g, zero, WEFT_U8);
    weft_onnx_output(node, 0, weft_onnx_requantize(g, weft_div(g, x, divisor), zero_point));
    weft_onnx_output(node, 1, scale);
    weft_onnx_output(node, 2, zero_point);
}
