/* Elementary functions as kernel IR, for targets without them: polynomials and range reductions on F32 and F64 vectors,
   no table lookups, no library calls. Error bounds (ulp, whole domain) are stated per function in math.c and tested
   against libm in long double. Inputs of NaN and infinities follow C's annex F. F16 and BF16 go through F32. */
#ifndef WEFT_CODEGEN_KERNEL_MATH_H
#define WEFT_CODEGEN_KERNEL_MATH_H

#include "codegen/kernel/build.h"
#include "ir/graph.h"

/* op: a unary floating point op of the graph (exp log tanh erf sin ... ). value: F32 or F64, any lanes. */
weft_kval weft_k_math_unary(weft_kernel *k, weft_op op, weft_kval value);
/* exp of F32 by one hardware exponential: relative error 2^-22 + |x| 2^-24, subnormal results are 0. Needs fast_math.
 */
weft_kval weft_k_math_exp_coarse(weft_kernel *k, weft_kval value);
/* pow, atan2, rem (fmod). */
weft_kval weft_k_math_binary(weft_kernel *k, weft_op op, weft_kval a, weft_kval b);

#endif
