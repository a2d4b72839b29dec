/* Runs a kernel on the host, instruction by instruction, as its target would see it: threads of a block as fibers,
   asynchronous copies landing late over poisoned memory, bounds of every access, races between threads of a block and
   between blocks, missing or divergent barriers, uninitialised reads. The meaning of the kernel IR. */
#ifndef WEFT_CODEGEN_KERNEL_SIMULATE_H
#define WEFT_CODEGEN_KERNEL_SIMULATE_H
#include "codegen/kernel/kernel.h"

typedef struct weft_sim_buffer {
    void *data;
    size_t bytes;
} weft_sim_buffer;

/* What the blocks moved, of targets with blocks of threads: simulate_count.c. */
typedef struct weft_sim_counts {
    int64_t loaded_sectors, stored_sectors; /* of 32 bytes, of buffers */
    int64_t shared_passes, shared_fewest;   /* over the banks of shared memory; without conflicts */
} weft_sim_counts;

typedef struct weft_sim_options {
    uint64_t seed;              /* schedule of fibers and of asynchronous copies */
    int64_t block_lo, block_hi; /* blocks to run; hi 0 = all */
    weft_sim_counts *counts;    /* added to; NULL: nothing is counted */
} weft_sim_options;

/* buffers: one per argument of the kernel in order (extents: unused; a tensor map: a weft_tensor_map of base/program.h
   whose `buffer` is the number of the argument it maps). symbols: values of the dim table's symbols.
   A fault is an INTERNAL status that names kernel, instruction, thread and block. */
weft_status weft_kernel_simulate(const weft_kernel *kernel, const int64_t *symbols, const weft_sim_buffer *buffers,
                                 const weft_sim_options *options, weft_allocator allocator) WEFT_MUST_USE;
#endif
