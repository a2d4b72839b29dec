/* The parameters of a model: where their values come from and where they live. Invariant: entry i of the list is the
   i-th that was declared; names and initial tensors belong to the list. Initial values are drawn on the host, from a
   stream per name, so that adding a layer leaves the others as they were. */
#include "weft/nn.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/dtype.h"
#include "base/need.h"
#include "stdlib/random.h"
#include "weft/transform.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct weft_parameters {
    weft_graph *graph;
    weft_context *context;
    weft_parameters_options options;
    weft_arena arena; /* names */
    int count;
    size_t capacity;
    weft_parameter *list;
};

weft_status weft_parameters_create(weft_context *context, weft_graph *g, const weft_parameters_options *options,
                                   weft_parameters **out_parameters) {
    WEFT_NEED(out_parameters, "out_parameters");
    *out_parameters = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(g, "the graph");
    weft_parameters_options own = WEFT_PARAMETERS_OPTIONS_INIT;
    WEFT_TRY(WEFT_OPTIONS_READ(own, options, WEFT_PARAMETERS_OPTIONS_INIT), "parameters");
    weft_parameters *p = weft_allocate(context->allocator, sizeof *p);
    if (!p) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the list of parameters");
    p->graph = g, p->context = context, p->options = own;
    if (p->options.dtype == WEFT_INVALID) p->options.dtype = WEFT_F32;
    if (p->options.compute == WEFT_INVALID) p->options.compute = p->options.dtype;
    weft_arena_init(context->allocator, &p->arena);
    weft_context_retain(context);
    *out_parameters = p;
    return NULL;
}

void weft_parameters_release(weft_parameters *p) {
    if (!p) return;
    weft_context *context = p->context;
    weft_allocator allocator = context->allocator;
    for (int i = 0; i < p->count; i++) weft_tensor_release(p->list[i].initial);
    weft_free(allocator, p->list, p->capacity * sizeof *p->list);
    weft_arena_deinit(&p->arena);
    weft_free(allocator, p, sizeof *p);
    weft_context_release(context);
}

/* -- initial values */

/* The start of a name's stream: FNV-1a of the name, mixed with the seed. */
static uint64_t stream_of(uint64_t seed, const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *at = name; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return weft_draw_stream(seed, hash);
}

static double draw(weft_init_kind kind, double scale, uint64_t *state) {
    switch (kind) {
    case WEFT_INIT_ONES: return 1;
    case WEFT_INIT_UNIFORM: return (2 * weft_draw_uniform(state) - 1) * scale;
    case WEFT_INIT_NORMAL: { /* Box, Muller 1958; 1 - u lies in (0, 1] */
        double radius = sqrt(-2 * log(1 - weft_draw_uniform(state)));
        return scale * radius * cos(6.283185307179586 * weft_draw_uniform(state));
    }
    case WEFT_INIT_ZEROS: break;
    }
    return 0;
}

static weft_status draw_tensor(const weft_parameters *p, const char *name, weft_init_kind kind, double scale, int rank,
                               const int64_t *shape, weft_tensor **out_tensor) {
    WEFT_TRY(weft_tensor_create(p->context, p->options.dtype, rank, shape, out_tensor), "parameter %s", name);
    uint64_t state = stream_of(p->options.seed, name);
    void *data = weft_tensor_data(*out_tensor);
    for (int64_t i = 0; i < weft_tensor_element_count(*out_tensor); i++) {
        double value = draw(kind, scale, &state);
        if (p->options.dtype == WEFT_F64)
            ((double *)data)[i] = value;
        else
            ((float *)data)[i] = (float)value;
    }
    return NULL;
}

static weft_status read_tensor(const weft_parameters *p, const char *name, int rank, const int64_t *shape,
                               weft_tensor **out_tensor) {
    int index = weft_safetensors_find(p->options.weights, name);
    if (index < 0) return WEFT_STATUS(WEFT_NOT_FOUND, "the weights have no tensor \"%s\"", name);
    WEFT_TRY(weft_safetensors_get(p->options.weights, index, out_tensor), "parameter %s", name);
    bool fits = weft_tensor_rank(*out_tensor) == rank && weft_tensor_dtype(*out_tensor) == p->options.dtype;
    for (int i = 0; fits && i < rank; i++) fits = weft_tensor_shape(*out_tensor)[i] == shape[i];
    if (fits) return NULL;
    weft_tensor_release(*out_tensor);
    *out_tensor = NULL;
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "tensor \"%s\" of the weights has another dtype or shape", name);
}

/* -- declaration */

/* State NAME/rounded, which starts as the parameter does. */
static weft_status add_rounded(weft_parameters *p, weft_parameter *entry) {
    char name[256];
    weft_tensor *initial, *rounded;
    int length = snprintf(name, sizeof name, "%s/rounded", entry->name);
    if (length < 0 || (size_t)length >= sizeof name)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the name of parameter %.40s... is too long", entry->name);
    initial = entry->initial;
    WEFT_TRY(weft_tensor_create(p->context, p->options.compute, weft_tensor_rank(initial), weft_tensor_shape(initial),
                                &rounded),
             "parameter %s", entry->name);
    for (int64_t i = 0; i < weft_tensor_element_count(initial); i++)
        weft_element_set_double(p->options.compute, weft_tensor_data(rounded), i,
                                weft_element_double(p->options.dtype, weft_tensor_data(initial), i));
    weft_graph_state(p->graph, name, rounded);
    weft_tensor_release(rounded);
    entry->rounded = weft_state_read(p->graph, name);
    return NULL;
}

static weft_status add(weft_parameters *p, const char *name, weft_init_kind init, double scale, int rank,
                       const int64_t *shape) {
    if (!name) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the name of a parameter is missing");
    if (p->options.dtype != WEFT_F32 && p->options.dtype != WEFT_F64)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "parameters are f32 or f64, not %s", weft_dtype_name(p->options.dtype));
    if (p->options.compute != p->options.dtype && p->options.compute != WEFT_BF16 && p->options.compute != WEFT_F16)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "mixed precision is bf16 or f16, not %s",
                           weft_dtype_name(p->options.compute));
    if (!WEFT_ARRAY_RESERVE(p->context->allocator, p->list, p->capacity, (size_t)p->count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for parameter %s", name);
    weft_parameter entry = {.rate_scale = 1, .decay_scale = rank > 1 || p->options.decay_vectors ? 1 : 0};
    entry.name = weft_arena_copy_string(&p->arena, name, strlen(name));
    if (!entry.name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for parameter %s", name);
    WEFT_TRY(p->options.weights ? read_tensor(p, name, rank, shape, &entry.initial)
                                : draw_tensor(p, name, init, scale, rank, shape, &entry.initial),
             "adding a parameter");
    if (p->options.constant) {
        entry.value = weft_graph_parameter(p->graph, name, entry.initial);
    } else {
        weft_graph_state(p->graph, name, entry.initial);
        entry.value = weft_state_read(p->graph, name);
    }
    bool rounds = p->options.compute != p->options.dtype && rank > 1;
    if (rounds && p->options.constant)
        entry.rounded = weft_convert(p->graph, entry.value, p->options.compute);
    else if (rounds)
        WEFT_TRY(add_rounded(p, &entry), "adding a parameter");
    p->list[p->count++] = entry;
    return NULL;
}

weft_value *weft_parameters_add(weft_parameters *p, const char *name, weft_init_kind init, double scale, int rank,
                                const int64_t *shape) {
    if (!p) return NULL;
    weft_status status = add(p, name, init, scale, rank, shape);
    const weft_parameter *last = p->count ? &p->list[p->count - 1] : NULL;
    if (!status) return last->rounded ? last->rounded : last->value;
    weft_graph_report(p->graph, status);
    return weft_full(p->graph, WEFT_F32, rank, shape,
                     0); /* the problem is recorded: the shape lets the rest be checked */
}

static weft_status add_buffer(weft_parameters *p, const char *name, weft_init_kind init, int rank, const int64_t *shape,
                              weft_value **out_value) {
    weft_tensor *initial;
    if (!name) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the name of a buffer is missing");
    WEFT_TRY(p->options.weights ? read_tensor(p, name, rank, shape, &initial)
                                : draw_tensor(p, name, init, 0, rank, shape, &initial),
             "adding a buffer");
    if (p->options.constant) {
        *out_value = weft_graph_parameter(p->graph, name, initial);
    } else {
        weft_graph_state(p->graph, name, initial);
        *out_value = weft_state_read(p->graph, name);
    }
    weft_tensor_release(initial);
    return NULL;
}

weft_value *weft_parameters_add_buffer(weft_parameters *p, const char *name, weft_init_kind init, int rank,
                                       const int64_t *shape) {
    if (!p) return NULL;
    weft_value *value = NULL;
    weft_status status = add_buffer(p, name, init, rank, shape, &value);
    if (!status) return value;
    weft_graph_report(p->graph, status);
    return weft_full(p->graph, p->options.dtype, rank, shape, 0);
}

void weft_parameters_set_buffer(weft_parameters *p, const char *name, weft_value *value) {
    if (p && !p->options.constant) weft_state_update(p->graph, name, value);
}

weft_dtype weft_parameters_dtype(const weft_parameters *p) { return p ? p->options.dtype : WEFT_INVALID; }
weft_graph *weft_parameters_graph(const weft_parameters *p) { return p ? p->graph : NULL; }
int weft_parameters_count(const weft_parameters *p) { return p ? p->count : 0; }
weft_parameter *weft_parameters_list(weft_parameters *p) { return p ? p->list : NULL; }

/* cotangent: of the loss; NULL = 1. */
static void differentiate(weft_parameters *p, weft_value *loss, weft_value *cotangent) {
    size_t bytes;
    weft_value **values = weft_size_multiply((size_t)p->count * 4 + 1, sizeof(weft_value *), &bytes)
                              ? weft_allocate(p->context->allocator, bytes)
                              : NULL;
    if (!values) {
        weft_graph_report(p->graph, WEFT_STATUS(WEFT_OUT_OF_MEMORY, "gradients of %d parameters", p->count));
        return;
    }
    int count = 0; /* values first, then copies */
    for (int i = 0; i < p->count; i++) values[count++] = p->list[i].value;
    for (int i = 0; i < p->count; i++)
        if (p->list[i].rounded) values[count++] = p->list[i].rounded;
    weft_value **gradients = values + count;
    weft_gradient(p->graph, loss, cotangent, count, values, gradients);
    for (int i = 0, copy = p->count; i < p->count; i++) {
        weft_parameter *entry = &p->list[i];
        entry->gradient = gradients[i];
        if (!entry->rounded) continue;
        weft_value *other = weft_convert(p->graph, gradients[copy++], p->options.dtype);
        entry->gradient = weft_add(p->graph, gradients[i], other); /* mostly one of them is zero */
    }
    weft_free(p->context->allocator, values, bytes);
}

void weft_parameters_gradient(weft_parameters *p, weft_value *loss) {
    if (p) differentiate(p, loss, NULL);
}

static weft_value *counter(weft_graph *g, const char *name) {
    weft_graph_state_zeros(g, name, WEFT_I64, 0, NULL);
    return weft_state_read(g, name);
}

/* out_scale is read as far as its owner knows it and gets what is set at the end. */
void weft_parameters_gradient_scaled(weft_parameters *p, weft_value *loss, weft_loss_scale *out_scale) {
    if (!p) return;
    weft_graph *g = p->graph;
    weft_loss_scale own = WEFT_LOSS_SCALE_INIT, *s = &own;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, out_scale, WEFT_LOSS_SCALE_INIT))) return;
    if (!out_scale || !(s->initial > 0 && isfinite((float)s->initial)) || !(s->growth >= 1 && isfinite(s->growth)) ||
        !(s->backoff > 0 && s->backoff < 1) || s->interval < 1) {
        weft_graph_report(g,
                          WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                      "loss scaling: initial is above 0 and finite in f32, growth at least 1, backoff "
                                      "in (0, 1), interval at least 1; WEFT_LOSS_SCALE_INIT has good ones"));
        return;
    }
    weft_tensor *initial = NULL;
    weft_status status = weft_tensor_create(p->context, WEFT_F32, 0, NULL, &initial);
    if (status) {
        weft_graph_report(g, status);
        return;
    }
    *(float *)weft_tensor_data(initial) = (float)s->initial;
    weft_graph_state(g, "loss_scale/scale", initial);
    weft_tensor_release(initial);
    s->scale = weft_state_read(g, "loss_scale/scale");
    weft_value *good = counter(g, "loss_scale/good"), *done = counter(g, "loss_scale/step");
    weft_value *one = weft_scalar_integer(g, WEFT_I64, 1), *zero = weft_scalar_integer(g, WEFT_I64, 0);
    differentiate(p, loss, weft_convert(g, s->scale, weft_value_dtype(loss)));
    for (int i = 0; i < p->count; i++) {
        weft_value *scale = weft_convert(g, s->scale, p->options.dtype);
        p->list[i].gradient = weft_div(g, p->list[i].gradient, scale);
    }
    s->apply = weft_is_finite(g, weft_optim_gradient_norm(g, p->count, p->list));
    s->step = weft_add(g, done, one);
    /* enough of them in a row: the scale grows, and counting starts anew */
    weft_value *next = weft_add(g, good, one);
    weft_value *grows = weft_compare(g, WEFT_GE, next, weft_scalar_integer(g, WEFT_I64, s->interval));
    weft_value *scale = weft_where(g, grows, weft_mul_number(g, s->scale, s->growth), s->scale);
    scale = weft_where(g, s->apply, scale, weft_mul_number(g, s->scale, s->backoff));
    next = weft_where(g, s->apply, weft_where(g, grows, zero, next), zero);
    weft_state_update(g, "loss_scale/scale", scale);
    weft_state_update(g, "loss_scale/good", next);
    weft_state_update(g, "loss_scale/step", weft_where(g, s->apply, s->step, done));
    size_t known = out_scale->struct_bytes;
    memcpy(out_scale, &own, known < sizeof own ? known : sizeof own);
    out_scale->struct_bytes = known;
}
