/* Folding rules. Integers fold always; F32 and F64 fold where one operation in double, rounded once more, is the exact
   IEEE result (true for + - * / of F32 operands: 53 >= 2 * 24 + 2). NaN results stay instructions: their payload is the
   machine's business. Invariant: a fold never changes a bit of any result.
   Read next: build.c. */
#include "codegen/kernel/fold.h"

#include <math.h>

#include "codegen/kernel/build.h"

static bool is_f32_or_f64(weft_dtype elem) { return elem == WEFT_F32 || elem == WEFT_F64; }

int64_t weft_kfold_wrap(weft_dtype elem, int64_t value) {
    if (elem == WEFT_BOOL) return value != 0;
    int bits = weft_dtype_bits(elem);
    if (bits <= 0 || bits >= 64) return value;
    uint64_t low = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
    bool negative = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED && (low >> (bits - 1) & 1);
    return (int64_t)(negative ? low | ~UINT64_C(0) << bits : low);
}

const weft_kinstr *weft_kfold_constant(const weft_kernel *k, weft_kval value) {
    if (value < 0) return NULL;
    const weft_kinstr *instr = weft_kernel_get(k, value);
    return instr->op == WEFT_K_constant && instr->type.kind == WEFT_KIND_VALUE ? instr : NULL;
}

static weft_kval integer(weft_kernel *k, weft_ktype type, int64_t value) {
    return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, weft_kfold_wrap((weft_dtype)type.elem, value), 0);
}

static weft_kval floating(weft_kernel *k, weft_ktype type, double value) {
    if (isnan(value)) return WEFT_KNONE;
    if (type.elem == WEFT_F32) value = (double)(float)value;
    return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, 0, value);
}

static weft_kval unary_integer(weft_kernel *k, weft_kop op, weft_ktype type, int64_t a) {
    int64_t bits = weft_kfold_wrap(WEFT_U64, a);
    if (op == WEFT_K_not) return integer(k, type, type.elem == WEFT_BOOL ? !a : ~a);
    if (op == WEFT_K_neg) return integer(k, type, (int64_t)(0 - (uint64_t)a));
    if (op == WEFT_K_abs)
        return integer(
            k, type,
            a < 0 && weft_dtype_kind_of((weft_dtype)type.elem) == WEFT_KIND_SIGNED ? (int64_t)(0 - (uint64_t)a) : a);
    if (op == WEFT_K_popcount) {
        int width = weft_dtype_bits((weft_dtype)type.elem);
        uint64_t mask = width < 64 ? (UINT64_C(1) << width) - 1 : ~UINT64_C(0);
        return integer(k, type, __builtin_popcountll((uint64_t)bits & mask));
    }
    return WEFT_KNONE;
}

weft_kval weft_kfold_unary(weft_kernel *k, weft_kop op, weft_kval a) {
    const weft_kinstr *instr = weft_kfold_constant(k, a);
    if (!instr) return WEFT_KNONE;
    weft_ktype type = instr->type;
    if (!weft_dtype_is_float((weft_dtype)type.elem)) return unary_integer(k, op, type, instr->i);
    if (!is_f32_or_f64((weft_dtype)type.elem)) return WEFT_KNONE;
    double x = instr->f;
    if (op == WEFT_K_neg) return floating(k, type, -x);
    if (op == WEFT_K_abs) return floating(k, type, fabs(x));
    if (op == WEFT_K_floor) return floating(k, type, floor(x));
    if (op == WEFT_K_ceil) return floating(k, type, ceil(x));
    if (op == WEFT_K_trunc) return floating(k, type, trunc(x));
    if (op == WEFT_K_sqrt) return floating(k, type, sqrt(x));
    return WEFT_KNONE;
}

/* a op b of two integer constants; false when the op has no meaning for them (division by zero, too far a shift). */
static bool evaluate_integer(weft_kop op, weft_dtype elem, int64_t a, int64_t b, int64_t *out) {
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    bool less = is_signed ? a < b : ua < ub;
    int bits = weft_dtype_bits(elem);
    bool division = op == WEFT_K_div || op == WEFT_K_rem, shift = op == WEFT_K_shl || op == WEFT_K_shr;
    if (division && (b == 0 || (is_signed && b == -1))) return false;
    if (shift && ub >= (uint64_t)bits) return false;
    switch ((int)op) {
    case WEFT_K_add: *out = (int64_t)(ua + ub); return elem != WEFT_BOOL;
    case WEFT_K_sub: *out = (int64_t)(ua - ub); return elem != WEFT_BOOL;
    case WEFT_K_mul: *out = (int64_t)(ua * ub); return elem != WEFT_BOOL;
    case WEFT_K_div: *out = is_signed ? a / b : (int64_t)(ua / ub); return true;
    case WEFT_K_rem: *out = is_signed ? a % b : (int64_t)(ua % ub); return true;
    case WEFT_K_min: *out = less ? a : b; return true;
    case WEFT_K_max: *out = less ? b : a; return true;
    case WEFT_K_and: *out = a & b; return true;
    case WEFT_K_or: *out = a | b; return true;
    case WEFT_K_xor: *out = a ^ b; return true;
    case WEFT_K_shl: *out = (int64_t)(ua << ub); return true;
    case WEFT_K_shr: *out = is_signed ? a >> b : (int64_t)(ua >> ub); return true;
    case WEFT_K_eq: *out = a == b; return true;
    case WEFT_K_ne: *out = a != b; return true;
    case WEFT_K_lt: *out = less; return true;
    case WEFT_K_le: *out = less || a == b; return true;
    default: return false;
    }
}

static bool evaluate_float(weft_kop op, double a, double b, double *out) {
    switch ((int)op) {
    case WEFT_K_add: *out = a + b; return true;
    case WEFT_K_sub: *out = a - b; return true;
    case WEFT_K_mul: *out = a * b; return true;
    case WEFT_K_div: *out = a / b; return true;
    case WEFT_K_min: *out = a < b ? a : b; return true;
    case WEFT_K_max: *out = a > b ? a : b; return true;
    default: return false;
    }
}

static bool is_compare(weft_kop op) { return op == WEFT_K_eq || op == WEFT_K_ne || op == WEFT_K_lt || op == WEFT_K_le; }

static weft_kval fold_constants(weft_kernel *k, weft_kop op, const weft_kinstr *a, const weft_kinstr *b) {
    weft_dtype elem = (weft_dtype)a->type.elem;
    weft_ktype type = is_compare(op) ? weft_kvector(WEFT_BOOL, a->type.lanes) : a->type;
    if (!weft_dtype_is_float(elem)) {
        int64_t value;
        return evaluate_integer(op, elem, a->i, b->i, &value) ? integer(k, type, value) : WEFT_KNONE;
    }
    if (is_compare(op)) {
        double x = a->f, y = b->f;
        bool truth = op == WEFT_K_eq ? x == y : op == WEFT_K_ne ? x != y : op == WEFT_K_lt ? x < y : x <= y;
        return integer(k, type, truth);
    }
    double value;
    return is_f32_or_f64(elem) && evaluate_float(op, a->f, b->f, &value) ? floating(k, type, value) : WEFT_KNONE;
}

/* One constant operand c, the other x; `right`: c is operand 1. */
static weft_kval fold_integer_identity(weft_kernel *k, weft_kop op, weft_kval x, const weft_kinstr *c, bool right) {
    weft_ktype type = c->type;
    int64_t ones = weft_kfold_wrap((weft_dtype)type.elem, -1);
    switch ((int)op) {
    case WEFT_K_add:
    case WEFT_K_or:
    case WEFT_K_xor:
        if (c->i == 0) return x;
        return op == WEFT_K_or && c->i == ones ? integer(k, type, ones) : WEFT_KNONE;
    case WEFT_K_sub:
    case WEFT_K_shl:
    case WEFT_K_shr: return right && c->i == 0 ? x : WEFT_KNONE;
    case WEFT_K_mul: return c->i == 1 ? x : c->i == 0 ? integer(k, type, 0) : WEFT_KNONE;
    case WEFT_K_div: return right && c->i == 1 ? x : WEFT_KNONE;
    case WEFT_K_rem: return right && c->i == 1 ? integer(k, type, 0) : WEFT_KNONE;
    case WEFT_K_and: return c->i == ones ? x : c->i == 0 ? integer(k, type, 0) : WEFT_KNONE;
    default: return WEFT_KNONE;
    }
}

static weft_kval fold_float_identity(weft_kop op, weft_kval x, const weft_kinstr *c, bool right) {
    if (op == WEFT_K_mul && c->f == 1) return x;
    if (op == WEFT_K_div && right && c->f == 1) return x;
    if (op == WEFT_K_add && c->f == 0 && signbit(c->f)) return x; /* x + -0 = x; -0 + +0 = +0 is no identity */
    if (op == WEFT_K_sub && right && c->f == 0 && !signbit(c->f)) return x;
    return WEFT_KNONE;
}

/* x op x for integers. */
static weft_kval fold_same(weft_kernel *k, weft_kop op, weft_kval x) {
    weft_ktype type = weft_ktype_of(k, x), truth = weft_kvector(WEFT_BOOL, type.lanes);
    switch ((int)op) {
    case WEFT_K_and:
    case WEFT_K_or:
    case WEFT_K_min:
    case WEFT_K_max: return x;
    case WEFT_K_sub:
    case WEFT_K_xor: return integer(k, type, 0);
    case WEFT_K_eq:
    case WEFT_K_le: return integer(k, truth, 1);
    case WEFT_K_ne:
    case WEFT_K_lt: return integer(k, truth, 0);
    default: return WEFT_KNONE;
    }
}

weft_kval weft_kfold_binary(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b) {
    const weft_kinstr *ca = weft_kfold_constant(k, a), *cb = weft_kfold_constant(k, b);
    weft_dtype elem = (weft_dtype)weft_ktype_of(k, a).elem;
    if (elem != weft_ktype_of(k, b).elem) return WEFT_KNONE; /* the verifier's to report */
    if (ca && cb) return fold_constants(k, op, ca, cb);
    bool is_float = weft_dtype_is_float(elem);
    if (a == b && !is_float) return fold_same(k, op, a);
    if (!ca && !cb) return WEFT_KNONE;
    weft_kval x = ca ? b : a;
    const weft_kinstr *c = ca ? ca : cb;
    return is_float ? fold_float_identity(op, x, c, !ca) : fold_integer_identity(k, op, x, c, !ca);
}

static int64_t saturate(weft_dtype elem, double value) {
    int bits = weft_dtype_bits(elem);
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits);
    if (isnan(value)) return 0;
    value = trunc(value);
    if (value < low) return is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
    if (value >= high) return (int64_t)(UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0)));
    return is_signed ? (int64_t)value : (int64_t)(uint64_t)value;
}

weft_kval weft_kfold_convert(weft_kernel *k, weft_kval a, weft_dtype elem) {
    const weft_kinstr *c = weft_kfold_constant(k, a);
    if (!c) return WEFT_KNONE;
    weft_dtype from = (weft_dtype)c->type.elem;
    weft_ktype type = weft_kvector(elem, c->type.lanes);
    if (weft_dtype_is_float(from)) {
        if (elem == WEFT_BOOL) return integer(k, type, c->f != 0);
        if (weft_dtype_is_integer(elem)) return integer(k, type, saturate(elem, c->f));
        return is_f32_or_f64(elem) ? floating(k, type, c->f) : WEFT_KNONE;
    }
    if (!weft_dtype_is_float(elem)) return integer(k, type, c->i);
    bool is_unsigned = weft_dtype_kind_of(from) == WEFT_KIND_UNSIGNED;
    if (elem == WEFT_F32) return floating(k, type, (double)(is_unsigned ? (float)(uint64_t)c->i : (float)c->i));
    if (elem == WEFT_F64) return floating(k, type, is_unsigned ? (double)(uint64_t)c->i : (double)c->i);
    return WEFT_KNONE;
}

weft_kval weft_kfold_bitcast(weft_kernel *k, weft_kval a, weft_dtype elem) {
    const weft_kinstr *c = weft_kfold_constant(k, a);
    if (!c || weft_dtype_bits(elem) != weft_dtype_bits((weft_dtype)c->type.elem)) return WEFT_KNONE;
    weft_ktype type = weft_kvector(elem, c->type.lanes);
    bool from_float = weft_dtype_is_float((weft_dtype)c->type.elem);
    if (from_float && isnan(c->f)) return WEFT_KNONE;
    uint64_t bits = from_float ? weft_float_encode((weft_dtype)c->type.elem, c->f, false) : (uint64_t)c->i;
    if (weft_dtype_is_integer(elem)) return integer(k, type, (int64_t)bits);
    if (!is_f32_or_f64(elem)) return WEFT_KNONE;
    return floating(k, type, weft_float_decode(elem, elem == WEFT_F32 ? bits & UINT32_MAX : bits));
}
