/* The pass "budget": training steps of small nets interpreted before and after it have the same bits, memory falls
   below the budget, cheap groups run again before products do, and what cannot fit is said. */
#include "passes/fuse/budget.h"

#include <string.h>

#include "base/tensor.h"
#include "ir/verify.h"
#include "tests/support/golden.h"
#include "weft/compile.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/optim.h"
#include "weft/transform.h"

enum { LAYERS = 3, BATCH = 2, TOKENS = 64, WIDTH = 32, WORDS = 40 };

static const char *const fused = "simplify,raise,simplify,decompose,simplify,fuse,recompute";

typedef struct step {
    weft_context *context;
    weft_graph *graph;
    weft_parameters *parameters;
} step;

/* A GPT's step with every gradient as an output. */
static step build(weft_dtype dtype, bool updates) {
    step s;
    weft_parameters_options p = WEFT_PARAMETERS_OPTIONS_INIT;
    weft_nn_gpt_options model = WEFT_NN_GPT_OPTIONS_INIT;
    if (dtype != WEFT_F32) p.compute = dtype;
    require(weft_context_create(NULL, &s.context));
    require(weft_graph_create(s.context, "step", &s.graph));
    require(weft_parameters_create(s.context, s.graph, &p, &s.parameters));
    model.layers = LAYERS, model.heads = 2, model.width = WIDTH, model.vocabulary = WORDS, model.context = TOKENS;
    model.bias = true, model.dropout = 0.1, model.step = weft_optim_step(s.graph), model.seed = 3;
    weft_dim shape[2] = {BATCH, TOKENS};
    weft_value *tokens = weft_graph_input(s.graph, "tokens", WEFT_I64, 2, shape);
    weft_value *next = weft_graph_input(s.graph, "next", WEFT_I64, 2, shape);
    weft_value *loss = weft_nn_gpt_loss(s.parameters, &model, tokens, next, 0, NULL);
    weft_graph_output(s.graph, "loss", loss);
    weft_parameters_gradient(s.parameters, loss);
    int count = weft_parameters_count(s.parameters);
    weft_parameter *list = weft_parameters_list(s.parameters);
    weft_optim_options adam = weft_optim_defaults(WEFT_OPTIM_ADAM);
    adam.step = model.step, adam.rate = weft_scalar(s.graph, WEFT_F32, 1), adam.epsilon = 1; /* as gradients are */
    if (updates) weft_optim_update(s.graph, &adam, count, list);
    for (int i = 0; i < count && !updates; i++) weft_graph_output(s.graph, list[i].name, list[i].gradient);
    require(weft_graph_verify(s.graph));
    return s;
}

static void drop(step *s) {
    weft_parameters_release(s->parameters);
    weft_graph_release(s->graph);
    weft_context_release(s->context);
}

static void run_passes(weft_graph *graph, const char *pipeline) {
    weft_pass_context pass = {
        .graph = graph, .capability = weft_capability_find("cuda", "sm_90a"), .options = "", .claims = NULL};
    require(weft_graph_finish(graph));
    require(weft_pipeline_run(&pass, pipeline));
    require(weft_verify(graph));
}

static weft_tensor *tokens_of(weft_context *context, uint32_t state) {
    weft_tensor *tensor;
    require(weft_tensor_create(context, WEFT_I64, 2, (int64_t[]){BATCH, TOKENS}, &tensor));
    for (int i = 0; i < BATCH * TOKENS; i++) {
        state = state * 1664525u + 1013904223u;
        ((int64_t *)weft_tensor_data(tensor))[i] = (state >> 8) % WORDS;
    }
    return tensor;
}

static int count_products(const weft_graph *graph) {
    int count = 0;
    for (const weft_node *node = graph->body->block->first; node; node = node->next)
        count += node->op == WEFT_OP_fusion && !strcmp(weft_fuse_anchor_of(node), "matmul");
    return count;
}

static const double shares[] = {0.9, 0.8, 0.7, 0.6}, whole_shares[] = {0.95, 0.92, 0.9, 0.88};

/* The same graph with and without the pass, interpreted. */
START_TEST(test_bits) {
    for (int d = 0; d < 2; d++) {
        step before = build(d ? WEFT_BF16 : WEFT_F32, false), after = build(d ? WEFT_BF16 : WEFT_F32, false);
        char pipeline[160];
        snprintf(pipeline, sizeof pipeline, "%s,budget{share=%g}", fused, shares[_i]);
        run_passes(before.graph, fused), run_passes(after.graph, pipeline);
        int count = (int)before.graph->output_count;
        weft_tensor *in[2] = {tokens_of(before.context, 1), tokens_of(before.context, 2)}, *out[2][64] = {0};
        ck_assert_int_le(count, 64);
        require(weft_graph_interpret(before.graph, 2, in, count, out[0]));
        require(weft_graph_interpret(after.graph, 2, in, count, out[1]));
        for (int i = 0; i < count; i++)
            ck_assert_msg(!memcmp(weft_tensor_data(out[0][i]), weft_tensor_data(out[1][i]), out[0][i]->bytes),
                          "%s differs at a share of %g", weft_graph_output_name(before.graph, i), shares[_i]);
        for (int i = 0; i < count; i++) weft_tensor_release(out[0][i]), weft_tensor_release(out[1][i]);
        for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
        drop(&before), drop(&after);
    }
}
END_TEST

/* Compiled: the plan's memory falls as promised, states after three steps are the same up to how kernels contract. */
START_TEST(test_compiled) {
    step s = build(WEFT_F32, true);
    weft_tensor *in[2] = {tokens_of(s.context, 1), tokens_of(s.context, 2)};
    const int64_t *shapes[2] = {weft_tensor_shape(in[0]), weft_tensor_shape(in[1])};
    int64_t bytes[2], constants[2];
    weft_tensor *weights[2] = {0};
    for (int way = 0; way < 2; way++) {
        weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
        weft_program *program;
        weft_session *session;
        weft_tensor *loss = NULL;
        if (way) options.memory_share = whole_shares[_i];
        require(weft_compile(s.graph, &options, &program));
        require(weft_session_create(program, &session));
        require(weft_program_memory(program, 2, shapes, &bytes[way], &constants[way]));
        for (int i = 0; i < 3; i++) require(weft_session_call(session, 2, in, 1, &loss));
        require(weft_session_read_state(session, "transformer.h.0.mlp.c_fc.weight", &weights[way]));
        weft_tensor_release(loss);
        weft_session_release(session);
        weft_program_release(program);
    }
    int64_t states = 0;
    for (size_t i = 0; i < s.graph->state_count; i++) states += (int64_t)weft_fuse_bytes(&s.graph->states[i].type);
    ck_assert_int_lt(bytes[1], bytes[0]);
    ck_assert_msg((double)(bytes[1] + states) <= whole_shares[_i] * (double)(bytes[0] + states + 4096),
                  "%lld bytes and %lld of states are no share of %g of %lld", (long long)bytes[1], (long long)states,
                  whole_shares[_i], (long long)bytes[0]);
    const float *a = weft_tensor_data(weights[0]), *b = weft_tensor_data(weights[1]);
    for (int64_t i = 0; i < weft_tensor_element_count(weights[0]); i++)
        ck_assert_msg(fabsf(a[i] - b[i]) < 2e-6f, "%lld: %g is not %g", (long long)i, (double)b[i], (double)a[i]);
    for (int i = 0; i < 2; i++) weft_tensor_release(in[i]), weft_tensor_release(weights[i]);
    drop(&s);
}
END_TEST

START_TEST(test_products_last) {
    int products[2];
    for (int way = 0; way < 2; way++) {
        step s = build(WEFT_BF16, false);
        char pipeline[160];
        snprintf(pipeline, sizeof pipeline, "%s%s", fused, way ? ",budget{share=0.9}" : "");
        run_passes(s.graph, pipeline);
        products[way] = count_products(s.graph);
        drop(&s);
    }
    ck_assert_int_eq(products[0], products[1]);
}
END_TEST

START_TEST(test_too_small) {
    static const struct {
        const char *options, *message;
        weft_code code;
    } bad[] = {{"bytes=1000", "is too small", WEFT_OUT_OF_MEMORY},
               {"share=0.01", "is too small", WEFT_OUT_OF_MEMORY},
               {"", "bytes=N or share=X", WEFT_INVALID_ARGUMENT},
               {"share=-1", "bytes=N or share=X", WEFT_INVALID_ARGUMENT},
               {"share=1e999", "bytes=N or share=X", WEFT_INVALID_ARGUMENT},
               {"bytes=9e9x", "bytes=N or share=X", WEFT_INVALID_ARGUMENT}};
    step s = build(WEFT_F32, false);
    weft_pass_context pass = {.graph = s.graph, .options = ""};
    char text[64];
    run_passes(s.graph, fused);
    snprintf(text, sizeof text, "budget{%s}", bad[_i].options);
    weft_status status = weft_pipeline_run(&pass, text);
    ck_assert_int_eq(weft_status_code(status), bad[_i].code);
    ck_assert_msg(strstr(weft_status_message(status), bad[_i].message) != NULL, "%s", weft_status_message(status));
    weft_status_release(status);
    drop(&s);
}
END_TEST

/* What compile takes and what it refuses; a budget of all that a program takes anyway is one. */
static const struct {
    double share;
    int64_t bytes;
    weft_code code;
    uint32_t relax;
    int threads;
    size_t struct_bytes;
} settings[] = {
    {.share = 1},
    {.share = 2},
    {.share = 1e300},
    {.bytes = INT64_MAX},
    {.share = 0.999, .code = WEFT_OUT_OF_MEMORY},
    {.share = 1e-300, .code = WEFT_OUT_OF_MEMORY},
    {.bytes = 1, .code = WEFT_OUT_OF_MEMORY},
    {.share = (double)NAN, .code = WEFT_INVALID_ARGUMENT},
    {.share = (double)INFINITY, .code = WEFT_INVALID_ARGUMENT},
    {.share = -0.5, .code = WEFT_INVALID_ARGUMENT},
    {.bytes = -1, .code = WEFT_INVALID_ARGUMENT},
    {.share = 0.5, .bytes = 1000000, .code = WEFT_INVALID_ARGUMENT},
    {.relax = 8, .code = WEFT_INVALID_ARGUMENT},
    {.threads = -1, .code = WEFT_INVALID_ARGUMENT},
    {.struct_bytes = 1, .code = WEFT_INVALID_ARGUMENT},
};

START_TEST(test_options) {
    weft_context *context;
    weft_graph *graph;
    weft_program *program = NULL;
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    o.memory_share = settings[_i].share, o.memory_bytes = settings[_i].bytes;
    o.relax = settings[_i].relax, o.thread_count = settings[_i].threads;
    if (settings[_i].struct_bytes) o.struct_bytes = settings[_i].struct_bytes;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "small", &graph));
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 2, (weft_dim[]){8, 8});
    weft_graph_output(graph, "y", weft_softmax(graph, weft_matmul(graph, x, x), -1));
    weft_status status = weft_compile(graph, &o, &program);
    if (settings[_i].code == WEFT_OK) {
        require(status);
    } else {
        ck_assert_int_eq(weft_status_code(status), settings[_i].code);
        ck_assert_ptr_null(program);
    }
    weft_status_release(status);
    weft_program_release(program);
    weft_graph_release(graph);
    weft_context_release(context);
}
END_TEST

Suite *budget_suite(void) {
    Suite *suite = suite_create("budget");
    TCase *group = tcase_create("budget");
    tcase_set_timeout(group, 120);
    tcase_add_loop_test(group, test_bits, 0, sizeof shares / sizeof *shares);
    tcase_add_loop_test(group, test_compiled, 0, sizeof shares / sizeof *shares);
    tcase_add_test(group, test_products_last);
    tcase_add_loop_test(group, test_too_small, 0, 6);
    tcase_add_loop_test(group, test_options, 0, sizeof settings / sizeof *settings);
    suite_add_tcase(suite, group);
    return suite;
}
