/* Which weights of attention are dropped, as a function of key, head and place, so that a gradient or a recomputation
   has the same ones and nobody keeps them.

   Cells of 16 x 16 weights are laid out in quarters: the four weights (i, j), (i, j + 8), (i + 8, j), (i + 8, j + 8)
   with i, j < 8 share one draw of 64 bits, 16 bits each, in this order from the lowest. The draw of cell (I, J) is
   rng_bits(key) at [b, h, 8 I + i, 8 J + j] of u64 [B, H, 8 ceil(T / 16), 8 ceil(S / 16)]. These are the four weights
   of a tile that a lane of a matrix unit has both in the fragment of P and in that of its transpose: either kernel
   draws once for four weights. Letters as in attention.c. */
#include "ir/ops/attention.h"

static int required(const weft_node *node) {
    return node->op == WEFT_OP_attention ? 3 : node->op == WEFT_OP_attention_backward ? 6 : 8;
}

int weft_attention_mask_tangent_at(const weft_node *node) {
    bool there = node->op == WEFT_OP_attention_tangent && weft_node_int(node, WEFT_ATTR_scores, 0) != 0;
    return there ? node->operand_count - 1 : -1;
}

int weft_attention_key_at(const weft_node *node) {
    int end = node->operand_count - (weft_attention_mask_tangent_at(node) >= 0);
    return weft_attention_dropout(node) > 0 ? end - 1 : -1;
}

int weft_attention_mask_at(const weft_node *node) {
    int end = node->operand_count - (weft_attention_mask_tangent_at(node) >= 0) - (weft_attention_key_at(node) >= 0);
    return end > required(node) ? required(node) : -1;
}

/* bool [B, H, T, S] */
static weft_value *kept(weft_graph *graph, weft_value *key, double rate, const weft_dim *dims) {
    weft_dim_table *table = graph->dims;
    weft_dim rows = weft_dim_divide_ceil(table, dims[2], WEFT_DROPOUT_CELL),
             columns = weft_dim_divide_ceil(table, dims[3], WEFT_DROPOUT_CELL);
    weft_dim cells[6] = {dims[0], dims[1], rows, WEFT_DROPOUT_HALF, columns, WEFT_DROPOUT_HALF}, two[2] = {2, 2};
    weft_dim whole[8] = {dims[0], dims[1], rows, 2, WEFT_DROPOUT_HALF, columns, 2, WEFT_DROPOUT_HALF};
    weft_dim flat[4] = {dims[0], dims[1], weft_dim_multiply(table, rows, WEFT_DROPOUT_CELL),
                        weft_dim_multiply(table, columns, WEFT_DROPOUT_CELL)};
    static const int64_t draws[6] = {0, 1, 2, 4, 5, 7}, quarters[2] = {3, 6};
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, 6, cells),
                                    weft_attr_dtype(WEFT_ATTR_dtype, WEFT_U64)};
    weft_value *bits = weft_build(graph, WEFT_OP_rng_bits, 1, &key, 2, attributes);
    weft_value *row = weft_emit_iota(graph, WEFT_U64, 2, two, 0), *column = weft_emit_iota(graph, WEFT_U64, 2, two, 1);
    weft_value *amount = weft_emit_binary(graph, WEFT_OP_add, weft_emit_binary_scalar(graph, WEFT_OP_mul, row, 32),
                                          weft_emit_binary_scalar(graph, WEFT_OP_mul, column, 16));
    if (weft_value_is_poison(bits) || weft_value_is_poison(amount)) return bits;
    bits = weft_emit_broadcast(graph, bits, 8, whole, draws);
    bits = weft_emit_binary(graph, WEFT_OP_shift_right_logical, bits,
                            weft_emit_broadcast(graph, amount, 8, whole, quarters));
    if (weft_value_is_poison(bits)) return bits;
    bits = weft_emit_binary_scalar(graph, WEFT_OP_and, bits, (1 << WEFT_DROPOUT_BITS) - 1);
    weft_value *stays =
        weft_emit_compare(graph, "ge", bits, weft_emit_splat_like(graph, weft_dropout_limit(rate), bits));
    stays = weft_emit_reshape(graph, stays, 4, flat);
    stays = weft_emit_slice_axis(graph, stays, 2, 0, dims[2], 1);
    return weft_emit_slice_axis(graph, stays, 3, 0, dims[3], 1);
}

weft_value *weft_attention_drop(weft_graph *graph, const weft_node *node, weft_value *const *operands, weft_value *x) {
    int at = weft_attention_key_at(node);
    if (at < 0 || weft_value_is_poison(x)) return x;
    double rate = weft_attention_dropout(node);
    weft_value *stays = kept(graph, operands[at], rate, x->type.dims);
    if (weft_value_is_poison(stays)) return stays;
    weft_value *scaled = weft_emit_binary_scalar(graph, WEFT_OP_mul, x, weft_dropout_scale(rate));
    return weft_emit_select(graph, stays, scaled, weft_emit_splat_like(graph, 0, x));
}
