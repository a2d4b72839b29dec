/* The rounding contract of decompositions: floats below 32 bits are computed in f32 and rounded once at the end. */
#ifndef WEFT_IR_OPS_COMPUTE_H
#define WEFT_IR_OPS_COMPUTE_H

#include "ir/decompose.h"
#include "ir/emit.h"

static inline weft_dtype weft_compute_dtype(weft_dtype dtype) { return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32; }
/* The value in its compute dtype. */
static inline weft_value *weft_compute_value(weft_graph *graph, weft_value *x) {
    return weft_emit_convert(graph, x, weft_compute_dtype(x->type.dtype));
}

/* exp(x - max) along axes and its sum; the shared half of softmax, log_softmax, attention and cross-entropy. */
typedef struct weft_softmax_parts {
    weft_value *maximum, *shifted, *exponent, *sum; /* maximum and sum have the axis reduced */
} weft_softmax_parts;
/* guard_empty_rows: rows that are all -inf have sum 0 instead of NaN. */
weft_softmax_parts weft_softmax_build(weft_graph *graph, weft_value *x, int64_t axis, bool guard_empty_rows);

#endif
