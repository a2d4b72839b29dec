/* The image models of a configuration file: vision transformers, residual networks, perceptrons, trained to tell the
   classes of a folder of images. What the keys mean: examples/train_images.toml. Read next: train_model.c. */
#include "cli/train.h"

#include <string.h>

enum { STAGES = 4, PERCEPTRON_MAX = 64 };

/* Blocks of the four stages, by the usual name of the network. */
static const struct {
    int depth, blocks[STAGES];
    bool bottleneck;
} residual[] = {{10, {1, 1, 1, 1}, false},
                {18, {2, 2, 2, 2}, false},
                {34, {3, 4, 6, 3}, false},
                {50, {3, 4, 6, 3}, true},
                {101, {3, 4, 23, 3}, true}};

static weft_status read_residual(cli_config *c, cli_train_images *m) {
    m->resnet = (weft_nn_resnet_options)WEFT_NN_RESNET_OPTIONS_INIT;
    m->depth = (int)cli_config_count(c, "model.depth", 18, 1);
    m->resnet.width = cli_config_count(c, "model.width", 64, 1);
    m->resnet.small_images = cli_config_flag(c, "model.small_images", true);
    for (size_t i = 0; i < sizeof residual / sizeof *residual; i++) {
        if (residual[i].depth != m->depth) continue;
        memcpy(m->resnet.blocks, residual[i].blocks, sizeof m->resnet.blocks);
        m->resnet.bottleneck = residual[i].bottleneck;
        return NULL;
    }
    return WEFT_STATUS(WEFT_INVALID_DATA, "%s: model.depth is 10, 18, 34, 50 or 101, not %d", c->path, m->depth);
}

static void read_transformer(cli_config *c, cli_train_images *m) {
    m->vit = (weft_nn_vit_model)WEFT_NN_VIT_MODEL_INIT;
    m->vit.layers = m->layers = (int)cli_config_count(c, "model.layers", 12, 1);
    m->vit.heads = (int)cli_config_count(c, "model.heads", 3, 1);
    m->vit.width = cli_config_count(c, "model.width", 192, 1);
    m->vit.patch = cli_config_count(c, "model.patch", 4, 1);
    m->vit.mean_pool = cli_config_flag(c, "model.mean_pool", false);
}

weft_status cli_train_images_read(cli_config *c, cli_train_settings *s) {
    cli_train_images *m = &s->images;
    m->folder = cli_config_text(c, "data.images", NULL);
    m->mean = cli_config_number(c, "data.mean", 0.5);
    m->deviation = cli_config_number(c, "data.deviation", 0.25);
    m->margin = cli_config_count(c, "data.margin", 0, 0);
    m->mirror = cli_config_flag(c, "data.mirror", false);
    m->smoothing = cli_config_number(c, "train.smoothing", 0);
    if (s->kind == CLI_TRAIN_RESNET) return read_residual(c, m);
    if (s->kind == CLI_TRAIN_VIT) {
        read_transformer(c, m);
    } else {
        m->layers = (int)cli_config_count(c, "model.layers", 2, 1);
        m->width = cli_config_count(c, "model.width", 256, 1);
    }
    return NULL;
}

weft_status cli_train_images_check(const cli_config *c, const cli_train_settings *s) {
    const cli_train_images *m = &s->images;
    if (!m->folder) return WEFT_STATUS(WEFT_INVALID_DATA, "%s: data.images names no folder", c->path);
    if (!(m->deviation > 0 && m->deviation < 1e6) || !(m->mean > -1e6 && m->mean < 1e6))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: data.deviation is more than 0, data.mean a number near it", c->path);
    if (!(m->smoothing >= 0 && m->smoothing < 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: train.smoothing lies in [0, 1)", c->path);
    if (s->kind == CLI_TRAIN_MLP && m->layers > PERCEPTRON_MAX)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: a perceptron of %d layers; up to %d", c->path, m->layers,
                           PERCEPTRON_MAX);
    if (s->kind == CLI_TRAIN_VIT && m->vit.width % m->vit.heads)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: a width of %lld does not divide into %d heads", c->path,
                           (long long)m->vit.width, m->vit.heads);
    if (s->kind == CLI_TRAIN_RESNET && (s->precision != WEFT_F32 || s->parts > 1))
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s: a residual network trains in f32 with train.parts = 1", c->path);
    return NULL;
}

weft_status cli_train_images_open(weft_context *context, cli_train_settings *s, cli_train_data *data) {
    cli_train_images *m = &s->images;
    int64_t shape[3];
    WEFT_TRY(weft_images_open_folder(context, m->folder, true, &data->images[0]), "images to train on");
    WEFT_TRY(weft_images_open_folder(context, m->folder, false, &data->images[1]), "images to evaluate on");
    weft_images_shape(data->images[0], m->shape);
    weft_images_shape(data->images[1], shape);
    for (int i = 0; i < 3; i++)
        if (shape[i] != m->shape[i])
            return WEFT_STATUS(WEFT_INVALID_DATA, "%s: images to train on and to evaluate on differ in shape",
                               m->folder);
    int held = weft_images_classes(data->images[1]);
    m->classes = weft_images_classes(data->images[0]);
    if (held > m->classes) m->classes = held;
    int64_t patch = s->kind == CLI_TRAIN_VIT ? m->vit.patch : 1;
    if (m->shape[1] % patch || m->shape[2] % patch)
        return WEFT_STATUS(WEFT_INVALID_DATA, "images of %lld by %lld do not divide into patches of %lld",
                           (long long)m->shape[1], (long long)m->shape[2], (long long)patch);
    return NULL;
}

static weft_value *perceptron(const cli_train_images *m, weft_parameters *p, weft_value *images) {
    int64_t widths[PERCEPTRON_MAX + 2] = {m->shape[0] * m->shape[1] * m->shape[2]};
    weft_nn_mlp_options o = WEFT_NN_MLP_OPTIONS_INIT;
    for (int i = 1; i <= m->layers; i++) widths[i] = m->width;
    widths[m->layers + 1] = m->classes;
    o.count = m->layers + 2, o.widths = widths;
    weft_graph *g = weft_parameters_graph(p);
    return weft_convert(g, weft_nn_mlp(p, &o, weft_flatten(g, images, 1)), WEFT_F32);
}

weft_value *cli_train_images_logits(const cli_train_settings *s, weft_parameters *p, bool trains, weft_value *images) {
    const cli_train_images *m = &s->images;
    if (s->kind == CLI_TRAIN_MLP) return perceptron(m, p, images);
    if (s->kind == CLI_TRAIN_VIT) {
        weft_nn_vit_model vit = m->vit;
        vit.classes = m->classes;
        return weft_nn_vit_train(p, &vit, images);
    }
    weft_nn_resnet_options resnet = m->resnet;
    resnet.classes = m->classes, resnet.train = trains;
    return weft_nn_resnet(p, &resnet, images);
}
