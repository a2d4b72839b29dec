/* See subnormal.h. Invariant: no instruction made here reads or gives an f32 that is 2^-127 or -2^-127 but for moves
   and bitcasts; scaling is by powers of two and exact. Read next: narrow.c. */
#include "codegen/kernel/subnormal.h"

#include "codegen/kernel/build.h"

enum { LEAST = 0x00400000, SIGN = INT32_MIN, MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000 };
enum { LIFTED = (127 - 95) << 23, SMALL = (127 - 64) << 23, MANTISSA = 0x7fffff }; /* bits of 2^-95, 2^-64 */
static const double up = 0x1p32, down = 0x1p-32;

static weft_kval i32(weft_kernel *k, int64_t value) { return weft_k_integer(k, WEFT_I32, value); }
static weft_kval bits_of(weft_kernel *k, weft_kval x) { return weft_k_bitcast(k, x, WEFT_I32); }
static weft_kval float_of(weft_kernel *k, weft_kval bits) { return weft_k_bitcast(k, bits, WEFT_F32); }
static weft_kval magnitude(weft_kernel *k, weft_kval x) { return weft_k_and(k, bits_of(k, x), i32(k, MAGNITUDE)); }
static weft_kval is_least(weft_kernel *k, weft_kval x) { return weft_k_eq(k, magnitude(k, x), i32(k, LEAST)); }
static weft_kval is_below(weft_kernel *k, weft_kval x, int64_t bits) {
    return weft_k_lt(k, magnitude(k, x), i32(k, bits));
}
static weft_kval scaled(weft_kernel *k, weft_kval x, double by) {
    return weft_k_mul(k, x, weft_k_float(k, WEFT_F32, by));
}

/* A number of x's sign whose magnitude has these bits. */
static weft_kval signed_as(weft_kernel *k, weft_kval x, weft_kval bits) {
    return float_of(k, weft_k_or(k, weft_k_and(k, bits_of(k, x), i32(k, SIGN)), bits));
}

/* 2^-95 in place of 2^-127, all else as it is. */
static weft_kval normal(weft_kernel *k, weft_kval x) {
    return weft_k_select(k, is_least(k, x), signed_as(k, x, i32(k, LIFTED)), x);
}
/* 2^32 x and 2^-32 x, right for 2^-127 too and, lowered, up to 2^-126, where numbers are rounded to one or the other.
 */
static weft_kval lifted(weft_kernel *k, weft_kval x) {
    return weft_k_select(k, is_least(k, x), signed_as(k, x, i32(k, LIFTED)), scaled(k, x, up));
}
static weft_kval lowered(weft_kernel *k, weft_kval x) {
    weft_kval bits = magnitude(k, x), mantissa = weft_k_and(k, bits, i32(k, MANTISSA));
    weft_kval low = weft_k_eq(k, weft_k_xor(k, bits, mantissa), i32(k, LIFTED));
    weft_kval half = weft_k_binary(k, WEFT_K_shr, mantissa, i32(k, 1));
    return weft_k_select(k, low, signed_as(k, x, weft_k_or(k, half, i32(k, LEAST))), scaled(k, x, down));
}

static weft_kval lowered_if(weft_kernel *k, weft_kval condition, weft_kval x) {
    return weft_k_select(k, condition, lowered(k, x), x);
}

/* Beside a number that is not small 2^-127 is nothing. */
static weft_kval sum(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b) {
    weft_kval small = weft_k_and(k, is_below(k, a, SMALL), is_below(k, b, SMALL));
    weft_kval exact = lowered(k, weft_k_binary(k, op, lifted(k, a), lifted(k, b)));
    return weft_k_select(k, small, exact, weft_k_binary(k, op, a, b));
}

static weft_kval product(weft_kernel *k, weft_kval a, weft_kval b) {
    weft_kval r = lowered_if(k, is_least(k, a), weft_k_mul(k, normal(k, a), normal(k, b)));
    return lowered_if(k, is_least(k, b), r);
}

static weft_kval quotient(weft_kernel *k, weft_kval a, weft_kval b) {
    weft_kval r = weft_k_div(k, normal(k, a), normal(k, b)), by_least = is_least(k, b);
    weft_kval lower = weft_k_and(k, is_least(k, a), weft_k_unary(k, WEFT_K_not, by_least));
    weft_kval raise = weft_k_and(k, by_least, weft_k_unary(k, WEFT_K_not, is_least(k, a)));
    return weft_k_select(k, raise, scaled(k, r, up), lowered_if(k, lower, r));
}

/* Where c is not small a product with 2^-127 is nothing beside it; where a is not, 2^-127 is nothing beside a b. */
static weft_kval fused(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c, int64_t number) {
    weft_kval least_b = is_least(k, b), least_c = is_least(k, c);
    weft_kval some = weft_k_or(k, is_least(k, a), weft_k_or(k, least_b, least_c));
    weft_kval fits =
        weft_k_and(k, is_below(k, c, SMALL), weft_k_or(k, weft_k_unary(k, WEFT_K_not, least_c), is_below(k, a, SMALL)));
    weft_kval x[3] = {weft_k_select(k, least_b, a, lifted(k, a)), normal(k, b), lifted(k, c)}, plain[3] = {a, b, c};
    weft_ktype type = weft_ktype_of(k, a);
    weft_kval exact = lowered(k, weft_kernel_emit(k, WEFT_K_fma, type, 3, x, number, 0));
    return weft_k_select(k, weft_k_and(k, some, fits), exact,
                         weft_kernel_emit(k, WEFT_K_fma, type, 3, plain, number, 0));
}

/* Integers in the order of the numbers; both zeros are 0. */
static weft_kval key(weft_kernel *k, weft_kval x) {
    weft_kval sign = weft_k_binary(k, WEFT_K_shr, bits_of(k, x), i32(k, 31));
    return weft_k_sub(k, weft_k_xor(k, magnitude(k, x), sign), sign);
}

static weft_kval comparison(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b) {
    weft_kval number =
        weft_k_and(k, weft_k_le(k, magnitude(k, a), i32(k, INFINITE)), weft_k_le(k, magnitude(k, b), i32(k, INFINITE)));
    weft_kval r = weft_k_binary(k, op, key(k, a), key(k, b));
    if (op == WEFT_K_ne) return weft_k_or(k, r, weft_k_unary(k, WEFT_K_not, number));
    return weft_k_and(k, r, number);
}

static weft_kval extreme(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b) {
    bool min = op == WEFT_K_min;
    return weft_k_select(k, comparison(k, WEFT_K_lt, min ? a : b, min ? b : a), a, b);
}

static weft_kval root(weft_kernel *k, weft_kval x) {
    weft_kval r = weft_k_unary(k, WEFT_K_sqrt, normal(k, x));
    return weft_k_select(k, is_least(k, x), scaled(k, r, 0x1p-16), r);
}

static weft_kval converted(weft_kernel *k, weft_ktype type, weft_kval x) {
    if (type.elem == WEFT_BOOL) return weft_k_ne(k, magnitude(k, x), i32(k, 0));
    return weft_k_convert(k, x, (weft_dtype)type.elem); /* 0, or bits as they are */
}

/* By halves, as the row says. */
static weft_kval reduced(weft_kernel *k, weft_kop op, weft_kval vector) {
    static const weft_kop ops[] = {WEFT_K_add, WEFT_K_mul, WEFT_K_min, WEFT_K_max};
    enum { LANES_MAX = 256 };
    weft_kval lane[LANES_MAX] = {WEFT_KNONE};
    int lanes = weft_ktype_of(k, vector).lanes;
    const weft_kop one = ops[op - WEFT_K_reduce_add];
    weft_ktype type = weft_kvector(WEFT_F32, 1);
    for (int i = 0; i < lanes && i < LANES_MAX; i++) lane[i] = weft_k_extract(k, vector, i);
    for (; lanes > 1; lanes /= 2) {
        int half = lanes / 2;
        for (int i = 0; i < half; i++)
            lane[i] = weft_k_with_least(k, one, type, 0, (weft_kval[]){lane[i], lane[i + half]});
        if (lanes % 2) lane[0] = weft_k_with_least(k, one, type, 0, (weft_kval[]){lane[0], lane[lanes - 1]});
    }
    return lane[0];
}

weft_kval weft_k_with_least(weft_kernel *k, weft_kop op, weft_ktype type, int64_t number, const weft_kval *x) {
    switch ((int)op) {
    case WEFT_K_add:
    case WEFT_K_sub: return sum(k, op, x[0], x[1]);
    case WEFT_K_mul: return product(k, x[0], x[1]);
    case WEFT_K_div: return quotient(k, x[0], x[1]);
    case WEFT_K_fma: return fused(k, x[0], x[1], x[2], number);
    case WEFT_K_min:
    case WEFT_K_max: return extreme(k, op, x[0], x[1]);
    case WEFT_K_eq:
    case WEFT_K_ne:
    case WEFT_K_lt:
    case WEFT_K_le: return comparison(k, op, x[0], x[1]);
    case WEFT_K_neg: return float_of(k, weft_k_xor(k, bits_of(k, x[0]), i32(k, SIGN)));
    case WEFT_K_abs: return float_of(k, magnitude(k, x[0]));
    case WEFT_K_copysign:
        return float_of(k, weft_k_or(k, magnitude(k, x[0]), weft_k_and(k, bits_of(k, x[1]), i32(k, SIGN))));
    case WEFT_K_sqrt: return root(k, x[0]);
    case WEFT_K_floor:
    case WEFT_K_ceil:
    case WEFT_K_trunc:
    case WEFT_K_round:
    case WEFT_K_exp2_fast:
    case WEFT_K_tanh_fast: return weft_k_unary(k, op, normal(k, x[0])); /* 2^-95 is as small */
    case WEFT_K_convert: return converted(k, type, x[0]);
    case WEFT_K_reduce_add:
    case WEFT_K_reduce_mul:
    case WEFT_K_reduce_min:
    case WEFT_K_reduce_max: return reduced(k, op, x[0]);
    default: return WEFT_KNONE;
    }
}

bool weft_kernel_may_be_least(const weft_kernel *kernel, const weft_kinstr *instr, const bool *least) {
    bool some = false;
    if (instr->type.kind == WEFT_KIND_VOID || instr->type.elem != WEFT_F32) return false;
    for (int i = 0; i < instr->operand_count; i++) some |= least[i];
    switch ((int)instr->op) {
    case WEFT_K_constant:
    case WEFT_K_iota: return false;
    case WEFT_K_load:
    case WEFT_K_var:
    case WEFT_K_regs:
    case WEFT_K_get:
    case WEFT_K_parameter:
    case WEFT_K_call:
    case WEFT_K_atomic: return true; /* nobody followed what went in */
    case WEFT_K_convert: return weft_ktype_of(kernel, weft_koperand(kernel, instr, 0)).elem == WEFT_F8E8M0FNU;
    case WEFT_K_select:
    case WEFT_K_splat:
    case WEFT_K_extract:
    case WEFT_K_insert:
    case WEFT_K_deal:
    case WEFT_K_zip:
    case WEFT_K_shuffle_xor:
    case WEFT_K_min:
    case WEFT_K_max:
    case WEFT_K_neg:
    case WEFT_K_abs:
    case WEFT_K_copysign:
    case WEFT_K_reduce_min:
    case WEFT_K_reduce_max: return some;
    default: return false;
    }
}
