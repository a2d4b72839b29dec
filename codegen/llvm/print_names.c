/* Spelling of types, constants and values in LLVM IR. F16, BF16 and F8 values are carried as integers: LLVM would make
   library calls of their arithmetic, print_convert.c writes their conversions out. Read next: print_value.c. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "codegen/llvm/print.h"

static int value_bits(weft_dtype elem) { return elem == WEFT_BOOL ? 1 : weft_dtype_bits(elem); }

weft_llvm_name weft_llvm_integer_type(int bits, int lanes) {
    weft_llvm_name name;
    if (lanes > 1)
        snprintf(name.text, sizeof name.text, "<%d x i%d>", lanes, bits);
    else
        snprintf(name.text, sizeof name.text, "i%d", bits);
    return name;
}

weft_llvm_name weft_llvm_elem_type(weft_dtype elem, int lanes) {
    const char *type = elem == WEFT_F32 ? "float" : elem == WEFT_F64 ? "double" : NULL;
    if (!type) return weft_llvm_integer_type(value_bits(elem), lanes);
    weft_llvm_name name;
    if (lanes > 1)
        snprintf(name.text, sizeof name.text, "<%d x %s>", lanes, type);
    else
        snprintf(name.text, sizeof name.text, "%s", type);
    return name;
}

weft_llvm_name weft_llvm_type_of(const weft_llvm_printer *printer, weft_kval value) {
    weft_ktype type = weft_ktype_of(printer->kernel, value);
    return weft_llvm_elem_type((weft_dtype)type.elem, type.lanes);
}

weft_llvm_name weft_llvm_memory_type(weft_dtype elem, int lanes) {
    return weft_llvm_elem_type(elem == WEFT_BOOL ? WEFT_U8 : elem, lanes);
}

weft_llvm_name weft_llvm_suffix(weft_dtype elem, int lanes) {
    weft_llvm_name name;
    char kind = elem == WEFT_F32 || elem == WEFT_F64 ? 'f' : 'i';
    if (lanes > 1)
        snprintf(name.text, sizeof name.text, "v%d%c%d", lanes, kind, value_bits(elem));
    else
        snprintf(name.text, sizeof name.text, "%c%d", kind, value_bits(elem));
    return name;
}

weft_llvm_name weft_llvm_integer(int64_t value, int bits, int lanes) {
    weft_llvm_name name;
    char number[24];
    if (bits == 1)
        snprintf(number, sizeof number, "%s", value & 1 ? "true" : "false");
    else
        snprintf(number, sizeof number, "%" PRId64,
                 bits == 64 ? value : (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits));
    if (lanes > 1)
        snprintf(name.text, sizeof name.text, "splat (i%d %s)", bits, number);
    else
        snprintf(name.text, sizeof name.text, "%s", number);
    return name;
}

weft_llvm_name weft_llvm_float(double value, weft_dtype elem, int lanes) {
    weft_llvm_name name;
    uint64_t bits;
    if (elem == WEFT_F32) value = (double)(float)value; /* LLVM wants a float literal as the double of the same value */
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) bits = UINT64_C(0x7ff8000000000000) | (bits & (UINT64_C(1) << 63));
    if (lanes > 1)
        snprintf(name.text, sizeof name.text, "splat (%s 0x%016" PRIX64 ")", elem == WEFT_F32 ? "float" : "double",
                 bits);
    else
        snprintf(name.text, sizeof name.text, "0x%016" PRIX64, bits);
    return name;
}

weft_llvm_name weft_llvm_ssa(int id) {
    weft_llvm_name name;
    snprintf(name.text, sizeof name.text, "%%t%d", id);
    return name;
}

static int define_iota(weft_llvm_printer *printer, weft_ktype type) {
    int id = printer->next++;
    bool is_float = type.elem == WEFT_F32 || type.elem == WEFT_F64;
    weft_dtype elem = (weft_dtype)type.elem;
    weft_llvm_name vector = weft_llvm_elem_type(elem, type.lanes), scalar = weft_llvm_elem_type(elem, 1);
    weft_text_append(printer->text, "  %%t%d = bitcast %s <", id, vector.text);
    for (int lane = 0; lane < type.lanes; lane++) {
        weft_llvm_name number =
            is_float ? weft_llvm_float(lane, elem, 1) : weft_llvm_integer(lane, value_bits(elem), 1);
        weft_text_append(printer->text, "%s%s %s", lane ? ", " : "", scalar.text, number.text);
    }
    weft_text_append(printer->text, "> to %s\n", vector.text);
    return id;
}

weft_llvm_name weft_llvm_value(weft_llvm_printer *printer, weft_kval value) {
    weft_llvm_slot slot = printer->slots[value];
    weft_ktype type = weft_ktype_of(printer->kernel, value);
    weft_llvm_name name;
    switch (slot.kind) {
    case WEFT_LLVM_SSA: return weft_llvm_ssa(slot.id);
    case WEFT_LLVM_INTEGER: return weft_llvm_integer(slot.integer, value_bits((weft_dtype)type.elem), type.lanes);
    case WEFT_LLVM_FLOAT: return weft_llvm_float(slot.number, (weft_dtype)type.elem, type.lanes);
    case WEFT_LLVM_IOTA: return weft_llvm_ssa(define_iota(printer, type));
    case WEFT_LLVM_BUFFER: snprintf(name.text, sizeof name.text, "%%b%d", slot.id); return name;
    case WEFT_LLVM_SHARED: snprintf(name.text, sizeof name.text, "%%s%d", slot.id); return name;
    case WEFT_LLVM_STORAGE: snprintf(name.text, sizeof name.text, "%%v%d", slot.id); return name;
    case WEFT_LLVM_NONE: break;
    }
    weft_llvm_problem(printer, WEFT_INTERNAL, value, "is used before it has a value");
    return weft_llvm_ssa(0);
}

weft_llvm_name weft_llvm_operand(weft_llvm_printer *printer, const weft_kinstr *instr, int index) {
    return weft_llvm_value(printer, weft_koperand(printer->kernel, instr, index));
}

int weft_llvm_define(weft_llvm_printer *printer, const char *format, ...) {
    int id = printer->next++;
    va_list arguments;
    va_start(arguments, format);
    weft_text_append(printer->text, "  %%t%d = ", id);
    weft_text_append_list(printer->text, format, arguments);
    weft_text_append_bytes(printer->text, "\n", 1);
    va_end(arguments);
    return id;
}

void weft_llvm_line(weft_llvm_printer *printer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    weft_text_append_bytes(printer->text, "  ", 2);
    weft_text_append_list(printer->text, format, arguments);
    weft_text_append_bytes(printer->text, "\n", 1);
    va_end(arguments);
}

void weft_llvm_bind(weft_llvm_printer *printer, weft_kval value, int id) {
    printer->slots[value] = (weft_llvm_slot){.kind = WEFT_LLVM_SSA, .id = id};
}

void weft_llvm_bind_integer(weft_llvm_printer *printer, weft_kval value, int64_t number) {
    printer->slots[value] = (weft_llvm_slot){.kind = WEFT_LLVM_INTEGER, .integer = number};
}

bool weft_llvm_known(const weft_llvm_printer *printer, weft_kval value, int64_t *out_number) {
    if (value == WEFT_KNONE || printer->slots[value].kind != WEFT_LLVM_INTEGER) return false;
    *out_number = printer->slots[value].integer;
    return true;
}

int weft_llvm_label(weft_llvm_printer *printer) { return printer->next++; }

void weft_llvm_open(weft_llvm_printer *printer, int label) {
    weft_text_append(printer->text, "l%d:\n", label);
    printer->label = label;
}
