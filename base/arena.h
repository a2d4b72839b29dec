/* Bump allocation for everything that dies together: IR, pass scratch, parsers.
   Invariant: memory is zeroed and aligned; nothing is freed before weft_arena_deinit. Thread-compatible. */
#ifndef WEFT_BASE_ARENA_H
#define WEFT_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "weft/allocator.h"

typedef struct weft_arena {
    weft_allocator allocator;
    struct weft_arena_block *blocks;
    size_t used_bytes, capacity_bytes; /* of the newest block */
    size_t total_bytes;
} weft_arena;

void weft_arena_init(weft_allocator allocator, weft_arena *out_arena);
void weft_arena_deinit(weft_arena *arena);

/* Zeroed memory, 16-byte aligned; NULL when there is none. A size of 0 gives a valid pointer. */
void *weft_arena_allocate(weft_arena *arena, size_t bytes);
/* count * bytes, checked. */
void *weft_arena_allocate_array(weft_arena *arena, size_t count, size_t bytes);
/* Terminated copies; NULL when there is no memory. */
char *weft_arena_copy_string(weft_arena *arena, const char *text, size_t bytes);
char *weft_arena_format(weft_arena *arena, const char *format, ...) WEFT_PRINTF(2, 3);
void *weft_arena_copy(weft_arena *arena, const void *data, size_t bytes);

/* Growable arrays on the heap allocator: returns false when there is no memory; *items then is unchanged. */
bool weft_array_reserve(weft_allocator allocator, void **items, size_t *capacity, size_t needed, size_t item_bytes);
#define WEFT_ARRAY_RESERVE(allocator, items, capacity, needed)                                                         \
    weft_array_reserve((allocator), (void **)&(items), &(capacity), (needed), sizeof *(items))
void *weft_allocate(weft_allocator allocator, size_t bytes); /* zeroed */
void weft_free(weft_allocator allocator, void *pointer, size_t bytes);
/* false on overflow */
bool weft_size_multiply(size_t a, size_t b, size_t *out_product);
bool weft_size_add(size_t a, size_t b, size_t *out_sum);

#endif
