/* Derived ops written out in core ops. A hook builds the replacement at the graph's insertion point and returns the
   value (poisoned on a problem). Rounding contract: f16/bf16 inputs compute in f32 and round once at the end. */
#ifndef WEFT_IR_DECOMPOSE_H
#define WEFT_IR_DECOMPOSE_H

#include "ir/build.h"

typedef weft_value *(*weft_decompose_hook)(weft_graph *graph, const weft_node *node, weft_value *const *operands);

#define HOOK(name)                                                                                                     \
    weft_value *weft_decompose_##name(weft_graph *graph, const weft_node *node, weft_value *const *operands);
#define NONE(reason)
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, ...) decompose
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK

/* NULL for core ops. */
weft_decompose_hook weft_decompose_get(weft_op op);

#endif
