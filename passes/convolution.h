/* Convolutions that are other products: used by the pass "decompose". */
#ifndef WEFT_PASSES_CONVOLUTION_H
#define WEFT_PASSES_CONVOLUTION_H

#include "ir/graph.h"

/* A node with a form that is cheaper than a convolution of its shape. */
bool weft_convolution_is_other_product(const weft_node *node);
/* Builds it at the insertion point; poisoned on a problem. */
weft_value *weft_convolution_as_other_product(weft_graph *graph, weft_node *node);

#endif
