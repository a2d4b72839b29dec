/* Chains of small products: rows of features that pass through several layers, y = f(x W + b), whose weights all fit
   the shared memory of a block. One kernel computes them for the rows of a block, so that features never reach memory
   and a network of ten launches is one. Shared by the pass that makes such groups and the builder that takes them. Read
   next: chain.c, codegen/builders/chain.c. */
#ifndef WEFT_PASSES_FUSE_CHAIN_H
#define WEFT_PASSES_FUSE_CHAIN_H

#include "base/capability.h"
#include "ir/graph.h"

enum { WEFT_CHAIN_LAYERS_MAX = 16, WEFT_CHAIN_WIDTH_MAX = 256, WEFT_CHAIN_THREADS = 256, WEFT_CHAIN_ROWS_MAX = 64 };

/* lhs [..., K] times rhs, both f32 and summed in f32; the last axis of lhs is contracted, nothing is a batch. */
typedef struct weft_chain_layer {
    const weft_node *dot;
    int64_t inputs, outputs; /* K, N */
    bool outputs_first;      /* rhs is [N, K], else [K, N] */
    weft_dim rows;           /* product of the other axes of lhs */
} weft_chain_layer;

bool weft_chain_layer_find(const weft_graph *graph, const weft_node *dot, weft_chain_layer *out_layer);
/* Pitch of `features` numbers in shared memory: 16-byte accesses of neighbouring threads meet different banks. */
static inline int64_t weft_chain_pitch(int64_t features) { return (features + 3) / 4 * 4 + 4; }
/* Weights of every layer, two sets of features for `rows` rows. */
int64_t weft_chain_shared_bytes(int count, const weft_chain_layer *layers, int rows);
/* Most rows of a block: four a thread in the widest layer, as far as memory goes; 0: the weights do not fit. */
int weft_chain_rows_max(const weft_capability *capability, int count, const weft_chain_layer *layers);

#endif
