/* Train a small GPT on characters: tests/data/tinyshakespeare.txt, 4 layers, 4 heads, 128 wide, 64 characters of
   context. One program is one step: loss, gradients, clipping, AdamW on states in place. A second program evaluates.
   train_char TEXT [--steps N] [--save FILE.safetensors] */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/nn.h"

enum { BATCH = 12, CONTEXT = 64, WARMUP = 100, EVAL_BATCHES = 40 };

typedef struct text {
    unsigned char *tokens; /* symbols numbered in byte order */
    long count;
    int vocabulary;
} text;

static text read_text(const char *path) {
    text t = {0};
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) exit(fprintf(stderr, "cannot read %s\n", path) ? 1 : 1);
    t.count = ftell(file);
    rewind(file);
    t.tokens = malloc((size_t)t.count);
    if (!t.tokens || fread(t.tokens, 1, (size_t)t.count, file) != (size_t)t.count) exit(1);
    fclose(file);
    int number[256] = {0};
    for (long i = 0; i < t.count; i++) number[t.tokens[i]] = 1;
    for (int c = 0; c < 256; c++)
        if (number[c]) number[c] = t.vocabulary++;
    for (long i = 0; i < t.count; i++) t.tokens[i] = (unsigned char)number[t.tokens[i]];
    return t;
}

static unsigned next_random(unsigned *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

/* Pieces of [from, to) at random places, and the same one character later. */
static void fill(const text *t, long from, long to, unsigned *state, weft_tensor **in) {
    int64_t *x = weft_tensor_data(in[0]), *y = weft_tensor_data(in[1]);
    for (int b = 0; b < BATCH; b++) {
        long at = from + (long)(next_random(state) % (unsigned)(to - from - CONTEXT));
        for (int i = 0; i < CONTEXT; i++, x++, y++) *x = t->tokens[at + i], *y = t->tokens[at + i + 1];
    }
}

static weft_value *build_loss(weft_graph *g, weft_parameters *p, int vocabulary) {
    weft_nn_gpt_options o = {sizeof o, 4, 4, 128, vocabulary, CONTEXT, false};
    weft_value *x = weft_graph_input(g, "tokens", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *y = weft_graph_input(g, "next", WEFT_I64, 2, (weft_dim[]){BATCH, CONTEXT});
    weft_value *logits = weft_reshape(g, weft_nn_gpt(p, &o, x), 2, (weft_dim[]){BATCH * CONTEXT, vocabulary});
    weft_value *each = weft_cross_entropy(g, logits, weft_reshape(g, y, 1, (weft_dim[]){BATCH * CONTEXT}));
    weft_value *loss = weft_reduce_mean(g, each, 0, NULL, false);
    weft_graph_output(g, "loss", loss);
    return loss;
}

static void build_update(weft_graph *g, weft_parameters *p, weft_value *loss, int steps) {
    weft_parameters_gradient(p, loss);
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.kind = WEFT_SCHEDULE_COSINE, schedule.base = 1e-3, schedule.final = 1e-4;
    schedule.warmup = steps < WARMUP ? 0 : WARMUP, schedule.total = steps;
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.step = weft_optim_step(g);
    o.rate = weft_schedule_value(g, &schedule, o.step, WEFT_F32);
    o.decay = weft_scalar(g, WEFT_F32, 0.1);
    o.beta2 = 0.99;
    (void)weft_optim_clip_norm(g, weft_parameters_count(p), weft_parameters_list(p), 1.0);
    weft_optim_update(g, &o, weft_parameters_count(p), weft_parameters_list(p));
}

int main(int count, char **arguments) {
    int steps = 2000;
    for (int i = 2; i + 1 < count; i += 2)
        if (!strcmp(arguments[i], "--steps")) steps = atoi(arguments[i + 1]);
    if (count < 2) return fprintf(stderr, "usage: train_char TEXT [--steps N]\n"), 2;
    text t = read_text(arguments[1]);
    long split = t.count * 9 / 10;
    weft_context *context;
    weft_graph *graphs[2];
    weft_parameters *parameters[2];
    weft_program *programs[2];
    weft_session *sessions[2];
    check(weft_context_create(NULL, &context));
    for (int i = 0; i < 2; i++) {
        weft_parameters_options o = WEFT_PARAMETERS_OPTIONS_INIT;
        o.seed = 1337;
        check(weft_graph_create(context, i ? "evaluate" : "train", &graphs[i]));
        check(weft_parameters_create(context, graphs[i], &o, &parameters[i]));
        weft_value *loss = build_loss(graphs[i], parameters[i], t.vocabulary);
        if (!i) build_update(graphs[i], parameters[i], loss, steps);
        check(weft_graph_verify(graphs[i]));
        check(weft_compile(graphs[i], NULL, &programs[i]));
        check(weft_session_create(programs[i], &sessions[i]));
    }
    weft_tensor *in[2], *out = NULL;
    for (int i = 0; i < 2; i++) check(weft_tensor_create(context, WEFT_I64, 2, (int64_t[]){BATCH, CONTEXT}, &in[i]));
    unsigned random = 1;
    for (int step = 0; step < steps; step++) {
        fill(&t, 0, split, &random, in);
        check(weft_session_call(sessions[0], 2, in, 1, &out));
        if (step % 100 == 0) printf("step %5d: loss %.4f\n", step, (double)*(float *)weft_tensor_data(out));
    }
    double sum = 0;
    check(weft_session_copy_states(sessions[0], sessions[1]));
    for (int i = 0; i < EVAL_BATCHES; i++) {
        fill(&t, split, t.count, &random, in);
        check(weft_session_call(sessions[1], 2, in, 1, &out));
        sum += (double)*(float *)weft_tensor_data(out);
    }
    printf("validation loss %.4f\n", sum / EVAL_BATCHES);
    return 0;
}
