/* Every call of the runtime made to fail, each time it is made: a status that says what failed, nothing left behind,
   and the next run is right again. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "tests/hip/testing.h"

enum { CALLS = 7, TURNS_MAX = 12, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, LAUNCH_FAILURE = 719 };

static const char arch[] = "gfx90a";

/* Calls that may fail without harm: the program does without. */
static const char *const optional[] = {
    "hipHostMalloc",  "hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate", "hipFree",
    "hipHostFree",    "hipModuleUnload",       "hipGraphDestroy",     "hipGraphExecDestroy", "hipStreamDestroy",
    "hipEventDestroy"};
static const char *const required[] = {"hipInit",
                                       "hipGetDeviceCount",
                                       "hipSetDevice",
                                       "hipDeviceGetName",
                                       "hipDeviceTotalMem",
                                       "hipGetDevicePropertiesR0600",
                                       "hipModuleLoadData",
                                       "hipModuleGetFunction",
                                       "hipModuleLaunchKernel",
                                       "hipMalloc",
                                       "hipMemcpyHtoDAsync",
                                       "hipMemcpyDtoHAsync",
                                       "hipStreamCreateWithFlags",
                                       "hipStreamSynchronize",
                                       "hipGraphLaunch"};

/* Returns how often the scenario failed. */
static int fail_each(const char *function, int result, const char *name) {
    int failures = 0;
    for (int turn = 1; turn <= TURNS_MAX; turn++) {
        int before = hip_calls(function), live = hip_live();
        hip_fail(function, turn, result);
        weft_status status = hip_scenario(arch, CALLS);
        bool reached = hip_calls(function) - before >= turn;
        hip_fail(function, 1 << 30, 0);
        char text[2000];
        (void)weft_status_format(status, text, sizeof text);
        if (status) ck_assert_msg(strstr(text, name) != NULL, "%s, call %d: no %s in: %s", function, turn, name, text);
        failures += status != NULL;
        weft_status_release(status);
        ck_assert_msg(hip_live() == live, "%s, call %d: %d objects are left", function, turn, hip_live() - live);
        if (!reached) break;
    }
    return failures;
}

START_TEST(required_calls) {
    hip_use(arch);
    assert_fine(hip_scenario(arch, CALLS));
    const char *function = required[_i];
    ck_assert_msg(fail_each(function, OUT_OF_MEMORY, "hipErrorOutOfMemory") > 0, "%s may fail unnoticed", function);
    ck_assert_int_gt(fail_each(function, LAUNCH_FAILURE, "hipErrorLaunchFailure"), 0);
    assert_fine(hip_scenario(arch, CALLS));
}
END_TEST

START_TEST(optional_calls) {
    hip_use(arch);
    assert_fine(hip_scenario(arch, CALLS));
    const char *function = optional[_i];
    /* what releases is not tried again: the library does nothing then, so something is left, by rights */
    bool releases = strstr(function, "Free") || strstr(function, "Destroy") || strstr(function, "Unload");
    if (!releases) ck_assert_int_eq(fail_each(function, OUT_OF_MEMORY, "hipError"), 0);
    hip_fail(function, 1, LAUNCH_FAILURE);
    assert_fine(hip_scenario(arch, CALLS));
    hip_fail(function, 1 << 30, 0);
    assert_fine(hip_scenario(arch, CALLS));
}
END_TEST

START_TEST(no_device) {
    weft_context *context;
    weft_device *device;
    hip_use(arch);
    assert_fine(weft_context_create(NULL, &context));
    hip_fail("hipInit", 1, NO_DEVICE);
    assert_fails(weft_device_open(context, "amdgcn", &device), WEFT_UNAVAILABLE, "hipErrorNoDevice");
    hip_fail("hipInit", 1, INVALID_DEVICE); /* as version 5.2 says it */
    assert_fails(weft_device_open(context, "amdgcn", &device), WEFT_UNAVAILABLE, "hipErrorInvalidDevice");
    ck_assert_ptr_null(device);
    weft_context_release(context);
}
END_TEST

/* A full card: what is cached is given back and the request repeated; then a status that says how much was asked for.
 */
START_TEST(full_card) {
    weft_context *context;
    weft_device *device;
    void *a, *b;
    hip_use(arch);
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_device_open(context, "amdgcn", &device));
    const weft_driver *driver = device->driver;
    assert_fine(driver->allocate(device, 5000, &a));
    driver->free(device, a, 5000);
    int live = hip_live();
    hip_fail("hipMalloc", 1, OUT_OF_MEMORY);
    assert_fine(driver->allocate(device, 9000, &b));
    ck_assert_int_eq(hip_live(), live); /* one came, the cached one went */
    hip_fail("hipMalloc", 1, OUT_OF_MEMORY);
    assert_fails(driver->allocate(device, 123456, &a), WEFT_OUT_OF_MEMORY, "123456");
    ck_assert_ptr_null(a);
    driver->free(device, b, 9000);
    weft_device_release(device);
    weft_context_release(context);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

typedef struct loaded {
    weft_context *context;
    weft_device *device;
    weft_file file;
    weft_program_kernel kernel;
    weft_program_data program;
    unsigned char *image;
    size_t bytes;
} loaded;

/* The image of the model's first code object, as it lies in the artifact. */
static loaded load_model(void) {
    loaded l = {0};
    hip_use(arch);
    assert_fine(weft_context_create(NULL, &l.context));
    assert_fine(weft_device_open(l.context, "amdgcn", &l.device));
    assert_fine(weft_file_map(hip_model(arch), &l.file));
    const unsigned char *at = memmem(l.file.data, l.file.bytes, "WEFTAMDG", 8);
    ck_assert_ptr_nonnull(at);
    uint64_t offset, bytes;
    memcpy(&offset, at + 16 + 8, 8);
    memcpy(&bytes, at + 16 + 16, 8);
    l.bytes = (size_t)(offset + bytes);
    l.image = malloc(l.bytes);
    memcpy(l.image, at, l.bytes);
    uint32_t one = 1;
    memcpy(l.image + 12, &one, 4);
    memcpy(l.image + 20, &one, 4);
    const unsigned char *name = memmem(l.image, l.bytes, ".kd", 4);
    ck_assert_ptr_nonnull(name);
    while (name[-1]) name--;
    static char text[128];
    (void)snprintf(text, sizeof text, "%s", (const char *)name);
    text[strlen(text) - 3] = 0;
    l.kernel = (weft_program_kernel){.name = text, .threads = 256};
    return l;
}

static void close_model(loaded *l) {
    free(l->image);
    weft_file_unmap(&l->file);
    weft_device_release(l->device);
    weft_context_release(l->context);
    ck_assert_int_eq(hip_live(), 0);
}

/* Cut off anywhere, or with any byte of its head and of the code object's header changed: a status or a module. */
START_TEST(damaged_images) {
    loaded l = load_model();
    l.program = (weft_program_data){.name = "m", .kernel_count = 1, .kernels = &l.kernel, .target = "amdgcn"};
    weft_module *module;
    int refused = 0;
    for (size_t bytes = 0; bytes < l.bytes; bytes += bytes < 200 ? 1 : 97) {
        unsigned char *copy = malloc(bytes + 1);
        memcpy(copy, l.image, bytes);
        weft_binary code = {arch, copy, bytes};
        assert_fails(l.device->driver->load(l.device, &l.program, &code, &module), WEFT_INVALID_DATA, NULL);
        free(copy);
    }
    for (size_t at = 0; at < 48 + 64; at++) {
        unsigned char kept = l.image[at];
        for (int value = 0; value < 256; value += 51) {
            l.image[at] = (unsigned char)value;
            weft_binary code = {arch, l.image, l.bytes};
            weft_status status = l.device->driver->load(l.device, &l.program, &code, &module);
            refused += status != NULL;
            ck_assert_int_ne(weft_status_code(status), WEFT_INTERNAL); /* the file is wrong, nothing else */
            weft_status_release(status);
            l.device->driver->unload(l.device, module);
        }
        l.image[at] = kept;
    }
    ck_assert_int_gt(refused, 100);
    close_model(&l);
}
END_TEST

/* A kernel that reads what is not there: the next wait says so, and so does everything after it; closing is still fine.
 */
START_TEST(lost_device) {
    loaded l = load_model();
    l.program = (weft_program_data){.name = "m", .kernel_count = 1, .kernels = &l.kernel, .target = "amdgcn"};
    weft_binary code = {arch, l.image, l.bytes};
    const weft_driver *driver = l.device->driver;
    weft_module *module;
    assert_fine(driver->load(l.device, &l.program, &code, &module));
    void *nowhere[8] = {(void *)64, (void *)64, (void *)64, (void *)64, (void *)64, (void *)64, (void *)64, (void *)64};
    int64_t extents[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    weft_launch launch = {.grid = 1, .buffer_count = 8, .buffers = nowhere, .extent_count = 8, .extents = extents};
    assert_fine(driver->launch(l.device, module, &launch));
    assert_fails(driver->synchronise(l.device), WEFT_INTERNAL, "hipErrorLaunchFailure");
    void *memory;
    assert_fails(driver->allocate(l.device, 100, &memory), WEFT_INTERNAL, "hipErrorLaunchFailure");
    assert_fails(driver->launch(l.device, module, &launch), WEFT_INTERNAL, l.kernel.name);
    driver->unload(l.device, module);
    hip_reset();
    assert_fine(driver->allocate(l.device, 100, &memory));
    driver->free(l.device, memory, 100);
    close_model(&l);
}
END_TEST

START_TEST(refused_launches) {
    loaded l = load_model();
    l.program = (weft_program_data){.name = "m", .kernel_count = 1, .kernels = &l.kernel, .target = "amdgcn"};
    weft_binary code = {arch, l.image, l.bytes};
    const weft_driver *driver = l.device->driver;
    weft_module *module;
    assert_fine(driver->load(l.device, &l.program, &code, &module));
    void *buffers[100] = {0};
    weft_launch launch = {.grid = 1, .buffers = buffers};
    launch.kernel = 1;
    assert_fails(driver->launch(l.device, module, &launch), WEFT_INVALID_ARGUMENT, "kernel 1 of 1");
    launch.kernel = 0, launch.grid = INT64_C(1) << 25;
    assert_fails(driver->launch(l.device, module, &launch), WEFT_OUT_OF_RANGE, l.kernel.name);
    launch.grid = 1, launch.buffer_count = 100;
    assert_fails(driver->launch(l.device, module, &launch), WEFT_UNSUPPORTED, "100 buffers");
    launch.grid = 0;
    assert_fine(driver->launch(l.device, module, &launch));
    driver->unload(l.device, module);
    l.kernel.name = "absent";
    assert_fails(driver->load(l.device, &l.program, &code, &module), WEFT_INVALID_DATA, "absent");
    close_model(&l);
}
END_TEST

Suite *suite_failures(void) {
    Suite *suite = suite_create("failures");
    TCase *tests = tcase_create("failures");
    tcase_add_loop_test(tests, required_calls, 0, (int)(sizeof required / sizeof *required));
    tcase_add_loop_test(tests, optional_calls, 0, (int)(sizeof optional / sizeof *optional));
    tcase_add_test(tests, no_device);
    tcase_add_test(tests, full_card);
    tcase_add_test(tests, damaged_images);
    tcase_add_test(tests, lost_device);
    tcase_add_test(tests, refused_launches);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
