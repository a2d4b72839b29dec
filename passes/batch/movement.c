/* Data movement: one more axis in front. */
#include "passes/batch/batch.h"

void weft_batch_reshape(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_shape, rule->extent);
    weft_batch_build(rule, rule->operands, attributes);
}

void weft_batch_transpose(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_shift(rule, attributes, WEFT_ATTR_permutation, 0);
    weft_batch_build(rule, rule->operands, attributes);
}

void weft_batch_broadcast(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_shape, rule->extent);
    weft_batch_shift(rule, attributes, WEFT_ATTR_axes, 0);
    weft_batch_build(rule, rule->operands, attributes);
}

void weft_batch_slice(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_start, 0);
    weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_limit, rule->extent);
    weft_batch_prepend_int(rule, attributes, WEFT_ATTR_stride, 1);
    weft_batch_build(rule, rule->operands, attributes);
}

void weft_batch_reverse(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_shift(rule, attributes, WEFT_ATTR_axes, -1);
    weft_batch_build(rule, rule->operands, attributes);
}

static weft_value *pad(weft_batch_rule *rule, weft_value *x, weft_value *fill, int extra) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    if (extra) {
        weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_low, 0);
        weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_high, 0);
        weft_batch_prepend_int(rule, attributes, WEFT_ATTR_interior, 0);
    }
    weft_value *operands[2] = {x, fill};
    if (!attributes) return weft_value_poison(rule->graph);
    return weft_build(rule->graph, WEFT_OP_pad, 2, operands, rule->node->attribute_count, attributes);
}

/* A fill for each element takes the place of what was padded: where a padded `true` is not. */
void weft_batch_pad(weft_batch_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *x = rule->operands[0], *fill = rule->operands[1];
    if (!rule->is_batched[1]) {
        rule->out_batches[0] = pad(rule, x, fill, 1);
        return;
    }
    const weft_type *type = &rule->node->operands[0]->type;
    weft_value *inside =
        pad(rule, weft_emit_splat(g, WEFT_BOOL, 1, type->rank, type->dims), weft_emit_scalar(g, WEFT_BOOL, 0), 0);
    weft_value *padded = pad(rule, x, weft_emit_scalar(g, fill->type.dtype, 0), rule->is_batched[0]);
    if (weft_value_is_poison(inside) || weft_value_is_poison(padded)) return;
    if (!rule->is_batched[0]) padded = weft_batch_repeat(g, padded, rule->extent);
    int64_t batch = 0;
    weft_value *fills = weft_emit_broadcast(g, fill, padded->type.rank, padded->type.dims, &batch);
    rule->out_batches[0] = weft_emit_select(g, weft_batch_repeat(g, inside, rule->extent), padded, fills);
}

void weft_batch_concat(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_shift(rule, attributes, WEFT_ATTR_axis, -1);
    weft_batch_build_all(rule, attributes);
}
