/* Control flow: bodies are callbacks that build into a region. Invariant: the insertion point is the caller's again
   when a function returns. Read next: ir/build.h. */
#include "frontend/ops/common.h"

typedef struct region_build {
    weft_graph *graph;
    weft_region *region;
    weft_place outside;
} region_build;

static bool region_begin(weft_graph *g, region_build *build) {
    build->graph = g;
    build->region = weft_region_create(g);
    if (!build->region) {
        g->out_of_memory = true;
        return false;
    }
    build->outside = weft_graph_place_end(g, build->region->block);
    return true;
}

static void region_end(region_build *build, int count, weft_value **results) {
    weft_graph *g = build->graph;
    for (int i = 0; i < count; i++)
        if (!results[i]) results[i] = weft_value_poison(g);
    (void)weft_node_create(g, WEFT_OP_yield, count, results, 0, NULL, 0, NULL);
    weft_graph_place(g, build->outside);
}

static weft_value **value_array(weft_graph *g, int count) {
    weft_value **values = weft_arena_allocate_array(&g->arena, (size_t)count + 1, sizeof *values);
    if (!values) g->out_of_memory = true;
    return values;
}

static void take_results(weft_node *node, int count, weft_value **results) {
    for (int i = 0; node && i < count && i < node->result_count; i++) results[i] = weft_node_result(node, i);
}

static bool has_body(weft_graph *g, const char *op, weft_body body) {
    if (!body) weft_graph_problem(g, "%s: a body is missing", op);
    return body != NULL;
}

void weft_while(weft_graph *g, int count, weft_value *const *init, int64_t bound, weft_body condition, weft_body body,
                void *self, weft_value **results) {
    if (!weft_ops_results(g, "while", count, results) || !has_body(g, "while", condition) ||
        !has_body(g, "while", body) || weft_ops_absent_any(g, init, count))
        return;
    weft_region *regions[2];
    for (int r = 0; r < 2; r++) {
        region_build build;
        int yields = r == 0 ? 1 : count;
        weft_value **arguments = value_array(g, count), **made = value_array(g, yields);
        if (!arguments || !made || !region_begin(g, &build)) return;
        for (int i = 0; i < count; i++)
            arguments[i] = weft_block_add_argument(build.region->block, &init[i]->type, NULL);
        (r == 0 ? condition : body)(self, g, arguments, made);
        region_end(&build, yields, made);
        regions[r] = build.region;
    }
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_bound, bound);
    take_results(weft_node_create(g, WEFT_OP_while, count, init, 1, &attribute, 2, regions), count, results);
}

void weft_cond(weft_graph *g, weft_value *predicate, weft_body then_body, weft_body else_body, void *self,
               int result_count, weft_value **results) {
    if (!weft_ops_results(g, "cond", result_count, results) || !has_body(g, "cond", then_body) ||
        !has_body(g, "cond", else_body) || weft_ops_absent(g, &predicate))
        return;
    weft_region *regions[2];
    for (int r = 0; r < 2; r++) {
        region_build build;
        weft_value **made = value_array(g, result_count);
        if (!made || !region_begin(g, &build)) return;
        (r == 0 ? then_body : else_body)(self, g, NULL, made);
        region_end(&build, result_count, made);
        regions[r] = build.region;
    }
    take_results(weft_node_create(g, WEFT_OP_cond, 1, &predicate, 0, NULL, 2, regions), result_count, results);
}

void weft_scan(weft_graph *g, int carry_count, weft_value *const *carries, int input_count, weft_value *const *inputs,
               weft_dim trips, bool reverse, weft_body body, void *self, int output_count, weft_value **results) {
    int total = carry_count + input_count, made_count = carry_count + output_count;
    if (!weft_ops_results(g, "scan", made_count, results) || !has_body(g, "scan", body) || total < 0 ||
        weft_ops_absent_any(g, carries, carry_count) || weft_ops_absent_any(g, inputs, input_count))
        return;
    weft_value **operands = value_array(g, total), **arguments = value_array(g, total),
               **made = value_array(g, made_count);
    if (!operands || !arguments || !made) return;
    for (int i = 0; i < total; i++) operands[i] = i < carry_count ? carries[i] : inputs[i - carry_count];
    for (int i = carry_count; i < total; i++)
        if (operands[i]->type.rank == 0) {
            weft_graph_problem(g, "scan over a scalar");
            return;
        }
    region_build build;
    if (!region_begin(g, &build)) return;
    for (int i = 0; i < total; i++) {
        weft_type type = operands[i]->type;
        if (i >= carry_count) type.rank--, type.dims++;
        arguments[i] = weft_block_add_argument(build.region->block, &type, NULL);
    }
    body(self, g, arguments, made);
    region_end(&build, made_count, made);
    weft_dim k = carry_count;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_k, 1, &k), weft_attr_dims(WEFT_ATTR_trips, 1, &trips),
                                    weft_attr_int(WEFT_ATTR_reverse, reverse)};
    take_results(weft_node_create(g, WEFT_OP_scan, total, operands, 3, attributes, 1, &build.region), made_count,
                 results);
}
