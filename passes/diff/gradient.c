/* The public derivatives: forward mode, linearisation, transposition, reverse mode.
   Reverse mode runs forward into a scratch region whose arguments are the tangents of the inputs; what is linear there
   is transposed, what is not moves out when a transposed node needs it, the region itself is dropped. */
#include "passes/diff/remat.h"
#include "passes/diff/reverse.h"
#include "weft/transform.h"

/* -- forward */

static void push_between(weft_graph *graph, int value_count, weft_value *const *values, int count,
                         weft_value *const *inputs, weft_value_map *tangents, bool linearize) {
    weft_node_list nodes = {0};
    weft_function_nodes(graph, (size_t)value_count, values, (size_t)count, inputs, &nodes);
    weft_diff_push(graph, nodes.nodes, nodes.count, tangents, linearize);
    weft_node_list_deinit(graph, &nodes);
}

static void forward(weft_graph *graph, int value_count, weft_value *const *values, int count, weft_value *const *inputs,
                    weft_value *const *tangents, weft_value **out_tangents, bool linearize) {
    weft_value_map map;
    if (!weft_function_poison(graph, "forward derivative", value_count, out_tangents)) return;
    if (!weft_function_check(graph, "forward derivative: a value", value_count, values) ||
        !weft_function_check(graph, "forward derivative: an input", count, inputs) ||
        !weft_function_check(graph, "forward derivative: a tangent", count, tangents))
        return;
    weft_value_map_init(graph->context->allocator, &map);
    weft_diff_seed(graph, &map, count, inputs, tangents);
    push_between(graph, value_count, values, count, inputs, &map, linearize);
    for (int i = 0; i < value_count; i++) {
        weft_value *found = weft_value_map_find(&map, values[i]);
        out_tangents[i] = found ? found : weft_diff_zeros(graph, values[i]);
    }
    weft_value_map_deinit(&map);
}

void weft_jvp_many(weft_graph *graph, int value_count, weft_value *const *values, int count, weft_value *const *inputs,
                   weft_value *const *tangents, weft_value **out_tangents) {
    forward(graph, value_count, values, count, inputs, tangents, out_tangents, false);
}

weft_value *weft_jvp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs,
                     weft_value *const *tangents) {
    weft_value *tangent = NULL;
    forward(graph, 1, &value, count, inputs, tangents, &tangent, false);
    return tangent;
}

void weft_linearize(weft_graph *graph, int value_count, weft_value *const *values, int count, weft_value *const *inputs,
                    weft_value **out_directions, weft_value **out_tangents) {
    if (!weft_function_poison(graph, "weft_linearize", count, out_directions)) return;
    if (!weft_function_poison(graph, "weft_linearize", value_count, out_tangents)) return;
    if (!weft_function_check(graph, "weft_linearize: an input", count, inputs)) return;
    for (int i = 0; i < count; i++) out_directions[i] = weft_placeholder_like(graph, inputs[i]);
    forward(graph, value_count, values, count, inputs, out_directions, out_tangents, true);
}

/* -- reverse */

static void add_cotangents(weft_reversal *r, int value_count, weft_value *const *values, weft_value *const *targets,
                           weft_value *const *cotangents) {
    for (int i = 0; i < value_count; i++) {
        if (!targets[i] || !weft_reversal_is_linear(r, targets[i])) continue;
        weft_value *cotangent = cotangents ? cotangents[i] : NULL;
        if (!cotangent) cotangent = weft_emit_splat_like(r->graph, 1, values[i]);
        if (!weft_function_check(r->graph, "a cotangent", 1, &cotangent)) continue;
        if (weft_type_equal(&cotangent->type, &values[i]->type))
            weft_reversal_add(r, targets[i], cotangent);
        else
            weft_graph_problem(r->graph, "cotangent %d differs in type from its value", i);
    }
}

static void take_cotangents(weft_reversal *r, int count, weft_value *const *inputs, weft_value *const *sources,
                            weft_value **out_gradients) {
    for (int i = 0; i < count; i++) {
        weft_value *found = sources[i] ? weft_reversal_find(r, sources[i]) : NULL;
        out_gradients[i] = found ? found : weft_diff_zeros(r->graph, inputs[i]);
    }
}

void weft_linear_transpose(weft_graph *graph, int value_count, weft_value *const *values, weft_value *const *cotangents,
                           int count, weft_value *const *inputs, weft_value **out_cotangents) {
    weft_reversal r;
    weft_node_list nodes = {0};
    if (!weft_function_poison(graph, "weft_linear_transpose", count, out_cotangents)) return;
    if (!weft_function_check(graph, "weft_linear_transpose: a value", value_count, values) ||
        !weft_function_check(graph, "weft_linear_transpose: an input", count, inputs))
        return;
    weft_reversal_init(&r, graph, NULL);
    weft_function_nodes(graph, (size_t)value_count, values, (size_t)count, inputs, &nodes);
    for (int i = 0; i < count; i++) weft_reversal_mark(&r, inputs[i]);
    weft_reversal_classify(&r, nodes.nodes, nodes.count);
    add_cotangents(&r, value_count, values, values, cotangents);
    weft_reversal_run(&r, nodes.nodes, nodes.count);
    take_cotangents(&r, count, inputs, inputs, out_cotangents);
    weft_node_list_deinit(graph, &nodes);
    weft_reversal_deinit(&r);
}

/* The scratch region's arguments: one tangent for each distinct input. */
static void make_arguments(weft_graph *graph, weft_block *scratch, weft_reversal *r, weft_value_map *tangents,
                           int count, weft_value *const *inputs, weft_value **arguments) {
    for (int i = 0; i < count; i++) {
        arguments[i] = weft_value_map_find(tangents, inputs[i]);
        if (arguments[i]) continue;
        arguments[i] = weft_block_add_argument(scratch, &inputs[i]->type, NULL);
        weft_reversal_mark(r, arguments[i]);
        weft_diff_seed(graph, tangents, 1, &inputs[i], &arguments[i]);
    }
}

static void run_reverse(weft_graph *graph, weft_region *scratch, int value_count, weft_value *const *values,
                        weft_value *const *cotangents, int count, weft_value *const *inputs,
                        weft_value **out_gradients) {
    weft_value_map tangents;
    weft_reversal r;
    weft_remat remat;
    weft_node_list between = {0}, nodes = {0};
    weft_value **targets = weft_graph_allocate(graph, (size_t)value_count + 1, sizeof *targets);
    weft_value_map_init(graph->context->allocator, &tangents);
    weft_reversal_init(&r, graph, scratch->block);
    make_arguments(graph, scratch->block, &r, &tangents, count, inputs, out_gradients);
    weft_function_nodes(graph, (size_t)value_count, values, (size_t)count, inputs, &between);
    weft_place place = weft_graph_place_end(graph, scratch->block);
    weft_diff_push(graph, between.nodes, between.count, &tangents, true);
    weft_graph_place(graph, place);
    for (weft_node *node = scratch->block->first; node; node = node->next) weft_node_list_add(graph, &nodes, node);
    weft_reversal_classify(&r, nodes.nodes, nodes.count);
    for (int i = 0; targets && i < value_count; i++) targets[i] = weft_value_map_find(&tangents, values[i]);
    if (targets && !graph->out_of_memory) {
        r.remat = weft_remat_init(&remat, graph, scratch->block);
        add_cotangents(&r, value_count, values, targets, cotangents);
        weft_reversal_run(&r, nodes.nodes, nodes.count);
        weft_remat_deinit(r.remat);
    }
    take_cotangents(&r, count, inputs, out_gradients, out_gradients);
    weft_node_list_deinit(graph, &between);
    weft_node_list_deinit(graph, &nodes);
    weft_reversal_deinit(&r);
    weft_value_map_deinit(&tangents);
}

void weft_vjp(weft_graph *graph, int value_count, weft_value *const *values, weft_value *const *cotangents, int count,
              weft_value *const *inputs, weft_value **out_gradients) {
    weft_location location = graph->location;
    if (!weft_function_poison(graph, "gradient", count, out_gradients)) return;
    if (!weft_function_check(graph, "gradient: a value", value_count, values) ||
        !weft_function_check(graph, "gradient: an input", count, inputs))
        return;
    weft_region *scratch = weft_region_create(graph);
    if (!scratch) {
        graph->out_of_memory = true;
        return;
    }
    run_reverse(graph, scratch, value_count, values, cotangents, count, inputs, out_gradients);
    weft_region_discard(scratch);
    graph->location = location;
}

void weft_gradient(weft_graph *graph, weft_value *value, weft_value *cotangent, int count, weft_value *const *inputs,
                   weft_value **out_gradients) {
    weft_vjp(graph, 1, &value, &cotangent, count, inputs, out_gradients);
}

/* -- second order */

static weft_value **values_of(weft_graph *graph, int count) {
    return weft_graph_allocate(graph, (size_t)count + 1, sizeof(weft_value *));
}

void weft_hvp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs, weft_value *const *vectors,
              weft_value **out_products) {
    weft_value **gradients = values_of(graph, count);
    if (!weft_function_poison(graph, "weft_hvp", count, out_products)) return;
    if (!gradients) return;
    weft_gradient(graph, value, NULL, count, inputs, gradients);
    weft_jvp_many(graph, count, gradients, count, inputs, vectors, out_products);
}

void weft_vhp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs, weft_value *const *vectors,
              weft_value **out_products) {
    weft_value **gradients = values_of(graph, count);
    if (!weft_function_poison(graph, "weft_vhp", count, out_products)) return;
    if (!gradients) return;
    weft_gradient(graph, value, NULL, count, inputs, gradients);
    weft_vjp(graph, count, gradients, vectors, count, inputs, out_products);
}
