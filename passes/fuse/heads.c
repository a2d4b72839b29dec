/* See heads.h. Read next: fuse.c, codegen/builders/attention_hopper.c. */
#include "passes/fuse/heads.h"

static bool same(const weft_graph *graph, weft_dim a, weft_dim b) {
    return a == b || weft_dim_known_equal(graph->dims, a, b);
}

bool weft_is_head_transpose(const weft_node *node) {
    if (node->op != WEFT_OP_transpose || node->results[0].type.rank != 4) return false;
    const int64_t *order = weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints;
    return order[0] == 0 && order[1] == 2 && order[2] == 1 && order[3] == 3;
}

/* One of several parts: [B, T, 1, H, D] of [B, T, P, H, D]. */
static bool find_part(const weft_graph *graph, const weft_node *slice, weft_head_view *out) {
    const weft_type *x = weft_operand_type(slice, 0), *y = &slice->results[0].type;
    const weft_dim *start = weft_node_attribute(slice, WEFT_ATTR_start)->as.dims;
    const int64_t *stride = weft_node_attribute(slice, WEFT_ATTR_stride)->as.ints;
    if (x->rank != 5 || y->dims[2] != 1 || !weft_dim_is_number(start[2]) || !weft_dim_is_number(x->dims[3]))
        return false;
    for (int a = 0; a < 5; a++)
        if (stride[a] != 1 || (a != 2 && (start[a] != 0 || !same(graph, x->dims[a], y->dims[a])))) return false;
    out->heads = weft_dim_multiply(graph->dims, x->dims[2], x->dims[3]);
    out->first = start[2] * x->dims[3];
    out->base = slice->operands[0];
    return true;
}

/* Columns of several parts side by side: [B, T, H D] of [B, T, X D], from a whole head on. */
static void find_columns(const weft_graph *graph, const weft_value *part, const weft_dim *tokens, weft_head_view *out) {
    const weft_node *slice = part->node;
    if (!slice || slice->op != WEFT_OP_slice || !weft_dim_is_number(tokens[3])) return;
    const weft_type *x = weft_operand_type(slice, 0);
    const weft_dim *start = weft_node_attribute(slice, WEFT_ATTR_start)->as.dims;
    const int64_t *stride = weft_node_attribute(slice, WEFT_ATTR_stride)->as.ints;
    if (!weft_dim_is_number(start[2]) || !weft_dim_is_number(x->dims[2]) || start[2] % tokens[3] ||
        x->dims[2] % tokens[3])
        return;
    for (int a = 0; a < 3; a++)
        if (stride[a] != 1 || (a != 2 && (start[a] != 0 || !same(graph, x->dims[a], part->type.dims[a])))) return;
    *out = (weft_head_view){.base = slice->operands[0], .heads = x->dims[2] / tokens[3], .first = start[2] / tokens[3]};
}

bool weft_head_view_find(const weft_graph *graph, const weft_value *value, weft_head_view *out_view) {
    if (!value->node || !weft_is_head_transpose(value->node)) return false;
    const weft_value *tokens = value->node->operands[0], *under = tokens; /* [B, T, H, D] */
    const weft_dim *dims = tokens->type.dims;
    *out_view = (weft_head_view){.base = tokens, .heads = dims[2]};
    if (tokens->node && tokens->node->op == WEFT_OP_reshape) under = tokens->node->operands[0];
    if (under == tokens) return true;
    const weft_type *type = &under->type;
    if (!same(graph, type->dims[0], dims[0]) || !same(graph, type->dims[1], dims[1]))
        return true; /* a reshape in memory */
    if (type->rank == 5 && under->node && under->node->op == WEFT_OP_slice) {
        weft_head_view part;
        if (!same(graph, type->dims[3], dims[2]) || !same(graph, type->dims[4], dims[3]) ||
            !find_part(graph, under->node, &part))
            return true;
        *out_view = part;
        under = part.base;
        if (!under->node || under->node->op != WEFT_OP_reshape) return true;
        const weft_type *joined = &under->node->operands[0]->type;
        if (joined->rank == 3 && same(graph, joined->dims[0], dims[0]) && same(graph, joined->dims[1], dims[1]))
            out_view->base = under->node->operands[0];
        return true;
    }
    if (type->rank != 3) return true;
    out_view->base = under;
    find_columns(graph, under, dims, out_view);
    return true;
}
