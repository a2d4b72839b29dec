/* Losses that carry what one model knows to another, and the balance of experts. Sources: weft/loss.h. */
#include "stdlib/loss/loss.h"

weft_value *weft_loss_hint(weft_graph *g, weft_value *student, weft_value *teacher, weft_value *regressor) {
    if (regressor) student = weft_matmul(g, student, weft_transpose(g, regressor, NULL));
    return weft_loss_mse(g, student, teacher);
}

/* Energies over positions [N, P], rows of length 1. */
static weft_value *attention_map(weft_graph *g, weft_value *x) {
    int64_t channel[1] = {1}, position[1] = {1};
    weft_value *q = weft_flatten(g, weft_reduce_sum(g, weft_square(g, x), 1, channel, false), 1);
    weft_value *norm = weft_sqrt(g, weft_reduce_sum(g, weft_square(g, q), 1, position, true));
    return weft_div(g, q, weft_max(g, norm, weft_loss_number(g, x, 1e-12)));
}

weft_value *weft_loss_attention_transfer(weft_graph *g, weft_value *student, weft_value *teacher) {
    int64_t position[1] = {1};
    weft_value *difference = weft_sub(g, attention_map(g, student), attention_map(g, teacher));
    return weft_loss_mean(g, weft_reduce_sum(g, weft_square(g, difference), 1, position, false));
}

/* x[i] - x[j]: [N, N, D]. */
static weft_value *differences(weft_graph *g, weft_value *x) {
    int64_t first[1] = {0}, second[1] = {1};
    return weft_sub(g, weft_unsqueeze(g, x, 1, second), weft_unsqueeze(g, x, 1, first));
}

/* Lengths of the differences, [N, N]; the diagonal is `own`, a constant to derivatives. */
static weft_value *lengths(weft_graph *g, weft_value *d, double own) {
    int64_t feature[1] = {2};
    weft_value *square = weft_reduce_sum(g, weft_square(g, d), 1, feature, false);
    weft_value *same = weft_loss_diagonal(g, weft_value_dim(d, 0));
    weft_value *root = weft_sqrt(g, weft_where(g, same, weft_loss_number(g, d, 1), square));
    return weft_where(g, same, weft_loss_number(g, d, own), root);
}

static weft_value *relative_distances(weft_graph *g, weft_value *x) {
    weft_value *d = lengths(g, differences(g, x), 0),
               *n = weft_convert(g, weft_extent(g, weft_value_dim(x, 0)), weft_value_dtype(x));
    weft_value *pairs = weft_mul(g, n, weft_add_number(g, n, -1));
    return weft_div(g, d, weft_div(g, weft_loss_sum(g, d), pairs));
}

weft_value *weft_loss_rkd_distance(weft_graph *g, weft_value *student, weft_value *teacher) {
    return weft_loss_huber(g, relative_distances(g, student), relative_distances(g, teacher), 1);
}

/* Cosines of the angles at j between i and k: [j, i, k]. */
static weft_value *angles(weft_graph *g, weft_value *x) {
    int64_t last[1] = {2}, order[3] = {0, 2, 1};
    weft_value *d = differences(g, x), *unit = weft_div(g, d, weft_unsqueeze(g, lengths(g, d, 1), 1, last));
    return weft_matmul(g, unit, weft_transpose(g, unit, order));
}

weft_value *weft_loss_rkd_angle(weft_graph *g, weft_value *student, weft_value *teacher) {
    return weft_loss_huber(g, angles(g, student), angles(g, teacher), 1);
}

weft_value *weft_loss_expert_balance(weft_graph *g, weft_value *logits, weft_value *chosen) {
    int64_t tokens[1] = {0}, all[2] = {0, 1};
    weft_dtype dtype = weft_value_dtype(logits);
    weft_dim experts = weft_value_dim(logits, 1);
    if (weft_value_rank(chosen) == 1) chosen = weft_unsqueeze(g, chosen, 1, (int64_t[]){1});
    weft_value *routed = weft_one_hot(g, chosen, experts, -1, weft_scalar(g, dtype, 1), weft_scalar(g, dtype, 0));
    weft_value *share = weft_reduce_mean(g, routed, 2, all, false);
    weft_value *probability = weft_reduce_mean(g, weft_softmax(g, logits, 1), 1, tokens, false);
    weft_value *count = weft_convert(g, weft_extent(g, experts), dtype);
    return weft_mul(g, count, weft_loss_sum(g, weft_mul(g, share, probability)));
}

weft_value *weft_loss_router_z(weft_graph *g, weft_value *logits) {
    int64_t expert[1] = {1};
    return weft_loss_mean(g, weft_square(g, weft_reduce_log_sum_exp(g, logits, 1, expert, false)));
}
