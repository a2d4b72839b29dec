/* Ops that make or move elements without computing on them: each is one strided copy, or a few. */
#include <string.h>

#include "ir/interp/interp.h"

weft_status weft_interpret_constant(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                    weft_tensor **results) {
    (void)inputs;
    weft_tensor *value = weft_node_attribute(node, WEFT_ATTR_value)->as.tensor;
    if (value->packed) {
        weft_tensor_retain(value);
        results[0] = value;
        return NULL;
    }
    WEFT_TRY(weft_tensor_create(interpreter->graph->context, value->dtype, value->rank, value->shape, &results[0]),
             "packing a constant");
    weft_view from = weft_interp_view(value), to = weft_interp_view(results[0]);
    weft_interp_copy(value->dtype, value->rank, value->shape, value->data, &from, results[0]->data, &to);
    return NULL;
}

weft_status weft_interpret_iota(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    (void)inputs;
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of iota");
    weft_tensor *y = results[0];
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0), stride = y->strides[axis], extent = y->shape[axis];
    for (int64_t i = 0; i < y->element_count; i++) {
        int64_t value = i / stride % extent;
        weft_element_set_i64(y->dtype, y->data, i, value);
    }
    return NULL;
}

weft_status weft_interpret_dim(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                               weft_tensor **results) {
    (void)inputs;
    int64_t value;
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_extent, &value), "dim");
    return weft_tensor_create_copy(interpreter->graph->context, WEFT_I64, 0, NULL, &value, &results[0]);
}

weft_status weft_interpret_reshape(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of reshape");
    if (results[0]->element_count != inputs[0]->element_count)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "reshape of %lld elements to %lld", (long long)inputs[0]->element_count,
                           (long long)results[0]->element_count);
    memcpy(results[0]->data, inputs[0]->data, inputs[0]->bytes);
    return NULL;
}

weft_status weft_interpret_identity(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                    weft_tensor **results) {
    (void)interpreter;
    for (int i = 0; i < node->operand_count; i++) {
        weft_tensor_retain(inputs[i]);
        results[i] = inputs[i];
    }
    return NULL;
}

/* The whole result, read from x through a view. */
static void read_through(const weft_tensor *x, const weft_view *from, weft_tensor *y) {
    weft_view to = weft_interp_view(y);
    weft_interp_copy(y->dtype, y->rank, y->shape, x->data, from, y->data, &to);
}

weft_status weft_interpret_transpose(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                     weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of transpose");
    const int64_t *permutation = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    weft_view from = {0};
    for (int i = 0; i < results[0]->rank; i++) from.strides[i] = inputs[0]->strides[permutation[i]];
    read_through(inputs[0], &from, results[0]);
    return NULL;
}

weft_status weft_interpret_broadcast(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                     weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of broadcast");
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    const weft_tensor *x = inputs[0];
    weft_view from = {0};
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[i] != 1 && x->shape[i] != results[0]->shape[axes[i]])
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "broadcast of extent %lld to %lld", (long long)x->shape[i],
                               (long long)results[0]->shape[axes[i]]);
        from.strides[axes[i]] = x->shape[i] == 1 ? 0 : x->strides[i];
    }
    read_through(x, &from, results[0]);
    return NULL;
}

weft_status weft_interpret_slice(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                 weft_tensor **results) {
    int64_t start[WEFT_MAX_RANK], limit[WEFT_MAX_RANK];
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_start, start), "slice");
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_limit, limit), "slice");
    const int64_t *stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints;
    const weft_tensor *x = inputs[0];
    weft_view from = {0};
    for (int i = 0; i < x->rank; i++) {
        if (start[i] < 0 || limit[i] < start[i] || limit[i] > x->shape[i])
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "slice [%lld, %lld) of axis %d with extent %lld", (long long)start[i],
                               (long long)limit[i], i, (long long)x->shape[i]);
        from.offset += start[i] * x->strides[i];
        from.strides[i] = stride[i] * x->strides[i];
    }
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of slice");
    read_through(x, &from, results[0]);
    return NULL;
}

weft_status weft_interpret_reverse(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of reverse");
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    weft_view from = weft_interp_view(inputs[0]);
    for (int i = 0; i < axes->count; i++) {
        int64_t axis = axes->as.ints[i];
        from.offset += (inputs[0]->shape[axis] - 1) * inputs[0]->strides[axis];
        from.strides[axis] = -inputs[0]->strides[axis];
    }
    read_through(inputs[0], &from, results[0]);
    return NULL;
}

/* Every element of y is the scalar fill. */
static void fill_with(const weft_tensor *fill, weft_tensor *y) {
    weft_view from = {0};
    read_through(fill, &from, y);
}

/* Element i of an axis lands at low + i * step; the first and the number of elements that land inside the result. */
static void landing_range(int64_t extent, int64_t result, int64_t low, int64_t step, int64_t *out_first,
                          int64_t *out_count) {
    int64_t first = low < 0 ? (-low + step - 1) / step : 0;
    int64_t end = result > low ? (result - low - 1) / step + 1 : 0;
    if (end > extent) end = extent;
    *out_first = first;
    *out_count = end > first ? end - first : 0;
}

weft_status weft_interpret_pad(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                               weft_tensor **results) {
    int64_t low[WEFT_MAX_RANK], shape[WEFT_MAX_RANK];
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_low, low), "pad");
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of pad");
    const int64_t *interior = weft_node_attribute(node, WEFT_ATTR_interior)->as.ints;
    const weft_tensor *x = inputs[0];
    weft_tensor *y = results[0];
    fill_with(inputs[1], y);
    weft_view from = weft_interp_view(x), to = {0};
    for (int i = 0; i < x->rank; i++) {
        int64_t step = interior[i] + 1, first;
        landing_range(x->shape[i], y->shape[i], low[i], step, &first, &shape[i]);
        from.offset += first * x->strides[i];
        to.offset += (low[i] + first * step) * y->strides[i];
        to.strides[i] = step * y->strides[i];
    }
    weft_interp_copy(x->dtype, x->rank, shape, x->data, &from, y->data, &to);
    return NULL;
}

weft_status weft_interpret_concat(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                  weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of concat");
    weft_tensor *y = results[0];
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0), at = 0;
    for (int i = 0; i < node->operand_count; i++) {
        const weft_tensor *x = inputs[i];
        weft_view from = weft_interp_view(x), to = weft_interp_view(y);
        if (at + x->shape[axis] > y->shape[axis])
            return WEFT_STATUS(WEFT_INTERNAL, "concat: operands exceed the result");
        to.offset = at * y->strides[axis];
        weft_interp_copy(x->dtype, x->rank, x->shape, x->data, &from, y->data, &to);
        at += x->shape[axis];
    }
    return NULL;
}

/* Start scalars from operand `first` on, clamped so that a window of `sizes` fits into `shape`. */
static int64_t clamped_offset(const weft_tensor *x, weft_tensor *const *starts, const int64_t *sizes) {
    int64_t offset = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t start = weft_interp_index(starts[i], 0), last = x->shape[i] - sizes[i];
        if (start > last) start = last;
        if (start < 0) start = 0;
        offset += start * x->strides[i];
    }
    return offset;
}

static weft_status window_fits(const weft_tensor *x, const weft_tensor *window) {
    for (int i = 0; i < x->rank; i++)
        if (window->shape[i] > x->shape[i])
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "a window of %lld does not fit axis %d of extent %lld",
                               (long long)window->shape[i], i, (long long)x->shape[i]);
    return NULL;
}

weft_status weft_interpret_dynamic_slice(weft_interpreter *interpreter, const weft_node *node,
                                         weft_tensor *const *inputs, weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of dynamic_slice");
    WEFT_TRY(window_fits(inputs[0], results[0]), "dynamic_slice");
    weft_view from = weft_interp_view(inputs[0]);
    from.offset = clamped_offset(inputs[0], inputs + 1, results[0]->shape);
    read_through(inputs[0], &from, results[0]);
    return NULL;
}

weft_status weft_interpret_dynamic_update_slice(weft_interpreter *interpreter, const weft_node *node,
                                                weft_tensor *const *inputs, weft_tensor **results) {
    const weft_tensor *x = inputs[0], *update = inputs[1];
    WEFT_TRY(window_fits(x, update), "dynamic_update_slice");
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of dynamic_update_slice");
    memcpy(results[0]->data, x->data, x->bytes);
    weft_view from = weft_interp_view(update), to = weft_interp_view(x);
    to.offset = clamped_offset(x, inputs + 2, update->shape);
    weft_interp_copy(x->dtype, x->rank, update->shape, update->data, &from, results[0]->data, &to);
    return NULL;
}
