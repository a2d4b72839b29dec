/* The memory that an emulated device may touch: ranges of the host's, sorted, not overlapping; the last one found is
   tried first. */
#ifndef WEFT_TESTS_SUPPORT_RANGES_H
#define WEFT_TESTS_SUPPORT_RANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weft/status.h"

typedef struct memory_range {
    uint64_t first, end;
    bool writable;
} memory_range;

typedef struct memory_ranges {
    memory_range *list;
    int count, capacity, last;
} memory_ranges;

static inline weft_status ranges_add(memory_ranges *r, const void *memory, size_t bytes, bool writable) {
    uint64_t first = (uint64_t)(uintptr_t)memory, end = first + bytes;
    int at = 0;
    while (at < r->count && r->list[at].first < first) at++;
    if ((at > 0 && r->list[at - 1].end > first) || (at < r->count && r->list[at].first < end))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%zu bytes at %p are mapped already", bytes, memory);
    if (r->count == r->capacity) {
        int capacity = r->capacity * 2 + 16;
        memory_range *grown = realloc(r->list, (size_t)capacity * sizeof *grown);
        if (!grown) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a range");
        r->list = grown, r->capacity = capacity;
    }
    memmove(&r->list[at + 1], &r->list[at], (size_t)(r->count - at) * sizeof *r->list);
    r->list[at] = (memory_range){first, end, writable};
    r->count++;
    r->last = 0;
    return NULL;
}

static inline void ranges_remove(memory_ranges *r, const void *memory) {
    uint64_t first = (uint64_t)(uintptr_t)memory;
    int at = 0;
    while (at < r->count && r->list[at].first != first) at++;
    if (at == r->count) return;
    r->count--;
    memmove(&r->list[at], &r->list[at + 1], (size_t)(r->count - at) * sizeof *r->list);
    r->last = 0;
}

/* The range that holds all of the bytes; NULL: none. */
static inline const memory_range *ranges_find(memory_ranges *r, uint64_t address, uint64_t bytes) {
    const memory_range *range = r->count ? &r->list[r->last] : NULL;
    if (!range || address < range->first || address >= range->end) {
        int low = 0, high = r->count; /* the last that starts at or below the address */
        while (low < high) {
            int middle = (low + high) / 2;
            if (r->list[middle].first <= address)
                low = middle + 1;
            else
                high = middle;
        }
        if (!low) return NULL;
        r->last = low - 1;
        range = &r->list[low - 1];
    }
    return address <= range->end && bytes <= range->end - address ? range : NULL;
}

#endif
