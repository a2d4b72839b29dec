/* The Metal driver (runtime/drivers/metal) against a Metal that is none (fake/fake.h): conformance, and every failure
   that a device can answer with. The loader must find the fake first, so the program starts itself again. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/driver.h"
#include "tests/metal/testing.h"
#include "tests/support/conformance.h"
#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/ops.h"

static weft_context *context;
static int (*live_objects)(void);

/* "name:n" lets the nth call from now on fail. */
static void inject(const char *failures) { setenv("WEFT_FAKE_METAL", failures, 1); }
static void inject_nothing(void) { unsetenv("WEFT_FAKE_METAL"); }

static void set_up(void) {
    inject_nothing();
    assert_fine(weft_context_create(NULL, &context));
}

/* Nothing of Metal's outlives the last device. */
static void tear_down(void) {
    weft_context_release(context);
    if (live_objects) ck_assert_int_eq(live_objects(), 0);
}

static weft_device *open_device(void) {
    weft_device *device;
    assert_fine(weft_device_open(context, "metal", &device));
    void *handle = dlopen("Metal", RTLD_NOW | RTLD_NOLOAD),
         *address = handle ? dlsym(handle, "fake_live_objects") : NULL;
    ck_assert_msg(address != NULL, "the loader did not find the fake Metal");
    memcpy(&live_objects, &address, sizeof address);
    return device;
}

START_TEST(conformance) {
    weft_device *device = open_device();
    assert_fine(conformance_identity(context, device, "metal"));
    assert_fine(conformance_memory(device));
    ck_assert_int_gt(device->driver->match(device, "apple7"), 0);
    ck_assert_int_gt(device->driver->match(device, "apple9"), device->driver->match(device, "apple7"));
    ck_assert_int_eq(device->driver->match(device, "apple10"), 0);
    ck_assert_int_eq(device->driver->match(device, "sm_90a"), 0);
    weft_device_release(device);
}
END_TEST

/* Copies that Metal does not take (odd bytes, overlapping ranges) and those that it does, in their order. */
START_TEST(copies) {
    enum { BYTES = 1024 };
    weft_device *device = open_device();
    const weft_driver *driver = device->driver;
    unsigned char from[BYTES], to[BYTES], expected[BYTES];
    void *memory;
    for (int i = 0; i < BYTES; i++) from[i] = expected[i] = (unsigned char)(i * 37 + i / 256);
    assert_fine(driver->allocate(device, BYTES, &memory));
    assert_fine(driver->upload(device, memory, from, BYTES));
    static const struct {
        int from, to, bytes;
    } rows[] = {{0, 512, 256}, {512, 600, 128}, {3, 900, 7}, {0, 4, 100}, {900, 0, 9}, {516, 0, 64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memmove(expected + rows[i].to, expected + rows[i].from, (size_t)rows[i].bytes);
        assert_fine(
            driver->copy(device, (char *)memory + rows[i].to, (char *)memory + rows[i].from, (size_t)rows[i].bytes));
    }
    assert_fine(driver->download(device, to, memory, BYTES));
    ck_assert_mem_eq(to, expected, BYTES);
    assert_fails(driver->upload(device, (char *)memory + 1000, from, 100), WEFT_INVALID_ARGUMENT,
                 "no memory of metal:0");
    driver->free(device, memory, BYTES);
    weft_device_release(device);
}
END_TEST

/* -- a device that cannot be used */

typedef struct refusal {
    const char *failures;
    weft_code code;
    const char *words;
} refusal;
static const refusal refusals[] = {{"devices:1", WEFT_UNAVAILABLE, "Metal shows no device"},
                                   {"family=1006", WEFT_UNSUPPORTED, "family Apple7"},
                                   {"queue:1", WEFT_UNAVAILABLE, "no command queue"}};

START_TEST(refused) {
    weft_device *device;
    weft_device_release(open_device());
    inject(refusals[_i].failures);
    assert_fails(weft_device_open(context, "metal", &device), refusals[_i].code, refusals[_i].words);
    ck_assert_ptr_null(device);
    inject_nothing();
    assert_fails(weft_device_open(context, "metal:1", &device), WEFT_NOT_FOUND, "Metal shows 1 devices");
    weft_device_release(open_device());
}
END_TEST

/* -- a program: y = softmax(x w) */

enum { ROWS = 37, INNER = 19, COLUMNS = 50 };

typedef struct program_case {
    weft_graph *graph;
    weft_tensor *inputs[2], *expected;
} program_case;

static program_case make_case(void) {
    program_case c;
    assert_fine(weft_graph_create(context, "case", &c.graph));
    weft_value *x = weft_graph_input(c.graph, "x", WEFT_F32, 2, (weft_dim[]){ROWS, INNER}),
               *w = weft_graph_input(c.graph, "w", WEFT_F32, 2, (weft_dim[]){INNER, COLUMNS});
    weft_graph_output(c.graph, "y", weft_softmax(c.graph, weft_matmul(c.graph, x, w), -1));
    assert_fine(weft_graph_verify(c.graph));
    for (int i = 0; i < 2; i++) {
        int64_t shape[2] = {i ? INNER : ROWS, i ? COLUMNS : INNER};
        assert_fine(weft_tensor_create(context, WEFT_F32, 2, shape, &c.inputs[i]));
        float *data = weft_tensor_data(c.inputs[i]);
        for (int64_t k = 0; k < shape[0] * shape[1]; k++) data[k] = (float)((k * 7919 + 13) % 1000) / 500.0f - 1.0f;
    }
    assert_fine(weft_graph_interpret(c.graph, 2, c.inputs, 1, &c.expected));
    return c;
}

static void drop_case(program_case *c) {
    for (int i = 0; i < 2; i++) weft_tensor_release(c->inputs[i]);
    weft_tensor_release(c->expected);
    weft_graph_release(c->graph);
}

static weft_status load(const program_case *c, weft_program **out_program) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "metal";
    return weft_compile(c->graph, &options, out_program);
}

static void check_call(const program_case *c, weft_session *session) {
    weft_tensor *y = NULL;
    assert_fine(weft_session_call(session, 2, (weft_tensor *const *)c->inputs, 1, &y));
    const float *a = weft_tensor_data(y), *b = weft_tensor_data(c->expected);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) ck_assert_float_eq_tol(a[i], b[i], 1e-5f);
    weft_tensor_release(y);
}

/* What fails when a program is loaded or called for the first time. */
static const refusal failures[] = {
    {"library:1", WEFT_INVALID_DATA, "does not take the program's source: program_source"},
    {"pipeline:1", WEFT_UNSUPPORTED, "compiles no kernel"},
    {"simd=64", WEFT_UNSUPPORTED, "in 64"},
    {"threads=1", WEFT_UNSUPPORTED, "in simdgroups of 32"},
    {"commands:1", WEFT_OUT_OF_MEMORY, "no command buffer"},
    {"encoder:1", WEFT_OUT_OF_MEMORY, "no command encoder"},
    {"limit=256", WEFT_OUT_OF_MEMORY, "holds 256 bytes at most"},
    {"memory:1", WEFT_OUT_OF_MEMORY, "insufficient memory"},
    {"lost:1", WEFT_UNAVAILABLE, "the device is lost"}};

START_TEST(failing) {
    const refusal *row = &failures[_i];
    program_case c = make_case();
    weft_program *program = NULL;
    weft_session *session = NULL;
    weft_tensor *y = NULL;
    weft_device_release(open_device());
    inject(row->failures);
    weft_status status = load(&c, &program);
    if (!status) status = weft_session_create(program, &session);
    if (!status) status = weft_session_call(session, 2, c.inputs, 1, &y);
    ck_assert_ptr_null(y);
    assert_fails(status, row->code, row->words);
    inject_nothing();
    weft_session_release(session);
    weft_program_release(program);
    assert_fine(load(&c, &program)); /* afterwards everything works, on a device opened anew */
    assert_fine(weft_session_create(program, &session));
    check_call(&c, session);
    check_call(&c, session);
    weft_session_release(session);
    weft_program_release(program);
    drop_case(&c);
}
END_TEST

/* In mid-run: the call says so, so does each one after it, and a program that is loaded again works. */
START_TEST(lost_between_calls) {
    program_case c = make_case();
    weft_program *program;
    weft_session *session;
    weft_tensor *y = NULL;
    assert_fine(load(&c, &program));
    assert_fine(weft_session_create(program, &session));
    check_call(&c, session);
    inject("lost:1");
    assert_fails(weft_session_call(session, 2, c.inputs, 1, &y), WEFT_UNAVAILABLE, "access revoked");
    inject_nothing();
    assert_fails(weft_session_call(session, 2, c.inputs, 1, &y), WEFT_UNAVAILABLE, "open it anew");
    weft_session_release(session);
    weft_program_release(program);
    assert_fine(load(&c, &program));
    assert_fine(weft_session_create(program, &session));
    check_call(&c, session);
    weft_session_release(session);
    weft_program_release(program);
    drop_case(&c);
}
END_TEST

/* A buffer that does not fit once makes room by giving back what is kept unused. */
START_TEST(room_is_made) {
    weft_device *device = open_device();
    void *first, *second;
    assert_fine(device->driver->allocate(device, 1 << 20, &first));
    device->driver->free(device, first, 1 << 20);
    int before = live_objects();
    inject("buffer:1");
    assert_fine(device->driver->allocate(device, 4096, &second));
    ck_assert_int_eq(live_objects(), before);
    device->driver->free(device, second, 4096);
    weft_device_release(device);
}
END_TEST

static int start_again(char **arguments) {
    char path[1000];
    const char *before = getenv("LD_LIBRARY_PATH");
    snprintf(path, sizeof path, "%s%s%s", FAKE_METAL, before ? ":" : "", before ? before : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("WEFT_TEST_METAL", "1", 1);
    execv("/proc/self/exe", arguments);
    return 1;
}

int main(int count, char **arguments) {
    (void)count;
    if (!getenv("WEFT_TEST_METAL")) return start_again(arguments);
    if (access(FAKE_CLANGXX, X_OK)) {
        printf("skipped: no clang++-19 to run Metal kernels with\n");
        return 77;
    }
    Suite *suite = suite_create("metal");
    TCase *driver = tcase_create("driver");
    tcase_add_checked_fixture(driver, set_up, tear_down);
    tcase_set_timeout(driver, 300);
    tcase_add_test(driver, conformance);
    tcase_add_test(driver, copies);
    tcase_add_loop_test(driver, refused, 0, sizeof refusals / sizeof *refusals);
    tcase_add_loop_test(driver, failing, 0, sizeof failures / sizeof *failures);
    tcase_add_test(driver, lost_between_calls);
    tcase_add_test(driver, room_is_made);
    suite_add_tcase(suite, driver);
    suite_add_tcase(suite, case_artifact());
    suite_add_tcase(suite, case_products());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
