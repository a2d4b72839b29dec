/* Nests and funcs. A nest is a stack entry with the labels that its end needs; loop counters are variables, which every
   consumer turns into registers. Invariant: p->label names the block that is being written. See print.h. */
#include <string.h>

#include "codegen/spirv/print.h"

static weft_spirv_nest *push(weft_spirv *p, weft_kop op, weft_kval id) {
    if (p->depth == WEFT_SPIRV_DEPTH) {
        weft_spirv_fail(p, WEFT_UNSUPPORTED, "nests deeper than 64");
        p->depth--;
    }
    weft_spirv_nest *nest = &p->nests[p->depth++];
    *nest = (weft_spirv_nest){.op = op, .id = id, .merge = weft_spirv_new(p), .next = weft_spirv_new(p)};
    nest->known = weft_spirv_reuse_mark(&p->values);
    return nest;
}

static void branch(weft_spirv *p, weft_spirv_id to) { weft_spirv_do(p, &p->code, "OpBranch $", to); }

static void branch_if(weft_spirv *p, weft_spirv_id condition, weft_spirv_id yes, weft_spirv_id no) {
    weft_spirv_do(p, &p->code, "OpBranchConditional $ $ $", condition, yes, no);
}

static void open_loop(weft_spirv *p, weft_spirv_nest *nest, const char *control) {
    nest->header = weft_spirv_new(p);
    weft_spirv_id first = weft_spirv_new(p);
    branch(p, nest->header);
    weft_spirv_open_block(p, nest->header);
    weft_spirv_do(p, &p->code, "OpLoopMerge $ $ @", nest->merge, nest->next, control);
    branch(p, first);
    weft_spirv_open_block(p, first);
}

static void open_for(weft_spirv *p, weft_kval id, const weft_kinstr *instr) {
    weft_spirv_nest *nest = push(p, WEFT_K_for, id);
    weft_dtype elem = (weft_dtype)instr->type.elem;
    weft_spirv_type type = weft_spirv_carrier(elem);
    nest->counter = weft_spirv_variable(p, type, 0);
    weft_spirv_do(p, &p->code, "OpStore $ $", nest->counter, weft_spirv_lane(p, weft_koperand(p->kernel, instr, 0), 0));
    open_loop(p, nest, instr->i == 0 ? "DontUnroll" : instr->i < 0 ? "Unroll" : "None");
    weft_spirv_id value = weft_spirv_emit(p, type, "OpLoad", "$", nest->counter), body = weft_spirv_new(p);
    weft_spirv_define(p, id, 0, value);
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    branch_if(p,
              weft_spirv_emit(p, WEFT_SPIRV_BOOL, is_signed ? "OpSLessThan" : "OpULessThan", "$ $", value,
                              weft_spirv_lane(p, weft_koperand(p->kernel, instr, 1), 0)),
              body, nest->merge);
    weft_spirv_open_block(p, body);
}

static bool has_else(const weft_kernel *kernel, weft_kval id) {
    int depth = 0;
    for (size_t i = (size_t)id; i < kernel->instr_count; i++) {
        int op = kernel->instrs[i].op;
        depth += op == WEFT_K_if || op == WEFT_K_for || op == WEFT_K_while;
        depth -= op == WEFT_K_end;
        if (op == WEFT_K_else && depth == 1) return true;
        if (depth == 0) return false;
    }
    return false;
}

static void open_if(weft_spirv *p, weft_kval id, const weft_kinstr *instr) {
    weft_spirv_nest *nest = push(p, WEFT_K_if, id);
    nest->has_else = has_else(p->kernel, id);
    weft_spirv_id then = weft_spirv_new(p);
    weft_spirv_do(p, &p->code, "OpSelectionMerge $ None", nest->merge);
    branch_if(p, weft_spirv_lane(p, weft_koperand(p->kernel, instr, 0), 0), then,
              nest->has_else ? nest->next : nest->merge);
    weft_spirv_open_block(p, then);
}

static void test(weft_spirv *p, const weft_kinstr *instr) {
    weft_spirv_id more = weft_spirv_new(p);
    branch_if(p, weft_spirv_lane(p, weft_koperand(p->kernel, instr, 0), 0), more, p->nests[p->depth - 1].merge);
    weft_spirv_open_block(p, more);
}

static void close(weft_spirv *p) {
    weft_spirv_nest nest = p->nests[--p->depth];
    if (nest.op == WEFT_K_if) {
        weft_spirv_reuse_forget(&p->values, nest.known);
        branch(p, nest.merge);
        weft_spirv_open_block(p, nest.merge);
        return;
    }
    branch(p, nest.next);
    weft_spirv_open_block(p, nest.next);
    if (nest.op == WEFT_K_for) {
        const weft_kinstr *instr = weft_kernel_get(p->kernel, nest.id);
        weft_spirv_id sum =
            weft_spirv_emit(p, weft_spirv_carrier((weft_dtype)instr->type.elem), "OpIAdd", "$ $",
                            weft_spirv_lane(p, nest.id, 0), weft_spirv_lane(p, weft_koperand(p->kernel, instr, 2), 0));
        weft_spirv_do(p, &p->code, "OpStore $ $", nest.counter, sum);
    }
    weft_spirv_reuse_forget(&p->values, nest.known);
    branch(p, nest.header);
    weft_spirv_open_block(p, nest.merge);
}

bool weft_spirv_structure(weft_spirv *p, weft_kval id) {
    const weft_kinstr *instr = weft_kernel_get(p->kernel, id);
    switch ((int)instr->op) {
    case WEFT_K_for: open_for(p, id, instr); return true;
    case WEFT_K_if: open_if(p, id, instr); return true;
    case WEFT_K_while: open_loop(p, push(p, WEFT_K_while, id), "None"); return true;
    case WEFT_K_test: test(p, instr); return true;
    case WEFT_K_end: close(p); return true;
    case WEFT_K_else: {
        weft_spirv_nest *nest = &p->nests[p->depth - 1];
        weft_spirv_reuse_forget(&p->values, nest->known);
        branch(p, nest->merge);
        weft_spirv_open_block(p, nest->next);
        return true;
    }
    default: return false;
    }
}

/* -- funcs: functions of scalars; bodies on vectors are lanewise, so one lane stands for all */

static weft_kval func_end(const weft_kernel *kernel, weft_kval id) {
    while ((size_t)id < kernel->instr_count && kernel->instrs[id].op != WEFT_K_func_end) id++;
    return id;
}

static weft_kval parameter_of(const weft_kernel *kernel, weft_kval func, weft_kval end, int64_t which) {
    for (weft_kval i = func + 1; i < end; i++)
        if (kernel->instrs[i].op == WEFT_K_parameter && kernel->instrs[i].i == which) return i;
    return WEFT_KNONE;
}

/* The name of a signature says its types, so that each is declared once; the parameters are written as they are met. */
static void print_signature(weft_spirv *p, weft_kval id, weft_kval end, weft_spirv_type result, weft_text *name) {
    weft_text types;
    weft_text_init(p->globals.allocator, &types);
    weft_text_append(name, "%%fn_%s", weft_spirv_type_text(result));
    for (int64_t n = 0; n < weft_kernel_get(p->kernel, id)->i; n++) {
        weft_kval parameter = parameter_of(p->kernel, id, end, n);
        if (parameter == WEFT_KNONE) {
            weft_spirv_fail(p, WEFT_UNSUPPORTED, "a func with a parameter that it does not read");
            break;
        }
        weft_spirv_type of = weft_spirv_carrier((weft_dtype)weft_ktype_of(p->kernel, parameter).elem);
        (void)weft_spirv_type_name(p, of);
        weft_text_append(name, "_%s", weft_spirv_type_text(of));
        weft_text_append(&types, " %%%s", weft_spirv_type_text(of));
        weft_spirv_define(p, parameter, 0, weft_spirv_new(p));
    }
    weft_text_append(name, " ");
    if (types.failed || name->failed)
        weft_spirv_fail(p, WEFT_OUT_OF_MEMORY, "no memory for a signature");
    else if (!p->globals.data || !strstr(p->globals.data, weft_text_string(name)))
        weft_text_append(&p->globals, "%s= OpTypeFunction %%%s%s\n", weft_text_string(name),
                         weft_spirv_type_text(result), weft_text_string(&types));
    weft_text_deinit(&types);
}

static void print_func(weft_spirv *p, weft_kval id, weft_kval end) {
    const weft_kernel *kernel = p->kernel;
    weft_kval result = weft_koperand(kernel, weft_kernel_get(kernel, end), 0);
    weft_spirv_type type = weft_spirv_carrier((weft_dtype)weft_ktype_of(kernel, result).elem);
    weft_spirv_id function = weft_spirv_new(p), label = weft_spirv_new(p);
    weft_spirv_define(p, id, 0, function);
    (void)weft_spirv_type_name(p, type);
    p->scalar_body = true;
    weft_text name;
    weft_text_init(p->globals.allocator, &name);
    print_signature(p, id, end, type, &name);
    weft_spirv_do(p, &p->functions, "$ = OpFunction $ None @", function, (weft_spirv_id)type, weft_text_string(&name));
    weft_text_deinit(&name);
    for (int64_t n = 0; n < weft_kernel_get(kernel, id)->i && p->failure == WEFT_OK; n++) {
        weft_kval parameter = parameter_of(kernel, id, end, n);
        weft_spirv_do(p, &p->functions, "$ = OpFunctionParameter $", weft_spirv_lane(p, parameter, 0),
                      (weft_spirv_id)weft_spirv_carrier((weft_dtype)weft_ktype_of(kernel, parameter).elem));
    }
    weft_spirv_open_function(p, label);
    for (weft_kval i = id + 1; i < end && p->failure == WEFT_OK; i++)
        if (kernel->instrs[i].op != WEFT_K_parameter) weft_spirv_instruction(p, i);
    if (p->failure == WEFT_OK) weft_spirv_do(p, &p->code, "OpReturnValue $", weft_spirv_lane(p, result, 0));
    weft_spirv_close_function(p, label);
    p->scalar_body = false;
}

void weft_spirv_functions(weft_spirv *p) {
    weft_kval count = (weft_kval)p->kernel->instr_count;
    for (weft_kval i = 0; i < count; i++)
        if (p->kernel->instrs[i].op == WEFT_K_func) print_func(p, i, func_end(p->kernel, i));
}
