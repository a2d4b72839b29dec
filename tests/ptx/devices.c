/* Two cards in one process: the ordinal as an argument of loading and compiling, one thread that uses both in turn, two
   threads that use one each at once. The tests' library refuses memory, code, streams and graphs of the other card. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/device.h"
#include "weft/ops.h"
#include "weft/runtime.h"

enum { CARDS = 2, ROWS = 19, WIDTH = 24, CALLS = 6 };
static const char *const names[CARDS] = {"cuda:0", "cuda:1"};

typedef struct rig {
    weft_context *context;
    weft_graph *graph;
    weft_tensor *input, *expected;
    weft_program *programs[CARDS];
    int (*launches)(int card);
} rig;

static weft_status build(rig *r) {
    WEFT_TRY(weft_graph_create(r->context, "cards", &r->graph), "graph");
    weft_graph *g = r->graph;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){ROWS, WIDTH});
    weft_value *y = weft_softmax(g, weft_matmul(g, x, weft_transpose(g, x, NULL)), -1);
    weft_graph_output(g, "y", weft_matmul(g, y, x));
    return weft_graph_verify(g);
}

/* false: without a run-time compiler there is nothing to test. */
static bool set_up(rig *r, bool from_artifact) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    char path[] = "/tmp/weft-cards-XXXXXX";
    int file = mkstemp(path);
    void *library = dlopen(WEFT_FAKE_CUDA, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    *r = (rig){0};
    *(void **)&r->launches = dlsym(library, "card_launches");
    assert_fine(weft_context_create(NULL, &r->context));
    assert_fine(build(r));
    assert_fine(weft_tensor_create(r->context, WEFT_F32, 2, (int64_t[]){ROWS, WIDTH}, &r->input));
    float *data = weft_tensor_data(r->input);
    for (int i = 0; i < ROWS * WIDTH; i++) data[i] = (float)(i * 7919 % 1000) / 1000.0f - 0.5f;
    assert_fine(weft_graph_interpret(r->graph, 1, &r->input, 1, &r->expected));
    options.targets = "cuda:sm_80";
    weft_status status = weft_compile_file(r->graph, &options, path);
    for (int i = 0; i < CARDS && !status; i++) {
        weft_load_options load = WEFT_LOAD_OPTIONS_INIT;
        load.device = options.targets = names[i];
        status = from_artifact ? weft_program_load(r->context, path, &load, &r->programs[i])
                               : weft_compile(r->graph, &options, &r->programs[i]);
    }
    (void)close(file);
    (void)unlink(path);
    if (!status) return true;
    assert_fails(status, WEFT_UNAVAILABLE, NULL);
    return false;
}

static void tear_down(rig *r) {
    for (int i = 0; i < CARDS; i++) weft_program_release(r->programs[i]);
    weft_tensor_release(r->input);
    weft_tensor_release(r->expected);
    weft_graph_release(r->graph);
    weft_context_release(r->context);
}

/* Elements that are wrong; -1: the call failed. */
static int call(const rig *r, weft_session *session) {
    weft_tensor *y = NULL;
    weft_status status = weft_session_call(session, 1, &r->input, 1, &y);
    int wrong = 0;
    if (status) {
        char text[2000];
        weft_status_format(status, text, sizeof text);
        printf("%s\n", text);
        weft_status_release(status);
        return -1;
    }
    const float *got = weft_tensor_data(y), *want = weft_tensor_data(r->expected);
    for (int i = 0; i < ROWS * WIDTH; i++) wrong += !(fabsf(got[i] - want[i]) < 1e-4f);
    weft_tensor_release(y);
    return wrong;
}

START_TEST(in_turns) {
    rig r;
    weft_session *sessions[CARDS];
    if (set_up(&r, _i == 0)) {
        int before[CARDS];
        for (int i = 0; i < CARDS; i++) assert_fine(weft_session_create(r.programs[i], &sessions[i]));
        for (int i = 0; i < CARDS; i++) before[i] = r.launches(i);
        for (int n = 0; n < CALLS; n++)
            for (int i = 0; i < CARDS; i++) ck_assert_int_eq(call(&r, sessions[i]), 0);
        ck_assert_int_gt(r.launches(0), before[0]);
        ck_assert_int_eq(r.launches(0) - before[0], r.launches(1) - before[1]);
        for (int i = 0; i < CARDS; i++) weft_session_release(sessions[i]);
    }
    tear_down(&r);
}
END_TEST

typedef struct caller {
    const rig *r;
    int card, wrong;
    pthread_t thread;
} caller;

static void *call_often(void *self) {
    caller *own = self;
    weft_session *session = NULL;
    weft_status status = weft_session_create(own->r->programs[own->card], &session);
    own->wrong = status ? -1 : 0;
    weft_status_release(status);
    for (int i = 0; i < CALLS && !own->wrong; i++) own->wrong = call(own->r, session);
    weft_session_release(session);
    return NULL;
}

/* Two threads a card. */
START_TEST(at_once) {
    rig r;
    if (set_up(&r, true)) {
        caller callers[2 * CARDS];
        for (int i = 0; i < 2 * CARDS; i++) {
            callers[i] = (caller){.r = &r, .card = i % CARDS};
            ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
        }
        for (int i = 0; i < 2 * CARDS; i++) {
            (void)pthread_join(callers[i].thread, NULL);
            ck_assert_msg(callers[i].wrong == 0, "thread %d on %s: %d", i, names[i % CARDS], callers[i].wrong);
        }
    }
    tear_down(&r);
}
END_TEST

START_TEST(ordinals) {
    weft_context *context;
    weft_device *devices[CARDS], *none;
    weft_device_info info;
    ck_assert_msg(dlopen(WEFT_FAKE_CUDA, RTLD_NOW) != NULL, "%s", dlerror());
    assert_fine(weft_context_create(NULL, &context));
    for (int i = 0; i < CARDS; i++) {
        assert_fine(weft_device_open(context, names[i], &devices[i]));
        weft_device_get_info(devices[i], &info);
        ck_assert_int_eq(info.ordinal, i);
    }
    ck_assert_ptr_ne(devices[0], devices[1]);
    assert_fails(weft_device_open(context, "cuda:2", &none), WEFT_NOT_FOUND, "the driver shows 2 devices");
    for (int i = 0; i < CARDS; i++) weft_device_release(devices[i]);
    weft_context_release(context);
}
END_TEST

void add_device_tests(Suite *suite) {
    TCase *tests = tcase_create("devices");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, ordinals);
    tcase_add_loop_test(tests, in_turns, 0, 2);
    tcase_add_test(tests, at_once);
    suite_add_tcase(suite, tests);
}
