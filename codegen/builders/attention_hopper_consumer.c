/* The consumer role of attention_hopper.c: 64 queries of a tile.

   Step: wait for a turn, issue S = Q K(j), issue O += P V(j + 1), pass the turn on, softmax of S while P V runs,
   rescale O. Registers: s (64 x bn scores), o (64 x D sums), p (weights as operand fragments). Lane: rows lane / 4 and
   lane / 4 + 8 of its warp's 16. A row that sees no key gives 0. */
#include "codegen/builders/attention_hopper.h"

#include <math.h>

#include "codegen/builders/attention_draw.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/wgmma.h"
#include "ir/ops/attention.h"

typedef struct consumer {
    weft_attention *a;
    weft_kernel *k;
    weft_consumer_place at;
    weft_kval s, o, p, packed;
    weft_kval top[2], sum[2], rescale[2], accumulate; /* variables */
    weft_kval q_at, row_lane, column_lane;
    weft_layout layout;
    weft_kval q_first; /* this consumer's part of queries 0 */
    weft_ring q_ring, k_ring, v_ring;
    weft_kval query; /* of row lane / 4 */
    weft_kval head;  /* of the tile */
    weft_attention_draw draw;
} consumer;

/* The larger; scores are no NaN unless the inputs are. */
static weft_kval larger(consumer *c, weft_kval x, weft_kval y) {
    return weft_kernel_emit(c->k, WEFT_K_max, weft_kvector(WEFT_F32, 1), 2, (weft_kval[]){x, y}, 1, 0);
}

static int64_t unit_of(consumer *c, int n, int flags) {
    return weft_async_unit(n, c->a->dtype == WEFT_F16 ? WEFT_ASYNC_F16 : WEFT_ASYNC_BF16, flags);
}

/* s = Q K^T, 16 elements of D at a time */
static void issue_scores(consumer *c) {
    weft_attention *a = c->a;
    weft_kval slot = weft_ring_slot(c->k, &c->k_ring),
              at = weft_k_mul(c->k, slot, weft_k_index(c->k, weft_attention_kv_bytes(a)));
    weft_kval q = weft_wgmma_operand(c->k, a->q_memory, c->q_at, 16),
              keys = weft_wgmma_operand(c->k, a->k_memory, at, 16);
    for (int i = 0; i < a->width / 16; i++) {
        weft_kval operands[6] = {
            c->s,
            weft_k_index(c->k, 0),
            weft_wgmma_moved(c->k, q, i / 4 * (64 * 128) + 32 * (i % 4)),
            weft_k_index(c->k, 0),
            weft_wgmma_moved(c->k, keys, (int64_t)(i / 4) * weft_attention_box_bytes(a) + 32 * (i % 4)),
            i == 0 ? weft_k_integer(c->k, WEFT_BOOL, 0) : WEFT_KNONE};
        weft_k_effect(c->k, WEFT_K_mma_async, 6, operands, unit_of(c, a->bn, i == 0 ? WEFT_ASYNC_FIRST : 0), 0);
    }
    weft_k_event(c->k, WEFT_K_mma_commit, 0);
}

/* o += P V, 16 keys at a time: V is [keys, D] in memory, D contiguous */
static void issue_sums(consumer *c) {
    weft_attention *a = c->a;
    weft_kval slot = weft_ring_slot(c->k, &c->v_ring),
              at = weft_k_mul(c->k, slot, weft_k_index(c->k, weft_attention_kv_bytes(a)));
    weft_kval values = weft_wgmma_operand(c->k, a->v_memory, at, weft_attention_box_bytes(a));
    for (int i = 0; i < a->bn / 16; i++) {
        weft_kval operands[6] = {c->o,
                                 weft_k_index(c->k, 0),
                                 c->p,
                                 weft_k_index(c->k, 4 * i),
                                 weft_wgmma_moved(c->k, values, (int64_t)i * 16 * 128),
                                 i == 0 ? weft_k_get(c->k, c->accumulate) : WEFT_KNONE};
        weft_k_effect(c->k, WEFT_K_mma_async, 6, operands, unit_of(c, a->width, WEFT_ASYNC_B_TRANSPOSED), 0);
    }
    weft_k_event(c->k, WEFT_K_mma_commit, 0);
}

static void release(consumer *c, const weft_ring *ring) {
    weft_k_if(c->k, weft_k_eq(c->k, c->at.lane, weft_k_index(c->k, 0)));
    weft_mbarrier_emit(c->k, WEFT_K_mbarrier_arrive, ring->empty, weft_ring_slot(c->k, ring), 0);
    weft_k_end(c->k);
    weft_ring_advance(c->k, ring);
}

/* Registers of row h (0: lane / 4, 1: lane / 4 + 8): i-th column pair element. */
static int register_of(int h, int i) { return i / 2 * 4 + 2 * h + i % 2; }

/* Soft cap and mask of row h. first: key of this block's column 0. */
static void score_row(consumer *c, int h, weft_kval first) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    if (weft_attention_plain(&a->forms)) return;
    weft_kval row = weft_k_add(k, c->query, weft_k_index(c->k, 8 * h)), key = weft_k_add(k, first, c->column_lane);
    for (int i = 0; i < a->bn / 4; i += 2) { /* two columns side by side, the first one even */
        int r = register_of(h, i), column = weft_layout_at(&c->layout, r, 0, 0).column;
        weft_kval pair[2] = {weft_k_reg(k, c->s, r), weft_k_reg(k, c->s, r + 1)};
        weft_attention_form_pair(&a->forms, pair, c->head, row, key, column, pair, NULL);
        for (int e = 0; e < 2; e++) weft_k_set_reg(k, c->s, r + e, pair[e]);
    }
}

/* Scores outside of the row's visible keys become -inf. */
static void mask_row(consumer *c, int h, weft_kval first) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    weft_kval row = weft_k_add(k, c->query, weft_k_index(c->k, 8 * h)), own = weft_k_add(k, first, c->column_lane);
    weft_kval end = weft_k_sub(k, weft_attention_end_key(&a->forms, row), own);
    for (int i = 0; i < a->bn / 4; i++) {
        int r = register_of(h, i), column = weft_layout_at(&c->layout, r, 0, 0).column;
        weft_kval hidden = weft_k_le(k, end, weft_k_index(c->k, column));
        weft_k_set_reg(c->k, c->s, r, weft_k_select(k, hidden, weft_k_f32(c->k, -INFINITY), weft_k_reg(c->k, c->s, r)));
    }
}

static void softmax_row(consumer *c, int h) {
    weft_kernel *k = c->k;
    int count = c->a->bn / 4;
    weft_kval before = weft_k_get(k, c->top[h]), m = before, scale = weft_k_f32(c->k, c->a->scale);
    for (int i = 0; i < count; i++) m = larger(c, weft_k_reg(c->k, c->s, register_of(h, i)), m);
    for (int distance = 1; distance <= 2; distance *= 2) m = larger(c, m, weft_k_shuffle_xor(k, m, distance));
    weft_kval none = weft_k_eq(k, m, weft_k_f32(c->k, -INFINITY)); /* every key masked so far */
    weft_kval shift = weft_k_unary(k, WEFT_K_neg, weft_k_select(k, none, weft_k_f32(c->k, 0), weft_k_mul(k, m, scale)));
    weft_kval factor = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, before, scale, shift));
    weft_k_set(k, c->rescale[h], factor);
    weft_k_set(k, c->top[h], m);
    weft_kval part = WEFT_KNONE;
    for (int i = 0; i < count; i++) {
        int r = register_of(h, i);
        weft_kval e = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, weft_k_reg(c->k, c->s, r), scale, shift));
        weft_k_set_reg(c->k, c->s, r, e);
        part = part == WEFT_KNONE ? e : weft_k_add(k, part, e);
    }
    weft_k_set(k, c->sum[h], weft_k_fma(k, weft_k_get(k, c->sum[h]), factor, part));
}

/* Weights that are dropped become 0, behind their sum. Register r of 16 columns: row 8 (r / 2 % 2), column r % 2 +
   8 (r / 4). */
static void drop(consumer *c, weft_kval first) {
    weft_kernel *k = c->k;
    weft_kval number = weft_attention_draw_number(&c->draw, c->head, c->query, weft_k_add(k, first, c->column_lane));
    for (int i = 0; i < c->a->bn / 16; i++)
        for (int e = 0; e < 2; e++) {
            weft_kval words[2];
            weft_attention_draw_bits(&c->draw, weft_attention_draw_moved(&c->draw, number, 0, 8 * i + e), words);
            for (int q = 0; q < 4; q++) {
                int r = 8 * i + e + 2 * q;
                weft_kval kept = weft_attention_kept(&c->draw, words[q % 2], q / 2);
                weft_k_set_reg(k, c->s, r, weft_k_select(k, kept, weft_k_reg(k, c->s, r), weft_k_f32(k, 0)));
            }
        }
}

/* part: whether there is anything to mask; WEFT_KNONE: always. */
static void softmax(consumer *c, bool masked, weft_kval block, weft_kval part) {
    size_t mark = weft_index_mark(&c->a->forms.index);
    weft_kval first = weft_k_mul(c->k, block, weft_k_index(c->k, c->a->bn));
    for (int h = 0; h < 2; h++) {
        if (part != WEFT_KNONE) weft_k_if(c->k, part);
        score_row(c, h, first);
        if (masked) mask_row(c, h, first);
        if (part != WEFT_KNONE) {
            weft_k_end(c->k);
            weft_index_release(&c->a->forms.index, mark);
        }
        softmax_row(c, h);
    }
    if (weft_attention_draws(&c->a->forms)) drop(c, first);
    weft_index_release(&c->a->forms.index, mark);
}

/* The accumulator's fragment is the operand's: no data moves between lanes. */
static void pack_weights(consumer *c) {
    for (int i = 0; i < c->a->bn / 4; i++)
        weft_k_set_reg(
            c->k, c->p, i,
            weft_wgmma_pack(c->k, weft_k_reg(c->k, c->s, 2 * i), weft_k_reg(c->k, c->s, 2 * i + 1), c->a->dtype));
}

static void wait_tile(consumer *c, weft_kval regs, int in_flight) {
    weft_k_effect(c->k, WEFT_K_mma_wait, 1, &regs, in_flight, 0);
}

static void emit_step(consumer *c, bool masked, weft_kval block, weft_kval part) {
    weft_kernel *k = c->k;
    int turns = c->a->consumers;
    weft_ring_wait_full(k, &c->k_ring);
    weft_kval own = weft_k_add(k, c->at.number, weft_k_index(c->k, 1));
    weft_kval next = weft_k_select(k, weft_k_eq(k, own, weft_k_index(c->k, turns)), weft_k_index(c->k, 1),
                                   weft_k_add(k, own, weft_k_index(c->k, 1)));
    if (turns > 1) weft_k_effect(k, WEFT_K_named_sync, 1, &own, 256, 0);
    weft_k_event(c->k, WEFT_K_mma_fence, 0);
    issue_scores(c);
    weft_ring_wait_full(k, &c->v_ring);
    weft_k_event(c->k, WEFT_K_mma_fence, 0); /* again: a spin loop ended the block in which the first fence counts */
    issue_sums(c);
    if (turns > 1) weft_k_effect(k, WEFT_K_named_arrive, 1, &next, 256, 0);
    wait_tile(c, c->s, 1);
    release(c, &c->k_ring);
    softmax(c, masked, block, part);
    wait_tile(c, c->o, 0);
    release(c, &c->v_ring);
    for (int i = 0; i < c->a->width / 2; i++)
        weft_k_set_reg(c->k, c->o, i, weft_k_mul(k, weft_k_reg(c->k, c->o, i), weft_k_get(k, c->rescale[i / 2 % 2])));
    pack_weights(c);
    weft_k_set(k, c->accumulate, weft_k_integer(k, WEFT_BOOL, 1));
}

/* Whether a block may have keys that some row does not see. */
static bool has_masks(const weft_attention *a) {
    return weft_attention_windowed(&a->forms) || weft_dim_divisor(a->k->dims, a->keys) % a->bn != 0;
}

/* `count` blocks from `from` down. */
static void emit_blocks(consumer *c, weft_kval from, weft_kval count, bool masked) {
    weft_kernel *k = c->k;
    weft_kval i = weft_k_for(k, weft_k_index(c->k, 0), count, weft_k_index(c->k, 1), 0);
    emit_step(c, masked, weft_k_sub(k, from, i), WEFT_KNONE);
    weft_k_end(k);
}

/* The blocks of a tile after its first one: those that need a mask at their end, then those whose keys every row of
   this consumer sees. */
static void emit_steps(consumer *c, const weft_attention_work *work, weft_kval q0) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    weft_kval one = weft_k_index(c->k, 1), zero = weft_k_index(c->k, 0), bn = weft_k_index(c->k, a->bn);
    weft_kval before = weft_k_sub(k, work->last, one), count = weft_k_sub(k, work->blocks, one);
    if (a->listed) {
        weft_kval i = weft_k_for(k, one, work->blocks, one, 0);
        weft_kval part, block = weft_attention_block(a, work, i, &part);
        emit_step(c, has_masks(a), block, part);
        weft_k_end(k);
        return;
    }
    if (!has_masks(a)) {
        emit_blocks(c, before, count, false);
        return;
    }
    /* blocks below need no mask at the end */
    weft_kval open = weft_k_div(k, weft_attention_end_key(&a->forms, q0), bn);
    weft_kval masked = weft_k_min(k, count, weft_k_max(k, zero, weft_k_sub(k, work->last, open)));
    emit_blocks(c, before, masked, true);
    emit_blocks(c, weft_k_sub(k, before, masked), weft_k_sub(k, count, masked), false);
}

/* Natural: log(sum) + top, top in units of base 2. One lane of the four that share a row writes. */
static void store_lse(consumer *c, const weft_attention_work *work, int h, weft_kval sum) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    weft_kval row = weft_k_add(k, c->query, weft_k_index(c->k, 8 * h)),
              first = weft_k_eq(k, weft_k_and(k, c->at.lane, weft_k_index(c->k, 3)), weft_k_index(c->k, 0));
    weft_kval l =
        weft_k_fma(k, weft_k_get(k, c->top[h]), weft_k_f32(c->k, a->scale), weft_k_unary(k, WEFT_K_log2_fast, sum));
    l = weft_k_mul(k, l, weft_k_f32(c->k, 0.69314718055994531));
    l = weft_k_select(k, weft_k_lt(k, weft_k_f32(c->k, 0), sum), l, weft_k_f32(c->k, -INFINITY));
    weft_k_if(k, weft_k_and(k, first, weft_k_lt(k, row, a->t)));
    weft_k_store(k, a->lse, weft_k_add(k, weft_k_mul(k, work->head, a->t), row), WEFT_KNONE, l);
    weft_k_end(k);
}

static void finish_rows(consumer *c, const weft_attention_work *work, weft_kval *out_factor) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    for (int h = 0; h < 2; h++) {
        weft_kval l = weft_k_get(k, c->sum[h]);
        for (int distance = 1; distance <= 2; distance *= 2) l = weft_k_add(k, l, weft_k_shuffle_xor(k, l, distance));
        weft_kval factor = weft_k_unary(k, WEFT_K_rcp_fast, l);
        if (weft_attention_draws(&a->forms))
            factor = weft_k_mul(k, factor, weft_k_f32(k, weft_dropout_scale(a->forms.dropout)));
        out_factor[h] = weft_k_select(k, weft_k_lt(k, weft_k_f32(c->k, 0), l), factor, weft_k_f32(c->k, 0));
        if (a->lse != WEFT_KNONE) store_lse(c, work, h, l);
    }
}

/* Through this warpgroup's own part of Q, whose last reader is done. */
static void send_rows(consumer *c, const weft_attention_work *work, weft_kval thread) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    weft_kval factor[2], row = weft_k_add(k, weft_k_mul(k, c->at.warp, weft_k_index(c->k, 16)),
                                          weft_k_rem(k, c->at.lane, weft_k_index(c->k, 16)));
    finish_rows(c, work, factor);
    weft_kval row_at = weft_k_add(k, c->q_at, weft_k_mul(k, row, weft_k_index(c->k, 128)));
    for (int i = 0; i < a->width / 16; i++) {
        for (int e = 0; e < 4; e++)
            weft_k_set_reg(c->k, c->packed, e,
                           weft_wgmma_pack(k, weft_k_mul(k, weft_k_reg(c->k, c->o, 8 * i + 2 * e), factor[e % 2]),
                                           weft_k_mul(k, weft_k_reg(c->k, c->o, 8 * i + 2 * e + 1), factor[e % 2]),
                                           a->dtype));
        weft_kval at = weft_wgmma_place(k, row_at, c->at.lane, i, 64 * 128);
        weft_k_effect(k, WEFT_K_frag_store, 4, (weft_kval[]){c->packed, weft_k_index(c->k, 0), a->q_memory, at},
                      WEFT_FRAGMENT_X4, 0);
    }
    weft_k_event(c->k, WEFT_K_fence_async, 0);
    weft_kval id = weft_k_add(k, c->at.number, weft_k_index(c->k, 1 + a->consumers));
    weft_k_effect(k, WEFT_K_named_sync, 1, &id, 128, 0);
    weft_k_if(k, weft_k_eq(k, weft_k_rem(k, thread, weft_k_index(c->k, 128)), weft_k_index(c->k, 0)));
    for (int part = 0; part < weft_attention_boxes(a); part++) {
        weft_kval operands[7] = {a->out.map, a->q_memory,
                                 weft_k_add(k, c->q_at, weft_k_index(c->k, (int64_t)part * 64 * 128))};
        int rank = weft_attention_coordinates(
            k, &a->out, 64 * part, weft_k_add(k, work->q0, weft_k_mul(k, c->at.number, weft_k_index(c->k, 64))),
            work->head, operands + 3);
        weft_k_effect(k, WEFT_K_tensor_store, 3 + rank, operands, 0, 0);
    }
    weft_k_event(c->k, WEFT_K_bulk_commit, 0);
    weft_k_effect(k, WEFT_K_bulk_wait, 0, NULL, 0, 1);
    weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, c->q_ring.empty, weft_ring_slot(k, &c->q_ring), 0);
    weft_k_end(k);
    weft_ring_advance(k, &c->q_ring);
}

static void emit_tile(consumer *c, weft_attention_work work, weft_kval thread) {
    weft_attention *a = c->a;
    weft_kernel *k = c->k;
    weft_kval q0 = weft_k_add(k, work.q0, weft_k_mul(k, c->at.number, weft_k_index(c->k, 64)));
    c->query = weft_k_add(k, q0, c->row_lane);
    c->head = work.head;
    for (int h = 0; h < 2; h++) {
        weft_k_set(k, c->top[h], weft_k_f32(c->k, -INFINITY));
        weft_k_set(k, c->sum[h], weft_k_f32(c->k, 0));
    }
    weft_k_set(k, c->accumulate, weft_k_integer(k, WEFT_BOOL, 0));
    c->q_at = weft_k_add(k, c->q_first,
                         weft_k_mul(k, weft_ring_slot(k, &c->q_ring),
                                    weft_k_index(c->k, (int64_t)a->consumers * weft_attention_q_bytes(a))));
    weft_ring_wait_full(k, &c->q_ring);
    weft_ring_wait_full(k, &c->k_ring);
    weft_k_event(c->k, WEFT_K_mma_fence, 0);
    issue_scores(c);
    wait_tile(c, c->s, 0);
    release(c, &c->k_ring);
    softmax(c, has_masks(a), work.last, WEFT_KNONE);
    pack_weights(c);
    emit_steps(c, &work, q0);
    weft_ring_wait_full(k, &c->v_ring);
    weft_k_event(c->k, WEFT_K_mma_fence, 0);
    issue_sums(c);
    wait_tile(c, c->o, 0);
    release(c, &c->v_ring);
    send_rows(c, &work, thread);
}

void weft_attention_consumer(weft_attention *a, weft_kval thread) {
    weft_kernel *k = a->k;
    consumer c = {.a = a, .k = k, .at = weft_consumer_place_of(k, thread), .layout = weft_layout_wgmma_c(a->bn)};
    c.row_lane = weft_layout_lane_row(k, &c.layout, c.at.lane, c.at.warp);
    c.column_lane = weft_layout_lane_column(k, &c.layout, c.at.lane, c.at.warp);
    c.q_first = weft_k_mul(k, c.at.number, weft_k_index(c.k, weft_attention_q_bytes(a)));
    c.s = weft_k_regs(k, WEFT_F32, 1, a->bn / 2);
    c.o = weft_k_regs(k, WEFT_F32, 1, a->width / 2);
    c.p = weft_k_regs(k, WEFT_U32, 1, a->bn / 4);
    c.packed = weft_k_regs(k, WEFT_U32, 1, 4);
    for (int h = 0; h < 2; h++) {
        c.top[h] = weft_k_var(k, weft_k_f32(c.k, -INFINITY));
        c.sum[h] = weft_k_var(k, weft_k_f32(c.k, 0));
        c.rescale[h] = weft_k_var(k, weft_k_f32(c.k, 0));
    }
    c.accumulate = weft_k_var(k, weft_k_integer(k, WEFT_BOOL, 0));
    c.draw = weft_attention_draw_begin(&a->forms);
    c.q_ring = weft_ring_begin(k, &a->q_ring);
    c.k_ring = weft_ring_begin(k, &a->k_ring);
    c.v_ring = weft_ring_begin(k, &a->v_ring);
    if (a->consumers > 1) { /* the last consumer hands the first turn to consumer 0 */
        weft_kval first = weft_k_index(c.k, 1);
        weft_k_if(k, weft_k_eq(k, c.at.number, weft_k_index(c.k, a->consumers - 1)));
        weft_k_effect(k, WEFT_K_named_arrive, 1, &first, 256, 0);
        weft_k_end(k);
    }
    emit_tile(&c, weft_attention_tiles_begin(a), thread);
    weft_attention_tiles_end(a);
}
