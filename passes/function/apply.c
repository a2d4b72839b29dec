/* Placeholders and calls: the function rebuilt at other arguments. */
#include "ir/emit.h"
#include "passes/function/function.h"
#include "weft/transform.h"

weft_value *weft_placeholder(weft_graph *graph, weft_dtype dtype, int rank, const weft_dim *shape) {
    return weft_emit_splat(graph, dtype, 0, rank, shape);
}

weft_value *weft_placeholder_like(weft_graph *graph, weft_value *like) {
    if (!weft_function_check(graph, "weft_placeholder_like: the value", 1, &like)) return weft_value_poison(graph);
    return weft_placeholder(graph, like->type.dtype, like->type.rank, like->type.dims);
}

static bool any_mapped(const weft_value_map *map, const weft_node *node, const weft_value_list *captures) {
    for (int i = 0; i < node->operand_count; i++)
        if (weft_value_map_find(map, node->operands[i])) return true;
    for (size_t i = 0; i < captures->count; i++)
        if (weft_value_map_find(map, captures->values[i])) return true;
    return false;
}

static void apply_node(weft_graph *graph, const weft_node *node, weft_value_map *map) {
    weft_value_list captures = {0};
    weft_node_captures(graph, node, &captures);
    if (any_mapped(map, node, &captures) && !weft_function_touches_states(graph, node))
        (void)weft_node_clone(graph, node, map);
    weft_value_list_deinit(graph, &captures);
}

void weft_apply(weft_graph *graph, int value_count, weft_value *const *values, int input_count,
                weft_value *const *inputs, weft_value *const *arguments, weft_value **out_values) {
    weft_value_map map;
    weft_node_list nodes = {0};
    if (!weft_function_poison(graph, "weft_apply", value_count, out_values)) return;
    if (!weft_function_check(graph, "weft_apply: a value", value_count, values) ||
        !weft_function_check(graph, "weft_apply: an input", input_count, inputs) ||
        !weft_function_check(graph, "weft_apply: an argument", input_count, arguments))
        return;
    weft_value_map_init(graph->context->allocator, &map);
    for (int i = 0; i < input_count; i++)
        if (!weft_type_equal(&inputs[i]->type, &arguments[i]->type))
            weft_graph_problem(graph, "argument %d differs in type from its input", i);
        else if (!weft_value_map_put(&map, inputs[i], arguments[i]))
            graph->out_of_memory = true;
    weft_function_nodes(graph, (size_t)value_count, values, (size_t)input_count, inputs, &nodes);
    for (size_t i = 0; i < nodes.count && !graph->out_of_memory; i++) apply_node(graph, nodes.nodes[i], &map);
    for (int i = 0; i < value_count; i++) out_values[i] = weft_value_mapped(&map, values[i]);
    weft_node_list_deinit(graph, &nodes);
    weft_value_map_deinit(&map);
}
