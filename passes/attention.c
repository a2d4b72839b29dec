/* One query a head reads every key and value once: time is the bytes over the memory's rate, if all processors read. A
   head's keys are one processor's work, so few heads and long keys leave most of them idle. Pieces of the keys are
   heads of their own (a reshape, no copy); what each gives is weighed by its share of the sum of exponentials: o =
   sum_c exp(lse_c - max lse) o_c / sum_c exp(lse_c - max lse). The order is fixed, so are the bits. Source: the split
   of keys is that of Flash-Decoding (Dao et al. 2023). Read next: decompose.c. */
#include "passes/attention.h"

#include <math.h>

#include "ir/emit.h"
#include "ir/ops/attention.h"

enum { PIECE_MIN = 512, PIECE_UNIT = 128, PIECES_MAX = 256 };

/* Seconds that `tiles` heads of `keys` keys take: rounds over the processors, each tile its bytes at a processor's
   share of the memory rate (an H200's 4.2 TB/s over 132) and a start. */
static double seconds(const weft_capability *capability, double tiles, double keys, double bytes_a_key) {
    const double rate = 3.2e10, start = 1.5e-6;
    double processors = capability->multiprocessors > 0 ? capability->multiprocessors : 1;
    double rounds = (double)(int64_t)((tiles + processors - 1) / processors);
    return rounds * (keys * bytes_a_key / rate + start);
}

int64_t weft_attention_pieces(const weft_graph *graph, const weft_node *node, const weft_capability *capability) {
    const double more_launches = 5e-6; /* queries repeated, pieces combined */
    if (node->op != WEFT_OP_attention || node->result_count != 1) return 1;
    const weft_type *q = weft_operand_type(node, 0), *k = weft_operand_type(node, 1);
    if (weft_attention_key_at(node) >= 0) return 1; /* pieces would draw by other places */
    if (q->dims[2] != 1 || !weft_dim_is_number(k->dims[2]) || !weft_dim_is_number(q->dims[3])) return 1;
    if (weft_node_int(node, WEFT_ATTR_window_left, -1) >= 0) return 1; /* few keys, all of one piece */
    int64_t least, most, keys = k->dims[2], best = 1;
    weft_dim batch = capability->batch_invariant ? 1 : k->dims[0];
    weft_dim_bounds(graph->dims, weft_dim_multiply(graph->dims, batch, k->dims[1]), &least, &most);
    double bytes = 2.0 * (double)q->dims[3] * weft_dtype_bits(q->dtype) / 8, tiles = (double)(least < 1 ? 1 : least);
    double time = seconds(capability, tiles, (double)keys, bytes) - more_launches;
    for (int64_t pieces = 2; pieces <= PIECES_MAX; pieces++) {
        if (keys % pieces || keys / pieces < PIECE_MIN || keys / pieces % PIECE_UNIT) continue;
        double own = seconds(capability, tiles * (double)pieces, (double)(keys / pieces), bytes);
        if (own < time * 0.97) time = own, best = pieces;
    }
    return best;
}

/* x where it is not `special`, else `other`. */
static weft_value *unless(weft_graph *graph, weft_value *x, double special, double other) {
    weft_value *is = weft_emit_compare(graph, "eq", x, weft_emit_splat_like(graph, special, x));
    return weft_emit_select(graph, is, weft_emit_splat_like(graph, other, x), x);
}

/* Weights of the pieces over their sum; o and lse [B, Hkv, C, G, D], lse the same along D. masked: a piece, or all of
   them, may have no key that is seen. */
static weft_value *combine(weft_graph *graph, weft_value *o, weft_value *lse, bool masked) {
    int64_t axis = 2;
    weft_value *top = weft_emit_reduce(graph, lse, "max", 1, &axis);
    if (masked) top = unless(graph, top, -INFINITY, 0);
    weft_value *shifted = weft_emit_binary(graph, WEFT_OP_sub, lse, weft_emit_spread(graph, top, lse, 1, &axis));
    weft_value *weight = weft_emit_unary(graph, WEFT_OP_exp, shifted);
    weft_value *sum = weft_emit_reduce(graph, weight, "sum", 1, &axis);
    weft_value *mixed = weft_emit_reduce(graph, weft_emit_binary(graph, WEFT_OP_mul, weight, o), "sum", 1, &axis);
    return weft_emit_binary(graph, WEFT_OP_div, mixed, masked ? unless(graph, sum, 0, 1) : sum);
}

/* A mask for heads [B, Hkv C G, 1, S / C] from one for [B, H, 1, S]. */
static weft_value *mask_in_pieces(weft_graph *graph, weft_value *mask, const weft_type *q, weft_dim key_heads,
                                  int64_t pieces) {
    weft_dim_table *table = graph->dims;
    weft_dim group = weft_dim_divide_floor(table, q->dims[1], key_heads), given[4] = {1, 1, 1, 1};
    const weft_type *type = &mask->type;
    for (int i = 0; i < type->rank; i++) given[4 - type->rank + i] = type->dims[i];
    bool heads = given[1] != 1, keys = given[3] != 1;
    weft_dim split[5] = {given[0], heads ? key_heads : 1, heads ? group : 1, keys ? pieces : 1,
                         keys ? given[3] / pieces : 1};
    static const int64_t order[5] = {0, 1, 3, 2, 4}, axes[5] = {0, 1, 2, 3, 4};
    weft_dim whole[5] = {given[0], key_heads, pieces, group, split[4]};
    weft_dim rows[4] = {given[0], weft_dim_multiply(table, weft_dim_multiply(table, key_heads, pieces), group), 1,
                        split[4]};
    mask = weft_emit_transpose(graph, weft_emit_reshape(graph, mask, 5, split), order);
    return weft_emit_reshape(graph, weft_emit_broadcast(graph, mask, 5, whole, axes), 4, rows);
}

weft_value *weft_attention_in_pieces(weft_graph *graph, const weft_node *node, int64_t pieces, weft_node **out_inner) {
    weft_value *q = node->operands[0], *kv[2] = {node->operands[1], node->operands[2]};
    weft_dim_table *table = graph->dims;
    weft_dim b = q->type.dims[0], heads = q->type.dims[1], width = q->type.dims[3], key_heads = kv[0]->type.dims[1];
    weft_dim group = weft_dim_divide_floor(table, heads, key_heads),
             split = weft_dim_multiply(table, key_heads, pieces);
    int64_t axes[5] = {0, 1, 2, 3, 4}, without_width[4] = {0, 1, 2, 3};
    weft_dim one[5] = {b, key_heads, 1, group, width}, all[5] = {b, key_heads, pieces, group, width};
    weft_dim rows[4] = {b, weft_dim_multiply(table, split, group), 1, width};
    *out_inner = NULL;
    bool masked = node->operand_count == 4;
    weft_value *operands[4];
    operands[0] = weft_emit_reshape(
        graph, weft_emit_broadcast(graph, weft_emit_reshape(graph, q, 5, one), 5, all, axes), 4, rows);
    for (int i = 0; i < 2; i++) {
        weft_dim piece[4] = {b, split, kv[i]->type.dims[2] / pieces, kv[i]->type.dims[3]};
        operands[1 + i] = weft_emit_reshape(graph, kv[i], 4, piece);
    }
    if (masked) operands[3] = mask_in_pieces(graph, node->operands[3], &q->type, key_heads, pieces);
    weft_attribute attributes[6] = {weft_attr_float(WEFT_ATTR_scale, weft_node_float(node, WEFT_ATTR_scale, 0)),
                                    weft_attr_int(WEFT_ATTR_causal, 0),
                                    weft_attr_float(WEFT_ATTR_soft_cap, weft_node_float(node, WEFT_ATTR_soft_cap, 0)),
                                    weft_attr_int(WEFT_ATTR_window_left, -1),
                                    weft_attr_int(WEFT_ATTR_window_right, -1),
                                    weft_attr_int(WEFT_ATTR_lse, 1)};
    weft_value *mixed = weft_build(graph, WEFT_OP_attention, masked ? 4 : 3, operands, 6, attributes);
    if (weft_value_is_poison(mixed) || mixed->node->result_count != 2) return mixed;
    *out_inner = mixed->node;
    weft_dtype wide = mixed->node->results[1].type.dtype;
    weft_dim out_dims[5] = {b, key_heads, pieces, group, kv[1]->type.dims[3]};
    weft_value *o = weft_emit_convert(graph, weft_emit_reshape(graph, mixed, 5, out_dims), wide);
    weft_value *lse = weft_emit_reshape(graph, &mixed->node->results[1], 4, all); /* all but D */
    weft_value *y = combine(graph, o, weft_emit_broadcast(graph, lse, 5, out_dims, without_width), masked);
    return weft_emit_reshape(graph, weft_emit_convert(graph, y, q->type.dtype), 4, node->results[0].type.dims);
}

weft_value *weft_attention_window_mask(weft_graph *graph, const weft_node *node, weft_value *mask, int64_t left) {
    weft_dim queries = node->operands[0]->type.dims[2], keys = node->operands[1]->type.dims[2];
    weft_dim cell[2] = {queries, keys}, whole[4] = {1, 1, queries, keys};
    weft_value *i = weft_emit_iota(graph, WEFT_I64, 2, cell, 0), *j = weft_emit_iota(graph, WEFT_I64, 2, cell, 1);
    weft_value *distance = weft_emit_binary(graph, WEFT_OP_sub, j, i); /* beside position i + S - T */
    if (!weft_dim_known_equal(graph->dims, keys, queries)) {
        weft_value *offset = weft_emit_binary(graph, WEFT_OP_sub, weft_emit_extent(graph, keys, WEFT_I64),
                                              weft_emit_extent(graph, queries, WEFT_I64));
        distance = weft_emit_binary(graph, WEFT_OP_sub, distance, weft_emit_broadcast_to(graph, offset, 2, cell));
    }
    weft_value *seen = weft_emit_compare(graph, "ge", distance, weft_emit_splat_like(graph, (double)-left, distance));
    if (!mask || weft_value_is_poison(seen)) return seen;
    for (int a = 0; a < 2; a++)
        if (mask->type.rank + a >= 4) whole[a] = mask->type.dims[mask->type.rank - 4 + a];
    seen = weft_emit_broadcast_to(graph, seen, 4, whole), mask = weft_emit_broadcast_to(graph, mask, 4, whole);
    if (weft_value_is_poison(seen) || weft_value_is_poison(mask)) return seen;
    if (mask->type.dtype == WEFT_BOOL) return weft_emit_binary(graph, WEFT_OP_and, seen, mask);
    return weft_emit_select(graph, seen, mask, weft_emit_splat_like(graph, -INFINITY, mask));
}
