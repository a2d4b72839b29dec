/* Kernel IR -> CUDA C without headers, a dialect of codegen/cxx. One translation unit holds any number of kernels.
   Read next: print.c (signature, shared layout, roles), print_matrix.c (mma, Hopper), prelude.c. Thread-compatible. */
#ifndef WEFT_CODEGEN_CUDA_PRINT_H
#define WEFT_CODEGEN_CUDA_PRINT_H

#include "codegen/cxx/print.h"

enum { WEFT_CUDA_NEEDS_MATRIX = 1, WEFT_CUDA_NEEDS_HOPPER = 2 };

/* Prelude, funcs and kernels. */
weft_status weft_cuda_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) WEFT_MUST_USE;
/* Dynamic shared memory of a kernel: shared objects and barriers in order, each aligned (1024 bytes where tensor copies
   or operands need it). The driver passes this number at launch. */
weft_status weft_cuda_shared_bytes(const weft_kernel *kernel, int64_t *out_bytes) WEFT_MUST_USE;

/* -- shared by the printer's files */
bool weft_cuda_print_matrix(weft_cxx_printer *printer, weft_kval id);
int weft_cuda_needs(const weft_kernel *kernel);
/* Definitions of the wgmma wrappers that these kernels call. */
void weft_cuda_print_wrappers(int kernel_count, weft_kernel *const *kernels, weft_text *text);
/* "base + 1024 + v7": address of a shared object plus a byte offset. */
weft_piece weft_cuda_address(const weft_cxx_printer *printer, weft_kval shared, weft_kval offset);

#endif
