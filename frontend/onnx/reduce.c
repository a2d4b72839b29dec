/* ONNX reductions, cumulative sums and the normalisations. Read next: shape.c. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

/* Axes from input 1 or the attribute; *skip: an empty list means "leave the input as it is". */
static bool reduce_axes(weft_onnx_node *node, int *count, int64_t *axes, bool *skip) {
    bool ok;
    bool given = weft_onnx_axes(node, 1, "axes", count, axes, &ok);
    *skip = (!given || *count == 0) && weft_onnx_int(node, "noop_with_empty_axes", 0);
    return ok;
}

typedef weft_value *(*reduce_builder)(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);

static weft_value *sum_of_squares(weft_graph *g, weft_value *x, int n, const int64_t *axes, bool keep) {
    return weft_reduce_sum(g, weft_square(g, x), n, axes, keep);
}
static weft_value *norm_one(weft_graph *g, weft_value *x, int n, const int64_t *axes, bool keep) {
    return weft_reduce_sum(g, weft_abs(g, x), n, axes, keep);
}
/* Integers: the root is taken in f64 and truncated. */
static weft_value *norm_two(weft_graph *g, weft_value *x, int n, const int64_t *axes, bool keep) {
    weft_value *squares = sum_of_squares(g, x, n, axes, keep);
    if (weft_value_is_poison(squares) || weft_dtype_is_float(x->type.dtype)) return weft_sqrt(g, squares);
    return weft_convert(g, weft_sqrt(g, weft_convert(g, squares, WEFT_F64)), x->type.dtype);
}
static weft_value *log_sum(weft_graph *g, weft_value *x, int n, const int64_t *axes, bool keep) {
    weft_value *sum = weft_reduce_sum(g, x, n, axes, keep);
    if (weft_value_is_poison(sum) || weft_dtype_is_float(x->type.dtype)) return weft_log(g, sum);
    return weft_convert(g, weft_log(g, weft_convert(g, sum, WEFT_F64)), x->type.dtype);
}

static const struct {
    const char *name;
    reduce_builder build;
    bool transforms; /* does more than move the element when nothing is reduced */
} reduce_table[] = {
    {"ReduceSum", weft_reduce_sum, false},
    {"ReduceProd", weft_reduce_product, false},
    {"ReduceMax", weft_reduce_max, false},
    {"ReduceMin", weft_reduce_min, false},
    {"ReduceMean", weft_reduce_mean, false},
    {"ReduceSumSquare", sum_of_squares, true},
    {"ReduceL1", norm_one, true},
    {"ReduceL2", norm_two, true},
    {"ReduceLogSum", log_sum, true},
    {"ReduceLogSumExp", weft_reduce_log_sum_exp, false},
};

/* What a reduction over no axes at all does to each element. */
static weft_value *over_nothing(weft_graph *g, const char *name, weft_value *x) {
    if (strcmp(name, "ReduceSumSquare") == 0) return weft_square(g, x);
    if (strcmp(name, "ReduceL1") == 0 || strcmp(name, "ReduceL2") == 0) return weft_abs(g, x);
    return strcmp(name, "ReduceLogSum") == 0 ? weft_log(g, x) : x;
}

void weft_onnx_import_reduce(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int count;
    int64_t axes[WEFT_MAX_RANK];
    bool skip, keep = weft_onnx_int(node, "keepdims", 1) != 0;
    if (weft_value_is_poison(x) || !reduce_axes(node, &count, axes, &skip)) return;
    weft_dtype dtype = x->type.dtype;
    weft_value *wide = dtype == WEFT_BOOL ? weft_convert(g, x, WEFT_U8) : weft_onnx_widen(g, x), *result = NULL;
    for (size_t i = 0; i < sizeof reduce_table / sizeof *reduce_table; i++)
        if (strcmp(reduce_table[i].name, node->proto->op_type) == 0)
            result = skip || x->type.rank == 0 ? over_nothing(g, reduce_table[i].name, wide)
                                               : reduce_table[i].build(g, wide, count, axes, keep);
    if (result && !weft_value_is_poison(result)) weft_onnx_output(node, 0, weft_convert(g, result, dtype));
}

void weft_onnx_import_arg_reduce(weft_onnx_node *node) {
    weft_reduction kind = strcmp(node->proto->op_type, "ArgMax") == 0 ? WEFT_MAX : WEFT_MIN;
    bool keep = weft_onnx_int(node, "keepdims", 1) != 0, last = weft_onnx_int(node, "select_last_index", 0) != 0;
    weft_onnx_output(
        node, 0,
        weft_arg_reduce(node->graph, kind, weft_onnx_input(node, 0), weft_onnx_int32(node, "axis", 0), keep, last));
}

void weft_onnx_import_cumulative(weft_onnx_node *node) {
    int64_t axis;
    if (!weft_onnx_integer(node, weft_onnx_input(node, 1), &axis)) return;
    if (axis < -WEFT_MAX_RANK || axis >= WEFT_MAX_RANK) {
        weft_onnx_problem(node, "axis %lld", (long long)axis);
        return;
    }
    weft_reduction kind = strcmp(node->proto->op_type, "CumProd") == 0 ? WEFT_PRODUCT : WEFT_SUM;
    bool exclusive = weft_onnx_int(node, "exclusive", 0) != 0, reverse = weft_onnx_int(node, "reverse", 0) != 0;
    weft_onnx_output(node, 0,
                     weft_cumulative(node->graph, kind, weft_onnx_input(node, 0), (int)axis, exclusive, reverse));
}

/* -- normalisations */

/* A vector along axis 1 of a tensor of rank `rank`. */
weft_value *weft_onnx_along_channels(weft_graph *g, weft_value *vector, int rank) {
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 0; i < rank - 2; i++) axes[i] = i + 1;
    return rank > 2 ? weft_unsqueeze(g, vector, rank - 2, axes) : vector;
}

void weft_onnx_import_batch_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1), *bias = weft_onnx_input(node, 2),
               *mean = weft_onnx_input(node, 3), *variance = weft_onnx_input(node, 4);
    if (weft_value_is_poison(x) || weft_value_is_poison(scale) || weft_value_is_poison(mean)) return;
    weft_dtype dtype = x->type.dtype, mean_dtype = mean->type.dtype;
    int rank = x->type.rank;
    double epsilon = weft_onnx_float(node, "epsilon", 1e-5f), momentum = weft_onnx_float(node, "momentum", 0.9f);
    bool training = node->version >= 14
                        ? weft_onnx_int(node, "training_mode", 0) != 0
                        : node->version < 7 && weft_onnx_int(node, "is_test", 0) == 0 && weft_onnx_wants(node, 1);
    x = weft_onnx_widen(g, x);
    mean = weft_convert(g, mean, x->type.dtype), variance = weft_convert(g, variance, x->type.dtype);
    scale = weft_convert(g, scale, x->type.dtype), bias = weft_convert(g, bias, x->type.dtype);
    if (training) {
        int64_t axes[WEFT_MAX_RANK] = {0};
        for (int i = 2; i < rank; i++) axes[i - 1] = i;
        weft_value *now_mean = weft_reduce_mean(g, x, rank - 1, axes, false),
                   *now_variance = weft_reduce_variance(g, x, rank - 1, axes, false);
        weft_value *running_mean =
            weft_add(g, weft_mul_number(g, mean, momentum), weft_mul_number(g, now_mean, 1 - momentum));
        weft_value *running_variance =
            weft_add(g, weft_mul_number(g, variance, momentum), weft_mul_number(g, now_variance, 1 - momentum));
        weft_onnx_output(node, 1, weft_convert(g, running_mean, mean_dtype));
        weft_onnx_output(node, 2, weft_convert(g, running_variance, mean_dtype));
        mean = now_mean, variance = now_variance;
    }
    /* one multiply and one add per element: scale and shift are per channel */
    weft_value *factor = weft_mul(g, scale, weft_rsqrt(g, weft_add_number(g, variance, epsilon)));
    weft_value *shift = weft_sub(g, bias, weft_mul(g, mean, factor));
    weft_value *y = weft_add(g, weft_mul(g, x, weft_onnx_along_channels(g, factor, rank)),
                             weft_onnx_along_channels(g, shift, rank));
    weft_onnx_output(node, 0, weft_convert(g, y, dtype));
}

void weft_onnx_import_instance_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1), *bias = weft_onnx_input(node, 2);
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank;
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 2; i < rank; i++) axes[i - 2] = i;
    if (rank < 3) {
        weft_onnx_problem(node, "rank %d has no spatial axes", rank);
        return;
    }
    weft_value *wide = weft_onnx_widen(g, x);
    weft_value *y = weft_layer_norm(g, wide, NULL, NULL, rank - 2, axes, weft_onnx_float(node, "epsilon", 1e-5f));
    y = weft_mul(g, y, weft_onnx_along_channels(g, weft_onnx_widen(g, scale), rank));
    y = weft_add(g, y, weft_onnx_along_channels(g, weft_onnx_widen(g, bias), rank));
    weft_onnx_output(node, 0, weft_convert(g, y, x->type.dtype));
}

/* Channels in groups; each group of one sample is normalised. Scale and bias are per channel (per group before 21). */
void weft_onnx_import_group_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1), *bias = weft_onnx_input(node, 2);
    int64_t groups = weft_onnx_int(node, "num_groups", 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(scale) || weft_value_is_poison(bias)) return;
    int rank = x->type.rank;
    if (rank < 2 || rank + 1 > WEFT_MAX_RANK || groups < 1) {
        weft_onnx_problem(node, "rank %d with %lld groups", rank, (long long)groups);
        return;
    }
    weft_dim shape[WEFT_MAX_RANK] = {x->type.dims[0], groups, weft_dim_divide_floor(g->dims, x->type.dims[1], groups)};
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 2; i < rank; i++) shape[i + 1] = x->type.dims[i];
    for (int i = 2; i <= rank; i++) axes[i - 2] = i;
    weft_value *grouped = weft_reshape(g, weft_onnx_widen(g, x), rank + 1, shape);
    weft_value *y = weft_layer_norm(g, grouped, NULL, NULL, rank - 1, axes, weft_onnx_float(node, "epsilon", 1e-5f));
    weft_value *factors[2] = {weft_onnx_widen(g, scale), weft_onnx_widen(g, bias)};
    for (int i = 0; i < 2; i++) {
        weft_dim per[WEFT_MAX_RANK];
        for (int k = 0; k < rank; k++) per[k] = 1;
        per[0] = groups, per[1] = node->version < 21 ? 1 : shape[2];
        factors[i] = weft_reshape(g, factors[i], rank, per);
    }
    y = weft_add(g, weft_mul(g, y, factors[0]), factors[1]);
    weft_onnx_output(node, 0, weft_convert(g, weft_reshape(g, y, rank, x->type.dims), x->type.dtype));
}

/* Axes axis...; mean and 1 / deviation are further results. */
void weft_onnx_import_layer_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1), *bias = weft_onnx_optional(node, 2);
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank;
    int64_t axis = weft_onnx_int(node, "axis", -1), axes[WEFT_MAX_RANK];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
        weft_onnx_problem(node, "axis %lld of rank %d", (long long)axis, rank);
        return;
    }
    int count = rank - (int)axis;
    for (int i = 0; i < count; i++) axes[i] = axis + i;
    double epsilon = weft_onnx_float(node, "epsilon", 1e-5f);
    weft_value *wide = weft_onnx_widen(g, x);
    weft_onnx_output(node, 0, weft_layer_norm(g, x, scale, bias, count, axes, epsilon));
    if (weft_onnx_wants(node, 1)) weft_onnx_output(node, 1, weft_reduce_mean(g, wide, count, axes, true));
    if (weft_onnx_wants(node, 2)) {
        weft_value *variance = weft_reduce_variance(g, wide, count, axes, true);
        weft_onnx_output(node, 2, weft_rsqrt(g, weft_add_number(g, variance, epsilon)));
    }
}

void weft_onnx_import_rms_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *scale = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank;
    int64_t axis = weft_onnx_int(node, "axis", -1), axes[WEFT_MAX_RANK];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
        weft_onnx_problem(node, "axis %lld of rank %d", (long long)axis, rank);
        return;
    }
    for (int i = 0; i < rank - axis; i++) axes[i] = axis + i;
    weft_value *y =
        weft_rms_norm(g, weft_onnx_widen(g, x), NULL, rank - (int)axis, axes, weft_onnx_float(node, "epsilon", 1e-5f));
    weft_onnx_output(node, 0, weft_convert(g, weft_mul(g, y, weft_onnx_widen(g, scale)), x->type.dtype));
}

void weft_onnx_import_mean_variance_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    static const int64_t usual[3] = {0, 2, 3};
    int count;
    const int64_t *axes;
    if (weft_value_is_poison(x)) return;
    if (!weft_onnx_ints(node, "axes", &count, &axes)) {
        bool across = node->version < 9 && weft_onnx_int(node, "across_channels", 0);
        count = across ? 0 : 3, axes = usual;
    }
    weft_value *wide = weft_onnx_widen(g, x),
               *deviation = weft_sub(g, wide, weft_reduce_mean(g, wide, count, axes, true));
    weft_value *spread = weft_sqrt(g, weft_reduce_mean(g, weft_square(g, deviation), count, axes, true));
    weft_onnx_output(node, 0, weft_convert(g, weft_div(g, deviation, weft_add_number(g, spread, 1e-9)), x->type.dtype));
}

void weft_onnx_import_lp_normalization(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int64_t axis = weft_onnx_int(node, "axis", -1), p = weft_onnx_int(node, "p", 2);
    if (weft_value_is_poison(x)) return;
    if (p != 1 && p != 2) {
        weft_onnx_problem(node, "p is %lld, neither 1 nor 2", (long long)p);
        return;
    }
    weft_value *wide = weft_onnx_widen(g, x);
    weft_value *norm = p == 1 ? norm_one(g, wide, 1, &axis, true) : norm_two(g, wide, 1, &axis, true);
    if (weft_value_is_poison(norm)) return;
    /* a zero vector stays zero */
    weft_value *zero = weft_compare(g, WEFT_EQ, norm, weft_onnx_scalar_like(g, norm, 0));
    norm = weft_where(g, zero, weft_onnx_scalar_like(g, norm, 1), norm);
    weft_onnx_output(node, 0, weft_convert(g, weft_div(g, wide, norm), x->type.dtype));
}

/* x / (bias + alpha / size * sum of squares of size neighbouring channels) ^ beta. */
void weft_onnx_import_lrn(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int64_t size = weft_onnx_int(node, "size", 1);
    if (weft_value_is_poison(x)) return;
    if (x->type.rank < 2 || size < 1 || size > 100000) {
        weft_onnx_problem(node, "size %lld at rank %d", (long long)size, x->type.rank);
        return;
    }
    int64_t window[WEFT_MAX_RANK];
    weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < x->type.rank; i++) window[i] = i == 1 ? size : 1;
    low[1] = (size - 1) / 2, high[1] = size - 1 - low[1];
    weft_window_options options = WEFT_WINDOW_OPTIONS_INIT;
    options.window = window, options.low = low, options.high = high;
    weft_value *wide = weft_onnx_widen(g, x), *sum = weft_reduce_window(g, WEFT_SUM, weft_square(g, wide), &options);
    double alpha = weft_onnx_float(node, "alpha", 1e-4f), beta = weft_onnx_float(node, "beta", 0.75),
           bias = weft_onnx_float(node, "bias", 1);
    weft_value *base = weft_add_number(g, weft_mul_number(g, sum, alpha / (double)size), bias);
    if (weft_value_is_poison(base)) return;
    weft_value *divisor = weft_pow(g, base, weft_onnx_scalar_like(g, base, beta));
    weft_onnx_output(node, 0, weft_convert(g, weft_div(g, wide, divisor), x->type.dtype));
}
