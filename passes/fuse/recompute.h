/* The pass "recompute", after "fuse": cheap values are computed again where they are read instead of written. Read
   next: recompute.c. */
#ifndef WEFT_PASSES_FUSE_RECOMPUTE_H
#define WEFT_PASSES_FUSE_RECOMPUTE_H

#include "passes/pass.h"

weft_status weft_pass_recompute(weft_pass_context *context) WEFT_MUST_USE;

#endif
