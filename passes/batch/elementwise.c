/* Elementwise ops, and those whose batch is the op itself on batches. */
#include "passes/batch/batch.h"

void weft_batch_elementwise(weft_batch_rule *rule) { weft_batch_build_all(rule, weft_batch_attributes(rule)); }

/* Each operand for itself. */
void weft_batch_identity(weft_batch_rule *rule) {
    for (int i = 0; i < rule->node->operand_count; i++)
        rule->out_batches[i] =
            weft_build(rule->graph, rule->node->op, 1, &rule->operands[i], 0, rule->node->attributes);
    for (int i = 0; i < rule->node->operand_count; i++)
        if (!rule->is_batched[i])
            rule->out_batches[i] = weft_batch_repeat(rule->graph, rule->out_batches[i], rule->extent);
}

void weft_batch_rng_bits(weft_batch_rule *rule) { weft_batch_loop(rule); } /* a key for each element */
