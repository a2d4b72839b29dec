/* See cases.h. */
#include "tests/cuda/cases.h"

#include <stdio.h>
#include <string.h>

#include "ir/build.h"
#include "weft/nn.h"
#include "weft/ops.h"
#include "weft/transform.h"

static weft_dtype dtype_of(int64_t number) {
    static const weft_dtype dtypes[] = {WEFT_BF16,   WEFT_F16,    WEFT_F32,     WEFT_F8E4M3FN,
                                        WEFT_F8E5M2, WEFT_F8E5M2, WEFT_F8E4M3FN};
    return number >= 0 && number < 7 ? dtypes[number] : WEFT_INVALID;
}

/* [m, n] as bf16: the product times two scalars. */
static weft_value *scaled(weft_graph *g, weft_value *d, const weft_dim *shape) {
    weft_value *a = weft_broadcast(g, weft_graph_input(g, "scale_a", WEFT_F32, 0, NULL), 2, shape, NULL);
    weft_value *b = weft_broadcast(g, weft_graph_input(g, "scale_b", WEFT_F32, 0, NULL), 2, shape, NULL);
    return weft_convert(g, weft_mul(g, weft_mul(g, d, a), b), WEFT_BF16);
}

static void build_matmul(weft_graph *g, const int64_t *x) {
    weft_dim m = x[0], n = x[1], k = x[2];
    bool tn = x[3] == 2, nt = x[3] == 1;
    weft_dtype dtype = dtype_of(x[5] & 7);
    weft_value *a = weft_graph_input(g, "a", dtype, 2, tn ? (weft_dim[]){k, m} : (weft_dim[]){m, k});
    weft_dtype dtype_b = (x[5] & 7) == 5 ? WEFT_F8E4M3FN : (x[5] & 7) == 6 ? WEFT_F8E5M2 : dtype;
    weft_value *b = weft_graph_input(g, "b", dtype_b, 2, nt ? (weft_dim[]){n, k} : (weft_dim[]){k, n});
    int64_t lhs = tn ? 0 : 1, rhs = nt ? 1 : 0;
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = &lhs, options.rhs_contract = &rhs;
    options.dtype = x[4] ? WEFT_F32 : dtype;
    weft_value *d = weft_dot_general(g, a, b, &options);
    weft_dim shape[2] = {m, n};
    if (x[4] == 2) d = scaled(g, d, shape);
    if (x[4] == 1) {
        int64_t rows = 0, columns = 1;
        weft_value *scale = weft_broadcast(g, weft_graph_input(g, "scale", WEFT_F32, 1, &m), 2, shape, &rows);
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        weft_value *residual = weft_graph_input(g, "residual", dtype, 2, shape);
        d = weft_gelu(g, weft_add(g, weft_mul(g, d, scale), bias), false);
        d = weft_add(g, weft_convert(g, d, dtype), residual);
    }
    if (x[4] == 3) {
        int64_t columns = 1;
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        weft_value *h = weft_convert(g, weft_add(g, d, bias), dtype);
        weft_graph_output(g, "h", h);
        d = weft_gelu(g, h, false);
    }
    if (x[4] == 4) {
        int64_t columns = 1;
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        d = weft_add(g, weft_add(g, d, bias), weft_graph_input(g, "residual", WEFT_F32, 2, shape));
    }
    if (x[4] == 7) {
        int64_t columns = 1;
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        weft_value *kept = weft_graph_input(g, "kept", WEFT_BOOL, 2, shape);
        d = weft_where(g, kept, weft_mul_number(g, weft_add(g, d, bias), 1.25), weft_scalar(g, WEFT_F32, 0));
        d = weft_add(g, weft_graph_input(g, "residual", WEFT_F32, 2, shape), d);
    }
    if (x[4] == 8) { /* as weft_nn_linear and weft_nn_gelu are in a training step */
        int64_t columns = 1;
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        weft_value *h = weft_convert(g, weft_add(g, weft_convert(g, weft_convert(g, d, dtype), WEFT_F32), bias), dtype);
        weft_value *gelu = weft_nn_gelu(g, h);
        weft_graph_output(g, "gelu", gelu);
        weft_gradient(g, gelu, NULL, 1, &h, &d);
    }
    if (x[4] == 9) d = weft_mul(g, weft_convert(g, d, dtype), weft_graph_input(g, "slope", dtype, 2, shape));
    if (x[4] == 5 || x[4] == 6) {
        int64_t columns = 1;
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        d = weft_add(g, d, bias);
        if (x[4] == 5)
            d = weft_convert(g, weft_gelu(g, d, false), dtype);
        else
            d = weft_add(g, weft_convert(g, d, dtype), weft_graph_input(g, "residual", dtype, 2, shape));
    }
    weft_graph_output(g, "d", d);
}

/* f8 with scales of blocks: a [m, k], b [n, k], then bias and GELU or nothing. */
static void build_scaled_dot(weft_graph *g, const int64_t *x) {
    weft_dim m = x[0], n = x[1], k = x[2], blocks = (k + 127) / 128;
    bool swapped = (x[4] & 7) == 5;
    weft_value *a = weft_graph_input(g, "a", dtype_of(x[4] & 7), 2, (weft_dim[]){m, k});
    weft_value *b = weft_graph_input(g, "b", swapped ? WEFT_F8E4M3FN : dtype_of(x[4] & 7), 2, (weft_dim[]){n, k});
    weft_value *scale_a = weft_graph_input(g, "scale_a", WEFT_F32, 2, (weft_dim[]){m, blocks});
    weft_value *scale_b = weft_graph_input(g, "scale_b", WEFT_F32, 2, (weft_dim[]){(n + 127) / 128, blocks});
    weft_value *d = weft_scaled_dot(g, a, b, scale_a, scale_b, NULL);
    if (x[3]) {
        int64_t columns = 1;
        weft_dim shape[2] = {m, n};
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, &n), 2, shape, &columns);
        d = weft_convert(g, weft_gelu(g, weft_add(g, weft_convert(g, d, WEFT_F32), bias), false), WEFT_BF16);
    }
    weft_graph_output(g, "d", d);
}

/* Groups of rows: x [m, k], w [groups, k, n] (contract 1) or [groups, n, k] (2), or y [m, n] with rows contracted (0).
 */
static void build_ragged_dot(weft_graph *g, const int64_t *x) {
    weft_dim m = x[0], groups = x[1], k = x[2], n = x[3], bounds = groups + 1;
    weft_dtype dtype = dtype_of(x[5] & 7);
    weft_value *a = weft_graph_input(g, "x", dtype, 2, (weft_dim[]){m, k}), *b;
    if (x[4] == 0)
        b = weft_graph_input(g, "y", dtype, 2, (weft_dim[]){m, n});
    else
        b = weft_graph_input(g, "w", dtype, 3, x[4] == 1 ? (weft_dim[]){groups, k, n} : (weft_dim[]){groups, n, k});
    weft_value *offsets = weft_graph_input(g, "offsets", WEFT_I32, 1, &bounds);
    weft_graph_output(g, "d", weft_ragged_dot(g, a, b, offsets, x[4], WEFT_INVALID));
}

static void build_batched(weft_graph *g, const int64_t *x) {
    bool nt = x[4] == 1;
    weft_dim b = x[0], m = x[1], n = x[2], k = x[3];
    weft_value *left = weft_graph_input(g, "a", WEFT_BF16, 3, (weft_dim[]){b, m, k});
    weft_value *right = weft_graph_input(g, "b", WEFT_BF16, 3, nt ? (weft_dim[]){b, n, k} : (weft_dim[]){b, k, n});
    int64_t batch = 0, lhs = 2, rhs = nt ? 2 : 1;
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.batch_count = 1, options.lhs_batch = &batch, options.rhs_batch = &batch;
    options.contract_count = 1, options.lhs_contract = &lhs, options.rhs_contract = &rhs;
    options.dtype = WEFT_BF16;
    weft_graph_output(g, "d", weft_dot_general(g, left, right, &options));
}

static void build_convolution(weft_graph *g, const int64_t *x, weft_dtype dtype) {
    weft_dim in[4] = {x[0], x[1], x[3], x[3]}, kernel[4] = {x[2], x[1] / x[7], x[4], x[4]};
    int64_t stride[2] = {x[5], x[5]}, channels = 1;
    weft_dim pad[2] = {x[6], x[6]};
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = stride, options.low = pad, options.high = pad, options.groups = x[7];
    weft_value *input = weft_graph_input(g, "x", dtype, 4, in); /* one by one: arguments have no order */
    weft_value *y = weft_convolution(g, input, weft_graph_input(g, "w", dtype, 4, kernel), &options);
    weft_dim shape[4] = {weft_value_dim(y, 0), weft_value_dim(y, 1), weft_value_dim(y, 2), weft_value_dim(y, 3)};
    weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", dtype, 1, &x[2]), 4, shape, &channels);
    weft_graph_output(g, "y", weft_relu(g, weft_add(g, y, bias)));
}

static void build_attention(weft_graph *g, const int64_t *x) {
    weft_dtype dtype = dtype_of(x[7]);
    weft_dim q[4] = {x[0], x[1], x[3], x[5]}, kv[4] = {x[0], x[2], x[4], x[5]};
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = x[6] != 0;
    weft_value *a = weft_graph_input(g, "q", dtype, 4, q), *b = weft_graph_input(g, "k", dtype, 4, kv),
               *c = weft_graph_input(g, "v", dtype, 4, kv);
    weft_graph_output(g, "o", weft_attention(g, a, b, c, NULL, &options));
}

/* The mask of a form: its inputs, and what is computed from them. q: [b, h, t, d]; kv: [b, hkv, s, d]. */
static weft_value *form_mask(weft_graph *g, const weft_dim *q, const weft_dim *kv, weft_dtype dtype, int64_t kind) {
    weft_dim scores[4] = {q[0], q[1], q[2], kv[2]}, line[4] = {q[0], 1, q[2], kv[2]}, whole[4] = {1, q[1], q[2], kv[2]},
             keys[4] = {q[0], 1, 1, kv[2]}, cell[2] = {q[2], kv[2]};
    int64_t heads[1] = {1}, rows[2] = {0, 2}, columns[2] = {0, 3}, both[2] = {2, 3};
    switch (kind % 10) {
    case 1: return weft_graph_input(g, "mask", dtype, 4, whole);
    case 2: return weft_graph_input(g, "mask", WEFT_BOOL, 4, line);
    case 3: { /* slopes times distances: Press et al. 2022 */
        weft_value *slope = weft_broadcast(g, weft_graph_input(g, "slope", WEFT_F32, 1, &q[1]), 4, scores, heads);
        weft_value *distance = weft_sub(g, weft_iota(g, WEFT_I64, 2, cell, 1), weft_iota(g, WEFT_I64, 2, cell, 0));
        distance = weft_broadcast(g, weft_convert(g, distance, WEFT_F32), 4, scores, both);
        return weft_mul(g, slope, distance);
    }
    case 4: { /* several sequences in a row: tokens see their own */
        weft_dim own[2] = {q[0], q[2]}, other[2] = {q[0], kv[2]};
        weft_value *a = weft_graph_input(g, "segment_q", WEFT_I32, 2, own),
                   *b = weft_graph_input(g, "segment_k", WEFT_I32, 2, other);
        return weft_compare(g, WEFT_EQ, weft_broadcast(g, a, 4, line, rows), weft_broadcast(g, b, 4, line, columns));
    }
    case 5: return weft_graph_input(g, "seen", WEFT_BOOL, 4, keys);
    case 6: { /* the first 200 keys: blocks that all see, some see and none sees */
        weft_value *key = weft_iota(g, WEFT_I64, 2, cell, 1);
        return weft_compare(g, WEFT_LT, key, weft_broadcast_to(g, weft_scalar_integer(g, WEFT_I64, 200), 2, cell));
    }
    default: return NULL;
    }
}

static const double form_dropout = 0.3;

/* Kinds from 10 on drop weights: the key of a place and a step, as weft_nn_dropout_key makes it. */
static weft_value *form_key(weft_graph *g, int64_t kind) {
    if (kind / 10 % 2 == 0) return NULL;
    weft_value *place = weft_scalar_integer(g, WEFT_U64, (int64_t)5 << 32 | 3);
    weft_value *first =
        weft_compare(g, WEFT_EQ, weft_iota(g, WEFT_I64, 1, (weft_dim[]){2}, 0), weft_scalar_integer(g, WEFT_I64, 0));
    return weft_where(g, first, place, weft_graph_input(g, "step", WEFT_U64, 0, NULL));
}

static void build_attention_form(weft_graph *g, const int64_t *x) {
    weft_dtype dtype = dtype_of(x[7]);
    weft_dim q[4] = {x[0], x[1], x[3], x[5]}, kv[4] = {x[0], x[2], x[4], x[5]};
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = x[6] != 0, options.soft_cap = (double)x[10];
    options.window_left = x[8], options.window_right = x[9];
    weft_value *a = weft_graph_input(g, "q", dtype, 4, q), *b = weft_graph_input(g, "k", dtype, 4, kv),
               *c = weft_graph_input(g, "v", dtype, 4, kv);
    weft_value *mask = form_mask(g, q, kv, dtype, x[11]);
    options.dropout_key = form_key(g, x[11]);
    if (options.dropout_key) options.dropout = form_dropout;
    weft_graph_output(g, "o", weft_attention(g, a, b, c, mask, &options));
}

/* x: as of a form, or with `forms` false the first 8 of it. */
static void build_attention_backward(weft_graph *g, const int64_t *x, bool forms) {
    weft_dtype dtype = dtype_of(x[7]);
    weft_dim q[4] = {x[0], x[1], x[3], x[5]}, kv[4] = {x[0], x[2], x[4], x[5]};
    weft_value *in[8] = {weft_graph_input(g, "q", dtype, 4, q)};
    int count = 6, given = 5;
    in[1] = weft_graph_input(g, "k", dtype, 4, kv);
    in[2] = weft_graph_input(g, "v", dtype, 4, kv);
    in[3] = weft_graph_input(g, "o", dtype, 4, q);
    in[4] = weft_graph_input(g, "lse", WEFT_F32, 3, q);
    in[5] = weft_graph_input(g, "do", dtype, 4, q);
    weft_value *mask = forms ? form_mask(g, q, kv, dtype, x[11]) : NULL, *key = forms ? form_key(g, x[11]) : NULL;
    if (mask) in[count++] = mask;
    if (key) in[count++] = key;
    weft_attribute attributes[7] = {weft_attr_float(WEFT_ATTR_scale, 0), weft_attr_int(WEFT_ATTR_causal, x[6] != 0),
                                    weft_attr_float(WEFT_ATTR_soft_cap, forms ? (double)x[10] : 0),
                                    weft_attr_int(WEFT_ATTR_window_left, forms ? x[8] : -1),
                                    weft_attr_int(WEFT_ATTR_window_right, forms ? x[9] : -1)};
    if (key) attributes[given++] = weft_attr_float(WEFT_ATTR_dropout, form_dropout);
    if (forms && x[11] >= 20) attributes[given++] = weft_attr_int(WEFT_ATTR_scores, 1);
    weft_node *node = weft_node_create(g, WEFT_OP_attention_backward, count, in, given, attributes, 0, NULL);
    static const char *const names[4] = {"dq", "dk", "dv", "ds"};
    for (int i = 0; node && i < node->result_count; i++) weft_graph_output(g, names[i], &node->results[i]);
}

/* Everything as tokens: q, k, v beside each other in columns, o and do as tokens, gradients as tokens. */
static void build_attention_backward_tokens(weft_graph *g, const int64_t *x) {
    static const int64_t swap[4] = {0, 2, 1, 3};
    weft_dtype dtype = dtype_of(x[5]);
    int64_t width = x[1] * x[3];
    weft_dim joint[3] = {x[0], x[2], 3 * width}, whole[3] = {x[0], x[2], width}, line[3] = {x[0], x[1], x[2]},
             heads[4] = {x[0], x[2], x[1], x[3]};
    weft_value *qkv = weft_graph_input(g, "x", dtype, 3, joint), *in[6];
    for (int i = 0; i < 3; i++)
        in[i] =
            weft_transpose(g, weft_reshape(g, weft_slice_axis(g, qkv, 2, i * width, (i + 1) * width), 4, heads), swap);
    in[3] = weft_transpose(g, weft_reshape(g, weft_graph_input(g, "o", dtype, 3, whole), 4, heads), swap);
    in[4] = weft_graph_input(g, "lse", WEFT_F32, 3, line);
    in[5] = weft_transpose(g, weft_reshape(g, weft_graph_input(g, "do", dtype, 3, whole), 4, heads), swap);
    weft_attribute attributes[5] = {weft_attr_float(WEFT_ATTR_scale, 0), weft_attr_int(WEFT_ATTR_causal, x[4] != 0),
                                    weft_attr_float(WEFT_ATTR_soft_cap, 0), weft_attr_int(WEFT_ATTR_window_left, -1),
                                    weft_attr_int(WEFT_ATTR_window_right, -1)};
    weft_node *node = weft_node_create(g, WEFT_OP_attention_backward, 6, in, 5, attributes, 0, NULL);
    static const char *const names[3] = {"dq", "dk", "dv"};
    for (int i = 0; node && i < 3; i++) weft_graph_output(g, names[i], weft_transpose(g, &node->results[i], swap));
}

static void build_attention_gradient(weft_graph *g, const int64_t *x) {
    weft_dtype dtype = dtype_of(x[7]);
    weft_dim q[4] = {x[0], x[1], x[3], x[5]}, kv[4] = {x[0], x[2], x[4], x[5]};
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = x[6] != 0;
    weft_value *in[3] = {weft_graph_input(g, "q", dtype, 4, q)}, *out[3];
    in[1] = weft_graph_input(g, "k", dtype, 4, kv);
    in[2] = weft_graph_input(g, "v", dtype, 4, kv);
    weft_value *o = weft_attention(g, in[0], in[1], in[2], NULL, &options);
    weft_gradient(g, o, weft_graph_input(g, "do", dtype, 4, q), 3, in, out);
    weft_graph_output(g, "o", o);
    static const char *const names[3] = {"dq", "dk", "dv"};
    for (int i = 0; i < 3; i++) weft_graph_output(g, names[i], out[i]);
}

static void build_rows(weft_graph *g, const char *name, const int64_t *x) {
    weft_dim shape[2] = {x[0], x[1]};
    int64_t axis = 1;
    if (!strcmp(name, "cross_entropy")) {
        weft_value *logits = weft_graph_input(g, "logits", WEFT_BF16, 2, shape),
                   *labels = weft_graph_input(g, "labels", WEFT_I64, 1, shape);
        weft_graph_output(g, "loss", weft_cross_entropy(g, weft_convert(g, logits, WEFT_F32), labels));
        return;
    }
    weft_dtype dtype = dtype_of(x[2]);
    weft_value *in = weft_graph_input(g, "x", dtype, 2, shape), *out;
    if (!strcmp(name, "softmax"))
        out = weft_softmax(g, in, 1);
    else {
        weft_value *scale = weft_graph_input(g, "scale", dtype, 1, &shape[1]);
        if (!strcmp(name, "rms_norm"))
            out = weft_rms_norm(g, in, scale, 1, &axis, 1e-5);
        else
            out = weft_layer_norm(g, in, scale, weft_graph_input(g, "bias", dtype, 1, &shape[1]), 1, &axis, 1e-5);
    }
    weft_graph_output(g, "y", out);
}

static void build_flat(weft_graph *g, const char *name, const int64_t *x) {
    weft_dim n = x[0];
    int64_t axis = 0;
    weft_value *a = weft_graph_input(g, "a", WEFT_F32, 1, &n);
    if (!strcmp(name, "sum"))
        weft_graph_output(g, "sum", weft_reduce_sum(g, a, 1, &axis, false));
    else if (!strcmp(name, "copy"))
        weft_graph_output(g, "y", weft_neg(g, a));
    else {
        weft_value *b = weft_graph_input(g, "b", WEFT_F32, 1, &n), *c = weft_graph_input(g, "c", WEFT_F32, 1, &n);
        weft_graph_output(g, "y", weft_mul(g, weft_add(g, weft_mul(g, a, b), c), weft_logistic(g, a)));
    }
}

weft_capability weft_bench_capability(const weft_capability *device, const char *name, const int64_t *numbers) {
    weft_capability own = *device;
    if (!strcmp(name, "convolution_tf32")) own.relax_f32 = true;
    if (!strcmp(name, "scaled_dot") && numbers[4] & 16) own.hopper = false;
    if (!strcmp(name, "ragged_dot") && numbers[5] & 16) own.hopper = false;
    if (strcmp(name, "matmul") != 0) return own;
    own.relax_f32 = own.relax_f8 = numbers[5] & 8;
    if (numbers[5] & 16) own.hopper = false;
    return own;
}

/* [B, T, 3 H D] as a joint projection leaves it, to [B, T, H D]. */
static void build_attention_tokens(weft_graph *g, const int64_t *x) {
    weft_dim b = x[0], h = x[1], t = x[2], d = x[3], all[3] = {b, t, 3 * h * d}, split[5] = {b, t, 3, h, d};
    int64_t swap[4] = {0, 2, 1, 3}, axis = 2;
    weft_value *qkv = weft_reshape(g, weft_graph_input(g, "qkv", dtype_of(x[5]), 3, all), 5, split), *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = weft_transpose(g, weft_squeeze(g, weft_slice_axis(g, qkv, 2, i, i + 1), 1, &axis), swap);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = x[4] != 0;
    weft_value *o = weft_transpose(g, weft_attention(g, part[0], part[1], part[2], NULL, &options), swap);
    weft_graph_output(g, "o", weft_reshape(g, o, 3, (weft_dim[]){b, t, h * d}));
}

/* tanh between layers of one width; the last one has one output. */
static void build_mlp(weft_graph *g, const int64_t *x) {
    weft_dim rows = x[0], in = x[1], width = x[2];
    weft_value *y = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){rows, in});
    for (int64_t i = 0; i < x[3]; i++) {
        bool last = i + 1 == x[3];
        weft_dim out = last ? 1 : width, shape[2] = {rows, out};
        int64_t contract = 1;
        char name[24];
        weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
        options.contract_count = 1, options.lhs_contract = options.rhs_contract = &contract;
        snprintf(name, sizeof name, "w%lld", (long long)i);
        y = weft_dot_general(g, y, weft_graph_input(g, name, WEFT_F32, 2, (weft_dim[]){out, in}), &options);
        snprintf(name, sizeof name, "b%lld", (long long)i);
        y = weft_add(g, y, weft_broadcast(g, weft_graph_input(g, name, WEFT_F32, 1, &out), 2, shape, &contract));
        if (!last) y = weft_tanh(g, y);
        in = out;
    }
    weft_graph_output(g, "y", y);
}

static void build_eigh(weft_graph *g, const int64_t *x) {
    weft_value *values, *vectors;
    weft_eigh(g, weft_graph_input(g, "a", WEFT_F32, 3, (weft_dim[]){x[0], x[1], x[1]}), &values, &vectors);
    weft_graph_output(g, "values", values);
    weft_graph_output(g, "vectors", vectors);
}

weft_status weft_bench_graph(weft_context *context, const char *name, int count, const int64_t *numbers,
                             weft_graph **out_graph) {
    static const struct {
        const char *name;
        int numbers;
    } rows[] = {{"matmul", 6},
                {"softmax", 3},
                {"layer_norm", 3},
                {"rms_norm", 3},
                {"cross_entropy", 2},
                {"pointwise", 1},
                {"sum", 1},
                {"copy", 1},
                {"attention", 8},
                {"convolution", 8},
                {"attention_backward", 8},
                {"attention_gradient", 8},
                {"mlp", 4},
                {"attention_tokens", 6},
                {"convolution_half", 8},
                {"convolution_tf32", 8},
                {"matmul_batched", 5},
                {"attention_form", 12},
                {"attention_backward_form", 12},
                {"attention_backward_tokens", 6},
                {"scaled_dot", 5},
                {"ragged_dot", 6},
                {"eigh", 2}};
    size_t row = 0;
    *out_graph = NULL;
    while (row < sizeof rows / sizeof *rows && strcmp(rows[row].name, name)) row++;
    if (row == sizeof rows / sizeof *rows) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "no case is called %s", name);
    if (count != rows[row].numbers)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s takes %d numbers", name, rows[row].numbers);
    WEFT_TRY(weft_graph_create(context, name, out_graph), "case %s", name);
    if (row == 0)
        build_matmul(*out_graph, numbers);
    else if (row == 8)
        build_attention(*out_graph, numbers);
    else if (row == 22)
        build_eigh(*out_graph, numbers);
    else if (row == 20)
        build_scaled_dot(*out_graph, numbers);
    else if (row == 21)
        build_ragged_dot(*out_graph, numbers);
    else if (row == 19)
        build_attention_backward_tokens(*out_graph, numbers);
    else if (row == 17)
        build_attention_form(*out_graph, numbers);
    else if (row == 16)
        build_batched(*out_graph, numbers);
    else if (row == 9 || row == 14 || row == 15)
        build_convolution(*out_graph, numbers, row == 14 ? WEFT_BF16 : WEFT_F32);
    else if (row == 10 || row == 18)
        build_attention_backward(*out_graph, numbers, row == 18);
    else if (row == 11)
        build_attention_gradient(*out_graph, numbers);
    else if (row == 12)
        build_mlp(*out_graph, numbers);
    else if (row == 13)
        build_attention_tokens(*out_graph, numbers);
    else if (row < 5)
        build_rows(*out_graph, name, numbers);
    else
        build_flat(*out_graph, name, numbers);
    weft_status status = weft_graph_verify(*out_graph);
    if (status) {
        weft_graph_release(*out_graph);
        *out_graph = NULL;
    }
    return status;
}
