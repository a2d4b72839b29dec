/* Transposing linear nodes from the end. Read next: gradient.c. */
#include "passes/diff/reverse.h"

#include "passes/diff/remat.h"

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

void weft_reversal_init(weft_reversal *r, weft_graph *graph, const weft_block *scratch) {
    *r = (weft_reversal){.graph = graph, .scratch = scratch};
    weft_value_map_init(graph->context->allocator, &r->linears);
    weft_value_map_init(graph->context->allocator, &r->cotangents);
}

void weft_reversal_deinit(weft_reversal *r) {
    weft_value_map_deinit(&r->cotangents);
    weft_value_map_deinit(&r->linears);
}

void weft_reversal_mark(weft_reversal *r, const weft_value *value) {
    if (!weft_value_map_put(&r->linears, value, (weft_value *)r->graph)) r->graph->out_of_memory = true;
}

bool weft_reversal_is_linear(const weft_reversal *r, const weft_value *value) {
    return weft_value_map_find(&r->linears, value) || (r->outer && weft_reversal_is_linear(r->outer, value));
}

static bool is_linear_node(const weft_reversal *r, const weft_node *node) {
    for (int i = 0; i < node->operand_count; i++)
        if (weft_reversal_is_linear(r, node->operands[i])) return true;
    if (!node->region_count) return false;
    weft_value_list captures = {0};
    bool linear = false;
    weft_node_captures(r->graph, node, &captures);
    for (size_t i = 0; i < captures.count; i++) linear |= weft_reversal_is_linear(r, captures.values[i]);
    weft_value_list_deinit(r->graph, &captures);
    return linear;
}

void weft_reversal_classify(weft_reversal *r, weft_node *const *nodes, size_t count) {
    for (size_t n = 0; n < count; n++)
        if (is_linear_node(r, nodes[n]))
            for (int i = 0; i < nodes[n]->result_count; i++) weft_reversal_mark(r, &nodes[n]->results[i]);
}

weft_value *weft_reversal_find(const weft_reversal *r, const weft_value *value) {
    return weft_value_map_find(&r->cotangents, value);
}

void weft_reversal_add(weft_reversal *r, const weft_value *to, weft_value *cotangent) {
    weft_value *sum = weft_diff_sum(r->graph, weft_reversal_find(r, to), cotangent);
    if (sum && !weft_value_map_put(&r->cotangents, to, sum)) r->graph->out_of_memory = true;
}

/* -- what a linear node needs that is not linear */

static weft_value *materialise(weft_reversal *r, weft_value *value, int scope, bool again);

/* Operands of the node and of what is in its regions. again: the node computes anew what a scope does not keep. */
static void materialise_node(weft_reversal *r, weft_node *node, bool again) {
    for (int i = 0; i < node->operand_count; i++)
        if (!weft_reversal_is_linear(r, node->operands[i]))
            weft_node_set_operand(node, i, materialise(r, node->operands[i], node->location.scope, again));
    for (int k = 0; k < node->region_count; k++)
        for (weft_node *inner = node->regions[k]->block->first; inner; inner = inner->next)
            materialise_node(r, inner, again);
}

/* The value where the insertion point can see it: nodes of the scratch block come out of it, with what they need.
   scope: the rematerialisation scope of who needs it. */
static weft_value *materialise(weft_reversal *r, weft_value *value, int scope, bool again) {
    weft_node *node = value->node;
    if (node && node->block == r->scratch) {
        weft_remat *remat = r->remat;
        bool kept = remat && weft_remat_keeps(remat, value, scope);
        if (kept) r->remat = NULL; /* CSE joins it with the forward part's */
        materialise_node(r, node, remat && !kept && node->location.scope);
        r->remat = remat;
        for (int i = 0; remat && i < node->result_count; i++) weft_remat_done(remat, &node->results[i]);
        weft_node_move(node, (weft_place){r->graph->insertion, r->graph->insert_before});
        return value;
    }
    if (!r->remat || weft_value_is_inside(value, r->scratch)) return value;
    return again ? weft_remat_operand(r->remat, value, scope) : weft_remat_value(r->remat, value, scope);
}

/* -- nodes */

static void transpose_node(weft_reversal *r, weft_node *node) {
    weft_graph *g = r->graph;
    weft_value **in = weft_graph_allocate(g, (size_t)node->result_count + 1, sizeof *in),
               **out = weft_graph_allocate(g, (size_t)node->operand_count + 1, sizeof *out);
    bool *linear = weft_graph_allocate(g, (size_t)node->operand_count + 1, sizeof *linear), any = false;
    const char *reason;
    if (!in || !out || !linear) return;
    for (int i = 0; i < node->result_count; i++) {
        in[i] = weft_reversal_find(r, &node->results[i]);
        any |= in[i] != NULL;
    }
    if (!any) return;
    for (int i = 0; i < node->operand_count; i++) linear[i] = weft_reversal_is_linear(r, node->operands[i]);
    weft_transpose_hook hook = weft_transpose_get(node->op, &reason);
    g->location = node->location;
    if (!g->location.origin) g->location.origin = node->id;
    if (!hook) {
        weft_graph_problem(g, "%s has no transpose: %s", weft_op_get(node->op)->name, reason);
        return;
    }
    if (r->scratch) materialise_node(r, node, false);
    weft_transpose_rule rule = {
        .graph = g, .node = node, .linear = linear, .cotangents = in, .out_cotangents = out, .reverse = r};
    hook(&rule);
    for (int i = 0; i < node->operand_count; i++)
        if (linear[i] && out[i]) weft_reversal_add(r, node->operands[i], out[i]);
}

void weft_reversal_run(weft_reversal *r, weft_node *const *nodes, size_t count) {
    weft_location location = r->graph->location;
    for (size_t i = count; i-- > 0 && !r->graph->out_of_memory;) transpose_node(r, nodes[i]);
    r->graph->location = location;
}
