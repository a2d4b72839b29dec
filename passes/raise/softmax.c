/* softmax spelled out: e = exp(x - max(x)); e / sum(e) along one axis; and log(softmax(x)) as log_softmax. */
#include "passes/raise/match.h"
#include "passes/raise/raisers.h"

static weft_node *producer(const weft_value *value, weft_op op) {
    return value->node && value->node->op == op ? value->node : NULL;
}

weft_value *weft_raise_softmax(weft_graph *graph, weft_node *node) {
    if (node->op != WEFT_OP_div) return NULL;
    weft_node *exp = producer(node->operands[0], WEFT_OP_exp);
    weft_node *sub = exp ? producer(exp->operands[0], WEFT_OP_sub) : NULL;
    if (!sub) return NULL;
    weft_match_trace sum, maximum;
    weft_match_trace_start(node->operands[1], &sum);
    weft_match_trace_start(sub->operands[1], &maximum);
    weft_match_views(&sum);
    weft_match_views(&maximum);
    const weft_node *sums = weft_match_reduced(&sum, node->operands[0], "sum");
    const weft_node *maxima = weft_match_reduced(&maximum, sub->operands[0], "max");
    if (!sums || !maxima) return NULL;
    const weft_attribute *a = weft_node_attribute(sums, WEFT_ATTR_axes),
                         *b = weft_node_attribute(maxima, WEFT_ATTR_axes);
    if (a->count != 1 || b->count != 1 || a->as.ints[0] != b->as.ints[0]) return NULL;
    weft_attribute axis = weft_attr_int(WEFT_ATTR_axis, a->as.ints[0]);
    return weft_build(graph, WEFT_OP_softmax, 1, &sub->operands[0], 1, &axis);
}

/* Exact only where no rounding stands between: f32 and f64, and the softmax has no other use. */
weft_value *weft_raise_log_softmax(weft_graph *graph, weft_node *node) {
    weft_node *softmax = node->op == WEFT_OP_log ? producer(node->operands[0], WEFT_OP_softmax) : NULL;
    if (!softmax || softmax->results[0].uses->next) return NULL;
    return weft_build(graph, WEFT_OP_log_softmax, 1, softmax->operands, 1, softmax->attributes);
}
