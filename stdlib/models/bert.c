/* BERT encoder (Devlin et al. 2019), post-norm, exact GELU, absolute positions. Weights by their names in the reference
   state dict: embeddings.word_embeddings.weight, encoder.layer.N.attention.self.query.weight, ... */
#include "weft/nn.h"

#include <stdio.h>

#include "base/need.h"
#include "stdlib/nn/weights.h"

typedef struct bert {
    weft_graph *g;
    weft_safetensors *file;
    const weft_nn_bert_options *options;
} bert;

static weft_value *weight(const bert *b, const char *name) { return weft_nn_weight(b->g, b->file, name); }

static weft_value *layer_weight(const bert *b, int layer, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "encoder.layer.%d.%s", layer, name);
    return weight(b, full);
}

static weft_value *norm(const bert *b, weft_value *x, weft_value *scale, weft_value *bias) {
    int64_t last[1] = {2};
    double epsilon = b->options->epsilon > 0 ? b->options->epsilon : 1e-12;
    return weft_layer_norm(b->g, x, scale, bias, 1, last, epsilon);
}

static weft_value *embed(const bert *b, weft_value *ids) {
    weft_graph *g = b->g;
    weft_dim tokens = weft_value_dim(ids, 1);
    weft_value *words = weft_embedding(g, weight(b, "embeddings.word_embeddings.weight"), ids);
    weft_value *positions = weft_slice_axis(g, weight(b, "embeddings.position_embeddings.weight"), 0, 0, tokens);
    weft_value *type = weft_slice_axis(g, weight(b, "embeddings.token_type_embeddings.weight"), 0, 0, 1);
    weft_value *sum = weft_add(g, weft_add(g, words, positions), type);
    return norm(b, sum, weight(b, "embeddings.LayerNorm.weight"), weight(b, "embeddings.LayerNorm.bias"));
}

static weft_value *layer(const bert *b, int i, weft_value *x, weft_value *mask) {
    weft_graph *g = b->g;
    weft_nn_attention_weights w = {
        layer_weight(b, i, "attention.self.query.weight"),   layer_weight(b, i, "attention.self.query.bias"),
        layer_weight(b, i, "attention.self.key.weight"),     layer_weight(b, i, "attention.self.key.bias"),
        layer_weight(b, i, "attention.self.value.weight"),   layer_weight(b, i, "attention.self.value.bias"),
        layer_weight(b, i, "attention.output.dense.weight"), layer_weight(b, i, "attention.output.dense.bias")};
    weft_value *mixed = weft_nn_self_attention(g, x, &w, b->options->heads, mask, false, 0, NULL);
    x = norm(b, weft_add(g, mixed, x), layer_weight(b, i, "attention.output.LayerNorm.weight"),
             layer_weight(b, i, "attention.output.LayerNorm.bias"));
    weft_value *wide = weft_nn_linear(g, x, layer_weight(b, i, "intermediate.dense.weight"),
                                      layer_weight(b, i, "intermediate.dense.bias"));
    weft_value *narrow = weft_nn_linear(g, weft_gelu(g, wide, false), layer_weight(b, i, "output.dense.weight"),
                                        layer_weight(b, i, "output.dense.bias"));
    return norm(b, weft_add(g, narrow, x), layer_weight(b, i, "output.LayerNorm.weight"),
                layer_weight(b, i, "output.LayerNorm.bias"));
}

weft_value *weft_nn_bert(weft_graph *g, weft_safetensors *weights, const weft_nn_bert_options *options, weft_value *ids,
                         weft_value *mask) {
    weft_nn_bert_options own = WEFT_NN_BERT_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_BERT_OPTIONS_INIT))) return ids;
    bert b = {g, weights, &own};
    weft_value *x = embed(&b, ids);
    int64_t axes[2] = {1, 2};
    weft_value *keep = weft_unsqueeze(g, weft_compare(g, WEFT_NE, mask, weft_scalar_integer(g, WEFT_I64, 0)), 2,
                                      axes); /* [B, 1, 1, T] */
    for (int i = 0; i < b.options->layers; i++) x = layer(&b, i, x, keep);
    return x;
}
