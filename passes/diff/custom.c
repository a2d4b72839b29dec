/* stop_gradient and functions with a derivative of their own. A forward rule is inlined where tangents are pushed; a
   reverse one becomes a linear node that holds it until it is transposed. */
#include <string.h>

#include "passes/diff/reverse.h"
#include "weft/transform.h"

/* -- building */

weft_value *weft_stop_gradient(weft_graph *graph, weft_value *x) {
    return weft_build(graph, WEFT_OP_stop_gradient, 1, &x, 0, NULL);
}

static int float_count(int count, weft_value *const *values) {
    int floats = 0;
    for (int i = 0; i < count; i++) floats += weft_dtype_is_float(values[i]->type.dtype);
    return floats;
}

static void add_arguments(weft_block *block, int count, weft_value *const *values, bool floats) {
    for (int i = 0; i < count; i++)
        if (!floats || weft_dtype_is_float(values[i]->type.dtype))
            (void)weft_block_add_argument(block, &values[i]->type, NULL);
}

/* Runs a callback into a region whose arguments are there; its results end in `made` and in the yield. */
static void fill(weft_graph *graph, weft_region *region, weft_body body, void *self, int count, weft_value **made) {
    weft_place outside = weft_graph_place_end(graph, region->block);
    body(self, graph, region->block->arguments, made);
    for (int i = 0; i < count; i++)
        if (!made[i]) made[i] = weft_value_poison(graph);
    (void)weft_node_create(graph, WEFT_OP_yield, count, made, 0, NULL, 0, NULL);
    weft_graph_place(graph, outside);
}

static void custom(weft_graph *graph, const char *kind, int input_count, weft_value *const *inputs, weft_body body,
                   weft_body rule, void *self, int output_count, weft_value **outputs) {
    weft_region *regions[2] = {weft_region_create(graph), weft_region_create(graph)};
    int capacity = output_count + input_count + 1;
    weft_value **made = weft_graph_allocate(graph, (size_t)capacity, sizeof *made),
               **ruled = weft_graph_allocate(graph, (size_t)capacity, sizeof *ruled);
    bool reverse = !strcmp(kind, "reverse");
    if (!weft_function_poison(graph, "a function with its own derivative", output_count, outputs)) return;
    if (!body || !rule) weft_graph_problem(graph, "a function with its own derivative: its body or rule is missing");
    if (!weft_function_check(graph, "a function with its own derivative: an input", input_count, inputs)) return;
    if (!regions[0] || !regions[1] || !made || !ruled || !body || !rule) return;
    add_arguments(regions[0]->block, input_count, inputs, false);
    fill(graph, regions[0], body, self, output_count, made);
    for (int i = 0; i < output_count; i++)
        if (weft_value_is_poison(made[i])) return;
    add_arguments(regions[1]->block, input_count, inputs, false);
    if (reverse) add_arguments(regions[1]->block, output_count, made, false);
    add_arguments(regions[1]->block, reverse ? output_count : input_count, reverse ? made : inputs, true);
    fill(graph, regions[1], rule, self, reverse ? float_count(input_count, inputs) : float_count(output_count, made),
         ruled);
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_kind, kind);
    weft_node *node = weft_node_create(graph, WEFT_OP_custom_gradient, input_count, inputs, 1, &attribute, 2, regions);
    for (int i = 0; node && i < output_count; i++) outputs[i] = &node->results[i];
}

void weft_custom_jvp(weft_graph *graph, int input_count, weft_value *const *inputs, weft_body body, weft_body rule,
                     void *self, int output_count, weft_value **outputs) {
    custom(graph, "forward", input_count, inputs, body, rule, self, output_count, outputs);
}

void weft_custom_vjp(weft_graph *graph, int input_count, weft_value *const *inputs, weft_body body, weft_body rule,
                     void *self, int output_count, weft_value **outputs) {
    custom(graph, "reverse", input_count, inputs, body, rule, self, output_count, outputs);
}

/* -- rules */

/* The nodes of a region at the insertion point, its arguments mapped already; NULL without memory, else its yield. */
static const weft_node *inline_block(weft_graph *graph, const weft_block *block, weft_value_map *map) {
    for (const weft_node *node = block->first; node != block->last; node = node->next)
        if (!weft_node_clone(graph, node, map)) return NULL;
    return block->last;
}

static void map_argument(weft_graph *graph, weft_value_map *map, const weft_block *block, int *at, weft_value *value) {
    if (!weft_value_map_put(map, block->arguments[(*at)++], value)) graph->out_of_memory = true;
}

static void forward_rule(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    const weft_block *block = node->regions[1]->block;
    weft_value_map map;
    int at = 0, next = 0;
    weft_value_map_init(graph->context->allocator, &map);
    for (int i = 0; i < node->operand_count; i++) map_argument(graph, &map, block, &at, node->operands[i]);
    for (int i = 0; i < node->operand_count; i++)
        if (weft_dtype_is_float(node->operands[i]->type.dtype))
            map_argument(graph, &map, block, &at,
                         rule->tangents[i] ? rule->tangents[i] : weft_diff_zeros(graph, node->operands[i]));
    const weft_node *yield = inline_block(graph, block, &map);
    for (int i = 0; yield && i < node->result_count; i++)
        if (weft_dtype_is_float(node->results[i].type.dtype))
            rule->out_tangents[i] = weft_value_mapped(&map, yield->operands[next++]);
    weft_value_map_deinit(&map);
}

/* The linear node: region (cotangents of all results) -> cotangents of the operands, the rest of the rule's arguments
   mapped to the values of the node. */
static void reverse_rule(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    const weft_block *block = node->regions[1]->block;
    weft_value **tangents = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *tangents);
    weft_region *region = weft_region_create(graph);
    weft_value_map map;
    if (!tangents || !region) return;
    weft_value_map_init(graph->context->allocator, &map);
    int at = 0, count = 0;
    for (int i = 0; i < node->operand_count; i++) map_argument(graph, &map, block, &at, node->operands[i]);
    for (int i = 0; i < node->result_count; i++) map_argument(graph, &map, block, &at, &node->results[i]);
    for (int i = 0; i < node->result_count; i++) {
        if (!weft_dtype_is_float(node->results[i].type.dtype)) continue;
        weft_value *argument = weft_block_add_argument(region->block, &node->results[i].type, NULL);
        map_argument(graph, &map, block, &at, argument);
    }
    for (int i = 0; i < node->operand_count; i++)
        if (weft_dtype_is_float(node->operands[i]->type.dtype))
            tangents[count++] = rule->tangents[i] ? rule->tangents[i] : weft_diff_zeros(graph, node->operands[i]);
    weft_place outside = weft_graph_place_end(graph, region->block);
    bool fine = inline_block(graph, block, &map) != NULL && weft_node_clone(graph, block->last, &map);
    weft_graph_place(graph, outside);
    weft_value_map_deinit(&map);
    weft_attribute kind = weft_attr_string(WEFT_ATTR_kind, "linear");
    weft_node *linear =
        fine ? weft_node_create(graph, WEFT_OP_custom_gradient, count, tangents, 1, &kind, 1, &region) : NULL;
    for (int i = 0, next = 0; linear && i < node->result_count; i++)
        if (weft_dtype_is_float(node->results[i].type.dtype)) rule->out_tangents[i] = &linear->results[next++];
}

void weft_jvp_custom_gradient(weft_jvp_rule *rule) {
    const weft_node *node = rule->node;
    weft_value_list captures = {0};
    bool captured = false;
    weft_node_captures(rule->graph, node, &captures);
    for (size_t i = 0; i < captures.count; i++) captured |= weft_value_map_find(rule->all, captures.values[i]) != NULL;
    weft_value_list_deinit(rule->graph, &captures);
    if (captured)
        weft_graph_problem(rule->graph, "a function with its own derivative uses a differentiated value that is not "
                                        "one of its arguments");
    else if (node->region_count == 1)
        weft_graph_problem(rule->graph,
                           "the derivative of a function with a reverse rule of its own has no rule before "
                           "it is transposed");
    else if (!strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), "forward"))
        forward_rule(rule);
    else
        reverse_rule(rule);
}

void weft_transpose_custom_gradient(weft_transpose_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    if (node->region_count != 1) {
        weft_graph_problem(graph, "custom_gradient is not linear");
        return;
    }
    const weft_block *block = node->regions[0]->block;
    weft_value_map map;
    weft_value_map_init(graph->context->allocator, &map);
    for (int i = 0, at = 0; i < node->result_count; i++)
        map_argument(graph, &map, block, &at,
                     rule->cotangents[i] ? rule->cotangents[i] : weft_diff_zeros(graph, &node->results[i]));
    const weft_node *yield = inline_block(graph, block, &map);
    for (int i = 0; yield && i < node->operand_count; i++)
        if (rule->linear[i]) rule->out_cotangents[i] = weft_value_mapped(&map, yield->operands[i]);
    weft_value_map_deinit(&map);
}
