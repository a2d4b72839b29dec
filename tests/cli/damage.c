/* Files cut short or changed in one byte, at every door of the command: it ends by itself, with the result or with a
   message; and what the system refuses: a full disk, a cache that cannot be written, a data file that is not there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/cli/cli.h"

enum { CUTS = 12, FLIPS = 40 };

typedef struct door {
    const char *source; /* in the folder */
    const char *damaged, *command;
} door;

static const door doors[] = {
    {"good.wir", "damaged.wir", "run damaged.wir"},
    {"model.onnx", "damaged.onnx", "run damaged.onnx"},
    {"good.weft", "damaged.weft", "run damaged.weft"},
    {"x.npy", "damaged.npy", "run good.wir --input x=damaged.npy"},
};
enum { DOORS = sizeof doors / sizeof *doors };

static void copy(const char *from, const char *to) {
    weft_file file;
    char path[600];
    ck_assert_ptr_null(weft_file_map(from, &file));
    snprintf(path, sizeof path, "%s/%s", cli_folder, to);
    ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), path, file.data, file.bytes));
    weft_file_unmap(&file);
}

static void check(const door *d, const char *what, size_t at) {
    char err[8192];
    int code = cli_execute(d->command, err, sizeof err);
    ck_assert_msg(code == 0 || code == 1, "%s, %s %zu: exit code %d", d->damaged, what, at, code);
    ck_assert_msg(code == 0 || strstr(err, "weft: ") == err, "%s, %s %zu: no message: %s", d->damaged, what, at, err);
    ck_assert_msg(!strstr(err, "internal error"), "%s, %s %zu: %s", d->damaged, what, at, err);
}

START_TEST(test_damage) {
    const door *d = &doors[_i];
    char path[600];
    weft_file file;
    cli_accept("compile good.wir -o good.weft");
    copy(WEFT_SOURCE_DIR "/tests/onnx/models/mlp.onnx", "model.onnx");
    snprintf(path, sizeof path, "%s/%s", cli_folder, d->source);
    ck_assert_ptr_null(weft_file_map(path, &file));
    unsigned char *bytes = malloc(file.bytes);
    ck_assert_ptr_nonnull(bytes);
    snprintf(path, sizeof path, "%s/%s", cli_folder, d->damaged);
    for (size_t i = 0; i < CUTS; i++) { /* short ones too: 0, 1, 2 bytes */
        size_t length = i < 3 ? i : file.bytes * i / CUTS;
        ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), path, file.data, length));
        check(d, "cut at", length);
    }
    for (size_t i = 0; i < FLIPS; i++) { /* denser at the start, where headers are */
        size_t at = i < FLIPS / 2 ? i * 5 % file.bytes : file.bytes * i / FLIPS;
        memcpy(bytes, file.data, file.bytes);
        bytes[at] ^= (unsigned char)(1u << i % 8 | (i % 3 ? 0u : 0x80u));
        ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), path, bytes, file.bytes));
        check(d, "changed at", at);
    }
    free(bytes);
    weft_file_unmap(&file);
}
END_TEST

START_TEST(test_missing_data) {
    copy(WEFT_SOURCE_DIR "/tests/onnx/models/external.onnx", "external.onnx");
    static const char *const commands[] = {"run", "compile", "inspect"};
    char line[64];
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "%s external.onnx", commands[i]);
        cli_refuse(1, line, "external");
    }
}
END_TEST

/* What was there stays, nothing half-written is left. */
START_TEST(test_full_disk) {
    char disk[600], err[8192];
    snprintf(disk, sizeof disk, "%s/disk", cli_folder);
    ck_assert_int_eq(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=4k")) {
        printf("full disk: not tested, mounting a tmpfs failed: %s\n", strerror(errno));
        return;
    }
    static const char filler[4096] = {1};
    char full[700];
    snprintf(full, sizeof full, "%s/full", disk);
    ck_assert_ptr_null(weft_file_write_all(weft_allocator_system(), full, filler, sizeof filler));
    static const char *const lines[] = {"compile good.wir -o disk/m.weft", "inspect good.wir --html disk/page.html",
                                        "run good.wir --output y=disk/y.npy"};
    int codes[3];
    for (int i = 0; i < 3; i++) codes[i] = cli_execute(lines[i], err, sizeof err);
    struct stat info;
    int left = 0;
    static const char *const names[] = {"m.weft", "page.html", "y.npy"};
    for (int i = 0; i < 3; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/%s", disk, names[i]);
        left += stat(path, &info) == 0;
    }
    ck_assert_int_eq(umount(disk), 0);
    for (int i = 0; i < 3; i++) ck_assert_msg(codes[i] == 1, "%s: exit code %d", lines[i], codes[i]);
    ck_assert_int_eq(left, 0);
}
END_TEST

/* Results that the system did not take are no success. */
START_TEST(test_lost_output) {
    static const char *const lines[] = {"run good.wir", "inspect good.wir --wir", "inspect good.wir --json", "doctor"};
    char line[900];
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line,
                 "cd '%s' && WEFT_CACHE= '%s' %s > /dev/full 2> lost && exit 9 || grep -q 'could not be written' lost",
                 cli_folder, WEFT_COMMAND, lines[i]);
        int status = system(line);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %d", lines[i], status);
    }
}
END_TEST

/* A cache is a help: without one the command works. */
START_TEST(test_no_cache) {
    char err[8192];
    ck_assert_int_eq(setenv("WEFT_TEST_CACHE", "/proc/no/cache", 1), 0);
    ck_assert_msg(cli_execute("run good.wir", err, sizeof err) == 0, "%s", err);
    ck_assert_int_eq(unsetenv("WEFT_TEST_CACHE"), 0);
}
END_TEST

START_TEST(test_threads) {
    static const char *const wrong[] = {"-1", "two", "1025", "99999999999999999999", "2x"};
    char err[8192];
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(setenv("WEFT_THREADS", wrong[i], 1), 0);
        ck_assert_int_eq(cli_execute("run good.wir", err, sizeof err), 1);
        ck_assert_msg(strstr(err, "WEFT_THREADS") != NULL, "%s: %s", wrong[i], err);
    }
    ck_assert_int_eq(setenv("WEFT_THREADS", "2", 1), 0);
    cli_accept("run good.wir");
    ck_assert_int_eq(unsetenv("WEFT_THREADS"), 0);
}
END_TEST

START_TEST(test_dumps) {
    char err[8192];
    ck_assert_int_eq(setenv("WEFT_DUMP", "fuse,fuze", 1), 0);
    ck_assert_int_eq(cli_execute("run good.wir", err, sizeof err), 1);
    ck_assert_msg(strstr(err, "WEFT_DUMP=fuse,fuze: no pass is called \"fuze\"") != NULL, "%s", err);
    ck_assert_int_eq(setenv("WEFT_DUMP", "fuse", 1), 0);
    cli_accept("run good.wir");
    ck_assert_int_eq(unsetenv("WEFT_DUMP"), 0);
}
END_TEST

TCase *cli_damage_tests(void) {
    TCase *tests = tcase_create("damage");
    tcase_set_timeout(tests, 200);
    tcase_add_checked_fixture(tests, cli_set_up, cli_tear_down);
    tcase_add_loop_test(tests, test_damage, 0, DOORS);
    tcase_add_test(tests, test_missing_data);
    tcase_add_test(tests, test_full_disk);
    tcase_add_test(tests, test_no_cache);
    tcase_add_test(tests, test_lost_output);
    tcase_add_test(tests, test_threads);
    tcase_add_test(tests, test_dumps);
    return tests;
}
