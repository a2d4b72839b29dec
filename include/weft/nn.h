/* Layers and models as graph functions: each appends nodes to a graph and returns a value. No state is hidden: weights
   are values (parameters, inputs or anything computed).

   Shapes: B batch, T tokens, D width, H heads. Dtypes: f32, f16, bf16 unless said otherwise; products accumulate in
   f32. Names of weights in model functions follow the reference state dicts. Ownership: values belong to the graph.
   Errors: as graph.h: recorded in the graph, poisoned values. Threading: thread-compatible. */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include "weft/ops.h"
#include "weft/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [..., I] times weight [O, I] transposed, plus bias [O] (NULL = none). */
WEFT_API weft_value *weft_nn_linear(weft_graph *g, weft_value *x, weft_value *weight, weft_value *bias);

typedef struct weft_nn_attention_weights {
    weft_value *query, *query_bias, *key, *key_bias, *value, *value_bias, *output, *output_bias; /* [D, D], [D] */
} weft_nn_attention_weights;
/* Multi-head self-attention over x [B, T, D]; mask additive or bool, broadcastable to [B, H, T, T], NULL = none.
   Source: Vaswani et al. 2017. */
WEFT_API weft_value *weft_nn_self_attention(weft_graph *g, weft_value *x, const weft_nn_attention_weights *weights,
                                            int heads, weft_value *mask, bool causal);

/* A BERT encoder (Devlin et al. 2019) from a safetensors file with the reference names. */
typedef struct weft_nn_bert_options {
    int layers, heads;
    double epsilon; /* of the layer norms */
} weft_nn_bert_options;
/* ids [B, T] i64 tokens, mask [B, T] i64 (1 = token, 0 = padding) -> hidden states [B, T, D]. */
WEFT_API weft_value *weft_nn_bert(weft_graph *g, weft_safetensors *weights, const weft_nn_bert_options *options,
                                  weft_value *ids, weft_value *mask);
/* Mean of hidden states over real tokens, scaled to length 1: the sentence embedding of all-MiniLM. */
WEFT_API weft_value *weft_nn_mean_pool(weft_graph *g, weft_value *hidden, weft_value *mask);

/* A vision transformer (Dosovitskiy et al. 2021) from a safetensors file with the reference names (timm, I-JEPA), all
   of one dtype, that of the images. */
typedef struct weft_nn_vit_options {
    int layers, heads;
    double epsilon; /* of the layer norms; 1e-6 in the reference */
    bool mean_pool; /* classify the mean of the tokens, not the first */
} weft_nn_vit_options;
/* images [B, C, height, width], multiples of the patch's side -> logits [B, classes] when the file has head.weight,
   else normalised tokens [B, T, D]. */
WEFT_API weft_value *weft_nn_vit(weft_graph *g, weft_safetensors *weights, const weft_nn_vit_options *options,
                                 weft_value *images);

#ifdef __cplusplus
}
#endif
#endif
