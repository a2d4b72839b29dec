/* See need.h. */
#include "base/need.h"

#include <string.h>

/* Above any descriptor that there will be: what lies behind is not the caller's to read. */
enum { DESCRIPTOR_BYTES_MAX = 4096 };

weft_status weft_options_read(void *own, size_t own_bytes, const void *options, const char *init) {
    size_t bytes;
    if (!options) return NULL;
    memcpy(&bytes, options, sizeof bytes); /* struct_bytes is the first field of all of them */
    if (bytes < sizeof bytes || bytes % sizeof bytes != 0 || bytes > DESCRIPTOR_BYTES_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "struct_bytes is %zu: descriptors start as %s", bytes, init);
    memcpy(own, options, bytes < own_bytes ? bytes : own_bytes);
    memcpy(own, &own_bytes, sizeof own_bytes);
    return NULL;
}
