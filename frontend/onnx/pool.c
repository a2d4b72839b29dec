/* ONNX pools. Read next: quantize.c. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"
#include "frontend/onnx/window.h"

/* Window positions along an axis, and how far the last window of ceil mode reaches past the padded input. */
static weft_dim positions(weft_onnx_node *node, const weft_onnx_window *w, int i, weft_dim extent, bool ceil_mode,
                          weft_dim *out_overhang) {
    weft_dim_table *dims = node->graph->dims;
    weft_dim padded = weft_dim_add(dims, weft_dim_add(dims, extent, w->low[i]), w->high[i]);
    int64_t reach = (w->window[i] - 1) * w->dilation[i] + 1;
    weft_dim span = weft_dim_subtract(dims, padded, reach);
    *out_overhang = 0;
    if (!ceil_mode) return weft_dim_add(dims, weft_dim_divide_floor(dims, span, w->stride[i]), 1);
    weft_dim count = weft_dim_add(dims, weft_dim_divide_ceil(dims, span, w->stride[i]), 1);
    /* a window must start inside the input or its low padding */
    weft_dim limit = weft_dim_divide_ceil(dims, weft_dim_add(dims, extent, w->low[i]), w->stride[i]);
    count = weft_dim_minimum(dims, count, limit);
    weft_dim end = weft_dim_add(dims, weft_dim_multiply(dims, weft_dim_subtract(dims, count, 1), w->stride[i]), reach);
    *out_overhang = weft_dim_maximum(dims, weft_dim_subtract(dims, end, padded), 0);
    return count;
}

typedef struct pool_plan {
    weft_onnx_window window;
    weft_dim count[WEFT_MAX_RANK], overhang[WEFT_MAX_RANK];
    weft_pool_options options;
} pool_plan;

/* Of a window in the padding alone there is no maximum and no mean. The standard is silent; its runtimes refuse it. */
static bool windows_touch(weft_onnx_node *node, const weft_onnx_window *w) {
    for (int i = 0; i < w->spatial; i++) {
        int64_t reach = (w->window[i] - 1) * w->dilation[i] + 1, low, high;
        if (!weft_onnx_dim_number(node->graph, w->low[i], &low) ||
            !weft_onnx_dim_number(node->graph, w->high[i], &high) || (low < reach && high < reach))
            continue;
        weft_onnx_problem(node, "pads %lld and %lld of spatial axis %d: a window of %lld lies in the padding alone",
                          (long long)low, (long long)high, i, (long long)reach);
        return false;
    }
    return true;
}

static bool plan_pool(weft_onnx_node *node, const weft_value *x, pool_plan *plan) {
    if (weft_value_is_poison(x)) return false;
    if (x->type.rank < 3) {
        weft_onnx_problem(node, "rank %d has no spatial axes", x->type.rank);
        return false;
    }
    int spatial = x->type.rank - 2;
    if (!weft_onnx_window_read(node, spatial, NULL, &plan->window) ||
        !weft_onnx_window_pads(node, x->type.dims + 2, &plan->window))
        return false;
    if (!windows_touch(node, &plan->window)) return false;
    bool ceil_mode = weft_onnx_int(node, "ceil_mode", 0) != 0;
    for (int i = 0; i < spatial; i++)
        plan->count[i] = positions(node, &plan->window, i, x->type.dims[i + 2], ceil_mode, &plan->overhang[i]);
    plan->options = (weft_pool_options)WEFT_POOL_OPTIONS_INIT;
    plan->options.window = plan->window.window, plan->options.stride = plan->window.stride,
    plan->options.dilation = plan->window.dilation;
    plan->options.low = plan->window.low, plan->options.high = plan->window.high,
    plan->options.overhang = plan->overhang;
    return true;
}

void weft_onnx_import_average_pool(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    pool_plan plan;
    if (!plan_pool(node, x, &plan)) return;
    plan.options.count_padding = weft_onnx_int(node, "count_include_pad", 0) != 0;
    weft_onnx_output(node, 0, weft_average_pool(node->graph, x, &plan.options));
}

/* (sum of |x|^p)^(1/p). */
void weft_onnx_import_lp_pool(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    double p = node->version < 2 ? weft_onnx_float(node, "p", 2) : (double)weft_onnx_int(node, "p", 2);
    bool global = strcmp(node->proto->op_type, "GlobalLpPool") == 0;
    pool_plan plan;
    if (weft_value_is_poison(x) || (!global && !plan_pool(node, x, &plan))) return;
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 2; i < x->type.rank; i++) axes[i - 2] = i;
    weft_value *wide = weft_onnx_widen(g, x), *magnitude = weft_abs(g, wide);
    weft_value *power = weft_pow(g, magnitude, weft_onnx_scalar_like(g, wide, p));
    weft_value *sum =
        global ? weft_reduce_sum(g, power, x->type.rank - 2, axes, true) : weft_sum_pool(g, power, &plan.options);
    if (weft_value_is_poison(sum)) return;
    weft_onnx_output(node, 0, weft_convert(g, weft_pow(g, sum, weft_onnx_scalar_like(g, sum, 1 / p)), x->type.dtype));
}

void weft_onnx_import_global_pool(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    int64_t axes[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return;
    if (x->type.rank < 3) {
        weft_onnx_problem(node, "rank %d has no spatial axes", x->type.rank);
        return;
    }
    for (int i = 2; i < x->type.rank; i++) axes[i - 2] = i;
    bool mean = strcmp(node->proto->op_type, "GlobalAveragePool") == 0;
    weft_onnx_output(node, 0,
                     (mean ? weft_reduce_mean : weft_reduce_max)(node->graph, x, x->type.rank - 2, axes, true));
}

/* The windows of one spatial axis: position [out, k] = out * stride + k * dilation - low; cut to the input where
   outside, and whether it is inside. */
static weft_value *window_positions(weft_graph *g, const weft_onnx_window *w, int i, weft_dim count, weft_dim extent,
                                    weft_value **out_inside) {
    weft_dim shape[2] = {count, w->window[i]};
    weft_value *out = weft_iota(g, WEFT_I64, 2, shape, 0), *k = weft_iota(g, WEFT_I64, 2, shape, 1);
    weft_value *at = weft_add(g, weft_mul(g, out, weft_scalar_integer(g, WEFT_I64, w->stride[i])),
                              weft_mul(g, k, weft_scalar_integer(g, WEFT_I64, w->dilation[i])));
    at = weft_sub(g, at, weft_extent(g, w->low[i]));
    weft_value *zero = weft_scalar_integer(g, WEFT_I64, 0), *size = weft_extent(g, extent);
    *out_inside = weft_and(g, weft_compare(g, WEFT_GE, at, zero), weft_compare(g, WEFT_LT, at, size));
    return weft_max(g, weft_min(g, at, weft_sub(g, size, weft_scalar_integer(g, WEFT_I64, 1))), zero);
}

/* A [out, k] table of spatial axis i as [1, 1, out..., window...] with all other extents 1. */
static weft_value *spread(weft_graph *g, weft_value *table, int spatial, int i) {
    weft_dim shape[WEFT_MAX_RANK];
    if (weft_value_is_poison(table)) return table;
    for (int k = 0; k < 2 + 2 * spatial; k++) shape[k] = 1;
    shape[2 + i] = table->type.dims[0], shape[2 + spatial + i] = table->type.dims[1];
    return weft_reshape(g, table, 2 + 2 * spatial, shape);
}

/* Flat positions (over the whole input) of each window's first maximum. column_major: the last spatial axes swap roles.
 */
static weft_value *max_positions(weft_onnx_node *node, weft_value *x, const pool_plan *plan, bool column_major) {
    weft_graph *g = node->graph;
    int spatial = plan->window.spatial, rank = 2 + 2 * spatial;
    if (rank > WEFT_MAX_RANK) {
        weft_onnx_problem(node, "indices of %d spatial axes", spatial);
        return weft_value_poison(g);
    }
    const weft_dim *d = x->type.dims;
    weft_value *inside = NULL, *flat = NULL, *windows = x;
    weft_dim stride = 1;
    for (int step = 0; step < spatial; step++) {
        /* row-major: the last axis counts first */
        int i = column_major ? step : spatial - 1 - step;
        weft_value *valid, *at = window_positions(g, &plan->window, i, plan->count[i], d[2 + i], &valid);
        weft_value *part = weft_mul(g, spread(g, at, spatial, i), weft_extent(g, stride));
        flat = flat ? weft_add(g, flat, part) : part;
        valid = spread(g, valid, spatial, i);
        inside = inside ? weft_and(g, inside, valid) : valid;
        stride = weft_dim_multiply(g->dims, stride, d[2 + i]);
    }
    for (int i = spatial - 1; i >= 0; i--) {
        weft_value *valid, *at = window_positions(g, &plan->window, i, plan->count[i], d[2 + i], &valid);
        windows = weft_take(g, windows, at, 2 + i); /* axis 2 + i becomes the pair (out, k) */
    }
    /* [N, C, out0, k0, out1, k1, ...] -> [N, C, out..., k...] -> [N, C, out..., K] */
    int64_t order[WEFT_MAX_RANK] = {0, 1};
    weft_dim merged[WEFT_MAX_RANK] = {d[0], d[1]}, all[WEFT_MAX_RANK];
    for (int i = 0; i < spatial; i++)
        order[2 + i] = 2 + 2 * i, order[2 + spatial + i] = 3 + 2 * i, merged[2 + i] = plan->count[i];
    merged[2 + spatial] = WEFT_DIM_ANY;
    windows = weft_transpose(g, windows, order);
    if (weft_value_is_poison(windows) || weft_value_is_poison(flat)) return weft_value_poison(g);
    for (int i = 0; i < rank; i++) all[i] = windows->type.dims[i];
    bool is_float = weft_dtype_is_float(x->type.dtype);
    weft_value *lowest =
        is_float
            ? weft_onnx_scalar_like(g, x, -INFINITY)
            : weft_scalar_integer(g, x->type.dtype, weft_dtype_kind_of(x->type.dtype) == WEFT_KIND_UNSIGNED ? 0 : -128);
    windows = weft_reshape(g, weft_where(g, inside, windows, lowest), 3 + spatial, merged);
    flat = weft_reshape(g, weft_broadcast_to(g, flat, rank, all), 3 + spatial, merged);
    weft_value *best = weft_arg_reduce(g, WEFT_MAX, windows, 2 + spatial, true, false);
    int64_t last = 2 + spatial;
    weft_value *picked = weft_squeeze(g, weft_take_along(g, flat, best, 2 + spatial), 1, &last);
    /* the image before: (n * C + c) * stride */
    weft_dim image[WEFT_MAX_RANK] = {d[0], d[1]};
    for (int i = 0; i < spatial; i++) image[2 + i] = 1;
    weft_value *n = weft_iota(g, WEFT_I64, 2 + spatial, image, 0), *c = weft_iota(g, WEFT_I64, 2 + spatial, image, 1);
    weft_value *number = weft_add(g, weft_mul(g, n, weft_extent(g, d[1])), c);
    return weft_add(g, picked, weft_mul(g, number, weft_extent(g, stride)));
}

void weft_onnx_import_max_pool(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    pool_plan plan;
    if (!plan_pool(node, x, &plan)) return;
    weft_onnx_output(node, 0, weft_max_pool(node->graph, x, &plan.options));
    if (weft_onnx_wants(node, 1))
        weft_onnx_output(node, 1, max_positions(node, x, &plan, weft_onnx_int(node, "storage_order", 0) != 0));
}

/* Values go back to the flat positions of an earlier MaxPool; a larger output_shape is filled with zeros behind. */
void weft_onnx_import_max_unpool(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(indices)) return;
    int rank = x->type.rank, count = 0;
    weft_onnx_window window;
    weft_dim shape[WEFT_MAX_RANK] = {x->type.dims[0], rank > 1 ? x->type.dims[1] : 1}, wanted[WEFT_MAX_RANK], total = 1;
    if (rank < 3 || !weft_onnx_window_read(node, rank - 2, NULL, &window) ||
        !weft_onnx_window_pads(node, x->type.dims + 2, &window))
        return;
    for (int i = 2; i < rank; i++) {
        weft_dim last =
            weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, x->type.dims[i], 1), window.stride[i - 2]);
        weft_dim pads = weft_dim_add(g->dims, window.low[i - 2], window.high[i - 2]);
        shape[i] = weft_dim_subtract(g->dims, weft_dim_add(g->dims, last, window.window[i - 2]), pads);
    }
    if (weft_onnx_has(node, 2) && !weft_onnx_extents(node, weft_onnx_input(node, 2), WEFT_MAX_RANK, &count, wanted))
        return;
    for (int i = 0; i < rank; i++) total = weft_dim_multiply(g->dims, total, shape[i]);
    weft_dim all = WEFT_DIM_ANY, low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    int64_t last = 1;
    weft_value *flat = weft_full(g, x->type.dtype, 1, &total, 0),
               *at = weft_unsqueeze(g, weft_reshape(g, indices, 1, &all), 1, &last);
    weft_value *y = weft_reshape(g, weft_scatter_nd(g, WEFT_SET, flat, at, weft_reshape(g, x, 1, &all)), rank, shape);
    for (int i = 0; count == rank && i < rank; i++) high[i] = weft_dim_subtract(g->dims, wanted[i], shape[i]);
    weft_onnx_output(node, 0, count == rank ? weft_pad(g, y, weft_onnx_scalar_like(g, y, 0), low, high, NULL) : y);
}
