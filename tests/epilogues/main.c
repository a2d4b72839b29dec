/* What follows a product and shares its kernel on Hopper: bias, GELU, SiLU, residual, a gate, a mask, quantization; and
   what does not yet: random bits (the mask is a kernel), sums of squares, rotations. Each case says how many groups the
   graph becomes; those of one group run in the simulator against the interpreter. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "passes/pass.h"
#include "tests/cuda/harness.h"
#include "weft/ops.h"

enum { M = 136, N = 264, K = 72 };

typedef weft_value *(*epilogue)(weft_graph *g, weft_value *product); /* NULL: it declares its outputs itself */

static weft_value *wide_input(weft_graph *g, const char *name, weft_dtype dtype) {
    return weft_graph_input(g, name, dtype, 2, (weft_dim[]){M, N});
}

static weft_value *bias(weft_graph *g, weft_value *d) {
    int64_t columns = 1;
    weft_dim n = N;
    weft_value *b = weft_graph_input(g, "bias", WEFT_BF16, 1, &n);
    return weft_add(g, d, weft_broadcast(g, b, 2, (weft_dim[]){M, N}, &columns));
}
static weft_value *gelu(weft_graph *g, weft_value *d) { return weft_gelu(g, d, false); }
static weft_value *gelu_tanh(weft_graph *g, weft_value *d) { return weft_gelu(g, d, true); }
static weft_value *silu(weft_graph *g, weft_value *d) { return weft_mul(g, d, weft_logistic(g, d)); }
static weft_value *residual(weft_graph *g, weft_value *d) { return weft_add(g, d, wide_input(g, "r", WEFT_BF16)); }
static weft_value *residual_f32(weft_graph *g, weft_value *d) {
    return weft_add(g, weft_convert(g, d, WEFT_F32), wide_input(g, "r", WEFT_F32));
}
static weft_value *gated(weft_graph *g, weft_value *d) { /* the second half of SwiGLU: the gate lies in memory */
    return weft_mul(g, d, silu(g, wide_input(g, "gate", WEFT_BF16)));
}
static weft_value *swiglu(weft_graph *g, weft_value *d) { /* each product is one kernel, the gate's with SiLU */
    int64_t one = 1;
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = options.rhs_contract = &one, options.dtype = WEFT_BF16;
    weft_value *b = weft_graph_input(g, "gate", WEFT_BF16, 2, (weft_dim[]){N, K});
    return weft_mul(g, d, silu(g, weft_dot_general(g, weft_graph_input_value(g, 0), b, &options)));
}
static weft_value *masked(weft_graph *g, weft_value *d) { /* dropout whose mask lies in memory */
    weft_value *kept = wide_input(g, "kept", WEFT_BOOL);
    return weft_where(g, kept, weft_mul_number(g, d, 1.25), weft_scalar(g, WEFT_BF16, 0));
}
static weft_value *dropped(weft_graph *g, weft_value *d) {
    weft_value *key = weft_graph_input(g, "key", WEFT_U64, 1, (weft_dim[]){2});
    weft_value *bits = weft_rng_bits(g, key, WEFT_U32, 2, (weft_dim[]){M, N});
    weft_value *kept = weft_compare(g, WEFT_GE, bits, weft_scalar_integer(g, WEFT_U32, 1 << 29));
    return weft_where(g, kept, weft_mul_number(g, d, 1.25), weft_scalar(g, WEFT_BF16, 0));
}
static weft_value *quantized(weft_graph *g, weft_value *d) {
    weft_value *scale = weft_broadcast(g, weft_graph_input(g, "scale", WEFT_F32, 0, NULL), 2, (weft_dim[]){M, N}, NULL);
    return weft_convert(g, weft_mul(g, weft_convert(g, d, WEFT_F32), scale), WEFT_F8E4M3FN);
}
static weft_value *squares(weft_graph *g, weft_value *d) { /* what an RMS norm behind the product needs */
    int64_t axis = 1;
    weft_value *f = weft_convert(g, d, WEFT_F32);
    weft_graph_output(g, "sums", weft_reduce_sum(g, weft_mul(g, f, f), 1, &axis, false));
    return d;
}
static weft_value *rope(weft_graph *g, weft_value *d) {
    weft_dim half[2] = {M, N / 2};
    weft_value *cosine = weft_graph_input(g, "cos", WEFT_BF16, 2, half),
               *sine = weft_graph_input(g, "sin", WEFT_BF16, 2, half);
    return weft_rope(g, d, cosine, sine, false);
}

typedef struct epilogue_row {
    const char *name;
    epilogue make;
    int groups;
    double tolerance;
} epilogue_row;

static const epilogue_row rows[] = {
    {"none", NULL, 1, 0.01},
    {"bias", bias, 1, 0.02},
    {"gelu", gelu, 1, 0.02},
    {"gelu_tanh", gelu_tanh, 1, 0.02},
    {"silu", silu, 1, 0.02},
    {"residual", residual, 1, 0.02},
    {"residual_f32", residual_f32, 1, 0.02},
    {"gated", gated, 2, 0.02},
    {"masked", masked, 1, 0.02},
    {"swiglu", swiglu, 2, 0.02},
    {"dropped", dropped, 2, 0.02},
    {"quantized", quantized, 1, 0.07},
    {"squares", squares, 2, 0.02},
    {"rope", rope, 3, 0.02},
};
enum { EPILOGUE_ROWS = sizeof rows / sizeof *rows };

static weft_graph *make_graph(weft_context *context, const epilogue_row *row) {
    weft_graph *g;
    int64_t one = 1;
    cuda_check(weft_graph_create(context, row->name, &g));
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = options.rhs_contract = &one, options.dtype = WEFT_BF16;
    weft_value *a = weft_graph_input(g, "a", WEFT_BF16, 2, (weft_dim[]){M, K});
    weft_value *b = weft_graph_input(g, "b", WEFT_BF16, 2, (weft_dim[]){N, K});
    weft_value *d = weft_dot_general(g, a, b, &options);
    weft_graph_output(g, "d", row->make ? row->make(g, d) : d);
    cuda_check(weft_graph_verify(g));
    return g;
}

static int count_groups(const weft_graph *g) {
    int count = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next) count += node->op == WEFT_OP_fusion;
    return count;
}

static void compare(const epilogue_row *row, const weft_tensor *want, const weft_tensor *got) {
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = weft_element_double(want->dtype, want->data, i), b = weft_element_double(got->dtype, got->data, i);
        ck_assert_msg(fabs(a - b) <= row->tolerance * (1 + fabs(a)), "%s element %lld: %g instead of %g", row->name,
                      (long long)i, b, a);
    }
}

START_TEST(epilogues_share_the_kernel_of_their_product) {
    const epilogue_row *row = &rows[_i];
    weft_capability card = *weft_capability_find("cuda", "sm_90a");
    card.multiprocessors = 2;
    weft_context *context;
    cuda_check(weft_context_create(NULL, &context));
    compiled c = {.graph = make_graph(context, row)};
    weft_arena_init(context->allocator, &c.arena);
    weft_tensor *inputs[4], *want[2], *got;
    uint64_t state = 1;
    int count = weft_graph_input_count(c.graph), outputs = weft_graph_output_count(c.graph);
    for (int i = 0; i < count; i++) inputs[i] = cuda_random_tensor(context, weft_graph_input_value(c.graph, i), &state);
    cuda_check(weft_graph_interpret(c.graph, count, inputs, outputs, want));
    got = cuda_random_tensor(context, weft_graph_output_value(c.graph, 0), &state);
    weft_pass_context pass = {.graph = c.graph, .capability = &card, .options = "", .claims = weft_builder_claims};
    cuda_check(weft_graph_finish(c.graph));
    cuda_check(weft_pipeline_run(&pass, weft_pipeline_standard));
    int groups = count_groups(c.graph);
    ck_assert_msg(groups == row->groups, "%s: %d groups instead of %d", row->name, groups, row->groups);
    bool more;
    if (groups == 1) {
        ck_assert(cuda_build_choice(&c, &card, 0, &more));
        ck_assert_str_eq(c.schedule.builder, "matmul-hopper");
        memset(got->data, 0xff, got->bytes);
        cuda_simulate_plan(&c, inputs, count, &got, 1, context, NULL);
        compare(row, want[0], got);
    }
    for (int i = 0; i < count; i++) weft_tensor_release(inputs[i]);
    for (int i = 0; i < outputs; i++) weft_tensor_release(want[i]);
    weft_tensor_release(got);
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
    weft_context_release(context);
}
END_TEST

/* x along the rows, by a product that leaves it as it is: a 16-bit GELU is right to its rounding, in its tails too, and
   keeps infinities and NaN. */
START_TEST(gelu_keeps_its_digits) {
    static const epilogue_row row = {"gelu", gelu, 1, 0};
    weft_capability card = *weft_capability_find("cuda", "sm_90a");
    card.multiprocessors = 2;
    weft_context *context;
    cuda_check(weft_context_create(NULL, &context));
    compiled c = {.graph = make_graph(context, &row)};
    weft_arena_init(context->allocator, &c.arena);
    weft_tensor *inputs[2], *got;
    uint64_t state = 1;
    for (int i = 0; i < 2; i++) inputs[i] = cuda_random_tensor(context, weft_graph_input_value(c.graph, i), &state);
    got = cuda_random_tensor(context, weft_graph_output_value(c.graph, 0), &state);
    double x[M];
    for (int m = 0; m < M; m++) {
        x[m] = m == 0 ? NAN : m == 1 ? INFINITY : m == 2 ? -INFINITY : (m - M / 2) / 5.0;
        for (int k = 0; k < K; k++) weft_element_set_double(WEFT_BF16, inputs[0]->data, m * K + k, k ? 0 : x[m]);
        x[m] = weft_element_double(WEFT_BF16, inputs[0]->data, m * K);
    }
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) weft_element_set_double(WEFT_BF16, inputs[1]->data, n * K + k, 1);
    weft_pass_context pass = {.graph = c.graph, .capability = &card, .options = "", .claims = weft_builder_claims};
    cuda_check(weft_graph_finish(c.graph));
    cuda_check(weft_pipeline_run(&pass, weft_pipeline_standard));
    bool more;
    ck_assert(cuda_build_choice(&c, &card, 0, &more));
    memset(got->data, 0xff, got->bytes);
    cuda_simulate_plan(&c, inputs, 2, &got, 1, context, NULL);
    for (int i = 0; i < M * N; i++) {
        double value = x[i / N], want = isinf(value) && value < 0 ? 0 : 0.5 * value * erfc(-value / sqrt(2));
        double own = weft_element_double(WEFT_BF16, got->data, i);
        bool right = isnan(want)   ? isnan(own)
                     : isinf(want) ? own == want
                                   : fabs(own - want) <= 0.004 * fabs(want) + 1e-11;
        ck_assert_msg(right, "gelu(%g) = %g instead of %g", value, own, want);
    }
    for (int i = 0; i < 2; i++) weft_tensor_release(inputs[i]);
    weft_tensor_release(got);
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
    weft_context_release(context);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("epilogues");
    TCase *tests = tcase_create("products");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, epilogues_share_the_kernel_of_their_product, 0, EPILOGUE_ROWS);
    tcase_add_test(tests, gelu_keeps_its_digits);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
