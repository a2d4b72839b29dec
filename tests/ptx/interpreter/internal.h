/* What the files of the interpreter share: parsed instructions, warps. A register is a row of 32 values, zero-extended.
 */
#ifndef WEFT_TESTS_PTX_INTERNAL_H
#define WEFT_TESTS_PTX_INTERNAL_H

#include <string.h>

#include "tests/ptx/interpreter/ptx.h"
#include "tests/support/numbers.h"
#include "tests/support/ranges.h"

enum { LANES = 32, OPERANDS = 6, PARTS = 8, NAME = 96, BARRIERS = 16 };

/* Addresses of memory that is not global, as generic ones: above all of the host's. */
#define SHARED_WINDOW UINT64_C(0x800100000000)
#define LOCAL_WINDOW  UINT64_C(0x800200000000)

typedef struct ptx_warp ptx_warp;
typedef struct ptx_instruction ptx_instruction;
typedef void (*ptx_handler)(ptx_warp *warp, const ptx_instruction *i, uint32_t lanes);
typedef uint64_t (*ptx_function)(uint64_t a, uint64_t b, uint64_t c);

typedef enum ptx_kind { NOTHING, REGISTER, CONSTANT, SPECIAL, VECTOR, ADDRESS } ptx_kind;
typedef enum ptx_special { TID, NTID, CTAID, NCTAID, LANEID, WARPID, ZERO, ONE } ptx_special;

typedef struct ptx_operand {
    ptx_kind kind;
    int index;      /* of a register; an ADDRESS without one: -1; a special */
    int other;      /* the register behind a |, -1 */
    bool negate;    /* of a predicate */
    uint64_t value; /* constant; an address's offset */
    int moves;      /* the value counts from: 0 nothing, 1 the module's data, 2 the end of the kernel's shared memory */
    int count, parts[PARTS]; /* VECTOR; -1: the sink */
} ptx_operand;

struct ptx_instruction {
    ptx_handler run;
    ptx_function function;
    int predicate; /* -1: none */
    bool predicate_negated, jumps;
    int op, count; /* count: operands */
    int bytes, vector, space, type;
    int target;
    ptx_operand operands[OPERANDS];
    char name[NAME];
};

/* Values that are read before they are written are noticed as what they are: this. */
#define POISON UINT64_C(0xa5a5a5a5a5a5a5a5)

typedef struct ptx_symbol {
    char name[NAME];
    int scope;
    int reg, bits;    /* a register: its width */
    uint64_t address; /* a variable */
    int moves;        /* an operand's `moves` */
} ptx_symbol;

typedef struct ptx_kernel {
    char name[NAME];
    ptx_instruction *code;
    int code_count, code_capacity;
    int *widths; /* of registers, in bits; 1 = predicate */
    int register_count, register_capacity;
    int parameter_bytes, parameter_count;
    int parameter_offset[PTX_PARAMETERS_MAX], parameter_size[PTX_PARAMETERS_MAX];
    uint64_t shared_bytes, local_bytes;
} ptx_kernel;

struct ptx_module {
    ptx_machine *machine;
    ptx_kernel *kernels;
    int kernel_count;
    uint8_t *data; /* variables in global and constant memory */
    uint64_t data_bytes;
    uint64_t shared_bytes; /* of variables outside of kernels; dynamic ones lie behind everything */
};

typedef struct ptx_copy {
    uint8_t *to;
    const uint8_t *from;
    int bytes, zeros, lane;
    unsigned group;
} ptx_copy;

typedef enum ptx_stop { RUNNING, AT_BARRIER, ENDED, FAILED } ptx_stop;

typedef struct ptx_block {
    uint8_t *shared;
    uint64_t shared_bytes;
    unsigned index, arrived[BARRIERS]; /* without waiting */
} ptx_block;

struct ptx_warp {
    uint64_t (*rows)[LANES];
    int pc[LANES];
    uint32_t alive;
    ptx_stop stop;
    int barrier, barrier_threads; /* waited for */
    int index;
    uint8_t *local; /* lane after lane */
    ptx_copy *copies;
    int copy_count, copy_capacity;
    unsigned group; /* being filled */
    uint64_t steps;
    ptx_block *block;
    const ptx_kernel *kernel;
    ptx_machine *machine;
    const uint8_t *parameters;
};

struct ptx_machine {
    memory_ranges ranges;
    uint64_t limit, steps;
    weft_status failure;
    const ptx_launch *launch;
    const ptx_instruction *current;
    bool (*set_condition)(void *self, uint64_t handle, uint32_t value);
    void *condition_self;
};

typedef struct ptx_opcode {
    const char *name;
    ptx_handler run;
    ptx_function function;
    int op;
} ptx_opcode;

/* Tables; each ends with a row without a name. A name that ends in '*' stands for all that start so: the handler's
   prepare function reads the rest. */
extern const ptx_opcode ptx_integer_opcodes[], ptx_float_opcodes[], ptx_warp_opcodes[];
/* Families whose names are read piece by piece; false: not understood. */
bool ptx_prepare_convert(ptx_instruction *i);
bool ptx_prepare_compare(ptx_instruction *i);
bool ptx_prepare_memory(ptx_instruction *i);
bool ptx_prepare_matrix(ptx_instruction *i);
/* Writes function(a, b, c) for each lane. */
void ptx_run_function(ptx_warp *w, const ptx_instruction *i, uint32_t lanes);

void ptx_fail(ptx_warp *w, int lane, const char *format, ...) __attribute__((format(printf, 3, 4)));

uint64_t ptx_special_value(const ptx_warp *w, int which, int lane);

static inline uint64_t ptx_get(const ptx_warp *w, const ptx_operand *o, int lane) {
    if (o->kind == REGISTER) return w->rows[o->index][lane];
    return o->kind == CONSTANT ? o->value : ptx_special_value(w, o->index, lane);
}

static inline uint64_t ptx_width(const ptx_warp *w, int reg, uint64_t value) {
    int bits = w->kernel->widths[reg];
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static inline void ptx_put(ptx_warp *w, int reg, int lane, uint64_t value) {
    if (reg >= 0) w->rows[reg][lane] = ptx_width(w, reg, value);
}

#endif
