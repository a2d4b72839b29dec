/* The target "amdgcn": kernels -> LLVM IR -> objects, each linked to a code object by ld.lld -> one image (image.h).
   A code object per module, so that threads compile and link apart. Read next: print.h, codegen/llvm/modules.h. */
#include "codegen/target.h"

#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>

#include "base/process.h"
#include "codegen/amdgcn/image.h"
#include "codegen/amdgcn/print.h"
#include "codegen/llvm/modules.h"

static pthread_once_t initialised = PTHREAD_ONCE_INIT; /* LLVM's registry of targets is process-wide */

static void initialise(void) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
}

/* A whole ELF file ends with its section headers or behind them. */
static bool is_whole(const unsigned char *data, size_t bytes) {
    if (bytes < 64 || memcmp(data, "\177ELF", 4) != 0) return false;
    uint64_t sections = 0, size = 0, count = 0;
    for (int i = 7; i >= 0; i--) sections = sections << 8 | data[40 + i];
    size = (uint64_t)data[58] | (uint64_t)data[59] << 8, count = (uint64_t)data[60] | (uint64_t)data[61] << 8;
    return sections > 0 && sections <= bytes && size * count <= bytes - sections;
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
    if (!status && !is_whole(out_code->data, out_code->bytes)) {
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

static void put_number(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

static weft_status pack_image(weft_allocator allocator, const weft_llvm_modules *modules, weft_code_image *out_image) {
    size_t at = padded(WEFT_AMDGCN_IMAGE_HEAD + (size_t)modules->count * WEFT_AMDGCN_IMAGE_PART), bytes = at;
    for (int i = 0; i < modules->count; i++) bytes += padded(modules->code[i].bytes);
    unsigned char *image = weft_allocate(allocator, bytes);
    if (!image) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "code image of %zu bytes", bytes);
    memcpy(image, "WEFTAMDG", 8);
    put_number(image + 8, WEFT_AMDGCN_IMAGE_FORMAT, 4);
    put_number(image + 12, (uint64_t)modules->count, 4);
    for (int i = 0; i < modules->count; i++) {
        unsigned char *row = image + WEFT_AMDGCN_IMAGE_HEAD + (size_t)i * WEFT_AMDGCN_IMAGE_PART;
        put_number(row, (uint64_t)modules->first[i], 4);
        put_number(row + 4, (uint64_t)(modules->first[i + 1] - modules->first[i]), 4);
        put_number(row + 8, at, 8);
        put_number(row + 16, modules->code[i].bytes, 8);
        memcpy(image + at, modules->code[i].data, modules->code[i].bytes);
        at += padded(modules->code[i].bytes);
    }
    *out_image = (weft_code_image){image, bytes};
    return NULL;
}

static weft_status compile(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    pthread_once(&initialised, initialise);
    weft_llvm_modules modules;
    WEFT_TRY(weft_llvm_compile(context->allocator, &backend, capability, kernel_count, kernels, thread_count, &modules),
             "code for AMD GPUs");
    weft_status status = pack_image(context->allocator, &modules, out_image);
    weft_llvm_modules_deinit(context->allocator, &modules);
    return status;
}

/* Shared memory is declared in the code object: nothing is given at launch. */
static weft_dim scratch_bytes(const weft_kernel *kernel) {
    (void)kernel;
    return 0;
}

static weft_status print(const weft_kernel *kernel, weft_text *text) {
    return weft_llvm_print_alone(&weft_amdgcn_dialect, kernel, text);
}

const weft_target weft_target_amdgcn = {
    .name = "amdgcn",
    .compile = compile,
    .scratch_bytes = scratch_bytes,
    .describe_compiler = weft_llvm_describe,
    .print = print,
};
