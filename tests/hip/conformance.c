/* What every driver must do, and whole programs, on each processor that has code. */
#include "tests/support/conformance.h"

#include "tests/hip/testing.h"

static const char *const archs[] = {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1200"};
enum { ARCHS = sizeof archs / sizeof *archs };

START_TEST(conforms) {
    weft_context *context;
    weft_device *device;
    weft_device_info info;
    hip_use(archs[_i]);
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_device_open(context, "amdgcn", &device));
    weft_device_get_info(device, &info);
    ck_assert_str_eq(info.arch, archs[_i]);
    for (int i = 0; i < ARCHS; i++) ck_assert_int_eq(device->driver->match(device, archs[i]) > 0, i == _i);
    assert_fine(conformance_identity(context, device, "amdgcn"));
    assert_fine(conformance_memory(device));
    assert_fine(conformance_marks(device));
    weft_device_release(device);
    assert_fails(weft_device_open(context, "amdgcn:1", &device), WEFT_NOT_FOUND, "amdgcn:1");
    weft_context_release(context);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

/* Ten calls: single launches, then a recording, then other shapes. */
START_TEST(programs) {
    hip_use(archs[_i]);
    assert_fine(hip_scenario(archs[_i], 10));
    ck_assert_int_gt(hip_calls("hipGraphLaunch"), 0);
    ck_assert_int_gt(hip_calls("hipModuleLaunchKernel"), 10);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

Suite *suite_conformance(void) {
    Suite *suite = suite_create("conformance");
    TCase *tests = tcase_create("conformance");
    tcase_add_loop_test(tests, conforms, 0, ARCHS);
    tcase_add_loop_test(tests, programs, 0, ARCHS);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
