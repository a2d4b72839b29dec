/* Values: arithmetic and lanes. One scalar per lane; see print.h. Integers of 32 bits wrap in WGSL, narrower ones are
   cut back after each operation that can leave their range. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/webgpu/print.h"

typedef weft_piece name;

static bool is_signed(weft_dtype d) { return weft_dtype_kind_of(d) == WEFT_KIND_SIGNED; }

static name operand(const weft_wgsl_printer *p, const weft_kinstr *instr, int index, int lane) {
    return weft_wgsl_lane(p, weft_koperand(p->kernel, instr, index), lane);
}

static weft_dtype operand_elem(const weft_wgsl_printer *p, const weft_kinstr *instr, int index) {
    return (weft_dtype)weft_ktype_of(p->kernel, weft_koperand(p->kernel, instr, index)).elem;
}

name weft_wgsl_normal(weft_dtype elem, name x) {
    int bits = weft_dtype_bits(elem);
    if (elem == WEFT_BOOL || bits >= 32 || weft_dtype_is_float(elem)) return x;
    if (is_signed(elem)) return weft_piece_format("((%s) << %du) >> %du", x.text, 32 - bits, 32 - bits);
    return weft_piece_format("(%s) & %uu", x.text, (1u << bits) - 1);
}

/* -- two operands, by the carrier's class; also what reductions of lanes are made of */

static name binary_bool(weft_wgsl_printer *p, int op, name a, name b) {
    switch (op) {
    case WEFT_K_and:
    case WEFT_K_min:
    case WEFT_K_reduce_and:
    case WEFT_K_reduce_min: return weft_piece_format("%s & %s", a.text, b.text);
    case WEFT_K_or:
    case WEFT_K_max:
    case WEFT_K_reduce_or:
    case WEFT_K_reduce_max: return weft_piece_format("%s | %s", a.text, b.text);
    case WEFT_K_xor:
    case WEFT_K_ne: return weft_piece_format("%s != %s", a.text, b.text);
    case WEFT_K_eq: return weft_piece_format("%s == %s", a.text, b.text);
    case WEFT_K_lt: return weft_piece_format("!%s & %s", a.text, b.text);
    case WEFT_K_le: return weft_piece_format("!%s | %s", a.text, b.text);
    default: weft_wgsl_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)op)); return a;
    }
}

static name binary_float(weft_wgsl_printer *p, int op, bool loose, name a, name b) {
    switch (op) {
    case WEFT_K_reduce_add:
    case WEFT_K_add: return weft_piece_format("%s + %s", a.text, b.text);
    case WEFT_K_sub: /* x - x is 0 or NaN, and compilers of backends know only one of them */
        return weft_piece_format(strcmp(a.text, b.text) ? "%s - %s" : "opaque(%s) - %s", a.text, b.text);
    case WEFT_K_reduce_mul:
    case WEFT_K_mul: return weft_piece_format("%s * %s", a.text, b.text);
    case WEFT_K_div: return weft_piece_format("%s / %s", a.text, b.text);
    case WEFT_K_reduce_min:
    case WEFT_K_min:
        if (loose) return weft_piece_format("min(%s, %s)", a.text, b.text);
        return weft_piece_format("select(%s, %s, %s < %s)", b.text, a.text, a.text, b.text);
    case WEFT_K_reduce_max:
    case WEFT_K_max:
        if (loose) return weft_piece_format("max(%s, %s)", a.text, b.text);
        return weft_piece_format("select(%s, %s, %s > %s)", b.text, a.text, a.text, b.text);
    case WEFT_K_eq: return weft_piece_format("%s == %s", a.text, b.text);
    case WEFT_K_ne: /* unordered counts as different, which backends' own != may not say */
        if (!strcmp(a.text, b.text)) return weft_piece_format("is_nan(%s)", a.text);
        return weft_piece_format("!(%s == %s)", a.text, b.text);
    case WEFT_K_lt: return weft_piece_format("%s < %s", a.text, b.text);
    case WEFT_K_le: return weft_piece_format("%s <= %s", a.text, b.text);
    case WEFT_K_copysign: return weft_piece_format("copy_sign(%s, %s)", a.text, b.text);
    default: weft_wgsl_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)op)); return a;
    }
}

static name binary_integer(weft_wgsl_printer *p, int op, weft_dtype elem, name a, name b) {
    const char *sign = "";
    switch (op) {
    case WEFT_K_reduce_add:
    case WEFT_K_add: sign = "+"; break;
    case WEFT_K_sub: sign = "-"; break;
    case WEFT_K_reduce_mul:
    case WEFT_K_mul: sign = "*"; break;
    case WEFT_K_div: sign = "/"; break;
    case WEFT_K_rem: sign = "%"; break;
    case WEFT_K_reduce_and:
    case WEFT_K_and: return weft_piece_format("%s & %s", a.text, b.text);
    case WEFT_K_reduce_or:
    case WEFT_K_or: return weft_piece_format("%s | %s", a.text, b.text);
    case WEFT_K_xor: return weft_piece_format("%s ^ %s", a.text, b.text);
    case WEFT_K_shl: return weft_wgsl_normal(elem, weft_piece_format("%s << u32(%s)", a.text, b.text));
    case WEFT_K_shr: return weft_piece_format("%s >> u32(%s)", a.text, b.text);
    case WEFT_K_reduce_min:
    case WEFT_K_min: return weft_piece_format("min(%s, %s)", a.text, b.text);
    case WEFT_K_reduce_max:
    case WEFT_K_max: return weft_piece_format("max(%s, %s)", a.text, b.text);
    case WEFT_K_eq: return weft_piece_format("%s == %s", a.text, b.text);
    case WEFT_K_ne: return weft_piece_format("%s != %s", a.text, b.text);
    case WEFT_K_lt: return weft_piece_format("%s < %s", a.text, b.text);
    case WEFT_K_le: return weft_piece_format("%s <= %s", a.text, b.text);
    case WEFT_K_mul_high:
        return weft_piece_format("mul_high_%s(%s, %s)", is_signed(elem) ? "i32" : "u32", a.text, b.text);
    default: weft_wgsl_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)op)); return a;
    }
    return weft_wgsl_normal(elem, weft_piece_format("%s %s %s", a.text, sign, b.text));
}

static name binary_pair(weft_wgsl_printer *p, int op, weft_dtype elem, name a, name b) {
    const char *type = is_signed(elem) ? "i64" : "u64";
    switch (op) {
    case WEFT_K_reduce_add:
    case WEFT_K_add: return weft_piece_format("add64(%s, %s)", a.text, b.text);
    case WEFT_K_sub: return weft_piece_format("sub64(%s, %s)", a.text, b.text);
    case WEFT_K_reduce_mul:
    case WEFT_K_mul: return weft_piece_format("mul64(%s, %s)", a.text, b.text);
    case WEFT_K_div: return weft_piece_format("div_%s(%s, %s)", type, a.text, b.text);
    case WEFT_K_rem: return weft_piece_format("rem_%s(%s, %s)", type, a.text, b.text);
    case WEFT_K_reduce_and:
    case WEFT_K_and: return weft_piece_format("%s & %s", a.text, b.text);
    case WEFT_K_reduce_or:
    case WEFT_K_or: return weft_piece_format("%s | %s", a.text, b.text);
    case WEFT_K_xor: return weft_piece_format("%s ^ %s", a.text, b.text);
    case WEFT_K_shl: return weft_piece_format("shl64(%s, %s.x)", a.text, b.text);
    case WEFT_K_shr: return weft_piece_format("shr_%s(%s, %s.x)", type, a.text, b.text);
    case WEFT_K_reduce_min:
    case WEFT_K_min: return weft_piece_format("select(%s, %s, lt_%s(%s, %s))", b.text, a.text, type, a.text, b.text);
    case WEFT_K_reduce_max:
    case WEFT_K_max: return weft_piece_format("select(%s, %s, lt_%s(%s, %s))", b.text, a.text, type, b.text, a.text);
    case WEFT_K_eq: return weft_piece_format("all(%s == %s)", a.text, b.text);
    case WEFT_K_ne: return weft_piece_format("any(%s != %s)", a.text, b.text);
    case WEFT_K_lt: return weft_piece_format("lt_%s(%s, %s)", type, a.text, b.text);
    case WEFT_K_le: return weft_piece_format("!lt_%s(%s, %s)", type, b.text, a.text);
    default: weft_wgsl_fail(p, WEFT_UNSUPPORTED, "the upper half of a product of 64 bits"); return a;
    }
}

static name binary(weft_wgsl_printer *p, int op, bool loose, weft_dtype elem, name a, name b) {
    switch (weft_wgsl_class_of(p, elem)) {
    case WEFT_WGSL_BOOL: return binary_bool(p, op, a, b);
    case WEFT_WGSL_F32: return binary_float(p, op, loose, a, b);
    case WEFT_WGSL_PAIR: return binary_pair(p, op, elem, a, b);
    case WEFT_WGSL_NONE:
    case WEFT_WGSL_F16:
    case WEFT_WGSL_I32:
    case WEFT_WGSL_U32: break;
    }
    if (weft_dtype_is_float(elem)) weft_wgsl_fail(p, WEFT_INTERNAL, "arithmetic on 16-bit floats");
    return binary_integer(p, op, elem, a, b);
}

/* -- one operand */

static name unary_integer(weft_wgsl_printer *p, int op, weft_dtype elem, name a) {
    bool pair = weft_wgsl_class_of(p, elem) == WEFT_WGSL_PAIR;
    switch (op) {
    case WEFT_K_not: return weft_wgsl_normal(elem, weft_piece_format(elem == WEFT_BOOL ? "!%s" : "~%s", a.text));
    case WEFT_K_neg:
        if (pair) return weft_piece_format("neg64(%s)", a.text);
        return weft_wgsl_normal(elem, weft_piece_format(is_signed(elem) ? "0i - %s" : "0u - %s", a.text));
    case WEFT_K_abs:
        if (!is_signed(elem)) return a;
        return pair ? weft_piece_format("abs64(%s)", a.text)
                    : weft_wgsl_normal(elem, weft_piece_format("abs(%s)", a.text));
    case WEFT_K_popcount:
        if (pair) return weft_piece_format("vec2<u32>(countOneBits(%s.x) + countOneBits(%s.y), 0u)", a.text, a.text);
        if (is_signed(elem) && weft_dtype_bits(elem) < 32)
            return weft_piece_format("countOneBits(%s & %di)", a.text, (1 << weft_dtype_bits(elem)) - 1);
        return weft_piece_format("countOneBits(%s)", a.text);
    default: weft_wgsl_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)op)); return a;
    }
}

static name unary(weft_wgsl_printer *p, int op, weft_dtype elem, name a) {
    if (elem != WEFT_F32) return unary_integer(p, op, elem, a);
    switch (op) {
    case WEFT_K_neg:
        return weft_piece_format("bitcast<f32>(bitcast<u32>(%s) ^ 0x80000000u)", a.text); /* also of 0, NaN */
    case WEFT_K_abs: return weft_piece_format("bitcast<f32>(bitcast<u32>(%s) & 0x7fffffffu)", a.text);
    case WEFT_K_floor: return weft_piece_format("floor(%s)", a.text);
    case WEFT_K_ceil: return weft_piece_format("ceil(%s)", a.text);
    case WEFT_K_trunc: return weft_piece_format("trunc(%s)", a.text);
    case WEFT_K_round: return weft_piece_format("round(%s)", a.text); /* ties to even */
    case WEFT_K_sqrt: return weft_piece_format("sqrt(%s)", a.text);
    case WEFT_K_exp2_fast: return weft_piece_format("exp2(%s)", a.text);
    case WEFT_K_log2_fast: return weft_piece_format("log2(%s)", a.text);
    case WEFT_K_rcp_fast: return weft_piece_format("1.0f / %s", a.text);
    case WEFT_K_rsqrt_fast: return weft_piece_format("inverseSqrt(%s)", a.text);
    case WEFT_K_tanh_fast: return weft_piece_format("tanh(%s)", a.text);
    default: weft_wgsl_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)op)); return a;
    }
}

/* -- lanes */

static void define(weft_wgsl_printer *p, weft_kval id, int lane, name expression) {
    weft_wgsl_line(p, "let %s: %s = %s;", weft_wgsl_value(p, id, lane).text,
                   weft_wgsl_type(p, (weft_dtype)weft_kernel_get(p->kernel, id)->type.elem), expression.text);
}

/* By halves: lane i with lane i + count / 2. */
static void print_reduce(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    enum { LANES_MAX = 64 };
    weft_kval vector = weft_koperand(p->kernel, instr, 0);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int count = weft_ktype_of(p->kernel, vector).lanes, label = 0;
    if ((count & (count - 1)) || count > LANES_MAX) {
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "a reduction of lanes that are no power of two up to 64");
        return;
    }
    name current[LANES_MAX];
    for (int i = 0; i < count; i++) current[i] = weft_wgsl_value(p, vector, i);
    for (int half = count / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) {
            name sum = binary(p, instr->op, false, elem, current[i], current[i + half]);
            current[i] = weft_piece_format("t%d_%d", id, label++);
            weft_wgsl_line(p, "let %s: %s = %s;", current[i].text, weft_wgsl_type(p, elem), sum.text);
        }
    define(p, id, 0, current[0]);
}

/* Appended piece by piece: there may be many arguments. */
static void print_call(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr, int lane) {
    for (int i = 0; i < p->depth; i++) weft_text_append(p->text, "  ");
    weft_text_append(p->text, "let %s: %s = f%d(", weft_wgsl_value(p, id, lane).text,
                     weft_wgsl_type(p, (weft_dtype)instr->type.elem), weft_koperand(p->kernel, instr, 0));
    for (int i = 1; i < instr->operand_count; i++)
        weft_text_append(p->text, "%s%s", i > 1 ? ", " : "", operand(p, instr, i, lane).text);
    weft_text_append(p->text, ");\n");
}

static name print_pack(const weft_wgsl_printer *p, const weft_kinstr *instr) {
    const char *half = instr->i == WEFT_F16 ? "f16" : "bf16";
    return weft_piece_format("%s_of_f32(%s) | (%s_of_f32(%s) << 16u)", half, operand(p, instr, 0, 0).text, half,
                             operand(p, instr, 1, 0).text);
}

static name print_unpack(const weft_wgsl_printer *p, const weft_kinstr *instr) {
    const char *half = (instr->i & 255) == WEFT_F16 ? "f16" : "bf16";
    return weft_piece_format(instr->i >> 8 ? "f32_of_%s(%s >> 16u)" : "f32_of_%s(%s & 0xffffu)", half,
                             operand(p, instr, 0, 0).text);
}

/* Numbers of blocks, threads and extents are 32-bit. */
static name print_place(weft_wgsl_printer *p, const weft_kinstr *instr) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    name x = weft_piece_format("block");
    if (instr->op == WEFT_K_thread) x = weft_piece_format("local");
    if (instr->op == WEFT_K_grid) x = weft_piece_format("extents.grid");
    if (instr->op == WEFT_K_scalar_argument)
        return weft_wgsl_convert(p, WEFT_I32, elem, weft_piece_format("extents.a%d", (int)instr->i));
    return weft_wgsl_convert(p, WEFT_U32, elem, x);
}

static bool is_constant(const weft_wgsl_printer *p, weft_kval value) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, value);
    while (instr->op == WEFT_K_splat) instr = weft_kernel_get(p->kernel, weft_koperand(p->kernel, instr, 0));
    return instr->op == WEFT_K_constant;
}

/* WGSL permits rewriting (x + 1) - 1 as x and (a - b) + b as a, and SPIR-V optimizers do: that destroys the error terms
   of compensated sums. A sum whose terms could cancel so is hidden from them. */
bool weft_wgsl_is_kept(const weft_wgsl_printer *p, const weft_kinstr *instr, int index) {
    weft_kval other = weft_koperand(p->kernel, instr, 1 - index);
    const weft_kinstr *inner = weft_kernel_get(p->kernel, weft_koperand(p->kernel, instr, index));
    bool product = instr->op == WEFT_K_mul && inner->op == WEFT_K_mul;
    bool sum = (instr->op == WEFT_K_add || instr->op == WEFT_K_sub) &&
               (inner->op == WEFT_K_add || inner->op == WEFT_K_sub || inner->op == WEFT_K_fma);
    if ((!product && !sum) || inner->type.elem != WEFT_F32) return false;
    for (int i = 0; i < inner->operand_count; i++) {
        weft_kval term = weft_koperand(p->kernel, inner, i);
        if ((sum && term == other) || (is_constant(p, term) && is_constant(p, other))) return true;
    }
    return false;
}

static name kept_operand(const weft_wgsl_printer *p, const weft_kinstr *instr, int index, int lane) {
    name x = operand(p, instr, index, lane);
    return weft_wgsl_is_kept(p, instr, index) ? weft_piece_format("opaque(%s)", x.text) : x;
}

/* false: no op of this file */
static bool lane_of(weft_wgsl_printer *p, const weft_kinstr *instr, int lane, name *out) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int op = instr->op;
    if ((op >= WEFT_K_add && op <= WEFT_K_shr) || op == WEFT_K_copysign || op == WEFT_K_mul_high ||
        (op >= WEFT_K_eq && op <= WEFT_K_le)) {
        *out = binary(p, op, instr->i == 1, operand_elem(p, instr, 0), kept_operand(p, instr, 0, lane),
                      kept_operand(p, instr, 1, lane));
        return true;
    }
    switch (op) {
    case WEFT_K_scalar_argument:
    case WEFT_K_thread:
    case WEFT_K_block:
    case WEFT_K_grid: *out = print_place(p, instr); return true;
    case WEFT_K_fma:
        *out = weft_piece_format(instr->i == 1 ? "fma(%s, %s, %s)" : "fma_exact(%s, %s, %s)",
                                 operand(p, instr, 0, lane).text, operand(p, instr, 1, lane).text,
                                 operand(p, instr, 2, lane).text);
        return true;
    case WEFT_K_select:
        *out = weft_piece_format("select(%s, %s, %s)", operand(p, instr, 2, lane).text, operand(p, instr, 1, lane).text,
                                 operand(p, instr, 0, lane).text);
        return true;
    case WEFT_K_convert:
        *out = weft_wgsl_convert(p, operand_elem(p, instr, 0), elem, operand(p, instr, 0, lane));
        return true;
    case WEFT_K_bitcast:
        *out = weft_wgsl_bitcast(p, operand_elem(p, instr, 0), elem, operand(p, instr, 0, lane));
        return true;
    case WEFT_K_iota: *out = weft_wgsl_convert(p, WEFT_U32, elem, weft_piece_format("%du", lane)); return true;
    case WEFT_K_extract: *out = operand(p, instr, 0, (int)instr->i); return true;
    case WEFT_K_insert: *out = operand(p, instr, lane == instr->i, lane); return true;
    case WEFT_K_deal:
    case WEFT_K_zip: {
        int from, at = weft_kernel_dealt(instr, lane, &from);
        *out = operand(p, instr, from, at);
        return true;
    }
    case WEFT_K_pack: *out = print_pack(p, instr); return true;
    case WEFT_K_unpack: *out = print_unpack(p, instr); return true;
    default: break;
    }
    bool known = (op >= WEFT_K_not && op <= WEFT_K_abs) || (op >= WEFT_K_floor && op <= WEFT_K_popcount) ||
                 (op >= WEFT_K_exp2_fast && op <= WEFT_K_tanh_fast);
    if (known) *out = unary(p, op, elem, operand(p, instr, 0, lane));
    return known;
}

/* Four lanes of an op that print_vector.c marks. */
static name four_of(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr, int group) {
    name x[3];
    for (int i = 0; i < instr->operand_count && i < 3; i++) {
        weft_kval value = weft_koperand(p->kernel, instr, i);
        bool choice =
            instr->op == WEFT_K_select && i == 0 && weft_kernel_unsplat(p->kernel, &value, &(int){0})->type.lanes == 1;
        x[i] = choice ? weft_wgsl_value(p, value, 0) : weft_wgsl_four(p, id, weft_koperand(p->kernel, instr, i), group);
    }
    if (instr->op == WEFT_K_fma) return weft_piece_format("fma(%s, %s, %s)", x[0].text, x[1].text, x[2].text);
    if (instr->op == WEFT_K_select) return weft_piece_format("select(%s, %s, %s)", x[2].text, x[1].text, x[0].text);
    if (instr->op == WEFT_K_convert) return weft_piece_format("vec4<f32>(%s)", x[0].text);
    return binary_float(p, instr->op, instr->i == 1, x[0], x[1]);
}

bool weft_wgsl_print_value(weft_wgsl_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    if (instr->type.kind != WEFT_KIND_VALUE) return false;
    if (instr->op == WEFT_K_constant || instr->op == WEFT_K_splat) return true; /* printed where they are used */
    if (instr->op >= WEFT_K_reduce_add && instr->op <= WEFT_K_reduce_or) {
        print_reduce(p, id, instr);
        return true;
    }
    if ((p->uses[id] & WEFT_WGSL_VECTOR) && instr->op != WEFT_K_load && instr->op != WEFT_K_get) {
        for (int group = 0; group < instr->type.lanes / 4; group++)
            weft_wgsl_line(p, "let v%d_%d = %s;", id, group, four_of(p, id, instr, group).text);
        return true;
    }
    bool lanes_only = instr->op >= WEFT_K_iota && instr->op <= WEFT_K_zip;
    if (p->scalar_body && lanes_only && instr->type.lanes > 1)
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "lanes inside a func");
    for (int lane = 0; lane < (p->scalar_body ? 1 : instr->type.lanes); lane++) {
        name expression;
        if (instr->op == WEFT_K_call)
            print_call(p, id, instr, lane);
        else if (lane_of(p, instr, lane, &expression))
            define(p, id, lane, expression);
        else
            return false;
    }
    return true;
}
