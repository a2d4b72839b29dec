/* Loops, branches, functions.

   Loops test at the bottom, behind one guard, so that a loop without inner structure is one block and its accumulators
   stay in registers. Unrolled loops and calls print their bodies again with the loop variable or the parameters bound.
   Read next: compile.c. */
#include <inttypes.h>

#include "codegen/llvm/print.h"

enum { FULL_UNROLL_LIMIT = 4096, INLINE_DEPTH_LIMIT = 16 };

/* Does printing this range open a block? Calls may, unrolled loops not by themselves. */
static bool opens_block(const weft_llvm_printer *printer, int32_t first, int32_t limit) {
    for (int32_t at = first; at < limit; at++) {
        const weft_kinstr *instr = weft_llvm_instr(printer, at);
        if (instr->op == WEFT_K_if || instr->op == WEFT_K_while || instr->op == WEFT_K_call ||
            (instr->op == WEFT_K_for && instr->i != -1))
            return true;
    }
    return false;
}

/* One loop: prints `copies` bodies a trip, with variable, variable + step, ... */
static void print_loop(weft_llvm_printer *printer, int32_t at, weft_llvm_name lo, weft_llvm_name hi,
                       weft_llvm_name step, int copies) {
    int32_t end = printer->ends[at];
    weft_llvm_name type = weft_llvm_type_of(printer, at);
    int head = weft_llvm_label(printer), before = printer->label, after = weft_llvm_label(printer), latch = head,
        variable = printer->next++, next = printer->next++;
    bool nested = printer->dialect->branches || opens_block(printer, at + 1, end);
    if (nested) latch = weft_llvm_label(printer);
    int enters = weft_llvm_define(printer, "icmp slt %s %s, %s", type.text, lo.text, hi.text);
    weft_llvm_line(printer, "br i1 %%t%d, label %%l%d, label %%l%d", enters, head, after);
    weft_llvm_open(printer, head);
    weft_llvm_line(printer, "%%t%d = phi %s [ %s, %%l%d ], [ %%t%d, %%l%d ]", variable, type.text, lo.text, before,
                   next, latch);
    int current = variable;
    for (int copy = 0; copy < copies; copy++) {
        if (copy) current = weft_llvm_define(printer, "add nsw %s %%t%d, %s", type.text, current, step.text);
        weft_llvm_bind(printer, at, current);
        weft_llvm_print_range(printer, at + 1, end);
    }
    if (nested) {
        weft_llvm_line(printer, "br label %%l%d", latch);
        weft_llvm_open(printer, latch);
    }
    weft_llvm_line(printer, "%%t%d = add nsw %s %%t%d, %s", next, type.text, current, step.text);
    int again = weft_llvm_define(printer, "icmp slt %s %%t%d, %s", type.text, next, hi.text);
    weft_llvm_line(printer, "br i1 %%t%d, label %%l%d, label %%l%d", again, head, after);
    weft_llvm_open(printer, after);
}

/* `copies` at a time while they fit, then the rest one by one. */
static void print_partly_unrolled(weft_llvm_printer *printer, int32_t at, weft_llvm_name lo, weft_llvm_name hi,
                                  weft_llvm_name step, int copies) {
    weft_dtype elem = (weft_dtype)weft_ktype_of(printer->kernel, at).elem;
    weft_llvm_name type = weft_llvm_type_of(printer, at), suffix = weft_llvm_suffix(elem, 1),
                   count = weft_llvm_integer(copies, 64, 1);
    int stride = weft_llvm_define(printer, "mul nsw %s %s, %s", type.text, step.text, count.text);
    int span = weft_llvm_define(printer, "sub nsw %s %s, %s", type.text, hi.text, lo.text);
    int positive = weft_llvm_define(printer, "call %s @llvm.smax.%s(%s %%t%d, %s 0)", type.text, suffix.text, type.text,
                                    span, type.text);
    int last = weft_llvm_define(printer, "sub nsw %s %s, %s", type.text, step.text, "1");
    int rounded = weft_llvm_define(printer, "add nsw %s %%t%d, %%t%d", type.text, positive, last);
    int trips = weft_llvm_define(printer, "udiv %s %%t%d, %s", type.text, rounded, step.text);
    int groups = weft_llvm_define(printer, "udiv %s %%t%d, %s", type.text, trips, count.text);
    int covered = weft_llvm_define(printer, "mul nsw %s %%t%d, %%t%d", type.text, groups, stride);
    weft_llvm_name middle =
        weft_llvm_ssa(weft_llvm_define(printer, "add nsw %s %s, %%t%d", type.text, lo.text, covered));
    print_loop(printer, at, lo, middle, step, copies);
    print_loop(printer, at, middle, hi, step, 1);
}

static void print_for(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int64_t lo, hi, step;
    bool known = weft_llvm_known(printer, weft_koperand(printer->kernel, instr, 0), &lo) &&
                 weft_llvm_known(printer, weft_koperand(printer->kernel, instr, 1), &hi) &&
                 weft_llvm_known(printer, weft_koperand(printer->kernel, instr, 2), &step);
    if (known && lo >= hi) return;
    bool full = instr->i == -1 || (known && step > 0 && hi - lo <= step); /* a single trip needs no loop */
    if (!full) {
        weft_llvm_name low = weft_llvm_operand(printer, instr, 0), high = weft_llvm_operand(printer, instr, 1),
                       stride = weft_llvm_operand(printer, instr, 2);
        if (instr->i > 1)
            print_partly_unrolled(printer, at, low, high, stride, (int)instr->i);
        else
            print_loop(printer, at, low, high, stride, 1);
        return;
    }
    if (!known || step <= 0 || (hi - lo - 1) / step >= FULL_UNROLL_LIMIT) {
        weft_llvm_problem(printer, WEFT_INTERNAL, at,
                          "cannot be unrolled: its bounds are not constant or too far apart");
        return;
    }
    for (int64_t value = lo; value < hi && !printer->problem; value += step) {
        weft_llvm_bind_integer(printer, at, value);
        weft_llvm_print_range(printer, at + 1, printer->ends[at]);
    }
}

static int32_t print_if(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int32_t middle = printer->ends[at],
            end = weft_llvm_instr(printer, middle)->op == WEFT_K_else ? printer->ends[middle] : middle;
    int64_t known;
    if (weft_llvm_known(printer, weft_koperand(printer->kernel, instr, 0), &known)) {
        if (known)
            weft_llvm_print_range(printer, at + 1, middle);
        else if (middle != end)
            weft_llvm_print_range(printer, middle + 1, end);
        return end;
    }
    int then = weft_llvm_label(printer), otherwise = weft_llvm_label(printer), after = weft_llvm_label(printer);
    weft_llvm_name condition = weft_llvm_operand(printer, instr, 0);
    weft_llvm_line(printer, "br i1 %s, label %%l%d, label %%l%d", condition.text, then,
                   middle == end ? after : otherwise);
    weft_llvm_open(printer, then);
    weft_llvm_print_range(printer, at + 1, middle);
    weft_llvm_line(printer, "br label %%l%d", after);
    if (middle != end) {
        weft_llvm_open(printer, otherwise);
        weft_llvm_print_range(printer, middle + 1, end);
        weft_llvm_line(printer, "br label %%l%d", after);
    }
    weft_llvm_open(printer, after);
    return end;
}

/* The body runs until its `test`, which stands directly inside it, sees false. */
static void print_while(weft_llvm_printer *printer, int32_t at) {
    int32_t end = printer->ends[at];
    int head = weft_llvm_label(printer), after = weft_llvm_label(printer);
    weft_llvm_line(printer, "br label %%l%d", head);
    weft_llvm_open(printer, head);
    for (int32_t inner = at + 1; inner < end && !printer->problem;) {
        const weft_kinstr *instr = weft_llvm_instr(printer, inner);
        if (instr->op != WEFT_K_test) {
            int32_t last = inner;
            if (printer->ends[inner] > inner) last = printer->ends[inner];
            if (instr->op == WEFT_K_if && weft_llvm_instr(printer, last)->op == WEFT_K_else) last = printer->ends[last];
            weft_llvm_print_range(printer, inner, last + 1);
            inner = last + 1;
            continue;
        }
        int next = weft_llvm_label(printer);
        weft_llvm_line(printer, "br i1 %s, label %%l%d, label %%l%d", weft_llvm_operand(printer, instr, 0).text, next,
                       after);
        weft_llvm_open(printer, next);
        inner++;
    }
    weft_llvm_line(printer, "br label %%l%d", head);
    weft_llvm_open(printer, after);
}

/* The body with its parameters bound to the operands. */
static void print_call(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int32_t function = weft_koperand(printer->kernel, instr, 0), end = printer->ends[function];
    if (printer->inline_depth >= INLINE_DEPTH_LIMIT) {
        weft_llvm_problem(printer, WEFT_INTERNAL, at, "nests functions too deeply");
        return;
    }
    for (int32_t inner = function + 1; inner < end; inner++) {
        const weft_kinstr *parameter = weft_llvm_instr(printer, inner);
        if (parameter->op != WEFT_K_parameter) continue;
        if (parameter->i + 1 >= instr->operand_count) {
            weft_llvm_problem(printer, WEFT_INTERNAL, at, "passes too few arguments");
            return;
        }
        printer->slots[inner] = printer->slots[weft_koperand(printer->kernel, instr, (int)parameter->i + 1)];
    }
    printer->inline_depth++;
    weft_llvm_print_range(printer, function + 1, end);
    printer->inline_depth--;
    printer->slots[at] = printer->slots[weft_koperand(printer->kernel, weft_llvm_instr(printer, end), 0)];
}

int32_t weft_llvm_print_structure(weft_llvm_printer *printer, int32_t at) {
    switch ((int)weft_llvm_instr(printer, at)->op) {
    case WEFT_K_for: print_for(printer, at); return printer->ends[at] + 1;
    case WEFT_K_if: return print_if(printer, at) + 1;
    case WEFT_K_while: print_while(printer, at); return printer->ends[at] + 1;
    case WEFT_K_func: return printer->ends[at] + 1; /* printed where it is called */
    case WEFT_K_call: print_call(printer, at); return at + 1;
    case WEFT_K_parameter: return at + 1;
    default: return at;
    }
}
