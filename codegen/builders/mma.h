/* The tile of warp-collective multiplications (mma.sync) for GPUs from sm_80 on: the problem of simt.h, sums in f32,
   operands of 16 bits, or f32 read as tf32. Where the target has units of whole wavefronts these functions are those of
   mma_wave.h.

   Block: bm x bn outputs by 2 x 2, 2 x 4 or 4 x 2 warps; k advances by 128 bytes of elements (bk). Shared memory is a
   ring of stages; in each, a side lies in rows of 128 bytes whose 16-byte columns are swizzled by the row: rows of bk
   along k (one per row of the problem), or, for sides whose memory runs along the rows, rows of 64 elements along them,
   one per k, block after block of 64. A side is filled by asynchronous copies where its memory allows it, else element
   by element through the problem's load. Fragments are read one step of k ahead of their use. Sums leave through shared
   memory, so that every store is a row of neighbours. Sums run over k in order, in the unit's own order within 16
   (tf32: 8). Read next: mma.c, matmul_mma.c, convolution_mma.c. Source: PTX ISA 8.x, 9.7.14. */
#ifndef WEFT_CODEGEN_BUILDERS_MMA_H
#define WEFT_CODEGEN_BUILDERS_MMA_H

#include "codegen/builders/simt.h"

/* Where a side lies in memory: [batch, rows, k] when the problem's along_k says so, else [batch, k, rows]. */
typedef struct weft_mma_side {
    int operand;    /* of the fusion; -1: only the problem's load knows */
    weft_dim pitch; /* elements from one row of memory to the next */
    int64_t period; /* batches of memory repeat after so many; 0 = as many as the problem has */
    bool along_k;   /* of an operand, as the problem's will say: what schedules may rely on; false: not known yet */
} weft_mma_side;

/* Does the target have the unit for operands and sums of these types, as far as the compile permits? */
bool weft_mma_takes(const weft_capability *capability, weft_dtype dtype, weft_dtype sum);
/* sides: as for weft_mma_emit. */
int weft_mma_propose(const weft_build_request *request, const char *name, weft_dim m, weft_dim n, weft_dim batch,
                     weft_dtype dtype, const weft_mma_side sides[2], int capacity, weft_schedule *out_schedules);
/* As weft_simt_emit. dtype: of both operands. */
weft_status weft_mma_emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) WEFT_MUST_USE;

#endif
