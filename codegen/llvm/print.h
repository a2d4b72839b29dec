/* Inside of the LLVM printer: one printer per kernel, its groups of ops in print_*.c, and what a machine spells in its
   own way in a dialect (print_cpu.c; codegen/amdgcn/llvm/print.c).

   Invariant: `label` is the block being filled; every SSA value is %t<number>, numbers are never reused in a module.
   Unrolled loops and calls print a range of instructions several times: `slots` holds the newest spelling of each
   value. Read next: print.c. Thread-compatible. */
#ifndef WEFT_CODEGEN_LLVM_PRINT_H
#define WEFT_CODEGEN_LLVM_PRINT_H

#include <stdio.h>

#include "base/text.h"
#include "codegen/kernel/kernel.h"

typedef enum weft_llvm_slot_kind {
    WEFT_LLVM_NONE,
    WEFT_LLVM_SSA,     /* %t<id> */
    WEFT_LLVM_INTEGER, /* an integer constant in all lanes */
    WEFT_LLVM_FLOAT,   /* a floating point constant in all lanes */
    WEFT_LLVM_IOTA,
    WEFT_LLVM_BUFFER, /* pointer %b<id> */
    WEFT_LLVM_SHARED, /* pointer %s<id> */
    WEFT_LLVM_STORAGE /* allocas %v<id>, %v<id + 1> ... */
} weft_llvm_slot_kind;

typedef struct weft_llvm_slot {
    weft_llvm_slot_kind kind;
    int id;
    int64_t integer;
    double number;
} weft_llvm_slot;

typedef struct weft_llvm_printer weft_llvm_printer;

/* What differs between machines. */
typedef struct weft_llvm_dialect {
    const char *machine;     /* "CPUs": in refusals */
    const char *stack;       /* type of a pointer to an alloca */
    const char *stack_place; /* what ends an alloca: "" or ", addrspace(5)" */
    bool branches;           /* loads and stores may open blocks: no loop is known to be one block */
    /* The function but its closing brace: head to `text`, argument loads to `entry`; prints the kernel's instructions.
     */
    void (*function)(weft_llvm_printer *printer);
    /* "define ... {": in front of the entry block. */
    void (*head)(const weft_kernel *kernel, weft_text *text);
    /* Rows that the machine spells by itself; asked before the shared files. True = printed. */
    bool (*own)(weft_llvm_printer *printer, int32_t at);
    /* What a module needs besides functions: attributes, flags. */
    void (*module)(const weft_capability *capability, weft_text *text);
} weft_llvm_dialect;

extern const weft_llvm_dialect weft_llvm_cpu;

struct weft_llvm_printer {
    const weft_llvm_dialect *dialect;
    const weft_kernel *kernel;
    weft_text *text;       /* body of the function */
    weft_text *entry;      /* allocas and argument loads: the function's first block */
    weft_llvm_slot *slots; /* by instruction */
    int32_t *ends;         /* by instruction: else, end or func_end that closes it */
    int next;              /* number of the next value, label or alloca */
    int label;             /* number of the open block */
    int dummy;             /* alloca for masked-off scalars; 0 = not made */
    int inline_depth;
    weft_status problem; /* the first one; owned */
};

typedef struct weft_llvm_name {
    char text[48];
} weft_llvm_name;

/* print.c */
weft_status weft_llvm_print_kernel(const weft_llvm_dialect *dialect, const weft_kernel *kernel,
                                   weft_allocator allocator, weft_text *text, int *next) WEFT_MUST_USE;
/* One kernel as a whole module, for people. */
weft_status weft_llvm_print_alone(const weft_llvm_dialect *dialect, const weft_kernel *kernel,
                                  weft_text *text) WEFT_MUST_USE;
void weft_llvm_print_range(weft_llvm_printer *printer, int32_t first, int32_t limit);
void weft_llvm_problem(weft_llvm_printer *printer, weft_code code, int32_t instruction, const char *text);
int weft_llvm_extent_number(const weft_kernel *kernel,
                            int argument); /* of an extent argument among the extents: %e<n> */
/* An extent as a name of the entry block: a number or one of the extent arguments. */
bool weft_llvm_extent(const weft_llvm_printer *printer, weft_dim extent, weft_llvm_name *out_name);

/* print_names.c: spelling of types, constants and operands */
weft_llvm_name weft_llvm_elem_type(weft_dtype elem, int lanes); /* of a value: BOOL = i1, F16 and BF16 = i16 */
weft_llvm_name weft_llvm_type_of(const weft_llvm_printer *printer, weft_kval value);
weft_llvm_name weft_llvm_memory_type(weft_dtype elem, int lanes); /* in memory: BOOL = i8 */
weft_llvm_name weft_llvm_integer_type(int bits, int lanes);
weft_llvm_name weft_llvm_suffix(weft_dtype elem, int lanes); /* v16f32, i64: in names of intrinsics */
weft_llvm_name weft_llvm_integer(int64_t value, int bits,
                                 int lanes); /* a literal without its type; bits 1 = true, false */
weft_llvm_name weft_llvm_float(double value, weft_dtype elem, int lanes);
weft_llvm_name weft_llvm_ssa(int id);
/* The operand as a name; iota and the like are first made a value. */
weft_llvm_name weft_llvm_operand(weft_llvm_printer *printer, const weft_kinstr *instr, int index);
weft_llvm_name weft_llvm_value(weft_llvm_printer *printer, weft_kval value);
/* Appends "  %t<n> = <format>\n" and returns n. */
int weft_llvm_define(weft_llvm_printer *printer, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_llvm_line(weft_llvm_printer *printer, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_llvm_bind(weft_llvm_printer *printer, weft_kval value, int id);
void weft_llvm_bind_integer(weft_llvm_printer *printer, weft_kval value, int64_t number);
bool weft_llvm_known(const weft_llvm_printer *printer, weft_kval value, int64_t *out_number);
int weft_llvm_label(weft_llvm_printer *printer);            /* a fresh number */
void weft_llvm_open(weft_llvm_printer *printer, int label); /* starts block %l<label> */

/* print_value.c, print_convert.c, print_memory.c, print_structure.c: true = the op belongs to the group and was printed
 */
bool weft_llvm_print_value(weft_llvm_printer *printer, int32_t at);
bool weft_llvm_print_convert(weft_llvm_printer *printer, int32_t at);
bool weft_llvm_print_memory(weft_llvm_printer *printer, int32_t at);
/* print_memory.c, for dialects with loads and stores of their own */
int weft_llvm_alignment(const weft_kinstr *instr, weft_dtype elem);
/* What masked-off lanes give: operand 3, zero when absent; in the memory's type. */
weft_llvm_name weft_llvm_other(weft_llvm_printer *printer, const weft_kinstr *instr, weft_dtype elem, int lanes);
/* The operation of an atomic on integers; NULL after a refusal. */
const char *weft_llvm_atomic(weft_llvm_printer *printer, int32_t at);
/* The alloca of a variable or of register `index`; -1 after a refusal. */
int weft_llvm_storage(weft_llvm_printer *printer, int32_t at, weft_kval object, weft_kval index);
/* Returns the instruction after the structure, or `at` when the op opens none. */
int32_t weft_llvm_print_structure(weft_llvm_printer *printer, int32_t at);

static inline const weft_kinstr *weft_llvm_instr(const weft_llvm_printer *printer, int32_t at) {
    return &printer->kernel->instrs[at];
}

#endif
