/* HIP C through AMD's run-time compiler in a process of its own (codegen/amdgcn/hip): right numbers on each processor,
   and each way in which that process may fail as one status. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hip/testing.h"
#include "weft/compile.h"

#ifndef WEFT_FAKE_HIPRTC_FOLDER
#define WEFT_FAKE_HIPRTC_FOLDER "" /* no clang++-19 */
#endif

static const char *const archs[] = {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1200"};
enum { ARCHS = sizeof archs / sizeof *archs, CALLS = 3 };

static void use_hiprtc(const char *failure) {
    setenv("WEFT_AMDGCN_COMPILER", "hiprtc", 1);
    setenv("WEFT_CACHE", "", 1);
    setenv("WEFT_HIPRTC", WEFT_HIPRTC_PROGRAM, 1);
    setenv("LD_LIBRARY_PATH", WEFT_FAKE_HIPRTC_FOLDER, 1);
    setenv("WEFT_FAKE_HIPRTC", failure, 1);
}

START_TEST(programs) {
    use_hiprtc("");
    hip_use(archs[_i]);
    assert_fine(hip_scenario(archs[_i], CALLS));
    ck_assert_int_gt(hip_calls("hipModuleLaunchKernel"), 0);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

static const struct {
    const char *failure;
    weft_code code;
    const char *says;
} failures[] = {
    {"abort", WEFT_INTERNAL, "died of signal 6: LLVM ERROR: out of thin air"},
    {"garbage", WEFT_INTERNAL, "no code object"},
    {"empty", WEFT_INTERNAL, "has no code"},
    {"error", WEFT_INTERNAL, "kernels:1:1: error: an error that was asked for"},
    {"hang", WEFT_UNAVAILABLE, "took longer than 2000 ms"},
};
enum { FAILURES = sizeof failures / sizeof *failures };

static weft_status compile_once(void) {
    static const char text[] = "graph @n {\n  input %0 \"x\" : f32[4]\n  %1 = exp %0 : f32[4]\n  output \"y\" %1\n}\n";
    weft_context *context;
    weft_graph *graph;
    WEFT_TRY(weft_context_create(NULL, &context), "context");
    weft_status status = weft_graph_parse(context, text, sizeof text - 1, &graph);
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "amdgcn:gfx942";
    if (!status) {
        status = weft_compile_file(graph, &options, "/dev/null");
        weft_graph_release(graph);
    }
    weft_context_release(context);
    return status;
}

START_TEST(fails) {
    use_hiprtc(failures[_i].failure);
    setenv("WEFT_HIPRTC_SECONDS", "2", 1);
    assert_fails(compile_once(), failures[_i].code, failures[_i].says);
}
END_TEST

START_TEST(nothing_there) {
    use_hiprtc("");
    setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
    assert_fails(compile_once(), WEFT_UNAVAILABLE, "libhiprtc.so.6");
    setenv("WEFT_HIPRTC", "/nonexistent/weft-hiprtc", 1);
    assert_fails(compile_once(), WEFT_UNAVAILABLE, "WEFT_HIPRTC=/nonexistent/weft-hiprtc: there is no such program");
    char endless[PATH_MAX + 8];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    setenv("WEFT_HIPRTC", endless, 1);
    assert_fails(compile_once(), WEFT_INVALID_ARGUMENT, "WEFT_HIPRTC is a path of");
    setenv("WEFT_HIPRTC", "/bin/true", 1);
    assert_fails(compile_once(), WEFT_INTERNAL, "no reply");
    setenv("WEFT_HIPRTC", "/tmp", 1);
    assert_fails(compile_once(), WEFT_UNAVAILABLE, "starting /tmp");
    setenv("WEFT_HIPRTC_SECONDS", "abc", 1);
    assert_fails(compile_once(), WEFT_INVALID_ARGUMENT, "WEFT_HIPRTC_SECONDS=abc is no number from 1 to 86400");
    unsetenv("WEFT_HIPRTC_SECONDS");
    setenv("WEFT_AMDGCN_COMPILER", "gcc", 1);
    assert_fails(compile_once(), WEFT_INVALID_ARGUMENT, "hiprtc");
}
END_TEST

Suite *suite_rtc(void) {
    Suite *suite = suite_create("rtc");
    TCase *tests = tcase_create("rtc");
    if (WEFT_FAKE_HIPRTC_FOLDER[0]) {
        tcase_add_loop_test(tests, programs, 0, ARCHS);
        tcase_add_loop_test(tests, fails, 0, FAILURES);
    }
    tcase_add_test(tests, nothing_there);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
