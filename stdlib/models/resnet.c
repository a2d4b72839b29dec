/* Residual networks (He et al. 2016) with the names and strides of torchvision: conv1, bn1, layer1.0.conv1, ...,
   layer4.N.downsample.0, fc; in bottlenecks the 3 by 3 convolution has the stride. Initial values: normal with
   deviation sqrt(2 / (outputs k k)) (He et al. 2015), norms 1 and 0, the classifier uniform in 1 / sqrt(inputs).

   Letters: N images, C channels, H height, W width. */
#include "base/need.h"
#include "weft/nn.h"

#include <math.h>
#include <stdio.h>

typedef struct resnet {
    weft_graph *g;
    weft_parameters *p;
    const weft_nn_resnet_options *o;
    weft_dtype dtype;
} resnet;

weft_value *weft_nn_convolution(weft_parameters *p, const char *name, weft_value *x, int64_t inputs, int64_t outputs,
                                int64_t side, int64_t stride) {
    char full[160];
    snprintf(full, sizeof full, "%.140s.weight", name);
    double deviation = sqrt(2 / (double)(outputs * side * side));
    weft_value *w =
        weft_parameters_add(p, full, WEFT_INIT_NORMAL, deviation, 4, (int64_t[]){outputs, inputs, side, side});
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    int64_t strides[2] = {stride, stride};
    weft_dim margin[2] = {side / 2, side / 2};
    o.stride = strides, o.low = margin, o.high = margin;
    return weft_convolution(weft_parameters_graph(p), x, w, &o);
}

/* [C] against [N, C, ...] */
static weft_value *by_channel(weft_graph *g, weft_value *v, int rank) {
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0; i < rank - 1; i++) shape[i] = i ? 1 : weft_value_dim(v, 0);
    return weft_reshape(g, v, rank - 1, shape);
}

typedef struct statistics {
    weft_value *mean, *variance; /* [C] */
} statistics;

/* Of the batch; NAME.running_* moves towards them, the variance as that of a sample. */
static statistics of_batch(weft_parameters *p, const char *const *names, weft_value *x, const statistics *running,
                           double momentum) {
    weft_graph *g = weft_parameters_graph(p);
    int64_t axes[WEFT_MAX_RANK];
    int rank = weft_value_rank(x), count = 0;
    for (int i = 0; i < rank; i++)
        if (i != 1) axes[count++] = i;
    statistics batch = {.mean = weft_reduce_mean(g, x, count, axes, false)};
    weft_value *off = weft_sub(g, x, by_channel(g, batch.mean, rank));
    batch.variance = weft_reduce_mean(g, weft_square(g, off), count, axes, false);
    weft_dtype dtype = weft_value_dtype(x);
    weft_value *elements = weft_scalar(g, dtype, 1);
    for (int i = 0; i < count; i++)
        elements = weft_mul(g, elements, weft_convert(g, weft_extent(g, weft_value_dim(x, (int)axes[i])), dtype));
    weft_value *correction = weft_div(g, elements, weft_add_number(g, elements, -1));
    weft_value *fresh[2] = {batch.mean, weft_mul(g, batch.variance, correction)};
    weft_value *old[2] = {running->mean, running->variance};
    for (int i = 0; i < 2; i++) {
        weft_value *kept = weft_mul_number(g, old[i], 1 - momentum);
        weft_parameters_set_buffer(p, names[i], weft_add(g, kept, weft_mul_number(g, fresh[i], momentum)));
    }
    return batch;
}

weft_value *weft_nn_batch_norm(weft_parameters *p, const char *name, weft_value *x, bool train, double momentum,
                               double epsilon) {
    if (!p) return NULL;
    weft_graph *g = weft_parameters_graph(p);
    char full[4][160];
    static const char *const parts[4] = {"weight", "bias", "running_mean", "running_var"};
    int64_t channels = weft_value_rank(x) > 1 ? weft_value_dim(x, 1) : 0;
    int rank = weft_value_rank(x);
    for (int i = 0; i < 4; i++) snprintf(full[i], sizeof full[i], "%.140s.%s", name, parts[i]);
    weft_value *scale = weft_parameters_add(p, full[0], WEFT_INIT_ONES, 0, 1, &channels);
    weft_value *shift = weft_parameters_add(p, full[1], WEFT_INIT_ZEROS, 0, 1, &channels);
    statistics s = {.mean = weft_parameters_add_buffer(p, full[2], WEFT_INIT_ZEROS, 1, &channels)};
    s.variance = weft_parameters_add_buffer(p, full[3], WEFT_INIT_ONES, 1, &channels);
    if (rank < 2) return x;
    if (train) s = of_batch(p, (const char *const[]){full[2], full[3]}, x, &s, momentum);
    weft_value *factor = weft_mul(g, scale, weft_rsqrt(g, weft_add_number(g, s.variance, epsilon)));
    weft_value *offset = weft_sub(g, shift, weft_mul(g, s.mean, factor));
    return weft_add(g, weft_mul(g, x, by_channel(g, factor, rank)), by_channel(g, offset, rank));
}

static weft_value *norm(const resnet *r, const char *name, weft_value *x) {
    double momentum = r->o->momentum > 0 ? r->o->momentum : 0.1;
    return weft_nn_batch_norm(r->p, name, x, r->o->train, momentum, 1e-5);
}

/* Convolution CONV and norm NORM of a block. */
static weft_value *unit(const resnet *r, const char *block, const char *convolution, const char *normal, weft_value *x,
                        int64_t inputs, int64_t outputs, int64_t side, int64_t stride) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", block, convolution);
    x = weft_nn_convolution(r->p, name, x, inputs, outputs, side, stride);
    snprintf(name, sizeof name, "%s.%s", block, normal);
    return norm(r, name, x);
}

static weft_value *block(const resnet *r, const char *name, weft_value *x, int64_t inputs, int64_t width,
                         int64_t stride) {
    weft_graph *g = r->g;
    int64_t outputs = r->o->bottleneck ? 4 * width : width;
    weft_value *y, *skip = x;
    if (r->o->bottleneck) {
        y = weft_relu(g, unit(r, name, "conv1", "bn1", x, inputs, width, 1, 1));
        y = weft_relu(g, unit(r, name, "conv2", "bn2", y, width, width, 3, stride));
        y = unit(r, name, "conv3", "bn3", y, width, outputs, 1, 1);
    } else {
        y = weft_relu(g, unit(r, name, "conv1", "bn1", x, inputs, width, 3, stride));
        y = unit(r, name, "conv2", "bn2", y, width, width, 3, 1);
    }
    if (stride != 1 || inputs != outputs)
        skip = unit(r, name, "downsample.0", "downsample.1", x, inputs, outputs, 1, stride);
    return weft_relu(g, weft_add(g, y, skip));
}

static weft_value *stem(const resnet *r, weft_value *x, int64_t width) {
    int64_t channels = weft_value_dim(x, 1), three[2] = {3, 3}, two[2] = {2, 2};
    weft_dim ones[2] = {1, 1};
    weft_pool_options pool = WEFT_POOL_OPTIONS_INIT;
    pool.window = three, pool.stride = two, pool.low = ones, pool.high = ones;
    bool small = r->o->small_images;
    x = weft_nn_convolution(r->p, "conv1", x, channels, width, small ? 3 : 7, small ? 1 : 2);
    x = weft_relu(r->g, norm(r, "bn1", x));
    return small ? x : weft_max_pool(r->g, x, &pool);
}

weft_value *weft_nn_resnet(weft_parameters *parameters, const weft_nn_resnet_options *options, weft_value *images) {
    if (!parameters) return NULL; /* there is no graph for a problem; what takes the result has one */
    weft_nn_resnet_options own = WEFT_NN_RESNET_OPTIONS_INIT;
    weft_graph *g = weft_parameters_graph(parameters);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_RESNET_OPTIONS_INIT))) return images;
    resnet r = {g, parameters, &own, weft_value_dtype(images)};
    if (!options || weft_value_rank(images) != 4) {
        weft_graph_report(
            r.g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a residual network takes options and images [N, C, H, W]"));
        return images;
    }
    int64_t width = own.width > 0 ? own.width : 64, inputs = width, spatial[2] = {2, 3};
    weft_value *x = stem(&r, images, width);
    for (int stage = 0; stage < 4; stage++, width *= 2) {
        for (int i = 0; i < own.blocks[stage]; i++) {
            char name[64];
            snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
            x = block(&r, name, x, inputs, width, i == 0 && stage > 0 ? 2 : 1);
            inputs = own.bottleneck ? 4 * width : width;
        }
    }
    x = weft_reduce_mean(r.g, x, 2, spatial, false);
    if (own.classes <= 0) return x;
    double scale = 1 / sqrt((double)inputs);
    weft_value *w =
        weft_parameters_add(parameters, "fc.weight", WEFT_INIT_UNIFORM, scale, 2, (int64_t[]){own.classes, inputs});
    weft_value *b = weft_parameters_add(parameters, "fc.bias", WEFT_INIT_UNIFORM, scale, 1, &own.classes);
    return weft_nn_linear(r.g, x, w, b);
}
