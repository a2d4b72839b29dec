/* Convolutions and pools: windows over spatial axes. Read next: control.c. */
#include "base/need.h"
#include "frontend/ops/common.h"

typedef struct full_window {
    int64_t window[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], dilation[WEFT_MAX_RANK], base_dilation[WEFT_MAX_RANK];
    weft_dim low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
} full_window;

static void fill_ints(int64_t *to, const int64_t *from, int count, int64_t fallback) {
    for (int i = 0; i < count; i++) to[i] = from ? from[i] : fallback;
}

weft_value *weft_convolution(weft_graph *g, weft_value *x, weft_value *w, const weft_convolution_options *options) {
    weft_value *operands[2] = {x, w};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    weft_convolution_options own = WEFT_CONVOLUTION_OPTIONS_INIT, *o = &own;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_CONVOLUTION_OPTIONS_INIT)))
        return weft_value_poison(g);
    int spatial = x->type.rank - 2;
    if (spatial < 0 || w->type.rank != x->type.rank) {
        weft_graph_problem(g, "convolution of rank %d with weights of rank %d", x->type.rank, w->type.rank);
        return weft_value_poison(g);
    }
    full_window f;
    fill_ints(f.stride, o->stride, spatial, 1);
    fill_ints(f.dilation, o->dilation, spatial, 1);
    fill_ints(f.base_dilation, o->base_dilation, spatial, 1);
    fill_ints(f.low, o->low, spatial, 0);
    fill_ints(f.high, o->high, spatial, 0);
    weft_attribute attributes[8] = {
        weft_attr_ints(WEFT_ATTR_stride, spatial, f.stride),
        weft_attr_dims(WEFT_ATTR_low, spatial, f.low),
        weft_attr_dims(WEFT_ATTR_high, spatial, f.high),
        weft_attr_ints(WEFT_ATTR_dilation, spatial, f.dilation),
        weft_attr_ints(WEFT_ATTR_base_dilation, spatial, f.base_dilation),
        weft_attr_int(WEFT_ATTR_groups, o->groups ? o->groups : 1),
        weft_attr_dtype(WEFT_ATTR_dtype, o->dtype == WEFT_INVALID ? x->type.dtype : o->dtype),
        weft_attr_dtype(WEFT_ATTR_accumulate, o->accumulate),
    };
    return weft_build(g, WEFT_OP_convolution, 2, operands, o->accumulate == WEFT_INVALID ? 7 : 8, attributes);
}

/* [C, O / groups, k...] -> [O, C / groups, k...], kernels mirrored. */
static weft_value *transposed_weights(weft_graph *g, weft_value *w, int64_t groups) {
    int rank = w->type.rank;
    weft_dim c = w->type.dims[0], per_group = w->type.dims[1];
    int64_t spatial[WEFT_MAX_RANK], permutation[WEFT_MAX_RANK];
    for (int i = 2; i < rank; i++) spatial[i - 2] = i;
    if (rank > 2) w = weft_reverse(g, w, rank - 2, spatial);
    weft_dim shape[WEFT_MAX_RANK] = {groups, weft_dim_divide_floor(g->dims, c, groups), per_group};
    for (int i = 2; i < rank; i++) shape[i + 1] = w->type.dims[i];
    w = weft_reshape(g, w, rank + 1, shape);
    for (int i = 0; i <= rank; i++) permutation[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    w = weft_transpose(g, w, permutation);
    weft_dim merged[WEFT_MAX_RANK] = {weft_dim_multiply(g->dims, groups, per_group), shape[1]};
    for (int i = 2; i < rank; i++) merged[i] = shape[i + 1];
    return weft_reshape(g, w, rank, merged);
}

weft_value *weft_convolution_transpose(weft_graph *g, weft_value *x, weft_value *w,
                                       const weft_convolution_options *options) {
    weft_value *operands[2] = {x, w};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(o, options, WEFT_CONVOLUTION_OPTIONS_INIT))) return weft_value_poison(g);
    int rank = x->type.rank, spatial = rank - 2;
    int64_t groups = o.groups ? o.groups : 1;
    if (spatial < 0 || w->type.rank != rank || rank + 1 > WEFT_MAX_RANK || groups < 1) {
        weft_graph_problem(g, "transposed convolution of rank %d with weights of rank %d", rank, w->type.rank);
        return weft_value_poison(g);
    }
    /* the input is spread by the stride and correlated with the mirrored kernel; full padding is (k - 1) * dilation */
    weft_dim low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
    for (int i = 0; i < spatial; i++) {
        weft_dim reach = weft_dim_subtract(g->dims, w->type.dims[i + 2], 1);
        reach = weft_dim_multiply(g->dims, reach, o.dilation ? o.dilation[i] : 1);
        low[i] = weft_dim_subtract(g->dims, reach, o.low ? o.low[i] : 0);
        high[i] = weft_dim_subtract(g->dims, reach, o.high ? o.high[i] : 0);
    }
    weft_convolution_options plain = WEFT_CONVOLUTION_OPTIONS_INIT;
    plain.dilation = o.dilation, plain.base_dilation = o.stride, plain.low = low, plain.high = high,
    plain.groups = groups;
    plain.dtype = o.dtype, plain.accumulate = o.accumulate;
    return weft_convolution(g, x, transposed_weights(g, w, groups), &plain);
}

weft_value *weft_reduce_window(weft_graph *g, weft_reduction kind, weft_value *x, const weft_window_options *options) {
    weft_window_options own = WEFT_WINDOW_OPTIONS_INIT, *o = &own;
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_given(g, options, 1, "the options")) return weft_value_poison(g);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_WINDOW_OPTIONS_INIT))) return weft_value_poison(g);
    int rank = x->type.rank;
    full_window f;
    fill_ints(f.window, o->window, rank, 1);
    fill_ints(f.stride, o->stride, rank, 1);
    fill_ints(f.dilation, o->dilation, rank, 1);
    fill_ints(f.base_dilation, o->base_dilation, rank, 1);
    fill_ints(f.low, o->low, rank, 0);
    fill_ints(f.high, o->high, rank, 0);
    weft_attribute attributes[7] = {
        weft_attr_string(WEFT_ATTR_kind, weft_ops_reduction_name(kind)),
        weft_attr_ints(WEFT_ATTR_window, rank, f.window),
        weft_attr_ints(WEFT_ATTR_stride, rank, f.stride),
        weft_attr_ints(WEFT_ATTR_dilation, rank, f.dilation),
        weft_attr_ints(WEFT_ATTR_base_dilation, rank, f.base_dilation),
        weft_attr_dims(WEFT_ATTR_low, rank, f.low),
        weft_attr_dims(WEFT_ATTR_high, rank, f.high),
    };
    return weft_build(g, WEFT_OP_reduce_window, 1, &x, 7, attributes);
}

weft_value *weft_select_and_scatter(weft_graph *g, weft_value *x, weft_value *source,
                                    const weft_window_options *options) {
    weft_value *operands[2] = {x, source};
    weft_window_options own = WEFT_WINDOW_OPTIONS_INIT, *o = &own;
    if (weft_ops_absent_any(g, operands, 2) || !weft_ops_given(g, options, 1, "the options"))
        return weft_value_poison(g);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_WINDOW_OPTIONS_INIT))) return weft_value_poison(g);
    int rank = x->type.rank;
    full_window f;
    fill_ints(f.window, o->window, rank, 1);
    fill_ints(f.stride, o->stride, rank, 1);
    fill_ints(f.low, o->low, rank, 0);
    fill_ints(f.high, o->high, rank, 0);
    weft_attribute attributes[4] = {
        weft_attr_ints(WEFT_ATTR_window, rank, f.window), weft_attr_ints(WEFT_ATTR_stride, rank, f.stride),
        weft_attr_dims(WEFT_ATTR_low, rank, f.low), weft_attr_dims(WEFT_ATTR_high, rank, f.high)};
    return weft_build(g, WEFT_OP_select_and_scatter, 2, operands, 4, attributes);
}

/* Windows over axes 2...; overhang joins the high padding. */
static weft_value *pool(weft_graph *g, weft_reduction kind, weft_value *x, const weft_pool_options *o,
                        bool overhang_only) {
    int rank = x->type.rank, spatial = rank - 2;
    full_window f;
    for (int i = 0; i < 2; i++) f.window[i] = f.stride[i] = f.dilation[i] = 1, f.low[i] = f.high[i] = 0;
    fill_ints(f.window + 2, o->window, spatial, 1);
    fill_ints(f.stride + 2, o->stride, spatial, 1);
    fill_ints(f.dilation + 2, o->dilation, spatial, 1);
    fill_ints(f.low + 2, overhang_only ? NULL : o->low, spatial, 0);
    fill_ints(f.high + 2, overhang_only ? NULL : o->high, spatial, 0);
    for (int i = 0; o->overhang && i < spatial; i++)
        f.high[i + 2] = weft_dim_add(g->dims, f.high[i + 2], o->overhang[i]);
    weft_window_options window = WEFT_WINDOW_OPTIONS_INIT;
    window.window = f.window, window.stride = f.stride, window.dilation = f.dilation, window.low = f.low,
    window.high = f.high;
    return weft_reduce_window(g, kind, x, &window);
}

static bool pool_fits(weft_graph *g, weft_value *x, const weft_pool_options *options, weft_pool_options *out_options) {
    if (weft_ops_absent(g, &x) || !weft_ops_given(g, options, 1, "the options")) return false;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(*out_options, options, WEFT_POOL_OPTIONS_INIT))) return false;
    if (x->type.rank < 2) weft_graph_problem(g, "pool of rank %d", x->type.rank);
    return x->type.rank >= 2;
}

weft_value *weft_max_pool(weft_graph *g, weft_value *x, const weft_pool_options *options) {
    weft_pool_options own = WEFT_POOL_OPTIONS_INIT;
    return pool_fits(g, x, options, &own) ? pool(g, WEFT_MAX, x, &own, false) : weft_value_poison(g);
}

weft_value *weft_sum_pool(weft_graph *g, weft_value *x, const weft_pool_options *options) {
    weft_pool_options own = WEFT_POOL_OPTIONS_INIT;
    return pool_fits(g, x, options, &own) ? pool(g, WEFT_SUM, x, &own, false) : weft_value_poison(g);
}

weft_value *weft_average_pool(weft_graph *g, weft_value *x, const weft_pool_options *options) {
    weft_pool_options own = WEFT_POOL_OPTIONS_INIT, *o = &own;
    if (!pool_fits(g, x, options, &own)) return weft_value_poison(g);
    weft_dtype compute = weft_ops_compute_dtype(x->type.dtype);
    int spatial = x->type.rank - 2;
    weft_value *sum = pool(g, WEFT_SUM, weft_convert(g, x, compute), o, false);
    /* the number of counted positions: windows over ones; without batch and channels they differ per position only */
    weft_dim shape[WEFT_MAX_RANK] = {1, 1};
    bool counted_all = true;
    for (int i = 0; i < spatial; i++) {
        shape[i + 2] = x->type.dims[i + 2];
        bool padded = (o->low && o->low[i] != 0) || (o->high && o->high[i] != 0);
        if (padded && o->count_padding) {
            shape[i + 2] = weft_dim_add(g->dims, shape[i + 2], o->low ? o->low[i] : 0);
            shape[i + 2] = weft_dim_add(g->dims, shape[i + 2], o->high ? o->high[i] : 0);
        }
        if ((padded && !o->count_padding) || (o->overhang && o->overhang[i] != 0)) counted_all = false;
    }
    weft_value *count;
    if (counted_all) {
        double size = 1;
        for (int i = 0; i < spatial; i++) size *= o->window ? (double)o->window[i] : 1.0;
        count = weft_scalar(g, compute, size);
    } else
        count = pool(g, WEFT_SUM, weft_full(g, compute, spatial + 2, shape, 1), o, o->count_padding);
    return weft_convert(g, weft_div(g, sum, count), x->type.dtype);
}
