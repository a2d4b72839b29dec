/* Statuses: codes, contexts, formatting; and the shared helpers. */
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/printable.h"
#include "tests/base/base.h"

static void *counting_resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    counting_allocator *counting = self;
    if (new_bytes && ++counting->requests == counting->fail_at) return NULL;
    void *fresh = weft_allocator_system().resize(NULL, pointer, old_bytes, new_bytes, align_bytes);
    if (new_bytes == 0 || fresh) counting->live_bytes += new_bytes - old_bytes;
    return fresh;
}

weft_allocator counting_allocator_get(counting_allocator *self) { return (weft_allocator){self, counting_resize}; }

void expect_code(weft_status status, weft_code code) {
    char text[512];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(weft_status_code(status) == code, "expected %s, got %s", weft_code_name(code), text);
    weft_status_release(status);
}

static weft_status inner(void) { return WEFT_STATUS(WEFT_INVALID_DATA, "byte %d is %s", 7, "odd"); }

static weft_status outer(void) {
    WEFT_TRY(inner(), "reading %s", "header");
    return NULL;
}

START_TEST(contexts) {
    weft_status status = outer();
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    ck_assert_str_eq(weft_status_message(status), "byte 7 is odd");
    char text[256], small[10];
    size_t length = weft_status_format(status, text, sizeof text);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_ptr_nonnull(strstr(text, "invalid data: byte 7 is odd (tests/base/status.c:"));
    ck_assert_ptr_nonnull(strstr(text, "\n  reading header (tests/base/status.c:"));
    ck_assert_uint_eq(weft_status_format(status, small, sizeof small), length);
    ck_assert_str_eq(small, "invalid d");
    ck_assert_uint_eq(weft_status_format(status, NULL, 0), length);
    weft_status_release(status);
}
END_TEST

START_TEST(bare) {
    ck_assert_ptr_null(weft_status_annotate(NULL, "f", 1, "x"));
    ck_assert_ptr_null(weft_status_create(WEFT_OK, "f", 1, "x"));
    ck_assert_str_eq(weft_status_message(NULL), "");
    weft_status_release(NULL);
    weft_status status = (weft_status)(size_t)WEFT_OUT_OF_MEMORY; /* what create returns without memory */
    status = weft_status_annotate(status, "f", 1, "more");
    ck_assert_int_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY);
    ck_assert_str_eq(weft_status_message(status), "out of memory");
    weft_status_release(status);
}
END_TEST

/* What a model's name may hold does not reach a terminal as it is; what people write does. */
START_TEST(printable) {
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"plain 7 \\ \"", "plain 7 \\ \""},
        {"two\nlines\tand", "two\nlines\tand"},
        {"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"},
        {"\r\a\b\x7f", "\\x0d\\x07\\x08\\x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* CSI among C1 */
        {"\xc2\xa0", "\xc2\xa0"},
        {"a\xe2\x80\xae"
         "b",
         "a\\xe2\\x80\\xaeb"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xe2\x82", "\\xe2\\x82"},
        {"\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xf4\x90\x80\x80\xf8", "\\xf4\\x90\\x80\\x80\\xf8"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], small[4];
        weft_status status =
            weft_status_annotate(WEFT_STATUS(WEFT_IO, "%s", cases[i].text), "f", 1, "%s", cases[i].text);
        ck_assert_str_eq(weft_status_message(status), cases[i].shown);
        char all[256], context[128];
        weft_status_format(status, all, sizeof all);
        (void)snprintf(context, sizeof context, "\n  %s (f:1)", cases[i].shown);
        ck_assert_msg(strstr(all, context) != NULL, "%s", all);
        weft_status_release(status);
        ck_assert_uint_eq(weft_printable(cases[i].text, text, sizeof text), strlen(cases[i].shown));
        ck_assert_str_eq(text, cases[i].shown);
        ck_assert_uint_eq(weft_printable(cases[i].text, small, sizeof small), strlen(cases[i].shown));
        ck_assert_msg(!strncmp(small, cases[i].shown, strlen(small)), "%s", small);
    }
}
END_TEST

static void remember(void *self, weft_log_level level, const char *message) {
    (void)level;
    (void)snprintf(self, 32, "%s", message);
}

START_TEST(logged) {
    char message[32] = "";
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.log = remember, options.log_self = message;
    weft_context *context;
    ck_ok(weft_context_create(&options, &context));
    weft_context_log(context, WEFT_LOG_INFO, "%s", "a\x1b[2Jb");
    ck_assert_str_eq(message, "a\\x1b[2Jb");
    weft_context_release(context);
}
END_TEST

Suite *status_suite(void) {
    Suite *suite = suite_create("status");
    TCase *tests = tcase_create("status");
    tcase_add_test(tests, contexts);
    tcase_add_test(tests, bare);
    tcase_add_test(tests, printable);
    tcase_add_test(tests, logged);
    suite_add_tcase(suite, tests);
    return suite;
}
