/* ragged_dot where one operand is a batch: of x, B rows of each place stand side by side and offsets are B times as far
   (or, where rows are contracted, its features are B times as many); of w, its features are. Everything else, and
   batches of offsets, goes element by element: groups of two elements do not join, as rows between them may belong to
   none. */
#include "passes/batch/batch.h"

static weft_value *reshape(weft_batch_rule *rule, weft_value *x, int rank, weft_dim a, weft_dim b, weft_dim c,
                           weft_dim d) {
    return weft_emit_reshape(rule->graph, x, rank, (weft_dim[]){a, b, c, d});
}

static weft_dim many(weft_batch_rule *rule, weft_dim extent) {
    return weft_dim_multiply(rule->graph->dims, extent, rule->extent);
}

static weft_value *build(weft_batch_rule *rule, weft_value *x, weft_value *w, weft_value *offsets) {
    weft_value *operands[3] = {x, w, offsets};
    return weft_build(rule->graph, WEFT_OP_ragged_dot, 3, operands, rule->node->attribute_count,
                      rule->node->attributes);
}

/* x is a batch, the product goes by rows. */
static weft_value *more_rows(weft_batch_rule *rule) {
    const weft_type *x = weft_operand_type(rule->node, 0), *y = &rule->node->results[0].type;
    weft_graph *g = rule->graph;
    weft_value *offsets = weft_emit_convert(g, rule->operands[2], WEFT_I64);
    weft_value *times = weft_emit_broadcast_to(g, weft_emit_extent(g, rule->extent, WEFT_I64), 1, offsets->type.dims);
    weft_value *rows = weft_emit_broadcast_to(g, weft_emit_extent(g, x->dims[0], WEFT_I64), 1, offsets->type.dims);
    /* clamped first: what lies past the rows must not wrap */
    offsets = weft_emit_binary(g, WEFT_OP_max, offsets, weft_emit_splat_like(g, 0, offsets));
    offsets = weft_emit_binary(g, WEFT_OP_mul, weft_emit_binary(g, WEFT_OP_min, offsets, rows), times);
    weft_value *beside = weft_batch_move_axis(rule->graph, rule->operands[0], 0, 1);
    weft_value *product =
        build(rule, reshape(rule, beside, 2, many(rule, x->dims[0]), x->dims[1], 0, 0), rule->operands[1], offsets);
    return weft_batch_move_axis(rule->graph, reshape(rule, product, 3, y->dims[0], rule->extent, y->dims[1], 0), 1, 0);
}

/* Features of operand `side` are a batch: they are the result's axis `axis`. */
static weft_value *more_features(weft_batch_rule *rule, int side, int axis) {
    int64_t contract = weft_node_attribute(rule->node, WEFT_ATTR_rhs_contract)->as.ints[0];
    const weft_type *own = weft_operand_type(rule->node, side), *y = &rule->node->results[0].type;
    int place = side && contract ? 3 - (int)contract : 1; /* of the features in the element */
    weft_dim dims[WEFT_MAX_RANK], split[WEFT_MAX_RANK];
    for (int i = 0; i < own->rank; i++) dims[i] = own->dims[i];
    dims[place] = many(rule, dims[place]);
    weft_value *beside = weft_batch_move_axis(rule->graph, rule->operands[side], 0, place);
    weft_value *joined = weft_emit_reshape(rule->graph, beside, own->rank, dims);
    weft_value *product =
        build(rule, side ? rule->operands[0] : joined, side ? joined : rule->operands[1], rule->operands[2]);
    for (int i = 0, at = 0; i < y->rank; i++) {
        if (i == axis) split[at++] = rule->extent;
        split[at++] = y->dims[i];
    }
    return weft_batch_move_axis(rule->graph, weft_emit_reshape(rule->graph, product, y->rank + 1, split), axis, 0);
}

void weft_batch_ragged_dot(weft_batch_rule *rule) {
    bool by_rows = weft_node_attribute(rule->node, WEFT_ATTR_rhs_contract)->as.ints[0] != 0;
    if (rule->is_batched[2] || (rule->is_batched[0] && rule->is_batched[1]))
        weft_batch_loop(rule);
    else if (rule->is_batched[1])
        rule->out_batches[0] = more_features(rule, 1, by_rows ? 1 : 2);
    else
        rule->out_batches[0] = by_rows ? more_rows(rule) : more_features(rule, 0, 1);
}
