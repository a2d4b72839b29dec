/* What the lanes of a wavefront do together, and the machine's fast functions.

   shuffle_xor by distance: up to 15 within rows of 16 lanes by DPP (gfx10 on in one step; before, from a rotation by 8,
   a mirror of 8 lanes, which is XOR 7, and a permutation of 4); 16 by permlanex16 (gfx10 on); up to 31 ds_swizzle, else
   ds_bpermute, which takes byte addresses of lanes. DPP and permlane are instructions of the vector unit, the others go
   through the LDS. All move 32 bits: other widths go in pieces.
   Source: LLVM, "User Guide for AMDGPU Backend"; AMD "RDNA 3" and "CDNA 3" instruction set architectures, chapters on
   DPP and LDS. */
#include <string.h>

#include "codegen/amdgcn/llvm/print.h"

/* DPP controls */
enum { QUAD_PERM = 0, ROW_ROTATE_8 = 0x128, HALF_ROW_MIRROR = 0x141, ROW_XMASK = 0x160 };

static bool has_row_xor(const weft_llvm_printer *printer) {
    return strncmp(printer->kernel->capability->arch, "gfx9", 4) != 0;
}

int weft_amdgcn_pin(weft_llvm_printer *printer, const char *type, int id) {
    return weft_llvm_define(printer, "call %s asm \"\", \"=v,0\"(%s %%t%d) convergent", type, type, id);
}

static int move_lanes(weft_llvm_printer *printer, int word, int control) {
    return weft_llvm_define(
        printer, "call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 %%t%d, i32 %d, i32 15, i32 15, i1 true)", word,
        control);
}

/* distance < 16 */
static int shuffle_in_row(weft_llvm_printer *printer, int word, int distance) {
    if (distance >= 4 && has_row_xor(printer)) return move_lanes(printer, word, ROW_XMASK | distance);
    int low = distance & 3, control = QUAD_PERM;
    if (distance & 8) word = move_lanes(printer, word, ROW_ROTATE_8);
    if (distance & 4) word = move_lanes(printer, word, HALF_ROW_MIRROR), low ^= 3;
    for (int lane = 0; lane < 4; lane++) control |= (lane ^ low) << 2 * lane;
    return low ? move_lanes(printer, word, control) : word;
}

/* 32 bits from lane ^ distance. */
static int shuffle_word(weft_llvm_printer *printer, int word, int distance) {
    if (distance < 16) return shuffle_in_row(printer, word, distance);
    if (distance == 16 && has_row_xor(printer)) /* the lane of the same number in the other row of the pair */
        return weft_amdgcn_pin(
            printer, "i32",
            weft_llvm_define(printer,
                             "call i32 @llvm.amdgcn.permlanex16.i32(i32 poison, i32 %%t%d, i32 1985229328, i32 "
                             "-19088744, i1 false, i1 false)",
                             word));
    if (distance < 32) /* and-mask 31, or-mask 0, xor-mask distance */
        return weft_llvm_define(printer, "call i32 @llvm.amdgcn.ds.swizzle(i32 %%t%d, i32 %d)", word,
                                distance << 10 | 31);
    int low = weft_llvm_define(printer, "call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)");
    int lane = weft_llvm_define(printer, "call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %%t%d)", low);
    int from = weft_llvm_define(printer, "xor i32 %%t%d, %d", lane, distance);
    int bytes = weft_llvm_define(printer, "shl i32 %%t%d, 2", from);
    return weft_llvm_define(printer, "call i32 @llvm.amdgcn.ds.bpermute(i32 %%t%d, i32 %%t%d)", bytes, word);
}

/* A scalar of any type, in words. */
static int shuffle_scalar(weft_llvm_printer *printer, weft_dtype elem, weft_llvm_name value, int distance) {
    weft_llvm_name type = weft_llvm_elem_type(elem, 1);
    int bits = elem == WEFT_BOOL ? 1 : weft_dtype_bits(elem);
    if (bits < 32) {
        int wide = weft_llvm_define(printer, "zext %s %s to i32", type.text, value.text);
        return weft_llvm_define(printer, "trunc i32 %%t%d to %s", shuffle_word(printer, wide, distance), type.text);
    }
    if (bits == 32) {
        int word = weft_llvm_define(printer, "bitcast %s %s to i32", type.text, value.text);
        return weft_llvm_define(printer, "bitcast i32 %%t%d to %s", shuffle_word(printer, word, distance), type.text);
    }
    int pair = weft_llvm_define(printer, "bitcast %s %s to <2 x i32>", type.text, value.text), moved[2];
    for (int i = 0; i < 2; i++)
        moved[i] = shuffle_word(printer, weft_llvm_define(printer, "extractelement <2 x i32> %%t%d, i64 %d", pair, i),
                                distance);
    int low = weft_llvm_define(printer, "insertelement <2 x i32> poison, i32 %%t%d, i64 0", moved[0]);
    int both = weft_llvm_define(printer, "insertelement <2 x i32> %%t%d, i32 %%t%d, i64 1", low, moved[1]);
    return weft_llvm_define(printer, "bitcast <2 x i32> %%t%d to %s", both, type.text);
}

static void print_shuffle(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    int lanes = instr->type.lanes, distance = (int)instr->i;
    weft_dtype elem = (weft_dtype)instr->type.elem;
    weft_llvm_name value = weft_llvm_operand(printer, instr, 0), vector = weft_llvm_elem_type(elem, lanes),
                   scalar = weft_llvm_elem_type(elem, 1);
    if (distance < 1 || distance >= printer->kernel->capability->warp) {
        weft_llvm_problem(printer, WEFT_INTERNAL, at, "reaches outside of the wavefront");
        return;
    }
    if (lanes == 1) {
        weft_llvm_bind(printer, at, shuffle_scalar(printer, elem, value, distance));
        return;
    }
    int result = 0;
    for (int lane = 0; lane < lanes; lane++) {
        int one = weft_llvm_define(printer, "extractelement %s %s, i64 %d", vector.text, value.text, lane);
        one = shuffle_scalar(printer, elem, weft_llvm_ssa(one), distance);
        weft_llvm_name before = lane ? weft_llvm_ssa(result) : (weft_llvm_name){"poison"};
        result = weft_llvm_define(printer, "insertelement %s %s, %s %%t%d, i64 %d", vector.text, before.text,
                                  scalar.text, one, lane);
    }
    weft_llvm_bind(printer, at, result);
}

/* f32 only, lane by lane. There is no fast tanh. */
static bool print_fast(weft_llvm_printer *printer, int32_t at) {
    const weft_kinstr *instr = weft_llvm_instr(printer, at);
    const char *name = instr->op == WEFT_K_exp2_fast    ? "exp2"
                       : instr->op == WEFT_K_log2_fast  ? "log"
                       : instr->op == WEFT_K_rcp_fast   ? "rcp"
                       : instr->op == WEFT_K_rsqrt_fast ? "rsq"
                                                        : NULL;
    if (!name) return false;
    int lanes = instr->type.lanes, result = 0;
    weft_llvm_name value = weft_llvm_operand(printer, instr, 0), vector = weft_llvm_elem_type(WEFT_F32, lanes);
    if (instr->type.elem != WEFT_F32) {
        weft_llvm_problem(printer, WEFT_UNSUPPORTED, at, "has f32 alone");
        return true;
    }
    for (int lane = 0; lane < lanes; lane++) {
        weft_llvm_name one = value;
        if (lanes > 1)
            one =
                weft_llvm_ssa(weft_llvm_define(printer, "extractelement %s %s, i64 %d", vector.text, value.text, lane));
        int id = weft_llvm_define(printer, "call float @llvm.amdgcn.%s.f32(float %s)", name, one.text);
        weft_llvm_name before = lane ? weft_llvm_ssa(result) : (weft_llvm_name){"poison"};
        result = lanes == 1 ? id
                            : weft_llvm_define(printer, "insertelement %s %s, float %%t%d, i64 %d", vector.text,
                                               before.text, id, lane);
    }
    weft_llvm_bind(printer, at, result);
    return true;
}

bool weft_amdgcn_print_lanes(weft_llvm_printer *printer, int32_t at) {
    if (weft_llvm_instr(printer, at)->op != WEFT_K_shuffle_xor) return print_fast(printer, at);
    print_shuffle(printer, at);
    return true;
}
