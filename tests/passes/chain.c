/* Which layers of a network become one group: narrow ones in f32 on GPUs, cut where others read the features. */
#include <check.h>
#include <string.h>

#include "codegen/builders/builder.h"
#include "passes/pass.h"
#include "weft/ops.h"

typedef struct row {
    const char *target, *arch;
    weft_dtype dtype;
    int layers, width, read;        /* read: the layer whose features are an output too, -1 = none */
    int64_t rows;                   /* 0: symbolic */
    int chains, networks, products; /* groups expected: chain.c, network.c, single products */
} row;

static const row cases[] = {
    {"cuda", "sm_90a", WEFT_F32, 4, 64, -1, 2000, 1, 0, 0},
    {"cuda", "sm_90a", WEFT_F32, 4, 64, -1, 200, 0, 1, 0}, /* a row or two for each processor */
    {"cuda", "sm_80", WEFT_F32, 4, 64, -1, 0, 1, 0, 0},
    {"cpu", "x86-64-v4", WEFT_F32, 4, 64, -1, 200, 0, 0, 4},
    {"cuda", "sm_90a", WEFT_F32, 4, 64, 1, 2000, 0, 1, 0},
    {"cuda", "sm_90a", WEFT_F32, 4, 64, 1, 200000, 2, 0, 0},
    {"cuda", "sm_90a", WEFT_F32, 3, 64, 0, 200, 0, 1, 0},
    {"cuda", "sm_90a", WEFT_F32, 3, 320, -1, 200, 0, 0, 3},
    {"cuda", "sm_90a", WEFT_BF16, 3, 64, -1, 200, 0, 0, 3},
    {"cuda", "sm_90a", WEFT_F32, 1, 64, -1, 200, 0, 0, 1},
    /* of four layers of 256 KB two never fit */
    {"cuda", "sm_90a", WEFT_F32, 4, 256, -1, 200, 0, 0, 4},
};

static void ok(weft_status status) {
    char text[2000] = "";
    if (status) (void)weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(!text[0], "%s", text);
}

START_TEST(groups) {
    const row *r = &cases[_i];
    static const char *const names[4][2] = {{"w0", "b0"}, {"w1", "b1"}, {"w2", "b2"}, {"w3", "b3"}};
    weft_context *context;
    weft_graph *g;
    ok(weft_context_create(NULL, &context));
    ok(weft_graph_create(context, "mlp", &g));
    weft_dim shape[2] = {r->rows ? r->rows : weft_graph_symbol(g, "B", 1, 100000, 1), r->width};
    weft_value *x = weft_graph_input(g, "x", r->dtype, 2, shape);
    for (int i = 0; i < r->layers; i++) {
        weft_value *w = weft_graph_input(g, names[i][0], r->dtype, 2, (weft_dim[]){r->width, r->width});
        weft_value *b = weft_graph_input(g, names[i][1], r->dtype, 1, &shape[1]);
        x = weft_tanh(g, weft_add(g, weft_matmul(g, x, w), b));
        if (i == r->read) weft_graph_output(g, "features", x);
    }
    weft_graph_output(g, "y", x);
    weft_pass_context pass = {.graph = g, .options = "", .claims = weft_builder_claims};
    pass.capability = weft_capability_find(r->target, r->arch);
    ok(weft_graph_verify(g));
    ok(weft_pipeline_run(&pass, weft_pipeline_standard));
    int chains = 0, networks = 0, products = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next) {
        if (node->op != WEFT_OP_fusion) continue;
        const char *anchor = weft_node_string(node, WEFT_ATTR_anchor, "");
        chains += !strcmp(anchor, "chain"), networks += !strcmp(anchor, "network"),
            products += !strcmp(anchor, "matmul");
    }
    ck_assert_int_eq(chains, r->chains);
    ck_assert_int_eq(networks, r->networks);
    ck_assert_int_eq(products, r->products);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

Suite *chain_suite(void) {
    Suite *suite = suite_create("chain");
    TCase *tests = tcase_create("chain");
    tcase_add_loop_test(tests, groups, 0, (int)(sizeof cases / sizeof *cases));
    suite_add_tcase(suite, tests);
    return suite;
}
