/* Hash map from bytes (strings, hashes, struct keys without padding) to pointers. Keys are copied. Thread-compatible.
 */
#ifndef WEFT_BASE_MAP_H
#define WEFT_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/allocator.h"

typedef struct weft_map {
    weft_allocator allocator;
    struct weft_map_entry *entries; /* in insertion order; removed ones stay until the table grows */
    size_t entry_count, entry_capacity;
    uint32_t *slots; /* hash table of entry numbers + 1 */
    size_t count, capacity;
} weft_map;

void weft_map_init(weft_allocator allocator, weft_map *out_map);
void weft_map_deinit(weft_map *map);
/* NULL when absent. */
void *weft_map_find(const weft_map *map, const void *key, size_t key_bytes);
bool weft_map_has(const weft_map *map, const void *key, size_t key_bytes);
/* Adds or replaces; false when there is no memory. */
bool weft_map_put(weft_map *map, const void *key, size_t key_bytes, void *value);
void weft_map_remove(weft_map *map, const void *key, size_t key_bytes);
/* Visits in order of first insertion, so that results do not depend on addresses; start with *cursor = 0. Removing
   visited entries meanwhile is fine; keys stay valid until the map changes. */
bool weft_map_next(const weft_map *map, size_t *cursor, const void **out_key, size_t *out_key_bytes, void **out_value);

/* 64-bit hash (stable across runs and machines: it names cache files). */
uint64_t weft_hash(const void *data, size_t bytes, uint64_t seed);

#endif
