/* Derivatives of gather and scatter, and of what reads along an axis. */
#include "passes/diff/diff.h"

#include <string.h>

void weft_jvp_gather(weft_jvp_rule *rule) {
    weft_value *operands[2] = {rule->tangents[0], rule->node->operands[1]};
    if (operands[0]) rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, operands);
}

/* Indices as i64; u64 stays, whose large numbers are no negative ones. */
static weft_value *wide_starts(weft_graph *g, weft_value *indices) {
    return weft_emit_convert(g, indices, indices->type.dtype == WEFT_U64 ? WEFT_U64 : WEFT_I64);
}

/* For each component of the starts one number, in their shape: that of the axis of x it addresses. */
static weft_value *by_component(weft_graph *g, const weft_node *node, const weft_value *starts, const weft_dim *axes) {
    const weft_attribute *map = weft_node_attribute(node, WEFT_ATTR_index_map);
    int64_t index_axis = weft_node_int(node, WEFT_ATTR_index_axis, 0);
    weft_value *numbers[WEFT_MAX_RANK];
    weft_dim one = 1;
    for (int i = 0; i < map->count; i++) numbers[i] = weft_emit_extent(g, axes[map->as.ints[i]], starts->type.dtype);
    if (map->count == 1) return weft_emit_broadcast_to(g, numbers[0], starts->type.rank, starts->type.dims);
    for (int i = 0; i < map->count; i++) numbers[i] = weft_emit_reshape(g, numbers[i], 1, &one);
    return weft_emit_broadcast(g, weft_emit_concat(g, 0, map->count, numbers), starts->type.rank, starts->type.dims,
                               &index_axis);
}

static weft_value *clamp(weft_graph *g, weft_value *x, weft_value *low, weft_value *high) {
    return weft_emit_binary(g, WEFT_OP_min, weft_emit_binary(g, WEFT_OP_max, x, low), high);
}

/* Adds the cotangent where it was read. Gather clamps its starts, scatter drops what is outside: it gets the clamped
   ones. */
void weft_transpose_gather(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_type *x = &node->operands[0]->type;
    const weft_attribute *sizes = weft_node_attribute(node, WEFT_ATTR_sizes);
    weft_dim last[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) last[i] = weft_dim_subtract(g->dims, x->dims[i], sizes->as.dims[i]);
    weft_value *starts = node->operands[1];
    if (weft_node_attribute(node, WEFT_ATTR_index_map)->count > 0) {
        starts = wide_starts(g, starts);
        starts = clamp(g, starts, weft_diff_zeros(g, starts), by_component(g, node, starts, last));
    }
    weft_value *operands[3] = {weft_diff_zeros(g, node->operands[0]), starts, rule->cotangents[0]};
    weft_attribute attributes[5] = {
        *weft_node_attribute(node, WEFT_ATTR_offset_axes), *weft_node_attribute(node, WEFT_ATTR_collapsed_axes),
        *weft_node_attribute(node, WEFT_ATTR_index_map), *weft_node_attribute(node, WEFT_ATTR_index_axis),
        weft_attr_string(WEFT_ATTR_kind, "sum")};
    rule->out_cotangents[0] = weft_build(g, WEFT_OP_scatter, 3, operands, 5, attributes);
}

static bool is_kind(const weft_node *node, const char *kind) {
    return !strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), kind);
}

static bool has_axis(const weft_attribute *axes, int64_t axis) {
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* The window of a scatter's updates, by axis of x; returns whether it is one element wide along all indexed axes. */
static bool window_of(const weft_node *node, weft_dim *sizes) {
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes),
                         *collapsed = weft_node_attribute(node, WEFT_ATTR_collapsed_axes),
                         *map = weft_node_attribute(node, WEFT_ATTR_index_map);
    const weft_type *x = &node->operands[0]->type, *updates = &node->operands[2]->type;
    bool narrow = true;
    int at = 0;
    for (int a = 0; a < x->rank; a++) {
        sizes[a] = has_axis(collapsed, a) ? 1 : updates->dims[offset->as.ints[at++]];
        if (has_axis(map, a)) narrow &= sizes[a] == 1;
    }
    return narrow;
}

/* gather with the axes of a scatter. */
static weft_value *gather_like(weft_graph *g, const weft_node *node, weft_value *x, weft_value *starts,
                               const weft_dim *sizes) {
    weft_value *operands[2] = {x, starts};
    weft_attribute attributes[5] = {
        *weft_node_attribute(node, WEFT_ATTR_offset_axes), *weft_node_attribute(node, WEFT_ATTR_collapsed_axes),
        *weft_node_attribute(node, WEFT_ATTR_index_map), *weft_node_attribute(node, WEFT_ATTR_index_axis),
        weft_attr_dims(WEFT_ATTR_sizes, x->type.rank, sizes)};
    return weft_build(g, WEFT_OP_gather, 2, operands, 5, attributes);
}

/* bool in the shape of a scatter's updates: the start is inside x along every axis that it addresses. */
static weft_value *start_is_inside(weft_graph *g, const weft_node *node, weft_value *starts) {
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes);
    const weft_type *updates = &node->operands[2]->type;
    int64_t index_axis = weft_node_int(node, WEFT_ATTR_index_axis, 0), batch[WEFT_MAX_RANK];
    weft_value *ends = by_component(g, node, starts, node->operands[0]->type.dims);
    weft_value *low = weft_emit_compare(g, "ge", starts, weft_diff_zeros(g, starts));
    weft_value *inside = weft_emit_binary(g, WEFT_OP_and, low, weft_emit_compare(g, "lt", starts, ends));
    if (index_axis < starts->type.rank) inside = weft_emit_reduce(g, inside, "and", 1, &index_axis);
    int count = 0;
    for (int i = 0; i < updates->rank; i++)
        if (!has_axis(offset, i)) batch[count++] = i;
    return weft_emit_broadcast(g, inside, updates->rank, updates->dims, batch);
}

/* For each element of a scatter's updates the element of `value`, which has x's shape, where it went; `fill` where it
   was dropped. A window may lie partly outside: it is read from `value` with a margin as wide as itself. */
static weft_value *read_back(weft_graph *g, const weft_node *node, weft_value *value, double fill) {
    weft_dim sizes[WEFT_MAX_RANK], margin[WEFT_MAX_RANK] = {0};
    int64_t none[WEFT_MAX_RANK] = {0};
    const weft_attribute *map = weft_node_attribute(node, WEFT_ATTR_index_map);
    const weft_type *x = &node->operands[0]->type;
    bool narrow = window_of(node, sizes);
    if (!map->count) return gather_like(g, node, value, node->operands[1], sizes);
    weft_value *starts = wide_starts(g, node->operands[1]);
    if (narrow) {
        weft_value *read = gather_like(g, node, value, starts, sizes);
        return weft_emit_select(g, start_is_inside(g, node, starts), read, weft_emit_splat_like(g, fill, read));
    }
    for (int i = 0; i < map->count; i++) margin[map->as.ints[i]] = sizes[map->as.ints[i]];
    weft_value *padding[2] = {value, weft_emit_scalar(g, value->type.dtype, fill)};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, x->rank, margin),
                                    weft_attr_dims(WEFT_ATTR_high, x->rank, margin),
                                    weft_attr_ints(WEFT_ATTR_interior, x->rank, none)};
    weft_value *padded = weft_build(g, WEFT_OP_pad, 2, padding, 3, attributes);
    weft_value *width = by_component(g, node, starts, margin), *low = weft_diff_zeros(g, starts);
    if (starts->type.dtype == WEFT_I64) low = weft_emit_unary(g, WEFT_OP_neg, width);
    starts = clamp(g, starts, low, by_component(g, node, starts, x->dims));
    return gather_like(g, node, padded, weft_emit_binary(g, WEFT_OP_add, starts, width), sizes);
}

static weft_value *scatter_sum(weft_graph *g, const weft_node *node, weft_value *x, weft_value *updates) {
    weft_value *operands[3] = {x, node->operands[1], updates};
    weft_attribute attributes[5] = {
        *weft_node_attribute(node, WEFT_ATTR_offset_axes), *weft_node_attribute(node, WEFT_ATTR_collapsed_axes),
        *weft_node_attribute(node, WEFT_ATTR_index_map), *weft_node_attribute(node, WEFT_ATTR_index_axis),
        weft_attr_string(WEFT_ATTR_kind, "sum")};
    return weft_build(g, WEFT_OP_scatter, 3, operands, 5, attributes);
}

static weft_value *where_equal(weft_graph *g, weft_value *x, weft_value *y, weft_value *value) {
    return weft_emit_select(g, weft_emit_compare(g, "eq", x, y), value, weft_diff_zeros(g, x));
}

/* max, min: the mean tangent of what attains it, as for reductions. */
static weft_value *scatter_extremum(weft_graph *g, const weft_node *node, weft_value *const *tangents) {
    weft_value *x = node->operands[0], *updates = node->operands[2], *y = weft_diff_same_op(g, node, node->operands);
    weft_value *back = read_back(g, node, y, 0);
    weft_value *count = scatter_sum(g, node, where_equal(g, x, y, weft_emit_splat_like(g, 1, x)),
                                    where_equal(g, updates, back, weft_emit_splat_like(g, 1, updates)));
    weft_value *sum =
        scatter_sum(g, node, where_equal(g, x, y, tangents[0]), where_equal(g, updates, back, tangents[1]));
    return weft_emit_binary(g, WEFT_OP_div, sum, count);
}

/* x times the product of its updates: each factor's tangent times the others. */
static weft_value *scatter_product(weft_graph *g, const weft_node *node, weft_value *const *tangents) {
    weft_value *x = node->operands[0],
               *operands[3] = {weft_emit_splat_like(g, 1, x), node->operands[1], node->operands[2]};
    weft_value *of_updates = weft_diff_same_op(g, node, operands);
    weft_value *others =
        weft_emit_binary(g, WEFT_OP_mul, weft_diff_product_of_other_updates(g, node), read_back(g, node, x, 0));
    return scatter_sum(g, node, weft_emit_binary(g, WEFT_OP_mul, tangents[0], of_updates),
                       weft_emit_binary(g, WEFT_OP_mul, tangents[1], others));
}

/* sum is linear in x and updates; so is set, whose last update of an element is the one that counts. */
void weft_jvp_scatter(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents;
    weft_value *tangents[2] = {t[0] ? t[0] : weft_diff_zeros(g, x[0]), t[2] ? t[2] : weft_diff_zeros(g, x[2])};
    weft_value *operands[3] = {tangents[0], x[1], tangents[1]};
    if (is_kind(rule->node, "sum") || is_kind(rule->node, "set"))
        rule->out_tangents[0] = weft_diff_same_op(g, rule->node, operands);
    else if (is_kind(rule->node, "product"))
        rule->out_tangents[0] = scatter_product(g, rule->node, tangents);
    else
        rule->out_tangents[0] = scatter_extremum(g, rule->node, tangents);
}

/* Which updates are still there after a scatter that sets: their numbers are set likewise and read back. */
static weft_value *survivors(weft_graph *g, const weft_node *node) {
    const weft_type *x = &node->operands[0]->type, *updates = &node->operands[2]->type;
    weft_dim count = weft_type_count(g, updates);
    weft_value *numbers = weft_emit_reshape(g, weft_emit_iota(g, WEFT_I64, 1, &count, 0), updates->rank, updates->dims);
    weft_value *operands[3] = {weft_emit_splat(g, WEFT_I64, -1, x->rank, x->dims), node->operands[1], numbers};
    return weft_emit_compare(g, "eq", read_back(g, node, weft_diff_same_op(g, node, operands), -1), numbers);
}

void weft_transpose_scatter(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    weft_value *updates = node->operands[2];
    if (rule->linear[0] && is_kind(node, "sum")) rule->out_cotangents[0] = rule->cotangents[0];
    if (rule->linear[0] && is_kind(node, "set")) {
        weft_value *cleared[3] = {rule->cotangents[0], node->operands[1], weft_diff_zeros(g, updates)};
        rule->out_cotangents[0] = weft_diff_same_op(g, node, cleared);
    }
    if (!rule->linear[2]) return;
    weft_value *read = read_back(g, node, rule->cotangents[0], 0);
    if (is_kind(node, "set")) read = weft_emit_select(g, survivors(g, node), read, weft_diff_zeros(g, updates));
    rule->out_cotangents[2] = read;
}

weft_value *weft_diff_take_along(weft_graph *g, weft_value *x, weft_value *indices, int axis) {
    int rank = x->type.rank;
    weft_value *parts[WEFT_MAX_RANK];
    weft_dim shape[WEFT_MAX_RANK + 1], sizes[WEFT_MAX_RANK];
    int64_t collapsed[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = indices->type.dims[i], sizes[i] = 1, collapsed[i] = i;
    shape[rank] = 1;
    for (int i = 0; i < rank; i++) {
        weft_value *part = i == axis ? indices : weft_emit_iota(g, WEFT_I64, rank, indices->type.dims, i);
        parts[i] = weft_emit_reshape(g, part, rank + 1, shape);
    }
    weft_value *operands[2] = {x, weft_emit_concat(g, rank, rank, parts)};
    weft_attribute attributes[5] = {
        weft_attr_ints(WEFT_ATTR_offset_axes, 0, collapsed), weft_attr_ints(WEFT_ATTR_collapsed_axes, rank, collapsed),
        weft_attr_ints(WEFT_ATTR_index_map, rank, collapsed), weft_attr_int(WEFT_ATTR_index_axis, rank),
        weft_attr_dims(WEFT_ATTR_sizes, rank, sizes)};
    return weft_build(g, WEFT_OP_gather, 2, operands, 5, attributes);
}
