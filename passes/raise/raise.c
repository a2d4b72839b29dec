/* Walks the blocks in order: operands are raised before their users, so that larger patterns can build on smaller ones.
   What a derived op makes unused is removed by the next "simplify". */
#include "passes/raise/raise.h"

#include "passes/raise/raisers.h"

typedef weft_value *(*raiser)(weft_graph *graph, weft_node *node);
static const raiser raisers[] = {
#define X(name) weft_raise_##name,
    WEFT_RAISERS(X)
#undef X
};

static void raise_node(weft_graph *graph, weft_node *node) {
    for (size_t i = 0; i < sizeof raisers / sizeof *raisers; i++) {
        weft_place old = weft_graph_place_before(graph, node);
        graph->location = node->location;
        weft_value *value = raisers[i](graph, node);
        weft_graph_place(graph, old);
        if (!value || graph->problem_count || !weft_type_equal(&value->type, &node->results[0].type)) continue;
        value->name = node->results[0].name;
        weft_value_replace(&node->results[0], value);
        weft_node_remove(node);
        return;
    }
}

static void raise_block(weft_graph *graph, weft_block *block) {
    for (weft_node *node = block->first, *next; node; node = next) {
        next = node->next;
        if (node->op == WEFT_OP_fusion) continue;
        for (int i = 0; i < node->region_count; i++) raise_block(graph, node->regions[i]->block);
        if (node->result_count == 1 && node->region_count == 0) raise_node(graph, node);
    }
}

weft_status weft_pass_raise(weft_pass_context *context) {
    weft_graph *graph = context->graph;
    weft_location location = graph->location;
    raise_block(graph, graph->body->block);
    graph->location = location;
    if (graph->out_of_memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "raise");
    if (graph->problem_count) return WEFT_STATUS(WEFT_INTERNAL, "raise: %s", graph->problems[0].text);
    return NULL;
}
