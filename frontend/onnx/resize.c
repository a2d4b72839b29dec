/* ONNX Resize and Upsample: one axis after the other, each a weighted sum of taps whose positions and weights are
   vectors computed in the graph (they fold when extents are known). Read next: sample.c. Source: ONNX 1.22; Keys 1981
   (cubic). */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

typedef struct resize {
    const char *mode, *transform, *nearest;
    bool antialias, exclude_outside, extrapolate;
    double cubic, extrapolation;
} resize;

/* One axis: out = extent of the result; scale = out / in where sizes are given. */
typedef struct axis_plan {
    weft_dim in, out;
    double scale;
    bool scale_known, scaled; /* scaled: the scale was given, not the size */
    double start, end;        /* region of tf_crop_and_resize */
} axis_plan;

static weft_value *number(weft_graph *g, double value) { return weft_scalar(g, WEFT_F64, value); }
static weft_value *extent_number(weft_graph *g, weft_dim extent) {
    return weft_convert(g, weft_extent(g, extent), WEFT_F64);
}

/* Positions of the result's elements in the input, f64 [out]. */
static weft_value *source_positions(weft_onnx_node *node, const resize *r, const axis_plan *p) {
    weft_graph *g = node->graph;
    weft_value *x = weft_iota(g, WEFT_F64, 1, &p->out, 0), *in = extent_number(g, p->in),
               *out = p->scaled ? weft_mul_number(g, in, p->scale)
                                : extent_number(g, p->out); /* not cut to a whole number */
    weft_value *scale = p->scale_known ? number(g, p->scale) : weft_div(g, out, in);
    weft_value *half = number(g, 0.5), *one = number(g, 1), *last_in = weft_sub(g, in, one),
               *last_out = weft_max(g, weft_sub(g, out, one), one);
    weft_value *centred = weft_sub(g, weft_div(g, weft_add(g, x, half), scale), half);
    weft_value *many = weft_compare(g, WEFT_GT, out, one);
    const char *t = r->transform;
    if (strcmp(t, "half_pixel") == 0) return centred;
    if (strcmp(t, "asymmetric") == 0) return weft_div(g, x, scale);
    if (strcmp(t, "pytorch_half_pixel") == 0) return weft_where(g, many, centred, number(g, 0));
    if (strcmp(t, "tf_half_pixel_for_nn") == 0) return weft_div(g, weft_add(g, x, half), scale);
    if (strcmp(t, "align_corners") == 0)
        return weft_where(g, many, weft_div(g, weft_mul(g, x, last_in), last_out), number(g, 0));
    if (strcmp(t, "half_pixel_symmetric") == 0) {
        weft_value *adjustment = weft_div(g, extent_number(g, p->out), weft_mul(g, scale, in));
        weft_value *offset = weft_mul(g, weft_mul(g, in, half), weft_sub(g, one, adjustment));
        return weft_add(g, offset, centred);
    }
    if (strcmp(t, "tf_crop_and_resize") == 0) {
        weft_value *step = weft_div(g, weft_mul(g, x, weft_mul(g, last_in, number(g, p->end - p->start))), last_out);
        weft_value *first = weft_mul(g, last_in, number(g, p->start));
        return weft_where(g, many, weft_add(g, first, step),
                          weft_mul(g, last_in, number(g, 0.5 * (p->start + p->end))));
    }
    weft_onnx_problem(node, "coordinate_transformation_mode %s", t);
    return weft_value_poison(g);
}

/* Weight of a tap at a distance (already scaled for antialiasing). */
static weft_value *tap_weight(weft_graph *g, const resize *r, weft_value *distance) {
    weft_value *d = weft_abs(g, distance), *one = number(g, 1), *zero = number(g, 0);
    if (strcmp(r->mode, "cubic") != 0) return weft_max(g, weft_sub(g, one, d), zero);
    double a = r->cubic;
    weft_value *d2 = weft_mul(g, d, d), *d3 = weft_mul(g, d2, d);
    weft_value *near = weft_add_number(g, weft_sub(g, weft_mul_number(g, d3, a + 2), weft_mul_number(g, d2, a + 3)), 1);
    weft_value *far = weft_sub(g, weft_mul_number(g, d3, a), weft_mul_number(g, d2, 5 * a));
    far = weft_add_number(g, weft_add(g, far, weft_mul_number(g, d, 8 * a)), -4 * a);
    weft_value *rest = weft_where(g, weft_compare(g, WEFT_LT, d, number(g, 2)), far, zero);
    return weft_where(g, weft_compare(g, WEFT_LE, d, one), near, rest);
}

/* A [out, taps] table beside axis `axis` of a tensor whose axis became (out, taps). */
static weft_value *beside(weft_graph *g, weft_value *table, int rank, int axis) {
    weft_dim shape[WEFT_MAX_RANK];
    if (weft_value_is_poison(table)) return table;
    for (int i = 0; i <= rank; i++) shape[i] = 1;
    shape[axis] = table->type.dims[0];
    if (table->type.rank == 2) shape[axis + 1] = table->type.dims[1];
    return weft_reshape(g, table, table->type.rank == 2 ? rank + 1 : rank, shape);
}

static weft_value *interpolate(weft_onnx_node *node, weft_value *x, int axis, const resize *r, const axis_plan *p) {
    weft_graph *g = node->graph;
    double stretch = r->antialias && p->scale_known && p->scale < 1 ? p->scale : 1;
    int reach = (int)fmin(ceil((strcmp(r->mode, "cubic") == 0 ? 2 : 1) / stretch), 4096);
    int64_t column = 1;
    weft_value *at = weft_unsqueeze(g, source_positions(node, r, p), 1, &column); /* [out, 1] */
    weft_dim taps[2] = {1, 2 * reach};
    weft_value *tap = weft_sub(g, weft_iota(g, WEFT_F64, 2, taps, 1), number(g, reach - 1));
    weft_value *position = weft_add(g, weft_floor(g, at), tap); /* [out, taps] */
    weft_value *weight = tap_weight(g, r, weft_mul_number(g, weft_sub(g, position, at), stretch));
    weft_value *last = weft_sub(g, extent_number(g, p->in), number(g, 1)), *zero = number(g, 0);
    if (r->exclude_outside) {
        weft_value *inside =
            weft_and(g, weft_compare(g, WEFT_GE, position, zero), weft_compare(g, WEFT_LE, position, last));
        weight = weft_where(g, inside, weight, zero);
    }
    if (r->exclude_outside || r->antialias) weight = weft_div(g, weight, weft_reduce_sum(g, weight, 1, &column, true));
    weft_value *index = weft_convert(g, weft_max(g, weft_min(g, position, last), zero), WEFT_I64);
    weft_dtype dtype = x->type.dtype;
    int rank = x->type.rank;
    int64_t taps_axis = axis + 1;
    weft_value *picked = weft_take(g, x, index, axis);
    if (weft_value_is_poison(picked)) return picked;
    weft_value *product = weft_mul(g, picked, beside(g, weft_convert(g, weight, dtype), rank, axis));
    return weft_reduce_sum(g, product, 1, &taps_axis, false);
}

static weft_value *pick_nearest(weft_onnx_node *node, weft_value *x, int axis, const resize *r, const axis_plan *p) {
    weft_graph *g = node->graph;
    weft_value *at = source_positions(node, r, p);
    if (weft_value_is_poison(at)) return at;
    if (strcmp(r->nearest, "floor") == 0)
        at = weft_floor(g, at);
    else if (strcmp(r->nearest, "ceil") == 0)
        at = weft_ceil(g, at);
    else if (strcmp(r->nearest, "round_prefer_ceil") == 0)
        at = weft_floor(g, weft_add(g, at, number(g, 0.5)));
    else if (strcmp(r->nearest, "round_prefer_floor") == 0)
        at = weft_ceil(g, weft_sub(g, at, number(g, 0.5)));
    else
        weft_onnx_problem(node, "nearest_mode %s", r->nearest);
    weft_value *last = weft_sub(g, extent_number(g, p->in), number(g, 1));
    return weft_take(g, x, weft_convert(g, weft_max(g, weft_min(g, at, last), number(g, 0)), WEFT_I64), axis);
}

/* Nearest with a whole factor repeats each element; no index vector is needed. */
static bool repeats(const resize *r, const axis_plan *p, int64_t *factor) {
    if (strcmp(r->mode, "nearest") != 0 || !p->scale_known || p->scale < 1 || p->scale > 1024 ||
        p->scale != floor(p->scale))
        return false;
    bool floors = strcmp(r->transform, "asymmetric") == 0 && strcmp(r->nearest, "floor") == 0;
    bool rounds = strcmp(r->transform, "half_pixel") == 0 && strncmp(r->nearest, "round_prefer", 12) == 0;
    *factor = (int64_t)p->scale;
    return floors || (rounds && (*factor % 2 == 0 || *factor == 1 || strcmp(r->nearest, "round_prefer_floor") == 0));
}

static weft_value *repeat(weft_graph *g, weft_value *x, int axis, int64_t factor, weft_dim out) {
    int rank = x->type.rank;
    if (rank + 1 > WEFT_MAX_RANK) return weft_value_poison(g);
    weft_dim pair[WEFT_MAX_RANK], merged[WEFT_MAX_RANK];
    int64_t at = axis + 1;
    for (int i = 0; i <= rank; i++) pair[i] = i == axis + 1 ? factor : x->type.dims[i > axis ? i - 1 : i];
    for (int i = 0; i < rank; i++) merged[i] = i == axis ? out : x->type.dims[i];
    return weft_reshape(g, weft_broadcast_to(g, weft_unsqueeze(g, x, 1, &at), rank + 1, pair), rank, merged);
}

/* The value where a position lies outside of the input. */
static weft_value *extrapolate(weft_onnx_node *node, weft_value *y, int axis, const resize *r, const axis_plan *p) {
    weft_graph *g = node->graph;
    weft_value *at = source_positions(node, r, p), *last = weft_sub(g, extent_number(g, p->in), number(g, 1));
    weft_value *inside = weft_and(g, weft_compare(g, WEFT_GE, at, number(g, 0)), weft_compare(g, WEFT_LE, at, last));
    if (weft_value_is_poison(y)) return y;
    return weft_where(g, beside(g, inside, y->type.rank, axis), y, weft_onnx_scalar_like(g, y, r->extrapolation));
}

static weft_value *resize_all(weft_onnx_node *node, weft_value *x, const resize *r, const axis_plan *plans) {
    weft_graph *g = node->graph;
    weft_dtype dtype = x->type.dtype;
    bool sums = strcmp(r->mode, "nearest") != 0;
    weft_value *y = sums ? weft_convert(g, x, weft_dtype_is_float(dtype) ? weft_onnx_wide(dtype) : WEFT_F32) : x;
    for (int i = 0; i < x->type.rank && !weft_value_is_poison(y); i++) {
        const axis_plan *p = &plans[i];
        int64_t factor;
        bool crop = strcmp(r->transform, "tf_crop_and_resize") == 0 && (p->start != 0 || p->end != 1);
        if (!crop && ((p->scale_known && p->scale == 1) || (!p->scale_known && p->in == p->out))) continue;
        if (repeats(r, p, &factor))
            y = repeat(g, y, i, factor, p->out);
        else
            y = sums ? interpolate(node, y, i, r, p) : pick_nearest(node, y, i, r, p);
    }
    for (int i = 0; r->extrapolate && i < x->type.rank; i++) y = extrapolate(node, y, i, r, &plans[i]);
    return weft_value_is_poison(y)
               ? y
               : weft_convert(g, sums && weft_dtype_is_integer(dtype) ? weft_round(g, y) : y, dtype);
}

/* floor(in * scale), exactly for expressions when the scale is a small fraction. */
static bool scaled_extent(weft_onnx_node *node, weft_dim in, double scale, weft_dim *out) {
    weft_graph *g = node->graph;
    int64_t extent;
    if (!(scale > 0) || scale > 1e6) {
        weft_onnx_problem(node, "a scale of %g", scale);
        return false;
    }
    if (weft_onnx_dim_number(g, in, &extent)) {
        *out = (int64_t)floor((double)extent * scale);
        return true;
    }
    for (int64_t q = 1; q <= 4096; q++) {
        double p = scale * (double)q;
        if (fabs(p - round(p)) > 1e-6 * p) continue;
        *out = weft_dim_divide_floor(g->dims, weft_dim_multiply(g->dims, in, (int64_t)round(p)), q);
        return true;
    }
    weft_onnx_problem(node, "a scale of %g of an extent that is not known", scale);
    return false;
}

/* The larger or smaller of the scales for all of the axes. */
static bool keep_aspect(weft_onnx_node *node, const char *policy, int count, const int *axes, axis_plan *plans) {
    double best = 0;
    for (int i = 0; i < count; i++) {
        const axis_plan *p = &plans[axes[i]];
        int64_t in, out;
        if (!weft_onnx_dim_number(node->graph, p->in, &in) || !weft_onnx_dim_number(node->graph, p->out, &out) ||
            in == 0) {
            weft_onnx_problem(node, "keep_aspect_ratio_policy needs known extents");
            return false;
        }
        double scale = (double)out / (double)in;
        bool larger = strcmp(policy, "not_smaller") == 0;
        if (i == 0 || (larger ? scale > best : scale < best)) best = scale;
    }
    for (int i = 0; i < count; i++) {
        axis_plan *p = &plans[axes[i]];
        p->out = (int64_t)floor((double)p->in * best + 0.5);
        p->scale = best, p->scale_known = true;
    }
    return true;
}

/* Sizes or scales (inputs or, for Upsample-7, an attribute) for the chosen axes. */
static bool plan_axes(weft_onnx_node *node, const weft_value *x, int scales_input, int sizes_input, axis_plan *plans) {
    int rank = x->type.rank, count = rank, given, axes[WEFT_MAX_RANK];
    const int64_t *list;
    for (int i = 0; i < rank; i++)
        plans[i] = (axis_plan){x->type.dims[i], x->type.dims[i], 1, true, false, 0, 1}, axes[i] = i;
    if (weft_onnx_ints(node, "axes", &given, &list) && given > 0 && given <= rank) {
        count = given;
        for (int i = 0; i < count; i++) {
            int64_t axis = list[i] < 0 ? list[i] + rank : list[i];
            if (axis < 0 || axis >= rank) weft_onnx_problem(node, "axis %lld of rank %d", (long long)list[i], rank);
            if (axis < 0 || axis >= rank) return false;
            axes[i] = (int)axis;
        }
    }
    double scales[WEFT_MAX_RANK];
    weft_dim sizes[WEFT_MAX_RANK];
    int scale_count = 0, size_count = 0;
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, "scales");
    if (attribute)
        for (; scale_count < (int)attribute->n_floats && scale_count < rank; scale_count++)
            scales[scale_count] = (double)attribute->floats[scale_count];
    weft_value *scales_value = scales_input >= 0 ? weft_onnx_optional(node, scales_input) : NULL;
    bool empty = scales_value && !weft_value_is_poison(scales_value) && scales_value->type.rank == 1 &&
                 scales_value->type.dims[0] == 0;
    if (scales_value && !empty && !weft_onnx_numbers(node, scales_value, WEFT_MAX_RANK, &scale_count, scales))
        return false;
    if (sizes_input >= 0 && weft_onnx_has(node, sizes_input) && scale_count == 0 &&
        !weft_onnx_extents(node, weft_onnx_input(node, sizes_input), WEFT_MAX_RANK, &size_count, sizes))
        return false;
    if ((size_count ? size_count : scale_count) != count) {
        weft_onnx_problem(node, "%d sizes or scales for %d axes", size_count ? size_count : scale_count, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        axis_plan *p = &plans[axes[i]];
        int64_t in, out;
        if (!size_count) {
            p->scale = scales[i], p->scaled = true;
            if (!scaled_extent(node, p->in, scales[i], &p->out)) return false;
            continue;
        }
        p->out = sizes[i];
        p->scale_known =
            weft_onnx_dim_number(node->graph, p->in, &in) && weft_onnx_dim_number(node->graph, p->out, &out) && in > 0;
        if (p->scale_known) p->scale = (double)out / (double)in;
        weft_dim factor;
        if (!p->scale_known && weft_dim_divide_exact(node->graph->dims, p->out, p->in, &factor) &&
            weft_dim_is_number(factor) && factor > 0)
            p->scale = (double)factor, p->scale_known = true;
    }
    const char *policy = weft_onnx_string(node, "keep_aspect_ratio_policy", "stretch");
    return !size_count || strcmp(policy, "stretch") == 0 || keep_aspect(node, policy, count, axes, plans);
}

static bool read_region(weft_onnx_node *node, int rank, axis_plan *plans) {
    double region[2 * WEFT_MAX_RANK];
    int count, given;
    const int64_t *axes;
    if (!weft_onnx_numbers(node, weft_onnx_input(node, 1), 2 * WEFT_MAX_RANK, &count, region)) return false;
    bool some = weft_onnx_ints(node, "axes", &given, &axes);
    int n = some ? given : rank;
    if (count != 2 * n) {
        weft_onnx_problem(node, "roi has %d entries for %d axes", count, n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        int64_t axis = some ? axes[i] : i;
        if (axis < 0) axis += rank;
        plans[axis].start = region[i], plans[axis].end = region[i + n];
    }
    return true;
}

void weft_onnx_import_resize(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    bool old = node->version < 11 || strcmp(node->proto->op_type, "Upsample") == 0;
    resize r = {
        .mode = weft_onnx_string(node, "mode", "nearest"),
        .transform = old ? "asymmetric" : weft_onnx_string(node, "coordinate_transformation_mode", "half_pixel"),
        .nearest = old ? "floor" : weft_onnx_string(node, "nearest_mode", "round_prefer_floor"),
        .antialias = weft_onnx_int(node, "antialias", 0) != 0,
        .exclude_outside = weft_onnx_int(node, "exclude_outside", 0) != 0,
        .cubic = weft_onnx_float(node, "cubic_coeff_a", -0.75),
        .extrapolation = weft_onnx_float(node, "extrapolation_value", 0),
    };
    if (strcmp(r.mode, "bilinear") == 0) r.mode = "linear";
    if (strcmp(r.mode, "nearest") != 0 && strcmp(r.mode, "linear") != 0 && strcmp(r.mode, "cubic") != 0) {
        weft_onnx_problem(node, "mode %s", r.mode);
        return;
    }
    axis_plan plans[WEFT_MAX_RANK];
    int scales_input = old ? (node->version < 9 ? -1 : 1) : 2;
    if (!plan_axes(node, x, scales_input, old ? -1 : 3, plans)) return;
    r.extrapolate = strcmp(r.transform, "tf_crop_and_resize") == 0;
    if (r.extrapolate && !read_region(node, x->type.rank, plans)) return;
    weft_onnx_output(node, 0, resize_all(node, x, &r, plans));
}
