/* Every optimizer over 20 steps against the trajectories of tests/golden/optim.py, compiled, in f64 and f32: the loss's
   gradient, clipping, the update and averages in one program per case, parameters in its states. */
#include <string.h>

#include "tests/optim/network.h"

typedef struct optim_case {
    const char *name;
    weft_optim_method method;
    double rate, decay;
    void (*change)(weft_optim_options *o);
    double bias_decay_scale; /* of b; w has 1 */
    double clip_norm, clip_value;
    double tolerance; /* in f32; 0 = 1e-5. Below 0: not run there, where rounding decides which trial of a search is the
                         last */
    bool square;      /* the first 3 rows of w and columns of x */
    bool searches;    /* lbfgs: along the line */
} optim_case;

static void momentum(weft_optim_options *o) { o->beta1 = 0.9; }
static void nesterov(weft_optim_options *o) { o->beta1 = 0.9, o->nesterov = true; }
static void amsgrad(weft_optim_options *o) { o->amsgrad = true, o->beta2 = 0.7; }
static void beta95(weft_optim_options *o) { o->beta2 = 0.95; }

static void schedule_free(weft_optim_options *o) { o->warmup = 5, o->polynomial = 1; }
static void ademamix_warm(weft_optim_options *o) { o->alpha_warmup = 8, o->beta3_warmup = 12; }
static void lars(weft_optim_options *o) { o->trust = 0.01; }
static void sophia(weft_optim_options *o) { o->period = 3, o->curvature_scale = 8; }
static void shampoo(weft_optim_options *o) { o->epsilon = 1e-3, o->period = 1; }
static void shampoo_period(weft_optim_options *o) { o->epsilon = 1e-3, o->period = 4; }
static void soap(weft_optim_options *o) { o->beta1 = 0.9, o->period = 3, o->size_max = 4; }
static void galore(weft_optim_options *o) { o->rank = 2, o->period = 4, o->alpha = 0.5; }
static void history(weft_optim_options *o) { o->history = 3; }
static void match_rms(weft_optim_options *o) { o->match_rms = true; }
static void lookahead(weft_optim_options *o) { o->lookahead = 4; }

static const optim_case cases[] = {
    {"sgd", WEFT_OPTIM_SGD, 0.1, 0, NULL, 1, 0, 0, 0, false, false},
    {"sgd_momentum", WEFT_OPTIM_SGD, 0.1, 0.01, momentum, 1, 0, 0, 0, false, false},
    {"sgd_nesterov", WEFT_OPTIM_SGD, 0.1, 0.01, nesterov, 1, 0, 0, 0, false, false},
    {"adam", WEFT_OPTIM_ADAM, 0.02, 0.01, NULL, 1, 0, 0, 0, false, false},
    {"adam_amsgrad", WEFT_OPTIM_ADAM, 0.02, 0, amsgrad, 1, 0, 0, 0, false, false},
    {"adamw", WEFT_OPTIM_ADAMW, 0.02, 0.1, NULL, 1, 0, 0, 0, false, false},
    {"adamw_groups", WEFT_OPTIM_ADAMW, 0.02, 0.1, beta95, 0, 0, 0, 0, false, false},
    {"lion", WEFT_OPTIM_LION, 0.01, 0.1, NULL, 1, 0, 0, 1e-4, false, false},
    {"radam", WEFT_OPTIM_RADAM, 0.05, 0.01, NULL, 1, 0, 0, 0, false, false},
    {"ranger", WEFT_OPTIM_RANGER, 0.05, 0.1, NULL, 1, 0, 0, 0, false, false},
    {"adabound", WEFT_OPTIM_ADABOUND, 0.02, 0.01, NULL, 1, 0, 0, 0, false, false},
    {"ademamix", WEFT_OPTIM_ADEMAMIX, 0.02, 0.1, NULL, 1, 0, 0, 0, false, false},
    {"ademamix_warm", WEFT_OPTIM_ADEMAMIX, 0.02, 0, ademamix_warm, 1, 0, 0, 0, false, false},
    {"schedule_free_adamw", WEFT_OPTIM_SCHEDULE_FREE_ADAMW, 0.05, 0.1, schedule_free, 1, 0, 0, 0, false, false},
    {"novograd", WEFT_OPTIM_NOVOGRAD, 0.02, 0.01, NULL, 1, 0, 0, 0, false, false},
    {"lars", WEFT_OPTIM_LARS, 0.5, 0.01, lars, 1, 0, 0, 0, false, false},
    {"sophia", WEFT_OPTIM_SOPHIA, 0.02, 0.1, sophia, 1, 0, 0, 1e-4, false, false},
    {"muon", WEFT_OPTIM_MUON, 0.05, 0.1, NULL, 1, 0, 0, 1e-4, false, false},
    {"muon_match", WEFT_OPTIM_MUON, 0.05, 0.1, match_rms, 1, 0, 0, 1e-4, false, false},
    {"shampoo", WEFT_OPTIM_SHAMPOO, 0.1, 0, shampoo, 1, 0, 0, 1e-4, false, false},
    {"shampoo_period", WEFT_OPTIM_SHAMPOO, 0.1, 0, shampoo_period, 1, 0, 0, 1e-4, false, false},
    {"soap", WEFT_OPTIM_SOAP, 0.02, 0.1, soap, 1, 0, 0, 1e-4, false, false},
    {"soap_square", WEFT_OPTIM_SOAP, 0.02, 0.1, soap, 1, 0, 0, 1e-4, true, false},
    {"galore", WEFT_OPTIM_GALORE, 0.02, 0.1, galore, 1, 0, 0, 1e-4, false, false},
    {"lbfgs", WEFT_OPTIM_LBFGS, 0.5, 0, history, 1, 0, 0, 1e-4, false, false},
    {"lbfgs_square", WEFT_OPTIM_LBFGS, 0.2, 0, NULL, 1, 0, 0, 1e-4, true, false},
    {"lbfgs_search", WEFT_OPTIM_LBFGS, 1, 0, history, 1, 0, 0, 1e-2, false, true},
    {"lbfgs_search_short", WEFT_OPTIM_LBFGS, 0.003, 0, NULL, 1, 0, 0, -1, false, true},
    {"lbfgs_search_long", WEFT_OPTIM_LBFGS, 1.5, 0, NULL, 1, 0, 0, -1, true, true},
    {"lookahead", WEFT_OPTIM_SGD, 0.1, 0, lookahead, 1, 0, 0, 0, false, false},
    {"clip", WEFT_OPTIM_SGD, 0.3, 0, NULL, 1, 0.2, 0, 0, false, false},
    {"clip_value", WEFT_OPTIM_SGD, 0.3, 0, NULL, 1, 0, 0.05, 0, false, false},
};

enum { CASES = sizeof cases / sizeof *cases };

static void update(fixture *f, const optim_case *c) {
    weft_optim_options o = weft_optim_defaults(c->method);
    o.rate = weft_scalar(f->g, f->dtype, c->rate);
    o.decay = c->decay > 0 ? weft_scalar(f->g, f->dtype, c->decay) : NULL;
    o.step = f->step;
    if (c->searches) o.loss = f->loss;
    if (c->change) c->change(&o);
    f->p[1].decay_scale = c->bias_decay_scale;
    if (c->clip_norm > 0) (void)weft_optim_clip_norm(f->g, PARAMETERS, f->p, c->clip_norm);
    if (c->clip_value > 0) weft_optim_clip_value(f->g, PARAMETERS, f->p, c->clip_value);
    if (c->method == WEFT_OPTIM_MUON) { /* vectors by another method in the same graph */
        weft_optim_options plain = weft_optim_defaults(WEFT_OPTIM_SGD);
        plain.rate = weft_scalar(f->g, f->dtype, 0.1), plain.step = f->step;
        weft_optim_update(f->g, &plain, 1, &f->p[1]);
    }
    weft_optim_update(f->g, &o, c->method == WEFT_OPTIM_MUON ? 1 : PARAMETERS, f->p);
}

static void run_case(const optim_case *c, weft_dtype dtype) {
    fixture f;
    network_begin(&f, dtype, c->square);
    update(&f, c);
    double tolerance = dtype == WEFT_F64 ? 1e-9 : c->tolerance > 0 ? c->tolerance : 1e-5;
    network_compare(&f, c->name, "", tolerance);
    network_end(&f);
}

START_TEST(test_f64) { run_case(&cases[_i], WEFT_F64); }
END_TEST

START_TEST(test_f32) {
    if (cases[_i].tolerance >= 0) run_case(&cases[_i], WEFT_F32);
}
END_TEST

static void run_average(bool corrected, weft_dtype dtype) {
    fixture f;
    network_begin(&f, dtype, false);
    update(&f, &(optim_case){"adamw", WEFT_OPTIM_ADAMW, 0.02, 0.1, NULL, 1, 0, 0, 0, false, false});
    weft_optim_ema_options o = WEFT_OPTIM_EMA_OPTIONS_INIT;
    weft_value *averages[PARAMETERS];
    o.momentum = weft_scalar(f.g, dtype, 0.9), o.corrected = corrected, o.step = f.step;
    weft_optim_ema(f.g, &o, PARAMETERS, f.p, averages);
    for (int i = 0; corrected && i < PARAMETERS; i++) { /* the corrected values become states, to be read */
        char name[32];
        snprintf(name, sizeof name, "%s/out", names[i]);
        weft_graph_state_zeros(f.g, name, dtype, weft_tensor_rank(f.initial[i]), weft_tensor_shape(f.initial[i]));
        weft_state_update(f.g, name, averages[i]);
    }
    network_compare(&f, corrected ? "ema_corrected" : "ema", corrected ? "/out" : "/ema",
                    dtype == WEFT_F64 ? 1e-9 : 1e-5);
    network_end(&f);
}

START_TEST(test_average) { run_average(_i & 1, _i & 2 ? WEFT_F32 : WEFT_F64); }
END_TEST

START_TEST(test_names) {
    for (int i = 0; i < WEFT_OPTIM_COUNT; i++)
        ck_assert_int_eq(weft_optim_find(weft_optim_name((weft_optim_method)i)), i);
    ck_assert_int_eq(weft_optim_find("adamx"), WEFT_OPTIM_COUNT);
}
END_TEST

/* A parameter without a gradient, a method without a rate, a parameter of 16 bits: problems of the graph. */
START_TEST(test_problems) {
    fixture f;
    network_begin(&f, WEFT_F64, false);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_SGD);
    o.step = f.step;
    weft_optim_update(f.g, &o, PARAMETERS, f.p);
    weft_status status = weft_graph_verify(f.g);
    char text[2048];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, "parameter w: the optimizer has no rate"), "%s", text);
    weft_status_release(status);
    network_end(&f);
}
END_TEST

/* Bounds that would turn gradients round or lose them. */
START_TEST(test_bounds) {
    fixture f;
    char text[2048];
    network_begin(&f, WEFT_F64, false);
    if (_i < 2)
        weft_optim_clip_norm(f.g, PARAMETERS, f.p, _i ? (double)NAN : -1);
    else
        weft_optim_clip_value(f.g, PARAMETERS, f.p, _i > 2 ? (double)NAN : -1);
    weft_status status = weft_graph_verify(f.g);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, "clipping: the maximum is "), "%s", text);
    weft_status_release(status);
    network_end(&f);
}
END_TEST

Suite *optim_suite(void) {
    Suite *suite = suite_create("optim");
    TCase *group = tcase_create("trajectories");
    tcase_set_timeout(group, 60);
    tcase_add_loop_test(group, test_f64, 0, CASES);
    tcase_add_loop_test(group, test_f32, 0, CASES);
    tcase_add_loop_test(group, test_average, 0, 4);
    tcase_add_test(group, test_names);
    tcase_add_test(group, test_problems);
    tcase_add_loop_test(group, test_bounds, 0, 4);
    suite_add_tcase(suite, group);
    return suite;
}
