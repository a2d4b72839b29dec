/* Groups out of parts of others: region.h. Invariant: a value of an old group is copied once, operations in the order
   of their operands. */
#include "passes/fuse/region.h"

#include "base/dtype.h"

int64_t weft_fuse_elements(const weft_type *type) {
    int64_t count = 1;
    for (int i = 0; i < type->rank; i++)
        if (!weft_dim_is_number(type->dims[i]) || __builtin_mul_overflow(count, type->dims[i], &count)) return -1;
    return count;
}

double weft_fuse_bytes(const weft_type *type) {
    size_t bytes;
    int64_t count = weft_fuse_elements(type);
    return count >= 0 && weft_dtype_bytes(type->dtype, count, &bytes) ? (double)bytes : -1;
}

bool weft_fuse_region_begin(weft_graph *graph, weft_fuse_region *b) {
    *b = (weft_fuse_region){.graph = graph, .region = weft_region_create(graph)};
    if (!b->region) return false;
    weft_value_map_init(graph->context->allocator, &b->map);
    b->outside = weft_graph_place_end(graph, b->region->block);
    return true;
}

weft_value *weft_fuse_region_argument(weft_fuse_region *b, weft_value *outer) {
    for (int i = 0; i < b->operand_count; i++)
        if (b->operands[i] == outer) return b->region->block->arguments[i];
    if (b->operand_count == WEFT_FUSE_OPERANDS_MAX) return NULL;
    weft_value *made = weft_block_add_argument(b->region->block, &outer->type, outer->name);
    if (made) b->operands[b->operand_count++] = outer;
    return made;
}

bool weft_fuse_region_copy_node(weft_fuse_region *b, const weft_node *node) {
    b->graph->location = node->location;
    weft_node *clone = weft_node_clone(b->graph, node, &b->map);
    for (int i = 0; clone && i < node->result_count; i++)
        if (!weft_value_map_put(&b->map, &node->results[i], &clone->results[i])) return false;
    return clone != NULL;
}

bool weft_fuse_region_copy(weft_fuse_region *b, const weft_node *group, weft_value *value) {
    if (weft_value_map_find(&b->map, value)) return true;
    if (!value->node) {
        weft_value *made = weft_fuse_region_argument(b, group->operands[value->index]);
        return made && weft_value_map_put(&b->map, value, made);
    }
    for (int i = 0; i < value->node->operand_count; i++)
        if (!weft_fuse_region_copy(b, group, value->node->operands[i])) return false;
    return weft_fuse_region_copy_node(b, value->node);
}

weft_node *weft_fuse_region_end(weft_fuse_region *b, weft_node *before, const char *name, weft_location location,
                                int count, weft_value *const *inner) {
    weft_value *values[WEFT_FUSE_YIELDS_MAX];
    weft_node *group = NULL;
    bool found = count >= 0 && count <= WEFT_FUSE_YIELDS_MAX;
    for (int i = 0; found && i < count; i++) found = (values[i] = weft_value_map_find(&b->map, inner[i])) != NULL;
    if (found && weft_node_create(b->graph, WEFT_OP_yield, count, values, 0, NULL, 0, NULL)) {
        (void)weft_graph_place_before(b->graph, before);
        b->graph->location = location;
        weft_attribute anchor = weft_attr_string(WEFT_ATTR_anchor, name);
        group = weft_node_create(b->graph, WEFT_OP_fusion, b->operand_count, b->operands, 1, &anchor, 1, &b->region);
        if (group && group->result_count != count) group = NULL;
    }
    weft_graph_place(b->graph, b->outside);
    weft_value_map_deinit(&b->map);
    return group;
}
