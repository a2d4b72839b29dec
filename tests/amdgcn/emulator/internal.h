/* What the files of the emulator share: registers of a wavefront, decoded instructions, lanes.

   A register of lanes is a row of 64 words. Handlers read sources as rows (a scalar is spread over one), compute all
   lanes and write those that EXEC has; what an inactive lane computes is thrown away, so no handler may fail on its
   values. */
#ifndef WEFT_TESTS_AMDGCN_INTERNAL_H
#define WEFT_TESTS_AMDGCN_INTERNAL_H

#include <llvm-c/Disassembler.h>
#include <string.h>

#include "tests/amdgcn/emulator/emulator.h"
#include "tests/support/numbers.h"
#include "tests/support/ranges.h"

enum {
    LANES = 64,
    ACCUMULATORS = 256,       /* row of a0 */
    SCRATCH_ROWS = 512,       /* for wrapped instructions (selects, lane patterns) */
    ROWS = SCRATCH_ROWS + 40, /* with room for what damaged code may reach */
    /* numbers of scalar registers beyond the general ones, as the encodings have them */
    SCALAR_FLAT = 102,
    SCALAR_XNACK = 104,
    SCALAR_VCC = 106,
    SCALAR_TTMP = 108,
    SCALAR_M0 = 124,
    SCALAR_NULL = 125,
    SCALAR_EXEC = 126,
    SCALARS = 144, /* beyond the last: what damaged code may write */
    OPERANDS = 6,
    TEXT = 128,
    UNTIL_BARRIER = 1, /* why a wavefront stopped */
    ENDED,
    FAILED
};

/* Addresses of memory that is not global: above all of the host's, within the 48 bits of a buffer descriptor. */
#define SHARED_APERTURE  UINT64_C(0x800100000000)
#define PRIVATE_APERTURE UINT64_C(0x800200000000)

typedef float lane_f32 __attribute__((may_alias));
typedef double lane_f64 __attribute__((may_alias));
typedef int32_t lane_i32 __attribute__((may_alias));
typedef int64_t lane_i64 __attribute__((may_alias));
typedef uint64_t lane_u64 __attribute__((may_alias));

/* Versions with wide vectors and fused multiply-add where this CPU has them. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

typedef struct amdgcn_wave amdgcn_wave;
typedef struct amdgcn_instruction amdgcn_instruction;
typedef void (*amdgcn_handler)(amdgcn_wave *wave, const amdgcn_instruction *instruction);

typedef enum amdgcn_operand_kind { NOTHING, VECTOR, SCALAR, CONSTANT, OFF, SCC, WORD } amdgcn_operand_kind;

typedef struct amdgcn_operand {
    amdgcn_operand_kind kind;
    int index, count;  /* of registers */
    uint64_t constant; /* of the width that the instruction reads */
    bool negate, absolute, extend;
    int half;      /* of a 16-bit operand: 0 low, 1 high */
    char word[24]; /* WORD: hwreg(...), sendmsg(...) and other names */
} amdgcn_operand;

/* Operands and modifiers of an instruction, in the order of its text: destinations first. */
struct amdgcn_instruction {
    amdgcn_handler run; /* NULL: not decoded yet */
    int op;             /* within the handler */
    int destinations, sources;
    amdgcn_operand out[2], in[OPERANDS];
    uint64_t next, target; /* addresses within the image */
    int64_t offset;        /* of memory; offset0 of two */
    int64_t offset1;
    bool returns;         /* an atomic gives the old value */
    bool clamp, low_half; /* low_half: 16-bit results keep the upper half */
    int scale;            /* omod: 0, 2 (times), 4, -2 (divided) */
    unsigned op_sel, op_sel_hi, neg_lo, neg_hi;
    int pattern, pattern_value;            /* DPP */
    unsigned row_mask, bank_mask, eighths; /* eighths: dpp8, three bits a lane */
    bool bound_zero, fetch_inactive;
    int select_out, select_in[2], unused; /* SDWA */
    bool wrapped;
    amdgcn_instruction *inner, *second; /* of a wrapper; VOPD: both */
    char text[TEXT];
};

typedef struct amdgcn_block {
    uint8_t *shared;
    int64_t shared_bytes;
    int64_t index;
} amdgcn_block;

struct amdgcn_wave {
    uint32_t rows[ROWS][LANES];
    uint32_t mask[LANES]; /* EXEC as words, of mask_of */
    uint64_t mask_of;
    union {
        uint32_t scalar[SCALARS];
        uint64_t pair[SCALARS / 2];
    };
    bool scc;
    int lanes; /* 32 or 64 */
    uint64_t pc;
    int stopped;      /* 0: running */
    int index;        /* in its block */
    uint64_t taken;   /* instructions */
    uint8_t *scratch; /* lane after lane */
    int64_t scratch_bytes;
    amdgcn_block *block;
    amdgcn_machine *machine;
    amdgcn_code *code;
};

struct amdgcn_machine {
    char arch[16];
    int generation; /* 9, 10, 11, 12 */
    memory_ranges ranges;
    amdgcn_counts counts;
    weft_status failure; /* the first of a launch */
    const amdgcn_launch *launch;
    const amdgcn_instruction *current;
    amdgcn_wave *waves;
    int wave_capacity;
    uint64_t limit; /* instructions of a wavefront */
};

typedef struct amdgcn_descriptor {
    uint32_t shared_bytes, scratch_bytes, argument_bytes;
    uint64_t entry;
    uint32_t resource1, resource2;
    unsigned properties, preload;
} amdgcn_descriptor;

typedef struct amdgcn_kernel {
    const char *name;
    amdgcn_descriptor descriptor;
    uint64_t bytes; /* of code */
} amdgcn_kernel;

struct amdgcn_code {
    amdgcn_machine *machine;
    uint8_t *image;
    uint64_t image_bytes;
    amdgcn_instruction **decoded;         /* by address / 4 */
    LLVMDisasmContextRef disassembler[2]; /* wavefronts of 64, of 32 lanes */
    amdgcn_kernel *kernels;
    int kernel_count;
    char *unknown; /* collected by amdgcn_code_unknown */
};

typedef struct amdgcn_opcode {
    const char *name;
    amdgcn_handler run;
    int op;
    const char *form; /* destinations, then the type of constants: "1f" "0i" "2F" "1h" "1p"; see decode.c */
} amdgcn_opcode;

/* The tables, one a file of handlers; each ends with a row without a name. */
extern const amdgcn_opcode amdgcn_scalar_opcodes[], amdgcn_control_opcodes[], amdgcn_float_opcodes[],
    amdgcn_integer_opcodes[], amdgcn_wide_opcodes[], amdgcn_half_opcodes[], amdgcn_packed_opcodes[],
    amdgcn_compare_opcodes[], amdgcn_convert_opcodes[], amdgcn_lane_opcodes[], amdgcn_memory_opcodes[],
    amdgcn_shared_opcodes[], amdgcn_matrix_opcodes[];

/* decode.c: the instruction at an address of the image; NULL with machine->failure set. */
const amdgcn_instruction *amdgcn_decode(amdgcn_code *code, amdgcn_wave *wave, uint64_t address);
void amdgcn_instruction_free(amdgcn_instruction *instruction); /* NULL is fine */
/* wrap.c: false: not possible */
bool amdgcn_wrap(amdgcn_instruction *instruction);
bool amdgcn_wrap_alone(amdgcn_instruction *instruction, bool compares); /* of lanes, for scalars */
void amdgcn_run_pattern(amdgcn_wave *wave, const amdgcn_instruction *i);
void amdgcn_run_select(amdgcn_wave *wave, const amdgcn_instruction *i);
void amdgcn_run_both(amdgcn_wave *wave, const amdgcn_instruction *i);
void amdgcn_run_nothing(amdgcn_wave *wave, const amdgcn_instruction *i);

/* Ends the launch; the first reason stays. lane < 0: of the whole wavefront. */
void amdgcn_fail(amdgcn_wave *wave, int lane, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Host memory behind a global address, or NULL with the failure set. */
uint8_t *amdgcn_global(amdgcn_wave *wave, int lane, uint64_t address, unsigned bytes, bool writes);

/* -- lanes */

static inline uint64_t amdgcn_exec(const amdgcn_wave *w) { return w->pair[SCALAR_EXEC / 2]; }
static inline uint64_t amdgcn_all(const amdgcn_wave *w) { return w->lanes == 64 ? ~UINT64_C(0) : UINT32_MAX; }
static inline bool amdgcn_active(const amdgcn_wave *w, int lane) { return amdgcn_exec(w) >> lane & 1; }

static inline uint32_t *amdgcn_row(amdgcn_wave *w, const amdgcn_operand *o, int part) {
    return w->rows[o->index + part];
}

static inline uint32_t amdgcn_scalar32(const amdgcn_wave *w, const amdgcn_operand *o, int part) {
    switch ((int)o->kind) {
    case SCALAR: return o->index == SCALAR_NULL ? 0 : w->scalar[o->index + part];
    case VECTOR: return w->rows[o->index + part][0];
    case SCC: return part ? 0 : w->scc;
    case CONSTANT: return part ? (uint32_t)(o->constant >> 32) : (uint32_t)o->constant;
    default: return 0;
    }
}

static inline uint64_t amdgcn_scalar64(const amdgcn_wave *w, const amdgcn_operand *o) {
    return amdgcn_scalar32(w, o, 0) | (uint64_t)amdgcn_scalar32(w, o, 1) << 32;
}

static inline void amdgcn_set32(amdgcn_wave *w, const amdgcn_operand *o, int part, uint32_t value) {
    if (o->kind == SCALAR && o->index != SCALAR_NULL) w->scalar[o->index + part] = value;
}

static inline void amdgcn_set64(amdgcn_wave *w, const amdgcn_operand *o, uint64_t value) {
    amdgcn_set32(w, o, 0, (uint32_t)value);
    if (o->index != SCALAR_NULL) amdgcn_set32(w, o, 1, (uint32_t)(value >> 32));
}

/* A mask of lanes in one or two scalar registers. */
static inline uint64_t amdgcn_lanes_get(const amdgcn_wave *w, const amdgcn_operand *o) {
    return w->lanes == 64 ? amdgcn_scalar64(w, o) : amdgcn_scalar32(w, o, 0);
}

static inline void amdgcn_lanes_set(amdgcn_wave *w, const amdgcn_operand *o, uint64_t value) {
    if (w->lanes == 64)
        amdgcn_set64(w, o, value);
    else
        amdgcn_set32(w, o, 0, (uint32_t)value);
}

/* The source's words, without modifiers: its own row, or `space` filled. */
static inline const uint32_t *amdgcn_words(amdgcn_wave *w, const amdgcn_operand *o, int part, uint32_t *space) {
    if (o->kind == VECTOR) return w->rows[o->index + part];
    uint32_t value = amdgcn_scalar32(w, o, part);
    for (int l = 0; l < LANES; l++) space[l] = value;
    return space;
}

/* As f32, with -|x|. */
static inline const lane_f32 *amdgcn_floats(amdgcn_wave *w, const amdgcn_operand *o, uint32_t *space) {
    const uint32_t *words = amdgcn_words(w, o, 0, space);
    if (o->negate || o->absolute) {
        uint32_t keep = o->absolute ? 0x7fffffff : 0xffffffff, flip = o->negate ? 0x80000000 : 0;
        for (int l = 0; l < LANES; l++) space[l] = (words[l] & keep) ^ flip;
        words = space;
    }
    return (const lane_f32 *)words;
}

static inline uint64_t *amdgcn_wide(amdgcn_wave *w, const amdgcn_operand *o, uint64_t *space) {
    uint32_t low[LANES], high[LANES];
    const uint32_t *a = amdgcn_words(w, o, 0, low);
    const uint32_t *b = o->kind == VECTOR && o->count < 2 ? a : amdgcn_words(w, o, 1, high);
    uint64_t keep = o->absolute ? INT64_MAX : UINT64_MAX, flip = o->negate ? UINT64_C(1) << 63 : 0;
    for (int l = 0; l < LANES; l++) space[l] = ((a[l] | (uint64_t)b[l] << 32) & keep) ^ flip;
    return space;
}

/* EXEC spread over words. */
static inline const uint32_t *amdgcn_mask(amdgcn_wave *w) {
    uint64_t exec = amdgcn_exec(w);
    if (w->mask_of != exec) {
        for (int l = 0; l < LANES; l++) w->mask[l] = 0 - (uint32_t)(exec >> l & 1);
        w->mask_of = exec;
    }
    return w->mask;
}

static inline void amdgcn_put(amdgcn_wave *w, const amdgcn_operand *o, int part, const uint32_t *values) {
    uint32_t *row = w->rows[o->index + part];
    if (amdgcn_exec(w) == amdgcn_all(w)) { /* lanes beyond those of the wavefront mean nothing */
        memcpy(row, values, sizeof w->rows[0]);
        return;
    }
    const uint32_t *mask = amdgcn_mask(w);
    for (int l = 0; l < LANES; l++) row[l] = (values[l] & mask[l]) | (row[l] & ~mask[l]);
}

static inline void amdgcn_put_wide(amdgcn_wave *w, const amdgcn_operand *o, const uint64_t *values) {
    uint32_t low[LANES], high[LANES];
    for (int l = 0; l < LANES; l++) low[l] = (uint32_t)values[l], high[l] = (uint32_t)(values[l] >> 32);
    amdgcn_put(w, o, 0, low);
    amdgcn_put(w, o, 1, high);
}

#endif
