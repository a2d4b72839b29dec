/* Vision transformer (Dosovitskiy et al. 2021), pre-norm, exact GELU, learned or fixed absolute positions. Weights by
   their names in the reference state dicts (timm, I-JEPA): patch_embed.proj.weight, blocks.N.attn.qkv.weight, ...: from
   a file, or parameters of their own. A file with cls_token has a class token, one with head.weight a classifier on it
   (or on the mean of the tokens).

   Letters: B images, C channels, P side of a patch, T tokens, D width, H heads. */
#include "base/need.h"
#include "weft/nn.h"

#include <stdio.h>

#include "stdlib/nn/mixed.h"
#include "stdlib/nn/weights.h"

/* Where weights come from: a file, or parameters of a model. */
typedef struct vit {
    weft_graph *g;
    weft_safetensors *file;
    weft_parameters *p;
    int layers, heads;
    double epsilon;
    bool class_token, head, mean_pool;
    int64_t width, patch, channels, tokens, classes; /* of parameters; a file knows its own */
    weft_dtype dtype;                                /* of the residual stream */
} vit;

static const double deviation = 0.02;

static weft_value *weight(const vit *v, const char *name, weft_init_kind init, int rank, const int64_t *shape) {
    return v->p ? weft_parameters_add(v->p, name, init, deviation, rank, shape) : weft_nn_weight(v->g, v->file, name);
}

static weft_value *norm(const vit *v, const char *name, weft_value *x) {
    char full[112];
    int64_t last[1] = {weft_value_rank(x) - 1};
    snprintf(full, sizeof full, "%s.weight", name);
    weft_value *scale = weight(v, full, WEFT_INIT_ONES, 1, &v->width);
    snprintf(full, sizeof full, "%s.bias", name);
    weft_value *bias = weight(v, full, WEFT_INIT_ZEROS, 1, &v->width);
    return weft_layer_norm(v->g, x, scale, bias, 1, last, v->epsilon);
}

static weft_value *linear(const vit *v, const char *name, weft_value *x, int64_t outputs, int64_t inputs) {
    char full[112];
    snprintf(full, sizeof full, "%s.weight", name);
    weft_value *w = weight(v, full, WEFT_INIT_NORMAL, 2, (int64_t[]){outputs, inputs});
    snprintf(full, sizeof full, "%s.bias", name);
    return weft_nn_linear(v->g, x, w, weight(v, full, WEFT_INIT_ZEROS, 1, &outputs));
}

/* images [B, C, Y P, X P] -> [B, Y X, D]: a patch is a row, the convolution of stride P one product. */
static weft_value *embed_patches(const vit *v, weft_value *images) {
    weft_graph *g = v->g;
    weft_value *kernel = weight(v, "patch_embed.proj.weight", WEFT_INIT_NORMAL, 4,
                                (int64_t[]){v->width, v->channels, v->patch, v->patch});
    if (weft_value_rank(kernel) != 4 || weft_value_rank(images) != 4) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                         "patch_embed.proj.weight of rank %d, images of rank %d: expected 4 and 4",
                                         weft_value_rank(kernel), weft_value_rank(images)));
        return images;
    }
    weft_dim b = weft_value_dim(images, 0), c = weft_value_dim(images, 1), d = weft_value_dim(kernel, 0);
    weft_dim p = weft_value_dim(kernel, 2), y = weft_dim_floor_divide(g, weft_value_dim(images, 2), p),
             x = weft_dim_floor_divide(g, weft_value_dim(images, 3), p);
    weft_dim area = weft_dim_times(g, c, weft_dim_times(g, p, p));
    int64_t order[6] = {0, 2, 4, 1, 3, 5};
    images = weft_nn_as(g, images, weft_value_dtype(kernel));
    weft_value *patches = weft_transpose(g, weft_reshape(g, images, 6, (weft_dim[]){b, c, y, p, x, p}), order);
    weft_value *rows = weft_reshape(g, patches, 3, (weft_dim[]){b, weft_dim_times(g, y, x), area});
    return weft_nn_linear(g, rows, weft_reshape(g, kernel, 2, (weft_dim[]){d, area}),
                          weight(v, "patch_embed.proj.bias", WEFT_INIT_ZEROS, 1, &v->width));
}

/* [B, N, D] -> [B, T, D] with the class token first, where there is one, and positions. */
static weft_value *embed(const vit *v, weft_value *images) {
    weft_graph *g = v->g;
    weft_value *x = weft_nn_as(g, embed_patches(v, images), v->dtype);
    if (v->class_token) {
        weft_value *token = weight(v, "cls_token", WEFT_INIT_NORMAL, 3, (int64_t[]){1, 1, v->width});
        weft_dim shape[3] = {weft_value_dim(x, 0), 1, weft_value_dim(x, 2)};
        token = weft_nn_as(g, token, v->dtype);
        x = weft_concat(g, 1, 2, (weft_value *[]){weft_broadcast_to(g, token, 3, shape), x});
    }
    weft_value *positions = weight(v, "pos_embed", WEFT_INIT_NORMAL, 3, (int64_t[]){1, v->tokens, v->width});
    return weft_add(g, x, weft_nn_as(g, positions, v->dtype));
}

/* Part `index` of qkv [B, T, 3, H, D / H], as [B, H, T, D / H]. */
static weft_value *part(weft_graph *g, weft_value *qkv, int index) {
    int64_t order[4] = {0, 2, 1, 3}, axis = 2;
    return weft_transpose(g, weft_squeeze(g, weft_slice_axis(g, qkv, 2, index, index + 1), 1, &axis), order);
}

static weft_value *mix(const vit *v, const char *name, weft_value *x) {
    char full[96];
    weft_graph *g = v->g;
    weft_dim b = weft_value_dim(x, 0), t = weft_value_dim(x, 1), d = weft_value_dim(x, 2);
    snprintf(full, sizeof full, "%s.attn.qkv", name);
    weft_value *joint = linear(v, full, x, 3 * v->width, v->width);
    weft_dim split[5] = {b, t, 3, v->heads, weft_dim_floor_divide(g, d, v->heads)}, joined[3] = {b, t, d};
    weft_value *qkv = weft_reshape(g, joint, 5, split);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    weft_value *q = part(g, qkv, 0), *k = part(g, qkv, 1);
    weft_value *mixed = weft_attention(g, q, k, part(g, qkv, 2), NULL, &options);
    int64_t order[4] = {0, 2, 1, 3};
    snprintf(full, sizeof full, "%s.attn.proj", name);
    return linear(v, full, weft_reshape(g, weft_transpose(g, mixed, order), 3, joined), v->width, v->width);
}

static weft_value *transform(const vit *v, const char *name, weft_value *x) {
    char full[96];
    snprintf(full, sizeof full, "%s.mlp.fc1", name);
    weft_value *wide = linear(v, full, x, 4 * v->width, v->width);
    snprintf(full, sizeof full, "%s.mlp.fc2", name);
    wide = v->p ? weft_nn_gelu(v->g, wide) : weft_gelu(v->g, wide, false);
    return linear(v, full, wide, v->width, 4 * v->width);
}

static weft_value *block(const vit *v, int i, weft_value *x) {
    char name[64], full[96];
    snprintf(name, sizeof name, "blocks.%d", i);
    snprintf(full, sizeof full, "%s.norm1", name);
    x = weft_add(v->g, x, weft_nn_as(v->g, mix(v, name, norm(v, full, x)), v->dtype));
    snprintf(full, sizeof full, "%s.norm2", name);
    return weft_add(v->g, x, weft_nn_as(v->g, transform(v, name, norm(v, full, x)), v->dtype));
}

static weft_value *build(const vit *v, weft_value *images) {
    weft_graph *g = v->g;
    weft_value *x = embed(v, images);
    for (int i = 0; i < v->layers; i++) x = block(v, i, x);
    if (!v->head) return norm(v, "norm", x);
    int64_t tokens[1] = {1};
    if (v->mean_pool)
        x = weft_reduce_mean(g, norm(v, "norm", x), 1, tokens, false);
    else /* of the other tokens nothing is wanted any more */
        x = norm(v, "norm", weft_squeeze(g, weft_slice_axis(g, x, 1, 0, 1), 1, tokens));
    return weft_nn_as(g, linear(v, "head", x, v->classes, v->width), v->dtype);
}

weft_value *weft_nn_vit(weft_graph *g, weft_safetensors *weights, const weft_nn_vit_options *options,
                        weft_value *images) {
    weft_nn_vit_options own = WEFT_NN_VIT_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_VIT_OPTIONS_INIT))) return images;
    vit v = {.g = g, .file = weights, .layers = own.layers, .heads = own.heads};
    v.epsilon = own.epsilon > 0 ? own.epsilon : 1e-6, v.mean_pool = own.mean_pool;
    v.class_token = weft_safetensors_find(weights, "cls_token") >= 0;
    v.head = weft_safetensors_find(weights, "head.weight") >= 0;
    v.dtype = weft_value_dtype(images);
    return build(&v, images);
}

weft_value *weft_nn_vit_train(weft_parameters *parameters, const weft_nn_vit_model *model, weft_value *images) {
    if (!parameters) return NULL; /* there is no graph for a problem; what takes the result has one */
    weft_graph *g = weft_parameters_graph(parameters);
    weft_nn_vit_model own = WEFT_NN_VIT_MODEL_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, model, WEFT_NN_VIT_MODEL_INIT))) return images;
    vit v = {.g = g, .p = parameters, .layers = own.layers, .heads = own.heads};
    bool fits = images && weft_value_rank(images) == 4 && own.patch > 0 && own.heads > 0;
    if (!fits) {
        weft_graph_report(v.g, WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                           "a vision transformer takes images of rank 4, a patch's side and heads"));
        return images;
    }
    v.epsilon = own.epsilon > 0 ? own.epsilon : 1e-6, v.mean_pool = own.mean_pool;
    v.class_token = !own.mean_pool, v.head = own.classes > 0;
    v.width = own.width, v.patch = own.patch, v.classes = own.classes;
    v.channels = weft_value_dim(images, 1);
    v.tokens = weft_value_dim(images, 2) / v.patch * (weft_value_dim(images, 3) / v.patch) + (v.class_token ? 1 : 0);
    v.dtype = weft_value_dtype(images);
    return build(&v, images);
}
