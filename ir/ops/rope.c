/* Rotary position embedding (Su et al. 2021): pairs (a, b) of the last axis turn by an angle:
   (a cos - b sin, b cos + a sin). Pairs are (2i, 2i + 1) when interleaved, else (i, i + D / 2). */
#include "ir/ops/compute.h"

void weft_decompose_rope(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                         weft_value **out_results) {
    bool interleaved = weft_node_int(node, WEFT_ATTR_interleaved, 0) != 0;
    weft_value *x = weft_compute_value(graph, operands[0]);
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank, last = rank - 1;
    weft_dim width = x->type.dims[last], half = weft_dim_divide_floor(graph->dims, width, 2);
    weft_value *a = weft_emit_slice_axis(graph, x, last, 0, interleaved ? width : half, interleaved ? 2 : 1);
    weft_value *b = weft_emit_slice_axis(graph, x, last, interleaved ? 1 : half, width, interleaved ? 2 : 1);
    if (weft_value_is_poison(a) || weft_value_is_poison(b)) return;
    weft_value *cosine = weft_emit_convert(graph, operands[1], x->type.dtype);
    weft_value *sine = weft_emit_convert(graph, operands[2], x->type.dtype);
    cosine = weft_emit_broadcast_to(graph, cosine, rank, a->type.dims);
    sine = weft_emit_broadcast_to(graph, sine, rank, a->type.dims);
    weft_value *parts[2] = {
        weft_emit_binary(graph, WEFT_OP_sub, weft_emit_binary(graph, WEFT_OP_mul, a, cosine),
                         weft_emit_binary(graph, WEFT_OP_mul, b, sine)),
        weft_emit_binary(graph, WEFT_OP_add, weft_emit_binary(graph, WEFT_OP_mul, b, cosine),
                         weft_emit_binary(graph, WEFT_OP_mul, a, sine)),
    };
    if (interleaved && rank < WEFT_MAX_RANK) {
        weft_dim dims[WEFT_MAX_RANK];
        for (int i = 0; i < rank; i++) dims[i] = a->type.dims[i];
        dims[rank] = 1;
        for (int i = 0; i < 2; i++) parts[i] = weft_emit_reshape(graph, parts[i], rank + 1, dims);
    }
    weft_value *y = weft_emit_concat(graph, interleaved ? rank : last, 2, parts);
    y = weft_emit_reshape(graph, y, rank, x->type.dims);
    out_results[0] = weft_emit_convert(graph, y, operands[0]->type.dtype);
}
