/* Short constructors for kernel IR: builders read like the kernel they make. weft_k_* are wrappers over
   weft_kernel_emit; constants fold and trivial identities (x + 0, x * 1, splat of a constant) are not emitted.
   Binary helpers accept a scalar beside a vector and splat it. */
#ifndef WEFT_CODEGEN_KERNEL_BUILD_H
#define WEFT_CODEGEN_KERNEL_BUILD_H

#include "codegen/kernel/kernel.h"

weft_kval weft_k_integer(weft_kernel *k, weft_dtype elem, int64_t value);
weft_kval weft_k_float(weft_kernel *k, weft_dtype elem, double value);
weft_kval weft_k_constant_lanes(weft_kernel *k, weft_dtype elem, double value, int lanes); /* any element type */
/* An extent as a value of the index dtype: constant, or one scalar argument per distinct extent. */
weft_kval weft_k_extent(weft_kernel *k, weft_dim extent);
weft_kval weft_k_unary(weft_kernel *k, weft_kop op, weft_kval a);
weft_kval weft_k_binary(weft_kernel *k, weft_kop op, weft_kval a, weft_kval b);
weft_kval weft_k_fma(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c);
/* a b + c where one rounding is as good as two: sums and polynomials. Targets whose fma may round twice need no detour.
 */
weft_kval weft_k_mad(weft_kernel *k, weft_kval a, weft_kval b, weft_kval c);
weft_kval weft_k_select(weft_kernel *k, weft_kval mask, weft_kval a, weft_kval b);
weft_kval weft_k_convert(weft_kernel *k, weft_kval a, weft_dtype elem);
weft_kval weft_k_bitcast(weft_kernel *k, weft_kval a, weft_dtype elem);
weft_kval weft_k_splat(weft_kernel *k, weft_kval a, int lanes);
weft_kval weft_k_iota(weft_kernel *k, weft_dtype elem, int lanes);
weft_kval weft_k_extract(weft_kernel *k, weft_kval vector, int lane);
weft_kval weft_k_insert(weft_kernel *k, weft_kval vector, int lane, weft_kval scalar);
/* Every other lane of a followed by b, from lane `odd`; and the inverse: lanes of a and b in turn, half `high` of them.
 */
weft_kval weft_k_deal(weft_kernel *k, weft_kval a, weft_kval b, int odd);
weft_kval weft_k_zip(weft_kernel *k, weft_kval a, weft_kval b, int high);
weft_kval weft_k_reduce(weft_kernel *k, weft_kop op, weft_kval vector); /* WEFT_K_reduce_* ; 1 lane: itself */

weft_kval weft_k_load(weft_kernel *k, weft_kval memory, weft_kval index, int lanes, weft_kval mask, weft_kval other);
void weft_k_store(weft_kernel *k, weft_kval memory, weft_kval index, weft_kval mask, weft_kval value);
void weft_k_prefetch(weft_kernel *k, weft_kval memory, weft_kval index, int locality, bool write);
weft_kval weft_k_shared(weft_kernel *k, weft_dtype elem, weft_dim extent);
weft_kval weft_k_var(weft_kernel *k, weft_kval initial);
weft_kval weft_k_regs(weft_kernel *k, weft_dtype elem, int lanes, int count);
weft_kval weft_k_get(weft_kernel *k, weft_kval var);
void weft_k_set(weft_kernel *k, weft_kval var, weft_kval value);
weft_kval weft_k_get_at(weft_kernel *k, weft_kval regs, weft_kval index);
void weft_k_set_at(weft_kernel *k, weft_kval regs, weft_kval index, weft_kval value);

/* value of the loop variable; close with weft_k_end. unroll: 0 none, -1 full, n times. */
weft_kval weft_k_for(weft_kernel *k, weft_kval lo, weft_kval hi, weft_kval step, int unroll);
void weft_k_if(weft_kernel *k, weft_kval condition);
void weft_k_else(weft_kernel *k);
void weft_k_while(weft_kernel *k);
void weft_k_test(weft_kernel *k, weft_kval condition);
void weft_k_end(weft_kernel *k);
weft_kval weft_k_thread(weft_kernel *k);
weft_kval weft_k_block(weft_kernel *k);
void weft_k_barrier(weft_kernel *k);
weft_kval weft_k_shuffle_xor(weft_kernel *k, weft_kval value, int distance);

/* is `value` an integer constant? */
bool weft_k_is_constant(const weft_kernel *k, weft_kval value, int64_t *out_value);

static inline weft_kval weft_k_add(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_add, a, b);
}
static inline weft_kval weft_k_sub(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_sub, a, b);
}
static inline weft_kval weft_k_mul(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_mul, a, b);
}
static inline weft_kval weft_k_div(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_div, a, b);
}
static inline weft_kval weft_k_rem(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_rem, a, b);
}
static inline weft_kval weft_k_min(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_min, a, b);
}
static inline weft_kval weft_k_max(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_max, a, b);
}
static inline weft_kval weft_k_and(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_and, a, b);
}
static inline weft_kval weft_k_or(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_or, a, b);
}
static inline weft_kval weft_k_xor(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_xor, a, b);
}
static inline weft_kval weft_k_eq(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_eq, a, b);
}
static inline weft_kval weft_k_ne(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_ne, a, b);
}
static inline weft_kval weft_k_lt(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_lt, a, b);
}
static inline weft_kval weft_k_le(weft_kernel *k, weft_kval a, weft_kval b) {
    return weft_k_binary(k, WEFT_K_le, a, b);
}
/* of the kernel's index dtype */
static inline weft_kval weft_k_index(weft_kernel *k, int64_t value) {
    return weft_k_integer(k, k->capability->index_dtype, value);
}

#endif
