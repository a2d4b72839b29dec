/* The program schema: what the compiler makes, artifacts store and the executor runs.

   Data in, data out: an executor needs nothing but this record, the code images and the weights. Extents are
   expressions of `dims`, whose symbols are bound from the shapes of the inputs at entry. Buffers are numbered; a step
   names buffers by number. Step lists are regions: region 0 runs once at load (weight packing into PERSISTENT buffers),
   region 1 per call, others are bodies of while, cond and loop, each of exactly one step. Symbols: DECLARED and
   ANONYMOUS ones that occur must be bare extents of an input. READ_DIM and LOOP set DATA symbols; before that a DATA
   symbol counts as its maximum, which is what TEMP memory is planned for. The load region sees no inputs: its extents
   use no symbols but those of its LOOP steps, its buffers are CONSTANT, PERSISTENT or views of them. Memory: TEMP
   buffers live from their first to their last step of region 1 (bodies count as their step) and are placed by
   weft_memory_plan for the extents of the call. Immutable once built. Serialised by weft_program_write. */
#ifndef WEFT_BASE_PROGRAM_H
#define WEFT_BASE_PROGRAM_H

#include "base/arena.h"
#include "base/dim.h"
#include "base/guard.h"
#include "base/text.h"
#include "weft/tensor.h"

enum { WEFT_PROGRAM_FORMAT = 1, WEFT_REGION_LOAD = 0, WEFT_REGION_MAIN = 1 };

typedef enum weft_buffer_kind {
    WEFT_BUFFER_INPUT,      /* index: of the entry point's inputs */
    WEFT_BUFFER_OUTPUT,     /* index: of the outputs */
    WEFT_BUFFER_CONSTANT,   /* offset into the weights */
    WEFT_BUFFER_PERSISTENT, /* filled by the load region, lives with the program */
    WEFT_BUFFER_STATE,      /* index: of the states; updated in place */
    WEFT_BUFFER_TEMP,
    WEFT_BUFFER_ALIAS /* the bytes of buffer `index`, from offset: views; slices of a loop's stacked values */
} weft_buffer_kind;

typedef struct weft_buffer {
    weft_buffer_kind kind;
    int index;
    weft_dim bytes;
    weft_dim offset; /* bytes; CONSTANT: a number, into the weights; STATE: where in the weights its initial value
                        lies, WEFT_DIM_ANY = it starts as zeros; ALIAS: may contain the symbol of an enclosing LOOP
                        step, then the address is resolved anew for each trip */
    int first_step, last_step; /* TEMP: inclusive, of region 1 */
    const char *name;          /* for plans and messages: the value's name or op */
} weft_buffer;

typedef struct weft_port {
    const char *name;
    weft_dtype dtype;
    int rank;
    const weft_dim *dims;
    int buffer;
} weft_port; /* inputs, outputs, states */

typedef struct weft_launch_variant {
    int condition_count; /* all must hold; the last variant of a launch has none */
    const weft_condition *conditions;
    int kernel; /* index into kernels */
    weft_dim grid;
    int buffer_count, extent_count, map_count, read_count;
    const int *buffers;      /* in the kernel's order of buffer arguments */
    const int *reads;        /* places in `buffers` that the kernel only reads; it may write the others */
    const weft_dim *extents; /* in the order of extent arguments */
    const struct weft_tensor_map *maps;
} weft_launch_variant;

/* Hopper: a tensor map to be encoded by the driver at launch. Innermost dimension first; strides in bytes from dim 1.
 */
typedef struct weft_tensor_map {
    int buffer;
    weft_dtype dtype;
    int rank;
    weft_dim extent[5], stride_bytes[5];
    int box[5];
    int swizzle_bytes; /* 0 32 64 128 */
} weft_tensor_map;

typedef enum weft_step_kind {
    WEFT_STEP_LAUNCH,
    WEFT_STEP_COPY,     /* buffers[0] -> buffers[1], extent bytes */
    WEFT_STEP_WHILE,    /* regions[0] computes buffers[0] (bool); regions[1] is the body */
    WEFT_STEP_COND,     /* buffers[0] (bool): regions[0] if true, else regions[1] */
    WEFT_STEP_READ_DIM, /* buffers[0] (i64 scalar) becomes the value of symbol `symbol`; synchronises */
    WEFT_STEP_LOOP      /* regions[0] runs `bytes` times (an extent); symbol's value is the trip number, from 0 */
} weft_step_kind;

typedef struct weft_step {
    weft_step_kind kind;
    int variant_count;
    const weft_launch_variant *variants;
    int buffers[2];
    int regions[2];
    weft_dim bytes;
    int symbol;
    const char *location; /* node: op, name, file:line; in errors and profiles */
} weft_step;

typedef struct weft_step_list {
    int count;
    const weft_step *steps;
} weft_step_list;

typedef struct weft_program_kernel {
    const char *name;       /* symbol in the code image, C identifier */
    weft_dim scratch_bytes; /* per thread (CPU) or dynamic shared memory (GPU) */
    int threads, cluster;
    uint64_t hash;
} weft_program_kernel;

typedef struct weft_program_data {
    const char *name;
    weft_dim_table *dims; /* owned */
    int input_count, output_count, state_count;
    const weft_port *inputs, *outputs, *states;
    int guard_count;
    const weft_guard *guards;
    int buffer_count;
    const weft_buffer *buffers;
    int kernel_count;
    const weft_program_kernel *kernels;
    int region_count;
    const weft_step_list *regions;
    int64_t weights_bytes; /* of the constant buffers together */
    const char *target;    /* cpu, cuda ... */
    const char *producer;  /* version of Weft */
} weft_program_data;

/* Placement of TEMP buffers for given extents: first fit by decreasing size over lifetimes, 64-byte alignment.
   offsets: buffer_count entries (-1 for others). Deterministic. */
weft_status weft_memory_plan(const weft_program_data *program, const int64_t *symbols, weft_allocator allocator,
                             int64_t *offsets, int64_t *out_total_bytes) WEFT_MUST_USE;

/* JSON, one object; the manifest of an artifact embeds it. Read validates everything: indices, kinds, counts,
 * expressions. */
void weft_program_write(const weft_program_data *program, weft_text *text);
struct weft_json;
/* Everything but the table of extents lives in the arena; the caller releases (*out_program)->dims. */
weft_status weft_program_read(weft_arena *arena, const struct weft_json *json,
                              weft_program_data **out_program) WEFT_MUST_USE;
weft_status weft_program_check(const weft_program_data *program)
    WEFT_MUST_USE; /* the same validation for a fresh one */

#endif
