/* Train a small GPT on characters: 4 layers, 4 heads, 128 wide, 64 characters of context.
   One program is one step: loss, gradients, clipping, AdamW on states in place. A second program evaluates.
   train_char TEXT [--steps N] [--folder FOLDER] [--expect LOSS] [--batches N]: with a folder, metrics, a report and
   checkpoints, from which it goes on; fails when the loss of N batches held back (default: all) ends above LOSS. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/train.h"

enum { BATCH = 12, CONTEXT = 64, WARMUP = 100, EVALUATION_BATCHES = 145 /* of 12 times 64: all that is held back */ };

static weft_value *build_loss(weft_graph *g, weft_parameters *p, int vocabulary) {
    weft_nn_gpt_options o = WEFT_NN_GPT_OPTIONS_INIT;
    o.layers = 4, o.heads = 4, o.width = 128, o.vocabulary = vocabulary, o.context = CONTEXT;
    weft_value *tokens = weft_graph_input(g, "tokens", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *next = weft_graph_input(g, "next", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *loss = weft_nn_gpt_loss(p, &o, tokens, next, 0, NULL);
    weft_graph_output(g, "loss", loss);
    return loss;
}

static void build_update(weft_graph *g, weft_parameters *p, weft_value *loss, int steps) {
    weft_parameters_gradient(p, loss);
    weft_rate_schedule schedule = WEFT_RATE_SCHEDULE_INIT;
    schedule.kind = WEFT_RATE_SCHEDULE_COSINE, schedule.base = 1e-3, schedule.final = 1e-4;
    schedule.warmup = steps > WARMUP ? WARMUP : 0, schedule.total = steps;
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.step = weft_optim_step(g);
    o.rate = weft_rate_schedule_value(g, &schedule, o.step, WEFT_F32);
    o.decay = weft_scalar(g, WEFT_F32, 0.1); /* of matrices; weft_parameters leaves vectors alone */
    o.beta2 = 0.99;
    weft_graph_output(g, "norm", weft_optim_clip_norm(g, weft_parameters_count(p), weft_parameters_list(p), 1.0));
    weft_optim_update(g, &o, weft_parameters_count(p), weft_parameters_list(p));
}

typedef struct phase {
    weft_graph *graph;
    weft_parameters *parameters;
    weft_program *program;
    weft_session *session;
    weft_corpus_batches batches;
    weft_loader *loader;
} phase;

static void begin(weft_context *context, phase *p, weft_corpus *text, bool trains, int steps) {
    weft_parameters_options o = WEFT_PARAMETERS_OPTIONS_INIT;
    o.seed = 1337;
    check(weft_graph_create(context, trains ? "train" : "evaluate", &p->graph));
    check(weft_parameters_create(context, p->graph, &o, &p->parameters));
    weft_value *loss = build_loss(p->graph, p->parameters, weft_corpus_vocabulary(text));
    if (trains) build_update(p->graph, p->parameters, loss, steps);
    check(weft_graph_verify(p->graph));
    check(weft_compile(p->graph, NULL, &p->program));
    check(weft_session_create(p->program, &p->session));
    int64_t count = weft_corpus_count(text), split = count * 9 / 10;
    p->batches =
        trains ? (weft_corpus_batches){text, 0, split, 1, false} : (weft_corpus_batches){text, split, count, 0, true};
    check(weft_loader_create(context, p->program, weft_corpus_fill, &p->batches, NULL, &p->loader));
}

static void end(phase *p) {
    weft_loader_release(p->loader);
    weft_session_release(p->session);
    weft_program_release(p->program);
    weft_parameters_release(p->parameters);
    weft_graph_release(p->graph);
}

static bool print_progress(void *self, const weft_train_progress *p) {
    (void)self;
    if (p->step % 100 == 0 || p->step == p->steps)
        printf("step %5d of %d: loss %.4f, %.1f steps/s\n", (int)p->step, (int)p->steps, p->loss, p->steps_per_second);
    fflush(stdout);
    return true;
}

int main(int count, char **arguments) {
    int steps = 2000;
    double expected = 100;
    weft_train_options o = WEFT_TRAIN_OPTIONS_INIT;
    o.evaluation_batches = EVALUATION_BATCHES;
    for (int i = 2; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--steps")) steps = atoi(arguments[i + 1]);
        if (!strcmp(arguments[i], "--folder")) o.folder = arguments[i + 1];
        if (!strcmp(arguments[i], "--batches")) o.evaluation_batches = atoi(arguments[i + 1]);
        if (!strcmp(arguments[i], "--expect")) expected = atof(arguments[i + 1]);
    }
    if (count < 2 || steps < 1)
        return fprintf(stderr, "usage: train_char TEXT [--steps N] [--folder FOLDER] [--expect LOSS] [--batches N]\n"),
               2;
    weft_context *context;
    weft_corpus *text;
    phase train, evaluation;
    weft_train_result result;
    check(weft_context_create(NULL, &context));
    check(weft_corpus_open(context, arguments[1], &text));
    begin(context, &train, text, true, steps);
    begin(context, &evaluation, text, false, steps);
    o.program = train.program, o.session = train.session, o.loader = train.loader, o.steps = steps;
    o.evaluation_program = evaluation.program, o.evaluation_session = evaluation.session;
    o.evaluation_loader = evaluation.loader;
    o.evaluate_every = 500, o.checkpoint_every = 500, o.resume = true, o.progress = print_progress;
    check(weft_train(context, &o, &result));
    printf("validation loss %.4f after %d steps, %.1f s\n", result.validation, (int)result.steps, result.seconds);
    end(&evaluation);
    end(&train);
    weft_corpus_release(text);
    weft_context_release(context);
    return result.validation <= expected ? 0 : 1;
}
