/* Rematerialisation: what the reverse part of a derivative recomputes instead of keeping it from the forward part.

   A value belongs to the scope that was open when its node was made (location.scope). Where a node of the reverse part
   needs a value of its own scope (or of one that shares a parent) which that scope's policy does not keep, the value is
   computed anew there, from what is kept and from what entered the scope. Those go through an optimization_barrier, so
   that common subexpressions are not joined again. Invariant: the same nodes on the same values: equal bits.
   Source: Chen, Xu, Zhang, Guestrin 2016. */
#ifndef WEFT_PASSES_DIFF_REMAT_H
#define WEFT_PASSES_DIFF_REMAT_H

#include "passes/function/function.h"

typedef struct weft_remat {
    weft_graph *graph;
    weft_value_map again;     /* value -> computed anew, or behind its barrier */
    weft_map dropped;         /* values that a budget does not keep */
    weft_map residuals;       /* values a budget was asked about */
    bool over_budget;         /* something was dropped */
    const weft_block *within; /* values of other blocks are kept; NULL = of any */
} weft_remat;

/* scratch: the linearised nodes, whose operands outside are the residuals. NULL when the graph has no scopes. */
weft_remat *weft_remat_init(weft_remat *remat, weft_graph *graph, const weft_block *scratch);
void weft_remat_deinit(weft_remat *remat);
/* The policy for a node of `scope` keeps the value. */
bool weft_remat_keeps(const weft_remat *remat, const weft_value *value, int scope);
/* The value, or the same computed anew at the insertion point, for a node of `scope`. */
weft_value *weft_remat_value(weft_remat *remat, weft_value *value, int scope);
/* The value belongs to the reverse part already. */
void weft_remat_done(weft_remat *remat, weft_value *value);
/* The same for an operand of something that is computed anew: what is kept comes from behind a barrier. */
weft_value *weft_remat_operand(weft_remat *remat, weft_value *value, int scope);

#endif
