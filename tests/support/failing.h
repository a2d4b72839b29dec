/* An allocator that fails: request number `left` and all after it, as a machine without memory does. What is live is
   counted, so that a test sees what a failure leaked. */
#ifndef WEFT_TESTS_SUPPORT_FAILING_H
#define WEFT_TESTS_SUPPORT_FAILING_H

#include <stdbool.h>

#include "weft/allocator.h"

typedef struct failing {
    long left, live_bytes; /* left: requests that still succeed */
    bool failed;
} failing;

static inline void *failing_resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    failing *state = self;
    if (new_bytes > old_bytes) state->failed |= state->left-- == 0;
    if (new_bytes > old_bytes && state->failed) return NULL;
    weft_allocator system = weft_allocator_system();
    void *result = system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
    if (result || new_bytes == 0) state->live_bytes += (long)new_bytes - (long)old_bytes;
    return result;
}

#endif
