/* How far along a direction: the strong Wolfe conditions, f(t) <= f + 1e-4 t g.d and |g(t).d| <= 0.9 |g.d|. One loop,
   whose trip is one trial: first t grows until what is wanted lies between the last two trials, then that bracket
   shrinks around its lower end. Where the next trial lies is the least point of the cubic through both ends. All that
   is carried are scalars: a trial's gradient is needed along the direction only. Source: Nocedal and Wright, Numerical
   Optimization, 2nd edition, algorithms 3.5 and 3.6, equation 3.59; bounds and the guard against slow progress as in
   Schmidt's minFunc (2005). Read next: lbfgs.c. */
#include "stdlib/optim/method.h"
#include "weft/transform.h"

static const double sufficient = 1e-4, flat = 0.9, least_change = 1e-9;

enum { TRIALS_MAX = 25, SEARCHES = 0, SHRINKS = 1, ENDS = 2 };

/* A trial: how far, the loss there, the slope there. */
typedef struct trial {
    weft_value *t, *f, *slope;
} trial;

/* What the loop carries, in this order. searches: `low` is the trial before the last one, `high` means nothing. */
typedef struct search {
    weft_value *phase, *count; /* i64; count: of trials that were judged and did not end the search */
    weft_value *next;          /* where the trial of this trip is */
    weft_value *slow;          /* bool: the last trial came close to an end of the bracket */
    trial low, high;
} search;

enum { CARRIES = sizeof(search) / sizeof(weft_value *) };

typedef struct line {
    weft_optim_pass *pass;
    weft_value *const *direction;
    weft_value *longest; /* the largest |element| of the direction */
    trial start;
    weft_value **memory; /* loss and gradients; values; those of a trial; its loss and gradients: 2 + 4 count */
} line;

static weft_value *number(weft_graph *g, weft_value *like, double value) {
    return weft_scalar(g, weft_value_dtype(like), value);
}

static weft_value *phase_is(weft_graph *g, weft_value *phase, int64_t value) {
    return weft_compare(g, WEFT_EQ, phase, weft_scalar_integer(g, WEFT_I64, value));
}

static trial choose(weft_graph *g, weft_value *predicate, trial a, trial b) {
    return (trial){weft_where(g, predicate, a.t, b.t), weft_where(g, predicate, a.f, b.f),
                   weft_where(g, predicate, a.slope, b.slope)};
}

/* The least point of the cubic through two trials, in [least, most]; their middle where the cubic has none. */
static weft_value *cubic(weft_graph *g, trial x, trial y, weft_value *least, weft_value *most) {
    trial a = choose(g, weft_compare(g, WEFT_LE, x.t, y.t), x, y),
          b = choose(g, weft_compare(g, WEFT_LE, x.t, y.t), y, x);
    weft_value *width = weft_sub(g, b.t, a.t);
    weft_value *rise = weft_mul_number(g, weft_div(g, weft_sub(g, a.f, b.f), weft_sub(g, a.t, b.t)), 3);
    weft_value *d1 = weft_sub(g, weft_add(g, a.slope, b.slope), rise);
    weft_value *square = weft_sub(g, weft_square(g, d1), weft_mul(g, a.slope, b.slope)), *zero = number(g, square, 0);
    weft_value *d2 = weft_sqrt(g, weft_max(g, square, zero));
    weft_value *part = weft_div(g, weft_sub(g, weft_add(g, b.slope, d2), d1),
                                weft_add(g, weft_sub(g, b.slope, a.slope), weft_mul_number(g, d2, 2)));
    weft_value *at = weft_sub(g, b.t, weft_mul(g, width, part));
    at = weft_min(g, weft_max(g, at, least), most);
    weft_value *middle = weft_mul_number(g, weft_add(g, least, most), 0.5);
    return weft_where(g, weft_compare(g, WEFT_GE, square, zero), at, middle);
}

/* Loss and slope at x + t d. */
static trial evaluate(const line *l, weft_graph *g, weft_value *t) {
    int count = l->pass->count;
    weft_value **wanted = l->memory, **values = wanted + 1 + count, **moved = values + count;
    weft_value **results = moved + count, *slope = NULL;
    wanted[0] = l->pass->o->loss;
    for (int i = 0; i < count; i++) {
        wanted[1 + i] = l->pass->all[i].gradient, values[i] = l->pass->all[i].value;
        moved[i] = weft_add(g, values[i], weft_mul(g, t, l->direction[i]));
    }
    weft_apply(g, 1 + count, wanted, count, values, moved, results);
    for (int i = 0; i < count; i++) {
        weft_value *part = weft_reduce_sum(g, weft_mul(g, results[1 + i], l->direction[i]), 0, NULL, false);
        slope = slope ? weft_add(g, slope, part) : part;
    }
    return (trial){t, weft_convert(g, results[0], weft_value_dtype(t)), slope};
}

/* Too far: more than the slope at the start promises, or no number. */
static weft_value *is_high(const line *l, weft_graph *g, trial x) {
    weft_value *promised = weft_mul(g, weft_mul_number(g, x.t, sufficient), l->start.slope);
    return weft_not(g, weft_compare(g, WEFT_LE, x.f, weft_add(g, l->start.f, promised)));
}

static weft_value *is_flat(const line *l, weft_graph *g, trial x) {
    weft_value *limit = weft_mul_number(g, weft_abs(g, l->start.slope), flat);
    return weft_compare(g, WEFT_LE, weft_abs(g, x.slope), limit);
}

static weft_value *as_phase(weft_graph *g, weft_value *ends, int64_t otherwise) {
    return weft_where(g, ends, weft_scalar_integer(g, WEFT_I64, ENDS), weft_scalar_integer(g, WEFT_I64, otherwise));
}

/* A trial while t grows. After it the bracket's ends lie in low and high, the lower one first, or the search goes on
   behind x. */
static search extend(const line *l, weft_graph *g, const search *s, trial x) {
    weft_value *zero = number(g, x.t, 0),
               *last = weft_compare(g, WEFT_GE, s->count, weft_scalar_integer(g, WEFT_I64, TRIALS_MAX));
    weft_value *later = weft_compare(g, WEFT_GT, s->count, weft_scalar_integer(g, WEFT_I64, 1));
    weft_value *high = weft_or(g, is_high(l, g, x), weft_and(g, later, weft_compare(g, WEFT_GE, x.f, s->low.f)));
    weft_value *good = weft_and(g, weft_not(g, high), is_flat(l, g, x));
    weft_value *between = weft_and(g, weft_not(g, good), weft_or(g, high, weft_compare(g, WEFT_GE, x.slope, zero)));
    weft_value *ends = weft_or(g, good, last);
    trial other = choose(g, last, l->start, s->low);
    weft_value *first = weft_not(g, weft_compare(g, WEFT_LT, x.f, other.f));
    weft_value *x_counts = weft_and(g, good, weft_not(g, last));
    weft_value *closed = weft_or(g, between, last);
    search r = {.slow = weft_full(g, WEFT_BOOL, 0, NULL, 0)};
    r.low = choose(g, weft_and(g, closed, weft_and(g, first, weft_not(g, x_counts))), other, x);
    r.high = choose(g, weft_and(g, closed, first), x, other);
    r.phase = weft_where(g, between, as_phase(g, last, SHRINKS), as_phase(g, ends, SEARCHES));
    weft_value *on = weft_not(g, weft_or(g, between, ends));
    r.count = weft_add(g, s->count, weft_convert(g, on, WEFT_I64));
    weft_value *least = weft_add(g, x.t, weft_mul_number(g, weft_sub(g, x.t, s->low.t), 0.01));
    r.next = cubic(g, s->low, x, least, weft_mul_number(g, x.t, 10));
    return r;
}

/* A trial inside the bracket. */
static search shrink(const line *l, weft_graph *g, const search *s, trial x) {
    weft_value *bad = weft_or(g, is_high(l, g, x), weft_compare(g, WEFT_GE, x.f, s->low.f));
    weft_value *turns =
        weft_compare(g, WEFT_GE, weft_mul(g, x.slope, weft_sub(g, s->high.t, s->low.t)), number(g, x.t, 0));
    weft_value *good = weft_and(g, weft_not(g, bad), is_flat(l, g, x));
    trial low = choose(g, bad, s->low, x);
    trial high = choose(g, bad, x, choose(g, weft_and(g, turns, weft_not(g, good)), s->low, s->high));
    weft_value *swaps = weft_and(g, bad, weft_compare(g, WEFT_LT, high.f, low.f));
    search r = {
        .low = choose(g, swaps, high, low), .high = choose(g, swaps, low, high), .slow = s->slow, .next = s->next};
    r.phase = as_phase(g, good, SHRINKS);
    r.count = weft_add(g, s->count, weft_scalar_integer(g, WEFT_I64, 1));
    return r;
}

/* Where the next trial in the bracket is; or the end, when the bracket is too small or trials are used up. */
static search aim(const line *l, weft_graph *g, search s) {
    weft_value *least = weft_min(g, s.low.t, s.high.t), *most = weft_max(g, s.low.t, s.high.t);
    weft_value *width = weft_sub(g, most, least), *margin = weft_mul_number(g, width, 0.1);
    weft_value *small = weft_compare(g, WEFT_LT, weft_mul(g, width, l->longest), number(g, width, least_change));
    weft_value *used = weft_compare(g, WEFT_GE, s.count, weft_scalar_integer(g, WEFT_I64, TRIALS_MAX));
    weft_value *t = cubic(g, s.low, s.high, least, most);
    weft_value *to_most = weft_sub(g, most, t), *to_least = weft_sub(g, t, least);
    weft_value *close = weft_compare(g, WEFT_LT, weft_min(g, to_most, to_least), margin);
    weft_value *outside = weft_or(g, weft_compare(g, WEFT_GE, t, most), weft_compare(g, WEFT_LE, t, least));
    weft_value *pushed = weft_and(g, close, weft_or(g, s.slow, outside));
    weft_value *inner = weft_where(g, weft_compare(g, WEFT_LT, weft_abs(g, to_most), weft_abs(g, to_least)),
                                   weft_sub(g, most, margin), weft_add(g, least, margin));
    weft_value *shrinks = phase_is(g, s.phase, SHRINKS);
    s.phase =
        weft_where(g, weft_and(g, shrinks, weft_or(g, small, used)), weft_scalar_integer(g, WEFT_I64, ENDS), s.phase);
    s.next = weft_where(g, shrinks, weft_where(g, pushed, inner, t), s.next);
    s.slow = weft_and(g, shrinks, weft_and(g, close, weft_not(g, pushed)));
    return s;
}

static void carry(const search *s, weft_value **out) {
    weft_value *all[CARRIES] = {s->phase, s->count,     s->next,   s->slow,   s->low.t,
                                s->low.f, s->low.slope, s->high.t, s->high.f, s->high.slope};
    for (int i = 0; i < CARRIES; i++) out[i] = all[i];
}

static search carried(weft_value *const *x) {
    return (search){x[0], x[1], x[2], x[3], {x[4], x[5], x[6]}, {x[7], x[8], x[9]}};
}

static void goes_on(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_not(g, phase_is(g, arguments[0], ENDS));
}

static void try_next(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const line *l = self;
    search s = carried(arguments);
    trial x = evaluate(l, g, s.next);
    search grown = extend(l, g, &s, x), shrunk = shrink(l, g, &s, x), r;
    weft_value *grows = phase_is(g, s.phase, SEARCHES);
    r.phase = weft_where(g, grows, grown.phase, shrunk.phase);
    r.count = weft_where(g, grows, grown.count, shrunk.count);
    r.next = weft_where(g, grows, grown.next, shrunk.next);
    r.slow = weft_and(g, weft_not(g, grows), s.slow);
    r.low = choose(g, grows, grown.low, shrunk.low), r.high = choose(g, grows, grown.high, shrunk.high);
    r = aim(l, g, r);
    carry(&r, results);
}

weft_value *weft_optim_line_search(weft_optim_pass *pass, weft_value *const *direction, weft_value *slope,
                                   weft_value *first) {
    weft_graph *g = pass->g;
    size_t count = (size_t)pass->count;
    line l = {.pass = pass, .direction = direction};
    l.memory = weft_arena_allocate(&pass->updates->arena, (2 + 4 * count) * sizeof(weft_value *));
    if (!l.memory) {
        weft_graph_report(g, WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %d parameters", pass->count));
        return first;
    }
    for (int i = 0; i < pass->count; i++) {
        weft_value *largest = weft_reduce_max(g, weft_abs(g, direction[i]), 0, NULL, false);
        l.longest = l.longest ? weft_max(g, l.longest, largest) : largest;
    }
    l.start = (trial){number(g, first, 0), weft_convert(g, pass->o->loss, weft_value_dtype(first)), slope};
    weft_value *zero = weft_scalar_integer(g, WEFT_I64, 0), *in[CARRIES], *out[CARRIES];
    /* a direction that leads nowhere ends at once, where it starts */
    weft_value *down = weft_compare(g, WEFT_LE, slope, number(g, slope, -least_change));
    search s = {as_phase(g, weft_not(g, down), SEARCHES), zero,    first,
                weft_full(g, WEFT_BOOL, 0, NULL, 0),      l.start, l.start};
    carry(&s, in);
    weft_while(g, CARRIES, in, 2 * TRIALS_MAX, goes_on, try_next, &l, out);
    return carried(out).low.t;
}
