/* Making nodes and keeping use lists exact.
   Invariant: a node is linked into its block and its operands' use lists only when it is whole: operands, attributes
   and result types checked. A node that fails is never linked; its results are poisoned. Read next: infer/infer.c,
   clone.c. */
#include "ir/build.h"

#include <string.h>

#include "base/tensor.h"
#include "ir/infer.h"

/* Results of a failed node of an op with any number of them: callers may look at any. */
enum { MANY_RESULTS = 64 };

/* -- regions, blocks, places */

weft_region *weft_region_create(weft_graph *graph) {
    weft_region *region = weft_graph_allocate(graph, 1, sizeof *region);
    weft_block *block = weft_graph_allocate(graph, 1, sizeof *block);
    if (!region || !block) return NULL;
    *block = (weft_block){.graph = graph, .region = region};
    *region = (weft_region){.graph = graph, .block = block, .outer = graph->insertion};
    return region;
}

/* Arguments live in the arena: doubled by copying, so that a region needs no release. */
static bool reserve_argument(weft_block *block) {
    if ((size_t)block->argument_count < block->argument_capacity) return true;
    size_t capacity = block->argument_capacity ? 2 * block->argument_capacity : 4;
    weft_value **arguments = weft_graph_allocate(block->graph, capacity, sizeof *arguments);
    if (!arguments) return false;
    if (block->argument_count) memcpy(arguments, block->arguments, (size_t)block->argument_count * sizeof *arguments);
    block->arguments = arguments;
    block->argument_capacity = capacity;
    return true;
}

weft_value *weft_block_add_argument(weft_block *block, const weft_type *type, const char *name) {
    weft_graph *graph = block->graph;
    weft_value *value = weft_graph_allocate(graph, 1, sizeof *value);
    const char *copy = weft_graph_copy_string(graph, name);
    if (!value || type->dtype == WEFT_INVALID || (name && !copy) || !reserve_argument(block)) return &graph->poison;
    *value = (weft_value){.graph = graph, .block = block, .index = block->argument_count, .name = copy};
    value->type = weft_type_make(graph, type->dtype, type->rank, type->dims);
    if (value->type.dtype == WEFT_INVALID) return &graph->poison;
    value->id = graph->next_id++;
    block->arguments[block->argument_count++] = value;
    return value;
}

weft_place weft_graph_place_before(weft_graph *graph, weft_node *node) {
    weft_place old = {graph->insertion, graph->insert_before};
    graph->insertion = node->block;
    graph->insert_before = node;
    return old;
}

weft_place weft_graph_place_end(weft_graph *graph, weft_block *block) {
    weft_place old = {graph->insertion, graph->insert_before};
    graph->insertion = block;
    graph->insert_before = NULL;
    return old;
}

void weft_graph_place(weft_graph *graph, weft_place place) {
    graph->insertion = place.block;
    graph->insert_before = place.before;
}

/* Links before `before`, or at the end; a block's terminator stays last. */
static void link_node(weft_block *block, weft_node *before, weft_node *node) {
    bool ends = weft_op_get(node->op)->flags & WEFT_FLAG_TERMINATOR;
    if (!before && !ends && block->last && (weft_op_get(block->last->op)->flags & WEFT_FLAG_TERMINATOR))
        before = block->last;
    node->block = block;
    node->next = before;
    node->previous = before ? before->previous : block->last;
    if (node->previous)
        node->previous->next = node;
    else
        block->first = node;
    if (before)
        before->previous = node;
    else
        block->last = node;
}

/* -- use lists */

static void use_link(weft_node *node, int index, weft_value *value) {
    weft_use *use = &node->uses[index];
    *use = (weft_use){.user = node, .index = index, .next = value->uses};
    if (value->uses) value->uses->previous = use;
    value->uses = use;
    node->operands[index] = value;
}

static void use_unlink(weft_node *node, int index) {
    weft_use *use = &node->uses[index];
    if (use->next) use->next->previous = use->previous;
    if (use->previous)
        use->previous->next = use->next;
    else
        node->operands[index]->uses = use->next;
    use->next = use->previous = NULL;
}

void weft_node_set_operand(weft_node *node, int index, weft_value *value) {
    if (node->operands[index] == value) return;
    use_unlink(node, index);
    use_link(node, index, value);
}

void weft_value_replace(weft_value *from, weft_value *to) {
    if (from == to) return;
    while (from->uses) weft_node_set_operand(from->uses->user, from->uses->index, to);
    weft_graph *graph = from->graph;
    for (size_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == from) graph->outputs[i] = to;
}

bool weft_value_has_uses(const weft_value *value) {
    if (value->uses) return true;
    const weft_graph *graph = value->graph;
    for (size_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == value) return true;
    return false;
}

/* Nodes inside a removed node's regions give up their uses of values outside. */
static void unlink_operands(weft_node *node) {
    for (int i = 0; i < node->operand_count; i++) use_unlink(node, i);
    for (int r = 0; r < node->region_count; r++)
        for (weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next) unlink_operands(inner);
}

static void unlink_node(weft_node *node) {
    weft_block *block = node->block;
    if (node->previous)
        node->previous->next = node->next;
    else
        block->first = node->next;
    if (node->next)
        node->next->previous = node->previous;
    else
        block->last = node->previous;
    if (block->graph->insert_before == node) block->graph->insert_before = node->next;
    node->next = node->previous = NULL;
    node->block = NULL;
}

void weft_node_remove(weft_node *node) {
    unlink_operands(node);
    unlink_node(node);
}

void weft_node_move(weft_node *node, weft_place place) {
    if (place.before == node || (node->block == place.block && place.before == node->next)) return;
    unlink_node(node);
    link_node(place.block, place.before, node);
}

/* -- attributes */

static bool copy_array(weft_graph *graph, const void *values, int count, size_t item_bytes, const void **out_copy) {
    void *copy = weft_graph_allocate(graph, (size_t)count, item_bytes);
    if (copy && count) memcpy(copy, values, (size_t)count * item_bytes);
    *out_copy = copy;
    return copy != NULL;
}

static bool check_attribute(weft_graph *graph, weft_op op, const weft_attribute *attribute) {
    const char *name = weft_attribute_string(attribute->name), *op_name = weft_op_get(op)->name;
    weft_attribute_kind kind = weft_attribute_kind_of(attribute->name);
    bool array = kind == WEFT_ATTR_KIND_INTS || kind == WEFT_ATTR_KIND_FLOATS || kind == WEFT_ATTR_KIND_DIMS;
    if (array && (attribute->count < 0 || (attribute->count > 0 && !attribute->as.ints))) {
        weft_graph_problem(graph, "%s: attribute %s has no values", op_name, name);
        return false;
    }
    if ((kind == WEFT_ATTR_KIND_STRING && !attribute->as.string) ||
        (kind == WEFT_ATTR_KIND_TENSOR && !attribute->as.tensor)) {
        weft_graph_problem(graph, "%s: attribute %s is missing its value", op_name, name);
        return false;
    }
    if (kind == WEFT_ATTR_KIND_DTYPE &&
        (attribute->as.dtype <= WEFT_INVALID || attribute->as.dtype >= WEFT_DTYPE_COUNT)) {
        weft_graph_problem(graph, "%s: attribute %s is not a dtype", op_name, name);
        return false;
    }
    for (int i = 0; kind == WEFT_ATTR_KIND_DIMS && i < attribute->count; i++) {
        weft_dim dim = attribute->as.dims[i];
        if (dim != WEFT_DIM_ANY && dim != WEFT_DIM_INVALID) continue;
        weft_graph_problem(graph, "%s: attribute %s[%d] is not an extent (%s)", op_name, name, i,
                           dim == WEFT_DIM_ANY ? "undeclared" : "overflow or a refused symbol");
        return false;
    }
    return true;
}

static bool copy_attribute(weft_graph *graph, const weft_attribute *attribute, weft_attribute *out_copy) {
    *out_copy = *attribute;
    const void *copy = NULL;
    switch (weft_attribute_kind_of(attribute->name)) {
    case WEFT_ATTR_KIND_INTS:
        if (!copy_array(graph, attribute->as.ints, attribute->count, sizeof(int64_t), &copy)) return false;
        out_copy->as.ints = copy;
        return true;
    case WEFT_ATTR_KIND_FLOATS:
        if (!copy_array(graph, attribute->as.numbers, attribute->count, sizeof(double), &copy)) return false;
        out_copy->as.numbers = copy;
        return true;
    case WEFT_ATTR_KIND_DIMS:
        if (!copy_array(graph, attribute->as.dims, attribute->count, sizeof(weft_dim), &copy)) return false;
        out_copy->as.dims = copy;
        return true;
    case WEFT_ATTR_KIND_STRING:
        out_copy->as.string = weft_graph_copy_string(graph, attribute->as.string);
        return out_copy->as.string != NULL;
    case WEFT_ATTR_KIND_TENSOR:
        out_copy->as.tensor = weft_graph_keep_tensor(graph, attribute->as.tensor);
        return out_copy->as.tensor != NULL;
    case WEFT_ATTR_KIND_INT:
    case WEFT_ATTR_KIND_FLOAT:
    case WEFT_ATTR_KIND_DTYPE: return true;
    }
    return true;
}

/* Copies the attributes in the order of the op's row; every one must be there once and belong to the row. */
static bool set_attributes(weft_graph *graph, weft_node *node, int count, const weft_attribute *attributes) {
    const char *op_name = weft_op_get(node->op)->name;
    weft_attribute_name name;
    bool optional;
    int found = 0;
    for (int row = 0; weft_op_attribute(node->op, row, &name, &optional); row++) {
        const weft_attribute *given = NULL;
        for (int i = 0; i < count && !given; i++)
            if (attributes[i].name == name) given = &attributes[i];
        if (!given && !optional) {
            weft_graph_problem(graph, "%s: attribute %s is missing", op_name, weft_attribute_string(name));
            return false;
        }
        if (!given) continue;
        if (!check_attribute(graph, node->op, given) || !copy_attribute(graph, given, &node->attributes[found]))
            return false;
        found++;
    }
    node->attribute_count = found;
    if (found == count) return true;
    weft_graph_problem(graph, "%s: %d attributes given, %d belong to the op (it takes: %s)", op_name, count, found,
                       weft_op_get(node->op)->attributes);
    return false;
}

/* -- nodes */

/* Node, operand, use and attribute arrays; NULL without memory. */
static weft_node *allocate_node(weft_graph *graph, weft_op op, int operand_count, int attribute_count,
                                int region_count) {
    weft_node *node = weft_graph_allocate(graph, 1, sizeof *node);
    if (!node) return NULL;
    *node = (weft_node){.op = op, .location = graph->location, .region_count = region_count};
    node->operands = weft_graph_allocate(graph, (size_t)operand_count, sizeof *node->operands);
    node->uses = weft_graph_allocate(graph, (size_t)operand_count, sizeof *node->uses);
    node->attributes = weft_graph_allocate(graph, (size_t)attribute_count, sizeof *node->attributes);
    node->regions = weft_graph_allocate(graph, (size_t)region_count, sizeof *node->regions);
    return node->operands && node->uses && node->attributes && node->regions ? node : NULL;
}

/* Operands: present, of this graph. Poisoned ones make the node fail without a further problem. */
static bool set_operands(weft_graph *graph, weft_node *node, int count, weft_value *const *operands) {
    const weft_op_info *info = weft_op_get(node->op);
    if (count < info->operands_min || (info->operands_max >= 0 && count > info->operands_max)) {
        weft_graph_problem(graph, "%s: %d operands, it takes %d%s", info->name, count, info->operands_min,
                           info->operands_max < 0                    ? " or more"
                           : info->operands_max > info->operands_min ? " to a few more"
                                                                     : "");
        return false;
    }
    bool quiet = false;
    for (int i = 0; i < count; i++) {
        if (!operands[i] || operands[i]->graph != graph) {
            weft_graph_problem(graph, "%s: operand %d is %s", info->name, i,
                               operands[i] ? "of another graph" : "missing");
            return false;
        }
        quiet |= weft_value_is_poison(operands[i]);
        node->operands[i] = operands[i];
    }
    node->operand_count = quiet ? 0 : count;
    return !quiet;
}

static int result_capacity(const weft_node *node) {
    int capacity = node->operand_count > MANY_RESULTS ? node->operand_count : MANY_RESULTS;
    for (int i = 0; i < node->region_count; i++) {
        const weft_node *last = node->regions[i]->block->last;
        if (last && last->operand_count > capacity) capacity = last->operand_count;
    }
    return capacity;
}

static bool infer_results(weft_graph *graph, weft_node *node) {
    weft_infer infer = {.graph = graph, .node = node, .result_capacity = result_capacity(node)};
    weft_type few[MANY_RESULTS];
    infer.results = few;
    if (infer.result_capacity > MANY_RESULTS)
        infer.results = weft_graph_allocate(graph, (size_t)infer.result_capacity, sizeof *infer.results);
    if (!infer.results || !weft_infer_run(&infer)) return false;
    node->results = weft_graph_allocate(graph, (size_t)infer.result_count, sizeof *node->results);
    if (!node->results) return false;
    node->result_count = infer.result_count;
    for (int i = 0; i < node->result_count; i++)
        node->results[i] =
            (weft_value){.graph = graph, .type = infer.results[i], .node = node, .index = i, .id = graph->next_id++};
    return true;
}

/* The unlinked node that callers of a failed op get. */
static weft_node *poison_node(weft_graph *graph, weft_node *node) {
    const weft_op_info *info = weft_op_get(node->op);
    node->operand_count = 0;
    node->result_count = info->results >= 0 ? info->results : result_capacity(node);
    node->results = weft_graph_allocate(graph, (size_t)node->result_count, sizeof *node->results);
    if (!node->results) return NULL;
    for (int i = 0; i < node->result_count; i++)
        node->results[i] = (weft_value){.graph = graph, .node = node, .index = i};
    return node;
}

static bool set_regions(weft_graph *graph, weft_node *node, weft_region *const *regions) {
    const weft_op_info *info = weft_op_get(node->op);
    if (node->region_count > 0 && !(info->flags & WEFT_FLAG_REGION)) {
        weft_graph_problem(graph, "%s: has no regions, %d given", info->name, node->region_count);
        node->region_count = 0;
        return false;
    }
    for (int i = 0; i < node->region_count; i++) {
        if (regions[i] && !regions[i]->parent && regions[i] != graph->body) {
            node->regions[i] = regions[i];
            continue;
        }
        weft_graph_problem(graph, "%s: region %d is %s", info->name, i, regions[i] ? "in use already" : "missing");
        node->region_count = 0;
        return false;
    }
    return true;
}

weft_node *weft_node_create(weft_graph *graph, weft_op op, int operand_count, weft_value *const *operands,
                            int attribute_count, const weft_attribute *attributes, int region_count,
                            weft_region *const *regions) {
    weft_node *node = allocate_node(graph, op, operand_count, attribute_count, region_count);
    if (!node) return NULL;
    if (!set_regions(graph, node, regions) || !set_operands(graph, node, operand_count, operands) ||
        !set_attributes(graph, node, attribute_count, attributes) || !infer_results(graph, node))
        return poison_node(graph, node);
    node->id = graph->next_id++;
    for (int i = 0; i < operand_count; i++) use_link(node, i, operands[i]);
    for (int i = 0; i < region_count; i++) regions[i]->parent = node;
    link_node(graph->insertion, graph->insert_before, node);
    return node;
}

weft_value *weft_build(weft_graph *graph, weft_op op, int operand_count, weft_value *const *operands,
                       int attribute_count, const weft_attribute *attributes) {
    weft_node *node = weft_node_create(graph, op, operand_count, operands, attribute_count, attributes, 0, NULL);
    return node && node->result_count > 0 ? &node->results[0] : weft_value_poison(graph);
}

/* -- the body's yield */

static bool yield_is_current(const weft_graph *graph, const weft_node *yield) {
    if ((size_t)yield->operand_count != graph->output_count) return false;
    for (size_t i = 0; i < graph->output_count; i++)
        if (yield->operands[i] != graph->outputs[i]) return false;
    return true;
}

weft_status weft_graph_finish(weft_graph *graph) {
    weft_block *block = graph->body->block;
    weft_node *last = block->last;
    if (last && last->op == WEFT_OP_yield) {
        if (yield_is_current(graph, last)) return NULL;
        weft_node_remove(last);
    }
    weft_location location = graph->location;
    graph->location = (weft_location){.name = NULL};
    weft_place old = weft_graph_place_end(graph, block);
    weft_node *yield =
        weft_node_create(graph, WEFT_OP_yield, (int)graph->output_count, graph->outputs, 0, NULL, 0, NULL);
    weft_graph_place(graph, old);
    graph->location = location;
    if (graph->out_of_memory || !yield)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "graph %s: no memory while it was built", graph->name);
    return NULL;
}
