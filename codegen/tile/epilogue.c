/* See epilogue.h. */
#include "codegen/tile/epilogue.h"

#include "base/dtype.h"
#include "base/tensor.h"

static weft_kernel *kernel_of(const weft_epilogue *e) { return e->index->kernel; }

weft_epilogue weft_epilogue_create(weft_index_context *index, const weft_value *product, weft_dim m, weft_dim n,
                                   weft_dim batch, int result) {
    const weft_value *yield = weft_fusion_yield(index->fusion, result);
    const weft_node *node = yield->node;
    weft_epilogue e = {.index = index,
                       .product = product,
                       .value = yield,
                       .result = yield->type.dtype,
                       .m = m,
                       .n = n,
                       .batch = batch};
    if (node && node->op == WEFT_OP_convert && node->operands[0]->type.dtype == WEFT_F32) e.value = node->operands[0];
    return e;
}

weft_epilogue_row weft_epilogue_place_row(const weft_epilogue *e, weft_kval batch, weft_kval row) {
    weft_kernel *k = kernel_of(e);
    const weft_type *type = &e->value->type;
    weft_epilogue_row out = {.line = e->batch == 1 ? row
                                                   : weft_k_add(k, weft_k_mul(k, batch, weft_k_extent(k, e->m)), row)};
    out.split = type->rank >= 2 && weft_dim_known_equal(k->dims, type->dims[type->rank - 1], e->n);
    if (out.split && type->rank == 2)
        out.index[0] = weft_lane_scalar(out.line);
    else if (out.split)
        weft_index_unflatten(e->index, type->rank - 1, type->dims, weft_lane_scalar(out.line), 1, out.index);
    return out;
}

void weft_epilogue_at(const weft_epilogue *e, const weft_epilogue_row *row, weft_lane_index column, int lanes,
                      weft_lane_index *out_index) {
    weft_kernel *k = kernel_of(e);
    const weft_type *type = &e->value->type;
    if (row->split) {
        for (int i = 0; i < type->rank - 1; i++) out_index[i] = row->index[i];
        out_index[type->rank - 1] = column;
        return;
    }
    weft_lane_index flat = {weft_k_add(k, weft_k_mul(k, row->line, weft_k_extent(k, e->n)), column.base), 1, 1};
    weft_index_unflatten(e->index, type->rank, type->dims, flat, lanes, out_index);
}

/* Which axes of its result a broadcast reads: bit 0 some before the last, bit 1 the last. 0 = not to be hoisted. */
static int axes_read(const weft_epilogue *e, const weft_node *node) {
    const weft_type *to = &node->results[0].type, *from = weft_operand_type(node, 0);
    if (to->rank != e->value->type.rank) return 0;
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    int read = 0;
    for (int i = 0; i < to->rank; i++)
        if (to->dims[i] != e->value->type.dims[i]) return 0;
    for (int i = 0; i < axes->count; i++) {
        if (from->dims[i] != to->dims[axes->as.ints[i]]) return 0; /* stretched */
        read |= axes->as.ints[i] == to->rank - 1 ? 2 : 1;
    }
    return read;
}

static bool depends_on(const weft_value *value, const weft_value *product, int depth) {
    if (value == product) return true;
    if (!value->node || depth == 0) return value->node != NULL;
    for (int i = 0; i < value->node->operand_count; i++)
        if (depends_on(value->node->operands[i], product, depth - 1)) return true;
    return false;
}

void weft_epilogue_hoist(const weft_epilogue *e, const weft_lane_index *at, int lanes, weft_kval mask, bool columns) {
    for (const weft_node *node = weft_fusion_block(e->index->fusion)->first; node; node = node->next) {
        if (node->op != WEFT_OP_broadcast || axes_read(e, node) != (columns ? 2 : 1) ||
            depends_on(node->operands[0], e->product, 6))
            continue;
        const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
        weft_lane_index own[WEFT_MAX_RANK];
        for (int i = 0; i < axes->count; i++) own[i] = at[axes->as.ints[i]];
        (void)weft_index_value(e->index, node->operands[0], own, lanes, mask);
    }
}

/* -- 1 + erf(x) */

static bool is_one(const weft_value *value) {
    while (value->node && (value->node->op == WEFT_OP_broadcast || value->node->op == WEFT_OP_reshape))
        value = value->node->operands[0];
    if (!value->node || value->node->op != WEFT_OP_constant) return false;
    const weft_tensor *tensor = weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    if (weft_tensor_dtype(tensor) != WEFT_F32 || weft_tensor_element_count(tensor) == 0) return false;
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++)
        if (weft_element_double(WEFT_F32, tensor->data, i) != 1) return false;
    return true;
}

/* The argument x of a node 1 + erf(x); NULL. */
static const weft_value *erf_argument(const weft_node *node) {
    if (node->op != WEFT_OP_add || node->results[0].type.dtype != WEFT_F32) return NULL;
    for (int i = 0; i < 2; i++) {
        const weft_node *erf = node->operands[i]->node;
        if (erf && erf->op == WEFT_OP_erf && is_one(node->operands[1 - i])) return erf->operands[0];
    }
    return NULL;
}

/* 1 + erf(x) = erfc(-x). For a = |x|: erfc(a) = 2^q(a), log2 erfc is smooth: degree 6, relative error 1.6e-5 up to a
   = 9.2, beyond which the product with x is below any 16-bit number. Negative x: erfc(a), else 2 - erfc(a). NaN passes.
 */
static weft_kval one_plus_erf(weft_kernel *k, weft_kval x, int lanes) {
    static const double c[] = {2.412219200e-4,  -4.071727661e-3, 3.124885640e-2, -1.493216793e-1,
                               -9.187606600e-1, -1.627746375,    -6.4e-6};
    weft_kval operands[2] = {weft_k_unary(k, WEFT_K_abs, x), weft_k_constant_lanes(k, WEFT_F32, 9.192388, lanes)};
    weft_kval a = weft_kernel_emit(k, WEFT_K_min, weft_kvector(WEFT_F32, lanes), 2, operands, 0,
                                   0); /* NaN < limit is false: takes the limit */
    weft_kval q = weft_k_constant_lanes(k, WEFT_F32, c[0], lanes);
    for (int i = 1; i < 7; i++) q = weft_k_fma(k, q, a, weft_k_constant_lanes(k, WEFT_F32, c[i], lanes));
    weft_kval tail = weft_k_unary(k, WEFT_K_exp2_fast, q);
    return weft_k_select(k, weft_k_lt(k, x, weft_k_constant_lanes(k, WEFT_F32, 0, lanes)), tail,
                         weft_k_sub(k, weft_k_constant_lanes(k, WEFT_F32, 2, lanes), tail));
}

weft_kval weft_epilogue_value(const weft_epilogue *e, weft_kval sums, const weft_lane_index *at, int lanes,
                              weft_kval mask) {
    weft_kernel *k = kernel_of(e);
    weft_index_bind(e->index, e->product, weft_index_round(e->index, e->product->type.dtype, sums));
    bool narrow = weft_dtype_bits(e->result) <= 16 && weft_dtype_is_float(e->result) && k->capability->threads_max > 1;
    for (const weft_node *node = weft_fusion_block(e->index->fusion)->first; narrow && node; node = node->next) {
        const weft_value *x = erf_argument(node);
        if (x && node->results[0].type.rank == e->value->type.rank)
            weft_index_bind(e->index, &node->results[0],
                            one_plus_erf(k, weft_index_value(e->index, x, at, lanes, mask), lanes));
    }
    return weft_index_value(e->index, e->value, at, lanes, mask);
}
