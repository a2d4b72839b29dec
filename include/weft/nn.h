/* Layers and models as graph functions: each appends nodes to a graph and returns a value. No state is hidden: weights
   are values (parameters, inputs or anything computed).

   Shapes: B batch, T tokens, D width, H heads. Dtypes: f32, f16, bf16 unless said otherwise; products accumulate in
   f32. Names of weights in model functions follow the reference state dicts. Ownership: values belong to the graph.
   Errors: as graph.h: recorded in the graph, poisoned values. Threading: thread-compatible. */
#ifndef WEFT_NN_H
#define WEFT_NN_H

#include "weft/optim.h"
#include "weft/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_cross_entropy_options; /* loss.h */

/* -- the parameters of a model, in order of declaration: states in training, constants in inference */
typedef struct weft_parameters weft_parameters;
typedef struct weft_parameters_options {
    size_t struct_bytes;
    uint64_t seed;             /* of initial values: equal seed and name, equal values, whatever else is declared */
    weft_dtype dtype;          /* default f32; f64 */
    weft_safetensors *weights; /* initial values by name instead; a missing or unfitting one is a problem. Borrowed */
    bool constant;             /* constants instead of states: inference */
    bool decay_vectors;        /* decay_scale is 1 for all; default: 0 for those of rank below 2 (biases, norms) */
    /* Mixed precision: BF16 or F16. The model gets parameters of rank 2 and more in this dtype, from a second state
       NAME/rounded that the optimizer writes together with the parameter; gradients, moments and the parameter itself
       stay in `dtype`. Default: `dtype` */
    weft_dtype compute;
} weft_parameters_options;
#define WEFT_PARAMETERS_OPTIONS_INIT {sizeof(weft_parameters_options), 0, (weft_dtype)0, 0, false, false, (weft_dtype)0}
/* options may be NULL. The graph must outlive the parameters. */
WEFT_API weft_status weft_parameters_create(weft_context *context, weft_graph *g,
                                            const weft_parameters_options *options,
                                            weft_parameters **out_parameters) WEFT_MUST_USE;
WEFT_API void weft_parameters_release(weft_parameters *parameters);

typedef enum weft_init_kind { WEFT_INIT_ZEROS, WEFT_INIT_ONES, WEFT_INIT_NORMAL, WEFT_INIT_UNIFORM } weft_init_kind;
/* Declares one and returns what the model computes with: its value, in mixed precision the copy in 16 bits. scale:
 * standard deviation (normal), half width (uniform in [-scale, scale)). */
WEFT_API weft_value *weft_parameters_add(weft_parameters *parameters, const char *name, weft_init_kind init,
                                         double scale, int rank, const int64_t *shape);
/* What belongs to a model and is not trained (running statistics): a state without a gradient, not in the list; a
   constant in inference. set: what it holds after the step; nothing in inference. */
WEFT_API weft_value *weft_parameters_add_buffer(weft_parameters *parameters, const char *name, weft_init_kind init,
                                                int rank, const int64_t *shape);
WEFT_API void weft_parameters_set_buffer(weft_parameters *parameters, const char *name, weft_value *value);
WEFT_API weft_dtype weft_parameters_dtype(const weft_parameters *parameters);
WEFT_API weft_graph *weft_parameters_graph(const weft_parameters *parameters);
WEFT_API int weft_parameters_count(const weft_parameters *parameters);
/* For weft_optim_update and its relatives; borrowed, valid until the next weft_parameters_add. */
WEFT_API weft_parameter *weft_parameters_list(weft_parameters *parameters);
/* Sets the gradient of every parameter, in the parameter's dtype, whichever of value and copy the loss depends on. */
WEFT_API void weft_parameters_gradient(weft_parameters *parameters, weft_value *loss);

/* Dynamic loss scaling, for f16 (Micikevicius et al. 2018): gradients are those of the loss times a scale, so that
   small ones do not vanish, and are divided by it again in the parameters' dtype. A step whose gradients are not finite
   is to be left out: give `apply` and `step` to weft_optim_options. States loss_scale/scale, good and step. */
typedef struct weft_loss_scale {
    size_t struct_bytes;
    double initial;         /* default 65536 */
    double growth, backoff; /* 2 and 0.5: after `interval` steps in a row that were applied; after one that was not */
    int64_t interval;       /* default 2000 */
    weft_value *apply;      /* set: bool scalar, the norm of all gradients is finite */
    weft_value *step;       /* set: i64 scalar, the number of this step among those applied, from 1 */
    weft_value *scale;      /* set: of this step */
} weft_loss_scale;
#define WEFT_LOSS_SCALE_INIT {sizeof(weft_loss_scale), 65536.0, 2.0, 0.5, 2000, 0, 0, 0}
WEFT_API void weft_parameters_gradient_scaled(weft_parameters *parameters, weft_value *loss, weft_loss_scale *scale);

/* x [..., I] times weight [O, I] transposed, plus bias [O] (NULL = none). Mixed precision: x is converted to the
   weight's dtype; a bias of another dtype is added in its own, and the sum is converted to the weight's. */
WEFT_API weft_value *weft_nn_linear(weft_graph *g, weft_value *x, weft_value *weight, weft_value *bias);

/* x [..., K] in 8 bits with a scale for each block, so that the largest number of a block is the largest of the dtype:
   *out_scale f32 [..., ceil(K / 128)]; square (a matrix [N, K]): [ceil(N / 128), ceil(K / 128)], blocks of 128 x 128. x
   = result * scale, up to 1/16 (e5m2: 1/8) of each element. What weft_scaled_dot takes by default. K is a number, and N
   where blocks are square; otherwise a problem, and NULL. */
typedef enum weft_nn_narrow { WEFT_NN_E4M3, WEFT_NN_E5M2 } weft_nn_narrow;
WEFT_API weft_value *weft_nn_quantize_blocks(weft_graph *g, weft_value *x, weft_nn_narrow narrow, bool square,
                                             weft_value **out_scale);
/* weft_nn_linear through 8-bit floats (f8e4m3fn) with block scales made from x and weight on the way; sums in f32,
   result in x's dtype. Its gradient takes the rounding for none: dx is such a product of 8 bits again, dweight a
   product in x's dtype. Extents I and O are numbers. */
WEFT_API weft_value *weft_nn_linear_f8(weft_graph *g, weft_value *x, weft_value *weight, weft_value *bias);

/* The exact gelu (weft_gelu, approximate false) for training: its derivative is one factor that the forward pass keeps,
   Phi(x) + x phi(x), instead of the pieces that a derivative through its definition needs. 16-bit floats are computed
   in f32, to 1e-4 of the distribution Phi; the factor is rounded to x's dtype. */
WEFT_API weft_value *weft_nn_gelu(weft_graph *g, weft_value *x);

/* x / (1 - rate) where bits drawn for the element say so, with probability 1 - rate, else 0 (Srivastava et al. 2014);
   rate to the nearest 1 / 65536, the scale being that of the rate drawn. The bits are a function of seed, site, step
   (i64 scalar, weft_optim_step) and index: a resumed or rematerialised run has the same ones. site: a number of its own
   for each place in a model. rate 0: x. */
WEFT_API weft_value *weft_nn_dropout(weft_graph *g, weft_value *x, double rate, weft_value *step, uint32_t seed,
                                     uint32_t site);

/* x [N, I, H, W] -> [N, O, H / stride, W / stride]: weight NAME.weight [O, I, side, side], margins of side / 2, no
 * bias. */
WEFT_API weft_value *weft_nn_convolution(weft_parameters *parameters, const char *name, weft_value *x, int64_t inputs,
                                         int64_t outputs, int64_t side, int64_t stride);
/* x [N, C, ...]: per channel (x - mean) / sqrt(variance + epsilon) scale + shift, NAME.weight and NAME.bias. train:
   with mean and variance of the batch, and NAME.running_mean, NAME.running_var move towards them by `momentum` (the
   variance as that of a sample); else with these two. Ioffe, Szegedy 2015. */
WEFT_API weft_value *weft_nn_batch_norm(weft_parameters *parameters, const char *name, weft_value *x, bool train,
                                        double momentum, double epsilon);

/* A mixture of experts on x [..., width]: a router (NAME.router [E, D]) chooses `top` of the experts for each token,
   each a gated network w2 (silu(w1 x) * (w3 x)) with NAME.w1, NAME.w3 [E, hidden, D] and NAME.w2 [E, D, hidden]; their
   results are added with the softmax of the chosen logits as weights. No token is dropped: all experts are one product
   of groups of rows a layer. out_logits [T, E] and out_chosen i64 [T, top] (either may be NULL): what
   weft_loss_expert_balance and weft_loss_router_z take. Sources: Shazeer et al. 2017, Jiang et al.
   2024. */
typedef struct weft_nn_experts_options {
    size_t struct_bytes;
    int64_t width, hidden, experts, top;
} weft_nn_experts_options;
#define WEFT_NN_EXPERTS_OPTIONS_INIT {sizeof(weft_nn_experts_options), 0, 0, 0, 0}
WEFT_API weft_value *weft_nn_experts(weft_parameters *parameters, const weft_nn_experts_options *options,
                                     const char *name, weft_value *x, weft_value **out_logits, weft_value **out_chosen);

/* The key of such bits, u64 [2]: weft_attention_options.dropout_key of a place in a model. */
WEFT_API weft_value *weft_nn_dropout_key(weft_graph *g, weft_value *step, uint32_t seed, uint32_t site);

typedef struct weft_nn_attention_weights {
    weft_value *query, *query_bias, *key, *key_bias, *value, *value_bias, *output, *output_bias; /* [D, D], [D] */
} weft_nn_attention_weights;
/* Multi-head self-attention over x [B, T, D]; mask additive or bool, broadcastable to [B, H, T, T], NULL = none.
   dropout: share of attention's weights that is dropped, by dropout_key (weft_nn_dropout_key); 0 and NULL = none.
   Source: Vaswani et al. 2017. */
WEFT_API weft_value *weft_nn_self_attention(weft_graph *g, weft_value *x, const weft_nn_attention_weights *weights,
                                            int heads, weft_value *mask, bool causal, double dropout,
                                            weft_value *dropout_key);

/* Rotary embeddings (Su et al. 2021): pair i of a head of width d turns by position times f_i = base^(-2 i / d). What
   was trained on a shorter context is stretched by a factor s; Peng et al. 2023 compare the ways (sections 3.1 to 3.4).
 */
typedef enum weft_nn_rope_scaling {
    WEFT_NN_ROPE_PLAIN,  /* f_i */
    WEFT_NN_ROPE_LINEAR, /* f_i / s, that is position / s (Chen et al. 2023) */
    WEFT_NN_ROPE_NTK,    /* f_i with base * s^(d / (d - 2)): the slowest pair as LINEAR, the fastest as it was */
    /* f_i (k + (1 - k) / s), k = clip((r - beta_slow) / (beta_fast - beta_slow), 0, 1), r = original f_i / (2 pi): how
       often the pair turns in the original context; cosine and sine times 0.1 ln(s) + 1 (1 where s < 1) */
    WEFT_NN_ROPE_YARN
} weft_nn_rope_scaling;
typedef struct weft_nn_rope_options {
    size_t struct_bytes;
    int64_t head_width; /* even */
    double base;        /* default 10000; above 1 */
    weft_nn_rope_scaling scaling;
    double factor; /* with scaling: above 0 */
    /* YaRN alone: */
    int64_t original;            /* tokens of the context that was trained on */
    double beta_slow, beta_fast; /* default 1, 32 turns */
    double attention;            /* what cosine and sine are multiplied with instead; 0: as above */
    bool by_pair; /* k goes linearly with i between whole pairs instead, floor of where r is beta_fast and ceil of where
                     it is beta_slow: the authors' code, and with it most published checkpoints */
} weft_nn_rope_options;
#define WEFT_NN_ROPE_OPTIONS_INIT                                                                                      \
    {sizeof(weft_nn_rope_options), 0, 0.0, WEFT_NN_ROPE_PLAIN, 0.0, 0, 0.0, 0.0, 0.0, false}
/* What weft_rope takes: cosine and sine [T, head_width / 2] of positions i32 or i64 [T]; NULL: of 0 ... tokens - 1.
   dtype f32, f64; f16 and bf16 are computed in f32 and rounded once. Where an option does not fit: a problem, and NULL.
 */
WEFT_API void weft_nn_rope_tables(weft_graph *g, const weft_nn_rope_options *options, weft_dtype dtype,
                                  weft_value *positions, weft_dim tokens, weft_value **out_cosine,
                                  weft_value **out_sine);

/* Attention with linear biases (Press et al. 2022). Slopes [heads]: 2^(-8 (h + 1) / heads) where heads is a power of
   two; else those of the power of two p below, then every second one of 2 p from the first, 2^(-4 (2 (h - p) + 1) / p).
   dtype f32 or f64. */
WEFT_API weft_value *weft_nn_alibi_slopes(weft_graph *g, int heads, weft_dtype dtype);
/* The mask [heads, queries, keys] for weft_attention and weft_nn_self_attention, causal or not: -slope |i + keys -
   queries - j| for query i, key j; the last query is at the last key, as causal attention has it. An expression of iota
   that attention computes where it needs it. No heads, or another dtype: a problem, and NULL. */
WEFT_API weft_value *weft_nn_alibi(weft_graph *g, int heads, weft_dim queries, weft_dim keys, weft_dtype dtype);

/* A BERT encoder (Devlin et al. 2019) from a safetensors file with the reference names. */
typedef struct weft_nn_bert_options {
    size_t struct_bytes;
    int layers, heads;
    double epsilon; /* of the layer norms; default 1e-12, as in the reference */
} weft_nn_bert_options;
#define WEFT_NN_BERT_OPTIONS_INIT {sizeof(weft_nn_bert_options), 0, 0, 0}
/* ids [B, T] i64 tokens, mask [B, T] i64 (1 = token, 0 = padding) -> hidden states [B, T, D]. */
WEFT_API weft_value *weft_nn_bert(weft_graph *g, weft_safetensors *weights, const weft_nn_bert_options *options,
                                  weft_value *ids, weft_value *mask);
/* Mean of hidden states over real tokens, scaled to length 1: the sentence embedding of all-MiniLM. */
WEFT_API weft_value *weft_nn_mean_pool(weft_graph *g, weft_value *hidden, weft_value *mask);

/* A vision transformer (Dosovitskiy et al. 2021) from a safetensors file with the reference names (timm, I-JEPA), all
   of one dtype, that of the images. */
typedef struct weft_nn_vit_options {
    size_t struct_bytes;
    int layers, heads;
    double epsilon; /* of the layer norms; default 1e-6, as in the reference */
    bool mean_pool; /* classify the mean of the tokens, not the first */
} weft_nn_vit_options;
#define WEFT_NN_VIT_OPTIONS_INIT {sizeof(weft_nn_vit_options), 0, 0, 0, false}
/* images [B, C, height, width], multiples of the patch's side -> logits [B, classes] when the file has head.weight,
   else normalised tokens [B, T, D]. */
WEFT_API weft_value *weft_nn_vit(weft_graph *g, weft_safetensors *weights, const weft_nn_vit_options *options,
                                 weft_value *images);

/* A vision transformer with parameters of its own, for training: weights by the same names, initial values normal with
   deviation 0.02 (cut at nothing), biases zero, class token and positions normal with 0.02. In mixed precision
   products, attention and gelu are in 16 bits, norms, residual stream and logits in the parameters' dtype. */
typedef struct weft_nn_vit_model {
    size_t struct_bytes;
    int layers, heads;
    int64_t width, patch, classes; /* classes 0: normalised tokens instead of logits */
    double epsilon;                /* default 1e-6 */
    bool mean_pool;                /* no class token: classify the mean of the tokens */
} weft_nn_vit_model;
#define WEFT_NN_VIT_MODEL_INIT {sizeof(weft_nn_vit_model), 0, 0, 0, 0, 0, 0.0, false}
/* images [B, C, height, width] of the parameters' dtype, extents that are numbers -> logits [B, classes] or tokens. */
WEFT_API weft_value *weft_nn_vit_train(weft_parameters *parameters, const weft_nn_vit_model *model, weft_value *images);

/* Linear layers with an activation between any two: x [..., widths[0]] -> [..., widths[count - 1]]. Names:
   PREFIX0.weight, PREFIX0.bias, PREFIX2.weight, ... as in a torch.nn.Sequential. */
typedef enum weft_nn_activation { WEFT_NN_RELU, WEFT_NN_GELU, WEFT_NN_TANH, WEFT_NN_SILU } weft_nn_activation;
typedef struct weft_nn_mlp_options {
    size_t struct_bytes;
    int count;
    const int64_t *widths;
    weft_nn_activation activation;
    const char *prefix; /* NULL = none */
} weft_nn_mlp_options;
#define WEFT_NN_MLP_OPTIONS_INIT {sizeof(weft_nn_mlp_options), 0, 0, WEFT_NN_RELU, 0}
WEFT_API weft_value *weft_nn_mlp(weft_parameters *parameters, const weft_nn_mlp_options *options, weft_value *x);

/* A residual network with torchvision's names: images [N, C, H, W] -> logits [N, classes], or features when classes is
   0. Blocks: 18 {2, 2, 2, 2}, 34 {3, 4, 6, 3}; with bottleneck 50 {3, 4, 6, 3}, 101 {3, 4, 23, 3}. Source: He et al.
   2016. */
typedef struct weft_nn_resnet_options {
    size_t struct_bytes;
    int blocks[4];
    bool bottleneck;
    bool small_images; /* a 3 by 3 stem without stride and pooling, for images of about 32 by 32 */
    bool train;        /* batch norms take the statistics of the batch */
    int64_t classes;
    int64_t width;   /* of the first stage; default 64 */
    double momentum; /* of running statistics; default 0.1 */
} weft_nn_resnet_options;
#define WEFT_NN_RESNET_OPTIONS_INIT {sizeof(weft_nn_resnet_options), {0}, false, false, false, 0, 0, 0.0}
WEFT_API weft_value *weft_nn_resnet(weft_parameters *parameters, const weft_nn_resnet_options *options,
                                    weft_value *images);

/* A Llama-class decoder with the reference names: tokens [B, T] i64 -> logits [B, T, vocabulary]. RMS norms, rotary
   positions, grouped heads, gated SiLU, no biases. Source: Touvron et al. 2023. */
typedef struct weft_nn_llama_options {
    size_t struct_bytes;
    int layers, heads, kv_heads;       /* kv_heads 0 = heads */
    int64_t width, hidden, vocabulary; /* hidden: of the gated layers */
    int64_t head_width;                /* default width / heads */
    double theta, epsilon;             /* defaults 10000, 1e-5 */
    bool tied;                         /* output weights are the embedding's */
    const weft_nn_rope_options *rope;  /* NULL = plain. Its head_width and base are the model's and theta where 0 */
} weft_nn_llama_options;
#define WEFT_NN_LLAMA_OPTIONS_INIT {sizeof(weft_nn_llama_options), 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, false, 0}
WEFT_API weft_value *weft_nn_llama(weft_parameters *parameters, const weft_nn_llama_options *options,
                                   weft_value *tokens);
/* The mean cross-entropy of the next tokens, as weft_nn_gpt_loss. */
WEFT_API weft_value *weft_nn_llama_loss(weft_parameters *parameters, const weft_nn_llama_options *options,
                                        weft_value *tokens, weft_value *labels, int64_t pieces,
                                        const struct weft_cross_entropy_options *loss);

/* A GPT: tokens [B, T] i64 -> logits [B, T, vocabulary]. Pre-norm blocks, learned positions, one projection for query,
   key and value, exact GELU, output weights tied to the embedding. Names and initial values as nanoGPT:
   transformer.wte.weight, transformer.h.N.attn.c_attn.weight ([3 D, D]), ... In mixed precision
   (weft_parameters_options) products, attention and gelu are in 16 bits; embeddings, the residual stream and norms in
   the parameters' dtype, logits are converted to it. Source: Radford et al. 2019. */
typedef struct weft_nn_gpt_options {
    size_t struct_bytes;
    int layers, heads;
    int64_t width, vocabulary, context;
    bool bias;                              /* of linear layers and norms */
    double dropout;                         /* of the embedding and of what blocks add to the stream */
    weft_value *step;                       /* with dropout of either kind: weft_optim_step */
    uint32_t seed;                          /* of dropout */
    const struct weft_remat_options *remat; /* of each block (transform.h); NULL = keep what derivatives need */
    double attention_dropout;               /* of attention's weights */
} weft_nn_gpt_options;
#define WEFT_NN_GPT_OPTIONS_INIT {sizeof(weft_nn_gpt_options), 0, 0, 0, 0, 0, false, 0.0, 0, 0, 0, 0.0}
WEFT_API weft_value *weft_nn_gpt(weft_parameters *parameters, const weft_nn_gpt_options *options, weft_value *tokens);
/* The same without its last product: normalised states [B, T, D] in the dtype of products; out_head: the weight
   [vocabulary, D] to give to weft_loss_linear_cross_entropy, which never makes all logits at once. */
WEFT_API weft_value *weft_nn_gpt_hidden(weft_parameters *parameters, const weft_nn_gpt_options *options,
                                        weft_value *tokens, weft_value **out_head);
/* Both: the mean cross-entropy of the next tokens, labels [B, T] i64. pieces and loss as in
   weft_loss_linear_cross_entropy: 0 takes the logits in pieces where there are more than 2^27 of them, 1 always whole.
 */
WEFT_API weft_value *weft_nn_gpt_loss(weft_parameters *parameters, const weft_nn_gpt_options *options,
                                      weft_value *tokens, weft_value *labels, int64_t pieces,
                                      const struct weft_cross_entropy_options *loss);

#ifdef __cplusplus
}
#endif
#endif
