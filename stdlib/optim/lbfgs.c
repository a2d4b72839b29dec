/* L-BFGS: one iteration a step, over all parameters together, with a step of `rate` along H g (the first: min(1, 1 /
   |g|_1) rate), or where options name the loss, one that a search along H g finds (line_search.c). H comes from the
   last `history` pairs of steps s and differences of gradients y by the two-loop recursion, on a start of (s.y) /
   (y.y); a pair counts when s.y > 1e-10; no move where g.d > -1e-9. It wants the gradient of one function in all steps:
   batches that change add noise to y. Source: Nocedal 1980; Liu, Nocedal 1989. The pairs are a ring: pair number n lies
   in slot n mod history. */
#include "stdlib/optim/method.h"

enum { HISTORY_MAX = 100 };

typedef struct lbfgs {
    weft_optim_pass *pass;
    weft_graph *g;
    weft_dtype dtype;
    int64_t history;
    weft_value *rho, *scale, *count; /* [history], scalar, i64: how many pairs came */
    weft_value **vector;             /* by parameter: what the recursion turns */
    weft_value **s, **y;             /* by parameter: rings [history, ...] */
} lbfgs;

static void at_parameter(const lbfgs *l, int i) { l->pass->p = &l->pass->all[i]; }

static weft_value *number(const lbfgs *l, double value) { return weft_scalar(l->g, l->dtype, value); }

static weft_value *dot(weft_graph *g, weft_value *x, weft_value *y) {
    return weft_reduce_sum(g, weft_mul(g, x, y), 0, NULL, false);
}

static weft_value *dot_all(const lbfgs *l, weft_value *const *x, weft_value *const *y) {
    weft_value *sum = NULL;
    for (int i = 0; i < l->pass->count; i++) {
        weft_value *part = dot(l->g, x[i], y[i]);
        sum = sum ? weft_add(l->g, sum, part) : part;
    }
    return sum;
}

/* The pairs of age 0 (the newest) to history - 1. */
typedef struct pair {
    weft_value *slot, *valid; /* i64, bool */
} pair;

static pair pair_of(const lbfgs *l, int64_t age) {
    weft_graph *g = l->g;
    weft_value *length = weft_scalar_integer(g, WEFT_I64, l->history);
    weft_value *place = weft_add(g, l->count, weft_scalar_integer(g, WEFT_I64, 2 * l->history - 1 - age));
    return (pair){weft_rem(g, place, length),
                  weft_compare(g, WEFT_GT, l->count, weft_scalar_integer(g, WEFT_I64, age))};
}

static weft_value *of_ring(const lbfgs *l, weft_value *ring, const pair *p) {
    return weft_take(l->g, ring, p->slot, 0);
}

/* rho times the product of a ring's pair with the vector; 0 where there is no pair. */
static weft_value *weight(const lbfgs *l, weft_value *const *rings, const pair *p) {
    weft_value *sum = NULL;
    for (int i = 0; i < l->pass->count; i++) {
        weft_value *part = dot(l->g, of_ring(l, rings[i], p), l->vector[i]);
        sum = sum ? weft_add(l->g, sum, part) : part;
    }
    return weft_where(l->g, p->valid, weft_mul(l->g, of_ring(l, l->rho, p), sum), number(l, 0));
}

static void add_scaled(const lbfgs *l, weft_value *const *rings, const pair *p, weft_value *factor) {
    for (int i = 0; i < l->pass->count; i++)
        l->vector[i] = weft_add(l->g, l->vector[i], weft_mul(l->g, of_ring(l, rings[i], p), factor));
}

static void two_loops(const lbfgs *l) {
    weft_graph *g = l->g;
    weft_value *alpha[HISTORY_MAX];
    for (int64_t age = 0; age < l->history; age++) {
        pair p = pair_of(l, age);
        alpha[age] = weight(l, l->s, &p);
        add_scaled(l, l->y, &p, weft_neg(g, alpha[age]));
    }
    for (int i = 0; i < l->pass->count; i++) l->vector[i] = weft_mul(g, l->vector[i], l->scale);
    for (int64_t age = l->history - 1; age >= 0; age--) {
        pair p = pair_of(l, age);
        add_scaled(l, l->s, &p, weft_sub(g, alpha[age], weight(l, l->y, &p)));
    }
}

static weft_value *ring_state(const lbfgs *l, int i, const char *suffix) {
    int64_t shape[WEFT_MAX_RANK + 1] = {l->history};
    const weft_value *value = l->pass->all[i].value;
    int rank = weft_value_rank(value);
    for (int a = 0; a < rank; a++) shape[a + 1] = weft_value_dim(value, a);
    at_parameter(l, i);
    return weft_optim_shaped_state(l->pass, suffix, rank + 1, shape);
}

/* The ring with `row` in the slot of the next pair, where that pair counts. */
static weft_value *put(const lbfgs *l, weft_value *ring, weft_value *row, weft_value *slot, weft_value *counts) {
    weft_graph *g = l->g;
    int rank = weft_value_rank(ring);
    weft_value *starts[WEFT_MAX_RANK];
    for (int a = 0; a < rank; a++) starts[a] = a ? weft_scalar_integer(g, WEFT_I64, 0) : slot;
    weft_value *chosen = weft_where(g, counts, row, weft_take(g, ring, slot, 0));
    return weft_dynamic_update_slice(g, ring, weft_unsqueeze(g, chosen, 1, (int64_t[]){0}), starts);
}

/* Takes the last step and the change of the gradients into the rings. */
static void remember(lbfgs *l, weft_value *const *gradients) {
    weft_graph *g = l->g;
    weft_optim_pass *pass = l->pass;
    weft_value *product = NULL, *square = NULL;
    for (int i = 0; i < pass->count; i++) {
        at_parameter(l, i);
        l->s[i] = weft_optim_state(pass, "last_step", false);
        l->y[i] = weft_sub(g, gradients[i], weft_optim_state(pass, "last_gradient", false));
        weft_optim_state_set(pass, "last_gradient", gradients[i]);
    }
    product = dot_all(l, l->s, l->y), square = dot_all(l, l->y, l->y);
    weft_value *counts = weft_compare(g, WEFT_GT, product, number(l, 1e-10));
    weft_value *slot = weft_rem(g, l->count, weft_scalar_integer(g, WEFT_I64, l->history));
    for (int i = 0; i < pass->count; i++) {
        weft_value *rings[2] = {ring_state(l, i, "steps"), ring_state(l, i, "differences")};
        l->s[i] = put(l, rings[0], l->s[i], slot, counts), l->y[i] = put(l, rings[1], l->y[i], slot, counts);
        weft_optim_state_set(pass, "steps", l->s[i]);
        weft_optim_state_set(pass, "differences", l->y[i]);
    }
    l->rho = put(l, l->rho, weft_div(g, number(l, 1), product), slot, counts);
    l->scale = weft_where(g, counts, weft_div(g, product, square), l->scale);
    l->count = weft_add(g, l->count, weft_convert(g, counts, WEFT_I64));
    weft_optim_updates_add(pass->updates, "optim/lbfgs_rho", l->rho);
    weft_optim_updates_add(pass->updates, "optim/lbfgs_scale", l->scale);
    weft_optim_updates_add(pass->updates, "optim/lbfgs_count", l->count);
}

/* Times the rate: 1, the first time min(1, 1 / |g|_1); 0 where the direction goes down too little. With a loss: what
   the search finds from there on, the rate in it. */
static weft_value *length_of(const lbfgs *l, weft_value *const *gradients) {
    weft_graph *g = l->g;
    weft_value *size = NULL;
    for (int i = 0; i < l->pass->count; i++) {
        weft_value *part = weft_reduce_sum(g, weft_abs(g, gradients[i]), 0, NULL, false);
        size = size ? weft_add(g, size, part) : part;
    }
    weft_value *first = weft_compare(g, WEFT_EQ, l->pass->o->step, weft_scalar_integer(g, WEFT_I64, 1));
    weft_value *early = weft_min(g, number(l, 1), weft_div(g, number(l, 1), size));
    weft_value *slope = dot_all(l, gradients, l->vector), *length = weft_where(g, first, early, number(l, 1));
    if (l->pass->o->loss) return weft_optim_line_search(l->pass, l->vector, slope, weft_mul(g, length, l->pass->rate));
    weft_value *down = weft_compare(g, WEFT_LE, slope, number(l, -1e-9));
    return weft_where(g, down, length, number(l, 0));
}

static void step(lbfgs *l, weft_value **gradients) {
    weft_graph *g = l->g;
    weft_optim_pass *pass = l->pass;
    for (int i = 0; i < pass->count; i++) {
        at_parameter(l, i);
        weft_optim_pass_rates(pass);
        gradients[i] = weft_optim_gradient(pass);
    }
    remember(l, gradients);
    for (int i = 0; i < pass->count; i++) l->vector[i] = weft_neg(g, gradients[i]);
    two_loops(l);
    weft_value *length = length_of(l, gradients);
    for (int i = 0; i < pass->count; i++) {
        at_parameter(l, i);
        weft_optim_pass_rates(pass);
        weft_value *far = pass->o->loss ? length : weft_mul(g, length, pass->rate);
        weft_value *move = weft_mul(g, far, l->vector[i]);
        weft_optim_state_set(pass, "last_step", move);
        weft_optim_finish(pass, weft_add(g, weft_optim_decayed(pass), move));
    }
}

/* A search goes along one line, on which the loss is that of the gradients. */
static bool can_search(const weft_optim_pass *pass) {
    bool alike = !pass->o->decay;
    for (int i = 0; i < pass->count; i++) alike &= pass->all[i].rate_scale == 1 && !pass->all[i].rounded;
    return alike;
}

/* The first parameter's turn does it for all; they must have one dtype. */
void weft_optim_lbfgs(weft_optim_pass *pass) {
    weft_graph *g = pass->g;
    if (pass->p != pass->all) return;
    if (pass->o->loss && !can_search(pass)) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                         "lbfgs searches along a line without decay, rates of single parameters and "
                                         "copies in 16 bits"));
        return;
    }
    for (int i = 1; i < pass->count; i++) {
        if (pass->all[i].gradient && weft_value_dtype(pass->all[i].value) == pass->dtype) continue;
        weft_graph_report(g,
                          WEFT_STATUS(WEFT_INVALID_ARGUMENT, "parameter %s: lbfgs needs gradients of one dtype for all",
                                      pass->all[i].name));
        return;
    }
    int64_t history = pass->o->history > 0 ? pass->o->history : 10;
    if (history > HISTORY_MAX) history = HISTORY_MAX;
    size_t count = (size_t)pass->count;
    weft_value **memory = weft_arena_allocate(&pass->updates->arena, 4 * count * sizeof(weft_value *));
    if (!memory) {
        weft_graph_report(g, WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %d parameters", pass->count));
        return;
    }
    lbfgs l = {.pass = pass, .g = g, .dtype = pass->dtype, .history = history};
    l.vector = memory, l.s = memory + count, l.y = memory + 2 * count;
    weft_graph_state_zeros(g, "optim/lbfgs_rho", pass->dtype, 1, &history);
    weft_graph_state_zeros(g, "optim/lbfgs_scale", pass->dtype, 0, NULL);
    weft_graph_state_zeros(g, "optim/lbfgs_count", WEFT_I64, 0, NULL);
    l.rho = weft_state_read(g, "optim/lbfgs_rho"), l.count = weft_state_read(g, "optim/lbfgs_count");
    weft_value *none = weft_compare(g, WEFT_EQ, l.count, weft_scalar_integer(g, WEFT_I64, 0));
    l.scale = weft_where(g, none, number(&l, 1), weft_state_read(g, "optim/lbfgs_scale"));
    step(&l, memory + 3 * count);
}
