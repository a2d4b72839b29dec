/* What the decompositions of attention, its tangent and its backward share. Letters as in attention.c. */
#ifndef WEFT_IR_OPS_ATTENTION_H
#define WEFT_IR_OPS_ATTENTION_H

#include "ir/ops/compute.h"

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
