/* The operations of graphs, one function each.

   Purpose: append one operation (or a small composition of them) to a graph and return its result.
   Shapes: binary operations, where, pow ... broadcast as numpy does: shapes are aligned at the last axis; extents are
   equal or one of them is the number 1. Two symbolic extents must be equal; where that cannot be shown it becomes a
   guard of the graph, checked when it runs. Axes may be negative: -1 is the last one. Extents are weft_dim: numbers or
   expressions of the graph. Dtypes: operands of one operation have one dtype; nothing is converted silently.
   Compositions that accumulate (mean, variance, norms, pools) compute f16, bf16 and 8-bit floats in f32 and round once
   at the end. Ownership: values belong to the graph. Arrays are copied. Errors: as graph.h says: a problem is recorded
   with the caller's file:line and a poisoned value comes back, never NULL. Threading: thread-compatible, as the graph.
   Source: semantics follow StableHLO where it has the operation; ir/ops.def states each exactly.

   Every function is also a macro of the same name that records where it was called. Define WEFT_OPS_NO_LOCATION before
   the include to call the functions alone: locations then stay what weft_graph_at last said. */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- values from nothing */

/* A scalar constant, rounded to dtype. For 64-bit integers beyond 2^53 use weft_scalar_integer. */
WEFT_API weft_value *weft_scalar(weft_graph *g, weft_dtype dtype, double value);
WEFT_API weft_value *weft_scalar_integer(weft_graph *g, weft_dtype dtype, int64_t value);
/* A tensor whose elements all have one value. */
WEFT_API weft_value *weft_full(weft_graph *g, weft_dtype dtype, int rank, const weft_dim *shape, double value);
/* A vector constant of i64. */
WEFT_API weft_value *weft_integers(weft_graph *g, int count, const int64_t *values);
/* result[i0, i1, ...] = i(axis). */
WEFT_API weft_value *weft_iota(weft_graph *g, weft_dtype dtype, int rank, const weft_dim *shape, int axis);
/* The value of an extent as an i64 scalar (the op `dim`). */
WEFT_API weft_value *weft_extent(weft_graph *g, weft_dim extent);

/* -- elementwise, one operand */
WEFT_API weft_value *weft_abs(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_neg(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_sign(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_ceil(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_floor(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_round(weft_graph *g, weft_value *x); /* to nearest even */
WEFT_API weft_value *weft_exp(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_expm1(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_log(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_log1p(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_sqrt(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_rsqrt(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_sin(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_cos(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_tan(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_asin(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_acos(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_atan(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_sinh(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_cosh(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_asinh(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_acosh(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_atanh(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_tanh(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_logistic(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_erf(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_not(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_popcount(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_is_nan(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_is_finite(weft_graph *g, weft_value *x);
/* 1 / x. */
WEFT_API weft_value *weft_reciprocal(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_square(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_relu(weft_graph *g, weft_value *x);
/* x >= 0 ? x : slope * x. */
WEFT_API weft_value *weft_leaky_relu(weft_graph *g, weft_value *x, double slope);
/* x > 0 ? x : alpha * (exp(x) - 1). */
WEFT_API weft_value *weft_elu(weft_graph *g, weft_value *x, double alpha);
/* min(max(x, low), high). */
WEFT_API weft_value *weft_clip(weft_graph *g, weft_value *x, double low, double high);
/* max(0, min(1, slope * x + offset)). */
WEFT_API weft_value *weft_hard_sigmoid(weft_graph *g, weft_value *x, double slope, double offset);
/* Derived operations. approximate: the tanh form of gelu (Hendrycks and Gimpel 2016). */
WEFT_API weft_value *weft_gelu(weft_graph *g, weft_value *x, bool approximate);
WEFT_API weft_value *weft_silu(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_softplus(weft_graph *g, weft_value *x);

/* float -> integer truncates and saturates; integer -> integer wraps; x -> bool is x != 0. */
WEFT_API weft_value *weft_convert(weft_graph *g, weft_value *x, weft_dtype dtype);
/* The same, but an 8- or 4-bit float that overflows becomes the largest finite one. */
WEFT_API weft_value *weft_convert_saturate(weft_graph *g, weft_value *x, weft_dtype dtype);
WEFT_API weft_value *weft_bitcast(weft_graph *g, weft_value *x, weft_dtype dtype);

/* -- elementwise, two operands, with broadcasting */
WEFT_API weft_value *weft_add(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_sub(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_mul(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_div(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_rem(weft_graph *g, weft_value *a, weft_value *b); /* sign of a */
WEFT_API weft_value *weft_mod(weft_graph *g, weft_value *a, weft_value *b); /* sign of b */
WEFT_API weft_value *weft_pow(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_max(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_min(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_atan2(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_and(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_or(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_xor(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_shift_left(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_shift_right_logical(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_shift_right_arithmetic(weft_graph *g, weft_value *a, weft_value *b);
WEFT_API weft_value *weft_complex(weft_graph *g, weft_value *real, weft_value *imaginary);
WEFT_API weft_value *weft_real(weft_graph *g, weft_value *x);
WEFT_API weft_value *weft_imag(weft_graph *g, weft_value *x);

typedef enum weft_comparison { WEFT_EQ, WEFT_NE, WEFT_LT, WEFT_LE, WEFT_GT, WEFT_GE } weft_comparison;
WEFT_API weft_value *weft_compare(weft_graph *g, weft_comparison direction, weft_value *a, weft_value *b);
/* condition ? a : b (the op `select`), all three broadcast. */
WEFT_API weft_value *weft_where(weft_graph *g, weft_value *condition, weft_value *a, weft_value *b);
/* Operations with a number: x op value, value rounded to x's dtype. */
WEFT_API weft_value *weft_add_number(weft_graph *g, weft_value *x, double value);
WEFT_API weft_value *weft_mul_number(weft_graph *g, weft_value *x, double value);

/* -- shapes */

/* One extent may be WEFT_DIM_ANY: it is inferred. */
WEFT_API weft_value *weft_reshape(weft_graph *g, weft_value *x, int rank, const weft_dim *shape);
/* NULL reverses the axes. */
WEFT_API weft_value *weft_transpose(weft_graph *g, weft_value *x, const int64_t *permutation);
/* Operand axis i becomes axis axes[i]; an extent 1 stretches. */
WEFT_API weft_value *weft_broadcast(weft_graph *g, weft_value *x, int rank, const weft_dim *shape, const int64_t *axes);
/* numpy.broadcast_to: aligned at the last axis. */
WEFT_API weft_value *weft_broadcast_to(weft_graph *g, weft_value *x, int rank, const weft_dim *shape);
/* axis_count 0 drops every extent that is 1. */
WEFT_API weft_value *weft_squeeze(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes);
/* axes are positions in the result. */
WEFT_API weft_value *weft_unsqueeze(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes);
/* [product of axes before `axis`, product of the rest]. */
WEFT_API weft_value *weft_flatten(weft_graph *g, weft_value *x, int axis);
/* One entry per axis; 0 <= start <= limit <= extent. stride NULL = 1. */
WEFT_API weft_value *weft_slice(weft_graph *g, weft_value *x, const weft_dim *start, const weft_dim *limit,
                                const int64_t *stride);
WEFT_API weft_value *weft_slice_axis(weft_graph *g, weft_value *x, int axis, weft_dim start, weft_dim limit);
WEFT_API weft_value *weft_reverse(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes);
/* fill: scalar of x's dtype. low and high may be negative. interior NULL = 0. */
WEFT_API weft_value *weft_pad(weft_graph *g, weft_value *x, weft_value *fill, const weft_dim *low, const weft_dim *high,
                              const int64_t *interior);
WEFT_API weft_value *weft_concat(weft_graph *g, int axis, int count, weft_value *const *values);
/* Joins equal shapes along a new axis. */
WEFT_API weft_value *weft_stack(weft_graph *g, int axis, int count, weft_value *const *values);
/* starts: rank scalars of i64, clamped so that the slice fits. */
WEFT_API weft_value *weft_dynamic_slice(weft_graph *g, weft_value *x, weft_value *const *starts, const weft_dim *sizes);
WEFT_API weft_value *weft_dynamic_update_slice(weft_graph *g, weft_value *x, weft_value *update,
                                               weft_value *const *starts);
/* Keeps (upper: j - i >= diagonal, else j - i <= diagonal) of the last two axes, zero elsewhere. diagonal: i64 scalar.
 */
WEFT_API weft_value *weft_triangle(weft_graph *g, weft_value *x, bool upper, weft_value *diagonal);

/* -- indexed access */
typedef enum weft_reduction { WEFT_SUM, WEFT_PRODUCT, WEFT_MAX, WEFT_MIN, WEFT_AND, WEFT_OR, WEFT_SET } weft_reduction;

/* The StableHLO pair. Field names as its attributes (update_window_axes of scatter = offset_axes, inserted axes =
   collapsed_axes). sizes: gather only, one per axis of x. */
typedef struct weft_gather_options {
    size_t struct_bytes;
    int offset_count, collapsed_count, index_map_count;
    const int64_t *offset_axes, *collapsed_axes, *index_map;
    int index_axis;
    const weft_dim *sizes;
} weft_gather_options;
#define WEFT_GATHER_OPTIONS_INIT {sizeof(weft_gather_options), 0, 0, 0, 0, 0, 0, 0, 0}
WEFT_API weft_value *weft_gather(weft_graph *g, weft_value *x, weft_value *starts, const weft_gather_options *options);
/* kind: WEFT_SET, SUM, PRODUCT, MAX or MIN. Updates apply in index order; those out of bounds are dropped. */
WEFT_API weft_value *weft_scatter(weft_graph *g, weft_reduction kind, weft_value *x, weft_value *indices,
                                  weft_value *updates, const weft_gather_options *options);
/* x's slices along axis by i64/i32 indices of any shape (numpy.take): shape = x before axis, indices, x after axis.
   Indices must lie in [0, extent): others are clamped. */
WEFT_API weft_value *weft_take(weft_graph *g, weft_value *x, weft_value *indices, int axis);
/* Rows of table [V, D] by ids of any shape: weft_take along axis 0. */
WEFT_API weft_value *weft_embedding(weft_graph *g, weft_value *table, weft_value *ids);
/* result[..., i, ...] = x[..., indices[..., i, ...], ...] along axis (numpy.take_along_axis without broadcasting). */
WEFT_API weft_value *weft_take_along(weft_graph *g, weft_value *x, weft_value *indices, int axis);
/* The inverse of weft_take_along: x with updates put at indices along axis. */
WEFT_API weft_value *weft_put_along(weft_graph *g, weft_reduction kind, weft_value *x, weft_value *indices,
                                    weft_value *updates, int axis);
/* indices [..., K]: addresses of x's first K axes (numpy x[tuple]); result [..., rest of x]. */
WEFT_API weft_value *weft_gather_nd(weft_graph *g, weft_value *x, weft_value *indices);
WEFT_API weft_value *weft_scatter_nd(weft_graph *g, weft_reduction kind, weft_value *x, weft_value *indices,
                                     weft_value *updates);
/* One more axis of extent depth at `axis`: on where the index says, off elsewhere; on and off are scalars. */
WEFT_API weft_value *weft_one_hot(weft_graph *g, weft_value *indices, weft_dim depth, int axis, weft_value *on,
                                  weft_value *off);

/* -- reductions. axis_count 0 = over all axes; keep: reduced axes stay with extent 1 */
WEFT_API weft_value *weft_reduce(weft_graph *g, weft_reduction kind, weft_value *x, int axis_count, const int64_t *axes,
                                 bool keep);
WEFT_API weft_value *weft_reduce_sum(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);
WEFT_API weft_value *weft_reduce_product(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);
WEFT_API weft_value *weft_reduce_max(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);
WEFT_API weft_value *weft_reduce_min(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);
WEFT_API weft_value *weft_reduce_mean(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);
/* Mean of squared deviations (division by the count). */
WEFT_API weft_value *weft_reduce_variance(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes, bool keep);
/* log(sum(exp(x))), shifted by the maximum. */
WEFT_API weft_value *weft_reduce_log_sum_exp(weft_graph *g, weft_value *x, int axis_count, const int64_t *axes,
                                             bool keep);
/* i64 position of the extreme (kind WEFT_MAX or WEFT_MIN). */
WEFT_API weft_value *weft_arg_reduce(weft_graph *g, weft_reduction kind, weft_value *x, int axis, bool keep,
                                     bool select_last);
WEFT_API weft_value *weft_cumulative(weft_graph *g, weft_reduction kind, weft_value *x, int axis, bool exclusive,
                                     bool reverse);
WEFT_API weft_value *weft_softmax(weft_graph *g, weft_value *x, int axis);
WEFT_API weft_value *weft_log_softmax(weft_graph *g, weft_value *x, int axis);
/* (x - mean) / sqrt(variance + epsilon) * scale + bias over axes; scale and bias may be NULL and broadcast to the
   normalised axes. */
WEFT_API weft_value *weft_layer_norm(weft_graph *g, weft_value *x, weft_value *scale, weft_value *bias, int axis_count,
                                     const int64_t *axes, double epsilon);
/* x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich 2019). */
WEFT_API weft_value *weft_rms_norm(weft_graph *g, weft_value *x, weft_value *scale, int axis_count, const int64_t *axes,
                                   double epsilon);
/* Logits [N, C], i64 labels [N] -> [N]. */
WEFT_API weft_value *weft_cross_entropy(weft_graph *g, weft_value *logits, weft_value *labels);

/* -- order */
/* Sorts count arrays of one shape by the first; results[i] as values[i]. */
WEFT_API void weft_sort(weft_graph *g, int count, weft_value *const *values, int axis, bool descending, bool stable,
                        weft_value **results);
/* The k largest (or smallest) along axis, sorted, and their i64 positions. */
WEFT_API void weft_top_k(weft_graph *g, weft_value *x, weft_dim k, int axis, bool largest, weft_value **out_values,
                         weft_value **out_indices);
/* i64 [rank, bound] addresses of the non-zero elements in row-major order and their number, an i64 scalar. symbol names
   the data-dependent extent. */
WEFT_API void weft_nonzero(weft_graph *g, weft_value *x, const char *symbol, weft_value **out_indices,
                           weft_value **out_count);

/* -- products */

/* Result axes: batch, free axes of a, free axes of b. dtype WEFT_INVALID: a's; accumulate WEFT_INVALID: ops.def's rule.
 */
typedef struct weft_dot_options {
    size_t struct_bytes;
    int batch_count, contract_count;
    const int64_t *lhs_batch, *rhs_batch, *lhs_contract, *rhs_contract;
    weft_dtype dtype, accumulate;
} weft_dot_options;
#define WEFT_DOT_OPTIONS_INIT {sizeof(weft_dot_options), 0, 0, 0, 0, 0, 0, WEFT_INVALID, WEFT_INVALID}
WEFT_API weft_value *weft_dot_general(weft_graph *g, weft_value *a, weft_value *b, const weft_dot_options *options);
/* numpy.matmul: [..., M, K] x [..., K, N], leading axes broadcast; a vector operand gains and loses an axis. */
WEFT_API weft_value *weft_matmul(weft_graph *g, weft_value *a, weft_value *b);
/* The same with the dtype of the result. */
WEFT_API weft_value *weft_matmul_typed(weft_graph *g, weft_value *a, weft_value *b, weft_dtype dtype);

/* Groups of rows, each with its own matrix (experts). offsets i32 or i64 [G + 1], ascending: group g has the rows from
   offsets[g] up to offsets[g + 1]; they are data of the device, no shape. rhs_contract 1: x [M, K] with w [G, K, N] ->
   [M, N], rows of no group are 0; 2: the same with w [G, N, K]; 0: x [M, K] with w [M, N] -> [G, K, N], the sum of
   x[i]^T w[i] over the rows of each group. dtype of the result WEFT_INVALID: x's. Sums as weft_dot_general's. */
WEFT_API weft_value *weft_ragged_dot(weft_graph *g, weft_value *x, weft_value *w, weft_value *offsets,
                                     int64_t rhs_contract, weft_dtype dtype);

/* Blocks that share a scale: block_m rows of a, block_n of b, block_k neighbours in a row of either. 0: 1, 128, 128.
   dtype of the result WEFT_INVALID: bf16. */
typedef struct weft_scaled_dot_options {
    size_t struct_bytes;
    int64_t block_m, block_n, block_k;
    weft_dtype dtype;
} weft_scaled_dot_options;
#define WEFT_SCALED_DOT_OPTIONS_INIT {sizeof(weft_scaled_dot_options), 0, 0, 0, WEFT_INVALID}
/* Narrow floats (f8) times their scales, multiplied: a [..., M, K], b [..., N, K], scale_a [..., ceil(M / block_m),
   ceil(K / block_k)], scale_b [..., ceil(N / block_n), ceil(K / block_k)], scales of any float up to f32 ->
   [..., M, N]. Sums in f32. A matrix b [N, K] serves all leading axes of a where block_m is 1. options NULL: defaults.
 */
WEFT_API weft_value *weft_scaled_dot(weft_graph *g, weft_value *a, weft_value *b, weft_value *scale_a,
                                     weft_value *scale_b, const weft_scaled_dot_options *options);

/* Arrays have one entry per spatial axis; NULL = all 1 (stride, dilation, base_dilation) or all 0 (low, high). */
typedef struct weft_convolution_options {
    size_t struct_bytes;
    const int64_t *stride, *dilation, *base_dilation;
    const weft_dim *low, *high;
    int64_t groups; /* default 0 = 1 */
    weft_dtype dtype, accumulate;
} weft_convolution_options;
#define WEFT_CONVOLUTION_OPTIONS_INIT {sizeof(weft_convolution_options), 0, 0, 0, 0, 0, 0, WEFT_INVALID, WEFT_INVALID}
/* x [N, C, spatial...], w [O, C / groups, spatial...] -> [N, O, spatial...]; correlation. */
WEFT_API weft_value *weft_convolution(weft_graph *g, weft_value *x, weft_value *w,
                                      const weft_convolution_options *options);
/* Its transpose: w [C, O / groups, spatial...]; stride spreads the input, low and high cut the result (base_dilation
 * unused). */
WEFT_API weft_value *weft_convolution_transpose(weft_graph *g, weft_value *x, weft_value *w,
                                                const weft_convolution_options *options);

/* Windows over spatial axes 2...; arrays as above. overhang: positions past the padded input that a last window may
   cover; they are never counted (ceil mode). count_padding: an average divides by the window, padding included. A
   window of nothing but padding has the maximum -inf (the least integer), the sum 0 and the mean NaN. */
typedef struct weft_pool_options {
    size_t struct_bytes;
    const int64_t *window, *stride, *dilation;
    const weft_dim *low, *high, *overhang;
    bool count_padding;
} weft_pool_options;
#define WEFT_POOL_OPTIONS_INIT {sizeof(weft_pool_options), 0, 0, 0, 0, 0, 0, false}
WEFT_API weft_value *weft_max_pool(weft_graph *g, weft_value *x, const weft_pool_options *options);
WEFT_API weft_value *weft_sum_pool(weft_graph *g, weft_value *x, const weft_pool_options *options);
WEFT_API weft_value *weft_average_pool(weft_graph *g, weft_value *x, const weft_pool_options *options);
/* Windows over every axis: arrays have rank entries. */
typedef struct weft_window_options {
    size_t struct_bytes;
    const int64_t *window, *stride, *dilation, *base_dilation;
    const weft_dim *low, *high;
} weft_window_options;
#define WEFT_WINDOW_OPTIONS_INIT {sizeof(weft_window_options), 0, 0, 0, 0, 0, 0}
WEFT_API weft_value *weft_reduce_window(weft_graph *g, weft_reduction kind, weft_value *x,
                                        const weft_window_options *options);
/* Gradient of max pooling: each window's first maximum in x receives the sum of its sources. */
WEFT_API weft_value *weft_select_and_scatter(weft_graph *g, weft_value *x, weft_value *source,
                                             const weft_window_options *options);

/* q [B, H, T, D], k [B, Hkv, S, D], v [B, Hkv, S, E], mask NULL or additive or bool, broadcastable to [B, H, T, S];
   scale 0 = 1/sqrt(D). window -1 = unlimited. Vaswani et al. 2017; grouped heads: Ainslie et al. 2023. */
typedef struct weft_attention_options {
    size_t struct_bytes;
    double scale;
    bool causal;
    double soft_cap; /* 0 = none */
    int64_t window_left, window_right;
    double dropout;          /* share of the weights that become 0, in [0, 1); others times 1 / (1 - dropout). In whole
                                1 / 65536 */
    weft_value *dropout_key; /* u64 [2], with dropout: weights are dropped by key, head and place, always the same */
} weft_attention_options;
#define WEFT_ATTENTION_OPTIONS_INIT {sizeof(weft_attention_options), 0.0, false, 0.0, -1, -1, 0.0, 0}
WEFT_API weft_value *weft_attention(weft_graph *g, weft_value *q, weft_value *k, weft_value *v, weft_value *mask,
                                    const weft_attention_options *options);
/* x [..., T, D]; cos, sin [T, D / 2]. Su et al. 2021. interleaved: pairs (0, 1), (2, 3) ..., else halves. */
WEFT_API weft_value *weft_rope(weft_graph *g, weft_value *x, weft_value *cosine, weft_value *sine, bool interleaved);

/* -- linear algebra, on the last two axes; fft along one axis of a complex value */
WEFT_API weft_value *weft_fft(weft_graph *g, weft_value *x, int axis, bool inverse);
WEFT_API weft_value *weft_cholesky(weft_graph *g, weft_value *x, bool lower);
WEFT_API weft_value *weft_triangular_solve(weft_graph *g, weft_value *a, weft_value *b, bool left_side, bool lower,
                                           bool transpose_a, bool unit_diagonal);
WEFT_API void weft_qr(weft_graph *g, weft_value *x, weft_value **out_q, weft_value **out_r);
/* Of symmetric matrices, of which the lower triangle is read: eigenvalues [..., n], ascending, and eigenvectors as the
   columns of [..., n, n]; in each the first element beyond 0.37 / sqrt(n) is positive. */
WEFT_API void weft_eigh(weft_graph *g, weft_value *x, weft_value **out_values, weft_value **out_vectors);

/* -- random numbers: a function of key (u64 [2]) and logical index; bits as u16, u32 or u64. u16 is an eighth of the
   work: eight neighbours of a row-major index share a draw */
WEFT_API weft_value *weft_rng_bits(weft_graph *g, weft_value *key, weft_dtype dtype, int rank, const weft_dim *shape);
/* Uniform in [low, high), with the 24 (f32) or 53 (f64) top bits. */
WEFT_API weft_value *weft_random_uniform(weft_graph *g, weft_value *key, weft_dtype dtype, int rank,
                                         const weft_dim *shape, double low, double high);
/* Box and Muller 1958. */
WEFT_API weft_value *weft_random_normal(weft_graph *g, weft_value *key, weft_dtype dtype, int rank,
                                        const weft_dim *shape, double mean, double deviation);

/* -- control flow. A body sets every entry of results; it may use outer values. */
typedef void (*weft_body)(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results);
/* results[i] as init[i]. condition writes one bool scalar. bound: the largest trip count, -1 = unknown. */
WEFT_API void weft_while(weft_graph *g, int count, weft_value *const *init, int64_t bound, weft_body condition,
                         weft_body body, void *self, weft_value **results);
/* predicate: bool scalar. */
WEFT_API void weft_cond(weft_graph *g, weft_value *predicate, weft_body then_body, weft_body else_body, void *self,
                        int result_count, weft_value **results);
/* body(carries, slices of inputs along axis 0) -> (carries, slices of outputs); results: carries, stacked outputs. */
WEFT_API void weft_scan(weft_graph *g, int carry_count, weft_value *const *carries, int input_count,
                        weft_value *const *inputs, weft_dim trips, bool reverse, weft_body body, void *self,
                        int output_count, weft_value **results);

/* -- state and barriers. Reads and updates take effect in the order they were called; a read gives what the last update
   before it wrote (graph.h declares states) */
WEFT_API weft_value *weft_state_read(weft_graph *g, const char *name);
WEFT_API void weft_state_update(weft_graph *g, const char *name, weft_value *value);
WEFT_API weft_value *weft_optimization_barrier(weft_graph *g, weft_value *x);

#ifdef __cplusplus
}
#endif

#ifndef WEFT_OPS_NO_LOCATION
#define WEFT_OPS_HERE(g)                    weft_graph_at((g), __FILE__, __LINE__)
#define weft_scalar(g, ...)                 weft_scalar(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_scalar_integer(g, ...)         weft_scalar_integer(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_full(g, ...)                   weft_full(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_integers(g, ...)               weft_integers(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_iota(g, ...)                   weft_iota(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_extent(g, ...)                 weft_extent(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_abs(g, ...)                    weft_abs(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_neg(g, ...)                    weft_neg(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sign(g, ...)                   weft_sign(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_ceil(g, ...)                   weft_ceil(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_floor(g, ...)                  weft_floor(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_round(g, ...)                  weft_round(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_exp(g, ...)                    weft_exp(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_expm1(g, ...)                  weft_expm1(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_log(g, ...)                    weft_log(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_log1p(g, ...)                  weft_log1p(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sqrt(g, ...)                   weft_sqrt(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_rsqrt(g, ...)                  weft_rsqrt(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sin(g, ...)                    weft_sin(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_cos(g, ...)                    weft_cos(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_tan(g, ...)                    weft_tan(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_asin(g, ...)                   weft_asin(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_acos(g, ...)                   weft_acos(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_atan(g, ...)                   weft_atan(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sinh(g, ...)                   weft_sinh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_cosh(g, ...)                   weft_cosh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_asinh(g, ...)                  weft_asinh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_acosh(g, ...)                  weft_acosh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_atanh(g, ...)                  weft_atanh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_tanh(g, ...)                   weft_tanh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_logistic(g, ...)               weft_logistic(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_erf(g, ...)                    weft_erf(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_not(g, ...)                    weft_not(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_popcount(g, ...)               weft_popcount(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_is_nan(g, ...)                 weft_is_nan(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_is_finite(g, ...)              weft_is_finite(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reciprocal(g, ...)             weft_reciprocal(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_square(g, ...)                 weft_square(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_relu(g, ...)                   weft_relu(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_leaky_relu(g, ...)             weft_leaky_relu(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_elu(g, ...)                    weft_elu(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_clip(g, ...)                   weft_clip(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_hard_sigmoid(g, ...)           weft_hard_sigmoid(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_gelu(g, ...)                   weft_gelu(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_silu(g, ...)                   weft_silu(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_softplus(g, ...)               weft_softplus(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_convert(g, ...)                weft_convert(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_convert_saturate(g, ...)       weft_convert_saturate(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_bitcast(g, ...)                weft_bitcast(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_add(g, ...)                    weft_add(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sub(g, ...)                    weft_sub(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_mul(g, ...)                    weft_mul(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_div(g, ...)                    weft_div(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_rem(g, ...)                    weft_rem(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_mod(g, ...)                    weft_mod(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_pow(g, ...)                    weft_pow(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_max(g, ...)                    weft_max(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_min(g, ...)                    weft_min(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_atan2(g, ...)                  weft_atan2(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_and(g, ...)                    weft_and(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_or(g, ...)                     weft_or(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_xor(g, ...)                    weft_xor(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_shift_left(g, ...)             weft_shift_left(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_shift_right_logical(g, ...)    weft_shift_right_logical(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_shift_right_arithmetic(g, ...) weft_shift_right_arithmetic(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_complex(g, ...)                weft_complex(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_real(g, ...)                   weft_real(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_imag(g, ...)                   weft_imag(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_compare(g, ...)                weft_compare(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_where(g, ...)                  weft_where(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_add_number(g, ...)             weft_add_number(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_mul_number(g, ...)             weft_mul_number(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reshape(g, ...)                weft_reshape(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_transpose(g, ...)              weft_transpose(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_broadcast(g, ...)              weft_broadcast(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_broadcast_to(g, ...)           weft_broadcast_to(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_squeeze(g, ...)                weft_squeeze(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_unsqueeze(g, ...)              weft_unsqueeze(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_flatten(g, ...)                weft_flatten(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_slice(g, ...)                  weft_slice(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_slice_axis(g, ...)             weft_slice_axis(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reverse(g, ...)                weft_reverse(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_pad(g, ...)                    weft_pad(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_concat(g, ...)                 weft_concat(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_stack(g, ...)                  weft_stack(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_dynamic_slice(g, ...)          weft_dynamic_slice(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_dynamic_update_slice(g, ...)   weft_dynamic_update_slice(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_triangle(g, ...)               weft_triangle(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_gather(g, ...)                 weft_gather(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_scatter(g, ...)                weft_scatter(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_take(g, ...)                   weft_take(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_embedding(g, ...)              weft_embedding(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_take_along(g, ...)             weft_take_along(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_put_along(g, ...)              weft_put_along(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_gather_nd(g, ...)              weft_gather_nd(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_scatter_nd(g, ...)             weft_scatter_nd(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_one_hot(g, ...)                weft_one_hot(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce(g, ...)                 weft_reduce(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_sum(g, ...)             weft_reduce_sum(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_product(g, ...)         weft_reduce_product(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_max(g, ...)             weft_reduce_max(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_min(g, ...)             weft_reduce_min(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_mean(g, ...)            weft_reduce_mean(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_variance(g, ...)        weft_reduce_variance(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_log_sum_exp(g, ...)     weft_reduce_log_sum_exp(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_arg_reduce(g, ...)             weft_arg_reduce(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_cumulative(g, ...)             weft_cumulative(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_softmax(g, ...)                weft_softmax(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_log_softmax(g, ...)            weft_log_softmax(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_layer_norm(g, ...)             weft_layer_norm(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_rms_norm(g, ...)               weft_rms_norm(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_cross_entropy(g, ...)          weft_cross_entropy(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sort(g, ...)                   weft_sort(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_top_k(g, ...)                  weft_top_k(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_nonzero(g, ...)                weft_nonzero(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_dot_general(g, ...)            weft_dot_general(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_matmul(g, ...)                 weft_matmul(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_ragged_dot(g, ...)             weft_ragged_dot(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_scaled_dot(g, ...)             weft_scaled_dot(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_matmul_typed(g, ...)           weft_matmul_typed(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_convolution(g, ...)            weft_convolution(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_convolution_transpose(g, ...)  weft_convolution_transpose(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_max_pool(g, ...)               weft_max_pool(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_sum_pool(g, ...)               weft_sum_pool(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_average_pool(g, ...)           weft_average_pool(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_reduce_window(g, ...)          weft_reduce_window(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_select_and_scatter(g, ...)     weft_select_and_scatter(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_attention(g, ...)              weft_attention(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_rope(g, ...)                   weft_rope(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_fft(g, ...)                    weft_fft(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_cholesky(g, ...)               weft_cholesky(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_triangular_solve(g, ...)       weft_triangular_solve(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_qr(g, ...)                     weft_qr(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_eigh(g, ...)                   weft_eigh(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_rng_bits(g, ...)               weft_rng_bits(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_random_uniform(g, ...)         weft_random_uniform(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_random_normal(g, ...)          weft_random_normal(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_while(g, ...)                  weft_while(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_cond(g, ...)                   weft_cond(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_scan(g, ...)                   weft_scan(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_state_read(g, ...)             weft_state_read(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_state_update(g, ...)           weft_state_update(WEFT_OPS_HERE(g), __VA_ARGS__)
#define weft_optimization_barrier(g, ...)   weft_optimization_barrier(WEFT_OPS_HERE(g), __VA_ARGS__)
#endif
#endif
