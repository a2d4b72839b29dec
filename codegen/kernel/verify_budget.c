/* Budgets: what the target can hold and spell.

   Registers are an estimate from below: regs and vars that are alive across the whole nest, in 32-bit registers.
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

/* Regs and vars of a nest are alive together with those of the nests around it; a role may have its own limit. */
static void check_registers(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    int file = kernel->capability->registers;
    if (file <= 0 || kernel->threads <= 0) return;
    int entry = kernel->registers ? kernel->registers : file / kernel->threads / 8 * 8;
    if (entry > 255) entry = 255;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        const weft_kinstr *instr = &kernel->instrs[n];
        if (instr->op != WEFT_K_regs && instr->op != WEFT_K_var) continue;
        int32_t scope = v->opener[n];
        int64_t alive = (scope >= 0 ? v->alive[scope] : v->alive_outside) + words(instr);
        if (scope >= 0)
            v->alive[scope] = alive;
        else
            v->alive_outside = alive;
        int limit = entry;
        for (; scope >= 0; scope = v->opener[scope]) {
            if (v->opener[scope] >= 0)
                alive += v->alive[v->opener[scope]];
            else
                alive += v->alive_outside;
            if (kernel->instrs[scope].op == WEFT_K_role && kernel->instrs[scope].f > 0)
                limit = (int)kernel->instrs[scope].f;
        }
        if (alive <= limit) continue;
        weft_kverify_problem(v, (weft_kval)n, "at least %lld registers a thread with this, %d there are",
                             (long long)alive, limit);
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
