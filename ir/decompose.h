/* Derived ops written out in core ops. A hook builds the replacements at the graph's insertion point, one for each
   result of the node; what it leaves alone is poisoned. Rounding contract: f16/bf16 inputs compute in f32 and round
   once at the end. */
#ifndef WEFT_IR_DECOMPOSE_H
#define WEFT_IR_DECOMPOSE_H

#include "ir/build.h"

enum { WEFT_DECOMPOSED_MAX = 8 }; /* results of a derived op */

typedef void (*weft_decompose_hook)(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                                    weft_value **out_results);

#define HOOK(name)                                                                                                     \
    void weft_decompose_##name(weft_graph *graph, const weft_node *node, weft_value *const *operands,                  \
                               weft_value **out_results);
#define NONE(reason)
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, ...) decompose
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK

bool weft_op_decomposes(weft_op op); /* derived ops */
/* Runs the hook of a derived op: out_results[i] replaces result i, poison on a problem. */
void weft_decompose(weft_graph *graph, const weft_node *node, weft_value *const *operands, weft_value **out_results);

#endif
