/* A convolution as builders see it: y[n, g, o, p] = sum over c, t of w[g, o, c, t] * x[n, g, c, p * stride + t *
   dilation - low]. Letters: n batch, g group, o output channel and c input channel of the group, p output position, t
   tap. Read next: convolution_problem.c, convolution_cpu.c. */
#ifndef WEFT_CODEGEN_BUILDERS_CONVOLUTION_H
#define WEFT_CODEGEN_BUILDERS_CONVOLUTION_H

#include "codegen/builders/matmul_plan.h"

/* One spatial axis. Packed input: `extent` positions (rows), on the last axis split into `phases` by position modulo
   stride, so that the positions of one tap lie side by side. */
typedef struct weft_convolution_axis {
    int64_t kernel, stride, dilation, base_dilation;
    weft_dim low, input, output;
    bool subsampled; /* kernel 1: only the positions that are read are packed, step 1 */
    int64_t step;    /* packed positions between neighbouring outputs */
    int64_t phases;
    weft_dim extent; /* packed positions (of one phase) */
    weft_dim pitch;  /* elements between neighbouring packed positions */
} weft_convolution_axis;

typedef struct weft_convolution {
    const weft_node *node;
    const weft_value *x, *w;
    int rank; /* spatial axes, at least 1 */
    weft_convolution_axis axis[WEFT_MAX_RANK];
    int64_t groups, group_inputs, group_outputs, taps;
    weft_dim batch;
    weft_dtype accumulate;
    bool direct; /* kernel 1, stride 1, no padding, x in memory: all positions are one line, x is read in place */
    weft_access x_access;
    weft_dim x_batch_stride, x_channel_stride;
    bool w_direct; /* w is read in place: [o][c][t] with unit stride */
    weft_access w_access;
    weft_dim lines, line; /* output positions: lines x the last axis */
    weft_dim plane;       /* packed elements of one channel */
} weft_convolution;

/* false with a reason: not a form that the CPU builder takes. */
bool weft_convolution_find(const weft_build_request *request, weft_convolution *out_convolution,
                           const char **out_reason);
/* Every op between the convolution and the results keeps positions; other ops feed operands of the epilogue. */
bool weft_convolution_keeps_positions(const weft_graph *graph, const weft_node *fusion, const weft_node *convolution);

#endif
