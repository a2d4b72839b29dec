/* Which values are vec4s instead of one scalar a lane: f32 that lies in fours, in memory or registers, and what plain
   arithmetic makes of it. Drivers read a vec4 in one access, and compilers have a quarter of the text to read. The rest
   names lanes as before: of a vec4, its components. See print.h. */
#include "base/dtype.h"
#include "codegen/webgpu/print.h"

static bool is_vector(const weft_wgsl_printer *p, weft_kval value) { return (p->uses[value] & WEFT_WGSL_VECTOR) != 0; }

static bool any_vector(const weft_wgsl_printer *p, const weft_kinstr *instr) {
    for (int i = 0; i < instr->operand_count; i++) {
        weft_kval operand = weft_koperand(p->kernel, instr, i);
        if (operand != WEFT_KNONE && is_vector(p, operand)) return true;
    }
    return false;
}

static bool makes_vector(const weft_wgsl_printer *p, const weft_kinstr *instr) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    bool native = weft_wgsl_class_of(p, elem) == WEFT_WGSL_F16;
    if (instr->type.lanes % 4 || (elem != WEFT_F32 && !(native && instr->op == WEFT_K_load))) return false;
    switch ((int)instr->op) {
    case WEFT_K_regs:
    case WEFT_K_var: return !(p->uses[instr - p->kernel->instrs] & WEFT_WGSL_DYNAMIC);
    case WEFT_K_get: return is_vector(p, weft_koperand(p->kernel, instr, 0));
    case WEFT_K_load: return weft_wgsl_loads_fours(p, instr);
    case WEFT_K_add:
    case WEFT_K_sub:
    case WEFT_K_mul:
        return any_vector(p, instr) && !weft_wgsl_is_kept(p, instr, 0) && !weft_wgsl_is_kept(p, instr, 1) &&
               weft_koperand(p->kernel, instr, 0) != weft_koperand(p->kernel, instr, 1);
    case WEFT_K_fma: return instr->i == 1 && any_vector(p, instr);
    case WEFT_K_min:
    case WEFT_K_max:
    case WEFT_K_select:
    case WEFT_K_convert: return any_vector(p, instr);
    default: return false;
    }
}

void weft_wgsl_mark_vectors(weft_wgsl_printer *p) {
    weft_kval count = (weft_kval)p->kernel->instr_count;
    for (weft_kval i = 0; i < count; i++) {
        const weft_kinstr *instr = weft_kernel_get(p->kernel, i);
        if (instr->op == WEFT_K_func) /* scalars inside */
            i = weft_kernel_func_end(p->kernel, i);
        else if (makes_vector(p, instr))
            p->uses[i] |= WEFT_WGSL_VECTOR;
    }
}

weft_piece weft_wgsl_four(weft_wgsl_printer *p, weft_kval user, weft_kval value, int group) {
    if (is_vector(p, value)) return weft_piece_format("v%d_%d", value, group);
    const char *type = weft_wgsl_type(p, (weft_dtype)weft_ktype_of(p->kernel, value).elem);
    weft_kval inner = value;
    int lane = 4 * group;
    const weft_kinstr *instr = weft_kernel_unsplat(p->kernel, &inner, &lane);
    if (instr->type.lanes == 1 || instr->op == WEFT_K_constant)
        return weft_piece_format("vec4<%s>(%s)", type, weft_wgsl_lane(p, value, 4 * group).text);
    weft_piece four = weft_piece_format("o%d_%d_%d", user, value, group);
    weft_wgsl_line(p, "let %s = vec4<%s>(%s, %s, %s, %s);", four.text, type, weft_wgsl_value(p, value, 4 * group).text,
                   weft_wgsl_value(p, value, 4 * group + 1).text, weft_wgsl_value(p, value, 4 * group + 2).text,
                   weft_wgsl_value(p, value, 4 * group + 3).text);
    return four;
}
