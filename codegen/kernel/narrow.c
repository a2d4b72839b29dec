/* See narrow.h. Instructions are copied one by one; a map says where each value went. */
#include "codegen/kernel/narrow.h"

#include "codegen/kernel/build.h"
#include "codegen/kernel/subnormal.h"

typedef struct format {
    int exponent, mantissa, bias;
    bool ieee; /* has infinities */
    bool fnuz; /* no -0: its code is the NaN */
} format;

static const format *format_of(weft_dtype dtype) {
    static const format e4m3fn = {4, 3, 7, false, false}, e4m3fnuz = {4, 3, 8, false, true},
                        e5m2 = {5, 2, 15, true, false}, e5m2fnuz = {5, 2, 16, false, true};
    switch ((int)dtype) {
    case WEFT_F8E4M3FN: return &e4m3fn;
    case WEFT_F8E4M3FNUZ: return &e4m3fnuz;
    case WEFT_F8E5M2: return &e5m2;
    case WEFT_F8E5M2FNUZ: return &e5m2fnuz;
    default: return NULL; /* powers of two */
    }
}

static bool is_f8(weft_dtype dtype) { return weft_dtype_is_float(dtype) && weft_dtype_bits(dtype) == 8; }

static weft_kval u32(weft_kernel *k, uint32_t value) { return weft_k_integer(k, WEFT_U32, value); }
static weft_kval op(weft_kernel *k, weft_kop which, weft_kval a, uint32_t b) {
    return weft_k_binary(k, which, a, u32(k, b));
}
enum { INFINITE = 0x7f800000, NAN_BITS = 0x7fc00000 };

/* c: U32 below 256. A power of two; 255 is NaN. */
static weft_kval decode_power(weft_kernel *k, weft_kval c) {
    weft_kval r = weft_k_select(k, op(k, WEFT_K_eq, c, 0), u32(k, 0x00400000), op(k, WEFT_K_shl, c, 23));
    return weft_k_select(k, op(k, WEFT_K_eq, c, 255), u32(k, NAN_BITS), r);
}

/* Bits of the f32. Numbers below the normal ones are products, so that nothing is subnormal on the way. */
static weft_kval decode(weft_kernel *k, const format *f, weft_kval c) {
    uint32_t ones = 127, top = ((1u << f->exponent) - 1) << f->mantissa;
    weft_kval magnitude = op(k, WEFT_K_and, c, ones);
    weft_kval normal =
        op(k, WEFT_K_add, op(k, WEFT_K_shl, magnitude, 23 - (uint32_t)f->mantissa), (uint32_t)(127 - f->bias) << 23);
    weft_kval unit = weft_k_bitcast(k, u32(k, (uint32_t)(128 - f->bias - f->mantissa) << 23), WEFT_F32);
    weft_kval small =
        weft_k_bitcast(k, weft_k_binary(k, WEFT_K_mul, weft_k_convert(k, magnitude, WEFT_F32), unit), WEFT_U32);
    weft_kval r = weft_k_select(k, op(k, WEFT_K_lt, magnitude, 1u << f->mantissa), small, normal);
    if (f->ieee) {
        weft_kval special = weft_k_select(k, op(k, WEFT_K_eq, magnitude, top), u32(k, INFINITE), u32(k, NAN_BITS));
        r = weft_k_select(k, op(k, WEFT_K_lt, magnitude, top), r, special);
    } else if (!f->fnuz)
        r = weft_k_select(k, op(k, WEFT_K_eq, magnitude, ones), u32(k, NAN_BITS), r);
    r = weft_k_binary(k, WEFT_K_or, r, op(k, WEFT_K_shl, op(k, WEFT_K_shr, c, 7), 31));
    return f->fnuz ? weft_k_select(k, op(k, WEFT_K_eq, c, 128), u32(k, NAN_BITS), r) : r;
}

/* Rounds to the nearest, ties up; what is negative gives NaN. */
static weft_kval encode_power(weft_kernel *k, weft_kval bits) {
    weft_kval small = weft_k_select(k, op(k, WEFT_K_lt, bits, 0x00600000), u32(k, 0), u32(k, 1));
    weft_kval r = weft_k_select(k, op(k, WEFT_K_lt, bits, 0x00800000), small,
                                op(k, WEFT_K_shr, op(k, WEFT_K_add, bits, 0x00400000), 23));
    r = weft_k_select(k, op(k, WEFT_K_le, bits, INFINITE), r, u32(k, 255));
    return weft_k_select(k, op(k, WEFT_K_eq, op(k, WEFT_K_and, bits, 0x7fffffff), 0), u32(k, 0), r);
}

/* To nearest even; below the normal numbers the addition of a power of two rounds. */
static weft_kval encode(weft_kernel *k, const format *f, weft_kval bits) {
    uint32_t m = (uint32_t)f->mantissa, s = 23 - m, ones = 127, top = ((1u << f->exponent) - 1) << m;
    uint32_t largest = f->ieee   ? top - 1
                       : f->fnuz ? ones
                                 : ones - 1,
             unit = (uint32_t)(151 - f->bias - f->mantissa) << 23;
    weft_kval magnitude = op(k, WEFT_K_and, bits, 0x7fffffff);
    weft_kval odd = op(k, WEFT_K_and, op(k, WEFT_K_shr, magnitude, s), 1);
    weft_kval rounded = weft_k_binary(k, WEFT_K_add, op(k, WEFT_K_add, magnitude, (1u << (s - 1)) - 1), odd);
    weft_kval normal = op(k, WEFT_K_sub, op(k, WEFT_K_shr, rounded, s), (uint32_t)(127 - f->bias) << m);
    weft_kval sum =
        weft_k_binary(k, WEFT_K_add, weft_k_bitcast(k, magnitude, WEFT_F32), weft_k_bitcast(k, u32(k, unit), WEFT_F32));
    weft_kval small = op(k, WEFT_K_sub, weft_k_bitcast(k, sum, WEFT_U32), unit);
    weft_kval tiny = op(k, WEFT_K_lt, magnitude, (uint32_t)(128 - f->bias) << 23);
    weft_kval code = weft_k_select(k, tiny, small, normal);
    weft_kval sign = op(k, WEFT_K_shl, op(k, WEFT_K_shr, bits, 31), 7);
    weft_kval special = u32(k, 128);
    if (f->ieee)
        special = weft_k_binary(
            k, WEFT_K_or, sign,
            weft_k_select(k, op(k, WEFT_K_le, magnitude, INFINITE), u32(k, top), u32(k, top | 1u << (m - 1))));
    else if (!f->fnuz)
        special = op(k, WEFT_K_or, sign, ones);
    weft_kval finite = weft_k_binary(k, WEFT_K_or, sign, code);
    if (f->fnuz) finite = weft_k_select(k, op(k, WEFT_K_eq, code, 0), u32(k, 0), finite);
    /* too large and not tiny; NaN is not tiny either */
    weft_kval fits = weft_k_binary(k, WEFT_K_or, tiny, op(k, WEFT_K_le, normal, largest));
    weft_kval number = op(k, WEFT_K_le, magnitude, INFINITE);
    return weft_k_select(k, weft_k_binary(k, WEFT_K_and, fits, number), finite, special);
}

static weft_kval convert(weft_kernel *k, weft_kval a, weft_dtype from, weft_dtype to) {
    if (is_f8(from)) {
        weft_kval c = weft_k_convert(k, a, WEFT_U32);
        return weft_k_bitcast(k, format_of(from) ? decode(k, format_of(from), c) : decode_power(k, c), WEFT_F32);
    }
    weft_kval bits = weft_k_bitcast(k, a, WEFT_U32);
    return weft_k_convert(k, format_of(to) ? encode(k, format_of(to), bits) : encode_power(k, bits), WEFT_U8);
}

typedef struct rewriting {
    const weft_kernel *old;
    weft_kernel *k;
    weft_kval *map; /* by value of the old kernel: its value in the new one */
    uint8_t *level; /* by value of the old kernel: subnormal.h; NULL: no f8e8m0fnu is or was in it */
} rewriting;

/* One instruction of the old kernel in the new one. */
static weft_status copy(const rewriting *r, weft_kval id) {
    const weft_kernel *old = r->old;
    weft_kernel *k = r->k;
    weft_kval *out = &r->map[id];
    const weft_kinstr *instr = weft_kernel_get(old, id);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    enum { OPERANDS_MAX = 64 };
    weft_kval operands[OPERANDS_MAX];
    uint8_t levels[OPERANDS_MAX] = {0};
    bool some = false;
    if (instr->operand_count > OPERANDS_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: an operation of %d operands", old->name, instr->operand_count);
    for (int i = 0; i < instr->operand_count; i++) {
        weft_kval value = weft_koperand(old, instr, i);
        operands[i] = value == WEFT_KNONE ? WEFT_KNONE : r->map[value];
        levels[i] = r->level && value != WEFT_KNONE ? r->level[value] : 0;
        some |= levels[i] > 0;
    }
    if (r->level) r->level[id] = (uint8_t)weft_kernel_subnormal_level(old, instr, levels);
    bool converts = instr->op == WEFT_K_convert || instr->op == WEFT_K_bitcast;
    weft_dtype from = converts ? (weft_dtype)weft_ktype_of(old, weft_koperand(old, instr, 0)).elem : elem;
    if (converts && (is_f8(from) || is_f8(elem))) {
        weft_dtype other = is_f8(from) ? elem : from;
        bool bits_only = instr->op == WEFT_K_bitcast || from == elem;
        if (!bits_only && other != WEFT_F32)
            return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: a conversion between %s and %s", old->name,
                               weft_dtype_name(from), weft_dtype_name(elem));
        *out = bits_only ? weft_k_bitcast(k, operands[0], is_f8(elem) ? WEFT_U8 : elem)
                         : convert(k, operands[0], from, elem);
        return NULL;
    }
    if (some && (*out = weft_k_with_subnormals(k, (weft_kop)instr->op, instr->type, instr->i, operands)) != WEFT_KNONE)
        return NULL;
    weft_ktype type = instr->type;
    int64_t number = instr->i;
    if (type.kind != WEFT_KIND_VOID && is_f8(elem)) type.elem = WEFT_U8;
    if (instr->op == WEFT_K_constant && is_f8(elem)) number = (int64_t)weft_float_encode(elem, instr->f, false);
    *out = weft_kernel_emit(k, (weft_kop)instr->op, type, instr->operand_count, operands, number, instr->f);
    if (!k->failed) {
        k->instrs[*out].align_bytes = instr->align_bytes;
        k->instrs[*out].extent = instr->extent;
    }
    return NULL;
}

weft_status weft_kernel_without_f8(const weft_kernel *kernel, const weft_kernel **out_kernel) {
    bool found = false, powers = false;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        if (kernel->instrs[i].type.kind == WEFT_KIND_VOID) continue;
        found |= is_f8((weft_dtype)kernel->instrs[i].type.elem);
        powers |= kernel->instrs[i].type.elem == WEFT_F8E8M0FNU;
    }
    for (size_t i = 0; i < kernel->argument_count; i++) found |= is_f8(kernel->arguments[i].dtype);
    powers |= kernel->subnormals;
    *out_kernel = kernel;
    if (!found && !powers) return NULL;
    weft_kernel *k = weft_kernel_create(kernel->arena, kernel->dims, kernel->capability, kernel->name);
    rewriting r = {.old = kernel, .k = k};
    r.map = weft_arena_allocate_array(kernel->arena, kernel->instr_count + 1, sizeof *r.map);
    if (powers) r.level = weft_arena_allocate_array(kernel->arena, kernel->instr_count + 1, sizeof *r.level);
    if (!k || !r.map || (powers && !r.level))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s without 8-bit floats", kernel->name);
    k->threads = kernel->threads;
    k->cluster = kernel->cluster;
    k->registers = kernel->registers;
    k->grid = kernel->grid;
    for (size_t i = 0; i < kernel->argument_count; i++) {
        weft_kargument argument = kernel->arguments[i];
        if (is_f8(argument.dtype)) argument.dtype = WEFT_U8;
        (void)weft_kernel_argument(k, argument);
    }
    for (size_t i = 0; i < kernel->instr_count && !k->failed; i++) WEFT_TRY(copy(&r, (weft_kval)i), "8-bit floats");
    if (k->failed) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "kernel %s without 8-bit floats", kernel->name);
    *out_kernel = k;
    return NULL;
}
