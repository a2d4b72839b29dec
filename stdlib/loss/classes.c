/* Losses over classes and between distributions. Sources: weft/loss.h. */
#include "base/need.h"
#include "stdlib/loss/loss.h"

weft_value *weft_loss_as_rows(weft_graph *g, weft_value *x) {
    int rank = weft_value_rank(x);
    return rank == 2 ? x : weft_flatten(g, x, rank - 1);
}

static weft_value *is_used(weft_graph *g, weft_value *labels, const weft_cross_entropy_options *o) {
    return weft_compare(g, WEFT_NE, labels, weft_scalar_integer(g, WEFT_I64, o->ignore_label));
}

weft_value *weft_loss_example_count(weft_graph *g, weft_value *labels, weft_dtype dtype,
                                    const weft_cross_entropy_options *o) {
    if (o && o->ignore) return weft_loss_sum(g, weft_convert(g, is_used(g, labels, o), dtype));
    return weft_convert(g, weft_extent(g, weft_value_dim(labels, 0)), dtype);
}

/* Mean over examples of each [N], those with the ignored label left out. */
static weft_value *mean_of(weft_graph *g, weft_value *each, weft_value *labels, const weft_cross_entropy_options *o) {
    if (!o || !o->ignore) return weft_loss_mean(g, each);
    return weft_div(g, weft_loss_sum(g, each), weft_loss_example_count(g, labels, weft_value_dtype(each), o));
}

weft_value *weft_loss_of_examples(weft_graph *g, weft_value *x, weft_value *y,
                                  const weft_cross_entropy_options *options) {
    int64_t class[1] = {1};
    double smoothing = options ? options->smoothing : 0, z = options ? options->z : 0;
    weft_value *each = weft_cross_entropy(g, x, y);
    if (smoothing != 0 || z != 0) {
        weft_value *sum = weft_reduce_log_sum_exp(g, x, 1, class, false);
        if (smoothing != 0) {
            weft_value *uniform = weft_sub(g, sum, weft_reduce_mean(g, x, 1, class, false));
            each = weft_add(g, weft_mul_number(g, each, 1 - smoothing), weft_mul_number(g, uniform, smoothing));
        }
        if (z != 0) each = weft_add(g, each, weft_mul_number(g, weft_square(g, sum), z));
    }
    if (!options || !options->ignore) return each;
    return weft_where(g, is_used(g, y, options), each, weft_loss_number(g, each, 0));
}

weft_value *weft_loss_cross_entropy(weft_graph *g, weft_value *logits, weft_value *labels,
                                    const weft_cross_entropy_options *options) {
    weft_cross_entropy_options own = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_CROSS_ENTROPY_OPTIONS_INIT))) return logits;
    weft_value *x = weft_loss_as_rows(g, logits), *y = weft_reshape(g, labels, 1, (weft_dim[]){WEFT_DIM_ANY});
    return mean_of(g, weft_loss_of_examples(g, x, y, &own), y, &own);
}

static weft_value *binary(weft_graph *g, weft_value *x, weft_value *y) {
    return weft_sub(g, weft_loss_softplus(g, x), weft_mul(g, x, y));
}

weft_value *weft_loss_binary_cross_entropy(weft_graph *g, weft_value *logits, weft_value *targets) {
    return weft_loss_mean(g, binary(g, logits, targets));
}

weft_value *weft_loss_focal(weft_graph *g, weft_value *logits, weft_value *targets, double alpha, double gamma) {
    weft_value *one = weft_loss_number(g, logits, 1), *p = weft_logistic(g, logits);
    weft_value *other = weft_sub(g, one, targets);
    /* the probability of what is not the case */
    weft_value *miss = weft_add(g, weft_mul(g, weft_sub(g, one, p), targets), weft_mul(g, p, other));
    weft_value *each = weft_mul(g, binary(g, logits, targets), weft_pow(g, miss, weft_loss_number(g, logits, gamma)));
    if (alpha >= 0)
        each = weft_mul(g, each, weft_add(g, weft_mul_number(g, targets, alpha), weft_mul_number(g, other, 1 - alpha)));
    return weft_loss_mean(g, each);
}

weft_value *weft_loss_mse(weft_graph *g, weft_value *x, weft_value *y) {
    return weft_loss_mean(g, weft_square(g, weft_sub(g, x, y)));
}

weft_value *weft_loss_l1(weft_graph *g, weft_value *x, weft_value *y) {
    return weft_loss_mean(g, weft_abs(g, weft_sub(g, x, y)));
}

weft_value *weft_loss_huber(weft_graph *g, weft_value *x, weft_value *y, double delta) {
    weft_value *d = weft_sub(g, x, y), *size = weft_abs(g, d);
    weft_value *near = weft_mul_number(g, weft_square(g, d), 0.5);
    weft_value *far = weft_mul_number(g, weft_add_number(g, size, -delta / 2), delta);
    weft_value *inside = weft_compare(g, WEFT_LT, size, weft_loss_number(g, x, delta));
    return weft_loss_mean(g, weft_where(g, inside, near, far));
}

/* KL of each row, the mean of them */
weft_value *weft_loss_kl(weft_graph *g, weft_value *logits, weft_value *target) {
    int64_t class[1] = {-1};
    weft_value *difference = weft_sub(g, weft_log_softmax(g, target, -1), weft_log_softmax(g, logits, -1));
    weft_value *each = weft_reduce_sum(g, weft_mul(g, weft_softmax(g, target, -1), difference), 1, class, false);
    return weft_loss_mean(g, each);
}

weft_value *weft_loss_distillation(weft_graph *g, weft_value *student, weft_value *teacher, weft_value *labels,
                                   double temperature, double alpha) {
    weft_value *soft =
        weft_loss_kl(g, weft_mul_number(g, student, 1 / temperature), weft_mul_number(g, teacher, 1 / temperature));
    weft_value *hard = weft_loss_cross_entropy(g, student, labels, NULL);
    return weft_add(g, weft_mul_number(g, soft, alpha * temperature * temperature),
                    weft_mul_number(g, hard, 1 - alpha));
}
