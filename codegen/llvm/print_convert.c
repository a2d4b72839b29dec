/* Conversions, with the meaning of kernel.h, without library calls.

   F16 goes through the machine's conversions, BF16 and F8 through integer sequences. Every narrow float is reached from
   F32; a wider source (F64, 32- and 64-bit integers) is first rounded to F32 "to odd" (truncate, then set the lowest
   bit if anything was lost), which makes the second rounding exact (Boldo and Melquiond 2008). float -> int:
   out-of-range lanes are replaced before the conversion, whose result would be undefined there. Read next:
   print_memory.c. */
#include <math.h>

#include "codegen/llvm/print.h"

typedef struct narrow_format {
    int exponent_bits, mantissa_bits, bias;
    bool ieee, fnuz; /* has infinities; else NaN is all ones, or (fnuz) the code of -0 */
} narrow_format;

static narrow_format format_of(weft_dtype elem) {
    switch ((int)elem) {
    case WEFT_F8E4M3FN: return (narrow_format){4, 3, 7, false, false};
    case WEFT_F8E4M3FNUZ: return (narrow_format){4, 3, 8, false, true};
    case WEFT_F8E5M2: return (narrow_format){5, 2, 15, true, false};
    case WEFT_F8E5M2FNUZ: return (narrow_format){5, 2, 16, false, true};
    default: return (narrow_format){0};
    }
}

/* Types and literals of one conversion. */
typedef struct shape {
    weft_llvm_printer *printer;
    int lanes;
    weft_llvm_name i8, i16, i32, f32, f64, mask;
} shape;

static shape shape_of(weft_llvm_printer *printer, int lanes) {
    return (shape){printer,
                   lanes,
                   weft_llvm_integer_type(8, lanes),
                   weft_llvm_integer_type(16, lanes),
                   weft_llvm_integer_type(32, lanes),
                   weft_llvm_elem_type(WEFT_F32, lanes),
                   weft_llvm_elem_type(WEFT_F64, lanes),
                   weft_llvm_integer_type(1, lanes)};
}

static weft_llvm_name half_type(const shape *s) {
    weft_llvm_name name = {"half"};
    if (s->lanes > 1) snprintf(name.text, sizeof name.text, "<%d x half>", s->lanes);
    return name;
}

static int binary(const shape *s, const char *op, int a, int64_t constant) {
    weft_llvm_name number = weft_llvm_integer(constant, 32, s->lanes);
    return weft_llvm_define(s->printer, "%s %s %%t%d, %s", op, s->i32.text, a, number.text);
}
static int pair(const shape *s, const char *op, int a, int b) {
    return weft_llvm_define(s->printer, "%s %s %%t%d, %%t%d", op, s->i32.text, a, b);
}
static int choose(const shape *s, int mask, int a, int b) {
    return weft_llvm_define(s->printer, "select %s %%t%d, %s %%t%d, %s %%t%d", s->mask.text, mask, s->i32.text, a,
                            s->i32.text, b);
}
static int choose_constant(const shape *s, int mask, int64_t a, int b) {
    weft_llvm_name number = weft_llvm_integer(a, 32, s->lanes);
    return weft_llvm_define(s->printer, "select %s %%t%d, %s %s, %s %%t%d", s->mask.text, mask, s->i32.text,
                            number.text, s->i32.text, b);
}
static int bits_of(const shape *s, int real) {
    return weft_llvm_define(s->printer, "bitcast %s %%t%d to %s", s->f32.text, real, s->i32.text);
}
static int real_of(const shape *s, int bits) {
    return weft_llvm_define(s->printer, "bitcast %s %%t%d to %s", s->i32.text, bits, s->f32.text);
}

/* -- narrow floats to F32 */

static int decode_f8(const shape *s, narrow_format f, int code) {
    int magnitude_bits = f.exponent_bits + f.mantissa_bits;
    int wide = weft_llvm_define(s->printer, "zext %s %%t%d to %s", s->i8.text, code, s->i32.text);
    int magnitude = binary(s, "and", wide, (1 << magnitude_bits) - 1);
    int shifted = real_of(s, binary(s, "shl", magnitude, 23 - f.mantissa_bits));
    weft_llvm_name scale = weft_llvm_float(ldexp(1, 127 - f.bias), WEFT_F32, s->lanes);
    int value = bits_of(s, weft_llvm_define(s->printer, "fmul %s %%t%d, %s", s->f32.text, shifted, scale.text));
    if (f.ieee) {
        int infinity = ((1 << f.exponent_bits) - 1) << f.mantissa_bits;
        value = choose_constant(s, binary(s, "icmp eq", magnitude, infinity), 0x7f800000, value);
        value = choose_constant(s, binary(s, "icmp ugt", magnitude, infinity), 0x7fc00000, value);
    } else if (!f.fnuz) {
        value = choose_constant(s, binary(s, "icmp eq", magnitude, (1 << magnitude_bits) - 1), 0x7fc00000, value);
    }
    int sign = binary(s, "shl", binary(s, "lshr", wide, magnitude_bits), 31);
    value = pair(s, "or", value, sign);
    if (f.fnuz) value = choose_constant(s, binary(s, "icmp eq", wide, 1 << magnitude_bits), 0x7fc00000, value);
    return real_of(s, value);
}

static int decode_e8m0(const shape *s, int code) { /* 2^(code - 127); code 0 is a subnormal float, 255 NaN */
    int wide = weft_llvm_define(s->printer, "zext %s %%t%d to %s", s->i8.text, code, s->i32.text);
    int value = binary(s, "shl", wide, 23);
    value = choose_constant(s, binary(s, "icmp eq", wide, 0), 0x00400000, value);
    return real_of(s, choose_constant(s, binary(s, "icmp eq", wide, 255), 0x7fc00000, value));
}

static int decode(const shape *s, weft_dtype elem, int code) {
    if (elem == WEFT_F16) {
        weft_llvm_name half = half_type(s);
        int value = weft_llvm_define(s->printer, "bitcast %s %%t%d to %s", s->i16.text, code, half.text);
        return weft_llvm_define(s->printer, "fpext %s %%t%d to %s", half.text, value, s->f32.text);
    }
    if (elem == WEFT_BF16) {
        int wide = weft_llvm_define(s->printer, "zext %s %%t%d to %s", s->i16.text, code, s->i32.text);
        return real_of(s, binary(s, "shl", wide, 16));
    }
    return elem == WEFT_F8E8M0FNU ? decode_e8m0(s, code) : decode_f8(s, format_of(elem), code);
}

/* -- F32 to narrow floats */

static int encode_f8(const shape *s, narrow_format f, int value) {
    int magnitude_bits = f.exponent_bits + f.mantissa_bits, shift = 23 - f.mantissa_bits;
    int ones = (1 << magnitude_bits) - 1, infinity = ((1 << f.exponent_bits) - 1) << f.mantissa_bits;
    int largest = f.ieee   ? infinity - 1
                  : f.fnuz ? ones
                           : ones - 1,
        nan = f.ieee ? infinity | 1 << (f.mantissa_bits - 1) : ones;
    int bits = bits_of(s, value), magnitude = binary(s, "and", bits, 0x7fffffff);
    int odd = binary(s, "and", binary(s, "lshr", magnitude, shift), 1);
    int rounded = pair(s, "add", binary(s, "add", magnitude, (1 << (shift - 1)) - 1), odd);
    int normal = binary(s, "sub", binary(s, "lshr", rounded, shift), (int64_t)(127 - f.bias) << f.mantissa_bits);
    /* Subnormal results: the addition rounds to multiples of the smallest subnormal, whose count is then in the low
     * bits. */
    weft_llvm_name magic = weft_llvm_float(ldexp(1, 24 - f.bias - f.mantissa_bits), WEFT_F32, s->lanes);
    int sum = weft_llvm_define(s->printer, "fadd %s %%t%d, %s", s->f32.text, real_of(s, magnitude), magic.text);
    int subnormal = binary(s, "sub", bits_of(s, sum), (int64_t)(127 + 24 - f.bias - f.mantissa_bits) << 23);
    int code = choose(s, binary(s, "icmp ult", magnitude, (int64_t)(128 - f.bias) << 23), subnormal, normal);
    code = choose_constant(s, binary(s, "icmp ugt", code, largest), f.ieee ? infinity : nan, code);
    code = choose_constant(s, binary(s, "icmp ugt", magnitude, 0x7f800000), nan, code);
    int sign = binary(s, "shl", binary(s, "lshr", bits, 31), magnitude_bits);
    int result = pair(s, "or", code, sign);
    if (f.fnuz) { /* no -0; its code is the only NaN */
        result = choose_constant(s, binary(s, "icmp eq", code, 0), 0, result);
        int is_nan = binary(s, "icmp ugt", magnitude, 0x7f800000);
        int past = binary(s, "icmp ugt", normal, largest),
            tiny = binary(s, "icmp ult", magnitude, (int64_t)(128 - f.bias) << 23);
        weft_llvm_name none = weft_llvm_integer(0, 1, s->lanes);
        past = weft_llvm_define(s->printer, "select %s %%t%d, %s %s, %s %%t%d", s->mask.text, tiny, s->mask.text,
                                none.text, s->mask.text, past);
        result = choose_constant(s, past, 1 << magnitude_bits, result);
        result = choose_constant(s, is_nan, 1 << magnitude_bits, result);
    }
    return weft_llvm_define(s->printer, "trunc %s %%t%d to %s", s->i32.text, result, s->i8.text);
}

static int encode_e8m0(const shape *s, int value) { /* nearest power of two, ties up; negative and NaN give NaN */
    int bits = bits_of(s, value), magnitude = binary(s, "and", bits, 0x7fffffff);
    int code = binary(s, "lshr", binary(s, "add", bits, 0x00400000), 23);
    int low = weft_llvm_define(s->printer, "zext %s %%t%d to %s", s->mask.text, binary(s, "icmp uge", bits, 0x00600000),
                               s->i32.text);
    code = choose(s, binary(s, "icmp ult", bits, 0x00800000), low, code);
    code = choose_constant(s, binary(s, "icmp ugt", bits, 0x7f800000), 255, code);
    code = choose_constant(s, binary(s, "icmp eq", magnitude, 0), 0, code);
    return weft_llvm_define(s->printer, "trunc %s %%t%d to %s", s->i32.text, code, s->i8.text);
}

static int encode(const shape *s, weft_dtype elem, int value) {
    if (elem == WEFT_F16) {
        weft_llvm_name half = half_type(s);
        int narrow = weft_llvm_define(s->printer, "fptrunc %s %%t%d to %s", s->f32.text, value, half.text);
        return weft_llvm_define(s->printer, "bitcast %s %%t%d to %s", half.text, narrow, s->i16.text);
    }
    if (elem == WEFT_BF16) {
        int bits = bits_of(s, value), magnitude = binary(s, "and", bits, 0x7fffffff);
        int odd = binary(s, "and", binary(s, "lshr", bits, 16), 1);
        int rounded = pair(s, "add", binary(s, "add", bits, 0x7fff), odd);
        int quiet = binary(s, "or", bits, 0x00400000);
        int code = choose(s, binary(s, "icmp ugt", magnitude, 0x7f800000), quiet, rounded);
        return weft_llvm_define(s->printer, "trunc %s %%t%d to %s", s->i32.text, binary(s, "lshr", code, 16),
                                s->i16.text);
    }
    return elem == WEFT_F8E8M0FNU ? encode_e8m0(s, value) : encode_f8(s, format_of(elem), value);
}

/* F64 to F32, rounded to odd. */
static int round_to_odd(const shape *s, int value) {
    int nearest = weft_llvm_define(s->printer, "fptrunc %s %%t%d to %s", s->f64.text, value, s->f32.text);
    int back = weft_llvm_define(s->printer, "fpext %s %%t%d to %s", s->f32.text, nearest, s->f64.text);
    weft_llvm_name suffix = weft_llvm_suffix(WEFT_F64, s->lanes);
    int a =
        weft_llvm_define(s->printer, "call %s @llvm.fabs.%s(%s %%t%d)", s->f64.text, suffix.text, s->f64.text, back);
    int b =
        weft_llvm_define(s->printer, "call %s @llvm.fabs.%s(%s %%t%d)", s->f64.text, suffix.text, s->f64.text, value);
    int above = weft_llvm_define(s->printer, "fcmp ogt %s %%t%d, %%t%d", s->f64.text, a, b);
    int inexact = weft_llvm_define(s->printer, "fcmp one %s %%t%d, %%t%d", s->f64.text, a, b);
    int minus = weft_llvm_define(s->printer, "sext %s %%t%d to %s", s->mask.text, above, s->i32.text);
    int sticky = weft_llvm_define(s->printer, "zext %s %%t%d to %s", s->mask.text, inexact, s->i32.text);
    return real_of(s, pair(s, "or", pair(s, "add", bits_of(s, nearest), minus), sticky));
}

/* -- integers */

static bool is_wide_float(weft_dtype elem) { return elem == WEFT_F32 || elem == WEFT_F64; }
static bool is_narrow_float(weft_dtype elem) { return weft_dtype_is_float(elem) && !is_wide_float(elem); }
static bool is_signed(weft_dtype elem) { return weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED; }

/* A 64-bit integer to F64: what lies below bit 12 only says "not zero", so that no rounding happens. */
static int integer_to_f64(const shape *s, weft_dtype from, const char *type, int value) {
    const char *convert = is_signed(from) ? "sitofp" : "uitofp";
    if (from != WEFT_BOOL && weft_dtype_bits(from) == 64) {
        weft_llvm_name low_mask = weft_llvm_integer(4095, 64, s->lanes),
                       high_mask = weft_llvm_integer(~INT64_C(4095), 64, s->lanes);
        weft_llvm_name zero = weft_llvm_integer(0, 64, s->lanes), shift = weft_llvm_integer(11, 64, s->lanes);
        int low = weft_llvm_define(s->printer, "and %s %%t%d, %s", type, value, low_mask.text);
        int lost = weft_llvm_define(s->printer, "icmp ne %s %%t%d, %s", type, low, zero.text);
        int sticky = weft_llvm_define(s->printer, "zext %s %%t%d to %s", s->mask.text, lost, type);
        int high = weft_llvm_define(s->printer, "and %s %%t%d, %s", type, value, high_mask.text);
        sticky = weft_llvm_define(s->printer, "shl %s %%t%d, %s", type, sticky, shift.text);
        int marked = weft_llvm_define(s->printer, "or %s %%t%d, %%t%d", type, high, sticky);
        /* Values that F64 holds exactly stay as they are. */
        weft_llvm_name edge = weft_llvm_integer(INT64_C(1) << 52, 64, s->lanes),
                       span = weft_llvm_integer(INT64_C(1) << 53, 64, s->lanes);
        int moved = is_signed(from) ? weft_llvm_define(s->printer, "add %s %%t%d, %s", type, value, edge.text) : value;
        int small = weft_llvm_define(s->printer, "icmp ult %s %%t%d, %s", type, moved, span.text);
        value = weft_llvm_define(s->printer, "select %s %%t%d, %s %%t%d, %s %%t%d", s->mask.text, small, type, value,
                                 type, marked);
    }
    return weft_llvm_define(s->printer, "%s %s %%t%d to %s", convert, type, value, s->f64.text);
}

static int float_to_integer(const shape *s, weft_dtype from, weft_dtype to, int value) {
    int bits = weft_dtype_bits(to);
    bool sign = is_signed(to);
    weft_llvm_name real = weft_llvm_elem_type(from, s->lanes), result = weft_llvm_elem_type(to, s->lanes);
    double limit = ldexp(1, sign ? bits - 1 : bits), bottom = sign ? -limit : 0;
    int64_t least = sign ? (int64_t)(UINT64_C(1) << (bits - 1)) : 0,
            most = sign ? (int64_t)((UINT64_C(1) << (bits - 1)) - 1) : -1;
    weft_llvm_name high = weft_llvm_float(limit, from, s->lanes), low = weft_llvm_float(bottom, from, s->lanes),
                   zero = weft_llvm_float(0, from, s->lanes);
    weft_llvm_name least_name = weft_llvm_integer(least, bits, s->lanes),
                   most_name = weft_llvm_integer(most, bits, s->lanes);
    int above = weft_llvm_define(s->printer, "fcmp oge %s %%t%d, %s", real.text, value, high.text);
    int below = weft_llvm_define(s->printer, "fcmp olt %s %%t%d, %s", real.text, value, low.text);
    int ordered = weft_llvm_define(s->printer, "fcmp ord %s %%t%d, %%t%d", real.text, value, value);
    int outside = weft_llvm_define(s->printer, "or %s %%t%d, %%t%d", s->mask.text, above, below);
    int safe = weft_llvm_define(s->printer, "select %s %%t%d, %s %s, %s %%t%d", s->mask.text, outside, real.text,
                                zero.text, real.text, value);
    safe = weft_llvm_define(s->printer, "select %s %%t%d, %s %%t%d, %s %s", s->mask.text, ordered, real.text, safe,
                            real.text, zero.text);
    int number;
    if (bits < 32) {
        number = weft_llvm_define(s->printer, "fptosi %s %%t%d to %s", real.text, safe, s->i32.text);
        number = weft_llvm_define(s->printer, "trunc %s %%t%d to %s", s->i32.text, number, result.text);
    } else {
        number =
            weft_llvm_define(s->printer, "%s %s %%t%d to %s", sign ? "fptosi" : "fptoui", real.text, safe, result.text);
    }
    number = weft_llvm_define(s->printer, "select %s %%t%d, %s %s, %s %%t%d", s->mask.text, above, result.text,
                              most_name.text, result.text, number);
    return weft_llvm_define(s->printer, "select %s %%t%d, %s %s, %s %%t%d", s->mask.text, below, result.text,
                            least_name.text, result.text, number);
}

static int integer_to_integer(const shape *s, weft_dtype from, weft_dtype to, int value) {
    int from_bits = from == WEFT_BOOL ? 1 : weft_dtype_bits(from), to_bits = weft_dtype_bits(to);
    weft_llvm_name source = weft_llvm_elem_type(from, s->lanes), result = weft_llvm_elem_type(to, s->lanes);
    if (from_bits == to_bits) return value;
    const char *op = from_bits > to_bits ? "trunc" : is_signed(from) ? "sext" : "zext";
    return weft_llvm_define(s->printer, "%s %s %%t%d to %s", op, source.text, value, result.text);
}

static int integer_to_float(const shape *s, weft_dtype from, weft_dtype to, int value) {
    weft_llvm_name source = weft_llvm_elem_type(from, s->lanes), result = weft_llvm_elem_type(to, s->lanes);
    if (is_wide_float(to))
        return weft_llvm_define(s->printer, "%s %s %%t%d to %s", is_signed(from) ? "sitofp" : "uitofp", source.text,
                                value, result.text);
    return encode(s, to, round_to_odd(s, integer_to_f64(s, from, source.text, value)));
}

static int convert(const shape *s, weft_dtype from, weft_dtype to, int value) {
    if (is_narrow_float(from)) { /* exact */
        value = decode(s, from, value);
        from = WEFT_F32;
    }
    weft_llvm_name source = weft_llvm_elem_type(from, s->lanes), result = weft_llvm_elem_type(to, s->lanes);
    if (from == to) return value;
    if (to == WEFT_BOOL) {
        weft_llvm_name zero = is_wide_float(from) ? weft_llvm_float(0, from, s->lanes)
                                                  : weft_llvm_integer(0, weft_dtype_bits(from), s->lanes);
        return weft_llvm_define(s->printer, "%s %s %%t%d, %s", is_wide_float(from) ? "fcmp une" : "icmp ne",
                                source.text, value, zero.text);
    }
    if (is_wide_float(from)) {
        if (!weft_dtype_is_float(to)) return float_to_integer(s, from, to, value);
        if (is_narrow_float(to)) return encode(s, to, from == WEFT_F64 ? round_to_odd(s, value) : value);
        return weft_llvm_define(s->printer, "%s %s %%t%d to %s", from == WEFT_F32 ? "fpext" : "fptrunc", source.text,
                                value, result.text);
    }
    return weft_dtype_is_float(to) ? integer_to_float(s, from, to, value) : integer_to_integer(s, from, to, value);
}

static bool is_convertible(weft_dtype elem) {
    weft_dtype_kind kind = weft_dtype_kind_of(elem);
    return (kind == WEFT_KIND_BOOL || kind == WEFT_KIND_SIGNED || kind == WEFT_KIND_UNSIGNED ||
            kind == WEFT_KIND_FLOAT) &&
           weft_dtype_bits(elem) >= 8;
}

static bool fold_integer(weft_llvm_printer *printer, int32_t at, weft_dtype from, weft_dtype to, weft_kval operand) {
    int64_t number;
    if (weft_dtype_is_float(from) || weft_dtype_is_float(to) || !weft_llvm_known(printer, operand, &number))
        return false;
    int bits = to == WEFT_BOOL ? 1 : weft_dtype_bits(to);
    if (to == WEFT_BOOL)
        number = number != 0;
    else if (bits < 64)
        number = is_signed(to) ? (int64_t)((uint64_t)number << (64 - bits)) >> (64 - bits)
                               : (int64_t)((uint64_t)number << (64 - bits) >> (64 - bits));
    weft_llvm_bind_integer(printer, at, number);
    return true;
}

bool weft_llvm_print_convert(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    if (instr->op != WEFT_K_convert && instr->op != WEFT_K_bitcast) return false;
    weft_kval operand = weft_koperand(printer->kernel, instr, 0);
    weft_dtype from = (weft_dtype)weft_ktype_of(printer->kernel, operand).elem, to = (weft_dtype)instr->type.elem;
    weft_llvm_name source = weft_llvm_type_of(printer, operand), result = weft_llvm_type_of(printer, at);
    if (!is_convertible(from) || !is_convertible(to)) {
        weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "converts a type that has no values here");
        return true;
    }
    if (instr->op == WEFT_K_convert && fold_integer(printer, at, from, to, operand)) return true;
    weft_llvm_name value = weft_llvm_operand(printer, instr, 0);
    int copy = weft_llvm_define(printer, "bitcast %s %s to %s", source.text, value.text,
                                instr->op == WEFT_K_bitcast ? result.text : source.text);
    shape s = shape_of(printer, instr->type.lanes);
    weft_llvm_bind(printer, at, instr->op == WEFT_K_bitcast ? copy : convert(&s, from, to, copy));
    return true;
}
