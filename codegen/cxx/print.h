/* Kernel IR -> the C++ that GPU compilers share. One printer, a dialect for each language (codegen/cuda,
   codegen/metal, codegen/amdgcn/hip).

   What is printed here is the same text for all dialects: a dialect's prelude defines the names that it calls (DEV,
   u8 ... i64, u32x4, f32_of_bits, minimum, i32_of, f16_of_f32 ...) and its record what no prelude can hide: address
   spaces, parameters, rows of its own machine. Every value becomes one constant per lane, so vectors exist in memory
   accesses only and the compiler never sees an aggregate. 16-bit floats are their bits in u16; arithmetic is in f32.
   Read next: structure.c (nests, funcs, constants), values.c, memory.c. Thread-compatible. */
#ifndef WEFT_CODEGEN_CXX_PRINT_H
#define WEFT_CODEGEN_CXX_PRINT_H

#include "codegen/kernel/piece.h"

typedef struct weft_cxx_printer weft_cxx_printer;

typedef struct weft_cxx_dialect {
    const char *name;                  /* in messages: "CUDA" */
    const char *thread, *block, *grid; /* expressions of the three indices */
    const char *buffer_space;          /* address spaces with a blank behind, or "" */
    const char *shared_space;
    const char *barrier; /* the statement of a block's barrier */
    /* Rows that only this language has, and those that it prints in its own way; asked first. false: not of those. */
    bool (*print_row)(weft_cxx_printer *printer, weft_kval id);
} weft_cxx_dialect;

/* An open nest. CUDA's roles are one nest of several branches. */
typedef struct weft_cxx_nest {
    int role_left; /* warpgroups that no branch has taken yet; -1: no nest of roles */
    int role_seen;
} weft_cxx_nest;

enum { WEFT_CXX_NESTS_MAX = 16 };

struct weft_cxx_printer {
    const weft_cxx_dialect *dialect;
    const weft_kernel *kernel;
    weft_text *text;
    int depth;              /* indentation */
    bool scalar_body;       /* inside a func: lanes collapse to one */
    int64_t *shared_offset; /* CUDA, by instruction: offset of a shared object or barrier in dynamic shared memory */
    int64_t shared_bytes;
    weft_cxx_nest nests[WEFT_CXX_NESTS_MAX];
    int open_nests;
    weft_code failure; /* the first problem */
    const char *problem;
};

/* -- what a dialect calls */
/* The kernel's funcs, as functions in front of it. */
void weft_cxx_print_funcs(weft_cxx_printer *printer);
/* The statements of its body. */
void weft_cxx_print_body(weft_cxx_printer *printer);
/* The first problem as a status. */
weft_status weft_cxx_status(const weft_cxx_printer *printer) WEFT_MUST_USE;
void weft_cxx_push_nest(weft_cxx_printer *printer, int role_left);

/* -- shared by the printers' files */
weft_piece weft_cxx_value(const weft_cxx_printer *printer, weft_kval value, int lane);
/* NULL: no such type. */
const char *weft_cxx_type(weft_dtype elem);
/* Of elements in memory: BOOL is a byte. */
const char *weft_cxx_storage(weft_dtype elem);
void weft_cxx_fail(weft_cxx_printer *printer, weft_code code, const char *problem);
void weft_cxx_line(weft_cxx_printer *printer, const char *format, ...) WEFT_PRINTF(2, 3);
/* "a3[v7 + 2]": an element of a buffer or a shared array. */
weft_piece weft_cxx_element(const weft_cxx_printer *printer, weft_kval memory, weft_kval index, int lane);
/* Operations that define values or touch memory: false when op is not of that file. */
bool weft_cxx_print_value(weft_cxx_printer *printer, weft_kval id);
bool weft_cxx_print_memory(weft_cxx_printer *printer, weft_kval id);

#endif
