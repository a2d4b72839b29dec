/* See ragged.h. Bounds are those of ops.def: offsets clamped to the rows, never falling; one walk over them makes them
   so, as each is the greatest of all before it. */
#include "codegen/builders/ragged.h"

#include "codegen/builders/matmul.h"

bool weft_ragged_find(const weft_graph *graph, const weft_node *fusion, weft_ragged *out_ragged,
                      const char **out_reason) {
    const weft_node *node = weft_fusion_find(fusion, WEFT_OP_ragged_dot);
    *out_reason = "no ragged product in the group";
    if (!node) return false;
    *out_reason = "an operand of the ragged product is computed in the group";
    for (int i = 0; i < 3; i++)
        if (node->operands[i]->node || node->operands[i]->block != weft_fusion_block(fusion)) return false;
    if (!weft_fusion_is_epilogue(graph, fusion, node, out_reason)) return false;
    int64_t contract = weft_node_attribute(node, WEFT_ATTR_rhs_contract)->as.ints[0];
    const weft_type *x = weft_operand_type(node, 0), *w = weft_operand_type(node, 1);
    *out_ragged = (weft_ragged){.node = node,
                                .by_rows = contract != 0,
                                .w_along_k = contract == 2,
                                .dtype = x->dtype,
                                .rows = x->dims[0],
                                .k = x->dims[1],
                                .n = w->dims[contract ? 3 - contract : 1],
                                .groups = weft_dim_subtract(graph->dims, weft_operand_type(node, 2)->dims[0], 1),
                                .x = node->operands[0]->index,
                                .w = node->operands[1]->index,
                                .offsets = node->operands[2]->index};
    *out_reason = NULL;
    return true;
}

weft_dim weft_ragged_tiles(weft_dim_table *dims, const weft_ragged *r, int tile) {
    weft_dim segments = weft_dim_add(dims, r->groups, 2);
    return weft_dim_divide_floor(dims, weft_dim_add(dims, r->rows, weft_dim_multiply(dims, segments, tile - 1)), tile);
}

weft_kval weft_ragged_offset(weft_index_context *c, const weft_ragged *r, weft_kval g) {
    weft_kernel *k = c->kernel;
    weft_dtype dtype = weft_operand_type(r->node, 2)->dtype, index = k->capability->index_dtype,
               wide = weft_dtype_bits(dtype) > weft_dtype_bits(index) ? dtype : index;
    weft_kval value = weft_index_load(c, c->operands[r->offsets], dtype, weft_lane_scalar(g), 1, WEFT_KNONE);
    value = weft_k_max(k, weft_k_convert(k, value, wide), weft_k_integer(k, wide, 0));
    value = weft_k_min(k, value, weft_k_convert(k, weft_k_extent(k, r->rows), wide));
    return weft_k_convert(k, value, index);
}

weft_ragged_tile weft_ragged_find_tile(weft_index_context *c, const weft_ragged *r, weft_kval tile, int rows) {
    weft_kernel *k = c->kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), size = weft_k_index(k, rows);
    weft_kval groups = weft_k_extent(k, r->groups), all = weft_k_extent(k, r->rows);
    weft_kval group = weft_k_var(k, weft_k_index(k, -1)), first = weft_k_var(k, zero), last = weft_k_var(k, zero);
    weft_kval start = weft_k_var(k, zero), left = weft_k_var(k, tile);
    weft_kval segment = weft_k_for(k, zero, weft_k_add(k, groups, weft_k_index(k, 2)), one, 0);
    size_t mark = weft_index_mark(c);
    weft_kval from = weft_k_get(k, start), before = weft_k_get(k, left);
    weft_kval bound = weft_ragged_offset(c, r, weft_k_min(k, segment, groups));
    weft_kval end = weft_k_max(k, from, weft_k_select(k, weft_k_le(k, segment, groups), bound, all));
    weft_kval tiles = weft_k_div(k, weft_k_add(k, weft_k_sub(k, end, from), weft_k_sub(k, size, one)), size);
    weft_kval here = weft_k_and(k, weft_k_le(k, zero, before), weft_k_lt(k, before, tiles));
    weft_k_set(k, group, weft_k_select(k, here, weft_k_sub(k, segment, one), weft_k_get(k, group)));
    weft_k_set(k, first,
               weft_k_select(k, here, weft_k_add(k, from, weft_k_mul(k, before, size)), weft_k_get(k, first)));
    weft_k_set(k, last, weft_k_select(k, here, end, weft_k_get(k, last)));
    weft_k_set(k, left, weft_k_sub(k, before, tiles));
    weft_k_set(k, start, end);
    weft_index_release(c, mark);
    weft_k_end(k);
    weft_ragged_tile found = {weft_k_get(k, group), weft_k_get(k, first), weft_k_get(k, last), WEFT_KNONE};
    found.dead = weft_k_or(k, weft_k_lt(k, found.group, zero), weft_k_le(k, groups, found.group));
    return found;
}

void weft_ragged_find_group(weft_index_context *c, const weft_ragged *r, weft_kval group, weft_kval *out_first,
                            weft_kval *out_end) {
    weft_kernel *k = c->kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), bound = weft_k_var(k, zero);
    weft_kval g = weft_k_for(k, zero, weft_k_add(k, group, one), one, 0);
    size_t mark = weft_index_mark(c);
    weft_k_set(k, bound, weft_k_max(k, weft_k_get(k, bound), weft_ragged_offset(c, r, g)));
    weft_index_release(c, mark);
    weft_k_end(k);
    *out_first = weft_k_get(k, bound);
    *out_end = weft_k_max(k, *out_first, weft_ragged_offset(c, r, weft_k_add(k, group, one)));
}
