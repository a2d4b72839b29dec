/* The environment: every variable of the table whose values are known refuses all others, by name, when a context is
   created; empty is as unset. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/printable.h"
#include "tests/base/base.h"
#include "weft/context.h"

static weft_status create(void) {
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    weft_context_release(context);
    return status;
}

static void refuse(const char *name, const char *value) {
    ck_assert_int_eq(setenv(name, value, 1), 0);
    weft_status status = create();
    ck_assert_msg(status != NULL, "%s=%s is taken", name, value);
    const char *message = weft_status_message(status);
    char shown[64];
    weft_printable(value, shown, sizeof shown);
    ck_assert_msg(strstr(message, name) && strstr(message, shown), "%s=%s: %s", name, value, message);
    expect_code(status, WEFT_INVALID_ARGUMENT);
}

static void take(const char *name, const char *value) {
    ck_assert_int_eq(setenv(name, value, 1), 0);
    ck_ok(create());
}

START_TEST(values) {
    static const char *const nonsense[] = {"abc", "-1", "+1", "2x", " 1", "0x1", "1.0", "99999999999999999999", "\xff"};
    const char *name = weft_env_name((weft_env)_i);
    const weft_env_values *allowed = weft_env_allowed((weft_env)_i);
    char edge[16];
    if (allowed->kind == WEFT_ENV_KIND_TEXT) return;
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) refuse(name, nonsense[i]);
    take(name, "");
    if (allowed->kind == WEFT_ENV_KIND_NUMBER) {
        for (int i = -1; i <= 1; i++) {
            (void)snprintf(edge, sizeof edge, "%d", allowed->low + i);
            i < 0 ? refuse(name, edge) : take(name, edge);
            (void)snprintf(edge, sizeof edge, "%d", allowed->high + i);
            i > 0 ? refuse(name, edge) : take(name, edge);
        }
    } else {
        const char *bar = strchr(allowed->choices, '|');
        ck_assert_ptr_nonnull(bar);
        size_t length = (size_t)(bar - allowed->choices);
        ck_assert_uint_lt(length, sizeof edge - 1);
        memcpy(edge, allowed->choices, length + 1);
        edge[length + 1] = 0;
        refuse(name, edge); /* "a|" */
        edge[length] = 0;
        take(name, edge);
        edge[length - 1] = 0;
        refuse(name, edge);
        refuse(name, allowed->choices);
    }
}
END_TEST

START_TEST(numbers) {
    int number = 0;
    ck_assert_int_eq(setenv("WEFT_HIPRTC_SECONDS", "7", 1), 0);
    ck_ok(weft_env_number(WEFT_ENV_HIPRTC_SECONDS, &number));
    ck_assert_int_eq(number, 7);
    ck_assert_int_eq(setenv("WEFT_HIPRTC_SECONDS", "", 1), 0);
    ck_ok(weft_env_number(WEFT_ENV_HIPRTC_SECONDS, &number));
    ck_assert_int_eq(number, 120);
    ck_assert_int_eq(setenv("WEFT_HIPRTC_SECONDS", "0", 1), 0);
    expect_code(weft_env_number(WEFT_ENV_HIPRTC_SECONDS, &number), WEFT_INVALID_ARGUMENT);
}
END_TEST

START_TEST(switches) {
    weft_context *context;
    for (int on = 0; on < 2; on++) {
        ck_assert_int_eq(setenv("WEFT_POISON", on ? "1" : "0", 1), 0);
        ck_assert_int_eq(setenv("WEFT_VERIFY", on ? "1" : "0", 1), 0);
        ck_ok(weft_context_create(NULL, &context));
        ck_assert(context->poison == (on == 1) && context->verify == (on == 1));
        weft_context_release(context);
    }
}
END_TEST

Suite *env_suite(void) {
    Suite *suite = suite_create("env");
    TCase *tests = tcase_create("env");
    tcase_add_loop_test(tests, values, 0, WEFT_ENV_COUNT);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, switches);
    suite_add_tcase(suite, tests);
    return suite;
}
