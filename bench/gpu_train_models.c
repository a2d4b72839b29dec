/* The graphs of one training step: a GPT on tokens, a vision transformer on images, a network for Burgers' equation
   with second derivatives in its loss. AdamW with clipping and a cosine schedule; Adam for the network. */
#include "bench/gpu_train.h"

#include <math.h>
#include <stdio.h>

#include "weft/loss.h"
#include "weft/ops.h"
#include "weft/optim.h"
#include "weft/transform.h"

enum { PINN_LAYERS_MAX = 16 };

typedef struct builder {
    weft_graph *g;
    weft_parameters *p;
    const train_options *o;
    weft_value *step;
} builder;

static weft_value *gpt_loss(const builder *b) {
    const train_options *o = b->o;
    weft_nn_gpt_options model = WEFT_NN_GPT_OPTIONS_INIT;
    model.layers = o->layers, model.heads = o->heads, model.width = o->width;
    model.vocabulary = o->vocabulary, model.context = o->context, model.bias = o->bias;
    if (!o->evaluates) {
        model.dropout = o->dropout, model.attention_dropout = o->attention_dropout;
        model.step = b->step, model.seed = 1;
    }
    weft_remat_options remat = WEFT_REMAT_OPTIONS_INIT;
    remat.save = o->remat == 1 ? WEFT_SAVE_PRODUCTS : WEFT_SAVE_NOTHING;
    if (o->remat && !o->evaluates) model.remat = &remat;
    weft_dim shape[2] = {o->batch, o->context};
    weft_value *tokens = weft_graph_input(b->g, "tokens", WEFT_I64, 2, shape);
    weft_value *next = weft_graph_input(b->g, "next", WEFT_I64, 2, shape);
    return weft_nn_gpt_loss(b->p, &model, tokens, next, o->pieces, NULL);
}

static weft_value *vit_loss(const builder *b) {
    const train_options *o = b->o;
    weft_nn_vit_model model = WEFT_NN_VIT_MODEL_INIT;
    model.layers = o->layers, model.heads = o->heads, model.width = o->width;
    model.patch = o->patch, model.classes = o->classes;
    weft_value *images = weft_graph_input(b->g, "images", WEFT_F32, 4, (weft_dim[]){o->batch, 3, o->side, o->side});
    weft_value *labels = weft_graph_input(b->g, "labels", WEFT_I64, 1, &o->batch);
    return weft_loss_cross_entropy(b->g, weft_nn_vit_train(b->p, &model, images), labels, NULL);
}

typedef struct network {
    int layers;
    weft_value *w[PINN_LAYERS_MAX + 1], *b[PINN_LAYERS_MAX + 1];
} network;

static weft_value *evaluate(weft_graph *g, const network *n, weft_value *x, weft_value *t) {
    weft_value *h = weft_concat(g, 1, 2, (weft_value *[]){x, t});
    for (int i = 0; i <= n->layers; i++) {
        h = weft_nn_linear(g, h, n->w[i], n->b[i]);
        if (i < n->layers) h = weft_tanh(g, h);
    }
    return h;
}

static weft_value *mean_square(weft_graph *g, weft_value *x) {
    return weft_reduce_mean(g, weft_square(g, x), 0, NULL, false);
}

/* u_t + u u_x = nu u_xx at `batch` points inside, values at a quarter as many on the border. */
static weft_value *pinn_loss(const builder *b) {
    const train_options *o = b->o;
    weft_graph *g = b->g;
    network n = {.layers = o->layers < PINN_LAYERS_MAX ? o->layers : PINN_LAYERS_MAX};
    static const char *const names[TRAIN_INPUTS_MAX] = {"x", "t", "border x", "border t", "border u"};
    weft_value *in[TRAIN_INPUTS_MAX];
    for (int i = 0; i <= n.layers; i++) {
        char name[2][16];
        int64_t inputs = i ? o->width : 2, outputs = i < n.layers ? o->width : 1;
        snprintf(name[0], sizeof name[0], "w%d", i), snprintf(name[1], sizeof name[1], "b%d", i);
        n.w[i] = weft_parameters_add(b->p, name[0], WEFT_INIT_NORMAL, sqrt(2.0 / (double)(inputs + outputs)), 2,
                                     (int64_t[]){outputs, inputs});
        n.b[i] = weft_parameters_add(b->p, name[1], WEFT_INIT_ZEROS, 0, 1, &outputs);
    }
    for (int i = 0; i < TRAIN_INPUTS_MAX; i++)
        in[i] = weft_graph_input(g, names[i], WEFT_F32, 2, (weft_dim[]){i < 2 ? o->batch : o->batch / 4, 1});
    weft_value *u = evaluate(g, &n, in[0], in[1]);
    weft_value *one = weft_full(g, WEFT_F32, 2, (weft_dim[]){o->batch, 1}, 1);
    weft_value *u_x = weft_jvp(g, u, 1, &in[0], &one), *u_t = weft_jvp(g, u, 1, &in[1], &one);
    weft_value *u_xx = weft_jvp(g, u_x, 1, &in[0], &one);
    weft_value *residual =
        weft_sub(g, weft_add(g, u_t, weft_mul(g, u, u_x)), weft_mul_number(g, u_xx, 0.01 / 3.14159265358979323846));
    weft_value *error = weft_sub(g, evaluate(g, &n, in[2], in[3]), in[4]);
    return weft_add(g, mean_square(g, residual), mean_square(g, error));
}

static void add_update(const builder *b, weft_value *loss, const train_outputs *outputs) {
    weft_graph *g = b->g;
    const train_options *o = b->o;
    bool pinn = o->model[0] == 'p';
    weft_parameters_gradient(b->p, loss);
    int count = weft_parameters_count(b->p);
    weft_parameter *list = weft_parameters_list(b->p);
    for (int i = 0; outputs->gradients && i < count; i++) weft_graph_output(g, list[i].name, list[i].gradient);
    weft_optim_options adam = weft_optim_defaults(pinn ? WEFT_OPTIM_ADAM : WEFT_OPTIM_ADAMW);
    adam.step = b->step;
    if (o->epsilon > 0) adam.epsilon = o->epsilon;
    if (pinn) {
        adam.rate = weft_scalar(g, WEFT_F32, o->rate);
    } else {
        weft_rate_schedule schedule = WEFT_RATE_SCHEDULE_INIT;
        schedule.kind = WEFT_RATE_SCHEDULE_COSINE, schedule.base = o->rate, schedule.final = o->rate / 10;
        schedule.start = o->rate / 100, schedule.warmup = o->steps > 1000 ? 100 : 0, schedule.total = o->steps;
        adam.beta2 = 0.99;
        adam.rate = weft_rate_schedule_value(g, &schedule, b->step, WEFT_F32);
        adam.decay = weft_scalar(g, WEFT_F32, 0.1);
        weft_value *norm = weft_optim_clip_norm(g, count, list, 1.0);
        if (outputs->norm) weft_graph_output(g, "norm", norm);
    }
    weft_optim_update(g, &adam, count, list);
    for (int i = 0; outputs->updated && i < count; i++) {
        char name[160];
        snprintf(name, sizeof name, "updated %s", list[i].name);
        weft_graph_output(g, name, list[i].updated);
    }
}

weft_status train_build(weft_context *context, const train_options *o, const train_outputs *outputs,
                        weft_graph **out_graph, weft_parameters **out_parameters) {
    weft_parameters_options parameters = WEFT_PARAMETERS_OPTIONS_INIT;
    parameters.seed = 1337;
    if (o->dtype != WEFT_F32) parameters.compute = o->dtype;
    WEFT_TRY(weft_graph_create(context, o->evaluates ? "evaluate" : "train", out_graph), "building");
    WEFT_TRY(weft_parameters_create(context, *out_graph, &parameters, out_parameters), "building");
    builder b = {.g = *out_graph, .p = *out_parameters, .o = o};
    if (!o->evaluates) b.step = weft_optim_step(b.g);
    weft_value *loss = o->model[0] == 'g' ? gpt_loss(&b) : o->model[0] == 'v' ? vit_loss(&b) : pinn_loss(&b);
    weft_graph_output(b.g, "loss", loss);
    if (!o->evaluates) add_update(&b, loss, outputs);
    return weft_graph_verify(b.g);
}

/* -- inputs */

static void fill(const train_options *o, int index, weft_tensor *tensor) {
    int64_t count = weft_tensor_element_count(tensor);
    uint32_t state = 1u + (uint32_t)index;
    bool pinn = o->model[0] == 'p';
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        float value = (float)(state >> 8) / 8388608.0f - 1.0f; /* in [-1, 1) */
        if (weft_tensor_dtype(tensor) == WEFT_I64)
            ((int64_t *)weft_tensor_data(tensor))[i] = (state >> 8) % (o->model[0] == 'g' ? o->vocabulary : o->classes);
        else
            ((float *)weft_tensor_data(tensor))[i] = pinn && index % 2 ? (value + 1) / 2 : value;
    }
}

weft_status train_inputs(weft_context *context, const train_options *o, weft_graph *graph, int *out_count,
                         weft_tensor **out_inputs) {
    *out_count = weft_graph_input_count(graph);
    for (int i = 0; i < *out_count && i < TRAIN_INPUTS_MAX; i++) {
        const weft_value *value = weft_graph_input_value(graph, i);
        int64_t shape[WEFT_MAX_RANK];
        for (int axis = 0; axis < weft_value_rank(value); axis++) shape[axis] = weft_value_dim(value, axis);
        WEFT_TRY(weft_tensor_create(context, weft_value_dtype(value), weft_value_rank(value), shape, &out_inputs[i]),
                 "input %d", i);
        fill(o, i, out_inputs[i]);
    }
    return NULL;
}
