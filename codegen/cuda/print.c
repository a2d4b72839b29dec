/* Structure of a printed kernel: signature, shared layout, nests, funcs. See print.h. */
#include "codegen/cuda/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/cuda/prelude.h"

const char *weft_cuda_type(weft_dtype elem) {
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

void weft_cuda_fail(weft_cuda_printer *printer, weft_code code, const char *problem) {
    if (printer->failure == WEFT_OK) {
        printer->failure = code;
        printer->problem = problem;
    }
}

weft_cuda_name weft_cuda_format(const char *format, ...) {
    weft_cuda_name name;
    va_list list;
    va_start(list, format);
    int length = vsnprintf(name.text, sizeof name.text, format, list);
    va_end(list);
    if (length < 0 || length >= (int)sizeof name.text) memcpy(name.text, "#too long", sizeof "#too long");
    return name;
}

void weft_cuda_line(weft_cuda_printer *printer, const char *format, ...) {
    for (int i = 0; i < printer->depth; i++) weft_text_append_bytes(printer->text, "  ", 2);
    va_list list;
    va_start(list, format);
    weft_text_append_list(printer->text, format, list);
    va_end(list);
    weft_text_append_bytes(printer->text, "\n", 1);
}

static weft_cuda_name print_constant(const weft_kinstr *instr) {
    weft_cuda_name name;
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
            snprintf(name.text, room, "__uint_as_float(0x%08xu)", bits);
        break;
    }
    case WEFT_F64: {
        uint64_t bits;
        memcpy(&bits, &instr->f, sizeof bits);
        if (isfinite(instr->f))
            snprintf(name.text, room, "%.17e", instr->f);
        else
            snprintf(name.text, room, "__longlong_as_double(0x%016llxll)", (unsigned long long)bits);
        break;
    }
    case WEFT_U32: snprintf(name.text, room, "%uu", (uint32_t)instr->i); break;
    case WEFT_U64: snprintf(name.text, room, "%lluull", (unsigned long long)instr->i); break;
    case WEFT_I64:
        if (instr->i == INT64_MIN)
            snprintf(name.text, room, "(-9223372036854775807ll - 1)");
        else
            snprintf(name.text, room, "%lldll", (long long)instr->i);
        break;
    case WEFT_I32:
        if (instr->i == INT32_MIN)
            snprintf(name.text, room, "(-2147483647 - 1)");
        else
            snprintf(name.text, room, "%lld", (long long)instr->i);
        break;
    default:
        if (weft_dtype_is_float(instr->type.elem))
            snprintf(name.text, room, "(%s)0x%llx", weft_cuda_type(instr->type.elem),
                     (unsigned long long)weft_float_encode(instr->type.elem, instr->f, false));
        else
            snprintf(name.text, room, "(%s)%lld", weft_cuda_type(instr->type.elem), (long long)instr->i);
    }
    return name;
}

weft_cuda_name weft_cuda_value(const weft_cuda_printer *printer, weft_kval value, int lane) {
    weft_cuda_name name;
    const weft_kinstr *instr = weft_kernel_get(printer->kernel, value);
    while (instr->op == WEFT_K_splat) {
        value = weft_koperand(printer->kernel, instr, 0);
        instr = weft_kernel_get(printer->kernel, value);
        lane = 0;
    }
    if (instr->op == WEFT_K_constant) {
        name = print_constant(instr);
        if (name.text[0] == '-') { /* keeps "a - -1" apart from "a --1" */
            return weft_cuda_format("(%s)", name.text);
        }
        return name;
    }
    if (instr->type.lanes > 1 && !printer->scalar_body)
        snprintf(name.text, sizeof name.text, "v%d_%d", value, lane);
    else
        snprintf(name.text, sizeof name.text, "v%d", value);
    return name;
}

int weft_cuda_needs(const weft_kernel *kernel) {
    int needs = 0;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        int op = kernel->instrs[i].op;
        if (op == WEFT_K_copy_async || op == WEFT_K_copy_commit || op == WEFT_K_copy_wait || op == WEFT_K_frag_load ||
            op == WEFT_K_mma)
            needs |= WEFT_CUDA_NEEDS_MATRIX;
        if (op >= WEFT_K_tensor_map || op == WEFT_K_frag_store)
            needs |= WEFT_CUDA_NEEDS_MATRIX | WEFT_CUDA_NEEDS_HOPPER;
    }
    return needs;
}

/* Offsets of shared objects and barriers. With tensor copies every object starts a 1024-byte swizzle period. */
static weft_status layout_shared(const weft_kernel *kernel, int64_t *offsets, int64_t *out_bytes) {
    int64_t at = 0, align = 16;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        int op = kernel->instrs[i].op;
        if (op == WEFT_K_tensor_load || op == WEFT_K_operand) align = 1024;
    }
    for (size_t i = 0; i < kernel->instr_count; i++) {
        const weft_kinstr *instr = &kernel->instrs[i];
        if (instr->op != WEFT_K_shared && instr->op != WEFT_K_mbarrier) continue;
        int64_t bytes = 8 * instr->i, own = 8;
        if (instr->op == WEFT_K_shared) {
            if (!weft_dim_is_number(instr->extent))
                return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: shared memory of a symbolic extent", kernel->name);
            bytes = instr->extent * instr->type.lanes * weft_dtype_bits(instr->type.elem) / 8;
            own = bytes >= 8192 ? align : 128;
        }
        at = (at + own - 1) / own * own;
        if (offsets) offsets[i] = at;
        at += bytes;
        if (at > INT32_MAX)
            return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: more than 2 GB of shared memory", kernel->name);
    }
    *out_bytes = at;
    return NULL;
}

weft_status weft_cuda_shared_bytes(const weft_kernel *kernel, int64_t *out_bytes) {
    *out_bytes = 0;
    return layout_shared(kernel, NULL, out_bytes);
}

/* Blocks that a processor must hold at once: as many as the kernel's own budget of registers leaves room for. */
static int least_blocks(const weft_kernel *kernel) {
    int64_t needs = (int64_t)kernel->registers * kernel->threads;
    return needs > 0 && needs < 65536 ? (int)(65536 / needs) : 1;
}

static int entry_registers(int threads) { return threads > 0 ? 65536 / threads / 8 * 8 : 255; }

static void open_role(weft_cuda_printer *p, const weft_kinstr *instr, bool first) {
    int *left = &p->roles_left[p->open_roles - 1], *seen = &p->warpgroups_seen[p->open_roles - 1];
    if (first)
        *left = p->kernel->threads / 128, *seen = 0;
    else
        p->depth--;
    *left -= (int)instr->i;
    *seen += (int)instr->i;
    if (*left < 0) weft_cuda_fail(p, WEFT_INTERNAL, "roles take more warpgroups than the block has");
    if (*left == 0 && first)
        weft_cuda_line(p, "{");
    else if (*left == 0)
        weft_cuda_line(p, "} else {");
    else
        weft_cuda_line(p, "%sif (warp_uniform(threadIdx.x / 128) < %d) {", first ? "" : "} else ", *seen);
    p->depth++;
    int registers = (int)instr->f, entry = entry_registers(p->kernel->threads);
    if (registers > 0 && registers != entry)
        weft_cuda_line(p, "%s<%d>();", registers < entry ? "register_give" : "register_take", registers);
}

static void push_nest(weft_cuda_printer *p, int role) {
    if (p->open_roles == 16) {
        weft_cuda_fail(p, WEFT_UNSUPPORTED, "more than 16 nests");
        return;
    }
    p->roles_left[p->open_roles] = role;
    p->warpgroups_seen[p->open_roles++] = 0;
}

static void print_for(weft_cuda_printer *p, weft_kval id, const weft_kinstr *instr) {
    const char *type = weft_cuda_type(instr->type.elem);
    if (instr->i < 0)
        weft_cuda_line(p, "#pragma unroll");
    else
        weft_cuda_line(p, "#pragma unroll %d", instr->i > 0 ? (int)instr->i : 1);
    weft_cuda_line(p, "for (%s v%d = %s; v%d < %s; v%d += %s) {", type, id,
                   weft_cuda_value(p, weft_koperand(p->kernel, instr, 0), 0).text, id,
                   weft_cuda_value(p, weft_koperand(p->kernel, instr, 1), 0).text, id,
                   weft_cuda_value(p, weft_koperand(p->kernel, instr, 2), 0).text);
    push_nest(p, -1);
    p->depth++;
}

/* false: not a structural op */
static bool print_structure(weft_cuda_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_for: print_for(p, id, instr); return true;
    case WEFT_K_if:
        weft_cuda_line(p, "if (%s) {", weft_cuda_value(p, weft_koperand(p->kernel, instr, 0), 0).text);
        push_nest(p, -1);
        p->depth++;
        return true;
    case WEFT_K_else:
        p->depth--;
        weft_cuda_line(p, "} else {");
        p->depth++;
        return true;
    case WEFT_K_while:
        weft_cuda_line(p, "for (;;) {");
        push_nest(p, -1);
        p->depth++;
        return true;
    case WEFT_K_test:
        weft_cuda_line(p, "if (!(%s)) break;", weft_cuda_value(p, weft_koperand(p->kernel, instr, 0), 0).text);
        return true;
    case WEFT_K_role: {
        bool first = p->open_roles == 0 || p->roles_left[p->open_roles - 1] < 1;
        if (first) push_nest(p, 0);
        open_role(p, instr, first);
        return true;
    }
    case WEFT_K_end:
        if (p->open_roles > 0 && p->roles_left[p->open_roles - 1] > 0)
            weft_cuda_fail(p, WEFT_INTERNAL, "roles leave warpgroups over");
        p->depth--;
        if (p->open_roles > 0) p->open_roles--;
        weft_cuda_line(p, "}");
        return true;
    default: return false;
    }
}

static void print_instruction(weft_cuda_printer *p, weft_kval id) {
    if (print_structure(p, id) || weft_cuda_print_value(p, id) || weft_cuda_print_memory(p, id) ||
        weft_cuda_print_matrix(p, id))
        return;
    weft_cuda_fail(p, WEFT_INTERNAL, weft_kop_name((weft_kop)weft_kernel_get(p->kernel, id)->op));
}

/* A func is one expression of scalars: bodies on vectors are lanewise, so one lane stands for all. */
static void print_func(weft_cuda_printer *p, weft_kval id, weft_kval end) {
    const weft_kinstr *last = weft_kernel_get(p->kernel, end);
    weft_kval result = weft_koperand(p->kernel, last, 0);
    weft_text_append(p->text, "DEV %s %s_f%d(", weft_cuda_type(weft_ktype_of(p->kernel, result).elem), p->kernel->name,
                     id);
    const char *separator = "";
    int64_t count = weft_kernel_get(p->kernel, id)->i;
    for (int64_t parameter = 0; parameter < count; parameter++) {
        weft_kval found = WEFT_KNONE;
        for (weft_kval i = id + 1; i < end && found == WEFT_KNONE; i++)
            if (weft_kernel_get(p->kernel, i)->op == WEFT_K_parameter && weft_kernel_get(p->kernel, i)->i == parameter)
                found = i;
        if (found == WEFT_KNONE)
            weft_text_append(p->text, "%sint", separator); /* never read */
        else
            weft_text_append(p->text, "%s%s v%d", separator, weft_cuda_type(weft_ktype_of(p->kernel, found).elem),
                             found);
        separator = ", ";
    }
    weft_text_append(p->text, ") {\n");
    p->scalar_body = true;
    p->depth = 1;
    for (weft_kval i = id + 1; i < end; i++)
        if (weft_kernel_get(p->kernel, i)->op != WEFT_K_parameter) print_instruction(p, i);
    weft_cuda_line(p, "return %s;", weft_cuda_value(p, result, 0).text);
    p->depth = 0;
    p->scalar_body = false;
    weft_text_append(p->text, "}\n");
}

static weft_kval func_end(const weft_kernel *kernel, weft_kval id) {
    while ((size_t)id < kernel->instr_count && kernel->instrs[id].op != WEFT_K_func_end) id++;
    return id;
}

/* Buffers, then extents, then maps: the order in which the driver passes them. */
static void print_parameters(weft_cuda_printer *p) {
    const weft_kernel *kernel = p->kernel;
    const char *separator = "";
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < kernel->argument_count; i++) {
            const weft_kargument *argument = &kernel->arguments[i];
            int kind = argument->source == WEFT_ARGUMENT_EXTENT       ? 1
                       : argument->source == WEFT_ARGUMENT_TENSOR_MAP ? 2
                                                                      : 0;
            if (kind != pass) continue;
            const char *type = weft_cuda_type(argument->dtype == WEFT_BOOL ? WEFT_U8 : argument->dtype);
            if (kind == 0)
                weft_text_append(p->text, "%s%s%s *a%zu", separator, argument->writes ? "" : "const ",
                                 type ? type : "u8", i);
            if (kind == 1) weft_text_append(p->text, "%si64 a%zu", separator, i);
            if (kind == 2) weft_text_append(p->text, "%sconst __grid_constant__ tensor_map a%zu", separator, i);
            separator = ", ";
        }
}

static void print_kernel(weft_cuda_printer *p) {
    const weft_kernel *kernel = p->kernel;
    weft_kval count = (weft_kval)kernel->instr_count;
    for (weft_kval i = 0; i < count; i++)
        if (kernel->instrs[i].op == WEFT_K_func) print_func(p, i, func_end(kernel, i));
    weft_text_append(p->text, "extern \"C\" __global__ void __launch_bounds__(%d, %d) ", kernel->threads,
                     least_blocks(kernel));
    if (kernel->cluster > 1) weft_text_append(p->text, "__cluster_dims__(%d, 1, 1) ", kernel->cluster);
    weft_text_append(p->text, "%s(", kernel->name);
    print_parameters(p);
    weft_text_append(p->text, ") {\n");
    p->depth = 1;
    int needs = weft_cuda_needs(kernel);
    if (p->shared_bytes > 0) {
        weft_cuda_line(p, "extern __shared__ __align__(%d) u8 raw_%s[];", needs & WEFT_CUDA_NEEDS_HOPPER ? 1024 : 128,
                       kernel->name);
        if (needs & WEFT_CUDA_NEEDS_MATRIX) weft_cuda_line(p, "const u32 base = shared_address(raw_%s);", kernel->name);
    }
    for (weft_kval i = 0; i < count; i++) {
        if (kernel->instrs[i].op == WEFT_K_func)
            i = func_end(kernel, i);
        else
            print_instruction(p, i);
    }
    p->depth = 0;
    weft_text_append(p->text, "}\n");
}

static weft_status print_one(const weft_kernel *kernel, weft_text *text) {
    weft_cuda_printer printer = {.kernel = kernel, .text = text};
    printer.shared_offset = weft_arena_allocate_array(kernel->arena, kernel->instr_count + 1, sizeof(int64_t));
    if (!printer.shared_offset) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "printing kernel %s", kernel->name);
    WEFT_TRY(layout_shared(kernel, printer.shared_offset, &printer.shared_bytes), "printing CUDA");
    print_kernel(&printer);
    if (printer.failure != WEFT_OK)
        return WEFT_STATUS(printer.failure, "kernel %s cannot be printed as CUDA: %s", kernel->name, printer.problem);
    return weft_text_status(text);
}

static void append_lines(const char *const *lines, weft_text *text) {
    for (; *lines; lines++) weft_text_append(text, "%s", *lines);
}

weft_status weft_cuda_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) {
    int needs = 0;
    for (int i = 0; i < kernel_count; i++) needs |= weft_cuda_needs(kernels[i]);
    append_lines(weft_cuda_prelude_generic, text);
    if (needs & WEFT_CUDA_NEEDS_MATRIX) append_lines(weft_cuda_prelude_matrix, text);
    if (needs & WEFT_CUDA_NEEDS_HOPPER) {
        append_lines(weft_cuda_prelude_hopper, text);
        weft_cuda_print_wrappers(kernel_count, kernels, text);
    }
    for (int i = 0; i < kernel_count; i++)
        WEFT_TRY(print_one(kernels[i], text), "printing kernel %d of %d", i + 1, kernel_count);
    return weft_text_status(text);
}
