/* The verifier: structure and visibility here, then types, uniformity and budgets.

   A value is visible in the nest that defines it and in nests inside; a func sees its parameters and its own values
   only. Structure is checked first, since everything else stands on it. Every problem is one line; the status has them
   all (the first fifty in words). Read next: verify_types.c. */
#include "codegen/kernel/verify.h"

#include "codegen/kernel/verify_internal.h"

enum { PROBLEMS_SHOWN = 50 };

void weft_kverify_problem(weft_kverify *v, weft_kval value, const char *format, ...) {
    if (v->problem_count++ >= PROBLEMS_SHOWN) return;
    if (value == WEFT_KNONE)
        weft_text_append(&v->text, "\n  ");
    else
        weft_text_append(&v->text, "\n  %%%d %s: ", value,
                         weft_kop_name((weft_kop)weft_kernel_get(v->kernel, value)->op));
    va_list arguments;
    va_start(arguments, format);
    weft_text_append_list(&v->text, format, arguments);
    va_end(arguments);
}

static const weft_kinstr *instr_at(const weft_kverify *v, weft_kval value) { return weft_kernel_get(v->kernel, value); }
static bool is_op(const weft_kverify *v, int32_t value, weft_kop op) {
    return value >= 0 && instr_at(v, value)->op == op;
}

/* Nests: opener of every instruction, end of every opener. A branch (else, further role) counts as an opener of its own
   whose parent is the nest's parent, so values of one branch are not visible in the next. false: too broken to go on.
 */
static bool check_structure(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    int32_t open = -1;
    bool func_allowed = true;
    for (size_t n = 0; n < kernel->instr_count; n++) {
        weft_kval at = (weft_kval)n;
        weft_kop op = (weft_kop)kernel->instrs[n].op;
        v->opener[n] = open;
        bool further_role = op == WEFT_K_role && is_op(v, open, WEFT_K_role);
        bool closes = op == WEFT_K_end || op == WEFT_K_func_end || op == WEFT_K_else || further_role;
        if (closes) {
            bool inside_func = is_op(v, open, WEFT_K_func);
            bool fits =
                open >= 0 && inside_func == (op == WEFT_K_func_end) && (op != WEFT_K_else || is_op(v, open, WEFT_K_if));
            if (!fits) {
                weft_kverify_problem(v, at, "closes no nest of its kind");
                return false;
            }
            v->end[open] = at;
            v->branch[n] = open;
            if (op != WEFT_K_func_end) v->opener[n] = v->opener[open]; /* func_end sees the values inside */
            open = v->opener[open];
        }
        if (op == WEFT_K_func && (open >= 0 || !func_allowed))
            weft_kverify_problem(v, at, "a func must come before all other structure");
        bool opens = op == WEFT_K_for || op == WEFT_K_if || op == WEFT_K_else || op == WEFT_K_while ||
                     op == WEFT_K_role || op == WEFT_K_func;
        if (opens && op != WEFT_K_func && (open < 0 || !is_op(v, open, WEFT_K_func))) {
            int32_t outer = open;
            while (outer >= 0 && !is_op(v, outer, WEFT_K_func)) outer = v->opener[outer];
            if (outer < 0) func_allowed = false;
        }
        if (op == WEFT_K_test && !is_op(v, open, WEFT_K_while))
            weft_kverify_problem(v, at, "not directly inside a while");
        if (op == WEFT_K_role && v->opener[n] >= 0) weft_kverify_problem(v, at, "roles cannot be nested");
        if (opens) open = at;
    }
    if (open >= 0) {
        weft_kverify_problem(v, open, "never closed");
        return false;
    }
    return true;
}

static bool optional_operand(weft_kop op, int n) {
    switch ((int)op) {
    case WEFT_K_load: return n == 2 || n == 3;
    case WEFT_K_store: return n == 2;
    case WEFT_K_get: return n == 1;
    case WEFT_K_set: return n == 1;
    case WEFT_K_copy_async: return n == 4;
    case WEFT_K_mma_async: return n == 3 || n == 5;
    default: return false;
    }
}

static int32_t func_around(const weft_kverify *v, int32_t opener) {
    while (opener >= 0 && !is_op(v, opener, WEFT_K_func)) opener = v->opener[opener];
    return opener;
}

static bool visible(const weft_kverify *v, weft_kval operand, weft_kval user) {
    const weft_kinstr *instr = instr_at(v, operand);
    /* the loop variable and the function itself: inside and after */
    int32_t scope = instr->op == WEFT_K_for ? operand : v->opener[operand];
    if (func_around(v, v->opener[user]) != func_around(v, scope) && instr->op != WEFT_K_func) return false;
    if (scope < 0) return true;
    return scope < user && user <= v->end[scope];
}

static bool check_operands(weft_kverify *v, weft_kval at) {
    const weft_kinstr *instr = instr_at(v, at);
    weft_kop op = (weft_kop)instr->op;
    if (op >= WEFT_K_COUNT) {
        weft_kverify_problem(v, at, "no such instruction");
        return false;
    }
    int wanted = weft_kop_operands(op);
    if (wanted >= 0 && wanted != instr->operand_count) {
        weft_kverify_problem(v, at, "%d operands, not %d", instr->operand_count, wanted);
        return false;
    }
    bool good = true;
    for (int n = 0; n < instr->operand_count; n++) {
        weft_kval operand = weft_koperand(v->kernel, instr, n);
        if (operand == WEFT_KNONE && optional_operand(op, n)) continue;
        if (operand < 0 || operand >= at) {
            weft_kverify_problem(v, at, "operand %d (%%%d) is not defined before", n, operand);
            good = false;
        } else if (!visible(v, operand, at)) {
            weft_kverify_problem(v, at, "operand %d (%%%d) is not visible here", n, operand);
            good = false;
        }
    }
    return good;
}

static weft_status run(weft_kverify *v) {
    const weft_kernel *kernel = v->kernel;
    bool sound = check_structure(v);
    for (size_t n = 0; sound && n < kernel->instr_count; n++)
        if (!check_operands(v, (weft_kval)n)) sound = false;
    for (size_t n = 0; sound && n < kernel->instr_count; n++) weft_kverify_types(v, (weft_kval)n);
    if (sound && !v->problem_count) weft_kverify_uniform(v);
    if (sound) weft_kverify_budget(v);
    if (!v->problem_count) return NULL;
    return WEFT_STATUS(WEFT_INTERNAL, "kernel %s: %d problem%s%s", kernel->name, v->problem_count,
                       v->problem_count > 1 ? "s" : "", weft_text_string(&v->text));
}

weft_status weft_kernel_verify(const weft_kernel *kernel) {
    if (kernel->failed) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building kernel %s", kernel->name);
    weft_allocator allocator = kernel->arena->allocator;
    weft_arena arena;
    weft_arena_init(allocator, &arena);
    weft_kverify v = {.kernel = kernel};
    weft_text_init(allocator, &v.text);
    size_t count = kernel->instr_count;
    v.opener = weft_arena_allocate_array(&arena, count, sizeof *v.opener);
    v.end = weft_arena_allocate_array(&arena, count, sizeof *v.end);
    v.branch = weft_arena_allocate_array(&arena, count, sizeof *v.branch);
    v.path = weft_arena_allocate_array(&arena, count, 1);
    v.first = weft_arena_allocate_array(&arena, count, sizeof *v.first);
    v.last = weft_arena_allocate_array(&arena, count, sizeof *v.last);
    v.change = weft_arena_allocate_array(&arena, count + 1, sizeof *v.change);
    v.constant = weft_arena_allocate_array(&arena, count, 1);
    v.uniformity = weft_arena_allocate_array(&arena, count, 1);
    v.control = weft_arena_allocate_array(&arena, count, 1);
    bool complete = v.opener && v.end && v.branch && v.path && v.first && v.last && v.change && v.constant &&
                    v.uniformity && v.control;
    weft_status status = complete ? run(&v) : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "verifying kernel %s", kernel->name);
    weft_text_deinit(&v.text);
    weft_arena_deinit(&arena);
    return status;
}
