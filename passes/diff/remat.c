/* Rematerialisation scopes and their policies. */
#include "passes/diff/remat.h"

#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "ir/emit.h"
#include "weft/transform.h"

/* -- scopes */

static const weft_remat_scope *scope_get(const weft_graph *graph, int id) {
    const weft_remat_scope *scope = graph->remat_scopes;
    while (scope && scope->id != id) scope = scope->next;
    return scope;
}

static const char *const *copy_names(weft_graph *graph, int count, const char *const *names) {
    const char **copy = weft_graph_allocate(graph, (size_t)count + 1, sizeof *copy);
    for (int i = 0; copy && i < count; i++) copy[i] = weft_graph_copy_string(graph, names[i]);
    return copy;
}

void weft_remat_begin(weft_graph *graph, const weft_remat_options *options) {
    weft_remat_scope *scope = weft_graph_allocate(graph, 1, sizeof *scope);
    if (!scope) return;
    *scope = (weft_remat_scope){.id = graph->remat_scopes ? graph->remat_scopes->id + 1 : 1,
                                .parent = graph->location.scope,
                                .save = WEFT_SAVE_NOTHING,
                                .next = graph->remat_scopes};
    weft_remat_options own = WEFT_REMAT_OPTIONS_INIT;
    /* a scope is opened all the same: its end is the caller's to write */
    if (!weft_graph_report(graph, WEFT_OPTIONS_READ(own, options, WEFT_REMAT_OPTIONS_INIT)) && options) {
        scope->save = (int)own.save;
        scope->name_count = own.name_count;
        scope->names = copy_names(graph, own.name_count, own.names);
        scope->budget_bytes = own.budget_bytes;
        if (!scope->names) return;
    }
    graph->remat_scopes = scope;
    graph->location.scope = scope->id;
}

void weft_remat_end(weft_graph *graph) {
    const weft_remat_scope *scope = scope_get(graph, graph->location.scope);
    if (scope)
        graph->location.scope = scope->parent;
    else
        weft_graph_problem(graph, "weft_remat_end without weft_remat_begin");
}

weft_value *weft_save_name(weft_graph *graph, weft_value *value, const char *name) {
    if (!weft_function_check(graph, "weft_save_name: the value", 1, &value)) return weft_value_poison(graph);
    if (!name)
        weft_graph_problem(graph, "weft_save_name: the name is missing");
    else if (!value->node || value->node->op == WEFT_OP_constant)
        weft_graph_problem(graph, "weft_save_name: %s is an input or a constant and kept anyway", name);
    else
        value->name = weft_graph_copy_string(graph, name);
    return value;
}

/* The innermost scope around both; NULL = none. */
static const weft_remat_scope *common_scope(const weft_graph *graph, int a, int b) {
    for (const weft_remat_scope *x = scope_get(graph, a); x; x = scope_get(graph, x->parent))
        for (const weft_remat_scope *y = scope_get(graph, b); y; y = scope_get(graph, y->parent))
            if (x == y) return x;
    return NULL;
}

/* -- policies */

static bool is_named(const weft_remat_scope *scope, const weft_value *value) {
    for (int i = 0; value->name && i < scope->name_count; i++)
        if (!strcmp(scope->names[i], value->name)) return true;
    return false;
}

static bool is_product(const weft_node *node) {
    return node->op == WEFT_OP_dot_general || node->op == WEFT_OP_ragged_dot || node->op == WEFT_OP_convolution ||
           node->op == WEFT_OP_attention;
}

static bool is_kept(const weft_remat *remat, const weft_remat_scope *scope, const weft_value *value) {
    const weft_node *node = value->node;
    if (weft_op_get(node->op)->flags & WEFT_FLAG_EFFECT || node->op == WEFT_OP_constant) return true;
    switch ((weft_save)scope->save) {
    case WEFT_SAVE_NOTHING: return false;
    case WEFT_SAVE_EVERYTHING: return true;
    case WEFT_SAVE_PRODUCTS: return is_product(node);
    case WEFT_SAVE_ALL_BUT_ATTENTION: return node->op != WEFT_OP_attention;
    case WEFT_SAVE_NAMED: return is_named(scope, value);
    case WEFT_SAVE_WITHIN_BUDGET:
        return !remat->over_budget || (weft_map_has(&remat->residuals, &value, sizeof value) &&
                                       !weft_map_has(&remat->dropped, &value, sizeof value));
    }
    return true;
}

/* -- the budget: residuals are dropped, cheap to compute and large ones first, until the rest fits */

typedef struct residual {
    weft_value *value;
    const weft_remat_scope *scope;
    int64_t bytes;
    int cost; /* 0 elementwise and views, 1 reductions and the like, 2 products */
} residual;

static int64_t bytes_of(weft_graph *graph, const weft_type *type) {
    int64_t least, most;
    weft_dim_bounds(graph->dims, weft_type_count(graph, type), &least, &most);
    int64_t count = most < INT64_MAX / 64 ? most : least;
    return (count * (int64_t)weft_dtype_bits(type->dtype) + 7) / 8;
}

static int cost_of(const weft_node *node) {
    if (is_product(node) || node->region_count) return 2;
    return weft_op_get(node->op)->flags & (WEFT_FLAG_ELEMENTWISE | WEFT_FLAG_VIEW) ? 0 : 1;
}

static int compare_residuals(const void *x, const void *y) {
    const residual *a = x, *b = y;
    if (a->scope->id != b->scope->id) return a->scope->id < b->scope->id ? -1 : 1;
    if (a->cost != b->cost) return a->cost < b->cost ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->value->id < b->value->id ? -1 : a->value->id > b->value->id;
}

static void drop_over_budget(weft_remat *remat, residual *list, size_t count) {
    qsort(list, count, sizeof *list, compare_residuals);
    for (size_t first = 0, next; first < count; first = next) {
        int64_t total = 0;
        for (next = first; next < count && list[next].scope == list[first].scope; next++) total += list[next].bytes;
        for (size_t i = first; i < next && total > list[first].scope->budget_bytes; i++) {
            if (!weft_map_put(&remat->dropped, &list[i].value, sizeof list[i].value, NULL))
                remat->graph->out_of_memory = true;
            total -= list[i].bytes;
            remat->over_budget = true;
        }
    }
}

static void plan_budgets(weft_remat *remat, const weft_block *scratch) {
    weft_graph *graph = remat->graph;
    residual *list = NULL;
    size_t count = 0, capacity = 0;
    for (const weft_node *node = scratch->first; node && !graph->out_of_memory; node = node->next)
        for (int i = 0; i < node->operand_count; i++) {
            weft_value *value = node->operands[i];
            if (!value->node || value->node->block == scratch) continue;
            const weft_remat_scope *scope = common_scope(graph, value->node->location.scope, node->location.scope);
            if (!scope || scope->save != WEFT_SAVE_WITHIN_BUDGET ||
                weft_map_has(&remat->residuals, &value, sizeof value))
                continue;
            if (!weft_map_put(&remat->residuals, &value, sizeof value, NULL) ||
                !WEFT_ARRAY_RESERVE(graph->context->allocator, list, capacity, count + 1)) {
                graph->out_of_memory = true;
                break;
            }
            list[count++] = (residual){value, scope, bytes_of(graph, &value->type), cost_of(value->node)};
        }
    if (count) drop_over_budget(remat, list, count);
    weft_free(graph->context->allocator, list, capacity * sizeof *list);
}

weft_remat *weft_remat_init(weft_remat *remat, weft_graph *graph, const weft_block *scratch) {
    if (!graph->remat_scopes) return NULL;
    *remat = (weft_remat){.graph = graph};
    weft_value_map_init(graph->context->allocator, &remat->again);
    weft_map_init(graph->context->allocator, &remat->dropped);
    weft_map_init(graph->context->allocator, &remat->residuals);
    plan_budgets(remat, scratch);
    return remat;
}

void weft_remat_deinit(weft_remat *remat) {
    if (!remat) return;
    weft_map_deinit(&remat->residuals);
    weft_map_deinit(&remat->dropped);
    weft_value_map_deinit(&remat->again);
}

/* -- computing anew */

static weft_value *remember(weft_remat *remat, const weft_value *value, weft_value *again) {
    if (!weft_value_map_put(&remat->again, value, again)) remat->graph->out_of_memory = true;
    return again;
}

void weft_remat_done(weft_remat *remat, weft_value *value) { (void)remember(remat, value, value); }

static bool is_recomputed(const weft_remat *remat, const weft_value *value, int scope) {
    if (!value->node || !value->node->location.scope || (remat->within && value->node->block != remat->within))
        return false;
    const weft_remat_scope *common = common_scope(remat->graph, value->node->location.scope, scope);
    return common && !is_kept(remat, common, value);
}

bool weft_remat_keeps(const weft_remat *remat, const weft_value *value, int scope) {
    return value->node->location.scope && !is_recomputed(remat, value, scope);
}

weft_value *weft_remat_operand(weft_remat *remat, weft_value *value, int scope) {
    weft_value *found = weft_value_map_find(&remat->again, value);
    if (found) return found;
    if (is_recomputed(remat, value, scope)) return weft_remat_value(remat, value, scope);
    if (value->node && value->node->op == WEFT_OP_constant) return value;
    return remember(remat, value, weft_build(remat->graph, WEFT_OP_optimization_barrier, 1, &value, 0, NULL));
}

weft_value *weft_remat_value(weft_remat *remat, weft_value *value, int scope) {
    if (!is_recomputed(remat, value, scope)) return value;
    weft_value *found = weft_value_map_find(&remat->again, value);
    if (found) return found;
    const weft_node *node = value->node;
    weft_value_list captures = {0};
    weft_node_captures(remat->graph, node, &captures);
    for (int i = 0; i < node->operand_count; i++)
        (void)weft_remat_operand(remat, node->operands[i], node->location.scope);
    for (size_t i = 0; i < captures.count; i++)
        (void)weft_remat_operand(remat, captures.values[i], node->location.scope);
    weft_value_list_deinit(remat->graph, &captures);
    if (!weft_node_clone(remat->graph, node, &remat->again)) return value;
    return weft_value_mapped(&remat->again, value);
}
