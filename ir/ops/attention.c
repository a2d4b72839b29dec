/* Scaled dot-product attention (Vaswani et al. 2017), with grouped queries (Ainslie et al. 2023), an additive or bool
   mask, causal and sliding windows, a soft cap on scores, and dropout of weights (attention_dropout.c).
   B batch, H query heads, Hkv key heads, G = H / Hkv, T queries, S keys, D and E widths.
   Query i stands at key position i + S - T. A query that sees no key gives 0, and its log-sum-exp is -inf.
   Read next: attention_gradient.c. */
#include "ir/ops/attention.h"

#include <math.h>

/* Head h reads key head h / G. */
weft_value *weft_attention_dots(weft_graph *graph, weft_value *q, weft_value *k) {
    weft_dtype compute = weft_compute_dtype(q->type.dtype);
    const weft_dim *qd = q->type.dims, *kd = k->type.dims;
    int64_t batch[2] = {0, 1}, q_contract[1], k_contract[1] = {3};
    weft_dim out[4] = {qd[0], qd[1], qd[2], kd[2]};
    weft_dim group = weft_dim_divide_floor(graph->dims, qd[1], kd[1]);
    bool grouped = qd[1] != kd[1];
    weft_dim split[5] = {qd[0], kd[1], group, qd[2], qd[3]};
    if (grouped) q = weft_emit_reshape(graph, q, 5, split);
    q_contract[0] = grouped ? 4 : 3;
    weft_dot_axes axes = {2, 1, batch, batch, q_contract, k_contract};
    weft_value *s = weft_emit_dot(graph, q, k, &axes, compute, compute);
    return weft_emit_reshape(graph, s, 4, out);
}

weft_value *weft_attention_scale(weft_graph *graph, const weft_node *node, weft_value *s, weft_dim width) {
    double scale = weft_node_float(node, WEFT_ATTR_scale, 0);
    if (scale == 0 && weft_dim_is_number(width)) scale = 1 / sqrt((double)width);
    if (scale != 0) return weft_emit_binary_scalar(graph, WEFT_OP_mul, s, scale);
    weft_value *root = weft_emit_unary(graph, WEFT_OP_rsqrt, weft_emit_extent(graph, width, s->type.dtype));
    return weft_emit_binary(graph, WEFT_OP_mul, s, weft_emit_broadcast_to(graph, root, s->type.rank, s->type.dims));
}

/* Keeps scores where distance (key position minus query position) compares as wanted, -inf elsewhere. */
static weft_value *keep(weft_graph *graph, weft_value *s, weft_value *distance, const char *direction, double limit) {
    weft_value *visible = weft_emit_compare(graph, direction, distance, weft_emit_splat_like(graph, limit, distance));
    if (weft_value_is_poison(s)) return s;
    weft_value *all = weft_emit_broadcast_to(graph, visible, 4, s->type.dims);
    return weft_emit_select(graph, all, s, weft_emit_splat_like(graph, -INFINITY, s));
}

/* j - (i + S - T) as i64 [T, S]. */
static weft_value *distances(weft_graph *graph, weft_dim queries, weft_dim keys) {
    weft_dim dims[2] = {queries, keys};
    weft_value *i = weft_emit_iota(graph, WEFT_I64, 2, dims, 0), *j = weft_emit_iota(graph, WEFT_I64, 2, dims, 1);
    weft_value *d = weft_emit_binary(graph, WEFT_OP_sub, j, i);
    weft_dim offset = weft_dim_subtract(graph->dims, keys, queries);
    if (offset == 0) return d;
    weft_value *shift = weft_emit_binary(graph, WEFT_OP_sub, weft_emit_extent(graph, keys, WEFT_I64),
                                         weft_emit_extent(graph, queries, WEFT_I64));
    return weft_emit_binary(graph, WEFT_OP_sub, d, weft_emit_broadcast_to(graph, shift, 2, dims));
}

static weft_value *masked(weft_graph *graph, const weft_node *node, weft_value *s, weft_value *mask) {
    weft_dim queries = s->type.dims[2], keys = s->type.dims[3];
    if (mask) {
        bool additive = mask->type.dtype != WEFT_BOOL;
        if (additive) mask = weft_emit_convert(graph, mask, s->type.dtype);
        weft_dim shape[4] = {s->type.dims[0], s->type.dims[1], queries, keys};
        mask = weft_emit_broadcast_to(graph, mask, 4, shape);
        s = additive ? weft_emit_binary(graph, WEFT_OP_add, s, mask)
                     : weft_emit_select(graph, mask, s, weft_emit_splat_like(graph, -INFINITY, s));
    }
    bool causal = weft_node_int(node, WEFT_ATTR_causal, 0) != 0;
    int64_t left = weft_node_int(node, WEFT_ATTR_window_left, -1),
            right = weft_node_int(node, WEFT_ATTR_window_right, -1);
    if (causal) right = 0;
    if (left < 0 && right < 0) return s;
    weft_value *distance = distances(graph, queries, keys);
    if (right >= 0) s = keep(graph, s, distance, "le", (double)right);
    if (left >= 0) s = keep(graph, s, distance, "ge", (double)-left);
    return s;
}

weft_value *weft_attention_sums(weft_graph *graph, weft_value *p, weft_value *v) {
    const weft_dim *pd = p->type.dims, *vd = v->type.dims;
    int64_t batch[2] = {0, 1}, p_contract[1], v_contract[1] = {2};
    weft_dim out[4] = {pd[0], pd[1], pd[2], vd[3]};
    weft_dim split[5] = {pd[0], vd[1], weft_dim_divide_floor(graph->dims, pd[1], vd[1]), pd[2], pd[3]};
    bool grouped = pd[1] != vd[1];
    if (grouped) p = weft_emit_reshape(graph, p, 5, split);
    p_contract[0] = grouped ? 4 : 3;
    weft_dot_axes axes = {2, 1, batch, batch, p_contract, v_contract};
    return weft_emit_reshape(graph, weft_emit_dot(graph, p, v, &axes, p->type.dtype, p->type.dtype), 4, out);
}

weft_attention_scores weft_attention_score(weft_graph *graph, const weft_node *node, weft_value *q, weft_value *k,
                                           weft_value *mask) {
    weft_attention_scores scores = {.value = weft_attention_dots(graph, q, k)};
    double cap = weft_node_float(node, WEFT_ATTR_soft_cap, 0);
    if (weft_value_is_poison(scores.value)) return scores;
    weft_value *s = weft_attention_scale(graph, node, scores.value, q->type.dims[3]);
    if (cap > 0) {
        weft_value *t = weft_emit_unary(graph, WEFT_OP_tanh, weft_emit_binary_scalar(graph, WEFT_OP_div, s, cap));
        weft_value *square = weft_emit_binary(graph, WEFT_OP_mul, t, t);
        s = weft_emit_binary_scalar(graph, WEFT_OP_mul, t, cap);
        scores.slope = weft_emit_binary(graph, WEFT_OP_sub, weft_emit_splat_like(graph, 1, square), square);
    }
    scores.value = s;
    if (weft_value_is_poison(s)) return scores;
    scores.value = masked(graph, node, s, mask);
    scores.masked = scores.value != s;
    return scores;
}

void weft_decompose_attention(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                              weft_value **out_results) {
    weft_dtype dtype = operands[0]->type.dtype, compute = weft_compute_dtype(dtype);
    int64_t axis = 3;
    int mask = weft_attention_mask_at(node);
    weft_attention_scores scores =
        weft_attention_score(graph, node, operands[0], operands[1], mask < 0 ? NULL : operands[mask]);
    weft_value *s = scores.value;
    if (weft_value_is_poison(s)) return;
    weft_softmax_parts parts = weft_softmax_build(graph, s, axis, scores.masked);
    weft_value *sum = parts.sum, *empty = NULL;
    if (scores.masked) {
        empty = weft_emit_compare(graph, "eq", sum, weft_emit_splat_like(graph, 0, sum));
        sum = weft_emit_select(graph, empty, weft_emit_splat_like(graph, 1, sum), sum);
    }
    weft_value *p = weft_emit_binary(graph, WEFT_OP_div, parts.exponent, weft_emit_spread(graph, sum, s, 1, &axis));
    p = weft_attention_drop(graph, node, operands, p);
    if (weft_value_is_poison(p)) return;
    weft_value *y = weft_attention_sums(graph, p, weft_emit_convert(graph, operands[2], compute));
    out_results[0] = weft_emit_convert(graph, y, dtype);
    if (node->result_count < 2) return;
    weft_value *lse = weft_emit_binary(graph, WEFT_OP_add, weft_emit_unary(graph, WEFT_OP_log, sum), parts.maximum);
    out_results[1] = empty ? weft_emit_select(graph, empty, weft_emit_splat_like(graph, -INFINITY, lse), lse) : lse;
}
