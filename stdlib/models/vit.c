/* Vision transformer (Dosovitskiy et al. 2021), pre-norm, exact GELU, learned or fixed absolute positions. Weights by
   their names in the reference state dicts (timm, I-JEPA): patch_embed.proj.weight, blocks.N.attn.qkv.weight, ...; a
   file with cls_token has a class token, one with head.weight a classifier on it (or on the mean of the tokens).

   Letters: B images, C channels, P side of a patch, T tokens, D width, H heads. */
#include "weft/nn.h"

#include <stdio.h>

#include "stdlib/nn/weights.h"

typedef struct vit {
    weft_graph *g;
    weft_safetensors *file;
    const weft_nn_vit_options *options;
} vit;

static bool has(const vit *v, const char *name) { return weft_safetensors_find(v->file, name) >= 0; }

static weft_value *weight(const vit *v, const char *name) { return weft_nn_weight(v->g, v->file, name); }

static weft_value *block_weight(const vit *v, int block, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "blocks.%d.%s", block, name);
    return weight(v, full);
}

static weft_value *norm(const vit *v, weft_value *x, weft_value *scale, weft_value *bias) {
    int64_t last[1] = {weft_value_rank(x) - 1};
    double epsilon = v->options->epsilon > 0 ? v->options->epsilon : 1e-6;
    return weft_layer_norm(v->g, x, scale, bias, 1, last, epsilon);
}

/* images [B, C, Y P, X P] -> [B, Y X, D]: a patch is a row, the convolution of stride P one product. */
static weft_value *embed_patches(const vit *v, weft_value *images) {
    weft_graph *g = v->g;
    weft_value *kernel = weight(v, "patch_embed.proj.weight");
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
    weft_value *patches = weft_transpose(g, weft_reshape(g, images, 6, (weft_dim[]){b, c, y, p, x, p}), order);
    weft_value *rows = weft_reshape(g, patches, 3, (weft_dim[]){b, weft_dim_times(g, y, x), area});
    return weft_nn_linear(g, rows, weft_reshape(g, kernel, 2, (weft_dim[]){d, area}),
                          weight(v, "patch_embed.proj.bias"));
}

/* [B, N, D] -> [B, T, D] with the class token first, where there is one, and positions. */
static weft_value *embed(const vit *v, weft_value *images) {
    weft_graph *g = v->g;
    weft_value *x = embed_patches(v, images);
    if (has(v, "cls_token")) {
        weft_dim shape[3] = {weft_value_dim(x, 0), 1, weft_value_dim(x, 2)};
        x = weft_concat(g, 1, 2, (weft_value *[]){weft_broadcast_to(g, weight(v, "cls_token"), 3, shape), x});
    }
    return weft_add(g, x, weight(v, "pos_embed"));
}

/* Part `index` of qkv [B, T, 3, H, D / H], as [B, H, T, D / H]. */
static weft_value *part(weft_graph *g, weft_value *qkv, int index) {
    int64_t order[4] = {0, 2, 1, 3}, axis = 2;
    return weft_transpose(g, weft_squeeze(g, weft_slice_axis(g, qkv, 2, index, index + 1), 1, &axis), order);
}

static weft_value *mix(const vit *v, int i, weft_value *x) {
    weft_graph *g = v->g;
    weft_dim b = weft_value_dim(x, 0), t = weft_value_dim(x, 1), d = weft_value_dim(x, 2);
    int heads = v->options->heads;
    weft_value *joint =
        weft_nn_linear(g, x, block_weight(v, i, "attn.qkv.weight"), block_weight(v, i, "attn.qkv.bias"));
    weft_dim split[5] = {b, t, 3, heads, weft_dim_floor_divide(g, d, heads)}, joined[3] = {b, t, d};
    weft_value *qkv = weft_reshape(g, joint, 5, split);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    weft_value *q = part(g, qkv, 0), *k = part(g, qkv, 1);
    weft_value *mixed = weft_attention(g, q, k, part(g, qkv, 2), NULL, &options);
    int64_t order[4] = {0, 2, 1, 3};
    return weft_nn_linear(g, weft_reshape(g, weft_transpose(g, mixed, order), 3, joined),
                          block_weight(v, i, "attn.proj.weight"), block_weight(v, i, "attn.proj.bias"));
}

static weft_value *transform(const vit *v, int i, weft_value *x) {
    weft_graph *g = v->g;
    weft_value *wide = weft_nn_linear(g, x, block_weight(v, i, "mlp.fc1.weight"), block_weight(v, i, "mlp.fc1.bias"));
    return weft_nn_linear(g, weft_gelu(g, wide, false), block_weight(v, i, "mlp.fc2.weight"),
                          block_weight(v, i, "mlp.fc2.bias"));
}

weft_value *weft_nn_vit(weft_graph *g, weft_safetensors *weights, const weft_nn_vit_options *options,
                        weft_value *images) {
    static const weft_nn_vit_options none = WEFT_NN_VIT_OPTIONS_INIT;
    vit v = {g, weights, options ? options : &none};
    weft_value *x = embed(&v, images);
    for (int i = 0; i < v.options->layers; i++) {
        x = weft_add(g, x,
                     mix(&v, i, norm(&v, x, block_weight(&v, i, "norm1.weight"), block_weight(&v, i, "norm1.bias"))));
        x = weft_add(
            g, x,
            transform(&v, i, norm(&v, x, block_weight(&v, i, "norm2.weight"), block_weight(&v, i, "norm2.bias"))));
    }
    if (!has(&v, "head.weight")) return norm(&v, x, weight(&v, "norm.weight"), weight(&v, "norm.bias"));
    int64_t tokens[1] = {1};
    if (v.options->mean_pool)
        x = weft_reduce_mean(g, norm(&v, x, weight(&v, "norm.weight"), weight(&v, "norm.bias")), 1, tokens, false);
    else /* of the other tokens nothing is wanted any more */
        x = norm(&v, weft_squeeze(g, weft_slice_axis(g, x, 1, 0, 1), 1, tokens), weight(&v, "norm.weight"),
                 weight(&v, "norm.bias"));
    return weft_nn_linear(g, x, weight(&v, "head.weight"), weight(&v, "head.bias"));
}
