/* sort, top_k, nonzero. One stable merge sort of positions; floats compare with -0 = +0 and NaN last in both
 * directions. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

typedef struct weft_sort_line {
    const weft_tensor *keys;
    int64_t first, step; /* element k of the line is first + k * step */
    bool descending;
} weft_sort_line;

/* Element b must come before element a (b is later in the input: equal keys keep their order). */
static bool comes_before(const weft_sort_line *line, int64_t b, int64_t a) {
    const weft_tensor *keys = line->keys;
    int64_t left = line->first + b * line->step, right = line->first + a * line->step;
    if (weft_interp_domain_of(keys->dtype) == WEFT_DOMAIN_FLOAT) {
        double x = weft_element_double(keys->dtype, keys->data, left),
               y = weft_element_double(keys->dtype, keys->data, right);
        if (isnan(x) || isnan(y)) return !isnan(x);
        return line->descending ? x > y : x < y;
    }
    int64_t x = weft_element_i64(keys->dtype, keys->data, left), y = weft_element_i64(keys->dtype, keys->data, right);
    return line->descending ? weft_interp_less_i64(keys->dtype, y, x) : weft_interp_less_i64(keys->dtype, x, y);
}

/* Bottom-up merge sort: order becomes the sorted positions [0, count); spare has the same size. */
static void sort_line(const weft_sort_line *line, int64_t count, int64_t *order, int64_t *spare) {
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t lo = 0; lo < count; lo += 2 * width) {
            int64_t mid = lo + width < count ? lo + width : count, hi = lo + 2 * width < count ? lo + 2 * width : count;
            for (int64_t a = lo, b = mid, out = lo; out < hi; out++) {
                bool right = b < hi && (a == mid || comes_before(line, order[b], order[a]));
                spare[out] = right ? order[b++] : order[a++];
            }
        }
        memcpy(order, spare, (size_t)count * sizeof *order);
    }
}

/* The lines of x along an axis: how many, and where line n starts. */
static int64_t line_start(const weft_tensor *x, int64_t axis, int64_t line) {
    int64_t inner = x->strides[axis];
    return line / inner * inner * x->shape[axis] + line % inner;
}

static void copy_element(const weft_tensor *x, int64_t from, weft_tensor *y, int64_t to) {
    weft_view source = {.offset = from}, target = {.offset = to};
    weft_interp_copy(x->dtype, 0, NULL, x->data, &source, y->data, &target);
}

weft_status weft_interpret_sort(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    const weft_tensor *keys = inputs[0];
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0), extent = keys->shape[axis];
    weft_sort_line line = {
        .keys = keys, .step = keys->strides[axis], .descending = weft_node_int(node, WEFT_ATTR_descending, 0) != 0};
    for (int i = 0; i < node->operand_count; i++)
        WEFT_TRY(weft_interp_result(interpreter, node, i, &results[i]), "result of sort");
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, extent, 2 * sizeof(int64_t), &memory), "sort");
    int64_t *order = memory, lines = extent ? keys->element_count / extent : 0;
    for (int64_t n = 0; n < lines; n++) {
        line.first = line_start(keys, axis, n);
        sort_line(&line, extent, order, order + extent);
        for (int i = 0; i < node->operand_count; i++)
            for (int64_t k = 0; k < extent; k++)
                copy_element(inputs[i], line.first + order[k] * line.step, results[i], line.first + k * line.step);
    }
    weft_interp_scratch_free(interpreter, extent, 2 * sizeof(int64_t), memory);
    return NULL;
}

weft_status weft_interpret_top_k(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                 weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0), extent = x->shape[axis], k;
    weft_sort_line line = {
        .keys = x, .step = x->strides[axis], .descending = weft_node_int(node, WEFT_ATTR_descending, 0) != 0};
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_k, &k), "top_k");
    if (k > extent)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "top_k of %lld among %lld elements", (long long)k, (long long)extent);
    for (int i = 0; i < 2; i++) WEFT_TRY(weft_interp_result(interpreter, node, i, &results[i]), "result of top_k");
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, extent, 2 * sizeof(int64_t), &memory), "top_k");
    int64_t *order = memory, *positions = results[1]->data, lines = k ? results[0]->element_count / k : 0;
    for (int64_t n = 0; n < lines; n++) {
        int64_t out = line_start(results[0], axis, n);
        line.first = line_start(x, axis, n);
        sort_line(&line, extent, order, order + extent);
        for (int64_t i = 0; i < k; i++, out += line.step) {
            copy_element(x, line.first + order[i] * line.step, results[0], out);
            positions[out] = order[i];
        }
    }
    weft_interp_scratch_free(interpreter, extent, 2 * sizeof(int64_t), memory);
    return NULL;
}

static bool is_nonzero(const weft_tensor *x, int64_t i) {
    if (weft_interp_domain_of(x->dtype) == WEFT_DOMAIN_INTEGER) return weft_element_i64(x->dtype, x->data, i) != 0;
    if (weft_interp_domain_of(x->dtype) == WEFT_DOMAIN_FLOAT) return weft_element_double(x->dtype, x->data, i) != 0;
    weft_complex c = weft_interp_load_complex(x->dtype, x->data, i);
    return c.re != 0 || c.im != 0;
}

/* Columns from the count on are 0. */
weft_status weft_interpret_nonzero(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    const weft_tensor *x = inputs[0];
    const char *symbol = weft_node_string(node, WEFT_ATTR_symbol, NULL);
    for (int i = 0; i < 2; i++) WEFT_TRY(weft_interp_result(interpreter, node, i, &results[i]), "result of nonzero");
    int64_t *out = results[0]->data, bound = x->element_count, count = 0, index[WEFT_MAX_RANK] = {0};
    for (int64_t i = 0; i < bound; i++, weft_interp_next(x->rank, x->shape, index)) {
        if (!is_nonzero(x, i)) continue;
        for (int axis = 0; axis < x->rank; axis++) out[axis * bound + count] = index[axis];
        count++;
    }
    *(int64_t *)results[1]->data = count;
    int number = symbol ? weft_dim_symbol_find(interpreter->graph->dims, symbol) : -1;
    if (number >= 0) interpreter->symbols[number] = count;
    return NULL;
}
