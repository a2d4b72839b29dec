/* The dialect of CPUs: one function with the entry ABI of runtime/driver.h,

       void name(ptr buffers, ptr extents, i64 lo, i64 hi, ptr scratch)

   which runs blocks [lo, hi) one after the other. Extents and buffer pointers are loaded once, in front of the loop.
   Scratch: the shared arrays in order, each rounded up to 64 bytes. Read next: print_names.c. */
#include "codegen/llvm/print.h"

static void print_arguments(weft_llvm_printer *printer) {
    const weft_kernel *kernel = printer->kernel;
    int buffers = 0, extents = 0;
    for (int i = 0; i < (int)kernel->argument_count; i++) {
        if (kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT) {
            weft_text_append(
                printer->entry,
                "  %%ep%d = getelementptr i64, ptr %%extents, i64 %d\n  %%e%d = load i64, ptr %%ep%d, align 8\n",
                extents, extents, extents, extents);
            extents++;
        } else {
            weft_text_append(
                printer->entry,
                "  %%bp%d = getelementptr ptr, ptr %%buffers, i64 %d\n  %%b%d = load ptr, ptr %%bp%d, align 8, !nonnull !0\n",
                i, buffers, i, i);
            buffers++;
        }
    }
}

/* Places the shared arrays in the thread's scratch: %s<instruction>. */
static void print_scratch(weft_llvm_printer *printer) {
    const weft_kernel *kernel = printer->kernel;
    weft_llvm_name offset = weft_llvm_integer(0, 64, 1), count;
    for (int32_t at = 0; at < (int32_t)kernel->instr_count; at++) {
        const weft_kinstr *instr = &kernel->instrs[at];
        if (instr->op != WEFT_K_shared) continue;
        weft_text_append(printer->entry, "  %%s%d = getelementptr i8, ptr %%scratch, i64 %s\n", (int)at, offset.text);
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_SHARED, .id = at};
        if (!weft_llvm_extent(printer, instr->extent, &count)) {
            weft_llvm_problem(printer, WEFT_INTERNAL, at, "has an extent that is not an argument");
            return;
        }
        int id = printer->next;
        printer->next += 4;
        weft_text_append(
            printer->entry,
            "  %%t%d = mul i64 %s, %d\n  %%t%d = add i64 %%t%d, 63\n  %%t%d = and i64 %%t%d, -64\n  %%t%d = add i64 %%t%d, %s\n",
            id, count.text, weft_dtype_bits((weft_dtype)instr->type.elem) / 8, id + 1, id, id + 2, id + 1, id + 3,
            id + 2, offset.text);
        offset = weft_llvm_ssa(id + 3);
    }
}

static bool print_own(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_llvm_name name;
    switch ((int)instr->op) {
    case WEFT_K_buffer:
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_BUFFER, .id = (int)instr->i};
        return true;
    case WEFT_K_shared: return true; /* print_scratch */
    case WEFT_K_thread: weft_llvm_bind_integer(printer, at, 0); return true;
    case WEFT_K_block:
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "add %s %%block, 0", weft_llvm_type_of(printer, at).text));
        return true;
    case WEFT_K_grid:
        if (!weft_llvm_extent(printer, printer->kernel->grid, &name))
            weft_llvm_problem(printer, WEFT_INTERNAL, at, "needs the grid as an extent argument");
        else
            weft_llvm_bind(printer, at, weft_llvm_define(printer, "add i64 %s, 0", name.text));
        return true;
    default: return false;
    }
}

static void print_function(weft_llvm_printer *printer) {
    const weft_kernel *kernel = printer->kernel;
    print_arguments(printer);
    print_scratch(printer);
    int head = weft_llvm_label(printer), latch = weft_llvm_label(printer), done = weft_llvm_label(printer);
    weft_text_append(printer->text, "  %%empty = icmp sge i64 %%lo, %%hi\n  br i1 %%empty, label %%l%d, label %%l%d\n",
                     done, head);
    weft_llvm_open(printer, head);
    weft_text_append(printer->text, "  %%block = phi i64 [ %%lo, %%entry ], [ %%block.next, %%l%d ]\n", latch);
    weft_llvm_print_range(printer, 0, (int32_t)kernel->instr_count);
    weft_text_append(printer->text, "  br label %%l%d\n", latch);
    weft_llvm_open(printer, latch);
    weft_text_append(
        printer->text,
        "  %%block.next = add nsw i64 %%block, 1\n  %%more = icmp slt i64 %%block.next, %%hi\n  br i1 %%more, label %%l%d, label %%l%d\n",
        head, done);
    weft_llvm_open(printer, done);
    weft_text_append(printer->text, "  ret void\n");
}

static void print_head(const weft_kernel *kernel, weft_text *text) {
    weft_text_append(text, "define void @%s(ptr %%buffers, ptr %%extents, i64 %%lo, i64 %%hi, ptr %%scratch) #0 {\n",
                     kernel->name);
}

static void print_module(const weft_capability *capability, weft_text *text) {
    bool wide = capability->vector_bytes >= 64;
    weft_text_append(
        text,
        "!0 = !{}\nattributes #0 = { nounwind \"no-builtins\" \"no-jump-tables\"=\"true\" \"target-cpu\"=\"%s\" \"tune-cpu\"=\"%s\" \"prefer-vector-width\"=\"%d\" }\n",
        capability->arch, wide ? "sapphirerapids" : "haswell", capability->vector_bytes * 8);
}

const weft_llvm_dialect weft_llvm_cpu = {.machine = "CPUs",
                                         .stack = "ptr",
                                         .stack_place = "",
                                         .function = print_function,
                                         .head = print_head,
                                         .own = print_own,
                                         .module = print_module};
