/* The table of rewrites and the worklist that runs it to a fixed point.
   Invariant: a node's note is set exactly while it waits in the worklist. */
#include "passes/simplify/simplify.h"

const weft_rewrite_row weft_simplify_rewrites[] = {
#define X(name, op) {#name, op, weft_rewrite_##name},
    WEFT_REWRITES(X)
#undef X
        {NULL, WEFT_OP_COUNT, NULL},
};

/* Rounds of worklist, common subexpressions and dead code; each needs the other's result rarely more than twice. */
enum { MAX_ROUNDS = 16, MAX_STEPS_PER_NODE = 200 };

typedef struct worklist {
    weft_graph *graph;
    size_t count, capacity;
    weft_node **nodes;
    size_t steps_left;
    bool changed;
} worklist;

static weft_status push(worklist *list, weft_node *node) {
    if (node->note || !node->block) return NULL;
    if (!WEFT_ARRAY_RESERVE(list->graph->context->allocator, list->nodes, list->capacity, list->count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "worklist");
    node->note = list;
    list->nodes[list->count++] = node;
    return NULL;
}

/* Fusions are closed: their regions are what one builder claimed. */
static weft_status push_block(worklist *list, const weft_block *block) {
    for (weft_node *node = block->last; node; node = node->previous) {
        WEFT_TRY(push(list, node), "%s", weft_op_get(node->op)->name);
        if (node->op == WEFT_OP_fusion) continue;
        for (int i = 0; i < node->region_count; i++)
            WEFT_TRY(push_block(list, node->regions[i]->block), "%s", weft_op_get(node->op)->name);
    }
    return NULL;
}

static weft_status push_users(worklist *list, const weft_value *value) {
    for (const weft_use *use = value->uses; use; use = use->next) WEFT_TRY(push(list, use->user), "users");
    return NULL;
}

/* Removes a dead node and what only it used. */
static weft_status remove_dead(worklist *list, weft_node *node) {
    if (!node->block || !weft_node_is_dead(node)) return NULL;
    weft_node_remove(node);
    list->changed = true;
    for (int i = 0; i < node->operand_count; i++)
        if (node->operands[i]->node) WEFT_TRY(push(list, node->operands[i]->node), "operands");
    return NULL;
}

/* New nodes are those between `previous` and node. */
static weft_status replace(worklist *list, weft_node *node, weft_node *previous, weft_value *value) {
    weft_node *first = previous ? previous->next : node->block->first;
    for (weft_node *made = first; made != node; made = made->next) WEFT_TRY(push(list, made), "new node");
    list->changed = true;
    if (value == &node->results[0]) {
        WEFT_TRY(push(list, node), "node");
        return push_users(list, value);
    }
    if (node->results[0].name && !value->name) value->name = node->results[0].name;
    WEFT_TRY(push_users(list, &node->results[0]), "users");
    weft_value_replace(&node->results[0], value);
    return remove_dead(list, node);
}

/* Takes back what a rewrite built. */
static void discard(weft_node *node, weft_node *previous) {
    for (weft_node *made = node->previous, *before; made != previous; made = before) {
        before = made->previous;
        if (weft_node_is_dead(made)) weft_node_remove(made);
    }
}

static weft_status rewrite_node(worklist *list, weft_node *node) {
    weft_graph *graph = list->graph;
    for (const weft_rewrite_row *row = weft_simplify_rewrites; row->name; row++) {
        if (row->op != node->op && row->op != WEFT_OP_COUNT) continue;
        weft_node *previous = node->previous;
        weft_place old = weft_graph_place_before(graph, node);
        graph->location = node->location;
        weft_value *value = row->rewrite(graph, node);
        weft_graph_place(graph, old);
        if (graph->out_of_memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "rewrite %s", row->name);
        if (graph->problem_count)
            return WEFT_STATUS(WEFT_INTERNAL, "rewrite %s: %s", row->name, graph->problems[0].text);
        if (!value) continue;
        if (!weft_type_equal(&value->type, &node->results[0].type)) { /* equal under a guard only: users would differ */
            discard(node, previous);
            continue;
        }
        if (list->steps_left-- == 0)
            return WEFT_STATUS(WEFT_INTERNAL, "simplify does not settle: rewrite %s applies again and again",
                               row->name);
        return replace(list, node, previous, value);
    }
    return NULL;
}

static weft_status run_worklist(worklist *list) {
    WEFT_TRY(push_block(list, list->graph->body->block), "worklist");
    list->steps_left = (list->count + 100) * MAX_STEPS_PER_NODE;
    while (list->count) {
        weft_node *node = list->nodes[--list->count];
        node->note = NULL;
        if (!node->block) continue;
        if (weft_node_is_dead(node))
            WEFT_TRY(remove_dead(list, node), "dead node");
        else if (node->result_count > 0)
            WEFT_TRY(rewrite_node(list, node), "%s", weft_op_get(node->op)->name);
    }
    return NULL;
}

weft_status weft_pass_simplify(weft_pass_context *context) {
    weft_graph *graph = context->graph;
    worklist list = {.graph = graph};
    weft_location location = graph->location;
    weft_status status = NULL;
    for (int round = 0; round < MAX_ROUNDS && !status; round++) {
        list.changed = false;
        status = run_worklist(&list);
        if (!status) status = weft_simplify_cse(graph, &list.changed);
        if (!status) weft_simplify_dce(graph, &list.changed);
        if (!list.changed) break;
    }
    for (size_t i = 0; i < list.count; i++) list.nodes[i]->note = NULL; /* after a failure */
    graph->location = location;
    weft_free(graph->context->allocator, list.nodes, list.capacity * sizeof *list.nodes);
    return status;
}
