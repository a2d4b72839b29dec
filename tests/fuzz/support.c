/* What the targets share (targets.h): a context whose allocator refuses what no input justifies, and files in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/targets.h"
#include "weft/context.h"

/* More than any reader needs for inputs of a fuzzer: a size that a file merely claims. */
enum { LARGEST_REQUEST = 1 << 28 };

static void *resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    (void)self;
    weft_allocator system = weft_allocator_system();
    return new_bytes > LARGEST_REQUEST ? NULL : system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
}

weft_context *fuzz_context(void) {
    static weft_context *context;
    if (context) return context;
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.allocator.resize = resize;
    options.cache_folder = "";
    options.thread_count = 1;
    if (weft_context_create(&options, &context)) abort();
    return context;
}

int fuzz_file(const uint8_t *data, size_t bytes, char *path, size_t capacity) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0) abort();
    for (size_t at = 0; at < bytes;) {
        ssize_t written = write(fd, data + at, bytes - at);
        if (written <= 0) abort();
        at += (size_t)written;
    }
    snprintf(path, capacity, "/proc/self/fd/%d", fd);
    return fd;
}
