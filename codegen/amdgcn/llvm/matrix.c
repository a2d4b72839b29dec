/* mma on wave units (codegen/kernel/matrix.h): one row here is one or more machine instructions, which take their
   operands in steps: of a lane's 16 bytes first the lowest. Sources: LLVM, "User Guide for AMDGPU Backend"; see
   codegen/kernel/matrix.c. */
#include "codegen/kernel/matrix.h"
#include "codegen/amdgcn/llvm/print.h"

typedef struct spelling {
    const char *name;    /* behind llvm.amdgcn. */
    const char *operand; /* type of one step */
    int steps;
} spelling;

static const spelling spellings[] = {
    [WEFT_MFMA_32_BF16] = {"mfma.f32.32x32x8bf16.1k", "<4 x i16>", 2},
    [WEFT_MFMA_32_F16] = {"mfma.f32.32x32x8f16", "<4 x half>", 2},
    [WEFT_MFMA_32_F32] = {"mfma.f32.32x32x2f32", "float", 4},
    [WEFT_MFMA_32_I8] = {"mfma.i32.32x32x8i8", "i32", 4},
    [WEFT_MFMA_16_BF16] = {"mfma.f32.16x16x16bf16.1k", "<4 x i16>", 2},
    [WEFT_MFMA_16_F16] = {"mfma.f32.16x16x16f16", "<4 x half>", 2},
    [WEFT_MFMA_16_F32] = {"mfma.f32.16x16x4f32", "float", 4},
    [WEFT_MFMA_16_I8] = {"mfma.i32.16x16x16i8", "i32", 4},
    [WEFT_WMMA_11_BF16] = {"wmma.f32.16x16x16.bf16.v8f32.v16i16", "<16 x i16>", 1},
    [WEFT_WMMA_11_F16] = {"wmma.f32.16x16x16.f16.v8f32.v16f16", "<16 x half>", 1},
    [WEFT_WMMA_11_I8] = {"wmma.i32.16x16x16.iu8.v8i32.v4i32", "<4 x i32>", 1},
    [WEFT_WMMA_12_BF16] = {"wmma.f32.16x16x16.bf16.v8f32.v8i16", "<8 x i16>", 1},
    [WEFT_WMMA_12_F16] = {"wmma.f32.16x16x16.f16.v8f32.v8f16", "<8 x half>", 1},
    [WEFT_WMMA_12_I8] = {"wmma.i32.16x16x16.iu8.v8i32.v2i32", "<2 x i32>", 2},
    [WEFT_MFMA_32_E4M3] = {"mfma.f32.32x32x16.fp8.fp8", "i64", 2},
    [WEFT_MFMA_32_E5M2] = {"mfma.f32.32x32x16.bf8.bf8", "i64", 2},
    [WEFT_MFMA_16_E4M3] = {"mfma.f32.16x16x32.fp8.fp8", "i64", 2},
    [WEFT_MFMA_16_E5M2] = {"mfma.f32.16x16x32.bf8.bf8", "i64", 2},
    [WEFT_WMMA_12_E4M3] = {"wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32", "<2 x i32>", 2},
    [WEFT_WMMA_12_E5M2] = {"wmma.f32.16x16x16.bf8.bf8.v8f32.v2i32", "<2 x i32>", 2},
};

/* CDNA 3 multiplies twice as many 8-bit integers at once and has no longer the older instruction. */
static spelling spelling_of(const weft_llvm_printer *printer, int64_t unit) {
    if (printer->kernel->capability->cores == WEFT_CORES_MFMA3) {
        if (unit == WEFT_MFMA_32_I8) return (spelling){"mfma.i32.32x32x16.i8", "i64", 2};
        if (unit == WEFT_MFMA_16_I8) return (spelling){"mfma.i32.16x16x32.i8", "i64", 2};
    }
    return spellings[unit];
}

/* An operand as one value of all its bits. */
static int load_operand(weft_llvm_printer *printer, int32_t at, int operand, const weft_wave_unit *unit) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    weft_kval object = weft_koperand(printer->kernel, instr, operand),
              first = weft_koperand(printer->kernel, instr, operand + 1);
    weft_llvm_name part = weft_llvm_elem_type(unit->dtype, unit->part_lanes);
    int id = weft_llvm_storage(printer, at, object, first);
    if (id < 0) return -1;
    int low = weft_llvm_define(printer, "load %s, %s %%v%d", part.text, printer->dialect->stack, id);
    low = weft_llvm_define(printer, "bitcast %s %%t%d to <4 x i32>", part.text, low);
    if (unit->parts == 1) return weft_llvm_define(printer, "bitcast <4 x i32> %%t%d to i128", low);
    int high = weft_llvm_define(printer, "load %s, %s %%v%d", part.text, printer->dialect->stack, id + 1);
    high = weft_llvm_define(printer, "bitcast %s %%t%d to <4 x i32>", part.text, high);
    int both = weft_llvm_define(printer,
                                "shufflevector <4 x i32> %%t%d, <4 x i32> %%t%d, <8 x i32> <i32 0, i32 1, i32 2, i32 "
                                "3, i32 4, i32 5, i32 6, i32 7>",
                                low, high);
    return weft_llvm_define(printer, "bitcast <8 x i32> %%t%d to i256", both);
}

/* Step `step` of an operand, as the instruction takes it. */
static int take_step(weft_llvm_printer *printer, int whole, int bits, const spelling *s, int step) {
    int width = bits / s->steps;
    if (s->steps == 1) return weft_llvm_define(printer, "bitcast i%d %%t%d to %s", bits, whole, s->operand);
    int steps = weft_llvm_define(printer, "bitcast i%d %%t%d to <%d x i%d>", bits, whole, s->steps, width);
    int one = weft_llvm_define(printer, "extractelement <%d x i%d> %%t%d, i64 %d", s->steps, width, steps, step);
    return weft_llvm_define(printer, "bitcast i%d %%t%d to %s", width, one, s->operand);
}

bool weft_amdgcn_print_matrix(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    if (instr->op != WEFT_K_mma) return false;
    const weft_wave_unit *unit = weft_wave_unit_get(instr->i);
    if (!unit || weft_wave_unit_find(printer->kernel->capability, unit->dtype, unit->size) != instr->i) {
        weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "is of no matrix unit that this GPU has");
        return true;
    }
    spelling s = spelling_of(printer, instr->i);
    bool wide = unit->lanes == 64, integers = unit->sum == WEFT_I32;
    weft_llvm_name type = weft_llvm_elem_type(unit->sum, unit->sums);
    weft_kval object = weft_koperand(printer->kernel, instr, 0), first = weft_koperand(printer->kernel, instr, 1);
    int sums = weft_llvm_storage(printer, at, object, first), bits = 128 * unit->parts;
    int a = load_operand(printer, at, 2, unit), b = load_operand(printer, at, 4, unit);
    if (sums < 0 || a < 0 || b < 0) return true;
    int d = weft_llvm_define(printer, "load %s, %s %%v%d", type.text, printer->dialect->stack, sums);
    for (int step = 0; step < s.steps; step++) {
        int x = take_step(printer, a, bits, &s, step), y = take_step(printer, b, bits, &s, step);
        const char *sign = !wide && integers ? "i1 true, " : ""; /* WMMA says of each operand whether it is signed */
        d = weft_llvm_define(printer, "call %s @llvm.amdgcn.%s(%s%s %%t%d, %s%s %%t%d, %s %%t%d%s)", type.text, s.name,
                             sign, s.operand, x, sign, s.operand, y, type.text, d,
                             wide       ? ", i32 0, i32 0, i32 0"
                             : integers ? ", i1 false"
                                        : "");
    }
    if (!wide) d = weft_amdgcn_pin(printer, type.text, d);
    weft_llvm_line(printer, "store %s %%t%d, %s %%v%d", type.text, d, printer->dialect->stack, sums);
    return true;
}
