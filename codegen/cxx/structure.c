/* Structure of a printed kernel: types, constants, nests, funcs. See print.h. */
#include "codegen/cxx/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

const char *weft_cxx_type(weft_dtype elem) {
    switch ((int)elem) {
    case WEFT_BOOL: return "bool";
    case WEFT_I8: return "i8";
    case WEFT_I16: return "short";
    case WEFT_I32: return "int";
    case WEFT_I64: return "i64";
    case WEFT_U8: return "u8";
    case WEFT_U16: return "u16";
    case WEFT_U32: return "u32";
    case WEFT_U64: return "u64";
    case WEFT_F16:
    case WEFT_BF16: return "u16"; /* bits; arithmetic happens in f32 */
    case WEFT_F32: return "float";
    case WEFT_F64: return "double";
    default: return weft_dtype_bits(elem) == 8 ? "u8" : NULL;
    }
}

const char *weft_cxx_storage(weft_dtype elem) { return elem == WEFT_BOOL ? "u8" : weft_cxx_type(elem); }

void weft_cxx_fail(weft_cxx_printer *printer, weft_code code, const char *problem) {
    weft_piece_fail(&printer->failure, &printer->problem, code, problem);
}

void weft_cxx_line(weft_cxx_printer *printer, const char *format, ...) {
    va_list list;
    va_start(list, format);
    weft_piece_line(printer->text, printer->depth, format, list);
    va_end(list);
}

static weft_piece print_constant(const weft_kinstr *instr) {
    weft_piece name;
    size_t room = sizeof name.text;
    switch ((int)instr->type.elem) {
    case WEFT_BOOL: snprintf(name.text, room, "%s", instr->i ? "true" : "false"); break;
    case WEFT_F32: {
        float value = (float)instr->f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (isfinite(value))
            snprintf(name.text, room, "%.9ef", (double)value);
        else
            snprintf(name.text, room, "f32_of_bits(0x%08xu)", bits);
        break;
    }
    case WEFT_F64: {
        uint64_t bits;
        memcpy(&bits, &instr->f, sizeof bits);
        if (isfinite(instr->f))
            snprintf(name.text, room, "%.17e", instr->f);
        else
            snprintf(name.text, room, "f64_of_bits(0x%016llx)", (unsigned long long)bits);
        break;
    }
    case WEFT_U32: snprintf(name.text, room, "%uu", (uint32_t)instr->i); break;
    case WEFT_U64: snprintf(name.text, room, "(u64)0x%llx", (unsigned long long)instr->i); break;
    case WEFT_I64:
        if (instr->i == INT64_MIN)
            snprintf(name.text, room, "(i64)0x8000000000000000");
        else
            snprintf(name.text, room, "(i64)%lld", (long long)instr->i);
        break;
    case WEFT_I32:
        if (instr->i == INT32_MIN)
            snprintf(name.text, room, "(-2147483647 - 1)");
        else
            snprintf(name.text, room, "%lld", (long long)instr->i);
        break;
    default:
        if (weft_dtype_is_float(instr->type.elem))
            snprintf(name.text, room, "(%s)0x%llx", weft_cxx_type(instr->type.elem),
                     (unsigned long long)weft_float_encode(instr->type.elem, instr->f, false));
        else
            snprintf(name.text, room, "(%s)%lld", weft_cxx_type(instr->type.elem), (long long)instr->i);
    }
    return name;
}

weft_piece weft_cxx_value(const weft_cxx_printer *printer, weft_kval value, int lane) {
    weft_piece name;
    const weft_kinstr *instr = weft_kernel_unsplat(printer->kernel, &value, &lane);
    if (instr->op == WEFT_K_constant) {
        name = print_constant(instr);
        if (name.text[0] == '-') { /* keeps "a - -1" apart from "a --1" */
            return weft_piece_format("(%s)", name.text);
        }
        return name;
    }
    if (instr->type.lanes > 1 && !printer->scalar_body)
        snprintf(name.text, sizeof name.text, "v%d_%d", value, lane);
    else
        snprintf(name.text, sizeof name.text, "v%d", value);
    return name;
}

void weft_cxx_push_nest(weft_cxx_printer *p, int role_left) {
    if (p->open_nests == WEFT_CXX_NESTS_MAX)
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "more than 16 nests");
    else
        p->nests[p->open_nests++] = (weft_cxx_nest){.role_left = role_left};
}

static void print_for(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    const char *type = weft_cxx_type(instr->type.elem);
    if (instr->i < 0)
        weft_cxx_line(p, "#pragma unroll");
    else
        weft_cxx_line(p, "#pragma unroll %d", instr->i > 0 ? (int)instr->i : 1);
    weft_cxx_line(p, "for (%s v%d = %s; v%d < %s; v%d += %s) {", type, id,
                  weft_cxx_value(p, weft_koperand(p->kernel, instr, 0), 0).text, id,
                  weft_cxx_value(p, weft_koperand(p->kernel, instr, 1), 0).text, id,
                  weft_cxx_value(p, weft_koperand(p->kernel, instr, 2), 0).text);
    weft_cxx_push_nest(p, -1);
    p->depth++;
}

/* false: not a structural op */
static bool print_structure(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_for: print_for(p, id, instr); return true;
    case WEFT_K_if:
        weft_cxx_line(p, "if (%s) {", weft_cxx_value(p, weft_koperand(p->kernel, instr, 0), 0).text);
        weft_cxx_push_nest(p, -1);
        p->depth++;
        return true;
    case WEFT_K_else:
        p->depth--;
        weft_cxx_line(p, "} else {");
        p->depth++;
        return true;
    case WEFT_K_while:
        weft_cxx_line(p, "for (;;) {");
        weft_cxx_push_nest(p, -1);
        p->depth++;
        return true;
    case WEFT_K_test:
        weft_cxx_line(p, "if (!(%s)) break;", weft_cxx_value(p, weft_koperand(p->kernel, instr, 0), 0).text);
        return true;
    case WEFT_K_end:
        p->depth--;
        if (p->open_nests > 0) p->open_nests--;
        weft_cxx_line(p, "}");
        return true;
    default: return false;
    }
}

static void print_instruction(weft_cxx_printer *p, weft_kval id) {
    if (p->dialect->print_row(p, id) || print_structure(p, id) || weft_cxx_print_value(p, id) ||
        weft_cxx_print_memory(p, id))
        return;
    weft_cxx_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)weft_kernel_get(p->kernel, id)->op));
}

/* A func is one expression of scalars: bodies on vectors are lanewise, so one lane stands for all. */
static void print_func(weft_cxx_printer *p, weft_kval id, weft_kval end) {
    const weft_kinstr *last = weft_kernel_get(p->kernel, end);
    weft_kval result = weft_koperand(p->kernel, last, 0);
    weft_text_append(p->text, "DEV %s %s_f%d(", weft_cxx_type(weft_ktype_of(p->kernel, result).elem), p->kernel->name,
                     id);
    const char *separator = "";
    int64_t count = weft_kernel_get(p->kernel, id)->i;
    for (int64_t parameter = 0; parameter < count; parameter++) {
        weft_kval found = weft_kernel_func_parameter(p->kernel, id, parameter);
        if (found == WEFT_KNONE)
            weft_text_append(p->text, "%sint", separator); /* never read */
        else
            weft_text_append(p->text, "%s%s v%d", separator, weft_cxx_type(weft_ktype_of(p->kernel, found).elem),
                             found);
        separator = ", ";
    }
    weft_text_append(p->text, ") {\n");
    p->scalar_body = true;
    p->depth = 1;
    for (weft_kval i = id + 1; i < end; i++)
        if (weft_kernel_get(p->kernel, i)->op != WEFT_K_parameter) print_instruction(p, i);
    weft_cxx_line(p, "return %s;", weft_cxx_value(p, result, 0).text);
    p->depth = 0;
    p->scalar_body = false;
    weft_text_append(p->text, "}\n");
}

void weft_cxx_print_funcs(weft_cxx_printer *p) {
    for (weft_kval i = 0; i < (weft_kval)p->kernel->instr_count; i++)
        if (p->kernel->instrs[i].op == WEFT_K_func) print_func(p, i, weft_kernel_func_end(p->kernel, i));
}

void weft_cxx_print_body(weft_cxx_printer *p) {
    p->depth = 1;
    for (weft_kval i = 0; i < (weft_kval)p->kernel->instr_count; i++) {
        if (p->kernel->instrs[i].op == WEFT_K_func)
            i = weft_kernel_func_end(p->kernel, i);
        else
            print_instruction(p, i);
    }
    p->depth = 0;
}

weft_status weft_cxx_status(const weft_cxx_printer *p) {
    if (p->failure != WEFT_OK)
        return WEFT_STATUS(p->failure, "kernel %s cannot be printed as %s: %s", p->kernel->name, p->dialect->name,
                           p->problem);
    return weft_text_status(p->text);
}
