/* Mixed precision inside models: what converts between the dtype of parameters and that of products. Invariant: with
   one dtype throughout, nothing is added to the graph. */
#ifndef WEFT_STDLIB_NN_MIXED_H
#define WEFT_STDLIB_NN_MIXED_H

#include "weft/ops.h"

/* x in that dtype. A poisoned value stays as it is. */
static inline weft_value *weft_nn_as(weft_graph *g, weft_value *x, weft_dtype dtype) {
    weft_dtype own = weft_value_dtype(x);
    return own == dtype || own == WEFT_INVALID || dtype == WEFT_INVALID ? x : weft_convert(g, x, dtype);
}

#endif
