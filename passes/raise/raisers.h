/* The recognisers, tried in this order at every node; each returns the derived op's value or NULL. */
#ifndef WEFT_PASSES_RAISE_RAISERS_H
#define WEFT_PASSES_RAISE_RAISERS_H

#include "ir/build.h"

#define WEFT_RAISERS(X)                                                                                                \
    X(gelu)                                                                                                            \
    X(silu)                                                                                                            \
    X(norm)                                                                                                            \
    X(norm_parameters)                                                                                                 \
    X(softmax)                                                                                                         \
    X(log_softmax)

#define X(name) weft_value *weft_raise_##name(weft_graph *graph, weft_node *node);
WEFT_RAISERS(X)
#undef X

#endif
