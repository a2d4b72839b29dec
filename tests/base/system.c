/* Files, threads, contexts and tensors. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/capability.h"
#include "base/context.h"
#include "base/file.h"
#include "base/tensor.h"
#include "base/thread.h"
#include "tests/base/base.h"

START_TEST(files) {
    char folder[] = "/tmp/weft-test-XXXXXX", path[64], deep[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(deep, sizeof deep, "%s/a/b/", folder);
    ck_ok(weft_folder_create(deep));
    ck_ok(weft_folder_create(deep));
    (void)snprintf(path, sizeof path, "%s/a/b/f", folder);
    weft_file file;
    expect_code(weft_file_map(path, &file), WEFT_NOT_FOUND);
    ck_ok(weft_file_write_all(weft_allocator_system(), path, "hello", 5));
    weft_file_writer writer; /* an abandoned writer leaves the old content and nothing else */
    ck_ok(weft_file_writer_open(weft_allocator_system(), path, &writer));
    ck_assert_int_ge(fputs("new", writer.file), 0);
    weft_file_writer_abandon(&writer);
    ck_ok(weft_file_map(path, &file));
    ck_assert(file.bytes == 5 && !memcmp(file.data, "hello", 5));
    weft_file_unmap(&file);
    ck_ok(weft_file_write_all(weft_allocator_system(), path, NULL, 0));
    ck_ok(weft_file_map(path, &file));
    ck_assert(file.bytes == 0 && !file.data);
    weft_file_unmap(&file);
    expect_code(weft_file_map(deep, &file), WEFT_INVALID_ARGUMENT);
    expect_code(weft_folder_create(path), WEFT_IO);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(deep), 0); /* empty: the temporary file is gone */
    deep[strlen(deep) - 3] = 0;
    ck_assert_int_eq(rmdir(deep), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* A pipe without a writer does not block a reader, a device or a pipe is never replaced, a link stays a link and what
   it points at keeps its permissions. */
START_TEST(special_files) {
    char folder[] = "/tmp/weft-test-XXXXXX", pipe[64], link[64], target[64], loose[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    (void)snprintf(link, sizeof link, "%s/link", folder);
    (void)snprintf(loose, sizeof loose, "%s/loose", folder);
    (void)snprintf(target, sizeof target, "%s/target", folder);
    weft_file file;
    struct stat info;
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    expect_code(weft_file_map(pipe, &file), WEFT_INVALID_ARGUMENT);
    expect_code(weft_file_write_all(weft_allocator_system(), pipe, "hello", 5), WEFT_INVALID_ARGUMENT);
    ck_assert(stat(pipe, &info) == 0 && S_ISFIFO(info.st_mode));
    expect_code(weft_file_write_all(weft_allocator_system(), folder, "hello", 5), WEFT_IO);
    ck_ok(weft_file_write_all(weft_allocator_system(), target, "old", 3));
    ck_assert_int_eq(chmod(target, 0600), 0);
    ck_assert_int_eq(symlink("target", link), 0);
    ck_assert_int_eq(symlink("nothing", loose), 0);
    ck_ok(weft_file_write_all(weft_allocator_system(), link, "hello", 5));
    ck_assert(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    ck_assert(stat(target, &info) == 0 && info.st_size == 5 && (info.st_mode & 07777) == 0600);
    expect_code(weft_file_write_all(weft_allocator_system(), loose, "hello", 5), WEFT_NOT_FOUND);
    const char *names[] = {pipe, link, loose, target};
    for (int i = 0; i < 4; i++) ck_assert_int_eq(unlink(names[i]), 0);
    ck_assert_int_eq(rmdir(folder), 0); /* no temporary file is left */
}
END_TEST

typedef struct cover {
    atomic_uchar *seen;
    atomic_int inside[8]; /* per thread number */
    int64_t longest;
} cover;

static void mark(void *self, int thread, int64_t lo, int64_t hi) {
    cover *c = self;
    ck_assert_int_eq(atomic_fetch_add(&c->inside[thread], 1), 0);
    ck_assert(lo < hi && (!c->longest || hi - lo <= c->longest));
    for (int64_t i = lo; i < hi; i++) atomic_fetch_add(&c->seen[i], 1);
    atomic_fetch_sub(&c->inside[thread], 1);
}

static void check_cover(weft_pool *pool, int64_t count, int64_t chunk) {
    cover c = {.seen = calloc((size_t)count + 1, 1)};
    int64_t threads = weft_pool_thread_count(pool);
    c.longest = chunk ? chunk : (count + threads - 1) / threads;
    weft_pool_run(pool, count, chunk, mark, &c);
    for (int64_t i = 0; i < count; i++) ck_assert_int_eq(atomic_load(&c.seen[i]), 1);
    free(c.seen);
}

static void *run_many(void *pool) {
    for (int i = 0; i < 300; i++) check_cover(pool, i, i % 4);
    return NULL;
}

START_TEST(threads) {
    for (int n = 1; n <= 5; n++) {
        weft_pool *pool;
        ck_ok(weft_pool_create(weft_allocator_system(), n, &pool));
        for (int64_t count = 0; count < 40; count++)
            for (int64_t chunk = 0; chunk < 8; chunk += 3) check_cover(pool, count, chunk);
        usleep(20000); /* workers sleep */
        check_cover(pool, 1000, 0);
        pthread_t other; /* concurrent callers take turns */
        ck_assert_int_eq(pthread_create(&other, NULL, run_many, pool), 0);
        run_many(pool);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
        weft_pool_release(pool);
    }
    weft_pool *pool;
    expect_code(weft_pool_create(weft_allocator_system(), 0, &pool), WEFT_INVALID_ARGUMENT);
    for (size_t n = 1; n <= 2; n++) {
        counting_allocator counting = {.fail_at = n};
        expect_code(weft_pool_create(counting_allocator_get(&counting), 3, &pool), WEFT_OUT_OF_MEMORY);
        ck_assert_uint_eq(counting.live_bytes, 0);
    }
}
END_TEST

static void count_release(void *self, void *data) {
    (void)data;
    ++*(int *)self;
}

START_TEST(tensors) {
    counting_allocator counting = {0};
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.allocator = counting_allocator_get(&counting);
    options.cache_folder = "/tmp/c";
    options.thread_count = 3;
    weft_context *context;
    ck_ok(weft_context_create(&options, &context));
    ck_assert(context->thread_count == 3 && !strcmp(context->cache_folder, "/tmp/c"));
    weft_tensor *t;
    int64_t shape[3] = {2, 3, 4};
    ck_ok(weft_tensor_create(context, WEFT_F32, 3, shape, &t));
    ck_assert(weft_tensor_element_count(t) == 24 && weft_tensor_bytes(t) == 96 && weft_tensor_is_packed(t));
    ck_assert_int_eq(weft_tensor_strides(t)[0], 12);
    ck_assert_uint_eq((uintptr_t)weft_tensor_data(t) % 64, 0);
    weft_tensor_release(t);
    ck_ok(weft_tensor_create(context, WEFT_I4, 1, (int64_t[]){3}, &t));
    ck_assert_uint_eq(weft_tensor_bytes(t), 2);
    weft_tensor_release(t);
    ck_ok(weft_tensor_create(context, WEFT_F64, 0, NULL, &t));
    ck_assert(weft_tensor_element_count(t) == 1);
    weft_tensor_release(t);
    ck_ok(weft_tensor_create(context, WEFT_F64, 2, (int64_t[]){0, 5}, &t));
    ck_assert(weft_tensor_element_count(t) == 0 && weft_tensor_bytes(t) == 0);
    weft_tensor_release(t);
    int released = 0;
    float data[24];
    ck_ok(weft_tensor_wrap(context, WEFT_F32, 3, shape, (int64_t[]){1, 2, 6}, data, count_release, &released, &t));
    ck_assert(!weft_tensor_is_packed(t));
    weft_tensor_retain(t);
    weft_tensor_release(t);
    ck_assert_int_eq(released, 0);
    weft_tensor_release(t);
    ck_assert_int_eq(released, 1);
    expect_code(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){INT64_MAX, 3}, &t), WEFT_INVALID_ARGUMENT);
    expect_code(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){-1}, &t), WEFT_INVALID_ARGUMENT);
    expect_code(weft_tensor_create(context, WEFT_STRING, 0, NULL, &t), WEFT_INVALID_ARGUMENT);
    expect_code(weft_tensor_create(context, WEFT_F32, 17, shape, &t), WEFT_INVALID_ARGUMENT);
    for (size_t n = 1; n <= 2; n++) { /* the handle, the elements */
        counting.fail_at = counting.requests + n;
        expect_code(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){10}, &t), WEFT_OUT_OF_MEMORY);
    }
    weft_context_release(context);
    ck_assert_uint_eq(counting.live_bytes, 0);
    for (size_t n = 1; n <= 2; n++) {
        counting = (counting_allocator){.fail_at = n};
        expect_code(weft_context_create(&options, &context), WEFT_OUT_OF_MEMORY);
        ck_assert_uint_eq(counting.live_bytes, 0);
    }
}
END_TEST

static void keep_log(void *self, weft_log_level level, const char *message) {
    (void)snprintf(self, 64, "%d %s", (int)level, message);
}

START_TEST(logs_and_records) {
    char last[64] = "";
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.log = keep_log;
    options.log_self = last;
    weft_context *context;
    ck_ok(weft_context_create(&options, &context));
    weft_context_log(context, WEFT_LOG_INFO, "n = %d", 3);
    ck_assert_str_eq(last, "3 n = 3");
    weft_context_log(context, WEFT_LOG_DEBUG, "quiet");
    ck_assert_str_eq(last, "3 n = 3");
    weft_context_release(context);
    ck_assert_int_eq(weft_capability_find("cuda", "sm_90a")->shared_bytes, 227 * 1024);
    ck_assert(!weft_capability_find("cuda", "sm_00"));
    int count = 0;
    for (; weft_capability_get(count); count++) {
        const weft_capability *c = weft_capability_get(count);
        ck_assert(weft_capability_find(c->target, c->arch) == c && c->threads_max >= 1 && c->warp >= 1);
    }
    ck_assert_int_ge(count, 10);
}
END_TEST

Suite *system_suite(void) {
    Suite *suite = suite_create("system");
    TCase *tests = tcase_create("system");
    tcase_add_test(tests, files);
    tcase_add_test(tests, special_files);
    tcase_add_test(tests, threads);
    tcase_add_test(tests, tensors);
    tcase_add_test(tests, logs_and_records);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
