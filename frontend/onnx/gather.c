/* ONNX indexed access: Gather, Scatter and their kin, order (TopK, Unique), data-dependent selections.
   Read next: product.c. */
#include <string.h>

#include "frontend/onnx/import.h"

static bool axis_of(weft_onnx_node *node, const weft_value *x, int64_t fallback, int *out_axis) {
    int64_t axis = weft_onnx_int(node, "axis", fallback), rank = x->type.rank;
    if (axis < -rank || axis >= rank) {
        weft_onnx_problem(node, "axis %lld of rank %lld", (long long)axis, (long long)rank);
        return false;
    }
    *out_axis = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

void weft_onnx_import_gather(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1);
    int axis;
    if (weft_value_is_poison(x) || weft_value_is_poison(indices) || !axis_of(node, x, 0, &axis)) return;
    weft_onnx_output(node, 0,
                     weft_take(node->graph, x, weft_onnx_wrap_indices(node->graph, indices, x->type.dims[axis]), axis));
}

void weft_onnx_import_gather_elements(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1);
    int axis;
    if (weft_value_is_poison(x) || weft_value_is_poison(indices) || !axis_of(node, x, 0, &axis)) return;
    weft_onnx_output(
        node, 0,
        weft_take_along(node->graph, x, weft_onnx_wrap_indices(node->graph, indices, x->type.dims[axis]), axis));
}

/* Negative components of addresses [..., K] count from the end of their axis. */
static weft_value *wrap_addresses(weft_onnx_node *node, const weft_value *x, weft_value *indices, int first_axis) {
    weft_graph *g = node->graph;
    if (weft_value_is_poison(indices)) return indices;
    int64_t k;
    if (indices->type.rank < 1 || !weft_onnx_dim_number(g, indices->type.dims[indices->type.rank - 1], &k) ||
        k + first_axis > x->type.rank) {
        weft_onnx_problem(node, "the last extent of the indices must be a number of at most %d",
                          x->type.rank - first_axis);
        return weft_value_poison(g);
    }
    indices = weft_convert(g, indices, WEFT_I64);
    weft_value *extents = weft_onnx_extents_value(g, (int)k, x->type.dims + first_axis);
    if (k == 0) return indices;
    weft_value *negative = weft_compare(g, WEFT_LT, indices, weft_scalar_integer(g, WEFT_I64, 0));
    return weft_where(g, negative, weft_add(g, indices, extents), indices);
}

/* Batch axes become index components of their own. */
static weft_value *with_batch_components(weft_graph *g, weft_value *indices, int batch) {
    weft_dim shape[WEFT_MAX_RANK];
    weft_value *parts[WEFT_MAX_RANK];
    int rank = indices->type.rank;
    for (int i = 0; i < rank; i++) shape[i] = indices->type.dims[i];
    shape[rank - 1] = 1;
    for (int i = 0; i < batch; i++) parts[i] = weft_iota(g, WEFT_I64, rank, shape, i);
    parts[batch] = indices;
    return weft_concat(g, rank - 1, batch + 1, parts);
}

void weft_onnx_import_gather_nd(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1);
    int64_t batch = weft_onnx_int(node, "batch_dims", 0);
    if (weft_value_is_poison(x) || weft_value_is_poison(indices)) return;
    if (batch < 0 || batch >= indices->type.rank || batch >= x->type.rank) {
        weft_onnx_problem(node, "batch_dims %lld", (long long)batch);
        return;
    }
    indices = wrap_addresses(node, x, indices, (int)batch);
    if (weft_value_is_poison(indices)) return;
    if (batch > 0) indices = with_batch_components(node->graph, indices, (int)batch);
    weft_onnx_output(node, 0, weft_gather_nd(node->graph, x, indices));
}

static bool reduction_of(weft_onnx_node *node, weft_reduction *out) {
    static const struct {
        const char *name;
        weft_reduction kind;
    } table[] = {{"none", WEFT_SET}, {"add", WEFT_SUM}, {"mul", WEFT_PRODUCT}, {"max", WEFT_MAX}, {"min", WEFT_MIN}};
    const char *name = weft_onnx_string(node, "reduction", "none");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0) {
            *out = table[i].kind;
            return true;
        }
    weft_onnx_problem(node, "reduction %s is not none, add, mul, max or min", name);
    return false;
}

void weft_onnx_import_scatter_elements(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1), *updates = weft_onnx_input(node, 2);
    int axis;
    weft_reduction kind;
    if (weft_value_is_poison(x) || weft_value_is_poison(indices) || !axis_of(node, x, 0, &axis) ||
        !reduction_of(node, &kind))
        return;
    indices = weft_onnx_wrap_indices(node->graph, indices, x->type.dims[axis]);
    weft_onnx_output(node, 0, weft_put_along(node->graph, kind, x, indices, updates, axis));
}

void weft_onnx_import_scatter_nd(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *updates = weft_onnx_input(node, 2);
    weft_reduction kind;
    if (weft_value_is_poison(x) || !reduction_of(node, &kind)) return;
    weft_value *indices = wrap_addresses(node, x, weft_onnx_input(node, 1), 0);
    weft_onnx_output(node, 0, weft_scatter_nd(node->graph, kind, x, indices, updates));
}

/* Writes update into a cache along one axis, per batch row from write_indices on; circular wraps around. */
void weft_onnx_import_tensor_scatter(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *cache = weft_onnx_input(node, 0), *update = weft_onnx_input(node, 1),
               *starts = weft_onnx_optional(node, 2);
    int axis;
    if (weft_value_is_poison(cache) || weft_value_is_poison(update) || !axis_of(node, cache, -2, &axis)) return;
    if (axis == 0 || cache->type.rank != update->type.rank) {
        weft_onnx_problem(node, "the axis must not be the batch, and ranks must agree");
        return;
    }
    weft_value *position = weft_iota(g, WEFT_I64, update->type.rank, update->type.dims, axis);
    if (starts) {
        int64_t axes[WEFT_MAX_RANK];
        for (int i = 1; i < cache->type.rank; i++) axes[i - 1] = i;
        position =
            weft_add(g, position, weft_unsqueeze(g, weft_convert(g, starts, WEFT_I64), cache->type.rank - 1, axes));
    }
    if (weft_onnx_string_is(node, "mode", "linear", "circular"))
        position = weft_mod(g, position, weft_extent(g, cache->type.dims[axis]));
    weft_onnx_output(node, 0, weft_put_along(g, WEFT_SET, cache, position, update, axis));
}

void weft_onnx_import_one_hot(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *indices = weft_onnx_input(node, 0), *values = weft_onnx_input(node, 2);
    weft_dim depth;
    double number;
    weft_value *depth_value = weft_onnx_input(node, 1);
    if (weft_value_is_poison(indices) || weft_value_is_poison(depth_value) || weft_value_is_poison(values)) return;
    if (weft_dtype_is_float(depth_value->type.dtype)) {
        if (!weft_onnx_number(node, depth_value, &number)) return;
        depth = (int64_t)(number < 0 ? 0 : number > 1e12 ? 1e12 : number);
    } else if (!weft_onnx_extent(node, depth_value, &depth))
        return;
    weft_value *off = weft_reshape(g, weft_slice_axis(g, values, 0, 0, 1), 0, NULL);
    weft_value *on = weft_reshape(g, weft_slice_axis(g, values, 0, 1, 2), 0, NULL);
    weft_value *wrapped = weft_onnx_wrap_indices(g, indices, depth);
    weft_onnx_output(node, 0, weft_one_hot(g, wrapped, depth, weft_onnx_int32(node, "axis", -1), on, off));
}

void weft_onnx_import_top_k(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *values, *indices;
    weft_dim k;
    int axis;
    if (weft_value_is_poison(x) || !axis_of(node, x, -1, &axis)) return;
    if (node->version < 10)
        k = weft_onnx_int(node, "k", 0);
    else if (!weft_onnx_extent(node, weft_onnx_input(node, 1), &k))
        return;
    weft_top_k(node->graph, x, k, axis, weft_onnx_int(node, "largest", 1) != 0, &values, &indices);
    weft_onnx_output(node, 0, values);
    weft_onnx_output(node, 1, indices);
}

/* -- sizes that depend on data: a symbol in [0, bound] */

/* i64 addresses [rank, count] of the non-zero elements; count is a symbol of its own. */
weft_value *weft_onnx_nonzero(weft_onnx_node *node, weft_value *x, weft_dim *out_count) {
    weft_graph *g = node->graph;
    *out_count = WEFT_DIM_INVALID;
    if (weft_value_is_poison(x)) return x;
    int64_t low, high;
    weft_dim bound = weft_type_count(g, &x->type);
    weft_dim_bounds(g->dims, bound, &low, &high);
    weft_dim count = weft_dim_symbol(g->dims, "nonzero", 0, high, 1, WEFT_SYMBOL_DATA);
    weft_dim_node symbol = count == WEFT_DIM_INVALID ? (weft_dim_node){0} : weft_dim_get(g->dims, count);
    if (count == WEFT_DIM_INVALID) {
        g->out_of_memory = true;
        return weft_value_poison(g);
    }
    weft_value *indices, *number;
    weft_nonzero(g, x, weft_dim_symbol_get(g->dims, (int)symbol.a)->name, &indices, &number);
    *out_count = count;
    return weft_slice_axis(g, indices, 1, 0, count);
}

void weft_onnx_import_nonzero(weft_onnx_node *node) {
    weft_dim count;
    weft_onnx_output(node, 0, weft_onnx_nonzero(node, weft_onnx_input(node, 0), &count));
}

/* The entries along an axis (or of the flattened input) whose condition holds. */
void weft_onnx_import_compress(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *condition = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(condition)) return;
    int axis = 0;
    if (!weft_onnx_attribute(node, "axis")) {
        weft_dim all = WEFT_DIM_ANY;
        x = weft_reshape(g, x, 1, &all);
    } else if (!axis_of(node, x, 0, &axis))
        return;
    weft_dim count;
    weft_value *kept = weft_onnx_nonzero(node, condition, &count);
    weft_onnx_output(node, 0, weft_take(g, x, weft_reshape(g, kept, 1, &count), axis));
}

/* Sorted (or first-met) distinct rows of x [n, m], with the position of the first, the inverse and the counts.
   Rows are ordered by a stable sort per column from the last to the first. */
typedef struct unique_rows {
    weft_value *order;  /* i64 [n]: rows in order */
    weft_value *starts; /* bool [n]: the ordered row differs from the one before */
    weft_value *group;  /* i64 [n]: number of its distinct row, for ordered rows */
} unique_rows;

static bool order_rows(weft_onnx_node *node, weft_value *x, unique_rows *out) {
    weft_graph *g = node->graph;
    int64_t columns, second = 1;
    if (weft_value_is_poison(x) || !weft_onnx_dim_number(g, x->type.dims[1], &columns) || columns > 256) {
        weft_onnx_problem(node, "rows must have a known length of at most 256");
        return false;
    }
    weft_dim n = x->type.dims[0];
    out->order = weft_iota(g, WEFT_I64, 1, &n, 0);
    for (int64_t c = columns - 1; c >= 0; c--) {
        weft_value *column = weft_squeeze(g, weft_slice_axis(g, x, 1, c, c + 1), 1, &second);
        weft_value *pair[2] = {weft_take(g, column, out->order, 0), out->order}, *sorted[2];
        weft_sort(g, 2, pair, 0, false, true, sorted);
        out->order = sorted[1];
    }
    weft_value *rows = weft_take(g, x, out->order, 0);
    weft_value *zero = weft_scalar_integer(g, WEFT_I64, 0), *position = weft_iota(g, WEFT_I64, 1, &n, 0);
    weft_value *before =
        weft_take(g, rows, weft_max(g, weft_sub(g, position, weft_scalar_integer(g, WEFT_I64, 1)), zero), 0);
    weft_value *differs = weft_reduce(g, WEFT_OR, weft_compare(g, WEFT_NE, rows, before), 1, &second, false);
    out->starts = weft_or(g, differs, weft_compare(g, WEFT_EQ, position, zero));
    weft_value *running = weft_cumulative(g, WEFT_SUM, weft_convert(g, out->starts, WEFT_I64), 0, false, false);
    out->group = weft_sub(g, running, weft_scalar_integer(g, WEFT_I64, 1));
    return !weft_value_is_poison(out->group);
}

/* [count] zeros with updates added or set at positions. */
static weft_value *scatter_vector(weft_graph *g, weft_reduction kind, weft_dim count, weft_value *positions,
                                  weft_value *updates) {
    int64_t last = -1;
    weft_value *zeros = weft_full(g, WEFT_I64, 1, &count, 0);
    return weft_scatter_nd(g, kind, zeros, weft_unsqueeze(g, positions, 1, &last), updates);
}

void weft_onnx_import_unique(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    int axis = 0, rank = x->type.rank;
    bool flat = !weft_onnx_attribute(node, "axis");
    weft_dim all[2] = {WEFT_DIM_ANY, 1};
    int64_t to_front[WEFT_MAX_RANK], back[WEFT_MAX_RANK];
    if (!flat && !axis_of(node, x, 0, &axis)) return;
    for (int i = 0; i < rank; i++) to_front[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
    for (int i = 0; i < rank; i++) back[to_front[i]] = i;
    weft_value *front = flat ? weft_reshape(g, x, 1, all) : weft_transpose(g, x, to_front);
    weft_value *rows = flat || rank == 1 ? weft_reshape(g, front, 2, all) : weft_flatten(g, front, 1);
    unique_rows u;
    if (!order_rows(node, rows, &u)) return;
    weft_dim n = rows->type.dims[0], count;
    weft_value *at = weft_onnx_nonzero(node, u.starts, &count);
    at = weft_reshape(g, at, 1, &count);
    weft_value *first = weft_take(g, u.order, at, 0); /* the sort is stable: the first of equal rows comes first */
    weft_value *inverse = scatter_vector(g, WEFT_SET, n, u.order, u.group);
    weft_value *ones = weft_full(g, WEFT_I64, 1, &n, 1), *counts = scatter_vector(g, WEFT_SUM, count, u.group, ones);
    if (!weft_onnx_int(node, "sorted", 1)) {
        /* by first position: new_of[old] is where an old group goes */
        weft_value *pair[2] = {first, weft_iota(g, WEFT_I64, 1, &count, 0)}, *sorted[2];
        weft_sort(g, 2, pair, 0, false, true, sorted);
        weft_value *new_of = scatter_vector(g, WEFT_SET, count, sorted[1], weft_iota(g, WEFT_I64, 1, &count, 0));
        first = sorted[0], counts = weft_take(g, counts, sorted[1], 0), inverse = weft_take(g, new_of, inverse, 0);
    }
    weft_value *distinct = weft_take(g, front, first, 0);
    weft_onnx_output(node, 0, flat ? distinct : weft_transpose(g, distinct, back));
    weft_onnx_output(node, 1, first);
    weft_onnx_output(node, 2, inverse);
    weft_onnx_output(node, 3, counts);
}

/* -- sequences along the batch */

/* The first sequence_lens[b] steps of each batch entry backwards. */
void weft_onnx_import_reverse_sequence(weft_onnx_node *node) {
    weft_value *x = weft_onnx_input(node, 0), *lengths = weft_onnx_input(node, 1);
    int64_t batch_axis = weft_onnx_int(node, "batch_axis", 1), time_axis = weft_onnx_int(node, "time_axis", 0);
    if (weft_value_is_poison(x) || weft_value_is_poison(lengths)) return;
    if (x->type.rank < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || time_axis < 0) {
        weft_onnx_problem(node, "batch and time must be axes 0 and 1");
        return;
    }
    weft_onnx_output(node, 0, weft_onnx_reverse_sequence(node->graph, x, lengths, (int)time_axis));
}

weft_value *weft_onnx_reverse_sequence(weft_graph *g, weft_value *x, weft_value *lengths, int time_axis) {
    if (weft_value_is_poison(x) || weft_value_is_poison(lengths)) return weft_value_poison(g);
    int64_t axes[WEFT_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x->type.rank; i++)
        if (i != 1 - time_axis) axes[count++] = i;
    weft_value *position = weft_iota(g, WEFT_I64, x->type.rank, x->type.dims, time_axis);
    weft_value *length = weft_unsqueeze(g, weft_convert(g, lengths, WEFT_I64), count, axes);
    weft_value *last = weft_sub(g, length, weft_scalar_integer(g, WEFT_I64, 1));
    weft_value *inside = weft_compare(g, WEFT_LT, position, length);
    return weft_take_along(g, x, weft_where(g, inside, weft_sub(g, last, position), position), time_axis);
}
