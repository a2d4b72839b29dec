/* ONNX attention operators. Letters: B batch, H heads, T queries, S keys, D head size. Plain forms become the derived
   op attention; forms that ask for intermediate products are written out. Read next: resize.c. Source: Vaswani et al.
   2017; Su et al. 2021 (rotary embedding); Yang et al. 2024 (gated delta rule). */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

/* [B, T, H * D] -> [B, H, T, D]. */
static weft_value *split_heads(weft_graph *g, weft_value *x, int64_t heads) {
    if (weft_value_is_poison(x) || heads < 1) return weft_value_poison(g);
    weft_dim shape[4] = {x->type.dims[0], x->type.dims[1], heads,
                         weft_dim_divide_floor(g->dims, x->type.dims[2], heads)};
    static const int64_t order[4] = {0, 2, 1, 3};
    return weft_transpose(g, weft_reshape(g, x, 4, shape), order);
}

static weft_value *merge_heads(weft_graph *g, weft_value *x) {
    if (weft_value_is_poison(x)) return x;
    static const int64_t order[4] = {0, 2, 1, 3};
    weft_dim shape[3] = {x->type.dims[0], x->type.dims[2],
                         weft_dim_multiply(g->dims, x->type.dims[1], x->type.dims[3])};
    return weft_reshape(g, weft_transpose(g, x, order), 3, shape);
}

/* Each head of [B, Hkv, S, D] group times: [B, Hkv * group, S, D]. */
static weft_value *repeat_heads(weft_graph *g, weft_value *x, weft_dim heads) {
    if (weft_value_is_poison(x) || x->type.dims[1] == heads) return x;
    weft_dim group = weft_dim_divide_floor(g->dims, heads, x->type.dims[1]);
    weft_dim pair[5] = {x->type.dims[0], x->type.dims[1], group, x->type.dims[2], x->type.dims[3]};
    weft_dim merged[4] = {x->type.dims[0], heads, x->type.dims[2], x->type.dims[3]};
    int64_t at = 2;
    return weft_reshape(g, weft_broadcast_to(g, weft_unsqueeze(g, x, 1, &at), 5, pair), 4, merged);
}

typedef struct attention {
    weft_value *q, *k, *v, *mask;
    weft_dim past; /* keys before this call */
    bool heads_last;
    double scale; /* of the product */
} attention;

static bool read_attention(weft_onnx_node *node, attention *a) {
    weft_graph *g = node->graph;
    a->q = weft_onnx_input(node, 0), a->k = weft_onnx_input(node, 1), a->v = weft_onnx_input(node, 2);
    if (weft_value_is_poison(a->q) || weft_value_is_poison(a->k) || weft_value_is_poison(a->v)) return false;
    a->heads_last = a->q->type.rank == 3;
    if (a->heads_last) {
        int64_t heads = weft_onnx_int(node, "q_num_heads", 0), kv_heads = weft_onnx_int(node, "kv_num_heads", 0);
        if (heads < 1 || kv_heads < 1) weft_onnx_problem(node, "inputs of rank 3 need q_num_heads and kv_num_heads");
        a->q = split_heads(g, a->q, heads), a->k = split_heads(g, a->k, kv_heads),
        a->v = split_heads(g, a->v, kv_heads);
    }
    if (weft_value_is_poison(a->q) || weft_value_is_poison(a->k) || weft_value_is_poison(a->v)) return false;
    if (a->q->type.rank != 4 || a->k->type.rank != 4 || a->v->type.rank != 4) {
        weft_onnx_problem(node, "ranks must be 3 or 4");
        return false;
    }
    weft_value *past_key = weft_onnx_optional(node, 4), *past_value = weft_onnx_optional(node, 5);
    a->past = 0;
    if (past_key && past_value) {
        weft_value *keys[2] = {past_key, a->k}, *values[2] = {past_value, a->v};
        if (!weft_value_is_poison(past_key) && past_key->type.rank == 4) a->past = past_key->type.dims[2];
        a->k = weft_concat(g, 2, 2, keys), a->v = weft_concat(g, 2, 2, values);
    }
    weft_onnx_output(node, 1, a->k);
    weft_onnx_output(node, 2, a->v);
    int64_t head_size;
    double given = weft_onnx_float(node, "scale", 0);
    bool known = weft_onnx_dim_number(g, a->q->type.dims[3], &head_size) && head_size > 0;
    if (!known && !weft_onnx_attribute(node, "scale")) weft_onnx_problem(node, "the head size must be known");
    a->scale = weft_onnx_attribute(node, "scale") ? given : known ? 1 / sqrt((double)head_size) : 1;
    return !weft_value_is_poison(a->k) && !weft_value_is_poison(a->v);
}

static weft_value *minus_infinity_where(weft_graph *g, weft_value *hidden, weft_dtype dtype) {
    return weft_where(g, hidden, weft_scalar(g, dtype, -INFINITY), weft_scalar(g, dtype, 0));
}

/* Additive mask of everything that hides keys, in dtype; NULL = none. A mask narrower than the keys hides the rest. */
static weft_value *full_mask(weft_onnx_node *node, const attention *a, weft_dtype dtype) {
    weft_graph *g = node->graph;
    weft_value *mask = weft_onnx_optional(node, 3), *lengths = weft_onnx_optional(node, 6);
    weft_dim s = a->k->type.dims[2], t = a->q->type.dims[2];
    if (mask && weft_value_is_poison(mask)) return mask;
    if (mask) {
        weft_value *fill = mask->type.dtype == WEFT_BOOL ? weft_scalar_integer(g, WEFT_BOOL, 0)
                                                         : weft_scalar(g, mask->type.dtype, -INFINITY);
        weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0}, have = mask->type.dims[mask->type.rank - 1];
        high[mask->type.rank - 1] = weft_dim_subtract(g->dims, s, have);
        if (have != 1 && !weft_dim_known_equal(g->dims, have, s)) mask = weft_pad(g, mask, fill, low, high, NULL);
        mask = mask->type.dtype == WEFT_BOOL ? minus_infinity_where(g, weft_not(g, mask), dtype)
                                             : weft_convert(g, mask, dtype);
    }
    if (weft_onnx_int(node, "is_causal", 0)) {
        weft_dim shape[2] = {t, s};
        weft_value *row = weft_add(g, weft_iota(g, WEFT_I64, 2, shape, 0), weft_extent(g, a->past));
        weft_value *causal =
            minus_infinity_where(g, weft_compare(g, WEFT_GT, weft_iota(g, WEFT_I64, 2, shape, 1), row), dtype);
        mask = mask ? weft_add(g, mask, causal) : causal;
    }
    if (lengths) {
        weft_dim shape[4] = {a->q->type.dims[0], 1, 1, s};
        int64_t axes[3] = {1, 2, 3};
        weft_value *key = weft_iota(g, WEFT_I64, 4, shape, 3),
                   *limit = weft_unsqueeze(g, weft_convert(g, lengths, WEFT_I64), 3, axes);
        weft_value *hidden = minus_infinity_where(g, weft_compare(g, WEFT_GE, key, limit), dtype);
        mask = mask ? weft_add(g, mask, hidden) : hidden;
    }
    return mask;
}

/* Scores, mask, softmax and product with every intermediate at hand. mode: which one is wanted. */
static weft_value *written_out(weft_onnx_node *node, const attention *a, weft_value *mask, weft_dtype precision,
                               int64_t mode, weft_value **out_scores) {
    weft_graph *g = node->graph;
    static const int64_t swap[4] = {0, 1, 3, 2};
    weft_dim heads = a->q->type.dims[1];
    weft_dtype wide = weft_onnx_wide(a->q->type.dtype);
    weft_value *k = weft_convert(g, repeat_heads(g, a->k, heads), wide),
               *v = weft_convert(g, repeat_heads(g, a->v, heads), wide);
    weft_value *scores =
        weft_matmul(g, weft_mul_number(g, weft_convert(g, a->q, wide), a->scale), weft_transpose(g, k, swap));
    double cap = weft_onnx_float(node, "softcap", 0);
    weft_value *wanted = scores;
    if (cap > 0) scores = weft_mul_number(g, weft_tanh(g, weft_mul_number(g, scores, 1 / cap)), cap);
    if (mode == 1) wanted = scores;
    if (mask) scores = weft_add(g, scores, mask);
    if (mode == 2) wanted = scores;
    if (weft_dtype_bits(precision) > weft_dtype_bits(wide)) scores = weft_convert(g, scores, precision);
    weft_value *weights = weft_softmax(g, scores, 3);
    if (mode == 3) wanted = weights;
    *out_scores = weft_value_is_poison(wanted) ? wanted : weft_convert(g, wanted, a->q->type.dtype);
    return weft_convert(g, weft_matmul(g, weft_convert(g, weights, wide), v), a->q->type.dtype);
}

void weft_onnx_import_attention(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    attention a = {.q = NULL};
    if (!read_attention(node, &a)) return;
    weft_dtype dtype = a.q->type.dtype, wide = weft_onnx_wide(dtype), precision = wide;
    if (weft_onnx_int(node, "softmax_precision", 0))
        precision = weft_onnx_dtype_attribute(node, "softmax_precision", wide);
    bool whole = !weft_onnx_wants(node, 3) && weft_dtype_bits(precision) <= weft_dtype_bits(wide);
    weft_value *mask = full_mask(node, &a, whole ? dtype : wide), *y, *scores = NULL;
    if (mask && weft_value_is_poison(mask)) return;
    if (whole) {
        /* the op lets the last query see the last key: so does a causal mask when the new keys are as many as queries
         */
        weft_dim fresh = weft_dim_subtract(g->dims, a.k->type.dims[2], a.past);
        bool plain_causal = weft_onnx_int(node, "is_causal", 0) && !weft_onnx_has(node, 3) && !weft_onnx_has(node, 6) &&
                            weft_dim_known_equal(g->dims, a.q->type.dims[2], fresh);
        weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
        options.scale = a.scale, options.soft_cap = weft_onnx_float(node, "softcap", 0), options.causal = plain_causal;
        y = weft_attention(g, a.q, a.k, a.v, plain_causal ? NULL : mask, &options);
    } else
        y = written_out(node, &a, mask, precision, weft_onnx_int(node, "qk_matmul_output_mode", 0), &scores);
    if (scores) weft_onnx_output(node, 3, scores);
    weft_onnx_output(node, 0, a.heads_last ? merge_heads(g, y) : y);
}

/* Scores and probabilities pass through subgraphs of the model. */
static weft_value *modified(weft_onnx_node *node, const char *name, weft_value *x) {
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, name);
    if (!attribute || !attribute->g || attribute->g->n_output < 1 || weft_value_is_poison(x)) return x;
    weft_onnx_value *argument = weft_onnx_value_tensor(node->import, x);
    weft_onnx_value **made = weft_onnx_allocate(node->import, attribute->g->n_output, sizeof *made);
    if (!argument || !made) return weft_value_poison(node->graph);
    weft_onnx_import_subgraph(node->import, attribute->g, 1, &argument, made);
    return made[0] && made[0]->kind == WEFT_ONNX_TENSOR ? made[0]->value : weft_value_poison(node->graph);
}

void weft_onnx_import_flex_attention(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *q = weft_onnx_input(node, 0), *k = weft_onnx_input(node, 1), *v = weft_onnx_input(node, 2);
    if (weft_value_is_poison(q) || weft_value_is_poison(k) || weft_value_is_poison(v)) return;
    int64_t head_size;
    if (q->type.rank != 4 || k->type.rank != 4 || v->type.rank != 4 ||
        !weft_onnx_dim_number(g, q->type.dims[3], &head_size) || head_size < 1) {
        weft_onnx_problem(node, "wants rank 4 and a known head size");
        return;
    }
    static const int64_t swap[4] = {0, 1, 3, 2};
    weft_dtype dtype = q->type.dtype, precision = weft_onnx_wide(dtype);
    if (weft_onnx_int(node, "softmax_precision", 0))
        precision = weft_onnx_dtype_attribute(node, "softmax_precision", precision);
    if (precision == WEFT_INVALID) return;
    weft_dtype wide = weft_onnx_wide(dtype);
    double scale = weft_onnx_attribute(node, "scale") ? weft_onnx_float(node, "scale", 1) : 1 / sqrt((double)head_size);
    k = weft_convert(g, repeat_heads(g, k, q->type.dims[1]), wide),
    v = weft_convert(g, repeat_heads(g, v, q->type.dims[1]), wide);
    weft_value *scores =
        weft_mul_number(g, weft_matmul(g, weft_convert(g, q, wide), weft_transpose(g, k, swap)), scale);
    scores = modified(node, "score_mod", weft_convert(g, scores, precision));
    weft_value *weights = modified(node, "prob_mod", weft_softmax(g, scores, 3));
    if (weft_value_is_poison(weights)) return;
    weft_onnx_output(node, 0, weft_convert(g, weft_matmul(g, weft_convert(g, weights, wide), v), dtype));
}

/* -- rotary embedding */

void weft_onnx_import_rotary_embedding(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *cosine = weft_onnx_input(node, 1), *sine = weft_onnx_input(node, 2),
               *positions = weft_onnx_optional(node, 3);
    if (weft_value_is_poison(x) || weft_value_is_poison(cosine) || weft_value_is_poison(sine)) return;
    bool heads_last = x->type.rank == 3, interleaved = weft_onnx_int(node, "interleaved", 0) != 0;
    weft_value *y = heads_last ? split_heads(g, x, weft_onnx_int(node, "num_heads", 0)) : x; /* [B, H, T, D] */
    int64_t size, rotary = weft_onnx_int(node, "rotary_embedding_dim", 0), one = 1;
    if (weft_value_is_poison(y) || y->type.rank != 4 || !weft_onnx_dim_number(g, y->type.dims[3], &size)) {
        weft_onnx_problem(node, "wants rank 4, or rank 3 with num_heads, and a known head size");
        return;
    }
    if (rotary <= 0 || rotary > size) rotary = size;
    if (positions) {
        positions = weft_convert(g, positions, WEFT_I64);
        cosine = weft_take(g, cosine, positions, 0), sine = weft_take(g, sine, positions, 0); /* [B, T, D / 2] */
    }
    cosine = weft_slice_axis(g, cosine, -1, 0, rotary / 2), sine = weft_slice_axis(g, sine, -1, 0, rotary / 2);
    cosine = weft_onnx_widen(g, weft_unsqueeze(g, cosine, 1, &one)),
    sine = weft_onnx_widen(g, weft_unsqueeze(g, sine, 1, &one));
    weft_value *turned = weft_onnx_widen(g, weft_slice_axis(g, y, 3, 0, rotary)),
               *rest = weft_slice_axis(g, y, 3, rotary, size);
    weft_value *a, *b;
    weft_dim pairs[5] = {y->type.dims[0], y->type.dims[1], y->type.dims[2], rotary / 2, 2},
             flat[4] = {pairs[0], pairs[1], pairs[2], rotary};
    int64_t last = 4;
    if (interleaved) {
        weft_value *split = weft_reshape(g, turned, 5, pairs);
        a = weft_squeeze(g, weft_slice_axis(g, split, 4, 0, 1), 1, &last),
        b = weft_squeeze(g, weft_slice_axis(g, split, 4, 1, 2), 1, &last);
    } else
        a = weft_slice_axis(g, turned, 3, 0, rotary / 2), b = weft_slice_axis(g, turned, 3, rotary / 2, rotary);
    weft_value *parts[2] = {weft_sub(g, weft_mul(g, a, cosine), weft_mul(g, b, sine)),
                            weft_add(g, weft_mul(g, b, cosine), weft_mul(g, a, sine))};
    weft_value *joined =
        interleaved ? weft_reshape(g, weft_stack(g, 4, 2, parts), 4, flat) : weft_concat(g, 3, 2, parts);
    if (weft_value_is_poison(joined)) return;
    weft_value *whole[2] = {weft_convert(g, joined, x->type.dtype), rest};
    y = rotary < size ? weft_concat(g, 3, 2, whole) : whole[0];
    weft_onnx_output(node, 0, heads_last ? merge_heads(g, y) : y);
}

/* -- linear attention: a recurrence over T with the state S [B, Hkv, Dk, Dv] in f32 */

typedef struct linear {
    bool gated, delta;
    double scale;
    weft_dim heads, kv_heads;
} linear;

/* a [..., K] . b [..., K, M] -> [..., M] for rank 3 and 4. */
static weft_value *vector_times(weft_graph *g, weft_value *vector, weft_value *matrix) {
    int64_t row = 2;
    return weft_squeeze(g, weft_matmul(g, weft_unsqueeze(g, vector, 1, &row), matrix), 1, &row);
}

/* arguments: S, q [B, H, Dk], k, v, then decay and beta where used. */
static void linear_step(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const linear *l = self;
    weft_value *state = arguments[0], *q = arguments[1], *k = arguments[2], *v = arguments[3];
    int64_t column = 3, row = 2;
    int next = 4;
    if (l->gated) state = weft_mul(g, state, weft_unsqueeze(g, weft_exp(g, arguments[next++]), 1, &column));
    if (l->delta) v = weft_mul(g, arguments[next++], weft_sub(g, v, vector_times(g, k, state)));
    state = weft_add(g, state, weft_mul(g, weft_unsqueeze(g, k, 1, &column), weft_unsqueeze(g, v, 1, &row)));
    results[0] = state;
    results[1] = weft_mul_number(g, vector_times(g, q, repeat_heads(g, state, l->heads)), l->scale);
}

/* [B, T, H * D] -> [T, B, H, D] in f32: what scan walks over. */
static weft_value *time_first(weft_graph *g, weft_value *x, int64_t heads) {
    static const int64_t order[4] = {2, 0, 1, 3};
    weft_value *split = split_heads(g, x, heads);
    return weft_value_is_poison(split) ? split : weft_convert(g, weft_transpose(g, split, order), WEFT_F32);
}

void weft_onnx_import_linear_attention(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *q = weft_onnx_input(node, 0), *k = weft_onnx_input(node, 1), *v = weft_onnx_input(node, 2),
               *past = weft_onnx_optional(node, 3), *decay = weft_onnx_optional(node, 4),
               *beta = weft_onnx_optional(node, 5);
    if (weft_value_is_poison(q) || weft_value_is_poison(k) || weft_value_is_poison(v)) return;
    const char *rule = weft_onnx_string(node, "update_rule", "gated_delta");
    int64_t heads = weft_onnx_int(node, "q_num_heads", 0), kv_heads = weft_onnx_int(node, "kv_num_heads", 0), size,
            extent;
    linear l = {.gated = strncmp(rule, "gated", 5) == 0,
                .delta = strstr(rule, "delta") != NULL,
                .scale = weft_onnx_float(node, "scale", 0),
                .heads = heads,
                .kv_heads = kv_heads};
    if (heads < 1 || kv_heads < 1 || heads % kv_heads || l.gated != (decay != NULL) || l.delta != (beta != NULL) ||
        q->type.rank != 3 || !weft_onnx_dim_number(g, q->type.dims[2], &size)) {
        weft_onnx_problem(node, "update_rule %s does not fit the inputs or head counts", rule);
        return;
    }
    if (l.scale == 0) l.scale = 1 / sqrt((double)size / (double)heads);
    weft_dtype dtype = q->type.dtype, state_dtype = past ? past->type.dtype : dtype;
    weft_value *inputs[5] = {time_first(g, q, heads), time_first(g, k, kv_heads), time_first(g, v, kv_heads)},
               *results[2];
    int count = 3;
    if (decay && !weft_value_is_poison(decay)) inputs[count++] = time_first(g, decay, kv_heads);
    if (beta && !weft_value_is_poison(beta))
        inputs[count++] = time_first(g, beta, weft_onnx_dim_number(g, beta->type.dims[2], &extent) ? extent : kv_heads);
    if (weft_value_is_poison(inputs[1]) || weft_value_is_poison(inputs[2])) return;
    weft_dim shape[4] = {q->type.dims[0], kv_heads, inputs[1]->type.dims[3], inputs[2]->type.dims[3]};
    weft_value *state = past ? weft_convert(g, past, WEFT_F32) : weft_full(g, WEFT_F32, 4, shape, 0);
    weft_scan(g, 1, &state, count, inputs, q->type.dims[1], false, linear_step, &l, 1, results);
    if (weft_value_is_poison(results[0])) return;
    static const int64_t back[4] = {1, 2, 0, 3}; /* [T, B, H, Dv] -> [B, H, T, Dv] */
    weft_onnx_output(node, 0, weft_convert(g, merge_heads(g, weft_transpose(g, results[1], back)), dtype));
    weft_onnx_output(node, 1, weft_convert(g, results[0], state_dtype));
}
