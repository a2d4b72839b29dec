/* Watching for values that are not finite: one flag for every value, the first node whose result is worse than its
   operands. */
#include <string.h>

#include "base/need.h"
#include "base/text.h"
#include "ir/emit.h"
#include "passes/function/function.h"
#include "weft/transform.h"

typedef struct watch {
    weft_graph *graph;
    weft_value_map nan, infinite; /* value -> bool scalar: has such an element */
} watch;

static weft_value *any(weft_graph *graph, weft_value *flags) {
    int64_t axes[WEFT_MAX_RANK];
    if (weft_value_is_poison(flags) || flags->type.rank == 0) return flags;
    for (int i = 0; i < flags->type.rank; i++) axes[i] = i;
    return weft_emit_reduce(graph, flags, "or", flags->type.rank, axes);
}

/* Flags of a float value, made once. Others have none. */
static weft_value *flag(watch *w, weft_value_map *map, weft_value *value) {
    weft_graph *g = w->graph;
    if (!weft_dtype_is_float(value->type.dtype)) return NULL;
    weft_value *found = weft_value_map_find(map, value);
    if (found) return found;
    weft_value *flags = map == &w->nan ? weft_emit_unary(g, WEFT_OP_is_nan, value)
                                       : weft_emit_unary(g, WEFT_OP_not, weft_emit_unary(g, WEFT_OP_is_finite, value));
    found = any(g, flags);
    if (!weft_value_map_put(map, value, found)) g->out_of_memory = true;
    return found;
}

static weft_value *either(weft_graph *graph, weft_value *a, weft_value *b) {
    if (!a || !b) return a ? a : b;
    return weft_emit_binary(graph, WEFT_OP_or, a, b);
}

/* The results have it and no operand has. */
static weft_value *begins(watch *w, weft_value_map *map, const weft_node *node) {
    weft_value *after = NULL, *before = NULL;
    for (int i = 0; i < node->result_count; i++) after = either(w->graph, after, flag(w, map, &node->results[i]));
    if (!after) return NULL;
    for (int i = 0; i < node->operand_count; i++) before = either(w->graph, before, flag(w, map, node->operands[i]));
    if (!before) return after;
    return weft_emit_binary(w->graph, WEFT_OP_and, after, weft_emit_unary(w->graph, WEFT_OP_not, before));
}

static weft_value *first_of(watch *w, const weft_block *block, const weft_node *end) {
    weft_graph *g = w->graph;
    weft_value *none = weft_emit_scalar(g, WEFT_I64, (double)INT32_MAX), *first = none;
    int64_t number = 0;
    for (const weft_node *node = block->first; node; node = node->next, number++) {
        if (node->op != WEFT_OP_constant) {
            weft_value *bad = either(g, begins(w, &w->nan, node), begins(w, &w->infinite, node));
            if (bad)
                first = weft_emit_binary(g, WEFT_OP_min, first,
                                         weft_emit_select(g, bad, weft_emit_scalar(g, WEFT_I64, (double)number), none));
        }
        if (node == end) break;
    }
    return weft_emit_select(g, weft_emit_compare(g, "eq", first, none), weft_emit_scalar(g, WEFT_I64, -1), first);
}

weft_value *weft_anomaly(weft_graph *graph) {
    watch w = {.graph = graph};
    const weft_block *block = graph->body->block;
    if (graph->insertion != block || !block->last) {
        weft_graph_problem(graph, "weft_anomaly: call it when the whole graph is built");
        return weft_value_poison(graph);
    }
    weft_value_map_init(graph->context->allocator, &w.nan);
    weft_value_map_init(graph->context->allocator, &w.infinite);
    weft_value *first = first_of(&w, block, block->last);
    weft_value_map_deinit(&w.infinite);
    weft_value_map_deinit(&w.nan);
    return first;
}

static void describe_node(const weft_node *node, weft_text *text) {
    weft_text_append(text, "%s", weft_op_get(node->op)->name);
    if (!node->location.name) return;
    weft_text_append(text, " at ");
    weft_location_print(&node->location, text);
}

weft_status weft_anomaly_describe(weft_graph *graph, int64_t number, char **out_text) {
    WEFT_NEED(out_text, "out_text");
    if (!graph || !out_text) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_anomaly_describe: an argument is missing");
    *out_text = NULL;
    const weft_node *node = number < 0 ? NULL : graph->body->block->first, *origin = graph->body->block->first;
    for (int64_t i = 0; node && i < number; i++) node = node->next;
    if (number >= 0 && !node) return WEFT_STATUS(WEFT_OUT_OF_RANGE, "the graph has no node %lld", (long long)number);
    weft_text text;
    weft_text_init(graph->context->allocator, &text);
    if (!node)
        weft_text_append(&text, "every value is finite, or began as it is");
    else
        describe_node(node, &text);
    while (origin && (!node || origin->id != node->location.origin)) origin = origin->next;
    if (node && node->location.origin) {
        weft_text_append(&text, ", in the derivative of ");
        if (origin)
            describe_node(origin, &text);
        else
            weft_text_append(&text, "a node inside another");
    }
    weft_status status = weft_text_status(&text);
    char *copy = status ? NULL : weft_allocate(graph->context->allocator, text.length + 1);
    if (copy)
        memcpy(copy, weft_text_string(&text), text.length + 1);
    else if (!status)
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "describing a node");
    *out_text = copy;
    weft_text_deinit(&text);
    return status;
}
