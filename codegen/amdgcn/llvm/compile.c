/* Code objects by LLVM: kernels -> LLVM IR -> objects, each linked to a code object by ld.lld -> one image (image.h).
   A code object per module, so that threads compile and link apart. Read next: print.h, codegen/llvm/modules.h. */
#include <llvm-c/Target.h>
#include <pthread.h>

#include "base/process.h"
#include "codegen/amdgcn/compiler.h"
#include "codegen/amdgcn/image.h"
#include "codegen/amdgcn/llvm/print.h"
#include "codegen/llvm/modules.h"

static pthread_once_t initialised = PTHREAD_ONCE_INIT; /* LLVM's registry of targets is process-wide */

static void initialise(void) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
}

/* An object to a code object. Undefined symbols are an error: there is no library to find them in. */
static weft_status link_object(weft_allocator allocator, const void *object, size_t bytes, weft_code_image *out_code) {
    static const char *const names[] = {"ld.lld-19", "ld.lld", NULL};
    weft_status status = NULL;
    for (int i = 0; names[i]; i++) {
        const char *const arguments[] = {names[i], "-shared", "--no-undefined", "-o", "-", "/dev/stdin", NULL};
        weft_process process = {
            .arguments = arguments, .input = object, .input_bytes = bytes, .limit_ns = INT64_C(60000000000)};
        weft_status_release(status);
        status = weft_process_run(allocator, &process, &out_code->data, &out_code->bytes);
        if (weft_status_code(status) != WEFT_NOT_FOUND) break;
    }
    if (weft_status_code(status) == WEFT_NOT_FOUND) {
        weft_status_release(status);
        return WEFT_STATUS(WEFT_UNAVAILABLE, "code for AMD GPUs is linked by ld.lld-19, which is not in PATH: "
                                             "apt-get install lld-19");
    }
    if (!status && !weft_amdgcn_code_is_whole(out_code->data, out_code->bytes)) {
        weft_free(allocator, out_code->data, out_code->bytes);
        *out_code = (weft_code_image){0};
        status = WEFT_STATUS(WEFT_INTERNAL, "ld.lld gave no whole code object");
    }
    return status;
}

static const weft_llvm_backend backend = {
    .dialect = &weft_amdgcn_dialect,
    .triple = "amdgcn-amd-amdhsa",
    .passes = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)",
    .finish = link_object};

static weft_status compile(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    pthread_once(&initialised, initialise);
    weft_llvm_modules modules;
    WEFT_TRY(weft_llvm_compile(context->allocator, &backend, capability, kernel_count, kernels, thread_count, &modules),
             "code for AMD GPUs");
    weft_status status =
        weft_amdgcn_image_pack(context->allocator, modules.count, modules.first, modules.code, out_image);
    weft_llvm_modules_deinit(context->allocator, &modules);
    return status;
}

static weft_status print(const weft_kernel *kernel, weft_text *text) {
    return weft_llvm_print_alone(&weft_amdgcn_dialect, kernel, text);
}

const weft_amdgcn_compiler weft_amdgcn_llvm = {
    .name = "llvm", .compile = compile, .describe = weft_llvm_describe, .print = print};
