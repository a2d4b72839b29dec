/* Folders for files that tests of training write. */
#ifndef WEFT_TESTS_TRAIN_TESTING_H
#define WEFT_TESTS_TRAIN_TESTING_H

#include <stddef.h>

/* A path of this process in TMPDIR. */
void test_path(char *out_path, size_t capacity, const char *name);

#endif
