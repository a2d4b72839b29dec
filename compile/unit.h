/* One graph compiled for one architecture, in memory: program, weights, code. */
#ifndef WEFT_COMPILE_UNIT_H
#define WEFT_COMPILE_UNIT_H

#include "base/capability.h"
#include "compile/lower.h"
#include "runtime/program.h"
#include "weft/compile.h"

typedef struct weft_unit {
    weft_context *context;
    weft_arena arena; /* program */
    weft_program_data *program;
    const weft_capability *capability; /* &own */
    weft_capability own;               /* the target's record and what the options permit */
    void *weights;                     /* program->weights_bytes, 64-byte aligned; NULL until asked for */
    void *image;
    size_t image_bytes;
} weft_unit;

/* The whole compiler: copies the graph with symbols replaced (NULL = none), runs the pipeline, lowers, generates code.
   The graph is not changed. */
weft_status weft_unit_compile(weft_graph *graph, const weft_dim *replacement, const weft_capability *capability,
                              const weft_compile_options *options, weft_unit **out_unit) WEFT_MUST_USE;
void weft_unit_release(weft_unit *unit);
/* Loads the unit on a device; the program owns it from then on, also when this fails. */
weft_status weft_unit_load(weft_unit *unit, weft_device *device, weft_program **out_program) WEFT_MUST_USE;

/* Code of kernels from the disk cache, or compiled and stored there. */
weft_status weft_cache_compile(weft_context *context, const weft_target *target, const weft_capability *capability,
                               int kernel_count, weft_kernel *const *kernels, int thread_count,
                               weft_code_image *out_image) WEFT_MUST_USE;

#endif
