/* Averages of parameters along a run, all with one weight, and the Gaussian around them. Taken in steps start, start +
   period, ...: mean, mean square, and the last `columns` deviations from the mean (a ring). A sample: mean + scale
   (sqrt(variance / 2) z1 + D z2 / sqrt(2 (K - 1))), K deviations as columns of D, z2 the same for all parameters.
   Sources: Izmailov et al. 2018 (averages); Maddox et al. 2019, equation 1 and algorithm 1 (the Gaussian). */
#include "base/need.h"
#include "stdlib/optim/method.h"

typedef struct swa {
    weft_value *due, *taken; /* bool; f: averages taken before this one */
    weft_value *slot;        /* i64: of the ring */
} swa;

static weft_value *integer(weft_graph *g, int64_t value) { return weft_scalar_integer(g, WEFT_I64, value); }

/* Whole periods since the start, floored; step: i64. */
static weft_value *periods(weft_graph *g, const weft_optim_swa_options *o, weft_value *step) {
    return weft_div(g, weft_max(g, weft_sub(g, step, integer(g, o->start)), integer(g, 0)),
                    integer(g, o->period > 0 ? o->period : 1));
}

static swa of_step(weft_graph *g, const weft_optim_swa_options *o, weft_dtype dtype) {
    int64_t period = o->period > 0 ? o->period : 1;
    weft_value *since = weft_sub(g, o->step, integer(g, o->start)), *count = periods(g, o, o->step);
    weft_value *on = weft_compare(g, WEFT_EQ, weft_rem(g, since, integer(g, period)), integer(g, 0));
    swa s = {.due = weft_and(g, on, weft_compare(g, WEFT_GE, since, integer(g, 0)))};
    s.taken = weft_convert(g, count, dtype);
    s.slot = weft_rem(g, count, integer(g, o->columns > 0 ? o->columns : 1));
    return s;
}

static weft_value *take(weft_optim_pass *pass, const swa *s, const char *suffix, weft_value *value) {
    weft_graph *g = pass->g;
    weft_value *old = weft_optim_state(pass, suffix, false);
    weft_value *share = weft_div(g, weft_sub(g, value, old), weft_add_number(g, s->taken, 1));
    weft_value *average = weft_where(g, s->due, weft_add(g, old, share), old);
    weft_optim_state_set(pass, suffix, average);
    return average;
}

static weft_value *ring(weft_optim_pass *pass, int64_t columns) {
    int64_t shape[WEFT_MAX_RANK + 1] = {columns};
    int rank = weft_value_rank(pass->p->value);
    for (int i = 0; i < rank; i++) shape[i + 1] = weft_value_dim(pass->p->value, i);
    return weft_optim_shaped_state(pass, "swag_deviations", rank + 1, shape);
}

static void keep_deviation(weft_optim_pass *pass, const swa *s, int64_t columns, weft_value *deviation) {
    weft_graph *g = pass->g;
    weft_value *old = ring(pass, columns), *starts[WEFT_MAX_RANK];
    for (int i = 0; i < weft_value_rank(old); i++) starts[i] = i ? integer(g, 0) : s->slot;
    weft_value *row = weft_where(g, s->due, deviation, weft_take(g, old, s->slot, 0));
    row = weft_dynamic_update_slice(g, old, weft_unsqueeze(g, row, 1, (int64_t[]){0}), starts);
    weft_optim_state_set(pass, "swag_deviations", row);
}

static bool has_all(weft_graph *g, const weft_optim_swa_options *o, int count, const weft_parameter *parameters,
                    weft_optim_swa_options *out_options) {
    if (weft_graph_report(g, WEFT_OPTIONS_READ(*out_options, o, WEFT_OPTIM_SWA_OPTIONS_INIT))) return false;
    const char *missing = !o ? "options" : !out_options->step ? "step" : count > 0 && !parameters ? "parameters" : NULL;
    if (missing) weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "averages: no %s", missing));
    return !missing;
}

void weft_optim_swa(weft_graph *g, const weft_optim_swa_options *options, int count, const weft_parameter *parameters,
                    weft_value **out_averages) {
    weft_optim_swa_options own = WEFT_OPTIM_SWA_OPTIONS_INIT;
    if (!has_all(g, options, count, parameters, &own)) return;
    weft_optim_updates updates;
    weft_optim_updates_begin(g, &updates);
    for (int i = 0; i < count; i++) {
        weft_parameter p = parameters[i];
        weft_optim_pass pass = {.g = g, .updates = &updates, .p = &p, .dtype = weft_value_dtype(p.value)};
        swa s = of_step(g, &own, pass.dtype);
        weft_value *value = p.updated ? p.updated : p.value, *mean = take(&pass, &s, "swa", value);
        if (out_averages) out_averages[i] = mean;
        if (own.columns <= 0) continue;
        (void)take(&pass, &s, "swag_square", weft_square(g, value));
        keep_deviation(&pass, &s, own.columns, weft_sub(g, value, mean));
    }
    weft_optim_updates_end(&updates);
}

/* Standard normal numbers of a value's shape, [n] of them for a ring; number: of the draw. */
static weft_value *normal(weft_graph *g, weft_value *key, int64_t number, weft_dtype dtype, int rank,
                          const weft_dim *shape) {
    weft_value *offset = weft_stack(
        g, 0, 2, (weft_value *[]){weft_scalar_integer(g, WEFT_U64, 0), weft_scalar_integer(g, WEFT_U64, number)});
    return weft_random_normal(g, weft_add(g, key, offset), dtype, rank, shape, 0, 1);
}

static weft_value *sample(weft_optim_pass *pass, const weft_optim_swa_options *o, weft_value *key, double scale,
                          int64_t number) {
    weft_graph *g = pass->g;
    weft_dim shape[WEFT_MAX_RANK], columns = o->columns;
    int rank = weft_value_rank(pass->p->value);
    for (int i = 0; i < rank; i++) shape[i] = weft_value_dim(pass->p->value, i);
    weft_value *mean = weft_optim_state(pass, "swa", false), *square = weft_optim_state(pass, "swag_square", false);
    weft_value *variance = weft_max(g, weft_sub(g, square, weft_square(g, mean)), weft_scalar(g, pass->dtype, 0));
    weft_value *spread = weft_mul(g, weft_sqrt(g, weft_mul_number(g, variance, 0.5)),
                                  normal(g, key, number + 1, pass->dtype, rank, shape));
    weft_value *count = weft_add(g, periods(g, o, o->step), integer(g, 1));
    weft_value *used = weft_convert(g, weft_min(g, count, integer(g, o->columns)), pass->dtype);
    weft_value *factor =
        weft_rsqrt(g, weft_mul_number(g, weft_max(g, weft_add_number(g, used, -1), weft_scalar(g, pass->dtype, 1)), 2));
    weft_value *z = normal(g, key, 0, pass->dtype, 1, &columns), *deviations = ring(pass, o->columns);
    weft_value *flat = weft_flatten(g, deviations, 1);
    weft_value *low = weft_reshape(g, weft_matmul(g, weft_unsqueeze(g, z, 1, (int64_t[]){0}), flat), rank, shape);
    weft_value *away = weft_add(g, spread, weft_mul(g, low, factor));
    return weft_add(g, mean, weft_mul_number(g, away, scale));
}

void weft_optim_swag_sample(weft_graph *g, const weft_optim_swa_options *options, weft_value *key, double scale,
                            int count, const weft_parameter *parameters, weft_value **out_samples) {
    weft_optim_swa_options own = WEFT_OPTIM_SWA_OPTIONS_INIT;
    if (!has_all(g, options, count, parameters, &own)) return;
    if (own.columns <= 0 || !key || !out_samples) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a sample needs a key, columns and a place for it"));
        return;
    }
    for (int i = 0; i < count; i++) {
        weft_parameter p = parameters[i];
        weft_optim_pass pass = {.g = g, .p = &p, .dtype = weft_value_dtype(p.value)};
        out_samples[i] = sample(&pass, &own, key, scale, i);
    }
}
