/* A loaded program: schema + weights + code on one device. Made by the loader (artifacts) or by the compiler (JIT). */
#ifndef WEFT_RUNTIME_PROGRAM_H
#define WEFT_RUNTIME_PROGRAM_H

#include "runtime/driver.h"
#include "runtime/weight_pool.h"
#include "weft/runtime.h"

/* Owner of what a program's data, weights and code point into. */
typedef struct weft_program_source {
    const weft_program_data *data;
    const void *weights;          /* data->weights_bytes in one piece; or NULL, and */
    const void *const *constants; /* by buffer: the bytes of a constant, the initial value of a state; NULL elsewhere */
    weft_weight_pool *pool;       /* of `constants`, where the device has memory of its own; the program retains it */
    weft_binary code;
    void (*release)(void *self); /* frees all of it, NULL = static */
    void *self;
} weft_program_source;

/* Takes the source over (also when it fails): loads code, runs the load region. */
weft_status weft_program_create(weft_context *context, weft_device *device, const weft_program_source *source,
                                weft_program **out_program) WEFT_MUST_USE;
const weft_program_data *weft_program_get_data(const weft_program *program);
struct weft_program {
    atomic_int references;
    weft_context *context;
    weft_device *device;
    weft_program_source source;
    const weft_program_data *data; /* source.data */
    weft_module *module;
    void **constants; /* by buffer: device address of what the source has; its own where memory is the host's, and for
                         initial values of states unless weights came in one piece */
    void *uploaded;   /* owned copy of source.weights, or NULL */
    int taken_count;  /* of the buffers from the front, those that the pool has given */
    void *persistent; /* all PERSISTENT buffers */
    int64_t persistent_bytes;
    int64_t *persistent_offsets; /* per buffer */
    int64_t state_bytes;         /* of a session's states together */
    int64_t *state_offsets;      /* per buffer */
    char arch[64];
};

/* What binding looks at: one input. */
typedef struct weft_shape_view {
    weft_dtype dtype;
    int rank;
    const int64_t *shape;
} weft_shape_view;
weft_status weft_program_bind_shapes(const weft_program_data *data, int input_count, const weft_shape_view *inputs,
                                     int64_t *symbols) WEFT_MUST_USE;

/* Binds symbols from input shapes and checks ports, bounds and guards. symbols: weft_dim_symbol_count entries. */
/* INVALID_ARGUMENT: a port does not fit; OUT_OF_RANGE: a symbol leaves its bounds; GUARD_FAILED: a guard is false. */
weft_status weft_program_bind(const weft_program_data *data, int input_count, weft_tensor *const *inputs,
                              int64_t *symbols) WEFT_MUST_USE;

#endif
