/* Dropout: the share kept, its scale, the gradient behind the same mask, other masks in other steps and places, the
   same ones again in a new session. */
#include "tests/support/golden.h"
#include "weft/nn.h"
#include "weft/transform.h"

enum { COUNT = 100000, OUTPUTS = 3 };
static const double rate = 0.3;

static void call(weft_session *session, weft_tensor *x, weft_tensor **out) {
    for (int i = 0; i < OUTPUTS; i++) out[i] = NULL;
    require(weft_session_call(session, 1, &x, OUTPUTS, out));
}

static int same_zeros(const weft_tensor *a, const weft_tensor *b) {
    int same = 0;
    for (int64_t i = 0; i < COUNT; i++) same += (element(a, i) == 0) == (element(b, i) == 0);
    return same;
}

START_TEST(test_dropout) {
    weft_context *context;
    weft_graph *g;
    weft_program *program;
    weft_session *session, *again;
    weft_tensor *x, *first[OUTPUTS], *second[OUTPUTS], *third[OUTPUTS];
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "dropout", &g));
    weft_value *in = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){COUNT}), *gradient;
    weft_value *step = weft_optim_step(g), *y = weft_nn_dropout(g, in, rate, step, 5, 0);
    weft_gradient(g, weft_reduce_sum(g, weft_square(g, y), 0, NULL, false), NULL, 1, &in, &gradient);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "other", weft_nn_dropout(g, in, rate, step, 5, 1));
    weft_graph_output(g, "gradient", gradient);
    ck_assert_ptr_eq(weft_nn_dropout(g, in, 0, step, 5, 2), in);
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_create(program, &again));
    require(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){COUNT}, &x));
    for (int i = 0; i < COUNT; i++) ((float *)weft_tensor_data(x))[i] = 1 + (float)(i % 7);
    call(session, x, first);
    call(session, x, second);
    call(again, x, third);
    int kept = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double value = element(x, i), want = value / (1 - rate), got = element(first[0], i);
        bool here = got != 0;
        kept += here;
        ck_assert(!here || fabs(got - want) < 1e-5 * want);
        double slope = here ? 2 * want / (1 - rate) : 0;
        ck_assert(fabs(element(first[2], i) - slope) <= 1e-5 * slope);
        ck_assert(element(third[0], i) == got);
    }
    /* five standard deviations of the number kept, and of the number of equal places of two masks */
    ck_assert_msg(fabs(kept - (1 - rate) * COUNT) < 5 * sqrt(rate * (1 - rate) * COUNT), "%d kept", kept);
    double equal = rate * rate + (1 - rate) * (1 - rate), spread = 5 * sqrt(equal * (1 - equal) * COUNT);
    ck_assert(fabs(same_zeros(first[0], second[0]) - equal * COUNT) < spread);
    ck_assert(fabs(same_zeros(first[0], first[1]) - equal * COUNT) < spread);
    for (int i = 0; i < OUTPUTS; i++) {
        weft_tensor_release(first[i]);
        weft_tensor_release(second[i]);
        weft_tensor_release(third[i]);
    }
    weft_tensor_release(x);
    weft_session_release(session);
    weft_session_release(again);
    weft_program_release(program);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

Suite *dropout_suite(void) {
    Suite *suite = suite_create("dropout");
    TCase *group = tcase_create("masks");
    tcase_set_timeout(group, 100);
    tcase_add_test(group, test_dropout);
    suite_add_tcase(suite, group);
    return suite;
}
