/* f32 arithmetic on the least f8e8m0fnu, 2^-127, which is no normal f32: devices that take such numbers for 0 would
   find it equal to 0, and its inverse infinite. Here it is computed with as 2^-95 and by integers. Every other
   subnormal number stays what the device makes of it. For kernels of that type only: narrow.c. */
#ifndef WEFT_CODEGEN_KERNEL_SUBNORMAL_H
#define WEFT_CODEGEN_KERNEL_SUBNORMAL_H

#include "codegen/kernel/kernel.h"

/* May the result of this instruction be 2^-127? least: the same of its operands, one each. Results of arithmetic are
   rounded before anybody looks at them, so they count as what the device made of them. */
bool weft_kernel_may_be_least(const weft_kernel *kernel, const weft_kinstr *instr, const bool *least);
/* The value of instruction `op`, some operand of which is f32 and may be 2^-127; WEFT_KNONE: it is no arithmetic. */
weft_kval weft_k_with_least(weft_kernel *k, weft_kop op, weft_ktype type, int64_t number, const weft_kval *operands);

#endif
