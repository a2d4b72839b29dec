/* Values: arithmetic, conversions, lanes. One constant per lane; see print.h. Signed arithmetic wraps, so it is written
   on unsigned types. */
#include "codegen/cxx/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

typedef weft_piece name;

static bool is_float(weft_dtype d) { return weft_dtype_is_float(d); }
static bool is_signed(weft_dtype d) { return weft_dtype_kind_of(d) == WEFT_KIND_SIGNED; }
static bool is_half(weft_dtype d) { return d == WEFT_F16 || d == WEFT_BF16; }
static const char *half_name(weft_dtype d) { return d == WEFT_F16 ? "f16" : "bf16"; }
static const char *wide_unsigned(weft_dtype d) { return weft_dtype_bits(d) == 64 ? "u64" : "u32"; }

static name operand(const weft_cxx_printer *p, const weft_kinstr *instr, int index, int lane) {
    weft_kval value = weft_koperand(p->kernel, instr, index);
    return weft_cxx_value(p, value, weft_ktype_of(p->kernel, value).lanes > 1 ? lane : 0);
}

static weft_dtype operand_elem(const weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    return (weft_dtype)weft_ktype_of(p->kernel, weft_koperand(p->kernel, instr, index)).elem;
}

static int lanes_of(const weft_cxx_printer *p, const weft_kinstr *instr) {
    return p->scalar_body ? 1 : instr->type.lanes;
}

static void define(weft_cxx_printer *p, weft_kval id, int lane, const char *format, ...) WEFT_PRINTF(4, 5);
static void define(weft_cxx_printer *p, weft_kval id, int lane, const char *format, ...) {
    char expression[400];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(expression, sizeof expression, format, list);
    va_end(list);
    if (length >= (int)sizeof expression) weft_cxx_fail(p, WEFT_INTERNAL, "expression too long");
    weft_cxx_line(p, "const %s %s = %s;", weft_cxx_type((weft_dtype)weft_kernel_get(p->kernel, id)->type.elem),
                  weft_cxx_value(p, id, lane).text, expression);
}

/* -- arithmetic */

static const char *operator_of(int op) {
    switch (op) {
    case WEFT_K_add: return "+";
    case WEFT_K_sub: return "-";
    case WEFT_K_mul: return "*";
    case WEFT_K_div: return "/";
    case WEFT_K_rem: return "%";
    case WEFT_K_and: return "&";
    case WEFT_K_or: return "|";
    case WEFT_K_xor: return "^";
    case WEFT_K_shl: return "<<";
    case WEFT_K_shr: return ">>";
    case WEFT_K_eq: return "==";
    case WEFT_K_ne: return "!=";
    case WEFT_K_lt: return "<";
    case WEFT_K_le: return "<=";
    default: return NULL;
    }
}

static void print_binary(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    weft_dtype elem = operand_elem(p, instr, 0);
    name a = operand(p, instr, 0, lane), b = operand(p, instr, 1, lane);
    const char *sign = operator_of(instr->op), *type = weft_cxx_type(elem);
    bool wraps = is_signed(elem) && (instr->op == WEFT_K_add || instr->op == WEFT_K_sub || instr->op == WEFT_K_mul ||
                                     instr->op == WEFT_K_shl);
    if (is_half(elem)) {
        bool compares =
            instr->op == WEFT_K_eq || instr->op == WEFT_K_ne || instr->op == WEFT_K_lt || instr->op == WEFT_K_le;
        if (!compares) weft_cxx_fail(p, WEFT_INTERNAL, "arithmetic on 16-bit floats");
        define(p, id, lane, "f32_of_%s(%s) %s f32_of_%s(%s)", half_name(elem), a.text, sign, half_name(elem), b.text);
    } else if (wraps)
        define(p, id, lane, "(%s)((%s)%s %s (%s)%s)", type, wide_unsigned(elem), a.text, sign, wide_unsigned(elem),
               b.text);
    else if (weft_dtype_bits(elem) < 32 && elem != WEFT_BOOL && !is_float(elem) && instr->type.elem != WEFT_BOOL)
        define(p, id, lane, "(%s)(%s %s %s)", type, a.text, sign, b.text);
    else
        define(p, id, lane, "%s %s %s", a.text, sign, b.text);
}

static void print_unary(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    const char *type = weft_cxx_type(elem), *x = NULL;
    name a = operand(p, instr, 0, lane);
    const char *suffix = elem == WEFT_F32 ? "f" : "";
    switch ((int)instr->op) {
    case WEFT_K_not: define(p, id, lane, elem == WEFT_BOOL ? "!%s" : "~%s", a.text); return;
    case WEFT_K_neg:
        if (is_float(elem))
            define(p, id, lane, "-%s", a.text);
        else
            define(p, id, lane, "(%s)(0 - (%s)%s)", type, wide_unsigned(elem), a.text);
        return;
    case WEFT_K_abs:
        if (is_float(elem))
            define(p, id, lane, "fabs%s(%s)", suffix, a.text);
        else if (is_signed(elem))
            define(p, id, lane, "%s < 0 ? (%s)(0 - (%s)%s) : %s", a.text, type, wide_unsigned(elem), a.text, a.text);
        else
            define(p, id, lane, "%s", a.text);
        return;
    case WEFT_K_popcount:
        define(p, id, lane, weft_dtype_bits(elem) == 64 ? "popcount64((u64)%s)" : "popcount32((u32)(%s) & %s)", a.text,
               weft_dtype_bits(elem) == 8    ? "255u"
               : weft_dtype_bits(elem) == 16 ? "65535u"
                                             : "~0u");
        return;
    case WEFT_K_floor: x = "floor"; break;
    case WEFT_K_ceil: x = "ceil"; break;
    case WEFT_K_trunc: x = "trunc"; break;
    case WEFT_K_round: x = "rint"; break;
    case WEFT_K_sqrt: x = "sqrt"; break;
    default:
        define(p, id, lane, "%s(%s)", weft_kop_name((weft_kop)instr->op), a.text); /* exp2_fast ... */
        return;
    }
    define(p, id, lane, "%s%s(%s)", x, suffix, a.text);
}

/* a is NaN ? a : extreme of a and b: one instruction for f32. The extreme; NULL when the select is another. */
static const weft_kinstr *nan_extreme(const weft_cxx_printer *p, const weft_kinstr *instr) {
    const weft_kernel *k = p->kernel;
    weft_kval a = weft_koperand(k, instr, 1);
    const weft_kinstr *test = weft_kernel_get(k, weft_koperand(k, instr, 0)),
                      *extreme = weft_kernel_get(k, weft_koperand(k, instr, 2));
    bool fits = instr->op == WEFT_K_select && instr->type.elem == WEFT_F32 && test->op == WEFT_K_ne &&
                (extreme->op == WEFT_K_max || extreme->op == WEFT_K_min) && extreme->i == 0;
    return fits && weft_koperand(k, test, 0) == a && weft_koperand(k, test, 1) == a && weft_koperand(k, extreme, 0) == a
               ? extreme
               : NULL;
}

static void print_special(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    name a = operand(p, instr, 0, lane), b = operand(p, instr, 1, lane);
    const char *suffix = elem == WEFT_F32 ? "f" : "";
    switch ((int)instr->op) {
    case WEFT_K_min:
    case WEFT_K_max:
        if (is_half(elem))
            define(p, id, lane, "f32_of_%s(%s) %s f32_of_%s(%s) ? %s : %s", half_name(elem), a.text,
                   instr->op == WEFT_K_min ? "<" : ">", half_name(elem), b.text, a.text, b.text);
        else if (instr->i == 1 && elem == WEFT_F32)
            define(p, id, lane, "%s(%s, %s)", instr->op == WEFT_K_min ? "fminf" : "fmaxf", a.text, b.text);
        else
            define(p, id, lane, "%s<%s>(%s, %s)", instr->op == WEFT_K_min ? "minimum" : "maximum", weft_cxx_type(elem),
                   a.text, b.text);
        return;
    case WEFT_K_copysign: define(p, id, lane, "copysign%s(%s, %s)", suffix, a.text, b.text); return;
    case WEFT_K_fma:
        define(p, id, lane, "fma%s(%s, %s, %s)", suffix, a.text, b.text, operand(p, instr, 2, lane).text);
        return;
    case WEFT_K_mul_high: define(p, id, lane, "mul_high(%s, %s)", a.text, b.text); return;
    default: break; /* select */
    }
    const weft_kinstr *extreme = nan_extreme(p, instr);
    if (extreme)
        define(p, id, lane, "%s(%s, %s)", extreme->op == WEFT_K_min ? "min_nan" : "max_nan",
               operand(p, extreme, 0, lane).text, operand(p, extreme, 1, lane).text);
    else
        define(p, id, lane, "%s ? %s : %s", a.text, b.text, operand(p, instr, 2, lane).text);
}

/* -- conversions */

static bool is_float8(weft_dtype d) { return weft_dtype_is_float(d) && weft_dtype_bits(d) == 8; }

static name to_f32(weft_dtype from, name x) {
    name out;
    if (is_float8(from))
        out = weft_piece_format("f32_of_%s(%s)", weft_dtype_name(from), x.text);
    else if (is_half(from))
        out = weft_piece_format("f32_of_%s(%s)", half_name(from), x.text);
    else if (from == WEFT_BOOL)
        out = weft_piece_format("(%s ? 1.f : 0.f)", x.text);
    else
        out = weft_piece_format("(float)%s", x.text);
    return out;
}

/* To a float of 16 or 8 bits. */
static void convert_to_half(weft_cxx_printer *p, weft_kval id, weft_dtype from, weft_dtype to, name x, int lane) {
    const char *half = is_float8(to) ? weft_dtype_name(to) : half_name(to);
    if (from == WEFT_F64)
        define(p, id, lane, "%s_of_f32(odd_of_f64(%s))", half, x.text);
    else if (from == WEFT_F32 || is_half(from) || from == WEFT_BOOL || weft_dtype_bits(from) <= 16)
        define(p, id, lane, "%s_of_f32(%s)", half, from == WEFT_F32 ? x.text : to_f32(from, x).text);
    else if (from == WEFT_U64)
        define(p, id, lane, "%s_of_f32(odd_of_u64(%s))", half, x.text);
    else
        define(p, id, lane, "%s_of_f32(odd_of_i64((i64)%s))", half, x.text);
}

static bool known_type(weft_dtype d) {
    return is_half(d) || is_float8(d) || d == WEFT_F32 || d == WEFT_F64 || d == WEFT_BOOL || weft_dtype_is_integer(d);
}

static void print_convert(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    weft_dtype from = operand_elem(p, instr, 0), to = (weft_dtype)instr->type.elem;
    name x = operand(p, instr, 0, lane);
    if (!known_type(from) || !known_type(to)) {
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "conversion of floats below 8 bits");
        return;
    }
    if (is_float8(from)) x = to_f32(from, x), from = WEFT_F32;
    if (to == WEFT_BOOL)
        define(p, id, lane, "%s != 0", is_half(from) ? to_f32(from, x).text : x.text);
    else if (is_half(to) || is_float8(to))
        convert_to_half(p, id, from, to, x, lane);
    else if (to == WEFT_F32)
        define(p, id, lane, "%s", from == WEFT_F32 ? x.text : to_f32(from, x).text);
    else if (to == WEFT_F64)
        define(p, id, lane, "(double)%s", is_half(from) || from == WEFT_BOOL ? to_f32(from, x).text : x.text);
    else if (is_float(from)) /* saturating */
        define(p, id, lane, "(%s)%s_of(%s)", weft_cxx_type(to), weft_dtype_name(to),
               is_half(from) ? to_f32(from, x).text : x.text);
    else
        define(p, id, lane, "(%s)%s", weft_cxx_type(to), x.text);
}

/* Two lanes of f32 -> 16-bit in one instruction. */
static void print_convert_pair(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    weft_dtype to = (weft_dtype)instr->type.elem;
    weft_cxx_line(p, "const u32 v%d_p%d = pack_%s(%s, %s);", id, lane, half_name(to), operand(p, instr, 0, lane).text,
                  operand(p, instr, 0, lane + 1).text);
    define(p, id, lane, "(u16)v%d_p%d", id, lane);
    define(p, id, lane + 1, "(u16)(v%d_p%d >> 16)", id, lane);
}

static void print_bitcast(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    weft_dtype from = operand_elem(p, instr, 0), to = (weft_dtype)instr->type.elem;
    name x = operand(p, instr, 0, lane);
    const char *type = weft_cxx_type(to);
    if (from == WEFT_F32 && to != WEFT_F32)
        define(p, id, lane, "(%s)bits_of_f32(%s)", type, x.text);
    else if (to == WEFT_F32 && from != WEFT_F32)
        define(p, id, lane, "f32_of_bits((u32)%s)", x.text);
    else if (from == WEFT_F64 && to != WEFT_F64)
        define(p, id, lane, "(%s)bits_of_f64(%s)", type, x.text);
    else if (to == WEFT_F64 && from != WEFT_F64)
        define(p, id, lane, "f64_of_bits((u64)%s)", x.text);
    else
        define(p, id, lane, "(%s)%s", type, x.text);
}

/* -- lanes */

/* By halves: lane i with lane i + count / 2. */
static void print_reduce(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    weft_kval vector = weft_koperand(p->kernel, instr, 0);
    int count = weft_ktype_of(p->kernel, vector).lanes;
    const char *type = weft_cxx_type((weft_dtype)instr->type.elem);
    const char *call = instr->op == WEFT_K_reduce_min ? "minimum" : instr->op == WEFT_K_reduce_max ? "maximum" : NULL;
    const char *sign = instr->op == WEFT_K_reduce_add   ? "+"
                       : instr->op == WEFT_K_reduce_mul ? "*"
                       : instr->op == WEFT_K_reduce_and ? "&"
                                                        : "|";
    if (count & (count - 1))
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "reduction of a vector whose lanes are no power of two");
    weft_cxx_line(p, "%s v%d;", type, id);
    weft_cxx_line(p, "{");
    p->depth++;
    int label = 0;
    name current[64];
    if (count > 64) weft_cxx_fail(p, WEFT_UNSUPPORTED, "reduction of more than 64 lanes");
    for (int i = 0; i < count && i < 64; i++) current[i] = weft_cxx_value(p, vector, i);
    for (int half = count / 2; half >= 1 && count <= 64; half /= 2)
        for (int i = 0; i < half; i++) {
            const char *x = current[i].text, *y = current[i + half].text;
            if (call)
                weft_cxx_line(p, "const %s r%d_%d = %s<%s>(%s, %s);", type, id, label, call, type, x, y);
            else
                weft_cxx_line(p, "const %s r%d_%d = (%s)(%s %s %s);", type, id, label, type, x, sign, y);
            current[i] = weft_piece_format("r%d_%d", id, label++);
        }
    weft_cxx_line(p, "v%d = %s;", id, current[0].text);
    p->depth--;
    weft_cxx_line(p, "}");
}

static void print_call(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    char list[360] = "";
    size_t used = 0;
    for (int i = 1; i < instr->operand_count; i++) {
        int n = snprintf(list + used, sizeof list - used, "%s%s", i > 1 ? ", " : "", operand(p, instr, i, lane).text);
        used += (size_t)n;
        if (used >= sizeof list) {
            weft_cxx_fail(p, WEFT_UNSUPPORTED, "a func with too many parameters");
            return;
        }
    }
    define(p, id, lane, "%s_f%d(%.300s)", p->kernel->name, weft_koperand(p->kernel, instr, 0), list);
}

static bool print_lane(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    const char *type = weft_cxx_type((weft_dtype)instr->type.elem);
    switch ((int)instr->op) {
    case WEFT_K_scalar_argument: define(p, id, lane, "(%s)a%d", type, (int)instr->i); return true;
    case WEFT_K_thread: define(p, id, lane, "(%s)%s", type, p->dialect->thread); return true;
    case WEFT_K_block: define(p, id, lane, "(%s)%s", type, p->dialect->block); return true;
    case WEFT_K_grid: define(p, id, lane, "(%s)%s", type, p->dialect->grid); return true;
    case WEFT_K_add:
    case WEFT_K_sub:
    case WEFT_K_mul:
    case WEFT_K_div:
    case WEFT_K_rem:
    case WEFT_K_and:
    case WEFT_K_or:
    case WEFT_K_xor:
    case WEFT_K_shl:
    case WEFT_K_shr:
    case WEFT_K_eq:
    case WEFT_K_ne:
    case WEFT_K_lt:
    case WEFT_K_le: print_binary(p, id, instr, lane); return true;
    case WEFT_K_not:
    case WEFT_K_neg:
    case WEFT_K_abs:
    case WEFT_K_popcount:
    case WEFT_K_floor:
    case WEFT_K_ceil:
    case WEFT_K_trunc:
    case WEFT_K_round:
    case WEFT_K_sqrt:
    case WEFT_K_exp2_fast:
    case WEFT_K_log2_fast:
    case WEFT_K_rcp_fast:
    case WEFT_K_rsqrt_fast:
    case WEFT_K_tanh_fast: print_unary(p, id, instr, lane); return true;
    case WEFT_K_min:
    case WEFT_K_max:
    case WEFT_K_copysign:
    case WEFT_K_fma:
    case WEFT_K_mul_high:
    case WEFT_K_select: print_special(p, id, instr, lane); return true;
    case WEFT_K_convert: print_convert(p, id, instr, lane); return true;
    case WEFT_K_bitcast: print_bitcast(p, id, instr, lane); return true;
    case WEFT_K_iota: define(p, id, lane, "%d", lane); return true;
    case WEFT_K_extract:
        define(p, id, lane, "%s", weft_cxx_value(p, weft_koperand(p->kernel, instr, 0), (int)instr->i).text);
        return true;
    case WEFT_K_insert:
        define(p, id, lane, "%s", lane == instr->i ? operand(p, instr, 1, 0).text : operand(p, instr, 0, lane).text);
        return true;
    case WEFT_K_deal:
    case WEFT_K_zip: {
        int from, at = weft_kernel_dealt(instr, lane, &from);
        define(p, id, lane, "%s", operand(p, instr, from, at).text);
        return true;
    }
    case WEFT_K_call: print_call(p, id, instr, lane); return true;
    case WEFT_K_shuffle_xor:
        define(p, id, lane, "shuffle_xor<%s>(%s, %d)", type, operand(p, instr, 0, lane).text, (int)instr->i);
        return true;
    case WEFT_K_pack:
        define(p, id, lane, "pack_%s(%s, %s)", half_name((weft_dtype)instr->i), operand(p, instr, 0, lane).text,
               operand(p, instr, 1, lane).text);
        return true;
    case WEFT_K_unpack:
        define(p, id, lane, "%s_%s(%s)", half_name((weft_dtype)(instr->i & 255)), instr->i >> 8 ? "high" : "low",
               operand(p, instr, 0, lane).text);
        return true;
    default: return false;
    }
}

bool weft_cxx_print_value(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    if (instr->type.kind != WEFT_KIND_VALUE) return false;
    if (instr->op == WEFT_K_constant || instr->op == WEFT_K_splat) return true; /* printed where they are used */
    if (instr->op >= WEFT_K_reduce_add && instr->op <= WEFT_K_reduce_or) {
        print_reduce(p, id, instr);
        return true;
    }
    int lanes = lanes_of(p, instr);
    bool lanewise_only = instr->op >= WEFT_K_iota && instr->op <= WEFT_K_zip;
    if (p->scalar_body && lanewise_only && instr->type.lanes > 1)
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "lanes inside a func");
    bool pairs = instr->op == WEFT_K_convert && lanes % 2 == 0 && is_half((weft_dtype)instr->type.elem) &&
                 operand_elem(p, instr, 0) == WEFT_F32;
    for (int lane = 0; lane < lanes; lane += pairs ? 2 : 1) {
        if (pairs)
            print_convert_pair(p, id, instr, lane);
        else if (!print_lane(p, id, instr, lane))
            return false;
    }
    return true;
}
