/* Layers on 8-bit floats: what quantization by blocks keeps of a matrix, a linear layer against the product of what was
   quantized, its gradients against those of the exact layer. Widths that are no multiples of a block. */
#include <math.h>
#include <stdlib.h>

#include "codegen/builders/builder.h"
#include "passes/pass.h"
#include "tests/support/golden.h"
#include "weft/nn.h"
#include "weft/transform.h"

enum { ROWS = 6, INPUTS = 300, OUTPUTS = 140, IN_BLOCKS = 3, OUT_BLOCKS = 2 };

static weft_tensor *random_matrix(weft_context *context, int64_t rows, int64_t columns, uint64_t state) {
    weft_tensor *tensor;
    require(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){rows, columns}, &tensor));
    for (int64_t i = 0; i < rows * columns; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        /* blocks of unlike sizes, and one of zeros */
        double size = i % columns < 128 ? 1 : i / columns == 2 ? 0 : 0.01;
        ((float *)weft_tensor_data(tensor))[i] = (float)(size * ((double)(state >> 40) / 8388608.0 - 1.0));
    }
    return tensor;
}

/* Element (i, j) of [rows, columns]. */
static double at(const weft_tensor *t, int64_t i, int64_t j) { return element(t, i * weft_tensor_shape(t)[1] + j); }

START_TEST(test_quantize) {
    weft_context *context;
    weft_graph *g;
    bool square = _i & 1;
    weft_nn_narrow narrow = _i & 2 ? WEFT_NN_E5M2 : WEFT_NN_E4M3;
    double fraction = narrow == WEFT_NN_E5M2 ? 1.0 / 8 : 1.0 / 16, largest = narrow == WEFT_NN_E5M2 ? 57344 : 448;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "quantize", &g));
    weft_tensor *in[1] = {random_matrix(context, OUTPUTS, INPUTS, 5)}, *out[2] = {0};
    weft_value *scale, *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){OUTPUTS, INPUTS});
    weft_value *small = weft_nn_quantize_blocks(g, x, narrow, square, &scale);
    weft_graph_output(g, "small", weft_convert(g, small, WEFT_F32));
    weft_graph_output(g, "scale", scale);
    compile_and_run(g, 1, in, out);
    ck_assert_int_eq(weft_tensor_shape(out[1])[0], square ? OUT_BLOCKS : OUTPUTS);
    ck_assert_int_eq(weft_tensor_shape(out[1])[1], IN_BLOCKS);
    double most = 0;
    for (int64_t i = 0; i < OUTPUTS; i++)
        for (int64_t j = 0; j < INPUTS; j++) {
            double unit = at(out[1], square ? i / 128 : i, j / 128), q = at(out[0], i, j), want = at(in[0], i, j);
            most = fmax(most, fabs(q));
            ck_assert_msg(fabs(q * unit - want) <= fraction * fabs(want) + unit * 1e-2,
                          "(%lld, %lld): %g * %g, wanted %g", (long long)i, (long long)j, q, unit, want);
        }
    ck_assert_double_eq(most, largest);
    weft_tensor_release(in[0]);
    for (int i = 0; i < 2; i++) weft_tensor_release(out[i]);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* How far a is from b, of b's size. */
static double off(const weft_tensor *a, const weft_tensor *b) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < weft_tensor_element_count(b); i++) {
        difference += pow(element(a, i) - element(b, i), 2);
        size += pow(element(b, i), 2);
    }
    return sqrt(difference / size);
}

START_TEST(test_linear_f8) {
    weft_context *context;
    weft_graph *g;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "linear", &g));
    weft_tensor *in[3] = {random_matrix(context, ROWS, INPUTS, 1), random_matrix(context, OUTPUTS, INPUTS, 2),
                          random_matrix(context, ROWS, OUTPUTS, 3)},
                *out[7] = {0};
    weft_dim rows = _i ? weft_graph_symbol(g, "T", 1, 100, 1) : ROWS, pair[3] = {2, 3, INPUTS};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){rows, INPUTS}),
               *w = weft_graph_input(g, "w", WEFT_F32, 2, (weft_dim[]){OUTPUTS, INPUTS}),
               *dy = weft_graph_input(g, "dy", WEFT_F32, 2, (weft_dim[]){rows, OUTPUTS});
    weft_value *y = weft_nn_linear_f8(g, _i ? x : weft_reshape(g, x, 3, pair), w, NULL), *both[2] = {x, w}, *own[2],
               *exact[2];
    if (!_i) y = weft_reshape(g, y, 2, (weft_dim[]){ROWS, OUTPUTS});
    int64_t all[2] = {0, 1}, swap[2] = {1, 0};
    weft_value *loss = weft_reduce_sum(g, weft_mul(g, y, dy), 2, all, false);
    weft_gradient(g, loss, NULL, 2, both, own);
    exact[0] = weft_matmul(g, dy, w), exact[1] = weft_matmul(g, weft_transpose(g, dy, swap), x);
    /* what was quantized, times its scales, multiplied in f32 */
    weft_value *scale[2], *wide[2],
        *small[2] = {weft_nn_quantize_blocks(g, x, WEFT_NN_E4M3, false, &scale[0]),
                     weft_nn_quantize_blocks(g, w, WEFT_NN_E4M3, true, &scale[1])};
    for (int i = 0; i < 2; i++) {
        weft_dim tall = i ? OUTPUTS : rows, wider[2] = {i ? OUT_BLOCKS * 128 : rows, IN_BLOCKS * 128};
        weft_dim split[4] = {i ? OUT_BLOCKS : rows, i ? 128 : 1, IN_BLOCKS, 128};
        weft_value *each = weft_reshape(g, weft_broadcast(g, scale[i], 4, split, (int64_t[]){0, 2}), 2, wider);
        each = weft_slice_axis(g, weft_slice_axis(g, each, 1, 0, INPUTS), 0, 0, tall);
        wide[i] = weft_mul(g, weft_convert(g, small[i], WEFT_F32), each);
    }
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "same", weft_matmul(g, wide[0], weft_transpose(g, wide[1], swap)));
    weft_graph_output(g, "exact", weft_matmul(g, x, weft_transpose(g, w, swap)));
    for (int i = 0; i < 2; i++) {
        weft_graph_output(g, i ? "dw" : "dx", own[i]);
        weft_graph_output(g, i ? "exact_dw" : "exact_dx", exact[i]);
    }
    compile_and_run(g, 3, in, out);
    ck_assert_double_lt(off(out[0], out[1]), 1e-5);
    ck_assert_double_lt(off(out[0], out[2]), 0.05);
    ck_assert_double_gt(off(out[0], out[2]), 1e-3); /* it was rounded */
    ck_assert_double_lt(off(out[3], out[4]), 0.05);
    ck_assert_double_gt(off(out[3], out[4]), 1e-3);
    ck_assert_double_lt(off(out[5], out[6]), 1e-5);
    for (int i = 0; i < 3; i++) weft_tensor_release(in[i]);
    for (int i = 0; i < 7; i++) weft_tensor_release(out[i]);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* Anchors of the groups that a graph becomes for a card of this kind, in order. */
static void expect_groups(weft_graph *g, const char *arch, int count, const char *const *anchors) {
    weft_pass_context pass = {
        .graph = g, .capability = weft_capability_find("cuda", arch), .options = "", .claims = weft_builder_claims};
    require(weft_graph_finish(g));
    require(weft_pipeline_run(&pass, weft_pipeline_standard));
    int found = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next) {
        if (node->op != WEFT_OP_fusion) continue; /* views between them cost nothing */
        ck_assert_int_lt(found, count);
        ck_assert_str_eq(weft_node_string(node, WEFT_ATTR_anchor, ""), anchors[found++]);
    }
    ck_assert_int_eq(found, count);
}

/* Quantization reads its matrix once; a linear layer is that for both sides and one product, its bias inside. */
START_TEST(test_launches) {
    static const char *const one[1] = {"reduce"}, *const three[3] = {"reduce", "reduce", "scaled_dot"};
    weft_context *context;
    weft_graph *g;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "launches", &g));
    weft_dim out = 2048;
    weft_value *scale, *x = weft_graph_input(g, "x", WEFT_BF16, 2, (weft_dim[]){4096, 2048}),
                       *w = weft_graph_input(g, "w", WEFT_BF16, 2, (weft_dim[]){out, 2048});
    if (_i < 2) {
        weft_graph_output(g, "small", weft_nn_quantize_blocks(g, x, WEFT_NN_E4M3, _i == 1, &scale));
        weft_graph_output(g, "scale", scale);
        expect_groups(g, "sm_90a", 1, one);
    } else {
        weft_graph_output(g, "y", weft_nn_linear_f8(g, x, w, weft_graph_input(g, "b", WEFT_F32, 1, &out)));
        expect_groups(g, "sm_90a", 3, three);
    }
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* Operands and options that are none: one problem that says so. */
START_TEST(test_doors) {
    static const struct {
        weft_nn_experts_options o;
        int rank;
        const char *message;
    } experts[] = {{{0, 0, 8, 4, 2}, 2, "2 of 4 experts of width 0 and hidden 8"},
                   {{0, 4, -1, 4, 2}, 2, "hidden -1"},
                   {{0, 4, 8, 4, 5}, 2, "5 of 4 experts"},
                   {{0, 4, 8, 4, 0}, 2, "0 of 4 experts"},
                   {{0, 4, 8, INT64_MAX, 1}, 2, "1 of 9223372036854775807 experts"},
                   {{0, 5, 8, 4, 2}, 2, "it is [..., 5]"},
                   {{0, 4, 8, 4, 2}, 1, "x of rank 1"},
                   {{0, 4, 8, 4, 2}, 0, "x is missing"},
                   {{0, 0, 0, 0, 0}, 2, "the options are missing"}};
    static const struct {
        weft_dtype x, w;
        int rank;
        const char *message;
    } linear[] = {{WEFT_I32, WEFT_BF16, 2, "x is i32"},
                  {WEFT_BF16, WEFT_I8, 2, "the weight i8"},
                  {WEFT_BF16, WEFT_BF16, 1, "the weight bf16 of rank 1"},
                  {WEFT_BF16, WEFT_BF16, 3, "the weight bf16 of rank 3"}};
    int count = sizeof experts / sizeof *experts;
    weft_context *context;
    weft_graph *g;
    weft_parameters *p;
    char text[1000];
    const weft_dim dims[3] = {4, 4, 4};
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "doors", &g));
    require(weft_parameters_create(context, g, NULL, &p));
    if (_i < count) {
        int rank = experts[_i].rank;
        weft_value *x = rank ? weft_graph_input(g, "x", WEFT_F32, rank, dims) : NULL;
        weft_nn_experts_options o = experts[_i].o;
        o.struct_bytes = sizeof o;
        ck_assert_ptr_null(weft_nn_experts(p, _i == count - 1 ? NULL : &o, "e", x, NULL, NULL));
    } else {
        weft_value *x = weft_graph_input(g, "x", linear[_i - count].x, 2, dims);
        weft_value *w = weft_graph_input(g, "w", linear[_i - count].w, linear[_i - count].rank, dims);
        ck_assert_ptr_null(weft_nn_linear_f8(g, x, w, NULL));
    }
    weft_status status = weft_graph_verify(g);
    ck_assert_ptr_nonnull(status);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, _i < count ? experts[_i].message : linear[_i - count].message) != NULL, "%s", text);
    ck_assert_msg(strstr(text, ": 1 problem") != NULL, "%s", text);
    weft_status_release(status);
    weft_parameters_release(p);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* Blocks are counted when the graph is built: an open extent is refused where it is cut, and free elsewhere. */
START_TEST(test_open_extents) {
    weft_context *context;
    weft_graph *g;
    char text[1000];
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "open", &g));
    weft_dim open = weft_graph_symbol(g, "S", 1, 4096, 1);
    weft_dim shapes[4][3] = {{4, open, 0}, {2, 4, open}, {open, 256, 0}, {open, 256, 0}};
    int rank = _i == 1 ? 3 : 2;
    weft_value *scale, *x = weft_graph_input(g, "x", WEFT_F32, rank, shapes[_i]);
    weft_value *y = weft_nn_quantize_blocks(g, x, WEFT_NN_E4M3, _i == 2, &scale);
    if (_i < 3) {
        ck_assert(y == NULL && scale == NULL);
        weft_status status = weft_graph_verify(g);
        (void)weft_status_format(status, text, sizeof text);
        ck_assert_msg(strstr(text, "is no number") && strstr(text, ": 1 problem\n"), "%s", text);
        weft_status_release(status);
    } else {
        require(weft_graph_verify(g));
        ck_assert(weft_value_dim(scale, 0) == open && weft_value_dim(scale, 1) == 2);
    }
    weft_graph_release(g);
    require(weft_graph_create(context, "linear", &g));
    open = weft_graph_symbol(g, "S", 1, 4096, 1);
    x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){3, open});
    ck_assert_ptr_null(weft_nn_linear_f8(g, x, weft_graph_input(g, "w", WEFT_F32, 2, (weft_dim[]){4, open}), NULL));
    weft_status status = weft_graph_verify(g);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, "is no number") && strstr(text, ": 1 problem\n"), "%s", text);
    weft_status_release(status);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

TCase *narrow_case(void);
TCase *narrow_case(void) {
    TCase *tests = tcase_create("narrow");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_quantize, 0, 4);
    tcase_add_loop_test(tests, test_linear_f8, 0, 2);
    tcase_add_loop_test(tests, test_launches, 0, 3);
    tcase_add_loop_test(tests, test_doors, 0, 13);
    tcase_add_loop_test(tests, test_open_extents, 0, 4);
    return tests;
}
