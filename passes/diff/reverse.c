/* Reverse mode: linearise into a region of its own, move what is not linear out, transpose the rest. */
#include "passes/diff/diff.h"

#include "weft/transform.h"

enum { OPERANDS_MAX = 256 };

weft_transpose_hook weft_transpose_get(weft_op op, const char **out_reason) {
    static const weft_transpose_hook hooks[] = {
#define HOOK(name)   weft_transpose_##name
#define NONE(reason) NULL
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, transpose, ...)    \
    [WEFT_OP_##id] = transpose,
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

typedef struct reverse {
    weft_graph *graph;
    weft_region *linear;    /* arguments: tangents of the inputs */
    weft_value_map linears; /* value of the linear region -> itself */
    weft_value_map cotangents;
    weft_place place; /* where the results go */
} reverse;

static bool is_linear(const reverse *r, const weft_value *value) {
    return weft_value_map_find(&r->linears, value) != NULL;
}

/* Nodes that no tangent reaches go to the surrounding block; what is left is linear. */
static void move_constants(reverse *r) {
    weft_node *next;
    for (weft_node *node = r->linear->block->first; node; node = next) {
        next = node->next;
        bool linear = false;
        for (int i = 0; i < node->operand_count; i++) linear |= is_linear(r, node->operands[i]);
        if (!linear)
            weft_node_move(node, r->place);
        else
            for (int i = 0; i < node->result_count; i++)
                if (!weft_value_map_put(&r->linears, &node->results[i], &node->results[i]))
                    r->graph->out_of_memory = true;
    }
}

static void add_cotangent(reverse *r, const weft_value *to, weft_value *cotangent) {
    weft_value *sum = weft_diff_sum(r->graph, weft_value_map_find(&r->cotangents, to), cotangent);
    if (sum && !weft_value_map_put(&r->cotangents, to, sum)) r->graph->out_of_memory = true;
}

static void transpose_node(reverse *r, const weft_node *node) {
    weft_value *in[OPERANDS_MAX] = {0}, *out[OPERANDS_MAX] = {0};
    bool linear[OPERANDS_MAX], any = false;
    const char *reason;
    for (int i = 0; i < node->result_count; i++) {
        in[i] = weft_value_map_find(&r->cotangents, &node->results[i]);
        any |= in[i] != NULL;
    }
    if (!any) return;
    for (int i = 0; i < node->operand_count; i++) linear[i] = is_linear(r, node->operands[i]);
    weft_transpose_hook hook = weft_transpose_get(node->op, &reason);
    r->graph->location = node->location;
    if (!hook) {
        weft_graph_problem(r->graph, "%s has no transpose: %s", weft_op_get(node->op)->name, reason);
        return;
    }
    weft_transpose_rule rule = {
        .graph = r->graph, .node = node, .linear = linear, .cotangents = in, .out_cotangents = out};
    hook(&rule);
    for (int i = 0; i < node->operand_count; i++)
        if (linear[i] && out[i]) add_cotangent(r, node->operands[i], out[i]);
}

/* The region was scratch: its uses of outer values must go. */
static void discard(weft_region *region) {
    while (region->block->last) weft_node_remove(region->block->last);
}

void weft_gradient(weft_graph *graph, weft_value *value, weft_value *cotangent, int count, weft_value *const *inputs,
                   weft_value **out_gradients) {
    reverse r = {.graph = graph, .linear = weft_region_create(graph)};
    weft_value_map tangents;
    weft_location location = graph->location;
    weft_value_map_init(graph->context->allocator, &tangents);
    weft_value_map_init(graph->context->allocator, &r.linears);
    weft_value_map_init(graph->context->allocator, &r.cotangents);
    for (int i = 0; i < count; i++) out_gradients[i] = NULL;
    if (!r.linear) graph->out_of_memory = true;
    for (int i = 0; r.linear && i < count; i++) {
        if (!weft_dtype_is_float(inputs[i]->type.dtype)) {
            weft_graph_problem(graph, "input %d of a gradient is %s; only floats have gradients", i,
                               weft_dtype_name(inputs[i]->type.dtype));
            continue;
        }
        out_gradients[i] = weft_block_add_argument(r.linear->block, &inputs[i]->type, NULL); /* for now: the tangent */
        if (!out_gradients[i] || !weft_value_map_put(&tangents, inputs[i], out_gradients[i]) ||
            !weft_value_map_put(&r.linears, out_gradients[i], out_gradients[i]))
            graph->out_of_memory = true;
    }
    if (r.linear && !graph->out_of_memory) {
        r.place = weft_graph_place_end(graph, r.linear->block);
        weft_value *tangent = weft_diff_forward(graph, value, &tangents);
        weft_graph_place(graph, r.place);
        move_constants(&r);
        if (tangent) add_cotangent(&r, tangent, cotangent ? cotangent : weft_emit_splat_like(graph, 1, value));
        for (const weft_node *node = r.linear->block->last; node; node = node->previous) transpose_node(&r, node);
        discard(r.linear);
    }
    for (int i = 0; i < count; i++) {
        weft_value *found = out_gradients[i] ? weft_value_map_find(&r.cotangents, out_gradients[i]) : NULL;
        out_gradients[i] = found ? found : weft_diff_zeros(graph, inputs[i]);
    }
    graph->location = location;
    weft_value_map_deinit(&r.cotangents);
    weft_value_map_deinit(&r.linears);
    weft_value_map_deinit(&tangents);
}
