/* Whole programs in libweft_bench, for gpu_peers/:
   adamw  layers width vocabulary positions    an optimizer's step over the parameters of a GPT, whose gradients are
                                               states too, so that nothing but the update runs
   head   examples features classes pieces     a language model's head in bf16: loss and both gradients; pieces -1:
   logits as a whole
   loop   trips width host                     x = tanh(x w) until the count of trips, a value on the device, is
   reached; host 1: the host looks after each trip, as with a driver whose graphs have no loops
   scan   trips width                          the same with a count that the program knows. Time is the device's,
   by events around the steps of one call. Memory is the program's own: values go in and out through its states. Read
   next: gpu_peers/programs.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drivers/cuda/cuda.h"
#include "runtime/session.h"
#include "weft/compile.h"
#include "weft/loss.h"
#include "weft/optim.h"
#include "weft/transform.h"

enum { NAME_BYTES = 64 };

typedef struct weft_bench_step {
    weft_context *context;
    weft_graph *graph;
    weft_program *program;
    weft_session *session;
    weft_driver without_loops; /* the device's, for loop with host 1 */
    float output;              /* the last call's, when it is an f32 scalar */
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

static weft_status build_adamw(weft_graph *g, const int64_t *numbers) {
    int layers = (int)numbers[0], count = 12 * layers + 4;
    tensors t = {g, calloc((size_t)count, sizeof *t.list), calloc((size_t)count, sizeof *t.names), 0, count};
    if (!t.list || !t.names) {
        free(t.list), free(t.names);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adamw: %d tensors", count);
    }
    add_gpt(&t, layers, numbers[1], numbers[2], numbers[3]);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
    o.rate = weft_scalar(g, WEFT_F32, 1e-3), o.decay = weft_scalar(g, WEFT_F32, 0.1);
    o.step = weft_optim_step(g);
    weft_optim_update(g, &o, t.count, t.list);
    weft_graph_output(g, "step", o.step);
    weft_status status = weft_graph_verify(g);
    free(t.list), free(t.names);
    return status;
}

static weft_value *state(weft_graph *g, const char *name, weft_dtype dtype, int rank, const int64_t *shape) {
    weft_graph_state_zeros(g, name, dtype, rank, shape);
    return weft_state_read(g, name);
}

static weft_status build_head(weft_graph *g, const int64_t *numbers) {
    int64_t x_shape[2] = {numbers[0], numbers[1]}, w_shape[2] = {numbers[2], numbers[1]};
    weft_value *in[2] = {state(g, "x", WEFT_BF16, 2, x_shape), state(g, "w", WEFT_BF16, 2, w_shape)}, *loss, *slopes[2];
    weft_value *labels = state(g, "labels", WEFT_I64, 1, x_shape);
    if (numbers[3] < 0) {
        weft_value *logits = weft_matmul(g, in[0], weft_transpose(g, in[1], NULL));
        loss = weft_loss_cross_entropy(g, weft_convert(g, logits, WEFT_F32), labels, NULL);
    } else {
        loss = weft_loss_linear_cross_entropy(g, in[0], in[1], labels, numbers[3], NULL);
    }
    weft_gradient(g, loss, NULL, 2, in, slopes);
    (void)state(g, "x/g", WEFT_BF16, 2, x_shape), (void)state(g, "w/g", WEFT_BF16, 2, w_shape);
    weft_state_update(g, "x/g", slopes[0]), weft_state_update(g, "w/g", slopes[1]);
    weft_graph_output(g, "loss", loss);
    return weft_graph_verify(g);
}

static void below_trips(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    out[0] = weft_compare(g, WEFT_LT, a[0], self);
}

static void one_trip(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    (void)self;
    out[0] = weft_add(g, a[0], weft_scalar_integer(g, WEFT_I64, 1));
    out[1] = weft_tanh(g, weft_matmul(g, a[1], weft_state_read(g, "w")));
}

static weft_status build_loop(weft_graph *g, const int64_t *numbers) {
    int64_t shape[2] = {numbers[1], numbers[1]};
    static const int64_t axes[2] = {0, 1};
    weft_value *x = state(g, "x", WEFT_F32, 2, shape), *trips = state(g, "trips", WEFT_I64, 0, NULL), *results[2];
    weft_graph_state_zeros(g, "w", WEFT_F32, 2, shape), weft_graph_state_zeros(g, "y", WEFT_F32, 2, shape);
    weft_while(g, 2, (weft_value *[]){weft_scalar_integer(g, WEFT_I64, 0), x}, -1, below_trips, one_trip, trips,
               results);
    weft_state_update(g, "y", results[1]);
    weft_graph_output(g, "mean", weft_reduce_mean(g, results[1], 2, axes, false));
    return weft_graph_verify(g);
}

static void one_step(void *self, weft_graph *g, weft_value *const *a, weft_value **out) {
    (void)self;
    out[0] = weft_tanh(g, weft_matmul(g, a[0], weft_state_read(g, "w")));
}

static weft_status build_scan(weft_graph *g, const int64_t *numbers) {
    int64_t shape[2] = {numbers[1], numbers[1]};
    static const int64_t axes[2] = {0, 1};
    weft_value *x = state(g, "x", WEFT_F32, 2, shape), *result;
    weft_graph_state_zeros(g, "w", WEFT_F32, 2, shape), weft_graph_state_zeros(g, "y", WEFT_F32, 2, shape);
    weft_scan(g, 1, &x, 0, NULL, numbers[0], false, one_step, NULL, 0, &result);
    weft_state_update(g, "y", result);
    weft_graph_output(g, "mean", weft_reduce_mean(g, result, 2, axes, false));
    return weft_graph_verify(g);
}

static weft_status build(weft_bench_step *s, const char *name, const int64_t *numbers) {
    WEFT_TRY(weft_context_create(NULL, &s->context), "%s", name);
    WEFT_TRY(weft_graph_create(s->context, name, &s->graph), "%s", name);
    if (!strcmp(name, "adamw")) return build_adamw(s->graph, numbers);
    if (!strcmp(name, "head")) return build_head(s->graph, numbers);
    if (!strcmp(name, "loop")) return build_loop(s->graph, numbers);
    if (!strcmp(name, "scan")) return build_scan(s->graph, numbers);
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "no program is called %s", name);
}

WEFT_API const char *weft_bench_step_error(void);
WEFT_API int weft_bench_step_create(const char *target, const char *name, const int64_t *numbers,
                                    weft_bench_step **out_step);
WEFT_API void weft_bench_step_release(weft_bench_step *s);
/* Writes an artifact instead of compiling for a device: to look at. */
WEFT_API int weft_bench_step_save(const char *target, const char *name, const int64_t *numbers, const char *path);
/* stream: of PyTorch, not the default one; the steps go behind what it holds. */
WEFT_API int weft_bench_step_run(weft_bench_step *s, void *stream, double *out_seconds);
WEFT_API int weft_bench_step_launches(const weft_bench_step *s);
/* Bytes of temporaries and constants. */
WEFT_API int64_t weft_bench_step_bytes(const weft_bench_step *s);
WEFT_API float weft_bench_step_output(const weft_bench_step *s);
WEFT_API int weft_bench_step_read(weft_bench_step *s, const char *name, void *out_data, int64_t bytes);
/* dtype: 0 bf16, 2 f32, 3 i64 */
WEFT_API int weft_bench_step_write(weft_bench_step *s, const char *name, const void *data, int dtype, int rank,
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

int weft_bench_step_create(const char *target, const char *name, const int64_t *numbers, weft_bench_step **out_step) {
    *out_step = NULL;
    weft_bench_step *s = calloc(1, sizeof *s);
    if (!s) return report(WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a step"));
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    o.targets = target;
    weft_status status = build(s, name, numbers);
    if (!status) status = weft_compile(s->graph, &o, &s->program);
    if (!status) status = weft_session_create(s->program, &s->session);
    if (!status && !strcmp(name, "loop") && numbers[2]) {
        s->without_loops = *s->program->device->driver;
        s->without_loops.records_control = NULL;
        s->program->device->driver = &s->without_loops;
    }
    if (status) {
        weft_bench_step_release(s);
        return report(status);
    }
    *out_step = s;
    return 0;
}

int weft_bench_step_save(const char *target, const char *name, const int64_t *numbers, const char *path) {
    weft_bench_step s = {0};
    weft_compile_options o = WEFT_COMPILE_OPTIONS_INIT;
    o.targets = target;
    weft_status status = build(&s, name, numbers);
    if (!status) status = weft_compile_file(s.graph, &o, path);
    weft_graph_release(s.graph);
    weft_context_release(s.context);
    return report(status);
}

int weft_bench_step_run(weft_bench_step *s, void *stream, double *out_seconds) {
    weft_tensor *output = NULL;
    if (stream) weft_cuda_use_stream(s->session->program->device, stream);
    s->session->timed = true;
    weft_status status = weft_session_call(s->session, 0, NULL, 1, &output);
    *out_seconds = s->session->device_ns * 1e-9;
    if (!status && weft_tensor_dtype(output) == WEFT_F32)
        memcpy(&s->output, weft_tensor_data(output), sizeof s->output);
    weft_tensor_release(output);
    return report(status);
}

int weft_bench_step_launches(const weft_bench_step *s) {
    const weft_resolved_region *steps = &s->session->frame.regions[WEFT_REGION_MAIN];
    int count = 0;
    for (int i = 0; i < steps->count; i++) count += steps->steps[i].step->kind == WEFT_STEP_LAUNCH;
    return count;
}

int64_t weft_bench_step_bytes(const weft_bench_step *s) {
    int64_t temporaries = 0, constants = 0;
    return report(weft_program_memory(s->program, 0, NULL, &temporaries, &constants)) ? -1 : temporaries + constants;
}

float weft_bench_step_output(const weft_bench_step *s) { return s->output; }

int weft_bench_step_read(weft_bench_step *s, const char *name, void *out_data, int64_t bytes) {
    weft_tensor *tensor = NULL;
    weft_status status = weft_session_read_state(s->session, name, &tensor);
    if (!status && weft_tensor_bytes(tensor) != (size_t)bytes)
        status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s has another size", name);
    if (!status) memcpy(out_data, weft_tensor_data(tensor), (size_t)bytes);
    weft_tensor_release(tensor);
    return report(status);
}

int weft_bench_step_write(weft_bench_step *s, const char *name, const void *data, int dtype, int rank,
                          const int64_t *shape) {
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F16, WEFT_F32, WEFT_I64};
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create(s->context, dtypes[dtype & 3], rank, shape, &tensor);
    if (!status) {
        memcpy(weft_tensor_data(tensor), data, weft_tensor_bytes(tensor));
        status = weft_session_write_state(s->session, name, tensor);
    }
    weft_tensor_release(tensor);
    return report(status);
}
