/* scaled_dot written out: operands times their scales in f32, then a product in f32. */
#include "ir/decompose.h"
#include "ir/emit.h"

/* Each element along `axis` `times` times, cut to `extent`. */
static weft_value *stretch(weft_graph *graph, weft_value *x, int axis, int64_t times, weft_dim extent) {
    if (times == 1) return x;
    int rank = x->type.rank;
    weft_dim one[WEFT_MAX_RANK + 1], many[WEFT_MAX_RANK + 1], joined[WEFT_MAX_RANK];
    int64_t axes[WEFT_MAX_RANK + 1];
    for (int i = 0; i <= rank; i++) {
        int from = i <= axis ? i : i - 1;
        one[i] = many[i] = i == axis + 1 ? 1 : x->type.dims[from];
        axes[i] = i;
    }
    many[axis + 1] = times;
    for (int i = 0; i < rank; i++) joined[i] = x->type.dims[i];
    joined[axis] = weft_dim_multiply(graph->dims, joined[axis], times);
    weft_value *repeated = weft_emit_broadcast(graph, weft_emit_reshape(graph, x, rank + 1, one), rank + 1, many, axes);
    return weft_emit_slice_axis(graph, weft_emit_reshape(graph, repeated, rank, joined), axis, 0, extent, 1);
}

static weft_value *dequantize(weft_graph *graph, weft_value *x, weft_value *scale, int64_t rows, int64_t k) {
    int rank = x->type.rank;
    weft_value *each = weft_emit_convert(graph, scale, WEFT_F32);
    each = stretch(graph, each, rank - 1, k, x->type.dims[rank - 1]);
    each = stretch(graph, each, rank - 2, rows, x->type.dims[rank - 2]);
    return weft_emit_binary(graph, WEFT_OP_mul, weft_emit_convert(graph, x, WEFT_F32), each);
}

void weft_decompose_scaled_dot(weft_graph *graph, const weft_node *node, weft_value *const *operands,
                               weft_value **out_results) {
    const int64_t *block = weft_node_attribute(node, WEFT_ATTR_block)->as.ints;
    int rank = operands[0]->type.rank;
    int64_t batch[WEFT_MAX_RANK], contract = rank - 1;
    for (int i = 0; i < rank - 2; i++) batch[i] = i;
    weft_dot_axes axes = {.batch_count = rank - 2,
                          .contract_count = 1,
                          .lhs_batch = batch,
                          .rhs_batch = batch,
                          .lhs_contract = &contract,
                          .rhs_contract = &contract};
    weft_value *a = dequantize(graph, operands[0], operands[2], block[0], block[2]);
    weft_value *b = dequantize(graph, operands[1], operands[3], block[1], block[2]);
    out_results[0] = weft_emit_dot(graph, a, b, &axes, weft_node_dtype(node, WEFT_ATTR_dtype, WEFT_F32), WEFT_F32);
}
