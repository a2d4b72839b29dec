/* Sums of columns beside rows, in the pass "recompute". Read next: beside.c. */
#ifndef WEFT_PASSES_FUSE_BESIDE_H
#define WEFT_PASSES_FUSE_BESIDE_H

#include "passes/pass.h"

/* Groups that sum columns of what a group of rows reads or writes join it, where a builder takes both in one launch.
   Uses the notes of the block's nodes and leaves them NULL. */
weft_status weft_fuse_beside(weft_pass_context *context, weft_block *block) WEFT_MUST_USE;

#endif
