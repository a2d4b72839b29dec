/* What bench/gpu_train.c trains: graphs of one step through the public API. Read next: gpu_train_models.c. */
#ifndef WEFT_BENCH_GPU_TRAIN_H
#define WEFT_BENCH_GPU_TRAIN_H

#include "weft/nn.h"

enum { TRAIN_INPUTS_MAX = 5 };

typedef struct train_options {
    const char *model; /* gpt, vit or pinn */
    int layers, heads;
    int64_t width, vocabulary, context, batch, side, patch, classes;
    double dropout, attention_dropout, epsilon, rate;
    int64_t steps; /* of the schedule */
    weft_dtype dtype;
    int pieces;           /* of the last product with its loss; 0 = by size, 1 = whole */
    int remat;            /* what derivatives keep of a block: 0 everything, 1 products, 2 nothing */
    bool bias, evaluates; /* evaluates: the loss alone */
} train_options;

/* What a graph hands out besides the loss, output 0. */
typedef struct train_outputs {
    bool gradients, updated, norm;
} train_outputs;

/* Builds and verifies. */
weft_status train_build(weft_context *context, const train_options *o, const train_outputs *outputs,
                        weft_graph **out_graph, weft_parameters **out_parameters) WEFT_MUST_USE;
/* Random inputs of the graph, which the caller releases. */
weft_status train_inputs(weft_context *context, const train_options *o, weft_graph *graph, int *out_count,
                         weft_tensor **out_inputs) WEFT_MUST_USE;

#endif
