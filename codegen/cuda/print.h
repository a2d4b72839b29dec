/* Kernel IR -> CUDA C without headers. One translation unit holds any number of kernels.
   Every value becomes one constant per lane, so vectors exist in memory accesses only; ptxas never sees an aggregate.
   Read next: print.c (structure), print_ops.c (values and memory), print_matrix.c (mma, Hopper). Thread-compatible. */
#ifndef WEFT_CODEGEN_CUDA_PRINT_H
#define WEFT_CODEGEN_CUDA_PRINT_H

#include "base/text.h"
#include "codegen/kernel/kernel.h"

enum { WEFT_CUDA_NEEDS_MATRIX = 1, WEFT_CUDA_NEEDS_HOPPER = 2 };

typedef struct weft_cuda_printer {
    const weft_kernel *kernel;
    weft_text *text;
    int depth;              /* indentation */
    bool scalar_body;       /* inside a func: lanes collapse to one */
    int64_t *shared_offset; /* by instruction: offset of a shared object or barrier in dynamic shared memory */
    int64_t shared_bytes;
    int roles_left[16]; /* open role nests: warpgroups that no branch has taken yet; -1 for other nests */
    int open_roles;
    int warpgroups_seen[16];
    weft_code failure; /* the first problem */
    const char *problem;
} weft_cuda_printer;

typedef struct weft_cuda_name {
    char text[96];
} weft_cuda_name;

/* Prelude, funcs and kernels. */
weft_status weft_cuda_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) WEFT_MUST_USE;
/* Dynamic shared memory of a kernel: shared objects and barriers in order, each aligned (1024 bytes where tensor copies
   or operands need it). The driver passes this number at launch. */
weft_status weft_cuda_shared_bytes(const weft_kernel *kernel, int64_t *out_bytes) WEFT_MUST_USE;

/* -- shared by the printer's files */
/* A piece of text; one that does not fit becomes text that no compiler accepts. */
weft_cuda_name weft_cuda_format(const char *format, ...) WEFT_PRINTF(1, 2);
weft_cuda_name weft_cuda_value(const weft_cuda_printer *printer, weft_kval value, int lane);
const char *weft_cuda_type(weft_dtype elem);
void weft_cuda_fail(weft_cuda_printer *printer, weft_code code, const char *problem);
void weft_cuda_line(weft_cuda_printer *printer, const char *format, ...) WEFT_PRINTF(2, 3);
/* Operations that define values or touch memory: false when op is not of that file. */
bool weft_cuda_print_value(weft_cuda_printer *printer, weft_kval id);
bool weft_cuda_print_memory(weft_cuda_printer *printer, weft_kval id);
bool weft_cuda_print_matrix(weft_cuda_printer *printer, weft_kval id);
int weft_cuda_needs(const weft_kernel *kernel);
/* Definitions of the wgmma wrappers that these kernels call. */
void weft_cuda_print_wrappers(int kernel_count, weft_kernel *const *kernels, weft_text *text);
/* "base + 1024 + v7": address of a shared object plus a byte offset. */
weft_cuda_name weft_cuda_address(const weft_cuda_printer *printer, weft_kval shared, weft_kval offset);

#endif
