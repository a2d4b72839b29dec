/* Replays the corpus: seeds, and every input that once went wrong. */
#ifndef FUZZ_TARGET
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/fuzz/targets.h"

typedef struct target {
    const char *name;
    void (*run)(const uint8_t *data, size_t bytes);
} target;

static const target targets[] = {
#define X(name) {#name, fuzz_##name},
    FUZZ_TARGETS(X)
#undef X
};

START_TEST(test_replay) {
    const target *t = &targets[_i];
    char folder[512], path[1024];
    int count = 0;
    snprintf(folder, sizeof folder, WEFT_SOURCE_DIR "/tests/fuzz/corpus/%s", t->name);
    DIR *stream = opendir(folder);
    ck_assert_ptr_nonnull(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.') continue;
        weft_file file;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ck_assert_ptr_null(weft_file_map(path, &file));
        /* a heap block of its own: a read past the end is seen */
        unsigned char *copy = malloc(file.bytes ? file.bytes : 1);
        if (file.bytes) memcpy(copy, file.data, file.bytes);
        printf("%s\n", path); /* the last line names the input of a crash */
        fflush(stdout);
        t->run(copy, file.bytes);
        for (size_t part = 0; part < 16; part++) t->run(copy, file.bytes * part / 16);
        free(copy);
        weft_file_unmap(&file);
        count++;
    }
    closedir(stream);
    ck_assert_int_gt(count, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fuzz");
    TCase *tests = tcase_create("corpus");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_replay, 0, (int)(sizeof targets / sizeof *targets));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
#endif
