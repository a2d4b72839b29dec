/* gather and scatter as StableHLO defines them. Both read an index vector per batch position, spread it over the axes
   of x by index_map, and move one window. Gather clamps starts so that the window fits; scatter drops the elements that
   fall outside, one by one. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"

static bool contains(const weft_attribute *axes, int axis) {
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* How a tensor with batch and window axes (gather's result, scatter's updates) divides. */
typedef struct weft_gather_axes {
    int batch_rank, window_rank;
    int64_t batch_shape[WEFT_MAX_RANK], batch_strides[WEFT_MAX_RANK];   /* in the tensor */
    int64_t window_shape[WEFT_MAX_RANK], window_strides[WEFT_MAX_RANK]; /* in the tensor */
    int x_axis[WEFT_MAX_RANK];                                          /* axis of x of each window axis */
    int64_t index_strides[WEFT_MAX_RANK];                               /* of the batch axes in the indices */
    int64_t component_stride;                                           /* between the components of an index */
} weft_gather_axes;

static weft_gather_axes divide_axes(const weft_node *node, const weft_tensor *x, const weft_tensor *indices,
                                    const weft_tensor *tensor) {
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes);
    const weft_attribute *collapsed = weft_node_attribute(node, WEFT_ATTR_collapsed_axes);
    int64_t index_axis = weft_node_int(node, WEFT_ATTR_index_axis, 0);
    weft_gather_axes axes = {0};
    for (int i = 0; i < tensor->rank; i++) {
        bool window = contains(offset, i);
        int n = window ? axes.window_rank++ : axes.batch_rank++;
        (window ? axes.window_shape : axes.batch_shape)[n] = tensor->shape[i];
        (window ? axes.window_strides : axes.batch_strides)[n] = tensor->strides[i];
    }
    for (int i = 0, n = 0; i < x->rank; i++)
        if (!contains(collapsed, i)) axes.x_axis[n++] = i;
    for (int i = 0, n = 0; i < indices->rank; i++)
        if (i != index_axis) axes.index_strides[n++] = indices->strides[i];
    axes.component_stride = index_axis < indices->rank ? indices->strides[index_axis] : 0;
    return axes;
}

/* The start in x that the index at a batch position names. */
static void read_start(const weft_node *node, const weft_gather_axes *axes, const weft_tensor *indices,
                       const int64_t *batch, int64_t *start) {
    const weft_attribute *map = weft_node_attribute(node, WEFT_ATTR_index_map);
    int64_t at = 0;
    for (int i = 0; i < axes->batch_rank; i++) at += batch[i] * axes->index_strides[i];
    memset(start, 0, WEFT_MAX_RANK * sizeof *start);
    for (int i = 0; i < map->count; i++)
        start[map->as.ints[i]] = weft_interp_index(indices, at + i * axes->component_stride);
}

weft_status weft_interpret_gather(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                  weft_tensor **results) {
    const weft_tensor *x = inputs[0], *indices = inputs[1];
    int64_t sizes[WEFT_MAX_RANK], start[WEFT_MAX_RANK], batch[WEFT_MAX_RANK] = {0};
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_sizes, sizes), "gather");
    for (int i = 0; i < x->rank; i++)
        if (sizes[i] > x->shape[i]) return WEFT_STATUS(WEFT_OUT_OF_RANGE, "gather: the window exceeds axis %d", i);
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of gather");
    weft_tensor *y = results[0];
    if (y->element_count == 0) return NULL;
    weft_gather_axes axes = divide_axes(node, x, indices, y);
    weft_view from = {0}, to = {0};
    for (int i = 0; i < axes.window_rank; i++) {
        from.strides[i] = x->strides[axes.x_axis[i]];
        to.strides[i] = axes.window_strides[i];
    }
    do {
        read_start(node, &axes, indices, batch, start);
        from.offset = to.offset = 0;
        for (int i = 0; i < x->rank; i++) {
            int64_t last = x->shape[i] - sizes[i], clamped = start[i] > last ? last : start[i];
            from.offset += (clamped < 0 ? 0 : clamped) * x->strides[i];
        }
        for (int i = 0; i < axes.batch_rank; i++) to.offset += batch[i] * axes.batch_strides[i];
        weft_interp_copy(y->dtype, axes.window_rank, axes.window_shape, x->data, &from, y->data, &to);
    } while (weft_interp_next(axes.batch_rank, axes.batch_shape, batch));
    return NULL;
}

/* Element `at` of y becomes kind(y[at], update); sums of floats gather in `sums` and round once at the end. */
static void apply_update(weft_reduction kind, bool round, weft_tensor *y, double *sums, int64_t at,
                         const weft_tensor *updates, int64_t from) {
    if (kind == WEFT_REDUCTION_SET) {
        weft_view source = {.offset = from}, target = {.offset = at};
        weft_interp_copy(y->dtype, 0, NULL, updates->data, &source, y->data, &target);
    } else if (sums) {
        sums[at] =
            weft_interp_combine_f64(kind, round, sums[at], weft_element_double(updates->dtype, updates->data, from));
    } else {
        int64_t value = weft_interp_combine_i64(kind, y->dtype, weft_element_i64(y->dtype, y->data, at),
                                                weft_element_i64(updates->dtype, updates->data, from));
        weft_element_set_i64(y->dtype, y->data, at, value);
    }
}

static void scatter_window(const weft_gather_axes *axes, weft_reduction kind, bool round, const int64_t *start,
                           weft_tensor *y, double *sums, const weft_tensor *updates, int64_t first) {
    int64_t window[WEFT_MAX_RANK] = {0};
    do {
        int64_t position[WEFT_MAX_RANK], at = 0, from = first;
        memcpy(position, start, sizeof position);
        for (int i = 0; i < axes->window_rank; i++) {
            int64_t *p = &position[axes->x_axis[i]];
            *p = *p > INT64_MAX - window[i] ? INT64_MAX : *p + window[i];
            from += window[i] * axes->window_strides[i];
        }
        bool inside = true;
        for (int i = 0; i < y->rank; i++) {
            inside = inside && position[i] >= 0 && position[i] < y->shape[i];
            if (inside) at += position[i] * y->strides[i];
        }
        if (inside) apply_update(kind, round, y, sums, at, updates, from);
    } while (weft_interp_next(axes->window_rank, axes->window_shape, window));
}

weft_status weft_interpret_scatter(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                   weft_tensor **results) {
    const weft_tensor *x = inputs[0], *indices = inputs[1], *updates = inputs[2];
    weft_reduction kind = weft_interp_reduction(node);
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of scatter");
    weft_tensor *y = results[0];
    memcpy(y->data, x->data, x->bytes);
    if (updates->element_count == 0) return NULL;
    double *sums = NULL;
    if (kind != WEFT_REDUCTION_SET && weft_interp_domain_of(y->dtype) == WEFT_DOMAIN_FLOAT) {
        void *memory;
        WEFT_TRY(weft_interp_scratch(interpreter, y->element_count, sizeof *sums, &memory), "scatter");
        sums = memory;
        weft_interp_load_f64(x->dtype, x->data, 0, x->element_count, sums);
    }
    weft_gather_axes axes = divide_axes(node, x, indices, updates);
    bool round = weft_interp_rounds(interpreter, y->dtype);
    int64_t batch[WEFT_MAX_RANK] = {0}, start[WEFT_MAX_RANK];
    do {
        int64_t first = 0;
        for (int i = 0; i < axes.batch_rank; i++) first += batch[i] * axes.batch_strides[i];
        read_start(node, &axes, indices, batch, start);
        scatter_window(&axes, kind, round, start, y, sums, updates, first);
    } while (weft_interp_next(axes.batch_rank, axes.batch_shape, batch));
    if (sums) {
        weft_interp_store_f64(y->dtype, y->data, 0, y->element_count, sums);
        weft_interp_scratch_free(interpreter, y->element_count, sizeof *sums, sums);
    }
    return NULL;
}
