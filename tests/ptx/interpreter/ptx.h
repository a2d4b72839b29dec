/* An NVIDIA GPU for tests: executes PTX text on this CPU, as far as kernels for any card from sm_80 on use it.

   One machine has one address space: host memory that was mapped into it. Threads of a warp run together where they are
   at the same place, those farthest behind first; warps of a block run from barrier to barrier, first to last and last
   to first in turn. Copies of cp.async land when they are waited for, not before. Accesses lie in mapped memory, the
   block's shared memory or the thread's own, on addresses that are multiples of their size; everything else, and every
   instruction without a row in the tables, ends the launch with a status that names kernel, instruction and thread.
   Nothing runs in parallel. Thread-compatible. Source: NVIDIA, "Parallel Thread Execution ISA", version 9.0. */
#ifndef WEFT_TESTS_PTX_PTX_H
#define WEFT_TESTS_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

typedef struct ptx_machine ptx_machine;
typedef struct ptx_module ptx_module;

weft_status ptx_machine_create(ptx_machine **out_machine) WEFT_MUST_USE;
void ptx_machine_release(ptx_machine *machine);

weft_status ptx_machine_map(ptx_machine *machine, void *memory, size_t bytes, bool writable) WEFT_MUST_USE;
void ptx_machine_unmap(ptx_machine *machine, void *memory);
/* Steps that a warp may take before its launch fails; 2^32 at first. */
void ptx_machine_set_limit(ptx_machine *machine, uint64_t steps);
/* Instructions of warps so far. */
uint64_t ptx_machine_steps(const ptx_machine *machine);

/* What is not understood is refused here, by name. The text is copied. */
weft_status ptx_module_load(ptx_machine *machine, const char *text, ptx_module **out_module) WEFT_MUST_USE;
void ptx_module_unload(ptx_module *module);
bool ptx_module_has(const ptx_module *module, const char *kernel);
enum { PTX_PARAMETERS_MAX = 512 }; /* of a kernel: 4 KB of pointers */
/* Bytes of each parameter of a kernel of the module; returns their number. */
int ptx_module_parameters(const ptx_module *module, const char *kernel, const int **out_bytes);

typedef struct ptx_launch {
    const char *kernel;
    unsigned blocks, threads;
    unsigned shared_bytes;   /* dynamic */
    void *const *parameters; /* addresses of the arguments, in order */
} ptx_launch;

/* What a call of cudaGraphSetConditional does; without it such a call ends the launch. */
void ptx_machine_on_condition(ptx_machine *machine, bool (*set)(void *self, uint64_t handle, uint32_t value),
                              void *self);
weft_status ptx_machine_launch(ptx_module *module, const ptx_launch *launch) WEFT_MUST_USE;

#endif
