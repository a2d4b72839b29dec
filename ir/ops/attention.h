/* What the decompositions of attention, its tangent and its backward share. Letters as in attention.c. */
#ifndef WEFT_IR_OPS_ATTENTION_H
#define WEFT_IR_OPS_ATTENTION_H

#include "ir/ops/compute.h"

/* Places of the operands that need not be there, of attention, its backward or its tangent; -1: not there. */
int weft_attention_mask_at(const weft_node *node);
int weft_attention_key_at(const weft_node *node);          /* of dropout */
int weft_attention_mask_tangent_at(const weft_node *node); /* attention_tangent */
static inline double weft_attention_dropout(const weft_node *node) {
    return weft_node_float(node, WEFT_ATTR_dropout, 0);
}

/* Dropout (Srivastava et al. 2014) of weights: attention_dropout.c. */
enum { WEFT_DROPOUT_CELL = 16, WEFT_DROPOUT_HALF = 8, WEFT_DROPOUT_BITS = 16 };
/* Weights with 16 bits below this are dropped. */
static inline uint32_t weft_dropout_limit(double rate) { return (uint32_t)(rate * (1 << WEFT_DROPOUT_BITS) + 0.5); }
/* What kept weights are multiplied with. */
static inline double weft_dropout_scale(double rate) {
    return 1 / (1 - (double)weft_dropout_limit(rate) / (1 << WEFT_DROPOUT_BITS));
}
/* x [B, H, T, S] where a weight of the node is kept, times the scale; 0 elsewhere. x itself without dropout. */
weft_value *weft_attention_drop(weft_graph *graph, const weft_node *node, weft_value *const *operands, weft_value *x);

/* Scores [B, H, T, S] in the compute dtype as the softmax sees them: scaled, capped, -inf where a key is hidden. */
typedef struct weft_attention_scores {
    weft_value *value;
    weft_value *slope; /* derivative of the cap at each score; NULL = no cap */
    bool masked;       /* keys may be hidden: rows may be empty */
} weft_attention_scores;

/* mask may be NULL. Poison in `value` on a problem. */
weft_attention_scores weft_attention_score(weft_graph *graph, const weft_node *node, weft_value *q, weft_value *k,
                                           weft_value *mask);
/* x times the scale of scores; width: D. */
weft_value *weft_attention_scale(weft_graph *graph, const weft_node *node, weft_value *x, weft_dim width);
/* a [B, H, T, X] with the rows of b [B, Hkv, S, X] that its head reads: [B, H, T, S]. */
weft_value *weft_attention_dots(weft_graph *graph, weft_value *a, weft_value *b);
/* Sums of the rows of b [B, Hkv, S, X] weighted by p [B, H, T, S]: [B, H, T, X]. */
weft_value *weft_attention_sums(weft_graph *graph, weft_value *p, weft_value *b);

#endif
