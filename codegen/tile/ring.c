/* See ring.h. */
#include "codegen/tile/ring.h"

static const weft_ktype type_void = {WEFT_KIND_VOID, 0, 0};

void weft_k_effect(weft_kernel *k, weft_kop op, int count, const weft_kval *operands, int64_t i, double f) {
    weft_kernel_emit(k, op, type_void, count, operands, i, f);
}

weft_kval weft_mbarrier_create(weft_kernel *k, int count) {
    return weft_kernel_emit(k, WEFT_K_mbarrier, (weft_ktype){WEFT_KIND_MBARRIER, WEFT_U64, 1}, 0, NULL, count, 0);
}

void weft_mbarrier_emit(weft_kernel *k, weft_kop op, weft_kval barrier, weft_kval index, int64_t i) {
    weft_k_effect(k, op, 2, (weft_kval[]){barrier, index}, i, 0);
}

void weft_mbarrier_wait(weft_kernel *k, weft_kval barrier, weft_kval index, weft_kval parity) {
    weft_k_effect(k, WEFT_K_mbarrier_wait, 3, (weft_kval[]){barrier, index, parity}, 0, 0);
}

void weft_mbarrier_arrive_cta(weft_kernel *k, weft_kval barrier, weft_kval index, weft_kval rank) {
    weft_k_effect(k, WEFT_K_mbarrier_arrive_cta, 3, (weft_kval[]){barrier, index, rank}, 0, 0);
}

weft_ring weft_ring_create(weft_kernel *k, int stages) {
    return (weft_ring){weft_mbarrier_create(k, stages), weft_mbarrier_create(k, stages), stages, WEFT_KNONE,
                       WEFT_KNONE};
}

void weft_ring_init(weft_kernel *k, const weft_ring *ring, int full_arrivals, int empty_arrivals) {
    for (int s = 0; s < ring->stages; s++) {
        weft_mbarrier_emit(k, WEFT_K_mbarrier_init, ring->full, weft_k_index(k, s), full_arrivals);
        weft_mbarrier_emit(k, WEFT_K_mbarrier_init, ring->empty, weft_k_index(k, s), empty_arrivals);
    }
}

weft_ring weft_ring_begin(weft_kernel *k, const weft_ring *ring) {
    weft_ring own = *ring;
    own.slot = weft_k_var(k, weft_k_index(k, 0));
    own.phase = weft_k_var(k, weft_k_integer(k, WEFT_U32, 0));
    return own;
}

weft_kval weft_ring_slot(weft_kernel *k, const weft_ring *ring) { return weft_k_get(k, ring->slot); }

void weft_ring_wait_full(weft_kernel *k, const weft_ring *ring) {
    weft_mbarrier_wait(k, ring->full, weft_k_get(k, ring->slot), weft_k_get(k, ring->phase));
}

void weft_ring_wait_empty(weft_kernel *k, const weft_ring *ring) {
    weft_kval other = weft_k_xor(k, weft_k_get(k, ring->phase), weft_k_integer(k, WEFT_U32, 1));
    weft_mbarrier_wait(k, ring->empty, weft_k_get(k, ring->slot), other);
}

void weft_ring_expect(weft_kernel *k, const weft_ring *ring, int bytes) {
    weft_mbarrier_emit(k, WEFT_K_mbarrier_expect, ring->full, weft_k_get(k, ring->slot), bytes);
}

void weft_ring_advance(weft_kernel *k, const weft_ring *ring) {
    weft_kval next = weft_k_add(k, weft_k_get(k, ring->slot), weft_k_index(k, 1));
    weft_kval wraps = weft_k_eq(k, next, weft_k_index(k, ring->stages)), phase = weft_k_get(k, ring->phase);
    weft_k_set(k, ring->slot, weft_k_select(k, wraps, weft_k_index(k, 0), next));
    weft_k_set(k, ring->phase, weft_k_xor(k, phase, weft_k_convert(k, wraps, WEFT_U32)));
}

void weft_ring_skip(weft_kernel *k, const weft_ring *ring, weft_kval steps) {
    weft_kval to = weft_k_add(k, weft_k_get(k, ring->slot), steps), stages = weft_k_index(k, ring->stages);
    weft_kval rounds = weft_k_and(k, weft_k_div(k, to, stages), weft_k_index(k, 1));
    weft_k_set(k, ring->phase, weft_k_xor(k, weft_k_get(k, ring->phase), weft_k_convert(k, rounds, WEFT_U32)));
    weft_k_set(k, ring->slot, weft_k_rem(k, to, stages));
}
