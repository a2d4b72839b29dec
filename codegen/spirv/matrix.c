/* Rows of subgroups: shuffles, and products of cooperative matrices (SPV_KHR_cooperative_matrix), whose elements lie
   where only the device knows. A register of such a matrix is one element of an array of the function.

   Versions of SPIRV-Tools before 2023.4 do not know the extension, those before 2025.2 no bf16; for them its
   instructions are numbers behind an OpNop, which ends the operands of what stands before (target.c takes it out
   again). Modules with matrices have the Vulkan memory model: what threads share is NonPrivate, and barriers make it
   available and visible. Shared arrays that matrices come from are arrays of words of up to 16 bytes, as wide as every
   access to them. See print.h. Source: Khronos, SPV_KHR_cooperative_matrix, SPV_KHR_bfloat16. */
#include "codegen/kernel/matrix.h"
#include "base/dtype.h"
#include "codegen/spirv/print.h"

typedef weft_spirv_id id;

enum { SUBGROUP = 3, ROWS = 0, COLUMNS = 1 };
static const char all_signed[] = "MatrixASignedComponentsKHR|MatrixBSignedComponentsKHR|MatrixCSignedComponentsKHR|"
                                 "MatrixResultSignedComponentsKHR";

/* The head of an instruction of the extension: the number of its words, and its code, for assemblers that do not know
   its name. type, result: 0 = none. */
static void extension(weft_spirv *p, weft_text *section, const char *name, int64_t words, int64_t code, id type,
                      id result) {
    if (p->numbers)
        weft_text_append(section, "OpNop\n!%lld", (long long)(words << 16 | code));
    else if (result)
        weft_spirv_do(p, section, "$ = @~", result, name);
    else
        weft_text_append(section, "%s", name);
    if (type) weft_spirv_do(p, section, " $~", type);
    if (p->numbers && result) weft_spirv_do(p, section, " $~", result);
}
static const char *non_private(const weft_spirv *p) { return p->numbers ? "32" : "NonPrivatePointer"; }

/* What instruction `value` is for matrices: a whole matrix of this use (+ 1) in registers; bytes of a word of a shared
   array. */
static void note_access(weft_spirv *p, const weft_kinstr *instr) {
    const weft_kernel *kernel = p->kernel;
    bool load = instr->op == WEFT_K_load;
    weft_kval memory = weft_koperand(kernel, instr, 0), value = load ? WEFT_KNONE : weft_koperand(kernel, instr, 3);
    if (!p->whole[memory] || weft_kernel_get(kernel, memory)->op != WEFT_K_shared) return;
    int bytes = weft_dtype_bits((weft_dtype)weft_ktype_of(kernel, memory).elem) / 8,
        lanes = load ? instr->type.lanes : weft_ktype_of(kernel, value).lanes,
        known = instr->align_bytes > bytes ? instr->align_bytes : bytes;
    while (p->whole[memory] > 2 && (known % p->whole[memory] || lanes * bytes % p->whole[memory]))
        p->whole[memory] /= 2;
    bool side_by_side = weft_ktype_of(kernel, weft_koperand(kernel, instr, 1)).lanes == 1;
    if (p->whole[memory] < 4 || !side_by_side || weft_koperand(kernel, instr, 2) != WEFT_KNONE)
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "single elements of shared memory that matrices come from");
}

void weft_spirv_find_matrices(weft_spirv *p) {
    const weft_kernel *kernel = p->kernel;
    for (size_t i = 0; i < kernel->instr_count; i++) {
        const weft_kinstr *instr = &kernel->instrs[i];
        if (instr->op == WEFT_K_matrix_load || instr->op == WEFT_K_matrix_store) {
            p->matrices = true;
            p->unit = weft_matrix_unit_of(instr->i);
            p->whole[weft_koperand(kernel, instr, 0)] = (uint8_t)(1 + weft_matrix_use_of(instr->i));
            weft_kval shared = weft_koperand(kernel, instr, 2);
            int align = weft_matrix_align(weft_wave_unit_get(p->unit), weft_matrix_use_of(instr->i));
            if (!p->whole[shared] || p->whole[shared] > align) p->whole[shared] = (uint8_t)align;
        } else if (instr->op == WEFT_K_mma) {
            static const weft_matrix_use uses[] = {WEFT_MATRIX_D, WEFT_MATRIX_A, WEFT_MATRIX_B};
            for (int n = 0; n < 3; n++) p->whole[weft_koperand(kernel, instr, 2 * n)] = (uint8_t)(1 + uses[n]);
        }
    }
    for (size_t i = 0; i < kernel->instr_count && p->matrices; i++)
        if (kernel->instrs[i].op == WEFT_K_load || kernel->instrs[i].op == WEFT_K_store)
            note_access(p, &kernel->instrs[i]);
}

/* bf16 is a type of matrices alone: elsewhere its bits are integers. */
static id element_type(weft_spirv *p, weft_dtype dtype) {
    if (dtype == WEFT_I8) return weft_spirv_type_name(p, WEFT_SPIRV_U8);
    if (dtype != WEFT_BF16)
        return weft_spirv_type_name(
            p, weft_dtype_is_float(dtype) ? (dtype == WEFT_F32 ? WEFT_SPIRV_F32 : WEFT_SPIRV_F16) : WEFT_SPIRV_U32);
    if (p->bfloat) return p->bfloat;
    p->bfloat = weft_spirv_new(p);
    extension(p, &p->globals, "OpTypeFloat", 4, 22, 0, p->bfloat);
    weft_spirv_do(p, &p->globals, p->numbers ? " !16 !0" : " 16 BFloat16KHR");
    return p->bfloat;
}

static id matrix_type(weft_spirv *p, weft_matrix_use use) {
    const weft_wave_unit *unit = weft_wave_unit_get(p->unit);
    if (p->matrix_types[use]) return p->matrix_types[use];
    id element = element_type(p, use == WEFT_MATRIX_D ? unit->sum : unit->dtype);
    id size = weft_spirv_u32(p, (uint32_t)unit->size), depth = weft_spirv_u32(p, (uint32_t)unit->depth),
       scope = weft_spirv_u32(p, SUBGROUP), kind = weft_spirv_u32(p, (uint32_t)use);
    p->matrix_types[use] = weft_spirv_new(p);
    extension(p, &p->globals, "OpTypeCooperativeMatrixKHR", 7, 4456, 0, p->matrix_types[use]);
    weft_spirv_do(p, &p->globals, " $ $ $ $ $", element, scope, use == WEFT_MATRIX_B ? depth : size,
                  use == WEFT_MATRIX_A ? depth : size, kind);
    p->matrix_pointers[use] = weft_spirv_new(p);
    weft_spirv_do(p, &p->globals, "$ = OpTypePointer Function $", p->matrix_pointers[use], p->matrix_types[use]);
    return p->matrix_types[use];
}

static weft_matrix_use use_of(const weft_spirv *p, weft_kval regs) { return (weft_matrix_use)(p->whole[regs] - 1); }

/* regs of whole matrices: an array of the function. */
static void declare(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    id type = matrix_type(p, use_of(p, value)), array = weft_spirv_new(p), pointer = weft_spirv_new(p),
       variable = weft_spirv_new(p);
    weft_spirv_do(p, &p->globals, "$ = OpTypeArray $ $", array, type, weft_spirv_u32(p, (uint32_t)instr->i));
    weft_spirv_do(p, &p->globals, "$ = OpTypePointer Function $", pointer, array);
    weft_spirv_do(p, &p->variables, "$ = OpVariable $ Function", variable, pointer);
    weft_spirv_define(p, value, 0, variable);
}

/* The place of register operand `at` + 1 of regs operand `at`. */
static id place(weft_spirv *p, const weft_kinstr *instr, int at) {
    weft_kval regs = weft_koperand(p->kernel, instr, at), index = weft_koperand(p->kernel, instr, at + 1);
    id pointer = weft_spirv_new(p);
    weft_dtype elem = (weft_dtype)weft_ktype_of(p->kernel, index).elem;
    weft_spirv_do(p, &p->code, "$ = OpAccessChain $ $ $", pointer, p->matrix_pointers[use_of(p, regs)],
                  p->lanes[p->first[regs]], weft_spirv_convert(p, elem, WEFT_U32, weft_spirv_lane(p, index, 0)));
    return pointer;
}

static id loaded(weft_spirv *p, const weft_kinstr *instr, int at) {
    id value = weft_spirv_new(p), from = place(p, instr, at);
    weft_spirv_do(p, &p->code, "$ = OpLoad $ $", value, matrix_type(p, use_of(p, weft_koperand(p->kernel, instr, at))),
                  from);
    return value;
}

/* All elements of a matrix at once: set of a splat. */
static void fill(weft_spirv *p, const weft_kinstr *instr) {
    weft_kval value = weft_koperand(p->kernel, instr, 2);
    int op = weft_kernel_get(p->kernel, value)->op;
    if (instr->op != WEFT_K_set || op != WEFT_K_constant) {
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "single elements of a matrix whose places only the device knows");
        return;
    }
    id constant = weft_spirv_new(p), element = weft_spirv_lane(p, value, 0);
    weft_spirv_do(p, &p->globals, "$ = OpConstantComposite $ $", constant,
                  matrix_type(p, use_of(p, weft_koperand(p->kernel, instr, 0))), element);
    weft_spirv_do(p, &p->code, "OpStore $ $", place(p, instr, 0), constant);
}

static void move(weft_spirv *p, const weft_kinstr *instr) {
    weft_kval shared = weft_koperand(p->kernel, instr, 2), element = weft_koperand(p->kernel, instr, 3);
    int bytes = weft_dtype_bits((weft_dtype)weft_ktype_of(p->kernel, shared).elem) / 8, word = p->whole[shared];
    weft_matrix_use use = weft_matrix_use_of(instr->i);
    weft_spirv_type type = weft_spirv_word(word);
    id at = weft_spirv_convert(p, (weft_dtype)weft_ktype_of(p->kernel, element).elem, WEFT_U32,
                               weft_spirv_lane(p, element, 0));
    at = weft_spirv_emit(p, WEFT_SPIRV_U32, "OpUDiv", "$ $", at, weft_spirv_u32(p, (uint32_t)(word / bytes)));
    id pointer = weft_spirv_new(p), order = weft_spirv_u32(p, use == WEFT_MATRIX_B ? COLUMNS : ROWS),
       pitch = weft_spirv_u32(p, (uint32_t)(weft_matrix_pitch(instr->i) * bytes / word));
    weft_spirv_do(p, &p->code, "$ = OpAccessChain $ $ $", pointer,
                  weft_spirv_pointer_name(p, WEFT_SPIRV_WORKGROUP, type), p->lanes[p->first[shared]], at);
    if (instr->op == WEFT_K_matrix_store) {
        id value = loaded(p, instr, 0);
        extension(p, &p->code, "OpCooperativeMatrixStoreKHR", 6, 4458, 0, 0);
        weft_spirv_do(p, &p->code, " $ $ $ $ @", pointer, value, order, pitch, non_private(p));
        return;
    }
    id value = weft_spirv_new(p), to = place(p, instr, 0);
    extension(p, &p->code, "OpCooperativeMatrixLoadKHR", 7, 4457, matrix_type(p, use), value);
    weft_spirv_do(p, &p->code, " $ $ $ @", pointer, order, pitch, non_private(p));
    weft_spirv_do(p, &p->code, "OpStore $ $", to, value);
}

static void multiply(weft_spirv *p, const weft_kinstr *instr) {
    id d = loaded(p, instr, 0), a = loaded(p, instr, 2), b = loaded(p, instr, 4), r = weft_spirv_new(p),
       to = place(p, instr, 0);
    bool integers = weft_wave_unit_get(p->unit)->sum == WEFT_I32;
    extension(p, &p->code, "OpCooperativeMatrixMulAddKHR", integers ? 7 : 6, 4459, matrix_type(p, WEFT_MATRIX_D), r);
    weft_spirv_do(p, &p->code, " $ $ $ @", a, b, d, !integers ? "" : p->numbers ? "15" : all_signed);
    weft_spirv_do(p, &p->code, "OpStore $ $", to, r);
}

void weft_spirv_matrix_capability(const weft_spirv *p, weft_text *text) {
    weft_text_append(text, "OpCapability VulkanMemoryModel\n");
    weft_text_append(text, p->numbers ? "OpNop\n!131089 6022\n" : "OpCapability CooperativeMatrixKHR\n");
    if (weft_wave_unit_get(p->unit)->dtype == WEFT_I8) weft_text_append(text, "OpCapability Int8\n");
    if (p->bfloat)
        weft_text_append(text, p->numbers
                                   ? "OpNop\n!131089 5116\nOpNop\n!131089 5118\n"
                                   : "OpCapability BFloat16TypeKHR\nOpCapability BFloat16CooperativeMatrixKHR\n");
}

bool weft_spirv_multiplies_bf16(const weft_kernel *kernel) {
    for (size_t i = 0; i < kernel->instr_count; i++) {
        if (kernel->instrs[i].op != WEFT_K_mma) continue;
        const weft_wave_unit *unit = weft_wave_unit_get(kernel->instrs[i].i);
        if (unit && unit->dtype == WEFT_BF16) return true;
    }
    return false;
}

/* -- shuffles; 64 bits in halves, which needs no feature of the device */

static id exchanged(weft_spirv *p, weft_spirv_type type, id x, int64_t distance) {
    p->shuffles = true;
    if (type == WEFT_SPIRV_U64) {
        id pair = weft_spirv_emit(p, WEFT_SPIRV_U32X2, "OpBitcast", "$", x), half[2];
        for (int i = 0; i < 2; i++)
            half[i] =
                exchanged(p, WEFT_SPIRV_U32,
                          weft_spirv_emit(p, WEFT_SPIRV_U32, "OpCompositeExtract", "$ #", pair, (int64_t)i), distance);
        pair = weft_spirv_emit(p, WEFT_SPIRV_U32X2, "OpCompositeConstruct", "$ $", half[0], half[1]);
        return weft_spirv_emit(p, type, "OpBitcast", "$", pair);
    }
    id scope = weft_spirv_u32(p, SUBGROUP), mask = weft_spirv_u32(p, (uint32_t)distance);
    return weft_spirv_emit(p, type, "OpGroupNonUniformShuffleXor", "$ $ $", scope, x, mask);
}

static void shuffle(weft_spirv *p, weft_kval value, const weft_kinstr *instr) {
    weft_spirv_type type = weft_spirv_carrier((weft_dtype)instr->type.elem);
    for (int lane = 0; lane < weft_spirv_lanes(p, value); lane++) {
        id x = weft_spirv_lane(p, weft_koperand(p->kernel, instr, 0), lane);
        weft_spirv_define(p, value, lane, exchanged(p, type, x, instr->i));
    }
}

bool weft_spirv_matrix(weft_spirv *p, weft_kval value) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, value);
    int op = instr->op;
    bool regs = op == WEFT_K_regs && p->whole[value],
         moved = (op == WEFT_K_get || op == WEFT_K_set) && p->whole[weft_koperand(p->kernel, instr, 0)];
    if (regs)
        declare(p, value, instr);
    else if (moved)
        fill(p, instr);
    else if (op == WEFT_K_matrix_load || op == WEFT_K_matrix_store)
        move(p, instr);
    else if (op == WEFT_K_mma)
        multiply(p, instr);
    else if (op == WEFT_K_shuffle_xor)
        shuffle(p, value, instr);
    else
        return false;
    return true;
}
