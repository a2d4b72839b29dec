/* Forward mode: tangents along the nodes that a value depends on. Read next: reverse.c. */
#include "passes/diff/diff.h"

#include "ir/decompose.h"
#include "weft/transform.h"

enum { OPERANDS_MAX = 256 };

weft_jvp_hook weft_jvp_get(weft_op op, const char **out_reason) {
    static const weft_jvp_hook hooks[] = {
#define HOOK(name)   weft_jvp_##name
#define NONE(reason) NULL
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, ...)               \
    [WEFT_OP_##id] = jvp,
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

weft_value *weft_diff_sum(weft_graph *graph, weft_value *x, weft_value *y) {
    if (!x || !y) return x ? x : y;
    return weft_emit_binary(graph, WEFT_OP_add, x, y);
}

weft_value *weft_diff_same_op(weft_graph *graph, const weft_node *node, weft_value *const *operands) {
    return weft_build(graph, node->op, node->operand_count, operands, node->attribute_count, node->attributes);
}

static bool is_marked(const weft_map *marks, const weft_node *node) { return weft_map_has(marks, &node, sizeof node); }

/* Marks the nodes between the seeds and value. Depth first without recursion: graphs are deep. */
static bool mark_needed(weft_graph *graph, const weft_value *value, weft_map *marks) {
    weft_allocator allocator = graph->context->allocator;
    const weft_node **stack = NULL;
    size_t capacity = 0, depth = 0;
    bool fine = true;
    if (value->node) fine = WEFT_ARRAY_RESERVE(allocator, stack, capacity, 1);
    if (fine && value->node) stack[depth++] = value->node;
    while (fine && depth > 0) {
        const weft_node *node = stack[--depth];
        if (is_marked(marks, node)) continue;
        fine = weft_map_put(marks, &node, sizeof node, NULL) &&
               WEFT_ARRAY_RESERVE(allocator, stack, capacity, depth + (size_t)node->operand_count);
        for (int i = 0; fine && i < node->operand_count; i++)
            if (node->operands[i]->node && !is_marked(marks, node->operands[i]->node))
                stack[depth++] = node->operands[i]->node;
    }
    weft_free(allocator, stack, capacity * sizeof *stack);
    return fine;
}

/* A derived op is differentiated through its decomposition, built anew: CSE joins it with the op's own later. */
static void push_derived(weft_graph *graph, const weft_node *node, weft_value_map *tangents) {
    weft_value *written[WEFT_DECOMPOSED_MAX];
    weft_decompose(graph, node, node->operands, written);
    for (int i = 0; i < node->result_count; i++) {
        weft_value *tangent = weft_diff_forward(graph, written[i], tangents);
        if (tangent && !weft_value_map_put(tangents, &node->results[i], tangent)) graph->out_of_memory = true;
    }
}

static void push_node(weft_graph *graph, const weft_node *node, weft_value_map *tangents) {
    weft_value *in[OPERANDS_MAX], *out[OPERANDS_MAX] = {0};
    const char *reason;
    bool any = false;
    if (node->operand_count > OPERANDS_MAX || node->result_count > OPERANDS_MAX) {
        weft_graph_problem(graph, "%s has too many operands to differentiate", weft_op_get(node->op)->name);
        return;
    }
    for (int i = 0; i < node->operand_count; i++) {
        in[i] = weft_value_map_find(tangents, node->operands[i]);
        any |= in[i] != NULL;
    }
    if (!any) return;
    graph->location = node->location;
    weft_jvp_hook hook = weft_jvp_get(node->op, &reason);
    bool derived = weft_op_get(node->op)->class == WEFT_CLASS_DERIVED;
    if (!hook && derived) {
        push_derived(graph, node, tangents);
        return;
    }
    if (!hook) {
        weft_graph_problem(graph, "%s cannot be differentiated: %s", weft_op_get(node->op)->name, reason);
        return;
    }
    weft_jvp_rule rule = {.graph = graph, .node = node, .tangents = in, .out_tangents = out};
    hook(&rule);
    if (derived && rule.declined) {
        push_derived(graph, node, tangents);
        return;
    }
    for (int i = 0; i < node->result_count; i++)
        if (out[i] && !weft_value_map_put(tangents, &node->results[i], out[i])) graph->out_of_memory = true;
}

weft_value *weft_diff_forward(weft_graph *graph, weft_value *value, weft_value_map *tangents) {
    weft_map marks;
    weft_map_init(graph->context->allocator, &marks);
    weft_location location = graph->location;
    if (!mark_needed(graph, value, &marks)) graph->out_of_memory = true;
    /* Nodes are in execution order; new ones are appended behind and are not marked. */
    if (value->node)
        for (const weft_node *node = value->node->block->first; node; node = node->next) {
            if (!is_marked(&marks, node) || (node->result_count && weft_value_map_find(tangents, &node->results[0])))
                continue;
            push_node(graph, node, tangents);
            if (node == value->node) break;
        }
    graph->location = location;
    weft_map_deinit(&marks);
    return weft_value_map_find(tangents, value);
}

static bool seed(weft_graph *graph, weft_value_map *map, int count, weft_value *const *inputs,
                 weft_value *const *tangents) {
    for (int i = 0; i < count; i++) {
        if (!weft_dtype_is_float(inputs[i]->type.dtype)) {
            weft_graph_problem(graph, "input %d of a derivative is %s; only floats have derivatives", i,
                               weft_dtype_name(inputs[i]->type.dtype));
            continue;
        }
        if (!weft_type_equal(&inputs[i]->type, &tangents[i]->type)) {
            weft_graph_problem(graph, "tangent %d differs in type from its input", i);
            continue;
        }
        if (!weft_value_map_put(map, inputs[i], tangents[i])) return false;
    }
    return true;
}

weft_value *weft_jvp(weft_graph *graph, weft_value *value, int count, weft_value *const *inputs,
                     weft_value *const *tangents) {
    weft_value_map map;
    weft_value_map_init(graph->context->allocator, &map);
    if (!seed(graph, &map, count, inputs, tangents)) graph->out_of_memory = true;
    weft_value *tangent = weft_diff_forward(graph, value, &map);
    weft_value_map_deinit(&map);
    return tangent ? tangent : weft_diff_zeros(graph, value);
}
