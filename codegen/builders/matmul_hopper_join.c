/* k split over the blocks of a cluster: every block multiplies one part of k of the same tile, then sends each of the
   others the sums of that one's columns, through their shared memory; it adds what it gets always in the order of the
   parts, so that equal schedules give equal bits. No temporary and no second launch, as parts on blocks far from each
   other need (matmul_hopper_sum.c): for few rows, whose tiles do not fill the card by themselves.

   A place of the buffer holds four registers of a lane as they are: [part, consumer, warp, group of 8 columns, lane].
   A cluster has one tile, so that nobody writes what is still read. Read next: matmul_hopper_kernel.c. */
#include "codegen/builders/matmul_hopper.h"

enum { PLACE_BYTES = 16, GROUP_BYTES = 32 * PLACE_BYTES };

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval times(weft_hopper *h, weft_kval a, int64_t b) { return weft_k_mul(h->k, a, index_of(h, b)); }
static weft_kval plus(weft_hopper *h, weft_kval a, weft_kval b) { return weft_k_add(h->k, a, b); }

/* Groups of 8 columns that a block adds up. */
static int groups_of(const weft_hopper *h) { return h->bn / 8 / h->join; }

static int part_bytes(const weft_hopper *h) { return h->consumers * 4 * groups_of(h) * GROUP_BYTES; }

void weft_hopper_join_create(weft_hopper *h) {
    h->joined = weft_k_shared(h->k, WEFT_F32, (weft_dim)h->join * part_bytes(h) / 4);
    h->arrived = weft_mbarrier_create(h->k, 1);
}

void weft_hopper_join_init(weft_hopper *h) {
    weft_kval zero = index_of(h, 0);
    weft_mbarrier_emit(h->k, WEFT_K_mbarrier_init, h->arrived, zero, 1);
    weft_mbarrier_emit(h->k, WEFT_K_mbarrier_expect, h->arrived, zero, h->join * part_bytes(h));
}

weft_kval weft_hopper_join(weft_hopper *h, weft_kval sums, weft_kval consumer, weft_kval warp, weft_kval lane) {
    weft_kernel *k = h->k;
    int groups = groups_of(h);
    weft_kval own = plus(h, times(h, plus(h, times(h, consumer, 4), warp), (int64_t)groups * GROUP_BYTES),
                         times(h, lane, PLACE_BYTES));
    weft_kval from = plus(h, own, times(h, h->part, part_bytes(h)));
    for (int i = 0; i < h->join * groups; i++) {
        weft_kval operands[9] = {h->joined, plus(h, from, index_of(h, (int64_t)(i % groups) * GROUP_BYTES)), h->arrived,
                                 index_of(h, 0), weft_k_integer(k, WEFT_U32, i / groups)};
        for (int r = 0; r < 4; r++) operands[5 + r] = weft_k_get_at(k, sums, index_of(h, 4 * i + r));
        weft_k_effect(k, WEFT_K_remote_store, 9, operands, 0, 0);
    }
    weft_k_effect(k, WEFT_K_mbarrier_wait, 3, (weft_kval[]){h->arrived, index_of(h, 0), weft_k_integer(k, WEFT_U32, 0)},
                  1, 0);
    weft_kval out = weft_k_regs(k, WEFT_F32, 1, 4 * groups);
    for (int group = 0; group < groups; group++) {
        weft_kval total = WEFT_KNONE;
        for (int part = 0; part < h->join; part++) {
            weft_kval at = plus(h, own, index_of(h, (int64_t)part * part_bytes(h) + (int64_t)group * GROUP_BYTES));
            weft_kval each = weft_k_load(k, h->joined, weft_k_div(k, at, index_of(h, 4)), 4, WEFT_KNONE, WEFT_KNONE);
            if (!k->failed) k->instrs[each].align_bytes = PLACE_BYTES;
            total = part ? weft_k_add(k, total, each) : each;
        }
        for (int r = 0; r < 4; r++) weft_k_set_at(k, out, index_of(h, 4 * group + r), weft_k_extract(k, total, r));
    }
    return out;
}
