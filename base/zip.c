/* Reading ZIP archives of stored entries from memory. Every number of the file is checked against the file before it is
   used; the central directory is authoritative, local headers must agree with it.
   Source: PKWARE .ZIP File Format Specification 6.3.10 (sections 4.3 and 4.5.3). */
#include <string.h>

#include "base/map.h"
#include "base/zip.h"

enum {
    LOCAL_HEADER = 0x04034b50,
    CENTRAL_HEADER = 0x02014b50,
    END_RECORD = 0x06054b50,
    END_RECORD_64 = 0x06064b50,
    END_LOCATOR_64 = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END_64_BYTES = 56,
    LOCATOR_BYTES = 20
};

#define BAD(...) WEFT_STATUS(WEFT_INVALID_DATA, "ZIP: " __VA_ARGS__)

static uint64_t get(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

typedef struct weft_zip_directory {
    uint64_t count, offset, bytes;
} weft_zip_directory;

static bool inside(uint64_t offset, uint64_t bytes, uint64_t limit) {
    return offset <= limit && bytes <= limit - offset;
}

/* The end record is the last one whose comment ends with the file. */
static weft_status find_directory(const unsigned char *data, size_t bytes, weft_zip_directory *out) {
    size_t at = bytes >= END_BYTES ? bytes - END_BYTES : 0, lowest = at > 65535 ? at - 65535 : 0;
    if (bytes < END_BYTES) return BAD("%zu bytes are too few", bytes);
    while (get(data + at, 4) != END_RECORD || get(data + at + 20, 2) != bytes - at - END_BYTES) {
        if (at == lowest) return BAD("no end record");
        at--;
    }
    const unsigned char *end = data + at;
    if (get(end + 4, 2) != get(end + 6, 2)) return BAD("split over several disks");
    *out = (weft_zip_directory){get(end + 10, 2), get(end + 16, 4), get(end + 12, 4)};
    if (at >= LOCATOR_BYTES && get(end - LOCATOR_BYTES, 4) == END_LOCATOR_64) {
        uint64_t offset = get(end - LOCATOR_BYTES + 8, 8);
        if (!inside(offset, END_64_BYTES, at - LOCATOR_BYTES) || get(data + offset, 4) != END_RECORD_64)
            return BAD("damaged ZIP64 end record");
        *out = (weft_zip_directory){get(data + offset + 32, 8), get(data + offset + 48, 8), get(data + offset + 40, 8)};
    }
    if (!inside(out->offset, out->bytes, at)) return BAD("the directory lies outside the file");
    if (out->count > out->bytes / CENTRAL_BYTES) return BAD("more entries than the directory can hold");
    return NULL;
}

/* Replaces fields that say "see ZIP64" by those of the extra field, in their fixed order. */
static weft_status read_zip64(const unsigned char *extra, size_t bytes, uint64_t *fields[3]) {
    while (bytes >= 4) {
        size_t id = (size_t)get(extra, 2), size = (size_t)get(extra + 2, 2), used = 0;
        if (size > bytes - 4) return BAD("damaged extra field");
        for (int i = 0; i < 3 && id == 1; i++) {
            if (*fields[i] != 0xffffffffu) continue;
            if (size - used < 8) return BAD("short ZIP64 extra field");
            *fields[i] = get(extra + 4 + used, 8);
            used += 8;
        }
        if (id == 1) return NULL;
        extra += 4 + size;
        bytes -= 4 + size;
    }
    return NULL;
}

/* The entry whose central header is at `header`; `limit` = start of the directory. */
static weft_status read_entry(weft_arena *arena, const unsigned char *data, uint64_t limit, const unsigned char *header,
                              weft_zip_entry *out) {
    size_t name_bytes = (size_t)get(header + 28, 2), extra_bytes = (size_t)get(header + 30, 2);
    const unsigned char *name = header + CENTRAL_BYTES;
    uint64_t size = get(header + 24, 4), stored = get(header + 20, 4), offset = get(header + 42, 4);
    if (name_bytes == 0 || memchr(name, 0, name_bytes)) return BAD("damaged entry name");
    WEFT_TRY(read_zip64(name + name_bytes, extra_bytes, (uint64_t *[3]){&size, &stored, &offset}), "entry %.*s",
             (int)name_bytes, (const char *)name);
    if (get(header + 8, 2) & 1) return BAD("entry %.*s is encrypted", (int)name_bytes, (const char *)name);
    if (get(header + 10, 2) != 0 || size != stored)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "ZIP: entry %.*s is compressed; Weft reads stored entries",
                           (int)name_bytes, (const char *)name);
    if (!inside(offset, LOCAL_BYTES, limit) || get(data + offset, 4) != LOCAL_HEADER)
        return BAD("entry %.*s has no local header", (int)name_bytes, (const char *)name);
    uint64_t begin = offset + LOCAL_BYTES + get(data + offset + 26, 2) + get(data + offset + 28, 2);
    if (!inside(begin, size, limit))
        return BAD("entry %.*s lies outside the file", (int)name_bytes, (const char *)name);
    if (get(data + offset + 26, 2) != name_bytes || memcmp(data + offset + LOCAL_BYTES, name, name_bytes))
        return BAD("entry %.*s is named otherwise in its local header", (int)name_bytes, (const char *)name);
    out->name = weft_arena_copy_string(arena, (const char *)name, name_bytes);
    if (!out->name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a ZIP entry");
    out->data = data + begin;
    out->bytes = size;
    out->crc = (uint32_t)get(header + 16, 4);
    return NULL;
}

static weft_status read_entries(weft_arena *arena, const unsigned char *data, const weft_zip_directory *directory,
                                weft_zip_entry *entries, weft_map *names) {
    uint64_t at = directory->offset, left = directory->bytes;
    for (uint64_t i = 0; i < directory->count; i++) {
        const unsigned char *header = data + at;
        if (left < CENTRAL_BYTES || get(header, 4) != CENTRAL_HEADER) return BAD("damaged directory");
        uint64_t whole = CENTRAL_BYTES + get(header + 28, 2) + get(header + 30, 2) + get(header + 32, 2);
        if (whole > left) return BAD("damaged directory");
        WEFT_TRY(read_entry(arena, data, directory->offset, header, &entries[i]), "entry %llu", (unsigned long long)i);
        size_t name_bytes = strlen(entries[i].name);
        if (weft_map_has(names, entries[i].name, name_bytes)) return BAD("two entries named %s", entries[i].name);
        if (!weft_map_put(names, entries[i].name, name_bytes, NULL))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a ZIP directory");
        at += whole;
        left -= whole;
    }
    return NULL;
}

weft_status weft_zip_open(weft_arena *arena, const void *data, size_t bytes, weft_zip *out_zip) {
    *out_zip = (weft_zip){0};
    weft_zip_directory directory = {0};
    WEFT_TRY(find_directory(data, bytes, &directory), "opening an archive");
    weft_zip_entry *entries = weft_arena_allocate_array(arena, (size_t)directory.count, sizeof *entries);
    if (!entries) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a ZIP directory");
    weft_map names;
    weft_map_init(arena->allocator, &names);
    weft_status status = read_entries(arena, data, &directory, entries, &names);
    weft_map_deinit(&names);
    if (!status) *out_zip = (weft_zip){.entries = entries, .count = (size_t)directory.count};
    return status;
}

const weft_zip_entry *weft_zip_find(const weft_zip *zip, const char *name) {
    for (size_t i = 0; i < zip->count; i++)
        if (!strcmp(zip->entries[i].name, name)) return &zip->entries[i];
    return NULL;
}

weft_status weft_zip_check(const weft_zip_entry *entry) {
    if (weft_crc32(0, entry->data, (size_t)entry->bytes) == entry->crc) return NULL;
    return BAD("entry %s is damaged (CRC-32)", entry->name);
}
