/* Ops that make or move elements: each maps the point of its result to a point of an operand, and where an element may
   come from two places (pad, concat) chooses. Invariant: no access leaves its operand; masks see to it.
   Reshape keeps axes where groups of extents agree; only a group that is split differently costs divisions.
   Read next: index_gather.c. */
#include <string.h>

#include "codegen/builders/index_internal.h"

#include "base/tensor.h"

/* -- choosing between two places */

static weft_parts evaluate_under(weft_index_context *c, const weft_choice *choice, weft_kval condition) {
    weft_point point = choice->point;
    weft_point_restrict(c, &point, condition);
    return weft_index_evaluate(c, choice->value, point);
}

static void set_parts(weft_index_context *c, const weft_kval *variables, weft_parts parts) {
    for (int i = 0; i < 2; i++)
        if (variables[i] != WEFT_KNONE && parts.part[i] != WEFT_KNONE)
            weft_k_set(c->kernel, variables[i], parts.part[i]);
}

/* All lanes take the same side: a branch, so that the other side is not read at all. */
static weft_parts choose_branch(weft_index_context *c, weft_kval condition, int lanes, const weft_choice *yes,
                                const weft_choice *no) {
    weft_kernel *k = c->kernel;
    weft_dtype dtype = yes->value->type.dtype, carrier = weft_index_carrier(dtype);
    bool simple = no->value->type.rank == 0; /* a fill value: no branch of its own */
    weft_parts start;
    if (simple)
        start = weft_index_evaluate(c, no->value, no->point);
    else
        start = weft_parts_one(weft_index_zero(c, carrier));
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX && start.part[1] == WEFT_KNONE) start.part[1] = start.part[0];
    start = weft_parts_splat(c, start, lanes);
    weft_kval variables[2];
    for (int i = 0; i < 2; i++) variables[i] = start.part[i] == WEFT_KNONE ? WEFT_KNONE : weft_k_var(k, start.part[i]);
    weft_k_if(k, condition);
    size_t mark = weft_index_mark(c);
    set_parts(c, variables, weft_parts_splat(c, weft_index_evaluate(c, yes->value, yes->point), lanes));
    weft_index_release(c, mark);
    if (!simple) {
        weft_k_else(k);
        set_parts(c, variables, weft_parts_splat(c, weft_index_evaluate(c, no->value, no->point), lanes));
        weft_index_release(c, mark);
    }
    weft_k_end(k);
    weft_parts result = {{WEFT_KNONE, WEFT_KNONE}};
    for (int i = 0; i < 2; i++)
        if (variables[i] != WEFT_KNONE) result.part[i] = weft_k_get(k, variables[i]);
    return result;
}

weft_parts weft_index_choose(weft_index_context *c, weft_kval condition, int lanes, const weft_choice *yes,
                             const weft_choice *no) {
    int64_t truth;
    if (weft_k_is_constant(c->kernel, condition, &truth)) {
        const weft_choice *taken = truth ? yes : no;
        return weft_index_evaluate(c, taken->value, taken->point);
    }
    if (weft_ktype_of(c->kernel, condition).lanes == 1) return choose_branch(c, condition, lanes, yes, no);
    weft_parts a = evaluate_under(c, yes, condition), b;
    if (no->value->type.rank == 0)
        b = weft_index_evaluate(c, no->value, no->point);
    else
        b = evaluate_under(c, no, weft_k_xor(c->kernel, condition, weft_k_integer(c->kernel, WEFT_BOOL, 1)));
    weft_parts result = {{WEFT_KNONE, WEFT_KNONE}};
    for (int i = 0; i < 2; i++)
        if (a.part[i] != WEFT_KNONE) result.part[i] = weft_index_select(c, condition, a.part[i], b.part[i]);
    return result;
}

/* -- reshape */

/* One run of operand axes [from, from_end) holds the same elements as result axes [to, to_end). */
typedef struct reshape_group {
    int from, from_end, to, to_end;
} reshape_group;

static bool same_extent(weft_index_context *c, weft_dim a, weft_dim b) {
    return a == b || weft_dim_known_equal(c->graph->dims, a, b);
}

/* The next group; extents 1 are skipped on either side. Products that cannot be compared take all that is left. */
static reshape_group next_group(weft_index_context *c, const weft_type *from, const weft_point *to, int i, int j) {
    weft_dim_table *table = c->graph->dims;
    reshape_group g = {i, i + 1, j, j + 1};
    weft_dim a = from->dims[i], b = to->dims[j], quotient;
    while (!same_extent(c, a, b)) {
        bool more_from = g.from_end < from->rank, more_to = g.to_end < to->rank, numbers = a >= 0 && b >= 0;
        bool b_smaller = numbers ? b < a : weft_dim_divide_exact(table, a, b, &quotient);
        bool a_smaller = numbers ? a < b : weft_dim_divide_exact(table, b, a, &quotient);
        if (b_smaller && more_to) {
            b = weft_dim_multiply(table, b, to->dims[g.to_end++]);
        } else if (a_smaller && more_from) {
            a = weft_dim_multiply(table, a, from->dims[g.from_end++]);
        } else {
            g.from_end = from->rank;
            g.to_end = to->rank;
            break;
        }
    }
    return g;
}

static bool merged_throughout(uint32_t merge, reshape_group g) {
    for (int i = g.from; i + 1 < g.from_end; i++)
        if (!(merge >> i & 1)) return false;
    return true;
}

static void map_group(weft_index_context *c, const weft_type *from, uint32_t merge, weft_point *to, reshape_group g,
                      weft_lane_index *axis) {
    int from_count = g.from_end - g.from, to_count = g.to_end - g.to;
    if (from_count == 1 && to_count == 1) {
        axis[g.from] = to->axis[g.to];
        return;
    }
    weft_lane_index position = weft_index_position(c, to_count, to->dims + g.to, to->axis + g.to, to->lanes);
    if (from_count == 1)
        axis[g.from] = position;
    else
        weft_index_unflatten_merged(c, from_count, from->dims + g.from, merge >> g.from, position, to->lanes,
                                    axis + g.from);
}

static weft_point reshape_point(weft_index_context *c, const weft_value *operand, weft_point *to) {
    const weft_type *from = &operand->type;
    uint32_t merge = weft_index_mergeable(c, operand);
    weft_point result = weft_point_like(to, from);
    if (!to->has_axes) {
        result.has_axes = false;
        result.has_flat = true;
        result.flat = to->flat;
        return result;
    }
    int i = 0, j = 0;
    bool divides = false;
    while (i < from->rank || j < to->rank) {
        if (i < from->rank && from->dims[i] == 1) {
            result.axis[i++] = weft_lane_constant(c, 0);
        } else if (j < to->rank && to->dims[j] == 1) {
            j++;
        } else if (i < from->rank && j < to->rank) {
            reshape_group g = next_group(c, from, to, i, j);
            divides |= !merged_throughout(merge, g);
            map_group(c, from, merge, to, g, result.axis);
            i = g.from_end;
            j = g.to_end;
        } else { /* an extent that is 1 without being known to be */
            if (i < from->rank) result.axis[i] = weft_lane_constant(c, 0);
            i++;
            j++;
        }
    }
    if (divides) weft_point_flat(c, to);
    result.has_flat = to->has_flat;
    result.flat = to->flat;
    return result;
}

/* -- the others */

static weft_point broadcast_point(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_type *from = weft_operand_type(node, 0);
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    weft_point_axes(c, point);
    weft_point result = weft_point_like(point, from);
    bool same_count = true;
    for (int i = 0, j = 0; j < point->rank; j++) {
        bool mapped = i < from->rank && axes[i] == j, stretched = !mapped || from->dims[i] == 1;
        if (stretched && point->dims[j] != 1) same_count = false;
        if (mapped) result.axis[i++] = stretched ? weft_lane_constant(c, 0) : point->axis[j];
    }
    if (same_count) {
        result.has_flat = point->has_flat;
        result.flat = point->flat;
    }
    return result;
}

static weft_point transpose_point(weft_index_context *c, const weft_node *node, weft_point *point) {
    const int64_t *permutation = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    weft_point_axes(c, point);
    weft_point result = weft_point_like(point, weft_operand_type(node, 0));
    for (int i = 0; i < point->rank; i++) result.axis[permutation[i]] = point->axis[i];
    return result;
}

static weft_point slice_point(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_dim *start = weft_node_attribute(node, WEFT_ATTR_start)->as.dims;
    const int64_t *stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints;
    weft_point_axes(c, point);
    weft_point result = weft_point_like(point, weft_operand_type(node, 0));
    for (int i = 0; i < point->rank; i++) {
        weft_lane_index at = weft_lane_multiply(c, point->axis[i], stride[i], point->lanes);
        weft_lane_index first = {weft_ix_extent(c, start[i]), 0, weft_dim_divisor(c->graph->dims, start[i])};
        result.axis[i] = weft_lane_add(c, at, first, point->lanes);
    }
    return result;
}

static weft_point reverse_point(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    weft_point_axes(c, point);
    weft_point result = weft_point_like(point, weft_operand_type(node, 0));
    for (int i = 0; i < axes->count; i++) {
        int a = (int)axes->as.ints[i];
        weft_kval last = weft_ix(c, WEFT_K_sub, weft_ix_extent(c, point->dims[a]), weft_k_index(c->kernel, 1));
        result.axis[a] = weft_lane_add(c, weft_lane_scalar(last), weft_lane_negate(c, point->axis[a]), point->lanes);
    }
    return result;
}

static weft_kval and_condition(weft_index_context *c, weft_kval a, weft_kval b) {
    return a == WEFT_KNONE ? b : weft_k_and(c->kernel, a, b);
}

static int64_t lower_bound(const weft_index_context *c, weft_dim dim, int64_t *out_high) {
    int64_t low;
    weft_dim_bounds(c->graph->dims, dim, &low, out_high);
    return low;
}

/* Axis i of pad: the operand's index, and the condition under which there is one. */
static weft_lane_index pad_axis(weft_index_context *c, const weft_node *node, int i, weft_point *point,
                                weft_kval *condition) {
    weft_dim low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims[i],
             high = weft_node_attribute(node, WEFT_ATTR_high)->as.dims[i];
    int64_t interior = weft_node_attribute(node, WEFT_ATTR_interior)->as.ints[i], low_max, high_max;
    weft_dim extent = weft_operand_type(node, 0)->dims[i];
    lower_bound(c, low, &low_max);
    lower_bound(c, high, &high_max);
    weft_dim shift = weft_dim_subtract(c->graph->dims, weft_dim_number(c->graph->dims, 0), low);
    weft_lane_index back = {weft_ix_extent(c, shift), 0, weft_dim_divisor(c->graph->dims, low)};
    weft_lane_index at = weft_lane_add(c, point->axis[i], back, point->lanes);
    weft_kval zero = weft_k_index(c->kernel, 0);
    if (low_max > 0) {
        weft_kval before = weft_lane_compare(c, WEFT_K_lt, at, zero, point->lanes);
        *condition =
            and_condition(c, *condition, weft_k_xor(c->kernel, before, weft_k_integer(c->kernel, WEFT_BOOL, 1)));
    }
    if (interior > 0) {
        int64_t limit = INT64_MAX;
        weft_lane_index rest = weft_lane_modulo(c, at, interior + 1, point->lanes, limit);
        *condition = and_condition(c, *condition, weft_lane_compare(c, WEFT_K_eq, rest, zero, point->lanes));
        at = weft_lane_divide(c, at, interior + 1, point->lanes, limit);
    }
    if (high_max > 0 || interior > 0)
        *condition =
            and_condition(c, *condition, weft_lane_compare(c, WEFT_K_lt, at, weft_ix_extent(c, extent), point->lanes));
    return at;
}

static weft_parts pad(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_point_axes(c, point);
    weft_choice yes = {node->operands[0], weft_point_like(point, weft_operand_type(node, 0))};
    weft_choice no = {node->operands[1], weft_point_like(point, weft_operand_type(node, 1))};
    weft_kval condition = WEFT_KNONE;
    for (int i = 0; i < point->rank; i++) yes.point.axis[i] = pad_axis(c, node, i, point, &condition);
    if (condition == WEFT_KNONE) return weft_index_evaluate(c, yes.value, yes.point);
    return weft_index_choose(c, condition, point->lanes, &yes, &no);
}

/* Operands [first, ...) of a concat; offset = where `first` begins. */
static weft_parts concat_from(weft_index_context *c, const weft_node *node, int first, weft_dim offset,
                              weft_point *point) {
    int axis = (int)weft_node_int(node, WEFT_ATTR_axis, 0);
    weft_dim_table *table = c->graph->dims;
    weft_parts result = {{WEFT_KNONE, WEFT_KNONE}};
    weft_dim back = weft_dim_subtract(table, weft_dim_number(table, 0), offset);
    weft_choice here = {node->operands[first], weft_point_like(point, weft_operand_type(node, first))};
    weft_lane_index shift = {weft_ix_extent(c, back), 0, weft_dim_divisor(table, offset)};
    here.point.axis[axis] = weft_lane_add(c, point->axis[axis], shift, point->lanes);
    if (first == node->operand_count - 1) return weft_index_evaluate(c, here.value, here.point);
    weft_dim next = weft_dim_add(table, offset, weft_operand_type(node, first)->dims[axis]);
    weft_kernel *k = c->kernel;
    weft_kval mine = weft_lane_compare(c, WEFT_K_lt, point->axis[axis], weft_ix_extent(c, next), point->lanes);
    int64_t truth;
    if (weft_k_is_constant(k, mine, &truth))
        return truth ? weft_index_evaluate(c, here.value, here.point) : concat_from(c, node, first + 1, next, point);
    if (weft_ktype_of(k, mine).lanes > 1) {
        weft_point rest = *point;
        weft_point_restrict(c, &here.point, mine);
        weft_point_restrict(c, &rest, weft_k_xor(k, mine, weft_k_integer(k, WEFT_BOOL, 1)));
        weft_parts a = weft_index_evaluate(c, here.value, here.point), b = concat_from(c, node, first + 1, next, &rest);
        for (int i = 0; i < 2; i++)
            if (a.part[i] != WEFT_KNONE) result.part[i] = weft_index_select(c, mine, a.part[i], b.part[i]);
        return result;
    }
    weft_kval variables[2], zero = weft_index_zero(c, weft_index_carrier(here.value->type.dtype));
    bool pair = weft_dtype_kind_of(here.value->type.dtype) == WEFT_KIND_COMPLEX;
    variables[0] = weft_k_var(k, weft_k_splat(k, zero, point->lanes));
    variables[1] = pair ? weft_k_var(k, weft_k_splat(k, zero, point->lanes)) : WEFT_KNONE;
    weft_k_if(k, mine);
    size_t mark = weft_index_mark(c);
    set_parts(c, variables, weft_parts_splat(c, weft_index_evaluate(c, here.value, here.point), point->lanes));
    weft_index_release(c, mark);
    weft_k_else(k);
    set_parts(c, variables, weft_parts_splat(c, concat_from(c, node, first + 1, next, point), point->lanes));
    weft_index_release(c, mark);
    weft_k_end(k);
    for (int i = 0; i < 2; i++)
        if (variables[i] != WEFT_KNONE) result.part[i] = weft_k_get(k, variables[i]);
    return result;
}

weft_parts weft_index_move(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_value *x = node->operands[0];
    switch ((int)node->op) {
    case WEFT_OP_reshape: return weft_index_evaluate(c, x, reshape_point(c, x, point));
    case WEFT_OP_broadcast: return weft_index_evaluate(c, x, broadcast_point(c, node, point));
    case WEFT_OP_transpose: return weft_index_evaluate(c, x, transpose_point(c, node, point));
    case WEFT_OP_slice: return weft_index_evaluate(c, x, slice_point(c, node, point));
    case WEFT_OP_reverse: return weft_index_evaluate(c, x, reverse_point(c, node, point));
    case WEFT_OP_pad: return pad(c, node, point);
    case WEFT_OP_concat: weft_point_axes(c, point); return concat_from(c, node, 0, 0, point);
    default:
        weft_index_problem(c, WEFT_INTERNAL, "%s moves nothing", weft_op_get(node->op)->name);
        return weft_parts_one(weft_index_zero(c, weft_index_carrier(x->type.dtype)));
    }
}

/* -- values made from nothing */

static weft_parts element_of(weft_index_context *c, const weft_tensor *tensor, int64_t index) {
    weft_kernel *k = c->kernel;
    weft_dtype carrier = weft_index_carrier(tensor->dtype);
    if (weft_dtype_kind_of(tensor->dtype) == WEFT_KIND_COMPLEX) {
        double re = weft_element_double(carrier, tensor->data, 2 * index),
               im = weft_element_double(carrier, tensor->data, 2 * index + 1);
        return (weft_parts){{weft_k_float(k, carrier, re), weft_k_float(k, carrier, im)}};
    }
    if (weft_dtype_is_float(tensor->dtype))
        return weft_parts_one(weft_k_float(k, carrier, weft_element_double(tensor->dtype, tensor->data, index)));
    return weft_parts_one(weft_k_integer(k, carrier, weft_element_i64(tensor->dtype, tensor->data, index)));
}

static bool is_splat(const weft_tensor *tensor) {
    int bits = weft_dtype_bits(tensor->dtype);
    if (tensor->element_count <= 1) return true;
    if (bits < 8) { /* compare decoded */
        for (int64_t i = 1; i < tensor->element_count; i++)
            if (weft_dtype_is_float(tensor->dtype) ? weft_element_double(tensor->dtype, tensor->data, i) !=
                                                         weft_element_double(tensor->dtype, tensor->data, 0)
                                                   : weft_element_i64(tensor->dtype, tensor->data, i) !=
                                                         weft_element_i64(tensor->dtype, tensor->data, 0))
                return false;
        return true;
    }
    size_t bytes = (size_t)bits / 8;
    const char *data = tensor->data;
    for (int64_t i = 1; i < tensor->element_count; i++)
        if (memcmp(data, data + (size_t)i * bytes, bytes)) return false;
    return true;
}

enum { CONSTANT_CHAIN = 64 };

static weft_parts constant(weft_index_context *c, const weft_node *node, weft_point *point) {
    const weft_tensor *tensor = weft_node_attribute(node, WEFT_ATTR_value)->as.tensor;
    weft_kernel *k = c->kernel;
    if (tensor->element_count == 0) return weft_parts_one(weft_index_zero(c, weft_index_carrier(tensor->dtype)));
    weft_parts result = element_of(c, tensor, 0);
    if (is_splat(tensor)) return result;
    if (tensor->element_count > CONSTANT_CHAIN || !tensor->packed) {
        weft_index_problem(c, WEFT_UNSUPPORTED, "a constant of %lld elements inside a fusion: make it an operand",
                           (long long)tensor->element_count);
        return result;
    }
    weft_point_flat(c, point);
    for (int64_t i = 1; i < tensor->element_count; i++) {
        weft_kval here = weft_lane_compare(c, WEFT_K_eq, point->flat, weft_k_index(k, i), point->lanes);
        weft_parts element = element_of(c, tensor, i);
        for (int p = 0; p < 2; p++)
            if (result.part[p] != WEFT_KNONE)
                result.part[p] = weft_index_select(c, here, element.part[p], result.part[p]);
    }
    return result;
}

static weft_parts iota(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_kernel *k = c->kernel;
    weft_point_axes(c, point);
    weft_lane_index at = point->axis[weft_node_int(node, WEFT_ATTR_axis, 0)];
    weft_dtype to = weft_node_dtype(node, WEFT_ATTR_dtype, WEFT_I64), index = k->capability->index_dtype;
    bool plain = weft_dtype_is_integer(to) && weft_dtype_bits(to) >= 8 && !weft_lane_is_vector(c, at);
    if (!plain) {
        weft_kval wide = weft_lane_invariant(c, at, point->lanes) ? at.base : weft_lane_vector(c, at, point->lanes);
        return weft_index_convert(c, index, to, false, weft_parts_one(wide));
    }
    weft_kval base = weft_k_convert(k, at.base, to);
    if (weft_lane_invariant(c, at, point->lanes)) return weft_parts_one(base);
    weft_kval steps = weft_k_mul(k, weft_k_iota(k, to, point->lanes), weft_k_integer(k, to, at.stride));
    return weft_parts_one(weft_k_add(k, base, steps));
}

weft_parts weft_index_constant(weft_index_context *c, const weft_node *node, weft_point *point) {
    if (node->op == WEFT_OP_constant) return constant(c, node, point);
    if (node->op == WEFT_OP_iota) return iota(c, node, point);
    weft_kval extent = weft_ix_extent(c, weft_node_attribute(node, WEFT_ATTR_extent)->as.dims[0]);
    return weft_parts_one(weft_k_convert(c->kernel, extent, WEFT_I64));
}
