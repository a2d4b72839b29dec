/* GPT (Radford et al. 2019) with the names and initial values of nanoGPT: normal with deviation 0.02, projections onto
   the residual stream 0.02 / sqrt(2 layers). B batch, T tokens, D width, H heads, V vocabulary.
   Mixed precision: weft/nn.h. */
#include "base/need.h"
#include "weft/nn.h"

#include "stdlib/nn/mixed.h"
#include "weft/loss.h"
#include "weft/transform.h"

#include <math.h>
#include <stdio.h>

typedef struct gpt {
    weft_graph *g;
    weft_parameters *p;
    const weft_nn_gpt_options *o;
    weft_value *tokens;
    int layer;
    uint32_t site;    /* of the next dropout */
    weft_dtype dtype; /* of the residual stream: the parameters' */
} gpt;

static const double deviation = 0.02;

static weft_value *parameter(const gpt *m, const char *name, weft_init_kind init, double scale, int rank,
                             const int64_t *shape) {
    char full[160];
    if (m->layer >= 0)
        snprintf(full, sizeof full, "transformer.h.%d.%s", m->layer, name);
    else
        snprintf(full, sizeof full, "transformer.%s", name);
    return weft_parameters_add(m->p, full, init, scale, rank, shape);
}

static weft_value *norm(const gpt *m, const char *name, weft_value *x) {
    char weight[64], bias[64];
    int64_t last[1] = {-1}, shape[1] = {m->o->width};
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    weft_value *scale = parameter(m, weight, WEFT_INIT_ONES, 0, 1, shape);
    weft_value *shift = m->o->bias ? parameter(m, bias, WEFT_INIT_ZEROS, 0, 1, shape) : NULL;
    return weft_layer_norm(m->g, x, scale, shift, 1, last, 1e-5);
}

static weft_value *dropout(gpt *m, weft_value *x) {
    return weft_nn_dropout(m->g, x, m->o->dropout, m->o->step, m->o->seed, m->site++);
}

static weft_value *linear(const gpt *m, const char *name, weft_value *x, int64_t outputs, int64_t inputs,
                          double scale) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    weft_value *w = parameter(m, weight, WEFT_INIT_NORMAL, scale, 2, (int64_t[]){outputs, inputs});
    weft_value *b = m->o->bias ? parameter(m, bias, WEFT_INIT_ZEROS, 0, 1, &outputs) : NULL;
    return weft_nn_linear(m->g, x, w, b);
}

/* Part `index` of qkv [B, T, 3 D] as [B, H, T, D / H]. */
static weft_value *head_part(const gpt *m, weft_value *qkv, int index) {
    int64_t width = m->o->width, order[4] = {0, 2, 1, 3};
    weft_value *part = weft_slice_axis(m->g, qkv, 2, index * width, (index + 1) * width);
    weft_dim shape[4] = {weft_value_dim(qkv, 0), weft_value_dim(qkv, 1), m->o->heads, width / m->o->heads};
    return weft_transpose(m->g, weft_reshape(m->g, part, 4, shape), order);
}

static weft_value *attention(gpt *m, weft_value *x, double residual_scale) {
    int64_t width = m->o->width, order[4] = {0, 2, 1, 3};
    weft_dim b = weft_value_dim(m->tokens, 0), t = weft_value_dim(m->tokens, 1);
    weft_value *qkv = linear(m, "attn.c_attn", x, 3 * width, width, deviation);
    qkv = weft_reshape(m->g, qkv, 3, (weft_dim[]){b, t, 3 * width});
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = true;
    if (m->o->attention_dropout > 0) {
        options.dropout = m->o->attention_dropout;
        options.dropout_key = weft_nn_dropout_key(m->g, m->o->step, m->o->seed, m->site++);
    }
    weft_value *mixed =
        weft_attention(m->g, head_part(m, qkv, 0), head_part(m, qkv, 1), head_part(m, qkv, 2), NULL, &options);
    mixed = weft_reshape(m->g, weft_transpose(m->g, mixed, order), 2, (weft_dim[]){WEFT_DIM_ANY, width});
    return linear(m, "attn.c_proj", mixed, width, width, residual_scale);
}

static weft_value *block(gpt *m, weft_value *x) {
    int64_t width = m->o->width;
    double residual_scale = deviation / sqrt(2.0 * m->o->layers);
    weft_value *mixed = attention(m, norm(m, "ln_1", x), residual_scale);
    x = weft_add(m->g, x, dropout(m, weft_nn_as(m->g, mixed, m->dtype)));
    weft_value *wide = linear(m, "mlp.c_fc", norm(m, "ln_2", x), 4 * width, width, deviation);
    weft_value *narrow = linear(m, "mlp.c_proj", weft_nn_gelu(m->g, wide), width, 4 * width, residual_scale);
    return weft_add(m->g, x, dropout(m, weft_nn_as(m->g, narrow, m->dtype)));
}

/* An embedding is read from the parameter itself, not from its copy in 16 bits. */
static weft_value *table(const gpt *m, const char *name, int64_t rows, weft_value **out_rounded) {
    int count = weft_parameters_count(m->p);
    weft_value *rounded = parameter(m, name, WEFT_INIT_NORMAL, deviation, 2, (int64_t[]){rows, m->o->width});
    if (out_rounded) *out_rounded = rounded;
    return weft_parameters_count(m->p) > count ? weft_parameters_list(m->p)[count].value : rounded;
}

/* The normalised states, rows of tokens, and the weight of the last product. */
static weft_value *hidden_rows(gpt *m, weft_nn_gpt_options *own, weft_value **out_head) {
    if ((own->dropout > 0 || own->attention_dropout > 0) && !own->step) {
        weft_graph_report(m->g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "dropout needs the number of the step"));
        own->dropout = own->attention_dropout = 0;
    }
    weft_value *words = table(m, "wte.weight", own->vocabulary, out_head);
    weft_value *positions = table(m, "wpe.weight", own->context, NULL);
    m->dtype = weft_value_dtype(words);
    weft_value *x = weft_add(m->g, weft_embedding(m->g, words, m->tokens),
                             weft_slice_axis(m->g, positions, 0, 0, weft_value_dim(m->tokens, 1)));
    /* From here on over rows of tokens, as losses take them: no view stands between products and what follows them. */
    x = weft_reshape(m->g, dropout(m, x), 2, (weft_dim[]){WEFT_DIM_ANY, own->width});
    for (m->layer = 0; m->layer < own->layers; m->layer++) {
        if (own->remat) weft_remat_begin(m->g, own->remat);
        x = block(m, x);
        if (own->remat) weft_remat_end(m->g);
    }
    m->layer = -1;
    return norm(m, "ln_f", x);
}

weft_value *weft_nn_gpt_hidden(weft_parameters *parameters, const weft_nn_gpt_options *options, weft_value *tokens,
                               weft_value **out_head) {
    if (out_head) *out_head = NULL;
    if (!parameters) return NULL; /* there is no graph for a problem; what takes the result has one */
    weft_nn_gpt_options own = WEFT_NN_GPT_OPTIONS_INIT;
    weft_graph *g = weft_parameters_graph(parameters);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_GPT_OPTIONS_INIT))) return tokens;
    weft_value *head;
    gpt m = {g, parameters, &own, tokens, -1, 0, WEFT_INVALID};
    weft_value *x = hidden_rows(&m, &own, &head);
    if (out_head) *out_head = head;
    weft_dim shape[3] = {weft_value_dim(tokens, 0), weft_value_dim(tokens, 1), own.width};
    return weft_reshape(m.g, weft_nn_as(m.g, x, weft_value_dtype(head)), 3, shape);
}

weft_value *weft_nn_gpt_loss(weft_parameters *parameters, const weft_nn_gpt_options *options, weft_value *tokens,
                             weft_value *labels, int64_t pieces, const weft_cross_entropy_options *loss) {
    if (!parameters) return NULL;
    weft_value *head, *hidden = weft_nn_gpt_hidden(parameters, options, tokens, &head);
    if (!head) return hidden;
    return weft_loss_linear_cross_entropy(weft_parameters_graph(parameters), hidden, head, labels, pieces, loss);
}

weft_value *weft_nn_gpt(weft_parameters *parameters, const weft_nn_gpt_options *options, weft_value *tokens) {
    if (!parameters) return NULL;
    weft_nn_gpt_options own = WEFT_NN_GPT_OPTIONS_INIT;
    weft_graph *g = weft_parameters_graph(parameters);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_GPT_OPTIONS_INIT))) return tokens;
    weft_value *head;
    gpt m = {g, parameters, &own, tokens, -1, 0, WEFT_INVALID};
    weft_value *hidden = hidden_rows(&m, &own, &head), *logits = weft_nn_linear(m.g, hidden, head, NULL);
    weft_dim shape[3] = {weft_value_dim(tokens, 0), weft_value_dim(tokens, 1), own.vocabulary};
    return weft_reshape(m.g, weft_nn_as(m.g, logits, m.dtype), 3, shape);
}
