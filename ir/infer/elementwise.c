/* Result types of elementwise ops: equal shapes in, the same shape out. */
#include "ir/infer/check.h"

#include <string.h>

static int unary_dtypes(weft_op op) {
    if (op == WEFT_OP_abs || op == WEFT_OP_sign) return WEFT_ALLOW_NUMBER;
    if (op == WEFT_OP_neg) return WEFT_ALLOW_NUMBER | WEFT_ALLOW_COMPLEX;
    if (op == WEFT_OP_not) return WEFT_ALLOW_BOOL | WEFT_ALLOW_INTEGER;
    if (op == WEFT_OP_popcount) return WEFT_ALLOW_INTEGER;
    return WEFT_ALLOW_FLOAT;
}

bool weft_infer_unary(weft_infer *infer) {
    return weft_infer_dtype(infer, 0, unary_dtypes(infer->node->op)) &&
           weft_infer_emit_type(infer, weft_infer_operand(infer, 0));
}

bool weft_infer_predicate(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    return weft_infer_dtype(infer, 0, WEFT_ALLOW_FLOAT) && weft_infer_emit(infer, WEFT_BOOL, x->rank, x->dims);
}

static int binary_dtypes(weft_op op) {
    if (op == WEFT_OP_add || op == WEFT_OP_sub || op == WEFT_OP_mul || op == WEFT_OP_div)
        return WEFT_ALLOW_NUMBER | WEFT_ALLOW_COMPLEX;
    if (op == WEFT_OP_rem || op == WEFT_OP_pow || op == WEFT_OP_max || op == WEFT_OP_min) return WEFT_ALLOW_NUMBER;
    if (op == WEFT_OP_atan2) return WEFT_ALLOW_FLOAT;
    if (op == WEFT_OP_and || op == WEFT_OP_or || op == WEFT_OP_xor) return WEFT_ALLOW_BOOL | WEFT_ALLOW_INTEGER;
    return WEFT_ALLOW_INTEGER;
}

bool weft_infer_binary(weft_infer *infer) {
    return weft_infer_dtype(infer, 0, binary_dtypes(infer->node->op)) && weft_infer_same_type(infer, 0, 1) &&
           weft_infer_emit_type(infer, weft_infer_operand(infer, 0));
}

bool weft_infer_compare(weft_infer *infer) {
    if (!weft_infer_word(infer, WEFT_ATTR_direction, "eq ne lt le gt ge")) return false;
    const char *direction = weft_infer_attribute(infer, WEFT_ATTR_direction)->as.string;
    bool equality = strcmp(direction, "eq") == 0 || strcmp(direction, "ne") == 0;
    const weft_type *x = weft_infer_operand(infer, 0);
    return weft_infer_dtype(infer, 0, equality ? WEFT_ALLOW_ANY : WEFT_ALLOW_ANY & ~WEFT_ALLOW_COMPLEX) &&
           weft_infer_same_type(infer, 0, 1) && weft_infer_emit(infer, WEFT_BOOL, x->rank, x->dims);
}

bool weft_infer_select(weft_infer *infer) {
    return weft_infer_dtype(infer, 0, WEFT_ALLOW_BOOL) && weft_infer_dtype(infer, 1, WEFT_ALLOW_ANY) &&
           weft_infer_same_shape(infer, 1, 0) && weft_infer_same_type(infer, 1, 2) &&
           weft_infer_emit_type(infer, weft_infer_operand(infer, 1));
}

bool weft_infer_convert(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    weft_dtype to = weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype;
    int allowed = weft_dtype_allowed(x->dtype, WEFT_ALLOW_COMPLEX) ? WEFT_ALLOW_COMPLEX : WEFT_ALLOW_ANY;
    if (!weft_infer_dtype(infer, 0, WEFT_ALLOW_ANY)) return false;
    if (!weft_dtype_allowed(to, allowed))
        return weft_infer_fail(infer, "%s to %s is not defined", weft_dtype_name(x->dtype), weft_dtype_name(to));
    if (weft_infer_attribute(infer, WEFT_ATTR_saturate) && !weft_infer_flag(infer, WEFT_ATTR_saturate)) return false;
    return weft_infer_emit(infer, to, x->rank, x->dims);
}

bool weft_infer_bitcast(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    weft_dtype to = weft_infer_attribute(infer, WEFT_ATTR_dtype)->as.dtype;
    int allowed = WEFT_ALLOW_NUMBER | WEFT_ALLOW_COMPLEX;
    if (!weft_infer_dtype(infer, 0, allowed)) return false;
    if (!weft_dtype_allowed(to, allowed) || weft_dtype_bits(to) != weft_dtype_bits(x->dtype))
        return weft_infer_fail(infer, "%s to %s: the widths differ or the type has no bits of its own",
                               weft_dtype_name(x->dtype), weft_dtype_name(to));
    return weft_infer_emit(infer, to, x->rank, x->dims);
}

/* c64 is made of f32 pairs, c128 of f64 pairs. */
bool weft_infer_complex(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    if (x->dtype != WEFT_F32 && x->dtype != WEFT_F64)
        return weft_infer_fail(infer, "operand 0 is %s; it takes f32 or f64", weft_dtype_name(x->dtype));
    return weft_infer_same_type(infer, 0, 1) &&
           weft_infer_emit(infer, x->dtype == WEFT_F32 ? WEFT_C64 : WEFT_C128, x->rank, x->dims);
}

bool weft_infer_real(weft_infer *infer) {
    const weft_type *x = weft_infer_operand(infer, 0);
    return weft_infer_dtype(infer, 0, WEFT_ALLOW_COMPLEX) &&
           weft_infer_emit(infer, x->dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64, x->rank, x->dims);
}
