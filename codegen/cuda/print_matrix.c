/* The matrix rows: cp.async, ldmatrix, mma.sync, and Hopper's barriers, tensor copies and wgmma. One call a row; tensor
   copies by rank and wgmma by shape are defined on demand in front of the kernels. See print.h and prelude.c. */
#include "codegen/cuda/print.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/kernel/matrix.h"

typedef weft_piece name;

static name operand(const weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    return weft_cxx_value(p, weft_koperand(p->kernel, instr, index), 0);
}

static const weft_kinstr *constant_of(const weft_cxx_printer *p, weft_kval value) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, value);
    return instr->op == WEFT_K_constant ? instr : NULL;
}

weft_piece weft_cuda_address(const weft_cxx_printer *p, weft_kval shared, weft_kval offset) {
    name out;
    const weft_kinstr *constant = constant_of(p, offset);
    if (constant)
        out = weft_piece_format("base + %lld", (long long)(p->shared_offset[shared] + constant->i));
    else
        out = weft_piece_format("base + %lld + (u32)%s", (long long)p->shared_offset[shared],
                                weft_cxx_value(p, offset, 0).text);
    return out;
}

static name barrier_of(const weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    weft_kval object = weft_koperand(p->kernel, instr, index), number = weft_koperand(p->kernel, instr, index + 1);
    const weft_kinstr *constant = constant_of(p, number);
    name out;
    if (constant)
        out = weft_piece_format("base + %lld", (long long)(p->shared_offset[object] + 8 * constant->i));
    else
        out = weft_piece_format("base + %lld + 8 * (u32)%s", (long long)p->shared_offset[object],
                                weft_cxx_value(p, number, 0).text);
    return out;
}

static int first_register(weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    const weft_kinstr *constant = constant_of(p, weft_koperand(p->kernel, instr, index));
    if (!constant) weft_cxx_fail(p, WEFT_INTERNAL, "a register number that is no constant");
    return constant ? (int)constant->i : 0;
}

static void print_registers_call(weft_cxx_printer *p, const weft_kinstr *instr) {
    weft_kval regs = weft_koperand(p->kernel, instr, 0);
    int first = first_register(p, instr, 1), count = (int)(instr->i & 7);
    const char *trans = instr->i & WEFT_FRAGMENT_TRANSPOSED ? "_trans" : "";
    name at = weft_cuda_address(p, weft_koperand(p->kernel, instr, 2), weft_koperand(p->kernel, instr, 3));
    if (instr->op == WEFT_K_frag_load)
        weft_cxx_line(p, "ldmatrix_x%d%s(r%d + %d, %s);", count, trans, regs, first, at.text);
    else
        weft_cxx_line(p, "stmatrix_x%d%s(%s, r%d + %d);", count, trans, at.text, regs, first);
}

/* mma_<n>_<type>_<ss|rs>_<flags>: names the wrapper of one wgmma form */
static name wrapper_name(const weft_kernel *kernel, const weft_kinstr *instr) {
    static const char *const types[] = {"bf16", "f16", "tf32", "e4m3", "e4m3_e5m2", "e5m2_e4m3", "e5m2"};
    bool registers = weft_ktype_of(kernel, weft_koperand(kernel, instr, 2)).kind == WEFT_KIND_REGS;
    name out;
    out =
        weft_piece_format("mma_n%d_%s_%s%s%s%s", weft_async_n(instr->i), types[weft_async_type_of(instr->i)],
                          registers ? "rs" : "ss", instr->i & WEFT_ASYNC_A_TRANSPOSED ? "_at" : "",
                          instr->i & WEFT_ASYNC_B_TRANSPOSED ? "_bt" : "", instr->i & WEFT_ASYNC_FIRST ? "_first" : "");
    return out;
}

static void print_async(weft_cxx_printer *p, const weft_kinstr *instr) {
    weft_kval d = weft_koperand(p->kernel, instr, 0), a = weft_koperand(p->kernel, instr, 2),
              accumulate = weft_koperand(p->kernel, instr, 5);
    name source;
    if (weft_ktype_of(p->kernel, a).kind == WEFT_KIND_REGS)
        source = weft_piece_format("r%d + %d", a, first_register(p, instr, 3));
    else
        source = operand(p, instr, 2);
    weft_cxx_line(p, "%s(r%d + %d, %s, %s, %s);", wrapper_name(p->kernel, instr).text, d, first_register(p, instr, 1),
                  source.text, operand(p, instr, 4).text,
                  accumulate == WEFT_KNONE ? "1" : weft_cxx_value(p, accumulate, 0).text);
}

static void print_operand(weft_cxx_printer *p, weft_kval id, const weft_kinstr *instr) {
    int swizzle = weft_operand_swizzle(instr->i);
    uint64_t code = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    uint64_t fixed = code << 62 | (uint64_t)(weft_operand_stride(instr->i) / 16) << 32 |
                     (uint64_t)(weft_operand_leading(instr->i) / 16) << 16;
    /* above the 18 bits of an address in shared memory are those of the block's place in its cluster */
    weft_cxx_line(p, "const u64 v%d = 0x%llxull | (u64)(((%s) & 0x3ffff) >> 4);", id, (unsigned long long)fixed,
                  weft_cuda_address(p, weft_koperand(p->kernel, instr, 0), weft_koperand(p->kernel, instr, 1)).text);
}

/* Coordinates from operand `first` on. */
static void append_coordinates(weft_cxx_printer *p, const weft_kinstr *instr, int first) {
    for (int i = first; i < instr->operand_count; i++)
        weft_text_append(p->text, ", (int)%s", operand(p, instr, i).text);
    weft_text_append(p->text, ");\n");
}

static void indent(weft_cxx_printer *p) {
    for (int i = 0; i < p->depth; i++) weft_text_append(p->text, "  ");
}

static int map_argument(const weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    return (int)weft_kernel_get(p->kernel, weft_koperand(p->kernel, instr, index))->i;
}

static void print_tensor(weft_cxx_printer *p, const weft_kinstr *instr) {
    indent(p);
    if (instr->op == WEFT_K_tensor_load) {
        name to = weft_cuda_address(p, weft_koperand(p->kernel, instr, 0), weft_koperand(p->kernel, instr, 1));
        int rank = instr->operand_count - 5;
        if (instr->i)
            weft_text_append(p->text, "tensor_load_multicast_%dd<%d>(", rank, (int)instr->i);
        else
            weft_text_append(p->text, "tensor_load_%dd(", rank);
        weft_text_append(p->text, "%s, a%d, %s", to.text, map_argument(p, instr, 2), barrier_of(p, instr, 3).text);
        append_coordinates(p, instr, 5);
    } else if (instr->op == WEFT_K_tensor_store) {
        name from = weft_cuda_address(p, weft_koperand(p->kernel, instr, 1), weft_koperand(p->kernel, instr, 2));
        weft_text_append(p->text, "tensor_%s_%dd(a%d, %s", instr->i ? "reduce" : "store", instr->operand_count - 3,
                         map_argument(p, instr, 0), from.text);
        append_coordinates(p, instr, 3);
    } else {
        weft_text_append(p->text, "tensor_prefetch_%dd(a%d", instr->operand_count - 1, map_argument(p, instr, 0));
        append_coordinates(p, instr, 1);
    }
}

static void print_mma(weft_cxx_printer *p, const weft_kinstr *instr) {
    static const char *const units[] = {"", "mma_bf16", "mma_f16", "mma_tf32"};
    weft_cxx_line(p, "%s(r%d + %d, r%d + %d, r%d + %d);", units[instr->i & 3], weft_koperand(p->kernel, instr, 0),
                  first_register(p, instr, 1), weft_koperand(p->kernel, instr, 2), first_register(p, instr, 3),
                  weft_koperand(p->kernel, instr, 4), first_register(p, instr, 5));
}

static void print_copy_async(weft_cxx_printer *p, const weft_kinstr *instr) {
    weft_kval buffer = weft_koperand(p->kernel, instr, 2), mask = weft_koperand(p->kernel, instr, 4);
    weft_cxx_line(p, "copy_async<%d>(%s, a%d + %s, %s);", (int)instr->i,
                  weft_cuda_address(p, weft_koperand(p->kernel, instr, 0), weft_koperand(p->kernel, instr, 1)).text,
                  (int)weft_kernel_get(p->kernel, buffer)->i, operand(p, instr, 3).text,
                  mask == WEFT_KNONE ? "true" : weft_cxx_value(p, mask, 0).text);
}

/* Barriers: false when op is none of these. */
static bool print_barrier(weft_cxx_printer *p, const weft_kinstr *instr) {
    int i = (int)instr->i;
    switch ((int)instr->op) {
    case WEFT_K_named_sync: weft_cxx_line(p, "named_sync(%s, %d);", operand(p, instr, 0).text, i); return true;
    case WEFT_K_named_arrive: weft_cxx_line(p, "named_arrive(%s, %d);", operand(p, instr, 0).text, i); return true;
    case WEFT_K_mbarrier_init: weft_cxx_line(p, "mbarrier_init(%s, %d);", barrier_of(p, instr, 0).text, i); return true;
    case WEFT_K_mbarrier_expect:
        weft_cxx_line(p, "mbarrier_expect(%s, %d);", barrier_of(p, instr, 0).text, i);
        return true;
    case WEFT_K_mbarrier_arrive: weft_cxx_line(p, "mbarrier_arrive(%s);", barrier_of(p, instr, 0).text); return true;
    case WEFT_K_mbarrier_arrive_cta:
        weft_cxx_line(p, "mbarrier_arrive_cta(%s, %s);", barrier_of(p, instr, 0).text, operand(p, instr, 2).text);
        return true;
    case WEFT_K_mbarrier_wait:
        weft_cxx_line(p, "mbarrier_wait%s(%s, %s);", i ? "_cluster" : "", barrier_of(p, instr, 0).text,
                      operand(p, instr, 2).text);
        return true;
    case WEFT_K_mbarrier_init_fence:
    case WEFT_K_cluster_sync:
    case WEFT_K_warp_sync:
    case WEFT_K_fence_async:
    case WEFT_K_bulk_commit:
    case WEFT_K_mma_fence:
    case WEFT_K_mma_commit:
    case WEFT_K_copy_commit: weft_cxx_line(p, "%s();", weft_kop_name((weft_kop)instr->op)); return true;
    case WEFT_K_copy_wait:
    case WEFT_K_mma_wait:
        weft_cxx_line(p, "%s<%d>();", weft_kop_name((weft_kop)instr->op), i);
        for (int n = 0; n < instr->operand_count; n++)
            weft_cxx_line(p, "pin(r%d);", weft_koperand(p->kernel, instr, n));
        return true;
    case WEFT_K_bulk_wait: weft_cxx_line(p, "bulk_wait%s<%d>();", instr->f != 0 ? "_read" : "", i); return true;
    default: return false;
    }
}

bool weft_cuda_print_matrix(weft_cxx_printer *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    if (print_barrier(p, instr)) return true;
    const char *type = weft_cxx_type((weft_dtype)instr->type.elem);
    switch ((int)instr->op) {
    case WEFT_K_tensor_map:
    case WEFT_K_mbarrier: return true; /* a parameter; a place in shared memory */
    case WEFT_K_cluster_rank: weft_cxx_line(p, "const %s v%d = (%s)cluster_rank();", type, id, type); return true;
    case WEFT_K_warp_uniform:
        weft_cxx_line(p, "const %s v%d = (%s)warp_uniform((u32)%s);", type, id, type, operand(p, instr, 0).text);
        return true;
    case WEFT_K_map_prefetch: weft_cxx_line(p, "map_prefetch(a%d);", map_argument(p, instr, 0)); return true;
    case WEFT_K_tensor_load:
    case WEFT_K_tensor_store:
    case WEFT_K_tensor_prefetch: print_tensor(p, instr); return true;
    case WEFT_K_remote_store:
        weft_cxx_line(p, "remote_store(%s, %s, %s, %s, %s, %s, %s);",
                      weft_cuda_address(p, weft_koperand(p->kernel, instr, 0), weft_koperand(p->kernel, instr, 1)).text,
                      barrier_of(p, instr, 2).text, operand(p, instr, 4).text, operand(p, instr, 5).text,
                      operand(p, instr, 6).text, operand(p, instr, 7).text, operand(p, instr, 8).text);
        return true;
    case WEFT_K_operand: print_operand(p, id, instr); return true;
    case WEFT_K_mma_async: print_async(p, instr); return true;
    case WEFT_K_frag_load:
    case WEFT_K_frag_store: print_registers_call(p, instr); return true;
    case WEFT_K_mma: print_mma(p, instr); return true;
    case WEFT_K_copy_async: print_copy_async(p, instr); return true;
    default: return false;
    }
}

/* -- definitions on demand */

static void list_registers(weft_text *text, int from, int count) {
    for (int i = 0; i < count; i++) weft_text_append(text, "%s%%%d", i ? "," : "", from + i);
}

static void print_wgmma(const weft_kernel *kernel, const weft_kinstr *instr, weft_text *text) {
    static const char *const types[] = {"bf16.bf16", "f16.f16",   "tf32.tf32", "e4m3.e4m3",
                                        "e4m3.e5m2", "e5m2.e4m3", "e5m2.e5m2"};
    static const int depths[] = {16, 16, 8, 32, 32, 32, 32};
    weft_async_type type = weft_async_type_of(instr->i);
    int n = weft_async_n(instr->i), count = n / 2;
    bool registers = weft_ktype_of(kernel, weft_koperand(kernel, instr, 2)).kind == WEFT_KIND_REGS,
         first = instr->i & WEFT_ASYNC_FIRST;
    bool halves = type == WEFT_ASYNC_BF16 || type == WEFT_ASYNC_F16;
    int a = count, b = a + (registers ? 4 : 1), scale = b + 1;
    weft_text_append(text, "DEV void %s(float *d, %s a, u64 b, int accumulate) {\n  asm volatile(\"{ .reg .pred p; ",
                     wrapper_name(kernel, instr).text, registers ? "const u32 *" : "u64");
    if (first)
        weft_text_append(text, "setp.ne.b32 p, 0, 0;\\n\"\n");
    else
        weft_text_append(text, "setp.ne.b32 p, %%%d, 0;\\n\"\n", scale);
    weft_text_append(text, "    \"wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s {", n, depths[type], types[type]);
    list_registers(text, 0, count);
    weft_text_append(text, "}, ");
    if (registers) {
        weft_text_append(text, "{");
        list_registers(text, a, 4);
        weft_text_append(text, "}");
    } else
        weft_text_append(text, "%%%d", a);
    weft_text_append(text, ", %%%d, p, 1, 1", b);
    if (halves && !registers) weft_text_append(text, ", %d", instr->i & WEFT_ASYNC_A_TRANSPOSED ? 1 : 0);
    if (halves) weft_text_append(text, ", %d", instr->i & WEFT_ASYNC_B_TRANSPOSED ? 1 : 0);
    weft_text_append(text, "; }\"\n    :");
    for (int i = 0; i < count; i++) weft_text_append(text, "%s\"%sf\"(d[%d])", i ? ", " : " ", first ? "=" : "+", i);
    weft_text_append(text, "\n    : ");
    if (registers)
        weft_text_append(text, "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])");
    else
        weft_text_append(text, "\"l\"(a)");
    weft_text_append(text, ", \"l\"(b)");
    if (!first) weft_text_append(text, ", \"r\"(accumulate)");
    weft_text_append(text, ");\n}\n");
}

static void print_tensor_wrappers(weft_text *text) {
    for (int rank = 1; rank <= 5; rank++) {
        char parameters[80] = "", coordinates[60] = "", arguments[120] = "";
        size_t a = 0, b = 0, c = 0;
        for (int i = 0; i < rank; i++) {
            a += (size_t)snprintf(parameters + a, sizeof parameters - a, ", int c%d", i);
            b += (size_t)snprintf(coordinates + b, sizeof coordinates - b, "%s%%%d", i ? ", " : "", 3 + i);
            c += (size_t)snprintf(arguments + c, sizeof arguments - c, ", \"r\"(c%d)", i);
        }
        weft_text_append(
            text,
            "DEV void tensor_load_%dd(u32 to, const tensor_map &map, u32 bar%s) {\n"
            "  asm volatile(\"cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes [%%0], [%%1, {%s}], [%%2];\"\n"
            "    ::\"r\"(to), \"l\"(&map), \"r\"(bar)%s : \"memory\");\n}\n",
            rank, parameters, rank, coordinates, arguments);
        weft_text_append(
            text,
            "template <int MASK> DEV void tensor_load_multicast_%dd(u32 to, const tensor_map &map, u32 bar%s) {\n"
            "  asm volatile(\"cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%%0], [%%1, {%s}], [%%2], %%%d;\"\n"
            "    ::\"r\"(to), \"l\"(&map), \"r\"(bar)%s, \"h\"((u16)MASK) : \"memory\");\n}\n",
            rank, parameters, rank, coordinates, 3 + rank, arguments);
        b = 0;
        for (int i = 0; i < rank; i++)
            b += (size_t)snprintf(coordinates + b, sizeof coordinates - b, "%s%%%d", i ? ", " : "", 2 + i);
        for (int reduce = 0; reduce < 2; reduce++)
            weft_text_append(
                text,
                "DEV void tensor_%s_%dd(const tensor_map &map, u32 from%s) {\n"
                "  asm volatile(\"cp%s.async.bulk.tensor.%dd.global.shared::cta%s.bulk_group [%%0, {%s}], [%%1];\"\n"
                "    ::\"l\"(&map), \"r\"(from)%s : \"memory\");\n}\n",
                reduce ? "reduce" : "store", rank, parameters, reduce ? ".reduce" : "", rank, reduce ? ".add.tile" : "",
                coordinates, arguments);
        b = 0;
        for (int i = 0; i < rank; i++)
            b += (size_t)snprintf(coordinates + b, sizeof coordinates - b, "%s%%%d", i ? ", " : "", 1 + i);
        weft_text_append(
            text,
            "DEV void tensor_prefetch_%dd(const tensor_map &map%s) {\n"
            "  asm volatile(\"cp.async.bulk.prefetch.tensor.%dd.L2.global [%%0, {%s}];\"\n    ::\"l\"(&map)%s : \"memory\");\n}\n",
            rank, parameters, rank, coordinates, arguments);
    }
}

void weft_cuda_print_wrappers(int kernel_count, weft_kernel *const *kernels, weft_text *text) {
    print_tensor_wrappers(text);
    enum { FORMS = 64 };
    char seen[FORMS][sizeof(name)];
    int count = 0;
    for (int k = 0; k < kernel_count; k++)
        for (size_t i = 0; i < kernels[k]->instr_count; i++) {
            const weft_kinstr *instr = &kernels[k]->instrs[i];
            if (instr->op != WEFT_K_mma_async) continue;
            name form = wrapper_name(kernels[k], instr);
            int at = 0;
            while (at < count && strcmp(seen[at], form.text)) at++;
            if (at < count || count == FORMS) continue;
            memcpy(seen[count++], form.text, sizeof form.text);
            print_wgmma(kernels[k], instr, text);
        }
}
