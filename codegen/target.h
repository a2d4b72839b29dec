/* A target turns kernels into code. One record each: llvm (cpu), cuda, ...; found by target name. */
#ifndef WEFT_CODEGEN_TARGET_H
#define WEFT_CODEGEN_TARGET_H

#include "base/context.h"
#include "base/text.h"
#include "codegen/kernel/kernel.h"

typedef struct weft_code_image {
    void *data; /* from the allocator */
    size_t bytes;
} weft_code_image;

typedef struct weft_target {
    const char *name; /* capability->target */
    /* One image with all kernels, for capability->arch. Deterministic. thread_count: compile threads. */
    weft_status (*compile)(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image);
    /* Scratch per thread (CPU) or dynamic shared memory (GPUs) that a kernel needs, as an extent of kernel->dims. */
    weft_dim (*scratch_bytes)(const weft_kernel *kernel);
    /* Appends name and version of the compiler from outside that `compile` would use: part of the cache's key. NULL:
       none. Says so when it cannot be found; that is compile's error to report. */
    void (*describe_compiler)(weft_context *context, weft_text *text);
    /* The source text of one kernel, for people and tests. */
    weft_status (*print)(const weft_kernel *kernel, weft_text *text);
} weft_target;

/* The records; cpu only with WEFT_HAVE_LLVM, vulkan with WEFT_HAVE_SPIRV. */
extern const weft_target weft_target_cpu, weft_target_amdgcn, weft_target_cuda, weft_target_metal, weft_target_webgpu,
    weft_target_vulkan;

/* NULL when this build has no such target. */
const weft_target *weft_target_find(const char *name);

#endif
