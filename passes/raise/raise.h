/* The pass "raise": recognises derived ops that an imported graph spells out in core ops.
   Read next: raise.c, then one file per family. */
#ifndef WEFT_PASSES_RAISE_H
#define WEFT_PASSES_RAISE_H

#include "passes/pass.h"

weft_status weft_pass_raise(weft_pass_context *context) WEFT_MUST_USE;

#endif
