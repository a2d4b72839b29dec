/* Whole programs in libweft_bench, for gpu_peers.py: an optimizer's step over the parameters of a GPT, whose gradients
   are states too, so that nothing but the update runs. Time is the device's, by events around the steps of one call.
   Memory is the program's own: values go in and out through its states. Read next: gpu_peers.py (part adamw). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"
#include "weft/compile.h"
#include "weft/optim.h"

enum { NAME_BYTES = 64 };

typedef struct weft_bench_step {
    weft_context *context;
    weft_graph *graph;
    weft_program *program;
    weft_session *session;
} weft_bench_step;

typedef struct tensors {
    weft_graph *g;
    weft_parameter *list;
    char (*names)[NAME_BYTES];
    int count, capacity;
} tensors;

static char step_error[2048];

/* A parameter and its gradient, both states that start at zero. Matrices decay, vectors do not. */
static void add(tensors *t, int layer, const char *name, int64_t rows, int64_t columns) {
    if (t->count == t->capacity) return;
    int rank = rows ? 2 : 1;
    int64_t shape[2] = {rows ? rows : columns, columns};
    char *own = t->names[t->count], gradient[NAME_BYTES + 8];
    if (layer < 0)
        snprintf(own, NAME_BYTES, "%s", name);
    else
        snprintf(own, NAME_BYTES, "h%d.%s", layer, name);
    snprintf(gradient, sizeof gradient, "%s/g", own);
    weft_graph_state_zeros(t->g, own, WEFT_F32, rank, shape);
    weft_graph_state_zeros(t->g, gradient, WEFT_F32, rank, shape);
    t->list[t->count++] = (weft_parameter){.name = own,
                                           .value = weft_state_read(t->g, own),
                                           .gradient = weft_state_read(t->g, gradient),
                                           .rate_scale = 1,
                                           .decay_scale = rows ? 1 : 0};
}

/* The tensors of a GPT: 12 a layer and 4 more. */
static void add_gpt(tensors *t, int layers, int64_t width, int64_t vocabulary, int64_t positions) {
    add(t, -1, "wte", vocabulary, width), add(t, -1, "wpe", positions, width);
    for (int i = 0; i < layers; i++) {
        add(t, i, "norm1.weight", 0, width), add(t, i, "norm1.bias", 0, width);
        add(t, i, "qkv.weight", 3 * width, width), add(t, i, "qkv.bias", 0, 3 * width);
        add(t, i, "proj.weight", width, width), add(t, i, "proj.bias", 0, width);
        add(t, i, "norm2.weight", 0, width), add(t, i, "norm2.bias", 0, width);
        add(t, i, "fc1.weight", 4 * width, width), add(t, i, "fc1.bias", 0, 4 * width);
        add(t, i, "fc2.weight", width, 4 * width), add(t, i, "fc2.bias", 0, width);
    }
    add(t, -1, "norm.weight", 0, width), add(t, -1, "norm.bias", 0, width);
}

static weft_status build(weft_bench_step *s, int layers, int64_t width, int64_t vocabulary, int64_t positions) {
    WEFT_TRY(weft_context_create(NULL, &s->context), "adamw");
    WEFT_TRY(weft_graph_create(s->context, "adamw", &s->graph), "adamw");
    weft_graph *g = s->graph;
    int count = 12 * layers + 4;
    tensors t = {g, calloc((size_t)count, sizeof *t.list), calloc((size_t)count, sizeof *t.names), 0, count};
    if (!t.list || !t.names) {
        free(t.list), free(t.names);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adamw: %d tensors", count);
    }
    add_gpt(&t, layers, width, vocabulary, positions);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.rate = weft_scalar(g, WEFT_F32, 1e-3), o.decay = weft_scalar(g, WEFT_F32, 0.1);
    o.step = weft_optim_step(g);
    weft_optim_update(g, &o, t.count, t.list);
    weft_graph_output(g, "step", o.step);
    weft_status status = weft_graph_verify(g);
    free(t.list), free(t.names);
    return status;
}

WEFT_API const char *weft_bench_step_error(void);
WEFT_API int weft_bench_step_create(const char *target, int layers, int64_t width, int64_t vocabulary,
                                    int64_t positions, weft_bench_step **out_step);
WEFT_API void weft_bench_step_release(weft_bench_step *s);
/* Writes an artifact instead of compiling for a device: to look at. */
WEFT_API int weft_bench_step_save(const char *target, int layers, int64_t width, int64_t vocabulary, int64_t positions,
                                  const char *path);
WEFT_API int weft_bench_step_run(weft_bench_step *s, double *out_seconds);
WEFT_API int weft_bench_step_launches(const weft_bench_step *s);
WEFT_API int weft_bench_step_read(weft_bench_step *s, const char *name, float *out_values, int64_t count);
WEFT_API int weft_bench_step_write(weft_bench_step *s, const char *name, const float *values, int rank,
                                   const int64_t *shape);

static int report(weft_status status) {
    if (!status) return 0;
    (void)weft_status_format(status, step_error, sizeof step_error);
    weft_status_release(status);
    return 1;
}

const char *weft_bench_step_error(void) { return step_error; }

void weft_bench_step_release(weft_bench_step *s) {
    if (!s) return;
    weft_session_release(s->session);
    weft_program_release(s->program);
    weft_graph_release(s->graph);
    weft_context_release(s->context);
    free(s);
}

int weft_bench_step_create(const char *target, int layers, int64_t width, int64_t vocabulary, int64_t positions,
                           weft_bench_step **out_step) {
    *out_step = NULL;
    weft_bench_step *s = calloc(1, sizeof *s);
    if (!s) return report(WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a step"));
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    o.targets = target;
    weft_status status = build(s, layers, width, vocabulary, positions);
    if (!status) status = weft_compile(s->graph, &o, &s->program);
    if (!status) status = weft_session_create(s->program, &s->session);
    if (status) {
        weft_bench_step_release(s);
        return report(status);
    }
    *out_step = s;
    return 0;
}

int weft_bench_step_save(const char *target, int layers, int64_t width, int64_t vocabulary, int64_t positions,
                         const char *path) {
    weft_bench_step s = {0};
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    o.targets = target;
    weft_status status = build(&s, layers, width, vocabulary, positions);
    if (!status) status = weft_compile_file(s.graph, &o, path);
    weft_graph_release(s.graph);
    weft_context_release(s.context);
    return report(status);
}

int weft_bench_step_run(weft_bench_step *s, double *out_seconds) {
    weft_tensor *output = NULL;
    s->session->timed = true;
    weft_status status = weft_session_call(s->session, 0, NULL, 1, &output);
    *out_seconds = s->session->device_ns * 1e-9;
    weft_tensor_release(output);
    return report(status);
}

int weft_bench_step_launches(const weft_bench_step *s) {
    const weft_resolved_region *steps = &s->session->frame.regions[WEFT_REGION_MAIN];
    int count = 0;
    for (int i = 0; i < steps->count; i++) count += steps->steps[i].step->kind == WEFT_STEP_LAUNCH;
    return count;
}

int weft_bench_step_read(weft_bench_step *s, const char *name, float *out_values, int64_t count) {
    weft_tensor *tensor = NULL;
    weft_status status = weft_session_read_state(s->session, name, &tensor);
    if (!status && weft_tensor_element_count(tensor) != count)
        status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s has another number of elements", name);
    if (!status) memcpy(out_values, weft_tensor_data(tensor), (size_t)count * sizeof *out_values);
    weft_tensor_release(tensor);
    return report(status);
}

int weft_bench_step_write(weft_bench_step *s, const char *name, const float *values, int rank, const int64_t *shape) {
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create(s->context, WEFT_F32, rank, shape, &tensor);
    if (!status) {
        memcpy(weft_tensor_data(tensor), values, weft_tensor_bytes(tensor));
        status = weft_session_write_state(s->session, name, tensor);
    }
    weft_tensor_release(tensor);
    return report(status);
}
