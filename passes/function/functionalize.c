/* States as values: what a program reads becomes an input, what it leaves behind an output. */
#include <string.h>

#include "passes/function/function.h"
#include "weft/transform.h"

typedef struct state_values {
    weft_graph *graph;
    weft_value **current; /* by state */
} state_values;

static int state_index(const weft_graph *graph, const weft_node *node) {
    const char *name = weft_node_string(node, WEFT_ATTR_name, "");
    for (size_t i = 0; i < graph->state_count; i++)
        if (!strcmp(graph->states[i].name, name)) return (int)i;
    return -1;
}

static weft_status replace_in(state_values *s, weft_block *block, const weft_node *parent) {
    for (weft_node *node = block->first, *next; node; node = next) {
        next = node->next;
        for (int r = 0; r < node->region_count; r++)
            WEFT_TRY(replace_in(s, node->regions[r]->block, node), "states in %s", weft_op_get(node->op)->name);
        if (node->op != WEFT_OP_state_read && node->op != WEFT_OP_state_update) continue;
        int index = state_index(s->graph, node);
        if (index < 0) return WEFT_STATUS(WEFT_INTERNAL, "a state that is not declared");
        if (node->op == WEFT_OP_state_read) {
            weft_value_replace(&node->results[0], s->current[index]);
        } else if (parent) {
            return WEFT_STATUS(WEFT_UNSUPPORTED, "state %s is updated inside a %s: carry it as a value there",
                               s->graph->states[index].name, weft_op_get(parent->op)->name);
        } else {
            s->current[index] = node->operands[0];
        }
        weft_node_remove(node);
    }
    return NULL;
}

static weft_status functionalize(weft_graph *graph) {
    state_values s = {.graph = graph};
    s.current = weft_graph_allocate(graph, graph->state_count + 1, sizeof *s.current);
    if (!s.current) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "states of %s", graph->name);
    for (size_t i = 0; i < graph->state_count; i++) {
        const weft_type *type = &graph->states[i].type;
        s.current[i] = weft_graph_input(graph, graph->states[i].name, type->dtype, type->rank, type->dims);
        if (weft_value_is_poison(s.current[i])) return weft_graph_verify(graph);
    }
    WEFT_TRY(replace_in(&s, graph->body->block, NULL), "graph %s", graph->name);
    for (size_t i = 0; i < graph->state_count; i++) weft_graph_output(graph, graph->states[i].name, s.current[i]);
    graph->state_count = 0;
    return weft_graph_verify(graph);
}

weft_status weft_functionalize(weft_graph *graph, weft_graph **out_graph) {
    if (!out_graph || !graph) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_functionalize: the graph is missing");
    *out_graph = NULL;
    weft_graph *copy;
    WEFT_TRY(weft_graph_verify(graph), "functionalize");
    WEFT_TRY(weft_graph_clone(graph, NULL, &copy), "functionalize");
    weft_status status = functionalize(copy);
    if (status)
        weft_graph_release(copy);
    else
        *out_graph = copy;
    return status;
}
