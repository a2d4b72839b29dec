/* The table of optimizers and what a step is made of. Invariant: every parameter of an update gets `updated` and a
   state that holds it. Read next: adam.c. */
#include "base/need.h"
#include "stdlib/optim/method.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct method_row {
    const char *name;
    weft_optim_hook hook;
    double beta1, beta2, beta3, epsilon;
    bool decoupled;
} method_row;

static const method_row methods[WEFT_OPTIM_COUNT] = {
#define X(id, name, beta1, beta2, beta3, epsilon, decoupled)                                                           \
    [WEFT_OPTIM_##id] = {#name, weft_optim_##name, beta1, beta2, beta3, epsilon, decoupled},
    WEFT_OPTIMIZERS(X)
#undef X
};

weft_optim_options weft_optim_defaults(weft_optim_method method) {
    bool known =
        (int)method >= 0 && method < WEFT_OPTIM_COUNT; /* what is not has nothing but zeros: update refuses it */
    const method_row nothing = {0}, *row = known ? &methods[method] : &nothing;
    weft_optim_options o = {.struct_bytes = sizeof(weft_optim_options),
                            .method = method,
                            .beta1 = row->beta1,
                            .beta2 = row->beta2,
                            .beta3 = row->beta3,
                            .epsilon = row->epsilon,
                            .decoupled = row->decoupled,
                            .nesterov = method == WEFT_OPTIM_MUON,
                            .alpha = method == WEFT_OPTIM_ADEMAMIX ? 2
                                     : method == WEFT_OPTIM_GALORE ? 0.25
                                                                   : 0.5,
                            .lookahead = method == WEFT_OPTIM_RANGER ? 6 : 0,
                            .trust = method == WEFT_OPTIM_SOPHIA ? 0.04 : 1e-3,
                            .curvature_scale = 1,
                            .final_rate = 0.1,
                            .gamma = 1e-3,
                            .period = method == WEFT_OPTIM_GALORE ? 200 : 10,
                            .rank = 128,
                            .size_max = 10000,
                            .history = 10};
    return o;
}

const char *weft_optim_name(weft_optim_method method) {
    return (int)method >= 0 && method < WEFT_OPTIM_COUNT ? methods[method].name : NULL;
}

weft_optim_method weft_optim_find(const char *name) {
    int i = 0;
    while (i < WEFT_OPTIM_COUNT && (!name || strcmp(methods[i].name, name) != 0)) i++;
    return (weft_optim_method)i;
}

/* -- states */

/* False and a problem when the name does not fit. */
static bool state_name(weft_graph *g, const char *parameter, const char *suffix, char *name, size_t capacity) {
    int length = snprintf(name, capacity, "%s/%s", parameter, suffix);
    if (length >= 0 && (size_t)length < capacity) return true;
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the name of parameter %.40s... is too long", parameter));
    return false;
}

/* Shapes of parameters are numbers; a symbolic one is a problem that weft_graph_state_zeros names. */
weft_value *weft_optim_state(weft_optim_pass *pass, const char *suffix, bool copied) {
    char name[256];
    const weft_parameter *p = pass->p;
    int64_t shape[WEFT_MAX_RANK];
    if (!state_name(pass->g, p->name, suffix, name, sizeof name)) return pass->p->value;
    for (int i = 0; i < weft_value_rank(p->value); i++) shape[i] = weft_value_dim(p->value, i);
    if (copied && p->initial)
        weft_graph_state(pass->g, name, p->initial);
    else
        weft_graph_state_zeros(pass->g, name, pass->dtype, weft_value_rank(p->value), shape);
    return weft_state_read(pass->g, name);
}

weft_value *weft_optim_scalar_state(weft_optim_pass *pass, const char *suffix) {
    char name[256];
    if (!state_name(pass->g, pass->p->name, suffix, name, sizeof name)) return pass->rate;
    weft_graph_state_zeros(pass->g, name, pass->dtype, 0, NULL);
    return weft_state_read(pass->g, name);
}

weft_value *weft_optim_shaped_state(weft_optim_pass *pass, const char *suffix, int rank, const int64_t *shape) {
    char name[256];
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < rank && i < WEFT_MAX_RANK; i++) dims[i] = shape[i];
    if (!state_name(pass->g, pass->p->name, suffix, name, sizeof name))
        return weft_broadcast_to(pass->g, pass->rate, rank, dims);
    weft_graph_state_zeros(pass->g, name, pass->dtype, rank, shape);
    return weft_state_read(pass->g, name);
}

void weft_optim_state_set(weft_optim_pass *pass, const char *suffix, weft_value *value) {
    char name[256];
    if (state_name(pass->g, pass->p->name, suffix, name, sizeof name))
        weft_optim_updates_add(pass->updates, name, value);
}

void weft_optim_updates_begin(weft_graph *g, weft_optim_updates *out_updates) {
    *out_updates = (weft_optim_updates){.g = g};
    out_updates->end = &out_updates->first;
    weft_arena_init(weft_allocator_system(), &out_updates->arena);
}

void weft_optim_updates_add(weft_optim_updates *u, const char *name, weft_value *value) {
    weft_optim_update_entry *entry = weft_arena_allocate(&u->arena, sizeof *entry);
    const char *copy = weft_arena_copy_string(&u->arena, name, strlen(name));
    if (!entry || !copy) {
        weft_graph_report(u->g, WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the update of %s", name));
        return;
    }
    *entry = (weft_optim_update_entry){copy, value, NULL};
    *u->end = entry;
    u->end = &entry->next;
}

void weft_optim_updates_end(weft_optim_updates *u) {
    for (weft_optim_update_entry *entry = u->first; u->apply && entry; entry = entry->next)
        entry->value = weft_where(u->g, u->apply, entry->value, weft_state_read(u->g, entry->name));
    for (const weft_optim_update_entry *entry = u->first; entry; entry = entry->next)
        weft_state_update(u->g, entry->name, entry->value);
    weft_arena_deinit(&u->arena);
}

weft_value *weft_optim_step(weft_graph *g) {
    weft_graph_state_zeros(g, "optim/step", WEFT_I64, 0, NULL);
    weft_value *step = weft_add(g, weft_state_read(g, "optim/step"), weft_scalar_integer(g, WEFT_I64, 1));
    weft_state_update(g, "optim/step", step);
    return step;
}

/* -- pieces of methods */

weft_value *weft_optim_gradient(weft_optim_pass *pass) {
    weft_value *gradient = pass->p->gradient;
    if (!pass->decay || pass->o->decoupled) return gradient;
    return weft_add(pass->g, gradient, weft_mul(pass->g, pass->decay, pass->p->value));
}

weft_value *weft_optim_decayed(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    if (!pass->decay || !pass->o->decoupled) return pass->p->value;
    weft_value *keep = weft_sub(g, weft_scalar(g, pass->dtype, 1), weft_mul(g, pass->rate, pass->decay));
    return weft_mul(g, pass->p->value, keep);
}

/* Zhang, Lucas, Hinton, Ba 2019: every k steps slow += alpha (fast - slow), fast = slow. */
static weft_value *look_ahead(weft_optim_pass *pass, weft_value *fast) {
    weft_graph *g = pass->g;
    weft_value *slow = weft_optim_state(pass, "slow", true);
    weft_value *next = weft_add(g, slow, weft_mul_number(g, weft_sub(g, fast, slow), pass->o->alpha));
    weft_value *period = weft_scalar_integer(g, WEFT_I64, pass->o->lookahead);
    weft_value *now = weft_compare(g, WEFT_EQ, weft_rem(g, pass->o->step, period), weft_scalar_integer(g, WEFT_I64, 0));
    weft_optim_state_set(pass, "slow", weft_where(g, now, next, slow));
    return weft_where(g, now, next, fast);
}

/* The copy in 16 bits. bf16 is the upper half of f32: random bits are added to the lower one, which is then cut off. */
static weft_value *rounded(weft_optim_pass *pass, weft_value *value) {
    weft_graph *g = pass->g;
    weft_dtype dtype = weft_value_dtype(pass->p->rounded);
    if (!pass->o->stochastic || dtype != WEFT_BF16 || pass->dtype != WEFT_F32) return weft_convert(g, value, dtype);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a of the name: a stream for each parameter */
    for (const char *at = pass->p->name; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    int rank = weft_value_rank(value);
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = weft_value_dim(value, i);
    weft_value *key[2] = {weft_scalar_integer(g, WEFT_U64, (int64_t)hash), weft_convert(g, pass->o->step, WEFT_U64)};
    weft_value *bits = weft_convert(g, weft_rng_bits(g, weft_stack(g, 0, 2, key), WEFT_U16, rank, shape), WEFT_U32);
    bits = weft_add(g, weft_bitcast(g, value, WEFT_U32), bits);
    bits = weft_and(g, bits, weft_scalar_integer(g, WEFT_U32, 0xffff0000));
    return weft_convert(g, weft_bitcast(g, bits, WEFT_F32), dtype);
}

void weft_optim_finish(weft_optim_pass *pass, weft_value *updated) {
    if (pass->o->lookahead > 0) updated = look_ahead(pass, updated);
    weft_optim_updates_add(pass->updates, pass->p->name, updated);
    if (pass->p->rounded) weft_optim_state_set(pass, "rounded", rounded(pass, updated));
    pass->p->updated = updated;
}

weft_value *weft_optim_average(weft_graph *g, weft_value *old, weft_value *new_value, double beta) {
    return weft_add(g, weft_mul_number(g, old, beta), weft_mul_number(g, new_value, 1 - beta));
}

weft_value *weft_optim_correction(weft_optim_pass *pass, double beta) {
    weft_graph *g = pass->g;
    if (beta <= 0) return weft_scalar(g, pass->dtype, 1);
    return weft_neg(g, weft_expm1(g, weft_mul_number(g, pass->step, log(beta))));
}

weft_value *weft_optim_norm(weft_graph *g, weft_value *x) {
    return weft_sqrt(g, weft_reduce_sum(g, weft_square(g, x), 0, NULL, false));
}

int weft_optim_shape(const weft_optim_pass *pass, weft_dim *out_shape) {
    int rank = weft_value_rank(pass->p->value);
    for (int i = 0; i < rank; i++) out_shape[i] = weft_value_dim(pass->p->value, i);
    return rank;
}

weft_value *weft_optim_identity(weft_graph *g, weft_dim n, weft_dtype dtype) {
    weft_dim shape[2] = {n, n};
    weft_value *row = weft_iota(g, WEFT_I64, 2, shape, 0), *column = weft_iota(g, WEFT_I64, 2, shape, 1);
    return weft_convert(g, weft_compare(g, WEFT_EQ, row, column), dtype);
}

weft_value *weft_optim_stepped(const weft_optim_pass *pass, weft_value *step, weft_value *direction) {
    weft_graph *g = pass->g;
    weft_optim_pass at = *pass;
    at.step = step;
    weft_value *scale = weft_sqrt(g, weft_optim_correction(&at, pass->o->beta2));
    scale = weft_div(g, scale, weft_optim_correction(&at, pass->o->beta1));
    weft_value *moved = weft_sub(g, pass->p->value, weft_mul(g, weft_mul(g, pass->rate, scale), direction));
    if (!pass->decay || !pass->o->decoupled) return moved;
    return weft_mul(g, moved, weft_sub(g, weft_scalar(g, pass->dtype, 1), weft_mul(g, pass->rate, pass->decay)));
}

/* -- one step */

static bool may_update(weft_graph *g, const weft_optim_options *o, const weft_parameter *p) {
    if (!o->rate || !o->step || !p->gradient) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "parameter %s: the optimizer has no %s", p->name,
                                         !o->rate   ? "rate"
                                         : !o->step ? "step"
                                                    : "gradient"));
        return false;
    }
    weft_dtype dtype = weft_value_dtype(p->value);
    if (dtype == WEFT_F32 || dtype == WEFT_F64 || dtype == WEFT_INVALID) return dtype != WEFT_INVALID;
    weft_graph_report(g, WEFT_STATUS(WEFT_UNSUPPORTED, "parameter %s is %s; optimizers update f32 and f64", p->name,
                                     weft_dtype_name(dtype)));
    return false;
}

/* Lists and options at the door. */
static bool may_begin(weft_graph *g, const weft_optim_options *o, int count, const weft_parameter *parameters) {
    const char *missing = !o ? "options" : count > 0 && !parameters ? "parameters" : NULL;
    for (int i = 0; !missing && i < count; i++)
        if (!parameters[i].name || !parameters[i].value) missing = parameters[i].name ? "value" : "name";
    if (missing)
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "optimizer: the %s %s missing", missing,
                                         missing[strlen(missing) - 1] == 's' ? "are" : "of a parameter is"));
    else if ((int)o->method < 0 || o->method >= WEFT_OPTIM_COUNT)
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "optimizer: there is no method %d", (int)o->method));
    else
        return true;
    return false;
}

static weft_value *scaled(weft_graph *g, weft_value *scalar, double scale, weft_dtype dtype) {
    weft_value *value = weft_convert(g, scalar, dtype);
    return scale == 1 ? value : weft_mul_number(g, value, scale);
}

void weft_optim_pass_rates(weft_optim_pass *pass) {
    const weft_optim_options *o = pass->o;
    const weft_parameter *p = pass->p;
    pass->rate = scaled(pass->g, o->rate, p->rate_scale, pass->dtype);
    pass->decay = o->decay && p->decay_scale != 0 ? scaled(pass->g, o->decay, p->decay_scale, pass->dtype) : NULL;
}

void weft_optim_update(weft_graph *g, const weft_optim_options *options, int count, weft_parameter *parameters) {
    weft_optim_options own = weft_optim_defaults(WEFT_OPTIM_SGD);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, weft_optim_defaults)) ||
        !may_begin(g, options ? &own : NULL, count, parameters))
        return;
    own = weft_optim_defaults(own.method); /* what the caller does not know is as the method has it */
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, weft_optim_defaults))) return;
    weft_optim_updates updates;
    weft_optim_pass pass = {.g = g, .o = &own, .updates = &updates, .all = parameters, .count = count};
    weft_optim_updates_begin(g, &updates);
    updates.apply = own.apply;
    for (int i = 0; i < count; i++) {
        weft_parameter *p = &parameters[i];
        p->updated = p->value;
        if (!may_update(g, &own, p)) continue;
        pass.p = p;
        pass.dtype = weft_value_dtype(p->value);
        weft_optim_pass_rates(&pass);
        pass.step = weft_convert(g, own.step, pass.dtype);
        methods[own.method].hook(&pass);
    }
    weft_optim_updates_end(&updates);
}
