/* The matchers of match.h. */
#include "passes/raise/match.h"

#include <math.h>
#include <string.h>

#include "base/tensor.h"

enum { MAX_DEPTH = 12 }; /* of a product: longer ones are no pattern */

bool weft_match_number(const weft_value *value, double *out_number) {
    while (value->node && (value->node->op == WEFT_OP_broadcast || value->node->op == WEFT_OP_reshape))
        value = value->node->operands[0];
    if (!value->node || value->node->op != WEFT_OP_constant) return false;
    const weft_tensor *tensor = weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    if (tensor->element_count != 1 || !weft_dtype_is_float(tensor->dtype)) return false;
    *out_number = weft_element_double(tensor->dtype, tensor->data, 0);
    return true;
}

bool weft_match_near(weft_dtype dtype, double number, double wanted) {
    double tolerance = dtype == WEFT_F32 || dtype == WEFT_F64 ? 1e-5 : 1.0 / 250;
    return fabs(number - wanted) <= tolerance * fabs(wanted);
}

static bool add_factors(weft_value *value, int depth, weft_match_product *product) {
    double number;
    if (depth > MAX_DEPTH) return false;
    if (weft_match_number(value, &number)) {
        product->number *= number;
        return true;
    }
    weft_node *node = value->node;
    bool inside = depth == 0 || (value->uses && !value->uses->next);
    if (node && inside && node->op == WEFT_OP_mul)
        return add_factors(node->operands[0], depth + 1, product) && add_factors(node->operands[1], depth + 1, product);
    if (node && inside && node->op == WEFT_OP_div && weft_match_number(node->operands[1], &number)) {
        product->number /= number;
        return add_factors(node->operands[0], depth + 1, product);
    }
    if (product->count == WEFT_MATCH_FACTORS) return false;
    product->factors[product->count++] = value;
    return true;
}

bool weft_match_factors(weft_value *value, weft_match_product *out_product) {
    *out_product = (weft_match_product){.number = 1};
    return add_factors(value, 0, out_product);
}

int weft_match_count(const weft_match_product *product, const weft_value *value) {
    int count = 0;
    for (int i = 0; i < product->count; i++) count += product->factors[i] == value;
    return count;
}

/* -- traces */

void weft_match_trace_start(weft_value *value, weft_match_trace *out_trace) {
    out_trace->value = value;
    for (int i = 0; i < value->type.rank; i++) out_trace->map[i] = i;
}

static void through_broadcast(weft_match_trace *trace) {
    const weft_node *node = trace->value->node;
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    weft_value *x = node->operands[0];
    int map[WEFT_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) map[i] = x->type.dims[i] == 1 ? -1 : trace->map[axes[i]];
    memcpy(trace->map, map, sizeof map);
    trace->value = x;
}

/* false when the reshape does more than adding or dropping axes of extent 1. */
static bool through_reshape(weft_match_trace *trace) {
    weft_value *x = trace->value->node->operands[0];
    const weft_type *to = &trace->value->type, *from = &x->type;
    int map[WEFT_MAX_RANK], at = 0;
    for (int i = 0; i < from->rank; i++) {
        map[i] = -1;
        if (from->dims[i] == 1) continue;
        while (at < to->rank && to->dims[at] == 1) at++;
        if (at == to->rank || to->dims[at] != from->dims[i]) return false;
        map[i] = trace->map[at++];
    }
    while (at < to->rank && to->dims[at] == 1) at++;
    if (at != to->rank) return false;
    memcpy(trace->map, map, sizeof map);
    trace->value = x;
    return true;
}

void weft_match_views(weft_match_trace *trace) {
    for (;;) {
        const weft_node *node = trace->value->node;
        if (node && node->op == WEFT_OP_broadcast)
            through_broadcast(trace);
        else if (!node || node->op != WEFT_OP_reshape || !through_reshape(trace))
            return;
    }
}

const weft_node *weft_match_reduced(const weft_match_trace *trace, const weft_value *of, const char *kind) {
    const weft_node *node = trace->value->node;
    if (!node || node->op != WEFT_OP_reduce || node->operands[0] != of) return NULL;
    if (strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), kind) != 0) return NULL;
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    int kept = 0;
    for (int i = 0, next = 0; i < of->type.rank; i++) {
        if (next < axes->count && axes->as.ints[next] == i) {
            next++;
            continue;
        }
        if (trace->map[kept] != i && of->type.dims[i] != 1) return NULL;
        kept++;
    }
    return node;
}

const weft_node *weft_match_mean(weft_match_trace trace, const weft_value *of) {
    double number;
    weft_match_views(&trace);
    const weft_node *node = trace.value->node;
    if (!node || (node->op != WEFT_OP_div && node->op != WEFT_OP_mul)) return NULL;
    if (!weft_match_number(node->operands[1], &number)) return NULL;
    double divisor = node->op == WEFT_OP_div ? number : 1 / number;
    trace.value = node->operands[0];
    weft_match_views(&trace);
    const weft_node *reduce = weft_match_reduced(&trace, of, "sum");
    if (!reduce) return NULL;
    const weft_attribute *axes = weft_node_attribute(reduce, WEFT_ATTR_axes);
    double count = 1;
    for (int i = 0; i < axes->count; i++) {
        if (!weft_dim_is_number(of->type.dims[axes->as.ints[i]])) return NULL;
        count *= (double)of->type.dims[axes->as.ints[i]];
    }
    return weft_match_near(of->type.dtype, divisor, count) ? reduce : NULL;
}
