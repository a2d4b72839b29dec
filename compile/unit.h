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
    /* By buffer of the program: what a constant holds, a state starts with; NULL elsewhere. The graph's own tensors
       where they are packed and aligned, so that units of one graph share them. */
    weft_tensor **constants;
    const void **constant_data;
    void *image;
    size_t image_bytes;
} weft_unit;

/* The record for what a device runs: its own, or of those whose code it runs too the one that fits best (a card that is
   newer than the records takes the portable code of an older one). */
weft_status weft_unit_capability(const weft_device *device, const weft_capability **out_capability) WEFT_MUST_USE;
/* A copy of the graph behind the passes of the pipeline that know no target: what all units of one graph have in
   common, their weights above all. *out_rest: the passes that are left. */
weft_status weft_unit_prepare(weft_graph *graph, const weft_compile_options *options, weft_graph **out_graph,
                              const char **out_rest) WEFT_MUST_USE;
/* The whole compiler: copies the graph with symbols replaced (NULL = none), runs the pipeline, lowers, generates code.
   The graph is not changed. */
weft_status weft_unit_compile(weft_graph *graph, const weft_dim *replacement, const weft_capability *capability,
                              const weft_compile_options *options, weft_unit **out_unit) WEFT_MUST_USE;
void weft_unit_release(weft_unit *unit);
/* Copies the constants to their offsets in program->weights_bytes bytes. */
void weft_unit_weights(const weft_unit *unit, void *out_weights);
/* Loads the unit on a device; the program owns it from then on, also when this fails. pool: of the device; may be NULL.
 */
weft_status weft_unit_load(weft_unit *unit, weft_device *device, weft_weight_pool *pool,
                           weft_program **out_program) WEFT_MUST_USE;

/* Code of kernels from the disk cache, or compiled and stored there. */
weft_status weft_cache_compile(weft_context *context, const weft_target *target, const weft_capability *capability,
                               int kernel_count, weft_kernel *const *kernels, int thread_count,
                               weft_code_image *out_image) WEFT_MUST_USE;

#endif
