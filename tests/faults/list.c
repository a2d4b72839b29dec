/* The faults. Each finds its place in the kernels of a subject, or in its program, and changes it. See faults.h. */
#include "tests/faults/faults.h"

#include <math.h>
#include <string.h>

/* -- places in kernels */

typedef bool (*matcher)(const weft_kernel *k, const weft_kinstr *instr);

typedef struct place {
    weft_kernel *k;
    weft_kval at;
} place;

static bool find(subject *s, matcher matches, int number, place *out) {
    for (int i = 0; i < s->lowered.program->kernel_count; i++) {
        weft_kernel *k = s->lowered.kernels[i];
        for (size_t at = 0; at < k->instr_count; at++)
            if (matches(k, &k->instrs[at]) && number-- == 0) {
                *out = (place){k, (weft_kval)at};
                return true;
            }
    }
    return false;
}

static weft_kval operand(const place *p, int index) { return weft_koperand(p->k, weft_kernel_get(p->k, p->at), index); }

static void set_operand(const place *p, int index, weft_kval value) {
    p->k->operands[p->k->instrs[p->at].first_operand + index] = value;
}

static void swap_operands(const place *p, int a, int b) {
    weft_kval first = operand(p, a);
    set_operand(p, a, operand(p, b));
    set_operand(p, b, first);
}

/* An instruction that does nothing in the place of one without a value. */
static void erase(const place *p) {
    weft_kinstr *instr = &p->k->instrs[p->at];
    *instr = (weft_kinstr){.op = WEFT_K_constant, .type = weft_kvector(WEFT_I32, 1)};
}

/* Moves the last `count` instructions in front of `at`; every value keeps its meaning. The place moves with its
   instruction. */
static void weave(place *p, int count) {
    weft_kernel *k = p->k;
    size_t old = k->instr_count - (size_t)count, at = (size_t)p->at;
    weft_kinstr moved[8];
    ck_assert(count <= 8 && !k->failed);
    memcpy(moved, k->instrs + old, (size_t)count * sizeof *moved);
    memmove(k->instrs + at + count, k->instrs + at, (old - at) * sizeof *moved);
    memcpy(k->instrs + at, moved, (size_t)count * sizeof *moved);
    for (size_t i = 0; i < k->operand_count; i++) {
        weft_kval value = k->operands[i];
        if (value >= (weft_kval)old)
            k->operands[i] = value - (weft_kval)old + p->at;
        else if (value >= p->at)
            k->operands[i] = value + count;
    }
    p->at += count;
}

static weft_kval constant(weft_kernel *k, weft_ktype type, double number) {
    return weft_kernel_emit(k, WEFT_K_constant, type, 0, NULL, (int64_t)number, number);
}

/* Operand `index` becomes operand op number. */
static void change_operand(place *p, int index, weft_kop op, double number) {
    weft_kval old = operand(p, index);
    weft_ktype type = weft_ktype_of(p->k, old);
    weft_kval two[2] = {old, constant(p->k, type, number)};
    (void)weft_kernel_emit(p->k, op, type, 2, two, 0, 0);
    weave(p, 2);
    set_operand(p, index, p->at - 1);
}

static const weft_kinstr *constant_operand(const weft_kernel *k, const weft_kinstr *instr, int index) {
    const weft_kinstr *found = weft_kernel_get(k, weft_koperand(k, instr, index));
    while (found->op == WEFT_K_splat) found = weft_kernel_get(k, weft_koperand(k, found, 0));
    return found->op == WEFT_K_constant ? found : NULL;
}

static bool is_float(const weft_kinstr *instr) { return instr->type.elem == WEFT_F32; }
static bool is_index(const weft_kinstr *instr) {
    return instr->type.kind == WEFT_KIND_VALUE && (instr->type.elem == WEFT_I32 || instr->type.elem == WEFT_I64);
}

#define MATCH(name, condition)                                                                                         \
    static bool name(const weft_kernel *k, const weft_kinstr *instr) {                                                 \
        (void)k;                                                                                                       \
        return condition;                                                                                              \
    }
MATCH(is_barrier, instr->op == WEFT_K_barrier)
MATCH(is_bound, instr->op == WEFT_K_lt && weft_ktype_of(k, weft_koperand(k, instr, 0)).elem != WEFT_F32)
MATCH(is_float_comparison, instr->op == WEFT_K_lt && weft_ktype_of(k, weft_koperand(k, instr, 0)).elem == WEFT_F32)
MATCH(is_stride, instr->op == WEFT_K_mul && is_index(instr) && constant_operand(k, instr, 1))
MATCH(is_difference, (instr->op == WEFT_K_sub || instr->op == WEFT_K_div) && is_float(instr))
MATCH(is_masked, (instr->op == WEFT_K_load || instr->op == WEFT_K_store) && weft_koperand(k, instr, 2) != WEFT_KNONE)
MATCH(is_rounding, instr->op == WEFT_K_round)
MATCH(is_start, (instr->op == WEFT_K_var || instr->op == WEFT_K_set) &&
                    constant_operand(k, instr, instr->operand_count - 1) &&
                    weft_kernel_get(k, weft_koperand(k, instr, instr->operand_count - 1))->type.elem == WEFT_F32)
MATCH(is_store, instr->op == WEFT_K_store)
MATCH(is_load, instr->op == WEFT_K_load)
MATCH(is_select, instr->op == WEFT_K_select && is_float(instr))
MATCH(is_minimum, instr->op == WEFT_K_min && is_float(instr))
MATCH(is_maximum, (instr->op == WEFT_K_max || instr->op == WEFT_K_reduce_max) && is_float(instr))
MATCH(is_sum, instr->op == WEFT_K_add && is_float(instr))
MATCH(is_product, instr->op == WEFT_K_fma || instr->op == WEFT_K_mma)
MATCH(is_loop, instr->op == WEFT_K_for)
MATCH(is_thread, instr->op == WEFT_K_thread)
MATCH(is_block, instr->op == WEFT_K_block)
MATCH(is_shared, instr->op == WEFT_K_shared)
MATCH(is_remainder, (instr->op == WEFT_K_rem || instr->op == WEFT_K_div) && is_index(instr))

/* -- changes of kernels */

#define CHANGE(name, matches, ...)                                                                                     \
    static bool name(subject *s, int number) {                                                                         \
        place p;                                                                                                       \
        if (!find(s, matches, number, &p)) return false;                                                               \
        weft_kinstr *instr = &p.k->instrs[p.at];                                                                       \
        (void)instr;                                                                                                   \
        __VA_ARGS__                                                                                                    \
        return true;                                                                                                   \
    }
CHANGE(drop_barrier, is_barrier, erase(&p);)
CHANGE(widen_bound, is_bound, instr->op = WEFT_K_le;)
CHANGE(turn_comparison, is_float_comparison, swap_operands(&p, 0, 1);)
CHANGE(lengthen_stride, is_stride, change_operand(&p, 1, WEFT_K_add, 1);)
CHANGE(swap_terms, is_difference, swap_operands(&p, 0, 1);)
CHANGE(drop_mask, is_masked, set_operand(&p, 2, WEFT_KNONE);)
CHANGE(round_down, is_rounding, instr->op = WEFT_K_trunc;)
CHANGE(start_wrong, is_start, change_operand(&p, instr->operand_count - 1, WEFT_K_max, 1);)
CHANGE(drop_store, is_store, erase(&p);)
CHANGE(load_next, is_load, change_operand(&p, 1, WEFT_K_add, 1);)
CHANGE(store_next, is_store, change_operand(&p, 1, WEFT_K_add, 1);)
CHANGE(swap_branches, is_select, swap_operands(&p, 1, 2);)
CHANGE(turn_minimum, is_minimum, instr->op = WEFT_K_max;)
CHANGE(turn_maximum, is_maximum, instr->op = instr->op == WEFT_K_max ? WEFT_K_min : WEFT_K_reduce_min;)
CHANGE(subtract, is_sum, instr->op = WEFT_K_sub;)
CHANGE(
    swap_summand, is_product, if (instr->op == WEFT_K_fma) swap_operands(&p, 1, 2);
    else { /* of a matrix unit: its two factors, arrays and places */
           swap_operands(&p, 2, 4);
           swap_operands(&p, 3, 5);
    })
CHANGE(skip_steps, is_loop, change_operand(&p, 2, WEFT_K_mul, 2);)
CHANGE(end_early, is_loop, change_operand(&p, 1, WEFT_K_sub, 1);)
CHANGE(start_late, is_loop, change_operand(&p, 0, WEFT_K_add, 1);)
CHANGE(take_block, is_thread, instr->op = WEFT_K_block;)
CHANGE(take_thread, is_block, instr->op = WEFT_K_thread;)
CHANGE(divide_wrong, is_remainder, instr->op = instr->op == WEFT_K_rem ? WEFT_K_div : WEFT_K_rem;)
CHANGE(share_too_much, is_shared, instr->extent *= 10000;)

/* The barrier stands in a branch that half of the threads take. */
static bool diverge(subject *s, int number) {
    place p;
    if (!find(s, is_barrier, number, &p)) return false;
    weft_kernel *k = p.k;
    weft_ktype index = weft_kvector(k->capability->index_dtype, 1), none = {WEFT_KIND_VOID, 0, 0};
    weft_kval two[2] = {weft_kernel_emit(k, WEFT_K_thread, index, 0, NULL, 0, 0), constant(k, index, k->threads / 2)};
    weft_kval half = weft_kernel_emit(k, WEFT_K_lt, weft_kvector(WEFT_BOOL, 1), 2, two, 0, 0);
    (void)weft_kernel_emit(k, WEFT_K_if, none, 1, &half, 0, 0);
    weave(&p, 4);
    p.at++; /* behind the barrier */
    (void)weft_kernel_emit(k, WEFT_K_end, none, 0, NULL, 0, 0);
    weave(&p, 1);
    return true;
}

static bool enlarge_block(subject *s, int number) {
    if (number >= s->lowered.program->kernel_count) return false;
    s->lowered.kernels[number]->threads = 4096;
    return true;
}

static bool change_nothing(subject *s, int number) {
    (void)s;
    return number == 0;
}

/* -- changes of the program */

/* Launch `number`, all of its variants open to changes. */
static weft_step *launch(subject *s, int number) {
    for (int region = 0; region < s->lowered.program->region_count; region++)
        for (int i = 0; i < s->lowered.program->regions[region].count; i++) {
            const weft_step *step = &s->lowered.program->regions[region].steps[i];
            if (step->kind == WEFT_STEP_LAUNCH && number-- == 0) return (weft_step *)(uintptr_t)step;
        }
    return NULL;
}

#define VARIANTS(step, v)                                                                                              \
    for (weft_launch_variant *v = (weft_launch_variant *)(uintptr_t)(step)->variants,                                  \
                             *v##_end = v + (step)->variant_count;                                                     \
         v < v##_end; v++)

static bool swap_buffers(subject *s, int number) {
    weft_step *step = launch(s, number);
    if (!step) return false;
    VARIANTS(step, v)
    if (v->buffer_count > 1) {
        int *buffers = (int *)(uintptr_t)v->buffers, first = buffers[0];
        buffers[0] = buffers[1];
        buffers[1] = first;
    }
    return true;
}

static weft_dim less(subject *s, weft_dim extent, int by) {
    weft_dim_table *dims = s->lowered.program->dims;
    return weft_dim_add(dims, extent, weft_dim_number(dims, by));
}

static bool change_extents(subject *s, int number, int by, bool fixed) {
    weft_step *step = launch(s, number);
    if (!step) return false;
    VARIANTS(step, v)
    for (int i = 0; i < v->extent_count; i++) {
        weft_dim *extent = &((weft_dim *)(uintptr_t)v->extents)[i];
        *extent = fixed ? (23 + by) * 70 : less(s, *extent, by);
    }
    return true;
}
static bool shorten_extents(subject *s, int number) { return change_extents(s, number, -8, false); }
static bool keep_extents(subject *s, int number) { return change_extents(s, number, -9, true); }

static bool shorten_grid(subject *s, int number) {
    weft_step *step = launch(s, number);
    if (!step) return false;
    VARIANTS(step, v) v->grid = less(s, v->grid, -1);
    return true;
}

static bool enlarge_grid(subject *s, int number) {
    weft_step *step = launch(s, number);
    if (!step) return false;
    VARIANTS(step, v) v->grid = (weft_dim)1 << 45;
    return true;
}

static bool truncate_code(subject *s, int number) {
    s->truncated = true;
    return number == 0;
}

const fault faults[] = {{"no fault", POINTWISE, change_nothing, false},
                        {"no fault", SOFTMAX, change_nothing, false},
                        {"no fault", MATMUL, change_nothing, false},
                        {"no fault", SUMS, change_nothing, false},
                        {"no fault", MAXIMA, change_nothing, false},
                        {"no fault", SYMBOLIC, change_nothing, false},
                        {"a dropped barrier", MATMUL, drop_barrier, false},
                        {"a barrier that half of the threads reach", MATMUL, diverge, false},
                        {"a bound that lets one too many in", MATMUL, widen_bound, false},
                        {"a missing mask", MATMUL, drop_mask, false},
                        {"a stride one too long", MATMUL, lengthen_stride, false},
                        {"the terms of a difference swapped", POINTWISE, swap_terms, false},
                        {"a comparison the wrong way round", POINTWISE, turn_comparison, false},
                        {"the branches of a select swapped", POINTWISE, swap_branches, false},
                        {"the larger for the smaller", POINTWISE, turn_minimum, false},
                        {"rounding towards zero", POINTWISE, round_down, false},
                        {"the smaller for the larger", MAXIMA, turn_maximum, false},
                        {"a sum that does not start at nothing", MATMUL, start_wrong, false},
                        {"a difference for a sum", SOFTMAX, subtract, false},
                        {"the operands of a product swapped", MATMUL, swap_summand, false},
                        {"a store that is not there", POINTWISE, drop_store, false},
                        {"a load one element off", POINTWISE, load_next, false},
                        {"a store one element off", POINTWISE, store_next, false},
                        {"every other step of a loop", MATMUL, skip_steps, false},
                        {"a loop that ends one step early", MATMUL, end_early, false},
                        {"a loop that starts one step late", MATMUL, start_late, false},
                        {"remainder for quotient", MATMUL, divide_wrong, false},
                        {"the block's number for the thread's", POINTWISE, take_block, false},
                        {"the thread's number for the block's", POINTWISE, take_thread, false},
                        {"more threads than a block holds", MATMUL, enlarge_block, false},
                        {"more shared memory than a block has", MATMUL, share_too_much, false},
                        {"buffers bound in the wrong order", SUMS, swap_buffers, true},
                        {"an extent too small", SYMBOLIC, shorten_extents, true},
                        {"the extents of an earlier shape", SYMBOLIC, keep_extents, true},
                        {"a grid one block too small", POINTWISE, shorten_grid, true},
                        {"a grid beyond every limit", POINTWISE, enlarge_grid, true},
                        {"half of the code", POINTWISE, truncate_code, true},
                        {0}};
