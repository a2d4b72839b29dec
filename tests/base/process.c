/* Programs run for their output: bytes through, failures, missing programs, the limit of time. */
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "tests/base/base.h"

static weft_status run(const char *const *arguments, const void *input, size_t bytes, int64_t limit_ns,
                       void **out_output, size_t *out_bytes) {
    weft_process process = {.arguments = arguments, .input = input, .input_bytes = bytes, .limit_ns = limit_ns};
    return weft_process_run(weft_allocator_system(), &process, out_output, out_bytes);
}

START_TEST(bytes_through) {
    enum { BYTES = 3 << 20 }; /* more than a pipe holds */
    unsigned char *input = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) input[i] = (unsigned char)(i * 7 >> 3);
    void *output;
    size_t bytes;
    ck_ok(run((const char *const[]){"cat", NULL}, input, BYTES, INT64_C(60000000000), &output, &bytes));
    ck_assert_uint_eq(bytes, BYTES);
    ck_assert_int_eq(memcmp(input, output, BYTES), 0);
    weft_free(weft_allocator_system(), output, bytes);
    free(input);
}
END_TEST

START_TEST(failures) {
    void *output;
    size_t bytes;
    char text[500];
    weft_status status = run((const char *const[]){"sh", "-c", "echo because >&2; exit 3", NULL}, NULL, 0,
                             INT64_C(60000000000), &output, &bytes);
    ck_assert_int_eq(weft_status_code(status), WEFT_INTERNAL);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "code 3: because"));
    ck_assert(!output && bytes == 0);
    weft_status_release(status);
    status = run((const char *const[]){"sh", "-c", "kill -9 $$", NULL}, NULL, 0, INT64_C(60000000000), &output, &bytes);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "signal 9"));
    weft_status_release(status);
    status = run((const char *const[]){"weft-no-such-program", NULL}, NULL, 0, INT64_C(60000000000), &output, &bytes);
    ck_assert_int_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_release(status);
}
END_TEST

START_TEST(limit) {
    void *output;
    size_t bytes;
    weft_status status = run((const char *const[]){"sleep", "50", NULL}, NULL, 0, 100000000, &output, &bytes);
    ck_assert_int_eq(weft_status_code(status), WEFT_UNAVAILABLE);
    weft_status_release(status);
}
END_TEST

/* Output without end, on either side: killed long before the time is up. What cannot be run is said in words. */
START_TEST(flood) {
    static const char *const commands[] = {"exec yes", "exec yes >&2"};
    void *output;
    size_t bytes;
    char text[500];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        weft_status status =
            run((const char *const[]){"sh", "-c", commands[i], NULL}, NULL, 0, INT64_C(600000000000), &output, &bytes);
        ck_assert_int_eq(weft_status_code(status), WEFT_UNAVAILABLE);
        (void)weft_status_format(status, text, sizeof text);
        ck_assert_msg(strstr(text, "sh wrote more than 268435456 bytes") != NULL, "%s", text);
        ck_assert(!output && bytes == 0);
        weft_status_release(status);
    }
    weft_status status = run((const char *const[]){"/tmp", NULL}, NULL, 0, INT64_C(60000000000), &output, &bytes);
    (void)weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, "starting /tmp: Permission denied") != NULL, "%s", text);
    weft_status_release(status);
}
END_TEST

Suite *process_suite(void) {
    Suite *suite = suite_create("process");
    TCase *tests = tcase_create("process");
    tcase_add_test(tests, bytes_through);
    tcase_add_test(tests, failures);
    tcase_add_test(tests, limit);
    tcase_add_test(tests, flood);
    tcase_set_timeout(tests, 30);
    suite_add_tcase(suite, tests);
    return suite;
}
