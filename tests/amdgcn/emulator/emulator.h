/* An AMD GPU for tests: loads code objects (ELF, amdhsa) and executes their kernels on this CPU.

   One machine has one address space: host memory that was mapped into it. Every access of a kernel must lie inside one
   mapped range, its block's shared memory or its own scratch; everything else, and every instruction that the tables do
   not know, ends the launch with a status that names kernel, address, instruction and lane.

   Wavefronts of a block run one after the other from barrier to barrier, first to last and last to first in turn, so
   that a missing barrier shows as a wrong number. Nothing runs in parallel: results are the same each time.
   Thread-compatible: one thread at a time in a machine.

   Sources: "User Guide for AMDGPU Backend" of LLVM 19 (object format, kernel descriptor, initial registers), AMD's
   instruction set documents of CDNA2, CDNA3, RDNA2, RDNA3, RDNA4 (semantics of instructions). */
#ifndef WEFT_TESTS_AMDGCN_EMULATOR_H
#define WEFT_TESTS_AMDGCN_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

typedef struct amdgcn_machine amdgcn_machine;
typedef struct amdgcn_code amdgcn_code; /* a loaded code object; belongs to its machine */

/* arch: gfx90a gfx942 gfx1030 gfx1100 gfx1200. */
weft_status amdgcn_machine_create(const char *arch, amdgcn_machine **out_machine) WEFT_MUST_USE;
void amdgcn_machine_release(amdgcn_machine *machine);

/* [memory, memory + bytes) becomes visible to kernels. Ranges must not overlap. */
weft_status amdgcn_machine_map(amdgcn_machine *machine, void *memory, size_t bytes, bool writable) WEFT_MUST_USE;
void amdgcn_machine_unmap(amdgcn_machine *machine, void *memory);

/* Refuses objects of another arch, and damaged ones. */
weft_status amdgcn_code_load(amdgcn_machine *machine, const void *data, size_t bytes,
                             amdgcn_code **out_code) WEFT_MUST_USE;
void amdgcn_code_unload(amdgcn_code *code);

typedef struct amdgcn_launch {
    const char *kernel;
    int64_t blocks;
    int threads;           /* per block */
    int64_t shared_bytes;  /* beyond what the kernel declares */
    const void *arguments; /* laid out as the kernel expects */
    size_t argument_bytes; /* must be all that the kernel reads, hidden arguments excepted */
} amdgcn_launch;

weft_status amdgcn_machine_launch(amdgcn_code *code, const amdgcn_launch *launch) WEFT_MUST_USE;

/* Instructions that a wavefront may take before its launch fails; 2^32 at first. */
void amdgcn_machine_set_limit(amdgcn_machine *machine, uint64_t instructions);

typedef struct amdgcn_counts {
    uint64_t instructions; /* of wavefronts */
    uint64_t launches, matrix, barriers, decoded;
} amdgcn_counts;

amdgcn_counts amdgcn_machine_counts(const amdgcn_machine *machine);

/* "v_add_f32 v0, v1, v2": the names of all instructions that `data` contains and the tables do not know, one line each.
   NULL: none. The caller frees. */
weft_status amdgcn_code_unknown(amdgcn_code *code, char **out_names) WEFT_MUST_USE;

#endif
