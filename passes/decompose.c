/* Replaces each derived op by its decomposition. A decomposition may hold derived ops: they are visited next.
   Derived ops inside fusions stay: a builder claimed them whole. Convolutions that are other products become those
   (convolution.c): here, because constants behind them have gone into their weights by now. Attention that a builder
   claims is cut into pieces of the keys where few heads would leave processors idle (attention.c). */
#include "passes/decompose.h"

#include "ir/decompose.h"
#include "ir/ops/attention.h"
#include "passes/attention.h"
#include "passes/convolution.h"

static weft_status decompose_node(weft_graph *graph, weft_node *node, weft_node **out_next) {
    weft_node *previous = node->previous;
    weft_place old = weft_graph_place_before(graph, node);
    weft_location location = graph->location;
    graph->location = node->location;
    weft_value *values[WEFT_DECOMPOSED_MAX];
    bool poison = false;
    if (node->op == WEFT_OP_convolution)
        values[0] = weft_convolution_as_other_product(graph, node);
    else
        weft_decompose(graph, node, node->operands, values);
    graph->location = location;
    weft_graph_place(graph, old);
    for (int i = 0; i < node->result_count; i++) poison |= weft_value_is_poison(values[i]);
    if (poison || graph->problem_count)
        return WEFT_STATUS(graph->out_of_memory ? WEFT_OUT_OF_MEMORY : WEFT_INTERNAL, "decomposing %s: %s",
                           weft_op_get(node->op)->name, graph->problem_count ? graph->problems[0].text : "no memory");
    *out_next = previous ? previous->next : node->block->first;
    if (*out_next == node) *out_next = node->next;
    for (int i = 0; i < node->result_count; i++) weft_value_replace(&node->results[i], values[i]);
    weft_node_remove(node);
    return NULL;
}

static bool is_claimed(const weft_pass_context *context, const weft_node *node) {
    return context->claims && context->capability && context->claims(context->graph, node, context->capability);
}

/* Takes back what was built after `previous`. */
static void discard(weft_node *node, const weft_node *previous) {
    for (weft_node *made = node->previous, *before; made != previous; made = before) {
        before = made->previous;
        weft_node_remove(made);
    }
}

/* A window to the left of a claimed attention as a bool mask, which its builder evaluates in registers and lists blocks
   by: builders there have no walk of their own for it. */
static weft_status mask_window(const weft_pass_context *context, weft_node *node, weft_node **out_node) {
    weft_graph *graph = context->graph;
    int64_t left = weft_node_int(node, WEFT_ATTR_window_left, -1);
    int count = node->op == WEFT_OP_attention ? 3 : 6, at = weft_attention_mask_at(node),
        key = weft_attention_key_at(node);
    *out_node = node;
    if (left < 0 || !context->capability || !context->capability->hopper) return NULL;
    weft_place old = weft_graph_place_before(graph, node);
    weft_location location = graph->location;
    graph->location = node->location;
    weft_value *operands[8], *seen = weft_attention_window_mask(graph, node, at < 0 ? NULL : node->operands[at], left);
    for (int i = 0; i < count; i++) operands[i] = node->operands[i];
    operands[count++] = seen;
    if (key >= 0) operands[count++] = node->operands[key];
    weft_attribute attributes[8];
    for (int i = 0; i < node->attribute_count; i++) {
        attributes[i] = node->attributes[i];
        if (attributes[i].name == WEFT_ATTR_window_left) attributes[i] = weft_attr_int(WEFT_ATTR_window_left, -1);
    }
    weft_node *masked = weft_value_is_poison(seen) ? NULL
                                                   : weft_node_create(graph, node->op, count, operands,
                                                                      node->attribute_count, attributes, 0, NULL);
    graph->location = location;
    weft_graph_place(graph, old);
    if (!masked || graph->problem_count) return WEFT_STATUS(WEFT_INTERNAL, "a window as a mask");
    for (int i = 0; i < node->result_count; i++) weft_value_replace(&node->results[i], &masked->results[i]);
    weft_node_remove(node);
    *out_node = masked;
    return NULL;
}

/* A claimed attention in pieces, when the pieces are claimed as well. */
static weft_status cut_attention(const weft_pass_context *context, weft_node *node) {
    weft_graph *graph = context->graph;
    int64_t pieces = weft_attention_pieces(graph, node, context->capability);
    if (pieces < 2) return NULL;
    weft_node *previous = node->previous, *inner;
    weft_place old = weft_graph_place_before(graph, node);
    weft_location location = graph->location;
    graph->location = node->location;
    weft_value *value = weft_attention_in_pieces(graph, node, pieces, &inner);
    graph->location = location;
    weft_graph_place(graph, old);
    if (weft_value_is_poison(value) || graph->problem_count)
        return WEFT_STATUS(graph->out_of_memory ? WEFT_OUT_OF_MEMORY : WEFT_INTERNAL, "attention in pieces: %s",
                           graph->problem_count ? graph->problems[0].text : "no memory");
    if (!is_claimed(context, inner)) {
        discard(node, previous);
        return NULL;
    }
    weft_value_replace(&node->results[0], value);
    weft_node_remove(node);
    return NULL;
}

static weft_status decompose_block(const weft_pass_context *context, weft_block *block) {
    weft_graph *graph = context->graph;
    for (weft_node *node = block->first, *next; node; node = next) {
        next = node->next;
        bool derived = weft_op_decomposes(node->op) && !is_claimed(context, node);
        if (derived || weft_convolution_is_other_product(node)) {
            WEFT_TRY(decompose_node(graph, node, &next), "%s", graph->name);
            continue;
        }
        if (node->op == WEFT_OP_fusion) continue;
        if (node->op == WEFT_OP_attention || node->op == WEFT_OP_attention_backward) {
            WEFT_TRY(mask_window(context, node, &node), "%s", graph->name);
            if (node->op == WEFT_OP_attention) WEFT_TRY(cut_attention(context, node), "%s", graph->name);
            continue;
        }
        for (int i = 0; i < node->region_count; i++)
            WEFT_TRY(decompose_block(context, node->regions[i]->block), "in %s", weft_op_get(node->op)->name);
    }
    return NULL;
}

weft_status weft_pass_decompose(weft_pass_context *context) {
    return decompose_block(context, context->graph->body->block);
}
