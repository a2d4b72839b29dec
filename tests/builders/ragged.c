/* Products of groups of rows: groups of every kind (all rows in one, none, gaps before and behind, offsets that fall or
   leave the rows), extents around tiles, every form, with an epilogue of two results; rows may be symbolic. */
#include <stdio.h>

#include "tests/builders/harness.h"
#include "weft/ops.h"

enum { GROUPS = 5, BOUNDS = GROUPS + 1 };

static const int64_t offsets[][BOUNDS] = {
    {0, 150, 150, 150, 150, 150},     /* all in the first */
    {0, 0, 0, 0, 0, 150},             /* all in the last */
    {150, 150, 150, 150, 150, 150},   /* in none */
    {3, 67, 67, 130, 131, 140},       /* rows of no group before and behind, one empty, one of a single row */
    {0, 64, 128, 128, 149, 150},      /* whole tiles */
    {70, 20, 130, 90, 1000, 2000000}, /* falling: empty; past the end: cut */
    {-5, -1, 40, 40, 41, 150},
};
enum { KINDS = sizeof offsets / sizeof *offsets };

typedef struct problem {
    weft_dim k, n;
    int64_t contract;
    weft_dtype dtype;
    bool symbolic;
} problem;

static const problem problems[] = {{72, 136, 1, WEFT_BF16, false}, {67, 70, 2, WEFT_F32, true},
                                   {67, 131, 0, WEFT_F32, true},   {72, 64, 0, WEFT_F16, false},
                                   {33, 35, 1, WEFT_I8, false},    {129, 3, 2, WEFT_BF16, true}};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static void build(weft_graph *g, const problem *p, weft_dim rows) {
    weft_dim bounds = BOUNDS, by_row[2] = {rows, p->n}, k_n[3] = {GROUPS, p->k, p->n}, n_k[3] = {GROUPS, p->n, p->k};
    weft_value *x = weft_graph_input(g, "x", p->dtype, 2, (weft_dim[]){rows, p->k});
    weft_value *w = p->contract == 0 ? weft_graph_input(g, "w", p->dtype, 2, by_row)
                                     : weft_graph_input(g, "w", p->dtype, 3, p->contract == 1 ? k_n : n_k);
    weft_value *at = weft_graph_input(g, "offsets", p->contract == 2 ? WEFT_I64 : WEFT_I32, 1, &bounds);
    weft_dtype wide = p->dtype == WEFT_I8 ? WEFT_I32 : WEFT_F32;
    weft_value *y = weft_ragged_dot(g, x, w, at, p->contract, wide);
    if (p->dtype != WEFT_I8) { /* the last axis has a bias */
        int64_t last = weft_value_rank(y) - 1;
        weft_value *bias = weft_graph_input(g, "bias", WEFT_F32, 1, &p->n);
        weft_dim shape[3];
        for (int i = 0; i <= last; i++) shape[i] = weft_value_dim(y, i);
        y = weft_add(g, y, weft_broadcast(g, bias, (int)last + 1, shape, &last));
        weft_graph_output(g, "silu", weft_convert(g, weft_mul(g, y, weft_logistic(g, y)), p->dtype));
    }
    weft_graph_output(g, "y", y);
}

START_TEST(groups_of_every_kind) {
    const problem *p = &problems[_i % PROBLEMS];
    static const int64_t rows[1] = {150};
    harness h;
    harness_open(&h, "ragged_dot");
    char note[64];
    snprintf(note, sizeof note, "form %d, offsets %d", _i % PROBLEMS, _i / PROBLEMS);
    h.note = note;
    h.class = WEFT_TOLERANCE_GRAPH;
    h.terms = 150, h.scale = 9;
    h.native = _i / PROBLEMS == 3;
    h.offsets = offsets[_i / PROBLEMS];
    if (p->symbolic) h.symbols = rows;
    build(h.graph, p, p->symbolic ? weft_graph_symbol(h.graph, "M", 1, 5000, 1) : rows[0]);
    harness_check(&h);
    harness_close(&h);
}
END_TEST

Suite *ragged_suite(void) {
    Suite *suite = suite_create("ragged");
    TCase *tests = tcase_create("ragged");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, groups_of_every_kind, 0, KINDS * PROBLEMS);
    suite_add_tcase(suite, tests);
    return suite;
}
