/* See constants.h. */
#include "compile/constants.h"

#include "base/arena.h"

#include <string.h>

enum { ALIGN = 64 };

typedef struct weft_constant {
    const void *data;
    size_t bytes;
    int64_t offset;
    size_t before; /* the entry of the same hash before this one + 1; 0 = none */
} weft_constant;

typedef struct constant_key {
    uint64_t hash, bytes;
} constant_key;

void weft_constants_init(weft_allocator allocator, weft_constants *out_constants) {
    *out_constants = (weft_constants){.allocator = allocator};
    weft_map_init(allocator, &out_constants->known);
}

void weft_constants_deinit(weft_constants *constants) {
    weft_map_deinit(&constants->known);
    weft_free(constants->allocator, constants->entries, constants->capacity * sizeof *constants->entries);
}

weft_status weft_constants_add(weft_constants *constants, const void *data, size_t bytes, int64_t *out_offset) {
    constant_key key = {weft_hash(data, bytes, 0), bytes};
    size_t latest = (size_t)(uintptr_t)weft_map_find(&constants->known, &key, sizeof key);
    for (size_t i = latest; i > 0; i = constants->entries[i - 1].before) {
        const weft_constant *entry = &constants->entries[i - 1];
        if (entry->data != data && bytes && memcmp(entry->data, data, bytes) != 0) continue;
        *out_offset = entry->offset;
        return NULL;
    }
    int64_t offset = (constants->bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > PTRDIFF_MAX || offset > INT64_MAX - ALIGN - (int64_t)bytes)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "more than 2^63 bytes of constants");
    if (!WEFT_ARRAY_RESERVE(constants->allocator, constants->entries, constants->capacity, constants->count + 1) ||
        !weft_map_put(&constants->known, &key, sizeof key, (void *)(uintptr_t)(constants->count + 1)))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "collecting constants");
    constants->entries[constants->count++] = (weft_constant){data, bytes, offset, latest};
    constants->bytes = offset + (int64_t)bytes;
    *out_offset = offset;
    return NULL;
}

void weft_constants_write(const weft_constants *constants, void *to) {
    for (size_t i = 0; i < constants->count; i++)
        if (constants->entries[i].bytes)
            memcpy((char *)to + constants->entries[i].offset, constants->entries[i].data, constants->entries[i].bytes);
}
