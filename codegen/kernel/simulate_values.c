/* Instructions that only compute: what every arithmetic row of kernel_ops.def means, lane by lane.

   Invariant: results are canonical (see simulate_internal.h): wrapped to their dtype, floats rounded once.
   Read next: fold.c, which must agree. */
#include <math.h>
#include <string.h>

#include "codegen/kernel/fold.h"
#include "codegen/kernel/simulate_internal.h"

int64_t weft_sim_wrap(weft_dtype elem, int64_t value) { return weft_kfold_wrap(elem, value); }

float weft_sim_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

uint64_t weft_sim_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double decode(weft_dtype elem, uint64_t bits) {
    return elem == WEFT_F32 ? (double)weft_sim_f32(bits) : elem == WEFT_F64 ? f64(bits) : weft_float_decode(elem, bits);
}

static uint64_t encode(weft_dtype elem, double value) {
    return elem == WEFT_F32   ? weft_sim_bits((float)value)
           : elem == WEFT_F64 ? bits64(value)
                              : weft_float_encode(elem, value, false);
}

/* -- one lane */

static bool f32_binary(weft_kop op, float a, float b, float *out) {
    switch ((int)op) {
    case WEFT_K_add: *out = a + b; return true;
    case WEFT_K_sub: *out = a - b; return true;
    case WEFT_K_mul: *out = a * b; return true;
    case WEFT_K_div: *out = a / b; return true;
    case WEFT_K_min: *out = a < b ? a : b; return true;
    case WEFT_K_max: *out = a > b ? a : b; return true;
    case WEFT_K_copysign: *out = copysignf(a, b); return true;
    default: return false;
    }
}

static bool f64_binary(weft_kop op, double a, double b, double *out) {
    switch ((int)op) {
    case WEFT_K_add: *out = a + b; return true;
    case WEFT_K_sub: *out = a - b; return true;
    case WEFT_K_mul: *out = a * b; return true;
    case WEFT_K_div: *out = a / b; return true;
    case WEFT_K_min: *out = a < b ? a : b; return true;
    case WEFT_K_max: *out = a > b ? a : b; return true;
    case WEFT_K_copysign: *out = copysign(a, b); return true;
    default: return false;
    }
}

static bool compare(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b) {
    if (weft_dtype_is_float(elem)) {
        double x = decode(elem, a), y = decode(elem, b);
        return op == WEFT_K_eq ? x == y : op == WEFT_K_ne ? x != y : op == WEFT_K_lt ? x < y : x <= y;
    }
    bool less = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED ? (int64_t)a < (int64_t)b : a < b;
    return op == WEFT_K_eq ? a == b : op == WEFT_K_ne ? a != b : op == WEFT_K_lt ? less : less || a == b;
}

static uint64_t upper_half(weft_dtype elem, uint64_t a, uint64_t b) {
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    int bits = weft_dtype_bits(elem);
    if (bits < 64)
        return (uint64_t)weft_sim_wrap(elem, is_signed ? (int64_t)a * (int64_t)b >> bits : (int64_t)(a * b >> bits));
    uint64_t al = a & UINT32_MAX, ah = a >> 32, bl = b & UINT32_MAX, bh = b >> 32;
    uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (middle & UINT32_MAX);
    uint64_t high = ah * bh + (middle >> 32) + (other >> 32);
    if (is_signed) high -= ((int64_t)a < 0 ? b : 0) + ((int64_t)b < 0 ? a : 0);
    return high;
}

/* NULL, or what is wrong with the operands. */
static const char *integer_binary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b, uint64_t *out) {
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    int bits = weft_dtype_bits(elem);
    uint64_t r = 0;
    if ((op == WEFT_K_div || op == WEFT_K_rem) && b == 0) return "integer division by zero";
    if ((op == WEFT_K_shl || op == WEFT_K_shr) && b >= (uint64_t)bits) return "shift by the width or more";
    bool overflow = is_signed && (int64_t)b == -1; /* minimum / -1 wraps */
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch ((int)op) {
    case WEFT_K_add: r = a + b; break;
    case WEFT_K_sub: r = a - b; break;
    case WEFT_K_mul: r = a * b; break;
    case WEFT_K_div: r = overflow ? 0 - a : is_signed ? (uint64_t)((int64_t)a / (int64_t)b) : a / b; break;
    case WEFT_K_rem: r = overflow ? 0 : is_signed ? (uint64_t)((int64_t)a % (int64_t)b) : a % b; break;
    case WEFT_K_min: r = less ? a : b; break;
    case WEFT_K_max: r = less ? b : a; break;
    case WEFT_K_and: r = a & b; break;
    case WEFT_K_or: r = a | b; break;
    case WEFT_K_xor: r = a ^ b; break;
    case WEFT_K_shl: r = a << b; break;
    case WEFT_K_shr: r = is_signed ? (uint64_t)((int64_t)a >> b) : a >> b; break;
    case WEFT_K_mul_high: *out = upper_half(elem, a, b); return NULL;
    default: return "no meaning for integers";
    }
    *out = (uint64_t)weft_sim_wrap(elem, (int64_t)r);
    return NULL;
}

static const char *binary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t b, uint64_t *out) {
    if (elem == WEFT_F32) {
        float r;
        if (!f32_binary(op, weft_sim_f32(a), weft_sim_f32(b), &r)) return "no meaning for floats";
        *out = weft_sim_bits(r);
        return NULL;
    }
    if (elem == WEFT_F64) {
        double r;
        if (!f64_binary(op, f64(a), f64(b), &r)) return "no meaning for floats";
        *out = bits64(r);
        return NULL;
    }
    if (weft_dtype_is_float(elem)) return "arithmetic in a storage type";
    return integer_binary(op, elem, a, b, out);
}

static const char *float_unary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t *out) {
    bool single = elem == WEFT_F32;
    double x = decode(elem, a), r;
    switch ((int)op) {
    case WEFT_K_neg: *out = a ^ (single ? UINT64_C(0x80000000) : UINT64_C(1) << 63); return NULL;
    case WEFT_K_abs: *out = a & (single ? UINT64_C(0x7fffffff) : UINT64_MAX >> 1); return NULL;
    case WEFT_K_floor: r = floor(x); break;
    case WEFT_K_ceil: r = ceil(x); break;
    case WEFT_K_trunc: r = trunc(x); break;
    case WEFT_K_round: r = rint(x); break; /* the default mode: to even */
    case WEFT_K_sqrt: r = sqrt(x); break;  /* double rounding of a root is innocent */
    case WEFT_K_exp2_fast: r = exp2(x); break;
    case WEFT_K_log2_fast: r = log2(x); break;
    case WEFT_K_rcp_fast: r = 1 / x; break;
    case WEFT_K_rsqrt_fast: r = 1 / sqrt(x); break;
    case WEFT_K_tanh_fast: r = tanh(x); break;
    default: return "no meaning for floats";
    }
    *out = encode(elem, r);
    return NULL;
}

static const char *unary(weft_kop op, weft_dtype elem, uint64_t a, uint64_t *out) {
    if (elem == WEFT_F32 || elem == WEFT_F64) return float_unary(op, elem, a, out);
    if (weft_dtype_is_float(elem)) return "arithmetic in a storage type";
    int bits = weft_dtype_bits(elem);
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    uint64_t r;
    switch ((int)op) {
    case WEFT_K_not: r = elem == WEFT_BOOL ? !a : ~a; break;
    case WEFT_K_neg: r = 0 - a; break;
    case WEFT_K_abs: r = is_signed && (int64_t)a < 0 ? 0 - a : a; break;
    case WEFT_K_popcount: r = (uint64_t)__builtin_popcountll(bits < 64 ? a & ((UINT64_C(1) << bits) - 1) : a); break;
    default: return "no meaning for integers";
    }
    *out = (uint64_t)weft_sim_wrap(elem, (int64_t)r);
    return NULL;
}

static int64_t saturate(weft_dtype elem, double value) {
    int bits = weft_dtype_bits(elem);
    bool is_signed = weft_dtype_kind_of(elem) == WEFT_KIND_SIGNED;
    double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits);
    if (isnan(value)) return 0;
    if (value <= low) return is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
    if (value >= high) return (int64_t)(UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0)));
    return is_signed ? (int64_t)value : (int64_t)(uint64_t)value;
}

static uint64_t convert(weft_dtype from, weft_dtype to, uint64_t a) {
    if (weft_dtype_is_float(from)) {
        double x = decode(from, a);
        if (to == WEFT_BOOL) return x != 0;
        return weft_dtype_is_float(to) ? encode(to, x) : (uint64_t)saturate(to, x);
    }
    if (!weft_dtype_is_float(to)) return (uint64_t)weft_sim_wrap(to, (int64_t)a);
    bool is_unsigned = weft_dtype_kind_of(from) == WEFT_KIND_UNSIGNED;
    if (to == WEFT_F32) return weft_sim_bits(is_unsigned ? (float)a : (float)(int64_t)a);
    return encode(to, is_unsigned ? (double)a : (double)(int64_t)a);
}

static uint64_t raw_bits(weft_dtype elem, uint64_t a) {
    int bits = weft_dtype_bits(elem);
    return bits < 64 ? a & ((UINT64_C(1) << bits) - 1) : a;
}

/* -- whole instructions */

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
            const char *problem = binary(op, elem, v[n], v[n + half], &v[n]);
            if (problem) return weft_sim_fault(sim, thread, "%s", problem);
        }
        if (lanes % 2) {
            const char *problem = binary(op, elem, v[0], v[lanes - 1], &v[0]);
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
                     ? weft_sim_bits(fmaf(weft_sim_f32(a[n]), weft_sim_f32(b[n]), weft_sim_f32(c[n])))
                     : bits64(fma(f64(a[n]), f64(b[n]), f64(c[n])));
    return true;
}

static void constant(const weft_kinstr *instr, uint64_t *out) {
    weft_dtype elem = (weft_dtype)instr->type.elem;
    uint64_t value = weft_dtype_is_float(elem) ? encode(elem, instr->f) : (uint64_t)instr->i;
    for (int n = 0; n < instr->type.lanes; n++) out[n] = value;
}

static uint64_t pack(weft_dtype elem, const uint64_t *a, const uint64_t *b) {
    return encode(elem, (double)weft_sim_f32(*a)) | encode(elem, (double)weft_sim_f32(*b)) << 16;
}

static bool elementwise(weft_sim *sim, weft_sim_thread *thread, const weft_kinstr *instr, uint64_t *out) {
    weft_kval first = weft_koperand(sim->kernel, instr, 0);
    const uint64_t *a = weft_sim_value(sim, thread, first);
    const uint64_t *b =
        instr->operand_count > 1 ? weft_sim_value(sim, thread, weft_koperand(sim->kernel, instr, 1)) : NULL;
    weft_dtype elem = (weft_dtype)weft_ktype_of(sim->kernel, first).elem;
    for (int n = 0; n < instr->type.lanes; n++) {
        const char *problem = b ? binary((weft_kop)instr->op, elem, a[n], b[n], &out[n])
                                : unary((weft_kop)instr->op, elem, a[n], &out[n]);
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
    case WEFT_K_scalar_argument: *out = (uint64_t)weft_sim_wrap(to, sim->extents[instr->i]); return true;
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
        for (int n = 0; n < lanes; n++) out[n] = compare((weft_kop)instr->op, elem, a[n], b[n]);
        return true;
    }
    case WEFT_K_select: {
        const uint64_t *x = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        const uint64_t *y = weft_sim_value(sim, thread, weft_koperand(kernel, instr, 2));
        for (int n = 0; n < lanes; n++) out[n] = a[from.lanes == 1 ? 0 : n] ? x[n] : y[n];
        return true;
    }
    case WEFT_K_convert:
        for (int n = 0; n < lanes; n++) out[n] = convert(elem, to, a[n]);
        return true;
    case WEFT_K_bitcast:
        for (int n = 0; n < lanes; n++)
            out[n] = weft_dtype_is_float(to) ? raw_bits(elem, a[n])
                                             : (uint64_t)weft_sim_wrap(to, (int64_t)raw_bits(elem, a[n]));
        return true;
    case WEFT_K_splat:
        for (int n = 0; n < lanes; n++) out[n] = *a;
        return true;
    case WEFT_K_warp_uniform: *out = *a; return true;
    case WEFT_K_iota:
        for (int n = 0; n < lanes; n++)
            out[n] = weft_dtype_is_float(to) ? encode(to, n) : (uint64_t)weft_sim_wrap(to, n);
        return true;
    case WEFT_K_extract: *out = a[instr->i]; return true;
    case WEFT_K_insert:
        memmove(out, a, (size_t)lanes * sizeof *out);
        out[instr->i] = *weft_sim_value(sim, thread, weft_koperand(kernel, instr, 1));
        return true;
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
        *out =
            encode(WEFT_F32, weft_float_decode((weft_dtype)(instr->i & 255), *a >> (instr->i >> 8 ? 16 : 0) & 0xffff));
        return true;
    default: return elementwise(sim, thread, instr, out);
    }
}
