/* Elementwise operations and broadcasting. Invariant: ir nodes of this family get operands of one shape; the broadcast
   nodes are made here. Read next: shape.c. */
#include <math.h>

#include "frontend/ops/common.h"

bool weft_ops_absent(weft_graph *g, weft_value **value) {
    if (*value) return weft_value_is_poison(*value);
    weft_graph_problem(g, "an operand is missing");
    *value = weft_value_poison(g);
    return true;
}

bool weft_ops_absent_any(weft_graph *g, weft_value *const *values, int count) {
    if (!weft_ops_given(g, values, count, "the list of operands")) return true;
    bool absent = false;
    for (int i = 0; i < count; i++) {
        if (!values[i]) {
            weft_graph_problem(g, "operand %d is missing", i);
            return true;
        }
        absent |= weft_value_is_poison(values[i]);
    }
    return absent;
}

bool weft_ops_given(weft_graph *g, const void *array, int count, const char *what) {
    if (array || count <= 0) return true;
    weft_graph_problem(g, "%s is missing", what);
    return false;
}

bool weft_ops_results(weft_graph *g, const char *op, int count, weft_value **results) {
    if (count > 0 && !results) weft_graph_problem(g, "%s: the place for its results is missing", op);
    for (int i = 0; results && i < count; i++) results[i] = weft_value_poison(g);
    return count <= 0 || results;
}

bool weft_ops_axis(weft_graph *g, int64_t axis, int rank, int *out_axis) {
    if (axis < -rank || axis >= rank) {
        weft_graph_problem(g, "axis %lld is outside of a rank of %d", (long long)axis, rank);
        return false;
    }
    *out_axis = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool weft_ops_axes(weft_graph *g, int axis_count, const int64_t *axes, int rank, int *out_count, int64_t *out_axes) {
    bool seen[WEFT_MAX_RANK] = {false};
    if (axis_count > rank) {
        weft_graph_problem(g, "%d axes for a rank of %d", axis_count, rank);
        return false;
    }
    if (!weft_ops_given(g, axes, axis_count, "the list of axes")) return false;
    for (int i = 0; i < axis_count; i++) {
        int axis;
        if (!weft_ops_axis(g, axes[i], rank, &axis)) return false;
        if (seen[axis]) {
            weft_graph_problem(g, "axis %d appears twice", axis);
            return false;
        }
        seen[axis] = true;
    }
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (seen[i] || axis_count == 0) out_axes[count++] = i;
    *out_count = count;
    return true;
}

weft_dtype weft_ops_compute_dtype(weft_dtype dtype) {
    return weft_dtype_is_float(dtype) && weft_dtype_bits(dtype) < 32 ? WEFT_F32 : dtype;
}

bool weft_ops_broadcast_shapes(weft_graph *g, const weft_type *a, const weft_type *b, int *out_rank,
                               weft_dim *out_shape) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < rank; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        weft_dim da = ia < 0 ? 1 : a->dims[ia], db = ib < 0 ? 1 : b->dims[ib];
        if (da == 1)
            out_shape[i] = db;
        else if (db == 1 || da == db || weft_graph_assume_equal(g, da, db))
            out_shape[i] = weft_dim_is_number(db) && db != 1 ? db : da;
        else {
            weft_text text;
            weft_text_init(g->context->allocator, &text);
            weft_dim_print(g->dims, da, &text);
            weft_text_append(&text, " and ");
            weft_dim_print(g->dims, db, &text);
            weft_graph_problem(g, "cannot broadcast extents %s of axis %d: they differ and neither is 1",
                               weft_text_string(&text), i);
            weft_text_deinit(&text);
            return false;
        }
    }
    *out_rank = rank;
    return true;
}

static weft_value *unary(weft_graph *g, weft_op op, weft_value *x) { return weft_build(g, op, 1, &x, 0, NULL); }

weft_value *weft_abs(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_abs, x); }
weft_value *weft_neg(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_neg, x); }
weft_value *weft_sign(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_sign, x); }
weft_value *weft_ceil(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_ceil, x); }
weft_value *weft_floor(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_floor, x); }
weft_value *weft_round(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_round, x); }
weft_value *weft_exp(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_exp, x); }
weft_value *weft_expm1(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_expm1, x); }
weft_value *weft_log(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_log, x); }
weft_value *weft_log1p(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_log1p, x); }
weft_value *weft_sqrt(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_sqrt, x); }
weft_value *weft_rsqrt(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_rsqrt, x); }
weft_value *weft_sin(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_sin, x); }
weft_value *weft_cos(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_cos, x); }
weft_value *weft_tan(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_tan, x); }
weft_value *weft_asin(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_asin, x); }
weft_value *weft_acos(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_acos, x); }
weft_value *weft_atan(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_atan, x); }
weft_value *weft_sinh(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_sinh, x); }
weft_value *weft_cosh(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_cosh, x); }
weft_value *weft_asinh(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_asinh, x); }
weft_value *weft_acosh(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_acosh, x); }
weft_value *weft_atanh(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_atanh, x); }
weft_value *weft_tanh(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_tanh, x); }
weft_value *weft_logistic(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_logistic, x); }
weft_value *weft_erf(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_erf, x); }
weft_value *weft_not(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_not, x); }
weft_value *weft_popcount(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_popcount, x); }
weft_value *weft_is_nan(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_is_nan, x); }
weft_value *weft_is_finite(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_is_finite, x); }
weft_value *weft_real(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_real, x); }
weft_value *weft_imag(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_imag, x); }
weft_value *weft_silu(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_silu, x); }
weft_value *weft_softplus(weft_graph *g, weft_value *x) { return unary(g, WEFT_OP_softplus, x); }
weft_value *weft_optimization_barrier(weft_graph *g, weft_value *x) {
    return unary(g, WEFT_OP_optimization_barrier, x);
}

weft_value *weft_convert(weft_graph *g, weft_value *x, weft_dtype dtype) {
    if (weft_ops_absent(g, &x) || x->type.dtype == dtype) return x;
    weft_attribute attribute = weft_attr_dtype(WEFT_ATTR_dtype, dtype);
    return weft_build(g, WEFT_OP_convert, 1, &x, 1, &attribute);
}

weft_value *weft_convert_saturate(weft_graph *g, weft_value *x, weft_dtype dtype) {
    if (weft_ops_absent(g, &x) || x->type.dtype == dtype) return x;
    weft_attribute attributes[2] = {weft_attr_dtype(WEFT_ATTR_dtype, dtype), weft_attr_int(WEFT_ATTR_saturate, 1)};
    return weft_build(g, WEFT_OP_convert, 1, &x, 2, attributes);
}

weft_value *weft_bitcast(weft_graph *g, weft_value *x, weft_dtype dtype) {
    if (weft_ops_absent(g, &x) || x->type.dtype == dtype) return x;
    weft_attribute attribute = weft_attr_dtype(WEFT_ATTR_dtype, dtype);
    return weft_build(g, WEFT_OP_bitcast, 1, &x, 1, &attribute);
}

weft_value *weft_gelu(weft_graph *g, weft_value *x, bool approximate) {
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_approximate, approximate ? "tanh" : "none");
    return weft_build(g, WEFT_OP_gelu, 1, &x, 1, &attribute);
}

/* -- two operands */

static weft_value *binary_with(weft_graph *g, weft_op op, weft_value *a, weft_value *b, int attribute_count,
                               const weft_attribute *attributes) {
    weft_value *operands[2] = {a, b};
    if (weft_ops_absent_any(g, operands, 2)) return weft_value_poison(g);
    if (a->type.dtype != b->type.dtype) {
        weft_graph_problem(g, "%s of %s and %s: convert one of them first", weft_op_get(op)->name,
                           weft_dtype_name(a->type.dtype), weft_dtype_name(b->type.dtype));
        return weft_value_poison(g);
    }
    int rank;
    weft_dim shape[WEFT_MAX_RANK];
    if (!weft_ops_broadcast_shapes(g, &a->type, &b->type, &rank, shape)) return weft_value_poison(g);
    operands[0] = weft_broadcast_to(g, a, rank, shape);
    operands[1] = weft_broadcast_to(g, b, rank, shape);
    return weft_build(g, op, 2, operands, attribute_count, attributes);
}
static weft_value *binary(weft_graph *g, weft_op op, weft_value *a, weft_value *b) {
    return binary_with(g, op, a, b, 0, NULL);
}

weft_value *weft_add(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_add, a, b); }
weft_value *weft_sub(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_sub, a, b); }
weft_value *weft_mul(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_mul, a, b); }
weft_value *weft_div(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_div, a, b); }
weft_value *weft_rem(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_rem, a, b); }
weft_value *weft_pow(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_pow, a, b); }
weft_value *weft_max(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_max, a, b); }
weft_value *weft_min(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_min, a, b); }
weft_value *weft_atan2(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_atan2, a, b); }
weft_value *weft_and(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_and, a, b); }
weft_value *weft_or(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_or, a, b); }
weft_value *weft_xor(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_xor, a, b); }
weft_value *weft_shift_left(weft_graph *g, weft_value *a, weft_value *b) { return binary(g, WEFT_OP_shift_left, a, b); }
weft_value *weft_shift_right_logical(weft_graph *g, weft_value *a, weft_value *b) {
    return binary(g, WEFT_OP_shift_right_logical, a, b);
}
weft_value *weft_shift_right_arithmetic(weft_graph *g, weft_value *a, weft_value *b) {
    return binary(g, WEFT_OP_shift_right_arithmetic, a, b);
}
weft_value *weft_complex(weft_graph *g, weft_value *real, weft_value *imaginary) {
    return binary(g, WEFT_OP_complex, real, imaginary);
}

weft_value *weft_compare(weft_graph *g, weft_comparison direction, weft_value *a, weft_value *b) {
    static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    if ((int)direction < 0 || (size_t)direction >= sizeof names / sizeof *names) {
        weft_graph_problem(g, "compare: there is no comparison %d", (int)direction);
        return weft_value_poison(g);
    }
    weft_attribute attribute = weft_attr_string(WEFT_ATTR_direction, names[direction]);
    return binary_with(g, WEFT_OP_compare, a, b, 1, &attribute);
}

weft_value *weft_where(weft_graph *g, weft_value *condition, weft_value *a, weft_value *b) {
    weft_value *operands[3] = {condition, a, b};
    if (weft_ops_absent_any(g, operands, 3)) return weft_value_poison(g);
    int rank;
    weft_dim shape[WEFT_MAX_RANK];
    if (!weft_ops_broadcast_shapes(g, &a->type, &b->type, &rank, shape)) return weft_value_poison(g);
    weft_dim joint[WEFT_MAX_RANK];
    weft_type both = {.dtype = a->type.dtype, .rank = rank, .dims = shape};
    if (!weft_ops_broadcast_shapes(g, &condition->type, &both, &rank, joint)) return weft_value_poison(g);
    for (int i = 0; i < 3; i++) operands[i] = weft_broadcast_to(g, operands[i], rank, joint);
    return weft_build(g, WEFT_OP_select, 3, operands, 0, NULL);
}

/* -- numbers and compositions */

static weft_value *number_like(weft_graph *g, const weft_value *x, double value) {
    return !x || weft_value_is_poison(x) ? weft_value_poison(g) : weft_scalar(g, x->type.dtype, value);
}
weft_value *weft_add_number(weft_graph *g, weft_value *x, double value) {
    return weft_add(g, x, number_like(g, x, value));
}
weft_value *weft_mul_number(weft_graph *g, weft_value *x, double value) {
    return weft_mul(g, x, number_like(g, x, value));
}

weft_value *weft_mod(weft_graph *g, weft_value *a, weft_value *b) {
    /* the remainder moves by b where its sign is not b's */
    weft_value *remainder = weft_rem(g, a, b);
    if (weft_value_is_poison(remainder) || weft_dtype_kind_of(remainder->type.dtype) == WEFT_KIND_UNSIGNED)
        return remainder;
    weft_value *zero = number_like(g, remainder, 0);
    weft_value *differs = weft_xor(g, weft_compare(g, WEFT_LT, remainder, zero), weft_compare(g, WEFT_LT, b, zero));
    weft_value *moves = weft_and(g, differs, weft_compare(g, WEFT_NE, remainder, zero));
    return weft_where(g, moves, weft_add(g, remainder, b), remainder);
}

weft_value *weft_reciprocal(weft_graph *g, weft_value *x) { return weft_div(g, number_like(g, x, 1), x); }
weft_value *weft_square(weft_graph *g, weft_value *x) { return weft_mul(g, x, x); }
weft_value *weft_relu(weft_graph *g, weft_value *x) { return weft_max(g, x, number_like(g, x, 0)); }

weft_value *weft_leaky_relu(weft_graph *g, weft_value *x, double slope) {
    return weft_where(g, weft_compare(g, WEFT_GE, x, number_like(g, x, 0)), x, weft_mul_number(g, x, slope));
}

weft_value *weft_elu(weft_graph *g, weft_value *x, double alpha) {
    weft_value *negative = weft_mul_number(g, weft_expm1(g, x), alpha);
    return weft_where(g, weft_compare(g, WEFT_GT, x, number_like(g, x, 0)), x, negative);
}

weft_value *weft_clip(weft_graph *g, weft_value *x, double low, double high) {
    return weft_min(g, weft_max(g, x, number_like(g, x, low)), number_like(g, x, high));
}

weft_value *weft_hard_sigmoid(weft_graph *g, weft_value *x, double slope, double offset) {
    return weft_clip(g, weft_add_number(g, weft_mul_number(g, x, slope), offset), 0, 1);
}
