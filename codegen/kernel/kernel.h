/* The kernel IR: what builders make and printers and the simulator read. One for all targets.

   A kernel is a list of instructions; `for`, `if`, `while`, `role` and `func` open a nest that `end` closes. A value is
   the index of the instruction that defines it. Values are typed: an element type (weft_dtype; BOOL = a predicate) and
   lanes; objects (buffer, shared, var, regs, func, map, barrier) have their own kinds.

   Storage and arithmetic. Buffers may hold any dtype of 8 bits or more (sub-byte types: a U8 buffer and shifts). Loads
   give the buffer's element type; BOOL is one byte, stored 0 or 1. f8 values may only be loaded, stored and converted
   to and from F32. F16 and BF16 arithmetic is written by builders in F32 with converts (one rounding per op). convert:
   float -> int truncates and saturates, NaN -> 0; int -> int wraps; int -> float rounds to even; x -> BOOL: x != 0.
   Integer arithmetic wraps. Float arithmetic is IEEE without contraction or reassociation; fma only where written.

   Invariants (kernel/verify.h): operands precede uses and are visible in the nest; types match; regs indices are
   constant or unrolled; barriers sit in uniform control flow; a mask has as many lanes as the access. Errors: building
   out of memory sets `failed`; the next weft_kernel_verify reports it. Thread-compatible. */
#ifndef WEFT_CODEGEN_KERNEL_H
#define WEFT_CODEGEN_KERNEL_H

#include "base/arena.h"
#include "base/capability.h"
#include "base/dim.h"
#include "base/dtype.h"

typedef int32_t weft_kval; /* index of an instruction; WEFT_KNONE = absent */
#define WEFT_KNONE (-1)

typedef enum weft_kop {
#define KERNEL_OP(id, ...) WEFT_K_##id,
#include "codegen/kernel/kernel_ops.def"
#undef KERNEL_OP
    WEFT_K_COUNT
} weft_kop;

typedef enum weft_kkind {
    WEFT_KIND_VOID,
    WEFT_KIND_VALUE,
    WEFT_KIND_BUFFER,
    WEFT_KIND_SHARED,
    WEFT_KIND_VAR,
    WEFT_KIND_REGS,
    WEFT_KIND_FUNC,
    WEFT_KIND_TENSOR_MAP,
    WEFT_KIND_MBARRIER
} weft_kkind;

typedef struct weft_ktype {
    uint8_t kind; /* weft_kkind */
    uint8_t elem; /* weft_dtype */
    uint16_t lanes;
} weft_ktype;

typedef struct weft_kinstr {
    uint16_t op; /* weft_kop */
    uint16_t operand_count;
    weft_ktype type;
    int32_t first_operand; /* in kernel->operands */
    int32_t align_bytes;   /* load, store: known alignment of the first element; 0 = that of the element */
    int64_t i;
    double f;
    weft_dim extent; /* shared: elements */
} weft_kinstr;

/* What an argument stands for; the emitter binds it. */
typedef enum weft_argument_source {
    WEFT_ARGUMENT_OPERAND,   /* operand `index` of the fusion */
    WEFT_ARGUMENT_RESULT,    /* result `index` */
    WEFT_ARGUMENT_TEMP,      /* temporary `index` of the kernel plan */
    WEFT_ARGUMENT_EXTENT,    /* scalar: the value of `extent` */
    WEFT_ARGUMENT_TENSOR_MAP /* Hopper: map `index` of the kernel plan */
} weft_argument_source;

typedef struct weft_kargument {
    weft_argument_source source;
    int index;
    weft_dim extent;
    weft_dtype dtype;   /* element of a buffer; I64 or the index dtype for an extent */
    bool reads, writes; /* writes: stores to it are legal */
    bool stores;        /* there is one; kept by weft_kernel_emit, as reads is */
    const char *name;   /* in printed code */
} weft_kargument;

typedef struct weft_kernel {
    weft_arena *arena;
    weft_dim_table *dims; /* of the graph the kernel is for: extents in arguments */
    const weft_capability *capability;
    const char *name; /* C identifier */
    int threads;      /* per block; 1 on CPUs */
    int cluster;      /* blocks per cluster; 1 */
    int registers;    /* budget per thread; 0 = none */
    weft_dim grid;    /* number of blocks */
    weft_kinstr *instrs;
    size_t instr_count, instr_capacity;
    weft_kval *operands;
    size_t operand_count, operand_capacity;
    weft_kargument *arguments;
    size_t argument_count, argument_capacity;
    int depth; /* open nests while building */
    bool failed;
    bool subnormals; /* f32 from memory may be subnormal and count: subnormal.h */
} weft_kernel;

typedef enum weft_atomic { WEFT_ATOMIC_ADD, WEFT_ATOMIC_MIN, WEFT_ATOMIC_MAX } weft_atomic;

weft_kernel *weft_kernel_create(weft_arena *arena, weft_dim_table *dims, const weft_capability *capability,
                                const char *name);
/* The general constructor: all helpers of build.h end here. */
weft_kval weft_kernel_emit(weft_kernel *kernel, weft_kop op, weft_ktype type, int operand_count,
                           const weft_kval *operands, int64_t i, double f);
/* An argument of any source (name copied; NULL = numbered); -1 when there is no memory. */
int weft_kernel_argument(weft_kernel *kernel, weft_kargument argument);
/* A buffer or tensor map argument and the value that names it. writes: stores to it are legal; whether it is read
   follows from the instructions. */
weft_kval weft_kernel_buffer(weft_kernel *kernel, weft_argument_source source, int index, weft_dtype dtype, bool writes,
                             const char *name);

static inline weft_ktype weft_kvector(weft_dtype elem, int lanes) {
    return (weft_ktype){WEFT_KIND_VALUE, (uint8_t)elem, (uint16_t)lanes};
}
static inline const weft_kinstr *weft_kernel_get(const weft_kernel *kernel, weft_kval value) {
    return &kernel->instrs[value];
}
static inline weft_ktype weft_ktype_of(const weft_kernel *kernel, weft_kval value) {
    return kernel->instrs[value].type;
}
static inline weft_kval weft_koperand(const weft_kernel *kernel, const weft_kinstr *instr, int index) {
    return kernel->operands[instr->first_operand + index];
}
const char *weft_kop_name(weft_kop op);
int weft_kop_flags(weft_kop op);
int weft_kop_operands(weft_kop op); /* -1 = any */
enum {
    WEFT_KFLAG_PURE = 1,
    WEFT_KFLAG_EFFECT = 2,
    WEFT_KFLAG_STRUCTURE = 4,
    WEFT_KFLAG_UNIFORM = 8,
    WEFT_KFLAG_ASYNC = 16
};

/* Text for people, dumps and golden tests: one instruction a line. */
void weft_kernel_print(const weft_kernel *kernel, weft_text *text);
/* Hash of everything that determines the code (not the name). */
uint64_t weft_kernel_hash(const weft_kernel *kernel);

#endif
