/* f32 arithmetic that keeps subnormal numbers, by scaling and by integers, for devices that take them for 0. The least
   f8e8m0fnu, 2^-127, is one: it would be equal to 0, and its inverse infinite. For kernels of that type only, and for
   elementwise ones that read what such a kernel wrote in f32 (weft_kernel.subnormals), and there for what is at most
   two operations away from its numbers, which are rounded then: narrow.c. Whatever else is subnormal stays what the
   device makes of it. */
#ifndef WEFT_CODEGEN_KERNEL_SUBNORMAL_H
#define WEFT_CODEGEN_KERNEL_SUBNORMAL_H

#include "codegen/kernel/kernel.h"

/* How many operations with the result of this instruction keep subnormals. levels: the same of its operands. */
int weft_kernel_subnormal_level(const weft_kernel *kernel, const weft_kinstr *instr, const uint8_t *levels);
/* The value of instruction `op`, some operand of which is an f32 of a level; WEFT_KNONE: it is no arithmetic. */
weft_kval weft_k_with_subnormals(weft_kernel *k, weft_kop op, weft_ktype type, int64_t number,
                                 const weft_kval *operands);

#endif
