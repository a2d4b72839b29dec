/* How far generated code may be from the reference interpreter: one table, used by tests, fuzzing and bisect.

   allowed(expected) = ulp * spacing(dtype, max(|expected|, least)) + accumulation * terms * 2^-24 (2^-53 for f64) *
   scale where scale bounds the terms of a sum. Integers, booleans and moved elements are exact. */
#ifndef WEFT_BASE_TOLERANCE_H
#define WEFT_BASE_TOLERANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/dtype.h"

typedef enum weft_tolerance_class {
    WEFT_TOLERANCE_EXACT,      /* moves elements, compares, selects, converts */
    WEFT_TOLERANCE_ARITHMETIC, /* + - * / sqrt: one rounding */
    WEFT_TOLERANCE_FUNCTION,   /* exp, log, tanh, pow ... */
    WEFT_TOLERANCE_SUM,        /* sums, products, scans, dot products: order is free within the numerics contract */
    WEFT_TOLERANCE_CHAIN,      /* several roundings one after another: a fused group, a derived op */
    WEFT_TOLERANCE_GRAPH, /* whole graphs of moderate values: rounding errors pass through further ops and cancel */
    WEFT_TOLERANCE_CLASS_COUNT
} weft_tolerance_class;

typedef struct weft_tolerance {
    double ulp;          /* units in the last place of the dtype */
    double accumulation; /* of the accumulator's unit roundoff, per term */
    double least;        /* units are those of this magnitude at least */
} weft_tolerance;

/* target: cpu cuda ... */
weft_tolerance weft_tolerance_get(weft_tolerance_class class, weft_dtype dtype, const char *target);
/* Distance between neighbouring numbers of dtype at |value|. */
double weft_tolerance_spacing(weft_dtype dtype, double value);
/* Equal within the tolerance; NaN equals NaN, infinities equal themselves. terms: elements of one sum (1 otherwise);
   scale: bound on their magnitude. */
bool weft_tolerance_close(weft_tolerance tolerance, weft_dtype dtype, double expected, double actual, double terms,
                          double scale);

#endif
