/* Every optimizer over 20 steps against the trajectories of tests/golden/optim.py, compiled, in f64 and f32: the loss's
   gradient, clipping, the update and averages in one program per case, parameters in its states. */
#include <string.h>

#include "tests/support/golden.h"
#include "weft/optim.h"
#include "weft/transform.h"

typedef struct optim_case {
    const char *name;
    weft_optim_method method;
    double rate, decay;
    void (*change)(weft_optim_options *o);
    double bias_decay_scale; /* of b; w has 1 */
    double clip_norm, clip_value;
    double tolerance; /* in f32; 0 = 1e-5 */
    bool square;      /* the first 3 rows of w and columns of x */
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
static void lookahead(weft_optim_options *o) { o->lookahead = 4; }

static const optim_case cases[] = {
    {"sgd", WEFT_OPTIM_SGD, 0.1, 0, NULL, 1, 0, 0, 0, false},
    {"sgd_momentum", WEFT_OPTIM_SGD, 0.1, 0.01, momentum, 1, 0, 0, 0, false},
    {"sgd_nesterov", WEFT_OPTIM_SGD, 0.1, 0.01, nesterov, 1, 0, 0, 0, false},
    {"adam", WEFT_OPTIM_ADAM, 0.02, 0.01, NULL, 1, 0, 0, 0, false},
    {"adam_amsgrad", WEFT_OPTIM_ADAM, 0.02, 0, amsgrad, 1, 0, 0, 0, false},
    {"adamw", WEFT_OPTIM_ADAMW, 0.02, 0.1, NULL, 1, 0, 0, 0, false},
    {"adamw_groups", WEFT_OPTIM_ADAMW, 0.02, 0.1, beta95, 0, 0, 0, 0, false},
    {"lion", WEFT_OPTIM_LION, 0.01, 0.1, NULL, 1, 0, 0, 1e-4, false},
    {"radam", WEFT_OPTIM_RADAM, 0.05, 0.01, NULL, 1, 0, 0, 0, false},
    {"ranger", WEFT_OPTIM_RANGER, 0.05, 0.1, NULL, 1, 0, 0, 0, false},
    {"adabound", WEFT_OPTIM_ADABOUND, 0.02, 0.01, NULL, 1, 0, 0, 0, false},
    {"ademamix", WEFT_OPTIM_ADEMAMIX, 0.02, 0.1, NULL, 1, 0, 0, 0, false},
    {"ademamix_warm", WEFT_OPTIM_ADEMAMIX, 0.02, 0, ademamix_warm, 1, 0, 0, 0, false},
    {"schedule_free_adamw", WEFT_OPTIM_SCHEDULE_FREE_ADAMW, 0.05, 0.1, schedule_free, 1, 0, 0, 0, false},
    {"novograd", WEFT_OPTIM_NOVOGRAD, 0.02, 0.01, NULL, 1, 0, 0, 0, false},
    {"lars", WEFT_OPTIM_LARS, 0.5, 0.01, lars, 1, 0, 0, 0, false},
    {"sophia", WEFT_OPTIM_SOPHIA, 0.02, 0.1, sophia, 1, 0, 0, 1e-4, false},
    {"muon", WEFT_OPTIM_MUON, 0.05, 0.1, NULL, 1, 0, 0, 1e-4, false},
    {"shampoo", WEFT_OPTIM_SHAMPOO, 0.1, 0, shampoo, 1, 0, 0, 1e-4, false},
    {"shampoo_period", WEFT_OPTIM_SHAMPOO, 0.1, 0, shampoo_period, 1, 0, 0, 1e-4, false},
    {"soap", WEFT_OPTIM_SOAP, 0.02, 0.1, soap, 1, 0, 0, 1e-4, false},
    {"soap_square", WEFT_OPTIM_SOAP, 0.02, 0.1, soap, 1, 0, 0, 1e-4, true},
    {"galore", WEFT_OPTIM_GALORE, 0.02, 0.1, galore, 1, 0, 0, 1e-4, false},
    {"lbfgs", WEFT_OPTIM_LBFGS, 0.5, 0, history, 1, 0, 0, 1e-4, false},
    {"lbfgs_square", WEFT_OPTIM_LBFGS, 0.2, 0, NULL, 1, 0, 0, 1e-4, true},
    {"lookahead", WEFT_OPTIM_SGD, 0.1, 0, lookahead, 1, 0, 0, 0, false},
    {"clip", WEFT_OPTIM_SGD, 0.3, 0, NULL, 1, 0.2, 0, 0, false},
    {"clip_value", WEFT_OPTIM_SGD, 0.3, 0, NULL, 1, 0, 0.05, 0, false},
};

enum { PARAMETERS = 2, CASES = sizeof cases / sizeof *cases };
static const char *const names[PARAMETERS] = {"w", "b"};

typedef struct fixture {
    weft_context *context;
    weft_safetensors *file;
    weft_dtype dtype;
    weft_tensor *x, *y, *initial[PARAMETERS];
    weft_graph *g;
    weft_parameter p[PARAMETERS];
    weft_value *step;
} fixture;

static void take_rows(weft_context *context, weft_tensor **t, int64_t rows) {
    weft_tensor *first;
    int64_t shape[2] = {rows, weft_tensor_shape(*t)[1]};
    require(weft_tensor_create_copy(context, weft_tensor_dtype(*t), 2, shape, weft_tensor_data(*t), &first));
    weft_tensor_release(*t);
    *t = first;
}

/* The golden network: mean((tanh(x w + b) - y)^2), parameters as states, gradients by p. */
static void begin(fixture *f, weft_dtype dtype, bool square) {
    *f = (fixture){.dtype = dtype};
    require(weft_context_create(NULL, &f->context));
    f->file = golden_open(f->context, "optim.safetensors");
    f->x = golden_tensor(f->context, f->file, "x", dtype);
    f->y = golden_tensor(f->context, f->file, "y", dtype);
    f->initial[0] = golden_tensor(f->context, f->file, "w0", dtype);
    if (square) take_rows(f->context, &f->initial[0], 3);
    f->initial[1] = golden_tensor(f->context, f->file, "b0", dtype);
    require(weft_graph_create(f->context, "step", &f->g));
    weft_value *x = weft_graph_input(f->g, "x", dtype, 2, (weft_dim[]){8, 5}), *values[PARAMETERS],
               *gradients[PARAMETERS], *curvatures[PARAMETERS];
    if (square) x = weft_slice_axis(f->g, x, 1, 0, 3);
    for (int i = 0; i < PARAMETERS; i++) {
        weft_graph_state(f->g, names[i], f->initial[i]);
        values[i] = weft_state_read(f->g, names[i]);
    }
    weft_value *h = weft_tanh(f->g, weft_add(f->g, weft_matmul(f->g, x, values[0]), values[1]));
    weft_value *error = weft_square(f->g, weft_sub(f->g, h, weft_graph_constant(f->g, f->y)));
    weft_value *loss = weft_reduce_mean(f->g, error, 0, NULL, false);
    weft_gradient(f->g, loss, NULL, PARAMETERS, values, gradients);
    weft_value *other = weft_square(f->g, weft_add(f->g, h, weft_graph_constant(f->g, f->y)));
    weft_gradient(f->g, weft_reduce_mean(f->g, other, 0, NULL, false), NULL, PARAMETERS, values, curvatures);
    weft_graph_output(f->g, "loss", loss);
    for (int i = 0; i < PARAMETERS; i++)
        f->p[i] = (weft_parameter){.name = names[i],
                                   .initial = f->initial[i],
                                   .value = values[i],
                                   .gradient = gradients[i],
                                   .curvature = curvatures[i],
                                   .rate_scale = 1,
                                   .decay_scale = 1};
    f->step = weft_optim_step(f->g);
}

static void end(fixture *f) {
    weft_tensor_release(f->x);
    weft_tensor_release(f->y);
    for (int i = 0; i < PARAMETERS; i++) weft_tensor_release(f->initial[i]);
    weft_graph_release(f->g);
    weft_safetensors_release(f->file);
    weft_context_release(f->context);
}

/* Runs the steps; after each, state NAME + suffix is compared with CASE/NAME. */
static void compare_steps(fixture *f, const char *name, const char *suffix, double tolerance) {
    weft_program *program;
    weft_session *session;
    weft_tensor *golden[PARAMETERS];
    char text[64];
    for (int i = 0; i < PARAMETERS; i++) {
        snprintf(text, sizeof text, "%s/%s", name, names[i]);
        golden[i] = golden_tensor(f->context, f->file, text, WEFT_F64);
    }
    require(weft_compile(f->g, NULL, &program));
    require(weft_session_create(program, &session));
    for (int step = 0; step < STEPS; step++) {
        weft_tensor *x = tensor_row(f->context, f->x, step), *loss = NULL;
        require(weft_session_call(session, 1, &x, 1, &loss));
        for (int i = 0; i < PARAMETERS; i++) {
            weft_tensor *value, *want = tensor_row(f->context, golden[i], step);
            snprintf(text, sizeof text, "%s%s", names[i], suffix);
            require(weft_session_read_state(session, text, &value));
            double off = distance(value, want);
            ck_assert_msg(off <= tolerance, "%s: %s is off by %.3g after step %d", name, text, off, step + 1);
            weft_tensor_release(value);
            weft_tensor_release(want);
        }
        weft_tensor_release(x);
        weft_tensor_release(loss);
    }
    for (int i = 0; i < PARAMETERS; i++) weft_tensor_release(golden[i]);
    weft_session_release(session);
    weft_program_release(program);
}

static void update(fixture *f, const optim_case *c) {
    weft_optim_options o = weft_optim_defaults(c->method);
    o.rate = weft_scalar(f->g, f->dtype, c->rate);
    o.decay = c->decay > 0 ? weft_scalar(f->g, f->dtype, c->decay) : NULL;
    o.step = f->step;
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
    begin(&f, dtype, c->square);
    update(&f, c);
    double tolerance = dtype == WEFT_F64 ? 1e-9 : c->tolerance > 0 ? c->tolerance : 1e-5;
    compare_steps(&f, c->name, "", tolerance);
    end(&f);
}

START_TEST(test_f64) { run_case(&cases[_i], WEFT_F64); }
END_TEST

START_TEST(test_f32) { run_case(&cases[_i], WEFT_F32); }
END_TEST

static void run_average(bool corrected, weft_dtype dtype) {
    fixture f;
    begin(&f, dtype, false);
    update(&f, &(optim_case){"adamw", WEFT_OPTIM_ADAMW, 0.02, 0.1, NULL, 1, 0, 0, 0, false});
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
    compare_steps(&f, corrected ? "ema_corrected" : "ema", corrected ? "/out" : "/ema",
                  dtype == WEFT_F64 ? 1e-9 : 1e-5);
    end(&f);
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
    begin(&f, WEFT_F64, false);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_SGD);
    o.step = f.step;
    weft_optim_update(f.g, &o, PARAMETERS, f.p);
    weft_status status = weft_graph_verify(f.g);
    char text[2048];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(strstr(text, "parameter w: the optimizer has no rate"), "%s", text);
    weft_status_release(status);
    end(&f);
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
    suite_add_tcase(suite, group);
    return suite;
}
