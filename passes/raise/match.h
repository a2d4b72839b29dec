/* What the recognisers are written with: reading a graph upwards from a value.
   Invariant: a match proves the axes and the numbers; similar shapes are never enough. */
#ifndef WEFT_PASSES_RAISE_MATCH_H
#define WEFT_PASSES_RAISE_MATCH_H

#include "ir/emit.h"

/* The number a splat repeats (a scalar constant behind broadcasts and reshapes, floats only). */
bool weft_match_number(const weft_value *value, double *out_number);
/* Equal up to the rounding of 16-bit floats (1 part in 250) or of f32 (1 in 1e6) by the dtype of value. */
bool weft_match_near(weft_dtype dtype, double number, double wanted);

/* A product written out: the factors of a tree of multiplications (and divisions by numbers), numbers multiplied. */
enum { WEFT_MATCH_FACTORS = 8 };
typedef struct weft_match_product {
    int count;
    weft_value *factors[WEFT_MATCH_FACTORS];
    double number;
} weft_match_product;
/* false when there are too many factors. Nodes inside the tree must have no other use, except the root. */
bool weft_match_factors(weft_value *value, weft_match_product *out_product);
/* How often value is among the factors. */
int weft_match_count(const weft_match_product *product, const weft_value *value);

/* A value seen through views: map[i] is the axis of the starting value that axis i stands for, -1 for extents of 1. */
typedef struct weft_match_trace {
    weft_value *value;
    int map[WEFT_MAX_RANK];
} weft_match_trace;
void weft_match_trace_start(weft_value *value, weft_match_trace *out_trace);
/* Walks up through broadcasts and reshapes that add or drop axes of extent 1. */
void weft_match_views(weft_match_trace *trace);
/* The trace ends in reduce(kind) of `of`, spread back over exactly the axes it was reduced from: the reduce node. */
const weft_node *weft_match_reduced(const weft_match_trace *trace, const weft_value *of, const char *kind);
/* The same for a mean: a sum divided by the number of elements of its axes. */
const weft_node *weft_match_mean(weft_match_trace trace, const weft_value *of);

#endif
