/* The order of groups within a block, for memory; the last part of the pass "recompute". */
#ifndef WEFT_PASSES_FUSE_ORDER_H
#define WEFT_PASSES_FUSE_ORDER_H

#include "ir/build.h"

weft_status weft_fuse_order(weft_graph *graph, weft_block *block) WEFT_MUST_USE;

#endif
