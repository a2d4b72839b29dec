/* Train a small convolution net on Fashion-MNIST: two epochs, 30 s of processor time, 89 % of the test images.
   train_images FOLDER [--steps N] [--expect SHARE]: FOLDER has the four IDX files, uncompressed:
   train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-... ; fails when less than SHARE of the test images end up
   right. The data are in Debian's package dataset-fashion-mnist: zcat each file of /usr/share/datasets/fashion-mnist
   into FOLDER. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/loss.h"
#include "weft/nn.h"
#include "weft/train.h"

enum { SIDE = 28, CLASSES = 10, TRAIN_BATCH = 128, TEST_BATCH = 100, TEST_BATCHES = 100 };

/* [B, C, H, W] -> [B, outputs, H / 2, W / 2]: 3 by 3 convolution, relu, the largest of 2 by 2. */
static weft_value *stage(weft_parameters *p, const char *name, weft_value *x, int64_t inputs, int64_t outputs) {
    weft_graph *g = weft_parameters_graph(p);
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    double scale = 1 / (3 * (inputs > 1 ? 4.0 : 1.0)); /* about 1 / sqrt(9 inputs) */
    weft_value *w = weft_parameters_add(p, weight, WEFT_INIT_UNIFORM, scale, 4, (int64_t[]){outputs, inputs, 3, 3});
    weft_value *b = weft_parameters_add(p, bias, WEFT_INIT_ZEROS, 0, 1, &outputs);
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    weft_pool_options pool = WEFT_POOL_OPTIONS_INIT;
    weft_dim ones[2] = {1, 1};
    int64_t two[2] = {2, 2};
    o.low = ones, o.high = ones, pool.window = two, pool.stride = two;
    weft_value *y = weft_convolution(g, x, w, &o);
    y = weft_add(g, y, weft_reshape(g, b, 3, (weft_dim[]){outputs, 1, 1}));
    return weft_max_pool(g, weft_relu(g, y), &pool);
}

static weft_value *logits_of(weft_parameters *p, weft_value *images) {
    weft_graph *g = weft_parameters_graph(p);
    weft_value *x = stage(p, "conv2", stage(p, "conv1", images, 1, 16), 16, 32);
    int64_t features = 32 * 7 * 7, classes = CLASSES;
    weft_value *w = weft_parameters_add(p, "head.weight", WEFT_INIT_UNIFORM, 0.025, 2, (int64_t[]){classes, features});
    weft_value *b = weft_parameters_add(p, "head.bias", WEFT_INIT_ZEROS, 0, 1, &classes);
    return weft_nn_linear(g, weft_flatten(g, x, 1), w, b);
}

static void build(weft_parameters *p, bool trains, int steps) {
    weft_graph *g = weft_parameters_graph(p);
    int64_t rows = trains ? TRAIN_BATCH : TEST_BATCH;
    weft_value *images = weft_graph_input(g, "images", WEFT_F32, 4, (weft_dim[]){rows, 1, SIDE, SIDE});
    weft_value *labels = weft_graph_input(g, "labels", WEFT_I64, 1, (weft_dim[]){rows});
    weft_value *logits = logits_of(p, images);
    weft_value *right = weft_compare(g, WEFT_EQ, weft_arg_reduce(g, WEFT_MAX, logits, 1, false, false), labels);
    weft_value *share = weft_reduce_mean(g, weft_convert(g, right, WEFT_F32), 0, NULL, false);
    if (!trains) {
        weft_graph_output(g, "accuracy", share);
        return;
    }
    weft_value *loss = weft_loss_cross_entropy(g, logits, labels, NULL);
    weft_rate_schedule schedule = WEFT_RATE_SCHEDULE_INIT;
    schedule.kind = WEFT_RATE_SCHEDULE_COSINE, schedule.base = 3e-3, schedule.total = steps;
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.step = weft_optim_step(g);
    o.rate = weft_rate_schedule_value(g, &schedule, o.step, WEFT_F32);
    o.decay = weft_scalar(g, WEFT_F32, 0.01);
    weft_parameters_gradient(p, loss);
    weft_optim_update(g, &o, weft_parameters_count(p), weft_parameters_list(p));
    weft_graph_output(g, "loss", loss);
    weft_graph_output(g, "accuracy", share);
}

typedef struct phase {
    weft_graph *graph;
    weft_parameters *parameters;
    weft_program *program;
    weft_session *session;
    weft_images *images;
    weft_image_batches batches;
    weft_loader *loader;
} phase;

static void begin(weft_context *context, phase *p, const char *folder, bool trains, int steps) {
    char images[1024], labels[1024];
    snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte", folder, trains ? "train" : "t10k");
    snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte", folder, trains ? "train" : "t10k");
    check(weft_images_open_idx(context, images, labels, &p->images));
    check(weft_graph_create(context, trains ? "train" : "evaluate", &p->graph));
    check(weft_parameters_create(context, p->graph, NULL, &p->parameters));
    build(p->parameters, trains, steps);
    check(weft_graph_verify(p->graph));
    check(weft_compile(p->graph, NULL, &p->program));
    check(weft_session_create(p->program, &p->session));
    p->batches =
        (weft_image_batches){p->images, 1, trains, 0.286f, 0.353f, 0, false}; /* mean and deviation of its pixels */
    check(weft_loader_create(context, p->program, weft_images_fill, &p->batches, NULL, &p->loader));
}

static void end(phase *p) {
    weft_loader_release(p->loader);
    weft_images_release(p->images);
    weft_session_release(p->session);
    weft_program_release(p->program);
    weft_parameters_release(p->parameters);
    weft_graph_release(p->graph);
}

static bool print_progress(void *self, const weft_train_progress *p) {
    (void)self;
    if (p->step % 100 == 0) printf("step %5d: loss %.4f, %.0f steps/s\n", (int)p->step, p->loss, p->steps_per_second);
    fflush(stdout);
    return true;
}

int main(int count, char **arguments) {
    int steps = 2 * 60000 / TRAIN_BATCH; /* two epochs */
    double expected = 0;
    for (int i = 2; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--steps")) steps = atoi(arguments[i + 1]);
        if (!strcmp(arguments[i], "--expect")) expected = atof(arguments[i + 1]);
    }
    if (count < 2 || steps < 1) return fprintf(stderr, "usage: train_images FOLDER [--steps N] [--expect SHARE]\n"), 2;
    weft_context *context;
    phase train, test;
    weft_train_options o = WEFT_TRAIN_OPTIONS_INIT;
    weft_train_result result;
    check(weft_context_create(NULL, &context));
    begin(context, &train, arguments[1], true, steps);
    begin(context, &test, arguments[1], false, steps);
    o.program = train.program, o.session = train.session, o.loader = train.loader, o.steps = steps;
    o.evaluation_program = test.program, o.evaluation_session = test.session, o.evaluation_loader = test.loader;
    o.evaluation_batches = TEST_BATCHES, o.progress = print_progress;
    check(weft_train(context, &o, &result));
    printf("%.2f %% of the test images right after %d steps, %.1f s\n", 100 * result.validation, (int)result.steps,
           result.seconds);
    end(&test);
    end(&train);
    weft_context_release(context);
    return result.validation >= expected ? 0 : 1;
}
