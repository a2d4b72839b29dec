/* Where Weft takes host memory from. Passed by value.

   resize(self, NULL, 0, n, align) allocates, resize(self, p, old, 0, align) frees, everything else grows or shrinks and
   keeps the common prefix. Sizes in bytes; align is a power of two. Returns NULL when there is no memory (never for a
   size of 0). Threading: resize must be thread-safe. */
#ifndef WEFT_ALLOCATOR_H
#define WEFT_ALLOCATOR_H

#include <stddef.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_allocator {
    void *self;
    void *(*resize)(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes);
} weft_allocator;

/* The allocator on malloc and posix_memalign. */
WEFT_API weft_allocator weft_allocator_system(void);

#ifdef __cplusplus
}
#endif
#endif
