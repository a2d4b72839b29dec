/* Schedules as graph: a scalar from the number of the step. Formulas: optim.h. Source: warm-up and cosine as
   Loshchilov, Hutter 2017; WSD: Hu et al. 2024 (MiniCPM); its square-root shape: Hägele et al. 2024; triangles: Smith
   2017. */
#include "base/need.h"
#include "stdlib/optim/method.h"

#include <math.h>
#include <string.h>

static const char *const names[WEFT_RATE_SCHEDULE_COUNT] = {
    [WEFT_RATE_SCHEDULE_CONSTANT] = "constant",
    [WEFT_RATE_SCHEDULE_LINEAR] = "linear",
    [WEFT_RATE_SCHEDULE_COSINE] = "cosine",
    [WEFT_RATE_SCHEDULE_POLYNOMIAL] = "polynomial",
    [WEFT_RATE_SCHEDULE_EXPONENTIAL] = "exponential",
    [WEFT_RATE_SCHEDULE_INVERSE_SQRT] = "inverse_sqrt",
    [WEFT_RATE_SCHEDULE_WSD] = "wsd",
    [WEFT_RATE_SCHEDULE_CYCLIC] = "cyclic",
};

const char *weft_rate_schedule_name(weft_rate_schedule_kind kind) {
    return (int)kind >= 0 && kind < WEFT_RATE_SCHEDULE_COUNT ? names[kind] : NULL;
}

weft_rate_schedule_kind weft_rate_schedule_find(const char *name) {
    int i = 0;
    while (i < WEFT_RATE_SCHEDULE_COUNT && (!name || strcmp(names[i], name) != 0)) i++;
    return (weft_rate_schedule_kind)i;
}

/* low + (high - low) * share */
static weft_value *between(weft_graph *g, double low, double high, weft_value *share) {
    return weft_add_number(g, weft_mul_number(g, share, high - low), low);
}

/* (1 + cos(pi u)) / 2 */
static weft_value *half_cosine(weft_graph *g, weft_value *u) {
    weft_value *cosine = weft_cos(g, weft_mul_number(g, u, 3.14159265358979323846));
    return weft_add_number(g, weft_mul_number(g, cosine, 0.5), 0.5);
}

/* (t - from) / length cut to [0, 1] */
static weft_value *share(weft_graph *g, weft_value *t, int64_t from, int64_t length) {
    weft_value *u = weft_add_number(g, t, -(double)from);
    return weft_clip(g, weft_mul_number(g, u, 1.0 / (double)(length > 0 ? length : 1)), 0, 1);
}

static weft_value *one_minus(weft_graph *g, weft_value *x) { return weft_add_number(g, weft_neg(g, x), 1); }

static weft_value *decay_shape(weft_graph *g, weft_decay_shape shape, weft_value *v) {
    switch (shape) {
    case WEFT_DECAY_SQRT: return one_minus(g, weft_sqrt(g, v));
    case WEFT_DECAY_SQUARE: return one_minus(g, weft_square(g, v));
    case WEFT_DECAY_COSINE: return half_cosine(g, v);
    case WEFT_DECAY_LINEAR: break;
    }
    return one_minus(g, v);
}

/* Distance to the nearest multiple of two half periods, as a share of one: 0 1 0 1 ... */
static weft_value *triangle(weft_graph *g, weft_value *t, int64_t half) {
    double period = 2 * (double)(half > 0 ? half : 1);
    weft_value *x = weft_mul_number(g, t, 1 / period);
    weft_value *phase = weft_sub(g, x, weft_floor(g, x)); /* [0, 1) */
    return one_minus(g, weft_abs(g, weft_add_number(g, weft_mul_number(g, phase, 2), -1)));
}

static weft_value *after_warmup(weft_graph *g, const weft_rate_schedule *s, weft_value *t, weft_dtype dtype) {
    double power = s->power == 0 ? 1 : s->power, warm = (double)(s->warmup > 0 ? s->warmup : 1);
    weft_value *u = share(g, t, s->warmup, s->total - s->warmup);
    switch (s->kind) {
    case WEFT_RATE_SCHEDULE_LINEAR: return between(g, s->base, s->final, u);
    case WEFT_RATE_SCHEDULE_COSINE: return between(g, s->final, s->base, half_cosine(g, u));
    case WEFT_RATE_SCHEDULE_POLYNOMIAL:
        return between(g, s->final, s->base, weft_pow(g, one_minus(g, u), weft_scalar(g, dtype, power)));
    case WEFT_RATE_SCHEDULE_EXPONENTIAL:
        return weft_mul_number(
            g, weft_exp(g, weft_mul_number(g, weft_add_number(g, t, -(double)s->warmup), log(power))), s->base);
    case WEFT_RATE_SCHEDULE_INVERSE_SQRT:
        return weft_mul_number(g, weft_rsqrt(g, weft_max(g, t, weft_scalar(g, dtype, warm))), s->base * sqrt(warm));
    case WEFT_RATE_SCHEDULE_WSD:
        return between(g, s->final, s->base,
                       decay_shape(g, s->shape, share(g, t, s->total - s->decay_steps, s->decay_steps)));
    case WEFT_RATE_SCHEDULE_CYCLIC:
        return between(g, s->final, s->base, triangle(g, weft_add_number(g, t, -(double)s->warmup), s->decay_steps));
    case WEFT_RATE_SCHEDULE_CONSTANT:
    case WEFT_RATE_SCHEDULE_COUNT: break;
    }
    return weft_scalar(g, dtype, s->base);
}

weft_value *weft_rate_schedule_value(weft_graph *g, const weft_rate_schedule *schedule, weft_value *step,
                                     weft_dtype dtype) {
    weft_rate_schedule own = WEFT_RATE_SCHEDULE_INIT, *s = schedule ? &own : NULL;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, schedule, WEFT_RATE_SCHEDULE_INIT))) return step;
    if (!s || (int)s->kind < 0 || s->kind >= WEFT_RATE_SCHEDULE_COUNT) {
        weft_graph_report(g, s ? WEFT_STATUS(WEFT_INVALID_ARGUMENT, "there is no schedule %d", (int)s->kind)
                               : WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the schedule is missing"));
        return step;
    }
    weft_value *t = weft_add_number(g, weft_convert(g, step, dtype), -1);
    weft_value *late = after_warmup(g, s, t, dtype);
    if (s->warmup <= 0) return late;
    weft_value *early = between(g, s->start, s->base, weft_mul_number(g, t, 1.0 / (double)s->warmup));
    weft_value *warm = weft_compare(g, WEFT_LT, t, weft_scalar(g, dtype, (double)s->warmup));
    return weft_where(g, warm, early, late);
}
