/* Walking nodes, and what the rules share. Read next: elementwise.c and its siblings; vmap.c. */
#include "passes/batch/batch.h"

#include <string.h>

#include "ir/decompose.h"

weft_batch_hook weft_batch_get(weft_op op, const char **out_reason) {
    static const weft_batch_hook hooks[] = {
#define HOOK(name)   weft_batch_##name
#define NONE(reason) NULL
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, transpose, batch)  \
    [WEFT_OP_##id] = batch,
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

void weft_batch_init(weft_batch *batch, weft_graph *graph, weft_dim extent) {
    *batch = (weft_batch){.graph = graph, .extent = extent};
    weft_value_map_init(graph->context->allocator, &batch->batched);
    weft_value_map_init(graph->context->allocator, &batch->plain);
}

void weft_batch_deinit(weft_batch *batch) {
    weft_value_map_deinit(&batch->plain);
    weft_value_map_deinit(&batch->batched);
}

void weft_batch_put(weft_batch *batch, const weft_value *value, weft_value *batched) {
    if (batched && !weft_value_map_put(&batch->batched, value, batched)) batch->graph->out_of_memory = true;
}

weft_value *weft_batch_find(const weft_batch *batch, const weft_value *value) {
    return weft_value_map_find(&batch->batched, value);
}

weft_value *weft_batch_value(weft_batch *batch, weft_value *value) {
    weft_value *found = weft_batch_find(batch, value);
    return found ? found : weft_batch_repeat(batch->graph, weft_value_mapped(&batch->plain, value), batch->extent);
}

/* -- nodes */

/* In a region of its own, so that what is written out for one element can be taken away again. */
void weft_batch_decompose(weft_batch_rule *rule) {
    weft_batch *batch = rule->batch;
    weft_graph *graph = rule->graph;
    const weft_node *node = rule->node;
    weft_value *written[WEFT_DECOMPOSED_MAX];
    weft_region *scratch = weft_region_create(graph);
    if (!scratch) {
        graph->out_of_memory = true;
        return;
    }
    weft_place place = weft_graph_place_end(graph, scratch->block);
    weft_decompose(graph, node, node->operands, written);
    weft_graph_place(graph, place);
    weft_batch_block(batch, scratch->block);
    for (int i = 0; i < node->result_count && !weft_value_is_poison(written[i]); i++)
        rule->out_batches[i] = weft_batch_value(batch, written[i]);
    weft_region_discard(scratch);
}

static bool depends(const weft_batch *batch, const weft_node *node) {
    bool any = false;
    for (int i = 0; i < node->operand_count; i++) any |= weft_batch_find(batch, node->operands[i]) != NULL;
    if (any || !node->region_count) return any;
    weft_value_list captures = {0};
    weft_node_captures(batch->graph, node, &captures);
    for (size_t i = 0; i < captures.count; i++) any |= weft_batch_find(batch, captures.values[i]) != NULL;
    weft_value_list_deinit(batch->graph, &captures);
    return any;
}

/* Random bits of a key that is the same for every element. */
static bool draws(weft_batch *batch, weft_node *node) {
    if (node->op != WEFT_OP_rng_bits || node->id < batch->first_id || batch->randomness == WEFT_VMAP_SAME) return false;
    if (batch->randomness == WEFT_VMAP_ERROR) {
        weft_graph_problem(batch->graph, "rng_bits with one key for the whole batch: give each element its key, or say "
                                         "whether their bits are the same or different");
        return false;
    }
    const weft_attribute *shape = weft_node_attribute(node, WEFT_ATTR_shape);
    weft_dim dims[WEFT_MAX_RANK + 1] = {batch->extent};
    if (shape->count) memcpy(dims + 1, shape->as.dims, (size_t)shape->count * sizeof *dims);
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, shape->count + 1, dims),
                                    *weft_node_attribute(node, WEFT_ATTR_dtype)};
    weft_value *key = weft_value_mapped(&batch->plain, node->operands[0]);
    weft_batch_put(batch, &node->results[0], weft_build(batch->graph, WEFT_OP_rng_bits, 1, &key, 2, attributes));
    return true;
}

static void run_hook(weft_batch *batch, weft_batch_hook hook, const weft_node *node) {
    weft_graph *graph = batch->graph;
    weft_value **operands = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *operands),
               **out = weft_graph_allocate(graph, (size_t)node->result_count + 1, sizeof *out);
    bool *is_batched = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *is_batched);
    if (!operands || !out || !is_batched) return;
    for (int i = 0; i < node->operand_count; i++) {
        operands[i] = weft_batch_find(batch, node->operands[i]);
        is_batched[i] = operands[i] != NULL;
        if (!operands[i]) operands[i] = weft_value_mapped(&batch->plain, node->operands[i]);
    }
    weft_batch_rule rule = {batch, graph, node, batch->extent, operands, is_batched, out};
    hook(&rule);
    for (int i = 0; i < node->result_count; i++) weft_batch_put(batch, &node->results[i], out[i]);
}

void weft_batch_node(weft_batch *batch, weft_node *node, bool copy) {
    weft_graph *graph = batch->graph;
    const char *reason;
    weft_location location = graph->location;
    graph->location = node->location;
    weft_batch_hook hook = weft_batch_get(node->op, &reason);
    if (copy && node->op == WEFT_OP_state_update) {
        weft_graph_problem(graph, "%s in a function that is batched: %s", weft_op_get(node->op)->name, reason);
    } else if (!depends(batch, node)) {
        if (!draws(batch, node) && copy) (void)weft_node_clone(graph, node, &batch->plain);
    } else if (!weft_function_touches_states(graph, node) &&
               (hook || weft_op_get(node->op)->class == WEFT_CLASS_DERIVED)) {
        run_hook(batch, hook ? hook : weft_batch_decompose, node);
    } else if (!hook) {
        weft_graph_problem(graph, "%s has no batching rule: %s", weft_op_get(node->op)->name, reason);
    }
    graph->location = location;
}

void weft_batch_block(weft_batch *batch, const weft_block *block) {
    for (weft_node *node = block->first; node && !batch->graph->out_of_memory; node = node->next)
        if (node->op != WEFT_OP_yield) weft_batch_node(batch, node, true);
}

/* -- for rules */

weft_value *weft_batch_repeat(weft_graph *graph, weft_value *x, weft_dim extent) {
    weft_dim dims[WEFT_MAX_RANK + 1] = {extent};
    int64_t axes[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return x;
    if (x->type.rank == WEFT_MAX_RANK) {
        weft_graph_problem(graph, "a batch of values of rank %d", x->type.rank);
        return weft_value_poison(graph);
    }
    for (int i = 0; i < x->type.rank; i++) dims[i + 1] = x->type.dims[i], axes[i] = i + 1;
    return weft_emit_broadcast(graph, x, x->type.rank + 1, dims, axes);
}

weft_value *weft_batch_operand(weft_batch_rule *rule, int i) {
    return rule->is_batched[i] ? rule->operands[i] : weft_batch_repeat(rule->graph, rule->operands[i], rule->extent);
}

weft_value *weft_batch_move_axis(weft_graph *graph, weft_value *x, int from, int to) {
    int64_t permutation[WEFT_MAX_RANK];
    if (weft_value_is_poison(x) || from == to) return x;
    for (int i = 0, at = 0; i < x->type.rank; i++) {
        if (i == to) {
            permutation[i] = from;
            continue;
        }
        at += at == from;
        permutation[i] = at++;
    }
    return weft_emit_transpose(graph, x, permutation);
}

weft_attribute *weft_batch_attributes(weft_batch_rule *rule) {
    const weft_node *node = rule->node;
    weft_attribute *copy = weft_graph_allocate(rule->graph, (size_t)node->attribute_count + 1, sizeof *copy);
    if (copy && node->attribute_count) memcpy(copy, node->attributes, (size_t)node->attribute_count * sizeof *copy);
    return copy;
}

weft_attribute *weft_batch_attribute(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name) {
    for (int i = 0; attributes && i < rule->node->attribute_count; i++)
        if (attributes[i].name == name) return &attributes[i];
    return NULL;
}

void weft_batch_shift(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name, int64_t first) {
    weft_attribute *attribute = weft_batch_attribute(rule, attributes, name);
    if (!attribute) return;
    if (weft_attribute_kind_of(name) == WEFT_ATTR_KIND_INT) {
        attribute->as.integer++;
        return;
    }
    int64_t *axes = weft_graph_allocate(rule->graph, (size_t)attribute->count + 1, sizeof *axes);
    int at = 0;
    if (!axes) return;
    if (first >= 0) axes[at++] = first;
    for (int i = 0; i < attribute->count; i++) axes[at++] = attribute->as.ints[i] + 1;
    attribute->count = at;
    attribute->as.ints = axes;
}

void weft_batch_prepend_dim(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name, weft_dim dim) {
    weft_attribute *attribute = weft_batch_attribute(rule, attributes, name);
    if (!attribute) return;
    weft_dim *dims = weft_graph_allocate(rule->graph, (size_t)attribute->count + 1, sizeof *dims);
    if (!dims) return;
    dims[0] = dim;
    for (int i = 0; i < attribute->count; i++) dims[i + 1] = attribute->as.dims[i];
    attribute->count++;
    attribute->as.dims = dims;
}

void weft_batch_prepend_int(weft_batch_rule *rule, weft_attribute *attributes, weft_attribute_name name,
                            int64_t value) {
    weft_attribute *attribute = weft_batch_attribute(rule, attributes, name);
    if (!attribute) return;
    int64_t *ints = weft_graph_allocate(rule->graph, (size_t)attribute->count + 1, sizeof *ints);
    if (!ints) return;
    ints[0] = value;
    for (int i = 0; i < attribute->count; i++) ints[i + 1] = attribute->as.ints[i];
    attribute->count++;
    attribute->as.ints = ints;
}

void weft_batch_build(weft_batch_rule *rule, weft_value *const *operands, const weft_attribute *attributes) {
    const weft_node *node = rule->node;
    if (!attributes) return;
    weft_node *made = weft_node_create(rule->graph, node->op, node->operand_count, operands, node->attribute_count,
                                       attributes, 0, NULL);
    for (int i = 0; made && i < node->result_count && i < made->result_count; i++)
        rule->out_batches[i] = &made->results[i];
}

void weft_batch_build_all(weft_batch_rule *rule, const weft_attribute *attributes) {
    int count = rule->node->operand_count;
    weft_value **operands = weft_graph_allocate(rule->graph, (size_t)count + 1, sizeof *operands);
    if (!operands) return;
    for (int i = 0; i < count; i++) operands[i] = weft_batch_operand(rule, i);
    weft_batch_build(rule, operands, attributes);
}

/* -- element by element */

static void build_element(weft_batch_rule *rule, weft_value *const *arguments, weft_value **results) {
    const weft_node *node = rule->node;
    weft_graph *graph = rule->graph;
    weft_value **operands = weft_graph_allocate(graph, (size_t)node->operand_count + 1, sizeof *operands);
    if (!operands) return;
    for (int i = 0, at = 0; i < node->operand_count; i++)
        operands[i] = rule->is_batched[i] ? arguments[at++] : rule->operands[i];
    weft_node *made = weft_node_create(graph, node->op, node->operand_count, operands, node->attribute_count,
                                       node->attributes, 0, NULL);
    for (int i = 0; made && i < node->result_count && i < made->result_count; i++) results[i] = &made->results[i];
}

void weft_batch_loop(weft_batch_rule *rule) {
    const weft_node *node = rule->node;
    weft_value **slices = weft_graph_allocate(rule->graph, (size_t)node->operand_count + 1, sizeof *slices);
    int count = 0;
    if (!slices) return;
    for (int i = 0; i < node->operand_count; i++)
        if (rule->is_batched[i]) slices[count++] = rule->operands[i];
    weft_region *region = weft_region_create(rule->graph);
    weft_value **made = weft_graph_allocate(rule->graph, (size_t)node->result_count + 1, sizeof *made);
    if (!region || !made) return;
    for (int i = 0; i < count; i++) {
        weft_type type = slices[i]->type;
        type.rank--, type.dims++;
        (void)weft_block_add_argument(region->block, &type, NULL);
    }
    weft_place outside = weft_graph_place_end(rule->graph, region->block);
    build_element(rule, region->block->arguments, made);
    for (int i = 0; i < node->result_count; i++)
        if (!made[i]) made[i] = weft_value_poison(rule->graph);
    (void)weft_node_create(rule->graph, WEFT_OP_yield, node->result_count, made, 0, NULL, 0, NULL);
    weft_graph_place(rule->graph, outside);
    weft_dim none = 0;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_k, 1, &none),
                                    weft_attr_dims(WEFT_ATTR_trips, 1, &rule->extent),
                                    weft_attr_int(WEFT_ATTR_reverse, 0)};
    weft_node *scan = weft_node_create(rule->graph, WEFT_OP_scan, count, slices, 3, attributes, 1, &region);
    for (int i = 0; scan && i < node->result_count && i < scan->result_count; i++)
        rule->out_batches[i] = &scan->results[i];
}
