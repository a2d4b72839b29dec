/* Backward and tangent of attention, after FlashAttention-2 (Dao 2023, algorithm 2): weights are rebuilt from the
   log-sum-exp L, P = exp(S - L), instead of being kept.
     backward: dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = c dS K, dK = c dS^T Q
     tangent:  s = c (q K^T + Q k^T) + m, o = (P s) V - rowsum(P s) O + P v
   c scale of scores, m tangent of the mask; with a soft cap dS and s without m are multiplied by its slope; with
   dropout V and dO meet the weights that are left: in dV, in P v, in (P s) V and in dP. Letters as in attention.c. */
#include "ir/ops/attention.h"

#include <math.h>

#include "base/tensor.h"

static weft_value *multiply(weft_graph *graph, weft_value *x, weft_value *y) {
    return weft_emit_binary(graph, WEFT_OP_mul, x, y);
}

/* P; a hidden key has weight 0, also in a row without any. */
static weft_value *weights(weft_graph *graph, const weft_attention_scores *scores, weft_value *lse) {
    int64_t axis = 3;
    weft_value *s = scores->value;
    if (scores->masked) {
        weft_value *empty = weft_emit_compare(graph, "eq", lse, weft_emit_splat_like(graph, -INFINITY, lse));
        lse = weft_emit_select(graph, empty, weft_emit_splat_like(graph, 0, lse), lse);
    }
    lse = weft_emit_spread(graph, lse, s, 1, &axis);
    return weft_emit_unary(graph, WEFT_OP_exp, weft_emit_binary(graph, WEFT_OP_sub, s, lse));
}

/* Sum over queries and the heads of a group: p [B, H, T, S], x [B, H, T, X] -> [B, Hkv, S, X]. */
static weft_value *collect(weft_graph *graph, weft_value *p, weft_value *x, weft_dim key_heads) {
    const weft_dim *pd = p->type.dims, *xd = x->type.dims;
    weft_dim group = weft_dim_divide_floor(graph->dims, pd[1], key_heads);
    weft_dim p_split[5] = {pd[0], key_heads, group, pd[2], pd[3]}, x_split[5] = {xd[0], key_heads, group, xd[2], xd[3]};
    int64_t batch[2] = {0, 1}, contract[2] = {2, 3};
    bool grouped = pd[1] != key_heads;
    if (grouped) {
        p = weft_emit_reshape(graph, p, 5, p_split);
        x = weft_emit_reshape(graph, x, 5, x_split);
    }
    weft_dot_axes axes = {2, grouped ? 2 : 1, batch, batch, contract, contract};
    return weft_emit_dot(graph, p, x, &axes, p->type.dtype, p->type.dtype);
}

void weft_decompose_attention_backward(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                                       weft_value **out_results) {
    weft_dtype dtype = operands[0]->type.dtype;
    int64_t axis = 3;
    weft_value *x[6];
    for (int i = 0; i < 6; i++) x[i] = weft_compute_value(graph, operands[i]);
    weft_value *q = x[0], *k = x[1], *v = x[2], *o = x[3], *g = x[5];
    int at = weft_attention_mask_at(node);
    weft_value *mask = at < 0 ? NULL : operands[at];
    weft_attention_scores scores = weft_attention_score(graph, node, operands[0], operands[1], mask);
    if (weft_value_is_poison(scores.value)) return;
    weft_value *p = weights(graph, &scores, x[4]);
    weft_value *delta = weft_emit_reduce(graph, multiply(graph, g, o), "sum", 1, &axis);
    weft_value *dp = weft_attention_drop(graph, node, operands, weft_attention_dots(graph, g, v));
    if (weft_value_is_poison(dp)) return;
    weft_value *ds =
        multiply(graph, p, weft_emit_binary(graph, WEFT_OP_sub, dp, weft_emit_spread(graph, delta, dp, 1, &axis)));
    if (node->result_count == 4) out_results[3] = ds;
    if (scores.slope) ds = multiply(graph, ds, scores.slope);
    ds = weft_attention_scale(graph, node, ds, q->type.dims[3]);
    if (weft_value_is_poison(ds)) return;
    out_results[0] = weft_emit_convert(graph, weft_attention_sums(graph, ds, k), dtype);
    out_results[1] = weft_emit_convert(graph, collect(graph, ds, q, k->type.dims[1]), dtype);
    p = weft_attention_drop(graph, node, operands, p);
    if (weft_value_is_poison(p)) return;
    out_results[2] = weft_emit_convert(graph, collect(graph, p, g, v->type.dims[1]), dtype);
}

/* A constant zero of any shape: a tangent that is not there. */
static bool is_zero(const weft_value *x) {
    const weft_node *node = x->node;
    if (node && node->op == WEFT_OP_broadcast) node = node->operands[0]->node;
    if (!node || node->op != WEFT_OP_constant) return false;
    const weft_tensor *tensor = weft_node_attribute(node, WEFT_ATTR_value)->as.tensor;
    return weft_tensor_element_count(tensor) == 1 && weft_element_double(tensor->dtype, tensor->data, 0) == 0;
}

static weft_value *sum(weft_graph *graph, weft_value *x, weft_value *y) {
    return x && y ? weft_emit_binary(graph, WEFT_OP_add, x, y) : x ? x : y;
}

void weft_decompose_attention_tangent(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                                      weft_value **out_results) {
    int64_t axis = 3;
    weft_value *x[8];
    for (int i = 0; i < 8; i++) x[i] = weft_compute_value(graph, operands[i]);
    weft_value *q = x[0], *k = x[1], *v = x[2], *s = NULL, *out = NULL;
    int at = weft_attention_mask_at(node), mask_tangent = weft_attention_mask_tangent_at(node);
    weft_value *mask = at < 0 ? NULL : operands[at];
    weft_attention_scores scores = weft_attention_score(graph, node, operands[0], operands[1], mask);
    if (weft_value_is_poison(scores.value)) return;
    weft_value *p = weights(graph, &scores, x[4]);
    if (!is_zero(operands[5])) s = weft_attention_dots(graph, x[5], k);
    if (!is_zero(operands[6])) s = sum(graph, s, weft_attention_dots(graph, q, x[6]));
    if (s) {
        s = weft_attention_scale(graph, node, s, q->type.dims[3]);
        if (scores.slope) s = multiply(graph, s, scores.slope);
    }
    if (mask_tangent >= 0 && !is_zero(operands[mask_tangent]))
        s = sum(graph, s,
                weft_emit_broadcast_to(graph, weft_emit_convert(graph, operands[mask_tangent], p->type.dtype), 4,
                                       p->type.dims));
    if (s) {
        s = multiply(graph, p, s);
        weft_value *mean = weft_emit_spread(graph, weft_emit_reduce(graph, s, "sum", 1, &axis), x[3], 1, &axis);
        if (weft_value_is_poison(s)) return;
        s = weft_attention_drop(graph, node, operands, s);
        if (weft_value_is_poison(s)) return;
        out = weft_emit_binary(graph, WEFT_OP_sub, weft_attention_sums(graph, s, v), multiply(graph, mean, x[3]));
    }
    p = weft_attention_drop(graph, node, operands, p);
    if (weft_value_is_poison(p)) return;
    if (!is_zero(operands[7])) out = sum(graph, out, weft_attention_sums(graph, p, x[7]));
    if (!out) out = weft_emit_splat_like(graph, 0, x[3]);
    out_results[0] = weft_emit_convert(graph, out, operands[3]->type.dtype);
}
