/* Inside of the CPU driver: code images and CPU detection. */
#ifndef WEFT_RUNTIME_DRIVERS_CPU_CPU_H
#define WEFT_RUNTIME_DRIVERS_CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

/* detect.c: the x86-64 level of this machine (4, 3, 2, 1) with the operating system's support; 0 elsewhere. */
int weft_cpu_level(void);
/* "x86-64-v4" -> 4; 0 when unknown. */
int weft_cpu_level_of(const char *arch);
const char *weft_cpu_level_name(int level);
/* Brand string, at most capacity - 1 characters. */
void weft_cpu_brand(char *out_name, size_t capacity);

/* image.c: a freestanding ELF image mapped read-only and executable. */
typedef struct weft_cpu_image {
    unsigned char *memory;
    size_t memory_bytes;
    const unsigned char *file; /* borrowed while symbols are looked up */
    const void *symbols;       /* copy of the symbol table, aligned */
    size_t symbol_count;
    const char *names;
    size_t names_bytes;
} weft_cpu_image;

weft_status weft_cpu_image_map(const void *data, size_t bytes, weft_cpu_image *out_image) WEFT_MUST_USE;
void weft_cpu_image_unmap(weft_cpu_image *image);
/* The address of a global function; NOT_FOUND. Only while the bytes given to map exist. */
weft_status weft_cpu_image_find(const weft_cpu_image *image, const char *name, void **out_address) WEFT_MUST_USE;

#endif
