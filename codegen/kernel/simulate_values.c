/* Instructions that only compute: what every arithmetic row of kernel_ops.def means, on whole
   vectors. Read next: scalar.c. */
#include <math.h>
#include <string.h>

#include "codegen/kernel/simulate_internal.h"

static bool reduce(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, int lanes, weft_dtype elem,
                   uint64_t *out) {
    static const weft_kop ops[] = {WEFT_K_add, WEFT_K_mul, WEFT_K_min, WEFT_K_max, WEFT_K_and, WEFT_K_or};
    weft_kop op = ops[instr->op - WEFT_K_reduce_add];
    const uint64_t *a = weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 0));
    uint64_t v[256];
    if (lanes > 256) return weft_sim_fault(sim, thread, "more lanes than the simulator knows");
    memcpy(v, a, (size_t)lanes * sizeof *v);
    for (; lanes > 1; lanes /= 2) {
        int half = lanes / 2;
        for (int n = 0; n < half; n++) {
            const char *problem = weft_kscalar_binary(op, elem, v[n], v[n + half], &v[n]);
            if (problem) return weft_sim_fault(sim, thread, "%s", problem);
        }
        if (lanes % 2) {
            const char *problem = weft_kscalar_binary(op, elem, v[0], v[lanes - 1], &v[0]);
            if (problem) return weft_sim_fault(sim, thread, "%s", problem);
        }
    }
    *out = v[0];
    return true;
}

static bool fma_lanes(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, uint64_t *out) {
    const uint64_t *a = weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 0));
    const uint64_t *b = weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 1));
    const uint64_t *c = weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 2));
    for (int n = 0; n < instr->type.lanes; n++)
        out[n] = instr->type.elem == WEFT_F32
                     ? weft_kscalar_of_f32(fmaf(weft_kscalar_f32(a[n]), weft_kscalar_f32(b[n]), weft_kscalar_f32(c[n])))
                     : weft_kscalar_of_f64(fma(weft_kscalar_f64(a[n]), weft_kscalar_f64(b[n]), weft_kscalar_f64(c[n])));
    return true;
}

static void constant(const weft_kinstr *instr, uint64_t *out) {
    uint64_t value = weft_kscalar_constant(instr);
    for (int n = 0; n < instr->type.lanes; n++) out[n] = value;
}

static uint64_t pack(weft_dtype elem, const uint64_t *a, const uint64_t *b) {
    return weft_kscalar_encode(elem, (double)weft_kscalar_f32(*a)) |
           weft_kscalar_encode(elem, (double)weft_kscalar_f32(*b)) << 16;
}

static bool elementwise(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, uint64_t *out) {
    weft_kval first = weft_koperand(sim->kernel, instr, 0);
    const uint64_t *a = weft_sim_value(sim, thread, first);
    const uint64_t *b =
        instr->operand_count > 1 ? weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 1)) : NULL;
    weft_dtype elem = (weft_dtype)weft_ktype_of(sim->kernel, first).elem;
    for (int n = 0; n < instr->type.lanes; n++) {
        const char *problem = b ? weft_kscalar_binary((weft_kop)instr->op, elem, a[n], b[n], &out[n])
                                : weft_kscalar_unary((weft_kop)instr->op, elem, a[n], &out[n]);
        if (problem) return weft_sim_fault(sim, thread, "%s (lane %d)", problem, n);
    }
    return true;
}

bool weft_sim_compute(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr) {
    const weft_kernel *kernel = sim->kernel;
    uint64_t *out = thread->slots + sim->slot[instr - kernel->instrs];
    weft_kval first = instr->operand_count ? weft_koperand(kernel, instr, 0) : WEFT_KNONE;
    const uint64_t *a = first != WEFT_KNONE ? weft_sim_value(sim, thread, first) : NULL;
    weft_ktype from = first != WEFT_KNONE ? weft_ktype_of(kernel, first) : (weft_ktype){0};
    weft_dtype elem = (weft_dtype)from.elem, to = (weft_dtype)instr->type.elem;
    int lanes = instr->type.lanes;
    switch ((int)instr->op) {
    case WEFT_K_constant: constant(instr, out); return true;
    case WEFT_K_scalar_argument: *out = (uint64_t)weft_kscalar_wrap(to, sim->extents[instr->i]); return true;
    case WEFT_K_thread: *out = (uint64_t)thread->thread; return true;
    case WEFT_K_block: *out = (uint64_t)thread->block->index; return true;
    case WEFT_K_grid: *out = (uint64_t)sim->grid; return true;
    case WEFT_K_cluster_rank: *out = (uint64_t)thread->block->rank; return true;
    case WEFT_K_fma: return fma_lanes(sim, thread, instr, out);
    case WEFT_K_eq:
    case WEFT_K_ne:
    case WEFT_K_lt:
    case WEFT_K_le: {
        const uint64_t *b = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        for (int n = 0; n < lanes; n++) out[n] = weft_kscalar_compare((weft_kop)instr->op, elem, a[n], b[n]);
        return true;
    }
    case WEFT_K_select: {
        const uint64_t *x = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        const uint64_t *y = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 2));
        for (int n = 0; n < lanes; n++) out[n] = a[from.lanes == 1 ? 0 : n] ? x[n] : y[n];
        return true;
    }
    case WEFT_K_convert:
        for (int n = 0; n < lanes; n++) out[n] = weft_kscalar_convert(elem, to, a[n]);
        return true;
    case WEFT_K_bitcast:
        for (int n = 0; n < lanes; n++)
            out[n] = weft_dtype_is_float(to) ? weft_kscalar_raw(elem, a[n])
                                             : (uint64_t)weft_kscalar_wrap(to, (int64_t)weft_kscalar_raw(elem, a[n]));
        return true;
    case WEFT_K_splat:
        for (int n = 0; n < lanes; n++) out[n] = *a;
        return true;
    case WEFT_K_warp_uniform: *out = *a; return true;
    case WEFT_K_iota:
        for (int n = 0; n < lanes; n++)
            out[n] = weft_dtype_is_float(to) ? weft_kscalar_encode(to, n) : (uint64_t)weft_kscalar_wrap(to, n);
        return true;
    case WEFT_K_extract: *out = a[instr->i]; return true;
    case WEFT_K_insert:
        memmove(out, a, (size_t)lanes * sizeof *out);
        out[instr->i] = *weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        return true;
    case WEFT_K_deal: {
        const uint64_t *b = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        for (int n = 0; n < lanes; n++) {
            int at = 2 * n + (int)instr->i;
            out[n] = at < lanes ? a[at] : b[at - lanes];
        }
        return true;
    }
    case WEFT_K_zip: {
        const uint64_t *b = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        for (int n = 0; n < lanes; n++) out[n] = (n % 2 ? b : a)[((int)instr->i * lanes + n) / 2];
        return true;
    }
    case WEFT_K_reduce_add:
    case WEFT_K_reduce_mul:
    case WEFT_K_reduce_min:
    case WEFT_K_reduce_max:
    case WEFT_K_reduce_and:
    case WEFT_K_reduce_or: return reduce(sim, thread, instr, from.lanes, elem, out);
    case WEFT_K_operand: { /* the instruction, and the byte offset in units of 16 */
        int64_t offset = (int64_t)*weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        if (offset < 0 || offset % 16)
            return weft_sim_fault(sim, thread, "misaligned: an operand at byte %lld", (long long)offset);
        *out = (uint64_t)(instr - kernel->instrs) << 32 | (uint64_t)offset / 16;
        return true;
    }
    case WEFT_K_pack:
        *out = pack((weft_dtype)instr->i, a, weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1)));
        return true;
    case WEFT_K_unpack:
        *out = weft_kscalar_encode(
            WEFT_F32, weft_float_decode((weft_dtype)(instr->i & 255), *a >> (instr->i >> 8 ? 16 : 0) & 0xffff));
        return true;
    default: return elementwise(sim, thread, instr, out);
    }
}
