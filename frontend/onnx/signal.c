/* ONNX signal operators: Fourier transforms as products with a matrix of roots of unity (any length, any target),
   windows, mel weights, random numbers. Read next: ml.c. */
#include <math.h>
#include <string.h>

#include "base/tensor.h"
#include "frontend/onnx/import.h"

static const double two_pi = 6.283185307179586476925;

/* cos or sin of 2 pi (row * column mod n) / n, [n, columns], in f64: products are reduced before the division. */
static weft_value *roots(weft_onnx_node *node, int64_t n, int64_t columns, bool sine, weft_dtype dtype) {
    weft_tensor *tensor = NULL;
    int64_t shape[2] = {n, columns};
    weft_status status = weft_tensor_create(node->import->context, dtype, 2, shape, &tensor);
    for (int64_t i = 0; !status && i < n; i++)
        for (int64_t k = 0; k < columns; k++) {
            double angle = two_pi * (double)(i * k % n) / (double)n;
            weft_element_set_double(dtype, tensor->data, i * columns + k, sine ? sin(angle) : cos(angle));
        }
    return weft_onnx_constant(node->import, status, tensor, NULL);
}

enum { FOURIER_MAX = 8192 };

/* x [..., n] real and imaginary (NULL = real input) -> [..., columns]. inverse conjugates and divides by n. */
static void fourier(weft_onnx_node *node, weft_value *real, weft_value *imaginary, int64_t n, int64_t columns,
                    bool inverse, weft_value **out_real, weft_value **out_imaginary) {
    weft_graph *g = node->graph;
    weft_dtype dtype = real->type.dtype;
    weft_value *cosine = roots(node, n, columns, false, dtype), *sine = roots(node, n, columns, true, dtype);
    /* exp(-i a) = cos a - i sin a forward; the sign of sin turns for the inverse */
    *out_real = weft_matmul(g, real, cosine);
    weft_value *cross = weft_matmul(g, real, sine);
    *out_imaginary = inverse ? cross : weft_neg(g, cross);
    if (imaginary) {
        weft_value *part = weft_matmul(g, imaginary, sine);
        *out_real = inverse ? weft_sub(g, *out_real, part) : weft_add(g, *out_real, part);
        *out_imaginary = weft_add(g, *out_imaginary, weft_matmul(g, imaginary, cosine));
    }
    if (inverse)
        *out_real = weft_mul_number(g, *out_real, 1.0 / (double)n),
        *out_imaginary = weft_mul_number(g, *out_imaginary, 1.0 / (double)n);
}

/* axis to the last place; applying it again with back = true undoes it. */
static weft_value *swap_last(weft_graph *g, weft_value *x, int axis) {
    int64_t order[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return x;
    for (int i = 0; i < x->type.rank; i++) order[i] = i;
    order[axis] = x->type.rank - 1, order[x->type.rank - 1] = axis;
    return weft_transpose(g, x, order);
}

/* Cut or padded with zeros to n entries on the last axis. */
static weft_value *fit_length(weft_graph *g, weft_value *x, int64_t n) {
    if (weft_value_is_poison(x)) return x;
    weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    high[x->type.rank - 1] = weft_dim_subtract(g->dims, n, x->type.dims[x->type.rank - 1]);
    return weft_pad(g, x, weft_onnx_scalar_like(g, x, 0), low, high, NULL);
}

/* Half a spectrum [..., n / 2 + 1] of a real signal completed by its conjugate. sign -1 for imaginary parts. */
static weft_value *complete(weft_graph *g, weft_value *x, int64_t n, double sign) {
    if (weft_value_is_poison(x)) return x;
    int64_t half = n / 2 + 1, last = x->type.rank - 1;
    weft_value *tail = weft_reverse(g, weft_slice_axis(g, x, -1, 1, n - half + 1), 1, &last);
    weft_value *parts[2] = {x, sign < 0 ? weft_neg(g, tail) : tail};
    return n - half > 0 ? weft_concat(g, -1, 2, parts) : x;
}

void weft_onnx_import_dft(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank;
    int64_t axis = node->version >= 20 ? -2 : weft_onnx_int(node, "axis", 1), n, parts;
    bool inverse = weft_onnx_int(node, "inverse", 0) != 0, onesided = weft_onnx_int(node, "onesided", 0) != 0;
    if (node->version >= 20 && weft_onnx_has(node, 2) && !weft_onnx_integer(node, weft_onnx_input(node, 2), &axis))
        return;
    if (axis < 0) axis += rank;
    if (rank < 2 || axis < 0 || axis >= rank - 1 || !weft_onnx_dim_number(g, x->type.dims[rank - 1], &parts) ||
        parts < 1 || parts > 2) {
        weft_onnx_problem(node, "axis %lld of rank %d; the last axis holds 1 (real) or 2 (complex) numbers",
                          (long long)axis, rank);
        return;
    }
    bool half_in = inverse && onesided;
    if (weft_onnx_has(node, 1)) {
        if (!weft_onnx_integer(node, weft_onnx_input(node, 1), &n)) return;
    } else if (weft_onnx_dim_number(g, x->type.dims[axis], &n)) {
        if (half_in) n = 2 * (n - 1);
    } else
        n = -1;
    if (n < 1 || n > FOURIER_MAX) {
        weft_onnx_problem(node, "a transform of a known length from 1 to %d is wanted", FOURIER_MAX);
        return;
    }
    weft_dtype dtype = x->type.dtype, wide = weft_onnx_wide(dtype);
    int64_t last = rank - 1;
    weft_value *values[2] = {NULL, NULL}, *out[2];
    for (int i = 0; i < parts; i++) {
        values[i] = weft_squeeze(g, weft_slice_axis(g, weft_convert(g, x, wide), -1, i, i + 1), 1, &last);
        values[i] = fit_length(g, swap_last(g, values[i], (int)axis), half_in ? n / 2 + 1 : n);
        if (half_in) values[i] = complete(g, values[i], n, i ? -1 : 1);
        if (weft_value_is_poison(values[i])) return;
    }
    fourier(node, values[0], values[1], n, onesided && !inverse ? n / 2 + 1 : n, inverse, &out[0], &out[1]);
    for (int i = 0; i < 2; i++) out[i] = swap_last(g, out[i], (int)axis);
    weft_value *result = weft_stack(g, rank - 1, half_in ? 1 : 2, out);
    if (!weft_value_is_poison(result)) weft_onnx_output(node, 0, weft_convert(g, result, dtype));
}

/* signal [B, L, 1 or 2] -> [B, frames, bins, 2]. */
void weft_onnx_import_stft(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *window = weft_onnx_optional(node, 2);
    int64_t hop, n = 0, parts;
    if (weft_value_is_poison(x) || !weft_onnx_integer(node, weft_onnx_input(node, 1), &hop)) return;
    if (weft_onnx_has(node, 3)) {
        if (!weft_onnx_integer(node, weft_onnx_input(node, 3), &n)) return;
    } else if (window && !weft_value_is_poison(window))
        (void)weft_onnx_dim_number(g, window->type.dims[0], &n);
    weft_dim one = 1;
    if (x->type.rank == 2) x = weft_unsqueeze(g, x, 1, (const int64_t[]){2});
    if (x->type.rank != 3 || n < 1 || n > FOURIER_MAX || hop < 1 || !weft_onnx_dim_number(g, x->type.dims[2], &parts) ||
        parts < 1 || parts > 2) {
        weft_onnx_problem(node, "a frame length from 1 to %d and a hop of at least 1 are wanted", FOURIER_MAX);
        return;
    }
    bool onesided = weft_onnx_int(node, "onesided", 1) != 0;
    weft_dim frames = weft_dim_add(
                 g->dims, weft_dim_divide_floor(g->dims, weft_dim_subtract(g->dims, x->type.dims[1], n), hop), one),
             shape[2] = {frames, n};
    weft_value *at =
        weft_add(g, weft_mul(g, weft_iota(g, WEFT_I64, 2, shape, 0), weft_scalar_integer(g, WEFT_I64, hop)),
                 weft_iota(g, WEFT_I64, 2, shape, 1));
    weft_dtype dtype = x->type.dtype, wide = weft_onnx_wide(dtype);
    weft_value *values[2] = {NULL, NULL}, *out[2];
    int64_t last = 2;
    for (int i = 0; i < parts; i++) {
        values[i] = weft_squeeze(g, weft_slice_axis(g, weft_convert(g, x, wide), 2, i, i + 1), 1, &last);
        values[i] = weft_take(g, values[i], at, 1);
        if (window) values[i] = weft_mul(g, values[i], weft_convert(g, window, wide));
        if (weft_value_is_poison(values[i])) return;
    }
    fourier(node, values[0], values[1], n, onesided ? n / 2 + 1 : n, false, &out[0], &out[1]);
    weft_value *result = weft_stack(g, 3, 2, out);
    if (!weft_value_is_poison(result)) weft_onnx_output(node, 0, weft_convert(g, result, dtype));
}

/* a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N). */
void weft_onnx_import_window(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    const char *name = node->proto->op_type;
    weft_dim size;
    weft_dtype dtype = weft_onnx_dtype_attribute(node, "output_datatype", WEFT_F32);
    if (!weft_onnx_extent(node, weft_onnx_input(node, 0), &size) || dtype == WEFT_INVALID) return;
    double a0 = 0.5, a1 = 0.5, a2 = 0;
    if (strcmp(name, "HammingWindow") == 0) a0 = 25.0 / 46, a1 = 21.0 / 46;
    if (strcmp(name, "BlackmanWindow") == 0) a0 = 0.42, a1 = 0.5, a2 = 0.08;
    weft_dim divisor =
        weft_onnx_int(node, "periodic", 1) ? size : weft_dim_maximum(g->dims, weft_dim_subtract(g->dims, size, 1), 1);
    weft_value *turn = weft_div(g, weft_mul_number(g, weft_iota(g, WEFT_F64, 1, &size, 0), two_pi),
                                weft_convert(g, weft_extent(g, divisor), WEFT_F64));
    weft_value *y = weft_add_number(g, weft_mul_number(g, weft_cos(g, turn), -a1), a0);
    if (a2 != 0) y = weft_add(g, y, weft_mul_number(g, weft_cos(g, weft_mul_number(g, turn, 2)), a2));
    weft_onnx_output(node, 0, weft_convert(g, y, dtype));
}

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double hertz_of(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* Triangles of num_mel_bins over the bins of a spectrum, [dft_length / 2 + 1, num_mel_bins]. */
void weft_onnx_import_mel_weight_matrix(weft_onnx_node *node) {
    int64_t bins, length, rate;
    double low, high;
    weft_dtype dtype = weft_onnx_dtype_attribute(node, "output_datatype", WEFT_F32);
    if (!weft_onnx_integer(node, weft_onnx_input(node, 0), &bins) ||
        !weft_onnx_integer(node, weft_onnx_input(node, 1), &length) ||
        !weft_onnx_integer(node, weft_onnx_input(node, 2), &rate) ||
        !weft_onnx_number(node, weft_onnx_input(node, 3), &low) ||
        !weft_onnx_number(node, weft_onnx_input(node, 4), &high) || dtype == WEFT_INVALID)
        return;
    if (bins < 1 || bins > 1 << 16 || length < 1 || length > 1 << 20 || rate < 1) {
        weft_onnx_problem(node, "%lld bins of a length of %lld", (long long)bins, (long long)length);
        return;
    }
    int64_t rows = length / 2 + 1, shape[2] = {rows, bins};
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create(node->import->context, dtype, 2, shape, &tensor);
    double low_mel = mel_of(low), step = (mel_of(high) - low_mel) / (double)(bins + 2);
    for (int64_t k = 0; !status && k < bins; k++) {
        int64_t edge[3];
        for (int i = 0; i < 3; i++)
            edge[i] = (int64_t)floor((double)(length + 1) * hertz_of((double)(k + i) * step + low_mel) / (double)rate);
        for (int64_t r = 0; r < rows; r++) {
            double weight = 0;
            if (edge[1] == edge[0] ? r == edge[1] : r >= edge[0] && r <= edge[1])
                weight = edge[1] == edge[0] ? 1 : (double)(r - edge[0]) / (double)(edge[1] - edge[0]);
            if (edge[2] > edge[1] && r >= edge[1] && r < edge[2])
                weight = (double)(edge[2] - r) / (double)(edge[2] - edge[1]);
            weft_element_set_double(dtype, tensor->data, r * bins + k, weight);
        }
    }
    weft_onnx_output(node, 0, weft_onnx_constant(node->import, status, tensor, NULL));
}

/* -- random numbers: the key is made of the seed attribute, or of the node's number in the model when there is none */

static weft_value *key_of(weft_onnx_node *node) {
    const Onnx__AttributeProto *seed = weft_onnx_attribute(node, "seed");
    uint32_t bits = 0;
    if (seed) memcpy(&bits, &seed->f, sizeof bits);
    uint64_t key[2] = {bits, seed ? 1 : (uint64_t)node->graph->next_id};
    int64_t shape[1] = {2};
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create_copy(node->import->context, WEFT_U64, 1, shape, key, &tensor);
    return weft_onnx_constant(node->import, status, tensor, NULL);
}

void weft_onnx_import_random(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    bool like = weft_onnx_has(node, 0), normal = strncmp(node->proto->op_type, "RandomNormal", 12) == 0;
    weft_dtype dtype = WEFT_F32;
    int rank = 0;
    weft_dim shape[WEFT_MAX_RANK];
    if (like) {
        weft_value *x = weft_onnx_input(node, 0);
        if (weft_value_is_poison(x)) return;
        rank = x->type.rank, dtype = weft_dtype_is_float(x->type.dtype) ? x->type.dtype : WEFT_F32;
        for (int i = 0; i < rank; i++) shape[i] = x->type.dims[i];
    } else {
        bool ok;
        int64_t extents[WEFT_MAX_RANK];
        if (!weft_onnx_axes(node, -1, "shape", &rank, extents, &ok) || !ok) return;
        for (int i = 0; i < rank; i++) shape[i] = extents[i] < 0 ? 0 : extents[i];
    }
    dtype = weft_onnx_dtype_attribute(node, "dtype", dtype);
    if (!weft_dtype_is_float(dtype)) {
        weft_onnx_problem(node, "random numbers of type %s", weft_dtype_name(dtype));
        return;
    }
    weft_onnx_output(node, 0,
                     normal ? weft_random_normal(g, key_of(node), dtype, rank, shape, weft_onnx_float(node, "mean", 0),
                                                 weft_onnx_float(node, "scale", 1))
                            : weft_random_uniform(g, key_of(node), dtype, rank, shape, weft_onnx_float(node, "low", 0),
                                                  weft_onnx_float(node, "high", 1)));
}

void weft_onnx_import_bernoulli(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    weft_dtype dtype = weft_onnx_dtype_attribute(node, "dtype", x->type.dtype);
    weft_value *wide = weft_onnx_widen(g, x),
               *draw = weft_random_uniform(g, key_of(node), wide->type.dtype, x->type.rank, x->type.dims, 0, 1);
    if (dtype != WEFT_INVALID) weft_onnx_output(node, 0, weft_convert(g, weft_compare(g, WEFT_LT, draw, wide), dtype));
}

/* Identity at inference; in training mode elements vanish with probability ratio and the rest grows. */
void weft_onnx_import_dropout(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    double ratio = node->version < 12 ? weft_onnx_float(node, "ratio", 0.5) : 0.5;
    int64_t training = node->version < 7 ? !weft_onnx_int(node, "is_test", 0) : 0;
    if (node->version >= 12) {
        if (weft_onnx_has(node, 2) && !weft_onnx_integer(node, weft_onnx_input(node, 2), &training)) return;
        if (training && weft_onnx_has(node, 1) && !weft_onnx_number(node, weft_onnx_input(node, 1), &ratio)) return;
    }
    weft_dtype mask_dtype = node->version < 10 ? x->type.dtype : WEFT_BOOL;
    if (!training || ratio == 0) {
        weft_onnx_output(node, 0, x);
        weft_onnx_output(node, 1, weft_full(g, mask_dtype, x->type.rank, x->type.dims, 1));
        return;
    }
    weft_value *draw = weft_random_uniform(g, key_of(node), WEFT_F32, x->type.rank, x->type.dims, 0, 1);
    weft_value *keep = weft_compare(g, WEFT_GE, draw, weft_scalar(g, WEFT_F32, ratio));
    weft_value *grown = weft_mul_number(g, x, ratio < 1 ? 1 / (1 - ratio) : 0);
    weft_onnx_output(node, 0, weft_where(g, keep, grown, weft_onnx_scalar_like(g, x, 0)));
    weft_onnx_output(node, 1, weft_convert(g, keep, mask_dtype));
}
