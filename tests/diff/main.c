/* Derivatives: every case against central differences in f64, and <u, J v> = <J^T u, v>; the gradient of an MLP. */
#include "tests/diff/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weft/compile.h"

enum { INPUTS_MAX = 4, ELEMENTS_MAX = 256 };

typedef weft_value *(*builder)(weft_graph *g, weft_value **x);

typedef struct test_case {
    const char *name;
    builder build;
    int input_count;
    int rank[INPUTS_MAX];
    int64_t shape[INPUTS_MAX][4];
    double low, high; /* of the inputs */
} test_case;

static weft_value *d_exp(weft_graph *g, weft_value **x) { return weft_exp(g, x[0]); }
static weft_value *d_tanh(weft_graph *g, weft_value **x) { return weft_tanh(g, x[0]); }
static weft_value *d_many_unary(weft_graph *g, weft_value **x) {
    weft_value *a = weft_add(g, weft_sin(g, x[0]), weft_mul(g, weft_cos(g, x[0]), weft_logistic(g, x[0])));
    weft_value *b = weft_add(g, weft_erf(g, x[0]), weft_atan(g, x[0]));
    weft_value *c = weft_add(g, weft_log(g, x[0]), weft_add(g, weft_sqrt(g, x[0]), weft_rsqrt(g, x[0])));
    weft_value *d = weft_add(g, weft_expm1(g, x[0]), weft_add(g, weft_log1p(g, x[0]), weft_tan(g, x[0])));
    return weft_add(g, weft_add(g, a, b), weft_add(g, c, d));
}
static weft_value *d_inverse_unary(weft_graph *g, weft_value **x) {
    weft_value *a = weft_add(g, weft_asin(g, x[0]), weft_acos(g, weft_mul_number(g, x[0], 0.5)));
    weft_value *b = weft_add(g, weft_asinh(g, x[0]),
                             weft_add(g, weft_atanh(g, x[0]), weft_acosh(g, weft_add_number(g, x[0], 1.5))));
    return weft_add(g, weft_add(g, a, b),
                    weft_add(g, weft_sinh(g, x[0]), weft_mul(g, weft_cosh(g, x[0]), weft_abs(g, x[0]))));
}
static weft_value *d_binary(weft_graph *g, weft_value **x) {
    weft_value *a = weft_div(g, weft_mul(g, x[0], x[1]), weft_add(g, x[0], x[1]));
    weft_value *b = weft_sub(g, weft_pow(g, x[0], x[1]), weft_max(g, x[0], x[1]));
    return weft_add(g, weft_add(g, a, b), weft_add(g, weft_atan2(g, x[0], x[1]), weft_min(g, x[0], weft_neg(g, x[1]))));
}
static weft_value *d_broadcast(weft_graph *g, weft_value **x) { return weft_mul(g, x[0], weft_add(g, x[1], x[2])); }
static weft_value *d_select(weft_graph *g, weft_value **x) {
    return weft_where(g, weft_compare(g, WEFT_LT, x[0], x[1]), weft_square(g, x[0]), weft_mul(g, x[0], x[1]));
}
static weft_value *d_movement(weft_graph *g, weft_value **x) {
    int64_t permutation[3] = {2, 0, 1}, reversed[2] = {0, 2}, interior[3] = {1, 0, 2}, stride[3] = {2, 1, 2};
    weft_dim low[3] = {1, -1, 0}, high[3] = {0, 2, 1}, shape[2] = {3, 20}, start[3] = {1, 0, 1}, limit[3] = {5, 3, 6};
    weft_value *t = weft_transpose(g, x[0], permutation);
    weft_value *p =
        weft_pad(g, t, weft_mul_number(g, weft_reduce_sum(g, x[1], 0, NULL, false), 0.5), low, high, interior);
    weft_value *s = weft_slice(g, weft_reverse(g, p, 2, reversed), start, limit, stride);
    weft_value *parts[2] = {weft_reshape(g, x[0], 2, shape), weft_reshape(g, t, 2, shape)};
    weft_value *sum = weft_reduce_sum(g, weft_square(g, s), 3, (int64_t[]){0, 1, 2}, false);
    return weft_mul(g, weft_concat(g, 1, 2, parts), sum);
}
static weft_value *d_reduce(weft_graph *g, weft_value **x) {
    weft_value *a = weft_reduce_sum(g, x[0], 1, (int64_t[]){1}, false),
               *b = weft_reduce_product(g, x[0], 1, (int64_t[]){1}, false);
    weft_value *c = weft_reduce_max(g, x[0], 1, (int64_t[]){1}, false),
               *d = weft_reduce_mean(g, weft_square(g, x[0]), 1, (int64_t[]){1}, false);
    return weft_add(g, weft_mul(g, a, b), weft_mul(g, c, d));
}
static weft_value *d_cumulative(weft_graph *g, weft_value **x) {
    return weft_square(g, weft_cumulative(g, WEFT_SUM, x[0], 1, true, false));
}
static weft_value *d_matmul(weft_graph *g, weft_value **x) { return weft_tanh(g, weft_matmul(g, x[0], x[1])); }
static weft_value *d_dot(weft_graph *g, weft_value **x) {
    weft_dot_options o =
        WEFT_DOT_OPTIONS_INIT; /* x [K, B, M, J], y [B, J, N, K]: batch B, contract K and J in crossed order */
    o.batch_count = 1, o.contract_count = 2;
    o.lhs_batch = (int64_t[]){1}, o.rhs_batch = (int64_t[]){0}, o.lhs_contract = (int64_t[]){0, 3},
    o.rhs_contract = (int64_t[]){3, 1};
    return weft_sin(g, weft_dot_general(g, x[0], x[1], &o));
}
static weft_value *d_convolution(weft_graph *g, weft_value **x) {
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    o.stride = (int64_t[]){2, 1}, o.low = (weft_dim[]){1, 0}, o.high = (weft_dim[]){0, 2},
    o.dilation = (int64_t[]){1, 2}, o.groups = 2;
    return weft_square(g, weft_convolution(g, x[0], x[1], &o));
}
static weft_value *d_transposed_convolution(weft_graph *g, weft_value **x) {
    weft_convolution_options o = WEFT_CONVOLUTION_OPTIONS_INIT;
    o.stride = (int64_t[]){2}, o.low = (weft_dim[]){1}, o.high = (weft_dim[]){0};
    return weft_square(g, weft_convolution_transpose(g, x[0], x[1], &o));
}
static weft_value *d_pool(weft_graph *g, weft_value **x) {
    weft_pool_options o = WEFT_POOL_OPTIONS_INIT;
    o.window = (int64_t[]){3, 2}, o.stride = (int64_t[]){2, 1}, o.low = (weft_dim[]){1, 0}, o.high = (weft_dim[]){0, 1};
    return weft_square(g, weft_sum_pool(g, x[0], &o));
}
/* Overlapping windows, padding, dilation, holes; every kind. */
static weft_value *windows(weft_graph *g, weft_value *x, weft_reduction kind) {
    weft_window_options o = WEFT_WINDOW_OPTIONS_INIT;
    o.window = (int64_t[]){1, 3, 2}, o.stride = (int64_t[]){1, 2, 1}, o.dilation = (int64_t[]){1, 1, 2},
    o.base_dilation = (int64_t[]){1, 2, 1};
    o.low = (weft_dim[]){0, 1, 0}, o.high = (weft_dim[]){0, 1, 1};
    return weft_reduce_window(g, kind, x, &o);
}
static weft_value *d_windows(weft_graph *g, weft_value **x) {
    weft_value *extremes = weft_mul(g, windows(g, x[0], WEFT_MAX), windows(g, x[0], WEFT_MIN));
    return weft_add(g, weft_square(g, windows(g, x[0], WEFT_PRODUCT)), extremes);
}
static weft_value *d_max_pool(weft_graph *g, weft_value **x) {
    weft_pool_options o = WEFT_POOL_OPTIONS_INIT;
    o.window = (int64_t[]){3, 2}, o.stride = (int64_t[]){2, 1}, o.low = (weft_dim[]){1, 0}, o.high = (weft_dim[]){0, 1};
    return weft_square(g, weft_max_pool(g, x[0], &o));
}
static weft_value *d_cumulative_product(weft_graph *g, weft_value **x) {
    return weft_mul(g, weft_cumulative(g, WEFT_PRODUCT, x[0], 1, false, false),
                    weft_cumulative(g, WEFT_PRODUCT, x[0], 1, true, true));
}
/* At zero only one product of each row has a derivative. */
static weft_value *d_cumulative_zeros(weft_graph *g, weft_value **x) {
    return weft_cumulative(g, WEFT_PRODUCT, x[0], 1, true, false);
}
static weft_value *d_cumulative_extremes(weft_graph *g, weft_value **x) {
    weft_value *a = weft_mul(g, weft_cumulative(g, WEFT_MAX, x[0], 1, false, false),
                             weft_cumulative(g, WEFT_MIN, x[0], 1, false, true));
    return weft_add(g, a, weft_cumulative(g, WEFT_MIN, weft_square(g, x[0]), 0, false, false));
}
static weft_value *d_gather(weft_graph *g, weft_value **x) {
    return weft_square(g, weft_take(g, x[0], weft_integers(g, 4, (int64_t[]){2, 0, 2, 1}), 0));
}
static weft_value *d_scatter(weft_graph *g, weft_value **x) {
    int64_t shape[2] = {3, 1};
    weft_value *indices = weft_reshape(g, weft_integers(g, 3, (int64_t[]){1, 3, 1}), 2, shape);
    return weft_square(g, weft_scatter_nd(g, WEFT_SUM, x[0], indices, x[1]));
}
/* Starts outside, on both sides: gather clamps them, scatter drops them. */
static weft_value *d_gather_outside(weft_graph *g, weft_value **x) {
    return weft_square(g, weft_take(g, x[0], weft_integers(g, 5, (int64_t[]){2, -1, 7, 1, INT64_MAX}), 0));
}
static weft_value *scatter_outside(weft_graph *g, weft_reduction kind, weft_value **x) {
    int64_t shape[2] = {5, 1};
    weft_value *indices = weft_reshape(g, weft_integers(g, 5, (int64_t[]){1, 5, -1, 3, INT64_MAX}), 2, shape);
    return weft_square(g, weft_scatter_nd(g, kind, x[0], indices, x[1]));
}
static weft_value *d_scatter_outside(weft_graph *g, weft_value **x) { return scatter_outside(g, WEFT_SUM, x); }
static weft_value *d_scatter_set_outside(weft_graph *g, weft_value **x) { return scatter_outside(g, WEFT_SET, x); }
static weft_value *d_scatter_max_outside(weft_graph *g, weft_value **x) { return scatter_outside(g, WEFT_MAX, x); }
static weft_value *d_scatter_extrema(weft_graph *g, weft_value **x) {
    int64_t shape[2] = {4, 1};
    weft_value *indices = weft_reshape(g, weft_integers(g, 4, (int64_t[]){1, 0, 1, 1}), 2, shape);
    return weft_add(g, weft_square(g, weft_scatter_nd(g, WEFT_MAX, x[0], indices, x[1])),
                    weft_scatter_nd(g, WEFT_MIN, x[0], indices, x[1]));
}
/* [6, 1]: 1, but 0 for two of the three updates that meet. */
static weft_value *column_with_zeros(weft_graph *g) {
    int64_t shape[2] = {6, 1};
    return weft_reshape(g, weft_convert(g, weft_integers(g, 6, (int64_t[]){0, 1, 0, 1, 1, 1}), WEFT_F64), 2, shape);
}

static weft_value *complex_numbers(weft_graph *g, weft_value **x, bool products) {
    weft_value *z = weft_complex(g, x[0], x[1]),
               *w = weft_complex(g, weft_add_number(g, x[1], 2), weft_square(g, x[0]));
    weft_value *product = weft_mul(g, z, w), *mixed = weft_div(g, product, weft_add(g, w, z));
    if (products) mixed = weft_matmul(g, mixed, z);
    weft_value *all = weft_reduce(g, WEFT_PRODUCT, weft_add(g, mixed, w), 1, (int64_t[]){1}, false);
    weft_value *parts = weft_mul(g, weft_real(g, product), weft_imag(g, mixed));
    return weft_add(g, parts, weft_unsqueeze(g, weft_imag(g, weft_mul(g, all, all)), 1, (int64_t[]){1}));
}
static weft_value *d_complex(weft_graph *g, weft_value **x) { return complex_numbers(g, x, false); }
static weft_value *d_complex_products(weft_graph *g, weft_value **x) { return complex_numbers(g, x, true); }
/* Three updates meet in one element; one is dropped. */
static weft_value *d_scatter_product(weft_graph *g, weft_value **x) {
    int64_t shape[2] = {6, 1};
    weft_value *indices = weft_reshape(g, weft_integers(g, 6, (int64_t[]){1, 0, 1, 7, 1, 2}), 2, shape);
    return weft_scatter_nd(g, WEFT_PRODUCT, x[0], indices, x[1]);
}
static weft_value *d_scatter_product_zeros(weft_graph *g, weft_value **x) {
    weft_value *low = column_with_zeros(g);
    return d_scatter_product(g, (weft_value *[]){x[0], weft_mul(g, x[1], low)});
}
static weft_value *d_scatter_product_second(weft_graph *g, weft_value **x) {
    weft_value *gradient, *y = d_scatter_product_zeros(g, x);
    weft_gradient(g, weft_square(g, y), NULL, 1, &x[1], &gradient);
    return gradient;
}
/* Windows of 2 by 2 of an operand of 4 by 5, two components an index: inside, over a corner on either side, far away.
 */
static weft_gather_options windows_outside(void) {
    static const int64_t axes[2] = {0, 1}, offset[2] = {1, 2};
    weft_gather_options o = WEFT_GATHER_OPTIONS_INIT;
    o.offset_axes = offset, o.offset_count = 2, o.index_map = axes, o.index_map_count = 2, o.index_axis = 1;
    return o;
}
static weft_value *window_starts(weft_graph *g) {
    int64_t shape[2] = {6, 2};
    return weft_reshape(g, weft_integers(g, 12, (int64_t[]){1, 2, 3, 4, -1, -1, -2, 0, 0, 5, INT64_MIN, INT64_MAX}), 2,
                        shape);
}
static weft_value *d_gather_windows(weft_graph *g, weft_value **x) {
    weft_gather_options o = windows_outside();
    weft_dim sizes[2] = {2, 2};
    o.sizes = sizes;
    return weft_square(g, weft_gather(g, x[0], window_starts(g), &o));
}
static weft_value *scatter_windows(weft_graph *g, weft_reduction kind, weft_value **x) {
    weft_gather_options o = windows_outside();
    return weft_square(g, weft_scatter(g, kind, x[0], window_starts(g), x[1], &o));
}
static weft_value *d_scatter_windows(weft_graph *g, weft_value **x) { return scatter_windows(g, WEFT_SUM, x); }
static weft_value *d_scatter_windows_set(weft_graph *g, weft_value **x) { return scatter_windows(g, WEFT_SET, x); }
static weft_value *d_scatter_windows_min(weft_graph *g, weft_value **x) { return scatter_windows(g, WEFT_MIN, x); }
static weft_value *d_scatter_windows_product(weft_graph *g, weft_value **x) {
    return scatter_windows(g, WEFT_PRODUCT, x);
}
static weft_value *d_dynamic(weft_graph *g, weft_value **x) {
    weft_value *starts[2] = {weft_scalar_integer(g, WEFT_I64, 1), weft_scalar_integer(g, WEFT_I64, 2)};
    weft_dim sizes[2] = {2, 2};
    weft_value *piece = weft_dynamic_slice(g, x[0], starts, sizes);
    return weft_square(g, weft_dynamic_update_slice(g, x[0], weft_mul(g, piece, x[1]), starts));
}
static weft_value *d_dynamic_outside(weft_graph *g, weft_value **x) {
    weft_value *starts[2] = {weft_scalar_integer(g, WEFT_I64, -3), weft_scalar_integer(g, WEFT_I64, 9)};
    weft_dim sizes[2] = {2, 2};
    weft_value *piece = weft_dynamic_slice(g, x[0], starts, sizes);
    return weft_square(g, weft_dynamic_update_slice(g, x[0], weft_mul(g, piece, x[1]), starts));
}
static weft_value *d_sort(weft_graph *g, weft_value **x) {
    weft_value *in[2] = {x[0], weft_square(g, x[0])}, *out[2], *values, *indices;
    weft_sort(g, 2, in, 1, true, true, out);
    weft_top_k(g, x[0], 2, 1, true, &values, &indices);
    return weft_add(g, weft_mul(g, out[0], out[1]),
                    weft_reduce_sum(g, weft_exp(g, values), 2, (int64_t[]){0, 1}, false));
}
static weft_value *d_softmax(weft_graph *g, weft_value **x) {
    return weft_mul(g, weft_softmax(g, x[0], 1), weft_log_softmax(g, x[0], 1));
}
static weft_value *d_norms(weft_graph *g, weft_value **x) {
    int64_t axes[1] = {1};
    return weft_add(g, weft_square(g, weft_layer_norm(g, x[0], x[1], x[2], 1, axes, 1e-3)),
                    weft_rms_norm(g, x[0], x[1], 1, axes, 1e-3));
}
static weft_value *d_activations(weft_graph *g, weft_value **x) {
    weft_value *a = weft_add(g, weft_gelu(g, x[0], false), weft_gelu(g, x[0], true));
    return weft_add(g, a, weft_mul(g, weft_silu(g, x[0]), weft_softplus(g, x[0])));
}
static weft_value *d_attention(weft_graph *g, weft_value **x) {
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = true;
    return weft_attention(g, x[0], x[1], x[2], NULL, &o);
}
/* Dropout with a learned mask that batches and queries share, and over more than one cell of its draws. */
static weft_value *d_attention_dropout(weft_graph *g, weft_value **x) {
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    weft_value *words[2] = {weft_scalar_integer(g, WEFT_U64, 77), weft_scalar_integer(g, WEFT_U64, 5)};
    o.causal = true, o.soft_cap = 2, o.dropout = 0.4, o.dropout_key = weft_stack(g, 0, 2, words);
    return weft_attention(g, x[0], x[1], x[2], x[3], &o);
}
/* Grouped heads, more keys than queries, a cap, an additive mask that is learned, and rows that see no key. */
static weft_value *d_attention_masks(weft_graph *g, weft_value **x) {
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.soft_cap = 2, o.window_left = 2, o.scale = 0.7;
    weft_value *a = weft_attention(g, x[0], x[1], x[2], x[3], &o);
    o.soft_cap = 0, o.window_left = -1, o.causal = true;
    weft_dim start[4] = {0}, limit[4] = {1, 1, 2, 4}, rows[4] = {1, 1, 2, 3};
    int64_t stride[4] = {1, 1, 1, 1};
    weft_value *k = weft_slice(g, x[1], start, limit, stride), *v = weft_slice(g, x[2], start, rows, stride);
    return weft_add(g, a, weft_attention(g, x[0], k, v, NULL, &o));
}
/* The gradient of attention's gradient, and the tangent of its tangent. */
static weft_value *attention_gradients(weft_graph *g, weft_value **x, bool forward) {
    weft_attention_options o = WEFT_ATTENTION_OPTIONS_INIT;
    o.causal = true, o.soft_cap = 3;
    weft_value *y = weft_attention(g, x[0], x[1], x[2], NULL, &o), *inner[3], *sum;
    if (forward) return weft_mul(g, weft_jvp(g, y, 3, x, (weft_value *[]){weft_sin(g, x[0]), x[2], x[1]}), y);
    weft_gradient(g, weft_mul(g, y, y), NULL, 3, x, inner);
    sum = weft_add(g, weft_mul(g, inner[1], x[2]), weft_mul(g, inner[2], x[1]));
    return weft_add(g, weft_mul(g, inner[0], y), weft_reduce_sum(g, sum, 4, (int64_t[]){0, 1, 2, 3}, false));
}
static weft_value *d_attention_second(weft_graph *g, weft_value **x) { return attention_gradients(g, x, false); }
static weft_value *d_attention_tangents(weft_graph *g, weft_value **x) { return attention_gradients(g, x, true); }
/* The gradient of a gradient. */
static weft_value *d_second(weft_graph *g, weft_value **x) {
    weft_value *inner,
        *y = weft_reduce_sum(g, weft_mul(g, weft_tanh(g, x[0]), weft_exp(g, x[0])), 1, (int64_t[]){0}, false);
    weft_gradient(g, y, NULL, 1, x, &inner);
    return weft_square(g, inner);
}
/* tanh MLP with two hidden layers and a mean squared error. */
static weft_value *d_mlp(weft_graph *g, weft_value **x) {
    weft_value *h = weft_tanh(g, weft_matmul(g, x[0], x[1]));
    weft_value *y = weft_matmul(g, weft_tanh(g, weft_matmul(g, h, x[2])), x[3]);
    return weft_reduce_mean(g, weft_square(g, weft_sub(g, y, weft_reduce_sum(g, x[0], 1, (int64_t[]){1}, true))), 2,
                            (int64_t[]){0, 1}, false);
}

/* -- linear algebra: of x x^T + 3, or of x itself */
static weft_value *definite(weft_graph *g, weft_value *x) {
    weft_dim square[2] = {3, 3};
    weft_value *eye = weft_convert(
        g, weft_compare(g, WEFT_EQ, weft_iota(g, WEFT_I64, 2, square, 0), weft_iota(g, WEFT_I64, 2, square, 1)),
        WEFT_F64);
    weft_value *scales = weft_add_number(g, weft_iota(g, WEFT_F64, 2, square, 0), 3); /* far from equal eigenvalues */
    return weft_add(g, weft_matmul(g, x, weft_transpose(g, x, (int64_t[]){0, 2, 1})), weft_mul(g, eye, scales));
}
static weft_value *d_cholesky(weft_graph *g, weft_value **x) {
    weft_value *a = definite(g, x[0]);
    return weft_add(g, weft_square(g, weft_cholesky(g, weft_add(g, a, x[1]), true)),
                    weft_sin(g, weft_cholesky(g, weft_sub(g, a, x[1]), false)));
}
static weft_value *d_solve(weft_graph *g, weft_value **x) {
    weft_value *a = definite(g, x[0]), *sum = weft_triangular_solve(g, a, x[1], true, true, false, false);
    sum = weft_add(g, sum, weft_triangular_solve(g, a, x[1], true, false, true, true));
    sum = weft_add(g, sum, weft_triangular_solve(g, a, x[1], false, true, true, false));
    return weft_square(g, weft_add(g, sum, weft_triangular_solve(g, a, x[1], false, false, false, true)));
}
static weft_value *d_eigh(weft_graph *g, weft_value **x) {
    weft_value *w, *v;
    weft_eigh(g, weft_add(g, definite(g, x[0]), x[1]), &w, &v);
    return weft_mul(g, weft_square(g, v), weft_reshape(g, weft_sin(g, w), 3, (weft_dim[]){2, 1, 3}));
}
static weft_value *d_qr(weft_graph *g, weft_value **x) {
    weft_value *q, *r;
    weft_qr(g, x[0], &q, &r);
    return weft_matmul(g, weft_square(g, q), weft_sin(g, r));
}
static weft_value *d_fft(weft_graph *g, weft_value **x) {
    weft_value *f = weft_fft(g, weft_complex(g, x[0], x[1]), 1, false);
    weft_value *h = weft_fft(g, weft_complex(g, weft_square(g, weft_real(g, f)), weft_imag(g, f)), 0, true);
    return weft_mul(g, weft_real(g, h), weft_sin(g, weft_imag(g, h)));
}
static weft_value *d_select_and_scatter(weft_graph *g, weft_value **x) {
    weft_window_options o = WEFT_WINDOW_OPTIONS_INIT;
    o.window = (int64_t[]){2, 3}, o.stride = (int64_t[]){1, 2};
    o.low = (weft_dim[]){0, 1}, o.high = (weft_dim[]){1, 0};
    return weft_square(g, weft_select_and_scatter(g, x[0], x[1], &o));
}

/* -- loops and branches */
typedef struct outer_values {
    weft_value *w, *bias;
} outer_values;
/* h' = tanh(h w + x + bias), y = h' x; w and bias come from outside */
static void cell(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    outer_values *o = self;
    weft_value *h = weft_add(g, weft_add(g, weft_matmul(g, a[0], o->w), a[1]), o->bias);
    results[0] = weft_tanh(g, h);
    results[1] = weft_mul(g, results[0], weft_exp(g, a[1]));
}
static weft_value *recurrent(weft_graph *g, weft_value **x, bool reverse) {
    outer_values o = {weft_sin(g, x[2]), weft_reduce_sum(g, x[2], 1, (int64_t[]){0}, true)};
    weft_value *results[2];
    weft_scan(g, 1, &x[0], 1, &x[1], 4, reverse, cell, &o, 1, results);
    return weft_add(g, weft_square(g, results[0]),
                    weft_reduce_sum(g, weft_sin(g, results[1]), 1, (int64_t[]){0}, false));
}
static weft_value *d_scan(weft_graph *g, weft_value **x) { return recurrent(g, x, false); }
static weft_value *d_scan_reverse(weft_graph *g, weft_value **x) { return recurrent(g, x, true); }
/* an inner scan over the rows of a slice, its result the outer's carry; a counter that has no tangent */
static void inner_step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    results[0] = weft_mul(g, a[0], weft_add(g, weft_sin(g, a[1]), ((weft_value **)self)[0]));
}
static void outer_step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    weft_value *product;
    weft_value *captured[1] = {weft_mul(g, a[0], ((weft_value **)self)[0])};
    weft_scan(g, 1, &a[0], 1, &a[2], 3, false, inner_step, captured, 0, &product);
    results[0] = product;
    results[1] = weft_add(g, a[1], weft_scalar_integer(g, WEFT_I64, 1));
    results[2] = weft_mul(g, product, weft_convert(g, results[1], WEFT_F64));
}
static weft_value *d_nested_scan(weft_graph *g, weft_value **x) {
    weft_value *carries[2] = {x[0], weft_scalar_integer(g, WEFT_I64, 0)}, *results[3];
    weft_scan(g, 2, carries, 1, &x[1], 2, false, outer_step, &x[2], 1, results);
    return weft_add(g, results[2], results[0]);
}
/* a carry that gets its tangent in the second trip only, through another one */
static void late_step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_mul(g, a[0], a[2]);
    results[1] = weft_add(g, a[1], weft_sin(g, a[0]));
}
static weft_value *d_late_carry(weft_graph *g, weft_value **x) {
    weft_value *carries[2] = {weft_scalar(g, WEFT_F64, 1), weft_scalar(g, WEFT_F64, 0)}, *results[2];
    weft_scan(g, 2, carries, 1, x, 5, false, late_step, NULL, 0, results);
    return results[1];
}
static void branch_yes(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    weft_value **x = self;
    (void)a;
    results[0] = weft_mul(g, weft_exp(g, x[0]), x[1]);
    results[1] = x[1];
}
static void branch_no(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    weft_value **x = self;
    (void)a;
    results[0] = weft_sin(g, x[0]);
    results[1] = weft_square(g, weft_cos(g, x[0]));
}
static weft_value *branch(weft_graph *g, weft_value **x, double limit) {
    weft_value *sum = weft_reduce_sum(g, x[0], 0, NULL, false), *results[2];
    weft_value *inner[2] = {weft_square(g, x[0]), x[1]};
    weft_cond(g, weft_compare(g, WEFT_GT, sum, weft_scalar(g, WEFT_F64, limit)), branch_yes, branch_no, inner, 2,
              results);
    return weft_mul(g, results[0], weft_add_number(g, results[1], 0.5));
}
static weft_value *d_cond_yes(weft_graph *g, weft_value **x) { return branch(g, x, -100); }
static weft_value *d_cond_no(weft_graph *g, weft_value **x) { return branch(g, x, 100); }
/* a branch in each trip, taken by some of them */
static void choosing_step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    weft_value *inner[2] = {a[0], weft_mul(g, a[1], ((weft_value **)self)[0])}, *both[2];
    weft_value *test = weft_compare(g, WEFT_GT, weft_reduce_sum(g, a[1], 0, NULL, false), weft_scalar(g, WEFT_F64, 0));
    weft_cond(g, test, branch_yes, branch_no, inner, 2, both);
    results[0] = weft_mul_number(g, weft_add(g, both[0], both[1]), 0.3);
}
static weft_value *d_cond_in_scan(weft_graph *g, weft_value **x) {
    weft_value *result;
    weft_scan(g, 1, &x[0], 1, &x[1], 6, false, choosing_step, &x[2], 0, &result);
    return result;
}
/* halve until the sum is small: three trips of the six allowed */
static void while_more(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    (void)self;
    results[0] = weft_compare(g, WEFT_LT, a[1], weft_scalar_integer(g, WEFT_I64, 3));
}
static void while_step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    results[0] = weft_sin(g, weft_mul(g, a[0], ((weft_value **)self)[0]));
    results[1] = weft_add(g, a[1], weft_scalar_integer(g, WEFT_I64, 1));
}
static weft_value *d_while(weft_graph *g, weft_value **x) {
    weft_value *init[2] = {x[0], weft_scalar_integer(g, WEFT_I64, 0)}, *results[2];
    weft_while(g, 2, init, 6, while_more, while_step, &x[1], results);
    return weft_square(g, results[0]);
}
/* second derivatives through all of it */
static weft_value *d_second_scan(weft_graph *g, weft_value **x) {
    weft_value *inner[2], *y = weft_reduce_sum(g, recurrent(g, x, false), 0, NULL, false);
    weft_gradient(g, y, NULL, 2, (weft_value *[]){x[0], x[2]}, inner);
    return weft_mul(g, weft_sin(g, inner[0]), weft_reduce_sum(g, weft_square(g, inner[1]), 0, NULL, false));
}
static weft_value *d_second_cond(weft_graph *g, weft_value **x) {
    weft_value *inner[1], *y = weft_reduce_sum(g, d_cond_in_scan(g, x), 0, NULL, false);
    weft_gradient(g, y, NULL, 1, &x[2], inner);
    return weft_square(g, inner[0]);
}
/* a gradient inside a body, with respect to a value of outside and to the carry */
static void descent_step(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    weft_value *x = ((weft_value **)self)[0], *error = weft_sub(g, weft_tanh(g, weft_mul(g, a[0], x)), weft_cos(g, x));
    weft_value *loss = weft_reduce_sum(g, weft_square(g, error), 0, NULL, false), *gradient;
    weft_gradient(g, loss, NULL, 1, a, &gradient);
    results[0] = weft_sub(g, a[0], weft_mul_number(g, gradient, 0.1));
}
static weft_value *d_through_descent(weft_graph *g, weft_value **x) {
    weft_value *result;
    weft_scan(g, 1, &x[0], 0, NULL, 3, false, descent_step, &x[1], 0, &result);
    return result;
}

static const char *const names[3][INPUTS_MAX] = {
    {"x0", "x1", "x2", "x3"}, {"v0", "v1", "v2", "v3"}, {"g0", "g1", "g2", "g3"}};

static const test_case cases[] = {
    {"exp", d_exp, 1, {2}, {{3, 4}}, -1, 1},
    {"tanh", d_tanh, 1, {2}, {{3, 4}}, -2, 2},
    {"unary functions", d_many_unary, 1, {1}, {{7}}, 0.2, 1.2},
    {"inverse functions", d_inverse_unary, 1, {1}, {{7}}, 0.1, 0.8},
    {"binary", d_binary, 2, {2, 2}, {{3, 4}, {3, 4}}, 0.3, 2},
    {"broadcast", d_broadcast, 3, {2, 1, 2}, {{3, 4}, {4}, {3, 1}}, -1, 1},
    {"select", d_select, 2, {1, 1}, {{9}, {9}}, -1, 1},
    {"movement", d_movement, 2, {3, 0}, {{3, 4, 5}, {0}}, -1, 1},
    {"reduce", d_reduce, 1, {3}, {{2, 4, 3}}, 0.3, 1.5},
    {"cumulative", d_cumulative, 1, {2}, {{3, 5}}, -1, 1},
    {"matmul", d_matmul, 2, {3, 2}, {{2, 3, 4}, {4, 5}}, -1, 1},
    {"dot_general", d_dot, 2, {4, 4}, {{2, 3, 2, 4}, {3, 4, 3, 2}}, -1, 1},
    {"convolution", d_convolution, 2, {4, 4}, {{2, 4, 5, 6}, {6, 2, 3, 2}}, -1, 1},
    {"transposed convolution", d_transposed_convolution, 2, {3, 3}, {{2, 3, 5}, {3, 4, 3}}, -1, 1},
    {"sum pooling", d_pool, 1, {4}, {{1, 2, 5, 4}}, -1, 1},
    {"windows of every kind", d_windows, 1, {3}, {{2, 4, 6}}, 0.4, 1.6},
    {"max pooling", d_max_pool, 1, {4}, {{1, 2, 5, 4}}, -1, 1},
    {"cumulative product", d_cumulative_product, 1, {2}, {{3, 6}}, 0.5, 1.5},
    {"cumulative product of zeros", d_cumulative_zeros, 1, {2}, {{3, 6}}, 0, 0},
    {"cumulative extremes", d_cumulative_extremes, 1, {2}, {{3, 6}}, -1, 1},
    {"gather", d_gather, 1, {2}, {{3, 4}}, -1, 1},
    {"scatter", d_scatter, 2, {2, 2}, {{5, 3}, {3, 3}}, -1, 1},
    {"gather outside", d_gather_outside, 1, {2}, {{3, 4}}, -1, 1},
    {"gather of windows outside", d_gather_windows, 1, {2}, {{4, 5}}, -1, 1},
    {"scatter outside", d_scatter_outside, 2, {2, 2}, {{5, 3}, {5, 3}}, -1, 1},
    {"scatter set outside", d_scatter_set_outside, 2, {2, 2}, {{5, 3}, {5, 3}}, -1, 1},
    {"scatter max outside", d_scatter_max_outside, 2, {2, 2}, {{5, 3}, {5, 3}}, -1, 1},
    {"scatter max and min", d_scatter_extrema, 2, {2, 2}, {{3, 2}, {4, 2}}, -1, 1},
    {"complex numbers", d_complex, 2, {2, 2}, {{3, 3}, {3, 3}}, -1, 1},
    {"complex products", d_complex_products, 2, {2, 2}, {{3, 3}, {3, 3}}, -1, 1},
    {"scatter product", d_scatter_product, 2, {2, 2}, {{5, 3}, {6, 3}}, -1, 1},
    {"scatter product, zeros", d_scatter_product_zeros, 2, {2, 2}, {{5, 3}, {6, 3}}, -1, 1},
    {"scatter product, second order", d_scatter_product_second, 2, {2, 2}, {{5, 3}, {6, 3}}, -1, 1},
    {"scatter product of windows outside", d_scatter_windows_product, 2, {2, 3}, {{4, 5}, {6, 2, 2}}, -1, 1},
    {"scatter of windows outside", d_scatter_windows, 2, {2, 3}, {{4, 5}, {6, 2, 2}}, -1, 1},
    {"scatter set of windows outside", d_scatter_windows_set, 2, {2, 3}, {{4, 5}, {6, 2, 2}}, -1, 1},
    {"scatter min of windows outside", d_scatter_windows_min, 2, {2, 3}, {{4, 5}, {6, 2, 2}}, -1, 1},
    {"dynamic slices outside", d_dynamic_outside, 2, {2, 2}, {{4, 5}, {2, 2}}, -1, 1},
    {"dynamic slices", d_dynamic, 2, {2, 2}, {{4, 5}, {2, 2}}, -1, 1},
    {"sort", d_sort, 1, {2}, {{3, 5}}, -1, 1},
    {"softmax", d_softmax, 1, {2}, {{3, 5}}, -2, 2},
    {"norms", d_norms, 3, {2, 1, 1}, {{3, 6}, {6}, {6}}, -1, 1},
    {"activations", d_activations, 1, {1}, {{9}}, -2, 2},
    {"attention", d_attention, 3, {4, 4, 4}, {{1, 2, 3, 4}, {1, 1, 3, 4}, {1, 1, 3, 4}}, -1, 1},
    {"attention with masks",
     d_attention_masks,
     4,
     {4, 4, 4, 2},
     {{1, 2, 4, 4}, {1, 1, 5, 4}, {1, 1, 5, 3}, {4, 5}},
     -1,
     1},
    {"attention with dropout",
     d_attention_dropout,
     4,
     {4, 4, 4, 3},
     {{2, 2, 4, 3}, {2, 1, 18, 3}, {2, 1, 18, 2}, {2, 1, 18}},
     -1,
     1},
    {"attention, second order", d_attention_second, 3, {4, 4, 4}, {{1, 2, 3, 4}, {1, 1, 4, 4}, {1, 1, 4, 4}}, -1, 1},
    {"attention, tangents", d_attention_tangents, 3, {4, 4, 4}, {{1, 2, 3, 4}, {1, 1, 4, 4}, {1, 1, 4, 4}}, -1, 1},
    {"second order", d_second, 1, {1}, {{6}}, -1, 1},
    {"cholesky", d_cholesky, 2, {3, 3}, {{2, 3, 3}, {2, 3, 3}}, -0.4, 0.4},
    {"triangular_solve", d_solve, 2, {3, 3}, {{2, 3, 3}, {2, 3, 3}}, -1, 1},
    {"eigh", d_eigh, 2, {3, 3}, {{2, 3, 3}, {2, 3, 3}}, -0.3, 0.3},
    {"qr", d_qr, 1, {3}, {{2, 4, 3}}, -1, 1},
    {"fft", d_fft, 2, {2, 2}, {{3, 4}, {3, 4}}, -1, 1},
    {"select_and_scatter", d_select_and_scatter, 2, {2, 2}, {{4, 6}, {4, 3}}, -1, 1},
    {"scan", d_scan, 3, {2, 3, 2}, {{2, 3}, {4, 2, 3}, {3, 3}}, -1, 1},
    {"scan from the end", d_scan_reverse, 3, {2, 3, 2}, {{2, 3}, {4, 2, 3}, {3, 3}}, -1, 1},
    {"nested scan", d_nested_scan, 3, {1, 3, 1}, {{2}, {2, 3, 2}, {2}}, 0.2, 1},
    {"late carry", d_late_carry, 1, {1}, {{5}}, 0.5, 1.5},
    {"cond, yes", d_cond_yes, 2, {1, 1}, {{4}, {4}}, -1, 1},
    {"cond, no", d_cond_no, 2, {1, 1}, {{4}, {4}}, -1, 1},
    {"cond in scan", d_cond_in_scan, 3, {1, 2, 1}, {{3}, {6, 3}, {3}}, -1, 1},
    {"while", d_while, 2, {1, 1}, {{4}, {4}}, 0.5, 1.5},
    {"second order through scan", d_second_scan, 3, {2, 3, 2}, {{2, 3}, {4, 2, 3}, {3, 3}}, -1, 1},
    {"second order through cond in scan", d_second_cond, 3, {1, 2, 1}, {{3}, {6, 3}, {3}}, -1, 1},
    {"through gradient descent", d_through_descent, 2, {1, 1}, {{3}, {3}}, -1, 1},
    {"mlp", d_mlp, 4, {2, 2, 2, 2}, {{5, 3}, {3, 7}, {7, 6}, {6, 1}}, -1, 1},
};

static unsigned long long state = 1;
double uniform(double low, double high) {
    unsigned long long z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return low + (high - low) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

void expect(weft_status status, const char *name) {
    if (!status) return;
    char text[2000];
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_abort_msg("%s: %s", name, text);
}

double *elements(weft_tensor *t) { return weft_tensor_data(t); }

double dot(weft_tensor *a, weft_tensor *b) {
    double sum = 0;
    for (int64_t i = 0; i < weft_tensor_element_count(a); i++) sum += elements(a)[i] * elements(b)[i];
    return sum;
}

weft_tensor *random_tensor(weft_context *context, int rank, const int64_t *shape, double low, double high) {
    weft_tensor *t;
    expect(weft_tensor_create(context, WEFT_F64, rank, shape, &t), "tensor");
    for (int64_t i = 0; i < weft_tensor_element_count(t); i++) elements(t)[i] = uniform(low, high);
    return t;
}

void compare_compiled(weft_graph *g, int input_count, weft_tensor *const *inputs, int output_count,
                      weft_tensor *const *expected, double tolerance, const char *name) {
#ifdef WEFT_HAVE_LLVM
    weft_program *program;
    weft_session *session;
    weft_tensor *out[16] = {0};
    ck_assert_int_le(output_count, 16);
    expect(weft_compile(g, NULL, &program), name);
    expect(weft_session_create(program, &session), name);
    expect(weft_session_call(session, input_count, inputs, output_count, out), name);
    for (int i = 0; i < output_count; i++) {
        for (int64_t e = 0; e < weft_tensor_element_count(expected[i]); e++) {
            double x = elements(out[i])[e], y = elements(expected[i])[e];
            ck_assert_msg(fabs(x - y) <= tolerance * (1 + fabs(y)),
                          "%s: compiled output %d element %lld: %.15g, not %.15g", name, i, (long long)e, x, y);
        }
        weft_tensor_release(out[i]);
    }
    weft_session_release(session);
    weft_program_release(program);
#else
    (void)g, (void)input_count, (void)inputs, (void)output_count, (void)expected, (void)tolerance, (void)name;
#endif
}

/* Elements that attain an extremum together share its cotangent. */
START_TEST(ties) {
    static const double values[4] = {1, 3, 3, 0}, expected[4] = {0, 2.5, 2.5, 0};
    weft_context *context;
    weft_graph *g;
    weft_tensor *in, *out;
    expect(weft_context_create(NULL, &context), "ties");
    expect(weft_graph_create(context, "ties", &g), "ties");
    weft_value *x = weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){4}), *gradient;
    weft_gradient(g, weft_reduce_max(g, x, 0, NULL, false), weft_scalar(g, WEFT_F64, 5), 1, &x, &gradient);
    weft_graph_output(g, "gradient", gradient);
    expect(weft_tensor_create_copy(context, WEFT_F64, 1, (int64_t[]){4}, values, &in), "ties");
    expect(weft_graph_interpret(g, 1, &in, 1, &out), "ties");
    for (int i = 0; i < 4; i++) ck_assert_double_eq(elements(out)[i], expected[i]);
    weft_tensor_release(in);
    weft_tensor_release(out);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

/* The least number there is stands beside padding, which counts as that: the element takes the cotangent. */
START_TEST(extremum_beside_padding) {
    static const double values[4] = {-INFINITY, -INFINITY, 2, 1}, expected[4] = {7, 0, 22, 0};
    weft_context *context;
    weft_graph *g;
    weft_tensor *in, *out;
    expect(weft_context_create(NULL, &context), "padding");
    expect(weft_graph_create(context, "padding", &g), "padding");
    weft_value *x = weft_graph_input(g, "x", WEFT_F64, 1, (weft_dim[]){4}), *gradient;
    weft_window_options o = WEFT_WINDOW_OPTIONS_INIT;
    int64_t window = 2, stride = 1;
    weft_dim low = 1, none = 0;
    o.window = &window, o.stride = &stride, o.low = &low, o.high = &none;
    weft_value *y = weft_reduce_window(g, WEFT_MAX, x, &o); /* windows -1 0, 0 1, 1 2, 2 3 */
    weft_value *u = weft_convert(g, weft_integers(g, 4, (int64_t[]){2, 5, 9, 13}), WEFT_F64);
    weft_gradient(g, y, u, 1, &x, &gradient);
    weft_graph_output(g, "gradient", gradient);
    expect(weft_tensor_create_copy(context, WEFT_F64, 1, (int64_t[]){4}, values, &in), "padding");
    expect(weft_graph_interpret(g, 1, &in, 1, &out), "padding");
    for (int i = 0; i < 4; i++) ck_assert_double_eq(elements(out)[i], expected[i]);
    compare_compiled(g, 1, &in, 1, &out, 0, "padding");
    weft_tensor_release(in);
    weft_tensor_release(out);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

START_TEST(derivatives) {
    const test_case *c = &cases[_i];
    weft_context *context;
    weft_graph *g;
    expect(weft_context_create(NULL, &context), c->name);
    expect(weft_graph_create(context, c->name, &g), c->name);
    int n = c->input_count;
    weft_value *x[INPUTS_MAX], *v[INPUTS_MAX], *gradients[INPUTS_MAX];
    for (int i = 0; i < n; i++) x[i] = weft_graph_input(g, names[0][i], WEFT_F64, c->rank[i], c->shape[i]);
    for (int i = 0; i < n; i++) v[i] = weft_graph_input(g, names[1][i], WEFT_F64, c->rank[i], c->shape[i]);
    weft_value *y = c->build(g, x);
    int rank = weft_value_rank(y);
    int64_t shape[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = weft_value_dim(y, i);
    weft_value *u = weft_graph_input(g, "u", WEFT_F64, rank, shape);
    weft_value *jv = weft_jvp(g, y, n, x, v);
    weft_gradient(g, y, u, n, x, gradients);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "jv", jv);
    for (int i = 0; i < n; i++) weft_graph_output(g, names[2][i], gradients[i]);
    expect(weft_graph_verify(g), c->name);

    weft_tensor *in[2 * INPUTS_MAX + 1], *out[INPUTS_MAX + 2], *up[INPUTS_MAX + 2], *down[INPUTS_MAX + 2];
    for (int i = 0; i < n; i++) in[i] = random_tensor(context, c->rank[i], c->shape[i], c->low, c->high);
    for (int i = 0; i < n; i++) in[n + i] = random_tensor(context, c->rank[i], c->shape[i], -1, 1);
    in[2 * n] = random_tensor(context, rank, shape, -1, 1);
    memset(out, 0, sizeof out), memset(up, 0, sizeof up), memset(down, 0, sizeof down);
    expect(weft_graph_interpret(g, 2 * n + 1, in, n + 2, out), c->name);

    /* fft and complex products have no builder for CPUs */
    bool builds = strcmp(c->name, "fft") && strcmp(c->name, "complex products");
    if (builds) compare_compiled(g, 2 * n + 1, in, n + 2, out, 1e-9, c->name);

    double uJv = dot(in[2 * n], out[1]), Juv = 0;
    for (int i = 0; i < n; i++) Juv += dot(out[2 + i], in[n + i]);
    ck_assert_msg(fabs(uJv - Juv) <= 1e-9 * (1 + fabs(uJv)), "%s: <u, Jv> = %.12g, <J'u, v> = %.12g", c->name, uJv,
                  Juv);
    ck_assert_msg(fabs(uJv) > 1e-12, "%s: the derivative vanishes: nothing was tested", c->name);

    const double h = 1e-6;
    for (int i = 0; i < n; i++)
        for (int64_t e = 0; e < weft_tensor_element_count(in[i]); e++) elements(in[i])[e] += h * elements(in[n + i])[e];
    expect(weft_graph_interpret(g, 2 * n + 1, in, n + 2, up), c->name);
    for (int i = 0; i < n; i++)
        for (int64_t e = 0; e < weft_tensor_element_count(in[i]); e++)
            elements(in[i])[e] -= 2 * h * elements(in[n + i])[e];
    expect(weft_graph_interpret(g, 2 * n + 1, in, n + 2, down), c->name);
    for (int64_t e = 0; e < weft_tensor_element_count(out[0]); e++) {
        double finite = (elements(up[0])[e] - elements(down[0])[e]) / (2 * h), exact = elements(out[1])[e];
        ck_assert_msg(fabs(finite - exact) <= 1e-5 * (1 + fabs(exact)), "%s: element %d: differences %.9g, jvp %.9g",
                      c->name, (int)e, finite, exact);
    }
    for (int i = 0; i < 2 * n + 1; i++) weft_tensor_release(in[i]);
    for (int i = 0; i < n + 2; i++)
        weft_tensor_release(out[i]), weft_tensor_release(up[i]), weft_tensor_release(down[i]);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("diff");
    TCase *all = tcase_create("derivatives");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, ties);
    tcase_add_test(all, extremum_beside_padding);
    tcase_add_loop_test(all, derivatives, 0, (int)(sizeof cases / sizeof *cases));
    suite_add_tcase(suite, all);
    suite_add_tcase(suite, case_transforms());
    suite_add_tcase(suite, case_remat());
    suite_add_tcase(suite, case_size());
    suite_add_tcase(suite, case_ops());
    suite_add_tcase(suite, case_memory());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
