/* See subnormal.h. Invariant: no instruction made here reads or gives an f32 that is subnormal but for moves and
   bitcasts; scaling is by powers of two and exact, rounding to a subnormal happens once, in integers. Read next:
   narrow.c. */
#include "codegen/kernel/subnormal.h"

#include "codegen/kernel/build.h"

enum { SIGN = INT32_MIN, MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000, NORMAL = 0x00800000 };
/* bits of 2^-94, 2^32 times the least normal number; of what small means in sums and products */
enum { LOW = (127 - 94) << 23, SMALL = (127 - 62) << 23, FACTOR = (127 - 40) << 23 };
static const double up = 0x1p32, down = 0x1p-32, unit = 0x1p-117 /* 2^32 times the least subnormal */;

static weft_kval i32(weft_kernel *k, int64_t value) { return weft_k_integer(k, WEFT_I32, value); }
static weft_kval bits_of(weft_kernel *k, weft_kval x) { return weft_k_bitcast(k, x, WEFT_I32); }
static weft_kval float_of(weft_kernel *k, weft_kval bits) { return weft_k_bitcast(k, bits, WEFT_F32); }
static weft_kval magnitude(weft_kernel *k, weft_kval x) { return weft_k_and(k, bits_of(k, x), i32(k, MAGNITUDE)); }
static weft_kval is_below(weft_kernel *k, weft_kval x, int64_t bits) {
    return weft_k_lt(k, magnitude(k, x), i32(k, bits));
}
static weft_kval is_subnormal(weft_kernel *k, weft_kval x) { return is_below(k, x, NORMAL); } /* or 0 */
static weft_kval scaled(weft_kernel *k, weft_kval x, double by) {
    return weft_k_mul(k, x, weft_k_float(k, WEFT_F32, by));
}

/* A number of x's sign whose magnitude has these bits. */
static weft_kval signed_as(weft_kernel *k, weft_kval x, weft_kval bits) {
    return float_of(k, weft_k_or(k, weft_k_and(k, bits_of(k, x), i32(k, SIGN)), bits));
}

/* 2^32 x of a subnormal x. */
static weft_kval raised(weft_kernel *k, weft_kval x) {
    weft_kval count = weft_k_convert(k, magnitude(k, x), WEFT_F32);
    return signed_as(k, x, bits_of(k, scaled(k, count, unit)));
}
/* 2^32 x in place of a subnormal x, all else as it is; 2^32 x of every x. */
static weft_kval normal(weft_kernel *k, weft_kval x) { return weft_k_select(k, is_subnormal(k, x), raised(k, x), x); }
static weft_kval lifted(weft_kernel *k, weft_kval x) {
    return weft_k_select(k, is_subnormal(k, x), raised(k, x), scaled(k, x, up));
}
/* 2^-32 x: where that is subnormal, so many of the least one. */
static weft_kval lowered(weft_kernel *k, weft_kval x) {
    weft_kval count = weft_k_unary(k, WEFT_K_round, scaled(k, float_of(k, magnitude(k, x)), 1 / unit));
    weft_kval low = signed_as(k, x, weft_k_convert(k, count, WEFT_I32));
    return weft_k_select(k, is_below(k, x, LOW), low, scaled(k, x, down));
}

/* Beside a number that is not small a subnormal is nothing. */
static weft_kval sum(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b) {
    weft_kval small = weft_k_and(k, is_below(k, a, SMALL), is_below(k, b, SMALL));
    weft_kval exact = lowered(k, weft_k_binary(k, op, lifted(k, a), lifted(k, b)));
    return weft_k_select(k, small, exact, weft_k_binary(k, op, a, b));
}

static void sort(weft_kernel *k, weft_kval a, weft_kval b, weft_kval *out_less, weft_kval *out_more) {
    weft_kval first = weft_k_lt(k, magnitude(k, a), magnitude(k, b));
    *out_less = weft_k_select(k, first, a, b);
    *out_more = weft_k_select(k, first, b, a);
}

/* Two factors that are not small have no small product. */
static weft_kval product(weft_kernel *k, weft_kval a, weft_kval b) {
    weft_kval less, more;
    sort(k, a, b, &less, &more);
    weft_kval exact = lowered(k, weft_k_mul(k, lifted(k, less), normal(k, more)));
    return weft_k_select(k, is_below(k, less, SMALL), exact, weft_k_mul(k, a, b));
}

static weft_kval quotient(weft_kernel *k, weft_kval a, weft_kval b) {
    weft_kval small = is_below(k, a, SMALL), by_subnormal = is_subnormal(k, b);
    weft_kval r = weft_k_div(k, weft_k_select(k, small, lifted(k, a), a), normal(k, b));
    weft_kval of_small = weft_k_select(k, by_subnormal, r, lowered(k, r));
    return weft_k_select(k, small, of_small, weft_k_select(k, by_subnormal, scaled(k, r, up), r));
}

/* Where c is not small a subnormal product is nothing beside it; where no factor is, a subnormal c beside the product.
 */
static weft_kval fused(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c, int64_t number) {
    weft_kval less, more;
    sort(k, a, b, &less, &more);
    weft_kval fits = weft_k_and(k, is_below(k, c, SMALL), is_below(k, less, FACTOR));
    weft_kval x[3] = {lifted(k, less), normal(k, more), lifted(k, c)}, plain[3] = {a, b, c};
    weft_ktype type = weft_ktype_of(k, a);
    weft_kval exact = lowered(k, weft_kernel_emit(k, WEFT_K_fma, type, 3, x, number, 0));
    return weft_k_select(k, fits, exact, weft_kernel_emit(k, WEFT_K_fma, type, 3, plain, number, 0));
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
    return weft_k_select(k, is_subnormal(k, x), scaled(k, r, 0x1p-16), r);
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
            lane[i] = weft_k_with_subnormals(k, one, type, 0, (weft_kval[]){lane[i], lane[i + half]});
        if (lanes % 2) lane[0] = weft_k_with_subnormals(k, one, type, 0, (weft_kval[]){lane[0], lane[lanes - 1]});
    }
    return lane[0];
}

weft_kval weft_k_with_subnormals(weft_kernel *k, weft_kop op, weft_ktype type, int64_t number, const weft_kval *x) {
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
    case WEFT_K_tanh_fast: return weft_k_unary(k, op, normal(k, x[0])); /* which is as small */
    case WEFT_K_convert: return converted(k, type, x[0]);
    case WEFT_K_reduce_add:
    case WEFT_K_reduce_mul:
    case WEFT_K_reduce_min:
    case WEFT_K_reduce_max: return reduced(k, op, x[0]);
    default: return WEFT_KNONE;
    }
}

int weft_kernel_subnormal_level(const weft_kernel *kernel, const weft_kinstr *instr, const uint8_t *levels) {
    enum { FULL = 2 };
    int most = 0;
    if (instr->type.kind == WEFT_KIND_VOID || instr->type.elem != WEFT_F32) return 0;
    for (int i = 0; i < instr->operand_count; i++) most = levels[i] > most ? levels[i] : most;
    switch ((int)instr->op) {
    case WEFT_K_load:
    case WEFT_K_var:
    case WEFT_K_regs:
    case WEFT_K_get:
    case WEFT_K_parameter:
    case WEFT_K_call:
    case WEFT_K_atomic: return FULL; /* nobody followed what went in */
    case WEFT_K_convert:
        return weft_ktype_of(kernel, weft_koperand(kernel, instr, 0)).elem == WEFT_F8E8M0FNU ? FULL : 0;
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
    case WEFT_K_reduce_max: return most;
    case WEFT_K_add:
    case WEFT_K_sub:
    case WEFT_K_mul:
    case WEFT_K_div:
    case WEFT_K_fma:
    case WEFT_K_reduce_add:
    case WEFT_K_reduce_mul: return most > 0 ? most - 1 : 0;
    default: return 0;
    }
}
