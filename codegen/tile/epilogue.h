/* The epilogue of a product in registers: what a fusion computes from the sums, evaluated where they lie.

   The index evaluator does the arithmetic; this adds what a tile knows: rows and columns are visited many times, so
   vectors along them are read once and ahead of their use (hoist); 16-bit results are rounded once, when they are
   packed; GELU and 1 + erf(x), its core, are computed as one exponential when the result has 16 bits, the derivative of
   GELU beside it as one more. Read next: codegen/builders/index.h. Thread-compatible. */
#ifndef WEFT_CODEGEN_TILE_EPILOGUE_H
#define WEFT_CODEGEN_TILE_EPILOGUE_H

#include "codegen/builders/index.h"

typedef struct weft_epilogue {
    weft_index_context *index;
    const weft_value *product; /* the sums */
    const weft_value *value;   /* a result before its last rounding, when that is a convert from f32 */
    weft_dtype result;         /* of it */
    weft_dim m, n, batch;
} weft_epilogue;

/* A row of the product: the index of its leading axes, or only its row-major number. */
typedef struct weft_epilogue_row {
    bool split; /* the last axis of the value is n: index holds the axes before it */
    weft_kval line;
    weft_lane_index index[WEFT_MAX_RANK];
} weft_epilogue_row;

weft_epilogue weft_epilogue_create(weft_index_context *index, const weft_value *product, weft_dim m, weft_dim n,
                                   weft_dim batch, int result);
weft_epilogue_row weft_epilogue_place_row(const weft_epilogue *e, weft_kval batch, weft_kval row);
void weft_epilogue_at(const weft_epilogue *e, const weft_epilogue_row *row, weft_lane_index column, int lanes,
                      weft_lane_index *out_index);
/* Evaluates the operands of broadcasts that depend on the row alone (columns = false) or on the column alone, so that
   they are in registers when the value at `at` is asked for. */
void weft_epilogue_hoist(const weft_epilogue *e, const weft_lane_index *at, int lanes, weft_kval mask, bool columns);
/* The value at `at` for these sums. */
weft_kval weft_epilogue_value(const weft_epilogue *e, weft_kval sums, const weft_lane_index *at, int lanes,
                              weft_kval mask);

#endif
