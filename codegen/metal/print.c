/* A Metal kernel around the shared printer's statements: parameters, shared memory, atomics, what is refused. See
   print.h. */
#include "codegen/metal/print.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/kernel/matrix.h"
#include "codegen/kernel/narrow.h"

static void print_atomic(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    static const char *const kinds[] = {"add", "min", "max"};
    weft_kval memory = weft_koperand(p->kernel, instr, 0), value = weft_koperand(p->kernel, instr, 2);
    weft_dtype elem = (weft_dtype)weft_ktype_of(p->kernel, memory).elem;
    bool known = elem == WEFT_I32 || elem == WEFT_U32 || (elem == WEFT_F32 && instr->i == WEFT_ATOMIC_ADD);
    if (!known || weft_ktype_of(p->kernel, value).lanes > 1 ||
        weft_kernel_get(p->kernel, memory)->op != WEFT_K_buffer) {
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "atomics on other than 32-bit integers and sums of f32 in buffers");
        return;
    }
    char prefix[40] = "";
    if (instr->type.kind == WEFT_KIND_VALUE)
        (void)snprintf(prefix, sizeof prefix, "const %s v%d = ", weft_cxx_type(elem), id);
    weft_cxx_line(p, "%satomic_%s(&%s, %s);", prefix, kinds[instr->i],
                  weft_cxx_element(p, memory, weft_koperand(p->kernel, instr, 1), 0).text,
                  weft_cxx_value(p, value, 0).text);
}

/* "&r12[2 * (v3)]": where a matrix starts. */
static weft_piece matrix_at(const weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    return weft_piece_format("&r%d[2 * (%s)]", weft_koperand(p->kernel, instr, index),
                             weft_cxx_value(p, weft_koperand(p->kernel, instr, index + 1), 0).text);
}

static void print_mma(weft_cxx_printer *p, const weft_kinstr *instr) {
    if (instr->i != WEFT_SIMDGROUP_F32) weft_cxx_fail(p, WEFT_UNSUPPORTED, "a matrix unit of other GPUs");
    weft_cxx_line(p, "simdgroup_mma(%s, %s, %s);", matrix_at(p, instr, 0).text, matrix_at(p, instr, 2).text,
                  matrix_at(p, instr, 4).text);
}

static bool print_row(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_shared:                /* declared at the kernel's head */
    case WEFT_K_prefetch: return true; /* has no spelling, changes nothing */
    case WEFT_K_atomic: print_atomic(p, id, instr); return true;
    case WEFT_K_mma: print_mma(p, instr); return true;
    default: return false;
    }
}

static const weft_cxx_dialect metal = {
    .name = "Metal",
    .thread = "thread_number",
    .block = "group.x",
    .grid = "groups.x",
    .buffer_space = "device ",
    .shared_space = "threadgroup ",
    .barrier = "metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup);",
    .print_row = print_row};

/* Buffers, then one array of extents, then the indices. */
static void print_parameters(weft_cxx_printer *p) {
    const weft_kernel *kernel = p->kernel;
    int buffers = 0, extents = 0;
    for (size_t i = 0; i < kernel->argument_count; i++) {
        const weft_kargument *argument = &kernel->arguments[i];
        if (argument->source == WEFT_ARGUMENT_TENSOR_MAP) weft_cxx_fail(p, WEFT_UNSUPPORTED, "tensor maps");
        extents += argument->source == WEFT_ARGUMENT_EXTENT;
        if (argument->source == WEFT_ARGUMENT_EXTENT) continue;
        const char *type = weft_cxx_storage(argument->dtype);
        weft_text_append(p->text, "device %s%s *a%zu [[buffer(%d)]], ", argument->writes ? "" : "const ",
                         type ? type : "u8", i, buffers++);
    }
    if (extents) weft_text_append(p->text, "constant i64 *extents [[buffer(%d)]], ", buffers);
    if (buffers + (extents > 0) > 31) weft_cxx_fail(p, WEFT_UNSUPPORTED, "more than 31 buffers");
    weft_text_append(p->text, "uint thread_number [[thread_index_in_threadgroup]], uint3 group "
                              "[[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]]");
}

/* Shared memory belongs to the head of a kernel: Metal knows it nowhere else. Aligned for the widest access. */
static void print_shared(weft_cxx_printer *p) {
    int64_t bytes = 0, limit = p->kernel->capability->shared_bytes;
    for (size_t i = 0; i < p->kernel->instr_count; i++) {
        const weft_kinstr *instr = &p->kernel->instrs[i];
        if (instr->op != WEFT_K_shared) continue;
        if (!weft_dim_is_number(instr->extent)) {
            weft_cxx_fail(p, WEFT_UNSUPPORTED, "shared memory of a symbolic extent");
            return;
        }
        int64_t elements = instr->extent * instr->type.lanes;
        weft_cxx_line(p, "threadgroup alignas(16) %s v%zu[%lld];", weft_cxx_storage((weft_dtype)instr->type.elem), i,
                      (long long)elements);
        bytes = (bytes + 15) / 16 * 16 + elements * weft_dtype_bits((weft_dtype)instr->type.elem) / 8;
        if (bytes > limit) weft_cxx_fail(p, WEFT_UNSUPPORTED, "more shared memory than a threadgroup has");
    }
}

static void print_extents(weft_cxx_printer *p) {
    int extents = 0;
    for (size_t i = 0; i < p->kernel->argument_count; i++)
        if (p->kernel->arguments[i].source == WEFT_ARGUMENT_EXTENT)
            weft_cxx_line(p, "const i64 a%zu = extents[%d];", i, extents++);
}

static void check_types(weft_cxx_printer *p) {
    for (size_t i = 0; i < p->kernel->instr_count; i++) {
        weft_ktype type = p->kernel->instrs[i].type;
        if (type.kind != WEFT_KIND_VOID && type.elem == WEFT_F64)
            weft_cxx_fail(p, WEFT_UNSUPPORTED, "there are no 64-bit floats");
    }
}

static weft_status print_kernel(const weft_kernel *kernel, weft_text *text) {
    WEFT_TRY(weft_kernel_without_f8(kernel, &kernel), "printing Metal");
    weft_cxx_printer printer = {.dialect = &metal, .kernel = kernel, .text = text}, *p = &printer;
    check_types(p);
    weft_cxx_print_funcs(p);
    weft_text_append(text, "[[kernel, max_total_threads_per_threadgroup(%d)]] void %s(", kernel->threads, kernel->name);
    print_parameters(p);
    weft_text_append(text, ") {\n");
    p->depth = 1;
    print_shared(p);
    print_extents(p);
    weft_cxx_print_body(p);
    weft_text_append(text, "}\n");
    return weft_cxx_status(p);
}

weft_status weft_metal_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) {
    for (const char *const *line = weft_metal_prelude; *line; line++) weft_text_append(text, "%s", *line);
    for (int i = 0; i < kernel_count; i++)
        WEFT_TRY(print_kernel(kernels[i], text), "printing kernel %d of %d", i + 1, kernel_count);
    return weft_text_status(text);
}
