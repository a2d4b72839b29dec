/* The pass "decompose": every derived op outside fusions is written out in core ops (ir/decompose.h). */
#ifndef WEFT_PASSES_DECOMPOSE_H
#define WEFT_PASSES_DECOMPOSE_H

#include "passes/pass.h"

weft_status weft_pass_decompose(weft_pass_context *context) WEFT_MUST_USE;

#endif
