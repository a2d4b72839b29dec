/* Conversions and bitcasts between the carriers of print.h; meanings as in codegen/kernel/kernel.h. */
#include "base/dtype.h"
#include "codegen/spirv/print.h"

typedef weft_spirv_id id;

static bool is_half(weft_dtype d) { return d == WEFT_F16 || d == WEFT_BF16; }
static bool is_signed(weft_dtype d) { return weft_dtype_kind_of(d) == WEFT_KIND_SIGNED; }
static bool is_wide(weft_dtype d) { return weft_spirv_carrier(d) == WEFT_SPIRV_U64; }

static id one(weft_spirv *p, weft_spirv_type type, const char *op, id a) {
    return weft_spirv_emit(p, type, op, "$", a);
}
static id two(weft_spirv *p, weft_spirv_type type, const char *op, id a, id b) {
    return weft_spirv_emit(p, type, op, "$ $", a, b);
}
static id choose(weft_spirv *p, weft_spirv_type type, id condition, id a, id b) {
    return weft_spirv_emit(p, type, "OpSelect", "$ $ $", condition, a, b);
}

static id from_half(weft_spirv *p, weft_dtype from, id x) {
    if (from == WEFT_BF16)
        return one(p, WEFT_SPIRV_F32, "OpBitcast",
                   two(p, WEFT_SPIRV_U32, "OpShiftLeftLogical", x, weft_spirv_u32(p, 16)));
    id half = one(p, WEFT_SPIRV_F16, "OpBitcast", one(p, WEFT_SPIRV_U16, "OpUConvert", x));
    return one(p, WEFT_SPIRV_F32, "OpFConvert", half);
}

/* F32 -> BF16 to nearest even, on bits; a NaN stays one. */
static id to_bf16(weft_spirv *p, id x) {
    const weft_spirv_type t = WEFT_SPIRV_U32;
    id bits = one(p, t, "OpBitcast", x), high = two(p, t, "OpShiftRightLogical", bits, weft_spirv_u32(p, 16));
    id carry = two(p, t, "OpIAdd", two(p, t, "OpBitwiseAnd", high, weft_spirv_u32(p, 1)), weft_spirv_u32(p, 0x7fff));
    id rounded = two(p, t, "OpShiftRightLogical", two(p, t, "OpIAdd", bits, carry), weft_spirv_u32(p, 16));
    id quiet = two(p, t, "OpBitwiseOr", high, weft_spirv_u32(p, 0x40));
    return choose(p, t, two(p, WEFT_SPIRV_BOOL, "OpFUnordNotEqual", x, x), quiet, rounded);
}

static id to_f16(weft_spirv *p, id x) {
    id half = one(p, WEFT_SPIRV_F16, "OpFConvert", x);
    return one(p, WEFT_SPIRV_U32, "OpUConvert", one(p, WEFT_SPIRV_U16, "OpBitcast", half));
}

/* f64 -> f32 in the direction that leaves an odd mantissa when inexact: a second rounding is then the only one. */
static id odd_f32(weft_spirv *p, id x) {
    const weft_spirv_type t = WEFT_SPIRV_U32, truth = WEFT_SPIRV_BOOL, wide = WEFT_SPIRV_F64;
    id near = one(p, WEFT_SPIRV_F32, "OpFConvert", x), back = one(p, wide, "OpFConvert", near);
    id bits = one(p, t, "OpBitcast", near);
    id large = two(p, truth, "OpFOrdGreaterThan", weft_spirv_emit(p, wide, "OpExtInst", "%glsl FAbs $", back),
                   weft_spirv_emit(p, wide, "OpExtInst", "%glsl FAbs $", x));
    id cut = choose(p, t, large, two(p, t, "OpISub", bits, weft_spirv_u32(p, 1)), bits);
    id odd = two(p, t, "OpBitwiseOr", cut, weft_spirv_u32(p, 1));
    id inexact = two(p, truth, "OpFOrdNotEqual", back, x);
    return one(p, WEFT_SPIRV_F32, "OpBitcast", choose(p, t, inexact, odd, bits));
}

static id integer_to_float(weft_spirv *p, weft_dtype from, weft_spirv_type to, id x) {
    return one(p, to, is_signed(from) ? "OpConvertSToF" : "OpConvertUToF", x);
}

static id to_f32(weft_spirv *p, weft_dtype from, id x) {
    if (from == WEFT_F32) return x;
    if (is_half(from)) return from_half(p, from, x);
    if (from == WEFT_BOOL)
        return choose(p, WEFT_SPIRV_F32, x, weft_spirv_constant(p, WEFT_SPIRV_F32, 0x3f800000u),
                      weft_spirv_constant(p, WEFT_SPIRV_F32, 0));
    return integer_to_float(p, from, WEFT_SPIRV_F32, x);
}

/* 64 bits to F64 without losing which side of a tie the value lies on: the low 11 bits only say whether they are zero.
 */
static id sticky(weft_spirv *p, weft_dtype from, id x) {
    const weft_spirv_type t = WEFT_SPIRV_U64;
    id zero = weft_spirv_constant(p, t, 0), mask = weft_spirv_constant(p, t, 0x7ff);
    id low = two(p, t, "OpBitwiseAnd", x, mask), cut = two(p, t, "OpISub", x, low);
    id some = choose(p, t, two(p, WEFT_SPIRV_BOOL, "OpINotEqual", low, zero), weft_spirv_constant(p, t, 0x400), zero);
    id kept = two(p, t, "OpBitwiseOr", cut, some);
    id magnitude = is_signed(from) ? weft_spirv_emit(p, t, "OpExtInst", "%glsl SAbs $", x) : x;
    id large = two(p, WEFT_SPIRV_BOOL, "OpUGreaterThan", magnitude, weft_spirv_constant(p, t, UINT64_C(1) << 52));
    return choose(p, t, large, kept, x);
}

static id to_half(weft_spirv *p, weft_dtype from, weft_dtype to, id x) {
    bool exact = weft_dtype_is_float(from) || from == WEFT_BOOL || weft_dtype_bits(from) <= 16;
    id wide = exact ? to_f32(p, from, x)
                    : odd_f32(p, integer_to_float(p, from, WEFT_SPIRV_F64, is_wide(from) ? sticky(p, from, x) : x));
    return to == WEFT_BF16 ? to_bf16(p, wide) : to_f16(p, wide);
}

static id to_bool(weft_spirv *p, weft_dtype from, id x) {
    const weft_spirv_type truth = WEFT_SPIRV_BOOL;
    if (from == WEFT_BOOL) return x;
    if (from == WEFT_F32) return two(p, truth, "OpFUnordNotEqual", x, weft_spirv_constant(p, WEFT_SPIRV_F32, 0));
    if (is_half(from)) x = two(p, WEFT_SPIRV_U32, "OpBitwiseAnd", x, weft_spirv_u32(p, 0x7fff));
    return two(p, truth, "OpINotEqual", x, weft_spirv_constant(p, weft_spirv_carrier(from), 0));
}

/* 2^n as F32 bits. */
static uint64_t power(int n) { return (uint64_t)(127 + n) << 23; }

/* Truncates and saturates; NaN gives 0. The conversion itself only ever sees what fits. */
static id float_to_integer(weft_spirv *p, weft_dtype to, id x) {
    const weft_spirv_type f = WEFT_SPIRV_F32, truth = WEFT_SPIRV_BOOL;
    int bits = weft_dtype_bits(to), width = bits < 32 ? 32 : bits;
    bool s = is_signed(to);
    weft_spirv_type t = weft_spirv_carrier(to);
    uint64_t most = s ? UINT64_MAX >> (64 - bits + 1) : UINT64_MAX >> (64 - bits);
    uint64_t least = s ? ~most : 0, carrier = width == 64 ? UINT64_MAX : UINT32_MAX;
    id top = weft_spirv_constant(p, f, power(s ? bits - 1 : bits));
    id bottom = weft_spirv_constant(p, f, s ? power(bits - 1) | 0x80000000u : 0);
    id high = two(p, truth, "OpFOrdGreaterThanEqual", x, top), low = two(p, truth, "OpFOrdLessThanEqual", x, bottom);
    id fits = two(p, truth, "OpLogicalAnd", two(p, truth, "OpFOrdLessThan", x, top),
                  two(p, truth, "OpFOrdGreaterThan", x, bottom));
    id inside = choose(p, f, fits, x, weft_spirv_constant(p, f, 0));
    id value = one(p, t, s ? "OpConvertFToS" : "OpConvertFToU", inside);
    value = choose(p, t, low, weft_spirv_constant(p, t, least & carrier), value);
    return choose(p, t, high, weft_spirv_constant(p, t, most & carrier), value);
}

static id integer_to_integer(weft_spirv *p, weft_dtype from, weft_dtype to, id x) {
    weft_spirv_type t = weft_spirv_carrier(to);
    if (from == WEFT_BOOL) return choose(p, t, x, weft_spirv_constant(p, t, 1), weft_spirv_constant(p, t, 0));
    if (is_wide(to) && !is_wide(from)) return one(p, t, is_signed(from) ? "OpSConvert" : "OpUConvert", x);
    if (is_wide(from) && !is_wide(to)) x = one(p, t, "OpUConvert", x);
    return is_wide(to) ? x : weft_spirv_normal(p, to, x);
}

id weft_spirv_convert(weft_spirv *p, weft_dtype from, weft_dtype to, id x) {
    if (from == to) return x;
    if (to == WEFT_BOOL) return to_bool(p, from, x);
    if (to == WEFT_F32) return to_f32(p, from, x);
    if (is_half(to)) return to_half(p, from, to, x);
    if (from == WEFT_F32 || is_half(from)) return float_to_integer(p, to, to_f32(p, from, x));
    return integer_to_integer(p, from, to, x);
}

id weft_spirv_bitcast(weft_spirv *p, weft_dtype from, weft_dtype to, id x) {
    if (from == WEFT_BOOL || to == WEFT_BOOL) {
        const weft_spirv_type t = WEFT_SPIRV_U32;
        if (from == to) return x;
        if (to == WEFT_BOOL) return two(p, WEFT_SPIRV_BOOL, "OpINotEqual", x, weft_spirv_u32(p, 0));
        return choose(p, t, x, weft_spirv_u32(p, 1), weft_spirv_u32(p, 0));
    }
    weft_spirv_type a = weft_spirv_carrier(from), b = weft_spirv_carrier(to);
    if (a != b) x = one(p, b, "OpBitcast", x);
    if (b != WEFT_SPIRV_U32 || weft_dtype_bits(to) == 32) return x;
    if (!weft_dtype_is_float(to)) return weft_spirv_normal(p, to, x);
    return two(p, b, "OpBitwiseAnd", x, weft_spirv_u32(p, 0xffff)); /* bits of a 16-bit float */
}
