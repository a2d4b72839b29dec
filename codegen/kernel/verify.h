/* Checks the invariants of kernel.h; one status with every problem, by instruction. */
#ifndef WEFT_CODEGEN_KERNEL_VERIFY_H
#define WEFT_CODEGEN_KERNEL_VERIFY_H
#include "codegen/kernel/kernel.h"
weft_status weft_kernel_verify(const weft_kernel *kernel) WEFT_MUST_USE;
#endif
