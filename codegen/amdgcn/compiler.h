/* The two ways from kernels to code objects of AMD GPUs. Each makes the same image (image.h) with the same parameters
   of a kernel, so that the driver need not know which it was. Read next: target.c, which chooses. */
#ifndef WEFT_CODEGEN_AMDGCN_COMPILER_H
#define WEFT_CODEGEN_AMDGCN_COMPILER_H

#include "codegen/target.h"

typedef struct weft_amdgcn_compiler {
    const char *name; /* of WEFT_AMDGCN_COMPILER */
    /* As those of weft_target. */
    weft_status (*compile)(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image);
    void (*describe)(weft_context *context, weft_text *text);
    weft_status (*print)(const weft_kernel *kernel, weft_text *text);
} weft_amdgcn_compiler;

extern const weft_amdgcn_compiler weft_amdgcn_llvm;   /* llvm/: only with WEFT_HAVE_LLVM */
extern const weft_amdgcn_compiler weft_amdgcn_hiprtc; /* hip/ */

#endif
