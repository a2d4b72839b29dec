/* A Llama-class model (Touvron et al. 2023): RMS norms before, rotary positions in halves (Su et al. 2021), grouped key
   and value heads (Ainslie et al. 2023), gated SiLU (Shazeer 2020), no biases. Names as in the reference state dicts:
   model.embed_tokens.weight, model.layers.N.self_attn.q_proj.weight, ..., lm_head.weight unless tied.

   Letters: B sequences, T tokens, D width, H heads, K key and value heads, E head width. */
#include "base/need.h"
#include "weft/nn.h"

#include <stdio.h>

#include "stdlib/nn/mixed.h"
#include "weft/loss.h"

typedef struct llama {
    weft_graph *g;
    weft_parameters *p;
    const weft_nn_llama_options *o;
    int64_t head_width, kv_heads;
    weft_dtype dtype; /* of the residual stream */
    weft_value *cosine, *sine;
} llama;

static const double deviation = 0.02;

static weft_value *linear(const llama *m, int layer, const char *name, weft_value *x, int64_t outputs, int64_t inputs) {
    char full[128];
    snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
    weft_value *w = weft_parameters_add(m->p, full, WEFT_INIT_NORMAL, deviation, 2, (int64_t[]){outputs, inputs});
    return weft_nn_linear(m->g, x, w, NULL);
}

static weft_value *norm(const llama *m, const char *name, weft_value *x) {
    int64_t last[1] = {2}, shape[1] = {m->o->width};
    weft_value *scale = weft_parameters_add(m->p, name, WEFT_INIT_ONES, 0, 1, shape);
    return weft_rms_norm(m->g, x, scale, 1, last, m->o->epsilon > 0 ? m->o->epsilon : 1e-5);
}

/* Cosine and sine [T, E / 2]; false: a problem. */
static bool angles(llama *m, weft_dim tokens) {
    weft_nn_rope_options rope = WEFT_NN_ROPE_OPTIONS_INIT;
    if (weft_graph_report(m->g, WEFT_OPTIONS_READ(rope, m->o->rope, WEFT_NN_ROPE_OPTIONS_INIT))) return false;
    if (rope.base == 0) rope.base = m->o->theta;
    if (rope.head_width == 0) rope.head_width = m->head_width;
    if (rope.head_width != m->head_width) {
        weft_graph_report(m->g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_llama: heads of %lld, rope.head_width %lld",
                                            (long long)m->head_width, (long long)rope.head_width));
        return false;
    }
    weft_nn_rope_tables(m->g, &rope, m->dtype, NULL, tokens, &m->cosine, &m->sine);
    return m->cosine != NULL;
}

/* [B, T, heads E] -> [B, heads, T, E] */
static weft_value *heads_of(const llama *m, weft_value *x, int64_t heads) {
    int64_t order[4] = {0, 2, 1, 3};
    weft_dim shape[4] = {weft_value_dim(x, 0), weft_value_dim(x, 1), heads, m->head_width};
    return weft_transpose(m->g, weft_reshape(m->g, x, 4, shape), order);
}

static weft_value *turned(const llama *m, weft_value *x) {
    weft_dtype dtype = weft_value_dtype(x);
    return weft_rope(m->g, x, weft_nn_as(m->g, m->cosine, dtype), weft_nn_as(m->g, m->sine, dtype), false);
}

static weft_value *attend(const llama *m, int layer, weft_value *x) {
    int64_t width = m->o->width, inner = m->o->heads * m->head_width, kv = m->kv_heads * m->head_width;
    int64_t order[4] = {0, 2, 1, 3};
    weft_value *q = turned(m, heads_of(m, linear(m, layer, "self_attn.q_proj", x, inner, width), m->o->heads));
    weft_value *k = turned(m, heads_of(m, linear(m, layer, "self_attn.k_proj", x, kv, width), m->kv_heads));
    weft_value *v = heads_of(m, linear(m, layer, "self_attn.v_proj", x, kv, width), m->kv_heads);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = true;
    weft_value *mixed = weft_transpose(m->g, weft_attention(m->g, q, k, v, NULL, &options), order);
    weft_dim joined[3] = {weft_value_dim(x, 0), weft_value_dim(x, 1), inner};
    return linear(m, layer, "self_attn.o_proj", weft_reshape(m->g, mixed, 3, joined), width, inner);
}

static weft_value *transform(const llama *m, int layer, weft_value *x) {
    int64_t width = m->o->width, hidden = m->o->hidden;
    weft_value *gate = weft_silu(m->g, linear(m, layer, "mlp.gate_proj", x, hidden, width));
    weft_value *up = linear(m, layer, "mlp.up_proj", x, hidden, width);
    return linear(m, layer, "mlp.down_proj", weft_mul(m->g, gate, up), width, hidden);
}

static weft_value *block(const llama *m, int layer, weft_value *x) {
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", layer);
    x = weft_add(m->g, x, weft_nn_as(m->g, attend(m, layer, norm(m, name, x)), m->dtype));
    snprintf(name, sizeof name, "model.layers.%d.post_attention_layernorm.weight", layer);
    return weft_add(m->g, x, weft_nn_as(m->g, transform(m, layer, norm(m, name, x)), m->dtype));
}

static bool is_whole(weft_graph *g, const weft_nn_llama_options *o, weft_value *tokens) {
    int kv = o->kv_heads > 0 ? o->kv_heads : o->heads;
    if (tokens && weft_value_rank(tokens) == 2 && o->heads > 0 && o->heads % kv == 0 && o->width > 0 && o->hidden > 0 &&
        o->vocabulary > 0)
        return true;
    weft_graph_report(
        g, WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                       "a Llama takes tokens [B, T], heads that its key heads divide, width, hidden, vocabulary"));
    return false;
}

/* The normalised states [B, T, D] and the weight of the last product; tokens and no weight where something is missing.
 */
static weft_value *hidden_states(llama *m, weft_value *tokens, weft_value **out_head) {
    const weft_nn_llama_options *o = m->o;
    *out_head = NULL;
    if (!is_whole(m->g, o, tokens)) return tokens;
    m->head_width = o->head_width > 0 ? o->head_width : o->width / o->heads;
    m->kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads;
    int64_t shape[2] = {o->vocabulary, o->width};
    weft_value *table = weft_parameters_add(m->p, "model.embed_tokens.weight", WEFT_INIT_NORMAL, deviation, 2, shape);
    m->dtype = weft_parameters_dtype(m->p);
    if (!angles(m, weft_value_dim(tokens, 1))) return tokens;
    weft_value *x = weft_nn_as(m->g, weft_embedding(m->g, table, tokens), m->dtype);
    for (int i = 0; i < o->layers; i++) x = block(m, i, x);
    x = norm(m, "model.norm.weight", x);
    *out_head = o->tied ? table : weft_parameters_add(m->p, "lm_head.weight", WEFT_INIT_NORMAL, deviation, 2, shape);
    return x;
}

weft_value *weft_nn_llama(weft_parameters *parameters, const weft_nn_llama_options *options, weft_value *tokens) {
    if (!parameters) return NULL; /* there is no graph for a problem; what takes the result has one */
    weft_nn_llama_options own = WEFT_NN_LLAMA_OPTIONS_INIT;
    weft_graph *g = weft_parameters_graph(parameters);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_LLAMA_OPTIONS_INIT))) return tokens;
    llama m = {.g = g, .p = parameters, .o = &own};
    weft_value *head, *x = hidden_states(&m, tokens, &head);
    return head ? weft_nn_as(m.g, weft_nn_linear(m.g, x, head, NULL), m.dtype) : x;
}

weft_value *weft_nn_llama_loss(weft_parameters *parameters, const weft_nn_llama_options *options, weft_value *tokens,
                               weft_value *labels, int64_t pieces, const weft_cross_entropy_options *loss) {
    if (!parameters) return NULL;
    weft_nn_llama_options own = WEFT_NN_LLAMA_OPTIONS_INIT;
    weft_graph *g = weft_parameters_graph(parameters);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_LLAMA_OPTIONS_INIT))) return tokens;
    llama m = {.g = g, .p = parameters, .o = &own};
    weft_value *head, *x = hidden_states(&m, tokens, &head);
    if (!head) return x;
    return weft_loss_linear_cross_entropy(m.g, weft_nn_as(m.g, x, weft_value_dtype(head)), head, labels, pieces, loss);
}
