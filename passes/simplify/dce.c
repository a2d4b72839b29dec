/* Dead code: nodes without effect whose results nobody uses. */
#include "passes/simplify/simplify.h"

static bool has_effect(const weft_node *node) {
    if (weft_op_get(node->op)->flags & (WEFT_FLAG_EFFECT | WEFT_FLAG_TERMINATOR)) return true;
    if (weft_node_attribute(node, WEFT_ATTR_symbol)) return true; /* defines an extent that types may hold */
    for (int i = 0; i < node->region_count; i++)
        for (const weft_node *inner = node->regions[i]->block->first; inner; inner = inner->next)
            if (inner->op != WEFT_OP_yield && has_effect(inner)) return true;
    return false;
}

bool weft_node_is_dead(const weft_node *node) {
    for (int i = 0; i < node->result_count; i++)
        if (node->results[i].uses) return false; /* the body's yield uses the outputs */
    return !has_effect(node);
}

static void sweep(weft_block *block, bool *changed) {
    for (weft_node *node = block->last, *previous; node; node = previous) {
        previous = node->previous;
        if (weft_node_is_dead(node)) {
            weft_node_remove(node);
            *changed = true;
            continue;
        }
        for (int i = 0; node->op != WEFT_OP_fusion && i < node->region_count; i++)
            sweep(node->regions[i]->block, changed);
    }
}

void weft_simplify_dce(weft_graph *graph, bool *changed) { sweep(graph->body->block, changed); }
