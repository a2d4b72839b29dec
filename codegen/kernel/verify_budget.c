/* Budgets: what the target can hold and spell.

   Registers are an estimate from below: regs and vars between their first and last use, in 32-bit registers.
   Symbolic shared extents count with their upper bound. */
#include <string.h>

#include "codegen/kernel/verify_internal.h"

typedef struct spelling {
    const char *c, *llvm;
} spelling;

static const spelling spellings[WEFT_K_COUNT] = {
#define KERNEL_OP(id, operands, flags, c, llvm) {c, llvm},
#include "codegen/kernel/kernel_ops.def"
#undef KERNEL_OP
};

static bool is_cpu(const weft_kverify *v) { return strcmp(v->kernel->capability->target, "cpu") == 0; }

static void check_spelling(weft_kverify *v) {
    for (size_t n = 0; n < v->kernel->instr_count; n++) {
        const spelling *row = &spellings[v->kernel->instrs[n].op];
        if ((is_cpu(v) ? row->llvm : row->c)[0] == '!')
            weft_kverify_problem(v, (weft_kval)n, "has no spelling on %s", v->kernel->capability->target);
    }
}

static void check_shared(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    int limit = kernel->capability->shared_bytes;
    int64_t total = 0;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        if (instr->op == WEFT_K_mbarrier) total += 8 * instr->i;
        if (instr->op != WEFT_K_shared) continue;
        int64_t minimum, maximum, bytes;
        weft_dim_bounds(kernel->dims, instr->extent, &minimum, &maximum);
        if (maximum < 0 || __builtin_mul_overflow(maximum, weft_dtype_bits((weft_dtype)instr->type.elem) / 8, &bytes) ||
            __builtin_add_overflow(total, bytes, &total))
            total = INT64_MAX / 2;
    }
    if (limit > 0 && total > limit)
        weft_kverify_problem(v, WEFT_KNONE, "up to %lld bytes of shared memory, %d there are", (long long)total, limit);
}

static void check_bindings(weft_kverify *v) {
    int count = 0;
    for (size_t n = 0; n < v->kernel->argument_count; n++)
        count += v->kernel->arguments[n].source != WEFT_ARGUMENT_EXTENT;
    int limit = v->kernel->capability->bindings_max;
    if (limit > 0 && count > limit) weft_kverify_problem(v, WEFT_KNONE, "%d buffers, %d can be bound", count, limit);
}

static int64_t words(const weft_kinstr *instr) {
    int bits = instr->type.elem == WEFT_BOOL ? 1 : weft_dtype_bits((weft_dtype)instr->type.elem);
    int64_t one = ((int64_t)bits * instr->type.lanes + 31) / 32;
    return instr->op == WEFT_K_regs ? one * instr->i : one;
}

static bool is_loop(const weft_kinstr *instr) { return instr->op == WEFT_K_for || instr->op == WEFT_K_while; }

/* The outermost loop around `at` that the object made at `object` lives outside of: an access inside it may see what
   the turn before left. WEFT_KNONE: there is none. */
static int32_t loop_around(const weft_kverify *v, int32_t object, int32_t at) {
    int32_t loop = WEFT_KNONE;
    for (int32_t scope = v->opener[at]; scope >= 0 && scope != v->opener[object]; scope = v->opener[scope])
        if (is_loop(&v->kernel->instrs[scope])) loop = scope;
    return loop;
}

/* First and last instruction at which regs or a var hold something; first > last: never used. */
static void measure_life(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    int32_t *first = v->first, *last = v->last;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        first[n] = (int32_t)kernel->instr_count, last[n] = -1;
        if (kernel->instrs[n].op == WEFT_K_var) first[n] = last[n] = (int32_t)n; /* it has a value from the start */
    }
    for (size_t n = 0; n < kernel->instr_count; n++)
        for (int i = 0; i < kernel->instrs[n].operand_count; i++) {
            weft_kval object = weft_koperand(kernel, &kernel->instrs[n], i);
            if (object < 0 || (kernel->instrs[object].op != WEFT_K_regs && kernel->instrs[object].op != WEFT_K_var))
                continue;
            int32_t loop = loop_around(v, object, (int32_t)n), from = loop >= 0 ? loop : (int32_t)n,
                    to = loop >= 0 ? v->end[loop] : (int32_t)n;
            if (from < first[object]) first[object] = from;
            if (to > last[object]) last[object] = to;
        }
}

/* Registers of a thread at instruction `at`: of the role around it, or of the block. */
static int register_limit(const weft_kverify *v, int32_t at, int entry) {
    for (int32_t scope = v->opener[at]; scope >= 0; scope = v->opener[scope])
        if (v->kernel->instrs[scope].op == WEFT_K_role && v->kernel->instrs[scope].f > 0)
            return (int)v->kernel->instrs[scope].f;
    return entry;
}

static void check_registers(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    int file = kernel->capability->registers;
    if (file <= 0 || kernel->threads <= 0) return;
    int entry = kernel->registers ? kernel->registers : file / kernel->threads / 8 * 8;
    if (entry > 255) entry = 255;
    int64_t alive = 0;
    measure_life(v);
    for (size_t n = 0; n < kernel->instr_count; n++) {
        if (v->first[n] > v->last[n]) continue;
        v->change[v->first[n]] += words(&kernel->instrs[n]);
        v->change[v->last[n] + 1] -= words(&kernel->instrs[n]);
    }
    for (size_t n = 0; n < kernel->instr_count; n++) {
        alive += v->change[n];
        int limit = register_limit(v, (int32_t)n, entry);
        if (alive <= limit) continue;
        weft_kverify_problem(v, (weft_kval)n, "at least %lld registers a thread here, %d there are", (long long)alive,
                             limit);
        return;
    }
}

void weft_kverify_budget(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    if (kernel->threads < 1 || kernel->threads > kernel->capability->threads_max)
        weft_kverify_problem(v, WEFT_KNONE, "%d threads a block, up to %d are possible", kernel->threads,
                             kernel->capability->threads_max);
    if (kernel->cluster < 1) weft_kverify_problem(v, WEFT_KNONE, "a cluster of %d blocks", kernel->cluster);
    check_spelling(v);
    check_shared(v);
    check_bindings(v);
    check_registers(v);
}
