/* See testing.h. */
#include "tests/train/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void test_path(char *out_path, size_t capacity, const char *name) {
    const char *folder = getenv("TMPDIR");
    snprintf(out_path, capacity, "%s/weft-train-%ld-%s", folder ? folder : "/tmp", (long)getpid(), name);
}
