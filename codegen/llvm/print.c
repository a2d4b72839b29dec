/* A kernel as textual LLVM IR: one function with the entry ABI of runtime/driver.h,

       void name(ptr buffers, ptr extents, i64 lo, i64 hi, ptr scratch)

   which runs blocks [lo, hi) one after the other. Extents and buffer pointers are loaded once, in front of the loop.
   No noalias: a result may share the memory of an operand (states are updated in place); temporaries never do and are
   told apart by their accesses. Scratch: the shared arrays in order, each rounded up to 64 bytes.
   Read next: print.h, print_names.c, print_value.c. */
#include "codegen/llvm/print.h"

#include <string.h>

void weft_llvm_problem(weft_llvm_printer *printer, weft_code code, int32_t instruction, const char *text) {
    if (printer->problem) return;
    const weft_kinstr *instr = weft_llvm_instr(printer, instruction);
    printer->problem = WEFT_STATUS(code, "kernel %s: instruction %d (%s) %s", printer->kernel->name, (int)instruction,
                                   weft_kop_name((weft_kop)instr->op), text);
}

/* Which instruction closes each nest; false when nests do not match. */
static bool match_nests(weft_llvm_printer *printer) {
    const weft_kernel *kernel = printer->kernel;
    int32_t open = -1; /* innermost open nest; ends[] of an open one holds the next outer */
    for (int32_t at = 0; at < (int32_t)kernel->instr_count; at++) {
        weft_kop op = (weft_kop)kernel->instrs[at].op;
        bool closes = op == WEFT_K_end || op == WEFT_K_func_end || op == WEFT_K_else;
        if (closes) {
            if (open < 0) return false;
            int32_t outer = printer->ends[open];
            printer->ends[open] = at;
            open = outer;
        }
        if (op == WEFT_K_for || op == WEFT_K_if || op == WEFT_K_while || op == WEFT_K_func || op == WEFT_K_else) {
            printer->ends[at] = open;
            open = at;
        } else {
            printer->ends[at] = -1;
        }
    }
    return open < 0;
}

static int extent_number(const weft_kernel *kernel, int argument) {
    int number = 0;
    for (int i = 0; i < argument; i++) number += kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT;
    return number;
}

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

/* An extent in the entry block: a number or one of the extent arguments. */
static bool entry_extent(const weft_llvm_printer *printer, weft_dim extent, weft_llvm_name *out_name) {
    const weft_kernel *kernel = printer->kernel;
    if (weft_dim_is_number(extent)) {
        *out_name = weft_llvm_integer(extent, 64, 1);
        return true;
    }
    for (int i = 0; i < (int)kernel->argument_count; i++)
        if (kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT && kernel->arguments[i].extent == extent) {
            snprintf(out_name->text, sizeof out_name->text, "%%e%d", extent_number(kernel, i));
            return true;
        }
    return false;
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
        if (!entry_extent(printer, instr->extent, &count)) {
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

static void print_scalar_argument(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int number = extent_number(printer->kernel, (int)instr->i);
    if (weft_dtype_bits((weft_dtype)instr->type.elem) == 64)
        weft_llvm_bind(printer, at, weft_llvm_define(printer, "add i64 %%e%d, 0", number));
    else
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "trunc i64 %%e%d to %s", number, weft_llvm_type_of(printer, at).text));
}

static bool print_place(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_llvm_name name;
    switch ((int)instr->op) {
    case WEFT_K_buffer:
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_BUFFER, .id = (int)instr->i};
        return true;
    case WEFT_K_shared: return true; /* print_scratch */
    case WEFT_K_scalar_argument: print_scalar_argument(printer, at); return true;
    case WEFT_K_block:
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "add %s %%block, 0", weft_llvm_type_of(printer, at).text));
        return true;
    case WEFT_K_grid:
        if (!entry_extent(printer, printer->kernel->grid, &name))
            weft_llvm_problem(printer, WEFT_INTERNAL, at, "needs the grid as an extent argument");
        else
            weft_llvm_bind(printer, at, weft_llvm_define(printer, "add i64 %s, 0", name.text));
        return true;
    default: return false;
    }
}

void weft_llvm_print_range(weft_llvm_printer *printer, int32_t first, int32_t limit) {
    for (int32_t at = first; at < limit && !printer->problem && !printer->text->failed;) {
        int32_t next = weft_llvm_print_structure(printer, at);
        if (next != at) {
            at = next;
            continue;
        }
        if (!print_place(printer, at) && !weft_llvm_print_value(printer, at) && !weft_llvm_print_convert(printer, at) &&
            !weft_llvm_print_memory(printer, at))
            weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "cannot be spelled for CPUs");
        at++;
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
    weft_text_append(printer->text, "  ret void\n}\n\n");
}

void weft_llvm_print_attributes(const weft_capability *capability, weft_text *text) {
    bool wide = capability->vector_bytes >= 64;
    weft_text_append(
        text,
        "!0 = !{}\nattributes #0 = { nounwind \"no-builtins\" \"no-jump-tables\"=\"true\" \"target-cpu\"=\"%s\" \"tune-cpu\"=\"%s\" \"prefer-vector-width\"=\"%d\" }\n",
        capability->arch, wide ? "sapphirerapids" : "haswell", capability->vector_bytes * 8);
}

weft_status weft_llvm_print_kernel(const weft_kernel *kernel, weft_allocator allocator, weft_text *text, int *next) {
    size_t count = kernel->instr_count + 1;
    weft_text body, entry;
    weft_text_init(allocator, &body);
    weft_text_init(allocator, &entry);
    weft_llvm_printer printer = {.kernel = kernel, .text = &body, .entry = &entry, .next = *next > 1 ? *next : 1};
    printer.slots = weft_allocate(allocator, count * sizeof *printer.slots);
    printer.ends = weft_allocate(allocator, count * sizeof *printer.ends);
    weft_status status = NULL;
    if (!printer.slots || !printer.ends) {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s: no memory to print it", kernel->name);
        goto done;
    }
    if (!match_nests(&printer)) {
        status = WEFT_STATUS(WEFT_INTERNAL, "kernel %s: its nests do not close", kernel->name);
        goto done;
    }
    print_function(&printer);
    status = printer.problem;
    if (!status && (body.failed || entry.failed))
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s: no memory to print it", kernel->name);
    if (status) goto done;
    weft_text_append(text,
                     "define void @%s(ptr %%buffers, ptr %%extents, i64 %%lo, i64 %%hi, ptr %%scratch) #0 {\nentry:\n",
                     kernel->name);
    weft_text_append_bytes(text, weft_text_string(&entry), entry.length);
    weft_text_append_bytes(text, weft_text_string(&body), body.length);
    *next = printer.next;
done:
    weft_free(allocator, printer.slots, count * sizeof *printer.slots);
    weft_free(allocator, printer.ends, count * sizeof *printer.ends);
    weft_text_deinit(&body);
    weft_text_deinit(&entry);
    return status;
}
