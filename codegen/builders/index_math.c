/* Elementwise ops on carriers. Each op computes in the carrier's type and rounds to its dtype once (numerics contract:
   f16 and bf16 in F32, one rounding per op); integer ops are total: division by zero gives all bits set, shifts past
   the width give zeros or the sign. Elementary functions: codegen/kernel/math.h. Read next: index_move.c. */
#include <string.h>

#include "codegen/builders/index_internal.h"
#include "codegen/kernel/math.h"

static weft_dtype elem(const weft_kernel *k, weft_kval value) { return (weft_dtype)weft_ktype_of(k, value).elem; }

static weft_kval number(weft_kernel *k, weft_dtype dtype, double value) {
    return weft_dtype_is_float(dtype) ? weft_k_float(k, dtype, value) : weft_k_integer(k, dtype, (int64_t)value);
}

/* select wants equal lanes of its values; scalars serve all. */
weft_kval weft_index_select(weft_index_context *c, weft_kval mask, weft_kval a, weft_kval b) {
    return weft_k_select(c->kernel, mask, a, b);
}

static weft_kval is_nan(weft_kernel *k, weft_kval value) { return weft_k_ne(k, value, value); }

static weft_kval invert(weft_kernel *k, weft_kval predicate) {
    return weft_k_xor(k, predicate, weft_k_integer(k, WEFT_BOOL, 1));
}

/* -- one operand */

static weft_kval sign_of(weft_kernel *k, weft_dtype dtype, weft_kval value) {
    weft_dtype e = elem(k, value);
    weft_kval zero = number(k, e, 0), one = number(k, e, 1);
    weft_kval positive = weft_k_select(k, weft_k_lt(k, zero, value), one, value);
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_UNSIGNED) return positive;
    return weft_k_select(k, weft_k_lt(k, value, zero), number(k, e, -1), positive);
}

static weft_kval unary_float(weft_index_context *c, weft_op op, weft_kval value) {
    weft_kernel *k = c->kernel;
    switch ((int)op) {
    case WEFT_OP_abs: return weft_k_unary(k, WEFT_K_abs, value);
    case WEFT_OP_neg: return weft_k_unary(k, WEFT_K_neg, value);
    case WEFT_OP_ceil: return weft_k_unary(k, WEFT_K_ceil, value);
    case WEFT_OP_floor: return weft_k_unary(k, WEFT_K_floor, value);
    case WEFT_OP_round: return weft_k_unary(k, WEFT_K_round, value);
    case WEFT_OP_sqrt: return weft_k_unary(k, WEFT_K_sqrt, value);
    case WEFT_OP_rsqrt: return weft_k_div(k, number(k, elem(k, value), 1), weft_k_unary(k, WEFT_K_sqrt, value));
    case WEFT_OP_sign: return sign_of(k, WEFT_F32, value);
    default: return weft_k_math_unary(k, op, value);
    }
}

static weft_kval popcount(weft_index_context *c, weft_dtype dtype, weft_kval value) {
    weft_kernel *k = c->kernel;
    int bits = weft_dtype_bits(dtype);
    if (bits < 8) value = weft_k_and(k, value, weft_k_integer(k, elem(k, value), (1 << bits) - 1));
    return weft_k_unary(k, WEFT_K_popcount, value);
}

static weft_kval unary_integer(weft_index_context *c, weft_op op, weft_dtype dtype, weft_kval value) {
    weft_kernel *k = c->kernel;
    bool is_unsigned = weft_dtype_kind_of(dtype) == WEFT_KIND_UNSIGNED;
    switch ((int)op) {
    case WEFT_OP_abs: {
        if (is_unsigned) return value;
        weft_kval zero = weft_k_integer(k, elem(k, value), 0);
        return weft_k_select(k, weft_k_lt(k, value, zero), weft_k_sub(k, zero, value), value);
    }
    case WEFT_OP_neg: return weft_k_sub(k, weft_k_integer(k, elem(k, value), 0), value);
    case WEFT_OP_sign: return sign_of(k, dtype, value);
    case WEFT_OP_not:
        return dtype == WEFT_BOOL ? invert(k, value) : weft_k_xor(k, value, weft_k_integer(k, elem(k, value), -1));
    case WEFT_OP_popcount: return popcount(c, dtype, value);
    default:
        weft_index_problem(c, WEFT_UNSUPPORTED, "%s of %s", weft_op_get(op)->name, weft_dtype_name(dtype));
        return value;
    }
}

static weft_parts unary(weft_index_context *c, weft_op op, weft_dtype dtype, weft_parts x) {
    weft_kernel *k = c->kernel;
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) {
        if (op == WEFT_OP_neg)
            return (weft_parts){{weft_k_unary(k, WEFT_K_neg, x.part[0]), weft_k_unary(k, WEFT_K_neg, x.part[1])}};
        weft_index_problem(c, WEFT_UNSUPPORTED, "%s of %s", weft_op_get(op)->name, weft_dtype_name(dtype));
        return x;
    }
    bool is_float = weft_dtype_is_float(dtype);
    weft_kval result = is_float ? unary_float(c, op, x.part[0]) : unary_integer(c, op, dtype, x.part[0]);
    return weft_parts_one(weft_index_round(c, dtype, result));
}

static weft_kval predicate(weft_index_context *c, weft_op op, weft_kval value) {
    weft_kernel *k = c->kernel;
    if (op == WEFT_OP_is_nan) return is_nan(k, value);
    return weft_k_lt(k, weft_k_unary(k, WEFT_K_abs, value), weft_k_float(k, elem(k, value), (double)__builtin_inff()));
}

/* -- two operands */

/* The dividend and a divisor that is safe to divide by: 1 where it would be 0, or -1 under the smallest number. */
static weft_kval safe_divisor(weft_kernel *k, weft_dtype dtype, weft_kval a, weft_kval b, weft_kval *out_zero) {
    weft_dtype e = elem(k, b);
    weft_kval unsafe = weft_k_eq(k, b, weft_k_integer(k, e, 0));
    *out_zero = unsafe;
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED) {
        int bits = weft_dtype_bits(e);
        weft_kval lowest = weft_k_integer(k, e, (int64_t)((uint64_t)1 << (bits - 1)));
        weft_kval overflow = weft_k_and(k, weft_k_eq(k, a, lowest), weft_k_eq(k, b, weft_k_integer(k, e, -1)));
        unsafe = weft_k_or(k, unsafe, overflow);
    }
    return weft_k_select(k, unsafe, weft_k_integer(k, e, 1), b);
}

static weft_kval divide_integer(weft_kernel *k, weft_dtype dtype, weft_kval a, weft_kval b) {
    weft_kval zero, safe = safe_divisor(k, dtype, a, b, &zero);
    return weft_k_select(k, zero, weft_k_integer(k, elem(k, a), -1), weft_k_div(k, a, safe));
}

static weft_kval remainder_integer(weft_kernel *k, weft_dtype dtype, weft_kval a, weft_kval b) {
    weft_kval zero, safe = safe_divisor(k, dtype, a, b, &zero);
    return weft_k_select(k, zero, a, weft_k_rem(k, a, safe));
}

/* Square and multiply, wrapping; a negative exponent leaves 1 / a: 0 but for 1 and -1. */
static weft_kval power_integer(weft_kernel *k, weft_dtype dtype, weft_kval a, weft_kval b) {
    weft_dtype e = elem(k, a);
    int lanes =
        weft_ktype_of(k, a).lanes > weft_ktype_of(k, b).lanes ? weft_ktype_of(k, a).lanes : weft_ktype_of(k, b).lanes;
    a = weft_k_splat(k, a, lanes);
    b = weft_k_splat(k, b, lanes);
    weft_kval zero = weft_k_integer(k, e, 0), one = weft_k_integer(k, e, 1);
    weft_kval result = weft_k_splat(k, one, lanes), square = a, left = b;
    for (int i = 0; i < weft_dtype_bits(dtype); i++) {
        weft_kval odd = weft_k_eq(k, weft_k_and(k, left, one), weft_k_splat(k, one, lanes));
        result = weft_k_select(k, odd, weft_k_mul(k, result, square), result);
        square = weft_k_mul(k, square, square);
        left = weft_k_binary(k, WEFT_K_shr, left, weft_k_splat(k, one, lanes));
    }
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_UNSIGNED) return result;
    weft_kval minus = weft_k_integer(k, e, -1), odd = weft_k_eq(k, weft_k_and(k, b, one), weft_k_splat(k, one, lanes));
    weft_kval units = weft_k_select(k, weft_k_eq(k, a, minus), weft_k_select(k, odd, minus, one), zero);
    units = weft_k_select(k, weft_k_eq(k, a, one), one, units);
    return weft_k_select(k, weft_k_lt(k, b, zero), units, result);
}

static weft_dtype unsigned_like(weft_dtype e) {
    int bits = weft_dtype_bits(e);
    return bits == 64 ? WEFT_U64 : bits == 32 ? WEFT_U32 : bits == 16 ? WEFT_U16 : WEFT_U8;
}

static weft_kval shift(weft_kernel *k, weft_op op, weft_dtype dtype, weft_kval a, weft_kval b) {
    weft_dtype e = elem(k, a), u = unsigned_like(e);
    int bits = weft_dtype_bits(dtype);
    weft_kval inside = weft_k_lt(k, weft_k_bitcast(k, b, u), weft_k_integer(k, u, bits));
    if (op == WEFT_OP_shift_right_arithmetic) {
        weft_kval amount = weft_k_select(k, inside, b, weft_k_integer(k, e, bits - 1));
        if (weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED) return weft_k_binary(k, WEFT_K_shr, a, amount);
        /* an unsigned type: its top bit is the sign */
        weft_dtype s = e == WEFT_U64 ? WEFT_I64 : e == WEFT_U32 ? WEFT_I32 : e == WEFT_U16 ? WEFT_I16 : WEFT_I8;
        weft_kval up = weft_k_integer(k, s, weft_dtype_bits(e) - bits), as = weft_k_bitcast(k, a, s);
        int lanes = weft_ktype_of(k, as).lanes;
        as = weft_k_binary(k, WEFT_K_shr, weft_k_binary(k, WEFT_K_shl, as, weft_k_splat(k, up, lanes)),
                           weft_k_splat(k, up, lanes));
        return weft_k_bitcast(k, weft_k_binary(k, WEFT_K_shr, as, weft_k_bitcast(k, amount, s)), e);
    }
    weft_kval zero = weft_k_integer(k, e, 0), amount = weft_k_select(k, inside, b, zero), result;
    if (op == WEFT_OP_shift_left) {
        result = weft_k_binary(k, WEFT_K_shl, a, amount);
    } else {
        weft_kval raw = weft_k_bitcast(k, a, u);
        if (bits < weft_dtype_bits(e)) raw = weft_k_and(k, raw, weft_k_integer(k, u, (1 << bits) - 1));
        result = weft_k_bitcast(k, weft_k_binary(k, WEFT_K_shr, raw, weft_k_bitcast(k, amount, u)), e);
    }
    return weft_k_select(k, inside, result, zero);
}

/* A quotient by a number, on CPUs, where a vector's division takes as long as a dozen products: one estimate and one
   correction round as the division does (Markstein 1990, IBM J. Res. Dev. 34: the reciprocal is rounded correctly).
   Exact quotients, zeros and infinities keep the estimate. Quotients below the normal numbers may differ in the last
   place. */
static weft_kval divide_float(weft_kernel *k, weft_kval a, weft_kval b) {
    const double least = 0x1p-20, most = 0x1p20;
    const weft_kinstr *divisor = weft_kernel_get(k, b);
    if (divisor->op == WEFT_K_splat) divisor = weft_kernel_get(k, weft_koperand(k, divisor, 0));
    weft_dtype elem = (weft_dtype)weft_ktype_of(k, a).elem;
    int lanes = weft_ktype_of(k, a).lanes;
    double number = divisor->op == WEFT_K_constant ? divisor->f : 0;
    bool plain = k->capability->threads_max == 1 && lanes > 1 && (elem == WEFT_F32 || elem == WEFT_F64) &&
                 (number < 0 ? -number : number) >= least && (number < 0 ? -number : number) <= most;
    if (!plain) return weft_k_div(k, a, b);
    double inverse = elem == WEFT_F32 ? (double)(1.0F / (float)number) : 1 / number;
    weft_kval reciprocal = weft_k_constant_lanes(k, elem, inverse, lanes),
              minus = weft_k_constant_lanes(k, elem, -number, lanes), zero = weft_k_constant_lanes(k, elem, 0, lanes);
    weft_kval estimate = weft_k_mul(k, a, reciprocal), rest = weft_k_fma(k, estimate, minus, a);
    weft_kval inexact = weft_k_lt(k, zero, weft_k_unary(k, WEFT_K_abs, rest));
    return weft_k_select(k, inexact, weft_k_fma(k, rest, reciprocal, estimate), estimate);
}

static bool is_number(const weft_kernel *k, weft_kval x) {
    const weft_kinstr *instr = weft_kernel_get(k, x);
    if (instr->op == WEFT_K_splat) instr = weft_kernel_get(k, weft_koperand(k, instr, 0));
    return instr->op == WEFT_K_constant && instr->f == instr->f;
}

/* NaN if either is NaN; kernel max and min give b when unordered: a number goes first, and nothing is left to check. */
static weft_kval extreme(weft_kernel *k, weft_kop op, weft_dtype dtype, weft_kval a, weft_kval b) {
    if (weft_dtype_is_float(dtype) && is_number(k, b)) return weft_k_binary(k, op, b, a);
    weft_kval result = weft_k_binary(k, op, a, b);
    if (weft_dtype_is_float(dtype) && is_number(k, a)) return result;
    return weft_dtype_is_float(dtype) ? weft_k_select(k, is_nan(k, a), a, result) : result;
}

static weft_kval binary_raw(weft_index_context *c, weft_op op, weft_dtype dtype, weft_kval a, weft_kval b) {
    weft_kernel *k = c->kernel;
    bool is_float = weft_dtype_is_float(dtype);
    switch ((int)op) {
    case WEFT_OP_add: return weft_k_add(k, a, b);
    case WEFT_OP_sub: return weft_k_sub(k, a, b);
    case WEFT_OP_mul: return weft_k_mul(k, a, b);
    case WEFT_OP_div: return is_float ? divide_float(k, a, b) : divide_integer(k, dtype, a, b);
    case WEFT_OP_rem: return is_float ? weft_k_math_binary(k, op, a, b) : remainder_integer(k, dtype, a, b);
    case WEFT_OP_pow: return is_float ? weft_k_math_binary(k, op, a, b) : power_integer(k, dtype, a, b);
    case WEFT_OP_atan2: return weft_k_math_binary(k, op, a, b);
    case WEFT_OP_max: return extreme(k, WEFT_K_max, dtype, a, b);
    case WEFT_OP_min: return extreme(k, WEFT_K_min, dtype, a, b);
    case WEFT_OP_and: return weft_k_and(k, a, b);
    case WEFT_OP_or: return weft_k_or(k, a, b);
    case WEFT_OP_xor: return weft_k_xor(k, a, b);
    case WEFT_OP_shift_left:
    case WEFT_OP_shift_right_logical:
    case WEFT_OP_shift_right_arithmetic: return shift(k, op, dtype, a, b);
    default: weft_index_problem(c, WEFT_INTERNAL, "%s is not binary", weft_op_get(op)->name); return a;
    }
}

weft_kval weft_index_binary(weft_index_context *c, weft_op op, weft_dtype dtype, weft_kval a, weft_kval b) {
    int lanes = weft_ktype_of(c->kernel, a).lanes, other = weft_ktype_of(c->kernel, b).lanes;
    lanes = lanes > other ? lanes : other;
    a = weft_k_splat(c->kernel, a, lanes);
    b = weft_k_splat(c->kernel, b, lanes);
    return weft_index_round(c, dtype, binary_raw(c, op, dtype, a, b));
}

static weft_parts binary_complex(weft_index_context *c, weft_op op, weft_parts a, weft_parts b) {
    weft_kernel *k = c->kernel;
    weft_kval ar = a.part[0], ai = a.part[1], br = b.part[0], bi = b.part[1];
    switch ((int)op) {
    case WEFT_OP_add: return (weft_parts){{weft_k_add(k, ar, br), weft_k_add(k, ai, bi)}};
    case WEFT_OP_sub: return (weft_parts){{weft_k_sub(k, ar, br), weft_k_sub(k, ai, bi)}};
    case WEFT_OP_mul:
        return (weft_parts){{weft_k_sub(k, weft_k_mul(k, ar, br), weft_k_mul(k, ai, bi)),
                             weft_k_add(k, weft_k_mul(k, ar, bi), weft_k_mul(k, ai, br))}};
    case WEFT_OP_div: {
        /* Smith (1962): the larger part of b divides first, so that no square overflows */
        weft_kval real_first = weft_k_le(k, weft_k_unary(k, WEFT_K_abs, bi), weft_k_unary(k, WEFT_K_abs, br));
        weft_kval large = weft_k_select(k, real_first, br, bi), small = weft_k_select(k, real_first, bi, br);
        weft_kval ratio = weft_k_div(k, small, large), scale = weft_k_add(k, large, weft_k_mul(k, small, ratio));
        weft_kval p = weft_k_select(k, real_first, ar, ai), q = weft_k_select(k, real_first, ai, ar);
        weft_kval real = weft_k_add(k, p, weft_k_mul(k, q, ratio)), cross = weft_k_mul(k, p, ratio);
        weft_kval imaginary = weft_k_select(k, real_first, weft_k_sub(k, q, cross), weft_k_sub(k, cross, q));
        return (weft_parts){{weft_k_div(k, real, scale), weft_k_div(k, imaginary, scale)}};
    }
    default: weft_index_problem(c, WEFT_UNSUPPORTED, "%s of complex numbers", weft_op_get(op)->name); return a;
    }
}

static weft_kval less(weft_kernel *k, weft_dtype dtype, weft_kval a, weft_kval b) {
    return dtype == WEFT_BOOL ? weft_k_and(k, invert(k, a), b) : weft_k_lt(k, a, b);
}

weft_kval weft_index_compare(weft_index_context *c, const char *direction, weft_dtype dtype, weft_kval a, weft_kval b) {
    weft_kernel *k = c->kernel;
    bool is_bool = dtype == WEFT_BOOL;
    if (!strcmp(direction, "eq")) return is_bool ? invert(k, weft_k_xor(k, a, b)) : weft_k_eq(k, a, b);
    if (!strcmp(direction, "ne")) return is_bool ? weft_k_xor(k, a, b) : weft_k_ne(k, a, b);
    if (!strcmp(direction, "lt")) return less(k, dtype, a, b);
    if (!strcmp(direction, "gt")) return less(k, dtype, b, a);
    if (is_bool) return invert(k, !strcmp(direction, "le") ? less(k, dtype, b, a) : less(k, dtype, a, b));
    return !strcmp(direction, "le") ? weft_k_le(k, a, b) : weft_k_le(k, b, a);
}

/* A number against places along an axis, as labels are: equality of 64-bit integers costs several instructions a lane
   where 32 bits hold all places. A number that is none of them becomes -1. WEFT_KNONE: this is no such comparison. */
static weft_kval equals_place(weft_index_context *c, const weft_node *node, weft_kval a, weft_kval b) {
    weft_kernel *k = c->kernel;
    const char *direction = weft_node_string(node, WEFT_ATTR_direction, "eq");
    if (strcmp(direction, "eq") != 0 || k->capability->index_dtype != WEFT_I32) return WEFT_KNONE;
    for (int side = 0; side < 2; side++) {
        const weft_node *iota = node->operands[side]->node;
        weft_kval places = side ? b : a, number = side ? a : b;
        int64_t low, high;
        if (!iota || iota->op != WEFT_OP_iota || weft_operand_type(node, side)->dtype != WEFT_I64 ||
            weft_ktype_of(k, number).lanes != 1 || weft_ktype_of(k, places).lanes == 1)
            continue;
        weft_dim_bounds(c->graph->dims, iota->results[0].type.dims[weft_node_int(iota, WEFT_ATTR_axis, 0)], &low,
                        &high);
        if (high > INT32_MAX) continue;
        weft_kval narrow = weft_k_convert(k, number, WEFT_I32);
        weft_kval fits = weft_k_eq(k, weft_k_convert(k, narrow, WEFT_I64), number);
        narrow = weft_k_select(k, fits, narrow, weft_k_integer(k, WEFT_I32, -1));
        return weft_k_eq(k, weft_k_convert(k, places, WEFT_I32), narrow);
    }
    return WEFT_KNONE;
}

static weft_kval compare_parts(weft_index_context *c, const weft_node *node, weft_parts a, weft_parts b) {
    weft_dtype dtype = weft_operand_type(node, 0)->dtype;
    const char *direction = weft_node_string(node, WEFT_ATTR_direction, "eq");
    weft_kval real = equals_place(c, node, a.part[0], b.part[0]);
    if (real != WEFT_KNONE) return real;
    real = weft_index_compare(c, direction, dtype, a.part[0], b.part[0]);
    if (a.part[1] == WEFT_KNONE) return real;
    weft_kval imaginary = weft_index_compare(c, direction, dtype, a.part[1], b.part[1]);
    return weft_k_binary(c->kernel, !strcmp(direction, "ne") ? WEFT_K_or : WEFT_K_and, real, imaginary);
}

/* -- conversions */

int64_t weft_index_float_limit(weft_dtype dtype, double *out_maximum) {
    static const struct {
        weft_dtype dtype;
        double maximum;
    } limits[] = {{WEFT_F8E4M3FN, 448},     {WEFT_F8E4M3FNUZ, 240}, {WEFT_F8E5M2, 57344},
                  {WEFT_F8E5M2FNUZ, 57344}, {WEFT_F4E2M1FN, 6},     {WEFT_F8E8M0FNU, 0x1p127}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].dtype == dtype) return *out_maximum = limits[i].maximum, weft_dtype_bits(dtype);
    return 0;
}

/* Clamps what would overflow, infinities too where they have no code: a rule of types of 8 bits and fewer. */
static weft_kval saturate_float(weft_kernel *k, weft_dtype to, weft_kval value) {
    double maximum;
    int64_t bits = weft_index_float_limit(to, &maximum);
    if (!bits) return value;
    weft_dtype e = elem(k, value);
    weft_kval limit = weft_k_float(k, e, maximum), magnitude = weft_k_unary(k, WEFT_K_abs, value);
    weft_kval over = weft_k_lt(k, limit, magnitude);
    if (to == WEFT_F8E8M0FNU)
        over = weft_k_and(k, over, weft_k_lt(k, magnitude, weft_k_float(k, e, (double)__builtin_inff())));
    weft_kval clamped = weft_k_binary(k, WEFT_K_copysign, weft_k_splat(k, limit, weft_ktype_of(k, value).lanes), value);
    return weft_k_select(k, over, clamped, value);
}

static weft_kval float_to_integer(weft_index_context *c, weft_dtype to, weft_kval value) {
    weft_kernel *k = c->kernel;
    weft_dtype e = weft_index_carrier(to);
    weft_kval result = weft_k_convert(k, value, e);
    int bits = weft_dtype_bits(to);
    if (bits >= 8) return result;
    bool is_signed = weft_dtype_kind_of(to) == WEFT_KIND_SIGNED;
    int high = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    result = weft_k_min(k, result, weft_k_integer(k, e, high));
    return is_signed ? weft_k_max(k, result, weft_k_integer(k, e, -high - 1)) : result;
}

static weft_kval integer_to_float(weft_index_context *c, weft_dtype from, weft_dtype to, weft_kval value,
                                  bool saturate) {
    weft_kernel *k = c->kernel;
    if (to == WEFT_F32 || to == WEFT_F64) return weft_k_convert(k, value, to);
    /* a narrower float: through F64 where F32 would round first; a kernel's own conversion rounds once too */
    bool exact = weft_dtype_bits(from) <= 16;
    if (!exact && !k->capability->f64 && (to == WEFT_F16 || to == WEFT_BF16))
        return weft_k_convert(k, weft_k_convert(k, value, to), WEFT_F32);
    weft_kval wide = weft_k_convert(k, value, exact ? WEFT_F32 : WEFT_F64);
    if (saturate) wide = saturate_float(k, to, wide);
    return weft_index_round(c, to, wide);
}

static weft_kval convert_real(weft_index_context *c, weft_dtype from, weft_dtype to, bool saturate, weft_kval value) {
    weft_kernel *k = c->kernel;
    if (from == to && !saturate) return value;
    if (to == WEFT_BOOL) return weft_k_ne(k, value, number(k, elem(k, value), 0));
    if (from == WEFT_BOOL) {
        weft_dtype e = weft_index_carrier(to);
        double zero = to == WEFT_F8E8M0FNU ? 0x1p-127 : 0; /* its smallest number */
        return weft_k_select(k, value, number(k, e, 1), number(k, e, zero));
    }
    if (weft_dtype_is_float(from)) {
        if (!weft_dtype_is_float(to)) return float_to_integer(c, to, value);
        if (to == WEFT_F64) return weft_k_convert(k, value, WEFT_F64);
        if (saturate) value = saturate_float(k, to, value);
        return weft_index_round(c, to, value);
    }
    if (weft_dtype_is_float(to)) return integer_to_float(c, from, to, value, saturate);
    return weft_index_round(c, to, weft_k_convert(k, value, weft_index_carrier(to)));
}

weft_parts weft_index_convert(weft_index_context *c, weft_dtype from, weft_dtype to, bool saturate, weft_parts value) {
    bool was_complex = weft_dtype_kind_of(from) == WEFT_KIND_COMPLEX,
         is_complex = weft_dtype_kind_of(to) == WEFT_KIND_COMPLEX;
    weft_dtype part = weft_index_carrier(from), wanted = is_complex ? weft_index_carrier(to) : to;
    weft_kval real = convert_real(c, was_complex ? part : from, wanted, saturate, value.part[0]);
    if (!is_complex) return weft_parts_one(real);
    weft_kval imaginary =
        was_complex ? convert_real(c, part, wanted, saturate, value.part[1]) : weft_index_zero(c, wanted);
    return (weft_parts){{real, imaginary}};
}

/* c64 is 64 bits: the real part is the lower half. */
static weft_parts bitcast(weft_index_context *c, weft_dtype from, weft_dtype to, weft_parts value) {
    weft_kernel *k = c->kernel;
    if (from == to) return value;
    bool was_complex = weft_dtype_kind_of(from) == WEFT_KIND_COMPLEX;
    weft_kval bits, half = weft_k_integer(k, WEFT_U64, 32);
    if (was_complex) {
        weft_kval low = weft_k_convert(k, weft_k_bitcast(k, value.part[0], WEFT_U32), WEFT_U64);
        weft_kval high = weft_k_convert(k, weft_k_bitcast(k, value.part[1], WEFT_U32), WEFT_U64);
        bits = weft_k_or(k, low, weft_k_binary(k, WEFT_K_shl, high, half));
    } else {
        bits = weft_index_to_bits(c, from, value.part[0]);
    }
    if (weft_dtype_kind_of(to) != WEFT_KIND_COMPLEX) return weft_parts_one(weft_index_from_bits(c, to, bits));
    weft_kval low = weft_k_convert(k, bits, WEFT_U32),
              high = weft_k_convert(k, weft_k_binary(k, WEFT_K_shr, bits, half), WEFT_U32);
    return (weft_parts){{weft_k_bitcast(k, low, WEFT_F32), weft_k_bitcast(k, high, WEFT_F32)}};
}

/* -- dispatch */

static weft_parts select_parts(weft_index_context *c, const weft_node *node, const weft_point *point) {
    weft_kval mask = weft_index_one(c, node->operands[0], point);
    weft_parts a = weft_index_evaluate(c, node->operands[1], *point),
               b = weft_index_evaluate(c, node->operands[2], *point);
    weft_parts result = {{WEFT_KNONE, WEFT_KNONE}};
    for (int i = 0; i < 2; i++)
        if (a.part[i] != WEFT_KNONE) result.part[i] = weft_index_select(c, mask, a.part[i], b.part[i]);
    return result;
}

weft_parts weft_index_elementwise(weft_index_context *c, const weft_node *node, const weft_point *point) {
    weft_dtype dtype = weft_operand_type(node, 0)->dtype, to = node->results[0].type.dtype;
    if (node->op == WEFT_OP_select) return select_parts(c, node, point);
    weft_parts x = weft_index_evaluate(c, node->operands[0], *point), y = x;
    if (node->operand_count > 1) y = weft_index_evaluate(c, node->operands[1], *point);
    switch ((int)node->op) {
    case WEFT_OP_convert: return weft_index_convert(c, dtype, to, weft_node_int(node, WEFT_ATTR_saturate, 0), x);
    case WEFT_OP_bitcast: return bitcast(c, dtype, to, x);
    case WEFT_OP_compare: return weft_parts_one(compare_parts(c, node, x, y));
    case WEFT_OP_is_nan:
    case WEFT_OP_is_finite: return weft_parts_one(predicate(c, node->op, x.part[0]));
    case WEFT_OP_complex: return (weft_parts){{x.part[0], y.part[0]}};
    case WEFT_OP_real: return weft_parts_one(x.part[0]);
    case WEFT_OP_imag: return weft_parts_one(x.part[1]);
    default: break;
    }
    if (node->op == WEFT_OP_exp && weft_index_exp_is_coarse(c, node))
        return weft_parts_one(weft_index_round(c, to, weft_k_math_exp_coarse(c->kernel, x.part[0])));
    if (node->operand_count == 1) return unary(c, node->op, dtype, x);
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) return binary_complex(c, node->op, x, y);
    bool shared = weft_ktype_of(c->kernel, y.part[0]).lanes < weft_ktype_of(c->kernel, x.part[0]).lanes;
    if (node->op == WEFT_OP_div && shared && weft_index_quotient_is_coarse(c, node))
        return weft_parts_one(weft_index_round(c, to, weft_index_divide_by_scalar(c, x.part[0], y.part[0])));
    return weft_parts_one(weft_index_binary(c, node->op, dtype, x.part[0], y.part[0]));
}
