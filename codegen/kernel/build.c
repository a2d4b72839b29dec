/* Short constructors for kernel IR.

   Invariant: every value comes back with the type the op table promises; scalars beside vectors are splat; what folds
   is not emitted. Wrong element types are passed on as they are: the verifier names the instruction. Read next: fold.c,
   verify.c. */
#include "codegen/kernel/build.h"

#include <math.h>

#include "codegen/kernel/fold.h"
#include "codegen/kernel/scalar.h"

static const weft_ktype type_void = {WEFT_KIND_VOID, 0, 0};

static weft_kval emit0(weft_kernel *k, weft_kop op, weft_ktype type, int64_t i) {
    return weft_kernel_emit(k, op, type, 0, NULL, i, 0);
}

static int lanes_of(const weft_kernel *k, weft_kval value) { return weft_ktype_of(k, value).lanes; }
static weft_dtype elem_of(const weft_kernel *k, weft_kval value) { return (weft_dtype)weft_ktype_of(k, value).elem; }

/* -- constants */

weft_kval weft_k_integer(weft_kernel *k, weft_dtype elem, int64_t value) {
    if (weft_dtype_is_float(elem)) return weft_k_float(k, elem, (double)value);
    return emit0(k, WEFT_K_constant, weft_kvector(elem, 1), weft_kscalar_wrap(elem, value));
}

weft_kval weft_k_float(weft_kernel *k, weft_dtype elem, double value) {
    return weft_k_constant_lanes(k, elem, value, 1);
}

weft_kval weft_k_constant_lanes(weft_kernel *k, weft_dtype elem, double value, int lanes) {
    weft_ktype type = weft_kvector(elem, lanes);
    if (!weft_dtype_is_float(elem)) {
        bool big = value >= 9223372036854775808.0; /* of U64 */
        int64_t integer = big ? (int64_t)(uint64_t)value : (int64_t)value;
        return emit0(k, WEFT_K_constant, type, weft_kscalar_wrap(elem, integer));
    }
    if (elem == WEFT_F32)
        value = (double)(float)value;
    else if (elem != WEFT_F64)
        value = weft_float_decode(elem, weft_float_encode(elem, value, false));
    return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, 0, value);
}

bool weft_k_is_constant(const weft_kernel *k, weft_kval value, int64_t *out_value) {
    const weft_kinstr *instr = weft_kfold_constant(k, value);
    if (!instr || weft_dtype_is_float((weft_dtype)instr->type.elem)) return false;
    if (out_value) *out_value = instr->i;
    return true;
}

weft_kval weft_k_extent(weft_kernel *k, weft_dim extent) {
    weft_dtype index = k->capability->index_dtype;
    if (weft_dim_is_number(extent)) return weft_k_integer(k, index, extent);
    if (extent == WEFT_DIM_INVALID) {
        k->failed = true;
        return 0;
    }
    int argument = -1;
    for (size_t n = 0; n < k->argument_count && argument < 0; n++)
        if (k->arguments[n].source == WEFT_ARGUMENT_EXTENT &&
            weft_dim_known_equal(k->dims, k->arguments[n].extent, extent))
            argument = (int)n;
    if (argument < 0)
        argument = weft_kernel_argument(
            k, (weft_kargument){.source = WEFT_ARGUMENT_EXTENT, .extent = extent, .dtype = index, .reads = true});
    return emit0(k, WEFT_K_scalar_argument, weft_kvector(index, 1), argument);
}

/* -- arithmetic */

weft_kval weft_k_splat(weft_kernel *k, weft_kval a, int lanes) {
    weft_ktype type = weft_ktype_of(k, a);
    if (type.lanes == lanes) return a;
    type.lanes = (uint16_t)lanes;
    const weft_kinstr *constant = weft_kfold_constant(k, a);
    if (constant) return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, constant->i, constant->f);
    return weft_kernel_emit(k, WEFT_K_splat, type, 1, &a, 0, 0);
}

/* Brings two operands to the lanes of the wider one. */
static int match_lanes(weft_kernel *k, weft_kval *a, weft_kval *b) {
    int la = lanes_of(k, *a), lb = lanes_of(k, *b);
    if (la == 1 && lb > 1) *a = weft_k_splat(k, *a, lb);
    if (lb == 1 && la > 1) *b = weft_k_splat(k, *b, la);
    return la > lb ? la : lb;
}

weft_kval weft_k_unary(weft_kernel *k, weft_kop op, weft_kval a) {
    weft_kval folded = weft_kfold_unary(k, op, a);
    return folded != WEFT_KNONE ? folded : weft_kernel_emit(k, op, weft_ktype_of(k, a), 1, &a, 0, 0);
}

weft_kval weft_k_binary(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b) {
    int lanes = match_lanes(k, &a, &b);
    weft_kval folded = weft_kfold_binary(k, op, a, b);
    if (folded != WEFT_KNONE) return folded;
    bool compares = op == WEFT_K_eq || op == WEFT_K_ne || op == WEFT_K_lt || op == WEFT_K_le;
    return weft_kernel_emit(k, op, weft_kvector(compares ? WEFT_BOOL : elem_of(k, a), lanes), 2, (weft_kval[]){a, b}, 0,
                            0);
}

static weft_kval multiply_add(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c, int64_t loose) {
    int lanes = match_lanes(k, &a, &b);
    lanes = lanes > lanes_of(k, c) ? lanes : lanes_of(k, c);
    weft_kval operands[3] = {weft_k_splat(k, a, lanes), weft_k_splat(k, b, lanes), weft_k_splat(k, c, lanes)};
    return weft_kernel_emit(k, WEFT_K_fma, weft_kvector(elem_of(k, a), lanes), 3, operands, loose, 0);
}

weft_kval weft_k_fma(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c) { return multiply_add(k, a, b, c, 0); }
weft_kval weft_k_mad(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c) { return multiply_add(k, a, b, c, 1); }

weft_kval weft_k_select(weft_kernel *k, weft_kval mask, weft_kval a, weft_kval b) {
    int mask_lanes = lanes_of(k, mask);
    match_lanes(k, &a, &b);
    if (mask_lanes > 1) {
        a = weft_k_splat(k, a, mask_lanes);
        b = weft_k_splat(k, b, mask_lanes);
    }
    int64_t truth;
    if (a == b) return a;
    if (weft_k_is_constant(k, mask, &truth)) return truth ? a : b;
    return weft_kernel_emit(k, WEFT_K_select, weft_ktype_of(k, a), 3, (weft_kval[]){mask, a, b}, 0, 0);
}

weft_kval weft_k_convert(weft_kernel *k, weft_kval a, weft_dtype elem) {
    if (elem_of(k, a) == elem) return a;
    const weft_kinstr *instr = weft_kernel_get(k, a); /* widened and narrowed again: what it was */
    bool widened = instr->op == WEFT_K_convert && instr->type.elem == WEFT_F32 && weft_dtype_is_float(elem) &&
                   weft_dtype_bits(elem) < 32;
    if (widened && elem_of(k, weft_koperand(k, instr, 0)) == elem) return weft_koperand(k, instr, 0);
    weft_kval folded = weft_kfold_convert(k, a, elem);
    return folded != WEFT_KNONE ? folded
                                : weft_kernel_emit(k, WEFT_K_convert, weft_kvector(elem, lanes_of(k, a)), 1, &a, 0, 0);
}

weft_kval weft_k_bitcast(weft_kernel *k, weft_kval a, weft_dtype elem) {
    if (elem_of(k, a) == elem) return a;
    weft_kval folded = weft_kfold_bitcast(k, a, elem);
    return folded != WEFT_KNONE ? folded
                                : weft_kernel_emit(k, WEFT_K_bitcast, weft_kvector(elem, lanes_of(k, a)), 1, &a, 0, 0);
}

weft_kval weft_k_iota(weft_kernel *k, weft_dtype elem, int lanes) {
    return lanes == 1 ? weft_k_integer(k, elem, 0) : emit0(k, WEFT_K_iota, weft_kvector(elem, lanes), 0);
}

weft_kval weft_k_extract(weft_kernel *k, weft_kval vector, int lane) {
    const weft_kinstr *instr = weft_kernel_get(k, vector);
    weft_ktype type = instr->type;
    if (type.lanes == 1) return vector;
    type.lanes = 1;
    if (instr->op == WEFT_K_constant) return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, instr->i, instr->f);
    if (instr->op == WEFT_K_splat) return weft_koperand(k, instr, 0);
    if (instr->op == WEFT_K_iota) return weft_k_integer(k, (weft_dtype)type.elem, lane);
    return weft_kernel_emit(k, WEFT_K_extract, type, 1, &vector, lane, 0);
}

weft_kval weft_k_insert(weft_kernel *k, weft_kval vector, int lane, weft_kval scalar) {
    weft_ktype type = weft_ktype_of(k, vector);
    if (type.lanes == 1) return scalar;
    return weft_kernel_emit(k, WEFT_K_insert, type, 2, (weft_kval[]){vector, scalar}, lane, 0);
}

weft_kval weft_k_deal(weft_kernel *k, weft_kval a, weft_kval b, int odd) {
    weft_ktype type = weft_ktype_of(k, a);
    if (type.lanes == 1) return odd ? b : a;
    return weft_kernel_emit(k, WEFT_K_deal, type, 2, (weft_kval[]){a, b}, odd, 0);
}

weft_kval weft_k_zip(weft_kernel *k, weft_kval a, weft_kval b, int high) {
    weft_ktype type = weft_ktype_of(k, a);
    if (type.lanes == 1) return high ? b : a;
    return weft_kernel_emit(k, WEFT_K_zip, type, 2, (weft_kval[]){a, b}, high, 0);
}

weft_kval weft_k_reduce(weft_kernel *k, weft_kop op, weft_kval vector) {
    weft_ktype type = weft_ktype_of(k, vector);
    if (type.lanes == 1) return vector;
    type.lanes = 1;
    return weft_kernel_emit(k, op, type, 1, &vector, 0, 0);
}

/* -- memory */

/* A mask for `lanes`, or WEFT_KNONE when it is known to be all true; *out_never when it is known to be false. */
static weft_kval normalise_mask(weft_kernel *k, weft_kval mask, int lanes, bool *out_never) {
    *out_never = false;
    int64_t truth;
    if (mask == WEFT_KNONE) return mask;
    if (weft_k_is_constant(k, mask, &truth)) {
        *out_never = !truth;
        return WEFT_KNONE;
    }
    return weft_k_splat(k, mask, lanes);
}

weft_kval weft_k_load(weft_kernel *k, weft_kval memory, weft_kval index, int lanes, weft_kval mask, weft_kval other) {
    weft_dtype elem = elem_of(k, memory);
    if (lanes_of(k, index) > 1) lanes = lanes_of(k, index);
    bool never;
    mask = normalise_mask(k, mask, lanes, &never);
    if (mask != WEFT_KNONE || never)
        other = other == WEFT_KNONE ? weft_k_constant_lanes(k, elem, 0, lanes) : weft_k_splat(k, other, lanes);
    if (never) return other;
    if (mask == WEFT_KNONE) other = WEFT_KNONE;
    return weft_kernel_emit(k, WEFT_K_load, weft_kvector(elem, lanes), 4, (weft_kval[]){memory, index, mask, other}, 0,
                            0);
}

void weft_k_store(weft_kernel *k, weft_kval memory, weft_kval index, weft_kval mask, weft_kval value) {
    if (lanes_of(k, index) > 1) value = weft_k_splat(k, value, lanes_of(k, index));
    bool never;
    mask = normalise_mask(k, mask, lanes_of(k, value), &never);
    if (never) return;
    weft_kernel_emit(k, WEFT_K_store, type_void, 4, (weft_kval[]){memory, index, mask, value}, 0, 0);
}

void weft_k_prefetch(weft_kernel *k, weft_kval memory, weft_kval index, int locality, bool write) {
    weft_kernel_emit(k, WEFT_K_prefetch, type_void, 2, (weft_kval[]){memory, index}, locality + (write ? 4 : 0), 0);
}

weft_kval weft_k_shared(weft_kernel *k, weft_dtype elem, weft_dim extent) {
    if (!weft_dim_is_number(extent)) { /* who lays shared memory out reads the extent from an argument */
        weft_kval argument = weft_k_extent(k, extent);
        if (!k->failed) extent = k->arguments[k->instrs[argument].i].extent;
    }
    weft_kval value = emit0(k, WEFT_K_shared, (weft_ktype){WEFT_KIND_SHARED, (uint8_t)elem, 1}, 0);
    if (!k->failed) k->instrs[value].extent = extent;
    return value;
}

weft_kval weft_k_var(weft_kernel *k, weft_kval initial) {
    weft_ktype type = weft_ktype_of(k, initial);
    type.kind = WEFT_KIND_VAR;
    return weft_kernel_emit(k, WEFT_K_var, type, 1, &initial, 0, 0);
}

weft_kval weft_k_regs(weft_kernel *k, weft_dtype elem, int lanes, int count) {
    return emit0(k, WEFT_K_regs, (weft_ktype){WEFT_KIND_REGS, (uint8_t)elem, (uint16_t)lanes}, count);
}

weft_kval weft_k_get(weft_kernel *k, weft_kval var) { return weft_k_get_at(k, var, WEFT_KNONE); }
void weft_k_set(weft_kernel *k, weft_kval var, weft_kval value) { weft_k_set_at(k, var, WEFT_KNONE, value); }

weft_kval weft_k_get_at(weft_kernel *k, weft_kval regs, weft_kval index) {
    weft_ktype type = weft_ktype_of(k, regs);
    type.kind = WEFT_KIND_VALUE;
    return weft_kernel_emit(k, WEFT_K_get, type, 2, (weft_kval[]){regs, index}, 0, 0);
}

void weft_k_set_at(weft_kernel *k, weft_kval regs, weft_kval index, weft_kval value) {
    value = weft_k_splat(k, value, lanes_of(k, regs));
    weft_kernel_emit(k, WEFT_K_set, type_void, 3, (weft_kval[]){regs, index, value}, 0, 0);
}

/* -- structure and threads */

weft_kval weft_k_for(weft_kernel *k, weft_kval lo, weft_kval hi, weft_kval step, int unroll) {
    return weft_kernel_emit(k, WEFT_K_for, weft_ktype_of(k, lo), 3, (weft_kval[]){lo, hi, step}, unroll, 0);
}

void weft_k_if(weft_kernel *k, weft_kval condition) { weft_kernel_emit(k, WEFT_K_if, type_void, 1, &condition, 0, 0); }
void weft_k_else(weft_kernel *k) { emit0(k, WEFT_K_else, type_void, 0); }
void weft_k_while(weft_kernel *k) { emit0(k, WEFT_K_while, type_void, 0); }
void weft_k_test(weft_kernel *k, weft_kval condition) {
    weft_kernel_emit(k, WEFT_K_test, type_void, 1, &condition, 0, 0);
}
void weft_k_end(weft_kernel *k) { emit0(k, WEFT_K_end, type_void, 0); }

weft_kval weft_k_thread(weft_kernel *k) {
    return emit0(k, WEFT_K_thread, weft_kvector(k->capability->index_dtype, 1), 0);
}
weft_kval weft_k_block(weft_kernel *k) {
    return emit0(k, WEFT_K_block, weft_kvector(k->capability->index_dtype, 1), 0);
}
void weft_k_barrier(weft_kernel *k) { emit0(k, WEFT_K_barrier, type_void, 0); }

weft_kval weft_k_shuffle_xor(weft_kernel *k, weft_kval value, int distance) {
    return weft_kernel_emit(k, WEFT_K_shuffle_xor, weft_ktype_of(k, value), 1, &value, distance, 0);
}
