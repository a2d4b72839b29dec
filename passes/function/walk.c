/* What lies between values: marking by depth first search without recursion (graphs are deep), then listing. */
#include "passes/function/function.h"

#include <string.h>

void weft_node_list_deinit(weft_graph *graph, weft_node_list *list) {
    weft_free(graph->context->allocator, list->nodes, list->capacity * sizeof(*list->nodes));
    *list = (weft_node_list){0};
}

void weft_value_list_deinit(weft_graph *graph, weft_value_list *list) {
    weft_free(graph->context->allocator, list->values, list->capacity * sizeof(*list->values));
    *list = (weft_value_list){0};
}

void weft_node_list_add(weft_graph *graph, weft_node_list *list, weft_node *node) {
    if (WEFT_ARRAY_RESERVE(graph->context->allocator, list->nodes, list->capacity, list->count + 1))
        list->nodes[list->count++] = node;
    else
        graph->out_of_memory = true;
}

void weft_value_list_add(weft_graph *graph, weft_value_list *list, weft_value *value) {
    if (WEFT_ARRAY_RESERVE(graph->context->allocator, list->values, list->capacity, list->count + 1))
        list->values[list->count++] = value;
    else
        graph->out_of_memory = true;
}

void weft_value_list_add_new(weft_graph *graph, weft_value_list *list, weft_value *value) {
    for (size_t i = 0; i < list->count; i++)
        if (list->values[i] == value) return;
    weft_value_list_add(graph, list, value);
}

bool weft_function_check(weft_graph *graph, const char *what, int count, weft_value *const *values) {
    bool fine = true;
    for (int i = 0; i < count; i++) {
        if (values && values[i] && values[i]->graph == graph) {
            fine &= !weft_value_is_poison(values[i]);
            continue;
        }
        weft_graph_problem(graph, "%s is %s", what, values && values[i] ? "of another graph" : "missing");
        fine = false;
    }
    return fine;
}

bool weft_function_poison(weft_graph *graph, const char *what, int count, weft_value **out) {
    if (count > 0 && !out) weft_graph_problem(graph, "%s: the place for its results is missing", what);
    for (int i = 0; out && i < count; i++) out[i] = weft_value_poison(graph);
    return count <= 0 || out;
}

bool weft_value_is_inside(const weft_value *value, const weft_block *block) {
    const weft_block *at = value->node ? value->node->block : value->block;
    while (at && at != block) at = weft_block_around(at);
    return at == block;
}

static void captures_in(weft_graph *graph, const weft_node *owner, const weft_block *block, weft_value_list *list) {
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->operand_count; i++) {
            bool inside = false;
            for (int r = 0; r < owner->region_count; r++)
                inside |= weft_value_is_inside(node->operands[i], owner->regions[r]->block);
            if (!inside) weft_value_list_add_new(graph, list, node->operands[i]);
        }
        for (int r = 0; r < node->region_count; r++) captures_in(graph, owner, node->regions[r]->block, list);
    }
}

void weft_node_captures(weft_graph *graph, const weft_node *node, weft_value_list *list) {
    for (int r = 0; r < node->region_count; r++) captures_in(graph, node, node->regions[r]->block, list);
}

static bool is_update_of(const weft_node *node, const char *name) {
    return node->op == WEFT_OP_state_update && !strcmp(weft_node_string(node, WEFT_ATTR_name, ""), name);
}

static bool updates_inside(const weft_node *node, const char *name) {
    for (int r = 0; r < node->region_count; r++)
        for (const weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            if (is_update_of(inner, name) || updates_inside(inner, name)) return true;
    return false;
}

const weft_node *weft_state_source(weft_graph *graph, const weft_node *read) {
    const char *name = weft_node_string(read, WEFT_ATTR_name, "");
    const weft_node *node = read->previous;
    for (const weft_block *block = read->block; block;) {
        for (; node; node = node->previous) {
            if (is_update_of(node, name)) return node;
            if (!updates_inside(node, name)) continue;
            weft_graph_problem(graph, "state %s is updated inside a %s before it is read: carry it as a value there",
                               name, weft_op_get(node->op)->name);
            return NULL;
        }
        const weft_block *around = weft_block_around(block);
        node = block->region->parent ? block->region->parent->previous : around ? around->last : NULL;
        block = around;
    }
    return NULL;
}

/* Is the state updated anywhere around the insertion point? */
static bool is_updated(const weft_graph *graph, const char *name) {
    for (const weft_block *block = graph->insertion; block; block = weft_block_around(block))
        for (const weft_node *node = block->first; node; node = node->next)
            if (is_update_of(node, name) || updates_inside(node, name)) return true;
    return false;
}

static const char *state_in(const weft_graph *graph, const weft_block *block) {
    for (const weft_node *node = block->first; node; node = node->next) {
        const char *name = weft_node_string(node, WEFT_ATTR_name, "");
        if (node->op == WEFT_OP_state_update || (node->op == WEFT_OP_state_read && is_updated(graph, name)))
            return name;
        for (int r = 0; r < node->region_count; r++)
            if ((name = state_in(graph, node->regions[r]->block))) return name;
    }
    return NULL;
}

bool weft_function_touches_states(weft_graph *graph, const weft_node *node) {
    for (int r = 0; r < node->region_count; r++) {
        const char *name = state_in(graph, node->regions[r]->block);
        if (!name) continue;
        weft_graph_problem(graph,
                           "a %s that reads or updates state %s: read it before, carry it as a value, update it after",
                           weft_op_get(node->op)->name, name);
        return true;
    }
    return false;
}

typedef struct walk {
    weft_graph *graph;
    weft_map marks; /* nodes reached; inputs' values */
    weft_node_list stack;
} walk;

static bool is_marked(const walk *w, const void *thing) { return weft_map_has(&w->marks, &thing, sizeof thing); }

static void mark(walk *w, const void *thing) {
    if (!weft_map_put(&w->marks, &thing, sizeof thing, NULL)) w->graph->out_of_memory = true;
}

static void reach(walk *w, const weft_value *value) {
    if (value->node && !is_marked(w, value) && !is_marked(w, value->node))
        weft_node_list_add(w->graph, &w->stack, value->node);
}

static void visit(walk *w, weft_node *node) {
    mark(w, node);
    for (int i = 0; i < node->operand_count; i++) reach(w, node->operands[i]);
    for (int r = 0; r < node->region_count; r++)
        for (weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            if (!is_marked(w, inner)) weft_node_list_add(w->graph, &w->stack, inner);
    if (node->op != WEFT_OP_state_read) return;
    const weft_node *update = weft_state_source(w->graph, node);
    if (update) reach(w, update->operands[0]);
}

/* Outer blocks run first. */
static void list_block(walk *w, const weft_block *block, weft_node_list *list) {
    if (weft_block_around(block)) list_block(w, weft_block_around(block), list);
    for (weft_node *node = block->first; node; node = node->next)
        if (is_marked(w, node)) weft_node_list_add(w->graph, list, node);
}

void weft_function_nodes(weft_graph *graph, size_t value_count, weft_value *const *values, size_t input_count,
                         weft_value *const *inputs, weft_node_list *list) {
    walk w = {.graph = graph};
    weft_map_init(graph->context->allocator, &w.marks);
    for (size_t i = 0; i < input_count; i++) mark(&w, inputs[i]);
    for (size_t i = 0; i < value_count; i++) reach(&w, values[i]);
    while (w.stack.count && !graph->out_of_memory) {
        weft_node *node = w.stack.nodes[--w.stack.count];
        if (!is_marked(&w, node)) visit(&w, node);
    }
    list_block(&w, graph->insertion, list);
    weft_node_list_deinit(graph, &w.stack);
    weft_map_deinit(&w.marks);
}

void weft_region_discard(weft_region *region) {
    while (region->block->last) weft_node_remove(region->block->last);
}
