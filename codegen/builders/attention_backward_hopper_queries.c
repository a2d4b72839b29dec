/* dQ by blocks of queries: the kernel of queries of attention_backward_hopper.c, for sums in a fixed order.

   A block owns 128 queries of a head (two consumers of 64). It takes their statistics first, L from the log-sum-exp and
   delta = rowsum(dO O), and leaves them for the kernel of keys, which runs after it. Then it loops over blocks of 128
   keys from the last one down: S = Q K^T, dP = dO V^T, dS = exp2(c S - L) (dP - delta), packed from the accumulators
   into the operand of dQ += dS K. Where the gradient of the scores is asked for, dS is stored on the way. Heads that
   share the L2 side by side, the longest tiles first, every other round of the blocks backwards. */
#include "codegen/builders/attention_backward_hopper.h"

#include <math.h>

enum { STAGES = 2, TILE = WEFT_BACKWARD_QUERY_TILE, DQ_STAGED = 1, TURN = 3 /* named barriers, plus the consumer */ };

typedef struct query_kernel {
    weft_backward *b;
    weft_kernel *k;
    weft_attention_side q, k_side, v, g, o, dq; /* g: dO */
    weft_kval lse, lse2, delta, counters;
    weft_kval ds_memory;   /* of scores, f32; WEFT_KNONE: nobody asks for it */
    weft_kval zero_memory; /* one 0: what is added from there is computed in every step, not kept over them */
    weft_kval q_memory, do_memory, o_memory, k_memory, v_memory;
    weft_ring k_ring, v_ring;
    weft_kval q_full, q_empty;
    weft_kval first, stride;                             /* of this block's tiles */
    weft_kval t, s, heads, group, rows, tiles, together; /* lengths; tiles of one head */
    int kv_bytes, kv_box, q_bytes, q_box;                /* q: of one consumer */
    int block;                                           /* of keys: fewer where masks need registers */
    bool separate;                                       /* statistics come from a kernel of their own */
} query_kernel;

static weft_kval as_parity(const query_kernel *e, weft_kval phase) { return weft_k_convert(e->k, phase, WEFT_U32); }

typedef struct query_tile {
    weft_kval query, head; /* first query; head of all batches */
    weft_kval last,
        blocks; /* of keys that some query sees: the last one, and how many down from there or of the list */
    weft_kval list;
} query_tile;

/* The block of step i; out_part: as of weft_attention_block. */
static weft_kval block_of(const query_kernel *e, const query_tile *tile, weft_kval i, weft_kval *out_part) {
    if (out_part) *out_part = WEFT_KNONE;
    if (!e->b->listed) return weft_k_sub(e->k, tile->last, i);
    bool always = weft_attention_natural(&e->b->forms);
    return weft_attention_listed(&e->b->query_pairs, tile->list, i, always ? NULL : out_part);
}

static query_tile place(const query_kernel *e, weft_kval t) {
    weft_kernel *k = e->k;
    if (e->b->causal) { /* tiles get shorter: no block shall always have the longer ones of a round */
        weft_kval round = weft_k_div(k, t, e->stride), own = weft_k_rem(k, t, e->stride);
        weft_kval end = weft_k_mul(k, weft_k_plus(e->k, round, 1), e->stride),
                  odd = weft_k_and(k, round, weft_k_index(e->k, 1));
        weft_kval turns = weft_k_and(k, weft_k_eq(k, odd, weft_k_index(e->k, 1)),
                                     weft_k_le(k, end, weft_k_mul(k, e->tiles, e->heads)));
        t = weft_k_select(k, turns, weft_k_sub(k, weft_k_plus(e->k, end, -1), own), t);
    }
    weft_kval from = weft_k_mul(k, weft_k_div(k, t, weft_k_mul(k, e->together, e->tiles)), e->together);
    weft_kval width = weft_k_min(k, e->together, weft_k_sub(k, e->heads, from)),
              rest = weft_k_sub(k, t, weft_k_mul(k, from, e->tiles));
    weft_kval tile = weft_k_sub(k, weft_k_plus(e->k, e->tiles, -1), weft_k_div(k, rest, width));
    query_tile place = {.query = weft_k_times(e->k, tile, TILE),
                        .head = weft_k_add(k, from, weft_k_rem(k, rest, width))};
    place.list = WEFT_KNONE;
    if (e->b->listed) {
        place.list = weft_attention_list(&e->b->query_pairs, place.head, e->b->forms.heads, tile, &place.blocks);
        place.last = block_of(e, &place, weft_k_index(k, 0), NULL);
        return place;
    }
    weft_kval end = weft_attention_end_key(&e->b->forms, weft_k_plus(k, place.query, TILE - 1));
    weft_kval blocks = weft_k_div(k, weft_k_plus(k, end, e->block - 1), weft_k_index(k, e->block));
    place.last = weft_k_plus(k, blocks, -1), place.blocks = blocks;
    return place;
}

/* -- producer */

static void load_block(const query_kernel *e, const weft_ring *ring, weft_kval memory, const weft_attention_side *side,
                       weft_kval key, weft_kval head) {
    weft_kernel *k = e->k;
    weft_kval slot = weft_ring_slot(k, ring);
    weft_ring_wait_empty(k, ring);
    weft_ring_expect(k, ring, e->kv_bytes);
    weft_backward_load(e->b, memory, weft_k_times(e->k, slot, e->kv_bytes), e->kv_box, side, ring->full, slot, key,
                       head);
    weft_ring_advance(k, ring);
}

static void emit_producer(const query_kernel *e) {
    weft_kernel *k = e->k;
    weft_ring k_ring = weft_ring_begin(k, &e->k_ring), v_ring = weft_ring_begin(k, &e->v_ring);
    weft_kval zero = weft_k_index(e->k, 0), one = weft_k_index(e->k, 1), phase = weft_k_var(k, zero);
    weft_kval t = weft_k_for(k, e->first, weft_k_mul(k, e->tiles, e->heads), e->stride, 0);
    weft_kval parity = as_parity(e, weft_k_xor(k, weft_k_get(k, phase), one));
    query_tile tile = place(e, t);
    weft_kval key_head = weft_k_div(k, tile.head, e->group);
    weft_mbarrier_wait(k, e->q_empty, zero, parity);
    weft_mbarrier_emit(k, WEFT_K_mbarrier_expect, e->q_full, zero,
                       (e->separate ? 2 : 3) * WEFT_BACKWARD_CONSUMERS * e->q_bytes);
    for (int w = 0; w < WEFT_BACKWARD_CONSUMERS; w++) {
        weft_kval row = weft_k_plus(e->k, tile.query, WEFT_BACKWARD_ROWS * w),
                  at = weft_k_index(e->k, (int64_t)w * e->q_bytes);
        weft_backward_load(e->b, e->q_memory, at, e->q_box, &e->q, e->q_full, zero, row, tile.head);
        weft_backward_load(e->b, e->do_memory, at, e->q_box, &e->g, e->q_full, zero, row, tile.head);
        if (!e->separate) weft_backward_load(e->b, e->o_memory, at, e->q_box, &e->o, e->q_full, zero, row, tile.head);
    }
    weft_kval i = weft_k_for(k, zero, tile.blocks, one, 0);
    weft_kval key = weft_k_times(k, block_of(e, &tile, i, NULL), e->block);
    load_block(e, &k_ring, e->k_memory, &e->k_side, key, key_head);
    load_block(e, &v_ring, e->v_memory, &e->v, key, key_head);
    weft_k_end(k);
    weft_k_set(k, phase, weft_k_xor(k, weft_k_get(k, phase), one));
    weft_k_end(k);
}

/* -- consumer */

typedef struct consumer {
    const query_kernel *e;
    weft_kernel *k;
    weft_consumer_place at;
    weft_kval dq, l[2], delta[2]; /* l, delta: variables, of rows lane / 4 and lane / 4 + 8; l negated */
    weft_kval q_at, q_rows, do_rows;
    weft_kval row;  /* the query of row lane / 4; a value */
    weft_kval head; /* of the tile */
    weft_ring k_ring, v_ring;
    weft_attention_draw draw;
} consumer;

static void release(const consumer *c, const weft_ring *ring) {
    weft_k_if(c->k, weft_k_eq(c->k, c->at.lane, weft_k_index(c->k, 0)));
    weft_mbarrier_arrive(c->k, ring->empty, weft_ring_slot(c->k, ring));
    weft_k_end(c->k);
    weft_ring_advance(c->k, ring);
}

/* Register r of a lane: query lane / 4 + 8 (r / 2 % 2), key 8 (r / 4) + 2 (lane % 4) + r % 2. Scores become weights,
   times the slope of the cap, if there is one. key: the first of the block; part: whether there is anything to mask,
   WEFT_KNONE: always. */
static void make_weights(const consumer *c, weft_kval s, bool masked, weft_kval key, weft_kval part) {
    weft_backward *b = c->e->b;
    weft_kernel *k = c->k;
    bool plain = weft_attention_plain(&b->forms);
    size_t mark = weft_index_mark(&b->forms.index);
    weft_kval scale = weft_k_f32(k, weft_attention_factor(&b->forms));
    weft_kval own = WEFT_KNONE, first = c->row; /* key of this lane's column 0; query of its row 0 */
    if (!plain)
        first = weft_k_add(k, first, weft_k_load(k, c->e->zero_memory, weft_k_index(k, 0), 1, WEFT_KNONE, WEFT_KNONE));
    if (part != WEFT_KNONE) weft_k_if(k, part);
    if (masked || !plain) own = weft_k_add(k, key, weft_k_times(k, weft_k_bits(k, c->at.lane, 3), 2));
    for (int h = 0; h < 2; h++) {
        weft_kval end = WEFT_KNONE, l = weft_k_get(k, c->l[h]), row = weft_k_plus(k, first, 8 * h);
        if (masked) end = weft_k_sub(k, weft_attention_end_key(&b->forms, row), own);
        weft_kval pair[2], slopes[2] = {WEFT_KNONE, WEFT_KNONE};
        for (int i = 0; i < c->e->block / 4; i++) {
            int r = i / 2 * 4 + 2 * h + i % 2, column = 8 * (i / 2) + i % 2;
            if (i % 2 == 0) { /* two keys side by side, the first one even */
                for (int e = 0; e < 2; e++) pair[e] = weft_k_reg(k, s, r + e);
                weft_attention_form_pair(&b->forms, pair, c->head, row, own, column, pair, slopes);
            }
            weft_kval x = pair[i % 2], slope = slopes[i % 2];
            weft_kval hidden = masked ? weft_k_le(k, end, weft_k_index(k, column)) : WEFT_KNONE;
            if (masked) x = weft_k_select(k, hidden, weft_k_f32(k, -INFINITY), x);
            if (part != WEFT_KNONE) {
                weft_k_set_reg(k, s, r, x);
                continue;
            }
            x = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, x, scale, l));
            weft_k_set_reg(k, s, r, slope == WEFT_KNONE ? x : weft_k_mul(k, x, slope));
        }
    }
    if (part != WEFT_KNONE) weft_k_end(k);
    for (int r = 0; part != WEFT_KNONE && r < c->e->block / 2; r++) {
        weft_kval l = weft_k_get(k, c->l[r / 2 % 2]), x = weft_k_fma(k, weft_k_reg(k, s, r), scale, l);
        weft_k_set_reg(k, s, r, weft_k_unary(k, WEFT_K_exp2_fast, x));
    }
    weft_index_release(&b->forms.index, mark);
}

/* Weights that are dropped become negative. Register r of 16 keys: query 8 (r / 2 % 2), key r % 2 + 8 (r / 4). */
static void mark_dropped(const consumer *c, weft_kval s, weft_kval key) {
    weft_kernel *k = c->k;
    weft_kval own = weft_k_add(k, key, weft_k_times(k, weft_k_bits(k, c->at.lane, 3), 2));
    weft_kval number = weft_attention_draw_number(&c->draw, c->head, c->row, own);
    for (int i = 0; i < c->e->block / 16; i++)
        for (int e = 0; e < 2; e++) {
            weft_kval words[2];
            weft_attention_draw_bits(&c->draw, weft_attention_draw_moved(&c->draw, number, 0, 8 * i + e), words);
            for (int q = 0; q < 4; q++) {
                int r = 8 * i + e + 2 * q;
                weft_k_set_reg(k, s, r, weft_attention_mark(&c->draw, weft_k_reg(k, s, r), words[q % 2], q / 2));
            }
        }
}

/* The gradient of the scores of a block: two neighbouring keys of a row from x, or zeros. key: first of the block. */
static void store_scores(const consumer *c, int i, const weft_kval *x, weft_kval key) {
    const query_kernel *e = c->e;
    weft_kernel *k = c->k;
    bool even = weft_dim_divisor(k->dims, e->b->keys) % 2 == 0;
    weft_kval row = weft_k_plus(k, c->row, 8 * (i % 2)), inside = weft_k_lt(k, row, e->t);
    weft_kval column =
        weft_k_add(k, weft_k_plus(k, key, 8 * (i / 2)), weft_k_times(k, weft_k_bits(k, c->at.lane, 3), 2));
    weft_kval line = weft_k_mul(k, weft_k_add(k, weft_k_mul(k, c->head, e->t), row), e->s),
              at = weft_k_add(k, line, column);
    weft_kval both = weft_k_constant_lanes(k, WEFT_F32, 0, 2);
    for (int n = 0; n < 2; n++) {
        weft_kval there = weft_k_and(k, inside, weft_k_lt(k, weft_k_plus(k, column, n), e->s));
        if (even && n == 0) inside = there;
        if (x) both = weft_k_insert(k, both, n, x[n]);
        if (!even) weft_k_store(k, e->ds_memory, weft_k_plus(k, at, n), there, weft_k_extract(k, both, n));
    }
    if (!even) return;
    weft_k_store(k, e->ds_memory, at, inside, both);
    if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 8;
}

/* Scores of keys that no query of the tile sees have the gradient 0. */
static void clear_scores(const consumer *c, const query_tile *tile) {
    const query_kernel *e = c->e;
    weft_kernel *k = c->k;
    if (e->ds_memory == WEFT_KNONE || !e->b->causal) return;
    weft_kval all = weft_k_div(k, weft_k_plus(k, e->s, e->block - 1), weft_k_index(k, e->block));
    weft_kval block = weft_k_for(k, tile->blocks, all, weft_k_index(k, 1), 0);
    for (int i = 0; i < e->block / 4; i++) store_scores(c, i, NULL, weft_k_times(k, block, e->block));
    weft_k_end(k);
}

/* Turns at the tensor cores: WEFT_BACKWARD_TURNS_QUERIES. */
static void take_turn(const consumer *c) {
    weft_kval id = weft_k_plus(c->k, c->at.number, TURN);
    if (c->e->b->way & WEFT_BACKWARD_TURNS_QUERIES) weft_k_effect(c->k, WEFT_K_named_sync, 1, &id, 256, 0);
}
static void pass_turn(const consumer *c) {
    weft_kval id = weft_k_sub(c->k, weft_k_index(c->k, TURN + 1), c->at.number);
    if (c->e->b->way & WEFT_BACKWARD_TURNS_QUERIES) weft_k_effect(c->k, WEFT_K_named_arrive, 1, &id, 256, 0);
}

static void emit_step(const consumer *c, bool first, bool masked, weft_kval key, weft_kval part) {
    const query_kernel *e = c->e;
    const weft_backward *b = e->b;
    weft_kernel *k = c->k;
    const int keys = e->block;
    weft_kval s = weft_k_regs(k, WEFT_F32, 1, keys / 2), dp = weft_k_regs(k, WEFT_F32, 1, keys / 2),
              ds = weft_k_regs(k, WEFT_U32, 1, keys / 4);
    weft_kval k_at = weft_k_times(e->k, weft_ring_slot(k, &c->k_ring), e->kv_bytes),
              v_at = weft_k_times(e->k, weft_ring_slot(k, &c->v_ring), e->kv_bytes);
    bool late = !weft_attention_plain(&b->forms); /* dP after the weights: masks need its registers */
    weft_kval k_tile = weft_wgmma_operand(k, e->k_memory, k_at, 16),
              v_tile = weft_wgmma_operand(k, e->v_memory, v_at, 16);
    weft_ring_wait_full(k, &c->k_ring);
    if (first) take_turn(c);
    weft_k_event(k, WEFT_K_mma_fence, 0);
    weft_wgmma_inner(k, weft_backward_unit(b, keys), b->width, s, c->q_rows, e->q_box, k_tile, e->kv_box);
    weft_ring_wait_full(k, &c->v_ring);
    weft_k_event(k, WEFT_K_mma_fence, 0);
    if (!late) weft_wgmma_inner(k, weft_backward_unit(b, keys), b->width, dp, c->do_rows, e->q_box, v_tile, e->kv_box);
    pass_turn(c);
    weft_mma_wait_for(k, 1, &s, late ? 0 : 1);
    make_weights(c, s, masked, key, part);
    if (weft_attention_draws(&b->forms)) mark_dropped(c, s, key);
    if (late) {
        weft_k_event(k, WEFT_K_mma_fence, 0);
        weft_wgmma_inner(k, weft_backward_unit(b, keys), b->width, dp, c->do_rows, e->q_box, v_tile, e->kv_box);
    }
    weft_mma_wait_for(k, 1, &dp, 0);
    release(c, &c->v_ring);
    for (int i = 0; i < keys / 4; i++) {
        weft_kval delta = weft_k_get(k, c->delta[i % 2]), x[2];
        for (int n = 0; n < 2; n++) {
            weft_kval p = weft_k_reg(k, s, 2 * i + n), slope = weft_k_reg(k, dp, 2 * i + n);
            x[n] = weft_attention_draws(&b->forms) ? weft_attention_marked_slope(&c->draw, p, slope, delta)
                                                   : weft_k_mul(k, p, weft_k_sub(k, slope, delta));
        }
        if (e->ds_memory != WEFT_KNONE) store_scores(c, i, x, key);
        weft_k_set_reg(c->k, ds, i, weft_wgmma_pack(k, x[0], x[1], b->dtype));
    }
    take_turn(c);
    weft_k_event(k, WEFT_K_mma_fence, 0);
    weft_wgmma_outer(k, weft_backward_unit(b, b->width), keys, c->dq, ds,
                     weft_wgmma_operand(k, e->k_memory, k_at, e->kv_box), first);
    weft_mma_wait_for(k, 1, &c->dq, 0);
    release(c, &c->k_ring);
}

/* dQ leaves through this consumer's own part of Q, whose last reader is done. */
static void send(const consumer *c, const query_tile *tile) {
    const query_kernel *e = c->e;
    const weft_backward *b = e->b;
    weft_kernel *k = c->k;
    weft_kval row =
        weft_k_add(k, weft_k_times(e->k, c->at.warp, 16), weft_k_rem(k, c->at.lane, weft_k_index(e->k, 16)));
    weft_kval row_at = weft_k_add(k, c->q_at, weft_k_times(e->k, row, 128));
    weft_backward_stage(c->e->b, c->dq, b->scale, e->q_memory, row_at, c->at.lane, e->q_box);
    weft_kval id = weft_k_plus(e->k, c->at.number, DQ_STAGED);
    weft_k_effect(k, WEFT_K_named_sync, 1, &id, 128, 0);
    weft_k_if(k, weft_k_eq(k, c->at.thread, weft_k_index(e->k, 0)));
    weft_kval query = weft_k_add(k, tile->query, weft_k_times(e->k, c->at.number, WEFT_BACKWARD_ROWS));
    weft_backward_send(c->e->b, &e->dq, e->q_memory, c->q_at, e->q_box, query, tile->head);
    weft_k_effect(k, WEFT_K_bulk_wait, 0, NULL, 0, 1);
    weft_mbarrier_arrive(e->k, e->q_empty, weft_k_index(e->k, 0));
    weft_k_end(k);
}

/* Part of the sum of dO O of row lane / 4 + 8 h: 16-byte pieces lane % 4, lane % 4 + 4 ... of 64 columns lie swizzled
   by the row. */
static weft_kval delta_part(const consumer *c, int h) {
    const query_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval row = weft_k_plus(
        e->k, weft_k_add(k, weft_k_times(e->k, c->at.warp, 16), weft_k_div(k, c->at.lane, weft_k_index(e->k, 4))),
        8 * h);
    weft_kval row_at = weft_k_add(k, c->q_at, weft_k_times(e->k, row, 128)), sum = WEFT_KNONE;
    for (int piece = 0; piece < e->b->width / 8; piece += 4) {
        weft_kval column = weft_k_plus(e->k, weft_k_and(k, c->at.lane, weft_k_index(e->k, 3)), piece % 8);
        weft_kval inside = weft_k_times(e->k, weft_k_xor(k, column, weft_k_and(k, row, weft_k_index(e->k, 7))), 16);
        weft_kval at = weft_k_plus(e->k, weft_k_add(k, row_at, inside), (int64_t)(piece / 8) * e->q_box), x[2];
        for (int i = 0; i < 2; i++) {
            weft_kval memory = i ? e->o_memory : e->do_memory;
            x[i] = weft_k_load(k, memory, weft_k_div(k, at, weft_k_index(e->k, 2)), 8, WEFT_KNONE, WEFT_KNONE);
            if (!k->failed) k->instrs[x[i]].align_bytes = 16;
            x[i] = weft_k_convert(k, x[i], WEFT_F32);
        }
        for (int lane = 0; lane < 8; lane++) {
            weft_kval g = weft_k_extract(k, x[0], lane), o = weft_k_extract(k, x[1], lane);
            sum = sum == WEFT_KNONE ? weft_k_mul(k, g, o) : weft_k_fma(k, g, o, sum);
        }
    }
    return sum;
}

/* Statistics of both rows of the lane that a kernel before this one left. */
static void take_statistics(const consumer *c, const query_tile *tile) {
    const query_kernel *e = c->e;
    weft_kernel *k = c->k;
    for (int h = 0; h < 2; h++) {
        weft_kval row = weft_k_plus(k, c->row, 8 * h), inside = weft_k_lt(k, row, e->t),
                  at = weft_k_add(k, weft_k_mul(k, tile->head, e->rows), row);
        weft_kval l = weft_k_load(k, e->lse2, at, 1, inside, weft_k_f32(k, INFINITY));
        weft_k_set(k, c->l[h], weft_k_unary(k, WEFT_K_neg, l));
        weft_k_set(k, c->delta[h], weft_k_load(k, e->delta, at, 1, inside, weft_k_f32(k, 0)));
    }
}

/* Statistics of both rows of the lane, kept and, by one lane of the four that share a row, stored. A row that sees no
   key has L = +inf: P is 0 there. */
static void make_statistics(const consumer *c, const query_tile *tile) {
    const query_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval leader = weft_k_eq(k, weft_k_and(k, c->at.lane, weft_k_index(e->k, 3)), weft_k_index(e->k, 0));
    for (int h = 0; h < 2; h++) {
        weft_kval row = weft_k_plus(e->k, c->row, 8 * h), inside = weft_k_lt(k, row, e->t);
        weft_kval l = weft_k_load(k, e->lse, weft_k_add(k, weft_k_mul(k, tile->head, e->t), row), 1, inside,
                                  weft_k_f32(c->k, -INFINITY));
        weft_kval none = weft_k_eq(k, l, weft_k_f32(c->k, -INFINITY)), delta = delta_part(c, h);
        l = weft_k_select(k, none, weft_k_f32(c->k, INFINITY), weft_k_mul(k, l, weft_k_f32(c->k, 1.4426950408889634)));
        for (int distance = 1; distance <= 2; distance *= 2)
            delta = weft_k_add(k, delta, weft_k_shuffle_xor(k, delta, distance));
        weft_k_set(k, c->l[h], weft_k_unary(k, WEFT_K_neg, l));
        weft_k_set(k, c->delta[h], delta);
        weft_kval at = weft_k_add(k, weft_k_mul(k, tile->head, e->rows), row);
        weft_k_if(k, weft_k_and(k, leader, inside));
        weft_k_store(k, e->lse2, at, WEFT_KNONE, l);
        weft_k_store(k, e->delta, at, WEFT_KNONE, delta);
        weft_k_end(k);
    }
}

/* `count` blocks from `from` down. */
static void emit_blocks(const consumer *c, weft_kval from, weft_kval count, bool masked) {
    weft_kernel *k = c->k;
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), count, weft_k_index(k, 1), 0);
    emit_step(c, false, masked, weft_k_times(k, weft_k_sub(k, from, i), c->e->block), WEFT_KNONE);
    weft_k_end(k);
}

/* Blocks after the first: those that need a mask at their end, then whole ones. */
static void emit_window(const consumer *c, const query_tile *tile, weft_kval q0) {
    const query_kernel *e = c->e;
    weft_attention_forms *forms = &e->b->forms;
    weft_kernel *k = c->k;
    weft_kval zero = weft_k_index(k, 0), keys = weft_k_index(k, e->block);
    weft_kval open =
        weft_k_div(k, weft_attention_end_key(forms, q0), keys); /* blocks below: every row sees their end */
    weft_kval before = weft_k_plus(k, tile->last, -1), count = weft_k_plus(k, tile->blocks, -1);
    weft_kval masked = weft_k_min(k, count, weft_k_max(k, zero, weft_k_sub(k, tile->last, open)));
    emit_blocks(c, before, masked, true);
    emit_blocks(c, weft_k_sub(k, before, masked), weft_k_sub(k, count, masked), false);
}

/* The first step writes dQ. */
static void emit_steps(const consumer *c, const query_tile *tile) {
    const query_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval q0 = weft_k_add(k, tile->query, weft_k_times(k, c->at.number, WEFT_BACKWARD_ROWS));
    weft_k_if(k, weft_k_lt(k, weft_k_index(k, 0), tile->blocks));
    emit_step(c, true, true, weft_k_times(k, tile->last, e->block), WEFT_KNONE);
    if (e->b->listed) {
        weft_kval one = weft_k_index(k, 1), i = weft_k_for(k, one, tile->blocks, one, 0);
        weft_kval part, block = block_of(e, tile, i, &part);
        emit_step(c, false, true, weft_k_times(k, block, e->block), part);
        weft_k_end(k);
    } else {
        emit_window(c, tile, q0);
    }
    pass_turn(c);
    weft_k_else(k);
    for (int r = 0; r < e->b->width / 2; r++) weft_k_set_reg(k, c->dq, r, weft_k_f32(k, 0));
    weft_k_end(k);
}

static void emit_consumer(const query_kernel *e, weft_kval thread) {
    weft_kernel *k = e->k;
    consumer c = {.e = e, .k = k, .at = weft_consumer_place_of(k, thread)};
    weft_kval zero = weft_k_index(k, 0);
    c.q_at = weft_k_times(e->k, c.at.number, e->q_bytes);
    c.q_rows = weft_wgmma_operand(k, e->q_memory, c.q_at, 16);
    c.do_rows = weft_wgmma_operand(k, e->do_memory, c.q_at, 16);
    c.dq = weft_k_regs(k, WEFT_F32, 1, e->b->width / 2);
    for (int h = 0; h < 2; h++) {
        c.l[h] = weft_k_var(k, weft_k_f32(c.k, 0));
        c.delta[h] = weft_k_var(k, weft_k_f32(c.k, 0));
    }
    c.k_ring = weft_ring_begin(k, &e->k_ring), c.v_ring = weft_ring_begin(k, &e->v_ring);
    c.draw = weft_attention_draw_begin(&e->b->forms);
    weft_k_if(k, weft_k_eq(k, c.at.number, weft_k_index(k, 1))); /* consumer 0 has the first turn */
    pass_turn(&c);
    weft_k_end(k);
    weft_kval phase = weft_k_var(k, zero);
    weft_kval t = weft_k_for(k, e->first, weft_k_mul(k, e->tiles, e->heads), e->stride, 0);
    query_tile tile = place(e, t);
    c.row =
        weft_k_add(k, weft_k_add(k, tile.query, weft_k_times(e->k, c.at.number, WEFT_BACKWARD_ROWS)),
                   weft_k_add(k, weft_k_times(e->k, c.at.warp, 16), weft_k_div(k, c.at.lane, weft_k_index(e->k, 4))));
    weft_mbarrier_wait(k, e->q_full, zero, as_parity(e, weft_k_get(k, phase)));
    c.head = tile.head;
    if (e->separate)
        take_statistics(&c, &tile);
    else
        make_statistics(&c, &tile);
    emit_steps(&c, &tile);
    clear_scores(&c, &tile);
    send(&c, &tile);
    weft_k_set(k, phase, weft_k_xor(k, weft_k_get(k, phase), weft_k_index(e->k, 1)));
    weft_k_end(k);
}

/* -- the kernel */

static void make_arguments(query_kernel *e) {
    weft_backward *b = e->b;
    int keys = e->block, rows = WEFT_BACKWARD_ROWS;
    e->q = weft_backward_in(b, WEFT_BACKWARD_Q, rows, "q");
    e->k_side = weft_backward_in(b, WEFT_BACKWARD_K, keys, "k");
    e->v = weft_backward_in(b, WEFT_BACKWARD_V, keys, "v");
    e->g = weft_backward_in(b, WEFT_BACKWARD_DO, rows, "do");
    if (!e->separate) e->o = weft_backward_in(b, WEFT_BACKWARD_O, rows, "o");
    e->dq = weft_backward_out(b, WEFT_BACKWARD_DQ, rows, "dq");
    e->lse = e->separate ? WEFT_KNONE : weft_backward_operand(b, WEFT_BACKWARD_LSE, "lse");
    e->lse2 = weft_backward_temp(b, WEFT_BACKWARD_LSE2, WEFT_F32, !e->separate, "lse2");
    e->delta = weft_backward_temp(b, WEFT_BACKWARD_DELTA, WEFT_F32, !e->separate, "delta");
    e->counters = weft_backward_temp(b, WEFT_BACKWARD_COUNTERS, WEFT_I32, true, "counters");
    bool plain;
    e->ds_memory = WEFT_KNONE;
    if (b->node->result_count > WEFT_BACKWARD_DS)
        e->ds_memory = weft_kernel_buffer(b->k, WEFT_ARGUMENT_RESULT,
                                          weft_attention_result(b->request->fusion, b->node, WEFT_BACKWARD_DS, &plain),
                                          WEFT_F32, true, "ds");
}

static void make_memory(query_kernel *e) {
    weft_kernel *k = e->k;
    weft_dim elements = (weft_dim)WEFT_BACKWARD_CONSUMERS * e->q_bytes / 2;
    e->q_memory = weft_k_shared(k, e->b->dtype, elements);
    e->do_memory = weft_k_shared(k, e->b->dtype, elements);
    e->o_memory = e->separate ? WEFT_KNONE : weft_k_shared(k, e->b->dtype, elements);
    e->k_memory = weft_k_shared(k, WEFT_U8, (weft_dim)STAGES * e->kv_bytes);
    e->v_memory = weft_k_shared(k, WEFT_U8, (weft_dim)STAGES * e->kv_bytes);
    e->zero_memory = weft_attention_plain(&e->b->forms) ? WEFT_KNONE : weft_k_shared(k, WEFT_I32, 1);
    e->k_ring = weft_ring_create(k, STAGES), e->v_ring = weft_ring_create(k, STAGES);
    e->q_full = weft_mbarrier_create(k, 1), e->q_empty = weft_mbarrier_create(k, 1);
}

static void init_barriers(const query_kernel *e, weft_kval thread) {
    weft_kernel *k = e->k;
    weft_kval zero = weft_k_index(e->k, 0);
    weft_k_if(k, weft_k_eq(k, thread, zero));
    weft_ring_init(k, &e->k_ring, 1, 4 * WEFT_BACKWARD_CONSUMERS);
    weft_ring_init(k, &e->v_ring, 1, 4 * WEFT_BACKWARD_CONSUMERS);
    weft_mbarrier_emit(k, WEFT_K_mbarrier_init, e->q_full, zero, 1);
    weft_mbarrier_emit(k, WEFT_K_mbarrier_init, e->q_empty, zero, WEFT_BACKWARD_CONSUMERS);
    if (e->zero_memory != WEFT_KNONE) weft_k_store(k, e->zero_memory, zero, WEFT_KNONE, weft_k_integer(k, WEFT_I32, 0));
    weft_k_event(k, WEFT_K_mbarrier_init_fence, 0);
    weft_k_if(k, weft_k_eq(k, e->first, zero)); /* for the kernel of keys, which follows */
    weft_k_store(k, e->counters, zero, WEFT_KNONE, weft_k_integer(k, WEFT_I32, 0));
    weft_k_end(k);
    weft_k_end(k);
    weft_k_barrier(k);
}

void weft_backward_queries(weft_backward *b) {
    weft_kernel *k = b->k;
    weft_dim_table *dims = k->dims;
    int halves = weft_backward_halves(b);
    query_kernel e = {.b = b, .k = k, .separate = b->way & WEFT_BACKWARD_SEPARATE};
    e.block = weft_backward_query_block(b);
    e.kv_box = e.block * 128, e.kv_bytes = halves * e.kv_box;
    e.q_box = WEFT_BACKWARD_ROWS * 128, e.q_bytes = halves * e.q_box;
    weft_dim tiles = weft_dim_divide_ceil(dims, b->queries, TILE);
    weft_backward_start(b, weft_dim_multiply(dims, tiles, b->heads));
    make_arguments(&e);
    make_memory(&e);
    weft_kval thread = weft_k_thread(k);
    e.first = weft_k_block(k);
    e.stride = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(k->capability->index_dtype, 1), 0, NULL, 0, 0);
    e.t = weft_backward_length(b, b->queries), e.s = weft_backward_length(b, b->keys);
    e.heads = weft_backward_length(b, b->heads), e.group = weft_backward_length(b, b->group);
    e.rows = weft_backward_length(b, b->rows), e.tiles = weft_backward_length(b, tiles);
    e.together = weft_backward_together(b, b->heads, weft_dim_multiply(dims, b->keys, 4 * b->width));
    if (b->listed) weft_attention_lists_declare(&b->query_pairs, k);
    b->forms.s = e.s, b->forms.offset = weft_k_sub(k, e.s, e.t);
    init_barriers(&e, thread);
    bool less = weft_backward_gives_less(b);
    weft_k_effect(k, WEFT_K_role, 0, NULL, 1, weft_backward_give(less));
    weft_k_if(k, weft_k_eq(k, thread, weft_k_index(e.k, 0)));
    emit_producer(&e);
    weft_k_end(k);
    weft_k_effect(k, WEFT_K_role, 0, NULL, WEFT_BACKWARD_CONSUMERS, weft_backward_take(less));
    emit_consumer(&e, thread);
    weft_k_end(k);
}
