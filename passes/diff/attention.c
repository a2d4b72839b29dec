/* Derivatives of attention. Its tangent is the derived op attention_tangent, linear in the tangents of q, k and v,
   whose transpose is attention_backward: both take the log-sum-exp that the forward pass leaves behind, so that no
   weights are kept. An additive mask is one more linear operand: its cotangent is the gradient of the scores, summed
   over what the mask is broadcast over. Further derivatives go through the decompositions. Read next:
   ir/ops/attention_gradient.c. */
#include "ir/ops/attention.h"
#include "passes/diff/diff.h"

enum { ATTRIBUTES_MAX = 8 };

/* What the three ops share: all but lse and scores. Returns their number; room for one more is left. */
static int copy_attributes(const weft_node *node, weft_attribute *out_attributes) {
    static const weft_attribute_name names[] = {WEFT_ATTR_scale,       WEFT_ATTR_causal,       WEFT_ATTR_soft_cap,
                                                WEFT_ATTR_window_left, WEFT_ATTR_window_right, WEFT_ATTR_dropout};
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const weft_attribute *given = weft_node_attribute(node, names[i]);
        if (given) out_attributes[count++] = *given;
    }
    return count;
}

/* Mask and key of `node`, from operands[count] on; returns the new count. */
static int copy_rest(const weft_node *node, weft_value **operands, int count) {
    int mask = weft_attention_mask_at(node), key = weft_attention_key_at(node);
    if (mask >= 0) operands[count++] = node->operands[mask];
    if (key >= 0) operands[count++] = node->operands[key];
    return count;
}

void weft_jvp_attention(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    int mask = weft_attention_mask_at(node);
    bool learned_mask = mask >= 0 && rule->tangents[mask];
    rule->declined = node->result_count > 1; /* lse has a tangent of its own */
    if (rule->declined) return;
    weft_attribute attributes[ATTRIBUTES_MAX];
    int count = copy_attributes(node, attributes);
    attributes[count] = weft_attr_int(WEFT_ATTR_lse, 1);
    /* simplify joins this one with the node itself */
    weft_node *whole =
        weft_node_create(g, WEFT_OP_attention, node->operand_count, node->operands, count + 1, attributes, 0, NULL);
    if (!whole || whole->result_count < 2) return;
    weft_value *operands[11];
    for (int i = 0; i < 3; i++) {
        operands[i] = node->operands[i];
        operands[5 + i] = rule->tangents[i] ? rule->tangents[i] : weft_diff_zeros(g, node->operands[i]);
    }
    operands[3] = &whole->results[0];
    operands[4] = &whole->results[1];
    int operand_count = copy_rest(node, operands, 8);
    if (learned_mask) operands[operand_count++] = rule->tangents[mask];
    attributes[count] = weft_attr_int(WEFT_ATTR_scores, 1);
    rule->out_tangents[0] =
        weft_build(g, WEFT_OP_attention_tangent, operand_count, operands, count + learned_mask, attributes);
}

/* ds [B, H, T, S] summed over what a mask of this type is broadcast over. */
static weft_value *mask_cotangent(weft_graph *g, weft_value *ds, const weft_type *mask) {
    int64_t axes[4];
    int count = 0, missing = 4 - mask->rank;
    if (weft_value_is_poison(ds)) return ds;
    for (int i = 0; i < 4; i++)
        if (i < missing || (mask->dims[i - missing] == 1 && ds->type.dims[i] != 1)) axes[count++] = i;
    if (count > 0) ds = weft_emit_reduce(g, ds, "sum", count, axes);
    return weft_emit_convert(g, weft_emit_reshape(g, ds, mask->rank, mask->dims), mask->dtype);
}

void weft_transpose_attention_tangent(weft_transpose_rule *rule) {
    const weft_node *node = rule->node;
    weft_value *operands[8];
    weft_attribute attributes[ATTRIBUTES_MAX];
    int count = copy_attributes(node, attributes), mask = weft_attention_mask_tangent_at(node);
    bool learned_mask = mask >= 0 && rule->linear[mask];
    for (int i = 0; i < 5; i++) operands[i] = node->operands[i];
    operands[5] = rule->cotangents[0];
    if (learned_mask) attributes[count++] = weft_attr_int(WEFT_ATTR_scores, 1);
    weft_node *backward = weft_node_create(rule->graph, WEFT_OP_attention_backward, copy_rest(node, operands, 6),
                                           operands, count, attributes, 0, NULL);
    if (!backward) return;
    for (int i = 0; i < 3; i++)
        if (rule->linear[5 + i]) rule->out_cotangents[5 + i] = &backward->results[i];
    if (learned_mask && backward->result_count == 4)
        rule->out_cotangents[mask] = mask_cotangent(rule->graph, &backward->results[3], &node->operands[mask]->type);
}
