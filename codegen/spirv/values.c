/* Arithmetic and lanes, one scalar a lane. Float operations are marked NoContraction: what the kernel IR says is what
   is computed. See print.h. */
#include <string.h>

#include "base/dtype.h"
#include "codegen/spirv/print.h"

typedef weft_spirv_id id;

static bool is_signed(weft_dtype elem) { return weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED; }

static id two(weft_spirv *p, weft_spirv_type type, const char *op, id a, id b) {
    return weft_spirv_emit(p, type, op, "$ $", a, b);
}

static id one(weft_spirv *p, weft_spirv_type type, const char *op, id a) {
    return weft_spirv_emit(p, type, op, "$", a);
}

static id choose(weft_spirv *p, weft_spirv_type type, id condition, id a, id b) {
    return weft_spirv_emit(p, type, "OpSelect", "$ $ $", condition, a, b);
}

static id exact(weft_spirv *p, id x) {
    weft_spirv_do(p, &p->decorations, "OpDecorate $ NoContraction", x);
    return x;
}

static id extended(weft_spirv *p, weft_spirv_type type, const char *function, id a) {
    return weft_spirv_emit(p, type, "OpExtInst", "%glsl @ $", function, a);
}

id weft_spirv_normal(weft_spirv *p, weft_dtype elem, id x) {
    int bits = weft_dtype_bits(elem);
    if (elem == WEFT_BOOL || bits >= 32 || weft_dtype_is_float(elem)) return x;
    return weft_spirv_emit(p, WEFT_SPIRV_U32, is_signed(elem) ? "OpBitFieldSExtract" : "OpBitFieldUExtract", "$ $ $", x,
                           weft_spirv_u32(p, 0), weft_spirv_u32(p, (uint32_t)bits));
}

/* Reductions of lanes are chains of two-operand ops. */
static int base_op(int op) {
    switch (op) {
    case WEFT_K_reduce_add: return WEFT_K_add;
    case WEFT_K_reduce_mul: return WEFT_K_mul;
    case WEFT_K_reduce_min: return WEFT_K_min;
    case WEFT_K_reduce_max: return WEFT_K_max;
    case WEFT_K_reduce_and: return WEFT_K_and;
    case WEFT_K_reduce_or: return WEFT_K_or;
    default: return op;
    }
}

static id unsupported(weft_spirv *p, int op) {
    weft_spirv_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)op));
    return weft_spirv_u32(p, 0);
}

static id binary_bool(weft_spirv *p, int op, id a, id b) {
    const weft_spirv_type t = WEFT_SPIRV_BOOL;
    switch (op) {
    case WEFT_K_and:
    case WEFT_K_min: return two(p, t, "OpLogicalAnd", a, b);
    case WEFT_K_or:
    case WEFT_K_max: return two(p, t, "OpLogicalOr", a, b);
    case WEFT_K_xor:
    case WEFT_K_ne: return two(p, t, "OpLogicalNotEqual", a, b);
    case WEFT_K_eq: return two(p, t, "OpLogicalEqual", a, b);
    case WEFT_K_lt: return two(p, t, "OpLogicalAnd", one(p, t, "OpLogicalNot", a), b);
    case WEFT_K_le: return two(p, t, "OpLogicalOr", one(p, t, "OpLogicalNot", a), b);
    default: return unsupported(p, op);
    }
}

static id copysign_f32(weft_spirv *p, id a, id b) {
    const weft_spirv_type t = WEFT_SPIRV_U32;
    id magnitude = two(p, t, "OpBitwiseAnd", one(p, t, "OpBitcast", a), weft_spirv_u32(p, 0x7fffffffu));
    id sign = two(p, t, "OpBitwiseAnd", one(p, t, "OpBitcast", b), weft_spirv_u32(p, 0x80000000u));
    return one(p, WEFT_SPIRV_F32, "OpBitcast", two(p, t, "OpBitwiseOr", magnitude, sign));
}

static id binary_float(weft_spirv *p, int op, id a, id b) {
    const weft_spirv_type t = WEFT_SPIRV_F32, truth = WEFT_SPIRV_BOOL;
    switch (op) {
    case WEFT_K_add: return exact(p, two(p, t, "OpFAdd", a, b));
    case WEFT_K_sub: return exact(p, two(p, t, "OpFSub", a, b));
    case WEFT_K_mul: return exact(p, two(p, t, "OpFMul", a, b));
    case WEFT_K_div: return exact(p, two(p, t, "OpFDiv", a, b));
    case WEFT_K_min: return choose(p, t, two(p, truth, "OpFOrdLessThan", a, b), a, b);
    case WEFT_K_max: return choose(p, t, two(p, truth, "OpFOrdGreaterThan", a, b), a, b);
    case WEFT_K_eq: return two(p, truth, "OpFOrdEqual", a, b);
    case WEFT_K_ne: return two(p, truth, "OpFUnordNotEqual", a, b);
    case WEFT_K_lt: return two(p, truth, "OpFOrdLessThan", a, b);
    case WEFT_K_le: return two(p, truth, "OpFOrdLessThanEqual", a, b);
    case WEFT_K_copysign: return copysign_f32(p, a, b);
    default: return unsupported(p, op);
    }
}

/* Minimum / -1 wraps: division by -1 is a negation. Vulkan leaves OpSRem of negative operands undefined (environment
   for SPIR-V, "Precision and Operation of SPIR-V Instructions"), and drivers differ: the remainder comes from the
   quotient. */
static id divide_signed(weft_spirv *p, weft_spirv_type t, bool remainder, id a, id b) {
    bool wide = t == WEFT_SPIRV_U64;
    id minus = weft_spirv_constant(p, t, wide ? UINT64_MAX : UINT32_MAX), unit = weft_spirv_constant(p, t, 1);
    id is_minus = two(p, WEFT_SPIRV_BOOL, "OpIEqual", b, minus);
    id divisor = choose(p, t, is_minus, unit, b);
    id result = two(p, t, "OpSDiv", a, divisor);
    if (remainder) result = two(p, t, "OpISub", a, two(p, t, "OpIMul", result, divisor));
    id other = remainder ? weft_spirv_constant(p, t, 0) : one(p, t, "OpSNegate", a);
    return choose(p, t, is_minus, other, result);
}

static id upper_half(weft_spirv *p, weft_dtype elem, id a, id b) {
    int bits = weft_dtype_bits(elem);
    weft_spirv_type t = weft_spirv_carrier(elem);
    if (bits < 32) {
        id product = two(p, t, "OpIMul", a, b);
        return weft_spirv_normal(p, elem,
                                 two(p, t, is_signed(elem) ? "OpShiftRightArithmetic" : "OpShiftRightLogical", product,
                                     weft_spirv_u32(p, (uint32_t)bits)));
    }
    id pair = two(p, bits == 64 ? WEFT_SPIRV_U64_PAIR : WEFT_SPIRV_U32_PAIR,
                  is_signed(elem) ? "OpSMulExtended" : "OpUMulExtended", a, b);
    return weft_spirv_emit(p, t, "OpCompositeExtract", "$ 1", pair);
}

static id binary_integer(weft_spirv *p, int op, weft_dtype elem, id a, id b) {
    weft_spirv_type t = weft_spirv_carrier(elem), truth = WEFT_SPIRV_BOOL;
    bool s = is_signed(elem);
    switch (op) {
    case WEFT_K_add: return weft_spirv_normal(p, elem, two(p, t, "OpIAdd", a, b));
    case WEFT_K_sub: return weft_spirv_normal(p, elem, two(p, t, "OpISub", a, b));
    case WEFT_K_mul: return weft_spirv_normal(p, elem, two(p, t, "OpIMul", a, b));
    case WEFT_K_div:
        return weft_spirv_normal(p, elem, s ? divide_signed(p, t, false, a, b) : two(p, t, "OpUDiv", a, b));
    case WEFT_K_rem: return s ? divide_signed(p, t, true, a, b) : two(p, t, "OpUMod", a, b);
    case WEFT_K_min: return choose(p, t, two(p, truth, s ? "OpSLessThan" : "OpULessThan", a, b), a, b);
    case WEFT_K_max: return choose(p, t, two(p, truth, s ? "OpSLessThan" : "OpULessThan", a, b), b, a);
    case WEFT_K_and: return two(p, t, "OpBitwiseAnd", a, b);
    case WEFT_K_or: return two(p, t, "OpBitwiseOr", a, b);
    case WEFT_K_xor: return two(p, t, "OpBitwiseXor", a, b);
    case WEFT_K_shl: return weft_spirv_normal(p, elem, two(p, t, "OpShiftLeftLogical", a, b));
    case WEFT_K_shr: return two(p, t, s ? "OpShiftRightArithmetic" : "OpShiftRightLogical", a, b);
    case WEFT_K_eq: return two(p, truth, "OpIEqual", a, b);
    case WEFT_K_ne: return two(p, truth, "OpINotEqual", a, b);
    case WEFT_K_lt: return two(p, truth, s ? "OpSLessThan" : "OpULessThan", a, b);
    case WEFT_K_le: return two(p, truth, s ? "OpSLessThanEqual" : "OpULessThanEqual", a, b);
    case WEFT_K_mul_high: return upper_half(p, elem, a, b);
    default: return unsupported(p, op);
    }
}

static id binary(weft_spirv *p, int op, weft_dtype elem, id a, id b) {
    if (elem == WEFT_BOOL) return binary_bool(p, op, a, b);
    if (elem == WEFT_F32) return binary_float(p, op, a, b);
    if (weft_dtype_is_float(elem)) weft_spirv_fail(p, WEFT_INTERNAL, "arithmetic on 16-bit floats");
    return binary_integer(p, op, elem, a, b);
}

static id popcount(weft_spirv *p, weft_dtype elem, id a) {
    const weft_spirv_type t = WEFT_SPIRV_U32;
    if (weft_dtype_bits(elem) == 64) {
        id pair = one(p, WEFT_SPIRV_U32X2, "OpBitcast", a);
        id low = one(p, t, "OpBitCount", weft_spirv_emit(p, t, "OpCompositeExtract", "$ 0", pair));
        id high = one(p, t, "OpBitCount", weft_spirv_emit(p, t, "OpCompositeExtract", "$ 1", pair));
        return one(p, WEFT_SPIRV_U64, "OpUConvert", two(p, t, "OpIAdd", low, high));
    }
    int bits = weft_dtype_bits(elem);
    if (bits < 32) a = two(p, t, "OpBitwiseAnd", a, weft_spirv_u32(p, (UINT32_C(1) << bits) - 1));
    return one(p, t, "OpBitCount", a);
}

static id unary_integer(weft_spirv *p, int op, weft_dtype elem, id a) {
    weft_spirv_type t = weft_spirv_carrier(elem);
    switch (op) {
    case WEFT_K_not:
        if (elem == WEFT_BOOL) return one(p, t, "OpLogicalNot", a);
        return weft_spirv_normal(p, elem, one(p, t, "OpNot", a));
    case WEFT_K_neg: return weft_spirv_normal(p, elem, one(p, t, "OpSNegate", a));
    case WEFT_K_abs: {
        if (!is_signed(elem)) return a;
        id negative = two(p, WEFT_SPIRV_BOOL, "OpSLessThan", a, weft_spirv_constant(p, t, 0));
        return weft_spirv_normal(p, elem, choose(p, t, negative, one(p, t, "OpSNegate", a), a));
    }
    case WEFT_K_popcount: return popcount(p, elem, a);
    default: return unsupported(p, op);
    }
}

static id sign_bit(weft_spirv *p, const char *op, id a, uint32_t mask) {
    id bits = two(p, WEFT_SPIRV_U32, op, one(p, WEFT_SPIRV_U32, "OpBitcast", a), weft_spirv_u32(p, mask));
    return one(p, WEFT_SPIRV_F32, "OpBitcast", bits);
}

static id unary(weft_spirv *p, int op, weft_dtype elem, id a) {
    const weft_spirv_type t = WEFT_SPIRV_F32;
    if (elem != WEFT_F32) return unary_integer(p, op, elem, a);
    switch (op) {
    case WEFT_K_neg: return sign_bit(p, "OpBitwiseXor", a, 0x80000000u); /* also of 0, NaN */
    case WEFT_K_abs: return sign_bit(p, "OpBitwiseAnd", a, 0x7fffffffu);
    case WEFT_K_floor: return extended(p, t, "Floor", a);
    case WEFT_K_ceil: return extended(p, t, "Ceil", a);
    case WEFT_K_trunc: return extended(p, t, "Trunc", a);
    case WEFT_K_round: return extended(p, t, "RoundEven", a);
    case WEFT_K_sqrt: return extended(p, t, "Sqrt", a);
    case WEFT_K_exp2_fast: return extended(p, t, "Exp2", a);
    case WEFT_K_log2_fast: return extended(p, t, "Log2", a);
    case WEFT_K_rcp_fast: return two(p, t, "OpFDiv", weft_spirv_constant(p, t, UINT64_C(0x3f800000)), a);
    case WEFT_K_rsqrt_fast: return extended(p, t, "InverseSqrt", a);
    case WEFT_K_tanh_fast: return extended(p, t, "Tanh", a);
    default: return unsupported(p, op);
    }
}

/* One rounding: the product is exact in F64; its sum with c is rounded to odd there (Boldo, Melquiond 2008), so that
   the rounding to F32 is the only one. */
static id fused(weft_spirv *p, id a, id b, id c) {
    const weft_spirv_type wide = WEFT_SPIRV_F64, bits = WEFT_SPIRV_U64, truth = WEFT_SPIRV_BOOL;
    id product = exact(p, two(p, wide, "OpFMul", one(p, wide, "OpFConvert", a), one(p, wide, "OpFConvert", b)));
    id addend = one(p, wide, "OpFConvert", c);
    id sum = exact(p, two(p, wide, "OpFAdd", product, addend)); /* the error of a sum: Knuth's two-sum */
    id part = exact(p, two(p, wide, "OpFSub", sum, product));
    id rest = exact(p, two(p, wide, "OpFSub", sum, part));
    id left = exact(p, two(p, wide, "OpFSub", product, rest));
    id right = exact(p, two(p, wide, "OpFSub", addend, part));
    id error = exact(p, two(p, wide, "OpFAdd", left, right));
    id zero = weft_spirv_constant(p, wide, 0), raw = one(p, bits, "OpBitcast", sum);
    id unit = weft_spirv_constant(p, bits, 1), minus = weft_spirv_constant(p, bits, UINT64_MAX);
    id even = two(p, truth, "OpIEqual", two(p, bits, "OpBitwiseAnd", raw, unit), weft_spirv_constant(p, bits, 0));
    id inexact = two(p, truth, "OpFOrdNotEqual", error, zero);
    id same = two(p, truth, "OpLogicalEqual", two(p, truth, "OpFOrdGreaterThan", error, zero),
                  two(p, truth, "OpFOrdGreaterThan", sum, zero));
    id odd = two(p, bits, "OpIAdd", raw, choose(p, bits, same, unit, minus));
    id kept = choose(p, bits, two(p, truth, "OpLogicalAnd", even, inexact), odd, raw);
    return exact(p, one(p, WEFT_SPIRV_F32, "OpFConvert", one(p, wide, "OpBitcast", kept)));
}

static id multiply_add(weft_spirv *p, const weft_kinstr *instr, id a, id b, id c) {
    if (instr->i != 1) return fused(p, a, b, c);
    return exact(p, two(p, WEFT_SPIRV_F32, "OpFAdd", exact(p, two(p, WEFT_SPIRV_F32, "OpFMul", a, b)), c));
}

/* -- lanes */

static id operand(weft_spirv *p, const weft_kinstr *instr, int index, int lane) {
    return weft_spirv_lane(p, weft_koperand(p->kernel, instr, index), lane);
}

/* By halves: lane i with lane i + count / 2. */
static id reduce(weft_spirv *p, const weft_kinstr *instr) {
    enum { LANES_MAX = 64 };
    weft_kval vector = weft_koperand(p->kernel, instr, 0);
    int count = weft_spirv_lanes(p, vector);
    id current[LANES_MAX];
    if ((count & (count - 1)) || count > LANES_MAX) {
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "a reduction of lanes that are no power of two up to 64");
        return weft_spirv_u32(p, 0);
    }
    for (int i = 0; i < count; i++) current[i] = weft_spirv_lane(p, vector, i);
    for (int half = count / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++)
            current[i] = binary(p, base_op(instr->op), (weft_dtype)instr->type.elem, current[i], current[i + half]);
    return current[0];
}

/* Appended piece by piece: there may be many arguments. */
static id call(weft_spirv *p, const weft_kinstr *instr, int lane) {
    id result = weft_spirv_new(p);
    weft_text line;
    weft_text_init(p->code.allocator, &line);
    for (int i = 1; i < instr->operand_count; i++) {
        weft_spirv_do(p, &line, " $", operand(p, instr, i, lane));
        line.length -= line.length ? 1 : 0; /* the end of line */
    }
    if (line.data) line.data[line.length] = 0;
    if (line.failed) weft_spirv_fail(p, WEFT_OUT_OF_MEMORY, "no memory for a call");
    weft_spirv_do(p, &p->code, "$ = OpFunctionCall $ $@", result,
                  weft_spirv_type_name(p, weft_spirv_carrier((weft_dtype)instr->type.elem)),
                  p->lanes[p->first[weft_koperand(p->kernel, instr, 0)]], weft_text_string(&line));
    weft_text_deinit(&line);
    return result;
}

static id place(weft_spirv *p, const weft_kinstr *instr) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    if (instr->op == WEFT_K_scalar_argument) return weft_spirv_convert(p, WEFT_I64, elem, p->arguments[instr->i]);
    id x = instr->op == WEFT_K_thread ? p->local : instr->op == WEFT_K_grid ? p->grid : p->block;
    return weft_spirv_convert(p, WEFT_U32, elem, x);
}

static id unpack(weft_spirv *p, const weft_kinstr *instr, id x) {
    id half = weft_spirv_emit(p, WEFT_SPIRV_U32, "OpBitFieldUExtract", "$ $ $", x,
                              weft_spirv_u32(p, instr->i >> 8 ? 16 : 0), weft_spirv_u32(p, 16));
    return weft_spirv_convert(p, (weft_dtype)(instr->i & 255), WEFT_F32, half);
}

static id pack(weft_spirv *p, const weft_kinstr *instr, id a, id b) {
    const weft_spirv_type t = WEFT_SPIRV_U32;
    id low = weft_spirv_convert(p, WEFT_F32, (weft_dtype)instr->i, a);
    id high = weft_spirv_convert(p, WEFT_F32, (weft_dtype)instr->i, b);
    return two(p, t, "OpBitwiseOr", low, two(p, t, "OpShiftLeftLogical", high, weft_spirv_u32(p, 16)));
}

static id lane_of(weft_spirv *p, weft_kval value, const weft_kinstr *instr, int lane) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    weft_dtype from = instr->operand_count > 0 && weft_koperand(p->kernel, instr, 0) != WEFT_KNONE
                          ? (weft_dtype)weft_ktype_of(p->kernel, weft_koperand(p->kernel, instr, 0)).elem
                          : elem;
    (void)value;
    switch ((int)instr->op) {
    case WEFT_K_fma:
        return multiply_add(p, instr, operand(p, instr, 0, lane), operand(p, instr, 1, lane),
                            operand(p, instr, 2, lane));
    case WEFT_K_select:
        return choose(p, weft_spirv_carrier(elem), operand(p, instr, 0, lane), operand(p, instr, 1, lane),
                      operand(p, instr, 2, lane));
    case WEFT_K_convert: return weft_spirv_convert(p, from, elem, operand(p, instr, 0, lane));
    case WEFT_K_bitcast: return weft_spirv_bitcast(p, from, elem, operand(p, instr, 0, lane));
    case WEFT_K_extract: return operand(p, instr, 0, (int)instr->i);
    case WEFT_K_insert: return lane == instr->i ? operand(p, instr, 1, 0) : operand(p, instr, 0, lane);
    case WEFT_K_call: return call(p, instr, lane);
    case WEFT_K_unpack: return unpack(p, instr, operand(p, instr, 0, lane));
    case WEFT_K_pack: return pack(p, instr, operand(p, instr, 0, lane), operand(p, instr, 1, lane));
    case WEFT_K_iota: return weft_spirv_convert(p, WEFT_U32, elem, weft_spirv_u32(p, (uint32_t)lane));
    default: break;
    }
    if (instr->operand_count == 2)
        return binary(p, instr->op, from, operand(p, instr, 0, lane), operand(p, instr, 1, lane));
    return unary(p, instr->op, from, operand(p, instr, 0, lane));
}

static bool is_lanewise(int op) {
    return (op >= WEFT_K_add && op <= WEFT_K_bitcast) || op == WEFT_K_iota || op == WEFT_K_extract ||
           op == WEFT_K_insert || op == WEFT_K_call || op == WEFT_K_pack || op == WEFT_K_unpack;
}

bool weft_spirv_value(weft_spirv *p, weft_kval value) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, value);
    int op = instr->op;
    if (op == WEFT_K_constant || op == WEFT_K_splat) return true; /* named where they are used */
    if (op == WEFT_K_scalar_argument || op == WEFT_K_thread || op == WEFT_K_block || op == WEFT_K_grid) {
        weft_spirv_define(p, value, 0, place(p, instr));
        return true;
    }
    if (op >= WEFT_K_reduce_add && op <= WEFT_K_reduce_or) {
        weft_spirv_define(p, value, 0, reduce(p, instr));
        return true;
    }
    if (op == WEFT_K_warp_uniform) {
        weft_spirv_define(p, value, 0, operand(p, instr, 0, 0));
        return true;
    }
    if (!is_lanewise(op)) return false;
    for (int lane = 0; lane < weft_spirv_lanes(p, value); lane++)
        weft_spirv_define(p, value, lane, lane_of(p, value, instr, lane));
    return true;
}
