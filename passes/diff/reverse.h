/* Transposing a list of nodes that are linear in some values.

   Order: weft_reversal_init; weft_reversal_mark the linear sources; weft_reversal_classify the nodes; weft_reversal_add
   the cotangents of the results; weft_reversal_run; weft_reversal_find; weft_reversal_deinit. New nodes go to the
   insertion point. Nodes of `scratch` that are not linear, and what `remat` recomputes, are built there when a linear
   node first needs them. Read next: reverse.c, remat.h. */
#ifndef WEFT_PASSES_DIFF_REVERSE_H
#define WEFT_PASSES_DIFF_REVERSE_H

#include "passes/diff/diff.h"

typedef struct weft_reversal {
    weft_graph *graph;
    const struct weft_reversal *outer; /* of the surrounding region: what is linear there; may be NULL */
    weft_value_map linears;            /* linear value -> itself */
    weft_value_map cotangents;
    const weft_block *scratch; /* its nodes may be moved; NULL = none */
    struct weft_remat *remat;  /* NULL = every residual is kept */
} weft_reversal;

void weft_reversal_init(weft_reversal *r, weft_graph *graph, const weft_block *scratch);
void weft_reversal_deinit(weft_reversal *r);
void weft_reversal_mark(weft_reversal *r, const weft_value *value);
bool weft_reversal_is_linear(const weft_reversal *r, const weft_value *value);
/* Marks the results of nodes that are linear in a marked value. */
void weft_reversal_classify(weft_reversal *r, weft_node *const *nodes, size_t count);
/* Adds to the cotangent of a value; NULL = zero. */
void weft_reversal_add(weft_reversal *r, const weft_value *to, weft_value *cotangent);
void weft_reversal_run(weft_reversal *r, weft_node *const *nodes, size_t count);
/* NULL = zero. */
weft_value *weft_reversal_find(const weft_reversal *r, const weft_value *value);

#endif
