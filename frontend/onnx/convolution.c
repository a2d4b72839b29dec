/* ONNX convolutions. Read next: pool.c. */
#include <string.h>

#include "frontend/onnx/import.h"
#include "frontend/onnx/window.h"

/* Explicit pads, or SAME_* (the output has ceil(in / stride) positions), or VALID. */
bool weft_onnx_window_pads(weft_onnx_node *node, const weft_dim *extents, weft_onnx_window *w) {
    weft_graph *g = node->graph;
    int64_t pads[2 * WEFT_MAX_RANK];
    const char *mode = weft_onnx_string(node, "auto_pad", "NOTSET");
    bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    if (!upper && !lower && strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0) {
        weft_onnx_problem(node, "auto_pad %s", mode);
        return false;
    }
    if (!weft_onnx_ints_exact(node, "pads", 2 * w->spatial, 0, pads)) return false;
    for (int i = 0; i < w->spatial; i++) {
        w->low[i] = w->high[i] = 0;
        if (strcmp(mode, "NOTSET") == 0) {
            w->low[i] = weft_onnx_dim(g, pads[i]), w->high[i] = weft_onnx_dim(g, pads[i + w->spatial]);
        } else if (upper || lower) {
            weft_dim out = weft_dim_divide_ceil(g->dims, extents[i], w->stride[i]);
            weft_dim reach = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, out, 1), w->stride[i]);
            reach = weft_dim_add(g->dims, reach, (w->window[i] - 1) * w->dilation[i] + 1);
            weft_dim total = weft_dim_maximum(g->dims, weft_dim_subtract(g->dims, reach, extents[i]), 0);
            weft_dim half = weft_dim_divide_floor(g->dims, total, 2), rest = weft_dim_subtract(g->dims, total, half);
            w->low[i] = upper ? half : rest, w->high[i] = upper ? rest : half;
        }
    }
    return true;
}

bool weft_onnx_window_read(weft_onnx_node *node, int spatial, const weft_dim *kernel, weft_onnx_window *w) {
    w->spatial = spatial;
    if (!weft_onnx_ints_exact(node, "strides", spatial, 1, w->stride) ||
        !weft_onnx_ints_exact(node, "dilations", spatial, 1, w->dilation) ||
        !weft_onnx_ints_exact(node, "kernel_shape", spatial, 0, w->window))
        return false;
    for (int i = 0; i < spatial; i++) {
        int64_t size;
        if (kernel && weft_onnx_dim_number(node->graph, kernel[i], &size)) {
            if (w->window[i] && w->window[i] != size) {
                weft_onnx_problem(node, "kernel_shape says %lld at axis %d, the weights have %lld",
                                  (long long)w->window[i], i, (long long)size);
                return false;
            }
            w->window[i] = size;
        }
        if (w->window[i] >= 1 && w->stride[i] >= 1 && w->dilation[i] >= 1) continue;
        weft_onnx_problem(node, "window axis %d: kernel %lld, stride %lld, dilation %lld", i, (long long)w->window[i],
                          (long long)w->stride[i], (long long)w->dilation[i]);
        return false;
    }
    return true;
}

static bool fits(weft_onnx_node *node, const weft_value *x, const weft_value *w) {
    if (weft_value_is_poison(x) || weft_value_is_poison(w)) return false;
    if (weft_onnx_int(node, "group", 1) < 1) {
        weft_onnx_problem(node, "group is %lld", (long long)weft_onnx_int(node, "group", 1));
        return false;
    }
    if (x->type.rank < 3 || w->type.rank != x->type.rank)
        weft_onnx_problem(node, "input of rank %d with weights of rank %d", x->type.rank, w->type.rank);
    return x->type.rank >= 3 && w->type.rank == x->type.rank;
}

static weft_value *convolve(weft_onnx_node *node, weft_value *x, weft_value *w) {
    weft_onnx_window window;
    int spatial = x->type.rank - 2;
    if (!weft_onnx_window_read(node, spatial, w->type.dims + 2, &window) ||
        !weft_onnx_window_pads(node, x->type.dims + 2, &window))
        return weft_value_poison(node->graph);
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = window.stride, options.dilation = window.dilation, options.low = window.low,
    options.high = window.high;
    options.groups = weft_onnx_int(node, "group", 1);
    return weft_convolution(node->graph, x, w, &options);
}

void weft_onnx_import_conv(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *w = weft_onnx_input(node, 1), *bias = weft_onnx_optional(node, 2);
    if (!fits(node, x, w)) return;
    weft_value *y = convolve(node, x, w);
    weft_onnx_output(node, 0, bias ? weft_add(g, y, weft_onnx_along_channels(g, bias, x->type.rank)) : y);
}

void weft_onnx_import_conv_transpose(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *w = weft_onnx_input(node, 1), *bias = weft_onnx_optional(node, 2);
    if (!fits(node, x, w)) return;
    int spatial = x->type.rank - 2, shape_count;
    int64_t extra[WEFT_MAX_RANK], pads[2 * WEFT_MAX_RANK];
    const int64_t *shape;
    weft_onnx_window window;
    if (!weft_onnx_window_read(node, spatial, w->type.dims + 2, &window) ||
        !weft_onnx_ints_exact(node, "output_padding", spatial, 0, extra) ||
        !weft_onnx_ints_exact(node, "pads", 2 * spatial, 0, pads))
        return;
    const char *mode = weft_onnx_string(node, "auto_pad", "NOTSET");
    bool given = weft_onnx_ints(node, "output_shape", &shape_count, &shape) && shape_count >= spatial;
    bool same = strncmp(mode, "SAME", 4) == 0;
    for (int i = 0; i < spatial; i++) {
        weft_dim extent = x->type.dims[i + 2];
        window.low[i] = weft_onnx_dim(g, pads[i]), window.high[i] = weft_onnx_dim(g, pads[i + spatial]);
        if (given || same) {
            /* the full result is cut to the wanted extent */
            weft_dim full = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, extent, 1), window.stride[i]);
            full = weft_dim_add(g->dims, full,
                                weft_onnx_dim(g, extra[i] + (window.window[i] - 1) * window.dilation[i] + 1));
            weft_dim want =
                given ? shape[shape_count - spatial + i] : weft_dim_multiply(g->dims, extent, window.stride[i]);
            weft_dim total = weft_dim_subtract(g->dims, full, want);
            weft_dim half = weft_dim_divide_floor(g->dims, weft_dim_maximum(g->dims, total, 0), 2),
                     rest = weft_dim_subtract(g->dims, total, half);
            bool upper = strcmp(mode, "SAME_UPPER") == 0;
            window.low[i] = upper ? half : rest, window.high[i] = upper ? rest : half;
            if (given && !same && weft_dim_is_number(total) == false) window.low[i] = 0, window.high[i] = total;
        }
        window.high[i] = weft_dim_subtract(g->dims, window.high[i], extra[i]);
    }
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = window.stride, options.dilation = window.dilation, options.low = window.low,
    options.high = window.high;
    options.groups = weft_onnx_int(node, "group", 1);
    weft_value *y = weft_convolution_transpose(g, x, w, &options);
    weft_onnx_output(node, 0, bias ? weft_add(g, y, weft_onnx_along_channels(g, bias, x->type.rank)) : y);
}

/* Integers minus their zero points, in i32. A vector of weight zero points goes along the output channels. */
static weft_value *centred(weft_graph *g, weft_value *x, weft_value *zero, bool weights) {
    weft_value *wide = weft_convert(g, x, WEFT_I32);
    if (!zero || weft_value_is_poison(zero) || weft_value_is_poison(wide)) return wide;
    zero = weft_convert(g, zero, WEFT_I32);
    if (zero->type.rank == 1 && zero->type.dims[0] == 1) zero = weft_reshape(g, zero, 0, NULL);
    if (weights && zero->type.rank == 1) {
        weft_dim shape[WEFT_MAX_RANK];
        for (int i = 0; i < wide->type.rank; i++) shape[i] = i == 0 ? zero->type.dims[0] : 1;
        zero = weft_reshape(g, zero, wide->type.rank, shape);
    }
    return weft_sub(g, wide, zero);
}

void weft_onnx_import_conv_integer(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *w = weft_onnx_input(node, 1);
    if (!fits(node, x, w)) return;
    x = centred(node->graph, x, weft_onnx_optional(node, 2), false),
    w = centred(node->graph, w, weft_onnx_optional(node, 3), true);
    if (fits(node, x, w)) weft_onnx_output(node, 0, convolve(node, x, w));
}

void weft_onnx_import_qlinear_conv(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *w = weft_onnx_input(node, 3), *bias = weft_onnx_optional(node, 8),
               *y_zero = weft_onnx_input(node, 7);
    if (!fits(node, x, w) || weft_value_is_poison(y_zero)) return;
    int rank = x->type.rank;
    x = centred(g, x, weft_onnx_input(node, 2), false), w = centred(g, w, weft_onnx_input(node, 5), true);
    if (!fits(node, x, w)) return;
    weft_value *y = convolve(node, x, w);
    if (bias) y = weft_add(g, y, weft_onnx_along_channels(g, weft_convert(g, bias, WEFT_I32), rank));
    weft_value *w_scale = weft_onnx_input(node, 4);
    if (weft_value_is_poison(w_scale)) return;
    if (w_scale->type.rank == 1)
        w_scale =
            w_scale->type.dims[0] == 1 ? weft_reshape(g, w_scale, 0, NULL) : weft_onnx_along_channels(g, w_scale, rank);
    weft_value *x_scale = weft_onnx_input(node, 1), *y_scale = weft_onnx_input(node, 6);
    if (weft_value_is_poison(x_scale) || weft_value_is_poison(y_scale)) return;
    weft_value *scale =
        weft_div(g, weft_mul(g, weft_reshape(g, x_scale, 0, NULL), w_scale), weft_reshape(g, y_scale, 0, NULL));
    weft_onnx_output(node, 0, weft_onnx_requantize(g, weft_mul(g, weft_convert(g, y, WEFT_F32), scale), y_zero));
}

/* Depthwise 1-d convolution over [past state, input]; the last k - 1 positions are the next state. */
void weft_onnx_import_causal_conv_with_state(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *w = weft_onnx_input(node, 1), *bias = weft_onnx_optional(node, 2),
               *past = weft_onnx_optional(node, 3);
    if (!fits(node, x, w)) return;
    int64_t k, channels;
    if (!weft_onnx_dim_number(g, w->type.dims[2], &k) || !weft_onnx_dim_number(g, w->type.dims[0], &channels) ||
        k < 1) {
        weft_onnx_problem(node, "wants weights [channels, 1, k] of a known size");
        return;
    }
    weft_dim state_shape[3] = {x->type.dims[0], x->type.dims[1], k - 1};
    weft_value *parts[2] = {past ? past : weft_full(g, x->type.dtype, 3, state_shape, 0), x};
    weft_value *padded = weft_concat(g, 2, 2, parts);
    if (weft_value_is_poison(padded)) return;
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.groups = channels;
    weft_value *y = weft_convolution(g, padded, w, &options);
    if (bias) y = weft_add(g, y, weft_onnx_along_channels(g, bias, 3));
    const char *activation = weft_onnx_string(node, "activation", "none");
    if (strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0)
        y = weft_silu(g, y);
    else if (strcmp(activation, "none") != 0)
        weft_onnx_problem(node, "activation %s", activation);
    weft_onnx_output(node, 0, y);
    weft_dim length = padded->type.dims[2];
    weft_onnx_output(node, 1, weft_slice_axis(g, padded, 2, weft_dim_subtract(g->dims, length, k - 1), length));
}
