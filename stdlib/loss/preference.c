/* Preference losses on log-probabilities of whole answers. Sources: weft/loss.h. */
#include "stdlib/loss/loss.h"

weft_value *weft_loss_preference(weft_graph *g, weft_preference_kind kind, weft_value *chosen, weft_value *rejected,
                                 weft_value *reference_chosen, weft_value *reference_rejected, double beta,
                                 double smoothing) {
    weft_value *d = weft_sub(g, weft_sub(g, chosen, reference_chosen), weft_sub(g, rejected, reference_rejected));
    if (kind == WEFT_PREFERENCE_IPO) return weft_loss_mean(g, weft_square(g, weft_add_number(g, d, -1 / (2 * beta))));
    weft_value *scaled = weft_mul_number(g, d, beta);
    weft_value *right = weft_loss_softplus(g, weft_neg(g, scaled)); /* -log s(beta d) */
    weft_value *wrong = weft_loss_softplus(g, scaled);
    double sign = kind == WEFT_PREFERENCE_ROBUST ? -1 : 1, scale = sign < 0 ? 1 / (1 - 2 * smoothing) : 1;
    weft_value *each = weft_mul_number(g, right, (1 - smoothing) * scale);
    if (smoothing != 0) each = weft_add(g, each, weft_mul_number(g, wrong, sign * smoothing * scale));
    return weft_loss_mean(g, each);
}
