/* Derived ops that stay whole in a batch, so that their builders still claim them. Where the batch is not one call of
   the op, the decomposition takes its place. */
#include "ir/ops/attention.h"
#include "passes/batch/batch.h"

/* x in the batch, the parameters not: the op itself, over axes that are one further. */
void weft_batch_norm(weft_batch_rule *rule) {
    for (int i = 1; i < rule->node->operand_count; i++)
        if (rule->is_batched[i]) {
            weft_batch_decompose(rule);
            return;
        }
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_shift(rule, attributes, WEFT_ATTR_axes, -1);
    weft_batch_build(rule, rule->operands, attributes);
}

void weft_batch_rope(weft_batch_rule *rule) {
    if (rule->is_batched[1] || rule->is_batched[2])
        weft_batch_decompose(rule);
    else
        weft_batch_build(rule, rule->operands, weft_batch_attributes(rule));
}

/* [B, N, ...] <-> [B N, ...] */
static weft_value *fold(weft_graph *g, weft_value *x) {
    weft_dim dims[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return x;
    dims[0] = weft_dim_multiply(g->dims, x->type.dims[0], x->type.dims[1]);
    for (int i = 2; i < x->type.rank; i++) dims[i - 1] = x->type.dims[i];
    return weft_emit_reshape(g, x, x->type.rank - 1, dims);
}

static weft_value *unfold(weft_batch_rule *rule, weft_value *y, const weft_type *element) {
    weft_dim dims[WEFT_MAX_RANK + 1] = {rule->extent};
    if (weft_value_is_poison(y)) return y;
    for (int i = 0; i < element->rank; i++) dims[i + 1] = element->dims[i];
    return weft_emit_reshape(rule->graph, y, element->rank + 1, dims);
}

/* The batch joins axis 0 of every operand, which is itself a batch of independent rows or heads. */
static void folded(weft_batch_rule *rule, int count, weft_value **operands) {
    const weft_node *node = rule->node;
    weft_node *made =
        weft_node_create(rule->graph, node->op, count, operands, node->attribute_count, node->attributes, 0, NULL);
    for (int i = 0; made && i < node->result_count && i < made->result_count; i++)
        rule->out_batches[i] = unfold(rule, &made->results[i], &node->results[i].type);
}

void weft_batch_cross_entropy(weft_batch_rule *rule) {
    weft_value *operands[2];
    for (int i = 0; i < 2; i++) operands[i] = fold(rule->graph, weft_batch_operand(rule, i));
    folded(rule, 2, operands);
}

/* q, k, v in the batch. A mask must not have the axis that the batch joins: the same for every element of it. */
void weft_batch_attention(weft_batch_rule *rule) {
    const weft_node *node = rule->node;
    weft_value *operands[4];
    int mask_at = weft_attention_mask_at(node);
    const weft_type *mask = mask_at < 0 ? NULL : &node->operands[mask_at]->type;
    if (weft_attention_key_at(node) >= 0 || /* draws are by place in the batch, which folding changes */
        (mask && (rule->is_batched[mask_at] || (mask->rank == 4 && mask->dims[0] != 1)))) {
        weft_batch_decompose(rule);
        return;
    }
    if (mask) operands[3] = rule->operands[mask_at];
    for (int i = 0; i < 3; i++) operands[i] = fold(rule->graph, weft_batch_operand(rule, i));
    folded(rule, node->operand_count, operands);
}
