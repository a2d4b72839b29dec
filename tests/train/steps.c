/* Tiny models against tests/golden: a GPT (gpt.py), a vision transformer (vit_train.py). The loss and the norm of the
   gradient in each of 20 steps, every gradient of the first, every parameter after 1, 5, 10 and 20; compiled, in f64
   and f32. */
#include <string.h>

#include "tests/support/golden.h"
#include "tests/train/testing.h"
#include "weft/loss.h"
#include "weft/nn.h"

/* inputs: [20, ...] in the data. build: the loss. The data's other tensors without a '/' are initial values. */
typedef struct model {
    const char *file, *inputs[2];
    double clip, decay, beta2;
    weft_value *(*build)(weft_graph *g, weft_parameters *p, weft_dtype dtype);
    weft_value *(*rate)(weft_graph *g, weft_value *step, weft_dtype dtype);
} model;

static weft_value *gpt(weft_graph *g, weft_parameters *p, weft_dtype dtype) {
    enum { BATCH = 3, CONTEXT = 6 };
    (void)dtype;
    weft_nn_gpt_options o = WEFT_NN_GPT_OPTIONS_INIT;
    o.layers = 2, o.heads = 2, o.width = 8, o.vocabulary = 7, o.context = CONTEXT, o.bias = true;
    weft_value *tokens = weft_graph_input(g, "tokens", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *next = weft_graph_input(g, "next", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    return weft_loss_cross_entropy(g, weft_nn_gpt(p, &o, tokens), next, NULL);
}

static weft_value *gpt_rate(weft_graph *g, weft_value *step, weft_dtype dtype) {
    weft_rate_schedule schedule = WEFT_RATE_SCHEDULE_INIT;
    schedule.kind = WEFT_RATE_SCHEDULE_COSINE, schedule.base = 0.01, schedule.final = 0.001;
    schedule.warmup = 3, schedule.total = STEPS;
    return weft_rate_schedule_value(g, &schedule, step, dtype);
}

static weft_value *vit(weft_graph *g, weft_parameters *p, weft_dtype dtype) {
    enum { BATCH = 4, SIDE = 8 };
    weft_nn_vit_model o = WEFT_NN_VIT_MODEL_INIT;
    o.layers = 2, o.heads = 2, o.width = 8, o.patch = 4, o.classes = 5;
    weft_value *images = weft_graph_input(g, "images", dtype, 4, (weft_dim[]){BATCH, 3, SIDE, SIDE});
    weft_value *labels = weft_graph_input(g, "labels", WEFT_I64, 1, (weft_dim[]){BATCH});
    weft_cross_entropy_options smoothing = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    smoothing.smoothing = 0.1;
    return weft_loss_cross_entropy(g, weft_nn_vit_train(p, &o, images), labels, &smoothing);
}

static weft_value *vit_rate(weft_graph *g, weft_value *step, weft_dtype dtype) {
    (void)step;
    return weft_scalar(g, dtype, 0.005);
}

static const model models[] = {
    {"gpt.safetensors", {"tokens", "next"}, 0.5, 0.1, 0.99, gpt, gpt_rate},
    {"vit_train.safetensors", {"images", "labels"}, 1, 0.05, 0.95, vit, vit_rate},
};

typedef struct fixture {
    weft_context *context;
    weft_safetensors *file, *weights; /* weights: the initial values in the dtype of the run */
    weft_graph *g;
    weft_parameters *p;
    weft_program *program;
    weft_session *session;
    double tolerance;
} fixture;

static bool is_weight(const char *name) {
    static const char *const others[] = {"tokens", "next", "images", "labels", "loss", "norm"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i])) return false;
    return !strchr(name, '/');
}

/* The file has f64: parameters of another dtype need one of their own. */
static weft_safetensors *weights_of(weft_context *context, weft_safetensors *file, weft_dtype dtype) {
    const char *names[64];
    weft_tensor *tensors[64];
    char path[512];
    weft_safetensors *converted;
    int count = 0;
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        const char *name = weft_safetensors_name(file, i);
        if (!is_weight(name)) continue;
        names[count] = name;
        tensors[count++] = golden_tensor(context, file, name, dtype);
    }
    test_path(path, sizeof path, "weights.safetensors");
    require(weft_safetensors_write(context, path, count, names, tensors, 0, NULL, NULL));
    require(weft_safetensors_open(context, path, &converted));
    remove(path);
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]);
    return converted;
}

static void begin(fixture *f, const model *m, weft_dtype dtype) {
    weft_parameters_options options = WEFT_PARAMETERS_OPTIONS_INIT;
    *f = (fixture){.tolerance = dtype == WEFT_F64 ? 1e-9 : 1e-5};
    require(weft_context_create(NULL, &f->context));
    f->file = golden_open(f->context, m->file);
    f->weights = weights_of(f->context, f->file, dtype);
    options.dtype = dtype, options.weights = f->weights;
    require(weft_graph_create(f->context, "step", &f->g));
    require(weft_parameters_create(f->context, f->g, &options, &f->p));
    weft_value *loss = m->build(f->g, f->p, dtype);
    weft_parameters_gradient(f->p, loss);
    int count = weft_parameters_count(f->p);
    weft_parameter *list = weft_parameters_list(f->p);
    weft_graph_output(f->g, "loss", loss);
    for (int i = 0; i < count; i++) weft_graph_output(f->g, list[i].name, list[i].gradient);
    weft_optim_options adamw = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    adamw.beta2 = m->beta2;
    adamw.step = weft_optim_step(f->g);
    adamw.rate = m->rate(f->g, adamw.step, dtype);
    adamw.decay = weft_scalar(f->g, dtype, m->decay);
    weft_graph_output(f->g, "norm", weft_optim_clip_norm(f->g, count, list, m->clip));
    weft_optim_update(f->g, &adamw, count, list);
    require(weft_graph_verify(f->g));
    require(weft_compile(f->g, NULL, &f->program));
    require(weft_session_create(f->program, &f->session));
}

static void end(fixture *f) {
    weft_session_release(f->session);
    weft_program_release(f->program);
    weft_parameters_release(f->p);
    weft_graph_release(f->g);
    weft_safetensors_release(f->weights);
    weft_safetensors_release(f->file);
    weft_context_release(f->context);
}

/* The bias of the keys adds one number to all scores of a row: its gradient is 0, and in f32 Adam makes full steps of
   its rounding. Only f64, where the rounding is below Adam's epsilon, compares it. */
static void forget_key_bias(const char *name, weft_tensor *tensor) {
    size_t length = strlen(name), part = (size_t)weft_tensor_element_count(tensor) / 3;
    bool joint = length > 11 && (!strcmp(name + length - 11, "c_attn.bias") || !strcmp(name + length - 8, "qkv.bias"));
    if (!joint || weft_tensor_dtype(tensor) != WEFT_F32) return;
    memset((float *)weft_tensor_data(tensor) + part, 0, part * sizeof(float));
}

static void close_to(fixture *f, weft_tensor *got, const char *name, int step) {
    weft_tensor *want = golden_tensor(f->context, f->file, name, weft_tensor_dtype(got));
    forget_key_bias(name, got);
    forget_key_bias(name, want);
    double off = distance(got, want);
    ck_assert_msg(off <= f->tolerance, "%s is off by %.3g in step %d", name, off, step);
    weft_tensor_release(want);
}

static void compare_parameters(fixture *f, int step) {
    char name[128];
    for (int i = 0; i < weft_parameters_count(f->p); i++) {
        const char *own = weft_parameters_list(f->p)[i].name;
        weft_tensor *value;
        snprintf(name, sizeof name, "after/%d/%s", step, own);
        require(weft_session_read_state(f->session, own, &value));
        close_to(f, value, name, step);
        weft_tensor_release(value);
    }
}

enum { OUTPUTS_MAX = 64 };

/* Floats in the dtype of the run. */
static weft_tensor *input_tensor(fixture *f, const char *name, weft_dtype dtype) {
    weft_tensor *found = golden_tensor(f->context, f->file, name, WEFT_INVALID);
    if (weft_tensor_dtype(found) != WEFT_F64) return found;
    weft_tensor_release(found);
    return golden_tensor(f->context, f->file, name, dtype);
}

static void run(const model *m, weft_dtype dtype) {
    fixture f;
    char name[128];
    begin(&f, m, dtype);
    weft_tensor *inputs[2];
    for (int i = 0; i < 2; i++) inputs[i] = input_tensor(&f, m->inputs[i], dtype);
    weft_tensor *losses = golden_tensor(f.context, f.file, "loss", WEFT_F64);
    weft_tensor *norms = golden_tensor(f.context, f.file, "norm", WEFT_F64);
    int outputs = weft_graph_output_count(f.g);
    for (int step = 0; step < STEPS; step++) {
        weft_tensor *in[2] = {tensor_row(f.context, inputs[0], step), tensor_row(f.context, inputs[1], step)};
        weft_tensor *out[OUTPUTS_MAX] = {0};
        ck_assert_int_le(outputs, OUTPUTS_MAX);
        require(weft_session_call(f.session, 2, in, outputs, out));
        double off[2] = {element(out[0], 0) / element(losses, step) - 1,
                         element(out[outputs - 1], 0) / element(norms, step) - 1};
        for (int i = 0; i < 2; i++)
            ck_assert_msg(off[i] < f.tolerance && -off[i] < f.tolerance, "%s of step %d is off by %.3g",
                          i ? "norm" : "loss", step, off[i]);
        for (int i = 1; step == 0 && i < outputs - 1; i++) {
            snprintf(name, sizeof name, "gradient/%s", weft_graph_output_name(f.g, i));
            close_to(&f, out[i], name, step);
        }
        if (step == 0 || step == 4 || step == 9 || step == 19) compare_parameters(&f, step + 1);
        for (int i = 0; i < outputs; i++) weft_tensor_release(out[i]);
        for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
    }
    for (int i = 0; i < 2; i++) weft_tensor_release(inputs[i]);
    weft_tensor_release(losses);
    weft_tensor_release(norms);
    end(&f);
}

START_TEST(test_f64) { run(&models[_i], WEFT_F64); }
END_TEST

START_TEST(test_f32) { run(&models[_i], WEFT_F32); }
END_TEST

Suite *steps_suite(void) {
    Suite *suite = suite_create("steps");
    TCase *group = tcase_create("20 steps");
    tcase_set_timeout(group, 200);
    tcase_add_loop_test(group, test_f64, 0, sizeof models / sizeof *models);
    tcase_add_loop_test(group, test_f32, 0, sizeof models / sizeof *models);
    suite_add_tcase(suite, group);
    return suite;
}
