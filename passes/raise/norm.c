/* Normalisations spelled out:
     d = x - mean(x); d / sqrt(mean(d * d) + epsilon), or d * rsqrt(...)       layer_norm
     x / sqrt(mean(x * x) + epsilon)                                          rms_norm
   and then a scale and a bias over the normalised axes, which join a norm that is there already. */
#include "passes/raise/match.h"
#include "passes/raise/raisers.h"

static weft_node *producer(const weft_value *value, weft_op op) {
    return value->node && value->node->op == op ? value->node : NULL;
}

/* value = d * d or d ^ 2 */
static bool is_square(const weft_value *value, const weft_value *d) {
    double exponent;
    weft_node *mul = producer(value, WEFT_OP_mul), *pow = producer(value, WEFT_OP_pow);
    if (mul) return mul->operands[0] == d && mul->operands[1] == d;
    return pow && pow->operands[0] == d && weft_match_number(pow->operands[1], &exponent) && exponent == 2;
}

/* The square whose mean is taken at the end of a trace of mean(square) + epsilon; NULL when it is not that. */
static const weft_node *mean_square(weft_match_trace trace, const weft_value *d, double *out_epsilon) {
    weft_node *add = producer(trace.value, WEFT_OP_add);
    if (!add || !weft_match_number(add->operands[1], out_epsilon) || *out_epsilon < 0) return NULL;
    for (const weft_use *use = d->uses; use; use = use->next) {
        if (use->user->result_count != 1 || !is_square(&use->user->results[0], d)) continue;
        weft_match_trace inner = trace;
        inner.value = add->operands[0];
        const weft_node *mean = weft_match_mean(inner, &use->user->results[0]);
        if (mean) return mean;
    }
    return NULL;
}

/* node = d / sqrt(mean(d * d) + epsilon) in one of its spellings; the reduce node of the mean. */
static const weft_node *normalised(const weft_node *node, weft_value **out_d, double *out_epsilon) {
    for (int i = 0; i < 2; i++) {
        weft_match_trace trace;
        if (node->op == WEFT_OP_div && i == 1) break;
        weft_value *d = node->operands[i];
        weft_match_trace_start(node->operands[1 - i], &trace);
        weft_match_views(&trace);
        weft_node *root = producer(trace.value, node->op == WEFT_OP_div ? WEFT_OP_sqrt : WEFT_OP_rsqrt);
        if (!root && node->op == WEFT_OP_mul) { /* 1 / sqrt */
            double number;
            weft_node *reciprocal = producer(trace.value, WEFT_OP_div);
            if (!reciprocal || !weft_match_number(reciprocal->operands[0], &number) || number != 1) continue;
            trace.value = reciprocal->operands[1];
            weft_match_views(&trace);
            root = producer(trace.value, WEFT_OP_sqrt);
        }
        if (!root) continue;
        trace.value = root->operands[0];
        weft_match_views(&trace);
        const weft_node *mean = mean_square(trace, d, out_epsilon);
        *out_d = d;
        if (mean) return mean;
    }
    return NULL;
}

static bool same_axes(const weft_node *a, const weft_node *b) {
    const weft_attribute *x = weft_node_attribute(a, WEFT_ATTR_axes), *y = weft_node_attribute(b, WEFT_ATTR_axes);
    if (x->count != y->count) return false;
    for (int i = 0; i < x->count; i++)
        if (x->as.ints[i] != y->as.ints[i]) return false;
    return true;
}

weft_value *weft_raise_norm(weft_graph *graph, weft_node *node) {
    weft_value *d, *x;
    double epsilon;
    if (node->op != WEFT_OP_div && node->op != WEFT_OP_mul) return NULL;
    if (!weft_dtype_is_float(node->results[0].type.dtype)) return NULL;
    const weft_node *mean = normalised(node, &d, &epsilon);
    if (!mean) return NULL;
    weft_op op = WEFT_OP_rms_norm;
    x = d;
    weft_node *sub = producer(d, WEFT_OP_sub);
    if (sub) {
        weft_match_trace trace;
        weft_match_trace_start(sub->operands[1], &trace);
        const weft_node *centre = weft_match_mean(trace, sub->operands[0]);
        if (centre && same_axes(centre, mean)) {
            op = WEFT_OP_layer_norm;
            x = sub->operands[0];
        }
    }
    const weft_attribute *axes = weft_node_attribute(mean, WEFT_ATTR_axes);
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_axes, axes->count, axes->as.ints),
                                    weft_attr_float(WEFT_ATTR_epsilon, epsilon)};
    return weft_build(graph, op, 1, &x, 2, attributes);
}

/* The parameter p of a value that repeats it over all but the normalised axes: in their shape; NULL when it is not one.
 */
static weft_value *parameter_over(weft_graph *graph, weft_value *value, const weft_node *norm) {
    const weft_attribute *axes = weft_node_attribute(norm, WEFT_ATTR_axes);
    const weft_type *type = &norm->results[0].type;
    weft_match_trace trace;
    weft_match_trace_start(value, &trace);
    weft_match_views(&trace);
    weft_dim dims[WEFT_MAX_RANK];
    int at = 0;
    for (int i = 0; i < axes->count; i++) dims[i] = type->dims[axes->as.ints[i]];
    for (int i = 0; i < trace.value->type.rank; i++) {
        if (trace.value->type.dims[i] == 1) continue;
        while (at < axes->count && dims[at] == 1) at++;
        if (at == axes->count || trace.map[i] != axes->as.ints[at] || trace.value->type.dims[i] != dims[at])
            return NULL;
        at++;
    }
    while (at < axes->count && dims[at] == 1) at++;
    if (at != axes->count || trace.value == value) return NULL; /* a full-size value is no parameter */
    return weft_emit_reshape(graph, trace.value, axes->count, dims);
}

/* norm(x) * scale, norm(x, scale) + bias: the norm has no other use */
weft_value *weft_raise_norm_parameters(weft_graph *graph, weft_node *node) {
    if (node->op != WEFT_OP_mul && node->op != WEFT_OP_add) return NULL;
    for (int i = 0; i < 2; i++) {
        weft_node *norm = node->operands[i]->node;
        if (!norm || (norm->op != WEFT_OP_layer_norm && norm->op != WEFT_OP_rms_norm)) continue;
        bool scale = node->op == WEFT_OP_mul && norm->operand_count == 1;
        bool bias = node->op == WEFT_OP_add && norm->operand_count == 2 && norm->op == WEFT_OP_layer_norm;
        if ((!scale && !bias) || norm->results[0].uses->next) continue;
        weft_dtype dtype = norm->results[0].type.dtype;
        if (dtype != WEFT_F32 && dtype != WEFT_F64) continue; /* 16 bits round between norm and scale */
        weft_value *operands[3] = {norm->operands[0], norm->operand_count > 1 ? norm->operands[1] : NULL};
        weft_value *parameter = parameter_over(graph, node->operands[1 - i], norm);
        if (!parameter) continue;
        operands[norm->operand_count] = parameter;
        return weft_build(graph, norm->op, norm->operand_count + 1, operands, norm->attribute_count, norm->attributes);
    }
    return NULL;
}
