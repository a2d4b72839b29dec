/* See print.h: the kernel's head, its arguments and its place in the grid. */
#include "codegen/amdgcn/llvm/print.h"

static void print_arguments(weft_llvm_printer *printer) {
    const weft_kernel *kernel = printer->kernel;
    weft_text_append(printer->entry, "  %%thread = call range(i32 0, %d) i32 @llvm.amdgcn.workitem.id.x()\n",
                     kernel->threads);
    weft_text_append(printer->entry, "  %%block = call i32 @llvm.amdgcn.workgroup.id.x()\n");
}

/* Shared arrays are variables of the module, in front of the function: @<kernel>.s<instruction>. */
static void print_shared(const weft_kernel *kernel, weft_text *text) {
    for (size_t at = 0; at < kernel->instr_count; at++) {
        const weft_kinstr *instr = &kernel->instrs[at];
        if (instr->op != WEFT_K_shared) continue;
        weft_llvm_name elem = weft_llvm_memory_type((weft_dtype)instr->type.elem, 1);
        weft_text_append(text, "@%s.s%zu = internal unnamed_addr addrspace(3) global [%lld x %s] poison, align 16\n",
                         kernel->name, at, (long long)instr->extent * instr->type.lanes, elem.text);
    }
}

static void print_head(const weft_kernel *kernel, weft_text *text) {
    print_shared(kernel, text);
    weft_text_append(text, "define amdgpu_kernel void @%s(", kernel->name);
    for (int i = 0; i < (int)kernel->argument_count; i++)
        if (kernel->arguments[i].source != WEFT_ARGUMENT_EXTENT) weft_text_append(text, "ptr addrspace(1) %%b%d, ", i);
    for (int i = 0; i < (int)kernel->argument_count; i++)
        if (kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT)
            weft_text_append(text, "i64 %%e%d, ", weft_llvm_extent_number(kernel, i));
    weft_text_append(text,
                     "i64 %%grid) #0 \"amdgpu-flat-work-group-size\"=\"%d,%d\" !reqd_work_group_size !{i32 %d, i32 1, "
                     "i32 1} {\n",
                     kernel->threads, kernel->threads, kernel->threads);
}

static void print_function(weft_llvm_printer *printer) {
    const weft_kernel *kernel = printer->kernel;
    print_arguments(printer);
    int first = weft_llvm_label(printer);
    weft_llvm_line(printer, "br label %%l%d", first);
    weft_llvm_open(printer, first);
    weft_llvm_print_range(printer, 0, (int32_t)kernel->instr_count);
    weft_llvm_line(printer, "ret void");
}

/* A 32-bit (or, for the grid, 64-bit) name of the entry as a value of the row's type. */
static void bind_place(weft_llvm_printer *printer, int32_t at, const char *name, int bits) {
    int wanted = weft_dtype_bits((weft_dtype)weft_llvm_instr(printer, at)->type.elem);
    weft_llvm_name own = weft_llvm_integer_type(bits, 1), result = weft_llvm_type_of(printer, at);
    int id = wanted == bits ? weft_llvm_define(printer, "add %s %s, 0", own.text, name)
                            : weft_llvm_define(printer, "%s %s %s to %s", wanted < bits ? "trunc" : "zext", own.text,
                                               name, result.text);
    weft_llvm_bind(printer, at, id);
}

static bool print_place(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    switch ((int)instr->op) {
    case WEFT_K_buffer:
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_BUFFER, .id = (int)instr->i};
        return true;
    case WEFT_K_shared:
        if (!weft_dim_is_number(instr->extent))
            weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "has a symbolic extent");
        weft_text_append(printer->entry, "  %%s%d = getelementptr i8, ptr addrspace(3) @%s.s%d, i32 0\n", (int)at,
                         printer->kernel->name, (int)at);
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_SHARED, .id = at};
        return true;
    case WEFT_K_thread: bind_place(printer, at, "%thread", 32); return true;
    case WEFT_K_block: bind_place(printer, at, "%block", 32); return true;
    case WEFT_K_grid: bind_place(printer, at, "%grid", 64); return true;
    default: return false;
    }
}

static bool print_own(weft_llvm_printer *printer, int32_t at) {
    return print_place(printer, at) || weft_amdgcn_print_memory(printer, at) || weft_amdgcn_print_lanes(printer, at) ||
           weft_amdgcn_print_matrix(printer, at);
}

/* Code object version 4: the oldest that LLVM 19 still makes, so the one that most runtimes load.
   Nothing hidden is asked for: no dispatch or queue pointer, no implicit arguments, one dimension of the grid. */
static void print_module(const weft_capability *capability, weft_text *text) {
    static const char *const absent[] = {"dispatch-ptr",   "queue-ptr",        "dispatch-id",   "implicitarg-ptr",
                                         "workgroup-id-y", "workgroup-id-z",   "workitem-id-y", "workitem-id-z",
                                         "lds-kernel-id",  "heap-ptr",         "hostcall-ptr",  "multigrid-sync-arg",
                                         "default-queue",  "completion-action"};
    (void)capability;
    weft_text_append(text, "attributes #0 = { nounwind convergent \"uniform-work-group-size\"=\"true\"");
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) weft_text_append(text, " \"amdgpu-no-%s\"", absent[i]);
    weft_text_append(text, " }\n!llvm.module.flags = !{!0}\n!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 400}\n");
}

const weft_llvm_dialect weft_amdgcn_dialect = {.machine = "AMD GPUs",
                                               .stack = "ptr addrspace(5)",
                                               .stack_place = ", addrspace(5)",
                                               .branches = true,
                                               .function = print_function,
                                               .head = print_head,
                                               .own = print_own,
                                               .module = print_module};
