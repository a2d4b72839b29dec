/* Folding of kernel IR: constants of known operands and identities, used by build.c before anything is emitted.
   Every function returns WEFT_KNONE when there is nothing to fold. Folded values are what the simulator computes. */
#ifndef WEFT_CODEGEN_KERNEL_FOLD_H
#define WEFT_CODEGEN_KERNEL_FOLD_H

#include "codegen/kernel/kernel.h"

weft_kval weft_kfold_unary(weft_kernel *k, weft_kop op, weft_kval a);
/* a and b have equal lanes. */
weft_kval weft_kfold_binary(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b);
weft_kval weft_kfold_convert(weft_kernel *k, weft_kval a, weft_dtype elem);
weft_kval weft_kfold_bitcast(weft_kernel *k, weft_kval a, weft_dtype elem);
/* The instruction of a constant, or NULL. */
const weft_kinstr *weft_kfold_constant(const weft_kernel *k, weft_kval value);

#endif
