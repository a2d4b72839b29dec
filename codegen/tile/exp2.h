/* 2^x without the exponential unit, for kernels that keep it busier than their matrix unit. */
#ifndef WEFT_CODEGEN_TILE_EXP2_H
#define WEFT_CODEGEN_TILE_EXP2_H

#include "codegen/kernel/build.h"

/* f32 x <= 0, relative error 7.5e-5: a twentieth of what rounding to bf16 loses. Below 2^-126: 2^-126, never 0. Eight
   instructions of the FMA and integer units. Source: reduction of Cody and Waite 1980, minimax polynomial of degree 3.
 */
weft_kval weft_exp2_by_fma(weft_kernel *k, weft_kval x);

#endif
