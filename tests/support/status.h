/* What tests expect of a status; both release it when it is what was expected. */
#ifndef WEFT_TESTS_SUPPORT_STATUS_H
#define WEFT_TESTS_SUPPORT_STATUS_H

#include <check.h>
#include <string.h>

#include "weft/status.h"

/* NULL, or the test fails with its text. */
static inline void assert_fine(weft_status status) {
    char text[4096];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s", text);
}

/* This code, and `part` somewhere in its text (NULL = any text). */
static inline void assert_fails(weft_status status, weft_code code, const char *part) {
    char text[4096];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(weft_status_code(status) == code, "%s, not %s: %s", weft_code_name(weft_status_code(status)),
                  weft_code_name(code), text);
    if (part) ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text);
    weft_status_release(status);
}

#endif
