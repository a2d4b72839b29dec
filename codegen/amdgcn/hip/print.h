/* Kernel IR -> HIP C, a dialect of codegen/cxx, for AMD's run-time compiler. One source holds the prelude and any
   number of kernels; it includes nothing and relies on no header, but on clang's builtins for AMD GPUs.

   Parameters, shared memory and the place in the grid are those of codegen/amdgcn/llvm: a pointer per buffer, an i64
   per extent, the number of blocks as i64. Read next: print.c, matrix.c, prelude.c. Source: LLVM, "User Guide for
   AMDGPU Backend"; clang, BuiltinsAMDGPU.def. Thread-compatible. */
#ifndef WEFT_CODEGEN_AMDGCN_HIP_PRINT_H
#define WEFT_CODEGEN_AMDGCN_HIP_PRINT_H

#include "codegen/cxx/print.h"

/* Prelude, funcs and kernels. UNSUPPORTED names what these GPUs have not. */
weft_status weft_hip_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) WEFT_MUST_USE;

/* The text in front of all kernels, NULL-terminated. */
extern const char *const weft_hip_prelude[];
/* matrix.c: the functions that kernels' products call, each once; one product. */
void weft_hip_print_units(int kernel_count, weft_kernel *const *kernels, weft_text *text);
void weft_hip_print_product(weft_cxx_printer *printer, const weft_kinstr *instr);

#endif
