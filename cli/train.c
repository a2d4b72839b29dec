/* weft train: a GPT on a text file, from a configuration file. What the keys mean: the table of defaults below and
   examples/train_char.toml. */
#include "cli/cli.h"
#include "cli/config.h"

#include <math.h>
#include <string.h>

#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/train.h"

typedef struct settings {
    const char *text, *folder;
    weft_nn_gpt_options model;
    int64_t batch, steps;
    double share; /* of the text that is trained on; the rest evaluates */
    uint64_t seed;
    bool in_order; /* evaluation: pieces one after the other, the same every time */
    double clip, decay;
    weft_optim_options optimizer, rest; /* rest: muon leaves vectors, embeddings and the classifier to it */
    weft_schedule schedule;
    weft_train_options loop;
} settings;

static weft_status find_names(cli_config *c, settings *s) {
    const char *model = cli_config_text(c, "model.kind", "gpt"),
               *method = cli_config_text(c, "optimizer.name", "adamw");
    const char *schedule = cli_config_text(c, "schedule.kind", "cosine");
    if (strcmp(model, "gpt") != 0)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: there is no model \"%s\"; \"gpt\" is one", c->path, model);
    weft_optim_method found = weft_optim_find(method);
    if (found == WEFT_OPTIM_COUNT || found == WEFT_OPTIM_SOPHIA)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: no optimizer \"%s\" updates every parameter here", c->path, method);
    s->optimizer = weft_optim_defaults(found);
    s->rest = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    s->optimizer.match_rms = true; /* muon and adamw share the schedule */
    s->schedule = (weft_schedule)WEFT_SCHEDULE_INIT;
    s->schedule.kind = weft_schedule_find(schedule);
    if (s->schedule.kind == WEFT_SCHEDULE_COUNT)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: there is no schedule \"%s\"", c->path, schedule);
    return NULL;
}

/* How the text held back is read: in order, the same pieces every time, or at random places, other ones every time. */
static weft_status find_evaluation(cli_config *c, settings *s) {
    const char *name = cli_config_text(c, "train.evaluation", "in order");
    s->in_order = !strcmp(name, "in order");
    s->loop.evaluate_anew = !strcmp(name, "random");
    if (s->in_order || s->loop.evaluate_anew) return NULL;
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.evaluation is \"in order\" or \"random\", not \"%s\"", c->path,
                       name);
}

static weft_status check_settings(const cli_config *c, const settings *s) {
    if (!s->text) return WEFT_STATUS(WEFT_INVALID_DATA, "%s: data.text names no file", c->path);
    const weft_nn_gpt_options *m = &s->model;
    if (m->layers < 1 || m->heads < 1 || m->width < m->heads || m->width % m->heads || m->context < 1)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: a model of %d layers, %d heads, width %lld and context %lld",
                           c->path, m->layers, m->heads, (long long)m->width, (long long)m->context);
    if (s->batch < 1 || s->steps < 1 || !(s->share > 0 && s->share < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: batch and steps start at 1, data.train lies between 0 and 1",
                           c->path);
    if (!(s->clip >= 0) || !(s->optimizer.beta1 >= 0 && s->optimizer.beta1 < 1) ||
        !(s->optimizer.beta2 >= 0 && s->optimizer.beta2 < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.clip is at least 0, the betas of the optimizer lie in [0, 1)",
                           c->path);
    return NULL;
}

static weft_status read_settings(cli_config *c, settings *s) {
    *s = (settings){.model = WEFT_NN_GPT_OPTIONS_INIT, .loop = WEFT_TRAIN_OPTIONS_INIT};
    WEFT_TRY(find_names(c, s), "reading the configuration");
    WEFT_TRY(find_evaluation(c, s), "reading the configuration");
    s->text = cli_config_text(c, "data.text", NULL);
    s->share = cli_config_number(c, "data.train", 0.9);
    s->model.layers = (int)cli_config_count(c, "model.layers", 4, 1);
    s->model.heads = (int)cli_config_count(c, "model.heads", 4, 1);
    s->model.width = cli_config_count(c, "model.width", 128, 1);
    s->model.context = cli_config_count(c, "model.context", 64, 1);
    s->model.bias = cli_config_flag(c, "model.bias", false);
    s->steps = cli_config_count(c, "train.steps", 2000, 1);
    s->batch = cli_config_count(c, "train.batch", 12, 1);
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

typedef struct phase {
    weft_graph *graph;
    weft_parameters *parameters;
    weft_program *program;
    weft_session *session;
    weft_corpus_batches batches;
    weft_loader *loader;
} phase;

/* With muon the matrices inside the blocks; the others go to `rest`. Each list is one call, so that updates share
   launches; the parameters keep their places, as nobody reads them afterwards. */
static void update(const settings *s, weft_graph *g, const weft_optim_options *o, int count, weft_parameter *list) {
    int mine = 0;
    for (int i = 0; o->method == WEFT_OPTIM_MUON && i < count; i++) {
        if (weft_value_rank(list[i].value) != 2 || !strstr(list[i].name, ".h.")) continue;
        weft_parameter other = list[mine];
        list[mine++] = list[i];
        list[i] = other;
    }
    if (o->method != WEFT_OPTIM_MUON) mine = count;
    weft_optim_update(g, o, mine, list);
    weft_optim_options rest = s->rest;
    rest.step = o->step, rest.rate = o->rate, rest.decay = o->decay;
    if (mine < count) weft_optim_update(g, &rest, count - mine, list + mine);
}

static void build(const settings *s, phase *p, bool trains) {
    weft_graph *g = p->graph;
    weft_dim shape[2] = {s->batch, s->model.context};
    weft_value *tokens = weft_graph_input(g, "tokens", WEFT_I64, 2, shape);
    weft_value *next = weft_graph_input(g, "next", WEFT_I64, 2, shape);
    weft_value *loss = weft_loss_cross_entropy(g, weft_nn_gpt(p->parameters, &s->model, tokens), next, NULL);
    weft_graph_output(g, "loss", loss);
    if (!trains) return;
    weft_parameters_gradient(p->parameters, loss);
    weft_optim_options o = s->optimizer;
    o.step = weft_optim_step(g);
    o.rate = weft_schedule_value(g, &s->schedule, o.step, WEFT_F32);
    o.decay = s->decay != 0 ? weft_scalar(g, WEFT_F32, s->decay) : NULL;
    int count = weft_parameters_count(p->parameters);
    weft_parameter *list = weft_parameters_list(p->parameters);
    weft_graph_output(g, "gradient_norm",
                      s->clip > 0 ? weft_optim_clip_norm(g, count, list, s->clip)
                                  : weft_optim_gradient_norm(g, count, list));
    weft_graph_output(g, "rate", o.rate);
    update(s, g, &o, count, list);
}

static weft_status begin(weft_context *context, const settings *s, weft_corpus *text, phase *p, bool trains) {
    weft_parameters_options o = WEFT_PARAMETERS_OPTIONS_INIT;
    int64_t count = weft_corpus_count(text), split = (int64_t)((double)count * s->share);
    o.seed = s->seed;
    WEFT_TRY(weft_graph_create(context, trains ? "train" : "evaluate", &p->graph), "building");
    WEFT_TRY(weft_parameters_create(context, p->graph, &o, &p->parameters), "building");
    build(s, p, trains);
    WEFT_TRY(weft_graph_verify(p->graph), "building");
    WEFT_TRY(weft_compile(p->graph, NULL, &p->program), "compiling");
    WEFT_TRY(weft_session_create(p->program, &p->session), "compiling");
    p->batches = trains ? (weft_corpus_batches){text, 0, split, s->seed, false}
                        : (weft_corpus_batches){text, split, count, s->seed, s->in_order};
    return weft_loader_create(context, p->program, weft_corpus_fill, &p->batches, NULL, &p->loader);
}

static void end(phase *p) {
    weft_loader_release(p->loader);
    weft_session_release(p->session);
    weft_program_release(p->program);
    weft_parameters_release(p->parameters);
    weft_graph_release(p->graph);
}

static bool show(void *self, const weft_train_progress *p) {
    char detail[64];
    snprintf(detail, sizeof detail, "%.4f %.1f/s", p->loss, p->steps_per_second);
    cli_progress_at(self, p->step, p->steps, detail);
    return true;
}

static weft_status train(weft_context *context, settings *s, weft_corpus *text) {
    phase training = {0}, evaluation = {0};
    cli_progress progress;
    weft_train_result result;
    s->model.vocabulary = weft_corpus_vocabulary(text);
    weft_status status = begin(context, s, text, &training, true);
    if (!status) status = begin(context, s, text, &evaluation, false);
    if (!status) {
        weft_train_options *o = &s->loop;
        o->program = training.program, o->session = training.session, o->loader = training.loader;
        o->evaluation_program = evaluation.program, o->evaluation_session = evaluation.session;
        o->evaluation_loader = evaluation.loader, o->steps = s->steps, o->folder = s->folder;
        o->progress = show, o->progress_self = &progress;
        cli_progress_start(&progress, "train");
        status = weft_train(context, o, &result);
        cli_progress_end(&progress);
    }
    if (!status) {
        if (result.first_step) printf("resumed after step %lld\n", (long long)result.first_step);
        printf("%lld steps in %.1f s: loss %.4f, validation loss %.4f\n", (long long)(result.steps - result.first_step),
               result.seconds, result.loss, result.validation);
        if (result.best_step)
            printf("best validation loss %.4f after step %lld\n", result.best_validation, (long long)result.best_step);
        if (s->folder) printf("%s: metrics.csv, metrics.jsonl, report.html, checkpoints\n", s->folder);
    }
    end(&training);
    end(&evaluation);
    return status;
}

enum { SEARCH_STEPS = 100 };

/* --find-rate: the rate grows from 1e-7 to 10, nothing is written. */
static weft_status find_rate(weft_context *context, settings *s, weft_corpus *text) {
    double rates[SEARCH_STEPS], losses[SEARCH_STEPS], found = 0;
    int64_t count = 0;
    phase training = {0};
    s->model.vocabulary = weft_corpus_vocabulary(text);
    s->schedule = (weft_schedule)WEFT_SCHEDULE_INIT;
    s->schedule.kind = WEFT_SCHEDULE_EXPONENTIAL, s->schedule.base = 1e-7;
    s->schedule.power = pow(1e8, 1.0 / (SEARCH_STEPS - 1));
    weft_status status = begin(context, s, text, &training, true);
    if (!status)
        status = weft_train_find_rate(training.program, training.session, training.loader, SEARCH_STEPS, rates, losses,
                                      &count, &found);
    for (int64_t i = 0; !status && i < count; i += 5) printf("rate %.2e: loss %.4f\n", rates[i], losses[i]);
    if (!status && found > 0) printf("the loss falls fastest at a rate of %.1e\n", found);
    if (!status && !(found > 0))
        status = WEFT_STATUS(WEFT_OUT_OF_RANGE, "the loss grows from the start: no rate found");
    end(&training);
    return status;
}

int cli_run_train(cli_arguments *arguments) {
    if (arguments->positional_count != 1) return fprintf(stderr, "usage: weft train CONFIG.toml\n"), 2;
    cli_config config;
    settings s;
    weft_corpus *text = NULL;
    weft_status status = cli_config_read(arguments->positional[0], &config);
    if (status) return cli_fail(status);
    status = read_settings(&config, &s);
    if (!status) status = weft_corpus_open(arguments->context, s.text, &text);
    if (!status)
        status = cli_flag(arguments, "find-rate") ? find_rate(arguments->context, &s, text)
                                                  : train(arguments->context, &s, text);
    weft_corpus_release(text);
    cli_config_release(&config);
    return status ? cli_fail(status) : 0;
}
