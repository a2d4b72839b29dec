/* Heads of attention as they lie in the features of tokens: [B, H, T, D] seen in memory [B, T, X, D], where the heads
   are first ... first + H - 1 of X. Projections of queries, keys and values write so, and what attention gives is read
   so: builders that can reach both spare four copies a layer. Shared by the pass that leaves such views inside the
   group and the builders that take them. */
#ifndef WEFT_PASSES_FUSE_HEADS_H
#define WEFT_PASSES_FUSE_HEADS_H

#include "ir/graph.h"

typedef struct weft_head_view {
    const weft_value *base; /* [B, T, X, D] or [B, T, X D] */
    weft_dim heads;         /* X */
    int64_t first;
} weft_head_view;

/* Is `value`, of rank 4, a transpose {0, 2, 1, 3} of such memory, a slice of its heads included? */
bool weft_head_view_find(const weft_graph *graph, const weft_value *value, weft_head_view *out_view);
/* Is it the transpose back, [B, T, H, D] of [B, H, T, D]? */
bool weft_is_head_transpose(const weft_node *node);

#endif
