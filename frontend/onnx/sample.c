/* ONNX operators that sample images: GridSample, AffineGrid, RoiAlign, Col2Im, NonMaxSuppression. Read next: loss.c. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

/* [N, C, D...] -> [N, D..., C]. */
static weft_value *channels_last(weft_graph *g, weft_value *x) {
    int64_t order[WEFT_MAX_RANK] = {0};
    int rank = x->type.rank;
    for (int i = 1; i < rank - 1; i++) order[i] = i + 1;
    order[rank - 1] = 1;
    return weft_transpose(g, x, order);
}

typedef struct grid {
    int spatial;
    bool cubic, nearest, align;
    const char *padding;
    weft_dtype dtype;
} grid;

static weft_value *extent_as(weft_graph *g, weft_dim extent, weft_dtype dtype) {
    return weft_convert(g, weft_extent(g, extent), dtype);
}

/* A coordinate folded back at both borders until it is inside. */
static weft_value *reflect(weft_graph *g, weft_value *at, weft_value *low, weft_value *high) {
    weft_value *span = weft_sub(g, high, low), *period = weft_mul_number(g, span, 2);
    if (weft_value_is_poison(period)) return period;
    period = weft_max(g, period, weft_onnx_scalar_like(g, period, 1e-30));
    weft_value *step = weft_mod(g, weft_sub(g, at, low), period);
    return weft_add(g, weft_min(g, step, weft_sub(g, period, step)), low);
}

/* Position of the taps of axis i: floor(at) + offset, moved inside; *inside is NULL when everything counts. */
static weft_value *tap_position(weft_graph *g, const grid *s, weft_value *at, int offset, weft_dim extent,
                                weft_value **inside) {
    weft_value *size = extent_as(g, extent, s->dtype), *zero = weft_scalar(g, s->dtype, 0),
               *last = weft_add_number(g, size, -1);
    weft_value *p = weft_add_number(g, s->nearest ? weft_round(g, at) : weft_floor(g, at), offset);
    *inside = NULL;
    if (strcmp(s->padding, "zeros") == 0)
        *inside = weft_and(g, weft_compare(g, WEFT_GE, p, zero), weft_compare(g, WEFT_LE, p, last));
    else if (strcmp(s->padding, "reflection") == 0)
        p = s->align ? reflect(g, p, zero, last)
                     : reflect(g, p, weft_scalar(g, s->dtype, -0.5), weft_add_number(g, size, -0.5));
    return weft_convert(g, weft_max(g, weft_min(g, p, last), zero), WEFT_I64);
}

static weft_value *tap_weight(weft_graph *g, const grid *s, weft_value *at, int offset) {
    weft_value *fraction = weft_sub(g, at, weft_floor(g, at)), *d = weft_abs(g, weft_add_number(g, fraction, -offset));
    if (!s->cubic) return weft_sub(g, weft_scalar(g, s->dtype, 1), d);
    const double a = -0.75;
    weft_value *d2 = weft_mul(g, d, d), *d3 = weft_mul(g, d2, d);
    if (offset == 0 || offset == 1)
        return weft_add_number(g, weft_sub(g, weft_mul_number(g, d3, a + 2), weft_mul_number(g, d2, a + 3)), 1);
    weft_value *far = weft_sub(g, weft_mul_number(g, d3, a), weft_mul_number(g, d2, 5 * a));
    return weft_add_number(g, weft_add(g, far, weft_mul_number(g, d, 8 * a)), -4 * a);
}

void weft_onnx_import_grid_sample(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *coordinates = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(coordinates)) return;
    const char *mode = weft_onnx_string(node, "mode", "linear");
    grid s = {.spatial = x->type.rank - 2,
              .cubic = strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0,
              .nearest = strcmp(mode, "nearest") == 0,
              .align = weft_onnx_int(node, "align_corners", 0) != 0,
              .padding = weft_onnx_string(node, "padding_mode", "zeros"),
              .dtype = weft_onnx_wide(coordinates->type.dtype)};
    int rank = coordinates->type.rank;
    if (s.spatial < 1 || s.spatial > 3 || rank != x->type.rank) {
        weft_onnx_problem(node, "input of rank %d with a grid of rank %d", x->type.rank, rank);
        return;
    }
    weft_value *at[3], *image = channels_last(g, weft_onnx_widen(g, x)), *sum = NULL;
    int64_t last = rank - 1;
    for (int i = 0; i < s.spatial; i++) {
        /* the grid's components run from the last spatial axis to the first; -1 and 1 are the borders */
        int component = s.spatial - 1 - i;
        weft_value *v = weft_convert(
            g, weft_squeeze(g, weft_slice_axis(g, coordinates, rank - 1, component, component + 1), 1, &last), s.dtype);
        weft_value *size = extent_as(g, x->type.dims[2 + i], s.dtype),
                   *unit = weft_mul_number(g, weft_add_number(g, v, 1), 0.5);
        at[i] = s.align ? weft_mul(g, unit, weft_add_number(g, size, -1))
                        : weft_add_number(g, weft_mul(g, unit, size), -0.5);
        if (strcmp(s.padding, "border") == 0 && !s.cubic)
            at[i] = weft_max(g, weft_min(g, at[i], weft_add_number(g, size, -1)), weft_scalar(g, s.dtype, 0));
    }
    if (weft_value_is_poison(at[0])) return;
    int taps = s.nearest ? 1 : s.cubic ? 4 : 2, total = 1;
    for (int i = 0; i < s.spatial; i++) total *= taps;
    for (int t = 0; t < total; t++) {
        weft_value *parts[4] = {weft_iota(g, WEFT_I64, at[0]->type.rank, at[0]->type.dims, 0)}, *weight = NULL,
                   *inside = NULL;
        for (int i = 0, rest = t; i < s.spatial; i++, rest /= taps) {
            int offset = rest % taps - (s.cubic ? 1 : 0);
            weft_value *valid;
            parts[1 + i] = tap_position(g, &s, at[i], offset, x->type.dims[2 + i], &valid);
            if (!s.nearest)
                weight =
                    weight ? weft_mul(g, weight, tap_weight(g, &s, at[i], offset)) : tap_weight(g, &s, at[i], offset);
            if (valid) inside = inside ? weft_and(g, inside, valid) : valid;
        }
        weft_value *picked =
            weft_gather_nd(g, image, weft_stack(g, rank - 1, s.spatial + 1, parts)); /* [N, out..., C] */
        if (weft_value_is_poison(picked)) return;
        if (inside)
            picked = weft_where(g, weft_unsqueeze(g, inside, 1, &last), picked, weft_onnx_scalar_like(g, picked, 0));
        if (weight)
            picked = weft_mul(g, picked, weft_convert(g, weft_unsqueeze(g, weight, 1, &last), picked->type.dtype));
        sum = sum ? weft_add(g, sum, picked) : picked;
    }
    int64_t order[WEFT_MAX_RANK] = {0, rank - 1};
    for (int i = 2; i < rank; i++) order[i] = i - 1;
    weft_onnx_output(node, 0, weft_convert(g, weft_transpose(g, sum, order), x->type.dtype));
}

/* theta [N, n, n + 1] times the positions of an image in [-1, 1]. */
void weft_onnx_import_affine_grid(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *theta = weft_onnx_input(node, 0);
    weft_dim size[WEFT_MAX_RANK];
    int count;
    bool align = weft_onnx_int(node, "align_corners", 0) != 0;
    if (weft_value_is_poison(theta) || !weft_onnx_extents(node, weft_onnx_input(node, 1), WEFT_MAX_RANK, &count, size))
        return;
    int n = count - 2;
    if (n < 2 || n > 3 || theta->type.rank != 3) {
        weft_onnx_problem(node, "wants sizes of 4 or 5 axes");
        return;
    }
    weft_dtype dtype = weft_onnx_wide(theta->type.dtype);
    weft_value *parts[4];
    for (int k = 0; k < n; k++) {
        int axis = n - 1 - k; /* x is the last axis */
        weft_value *extent = extent_as(g, size[2 + axis], dtype), *p = weft_iota(g, dtype, n, size + 2, axis);
        weft_value *last = weft_add_number(g, extent, -1);
        if (weft_value_is_poison(last)) return;
        parts[k] =
            align ? weft_add_number(
                        g, weft_div(g, weft_mul_number(g, p, 2), weft_max(g, last, weft_onnx_scalar_like(g, last, 1))),
                        -1)
                  : weft_add_number(g, weft_div(g, weft_add_number(g, weft_mul_number(g, p, 2), 1), extent), -1);
    }
    parts[n] = weft_full(g, dtype, n, size + 2, 1);
    weft_dim flat[2] = {WEFT_DIM_ANY, n + 1}, shape[5] = {theta->type.dims[0]};
    for (int i = 0; i < n; i++) shape[1 + i] = size[2 + i];
    shape[1 + n] = n;
    static const int64_t swap[3] = {0, 2, 1};
    weft_value *points = weft_reshape(g, weft_stack(g, n, n + 1, parts), 2, flat);
    weft_value *result = weft_matmul(g, points, weft_transpose(g, weft_convert(g, theta, dtype), swap)); /* [N, P, n] */
    weft_onnx_output(node, 0, weft_convert(g, weft_reshape(g, result, n + 2, shape), theta->type.dtype));
}

/* -- RoiAlign: rois [R, 4], each cut into out_h x out_w bins of samples */

typedef struct roi_axis {
    weft_value *low, *high;               /* i64 taps */
    weft_value *low_weight, *high_weight; /* their weights; 0 outside of the image or past the count of samples */
    weft_value *count;                    /* samples per bin, [R, 1, 1] */
} roi_axis;

/* All arrays are [R, bins, samples]. */
static roi_axis roi_positions(weft_graph *g, weft_value *start, weft_value *size, int64_t bins, int64_t samples,
                              bool adaptive, weft_dim extent) {
    roi_axis a;
    weft_dtype dtype = start->type.dtype;
    weft_dim shape[3] = {start->type.dims[0], bins, samples};
    weft_value *bin = weft_iota(g, dtype, 3, shape, 1),
               *sample = weft_add_number(g, weft_iota(g, dtype, 3, shape, 2), 0.5);
    weft_value *bin_size = weft_mul_number(g, size, 1.0 / (double)bins), *one = weft_scalar(g, dtype, 1),
               *zero = weft_scalar(g, dtype, 0);
    a.count = adaptive ? weft_max(g, weft_ceil(g, bin_size), zero) : weft_scalar(g, dtype, (double)samples);
    weft_value *step = weft_div(g, bin_size, weft_max(g, a.count, one));
    weft_value *at = weft_add(g, start, weft_add(g, weft_mul(g, bin, bin_size), weft_mul(g, sample, step)));
    weft_value *limit = extent_as(g, extent, dtype), *last = weft_add_number(g, limit, -1);
    weft_value *valid =
        weft_and(g, weft_compare(g, WEFT_GE, at, weft_scalar(g, dtype, -1)), weft_compare(g, WEFT_LE, at, limit));
    valid = weft_and(g, valid, weft_compare(g, WEFT_LT, sample, a.count));
    at = weft_min(g, weft_max(g, at, zero), last);
    weft_value *low = weft_floor(g, at), *fraction = weft_sub(g, at, low);
    a.low = weft_convert(g, low, WEFT_I64);
    a.high = weft_convert(g, weft_min(g, weft_add(g, low, one), last), WEFT_I64);
    a.low_weight = weft_where(g, valid, weft_sub(g, one, fraction), zero);
    a.high_weight = weft_where(g, valid, fraction, zero);
    return a;
}

void weft_onnx_import_roi_align(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *rois = weft_onnx_input(node, 1), *batch = weft_onnx_input(node, 2);
    if (weft_value_is_poison(x) || weft_value_is_poison(rois) || weft_value_is_poison(batch)) return;
    int64_t bins[2] = {weft_onnx_int(node, "output_height", 1), weft_onnx_int(node, "output_width", 1)},
            ratio = weft_onnx_int(node, "sampling_ratio", 0);
    double scale = weft_onnx_float(node, "spatial_scale", 1);
    bool half = node->version >= 16 &&
                !weft_onnx_string_is(node, "coordinate_transformation_mode", "half_pixel", "output_half_pixel");
    bool maximum = weft_onnx_string_is(node, "mode", "avg", "max");
    if (x->type.rank != 4 || rois->type.rank != 2 || bins[0] < 1 || bins[1] < 1 || bins[0] > 4096 || bins[1] > 4096 ||
        ratio < 0 || ratio > 4096) {
        weft_onnx_problem(node, "wants images of rank 4 and sizes below 4096");
        return;
    }
    weft_value *wide = weft_onnx_widen(g, rois);
    roi_axis axes[2];
    for (int i = 0; i < 2; i++) { /* 0: y, components 1 and 3; 1: x, components 0 and 2 */
        int64_t last = 2, extent, samples = ratio;
        weft_value *start = weft_mul_number(g, weft_slice_axis(g, wide, 1, 1 - i, 2 - i), scale),
                   *end = weft_mul_number(g, weft_slice_axis(g, wide, 1, 3 - i, 4 - i), scale);
        if (half) start = weft_add_number(g, start, -0.5), end = weft_add_number(g, end, -0.5);
        weft_value *size = weft_sub(g, end, start);
        if (weft_value_is_poison(size)) return;
        if (!half) size = weft_max(g, size, weft_onnx_scalar_like(g, size, 1));
        if (ratio == 0) {
            /* samples per bin follow the region's size, which the image bounds */
            if (!weft_onnx_dim_number(g, x->type.dims[2 + i], &extent))
                weft_onnx_problem(node, "sampling_ratio 0 needs a known image size");
            else
                samples = extent / bins[i] + 2;
            if (samples < 1) return;
        }
        axes[i] = roi_positions(g, weft_unsqueeze(g, start, 1, &last), weft_unsqueeze(g, size, 1, &last), bins[i],
                                samples, ratio == 0, x->type.dims[2 + i]);
    }
    /* [R, oh, ow, sh, sw] */
    static const int64_t y_axes[2] = {2, 4}, x_axes[2] = {1, 3}, batch_axes[4] = {1, 2, 3, 4};
    int64_t channel = 5, samples_axes[2] = {3, 4};
    weft_value *image = channels_last(g, weft_onnx_widen(g, x)), *result = NULL;
    for (int corner = 0; corner < 4; corner++) {
        weft_value *py = weft_unsqueeze(g, corner & 1 ? axes[0].high : axes[0].low, 2, y_axes),
                   *px = weft_unsqueeze(g, corner & 2 ? axes[1].high : axes[1].low, 2, x_axes);
        weft_value *wy = weft_unsqueeze(g, corner & 1 ? axes[0].high_weight : axes[0].low_weight, 2, y_axes);
        weft_value *wx = weft_unsqueeze(g, corner & 2 ? axes[1].high_weight : axes[1].low_weight, 2, x_axes),
                   *weight = weft_mul(g, wy, wx);
        if (weft_value_is_poison(weight)) return;
        weft_value *parts[3] = {weft_unsqueeze(g, weft_convert(g, batch, WEFT_I64), 4, batch_axes), py, px};
        for (int i = 0; i < 3; i++) parts[i] = weft_broadcast_to(g, parts[i], 5, weight->type.dims);
        weft_value *picked = weft_gather_nd(g, image, weft_stack(g, 5, 3, parts));
        picked = weft_mul(g, picked, weft_convert(g, weft_unsqueeze(g, weight, 1, &channel), WEFT_F32));
        result = !result ? picked : maximum ? weft_max(g, result, picked) : weft_add(g, result, picked);
    }
    if (maximum)
        result = weft_reduce_max(g, result, 2, samples_axes, false);
    else {
        weft_value *count =
            weft_max(g, weft_mul(g, axes[0].count, axes[1].count), weft_onnx_scalar_like(g, axes[0].count, 1));
        int64_t fourth = 3;
        if (count->type.rank == 3) count = weft_unsqueeze(g, count, 1, &fourth);
        result = weft_div(g, weft_reduce_sum(g, result, 2, samples_axes, false), weft_convert(g, count, WEFT_F32));
    }
    static const int64_t back[4] = {0, 3, 1, 2};
    weft_onnx_output(node, 0, weft_convert(g, weft_transpose(g, result, back), x->type.dtype));
}

/* -- Col2Im: blocks [N, C * block, L] added into an image */

void weft_onnx_import_col2im(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int64_t image[WEFT_MAX_RANK], block[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], dilation[WEFT_MAX_RANK],
        pads[2 * WEFT_MAX_RANK], block_size = 1, columns = 1;
    int n, blocks;
    if (weft_value_is_poison(x) || !weft_onnx_integers(node, weft_onnx_input(node, 1), 6, &n, image) ||
        !weft_onnx_integers(node, weft_onnx_input(node, 2), 6, &blocks, block))
        return;
    if (blocks != n || x->type.rank != 3 || !weft_onnx_ints_exact(node, "strides", n, 1, stride) ||
        !weft_onnx_ints_exact(node, "dilations", n, 1, dilation) ||
        !weft_onnx_ints_exact(node, "pads", 2 * n, 0, pads)) {
        weft_onnx_problem(node, "image and block of different ranks");
        return;
    }
    /* address of (block position, column) in the padded image, row-major: one table per axis, broadcast and added */
    weft_dim shape[WEFT_MAX_RANK], padded[WEFT_MAX_RANK], total = 1;
    for (int i = 0; i < n; i++) {
        padded[i] = image[i] + pads[i] + pads[i + n];
        int64_t count = stride[i] > 0 ? (padded[i] - dilation[i] * (block[i] - 1) - 1) / stride[i] + 1 : 0;
        if (count < 1 || block[i] < 1 || image[i] < 1 || padded[i] > 1 << 20 || block[i] > padded[i]) {
            weft_onnx_problem(node, "a block of %lld in an extent of %lld", (long long)block[i], (long long)padded[i]);
            return;
        }
        shape[i] = block[i], shape[n + i] = count, block_size *= block[i], columns *= count, total *= padded[i];
    }
    weft_value *address = NULL;
    weft_dim inner = 1;
    for (int i = n - 1; i >= 0; i--) {
        weft_value *offset =
            weft_mul(g, weft_iota(g, WEFT_I64, 2 * n, shape, i), weft_scalar_integer(g, WEFT_I64, dilation[i] * inner));
        weft_value *origin = weft_mul(g, weft_iota(g, WEFT_I64, 2 * n, shape, n + i),
                                      weft_scalar_integer(g, WEFT_I64, stride[i] * inner));
        weft_value *sum = weft_add(g, offset, origin);
        address = address ? weft_add(g, address, sum) : sum;
        inner *= padded[i];
    }
    weft_dim index_shape[2] = {block_size * columns, 1}, batch = x->type.dims[0],
             channels = weft_dim_divide_floor(g->dims, x->type.dims[1], block_size);
    weft_dim split[4] = {batch, channels, block_size, columns}, rows[3] = {block_size * columns, batch, channels},
             zero_shape[3] = {total, batch, channels};
    static const int64_t order[4] = {2, 3, 0, 1}, back[3] = {1, 2, 0};
    weft_value *updates = weft_reshape(g, weft_transpose(g, weft_reshape(g, x, 4, split), order), 3, rows);
    weft_value *y = weft_scatter_nd(g, WEFT_SUM, weft_full(g, x->type.dtype, 3, zero_shape, 0),
                                    weft_reshape(g, address, 2, index_shape), updates);
    weft_dim full[WEFT_MAX_RANK] = {batch, channels}, start[WEFT_MAX_RANK] = {0},
             limit[WEFT_MAX_RANK] = {batch, channels};
    for (int i = 0; i < n; i++) full[2 + i] = padded[i], start[2 + i] = pads[i], limit[2 + i] = pads[i] + image[i];
    weft_onnx_output(node, 0,
                     weft_slice(g, weft_reshape(g, weft_transpose(g, y, back), 2 + n, full), start, limit, NULL));
}

/* -- NonMaxSuppression: boxes [N, B, 4], scores [N, C, B]. Boxes are visited by falling score; one is kept unless a
   kept one before it overlaps too much */

typedef struct suppression {
    weft_value *limit; /* i64 scalar: kept boxes per class; NULL = any number */
} suppression;

/* carry: kept [N, C, B] so far (bool), count [N, C, 1]; slices: overlaps of this box with all [N, C, B], valid [N, C,
   1], one-hot of this box [B]. */
static void suppression_step(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const suppression *s = self;
    int64_t last = 2;
    weft_value *hit = weft_reduce(g, WEFT_OR, weft_and(g, arguments[0], arguments[2]), 1, &last, true);
    weft_value *keep = weft_and(g, arguments[3], weft_not(g, hit));
    if (s->limit) keep = weft_and(g, keep, weft_compare(g, WEFT_LT, arguments[1], s->limit));
    results[0] = weft_or(g, arguments[0], weft_and(g, keep, arguments[4]));
    results[1] = weft_add(g, arguments[1], weft_convert(g, keep, WEFT_I64));
}

/* Corners y1, x1, y2, x2 of boxes [N, B, 4] as four [N, B]. */
static void box_corners(weft_graph *g, weft_value *boxes, bool centre, weft_value **corners) {
    weft_value *c[4];
    int64_t last = 2;
    for (int i = 0; i < 4; i++) c[i] = weft_squeeze(g, weft_slice_axis(g, boxes, 2, i, i + 1), 1, &last);
    if (!centre) {
        corners[0] = weft_min(g, c[0], c[2]), corners[1] = weft_min(g, c[1], c[3]);
        corners[2] = weft_max(g, c[0], c[2]), corners[3] = weft_max(g, c[1], c[3]);
        return;
    }
    for (int i = 0; i < 2; i++) { /* x_centre, y_centre, width, height */
        weft_value *half = weft_mul_number(g, c[3 - i], 0.5);
        corners[i] = weft_sub(g, c[1 - i], half), corners[2 + i] = weft_add(g, c[1 - i], half);
    }
}

/* Overlap (intersection over union) above the threshold for all pairs: bool [N, B, B]. */
static weft_value *overlapping(weft_graph *g, weft_value *const *corners, weft_value *threshold) {
    int64_t row = 2, column = 1;
    weft_value *a[4], *b[4];
    for (int i = 0; i < 4; i++)
        a[i] = weft_unsqueeze(g, corners[i], 1, &row), b[i] = weft_unsqueeze(g, corners[i], 1, &column);
    weft_value *height = weft_relu(g, weft_sub(g, weft_min(g, a[2], b[2]), weft_max(g, a[0], b[0])));
    weft_value *width = weft_relu(g, weft_sub(g, weft_min(g, a[3], b[3]), weft_max(g, a[1], b[1])));
    weft_value *common = weft_mul(g, height, width);
    weft_value *area_a = weft_mul(g, weft_sub(g, a[2], a[0]), weft_sub(g, a[3], a[1])),
               *area_b = weft_mul(g, weft_sub(g, b[2], b[0]), weft_sub(g, b[3], b[1]));
    return weft_compare(g, WEFT_GT, common, weft_mul(g, threshold, weft_sub(g, weft_add(g, area_a, area_b), common)));
}

static weft_value *scalar_input(weft_onnx_node *node, int input) {
    weft_value *x = weft_onnx_optional(node, input);
    return x ? weft_reshape(node->graph, x, 0, NULL) : NULL;
}

void weft_onnx_import_non_max_suppression(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *boxes = weft_onnx_input(node, 0), *scores = weft_onnx_input(node, 1), *corners[4];
    if (weft_value_is_poison(boxes) || weft_value_is_poison(scores)) return;
    weft_value *iou = scalar_input(node, 3), *least = scalar_input(node, 4);
    /* without the third input nothing is selected */
    suppression s = {.limit = weft_onnx_has(node, 2) ? weft_convert(g, scalar_input(node, 2), WEFT_I64)
                                                     : weft_scalar_integer(g, WEFT_I64, 0)};
    weft_dim n = scores->type.dims[0], c = scores->type.dims[1], b = scores->type.dims[2], wide[4] = {n, c, b, b},
             sorted_shape[3] = {n, c, b}, one[3] = {n, c, 1}, square[2] = {b, b};
    box_corners(g, boxes, weft_onnx_int(node, "center_point_box", 0) != 0, corners);
    weft_value *pairs = overlapping(g, corners, iou ? iou : weft_scalar(g, WEFT_F32, 0));
    weft_value *order_in[2] = {scores, weft_iota(g, WEFT_I64, 3, sorted_shape, 2)}, *sorted[2];
    weft_sort(g, 2, order_in, 2, true, true, sorted);
    /* rows and columns of the overlap table in the order of each class */
    int64_t class_axis = 1, last_axis = 3, row_axis = 2;
    static const int64_t to_front[4] = {2, 0, 1, 3}, to_front_valid[3] = {2, 0, 1};
    weft_value *table = weft_broadcast_to(g, weft_unsqueeze(g, pairs, 1, &class_axis), 4, wide);
    weft_value *rows = weft_broadcast_to(g, weft_unsqueeze(g, sorted[1], 1, &last_axis), 4, wide),
               *columns = weft_broadcast_to(g, weft_unsqueeze(g, sorted[1], 1, &row_axis), 4, wide);
    table = weft_take_along(g, weft_take_along(g, table, rows, 2), columns, 3);
    weft_value *valid =
        least ? weft_compare(g, WEFT_GT, sorted[0], least) : weft_full(g, WEFT_BOOL, 3, sorted_shape, 1);
    valid = weft_transpose(g, valid, to_front_valid);
    valid = weft_unsqueeze(g, valid, 1, &last_axis); /* [B, N, C, 1] */
    weft_value *identity =
        weft_compare(g, WEFT_EQ, weft_iota(g, WEFT_I64, 2, square, 0), weft_iota(g, WEFT_I64, 2, square, 1));
    weft_value *inputs[3] = {weft_transpose(g, table, to_front), valid, identity};
    weft_value *carries[2] = {weft_full(g, WEFT_BOOL, 3, sorted_shape, 0), weft_full(g, WEFT_I64, 3, one, 0)},
               *results[2];
    weft_scan(g, 2, carries, 3, inputs, b, false, suppression_step, &s, 0, results);
    /* rows (batch, class, place in order); the place becomes the box */
    weft_dim count;
    weft_value *found = weft_onnx_nonzero(node, results[0], &count);
    static const int64_t swap[2] = {1, 0};
    weft_value *address = weft_transpose(g, found, swap), *box = weft_gather_nd(g, sorted[1], address);
    int64_t second = 1;
    weft_value *parts[2] = {weft_slice_axis(g, address, 1, 0, 2), weft_unsqueeze(g, box, 1, &second)};
    weft_onnx_output(node, 0, weft_concat(g, 1, 2, parts));
}
