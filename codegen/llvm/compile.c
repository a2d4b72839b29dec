/* The target "cpu": kernels -> LLVM IR -> objects -> one image. Read next: modules.c, print.c, link.c. */
#include <llvm-c/Target.h>
#include <pthread.h>

#include "codegen/llvm/link.h"
#include "codegen/llvm/modules.h"

static pthread_once_t initialised = PTHREAD_ONCE_INIT; /* LLVM's registry of targets is process-wide */

static void initialise(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

/* The CPU is an attribute of each function: code is made for a named CPU, not for the host. */
static const weft_llvm_backend backend = {.dialect = &weft_llvm_cpu,
                                          .triple = "x86_64-unknown-linux-gnu",
                                          .cpu = "x86-64",
                                          .passes = "function(sroa,early-cse,simplifycfg)",
                                          .small = true};

static weft_status compile(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    pthread_once(&initialised, initialise);
    weft_allocator allocator = context->allocator;
    weft_llvm_modules modules;
    WEFT_TRY(weft_llvm_compile(allocator, &backend, capability, kernel_count, kernels, thread_count, &modules),
             "code for CPUs");
    size_t bytes = ((size_t)modules.count + 1) * sizeof(weft_link_object);
    weft_link_object *objects = weft_allocate(allocator, bytes);
    weft_status status = NULL;
    if (objects) {
        for (int i = 0; i < modules.count; i++)
            objects[i] = (weft_link_object){modules.code[i].data, modules.code[i].bytes};
        status = weft_link(allocator, modules.count, objects, out_image);
    } else {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to link %d modules", modules.count);
    }
    weft_free(allocator, objects, bytes);
    weft_llvm_modules_deinit(allocator, &modules);
    return status;
}

/* As print_scratch of print_cpu.c lays the arrays out. */
static weft_dim scratch_bytes(const weft_kernel *kernel) {
    weft_dim total = 0, unit = 64;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        const weft_kinstr *instr = &kernel->instrs[i];
        if (instr->op != WEFT_K_shared) continue;
        weft_dim bytes =
            weft_dim_multiply(kernel->dims, instr->extent, weft_dtype_bits((weft_dtype)instr->type.elem) / 8);
        weft_dim units = weft_dim_divide_ceil(kernel->dims, bytes, unit);
        total = weft_dim_add(kernel->dims, total, weft_dim_multiply(kernel->dims, units, unit));
    }
    return total;
}

static weft_status print(const weft_kernel *kernel, weft_text *text) {
    return weft_llvm_print_alone(&weft_llvm_cpu, kernel, text);
}

const weft_target weft_target_cpu = {.name = "cpu",
                                     .compile = compile,
                                     .scratch_bytes = scratch_bytes,
                                     .describe_compiler = weft_llvm_describe,
                                     .print = print};
