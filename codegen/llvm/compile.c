/* The target "cpu": kernels -> LLVM IR -> objects -> one image.

   Kernels are split into modules by size alone, so that the image does not depend on the number of threads; threads
   take modules in turn, each with its own LLVM context and target machine. Passes: what the printer's output needs and
   no more, builders write final code. Read next: print.c, link.c. */
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>

#include "base/thread.h"
#include "codegen/llvm/link.h"
#include "codegen/llvm/print.h"

enum { MODULE_INSTRUCTIONS = 2500, MODULE_KERNELS = 16 };

static const char pass_pipeline[] = "function(sroa,early-cse,simplifycfg)";

typedef struct job {
    weft_allocator allocator;
    const weft_capability *capability;
    weft_kernel *const *kernels;
    int module_count;
    int *first; /* of each module, and one past the last kernel */
    LLVMMemoryBufferRef *objects;
    weft_status *statuses;
    LLVMTargetMachineRef *machines; /* by thread; made when it takes its first module */
} job;

static pthread_once_t initialised = PTHREAD_ONCE_INIT; /* LLVM's registry of targets is process-wide */

static void initialise(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static weft_status take_message(char *message, const char *what) {
    weft_status status = WEFT_STATUS(WEFT_INTERNAL, "%s: %s", what, message ? message : "no reason given");
    LLVMDisposeMessage(message);
    return status;
}

static weft_status create_machine(LLVMTargetMachineRef *out_machine) {
    static const char triple[] = "x86_64-unknown-linux-gnu";
    LLVMTargetRef target;
    char *message = NULL;
    *out_machine = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) return take_message(message, "this LLVM has no x86-64");
    /* The CPU is an attribute of each function: code is made for a named CPU, not for the host. */
    *out_machine = LLVMCreateTargetMachine(target, triple, "x86-64", "", LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                           LLVMCodeModelSmall);
    return *out_machine ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "LLVM made no target machine");
}

/* Keeps the first error; LLVM's default handler would print and exit. */
static void diagnose(LLVMDiagnosticInfoRef info, void *self) {
    char **message = self;
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError && !*message) *message = LLVMGetDiagInfoDescription(info);
}

static weft_status emit_module(LLVMTargetMachineRef machine, LLVMModuleRef module, LLVMMemoryBufferRef *out_object) {
    LLVMSetTarget(module, "x86_64-unknown-linux-gnu");
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, pass_pipeline, machine, options);
    LLVMDisposePassBuilderOptions(options);
    char *message = NULL;
    if (error) {
        message = LLVMGetErrorMessage(error);
        weft_status status = WEFT_STATUS(WEFT_INTERNAL, "LLVM passes: %s", message);
        LLVMDisposeErrorMessage(message);
        return status;
    }
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, out_object))
        return take_message(message, "LLVM code generation");
    return NULL;
}

static weft_status compile_text(LLVMTargetMachineRef machine, const weft_text *text, LLVMMemoryBufferRef *out_object) {
    char *message = NULL, *problem = NULL;
    LLVMModuleRef module = NULL;
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, diagnose, &problem);
    LLVMMemoryBufferRef source =
        LLVMCreateMemoryBufferWithMemoryRange(weft_text_string(text), text->length, "kernels", 1);
    weft_status status = NULL;
    if (LLVMParseIRInContext(context, source, &module, &message))
        status = take_message(message, "LLVM IR");
    else
        status = emit_module(machine, module, out_object);
    if (!status && problem) status = WEFT_STATUS(WEFT_INTERNAL, "LLVM: %s", problem);
    if (problem) LLVMDisposeMessage(problem);
    if (module) LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return status;
}

static weft_status compile_module(job *j, int index, LLVMTargetMachineRef machine) {
    weft_text text;
    weft_text_init(j->allocator, &text);
    weft_status status = NULL;
    int next = 1;
    for (int i = j->first[index]; i < j->first[index + 1] && !status; i++)
        status = weft_llvm_print_kernel(j->kernels[i], j->allocator, &text, &next);
    weft_llvm_print_attributes(j->capability, &text);
    if (!status) status = weft_text_status(&text);
    if (!status) status = compile_text(machine, &text, &j->objects[index]);
    weft_text_deinit(&text);
    return status ? weft_status_annotate(status, __FILE__, __LINE__, "compiling %s and the next %d kernels for %s",
                                         j->kernels[j->first[index]]->name, j->first[index + 1] - j->first[index] - 1,
                                         j->capability->arch)
                  : NULL;
}

static void work(void *self, int thread, int64_t lo, int64_t hi) {
    job *j = self;
    for (int64_t index = lo; index < hi; index++) {
        weft_status status = NULL;
        if (!j->machines[thread]) status = create_machine(&j->machines[thread]);
        j->statuses[index] = status ? status : compile_module(j, (int)index, j->machines[thread]);
    }
}

/* Module boundaries by instruction count. */
static void split(job *j, int kernel_count) {
    size_t instructions = 0;
    for (int i = 0; i < kernel_count; i++) {
        int start = j->module_count ? j->first[j->module_count - 1] : 0;
        if (i == 0 || instructions + j->kernels[i]->instr_count > MODULE_INSTRUCTIONS || i - start >= MODULE_KERNELS) {
            j->first[j->module_count++] = i;
            instructions = 0;
        }
        instructions += j->kernels[i]->instr_count;
    }
    j->first[j->module_count] = kernel_count;
}

static weft_status run(job *j, int thread_count) {
    weft_pool *pool;
    if (thread_count > j->module_count) thread_count = j->module_count;
    if (thread_count < 1) thread_count = 1;
    WEFT_TRY(weft_pool_create(j->allocator, thread_count, &pool), "starting compile threads");
    weft_status status = NULL;
    size_t bytes = (size_t)weft_pool_thread_count(pool) * sizeof *j->machines;
    j->machines = weft_allocate(j->allocator, bytes);
    if (!j->machines) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for compile threads");
    } else {
        weft_pool_run(pool, j->module_count, 1, work, j);
        for (int i = 0; i < weft_pool_thread_count(pool); i++)
            if (j->machines[i]) LLVMDisposeTargetMachine(j->machines[i]);
    }
    weft_free(j->allocator, j->machines, bytes);
    weft_pool_release(pool);
    return status;
}

static weft_status link_objects(job *j, weft_code_image *out_image) {
    for (int i = 0; i < j->module_count; i++)
        if (j->statuses[i]) {
            weft_status status = j->statuses[i];
            j->statuses[i] = NULL;
            return status;
        }
    weft_link_object *objects = weft_allocate(j->allocator, ((size_t)j->module_count + 1) * sizeof *objects);
    if (!objects) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to link %d modules", j->module_count);
    for (int i = 0; i < j->module_count; i++)
        objects[i] = (weft_link_object){LLVMGetBufferStart(j->objects[i]), LLVMGetBufferSize(j->objects[i])};
    weft_status status = weft_link(j->allocator, j->module_count, objects, out_image);
    weft_free(j->allocator, objects, ((size_t)j->module_count + 1) * sizeof *objects);
    return status;
}

static weft_status compile(weft_context *context, const weft_capability *capability, int kernel_count,
                           weft_kernel *const *kernels, int thread_count, weft_code_image *out_image) {
    *out_image = (weft_code_image){0};
    pthread_once(&initialised, initialise);
    size_t room = (size_t)kernel_count + 1;
    job j = {.allocator = context->allocator, .capability = capability, .kernels = kernels};
    j.first = weft_allocate(j.allocator, room * sizeof *j.first);
    j.objects = weft_allocate(j.allocator, room * sizeof *j.objects);
    j.statuses = weft_allocate(j.allocator, room * sizeof *j.statuses);
    weft_status status = NULL;
    if (!j.first || !j.objects || !j.statuses) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to compile %d kernels", kernel_count);
        goto done;
    }
    split(&j, kernel_count);
    status = run(&j, thread_count);
    if (!status) status = link_objects(&j, out_image);
    for (int i = 0; i < j.module_count; i++) {
        weft_status_release(j.statuses[i]);
        if (j.objects[i]) LLVMDisposeMemoryBuffer(j.objects[i]);
    }
done:
    weft_free(j.allocator, j.first, room * sizeof *j.first);
    weft_free(j.allocator, j.objects, room * sizeof *j.objects);
    weft_free(j.allocator, j.statuses, room * sizeof *j.statuses);
    return status;
}

/* As print_scratch of print.c lays the arrays out. */
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
    int next = 1;
    WEFT_TRY(weft_llvm_print_kernel(kernel, text->allocator, text, &next), "printing %s", kernel->name);
    weft_llvm_print_attributes(kernel->capability, text);
    return weft_text_status(text);
}

const weft_target weft_target_cpu = {.name = "cpu", .compile = compile, .scratch_bytes = scratch_bytes, .print = print};
