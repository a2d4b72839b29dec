/* dK and dV, and dQ's sums where they are asked for: the kernel of keys of attention_backward_hopper.c.

   A block owns 128 keys (two consumers of 64: attention_backward_hopper_keys_consumer.c) and loops over the queries, bm
   at a time, of every head that reads its key head. dQ is added from the consumers' accumulators, in their order, to
   f32 sums: by atomics, or, where the block owns the key head and takes all its keys in turn, by its lanes alone: the
   first 128 keys store, the last ones that a tile of queries sees give the result. The producer writes first query,
   flags, padded row and row in memory of each step into a ring of four records. Tiles are taken from a counter, heads
   that share the L2 side by side, the longest first; an owner takes heads. Read next:
   attention_backward_hopper_keys_consumer.c. */
#include "codegen/builders/attention_backward_hopper_keys.h"

static weft_kval other(const weft_key_kernel *e, weft_kval parity) {
    return weft_k_xor(e->k, parity, weft_k_integer(e->k, WEFT_U32, 1));
}

/* -- producer */

typedef struct key_tile {
    weft_kval block, key, head;  /* first key; key head */
    weft_kval first, end, count; /* tiles of queries */
    weft_kval shift;             /* start among them */
    weft_kval list;
} key_tile;

static key_tile of_block(const weft_key_kernel *e, weft_kval block, weft_kval head, weft_kval blocks) {
    const weft_backward *b = e->b;
    weft_kernel *k = e->k;
    key_tile tile = {.block = block,
                     .key = weft_k_times(e->k, block, WEFT_BACKWARD_KEYS),
                     .head = head,
                     .first = weft_k_index(e->k, 0),
                     .shift = weft_k_index(e->k, 0)};
    weft_kval zero = weft_k_index(k, 0), bm = weft_k_index(k, b->bm), offset = weft_k_sub(k, e->s, e->t);
    tile.end = e->tiles_q;
    /* an owner's first block starts the sums of all queries, also of those that see no key */
    weft_kval all = b->owned ? weft_k_eq(k, block, zero) : WEFT_KNONE;
    if (b->forms.right >= 0) { /* the first query that sees the first key */
        weft_kval query = weft_k_plus(k, weft_k_sub(k, tile.key, offset), -b->forms.right);
        tile.first = weft_k_div(k, weft_k_max(k, zero, query), bm);
        if (b->owned) tile.first = weft_k_select(k, all, zero, tile.first);
    }
    tile.count = weft_k_sub(k, tile.end, tile.first), tile.list = WEFT_KNONE;
    if (b->listed) { /* first and end: of the list */
        tile.list = weft_attention_list(&b->key_pairs, head, e->list_heads, block, &tile.count);
        tile.first = zero, tile.end = tile.count;
    }
    if (!weft_attention_windowed(&b->forms) && !b->owned && !b->listed)
        tile.shift = weft_k_div(k, weft_k_mul(k, block, tile.count), blocks);
    return tile;
}

/* Tile t of the order in which blocks take them. */
static key_tile place(const weft_key_kernel *e, weft_kval t, weft_kval blocks) {
    weft_kernel *k = e->k;
    weft_kval from = weft_k_mul(k, weft_k_div(k, t, weft_k_mul(k, e->together, blocks)), e->together);
    weft_kval width = weft_k_min(k, e->together, weft_k_sub(k, e->key_heads, from)),
              rest = weft_k_sub(k, t, weft_k_mul(k, from, blocks)), block = weft_k_div(k, rest, width);
    return of_block(e, block, weft_k_add(k, from, weft_k_rem(k, rest, width)), blocks);
}

/* Rows of queries or of dO and their statistic, unless nobody reads that. */
static void load_rows(const weft_key_kernel *e, weft_kval memory, const weft_attention_side *side, weft_kval statistics,
                      weft_kval map_row, weft_kval full, weft_kval slot, weft_kval q0, weft_kval head) {
    bool both = map_row != WEFT_KNONE;
    weft_mbarrier_emit(e->k, WEFT_K_mbarrier_expect, full, slot, e->q_bytes + (both ? 4 * e->b->bm : 0));
    weft_backward_load(e->b, memory, weft_k_times(e->k, slot, e->q_bytes), e->q_box, side, full, slot, q0, head);
    if (!both) return;
    weft_k_effect(e->k, WEFT_K_tensor_load, 7,
                  (weft_kval[]){statistics, weft_k_times(e->k, slot, 4 * e->statistics), map_row, full, slot, q0, head},
                  0, 0);
}

/* part: whether there is anything to mask, where a list says it. */
static void produce_step(const weft_key_kernel *e, const key_tile *tile, weft_kval n, weft_kval query_tile,
                         weft_kval head, weft_kval part) {
    const weft_backward *b = e->b;
    weft_kernel *k = e->k;
    weft_kval q0 = weft_k_times(e->k, query_tile, b->bm), slot = weft_k_bits(e->k, n, 1),
              parity = other(e, weft_keys_parity(e, n)), record = weft_k_bits(e->k, n, WEFT_KEYS_STEPS - 1);
    weft_mbarrier_wait(k, e->q_empty, slot, parity);
    weft_kval end = weft_k_plus(e->k, tile->key, WEFT_BACKWARD_KEYS), masked = weft_k_lt(k, e->s, end);
    if (b->forms.right >= 0) { /* the last key that the first query sees */
        weft_kval last = weft_k_plus(k, weft_k_add(k, q0, weft_k_sub(k, e->s, e->t)), b->forms.right);
        masked = weft_k_or(k, masked, weft_k_lt(k, last, weft_k_plus(k, end, -1)));
    }
    if (part != WEFT_KNONE) masked = part;
    weft_keys_set_word(e, e->steps, record, WEFT_KEYS_STEP_QUERY, q0);
    weft_kval flags = weft_k_select(k, masked, weft_k_index(e->k, WEFT_KEYS_FLAG_MASKED), weft_k_index(e->k, 0));
    if (b->sums) {
        weft_kval row = weft_k_times(e->k, weft_k_add(k, weft_k_mul(k, head, e->tiles_q), query_tile), b->bm);
        weft_keys_set_word(e, e->steps, record, WEFT_KEYS_STEP_ROW, row);
    }
    if (b->owned) {
        weft_kval final = e->last_block, first = weft_k_eq(k, tile->block, weft_k_index(e->k, 0));
        if (b->causal) { /* the last block that some query of the tile sees */
            weft_kval key = weft_k_plus(k, weft_k_add(k, q0, weft_k_sub(k, e->s, e->t)), b->bm - 1 + b->forms.right);
            key = weft_k_max(k, weft_k_index(k, 0), key);
            final = weft_k_min(k, final, weft_k_div(k, key, weft_k_index(k, WEFT_BACKWARD_KEYS)));
        }
        flags = weft_k_add(k, flags,
                           weft_k_select(k, first, weft_k_index(e->k, WEFT_KEYS_FLAG_FIRST), weft_k_index(e->k, 0)));
        weft_kval last = weft_k_eq(k, tile->block, final);
        flags = weft_k_add(k, flags,
                           weft_k_select(k, last, weft_k_index(e->k, WEFT_KEYS_FLAG_LAST), weft_k_index(e->k, 0)));
        weft_keys_set_word(e, e->steps, record, WEFT_KEYS_STEP_LINE, weft_attention_line(k, &e->dq, q0, head));
    }
    weft_keys_set_word(e, e->steps, record, WEFT_KEYS_STEP_FLAGS, flags);
    if (e->words > 4) weft_keys_set_word(e, e->steps, record, WEFT_KEYS_STEP_HEAD, head);
    load_rows(e, e->q_memory, &e->q, e->lse_memory, e->map_lse, e->q_full, slot, q0, head);
    weft_mbarrier_wait(k, e->do_empty, slot, parity);
    load_rows(e, e->do_memory, &e->g, e->delta_memory, e->map_delta, e->do_full, slot, q0, head);
}

/* The kernel for dK has a counter of its own behind that for dV. */
static weft_kval take_number(const weft_key_kernel *e) {
    weft_kval counter = weft_k_index(e->k, e->b->part == WEFT_BACKWARD_ONLY_DK);
    return weft_kernel_emit(e->k, WEFT_K_atomic, weft_kvector(WEFT_I32, 1), 3,
                            (weft_kval[]){e->counters, counter, weft_k_integer(e->k, WEFT_I32, 1)}, WEFT_ATOMIC_ADD, 0);
}

static void emit_producer(weft_key_kernel *e) {
    weft_kernel *k = e->k;
    weft_kval zero = weft_k_index(e->k, 0), one = weft_k_index(e->k, 1);
    weft_kval blocks = weft_k_div(k, weft_k_plus(e->k, e->s, WEFT_BACKWARD_KEYS - 1),
                                  weft_k_index(e->k, WEFT_BACKWARD_KEYS)),
              all = weft_k_mul(k, blocks, e->key_heads);
    e->last_block = weft_k_plus(e->k, blocks, -1);
    weft_kval phase = weft_k_var(k, zero), steps = weft_k_var(k, zero), query_tile = weft_k_var(k, zero),
              head = weft_k_var(k, zero);
    weft_kval own_head = WEFT_KNONE, own_block = WEFT_KNONE;
    if (e->b->owned) own_head = weft_k_var(k, zero), own_block = weft_k_var(k, blocks);
    weft_k_while(k);
    weft_kval tile_number = weft_k_get(k, phase), record = weft_k_bits(e->k, tile_number, 1),
              parity = other(e, weft_k_convert(k, record, WEFT_U32)), t, more;
    if (e->b->owned) {
        weft_k_if(k, weft_k_eq(k, weft_k_get(k, own_block), blocks));
        weft_k_set(k, own_head, take_number(e));
        weft_k_set(k, own_block, zero);
        weft_k_end(k);
        t = weft_k_get(k, own_head);
        more = weft_k_lt(k, t, e->key_heads);
    } else {
        t = take_number(e);
        more = weft_k_lt(k, t, all);
    }
    weft_mbarrier_wait(k, e->tile_empty, zero, parity);
    weft_k_if(k, weft_k_eq(k, more, weft_k_integer(k, WEFT_BOOL, 0)));
    weft_keys_set_word(e, e->tiles, record, WEFT_KEYS_TILE_STEPS, zero);
    weft_mbarrier_arrive(e->k, e->tile_full, zero);
    weft_k_end(k);
    weft_k_test(k, more);
    key_tile tile = e->b->owned ? of_block(e, weft_k_get(k, own_block), t, blocks) : place(e, t, blocks);
    if (e->b->owned) weft_k_set(k, own_block, weft_k_plus(e->k, tile.block, 1));
    weft_kval count = weft_k_mul(k, tile.count, e->group), start = weft_k_add(k, tile.first, tile.shift);
    weft_keys_set_word(e, e->tiles, record, WEFT_KEYS_TILE_STEPS, count);
    weft_keys_set_word(e, e->tiles, record, WEFT_KEYS_TILE_KEY, tile.key);
    weft_keys_set_word(e, e->tiles, record, WEFT_KEYS_TILE_HEAD, tile.head);
    weft_keys_set_word(e, e->tiles, record, WEFT_KEYS_TILE_ZERO, zero);
    weft_mbarrier_arrive(e->k, e->tile_full, zero);
    weft_kval slot = weft_keys_slot(e, tile_number), at = weft_k_times(e->k, slot, e->kv_bytes);
    weft_mbarrier_wait(k, e->kv_empty, slot, other(e, weft_keys_slot_parity(e, tile_number)));
    bool values = e->b->part != WEFT_BACKWARD_ONLY_DV;
    weft_mbarrier_emit(k, WEFT_K_mbarrier_expect, e->kv_full, slot, (values ? 2 : 1) * e->kv_bytes);
    weft_backward_load(e->b, e->k_memory, at, e->kv_box, &e->k_side, e->kv_full, slot, tile.key, tile.head);
    if (values) weft_backward_load(e->b, e->v_memory, at, e->kv_box, &e->v, e->kv_full, slot, tile.key, tile.head);
    weft_k_set(k, head, weft_k_mul(k, tile.head, e->group));
    weft_k_set(k, query_tile, start);
    weft_kval from = weft_k_get(k, steps), n = weft_k_for(k, from, weft_k_add(k, from, count), one, 0);
    weft_kval queries = weft_k_get(k, query_tile);
    weft_kval part = WEFT_KNONE;
    if (e->b->listed) queries = weft_attention_listed(&e->b->key_pairs, tile.list, queries, &part);
    produce_step(e, &tile, n, queries, weft_k_get(k, head), part);
    weft_kval next = weft_k_add(k, weft_k_get(k, query_tile), one);
    next = weft_k_select(k, weft_k_eq(k, next, tile.end), tile.first, next);
    weft_k_set(k, query_tile, next);
    weft_kval again = weft_k_eq(k, next, start);
    weft_k_set(k, head, weft_k_add(k, weft_k_get(k, head), weft_k_select(k, again, one, zero)));
    weft_k_end(k);
    weft_k_set(k, steps, weft_k_add(k, from, count));
    weft_k_set(k, phase, weft_k_bits(e->k, weft_k_plus(e->k, tile_number, 1), 3));
    weft_k_end(k);
}

/* -- the kernel */

static void make_arguments(weft_key_kernel *e) {
    weft_backward *b = e->b;
    int bm = b->bm, keys = WEFT_BACKWARD_KEYS, rows = WEFT_BACKWARD_ROWS;
    e->q = weft_backward_in(b, WEFT_BACKWARD_Q, bm, "q");
    e->k_side = weft_backward_in(b, WEFT_BACKWARD_K, keys, "k");
    if (b->part != WEFT_BACKWARD_ONLY_DV) e->v = weft_backward_in(b, WEFT_BACKWARD_V, keys, "v");
    e->g = weft_backward_in(b, WEFT_BACKWARD_DO, bm, "do");
    if (b->part != WEFT_BACKWARD_ONLY_DV) e->dk = weft_backward_out(b, WEFT_BACKWARD_DK, rows, "dk");
    if (b->part != WEFT_BACKWARD_ONLY_DK) e->dv = weft_backward_out(b, WEFT_BACKWARD_DV, rows, "dv");
    (void)weft_backward_temp(b, WEFT_BACKWARD_LSE2, WEFT_F32, false, "lse2");
    e->map_lse = weft_backward_statistics_map(b, "map_lse");
    e->map_delta = WEFT_KNONE;
    if (b->part != WEFT_BACKWARD_ONLY_DV) {
        (void)weft_backward_temp(b, WEFT_BACKWARD_DELTA, WEFT_F32, false, "delta");
        e->map_delta = weft_backward_statistics_map(b, "map_delta");
    }
    e->counters = weft_backward_temp(b, WEFT_BACKWARD_COUNTERS, WEFT_I32, true, "counters");
    e->sums = b->sums ? weft_backward_temp(b, WEFT_BACKWARD_SUMS, WEFT_F32, true, "sums") : WEFT_KNONE;
    e->dq_memory = WEFT_KNONE;
    if (b->owned) e->dq = weft_backward_lines_out(b, WEFT_BACKWARD_DQ, "dq", &e->dq_memory);
}

static void make_memory(weft_key_kernel *e) {
    weft_kernel *k = e->k;
    e->k_memory = weft_k_shared(k, WEFT_U8, (weft_dim)e->kv_buffers * e->kv_bytes);
    e->v_memory = WEFT_KNONE;
    if (e->b->part != WEFT_BACKWARD_ONLY_DV)
        e->v_memory = weft_k_shared(k, WEFT_U8, (weft_dim)e->kv_buffers * e->kv_bytes);
    e->q_memory = weft_k_shared(k, WEFT_U8, (weft_dim)WEFT_KEYS_STAGES * e->q_bytes);
    e->do_memory = weft_k_shared(k, WEFT_U8, (weft_dim)WEFT_KEYS_STAGES * e->q_bytes);
    e->ds_memory = e->b->sums ? weft_k_shared(k, WEFT_U8, (weft_dim)2 * e->ds_bytes) : WEFT_KNONE;
    /* wide results leave through their consumer's own rows of the keys, whose last reader is done */
    e->out_memory = weft_backward_wide(e->b) ? e->k_memory : weft_k_shared(k, WEFT_U8, e->out_bytes);
    e->lse_memory = weft_k_shared(k, WEFT_F32, (weft_dim)WEFT_KEYS_STAGES * e->statistics);
    e->delta_memory = weft_k_shared(k, WEFT_F32, (weft_dim)WEFT_KEYS_STAGES * e->statistics);
    e->steps = weft_k_shared(k, WEFT_I32, (weft_dim)WEFT_KEYS_STEPS * e->words);
    e->tiles = weft_k_shared(k, WEFT_I32, (weft_dim)2 * e->words);
    e->q_full = weft_mbarrier_create(k, WEFT_KEYS_STAGES), e->q_empty = weft_mbarrier_create(k, WEFT_KEYS_STAGES);
    e->do_full = weft_mbarrier_create(k, WEFT_KEYS_STAGES), e->do_empty = weft_mbarrier_create(k, WEFT_KEYS_STAGES);
    e->kv_full = weft_mbarrier_create(k, e->kv_buffers), e->kv_empty = weft_mbarrier_create(k, e->kv_buffers);
    e->tile_full = weft_mbarrier_create(k, 1), e->tile_empty = weft_mbarrier_create(k, 1);
}

static void init(const weft_key_kernel *e, weft_kval barrier, int index, int arrivals) {
    weft_mbarrier_emit(e->k, WEFT_K_mbarrier_init, barrier, weft_k_index(e->k, index), arrivals);
}

static void init_barriers(const weft_key_kernel *e, weft_kval thread) {
    const int warps = 4 * WEFT_BACKWARD_CONSUMERS,
              releases = weft_backward_wide(e->b) ? WEFT_BACKWARD_CONSUMERS : warps;
    weft_k_if(e->k, weft_k_eq(e->k, thread, weft_k_index(e->k, 0)));
    for (int s = 0; s < WEFT_KEYS_STAGES; s++) {
        init(e, e->q_full, s, 1), init(e, e->q_empty, s, warps);
        init(e, e->do_full, s, 1), init(e, e->do_empty, s, warps);
    }
    for (int s = 0; s < e->kv_buffers; s++) init(e, e->kv_full, s, 1), init(e, e->kv_empty, s, releases);
    init(e, e->tile_full, 0, 1), init(e, e->tile_empty, 0, 32 * warps);
    weft_k_event(e->k, WEFT_K_mbarrier_init_fence, 0);
    weft_k_end(e->k);
    weft_k_barrier(e->k);
}

void weft_backward_keys(weft_backward *b) {
    weft_kernel *k = b->k;
    weft_dim_table *dims = k->dims;
    int halves = weft_backward_halves(b);
    weft_key_kernel e = {.b = b, .k = k};
    e.kv_box = WEFT_BACKWARD_KEYS * 128, e.kv_bytes = halves * e.kv_box;
    e.q_box = b->bm * 128, e.q_bytes = halves * e.q_box;
    e.kv_buffers = b->way & WEFT_BACKWARD_TWO_KEYS ? 2 : 1;
    e.words = b->forms.mask || weft_attention_draws(&b->forms) ? 8 : 4;
    e.statistics = (b->bm + 31) / 32 * 32;
    e.ds_bytes = b->bm / 64 * WEFT_BACKWARD_KEYS * 128;
    e.out_box = weft_backward_wide(b) ? e.kv_box : WEFT_BACKWARD_ROWS * 128;
    e.out_bytes = WEFT_BACKWARD_CONSUMERS * halves * WEFT_BACKWARD_ROWS * 128;
    weft_dim tiles = weft_dim_multiply(dims, weft_dim_divide_ceil(dims, b->keys, WEFT_BACKWARD_KEYS), b->key_heads);
    if (b->owned) tiles = b->key_heads;
    weft_backward_start(b, tiles);
    make_arguments(&e);
    make_memory(&e);
    weft_kval thread = weft_k_thread(k);
    e.t = weft_backward_length(b, b->queries), e.s = weft_backward_length(b, b->keys);
    e.key_heads = weft_backward_length(b, b->key_heads), e.group = weft_backward_length(b, b->group);
    e.tiles_q = weft_backward_length(b, b->tiles);
    weft_dim each = weft_dim_multiply(dims, weft_dim_multiply(dims, b->group, b->rows), b->width * (b->sums ? 8 : 4));
    e.together = weft_backward_together(b, b->key_heads, each);
    if (b->listed) weft_attention_lists_declare(&b->key_pairs, k);
    e.list_heads = weft_operand_type(b->node, WEFT_BACKWARD_K)->dims[1];
    b->forms.s = e.s, b->forms.offset = weft_k_sub(k, e.s, e.t);
    init_barriers(&e, thread);
    bool less = weft_backward_gives_less(b);
    weft_k_effect(k, WEFT_K_role, 0, NULL, 1, weft_backward_give(less));
    weft_k_if(k, weft_k_eq(k, thread, weft_k_index(e.k, 0)));
    emit_producer(&e);
    weft_k_end(k);
    weft_k_effect(k, WEFT_K_role, 0, NULL, WEFT_BACKWARD_CONSUMERS, weft_backward_take(less));
    weft_keys_consumer(&e, thread);
    weft_k_end(k);
}
