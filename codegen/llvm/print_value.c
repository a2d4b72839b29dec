/* Arithmetic, comparisons, lanes. The spelling of plain ops comes from kernel_ops.def; here are the ops that need more
   than one instruction. Integer scalars fold, so that indices of registers are constants after unrolling.
   Signed division: x / -1 is 0 - x and x % -1 is 0, because the machine traps on the smallest integer.
   Read next: print_convert.c. */
#include <string.h>

#include "codegen/kernel/scalar.h"
#include "codegen/llvm/print.h"

static const char *const spellings[WEFT_K_COUNT] = {
#define KERNEL_OP(id, operands, flags, c, llvm) llvm,
#include "codegen/kernel/kernel_ops.def"
#undef KERNEL_OP
};

typedef struct spelling {
    char text[24];
} spelling;

static bool is_float(weft_dtype elem) { return elem == WEFT_F32 || elem == WEFT_F64; }
static bool is_signed(weft_dtype elem) { return weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED; }
/* Types with arithmetic; 16-bit and smaller floats are only loaded, stored, moved and converted. */
static bool has_arithmetic(weft_dtype elem) { return is_float(elem) || !weft_dtype_is_float(elem); }

/* Part 0 (signed), 1 (unsigned, bool) or 2 (float) of a row's llvm column; "" = no plain spelling. */
static spelling find_spelling(weft_kop op, weft_dtype elem) {
    spelling found = {""};
    const char *row = spellings[op];
    int part = is_float(elem) ? 2 : is_signed(elem) ? 0 : 1;
    for (; part > 0 && *row; row++) part -= *row == '|';
    size_t length = strcspn(row, "|");
    if (part == 0 && length > 1 && length < sizeof found.text) memcpy(found.text, row, length);
    return found;
}

static void print_plain(weft_llvm_printer *printer, int32_t at, weft_ktype type, const char *op) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_llvm_name vector = weft_llvm_elem_type((weft_dtype)type.elem, type.lanes);
    weft_llvm_name names[3] = {0};
    for (int i = 0; i < instr->operand_count && i < 3; i++) names[i] = weft_llvm_operand(printer, instr, i);
    if (*op != '@') {
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "%s %s %s, %s", op, vector.text, names[0].text, names[1].text));
        return;
    }
    weft_llvm_name suffix = weft_llvm_suffix((weft_dtype)type.elem, type.lanes);
    int id = printer->next++;
    weft_text_append(printer->text, "  %%t%d = call %s %s.%s(", id, vector.text, op, suffix.text);
    for (int i = 0; i < instr->operand_count; i++)
        weft_text_append(printer->text, "%s%s %s", i ? ", " : "", vector.text, names[i].text);
    weft_text_append(printer->text, ")\n");
    weft_llvm_bind(printer, at, id);
}

/* What the machine would do anyway stays an instruction: faults, and products whose upper half is wanted. */
static bool fold_pair(weft_kop op, weft_dtype elem, int64_t a, int64_t b, int64_t *out) {
    uint64_t value;
    if (op >= WEFT_K_eq && op <= WEFT_K_le)
        value = weft_kscalar_compare(op, elem, (uint64_t)a, (uint64_t)b);
    else if (op < WEFT_K_add || op > WEFT_K_shr || (elem == WEFT_BOOL && op < WEFT_K_min) ||
             weft_kscalar_binary(op, elem, (uint64_t)a, (uint64_t)b, &value))
        return false;
    *out = (int64_t)value;
    return true;
}

/* Pairs of integer constants, and x + 0, x * 1 which unrolling leaves behind. */
static bool fold(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    if (instr->operand_count != 2 || instr->op == WEFT_K_insert) return false;
    weft_kval a = weft_koperand(printer->kernel, instr, 0), b = weft_koperand(printer->kernel, instr, 1);
    weft_dtype elem = (weft_dtype)weft_ktype_of(printer->kernel, a).elem;
    if (weft_dtype_is_float(elem)) return false;
    int64_t x = 0, y = 0, result;
    bool known_x = weft_llvm_known(printer, a, &x), known_y = weft_llvm_known(printer, b, &y);
    if (known_x && known_y && fold_pair((weft_kop)instr->op, elem, x, y, &result)) {
        weft_llvm_bind_integer(printer, at, result);
        return true;
    }
    if ((instr->op == WEFT_K_add && known_x && x == 0) || (instr->op == WEFT_K_mul && known_x && x == 1)) {
        printer->slots[at] = printer->slots[b];
        return true;
    }
    if (((instr->op == WEFT_K_add || instr->op == WEFT_K_sub) && known_y && y == 0) ||
        (instr->op == WEFT_K_mul && known_y && y == 1)) {
        printer->slots[at] = printer->slots[a];
        return true;
    }
    return false;
}

static void print_constant(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    if (is_float(elem))
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_FLOAT, .number = instr->f};
    else if (weft_dtype_is_float(elem))
        weft_llvm_bind_integer(printer, at, (int64_t)weft_float_encode(elem, instr->f, false));
    else
        weft_llvm_bind_integer(printer, at, weft_kscalar_wrap(elem, instr->i));
}

/* a < b ? a : b, as the machine's vminps does it. */
static void print_float_extremum(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_llvm_name type = weft_llvm_type_of(printer, at), mask = weft_llvm_integer_type(1, instr->type.lanes);
    weft_llvm_name a = weft_llvm_operand(printer, instr, 0), b = weft_llvm_operand(printer, instr, 1);
    int less = weft_llvm_define(printer, "fcmp %s %s %s, %s", instr->op == WEFT_K_min ? "olt" : "ogt", type.text,
                                a.text, b.text);
    weft_llvm_bind(printer, at,
                   weft_llvm_define(printer, "select %s %%t%d, %s %s, %s %s", mask.text, less, type.text, a.text,
                                    type.text, b.text));
}

static void print_signed_division(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int lanes = instr->type.lanes, bits = weft_dtype_bits((weft_dtype)instr->type.elem);
    bool divides = instr->op == WEFT_K_div;
    weft_llvm_name type = weft_llvm_type_of(printer, at), mask = weft_llvm_integer_type(1, lanes);
    weft_llvm_name a = weft_llvm_operand(printer, instr, 0), b = weft_llvm_operand(printer, instr, 1);
    weft_llvm_name minus = weft_llvm_integer(-1, bits, lanes), one = weft_llvm_integer(1, bits, lanes),
                   zero = weft_llvm_integer(0, bits, lanes);
    int64_t divisor;
    if (weft_llvm_known(printer, weft_koperand(printer->kernel, instr, 1), &divisor) && divisor != -1) {
        weft_llvm_bind(printer, at,
                       weft_llvm_define(printer, "%s %s %s, %s", divides ? "sdiv" : "srem", type.text, a.text, b.text));
        return;
    }
    int is_minus = weft_llvm_define(printer, "icmp eq %s %s, %s", type.text, b.text, minus.text);
    int safe = weft_llvm_define(printer, "select %s %%t%d, %s %s, %s %s", mask.text, is_minus, type.text, one.text,
                                type.text, b.text);
    int result = weft_llvm_define(printer, "%s %s %s, %%t%d", divides ? "sdiv" : "srem", type.text, a.text, safe);
    if (divides) {
        int negated = weft_llvm_define(printer, "sub %s %s, %s", type.text, zero.text, a.text);
        result = weft_llvm_define(printer, "select %s %%t%d, %s %%t%d, %s %%t%d", mask.text, is_minus, type.text,
                                  negated, type.text, result);
    }
    weft_llvm_bind(printer, at, result);
}

static void print_sign_op(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int lanes = instr->type.lanes, bits = elem == WEFT_BOOL ? 1 : weft_dtype_bits(elem);
    weft_llvm_name type = weft_llvm_type_of(printer, at), a = weft_llvm_operand(printer, instr, 0),
                   suffix = weft_llvm_suffix(elem, lanes);
    weft_llvm_name ones = weft_llvm_integer(-1, bits, lanes), zero = weft_llvm_integer(0, bits, lanes);
    int id;
    if (instr->op == WEFT_K_not)
        id = weft_llvm_define(printer, "xor %s %s, %s", type.text, a.text, ones.text);
    else if (instr->op == WEFT_K_neg)
        id = is_float(elem) ? weft_llvm_define(printer, "fneg %s %s", type.text, a.text)
                            : weft_llvm_define(printer, "sub %s %s, %s", type.text, zero.text, a.text);
    else if (is_float(elem))
        id = weft_llvm_define(printer, "call %s @llvm.fabs.%s(%s %s)", type.text, suffix.text, type.text, a.text);
    else if (is_signed(elem))
        id = weft_llvm_define(printer, "call %s @llvm.abs.%s(%s %s, i1 false)", type.text, suffix.text, type.text,
                              a.text);
    else
        id = weft_llvm_define(printer, "or %s %s, %s", type.text, a.text, zero.text);
    weft_llvm_bind(printer, at, id);
}

static void print_mul_high(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    int lanes = instr->type.lanes, bits = weft_dtype_bits(elem);
    const char *extend = is_signed(elem) ? "sext" : "zext";
    weft_llvm_name narrow = weft_llvm_type_of(printer, at), wide = weft_llvm_integer_type(2 * bits, lanes);
    weft_llvm_name a = weft_llvm_operand(printer, instr, 0), b = weft_llvm_operand(printer, instr, 1);
    int x = weft_llvm_define(printer, "%s %s %s to %s", extend, narrow.text, a.text, wide.text);
    int y = weft_llvm_define(printer, "%s %s %s to %s", extend, narrow.text, b.text, wide.text);
    int product = weft_llvm_define(printer, "mul %s %%t%d, %%t%d", wide.text, x, y);
    weft_llvm_name shift;
    if (lanes > 1)
        snprintf(shift.text, sizeof shift.text, "splat (i%d %d)", 2 * bits, bits);
    else
        snprintf(shift.text, sizeof shift.text, "%d", bits);
    int high = weft_llvm_define(printer, "lshr %s %%t%d, %s", wide.text, product, shift.text);
    weft_llvm_bind(printer, at, weft_llvm_define(printer, "trunc %s %%t%d to %s", wide.text, high, narrow.text));
}

static void print_select(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_llvm_name mask = weft_llvm_type_of(printer, weft_koperand(printer->kernel, instr, 0)),
                   type = weft_llvm_type_of(printer, at);
    weft_llvm_name m = weft_llvm_operand(printer, instr, 0), a = weft_llvm_operand(printer, instr, 1),
                   b = weft_llvm_operand(printer, instr, 2);
    weft_llvm_bind(printer, at,
                   weft_llvm_define(printer, "select %s %s, %s %s, %s %s", mask.text, m.text, type.text, a.text,
                                    type.text, b.text));
}

/* -- lanes */

static int splat(weft_llvm_printer *printer, const char *scalar_type, const char *scalar, const char *vector_type,
                 int lanes) {
    int one = weft_llvm_define(printer, "insertelement %s poison, %s %s, i64 0", vector_type, scalar_type, scalar);
    return weft_llvm_define(printer, "shufflevector %s %%t%d, %s poison, <%d x i32> zeroinitializer", vector_type, one,
                            vector_type, lanes);
}

static void print_lanes(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_kval a = weft_koperand(printer->kernel, instr, 0);
    weft_ktype from = weft_ktype_of(printer->kernel, a);
    weft_llvm_slot slot = printer->slots[a];
    weft_llvm_name type = weft_llvm_type_of(printer, at), source = weft_llvm_type_of(printer, a);
    if (slot.kind == WEFT_LLVM_INTEGER || slot.kind == WEFT_LLVM_FLOAT) {
        if (instr->op == WEFT_K_splat || instr->op == WEFT_K_extract) { /* a constant is the same in all lanes */
            printer->slots[at] = slot;
            return;
        }
    }
    weft_llvm_name x = weft_llvm_operand(printer, instr, 0);
    if (instr->op == WEFT_K_splat) {
        if (instr->type.lanes == from.lanes)
            printer->slots[at] = slot;
        else
            weft_llvm_bind(printer, at, splat(printer, source.text, x.text, type.text, instr->type.lanes));
    } else if (instr->op == WEFT_K_extract) {
        if (from.lanes == 1)
            printer->slots[at] = slot;
        else
            weft_llvm_bind(
                printer, at,
                weft_llvm_define(printer, "extractelement %s %s, i64 %d", source.text, x.text, (int)instr->i));
    } else {
        weft_kval b = weft_koperand(printer->kernel, instr, 1);
        weft_llvm_name scalar = weft_llvm_type_of(printer, b), y = weft_llvm_operand(printer, instr, 1);
        if (from.lanes == 1)
            printer->slots[at] = printer->slots[b];
        else
            weft_llvm_bind(printer, at,
                           weft_llvm_define(printer, "insertelement %s %s, %s %s, i64 %d", type.text, x.text,
                                            scalar.text, y.text, (int)instr->i));
    }
}

/* One halving step: lanes [0, lanes / 2) combined with the rest. */
static int combine_halves(weft_llvm_printer *printer, weft_kop op, weft_dtype elem, int a, int b, int lanes) {
    weft_llvm_name type = weft_llvm_elem_type(elem, lanes), mask = weft_llvm_integer_type(1, lanes),
                   suffix = weft_llvm_suffix(elem, lanes);
    bool real = is_float(elem), sign = is_signed(elem), least = op == WEFT_K_reduce_min;
    switch ((int)op) {
    case WEFT_K_reduce_add:
        return weft_llvm_define(printer, "%s %s %%t%d, %%t%d", real ? "fadd" : "add", type.text, a, b);
    case WEFT_K_reduce_mul:
        return weft_llvm_define(printer, "%s %s %%t%d, %%t%d", real ? "fmul" : "mul", type.text, a, b);
    case WEFT_K_reduce_and: return weft_llvm_define(printer, "and %s %%t%d, %%t%d", type.text, a, b);
    case WEFT_K_reduce_or: return weft_llvm_define(printer, "or %s %%t%d, %%t%d", type.text, a, b);
    default: break;
    }
    if (real) {
        int less = weft_llvm_define(printer, "fcmp %s %s %%t%d, %%t%d", least ? "olt" : "ogt", type.text, a, b);
        return weft_llvm_define(printer, "select %s %%t%d, %s %%t%d, %s %%t%d", mask.text, less, type.text, a,
                                type.text, b);
    }
    const char *kind = least ? sign ? "smin" : "umin" : sign ? "smax" : "umax";
    return weft_llvm_define(printer, "call %s @llvm.%s.%s(%s %%t%d, %s %%t%d)", type.text, kind, suffix.text, type.text,
                            a, type.text, b);
}

static void shuffle_indices(weft_text *text, int first, int count) {
    weft_text_append(text, "<%d x i32> <", count);
    for (int lane = 0; lane < count; lane++) weft_text_append(text, "%si32 %d", lane ? ", " : "", first + lane);
    weft_text_append(text, ">\n");
}

/* deal and zip: one shuffle. */
static void print_shuffle(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int lanes = instr->type.lanes, first = (int)instr->i;
    weft_llvm_name type = weft_llvm_type_of(printer, at), a = weft_llvm_operand(printer, instr, 0),
                   b = weft_llvm_operand(printer, instr, 1);
    int id = printer->next++;
    weft_text_append(printer->text, "  %%t%d = shufflevector %s %s, %s %s, <%d x i32> <", id, type.text, a.text,
                     type.text, b.text, lanes);
    for (int lane = 0; lane < lanes; lane++) {
        int place = first * lanes + lane,
            from = instr->op == WEFT_K_deal ? 2 * lane + first : place / 2 + place % 2 * lanes;
        weft_text_append(printer->text, "%si32 %d", lane ? ", " : "", from);
    }
    weft_text_append(printer->text, ">\n");
    weft_llvm_bind(printer, at, id);
}

static int take_lanes(weft_llvm_printer *printer, const char *type, int vector, int first, int count) {
    int id = printer->next++;
    if (count == 1) {
        weft_text_append(printer->text, "  %%t%d = extractelement %s %%t%d, i64 %d\n", id, type, vector, first);
        return id;
    }
    weft_text_append(printer->text, "  %%t%d = shufflevector %s %%t%d, %s poison, ", id, type, vector, type);
    shuffle_indices(printer->text, first, count);
    return id;
}

static void print_reduce(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_kval a = weft_koperand(printer->kernel, instr, 0);
    weft_ktype from = weft_ktype_of(printer->kernel, a);
    weft_dtype elem = (weft_dtype)from.elem;
    int lanes = from.lanes;
    if (lanes & (lanes - 1)) {
        weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "reduces a vector whose lanes are no power of two");
        return;
    }
    weft_llvm_name type = weft_llvm_type_of(printer, a), x = weft_llvm_operand(printer, instr, 0);
    int vector = weft_llvm_define(printer, "bitcast %s %s to %s", type.text, x.text, type.text);
    for (; lanes > 1; lanes /= 2) {
        type = weft_llvm_elem_type(elem, lanes);
        int low = take_lanes(printer, type.text, vector, 0, lanes / 2),
            high = take_lanes(printer, type.text, vector, lanes / 2, lanes / 2);
        vector = combine_halves(printer, (weft_kop)instr->op, elem, low, high, lanes / 2);
    }
    weft_llvm_bind(printer, at, vector);
}

static void print_iota(weft_llvm_printer *printer, int32_t at) {
    weft_ktype type = weft_ktype_of(printer->kernel, at);
    if (type.lanes > 1)
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_IOTA};
    else if (is_float((weft_dtype)type.elem))
        printer->slots[at] = (weft_llvm_slot){.kind = WEFT_LLVM_FLOAT};
    else
        weft_llvm_bind_integer(printer, at, 0);
}

bool weft_llvm_print_value(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    switch ((int)instr->op) {
    case WEFT_K_constant: print_constant(printer, at); return true;
    case WEFT_K_iota: print_iota(printer, at); return true;
    case WEFT_K_splat:
    case WEFT_K_extract:
    case WEFT_K_insert: print_lanes(printer, at); return true;
    case WEFT_K_deal:
    case WEFT_K_zip: print_shuffle(printer, at); return true;
    case WEFT_K_select: print_select(printer, at); return true;
    default: break;
    }
    if (weft_kop_flags((weft_kop)instr->op) != WEFT_KFLAG_PURE || instr->operand_count == 0) return false;
    bool reduces = instr->op >= WEFT_K_reduce_add && instr->op <= WEFT_K_reduce_or;
    weft_ktype type = weft_ktype_of(printer->kernel, weft_koperand(printer->kernel, instr, 0));
    if (type.kind != WEFT_KIND_VALUE || instr->op == WEFT_K_convert || instr->op == WEFT_K_bitcast) return false;
    elem = (weft_dtype)type.elem;
    spelling plain = find_spelling((weft_kop)instr->op, elem);
    bool special = reduces || instr->op == WEFT_K_not || instr->op == WEFT_K_neg || instr->op == WEFT_K_abs ||
                   instr->op == WEFT_K_mul_high;
    bool extremum = (instr->op == WEFT_K_min || instr->op == WEFT_K_max) && is_float(elem);
    if (!special && !extremum && !*plain.text) return false;
    if (!has_arithmetic(elem)) {
        weft_llvm_problem(printer, WEFT_INTERNAL, at, "computes in a type without arithmetic");
        return true;
    }
    if (fold(printer, at)) return true;
    if (reduces)
        print_reduce(printer, at);
    else if (instr->op == WEFT_K_mul_high)
        print_mul_high(printer, at);
    else if (special)
        print_sign_op(printer, at);
    else if (extremum)
        print_float_extremum(printer, at);
    else if ((instr->op == WEFT_K_div || instr->op == WEFT_K_rem) && is_signed(elem))
        print_signed_division(printer, at);
    else
        print_plain(printer, at, type, plain.text);
    return true;
}
