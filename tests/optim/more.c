/* What goes with optimizers: K-FAC, averages with one weight and samples around them, gradients in parts and the noise
   scale, against tests/golden/optim.py, compiled, in f64 and f32. */
#include "tests/optim/network.h"

static void descend(fixture *f, double rate) {
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_SGD);
    o.rate = weft_scalar(f->g, f->dtype, rate), o.step = f->step;
    weft_optim_update(f->g, &o, PARAMETERS, f->p);
}

static void adamw(fixture *f) {
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.rate = weft_scalar(f->g, f->dtype, 0.02), o.decay = weft_scalar(f->g, f->dtype, 0.1), o.step = f->step;
    weft_optim_update(f->g, &o, PARAMETERS, f->p);
}

static weft_dtype dtype_of(int i) { return i ? WEFT_F32 : WEFT_F64; }
static double tolerance_of(int i) { return i ? 1e-4 : 1e-9; }

START_TEST(test_kfac) {
    fixture f;
    network_begin(&f, dtype_of(_i), false);
    weft_optim_kfac_options o = WEFT_OPTIM_KFAC_OPTIONS_INIT;
    o.step = f.step, o.loss = f.loss, o.momentum = 0.9, o.damping = 0.01;
    weft_optim_layer layer = {&f.p[0], &f.p[1], f.rows, f.before, true};
    weft_optim_kfac(f.g, &o, 1, &layer);
    descend(&f, 0.02);
    network_compare(&f, "kfac", "", tolerance_of(_i));
    network_end(&f);
}
END_TEST

static weft_optim_swa_options averages(const fixture *f) {
    weft_optim_swa_options o = WEFT_OPTIM_SWA_OPTIONS_INIT;
    o.step = f->step, o.start = 5, o.period = 3, o.columns = 4;
    return o;
}

START_TEST(test_averages) {
    static const char *const golden[2] = {"swa", "swag_square"}, *const suffix[2] = {"/swa", "/swag_square"};
    for (int k = 0; k < 2; k++) {
        fixture f;
        network_begin(&f, dtype_of(_i), false);
        adamw(&f);
        weft_optim_swa_options o = averages(&f);
        weft_optim_swa(f.g, &o, PARAMETERS, f.p, NULL);
        network_compare(&f, golden[k], suffix[k], tolerance_of(_i));
        network_end(&f);
    }
}
END_TEST

enum { SAMPLES = 3000, W = 15 };

/* A second graph that draws from the states of the first. */
static weft_program *sampler(fixture *f, double scale) {
    weft_graph *g;
    weft_program *program;
    weft_value *samples[PARAMETERS];
    require(weft_graph_create(f->context, "sampler", &g));
    fixture copy = *f;
    copy.g = g;
    weft_optim_swa_options o = averages(f);
    weft_graph_state_zeros(g, "optim/step", WEFT_I64, 0, NULL);
    o.step = weft_state_read(g, "optim/step");
    for (int i = 0; i < PARAMETERS; i++) {
        weft_graph_state(g, names[i], f->initial[i]);
        copy.p[i].value = weft_state_read(g, names[i]);
    }
    weft_value *key = weft_graph_input(g, "key", WEFT_U64, 1, (weft_dim[]){2});
    weft_optim_swag_sample(g, &o, key, scale, PARAMETERS, copy.p, samples);
    weft_graph_output(g, "w", samples[0]);
    require(weft_compile(g, NULL, &program));
    weft_graph_release(g);
    return program;
}

static weft_tensor *draw(fixture *f, weft_session *session, uint64_t number) {
    uint64_t words[2] = {number, 0};
    weft_tensor *key, *out = NULL;
    require(weft_tensor_create_copy(f->context, WEFT_U64, 1, (int64_t[]){2}, words, &key));
    require(weft_session_call(session, 1, &key, 1, &out));
    weft_tensor_release(key);
    return out;
}

/* Covariance of w by definition: half the diagonal one, half that of the kept deviations. */
static void covariance_of(weft_session *session, double *out) {
    weft_tensor *mean, *square, *deviations;
    require(weft_session_read_state(session, "w/swa", &mean));
    require(weft_session_read_state(session, "w/swag_square", &square));
    require(weft_session_read_state(session, "w/swag_deviations", &deviations));
    for (int i = 0; i < W; i++)
        for (int j = 0; j < W; j++) {
            double sum = 0;
            for (int k = 0; k < 4; k++) sum += element(deviations, k * W + i) * element(deviations, k * W + j);
            out[i * W + j] = sum / (2 * 3);
            if (i == j) out[i * W + j] += (element(square, i) - element(mean, i) * element(mean, i)) / 2;
        }
    weft_tensor_release(mean), weft_tensor_release(square), weft_tensor_release(deviations);
}

/* Mean and covariance of many samples, and the mean itself at scale 0. */
START_TEST(test_samples) {
    fixture f;
    weft_program *program, *drawing, *still;
    weft_session *session, *drawn, *unmoved;
    network_begin(&f, WEFT_F64, false);
    adamw(&f);
    weft_optim_swa_options o = averages(&f);
    weft_optim_swa(f.g, &o, PARAMETERS, f.p, NULL);
    require(weft_compile(f.g, NULL, &program));
    require(weft_session_create(program, &session));
    for (int step = 0; step < STEPS; step++) {
        weft_tensor *x = tensor_row(f.context, f.x, step), *loss = NULL;
        require(weft_session_call(session, 1, &x, 1, &loss));
        weft_tensor_release(x), weft_tensor_release(loss);
    }
    drawing = sampler(&f, 1), still = sampler(&f, 0);
    require(weft_session_create(drawing, &drawn));
    require(weft_session_create(still, &unmoved));
    require(weft_session_copy_states(session, drawn));
    require(weft_session_copy_states(session, unmoved));
    weft_tensor *mean, *same = draw(&f, unmoved, 7);
    require(weft_session_read_state(session, "w/swa", &mean));
    ck_assert_double_le(distance(same, mean), 1e-12);
    double sum[W] = {0}, product[W * W] = {0}, want[W * W], off = 0, size = 0;
    for (int s = 0; s < SAMPLES; s++) {
        weft_tensor *w = draw(&f, drawn, (uint64_t)s);
        for (int i = 0; i < W; i++) sum[i] += element(w, i) - element(mean, i);
        for (int i = 0; i < W * W; i++)
            product[i] += (element(w, i / W) - element(mean, i / W)) * (element(w, i % W) - element(mean, i % W));
        weft_tensor_release(w);
    }
    covariance_of(session, want);
    for (int i = 0; i < W; i++)
        ck_assert_msg(fabs(sum[i] / (double)SAMPLES) < 5 * sqrt(want[i * W + i] / (double)SAMPLES),
                      "the mean of element %d is off", i);
    for (int i = 0; i < W * W; i++) off += pow(product[i] / (double)SAMPLES - want[i], 2), size += want[i] * want[i];
    ck_assert_msg(sqrt(off / size) < 0.15, "the covariance is off by %.3g", sqrt(off / size));
    weft_tensor_release(same), weft_tensor_release(mean);
    weft_session_release(session), weft_session_release(drawn), weft_session_release(unmoved);
    weft_program_release(program), weft_program_release(drawing), weft_program_release(still);
    network_end(&f);
}
END_TEST

/* Two rows of x, their targets and weights: the sum of the losses, the sum of the weights. */
static void part(void *self, weft_graph *g, weft_value *const *slices, weft_value **results) {
    const fixture *f = self;
    weft_value *h = weft_tanh(g, weft_add(g, weft_matmul(g, slices[0], f->p[0].value), f->p[1].value));
    weft_value *each = weft_reduce_mean(g, weft_square(g, weft_sub(g, h, slices[1])), 1, (int64_t[]){1}, false);
    results[0] = weft_reduce_sum(g, weft_mul(g, each, slices[2]), 0, NULL, false);
    results[1] = weft_reduce_sum(g, slices[2], 0, NULL, false);
}

START_TEST(test_parts) {
    static const int64_t weights[8] = {1, 1, 1, 0, 1, 1, 1, 1};
    fixture f;
    network_begin(&f, dtype_of(_i), false);
    weft_value *w = weft_convert(f.g, weft_integers(f.g, 8, weights), f.dtype), *squares[2];
    weft_value *inputs[3] = {weft_reshape(f.g, f.rows, 3, (weft_dim[]){4, 2, 5}),
                             weft_reshape(f.g, weft_graph_constant(f.g, f.y), 3, (weft_dim[]){4, 2, 3}),
                             weft_reshape(f.g, w, 2, (weft_dim[]){4, 2})};
    (void)weft_optim_accumulate(f.g, 3, inputs, NULL, part, &f, PARAMETERS, f.p, squares);
    weft_value *scale = weft_optim_noise_scale(f.g, squares, 2, weft_scalar_integer(f.g, WEFT_I64, 4), 0.9);
    weft_value *norms = weft_stack(f.g, 0, 3, (weft_value *[]){squares[0], squares[1], scale});
    weft_graph_state_zeros(f.g, "norms", f.dtype, 1, (int64_t[]){3});
    weft_state_update(f.g, "norms", norms);
    descend(&f, 0.1);
    network_compare(&f, "accumulated", "", tolerance_of(_i));
    network_compare_state(&f, "accumulated/norms", "norms", 10 * tolerance_of(_i));
    network_end(&f);
}
END_TEST

/* As in fine-tuning of a vision transformer of three blocks. */
START_TEST(test_layer_decay) {
    static const struct {
        const char *name;
        double scale;
    } want[] = {{"patch_embed.proj.weight", 0.0625},
                {"pos_embed", 0.0625},
                {"blocks.0.norm1.weight", 0.125},
                {"blocks.2.mlp.fc2.bias", 0.5},
                {"blocks.12.mlp.fc2.bias", 1.0},
                {"norm.weight", 1.0},
                {"head.weight", 3.0},
                {"blocks.x", 1.0}};
    enum { COUNT = sizeof want / sizeof *want };
    static const char *const first[] = {"patch_embed.", "pos_embed", NULL};
    weft_parameter list[COUNT];
    for (int i = 0; i < COUNT; i++) list[i] = (weft_parameter){.name = want[i].name, .rate_scale = i == 6 ? 3 : 1};
    weft_optim_layer_decay(COUNT, list, "blocks.", 3, first, 0.5);
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(list[i].rate_scale == want[i].scale, "%s: %g, not %g", want[i].name, list[i].rate_scale,
                      want[i].scale);
}
END_TEST

/* Rows as parts; a batch of 2 grows to 8 with the noise. */
static void row(void *self, weft_graph *g, weft_value *const *slices, weft_value **results) {
    const fixture *f = self;
    weft_value *x = weft_unsqueeze(g, slices[0], 1, (int64_t[]){0});
    weft_value *h = weft_tanh(g, weft_add(g, weft_matmul(g, x, f->p[0].value), f->p[1].value));
    weft_value *y = weft_unsqueeze(g, slices[1], 1, (int64_t[]){0});
    results[0] = weft_reduce_mean(g, weft_square(g, weft_sub(g, h, y)), 0, NULL, false);
    results[1] = weft_scalar(g, f->dtype, 1);
}

START_TEST(test_adapted) {
    fixture f;
    network_begin(&f, dtype_of(_i), false);
    weft_value *inputs[2] = {f.rows, weft_graph_constant(f.g, f.y)}, *squares[2];
    weft_value *parts = weft_optim_parts(f.g, 2);
    (void)weft_optim_accumulate(f.g, 2, inputs, parts, row, &f, PARAMETERS, f.p, squares);
    weft_value *scale = weft_optim_noise_scale(f.g, squares, 1, parts, 0.5);
    weft_optim_parts_adapt(f.g, parts, scale, 1, 8, f.step, 3);
    weft_graph_state_zeros(f.g, "parts", f.dtype, 0, NULL);
    weft_state_update(f.g, "parts", weft_convert(f.g, parts, f.dtype));
    descend(&f, 0.1);
    network_compare(&f, "adapted", "", tolerance_of(_i));
    network_compare_state(&f, "adapted/parts", "parts", 0);
    network_end(&f);
}
END_TEST

Suite *more_suite(void) {
    Suite *suite = suite_create("more");
    TCase *group = tcase_create("more");
    tcase_set_timeout(group, 60);
    tcase_add_loop_test(group, test_kfac, 0, 2);
    tcase_add_loop_test(group, test_averages, 0, 2);
    tcase_add_test(group, test_samples);
    tcase_add_loop_test(group, test_parts, 0, 2);
    tcase_add_loop_test(group, test_adapted, 0, 2);
    tcase_add_test(group, test_layer_decay);
    suite_add_tcase(suite, group);
    return suite;
}
