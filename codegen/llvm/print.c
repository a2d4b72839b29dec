/* A kernel as textual LLVM IR: one function, whose head, arguments and own rows its dialect prints.

   No noalias: a result may share the memory of an operand (states are updated in place); temporaries never do and are
   told apart by their accesses. Read next: print.h, print_cpu.c, print_names.c, print_value.c. */
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

int weft_llvm_extent_number(const weft_kernel *kernel, int argument) {
    int number = 0;
    for (int i = 0; i < argument; i++) number += kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT;
    return number;
}

bool weft_llvm_extent(const weft_llvm_printer *printer, weft_dim extent, weft_llvm_name *out_name) {
    const weft_kernel *kernel = printer->kernel;
    if (weft_dim_is_number(extent)) {
        *out_name = weft_llvm_integer(extent, 64, 1);
        return true;
    }
    for (int i = 0; i < (int)kernel->argument_count; i++)
        if (kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT && kernel->arguments[i].extent == extent) {
            snprintf(out_name->text, sizeof out_name->text, "%%e%d", weft_llvm_extent_number(kernel, i));
            return true;
        }
    return false;
}

static bool print_scalar_argument(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    if (instr->op != WEFT_K_scalar_argument) return false;
    int number = weft_llvm_extent_number(printer->kernel, (int)instr->i);
    if (weft_dtype_bits((weft_dtype)instr->type.elem) == 64)
        weft_llvm_bind(printer, at, weft_llvm_define(printer, "add i64 %%e%d, 0", number));
    else
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "trunc i64 %%e%d to %s", number, weft_llvm_type_of(printer, at).text));
    return true;
}

void weft_llvm_print_range(weft_llvm_printer *printer, int32_t first, int32_t limit) {
    for (int32_t at = first; at < limit && !printer->problem && !printer->text->failed;) {
        int32_t next = weft_llvm_print_structure(printer, at);
        if (next != at) {
            at = next;
            continue;
        }
        if (!printer->dialect->own(printer, at) && !print_scalar_argument(printer, at) &&
            !weft_llvm_print_value(printer, at) && !weft_llvm_print_convert(printer, at) &&
            !weft_llvm_print_memory(printer, at)) {
            char text[64];
            snprintf(text, sizeof text, "cannot be spelled for %s", printer->dialect->machine);
            weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, text);
        }
        at++;
    }
}

weft_status weft_llvm_print_kernel(const weft_llvm_dialect *dialect, const weft_kernel *kernel,
                                   weft_allocator allocator, weft_text *text, int *next) {
    size_t count = kernel->instr_count + 1;
    weft_text body, entry;
    weft_text_init(allocator, &body);
    weft_text_init(allocator, &entry);
    weft_llvm_printer printer = {
        .dialect = dialect, .kernel = kernel, .text = &body, .entry = &entry, .next = *next > 1 ? *next : 1};
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
    dialect->function(&printer);
    status = printer.problem;
    if (!status && (body.failed || entry.failed))
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s: no memory to print it", kernel->name);
    if (status) goto done;
    dialect->head(kernel, text);
    weft_text_append(text, "entry:\n");
    weft_text_append_bytes(text, weft_text_string(&entry), entry.length);
    weft_text_append_bytes(text, weft_text_string(&body), body.length);
    weft_text_append(text, "}\n\n");
    *next = printer.next;
done:
    weft_free(allocator, printer.slots, count * sizeof *printer.slots);
    weft_free(allocator, printer.ends, count * sizeof *printer.ends);
    weft_text_deinit(&body);
    weft_text_deinit(&entry);
    return status;
}

weft_status weft_llvm_print_alone(const weft_llvm_dialect *dialect, const weft_kernel *kernel, weft_text *text) {
    int next = 1;
    WEFT_TRY(weft_llvm_print_kernel(dialect, kernel, text->allocator, text, &next), "printing %s", kernel->name);
    dialect->module(kernel->capability, text);
    return weft_text_status(text);
}
