/* Derivatives of window reductions. Sums are linear. Products, maxima and minima go axis by axis, the last one first:
   along one axis a window is a few shifted slices of the padded operand, whose derivatives are elementwise. The first
   element in row-major order that attains an extremum takes the derivative, as in select_and_scatter. */
#include "passes/diff/diff.h"

#include <math.h>
#include <string.h>

typedef struct windows {
    const char *kind;
    const int64_t *window, *stride, *dilation, *base;
    const weft_dim *low, *high;
} windows;

static windows windows_of(const weft_node *node) {
    return (windows){.kind = weft_node_string(node, WEFT_ATTR_kind, ""),
                     .window = weft_node_attribute(node, WEFT_ATTR_window)->as.ints,
                     .stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints,
                     .dilation = weft_node_attribute(node, WEFT_ATTR_dilation)->as.ints,
                     .base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints,
                     .low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims,
                     .high = weft_node_attribute(node, WEFT_ATTR_high)->as.dims};
}

/* The same windows along one axis only. */
static weft_value *reduce_axis(weft_graph *g, weft_value *x, const windows *w, int axis) {
    int rank = x->type.rank;
    int64_t ones[4][WEFT_MAX_RANK];
    weft_dim none[2][WEFT_MAX_RANK] = {{0}};
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < rank; i++) ones[k][i] = 1;
    ones[0][axis] = w->window[axis], ones[1][axis] = w->stride[axis], ones[2][axis] = w->dilation[axis],
    ones[3][axis] = w->base[axis];
    none[0][axis] = w->low[axis], none[1][axis] = w->high[axis];
    weft_attribute attributes[7] = {weft_attr_string(WEFT_ATTR_kind, w->kind),
                                    weft_attr_ints(WEFT_ATTR_window, rank, ones[0]),
                                    weft_attr_ints(WEFT_ATTR_stride, rank, ones[1]),
                                    weft_attr_ints(WEFT_ATTR_dilation, rank, ones[2]),
                                    weft_attr_ints(WEFT_ATTR_base_dilation, rank, ones[3]),
                                    weft_attr_dims(WEFT_ATTR_low, rank, none[0]),
                                    weft_attr_dims(WEFT_ATTR_high, rank, none[1])};
    return weft_build(g, WEFT_OP_reduce_window, 1, &x, 7, attributes);
}

static weft_value *pad_axis(weft_graph *g, weft_value *x, const windows *w, int axis, weft_value *fill) {
    weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
    int64_t interior[WEFT_MAX_RANK] = {0};
    low[axis] = w->low[axis], high[axis] = w->high[axis], interior[axis] = w->base[axis] - 1;
    weft_value *operands[2] = {x, fill};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, x->type.rank, low),
                                    weft_attr_dims(WEFT_ATTR_high, x->type.rank, high),
                                    weft_attr_ints(WEFT_ATTR_interior, x->type.rank, interior)};
    return weft_build(g, WEFT_OP_pad, 2, operands, 3, attributes);
}

/* Element k of every window, from the padded operand. */
static weft_value *element(weft_graph *g, weft_value *padded, const windows *w, int axis, weft_dim extent, int64_t k) {
    weft_dim start = weft_dim_number(g->dims, k * w->dilation[axis]);
    weft_dim span =
        weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, extent, 1), weft_dim_number(g->dims, w->stride[axis]));
    weft_dim limit = weft_dim_add(g->dims, weft_dim_add(g->dims, start, span), 1);
    return weft_emit_slice_axis(g, padded, axis, start, limit, w->stride[axis]);
}

/* Which element of each window attains the extremum first: i64, `window` where none does (NaN). */
static weft_value *first_extremum(weft_graph *g, weft_value *x, weft_value *y, const windows *w, int axis) {
    weft_value *fill = weft_emit_scalar(g, x->type.dtype, NAN); /* equals nothing: padding attains no extremum */
    weft_value *padded = pad_axis(g, x, w, axis, fill);
    weft_value *which = weft_emit_splat(g, WEFT_I64, (double)w->window[axis], y->type.rank, y->type.dims);
    for (int64_t k = w->window[axis] - 1; k >= 0; k--) {
        weft_value *attains = weft_emit_compare(g, "eq", element(g, padded, w, axis, y->type.dims[axis], k), y);
        which =
            weft_emit_select(g, attains, weft_emit_splat(g, WEFT_I64, (double)k, y->type.rank, y->type.dims), which);
    }
    return which;
}

static weft_value *extremum_along(weft_graph *g, weft_value *x, weft_value *y, weft_value *t, const windows *w,
                                  int axis) {
    weft_value *which = first_extremum(g, x, y, w, axis), *zeros = weft_diff_zeros(g, y), *sum = NULL;
    weft_value *padded = pad_axis(g, t, w, axis, weft_emit_scalar(g, t->type.dtype, 0));
    for (int64_t k = 0; k < w->window[axis]; k++) {
        weft_value *here =
            weft_emit_compare(g, "eq", which, weft_emit_splat(g, WEFT_I64, (double)k, y->type.rank, y->type.dims));
        sum =
            weft_diff_sum(g, sum, weft_emit_select(g, here, element(g, padded, w, axis, y->type.dims[axis], k), zeros));
    }
    return sum;
}

/* Running products of the pairs (p, t): (p, t)(q, u) = (pq, tq + pu). */
static weft_value *product_along(weft_graph *g, weft_value *x, weft_value *y, weft_value *t, const windows *w,
                                 int axis) {
    weft_value *padded = pad_axis(g, x, w, axis, weft_emit_scalar(g, x->type.dtype, 1));
    weft_value *tangents = pad_axis(g, t, w, axis, weft_emit_scalar(g, t->type.dtype, 0)), *product = NULL, *sum = NULL;
    for (int64_t k = 0; k < w->window[axis]; k++) {
        weft_value *q = element(g, padded, w, axis, y->type.dims[axis], k),
                   *u = element(g, tangents, w, axis, y->type.dims[axis], k);
        sum = k ? weft_emit_binary(g, WEFT_OP_add, weft_emit_binary(g, WEFT_OP_mul, sum, q),
                                   weft_emit_binary(g, WEFT_OP_mul, u, product))
                : u;
        product = k ? weft_emit_binary(g, WEFT_OP_mul, product, q) : q;
    }
    return sum;
}

void weft_jvp_reduce_window(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    windows w = windows_of(rule->node);
    if (!strcmp(w.kind, "sum")) {
        rule->out_tangents[0] = weft_diff_same_op(g, rule->node, rule->tangents);
        return;
    }
    weft_value *x = rule->node->operands[0], *t = rule->tangents[0];
    for (int axis = x->type.rank - 1; axis >= 0; axis--) {
        bool idle =
            w.window[axis] == 1 && w.stride[axis] == 1 && w.base[axis] == 1 && w.low[axis] == 0 && w.high[axis] == 0;
        if (idle) continue;
        weft_value *y = reduce_axis(g, x, &w, axis);
        t = strcmp(w.kind, "product") ? extremum_along(g, x, y, t, &w, axis) : product_along(g, x, y, t, &w, axis);
        x = y;
    }
    rule->out_tangents[0] = t;
}

/* Input element s receives the windows that cover it: a window sum over the cotangent spread by the stride. */
void weft_transpose_reduce_window(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_attribute *window = weft_node_attribute(node, WEFT_ATTR_window),
                         *stride = weft_node_attribute(node, WEFT_ATTR_stride),
                         *dilation = weft_node_attribute(node, WEFT_ATTR_dilation),
                         *base = weft_node_attribute(node, WEFT_ATTR_base_dilation),
                         *low = weft_node_attribute(node, WEFT_ATTR_low);
    weft_dim new_low[WEFT_MAX_RANK], new_high[WEFT_MAX_RANK];
    for (int i = 0; i < window->count; i++) {
        weft_dim reach = weft_dim_number(g->dims, dilation->as.ints[i] * (window->as.ints[i] - 1));
        weft_dim spread_in = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, node->operands[0]->type.dims[i], 1),
                                               base->as.ints[i]);
        weft_dim spread_out = weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, node->results[0].type.dims[i], 1),
                                                stride->as.ints[i]);
        new_low[i] = weft_dim_subtract(g->dims, reach, low->as.dims[i]);
        new_high[i] = weft_dim_subtract(
            g->dims, weft_dim_add(g->dims, weft_dim_subtract(g->dims, spread_in, spread_out), reach), new_low[i]);
    }
    weft_attribute attributes[7] = {weft_attr_string(WEFT_ATTR_kind, "sum"),
                                    *window,
                                    weft_attr_ints(WEFT_ATTR_stride, base->count, base->as.ints),
                                    *dilation,
                                    weft_attr_ints(WEFT_ATTR_base_dilation, stride->count, stride->as.ints),
                                    weft_attr_dims(WEFT_ATTR_low, window->count, new_low),
                                    weft_attr_dims(WEFT_ATTR_high, window->count, new_high)};
    rule->out_cotangents[0] = weft_build(g, WEFT_OP_reduce_window, 1, rule->cotangents, 7, attributes);
}

/* Linear in the sources; where x's maxima are does not move. */
void weft_jvp_select_and_scatter(weft_jvp_rule *rule) {
    weft_value *operands[2] = {rule->node->operands[0], rule->tangents[1]};
    if (operands[1]) rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, operands);
}

/* Each source receives the cotangent at its window's first maximum: the tangent of the maximum along it. */
void weft_transpose_select_and_scatter(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_attribute *window = weft_node_attribute(node, WEFT_ATTR_window);
    int64_t ones[WEFT_MAX_RANK];
    for (int i = 0; i < window->count; i++) ones[i] = 1;
    weft_attribute attributes[7] = {weft_attr_string(WEFT_ATTR_kind, "max"),
                                    *window,
                                    *weft_node_attribute(node, WEFT_ATTR_stride),
                                    weft_attr_ints(WEFT_ATTR_dilation, window->count, ones),
                                    weft_attr_ints(WEFT_ATTR_base_dilation, window->count, ones),
                                    *weft_node_attribute(node, WEFT_ATTR_low),
                                    *weft_node_attribute(node, WEFT_ATTR_high)};
    weft_node *maxima = weft_node_create(g, WEFT_OP_reduce_window, 1, node->operands, 7, attributes, 0, NULL);
    if (!maxima || weft_value_is_poison(&maxima->results[0])) return;
    weft_jvp_rule along = {.graph = g, .node = maxima, .tangents = rule->cotangents};
    along.out_tangents = &rule->out_cotangents[1];
    weft_jvp_reduce_window(&along);
}
