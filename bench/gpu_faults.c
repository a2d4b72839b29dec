/* What every driver must do (tests/support/conformance.h), on a card; and what can go wrong there, provoked: a device
   that is not there, a full card (the status names the largest tensors, memory comes back, the next call works), code
   for an older architecture (PTX), one program called by several threads, a kernel that faults. One line per check;
   last line "faults: N of M as expected". A fault ends CUDA's work in a process, so there are two calls:
   weft_gpu_faults, and weft_gpu_faults named, which waits for each kernel and must hear which one it was. Read next:
   runtime/drivers/cuda/README.md. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/unit.h"
#include "runtime/session.h"
#include "tests/support/conformance.h"
#include "weft/npy.h"
#include "weft/ops.h"

enum { DEPTH = 16, SMALL = 257, LARGE = 30000, HOGS_MAX = 512, THREADS = 4, CALLS = 20 };
static const size_t hog_bytes = (size_t)1 << 30;

typedef struct checks {
    weft_context *context;
    weft_graph *graph;
    weft_program *program;
    weft_tensor *small, *expected, *large;
    int done, good;
} checks;

static void check(checks *c, const char *what, bool good, const char *detail) {
    c->done++, c->good += good;
    printf("%-7s %s%s%s\n", good ? "ok" : "WRONG", what, detail[0] ? ": " : "", detail);
    fflush(stdout);
}

static void check_status(checks *c, const char *what, weft_code expected, const char *words, weft_status status) {
    char text[1500] = "";
    if (status) (void)weft_status_format(status, text, sizeof text);
    check(c, what, weft_status_code(status) == expected && (!words || strstr(text, words)), text);
    weft_status_release(status);
}

/* softmax(x x^T) x: the temporaries are N x N. */
static weft_status make_graph(checks *c) {
    WEFT_TRY(weft_graph_create(c->context, "faults", &c->graph), "making a graph");
    weft_graph *g = c->graph;
    weft_dim n = weft_graph_symbol(g, "N", 1, LARGE, 1), shape[2] = {n, DEPTH};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, shape);
    static const int64_t swap[2] = {1, 0};
    weft_value *scores = weft_softmax(g, weft_matmul(g, x, weft_transpose(g, x, swap)), -1);
    weft_graph_output(g, "y", weft_matmul(g, scores, x));
    return weft_graph_verify(g);
}

static weft_status make_tensor(checks *c, int64_t n, weft_tensor **out) {
    WEFT_TRY(weft_tensor_create(c->context, WEFT_F32, 2, (int64_t[]){n, DEPTH}, out), "input");
    float *data = weft_tensor_data(*out);
    for (int64_t i = 0; i < n * DEPTH; i++) data[i] = (float)((i * 7919 + 13) % 1000) / 1000.0f - 0.5f;
    return NULL;
}

static bool same(const weft_tensor *a, const weft_tensor *b) {
    const float *x = weft_tensor_data(a), *y = weft_tensor_data(b);
    for (int64_t i = 0; i < weft_tensor_element_count(a); i++)
        if (!(x[i] - y[i] < 1e-4f && y[i] - x[i] < 1e-4f)) return false;
    return true;
}

static weft_status call_small(checks *c, weft_session *session, bool *out_right) {
    weft_tensor *y = NULL;
    *out_right = false;
    WEFT_TRY(weft_session_call(session, 1, &c->small, 1, &y), "small call");
    *out_right = same(y, c->expected);
    weft_tensor_release(y);
    return NULL;
}

static void check_small(checks *c, const char *what, weft_session *session) {
    bool right = false;
    weft_status status = call_small(c, session, &right);
    char text[1000] = "";
    if (status) (void)weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    check(c, what, right, text);
}

static void check_full_card(checks *c, weft_device *device) {
    static void *hogs[HOGS_MAX];
    int count = 0;
    weft_session *session = NULL;
    weft_tensor *y = NULL;
    weft_status status = weft_session_create(c->program, &session);
    if (status) {
        check_status(c, "a session", WEFT_OK, NULL, status);
        return;
    }
    check_small(c, "a call before the card is full", session);
    while (count < HOGS_MAX && !status)
        status = device->driver->allocate(device, hog_bytes, &hogs[count]), count += !status;
    char what[100];
    snprintf(what, sizeof what, "the card is full after %d GiB", count);
    check_status(c, what, WEFT_OUT_OF_MEMORY, NULL, status);
    check_status(c, "a call on a full card names the largest tensors", WEFT_OUT_OF_MEMORY,
                 "the largest:", weft_session_call(session, 1, &c->large, 1, &y));
    for (int i = 0; i < count; i++) device->driver->free(device, hogs[i], hog_bytes);
    check_small(c, "the next call works", session);
    check_status(c, "the large call works once there is room", WEFT_OK, NULL,
                 weft_session_call(session, 1, &c->large, 1, &y));
    weft_tensor_release(y);
    weft_session_trim(session);
    check_small(c, "a call after trimming", session);
    weft_session_release(session);
}

/* Code for an older architecture carries PTX, which the driver compiles for this card. */
static void check_older(checks *c, weft_device *device) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    weft_unit *unit;
    weft_program *program = NULL;
    weft_session *session = NULL;
    weft_status status = weft_unit_compile(c->graph, NULL, weft_capability_find("cuda", "sm_80"), &options, &unit);
    if (!status) status = weft_unit_load(unit, device, NULL, &program);
    if (!status) status = weft_session_create(program, &session);
    if (status)
        check_status(c, "code for sm_80 on this card", WEFT_OK, NULL, status);
    else
        check_small(c, "code for sm_80 on this card", session);
    weft_session_release(session);
    weft_program_release(program);
}

typedef struct caller {
    checks *c;
    pthread_t thread;
    bool right;
} caller;

static void *call_often(void *self) {
    caller *own = self;
    weft_session *session = NULL;
    weft_status status = weft_session_create(own->c->program, &session);
    own->right = !status;
    for (int i = 0; i < CALLS && own->right; i++) {
        bool right;
        status = call_small(own->c, session, &right);
        own->right = !status && right;
        weft_status_release(status);
        status = NULL;
    }
    weft_status_release(status);
    weft_session_release(session);
    return NULL;
}

static void check_threads(checks *c) {
    caller callers[THREADS];
    int started = 0, right = 0;
    for (; started < THREADS; started++) {
        callers[started] = (caller){.c = c};
        if (pthread_create(&callers[started].thread, NULL, call_often, &callers[started])) break;
    }
    for (int i = 0; i < started; i++) pthread_join(callers[i].thread, NULL), right += callers[i].right;
    check(c, "one program called by four threads", right == THREADS, "");
}

/* From the third call on a recording is replayed; a call of another shape drops it. Same inputs, same bits. */
static void check_recording(checks *c) {
    enum { REPLAYS = 8 };
    weft_session *session = NULL;
    weft_tensor *first = NULL, *y = NULL;
    bool same_bits = true;
    weft_status status = weft_session_create(c->program, &session);
    if (!status) status = weft_session_call(session, 1, &c->small, 1, &first);
    for (int i = 0; !status && i < REPLAYS; i++) {
        status = weft_session_call(session, 1, &c->small, 1, &y);
        if (!status) same_bits &= !memcmp(weft_tensor_data(first), weft_tensor_data(y), weft_tensor_bytes(first));
        weft_tensor_release(y), y = NULL;
    }
    if (status)
        check_status(c, "conformance: recordings", WEFT_OK, NULL, status);
    else
        check(c, "conformance: recordings give the bits of single launches", same_bits, "");
    weft_tensor_release(first);
    weft_session_release(session);
}

static void observe(void *self, int step) { (void)self, (void)step; }

/* A launch of the main region that reads or writes a temporary gets an address that is nobody's. */
static bool misdirect(weft_session *session) {
    const weft_resolved_region *steps = &session->frame.regions[WEFT_REGION_MAIN];
    for (int i = 0; i < steps->count; i++) {
        weft_resolved_step *step = &steps->steps[i];
        for (int b = 0; step->variant && b < step->variant->buffer_count; b++)
            if (session->frame.data->buffers[step->variant->buffers[b]].kind == WEFT_BUFFER_TEMP)
                return step->buffers[b] = (void *)(uintptr_t)4096, true;
    }
    return false;
}

/* A kernel that faults ends CUDA's work in its process: the call says so, with steps that are waited for it says which;
   everything is given back, and a device opened anew says the same. Last: nothing works after it. */
static void check_fault(checks *c, weft_device **device, bool named) {
    weft_session *session = NULL;
    weft_tensor *y = NULL;
    bool right = false;
    weft_status status = weft_session_create(c->program, &session);
    if (!status) status = call_small(c, session, &right);
    if (!status && !misdirect(session)) status = WEFT_STATUS(WEFT_INTERNAL, "no temporary to misdirect");
    if (status) {
        check_status(c, "before a fault", WEFT_OK, NULL, status);
    } else {
        if (named) session->frame.observe = observe;
        check_status(c, named ? "a kernel that faults, waited for, is named" : "a kernel that faults is a status",
                     WEFT_INTERNAL, named ? "kernel " : "start it anew",
                     weft_session_call(session, 1, &c->small, 1, &y));
    }
    weft_tensor_release(y);
    weft_session_release(session);
    weft_program_release(c->program);
    weft_device_release(*device);
    c->program = NULL, *device = NULL;
    check_status(c, "a device opened after a fault", WEFT_INTERNAL, "start it anew",
                 weft_device_open(c->context, "cuda:0", device));
}

static weft_status prepare(checks *c) {
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "cuda";
    WEFT_TRY(make_graph(c), "preparing");
    WEFT_TRY(make_tensor(c, SMALL, &c->small), "preparing");
    WEFT_TRY(make_tensor(c, LARGE, &c->large), "preparing");
    WEFT_TRY(weft_graph_interpret(c->graph, 1, &c->small, 1, &c->expected), "preparing");
    return weft_compile(c->graph, &options, &c->program);
}

int main(int count, char **arguments) {
    checks c = {0};
    weft_device *device = NULL, *none = NULL;
    weft_status status = weft_context_create(NULL, &c.context);
    if (!status) status = weft_device_open(c.context, "cuda:0", &device);
    if (!status) status = prepare(&c);
    if (status) {
        check_status(&c, "preparing", WEFT_OK, NULL, status);
    } else {
        check_status(&c, "conformance: identity", WEFT_OK, NULL, conformance_identity(c.context, device, "cuda:0"));
        check_status(&c, "conformance: memory", WEFT_OK, NULL, conformance_memory(device));
        check_status(&c, "conformance: marks", WEFT_OK, NULL, conformance_marks(device));
        check_recording(&c);
        check_status(&c, "a card that is not there", WEFT_NOT_FOUND, NULL,
                     weft_device_open(c.context, "cuda:99", &none));
        check_older(&c, device);
        check_threads(&c);
        check_full_card(&c, device);
        check_fault(&c, &device, count > 1 && !strcmp(arguments[1], "named"));
    }
    printf("faults: %d of %d as expected\n", c.good, c.done);
    weft_program_release(c.program);
    weft_graph_release(c.graph);
    weft_tensor_release(c.small), weft_tensor_release(c.expected), weft_tensor_release(c.large);
    weft_device_release(device);
    weft_context_release(c.context);
    return c.good == c.done ? 0 : 1;
}
