/* Which threads agree on a value and on the path to an instruction; barriers and matrix rows need that.

   A forward data-flow over three levels below "all threads of the block": the warpgroup (128 threads), the warp,
   nothing. Vars and regs lower their level with every set, so passes repeat until nothing changes; levels only fall, so
   they end. */
#include <string.h>

#include "codegen/kernel/verify_internal.h"

static uint8_t lower(uint8_t a, uint8_t b) { return a < b ? a : b; }

static uint8_t of_operand(const weft_kverify *v, const weft_kinstr *instr, int n) {
    weft_kval operand = weft_koperand(v->kernel, instr, n);
    return operand == WEFT_KNONE ? WEFT_UNIFORM_BLOCK : v->uniformity[operand];
}

/* thread >> 7, thread / 128, thread >> 5 ... are equal in warpgroups or warps. */
static uint8_t of_thread_part(const weft_kverify *v, const weft_kinstr *instr) {
    const weft_kinstr *left = weft_kernel_get(v->kernel, weft_koperand(v->kernel, instr, 0));
    const weft_kinstr *right = weft_kernel_get(v->kernel, weft_koperand(v->kernel, instr, 1));
    if (left->op != WEFT_K_thread || right->op != WEFT_K_constant) return WEFT_UNIFORM_NOT;
    int64_t divisor = instr->op == WEFT_K_shr ? (right->i < 32 ? INT64_C(1) << right->i : 0) : right->i;
    if (divisor <= 0) return WEFT_UNIFORM_NOT;
    if (divisor % 128 == 0) return WEFT_UNIFORM_WARPGROUP;
    int warp = v->kernel->capability->warp;
    return warp > 0 && divisor % warp == 0 ? WEFT_UNIFORM_WARP : WEFT_UNIFORM_NOT;
}

static uint8_t of_value(const weft_kverify *v, const weft_kinstr *instr, uint8_t control) {
    uint8_t level = WEFT_UNIFORM_BLOCK;
    for (int n = 0; n < instr->operand_count; n++) level = lower(level, of_operand(v, instr, n));
    switch ((int)instr->op) {
    case WEFT_K_thread: return v->kernel->threads == 1 ? WEFT_UNIFORM_BLOCK : WEFT_UNIFORM_NOT;
    case WEFT_K_shr:
    case WEFT_K_div: {
        uint8_t part = of_thread_part(v, instr);
        return level > part ? level : part;
    }
    case WEFT_K_warp_uniform: return level > WEFT_UNIFORM_WARP ? level : WEFT_UNIFORM_WARP;
    case WEFT_K_for: return lower(level, control);
    case WEFT_K_parameter: return WEFT_UNIFORM_NOT;
    case WEFT_K_atomic: return WEFT_UNIFORM_NOT;
    default: return level;
    }
}

/* The level of the path into a nest: of its condition, in the path around it. Tests of a while come later in the text:
   their level of the pass before is used. */
static uint8_t path_into(const weft_kverify *v, int32_t opener) {
    const weft_kinstr *instr = weft_kernel_get(v->kernel, opener);
    uint8_t level = v->control[opener];
    switch ((int)instr->op) {
    case WEFT_K_if: return lower(level, of_operand(v, instr, 0));
    case WEFT_K_else: return v->path[v->branch[opener]];
    case WEFT_K_for:
        return lower(level, lower(of_operand(v, instr, 0), lower(of_operand(v, instr, 1), of_operand(v, instr, 2))));
    case WEFT_K_role: return lower(level, WEFT_UNIFORM_WARPGROUP);
    case WEFT_K_while:
        for (int32_t n = opener + 1; n < v->end[opener]; n++) {
            const weft_kinstr *test = weft_kernel_get(v->kernel, n);
            if (test->op == WEFT_K_test && v->opener[n] == opener) level = lower(level, of_operand(v, test, 0));
        }
        return level;
    default: return level;
    }
}

static bool pass(weft_kverify *v) {
    bool changed = false;
    for (size_t n = 0; n < v->kernel->instr_count; n++) {
        const weft_kinstr *instr = &v->kernel->instrs[n];
        uint8_t control = v->opener[n] < 0 ? WEFT_UNIFORM_BLOCK : v->path[v->opener[n]];
        changed |= control != v->control[n];
        v->control[n] = control;
        if (v->end[n]) v->path[n] = path_into(v, (int32_t)n);
        if (instr->op == WEFT_K_set) {
            weft_kval object = weft_koperand(v->kernel, instr, 0);
            uint8_t level = lower(v->uniformity[object], lower(of_operand(v, instr, 2), control));
            changed |= level != v->uniformity[object];
            v->uniformity[object] = level;
        } else if (instr->op != WEFT_K_regs && instr->op != WEFT_K_var) {
            uint8_t level = lower(v->uniformity[n], of_value(v, instr, control));
            changed |= level != v->uniformity[n];
            v->uniformity[n] = level;
        } else if (instr->op == WEFT_K_var) {
            uint8_t level = lower(v->uniformity[n], of_operand(v, instr, 0));
            changed |= level != v->uniformity[n];
            v->uniformity[n] = level;
        }
    }
    return changed;
}

static uint8_t needed(weft_kop op) {
    switch ((int)op) {
    case WEFT_K_barrier: return WEFT_UNIFORM_BLOCK;
    case WEFT_K_cluster_sync: return WEFT_UNIFORM_BLOCK;
    case WEFT_K_role: return WEFT_UNIFORM_BLOCK;
    case WEFT_K_mma_fence:
    case WEFT_K_mma_async:
    case WEFT_K_mma_commit:
    case WEFT_K_mma_wait: return WEFT_UNIFORM_WARPGROUP;
    case WEFT_K_shuffle_xor:
    case WEFT_K_frag_load:
    case WEFT_K_frag_store:
    case WEFT_K_mma:
    case WEFT_K_matrix_load:
    case WEFT_K_matrix_store:
    case WEFT_K_warp_sync: return WEFT_UNIFORM_WARP;
    default: return WEFT_UNIFORM_NOT;
    }
}

void weft_kverify_uniform(weft_kverify *v) {
    static const char *const names[] = {"", "a warp", "a warpgroup", "the block"};
    memset(v->uniformity, WEFT_UNIFORM_BLOCK, v->kernel->instr_count);
    memset(v->path, WEFT_UNIFORM_BLOCK, v->kernel->instr_count);
    memset(v->control, WEFT_UNIFORM_BLOCK, v->kernel->instr_count);
    while (pass(v)) {}
    for (size_t n = 0; n < v->kernel->instr_count; n++) {
        uint8_t level = needed((weft_kop)v->kernel->instrs[n].op);
        if (level > v->control[n])
            weft_kverify_problem(v, (weft_kval)n, "the threads of %s may not get here together", names[level]);
    }
}
