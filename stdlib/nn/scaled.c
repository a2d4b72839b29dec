/* Linear layers on 8-bit floats with a scale for each block. Activations and gradients have a scale for each row and
   128 neighbours, weights for each 128 x 128: what weft_scaled_dot multiplies in one kernel where the target can.
   Source: the recipe of DeepSeek-V3 (2024), section 3.3; here gradients of weights are products in 16 bits. Read next:
   weft/nn.h. */
#include "weft/nn.h"
#include "weft/transform.h"

#include "base/dtype.h"
#include "stdlib/nn/mixed.h"

enum { BLOCK = 128, MAX_RANK = 16 };

/* Zeros behind an axis, so that it is whole blocks. */
static weft_value *pad_axis(weft_graph *g, weft_value *x, int axis) {
    weft_dim low[2] = {0, 0}, high[2] = {0, 0};
    high[axis] = (BLOCK - weft_value_dim(x, axis) % BLOCK) % BLOCK;
    return high[axis] ? weft_pad(g, x, weft_scalar(g, weft_value_dtype(x), 0), low, high, NULL) : x;
}

/* x [R, K], scales by 1 x BLOCK or BLOCK x BLOCK. */
static weft_value *quantize_matrix(weft_graph *g, weft_value *x, weft_nn_narrow narrow, bool square,
                                   weft_value **out_scale) {
    weft_dtype dtype = narrow == WEFT_NN_E5M2 ? WEFT_F8E5M2 : WEFT_F8E4M3FN;
    double largest = narrow == WEFT_NN_E5M2 ? 57344 : 448;
    *out_scale = x; /* what has not two axes: matmul says so */
    if (!x || weft_value_rank(x) != 2) return weft_matmul(g, x, NULL);
    weft_dim rows = weft_value_dim(x, 0), k = weft_value_dim(x, 1);
    x = pad_axis(g, x, 1);
    if (square) x = pad_axis(g, x, 0);
    weft_dim all[2] = {weft_value_dim(x, 0), weft_value_dim(x, 1)}, wide = all[1] / BLOCK;
    weft_dim by_rows[3] = {all[0], wide, BLOCK}, by_squares[4] = {all[0] / BLOCK, BLOCK, wide, BLOCK};
    int64_t inner[2] = {1, 3}, last[1] = {2}, kept[2] = {0, square ? 2 : 1};
    int rank = square ? 4 : 3; /* blocks of rows are one kernel: axes of 1 between would part its reduction */
    weft_value *parts = weft_nn_as(g, weft_reshape(g, x, rank, square ? by_squares : by_rows), WEFT_F32);
    weft_value *most = weft_reduce_max(g, weft_abs(g, parts), square ? 2 : 1, square ? inner : last, false);
    /* of a block of zeros any scale is right */
    weft_value *scale = weft_mul_number(g, weft_max(g, most, weft_scalar(g, WEFT_F32, 1e-30)), 1 / largest);
    weft_value *each = weft_broadcast(g, scale, rank, square ? by_squares : by_rows, kept);
    weft_value *small = weft_convert_saturate(g, weft_div(g, parts, each), dtype);
    *out_scale = scale;
    small = weft_slice_axis(g, weft_reshape(g, small, 2, all), 1, 0, k);
    return square ? weft_slice_axis(g, small, 0, 0, rows) : small;
}

weft_value *weft_nn_quantize_blocks(weft_graph *g, weft_value *x, weft_nn_narrow narrow, bool square,
                                    weft_value **out_scale) {
    weft_value *ignored;
    if (!out_scale) out_scale = &ignored;
    int rank = x ? weft_value_rank(x) : 0;
    *out_scale = x;
    for (int axis = rank - (square ? 2 : 1); axis >= 0 && axis < rank; axis++) {
        if (weft_value_dim(x, axis) >= 0) continue;
        weft_graph_report(g,
                          WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                      "weft_nn_quantize_blocks: the extent of axis %d of %d is no number", axis, rank));
        *out_scale = NULL;
        return NULL;
    }
    if (rank <= 2 || square) /* what is no matrix is a problem of the ops that take it */
        return quantize_matrix(g, x, narrow, square, out_scale);
    weft_dim dims[MAX_RANK], rows = 1;
    for (int i = 0; i < rank; i++) dims[i] = weft_value_dim(x, i);
    for (int i = 0; i < rank - 1; i++) rows = weft_dim_times(g, rows, dims[i]);
    weft_value *flat = weft_reshape(g, x, 2, (weft_dim[]){rows, dims[rank - 1]});
    weft_value *small = weft_reshape(g, quantize_matrix(g, flat, narrow, false, out_scale), rank, dims);
    dims[rank - 1] = (dims[rank - 1] + BLOCK - 1) / BLOCK;
    *out_scale = weft_reshape(g, *out_scale, rank, dims);
    return small;
}

/* x [T, I] times w [O, I] transposed, both quantized. */
static weft_value *product(weft_graph *g, weft_value *x, weft_value *w, weft_value *scale_w, weft_dtype dtype) {
    weft_value *scale_x, *small = weft_nn_quantize_blocks(g, x, WEFT_NN_E4M3, false, &scale_x);
    weft_scaled_dot_options options = WEFT_SCALED_DOT_OPTIONS_INIT;
    options.dtype = dtype;
    return weft_scaled_dot(g, small, w, scale_x, scale_w, &options);
}

/* arguments: x [T, I], weight [O, I] */
static void forward(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    weft_value *scale, *small = weft_nn_quantize_blocks(g, arguments[1], WEFT_NN_E4M3, true, &scale);
    results[0] = product(g, arguments[0], small, scale, weft_value_dtype(arguments[0]));
}

/* arguments: x, weight, y, dy. Through the rounding as if it were none; dx is a product of 8 bits again, whose weights
   are those of the forward pass with rows for columns, dweight one in the dtype of x. */
static void backward(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    int64_t swap[2] = {1, 0};
    weft_value *x = arguments[0], *dy = arguments[3], *scale;
    weft_value *small = weft_nn_quantize_blocks(g, arguments[1], WEFT_NN_E4M3, true, &scale);
    results[0] = product(g, dy, weft_transpose(g, small, swap), weft_transpose(g, scale, swap), weft_value_dtype(x));
    weft_value *dw = weft_matmul(g, weft_transpose(g, dy, swap), x);
    results[1] = weft_nn_as(g, dw, weft_value_dtype(arguments[1]));
}

/* What would be converted without a word, or taken for another product. */
static bool is_linear(weft_graph *g, const weft_value *x, const weft_value *weight) {
    weft_dtype of[2] = {weft_value_dtype(x), weft_value_dtype(weight)};
    if (of[0] == WEFT_INVALID || of[1] == WEFT_INVALID) return false; /* has its problem already */
    if (weft_value_rank(x) >= 1 && weft_value_rank(weight) == 2 && weft_dtype_is_float(of[0]) &&
        weft_dtype_is_float(of[1]) && weft_value_dim(weight, 0) >= 0 && weft_value_dim(weight, 1) >= 0)
        return true;
    if (weft_value_rank(weight) == 2 && (weft_value_dim(weight, 0) < 0 || weft_value_dim(weight, 1) < 0)) {
        weft_graph_report(
            g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_linear_f8: an extent of the weight [O, I] is no number"));
        return false;
    }
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                     "weft_nn_linear_f8: x is %s of rank %d and the weight %s of rank %d; floats are "
                                     "wanted, the weight a matrix [O, I]",
                                     weft_dtype_name(of[0]), weft_value_rank(x), weft_dtype_name(of[1]),
                                     weft_value_rank(weight)));
    return false;
}

weft_value *weft_nn_linear_f8(weft_graph *g, weft_value *x, weft_value *weight, weft_value *bias) {
    if (!x || !weight) return weft_matmul(g, x, weight);
    int rank = weft_value_rank(x);
    if (!is_linear(g, x, weight)) return NULL;
    weft_dim dims[MAX_RANK], rows = 1;
    for (int i = 0; i < rank; i++) dims[i] = weft_value_dim(x, i);
    for (int i = 0; i < rank - 1; i++) rows = weft_dim_times(g, rows, dims[i]);
    weft_value *arguments[2] = {weft_reshape(g, x, 2, (weft_dim[]){rows, dims[rank - 1]}), weight}, *y;
    weft_custom_vjp(g, 2, arguments, forward, backward, NULL, 1, &y);
    dims[rank - 1] = weft_value_dim(weight, 0);
    y = weft_reshape(g, y, rank, dims);
    if (!bias) return y;
    weft_dtype sum = weft_value_dtype(bias);
    return weft_nn_as(g, weft_add(g, weft_nn_as(g, y, sum), bias), weft_value_dtype(x));
}
