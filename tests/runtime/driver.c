/* The conformance suite of drivers, and the CPU driver's loader against damaged images. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drivers/cpu/cpu.h"
#include "runtime/drivers/cuda/api.h"
#include "tests/runtime/testing.h"
#include "tests/support/conformance.h"

/* The last ones only where there is such a device: a line says when there is none. */
static const char *const device_names[] = {"null", "cpu", "vulkan", "cuda", "webgpu", "amdgcn"};
enum { ALWAYS = 2 };

typedef struct fixture {
    weft_context *context;
    weft_device *device;
} fixture;

static fixture open_device(const char *name) {
    fixture f;
    assert_fine(weft_context_create(NULL, &f.context));
    assert_fine(weft_device_open(f.context, name, &f.device));
    return f;
}

/* false: this machine has no such device. */
static bool open_any(int index, fixture *out) {
    assert_fine(weft_context_create(NULL, &out->context));
    weft_status status = weft_device_open(out->context, device_names[index], &out->device);
    if (!status) return true;
    weft_code code = weft_status_code(status);
    ck_assert_msg(index >= ALWAYS && (code == WEFT_UNAVAILABLE || code == WEFT_NOT_FOUND), "%s: %s",
                  device_names[index], weft_status_message(status));
    printf("no %s here: %s\n", device_names[index], weft_status_message(status));
    weft_status_release(status);
    weft_context_release(out->context);
    return false;
}

static void close_device(fixture f) {
    weft_device_release(f.device);
    weft_context_release(f.context);
}

START_TEST(identity) {
    fixture f;
    if (!open_any(_i, &f)) return;
    assert_fine(conformance_identity(f.context, f.device, device_names[_i]));
    close_device(f);
}
END_TEST

START_TEST(memory) {
    fixture f;
    if (!open_any(_i, &f)) return;
    assert_fine(conformance_memory(f.device));
    close_device(f);
}
END_TEST

START_TEST(marks) {
    fixture f;
    if (!open_any(_i, &f)) return;
    assert_fine(conformance_marks(f.device));
    close_device(f);
}
END_TEST

/* Thousands of transfers without waiting: each sees what came before it. */
START_TEST(order) {
    enum { ROUNDS = 3000, BYTES = 5000 };
    fixture f;
    if (!open_any(_i, &f)) return;
    const weft_driver *driver = f.device->driver;
    unsigned char from[BYTES], to[BYTES];
    void *a, *b;
    assert_fine(driver->allocate(f.device, BYTES, &a));
    assert_fine(driver->allocate(f.device, BYTES, &b));
    for (int round = 0; round < ROUNDS; round++) {
        memset(from, round % 251, sizeof from);
        assert_fine(driver->upload(f.device, a, from, BYTES));
        assert_fine(driver->copy(f.device, (char *)b + round % 100 * 50, (char *)a + round % 100 * 50, 50));
    }
    assert_fine(driver->download(f.device, to, b, BYTES));
    for (int i = 0; i < BYTES; i++) ck_assert_int_eq(to[i], (ROUNDS - 100 + i / 50) % 251);
    driver->free(f.device, a, BYTES);
    driver->free(f.device, b, BYTES);
    close_device(f);
}
END_TEST

START_TEST(names) {
    weft_context *context;
    weft_device *device;
    assert_fine(weft_context_create(NULL, &context));
    assert_fails(weft_device_open(context, "tpu", &device), WEFT_NOT_FOUND, "tpu");
    assert_fails(weft_device_open(context, "cpu:1", &device), WEFT_NOT_FOUND, "cpu:1");
    assert_fails(weft_device_open(context, "cpu:x", &device), WEFT_INVALID_ARGUMENT, NULL);
    assert_fails(weft_device_open(context, "cpu:", &device), WEFT_INVALID_ARGUMENT, NULL);
    assert_fails(weft_device_open(context, "cpu:-1", &device), WEFT_INVALID_ARGUMENT, NULL);
    assert_fails(weft_device_open(context, "", &device), WEFT_NOT_FOUND, NULL);
    ck_assert_ptr_null(device);
    assert_fine(weft_device_open(context, "cpu:0", &device));
    weft_device_release(device);
    weft_device_release(NULL);
    weft_context_release(context);
}
END_TEST

START_TEST(report) {
    weft_context *context;
    char *text;
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_device_report(context, &text));
    const char *rows[] = {"driver  null", "driver  cpu",    "library cuda",   "library nvrtc",    "library nccl",
                          "library hip ", "library hiprtc", "library vulkan", "library openblas", "library mpi"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(strstr(text, rows[i]) != NULL, "%s is not in\n%s", rows[i], text);
    weft_string_release(context, text);
    weft_context_release(context);
}
END_TEST

START_TEST(forced_variant) {
    weft_context *context;
    weft_device *device;
    assert_fine(weft_context_create(NULL, &context));
    setenv("WEFT_CPU", "x86-64-v9", 1);
    assert_fails(weft_device_open(context, "cpu", &device), WEFT_INVALID_ARGUMENT, "x86-64-v9");
    int level = weft_cpu_level();
    ck_assert_int_ge(level, 1);
    setenv("WEFT_CPU", "x86-64", 1);
    assert_fine(weft_device_open(context, "cpu", &device));
    weft_device_info info;
    weft_device_get_info(device, &info);
    ck_assert_str_eq(info.arch, "x86-64");
    ck_assert_int_gt(device->driver->match(device, "x86-64"), 0);
    ck_assert_int_eq(device->driver->match(device, "x86-64-v3"), 0);
    weft_device_release(device);
    unsetenv("WEFT_CPU");
    assert_fine(weft_device_open(context, "cpu", &device));
    ck_assert_int_gt(device->driver->match(device, weft_cpu_level_name(level)),
                     device->driver->match(device, "x86-64") - 1);
    ck_assert_int_eq(device->driver->match(device, "sm_90a"), 0);
    weft_device_release(device);
    weft_context_release(context);
}
END_TEST

START_TEST(images) {
    weft_binary code = test_image();
    weft_cpu_image image;
    void *address;
    assert_fine(weft_cpu_image_map(code.data, code.bytes, &image));
    assert_fine(weft_cpu_image_find(&image, "square", &address));
    weft_cpu_kernel square;
    memcpy(&square, &address, sizeof square);
    float in[2] = {3, 4}, out[2] = {0};
    void *buffers[2] = {in, out};
    square(buffers, (int64_t[]){2}, 0, 1, NULL);
    ck_assert(out[0] == 9 && out[1] == 16);
    assert_fails(weft_cpu_image_find(&image, "cube", &address), WEFT_NOT_FOUND, "cube");
    assert_fails(weft_cpu_image_find(&image, "", &address), WEFT_NOT_FOUND, NULL);
    weft_cpu_image_unmap(&image);
    weft_cpu_image_unmap(&image);
}
END_TEST

/* Truncation at every byte and each byte of headers and tables set to extremes: a status or a mapped image, no fault.
   (The code itself is not executed here.) */
START_TEST(damaged_images) {
    weft_binary code = test_image();
    weft_cpu_image image;
    int refused = 0;
    for (size_t bytes = 0; bytes < code.bytes; bytes++) {
        unsigned char *copy = malloc(bytes + 1);
        memcpy(copy, code.data, bytes);
        weft_status status = weft_cpu_image_map(copy, bytes, &image);
        ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
        weft_status_release(status);
        free(copy);
    }
    unsigned char *copy = malloc(code.bytes);
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < code.bytes; at++) {
        if (at >= 512 && at < 4096) continue; /* constants and padding */
        for (size_t i = 0; i < sizeof values; i++) {
            memcpy(copy, code.data, code.bytes);
            copy[at] = values[i];
            weft_status status = weft_cpu_image_map(copy, code.bytes, &image);
            refused += status != NULL;
            weft_code code_of = weft_status_code(status);
            ck_assert(!status || code_of == WEFT_INVALID_DATA || code_of == WEFT_OUT_OF_MEMORY);
            weft_status_release(status);
            weft_cpu_image_unmap(&image);
        }
    }
    ck_assert_int_gt(refused, 500);
    free(copy);
}
END_TEST

typedef struct header_rule {
    size_t offset;
    unsigned char value;
    const char *part;
} header_rule;

/* Offsets of ELF64 fields; program headers start at 64, 56 bytes each. */
START_TEST(image_rules) {
    static const header_rule rules[] = {
        {4, 1, "no ELF64"},          {5, 2, "no ELF64"},           {16, 2, "freestanding"},
        {18, 183, "freestanding"},   {24, 1, "freestanding"},      {54, 55, "wrong size"},
        {64, 2, "not freestanding"}, {64, 7, "not freestanding"},  {68, 6, "neither"},
        {68, 7, "neither"},          {64 + 8, 16, "aligned"},      {64 + 16, 16, "aligned"},
        {64 + 40, 0xff, "memory"},   {64 + 56 + 17, 0, "overlap"},
    };
    weft_binary code = test_image();
    weft_cpu_image image;
    unsigned char *copy = malloc(code.bytes);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        memcpy(copy, code.data, code.bytes);
        copy[rules[i].offset] = rules[i].value;
        assert_fails(weft_cpu_image_map(copy, code.bytes, &image), WEFT_INVALID_DATA, rules[i].part);
    }
    free(copy);
}
END_TEST

START_TEST(launches) {
    fixture f = open_device(device_names[_i]);
    const weft_driver *driver = f.device->driver;
    maker m;
    weft_module *module;
    weft_binary code = test_image();
    make_affine(&m, weft_allocator_system());
    assert_fine(driver->load(f.device, &m.data, &code, &module));
    enum { COUNT = 1000 };
    float *in, *out, back[COUNT] = {0}, host[COUNT];
    for (int i = 0; i < COUNT; i++) host[i] = (float)i;
    assert_fine(driver->allocate(f.device, sizeof host, (void **)&in));
    assert_fine(driver->allocate(f.device, sizeof host, (void **)&out));
    assert_fine(driver->upload(f.device, in, host, sizeof host));
    void *buffers[] = {in, out};
    int64_t extents[] = {COUNT, 32};
    for (int scratch = 0; scratch < 2; scratch++) {
        weft_launch launch = {.kernel = scratch ? KERNEL_BLOCK_SUMS : KERNEL_SQUARE,
                              .grid = (COUNT + 15) / 16,
                              .scratch_bytes = scratch * 128,
                              .buffer_count = 2,
                              .extent_count = 2,
                              .buffers = buffers,
                              .extents = extents};
        assert_fine(driver->launch(f.device, module, &launch));
        assert_fine(driver->synchronise(f.device));
        assert_fine(driver->download(f.device, back, out, sizeof back));
        for (int i = 0; i < COUNT && f.device->driver->host_memory && !scratch; i++)
            ck_assert(back[i] == (float)i * (float)i);
        for (int i = 0; i < COUNT / 16 && f.device->driver->host_memory && scratch; i++)
            ck_assert(back[i] == (float)(16 * 16 * i + 120));
    }
    if (driver->trim) driver->trim(f.device);
    driver->free(f.device, in, sizeof host);
    driver->free(f.device, out, sizeof host);
    driver->unload(f.device, module);
    m.kernels[0].name = "absent";
    if (driver->host_memory) assert_fails(driver->load(f.device, &m.data, &code, &module), WEFT_NOT_FOUND, "absent");
    maker_deinit(&m);
    close_device(f);
}
END_TEST

/* Two programs with one pool: the device has each weight once, until the last of them goes. */
START_TEST(pool) {
    static float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    weft_context *context;
    weft_device *device;
    weft_weight_pool *shared;
    weft_program *programs[2];
    maker m;
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_device_open(context, "null", &device));
    assert_fine(weft_weight_pool_create(context, device, &shared));
    make_affine(&m, weft_allocator_system());
    const void *constants[16] = {0};
    for (int i = 0; i < m.data.buffer_count; i++)
        if (m.data.buffers[i].kind == WEFT_BUFFER_CONSTANT) constants[i] = weights;
    weft_program_source source = {.data = &m.data, .constants = constants, .pool = shared, .code = test_image()};
    for (int i = 0; i < 2; i++) {
        assert_fine(weft_program_create(context, device, &source, &programs[i]));
        ck_assert_int_eq(weft_weight_pool_bytes(shared), sizeof weights);
    }
    weft_program_release(programs[0]);
    ck_assert_int_eq(weft_weight_pool_bytes(shared), sizeof weights);
    weft_program_release(programs[1]);
    ck_assert_int_eq(weft_weight_pool_bytes(shared), 0);
    source.pool = NULL;
    assert_fails(weft_program_create(context, device, &source, &programs[0]), WEFT_INTERNAL, "pool");
    weft_weight_pool_release(shared);
    weft_device_release(device);
    weft_context_release(context);
    maker_deinit(&m);
}
END_TEST

static cu_result error_text(cu_result result, const char **out_text) {
    (void)result;
    *out_text = "text";
    return CU_SUCCESS;
}

/* After a kernel's fault CUDA works no more in the process; after a refusal it does. */
START_TEST(cuda_faults_say_what_to_do) {
    static const struct {
        cu_result result;
        bool ends;
    } rows[] = {{700, true}, {701, false}, {709, false}, {710, true},
                {715, true}, {719, true},  {720, false}, {1, false}};
    const cu_api api = {.cuGetErrorName = error_text, .cuGetErrorString = error_text};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_status status = weft_cuda_status(&api, rows[i].result, "waiting");
        ck_assert_int_eq(weft_status_code(status), WEFT_INTERNAL);
        ck_assert_int_eq(strstr(weft_status_message(status), "start it anew") != NULL, rows[i].ends);
        weft_status_release(status);
    }
    assert_fine(weft_cuda_status(&api, CU_SUCCESS, "waiting"));
    assert_fails(weft_cuda_status(&api, CU_ERROR_OUT_OF_MEMORY, "memory"), WEFT_OUT_OF_MEMORY, "memory: text");
}
END_TEST

Suite *suite_driver(void) {
    Suite *suite = suite_create("driver");
    TCase *conformance = tcase_create("conformance"), *devices = tcase_create("devices"), *cpu = tcase_create("cpu");
    int count = (int)(sizeof device_names / sizeof *device_names);
    tcase_add_loop_test(conformance, identity, 0, count);
    tcase_add_loop_test(conformance, memory, 0, count);
    tcase_add_loop_test(conformance, marks, 0, count);
    tcase_add_loop_test(conformance, order, 0, count);
    tcase_add_loop_test(conformance, launches, 0, ALWAYS);
    tcase_add_test(devices, names);
    tcase_add_test(devices, report);
    tcase_add_test(devices, pool);
    tcase_add_test(devices, cuda_faults_say_what_to_do);
    tcase_add_test(cpu, forced_variant);
    tcase_add_test(cpu, images);
    tcase_add_test(cpu, damaged_images);
    tcase_add_test(cpu, image_rules);
    tcase_set_timeout(cpu, 120);
    suite_add_tcase(suite, conformance);
    suite_add_tcase(suite, devices);
    suite_add_tcase(suite, cpu);
    return suite;
}
