/* Kernel IR -> WGSL: one module per kernel, entry point "main".

   Bindings of group 0: the buffers in the order of the kernel's arguments, then one uniform block: the number of blocks
   and the extents in the order of the arguments, 32-bit each. Every value becomes one scalar per lane, some of f32
   vec4s (print_vector.c). WGSL's types carry the rest: integers of 8 and 16 bits live normalised in i32 and u32, 16-bit
   floats as their bits in u32 (f16 as itself where the record has native_f16), 64-bit integers as vec2<u32> (low word
   first); the prelude holds the arithmetic that WGSL lacks. f64 has no carrier. Buffers of narrow elements are arrays
   of 32-bit words. A store of a part of a word is an atomic and, or: neighbours in one word may belong to different
   threads. Read next: print.c (structure), print_vector.c, print_values.c, print_convert.c, print_memory.c, prelude.c.
   Source: W3C, WebGPU Shading Language. Thread-compatible. */
#ifndef WEFT_CODEGEN_WEBGPU_PRINT_H
#define WEFT_CODEGEN_WEBGPU_PRINT_H

#include "codegen/kernel/piece.h"

/* How a value of an element type is carried. */
typedef enum weft_wgsl_class {
    WEFT_WGSL_NONE, /* not at all */
    WEFT_WGSL_BOOL,
    WEFT_WGSL_I32,
    WEFT_WGSL_U32, /* also the bits of 16-bit floats */
    WEFT_WGSL_PAIR,
    WEFT_WGSL_F16,
    WEFT_WGSL_F32
} weft_wgsl_class;

/* What a kernel does with a piece of memory. */
enum {
    WEFT_WGSL_LOADED = 1,
    WEFT_WGSL_STORED = 2,
    WEFT_WGSL_ATOMIC = 4,   /* atomic operations */
    WEFT_WGSL_PARTIAL = 8,  /* stores of parts of a word */
    WEFT_WGSL_SINGLE = 16,  /* some access is not of four aligned elements */
    WEFT_WGSL_DYNAMIC = 32, /* regs: some index is no constant */
    WEFT_WGSL_ODD = 64,     /* some access is not of two aligned elements */
    WEFT_WGSL_VECTOR = 128  /* a value, regs or a var: vec4s */
};

typedef struct weft_wgsl_printer {
    const weft_kernel *kernel;
    weft_text *text;
    int depth;        /* indentation */
    bool scalar_body; /* inside a func: lanes collapse to one */
    bool subgroups;   /* the module needs that feature */
    uint8_t *uses;    /* by instruction: of shared, regs; VECTOR: of values too; buffers: by argument, below */
    uint8_t *argument_uses;
    weft_code failure; /* the first problem */
    const char *problem;
} weft_wgsl_printer;

/* The module of one kernel. UNSUPPORTED names what WGSL cannot express. */
weft_status weft_wgsl_print(const weft_kernel *kernel, weft_text *text) WEFT_MUST_USE;
/* How a kernel binds a buffer argument: "read", "read_write", or "none" when no instruction names it. */
const char *weft_wgsl_access(const weft_kernel *kernel, size_t argument);
weft_status weft_wgsl_shared_bytes(const weft_kernel *kernel, int64_t *out_bytes) WEFT_MUST_USE;

/* -- shared by the printer's files */
weft_wgsl_class weft_wgsl_class_of(const weft_wgsl_printer *printer, weft_dtype elem);
const char *weft_wgsl_type(const weft_wgsl_printer *printer, weft_dtype elem);
weft_piece weft_wgsl_value(const weft_wgsl_printer *printer, weft_kval value, int lane);
/* As above; a value of one lane stands for all lanes. */
weft_piece weft_wgsl_lane(const weft_wgsl_printer *printer, weft_kval value, int lane);
/* Cuts an i32 or u32 expression back to 8 or 16 bits. */
weft_piece weft_wgsl_normal(weft_dtype elem, weft_piece expression);
void weft_wgsl_fail(weft_wgsl_printer *printer, weft_code code, const char *problem);
void weft_wgsl_line(weft_wgsl_printer *printer, const char *format, ...) WEFT_PRINTF(2, 3);
/* Operations that define values or touch memory: false when op is not of that file. */
bool weft_wgsl_print_value(weft_wgsl_printer *printer, weft_kval id);
bool weft_wgsl_print_memory(weft_wgsl_printer *printer, weft_kval id);
weft_piece weft_wgsl_convert(weft_wgsl_printer *printer, weft_dtype from, weft_dtype to, weft_piece x);
weft_piece weft_wgsl_bitcast(weft_wgsl_printer *printer, weft_dtype from, weft_dtype to, weft_piece x);
/* Fills the uses and checks what memory needs. */
void weft_wgsl_scan(weft_wgsl_printer *printer);
/* After the scan: marks what is VECTOR (print_vector.c). */
void weft_wgsl_mark_vectors(weft_wgsl_printer *printer);
/* Four lanes as a vec4, made of scalars in a line before where they are some; user: the instruction that reads it. */
weft_piece weft_wgsl_four(weft_wgsl_printer *printer, weft_kval user, weft_kval value, int group);
/* Does the load take vec4s, or four elements side by side without a mask? (print_memory.c) */
bool weft_wgsl_loads_fours(const weft_wgsl_printer *printer, const weft_kinstr *load);
/* Is the operand of a sum or product hidden from optimizers? (print_values.c) */
bool weft_wgsl_is_kept(const weft_wgsl_printer *printer, const weft_kinstr *instr, int index);
/* Declarations of buffers and shared arrays. */
void weft_wgsl_print_declarations(weft_wgsl_printer *printer);
/* Appends the prelude's functions that `body` calls. */
void weft_wgsl_print_prelude(const char *body, weft_text *text);

#endif
