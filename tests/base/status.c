/* Statuses: codes, contexts, formatting; and the shared helpers. */
#include <string.h>

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

Suite *status_suite(void) {
    Suite *suite = suite_create("status");
    TCase *tests = tcase_create("status");
    tcase_add_test(tests, contexts);
    tcase_add_test(tests, bare);
    suite_add_tcase(suite, tests);
    return suite;
}
