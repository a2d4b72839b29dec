/* Networks over rows in one kernel: a forward pass, a tangent of it and a backward pass through the same weights, with
   widths that are no multiples of four, both orders of weights, wide and narrow products, predicates that a later stage
   reads, symbolic rows, rows that leave a block partly empty. */
#include <stdio.h>

#include "ir/emit.h"
#include "tests/builders/harness.h"
#include "weft/ops.h"

enum { LAYERS_MAX = 4 };

typedef struct problem {
    int layers, widths[LAYERS_MAX + 1];
    int rows;
    bool outputs_first, symbolic, relu;
} problem;

static const problem problems[] = {
    {4, {2, 64, 64, 64, 1}, 200, true, false, false},
    {3, {7, 33, 50, 3}, 13, false, true, false},
    {3, {7, 33, 50, 3}, 13, true, true, true},
    {2, {64, 128, 30}, 600, true, true, false},
    {2, {1, 9, 2}, 1, false, false, true},
    {2, {100, 256, 10}, 7, true, false, true},
    {3, {5, 8, 7, 16}, 555, false, false, true},
};

static weft_value *dot(weft_graph *g, weft_value *x, weft_value *w, int64_t axis) {
    int64_t last = 1;
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = &last, options.rhs_contract = &axis;
    return weft_dot_general(g, x, w, &options);
}

static weft_value *filled(weft_graph *g, const weft_value *like, double value) {
    weft_dim shape[2] = {weft_value_dim(like, 0), weft_value_dim(like, 1)};
    return weft_full(g, WEFT_F32, 2, shape, value);
}

static void output(weft_graph *g, weft_value *value) {
    char name[16];
    snprintf(name, sizeof name, "y%d", weft_graph_output_count(g));
    weft_graph_output(g, name, value);
}

static void build(weft_graph *g, const problem *p) {
    weft_dim rows = p->symbolic ? weft_graph_symbol(g, "B", 1, 5000, 1) : p->rows;
    weft_value *w[LAYERS_MAX], *slope[LAYERS_MAX];
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){rows, p->widths[0]});
    weft_value *tangent = weft_graph_input(g, "t", WEFT_F32, 2, (weft_dim[]){rows, p->widths[0]});
    for (int i = 0; i < p->layers; i++) {
        char name[16];
        int64_t in = p->widths[i], out = p->widths[i + 1], columns = 1;
        snprintf(name, sizeof name, "w%d", i);
        w[i] = weft_graph_input(g, name, WEFT_F32, 2, p->outputs_first ? (weft_dim[]){out, in} : (weft_dim[]){in, out});
        snprintf(name, sizeof name, "b%d", i);
        weft_value *b = weft_graph_input(g, name, WEFT_F32, 1, &out);
        weft_value *z = dot(g, x, w[i], p->outputs_first); /* small: where tanh is flat its slope is all rounding */
        z = weft_mul(g, z, filled(g, z, 0.5 / (double)in));
        z = weft_add(g, z, weft_broadcast(g, b, 2, (weft_dim[]){rows, out}, &columns));
        weft_value *zero = filled(g, z, 0);
        x = p->relu ? weft_max(g, z, zero) : weft_tanh(g, z);
        slope[i] = p->relu ? weft_compare(g, WEFT_GT, z, zero) : weft_sub(g, filled(g, z, 1), weft_mul(g, x, x));
        tangent = dot(g, tangent, w[i], p->outputs_first);
        tangent = weft_mul(g, tangent, filled(g, tangent, 0.5 / (double)in));
        tangent = p->relu ? weft_where(g, slope[i], tangent, zero) : weft_mul(g, tangent, slope[i]);
        if (i % 2) output(g, x);
    }
    output(g, tangent);
    weft_value *back = weft_mul(g, x, tangent);
    for (int i = p->layers - 1; i >= 0; i--) {
        back = p->relu ? weft_where(g, slope[i], back, filled(g, back, 0)) : weft_mul(g, back, slope[i]);
        output(g, back);
        if (i) back = dot(g, back, w[i], !p->outputs_first);
    }
}

START_TEST(network_in_one_kernel) {
    const problem *p = &problems[_i];
    harness h;
    harness_open(&h, "network");
    char note[32];
    snprintf(note, sizeof note, "network %d", _i);
    h.note = note;
    h.class = WEFT_TOLERANCE_GRAPH;
    h.may_refuse = true; /* CPUs */
    h.gpu_builder = "network";
    int64_t symbols[1] = {p->rows};
    if (p->symbolic) h.symbols = symbols;
    build(h.graph, p);
    harness_check(&h);
    harness_close(&h);
}
END_TEST

Suite *network_suite(void) {
    Suite *suite = suite_create("network");
    TCase *tests = tcase_create("network");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, network_in_one_kernel, 0, (int)(sizeof problems / sizeof *problems));
    suite_add_tcase(suite, tests);
    return suite;
}
