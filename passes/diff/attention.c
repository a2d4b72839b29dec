/* Derivatives of attention. Its tangent is the derived op attention_tangent, linear in the tangents of q, k and v,
   whose transpose is attention_backward: both take the log-sum-exp that the forward pass leaves behind, so that no
   weights are kept. Further derivatives go through the decompositions. Read next: ir/ops/attention_gradient.c. */
#include "passes/diff/diff.h"

enum { ATTRIBUTES = 5 };

/* What the three ops share: all but lse. */
static void copy_attributes(const weft_node *node, weft_attribute *out_attributes) {
    static const weft_attribute_name names[ATTRIBUTES] = {WEFT_ATTR_scale, WEFT_ATTR_causal, WEFT_ATTR_soft_cap,
                                                          WEFT_ATTR_window_left, WEFT_ATTR_window_right};
    for (int i = 0; i < ATTRIBUTES; i++) out_attributes[i] = *weft_node_attribute(node, names[i]);
}

void weft_jvp_attention(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    bool learned_mask = node->operand_count == 4 && rule->tangents[3];
    rule->declined = learned_mask || node->result_count > 1; /* lse has a tangent of its own */
    if (rule->declined) return;
    weft_attribute attributes[ATTRIBUTES + 1];
    copy_attributes(node, attributes);
    attributes[ATTRIBUTES] = weft_attr_int(WEFT_ATTR_lse, 1);
    /* simplify joins this one with the node itself */
    weft_node *whole = weft_node_create(g, WEFT_OP_attention, node->operand_count, node->operands, ATTRIBUTES + 1,
                                        attributes, 0, NULL);
    if (!whole || whole->result_count < 2) return;
    weft_value *operands[9];
    for (int i = 0; i < 3; i++) {
        operands[i] = node->operands[i];
        operands[5 + i] = rule->tangents[i] ? rule->tangents[i] : weft_diff_zeros(g, node->operands[i]);
    }
    operands[3] = &whole->results[0];
    operands[4] = &whole->results[1];
    if (node->operand_count == 4) operands[8] = node->operands[3];
    rule->out_tangents[0] =
        weft_build(g, WEFT_OP_attention_tangent, node->operand_count == 4 ? 9 : 8, operands, ATTRIBUTES, attributes);
}

void weft_transpose_attention_tangent(weft_transpose_rule *rule) {
    const weft_node *node = rule->node;
    weft_value *operands[7];
    weft_attribute attributes[ATTRIBUTES];
    copy_attributes(node, attributes);
    for (int i = 0; i < 5; i++) operands[i] = node->operands[i];
    operands[5] = rule->cotangents[0];
    if (node->operand_count == 9) operands[6] = node->operands[8];
    weft_node *backward = weft_node_create(rule->graph, WEFT_OP_attention_backward, node->operand_count - 2, operands,
                                           ATTRIBUTES, attributes, 0, NULL);
    if (!backward) return;
    for (int i = 0; i < 3; i++)
        if (rule->linear[5 + i]) rule->out_cotangents[5 + i] = &backward->results[i];
}
