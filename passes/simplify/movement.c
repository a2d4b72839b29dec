/* Rewrites of slice, pad, concat, reverse and the dynamic slices. */
#include "base/tensor.h"
#include "passes/simplify/simplify.h"

static const weft_dim *dims_of(const weft_node *node, weft_attribute_name name) {
    return weft_node_attribute(node, name)->as.dims;
}
static const int64_t *ints_of(const weft_node *node, weft_attribute_name name) {
    return weft_node_attribute(node, name)->as.ints;
}

/* -- slice */

static bool is_whole(const weft_node *slice, int axis) {
    return dims_of(slice, WEFT_ATTR_start)[axis] == 0 && ints_of(slice, WEFT_ATTR_stride)[axis] == 1 &&
           dims_of(slice, WEFT_ATTR_limit)[axis] == slice->operands[0]->type.dims[axis];
}

weft_value *weft_rewrite_slice_whole(weft_graph *graph, weft_node *node) {
    (void)graph;
    for (int i = 0; i < node->results[0].type.rank; i++)
        if (!is_whole(node, i)) return NULL;
    return node->operands[0];
}

static weft_value *emit_slice(weft_graph *graph, weft_value *x, const weft_dim *start, const weft_dim *limit,
                              const int64_t *stride) {
    int rank = x->type.rank;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_start, rank, start),
                                    weft_attr_dims(WEFT_ATTR_limit, rank, limit),
                                    weft_attr_ints(WEFT_ATTR_stride, rank, stride)};
    return weft_build(graph, WEFT_OP_slice, 1, &x, 3, attributes);
}

/* Element i of the outer is element start + i * stride of the inner. */
weft_value *weft_rewrite_slice_of_slice(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_slice);
    if (!inner) return NULL;
    weft_dim start[WEFT_MAX_RANK], limit[WEFT_MAX_RANK];
    int64_t stride[WEFT_MAX_RANK];
    for (int i = 0; i < node->results[0].type.rank; i++) {
        weft_dim_table *dims = graph->dims;
        int64_t step = ints_of(inner, WEFT_ATTR_stride)[i];
        if (__builtin_mul_overflow(step, ints_of(node, WEFT_ATTR_stride)[i], &stride[i]) || stride[i] > INT32_MAX)
            return NULL;
        start[i] = weft_dim_add(dims, dims_of(inner, WEFT_ATTR_start)[i],
                                weft_dim_multiply(dims, dims_of(node, WEFT_ATTR_start)[i], step));
        /* the last element taken, plus one; nothing taken: an empty range at the start */
        weft_dim count = node->results[0].type.dims[i];
        int64_t minimum, maximum;
        weft_dim_bounds(dims, count, &minimum, &maximum);
        if (minimum < 1 && count != 0) return NULL;
        weft_dim reach = weft_dim_multiply(dims, weft_dim_subtract(dims, count, 1), stride[i]);
        limit[i] = count == 0 ? start[i] : weft_dim_add(dims, weft_dim_add(dims, start[i], reach), 1);
        if (start[i] == WEFT_DIM_INVALID || limit[i] == WEFT_DIM_INVALID) return NULL;
    }
    return emit_slice(graph, inner->operands[0], start, limit, stride);
}

/* A slice that lies in one operand of a concat is a slice of that operand. Extents along the axis must be numbers. */
weft_value *weft_rewrite_slice_of_concat(weft_graph *graph, weft_node *node) {
    weft_node *concat = weft_producer(node->operands[0], WEFT_OP_concat);
    if (!concat) return NULL;
    int axis = (int)weft_node_int(concat, WEFT_ATTR_axis, 0), rank = node->results[0].type.rank;
    weft_dim from = dims_of(node, WEFT_ATTR_start)[axis], to = dims_of(node, WEFT_ATTR_limit)[axis], offset = 0;
    if (!weft_dim_is_number(from) || !weft_dim_is_number(to) || from == to) return NULL;
    for (int n = 0; n < concat->operand_count; n++) {
        weft_dim extent = concat->operands[n]->type.dims[axis];
        if (!weft_dim_is_number(extent) || from < offset) return NULL;
        if (to > offset + extent) {
            offset += extent;
            continue;
        }
        weft_dim start[WEFT_MAX_RANK], limit[WEFT_MAX_RANK];
        for (int i = 0; i < rank; i++) {
            start[i] = dims_of(node, WEFT_ATTR_start)[i] - (i == axis ? offset : 0);
            limit[i] = dims_of(node, WEFT_ATTR_limit)[i] - (i == axis ? offset : 0);
        }
        return emit_slice(graph, concat->operands[n], start, limit, ints_of(node, WEFT_ATTR_stride));
    }
    return NULL;
}

weft_value *weft_rewrite_slice_of_splat(weft_graph *graph, weft_node *node) {
    weft_node *broadcast = weft_producer(node->operands[0], WEFT_OP_broadcast);
    if (!broadcast || broadcast->operands[0]->type.rank != 0) return NULL;
    return weft_emit_broadcast(graph, broadcast->operands[0], node->results[0].type.rank, node->results[0].type.dims,
                               NULL);
}

/* Axes of extent 1 and splats look the same backwards. */
weft_value *weft_rewrite_reverse_trivial(weft_graph *graph, weft_node *node) {
    (void)graph;
    if (weft_splat(node->operands[0])) return node->operands[0];
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        if (node->results[0].type.dims[axes->as.ints[i]] != 1) return NULL;
    return node->operands[0];
}

weft_value *weft_rewrite_pad_zero(weft_graph *graph, weft_node *node) {
    (void)graph;
    for (int i = 0; i < node->results[0].type.rank; i++)
        if (dims_of(node, WEFT_ATTR_low)[i] != 0 || dims_of(node, WEFT_ATTR_high)[i] != 0 ||
            (ints_of(node, WEFT_ATTR_interior)[i] != 0 && node->results[0].type.dims[i] != 1))
            return NULL;
    return node->operands[0];
}

/* -- concat */

static weft_value *emit_concat(weft_graph *graph, const weft_node *like, int count, weft_value *const *values) {
    return weft_emit_concat(graph, (int)weft_node_int(like, WEFT_ATTR_axis, 0), count, values);
}

weft_value *weft_rewrite_concat_one(weft_graph *graph, weft_node *node) {
    (void)graph;
    return node->operand_count == 1 ? node->operands[0] : NULL;
}

weft_value *weft_rewrite_concat_empty(weft_graph *graph, weft_node *node) {
    int axis = (int)weft_node_int(node, WEFT_ATTR_axis, 0), count = 0;
    weft_value **values = weft_graph_allocate(graph, (size_t)node->operand_count, sizeof *values);
    if (!values) return NULL;
    for (int i = 0; i < node->operand_count; i++)
        if (node->operands[i]->type.dims[axis] != 0) values[count++] = node->operands[i];
    return count == node->operand_count || count == 0 ? NULL : emit_concat(graph, node, count, values);
}

weft_value *weft_rewrite_concat_of_concat(weft_graph *graph, weft_node *node) {
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0);
    int total = 0;
    bool nested = false;
    for (int i = 0; i < node->operand_count; i++) {
        weft_node *inner = weft_producer(node->operands[i], WEFT_OP_concat);
        bool same = inner && weft_node_int(inner, WEFT_ATTR_axis, 0) == axis && inner->results[0].uses->next == NULL;
        total += same ? inner->operand_count : 1;
        nested |= same;
    }
    weft_value **values = nested ? weft_graph_allocate(graph, (size_t)total, sizeof *values) : NULL;
    if (!values) return NULL;
    int count = 0;
    for (int i = 0; i < node->operand_count; i++) {
        weft_node *inner = weft_producer(node->operands[i], WEFT_OP_concat);
        bool same = inner && weft_node_int(inner, WEFT_ATTR_axis, 0) == axis && inner->results[0].uses->next == NULL;
        for (int k = 0; same && k < inner->operand_count; k++) values[count++] = inner->operands[k];
        if (!same) values[count++] = node->operands[i];
    }
    return emit_concat(graph, node, count, values);
}

/* b continues a: slices of one value that differ along the axis only, stride 1. */
static bool adjacent(const weft_node *a, const weft_node *b, int axis) {
    if (!a || !b || a->operands[0] != b->operands[0]) return false;
    for (int i = 0; i < a->results[0].type.rank; i++) {
        if (ints_of(a, WEFT_ATTR_stride)[i] != ints_of(b, WEFT_ATTR_stride)[i]) return false;
        if (i == axis) {
            if (ints_of(a, WEFT_ATTR_stride)[i] != 1 ||
                dims_of(a, WEFT_ATTR_limit)[i] != dims_of(b, WEFT_ATTR_start)[i])
                return false;
        } else if (dims_of(a, WEFT_ATTR_start)[i] != dims_of(b, WEFT_ATTR_start)[i] ||
                   dims_of(a, WEFT_ATTR_limit)[i] != dims_of(b, WEFT_ATTR_limit)[i]) {
            return false;
        }
    }
    return true;
}

/* concat(x[0:2], x[2:5]) -> x[0:5] */
weft_value *weft_rewrite_concat_of_slices(weft_graph *graph, weft_node *node) {
    int axis = (int)weft_node_int(node, WEFT_ATTR_axis, 0), rank = node->results[0].type.rank;
    for (int i = 0; i + 1 < node->operand_count; i++) {
        const weft_node *a = weft_producer(node->operands[i], WEFT_OP_slice);
        const weft_node *b = weft_producer(node->operands[i + 1], WEFT_OP_slice);
        if (!adjacent(a, b, axis)) continue;
        weft_dim limit[WEFT_MAX_RANK];
        for (int k = 0; k < rank; k++) limit[k] = dims_of(k == axis ? b : a, WEFT_ATTR_limit)[k];
        weft_value **values = weft_graph_allocate(graph, (size_t)node->operand_count, sizeof *values);
        if (!values) return NULL;
        int count = 0;
        for (int k = 0; k < node->operand_count; k++)
            if (k != i + 1) values[count++] = node->operands[k];
        values[i] = emit_slice(graph, a->operands[0], dims_of(a, WEFT_ATTR_start), limit, ints_of(a, WEFT_ATTR_stride));
        return emit_concat(graph, node, count, values);
    }
    return NULL;
}

/* -- dynamic slices */

/* Constant starts, clamped as the op says -> slice */
weft_value *weft_rewrite_dynamic_slice_static(weft_graph *graph, weft_node *node) {
    const weft_type *x = &node->operands[0]->type;
    weft_dim start[WEFT_MAX_RANK], limit[WEFT_MAX_RANK];
    int64_t stride[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        const weft_tensor *constant = weft_splat(node->operands[i + 1]);
        weft_dim size = dims_of(node, WEFT_ATTR_sizes)[i];
        if (size == x->dims[i]) { /* any start is clamped to 0 */
            start[i] = 0;
        } else {
            if (!constant || !weft_dim_is_number(size) || !weft_dim_is_number(x->dims[i])) return NULL;
            int64_t value = weft_element_i64(WEFT_I64, constant->data, 0), last = x->dims[i] - size;
            start[i] = value < 0 ? 0 : value > last ? last : value;
        }
        limit[i] = weft_dim_add(graph->dims, start[i], size);
        stride[i] = 1;
    }
    return emit_slice(graph, node->operands[0], start, limit, stride);
}

weft_value *weft_rewrite_dynamic_update_slice_whole(weft_graph *graph, weft_node *node) {
    (void)graph;
    return weft_type_equal(&node->operands[1]->type, &node->results[0].type) ? node->operands[1] : NULL;
}
