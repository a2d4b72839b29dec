/* Derivatives of dot_general: bilinear; the transpose in one operand is another dot_general. */
#include "passes/diff/diff.h"

void weft_jvp_dot_general(weft_jvp_rule *rule) {
    weft_value *sum = NULL;
    for (int i = 0; i < 2; i++) {
        if (!rule->tangents[i]) continue;
        weft_value *operands[2] = {i ? rule->node->operands[0] : rule->tangents[0],
                                   i ? rule->tangents[1] : rule->node->operands[1]};
        sum = weft_diff_sum(rule->graph, sum, weft_diff_same_op(rule->graph, rule->node, operands));
    }
    rule->out_tangents[0] = sum;
}

static bool contains(const weft_attribute *axes, int64_t axis) {
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* Gradient in operand `side` (0 = lhs): contract the cotangent with the other operand over the other's free axes. The
   result has axes batch, own free, contracted-in-the-other's-order; a transpose brings them home. */
static weft_value *gradient_in(weft_transpose_rule *rule, int side) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_attribute *batch[2] = {weft_node_attribute(node, WEFT_ATTR_lhs_batch),
                                      weft_node_attribute(node, WEFT_ATTR_rhs_batch)};
    const weft_attribute *contract[2] = {weft_node_attribute(node, WEFT_ATTR_lhs_contract),
                                         weft_node_attribute(node, WEFT_ATTR_rhs_contract)};
    weft_value *other = weft_diff_conjugate(g, node->operands[1 - side]), *own = node->operands[side];
    int batches = batch[0]->count, contracted = contract[0]->count;
    int own_free = own->type.rank - batches - contracted, other_free = other->type.rank - batches - contracted;
    int64_t cotangent_batch[WEFT_MAX_RANK], cotangent_contract[WEFT_MAX_RANK], other_contract[WEFT_MAX_RANK],
        home[WEFT_MAX_RANK];
    for (int i = 0; i < batches; i++) cotangent_batch[i] = i;
    /* the other's free axes in the cotangent: behind the own ones when this is lhs, before them when rhs */
    for (int i = 0; i < other_free; i++) cotangent_contract[i] = batches + (side ? i : own_free + i);
    int at = 0;
    for (int64_t a = 0; a < other->type.rank; a++)
        if (!contains(batch[1 - side], a) && !contains(contract[1 - side], a)) other_contract[at++] = a;
    weft_dot_axes axes = {.batch_count = batches,
                          .contract_count = other_free,
                          .lhs_batch = cotangent_batch,
                          .rhs_batch = batch[1 - side]->as.ints,
                          .lhs_contract = cotangent_contract,
                          .rhs_contract = other_contract};
    weft_dtype accumulate = weft_node_dtype(node, WEFT_ATTR_accumulate, WEFT_INVALID);
    weft_value *product = weft_emit_dot(g, rule->cotangents[0], other, &axes, own->type.dtype, accumulate);
    /* product axes: batch, own free in order, the other's contracted axes in ascending order of the other */
    for (int i = 0; i < batches; i++) home[batch[side]->as.ints[i]] = i;
    at = batches;
    for (int64_t a = 0; a < own->type.rank; a++)
        if (!contains(batch[side], a) && !contains(contract[side], a)) home[a] = at++;
    for (int64_t a = 0; a < other->type.rank; a++)
        for (int i = 0; i < contracted; i++)
            if (contract[1 - side]->as.ints[i] == a) home[contract[side]->as.ints[i]] = at++;
    return weft_emit_transpose(g, product, home);
}

void weft_transpose_dot_general(weft_transpose_rule *rule) {
    if (rule->linear[0] && rule->linear[1]) {
        weft_graph_problem(rule->graph, "dot_general of two values that depend on the inputs is not linear");
        return;
    }
    for (int side = 0; side < 2; side++)
        if (rule->linear[side]) rule->out_cotangents[side] = gradient_in(rule, side);
}
