/* Dropout, of values and of attention's weights: the share kept, its scale, the gradient behind the same mask, other
   masks in other steps and places, the same ones again in a new session. */
#include <math.h>

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

enum { BATCH = 2, HEADS = 3, QUERIES = 100, KEYS = 64, WEIGHTS = BATCH * HEADS * QUERIES * KEYS };

/* With equal scores and the unit matrix as values the result of attention is its weights. */
static void weights_of(weft_graph *g, uint32_t site, bool recomputed) {
    weft_dim q[4] = {BATCH, HEADS, QUERIES, 8}, k[4] = {BATCH, HEADS, KEYS, 8}, v[4] = {BATCH, HEADS, KEYS, KEYS};
    weft_dim unit[2] = {KEYS, KEYS};
    weft_value *zero = weft_scalar(g, WEFT_F32, 0);
    weft_value *eye = weft_compare(g, WEFT_EQ, weft_iota(g, WEFT_I64, 2, unit, 0), weft_iota(g, WEFT_I64, 2, unit, 1));
    weft_value *rows = weft_broadcast_to(g, weft_convert(g, eye, WEFT_F32), 4, v);
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.dropout = rate, o.dropout_key = weft_nn_dropout_key(g, weft_optim_step(g), 5, site);
    if (recomputed) weft_remat_begin(g, NULL);
    weft_value *y = weft_attention(g, weft_broadcast_to(g, zero, 4, q), weft_broadcast_to(g, zero, 4, k), rows, NULL,
                                   &o),
               *gradient;
    if (recomputed) weft_remat_end(g);
    weft_graph_output(g, "weights", y);
    /* y is linear in the values: d sum(y^2 / 2) / dv = P^T y, on its diagonal sums of squares of columns */
    weft_gradient(g, weft_mul_number(g, weft_reduce_sum(g, weft_square(g, y), 0, NULL, false), 0.5), NULL, 1, &rows,
                  &gradient);
    weft_graph_output(g, "gradient", gradient);
}

START_TEST(test_attention) {
    enum { CALLS = 4 };
    static const uint32_t sites[CALLS] = {0, 0, 1, 0};
    weft_context *context;
    weft_tensor *out[CALLS][2] = {{0}};
    int kept[CALLS] = {0}, equal[CALLS] = {0};
    require(weft_context_create(NULL, &context));
    /* the first step, recomputed, another place, the second step */
    for (int c = 0; c < CALLS; c++) {
        weft_graph *g;
        weft_program *program;
        weft_session *session;
        require(weft_graph_create(context, "attention", &g));
        weights_of(g, sites[c], c == 1);
        require(weft_compile(g, NULL, &program));
        require(weft_session_create(program, &session));
        for (int step = 0; step <= (c == 3); step++) {
            for (int i = 0; i < 2; i++) weft_tensor_release(out[c][i]), out[c][i] = NULL;
            require(weft_session_call(session, 0, NULL, 2, out[c]));
        }
        weft_session_release(session);
        weft_program_release(program);
        weft_graph_release(g);
    }
    for (int c = 0; c < CALLS; c++)
        for (int64_t i = 0; i < WEIGHTS; i++) {
            double got = element(out[c][0], i), want = 1 / (KEYS * (1 - rate));
            kept[c] += got != 0, equal[c] += (got != 0) == (element(out[0][0], i) != 0);
            ck_assert_msg(got == 0 || fabs(got - want) < 1e-4 * want, "weight %g, not %g", got, want);
        }
    double spread = 5 * sqrt(rate * (1 - rate) * WEIGHTS), same = rate * rate + (1 - rate) * (1 - rate);
    for (int c = 0; c < CALLS; c++) ck_assert(fabs(kept[c] - (1 - rate) * WEIGHTS) < spread);
    ck_assert_int_eq(equal[1], WEIGHTS);
    for (int c = 2; c < CALLS; c++) ck_assert(fabs(equal[c] - same * WEIGHTS) < 5 * sqrt(same * (1 - same) * WEIGHTS));
    for (int64_t head = 0; head < BATCH * HEADS; head++) /* the backward pass drops the same ones */
        for (int64_t s = 0; s < KEYS; s++) {
            double want = 0, got = element(out[0][1], (head * KEYS + s) * KEYS + s);
            for (int64_t t = 0; t < QUERIES; t++) {
                double w = element(out[0][0], (head * QUERIES + t) * KEYS + s);
                want += w * w;
            }
            ck_assert_msg(fabs(got - want) < 1e-4 * want, "gradient %g, not %g", got, want);
        }
    for (int c = 0; c < CALLS; c++)
        for (int i = 0; i < 2; i++) weft_tensor_release(out[c][i]);
    weft_context_release(context);
}
END_TEST

/* Tokens that are all alike see each other alike: what is left of a token's weights is their number over T (1 - rate),
   in whole numbers, the same for all columns of a head. */
START_TEST(test_self_attention) {
    enum { B = 2, T = 64, D = 4 };
    weft_context *context;
    weft_graph *g;
    weft_program *program;
    weft_session *session;
    weft_tensor *out[2] = {0};
    double mean = 0, dropped = 0.25;
    int others = 0;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "attention", &g));
    weft_value *x = weft_full(g, WEFT_F32, 3, (weft_dim[]){B, T, D}, 1),
               *row = weft_iota(g, WEFT_I64, 2, (weft_dim[]){D, D}, 0),
               *column = weft_iota(g, WEFT_I64, 2, (weft_dim[]){D, D}, 1);
    weft_value *unit = weft_convert(g, weft_compare(g, WEFT_EQ, row, column), WEFT_F32);
    weft_nn_attention_weights w = {unit, NULL, unit, NULL, unit, NULL, unit, NULL};
    weft_value *key = weft_nn_dropout_key(g, weft_optim_step(g), 3, 1);
    weft_graph_output(g, "whole", weft_nn_self_attention(g, x, &w, 2, NULL, false, 0, NULL));
    weft_graph_output(g, "dropped", weft_nn_self_attention(g, x, &w, 2, NULL, false, dropped, key));
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, 0, NULL, 2, out));
    for (int64_t i = 0; i < B * T * D; i++) {
        double left = element(out[1], i) * T * (1 - dropped);
        ck_assert_double_eq_tol(element(out[0], i), 1, 1e-5);
        ck_assert_double_eq_tol(left, round(left), 1e-3);
        if (i % 2) ck_assert_double_eq_tol(left, element(out[1], i - 1) * T * (1 - dropped), 1e-3);
        mean += left / (B * T * D);
        others += fabs(left - T * (1 - dropped)) > 0.5;
    }
    ck_assert_double_eq_tol(mean, T * (1 - dropped), 1); /* deviation of the mean: 0.22 */
    ck_assert_int_gt(others, B * T * D / 2);
    for (int i = 0; i < 2; i++) weft_tensor_release(out[i]);
    weft_session_release(session);
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
    tcase_add_test(group, test_self_attention);
    tcase_add_test(group, test_attention);
    suite_add_tcase(suite, group);
    return suite;
}
