/* Kernel IR -> SPIR-V assembly for Vulkan 1.2: one module a kernel, entry point "main".

   Arguments. A push constant holds the address of an array of 64-bit words: the number of blocks, the addresses
   of the kernel's buffers in order, its extents in order. Buffers are physical storage addresses, so there are no
   bindings and no limit on their number. Carriers. Every value is one scalar per lane. Integers up to 32 bits live in
   %u32, narrow ones normalised (sign- or zero-extended), floats of 16 bits as their bits in %u32, 64-bit integers in
   %u64, F32 in %f32, BOOL in %bool. Exact fused multiply-add goes through %f64. F64 has no carrier; 8-bit floats are
   integers by then (kernel/narrow.h). Memory. Neighbouring lanes move in words of up to 16 bytes where the alignment is
   known. Shared arrays hold one carrier an element, or words where matrices come from them. Read next: module.c
   (sections, names, constants), reuse.c, structure.c, values.c, convert.c, memory.c, matrix.c, target.c. Source:
   Khronos, SPIR-V 1.5; Vulkan 1.2, appendix A. Thread-compatible. */
#ifndef WEFT_CODEGEN_SPIRV_PRINT_H
#define WEFT_CODEGEN_SPIRV_PRINT_H

#include "base/text.h"
#include "codegen/kernel/kernel.h"

/* A name of the module: the types below, then numbers. 0 = none. */
typedef int weft_spirv_id;

typedef enum weft_spirv_type {
    WEFT_SPIRV_NONE,
    WEFT_SPIRV_VOID,
    WEFT_SPIRV_BOOL,
    WEFT_SPIRV_U8,
    WEFT_SPIRV_U16,
    WEFT_SPIRV_U32,
    WEFT_SPIRV_U64,
    WEFT_SPIRV_F16,
    WEFT_SPIRV_F32,
    WEFT_SPIRV_F64,
    WEFT_SPIRV_U32X2,
    WEFT_SPIRV_U32X4,
    WEFT_SPIRV_U32_PAIR, /* struct of two u32: wide products */
    WEFT_SPIRV_U64_PAIR,
    WEFT_SPIRV_TYPES
} weft_spirv_type;

enum { WEFT_SPIRV_SMALL = 65 }; /* u32 constants 0..64 exist once */

/* reuse.c: texts of instructions behind the id that they define. */
typedef struct weft_spirv_known {
    uint64_t hash;
    size_t start, length; /* in keys */
    int32_t next;         /* of the same head; -1 = none */
    weft_spirv_id id;
} weft_spirv_known;

enum { WEFT_SPIRV_HEADS = 1024 };

typedef struct weft_spirv_reuse {
    weft_allocator allocator;
    weft_text keys;
    weft_spirv_known *entries; /* the last ones are forgotten first */
    size_t count, capacity;
    int32_t heads[WEFT_SPIRV_HEADS];
} weft_spirv_reuse;

typedef struct weft_spirv_nest {
    weft_kop op;
    weft_kval id;
    bool has_else;
    weft_spirv_id header, next, merge; /* next: the loop's continue block, or the else branch */
    weft_spirv_id counter;             /* variable of a for */
    size_t known;                      /* mark of values before it */
} weft_spirv_nest;

enum { WEFT_SPIRV_DEPTH = 64 };

typedef struct weft_spirv {
    const weft_kernel *kernel;
    weft_text interfaces, decorations, globals, functions; /* sections */
    weft_text variables, code;                             /* of the open function */
    weft_spirv_id next_id;
    weft_spirv_reuse constants, values;
    weft_spirv_id small[WEFT_SPIRV_SMALL];
    uint32_t types, pointers[3]; /* used: bits by weft_spirv_type; pointers by weft_spirv_storage */
    bool atomics64;
    weft_spirv_id *arguments; /* by argument: its word */
    weft_spirv_id *first;     /* by instruction: index into lanes */
    weft_spirv_id *lanes;     /* ids of values, lane by lane */
    weft_spirv_id block, local, grid;
    weft_spirv_id label; /* of the block being written */
    weft_spirv_nest nests[WEFT_SPIRV_DEPTH];
    int depth;
    /* matrices: matrix.c */
    bool matrices, shuffles, numbers; /* numbers: the assembler does not know the names of matrix instructions */
    int64_t unit;
    uint8_t *whole; /* by instruction: regs of whole matrices: use + 1; shared arrays for them: bytes of a word */
    weft_spirv_id matrix_types[3], matrix_pointers[3]; /* by use */
    weft_spirv_id bfloat;                              /* the type of elements */
    bool scalar_body;                                  /* inside a func: lanes collapse to one */
    bool shares_buffers;                               /* some buffer is both read and written */
    weft_code failure;                                 /* the first problem */
    const char *problem;
} weft_spirv;

typedef enum weft_spirv_storage { WEFT_SPIRV_PHYSICAL, WEFT_SPIRV_WORKGROUP, WEFT_SPIRV_FUNCTION } weft_spirv_storage;

/* The assembly of a kernel's module. UNSUPPORTED names what the target cannot express. */
weft_status weft_spirv_print(const weft_kernel *kernel, weft_text *text) WEFT_MUST_USE;

/* Are there products of bf16 by cooperative matrices? Fewer assemblers know them. */
bool weft_spirv_multiplies_bf16(const weft_kernel *kernel);
/* The same; numbers: for an assembler that does not know cooperative matrices, or their type (matrix.c). */
weft_status weft_spirv_print_as(const weft_kernel *kernel, bool numbers, weft_text *text) WEFT_MUST_USE;

/* -- module.c: shared by the printer's files. Formats: $ an id, # an int64_t, @ a string; all else is copied, and a
   line ends but where ~ comes last */
weft_spirv_id weft_spirv_new(weft_spirv *p);
weft_spirv_id weft_spirv_emit(weft_spirv *p, weft_spirv_type type, const char *op, const char *format, ...);
void weft_spirv_do(weft_spirv *p, weft_text *section, const char *format, ...);
weft_spirv_id weft_spirv_type_name(weft_spirv *p, weft_spirv_type type);
weft_spirv_id weft_spirv_pointer_name(weft_spirv *p, weft_spirv_storage storage, weft_spirv_type type);
weft_spirv_id weft_spirv_constant(weft_spirv *p, weft_spirv_type type, uint64_t bits);
weft_spirv_id weft_spirv_u32(weft_spirv *p, uint32_t value);
weft_spirv_id weft_spirv_variable(weft_spirv *p, weft_spirv_type type, int64_t count);
const char *weft_spirv_type_text(weft_spirv_type type);
/* A function's text: variables first, whatever the order in which code asks for them. */
void weft_spirv_open_function(weft_spirv *p, weft_spirv_id label);
void weft_spirv_close_function(weft_spirv *p, weft_spirv_id label);
void weft_spirv_open_block(weft_spirv *p, weft_spirv_id label);
void weft_spirv_fail(weft_spirv *p, weft_code code, const char *problem);

void weft_spirv_reuse_init(weft_spirv_reuse *reuse, weft_allocator allocator);
void weft_spirv_reuse_deinit(weft_spirv_reuse *reuse);
/* The id that this text defined before; else `id`, which it defines from now on. */
weft_spirv_id weft_spirv_reuse_find(weft_spirv_reuse *reuse, const char *key, size_t length, weft_spirv_id id);
size_t weft_spirv_reuse_mark(const weft_spirv_reuse *reuse);
void weft_spirv_reuse_forget(weft_spirv_reuse *reuse, size_t mark);

/* How a value of an element type is carried; NONE = not at all. */
weft_spirv_type weft_spirv_carrier(weft_dtype elem);
/* The id of a lane of a value; a value of one lane stands for all. */
weft_spirv_id weft_spirv_lane(weft_spirv *p, weft_kval value, int lane);
void weft_spirv_define(weft_spirv *p, weft_kval value, int lane, weft_spirv_id id);
int weft_spirv_lanes(const weft_spirv *p, weft_kval value);

void weft_spirv_instruction(weft_spirv *p, weft_kval id);
/* -- one op each: false when the op is not of that file */
bool weft_spirv_structure(weft_spirv *p, weft_kval id);
bool weft_spirv_value(weft_spirv *p, weft_kval id);
bool weft_spirv_memory(weft_spirv *p, weft_kval id);
bool weft_spirv_matrix(weft_spirv *p, weft_kval id);
void weft_spirv_find_matrices(weft_spirv *p);
void weft_spirv_matrix_capability(const weft_spirv *p, weft_text *text);
/* Words of 4, 8 or 16 bytes. */
weft_spirv_type weft_spirv_word(int bytes);
void weft_spirv_functions(weft_spirv *p); /* the funcs of the kernel */

weft_spirv_id weft_spirv_convert(weft_spirv *p, weft_dtype from, weft_dtype to, weft_spirv_id x);
weft_spirv_id weft_spirv_bitcast(weft_spirv *p, weft_dtype from, weft_dtype to, weft_spirv_id x);
/* Cuts a 32-bit integer back to 8 or 16 bits. */
weft_spirv_id weft_spirv_normal(weft_spirv *p, weft_dtype elem, weft_spirv_id x);

#endif
