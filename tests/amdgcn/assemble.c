/* See assemble.h. */
#include "tests/amdgcn/assemble.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <string.h>

#include "base/process.h"

static weft_status refused(char *message) {
    weft_status status = WEFT_STATUS(WEFT_INVALID_DATA, "LLVM: %s", message ? message : "no reason given");
    LLVMDisposeMessage(message);
    return status;
}

static weft_status emit(LLVMModuleRef module, const char *arch, LLVMMemoryBufferRef *out_object) {
    static const char triple[] = "amdgcn-amd-amdhsa";
    char *message = NULL;
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) return refused(message);
    LLVMTargetMachineRef machine =
        LLVMCreateTargetMachine(target, triple, arch, "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(module, triple);
    LLVMSetModuleDataLayout(module, layout);
    weft_status status = NULL;
    if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
        status = refused(message);
    else {
        LLVMDisposeMessage(message);
        if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, out_object))
            status = refused(message);
    }
    LLVMDisposeTargetData(layout);
    LLVMDisposeTargetMachine(machine);
    return status;
}

static weft_status link_object(weft_allocator allocator, LLVMMemoryBufferRef object, void **out_data,
                               size_t *out_bytes) {
    const char *const arguments[] = {"ld.lld-19", "-shared", "--no-undefined", "-o", "-", "/dev/stdin", NULL};
    weft_process process = {.arguments = arguments,
                            .input = LLVMGetBufferStart(object),
                            .input_bytes = LLVMGetBufferSize(object),
                            .limit_ns = INT64_C(60000000000)};
    return weft_process_run(allocator, &process, out_data, out_bytes);
}

weft_status amdgcn_assemble(weft_allocator allocator, const char *arch, const char *text, void **out_data,
                            size_t *out_bytes) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMContextRef context = LLVMContextCreate();
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test"), object = NULL;
    LLVMModuleRef module = NULL;
    char *message = NULL;
    weft_status status = NULL;
    if (LLVMParseIRInContext(context, buffer, &module, &message)) status = refused(message);
    if (!status) status = emit(module, arch, &object);
    if (!status) status = link_object(allocator, object, out_data, out_bytes);
    if (object) LLVMDisposeMemoryBuffer(object);
    if (module) LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return status;
}
