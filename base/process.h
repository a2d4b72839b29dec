/* A program run for its output: arguments and input in, output out, with a limit of time. For tools that are no library
   (ld.lld). Input and output are memory files, so that neither side can block the other. Thread-safe. */
#ifndef WEFT_BASE_PROCESS_H
#define WEFT_BASE_PROCESS_H

#include <stdint.h>

#include "base/arena.h"
#include "weft/status.h"

typedef struct weft_process {
    const char *const *arguments; /* NULL-terminated; [0] is the program, looked up in PATH unless it has a slash */
    const void *input;            /* its standard input */
    size_t input_bytes;
    int64_t limit_ns; /* then it is killed: status UNAVAILABLE; so is one that writes more than 256 MiB */
} weft_process;

/* NOT_FOUND: there is no such program. INTERNAL, with the end of what it wrote to standard error: it ended with another
   code than 0. out_output: its standard output, from the allocator. */
weft_status weft_process_run(weft_allocator allocator, const weft_process *process, void **out_output,
                             size_t *out_bytes) WEFT_MUST_USE;

#endif
