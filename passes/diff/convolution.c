/* Derivatives of convolution: bilinear; both transposes are convolutions.
   Letters: x [N, C, S...], w [O, C/g, K...], y [N, O, T...]; stride s, dilation d, base dilation b, padding l, h. */
#include "passes/diff/diff.h"

enum { SPATIAL_MAX = WEFT_MAX_RANK - 2 };

void weft_jvp_convolution(weft_jvp_rule *rule) {
    weft_value *sum = NULL;
    for (int i = 0; i < 2; i++) {
        if (!rule->tangents[i]) continue;
        weft_value *operands[2] = {i ? rule->node->operands[0] : rule->tangents[0],
                                   i ? rule->tangents[1] : rule->node->operands[1]};
        sum = weft_diff_sum(rule->graph, sum, weft_diff_same_op(rule->graph, rule->node, operands));
    }
    rule->out_tangents[0] = sum;
}

typedef struct shape {
    const int64_t *stride, *dilation, *base;
    const weft_dim *low;
    int spatial;
    int64_t groups;
    weft_dtype accumulate;
} shape;

static shape shape_of(const weft_node *node) {
    return (shape){.stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints,
                   .dilation = weft_node_attribute(node, WEFT_ATTR_dilation)->as.ints,
                   .base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints,
                   .low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims,
                   .spatial = weft_node_attribute(node, WEFT_ATTR_stride)->count,
                   .groups = weft_node_int(node, WEFT_ATTR_groups, 1),
                   .accumulate = weft_node_dtype(node, WEFT_ATTR_accumulate, WEFT_INVALID)};
}

static weft_value *convolve(weft_graph *g, weft_value *x, weft_value *w, const shape *s, const int64_t *stride,
                            const int64_t *dilation, const int64_t *base, const weft_dim *low, const weft_dim *high) {
    weft_value *operands[2] = {x, w};
    weft_attribute attributes[8] = {weft_attr_ints(WEFT_ATTR_stride, s->spatial, stride),
                                    weft_attr_dims(WEFT_ATTR_low, s->spatial, low),
                                    weft_attr_dims(WEFT_ATTR_high, s->spatial, high),
                                    weft_attr_ints(WEFT_ATTR_dilation, s->spatial, dilation),
                                    weft_attr_ints(WEFT_ATTR_base_dilation, s->spatial, base),
                                    weft_attr_int(WEFT_ATTR_groups, s->groups),
                                    weft_attr_dtype(WEFT_ATTR_dtype, x->type.dtype),
                                    weft_attr_dtype(WEFT_ATTR_accumulate, s->accumulate)};
    return weft_build(g, WEFT_OP_convolution, 2, operands, s->accumulate == WEFT_INVALID ? 7 : 8, attributes);
}

/* Axes 0 and 1 swapped inside each group: [a, b, ...] with group axis pulled from `from` and pushed to `to`. */
static weft_value *regroup(weft_graph *g, weft_value *x, int64_t groups, int from) {
    int rank = x->type.rank, to = 1 - from;
    weft_dim split[WEFT_MAX_RANK + 1], merged[WEFT_MAX_RANK];
    int64_t order[WEFT_MAX_RANK + 1];
    int at = 0;
    for (int i = 0; i < rank; i++) {
        if (i == from)
            split[at++] = groups, split[at++] = weft_dim_divide_floor(g->dims, x->type.dims[i], groups);
        else
            split[at++] = x->type.dims[i];
        merged[i] = x->type.dims[i];
    }
    /* split axes: from = 0: (g, a/g, b, ...) -> (g, b, a/g): [g*b, a/g]; from = 1: (a, g, b/g) -> (b/g, g, a): [b/g,
     * g*a] */
    if (from == 0)
        order[0] = 0, order[1] = 2, order[2] = 1;
    else
        order[0] = 2, order[1] = 1, order[2] = 0;
    for (int i = 3; i <= rank; i++) order[i] = i;
    weft_value *moved = weft_emit_transpose(g, weft_emit_reshape(g, x, rank + 1, split), order);
    merged[from == 0 ? 0 : 1] = weft_dim_multiply(g->dims, groups, x->type.dims[to]);
    merged[from == 0 ? 1 : 0] = weft_dim_divide_floor(g->dims, x->type.dims[from], groups);
    return weft_emit_reshape(g, moved, rank, merged);
}

/* In x: the flipped kernel, [C, O/g, K...], over the cotangent spread by s. */
static weft_value *gradient_in_input(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    shape s = shape_of(node);
    weft_value *x = node->operands[0], *w = node->operands[1], *y = rule->cotangents[0];
    weft_dim low[SPATIAL_MAX], high[SPATIAL_MAX];
    int64_t axes[SPATIAL_MAX];
    for (int i = 0; i < s.spatial; i++) {
        weft_dim reach = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, w->type.dims[2 + i], 1), s.dilation[i]);
        weft_dim in = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, x->type.dims[2 + i], 1), s.base[i]);
        weft_dim out = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, y->type.dims[2 + i], 1), s.stride[i]);
        low[i] = weft_dim_subtract(g->dims, reach, s.low[i]);
        high[i] = weft_dim_subtract(g->dims, weft_dim_add(g->dims, weft_dim_subtract(g->dims, in, out), reach), low[i]);
        axes[i] = 2 + i;
    }
    weft_attribute reversed = weft_attr_ints(WEFT_ATTR_axes, s.spatial, axes);
    weft_value *kernel = regroup(g, w, s.groups, 0);
    if (s.spatial) kernel = weft_build(g, WEFT_OP_reverse, 1, &kernel, 1, &reversed);
    return convolve(g, y, kernel, &s, s.base, s.dilation, s.stride, low, high);
}

/* In w: the cotangent [O, N, T...] as kernel over x [C/g, g N, S...]; result [C/g, O, K...]. */
static weft_value *gradient_in_kernel(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    shape s = shape_of(node);
    weft_value *x = node->operands[0], *w = node->operands[1], *y = rule->cotangents[0];
    weft_dim high[SPATIAL_MAX];
    int64_t swap[WEFT_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) swap[i] = i;
    swap[0] = 1, swap[1] = 0;
    for (int i = 0; i < s.spatial; i++) {
        weft_dim reach = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, w->type.dims[2 + i], 1), s.dilation[i]);
        weft_dim in = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, x->type.dims[2 + i], 1), s.base[i]);
        weft_dim out = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, y->type.dims[2 + i], 1), s.stride[i]);
        high[i] =
            weft_dim_subtract(g->dims, weft_dim_add(g->dims, reach, weft_dim_subtract(g->dims, out, in)), s.low[i]);
    }
    weft_value *kernel = weft_emit_transpose(g, y, swap);
    weft_value *product =
        convolve(g, regroup(g, x, s.groups, 1), kernel, &s, s.dilation, s.stride, s.base, s.low, high);
    return weft_emit_transpose(g, product, swap);
}

/* x with its padding and holes. */
static weft_value *padded_input(weft_graph *g, const weft_node *node, const shape *s) {
    weft_value *x = node->operands[0];
    weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    int64_t interior[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < s->spatial; i++) {
        low[2 + i] = s->low[i], interior[2 + i] = s->base[i] - 1;
        high[2 + i] = weft_node_attribute(node, WEFT_ATTR_high)->as.dims[i];
    }
    weft_value *operands[2] = {x, weft_emit_scalar(g, x->type.dtype, 0)};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, x->type.rank, low),
                                    weft_attr_dims(WEFT_ATTR_high, x->type.rank, high),
                                    weft_attr_ints(WEFT_ATTR_interior, x->type.rank, interior)};
    return weft_build(g, WEFT_OP_pad, 2, operands, 3, attributes);
}

/* [N, G c, T...] -> [N, G, c, T...] */
static weft_value *split_groups(weft_graph *g, weft_value *x, int64_t groups) {
    weft_dim dims[WEFT_MAX_RANK + 1];
    if (weft_value_is_poison(x)) return x;
    dims[0] = x->type.dims[0], dims[1] = groups, dims[2] = weft_dim_divide_floor(g->dims, x->type.dims[1], groups);
    for (int i = 2; i < x->type.rank; i++) dims[i + 1] = x->type.dims[i];
    return weft_emit_reshape(g, x, x->type.rank + 1, dims);
}

/* One element of the kernel: what it met of x, times the cotangent, [G, O/G, C/G] as [O, C/G, 1]. */
static weft_value *tap(weft_graph *g, weft_value *padded, weft_value *y, const weft_node *node, const shape *s,
                       int64_t number) {
    const weft_type *w = &node->operands[1]->type, *out = &node->results[0].type;
    int64_t contract[WEFT_MAX_RANK], group = 1;
    weft_value *met = padded;
    for (int i = s->spatial - 1; i >= 0; number /= w->dims[2 + i], i--) {
        weft_dim start = weft_dim_number(g->dims, number % w->dims[2 + i] * s->dilation[i]);
        weft_dim span = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, out->dims[2 + i], 1), s->stride[i]);
        met = weft_emit_slice_axis(g, met, 2 + i, start, weft_dim_add(g->dims, weft_dim_add(g->dims, start, span), 1),
                                   s->stride[i]);
    }
    met = split_groups(g, met, s->groups);
    if (weft_value_is_poison(met) || weft_value_is_poison(y)) return weft_value_poison(g);
    contract[0] = 0;
    for (int i = 0; i < s->spatial; i++) contract[1 + i] = 3 + i;
    weft_dot_axes axes = {1, 1 + s->spatial, &group, &group, contract, contract};
    weft_value *product = weft_emit_dot(g, y, met, &axes, met->type.dtype, s->accumulate);
    return weft_emit_reshape(g, product, 3, (weft_dim[]){w->dims[0], w->dims[1], 1});
}

/* In w where the cotangent's extents are symbolic and cannot be a kernel's: element by element. */
static weft_value *gradient_by_taps(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_type *w = &node->operands[1]->type;
    shape s = shape_of(node);
    int64_t count = 1;
    for (int i = 0; i < s.spatial; i++) count *= w->dims[2 + i];
    weft_value **taps = weft_graph_allocate(g, (size_t)count + 1, sizeof *taps);
    weft_value *padded = padded_input(g, node, &s), *y = split_groups(g, rule->cotangents[0], s.groups);
    if (!taps) return weft_value_poison(g);
    for (int64_t k = 0; k < count; k++) taps[k] = tap(g, padded, y, node, &s, k);
    return weft_emit_reshape(g, weft_emit_concat(g, 2, (int)count, taps), w->rank, w->dims);
}

static bool has_static_windows(const weft_value *cotangent) {
    for (int i = 2; i < cotangent->type.rank; i++)
        if (!weft_dim_is_number(cotangent->type.dims[i])) return false;
    return true;
}

void weft_transpose_convolution(weft_transpose_rule *rule) {
    if (rule->linear[0] && rule->linear[1]) {
        weft_graph_problem(rule->graph, "convolution of two values that depend on the inputs is not linear");
        return;
    }
    if (rule->linear[0]) rule->out_cotangents[0] = gradient_in_input(rule);
    if (rule->linear[1])
        rule->out_cotangents[1] =
            has_static_windows(rule->cotangents[0]) ? gradient_in_kernel(rule) : gradient_by_taps(rule);
}
