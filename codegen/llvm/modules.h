/* From kernels to objects through LLVM: what all targets that print LLVM IR share. A target adds a dialect of the
   printer and, where it has one, a last step for each object. Read next: compile.c (CPUs),
   codegen/amdgcn/llvm/compile.c. */
#ifndef WEFT_CODEGEN_LLVM_MODULES_H
#define WEFT_CODEGEN_LLVM_MODULES_H

#include "codegen/llvm/print.h"
#include "codegen/target.h"

typedef struct weft_llvm_backend {
    const weft_llvm_dialect *dialect;
    const char *triple;
    const char *cpu;    /* NULL: the architecture of the capability */
    const char *passes; /* as opt -passes= */
    bool small;         /* code model; else the target's own */
    /* Makes of each object what the module is kept as; NULL: the object itself. Runs on compile threads. */
    weft_status (*finish)(weft_allocator allocator, const void *object, size_t bytes, weft_code_image *out_code);
} weft_llvm_backend;

typedef struct weft_llvm_modules {
    int count;
    int *first; /* kernel of each module, and one past the last kernel */
    weft_code_image *code;
    size_t room;
} weft_llvm_modules;

/* The same kernels give the same modules, whatever the number of threads. The target's LLVM must have been initialised.
 */
weft_status weft_llvm_compile(weft_allocator allocator, const weft_llvm_backend *backend,
                              const weft_capability *capability, int kernel_count, weft_kernel *const *kernels,
                              int thread_count, weft_llvm_modules *out_modules) WEFT_MUST_USE;
void weft_llvm_modules_deinit(weft_allocator allocator, weft_llvm_modules *modules);
/* As weft_target.describe_compiler. */
void weft_llvm_describe(weft_context *context, weft_text *text);

#endif
