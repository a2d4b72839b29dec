/* One small valid node of any op: what tests iterate over to cover the op table.

       for each op, dtype, variant = 0, 1, ...: weft_sample_node(graph, op, dtype, variant)

   The node's operands are new inputs of the graph, its results new outputs. NULL: the op does not take the dtype, or
   has no such variant (variants are dense: the first NULL of a dtype that is taken ends them). Variant 2 is symbolic
   where shapes matter. A poisoned node is a bug: graph->problems says which. */
#ifndef WEFT_TESTS_IR_SAMPLE_H
#define WEFT_TESTS_IR_SAMPLE_H

#include "ir/emit.h"

weft_node *weft_sample_node(weft_graph *graph, weft_op op, weft_dtype dtype, int variant);
/* No op has more variants. */
enum { WEFT_SAMPLE_VARIANTS = 8 };

#endif
