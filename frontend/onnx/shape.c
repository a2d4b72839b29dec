/* ONNX operators that make, read and change shapes. Shapes given as values are followed symbolically (symbolic.c).
   Read next: slice.c, gather.c. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

/* A loss of nothing: attributes hold one of several forms of constant. */
void weft_onnx_import_constant(weft_onnx_node *node) {
    weft_onnx_import_state *import = node->import;
    weft_context *context = import->context;
    static const char *const names[] = {"value",        "sparse_value", "value_float",
                                        "value_floats", "value_int",    "value_ints"};
    const Onnx__AttributeProto *attribute = NULL;
    int which = 0;
    for (; which < 6 && !attribute; which++) attribute = weft_onnx_attribute(node, names[which]);
    if (!attribute) {
        weft_onnx_problem(node, "strings exist on the host only, and no other value is given");
        return;
    }
    weft_tensor *tensor = NULL;
    weft_status status = NULL;
    int64_t float_count = (int64_t)attribute->n_floats, int_count = (int64_t)attribute->n_ints;
    switch (which - 1) {
    case 0:
        if (!attribute->t)
            weft_onnx_problem(node, "attribute value holds no tensor");
        else
            status = weft_onnx_tensor_create(context, attribute->t, &import->folder, &tensor);
        break;
    case 1:
        if (!attribute->sparse_tensor)
            weft_onnx_problem(node, "attribute sparse_value holds no tensor");
        else
            status = weft_onnx_sparse_tensor_create(context, attribute->sparse_tensor, &import->folder, &tensor);
        break;
    case 2: status = weft_tensor_create_copy(context, WEFT_F32, 0, NULL, &attribute->f, &tensor); break;
    case 3: status = weft_tensor_create_copy(context, WEFT_F32, 1, &float_count, attribute->floats, &tensor); break;
    case 4: status = weft_tensor_create_copy(context, WEFT_I64, 0, NULL, &attribute->i, &tensor); break;
    default: status = weft_tensor_create_copy(context, WEFT_I64, 1, &int_count, attribute->ints, &tensor); break;
    }
    if (status || tensor) weft_onnx_output(node, 0, weft_onnx_constant(import, status, tensor, NULL));
}

void weft_onnx_import_constant_of_shape(weft_onnx_node *node) {
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, "value");
    int rank;
    weft_dim shape[WEFT_MAX_RANK];
    if (!weft_onnx_extents(node, weft_onnx_input(node, 0), WEFT_MAX_RANK, &rank, shape)) return;
    weft_value *fill;
    if (attribute && attribute->t) {
        weft_tensor *tensor = NULL;
        weft_status status =
            weft_onnx_tensor_create(node->import->context, attribute->t, &node->import->folder, &tensor);
        fill = weft_onnx_constant(node->import, status, tensor, NULL);
        fill = weft_reshape(node->graph, fill, 0, NULL);
    } else
        fill = weft_scalar(node->graph, WEFT_F32, 0);
    weft_onnx_output(node, 0, weft_broadcast_to(node->graph, fill, rank, shape));
}

void weft_onnx_import_shape(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    int64_t rank = x->type.rank, start = weft_onnx_int(node, "start", 0), end = weft_onnx_int(node, "end", rank);
    start = start < 0 ? start + rank : start, end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    weft_onnx_output(node, 0, weft_onnx_extents_value(node->graph, (int)(end - start), x->type.dims + start));
}

void weft_onnx_import_size(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    if (!weft_value_is_poison(x))
        weft_onnx_output(node, 0, weft_extent(node->graph, weft_type_count(node->graph, &x->type)));
}

void weft_onnx_import_reshape(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int rank;
    weft_dim shape[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return;
    if (node->version < 5) {
        int64_t values[WEFT_MAX_RANK];
        bool ok;
        if (!weft_onnx_axes(node, -1, "shape", &rank, values, &ok) || !ok) {
            weft_onnx_problem(node, "attribute shape is missing");
            return;
        }
        for (int i = 0; i < rank; i++) shape[i] = weft_onnx_dim(g, values[i]);
    } else if (!weft_onnx_extents(node, weft_onnx_input(node, 1), WEFT_MAX_RANK, &rank, shape))
        return;
    bool allow_zero = weft_onnx_int(node, "allowzero", 0) != 0;
    for (int i = 0; i < rank; i++) {
        int64_t number;
        if (!weft_onnx_dim_number(g, shape[i], &number)) continue;
        if (number == -1)
            shape[i] = WEFT_DIM_ANY;
        else if (number < 0 || (number == 0 && !allow_zero && i >= x->type.rank)) {
            weft_onnx_problem(node, "extent %lld of axis %d", (long long)number, i);
            return;
        } else if (number == 0 && !allow_zero)
            shape[i] = x->type.dims[i];
    }
    weft_onnx_output(node, 0, weft_reshape(g, x, rank, shape));
}

void weft_onnx_import_transpose(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    int count;
    const int64_t *permutation;
    bool given = weft_onnx_ints(node, "perm", &count, &permutation);
    if (given && !weft_value_is_poison(x) && count != x->type.rank) {
        weft_onnx_problem(node, "perm has %d entries for a rank of %d", count, x->type.rank);
        return;
    }
    weft_onnx_output(node, 0, weft_transpose(node->graph, x, given ? permutation : NULL));
}

void weft_onnx_import_squeeze(weft_onnx_node *node) {
    int count;
    int64_t axes[WEFT_MAX_RANK];
    bool ok;
    bool given = weft_onnx_axes(node, 1, "axes", &count, axes, &ok);
    weft_value *x = weft_onnx_input(node, 0);
    if (!ok) return;
    weft_onnx_output(node, 0, given && count == 0 ? x : weft_squeeze(node->graph, x, count, axes));
}

void weft_onnx_import_unsqueeze(weft_onnx_node *node) {
    int count;
    int64_t axes[WEFT_MAX_RANK];
    bool ok;
    if (!weft_onnx_axes(node, 1, "axes", &count, axes, &ok)) weft_onnx_problem(node, "axes are missing");
    if (ok) weft_onnx_output(node, 0, weft_unsqueeze(node->graph, weft_onnx_input(node, 0), count, axes));
}

void weft_onnx_import_flatten(weft_onnx_node *node) {
    int64_t axis = weft_onnx_int(node, "axis", 1);
    weft_onnx_output(node, 0,
                     weft_flatten(node->graph, weft_onnx_input(node, 0), axis > 100 || axis < -100 ? 100 : (int)axis));
}

void weft_onnx_import_concat(weft_onnx_node *node) {
    if (node->version >= 4 && !weft_onnx_require(node, "axis")) return;
    weft_value **values = weft_onnx_allocate(node->import, (size_t)node->input_count + 1, sizeof *values);
    if (!values) return;
    for (int i = 0; i < node->input_count; i++) values[i] = weft_onnx_input(node, i);
    weft_onnx_output(
        node, 0,
        weft_concat(node->graph, weft_onnx_int32(node, "axis", node->version < 4 ? 1 : 0), node->input_count, values));
}

void weft_onnx_import_expand(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    int rank;
    weft_dim shape[WEFT_MAX_RANK];
    if (weft_value_is_poison(x) || !weft_onnx_extents(node, weft_onnx_input(node, 1), WEFT_MAX_RANK, &rank, shape))
        return;
    /* both sides broadcast: a 1 in the shape keeps x's extent */
    for (int i = 0; i < rank; i++) {
        int at = i - (rank - x->type.rank);
        if (at >= 0 && shape[i] == 1) shape[i] = x->type.dims[at];
    }
    if (rank < x->type.rank) {
        int more = x->type.rank - rank;
        weft_dim full[WEFT_MAX_RANK];
        for (int i = 0; i < x->type.rank; i++)
            full[i] = i < more || shape[i - more] == 1 ? x->type.dims[i] : shape[i - more];
        weft_onnx_output(node, 0, weft_broadcast_to(node->graph, x, x->type.rank, full));
        return;
    }
    weft_onnx_output(node, 0, weft_broadcast_to(node->graph, x, rank, shape));
}

/* Each axis becomes a pair (repeats, extent), broadcast and merged. */
static weft_value *tile(weft_onnx_node *node, weft_value *x, const weft_dim *repeats) {
    weft_graph *g = node->graph;
    for (int i = 0; i < x->type.rank; i++) {
        if (repeats[i] == 1) continue;
        if (weft_value_is_poison(x) || x->type.rank + 1 > WEFT_MAX_RANK) return weft_value_poison(g);
        int rank = x->type.rank;
        weft_dim wide[WEFT_MAX_RANK], merged[WEFT_MAX_RANK];
        int64_t at = i;
        for (int k = 0; k <= rank; k++) wide[k] = k == i ? repeats[i] : x->type.dims[k > i ? k - 1 : k];
        for (int k = 0; k < rank; k++)
            merged[k] = k == i ? weft_dim_multiply(g->dims, repeats[i], x->type.dims[i]) : x->type.dims[k];
        x = weft_reshape(g, weft_broadcast_to(g, weft_unsqueeze(g, x, 1, &at), rank + 1, wide), rank, merged);
    }
    return x;
}

void weft_onnx_import_tile(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0);
    weft_dim repeats[WEFT_MAX_RANK];
    int count;
    if (weft_value_is_poison(x)) return;
    if (node->version < 6) {
        weft_dim times, axis_dim;
        int64_t axis;
        if (!weft_onnx_extent(node, weft_onnx_input(node, 1), &times) ||
            !weft_onnx_extent(node, weft_onnx_input(node, 2), &axis_dim))
            return;
        if (!weft_onnx_dim_number(node->graph, axis_dim, &axis) || axis < 0 || axis >= x->type.rank) {
            weft_onnx_problem(node, "the axis is out of range");
            return;
        }
        for (int i = 0; i < x->type.rank; i++) repeats[i] = i == axis ? times : 1;
    } else {
        if (!weft_onnx_extents(node, weft_onnx_input(node, 1), WEFT_MAX_RANK, &count, repeats)) return;
        if (count != x->type.rank) {
            weft_onnx_problem(node, "%d repeats for a rank of %d", count, x->type.rank);
            return;
        }
    }
    weft_onnx_output(node, 0, tile(node, x, repeats));
}

/* start + i * delta for i below ceil((limit - start) / delta). */
void weft_onnx_import_range(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *start = weft_onnx_input(node, 0), *limit = weft_onnx_input(node, 1), *delta = weft_onnx_input(node, 2);
    if (weft_value_is_poison(start) || weft_value_is_poison(limit) || weft_value_is_poison(delta)) return;
    weft_dtype dtype = start->type.dtype;
    weft_dim count;
    if (weft_dtype_is_float(dtype)) {
        double first, last, step;
        if (!weft_onnx_number(node, start, &first) || !weft_onnx_number(node, limit, &last) ||
            !weft_onnx_number(node, delta, &step))
            return;
        double size = ceil((last - first) / step);
        if (!(size < 1e15)) {
            weft_onnx_problem(node, "a range of %g elements", size);
            return;
        }
        count = size > 0 ? (int64_t)size : 0;
    } else {
        weft_dim first, last;
        int64_t step;
        if (!weft_onnx_extent(node, start, &first) || !weft_onnx_extent(node, limit, &last) ||
            !weft_onnx_integer(node, delta, &step))
            return;
        if (step == 0 || step == INT64_MIN) {
            weft_onnx_problem(node, "a range with a step of %lld", (long long)step);
            return;
        }
        weft_dim span = step > 0 ? weft_dim_subtract(g->dims, last, first) : weft_dim_subtract(g->dims, first, last);
        count = weft_dim_maximum(g->dims, weft_dim_divide_ceil(g->dims, span, step > 0 ? step : -step), 0);
    }
    weft_value *position = weft_iota(g, dtype, 1, &count, 0);
    weft_value *scalar_delta = weft_reshape(g, delta, 0, NULL), *scalar_start = weft_reshape(g, start, 0, NULL);
    weft_onnx_output(node, 0, weft_add(g, weft_mul(g, position, scalar_delta), scalar_start));
}

void weft_onnx_import_eye_like(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    if (x->type.rank != 2) {
        weft_onnx_problem(node, "rank %d, wanted 2", x->type.rank);
        return;
    }
    weft_dtype dtype = weft_onnx_dtype_attribute(node, "dtype", x->type.dtype);
    weft_value *row = weft_iota(g, WEFT_I64, 2, x->type.dims, 0), *column = weft_iota(g, WEFT_I64, 2, x->type.dims, 1);
    weft_value *diagonal = weft_add(g, row, weft_scalar_integer(g, WEFT_I64, weft_onnx_int(node, "k", 0)));
    if (dtype != WEFT_INVALID)
        weft_onnx_output(node, 0, weft_convert(g, weft_compare(g, WEFT_EQ, column, diagonal), dtype));
}

void weft_onnx_import_trilu(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *k = weft_onnx_optional(node, 1);
    k = k ? weft_reshape(g, weft_convert(g, k, WEFT_I64), 0, NULL) : weft_scalar_integer(g, WEFT_I64, 0);
    weft_onnx_output(node, 0, weft_triangle(g, weft_onnx_input(node, 0), weft_onnx_int(node, "upper", 1) != 0, k));
}

/* -- blocks between channels and space: [N, C, H, W] */

void weft_onnx_import_depth_to_space(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int64_t b = weft_onnx_int(node, "blocksize", 0);
    if (weft_value_is_poison(x)) return;
    if (x->type.rank != 4 || b < 1 || b > 1 << 20) {
        weft_onnx_problem(node, "rank %d with blocksize %lld", x->type.rank, (long long)b);
        return;
    }
    const weft_dim *d = x->type.dims;
    weft_dim channels = weft_dim_divide_floor(g->dims, d[1], b * b);
    weft_dim merged[4] = {d[0], channels, weft_dim_multiply(g->dims, d[2], b), weft_dim_multiply(g->dims, d[3], b)};
    bool crd = weft_onnx_string_is(node, "mode", "DCR", "CRD");
    weft_dim split_dcr[6] = {d[0], b, b, channels, d[2], d[3]}, split_crd[6] = {d[0], channels, b, b, d[2], d[3]};
    static const int64_t order_dcr[6] = {0, 3, 4, 1, 5, 2}, order_crd[6] = {0, 1, 4, 2, 5, 3};
    weft_value *split = weft_reshape(g, x, 6, crd ? split_crd : split_dcr);
    weft_onnx_output(node, 0, weft_reshape(g, weft_transpose(g, split, crd ? order_crd : order_dcr), 4, merged));
}

void weft_onnx_import_space_to_depth(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int64_t b = weft_onnx_int(node, "blocksize", 0);
    if (weft_value_is_poison(x)) return;
    if (x->type.rank != 4 || b < 1 || b > 1 << 20) {
        weft_onnx_problem(node, "rank %d with blocksize %lld", x->type.rank, (long long)b);
        return;
    }
    const weft_dim *d = x->type.dims;
    weft_dim h = weft_dim_divide_floor(g->dims, d[2], b), w = weft_dim_divide_floor(g->dims, d[3], b);
    weft_dim split[6] = {d[0], d[1], h, b, w, b}, merged[4] = {d[0], weft_dim_multiply(g->dims, d[1], b * b), h, w};
    static const int64_t order[6] = {0, 3, 5, 1, 2, 4};
    weft_onnx_output(node, 0, weft_reshape(g, weft_transpose(g, weft_reshape(g, x, 6, split), order), 4, merged));
}
