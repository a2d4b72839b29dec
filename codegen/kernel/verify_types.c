/* Types of every row of kernel_ops.def, and what is known when code is generated (register indices must be).

   Invariant: an instruction that passes here can be printed and simulated without looking at types again. */
#include "codegen/kernel/verify_internal.h"

#include "codegen/kernel/matrix.h"

static weft_ktype type_of(const weft_kverify *v, const weft_kinstr *instr, int n) {
    weft_kval operand = weft_koperand(v->kernel, instr, n);
    return operand == WEFT_KNONE ? (weft_ktype){0} : weft_ktype_of(v->kernel, operand);
}

static bool present(const weft_kverify *v, const weft_kinstr *instr, int n) {
    return weft_koperand(v->kernel, instr, n) != WEFT_KNONE;
}

static bool equal(weft_ktype a, weft_ktype b) { return a.kind == b.kind && a.elem == b.elem && a.lanes == b.lanes; }
static bool is_value(weft_ktype type) { return type.kind == WEFT_KIND_VALUE && type.lanes >= 1; }
static bool is_memory(weft_ktype type) { return type.kind == WEFT_KIND_BUFFER || type.kind == WEFT_KIND_SHARED; }
static bool is_integer(weft_ktype type) { return is_value(type) && weft_dtype_is_integer((weft_dtype)type.elem); }
static bool is_bool(weft_ktype type) { return is_value(type) && type.elem == WEFT_BOOL; }
static bool is_scalar_bool(weft_ktype type) { return is_bool(type) && type.lanes == 1; }
static bool computes(weft_dtype elem) { return elem == WEFT_F32 || elem == WEFT_F64; }

static void expect(weft_kverify *v, weft_kval at, bool holds, const char *what) {
    if (!holds) weft_kverify_problem(v, at, "%s", what);
}

/* Integers, floats that compute and BOOL: which of them an arithmetic op has a meaning for. */
static bool has_meaning(weft_kop op, weft_dtype elem) {
    bool whole = weft_dtype_is_integer(elem), real = computes(elem);
    switch ((int)op) {
    case WEFT_K_add:
    case WEFT_K_sub:
    case WEFT_K_mul:
    case WEFT_K_div:
    case WEFT_K_neg:
    case WEFT_K_abs:
    case WEFT_K_reduce_add:
    case WEFT_K_reduce_mul: return whole || real;
    case WEFT_K_min:
    case WEFT_K_max:
    case WEFT_K_reduce_min:
    case WEFT_K_reduce_max: return whole || real || elem == WEFT_BOOL;
    case WEFT_K_rem:
    case WEFT_K_shl:
    case WEFT_K_shr:
    case WEFT_K_popcount: return whole;
    case WEFT_K_mul_high: return whole && weft_dtype_bits(elem) >= 32;
    case WEFT_K_and:
    case WEFT_K_or:
    case WEFT_K_xor:
    case WEFT_K_not:
    case WEFT_K_reduce_and:
    case WEFT_K_reduce_or: return whole || elem == WEFT_BOOL;
    case WEFT_K_exp2_fast:
    case WEFT_K_log2_fast:
    case WEFT_K_rcp_fast:
    case WEFT_K_rsqrt_fast:
    case WEFT_K_tanh_fast: return elem == WEFT_F32;
    case WEFT_K_eq:
    case WEFT_K_ne:
    case WEFT_K_lt:
    case WEFT_K_le: return whole || real || elem == WEFT_BOOL;
    default: return real; /* copysign fma floor ceil trunc round sqrt */
    }
}

static void check_arithmetic(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype first = type_of(v, instr, 0), result = instr->type;
    for (int n = 0; n < instr->operand_count; n++)
        expect(v, at, equal(type_of(v, instr, n), first), "operands of different types");
    weft_kop op = (weft_kop)instr->op;
    if (!is_value(first) || !has_meaning(op, (weft_dtype)first.elem)) {
        weft_kverify_problem(v, at, "no meaning for %s", weft_dtype_name((weft_dtype)first.elem));
        return;
    }
    bool compares = op >= WEFT_K_eq && op <= WEFT_K_le, reduces = op >= WEFT_K_reduce_add && op <= WEFT_K_reduce_or;
    weft_ktype wanted = first;
    if (compares) wanted.elem = WEFT_BOOL;
    if (reduces) wanted.lanes = 1;
    expect(v, at, equal(result, wanted), "result type does not follow from the operands");
}

/* Which lane of a vector goes where. */
static void check_lanes(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype first = type_of(v, instr, 0), result = instr->type;
    switch ((int)instr->op) {
    case WEFT_K_splat:
        expect(v, at,
               is_value(first) && first.lanes == 1 && first.elem == result.elem && result.kind == WEFT_KIND_VALUE,
               "one lane to many of its type");
        break;
    case WEFT_K_extract:
        expect(v, at, is_value(first) && result.lanes == 1 && result.elem == first.elem,
               "one lane of the vector's type");
        expect(v, at, instr->i >= 0 && instr->i < first.lanes, "no such lane");
        break;
    case WEFT_K_insert:
        expect(v, at,
               is_value(first) && equal(first, result) && type_of(v, instr, 1).lanes == 1 &&
                   type_of(v, instr, 1).elem == first.elem,
               "a scalar of the vector's type");
        expect(v, at, instr->i >= 0 && instr->i < first.lanes, "no such lane");
        break;
    case WEFT_K_deal:
    case WEFT_K_zip:
        expect(v, at,
               is_value(first) && equal(first, result) && equal(type_of(v, instr, 1), first) && first.lanes % 2 == 0,
               "two vectors of one type and an even number of lanes");
        expect(v, at, instr->i == 0 || instr->i == 1, "half 0 or 1");
        break;
    default: break;
    }
}

static void check_value(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype first = instr->operand_count ? type_of(v, instr, 0) : (weft_ktype){0}, result = instr->type;
    switch ((int)instr->op) {
    case WEFT_K_select: {
        weft_ktype a = type_of(v, instr, 1);
        expect(v, at, is_bool(first) && (first.lanes == 1 || first.lanes == a.lanes),
               "the mask must be bool, of one lane or as many as the values");
        expect(v, at, is_value(a) && equal(a, type_of(v, instr, 2)) && equal(a, result),
               "values and result of different types");
        break;
    }
    case WEFT_K_convert:
        expect(v, at, is_value(first) && is_value(result) && first.lanes == result.lanes, "lanes must stay");
        break;
    case WEFT_K_bitcast:
        expect(v, at,
               is_value(first) && is_value(result) && first.lanes == result.lanes &&
                   weft_dtype_bits((weft_dtype)first.elem) == weft_dtype_bits((weft_dtype)result.elem),
               "widths and lanes must be equal");
        expect(v, at, first.elem != WEFT_BOOL && result.elem != WEFT_BOOL, "bool has no bits");
        break;
    case WEFT_K_iota: expect(v, at, is_value(result) && result.elem != WEFT_BOOL, "a number type"); break;
    case WEFT_K_pack:
        expect(v, at,
               first.elem == WEFT_F32 && first.lanes == 1 && equal(first, type_of(v, instr, 1)) &&
                   result.elem == WEFT_U32 && (instr->i == WEFT_BF16 || instr->i == WEFT_F16),
               "two f32 to u32 of bf16 or f16");
        break;
    case WEFT_K_unpack:
        expect(v, at,
               first.elem == WEFT_U32 && first.lanes == 1 && result.elem == WEFT_F32 &&
                   ((instr->i & 255) == WEFT_BF16 || (instr->i & 255) == WEFT_F16),
               "u32 to f32 of bf16 or f16");
        break;
    case WEFT_K_shuffle_xor:
        expect(v, at, is_value(first) && equal(first, result), "a value and its type");
        expect(v, at, instr->i > 0 && instr->i < v->kernel->capability->warp, "the distance must be inside the warp");
        break;
    case WEFT_K_warp_uniform:
        expect(v, at, is_integer(first) && equal(first, result), "an integer and its type");
        break;
    case WEFT_K_splat:
    case WEFT_K_extract:
    case WEFT_K_insert:
    case WEFT_K_deal:
    case WEFT_K_zip: check_lanes(v, at, instr); break;
    default: expect(v, at, is_value(result), "the result must be a value"); break;
    }
}

static bool is_index(weft_ktype type) {
    return is_integer(type) &&
           (type.elem == WEFT_I32 || type.elem == WEFT_U32 || type.elem == WEFT_I64 || type.elem == WEFT_U64);
}

static const weft_kargument *argument_of(const weft_kverify *v, weft_kval object) {
    const weft_kinstr *instr = weft_kernel_get(v->kernel, object);
    bool buffer = instr->op == WEFT_K_buffer && instr->i >= 0 && (size_t)instr->i < v->kernel->argument_count;
    return buffer ? &v->kernel->arguments[instr->i] : NULL;
}

static void check_writes(weft_kverify *v, weft_kval at, weft_kval object) {
    const weft_kargument *argument = argument_of(v, object);
    if (argument && !argument->writes)
        weft_kverify_problem(v, at, "argument \"%s\" was not declared as written", argument->name);
}

static void check_load(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype memory = type_of(v, instr, 0), index = type_of(v, instr, 1), result = instr->type;
    expect(v, at, is_memory(memory), "operand 0 must be a buffer or shared");
    expect(v, at, is_index(index) && (index.lanes == 1 || index.lanes == result.lanes),
           "the index must be a 32 or 64 bit integer of one lane or as many as are loaded");
    expect(v, at, is_value(result) && result.elem == memory.elem, "loads give the element type of the memory");
    if (present(v, instr, 2)) {
        expect(v, at, is_bool(type_of(v, instr, 2)) && type_of(v, instr, 2).lanes == result.lanes,
               "the mask must have as many lanes as the access");
        expect(v, at, present(v, instr, 3) && equal(type_of(v, instr, 3), result),
               "a masked load needs `other` of its type");
    }
    expect(v, at, instr->align_bytes >= 0 && (instr->align_bytes & (instr->align_bytes - 1)) == 0,
           "alignment is no power of two");
}

static void check_store(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype memory = type_of(v, instr, 0), index = type_of(v, instr, 1), value = type_of(v, instr, 3);
    expect(v, at, is_memory(memory), "operand 0 must be a buffer or shared");
    expect(v, at, is_value(value) && value.elem == memory.elem, "the value must have the element type of the memory");
    expect(v, at, is_index(index) && (index.lanes == 1 || index.lanes == value.lanes),
           "the index must be a 32 or 64 bit integer of one lane or as many as are stored");
    expect(v, at, !present(v, instr, 2) || (is_bool(type_of(v, instr, 2)) && type_of(v, instr, 2).lanes == value.lanes),
           "the mask must have as many lanes as the access");
    expect(v, at, instr->align_bytes >= 0 && (instr->align_bytes & (instr->align_bytes - 1)) == 0,
           "alignment is no power of two");
    check_writes(v, at, weft_koperand(v->kernel, instr, 0));
}

static void check_atomic(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype memory = type_of(v, instr, 0), value = type_of(v, instr, 2);
    bool four = value.lanes == 4 && value.elem == WEFT_F32 && instr->i == WEFT_ATOMIC_ADD &&
                memory.kind == WEFT_KIND_BUFFER && instr->type.kind == WEFT_KIND_VOID && v->kernel->capability->hopper;
    expect(v, at, is_memory(memory) && is_value(value) && value.elem == memory.elem && (value.lanes == 1 || four),
           "one value of the memory's element type");
    expect(v, at,
           value.elem == WEFT_I32 || value.elem == WEFT_U32 || value.elem == WEFT_I64 || value.elem == WEFT_U64 ||
               value.elem == WEFT_F32,
           "no atomics on this type");
    expect(v, at, is_index(type_of(v, instr, 1)) && type_of(v, instr, 1).lanes == 1, "a scalar index");
    expect(v, at, instr->i >= WEFT_ATOMIC_ADD && instr->i <= WEFT_ATOMIC_MAX, "no such atomic");
    check_writes(v, at, weft_koperand(v->kernel, instr, 0));
}

static void check_object(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype result = instr->type;
    switch ((int)instr->op) {
    case WEFT_K_scalar_argument:
    case WEFT_K_buffer:
    case WEFT_K_tensor_map:
        if (instr->i < 0 || (size_t)instr->i >= v->kernel->argument_count)
            weft_kverify_problem(v, at, "no argument %lld", (long long)instr->i);
        else
            expect(v, at,
                   (v->kernel->arguments[instr->i].source == WEFT_ARGUMENT_EXTENT) ==
                       (instr->op == WEFT_K_scalar_argument),
                   "an argument of another kind");
        break;
    case WEFT_K_shared:
        expect(v, at, result.kind == WEFT_KIND_SHARED && weft_dtype_bits((weft_dtype)result.elem) >= 8,
               "an element type of 8 bits or more");
        expect(v, at, instr->extent != WEFT_DIM_INVALID && instr->extent != WEFT_DIM_ANY, "no extent");
        break;
    case WEFT_K_var: {
        weft_ktype initial = type_of(v, instr, 0);
        expect(v, at,
               result.kind == WEFT_KIND_VAR && is_value(initial) && initial.elem == result.elem &&
                   initial.lanes == result.lanes,
               "the initial value has another type");
        break;
    }
    case WEFT_K_regs:
        expect(v, at, result.kind == WEFT_KIND_REGS && instr->i > 0 && instr->i <= 1 << 16 && result.lanes >= 1,
               "a positive number of registers");
        break;
    default: break;
    }
}

static void check_register(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype object = type_of(v, instr, 0);
    weft_kval index = weft_koperand(v->kernel, instr, 1);
    weft_ktype value = instr->op == WEFT_K_get ? instr->type : type_of(v, instr, 2);
    expect(v, at, object.kind == WEFT_KIND_VAR || object.kind == WEFT_KIND_REGS, "operand 0 must be a var or regs");
    expect(v, at, is_value(value) && value.elem == object.elem && value.lanes == object.lanes,
           "the value has another type");
    if (object.kind == WEFT_KIND_VAR) expect(v, at, index == WEFT_KNONE, "a var has no index");
    if (object.kind != WEFT_KIND_REGS) return;
    if (index == WEFT_KNONE || !is_integer(type_of(v, instr, 1)) || !v->constant[index]) {
        weft_kverify_problem(v, at, "the register index must be a constant or follow from unrolled loop variables");
        return;
    }
    const weft_kinstr *at_index = weft_kernel_get(v->kernel, index);
    int64_t count = weft_kernel_get(v->kernel, weft_koperand(v->kernel, instr, 0))->i;
    if (at_index->op == WEFT_K_constant && (at_index->i < 0 || at_index->i >= count))
        weft_kverify_problem(v, at, "register %lld of %lld", (long long)at_index->i, (long long)count);
}

static int parameters_of(const weft_kverify *v, weft_kval func) { return (int)weft_kernel_get(v->kernel, func)->i; }

static void check_call(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_kval func = instr->operand_count ? weft_koperand(v->kernel, instr, 0) : WEFT_KNONE;
    if (func == WEFT_KNONE || weft_kernel_get(v->kernel, func)->op != WEFT_K_func) {
        weft_kverify_problem(v, at, "operand 0 must be a func");
        return;
    }
    if (instr->operand_count != parameters_of(v, func) + 1) {
        weft_kverify_problem(v, at, "%d arguments for %d parameters", instr->operand_count - 1, parameters_of(v, func));
        return;
    }
    for (int32_t n = func + 1; n < v->end[func]; n++) {
        const weft_kinstr *inner = weft_kernel_get(v->kernel, n);
        if (inner->op == WEFT_K_parameter && inner->i < instr->operand_count - 1)
            expect(v, at, equal(inner->type, type_of(v, instr, 1 + (int)inner->i)),
                   "an argument has another type than the parameter");
    }
    const weft_kinstr *end = weft_kernel_get(v->kernel, v->end[func]);
    expect(v, at, equal(instr->type, type_of(v, end, 0)), "the func gives another type");
}

static void check_structure_types(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    weft_ktype first = instr->operand_count ? type_of(v, instr, 0) : (weft_ktype){0};
    switch ((int)instr->op) {
    case WEFT_K_for: {
        expect(v, at,
               is_index(first) && first.lanes == 1 && equal(first, type_of(v, instr, 1)) &&
                   equal(first, type_of(v, instr, 2)) && equal(first, instr->type),
               "bounds, step and variable must be one integer type");
        const weft_kinstr *step = weft_kernel_get(v->kernel, weft_koperand(v->kernel, instr, 2));
        expect(v, at, step->op != WEFT_K_constant || step->i > 0, "the step must be positive");
        break;
    }
    case WEFT_K_if:
    case WEFT_K_test: expect(v, at, is_scalar_bool(first), "the condition must be one bool"); break;
    case WEFT_K_parameter: {
        int32_t func = v->opener[at];
        while (func >= 0 && weft_kernel_get(v->kernel, func)->op != WEFT_K_func) func = v->opener[func];
        expect(v, at, func >= 0 && instr->i >= 0 && instr->i < parameters_of(v, func), "no such parameter");
        break;
    }
    case WEFT_K_func_end: expect(v, at, is_value(first), "the result must be a value"); break;
    case WEFT_K_call: check_call(v, at, instr); break;
    default: break;
    }
}

static bool is_regs(weft_ktype type, weft_dtype elem) {
    return type.kind == WEFT_KIND_REGS && type.elem == elem && type.lanes == 1;
}

static bool is_vectors(weft_ktype type, weft_dtype elem, int lanes) {
    return type.kind == WEFT_KIND_REGS && type.elem == elem && type.lanes == lanes;
}

static bool on_target(const weft_kverify *v, int64_t id, const weft_wave_unit *unit) {
    const weft_capability *capability = v->kernel->capability;
    return id == (unit->spread == WEFT_SPREAD_HIDDEN ? weft_hidden_unit_find(capability, unit->dtype)
                                                     : weft_wave_unit_find(capability, unit->dtype, unit->size));
}

/* mma on a wave unit. */
static void check_wave_unit(weft_kverify *v, weft_kval at, const weft_kinstr *instr, const weft_wave_unit *unit) {
    expect(v, at,
           is_vectors(type_of(v, instr, 0), unit->sum, unit->sums) &&
               is_vectors(type_of(v, instr, 2), unit->dtype, unit->part_lanes) &&
               is_vectors(type_of(v, instr, 4), unit->dtype, unit->part_lanes),
           "registers of the unit's vectors");
    expect(v, at, on_target(v, instr->i, unit), "the target has no such matrix unit");
}

/* matrix_load, matrix_store. */
static void check_whole_matrix(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    const weft_wave_unit *unit = weft_wave_unit_get(weft_matrix_unit_of(instr->i));
    bool known = unit && unit->spread == WEFT_SPREAD_HIDDEN && on_target(v, weft_matrix_unit_of(instr->i), unit);
    expect(v, at, known, "the target has no such matrix unit");
    if (!known) return;
    bool sums = weft_matrix_use_of(instr->i) == WEFT_MATRIX_D;
    weft_dtype elem = sums ? unit->sum : unit->dtype;
    weft_ktype memory = type_of(v, instr, 2);
    expect(v, at, is_vectors(type_of(v, instr, 0), elem, sums ? unit->sums : unit->part_lanes),
           "registers of the unit's vectors");
    expect(v, at, memory.kind == WEFT_KIND_SHARED && memory.elem == elem && is_index(type_of(v, instr, 3)),
           "shared memory of the unit's elements, and an element");
    expect(v, at,
           weft_matrix_pitch(instr->i) >= unit->size && weft_matrix_pitch(instr->i) * weft_dtype_bits(elem) / 8 %
                                                                weft_matrix_align(unit, weft_matrix_use_of(instr->i)) ==
                                                            0,
           "lines must not overlap, and start at multiples of 16 bytes or their own");
    expect(v, at, v->constant[weft_koperand(v->kernel, instr, 1)], "first registers must be constant or unrolled");
}

static void check_matrix(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    if (instr->op == WEFT_K_mma) {
        const weft_wave_unit *unit = weft_wave_unit_get(instr->i);
        if (unit) {
            check_wave_unit(v, at, instr, unit);
        } else if (instr->i == WEFT_SIMDGROUP_F32) {
            for (int n = 0; n < 6; n += 2)
                expect(v, at, is_vectors(type_of(v, instr, n), WEFT_F32, 2), "registers of two f32");
            expect(v, at, v->kernel->capability->simdgroup_matrix, "the target has no such matrix unit");
        } else {
            expect(v, at,
                   is_regs(type_of(v, instr, 0), WEFT_F32) && is_regs(type_of(v, instr, 2), WEFT_U32) &&
                       is_regs(type_of(v, instr, 4), WEFT_U32),
                   "f32 d, u32 a and b registers");
            expect(v, at, instr->i >= WEFT_MMA_M16N8K16_BF16 && instr->i <= WEFT_MMA_M16N8K8_TF32,
                   "no such matrix unit");
        }
        for (int n = 1; n < 6; n += 2)
            expect(v, at, v->constant[weft_koperand(v->kernel, instr, n)],
                   "first registers must be constant or unrolled");
    } else {
        int64_t tiles = instr->i & 7;
        expect(v, at, is_regs(type_of(v, instr, 0), WEFT_U32) && type_of(v, instr, 2).kind == WEFT_KIND_SHARED,
               "u32 registers and shared memory");
        expect(v, at, (tiles == 1 || tiles == 2 || tiles == 4) && instr->i < 16, "no such fragment");
        expect(v, at, v->constant[weft_koperand(v->kernel, instr, 1)],
               "the first register must be constant or unrolled");
    }
}

static void check_copy(weft_kverify *v, weft_kval at, const weft_kinstr *instr) {
    expect(v, at, type_of(v, instr, 0).kind == WEFT_KIND_SHARED && type_of(v, instr, 2).kind == WEFT_KIND_BUFFER,
           "from a buffer to shared memory");
    expect(v, at, is_index(type_of(v, instr, 1)) && is_index(type_of(v, instr, 3)), "integer offset and index");
    expect(v, at, !present(v, instr, 4) || is_scalar_bool(type_of(v, instr, 4)), "the mask must be one bool");
    expect(v, at, instr->i == 4 || instr->i == 8 || instr->i == 16, "4, 8 or 16 bytes");
}

/* Known when the code is generated. */
static bool is_static(const weft_kverify *v, const weft_kinstr *instr) {
    if (instr->type.kind != WEFT_KIND_VALUE) return false;
    if (instr->op == WEFT_K_constant) return true;
    bool arithmetic =
        (instr->op >= WEFT_K_add && instr->op <= WEFT_K_abs) || (instr->op >= WEFT_K_eq && instr->op <= WEFT_K_convert);
    if (instr->op != WEFT_K_for && !arithmetic) return false;
    if (instr->op == WEFT_K_for && instr->i != -1) return false;
    for (int n = 0; n < instr->operand_count; n++)
        if (!v->constant[weft_koperand(v->kernel, instr, n)]) return false;
    return true;
}

void weft_kverify_types(weft_kverify *v, weft_kval at) {
    const weft_kinstr *instr = weft_kernel_get(v->kernel, at);
    v->constant[at] = is_static(v, instr);
    switch ((int)instr->op) {
    case WEFT_K_load: check_load(v, at, instr); break;
    case WEFT_K_store: check_store(v, at, instr); break;
    case WEFT_K_atomic: check_atomic(v, at, instr); break;
    case WEFT_K_prefetch:
        expect(v, at, is_memory(type_of(v, instr, 0)) && is_index(type_of(v, instr, 1)), "memory and an index");
        break;
    case WEFT_K_get:
    case WEFT_K_set: check_register(v, at, instr); break;
    case WEFT_K_copy_async: check_copy(v, at, instr); break;
    case WEFT_K_frag_load:
    case WEFT_K_frag_store:
    case WEFT_K_mma: check_matrix(v, at, instr); break;
    case WEFT_K_matrix_load:
    case WEFT_K_matrix_store: check_whole_matrix(v, at, instr); break;
    case WEFT_K_scalar_argument:
    case WEFT_K_buffer:
    case WEFT_K_tensor_map:
    case WEFT_K_shared:
    case WEFT_K_var:
    case WEFT_K_regs: check_object(v, at, instr); break;
    case WEFT_K_for:
    case WEFT_K_if:
    case WEFT_K_test:
    case WEFT_K_parameter:
    case WEFT_K_func_end:
    case WEFT_K_call: check_structure_types(v, at, instr); break;
    case WEFT_K_select:
    case WEFT_K_convert:
    case WEFT_K_bitcast:
    case WEFT_K_splat:
    case WEFT_K_iota:
    case WEFT_K_extract:
    case WEFT_K_insert:
    case WEFT_K_deal:
    case WEFT_K_zip:
    case WEFT_K_pack:
    case WEFT_K_unpack:
    case WEFT_K_shuffle_xor:
    case WEFT_K_warp_uniform:
    case WEFT_K_constant:
    case WEFT_K_thread:
    case WEFT_K_block:
    case WEFT_K_grid:
    case WEFT_K_cluster_rank: check_value(v, at, instr); break;
    default:
        if ((instr->op >= WEFT_K_add && instr->op <= WEFT_K_le) ||
            (instr->op >= WEFT_K_reduce_add && instr->op <= WEFT_K_reduce_or))
            check_arithmetic(v, at, instr);
        break;
    }
}
