/* The text in front of printed CUDA kernels: own types and one function per op that needs inline PTX. No CUDA headers,
   so that NVRTC starts in milliseconds. Lines, ended by NULL. Parts are added when a kernel needs them. Source: PTX
   ISA 8.x. */
#ifndef WEFT_CODEGEN_CUDA_PRELUDE_H
#define WEFT_CODEGEN_CUDA_PRELUDE_H

extern const char *const weft_cuda_prelude_generic[];
extern const char *const weft_cuda_prelude_matrix[]; /* sm_80: cp.async, ldmatrix, mma.sync */
extern const char *const weft_cuda_prelude_hopper[]; /* sm_90a: after matrix */

#endif
