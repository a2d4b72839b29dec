/* Attention of one query over many keys (decoding) in pieces of the keys: used by the pass "decompose". */
#ifndef WEFT_PASSES_ATTENTION_H
#define WEFT_PASSES_ATTENTION_H

#include "base/capability.h"
#include "ir/graph.h"

/* Into how many pieces its keys are cut so that all processors read them; 1 = as it is. */
int64_t weft_attention_pieces(const weft_graph *graph, const weft_node *node, const weft_capability *capability);
/* Builds it at the insertion point: attention over each piece with its log-sum-exp, then their weighted mean.
 *out_inner: the attention node of the pieces. Poisoned on a problem. */
weft_value *weft_attention_in_pieces(weft_graph *graph, const weft_node *node, int64_t pieces, weft_node **out_inner);

/* The mask that hides keys further than `left` before a query, and what `mask` hides (or NULL). Poison on a problem. */
weft_value *weft_attention_window_mask(weft_graph *graph, const weft_node *node, weft_value *mask, int64_t left);

#endif
