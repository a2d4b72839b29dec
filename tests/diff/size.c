/* What derivatives leave behind: nodes of gradients after simplify, by op. Transposes go into products, zeros and ones
   vanish, the forward part is there once. */
#include "tests/diff/testing.h"

#include "passes/pass.h"
#include "weft/nn.h"

static weft_context *context;
static weft_graph *g;

static void set_up(void) {
    expect(weft_context_create(NULL, &context), "context");
    expect(weft_graph_create(context, "size", &g), "graph");
}
static void tear_down(void) {
    weft_graph_release(g);
    weft_context_release(context);
}

static int count_of(weft_op op) {
    int count = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next) count += node->op == op;
    return count;
}

static int simplified(void) {
    int total = 0;
    weft_pass_context pass = {.graph = g};
    expect(weft_graph_verify(g), "verify");
    expect(weft_pipeline_run(&pass, "simplify,decompose,simplify"), "simplify");
    for (const weft_node *node = g->body->block->first; node; node = node->next) total++;
    return total;
}

/* Three layers, mean squared error: 3 products forward, 3 for weights, 2 for activations. */
START_TEST(mlp) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){32, 16}), *h = x, *p[6], *gradients[6];
    static const char *const names[6] = {"w0", "b0", "w1", "b1", "w2", "b2"};
    for (int i = 0; i < 3; i++) {
        p[2 * i] = weft_graph_input(g, names[2 * i], WEFT_F32, 2, (weft_dim[]){24, i ? 24 : 16});
        p[2 * i + 1] = weft_graph_input(g, names[2 * i + 1], WEFT_F32, 1, (weft_dim[]){24});
        h = weft_nn_linear(g, h, p[2 * i], p[2 * i + 1]);
        if (i < 2) h = weft_tanh(g, h);
    }
    weft_value *loss = weft_reduce_mean(g, weft_square(g, h), 0, NULL, false);
    weft_gradient(g, loss, NULL, 6, p, gradients);
    weft_graph_output(g, "loss", loss);
    for (int i = 0; i < 6; i++) weft_graph_output(g, names[i], gradients[i]);
    int total = simplified();
    ck_assert_int_eq(count_of(WEFT_OP_dot_general), 8);
    ck_assert_int_eq(count_of(WEFT_OP_transpose), 0);
    ck_assert_int_eq(count_of(WEFT_OP_tanh), 2);
    ck_assert_int_le(total, 36);
}
END_TEST

static weft_value *heads(weft_value *x) {
    return weft_transpose(g, weft_reshape(g, x, 4, (weft_dim[]){2, 8, 4, 8}), (int64_t[]){0, 2, 1, 3});
}
/* A transformer layer: norms, attention over 4 heads, an MLP with gelu, both residual connections. */
START_TEST(transformer_layer) {
    enum { WEIGHTS = 6 };
    static const char *const names[WEIGHTS] = {"wq", "wk", "wv", "wo", "w1", "w2"};
    static const weft_dim shapes[WEIGHTS][2] = {{32, 32}, {32, 32}, {32, 32}, {32, 32}, {64, 32}, {32, 64}};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 3, (weft_dim[]){2, 8, 32}), *p[WEIGHTS + 3],
               *gradients[WEIGHTS + 3];
    for (int i = 0; i < WEIGHTS; i++) p[i] = weft_graph_input(g, names[i], WEFT_F32, 2, shapes[i]);
    p[WEIGHTS] = weft_graph_input(g, "scale", WEFT_F32, 1, (weft_dim[]){32});
    p[WEIGHTS + 1] = weft_graph_input(g, "bias", WEFT_F32, 1, (weft_dim[]){32});
    p[WEIGHTS + 2] = x;
    weft_value *n = weft_layer_norm(g, x, p[WEIGHTS], p[WEIGHTS + 1], 1, (int64_t[]){2}, 1e-5), *q[3];
    for (int i = 0; i < 3; i++) q[i] = heads(weft_nn_linear(g, n, p[i], NULL));
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    weft_value *a = weft_transpose(g, weft_attention(g, q[0], q[1], q[2], NULL, &o), (int64_t[]){0, 2, 1, 3});
    weft_value *y = weft_add(g, x, weft_nn_linear(g, weft_reshape(g, a, 3, (weft_dim[]){2, 8, 32}), p[3], NULL));
    weft_value *h =
        weft_gelu(g, weft_nn_linear(g, weft_rms_norm(g, y, NULL, 1, (int64_t[]){2}, 1e-5), p[4], NULL), false);
    y = weft_add(g, y, weft_nn_linear(g, h, p[5], NULL));
    weft_value *loss = weft_reduce_mean(g, weft_square(g, y), 0, NULL, false);
    weft_gradient(g, loss, NULL, WEIGHTS + 3, p, gradients);
    weft_graph_output(g, "loss", loss);
    for (int i = 0; i < WEIGHTS; i++) weft_graph_output(g, names[i], gradients[i]);
    weft_graph_output(g, "scale", gradients[WEIGHTS]);
    weft_graph_output(g, "bias", gradients[WEIGHTS + 1]);
    weft_graph_output(g, "dx", gradients[WEIGHTS + 2]);
    int total = simplified();
    /* 6 products of weights, three times; 2 of attention forward, 4 backward (dP, dQ, dK, dV) */
    ck_assert_int_eq(count_of(WEFT_OP_dot_general), 24);
    ck_assert_int_eq(count_of(WEFT_OP_transpose), 5); /* heads into rows: of the result, its cotangent, dQ, dK, dV */
    ck_assert_int_le(total, 178);
}
END_TEST

/* Attention's own node: once when it is kept, once more behind barriers when it is not; softmax likewise. */
START_TEST(computed_again) {
    static const weft_save saves[4] = {WEFT_SAVE_EVERYTHING, WEFT_SAVE_PRODUCTS, WEFT_SAVE_ALL_BUT_ATTENTION,
                                       WEFT_SAVE_NOTHING};
    static const int attentions[4] = {1, 1, 2, 2}, exponentials[4] = {1, 2, 1, 2};
    weft_remat_options o = WEFT_REMAT_OPTIONS_INIT;
    weft_value *q = weft_graph_input(g, "q", WEFT_F32, 4, (weft_dim[]){2, 4, 8, 8}), *gradient;
    o.save = saves[_i];
    weft_remat_begin(g, &o);
    weft_value *a = weft_attention(g, q, weft_sin(g, q), q, NULL, NULL);
    weft_value *y = weft_mul(g, weft_tanh(g, a), weft_exp(g, a));
    weft_remat_end(g);
    weft_gradient(g, weft_reduce_sum(g, weft_square(g, y), 0, NULL, false), NULL, 1, &q, &gradient);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "gradient", gradient);
    weft_pass_context pass = {.graph = g};
    expect(weft_graph_verify(g), "verify");
    expect(weft_pipeline_run(&pass, "simplify"), "simplify");
    ck_assert_int_eq(count_of(WEFT_OP_attention), attentions[_i]);
    ck_assert_int_eq(count_of(WEFT_OP_attention_backward), 1);
    ck_assert_int_eq(count_of(WEFT_OP_exp), exponentials[_i]);
    ck_assert_int_eq(count_of(WEFT_OP_tanh), exponentials[_i]);
}
END_TEST

TCase *case_size(void) {
    TCase *c = tcase_create("size");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, mlp);
    tcase_add_test(c, transformer_layer);
    tcase_add_loop_test(c, computed_again, 0, 4);
    return c;
}
