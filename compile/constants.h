/* Constants of several programs and a graph in one block, equal bytes once: the weights entry of an artifact.

   Adding keeps the data where it is (it must stay); writing copies. Offsets are multiples of 64, in order of adding. */
#ifndef WEFT_COMPILE_CONSTANTS_H
#define WEFT_COMPILE_CONSTANTS_H

#include "base/map.h"
#include "weft/status.h"

typedef struct weft_constants {
    weft_allocator allocator;
    weft_map known; /* hash and size -> number of the latest such entry + 1 */
    struct weft_constant *entries;
    size_t count, capacity;
    int64_t bytes;
} weft_constants;

void weft_constants_init(weft_allocator allocator, weft_constants *out_constants);
void weft_constants_deinit(weft_constants *constants);
weft_status weft_constants_add(weft_constants *constants, const void *data, size_t bytes,
                               int64_t *out_offset) WEFT_MUST_USE;
/* to: constants->bytes bytes, cleared. */
void weft_constants_write(const weft_constants *constants, void *to);

#endif
