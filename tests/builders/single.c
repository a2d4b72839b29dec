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
    {WEFT_OP_eigh, WEFT_TOLERANCE_CHAIN, 1, 10},
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

Suite *single_suite(void) {
    Suite *suite = suite_create("single");
    TCase *tests = tcase_create("single");
    tcase_set_timeout(tests, 250);
    tcase_add_loop_test(tests, samples, 0, (int)(sizeof cases / sizeof *cases));
    suite_add_tcase(suite, tests);
    return suite;
}
