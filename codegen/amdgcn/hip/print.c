/* A HIP kernel around the shared printer's statements: parameters, shared memory, atomics, lanes. See print.h. */
#include "codegen/amdgcn/hip/print.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/kernel/narrow.h"

static void print_atomic(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    static const char *const kinds[] = {"add", "min", "max"};
    weft_kval memory = weft_koperand(p->kernel, instr, 0), value = weft_koperand(p->kernel, instr, 2);
    weft_dtype elem = (weft_dtype)weft_ktype_of(p->kernel, memory).elem;
    if (!weft_dtype_is_integer(elem) || weft_dtype_bits(elem) < 32 || weft_ktype_of(p->kernel, value).lanes > 1) {
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "atomics on other than integers of 32 and 64 bits");
        return;
    }
    char prefix[40] = "";
    if (instr->type.kind == WEFT_KIND_VALUE)
        (void)snprintf(prefix, sizeof prefix, "const %s v%d = ", weft_cxx_type(elem), id);
    weft_cxx_line(p, "%s__hip_atomic_fetch_%s(&%s, %s, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);", prefix,
                  kinds[instr->i], weft_cxx_element(p, memory, weft_koperand(p->kernel, instr, 1), 0).text,
                  weft_cxx_value(p, value, 0).text);
}

/* A distance is a template parameter: the instructions that move lanes have it in their code. */
static void print_shuffle(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    int distance = (int)instr->i, lanes = p->scalar_body ? 1 : instr->type.lanes;
    if (distance < 1 || distance >= p->kernel->capability->warp)
        weft_cxx_fail(p, WEFT_INTERNAL, "a shuffle reaches outside of the wavefront");
    for (int lane = 0; lane < lanes; lane++)
        weft_cxx_line(p, "const %s %s = shuffle<%d>(%s);", weft_cxx_type((weft_dtype)instr->type.elem),
                      weft_cxx_value(p, id, lane).text, distance,
                      weft_cxx_value(p, weft_koperand(p->kernel, instr, 0), lane).text);
}

/* Aligned for the widest access. */
static void print_shared(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    if (!weft_dim_is_number(instr->extent)) {
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "shared memory of a symbolic extent");
        return;
    }
    weft_cxx_line(p, "__attribute__((shared, aligned(16))) static %s v%d[%lld];",
                  weft_cxx_storage((weft_dtype)instr->type.elem), id, (long long)(instr->extent * instr->type.lanes));
}

static bool print_row(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_shared: print_shared(p, id, instr); return true;
    case WEFT_K_prefetch: return true; /* a hint without an instruction */
    case WEFT_K_atomic: print_atomic(p, id, instr); return true;
    case WEFT_K_shuffle_xor: print_shuffle(p, id, instr); return true;
    case WEFT_K_mma: weft_hip_print_product(p, instr); return true;
    case WEFT_K_tanh_fast: weft_cxx_fail(p, WEFT_UNSUPPORTED, "there is no fast tanh"); return true;
    default: return false;
    }
}

static const weft_cxx_dialect hip = {.name = "HIP C",
                                     .thread = "__builtin_amdgcn_workitem_id_x()",
                                     .block = "__builtin_amdgcn_workgroup_id_x()",
                                     .grid = "blocks",
                                     .buffer_space = "",
                                     .shared_space = "",
                                     .barrier = "barrier();",
                                     .print_row = print_row};

static void print_parameters(weft_cxx_printer *p) {
    const weft_kernel *kernel = p->kernel;
    for (int extents = 0; extents < 2; extents++)
        for (size_t i = 0; i < kernel->argument_count; i++) {
            const weft_kargument *argument = &kernel->arguments[i];
            if (argument->source == WEFT_ARGUMENT_TENSOR_MAP) weft_cxx_fail(p, WEFT_UNSUPPORTED, "tensor maps");
            if ((argument->source == WEFT_ARGUMENT_EXTENT) != (extents == 1)) continue;
            const char *type = weft_cxx_storage(argument->dtype);
            if (extents)
                weft_text_append(p->text, "i64 a%zu, ", i);
            else
                weft_text_append(p->text, "%s%s *a%zu, ", argument->writes ? "" : "const ", type ? type : "u8", i);
        }
    weft_text_append(p->text, "i64 blocks");
}

static weft_status print_kernel(const weft_kernel *kernel, weft_text *text) {
    WEFT_TRY(weft_kernel_without_f8(kernel, &kernel), "printing HIP C");
    weft_cxx_printer printer = {.dialect = &hip, .kernel = kernel, .text = text}, *p = &printer;
    weft_cxx_print_funcs(p);
    weft_text_append(text, "extern \"C\" __attribute__((global, amdgpu_flat_work_group_size(%d, %d))) void %s(",
                     kernel->threads, kernel->threads, kernel->name);
    print_parameters(p);
    weft_text_append(text, ") {\n");
    weft_cxx_print_body(p);
    weft_text_append(text, "}\n");
    return weft_cxx_status(p);
}

weft_status weft_hip_print(int kernel_count, weft_kernel *const *kernels, weft_text *text) {
    for (const char *const *line = weft_hip_prelude; *line; line++) weft_text_append(text, "%s", *line);
    weft_hip_print_units(kernel_count, kernels, text);
    for (int i = 0; i < kernel_count; i++)
        WEFT_TRY(print_kernel(kernels[i], text), "printing kernel %d of %d", i + 1, kernel_count);
    return weft_text_status(text);
}
