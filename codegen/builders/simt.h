/* The tile of scalar multiply-adds that the portable GPU builders share: sums over k of A[row, k] B[column, k], both
   read through callbacks, so that a product, a convolution or any view of their operands is the same kernel.

   Block: bm x bn outputs (128, 64; 32 and 16 for targets of few threads), 16 x 16 threads or as many as a small tile
   has; a thread owns rows ty * 4 + 0..3 (+ 64) and columns tx * 4 + 0..3 (+ 64) as vectors of 4. K advances by bk; the
   next tile is fetched into registers while the last one is multiplied: two buffers of shared memory, one barrier a
   step. Sums run over k in order, one accumulator each. Shared: a[2][bk][bm], b[2][bk][bn] of the accumulator's type.
   Read next: simt.c, matmul_simt.c, convolution_simt.c. */
#ifndef WEFT_CODEGEN_BUILDERS_SIMT_H
#define WEFT_CODEGEN_BUILDERS_SIMT_H

#include "codegen/builders/index.h"

typedef struct weft_simt weft_simt;

/* Element (row of the problem, k) of side 0 (A) or 1 (B), a carrier. *out_inside (BOOL) or WEFT_KNONE: it exists;
   outside the value is ignored, but the read must be a legal one. row and k are inside the problem; where the depth may
   be 0, s->readable masks the read. */
typedef weft_kval (*weft_simt_load)(weft_simt *s, int side, weft_kval row, weft_kval k, weft_kval *out_inside);
/* Four neighbours along the axis that is contiguous (k when along_k, else rows), of which all exist; vector of 4. */
typedef weft_kval (*weft_simt_load_wide)(weft_simt *s, int side, weft_kval row, weft_kval k);
/* Stores four neighbours of a row; mask: which of them exist (WEFT_KNONE = all). */
typedef void (*weft_simt_store)(weft_simt *s, weft_kval row, weft_lane_index column, weft_kval mask, weft_kval sums);

struct weft_simt {
    const weft_build_request *request;
    weft_kernel *k;
    weft_index_context *index;
    weft_dim m, n, depth, batch; /* depth: K */
    weft_dtype sum;              /* F32, F64, I32 or I64 */
    int bm, bn, bk;
    bool along_k[2]; /* neighbours along k are neighbours in memory: threads then run along k */
    bool wide[2];    /* that axis is a multiple of four elements long: load_wide may be called */
    weft_simt_load load;
    weft_simt_load_wide load_wide;
    weft_simt_store store;
    const void *self;
    /* Problems whose extents the kernel finds in memory (ragged_dot): place sets batch_index, m0, n0, and where side 0
       and k end in this block; memory along k starts at k_first (which load adds); blocks is the grid. NULL: the
       raster's tiles, m and depth. Not for simdgroups and few outputs. */
    void (*place)(weft_simt *s);
    weft_dim blocks;
    weft_kval rows_end, depth_end, k_first;
    /* Sums of every scale_depth elements of k (0: none) times a scale of their row and one of their column: side 0 row
       `row`, side 1 column `row`, of block `block` of k. Only where the tile is mma.c's. */
    int64_t scale_depth;
    weft_kval (*scale)(weft_simt *s, int side, weft_kval row, weft_kval block);
    /* values of the kernel */
    weft_kval thread, batch_index, m0, n0, sums;
    int pitch[2];  /* elements from one k to the next in shared memory */
    bool mixed[2]; /* groups of four rows change places with k there */
    bool turned;   /* side 0 lies with k innermost: what simdgroup matrices read */
    weft_kval shared[2], fetched[2];
    weft_kval readable; /* BOOL, of the element being fetched; WEFT_KNONE = always */
};

/* Candidates for such a problem: 128 x 128 tiles when they fill the device, else 64 x 64, or the kernel for few
 * outputs.
 */
int weft_simt_propose(const weft_build_request *request, const char *name, weft_dim m, weft_dim n, weft_dim batch,
                      weft_dtype sum, int capacity, weft_schedule *out_schedules);
/* Few outputs: simt_small.c. Has the target such a kernel; when is a problem of that kind (for numbers: does the
   condition hold); its schedule (split > 1). */
bool weft_simt_has_small(const weft_capability *capability, weft_dtype sum);
weft_condition weft_simt_is_small(weft_dim_table *dims, const weft_capability *capability, weft_dim m, weft_dim n,
                                  weft_dim batch);
weft_schedule weft_simt_small_schedule(const char *name);
void weft_simt_emit_small(weft_simt *s);
/* Sums in f32 by simdgroup matrices: simt_simdgroup.c. Its schedule (vector 2); false: the target or the sum has none.
 */
bool weft_simt_simdgroup_schedule(const weft_capability *capability, weft_dtype sum, const char *name,
                                  weft_schedule *out_schedule);
void weft_simt_simdgroup_begin(weft_simt *s);
void weft_simt_simdgroup_multiply(weft_simt *s, weft_kval buffer);
void weft_simt_simdgroup_store(weft_simt *s);
/* -- for every tile of this problem */
/* Where a side's rows and k end in this block; the steps of k that reach it. */
weft_kval weft_simt_rows(const weft_simt *s, int side);
weft_kval weft_simt_depth(const weft_simt *s);
weft_kval weft_simt_steps(const weft_simt *s, int step);
/* Sets the grid, thread, batch_index, m0 and n0. */
void weft_simt_place(weft_simt *s, int raster_group);
/* Element (row, k) of a side by the problem's load; 0 outside of the problem. */
weft_kval weft_simt_element(weft_simt *s, int side, weft_kval row, weft_kval kk, weft_dtype as);
/* The same for four neighbours, where the side is wide: all inside or all outside. */
weft_kval weft_simt_four(weft_simt *s, int side, weft_kval row, weft_kval kk, weft_dtype as);

/* Element of a side's shared memory. */
weft_kval weft_simt_shared_at(weft_simt *s, int side, weft_kval buffer, weft_kval kk, weft_kval row);

/* A plan of one launch: the kernel of the request's schedule, and beside it, where extents decide at launch, the one
   for few outputs. build makes a kernel by the schedule of the request that it is given. */
typedef struct weft_simt_extents {
    weft_dim m, n, batch;
    weft_dtype sum;
} weft_simt_extents;
typedef weft_status (*weft_simt_build)(const weft_build_request *request, const char *suffix, weft_kernel **out_kernel);
weft_status weft_simt_plan(const weft_build_request *request, const weft_simt_extents *x, weft_simt_build build,
                           weft_kernel_plan *out_plan) WEFT_MUST_USE;

/* Takes tiles from the schedule, sets threads and grid, emits the kernel, ends with weft_index_finish. */
weft_status weft_simt_emit(weft_simt *s) WEFT_MUST_USE;

#endif
