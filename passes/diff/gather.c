/* Derivatives of gather and scatter, and of what reads along an axis. */
#include "passes/diff/diff.h"

#include <string.h>

void weft_jvp_gather(weft_jvp_rule *rule) {
    weft_value *operands[2] = {rule->tangents[0], rule->node->operands[1]};
    if (operands[0]) rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, operands);
}

/* Adds the cotangent where it was read. Gather clamps its starts and scatter drops what is outside: equal for starts in
   bounds, which is where the derivative exists. */
void weft_transpose_gather(weft_transpose_rule *rule) {
    const weft_node *node = rule->node;
    weft_value *operands[3] = {weft_diff_zeros(rule->graph, node->operands[0]), node->operands[1], rule->cotangents[0]};
    weft_attribute attributes[5] = {
        *weft_node_attribute(node, WEFT_ATTR_offset_axes), *weft_node_attribute(node, WEFT_ATTR_collapsed_axes),
        *weft_node_attribute(node, WEFT_ATTR_index_map), *weft_node_attribute(node, WEFT_ATTR_index_axis),
        weft_attr_string(WEFT_ATTR_kind, "sum")};
    rule->out_cotangents[0] = weft_build(rule->graph, WEFT_OP_scatter, 3, operands, 5, attributes);
}

static bool is_kind(const weft_node *node, const char *kind) {
    return !strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), kind);
}

/* sum is linear in x and updates; so is set, whose last update of an element is the one that counts. */
void weft_jvp_scatter(weft_jvp_rule *rule) {
    if (!is_kind(rule->node, "sum") && !is_kind(rule->node, "set")) {
        weft_graph_problem(rule->graph, "scatter %s cannot be differentiated",
                           weft_node_string(rule->node, WEFT_ATTR_kind, ""));
        return;
    }
    weft_value *const *x = rule->node->operands, *const *t = rule->tangents;
    weft_value *operands[3] = {t[0] ? t[0] : weft_diff_zeros(rule->graph, x[0]), x[1],
                               t[2] ? t[2] : weft_diff_zeros(rule->graph, x[2])};
    rule->out_tangents[0] = weft_diff_same_op(rule->graph, rule->node, operands);
}

/* Which updates are still there after a scatter that sets: their numbers are set likewise and read back. */
static weft_value *survivors(weft_transpose_rule *rule, const weft_attribute *gather_attributes) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_type *x = &node->operands[0]->type, *updates = &node->operands[2]->type;
    weft_dim count = weft_type_count(g, updates);
    weft_value *numbers = weft_emit_reshape(g, weft_emit_iota(g, WEFT_I64, 1, &count, 0), updates->rank, updates->dims);
    weft_value *operands[3] = {weft_emit_splat(g, WEFT_I64, -1, x->rank, x->dims), node->operands[1], numbers};
    weft_value *kept[2] = {weft_diff_same_op(g, node, operands), node->operands[1]};
    return weft_emit_compare(g, "eq", weft_build(g, WEFT_OP_gather, 2, kept, 5, gather_attributes), numbers);
}

void weft_transpose_scatter(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    weft_value *x = node->operands[0], *updates = node->operands[2];
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes),
                         *collapsed = weft_node_attribute(node, WEFT_ATTR_collapsed_axes);
    if (rule->linear[0] && is_kind(node, "sum")) rule->out_cotangents[0] = rule->cotangents[0];
    if (rule->linear[0] && is_kind(node, "set")) {
        weft_value *cleared[3] = {rule->cotangents[0], node->operands[1], weft_diff_zeros(g, updates)};
        rule->out_cotangents[0] = weft_diff_same_op(g, node, cleared);
    }
    if (!rule->linear[2]) return;
    weft_dim sizes[WEFT_MAX_RANK];
    int at = 0;
    for (int a = 0; a < x->type.rank; a++) {
        bool dropped = false;
        for (int i = 0; i < collapsed->count; i++) dropped |= collapsed->as.ints[i] == a;
        sizes[a] = dropped ? 1 : updates->type.dims[offset->as.ints[at++]];
    }
    weft_value *operands[2] = {rule->cotangents[0], node->operands[1]};
    weft_attribute attributes[5] = {*offset, *collapsed, *weft_node_attribute(node, WEFT_ATTR_index_map),
                                    *weft_node_attribute(node, WEFT_ATTR_index_axis),
                                    weft_attr_dims(WEFT_ATTR_sizes, x->type.rank, sizes)};
    weft_value *read = weft_build(g, WEFT_OP_gather, 2, operands, 5, attributes);
    if (is_kind(node, "set"))
        read = weft_emit_select(g, survivors(rule, attributes), read, weft_diff_zeros(g, updates));
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
