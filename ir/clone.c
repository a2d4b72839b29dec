/* Deep copies: nodes with their regions, and whole graphs with symbols replaced.
   Invariant: a copy is built through weft_node_create, so its types are inferred anew from its operands. */
#include <string.h>

#include "ir/build.h"

/* -- value maps: keyed by the address of the old value */

void weft_value_map_init(weft_allocator allocator, weft_value_map *out_map) { weft_map_init(allocator, &out_map->map); }
void weft_value_map_deinit(weft_value_map *map) { weft_map_deinit(&map->map); }
bool weft_value_map_put(weft_value_map *map, const weft_value *from, weft_value *to) {
    return weft_map_put(&map->map, &from, sizeof from, to);
}
weft_value *weft_value_map_find(const weft_value_map *map, const weft_value *from) {
    return weft_map_find(&map->map, &from, sizeof from);
}

/* -- one clone: from one graph into another or the same */

typedef struct cloner {
    weft_graph *from, *to;
    const weft_dim *replacement; /* NULL = none */
    weft_value_map *map;
} cloner;

static weft_dim clone_dim(const cloner *clone, weft_dim dim) {
    if (weft_dim_is_number(dim)) return dim;
    if (clone->replacement) dim = weft_dim_substitute(clone->from->dims, dim, clone->replacement);
    return clone->from == clone->to ? dim : weft_dim_copy(clone->from->dims, dim, clone->to->dims);
}

static const weft_dim *clone_dims(const cloner *clone, int count, const weft_dim *dims) {
    weft_dim *copy = weft_graph_allocate(clone->to, (size_t)count, sizeof *copy);
    for (int i = 0; copy && i < count; i++) copy[i] = clone_dim(clone, dims[i]);
    return copy;
}

static weft_type clone_type(const cloner *clone, const weft_type *type) {
    const weft_dim *dims = clone_dims(clone, type->rank, type->dims);
    return dims ? (weft_type){type->dtype, type->rank, dims} : (weft_type){WEFT_INVALID, 0, NULL};
}

static weft_location clone_location(const cloner *clone, weft_location location) {
    if (clone->from == clone->to) return location;
    location.name = weft_graph_copy_string(clone->to, location.name);
    location.scope = 0; /* of the graph that was being built */
    return location;
}

static weft_node *clone_node(const cloner *clone, const weft_node *node);

static weft_region *clone_region(const cloner *clone, const weft_region *region) {
    weft_region *copy = weft_region_create(clone->to);
    if (!copy) return NULL;
    for (int i = 0; i < region->block->argument_count; i++) {
        const weft_value *argument = region->block->arguments[i];
        weft_type type = clone_type(clone, &argument->type);
        weft_value *value = weft_block_add_argument(copy->block, &type, argument->name);
        if (!weft_value_map_put(clone->map, argument, value)) return NULL;
    }
    weft_place old = weft_graph_place_end(clone->to, copy->block);
    for (const weft_node *node = region->block->first; node && copy; node = node->next)
        if (!clone_node(clone, node)) copy = NULL;
    weft_graph_place(clone->to, old);
    return copy;
}

/* The arrays weft_node_create takes, in the arena; false without memory. */
static bool clone_parts(const cloner *clone, const weft_node *node, weft_value **operands, weft_attribute *attributes,
                        weft_region **regions) {
    for (int i = 0; i < node->operand_count; i++) {
        weft_value *mapped = weft_value_map_find(clone->map, node->operands[i]);
        operands[i] = mapped ? mapped : node->operands[i];
    }
    for (int i = 0; i < node->attribute_count; i++) {
        attributes[i] = node->attributes[i];
        if (weft_attribute_kind_of(attributes[i].name) != WEFT_ATTR_KIND_DIMS) continue;
        attributes[i].as.dims = clone_dims(clone, attributes[i].count, attributes[i].as.dims);
        if (!attributes[i].as.dims) return false;
    }
    for (int i = 0; i < node->region_count; i++) {
        regions[i] = clone_region(clone, node->regions[i]);
        if (!regions[i]) return false;
    }
    return true;
}

static weft_node *clone_node(const cloner *clone, const weft_node *node) {
    weft_graph *to = clone->to;
    weft_value **operands = weft_graph_allocate(to, (size_t)node->operand_count, sizeof *operands);
    weft_attribute *attributes = weft_graph_allocate(to, (size_t)node->attribute_count, sizeof *attributes);
    weft_region **regions = weft_graph_allocate(to, (size_t)node->region_count, sizeof *regions);
    weft_node *copy = NULL;
    weft_location location = to->location;
    to->location = clone_location(clone, node->location);
    if (operands && attributes && regions && clone_parts(clone, node, operands, attributes, regions))
        copy = weft_node_create(to, node->op, node->operand_count, operands, node->attribute_count, attributes,
                                node->region_count, regions);
    to->location = location;
    for (int i = 0; copy && i < copy->result_count && i < node->result_count; i++) {
        copy->results[i].name = node->results[i].name;
        if (clone->from != to) copy->results[i].name = weft_graph_copy_string(to, node->results[i].name);
        if (!weft_value_map_put(clone->map, &node->results[i], &copy->results[i])) copy = NULL;
    }
    if (!copy) to->out_of_memory = true;
    return copy;
}

weft_node *weft_node_clone(weft_graph *graph, const weft_node *node, weft_value_map *map) {
    cloner clone = {node->block->graph, graph, NULL, map};
    return clone_node(&clone, node);
}

/* Symbols in the order of the source, so that indices agree when nothing is replaced. */
static weft_status clone_symbols(const cloner *clone) {
    int count = weft_dim_symbol_count(clone->from->dims);
    for (int i = 0; i < count; i++) {
        if (clone->replacement && clone->replacement[i] != WEFT_DIM_ANY) continue;
        const weft_symbol *symbol = weft_dim_symbol_get(clone->from->dims, i);
        weft_dim dim = weft_dim_symbol(clone->to->dims, symbol->name, symbol->minimum, symbol->maximum, symbol->divisor,
                                       symbol->origin);
        if (dim == WEFT_DIM_INVALID) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "symbol %s", symbol->name);
    }
    return NULL;
}

/* Guards with the same replacement: what became true is dropped, what became false makes the copy impossible. */
static weft_status clone_guards(const cloner *clone) {
    for (size_t i = 0; i < clone->from->guard_count; i++) {
        const weft_guard *guard = &clone->from->guards[i];
        weft_condition condition = {clone_dim(clone, guard->condition.lhs), clone_dim(clone, guard->condition.rhs),
                                    guard->condition.relation};
        if (weft_graph_assume(clone->to, condition, guard->pass, guard->location)) continue;
        weft_text text;
        weft_text_init(clone->from->context->allocator, &text);
        weft_condition_print(clone->from->dims, &guard->condition, &text);
        weft_status status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s: %s does not hold for these extents",
                                         guard->location, weft_text_string(&text));
        weft_text_deinit(&text);
        return status;
    }
    return NULL;
}

static weft_status clone_body(const cloner *clone) {
    const weft_graph *from = clone->from;
    weft_graph *to = clone->to;
    for (size_t i = 0; i < from->state_count; i++) {
        weft_type type = clone_type(clone, &from->states[i].type);
        weft_graph_add_state(to, from->states[i].name, &type, from->states[i].initial);
    }
    const weft_block *block = from->body->block;
    for (int i = 0; i < block->argument_count; i++) {
        const weft_value *argument = block->arguments[i];
        weft_type type = clone_type(clone, &argument->type);
        weft_value *value = weft_block_add_argument(to->body->block, &type, argument->name);
        if (!weft_value_map_put(clone->map, argument, value)) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "input %d", i);
    }
    for (const weft_node *node = block->first; node; node = node->next)
        if (node->op != WEFT_OP_yield && !clone_node(clone, node))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "copying %s", weft_op_get(node->op)->name);
    for (size_t i = 0; i < from->output_count; i++) {
        weft_value *output = weft_value_map_find(clone->map, from->outputs[i]);
        weft_graph_output(to, from->output_names[i], output);
    }
    return NULL;
}

weft_status weft_graph_clone(weft_graph *graph, const weft_dim *replacement, weft_graph **out_graph) {
    *out_graph = NULL;
    weft_graph *copy;
    WEFT_TRY(weft_graph_create(graph->context, graph->name, &copy), "copy of graph %s", graph->name);
    weft_value_map map;
    weft_value_map_init(graph->context->allocator, &map);
    cloner clone = {graph, copy, replacement, &map};
    weft_status status = clone_symbols(&clone);
    if (!status) status = clone_guards(&clone);
    if (!status) status = clone_body(&clone);
    weft_value_map_deinit(&map);
    if (!status) status = weft_graph_verify(copy);
    if (status) {
        weft_graph_release(copy);
        return weft_status_annotate(status, __FILE__, __LINE__, "copy of graph %s", graph->name);
    }
    *out_graph = copy;
    return NULL;
}
