/* Samples of derived ops. See sample.h; read next: sample.c, whose table calls these. */
#include "tests/ir/sample_internal.h"

weft_node *weft_sample_softmax(sample *s) {
    if (!is_float(s->dtype) || s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute axis = weft_attr_int(WEFT_ATTR_axis, s->variant == 0 ? 0 : s->rank - 1);
    return node(s, 1, &x, 1, &axis);
}

weft_node *weft_sample_norm(sample *s) {
    static const int64_t axes[3][2] = {{1}, {1, 2}, {1}};
    if (!is_float(s->dtype) || s->variant > 2) return NULL;
    int count = s->variant == 1 ? 2 : 1;
    weft_value *x[3] = {usual(s, s->dtype), input(s, s->dtype, count, s->dims + 1),
                        input(s, WEFT_F32, count, s->dims + 1)};
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_axes, count, axes[s->variant]),
                                    weft_attr_float(WEFT_ATTR_epsilon, 1e-5)};
    int operands = s->variant == 2 ? 1 : s->op == WEFT_OP_layer_norm ? 3 : 2;
    return node(s, operands, x, 2, attributes);
}

weft_node *weft_sample_gelu(sample *s) {
    if (!is_float(s->dtype) || s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute approximate = weft_attr_string(WEFT_ATTR_approximate, s->variant == 1 ? "tanh" : "none");
    return node(s, 1, &x, 1, &approximate);
}

/* plain; causal with grouped heads and T < S; symbolic; additive mask; bool mask, cap, window; left window only; causal
   with T > S (queries without keys), and for attention itself its log-sum-exp; dropout over more than one cell of 16
   with an additive mask and its gradient or tangent. */
weft_node *weft_sample_attention(sample *s) {
    if (!is_float(s->dtype) || s->variant > 7) return NULL;
    weft_dim t = s->variant == 2   ? s->dims[0]
                 : s->variant == 6 ? 4
                                   : 3,
             keys = s->variant == 1 ? 5 : t, heads = s->variant == 1 ? 1 : 2;
    if (s->variant == 6) keys = 2;
    if (s->variant == 7) t = 18, keys = 27;
    weft_dim q[4] = {2, 2, t, 4}, k[4] = {2, heads, keys, 4}, v[4] = {2, heads, keys, 6}, o[4] = {2, 2, t, 6};
    weft_value *x[11] = {input(s, s->dtype, 4, q), input(s, s->dtype, 4, k), input(s, s->dtype, 4, v)};
    int count = 3;
    if (s->op != WEFT_OP_attention) {
        x[count++] = input(s, s->dtype, 4, o);
        x[count++] = input(s, s->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32, 3, o);
    }
    if (s->op == WEFT_OP_attention_backward) x[count++] = input(s, s->dtype, 4, o);
    if (s->op == WEFT_OP_attention_tangent) {
        x[count++] = input(s, s->dtype, 4, q);
        x[count++] = input(s, s->dtype, 4, k);
        x[count++] = input(s, s->dtype, 4, v);
    }
    if (s->variant == 3 || s->variant == 7) x[count++] = input(s, s->dtype, 2, (weft_dim[]){t, keys});
    if (s->variant == 4) x[count++] = input(s, WEFT_BOOL, 4, (weft_dim[]){2, 1, t, keys});
    if (s->variant == 7) x[count++] = input(s, WEFT_U64, 1, (weft_dim[]){2});
    if (s->variant == 7 && s->op == WEFT_OP_attention_tangent)
        x[count++] = input(s, s->dtype, 2, (weft_dim[]){t, keys});
    weft_attribute attributes[7] = {weft_attr_float(WEFT_ATTR_scale, s->variant == 3 ? 0.25 : 0),
                                    weft_attr_int(WEFT_ATTR_causal, s->variant == 1 || s->variant == 6),
                                    weft_attr_float(WEFT_ATTR_soft_cap, s->variant == 4 ? 20 : 0),
                                    weft_attr_int(WEFT_ATTR_window_left, s->variant >= 4 && s->variant < 7 ? 1 : -1),
                                    weft_attr_int(WEFT_ATTR_window_right, s->variant == 4 ? 1 : -1),
                                    weft_attr_int(WEFT_ATTR_lse, 1)};
    int given = s->op == WEFT_OP_attention && s->variant == 6 ? 6 : 5;
    if (s->variant == 7) attributes[given++] = weft_attr_float(WEFT_ATTR_dropout, 0.3);
    if (s->variant == 7 && s->op != WEFT_OP_attention) attributes[given++] = weft_attr_int(WEFT_ATTR_scores, 1);
    return node(s, count, x, given, attributes);
}

weft_node *weft_sample_rope(sample *s) {
    if (!is_float(s->dtype) || s->variant > 2) return NULL;
    weft_dim t = s->variant == 2 ? s->dims[0] : 3;
    weft_value *x[3] = {input(s, s->dtype, 4, (weft_dim[]){2, 2, t, 8}), input(s, WEFT_F32, 2, (weft_dim[]){t, 4}),
                        input(s, WEFT_F32, 2, (weft_dim[]){t, 4})};
    weft_attribute interleaved = weft_attr_int(WEFT_ATTR_interleaved, s->variant == 1);
    return node(s, 3, x, 1, &interleaved);
}

weft_node *weft_sample_cross_entropy(sample *s) {
    if (!is_float(s->dtype) || s->variant > 1) return NULL;
    weft_dim n = s->variant == 1 ? weft_graph_symbol(s->graph, "N", 1, 16, 1) : 5;
    weft_value *x[2] = {input(s, s->dtype, 2, (weft_dim[]){n, 7}), input(s, WEFT_I64, 1, &n)};
    return node(s, 2, x, 0, NULL);
}
