/* Forward mode of while, cond and scan. What a loop carries has a tangent if its start has one or if the body gives it
   one: found by building the body until nothing changes. Read next: control_linear.c. */
#include "passes/diff/control.h"

static bool list_init(weft_graph *graph, weft_dual_list *list, int count) {
    list->count = count;
    list->values = weft_graph_allocate(graph, (size_t)count + 1, sizeof *list->values);
    list->tangents = weft_graph_allocate(graph, (size_t)count + 1, sizeof *list->tangents);
    return list->values && list->tangents;
}

bool weft_control_copy(weft_graph *graph, const weft_block *block, weft_value_map *map, weft_dual_list *list) {
    const weft_node *yield = block->last;
    if (!list_init(graph, list, yield->operand_count)) return false;
    for (const weft_node *node = block->first; node != yield; node = node->next)
        if (!weft_node_clone(graph, node, map)) return false;
    for (int i = 0; i < list->count; i++) list->values[i] = weft_value_mapped(map, yield->operands[i]);
    return true;
}

void weft_control_tangents(const weft_value_map *tangents, weft_dual_list *list) {
    for (int i = 0; i < list->count; i++) list->tangents[i] = weft_value_map_find(tangents, list->values[i]);
}

void weft_control_yield(weft_graph *graph, int count, weft_value *const *values) {
    (void)weft_node_create(graph, WEFT_OP_yield, count, values, 0, NULL, 0, NULL);
}

weft_node *weft_scan_build(weft_graph *graph, const weft_node *like, int carries, int count,
                           weft_value *const *operands, bool reverse, weft_region *region) {
    weft_dim k = carries;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_k, 1, &k), *weft_node_attribute(like, WEFT_ATTR_trips),
                                    weft_attr_int(WEFT_ATTR_reverse, reverse)};
    return weft_node_create(graph, WEFT_OP_scan, count, operands, 3, attributes, 1, &region);
}

/* Puts the nodes of the region so far through forward mode, at the end of the region. */
static void push_region(weft_jvp_rule *rule, const weft_region *region) {
    weft_node_list nodes = {0};
    for (weft_node *node = region->block->first; node; node = node->next) weft_node_list_add(rule->graph, &nodes, node);
    weft_diff_push(rule->graph, nodes.nodes, nodes.count, rule->all, rule->linearize);
    weft_node_list_deinit(rule->graph, &nodes);
}

/* A body with its tangents in a new region: arguments [arguments, tangents of the flagged ones] with the first
   `carries` of both before the rest of both. The insertion point stays inside; no yield yet. */
static weft_region *dual_body(weft_jvp_rule *rule, const weft_block *body, int carries, const bool *flags,
                              weft_dual_list *out_results) {
    weft_graph *graph = rule->graph;
    weft_region *region = weft_region_create(graph);
    weft_value_map map;
    if (!region) return NULL;
    (void)weft_graph_place_end(graph, region->block);
    weft_value_map_init(graph->context->allocator, &map);
    for (int part = 0; part < 2; part++) {
        int first = part ? carries : 0, end = part ? body->argument_count : carries;
        for (int i = first; i < end; i++) {
            weft_value *made = weft_block_add_argument(region->block, &body->arguments[i]->type, NULL);
            if (!weft_value_map_put(&map, body->arguments[i], made)) graph->out_of_memory = true;
        }
        for (int i = first; i < end; i++) {
            if (!flags[i]) continue;
            weft_value *tangent = weft_block_add_argument(region->block, &body->arguments[i]->type, NULL);
            if (!weft_value_map_put(rule->all, weft_value_map_find(&map, body->arguments[i]), tangent))
                graph->out_of_memory = true;
        }
    }
    bool fine = weft_control_copy(graph, body, &map, out_results);
    weft_value_map_deinit(&map);
    if (!fine) return NULL;
    push_region(rule, region);
    weft_control_tangents(rule->all, out_results);
    return region;
}

/* Grows flags[0, carries) until the body keeps them. */
static bool settle(weft_jvp_rule *rule, const weft_block *body, int carries, bool *flags) {
    for (bool changed = true; changed;) {
        weft_place outside = {rule->graph->insertion, rule->graph->insert_before};
        weft_dual_list results;
        weft_region *region = dual_body(rule, body, carries, flags, &results);
        weft_graph_place(rule->graph, outside);
        if (!region) return false;
        weft_region_discard(region);
        changed = false;
        for (int i = 0; i < carries; i++)
            if (results.tangents[i] && !flags[i]) flags[i] = changed = true;
        if (rule->graph->out_of_memory) return false;
    }
    return true;
}

/* The yield of a dual body: carries, tangents of flagged ones, the rest, tangents of the rest that have one. */
static void dual_yield(weft_graph *graph, int carries, const bool *flags, const weft_dual_list *results) {
    weft_value **values = weft_graph_allocate(graph, 2 * (size_t)results->count + 1, sizeof *values);
    int at = 0;
    if (!values) return;
    for (int i = 0; i < carries; i++) values[at++] = results->values[i];
    for (int i = 0; i < carries; i++)
        if (flags[i]) values[at++] = weft_control_or_zeros(graph, results->tangents[i], results->values[i]);
    for (int i = carries; i < results->count; i++) values[at++] = results->values[i];
    for (int i = carries; i < results->count; i++)
        if (results->tangents[i]) values[at++] = results->tangents[i];
    weft_control_yield(graph, at, values);
}

/* Operands of a dual loop, as the arguments of its body. */
static int dual_operands(weft_jvp_rule *rule, int carries, const bool *flags, weft_value **operands) {
    const weft_node *node = rule->node;
    int at = 0;
    for (int part = 0; part < 2; part++) {
        int first = part ? carries : 0, end = part ? node->operand_count : carries;
        for (int i = first; i < end; i++) operands[at++] = node->operands[i];
        for (int i = first; i < end; i++)
            if (flags[i]) operands[at++] = weft_control_or_zeros(rule->graph, rule->tangents[i], node->operands[i]);
    }
    return at;
}

static void forward_scan(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    const weft_block *body = node->regions[0]->block;
    int carries = weft_scan_carries(node), flagged = 0;
    bool *flags = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *flags);
    weft_value **operands = weft_graph_allocate(graph, 2 * (size_t)node->operand_count + 1, sizeof *operands);
    if (!flags || !operands) return;
    for (int i = 0; i < node->operand_count; i++) flags[i] = rule->tangents[i] != NULL;
    if (!settle(rule, body, carries, flags)) return;
    for (int i = 0; i < carries; i++) flagged += flags[i];
    weft_place outside = {graph->insertion, graph->insert_before};
    weft_dual_list results;
    weft_region *region = dual_body(rule, body, carries, flags, &results);
    if (region) dual_yield(graph, carries, flags, &results);
    weft_graph_place(graph, outside);
    if (!region) return;
    int count = dual_operands(rule, carries, flags, operands);
    weft_node *dual = weft_scan_build(graph, node, carries + flagged, count, operands,
                                      weft_node_int(node, WEFT_ATTR_reverse, 0) != 0, region);
    if (!dual || weft_value_is_poison(&dual->results[0])) return;
    int at = carries;
    for (int i = 0; i < carries; i++)
        if (flags[i]) rule->out_tangents[i] = &dual->results[at++];
    at = carries + flagged + results.count - carries;
    for (int i = carries; i < results.count; i++)
        if (results.tangents[i]) rule->out_tangents[i] = &dual->results[at++];
}

void weft_jvp_scan(weft_jvp_rule *rule) {
    if (rule->linearize)
        weft_linearize_scan(rule);
    else
        forward_scan(rule);
}

void weft_jvp_while(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    int count = node->operand_count;
    if (rule->linearize && weft_node_int(node, WEFT_ATTR_bound, -1) >= 0) {
        weft_linearize_while(rule);
        return;
    }
    bool *flags = weft_graph_allocate(graph, (size_t)count + 1, sizeof *flags);
    weft_value **operands = weft_graph_allocate(graph, 2 * (size_t)count + 1, sizeof *operands);
    weft_region *condition = weft_region_create(graph);
    weft_dual_list results, test;
    if (!flags || !operands || !condition) return;
    for (int i = 0; i < count; i++) flags[i] = rule->tangents[i] != NULL;
    if (!settle(rule, node->regions[1]->block, count, flags)) return;
    weft_place outside = {graph->insertion, graph->insert_before};
    weft_region *body = dual_body(rule, node->regions[1]->block, count, flags, &results);
    if (body) dual_yield(graph, count, flags, &results);
    (void)weft_graph_place_end(graph, condition->block);
    weft_value_map map;
    weft_value_map_init(graph->context->allocator, &map);
    const weft_block *tested = node->regions[0]->block;
    for (int i = 0; body && i < body->block->argument_count; i++) {
        weft_value *made = weft_block_add_argument(condition->block, &body->block->arguments[i]->type, NULL);
        if (i < count && !weft_value_map_put(&map, tested->arguments[i], made)) graph->out_of_memory = true;
    }
    bool fine = body && weft_control_copy(graph, tested, &map, &test);
    if (fine) weft_control_yield(graph, 1, test.values);
    weft_value_map_deinit(&map);
    weft_graph_place(graph, outside);
    if (!fine) return;
    int total = dual_operands(rule, count, flags, operands);
    weft_region *regions[2] = {condition, body};
    weft_node *dual =
        weft_node_create(graph, WEFT_OP_while, total, operands, node->attribute_count, node->attributes, 2, regions);
    for (int i = 0, at = count; dual && i < count && at < dual->result_count; i++)
        if (flags[i]) rule->out_tangents[i] = &dual->results[at++];
}

/* The branches' tangents; their values are computed again inside. */
static void forward_cond(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    weft_dual_list results[2];
    weft_region *regions[2];
    weft_place outside = {graph->insertion, graph->insert_before};
    bool fine = true;
    for (int r = 0; r < 2; r++) {
        regions[r] = dual_body(rule, node->regions[r]->block, 0, NULL, &results[r]);
        fine &= regions[r] != NULL;
    }
    weft_value **values = weft_graph_allocate(graph, (size_t)node->result_count + 1, sizeof *values);
    for (int r = 0; r < 2 && fine && values; r++) {
        int at = 0;
        (void)weft_graph_place_end(graph, regions[r]->block);
        for (int i = 0; i < results[r].count; i++)
            if (results[0].tangents[i] || results[1].tangents[i])
                values[at++] = weft_control_or_zeros(graph, results[r].tangents[i], results[r].values[i]);
        weft_control_yield(graph, at, values);
    }
    weft_graph_place(graph, outside);
    if (!fine || !values) return;
    weft_node *made = weft_node_create(graph, WEFT_OP_cond, 1, node->operands, 0, NULL, 2, regions);
    for (int i = 0, at = 0; made && i < results[0].count && at < made->result_count; i++)
        if (results[0].tangents[i] || results[1].tangents[i]) rule->out_tangents[i] = &made->results[at++];
}

void weft_jvp_cond(weft_jvp_rule *rule) {
    if (rule->linearize)
        weft_linearize_cond(rule);
    else
        forward_cond(rule);
}
