/* ONNX Slice, Split, Pad, CenterCropPad: ranges along axes, with every form of negative and overlong bounds.
   Read next: gather.c. */
#include <string.h>

#include "frontend/onnx/import.h"

/* A bound as an index from 0: negative ones count from the end, then it is cut to [low, high]. */
static weft_dim normalise(weft_onnx_node *node, weft_dim bound, weft_dim extent, weft_dim low, weft_dim high,
                          bool *ok) {
    weft_dim_table *dims = node->graph->dims;
    int64_t number, minimum, maximum;
    if (weft_onnx_dim_number(node->graph, bound, &number)) {
        if (number >= INT32_MAX) return high;
        if (number <= -INT32_MAX) return low;
    }
    weft_dim_bounds(dims, bound, &minimum, &maximum);
    if (maximum < 0)
        bound = weft_dim_add(dims, bound, extent);
    else if (minimum < 0) {
        weft_onnx_problem(node, "the sign of a bound is not known at import");
        *ok = false;
        return 0;
    }
    enum { ENDLESS = 1000000000 }; /* what exporters write for "to the end" besides the largest integers */
    weft_dim cut = weft_dim_minimum(dims, bound, high);
    if (weft_onnx_dim_number(node->graph, bound, &number) && number >= ENDLESS &&
        weft_graph_assume_equal(node->graph, cut, high)) /* a guard: longer axes are refused at the call */
        cut = high;
    return weft_dim_maximum(dims, cut, low);
}

typedef struct slice_plan {
    weft_dim start[WEFT_MAX_RANK], limit[WEFT_MAX_RANK];
    int64_t stride[WEFT_MAX_RANK], reversed[WEFT_MAX_RANK];
    int reversed_count;
} slice_plan;

/* Negative steps walk the reversed axis: index i becomes extent - 1 - i. */
static bool plan_axis(weft_onnx_node *node, slice_plan *plan, int axis, weft_dim extent, weft_dim start, weft_dim end,
                      int64_t step) {
    weft_dim_table *dims = node->graph->dims;
    bool ok = true;
    if (step == 0 || step == INT64_MIN) {
        weft_onnx_problem(node, "a step of %lld", (long long)step);
        return false;
    }
    if (step > 0) {
        plan->start[axis] = normalise(node, start, extent, 0, extent, &ok);
        plan->limit[axis] = normalise(node, end, extent, 0, extent, &ok);
    } else {
        weft_dim last = weft_dim_subtract(dims, extent, 1), before = weft_onnx_dim(node->graph, -1);
        weft_dim first = normalise(node, start, extent, before, last, &ok),
                 stop = normalise(node, end, extent, before, last, &ok);
        plan->start[axis] = weft_dim_subtract(dims, last, first);
        plan->limit[axis] = weft_dim_subtract(dims, last, stop);
        plan->reversed[plan->reversed_count++] = axis;
    }
    plan->limit[axis] = weft_dim_maximum(dims, plan->limit[axis], plan->start[axis]);
    plan->stride[axis] = step > 0 ? step : -step;
    return ok;
}

/* starts, ends, axes, steps from inputs (version 10 on) or attributes. */
static bool slice_arguments(weft_onnx_node *node, int rank, int *count, weft_dim *starts, weft_dim *ends, int64_t *axes,
                            int64_t *steps) {
    int other, n = 0;
    bool ok;
    if (node->version < 10) {
        int64_t values[WEFT_MAX_RANK];
        if (!weft_onnx_axes(node, -1, "starts", count, values, &ok) || !ok) return false;
        for (int i = 0; i < *count; i++) starts[i] = weft_onnx_dim(node->graph, values[i]);
        if (!weft_onnx_axes(node, -1, "ends", &other, values, &ok) || !ok || other != *count) return false;
        for (int i = 0; i < *count; i++) ends[i] = weft_onnx_dim(node->graph, values[i]);
    } else {
        if (!weft_onnx_extents(node, weft_onnx_input(node, 1), WEFT_MAX_RANK, count, starts)) return false;
        if (!weft_onnx_extents(node, weft_onnx_input(node, 2), WEFT_MAX_RANK, &other, ends)) return false;
        if (other != *count) weft_onnx_problem(node, "%d starts and %d ends", *count, other);
        if (other != *count) return false;
    }
    for (int i = 0; i < *count; i++) axes[i] = i, steps[i] = 1;
    int64_t given[WEFT_MAX_RANK];
    if (weft_onnx_axes(node, node->version < 10 ? -1 : 3, "axes", &n, given, &ok) && ok && n == *count)
        memcpy(axes, given, sizeof *axes * (size_t)n);
    if (!ok) return false;
    if (node->version >= 10 && weft_onnx_has(node, 4)) {
        if (!weft_onnx_integers(node, weft_onnx_input(node, 4), WEFT_MAX_RANK, &n, given)) return false;
        if (n == *count) memcpy(steps, given, sizeof *steps * (size_t)n);
    }
    for (int i = 0; i < *count; i++) {
        if (axes[i] < 0) axes[i] += rank;
        if (axes[i] >= 0 && axes[i] < rank) continue;
        weft_onnx_problem(node, "axis %lld of rank %d", (long long)axes[i], rank);
        return false;
    }
    return true;
}

void weft_onnx_import_slice(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int count;
    weft_dim starts[WEFT_MAX_RANK], ends[WEFT_MAX_RANK];
    int64_t axes[WEFT_MAX_RANK], steps[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return;
    if (!slice_arguments(node, x->type.rank, &count, starts, ends, axes, steps)) return;
    slice_plan plan = {.reversed_count = 0};
    for (int i = 0; i < x->type.rank; i++) plan.start[i] = 0, plan.limit[i] = x->type.dims[i], plan.stride[i] = 1;
    for (int i = 0; i < count; i++)
        if (!plan_axis(node, &plan, (int)axes[i], x->type.dims[axes[i]], starts[i], ends[i], steps[i])) return;
    if (plan.reversed_count) x = weft_reverse(g, x, plan.reversed_count, plan.reversed);
    weft_onnx_output(node, 0, weft_slice(g, x, plan.start, plan.limit, plan.stride));
}

/* Sizes of the parts: given, or equal with a smaller last one. */
static bool split_sizes(weft_onnx_node *node, weft_dim extent, int parts, weft_dim *sizes) {
    weft_dim_table *dims = node->graph->dims;
    int count;
    const int64_t *attribute;
    if (node->version >= 13 ? weft_onnx_has(node, 1) : weft_onnx_ints(node, "split", &count, &attribute) && count > 0) {
        if (node->version >= 13) {
            if (!weft_onnx_extents(node, weft_onnx_input(node, 1), parts, &count, sizes)) return false;
        } else
            for (int i = 0; i < count && i < parts; i++) sizes[i] = weft_onnx_dim(node->graph, attribute[i]);
        if (count != parts) weft_onnx_problem(node, "%d sizes for %d outputs", count, parts);
        return count == parts;
    }
    int64_t said = weft_onnx_int(node, "num_outputs", parts);
    if (said != parts) {
        weft_onnx_problem(node, "num_outputs is %lld, the node has %d", (long long)said, parts);
        return false;
    }
    weft_dim size = weft_dim_divide_ceil(dims, extent, parts), left = extent;
    for (int i = 0; i < parts; i++) {
        sizes[i] = weft_dim_minimum(dims, size, left);
        left = weft_dim_subtract(dims, left, sizes[i]);
    }
    return true;
}

void weft_onnx_import_split(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int64_t axis = weft_onnx_int(node, "axis", 0);
    if (weft_value_is_poison(x)) return;
    if (axis < 0) axis += x->type.rank;
    weft_dim *sizes = weft_onnx_allocate(node->import, (size_t)node->output_count + 1, sizeof *sizes);
    if (axis < 0 || axis >= x->type.rank) {
        weft_onnx_problem(node, "axis %lld of rank %d", (long long)axis, x->type.rank);
        return;
    }
    if (!sizes || node->output_count < 1 || !split_sizes(node, x->type.dims[axis], node->output_count, sizes)) return;
    weft_dim at = 0;
    for (int i = 0; i < node->output_count; i++) {
        weft_dim next = weft_dim_add(g->dims, at, sizes[i]);
        weft_onnx_output(node, i, weft_slice_axis(g, x, (int)axis, at, next));
        at = next;
    }
}

/* -- padding */

/* Where the positions of a padded axis read: i64 vector of the new extent. */
static weft_value *padded_positions(weft_graph *g, const char *mode, weft_dim extent, weft_dim low, weft_dim high) {
    weft_dim size = weft_dim_add(g->dims, weft_dim_add(g->dims, extent, low), high);
    weft_value *length = weft_extent(g, extent), *one = weft_scalar_integer(g, WEFT_I64, 1),
               *zero = weft_scalar_integer(g, WEFT_I64, 0);
    weft_value *last = weft_sub(g, length, one);
    weft_value *at = weft_sub(g, weft_iota(g, WEFT_I64, 1, &size, 0), weft_extent(g, low));
    if (strcmp(mode, "edge") == 0) return weft_min(g, weft_max(g, at, zero), last);
    if (strcmp(mode, "wrap") == 0) return weft_mod(g, at, length);
    /* reflect: a walk to the end and back takes 2 * (extent - 1) steps */
    weft_value *period = weft_max(g, weft_mul(g, last, weft_scalar_integer(g, WEFT_I64, 2)), one);
    weft_value *step = weft_mod(g, at, period);
    return weft_min(g, step, weft_sub(g, period, step));
}

static weft_value *pad_value(weft_onnx_node *node, weft_value *x, const char *mode, const weft_dim *low,
                             const weft_dim *high, weft_value *fill) {
    weft_graph *g = node->graph;
    if (strcmp(mode, "constant") == 0) return weft_pad(g, x, fill, low, high, NULL);
    if (strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0 && strcmp(mode, "reflect") != 0) {
        weft_onnx_problem(node, "mode %s is not constant, reflect, edge or wrap", mode);
        return weft_value_poison(g);
    }
    for (int i = 0; !weft_value_is_poison(x) && i < x->type.rank; i++)
        if (low[i] != 0 || high[i] != 0)
            x = weft_take(g, x, padded_positions(g, mode, x->type.dims[i], low[i], high[i]), i);
    return x;
}

void weft_onnx_import_pad(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *fill = NULL;
    weft_dim pads[2 * WEFT_MAX_RANK], low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    int count, axis_count = 0;
    int64_t axes[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank;
    if (node->version < 11) {
        const int64_t *values;
        if (!weft_onnx_ints(node, "pads", &count, &values) && !weft_onnx_ints(node, "paddings", &count, &values))
            count = 0;
        for (int i = 0; i < count && i < 2 * rank; i++) pads[i] = weft_onnx_dim(g, values[i]);
        fill = weft_onnx_scalar_like(g, x, weft_onnx_float(node, "value", 0));
    } else {
        if (!weft_onnx_extents(node, weft_onnx_input(node, 1), 2 * WEFT_MAX_RANK, &count, pads)) return;
        fill = weft_onnx_optional(node, 2);
        fill = fill ? weft_reshape(g, fill, 0, NULL) : weft_onnx_scalar_like(g, x, 0);
        if (weft_onnx_has(node, 3) &&
            !weft_onnx_integers(node, weft_onnx_input(node, 3), WEFT_MAX_RANK, &axis_count, axes))
            return;
    }
    if (!weft_onnx_has(node, 3) || node->version < 11)
        for (axis_count = 0; axis_count < rank; axis_count++) axes[axis_count] = axis_count;
    if (count != 2 * axis_count) {
        weft_onnx_problem(node, "%d pads for %d axes", count, axis_count);
        return;
    }
    for (int i = 0; i < axis_count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank) {
            weft_onnx_problem(node, "axis %lld of rank %d", (long long)axes[i], rank);
            return;
        }
        low[axis] = pads[i], high[axis] = pads[i + axis_count];
    }
    weft_onnx_output(node, 0, pad_value(node, x, weft_onnx_string(node, "mode", "constant"), low, high, fill));
}

/* Each axis is cut or padded with zeros around its middle. */
void weft_onnx_import_center_crop_pad(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    weft_dim shape[WEFT_MAX_RANK], low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    int count, axis_count;
    const int64_t *axes;
    if (weft_value_is_poison(x) || !weft_onnx_extents(node, weft_onnx_input(node, 1), WEFT_MAX_RANK, &count, shape))
        return;
    bool given = weft_onnx_ints(node, "axes", &axis_count, &axes);
    if ((given ? axis_count : x->type.rank) != count) {
        weft_onnx_problem(node, "%d extents for %d axes", count, given ? axis_count : x->type.rank);
        return;
    }
    for (int i = 0; i < count; i++) {
        int64_t axis = given ? axes[i] : i, want, have;
        if (axis < 0) axis += x->type.rank;
        if (axis < 0 || axis >= x->type.rank || !weft_onnx_dim_number(g, shape[i], &want) ||
            !weft_onnx_dim_number(g, x->type.dims[axis], &have)) {
            weft_onnx_problem(node, "needs known extents on the axes it changes");
            return;
        }
        /* cutting leaves the odd element at the end, padding adds it there */
        int64_t change = want - have, before = change >= 0 ? change / 2 : -((-change) / 2);
        low[axis] = weft_onnx_dim(g, before), high[axis] = weft_onnx_dim(g, change - before);
    }
    weft_onnx_output(node, 0, weft_pad(g, x, weft_onnx_scalar_like(g, x, 0), low, high, NULL));
}
