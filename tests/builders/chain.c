/* Chains of small products in one kernel: widths that are no multiples of four, both orders of weights, few and many
   rows, symbolic rows, features that others read too. */
#include <stdio.h>

#include "ir/emit.h"
#include "tests/builders/harness.h"
#include "weft/ops.h"

typedef struct problem {
    int layers, widths[6];
    int rows[2]; /* extents of the axes before the features; 0 = no such axis */
    bool outputs_first, symbolic, taps;
} problem;

static const problem problems[] = {
    {5, {2, 64, 64, 64, 64, 1}, {200}, true, false, false},
    {3, {7, 33, 50, 3}, {13}, false, false, true},
    {3, {7, 33, 50, 3}, {13}, true, true, true},
    {2, {64, 128, 30}, {600}, true, true, false},
    {2, {64, 128, 30}, {700}, false, false, true},
    {4, {3, 5, 1, 9, 2}, {3, 7}, false, true, true},
    {2, {100, 256, 10}, {2, 5}, true, false, false},
    {2, {1, 1, 1}, {1}, true, true, true},
};

static weft_value *layer(weft_graph *g, const problem *p, int i, weft_value *x) {
    int64_t in = p->widths[i], out = p->widths[i + 1], last = weft_value_rank(x) - 1, first = p->outputs_first ? 1 : 0;
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    weft_value *w =
        weft_graph_input(g, name, WEFT_F32, 2, p->outputs_first ? (weft_dim[]){out, in} : (weft_dim[]){in, out});
    snprintf(name, sizeof name, "b%d", i);
    weft_value *b = weft_graph_input(g, name, WEFT_F32, 1, &out);
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = &last, options.rhs_contract = &first;
    weft_value *y = weft_dot_general(g, x, w, &options);
    weft_dim shape[3];
    for (int a = 0; a <= last; a++) shape[a] = weft_value_dim(y, a);
    y = weft_add(g, y, weft_broadcast(g, b, (int)last + 1, shape, &last));
    return i + 1 < p->layers ? weft_tanh(g, y) : y;
}

START_TEST(layers_in_one_kernel) {
    const problem *p = &problems[_i];
    harness h;
    harness_open(&h, "chain");
    char note[32];
    snprintf(note, sizeof note, "chain %d", _i);
    h.note = note;
    h.class = WEFT_TOLERANCE_GRAPH;
    h.may_refuse = true; /* CPUs */
    h.gpu_builder = "chain";
    int64_t symbols[2] = {p->rows[0], p->rows[1]};
    int rank = p->rows[1] ? 3 : 2;
    weft_dim dims[3] = {p->rows[0], p->rows[1]};
    for (int a = 0; p->symbolic && a < rank - 1; a++) dims[a] = weft_graph_symbol(h.graph, a ? "T" : "B", 1, 5000, 1);
    if (p->symbolic) h.symbols = symbols;
    dims[rank - 1] = p->widths[0];
    weft_value *x = weft_graph_input(h.graph, "x", WEFT_F32, rank, dims);
    for (int i = 0; i < p->layers; i++) {
        x = layer(h.graph, p, i, x);
        if (p->taps || i + 1 == p->layers) weft_graph_output(h.graph, note, x), note[0]++;
    }
    note[0] = 'c';
    harness_check(&h);
    harness_close(&h);
}
END_TEST

Suite *chain_suite(void) {
    Suite *suite = suite_create("chain");
    TCase *tests = tcase_create("chain");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, layers_in_one_kernel, 0, (int)(sizeof problems / sizeof *problems));
    suite_add_tcase(suite, tests);
    return suite;
}
