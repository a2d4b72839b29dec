/* The system allocator: realloc for ordinary alignment, posix_memalign and a copy above it. */
#include <stdlib.h>
#include <string.h>

#include "weft/allocator.h"

static void *system_resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    (void)self;
    if (new_bytes == 0) {
        free(pointer);
        return NULL;
    }
    if (align_bytes <= _Alignof(max_align_t)) return realloc(pointer, new_bytes);
    void *fresh = NULL;
    if (posix_memalign(&fresh, align_bytes, new_bytes)) return NULL;
    if (pointer) {
        memcpy(fresh, pointer, old_bytes < new_bytes ? old_bytes : new_bytes);
        free(pointer);
    }
    return fresh;
}

weft_allocator weft_allocator_system(void) { return (weft_allocator){.self = NULL, .resize = system_resize}; }
