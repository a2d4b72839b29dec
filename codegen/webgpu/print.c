/* Structure of a printed kernel: bindings, the entry point, nests, funcs. See print.h. */
#include "codegen/webgpu/print.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/kernel/narrow.h"

weft_wgsl_class weft_wgsl_class_of(const weft_wgsl_printer *p, weft_dtype elem) {
    switch ((int)elem) {
    case WEFT_BOOL: return WEFT_WGSL_BOOL;
    case WEFT_I8:
    case WEFT_I16:
    case WEFT_I32: return WEFT_WGSL_I32;
    case WEFT_U8:
    case WEFT_U16:
    case WEFT_U32:
    case WEFT_BF16: return WEFT_WGSL_U32;
    case WEFT_F16: return p->kernel->capability->native_f16 ? WEFT_WGSL_F16 : WEFT_WGSL_U32;
    case WEFT_I64:
    case WEFT_U64: return WEFT_WGSL_PAIR;
    case WEFT_F32: return WEFT_WGSL_F32;
    default: return WEFT_WGSL_NONE;
    }
}

const char *weft_wgsl_type(const weft_wgsl_printer *p, weft_dtype elem) {
    static const char *const types[] = {NULL, "bool", "i32", "u32", "vec2<u32>", "f16", "f32"};
    return types[weft_wgsl_class_of(p, elem)];
}

void weft_wgsl_fail(weft_wgsl_printer *printer, weft_code code, const char *problem) {
    weft_piece_fail(&printer->failure, &printer->problem, code, problem);
}

void weft_wgsl_line(weft_wgsl_printer *printer, const char *format, ...) {
    va_list list;
    va_start(list, format);
    weft_piece_line(printer->text, printer->depth, format, list);
    va_end(list);
}

/* Constant expressions must be finite, and a subnormal or negative zero may not survive one. */
static weft_piece float_constant(double number) {
    float value = (float)number;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bool plain = isnormal(value) || bits == 0;
    if (!plain) return weft_piece_format("f32_of_bits(0x%08xu)", bits);
    return weft_piece_format(value < 0 ? "(%.9ef)" : "%.9ef", (double)value);
}

/* As above: 2^-14 is the least that is normal. */
static weft_piece half_constant(double number) {
    uint64_t bits = weft_float_encode(WEFT_F16, number, false);
    double value = weft_float_decode(WEFT_F16, bits);
    bool plain = bits == 0 || (isfinite(value) && fabs(value) >= 0x1p-14);
    if (!plain) return weft_piece_format("f16(f32_of_f16(0x%04xu))", (unsigned)bits);
    return weft_piece_format(value < 0 ? "(%.9eh)" : "%.9eh", value);
}

static weft_piece print_constant(const weft_wgsl_printer *p, const weft_kinstr *instr) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    if (elem == WEFT_F32) return float_constant(instr->f);
    if (elem == WEFT_BOOL) return weft_piece_format("%s", instr->i ? "true" : "false");
    if (weft_wgsl_class_of(p, elem) == WEFT_WGSL_F16) return half_constant(instr->f);
    if (weft_dtype_is_float(elem))
        return weft_piece_format("0x%llxu", (unsigned long long)weft_float_encode(elem, instr->f, false));
    uint64_t bits = (uint64_t)instr->i;
    if (weft_wgsl_class_of(p, elem) == WEFT_WGSL_PAIR)
        return weft_piece_format("vec2<u32>(0x%xu, 0x%xu)", (uint32_t)bits, (uint32_t)(bits >> 32));
    if (weft_wgsl_class_of(p, elem) == WEFT_WGSL_U32) return weft_piece_format("%uu", (uint32_t)bits);
    if (instr->i < 0) return weft_piece_format("i32(%d)", (int32_t)instr->i);
    return weft_piece_format("%di", (int32_t)instr->i);
}

weft_piece weft_wgsl_value(const weft_wgsl_printer *printer, weft_kval value, int lane) {
    const weft_kinstr *instr = weft_kernel_unsplat(printer->kernel, &value, &lane);
    if (instr->op == WEFT_K_constant) return print_constant(printer, instr);
    if (printer->uses[value] & WEFT_WGSL_VECTOR)
        return weft_piece_format("v%d_%d.%c", value, lane / 4, "xyzw"[lane % 4]);
    if (instr->type.lanes > 1 && !printer->scalar_body) return weft_piece_format("v%d_%d", value, lane);
    return weft_piece_format("v%d", value);
}

weft_piece weft_wgsl_lane(const weft_wgsl_printer *printer, weft_kval value, int lane) {
    return weft_wgsl_value(printer, value, weft_ktype_of(printer->kernel, value).lanes > 1 ? lane : 0);
}

static void print_for(weft_wgsl_printer *p, weft_kval id, const weft_kinstr *instr) {
    const char *type = weft_wgsl_type(p, (weft_dtype)instr->type.elem);
    if (weft_wgsl_class_of(p, (weft_dtype)instr->type.elem) == WEFT_WGSL_PAIR)
        weft_wgsl_fail(p, WEFT_UNSUPPORTED, "a loop that counts in 64 bits");
    weft_wgsl_line(p, "for (var v%d: %s = %s; v%d < %s; v%d += %s) {", id, type,
                   weft_wgsl_value(p, weft_koperand(p->kernel, instr, 0), 0).text, id,
                   weft_wgsl_value(p, weft_koperand(p->kernel, instr, 1), 0).text, id,
                   weft_wgsl_value(p, weft_koperand(p->kernel, instr, 2), 0).text);
    p->depth++;
}

/* false: not a structural op */
static bool print_structure(weft_wgsl_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_for: print_for(p, id, instr); return true;
    case WEFT_K_if:
        weft_wgsl_line(p, "if (%s) {", weft_wgsl_value(p, weft_koperand(p->kernel, instr, 0), 0).text);
        p->depth++;
        return true;
    case WEFT_K_else:
        p->depth--;
        weft_wgsl_line(p, "} else {");
        p->depth++;
        return true;
    case WEFT_K_while:
        weft_wgsl_line(p, "loop {");
        p->depth++;
        return true;
    case WEFT_K_test:
        weft_wgsl_line(p, "if (!%s) { break; }", weft_wgsl_value(p, weft_koperand(p->kernel, instr, 0), 0).text);
        return true;
    case WEFT_K_end:
        p->depth--;
        weft_wgsl_line(p, "}");
        return true;
    default: return false;
    }
}

static void print_instruction(weft_wgsl_printer *p, weft_kval id) {
    if (print_structure(p, id) || weft_wgsl_print_value(p, id) || weft_wgsl_print_memory(p, id)) return;
    weft_wgsl_fail(p, WEFT_UNSUPPORTED, weft_kop_name((weft_kop)weft_kernel_get(p->kernel, id)->op));
}

/* A func is a function of scalars: bodies on vectors are lanewise, so one lane stands for all. */
static void print_func(weft_wgsl_printer *p, weft_kval id, weft_kval end) {
    weft_kval result = weft_koperand(p->kernel, weft_kernel_get(p->kernel, end), 0);
    weft_text_append(p->text, "fn f%d(", id);
    int64_t count = weft_kernel_get(p->kernel, id)->i;
    for (int64_t parameter = 0; parameter < count; parameter++) {
        weft_kval found = weft_kernel_func_parameter(p->kernel, id, parameter);
        if (found == WEFT_KNONE) {
            weft_wgsl_fail(p, WEFT_UNSUPPORTED, "a func with a parameter that it does not read");
            return;
        }
        weft_text_append(p->text, "%sv%d: %s", parameter ? ", " : "", found,
                         weft_wgsl_type(p, (weft_dtype)weft_ktype_of(p->kernel, found).elem));
    }
    weft_text_append(p->text, ") -> %s {\n", weft_wgsl_type(p, (weft_dtype)weft_ktype_of(p->kernel, result).elem));
    p->scalar_body = true;
    p->depth = 1;
    for (weft_kval i = id + 1; i < end; i++)
        if (weft_kernel_get(p->kernel, i)->op != WEFT_K_parameter) print_instruction(p, i);
    weft_wgsl_line(p, "return %s;", weft_wgsl_value(p, result, 0).text);
    p->depth = 0;
    p->scalar_body = false;
    weft_text_append(p->text, "}\n");
}

/* Blocks are numbered over two axes of the dispatch, since one axis ends at 65535; those past the grid do nothing. One
   exit: prelude.c says why. */
static void print_kernel(weft_wgsl_printer *p) {
    const weft_kernel *kernel = p->kernel;
    weft_kval count = (weft_kval)kernel->instr_count;
    for (weft_kval i = 0; i < count; i++)
        if (kernel->instrs[i].op == WEFT_K_func) print_func(p, i, weft_kernel_func_end(kernel, i));
    weft_text_append(p->text, "@compute @workgroup_size(%d)\n", kernel->threads);
    weft_text_append(p->text, "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: "
                              "vec3<u32>, @builtin(local_invocation_index) local: u32) {\n");
    p->depth = 1;
    weft_wgsl_line(p, "weft_zero = groups.z ^ 1u;");
    weft_wgsl_line(p, "let block = group.x + group.y * groups.x;");
    weft_wgsl_line(p, "if (block < extents.grid) {");
    p->depth++;
    for (weft_kval i = 0; i < count; i++) {
        if (kernel->instrs[i].op == WEFT_K_func)
            i = weft_kernel_func_end(kernel, i);
        else
            print_instruction(p, i);
    }
    p->depth--;
    weft_wgsl_line(p, "}");
    p->depth = 0;
    weft_text_append(p->text, "}\n");
}

/* Values of a type that WGSL has no carrier for must not occur. */
static void check_types(weft_wgsl_printer *p) {
    for (size_t i = 0; i < p->kernel->instr_count; i++) {
        weft_ktype type = p->kernel->instrs[i].type;
        bool typed = type.kind == WEFT_KIND_VALUE || type.kind == WEFT_KIND_BUFFER || type.kind == WEFT_KIND_SHARED ||
                     type.kind == WEFT_KIND_VAR || type.kind == WEFT_KIND_REGS;
        if (typed && weft_wgsl_class_of(p, (weft_dtype)type.elem) == WEFT_WGSL_NONE) {
            const char *name = weft_dtype_name((weft_dtype)type.elem);
            weft_wgsl_fail(p, WEFT_UNSUPPORTED, name);
        }
    }
    if (p->kernel->cluster > 1) weft_wgsl_fail(p, WEFT_UNSUPPORTED, "clusters of blocks");
}

static weft_status print_body(weft_wgsl_printer *p) {
    const weft_kernel *kernel = p->kernel;
    p->uses = weft_arena_allocate_array(kernel->arena, kernel->instr_count + 1, 1);
    p->argument_uses = weft_arena_allocate_array(kernel->arena, kernel->argument_count + 1, 1);
    if (!p->uses || !p->argument_uses) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "printing kernel %s", kernel->name);
    memset(p->uses, 0, kernel->instr_count + 1);
    memset(p->argument_uses, 0, kernel->argument_count + 1);
    int64_t shared_bytes;
    WEFT_TRY(weft_wgsl_shared_bytes(kernel, &shared_bytes), "printing WGSL");
    if (shared_bytes > kernel->capability->shared_bytes)
        return WEFT_STATUS(WEFT_UNSUPPORTED,
                           "kernel %s: %lld bytes of shared memory, one word at least per element; "
                           "%d there are",
                           kernel->name, (long long)shared_bytes, kernel->capability->shared_bytes);
    check_types(p);
    if (p->failure == WEFT_OK) {
        weft_wgsl_scan(p);
        weft_wgsl_mark_vectors(p);
        weft_wgsl_print_declarations(p);
        print_kernel(p);
    }
    if (p->failure != WEFT_OK)
        return WEFT_STATUS(p->failure, "kernel %s cannot be printed as WGSL: %s", kernel->name, p->problem);
    return weft_text_status(p->text);
}

/* Does the kernel hold values or memory of f16? */
static bool has_f16(const weft_kernel *kernel) {
    for (size_t i = 0; i < kernel->instr_count; i++) {
        weft_ktype type = kernel->instrs[i].type;
        if (type.kind != WEFT_KIND_NONE && type.elem == WEFT_F16) return true;
    }
    return false;
}

weft_status weft_wgsl_print(const weft_kernel *kernel, weft_text *text) {
    weft_text body;
    WEFT_TRY(weft_kernel_without_f8(kernel, &kernel), "printing WGSL");
    weft_text_init(text->allocator, &body);
    weft_wgsl_printer printer = {.kernel = kernel, .text = &body};
    weft_status status = print_body(&printer);
    if (!status) {
        weft_text_append(text, "// %s\n", kernel->name);
        if (kernel->capability->native_f16 && has_f16(kernel)) weft_text_append(text, "enable f16;\n");
        /* whether lanes of a subgroup meet is what kernel/verify_uniform.c has proved */
        if (printer.subgroups) weft_text_append(text, "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n");
        weft_wgsl_print_prelude(weft_text_string(&body), text);
        weft_text_append_bytes(text, weft_text_string(&body), body.length);
        status = weft_text_status(text);
    }
    weft_text_deinit(&body);
    return status;
}
