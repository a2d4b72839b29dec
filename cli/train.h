/* A training run from a configuration file: settings, and the programs that a run calls. Read next: train_model.c,
   train.c. */
#ifndef WEFT_CLI_TRAIN_H
#define WEFT_CLI_TRAIN_H

#include "cli/cli.h"
#include "cli/config.h"
#include "weft/nn.h"
#include "weft/train.h"

typedef enum cli_train_model {
    CLI_TRAIN_GPT,
    CLI_TRAIN_VIT,
    CLI_TRAIN_RESNET,
    CLI_TRAIN_MLP,
    CLI_TRAIN_MODELS
} cli_train_model;

/* What classifies images; the fields of the model's kind count. */
typedef struct cli_train_images {
    const char *folder;
    double mean, deviation; /* of pixels */
    int64_t margin;         /* shifts that training draws */
    bool mirror;
    double smoothing; /* of labels */
    int64_t shape[3]; /* of the data: channels, height, width */
    int classes;      /* of the data */
    int layers, depth;
    weft_nn_vit_model vit;
    weft_nn_resnet_options resnet;
    int64_t width; /* of a perceptron */
} cli_train_images;

typedef struct cli_train_settings {
    cli_train_model kind;
    cli_train_images images;
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

/* What is trained on: a text or images, those of the evaluation behind. */
typedef struct cli_train_data {
    weft_corpus *text;
    weft_images *images[2];
} cli_train_data;

typedef struct cli_train_phase {
    weft_graph *graph;
    weft_parameters *parameters;
    weft_program *program;
    weft_session *session;
    weft_corpus_batches batches;
    weft_image_batches image_batches;
    weft_loader *loader;
} cli_train_phase;

/* Texts are borrowed from the configuration. */
weft_status cli_train_read(cli_config *config, cli_train_settings *out_settings) WEFT_MUST_USE;
/* Opens what the settings name and tells them its vocabulary, or shape and classes. After a failure too: close. */
weft_status cli_train_open(weft_context *context, cli_train_settings *settings, cli_train_data *data) WEFT_MUST_USE;
void cli_train_close(cli_train_data *data);
/* Builds and compiles. After a failure too: cli_train_end. */
weft_status cli_train_begin(weft_context *context, const cli_train_settings *settings, const cli_train_data *data,
                            cli_train_phase *phase, cli_train_kind kind) WEFT_MUST_USE;
void cli_train_end(cli_train_phase *phase);

/* train_images.c: keys of image models; their data; logits [B, classes] of images. */
weft_status cli_train_images_read(cli_config *config, cli_train_settings *settings) WEFT_MUST_USE;
weft_status cli_train_images_check(const cli_config *config, const cli_train_settings *settings) WEFT_MUST_USE;
weft_status cli_train_images_open(weft_context *context, cli_train_settings *settings,
                                  cli_train_data *data) WEFT_MUST_USE;
weft_value *cli_train_images_logits(const cli_train_settings *settings, weft_parameters *parameters, bool trains,
                                    weft_value *images);

#endif
