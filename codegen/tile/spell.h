/* Short forms for builders that write whole kernels: arithmetic with numbers of the index dtype, registers by number,
   rows without operands, consumers of a block with roles. Nothing here emits more than one row per operation it names.
   Read next: ring.h, wgmma.h. */
#ifndef WEFT_CODEGEN_TILE_SPELL_H
#define WEFT_CODEGEN_TILE_SPELL_H

#include "codegen/tile/ring.h"

static inline weft_kval weft_k_plus(weft_kernel *k, weft_kval x, int64_t y) {
    return weft_k_add(k, x, weft_k_index(k, y));
}
static inline weft_kval weft_k_times(weft_kernel *k, weft_kval x, int64_t y) {
    return weft_k_mul(k, x, weft_k_index(k, y));
}
static inline weft_kval weft_k_bits(weft_kernel *k, weft_kval x, int64_t mask) {
    return weft_k_and(k, x, weft_k_index(k, mask));
}
static inline weft_kval weft_k_f32(weft_kernel *k, double value) { return weft_k_float(k, WEFT_F32, value); }

/* Register i of a register array. */
static inline weft_kval weft_k_reg(weft_kernel *k, weft_kval regs, int i) {
    return weft_k_get_at(k, regs, weft_k_index(k, i));
}
static inline void weft_k_set_reg(weft_kernel *k, weft_kval regs, int i, weft_kval value) {
    weft_k_set_at(k, regs, weft_k_index(k, i), value);
}

/* Fences, commits and waits that take no operand. */
static inline void weft_k_event(weft_kernel *k, weft_kop op, int64_t i) { weft_k_effect(k, op, 0, NULL, i, 0); }
static inline void weft_mbarrier_arrive(weft_kernel *k, weft_kval barrier, weft_kval index) {
    weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, barrier, index, 0);
}
static inline void weft_mma_wait_for(weft_kernel *k, int count, const weft_kval *tiles, int in_flight) {
    weft_k_effect(k, WEFT_K_mma_wait, count, tiles, in_flight, 0);
}

/* Where a thread stands among consumer warpgroups that follow one producer warpgroup. thread: of its warpgroup; warp:
   of its warpgroup's four. */
typedef struct weft_consumer_place {
    weft_kval number, lane, warp, thread;
} weft_consumer_place;

static inline weft_consumer_place weft_consumer_place_of(weft_kernel *k, weft_kval thread) {
    weft_consumer_place place;
    weft_kval group = weft_k_div(k, thread, weft_k_index(k, 128));
    group = weft_kernel_emit(k, WEFT_K_warp_uniform, weft_ktype_of(k, group), 1, &group, 0, 0);
    place.number = weft_k_plus(k, group, -1);
    place.lane = weft_k_rem(k, thread, weft_k_index(k, 32));
    place.warp = weft_k_rem(k, weft_k_div(k, thread, weft_k_index(k, 32)), weft_k_index(k, 4));
    place.thread = weft_k_rem(k, thread, weft_k_index(k, 128));
    return place;
}

#endif
