/* Between the files of the CPU convolution builder. Read next: convolution_cpu.c, convolution_pack.c,
 * convolution_depthwise.c. */
#ifndef WEFT_CODEGEN_BUILDERS_CONVOLUTION_CPU_H
#define WEFT_CODEGEN_BUILDERS_CONVOLUTION_CPU_H

#include "codegen/builders/convolution.h"
#include "codegen/builders/index_internal.h"

typedef struct weft_convolution_build {
    const weft_build_request *request;
    const weft_convolution *p;
    weft_index_context c;
    weft_kernel *k;
    int lanes, mr, nv;
    int64_t tiles, base, extra; /* row tiles of a group's output channels */
    int64_t tiles_per_block, panels_per_block;
    weft_dim lines_per_block, line_blocks, panel_blocks, row_blocks, panels;
    int x_temp, w_temp;             /* -1: in place, or packed inside the kernel */
    weft_kval x, w, x_base, w_base; /* of image and group */
    weft_kval image, group, line_start;
    weft_kval stage;   /* one column of a tile's sums, for epilogues with long functions; WEFT_KNONE = none */
    weft_kval weights; /* depthwise: all taps' in registers, WEFT_KNONE = loaded where they are used */
    uint32_t merge;
    weft_lane_index index[WEFT_MAX_RANK]; /* of the result */
} weft_convolution_build;

static inline weft_kval weft_cv_extent(weft_convolution_build *b, weft_dim dim) { return weft_k_extent(b->k, dim); }
static inline weft_kval weft_cv_number(weft_convolution_build *b, int64_t value) { return weft_k_index(b->k, value); }
static inline weft_kval weft_cv_plus(weft_convolution_build *b, weft_kval x, int64_t value) {
    return weft_k_add(b->k, x, weft_cv_number(b, value));
}
static inline weft_kval weft_cv_times(weft_convolution_build *b, weft_kval x, weft_dim factor) {
    return weft_k_mul(b->k, x, weft_cv_extent(b, factor));
}

/* Starts and finishes a kernel with the fusion's buffers. */
weft_status weft_convolution_begin(weft_convolution_build *b, const char *suffix) WEFT_MUST_USE;
weft_status weft_convolution_end(weft_convolution_build *b) WEFT_MUST_USE;
/* Splits a block number; the innermost count is `count`. */
weft_kval weft_convolution_take(weft_convolution_build *b, weft_kval *id, weft_dim count);
/* sum + x * y */
weft_kval weft_convolution_multiply_add(weft_convolution_build *b, weft_kval x, weft_kval y, weft_kval sum);
/* The sum of one vector of positions is finished: elementwise ops, stores. index[...] but the last axis is set; columns
   from `column`; mask as weft_index_emit. */
void weft_convolution_emit(weft_convolution_build *b, weft_kval sum, weft_kval mask);

/* Packed rows [lo, hi) of one channel to `to` and on. */
void weft_convolution_pack_rows(weft_convolution_build *b, weft_kval buffer, weft_kval to, weft_kval image,
                                weft_kval channel, weft_kval lo, weft_kval hi);
weft_status weft_convolution_pack_x(weft_convolution_build *b) WEFT_MUST_USE;
weft_status weft_convolution_pack_w(weft_convolution_build *b) WEFT_MUST_USE;

/* Taps of the last axis that are written out; more are a loop. */
enum { WEFT_CONVOLUTION_UNROLLED = 32 };

/* Lines of a depthwise tile: rows of x are read once for all of them. */
enum { WEFT_DEPTHWISE_LINES = 4 };

/* One input channel a group, few taps, at most two spatial axes. */
bool weft_convolution_is_depthwise(const weft_convolution *p);
/* Makes rows of the plane wide enough for whole vectors. */
void weft_convolution_depthwise_layout(const weft_build_request *request, weft_convolution *p, int lanes);
weft_status weft_convolution_depthwise(weft_convolution_build *b) WEFT_MUST_USE;

#endif
