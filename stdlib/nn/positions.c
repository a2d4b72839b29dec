/* Where tokens are: angles of rotary embeddings (Su et al. 2021) with what stretches them over longer contexts, and
   attention with linear biases (Press et al. 2022). Invariant: everything is an expression of iota or of the positions
   given; numbers of the options are folded in f64 before they are rounded to the graph's dtype.

   Letters, as the papers': T tokens, S keys, H heads, d head width, b base, s factor, L original context. */
#include "base/need.h"
#include "weft/nn.h"

#include <math.h>

#include "stdlib/nn/mixed.h"

static const double two_pi = 6.28318530717958647692, ln_2 = 0.69314718055994530942;

/* -- rotary embeddings */

static bool is_positive(double x) { return isfinite(x) && x > 0; }

static weft_status check_stretch(const weft_nn_rope_options *o) {
    switch (o->scaling) {
    case WEFT_NN_ROPE_PLAIN: return NULL;
    case WEFT_NN_ROPE_LINEAR:
    case WEFT_NN_ROPE_NTK:
    case WEFT_NN_ROPE_YARN: break;
    default:
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: scaling %d is none of weft_nn_rope_scaling",
                           (int)o->scaling);
    }
    if (!is_positive(o->factor))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: factor %g; with scaling it is above 0",
                           o->factor);
    if (o->scaling != WEFT_NN_ROPE_YARN) return NULL;
    if (o->original < 1)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: original %lld; YaRN takes the context before",
                           (long long)o->original);
    if (!is_positive(o->beta_slow) || !is_positive(o->beta_fast) || o->beta_slow >= o->beta_fast)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "weft_nn_rope_tables: beta_slow %g, beta_fast %g; slow is above 0 and below fast",
                           o->beta_slow, o->beta_fast);
    if (!isfinite(o->attention) || o->attention < 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: attention %g; it is finite and not negative",
                           o->attention);
    return NULL;
}

/* Defaults are in place. */
static weft_status check_rope(const weft_nn_rope_options *o, weft_dtype dtype, const weft_value *positions) {
    if (o->head_width < 2 || o->head_width % 2 != 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: head_width %lld; elements turn in pairs",
                           (long long)o->head_width);
    if (!isfinite(o->base) || o->base <= 1)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: base %g; it is finite and above 1", o->base);
    if (dtype != WEFT_F32 && dtype != WEFT_F64 && dtype != WEFT_F16 && dtype != WEFT_BF16)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_rope_tables: dtype %s; f32, f64, f16, bf16 are served",
                           weft_dtype_name(dtype));
    if (positions) {
        weft_dtype own = weft_value_dtype(positions);
        if ((own != WEFT_I32 && own != WEFT_I64) || weft_value_rank(positions) != 1)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                               "weft_nn_rope_tables: positions are %s of rank %d; i32 or i64 [T] are wanted",
                               weft_dtype_name(own), weft_value_rank(positions));
    }
    return check_stretch(o);
}

/* The share of each frequency that YaRN keeps, in [0, 1]: 1 for those that turn beta_fast times and more in the
   original context, 0 for those that turn beta_slow times and less. Peng et al. 2023, section 3.2; by_pair: the ramp of
   the authors' code, from whole pair to whole pair. */
static weft_value *kept_share(weft_graph *g, const weft_nn_rope_options *o, weft_value *pair, weft_value *frequency) {
    double original = (double)o->original, slow = o->beta_slow, fast = o->beta_fast, d = (double)o->head_width;
    if (!o->by_pair) {
        weft_value *turns = weft_mul_number(g, frequency, original / two_pi);
        return weft_clip(g, weft_mul_number(g, weft_add_number(g, turns, -slow), 1 / (fast - slow)), 0, 1);
    }
    double pairs = d / (2 * log(o->base));
    double first = fmax(floor(pairs * log(original / (two_pi * fast))), 0);
    double last = fmax(fmin(ceil(pairs * log(original / (two_pi * slow))), d - 1), first);
    double step = last - first == 0 ? 0.001 : last - first;
    return weft_clip(g, weft_mul_number(g, weft_add_number(g, pair, -(first + step)), -1 / step), 0, 1);
}

/* b^(-2 pair / d), stretched; shape: [T, d / 2]. b and s^(d / (d - 2)) are multiplied as logarithms. */
static weft_value *frequencies(weft_graph *g, const weft_nn_rope_options *o, weft_dtype dtype, const weft_dim *shape) {
    double d = (double)o->head_width, s = o->factor, log_base = log(o->base);
    weft_value *pair = weft_convert(g, weft_iota(g, WEFT_I64, 2, shape, 1), dtype);
    if (o->scaling == WEFT_NN_ROPE_NTK && d > 2) log_base += d / (d - 2) * log(s); /* d = 2: the one frequency is 1 */
    weft_value *frequency = weft_exp(g, weft_mul_number(g, pair, -2 * log_base / d));
    if (o->scaling == WEFT_NN_ROPE_LINEAR) return weft_mul_number(g, frequency, 1 / s);
    if (o->scaling != WEFT_NN_ROPE_YARN) return frequency;
    weft_value *kept = kept_share(g, o, pair, frequency);
    return weft_mul(g, frequency, weft_add_number(g, weft_mul_number(g, kept, 1 - 1 / s), 1 / s));
}

void weft_nn_rope_tables(weft_graph *g, const weft_nn_rope_options *options, weft_dtype dtype, weft_value *positions,
                         weft_dim tokens, weft_value **out_cosine, weft_value **out_sine) {
    weft_nn_rope_options o = WEFT_NN_ROPE_OPTIONS_INIT;
    *out_cosine = *out_sine = NULL;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(o, options, WEFT_NN_ROPE_OPTIONS_INIT))) return;
    if (positions && weft_value_dtype(positions) == WEFT_INVALID) { /* has its problem already */
        *out_cosine = *out_sine = positions;
        return;
    }
    if (o.base == 0) o.base = 10000;
    if (o.beta_slow == 0) o.beta_slow = 1;
    if (o.beta_fast == 0) o.beta_fast = 32;
    if (weft_graph_report(g, check_rope(&o, dtype, positions))) return;
    weft_dtype own = dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    weft_dim shape[2] = {positions ? weft_value_dim(positions, 0) : tokens, o.head_width / 2};
    int64_t last[1] = {1};
    weft_value *position = positions ? weft_unsqueeze(g, positions, 1, last) : weft_iota(g, WEFT_I64, 2, shape, 0);
    weft_value *angle = weft_mul(g, weft_convert(g, position, own), frequencies(g, &o, own, shape));
    weft_value *cosine = weft_cos(g, angle), *sine = weft_sin(g, angle);
    if (o.scaling == WEFT_NN_ROPE_YARN) {
        double scale = o.attention > 0 ? o.attention : o.factor > 1 ? 0.1 * log(o.factor) + 1 : 1;
        cosine = weft_mul_number(g, cosine, scale), sine = weft_mul_number(g, sine, scale);
    }
    *out_cosine = weft_nn_as(g, cosine, dtype), *out_sine = weft_nn_as(g, sine, dtype);
}

/* -- linear biases */

static bool is_alibi(weft_graph *g, int heads, weft_dtype dtype) {
    if (heads > 0 && (dtype == WEFT_F32 || dtype == WEFT_F64)) return true;
    weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "weft_nn_alibi: %d heads in %s; 1 or more, f32 or f64",
                                     heads, weft_dtype_name(dtype)));
    return false;
}

weft_value *weft_nn_alibi_slopes(weft_graph *g, int heads, weft_dtype dtype) {
    if (!is_alibi(g, heads, dtype)) return NULL;
    int power = 1; /* the largest power of two among heads */
    while (power <= heads / 2) power *= 2;
    weft_value *index = weft_iota(g, WEFT_I64, 1, (weft_dim[]){heads}, 0), *head = weft_convert(g, index, dtype);
    weft_value *exponent = weft_mul_number(g, weft_add_number(g, head, 1), -8.0 / power * ln_2);
    if (heads > power) { /* the others: every second slope of twice as many heads */
        weft_value *odd = weft_add_number(g, weft_mul_number(g, weft_add_number(g, head, -power), 2), 1);
        weft_value *first = weft_compare(g, WEFT_LT, index, weft_scalar_integer(g, WEFT_I64, power));
        exponent = weft_where(g, first, exponent, weft_mul_number(g, odd, -4.0 / power * ln_2));
    }
    return weft_exp(g, exponent);
}

weft_value *weft_nn_alibi(weft_graph *g, int heads, weft_dim queries, weft_dim keys, weft_dtype dtype) {
    weft_value *slopes = weft_nn_alibi_slopes(g, heads, dtype);
    if (!slopes) return NULL;
    int64_t behind[2] = {1, 2};
    weft_dim scores[2] = {queries, keys};
    weft_value *query = weft_iota(g, WEFT_I64, 2, scores, 0), *key = weft_iota(g, WEFT_I64, 2, scores, 1);
    if (queries != keys) /* the last query is at the last key, as in causal attention */
        query = weft_add(g, query, weft_sub(g, weft_extent(g, keys), weft_extent(g, queries)));
    weft_value *distance = weft_convert(g, weft_abs(g, weft_sub(g, query, key)), dtype);
    return weft_mul(g, weft_unsqueeze(g, weft_neg(g, slopes), 2, behind), distance);
}
