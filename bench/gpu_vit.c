/* weft_gpu_vit: a vision transformer from a safetensors file, built through the public API, compiled and timed on one
   device. One JSON line: seconds until the device is open, until the weights are in the host's memory and until the
   program is compiled and loaded; milliseconds on the device and as a round trip; planned memory.

     weft_gpu_vit WEIGHTS LAYERS HEADS BATCH SIDE OPTIONS
     OPTIONS  --device cuda:0 [--input x.npy] [--output y.npy] [--runs N] [--profile 1]
              or, on a machine without a card: --save FILE.weft --target cuda:sm_90a

   Images come as f32 and are converted to the dtype of the weights; logits leave as f32. Read next: gpu_vit.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/clock.h"
#include "runtime/session.h"
#include "weft/compile.h"
#include "weft/nn.h"
#include "weft/npy.h"
#include "weft/ops.h"

enum { RUNS_MAX = 1000 };

typedef struct options {
    int layers, heads, runs;
    bool profile;
    int64_t batch, side;
    const char *device, *target, *save, *input, *output;
} options;

static weft_status build(weft_context *context, weft_safetensors *weights, const options *o, weft_graph **out_graph) {
    weft_tensor *kernel;
    int index = weft_safetensors_find(weights, "patch_embed.proj.weight");
    if (index < 0) return WEFT_STATUS(WEFT_NOT_FOUND, "no patch_embed.proj.weight");
    WEFT_TRY(weft_safetensors_get(weights, index, &kernel), "weights");
    weft_dtype dtype = weft_tensor_dtype(kernel);
    weft_tensor_release(kernel);
    WEFT_TRY(weft_graph_create(context, "vit", out_graph), "graph");
    weft_graph *g = *out_graph;
    weft_nn_vit_options model = WEFT_NN_VIT_OPTIONS_INIT;
    model.layers = o->layers, model.heads = o->heads;
    weft_dim shape[4] = {o->batch, 3, o->side, o->side};
    weft_value *images = weft_convert(g, weft_graph_input(g, "images", WEFT_F32, 4, shape), dtype);
    weft_graph_output(g, "logits", weft_convert(g, weft_nn_vit(g, weights, &model, images), WEFT_F32));
    return weft_graph_verify(g);
}

static weft_status make_input(weft_context *context, const options *o, weft_tensor **out) {
    if (o->input) return weft_npy_read(context, o->input, out);
    WEFT_TRY(weft_tensor_create(context, WEFT_F32, 4, (int64_t[]){o->batch, 3, o->side, o->side}, out), "input");
    float *data = weft_tensor_data(*out);
    uint32_t state = 1;
    for (int64_t i = 0; i < weft_tensor_element_count(*out); i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return NULL;
}

/* Calls that time the device, then calls that time the round trip. */
static weft_status time_calls(weft_session *session, weft_tensor *input, weft_tensor **output, int runs,
                              double *out_device, double *out_round) {
    static double device[RUNS_MAX], round[RUNS_MAX];
    for (int i = -4; i < runs; i++) {
        session->timed = i >= 0;
        WEFT_TRY(weft_session_call(session, 1, &input, 1, output), "call %d", i);
        if (i >= 0) device[i] = session->device_ns * 1e-6;
    }
    session->timed = false;
    for (int i = 0; i < runs; i++) {
        double start = clock_seconds();
        WEFT_TRY(weft_session_call(session, 1, &input, 1, output), "call %d", i);
        round[i] = (clock_seconds() - start) * 1e3;
    }
    *out_device = clock_median(device, runs), *out_round = clock_median(round, runs);
    return NULL;
}

/* Every page of the weights is touched: what a compile waits for afterwards is the compile. */
static weft_status read_weights(weft_safetensors *weights, double *out_seconds) {
    double start = clock_seconds();
    volatile unsigned char sum = 0;
    for (int i = 0; i < weft_safetensors_count(weights); i++) {
        weft_tensor *tensor;
        WEFT_TRY(weft_safetensors_get(weights, i, &tensor), "weights");
        const unsigned char *data = weft_tensor_data(tensor);
        for (size_t at = 0; at < weft_tensor_bytes(tensor); at += 4096) sum = (unsigned char)(sum + data[at]);
        weft_tensor_release(tensor);
    }
    *out_seconds = clock_seconds() - start;
    return NULL;
}

typedef struct profile {
    const weft_session *session;
    double last, us[512];
} profile;

static void observe(void *self, int step) {
    profile *p = self;
    double now = clock_seconds();
    if (step < 512) p->us[step] += (now - p->last) * 1e6;
    p->last = now;
}

/* Steps one by one, each waited for: microseconds by kernel, among them what a wait costs. */
static weft_status print_profile(weft_session *session, weft_tensor *input, weft_tensor **output) {
    enum { CALLS = 10 };
    static profile p;
    weft_frame *frame = &session->frame;
    for (int i = 0; i < CALLS; i++) {
        p.last = clock_seconds();
        frame->observe = observe, frame->observe_self = &p;
        weft_status status = weft_session_call(session, 1, &input, 1, output);
        frame->observe = NULL;
        WEFT_TRY(status, "profile");
        if (i == 0) memset(p.us, 0, sizeof p.us);
    }
    const weft_resolved_region *steps = &frame->regions[WEFT_REGION_MAIN];
    for (int i = 0; i < steps->count && i < 512; i++) {
        if (steps->steps[i].step->kind != WEFT_STEP_LAUNCH) continue;
        int kernel = steps->steps[i].launch.kernel, times = 0;
        double sum = 0;
        bool seen = false;
        for (int j = 0; j < steps->count && j < 512; j++) {
            if (steps->steps[j].step->kind != WEFT_STEP_LAUNCH || steps->steps[j].launch.kernel != kernel) continue;
            seen |= j < i;
            sum += p.us[j] / (CALLS - 1), times++;
        }
        if (!seen)
            printf("profile %-24s %3d times, %9.1f us, %7.1f us each\n", frame->data->kernels[kernel].name, times, sum,
                   sum / times);
    }
    return NULL;
}

/* When each part of the compile began: passes, kernels, code, and the end of code, after which it is loaded. */
static void note_progress(void *self, int done, int total, const char *what) {
    double *began = self;
    (void)total, (void)what;
    if (done >= 0 && done < 5) began[done] = clock_seconds();
}

static weft_status run(weft_context *context, weft_graph *graph, weft_safetensors *weights, const options *o) {
    weft_compile_options compile = WEFT_COMPILE_OPTIONS_INIT;
    weft_program *program = NULL;
    weft_session *session = NULL;
    weft_tensor *input = NULL, *output = NULL;
    weft_device *card = NULL;
    double start = clock_seconds(), opened = 0, read = 0, compiled = 0, device = 0, round = 0;
    int64_t temporaries = 0, constants = 0;
    double began[5] = {0};
    compile.targets = o->device;
    compile.progress = note_progress, compile.progress_self = began;
    weft_status status = weft_device_open(context, o->device, &card);
    opened = clock_seconds() - start;
    if (!status) status = read_weights(weights, &read);
    start = clock_seconds();
    if (!status) status = weft_compile(graph, &compile, &program);
    compiled = clock_seconds() - start;
    if (!status && o->profile)
        printf("compile: before passes %.3f, passes %.3f, kernels %.3f, code %.3f, loading %.3f s\n", began[1] - start,
               began[2] - began[1], began[3] - began[2], began[4] - began[3], start + compiled - began[4]);
    if (!status) status = make_input(context, o, &input);
    const int64_t shape[4] = {o->batch, 3, o->side, o->side}, *shapes[1] = {shape};
    if (!status) status = weft_program_memory(program, 1, shapes, &temporaries, &constants);
    if (!status) status = weft_session_create(program, &session);
    if (!status) status = time_calls(session, input, &output, o->runs, &device, &round);
    if (!status && o->profile) status = print_profile(session, input, &output);
    if (!status && o->output) status = weft_npy_write(context, o->output, output);
    if (!status)
        printf(
            "{\"open_s\": %.3f, \"read_s\": %.3f, \"compile_s\": %.3f, \"device_ms\": %.4f, \"round_trip_ms\": %.4f, \"images_per_s\": %.1f, "
            "\"temporary_bytes\": %lld, \"weight_bytes\": %lld}\n",
            opened, read, compiled, device, round, device > 0 ? (double)o->batch / device * 1e3 : 0.0,
            (long long)temporaries, (long long)constants);
    weft_tensor_release(input), weft_tensor_release(output);
    weft_session_release(session);
    weft_program_release(program);
    weft_device_release(card);
    return status;
}

static weft_status save(weft_graph *graph, const options *o) {
    weft_compile_options compile = WEFT_COMPILE_OPTIONS_INIT;
    compile.targets = o->target;
    return weft_compile_file(graph, &compile, o->save);
}

static bool parse(int count, char **arguments, options *o) {
    *o = (options){.runs = 20, .device = "cuda:0", .target = "cuda:sm_90a"};
    if (count < 6) return false;
    o->layers = atoi(arguments[2]), o->heads = atoi(arguments[3]);
    o->batch = atoll(arguments[4]), o->side = atoll(arguments[5]);
    for (int i = 6; i + 1 < count; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
        if (!strcmp(name, "--device"))
            o->device = value;
        else if (!strcmp(name, "--target"))
            o->target = value;
        else if (!strcmp(name, "--save"))
            o->save = value;
        else if (!strcmp(name, "--input"))
            o->input = value;
        else if (!strcmp(name, "--output"))
            o->output = value;
        else if (!strcmp(name, "--profile"))
            o->profile = atoi(value) != 0;
        else if (!strcmp(name, "--runs"))
            o->runs = atoi(value);
        else
            return false;
    }
    return o->layers > 0 && o->heads > 0 && o->batch > 0 && o->side > 0 && o->runs > 0 && o->runs <= RUNS_MAX;
}

int main(int count, char **arguments) {
    options o;
    if (!parse(count, arguments, &o)) {
        fprintf(stderr, "usage: weft_gpu_vit WEIGHTS LAYERS HEADS BATCH SIDE [--device D] [--input F] [--output F]"
                        " [--runs N] [--save F] [--target T]\n");
        return 2;
    }
    weft_context *context = NULL;
    weft_safetensors *weights = NULL;
    weft_graph *graph = NULL;
    weft_status status = weft_context_create(NULL, &context);
    if (!status) status = weft_safetensors_open(context, arguments[1], &weights);
    if (!status) status = build(context, weights, &o, &graph);
    if (!status) status = o.save ? save(graph, &o) : run(context, graph, weights, &o);
    if (status) {
        char text[4000];
        (void)weft_status_format(status, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    int code = status ? 1 : 0;
    weft_status_release(status);
    weft_graph_release(graph);
    weft_safetensors_release(weights);
    weft_context_release(context);
    return code;
}
