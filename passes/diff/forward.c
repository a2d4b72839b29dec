/* Forward mode: tangents along a list of nodes. Read next: reverse.h. */
#include "passes/diff/diff.h"

#include "ir/decompose.h"

weft_jvp_hook weft_jvp_get(weft_op op, const char **out_reason) {
    static const weft_jvp_hook hooks[] = {
#define HOOK(name)   weft_jvp_##name
#define NONE(reason) NULL
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, ...)               \
    [WEFT_OP_##id] = jvp,
#include "ir/ops.def"
#undef NONE
#undef HOOK
    };
    static const char *const reasons[] = {
#define HOOK(name)   NULL
#define NONE(reason) reason
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK
    };
    *out_reason = reasons[op];
    return hooks[op];
}

weft_value *weft_diff_sum(weft_graph *graph, weft_value *x, weft_value *y) {
    if (!x || !y) return x ? x : y;
    return weft_emit_binary(graph, WEFT_OP_add, x, y);
}

weft_value *weft_diff_same_op(weft_graph *graph, const weft_node *node, weft_value *const *operands) {
    return weft_build(graph, node->op, node->operand_count, operands, node->attribute_count, node->attributes);
}

/* A derived op is differentiated through its decomposition, built anew: CSE joins it with the op's own later. */
static void push_derived(weft_graph *graph, const weft_node *node, weft_value_map *tangents, bool linearize) {
    weft_value *written[WEFT_DECOMPOSED_MAX];
    weft_node_list nodes = {0};
    weft_decompose(graph, node, node->operands, written);
    weft_function_nodes(graph, (size_t)node->result_count, written, (size_t)node->operand_count, node->operands,
                        &nodes);
    weft_diff_push(graph, nodes.nodes, nodes.count, tangents, linearize);
    weft_node_list_deinit(graph, &nodes);
    for (int i = 0; i < node->result_count; i++) {
        weft_value *tangent = weft_value_map_find(tangents, written[i]);
        if (tangent && !weft_value_map_put(tangents, &node->results[i], tangent)) graph->out_of_memory = true;
    }
}

static bool captures_tangent(weft_graph *graph, const weft_node *node, const weft_value_map *tangents) {
    weft_value_list captures = {0};
    bool any = false;
    if (node->region_count) weft_node_captures(graph, node, &captures);
    for (size_t i = 0; i < captures.count; i++) any |= weft_value_map_find(tangents, captures.values[i]) != NULL;
    weft_value_list_deinit(graph, &captures);
    return any;
}

/* A read of a state moves as the value that was put there last. */
static void push_state_read(weft_graph *graph, const weft_node *node, weft_value_map *tangents) {
    const weft_node *update = weft_state_source(graph, node);
    weft_value *tangent = update ? weft_value_map_find(tangents, update->operands[0]) : NULL;
    if (tangent && !weft_value_map_put(tangents, &node->results[0], tangent)) graph->out_of_memory = true;
}

static void push_node(weft_graph *graph, weft_node *node, weft_value_map *tangents, bool linearize) {
    const char *reason;
    weft_value **in = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *in),
               **out = weft_graph_allocate(graph, (size_t)node->result_count + 1, sizeof *out);
    if (!in || !out) return;
    if (node->op == WEFT_OP_state_read) {
        push_state_read(graph, node, tangents);
        return;
    }
    bool any = captures_tangent(graph, node, tangents);
    for (int i = 0; i < node->operand_count; i++) {
        in[i] = weft_value_map_find(tangents, node->operands[i]);
        any |= in[i] != NULL;
    }
    if (!any) return;
    graph->location = node->location;
    if (weft_function_touches_states(graph, node)) return;
    if (!graph->location.origin) graph->location.origin = node->id;
    weft_jvp_hook hook = weft_jvp_get(node->op, &reason);
    bool derived = weft_op_get(node->op)->class == WEFT_CLASS_DERIVED;
    if (!hook && derived) {
        push_derived(graph, node, tangents, linearize);
        return;
    }
    if (!hook) {
        weft_graph_problem(graph, "%s cannot be differentiated: %s", weft_op_get(node->op)->name, reason);
        return;
    }
    weft_jvp_rule rule = {
        .graph = graph, .node = node, .tangents = in, .out_tangents = out, .all = tangents, .linearize = linearize};
    hook(&rule);
    if (derived && rule.declined) {
        push_derived(graph, node, tangents, linearize);
        return;
    }
    for (int i = 0; i < node->result_count; i++)
        if (out[i] && !weft_value_map_put(tangents, &node->results[i], out[i])) graph->out_of_memory = true;
}

void weft_diff_push(weft_graph *graph, weft_node *const *nodes, size_t count, weft_value_map *tangents,
                    bool linearize) {
    weft_location location = graph->location;
    for (size_t i = 0; i < count && !graph->out_of_memory; i++)
        if (!nodes[i]->result_count || !weft_value_map_find(tangents, &nodes[i]->results[0]))
            push_node(graph, nodes[i], tangents, linearize);
    graph->location = location;
}

void weft_diff_seed(weft_graph *graph, weft_value_map *map, int count, weft_value *const *inputs,
                    weft_value *const *tangents) {
    for (int i = 0; i < count; i++) {
        if (weft_value_is_poison(inputs[i]) || weft_value_is_poison(tangents[i])) continue;
        if (!weft_dtype_is_float(inputs[i]->type.dtype))
            weft_graph_problem(graph, "input %d of a derivative is %s; only floats have derivatives", i,
                               weft_dtype_name(inputs[i]->type.dtype));
        else if (!weft_type_equal(&inputs[i]->type, &tangents[i]->type))
            weft_graph_problem(graph, "tangent %d differs in type from its input", i);
        else if (!weft_value_map_put(map, inputs[i], tangents[i]))
            graph->out_of_memory = true;
    }
}
