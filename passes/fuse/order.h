/* The order of groups within a block, for memory; the last part of the pass "recompute". Read next: order.c. */
#ifndef WEFT_PASSES_FUSE_ORDER_H
#define WEFT_PASSES_FUSE_ORDER_H

#include "ir/build.h"

/* Moves fusion groups of the block forward; nodes keep their values, their uses and otherwise their order. Uses the
   notes of the block's nodes and leaves them NULL. OUT_OF_MEMORY leaves the block as it was. */
weft_status weft_fuse_order(weft_graph *graph, weft_block *block) WEFT_MUST_USE;

#endif
