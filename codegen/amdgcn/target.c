/* The target "amdgcn": kernels to one image of code objects, by LLVM where this build has it, else as HIP C by AMD's
   own run-time compiler. WEFT_AMDGCN_COMPILER asks for one of the two. Read next: compiler.h, image.h. */
#include "codegen/target.h"

#include <string.h>

#include "codegen/amdgcn/compiler.h"

static const weft_amdgcn_compiler *const compilers[] = {
#if defined(WEFT_HAVE_LLVM)
    &weft_amdgcn_llvm,
#endif
    &weft_amdgcn_hiprtc, NULL};

/* NULL: the name is of none that this build has. */
static const weft_amdgcn_compiler *chosen(void) {
    const char *name = weft_env_get(WEFT_ENV_AMDGCN_COMPILER);
    if (!*name) return compilers[0];
    for (int i = 0; compilers[i]; i++)
        if (!strcmp(compilers[i]->name, name)) return compilers[i];
    return NULL;
}

static weft_status missing(void) {
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s=%s: this build has %s", weft_env_name(WEFT_ENV_AMDGCN_COMPILER),
                       weft_env_get(WEFT_ENV_AMDGCN_COMPILER), compilers[1] ? "llvm and hiprtc" : "hiprtc alone");
}

static weft_status compile(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    const weft_amdgcn_compiler *compiler = chosen();
    return compiler ? compiler->compile(context, capability, kernel_count, kernels, thread_count, out_image)
                    : missing();
}

static void describe(weft_context *context, weft_text *text) {
    const weft_amdgcn_compiler *compiler = chosen();
    if (compiler) compiler->describe(context, text);
}

static weft_status print(const weft_kernel *kernel, weft_text *text) {
    const weft_amdgcn_compiler *compiler = chosen();
    return compiler ? compiler->print(kernel, text) : missing();
}

/* Shared memory is declared in the code object: nothing is given at launch. */
static weft_dim scratch_bytes(const weft_kernel *kernel) {
    (void)kernel;
    return 0;
}

const weft_target weft_target_amdgcn = {
    .name = "amdgcn",
    .compile = compile,
    .scratch_bytes = scratch_bytes,
    .describe_compiler = describe,
    .print = print,
};
