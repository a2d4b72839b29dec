/* CPU convolutions of a text recogniser and a detector, one by one.

       bench-convolution_cpu [rounds] [threads]

   The kernel is packed beforehand (weights), the input in every call. "best": the fastest call. GB/s counts the input,
   the kernel and the output once each. */
#include <stdio.h>
#include <time.h>

#include "tests/support/plan_run.h"
#include "weft/ops.h"

typedef struct layer {
    int in, out, groups, height, width, kernel, stride_y, stride_x, pad;
} layer;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(weft_status status) {
    char text[2000];
    weft_status_format(status, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static float *random_floats(int64_t count) {
    float *data = aligned_alloc(64, ((size_t)count * 4 + 8255) / 64 * 64);
    for (int64_t i = 0; i < count; i++) data[i] = (float)((double)rand() / RAND_MAX - 0.5);
    return data;
}

static double run_layer(weft_context *context, const layer *l, bool symbolic, int threads, int rounds) {
    weft_graph *g;
    weft_status status = weft_graph_create(context, "convolution", &g);
    if (status) fail(status);
    int64_t taps = (int64_t)l->kernel * l->kernel, height = (l->height + 2 * l->pad - l->kernel) / l->stride_y + 1,
            width = (l->width + 2 * l->pad - l->kernel) / l->stride_x + 1;
    weft_dim x_dims[4] = {1, l->in, l->height, l->width}, pad[2] = {l->pad, l->pad};
    int64_t symbols[2] = {l->height, l->width};
    if (symbolic)
        x_dims[2] = weft_graph_symbol(g, "H", 1, 10000, 1), x_dims[3] = weft_graph_symbol(g, "W", 1, 10000, 1);
    weft_tensor *weights;
    if ((status = weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){l->out, l->in / l->groups, l->kernel, l->kernel},
                                     &weights)))
        fail(status);
    float *w = weft_tensor_data(weights), *x = random_floats((int64_t)l->in * l->height * l->width),
          *y = random_floats(l->out * height * width), *bias = random_floats(l->out);
    for (int64_t i = 0; i < l->out * l->in / l->groups * taps; i++) w[i] = (float)((double)rand() / RAND_MAX - 0.5);
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = (int64_t[]){l->stride_y, l->stride_x}, options.low = pad, options.high = pad,
    options.groups = l->groups;
    weft_value *value =
        weft_convolution(g, weft_graph_input(g, "x", WEFT_F32, 4, x_dims), weft_graph_constant(g, weights), &options);
    weft_graph_output(
        g, "y",
        weft_relu(g, weft_add(g, value, weft_graph_input(g, "bias", WEFT_F32, 4, (weft_dim[]){1, l->out, 1, 1}))));
    const weft_capability *capability =
        weft_capability_find("cpu", __builtin_cpu_supports("avx512bw") ? "x86-64-v4" : "x86-64-v3");
    weft_node *fusion = NULL;
    plan_run run;
    double start = now();
    if ((status = plan_fuse(g, capability, &fusion)) ||
        (status = plan_open(g, fusion, capability, threads, symbols, &run)))
        fail(status);
    double compile_ms = (now() - start) * 1e3, best = 1e9;
    void *operands[3], *results[] = {y};
    for (int i = 0; i < fusion->operand_count; i++)
        operands[i] = fusion->operands[i]->node                     ? (void *)w
                      : strcmp(fusion->operands[i]->name, "x") == 0 ? (void *)x
                                                                    : (void *)bias;
    if ((status = plan_execute(&run, true, symbols, operands, results))) fail(status);
    double flops = 2.0 * (double)(l->out * height * width) * (double)(l->in / l->groups * taps),
           bytes = 4.0 * ((double)l->in * l->height * l->width + (double)(l->out * height * width));
    for (int round = 0; round < rounds; round++) {
        double begin = now();
        do {
            double s = now();
            if ((status = plan_execute(&run, false, symbols, operands, results))) fail(status);
            s = now() - s;
            if (s < best) best = s;
        } while (now() - begin < 0.004);
    }
    printf("| %d -> %d g%d | %dx%d k%d s%d,%d | %s | %dx%d | %.1f | %.0f | %.0f | %.0f |\n", l->in, l->out, l->groups,
           l->height, l->width, l->kernel, l->stride_y, l->stride_x, symbolic ? "symbolic" : "static",
           run.schedule.tile_m, run.schedule.tile_n, best * 1e6, flops / best * 1e-9, bytes / best * 1e-9, compile_ms);
    plan_close(&run);
    weft_tensor_release(weights);
    weft_graph_release(g);
    free(x), free(y), free(bias);
    return best;
}

int main(int argc, char **argv) {
    static const layer layers[] = {
        {3, 16, 1, 48, 320, 3, 2, 2, 1},      {16, 16, 16, 24, 160, 3, 1, 1, 1},   {16, 32, 1, 24, 160, 1, 1, 1, 0},
        {64, 64, 1, 24, 160, 1, 1, 1, 0},     {64, 64, 64, 24, 160, 3, 2, 1, 1},   {128, 128, 1, 12, 160, 1, 1, 1, 0},
        {128, 128, 128, 12, 160, 3, 1, 2, 1}, {240, 240, 240, 12, 80, 5, 1, 1, 2}, {240, 240, 1, 12, 80, 1, 1, 1, 0},
        {480, 480, 480, 6, 80, 5, 1, 1, 2},   {480, 480, 1, 6, 80, 1, 1, 1, 0},    {480, 60, 1, 1, 40, 1, 1, 1, 0},
        {240, 60, 1, 1, 1, 1, 1, 1, 0},       {16, 16, 16, 160, 160, 3, 1, 1, 1},  {32, 32, 32, 160, 160, 3, 2, 2, 1},
        {192, 192, 192, 20, 20, 5, 1, 1, 2},  {384, 384, 384, 10, 10, 5, 1, 1, 2}, {384, 384, 1, 10, 10, 1, 1, 1, 0},
        {96, 24, 1, 80, 80, 3, 1, 1, 1},      {64, 64, 1, 56, 56, 3, 1, 1, 1},     {256, 256, 1, 14, 14, 3, 1, 1, 1},
        {3, 64, 1, 224, 224, 7, 2, 2, 3},
    };
    int rounds = argc > 1 ? atoi(argv[1]) : 10, threads = argc > 2 ? atoi(argv[2]) : 1;
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    if (status) fail(status);
    printf(
        "| channels | input | extents | tile | best us | GFLOP/s | GB/s | compile ms |\n|---|---|---|---|---|---|---|---|\n");
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        double total = 0;
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            total += run_layer(context, &layers[i], symbolic, threads, rounds);
        printf("| sum | | %s | | %.1f | | | |\n", symbolic ? "symbolic" : "static", total * 1e6);
    }
    weft_context_release(context);
    return 0;
}
