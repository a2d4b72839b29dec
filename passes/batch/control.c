/* Loops, branches and custom gradients. What a loop carries is a batch if its start is one or if the body makes it one:
   found by running the body until nothing changes. A loop whose condition differs between elements goes on while any
   element does, and keeps the others as they are; a branch that differs becomes a select of both. */
#include "passes/batch/batch.h"

#include <string.h>

typedef struct block_run {
    weft_region *region;
    weft_value **results; /* of the yield: as batches where flagged, else the same for every element */
    bool *is_batched;
    int count;
} block_run;

static weft_type batch_type(weft_batch_rule *rule, const weft_type *element) {
    weft_dim dims[WEFT_MAX_RANK + 1] = {rule->extent};
    for (int i = 0; i < element->rank; i++) dims[i + 1] = element->dims[i];
    return weft_type_make(rule->graph, element->dtype, element->rank + 1, dims);
}

/* Arguments of a new region for those of `from`; flags: which are batches. */
static void add_arguments(weft_batch_rule *rule, weft_block *to, const weft_block *from, const bool *flags) {
    for (int i = 0; i < from->argument_count; i++) {
        weft_value *old = from->arguments[i];
        weft_type type = flags[i] ? batch_type(rule, &old->type) : old->type;
        weft_value *made = weft_block_add_argument(to, &type, old->name);
        weft_value_map *map = flags[i] ? &rule->batch->batched : &rule->batch->plain;
        weft_value_map *other = flags[i] ? &rule->batch->plain : &rule->batch->batched;
        weft_map_remove(&other->map, &old, sizeof old);
        if (!weft_value_map_put(map, old, made)) rule->graph->out_of_memory = true;
    }
}

static void forget_block(weft_batch *batch, const weft_block *block) {
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->result_count; i++) {
            const weft_value *value = &node->results[i];
            weft_map_remove(&batch->batched.map, &value, sizeof value);
            weft_map_remove(&batch->plain.map, &value, sizeof value);
        }
        for (int r = 0; r < node->region_count; r++) forget_block(batch, node->regions[r]->block);
    }
}

/* The nodes of a block, batched, at the insertion point; what its yield would yield. */
static bool run_here(weft_batch_rule *rule, const weft_block *block, block_run *run) {
    const weft_node *yield = block->last;
    run->count = yield->operand_count;
    run->results = weft_graph_allocate(rule->graph, (size_t)run->count + 1, sizeof *run->results);
    run->is_batched = weft_graph_allocate(rule->graph, (size_t)run->count + 1, sizeof *run->is_batched);
    if (!run->results || !run->is_batched) return false;
    forget_block(rule->batch, block);
    weft_batch_block(rule->batch, block);
    for (int i = 0; i < run->count; i++) {
        weft_value *batched = weft_batch_find(rule->batch, yield->operands[i]);
        run->is_batched[i] = batched != NULL;
        run->results[i] = batched ? batched : weft_value_mapped(&rule->batch->plain, yield->operands[i]);
    }
    return true;
}

/* The same into a new region with arguments; no yield yet. The insertion point stays inside. */
static bool run_in_region(weft_batch_rule *rule, const weft_block *block, const bool *flags, block_run *run) {
    run->region = weft_region_create(rule->graph);
    if (!run->region) {
        rule->graph->out_of_memory = true;
        return false;
    }
    (void)weft_graph_place_end(rule->graph, run->region->block);
    add_arguments(rule, run->region->block, block, flags);
    return run_here(rule, block, run);
}

/* Result i as a batch. */
static weft_value *as_batch(weft_batch_rule *rule, const block_run *run, int i) {
    return run->is_batched[i] ? run->results[i] : weft_batch_repeat(rule->graph, run->results[i], rule->extent);
}

static void yield(weft_graph *graph, int count, weft_value *const *values) {
    (void)weft_node_create(graph, WEFT_OP_yield, count, values, 0, NULL, 0, NULL);
}

/* Grows flags[0, count) until the body of a loop keeps them. */
static bool settle(weft_batch_rule *rule, const weft_block *body, int count, bool *flags) {
    for (bool changed = true; changed;) {
        weft_place outside = {rule->graph->insertion, rule->graph->insert_before};
        block_run run = {0};
        bool fine = run_in_region(rule, body, flags, &run);
        weft_graph_place(rule->graph, outside);
        if (run.region) weft_region_discard(run.region);
        if (!fine || rule->graph->out_of_memory) return false;
        changed = false;
        for (int i = 0; i < count; i++)
            if (run.is_batched[i] && !flags[i]) flags[i] = changed = true;
    }
    return true;
}

/* -- scan */

/* Operands as the flags want them; stacked inputs with their trips in front. */
static void scan_operands(weft_batch_rule *rule, int carries, const bool *flags, weft_value **operands) {
    for (int i = 0; i < rule->node->operand_count; i++) {
        operands[i] = flags[i] ? weft_batch_operand(rule, i) : rule->operands[i];
        if (i >= carries && flags[i]) operands[i] = weft_batch_move_axis(rule->graph, operands[i], 1, 0);
    }
}

void weft_batch_scan(weft_batch_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    const weft_block *body = node->regions[0]->block;
    int carries = (int)weft_node_attribute(node, WEFT_ATTR_k)->as.dims[0], count = node->operand_count;
    bool *flags = weft_graph_allocate(g, (size_t)count + 1, sizeof *flags);
    weft_value **operands = weft_graph_allocate(g, (size_t)count + 1, sizeof *operands);
    block_run run = {0};
    if (!flags || !operands) return;
    for (int i = 0; i < count; i++) flags[i] = rule->is_batched[i];
    if (!settle(rule, body, carries, flags)) return;
    scan_operands(rule, carries, flags, operands);
    weft_place outside = {g->insertion, g->insert_before};
    bool fine = run_in_region(rule, body, flags, &run);
    for (int i = 0; fine && i < carries; i++)
        if (flags[i]) run.results[i] = as_batch(rule, &run, i), run.is_batched[i] = true;
    if (fine) yield(g, run.count, run.results);
    weft_graph_place(g, outside);
    if (!fine) return;
    weft_node *made =
        weft_node_create(g, WEFT_OP_scan, count, operands, node->attribute_count, node->attributes, 1, &run.region);
    for (int i = 0; made && i < node->result_count && i < made->result_count; i++) {
        weft_value *result = &made->results[i];
        if (run.is_batched[i] && i >= carries) result = weft_batch_move_axis(g, result, 1, 0);
        if (run.is_batched[i])
            rule->out_batches[i] = result;
        else if (!weft_value_map_put(&rule->batch->plain, &node->results[i], result))
            g->out_of_memory = true;
    }
}

/* -- while */

static weft_value *spread_predicate(weft_batch_rule *rule, weft_value *predicate, const weft_value *like) {
    int64_t batch = 0;
    return weft_value_is_poison(predicate) || weft_value_is_poison(like)
               ? weft_value_poison(rule->graph)
               : weft_emit_broadcast(rule->graph, predicate, like->type.rank, like->type.dims, &batch);
}

/* Does the condition differ between elements, for these flags? */
static bool condition_differs(weft_batch_rule *rule, const bool *flags) {
    weft_place outside = {rule->graph->insertion, rule->graph->insert_before};
    block_run run = {0};
    bool fine = run_in_region(rule, rule->node->regions[0]->block, flags, &run);
    weft_graph_place(rule->graph, outside);
    if (run.region) weft_region_discard(run.region);
    return fine && run.is_batched[0];
}

static weft_region *while_condition(weft_batch_rule *rule, const bool *flags) {
    weft_graph *g = rule->graph;
    weft_place outside = {g->insertion, g->insert_before};
    block_run run = {0};
    int64_t batch = 0;
    if (run_in_region(rule, rule->node->regions[0]->block, flags, &run)) {
        weft_value *any = run.is_batched[0] ? weft_emit_reduce(g, run.results[0], "or", 1, &batch) : run.results[0];
        yield(g, 1, &any);
    }
    weft_graph_place(g, outside);
    return run.region;
}

/* differs: elements whose own condition is false stay as they are. */
static weft_region *while_body(weft_batch_rule *rule, const bool *flags, bool differs) {
    weft_graph *g = rule->graph;
    const weft_block *condition = rule->node->regions[0]->block;
    weft_place outside = {g->insertion, g->insert_before};
    block_run run = {0}, test = {0};
    if (run_in_region(rule, rule->node->regions[1]->block, flags, &run)) {
        weft_value *const *arguments = run.region->block->arguments;
        for (int i = 0; i < run.count; i++)
            if (flags[i]) run.results[i] = as_batch(rule, &run, i);
        for (int i = 0; differs && i < condition->argument_count; i++)
            weft_batch_put(rule->batch, condition->arguments[i], arguments[i]);
        if (differs && run_here(rule, condition, &test))
            for (int i = 0; i < run.count; i++)
                run.results[i] = weft_emit_select(g, spread_predicate(rule, as_batch(rule, &test, 0), arguments[i]),
                                                  run.results[i], arguments[i]);
        yield(g, run.count, run.results);
    }
    weft_graph_place(g, outside);
    return run.region;
}

void weft_batch_while(weft_batch_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    int count = node->operand_count;
    bool *flags = weft_graph_allocate(g, (size_t)count + 1, sizeof *flags);
    weft_value **operands = weft_graph_allocate(g, (size_t)count + 1, sizeof *operands);
    if (!flags || !operands) return;
    for (int i = 0; i < count; i++) flags[i] = rule->is_batched[i];
    if (!settle(rule, node->regions[1]->block, count, flags)) return;
    bool differs = condition_differs(rule, flags);
    for (int i = 0; differs && i < count; i++) flags[i] = true;
    for (int i = 0; i < count; i++) operands[i] = flags[i] ? weft_batch_operand(rule, i) : rule->operands[i];
    weft_region *regions[2] = {while_condition(rule, flags), while_body(rule, flags, differs)};
    if (!regions[0] || !regions[1]) return;
    weft_node *made =
        weft_node_create(g, WEFT_OP_while, count, operands, node->attribute_count, node->attributes, 2, regions);
    for (int i = 0; made && i < count && i < made->result_count; i++)
        if (flags[i])
            rule->out_batches[i] = &made->results[i];
        else if (!weft_value_map_put(&rule->batch->plain, &node->results[i], &made->results[i]))
            g->out_of_memory = true;
}

/* -- cond */

static void select_branches(weft_batch_rule *rule) {
    block_run run[2] = {{0}, {0}};
    for (int r = 0; r < 2; r++)
        if (!run_here(rule, rule->node->regions[r]->block, &run[r])) return;
    for (int i = 0; i < rule->node->result_count; i++) {
        weft_value *yes = as_batch(rule, &run[0], i), *no = as_batch(rule, &run[1], i);
        rule->out_batches[i] = weft_emit_select(rule->graph, spread_predicate(rule, rule->operands[0], yes), yes, no);
    }
}

void weft_batch_cond(weft_batch_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    if (rule->is_batched[0]) {
        select_branches(rule);
        return;
    }
    block_run run[2] = {{0}, {0}};
    weft_place outside = {g->insertion, g->insert_before}, inside[2];
    for (int r = 0; r < 2; r++) {
        bool fine = run_in_region(rule, node->regions[r]->block, NULL, &run[r]);
        inside[r] = (weft_place){g->insertion, g->insert_before};
        weft_graph_place(g, outside);
        if (!fine) return;
    }
    weft_region *regions[2] = {run[0].region, run[1].region};
    for (int r = 0; r < 2; r++) {
        weft_graph_place(g, inside[r]);
        for (int i = 0; i < run[r].count; i++)
            if (!run[r].is_batched[i] && run[1 - r].is_batched[i])
                run[r].results[i] = weft_batch_repeat(g, run[r].results[i], rule->extent);
        yield(g, run[r].count, run[r].results);
    }
    weft_graph_place(g, outside);
    weft_node *made = weft_node_create(g, WEFT_OP_cond, 1, rule->operands, 0, NULL, 2, regions);
    for (int i = 0; made && i < node->result_count && i < made->result_count; i++)
        if (run[0].is_batched[i] || run[1].is_batched[i])
            rule->out_batches[i] = &made->results[i];
        else if (!weft_value_map_put(&rule->batch->plain, &node->results[i], &made->results[i]))
            g->out_of_memory = true;
}

/* -- functions with a derivative of their own: everything is a batch */

void weft_batch_custom_gradient(weft_batch_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    weft_region *regions[2];
    weft_value **operands = weft_graph_allocate(g, (size_t)node->operand_count + 1, sizeof *operands);
    if (!operands) return;
    for (int i = 0; i < node->operand_count; i++) operands[i] = weft_batch_operand(rule, i);
    for (int r = 0; r < node->region_count; r++) {
        const weft_block *block = node->regions[r]->block;
        bool *flags = weft_graph_allocate(g, (size_t)block->argument_count + 1, sizeof *flags);
        weft_place outside = {g->insertion, g->insert_before};
        block_run run = {0};
        for (int i = 0; flags && i < block->argument_count; i++) flags[i] = true;
        bool fine = flags && run_in_region(rule, block, flags, &run);
        for (int i = 0; fine && i < run.count; i++) run.results[i] = as_batch(rule, &run, i);
        if (fine) yield(g, run.count, run.results);
        weft_graph_place(g, outside);
        if (!fine) return;
        regions[r] = run.region;
    }
    weft_node *made = weft_node_create(g, node->op, node->operand_count, operands, node->attribute_count,
                                       node->attributes, node->region_count, regions);
    for (int i = 0; made && i < node->result_count && i < made->result_count; i++)
        rule->out_batches[i] = &made->results[i];
}
