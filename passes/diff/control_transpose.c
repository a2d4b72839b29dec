/* Transposes of linear loops and branches (control_linear.c makes them). Values of outside that a region is linear in
   are linear operands like others: a loop sums their cotangents in carries of their own. */
#include "passes/diff/control.h"

static void linear_captures(const weft_transpose_rule *rule, weft_value_list *list) {
    weft_value_list all = {0};
    weft_node_captures(rule->graph, rule->node, &all);
    for (size_t i = 0; i < all.count; i++)
        if (weft_reversal_is_linear(rule->reverse, all.values[i]))
            weft_value_list_add(rule->graph, list, all.values[i]);
    weft_value_list_deinit(rule->graph, &all);
}

/* -- cond: the same branches, transposed; results = cotangents of the captured values */

/* The branch's nodes in a scratch region: what is not linear there moves out when it is needed. */
static bool transpose_branch_nodes(weft_transpose_rule *rule, const weft_block *branch, weft_region *linear,
                                   weft_reversal *inner) {
    weft_graph *graph = rule->graph;
    weft_value_map map;
    weft_dual_list results;
    weft_node_list nodes = {0};
    weft_value_map_init(graph->context->allocator, &map);
    weft_place inside = weft_graph_place_end(graph, linear->block);
    bool fine = weft_control_copy(graph, branch, &map, &results);
    weft_graph_place(graph, inside);
    weft_value_map_deinit(&map);
    if (!fine) return false;
    for (weft_node *node = linear->block->first; node; node = node->next) weft_node_list_add(graph, &nodes, node);
    weft_reversal_classify(inner, nodes.nodes, nodes.count);
    for (int i = 0; i < results.count; i++)
        if (rule->cotangents[i]) weft_reversal_add(inner, results.values[i], rule->cotangents[i]);
    weft_reversal_run(inner, nodes.nodes, nodes.count);
    weft_node_list_deinit(graph, &nodes);
    return true;
}

static weft_region *transpose_branch(weft_transpose_rule *rule, const weft_block *branch,
                                     const weft_value_list *captures) {
    weft_graph *graph = rule->graph;
    weft_region *region = weft_region_create(graph), *linear = NULL;
    weft_value **values = weft_graph_allocate(graph, captures->count + 1, sizeof *values);
    weft_reversal inner;
    if (!region || !values) return NULL;
    weft_place outside = weft_graph_place_end(graph, region->block);
    linear = weft_region_create(graph);
    weft_reversal_init(&inner, graph, linear ? linear->block : NULL);
    inner.outer = rule->reverse;
    bool fine = linear && transpose_branch_nodes(rule, branch, linear, &inner);
    for (size_t i = 0; i < captures->count; i++)
        values[i] = weft_control_or_zeros(graph, weft_reversal_find(&inner, captures->values[i]), captures->values[i]);
    weft_control_yield(graph, (int)captures->count, values);
    weft_graph_place(graph, outside);
    weft_reversal_deinit(&inner);
    if (linear) weft_region_discard(linear);
    return fine ? region : NULL;
}

void weft_transpose_cond(weft_transpose_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    weft_value_list captures = {0};
    if (rule->linear[0]) {
        weft_graph_problem(graph, "cond is not linear in its predicate");
        return;
    }
    linear_captures(rule, &captures);
    weft_region *regions[2];
    for (int r = 0; r < 2; r++) regions[r] = transpose_branch(rule, node->regions[r]->block, &captures);
    if (captures.count && regions[0] && regions[1]) {
        weft_node *made = weft_node_create(graph, WEFT_OP_cond, 1, node->operands, 0, NULL, 2, regions);
        for (size_t i = 0; made && i < captures.count && i < (size_t)made->result_count; i++)
            weft_reversal_add(rule->reverse, captures.values[i], &made->results[i]);
    }
    weft_value_list_deinit(graph, &captures);
}

/* -- scan: from the last trip to the first */

typedef struct loop {
    weft_transpose_rule *rule;
    int carries;
    weft_value_list captures; /* linear ones */
    weft_value_list operands; /* of the transposed scan */
    weft_region *region;      /* its body */
    weft_region *linear;      /* scratch: the body with its residuals replaced; arguments = the linear arguments */
    weft_value **arguments;   /* by argument of the old body: its value in `linear`, or the residual in `region` */
    weft_value **cotangents;  /* by result of the old scan: its slice in `region`; NULL = zero */
    weft_value **sums;        /* by capture: the carry so far */
} loop;

static bool loop_begin(loop *l, weft_transpose_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    *l = (loop){.rule = rule, .carries = weft_scan_carries(node)};
    linear_captures(rule, &l->captures);
    l->region = weft_region_create(graph);
    if (!l->region) return false;
    weft_place outside = weft_graph_place_end(graph, l->region->block);
    l->linear = weft_region_create(graph);
    weft_graph_place(graph, outside);
    l->arguments = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *l->arguments);
    l->cotangents = weft_graph_allocate(graph, (size_t)node->result_count + 1, sizeof *l->cotangents);
    l->sums = weft_graph_allocate(graph, l->captures.count + 1, sizeof *l->sums);
    return l->linear && l->arguments && l->cotangents && l->sums;
}

static weft_value *add_operand(loop *l, weft_value *operand, bool stacked) {
    weft_type type = stacked ? weft_slice_type(operand) : operand->type;
    weft_value_list_add(l->rule->graph, &l->operands, operand);
    return weft_block_add_argument(l->region->block, &type, NULL);
}

/* Carries: cotangents of the carries, sums for the captures. Stacked: cotangents of outputs, residuals. */
static void make_arguments(loop *l) {
    const weft_transpose_rule *rule = l->rule;
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    const weft_block *body = node->regions[0]->block;
    for (int i = 0; i < l->carries; i++)
        l->cotangents[i] = add_operand(l, weft_control_or_zeros(graph, rule->cotangents[i], &node->results[i]), false);
    for (size_t i = 0; i < l->captures.count; i++)
        l->sums[i] = add_operand(l, weft_diff_zeros(graph, l->captures.values[i]), false);
    for (int i = l->carries; i < node->result_count; i++)
        if (rule->cotangents[i]) l->cotangents[i] = add_operand(l, rule->cotangents[i], true);
    for (int i = 0; i < node->operand_count; i++) {
        bool linear = i < l->carries || rule->linear[i];
        l->arguments[i] = linear ? weft_block_add_argument(l->linear->block, &body->arguments[i]->type, NULL)
                                 : add_operand(l, node->operands[i], true);
    }
}

/* The old body in the scratch region, over the new arguments. */
static bool copy_body(loop *l, weft_dual_list *results) {
    weft_graph *graph = l->rule->graph;
    const weft_block *body = l->rule->node->regions[0]->block;
    weft_value_map map;
    weft_value_map_init(graph->context->allocator, &map);
    for (int i = 0; i < body->argument_count; i++)
        if (!weft_value_map_put(&map, body->arguments[i], l->arguments[i])) graph->out_of_memory = true;
    weft_place outside = weft_graph_place_end(graph, l->linear->block);
    bool fine = weft_control_copy(graph, body, &map, results);
    weft_graph_place(graph, outside);
    weft_value_map_deinit(&map);
    return fine;
}

static void yield_cotangents(loop *l, const weft_reversal *inner) {
    weft_graph *graph = l->rule->graph;
    const weft_node *node = l->rule->node;
    weft_value **values =
        weft_graph_allocate(graph, (size_t)node->operand_count + l->captures.count + 1, sizeof *values);
    int at = 0;
    if (!values) return;
    for (int i = 0; i < l->carries; i++)
        values[at++] = weft_control_or_zeros(graph, weft_reversal_find(inner, l->arguments[i]), l->arguments[i]);
    for (size_t i = 0; i < l->captures.count; i++)
        values[at++] = weft_diff_sum(graph, l->sums[i], weft_reversal_find(inner, l->captures.values[i]));
    for (int i = l->carries; i < node->operand_count; i++)
        if (l->rule->linear[i])
            values[at++] = weft_control_or_zeros(graph, weft_reversal_find(inner, l->arguments[i]), l->arguments[i]);
    weft_control_yield(graph, at, values);
}

static bool transpose_body(loop *l) {
    weft_graph *graph = l->rule->graph;
    weft_reversal inner;
    weft_dual_list results;
    weft_node_list nodes = {0};
    if (!copy_body(l, &results)) return false;
    weft_reversal_init(&inner, graph, l->linear->block);
    inner.outer = l->rule->reverse;
    for (int i = 0; i < l->linear->block->argument_count; i++)
        weft_reversal_mark(&inner, l->linear->block->arguments[i]);
    for (weft_node *node = l->linear->block->first; node; node = node->next) weft_node_list_add(graph, &nodes, node);
    weft_reversal_classify(&inner, nodes.nodes, nodes.count);
    weft_place outside = weft_graph_place_end(graph, l->region->block);
    for (int i = 0; i < results.count; i++)
        if (l->cotangents[i]) weft_reversal_add(&inner, results.values[i], l->cotangents[i]);
    weft_reversal_run(&inner, nodes.nodes, nodes.count);
    yield_cotangents(l, &inner);
    weft_graph_place(graph, outside);
    weft_node_list_deinit(graph, &nodes);
    weft_reversal_deinit(&inner);
    return true;
}

static void take_results(loop *l, weft_node *made) {
    const weft_transpose_rule *rule = l->rule;
    int at = 0;
    for (int i = 0; i < l->carries; i++, at++)
        if (rule->linear[i]) rule->out_cotangents[i] = &made->results[at];
    for (size_t i = 0; i < l->captures.count; i++, at++)
        weft_reversal_add(rule->reverse, l->captures.values[i], &made->results[at]);
    for (int i = l->carries; i < rule->node->operand_count; i++)
        if (rule->linear[i]) rule->out_cotangents[i] = &made->results[at++];
}

void weft_transpose_scan(weft_transpose_rule *rule) {
    loop l;
    if (loop_begin(&l, rule)) {
        make_arguments(&l);
        if (transpose_body(&l)) {
            weft_node *made =
                weft_scan_build(rule->graph, rule->node, l.carries + (int)l.captures.count, (int)l.operands.count,
                                l.operands.values, !weft_node_int(rule->node, WEFT_ATTR_reverse, 0), l.region);
            if (made && made->result_count && !weft_value_is_poison(&made->results[0])) take_results(&l, made);
        }
        weft_region_discard(l.linear);
    }
    weft_value_list_deinit(rule->graph, &l.operands);
    weft_value_list_deinit(rule->graph, &l.captures);
}
