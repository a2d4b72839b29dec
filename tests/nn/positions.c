/* Tables of rotary embeddings against tests/golden/positions.py, a Llama with them, linear biases of attention against
   plain loops and the recursive rule of their authors; what is refused. */
#include <math.h>
#include <stdlib.h>

#include "codegen/builders/builder.h"
#include "passes/pass.h"
#include "tests/support/golden.h"
#include "weft/nn.h"

enum { WIDTH = 64, PAIRS = WIDTH / 2, TOKENS = 7 };

typedef struct rope_case {
    const char *name;
    weft_nn_rope_options o;
} rope_case;
#define ROPE(scaling, factor, original, slow, fast, attention, by_pair)                                                \
    {sizeof(weft_nn_rope_options), WIDTH, 0, scaling, factor, original, slow, fast, attention, by_pair}
static const rope_case ropes[] = {
    {"plain", ROPE(WEFT_NN_ROPE_PLAIN, 0, 0, 0, 0, 0, false)},
    {"linear", ROPE(WEFT_NN_ROPE_LINEAR, 4, 0, 0, 0, 0, false)},
    {"ntk", ROPE(WEFT_NN_ROPE_NTK, 4, 0, 0, 0, 0, false)},
    {"yarn", ROPE(WEFT_NN_ROPE_YARN, 4, 2048, 0, 0, 0, false)},
    {"yarn", ROPE(WEFT_NN_ROPE_YARN, 4, 2048, 1, 32, 1.138629436111989, false)},
    {"by_pair", ROPE(WEFT_NN_ROPE_YARN, 4, 2048, 0, 0, 0, true)},
    {"attention", ROPE(WEFT_NN_ROPE_YARN, 4, 2048, 0, 0, 1.5, false)},
};
enum { ROPES = sizeof ropes / sizeof *ropes };

/* f64: all that the positions of the data give. f32: an angle of 8191 has 1e-3 of its own. */
START_TEST(test_rope) {
    const rope_case *c = &ropes[_i / 2];
    weft_dtype dtype = _i & 1 ? WEFT_F32 : WEFT_F64;
    weft_context *context;
    weft_graph *g;
    weft_value *table[2];
    weft_tensor *in[1], *out[2] = {0};
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "rope", &g));
    weft_safetensors *file = golden_open(context, "positions.safetensors");
    in[0] = golden_tensor(context, file, "positions", WEFT_INVALID);
    weft_value *positions = weft_graph_input(g, "positions", WEFT_I64, 1, weft_tensor_shape(in[0]));
    weft_nn_rope_tables(g, &c->o, dtype, positions, 0, &table[0], &table[1]);
    weft_graph_output(g, "cosine", table[0]), weft_graph_output(g, "sine", table[1]);
    compile_and_run(g, 1, in, out);
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%s", c->name, i ? "sine" : "cosine");
        weft_tensor *want = golden_tensor(context, file, name, WEFT_INVALID);
        double off = distance(out[i], want);
        ck_assert_msg(off < (dtype == WEFT_F64 ? 1e-11 : 1e-3), "%s of %s is off by %.3g", name, weft_dtype_name(dtype),
                      off);
        weft_tensor_release(want), weft_tensor_release(out[i]);
    }
    weft_tensor_release(in[0]);
    weft_safetensors_release(file);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* A range, positions of i32 and of i64 with the same numbers: the same tables; 16 bits are those rounded. */
START_TEST(test_positions) {
    weft_context *context;
    weft_graph *g;
    weft_tensor *in[2], *out[8] = {0};
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "positions", &g));
    weft_dim tokens = TOKENS, open = weft_graph_symbol(g, "T", 1, 64, 1);
    weft_value *at[4] = {NULL, NULL, weft_graph_input(g, "narrow", WEFT_I32, 1, &tokens),
                         weft_graph_input(g, "wide", WEFT_I64, 1, &open)};
    for (int i = 0; i < 4; i++) {
        weft_value *cosine, *sine;
        weft_nn_rope_tables(g, &ropes[3].o, i == 1 ? WEFT_F16 : WEFT_F32, at[i], tokens, &cosine, &sine);
        ck_assert_int_eq(weft_value_dtype(cosine), i == 1 ? WEFT_F16 : WEFT_F32);
        weft_graph_output(g, (char[]){'c', (char)('0' + i), 0}, weft_convert(g, cosine, WEFT_F32));
        weft_graph_output(g, (char[]){'s', (char)('0' + i), 0}, weft_convert(g, sine, WEFT_F32));
    }
    require(weft_tensor_create(context, WEFT_I32, 1, &tokens, &in[0]));
    require(weft_tensor_create(context, WEFT_I64, 1, &tokens, &in[1]));
    for (int i = 0; i < TOKENS; i++)
        ((int32_t *)weft_tensor_data(in[0]))[i] = i, ((int64_t *)weft_tensor_data(in[1]))[i] = i;
    compile_and_run(g, 2, in, out);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(weft_tensor_shape(out[i])[0], TOKENS);
        ck_assert_int_eq(weft_tensor_shape(out[i])[1], PAIRS);
        ck_assert_double_le(distance(out[i], out[i % 2]), i / 2 == 1 ? 1e-3 : 1e-6);
    }
    for (int i = 0; i < 8; i++) weft_tensor_release(out[i]);
    weft_tensor_release(in[0]), weft_tensor_release(in[1]);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

static weft_tensor *llama_logits(weft_context *context, double theta, const weft_nn_rope_options *rope) {
    weft_graph *g;
    weft_parameters *p;
    weft_tensor *tokens, *out = NULL;
    weft_dim shape[2] = {1, TOKENS};
    weft_parameters_options constant = WEFT_PARAMETERS_OPTIONS_INIT;
    constant.dtype = WEFT_F64, constant.constant = true;
    weft_nn_llama_options o = WEFT_NN_LLAMA_OPTIONS_INIT;
    o.layers = 1, o.heads = 2, o.width = 8, o.hidden = 8, o.vocabulary = 11, o.theta = theta, o.rope = rope;
    require(weft_graph_create(context, "llama", &g));
    require(weft_parameters_create(context, g, &constant, &p));
    weft_graph_output(g, "y", weft_nn_llama(p, &o, weft_graph_input(g, "tokens", WEFT_I64, 2, shape)));
    require(weft_tensor_create(context, WEFT_I64, 2, shape, &tokens));
    for (int i = 0; i < TOKENS; i++) ((int64_t *)weft_tensor_data(tokens))[i] = 3 * i % 11;
    compile_and_run(g, 1, &tokens, &out);
    weft_tensor_release(tokens);
    weft_parameters_release(p);
    weft_graph_release(g);
    return out;
}

/* Heads of 4: NTK with factor 3 is a base of 10000 * 3^2. */
START_TEST(test_llama_rope) {
    weft_context *context;
    require(weft_context_create(NULL, &context));
    weft_nn_rope_options plain = WEFT_NN_ROPE_OPTIONS_INIT, ntk = plain;
    ntk.scaling = WEFT_NN_ROPE_NTK, ntk.factor = 3;
    weft_tensor *base = llama_logits(context, 0, NULL), *same = llama_logits(context, 10000, &plain);
    weft_tensor *wide = llama_logits(context, 90000, NULL), *stretched = llama_logits(context, 0, &ntk);
    ck_assert_double_lt(distance(same, base), 1e-14);
    ck_assert_double_lt(distance(stretched, wide), 1e-14);
    ck_assert_double_gt(distance(stretched, base), 1e-9); /* and the positions are looked at */
    weft_tensor_release(base), weft_tensor_release(same), weft_tensor_release(wide), weft_tensor_release(stretched);
    weft_context_release(context);
}
END_TEST

/* Slopes as the authors' code makes them. */
static void reference_slopes(int heads, double *out) {
    int power = (int)exp2(floor(log2(heads)));
    double start = pow(2, -pow(2, -(log2(power) - 3))), more[64] = {0};
    for (int i = 0; i < power; i++) out[i] = start * pow(start, i);
    if (power == heads) return;
    reference_slopes(2 * power, more);
    for (int i = power; i < heads; i++) out[i] = more[2 * (i - power)];
}

START_TEST(test_slopes) {
    static const double eight[8] = {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625};
    weft_context *context;
    require(weft_context_create(NULL, &context));
    for (int heads = 1; heads <= 20; heads++) {
        weft_graph *g;
        weft_tensor *out;
        double want[64] = {0};
        require(weft_graph_create(context, "slopes", &g));
        weft_graph_output(g, "y", weft_nn_alibi_slopes(g, heads, WEFT_F64));
        require(weft_graph_interpret(g, 0, NULL, 1, &out));
        ck_assert_int_eq(weft_tensor_element_count(out), heads);
        reference_slopes(heads, want);
        for (int h = 0; h < heads; h++) ck_assert_double_eq_tol(element(out, h) / want[h], 1, 1e-13);
        for (int h = 0; heads == 8 && h < 8; h++) ck_assert_double_eq_tol(element(out, h), eight[h], 1e-14);
        weft_tensor_release(out);
        weft_graph_release(g);
    }
    weft_context_release(context);
}
END_TEST

enum { HEADS = 6, D = 4 };

/* One head in plain loops; q [t, D], k and v [s, D]. */
static void attend(const double *q, const double *k, const double *v, int t, int s, double slope, bool causal,
                   double *out) {
    for (int i = 0; i < t; i++) {
        double total = 0, sum[D] = {0};
        for (int j = 0; j < s; j++) {
            int behind = i + s - t - j;
            double score = -slope * abs(behind);
            for (int d = 0; d < D; d++) score += q[i * D + d] * k[j * D + d] / sqrt(D);
            double weight = causal && behind < 0 ? 0 : exp(score);
            total += weight;
            for (int d = 0; d < D; d++) sum[d] += weight * v[j * D + d];
        }
        for (int d = 0; d < D; d++) out[i * D + d] = sum[d] / total;
    }
}

static weft_tensor *filled(weft_context *context, int64_t rows, int seed) {
    weft_tensor *x;
    require(weft_tensor_create(context, WEFT_F64, 4, (int64_t[]){1, HEADS, rows, D}, &x));
    for (int64_t i = 0; i < weft_tensor_element_count(x); i++)
        ((double *)weft_tensor_data(x))[i] = sin((double)(i * 7 + seed));
    return x;
}

START_TEST(test_alibi) {
    static const int sizes[3][2] = {{5, 9}, {9, 5}, {8, 8}};
    int t = sizes[_i / 2][0], s = sizes[_i / 2][1];
    bool causal = _i & 1 && t <= s, open = t == s;
    weft_context *context;
    weft_graph *g;
    weft_tensor *in[3], *out = NULL;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "alibi", &g));
    weft_dim rows = open ? weft_graph_symbol(g, "T", 1, 64, 1) : t, keys = open ? rows : s;
    in[0] = filled(context, t, 1), in[1] = filled(context, s, 2), in[2] = filled(context, s, 3);
    weft_value *q = weft_graph_input(g, "q", WEFT_F64, 4, (weft_dim[]){1, HEADS, rows, D}),
               *k = weft_graph_input(g, "k", WEFT_F64, 4, (weft_dim[]){1, HEADS, keys, D}),
               *v = weft_graph_input(g, "v", WEFT_F64, 4, (weft_dim[]){1, HEADS, keys, D});
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = causal;
    weft_graph_output(g, "y", weft_attention(g, q, k, v, weft_nn_alibi(g, HEADS, rows, keys, WEFT_F64), &o));
    compile_and_run(g, 3, in, &out);
    double slopes[64] = {0}, want[9 * D] = {0};
    reference_slopes(HEADS, slopes);
    for (int h = 0; h < HEADS; h++) {
        const double *const a = weft_tensor_data(in[0]), *const b = weft_tensor_data(in[1]),
                            *const c = weft_tensor_data(in[2]);
        attend(a + h * t * D, b + h * s * D, c + h * s * D, t, s, slopes[h], causal, want);
        for (int i = 0; i < t * D; i++) ck_assert_double_eq_tol(element(out, h * t * D + i), want[i], 1e-11);
    }
    for (int i = 0; i < 3; i++) weft_tensor_release(in[i]);
    weft_tensor_release(out);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* No group of a card's writes the bias: what has the extents of scores is inside attention. */
START_TEST(test_bias_is_fused) {
    weft_context *context;
    weft_graph *g;
    weft_dim shape[4] = {2, 12, 1024, 64};
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "fused", &g));
    weft_value *q = weft_graph_input(g, "q", WEFT_BF16, 4, shape), *k = weft_graph_input(g, "k", WEFT_BF16, 4, shape),
               *v = weft_graph_input(g, "v", WEFT_BF16, 4, shape);
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    weft_graph_output(g, "y", weft_attention(g, q, k, v, weft_nn_alibi(g, 12, 1024, 1024, WEFT_F32), &o));
    weft_pass_context pass = {
        .graph = g, .capability = weft_capability_find("cuda", "sm_90a"), .options = "", .claims = weft_builder_claims};
    require(weft_graph_finish(g));
    require(weft_pipeline_run(&pass, weft_pipeline_standard));
    int attentions = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next) {
        if (node->op != WEFT_OP_fusion) continue;
        attentions += strcmp(weft_node_string(node, WEFT_ATTR_anchor, ""), "attention") == 0;
        for (int i = 0; i < node->result_count; i++) {
            const weft_value *r = &node->results[i];
            int rank = weft_value_rank(r);
            ck_assert(rank < 2 || weft_value_dim(r, rank - 1) != 1024 || weft_value_dim(r, rank - 2) != 1024);
        }
    }
    ck_assert_int_eq(attentions, 1);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* What is refused, each by one problem that names the function and the number. */
START_TEST(test_refused) {
    static const struct {
        weft_nn_rope_options o;
        const char *message;
    } ropes_refused[] = {
        {{0, 63, 0, WEFT_NN_ROPE_PLAIN, 0, 0, 0, 0, 0, false}, "weft_nn_rope_tables: head_width 63"},
        {{0, 0, 0, WEFT_NN_ROPE_PLAIN, 0, 0, 0, 0, 0, false}, "head_width 0"},
        {{0, 64, INFINITY, WEFT_NN_ROPE_PLAIN, 0, 0, 0, 0, 0, false}, "weft_nn_rope_tables: base inf"},
        {{0, 64, NAN, WEFT_NN_ROPE_PLAIN, 0, 0, 0, 0, 0, false}, "nan"},
        {{0, 64, -2, WEFT_NN_ROPE_PLAIN, 0, 0, 0, 0, 0, false}, "base -2"},
        {{0, 64, 0, WEFT_NN_ROPE_LINEAR, 0, 0, 0, 0, 0, false}, "weft_nn_rope_tables: factor 0"},
        {{0, 64, 0, WEFT_NN_ROPE_NTK, -1, 0, 0, 0, 0, false}, "factor -1"},
        {{0, 64, 0, WEFT_NN_ROPE_YARN, INFINITY, 2048, 0, 0, 0, false}, "factor inf"},
        {{0, 64, 0, WEFT_NN_ROPE_YARN, 4, 0, 0, 0, 0, false}, "original 0"},
        {{0, 64, 0, WEFT_NN_ROPE_YARN, 4, 2048, 32, 1, 0, false}, "beta_slow 32, beta_fast 1"},
        {{0, 64, 0, WEFT_NN_ROPE_YARN, 4, 2048, 0, 0, -1, false}, "attention -1"},
        {{0, 64, 0, (weft_nn_rope_scaling)9, 4, 0, 0, 0, 0, false}, "scaling 9"},
    };
    int count = sizeof ropes_refused / sizeof *ropes_refused;
    const char *wanted = _i < count ? ropes_refused[_i].message : "";
    weft_context *context;
    weft_graph *g;
    weft_value *cosine, *sine;
    char text[1000];
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "refused", &g));
    if (_i < count) {
        weft_nn_rope_options o = ropes_refused[_i].o;
        o.struct_bytes = sizeof o;
        weft_nn_rope_tables(g, &o, WEFT_F32, NULL, 4, &cosine, &sine);
        ck_assert(!cosine && !sine);
    } else if (_i == count) {
        wanted = "positions are f32 of rank 1";
        weft_value *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){4});
        weft_nn_rope_tables(g, &ropes[0].o, WEFT_F32, x, 4, &cosine, &sine);
    } else if (_i == count + 1) {
        wanted = "heads of 4, rope.head_width 64";
        weft_parameters *p;
        weft_nn_llama_options o = WEFT_NN_LLAMA_OPTIONS_INIT;
        o.heads = 2, o.width = 8, o.hidden = 8, o.vocabulary = 11, o.rope = &ropes[0].o;
        require(weft_parameters_create(context, g, NULL, &p));
        (void)weft_nn_llama(p, &o, weft_graph_input(g, "tokens", WEFT_I64, 2, (weft_dim[]){1, 4}));
        weft_parameters_release(p);
    } else {
        wanted = _i == count + 2 ? "weft_nn_alibi: 0 heads" : "8 heads in bf16";
        ck_assert_ptr_null(weft_nn_alibi(g, _i == count + 2 ? 0 : 8, 4, 4, _i == count + 2 ? WEFT_F32 : WEFT_BF16));
    }
    weft_status status = weft_graph_verify(g);
    ck_assert_ptr_nonnull(status);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, wanted) != NULL, "%s", text);
    ck_assert_msg(strstr(text, ": 1 problem") != NULL, "%s", text);
    weft_status_release(status);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

TCase *positions_case(void);
TCase *positions_case(void) {
    TCase *tests = tcase_create("positions");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_rope, 0, 2 * ROPES);
    tcase_add_test(tests, test_positions);
    tcase_add_test(tests, test_llama_rope);
    tcase_add_test(tests, test_slopes);
    tcase_add_loop_test(tests, test_alibi, 0, 6);
    tcase_add_test(tests, test_bias_is_fused);
    tcase_add_loop_test(tests, test_refused, 0, 16);
    return tests;
}
