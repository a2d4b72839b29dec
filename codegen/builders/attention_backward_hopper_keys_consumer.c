/* The consumers of attention_backward_hopper_keys.c: 64 keys each.

   Step: S^T = K Q^T and dP^T = V dO^T are issued; P^T = exp2(c S^T - L), packed, S's registers die; dS^T = P^T (dP^T -
   delta), packed; dK += dS^T Q, dV += P^T dO. With sums dS^T also goes to one of two buffers in shared memory, and dQ
   of the step before, dS K, is multiplied while dK and dV are: the consumers exchange their halves of dS without ever
   waiting for each other's step. Masks cost registers: with one, dP^T is issued after the weights.

   Named barriers: 1 + 2 b + w consumer w has written its dS of buffer b; 5 + 2 b + w it has read the other's; 9 + w its
   own 128 threads; 11 + w its turn at the tensor cores. Read next: attention_backward_hopper_queries.c. */
#include <math.h>

#include "codegen/builders/attention_backward_hopper_keys.h"
#include "ir/ops/attention.h"

enum { DS_WRITTEN = 1, DS_READ = 5, OWN_THREADS = 9, TURN = 11 };

typedef struct consumer {
    const weft_key_kernel *e;
    weft_kernel *k;
    weft_consumer_place at;
    weft_kval dk, dv;
    weft_kval phase;                     /* of tiles; a value */
    weft_kval k_rows, v_rows, k_columns; /* of the tile */
    weft_kval ds_row, ds_part, out_at;
    weft_attention_draw draw;
} consumer;

/* Barrier first + 2 slot + which. */
static weft_kval barrier_id(const consumer *c, int first, weft_kval slot, weft_kval which) {
    return weft_k_add(c->k, weft_k_plus(c->k, weft_k_times(c->k, slot, 2), first), which);
}
static weft_kval not_own(const consumer *c) { return weft_k_sub(c->k, weft_k_index(c->k, 1), c->at.number); }

/* The lane, through memory: so no compiler keeps addresses that follow from it in registers over the steps. */
static weft_kval late_lane(const consumer *c) {
    return weft_k_add(c->k, c->at.lane, weft_keys_word(c->e, c->e->tiles, c->phase, WEFT_KEYS_TILE_ZERO));
}

/* Two neighbouring statistics of queries 8 j + 2 (lane % 4). */
static weft_kval statistics(const consumer *c, weft_kval memory, weft_kval slot, int j) {
    const weft_key_kernel *e = c->e;
    weft_kval at = weft_k_add(c->k, weft_k_times(e->k, slot, e->statistics),
                              weft_k_times(e->k, weft_k_bits(e->k, c->at.lane, 3), 2));
    weft_kval pair = weft_k_load(c->k, memory, weft_k_plus(e->k, at, 8 * j), 2, WEFT_KNONE, WEFT_KNONE);
    if (!c->k->failed) c->k->instrs[pair].align_bytes = 8;
    return pair;
}

/* Register r of a lane: key lane / 4 + 8 (r / 2 % 2), query 8 (r / 4) + 2 (lane % 4) + r % 2. */
typedef struct places {
    weft_kval head, query, key; /* of register 0; head: only with a mask */
    weft_kval from[2], end;     /* registers of queries outside of from ... end - 1 are hidden; end WEFT_KNONE: none */
} places;

static places places_of(const consumer *c, weft_kval record) {
    const weft_key_kernel *e = c->e;
    const weft_attention_forms *forms = &e->b->forms;
    weft_kernel *k = c->k;
    places at = {.head = WEFT_KNONE, .end = WEFT_KNONE};
    weft_kval lane = weft_attention_plain(forms) ? c->at.lane : late_lane(c); /* a mask's addresses follow from it */
    weft_kval row = weft_k_add(k, weft_k_times(k, c->at.number, WEFT_BACKWARD_ROWS),
                               weft_k_add(k, weft_k_times(k, c->at.warp, 16), weft_k_div(k, lane, weft_k_index(k, 4))));
    at.key = weft_k_add(k, weft_keys_word(e, e->tiles, c->phase, WEFT_KEYS_TILE_KEY), row);
    at.query = weft_k_add(k, weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_QUERY),
                          weft_k_times(k, weft_k_bits(k, lane, 3), 2));
    if (forms->mask) at.head = weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_HEAD);
    /* a mask's exponential may be any number at queries past the last */
    if (!weft_attention_plain(forms)) at.end = weft_k_sub(k, e->t, at.query);
    weft_kval position = weft_k_add(k, at.query, forms->offset);
    for (int h = 0; h < 2; h++) {
        weft_kval key = weft_k_plus(k, at.key, 8 * h);
        weft_kval low =
            forms->right >= 0 ? weft_k_sub(k, weft_k_plus(k, key, -forms->right), position) : weft_k_index(k, 0);
        at.from[h] = weft_k_select(k, weft_k_le(k, e->s, key), weft_k_index(k, 1 << 30), low);
    }
    return at;
}

/* -inf where register r of queries is hidden. */
static weft_kval hide(const consumer *c, const places *at, int r, weft_kval x) {
    weft_kernel *k = c->k;
    int h = r / 2 % 2;
    weft_kval column = weft_k_index(k, 8 * (r / 4) + r % 2), hidden = weft_k_lt(k, column, at->from[h]);
    if (at->end != WEFT_KNONE) hidden = weft_k_or(k, hidden, weft_k_le(k, at->end, column));
    return weft_k_select(k, hidden, weft_k_f32(k, -INFINITY), x);
}

/* Products as scores: only steps whose producer says so have something to hide, by position or by a bool mask. */
static void mask(const consumer *c, weft_kval s, weft_kval record) {
    const weft_key_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval flags = weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_FLAGS);
    weft_k_if(k, weft_k_ne(k, weft_k_bits(k, flags, WEFT_KEYS_FLAG_MASKED), weft_k_index(k, 0)));
    places at = places_of(c, record);
    weft_attention_forms *forms = &e->b->forms;
    for (int h = 0; h < 2; h++)
        for (int j = 0; j < e->b->bm / 4; j++) {
            int r = j / 2 * 4 + 2 * h + j % 2;
            weft_kval x = weft_k_reg(k, s, r);
            if (forms->mask)
                x = weft_attention_form_score(forms, x, at.head, weft_k_plus(k, at.query, 8 * (j / 2) + j % 2),
                                              weft_k_plus(k, at.key, 8 * h), NULL);
            weft_k_set_reg(k, s, r, hide(c, &at, r, x));
        }
    weft_k_end(k);
}

/* Number of the draw of register 0 of a step: query 2 (lane % 4), key lane / 4 of its warp. */
static weft_kval draw_number(const consumer *c, weft_kval record) {
    const weft_key_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval lane = e->b->owned ? c->at.lane : late_lane(c), /* as registers permit */
        row = weft_k_add(k, weft_k_times(k, c->at.warp, 16), weft_k_div(k, lane, weft_k_index(k, 4)));
    row = weft_k_add(k, row, weft_k_times(k, c->at.number, WEFT_BACKWARD_ROWS));
    weft_kval key = weft_k_add(k, weft_keys_word(e, e->tiles, c->phase, WEFT_KEYS_TILE_KEY), row),
              query = weft_k_add(k, weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_QUERY),
                                 weft_k_times(k, weft_k_bits(k, lane, 3), 2));
    return weft_attention_draw_number(&c->draw, weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_HEAD), query, key);
}

/* Words of the draws of 16 queries: those of queries e and e + 8, e = 0, 1; number: moved on to the next 16. Step by
   step, since a compiler would keep all multiples of a row in registers over the steps. */
static void draw_words(const consumer *c, weft_kval *number, weft_kval words[2][2]) {
    for (int e = 0; e < 2; e++)
        weft_attention_draw_bits(&c->draw, weft_attention_draw_moved(&c->draw, *number, e, 0), words[e]);
    *number = weft_attention_draw_moved(&c->draw, *number, 8, 0);
}

/* Weights from scores, packed: into p, or, with a cap, P and P times the slope of the cap in turn into the registers of
   the scores: beside dP there is no room for both. */
static void make_weights(const consumer *c, weft_kval s, weft_kval p, weft_kval slot, weft_kval record) {
    weft_backward *b = c->e->b;
    weft_kernel *k = c->k;
    weft_kval scale = weft_k_f32(k, weft_attention_factor(&b->forms));
    /* a bool mask that has lists is like an edge: most steps have nothing to hide */
    bool plain = weft_attention_plain(&b->forms) || (b->listed && !weft_attention_natural(&b->forms)),
         draws = weft_attention_draws(&b->forms);
    weft_kval number = draws ? draw_number(c, record) : WEFT_KNONE, words[2][2];
    size_t mark = weft_index_mark(&b->forms.index);
    places at = {.head = WEFT_KNONE};
    if (plain)
        mask(c, s, record);
    else
        at = places_of(c, record);
    for (int j = 0; j < b->bm / 8; j++) {
        weft_kval l = statistics(c, c->e->lse_memory, slot, j), weight[4], slope[4];
        if (draws && j % 2 == 0) draw_words(c, &number, words);
        for (int i = 0; i < 4; i++) {
            int r = 4 * j + i;
            weft_kval shift = weft_k_unary(k, WEFT_K_neg, weft_k_extract(k, l, i % 2)), x = weft_k_reg(k, s, r);
            slope[i] = WEFT_KNONE;
            if (!plain) {
                x = weft_attention_form_score(&b->forms, x, at.head, weft_k_plus(k, at.query, 8 * j + i % 2),
                                              weft_k_plus(k, at.key, 8 * (i / 2)), &slope[i]);
                x = hide(c, &at, r, x);
            }
            weight[i] = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, x, scale, shift));
            if (draws) weight[i] = weft_attention_mark(&c->draw, weight[i], words[i % 2][j % 2], i / 2);
            weft_k_set_reg(k, s, r, weight[i]);
        }
        if (slope[0] == WEFT_KNONE) continue;
        for (int h = 0; h < 2; h++) {
            weft_kval x = weft_k_mul(k, weight[2 * h], slope[2 * h]),
                      y = weft_k_mul(k, weight[2 * h + 1], slope[2 * h + 1]);
            weft_kval pair = weft_wgmma_pack(k, weight[2 * h], weight[2 * h + 1], b->dtype);
            weft_k_set_reg(k, s, 4 * j + 2 * h, weft_k_bitcast(k, pair, WEFT_F32));
            weft_k_set_reg(k, s, 4 * j + 2 * h + 1, weft_k_bitcast(k, weft_wgmma_pack(k, x, y, b->dtype), WEFT_F32));
        }
    }
    weft_index_release(&b->forms.index, mark);
    if (b->forms.cap > 0) return;
    for (int i = 0; i < b->bm / 4; i++)
        weft_k_set_reg(k, p, i, weft_wgmma_pack(k, weft_k_reg(k, s, 2 * i), weft_k_reg(k, s, 2 * i + 1), b->dtype));
}

static weft_kval half_of(const consumer *c, weft_kval packed, int half) {
    return weft_kernel_emit(c->k, WEFT_K_unpack, weft_kvector(WEFT_F32, 1), 1, &packed,
                            c->e->b->dtype | (int64_t)half << 8, 0);
}

/* From the packed P: its f32 copy would cost the registers that dQ needs. With a cap both lie in s: make_weights. */
static void make_slopes(const consumer *c, weft_kval s, weft_kval p, weft_kval dp, weft_kval ds, weft_kval slot) {
    const weft_backward *b = c->e->b;
    weft_kernel *k = c->k;
    bool capped = b->forms.cap > 0, draws = weft_attention_draws(&b->forms);
    for (int j = 0; j < b->bm / 8; j++) {
        weft_kval delta = statistics(c, c->e->delta_memory, slot, j);
        for (int h = 0; h < 2; h++) {
            int at = j / 2 * 4 + j % 2 * 2 + h;
            weft_kval weight =
                          capped ? weft_k_bitcast(k, weft_k_reg(k, s, 2 * at + 1), WEFT_U32) : weft_k_reg(k, p, at),
                      x[2];
            for (int i = 0; i < 2; i++) {
                weft_kval slope = weft_k_reg(k, dp, 4 * j + 2 * h + i), own = weft_k_extract(k, delta, i);
                x[i] = draws ? weft_attention_marked_slope(&c->draw, half_of(c, weight, i), slope, own)
                             : weft_k_mul(k, half_of(c, weight, i), weft_k_sub(k, slope, own));
            }
            weft_k_set_reg(c->k, ds, at, weft_wgmma_pack(k, x[0], x[1], b->dtype));
        }
    }
}

/* Weights as the operand of dV: from where make_weights left them, without those that are dropped. */
static void finish_weights(const consumer *c, weft_kval s, weft_kval p) {
    const weft_backward *b = c->e->b;
    weft_kernel *k = c->k;
    for (int i = 0; b->forms.cap > 0 && i < b->bm / 4; i++)
        weft_k_set_reg(k, p, i, weft_k_bitcast(k, weft_k_reg(k, s, 2 * i), WEFT_U32));
    for (int i = 0; weft_attention_draws(&b->forms) && i < b->bm / 4; i++)
        weft_k_set_reg(k, p, i, weft_attention_unmarked(k, weft_k_reg(k, p, i)));
}

/* dS^T as [keys, queries] for both consumers to read. */
static void share_slopes(const consumer *c, weft_kval ds, weft_kval slot, bool first) {
    const weft_key_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_keys_named(e, WEFT_K_named_sync, barrier_id(c, DS_READ, slot, not_own(c)), 256);
    weft_kval row = weft_k_add(k, c->ds_row, weft_k_times(e->k, slot, e->ds_bytes));
    for (int i = 0; i < e->b->bm / 16; i++)
        weft_k_effect(k, WEFT_K_frag_store, 4,
                      (weft_kval[]){ds, weft_k_index(e->k, 4 * i), e->ds_memory,
                                    weft_wgmma_place(k, row, c->at.lane, i, WEFT_BACKWARD_KEYS * 128)},
                      WEFT_FRAGMENT_X4, 0);
    weft_k_event(e->k, WEFT_K_fence_async, 0);
    weft_keys_named(e, WEFT_K_named_arrive, barrier_id(c, DS_WRITTEN, slot, c->at.number), 256);
    if (first) return;
    weft_kval before = weft_k_xor(k, slot, weft_k_index(e->k, 1));
    weft_keys_named(e, WEFT_K_named_sync, barrier_id(c, DS_WRITTEN, before, not_own(c)), 256);
}

static void issue_queries(const consumer *c, weft_kval dq, weft_kval slot) {
    const weft_key_kernel *e = c->e;
    weft_kval at = weft_k_add(c->k, c->ds_part, weft_k_times(e->k, slot, e->ds_bytes));
    weft_kval ds = weft_wgmma_operand(c->k, e->ds_memory, at, WEFT_BACKWARD_KEYS * 128);
    weft_wgmma_across(c->k, weft_backward_unit(e->b, 64), WEFT_BACKWARD_KEYS, dq, ds, c->k_columns);
}

/* Four sums of a lane at element `at`: stored, or added by an atomic. */
static void put_four(const consumer *c, weft_kval dq, int i, weft_kval at, bool adds) {
    weft_kernel *k = c->k;
    weft_kval four = weft_k_constant_lanes(k, WEFT_F32, 0, 4);
    for (int x = 0; x < 4; x++) four = weft_k_insert(k, four, x, weft_k_reg(c->k, dq, 4 * i + x));
    if (adds) {
        weft_k_effect(k, WEFT_K_atomic, 3, (weft_kval[]){c->e->sums, at, four}, WEFT_ATOMIC_ADD, 0);
        return;
    }
    weft_k_store(k, c->e->sums, at, WEFT_KNONE, four);
    if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 16;
}

/* Zeros where not `reads`. */
static weft_kval read_four(const consumer *c, weft_kval at, weft_kval reads) {
    weft_kval four = weft_k_load(c->k, c->e->sums, at, 4, reads, WEFT_KNONE);
    if (!c->k->failed) c->k->instrs[four].align_bytes = 16;
    return four;
}

static void take_four(const consumer *c, weft_kval dq, int i, weft_kval four) {
    weft_kernel *k = c->k;
    for (int x = 0; x < 4; x++)
        weft_k_set_reg(c->k, dq, 4 * i + x, weft_k_add(k, weft_k_reg(c->k, dq, 4 * i + x), weft_k_extract(k, four, x)));
}

/* The sums are complete: rows of dQ, two neighbouring columns a lane. */
static void store_queries(const consumer *c, weft_kval dq, weft_kval record) {
    const weft_key_kernel *e = c->e;
    const weft_backward *b = e->b;
    weft_kernel *k = c->k;
    bool wide = b->width == 128;
    weft_kval lane = late_lane(c);
    weft_kval r = weft_k_add(k, weft_k_times(e->k, c->at.warp, 16), weft_k_div(k, lane, weft_k_index(e->k, 4))),
              column = weft_k_times(e->k, weft_k_bits(e->k, lane, 3), 2);
    if (wide)
        column = weft_k_add(k, column, weft_k_times(e->k, c->at.number, 64));
    else
        r = weft_k_add(k, r, weft_k_times(e->k, c->at.number, 64));
    weft_kval step = weft_attention_line_step(k, &e->dq);
    weft_kval query = weft_k_add(k, weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_QUERY), r),
              line = weft_k_add(k, weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_LINE), weft_k_mul(k, r, step));
    for (int h = 0; h < 2; h++) {
        weft_k_if(k, weft_k_lt(k, weft_k_plus(e->k, query, 8 * h), e->t));
        weft_kval at =
            weft_k_add(k, weft_k_times(k, weft_k_add(k, line, weft_k_times(k, step, 8 * h)), b->columns), column);
        for (int i = 0; i < 8; i++) {
            weft_kval pair = weft_k_constant_lanes(k, WEFT_F32, 0, 2);
            for (int x = 0; x < 2; x++)
                pair = weft_k_insert(
                    k, pair, x, weft_k_mul(k, weft_k_reg(c->k, dq, 4 * i + 2 * h + x), weft_k_f32(c->k, b->scale)));
            if (b->columns < b->width)
                weft_k_if(k, weft_k_lt(k, weft_k_plus(e->k, column, 8 * i), weft_k_index(e->k, b->columns)));
            weft_k_store(k, e->dq_memory, weft_k_plus(e->k, at, 8 * i), WEFT_KNONE, weft_k_convert(k, pair, b->dtype));
            if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 4;
            if (b->columns < b->width) weft_k_end(k);
        }
        weft_k_end(k);
    }
}

static void wait_queries(const consumer *c, weft_kval dq, weft_kval record, int in_flight) {
    weft_mma_wait_for(c->k, 1, &dq, in_flight);
    weft_keys_named(c->e, WEFT_K_named_arrive, barrier_id(c, DS_READ, weft_k_bits(c->k, record, 1), c->at.number), 256);
}

/* An owner's sums: nobody else adds to these places, and each place is one lane's. The last addition reads the sums
   while their tile is still multiplied. */
static void add_owned(const consumer *c, weft_kval dq, weft_kval record, weft_kval at, int in_flight) {
    const weft_key_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval flags = weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_FLAGS), zero = weft_k_index(e->k, 0), had[8];
    weft_kval first = weft_k_ne(k, weft_k_bits(e->k, flags, WEFT_KEYS_FLAG_FIRST), zero),
              last = weft_k_ne(k, weft_k_bits(e->k, flags, WEFT_KEYS_FLAG_LAST), zero),
              reads = weft_k_eq(k, weft_k_bits(e->k, flags, WEFT_KEYS_FLAG_FIRST | WEFT_KEYS_FLAG_LAST),
                                weft_k_index(e->k, WEFT_KEYS_FLAG_LAST));
    for (int i = 0; i < 8; i++) had[i] = read_four(c, weft_k_plus(e->k, at, 512 * i), reads);
    wait_queries(c, dq, record, in_flight);
    weft_k_if(k, last);
    for (int i = 0; i < 8; i++) take_four(c, dq, i, had[i]);
    store_queries(c, dq, record);
    weft_k_else(k);
    weft_k_if(k, first);
    for (int i = 0; i < 8; i++) put_four(c, dq, i, weft_k_plus(e->k, at, 512 * i), false);
    weft_k_else(k);
    for (int i = 0; i < 8; i++) put_four(c, dq, i, weft_k_plus(e->k, at, 512 * i), true);
    weft_k_end(k);
    weft_k_end(k);
}

/* dQ of step n is multiplied: its buffer may be written again, and it is added to its place. */
static void add_queries(const consumer *c, weft_kval dq, weft_kval n, int in_flight) {
    const weft_key_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval record = weft_k_bits(e->k, n, WEFT_KEYS_STEPS - 1),
              row = weft_keys_word(e, e->steps, record, WEFT_KEYS_STEP_ROW);
    weft_kval at =
        weft_k_add(k, weft_k_times(e->k, row, e->b->width),
                   weft_k_add(k, weft_k_times(e->k, c->at.number, 4096), weft_k_times(e->k, c->at.thread, 4)));
    if (e->b->owned) {
        add_owned(c, dq, record, at, in_flight);
        return;
    }
    wait_queries(c, dq, record, in_flight);
    for (int i = 0; i < 8; i++) put_four(c, dq, i, weft_k_plus(e->k, at, 512 * i), true);
}

static void take_turn(const consumer *c) {
    weft_keys_named(c->e, WEFT_K_named_sync, weft_k_plus(c->k, c->at.number, TURN), 256);
}
static void pass_turn(const consumer *c) {
    weft_keys_named(c->e, WEFT_K_named_arrive, weft_k_plus(c->k, not_own(c), TURN), 256);
}

static void emit_step(const consumer *c, weft_kval n, bool first) {
    const weft_key_kernel *e = c->e;
    const weft_backward *b = e->b;
    weft_kernel *k = c->k;
    weft_kval slot = weft_k_bits(e->k, n, 1), parity = weft_keys_parity(e, n),
              q_at = weft_k_times(e->k, slot, e->q_bytes);
    weft_kval s = weft_k_regs(k, WEFT_F32, 1, b->bm / 2), dp = weft_k_regs(k, WEFT_F32, 1, b->bm / 2),
              p = weft_k_regs(k, WEFT_U32, 1, b->bm / 4), ds = weft_k_regs(k, WEFT_U32, 1, b->bm / 4),
              dq = b->sums && !first ? weft_k_regs(k, WEFT_F32, 1, 32) : WEFT_KNONE;
    weft_kval q = weft_wgmma_operand(k, e->q_memory, q_at, 16), g = weft_wgmma_operand(k, e->do_memory, q_at, 16);
    int64_t inner = weft_backward_unit(b, b->bm), outer = weft_backward_unit(b, b->width);
    bool turns = b->way & WEFT_BACKWARD_TURNS, slopes = c->dk != WEFT_KNONE;
    bool late = !weft_attention_plain(&b->forms); /* dP after the weights: masks need its registers */
    weft_mbarrier_wait(k, e->q_full, slot, parity);
    if (turns && first) take_turn(c);
    weft_k_event(k, WEFT_K_mma_fence, 0);
    weft_wgmma_inner(k, inner, b->width, s, c->k_rows, e->kv_box, q, e->q_box);
    weft_mbarrier_wait(k, e->do_full, slot, parity);
    weft_k_event(k, WEFT_K_mma_fence, 0); /* again: a spin loop ended the block in which the first fence counts */
    if (slopes && !late) weft_wgmma_inner(k, inner, b->width, dp, c->v_rows, e->kv_box, g, e->q_box);
    if (turns) pass_turn(c);
    weft_mma_wait_for(k, 1, &s, late || !slopes ? 0 : 1);
    make_weights(c, s, p, slot, weft_k_bits(k, n, WEFT_KEYS_STEPS - 1));
    weft_kval do_rows = weft_wgmma_operand(k, e->do_memory, q_at, e->q_box);
    if (slopes && late) {
        weft_k_event(k, WEFT_K_mma_fence, 0);
        weft_wgmma_inner(k, inner, b->width, dp, c->v_rows, e->kv_box, g, e->q_box);
    }
    if (slopes) {
        weft_mma_wait_for(c->k, 1, &dp, 0);
        make_slopes(c, s, p, dp, ds, slot);
    }
    if (c->dv != WEFT_KNONE) finish_weights(c, s, p);
    if (b->sums) share_slopes(c, ds, slot, first);
    if (turns) take_turn(c);
    weft_k_event(e->k, WEFT_K_mma_fence, 0);
    if (b->sums && !first) issue_queries(c, dq, weft_k_xor(k, slot, weft_k_index(e->k, 1)));
    if (slopes) weft_wgmma_outer(k, outer, b->bm, c->dk, ds, weft_wgmma_operand(k, e->q_memory, q_at, e->q_box), first);
    if (c->dv != WEFT_KNONE) weft_wgmma_outer(k, outer, b->bm, c->dv, p, do_rows, first);
    if (b->sums && !first) add_queries(c, dq, weft_k_plus(e->k, n, -1), 2);
    weft_kval both[2] = {c->dv == WEFT_KNONE ? c->dk : c->dv, c->dk};
    weft_mma_wait_for(c->k, slopes && c->dv != WEFT_KNONE ? 2 : 1, both, 0);
    weft_k_event(e->k, WEFT_K_warp_sync, 0); /* every lane has read its statistics */
    weft_k_if(k, weft_k_eq(k, c->at.lane, weft_k_index(e->k, 0)));
    weft_mbarrier_arrive(e->k, e->q_empty, slot);
    weft_mbarrier_arrive(e->k, e->do_empty, slot);
    weft_k_end(k);
}

/* Sums times a factor, through this consumer's part of the output memory. */
static void send(const consumer *c, weft_kval sums, const weft_attention_side *side, double factor, weft_kval key,
                 weft_kval head) {
    const weft_key_kernel *e = c->e;
    weft_kernel *k = c->k;
    weft_kval leader = weft_k_eq(k, c->at.thread, weft_k_index(k, 0)), own = weft_k_plus(k, c->at.number, OWN_THREADS);
    weft_kval lane = late_lane(c),
              row = weft_k_add(k, weft_k_times(k, c->at.warp, 16), weft_k_rem(k, lane, weft_k_index(k, 16)));
    weft_kval out_row = weft_k_add(k, c->out_at, weft_k_times(k, row, 128));
    weft_k_if(k, leader);
    weft_k_effect(k, WEFT_K_bulk_wait, 0, NULL, 0, 1);
    weft_k_end(k);
    weft_keys_named(e, WEFT_K_named_sync, own, 128);
    weft_backward_stage(e->b, sums, factor, e->out_memory, out_row, lane, e->out_box);
    weft_keys_named(e, WEFT_K_named_sync, own, 128);
    weft_k_if(k, leader);
    weft_backward_send(e->b, side, e->out_memory, c->out_at, e->out_box, key, head);
    if (weft_backward_wide(e->b)) { /* the place is the keys' */
        weft_k_effect(k, WEFT_K_bulk_wait, 0, NULL, 0, 1);
        weft_mbarrier_arrive(e->k, e->kv_empty, weft_k_index(k, 0));
    }
    weft_k_end(k);
}

/* Operands of the keys and values in buffer `slot`. */
static void take_keys(consumer *c, weft_kval slot) {
    const weft_key_kernel *e = c->e;
    weft_kval at = weft_k_times(e->k, slot, e->kv_bytes),
              rows = weft_k_add(c->k, at, weft_k_times(e->k, c->at.number, WEFT_BACKWARD_ROWS * 128));
    c->k_rows = weft_wgmma_operand(c->k, e->k_memory, rows, 16);
    if (e->v_memory != WEFT_KNONE) c->v_rows = weft_wgmma_operand(c->k, e->v_memory, rows, 16);
    if (!e->b->sums) return;
    /* dQ: consumers share the columns of a wide head, else the queries */
    if (e->b->width == 128) at = weft_k_add(c->k, at, weft_k_times(e->k, c->at.number, e->kv_box));
    c->k_columns = weft_wgmma_operand(c->k, e->k_memory, at, e->kv_box);
}

static consumer make_consumer(const weft_key_kernel *e, weft_kval thread) {
    weft_kernel *k = e->k;
    consumer c = {.e = e, .k = k, .at = weft_consumer_place_of(k, thread)};
    weft_kval rows = weft_k_times(e->k, c.at.number, WEFT_BACKWARD_ROWS * 128);
    if (e->b->sums)
        c.ds_part =
            e->b->width == 128 ? weft_k_index(e->k, 0) : weft_k_times(e->k, c.at.number, WEFT_BACKWARD_KEYS * 128);
    if (e->kv_buffers == 1) take_keys(&c, weft_k_index(e->k, 0));
    weft_kval row = weft_k_add(k, weft_k_times(e->k, c.at.warp, 16), weft_k_rem(k, c.at.lane, weft_k_index(e->k, 16)));
    c.ds_row = weft_k_add(k, rows, weft_k_times(e->k, row, 128));
    int64_t own = weft_backward_wide(e->b) ? WEFT_BACKWARD_ROWS * 128 : (int64_t)e->out_bytes / WEFT_BACKWARD_CONSUMERS;
    c.out_at = weft_k_times(e->k, c.at.number, own);
    c.draw = weft_attention_draw_begin(&e->b->forms);
    c.dk = c.dv = WEFT_KNONE;
    if (e->b->part != WEFT_BACKWARD_ONLY_DV) c.dk = weft_k_regs(k, WEFT_F32, 1, e->b->width / 2);
    if (e->b->part != WEFT_BACKWARD_ONLY_DK) c.dv = weft_k_regs(k, WEFT_F32, 1, e->b->width / 2);
    return c;
}

void weft_keys_consumer(const weft_key_kernel *e, weft_kval thread) {
    const weft_backward *b = e->b;
    weft_kernel *k = e->k;
    consumer c = make_consumer(e, thread);
    weft_kval zero = weft_k_index(e->k, 0), one = weft_k_index(e->k, 1), phase = weft_k_var(k, zero),
              done = weft_k_var(k, zero);
    if (b->sums)
        for (int buffer = 0; buffer < 2; buffer++)
            weft_keys_named(e, WEFT_K_named_arrive, barrier_id(&c, DS_READ, weft_k_index(e->k, buffer), c.at.number),
                            256);
    if (b->way & WEFT_BACKWARD_TURNS) { /* consumer 0 has the first turn */
        weft_k_if(k, weft_k_eq(k, c.at.number, one));
        pass_turn(&c);
        weft_k_end(k);
    }
    weft_k_while(k);
    weft_kval tile_number = weft_k_get(k, phase), slot = weft_keys_slot(e, tile_number);
    c.phase = weft_k_bits(e->k, tile_number, 1);
    weft_mbarrier_wait(k, e->tile_full, zero, weft_k_convert(k, c.phase, WEFT_U32));
    weft_kval steps = weft_keys_word(e, e->tiles, c.phase, WEFT_KEYS_TILE_STEPS);
    weft_mbarrier_arrive(e->k, e->tile_empty, zero);
    weft_k_test(k, weft_k_ne(k, steps, zero));
    weft_mbarrier_wait(k, e->kv_full, slot, weft_keys_slot_parity(e, tile_number));
    if (e->kv_buffers == 2) take_keys(&c, slot);
    weft_kval from = weft_k_get(k, done), end = weft_k_add(k, from, steps);
    emit_step(&c, from, true);
    weft_kval n = weft_k_for(k, weft_k_add(k, from, one), end, one, 0);
    emit_step(&c, n, false);
    weft_k_end(k);
    weft_k_set(k, done, end);
    if (b->way & WEFT_BACKWARD_TURNS) pass_turn(&c);
    if (b->sums) { /* dQ of the last step */
        weft_kval last = weft_k_plus(e->k, end, -1), buffer = weft_k_bits(e->k, last, 1),
                  dq = weft_k_regs(k, WEFT_F32, 1, 32);
        weft_keys_named(e, WEFT_K_named_sync, barrier_id(&c, DS_WRITTEN, buffer, not_own(&c)), 256);
        weft_k_event(e->k, WEFT_K_mma_fence, 0);
        issue_queries(&c, dq, buffer);
        add_queries(&c, dq, last, 0);
    }
    if (!weft_backward_wide(b)) {
        weft_k_if(k, weft_k_eq(k, c.at.lane, zero));
        weft_mbarrier_arrive(e->k, e->kv_empty, slot);
        weft_k_end(k);
    }
    weft_kval key = weft_k_add(k, weft_keys_word(e, e->tiles, c.phase, WEFT_KEYS_TILE_KEY),
                               weft_k_times(e->k, c.at.number, WEFT_BACKWARD_ROWS)),
              head = weft_keys_word(e, e->tiles, c.phase, WEFT_KEYS_TILE_HEAD);
    if (c.dv != WEFT_KNONE)
        send(&c, c.dv, &e->dv, weft_attention_draws(&b->forms) ? weft_dropout_scale(b->forms.dropout) : 1, key, head);
    if (c.dk != WEFT_KNONE) send(&c, c.dk, &e->dk, b->scale, key, head);
    weft_k_set(k, phase, weft_k_bits(e->k, weft_k_plus(e->k, tile_number, 1), 3));
    weft_k_end(k);
    weft_k_if(k, weft_k_eq(k, c.at.thread, zero));
    weft_k_effect(k, WEFT_K_bulk_wait, 0, NULL, 0, 1);
    weft_k_end(k);
}
