/* Losses as graph: values in, one scalar out, the mean over examples unless said otherwise.

   Shapes: N examples, C classes, D features. Dtypes: floats of one dtype; labels are i64. Accumulation: as ops.h.
   Ownership, errors and threading: as graph.h. Source: with each function. */
#ifndef WEFT_LOSS_H
#define WEFT_LOSS_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- classes */

/* Logits [..., C], labels [...]: -sum q log softmax(logits), q = (1 - smoothing) one-hot + smoothing / C (Szegedy et
   al. 2016), plus z times the square of log sum exp (Chowdhery et al. 2022). The mean leaves ignored labels out. */
typedef struct weft_cross_entropy_options {
    size_t struct_bytes;
    double smoothing, z;
    bool ignore; /* leaves out examples whose label is ignore_label */
    int64_t ignore_label;
} weft_cross_entropy_options;
#define WEFT_CROSS_ENTROPY_OPTIONS_INIT {sizeof(weft_cross_entropy_options), 0.0, 0.0, false, 0}
/* options may be NULL. */
WEFT_API weft_value *weft_loss_cross_entropy(weft_graph *g, weft_value *logits, weft_value *labels,
                                             const weft_cross_entropy_options *options);
/* The same for logits = x weight^T of x [..., D] and weight [C, D], which never exist as a whole: examples are taken in
   `pieces` (at most 64; 0 = so many that a piece has at most 2^27 logits; one where an extent is symbolic). Products
   are of x's dtype, the loss is f32 (f64 of f64), weight gradients are summed in it. One piece is the plain form; of
   several a second derivative is a problem of the graph. */
WEFT_API weft_value *weft_loss_linear_cross_entropy(weft_graph *g, weft_value *x, weft_value *weight,
                                                    weft_value *labels, int64_t pieces,
                                                    const weft_cross_entropy_options *options);
/* Logits and targets in [0, 1] of one shape: -y log s(x) - (1 - y) log(1 - s(x)), s the logistic function. */
WEFT_API weft_value *weft_loss_binary_cross_entropy(weft_graph *g, weft_value *logits, weft_value *targets);
/* The same times a (1 - p)^gamma, p the probability of what is the case, a = alpha where y is 1, else 1 - alpha;
   alpha < 0: a = 1. Lin et al. 2017, equation 5. */
WEFT_API weft_value *weft_loss_focal(weft_graph *g, weft_value *logits, weft_value *targets, double alpha,
                                     double gamma);

/* -- distances: x and y of one shape; mean over elements */
WEFT_API weft_value *weft_loss_mse(weft_graph *g, weft_value *x, weft_value *y);
WEFT_API weft_value *weft_loss_l1(weft_graph *g, weft_value *x, weft_value *y);
/* d^2 / 2 while |d| < delta, else delta (|d| - delta / 2) (Huber 1964). smooth L1 with beta is this over beta. */
WEFT_API weft_value *weft_loss_huber(weft_graph *g, weft_value *x, weft_value *y, double delta);

/* -- distributions: logits [N, C] */

/* KL(softmax(target) | softmax(logits)). */
WEFT_API weft_value *weft_loss_kl(weft_graph *g, weft_value *logits, weft_value *target);
/* alpha T^2 KL(softmax(teacher / T) | softmax(student / T)) + (1 - alpha) cross-entropy: Hinton et al. 2015. */
WEFT_API weft_value *weft_loss_distillation(weft_graph *g, weft_value *student, weft_value *teacher, weft_value *labels,
                                            double temperature, double alpha);

/* -- representations: rows of [N, D]; similarities are cosines over tau */

/* a[i] and b[i] belong together; every other row of [a; b] is a negative (Chen et al. 2020). */
WEFT_API weft_value *weft_loss_nt_xent(weft_graph *g, weft_value *a, weft_value *b, double tau);
/* Query i against every key, key i is right (van den Oord et al. 2018). */
WEFT_API weft_value *weft_loss_info_nce(weft_graph *g, weft_value *query, weft_value *key, double tau);
/* Rows of one label belong together; the mean over positives is outside the logarithm (Khosla et al. 2020, equation 2).
   Rows without a positive count 0 and are not counted. */
WEFT_API weft_value *weft_loss_sup_con(weft_graph *g, weft_value *z, weft_value *labels, double tau);
/* Invariance, variance and covariance with their weights: 25, 25, 1 (Bardes, Ponce, LeCun 2022; the variance terms of a
   and b are halved). */
WEFT_API weft_value *weft_loss_vicreg(weft_graph *g, weft_value *a, weft_value *b, double invariance, double variance,
                                      double covariance);
/* Cross-correlation of normalised features against the identity; lambda weighs what is off the diagonal: 0.0051
   (Zbontar et al. 2021). A sum over features. */
WEFT_API weft_value *weft_loss_barlow_twins(weft_graph *g, weft_value *a, weft_value *b, double lambda);

/* -- from a teacher to a student: no gradient goes to what is a constant or was stopped (weft_stop_gradient) */

/* Features [N, S] against [N, T], through regressor [T, S] when there is one: the mean square (Romero et al. 2015). */
WEFT_API weft_value *weft_loss_hint(weft_graph *g, weft_value *student, weft_value *teacher, weft_value *regressor);
/* Activations [N, C, ...] of equal positions: squared distance of their attention maps, sums of squares over channels
   scaled to length 1 (Zagoruyko, Komodakis 2017, equation 2, squared). */
WEFT_API weft_value *weft_loss_attention_transfer(weft_graph *g, weft_value *student, weft_value *teacher);
/* Embeddings [N, D], [N, E], all different. Distances of pairs over their mean; cosines of angles of triplets; smooth
   L1 over all pairs and triplets (Park et al. 2019, equations 4 to 8). */
WEFT_API weft_value *weft_loss_rkd_distance(weft_graph *g, weft_value *student, weft_value *teacher);
WEFT_API weft_value *weft_loss_rkd_angle(weft_graph *g, weft_value *student, weft_value *teacher);

/* -- routers: logits [tokens, experts] */

/* experts times the sum over experts of (share of choices) (mean probability): 1 when balanced. chosen: i64 [tokens] or
   [tokens, k] (Fedus, Zoph, Shazeer 2022, equations 4 to 6). Where tokens choose depth, logits of two are the routes.
 */
WEFT_API weft_value *weft_loss_expert_balance(weft_graph *g, weft_value *logits, weft_value *chosen);
/* The mean of the squared log sum exp (Zoph et al. 2022). */
WEFT_API weft_value *weft_loss_router_z(weft_graph *g, weft_value *logits);

/* -- preferences: log-probabilities [N] of the chosen and the rejected answer under policy and reference */
typedef enum weft_preference_kind {
    WEFT_PREFERENCE_DPO,    /* -log s(beta d); with smoothing e: (1 - e) of it and e of -log s(-beta d) */
    WEFT_PREFERENCE_ROBUST, /* (-(1 - e) log s(beta d) + e log s(-beta d)) / (1 - 2 e) */
    WEFT_PREFERENCE_IPO     /* (d - 1 / (2 beta))^2 */
} weft_preference_kind;
/* d = (chosen - reference chosen) - (rejected - reference rejected). Rafailov et al. 2023; smoothing: Mitchell 2023;
   robust: Chowdhury, Kini, Natarajan 2024; IPO: Azar et al. 2023. */
WEFT_API weft_value *weft_loss_preference(weft_graph *g, weft_preference_kind kind, weft_value *chosen,
                                          weft_value *rejected, weft_value *reference_chosen,
                                          weft_value *reference_rejected, double beta, double smoothing);

#ifdef __cplusplus
}
#endif
#endif
