/* Modules of an image (codegen/spirv/target.c) through spirv-val, in a process of its own. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/vulkan/testing.h"

enum { HEAD_WORDS = 2, ENTRY_WORDS = 2, SPIRV_HEADER = 5, MULTIPLY = 4459 /* OpCooperativeMatrixMulAddKHR */ };

static bool multiplies(const uint32_t *words, size_t count) {
    for (size_t at = SPIRV_HEADER; at < count; at += words[at] >> 16) {
        ck_assert_uint_gt(words[at] >> 16, 0);
        ck_assert_uint_ne(words[at] & 0xffff, 0); /* no OpNop is left */
        if ((words[at] & 0xffff) == MULTIPLY) return true;
    }
    return false;
}

/* What the validator says of a file; its exit status. */
static int validate(const char *path, char *said, size_t size) {
    char command[4096];
    snprintf(command, sizeof command, "%s --target-env vulkan1.2 %s 2>&1", SPIRV_VAL, path);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t length = fread(said, 1, size - 1, pipe);
    said[length] = 0;
    return pclose(pipe);
}

bool modules_check(const weft_unit *unit) {
    const uint32_t *image = unit->image;
    bool multiply = false, known = access(SPIRV_VAL, X_OK) == 0;
    for (uint32_t i = 0; i < image[1]; i++) {
        const uint32_t *words = image + image[HEAD_WORDS + i * ENTRY_WORDS];
        size_t count = image[HEAD_WORDS + i * ENTRY_WORDS + 1];
        char path[] = "/tmp/weft-module-XXXXXX", said[2048];
        multiply |= multiplies(words, count);
        if (!known) continue;
        int file = mkstemp(path);
        ck_assert_int_ge(file, 0);
        ck_assert_int_eq(write(file, words, count * sizeof *words), (ssize_t)(count * sizeof *words));
        close(file);
        int code = validate(path, said, sizeof said);
        unlink(path);
        if (strstr(said, "Invalid capability operand: 6022") || strstr(said, "Invalid capability operand: 5116"))
            known = false; /* an older one */
        ck_assert_msg(code == 0 || !known, "module %u: %s", i, said);
    }
    ck_assert_msg(multiply, "no cooperative matrices are multiplied");
    return known;
}
