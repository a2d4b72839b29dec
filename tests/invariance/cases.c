/* See cases.h. Letters: B batch, K contracted, N results of a row, T tokens, S keys, H heads, D head dim, C channels.
 */
#include "tests/invariance/cases.h"

#include "tests/support/numbers.h"
#include "weft/ops.h"

/* The same numbers for the same seed, about 1 / sqrt of the last extent but one. */
static weft_value *weights(weft_graph *g, uint64_t seed, double scale, int rank, const int64_t *shape) {
    weft_tensor *tensor;
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    if (!status) status = weft_tensor_create(context, WEFT_F32, rank, shape, &tensor);
    if (status) {
        weft_graph_report(g, status);
        return NULL;
    }
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++)
        data[i] = (float)(scale * ((double)(number_random(&seed) % 20001) / 10000.0 - 1.0));
    weft_value *value = weft_graph_constant(g, tensor);
    weft_tensor_release(tensor);
    weft_context_release(context);
    return value;
}

static weft_value *matrix(weft_graph *g, uint64_t seed, int64_t rows, int64_t columns) {
    return weights(g, seed, 0.2, 2, (int64_t[]){rows, columns});
}

static weft_value *input(weft_graph *g, const char *name, int rank, const weft_dim *shape) {
    return weft_graph_input(g, name, WEFT_F32, rank, shape);
}

static void product_of(weft_graph *g, weft_dim batch, int64_t k, int64_t n, weft_dtype dtype) {
    weft_value *x = weft_convert(g, input(g, "x", 2, (weft_dim[]){batch, k}), dtype);
    weft_value *y = weft_matmul(g, x, weft_convert(g, matrix(g, 1, k, n), dtype));
    y = weft_add(g, weft_convert(g, y, WEFT_F32), weights(g, 2, 1, 1, (int64_t[]){n}));
    weft_graph_output(g, "y", weft_relu(g, y));
}

static void build_product(weft_graph *g, weft_dim batch) { product_of(g, batch, 300, 130, WEFT_F32); }
static void build_wide_product(weft_graph *g, weft_dim batch) { product_of(g, batch, 1100, 700, WEFT_F32); }
static void build_half_product(weft_graph *g, weft_dim batch) { product_of(g, batch, 272, 136, WEFT_BF16); }

/* Both operands come from outside: few rows times columns that lie along K. */
static void build_free_product(weft_graph *g, weft_dim batch) {
    weft_value *x = input(g, "x", 2, (weft_dim[]){batch, 200});
    weft_dot_options o = WEFT_DOT_OPTIONS_INIT;
    static const int64_t last = 1;
    o.contract_count = 1, o.lhs_contract = &last, o.rhs_contract = &last;
    weft_value *w = weft_tanh(g, matrix(g, 3, 96, 200));
    weft_graph_output(g, "y", weft_dot_general(g, x, weft_optimization_barrier(g, w), &o));
}

static void build_layers(weft_graph *g, weft_dim batch) {
    weft_value *x = input(g, "x", 2, (weft_dim[]){batch, 3});
    static const int64_t widths[] = {3, 64, 64, 64, 2};
    for (uint64_t i = 0; i < 4; i++) {
        x = weft_matmul(g, x, matrix(g, 10 + i, widths[i], widths[i + 1]));
        x = weft_add(g, x, weights(g, 20 + i, 0.1, 1, &widths[i + 1]));
        if (i < 3) x = weft_tanh(g, x);
    }
    weft_graph_output(g, "y", x);
}

static void build_norm(weft_graph *g, weft_dim batch) {
    static const int64_t axis = -1, n = 768;
    weft_value *x = input(g, "x", 2, (weft_dim[]){batch, n});
    weft_value *y = weft_layer_norm(g, x, weights(g, 4, 1, 1, &n), weights(g, 5, 1, 1, &n), 1, &axis, 1e-5);
    weft_graph_output(g, "y", y);
}

static void build_softmax(weft_graph *g, weft_dim batch) {
    weft_graph_output(g, "y", weft_softmax(g, input(g, "x", 2, (weft_dim[]){batch, 20011}), -1));
}

/* Long rows of few: what is cut into pieces where results do not fill a machine. */
static void build_row_sum(weft_graph *g, weft_dim batch) {
    static const int64_t axis = -1;
    weft_value *x = input(g, "x", 2, (weft_dim[]){batch, 40000});
    weft_graph_output(g, "y", weft_reduce_sum(g, weft_mul(g, x, x), 1, &axis, false));
}

/* Sums beside each other: lanes are channels. */
static void build_token_mean(weft_graph *g, weft_dim batch) {
    static const int64_t axis = 1;
    weft_value *x = input(g, "x", 3, (weft_dim[]){batch, 3000, 40});
    weft_graph_output(g, "y", weft_reduce_mean(g, x, 1, &axis, false));
}

static void build_small_token_mean(weft_graph *g, weft_dim batch) {
    static const int64_t axis = 1;
    weft_value *x = input(g, "x", 3, (weft_dim[]){batch, 2500, 4});
    weft_graph_output(g, "y", weft_reduce_mean(g, x, 1, &axis, false));
}

/* A norm whose result a sum over tokens reads: groups that bytes would cut differently in large batches. */
static void build_pooled(weft_graph *g, weft_dim batch) {
    static const int64_t last = -1, tokens = 1, n = 384;
    weft_value *x = input(g, "x", 3, (weft_dim[]){batch, 8, n}), *keep = input(g, "keep", 2, (weft_dim[]){batch, 8});
    weft_value *y = weft_layer_norm(g, x, weights(g, 8, 1, 1, &n), weights(g, 9, 1, 1, &n), 1, &last, 1e-5);
    static const int64_t axes[2] = {0, 1};
    y = weft_mul(g, y, weft_broadcast(g, keep, 3, (weft_dim[]){batch, 8, n}, axes));
    weft_graph_output(g, "y", weft_reduce_sum(g, y, 1, &tokens, false));
}

static void attention_of(weft_graph *g, weft_dim batch, int64_t t, int64_t s, weft_dtype dtype, bool causal) {
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = causal;
    weft_value *q = weft_convert(g, input(g, "q", 4, (weft_dim[]){batch, 4, t, 32}), dtype);
    weft_value *k = weft_convert(g, input(g, "k", 4, (weft_dim[]){batch, 2, s, 32}), dtype);
    weft_value *v = weft_convert(g, input(g, "v", 4, (weft_dim[]){batch, 2, s, 32}), dtype);
    weft_graph_output(g, "y", weft_convert(g, weft_attention(g, q, k, v, NULL, &o), WEFT_F32));
}

static void build_attention(weft_graph *g, weft_dim batch) { attention_of(g, batch, 17, 17, WEFT_F32, true); }
static void build_decode(weft_graph *g, weft_dim batch) { attention_of(g, batch, 1, 1024, WEFT_F32, false); }

static void build_convolution(weft_graph *g, weft_dim batch) {
    static const weft_dim one[2] = {1, 1};
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    o.low = o.high = one;
    weft_value *x = input(g, "x", 4, (weft_dim[]){batch, 5, 9, 11});
    weft_value *y = weft_relu(g, weft_convolution(g, x, weights(g, 6, 0.3, 4, (int64_t[]){24, 5, 3, 3}), &o));
    y = weft_convolution(g, y, weights(g, 7, 0.3, 4, (int64_t[]){16, 24, 1, 1}), NULL);
    weft_graph_output(g, "y", y);
}

/* x [B, T, C] -> the same: norm, attention of two heads, norm, four times as wide and back. */
static weft_value *block(weft_graph *g, weft_value *x, weft_dim batch, int64_t t, int64_t c, uint64_t seed) {
    static const int64_t axis = -1, swap[4] = {0, 2, 1, 3};
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    weft_dim tokens[3] = {batch, t, c}, heads[4] = {batch, t, 2, c / 2};
    weft_value *y = weft_layer_norm(g, x, weights(g, seed, 1, 1, &c), NULL, 1, &axis, 1e-5), *qkv[3];
    for (uint64_t i = 0; i < 3; i++)
        qkv[i] = weft_transpose(g, weft_reshape(g, weft_matmul(g, y, matrix(g, seed + 1 + i, c, c)), 4, heads), swap);
    y = weft_transpose(g, weft_attention(g, qkv[0], qkv[1], qkv[2], NULL, &o), swap);
    x = weft_add(g, x, weft_matmul(g, weft_reshape(g, y, 3, tokens), matrix(g, seed + 4, c, c)));
    y = weft_layer_norm(g, x, weights(g, seed + 5, 1, 1, &c), NULL, 1, &axis, 1e-5);
    y = weft_gelu(g, weft_matmul(g, y, matrix(g, seed + 6, c, 4 * c)), false);
    return weft_add(g, x, weft_matmul(g, y, matrix(g, seed + 7, 4 * c, c)));
}

/* Embedded tokens in, probabilities of 61 next ones out. */
static void build_gpt(weft_graph *g, weft_dim batch) {
    enum { T = 10, C = 48 };
    weft_value *x = input(g, "x", 3, (weft_dim[]){batch, T, C});
    for (uint64_t i = 0; i < 2; i++) x = block(g, x, batch, T, C, 100 + 20 * i);
    weft_graph_output(g, "y", weft_softmax(g, weft_matmul(g, x, matrix(g, 200, C, 61)), -1));
}

const invariance_case invariance_cases[] = {{"product", build_product, true},
                                            {"wide product", build_wide_product, false},
                                            {"product of bf16", build_half_product, true},
                                            {"product of two inputs", build_free_product, true},
                                            {"layers", build_layers, true},
                                            {"layer norm", build_norm, true},
                                            {"softmax", build_softmax, false},
                                            {"sum of rows", build_row_sum, true},
                                            {"mean of tokens", build_token_mean, false},
                                            {"mean of tokens, few channels", build_small_token_mean, true},
                                            {"pooled norm", build_pooled, true},
                                            {"attention", build_attention, true},
                                            {"decoding", build_decode, false},
                                            {"convolution", build_convolution, true},
                                            {"GPT", build_gpt, true}};
const int invariance_case_count = sizeof invariance_cases / sizeof *invariance_cases;
