/* Files: whole-file mapping, and writing that leaves either the old file or the complete new one. Paths are UTF-8. */
#ifndef WEFT_BASE_FILE_H
#define WEFT_BASE_FILE_H

#include <stdio.h>

#include "weft/allocator.h"

typedef struct weft_file {
    const void *data; /* NULL for an empty file */
    size_t bytes;
} weft_file;

/* A status for errno of a failed call: "cannot <action> <path>: <reason>". */
weft_status weft_file_error(const char *action, const char *path, int error) WEFT_MUST_USE;
weft_status weft_file_map(const char *path, weft_file *out_file) WEFT_MUST_USE; /* read-only, private */
void weft_file_unmap(weft_file *file);

/* A temporary file beside path; commit syncs and renames it over path, abandon removes it. */
typedef struct weft_file_writer {
    FILE *file;
    char *path, *temporary;
    weft_allocator allocator;
} weft_file_writer;
weft_status weft_file_writer_open(weft_allocator allocator, const char *path,
                                  weft_file_writer *out_writer) WEFT_MUST_USE;
weft_status weft_file_writer_commit(weft_file_writer *writer) WEFT_MUST_USE; /* abandons on failure */
void weft_file_writer_abandon(weft_file_writer *writer);
weft_status weft_file_write_all(weft_allocator allocator, const char *path, const void *data,
                                size_t bytes) WEFT_MUST_USE;
weft_status weft_folder_create(const char *path) WEFT_MUST_USE; /* with parents */

#endif
