/* Between the files of the backward kernel of keys: its objects, and the records through which its producer tells the
   consumers about steps and tiles, so that they hold no coordinates. Read next: attention_backward_hopper_keys.c. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_BACKWARD_HOPPER_KEYS_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_BACKWARD_HOPPER_KEYS_H

#include "codegen/builders/attention_backward_hopper.h"

enum { WEFT_KEYS_STAGES = 2, WEFT_KEYS_STEPS = 4 };
enum { WEFT_KEYS_STEP_QUERY, WEFT_KEYS_STEP_FLAGS, WEFT_KEYS_STEP_ROW, WEFT_KEYS_STEP_LINE, WEFT_KEYS_STEP_HEAD };
enum {
    WEFT_KEYS_FLAG_MASKED = 1,
    WEFT_KEYS_FLAG_FIRST = 2,
    WEFT_KEYS_FLAG_LAST = 4
}; /* first, last: block of keys that adds to these queries */
enum { WEFT_KEYS_TILE_STEPS, WEFT_KEYS_TILE_KEY, WEFT_KEYS_TILE_HEAD, WEFT_KEYS_TILE_ZERO };

typedef struct weft_key_kernel {
    weft_backward *b;
    weft_kernel *k;
    weft_attention_side q, k_side, v, g, dk, dv, dq; /* g: dO */
    weft_kval map_lse, map_delta, sums, counters, dq_memory;
    weft_kval q_memory, k_memory, v_memory, do_memory, ds_memory, out_memory, lse_memory, delta_memory, steps, tiles;
    weft_kval q_full, q_empty, do_full, do_empty, kv_full, kv_empty, tile_full, tile_empty;
    weft_kval t, s, key_heads, group, tiles_q, together; /* lengths */
    weft_kval last_block;                                /* of keys; the producer's */
    int kv_bytes, kv_box, kv_buffers, q_bytes, q_box, ds_bytes, out_bytes, out_box;
    weft_dim list_heads; /* key heads of a batch */
    int words;           /* of a step or tile record: 4, or 8 where masks or dropout need the head */
    int statistics;      /* f32 of a stage: bm, and what keeps stages at multiples of 128 bytes */
} weft_key_kernel;

static inline void weft_keys_named(const weft_key_kernel *e, weft_kop op, weft_kval id, int threads) {
    weft_k_effect(e->k, op, 1, &id, threads, 0);
}
/* Word of a step or tile record. */
static inline weft_kval weft_keys_word(const weft_key_kernel *e, weft_kval memory, weft_kval record, int field) {
    return weft_k_load(e->k, memory, weft_k_plus(e->k, weft_k_times(e->k, record, e->words), field), 1, WEFT_KNONE,
                       WEFT_KNONE);
}
static inline void weft_keys_set_word(const weft_key_kernel *e, weft_kval memory, weft_kval record, int field,
                                      weft_kval value) {
    weft_k_store(e->k, memory, weft_k_plus(e->k, weft_k_times(e->k, record, e->words), field), WEFT_KNONE, value);
}
/* Parity of use n / 2 of a barrier that is used every other step. */
static inline weft_kval weft_keys_parity(const weft_key_kernel *e, weft_kval n) {
    weft_kval half = weft_k_binary(e->k, WEFT_K_shr, n, weft_k_index(e->k, 1));
    return weft_k_convert(e->k, weft_k_bits(e->k, half, 1), WEFT_U32);
}
/* Buffer of the keys and values of tile n (modulo 4) of the block, and the parity of that use. */
static inline weft_kval weft_keys_slot(const weft_key_kernel *e, weft_kval n) {
    return e->kv_buffers == 2 ? weft_k_bits(e->k, n, 1) : weft_k_index(e->k, 0);
}
static inline weft_kval weft_keys_slot_parity(const weft_key_kernel *e, weft_kval n) {
    return e->kv_buffers == 2 ? weft_keys_parity(e, n) : weft_k_convert(e->k, weft_k_bits(e->k, n, 1), WEFT_U32);
}

/* attention_backward_hopper_keys_consumer.c */
void weft_keys_consumer(const weft_key_kernel *e, weft_kval thread);

#endif
