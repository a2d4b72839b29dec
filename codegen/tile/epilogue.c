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

/* -- 1 + erf(x), GELU and its derivative */

/* Is it f32 `number` everywhere? */
static bool is_number(const weft_value *value, double number) {
    while (value->node && (value->node->op == WEFT_OP_broadcast || value->node->op == WEFT_OP_reshape))
        value = value->node->operands[0];
    if (!value->node || value->node->op != WEFT_OP_constant) return false;
    const weft_tensor *tensor = weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    if (weft_tensor_dtype(tensor) != WEFT_F32 || weft_tensor_element_count(tensor) == 0) return false;
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++)
        if (weft_element_double(WEFT_F32, tensor->data, i) != (float)number) return false;
    return true;
}

/* The argument x of a node 1 + erf(x); NULL. */
static const weft_value *erf_argument(const weft_node *node) {
    if (!node || node->op != WEFT_OP_add || node->results[0].type.dtype != WEFT_F32) return NULL;
    for (int i = 0; i < 2; i++) {
        const weft_node *erf = node->operands[i]->node;
        if (erf && erf->op == WEFT_OP_erf && is_number(node->operands[1 - i], 1)) return erf->operands[0];
    }
    return NULL;
}

/* x of x times `factor`; NULL. */
static const weft_value *scaled(const weft_value *value, double factor) {
    const weft_node *node = value->node;
    if (!node || node->op != WEFT_OP_mul) return NULL;
    for (int i = 0; i < 2; i++)
        if (is_number(node->operands[1 - i], factor)) return node->operands[i];
    return NULL;
}

/* The other operand of a product or sum with `value`. */
static const weft_value *beside(const weft_node *node, const weft_value *value) {
    return node->operands[node->operands[0] == value ? 1 : 0];
}

/* Is it the density of the standard normal at x, exp(-(x / sqrt(2))^2) / sqrt(2 pi)? */
static bool is_density(const weft_value *value, const weft_value *x) {
    const weft_value *bell = scaled(value, 0.39894228040143267794);
    const weft_node *exp = bell ? bell->node : NULL,
                    *neg = exp && exp->op == WEFT_OP_exp ? exp->operands[0]->node : NULL,
                    *square = neg && neg->op == WEFT_OP_neg ? neg->operands[0]->node : NULL;
    return square && square->op == WEFT_OP_mul && square->operands[0] == square->operands[1] &&
           scaled(square->operands[0], 0.70710678118654752440) == x;
}

/* For a >= 0: log2 erfc(a) is smooth. Degree 6: erfc is right to 1.6e-5 of itself up to a = 3.6 and off by less than
   3e-12 beyond; at a = 9.2 its product with any x is below 1e-31. */
static const double log2_erfc[] = {2.412219200e-4,  -4.071727661e-3, 3.124885640e-2, -1.493216793e-1,
                                   -9.187606600e-1, -1.627746375,    -6.4e-6};
enum { ERFC_TERMS = sizeof log2_erfc / sizeof *log2_erfc };

/* factor * erfc(scale * min(|x|, 9.2 / scale)); *out_a: that minimum. */
static weft_kval complement(weft_kernel *k, weft_kval x, double scale, double log2_factor, int lanes,
                            weft_kval *out_a) {
    weft_kval operands[2] = {weft_k_unary(k, WEFT_K_abs, x),
                             weft_k_constant_lanes(k, WEFT_F32, 9.192388 / scale, lanes)};
    /* either of a NaN and the limit will do: the caller multiplies by x */
    weft_kval a = weft_kernel_emit(k, WEFT_K_min, weft_kvector(WEFT_F32, lanes), 2, operands, 1, 0), q = WEFT_KNONE;
    for (int i = 0; i < ERFC_TERMS; i++) {
        double c = log2_erfc[i];
        for (int power = ERFC_TERMS - 1 - i; power > 0; power--) c *= scale;
        weft_kval term = weft_k_constant_lanes(k, WEFT_F32, i == ERFC_TERMS - 1 ? c + log2_factor : c, lanes);
        q = i ? weft_k_fma(k, q, a, term) : term;
    }
    *out_a = a;
    return weft_k_unary(k, WEFT_K_exp2_fast, q);
}

/* 1 + erf(x) = erfc(-x): erfc(|x|) for negative x, else 2 - erfc(|x|). NaN passes where it is multiplied by x. */
static weft_kval one_plus_erf(weft_kernel *k, weft_kval x, int lanes) {
    weft_kval a, tail = complement(k, x, 1, 0, lanes, &a);
    return weft_k_select(k, weft_k_lt(k, x, weft_k_constant_lanes(k, WEFT_F32, 0, lanes)), tail,
                         weft_k_sub(k, weft_k_constant_lanes(k, WEFT_F32, 2, lanes), tail));
}

/* The standard normal's distribution at x, in parts that its users share. */
typedef struct normal {
    weft_kval x, a, tail; /* a: |x| or where it no longer matters; tail: the distribution at -a */
    int lanes;
} normal;

/* NaN is lost: users multiply by x, or ask for it. */
static weft_kval distribution_of(weft_kernel *k, const normal *n) {
    weft_kval zero = weft_k_constant_lanes(k, WEFT_F32, 0, n->lanes),
              one = weft_k_constant_lanes(k, WEFT_F32, 1, n->lanes);
    return weft_k_select(k, weft_k_lt(k, n->x, zero), n->tail, weft_k_sub(k, one, n->tail));
}

/* GELU: max(x, 0) - |x| tail. The maximum keeps NaN. */
static weft_kval gelu_of(weft_kernel *k, const normal *n) {
    weft_kval above = weft_k_binary(k, WEFT_K_max, n->x, weft_k_constant_lanes(k, WEFT_F32, 0, n->lanes)),
              positive = weft_k_select(k, weft_k_ne(k, n->x, n->x), n->x, above);
    return weft_k_fma(k, weft_k_unary(k, WEFT_K_neg, n->a), n->tail, positive);
}

/* Its derivative: distribution + x density, the density 2^(log2(1 / sqrt(2 pi)) - x^2 log2(e) / 2). */
static weft_kval slope_of(weft_kernel *k, const normal *n) {
    weft_kval power =
        weft_k_fma(k, weft_k_mul(k, n->x, n->x), weft_k_constant_lanes(k, WEFT_F32, -0.72134752044448170368, n->lanes),
                   weft_k_constant_lanes(k, WEFT_F32, -1.32574806473616104, n->lanes));
    return weft_k_fma(k, n->x, weft_k_unary(k, WEFT_K_exp2_fast, power), distribution_of(k, n));
}

/* Binds what users of `half`, the distribution at x, want: the derivative of GELU. Have all of them what they want? */
static bool bind_slopes(const weft_epilogue *e, const weft_value *half, const weft_value *x, const normal *n) {
    bool all = true;
    for (const weft_use *use = half->uses; use; use = use->next) {
        const weft_node *add = use->user, *product = add->op == WEFT_OP_add ? beside(add, half)->node : NULL;
        bool is = product && product->op == WEFT_OP_mul && (product->operands[0] == x || product->operands[1] == x) &&
                  is_density(beside(product, x), x);
        if (is) weft_index_bind(e->index, &add->results[0], slope_of(kernel_of(e), n));
        all &= is;
    }
    return all;
}

/* The same for users of `sum`, 1 + erf(x / sqrt(2)): GELU, x / 2 times it, and the distribution, half of it. */
static bool bind_users(const weft_epilogue *e, const weft_value *sum, const weft_value *x, const normal *n) {
    bool all = true;
    for (const weft_use *use = sum->uses; use; use = use->next) {
        const weft_node *product = use->user;
        bool gelu = product->op == WEFT_OP_mul && scaled(beside(product, sum), 0.5) == x,
             half = product->op == WEFT_OP_mul && !gelu && is_number(beside(product, sum), 0.5);
        if (gelu) weft_index_bind(e->index, &product->results[0], gelu_of(kernel_of(e), n));
        all &= gelu || (half && bind_slopes(e, &product->results[0], x, n));
    }
    return all;
}

/* Binds 1 + erf and what is made of it at this place. */
static void bind_normals(const weft_epilogue *e, const weft_lane_index *at, int lanes, weft_kval mask) {
    weft_kernel *k = kernel_of(e);
    for (const weft_node *node = weft_fusion_block(e->index->fusion)->first; node; node = node->next) {
        const weft_value *erf = erf_argument(node), *x = erf ? scaled(erf, 0.70710678118654752440) : NULL;
        if (!erf || node->results[0].type.rank != e->value->type.rank) continue;
        if (!x) {
            weft_index_bind(e->index, &node->results[0],
                            one_plus_erf(k, weft_index_value(e->index, erf, at, lanes, mask), lanes));
            continue;
        }
        normal n = {.x = weft_index_value(e->index, x, at, lanes, mask), .lanes = lanes};
        n.tail = complement(k, n.x, 0.70710678118654752440, -1, lanes, &n.a);
        if (bind_users(e, &node->results[0], x, &n)) continue;
        weft_kval half = distribution_of(k, &n);
        weft_index_bind(e->index, &node->results[0], weft_k_add(k, half, half));
    }
}

weft_kval weft_epilogue_value(const weft_epilogue *e, weft_kval sums, const weft_lane_index *at, int lanes,
                              weft_kval mask) {
    weft_index_bind(e->index, e->product, weft_index_round(e->index, e->product->type.dtype, sums));
    if (weft_dtype_bits(e->result) <= 16 && weft_dtype_is_float(e->result) && kernel_of(e)->capability->threads_max > 1)
        bind_normals(e, at, lanes, mask);
    return weft_index_value(e->index, e->value, at, lanes, mask);
}
