/* Convolution. A batch of inputs joins N; a batch of kernels joins O inside each group; a batch of both is more groups.
   B batch, N images, C and O channels, G groups. */
#include "passes/batch/batch.h"

/* Axes [axis, axis + count) as one. */
static weft_value *merge(weft_graph *g, weft_value *x, int axis, int count) {
    weft_dim dims[WEFT_MAX_RANK];
    int at = 0;
    if (weft_value_is_poison(x)) return x;
    for (int i = 0; i < x->type.rank; i++) {
        if (i > axis && i < axis + count)
            dims[at - 1] = weft_dim_multiply(g->dims, dims[at - 1], x->type.dims[i]);
        else
            dims[at++] = x->type.dims[i];
    }
    return weft_emit_reshape(g, x, at, dims);
}

/* One axis as several, whose extents are given. */
static weft_value *split(weft_graph *g, weft_value *x, int axis, int count, const weft_dim *parts) {
    weft_dim dims[WEFT_MAX_RANK + 3];
    int at = 0;
    if (weft_value_is_poison(x)) return x;
    for (int i = 0; i < x->type.rank; i++) {
        if (i != axis) dims[at++] = x->type.dims[i];
        for (int k = 0; i == axis && k < count; k++) dims[at++] = parts[k];
    }
    return weft_emit_reshape(g, x, at, dims);
}

static weft_value *convolve(weft_batch_rule *rule, weft_value *x, weft_value *w, int64_t groups) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_value *operands[2] = {x, w};
    if (!attributes) return weft_value_poison(rule->graph);
    weft_batch_attribute(rule, attributes, WEFT_ATTR_groups)->as.integer = groups;
    return weft_build(rule->graph, WEFT_OP_convolution, 2, operands, rule->node->attribute_count, attributes);
}

void weft_batch_convolution(weft_batch_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    int64_t groups = weft_node_int(node, WEFT_ATTR_groups, 1);
    weft_dim images = node->operands[0]->type.dims[0], outputs = node->operands[1]->type.dims[0];
    weft_dim group_outputs = weft_dim_divide_floor(g->dims, outputs, groups);
    weft_value *x = rule->operands[0], *w = rule->operands[1];
    if (!rule->is_batched[1]) { /* [B, N, C, ...] -> [B N, C, ...] */
        weft_value *y = convolve(rule, merge(g, x, 0, 2), w, groups);
        rule->out_batches[0] = split(g, y, 0, 2, (weft_dim[]){rule->extent, images});
    } else if (!rule->is_batched[0]) { /* [B, G O/G, ...] -> [G B O/G, ...] */
        w = split(g, w, 1, 2, (weft_dim[]){groups, group_outputs});
        weft_value *y = convolve(rule, x, merge(g, weft_batch_move_axis(g, w, 1, 0), 0, 3), groups);
        y = split(g, y, 1, 3, (weft_dim[]){groups, rule->extent, group_outputs});
        rule->out_batches[0] = merge(g, weft_batch_move_axis(g, y, 2, 0), 2, 2);
    } else if (weft_dim_is_number(rule->extent)) { /* x [N, B C, ...], w [B O, C/G, ...] */
        x = merge(g, weft_batch_move_axis(g, x, 0, 1), 1, 2);
        weft_value *y = convolve(rule, x, merge(g, w, 0, 2), groups * rule->extent);
        y = split(g, y, 1, 2, (weft_dim[]){rule->extent, outputs});
        rule->out_batches[0] = weft_batch_move_axis(g, y, 1, 0);
    } else { /* the number of groups is static */
        weft_batch_loop(rule);
    }
}
