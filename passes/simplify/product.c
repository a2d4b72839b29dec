/* Rewrites of reductions and products. */
#include <string.h>

#include "passes/simplify/simplify.h"

/* Axes of extent 1 are dropped by a reshape; the rest is reduced. */
weft_value *weft_rewrite_reduce_unit_axes(weft_graph *graph, weft_node *node) {
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    const weft_type *x = &node->operands[0]->type;
    if (axes->count == 0) return node->operands[0];
    weft_dim dims[WEFT_MAX_RANK];
    int64_t left[WEFT_MAX_RANK];
    int rank = 0, left_count = 0, next = 0;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = next < axes->count && axes->as.ints[next] == i;
        next += reduced;
        if (reduced && x->dims[i] == 1) continue;
        if (reduced) left[left_count++] = rank;
        dims[rank++] = x->dims[i];
    }
    if (left_count == axes->count) return NULL;
    weft_value *squeezed = weft_emit_reshape(graph, node->operands[0], rank, dims);
    return weft_emit_reduce(graph, squeezed, weft_node_string(node, WEFT_ATTR_kind, "sum"), left_count, left);
}

/* reduce(reduce(x)) of one kind -> reduce(x): where the order cannot be seen */
weft_value *weft_rewrite_reduce_of_reduce(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_reduce);
    const char *kind = weft_node_string(node, WEFT_ATTR_kind, "sum");
    if (!inner || strcmp(weft_node_string(inner, WEFT_ATTR_kind, "sum"), kind) != 0) return NULL;
    bool ordered = strcmp(kind, "sum") == 0 || strcmp(kind, "product") == 0;
    if (ordered && !weft_dtype_is_integer(node->results[0].type.dtype)) return NULL;
    const weft_attribute *outer_axes = weft_node_attribute(node, WEFT_ATTR_axes);
    const weft_attribute *inner_axes = weft_node_attribute(inner, WEFT_ATTR_axes);
    int64_t axes[WEFT_MAX_RANK];
    int count = 0, kept = 0;
    for (int i = 0; i < inner->operands[0]->type.rank; i++) {
        bool reduced = false;
        for (int k = 0; k < inner_axes->count; k++) reduced |= inner_axes->as.ints[k] == i;
        if (!reduced) {
            for (int k = 0; k < outer_axes->count; k++) reduced |= outer_axes->as.ints[k] == kept;
            kept++;
        }
        if (reduced) axes[count++] = i;
    }
    return weft_emit_reduce(graph, inner->operands[0], kind, count, axes);
}

weft_value *weft_rewrite_cumulative_unit_axis(weft_graph *graph, weft_node *node) {
    (void)graph;
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0);
    bool trivial = node->results[0].type.dims[axis] == 1 && weft_node_int(node, WEFT_ATTR_exclusive, 0) == 0;
    return trivial ? node->operands[0] : NULL;
}

/* The last spatial axis does nothing: one position in, one tap, no padding. */
static bool last_axis_is_idle(const weft_node *node) {
    const weft_type *x = &node->operands[0]->type, *w = &node->operands[1]->type, *y = &node->results[0].type;
    int last = x->rank - 1, d = last - 2;
    return x->rank > 3 && x->dims[last] == 1 && w->dims[last] == 1 && y->dims[last] == 1 &&
           weft_node_attribute(node, WEFT_ATTR_low)->as.dims[d] == 0 &&
           weft_node_attribute(node, WEFT_ATTR_high)->as.dims[d] == 0;
}

/* Convolutions of sequences come as images of width 1; kernels run their vectors along the last axis. */
weft_value *weft_rewrite_convolution_unit_axis(weft_graph *graph, weft_node *node) {
    enum { MAX_ATTRIBUTES = 16 };
    weft_attribute attributes[MAX_ATTRIBUTES];
    if (!last_axis_is_idle(node) || node->attribute_count > MAX_ATTRIBUTES) return NULL;
    int rank = node->results[0].type.rank;
    for (int i = 0; i < node->attribute_count; i++) {
        attributes[i] = node->attributes[i];
        weft_attribute_name name = attributes[i].name;
        if (name == WEFT_ATTR_stride || name == WEFT_ATTR_low || name == WEFT_ATTR_high || name == WEFT_ATTR_dilation ||
            name == WEFT_ATTR_base_dilation)
            attributes[i].count--;
    }
    weft_value *operands[2];
    for (int i = 0; i < 2; i++)
        operands[i] = weft_emit_reshape(graph, node->operands[i], rank - 1, node->operands[i]->type.dims);
    weft_value *y = weft_build(graph, node->op, 2, operands, node->attribute_count, attributes);
    return weft_emit_reshape(graph, y, rank, node->results[0].type.dims);
}

/* -- reshapes between a product and what follows element by element */

/* Do the shapes differ by axes of extent 1 only? out_axes: for each axis of `from` that is longer, its place in `to`.
 */
static bool differ_by_unit_axes(const weft_type *from, const weft_type *to, int64_t *out_axes) {
    int at = 0;
    for (int i = 0; i < from->rank; i++) {
        out_axes[i] = -1;
        if (from->dims[i] == 1) continue;
        while (at < to->rank && to->dims[at] == 1) at++;
        if (at == to->rank || to->dims[at] != from->dims[i]) return false;
        out_axes[i] = at++;
    }
    while (at < to->rank && to->dims[at] == 1) at++;
    return at == to->rank;
}

/* The value in the shape of `like`; a broadcast goes there at once. */
static weft_value *without_unit_axes(weft_graph *graph, weft_value *value, const weft_type *like) {
    const weft_node *broadcast = weft_producer(value, WEFT_OP_broadcast);
    int64_t axes[WEFT_MAX_RANK], places[WEFT_MAX_RANK];
    if (!broadcast || !differ_by_unit_axes(&value->type, like, axes))
        return weft_emit_reshape(graph, value, like->rank, like->dims);
    const weft_attribute *own = weft_node_attribute(broadcast, WEFT_ATTR_axes);
    for (int i = 0; i < own->count; i++) {
        places[i] = axes[own->as.ints[i]];
        if (places[i] < 0) return weft_emit_reshape(graph, value, like->rank, like->dims);
    }
    return weft_emit_broadcast(graph, broadcast->operands[0], like->rank, like->dims, places);
}

/* A product, or what was computed of one element by element. */
static bool comes_from_product(const weft_value *value, int depth) {
    enum { DEPTH_MAX = 6 };
    const weft_node *node = value->node;
    if (!node || depth > DEPTH_MAX) return false;
    if (node->op == WEFT_OP_dot_general || node->op == WEFT_OP_ragged_dot || node->op == WEFT_OP_scaled_dot ||
        node->op == WEFT_OP_convolution)
        return true;
    if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE)) return false;
    for (int i = 0; i < node->operand_count; i++)
        if (comes_from_product(node->operands[i], depth + 1)) return true;
    return false;
}

/* f(reshape(product), y) -> reshape(f(product, reshape(y))): f can then be the product's epilogue. A convolution of one
   position becomes a product of rows, and its bias and activation stay behind a reshape that adds the position again.
 */
weft_value *weft_rewrite_elementwise_of_reshaped_product(weft_graph *graph, weft_node *node) {
    weft_value *operands[4];
    const weft_value *product = NULL;
    int64_t axes[WEFT_MAX_RANK];
    if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE) || node->operand_count > 4) return NULL;
    for (int i = 0; i < node->operand_count; i++) /* it can be an epilogue as it is; of two products one has its way */
        if (comes_from_product(node->operands[i], 0)) return NULL;
    for (int i = 0; i < node->operand_count && !product; i++) {
        const weft_node *reshape = weft_producer(node->operands[i], WEFT_OP_reshape);
        if (reshape && differ_by_unit_axes(&reshape->operands[0]->type, &node->results[0].type, axes) &&
            comes_from_product(reshape->operands[0], 0))
            product = reshape->operands[0];
    }
    if (!product) return NULL;
    for (int i = 0; i < node->operand_count; i++)
        operands[i] = without_unit_axes(graph, node->operands[i], &product->type);
    weft_value *y = weft_build(graph, node->op, node->operand_count, operands, node->attribute_count, node->attributes);
    return weft_emit_reshape(graph, y, node->results[0].type.rank, node->results[0].type.dims);
}

/* -- transposes into the dimension numbers of a product */

static bool contains(const weft_attribute *axes, int64_t axis) {
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* The free axes of an operand keep their order when its transpose is taken away. */
static bool free_order_kept(const weft_node *transpose, const weft_attribute *batch, const weft_attribute *contract) {
    const weft_attribute *permutation = weft_node_attribute(transpose, WEFT_ATTR_permutation);
    int64_t last = -1;
    for (int i = 0; i < permutation->count; i++) {
        if (contains(batch, i) || contains(contract, i)) continue;
        if (permutation->as.ints[i] < last) return false;
        last = permutation->as.ints[i];
    }
    return true;
}

static const weft_attribute_name names[2][2] = {{WEFT_ATTR_lhs_batch, WEFT_ATTR_lhs_contract},
                                                {WEFT_ATTR_rhs_batch, WEFT_ATTR_rhs_contract}};

bool weft_dots_take_transpose(const weft_node *transpose) {
    const weft_use *use = transpose->results[0].uses;
    for (; use; use = use->next)
        if (use->user->op != WEFT_OP_dot_general ||
            !free_order_kept(transpose, weft_node_attribute(use->user, names[use->index][0]),
                             weft_node_attribute(use->user, names[use->index][1])))
            return false;
    return transpose->results[0].uses != NULL;
}

weft_value *weft_rewrite_dot_of_transpose(weft_graph *graph, weft_node *node) {
    for (int side = 0; side < 2; side++) {
        weft_node *transpose = weft_producer(node->operands[side], WEFT_OP_transpose);
        if (!transpose) continue;
        if (!free_order_kept(transpose, weft_node_attribute(node, names[side][0]),
                             weft_node_attribute(node, names[side][1])))
            continue;
        const int64_t *permutation = weft_node_attribute(transpose, WEFT_ATTR_permutation)->as.ints;
        weft_attribute attributes[6];
        int64_t mapped[2][WEFT_MAX_RANK];
        for (int i = 0; i < node->attribute_count; i++) {
            attributes[i] = node->attributes[i];
            for (int n = 0; n < 2; n++) {
                if (attributes[i].name != names[side][n]) continue;
                for (int k = 0; k < attributes[i].count; k++) mapped[n][k] = permutation[attributes[i].as.ints[k]];
                attributes[i].as.ints = mapped[n];
            }
        }
        weft_value *operands[2] = {node->operands[0], node->operands[1]};
        operands[side] = transpose->operands[0];
        return weft_build(graph, WEFT_OP_dot_general, 2, operands, node->attribute_count, attributes);
    }
    return NULL;
}
