/* Optimizers as graph: one program is one training step, parameters and moments are its states, updated in place.

       weft_parameters *p;                                                  // nn.h: what the model declares
       weft_value *loss = ...;                                              // built on weft_parameters_add(p, ...)
       weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAMW);
       weft_value *step = weft_optim_step(g);                               // state "optim/step": 1 in the first call
       o.rate = weft_rate_schedule_value(g, &schedule, step, WEFT_F32);
       o.decay = weft_scalar(g, WEFT_F32, 0.1);
       weft_parameters_gradient(p, loss);
       weft_optim_clip_norm(g, n, list, 1.0);                               // list: weft_parameters_list(p)
       weft_optim_update(g, &o, n, list);

   Names of states: a parameter's own name; NAME/m, NAME/v ... for what belongs to one parameter; optim/... for what is
   shared. Shapes: states have the shape of their parameter unless said otherwise. Dtypes: states have the parameter's
   dtype; rate, decay and other scalars are converted to it. Parameters are f32 or f64. Bias corrections are formed as
   -expm1(t log b), so that they keep their digits in f32. Errors: as graph.h: a problem is recorded. Ownership: values
   belong to the graph; names in weft_parameter are borrowed until the call returns. Threading: as the graph. Source:
   each method's file in stdlib/optim. */
#ifndef WEFT_OPTIM_H
#define WEFT_OPTIM_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A trainable parameter within one step. */
typedef struct weft_parameter {
    const char *name;      /* of its state */
    weft_tensor *initial;  /* what the state starts from; NULL = zeros. Copies of parameters start from it too */
    weft_value *value;     /* what it holds when the step begins */
    weft_value *gradient;  /* of the loss by value */
    weft_value *curvature; /* Sophia only: gradient of the loss with labels drawn from the model */
    weft_value *updated;   /* set by weft_optim_update: what it holds after the step */
    double rate_scale, decay_scale; /* times rate and decay: groups are parameters with the same scales */
    weft_value *rounded; /* what the model computes with instead: a read of the state NAME/rounded, a copy of the value
                            in 16 bits that is written where the value is; NULL = none */
} weft_parameter;

/* id, name, beta1, beta2, beta3, epsilon, decoupled. decoupled: decay shrinks the parameter by rate * decay; else
   decay * value joins the gradient (novograd, schedule_free_adamw: the normalised gradient).
   beta1 beta2 beta3:  sgd: momentum. adam family: of m, v and (ademamix) the slow m. schedule_free: of y and v. lion:
   of the direction and of m. sophia: of m and h. novograd: of m and of the norm. muon, lars: momentum. adabound: of m,
   v. soap: of m, v and the factors. galore: of m and v. */
#define WEFT_OPTIMIZERS(X)                                                                                             \
    X(SGD, sgd, 0.0, 0.0, 0.0, 0.0, false)                                                                             \
    X(ADAM, adam, 0.9, 0.999, 0.0, 1e-8, false)                                                                        \
    X(ADAMW, adamw, 0.9, 0.999, 0.0, 1e-8, true)                                                                       \
    X(RADAM, radam, 0.9, 0.999, 0.0, 1e-8, false)                                                                      \
    X(RANGER, ranger, 0.95, 0.999, 0.0, 1e-5, true)                                                                    \
    X(ADABOUND, adabound, 0.9, 0.999, 0.0, 1e-8, false)                                                                \
    X(ADEMAMIX, ademamix, 0.9, 0.999, 0.9999, 1e-8, true)                                                              \
    X(SCHEDULE_FREE_ADAMW, schedule_free_adamw, 0.9, 0.999, 0.0, 1e-8, false)                                          \
    X(NOVOGRAD, novograd, 0.95, 0.98, 0.0, 1e-8, false)                                                                \
    X(LARS, lars, 0.9, 0.0, 0.0, 0.0, false)                                                                           \
    X(LION, lion, 0.9, 0.99, 0.0, 0.0, true)                                                                           \
    X(SOPHIA, sophia, 0.965, 0.99, 0.0, 1e-15, true)                                                                   \
    X(SHAMPOO, shampoo, 0.0, 0.0, 0.0, 1e-6, false)                                                                    \
    X(SOAP, soap, 0.95, 0.95, 0.95, 1e-8, true)                                                                        \
    X(GALORE, galore, 0.9, 0.999, 0.0, 1e-6, true)                                                                     \
    X(LBFGS, lbfgs, 0.0, 0.0, 0.0, 0.0, false)                                                                         \
    X(MUON, muon, 0.95, 0.0, 0.0, 1e-7, true)

typedef enum weft_optim_method {
#define X(id, name, beta1, beta2, beta3, epsilon, decoupled) WEFT_OPTIM_##id,
    WEFT_OPTIMIZERS(X)
#undef X
        WEFT_OPTIM_COUNT
} weft_optim_method;

typedef struct weft_optim_options {
    size_t struct_bytes;
    weft_optim_method method;
    weft_value *rate;  /* scalar */
    weft_value *decay; /* scalar; NULL = no weight decay */
    weft_value *step;  /* i64 scalar, 1 in the first step: weft_optim_step */
    double beta1, beta2, beta3, epsilon;
    bool decoupled;
    bool nesterov;  /* sgd, muon (default there) */
    bool match_rms; /* muon: steps of the size that adamw's have, so that both take one rate (Liu et al. 2025) */
    bool amsgrad;   /* adam, adamw: divides by the largest v so far (Reddi et al. 2018) */
    double alpha;   /* ademamix: weight of the slow average, 2. lookahead: share of the step to the fast weights, 0.5.
                       galore: times the step of matrices, 0.25 */
    int64_t alpha_warmup, beta3_warmup; /* ademamix: steps of its two warm-ups; 0 = none */
    int64_t lookahead;                  /* > 0: every that many steps back to the slow weights; ranger: 6 */
    double trust;                       /* lars: 1e-3; sophia: rho, 0.04 */
    double curvature_scale;             /* sophia: times the square of the curvature gradient (the batch size), 1 */
    double final_rate, gamma;           /* adabound: 0.1, 1e-3 */
    int64_t period;    /* steps between curvatures (sophia), roots (shampoo), bases (soap): 10; galore: 200 */
    double polynomial; /* schedule_free_adamw: exponent of the step in the averaging weight, 0 */
    int64_t warmup;    /* schedule_free_adamw: steps of linear warm-up, 0 */
    int64_t rank;      /* galore: dimensions that are kept, 128 */
    int64_t size_max;  /* soap: sides of matrices longer than that keep their basis, 10000 */
    int64_t history;   /* lbfgs: pairs that are remembered, 10; at most 100 */
    weft_value *apply; /* bool scalar; where false, parameters and the method's states stay as they are. NULL = true */
    bool stochastic;  /* copies in bf16 (weft_parameter) are rounded up with the probability of what is cut off, by bits
                         from step, name and place; default: to nearest */
    weft_value *loss; /* lbfgs: scalar whose gradients the parameters have. With it a step goes as far as a line search
                         by the strong Wolfe conditions says, up to 26 evaluations in one loop; without: by the rate */
} weft_optim_options;

/* The method's defaults; rate, decay and step are NULL. */
WEFT_API weft_optim_options weft_optim_defaults(weft_optim_method method);
WEFT_API const char *weft_optim_name(weft_optim_method method);
/* WEFT_OPTIM_COUNT when no method has that name. */
WEFT_API weft_optim_method weft_optim_find(const char *name);

/* Declares the counter of steps, an i64 state "optim/step", counts this step and returns its number: 1 in the first. */
WEFT_API weft_value *weft_optim_step(weft_graph *g);

/* Appends the update of every parameter: declares moments, writes states, sets `updated`. Once per parameter and graph;
   different methods may share a graph (muon for matrices, adamw for the rest), schedule_free_adamw and lbfgs once. Muon
   takes matrices, and higher ranks as [first, all others]. Under schedule_free_adamw a parameter holds the point y of
   its gradient; the average to evaluate is y + (1 - 1 / beta1) (z - y), z in NAME/z. */
WEFT_API void weft_optim_update(weft_graph *g, const weft_optim_options *options, int count,
                                weft_parameter *parameters);

/* Gradients times min(1, maximum / (norm + 1e-6)) take their places; returns the norm of all together before that. */
WEFT_API weft_value *weft_optim_clip_norm(weft_graph *g, int count, weft_parameter *parameters, double maximum);
/* Replaces gradients by gradients cut to [-maximum, maximum]. */
WEFT_API void weft_optim_clip_value(weft_graph *g, int count, weft_parameter *parameters, double maximum);
/* The 2-norm of all gradients together. */
WEFT_API weft_value *weft_optim_gradient_norm(weft_graph *g, int count, const weft_parameter *parameters);

/* Rates that fall from the last layer to the first: rate_scale times decay^(layers + 1 - n), n = i + 1 for parameters
   whose name begins with PREFIXi. (blocks.3.attn...), 0 for names that begin with one of `first` (embeddings; ends with
   NULL, may be NULL), layers + 1 for all others (final norm, classifier). Clark et al. 2020; Bao et al. 2022. */
WEFT_API void weft_optim_layer_decay(int count, weft_parameter *parameters, const char *prefix, int layers,
                                     const char *const *first, double decay);

/* Averages of the updated parameters in states NAME/ema: average = momentum * average + (1 - momentum) * updated, after
   weft_optim_update. momentum: scalar. They start as the parameters do; with corrected, they start at zero and
   out_averages holds average / (1 - momentum^step) (momentum then must be the same in every step). out_averages may be
   NULL. */
typedef struct weft_optim_ema_options {
    size_t struct_bytes;
    weft_value *momentum;
    bool corrected;
    weft_value *step; /* with corrected */
} weft_optim_ema_options;
#define WEFT_OPTIM_EMA_OPTIONS_INIT {sizeof(weft_optim_ema_options), 0, false, 0}
WEFT_API void weft_optim_ema(weft_graph *g, const weft_optim_ema_options *options, int count,
                             const weft_parameter *parameters, weft_value **out_averages);

/* Averages with one weight over steps start, start + period, ... of the updated parameters, in states NAME/swa; with
   columns, what a Gaussian around them needs too: NAME/swag_square, NAME/swag_deviations [columns, ...]. Batch
   statistics of a model belong to other parameters: evaluate them anew. After weft_optim_update. */
typedef struct weft_optim_swa_options {
    size_t struct_bytes;
    weft_value *step;      /* as weft_optim_step returns it; where samples are drawn: the state "optim/step" */
    int64_t start, period; /* period 0 = 1 */
    int64_t columns;       /* deviations that are kept, 0 = none */
} weft_optim_swa_options;
#define WEFT_OPTIM_SWA_OPTIONS_INIT {sizeof(weft_optim_swa_options), 0, 1, 1, 0}
/* out_averages may be NULL. */
WEFT_API void weft_optim_swa(weft_graph *g, const weft_optim_swa_options *options, int count,
                             const weft_parameter *parameters, weft_value **out_averages);
/* Parameters drawn from the Gaussian, with deviations times scale (1; 0 = the mean), from states of those names. key:
   u64 [2]. */
WEFT_API void weft_optim_swag_sample(weft_graph *g, const weft_optim_swa_options *options, weft_value *key,
                                     double scale, int count, const weft_parameter *parameters,
                                     weft_value **out_samples);

/* Gradients over a batch in parts, one at a time: inputs have the parts along axis 0; body(slices) gives the sum (not
   the mean) of losses and their number or weight, scalars; it may be weft_apply of a loss that was built on one part.
   Sets every gradient to that of the mean over all weights and returns this mean. active: how many parts count, the
   first ones (i64 scalar; at least 1); NULL = all. out_squares, when not NULL: the mean over parts of the squared norm
   of a part's own mean gradient, and the squared norm of the whole gradient: what the noise scale asks for. */
WEFT_API weft_value *weft_optim_accumulate(weft_graph *g, int input_count, weft_value *const *inputs,
                                           weft_value *active, weft_body body, void *self, int count,
                                           weft_parameter *parameters, weft_value **out_squares);
/* The gradient noise scale, tr(covariance of examples' gradients) / |gradient|^2: about how many examples a batch may
   have before more of them stop paying. squares: of weft_optim_accumulate over `parts` (scalar, at least 2) of
   part_examples each; noise and signal are averaged over steps with momentum, in states optim/noise and optim/signal.
 */
WEFT_API weft_value *weft_optim_noise_scale(weft_graph *g, weft_value *const *squares, double part_examples,
                                            weft_value *parts, double momentum);
/* A batch that grows with the noise: the number of parts that count, an i64 state "optim/parts" that starts at `least`
   (2 at least) and is doubled, up to `most`, after every `every`-th step whose noise scale exceeds the batch's
   examples. Checkpoints hold it, so resumed runs go on alike. */
WEFT_API weft_value *weft_optim_parts(weft_graph *g, int64_t least);
WEFT_API void weft_optim_parts_adapt(weft_graph *g, weft_value *parts, weft_value *noise_scale, double part_examples,
                                     int64_t most, weft_value *step, int64_t every);

/* K-FAC: replaces the gradients of linear layers, before weft_optim_update with any method. Averages of the factors lie
   in NAME/kfac_inputs and NAME/kfac_outputs of the weights. */
typedef struct weft_optim_layer {
    weft_parameter *weight, *bias; /* [O, I], [O]; bias NULL = none */
    weft_value *input, *output;    /* [..., I], [..., O]: output = input weight^T + bias */
    bool inputs_first;             /* the weight is [I, O] */
} weft_optim_layer;
typedef struct weft_optim_kfac_options {
    size_t struct_bytes;
    weft_value *step;
    weft_value *loss; /* the mean over examples; with labels drawn from the model for the Fisher matrix itself */
    double momentum, damping;
} weft_optim_kfac_options;
#define WEFT_OPTIM_KFAC_OPTIONS_INIT {sizeof(weft_optim_kfac_options), 0, 0, 0.95, 1e-3}
WEFT_API void weft_optim_kfac(weft_graph *g, const weft_optim_kfac_options *options, int count,
                              const weft_optim_layer *layers);

/* Schedules: functions of the number of steps done so far. t = step - 1 is 0 in the first step; W = warmup, T = total,
   u = (t - W) / (T - W) cut to [0, 1]. While t < W: start + (base - start) t / W. After that:
   constant: base. linear: base + (final - base) u. cosine: final + (base - final) (1 + cos(pi u)) / 2.
   polynomial: final + (base - final) (1 - u)^power. exponential: base * power^(t - W).
   inverse_sqrt: base * sqrt(max(W, 1) / max(t, W, 1)). wsd: base until T - decay_steps, then from base to final, v
   from 0 to 1 over decay_steps: linear 1 - v, sqrt 1 - sqrt(v), square 1 - v^2 or cosine.
   cyclic: triangles between final and base with half period decay_steps (Smith 2017), from final up. */
typedef enum weft_rate_schedule_kind {
    WEFT_RATE_SCHEDULE_CONSTANT,
    WEFT_RATE_SCHEDULE_LINEAR,
    WEFT_RATE_SCHEDULE_COSINE,
    WEFT_RATE_SCHEDULE_POLYNOMIAL,
    WEFT_RATE_SCHEDULE_EXPONENTIAL,
    WEFT_RATE_SCHEDULE_INVERSE_SQRT,
    WEFT_RATE_SCHEDULE_WSD,
    WEFT_RATE_SCHEDULE_CYCLIC,
    WEFT_RATE_SCHEDULE_COUNT
} weft_rate_schedule_kind;
typedef enum weft_decay_shape {
    WEFT_DECAY_LINEAR,
    WEFT_DECAY_SQRT,
    WEFT_DECAY_SQUARE,
    WEFT_DECAY_COSINE
} weft_decay_shape;
typedef struct weft_rate_schedule {
    size_t struct_bytes;
    weft_rate_schedule_kind kind;
    double base, final, start; /* rates */
    int64_t warmup, total, decay_steps;
    double power; /* 0 = 1 */
    weft_decay_shape shape;
} weft_rate_schedule;
#define WEFT_RATE_SCHEDULE_INIT                                                                                        \
    {sizeof(weft_rate_schedule), WEFT_RATE_SCHEDULE_CONSTANT, 0.0, 0.0, 0.0, 0, 0, 0, 0.0, WEFT_DECAY_LINEAR}
/* step: as weft_optim_step returns it. */
WEFT_API weft_value *weft_rate_schedule_value(weft_graph *g, const weft_rate_schedule *schedule, weft_value *step,
                                              weft_dtype dtype);
WEFT_API const char *weft_rate_schedule_name(weft_rate_schedule_kind kind);
/* WEFT_RATE_SCHEDULE_COUNT when no kind has that name. */
WEFT_API weft_rate_schedule_kind weft_rate_schedule_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif
