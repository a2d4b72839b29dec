/* Ops whose place depends on data: dynamic_slice, dynamic_update_slice, gather. Starts are clamped so that every access
   lies inside (StableHLO). Read next: index_reduce.c. */
#include "codegen/builders/index_internal.h"

/* min(max(start, 0), extent - size) in the start's own type, then as an index: nothing is lost by the conversion. */
static weft_kval clamp_start(weft_index_context *c, weft_kval start, weft_dim extent, weft_dim size) {
    weft_kernel *k = c->kernel;
    weft_dtype dtype = (weft_dtype)weft_ktype_of(k, start).elem, index = k->capability->index_dtype;
    weft_dim room = weft_dim_subtract(c->graph->dims, extent, size);
    weft_kval limit = weft_ix_extent(c, room);
    bool is_unsigned = weft_dtype_kind_of(dtype) == WEFT_KIND_UNSIGNED;
    if (weft_dtype_bits(dtype) < weft_dtype_bits(index)) {
        start = weft_k_convert(k, start, index);
        is_unsigned = false;
    } else {
        limit = weft_k_convert(k, limit, dtype);
    }
    if (!is_unsigned) start = weft_k_max(k, start, weft_k_integer(k, (weft_dtype)weft_ktype_of(k, start).elem, 0));
    return weft_k_convert(k, weft_k_min(k, start, limit), index);
}

static weft_point scalar_point(const weft_point *point, const weft_type *type) {
    weft_point result = weft_point_like(point, type);
    result.lanes = 1;
    result.edge = result.vector = WEFT_KNONE;
    return result;
}

/* Clamped start of axis i from scalar operand `operand`. */
static weft_kval scalar_start(weft_index_context *c, const weft_node *node, int operand, weft_dim extent, weft_dim size,
                              const weft_point *point) {
    const weft_value *value = node->operands[operand];
    weft_point at = scalar_point(point, &value->type);
    return clamp_start(c, weft_index_one(c, value, &at), extent, size);
}

weft_parts weft_index_dynamic_slice(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_type *x = weft_operand_type(node, 0);
    weft_point_axes(c, point);
    weft_point result = weft_point_like(point, x);
    for (int i = 0; i < x->rank; i++) {
        if (weft_dim_known_equal(c->graph->dims, x->dims[i], point->dims[i])) continue;
        weft_kval start = scalar_start(c, node, 1 + i, x->dims[i], point->dims[i], point);
        result.axis[i] = weft_lane_add(c, point->axis[i], weft_lane_scalar(start), point->lanes);
    }
    return weft_index_evaluate(c, node->operands[0], result);
}

weft_parts weft_index_dynamic_update_slice(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_type *update = weft_operand_type(node, 1);
    weft_kernel *k = c->kernel;
    weft_point_axes(c, point);
    weft_choice yes = {node->operands[1], weft_point_like(point, update)};
    weft_choice no = {node->operands[0], *point};
    weft_kval condition = WEFT_KNONE;
    for (int i = 0; i < point->rank; i++) {
        if (weft_dim_known_equal(c->graph->dims, point->dims[i], update->dims[i])) continue;
        weft_kval start = scalar_start(c, node, 2 + i, point->dims[i], update->dims[i], point);
        weft_lane_index at =
            weft_lane_add(c, point->axis[i], weft_lane_negate(c, weft_lane_scalar(start)), point->lanes);
        weft_kval below = weft_lane_compare(c, WEFT_K_lt, at, weft_ix_extent(c, update->dims[i]), point->lanes);
        weft_kval above = weft_lane_compare(c, WEFT_K_lt, weft_lane_negate(c, at), weft_k_index(k, 1), point->lanes);
        weft_kval inside = weft_k_and(k, below, above);
        condition = condition == WEFT_KNONE ? inside : weft_k_and(k, condition, inside);
        yes.point.axis[i] = at;
    }
    if (condition == WEFT_KNONE) return weft_index_evaluate(c, yes.value, yes.point);
    return weft_index_choose(c, condition, point->lanes, &yes, &no);
}

static bool contains(const weft_attribute *list, int64_t value) {
    for (int i = 0; i < list->count; i++)
        if (list->as.ints[i] == value) return true;
    return false;
}

/* The point of index component `component` in the indices: result axes that are no offset, in order, with index_axis
   put in between. An index_axis equal to the rank is a trailing axis of extent 1 that is not written. */
static weft_point component_point(weft_index_context *c, const weft_node *node, const weft_point *point,
                                  int component) {
    const weft_type *indices = weft_operand_type(node, 1);
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes);
    int index_axis = (int)weft_node_int(node, WEFT_ATTR_index_axis, 0), from = 0;
    weft_point result = weft_point_like(point, indices);
    for (int i = 0; i < indices->rank; i++) {
        if (i == index_axis) {
            result.axis[i] = weft_lane_constant(c, component);
            continue;
        }
        while (contains(offset, from)) from++;
        result.axis[i] = point->axis[from++];
    }
    return result;
}

weft_parts weft_index_gather(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_type *x = weft_operand_type(node, 0);
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes);
    const weft_attribute *collapsed = weft_node_attribute(node, WEFT_ATTR_collapsed_axes);
    const weft_attribute *map = weft_node_attribute(node, WEFT_ATTR_index_map);
    const weft_dim *sizes = weft_node_attribute(node, WEFT_ATTR_sizes)->as.dims;
    weft_point_axes(c, point);
    weft_point result = weft_point_like(point, x);
    for (int i = 0, next = 0; i < x->rank; i++)
        result.axis[i] = contains(collapsed, i) ? weft_lane_constant(c, 0) : point->axis[offset->as.ints[next++]];
    for (int component = 0; component < map->count; component++) {
        int axis = (int)map->as.ints[component];
        if (weft_dim_known_equal(c->graph->dims, x->dims[axis], sizes[axis])) continue; /* clamped to 0 */
        weft_point at = component_point(c, node, point, component);
        weft_kval start = clamp_start(c, weft_index_one(c, node->operands[1], &at), x->dims[axis], sizes[axis]);
        weft_lane_index first = {start, 0, 1};
        result.axis[axis] = weft_lane_add(c, result.axis[axis], first, point->lanes);
    }
    return weft_index_evaluate(c, node->operands[0], result);
}
