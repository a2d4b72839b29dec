/* A training run from a configuration file: settings, and the programs that a run calls. Read next: train_model.c,
   train.c. */
#ifndef WEFT_CLI_TRAIN_H
#define WEFT_CLI_TRAIN_H

#include "cli/cli.h"
#include "cli/config.h"
#include "weft/nn.h"
#include "weft/train.h"

typedef struct cli_train_settings {
    const char *text, *folder;
    double memory;        /* budget of a step: bytes, or a share up to 1; 0 = none */
    const char *device;   /* what kernels are compiled for and run on */
    weft_dtype precision; /* of products: f32, bf16 or f16 */
    weft_nn_gpt_options model;
    int64_t batch, steps;
    int64_t pieces; /* of the logits: weft_nn_gpt_loss */
    int64_t parts;  /* a step takes that many batches, one at a time; 1 = one */
    bool adaptive;  /* of the parts as many as the noise scale asks for */
    double share;   /* of the text that is trained on; the rest evaluates */
    uint64_t seed;
    bool in_order; /* evaluation: pieces one after the other, the same every time */
    double clip, decay;
    weft_optim_options optimizer, rest; /* rest: muon leaves vectors, embeddings and the classifier to it */
    weft_rate_schedule schedule;
    weft_train_options loop;
} cli_train_settings;

typedef enum cli_train_kind {
    CLI_TRAIN_STEP,
    CLI_TRAIN_EVALUATION,
    CLI_TRAIN_NORMS /* a step that also gives the norm of every gradient, as outputs "norm/NAME" */
} cli_train_kind;

typedef struct cli_train_phase {
    weft_graph *graph;
    weft_parameters *parameters;
    weft_program *program;
    weft_session *session;
    weft_corpus_batches batches;
    weft_loader *loader;
} cli_train_phase;

/* Texts are borrowed from the configuration. */
weft_status cli_train_read(cli_config *config, cli_train_settings *out_settings) WEFT_MUST_USE;
/* Builds and compiles; settings->model.vocabulary is known. After a failure too: cli_train_end. */
weft_status cli_train_begin(weft_context *context, const cli_train_settings *settings, weft_corpus *text,
                            cli_train_phase *phase, cli_train_kind kind) WEFT_MUST_USE;
void cli_train_end(cli_train_phase *phase);

#endif
