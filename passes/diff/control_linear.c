/* Loops and branches taken apart: one node that computes the values and, besides, what the tangents need of them
   (residuals, stacked over the trips of a loop); one that computes tangents from tangents and residuals and nothing
   else. The first takes the old node's place: uses of the old one are moved to it, so that values are computed once.
   Read next: control_transpose.c. */
#include "passes/diff/control.h"

#include "passes/diff/remat.h"

/* One region split in two. */
typedef struct split {
    weft_jvp_rule *rule;
    weft_region *values;       /* copy of the body, with the yield of its results */
    weft_region *tangents;     /* scratch: the linear part */
    weft_value_map linears;    /* values that are tangents */
    weft_value_list residuals; /* values of `values` that `tangents` uses */
    weft_dual_list results;    /* of the body, as they were copied; tangents found after pushing */
} split;

static bool split_begin(split *s, weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    *s = (split){.rule = rule};
    weft_value_map_init(graph->context->allocator, &s->linears);
    s->values = weft_region_create(graph);
    if (!s->values) return false;
    weft_place outside = weft_graph_place_end(graph, s->values->block);
    s->tangents = weft_region_create(graph); /* inside: sees the values */
    weft_graph_place(graph, outside);
    return s->tangents != NULL;
}

static void split_end(split *s) {
    weft_value_map_deinit(&s->linears);
    weft_value_list_deinit(s->rule->graph, &s->residuals);
}

static void mark_linear(split *s, weft_value *value) {
    if (!weft_value_map_put(&s->linears, value, value)) s->rule->graph->out_of_memory = true;
}

static bool node_is_linear(const split *s, const weft_node *node) {
    for (int i = 0; i < node->operand_count; i++)
        if (weft_value_map_find(&s->linears, node->operands[i])) return true;
    for (int r = 0; r < node->region_count; r++)
        for (const weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            if (node_is_linear(s, inner)) return true;
    return false;
}

static bool uses_inside(const weft_node *node, const weft_block *block) {
    for (int i = 0; i < node->operand_count; i++)
        if (weft_value_is_inside(node->operands[i], block)) return true;
    for (int r = 0; r < node->region_count; r++)
        for (const weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            if (uses_inside(inner, block)) return true;
    return false;
}

/* Tangents of everything so far are linear here: the surrounding function is linear in them. */
static void mark_outer_tangents(split *s) {
    size_t cursor = 0;
    const void *key;
    size_t bytes;
    void *tangent;
    while (weft_map_next(&s->rule->all->map, &cursor, &key, &bytes, &tangent)) mark_linear(s, tangent);
}

/* What no tangent reaches goes to the values, or before the loop when it uses nothing of the body. */
static void move_constants(split *s, weft_node *before) {
    weft_place values_end = {s->values->block, NULL};
    for (weft_node *node = s->tangents->block->first, *next; node; node = next) {
        next = node->next;
        if (node->op == WEFT_OP_yield) continue;
        if (node_is_linear(s, node))
            for (int i = 0; i < node->result_count; i++) mark_linear(s, &node->results[i]);
        else if (uses_inside(node, s->values->block))
            weft_node_move(node, values_end);
        else
            weft_node_move(node, (weft_place){before->block, before});
    }
}

/* Residuals that a rematerialisation scope does not keep are computed again among the tangents. */
static void recompute(weft_remat *remat, weft_node *node, const weft_block *values) {
    for (int i = 0; i < node->operand_count; i++)
        if (node->operands[i]->node && node->operands[i]->node->block == values)
            weft_node_set_operand(node, i, weft_remat_value(remat, node->operands[i], node->location.scope));
    for (int r = 0; r < node->region_count; r++)
        for (weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            recompute(remat, inner, values);
}

static void rematerialise(split *s) {
    weft_graph *graph = s->rule->graph;
    weft_remat storage, *remat = weft_remat_init(&storage, graph, s->tangents->block);
    if (remat) remat->within = s->values->block;
    weft_place outside = {graph->insertion, graph->insert_before};
    for (weft_node *node = remat ? s->tangents->block->first : NULL; node; node = node->next) {
        (void)weft_graph_place_before(graph, node);
        recompute(remat, node, s->values->block);
    }
    weft_graph_place(graph, outside);
    weft_remat_deinit(remat);
}

static void find_residuals(split *s, const weft_block *block) {
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->operand_count; i++)
            if (weft_value_is_inside(node->operands[i], s->values->block) &&
                !weft_value_is_inside(node->operands[i], s->tangents->block))
                weft_value_list_add_new(s->rule->graph, &s->residuals, node->operands[i]);
        for (int r = 0; r < node->region_count; r++) find_residuals(s, node->regions[r]->block);
    }
}

static void replace_inside(weft_block *block, const weft_value *from, weft_value *to) {
    for (weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->operand_count; i++)
            if (node->operands[i] == from) weft_node_set_operand(node, i, to);
        for (int r = 0; r < node->region_count; r++) replace_inside(node->regions[r]->block, from, to);
    }
}

/* Copies the body (its arguments are mapped), pushes it into the tangents' region. */
static bool split_body(split *s, const weft_block *body, weft_value_map *map) {
    weft_graph *graph = s->rule->graph;
    weft_node_list nodes = {0};
    weft_place outside = weft_graph_place_end(graph, s->values->block);
    bool fine = weft_control_copy(graph, body, map, &s->results);
    for (weft_node *node = s->values->block->first; fine && node; node = node->next)
        weft_node_list_add(graph, &nodes, node);
    if (fine) weft_control_yield(graph, s->results.count, s->results.values);
    (void)weft_graph_place_end(graph, s->tangents->block);
    if (fine) weft_diff_push(graph, nodes.nodes, nodes.count, s->rule->all, true);
    weft_graph_place(graph, outside);
    weft_node_list_deinit(graph, &nodes);
    if (fine) weft_control_tangents(s->rule->all, &s->results);
    return fine;
}

/* The yield of the tangents' region. flags: which results have a tangent. */
static void yield_tangents(split *s, const bool *flags) {
    weft_graph *graph = s->rule->graph;
    weft_value **values = weft_graph_allocate(graph, (size_t)s->results.count + 1, sizeof *values);
    weft_place outside = weft_graph_place_end(graph, s->tangents->block);
    int at = 0;
    for (int i = 0; values && i < s->results.count; i++)
        if (flags[i]) values[at++] = weft_control_or_zeros(graph, s->results.tangents[i], s->results.values[i]);
    if (values) weft_control_yield(graph, at, values);
    weft_graph_place(graph, outside);
}

/* The values' yield with more behind it. */
static void extend_yield(split *s, int count, weft_value *const *more) {
    weft_graph *graph = s->rule->graph;
    weft_node *old = s->values->block->last;
    weft_value **values = weft_graph_allocate(graph, (size_t)(old->operand_count + count) + 1, sizeof *values);
    if (!values) return;
    for (int i = 0; i < old->operand_count; i++) values[i] = old->operands[i];
    for (int i = 0; i < count; i++) values[old->operand_count + i] = more[i];
    int total = old->operand_count + count;
    weft_place outside = weft_graph_place_end(graph, s->values->block);
    weft_node_remove(old);
    weft_control_yield(graph, total, values);
    weft_graph_place(graph, outside);
}

/* The new node's results for the old one's, everywhere; a tangent found for one is the other's. */
static void take_place(weft_jvp_rule *rule, weft_node *by) {
    const weft_node *node = rule->node;
    for (int i = 0; i < node->result_count; i++) {
        weft_value *old = &node->results[i], *new = &by->results[i];
        if (rule->out_tangents[i] && !weft_value_map_put(rule->all, new, rule->out_tangents[i]))
            rule->graph->out_of_memory = true;
        weft_value_replace(old, new);
    }
}

/* -- scan */

/* The copy's and the tangents' arguments. */
static void scan_arguments(split *s, const weft_block *body, const bool *flags, weft_value_map *map) {
    weft_graph *graph = s->rule->graph;
    for (int i = 0; i < body->argument_count; i++) {
        const weft_type *type = &body->arguments[i]->type;
        weft_value *made = weft_block_add_argument(s->values->block, type, NULL);
        if (!weft_value_map_put(map, body->arguments[i], made)) graph->out_of_memory = true;
        if (!flags[i]) continue;
        weft_value *tangent = weft_block_add_argument(s->tangents->block, type, NULL);
        mark_linear(s, tangent);
        if (!weft_value_map_put(s->rule->all, made, tangent)) graph->out_of_memory = true;
    }
}

static void discard(split *s) {
    if (s->tangents) weft_region_discard(s->tangents);
    if (s->values) weft_region_discard(s->values);
}

/* Split with flags that the body keeps; flags[0, carries) may grow. */
static bool split_scan(split *s, weft_jvp_rule *rule, int carries, bool *flags) {
    const weft_block *body = rule->node->regions[0]->block;
    for (;;) {
        weft_value_map map;
        bool changed = false, fine = split_begin(s, rule);
        weft_value_map_init(rule->graph->context->allocator, &map);
        if (fine) mark_outer_tangents(s);
        if (fine) scan_arguments(s, body, flags, &map);
        fine = fine && split_body(s, body, &map) && !rule->graph->out_of_memory;
        weft_value_map_deinit(&map);
        for (int i = 0; fine && i < carries; i++)
            if (s->results.tangents[i] && !flags[i]) flags[i] = changed = true;
        if (fine && !changed) return true;
        discard(s);
        split_end(s);
        if (!fine) return false;
    }
}

/* What the linear scan reads for a residual: the slices' stack itself, or the next stacked result. */
static weft_value *residual_operand(const weft_node *node, const split *s, int carries, const weft_value *residual,
                                    weft_node *values, int *at) {
    bool is_slice = residual->block == s->values->block && residual->index >= carries;
    return is_slice ? node->operands[residual->index] : &values->results[node->result_count + (*at)++];
}

static weft_node *build_values(split *s, int carries) {
    weft_graph *graph = s->rule->graph;
    const weft_node *node = s->rule->node;
    weft_value_list stacked = {0};
    for (size_t i = 0; i < s->residuals.count; i++) {
        weft_value *value = s->residuals.values[i];
        if (value->block != s->values->block || value->index < carries) weft_value_list_add(graph, &stacked, value);
    }
    extend_yield(s, (int)stacked.count, stacked.values);
    weft_value_list_deinit(graph, &stacked);
    weft_location location = graph->location;
    graph->location = node->location;
    weft_place outside = weft_graph_place_before(graph, s->rule->node->results[0].node);
    weft_node *made = weft_scan_build(graph, node, carries, node->operand_count, node->operands,
                                      weft_node_int(node, WEFT_ATTR_reverse, 0) != 0, s->values);
    weft_graph_place(graph, outside);
    graph->location = location;
    return made;
}

static void build_tangents(split *s, int carries, const bool *flags, const bool *out_flags, weft_node *values) {
    weft_jvp_rule *rule = s->rule;
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    size_t capacity = (size_t)node->operand_count + s->residuals.count + 1;
    weft_value **operands = weft_graph_allocate(graph, capacity, sizeof *operands);
    int count = 0, flagged = 0, at = 0;
    if (!operands) return;
    for (int i = 0; i < node->operand_count; i++) {
        if (!flags[i]) continue;
        flagged += i < carries;
        operands[count++] = weft_control_or_zeros(graph, rule->tangents[i], node->operands[i]);
    }
    for (size_t i = 0; i < s->residuals.count; i++) {
        weft_value *residual = s->residuals.values[i];
        operands[count++] = residual_operand(node, s, carries, residual, values, &at);
        replace_inside(s->tangents->block, residual,
                       weft_block_add_argument(s->tangents->block, &residual->type, NULL));
    }
    weft_node *made = weft_scan_build(graph, node, flagged, count, operands,
                                      weft_node_int(node, WEFT_ATTR_reverse, 0) != 0, s->tangents);
    for (int i = 0, k = 0; made && i < node->result_count && k < made->result_count; i++)
        if (out_flags[i]) rule->out_tangents[i] = &made->results[k++];
}

void weft_linearize_scan(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    int carries = weft_scan_carries(node);
    bool *flags = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *flags),
         *out_flags = weft_graph_allocate(graph, (size_t)node->result_count + 1, sizeof *out_flags);
    split s;
    if (!flags || !out_flags || node->result_count == 0) return;
    for (int i = 0; i < node->operand_count; i++) flags[i] = rule->tangents[i] != NULL;
    if (!split_scan(&s, rule, carries, flags)) return;
    for (int i = 0; i < node->result_count; i++) out_flags[i] = i < carries ? flags[i] : s.results.tangents[i] != NULL;
    yield_tangents(&s, out_flags);
    move_constants(&s, node->results[0].node);
    rematerialise(&s);
    find_residuals(&s, s.tangents->block);
    weft_node *values = build_values(&s, carries);
    if (values && values->result_count >= node->result_count && !weft_value_is_poison(&values->results[0])) {
        build_tangents(&s, carries, flags, out_flags, values);
        take_place(rule, values);
    }
    split_end(&s);
}

/* -- cond */

/* Both branches' values with their residuals; zeros for the other branch's. */
static weft_node *build_cond_values(weft_jvp_rule *rule, split *s) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    size_t total = s[0].residuals.count + s[1].residuals.count;
    weft_value **more = weft_graph_allocate(graph, total + 1, sizeof *more);
    if (!more) return NULL;
    weft_place outside = {graph->insertion, graph->insert_before};
    for (int r = 0; r < 2; r++) {
        int at = 0;
        (void)weft_graph_place_end(graph, s[r].values->block);
        for (int other = 0; other < 2; other++)
            for (size_t i = 0; i < s[other].residuals.count; i++) {
                weft_value *value = s[other].residuals.values[i];
                more[at++] = other == r ? value : weft_diff_zeros(graph, value);
            }
        weft_graph_place(graph, outside);
        extend_yield(&s[r], at, more);
    }
    weft_region *regions[2] = {s[0].values, s[1].values};
    weft_location location = graph->location;
    graph->location = node->location;
    (void)weft_graph_place_before(graph, node->results[0].node);
    weft_node *made = weft_node_create(graph, WEFT_OP_cond, 1, node->operands, 0, NULL, 2, regions);
    weft_graph_place(graph, outside);
    graph->location = location;
    return made;
}

static void build_cond_tangents(weft_jvp_rule *rule, split *s, const bool *flags, weft_node *values) {
    const weft_node *node = rule->node;
    int at = node->result_count;
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < s[r].residuals.count; i++)
            replace_inside(s[r].tangents->block, s[r].residuals.values[i], &values->results[at++]);
    weft_region *regions[2] = {s[0].tangents, s[1].tangents};
    weft_node *made = weft_node_create(rule->graph, WEFT_OP_cond, 1, node->operands, 0, NULL, 2, regions);
    for (int i = 0, k = 0; made && i < node->result_count && k < made->result_count; i++)
        if (flags[i]) rule->out_tangents[i] = &made->results[k++];
}

static bool split_branch(split *s, weft_jvp_rule *rule, const weft_block *branch) {
    weft_value_map map;
    if (!split_begin(s, rule)) return false;
    mark_outer_tangents(s);
    weft_value_map_init(rule->graph->context->allocator, &map);
    bool fine = split_body(s, branch, &map);
    weft_value_map_deinit(&map);
    return fine;
}

void weft_linearize_cond(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    split s[2] = {{0}, {0}};
    bool *flags = weft_graph_allocate(graph, (size_t)node->result_count + 1, sizeof *flags), fine = flags != NULL;
    for (int r = 0; r < 2; r++) fine = split_branch(&s[r], rule, node->regions[r]->block) && fine;
    for (int i = 0; fine && i < node->result_count; i++)
        flags[i] = s[0].results.tangents[i] || s[1].results.tangents[i];
    for (int r = 0; fine && r < 2; r++) {
        yield_tangents(&s[r], flags);
        move_constants(&s[r], node->results[0].node);
        rematerialise(&s[r]);
        find_residuals(&s[r], s[r].tangents->block);
    }
    weft_node *values = fine ? build_cond_values(rule, s) : NULL;
    if (values && values->result_count >= node->result_count && !weft_value_is_poison(&values->results[0])) {
        build_cond_tangents(rule, s, flags, values);
        take_place(rule, values);
    }
    for (int r = 0; r < 2; r++) split_end(&s[r]);
}

/* -- while with a bound: that many trips, each of which goes on only while the condition holds */

/* One branch of a trip: the body's results, or the carries as they are. */
static weft_region *trip_branch(weft_graph *graph, const weft_block *body, weft_value *const *carries, int count) {
    weft_region *region = weft_region_create(graph);
    weft_value_map map;
    weft_dual_list results;
    if (!region) return NULL;
    weft_place outside = weft_graph_place_end(graph, region->block);
    weft_value_map_init(graph->context->allocator, &map);
    bool fine = true;
    for (int i = 0; body && i < count; i++) fine &= weft_value_map_put(&map, body->arguments[i], carries[i]);
    if (body) fine = fine && weft_control_copy(graph, body, &map, &results);
    if (fine) weft_control_yield(graph, count, body ? results.values : carries);
    weft_value_map_deinit(&map);
    weft_graph_place(graph, outside);
    return fine ? region : NULL;
}

static weft_node *while_as_scan(weft_jvp_rule *rule) {
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    int count = node->operand_count;
    const weft_block *tested = node->regions[0]->block;
    weft_place outside = {graph->insertion, graph->insert_before};
    (void)weft_graph_place_before(graph, node->results[0].node);
    weft_region *region = weft_region_create(graph), *branches[2];
    weft_value_map map;
    weft_dual_list test;
    if (!region) return NULL;
    weft_place before = weft_graph_place_end(graph, region->block);
    weft_value_map_init(graph->context->allocator, &map);
    for (int i = 0; i < count; i++) {
        weft_value *made = weft_block_add_argument(region->block, &node->operands[i]->type, NULL);
        if (!weft_value_map_put(&map, tested->arguments[i], made)) graph->out_of_memory = true;
    }
    bool fine = weft_control_copy(graph, tested, &map, &test);
    branches[0] = fine ? trip_branch(graph, node->regions[1]->block, region->block->arguments, count) : NULL;
    branches[1] = fine ? trip_branch(graph, NULL, region->block->arguments, count) : NULL;
    weft_node *cond =
        branches[0] && branches[1] ? weft_node_create(graph, WEFT_OP_cond, 1, test.values, 0, NULL, 2, branches) : NULL;
    weft_value **results = weft_graph_allocate(graph, (size_t)count + 1, sizeof *results);
    for (int i = 0; cond && results && i < count; i++) results[i] = &cond->results[i];
    if (cond && results) weft_control_yield(graph, count, results);
    weft_value_map_deinit(&map);
    weft_graph_place(graph, before);
    weft_dim k = count, trips = weft_node_int(node, WEFT_ATTR_bound, 0);
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_k, 1, &k), weft_attr_dims(WEFT_ATTR_trips, 1, &trips),
                                    weft_attr_int(WEFT_ATTR_reverse, 0)};
    weft_node *scan = cond && results
                          ? weft_node_create(graph, WEFT_OP_scan, count, node->operands, 3, attributes, 1, &region)
                          : NULL;
    weft_graph_place(graph, outside);
    return scan;
}

void weft_linearize_while(weft_jvp_rule *rule) {
    if (rule->node->result_count == 0) return;
    weft_node *scan = while_as_scan(rule);
    if (!scan || weft_value_is_poison(&scan->results[0])) return;
    weft_jvp_rule inner = *rule;
    inner.node = scan;
    weft_linearize_scan(&inner); /* the while itself stays: it knows when its bound was too small */
}
