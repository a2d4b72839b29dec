/* A loaded program: schema + weights + code on one device. Made by the loader (artifacts) or by the compiler (JIT). */
#ifndef WEFT_RUNTIME_PROGRAM_H
#define WEFT_RUNTIME_PROGRAM_H

#include "runtime/driver.h"
#include "weft/runtime.h"

/* Owner of what a program's data, weights and code point into. */
typedef struct weft_program_source {
    const weft_program_data *data;
    const void *weights; /* data->weights_bytes */
    weft_binary code;
    void (*release)(void *self); /* frees all of it, NULL = static */
    void *self;
} weft_program_source;

/* Takes the source over (also when it fails): loads code, runs the load region. */
weft_status weft_program_create(weft_context *context, weft_device *device, const weft_program_source *source,
                                weft_program **out_program) WEFT_MUST_USE;
const weft_program_data *weft_program_get_data(const weft_program *program);
/* Binds symbols from input shapes and checks ports, bounds and guards. symbols: weft_dim_symbol_count entries. */
weft_status weft_program_bind(const weft_program_data *data, int input_count, weft_tensor *const *inputs,
                              int64_t *symbols) WEFT_MUST_USE;

#endif
