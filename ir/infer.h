/* Result types. Each infer hook sees operands, attributes and regions of a node under construction and writes its
   result types; a mistake of the caller is reported with weft_graph_problem and false. Hooks are named in ops.def. */
#ifndef WEFT_IR_INFER_H
#define WEFT_IR_INFER_H

#include "ir/graph.h"

typedef struct weft_infer {
    weft_graph *graph;
    weft_node *node; /* operands, attributes and regions set; results empty */
    int result_count;
    int result_capacity; /* of results: at least max(64, operands, yield operands) */
    weft_type *results;
} weft_infer;

typedef bool (*weft_infer_hook)(weft_infer *infer);

#define HOOK(name) bool weft_infer_##name(weft_infer *infer);
#define NONE(reason)
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, ...) infer
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK

bool weft_infer_run(weft_infer *infer);

#endif
