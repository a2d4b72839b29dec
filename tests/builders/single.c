/* Single ops with builders of their own: the samples of every dtype. */
#include <stdio.h>

#include "tests/builders/harness.h"
#include "tests/ir/sample.h"

typedef struct single_case {
    weft_op op;
    weft_tolerance_class class;
    double terms, scale;
} single_case;

static const single_case cases[] = {
    {WEFT_OP_reduce_window, WEFT_TOLERANCE_SUM, 6, 800},
    {WEFT_OP_arg_reduce, WEFT_TOLERANCE_EXACT, 1, 0},
    {WEFT_OP_cumulative, WEFT_TOLERANCE_SUM, 6, 800},
    {WEFT_OP_scatter, WEFT_TOLERANCE_SUM, 4, 100},
    {WEFT_OP_sort, WEFT_TOLERANCE_EXACT, 1, 0},
    {WEFT_OP_top_k, WEFT_TOLERANCE_EXACT, 1, 0},
    {WEFT_OP_select_and_scatter, WEFT_TOLERANCE_SUM, 6, 10},
    {WEFT_OP_nonzero, WEFT_TOLERANCE_EXACT, 1, 0},
    {WEFT_OP_ragged_dot, WEFT_TOLERANCE_SUM, 7, 800},
    {WEFT_OP_cholesky, WEFT_TOLERANCE_CHAIN, 1, 0},
    {WEFT_OP_triangular_solve, WEFT_TOLERANCE_CHAIN, 1, 0},
    {WEFT_OP_eigh, WEFT_TOLERANCE_CHAIN, 1,
     100}, /* neighbouring eigenvalues turn their vectors by more than rounding */
    {WEFT_OP_qr, WEFT_TOLERANCE_CHAIN, 1, 10},
};

START_TEST(samples) {
    static const int64_t values[2] = {4, 7};
    const single_case *c = &cases[_i];
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
        for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
            harness h;
            harness_open(&h, weft_op_get(c->op)->name);
            h.symbols = values;
            char note[64];
            snprintf(note, sizeof note, "%s %s variant %d", h.anchor, weft_dtype_name((weft_dtype)d), variant);
            h.note = note;
            h.native = harness_native((weft_dtype)d);
            h.class = c->class;
            h.terms = c->terms;
            h.scale = c->scale;
            weft_node *node = weft_sample_node(h.graph, c->op, (weft_dtype)d, variant);
            if (node) harness_check(&h);
            harness_close(&h);
            if (!node) break;
        }
    }
}
END_TEST

/* Matrices of a block each: with an extent that is even, odd, more pairs of rows than a round's threads; in shared
   memory whole, the matrix alone, nothing; in f64, in f32, and where no value from memory may decide on a barrier. */
static const struct {
    int64_t n, batch;
    int shared_bytes; /* 0: the device's own */
    bool f64, webgpu;
} matrices[] = {{8, 3, 0, true, false},          {9, 1, 0, true, false},         {24, 2, 0, true, false},
                {33, 1, 0, true, false},         {16, 2, 6 << 10, true, false},  {16, 2, 4 << 10, true, false},
                {17, 1, 16 << 10, false, false}, {12, 2, 16 << 10, false, true}, {20, 1, 4 << 10, false, true}};

START_TEST(eigh_block) {
    weft_capability gpu = *weft_capability_find(harness_targets[2][0], harness_targets[2][1]);
    if (matrices[_i].shared_bytes) gpu.shared_bytes = matrices[_i].shared_bytes;
    gpu.f64 = matrices[_i].f64;
    if (matrices[_i].webgpu) gpu.target = "webgpu", gpu.threads_max = 256;
    harness h;
    harness_open(&h, "eigh");
    char note[64];
    snprintf(note, sizeof note, "eigh %d of extent %d", _i, (int)matrices[_i].n);
    h.note = note, h.gpu = &gpu, h.gpu_builder = "eigh-block";
    h.class = WEFT_TOLERANCE_CHAIN, h.terms = 1, h.scale = gpu.f64 ? 10 : 400;
    weft_value *x =
        weft_graph_input(h.graph, "x", WEFT_F32, 3, (weft_dim[]){matrices[_i].batch, matrices[_i].n, matrices[_i].n});
    weft_node *node = weft_node_create(h.graph, WEFT_OP_eigh, 1, &x, 0, NULL, 0, NULL);
    weft_graph_output(h.graph, "values", &node->results[0]);
    weft_graph_output(h.graph, "vectors", &node->results[1]);
    harness_check(&h);
    harness_close(&h);
}
END_TEST

Suite *single_suite(void) {
    Suite *suite = suite_create("single");
    TCase *tests = tcase_create("single");
    tcase_set_timeout(tests, 250);
    tcase_add_loop_test(tests, samples, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_loop_test(tests, eigh_block, 0, (int)(sizeof matrices / sizeof *matrices));
    suite_add_tcase(suite, tests);
    return suite;
}
