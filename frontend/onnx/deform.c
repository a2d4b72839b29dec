/* ONNX DeformConv: a convolution whose kernel positions are moved by learned offsets (Dai et al. 2017, with the mask of
   Zhu et al. 2019). N batch, C channels, D offset groups, K kernel positions, P output positions, G weight groups. */
#include <string.h>

#include "frontend/onnx/import.h"
#include "frontend/onnx/window.h"

typedef struct deform {
    weft_value *image; /* [N, D, H, W, C / D] in f32 or f64 */
    weft_value *at[2]; /* y and x, [N, D, K, OH, OW] */
    weft_dim extent[2];
} deform;

/* One of the four neighbours of every position with its weight; 0 outside of the image. */
static weft_value *corner(weft_graph *g, const deform *d, int which) {
    const weft_type *type = &d->at[0]->type;
    weft_value *parts[4] = {weft_iota(g, WEFT_I64, 5, type->dims, 0), weft_iota(g, WEFT_I64, 5, type->dims, 1)};
    weft_value *weight = NULL, *inside = NULL;
    for (int i = 0; i < 2; i++) {
        bool far = (which >> i) & 1;
        weft_value *low = weft_floor(g, d->at[i]), *fraction = weft_sub(g, d->at[i], low);
        weft_value *position = far ? weft_add_number(g, low, 1) : low;
        weft_value *last = weft_add_number(g, weft_convert(g, weft_extent(g, d->extent[i]), type->dtype), -1);
        weft_value *zero = weft_scalar(g, type->dtype, 0);
        weft_value *valid =
            weft_and(g, weft_compare(g, WEFT_GE, position, zero), weft_compare(g, WEFT_LE, position, last));
        weft_value *share = far ? fraction : weft_sub(g, weft_scalar(g, type->dtype, 1), fraction);
        weight = weight ? weft_mul(g, weight, share) : share;
        inside = inside ? weft_and(g, inside, valid) : valid;
        parts[2 + i] = weft_convert(g, weft_max(g, weft_min(g, position, last), zero), WEFT_I64);
    }
    int64_t channel = 5;
    weft_value *picked = weft_gather_nd(g, d->image, weft_stack(g, 5, 4, parts));
    weight = weft_where(g, inside, weight, weft_scalar(g, type->dtype, 0));
    return weft_mul(g, picked, weft_unsqueeze(g, weight, 1, &channel));
}

/* Kernel positions without offsets plus the offsets [N, D, K, 2, OH, OW]. */
static void positions(weft_graph *g, deform *d, const weft_onnx_window *w, weft_value *offsets) {
    int64_t pair = 3;
    for (int i = 0; i < 2; i++) {
        weft_value *moved = weft_squeeze(g, weft_slice_axis(g, offsets, 3, i, i + 1), 1, &pair);
        if (weft_value_is_poison(moved)) {
            d->at[i] = moved;
            continue;
        }
        weft_dtype dtype = moved->type.dtype;
        weft_value *out = weft_iota(g, WEFT_I64, 5, moved->type.dims, 3 + i),
                   *tap = weft_iota(g, WEFT_I64, 5, moved->type.dims, 2);
        weft_value *columns = weft_scalar_integer(g, WEFT_I64, w->window[1]);
        tap = i == 0 ? weft_div(g, tap, columns) : weft_rem(g, tap, columns);
        weft_value *base = weft_add(g, weft_mul(g, out, weft_scalar_integer(g, WEFT_I64, w->stride[i])),
                                    weft_mul(g, tap, weft_scalar_integer(g, WEFT_I64, w->dilation[i])));
        base = weft_sub(g, base, weft_extent(g, w->low[i]));
        d->at[i] = weft_add(g, weft_convert(g, base, dtype), moved);
    }
}

void weft_onnx_import_deform_conv(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *weights = weft_onnx_input(node, 1), *offsets = weft_onnx_input(node, 2),
               *bias = weft_onnx_optional(node, 3), *mask = weft_onnx_optional(node, 4);
    if (weft_value_is_poison(x) || weft_value_is_poison(weights) || weft_value_is_poison(offsets)) return;
    weft_onnx_window w;
    int64_t groups = weft_onnx_int(node, "group", 1), offset_groups = weft_onnx_int(node, "offset_group", 1);
    if (x->type.rank != 4 || weights->type.rank != 4 || offsets->type.rank != 4 || groups < 1 || offset_groups < 1) {
        weft_onnx_problem(node, "two spatial axes and at least one group are wanted");
        return;
    }
    if (!weft_onnx_window_read(node, 2, weights->type.dims + 2, &w) ||
        !weft_onnx_window_pads(node, x->type.dims + 2, &w))
        return;
    weft_dtype dtype = x->type.dtype;
    int64_t k = w.window[0] * w.window[1];
    weft_dim n = x->type.dims[0], c = x->type.dims[1], out_h = offsets->type.dims[2], out_w = offsets->type.dims[3];
    weft_dim per = weft_dim_divide_floor(g->dims, c, offset_groups);
    weft_dim split[5] = {n, offset_groups, per, x->type.dims[2], x->type.dims[3]},
             offset_shape[6] = {n, offset_groups, k, 2, out_h, out_w};
    static const int64_t channels_last[5] = {0, 1, 3, 4, 2}, channels_first[6] = {0, 1, 5, 2, 3, 4};
    deform d = {.extent = {x->type.dims[2], x->type.dims[3]}};
    d.image = weft_transpose(g, weft_reshape(g, weft_onnx_widen(g, x), 5, split), channels_last);
    positions(g, &d, &w, weft_reshape(g, weft_onnx_widen(g, offsets), 6, offset_shape));
    if (weft_value_is_poison(d.at[0]) || weft_value_is_poison(d.at[1])) return;
    weft_value *sampled = NULL; /* [N, D, K, OH, OW, C / D] */
    for (int i = 0; i < 4; i++) sampled = sampled ? weft_add(g, sampled, corner(g, &d, i)) : corner(g, &d, i);
    if (mask) {
        weft_dim mask_shape[6] = {n, offset_groups, k, out_h, out_w, 1};
        sampled = weft_mul(g, sampled, weft_reshape(g, weft_onnx_widen(g, mask), 6, mask_shape));
    }
    /* [N, G, C / G * K, P] times weights [G, O / G, C / G * K] */
    weft_dim rows = weft_dim_multiply(g->dims, weft_dim_divide_floor(g->dims, c, groups), k),
             out = weights->type.dims[0];
    weft_dim columns[4] = {n, groups, rows, weft_dim_multiply(g->dims, out_h, out_w)};
    weft_dim kernel[3] = {groups, weft_dim_divide_floor(g->dims, out, groups), rows},
             result[4] = {n, out, out_h, out_w};
    weft_value *y = weft_matmul(g, weft_reshape(g, weft_onnx_widen(g, weights), 3, kernel),
                                weft_reshape(g, weft_transpose(g, sampled, channels_first), 4, columns));
    y = weft_reshape(g, y, 4, result);
    if (bias) y = weft_add(g, y, weft_onnx_along_channels(g, weft_onnx_widen(g, bias), 4));
    if (!weft_value_is_poison(y)) weft_onnx_output(node, 0, weft_convert(g, y, dtype));
}
