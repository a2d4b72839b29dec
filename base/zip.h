/* ZIP64 archives of stored entries: reading a mapped file, and writing one with aligned entries. Every offset and size
   of a hostile file is checked; CRC-32 is verified on request. */
#ifndef WEFT_BASE_ZIP_H
#define WEFT_BASE_ZIP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

typedef struct weft_zip_entry {
    const char *name;
    const void *data; /* inside the mapped file */
    uint64_t bytes;
    uint32_t crc;
} weft_zip_entry;

typedef struct weft_zip {
    const weft_zip_entry *entries;
    size_t count;
} weft_zip;

weft_status weft_zip_open(weft_arena *arena, const void *data, size_t bytes, weft_zip *out_zip) WEFT_MUST_USE;
const weft_zip_entry *weft_zip_find(const weft_zip *zip, const char *name); /* NULL */
weft_status weft_zip_check(const weft_zip_entry *entry) WEFT_MUST_USE;      /* CRC */

typedef struct weft_zip_writer weft_zip_writer;
weft_status weft_zip_writer_create(weft_allocator allocator, FILE *file, weft_zip_writer **out_writer) WEFT_MUST_USE;
weft_status weft_zip_writer_add(weft_zip_writer *writer, const char *name, const void *data, uint64_t bytes,
                                uint32_t align_bytes) WEFT_MUST_USE;
weft_status weft_zip_writer_finish(weft_zip_writer *writer) WEFT_MUST_USE;
void weft_zip_writer_release(weft_zip_writer *writer);
uint32_t weft_crc32(uint32_t crc, const void *data, size_t bytes);

#endif
