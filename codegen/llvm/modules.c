/* See modules.h. Kernels are split into modules by size alone, so that the code does not depend on the number of
   threads; threads take modules in turn, each with its own LLVM context and target machine. Passes: what the printer's
   output needs and no more, builders write final code. Read next: print.c. */
#include "codegen/llvm/modules.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <string.h>

#include "base/thread.h"

enum { MODULE_INSTRUCTIONS = 2500, MODULE_KERNELS = 16 };

typedef struct job {
    weft_allocator allocator;
    const weft_llvm_backend *backend;
    const weft_capability *capability;
    weft_kernel *const *kernels;
    weft_llvm_modules *modules;
    weft_status *statuses;
    LLVMTargetMachineRef *machines; /* by thread; made when it takes its first module */
} job;

static weft_status take_message(char *message, const char *what) {
    weft_status status = WEFT_STATUS(WEFT_INTERNAL, "%s: %s", what, message ? message : "no reason given");
    LLVMDisposeMessage(message);
    return status;
}

static weft_status create_machine(const job *j, LLVMTargetMachineRef *out_machine) {
    const weft_llvm_backend *backend = j->backend;
    LLVMTargetRef target;
    char *message = NULL;
    *out_machine = NULL;
    if (LLVMGetTargetFromTriple(backend->triple, &target, &message))
        return take_message(message, "this LLVM cannot make this code");
    *out_machine = LLVMCreateTargetMachine(target, backend->triple, backend->cpu ? backend->cpu : j->capability->arch,
                                           "", LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                           backend->small ? LLVMCodeModelSmall : LLVMCodeModelDefault);
    return *out_machine ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "LLVM made no target machine");
}

/* Keeps the first error; LLVM's default handler would print and exit. */
static void diagnose(LLVMDiagnosticInfoRef info, void *self) {
    char **message = self;
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError && !*message) *message = LLVMGetDiagInfoDescription(info);
}

static weft_status emit_module(const weft_llvm_backend *backend, LLVMTargetMachineRef machine, LLVMModuleRef module,
                               LLVMMemoryBufferRef *out_object) {
    LLVMSetTarget(module, backend->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, backend->passes, machine, options);
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

static weft_status compile_text(const weft_llvm_backend *backend, LLVMTargetMachineRef machine, const weft_text *text,
                                LLVMMemoryBufferRef *out_object) {
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
        status = emit_module(backend, machine, module, out_object);
    if (!status && problem) status = WEFT_STATUS(WEFT_INTERNAL, "LLVM: %s", problem);
    if (status && *out_object) {
        LLVMDisposeMemoryBuffer(*out_object);
        *out_object = NULL;
    }
    if (problem) LLVMDisposeMessage(problem);
    if (module) LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return status;
}

/* The object as memory of the allocator, through the backend's last step. */
static weft_status keep_object(const job *j, LLVMMemoryBufferRef object, weft_code_image *out) {
    const void *data = LLVMGetBufferStart(object);
    size_t bytes = LLVMGetBufferSize(object);
    if (j->backend->finish) return j->backend->finish(j->allocator, data, bytes, out);
    out->data = weft_allocate(j->allocator, bytes);
    if (!out->data) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for an object of %zu bytes", bytes);
    memcpy(out->data, data, bytes);
    out->bytes = bytes;
    return NULL;
}

static weft_status compile_module(job *j, int index, LLVMTargetMachineRef machine) {
    weft_text text;
    weft_text_init(j->allocator, &text);
    weft_status status = NULL;
    LLVMMemoryBufferRef object = NULL;
    int next = 1, first = j->modules->first[index], limit = j->modules->first[index + 1];
    for (int i = first; i < limit && !status; i++)
        status = weft_llvm_print_kernel(j->backend->dialect, j->kernels[i], j->allocator, &text, &next);
    j->backend->dialect->module(j->capability, &text);
    if (!status) status = weft_text_status(&text);
    if (!status) status = compile_text(j->backend, machine, &text, &object);
    if (!status) status = keep_object(j, object, &j->modules->code[index]);
    if (object) LLVMDisposeMemoryBuffer(object);
    weft_text_deinit(&text);
    return status ? weft_status_annotate(status, __FILE__, __LINE__, "compiling %s and the next %d kernels for %s",
                                         j->kernels[first]->name, limit - first - 1, j->capability->arch)
                  : NULL;
}

static void work(void *self, int thread, int64_t lo, int64_t hi) {
    job *j = self;
    for (int64_t index = lo; index < hi; index++) {
        weft_status status = NULL;
        if (!j->machines[thread]) status = create_machine(j, &j->machines[thread]);
        j->statuses[index] = status ? status : compile_module(j, (int)index, j->machines[thread]);
    }
}

/* Module boundaries by instruction count. */
static void split(int kernel_count, weft_kernel *const *kernels, weft_llvm_modules *modules) {
    size_t instructions = 0;
    for (int i = 0; i < kernel_count; i++) {
        int start = modules->count ? modules->first[modules->count - 1] : 0;
        if (i == 0 || instructions + kernels[i]->instr_count > MODULE_INSTRUCTIONS || i - start >= MODULE_KERNELS) {
            modules->first[modules->count++] = i;
            instructions = 0;
        }
        instructions += kernels[i]->instr_count;
    }
    modules->first[modules->count] = kernel_count;
}

static weft_status run(job *j, int thread_count) {
    weft_pool *pool;
    if (thread_count > j->modules->count) thread_count = j->modules->count;
    if (thread_count < 1) thread_count = 1;
    WEFT_TRY(weft_pool_create(j->allocator, thread_count, &pool), "starting compile threads");
    weft_status status = NULL;
    size_t bytes = (size_t)weft_pool_thread_count(pool) * sizeof *j->machines;
    j->machines = weft_allocate(j->allocator, bytes);
    if (!j->machines) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for compile threads");
    } else {
        weft_pool_run(pool, j->modules->count, 1, work, j);
        for (int i = 0; i < weft_pool_thread_count(pool); i++)
            if (j->machines[i]) LLVMDisposeTargetMachine(j->machines[i]);
    }
    weft_free(j->allocator, j->machines, bytes);
    weft_pool_release(pool);
    return status;
}

/* The first error; all others are released. */
static weft_status first_error(job *j) {
    weft_status first = NULL;
    for (int i = 0; i < j->modules->count; i++) {
        if (!first)
            first = j->statuses[i];
        else
            weft_status_release(j->statuses[i]);
    }
    return first;
}

weft_status weft_llvm_compile(weft_allocator allocator, const weft_llvm_backend *backend,
                              const weft_capability *capability, int kernel_count, weft_kernel *const *kernels,
                              int thread_count, weft_llvm_modules *out_modules) {
    size_t room = (size_t)kernel_count + 1;
    *out_modules = (weft_llvm_modules){.room = room};
    out_modules->first = weft_allocate(allocator, room * sizeof *out_modules->first);
    out_modules->code = weft_allocate(allocator, room * sizeof *out_modules->code);
    job j = {.allocator = allocator,
             .backend = backend,
             .capability = capability,
             .kernels = kernels,
             .modules = out_modules,
             .statuses = weft_allocate(allocator, room * sizeof *j.statuses)};
    weft_status status = NULL;
    if (!out_modules->first || !out_modules->code || !j.statuses) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to compile %d kernels", kernel_count);
    } else {
        split(kernel_count, kernels, out_modules);
        status = run(&j, thread_count);
        weft_status failed = first_error(&j);
        if (status)
            weft_status_release(failed);
        else
            status = failed;
    }
    weft_free(allocator, j.statuses, room * sizeof *j.statuses);
    if (status) weft_llvm_modules_deinit(allocator, out_modules);
    return status;
}

void weft_llvm_modules_deinit(weft_allocator allocator, weft_llvm_modules *modules) {
    for (int i = 0; modules->code && i < modules->count; i++)
        weft_free(allocator, modules->code[i].data, modules->code[i].bytes);
    weft_free(allocator, modules->first, modules->room * sizeof *modules->first);
    weft_free(allocator, modules->code, modules->room * sizeof *modules->code);
    *modules = (weft_llvm_modules){0};
}

void weft_llvm_describe(weft_context *context, weft_text *text) {
    (void)context;
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    weft_text_append(text, "LLVM %u.%u.%u", major, minor, patch);
}
