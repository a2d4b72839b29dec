/* Losses between sets of representations, rows of [N, D]. Sources: weft/loss.h. */
#include "stdlib/loss/loss.h"

static weft_value *unit_rows(weft_graph *g, weft_value *x) {
    int64_t features[1] = {1};
    weft_value *norm = weft_sqrt(g, weft_reduce_sum(g, weft_square(g, x), 1, features, true));
    return weft_div(g, x, weft_max(g, norm, weft_loss_number(g, x, 1e-12)));
}

static weft_value *products(weft_graph *g, weft_value *a, weft_value *b) {
    return weft_matmul(g, a, weft_transpose(g, b, NULL));
}

static weft_value *positions(weft_graph *g, weft_dim n) { return weft_iota(g, WEFT_I64, 1, &n, 0); }

/* -inf on the diagonal: a row is no negative of its own */
static weft_value *without_self(weft_graph *g, weft_value *similarity) {
    weft_value *never = weft_loss_number(g, similarity, -1e30);
    return weft_where(g, weft_loss_diagonal(g, weft_value_dim(similarity, 0)), never, similarity);
}

weft_value *weft_loss_nt_xent(weft_graph *g, weft_value *a, weft_value *b, double tau) {
    weft_dim n = weft_value_dim(a, 0), both = weft_dim_times(g, n, 2);
    weft_value *rows = unit_rows(g, weft_concat(g, 0, 2, (weft_value *[]){a, b}));
    weft_value *similarity = weft_mul_number(g, products(g, rows, rows), 1 / tau);
    weft_value *count = weft_extent(g, n), *total = weft_extent(g, both);
    weft_value *partner = weft_rem(g, weft_add(g, positions(g, both), count), total); /* i + N modulo 2 N */
    return weft_loss_mean(g, weft_cross_entropy(g, without_self(g, similarity), partner));
}

weft_value *weft_loss_info_nce(weft_graph *g, weft_value *query, weft_value *key, double tau) {
    weft_value *similarity = weft_mul_number(g, products(g, unit_rows(g, query), unit_rows(g, key)), 1 / tau);
    return weft_loss_mean(g, weft_cross_entropy(g, similarity, positions(g, weft_value_dim(query, 0))));
}

weft_value *weft_loss_sup_con(weft_graph *g, weft_value *z, weft_value *labels, double tau) {
    weft_dim n = weft_value_dim(z, 0), column[2] = {n, 1}, row[2] = {1, n};
    int64_t others[1] = {1};
    weft_value *rows = unit_rows(g, z), *similarity = weft_mul_number(g, products(g, rows, rows), 1 / tau);
    weft_value *log_p = weft_log_softmax(g, without_self(g, similarity), 1);
    weft_value *same = weft_compare(g, WEFT_EQ, weft_reshape(g, labels, 2, column), weft_reshape(g, labels, 2, row));
    weft_value *positive = weft_and(g, same, weft_not(g, weft_loss_diagonal(g, n)));
    weft_value *zero = weft_loss_number(g, z, 0), *one = weft_loss_number(g, z, 1);
    weft_value *count = weft_reduce_sum(g, weft_convert(g, positive, weft_value_dtype(z)), 1, others, false);
    weft_value *sum = weft_reduce_sum(g, weft_where(g, positive, log_p, zero), 1, others, false);
    weft_value *each = weft_neg(g, weft_div(g, sum, weft_max(g, count, one)));
    weft_value *counted = weft_convert(g, weft_compare(g, WEFT_GT, count, zero), weft_value_dtype(z));
    return weft_div(g, weft_loss_sum(g, each), weft_max(g, weft_loss_sum(g, counted), one));
}

/* -- features against each other: N examples, D features */

static weft_value *centred(weft_graph *g, weft_value *x) {
    int64_t examples[1] = {0};
    return weft_sub(g, x, weft_reduce_mean(g, x, 1, examples, true));
}

static weft_value *count_of(weft_graph *g, weft_value *x, int axis) {
    return weft_convert(g, weft_extent(g, weft_value_dim(x, axis)), weft_value_dtype(x));
}

static weft_value *off_diagonal_squares(weft_graph *g, weft_value *square) {
    weft_value *zero = weft_loss_number(g, square, 0);
    weft_value *rest = weft_where(g, weft_loss_diagonal(g, weft_value_dim(square, 0)), zero, square);
    return weft_loss_sum(g, weft_square(g, rest));
}

/* mean over features of max(0, 1 - deviation); variances over N - 1 */
static weft_value *variance_term(weft_graph *g, weft_value *x) {
    int64_t examples[1] = {0};
    weft_value *rest = weft_add_number(g, count_of(g, x, 0), -1);
    weft_value *variance = weft_div(g, weft_reduce_sum(g, weft_square(g, x), 1, examples, false), rest);
    weft_value *deviation = weft_sqrt(g, weft_add_number(g, variance, 1e-4));
    return weft_loss_mean(g, weft_relu(g, weft_add_number(g, weft_neg(g, deviation), 1)));
}

static weft_value *covariance_term(weft_graph *g, weft_value *x) {
    weft_value *rest = weft_add_number(g, count_of(g, x, 0), -1);
    weft_value *covariance = weft_div(g, weft_matmul(g, weft_transpose(g, x, NULL), x), rest);
    return weft_div(g, off_diagonal_squares(g, covariance), count_of(g, x, 1));
}

weft_value *weft_loss_vicreg(weft_graph *g, weft_value *a, weft_value *b, double invariance, double variance,
                             double covariance) {
    weft_value *x = centred(g, a), *y = centred(g, b);
    weft_value *near = weft_mul_number(g, weft_loss_mse(g, a, b), invariance);
    weft_value *spread = weft_mul_number(g, weft_add(g, variance_term(g, x), variance_term(g, y)), variance / 2);
    weft_value *apart = weft_mul_number(g, weft_add(g, covariance_term(g, x), covariance_term(g, y)), covariance);
    return weft_add(g, near, weft_add(g, spread, apart));
}

static weft_value *normalised(weft_graph *g, weft_value *x) {
    int64_t examples[1] = {0};
    weft_value *centre = centred(g, x), *variance = weft_reduce_mean(g, weft_square(g, centre), 1, examples, true);
    return weft_div(g, centre, weft_sqrt(g, weft_add_number(g, variance, 1e-5)));
}

weft_value *weft_loss_barlow_twins(weft_graph *g, weft_value *a, weft_value *b, double lambda) {
    weft_value *product = weft_matmul(g, weft_transpose(g, normalised(g, a), NULL), normalised(g, b));
    weft_value *c = weft_div(g, product, count_of(g, a, 0));
    weft_value *on = weft_square(g, weft_add_number(g, c, -1)), *zero = weft_loss_number(g, c, 0);
    on = weft_loss_sum(g, weft_where(g, weft_loss_diagonal(g, weft_value_dim(c, 0)), on, zero));
    return weft_add(g, on, weft_mul_number(g, off_diagonal_squares(g, c), lambda));
}
