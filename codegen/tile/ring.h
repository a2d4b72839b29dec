/* A ring of stages in shared memory between a producer and consumers: per stage a full barrier (the producer's bytes
   have landed) and an empty barrier (every reader is done). Slot and phase are variables of each role.

   Invariant: a parity wait is valid only when the phase before it is known complete; a role that takes every step in
   order keeps it. A fresh empty barrier lets the producer through: it waits for the opposite parity. Emits kernel IR;
   needs a capability with hopper. */
#ifndef WEFT_CODEGEN_TILE_RING_H
#define WEFT_CODEGEN_TILE_RING_H

#include "codegen/kernel/build.h"

typedef struct weft_ring {
    weft_kval full, empty; /* mbarrier objects */
    int stages;
    weft_kval slot, phase; /* variables of the role that called weft_ring_begin */
} weft_ring;

weft_ring weft_ring_create(weft_kernel *k, int stages);
/* By one thread before the block synchronises. */
void weft_ring_init(weft_kernel *k, const weft_ring *ring, int full_arrivals, int empty_arrivals);
/* The ring as one role sees it, from slot 0. */
weft_ring weft_ring_begin(weft_kernel *k, const weft_ring *ring);
weft_kval weft_ring_slot(weft_kernel *k, const weft_ring *ring);
void weft_ring_wait_full(weft_kernel *k, const weft_ring *ring);
void weft_ring_wait_empty(weft_kernel *k, const weft_ring *ring);
void weft_ring_expect(weft_kernel *k, const weft_ring *ring, int bytes);
void weft_ring_advance(weft_kernel *k, const weft_ring *ring);
/* Passes over `steps` that another role takes. The next wait still needs the phase before it to be known complete. */
void weft_ring_skip(weft_kernel *k, const weft_ring *ring, weft_kval steps);

/* -- barriers by themselves */
weft_kval weft_mbarrier_create(weft_kernel *k, int count);
void weft_mbarrier_emit(weft_kernel *k, weft_kop op, weft_kval barrier, weft_kval index, int64_t i);
void weft_mbarrier_wait(weft_kernel *k, weft_kval barrier, weft_kval index, weft_kval parity);
void weft_mbarrier_arrive_cta(weft_kernel *k, weft_kval barrier, weft_kval index, weft_kval rank);
/* Any row without a result. */
void weft_k_effect(weft_kernel *k, weft_kop op, int count, const weft_kval *operands, int64_t i, double f);

#endif
