/* Faults of adapters: none, one in software, one that says too little, one that is lost in mid-run, one with little
   room. Vulkan's loader is fake/vulkan.c in front of the real one. And schedules under tight limits. See faults.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/faults.h"
#include "weft/ops.h"

typedef struct log_text {
    char text[2000];
} log_text;

static void keep(void *self, weft_log_level level, const char *message) {
    log_text *log = self;
    size_t used = strlen(log->text);
    (void)level;
    snprintf(log->text + used, sizeof log->text - used, "%s\n", message);
}

static weft_context *make_context(log_text *log) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_context *context;
    log->text[0] = '\0';
    options.log = keep;
    options.log_self = log;
    assert_fine(weft_context_create(&options, &context));
    return context;
}

/* false: this machine has no Vulkan device at all. */
static bool has_vulkan(void) {
    weft_context *context;
    weft_device *device;
    unsetenv("WEFT_FAKE_VULKAN");
    assert_fine(weft_context_create(NULL, &context));
    weft_status status = weft_device_open(context, "vulkan", &device);
    if (status) printf("  no Vulkan device: %s\n", weft_status_message(status));
    bool found = !status;
    weft_status_release(status);
    if (found) weft_device_release(device);
    weft_context_release(context);
    return found;
}

static const struct {
    const char *says;
    weft_code code;
    const char *words;
} refusals[] = {{"devices=0", WEFT_UNAVAILABLE, "Vulkan shows no device"},
                {"version=1", WEFT_UNSUPPORTED, "speaks Vulkan 1.1"},
                {"threads=128", WEFT_UNSUPPORTED, "128 threads"}};

START_TEST(adapter_refused) {
    log_text log;
    weft_device *device;
    if (!has_vulkan()) return;
    weft_context *context = make_context(&log);
    setenv("WEFT_FAKE_VULKAN", refusals[_i].says, 1);
    assert_fails(weft_device_open(context, "vulkan", &device), refusals[_i].code, refusals[_i].words);
    ck_assert_ptr_null(device);
    unsetenv("WEFT_FAKE_VULKAN");
    assert_fine(weft_device_open(context, "vulkan", &device));
    weft_device_release(device);
    weft_context_release(context);
}
END_TEST

START_TEST(software_is_named) {
    log_text log;
    weft_device *device;
    if (!has_vulkan()) return;
    weft_context *context = make_context(&log);
    assert_fine(weft_device_open(context, "vulkan", &device));
    weft_device_info info;
    weft_device_get_info(device, &info);
    if (strstr(info.name, "llvmpipe")) {
        ck_assert_msg(strstr(log.text, "llvmpipe") && strstr(log.text, "in software"), "the log says: %s", log.text);
    } else
        ck_assert_msg(!strstr(log.text, "in software"), "the log says: %s", log.text);
    weft_device_release(device);
    weft_context_release(context);
}
END_TEST

/* -- a program on a device that goes */

enum { SIDE = 64 };

typedef struct running {
    log_text log;
    weft_context *context;
    weft_graph *graph;
    weft_tensor *x, *expected;
    weft_program *program;
    weft_session *session;
} running;

static weft_status load(running *r) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "vulkan";
    WEFT_TRY(weft_compile(r->graph, &options, &r->program), "loading");
    return weft_session_create(r->program, &r->session);
}

static void unload(running *r) {
    weft_session_release(r->session);
    weft_program_release(r->program);
    r->session = NULL;
    r->program = NULL;
}

/* y = softmax(x x) x */
static void start(running *r) {
    weft_dim shape[2] = {SIDE, SIDE};
    r->context = make_context(&r->log);
    assert_fine(weft_graph_create(r->context, "running", &r->graph));
    weft_value *x = weft_graph_input(r->graph, "x", WEFT_F32, 2, shape);
    weft_value *scores = weft_softmax(r->graph, weft_matmul(r->graph, x, x), -1);
    weft_graph_output(r->graph, "y", weft_matmul(r->graph, scores, x));
    assert_fine(weft_graph_verify(r->graph));
    assert_fine(weft_tensor_create(r->context, WEFT_F32, 2, shape, &r->x));
    float *data = weft_tensor_data(r->x);
    for (int i = 0; i < SIDE * SIDE; i++) data[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    assert_fine(weft_graph_interpret(r->graph, 1, &r->x, 1, &r->expected));
    assert_fine(load(r));
}

static void finish(running *r) {
    unload(r);
    weft_tensor_release(r->x);
    weft_tensor_release(r->expected);
    weft_graph_release(r->graph);
    weft_context_release(r->context);
}

static void check_call(running *r) {
    weft_tensor *y = NULL;
    assert_fine(weft_session_call(r->session, 1, &r->x, 1, &y));
    const float *a = weft_tensor_data(y), *b = weft_tensor_data(r->expected);
    for (int i = 0; i < SIDE * SIDE; i++) ck_assert_float_eq_tol(a[i], b[i], 1e-4f);
    weft_tensor_release(y);
}

START_TEST(lost_in_mid_run) {
    static running r;
    weft_tensor *y = NULL;
    if (!has_vulkan()) return;
    start(&r);
    check_call(&r);
    setenv("WEFT_FAKE_VULKAN", "lost:1", 1);
    assert_fails(weft_session_call(r.session, 1, &r.x, 1, &y), WEFT_UNAVAILABLE, "load the program again");
    ck_assert_ptr_null(y);
    unsetenv("WEFT_FAKE_VULKAN");
    assert_fails(weft_session_call(r.session, 1, &r.x, 1, &y), WEFT_UNAVAILABLE, "load the program again");
    unload(&r);
    assert_fine(load(&r)); /* a device opened anew */
    check_call(&r);
    finish(&r);
}
END_TEST

/* No memory, or one allocation larger than the device takes: the status names what is large; the next call works. */
static const char *const rooms[] = {"memory:1", "allocation=8192"};

START_TEST(little_room) {
    static running r;
    weft_tensor *y = NULL;
    if (!has_vulkan()) return;
    start(&r);
    unload(&r);
    if (_i) setenv("WEFT_FAKE_VULKAN", rooms[_i], 1); /* the device reads its limits when it is opened */
    weft_status status = load(&r);
    setenv("WEFT_FAKE_VULKAN", rooms[_i], 1);
    if (!status) status = weft_session_call(r.session, 1, &r.x, 1, &y);
    assert_fails(status, WEFT_OUT_OF_MEMORY, "the largest: ");
    ck_assert_ptr_null(y);
    unsetenv("WEFT_FAKE_VULKAN");
    unload(&r);
    assert_fine(load(&r));
    check_call(&r);
    finish(&r);
}
END_TEST

/* -- schedules under tight limits: another schedule is chosen, or a status says that there is none */

static const struct {
    int threads, shared_bytes, bindings;
} limits[] = {{256, 16 << 10, 8}, {128, 16 << 10, 8}, {64, 8 << 10, 8}, {256, 4 << 10, 4}, {32, 2 << 10, 3}};
enum { LIMITS = sizeof limits / sizeof *limits };
static const char *const limited[][2] = {{"webgpu", "wgsl"}, {"vulkan", "vulkan1.2"}, {"metal", "apple7"}};
enum { LIMITED = sizeof limited / sizeof *limited };

START_TEST(schedules_keep_limits) {
    weft_capability tight = *weft_capability_find(limited[_i / LIMITS][0], limited[_i / LIMITS][1]);
    char why[WORDS] = "";
    weft_context *context;
    int built = 0;
    tight.threads_max = limits[_i % LIMITS].threads;
    tight.shared_bytes = limits[_i % LIMITS].shared_bytes;
    tight.bindings_max = limits[_i % LIMITS].bindings;
    assert_fine(weft_context_create(NULL, &context));
    for (int m = POINTWISE; m <= SYMBOLIC; m++) {
        subject s;
        if (!subject_try(context, (fault_model)m, &tight, &s, why)) {
            printf("  %s, %d threads, %d bytes, model %d: %s\n", tight.target, tight.threads_max, tight.shared_bytes, m,
                   why);
            fflush(stdout);
            continue;
        }
        built++;
        for (int i = 0; i < s.lowered.program->kernel_count; i++)
            ck_assert_int_le(s.lowered.kernels[i]->threads, tight.threads_max);
        ck_assert_msg(subject_verify(&s, why) == RIGHT, "model %d: %s", m, why);
        ck_assert_msg(subject_simulate(&s, true, why) == RIGHT, "model %d: %s", m, why);
        subject_drop(&s);
    }
    weft_context_release(context);
    ck_assert_int_ge(built, _i % LIMITS < 4 ? 6 : 4);
}
END_TEST

TCase *case_adapters(void) {
    TCase *tests = tcase_create("adapters");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, adapter_refused, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, software_is_named);
    tcase_add_test(tests, lost_in_mid_run);
    tcase_add_loop_test(tests, little_room, 0, sizeof rooms / sizeof *rooms);
    tcase_add_loop_test(tests, schedules_keep_limits, 0, LIMITS * LIMITED);
    return tests;
}
