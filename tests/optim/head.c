/* Linear cross-entropy in pieces against the same loss of whole logits: value and both gradients, in f64, f32 and bf16;
   what it drops without a derivative; what it refuses. */
#include "ir/graph.h"
#include "tests/support/golden.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/transform.h"

enum { EXAMPLES = 11, FEATURES = 6, CLASSES = 9 };

typedef struct head_case {
    int64_t pieces;
    weft_cross_entropy_options options;
} head_case;

#define PLAIN                         WEFT_CROSS_ENTROPY_OPTIONS_INIT
#define OPTIONS(s, z, ignores, label) {sizeof(weft_cross_entropy_options), s, z, ignores, label}
static const head_case cases[] = {
    {1, PLAIN}, {3, PLAIN}, {11, PLAIN}, {0, PLAIN}, {4, OPTIONS(0.1, 0.01, false, 0)}, {3, OPTIONS(0.1, 0, true, 3)},
};

static weft_value *whole(weft_graph *g, weft_value *x, weft_value *w, weft_value *labels,
                         const weft_cross_entropy_options *o) {
    weft_dtype dtype = weft_value_dtype(x) == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    weft_value *logits = weft_matmul(g, x, weft_transpose(g, w, NULL));
    return weft_loss_cross_entropy(g, weft_convert(g, logits, dtype), labels, o);
}

static weft_tensor *numbers(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape, uint32_t *state) {
    weft_tensor *tensor;
    require(weft_tensor_create(context, dtype, rank, shape, &tensor));
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++) {
        *state = *state * 1664525u + 1013904223u;
        double value = (double)(*state >> 8) / 8388608.0 - 1.0;
        if (dtype == WEFT_I64)
            ((int64_t *)weft_tensor_data(tensor))[i] = (int64_t)((*state >> 8) % CLASSES);
        else if (dtype == WEFT_F64)
            ((double *)weft_tensor_data(tensor))[i] = value;
        else
            ((float *)weft_tensor_data(tensor))[i] = (float)value;
    }
    return tensor;
}

/* Inputs come as f32 for bf16; the gradient of 2 loss is that of a cotangent which is not 1. */
static void build(weft_graph *g, const head_case *c, weft_dtype dtype) {
    weft_dtype stored = dtype == WEFT_BF16 ? WEFT_F32 : dtype;
    weft_value *in[2] = {weft_graph_input(g, "x", stored, 2, (weft_dim[]){EXAMPLES, FEATURES}),
                         weft_graph_input(g, "w", stored, 2, (weft_dim[]){CLASSES, FEATURES})};
    weft_value *labels = weft_graph_input(g, "labels", WEFT_I64, 1, (weft_dim[]){EXAMPLES}), *slopes[2];
    weft_value *x = weft_convert(g, in[0], dtype), *w = weft_convert(g, in[1], dtype);
    for (int way = 0; way < 2; way++) {
        weft_value *loss = way ? weft_loss_linear_cross_entropy(g, x, w, labels, c->pieces, &c->options)
                               : whole(g, x, w, labels, &c->options);
        weft_gradient(g, weft_mul_number(g, loss, 2), NULL, 2, in, slopes);
        weft_graph_output(g, way ? "loss" : "whole/loss", loss);
        weft_graph_output(g, way ? "dx" : "whole/dx", slopes[0]);
        weft_graph_output(g, way ? "dw" : "whole/dw", slopes[1]);
    }
    require(weft_graph_verify(g));
}

START_TEST(test_pieces) {
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_F32, WEFT_BF16};
    static const double limits[] = {1e-13, 2e-6, 2e-2};
    for (int d = 0; d < 3; d++) {
        weft_context *context;
        weft_graph *g;
        weft_program *program;
        weft_session *session;
        uint32_t state = 7;
        require(weft_context_create(NULL, &context));
        require(weft_graph_create(context, "head", &g));
        build(g, &cases[_i], dtypes[d]);
        weft_dtype stored = d == 0 ? WEFT_F64 : WEFT_F32;
        weft_tensor *in[3] = {numbers(context, stored, 2, (int64_t[]){EXAMPLES, FEATURES}, &state),
                              numbers(context, stored, 2, (int64_t[]){CLASSES, FEATURES}, &state),
                              numbers(context, WEFT_I64, 1, (int64_t[]){EXAMPLES}, &state)},
                    *out[6] = {0};
        require(weft_compile(g, NULL, &program));
        require(weft_session_create(program, &session));
        require(weft_session_call(session, 3, in, 6, out));
        for (int i = 0; i < 3; i++) {
            double off = distance(out[3 + i], out[i]);
            ck_assert_msg(off <= limits[d], "result %d of case %d in %s is off by %.3g", i, _i,
                          weft_dtype_name(dtypes[d]), off);
        }
        for (int i = 0; i < 6; i++) weft_tensor_release(out[i]);
        for (int i = 0; i < 3; i++) weft_tensor_release(in[i]);
        weft_session_release(session);
        weft_program_release(program);
        weft_graph_release(g);
        weft_context_release(context);
    }
}
END_TEST

START_TEST(test_refusals) {
    weft_context *context;
    weft_graph *g;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "head", &g));
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){EXAMPLES, FEATURES});
    weft_value *w = weft_graph_input(g, "w", WEFT_F32, 2, (weft_dim[]){CLASSES, FEATURES}), *slope, *second;
    weft_value *labels = weft_graph_input(g, "labels", WEFT_I64, 1, (weft_dim[]){EXAMPLES});
    weft_gradient(g, weft_loss_linear_cross_entropy(g, x, w, labels, _i == 0 ? 2 : 99, NULL), NULL, 1, &x, &slope);
    if (_i == 0) {
        weft_gradient(g, slope, NULL, 1, &x, &second);
        weft_graph_output(g, "second", second);
    }
    weft_status status = weft_graph_verify(g);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    const char *message = weft_status_message(status);
    ck_assert_msg(strstr(message, _i == 0 ? "uses a differentiated value" : "99 pieces") != NULL, "%s", message);
    weft_status_release(status);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* The largest value of the graph, in elements. */
static int64_t largest(const weft_block *block) {
    int64_t most = 0;
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->result_count; i++) {
            int64_t count = 1;
            for (int d = 0; d < node->results[i].type.rank; d++) count *= node->results[i].type.dims[d];
            if (count > most) most = count;
        }
        for (int r = 0; r < node->region_count; r++) {
            int64_t inner = largest(node->regions[r]->block);
            if (inner > most) most = inner;
        }
    }
    return most;
}

typedef struct rule_case {
    int64_t batch, vocabulary, pieces;
    bool whole;
} rule_case;

/* 2048 tokens of 65536 symbols are 2^27 logits. */
static const rule_case rules[] = {
    {2, 65536, 0, true}, {2, 65544, 0, false}, {4, 65536, 0, false}, {4, 65536, 1, true}, {2, 4096, 2, false}};

/* All logits exist where they are few or where that was asked for. */
START_TEST(test_rule) {
    for (int llama = 0; llama < 2; llama++) {
        weft_context *context;
        weft_graph *g;
        weft_parameters *p;
        const rule_case *c = &rules[_i];
        weft_dim shape[2] = {c->batch, 1024};
        weft_nn_gpt_options gpt = WEFT_NN_GPT_OPTIONS_INIT;
        weft_nn_llama_options other = WEFT_NN_LLAMA_OPTIONS_INIT;
        gpt.layers = 1, gpt.heads = 1, gpt.width = 8, gpt.vocabulary = c->vocabulary, gpt.context = 1024;
        other.layers = 1, other.heads = 1, other.width = 8, other.hidden = 8, other.vocabulary = c->vocabulary;
        require(weft_context_create(NULL, &context));
        require(weft_graph_create(context, "head", &g));
        require(weft_parameters_create(context, g, NULL, &p));
        weft_value *tokens = weft_graph_input(g, "tokens", WEFT_I64, 2, shape);
        weft_value *next = weft_graph_input(g, "next", WEFT_I64, 2, shape);
        weft_value *loss = llama ? weft_nn_llama_loss(p, &other, tokens, next, c->pieces, NULL)
                                 : weft_nn_gpt_loss(p, &gpt, tokens, next, c->pieces, NULL);
        weft_parameters_gradient(p, loss);
        weft_graph_output(g, "loss", loss);
        for (int i = 0; i < weft_parameters_count(p); i++)
            weft_graph_output(g, weft_parameters_list(p)[i].name, weft_parameters_list(p)[i].gradient);
        require(weft_graph_verify(g));
        int64_t logits = c->batch * 1024 * c->vocabulary, most = largest(g->body->block);
        ck_assert_msg((most >= logits) == c->whole, "case %d: %lld of %lld logits at once", _i, (long long)most,
                      (long long)logits);
        weft_parameters_release(p);
        weft_graph_release(g);
        weft_context_release(context);
    }
}
END_TEST

Suite *head_suite(void) {
    Suite *suite = suite_create("head");
    TCase *group = tcase_create("values");
    tcase_set_timeout(group, 60);
    tcase_add_loop_test(group, test_pieces, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(group, test_refusals, 0, 2);
    tcase_add_loop_test(group, test_rule, 0, sizeof rules / sizeof *rules);
    suite_add_tcase(suite, group);
    return suite;
}
