/* What must be one group whatever the extents are, and attention cut into pieces of its keys. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/attention.h"
#include "passes/pass.h"
#include "weft/ops.h"
#include "weft/transform.h"

static weft_context *context;
static weft_graph *g;

static void ok(weft_status status) {
    char text[2000] = "";
    if (status) (void)weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(!text[0], "%s", text);
}

static void setup(void) {
    ok(weft_context_create(NULL, &context));
    ok(weft_graph_create(context, "t", &g));
}

static void teardown(void) {
    weft_graph_release(g);
    weft_context_release(context);
}

static int count(weft_op op) {
    int found = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next) found += node->op == op;
    return found;
}

/* Softmax and layer norm are one pass over memory also where axes have extent 1. */
START_TEST(unit_axes) {
    static const weft_dim shapes[][4] = {{1, 100, 70, 0}, {3, 1, 70, 0}, {1, 1, 70, 0}, {1, 5, 1, 70},
                                         {2, 1, 5, 70},   {1, 70, 0, 0}, {1, 1, 1, 70}, {70, 0, 0, 0}};
    for (int norm = 0; norm < 2; norm++) {
        weft_graph_release(g);
        ok(weft_graph_create(context, "t", &g));
        int rank = 0;
        while (rank < 4 && shapes[_i][rank]) rank++;
        weft_value *x = weft_graph_input(g, "x", WEFT_F32, rank, shapes[_i]);
        int64_t last = rank - 1, width = 70;
        weft_value *scale = norm ? weft_graph_input(g, "scale", WEFT_F32, 1, &width) : NULL;
        weft_graph_output(g, "y", norm ? weft_layer_norm(g, x, scale, NULL, 1, &last, 1e-5) : weft_softmax(g, x, -1));
        weft_pass_context pass = {.graph = g, .options = ""};
        ok(weft_graph_verify(g));
        ok(weft_pipeline_run(&pass, weft_pipeline_standard));
        ck_assert_int_eq(count(WEFT_OP_fusion), 1);
    }
}
END_TEST

/* Updates of a transformer's tensors: 12 of a layer are one launch on a GPU, matrices among them; a table beyond the
   limit stays alone; on a CPU only small ones join. Nothing but equal bundles follows, so that they share a kernel. */
enum { UPDATES = 37 };
typedef struct update {
    char parameter[8], moment[8], gradient[8];
    weft_value *values[2];
} update;

static void add_update(update *u, int number, int64_t rows, int64_t columns) {
    int64_t shape[2] = {rows, columns};
    snprintf(u->parameter, sizeof u->parameter, "p%d", number);
    snprintf(u->moment, sizeof u->moment, "m%d", number);
    snprintf(u->gradient, sizeof u->gradient, "g%d", number);
    weft_graph_state_zeros(g, u->parameter, WEFT_F32, 2, shape);
    weft_graph_state_zeros(g, u->moment, WEFT_F32, 2, shape);
    weft_value *p = weft_state_read(g, u->parameter), *m = weft_state_read(g, u->moment);
    u->values[1] = weft_add(g, weft_mul_number(g, m, 0.9), weft_graph_input(g, u->gradient, WEFT_F32, 2, shape));
    u->values[0] = weft_sub(g, p, weft_mul_number(g, u->values[1], 0.1));
}

START_TEST(updates_share_launches) {
    static const struct {
        const char *target, *arch;
        int fusions;
    } rows[] = {{"cuda", "sm_90a", 4}, {"cpu", "x86-64-v3", 15}};
    static const int64_t layer[12][2] = {{1, 768}, {1, 768}, {768, 2304}, {1, 2304}, {768, 768},  {1, 768},
                                         {1, 768}, {1, 768}, {768, 3072}, {1, 3072}, {3072, 768}, {1, 768}};
    update updates[UPDATES];
    add_update(&updates[0], 0, 50304, 768);
    for (int i = 1; i < UPDATES; i++) add_update(&updates[i], i, layer[(i - 1) % 12][0], layer[(i - 1) % 12][1]);
    for (int i = 0; i < UPDATES; i++) {
        weft_state_update(g, updates[i].parameter, updates[i].values[0]);
        weft_state_update(g, updates[i].moment, updates[i].values[1]);
    }
    ok(weft_graph_verify(g));
    weft_pass_context pass = {
        .graph = g, .options = "", .capability = weft_capability_find(rows[_i].target, rows[_i].arch)};
    ok(weft_pipeline_run(&pass, weft_pipeline_standard));
    ck_assert_int_eq(count(WEFT_OP_fusion), rows[_i].fusions);
}
END_TEST

static void run_for(const char *target, const char *arch, const char *pipeline) {
    weft_pass_context pass = {.graph = g, .options = "", .capability = weft_capability_find(target, arch)};
    ok(weft_graph_verify(g));
    ok(weft_pipeline_run(&pass, pipeline));
}

/* A sum of columns with few results must be cut into pieces on a GPU: it does not write values of the full shape. */
START_TEST(sums_that_must_be_cut) {
    int64_t rows = 0;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){4096, 64});
    weft_value *y = weft_exp(g, x);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "sum", weft_reduce_sum(g, y, 1, &rows, false));
    run_for(_i ? "cuda" : "cpu", _i ? "sm_90a" : "x86-64-v4", "simplify,fuse");
    ck_assert_int_eq(count(WEFT_OP_fusion), 1 + _i);
}
END_TEST

/* Values of the full shape that one group writes and another reads. */
static int exchanged(const weft_type *full) {
    int found = 0;
    for (const weft_node *node = g->body->block->first; node; node = node->next)
        for (int i = 0; node->op == WEFT_OP_fusion && i < node->result_count; i++) {
            bool read = false;
            for (const weft_use *use = node->results[i].uses; use; use = use->next)
                read |= use->user->op == WEFT_OP_fusion;
            found += read && weft_type_equal(&node->results[i].type, full);
        }
    return found;
}

/* The derivative of a norm reads its input and two numbers a row, not the normalised input; the numbers are the same.
 */
START_TEST(recomputed_values) {
    enum { ROWS = 512, WIDTH = 256 };
    int64_t last = 1, width = WIDTH;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){ROWS, WIDTH});
    weft_value *scale = weft_graph_input(g, "scale", WEFT_F32, 1, &width), *gradients[2];
    weft_value *mixed =
        weft_cumulative(g, WEFT_SUM, weft_layer_norm(g, x, scale, NULL, 1, &last, 1e-5), 0, false, false);
    weft_value *inputs[2] = {x, scale};
    weft_gradient(g, weft_square(g, mixed), NULL, 2, inputs, gradients);
    for (int i = 0; i < 2; i++) weft_graph_output(g, i ? "dscale" : "dx", gradients[i]);
    ok(weft_graph_verify(g));
    weft_tensor *in[2], *before[2] = {0}, *after[2] = {0};
    for (int i = 0; i < 2; i++) {
        ok(weft_tensor_create(context, WEFT_F32, 2 - i, (int64_t[]){i ? WIDTH : ROWS, WIDTH}, &in[i]));
        float *data = weft_tensor_data(in[i]);
        for (int64_t e = 0; e < weft_tensor_element_count(in[i]); e++) data[e] = (float)(e * 7919 % 251) / 64 - 2;
    }
    run_for("cuda", "sm_90a", "simplify,decompose,simplify,fuse");
    int exchanges = exchanged(&x->type);
    ok(weft_graph_interpret(g, 2, in, 2, before));
    run_for("cuda", "sm_90a", "recompute");
    ck_assert_int_lt(exchanged(&x->type), exchanges);
    ok(weft_graph_interpret(g, 2, in, 2, after));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(memcmp(weft_tensor_data(before[i]), weft_tensor_data(after[i]), weft_tensor_bytes(before[i])),
                         0);
        weft_tensor_release(before[i]), weft_tensor_release(after[i]), weft_tensor_release(in[i]);
    }
}
END_TEST

/* What frees a large value for a small one does not wait behind work that has nothing to do with it. */
START_TEST(early_ends) {
    enum { SIDE = 256 };
    weft_value *in[4];
    const char *names[4] = {"x", "w", "y", "v"};
    for (int i = 0; i < 4; i++) in[i] = weft_graph_input(g, names[i], WEFT_F32, 2, (weft_dim[]){SIDE, SIDE});
    int64_t rows = 0;
    weft_value *large = weft_matmul(g, in[0], in[1]);
    weft_value *other = weft_matmul(g, weft_matmul(g, in[2], in[3]), in[3]);
    weft_graph_output(g, "sum", weft_reduce_sum(g, large, 1, &rows, false));
    weft_graph_output(g, "other", other);
    run_for("cuda", "sm_90a", _i ? "simplify,fuse,recompute" : "simplify,fuse");
    int place = 0, sum = -1, last = -1;
    for (const weft_node *node = g->body->block->first; node; node = node->next, place++) {
        if (node->op != WEFT_OP_fusion) continue;
        if (!strcmp(weft_node_string(node, WEFT_ATTR_anchor, ""), "reduce")) sum = place;
        if (!strcmp(weft_node_string(node, WEFT_ATTR_anchor, ""), "matmul")) last = place;
    }
    ck_assert_int_ge(sum, 0);
    ck_assert_msg((sum < last) == _i, "the sum is node %d, the last product %d", sum, last);
}
END_TEST

static void add_slice(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_tanh(graph, weft_add(graph, arguments[0], arguments[1]));
    results[1] = weft_mul(graph, results[0], arguments[1]);
}

/* A scan over one slice is its body; over two it stays. */
START_TEST(scan_over_one_slice) {
    weft_dim trips = 1 + _i, state[1] = {3}, stack[2] = {trips, 3};
    weft_value *carry = weft_graph_input(g, "carry", WEFT_F32, 1, state), *results[2];
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, stack);
    weft_scan(g, 1, &carry, 1, &x, trips, false, add_slice, NULL, 1, results);
    weft_graph_output(g, "last", results[0]);
    weft_graph_output(g, "all", results[1]);
    ok(weft_graph_verify(g));
    weft_tensor *inputs[2], *before[2] = {0}, *after[2] = {0};
    for (int i = 0; i < 2; i++) {
        ok(weft_tensor_create(context, WEFT_F32, 1 + i, i ? (int64_t[]){trips, 3} : (int64_t[]){3}, &inputs[i]));
        float *data = weft_tensor_data(inputs[i]);
        for (int64_t e = 0; e < weft_tensor_element_count(inputs[i]); e++) data[e] = 0.25f * (float)e - 0.5f;
    }
    ok(weft_graph_interpret(g, 2, inputs, 2, before));
    weft_pass_context pass = {.graph = g, .options = ""};
    ok(weft_pipeline_run(&pass, "simplify"));
    ck_assert_int_eq(count(WEFT_OP_scan), _i);
    ok(weft_graph_interpret(g, 2, inputs, 2, after));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(weft_tensor_element_count(before[i]), weft_tensor_element_count(after[i]));
        ck_assert_mem_eq(weft_tensor_data(before[i]), weft_tensor_data(after[i]), weft_tensor_bytes(before[i]));
        weft_tensor_release(inputs[i]), weft_tensor_release(before[i]), weft_tensor_release(after[i]);
    }
}
END_TEST

static bool claims_attention(const weft_graph *graph, const weft_node *node, const weft_capability *capability) {
    (void)graph, (void)capability;
    return node->op == WEFT_OP_attention;
}

/* Attention between projections: on Hopper queries, keys and values are read where the joint projection wrote them, and
   the result is written as tokens. */
START_TEST(heads_in_tokens) {
    weft_dim b = weft_graph_symbol(g, "B", 1, 64, 1), t = 70, h = 3, d = 64, all[3] = {b, t, 3 * h * d};
    weft_dim split[5] = {b, t, 3, h, d}, joined[3] = {b, t, h * d};
    int64_t swap[4] = {0, 2, 1, 3}, axis = 2;
    weft_value *qkv = weft_reshape(g, weft_graph_input(g, "qkv", WEFT_BF16, 3, all), 5, split), *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = weft_transpose(g, weft_squeeze(g, weft_slice_axis(g, qkv, 2, i, i + 1), 1, &axis), swap);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    weft_value *o = weft_attention(g, part[0], part[1], part[2], NULL, &options);
    weft_graph_output(g, "o", weft_reshape(g, weft_transpose(g, o, swap), 3, joined));
    /* a second reader of the keys needs them as they are asked for: the copy of one part stays */
    if (_i) weft_graph_output(g, "k", part[1]);
    ok(weft_graph_verify(g));
    weft_pass_context pass = {.graph = g, .options = "", .claims = claims_attention};
    pass.capability = weft_capability_find("cuda", "sm_90a");
    ok(weft_pipeline_run(&pass, weft_pipeline_standard));
    ck_assert_int_eq(count(WEFT_OP_fusion), 1 + _i);
}
END_TEST

typedef struct decode {
    weft_dim batch, heads, key_heads, keys;
    bool symbolic, several; /* is it cut? */
    int mask;               /* 1: added, of each head; 2: bool, of each batch, also a row that sees no key */
    double cap;
} decode;

static const decode decodes[] = {
    {1, 8, 8, 4096, false, true, 0, 0},     {1, 4, 2, 2048, true, true, 0, 0},
    {64, 32, 32, 1024, false, false, 0, 0}, {1, 2, 1, 1000, false, false, 0, 0},
    {1, 8, 8, 600, false, false, 0, 0},     {8, 32, 8, 32768, false, true, 0, 0},
    {1, 32, 8, 131072, false, true, 0, 0},  {128, 16, 16, 2048, false, false, 0, 0},
    {1, 4, 2, 4096, false, true, 1, 2},     {2, 2, 1, 4096, false, true, 2, 0},
};

START_TEST(pieces_of_keys) {
    const decode *d = &decodes[_i];
    weft_dim b = d->symbolic ? weft_graph_symbol(g, "B", 1, 64, 1) : d->batch, width = 64;
    weft_dim q[4] = {b, d->heads, 1, width}, kv[4] = {b, d->key_heads, d->keys, width};
    weft_value *x = weft_graph_input(g, "q", WEFT_F32, 4, q), *k = weft_graph_input(g, "k", WEFT_F32, 4, kv),
               *v = weft_graph_input(g, "v", WEFT_F32, 4, kv);
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    options.causal = true;
    options.soft_cap = d->cap;
    weft_dim added[4] = {1, d->heads, 1, d->keys}, seen[4] = {b, 1, 1, d->keys};
    weft_value *mask = d->mask == 1   ? weft_graph_input(g, "mask", WEFT_F32, 4, added)
                       : d->mask == 2 ? weft_graph_input(g, "mask", WEFT_BOOL, 4, seen)
                                      : NULL;
    weft_graph_output(g, "o", weft_attention(g, x, k, v, mask, &options));
    ok(weft_graph_verify(g));
    int count_in = mask ? 4 : 3;
    bool small = d->batch * d->heads * d->keys <= 8 * 4096;
    weft_tensor *inputs[4], *before = NULL, *after = NULL;
    for (int i = 0; small && i < 3; i++) {
        int64_t shape[4] = {d->batch, i ? d->key_heads : d->heads, i ? d->keys : 1, width};
        ok(weft_tensor_create(context, WEFT_F32, 4, shape, &inputs[i]));
        float *data = weft_tensor_data(inputs[i]);
        for (int64_t e = 0; e < weft_tensor_element_count(inputs[i]); e++)
            data[e] = (float)((e * 7919 + 31 * i) % 2001 - 1000) / 500;
    }
    if (small && mask) {
        int64_t shape[4] = {d->mask == 2 ? d->batch : 1, d->mask == 1 ? d->heads : 1, 1, d->keys};
        ok(weft_tensor_create(context, weft_value_dtype(mask), 4, shape, &inputs[3]));
        int64_t elements = weft_tensor_element_count(inputs[3]);
        for (int64_t e = 0; e < elements; e++)
            if (d->mask == 1)
                ((float *)weft_tensor_data(inputs[3]))[e] = e % 3 ? (float)(e % 17) / 8 : -INFINITY;
            else
                ((uint8_t *)weft_tensor_data(inputs[3]))[e] =
                    (uint8_t)(e < elements / 2 ? 0 : e % 2); /* batch 0 sees nothing */
    }
    if (small) ok(weft_graph_interpret(g, count_in, inputs, 1, &before));
    weft_pass_context pass = {.graph = g, .options = "", .claims = claims_attention};
    pass.capability = weft_capability_find("cuda", "sm_90a");
    ok(weft_pipeline_run(&pass, "decompose"));
    ck_assert_int_eq(count(WEFT_OP_attention), 1);
    ck_assert_int_eq(count(WEFT_OP_reduce), d->several ? 3 : 0);
    if (small) {
        ok(weft_graph_interpret(g, count_in, inputs, 1, &after));
        const float *want = weft_tensor_data(before), *got = weft_tensor_data(after);
        for (int64_t e = 0; e < weft_tensor_element_count(before); e++)
            ck_assert_msg(fabsf(want[e] - got[e]) <= 2e-5f, "element %lld: %g, %g", (long long)e, (double)want[e],
                          (double)got[e]);
        for (int i = 0; i < count_in; i++) weft_tensor_release(inputs[i]);
        weft_tensor_release(before), weft_tensor_release(after);
    }
}
END_TEST

Suite *groups_suite(void) {
    Suite *suite = suite_create("groups");
    TCase *tests = tcase_create("groups");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, sums_that_must_be_cut, 0, 2);
    tcase_add_test(tests, recomputed_values);
    tcase_add_loop_test(tests, early_ends, 0, 2);
    tcase_add_loop_test(tests, unit_axes, 0, 8);
    tcase_add_loop_test(tests, heads_in_tokens, 0, 2);
    tcase_add_loop_test(tests, scan_over_one_slice, 0, 2);
    tcase_add_loop_test(tests, updates_share_launches, 0, 2);
    tcase_add_loop_test(tests, pieces_of_keys, 0, (int)(sizeof decodes / sizeof *decodes));
    suite_add_tcase(suite, tests);
    return suite;
}
