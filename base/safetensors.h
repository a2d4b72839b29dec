/* safetensors on bytes in memory: what include/weft/safetensors.h is made of, for readers that map files themselves.
   Layout: u64 little-endian header size, JSON header {name: {dtype, shape, data_offsets}}, data. Read strictly: offsets
   must tile the data exactly, in any order of the header, and sizes must be those of dtype and shape. */
#ifndef WEFT_BASE_SAFETENSORS_H
#define WEFT_BASE_SAFETENSORS_H

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "weft/safetensors.h"

typedef struct weft_safetensors_entry {
    const char *name;
    weft_dtype dtype; /* INVALID: one that Weft lacks; type_name says which */
    const char *type_name;
    int rank;
    int64_t shape[WEFT_MAX_RANK];
    const void *data; /* no alignment is promised */
    size_t bytes;
} weft_safetensors_entry;

typedef struct weft_safetensors_index {
    size_t count;
    const weft_safetensors_entry *entries; /* by name */
    const weft_json *metadata;             /* object of strings; NULL = none */
} weft_safetensors_index;

/* Everything lies in the arena or in data. */
weft_status weft_safetensors_parse(weft_arena *arena, const void *data, size_t bytes,
                                   weft_safetensors_index *out_index) WEFT_MUST_USE;
const weft_safetensors_entry *weft_safetensors_lookup(const weft_safetensors_index *index, const char *name); /* NULL */

/* Name of a dtype in the format; NULL when it has none. */
const char *weft_safetensors_dtype_name(weft_dtype dtype);

#endif
