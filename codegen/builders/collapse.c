/* Which neighbouring axes of a value may be counted as one.

   Bit i of weft_index_mergeable(value) says that axes i and i + 1 may be replaced by a single axis of their product,
   because every access below the value sees them so: the position in the run then stands in its last axis that is
   longer than 1, and the others are 0 (addresses are linear, so the loads do not notice). It turns reshapes into
   nothing and lets loops run over few axes. Invariant: an axis whose own number matters (iota, pad, concat, slices,
   index maps) is never merged. Read next: index_move.c (reshape), pointwise.c. */
#include <string.h>

#include "codegen/builders/index_internal.h"

struct weft_index_merge {
    const weft_value *value;
    uint32_t bits;
};

static uint32_t all_bits(int rank) { return rank < 2 ? 0 : ((uint32_t)1 << (rank - 1)) - 1; }

static bool same(weft_index_context *c, weft_dim a, weft_dim b) {
    return a == b || weft_dim_known_equal(c->graph->dims, a, b);
}

static bool has(uint32_t bits, int i) { return bits >> i & 1; }

/* Clears the boundaries on both sides of an axis. */
static uint32_t without_axis(uint32_t bits, int axis) {
    bits &= ~((uint32_t)1 << axis);
    return axis > 0 ? bits & ~((uint32_t)1 << (axis - 1)) : bits;
}

static uint32_t broadcast_bits(const weft_node *node, uint32_t from) {
    const weft_type *x = weft_operand_type(node, 0), *y = &node->results[0].type;
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    int source[WEFT_MAX_RANK];
    for (int j = 0, i = 0; j < y->rank; j++) {
        bool mapped = i < x->rank && axes[i] == j;
        source[j] = mapped && (x->dims[i] != 1 || y->dims[j] == 1) ? i : -1;
        if (mapped) i++;
    }
    uint32_t bits = 0;
    for (int j = 0; j + 1 < y->rank; j++) {
        int a = source[j], b = source[j + 1];
        bool merge = (a < 0 && b < 0) || (a >= 0 && b == a + 1 && has(from, a));
        if (merge) bits |= (uint32_t)1 << j;
    }
    return bits;
}

static uint32_t transpose_bits(const weft_node *node, uint32_t from) {
    const int64_t *permutation = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    uint32_t bits = 0;
    for (int j = 0; j + 1 < node->results[0].type.rank; j++)
        if (permutation[j + 1] == permutation[j] + 1 && has(from, (int)permutation[j])) bits |= (uint32_t)1 << j;
    return bits;
}

/* Walks the groups of a reshape (see index_move.c): inside a group the result merges where the operand does throughout;
   between groups where the operand's boundary does and both groups do. */
static uint32_t reshape_bits(weft_index_context *c, const weft_node *node, uint32_t from) {
    const weft_type *x = weft_operand_type(node, 0), *y = &node->results[0].type;
    weft_dim_table *table = c->graph->dims;
    if (from == all_bits(x->rank)) return all_bits(y->rank);
    uint32_t bits = 0;
    bool whole = false; /* the group before merges throughout */
    int i = 0, j = 0;
    while (i < x->rank && j < y->rank) {
        int i0 = i, j0 = j;
        weft_dim a = x->dims[i++], b = y->dims[j++], q;
        while (!same(c, a, b)) {
            bool numbers = a >= 0 && b >= 0, b_smaller = numbers ? b < a : weft_dim_divide_exact(table, a, b, &q);
            if (b_smaller && j < y->rank)
                b = weft_dim_multiply(table, b, y->dims[j++]);
            else if (!b_smaller && i < x->rank)
                a = weft_dim_multiply(table, a, x->dims[i++]);
            else {
                i = x->rank;
                j = y->rank;
                break;
            }
        }
        if (i >= x->rank) j = y->rank; /* trailing ones */
        if (j >= y->rank) i = x->rank;
        bool inside = true;
        for (int n = i0; n + 1 < i; n++) inside &= has(from, n);
        for (int n = j0; n + 1 < j && inside; n++) bits |= (uint32_t)1 << n;
        if (j0 > 0 && whole && inside && has(from, i0 - 1)) bits |= (uint32_t)1 << (j0 - 1);
        whole = inside;
    }
    return bits;
}

static uint32_t pad_bits(const weft_node *node, uint32_t bits) {
    const weft_dim *low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims,
                   *high = weft_node_attribute(node, WEFT_ATTR_high)->as.dims;
    const int64_t *interior = weft_node_attribute(node, WEFT_ATTR_interior)->as.ints;
    for (int i = 0; i < node->results[0].type.rank; i++)
        if (low[i] != 0 || high[i] != 0 || interior[i] != 0) bits = without_axis(bits, i);
    return bits;
}

/* Ops whose result axes of unchanged extent pass through: slice, dynamic slices, reverse. */
static uint32_t changed_extents(weft_index_context *c, const weft_type *x, const weft_type *y, uint32_t bits) {
    for (int i = 0; i < y->rank; i++)
        if (!same(c, x->dims[i], y->dims[i])) bits = without_axis(bits, i);
    return bits;
}

static uint32_t reduce_bits(const weft_node *node, const int64_t *axes, int count, uint32_t from) {
    uint32_t bits = 0;
    int rank = weft_operand_type(node, 0)->rank, before = -1;
    for (int i = 0, kept = 0; i < rank; i++) {
        bool reduced = false;
        for (int j = 0; j < count; j++) reduced |= axes[j] == i;
        if (reduced) continue;
        if (before == i - 1 && kept > 0 && has(from, before)) bits |= (uint32_t)1 << (kept - 1);
        before = i;
        kept++;
    }
    return bits;
}

static uint32_t concat_bits(weft_index_context *c, const weft_node *node) {
    uint32_t bits = all_bits(node->results[0].type.rank);
    for (int i = 0; i < node->operand_count; i++) bits &= weft_index_mergeable(c, node->operands[i]);
    return without_axis(bits, (int)weft_node_int(node, WEFT_ATTR_axis, 0));
}

static uint32_t window_bits(const weft_node *node, uint32_t bits) {
    const int64_t *window = weft_node_attribute(node, WEFT_ATTR_window)->as.ints,
                  *stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints;
    const int64_t *base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints;
    const weft_dim *low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims,
                   *high = weft_node_attribute(node, WEFT_ATTR_high)->as.dims;
    for (int i = 0; i < node->results[0].type.rank; i++)
        if (window[i] != 1 || stride[i] != 1 || base[i] != 1 || low[i] != 0 || high[i] != 0)
            bits = without_axis(bits, i);
    return bits;
}

/* Neighbouring offset axes that run over whole neighbouring axes of x, and neighbouring batch axes. */
static uint32_t gather_bits(weft_index_context *c, const weft_node *node) {
    const weft_attribute *offset = weft_node_attribute(node, WEFT_ATTR_offset_axes);
    const weft_attribute *collapsed = weft_node_attribute(node, WEFT_ATTR_collapsed_axes);
    const weft_dim *sizes = weft_node_attribute(node, WEFT_ATTR_sizes)->as.dims;
    const weft_type *x = weft_operand_type(node, 0), *indices = weft_operand_type(node, 1);
    uint32_t of_x = weft_index_mergeable(c, node->operands[0]), of_indices = weft_index_mergeable(c, node->operands[1]),
             bits = 0;
    int source[WEFT_MAX_RANK], rank = node->results[0].type.rank,
                               index_axis = (int)weft_node_int(node, WEFT_ATTR_index_axis, 0);
    for (int j = 0; j < rank; j++) source[j] = -1;
    for (int i = 0, next = 0; i < x->rank; i++) {
        bool dropped = false;
        for (int n = 0; n < collapsed->count; n++) dropped |= collapsed->as.ints[n] == i;
        if (!dropped) source[offset->as.ints[next++]] = same(c, x->dims[i], sizes[i]) ? i : -2;
    }
    int batch = 0, at[WEFT_MAX_RANK];
    for (int j = 0; j < rank; j++) {
        if (source[j] != -1) continue;
        if (batch == index_axis && index_axis < indices->rank) batch++;
        at[j] = batch++;
    }
    for (int j = 0; j + 1 < rank; j++) {
        bool offsets = source[j] >= 0 && source[j + 1] == source[j] + 1 && has(of_x, source[j]);
        bool batches = source[j] == -1 && source[j + 1] == -1 && at[j + 1] == at[j] + 1 && has(of_indices, at[j]);
        if (offsets || batches) bits |= (uint32_t)1 << j;
    }
    return bits;
}

static uint32_t node_bits(weft_index_context *c, const weft_node *node) {
    int rank = node->results[0].type.rank;
    uint32_t all = all_bits(rank);
    if (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE) {
        for (int i = 0; i < node->operand_count; i++) all &= weft_index_mergeable(c, node->operands[i]);
        return all;
    }
    uint32_t from = node->operand_count ? weft_index_mergeable(c, node->operands[0]) : 0;
    switch ((int)node->op) {
    case WEFT_OP_constant:
    case WEFT_OP_rng_bits:
    case WEFT_OP_dot_general: /* bound by its builder, wherever it is asked for */
    case WEFT_OP_ragged_dot:
    case WEFT_OP_scaled_dot:
    case WEFT_OP_convolution:
    case WEFT_OP_dim: return all;
    case WEFT_OP_iota: return without_axis(all, (int)weft_node_int(node, WEFT_ATTR_axis, 0));
    case WEFT_OP_reshape: return reshape_bits(c, node, from);
    case WEFT_OP_broadcast: return broadcast_bits(node, from);
    case WEFT_OP_transpose: return transpose_bits(node, from);
    case WEFT_OP_slice:
    case WEFT_OP_dynamic_slice: return changed_extents(c, weft_operand_type(node, 0), &node->results[0].type, from);
    case WEFT_OP_reverse: {
        const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
        for (int i = 0; i < axes->count; i++) from = without_axis(from, (int)axes->as.ints[i]);
        return from;
    }
    case WEFT_OP_pad: return pad_bits(node, from);
    case WEFT_OP_concat: return concat_bits(c, node);
    case WEFT_OP_dynamic_update_slice:
        return changed_extents(c, weft_operand_type(node, 1), &node->results[0].type,
                               from & weft_index_mergeable(c, node->operands[1]));
    case WEFT_OP_gather: return gather_bits(c, node);
    case WEFT_OP_reduce: {
        const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
        return reduce_bits(node, axes->as.ints, axes->count, from);
    }
    case WEFT_OP_arg_reduce: return reduce_bits(node, &(int64_t){weft_node_int(node, WEFT_ATTR_axis, 0)}, 1, from);
    case WEFT_OP_reduce_window: return window_bits(node, from);
    default: return 0;
    }
}

uint32_t weft_index_mergeable(weft_index_context *c, const weft_value *value) {
    if (!value->node) return all_bits(value->type.rank);
    for (size_t i = 0; i < c->merge_count; i++)
        if (c->merges[i].value == value) return c->merges[i].bits;
    uint32_t bits = node_bits(c, value->node);
    if (c->merge_count == c->merge_capacity) {
        size_t capacity = c->merge_capacity ? c->merge_capacity * 2 : 64;
        struct weft_index_merge *merges = weft_arena_allocate_array(c->arena, capacity, sizeof *merges);
        if (!merges) return weft_index_problem(c, WEFT_OUT_OF_MEMORY, "axis analysis"), 0;
        if (c->merge_count) memcpy(merges, c->merges, c->merge_count * sizeof *merges);
        c->merges = merges;
        c->merge_capacity = capacity;
    }
    c->merges[c->merge_count++] = (struct weft_index_merge){value, bits};
    return bits;
}
