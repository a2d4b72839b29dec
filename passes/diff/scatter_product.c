/* The derivative of a scatter that multiplies: of each update times the product of all others that meet it, without any
   division, so that zeros need no care and every order of derivatives follows. Updates are brought together by sorting
   the places they go to; products of what stands before and behind within a place come by doubling the reach (Hillis
   and Steele 1986). Read next: gather.c. */
#include "passes/diff/diff.h"

#include <string.h>

static weft_value *integer(weft_graph *g, const weft_value *like, int64_t value) {
    return weft_emit_splat(g, WEFT_I64, (double)value, like->type.rank, like->type.dims);
}

static weft_value *extent_like(weft_graph *g, weft_dim extent, const weft_value *like) {
    return weft_emit_broadcast_to(g, weft_emit_extent(g, extent, WEFT_I64), like->type.rank, like->type.dims);
}

static bool has_axis(const weft_attribute *axes, int64_t axis) {
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* Component `index` of the starts, i64 in the updates' shape, cut to [-size, extent] of its axis: no sum overflows. */
static weft_value *start_of(weft_graph *g, const weft_node *node, int index, weft_dim size, weft_dim extent) {
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes);
    const weft_type *updates = &node->operands[2]->type;
    weft_value *starts = node->operands[1];
    int index_axis = (int)weft_node_int(node, WEFT_ATTR_index_axis, 0), count = 0;
    weft_dim shape[WEFT_MAX_RANK];
    int64_t batch[WEFT_MAX_RANK];
    if (index_axis < starts->type.rank) starts = weft_emit_slice_axis(g, starts, index_axis, index, index + 1, 1);
    for (int i = 0; i < updates->rank; i++)
        if (!has_axis(offset, i)) shape[count] = updates->dims[i], batch[count++] = i;
    starts = weft_emit_reshape(g, starts, count, shape);
    weft_value *high = extent_like(g, extent, starts),
               *low = weft_emit_unary(g, WEFT_OP_neg, extent_like(g, size, starts));
    if (starts->type.dtype == WEFT_U64) { /* what is large is no negative number */
        starts = weft_emit_binary(g, WEFT_OP_min, starts, weft_emit_convert(g, high, WEFT_U64));
        low = weft_diff_zeros(g, high);
    }
    starts = weft_emit_convert(g, starts, WEFT_I64);
    starts = weft_emit_binary(g, WEFT_OP_min, weft_emit_binary(g, WEFT_OP_max, starts, low), high);
    return weft_emit_broadcast(g, starts, updates->rank, updates->dims, batch);
}

/* Row-major place in x of every update, i64 in the updates' shape; the number of x's elements where it is dropped. */
static weft_value *places_of(weft_graph *g, const weft_node *node) {
    const weft_attribute *map = weft_node_attribute(node, WEFT_ATTR_index_map),
                         *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes),
                         *collapsed = weft_node_attribute(node, WEFT_ATTR_collapsed_axes);
    const weft_type *x = &node->operands[0]->type, *updates = &node->operands[2]->type;
    weft_value *place = weft_emit_splat(g, WEFT_I64, 0, updates->rank, updates->dims), *inside = NULL;
    int window = 0;
    for (int a = 0; a < x->rank; a++) {
        int at = has_axis(collapsed, a) ? -1 : (int)offset->as.ints[window++];
        weft_value *position = integer(g, place, 0);
        for (int i = 0; i < map->count; i++)
            if (map->as.ints[i] == a) position = start_of(g, node, i, at < 0 ? 1 : updates->dims[at], x->dims[a]);
        if (at >= 0)
            position = weft_emit_binary(g, WEFT_OP_add, position,
                                        weft_emit_iota(g, WEFT_I64, updates->rank, updates->dims, at));
        weft_value *extent = extent_like(g, x->dims[a], place);
        weft_value *fits = weft_emit_binary(g, WEFT_OP_and, weft_emit_compare(g, "ge", position, integer(g, place, 0)),
                                            weft_emit_compare(g, "lt", position, extent));
        inside = inside ? weft_emit_binary(g, WEFT_OP_and, inside, fits) : fits;
        place = weft_emit_binary(g, WEFT_OP_add, weft_emit_binary(g, WEFT_OP_mul, place, extent), position);
    }
    weft_value *nowhere = extent_like(g, weft_type_count(g, x), place);
    return inside ? weft_emit_select(g, inside, place, nowhere) : place;
}

/* x [N] moved by `distance` towards the end (negative: the start), `fill` where nothing comes from. */
static weft_value *shift(weft_graph *g, weft_value *x, int64_t distance, double fill) {
    weft_dim low = weft_dim_number(g->dims, distance), high = weft_dim_number(g->dims, -distance);
    int64_t none = 0;
    weft_value *operands[2] = {x, weft_emit_scalar(g, x->type.dtype, fill)};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, 1, &low), weft_attr_dims(WEFT_ATTR_high, 1, &high),
                                    weft_attr_ints(WEFT_ATTR_interior, 1, &none)};
    return weft_build(g, WEFT_OP_pad, 2, operands, 3, attributes);
}

/* Products of what stands before each element (sign 1) or behind it (-1) with the same place. */
static weft_value *products(weft_graph *g, weft_value *u, weft_value *places, int sign) {
    int64_t least, most;
    weft_value *p = u, *one = weft_emit_splat_like(g, 1, u);
    weft_dim_bounds(g->dims, u->type.dims[0], &least, &most);
    for (int64_t reach = 1; reach < most && reach < INT64_MAX / 2; reach *= 2) {
        weft_value *same = weft_emit_compare(g, "eq", places, shift(g, places, sign * reach, -1));
        p = weft_emit_binary(g, WEFT_OP_mul, p, weft_emit_select(g, same, shift(g, p, sign * reach, 1), one));
    }
    weft_value *same = weft_emit_compare(g, "eq", places, shift(g, places, sign, -1));
    return weft_emit_select(g, same, shift(g, p, sign, 1), one);
}

/* values [N] put at their places [N], each its own. */
static weft_value *put(weft_graph *g, weft_value *values, weft_value *places) {
    int64_t axis = 0;
    weft_dim column[2] = {values->type.dims[0], 1};
    weft_value *operands[3] = {weft_diff_zeros(g, values), weft_emit_reshape(g, places, 2, column), values};
    weft_attribute attributes[5] = {weft_attr_ints(WEFT_ATTR_offset_axes, 0, &axis),
                                    weft_attr_ints(WEFT_ATTR_collapsed_axes, 1, &axis),
                                    weft_attr_ints(WEFT_ATTR_index_map, 1, &axis),
                                    weft_attr_int(WEFT_ATTR_index_axis, 1), weft_attr_string(WEFT_ATTR_kind, "set")};
    return weft_build(g, WEFT_OP_scatter, 3, operands, 5, attributes);
}

weft_value *weft_diff_product_of_other_updates(weft_graph *g, const weft_node *node) {
    const weft_type *updates = &node->operands[2]->type;
    weft_dim count = weft_type_count(g, updates);
    weft_value *sorted[2] = {weft_emit_reshape(g, places_of(g, node), 1, &count),
                             weft_emit_iota(g, WEFT_I64, 1, &count, 0)};
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, 0), weft_attr_int(WEFT_ATTR_descending, 0),
                                    weft_attr_int(WEFT_ATTR_stable, 1)};
    weft_node *sort = weft_node_create(g, WEFT_OP_sort, 2, sorted, 3, attributes, 0, NULL);
    if (!sort || weft_value_is_poison(&sort->results[0])) return weft_diff_zeros(g, node->operands[2]);
    weft_value *places = &sort->results[0], *numbers = &sort->results[1];
    weft_value *u = weft_diff_take_along(g, weft_emit_reshape(g, node->operands[2], 1, &count), numbers, 0);
    weft_value *others = weft_emit_binary(g, WEFT_OP_mul, products(g, u, places, 1), products(g, u, places, -1));
    return weft_emit_reshape(g, put(g, others, numbers), updates->rank, updates->dims);
}
