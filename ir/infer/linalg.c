/* Result types of random bits, transforms and linear algebra. Leading axes of matrices are a batch. */
#include "ir/infer/check.h"

bool weft_infer_rng_bits(weft_infer *infer) {
    const weft_type *key = weft_infer_operand(infer, 0);
    const weft_attribute *shape = weft_infer_attribute(infer, WEFT_ATTR_shape);
    weft_dtype dtype = weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype;
    if (key->dtype != WEFT_U64 || key->rank != 1 || key->dims[0] != 2)
        return weft_infer_fail(infer, "the key is %s; it must be u64[2]", weft_infer_type_text(infer, key));
    if (dtype != WEFT_U16 && dtype != WEFT_U32 && dtype != WEFT_U64)
        return weft_infer_fail(infer, "%s bits; they come as u16, u32 or u64", weft_dtype_name(dtype));
    return weft_infer_emit(infer, dtype, shape->count, shape->as.dims);
}

bool weft_infer_fft(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    int axis;
    return weft_infer_dtype(infer, 0, WEFT_ALLOW_COMPLEX) &&
           weft_infer_word(infer, WEFT_ATTR_kind, "forward inverse") &&
           weft_infer_axis(infer, WEFT_ATTR_axis, x->rank, &axis) && weft_infer_emit_type(infer, x);
}

static bool matrix(weft_infer *infer, int operand, bool square) {
    const weft_type *x = weft_infer_operand(infer, operand);
    if (x->dtype != WEFT_F32 && x->dtype != WEFT_F64)
        return weft_infer_fail(infer, "operand %d is %s; it takes f32 or f64", operand, weft_dtype_name(x->dtype));
    if (!weft_infer_rank(infer, operand, 2, WEFT_MAX_RANK)) return false;
    if (square && !weft_graph_assume_equal(infer->graph, x->dims[x->rank - 2], x->dims[x->rank - 1]))
        return weft_infer_fail(infer, "operand %d is %s; the matrices must be square", operand,
                               weft_infer_type_text(infer, x));
    return true;
}

bool weft_infer_cholesky(weft_infer *infer) {
    return matrix(infer, 0, true) && weft_infer_flag(infer, WEFT_ATTR_lower) &&
           weft_infer_emit_type(infer, weft_infer_operand(infer, 0));
}

bool weft_infer_triangular_solve(weft_infer *infer) {
    const weft_type *a = weft_infer_operand(infer, 0), *b = weft_infer_operand(infer, 1);
    if (!matrix(infer, 0, true) || !matrix(infer, 1, false) || !weft_infer_flag(infer, WEFT_ATTR_left_side) ||
        !weft_infer_flag(infer, WEFT_ATTR_lower) || !weft_infer_flag(infer, WEFT_ATTR_transpose_a) ||
        !weft_infer_flag(infer, WEFT_ATTR_unit_diagonal))
        return false;
    bool left = weft_infer_attribute(infer, WEFT_ATTR_left_side)->as.integer == 1;
    bool fits = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; fits && i < a->rank - 2; i++) fits = weft_graph_assume_equal(infer->graph, a->dims[i], b->dims[i]);
    if (fits) fits = weft_graph_assume_equal(infer->graph, a->dims[a->rank - 1], b->dims[b->rank - (left ? 2 : 1)]);
    if (!fits)
        return weft_infer_fail(infer, "%s does not fit %s", weft_infer_type_text(infer, b),
                               weft_infer_type_text(infer, a));
    return weft_infer_emit_type(infer, b);
}

/* x [..., m, n] = q [..., m, k] r [..., k, n], k = min(m, n). */
bool weft_infer_qr(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    if (!matrix(infer, 0, false)) return false;
    weft_dim q[WEFT_MAX_RANK], r[WEFT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) q[i] = r[i] = x->dims[i];
    weft_dim k = weft_dim_minimum(infer->graph->dims, x->dims[x->rank - 2], x->dims[x->rank - 1]);
    q[x->rank - 1] = r[x->rank - 2] = k;
    return weft_infer_emit(infer, x->dtype, x->rank, q) && weft_infer_emit(infer, x->dtype, x->rank, r);
}

/* Eigenvalues [..., n] in increasing order, eigenvectors [..., n, n] as columns. */
bool weft_infer_eigh(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    return matrix(infer, 0, true) && weft_infer_emit(infer, x->dtype, x->rank - 1, x->dims) &&
           weft_infer_emit_type(infer, x);
}
