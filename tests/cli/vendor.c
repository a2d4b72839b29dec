/* CUDA where a part of it is missing: no driver, one that is too old, no card, an NVRTC that is too old, an
   architecture nobody knows. One message each that says what to do; CPU code is not touched by any of it. The libraries
   are stand-ins (fakes/) that the loader finds first. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/cli.h"

typedef struct vendor_case {
    const char *fake; /* folder of the stand-in; NULL: the machine as it is */
    const char *arguments, *part;
} vendor_case;

static const vendor_case cases[] = {
    {"old-driver", "run good.wir --device cuda:0", "the NVIDIA driver is too old: it has no cuInit"},
    {"no-card", "run good.wir --device cuda:0", "(100"},
    {"old-nvrtc", "compile good.wir --target cuda:sm_90a -o x.weft", "this NVRTC has no"},
    {NULL, "compile good.wir --target cuda:sm_99 -o x.weft", "there is no target \"cuda:sm_99\""},
    {NULL, "compile good.wir --target cuda: -o x.weft", "there is no target \"cuda:\""},
};

static void use(const char *fake) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", FAKE_LIBRARIES, fake ? fake : "");
    if (fake)
        setenv("LD_LIBRARY_PATH", folder, 1);
    else
        unsetenv("LD_LIBRARY_PATH");
}

START_TEST(test_vendor_libraries) {
    char before[4096] = "", err[8192];
    if (getenv("LD_LIBRARY_PATH")) snprintf(before, sizeof before, "%s", getenv("LD_LIBRARY_PATH"));
    use(cases[_i].fake);
    ck_assert_int_eq(cli_execute(cases[_i].arguments, err, sizeof err), 1);
    ck_assert_msg(strstr(err, cases[_i].part) != NULL, "%s: %s", cases[_i].arguments, err);
    cli_accept("run good.wir"); /* on the CPU */
    cli_accept("doctor");
    if (before[0])
        setenv("LD_LIBRARY_PATH", before, 1);
    else
        unsetenv("LD_LIBRARY_PATH");
}
END_TEST

/* Without any driver the message names the file that was looked for. Where there is one, nothing can hide it. */
START_TEST(test_no_driver) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver) {
        dlclose(driver);
        return;
    }
    char err[8192];
    ck_assert_int_eq(cli_execute("run good.wir --device cuda:0", err, sizeof err), 1);
    ck_assert_msg(strstr(err, "libcuda.so.1 was not found") != NULL, "%s", err);
}
END_TEST

TCase *cli_vendor_tests(void) {
    TCase *tests = tcase_create("vendor libraries");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, cli_set_up, cli_tear_down);
    tcase_add_loop_test(tests, test_vendor_libraries, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, test_no_driver);
    return tests;
}
