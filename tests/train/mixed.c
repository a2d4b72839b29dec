/* Mixed precision: the tiny GPT of tests/golden/gpt.py with products in 16 bits. Its distance from the run in f64 is
   measured against that of PyTorch's autocast from the same run (gpt_mixed.py). Dynamic loss scaling: a step that
   overflows is left out and halves the scale. Copies in 16 bits follow their parameters. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "tests/support/golden.h"
#include "weft/loss.h"
#include "weft/nn.h"

enum { BATCH = 3, CONTEXT = 6, VOCABULARY = 7 };

typedef struct fixture {
    weft_context *context;
    weft_safetensors *file, *peer;
    weft_graph *g;
    weft_parameters *p;
    weft_program *program;
    weft_session *session;
    weft_tensor *tokens, *next;
} fixture;

typedef struct setting {
    weft_dtype compute;
    double scale; /* first loss scale; 0 = none */
    int64_t interval;
    bool stochastic;
} setting;

static void build(fixture *f, const setting *s) {
    weft_parameters_options options = WEFT_PARAMETERS_OPTIONS_INIT;
    options.compute = s->compute;
    require(weft_graph_create(f->context, "step", &f->g));
    require(weft_parameters_create(f->context, f->g, &options, &f->p));
    weft_nn_gpt_options o = WEFT_NN_GPT_OPTIONS_INIT;
    o.layers = 2, o.heads = 2, o.width = 8, o.vocabulary = VOCABULARY, o.context = CONTEXT, o.bias = true;
    weft_value *tokens = weft_graph_input(f->g, "tokens", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *next = weft_graph_input(f->g, "next", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *loss = weft_loss_cross_entropy(f->g, weft_nn_gpt(f->p, &o, tokens), next, NULL);
    weft_graph_output(f->g, "loss", loss);
    weft_rate_schedule schedule = WEFT_RATE_SCHEDULE_INIT;
    schedule.kind = WEFT_RATE_SCHEDULE_COSINE, schedule.base = 0.01, schedule.final = 0.001;
    schedule.warmup = 3, schedule.total = STEPS;
    weft_optim_options adamw = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    weft_value *step = weft_optim_step(f->g);
    adamw.beta2 = 0.99, adamw.step = step, adamw.stochastic = s->stochastic;
    adamw.rate = weft_rate_schedule_value(f->g, &schedule, step, WEFT_F32);
    adamw.decay = weft_scalar(f->g, WEFT_F32, 0.1);
    if (s->scale > 0) {
        weft_loss_scale scale = WEFT_LOSS_SCALE_INIT;
        scale.initial = s->scale, scale.interval = s->interval;
        weft_parameters_gradient_scaled(f->p, loss, &scale);
        adamw.step = scale.step, adamw.apply = scale.apply;
    } else {
        weft_parameters_gradient(f->p, loss);
    }
    int count = weft_parameters_count(f->p);
    weft_parameter *list = weft_parameters_list(f->p);
    weft_graph_output(f->g, "norm", weft_optim_clip_norm(f->g, count, list, 0.5));
    weft_optim_update(f->g, &adamw, count, list);
    require(weft_graph_verify(f->g));
    require(weft_compile(f->g, NULL, &f->program));
    require(weft_session_create(f->program, &f->session));
}

static weft_tensor *copy_as(fixture *f, const weft_tensor *from, weft_dtype dtype) {
    weft_tensor *to;
    require(weft_tensor_create(f->context, dtype, weft_tensor_rank(from), weft_tensor_shape(from), &to));
    for (int64_t i = 0; i < weft_tensor_element_count(from); i++)
        weft_element_set_double(dtype, weft_tensor_data(to), i,
                                weft_element_double(weft_tensor_dtype(from), weft_tensor_data(from), i));
    return to;
}

static weft_tensor *state(fixture *f, const char *name, const char *suffix) {
    char full[160];
    weft_tensor *value;
    snprintf(full, sizeof full, "%s%s", name, suffix);
    require(weft_session_read_state(f->session, full, &value));
    return value;
}

/* The golden initial values, in the parameters and in their copies. */
static void begin(fixture *f, const setting *s) {
    *f = (fixture){0};
    require(weft_context_create(NULL, &f->context));
    f->file = golden_open(f->context, "gpt.safetensors");
    f->peer = golden_open(f->context, "gpt_mixed.safetensors");
    build(f, s);
    for (int i = 0; i < weft_parameters_count(f->p); i++) {
        const weft_parameter *p = &weft_parameters_list(f->p)[i];
        weft_tensor *value = golden_tensor(f->context, f->file, p->name, WEFT_F32);
        require(weft_session_write_state(f->session, p->name, value));
        if (p->rounded) {
            char name[160];
            weft_tensor *rounded = copy_as(f, value, s->compute);
            snprintf(name, sizeof name, "%s/rounded", p->name);
            require(weft_session_write_state(f->session, name, rounded));
            weft_tensor_release(rounded);
        }
        weft_tensor_release(value);
    }
    f->tokens = golden_tensor(f->context, f->file, "tokens", WEFT_INVALID);
    f->next = golden_tensor(f->context, f->file, "next", WEFT_INVALID);
}

static void end(fixture *f) {
    weft_tensor_release(f->tokens), weft_tensor_release(f->next);
    weft_session_release(f->session);
    weft_program_release(f->program);
    weft_parameters_release(f->p);
    weft_graph_release(f->g);
    weft_safetensors_release(f->file), weft_safetensors_release(f->peer);
    weft_context_release(f->context);
}

static double call(fixture *f, int step) {
    weft_tensor *in[2] = {tensor_row(f->context, f->tokens, step), tensor_row(f->context, f->next, step)};
    weft_tensor *out[2] = {0};
    require(weft_session_call(f->session, 2, in, 2, out));
    double loss = element(out[0], 0);
    for (int i = 0; i < 2; i++) weft_tensor_release(in[i]), weft_tensor_release(out[i]);
    return loss;
}

/* Squared distance of all parameters from the run in f64; the key bias has no gradient but rounding, and is left out.
 */
static double square_off(fixture *f, const char *dtype) {
    double sum = 0;
    char name[192];
    for (int i = 0; i < weft_parameters_count(f->p); i++) {
        const char *own = weft_parameters_list(f->p)[i].name;
        if (strstr(own, "c_attn.bias")) continue;
        snprintf(name, sizeof name, "after/20/%s", own);
        weft_tensor *want = golden_tensor(f->context, f->file, name, WEFT_F64), *got;
        snprintf(name, sizeof name, "%s/after/20/%s", dtype ? dtype : "", own);
        got = dtype ? golden_tensor(f->context, f->peer, name, WEFT_F64) : state(f, own, "");
        for (int64_t e = 0; e < weft_tensor_element_count(want); e++) {
            double off = element(got, e) - element(want, e);
            sum += off * off;
        }
        weft_tensor_release(want), weft_tensor_release(got);
    }
    return sum;
}

static void check_copies(fixture *f, weft_dtype compute, double tolerance) {
    for (int i = 0; i < weft_parameters_count(f->p); i++) {
        const weft_parameter *p = &weft_parameters_list(f->p)[i];
        if (!p->rounded) continue;
        weft_tensor *value = state(f, p->name, ""), *rounded = state(f, p->name, "/rounded");
        ck_assert_int_eq(weft_tensor_dtype(rounded), compute);
        for (int64_t e = 0; e < weft_tensor_element_count(value); e++) {
            double x = element(value, e), y = weft_element_double(compute, weft_tensor_data(rounded), e);
            ck_assert_msg(fabs(x - y) <= tolerance * fabs(x), "%s: %.9g is kept as %.9g", p->name, x, y);
        }
        weft_tensor_release(value), weft_tensor_release(rounded);
    }
}

/* No further from f64 than twice what autocast is: losses in the mean square, parameters after 20 steps. */
static void compare(const setting *s, const char *dtype, double copy_tolerance) {
    fixture f;
    char name[64];
    begin(&f, s);
    snprintf(name, sizeof name, "%s/loss", dtype);
    weft_tensor *exact = golden_tensor(f.context, f.file, "loss", WEFT_F64);
    weft_tensor *peer = golden_tensor(f.context, f.peer, name, WEFT_F64);
    double own = 0, other = 0;
    for (int step = 0; step < STEPS; step++) {
        double off = call(&f, step) - element(exact, step), theirs = element(peer, step) - element(exact, step);
        own += off * off, other += theirs * theirs;
    }
    ck_assert_msg(sqrt(own) <= 2 * sqrt(other), "losses are off by %.3g, autocast's by %.3g", sqrt(own / STEPS),
                  sqrt(other / STEPS));
    double moved = sqrt(square_off(&f, NULL)), theirs = sqrt(square_off(&f, dtype));
    ck_assert_msg(moved <= 2 * theirs, "parameters are off by %.3g, autocast's by %.3g", moved, theirs);
    check_copies(&f, s->compute, copy_tolerance);
    weft_tensor_release(exact), weft_tensor_release(peer);
    end(&f);
}

START_TEST(bf16) { compare(&(setting){WEFT_BF16, 0, 0, false}, "bf16", 0x1p-8); }
END_TEST

START_TEST(f16) { compare(&(setting){WEFT_F16, 65536, 2000, false}, "f16", 0x1p-10); }
END_TEST

START_TEST(stochastic) { compare(&(setting){WEFT_BF16, 0, 0, true}, "bf16", 0x1p-7); }
END_TEST

static double scalar_state(fixture *f, const char *name) {
    weft_tensor *value = state(f, name, "");
    double number = weft_element_double(weft_tensor_dtype(value), weft_tensor_data(value), 0);
    if (weft_tensor_dtype(value) == WEFT_I64) number = (double)*(const int64_t *)weft_tensor_data(value);
    weft_tensor_release(value);
    return number;
}

static bool same_bytes(const weft_tensor *a, const weft_tensor *b) {
    return weft_tensor_bytes(a) == weft_tensor_bytes(b) &&
           !memcmp(weft_tensor_data(a), weft_tensor_data(b), weft_tensor_bytes(a));
}

/* 2^24 / 18 examples is beyond f16: steps are left out, states to the last bit, until the scale fits; then three good
   ones double it again. */
/* Options no scale can follow, a parameter without a name: problems of the graph. */
START_TEST(refused) {
    static const struct {
        weft_loss_scale scale;
        const char *problem;
    } cases[] = {
        {{sizeof(weft_loss_scale), 0, 2, 0.5, 2000, 0, 0, 0}, "loss scaling: initial"},
        {{sizeof(weft_loss_scale), (double)NAN, 2, 0.5, 2000, 0, 0, 0}, "loss scaling: initial"},
        {{sizeof(weft_loss_scale), 1e39, 2, 0.5, 2000, 0, 0, 0}, "loss scaling: initial"},
        {{sizeof(weft_loss_scale), 65536, 0.5, 0.5, 2000, 0, 0, 0}, "loss scaling: initial"},
        {{sizeof(weft_loss_scale), 65536, 2, 1, 2000, 0, 0, 0}, "loss scaling: initial"},
        {{sizeof(weft_loss_scale), 65536, 2, 0.5, 0, 0, 0, 0}, "loss scaling: initial"},
        {{sizeof(weft_loss_scale), 65536, 2, 0.5, 2000, 0, 0, 0}, "the name of a parameter is missing"},
    };
    int count = sizeof cases / sizeof *cases;
    for (int i = 0; i < count; i++) {
        weft_context *context;
        weft_graph *g;
        weft_parameters *p;
        weft_loss_scale scale = cases[i].scale;
        char text[1024];
        require(weft_context_create(NULL, &context));
        require(weft_graph_create(context, "scaled", &g));
        require(weft_parameters_create(context, g, NULL, &p));
        weft_value *w = weft_parameters_add(p, i + 1 < count ? "w" : NULL, WEFT_INIT_ONES, 1, 1, (int64_t[]){3});
        weft_parameters_gradient_scaled(p, weft_reduce_sum(g, w, 1, (int64_t[]){0}, false), &scale);
        weft_status status = weft_graph_verify(g);
        ck_assert_ptr_nonnull(status);
        weft_status_format(status, text, sizeof text);
        ck_assert_msg(strstr(text, cases[i].problem), "%d: %s", i, text);
        weft_status_release(status);
        weft_parameters_release(p);
        weft_graph_release(g);
        weft_context_release(context);
    }
}
END_TEST

START_TEST(overflow) {
    static const char *const watched[] = {"transformer.wte.weight", "transformer.h.0.mlp.c_fc.weight/rounded",
                                          "transformer.h.0.mlp.c_fc.weight/m", "transformer.h.1.ln_1.bias/v"};
    enum { WATCHED = sizeof watched / sizeof *watched };
    fixture f;
    begin(&f, &(setting){WEFT_F16, 0x1p24, 3, false});
    double scale = 0x1p24;
    int skipped = 0, good = 0, applied = 0;
    for (int step = 0; step < STEPS; step++) {
        weft_tensor *before[WATCHED], *after[WATCHED];
        for (int i = 0; i < WATCHED; i++) before[i] = state(&f, watched[i], "");
        ck_assert(isfinite(call(&f, step)));
        for (int i = 0; i < WATCHED; i++) after[i] = state(&f, watched[i], "");
        double now = scalar_state(&f, "loss_scale/scale");
        bool left_out = now < scale;
        for (int i = 0; i < WATCHED; i++)
            ck_assert_msg(same_bytes(before[i], after[i]) == left_out, "step %d: %s", step, watched[i]);
        skipped += left_out, applied += !left_out;
        good = left_out ? 0 : good + 1;
        ck_assert_double_eq(now, left_out ? scale / 2 : good == 3 ? scale * 2 : scale);
        if (good == 3) good = 0;
        scale = now;
        ck_assert_double_eq(scalar_state(&f, "loss_scale/step"), applied);
        ck_assert_double_eq(scalar_state(&f, "loss_scale/good"), good);
        for (int i = 0; i < WATCHED; i++) weft_tensor_release(before[i]), weft_tensor_release(after[i]);
    }
    ck_assert_int_ge(skipped, 2);
    ck_assert_int_ge(applied, 6);
    end(&f);
}
END_TEST

/* What is rounded up and down at random is right in the mean: a value between two of bf16's, many times. */
START_TEST(stochastic_mean) {
    enum { COUNT = 4096 };
    weft_context *context;
    weft_graph *g;
    weft_parameters *p;
    weft_program *program;
    weft_session *session;
    weft_tensor *loss = NULL, *rounded;
    require(weft_context_create(NULL, &context));
    require(weft_graph_create(context, "round", &g));
    weft_parameters_options options = WEFT_PARAMETERS_OPTIONS_INIT;
    options.compute = WEFT_BF16;
    require(weft_parameters_create(context, g, &options, &p));
    weft_value *w = weft_parameters_add(p, "w", WEFT_INIT_ONES, 0, 2, (int64_t[]){COUNT, 1});
    weft_value *sum = weft_reduce_sum(g, weft_convert(g, w, WEFT_F32), 0, NULL, false);
    weft_graph_output(g, "loss", sum);
    weft_parameters_gradient(p, sum);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_SGD);
    o.step = weft_optim_step(g), o.rate = weft_scalar(g, WEFT_F32, -0x1p-9), o.stochastic = true; /* 1 + a quarter */
    weft_optim_update(g, &o, 1, weft_parameters_list(p));
    require(weft_compile(g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, 0, NULL, 1, &loss));
    require(weft_session_read_state(session, "w/rounded", &rounded));
    int up = 0;
    for (int i = 0; i < COUNT; i++) {
        double y = weft_element_double(WEFT_BF16, weft_tensor_data(rounded), i);
        ck_assert(y == 1 || y == 1 + 0x1p-7);
        up += y > 1;
    }
    ck_assert_int_gt(up, COUNT / 4 - 140); /* five deviations of 28 */
    ck_assert_int_lt(up, COUNT / 4 + 140);
    weft_tensor_release(loss), weft_tensor_release(rounded);
    weft_session_release(session), weft_program_release(program);
    weft_parameters_release(p), weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

Suite *mixed_suite(void) {
    Suite *suite = suite_create("mixed");
    TCase *group = tcase_create("mixed");
    tcase_set_timeout(group, 200);
    tcase_add_test(group, bf16);
    tcase_add_test(group, f16);
    tcase_add_test(group, stochastic);
    tcase_add_test(group, overflow);
    tcase_add_test(group, refused);
    tcase_add_test(group, stochastic_mean);
    suite_add_tcase(suite, group);
    return suite;
}
