/* What losses share. */
#ifndef WEFT_STDLIB_LOSS_LOSS_H
#define WEFT_STDLIB_LOSS_LOSS_H

#include "weft/loss.h"

static inline weft_value *weft_loss_mean(weft_graph *g, weft_value *x) {
    return weft_reduce_mean(g, x, 0, NULL, false);
}
static inline weft_value *weft_loss_sum(weft_graph *g, weft_value *x) { return weft_reduce_sum(g, x, 0, NULL, false); }
static inline weft_value *weft_loss_number(weft_graph *g, weft_value *like, double value) {
    return weft_scalar(g, weft_value_dtype(like), value);
}
/* classes.c: [..., C] as [N, C]; the loss of each of N examples, 0 for those left out; how many count. */
weft_value *weft_loss_as_rows(weft_graph *g, weft_value *x);
weft_value *weft_loss_of_examples(weft_graph *g, weft_value *logits, weft_value *labels,
                                  const weft_cross_entropy_options *options);
weft_value *weft_loss_example_count(weft_graph *g, weft_value *labels, weft_dtype dtype,
                                    const weft_cross_entropy_options *options);
/* bool [n, n]: i == j */
static inline weft_value *weft_loss_diagonal(weft_graph *g, weft_dim n) {
    weft_dim shape[2] = {n, n};
    return weft_compare(g, WEFT_EQ, weft_iota(g, WEFT_I64, 2, shape, 0), weft_iota(g, WEFT_I64, 2, shape, 1));
}
/* log(1 + exp(x)), also where exp(x) overflows: -log of the logistic function at -x. */
static inline weft_value *weft_loss_softplus(weft_graph *g, weft_value *x) {
    weft_value *tail = weft_log1p(g, weft_exp(g, weft_neg(g, weft_abs(g, x))));
    return weft_add(g, weft_max(g, x, weft_loss_number(g, x, 0)), tail);
}

#endif
