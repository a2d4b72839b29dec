/* The CUDA driver and what it must not hand on: damaged code images, of which only what lies in them whole may reach
   the card, and launches that no card takes. Layout of images: codegen/cuda/image.h. */
#include <dlfcn.h>
#include <stdlib.h>

#include "codegen/cuda/image.h"
#include "runtime/driver.h"
#include "tests/support/status.h"
#include "weft/device.h"

enum { ROW = WEFT_CUDA_IMAGE_HEAD, CODE = 64, ELF_HEAD = 64 };

static const char text[] = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
static const weft_program_kernel kernel = {.name = "k", .threads = 32};
static const weft_program_data program = {.name = "m", .kernel_count = 1, .kernels = &kernel, .target = "cuda"};

static unsigned char image[CODE + sizeof text];
static weft_context *context;
static weft_device *device;

static void put(size_t at, uint64_t value, size_t bytes) { memcpy(image + at, &value, bytes); }

/* One part: the text above. */
static void fill(void) {
    memset(image, 0, sizeof image);
    memcpy(image, "WEFTCUDA", 8);
    put(8, WEFT_CUDA_IMAGE_FORMAT, 4);
    put(12, 1, 4);
    put(ROW, WEFT_CUDA_PART_PTX, 4);
    put(ROW + 8, 1, 4);
    put(ROW + 16, CODE, 8);
    put(ROW + 24, sizeof text, 8);
    memcpy(image + CODE, text, sizeof text);
}

/* A cubin whose header promises tables there. */
static void fill_cubin(uint64_t segments, uint64_t sections) {
    fill();
    put(ROW, WEFT_CUDA_PART_CUBIN, 4);
    put(ROW + 24, ELF_HEAD, 8);
    memset(image + CODE, 0, ELF_HEAD);
    memcpy(image + CODE, "\177ELF", 4);
    put(CODE + 32, segments, 8);
    put(CODE + 40, sections, 8);
}

static void start(void) {
    ck_assert_msg(dlopen(WEFT_FAKE_CUDA, RTLD_NOW) != NULL, "%s", dlerror());
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_device_open(context, "cuda", &device));
    fill();
}

static void stop(void) {
    weft_device_release(device);
    weft_context_release(context);
}

static weft_status load(size_t bytes) {
    /* a copy of exactly these bytes, so that a reader past their end is found */
    unsigned char *copy = malloc(bytes ? bytes : 1);
    memcpy(copy, image, bytes);
    weft_binary code = {"sm_80", copy, bytes};
    weft_module *module;
    weft_status status = device->driver->load(device, &program, &code, &module);
    ck_assert_int_eq(module == NULL, status != NULL);
    device->driver->unload(device, module);
    free(copy);
    return status;
}

START_TEST(whole) { assert_fine(load(sizeof image)); }
END_TEST

START_TEST(cut_off) {
    for (size_t bytes = 0; bytes < sizeof image; bytes++) assert_fails(load(bytes), WEFT_INVALID_DATA, "image");
}
END_TEST

static const struct {
    size_t at, bytes;
    uint64_t value;
    const char *says;
} fields[] = {
    {0, 1, 'w', "no CUDA code image"},
    {8, 4, 2, "no CUDA code image"},
    {12, 4, 0, "no code for kernel k"},
    {12, 4, UINT32_MAX, "table is cut off"},
    {ROW, 4, WEFT_CUDA_PART_CUBIN, "no whole cubin"},
    {ROW + 4, 4, 1, "kernels that the program has not"},
    {ROW + 4, 4, UINT32_MAX, "kernels that the program has not"},
    {ROW + 8, 4, 0, "no code for kernel k"},
    {ROW + 8, 4, 2, "kernels that the program has not"},
    {ROW + 8, 4, UINT32_MAX, "kernels that the program has not"},
    {ROW + 16, 8, UINT64_MAX, "lies outside"},
    {ROW + 16, 8, CODE + 1, "lies outside"},
    {ROW + 24, 8, 0, "lies outside"},
    {ROW + 24, 8, UINT64_MAX, "lies outside"},
    {ROW + 24, 8, sizeof text - 1, "does not end"},
};

START_TEST(field) {
    put(fields[_i].at, fields[_i].value, fields[_i].bytes);
    assert_fails(load(sizeof image), WEFT_INVALID_DATA, fields[_i].says);
}
END_TEST

/* Tables of a cubin, that of 40 bytes at byte 24; this card runs PTX only, so a whole cubin is left alone. */
START_TEST(cubins) {
    fill_cubin(ELF_HEAD, ELF_HEAD);
    assert_fails(load(sizeof image), WEFT_INVALID_DATA, "no code for kernel k");
    fill_cubin(ELF_HEAD + 1, ELF_HEAD);
    assert_fails(load(sizeof image), WEFT_INVALID_DATA, "no whole cubin");
    fill_cubin(ELF_HEAD, UINT64_MAX);
    assert_fails(load(sizeof image), WEFT_INVALID_DATA, "no whole cubin");
    for (int table = 0; table < 2; table++) {
        fill_cubin(24, 24);
        put(CODE + (table ? 58 : 54), 40, 2);
        put(CODE + (table ? 60 : 56), 1, 2);
        assert_fails(load(sizeof image), WEFT_INVALID_DATA, "no code for kernel k");
        put(CODE + (table ? 60 : 56), 2, 2);
        assert_fails(load(sizeof image), WEFT_INVALID_DATA, "no whole cubin");
    }
    fill_cubin(0, 0);
    put(ROW + 24, ELF_HEAD - 1, 8);
    assert_fails(load(sizeof image), WEFT_INVALID_DATA, "no whole cubin");
}
END_TEST

/* Launches that no card takes never reach it. */
START_TEST(launches) {
    const weft_driver *driver = device->driver;
    weft_binary code = {"sm_80", image, sizeof image};
    weft_module *module;
    assert_fine(driver->load(device, &program, &code, &module));
    weft_launch launch = {.grid = 1};
    assert_fine(driver->launch(device, module, &launch));
    assert_fine(driver->synchronise(device));
    launch.scratch_bytes = -1;
    assert_fails(driver->launch(device, module, &launch), WEFT_UNSUPPORTED, "shared memory");
    launch.scratch_bytes = (int64_t)INT32_MAX + 1;
    assert_fails(driver->launch(device, module, &launch), WEFT_UNSUPPORTED, "shared memory");
    launch.scratch_bytes = 0, launch.grid = -1;
    assert_fails(driver->launch(device, module, &launch), WEFT_OUT_OF_RANGE, "-1 blocks");
    launch.grid = 1, launch.kernel = 1;
    assert_fails(driver->launch(device, module, &launch), WEFT_INVALID_ARGUMENT, "kernel 1 of 1");
    driver->unload(device, module);
}
END_TEST

void add_image_tests(Suite *suite) {
    TCase *tests = tcase_create("images");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, whole);
    tcase_add_test(tests, cut_off);
    tcase_add_loop_test(tests, field, 0, sizeof fields / sizeof *fields);
    tcase_add_test(tests, cubins);
    tcase_add_test(tests, launches);
    suite_add_tcase(suite, tests);
}
