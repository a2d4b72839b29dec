/* 8-bit floats as integers, for targets that have no carrier for them: buffers, loads and stores of them become ones of
   U8, conversions to and from F32 integer arithmetic that every target has. What they mean: base/dtype.c. These are
   also the targets that may take subnormal f32 for 0: in kernels with f8e8m0fnu, and in those that say so, its least
   value is kept from that (subnormal.h). */
#ifndef WEFT_CODEGEN_KERNEL_NARROW_H
#define WEFT_CODEGEN_KERNEL_NARROW_H

#include "codegen/kernel/kernel.h"

/* The kernel itself where it has no 8-bit floats and no subnormal f32 that count, else another one in its arena; their
   arguments are the same. */
weft_status weft_kernel_without_f8(const weft_kernel *kernel, const weft_kernel **out_kernel) WEFT_MUST_USE;

#endif
