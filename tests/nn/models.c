/* Models with parameters against tests/golden/models.py, compiled, in f64 and f32: residual networks in evaluation and
   in a training step with its running statistics, a Llama with gradients, a perceptron, a mixture of experts trained
   for some steps. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/golden.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/transform.h"

enum { TENSORS_MAX = 400 };

typedef struct fixture {
    weft_context *context;
    weft_safetensors *file, *weights;
    weft_graph *g;
    weft_parameters *p;
    weft_dtype dtype;
    const char *model;
    double tolerance;
} fixture;

/* MODEL/NAME in the dtype of the run; integers as they are. */
static weft_tensor *tensor_of(fixture *f, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s/%s", f->model, name);
    weft_tensor *found = golden_tensor(f->context, f->file, full, WEFT_INVALID), *copy;
    weft_dtype own = weft_tensor_dtype(found);
    if (own == f->dtype || (own != WEFT_F32 && own != WEFT_F64)) return found;
    require(weft_tensor_create(f->context, f->dtype, weft_tensor_rank(found), weft_tensor_shape(found), &copy));
    for (int64_t i = 0; i < weft_tensor_element_count(found); i++)
        if (f->dtype == WEFT_F64)
            ((double *)weft_tensor_data(copy))[i] = element(found, i);
        else
            ((float *)weft_tensor_data(copy))[i] = (float)element(found, i);
    weft_tensor_release(found);
    return copy;
}

/* Weights are the names of the model with no '/' of their own. */
static void open_weights(fixture *f) {
    const char *names[TENSORS_MAX], *folder = getenv("TMPDIR");
    weft_tensor *tensors[TENSORS_MAX];
    char path[512];
    int count = 0;
    size_t length = strlen(f->model);
    for (int i = 0; i < weft_safetensors_count(f->file); i++) {
        const char *name = weft_safetensors_name(f->file, i);
        if (strncmp(name, f->model, length) != 0 || name[length] != '/' || !strchr(name + length, '.')) continue;
        if (strchr(name + length + 1, '/')) continue;
        ck_assert_int_lt(count, TENSORS_MAX);
        names[count] = name + length + 1;
        tensors[count] = tensor_of(f, names[count]);
        count++;
    }
    snprintf(path, sizeof path, "%s/weft-nn-%ld", folder ? folder : "/tmp", (long)getpid());
    require(weft_safetensors_write(f->context, path, count, names, tensors, 0, NULL, NULL));
    require(weft_safetensors_open(f->context, path, &f->weights));
    remove(path);
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]);
}

static void begin(fixture *f, const char *model, weft_dtype dtype, bool constant) {
    *f = (fixture){.dtype = dtype, .model = model, .tolerance = dtype == WEFT_F64 ? 1e-9 : 1e-4};
    require(weft_context_create(NULL, &f->context));
    f->file = golden_open(f->context, "models.safetensors");
    open_weights(f);
    weft_parameters_options o = WEFT_PARAMETERS_OPTIONS_INIT;
    o.dtype = dtype, o.weights = f->weights, o.constant = constant;
    require(weft_graph_create(f->context, model, &f->g));
    require(weft_parameters_create(f->context, f->g, &o, &f->p));
}

static void end(fixture *f) {
    weft_parameters_release(f->p);
    weft_graph_release(f->g);
    weft_safetensors_release(f->weights);
    weft_safetensors_release(f->file);
    weft_context_release(f->context);
}

static void compare(fixture *f, const weft_tensor *got, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "%s/%s", f->model, name);
    weft_tensor *want = golden_tensor(f->context, f->file, full, WEFT_F64);
    double off = distance(got, want);
    ck_assert_msg(off <= f->tolerance, "%s is off by %.3g in %s", full, off, weft_dtype_name(f->dtype));
    weft_tensor_release(want);
}

static weft_value *input(fixture *f, const char *name, const weft_tensor *t) {
    return weft_graph_input(f->g, name, weft_tensor_dtype(t), weft_tensor_rank(t), weft_tensor_shape(t));
}

/* Calls once; outputs by the names of the data, then states. */
static void run(fixture *f, int input_count, weft_tensor **in, int state_count, const char *const *states) {
    weft_program *program;
    weft_session *session;
    weft_tensor *out[16] = {0};
    int outputs = weft_graph_output_count(f->g);
    require(weft_graph_verify(f->g));
    require(weft_compile(f->g, NULL, &program));
    require(weft_session_create(program, &session));
    require(weft_session_call(session, input_count, in, outputs, out));
    for (int i = 0; i < outputs; i++) {
        compare(f, out[i], weft_graph_output_name(f->g, i));
        weft_tensor_release(out[i]);
    }
    for (int i = 0; i < state_count; i++) {
        char name[160];
        weft_tensor *value;
        require(weft_session_read_state(session, states[i], &value));
        snprintf(name, sizeof name, "after/%s", states[i]);
        compare(f, value, name);
        weft_tensor_release(value);
    }
    for (int i = 0; i < input_count; i++) weft_tensor_release(in[i]);
    weft_session_release(session);
    weft_program_release(program);
}

/* Outputs gradient/NAME. */
static void give_gradients(fixture *f, weft_value *loss, int count, const char *const *names) {
    weft_parameters_gradient(f->p, loss);
    for (int n = 0; n < count; n++) {
        char name[160];
        snprintf(name, sizeof name, "gradient/%s", names[n]);
        for (int i = 0; i < weft_parameters_count(f->p); i++) {
            const weft_parameter *p = &weft_parameters_list(f->p)[i];
            if (!strcmp(p->name, names[n])) weft_graph_output(f->g, name, p->gradient);
        }
    }
    ck_assert_int_ge(weft_graph_output_count(f->g), count);
}

typedef struct resnet_case {
    const char *model;
    weft_nn_resnet_options o;
    const char *gradients[2], *states[4];
} resnet_case;

#define OPTIONS(bottleneck, small, ...)                                                                                \
    {sizeof(weft_nn_resnet_options), {__VA_ARGS__}, bottleneck, small, false, 5, 2, 0.0}
static const resnet_case resnets[] = {
    {"resnet18",
     OPTIONS(false, false, 2, 2, 2, 2),
     {"conv1.weight", "layer3.0.downsample.1.weight"},
     {"bn1.running_mean", "bn1.running_var", "layer4.1.bn2.running_mean", "layer3.0.downsample.1.running_var"}},
    {"resnet50",
     OPTIONS(true, true, 3, 4, 6, 3),
     {"conv1.weight", "layer4.2.bn3.bias"},
     {"bn1.running_mean", "layer2.3.bn2.running_var", "layer4.2.bn3.running_mean",
      "layer1.0.downsample.1.running_var"}},
};
enum { RESNETS = sizeof resnets / sizeof *resnets };

static void run_resnet(const resnet_case *c, weft_dtype dtype, bool train) {
    fixture f;
    begin(&f, c->model, dtype, !train);
    weft_nn_resnet_options o = c->o;
    o.train = train;
    weft_tensor *in[2] = {tensor_of(&f, "images"), tensor_of(&f, "labels")};
    weft_value *logits = weft_nn_resnet(f.p, &o, input(&f, "images", in[0]));
    weft_graph_output(f.g, train ? "trained" : "logits", logits);
    if (train) {
        weft_value *loss = weft_loss_cross_entropy(f.g, logits, input(&f, "labels", in[1]), NULL);
        weft_graph_output(f.g, "loss", loss);
        give_gradients(&f, loss, 2, c->gradients);
    } else {
        weft_tensor_release(in[1]);
    }
    run(&f, train ? 2 : 1, in, train ? 4 : 0, c->states);
    end(&f);
}

START_TEST(test_resnet) {
    for (int d = 0; d < 2; d++) run_resnet(&resnets[_i / 2], d ? WEFT_F32 : WEFT_F64, _i & 1);
}
END_TEST

START_TEST(test_llama) {
    static const char *const gradients[3] = {"model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight",
                                             "model.layers.1.mlp.gate_proj.weight"};
    fixture f;
    begin(&f, "llama", _i ? WEFT_F32 : WEFT_F64, false);
    weft_nn_llama_options o = WEFT_NN_LLAMA_OPTIONS_INIT;
    o.layers = 2, o.heads = 4, o.kv_heads = 2, o.width = 16, o.hidden = 24, o.vocabulary = 11;
    weft_tensor *in[1] = {tensor_of(&f, "tokens")};
    weft_value *tokens = input(&f, "tokens", in[0]), *logits = weft_nn_llama(f.p, &o, tokens);
    weft_graph_output(f.g, "logits", logits);
    weft_dim last = weft_value_dim(tokens, 1);
    weft_value *loss = weft_loss_cross_entropy(f.g, weft_slice_axis(f.g, logits, 1, 0, last - 1),
                                               weft_slice_axis(f.g, tokens, 1, 1, last), NULL);
    weft_graph_output(f.g, "loss", loss);
    give_gradients(&f, loss, 3, gradients);
    run(&f, 1, in, 0, NULL);
    end(&f);
}
END_TEST

START_TEST(test_mlp) {
    static const int64_t widths[4] = {5, 8, 6, 3};
    fixture f;
    begin(&f, "mlp", _i ? WEFT_F32 : WEFT_F64, true);
    weft_nn_mlp_options o = WEFT_NN_MLP_OPTIONS_INIT;
    o.count = 4, o.widths = widths, o.activation = WEFT_NN_GELU;
    weft_tensor *in[1] = {tensor_of(&f, "x")};
    weft_graph_output(f.g, "y", weft_nn_mlp(f.p, &o, input(&f, "x", in[0])));
    run(&f, 1, in, 0, NULL);
    end(&f);
}
END_TEST

/* in: x, target. Square error, balance of experts, sizes of logits; y. */
static weft_value *experts_loss(fixture *f, weft_tensor **in, weft_value **out_y) {
    in[0] = tensor_of(f, "x"), in[1] = tensor_of(f, "target");
    weft_nn_experts_options o = WEFT_NN_EXPERTS_OPTIONS_INIT;
    o.width = 6, o.hidden = 10, o.experts = 5, o.top = 2;
    weft_value *logits, *chosen, *x = input(f, "x", in[0]), *target = input(f, "target", in[1]);
    *out_y = weft_nn_experts(f->p, &o, "moe", x, &logits, &chosen);
    weft_value *loss = weft_loss_mse(f->g, *out_y, target);
    loss = weft_add(f->g, loss, weft_mul_number(f->g, weft_loss_expert_balance(f->g, logits, chosen), 0.1));
    return weft_add(f->g, loss, weft_mul_number(f->g, weft_loss_router_z(f->g, logits), 0.01));
}

START_TEST(test_experts) {
    static const char *const gradients[4] = {"moe.router", "moe.w1", "moe.w2", "moe.w3"};
    fixture f;
    begin(&f, "experts", _i ? WEFT_F32 : WEFT_F64, false);
    weft_tensor *in[2];
    weft_value *y, *loss = experts_loss(&f, in, &y);
    weft_graph_output(f.g, "y", y);
    give_gradients(&f, loss, 4, gradients);
    run(&f, 2, in, 0, NULL);
    end(&f);
}
END_TEST

START_TEST(test_experts_learn) {
    fixture f;
    begin(&f, "experts", _i ? WEFT_F32 : WEFT_F64, false);
    weft_tensor *in[2], *out, *want = golden_tensor(f.context, f.file, "experts/losses", WEFT_F64);
    weft_value *y, *loss = experts_loss(&f, in, &y);
    weft_parameters_gradient(f.p, loss);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_SGD);
    o.rate = weft_scalar(f.g, f.dtype, 0.5), o.step = weft_optim_step(f.g);
    weft_optim_update(f.g, &o, weft_parameters_count(f.p), weft_parameters_list(f.p));
    weft_graph_output(f.g, "loss", loss);
    weft_program *program;
    weft_session *session;
    require(weft_graph_verify(f.g));
    require(weft_compile(f.g, NULL, &program));
    require(weft_session_create(program, &session));
    for (int64_t step = 0; step < weft_tensor_element_count(want); step++) {
        out = NULL;
        require(weft_session_call(session, 2, in, 1, &out));
        double off = fabs(element(out, 0) - element(want, step));
        ck_assert_msg(off <= f.tolerance, "the loss of step %lld is off by %.3g", (long long)step, off);
        weft_tensor_release(out);
    }
    weft_session_release(session);
    weft_program_release(program);
    for (int i = 0; i < 2; i++) weft_tensor_release(in[i]);
    weft_tensor_release(want);
    end(&f);
}
END_TEST

TCase *models_case(void) {
    TCase *tests = tcase_create("models");
    tcase_set_timeout(tests, 200);
    tcase_add_loop_test(tests, test_resnet, 0, 2 * RESNETS);
    tcase_add_loop_test(tests, test_llama, 0, 2);
    tcase_add_loop_test(tests, test_mlp, 0, 2);
    tcase_add_loop_test(tests, test_experts, 0, 2);
    tcase_add_loop_test(tests, test_experts_learn, 0, 2);
    return tests;
}
