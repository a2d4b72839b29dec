/* Depthwise and narrow convolutions at every edge: paddings, strides, dilations, channels a group, symbols, epilogues;
   on GPUs they must come from the direct builder. */
#include <stdio.h>
#include <string.h>

#include "tests/builders/harness.h"
#include "weft/ops.h"

typedef struct problem {
    int rank, batch, groups, in, out; /* channels of a group */
    int size[3], kernel[3], stride[3], dilation[3], low[3], high[3];
    weft_dtype dtype;
    bool symbolic, epilogue;
} problem;

enum { DIRECT = 9 }; /* so many come from the direct builder on GPUs */

static const problem problems[] = {
    {2, 2, 5, 1, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, WEFT_F32, false, true},
    {2, 1, 3, 1, 1, {8, 16}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}, WEFT_F32, true, true},
    {2, 1, 4, 1, 2, {6, 11}, {3, 5}, {1, 2}, {2, 1}, {0, 3}, {2, 0}, WEFT_BF16, false, false},
    {2, 3, 1, 3, 8, {9, 12}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, WEFT_F32, true, true},
    {2, 1, 2, 2, 6, {5, 5}, {3, 1}, {1, 1}, {1, 3}, {0, 0}, {0, 0}, WEFT_F16, false, false},
    {1, 2, 6, 1, 1, {33}, {7}, {1}, {1}, {3}, {3}, WEFT_F32, true, true},
    {1, 2, 1, 4, 3, {10}, {8}, {4}, {1}, {-1}, {5}, WEFT_F32, false, false},
    {3, 1, 2, 1, 1, {4, 5, 6}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 2}, {1, 1, 0}, WEFT_F32, false, true},
    {2, 1, 7, 1, 1, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, WEFT_F32, false, false},
    /* longer sums and few outputs: warps share them */
    {2, 2, 1, 70, 33, {7, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, WEFT_F32, false, true},
    {2, 1, 1, 12, 20, {9, 8}, {3, 3}, {2, 1}, {1, 2}, {1, 2}, {1, 0}, WEFT_F32, true, true},
    {2, 1, 3, 13, 17, {6, 6}, {3, 2}, {1, 1}, {1, 1}, {1, 0}, {1, 0}, WEFT_BF16, true, false},
};

static void check(const problem *p, int number) {
    harness h;
    harness_open(&h, "convolution");
    char note[64];
    snprintf(note, sizeof note, "convolution %d", number);
    h.note = note;
    h.gpu_builder = number < DIRECT ? "convolution-direct" : "convolution-simt";
    h.class = p->epilogue || p->dtype != WEFT_F32 ? WEFT_TOLERANCE_CHAIN : WEFT_TOLERANCE_SUM;
    h.terms = 150, h.scale = 9;
    h.native = p->dtype == WEFT_F32;
    weft_graph *g = h.graph;
    int64_t symbols[4] = {p->batch}, channels = (int64_t)p->groups * p->out;
    weft_dim x_dims[5] = {p->batch, (weft_dim)p->groups * p->in}, w_dims[5] = {channels, p->in}, low[3], high[3];
    int64_t stride[3], dilation[3], axis = 1;
    int count = 0;
    if (p->symbolic) x_dims[0] = weft_graph_symbol(g, "B", 1, 1000, 1), count++;
    for (int d = 0; d < p->rank; d++) {
        char name[2] = {(char)('P' + d), 0};
        x_dims[d + 2] = p->size[d], w_dims[d + 2] = p->kernel[d];
        if (p->symbolic) x_dims[d + 2] = weft_graph_symbol(g, name, 1, 4000, 1), symbols[count++] = p->size[d];
        stride[d] = p->stride[d], dilation[d] = p->dilation[d];
        low[d] = p->low[d] < 0 ? weft_dim_minus(g, 0, -p->low[d]) : p->low[d], high[d] = p->high[d];
    }
    h.symbols = symbols;
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = stride, options.dilation = dilation, options.low = low, options.high = high;
    options.groups = p->groups;
    weft_value *x = weft_graph_input(g, "x", p->dtype, p->rank + 2, x_dims);
    weft_value *w = weft_graph_input(g, "w", p->dtype, p->rank + 2, w_dims);
    weft_value *y = weft_convolution(g, x, w, &options);
    if (p->epilogue) {
        weft_dim shape[5];
        for (int i = 0; i < p->rank + 2; i++) shape[i] = weft_value_dim(y, i);
        weft_value *bias = weft_graph_input(g, "bias", WEFT_F32, 1, &channels);
        y = weft_relu(g, weft_add(g, y, weft_broadcast(g, bias, p->rank + 2, shape, &axis)));
    }
    weft_graph_output(g, "y", y);
    harness_check(&h);
    harness_close(&h);
}

START_TEST(direct) { check(&problems[_i], _i); }
END_TEST

Suite *convolution_suite(void) {
    Suite *suite = suite_create("convolution");
    TCase *tests = tcase_create("convolution");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, direct, 0, (int)(sizeof problems / sizeof *problems));
    suite_add_tcase(suite, tests);
    return suite;
}
