/* Schedules at t = 0 .. 49 against tests/golden/optim.py: one graph maps a vector of steps to values. */
#include "tests/support/golden.h"
#include "weft/optim.h"

enum { POINTS = 50 };

typedef struct schedule_case {
    const char *name;
    weft_rate_schedule schedule;
} schedule_case;

#define SCHEDULE(kind, ...) {sizeof(weft_rate_schedule), WEFT_RATE_SCHEDULE_##kind, __VA_ARGS__}
/* base, final, start, warmup, total, decay_steps, power, shape */
static const schedule_case cases[] = {
    {"linear", SCHEDULE(LINEAR, 0.1, 0.01, 0, 0, 40, 0, 0, WEFT_DECAY_LINEAR)},
    {"cosine", SCHEDULE(COSINE, 0.1, 0.01, 0, 0, 40, 0, 0, WEFT_DECAY_LINEAR)},
    {"warmup_cosine", SCHEDULE(COSINE, 0.1, 0.01, 0.01, 10, 40, 0, 0, WEFT_DECAY_LINEAR)},
    {"polynomial", SCHEDULE(POLYNOMIAL, 0.1, 0, 0, 0, 40, 0, 2, WEFT_DECAY_LINEAR)},
    {"exponential", SCHEDULE(EXPONENTIAL, 0.1, 0, 0, 0, 0, 0, 0.9, WEFT_DECAY_LINEAR)},
    {"cyclic", SCHEDULE(CYCLIC, 0.1, 0.01, 0, 0, 0, 7, 0, WEFT_DECAY_LINEAR)},
    {"inverse_sqrt", SCHEDULE(INVERSE_SQRT, 0.1, 0, 0, 10, 0, 0, 0, WEFT_DECAY_LINEAR)},
    {"wsd_linear", SCHEDULE(WSD, 0.1, 0.001, 0, 5, 45, 15, 0, WEFT_DECAY_LINEAR)},
    {"wsd_sqrt", SCHEDULE(WSD, 0.1, 0.001, 0, 5, 45, 15, 0, WEFT_DECAY_SQRT)},
    {"wsd_square", SCHEDULE(WSD, 0.1, 0.001, 0, 5, 45, 15, 0, WEFT_DECAY_SQUARE)},
    {"wsd_cosine", SCHEDULE(WSD, 0.1, 0.001, 0, 5, 45, 15, 0, WEFT_DECAY_COSINE)},
};

static void compare(const schedule_case *c, weft_dtype dtype) {
    weft_context *context;
    weft_graph *g;
    weft_tensor *steps, *got = NULL;
    char name[64];
    require(weft_context_create(NULL, &context));
    weft_safetensors *file = golden_open(context, "optim.safetensors");
    snprintf(name, sizeof name, "schedule/%s", c->name);
    weft_tensor *want = golden_tensor(context, file, name, WEFT_F64);
    require(weft_graph_create(context, c->name, &g));
    weft_value *step = weft_graph_input(g, "step", WEFT_I64, 1, (weft_dim[]){POINTS});
    weft_value *value = weft_rate_schedule_value(g, &c->schedule, step, dtype);
    weft_graph_output(g, "value", weft_broadcast_to(g, value, 1, (weft_dim[]){POINTS}));
    require(weft_tensor_create(context, WEFT_I64, 1, (int64_t[]){POINTS}, &steps));
    for (int i = 0; i < POINTS; i++) ((int64_t *)weft_tensor_data(steps))[i] = i + 1;
    weft_program *program;
    weft_session *session;
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, 1, &steps, 1, &got));
    for (int i = 0; i < POINTS; i++) {
        double off = element(got, i) - element(want, i), tolerance = dtype == WEFT_F64 ? 1e-15 : 1e-7;
        ck_assert_msg(off <= tolerance && -off <= tolerance, "%s at t = %d: %.17g, not %.17g", c->name, i,
                      element(got, i), element(want, i));
    }
    weft_session_release(session);
    weft_program_release(program);
    weft_tensor_release(steps);
    weft_tensor_release(got);
    weft_tensor_release(want);
    weft_graph_release(g);
    weft_safetensors_release(file);
    weft_context_release(context);
}

START_TEST(test_schedule) {
    compare(&cases[_i], WEFT_F64);
    compare(&cases[_i], WEFT_F32);
}
END_TEST

START_TEST(test_names) {
    for (int i = 0; i < WEFT_RATE_SCHEDULE_COUNT; i++)
        ck_assert_int_eq(weft_rate_schedule_find(weft_rate_schedule_name((weft_rate_schedule_kind)i)), i);
}
END_TEST

Suite *schedule_suite(void) {
    Suite *suite = suite_create("schedule");
    TCase *group = tcase_create("values");
    tcase_add_loop_test(group, test_schedule, 0, sizeof cases / sizeof *cases);
    tcase_add_test(group, test_names);
    suite_add_tcase(suite, group);
    return suite;
}
