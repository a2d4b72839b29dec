/* Small inputs and results of calls, which share a copy each way: sizes that grow beyond it and come back, calls that
   are measured among others, results that the caller provides. Every call's numbers are its own, so that a copy too
   few, or a recording of earlier addresses, shows. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>

#include "runtime/session.h"
#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/device.h"
#include "weft/ops.h"

enum { CALLS = 22 };
/* of x; 16 KB are 4096 numbers */
static const int sizes[CALLS] = {10,   10,   10,   10,   10,   10,   10,   10, 3000, 3000, 3000,
                                 3000, 3000, 5000, 5000, 5000, 5000, 5000, 10, 10,   10,   10};

static weft_tensor *input(weft_context *context, int size, int call) {
    weft_tensor *x;
    assert_fine(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){size}, &x));
    for (int i = 0; i < size; i++) ((float *)weft_tensor_data(x))[i] = (float)((i * 7 + call * 13) % 97) / 97 - 0.5f;
    return x;
}

static void check(const weft_tensor *got, const float *x, int size, double scale, int call) {
    const float *y = weft_tensor_data(got);
    ck_assert_int_eq(weft_tensor_shape(got)[0], size);
    for (int i = 0; i < size; i++) {
        double want = tanh((double)x[i]) * scale;
        ck_assert_msg(fabs(want - (double)y[i]) <= 1e-5, "call %d, element %d: %g instead of %g", call, i, (double)y[i],
                      want);
    }
}

START_TEST(sizes_and_marks) {
    weft_context *context;
    weft_graph *g;
    weft_program *program = NULL;
    weft_session *session;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "cuda";
    ck_assert_msg(dlopen(WEFT_FAKE_CUDA, RTLD_NOW) != NULL, "%s", dlerror());
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_graph_create(context, "mail", &g));
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){weft_graph_symbol(g, "N", 1, 100000, 1)});
    weft_value *scale = weft_graph_input(g, "scale", WEFT_F32, 0, NULL);
    weft_graph_output(g, "y", weft_mul(g, weft_tanh(g, x), scale));
    weft_graph_output(g, "twice", weft_add(g, scale, scale));
    assert_fine(weft_graph_verify(g));
    weft_status status = weft_compile(g, &options, &program);
    if (status) { /* without a run-time compiler */
        assert_fails(status, WEFT_UNAVAILABLE, NULL);
        weft_graph_release(g);
        weft_context_release(context);
        return;
    }
    assert_fine(weft_session_create(program, &session));
    weft_tensor *kept[2] = {0};
    for (int call = 0; call < CALLS; call++) {
        float factor = 1 + (float)call;
        weft_tensor *in[2] = {input(context, sizes[call], call), NULL}, *out[2] = {0};
        assert_fine(weft_tensor_create_copy(context, WEFT_F32, 0, NULL, &factor, &in[1]));
        session->timed = call % 7 == 5;
        bool keeps = kept[0] && weft_tensor_shape(kept[0])[0] == sizes[call] && call % 2;
        for (int i = 0; i < 2 && keeps; i++) out[i] = kept[i];
        assert_fine(weft_session_call(session, 2, in, 2, out));
        check(out[0], weft_tensor_data(in[0]), sizes[call], (double)factor, call);
        ck_assert(*(float *)weft_tensor_data(out[1]) == 2 * factor);
        for (int i = 0; i < 2; i++) {
            weft_tensor_release(in[i]);
            if (!keeps) weft_tensor_release(kept[i]);
            kept[i] = out[i];
        }
    }
    for (int i = 0; i < 2; i++) weft_tensor_release(kept[i]);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

void add_mail_tests(Suite *suite) {
    TCase *tests = tcase_create("mail");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, sizes_and_marks);
    suite_add_tcase(suite, tests);
}
