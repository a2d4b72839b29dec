/* Reductions over axes, arg_reduce, cumulative. Elements are taken in row-major order; every sum is kept in f64 (exact
   mode) or rounded to f32 after each step (rounded mode), and rounded to the result's dtype once at the end. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

/* One accumulator; which member is live follows from the domain of the dtype. */
typedef union weft_accumulator {
    double f;
    int64_t i;
    weft_complex c;
} weft_accumulator;

static weft_accumulator identity_of(weft_reduction kind, weft_dtype dtype) {
    weft_accumulator a = {.c = {kind == WEFT_REDUCTION_PRODUCT ? 1 : 0, 0}};
    if (weft_interp_domain_of(dtype) == WEFT_DOMAIN_FLOAT) a.f = weft_interp_identity_f64(kind, dtype);
    if (weft_interp_domain_of(dtype) == WEFT_DOMAIN_INTEGER) a.i = weft_interp_identity_i64(kind, dtype);
    return a;
}

static void accumulate(weft_reduction kind, bool round, const weft_tensor *x, int64_t element, weft_accumulator *a) {
    switch (weft_interp_domain_of(x->dtype)) {
    case WEFT_DOMAIN_FLOAT:
        a->f = weft_interp_combine_f64(kind, round, a->f, weft_element_double(x->dtype, x->data, element));
        return;
    case WEFT_DOMAIN_INTEGER:
        a->i = weft_interp_combine_i64(kind, x->dtype, a->i, weft_element_i64(x->dtype, x->data, element));
        return;
    case WEFT_DOMAIN_COMPLEX:
        a->c = weft_interp_combine_complex(kind, a->c, weft_interp_load_complex(x->dtype, x->data, element));
        if (round) a->c = (weft_complex){(double)(float)a->c.re, (double)(float)a->c.im};
        return;
    }
}

static void store(weft_tensor *y, int64_t element, const weft_accumulator *a) {
    switch (weft_interp_domain_of(y->dtype)) {
    case WEFT_DOMAIN_FLOAT: weft_element_set_double(y->dtype, y->data, element, a->f); return;
    case WEFT_DOMAIN_INTEGER: weft_element_set_i64(y->dtype, y->data, element, a->i); return;
    case WEFT_DOMAIN_COMPLEX: weft_interp_store_complex(y->dtype, y->data, element, a->c); return;
    }
}

/* One row of floats of x into accumulators `step` apart: the fast path of sums over any axis. */
static void reduce_row(weft_reduction kind, bool round, const weft_tensor *x, int64_t first, int64_t count,
                       weft_accumulator *a, int64_t step) {
    if (weft_interp_domain_of(x->dtype) != WEFT_DOMAIN_FLOAT) {
        for (int64_t i = 0; i < count; i++) accumulate(kind, round, x, first + i, a + i * step);
        return;
    }
    double values[WEFT_INTERP_BLOCK];
    for (int64_t start = 0; start < count; start += WEFT_INTERP_BLOCK) {
        int64_t n = count - start < WEFT_INTERP_BLOCK ? count - start : WEFT_INTERP_BLOCK;
        weft_interp_load_f64(x->dtype, x->data, first + start, n, values);
        for (int64_t i = 0; i < n; i++) {
            weft_accumulator *cell = a + (start + i) * step;
            cell->f = weft_interp_combine_f64(kind, round, cell->f, values[i]);
        }
    }
}

weft_status weft_interpret_reduce(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                  weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    weft_reduction kind = weft_interp_reduction(node);
    bool round = weft_interp_rounds(interpreter, x->dtype), reduced[WEFT_MAX_RANK] = {false};
    for (int i = 0; i < axes->count; i++) reduced[axes->as.ints[i]] = true;
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of reduce");
    weft_tensor *y = results[0];
    int64_t strides[WEFT_MAX_RANK] = {0}; /* of the result, per axis of x */
    for (int i = 0, out = 0; i < x->rank; i++)
        if (!reduced[i]) strides[i] = y->strides[out++];
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, y->element_count, sizeof(weft_accumulator), &memory), "reduce");
    weft_accumulator *cells = memory;
    for (int64_t i = 0; i < y->element_count; i++) cells[i] = identity_of(kind, x->dtype);
    int outer = x->rank > 0 ? x->rank - 1 : 0;
    int64_t row = x->rank > 0 ? x->shape[outer] : 1, index[WEFT_MAX_RANK] = {0}, first = 0;
    do {
        int64_t out = 0;
        for (int i = 0; i < outer; i++) out += index[i] * strides[i];
        if (x->element_count) reduce_row(kind, round, x, first, row, cells + out, x->rank > 0 ? strides[outer] : 0);
        first += row;
    } while (x->element_count && weft_interp_next(outer, x->shape, index));
    for (int64_t i = 0; i < y->element_count; i++) store(y, i, &cells[i]);
    weft_interp_scratch_free(interpreter, y->element_count, sizeof(weft_accumulator), memory);
    return NULL;
}

/* Extents around an axis: element (o, k, i) is at (o * extent + k) * inner + i. */
typedef struct weft_lines {
    int64_t outer, extent, inner;
} weft_lines;

static weft_lines lines_of(const weft_tensor *x, int64_t axis) {
    weft_lines lines = {1, x->shape[axis], 1};
    for (int i = 0; i < x->rank; i++)
        if (i != axis) *(i < axis ? &lines.outer : &lines.inner) *= x->shape[i];
    return lines;
}

/* Position of the extreme element of the line that starts at `first`. */
static int64_t best_of_line(const weft_tensor *x, int64_t first, int64_t step, int64_t count, bool max, bool last) {
    int64_t best = 0;
    bool floats = weft_interp_domain_of(x->dtype) == WEFT_DOMAIN_FLOAT;
    for (int64_t k = 0; k < count; k++) {
        int64_t at = first + k * step, kept = first + best * step;
        bool better, equal;
        if (floats) {
            double v = weft_element_double(x->dtype, x->data, at), b = weft_element_double(x->dtype, x->data, kept);
            if (isnan(v)) return k;
            better = max ? v > b : v < b;
            equal = v == b;
        } else {
            int64_t v = weft_element_i64(x->dtype, x->data, at), b = weft_element_i64(x->dtype, x->data, kept);
            better = max ? weft_interp_less_i64(x->dtype, b, v) : weft_interp_less_i64(x->dtype, v, b);
            equal = v == b;
        }
        if (better || (last && equal)) best = k;
    }
    return best;
}

weft_status weft_interpret_arg_reduce(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                      weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    weft_lines lines = lines_of(x, weft_node_int(node, WEFT_ATTR_axis, 0));
    bool max = weft_interp_reduction(node) == WEFT_REDUCTION_MAX,
         last = weft_node_int(node, WEFT_ATTR_select_last, 0) != 0;
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of arg_reduce");
    if (lines.extent == 0 && results[0]->element_count)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "arg_reduce over an empty axis");
    int64_t *out = results[0]->data;
    for (int64_t i = 0; i < results[0]->element_count; i++)
        out[i] = best_of_line(x, i / lines.inner * lines.extent * lines.inner + i % lines.inner, lines.inner,
                              lines.extent, max, last);
    return NULL;
}

weft_status weft_interpret_cumulative(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                      weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    weft_lines lines = lines_of(x, weft_node_int(node, WEFT_ATTR_axis, 0));
    weft_reduction kind = weft_interp_reduction(node);
    bool exclusive = weft_node_int(node, WEFT_ATTR_exclusive, 0) != 0,
         reverse = weft_node_int(node, WEFT_ATTR_reverse, 0) != 0;
    bool round = weft_interp_rounds(interpreter, x->dtype);
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of cumulative");
    for (int64_t line = 0; line < lines.outer * lines.inner; line++) {
        int64_t first = line / lines.inner * lines.extent * lines.inner + line % lines.inner;
        weft_accumulator a = identity_of(kind, x->dtype);
        for (int64_t k = 0; k < lines.extent; k++) {
            int64_t at = first + (reverse ? lines.extent - 1 - k : k) * lines.inner;
            if (exclusive) store(results[0], at, &a);
            accumulate(kind, round, x, at, &a);
            if (!exclusive) store(results[0], at, &a);
        }
    }
    return NULL;
}
