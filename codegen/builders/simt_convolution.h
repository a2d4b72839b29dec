/* A convolution as the problem of simt.h: rows are the output channels of a group, columns its output positions, k runs
   over input channels and taps, batches are images times groups. */
#ifndef WEFT_CODEGEN_BUILDERS_SIMT_CONVOLUTION_H
#define WEFT_CODEGEN_BUILDERS_SIMT_CONVOLUTION_H

#include "codegen/builders/convolution.h"
#include "codegen/builders/simt.h"

typedef struct weft_simt_convolution {
    const weft_node *node;
    int rank; /* spatial axes */
    int64_t groups;
    weft_dim outputs, inputs, taps, positions; /* of a group: output and input channels; taps; output positions */
    weft_dtype sum;
} weft_simt_convolution;

/* Legal for any GPU? *out_reason says why not; NULL: another class of machines. */
bool weft_simt_convolution_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                                   const char **out_reason);
bool weft_simt_convolution_find(const weft_graph *graph, const weft_node *fusion, weft_simt_convolution *out,
                                const char **out_reason);
weft_dim weft_simt_convolution_batches(const weft_graph *graph, const weft_simt_convolution *p);
/* p and index stay the caller's and outlive s. */
void weft_simt_convolution_problem(weft_simt *s, const weft_build_request *request, weft_kernel *k,
                                   weft_index_context *index, const weft_simt_convolution *p);

#endif
