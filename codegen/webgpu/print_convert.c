/* Conversions between the carriers of print.h; meanings as in kernel.h. */
#include "base/dtype.h"
#include "codegen/webgpu/print.h"

typedef weft_piece name;

static bool is_half(weft_dtype d) { return d == WEFT_F16 || d == WEFT_BF16; }
static bool is_signed(weft_dtype d) { return weft_dtype_kind_of(d) == WEFT_KIND_SIGNED; }
static const char *half_name(weft_dtype d) { return d == WEFT_F16 ? "f16" : "bf16"; }

static bool is_native(const weft_wgsl_printer *p, weft_dtype d) { return weft_wgsl_class_of(p, d) == WEFT_WGSL_F16; }

static name to_f32(const weft_wgsl_printer *p, weft_dtype from, name x) {
    if (is_native(p, from)) return weft_piece_format("f32(%s)", x.text);
    if (is_half(from)) return weft_piece_format("f32_of_%s(%s)", half_name(from), x.text);
    if (from == WEFT_BOOL) return weft_piece_format("select(0.0f, 1.0f, %s)", x.text);
    if (from == WEFT_I64) return weft_piece_format("f32_of_i64(%s)", x.text);
    if (from == WEFT_U64) return weft_piece_format("f32_of_u64(%s)", x.text);
    if (from == WEFT_I32) return weft_piece_format("round_of_i32(%s)", x.text);
    if (from == WEFT_U32) return weft_piece_format("round_of_u32(%s)", x.text);
    if (from == WEFT_F32) return x;
    return weft_piece_format("f32(%s)", x.text);
}

static name to_bool(const weft_wgsl_printer *p, weft_dtype from, name x) {
    if (from == WEFT_BOOL) return x;
    if (is_native(p, from)) return weft_piece_format("!(f32(%s) == 0.0f)", x.text);
    if (is_half(from)) return weft_piece_format("(%s & 0x7fffu) != 0u", x.text);
    switch (weft_wgsl_class_of(p, from)) {
    case WEFT_WGSL_F32: return weft_piece_format("!(%s == 0.0f)", x.text);
    case WEFT_WGSL_PAIR: return weft_piece_format("any(%s != vec2<u32>(0u, 0u))", x.text);
    case WEFT_WGSL_I32: return weft_piece_format("%s != 0i", x.text);
    case WEFT_WGSL_NONE:
    case WEFT_WGSL_BOOL:
    case WEFT_WGSL_F16:
    case WEFT_WGSL_U32: break;
    }
    return weft_piece_format("%s != 0u", x.text);
}

/* Through f32; integers that f32 does not hold are rounded to odd there, so the second rounding is the only one. */
static name to_half(const weft_wgsl_printer *p, weft_dtype from, weft_dtype to, name x) {
    bool exact = from == WEFT_F32 || from == WEFT_BOOL || is_half(from) || weft_dtype_bits(from) <= 16;
    name wide = to_f32(p, from, x);
    if (!exact) wide = weft_piece_format("odd_of_%s%d(%s)", is_signed(from) ? "i" : "u", weft_dtype_bits(from), x.text);
    bool small = from == WEFT_BOOL || from == WEFT_I8 || from == WEFT_U8;
    if (is_native(p, to)) return weft_piece_format(small ? "f16(%s)" : "f16(round_f16(%s))", wide.text);
    return weft_piece_format("%s_of_f32(%s)", half_name(to), wide.text);
}

static name float_to_integer(weft_dtype to, name x) {
    int bits = weft_dtype_bits(to);
    if (bits >= 32) return weft_piece_format("%s%d_of_f32(%s)", is_signed(to) ? "i" : "u", bits, x.text);
    if (is_signed(to))
        return weft_piece_format("clamp(i32_of_f32(%s), i32(%d), %di)", x.text, -(1 << (bits - 1)),
                                 (1 << (bits - 1)) - 1);
    return weft_piece_format("min(u32_of_f32(%s), %uu)", x.text, (1u << bits) - 1);
}

static name integer_to_integer(const weft_wgsl_printer *p, weft_dtype from, weft_dtype to, name x) {
    weft_wgsl_class a = weft_wgsl_class_of(p, from), b = weft_wgsl_class_of(p, to);
    if (b == WEFT_WGSL_PAIR) {
        if (a == WEFT_WGSL_PAIR) return x;
        if (a == WEFT_WGSL_BOOL) return weft_piece_format("vec2<u32>(select(0u, 1u, %s), 0u)", x.text);
        return weft_piece_format(a == WEFT_WGSL_I32 ? "i64_of_i32(%s)" : "vec2<u32>(%s, 0u)", x.text);
    }
    if (a == WEFT_WGSL_BOOL)
        return weft_piece_format(b == WEFT_WGSL_I32 ? "select(0i, 1i, %s)" : "select(0u, 1u, %s)", x.text);
    name same = x;
    if (a == WEFT_WGSL_PAIR)
        same = weft_piece_format(b == WEFT_WGSL_I32 ? "bitcast<i32>(%s.x)" : "%s.x", x.text);
    else if (a != b)
        same = weft_piece_format(b == WEFT_WGSL_I32 ? "bitcast<i32>(%s)" : "bitcast<u32>(%s)", x.text);
    bool fits = weft_dtype_bits(from) < weft_dtype_bits(to) && (is_signed(to) || !is_signed(from));
    return fits || (weft_dtype_bits(from) == weft_dtype_bits(to) && a == b) ? same : weft_wgsl_normal(to, same);
}

name weft_wgsl_convert(weft_wgsl_printer *p, weft_dtype from, weft_dtype to, name x) {
    if (weft_wgsl_class_of(p, from) == WEFT_WGSL_NONE || weft_wgsl_class_of(p, to) == WEFT_WGSL_NONE) {
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "a conversion of a type that WGSL does not carry");
        return x;
    }
    if (from == to) return x;
    if (to == WEFT_BOOL) return to_bool(p, from, x);
    if (is_half(to)) return to_half(p, from, to, x);
    if (to == WEFT_F32) return to_f32(p, from, x);
    if (weft_dtype_is_float(from)) return float_to_integer(to, to_f32(p, from, x));
    return integer_to_integer(p, from, to, x);
}

name weft_wgsl_bitcast(weft_wgsl_printer *p, weft_dtype from, weft_dtype to, name x) {
    if (from != to && is_native(p, from)) /* by arithmetic on the f32 that it is */
        return weft_wgsl_bitcast(p, WEFT_BF16, to, weft_piece_format("f16_of_f32(f32(%s))", x.text));
    if (from != to && is_native(p, to)) {
        name bits = weft_wgsl_bitcast(p, from, WEFT_U16, x);
        return weft_piece_format("f16(f32_of_f16(%s))", bits.text);
    }
    weft_wgsl_class a = weft_wgsl_class_of(p, from), b = weft_wgsl_class_of(p, to);
    if (a == WEFT_WGSL_NONE || b == WEFT_WGSL_NONE) {
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "the bits of a type that WGSL does not carry");
        return x;
    }
    if (a == b) return x; /* u16 and the bits of a 16-bit float are both zero-extended */
    return weft_wgsl_normal(is_half(to) ? WEFT_U16 : to,
                            weft_piece_format("bitcast<%s>(%s)", weft_wgsl_type(p, to), x.text));
}
