/* Rewrites of reshape, transpose and broadcast. */
#include "passes/simplify/simplify.h"

static bool same_dims(const weft_type *a, const weft_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

/* A broadcast scalar with another shape. */
static weft_value *splat_as(weft_graph *graph, weft_value *value, const weft_type *type) {
    weft_node *broadcast = weft_producer(value, WEFT_OP_broadcast);
    if (!broadcast || broadcast->operands[0]->type.rank != 0) return NULL;
    return weft_emit_broadcast(graph, broadcast->operands[0], type->rank, type->dims, NULL);
}

/* -- reshape */

weft_value *weft_rewrite_reshape_identity(weft_graph *graph, weft_node *node) {
    (void)graph;
    return same_dims(&node->operands[0]->type, &node->results[0].type) ? node->operands[0] : NULL;
}

weft_value *weft_rewrite_reshape_of_reshape(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_reshape);
    if (!inner) return NULL;
    return weft_emit_reshape(graph, inner->operands[0], node->results[0].type.rank, node->results[0].type.dims);
}

weft_value *weft_rewrite_reshape_of_splat(weft_graph *graph, weft_node *node) {
    return splat_as(graph, node->operands[0], &node->results[0].type);
}

/* -- transpose */

weft_value *weft_rewrite_transpose_identity(weft_graph *graph, weft_node *node) {
    (void)graph;
    const int64_t *permutation = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    for (int i = 0; i < node->results[0].type.rank; i++)
        if (permutation[i] != i) return NULL;
    return node->operands[0];
}

weft_value *weft_rewrite_transpose_of_transpose(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_transpose);
    if (!inner) return NULL;
    const int64_t *outer_axes = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    const int64_t *inner_axes = weft_node_attribute(inner, WEFT_ATTR_permutation)->as.ints;
    int64_t composed[WEFT_MAX_RANK];
    for (int i = 0; i < node->results[0].type.rank; i++) composed[i] = inner_axes[outer_axes[i]];
    return weft_emit_transpose(graph, inner->operands[0], composed);
}

weft_value *weft_rewrite_transpose_of_splat(weft_graph *graph, weft_node *node) {
    return splat_as(graph, node->operands[0], &node->results[0].type);
}

/* Axes longer than 1 keep their order -> reshape */
weft_value *weft_rewrite_transpose_of_unit_axes(weft_graph *graph, weft_node *node) {
    const int64_t *permutation = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    const weft_type *type = &node->results[0].type;
    int64_t last = -1;
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] == 1) continue;
        if (permutation[i] < last) return NULL;
        last = permutation[i];
    }
    return weft_emit_reshape(graph, node->operands[0], type->rank, type->dims);
}

/* -- broadcast */

weft_value *weft_rewrite_broadcast_identity(weft_graph *graph, weft_node *node) {
    (void)graph; /* axes are increasing: equal shapes leave only the identity */
    return same_dims(&node->operands[0]->type, &node->results[0].type) ? node->operands[0] : NULL;
}

weft_value *weft_rewrite_broadcast_of_broadcast(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_broadcast);
    if (!inner) return NULL;
    const int64_t *outer_axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    const int64_t *inner_axes = weft_node_attribute(inner, WEFT_ATTR_axes)->as.ints;
    int64_t composed[WEFT_MAX_RANK];
    for (int i = 0; i < inner->operands[0]->type.rank; i++) composed[i] = outer_axes[inner_axes[i]];
    return weft_emit_broadcast(graph, inner->operands[0], node->results[0].type.rank, node->results[0].type.dims,
                               composed);
}

/* Axes of extent 1 that are stretched go away: what a broadcast repeats is then written in its axes alone. Those of a
   result's extent 1 stay: they line up what was reduced with what it is spread over, so that fusions see it. */
weft_value *weft_rewrite_broadcast_without_unit_axes(weft_graph *graph, weft_node *node) {
    weft_value *x = node->operands[0];
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    weft_dim dims[WEFT_MAX_RANK];
    int64_t kept[WEFT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->type.rank; i++) {
        if (x->type.dims[i] == 1 && node->results[0].type.dims[axes[i]] != 1) continue;
        dims[rank] = x->type.dims[i];
        kept[rank++] = axes[i];
    }
    if (rank == x->type.rank) return NULL;
    x = weft_emit_reshape(graph, x, rank, dims);
    return weft_emit_broadcast(graph, x, node->results[0].type.rank, node->results[0].type.dims, kept);
}
