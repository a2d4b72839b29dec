/* The tile of mma.h on units of whole wavefronts (codegen/kernel/matrix.h: AMD's MFMA and WMMA, Vulkan's cooperative
   matrices), for operands of 16 bits, floats of 8, 8-bit integers with sums in i32, and f32 where the unit has them.

   Block: bm x bn outputs by 256 threads: 2 x 2 wavefronts of 64 lanes or 4 x 2 of 32; k advances by 64 bytes of
   elements (bk). Two stages of shared memory; in each, a side is one row of 64 bytes per row of the problem, along k,
   whose four chunks of 16 bytes are XORed with bits of the row: neither filling nor reading meets a bank twice, but for
   turned sides. The next stage is fetched into registers while the last one is multiplied. A side is filled by chunks
   where its memory runs along k; by small blocks turned in registers where it runs along the rows; else element by
   element through the problem's load. Units that hide where their elements are (Vulkan's cooperative matrices) read
   shared memory whole, whose rows then lie 16 bytes apart and in place, and leave through it fragment by fragment. For
   all others operand a of the unit is side 1, so that a lane's sums are neighbours along a row of the output and are
   stored from registers. Sums run over k in order, in the unit's own order within its depth. Read next: mma_wave.c,
   mma_wave_few.c. */
#ifndef WEFT_CODEGEN_BUILDERS_MMA_WAVE_H
#define WEFT_CODEGEN_BUILDERS_MMA_WAVE_H

#include "codegen/builders/mma.h"

/* As the functions of mma.h, which end here where the target has wave units. */
bool weft_mma_wave_takes(const weft_capability *capability, weft_dtype dtype, weft_dtype sum);
int weft_mma_wave_propose(const weft_build_request *request, const char *name, weft_dim m, weft_dim n, weft_dim batch,
                          weft_dtype dtype, const weft_mma_side sides[2], int capacity, weft_schedule *out_schedules);
/* Products of few rows (mma_wave_few.c): is this one of them, its schedule, its kernel. */
bool weft_mma_wave_few_takes(const weft_build_request *request, weft_dim m, weft_dtype dtype,
                             const weft_mma_side sides[2]);
weft_schedule weft_mma_wave_few_schedule(const weft_build_request *request, const char *name, weft_dim m, weft_dim n,
                                         weft_dim batch);
weft_status weft_mma_wave_few_emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) WEFT_MUST_USE;
weft_status weft_mma_wave_emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) WEFT_MUST_USE;
/* Bytes that one access to a side's memory may have; 0: none (mma.c). */
int weft_mma_piece(const weft_dim_table *dims, const weft_mma_side *side, int bytes);

#endif
