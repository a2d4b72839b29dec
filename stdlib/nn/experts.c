/* A mixture of experts: each token goes through the k networks that a router chooses for it. Tokens are put in the
   order of their experts, so that each layer of all experts is one product of groups of rows (weft_ragged_dot); nothing
   has a capacity and no token is dropped. The order comes from counting, not from comparing: a token's place is how
   many choices of smaller experts there are, and of its own before it, in blocks of COUNTED whose ranks are a product
   with a triangle of ones. Gates: Shazeer et al. 2017, Mixtral (Jiang et al. 2024); counting as prefix sums: Blelloch
   1990. Read next: weft/nn.h, weft/loss.h (balance). */
#include <math.h>
#include <stdio.h>

#include "base/need.h"
#include "weft/nn.h"

#include "stdlib/nn/mixed.h"

enum { COUNTED = 128, NAME_MAX = 160 };

/* choices i64 [N], N a multiple of COUNTED; experts from 0. out_offsets i32 [E + 1]; the result: i64 [N], the place of
   each choice when they are ordered by expert, equal ones in their order. */
static weft_value *places_of(weft_graph *g, weft_value *choices, weft_dim experts, weft_value **out_offsets) {
    weft_dim count = weft_value_dim(choices, 0), blocks = weft_dim_floor_divide(g, count, COUNTED),
             triangle[2] = {COUNTED, COUNTED}, split[3] = {blocks, COUNTED, experts}, bounds = experts + 1,
             pairs[2] = {bounds, count};
    int64_t rows[1] = {1}, last[1] = {2}, second[1] = {1};
    weft_value *one = weft_scalar(g, WEFT_F32, 1), *zero = weft_scalar(g, WEFT_F32, 0);
    weft_value *hot = weft_reshape(g, weft_one_hot(g, choices, experts, -1, one, zero), 3, split);
    /* before[i, j] = 1 where j < i: exact in f32, whatever unit multiplies */
    weft_value *before =
        weft_compare(g, WEFT_LT, weft_iota(g, WEFT_I64, 2, triangle, 1), weft_iota(g, WEFT_I64, 2, triangle, 0));
    weft_dot_options dot = WEFT_DOT_OPTIONS_INIT;
    int64_t lhs = 1, rhs = 1;
    dot.contract_count = 1, dot.lhs_contract = &lhs, dot.rhs_contract = &rhs;
    int64_t home[3] = {1, 0, 2};
    weft_value *rank = weft_transpose(g, weft_dot_general(g, weft_convert(g, before, WEFT_F32), hot, &dot), home);
    weft_value *sums = weft_convert(g, weft_reduce_sum(g, hot, 1, rows, false), WEFT_I64);
    weft_value *earlier = weft_cumulative(g, WEFT_SUM, sums, 0, true, false); /* [blocks, E] */
    /* offsets[e]: choices of experts below e */
    weft_value *below =
        weft_compare(g, WEFT_LT, weft_broadcast(g, choices, 2, pairs, second), weft_iota(g, WEFT_I64, 2, pairs, 0));
    weft_value *offsets = weft_reduce_sum(g, weft_convert(g, below, WEFT_I64), 1, rows, false);
    *out_offsets = weft_convert(g, offsets, WEFT_I32);
    weft_value *start = weft_slice_axis(g, offsets, 0, 0, experts);
    weft_value *base = weft_add(g, earlier, weft_broadcast(g, start, 2, (weft_dim[]){blocks, experts}, second));
    base = weft_broadcast(g, weft_convert(g, base, WEFT_F32), 3, split, (int64_t[]){0, 2});
    weft_value *place = weft_reduce_sum(g, weft_mul(g, hot, weft_add(g, base, rank)), 1, last, false);
    return weft_convert(g, weft_reshape(g, place, 1, &count), WEFT_I64);
}

static weft_value *weights(weft_parameters *parameters, const char *name, const char *part, double scale, int rank,
                           const int64_t *shape) {
    char full[NAME_MAX];
    snprintf(full, sizeof full, "%s.%s", name, part);
    return weft_parameters_add(parameters, full, WEFT_INIT_NORMAL, scale, rank, shape);
}

/* The networks of all experts on rows ordered by expert. */
static weft_value *networks(weft_parameters *parameters, const weft_nn_experts_options *o, const char *name,
                            weft_value *rows, weft_value *offsets) {
    weft_graph *g = weft_parameters_graph(parameters);
    int64_t up[3] = {o->experts, o->hidden, o->width}, down[3] = {o->experts, o->width, o->hidden};
    double in = 1 / sqrt((double)o->width), out = 1 / sqrt((double)o->hidden);
    weft_value *w1 = weights(parameters, name, "w1", in, 3, up), *w2 = weights(parameters, name, "w2", out, 3, down),
               *w3 = weights(parameters, name, "w3", in, 3, up);
    weft_dtype dtype = weft_value_dtype(w1);
    rows = weft_nn_as(g, rows, dtype);
    weft_value *gate = weft_silu(g, weft_ragged_dot(g, rows, w1, offsets, 2, WEFT_INVALID));
    weft_value *h = weft_mul(g, gate, weft_ragged_dot(g, rows, w3, offsets, 2, WEFT_INVALID));
    return weft_ragged_dot(g, h, w2, offsets, 2, WEFT_INVALID);
}

/* x [T, D]; logits [T, E] in f32 or f64. */
static weft_value *mix(weft_parameters *parameters, const weft_nn_experts_options *o, const char *name, weft_value *x,
                       weft_value *logits, weft_value **out_chosen) {
    weft_graph *g = weft_parameters_graph(parameters);
    weft_dim tokens = weft_value_dim(x, 0), count = weft_dim_times(g, tokens, o->top), low = 0,
             grid[3] = {tokens, o->top, o->width};
    weft_dim blocks = weft_dim_floor_divide(g, weft_dim_plus(g, count, COUNTED - 1), COUNTED),
             high = weft_dim_minus(g, weft_dim_times(g, blocks, COUNTED), count);
    weft_value *gates, *offsets;
    int64_t middle[1] = {1}, sides[2] = {0, 1};
    weft_top_k(g, logits, o->top, -1, true, &gates, out_chosen);
    gates = weft_softmax(g, gates, -1);
    weft_value *choices = weft_reshape(g, *out_chosen, 1, &count);
    choices = weft_pad(g, choices, weft_scalar_integer(g, WEFT_I64, o->experts), &low, &high, NULL); /* of no expert */
    weft_value *places = weft_slice_axis(g, places_of(g, choices, o->experts, &offsets), 0, 0, count);
    weft_value *number = weft_iota(g, WEFT_I64, 1, &count, 0);
    weft_value *source = weft_put_along(g, WEFT_SET, number, places, number, 0);
    weft_value *token = weft_div(g, source, weft_scalar_integer(g, WEFT_I64, o->top));
    weft_value *y = networks(parameters, o, name, weft_take(g, x, token, 0), offsets);
    weft_dtype wide = weft_value_dtype(gates);
    y = weft_nn_as(g, weft_reshape(g, weft_take(g, y, places, 0), 3, grid), wide);
    y = weft_mul(g, y, weft_broadcast(g, gates, 3, grid, sides));
    return weft_nn_as(g, weft_reduce_sum(g, y, 1, middle, false), weft_value_dtype(x));
}

/* One problem at the door, instead of those of every op inside. */
static bool is_mixture(weft_graph *g, const weft_nn_experts_options *o, const weft_value *x) {
    int rank = x ? weft_value_rank(x) : 0;
    if (x && weft_value_dtype(x) == WEFT_INVALID) return false; /* has its problem already */
    if (!o || !x) {
        weft_graph_report(
            g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_experts: %s missing", o ? "x is" : "the options are"));
    } else if (o->width < 1 || o->hidden < 1 || o->experts < 1 || o->top < 1 || o->top > o->experts ||
               o->width > INT32_MAX || o->hidden > INT32_MAX || o->experts > INT32_MAX) {
        weft_graph_report(
            g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_experts: %lld of %lld experts of width %lld and hidden %lld",
                           (long long)o->top, (long long)o->experts, (long long)o->width, (long long)o->hidden));
    } else if (rank < 2 || (weft_value_dim(x, rank - 1) >= 0 && weft_value_dim(x, rank - 1) != o->width)) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                         "weft_nn_experts: x of rank %d; it is [..., %lld], of rank 2 or more", rank,
                                         (long long)o->width));
    } else {
        return true;
    }
    return false;
}

weft_value *weft_nn_experts(weft_parameters *parameters, const weft_nn_experts_options *options, const char *name,
                            weft_value *x, weft_value **out_logits, weft_value **out_chosen) {
    if (!parameters) return NULL; /* there is no graph for a problem; what takes the result has one */
    weft_graph *g = weft_parameters_graph(parameters);
    weft_value *logits, *chosen;
    if (!out_logits) out_logits = &logits;
    if (!out_chosen) out_chosen = &chosen;
    *out_logits = *out_chosen = NULL;
    weft_nn_experts_options own = WEFT_NN_EXPERTS_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_NN_EXPERTS_OPTIONS_INIT)) ||
        !is_mixture(g, options ? &own : NULL, x))
        return NULL;
    int rank = weft_value_rank(x);
    weft_dim dims[16], rows = 1;
    for (int i = 0; i < rank; i++) dims[i] = weft_value_dim(x, i);
    for (int i = 0; i < rank - 1; i++) rows = weft_dim_times(g, rows, dims[i]);
    int64_t router[2] = {own.experts, own.width};
    x = weft_reshape(g, x, 2, (weft_dim[]){rows, own.width});
    weft_value *w = weights(parameters, name, "router", 1 / sqrt((double)own.width), 2, router);
    /* choices are made in the parameters' own precision */
    weft_dtype exact = weft_parameters_dtype(parameters);
    *out_logits = weft_nn_linear(g, weft_nn_as(g, x, exact), weft_nn_as(g, w, exact), NULL);
    weft_value *y = mix(parameters, &own, name, x, *out_logits, out_chosen);
    return weft_reshape(g, y, rank, dims);
}
