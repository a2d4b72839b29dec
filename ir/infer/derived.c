/* Result types of derived ops. */
#include "ir/infer/check.h"
#include "ir/ops/attention.h"

static bool float_unary(weft_infer *infer) {
    return weft_infer_dtype(infer, 0, WEFT_ALLOW_FLOAT) && weft_infer_emit_type(infer, weft_infer_operand(infer, 0));
}

static bool along_axis(weft_infer *infer) {
    int axis;
    return weft_infer_axis(infer, WEFT_ATTR_axis, weft_infer_operand(infer, 0)->rank, &axis) && float_unary(infer);
}

bool weft_infer_softmax(weft_infer *infer) { return along_axis(infer); }
bool weft_infer_log_softmax(weft_infer *infer) { return along_axis(infer); }
bool weft_infer_silu(weft_infer *infer) { return float_unary(infer); }
bool weft_infer_softplus(weft_infer *infer) { return float_unary(infer); }
bool weft_infer_gelu(weft_infer *infer) {
    return weft_infer_word(infer, WEFT_ATTR_approximate, "none tanh") && float_unary(infer);
}

/* scale and bias have the shape of the normalised axes and any float dtype. */
static bool norm(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_FLOAT) || !weft_infer_axes(infer, WEFT_ATTR_axes, x->rank, true))
        return false;
    const weft_attribute *axes = weft_infer_attribute(infer, WEFT_ATTR_axes);
    if (axes->count == 0) return weft_infer_fail(infer, "no axes to normalise over");
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < axes->count; i++) dims[i] = x->dims[axes->as.ints[i]];
    weft_type expected = {x->dtype, axes->count, dims};
    for (int i = 1; i < infer->node->operand_count; i++) {
        const weft_type *parameter = weft_infer_operand(infer, i);
        if (!weft_infer_dtype(infer, i, WEFT_ALLOW_FLOAT)) return false;
        if (!weft_infer_shapes_equal(infer, &expected, parameter))
            return weft_infer_fail(infer, "operand %d is %s, the normalised axes are %s", i,
                                   weft_infer_type_text(infer, parameter), weft_infer_type_text(infer, &expected));
    }
    return weft_infer_emit_type(infer, x);
}

bool weft_infer_layer_norm(weft_infer *infer) { return norm(infer); }
bool weft_infer_rms_norm(weft_infer *infer) { return norm(infer); }

/* small is broadcastable to big: axes aligned from the last, extents equal or 1. */
static bool broadcasts(weft_infer *infer, const weft_type *small, int big_rank, const weft_dim *big) {
    if (small->rank > big_rank) return false;
    for (int i = 0; i < small->rank; i++) {
        weft_dim extent = small->dims[small->rank - 1 - i];
        if (extent != 1 && !weft_graph_assume_equal(infer->graph, extent, big[big_rank - 1 - i])) return false;
    }
    return true;
}

static bool attention_mask(weft_infer *infer, int operand, const weft_type *q, weft_dim keys) {
    const weft_type *mask = weft_infer_operand(infer, operand);
    weft_dim scores[4] = {q->dims[0], q->dims[1], q->dims[2], keys};
    weft_type expected = {mask->dtype, 4, scores};
    if (!weft_infer_dtype(infer, operand, WEFT_ALLOW_BOOL | WEFT_ALLOW_FLOAT)) return false;
    if (broadcasts(infer, mask, 4, scores)) return true;
    return weft_infer_fail(infer, "the mask is %s; it must broadcast to %s", weft_infer_type_text(infer, mask),
                           weft_infer_type_text(infer, &expected));
}

/* dropout and its key. */
static bool attention_dropout(weft_infer *infer) {
    double rate = weft_attention_dropout(infer->node);
    int at = weft_attention_key_at(infer->node);
    if (!(rate >= 0 && rate < 1) || weft_dropout_limit(rate) >> WEFT_DROPOUT_BITS)
        return weft_infer_fail(infer, "dropout is %g; it lies in [0, 1)", rate);
    if (at < 0) return true;
    const weft_type *key = at < infer->node->operand_count ? weft_infer_operand(infer, at) : NULL;
    if (key && key->dtype == WEFT_U64 && key->rank == 1 && key->dims[0] == 2) return true;
    return weft_infer_fail(infer, "dropout needs a key of u64[2] as operand %d", at);
}

/* q, k, v, and what lies behind the `required` operands. */
static bool attention_operands(weft_infer *infer, int required) {
    const weft_type *q = weft_infer_operand(infer, 0), *k = weft_infer_operand(infer, 1),
                    *v = weft_infer_operand(infer, 2);
    weft_graph *graph = infer->graph;
    for (int i = 0; i < 3; i++)
        if (!weft_infer_dtype(infer, i, WEFT_ALLOW_FLOAT) || !weft_infer_rank(infer, i, 4, 4)) return false;
    if (k->dtype != q->dtype || v->dtype != q->dtype)
        return weft_infer_fail(infer, "q is %s, k %s, v %s; one dtype is needed", weft_dtype_name(q->dtype),
                               weft_dtype_name(k->dtype), weft_dtype_name(v->dtype));
    bool fits = weft_graph_assume_equal(graph, q->dims[0], k->dims[0]) &&
                weft_graph_assume_equal(graph, k->dims[0], v->dims[0]) &&
                weft_graph_assume_equal(graph, k->dims[1], v->dims[1]) &&
                weft_graph_assume_equal(graph, k->dims[2], v->dims[2]) &&
                weft_graph_assume_equal(graph, q->dims[3], k->dims[3]);
    if (fits && q->dims[1] != k->dims[1]) { /* grouped queries: heads share keys */
        int64_t minimum, maximum;
        weft_dim_bounds(graph->dims, k->dims[1], &minimum, &maximum);
        fits = minimum > 0 && weft_graph_assume_equal(graph, weft_dim_modulo(graph->dims, q->dims[1], k->dims[1]), 0);
    }
    if (!fits)
        return weft_infer_fail(
            infer, "q %s, k %s and v %s do not fit: q [B, H, T, D], k [B, Hkv, S, D], v [B, Hkv, S, E]",
            weft_infer_type_text(infer, q), weft_infer_type_text(infer, k), weft_infer_type_text(infer, v));
    if (!weft_infer_flag(infer, WEFT_ATTR_causal)) return false;
    if (weft_infer_attribute(infer, WEFT_ATTR_soft_cap)->as.number < 0)
        return weft_infer_fail(infer, "soft_cap is negative; 0 means none");
    if (!attention_dropout(infer)) return false;
    int mask = weft_attention_mask_at(infer->node), tangent = weft_attention_mask_tangent_at(infer->node);
    int wanted = required + (mask >= 0) + (tangent >= 0) + (weft_attention_key_at(infer->node) >= 0);
    if (infer->node->operand_count != wanted)
        return weft_infer_fail(infer, "%d operands do not fit its attributes", infer->node->operand_count);
    return mask < 0 || attention_mask(infer, mask, q, k->dims[2]);
}

static weft_dtype attention_lse_dtype(weft_dtype dtype) { return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32; }

bool weft_infer_attention(weft_infer *infer) {
    if (!attention_operands(infer, 3)) return false;
    const weft_type *q = weft_infer_operand(infer, 0);
    weft_dim dims[4] = {q->dims[0], q->dims[1], q->dims[2], weft_infer_operand(infer, 2)->dims[3]};
    if (!weft_infer_emit(infer, q->dtype, 4, dims)) return false;
    if (!weft_node_attribute(infer->node, WEFT_ATTR_lse)) return true;
    if (!weft_infer_flag(infer, WEFT_ATTR_lse)) return false;
    return weft_node_int(infer->node, WEFT_ATTR_lse, 0) == 0 ||
           weft_infer_emit(infer, attention_lse_dtype(q->dtype), 3, dims);
}

/* Operand `operand` has this type, extents under guards. */
static bool attention_operand(weft_infer *infer, int operand, weft_dtype dtype, int rank, const weft_dim *dims) {
    weft_dim copy[4];
    for (int i = 0; i < rank; i++) copy[i] = dims[i];
    weft_type expected = {dtype, rank, copy};
    const weft_type *given = weft_infer_operand(infer, operand);
    if (given->dtype == dtype && weft_infer_shapes_equal(infer, given, &expected)) return true;
    return weft_infer_fail(infer, "operand %d is %s, not %s", operand, weft_infer_type_text(infer, given),
                           weft_infer_type_text(infer, &expected));
}

/* o and lse follow q, k and v. */
static bool attention_residuals(weft_infer *infer) {
    const weft_type *q = weft_infer_operand(infer, 0), *v = weft_infer_operand(infer, 2);
    weft_dim dims[4] = {q->dims[0], q->dims[1], q->dims[2], v->dims[3]};
    return attention_operand(infer, 3, q->dtype, 4, dims) &&
           attention_operand(infer, 4, attention_lse_dtype(q->dtype), 3, dims);
}

bool weft_infer_attention_backward(weft_infer *infer) {
    if (!attention_operands(infer, 6) || !attention_residuals(infer)) return false;
    const weft_type *o = weft_infer_operand(infer, 3);
    if (!attention_operand(infer, 5, o->dtype, 4, o->dims)) return false;
    for (int i = 0; i < 3; i++)
        if (!weft_infer_emit_type(infer, weft_infer_operand(infer, i))) return false;
    if (!weft_node_attribute(infer->node, WEFT_ATTR_scores)) return true;
    if (!weft_infer_flag(infer, WEFT_ATTR_scores)) return false;
    const weft_type *q = weft_infer_operand(infer, 0);
    weft_dim dims[4] = {q->dims[0], q->dims[1], q->dims[2], weft_infer_operand(infer, 1)->dims[2]};
    return weft_node_int(infer->node, WEFT_ATTR_scores, 0) == 0 ||
           weft_infer_emit(infer, attention_lse_dtype(q->dtype), 4, dims);
}

bool weft_infer_attention_tangent(weft_infer *infer) {
    if (!attention_operands(infer, 8) || !attention_residuals(infer)) return false;
    for (int i = 0; i < 3; i++) {
        const weft_type *x = weft_infer_operand(infer, i);
        if (!attention_operand(infer, 5 + i, x->dtype, 4, x->dims)) return false;
    }
    int mask = weft_attention_mask_at(infer->node), tangent = weft_attention_mask_tangent_at(infer->node);
    if (tangent >= 0) {
        const weft_type *m = mask < 0 ? NULL : weft_infer_operand(infer, mask);
        if (!m || m->dtype == WEFT_BOOL) return weft_infer_fail(infer, "there is no additive mask for its tangent");
        if (!attention_operand(infer, tangent, m->dtype, m->rank, m->dims)) return false;
    }
    return weft_infer_emit_type(infer, weft_infer_operand(infer, 3));
}

bool weft_infer_rope(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    weft_dim_table *table = infer->graph->dims;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_FLOAT) || !weft_infer_rank(infer, 0, 2, WEFT_MAX_RANK) ||
        !weft_infer_flag(infer, WEFT_ATTR_interleaved))
        return false;
    weft_dim width = x->dims[x->rank - 1];
    if (!weft_graph_assume_equal(infer->graph, weft_dim_modulo(table, width, 2), 0))
        return weft_infer_fail(infer, "the last axis of %s is odd", weft_infer_type_text(infer, x));
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    dims[x->rank - 1] = weft_dim_divide_floor(table, width, 2);
    weft_type expected = {x->dtype, x->rank, dims};
    for (int i = 1; i < 3; i++) {
        const weft_type *angle = weft_infer_operand(infer, i);
        bool last =
            angle->rank >= 2 && weft_graph_assume_equal(infer->graph, angle->dims[angle->rank - 1], dims[x->rank - 1]);
        if (!weft_infer_dtype(infer, i, WEFT_ALLOW_FLOAT)) return false;
        if (!last || !broadcasts(infer, angle, x->rank, dims))
            return weft_infer_fail(infer, "operand %d is %s; it must broadcast to %s over the leading axes", i,
                                   weft_infer_type_text(infer, angle), weft_infer_type_text(infer, &expected));
    }
    return weft_infer_same_shape(infer, 1, 2) && weft_infer_emit_type(infer, x);
}

bool weft_infer_cross_entropy(weft_infer *infer) {
    const weft_type *logits = weft_infer_operand(infer, 0), *labels = weft_infer_operand(infer, 1);
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_FLOAT) || !weft_infer_rank(infer, 0, 2, 2)) return false;
    if (labels->dtype != WEFT_I64 || labels->rank != 1 ||
        !weft_graph_assume_equal(infer->graph, labels->dims[0], logits->dims[0]))
        return weft_infer_fail(infer, "logits %s need i64 labels [N], given %s", weft_infer_type_text(infer, logits),
                               weft_infer_type_text(infer, labels));
    return weft_infer_emit(infer, logits->dtype, 1, logits->dims);
}
