/* Derivatives of ragged_dot: bilinear, and closed under transposition. With y = x w by groups of rows, dx is dy by the
   same groups with w's other axis contracted, and dw contracts the rows of x and dy; the other way round for the form
   that contracts rows. Rows of no group have no part in any of them. */
#include "passes/diff/diff.h"

void weft_jvp_ragged_dot(weft_jvp_rule *rule) {
    weft_value *sum = NULL;
    for (int i = 0; i < 2; i++) {
        if (!rule->tangents[i]) continue;
        weft_value *operands[3] = {i ? rule->node->operands[0] : rule->tangents[0],
                                   i ? rule->tangents[1] : rule->node->operands[1], rule->node->operands[2]};
        sum = weft_diff_sum(rule->graph, sum, weft_diff_same_op(rule->graph, rule->node, operands));
    }
    rule->out_tangents[0] = sum;
}

static weft_value *ragged(const weft_transpose_rule *rule, weft_value *x, weft_value *w, int64_t contract,
                          const weft_value *like) {
    weft_value *operands[3] = {x, w, rule->node->operands[2]};
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_rhs_contract, 1, &contract),
                                    weft_attr_dtype(WEFT_ATTR_dtype, like->type.dtype)};
    return weft_build(rule->graph, WEFT_OP_ragged_dot, 3, operands, 2, attributes);
}

void weft_transpose_ragged_dot(weft_transpose_rule *rule) {
    if (rule->linear[0] && rule->linear[1]) {
        weft_graph_problem(rule->graph, "ragged_dot of two values that depend on the inputs is not linear");
        return;
    }
    int64_t contract = weft_node_attribute(rule->node, WEFT_ATTR_rhs_contract)->as.ints[0];
    weft_value *x = rule->node->operands[0], *w = rule->node->operands[1], *d = rule->cotangents[0];
    if (rule->linear[0])
        rule->out_cotangents[0] = contract ? ragged(rule, d, w, 3 - contract, x) : ragged(rule, w, d, 2, x);
    if (rule->linear[1])
        rule->out_cotangents[1] = contract == 0   ? ragged(rule, x, d, 1, w)
                                  : contract == 1 ? ragged(rule, x, d, 0, w)
                                                  : ragged(rule, d, x, 0, w);
}
