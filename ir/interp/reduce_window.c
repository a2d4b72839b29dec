/* Windows over every axis: reduce_window (pooling) and select_and_scatter (the gradient of max pooling).
   Position p of a window at output o along an axis is o * stride + k * dilation - low in the base-dilated operand; it
   holds element p / base_dilation when that division is exact and inside, else the kind's identity. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

typedef struct weft_windows {
    int rank;
    int64_t window[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], dilation[WEFT_MAX_RANK], base[WEFT_MAX_RANK],
        low[WEFT_MAX_RANK];
} weft_windows;

static weft_status read_windows(const weft_interpreter *interpreter, const weft_node *node, int rank,
                                weft_windows *out) {
    const weft_attribute *dilation = weft_node_attribute(node, WEFT_ATTR_dilation);
    const weft_attribute *base = weft_node_attribute(node, WEFT_ATTR_base_dilation);
    *out = (weft_windows){.rank = rank};
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_low, out->low), "windows");
    for (int i = 0; i < rank; i++) {
        out->window[i] = weft_node_attribute(node, WEFT_ATTR_window)->as.ints[i];
        out->stride[i] = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints[i];
        out->dilation[i] = dilation ? dilation->as.ints[i] : 1;
        out->base[i] = base ? base->as.ints[i] : 1;
    }
    return NULL;
}

/* The element of x under window position k of output o; -1 for padding and holes. */
static int64_t element_under(const weft_windows *w, const weft_tensor *x, const int64_t *o, const int64_t *k) {
    int64_t element = 0;
    for (int i = 0; i < w->rank; i++) {
        int64_t p = o[i] * w->stride[i] + k[i] * w->dilation[i] - w->low[i];
        if (p < 0 || p % w->base[i] || p / w->base[i] >= x->shape[i]) return -1;
        element += p / w->base[i] * x->strides[i];
    }
    return element;
}

static void reduce_one(const weft_windows *w, const weft_tensor *x, const int64_t *o, weft_reduction kind, bool round,
                       weft_tensor *y, int64_t out) {
    int64_t k[WEFT_MAX_RANK] = {0};
    weft_interp_domain domain = weft_interp_domain_of(x->dtype);
    double f = domain == WEFT_DOMAIN_FLOAT ? weft_interp_identity_f64(kind, x->dtype) : 0;
    int64_t n = domain == WEFT_DOMAIN_INTEGER ? weft_interp_identity_i64(kind, x->dtype) : 0;
    weft_complex c = {kind == WEFT_REDUCTION_PRODUCT ? 1 : 0, 0};
    do {
        int64_t at = element_under(w, x, o, k);
        if (at < 0) continue;
        if (domain == WEFT_DOMAIN_FLOAT)
            f = weft_interp_combine_f64(kind, round, f, weft_element_double(x->dtype, x->data, at));
        else if (domain == WEFT_DOMAIN_INTEGER)
            n = weft_interp_combine_i64(kind, x->dtype, n, weft_element_i64(x->dtype, x->data, at));
        else
            c = weft_interp_combine_complex(kind, c, weft_interp_load_complex(x->dtype, x->data, at));
    } while (weft_interp_next(w->rank, w->window, k));
    if (domain == WEFT_DOMAIN_FLOAT)
        weft_element_set_double(y->dtype, y->data, out, f);
    else if (domain == WEFT_DOMAIN_INTEGER)
        weft_element_set_i64(y->dtype, y->data, out, n);
    else
        weft_interp_store_complex(y->dtype, y->data, out, c);
}

weft_status weft_interpret_reduce_window(weft_interpreter *interpreter, const weft_node *node,
                                         weft_tensor *const *inputs, weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    weft_windows windows;
    WEFT_TRY(read_windows(interpreter, node, x->rank, &windows), "reduce_window");
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of reduce_window");
    weft_tensor *y = results[0];
    weft_reduction kind = weft_interp_reduction(node);
    bool round = weft_interp_rounds(interpreter, x->dtype);
    int64_t o[WEFT_MAX_RANK] = {0};
    for (int64_t out = 0; out < y->element_count; out++, weft_interp_next(y->rank, y->shape, o))
        reduce_one(&windows, x, o, kind, round, y, out);
    return NULL;
}

/* The first largest element of a window (a NaN counts as largest); -1 for a window of padding. */
static int64_t select_in_window(const weft_windows *w, const weft_tensor *x, const int64_t *o) {
    int64_t k[WEFT_MAX_RANK] = {0}, best = -1;
    bool floats = weft_interp_domain_of(x->dtype) == WEFT_DOMAIN_FLOAT;
    do {
        int64_t at = element_under(w, x, o, k);
        if (at < 0) continue;
        bool better = best < 0;
        if (!better && floats) {
            double v = weft_element_double(x->dtype, x->data, at), b = weft_element_double(x->dtype, x->data, best);
            better = v > b || (isnan(v) && !isnan(b));
        } else if (!better) {
            better = weft_interp_less_i64(x->dtype, weft_element_i64(x->dtype, x->data, best),
                                          weft_element_i64(x->dtype, x->data, at));
        }
        if (better) best = at;
    } while (weft_interp_next(w->rank, w->window, k));
    return best;
}

weft_status weft_interpret_select_and_scatter(weft_interpreter *interpreter, const weft_node *node,
                                              weft_tensor *const *inputs, weft_tensor **results) {
    const weft_tensor *x = inputs[0], *source = inputs[1];
    weft_windows windows;
    WEFT_TRY(read_windows(interpreter, node, x->rank, &windows), "select_and_scatter");
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of select_and_scatter");
    weft_tensor *y = results[0];
    void *memory; /* sums before the one rounding: f64, or i64 for integers */
    WEFT_TRY(weft_interp_scratch(interpreter, y->element_count, sizeof(double), &memory), "select_and_scatter");
    bool floats = weft_interp_domain_of(x->dtype) == WEFT_DOMAIN_FLOAT,
         round = weft_interp_rounds(interpreter, x->dtype);
    double *sums = memory;
    int64_t *totals = memory;
    int64_t o[WEFT_MAX_RANK] = {0};
    for (int64_t i = 0; i < source->element_count; i++, weft_interp_next(source->rank, source->shape, o)) {
        int64_t at = select_in_window(&windows, x, o);
        if (at < 0) continue;
        if (floats)
            sums[at] = weft_interp_combine_f64(WEFT_REDUCTION_SUM, round, sums[at],
                                               weft_element_double(source->dtype, source->data, i));
        else
            totals[at] = weft_interp_combine_i64(WEFT_REDUCTION_SUM, x->dtype, totals[at],
                                                 weft_element_i64(source->dtype, source->data, i));
    }
    if (floats)
        weft_interp_store_f64(y->dtype, y->data, 0, y->element_count, sums);
    else
        weft_interp_store_i64(y->dtype, y->data, 0, y->element_count, totals);
    weft_interp_scratch_free(interpreter, y->element_count, sizeof(double), memory);
    return NULL;
}
