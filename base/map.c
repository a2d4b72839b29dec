/* The hash map: dense entries in insertion order plus an open-addressed table of entry numbers (linear probing, at most
   three quarters full). Keys up to 16 bytes live inside the entry. Invariant: count = live entries; a slot of a removed
   entry keeps pointing at it (a tombstone) until the next rebuild. */
#include <string.h>

#include "base/arena.h"
#include "base/map.h"

enum { INLINE_KEY_BYTES = 16, FIRST_CAPACITY = 16 };

typedef struct weft_map_entry {
    uint64_t hash;
    size_t key_bytes;
    void *value;
    bool live;
    union {
        unsigned char bytes[INLINE_KEY_BYTES];
        unsigned char *pointer;
    } key;
} weft_map_entry;

static const void *entry_key(const weft_map_entry *entry) {
    return entry->key_bytes <= INLINE_KEY_BYTES ? entry->key.bytes : entry->key.pointer;
}

static void entry_clear(weft_map *map, weft_map_entry *entry) {
    if (entry->key_bytes > INLINE_KEY_BYTES) weft_free(map->allocator, entry->key.pointer, entry->key_bytes);
    *entry = (weft_map_entry){.live = false};
}

void weft_map_init(weft_allocator allocator, weft_map *out_map) { *out_map = (weft_map){.allocator = allocator}; }

void weft_map_deinit(weft_map *map) {
    for (size_t i = 0; i < map->entry_count; i++)
        if (map->entries[i].live) entry_clear(map, &map->entries[i]);
    weft_free(map->allocator, map->entries, map->entry_capacity * sizeof *map->entries);
    weft_free(map->allocator, map->slots, map->capacity * sizeof *map->slots);
    weft_map_init(map->allocator, map);
}

static weft_map_entry *lookup(const weft_map *map, const void *key, size_t key_bytes, uint64_t hash) {
    if (!map->capacity) return NULL;
    for (size_t slot = (size_t)hash & (map->capacity - 1); map->slots[slot]; slot = (slot + 1) & (map->capacity - 1)) {
        weft_map_entry *entry = &map->entries[map->slots[slot] - 1];
        if (entry->live && entry->hash == hash && entry->key_bytes == key_bytes &&
            (key_bytes == 0 || !memcmp(entry_key(entry), key, key_bytes)))
            return entry;
    }
    return NULL;
}

void *weft_map_find(const weft_map *map, const void *key, size_t key_bytes) {
    const weft_map_entry *entry = lookup(map, key, key_bytes, weft_hash(key, key_bytes, 0));
    return entry ? entry->value : NULL;
}

bool weft_map_has(const weft_map *map, const void *key, size_t key_bytes) {
    return lookup(map, key, key_bytes, weft_hash(key, key_bytes, 0)) != NULL;
}

static void slot_put(uint32_t *slots, size_t capacity, uint64_t hash, size_t entry) {
    size_t slot = (size_t)hash & (capacity - 1);
    while (slots[slot]) slot = (slot + 1) & (capacity - 1);
    slots[slot] = (uint32_t)(entry + 1);
}

/* Drops removed entries and makes the table large enough for one more. */
static bool rebuild(weft_map *map) {
    size_t capacity = FIRST_CAPACITY;
    while (capacity / 2 < map->count + 1) {
        if (capacity > UINT32_MAX / 2) return false;
        capacity *= 2;
    }
    uint32_t *slots = weft_allocate(map->allocator, capacity * sizeof *slots);
    if (!slots) return false;
    size_t count = 0;
    for (size_t i = 0; i < map->entry_count; i++) {
        if (!map->entries[i].live) continue;
        map->entries[count] = map->entries[i];
        slot_put(slots, capacity, map->entries[count].hash, count);
        count++;
    }
    map->entry_count = count;
    weft_free(map->allocator, map->slots, map->capacity * sizeof *map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return true;
}

bool weft_map_put(weft_map *map, const void *key, size_t key_bytes, void *value) {
    uint64_t hash = weft_hash(key, key_bytes, 0);
    weft_map_entry *entry = lookup(map, key, key_bytes, hash);
    if (entry) {
        entry->value = value;
        return true;
    }
    if (map->entry_count + 1 > map->capacity / 4 * 3 && !rebuild(map)) return false;
    if (!WEFT_ARRAY_RESERVE(map->allocator, map->entries, map->entry_capacity, map->entry_count + 1)) return false;
    weft_map_entry fresh = {.hash = hash, .key_bytes = key_bytes, .value = value, .live = true};
    if (key_bytes > INLINE_KEY_BYTES) {
        fresh.key.pointer = weft_allocate(map->allocator, key_bytes);
        if (!fresh.key.pointer) return false;
        memcpy(fresh.key.pointer, key, key_bytes);
    } else if (key_bytes) {
        memcpy(fresh.key.bytes, key, key_bytes);
    }
    map->entries[map->entry_count] = fresh;
    slot_put(map->slots, map->capacity, hash, map->entry_count);
    map->entry_count++;
    map->count++;
    return true;
}

void weft_map_remove(weft_map *map, const void *key, size_t key_bytes) {
    weft_map_entry *entry = lookup(map, key, key_bytes, weft_hash(key, key_bytes, 0));
    if (!entry) return;
    entry_clear(map, entry);
    map->count--;
}

bool weft_map_next(const weft_map *map, size_t *cursor, const void **out_key, size_t *out_key_bytes, void **out_value) {
    while (*cursor < map->entry_count) {
        const weft_map_entry *entry = &map->entries[(*cursor)++];
        if (!entry->live) continue;
        if (out_key) *out_key = entry_key(entry);
        if (out_key_bytes) *out_key_bytes = entry->key_bytes;
        if (out_value) *out_value = entry->value;
        return true;
    }
    return false;
}

static uint64_t mix(uint64_t h) {
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 29)) * 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}

uint64_t weft_hash(const void *data, size_t bytes, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = mix(seed ^ ((uint64_t)bytes * 0xa0761d6478bd642fu));
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0; /* little endian by arithmetic, the same on every machine */
        size_t n = bytes - i < 8 ? bytes - i : 8;
        for (size_t k = 0; k < n; k++) word |= (uint64_t)p[i + k] << (8 * k);
        h = ((h << 23) | (h >> 41)) ^ mix(word + 0x8ebc6af09c88c6e3u);
        h *= 0x589965cc75374cc3u;
    }
    return mix(h);
}
