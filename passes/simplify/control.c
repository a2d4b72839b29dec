/* Rewrites of control flow: a region that runs exactly once takes the place of its node. */
#include "passes/simplify/simplify.h"

#include <limits.h>

enum { ALL = INT_MAX };

/* A region's nodes in the place of the node, with its operands for the region's arguments if it has any. Operands and
   results from number `whole` on are stacks of one slice; the region takes and yields the slice. */
static weft_value *inline_region(weft_graph *graph, weft_node *node, const weft_block *block, int whole) {
    weft_value_map map;
    weft_value_map_init(graph->context->allocator, &map);
    for (int i = 0; i < block->argument_count; i++) {
        weft_value *operand = node->operands[i];
        if (i >= whole) operand = weft_emit_reshape(graph, operand, operand->type.rank - 1, operand->type.dims + 1);
        if (!weft_value_map_put(&map, block->arguments[i], operand)) graph->out_of_memory = true;
    }
    for (const weft_node *inner = block->first; inner && inner->op != WEFT_OP_yield; inner = inner->next)
        if (!weft_node_clone(graph, inner, &map)) break;
    weft_value *first = NULL;
    for (int i = 0; i < node->result_count && !graph->out_of_memory; i++) {
        weft_value *yielded = block->last->operands[i], *value = weft_value_map_find(&map, yielded);
        const weft_type *type = &node->results[i].type;
        if (!value) value = yielded; /* captured */
        /* slices; and results whose extents are equal under a guard only keep the type that users know */
        if (i >= whole || !weft_type_equal(&value->type, type))
            value = weft_emit_reshape(graph, value, type->rank, type->dims);
        if (i == 0)
            first = value;
        else
            weft_value_replace(&node->results[i], value);
    }
    weft_value_map_deinit(&map);
    return first;
}

/* cond with a known predicate: its branch in its place */
weft_value *weft_rewrite_cond_known(weft_graph *graph, weft_node *node) {
    const weft_tensor *predicate = weft_splat(node->operands[0]);
    if (!predicate || node->result_count == 0) return NULL;
    return inline_region(graph, node, node->regions[weft_splat_is(node->operands[0], 1) ? 0 : 1]->block, ALL);
}

/* scan over one slice: its body in its place */
weft_value *weft_rewrite_scan_once(weft_graph *graph, weft_node *node) {
    int carries = (int)weft_node_attribute(node, WEFT_ATTR_k)->as.dims[0];
    if (node->result_count == 0 || weft_node_attribute(node, WEFT_ATTR_trips)->as.dims[0] != 1) return NULL;
    return inline_region(graph, node, node->regions[0]->block, carries);
}

/* after differentiation only the function itself counts */
weft_value *weft_rewrite_custom_gradient_inline(weft_graph *graph, weft_node *node) {
    if (node->region_count != 2 || node->result_count == 0) return NULL;
    return inline_region(graph, node, node->regions[0]->block, ALL);
}

weft_value *weft_rewrite_stop_gradient_identity(weft_graph *graph, weft_node *node) {
    (void)graph;
    return node->operands[0];
}
