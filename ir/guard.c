/* Facts about extents that node types rely on: proved, refuted, or recorded to be checked at entry.
   Invariant: graph->guards holds each fact once, and none that is provable. */
#include "ir/build.h"

static bool guard_recorded(const weft_graph *graph, weft_condition condition) {
    for (size_t i = 0; i < graph->guard_count; i++) {
        weft_condition other = graph->guards[i].condition;
        if (other.relation != condition.relation) continue;
        if (other.lhs == condition.lhs && other.rhs == condition.rhs) return true;
        if (condition.relation == WEFT_RELATION_EQ && other.lhs == condition.rhs && other.rhs == condition.lhs)
            return true;
    }
    return false;
}

void weft_graph_add_guard(weft_graph *graph, weft_condition condition, const char *pass, const char *place) {
    if (guard_recorded(graph, condition)) return;
    const char *location = weft_graph_copy_string(graph, place), *by = weft_graph_copy_string(graph, pass);
    if (!location ||
        !WEFT_ARRAY_RESERVE(graph->context->allocator, graph->guards, graph->guard_capacity, graph->guard_count + 1)) {
        graph->out_of_memory = true;
        return;
    }
    graph->guards[graph->guard_count++] = (weft_guard){condition, by, location};
}

static void record_guard(weft_graph *graph, weft_condition condition) {
    weft_text text;
    weft_text_init(graph->context->allocator, &text);
    weft_location_print(&graph->location, &text);
    weft_graph_add_guard(graph, condition, "build", weft_text_string(&text));
    weft_text_deinit(&text);
}

bool weft_graph_assume_equal(weft_graph *graph, weft_dim a, weft_dim b) {
    if (a == WEFT_DIM_INVALID || b == WEFT_DIM_INVALID) return false;
    if (a == b || weft_dim_known_equal(graph->dims, a, b)) return true;
    if (weft_dim_known_different(graph->dims, a, b)) return false;
    record_guard(graph, (weft_condition){a, b, WEFT_RELATION_EQ});
    return true;
}

bool weft_graph_assume_at_most(weft_graph *graph, weft_dim a, weft_dim b) {
    weft_dim gap = weft_dim_subtract(graph->dims, b, a);
    if (gap == WEFT_DIM_INVALID) return false;
    int64_t minimum, maximum;
    weft_dim_bounds(graph->dims, gap, &minimum, &maximum);
    if (minimum >= 0) return true;
    if (maximum < 0) return false;
    record_guard(graph, (weft_condition){a, b, WEFT_RELATION_LE});
    return true;
}

/* What a condition is when its extents are numbers; other relations than these two are left to entry. */
bool weft_graph_assume(weft_graph *graph, weft_condition condition, const char *pass, const char *place) {
    if (weft_condition_known(graph->dims, &condition)) return true;
    if (weft_dim_is_number(condition.lhs) && weft_dim_is_number(condition.rhs)) return false;
    if (condition.relation == WEFT_RELATION_EQ && weft_dim_known_different(graph->dims, condition.lhs, condition.rhs))
        return false;
    weft_graph_add_guard(graph, condition, pass, place);
    return true;
}
