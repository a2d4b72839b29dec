/* Instructions that were written before are not written again: constants of a module, and within a function integer
   arithmetic, comparisons, selections and bits whose first result is still visible, that is, whose block dominates. A
   scope is opened with each nest and forgotten with it. Nothing else is optimised here: devices do that. See print.h.
 */
#include <string.h>

#include "codegen/spirv/print.h"

static uint64_t hash_of(const char *text, size_t length) { /* FNV-1a */
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return hash;
}

void weft_spirv_reuse_init(weft_spirv_reuse *r, weft_allocator allocator) {
    *r = (weft_spirv_reuse){.allocator = allocator};
    weft_text_init(allocator, &r->keys);
    memset(r->heads, -1, sizeof r->heads);
}

void weft_spirv_reuse_deinit(weft_spirv_reuse *r) {
    weft_free(r->allocator, r->entries, r->capacity * sizeof *r->entries);
    weft_text_deinit(&r->keys);
}

static bool grow(weft_spirv_reuse *r) {
    size_t capacity = r->capacity ? 2 * r->capacity : 256;
    weft_spirv_known *entries = weft_allocate(r->allocator, capacity * sizeof *entries);
    if (!entries) return false;
    if (r->count) memcpy(entries, r->entries, r->count * sizeof *entries);
    weft_free(r->allocator, r->entries, r->capacity * sizeof *r->entries);
    r->entries = entries;
    r->capacity = capacity;
    return true;
}

weft_spirv_id weft_spirv_reuse_find(weft_spirv_reuse *r, const char *key, size_t length, weft_spirv_id id) {
    uint64_t hash = hash_of(key, length);
    int32_t *head = &r->heads[hash % WEFT_SPIRV_HEADS];
    for (int32_t at = *head; at >= 0; at = r->entries[at].next) {
        const weft_spirv_known *known = &r->entries[at];
        if (known->hash == hash && known->length == length &&
            memcmp(weft_text_string(&r->keys) + known->start, key, length) == 0)
            return known->id;
    }
    /* without memory it is only not found later */
    if (r->count == INT32_MAX || (r->count == r->capacity && !grow(r))) return id;
    size_t start = r->keys.length;
    weft_text_append_bytes(&r->keys, key, length);
    if (r->keys.failed) return id;
    r->entries[r->count] = (weft_spirv_known){hash, start, length, *head, id};
    *head = (int32_t)r->count++;
    return id;
}

size_t weft_spirv_reuse_mark(const weft_spirv_reuse *r) { return r->count; }

void weft_spirv_reuse_forget(weft_spirv_reuse *r, size_t mark) {
    while (r->count > mark) {
        const weft_spirv_known *known = &r->entries[--r->count];
        r->heads[known->hash % WEFT_SPIRV_HEADS] = known->next;
        r->keys.length = known->start;
    }
}
