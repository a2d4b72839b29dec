/* The decompose column of the op table. Hooks are in the file of their family: softmax.c, norm.c, activation.c,
   attention.c, attention_gradient.c, rope.c. */
#include "ir/decompose.h"

static const weft_decompose_hook hooks[WEFT_OP_COUNT] = {
#define HOOK(name)   weft_decompose_##name
#define NONE(reason) NULL
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, ...)                    \
    [WEFT_OP_##id] = decompose,
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK
};

bool weft_op_decomposes(weft_op op) { return hooks[op] != NULL; }

void weft_decompose(weft_graph *graph, const weft_node *node, weft_value *const *operands, weft_value **out_results) {
    for (int i = 0; i < node->result_count; i++) out_results[i] = weft_value_poison(graph);
    hooks[node->op](graph, node, operands, out_results);
}
