/* Result types of ordering ops: sort, top_k, nonzero. */
#include "ir/infer/check.h"

bool weft_infer_sort(weft_infer *infer) {
    int axis;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_BOOL | WEFT_ALLOW_NUMBER) ||
        !weft_infer_axis(infer, WEFT_ATTR_axis, weft_infer_operand(infer, 0)->rank, &axis) ||
        !weft_infer_flag(infer, WEFT_ATTR_descending) || !weft_infer_flag(infer, WEFT_ATTR_stable))
        return false;
    for (int i = 0; i < infer->node->operand_count; i++)
        if (!weft_infer_same_shape(infer, 0, i) || !weft_infer_emit_type(infer, weft_infer_operand(infer, i)))
            return false;
    return true;
}

bool weft_infer_top_k(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    int axis;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_NUMBER) || !weft_infer_axis(infer, WEFT_ATTR_axis, x->rank, &axis) ||
        !weft_infer_count(infer, WEFT_ATTR_k, 1) || !weft_infer_flag(infer, WEFT_ATTR_descending))
        return false;
    weft_dim k = weft_infer_attribute(infer, WEFT_ATTR_k)->as.dims[0];
    if (!weft_graph_assume_at_most(infer->graph, 0, k) || !weft_graph_assume_at_most(infer->graph, k, x->dims[axis]))
        return weft_infer_fail(infer, "k is %s, axis %d of %s is too short", weft_infer_dim_text(infer, k), axis,
                               weft_infer_type_text(infer, x));
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? k : x->dims[i];
    return weft_infer_emit(infer, x->dtype, x->rank, dims) && weft_infer_emit(infer, WEFT_I64, x->rank, dims);
}

/* The payload is at the bound, the count beside it; a symbol names the count for consumers that read it. */
bool weft_infer_nonzero(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    const weft_attribute *symbol = weft_infer_attribute(infer, WEFT_ATTR_symbol);
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_ANY)) return false;
    if (symbol) {
        int index = weft_dim_symbol_find(infer->graph->dims, symbol->as.string);
        if (index < 0 || weft_dim_symbol_get(infer->graph->dims, index)->origin != WEFT_SYMBOL_DATA)
            return weft_infer_fail(infer, "symbol %s is not a data-dependent symbol of the graph", symbol->as.string);
    }
    weft_dim dims[2] = {x->rank, weft_type_count(infer->graph, x)};
    return weft_infer_emit(infer, WEFT_I64, 2, dims) && weft_infer_emit(infer, WEFT_I64, 0, NULL);
}
