/* What a configuration file trains: its settings, the model, the step. What the keys mean: the defaults below and
   examples/train_char.toml. Read next: train_images.c, train.c. */
#include "cli/train.h"

#include <float.h>
#include <string.h>

#include "weft/loss.h"
#include "weft/transform.h"

static weft_status find_names(cli_config *c, cli_train_settings *s) {
    const char *model = cli_config_text(c, "model.kind", "gpt"),
               *method = cli_config_text(c, "optimizer.name", "adamw");
    const char *schedule = cli_config_text(c, "schedule.kind", "cosine");
    static const char *const kinds[CLI_TRAIN_MODELS] = {"gpt", "vit", "resnet", "mlp"};
    int kind = 0;
    while (kind < CLI_TRAIN_MODELS && strcmp(model, kinds[kind]) != 0) kind++;
    if (kind == CLI_TRAIN_MODELS)
        return WEFT_STATUS(WEFT_INVALID_DATA,
                           "%s: there is no model \"%s\"; \"gpt\", \"vit\", \"resnet\" and \"mlp\" are", c->path,
                           model);
    s->kind = (cli_train_model)kind;
    weft_optim_method found = weft_optim_find(method);
    if (found == WEFT_OPTIM_COUNT || found == WEFT_OPTIM_SOPHIA)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: no optimizer \"%s\" updates every parameter here", c->path, method);
    s->optimizer = weft_optim_defaults(found);
    s->rest = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    s->optimizer.match_rms = true; /* muon and adamw share the schedule */
    s->schedule = (weft_rate_schedule)WEFT_RATE_SCHEDULE_INIT;
    s->schedule.kind = weft_rate_schedule_find(schedule);
    if (s->schedule.kind == WEFT_RATE_SCHEDULE_COUNT)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: there is no schedule \"%s\"", c->path, schedule);
    return NULL;
}

/* How the text held back is read: in order, the same pieces every time, or at random places, other ones every time. */
static weft_status find_evaluation(cli_config *c, cli_train_settings *s) {
    const char *name = cli_config_text(c, "train.evaluation", "in order");
    s->in_order = !strcmp(name, "in order");
    s->loop.evaluate_anew = !strcmp(name, "random");
    if (s->in_order || s->loop.evaluate_anew) return NULL;
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.evaluation is \"in order\" or \"random\", not \"%s\"", c->path,
                       name);
}

static weft_status find_precision(cli_config *c, cli_train_settings *s) {
    const char *name = cli_config_text(c, "train.precision", "f32");
    s->precision = !strcmp(name, "f32")    ? WEFT_F32
                   : !strcmp(name, "bf16") ? WEFT_BF16
                   : !strcmp(name, "f16")  ? WEFT_F16
                                           : WEFT_INVALID;
    if (s->precision != WEFT_INVALID) return NULL;
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.precision is \"f32\", \"bf16\" or \"f16\", not \"%s\"", c->path,
                       name);
}

enum { LAYERS_MAX = 10000 }; /* more are a slip: the graph alone would fill the memory */

static weft_status check_gpt(const cli_config *c, const cli_train_settings *s) {
    if (!s->text) return WEFT_STATUS(WEFT_INVALID_DATA, "%s: data.text names no file", c->path);
    const weft_nn_gpt_options *m = &s->model;
    if (m->layers < 1 || m->layers > LAYERS_MAX || m->heads < 1 || m->width < m->heads || m->width % m->heads ||
        m->context < 1)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: a model of %d layers, %d heads, width %lld and context %lld",
                           c->path, m->layers, m->heads, (long long)m->width, (long long)m->context);
    if (!(s->share > 0 && s->share < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: data.train lies between 0 and 1", c->path);
    if (!(m->dropout >= 0 && m->dropout < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: model.dropout lies in [0, 1)", c->path);
    if (!(m->attention_dropout >= 0 && m->attention_dropout < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: model.attention_dropout lies in [0, 1)", c->path);
    return NULL;
}

static weft_status check_settings(const cli_config *c, const cli_train_settings *s) {
    const weft_nn_gpt_options *m = &s->model;
    WEFT_TRY(s->kind == CLI_TRAIN_GPT ? check_gpt(c, s) : cli_train_images_check(c, s), "the model");
    if (s->images.layers > LAYERS_MAX)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: a model of %d layers", c->path, s->images.layers);
    if (s->batch < 1 || s->steps < 1) return WEFT_STATUS(WEFT_INVALID_DATA, "%s: batch and steps start at 1", c->path);
    if (s->parts > 1 && (m->dropout > 0 || m->attention_dropout > 0 || s->precision == WEFT_F16))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: dropout and f16 go with train.parts = 1", c->path);
    if (!(s->memory >= 0 && s->memory < 9e18))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.memory is a share up to 1 or bytes, not %g", c->path,
                           s->memory);
    if (s->adaptive && s->parts < 3)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.adaptive has no say with fewer than 3 train.parts", c->path);
    if (!(s->clip >= 0) || !(s->optimizer.beta1 >= 0 && s->optimizer.beta1 < 1) ||
        !(s->optimizer.beta2 >= 0 && s->optimizer.beta2 < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.clip is at least 0, the betas of the optimizer lie in [0, 1)",
                           c->path);
    if (!(s->schedule.base >= 0) || !(s->schedule.final >= 0) || !(s->schedule.power >= 0) || !(s->decay >= 0) ||
        !(s->optimizer.epsilon >= 0))
        return WEFT_STATUS(
            WEFT_INVALID_DATA,
            "%s: schedule.base, schedule.final, schedule.power, optimizer.decay and optimizer.epsilon are "
            "at least 0",
            c->path);
    const double numbers[] = {s->schedule.base, s->schedule.final,    s->schedule.power,
                              s->decay,         s->optimizer.epsilon, s->clip};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] > (double)FLT_MAX)
            return WEFT_STATUS(WEFT_INVALID_DATA, "%s: %g is beyond f32, in which rates and decay are", c->path,
                               numbers[i]);
    return NULL;
}

static void read_gpt(cli_config *c, cli_train_settings *s) {
    s->text = cli_config_text(c, "data.text", NULL);
    s->share = cli_config_number(c, "data.train", 0.9);
    s->model.layers = (int)cli_config_count(c, "model.layers", 4, 1);
    s->model.heads = (int)cli_config_count(c, "model.heads", 4, 1);
    s->model.width = cli_config_count(c, "model.width", 128, 1);
    s->model.context = cli_config_count(c, "model.context", 64, 1);
    s->model.bias = cli_config_flag(c, "model.bias", false);
    s->model.dropout = cli_config_number(c, "model.dropout", 0);
    s->model.attention_dropout = cli_config_number(c, "model.attention_dropout", 0);
    s->model.seed = (uint32_t)cli_config_integer(c, "train.seed", 1);
    s->pieces = cli_config_count(c, "train.pieces", 0, 0);
}

weft_status cli_train_read(cli_config *c, cli_train_settings *s) {
    *s = (cli_train_settings){.model = WEFT_NN_GPT_OPTIONS_INIT, .loop = WEFT_TRAIN_OPTIONS_INIT};
    WEFT_TRY(find_names(c, s), "reading the configuration");
    WEFT_TRY(find_evaluation(c, s), "reading the configuration");
    WEFT_TRY(find_precision(c, s), "reading the configuration");
    s->device = cli_config_text(c, "train.device", "cpu");
    if (s->kind == CLI_TRAIN_GPT)
        read_gpt(c, s);
    else
        WEFT_TRY(cli_train_images_read(c, s), "reading the configuration");
    s->steps = cli_config_count(c, "train.steps", 2000, 1);
    s->batch = cli_config_count(c, "train.batch", 12, 1);
    s->parts = cli_config_count(c, "train.parts", 1, 1);
    s->memory = cli_config_number(c, "train.memory", 0);
    s->adaptive = cli_config_flag(c, "train.adaptive", false);
    s->seed = (uint64_t)cli_config_integer(c, "train.seed", 1);
    s->clip = cli_config_number(c, "train.clip", 1.0);
    s->folder = cli_config_text(c, "train.folder", NULL);
    s->loop.resume = cli_config_flag(c, "train.resume", true);
    s->loop.log_every = cli_config_count(c, "train.log_every", 10, 0);
    s->loop.checkpoint_every = cli_config_count(c, "train.checkpoint_every", 500, 0);
    s->loop.checkpoint_keep = (int)cli_config_count(c, "train.checkpoint_keep", 3, 0);
    s->loop.evaluate_every = cli_config_count(c, "train.evaluate_every", 500, 0);
    s->loop.evaluation_batches = cli_config_count(c, "train.evaluation_batches", 20, 0);
    s->decay = cli_config_number(c, "optimizer.decay", 0.1);
    s->rest.beta1 = cli_config_number(c, "optimizer.beta1", s->rest.beta1);
    s->rest.beta2 = cli_config_number(c, "optimizer.beta2", s->rest.beta2);
    if (s->optimizer.method != WEFT_OPTIM_MUON)
        s->optimizer.beta1 = cli_config_number(c, "optimizer.beta1", s->optimizer.beta1);
    s->optimizer.beta2 = cli_config_number(c, "optimizer.beta2", s->optimizer.beta2);
    s->optimizer.epsilon = cli_config_number(c, "optimizer.epsilon", s->optimizer.epsilon);
    s->optimizer.nesterov = cli_config_flag(c, "optimizer.nesterov", s->optimizer.nesterov);
    s->optimizer.lookahead = cli_config_count(c, "optimizer.lookahead", s->optimizer.lookahead, 0);
    s->schedule.base = cli_config_number(c, "schedule.base", 1e-3);
    s->schedule.final = cli_config_number(c, "schedule.final", 1e-4);
    s->schedule.warmup = cli_config_count(c, "schedule.warmup", 100, 0);
    s->schedule.decay_steps = cli_config_count(c, "schedule.decay_steps", s->steps / 5, 0);
    s->schedule.power = cli_config_number(c, "schedule.power", 0);
    s->schedule.total = s->steps;
    WEFT_TRY(cli_config_finish(c), "reading the configuration");
    return check_settings(c, s);
}

static bool is_in_block(const char *name) { return strstr(name, ".h.") || !strncmp(name, "blocks.", 7); }

/* With muon the matrices inside the blocks; the others go to `rest`. Each list is one call, so that updates share
   launches; the parameters keep their places, as nobody reads them afterwards. */
static void update(const cli_train_settings *s, weft_graph *g, const weft_optim_options *o, int count,
                   weft_parameter *list) {
    int mine = 0;
    for (int i = 0; o->method == WEFT_OPTIM_MUON && i < count; i++) {
        if (weft_value_rank(list[i].value) != 2 || !is_in_block(list[i].name)) continue;
        weft_parameter other = list[mine];
        list[mine++] = list[i];
        list[i] = other;
    }
    if (o->method != WEFT_OPTIM_MUON) mine = count;
    weft_optim_update(g, o, mine, list);
    weft_optim_options rest = s->rest;
    rest.step = o->step, rest.rate = o->rate, rest.decay = o->decay, rest.apply = o->apply;
    if (mine < count) weft_optim_update(g, &rest, count - mine, list + mine);
}

static void give_norms(weft_graph *g, int count, const weft_parameter *list) {
    char name[300];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "norm/%s", list[i].name);
        weft_graph_output(g, name, weft_optim_gradient_norm(g, 1, &list[i]));
    }
}

/* One part of a step: its inputs, the sum of its losses over what the mean is taken of: elements of the second input.
 */
typedef struct part {
    weft_value *inputs[2], *loss;
} part;

static weft_value *element_count(weft_graph *g, weft_value *labels, weft_dtype dtype) {
    weft_dim count = 1;
    for (int i = 0; i < weft_value_rank(labels); i++) count = weft_dim_times(g, count, weft_value_dim(labels, i));
    return weft_convert(g, weft_extent(g, count), dtype);
}

static void apply_part(void *self, weft_graph *g, weft_value *const *slices, weft_value **results) {
    const part *one = self;
    weft_apply(g, 1, &one->loss, 2, one->inputs, slices, results);
    results[1] = element_count(g, slices[1], weft_value_dtype(results[0]));
}

enum { ADAPT_EVERY = 50 };

/* Gradients over all parts; the model was built on the first. Returns the mean loss. */
static weft_value *accumulate(const cli_train_settings *s, cli_train_phase *p, weft_value *const *inputs, part *one,
                              weft_value *step) {
    weft_graph *g = p->graph;
    double examples = (double)s->batch;
    weft_value *squares[2], *active = s->adaptive ? weft_optim_parts(g, 2) : NULL;
    weft_value *loss =
        weft_optim_accumulate(g, 2, inputs, active, apply_part, one, weft_parameters_count(p->parameters),
                              weft_parameters_list(p->parameters), squares);
    weft_value *parts = active ? active : weft_scalar_integer(g, WEFT_I64, s->parts);
    weft_value *scale = weft_optim_noise_scale(g, squares, examples, parts, 0.95);
    weft_graph_output(g, "loss", loss);
    weft_graph_output(g, "noise_scale", scale);
    if (!active) return loss;
    weft_graph_output(g, "parts", active);
    weft_optim_parts_adapt(g, active, scale, examples, s->parts, step, ADAPT_EVERY);
    return loss;
}

/* An input of a step in `parts`; *out_first: of the first one. */
static weft_value *split_input(weft_graph *g, const char *name, weft_dtype dtype, int rank, const weft_dim *shape,
                               int64_t parts, weft_value **out_first) {
    weft_dim all[WEFT_MAX_RANK], split[WEFT_MAX_RANK + 1] = {parts};
    for (int i = 0; i < rank; i++) all[i] = split[i + 1] = shape[i];
    all[0] *= parts;
    weft_value *input = *out_first = weft_graph_input(g, name, dtype, rank, all);
    if (parts == 1) return input;
    input = weft_reshape(g, input, rank + 1, split);
    *out_first = weft_squeeze(g, weft_slice_axis(g, input, 0, 0, 1), 1, (int64_t[]){0});
    return input;
}

/* The share of images that are classified right; an output. */
static void give_accuracy(weft_graph *g, weft_value *logits, weft_value *labels) {
    weft_value *right = weft_compare(g, WEFT_EQ, weft_arg_reduce(g, WEFT_MAX, logits, 1, false, false), labels);
    weft_graph_output(g, "accuracy", weft_reduce_mean(g, weft_convert(g, right, WEFT_F32), 0, NULL, false));
}

static weft_value *build_image_loss(const cli_train_settings *s, cli_train_phase *p, int64_t parts, weft_value **inputs,
                                    part *one, weft_value *step, weft_value **out_logits) {
    weft_graph *g = p->graph;
    const int64_t *shape = s->images.shape;
    weft_dim pixels[4] = {s->batch, shape[0], shape[1], shape[2]};
    inputs[0] = split_input(g, "images", WEFT_F32, 4, pixels, parts, &one->inputs[0]);
    inputs[1] = split_input(g, "labels", WEFT_I64, 1, pixels, parts, &one->inputs[1]);
    *out_logits = cli_train_images_logits(s, p->parameters, step != NULL, one->inputs[0]);
    weft_cross_entropy_options smoothing = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    if (step) smoothing.smoothing = s->images.smoothing;
    return weft_loss_cross_entropy(g, *out_logits, one->inputs[1], &smoothing);
}

static weft_value *build_text_loss(const cli_train_settings *s, cli_train_phase *p, int64_t parts, weft_value **inputs,
                                   part *one, weft_value *step) {
    weft_nn_gpt_options model = s->model;
    model.step = step;
    if (!step) model.dropout = model.attention_dropout = 0;
    weft_dim shape[2] = {s->batch, s->model.context};
    inputs[0] = split_input(p->graph, "tokens", WEFT_I64, 2, shape, parts, &one->inputs[0]);
    inputs[1] = split_input(p->graph, "next", WEFT_I64, 2, shape, parts, &one->inputs[1]);
    return weft_nn_gpt_loss(p->parameters, &model, one->inputs[0], one->inputs[1], s->pieces, NULL);
}

/* The loss of a batch, or of the first of several; inputs and one: for accumulate. *out_logits of images. */
static weft_value *build_loss(const cli_train_settings *s, cli_train_phase *p, int64_t parts, weft_value **inputs,
                              part *one, weft_value *step, weft_value **out_logits) {
    weft_value *loss = s->kind == CLI_TRAIN_GPT ? build_text_loss(s, p, parts, inputs, one, step)
                                                : build_image_loss(s, p, parts, inputs, one, step, out_logits);
    one->loss = weft_mul(p->graph, loss, element_count(p->graph, one->inputs[1], weft_value_dtype(loss)));
    return loss;
}

static void build(const cli_train_settings *s, cli_train_phase *p, cli_train_kind kind) {
    weft_graph *g = p->graph;
    weft_value *inputs[2], *logits = NULL;
    part one;
    int64_t parts = kind == CLI_TRAIN_EVALUATION ? 1 : s->parts;
    weft_value *step = kind == CLI_TRAIN_EVALUATION ? NULL : weft_optim_step(g);
    weft_value *loss = build_loss(s, p, parts, inputs, &one, step, &logits);
    if (parts == 1) weft_graph_output(g, "loss", loss);
    if (parts == 1 && logits) give_accuracy(g, logits, inputs[1]);
    if (kind == CLI_TRAIN_EVALUATION) return;
    weft_optim_options o = s->optimizer;
    o.step = step;
    if (parts > 1) {
        (void)accumulate(s, p, inputs, &one, step);
    } else if (s->precision == WEFT_F16) {
        weft_loss_scale scale = WEFT_LOSS_SCALE_INIT;
        weft_parameters_gradient_scaled(p->parameters, loss, &scale);
        o.step = scale.step, o.apply = scale.apply;
        weft_graph_output(g, "loss_scale", scale.scale);
    } else {
        weft_parameters_gradient(p->parameters, loss);
    }
    o.rate = weft_rate_schedule_value(g, &s->schedule, step, WEFT_F32);
    o.decay = s->decay != 0 ? weft_scalar(g, WEFT_F32, s->decay) : NULL;
    int count = weft_parameters_count(p->parameters);
    weft_parameter *list = weft_parameters_list(p->parameters);
    if (kind == CLI_TRAIN_NORMS) give_norms(g, count, list);
    weft_graph_output(g, "gradient_norm",
                      s->clip > 0 ? weft_optim_clip_norm(g, count, list, s->clip)
                                  : weft_optim_gradient_norm(g, count, list));
    weft_graph_output(g, "rate", o.rate);
    update(s, g, &o, count, list);
}

weft_status cli_train_open(weft_context *context, cli_train_settings *s, cli_train_data *data) {
    if (s->kind != CLI_TRAIN_GPT) return cli_train_images_open(context, s, data);
    WEFT_TRY(weft_corpus_open(context, s->text, &data->text), "the text");
    s->model.vocabulary = weft_corpus_vocabulary(data->text);
    return NULL;
}

void cli_train_close(cli_train_data *data) {
    weft_corpus_release(data->text);
    for (int i = 0; i < 2; i++) weft_images_release(data->images[i]);
}

static weft_status load(weft_context *context, const cli_train_settings *s, const cli_train_data *data,
                        cli_train_phase *p, bool trains) {
    if (s->kind != CLI_TRAIN_GPT) {
        const cli_train_images *m = &s->images;
        p->image_batches = (weft_image_batches){.images = data->images[!trains],
                                                .seed = s->seed,
                                                .shuffle = trains || !s->in_order,
                                                .mean = (float)m->mean,
                                                .deviation = (float)m->deviation};
        if (trains) p->image_batches.margin = m->margin, p->image_batches.mirror = m->mirror;
        return weft_loader_create(context, p->program, weft_images_fill, &p->image_batches, NULL, &p->loader);
    }
    int64_t count = weft_corpus_count(data->text), split = (int64_t)((double)count * s->share);
    p->batches = trains ? (weft_corpus_batches){data->text, 0, split, s->seed, false}
                        : (weft_corpus_batches){data->text, split, count, s->seed, s->in_order};
    return weft_loader_create(context, p->program, weft_corpus_fill, &p->batches, NULL, &p->loader);
}

weft_status cli_train_begin(weft_context *context, const cli_train_settings *s, const cli_train_data *data,
                            cli_train_phase *p, cli_train_kind kind) {
    bool trains = kind != CLI_TRAIN_EVALUATION;
    weft_parameters_options o = WEFT_PARAMETERS_OPTIONS_INIT;
    weft_compile_options compile = WEFT_COMPILE_OPTIONS_INIT;
    compile.targets = s->device;
    if (trains && s->memory > 1) compile.memory_bytes = (int64_t)s->memory;
    if (trains && s->memory <= 1) compile.memory_share = s->memory;
    o.seed = s->seed;
    if (s->precision != WEFT_F32) o.compute = s->precision;
    WEFT_TRY(weft_graph_create(context, trains ? "train" : "evaluate", &p->graph), "building");
    WEFT_TRY(weft_parameters_create(context, p->graph, &o, &p->parameters), "building");
    build(s, p, kind);
    WEFT_TRY(weft_graph_verify(p->graph), "building");
    WEFT_TRY(weft_compile(p->graph, &compile, &p->program), "compiling");
    WEFT_TRY(weft_session_create(p->program, &p->session), "compiling");
    return load(context, s, data, p, trains);
}

void cli_train_end(cli_train_phase *p) {
    weft_loader_release(p->loader);
    weft_session_release(p->session);
    weft_program_release(p->program);
    weft_parameters_release(p->parameters);
    weft_graph_release(p->graph);
}
