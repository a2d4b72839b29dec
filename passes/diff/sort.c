/* Derivatives of sort and top_k: the tangents move with their elements. */
#include "passes/diff/diff.h"

void weft_jvp_sort(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    int axis = (int)weft_node_int(node, WEFT_ATTR_axis, 0);
    const weft_type *type = &node->operands[0]->type;
    weft_value *operands[2] = {node->operands[0], weft_emit_iota(g, WEFT_I64, type->rank, type->dims, axis)};
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, axis),
                                    weft_attr_int(WEFT_ATTR_descending, weft_node_int(node, WEFT_ATTR_descending, 0)),
                                    weft_attr_int(WEFT_ATTR_stable, 1)};
    weft_node *order = weft_node_create(g, WEFT_OP_sort, 2, operands, 3, attributes, 0, NULL);
    if (!order) return;
    for (int i = 0; i < node->operand_count; i++)
        if (rule->tangents[i])
            rule->out_tangents[i] = weft_diff_take_along(g, rule->tangents[i], &order->results[1], axis);
}

void weft_jvp_top_k(weft_jvp_rule *rule) {
    weft_value *indices = &rule->node->results[1];
    rule->out_tangents[0] = weft_diff_take_along(rule->graph, rule->tangents[0], indices,
                                                 (int)weft_node_int(rule->node, WEFT_ATTR_axis, 0));
}
