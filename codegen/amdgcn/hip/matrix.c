/* mma on wave units (codegen/kernel/matrix.h) by clang's builtins: a row of the IR is one call of a function that is
   printed once per unit. A lane's operands are 16 bytes a part; the instruction takes them in steps, the lowest first.
   The same instructions as codegen/amdgcn/llvm/matrix.c. Source: clang, BuiltinsAMDGPU.def. */
#include "codegen/kernel/matrix.h"

#include <stdio.h>

#include "codegen/amdgcn/hip/print.h"

typedef struct spelling {
    const char *name; /* behind __builtin_amdgcn_ */
    const char *elem; /* of a step's operand */
    int elems, steps;
} spelling;

static const spelling spellings[] = {
    [WEFT_MFMA_32_BF16] = {"mfma_f32_32x32x8bf16_1k", "short", 4, 2},
    [WEFT_MFMA_32_F16] = {"mfma_f32_32x32x8f16", "_Float16", 4, 2},
    [WEFT_MFMA_32_F32] = {"mfma_f32_32x32x2f32", "float", 1, 4},
    [WEFT_MFMA_32_I8] = {"mfma_i32_32x32x8i8", "int", 1, 4},
    [WEFT_MFMA_16_BF16] = {"mfma_f32_16x16x16bf16_1k", "short", 4, 2},
    [WEFT_MFMA_16_F16] = {"mfma_f32_16x16x16f16", "_Float16", 4, 2},
    [WEFT_MFMA_16_F32] = {"mfma_f32_16x16x4f32", "float", 1, 4},
    [WEFT_MFMA_16_I8] = {"mfma_i32_16x16x16i8", "int", 1, 4},
    [WEFT_WMMA_11_BF16] = {"wmma_f32_16x16x16_bf16_w32", "short", 16, 1},
    [WEFT_WMMA_11_F16] = {"wmma_f32_16x16x16_f16_w32", "_Float16", 16, 1},
    [WEFT_WMMA_11_I8] = {"wmma_i32_16x16x16_iu8_w32", "int", 4, 1},
    [WEFT_WMMA_12_BF16] = {"wmma_f32_16x16x16_bf16_w32_gfx12", "short", 8, 1},
    [WEFT_WMMA_12_F16] = {"wmma_f32_16x16x16_f16_w32_gfx12", "_Float16", 8, 1},
    [WEFT_WMMA_12_I8] = {"wmma_i32_16x16x16_iu8_w32_gfx12", "int", 2, 2},
    [WEFT_MFMA_32_E4M3] = {"mfma_f32_32x32x16_fp8_fp8", "long", 1, 2},
    [WEFT_MFMA_32_E5M2] = {"mfma_f32_32x32x16_bf8_bf8", "long", 1, 2},
    [WEFT_MFMA_16_E4M3] = {"mfma_f32_16x16x32_fp8_fp8", "long", 1, 2},
    [WEFT_MFMA_16_E5M2] = {"mfma_f32_16x16x32_bf8_bf8", "long", 1, 2},
    [WEFT_WMMA_12_E4M3] = {"wmma_f32_16x16x16_fp8_fp8_w32_gfx12", "int", 2, 2},
    [WEFT_WMMA_12_E5M2] = {"wmma_f32_16x16x16_bf8_bf8_w32_gfx12", "int", 2, 2},
};
enum { UNITS = sizeof spellings / sizeof *spellings };

/* CDNA 3 multiplies twice as many 8-bit integers at once and has no longer the older instruction. */
static spelling spelling_of(const weft_capability *capability, int64_t unit) {
    if (capability->cores == WEFT_CORES_MFMA3) {
        if (unit == WEFT_MFMA_32_I8) return (spelling){"mfma_i32_32x32x16_i8", "long", 1, 2};
        if (unit == WEFT_MFMA_16_I8) return (spelling){"mfma_i32_16x16x32_i8", "long", 1, 2};
    }
    return spellings[unit];
}

static bool has_unit(const weft_kernel *kernel, int64_t id) {
    const weft_wave_unit *unit = weft_wave_unit_get(id);
    return unit && weft_wave_unit_find(kernel->capability, unit->dtype, unit->size) == id;
}

/* In front of and behind the operands: WMMA says of 8-bit integers whether they are signed; MFMA may permute blocks. */
static void print_call(const spelling *s, const weft_wave_unit *unit, weft_text *text) {
    bool wide = unit->lanes == 64, integers = unit->sum == WEFT_I32;
    const char *sign = !wide && integers ? "true, " : "";
    weft_text_append(text, "    s = __builtin_amdgcn_%s(%sx, %sy, s%s);\n", s->name, sign, sign,
                     wide       ? ", 0, 0, 0"
                     : integers ? ", false"
                                : "");
}

/* Something convergent that uses the result keeps WMMA out of branches (codegen/amdgcn/llvm/print.h: weft_amdgcn_pin).
 */
static void print_unit(const weft_kernel *kernel, int64_t id, weft_text *text) {
    const weft_wave_unit *unit = weft_wave_unit_get(id);
    spelling s = spelling_of(kernel->capability, id);
    const char *sum = weft_cxx_type(unit->sum), *elem = weft_cxx_type(unit->dtype);
    int bytes = 16 * unit->parts / s.steps;
    weft_text_append(text, "DEV void %s(%s *d, const %s *a, const %s *b) {\n", s.name, sum, elem, elem);
    weft_text_append(text, "  typedef %s sums __attribute__((ext_vector_type(%d)));\n", sum, unit->sums);
    if (s.elems > 1)
        weft_text_append(text, "  typedef %s operand __attribute__((ext_vector_type(%d)));\n", s.elem, s.elems);
    else
        weft_text_append(text, "  typedef %s operand;\n", s.elem);
    weft_text_append(text, "  sums s;\n  __builtin_memcpy(&s, d, sizeof s);\n");
    for (int step = 0; step < s.steps; step++) {
        int at = step * unit->parts * unit->part_lanes / s.steps;
        weft_text_append(text, "  {\n    operand x, y;\n");
        weft_text_append(text, "    __builtin_memcpy(&x, a + %d, %d), __builtin_memcpy(&y, b + %d, %d);\n", at, bytes,
                         at, bytes);
        print_call(&s, unit, text);
        weft_text_append(text, "  }\n");
    }
    if (unit->lanes == 32) weft_text_append(text, "  __asm__ volatile(\"\" : \"+v\"(s));\n");
    weft_text_append(text, "  __builtin_memcpy(d, &s, sizeof s);\n}\n");
}

void weft_hip_print_units(int kernel_count, weft_kernel *const *kernels, weft_text *text) {
    bool printed[UNITS] = {0};
    for (int k = 0; k < kernel_count; k++)
        for (size_t i = 0; i < kernels[k]->instr_count; i++) {
            const weft_kinstr *instr = &kernels[k]->instrs[i];
            if (instr->op != WEFT_K_mma || !has_unit(kernels[k], instr->i) || printed[instr->i]) continue;
            printed[instr->i] = true;
            print_unit(kernels[k], instr->i, text);
        }
}

/* "r12 + 8 * (v3)": where a lane's operand starts among the elements of its registers. */
static weft_piece operand_at(const weft_cxx_printer *p, const weft_kinstr *instr, int index) {
    weft_kval object = weft_koperand(p->kernel, instr, index), first = weft_koperand(p->kernel, instr, index + 1);
    return weft_piece_format("r%d + %d * (%s)", object, weft_ktype_of(p->kernel, object).lanes,
                             weft_cxx_value(p, first, 0).text);
}

void weft_hip_print_product(weft_cxx_printer *p, const weft_kinstr *instr) {
    if (!has_unit(p->kernel, instr->i)) {
        weft_cxx_fail(p, WEFT_UNSUPPORTED, "a matrix unit that this GPU has not");
        return;
    }
    weft_cxx_line(p, "%s(%s, %s, %s);", spelling_of(p->kernel->capability, instr->i).name, operand_at(p, instr, 0).text,
                  operand_at(p, instr, 2).text, operand_at(p, instr, 4).text);
}
