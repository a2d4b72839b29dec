/* A CUDA kernel around the shared printer's statements: signature, shared layout, roles, atomics. See print.h. */
#include "codegen/cuda/print.h"

#include <stdio.h>

#include "base/dtype.h"
#include "codegen/cuda/prelude.h"

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

static void open_role(weft_cxx_printer *p, const weft_kinstr *instr, bool first) {
    weft_cxx_nest *nest = &p->nests[p->open_nests - 1];
    if (first)
        *nest = (weft_cxx_nest){.role_left = p->kernel->threads / 128};
    else
        p->depth--;
    nest->role_left -= (int)instr->i;
    nest->role_seen += (int)instr->i;
    if (nest->role_left < 0) weft_cxx_fail(p, WEFT_INTERNAL, "roles take more warpgroups than the block has");
    if (nest->role_left == 0 && first)
        weft_cxx_line(p, "{");
    else if (nest->role_left == 0)
        weft_cxx_line(p, "} else {");
    else
        weft_cxx_line(p, "%sif (warp_uniform(threadIdx.x / 128) < %d) {", first ? "" : "} else ", nest->role_seen);
    p->depth++;
    int registers = (int)instr->f, entry = entry_registers(p->kernel->threads);
    if (registers > 0 && registers != entry)
        weft_cxx_line(p, "%s<%d>();", registers < entry ? "register_give" : "register_take", registers);
}

static void print_atomic(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    static const char *const kinds[] = {"Add", "Min", "Max"};
    weft_kval value = weft_koperand(p->kernel, instr, 2);
    weft_piece at = weft_cxx_element(p, weft_koperand(p->kernel, instr, 0), weft_koperand(p->kernel, instr, 1), 0);
    if (weft_ktype_of(p->kernel, value).lanes == 4) {
        weft_cxx_line(p, "add_4(&%s, %s, %s, %s, %s);", at.text, weft_cxx_value(p, value, 0).text,
                      weft_cxx_value(p, value, 1).text, weft_cxx_value(p, value, 2).text,
                      weft_cxx_value(p, value, 3).text);
        return;
    }
    char prefix[40] = "";
    if (instr->type.kind == WEFT_KIND_VALUE)
        snprintf(prefix, sizeof prefix, "const %s v%d = ", weft_cxx_type((weft_dtype)instr->type.elem), id);
    weft_cxx_line(p, "%satomic%s(&%s, %s);", prefix, kinds[instr->i], at.text, weft_cxx_value(p, value, 0).text);
}

static bool print_row(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    bool in_roles = p->open_nests > 0 && p->nests[p->open_nests - 1].role_left >= 0;
    switch ((int)instr->op) {
    case WEFT_K_role: {
        bool first = !in_roles || p->nests[p->open_nests - 1].role_left == 0;
        if (first) weft_cxx_push_nest(p, 0);
        if (p->failure == WEFT_OK) open_role(p, instr, first);
        return true;
    }
    case WEFT_K_end:
        if (in_roles && p->nests[p->open_nests - 1].role_left > 0)
            weft_cxx_fail(p, WEFT_INTERNAL, "roles leave warpgroups over");
        return false;
    case WEFT_K_shared: {
        const char *type = weft_cxx_storage((weft_dtype)instr->type.elem);
        weft_cxx_line(p, "%s *const v%d = (%s *)(raw_%s + %lld);", type, id, type, p->kernel->name,
                      (long long)p->shared_offset[id]);
        return true;
    }
    case WEFT_K_atomic: print_atomic(p, id, instr); return true;
    default: return weft_cuda_print_matrix(p, id);
    }
}

static const weft_cxx_dialect cuda = {.name = "CUDA",
                                      .thread = "threadIdx.x",
                                      .block = "blockIdx.x",
                                      .grid = "gridDim.x",
                                      .buffer_space = "",
                                      .shared_space = "",
                                      .barrier = "__syncthreads();",
                                      .print_row = print_row};

/* Buffers, then extents, then maps: the order in which the driver passes them. */
static void print_parameters(weft_cxx_printer *p) {
    const weft_kernel *kernel = p->kernel;
    const char *separator = "";
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < kernel->argument_count; i++) {
            const weft_kargument *argument = &kernel->arguments[i];
            int kind = argument->source == WEFT_ARGUMENT_EXTENT       ? 1
                       : argument->source == WEFT_ARGUMENT_TENSOR_MAP ? 2
                                                                      : 0;
            if (kind != pass) continue;
            const char *type = weft_cxx_type(argument->dtype == WEFT_BOOL ? WEFT_U8 : argument->dtype);
            if (kind == 0)
                weft_text_append(p->text, "%s%s%s *a%zu", separator, argument->writes ? "" : "const ",
                                 type ? type : "u8", i);
            if (kind == 1) weft_text_append(p->text, "%si64 a%zu", separator, i);
            if (kind == 2) weft_text_append(p->text, "%sconst __grid_constant__ tensor_map a%zu", separator, i);
            separator = ", ";
        }
}

static void print_kernel(weft_cxx_printer *p) {
    const weft_kernel *kernel = p->kernel;
    weft_cxx_print_funcs(p);
    weft_text_append(p->text, "extern \"C\" __global__ void __launch_bounds__(%d, %d) ", kernel->threads,
                     least_blocks(kernel));
    if (kernel->cluster > 1) weft_text_append(p->text, "__cluster_dims__(%d, 1, 1) ", kernel->cluster);
    weft_text_append(p->text, "%s(", kernel->name);
    print_parameters(p);
    weft_text_append(p->text, ") {\n");
    p->depth = 1;
    int needs = weft_cuda_needs(kernel);
    if (p->shared_bytes > 0) {
        weft_cxx_line(p, "extern __shared__ __align__(%d) u8 raw_%s[];", needs & WEFT_CUDA_NEEDS_HOPPER ? 1024 : 128,
                      kernel->name);
        if (needs & WEFT_CUDA_NEEDS_MATRIX) weft_cxx_line(p, "const u32 base = shared_address(raw_%s);", kernel->name);
    }
    weft_cxx_print_body(p);
    weft_text_append(p->text, "}\n");
}

static weft_status print_one(const weft_kernel *kernel, weft_text *text) {
    weft_cxx_printer printer = {.dialect = &cuda, .kernel = kernel, .text = text};
    printer.shared_offset = weft_arena_allocate_array(kernel->arena, kernel->instr_count + 1, sizeof(int64_t));
    if (!printer.shared_offset) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "printing kernel %s", kernel->name);
    WEFT_TRY(layout_shared(kernel, printer.shared_offset, &printer.shared_bytes), "printing CUDA");
    print_kernel(&printer);
    return weft_cxx_status(&printer);
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
