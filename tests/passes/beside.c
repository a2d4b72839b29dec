/* Sums of columns beside rows (fuse/beside.c): which join, on the backward pass of layers as users write them; the same
   bits before and after; what keeps apart. */
#include <string.h>

#include "base/tensor.h"
#include "codegen/builders/builder.h"
#include "ir/verify.h"
#include "passes/fuse/region.h"
#include "passes/pass.h"
#include "tests/support/golden.h"
#include "weft/transform.h"

enum { ROWS = 96, WIDTH = 64, PARAMETERS = 4 };

typedef struct layer {
    weft_context *context;
    weft_graph *graph;
} layer;

/* y = norm(x W + b) with scale and bias, squared: gradients of W, b, scale and bias. */
static layer build(int64_t rows, int64_t width) {
    layer l;
    require(weft_context_create(NULL, &l.context));
    require(weft_graph_create(l.context, "layer", &l.graph));
    weft_graph *g = l.graph;
    int64_t last[1] = {1};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){rows, width}), *slopes[PARAMETERS];
    weft_value *p[PARAMETERS] = {weft_graph_input(g, "w", WEFT_F32, 2, (weft_dim[]){width, width}),
                                 weft_graph_input(g, "b", WEFT_F32, 1, &width),
                                 weft_graph_input(g, "scale", WEFT_F32, 1, &width),
                                 weft_graph_input(g, "bias", WEFT_F32, 1, &width)};
    weft_value *h = weft_add(g, weft_matmul(g, x, p[0]), p[1]);
    weft_value *y = weft_layer_norm(g, h, p[2], p[3], 1, last, 1e-5);
    weft_gradient(g, weft_reduce_sum(g, weft_square(g, y), 0, NULL, false), NULL, PARAMETERS, p, slopes);
    static const char *const names[PARAMETERS] = {"dw", "db", "dscale", "dbias"};
    for (int i = 0; i < PARAMETERS; i++) weft_graph_output(g, names[i], slopes[i]);
    require(weft_graph_verify(g));
    return l;
}

static void drop(layer *l) {
    weft_graph_release(l->graph);
    weft_context_release(l->context);
}

static void fuse(weft_graph *graph, const char *target, const char *arch, bool claims) {
    weft_pass_context pass = {.graph = graph,
                              .capability = weft_capability_find(target, arch),
                              .options = "",
                              .claims = claims ? weft_builder_claims : NULL};
    require(weft_graph_finish(graph));
    require(weft_pipeline_run(&pass, weft_pipeline_standard));
    require(weft_verify(graph));
}

static int count_reductions(const weft_graph *graph) {
    int count = 0;
    for (const weft_node *node = graph->body->block->first; node; node = node->next)
        count += node->op == WEFT_OP_fusion && !strcmp(weft_fuse_anchor_of(node), "reduce");
    return count;
}

/* One group: the norm's statistics and its backward pass, the gradients of scale and bias, and that of b, which sums
   what the norm's writes. */
START_TEST(test_joins) {
    layer apart = build(ROWS, WIDTH), joint = build(ROWS, WIDTH);
    fuse(apart.graph, "cuda", "sm_90a", false), fuse(joint.graph, "cuda", "sm_90a", true);
    ck_assert_int_ge(count_reductions(apart.graph), 3);
    ck_assert_int_eq(count_reductions(joint.graph), 1);
    weft_tensor *in[1 + PARAMETERS], *out[2][PARAMETERS] = {{0}};
    for (int i = 0; i < 1 + PARAMETERS; i++) {
        const weft_type *type = &weft_graph_input_value(apart.graph, i)->type;
        require(weft_tensor_create(apart.context, type->dtype, type->rank, type->dims, &in[i]));
        uint32_t state = 7u + (uint32_t)i;
        for (int64_t e = 0; e < weft_tensor_element_count(in[i]); e++) {
            state = state * 1664525u + 1013904223u;
            ((float *)weft_tensor_data(in[i]))[e] = (float)(state >> 8) / 8388608.0f - 1.0f;
        }
    }
    require(weft_graph_interpret(apart.graph, 1 + PARAMETERS, in, PARAMETERS, out[0]));
    require(weft_graph_interpret(joint.graph, 1 + PARAMETERS, in, PARAMETERS, out[1]));
    for (int i = 0; i < PARAMETERS; i++) {
        ck_assert_mem_eq(weft_tensor_data(out[0][i]), weft_tensor_data(out[1][i]), out[0][i]->bytes);
        weft_tensor_release(out[0][i]), weft_tensor_release(out[1][i]);
    }
    for (int i = 0; i < 1 + PARAMETERS; i++) weft_tensor_release(in[i]);
    drop(&apart), drop(&joint);
}
END_TEST

/* CPUs, and rows too long for registers, keep them apart. */
START_TEST(test_apart) {
    static const struct {
        const char *target, *arch;
        int64_t width;
    } cases[] = {{"cpu", "x86-64-v3", WIDTH}, {"cuda", "sm_90a", 16384}};
    layer with = build(ROWS, cases[_i].width), without = build(ROWS, cases[_i].width);
    fuse(with.graph, cases[_i].target, cases[_i].arch, true);
    fuse(without.graph, cases[_i].target, cases[_i].arch, false);
    ck_assert_int_eq(count_reductions(with.graph), count_reductions(without.graph));
    drop(&with), drop(&without);
}
END_TEST

Suite *beside_suite(void) {
    Suite *suite = suite_create("beside");
    TCase *group = tcase_create("beside");
    tcase_set_timeout(group, 60);
    tcase_add_test(group, test_joins);
    tcase_add_loop_test(group, test_apart, 0, 2);
    suite_add_tcase(suite, group);
    return suite;
}
