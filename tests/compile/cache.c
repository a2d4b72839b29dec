/* The disk cache: hits, and folders and files that cannot be used cost speed, never a result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/compile/testing.h"

static char folder[512];
static void set_up(void) { test_folder_make(folder, sizeof folder); }
static void tear_down(void) { test_folder_remove(folder); }

/* Compiles and runs the MLP with this cache; returns what was logged. */
static const char *compile_with(const char *cache) {
    static test_log log;
    memset(&log, 0, sizeof log);
    weft_context *context;
    weft_graph *graph;
    weft_program *program;
    weft_session *session;
    weft_tensor *inputs[TEST_PORTS] = {0}, *outputs[TEST_PORTS] = {0};
    assert_fine(test_context(NULL, &log, cache, &context));
    assert_fine(test_sample_graph(context, test_sample_find("mlp"), &graph));
    assert_fine(weft_compile(graph, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(test_inputs(context, graph, 3, inputs));
    assert_fine(weft_session_call(session, 1, inputs, 2, outputs));
    test_compare(graph, inputs, outputs);
    test_release(inputs);
    test_release(outputs);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(graph);
    weft_context_release(context);
    return log.text;
}

static void assert_log(const char *log, const char *part) {
    ck_assert_msg(strstr(log, part) != NULL, "\"%s\" is not in: %s", part, log);
}

START_TEST(test_hit) {
    assert_log(compile_with(folder), "compiled and cached");
    ck_assert_int_eq(test_folder_count(folder), 1);
    assert_log(compile_with(folder), "taken from the cache");
    ck_assert_int_eq(test_folder_count(folder), 1);
}
END_TEST

START_TEST(test_folder_is_made) {
    char path[600];
    snprintf(path, sizeof path, "%s/a/b", folder);
    assert_log(compile_with(path), "compiled and cached");
    ck_assert_int_eq(test_folder_count(path), 1);
}
END_TEST

START_TEST(test_unwritable) {
    char path[600];
    assert_log(compile_with("/proc/weft"), "not cached");
    snprintf(path, sizeof path, "%s/file", folder);
    assert_fine(weft_file_write_all(weft_allocator_system(), path, "x", 1));
    assert_log(compile_with(path), "not cached"); /* a file in place of the folder */
    snprintf(path, sizeof path, "%s/file/below", folder);
    assert_log(compile_with(path), "not cached");
    ck_assert_int_eq(test_folder_count(folder), 1);
}
END_TEST

/* Code of another version of LLVM is not taken: the version is in the key. */
START_TEST(test_compiler_is_in_the_key) {
    char path[1024];
    weft_file file;
    bool found = false;
    compile_with(folder);
    test_folder_first(folder, path, sizeof path);
    assert_fine(weft_file_map(path, &file));
    for (size_t at = 0; at + 5 <= file.bytes && !found; at++) found = !memcmp((const char *)file.data + at, "LLVM ", 5);
    weft_file_unmap(&file);
    ck_assert(found);
}
END_TEST

/* A folder where the cache file should go. */
START_TEST(test_folder_in_place_of_file) {
    char path[1024];
    compile_with(folder);
    test_folder_first(folder, path, sizeof path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    assert_log(compile_with(folder), "not cached");
    ck_assert_int_eq(test_folder_count(folder), 1);
}
END_TEST

static void damage(const char *path, const weft_file *whole, size_t bytes, size_t flip) {
    unsigned char *copy = malloc(whole->bytes);
    memcpy(copy, whole->data, whole->bytes);
    if (flip < whole->bytes) copy[flip] ^= 0x10;
    assert_fine(weft_file_write_all(weft_allocator_system(), path, copy, bytes));
    free(copy);
}

START_TEST(test_damaged) {
    char path[1024], copy[600];
    weft_file whole;
    compile_with(folder);
    test_folder_first(folder, path, sizeof path);
    snprintf(copy, sizeof copy, "%s.copy", folder);
    ck_assert_int_eq(rename(path, copy), 0);
    assert_fine(weft_file_map(copy, &whole));
    size_t step = whole.bytes / 6 + 1;
    for (size_t at = 0; at < whole.bytes; at += step) {
        damage(path, &whole, at, SIZE_MAX);
        assert_log(compile_with(folder), "compiled and cached");
        damage(path, &whole, whole.bytes, at < 32 ? at : at + step / 2 < whole.bytes ? at + step / 2 : whole.bytes - 1);
        assert_log(compile_with(folder), "compiled and cached");
    }
    assert_log(compile_with(folder), "taken from the cache"); /* the damaged file was replaced */
    weft_file_unmap(&whole);
    (void)unlink(copy);
}
END_TEST

/* Several processes fill one folder at once: each gets right code, one file is left. */
START_TEST(test_processes) {
    enum { PROCESSES = 4 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i]) continue;
        const char *log = compile_with(folder);
        _exit(strstr(log, "cache") ? 0 : 3);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int code = 0;
        ck_assert_int_eq(waitpid(children[i], &code, 0), children[i]);
        ck_assert_msg(WIFEXITED(code) && WEXITSTATUS(code) == 0, "process %d ended with %d", i, code);
    }
    ck_assert_int_eq(test_folder_count(folder), 1);
    assert_log(compile_with(folder), "taken from the cache");
}
END_TEST

/* 4 KiB: less than one image. */
START_TEST(test_full_disk) {
    if (mount("tmpfs", folder, "tmpfs", 0, "size=4k")) {
        printf("full disk: not tested, mounting a tmpfs failed: %s\n", strerror(errno));
        return;
    }
    char text[sizeof(test_log)], path[600];
    static const char zeros[8192];
    snprintf(text, sizeof text, "%s", compile_with(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    weft_status direct = weft_file_write_all(weft_allocator_system(), path, zeros, sizeof zeros);
    int left = test_folder_count(folder);
    ck_assert_int_eq(umount(folder), 0);
    assert_log(text, "not cached");
    assert_log(text, "the disk is full");
    ck_assert_int_eq(left, 0);
    assert_fails(direct, WEFT_IO, "the disk is full");
}
END_TEST

Suite *cache_suite(void) {
    Suite *suite = suite_create("cache");
    TCase *tests = tcase_create("cache");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_hit);
    tcase_add_test(tests, test_folder_is_made);
    tcase_add_test(tests, test_unwritable);
    tcase_add_test(tests, test_compiler_is_in_the_key);
    tcase_add_test(tests, test_folder_in_place_of_file);
    tcase_add_test(tests, test_damaged);
    tcase_add_test(tests, test_processes);
    tcase_add_test(tests, test_full_disk);
    suite_add_tcase(suite, tests);
    return suite;
}
