/* Operands and products of Hopper's warpgroup matrix unit, as builders write them: tiles in shared memory have rows of
   128 bytes with the 128-byte swizzle, groups of 8 rows follow each other. Encodings: codegen/kernel/matrix.h. */
#ifndef WEFT_CODEGEN_TILE_WGMMA_H
#define WEFT_CODEGEN_TILE_WGMMA_H

#include "codegen/kernel/build.h"

/* The descriptor of a tile at byte `at` of a shared object. leading: bytes from one group of 64 columns to the next,
   for tiles that are read across their rows; any other tile: 16. */
weft_kval weft_wgmma_operand(weft_kernel *k, weft_kval memory, weft_kval at, int leading);
weft_kval weft_wgmma_moved(weft_kernel *k, weft_kval operand, int64_t bytes);

/* d = A B^T or d += ...: both K-major in boxes of 64 columns, `box_a` and `box_b` bytes apart; depth: columns. One
   commit group. */
void weft_wgmma_inner(weft_kernel *k, int64_t unit, int depth, weft_kval d, weft_kval a, int box_a, weft_kval b,
                      int box_b);
/* d = A B (first) or d += A B: A in registers, 4 of them for 16 rows of B, which lie 128 bytes apart. `first` writes d
   without reading it. One commit group. */
void weft_wgmma_outer(weft_kernel *k, int64_t unit, int depth, weft_kval d, weft_kval a, weft_kval b, bool first);
/* d = A^T B with both in shared memory, 16 rows of each at a time. One commit group. */
void weft_wgmma_across(weft_kernel *k, int64_t unit, int depth, weft_kval d, weft_kval a, weft_kval b);

/* regs[at .. at + 1] of two f32 registers each, packed to `dtype`: accumulators become an operand of the same place. */
weft_kval weft_wgmma_pack(weft_kernel *k, weft_kval low, weft_kval high, weft_dtype dtype);
/* Row `row` of a warp's lane, chunk i of 16 columns: byte offset inside a tile for frag_store of four 8 x 8 parts.
   row_at: byte offset of row lane % 16 of the warp's rows, a multiple of 128; box: bytes of 64 columns. */
weft_kval weft_wgmma_place(weft_kernel *k, weft_kval row_at, weft_kval lane, int i, int box);

#endif
