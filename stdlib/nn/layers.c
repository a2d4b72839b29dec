/* Layers shared by models. */
#include <math.h>

#include "weft/nn.h"
#include "weft/transform.h"

#include "stdlib/nn/mixed.h"

weft_value *weft_nn_linear(weft_graph *g, weft_value *x, weft_value *weight, weft_value *bias) {
    int64_t swap[2] = {1, 0};
    weft_dtype dtype = weft_value_dtype(weight);
    weft_value *y = weft_matmul(g, weft_nn_as(g, x, dtype), weft_transpose(g, weight, swap));
    if (!bias) return y;
    /* where the bias is wider, the sum is made in its dtype and rounded once */
    weft_dtype sum = weft_value_dtype(bias);
    return weft_nn_as(g, weft_add(g, weft_nn_as(g, y, sum), bias), dtype);
}

static void gelu(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_gelu(g, arguments[0], false);
}

/* arguments: x and its tangent. Phi and phi: distribution and density of the standard normal, in f32 for 16 bits. What
   they share with the gelu of x beside them is computed once, and as short as the result's digits allow
   (codegen/tile/epilogue.h). */
static void gelu_tangent(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    weft_dtype dtype = weft_value_dtype(arguments[0]);
    bool narrow = dtype == WEFT_BF16 || dtype == WEFT_F16;
    weft_value *x = narrow ? weft_convert(g, arguments[0], WEFT_F32) : arguments[0];
    weft_value *scaled = weft_mul_number(g, x, 0.70710678118654752440); /* x / sqrt(2) */
    weft_value *distribution = weft_mul_number(g, weft_add_number(g, weft_erf(g, scaled), 1), 0.5);
    weft_value *density = weft_mul_number(g, weft_exp(g, weft_neg(g, weft_square(g, scaled))), 0.39894228040143267794);
    weft_value *factor = weft_add(g, distribution, weft_mul(g, x, density));
    results[0] = weft_mul(g, arguments[1], weft_nn_as(g, factor, dtype));
}

weft_value *weft_nn_gelu(weft_graph *g, weft_value *x) {
    weft_value *y;
    weft_custom_jvp(g, 1, &x, gelu, gelu_tangent, NULL, 1, &y);
    return y;
}

weft_value *weft_nn_dropout_key(weft_graph *g, weft_value *step, uint32_t seed, uint32_t site) {
    /* element by element: so it is no tensor of its own but part of what draws */
    weft_value *place = weft_scalar_integer(g, WEFT_U64, (int64_t)((uint64_t)seed << 32 | site));
    weft_value *half = weft_iota(g, WEFT_I64, 1, (weft_dim[]){2}, 0);
    weft_value *first = weft_compare(g, WEFT_EQ, half, weft_scalar_integer(g, WEFT_I64, 0));
    return weft_where(g, first, place, weft_convert(g, step, WEFT_U64));
}

weft_value *weft_nn_dropout(weft_graph *g, weft_value *x, double rate, weft_value *step, uint32_t seed, uint32_t site) {
    int rank = weft_value_rank(x);
    weft_dim shape[WEFT_MAX_RANK];
    if (rate <= 0) return x;
    for (int i = 0; i < rank; i++) shape[i] = weft_value_dim(x, i);
    /* 16 bits: rates come in whole 1 / 65536, a draw is shared by eight elements, and the scale is that of the rate
       drawn */
    long limit = rate < 1 ? lround(rate * 0x1p16) : 0x10000;
    if (limit > 0xffff) limit = 0xffff;
    weft_value *bits = weft_rng_bits(g, weft_nn_dropout_key(g, step, seed, site), WEFT_U16, rank, shape);
    weft_value *kept = weft_compare(g, WEFT_GE, bits, weft_scalar_integer(g, WEFT_U16, limit)),
               *zero = weft_scalar(g, weft_value_dtype(x), 0);
    return weft_where(g, kept, weft_mul_number(g, x, rate < 1 ? 1 / (1 - (double)limit * 0x1p-16) : 0), zero);
}

/* [B, T, D] -> [B, H, T, D / H] */
static weft_value *split_heads(weft_graph *g, weft_value *x, int heads) {
    weft_dim shape[4] = {weft_value_dim(x, 0), weft_value_dim(x, 1), heads,
                         weft_dim_floor_divide(g, weft_value_dim(x, 2), heads)};
    int64_t order[4] = {0, 2, 1, 3};
    return weft_transpose(g, weft_reshape(g, x, 4, shape), order);
}

weft_value *weft_nn_self_attention(weft_graph *g, weft_value *x, const weft_nn_attention_weights *w, int heads,
                                   weft_value *mask, bool causal, double dropout, weft_value *dropout_key) {
    static const weft_nn_attention_weights none = {0}; /* each is then a problem of the op that takes it */
    if (!w) w = &none;
    weft_value *q = split_heads(g, weft_nn_linear(g, x, w->query, w->query_bias), heads);
    weft_value *k = split_heads(g, weft_nn_linear(g, x, w->key, w->key_bias), heads);
    weft_value *v = split_heads(g, weft_nn_linear(g, x, w->value, w->value_bias), heads);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = causal, options.dropout = dropout, options.dropout_key = dropout_key;
    int64_t order[4] = {0, 2, 1, 3};
    weft_value *mixed = weft_transpose(g, weft_attention(g, q, k, v, mask, &options), order);
    weft_dim shape[3] = {weft_value_dim(x, 0), weft_value_dim(x, 1), weft_value_dim(x, 2)};
    return weft_nn_linear(g, weft_reshape(g, mixed, 3, shape), w->output, w->output_bias);
}

weft_value *weft_nn_mean_pool(weft_graph *g, weft_value *hidden, weft_value *mask) {
    int64_t last[1] = {2}, tokens[1] = {1}, width[1] = {1};
    weft_value *weight = weft_unsqueeze(g, weft_convert(g, mask, weft_value_dtype(hidden)), 1, last);
    weft_value *sum = weft_reduce_sum(g, weft_mul(g, hidden, weight), 1, tokens, false);
    weft_value *count =
        weft_max(g, weft_reduce_sum(g, weight, 1, tokens, false), weft_scalar(g, weft_value_dtype(hidden), 1e-9));
    weft_value *mean = weft_div(g, sum, count);
    weft_value *norm = weft_sqrt(g, weft_reduce_sum(g, weft_square(g, mean), 1, width, true));
    return weft_div(g, mean, weft_max(g, norm, weft_scalar(g, weft_value_dtype(hidden), 1e-12)));
}
