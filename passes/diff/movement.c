/* Transposes of data movement (forward: weft_jvp_linear) and both rules of dynamic slices. */
#include "passes/diff/diff.h"

void weft_transpose_reshape(weft_transpose_rule *rule) {
    const weft_type *type = &rule->node->operands[0]->type;
    rule->out_cotangents[0] = weft_emit_reshape(rule->graph, rule->cotangents[0], type->rank, type->dims);
}

void weft_transpose_transpose(weft_transpose_rule *rule) {
    const weft_attribute *permutation = weft_node_attribute(rule->node, WEFT_ATTR_permutation);
    int64_t inverse[WEFT_MAX_RANK];
    for (int i = 0; i < permutation->count; i++) inverse[permutation->as.ints[i]] = i;
    rule->out_cotangents[0] = weft_emit_transpose(rule->graph, rule->cotangents[0], inverse);
}

/* Sums over repeated axes; stretched ones come back as 1. */
void weft_transpose_broadcast(weft_transpose_rule *rule) {
    const weft_attribute *axes = weft_node_attribute(rule->node, WEFT_ATTR_axes);
    const weft_type *from = &rule->node->operands[0]->type, *to = &rule->node->results[0].type;
    int64_t summed[WEFT_MAX_RANK];
    int count = 0, at = 0;
    for (int i = 0; i < to->rank; i++) {
        bool kept = at < axes->count && axes->as.ints[at] == i;
        if (!kept || from->dims[at] != to->dims[i]) summed[count++] = i;
        at += kept;
    }
    weft_value *sum =
        count ? weft_emit_reduce(rule->graph, rule->cotangents[0], "sum", count, summed) : rule->cotangents[0];
    rule->out_cotangents[0] = weft_emit_reshape(rule->graph, sum, from->rank, from->dims);
}

static weft_value *build_pad(weft_graph *g, weft_value *x, int rank, const weft_dim *low, const weft_dim *high,
                             const int64_t *interior) {
    weft_value *operands[2] = {x, weft_emit_scalar(g, x->type.dtype, 0)};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, rank, low),
                                    weft_attr_dims(WEFT_ATTR_high, rank, high),
                                    weft_attr_ints(WEFT_ATTR_interior, rank, interior)};
    return weft_build(g, WEFT_OP_pad, 2, operands, 3, attributes);
}

/* Slice with stride s is undone by padding with s - 1 holes. */
void weft_transpose_slice(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_attribute *start = weft_node_attribute(rule->node, WEFT_ATTR_start),
                         *stride = weft_node_attribute(rule->node, WEFT_ATTR_stride);
    const weft_type *from = &rule->node->operands[0]->type, *to = &rule->node->results[0].type;
    weft_dim high[WEFT_MAX_RANK];
    int64_t interior[WEFT_MAX_RANK];
    for (int i = 0; i < from->rank; i++) {
        interior[i] = stride->as.ints[i] - 1;
        weft_dim last =
            weft_dim_add(g->dims, start->as.dims[i],
                         weft_dim_multiply(g->dims, weft_dim_subtract(g->dims, to->dims[i], 1), stride->as.ints[i]));
        high[i] = weft_dim_subtract(g->dims, weft_dim_subtract(g->dims, from->dims[i], last), 1);
    }
    rule->out_cotangents[0] = build_pad(g, rule->cotangents[0], from->rank, start->as.dims, high, interior);
}

void weft_transpose_reverse(weft_transpose_rule *rule) {
    rule->out_cotangents[0] = weft_diff_same_op(rule->graph, rule->node, rule->cotangents);
}

/* x: the elements of the cotangent where x went: cut negative padding's opposite, then stride over the holes. The fill
   receives the rest. */
void weft_transpose_pad(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_attribute *low = weft_node_attribute(rule->node, WEFT_ATTR_low),
                         *high = weft_node_attribute(rule->node, WEFT_ATTR_high),
                         *interior = weft_node_attribute(rule->node, WEFT_ATTR_interior);
    int rank = low->count;
    weft_dim cut_low[WEFT_MAX_RANK], cut_high[WEFT_MAX_RANK], zero[WEFT_MAX_RANK] = {0};
    int64_t none[WEFT_MAX_RANK] = {0}, stride[WEFT_MAX_RANK], axes[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        cut_low[i] = weft_dim_subtract(g->dims, 0, low->as.dims[i]);
        cut_high[i] = weft_dim_subtract(g->dims, 0, high->as.dims[i]);
        stride[i] = interior->as.ints[i] + 1;
        axes[i] = i;
    }
    weft_value *cut = build_pad(g, rule->cotangents[0], rank, cut_low, cut_high, none);
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_start, rank, zero),
                                    weft_attr_dims(WEFT_ATTR_limit, rank, cut->type.dims),
                                    weft_attr_ints(WEFT_ATTR_stride, rank, stride)};
    weft_value *inside = weft_build(g, WEFT_OP_slice, 1, &cut, 3, attributes);
    if (rule->linear[0]) rule->out_cotangents[0] = inside;
    if (!rule->linear[1]) return;
    weft_value *all = rank ? weft_emit_reduce(g, rule->cotangents[0], "sum", rank, axes) : rule->cotangents[0];
    weft_value *taken = rank ? weft_emit_reduce(g, inside, "sum", rank, axes) : inside;
    rule->out_cotangents[1] = weft_emit_binary(g, WEFT_OP_sub, all, taken);
}

void weft_transpose_concat(weft_transpose_rule *rule) {
    int axis = (int)weft_node_int(rule->node, WEFT_ATTR_axis, 0);
    weft_dim at = 0;
    for (int i = 0; i < rule->node->operand_count; i++) {
        weft_dim end = weft_dim_add(rule->graph->dims, at, rule->node->operands[i]->type.dims[axis]);
        if (rule->linear[i])
            rule->out_cotangents[i] = weft_emit_slice_axis(rule->graph, rule->cotangents[0], axis, at, end, 1);
        at = end;
    }
}

/* The node on other leading operands, its start indices kept. */
static weft_value *with_operands(weft_graph *g, weft_op op, int count, weft_value *const *leading,
                                 const weft_node *node, int starts, int attribute_count,
                                 const weft_attribute *attributes) {
    weft_value *operands[WEFT_MAX_RANK + 2];
    for (int i = 0; i < count; i++) operands[i] = leading[i];
    for (int i = starts; i < node->operand_count; i++) operands[count + i - starts] = node->operands[i];
    return weft_build(g, op, count + node->operand_count - starts, operands, attribute_count, attributes);
}

void weft_jvp_dynamic_slice(weft_jvp_rule *rule) {
    if (rule->tangents[0])
        rule->out_tangents[0] = with_operands(rule->graph, WEFT_OP_dynamic_slice, 1, rule->tangents, rule->node, 1,
                                              rule->node->attribute_count, rule->node->attributes);
}

void weft_transpose_dynamic_slice(weft_transpose_rule *rule) {
    weft_value *leading[2] = {weft_diff_zeros(rule->graph, rule->node->operands[0]), rule->cotangents[0]};
    rule->out_cotangents[0] =
        with_operands(rule->graph, WEFT_OP_dynamic_update_slice, 2, leading, rule->node, 1, 0, NULL);
}

void weft_jvp_dynamic_update_slice(weft_jvp_rule *rule) {
    weft_value *leading[2];
    for (int i = 0; i < 2; i++)
        leading[i] = rule->tangents[i] ? rule->tangents[i] : weft_diff_zeros(rule->graph, rule->node->operands[i]);
    rule->out_tangents[0] =
        with_operands(rule->graph, WEFT_OP_dynamic_update_slice, 2, leading, rule->node, 2, 0, NULL);
}

void weft_transpose_dynamic_update_slice(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_type *update = &rule->node->operands[1]->type;
    weft_value *cleared[2] = {rule->cotangents[0], weft_diff_zeros(g, rule->node->operands[1])};
    weft_attribute sizes = weft_attr_dims(WEFT_ATTR_sizes, update->rank, update->dims);
    if (rule->linear[0])
        rule->out_cotangents[0] = with_operands(g, WEFT_OP_dynamic_update_slice, 2, cleared, rule->node, 2, 0, NULL);
    if (rule->linear[1])
        rule->out_cotangents[1] =
            with_operands(g, WEFT_OP_dynamic_slice, 1, rule->cotangents, rule->node, 2, 1, &sizes);
}
