/* Kernel IR -> Metal Shading Language, a dialect of codegen/cxx. One source holds the prelude and any number of
   kernels.

   A kernel's buffers are bound at the index that is their place among its buffer arguments; where it has extents, they
   follow as one constant array of 64-bit integers, at the next index. Shared memory is declared inside. Blocks lie
   along x. Read next: print.c, prelude.c. Source: Apple, Metal Shading Language Specification. Thread-compatible. */
#ifndef WEFT_CODEGEN_METAL_PRINT_H
#define WEFT_CODEGEN_METAL_PRINT_H

#include "codegen/cxx/print.h"

/* Prelude, funcs and kernels. UNSUPPORTED names what Metal cannot express. */
weft_status weft_metal_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) WEFT_MUST_USE;

/* The text in front of all kernels: types and functions that the shared printer calls. NULL-terminated. */
extern const char *const weft_metal_prelude[];

#endif
