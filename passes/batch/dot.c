/* dot_general. Both sides in the batch: one more batch axis. One side: the batch is a free axis of that side, and comes
   home by a transpose. */
#include "passes/batch/batch.h"

void weft_batch_dot_general(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    const weft_node *node = rule->node;
    static const weft_attribute_name names[2][2] = {{WEFT_ATTR_lhs_batch, WEFT_ATTR_lhs_contract},
                                                    {WEFT_ATTR_rhs_batch, WEFT_ATTR_rhs_contract}};
    bool both = rule->is_batched[0] && rule->is_batched[1];
    int batches = weft_node_attribute(node, WEFT_ATTR_lhs_batch)->count,
        contracted = weft_node_attribute(node, WEFT_ATTR_lhs_contract)->count;
    for (int side = 0; side < 2; side++) {
        if (!rule->is_batched[side]) continue;
        weft_batch_shift(rule, attributes, names[side][0], both ? 0 : -1);
        weft_batch_shift(rule, attributes, names[side][1], -1);
    }
    weft_batch_build(rule, rule->operands, attributes);
    if (both || !rule->out_batches[0]) return;
    int lhs_free = node->operands[0]->type.rank - batches - contracted;
    int at = rule->is_batched[0] ? batches : batches + lhs_free;
    rule->out_batches[0] = weft_batch_move_axis(rule->graph, rule->out_batches[0], at, 0);
}
