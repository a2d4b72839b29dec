/* Arenas and checked heap helpers. Blocks double from 4 KiB to 1 MiB; a request larger than a block gets its own block,
   linked behind the newest one so that the newest keeps serving small requests. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { ARENA_ALIGN = 16, FIRST_BLOCK_BYTES = 4096, LARGEST_BLOCK_BYTES = 1 << 20 };

typedef struct weft_arena_block {
    struct weft_arena_block *next;
    size_t bytes; /* of the whole block, header included */
} weft_arena_block;

_Static_assert(sizeof(weft_arena_block) % ARENA_ALIGN == 0, "data behind the header is aligned");

void weft_arena_init(weft_allocator allocator, weft_arena *out_arena) {
    *out_arena = (weft_arena){.allocator = allocator};
}

void weft_arena_deinit(weft_arena *arena) {
    for (weft_arena_block *block = arena->blocks; block;) {
        weft_arena_block *next = block->next;
        arena->allocator.resize(arena->allocator.self, block, block->bytes, 0, ARENA_ALIGN);
        block = next;
    }
    weft_arena_init(arena->allocator, arena);
}

static weft_arena_block *block_create(weft_arena *arena, size_t data_bytes) {
    size_t bytes;
    if (!weft_size_add(data_bytes, sizeof(weft_arena_block), &bytes)) return NULL;
    weft_arena_block *block = arena->allocator.resize(arena->allocator.self, NULL, 0, bytes, ARENA_ALIGN);
    if (!block) return NULL;
    block->next = NULL;
    block->bytes = bytes;
    arena->total_bytes += bytes;
    return block;
}

void *weft_arena_allocate(weft_arena *arena, size_t bytes) {
    size_t rounded;
    if (!weft_size_add(bytes ? bytes : 1, ARENA_ALIGN - 1, &rounded)) return NULL;
    rounded &= ~(size_t)(ARENA_ALIGN - 1);
    if (rounded > arena->capacity_bytes - arena->used_bytes) {
        size_t block_bytes = arena->capacity_bytes ? arena->capacity_bytes * 2 : FIRST_BLOCK_BYTES;
        if (block_bytes > LARGEST_BLOCK_BYTES) block_bytes = LARGEST_BLOCK_BYTES;
        bool own = rounded > block_bytes / 4 && arena->blocks;
        weft_arena_block *block = block_create(arena, own || rounded > block_bytes ? rounded : block_bytes);
        if (!block) return NULL;
        if (own) {
            block->next = arena->blocks->next;
            arena->blocks->next = block;
            return memset(block + 1, 0, rounded);
        }
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used_bytes = 0;
        arena->capacity_bytes = block->bytes - sizeof *block;
    }
    unsigned char *pointer = (unsigned char *)(arena->blocks + 1) + arena->used_bytes;
    arena->used_bytes += rounded;
    return memset(pointer, 0, rounded);
}

void *weft_arena_allocate_array(weft_arena *arena, size_t count, size_t bytes) {
    size_t total;
    return weft_size_multiply(count, bytes, &total) ? weft_arena_allocate(arena, total) : NULL;
}

char *weft_arena_copy_string(weft_arena *arena, const char *text, size_t bytes) {
    size_t total;
    char *copy = weft_size_add(bytes, 1, &total) ? weft_arena_allocate(arena, total) : NULL;
    if (copy && bytes) memcpy(copy, text, bytes);
    return copy;
}

char *weft_arena_format(weft_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return NULL;
    char *text = weft_arena_allocate(arena, (size_t)length + 1);
    if (!text) return NULL;
    va_start(arguments, format);
    length = vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return length < 0 ? NULL : text;
}

void *weft_arena_copy(weft_arena *arena, const void *data, size_t bytes) {
    void *copy = weft_arena_allocate(arena, bytes);
    if (copy && bytes) memcpy(copy, data, bytes);
    return copy;
}

bool weft_array_reserve(weft_allocator allocator, void **items, size_t *capacity, size_t needed, size_t item_bytes) {
    if (needed <= *capacity) return true;
    size_t grown = *capacity < 8 ? 8 : *capacity + *capacity / 2, bytes;
    if (grown < needed) grown = needed;
    if (!weft_size_multiply(grown, item_bytes, &bytes)) return false;
    void *fresh = allocator.resize(allocator.self, *items, *capacity * item_bytes, bytes, _Alignof(max_align_t));
    if (!fresh) return false;
    *items = fresh;
    *capacity = grown;
    return true;
}

void *weft_allocate(weft_allocator allocator, size_t bytes) {
    void *pointer = allocator.resize(allocator.self, NULL, 0, bytes ? bytes : 1, _Alignof(max_align_t));
    return pointer ? memset(pointer, 0, bytes ? bytes : 1) : NULL;
}

void weft_free(weft_allocator allocator, void *pointer, size_t bytes) {
    if (pointer) allocator.resize(allocator.self, pointer, bytes ? bytes : 1, 0, _Alignof(max_align_t));
}

bool weft_size_multiply(size_t a, size_t b, size_t *out_product) { return !__builtin_mul_overflow(a, b, out_product); }

bool weft_size_add(size_t a, size_t b, size_t *out_sum) { return !__builtin_add_overflow(a, b, out_sum); }
