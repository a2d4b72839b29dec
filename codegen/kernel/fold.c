/* Folding rules: what scalar.c computes, where every target computes the same bits. NaN results stay instructions:
   their payload is the machine's business. Invariant: a fold never changes a bit of any result. Read next: build.c. */
#include "codegen/kernel/fold.h"

#include <math.h>

#include "codegen/kernel/build.h"
#include "codegen/kernel/scalar.h"

static bool is_f32_or_f64(weft_dtype elem) { return elem == WEFT_F32 || elem == WEFT_F64; }

const weft_kinstr *weft_kfold_constant(const weft_kernel *k, weft_kval value) {
    if (value < 0) return NULL;
    const weft_kinstr *instr = weft_kernel_get(k, value);
    return instr->op == WEFT_K_constant && instr->type.kind == WEFT_KIND_VALUE ? instr : NULL;
}

static weft_kval constant(weft_kernel *k, weft_ktype type, uint64_t value) {
    weft_dtype elem = (weft_dtype)type.elem;
    if (!weft_dtype_is_float(elem)) return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, (int64_t)value, 0);
    double number = weft_kscalar_decode(elem, value);
    return isnan(number) ? WEFT_KNONE : weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, 0, number);
}

static weft_kval integer(weft_kernel *k, weft_ktype type, int64_t value) {
    return constant(k, type, (uint64_t)weft_kscalar_wrap((weft_dtype)type.elem, value));
}

/* Whether every target rounds a float op as the lane does: approximations do not. */
static bool is_exact(weft_kop op) {
    switch ((int)op) {
    case WEFT_K_exp2_fast:
    case WEFT_K_log2_fast:
    case WEFT_K_rcp_fast:
    case WEFT_K_rsqrt_fast:
    case WEFT_K_tanh_fast: return false;
    default: return true;
    }
}

weft_kval weft_kfold_unary(weft_kernel *k, weft_kop op, weft_kval a) {
    const weft_kinstr *c = weft_kfold_constant(k, a);
    uint64_t value;
    if (!c || !is_exact(op) || weft_kscalar_unary(op, (weft_dtype)c->type.elem, weft_kscalar_constant(c), &value))
        return WEFT_KNONE;
    return constant(k, c->type, value);
}

static bool is_compare(weft_kop op) { return op == WEFT_K_eq || op == WEFT_K_ne || op == WEFT_K_lt || op == WEFT_K_le; }

static weft_kval fold_constants(weft_kernel *k, weft_kop op, const weft_kinstr *a, const weft_kinstr *b) {
    weft_dtype elem = (weft_dtype)a->type.elem;
    uint64_t x = weft_kscalar_constant(a), y = weft_kscalar_constant(b), value;
    if (is_compare(op))
        return constant(k, weft_kvector(WEFT_BOOL, a->type.lanes), weft_kscalar_compare(op, elem, x, y) ? 1 : 0);
    return weft_kscalar_binary(op, elem, x, y, &value) ? WEFT_KNONE : constant(k, a->type, value);
}

/* One constant operand c, the other x; `right`: c is operand 1. */
static weft_kval fold_integer_identity(weft_kernel *k, weft_kop op, weft_kval x, const weft_kinstr *c, bool right) {
    weft_ktype type = c->type;
    int64_t ones = weft_kscalar_wrap((weft_dtype)type.elem, -1);
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

weft_kval weft_kfold_convert(weft_kernel *k, weft_kval a, weft_dtype elem) {
    const weft_kinstr *c = weft_kfold_constant(k, a);
    if (!c || (weft_dtype_is_float(elem) && !is_f32_or_f64(elem))) return WEFT_KNONE;
    uint64_t value = weft_kscalar_convert((weft_dtype)c->type.elem, elem, weft_kscalar_constant(c));
    return constant(k, weft_kvector(elem, c->type.lanes), value);
}

weft_kval weft_kfold_bitcast(weft_kernel *k, weft_kval a, weft_dtype elem) {
    const weft_kinstr *c = weft_kfold_constant(k, a);
    if (!c || weft_dtype_bits(elem) != weft_dtype_bits((weft_dtype)c->type.elem)) return WEFT_KNONE;
    weft_dtype from = (weft_dtype)c->type.elem;
    if (weft_dtype_is_float(from) && isnan(c->f)) return WEFT_KNONE;
    if (weft_dtype_is_float(elem) && !is_f32_or_f64(elem)) return WEFT_KNONE;
    uint64_t raw = weft_kscalar_raw(from, weft_kscalar_constant(c));
    weft_ktype type = weft_kvector(elem, c->type.lanes);
    return weft_dtype_is_float(elem) ? constant(k, type, raw) : integer(k, type, (int64_t)raw);
}
