/* The dialect of AMD GPUs: what codegen/llvm's printer cannot know about them.

   Kernel arguments (kernarg segment): one 64-bit pointer per buffer, then one i64 per extent, each in argument order,
   then the number of blocks as i64. A block is a workgroup, a warp a wavefront of capability->warp lanes. Buffers are
   addrspace(1), shared arrays addrspace(3) variables of the module, variables and registers addrspace(5).
   Read next: print.c, memory.c, lanes.c, matrix.c. Source: LLVM, "User Guide for AMDGPU Backend". */
#ifndef WEFT_CODEGEN_AMDGCN_PRINT_H
#define WEFT_CODEGEN_AMDGCN_PRINT_H

#include "codegen/llvm/print.h"

extern const weft_llvm_dialect weft_amdgcn_dialect;

/* LLVM 19 takes a few instructions of whole wavefronts (WMMA, permlanex16) for ones of single lanes and moves
   them into branches; something convergent that uses the result keeps them where they stand. lanes.c */
int weft_amdgcn_pin(weft_llvm_printer *printer, const char *type, int id);
/* memory.c: loads, stores, atomics, barriers; lanes.c: shuffles, fast functions; matrix.c: mma. True = printed. */
bool weft_amdgcn_print_memory(weft_llvm_printer *printer, int32_t at);
bool weft_amdgcn_print_lanes(weft_llvm_printer *printer, int32_t at);
bool weft_amdgcn_print_matrix(weft_llvm_printer *printer, int32_t at);

#endif
