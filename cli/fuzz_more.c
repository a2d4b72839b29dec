/* Makers of the rarer operations: indexed updates, windows of every kind, loops and branches, complex numbers, linear
   algebra, attention. Exactness as fuzz_graph.c defines it. */
#include "cli/fuzz_generator.h"

typedef cli_fuzz_generator generator;
typedef cli_fuzz_item item;
static int below(generator *g, int limit) { return cli_fuzz_below(g, limit); }
static bool chance(generator *g, int percent) { return cli_fuzz_chance(g, percent); }

static bool number(const generator *g, const item *i) { return (void)g, i->value->type.dtype != WEFT_BOOL; }
static bool real(const generator *g, const item *i) { return (void)g, weft_dtype_is_float(i->value->type.dtype); }
static bool integer(const generator *g, const item *i) { return (void)g, weft_dtype_is_integer(i->value->type.dtype); }
static bool boolean(const generator *g, const item *i) { return (void)g, i->value->type.dtype == WEFT_BOOL; }
static bool shallow(const generator *g, const item *i) { return cli_fuzz_shallow(g, i); }
static bool rows(const generator *g, const item *i) { return number(g, i) && i->value->type.rank > 0; }
static bool exact_rows(const generator *g, const item *i) { return rows(g, i) && i->exact; }
static bool exact_real(const generator *g, const item *i) { return real(g, i) && i->exact; }
static bool single(const generator *g, const item *i) { return shallow(g, i) && i->value->type.dtype == WEFT_F32; }
static bool integer_matrix(const generator *g, const item *i) {
    return integer(g, i) && i->value->type.rank >= 2 && weft_dtype_bits(i->value->type.dtype) >= 8;
}
static bool is_static(const weft_value *v) {
    for (int i = 0; i < v->type.rank; i++)
        if (!weft_dim_is_number(v->type.dims[i])) return false;
    return true;
}
static bool static_rows(const generator *g, const item *i) {
    return exact_rows(g, i) && i->value->type.rank <= 4 && is_static(i->value);
}
static bool complex_ready(const generator *g, const item *i) { return single(g, i); }
static bool mask_rows(const generator *g, const item *i) { return boolean(g, i) && i->value->type.rank > 0; }
static bool square_ready(const generator *g, const item *i) {
    return single(g, i) && i->value->type.rank == 2 && weft_dim_is_number(i->value->type.dims[0]) &&
           i->value->type.dims[0] <= 12;
}
static bool heads(const generator *g, const item *i) {
    return single(g, i) && i->value->type.rank == 4 && is_static(i->value);
}
static bool image(const generator *g, const item *i) {
    return single(g, i) && i->value->type.rank >= 3 && i->value->type.rank <= 4 && is_static(i->value);
}

/* An i64 scalar: a constant (also beyond what fits), or the largest element of something. */
static weft_value *index_scalar(generator *g) {
    const item *x = chance(g, 50) ? cli_fuzz_pick(g, integer) : NULL;
    if (!x) return weft_scalar_integer(g->graph, WEFT_I64, below(g, 9) - 2);
    return weft_convert(g->graph, weft_reduce_max(g->graph, x->value, 0, NULL, false), WEFT_I64);
}

static void make_functions(generator *g) {
    const item *x = cli_fuzz_pick(g, shallow);
    if (!x) return;
    weft_graph *graph = g->graph;
    weft_value *small = weft_mul_number(graph, weft_tanh(graph, x->value), 0.75), *r = NULL;
    switch (below(g, 10)) {
    case 0: r = weft_atan2(graph, x->value, weft_add_number(graph, weft_abs(graph, small), 0.5)); break;
    case 1: r = weft_asin(graph, small); break;
    case 2: r = weft_acos(graph, small); break;
    case 3: r = weft_atanh(graph, small); break;
    case 4: r = weft_acosh(graph, weft_add_number(graph, weft_abs(graph, small), 1.5)); break;
    case 5: r = weft_sinh(graph, small); break;
    case 6: r = weft_cosh(graph, small); break;
    case 7: r = weft_tan(graph, small); break;
    case 8:
        r = weft_mul_number(graph, weft_div(graph, x->value, weft_add_number(graph, weft_abs(graph, small), 0.75)),
                            0.5);
        break;
    default: r = weft_hard_sigmoid(graph, x->value, 0.2, 0.5); break;
    }
    cli_fuzz_add(g, r, false, x->depth + 1);
}

static void make_predicates(generator *g) {
    const item *x = cli_fuzz_pick(g, mask_rows), *f = cli_fuzz_pick(g, real), *n = cli_fuzz_pick(g, integer),
               *e = cli_fuzz_pick(g, exact_real);
    if (f)
        cli_fuzz_add(g, chance(g, 50) ? weft_is_nan(g->graph, f->value) : weft_is_finite(g->graph, f->value), true, 0);
    if (n && chance(g, 50))
        cli_fuzz_add(g, chance(g, 50) ? weft_popcount(g->graph, n->value) : weft_not(g->graph, n->value), true, 0);
    if (n && chance(g, 30))
        cli_fuzz_add(
            g,
            weft_shift_right_arithmetic(g->graph, n->value, weft_scalar(g->graph, n->value->type.dtype, below(g, 6))),
            true, 0);
    if (e && chance(g, 40) &&
        e->value->type.dtype == WEFT_F32) /* abs: the sign of a zero is not part of the contract */
        cli_fuzz_add(g, weft_bitcast(g->graph, weft_abs(g->graph, e->value), WEFT_I32), true, 0);
    if (!x) return;
    int64_t axes[1] = {below(g, x->value->type.rank)};
    cli_fuzz_add(g, weft_reduce(g->graph, chance(g, 50) ? WEFT_AND : WEFT_OR, x->value, 1, axes, chance(g, 40)), true,
                 0);
    cli_fuzz_add(g,
                 weft_convert(g->graph,
                              chance(g, 50) ? weft_not(g->graph, x->value) : weft_xor(g->graph, x->value, x->value),
                              WEFT_I32),
                 true, 0);
}

/* Rows of x combined with some of its own rows; indices repeat and may lie outside. */
static void make_scatter(generator *g) {
    static const weft_reduction kinds[] = {WEFT_SET, WEFT_SUM, WEFT_MAX, WEFT_MIN};
    const item *x = cli_fuzz_pick(g, rows);
    if (!x || !weft_dim_is_number(x->value->type.dims[0]) || x->value->type.dims[0] < 1) return;
    int64_t n = x->value->type.dims[0], to[3], from[3], shape[2] = {3, 1};
    for (int i = 0; i < 3; i++) to[i] = below(g, (int)n + 1), from[i] = below(g, (int)n);
    weft_reduction kind = kinds[below(g, 4)];
    bool rounds = kind == WEFT_SUM && real(g, x);
    if (rounds && !shallow(g, x)) return;
    weft_value *indices = weft_reshape(g->graph, weft_integers(g->graph, 3, to), 2, shape);
    weft_value *updates = weft_take(g->graph, x->value, weft_integers(g->graph, 3, from), 0);
    weft_value *r = weft_scatter_nd(g->graph, kind, x->value, indices, updates);
    cli_fuzz_add(g, rounds ? weft_mul_number(g->graph, r, 0.25) : r, x->exact && !rounds, x->depth + rounds);
}

static void make_dynamic(generator *g) {
    const item *x = cli_fuzz_pick(g, rows);
    if (!x || !is_static(x->value)) return;
    weft_value *starts[WEFT_MAX_RANK];
    weft_dim sizes[WEFT_MAX_RANK];
    for (int i = 0; i < x->value->type.rank; i++) {
        if (x->value->type.dims[i] < 1) return;
        starts[i] = index_scalar(g), sizes[i] = 1 + below(g, (int)x->value->type.dims[i]);
    }
    weft_value *piece = weft_dynamic_slice(g->graph, x->value, starts, sizes);
    cli_fuzz_add(g, piece, x->exact, x->depth);
    for (int i = 0; i < x->value->type.rank; i++)
        if (chance(g, 50)) starts[i] = index_scalar(g);
    if (chance(g, 50))
        cli_fuzz_add(g, weft_dynamic_update_slice(g->graph, x->value, weft_neg(g->graph, piece), starts), x->exact,
                     x->depth);
}

/* Windows over every axis, and the gradient of their maxima. */
static void make_windows(generator *g) {
    static const weft_reduction kinds[] = {WEFT_SUM, WEFT_MAX, WEFT_MIN, WEFT_PRODUCT};
    const item *x = cli_fuzz_pick(g, static_rows);
    if (!x) return;
    int rank = x->value->type.rank;
    int64_t window[4], stride[4], dilation[4], base[4];
    weft_dim low[4], high[4];
    weft_window_options o = WEFT_WINDOW_OPTIONS_INIT;
    o.window = window, o.stride = stride, o.low = low, o.high = high;
    for (int i = 0; i < rank; i++) {
        if (x->value->type.dims[i] < 3)
            window[i] = 1;
        else
            window[i] = 1 + below(g, 3);
        stride[i] = 1 + below(g, 2), low[i] = window[i] > 1 ? below(g, 2) : 0,
        high[i] = window[i] > 1 ? below(g, 2) : 0;
        dilation[i] = window[i] == 2 && chance(g, 30) ? 2 : 1, base[i] = window[i] > 1 && chance(g, 20) ? 2 : 1;
    }
    bool is_real = real(g, x);
    if (shallow(g, x) && chance(g, 40)) {
        weft_value *source = weft_reduce_window(g->graph, WEFT_MAX, x->value, &o);
        cli_fuzz_add(g, weft_mul_number(g->graph, weft_select_and_scatter(g->graph, x->value, source, &o), 0.25), false,
                     x->depth + 1);
        return;
    }
    o.dilation = dilation, o.base_dilation = base;
    weft_reduction kind = kinds[below(g, is_real ? 3 : 4)];
    if (is_real && !shallow(g, x)) kind = WEFT_MAX;
    weft_value *r = weft_reduce_window(g->graph, kind, x->value, &o);
    bool rounds = is_real && kind == WEFT_SUM;
    cli_fuzz_add(g, rounds ? weft_mul_number(g->graph, r, 0.125) : r, !rounds, x->depth + rounds);
}

static void make_random(generator *g) {
    weft_tensor *tensor;
    int64_t two[1] = {2};
    weft_status status = weft_tensor_create(g->graph->context, WEFT_U64, 1, two, &tensor);
    weft_status_release(status);
    if (status) return;
    for (int i = 0; i < 2; i++) ((unsigned long long *)weft_tensor_data(tensor))[i] = cli_random_bits(&g->random);
    weft_value *key = weft_graph_constant(g->graph, tensor);
    weft_tensor_release(tensor);
    weft_dim shape[2] = {g->symbol && chance(g, 50) ? g->symbol : 1 + below(g, 9), 1 + below(g, 9)};
    if (chance(g, 60))
        cli_fuzz_add(g,
                     weft_rng_bits(g->graph, key, (weft_dtype[]){WEFT_U16, WEFT_U32, WEFT_U64}[below(g, 3)], 2, shape),
                     true, 0);
    else
        cli_fuzz_add(g, weft_random_uniform(g->graph, key, WEFT_F32, 2, shape, -1, 1), false, 1);
}

static void negate(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    (void)arguments;
    results[0] = weft_neg(graph, self);
}
static void twice_larger(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    (void)arguments;
    results[0] = weft_max(graph, weft_add(graph, self, self), self);
}

static void make_cond(generator *g) {
    const item *x = cli_fuzz_pick(g, number), *e = cli_fuzz_pick(g, exact_rows);
    if (!x || !e) return;
    weft_value *most = weft_reduce_max(g->graph, e->value, 0, NULL, false), *r;
    weft_value *predicate = weft_compare(g->graph, WEFT_GT, most, weft_scalar(g->graph, e->value->type.dtype, 2));
    weft_cond(g->graph, predicate, negate, twice_larger, x->value, 1, &r);
    if (real(g, x)) r = weft_mul_number(g->graph, r, 0.5);
    cli_fuzz_add(g, r, x->exact, x->depth);
}

static void while_below(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    results[0] = weft_compare(graph, WEFT_LT, arguments[0], weft_scalar_integer(graph, WEFT_I64, *(const int *)self));
}
static void while_step(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_add_number(graph, arguments[0], 1);
    results[1] = weft_min(graph, weft_neg(graph, arguments[1]), arguments[2]);
    results[2] = arguments[1];
}

static void make_while(generator *g) {
    const item *x = cli_fuzz_pick(g, number);
    if (!x) return;
    int trips = below(g, 4);
    weft_value *start[3] = {weft_scalar_integer(g->graph, WEFT_I64, 0), x->value, x->value}, *results[3];
    weft_while(g->graph, 3, start, chance(g, 50) ? 4 : -1, while_below, while_step, &trips, results);
    cli_fuzz_add(g, results[1], x->exact, x->depth);
    cli_fuzz_add(g, results[2], x->exact, x->depth);
}

static void scan_step(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_max(graph, arguments[0], arguments[1]);
    results[1] = weft_min(graph, weft_neg(graph, arguments[0]), arguments[1]);
}

static void make_scan(generator *g) {
    const item *x = cli_fuzz_pick(g, rows);
    if (!x || weft_dtype_bits(x->value->type.dtype) < 8) return;
    const weft_type *t = &x->value->type;
    weft_value *carry = weft_broadcast_to(g->graph, weft_scalar(g->graph, t->dtype, 1), t->rank - 1, t->dims + 1),
               *results[2];
    weft_scan(g->graph, 1, &carry, 1, &x->value, t->dims[0], chance(g, 40), scan_step, NULL, 1, results);
    cli_fuzz_add(g, results[0], x->exact, x->depth);
    cli_fuzz_add(g, results[1], x->exact, x->depth);
}

static void make_complex(generator *g) {
    const item *a = cli_fuzz_pick(g, complex_ready);
    if (!a) return;
    weft_value *z = weft_complex(g->graph, a->value, weft_mul_number(g->graph, a->value, 0.5)),
               *w = weft_mul(g->graph, z, weft_neg(g->graph, z));
    if (chance(g, 40)) w = weft_sub(g->graph, w, z);
    weft_value *part = chance(g, 50) ? weft_real(g->graph, w) : weft_imag(g->graph, w);
    cli_fuzz_add(g, weft_mul_number(g->graph, part, 0.25), false, a->depth + 1);
}

/* a = x x^T / 8 + 4 I: its factor, and a system with it. */
static void make_linear_algebra(generator *g) {
    const item *x = cli_fuzz_pick(g, square_ready);
    if (!x) return;
    int64_t n = x->value->type.dims[0], swap[2] = {1, 0};
    weft_dim shape[2] = {n, n};
    weft_graph *graph = g->graph;
    weft_value *unit =
        weft_compare(graph, WEFT_EQ, weft_iota(graph, WEFT_I64, 2, shape, 0), weft_iota(graph, WEFT_I64, 2, shape, 1));
    weft_value *product = weft_tanh(graph, weft_matmul(graph, x->value, weft_transpose(graph, x->value, swap)));
    weft_value *a = weft_add(graph, weft_mul_number(graph, product, 0.125),
                             weft_mul_number(graph, weft_convert(graph, unit, WEFT_F32), 4));
    bool lower = chance(g, 50);
    weft_value *factor = weft_cholesky(graph, a, lower);
    cli_fuzz_add(g, factor, false, x->depth + 2);
    cli_fuzz_add(g, weft_triangular_solve(graph, factor, x->value, true, lower, chance(g, 50), false), false,
                 x->depth + 2);
    cli_fuzz_add(g, weft_triangle(graph, a, chance(g, 50), weft_scalar_integer(graph, WEFT_I64, below(g, 3) - 1)),
                 false, x->depth + 1);
}

static void make_integer_matmul(generator *g) {
    const item *a = cli_fuzz_pick(g, integer_matrix);
    if (!a) return;
    int64_t swap[WEFT_MAX_RANK];
    int rank = a->value->type.rank;
    for (int i = 0; i < rank; i++) swap[i] = i;
    swap[rank - 1] = rank - 2, swap[rank - 2] = rank - 1;
    weft_value *b = weft_transpose(g->graph, a->value, swap);
    weft_dtype result = weft_dtype_bits(a->value->type.dtype) == 64 ? a->value->type.dtype : WEFT_I32;
    cli_fuzz_add(g, weft_matmul_typed(g->graph, a->value, b, result), true, 0);
}

static void make_attention(generator *g) {
    const item *x = cli_fuzz_pick(g, heads);
    if (!x) return;
    const weft_type *t = &x->value->type;
    weft_value *q = x->value;
    int64_t table[2] = {t->dims[2], t->dims[3] / 2};
    if (t->dims[3] % 2 == 0 && chance(g, 70)) {
        weft_value *cosine = cli_fuzz_constant(g, 2, table), *sine = cli_fuzz_constant(g, 2, table);
        if (!cosine || !sine) return;
        q = weft_rope(g->graph, q, cosine, sine, chance(g, 50));
        cli_fuzz_add(g, weft_mul_number(g->graph, q, 0.5), false, x->depth + 1);
    }
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = chance(g, 50);
    if (chance(g, 30)) o.soft_cap = 10;
    if (chance(g, 30)) o.window_left = 1 + below(g, 3);
    cli_fuzz_add(g, weft_attention(g->graph, weft_tanh(g->graph, q), x->value, x->value, NULL, &o), false,
                 x->depth + 2);
}

static void make_rows(generator *g) {
    const item *x = cli_fuzz_pick(g, single), *n = cli_fuzz_pick(g, integer);
    if (x && x->value->type.rank > 0) {
        int64_t axes[1] = {below(g, x->value->type.rank)};
        if (chance(g, 50))
            cli_fuzz_add(g, weft_rms_norm(g->graph, x->value, NULL, 1, axes, 1e-2), false, x->depth + 2);
        else
            cli_fuzz_add(g, weft_log_softmax(g->graph, x->value, (int)axes[0]), false, x->depth + 1);
        if (x->value->type.rank == 2 && weft_dim_is_number(x->value->type.dims[1]) && chance(g, 50)) {
            weft_value *labels = weft_arg_reduce(
                g->graph, WEFT_MAX, weft_iota(g->graph, WEFT_I32, 2, x->value->type.dims, 1), 1, false, false);
            cli_fuzz_add(g, weft_cross_entropy(g->graph, x->value, labels), false, x->depth + 1);
        }
    }
    if (n && n->value->type.rank < 3) {
        weft_value *one_hot = weft_one_hot(g->graph, weft_convert(g->graph, n->value, WEFT_I64), 5, n->value->type.rank,
                                           weft_scalar(g->graph, WEFT_F32, 1), weft_scalar(g->graph, WEFT_F32, 0));
        cli_fuzz_add(g, one_hot, true, 0);
    }
    if (g->symbol && chance(g, 40)) {
        weft_dim shape[2] = {g->symbol, 3};
        cli_fuzz_add(g, weft_iota(g->graph, WEFT_I32, 2, shape, below(g, 2)), true, 0);
        cli_fuzz_add(g, weft_extent(g->graph, g->symbol), true, 0);
    }
}

static void make_transposed_convolution(generator *g) {
    const item *x = cli_fuzz_pick(g, image);
    if (!x) return;
    int spatial = x->value->type.rank - 2;
    int64_t channels = x->value->type.dims[1], shape[4] = {channels, 1 + below(g, 6)}, stride[2];
    for (int i = 0; i < spatial; i++) shape[2 + i] = 1 + below(g, 3), stride[i] = 1 + below(g, 2);
    weft_value *w = cli_fuzz_constant(g, spatial + 2, shape);
    if (!w) return;
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    o.stride = stride;
    cli_fuzz_add(g, weft_mul_number(g->graph, weft_convolution_transpose(g->graph, x->value, w, &o), 0.25), false,
                 x->depth + 1);
}

static void make_barrier(generator *g) {
    const item *x = cli_fuzz_pick(g, number);
    if (x) cli_fuzz_add(g, weft_optimization_barrier(g->graph, x->value), x->exact, x->depth);
}

static void make_cumulative(generator *g) {
    static const weft_reduction kinds[] = {WEFT_MAX, WEFT_MIN, WEFT_SUM, WEFT_PRODUCT};
    const item *x = cli_fuzz_pick(g, exact_rows);
    if (!x) return;
    bool is_real = real(g, x);
    weft_reduction kind = kinds[below(g, is_real ? 3 : 4)];
    if (is_real && !shallow(g, x)) kind = WEFT_MAX;
    bool rounds = is_real && kind == WEFT_SUM;
    weft_value *r = weft_cumulative(g->graph, kind, x->value, below(g, x->value->type.rank), !is_real && chance(g, 40),
                                    chance(g, 50));
    cli_fuzz_add(g, rounds ? weft_mul_number(g->graph, r, 0.125) : r, !rounds, x->depth + rounds);
}

const cli_fuzz_maker cli_fuzz_more[] = {make_functions,
                                        make_functions,
                                        make_predicates,
                                        make_scatter,
                                        make_dynamic,
                                        make_windows,
                                        make_random,
                                        make_cond,
                                        make_while,
                                        make_scan,
                                        make_complex,
                                        make_linear_algebra,
                                        make_integer_matmul,
                                        make_attention,
                                        make_attention,
                                        make_rows,
                                        make_transposed_convolution,
                                        make_barrier,
                                        make_cumulative};
const int cli_fuzz_more_count = sizeof cli_fuzz_more / sizeof *cli_fuzz_more;
