/* Products: dot_general and numpy's matmul on it, attention, rope, linear algebra. Read next: convolution.c. */
#include "base/need.h"
#include "frontend/ops/common.h"

weft_value *weft_dot_general(weft_graph *g, weft_value *a, weft_value *b, const weft_dot_options *options) {
    weft_value *operands[2] = {a, b};
    weft_dot_options own = WEFT_DOT_OPTIONS_INIT, *o = &own;
    if (weft_ops_absent_any(g, operands, 2) || !weft_ops_given(g, options, 1, "the options"))
        return weft_value_poison(g);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_DOT_OPTIONS_INIT))) return weft_value_poison(g);
    weft_attribute attributes[6] = {
        weft_attr_ints(WEFT_ATTR_lhs_batch, o->batch_count, o->lhs_batch),
        weft_attr_ints(WEFT_ATTR_rhs_batch, o->batch_count, o->rhs_batch),
        weft_attr_ints(WEFT_ATTR_lhs_contract, o->contract_count, o->lhs_contract),
        weft_attr_ints(WEFT_ATTR_rhs_contract, o->contract_count, o->rhs_contract),
        weft_attr_dtype(WEFT_ATTR_dtype, o->dtype == WEFT_INVALID ? a->type.dtype : o->dtype),
        weft_attr_dtype(WEFT_ATTR_accumulate, o->accumulate),
    };
    return weft_build(g, WEFT_OP_dot_general, 2, operands, o->accumulate == WEFT_INVALID ? 5 : 6, attributes);
}

weft_value *weft_matmul(weft_graph *g, weft_value *a, weft_value *b) {
    return weft_matmul_typed(g, a, b, WEFT_INVALID);
}

/* Leading axes of an operand stretched to the joint batch. */
static weft_value *with_batch(weft_graph *g, weft_value *x, int batch_rank, const weft_dim *batch) {
    weft_dim shape[WEFT_MAX_RANK];
    for (int i = 0; i < batch_rank; i++) shape[i] = batch[i];
    shape[batch_rank] = x->type.dims[x->type.rank - 2];
    shape[batch_rank + 1] = x->type.dims[x->type.rank - 1];
    return weft_broadcast_to(g, x, batch_rank + 2, shape);
}

/* a [..., M, K] times a matrix b [K, N]: no batch axes are needed. */
static weft_value *times_matrix(weft_graph *g, weft_value *a, weft_value *b, weft_dtype dtype) {
    int64_t lhs = a->type.rank - 1, rhs = 0;
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = &lhs, options.rhs_contract = &rhs, options.dtype = dtype;
    return weft_dot_general(g, a, b, &options);
}

weft_value *weft_matmul_typed(weft_graph *g, weft_value *a, weft_value *b, weft_dtype dtype) {
    weft_value *operands[2] = {a, b};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    if (a->type.rank == 0 || b->type.rank == 0) {
        weft_graph_problem(g, "matmul of a scalar");
        return weft_value_poison(g);
    }
    int64_t first = 0, last = -1, before_last = -2;
    bool row = a->type.rank == 1, column = b->type.rank == 1;
    if (row) a = weft_unsqueeze(g, a, 1, &first);
    if (column) b = weft_unsqueeze(g, b, 1, &last);
    if (weft_value_is_poison(a) || weft_value_is_poison(b)) return weft_value_poison(g);
    weft_value *product;
    if (b->type.rank == 2)
        product = times_matrix(g, a, b, dtype);
    else {
        weft_type lhs = {a->type.dtype, a->type.rank - 2, a->type.dims},
                  rhs = {b->type.dtype, b->type.rank - 2, b->type.dims};
        int rank;
        weft_dim batch[WEFT_MAX_RANK];
        if (!weft_ops_broadcast_shapes(g, &lhs, &rhs, &rank, batch)) return weft_value_poison(g);
        int64_t axes[WEFT_MAX_RANK], lhs_contract = rank + 1, rhs_contract = rank;
        for (int i = 0; i < rank; i++) axes[i] = i;
        weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
        options.batch_count = rank, options.lhs_batch = options.rhs_batch = axes;
        options.contract_count = 1, options.lhs_contract = &lhs_contract, options.rhs_contract = &rhs_contract;
        options.dtype = dtype;
        product = weft_dot_general(g, with_batch(g, a, rank, batch), with_batch(g, b, rank, batch), &options);
    }
    if (column) product = weft_squeeze(g, product, 1, &last);
    if (row) product = weft_squeeze(g, product, 1, column ? &last : &before_last);
    return product;
}

weft_value *weft_ragged_dot(weft_graph *g, weft_value *x, weft_value *w, weft_value *offsets, int64_t rhs_contract,
                            weft_dtype dtype) {
    weft_value *operands[3] = {x, w, offsets};
    if (weft_ops_absent_any(g, operands, 3)) return weft_value_poison(g);
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_rhs_contract, 1, &rhs_contract),
                                    weft_attr_dtype(WEFT_ATTR_dtype, dtype == WEFT_INVALID ? x->type.dtype : dtype)};
    return weft_build(g, WEFT_OP_ragged_dot, 3, operands, 2, attributes);
}

/* All axes but the last as one. */
static weft_value *as_rows(weft_graph *g, weft_value *x) {
    weft_dim rows = 1;
    for (int i = 0; i < x->type.rank - 1; i++) rows = weft_dim_multiply(g->dims, rows, x->type.dims[i]);
    return weft_reshape(g, x, 2, (weft_dim[]){rows, x->type.dims[x->type.rank - 1]});
}

weft_value *weft_scaled_dot(weft_graph *g, weft_value *a, weft_value *b, weft_value *scale_a, weft_value *scale_b,
                            const weft_scaled_dot_options *options) {
    weft_scaled_dot_options own = WEFT_SCALED_DOT_OPTIONS_INIT, *o = &own;
    weft_value *operands[4] = {a, b, scale_a, scale_b};
    if (weft_ops_absent_any(g, operands, 4)) return weft_value_poison(g);
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_SCALED_DOT_OPTIONS_INIT)))
        return weft_value_poison(g);
    int64_t block[3] = {o->block_m ? o->block_m : 1, o->block_n ? o->block_n : 128, o->block_k ? o->block_k : 128};
    weft_dtype dtype = o->dtype == WEFT_INVALID ? WEFT_BF16 : o->dtype;
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_block, 3, block), weft_attr_dtype(WEFT_ATTR_dtype, dtype)};
    int rank = a->type.rank;
    if (rank <= 2 || b->type.rank != 2 || block[0] != 1 || scale_a->type.rank != rank)
        return weft_build(g, WEFT_OP_scaled_dot, 4, operands, 2, attributes);
    operands[0] = as_rows(g, a), operands[2] = as_rows(g, scale_a);
    weft_value *product = weft_build(g, WEFT_OP_scaled_dot, 4, operands, 2, attributes);
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = i < rank - 1 ? a->type.dims[i] : b->type.dims[0];
    return weft_reshape(g, product, rank, dims);
}

weft_value *weft_attention(weft_graph *g, weft_value *q, weft_value *k, weft_value *v, weft_value *mask,
                           const weft_attention_options *options) {
    weft_attention_options own = WEFT_ATTENTION_OPTIONS_INIT, *o = &own;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_ATTENTION_OPTIONS_INIT))) return weft_value_poison(g);
    weft_value *operands[5] = {q, k, v, mask};
    bool drops = o->dropout != 0;
    int count = mask ? 4 : 3;
    if (drops) operands[count++] = o->dropout_key;
    weft_attribute attributes[6] = {weft_attr_float(WEFT_ATTR_scale, o->scale),
                                    weft_attr_int(WEFT_ATTR_causal, o->causal),
                                    weft_attr_float(WEFT_ATTR_soft_cap, o->soft_cap),
                                    weft_attr_int(WEFT_ATTR_window_left, o->window_left),
                                    weft_attr_int(WEFT_ATTR_window_right, o->window_right),
                                    weft_attr_float(WEFT_ATTR_dropout, o->dropout)};
    return weft_build(g, WEFT_OP_attention, count, operands, drops ? 6 : 5, attributes);
}

weft_value *weft_rope(weft_graph *g, weft_value *x, weft_value *cosine, weft_value *sine, bool interleaved) {
    weft_value *operands[3] = {x, cosine, sine};
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_interleaved, interleaved);
    return weft_build(g, WEFT_OP_rope, 3, operands, 1, &attribute);
}

weft_value *weft_fft(weft_graph *g, weft_value *x, int axis, bool inverse) {
    if (weft_ops_absent(g, &x)) return x;
    if (!weft_ops_axis(g, axis, x->type.rank, &axis)) return weft_value_poison(g);
    weft_attribute attributes[2] = {weft_attr_string(WEFT_ATTR_kind, inverse ? "inverse" : "forward"),
                                    weft_attr_int(WEFT_ATTR_axis, axis)};
    return weft_build(g, WEFT_OP_fft, 1, &x, 2, attributes);
}

weft_value *weft_cholesky(weft_graph *g, weft_value *x, bool lower) {
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_lower, lower);
    return weft_build(g, WEFT_OP_cholesky, 1, &x, 1, &attribute);
}

weft_value *weft_triangular_solve(weft_graph *g, weft_value *a, weft_value *b, bool left_side, bool lower,
                                  bool transpose_a, bool unit_diagonal) {
    weft_value *operands[2] = {a, b};
    weft_attribute attributes[4] = {
        weft_attr_int(WEFT_ATTR_left_side, left_side), weft_attr_int(WEFT_ATTR_lower, lower),
        weft_attr_int(WEFT_ATTR_transpose_a, transpose_a), weft_attr_int(WEFT_ATTR_unit_diagonal, unit_diagonal)};
    return weft_build(g, WEFT_OP_triangular_solve, 2, operands, 4, attributes);
}

static void two_results(weft_graph *g, weft_op op, weft_value *x, weft_value **out_first, weft_value **out_second) {
    const char *name = weft_op_get(op)->name;
    if (!weft_ops_results(g, name, 1, out_first) || !weft_ops_results(g, name, 1, out_second)) return;
    weft_node *node = weft_node_create(g, op, 1, &x, 0, NULL, 0, NULL);
    if (!node || node->result_count != 2) return;
    *out_first = weft_node_result(node, 0);
    *out_second = weft_node_result(node, 1);
}
void weft_qr(weft_graph *g, weft_value *x, weft_value **out_q, weft_value **out_r) {
    two_results(g, WEFT_OP_qr, x, out_q, out_r);
}
void weft_eigh(weft_graph *g, weft_value *x, weft_value **out_values, weft_value **out_vectors) {
    two_results(g, WEFT_OP_eigh, x, out_values, out_vectors);
}
