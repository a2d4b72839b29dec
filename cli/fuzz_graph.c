/* The generator of random graphs.

   Results must be comparable: a value is `exact` when every correct implementation computes the same bits (integers,
   data movement, single IEEE operations on exact values). Ops that jump (floor, comparisons, conversions to integers,
   sorting, arg_reduce) are only applied to exact values; values that are not exact stay moderate (tanh, scaled sums;
   fuzz_bound.c), so errors do not grow beyond the tolerance. Every op of the list is drawn with its weight. */
#include "cli/fuzz_generator.h"

#include <string.h>

typedef cli_fuzz_generator generator;
typedef cli_fuzz_item item;
typedef cli_fuzz_filter filter;

unsigned long long cli_random_bits(cli_random *random) { /* splitmix64 (Steele, Lea, Flood 2014) */
    unsigned long long z = random->state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

int cli_random_below(cli_random *random, int limit) {
    return (int)(cli_random_bits(random) % (unsigned long long)limit);
}
static int below(generator *g, int limit) { return cli_fuzz_below(g, limit); }
static bool chance(generator *g, int percent) { return cli_fuzz_chance(g, percent); }

int64_t cli_fuzz_largest(const generator *g, weft_dim dim) {
    int64_t low, high;
    weft_dim_bounds(g->graph->dims, dim, &low, &high);
    return high;
}

int64_t cli_fuzz_elements(const generator *g, const weft_value *v) {
    int64_t n = 1;
    for (int i = 0; i < v->type.rank; i++) n *= cli_fuzz_largest(g, v->type.dims[i]);
    return n;
}

void cli_fuzz_add(generator *g, weft_value *value, bool exact, int depth) {
    if (weft_value_dtype(value) == WEFT_INVALID || g->count == CLI_FUZZ_POOL_MAX ||
        cli_fuzz_elements(g, value) > CLI_FUZZ_ELEMENTS_MAX)
        return;
    double largest = cli_fuzz_bound(g, value);
    g->pool[g->count++] = (item){value, exact, depth, largest};
}

static bool any(const generator *g, const item *i) { return (void)g, (void)i, true; }
static bool real(const generator *g, const item *i) { return (void)g, weft_dtype_is_float(i->value->type.dtype); }
static bool single(const generator *g, const item *i) { return (void)g, i->value->type.dtype == WEFT_F32; }
static bool integer(const generator *g, const item *i) { return (void)g, weft_dtype_is_integer(i->value->type.dtype); }
static bool shallow(const generator *g, const item *i) { return cli_fuzz_shallow(g, i); }
static bool exact_number(const generator *g, const item *i) {
    return (void)g, i->exact && i->value->type.dtype != WEFT_BOOL;
}
static bool exact_axes(const generator *g, const item *i) { return exact_number(g, i) && i->value->type.rank > 0; }
static bool has_axes(const generator *g, const item *i) { return (void)g, i->value->type.rank > 0; }
static bool matrix(const generator *g, const item *i) {
    return shallow(g, i) && single(g, i) && i->value->type.rank >= 2;
}

const item *cli_fuzz_pick(generator *g, filter passes) {
    for (int tries = 0; tries < 24; tries++) {
        int at = chance(g, 60) && g->count > 6 ? g->count - 1 - below(g, 6) : below(g, g->count);
        if (passes(g, &g->pool[at])) return &g->pool[at];
    }
    return NULL;
}

static weft_value *(*const exact_unary[])(weft_graph *, weft_value *) = {weft_abs, weft_neg, weft_sign, weft_relu};
static weft_value *(*const jumps[])(weft_graph *, weft_value *) = {weft_ceil, weft_floor, weft_round};
static weft_value *(*const bounded[])(weft_graph *, weft_value *) = {
    weft_sin, weft_cos, weft_tanh, weft_logistic, weft_erf, weft_atan, weft_silu, weft_softplus, weft_asinh};
static weft_value *(*const exact_binary[])(weft_graph *, weft_value *, weft_value *) = {weft_add, weft_sub, weft_mul,
                                                                                        weft_max, weft_min};
static weft_value *(*const bits[])(weft_graph *, weft_value *, weft_value *) = {weft_and, weft_or, weft_xor};

static void make_unary(generator *g) {
    const item *x = cli_fuzz_pick(g, any);
    if (!x || x->value->type.dtype == WEFT_BOOL) return;
    cli_fuzz_add(g, exact_unary[below(g, 4)](g->graph, x->value), x->exact, x->depth);
}

static void make_jump(generator *g) {
    const item *x = cli_fuzz_pick(g, real);
    if (x && x->exact) cli_fuzz_add(g, jumps[below(g, 3)](g->graph, x->value), true, x->depth);
}

static void make_bounded(generator *g) {
    const item *x = cli_fuzz_pick(g, shallow);
    if (x) cli_fuzz_add(g, bounded[below(g, 9)](g->graph, x->value), false, x->depth + 1);
}

/* Functions with a limited domain, on arguments brought into it. */
static void make_domain(generator *g) {
    const item *x = cli_fuzz_pick(g, shallow);
    if (!x) return;
    weft_value *positive = weft_add_number(g->graph, weft_abs(g->graph, x->value), 0.5),
               *small = weft_tanh(g->graph, x->value), *r;
    switch (below(g, 9)) {
    case 0: r = weft_log(g->graph, positive); break;
    case 1: r = weft_sqrt(g->graph, positive); break;
    case 2: r = weft_rsqrt(g->graph, positive); break;
    case 3: r = weft_exp(g->graph, small); break;
    case 4: r = weft_expm1(g->graph, small); break;
    case 5: r = weft_log1p(g->graph, positive); break;
    case 6: r = weft_reciprocal(g->graph, positive); break;
    case 7: r = weft_gelu(g->graph, x->value, chance(g, 50)); break;
    default: r = weft_pow(g->graph, positive, weft_scalar(g->graph, x->value->type.dtype, 1.5)); break;
    }
    cli_fuzz_add(g, r, false, x->depth + 1);
}

static bool fits(const weft_value *a, const weft_value *b) {
    if (a->type.dtype != b->type.dtype) return false;
    int rank = a->type.rank < b->type.rank ? a->type.rank : b->type.rank;
    for (int i = 1; i <= rank; i++) {
        weft_dim x = a->type.dims[a->type.rank - i], y = b->type.dims[b->type.rank - i];
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

const item *cli_fuzz_partner(generator *g, const item *a) {
    for (int tries = 0; tries < 24; tries++) {
        const item *b = &g->pool[below(g, g->count)];
        if (fits(a->value, b->value)) return b;
    }
    return a;
}

static void make_binary(generator *g) {
    const item *a = cli_fuzz_pick(g, any);
    if (!a || a->value->type.dtype == WEFT_BOOL) return;
    const item *b = cli_fuzz_partner(g, a);
    weft_value *r = exact_binary[below(g, 5)](g->graph, a->value, b->value);
    if (real(g, a) && chance(g, 70)) r = weft_mul_number(g->graph, r, 0.5); /* keeps sums of sums moderate */
    cli_fuzz_add(g, r, a->exact && b->exact, a->depth > b->depth ? a->depth : b->depth);
}

static void make_bits(generator *g) {
    const item *a = cli_fuzz_pick(g, integer);
    if (!a) return;
    if (chance(g, 30)) {
        weft_value *amount = weft_scalar(g->graph, a->value->type.dtype, below(g, 5));
        cli_fuzz_add(g,
                     chance(g, 50) ? weft_shift_left(g->graph, a->value, amount)
                                   : weft_shift_right_logical(g->graph, a->value, amount),
                     true, 0);
    } else if (chance(g, 40)) {
        weft_value *divisor =
            weft_add_number(g->graph, weft_and(g->graph, a->value, weft_scalar(g->graph, a->value->type.dtype, 3)), 1);
        cli_fuzz_add(g, chance(g, 50) ? weft_div(g->graph, a->value, divisor) : weft_rem(g->graph, a->value, divisor),
                     true, 0);
    } else {
        cli_fuzz_add(g, bits[below(g, 3)](g->graph, a->value, cli_fuzz_partner(g, a)->value), true, 0);
    }
}

static void make_select(generator *g) {
    const item *a = cli_fuzz_pick(g, exact_number), *x = cli_fuzz_pick(g, any);
    if (!a || !x) return;
    const item *b = cli_fuzz_partner(g, a);
    if (!b->exact) return;
    weft_value *mask = weft_compare(g->graph, (weft_comparison)below(g, 6), a->value, b->value);
    cli_fuzz_add(g, mask, true, 0);
    if (x->value->type.dtype == WEFT_BOOL) return;
    const item *y = cli_fuzz_partner(g, x);
    if (fits(a->value, b->value) && fits(x->value, y->value)) {
        weft_value *condition = x->value->type.rank == mask->type.rank && fits(x->value, x->value) ? mask : NULL;
        for (int i = 0; condition && i < mask->type.rank; i++)
            if (mask->type.dims[i] != x->value->type.dims[i]) condition = NULL;
        if (condition)
            cli_fuzz_add(g, weft_where(g->graph, condition, x->value, y->value), x->exact && y->exact,
                         x->depth > y->depth ? x->depth : y->depth);
    }
}

static void make_convert(generator *g) {
    static const weft_dtype types[] = {WEFT_F32, WEFT_F32, WEFT_F64, WEFT_F16, WEFT_BF16,
                                       WEFT_I32, WEFT_I64, WEFT_U8,  WEFT_I8,  WEFT_F32};
    const item *x = cli_fuzz_pick(g, exact_number);
    if (x) cli_fuzz_add(g, weft_convert(g->graph, x->value, types[below(g, 10)]), true, x->depth);
}

static void make_movement(generator *g) {
    const item *x = cli_fuzz_pick(g, has_axes);
    if (!x) return;
    weft_graph *graph = g->graph;
    const weft_type *t = &x->value->type;
    int axis = below(g, t->rank);
    weft_value *r = NULL;
    switch (below(g, 8)) {
    case 0: {
        int64_t permutation[WEFT_MAX_RANK];
        for (int i = 0; i < t->rank; i++) permutation[i] = i;
        for (int i = t->rank - 1; i > 0; i--) {
            int j = below(g, i + 1);
            int64_t swap = permutation[i];
            permutation[i] = permutation[j], permutation[j] = swap;
        }
        r = weft_transpose(graph, x->value, permutation);
        break;
    }
    case 1: r = weft_flatten(graph, x->value, below(g, t->rank + 1)); break;
    case 2: {
        int64_t axes[1] = {axis};
        r = weft_reverse(graph, x->value, 1, axes);
        break;
    }
    case 3: {
        weft_value *parts[3] = {x->value, x->value, x->value};
        r = weft_concat(graph, axis, 1 + below(g, 3), parts);
        break;
    }
    case 4:
        if (weft_dim_is_number(t->dims[axis]) && t->dims[axis] > 2)
            r = weft_slice_axis(graph, x->value, axis, 1, t->dims[axis] - below(g, 2));
        break;
    case 5: {
        int64_t axes[1] = {below(g, t->rank + 1)};
        if (t->rank < 5) r = weft_unsqueeze(graph, x->value, 1, axes);
        break;
    }
    case 6: {
        weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
        int64_t interior[WEFT_MAX_RANK] = {0};
        low[axis] = below(g, 3), high[axis] = below(g, 3);
        interior[axis] = chance(g, 25);
        if (t->dtype != WEFT_BOOL) r = weft_pad(graph, x->value, weft_scalar(graph, t->dtype, 1), low, high, interior);
        break;
    }
    default: {
        weft_dim shape[WEFT_MAX_RANK + 1] = {2};
        for (int i = 0; i < t->rank; i++) shape[i + 1] = t->dims[i];
        if (t->rank < 5) r = weft_broadcast_to(graph, x->value, t->rank + 1, shape);
        break;
    }
    }
    if (r) cli_fuzz_add(g, r, x->exact, x->depth);
}

static void make_reduce(generator *g) {
    const item *x = cli_fuzz_pick(g, has_axes);
    if (!x || x->value->type.dtype == WEFT_BOOL) return;
    bool is_real = real(g, x);
    int64_t axes[1] = {below(g, x->value->type.rank)};
    bool keep = chance(g, 40);
    switch (below(g, 6)) {
    case 0:
        if (is_real && !shallow(g, x)) return;
        cli_fuzz_add(g,
                     is_real ? weft_reduce_mean(g->graph, x->value, 1, axes, keep)
                             : weft_reduce_sum(g->graph, x->value, 1, axes, keep),
                     !is_real, x->depth + is_real);
        break;
    case 1: cli_fuzz_add(g, weft_reduce_max(g->graph, x->value, 1, axes, keep), x->exact, x->depth); break;
    case 2: cli_fuzz_add(g, weft_reduce_min(g->graph, x->value, 1, axes, keep), x->exact, x->depth); break;
    case 3:
        if (x->exact)
            cli_fuzz_add(g,
                         weft_arg_reduce(g->graph, chance(g, 50) ? WEFT_MAX : WEFT_MIN, x->value, (int)axes[0], keep,
                                         chance(g, 50)),
                         true, 0);
        break;
    case 4:
        if (shallow(g, x))
            cli_fuzz_add(g,
                         chance(g, 70) ? weft_softmax(g->graph, x->value, (int)axes[0])
                                       : weft_log_softmax(g->graph, x->value, (int)axes[0]),
                         false, x->depth + 1);
        break;
    default:
        if (shallow(g, x))
            cli_fuzz_add(g, weft_layer_norm(g->graph, x->value, NULL, NULL, 1, axes, 1e-2), false, x->depth + 2);
        break;
    }
}

static void make_scan_like(generator *g) {
    const item *x = cli_fuzz_pick(g, exact_axes);
    if (!x) return;
    int axis = below(g, x->value->type.rank);
    weft_value *values[2] = {x->value, x->value}, *results[2] = {0};
    if (chance(g, 40)) {
        weft_sort(g->graph, chance(g, 50) ? 1 : 2, values, axis, chance(g, 50), true, results);
        cli_fuzz_add(g, results[0], true, x->depth);
    } else if (chance(g, 50)) {
        weft_dim extent = x->value->type.dims[axis];
        if (!weft_dim_is_number(extent) || extent < 1) return;
        weft_top_k(g->graph, x->value, 1 + below(g, (int)extent), axis, chance(g, 50), &results[0], &results[1]);
        cli_fuzz_add(g, results[0], true, x->depth);
        cli_fuzz_add(g, results[1], true, 0);
    } else {
        bool is_real = real(g, x);
        if (is_real && x->depth >= CLI_FUZZ_DEPTH_MAX) return;
        cli_fuzz_add(g, weft_cumulative(g->graph, is_real ? WEFT_MAX : WEFT_SUM, x->value, axis, false, chance(g, 50)),
                     true, x->depth);
    }
}

static void make_take(generator *g) {
    const item *x = cli_fuzz_pick(g, has_axes), *ids = cli_fuzz_pick(g, integer);
    if (!x || !ids || ids->value->type.rank > 2) return;
    int axis = below(g, x->value->type.rank);
    if (!weft_dim_is_number(x->value->type.dims[axis]) || x->value->type.dims[axis] < 1) return;
    weft_value *index = weft_rem(g->graph, weft_abs(g->graph, weft_convert(g->graph, ids->value, WEFT_I64)),
                                 weft_scalar_integer(g->graph, WEFT_I64, x->value->type.dims[axis]));
    if (cli_fuzz_elements(g, x->value) * cli_fuzz_elements(g, index) > CLI_FUZZ_ELEMENTS_MAX * 4) return;
    cli_fuzz_add(g, weft_take(g->graph, x->value, weft_abs(g->graph, index), axis), x->exact, x->depth);
}

static void make_matmul(generator *g) {
    const item *a = cli_fuzz_pick(g, matrix);
    if (!a) return;
    const weft_type *t = &a->value->type;
    weft_dim k = t->dims[t->rank - 1];
    if (chance(g, 50) && weft_dim_is_number(k)) { /* with a constant matrix */
        int64_t shape[2] = {k, 1 + below(g, 40)};
        weft_tensor *tensor;
        weft_status status =
            cli_random_tensor(g->graph->context, WEFT_F32, 2, shape, cli_random_bits(&g->random), &tensor);
        weft_status_release(status);
        if (status) return;
        weft_value *w = weft_graph_constant(g->graph, tensor), *r = weft_matmul(g->graph, a->value, w);
        weft_tensor_release(tensor);
        cli_fuzz_add(g, weft_mul_number(g->graph, r, 0.25), false, a->depth + 1);
        return;
    }
    int64_t swap[WEFT_MAX_RANK];
    for (int i = 0; i < t->rank; i++) swap[i] = i;
    swap[t->rank - 1] = t->rank - 2, swap[t->rank - 2] = t->rank - 1;
    cli_fuzz_add(
        g, weft_mul_number(g->graph, weft_matmul(g->graph, a->value, weft_transpose(g->graph, a->value, swap)), 0.125),
        false, a->depth + 1);
}

weft_value *cli_fuzz_constant(generator *g, int rank, const int64_t *shape) {
    weft_tensor *tensor;
    weft_status status =
        cli_random_tensor(g->graph->context, WEFT_F32, rank, shape, cli_random_bits(&g->random), &tensor);
    weft_status_release(status);
    if (status) return NULL;
    weft_value *value = weft_graph_constant(g->graph, tensor);
    weft_tensor_release(tensor);
    return value;
}

/* An image-like value from anything: [N, C, spatial...] with static channels. */
static void make_window(generator *g) {
    const item *x = cli_fuzz_pick(g, shallow);
    if (!x || !single(g, x) || x->value->type.rank < 3 || x->value->type.rank > 4 ||
        !weft_dim_is_number(x->value->type.dims[1]))
        return;
    int spatial = x->value->type.rank - 2;
    for (int i = 0; i < spatial; i++)
        if (!weft_dim_is_number(x->value->type.dims[2 + i]) || x->value->type.dims[2 + i] < 3) return;
    int64_t window[3], stride[3], shape[5], dilation[3] = {1, 1, 1};
    weft_dim low[3], high[3];
    for (int i = 0; i < spatial; i++) {
        window[i] = 1 + below(g, 3), stride[i] = 1 + below(g, 2), low[i] = below(g, 2), high[i] = below(g, 2);
        if (low[i] >= window[i]) low[i] = 0;
        if (high[i] >= window[i]) high[i] = 0;
    }
    if (chance(g, 60)) {
        int64_t channels = x->value->type.dims[1];
        bool depthwise = chance(g, 30);
        shape[0] = depthwise ? channels : 1 + below(g, 12), shape[1] = depthwise ? 1 : channels;
        for (int i = 0; i < spatial; i++) shape[2 + i] = window[i];
        weft_value *w = cli_fuzz_constant(g, spatial + 2, shape);
        if (!w) return;
        weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
        options.stride = stride, options.low = low, options.high = high, options.dilation = dilation,
        options.groups = depthwise ? channels : 1;
        cli_fuzz_add(g, weft_mul_number(g->graph, weft_convolution(g->graph, x->value, w, &options), 0.25), false,
                     x->depth + 1);
    } else {
        weft_pool_options options = WEFT_POOL_OPTIONS_INIT;
        options.window = window, options.stride = stride, options.low = low, options.high = high;
        bool maximum = chance(g, 60);
        cli_fuzz_add(
            g, maximum ? weft_max_pool(g->graph, x->value, &options) : weft_average_pool(g->graph, x->value, &options),
            maximum && x->exact, x->depth + !maximum);
    }
}

static void (*const makers[])(generator *) = {make_unary,    make_binary,   make_binary, make_bounded, make_domain,
                                              make_jump,     make_bits,     make_select, make_convert, make_movement,
                                              make_movement, make_movement, make_reduce, make_reduce,  make_scan_like,
                                              make_take,     make_matmul,   make_window, make_window};

static void make_inputs(generator *g) {
    static const weft_dtype types[] = {WEFT_F32, WEFT_F32, WEFT_F32,  WEFT_F32, WEFT_I64,
                                       WEFT_I32, WEFT_F16, WEFT_BF16, WEFT_F64, WEFT_U8};
    int inputs = 2 + below(g, 3), side = 2 + below(g, 4);
    bool bound = false, square = chance(g, 20);
    for (int i = 0; i < inputs; i++) {
        weft_dim shape[4];
        int rank = below(g, 5);
        for (int d = 0; d < rank; d++) shape[d] = rank == 4 ? 1 + below(g, 7) : 1 + below(g, chance(g, 20) ? 35 : 9);
        if (g->symbol && rank > 0 && chance(g, 75)) shape[0] = g->symbol, bound = true;
        if (square && rank > 2 && weft_dim_is_number(shape[0])) shape[0] = side;
        if (square) /* axes that only a wrong rewrite confuses */
            for (int d = 1; d < rank; d++) shape[d] = rank < 3 ? shape[0] : side;
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        cli_fuzz_add(g, weft_graph_input(g->graph, name, types[below(g, 10)], rank, shape), true, 0);
    }
    if (g->symbol && !bound) { /* some input must say what it is */
        weft_dim shape[2] = {g->symbol, 3};
        cli_fuzz_add(g, weft_graph_input(g->graph, "xb", WEFT_F32, 2, shape), true, 0);
    }
}

weft_status cli_fuzz_graph(weft_context *context, unsigned long long seed, int ops, weft_graph **out_graph) {
    generator g = {.random = {seed * 0x632be59bd9b4e019ULL + 1}};
    WEFT_TRY(weft_graph_create(context, "fuzz", out_graph), "seed %llu", seed);
    g.graph = *out_graph;
    if (seed % 3 == 0) g.symbol = weft_graph_symbol(g.graph, "B", 1, 9, 1);
    make_inputs(&g);
    int first = g.count;
    int common = sizeof makers / sizeof *makers;
    for (int i = 0; i < ops; i++) {
        int at = below(&g, common + cli_fuzz_more_count);
        (at < common ? makers[at] : cli_fuzz_more[at - common])(&g);
    }
    int outputs = 0;
    for (int i = g.count - 1; i >= first && outputs < 3; i--) {
        if (outputs && chance(&g, 50)) continue;
        char name[16];
        snprintf(name, sizeof name, "y%d", outputs++);
        weft_graph_output(g.graph, name, g.pool[i].value);
    }
    if (!outputs) weft_graph_output(g.graph, "y0", g.pool[0].value);
    return weft_graph_verify(g.graph);
}

/* An extent with B = value. */
static int64_t extent_with(const weft_graph *graph, weft_dim dim, int64_t value) {
    int64_t symbols[8], found = value;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) symbols[i] = value;
    bool fits = weft_dim_symbol_count(graph->dims) <= (int)(sizeof symbols / sizeof *symbols);
    return fits && weft_dim_evaluate(graph->dims, dim, symbols, &found) ? found : value;
}

weft_status cli_fuzz_inputs(weft_context *context, weft_graph *graph, unsigned long long seed, int64_t extent,
                            weft_tensor **out_inputs) {
    cli_random random = {seed ^ (unsigned long long)extent << 32};
    for (int i = 0; i < weft_graph_input_count(graph); i++) {
        const weft_value *value = weft_graph_input_value(graph, i);
        int64_t shape[WEFT_MAX_RANK];
        for (int d = 0; d < value->type.rank; d++) shape[d] = extent_with(graph, value->type.dims[d], extent);
        WEFT_TRY(weft_tensor_create(context, value->type.dtype, value->type.rank, shape, &out_inputs[i]), "input %d",
                 i);
        void *data = weft_tensor_data(out_inputs[i]);
        for (int64_t e = 0; e < weft_tensor_element_count(out_inputs[i]); e++) {
            double x = (double)(cli_random_bits(&random) >> 11) * 0x1p-53 * 4 - 2;
            if (weft_dtype_is_float(value->type.dtype))
                weft_element_set_double(value->type.dtype, data, e, cli_random_below(&random, 8) ? x : (double)(int)x);
            else
                weft_element_set_i64(value->type.dtype, data, e,
                                     (int64_t)(cli_random_bits(&random) % 23) - (value->type.dtype == WEFT_U8 ? 0 : 9));
        }
    }
    return NULL;
}
