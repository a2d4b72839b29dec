/* Writing ZIP64 archives of stored entries. An entry's data is aligned by padding in its local extra field (the field
   0xd935 that Android's zipalign uses too), or by zeros in front of the local header where the field cannot have that
   size. Archives of the same entries are equal bytes: the time stamp is constant.
   Source: PKWARE .ZIP File Format Specification 6.3.10. */
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "base/file.h"
#include "base/zip.h"

enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, ZIP64_EXTRA_BYTES = 20, PADDING_HEADER_BYTES = 4, DOS_DATE_1980 = 33 };

static const uint32_t NARROW_LIMIT = 0xffffffffu; /* sizes and offsets from here on need ZIP64 */

typedef struct weft_zip_record {
    char *name;
    uint64_t bytes, offset; /* offset of the local header */
    uint32_t crc;
} weft_zip_record;

struct weft_zip_writer {
    weft_allocator allocator;
    weft_arena arena;
    FILE *file;
    uint64_t at;
    weft_zip_record *records;
    size_t count, capacity;
};

weft_status weft_zip_writer_create(weft_allocator allocator, FILE *file, weft_zip_writer **out_writer) {
    *out_writer = NULL;
    off_t at = ftello(file);
    if (at < 0) return WEFT_STATUS(WEFT_IO, "ZIP: the file has no position");
    weft_zip_writer *writer = weft_allocate(allocator, sizeof *writer);
    if (!writer) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a ZIP writer");
    writer->allocator = allocator;
    weft_arena_init(allocator, &writer->arena);
    writer->file = file;
    writer->at = (uint64_t)at;
    *out_writer = writer;
    return NULL;
}

void weft_zip_writer_release(weft_zip_writer *writer) {
    if (!writer) return;
    weft_free(writer->allocator, writer->records, writer->capacity * sizeof *writer->records);
    weft_arena_deinit(&writer->arena);
    weft_free(writer->allocator, writer, sizeof *writer);
}

static unsigned char *put(unsigned char *p, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (unsigned char)(value >> (8 * i));
    return p + bytes;
}

static uint64_t narrow(uint64_t value) { return value < NARROW_LIMIT ? value : NARROW_LIMIT; }

static weft_status write_bytes(weft_zip_writer *writer, const void *data, uint64_t bytes) {
    if (bytes > SIZE_MAX || (bytes && fwrite(data, 1, (size_t)bytes, writer->file) != bytes))
        return weft_file_error("write", "an archive", errno);
    writer->at += bytes;
    return NULL;
}

static weft_status write_zeros(weft_zip_writer *writer, uint64_t bytes) {
    static const unsigned char zeros[1024];
    while (bytes) {
        uint64_t piece = bytes < sizeof zeros ? bytes : sizeof zeros;
        WEFT_TRY(write_bytes(writer, zeros, piece), "padding");
        bytes -= piece;
    }
    return NULL;
}

/* version needed .. crc, as in local and central headers */
static unsigned char *put_common(unsigned char *p, const weft_zip_record *record) {
    p = put(p, 45, 2);      /* version 4.5: ZIP64 */
    p = put(p, 1 << 11, 2); /* names are UTF-8 */
    p = put(p, 0, 2);       /* stored */
    p = put(p, 0, 2);
    p = put(p, DOS_DATE_1980, 2);
    return put(p, record->crc, 4);
}

static weft_status write_local(weft_zip_writer *writer, weft_zip_record *record, uint32_t align_bytes) {
    size_t name_bytes = strlen(record->name);
    bool wide = record->bytes >= NARROW_LIMIT;
    uint64_t fixed = LOCAL_BYTES + name_bytes + (wide ? ZIP64_EXTRA_BYTES : 0);
    uint64_t padding = align_bytes ? (align_bytes - (writer->at + fixed) % align_bytes) % align_bytes : 0;
    if (padding && (padding < PADDING_HEADER_BYTES || padding + ZIP64_EXTRA_BYTES > 65535)) {
        WEFT_TRY(write_zeros(writer, padding), "entry %s", record->name);
        padding = 0;
    }
    record->offset = writer->at;
    unsigned char header[LOCAL_BYTES], extra[ZIP64_EXTRA_BYTES], *p = put(header, 0x04034b50, 4);
    p = put_common(p, record);
    p = put(p, narrow(record->bytes), 4);
    p = put(p, narrow(record->bytes), 4);
    p = put(p, name_bytes, 2);
    (void)put(p, padding + (wide ? ZIP64_EXTRA_BYTES : 0), 2);
    WEFT_TRY(write_bytes(writer, header, sizeof header), "entry %s", record->name);
    WEFT_TRY(write_bytes(writer, record->name, name_bytes), "entry %s", record->name);
    if (wide) {
        p = put(put(extra, 1, 2), 16, 2);
        (void)put(put(p, record->bytes, 8), record->bytes, 8);
        WEFT_TRY(write_bytes(writer, extra, sizeof extra), "entry %s", record->name);
    }
    if (padding) {
        (void)put(put(extra, 0xd935, 2), padding - PADDING_HEADER_BYTES, 2);
        WEFT_TRY(write_bytes(writer, extra, PADDING_HEADER_BYTES), "entry %s", record->name);
        WEFT_TRY(write_zeros(writer, padding - PADDING_HEADER_BYTES), "entry %s", record->name);
    }
    return NULL;
}

weft_status weft_zip_writer_add(weft_zip_writer *writer, const char *name, const void *data, uint64_t bytes,
                                uint32_t align_bytes) {
    size_t name_bytes = strlen(name);
    if (name_bytes == 0 || name_bytes > 65535)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "ZIP: name of %zu bytes", name_bytes);
    if (bytes > SIZE_MAX || align_bytes > 65536)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "ZIP: entry %s: size or alignment too large", name);
    weft_zip_record record = {.bytes = bytes, .crc = weft_crc32(0, data, (size_t)bytes)};
    record.name = weft_arena_copy_string(&writer->arena, name, name_bytes);
    if (!record.name || !WEFT_ARRAY_RESERVE(writer->allocator, writer->records, writer->capacity, writer->count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for ZIP entry %s", name);
    WEFT_TRY(write_local(writer, &record, align_bytes), "ZIP entry %s", name);
    WEFT_TRY(write_bytes(writer, data, bytes), "ZIP entry %s", name);
    writer->records[writer->count++] = record;
    return NULL;
}

static weft_status write_central(weft_zip_writer *writer, const weft_zip_record *record) {
    size_t name_bytes = strlen(record->name);
    bool wide_size = record->bytes >= NARROW_LIMIT, wide_offset = record->offset >= NARROW_LIMIT;
    unsigned char header[CENTRAL_BYTES], extra[28], *e = extra, *p = put(header, 0x02014b50, 4);
    if (wide_size || wide_offset) {
        e = put(put(e, 1, 2), (wide_size ? 16u : 0u) + (wide_offset ? 8u : 0u), 2);
        if (wide_size) e = put(put(e, record->bytes, 8), record->bytes, 8);
        if (wide_offset) e = put(e, record->offset, 8);
    }
    p = put(p, 45, 2);
    p = put_common(p, record);
    p = put(p, narrow(record->bytes), 4);
    p = put(p, narrow(record->bytes), 4);
    p = put(p, name_bytes, 2);
    p = put(p, (uint64_t)(e - extra), 2);
    p = put(p, 0, 8); /* comment length, disk, internal attributes, half of the external ones */
    p = put(p, 0, 2);
    (void)put(p, narrow(record->offset), 4);
    WEFT_TRY(write_bytes(writer, header, sizeof header), "directory");
    WEFT_TRY(write_bytes(writer, record->name, name_bytes), "directory");
    return write_bytes(writer, extra, (uint64_t)(e - extra));
}

weft_status weft_zip_writer_finish(weft_zip_writer *writer) {
    uint64_t start = writer->at;
    for (size_t i = 0; i < writer->count; i++)
        WEFT_TRY(write_central(writer, &writer->records[i]), "entry %s", writer->records[i].name);
    uint64_t bytes = writer->at - start, end64 = writer->at, count = writer->count;
    unsigned char end[56 + 20 + 22], *p = put(end, 0x06064b50, 4);
    p = put(p, 44, 8);
    p = put(put(p, 45, 2), 45, 2);
    p = put(p, 0, 8); /* disks */
    p = put(put(p, count, 8), count, 8);
    p = put(put(p, bytes, 8), start, 8);
    p = put(put(p, 0x07064b50, 4), 0, 4);
    p = put(put(p, end64, 8), 1, 4);
    p = put(put(p, 0x06054b50, 4), 0, 4);
    uint64_t short_count = count < 65535 ? count : 65535;
    p = put(put(p, short_count, 2), short_count, 2);
    p = put(put(p, narrow(bytes), 4), narrow(start), 4);
    (void)put(p, 0, 2);
    WEFT_TRY(write_bytes(writer, end, sizeof end), "end record");
    return fflush(writer->file) ? weft_file_error("write", "an archive", errno) : NULL;
}
