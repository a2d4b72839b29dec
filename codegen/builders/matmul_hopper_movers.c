/* Warpgroup 0 of the Hopper matmul: warp 0 loads operands into the ring; warp 1 + w moves the output of consumer w, and
   the companion's tile before it, so that consumers never wait for a store. A slot of the ring is written and read by
   the asynchronous proxy alone. Read next: matmul_hopper_kernel.c, the consumers. */
#include "codegen/builders/matmul_hopper.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval times(weft_hopper *h, weft_kval a, int64_t b) { return weft_k_mul(h->k, a, index_of(h, b)); }
static weft_kval plus(weft_hopper *h, weft_kval a, weft_kval b) { return weft_k_add(h->k, a, b); }

/* -- producer */

static void load_tile(weft_hopper *h, weft_kval to, weft_kval map, weft_kval slot, weft_kval x, weft_kval y,
                      weft_kval batch, int multicast) {
    weft_kval operands[8] = {h->operands, to, map, h->ring.full, slot, x, y, batch};
    weft_k_effect(h->k, WEFT_K_tensor_load, batch == WEFT_KNONE ? 7 : 8, operands, multicast, 0);
}

/* What an operand's map has as its third axis; WEFT_KNONE: it has none. */
static weft_kval batch_of(const weft_hopper *h, const weft_product_side *side, weft_tile_place place) {
    if (h->ragged.node)
        return side == &h->product.b && h->ragged.by_rows && h->ragged.groups != 1 ? place.group : WEFT_KNONE;
    return h->product.batch == 1 ? WEFT_KNONE : place.batch;
}

/* A tile whose rows of memory run along k is one box, or one for every 64 rows where the last tile is cut: rows past
   the end cost a tensor copy about ten cycles each, so boxes wholly past it read other rows instead, of which nothing
   is stored. Otherwise one box for every 64 columns. */
static void load_a(weft_hopper *h, weft_kval slot, weft_kval at, weft_kval k0, weft_tile_place place) {
    weft_kernel *k = h->k;
    weft_kval batch = batch_of(h, &h->product.a, place);
    weft_kval m = plus(h, place.m, times(h, h->rank, h->bm));
    if (!h->product.a.k_contiguous) {
        for (int box = 0; box < h->bm / 64; box++)
            load_tile(h, plus(h, at, index_of(h, (int64_t)box * HOPPER_BOX_BYTES)), h->map_a, slot,
                      plus(h, m, index_of(h, 64 * box)), k0, batch, 0);
        return;
    }
    if (h->a_rows < 64) { /* all rows there are, in the first of 64 */
        load_tile(h, at, h->map_a, slot, k0, m, batch, 0);
        return;
    }
    weft_kval end = weft_k_extent(k, h->product.m), inside;
    for (int row = 0; row < h->bm; row += h->a_rows) {
        weft_kval first = plus(h, m, index_of(h, row));
        if (h->a_rows < h->bm) {
            inside = weft_k_max(k, weft_k_sub(k, end, index_of(h, h->a_rows)), index_of(h, 0));
            first = weft_k_select(k, weft_k_lt(k, first, end), first, inside);
        }
        load_tile(h, plus(h, at, index_of(h, (int64_t)row * HOPPER_ROW_BYTES)), h->map_a, slot, k0, first, batch, 0);
    }
}

/* B of a narrow tile: one box, every block its own. */
static void load_tail(weft_hopper *h, weft_kval slot, weft_kval at, weft_kval k0, weft_tile_place place) {
    bool along_k = h->product.b.k_contiguous;
    load_tile(h, at, h->map_tail, slot, along_k ? k0 : place.n, along_k ? place.n : k0,
              batch_of(h, &h->product.b, place), 0);
}

/* A slot of a narrow tile: its steps of k, all of A before B. Such tiles multiply little and wait for memory, so that
   what is on its way decides how long they take; a step past the end of k reads zeros. */
static void load_narrow(weft_hopper *h, const weft_ring *ring, weft_kval at, weft_kval step, weft_tile_place place) {
    weft_kval slot = weft_ring_slot(h->k, ring);
    int bytes = weft_hopper_tail_bytes(h);
    weft_ring_expect(h->k, ring, h->deep * (h->a_loaded + bytes));
    for (int i = 0; i < h->deep; i++) {
        weft_kval k0 = times(h, plus(h, times(h, step, h->deep), index_of(h, i)), h->bk);
        load_a(h, slot, plus(h, at, index_of(h, (int64_t)i * h->a_bytes)), k0, place);
        load_tail(h, slot, plus(h, at, index_of(h, (int64_t)h->deep * h->a_bytes + (int64_t)i * bytes)), k0, place);
    }
}

/* Each block of a cluster loads its share of the B tile for both. */
static void load_b(weft_hopper *h, weft_kval slot, weft_kval at, weft_kval k0, weft_tile_place place) {
    weft_kval batch = batch_of(h, &h->product.b, place);
    int all = h->cluster > 1 ? (1 << h->cluster) - 1 : 0;
    if (h->product.b.k_contiguous) {
        weft_kval to = plus(h, at, times(h, h->rank, h->b_bytes / h->cluster)),
                  n = plus(h, place.n, times(h, h->rank, h->bn / h->cluster));
        load_tile(h, to, h->map_b, slot, k0, n, batch, all);
        return;
    }
    int rows = h->bk / h->cluster;
    for (int box = 0; box < h->bn / 64; box++) {
        weft_kval to =
            plus(h, at, plus(h, times(h, h->rank, 128 * rows), index_of(h, (int64_t)box * HOPPER_BOX_BYTES)));
        load_tile(h, to, h->map_b, slot, plus(h, place.n, index_of(h, 64 * box)), plus(h, k0, times(h, h->rank, rows)),
                  batch, all);
    }
}

static void emit_producer(weft_hopper *h) {
    weft_kernel *k = h->k;
    weft_ring ring = weft_ring_begin(k, &h->ring);
    weft_kval tile = weft_hopper_tiles_for(h, WEFT_KNONE), begin, end;
    weft_tile_place place = weft_hopper_tile_place(h, tile);
    (void)weft_hopper_tile_part(h, tile, place, &begin, &end);
    weft_kval narrow = weft_hopper_tile_is_tail(h, tile);
    if (h->deep > 1) end = weft_k_select(k, narrow, weft_hopper_slots(h, end, h->deep), end);
    weft_kval step = weft_k_for(k, begin, end, index_of(h, 1), 0);
    weft_kval slot = weft_ring_slot(k, &ring), at = times(h, slot, h->stage_bytes), k0 = times(h, step, h->bk);
    if (weft_hopper_by_group(h)) k0 = plus(h, k0, place.first);
    weft_kval b_at = plus(h, at, index_of(h, h->a_bytes));
    weft_ring_wait_empty(k, &ring);
    if (h->tail) {
        weft_k_if(k, narrow);
        load_narrow(h, &ring, at, step, place);
        weft_k_else(k);
    }
    weft_ring_expect(k, &ring, h->a_loaded + h->b_bytes);
    load_a(h, slot, at, k0, place);
    load_b(h, slot, b_at, k0, place);
    if (h->tail) weft_k_end(k);
    weft_ring_advance(k, &ring);
    weft_k_end(k);
    weft_k_end(k);
    /* a peer's release of a slot may still be under way, and must not meet a block that has ended */
    for (int stage = 0; h->cluster > 1 && stage < h->stages; stage++) {
        weft_ring_wait_empty(k, &ring);
        weft_ring_advance(k, &ring);
    }
}

/* -- mover of one consumer */

typedef struct mover {
    weft_kval consumer, out; /* its number; the offset of its staging */
} mover;

weft_kval weft_hopper_staging(weft_hopper *h, weft_kval consumer, int buffer) {
    return plus(h, times(h, consumer, h->outs), index_of(h, buffer));
}

weft_kval weft_hopper_rows_above(weft_hopper *h, weft_kval consumer) {
    weft_kval above = times(h, h->rank, h->bm);
    return h->turns ? above : plus(h, above, times(h, consumer, 64));
}

/* Coordinates of chunk c of the consumer's part of a tile: 64 rows after 64 rows, from left to right. */
static int chunk_coordinates(weft_hopper *h, const mover *mv, weft_tile_place place, int c, weft_kval *out) {
    int across = h->bn / h->chunk;
    weft_kval m = plus(h, place.m, weft_hopper_rows_above(h, mv->consumer));
    out[0] = plus(h, place.n, index_of(h, (int64_t)h->chunk * (c % across)));
    out[1] = plus(h, m, index_of(h, 64 * (c / across)));
    out[2] = place.batch;
    return h->product.batch == 1 ? 2 : 3;
}

/* Buffer c % outs is free: the companion's chunk lands where its output will leave from. */
static void stage_chunk(weft_hopper *h, const mover *mv, weft_tile_place place, int c) {
    int buffer = c % h->outs;
    weft_kval barrier = weft_hopper_staging(h, mv->consumer, buffer);
    if (h->companion < 0) {
        weft_mbarrier_emit(h->k, WEFT_K_mbarrier_arrive, h->staged, barrier, 0);
        return;
    }
    weft_mbarrier_emit(h->k, WEFT_K_mbarrier_expect, h->staged, barrier, HOPPER_CHUNK_BYTES);
    weft_kval operands[8] = {h->staging, plus(h, mv->out, index_of(h, (int64_t)buffer * HOPPER_CHUNK_BYTES)),
                             h->map_companion, h->staged, barrier};
    int rank = chunk_coordinates(h, mv, place, c, operands + 5);
    weft_k_effect(h->k, WEFT_K_tensor_load, 5 + rank, operands, 0, 0);
}

/* c counts the chunks of all results: those of one place follow each other. */
static void send_chunk(weft_hopper *h, const mover *mv, weft_tile_place place, int c, weft_kval phase) {
    weft_kernel *k = h->k;
    int buffer = c % h->outs;
    weft_kval parity =
        weft_k_and(k, weft_k_binary(k, WEFT_K_shr, weft_k_get(k, phase), weft_k_integer(k, WEFT_U32, buffer)),
                   weft_k_integer(k, WEFT_U32, 1));
    weft_mbarrier_wait(k, h->written, weft_hopper_staging(h, mv->consumer, buffer), parity);
    weft_k_set(k, phase, weft_k_xor(k, weft_k_get(k, phase), weft_k_integer(k, WEFT_U32, 1 << buffer)));
    weft_kval operands[6] = {h->map_out[c % h->results], h->staging,
                             plus(h, mv->out, index_of(h, (int64_t)buffer * HOPPER_CHUNK_BYTES))};
    int rank = chunk_coordinates(h, mv, place, c / h->results, operands + 3);
    weft_k_effect(k, WEFT_K_tensor_store, 3 + rank, operands, 0, 0);
    weft_k_effect(k, WEFT_K_bulk_commit, 0, NULL, 0, 0);
    weft_k_effect(k, WEFT_K_bulk_wait, 0, NULL, 0, 1);
}

/* Chunks that a tile has, and a narrow one; those after it are skipped then. Without a companion it makes no difference
   for which tile a buffer is given free, so the buffers that a narrow tile leaves unused serve the next. */
static int chunks_of(const weft_hopper *h) { return h->blocks * (h->bn / h->chunk) * h->results; }
static int narrow_chunks(const weft_hopper *h) { return (h->tail + h->chunk - 1) / h->chunk * h->results; }
static void begin_rest(weft_hopper *h, weft_kval tile) {
    if (h->tail) weft_k_if(h->k, weft_k_binary(h->k, WEFT_K_lt, tile, h->whole));
}
static void end_rest(weft_hopper *h) {
    if (h->tail) weft_k_end(h->k);
}

static void emit_mover(weft_hopper *h, weft_kval consumer) {
    weft_kernel *k = h->k;
    int chunks = chunks_of(h);
    weft_kval owner = weft_hopper_owner(h, consumer);
    mover mv = {consumer, times(h, consumer, (int64_t)h->outs * HOPPER_CHUNK_BYTES)};
    weft_kval phase = weft_k_var(k, weft_k_integer(k, WEFT_U32, 0));
    weft_kval first = weft_hopper_tile_first(h, owner);
    weft_k_if(k, weft_hopper_tile_exists(h, first));
    weft_tile_place start = weft_hopper_tile_place(h, first);
    for (int c = 0; c < h->outs; c++) stage_chunk(h, &mv, start, c);
    weft_k_end(k);
    weft_kval tile = weft_hopper_tiles_for(h, owner);
    weft_tile_place place = weft_hopper_tile_place(h, tile);
    weft_kval next = weft_hopper_tile_next(h, tile, owner);
    weft_kval more = weft_hopper_tile_exists(h, next);
    weft_tile_place after = weft_hopper_tile_place(h, weft_k_select(k, more, next, tile)); /* no division by 0 rows */
    for (int c = 0; c < chunks; c++) {
        if (c == narrow_chunks(h)) begin_rest(h, tile);
        send_chunk(h, &mv, place, c, phase);
        if (c + h->outs < chunks) {
            stage_chunk(h, &mv, place, c + h->outs);
            continue;
        }
        weft_k_if(k, more);
        stage_chunk(h, &mv, after, c + h->outs - chunks);
        weft_k_end(k);
    }
    if (chunks > narrow_chunks(h)) end_rest(h);
    weft_k_end(k);
}

/* Rows of a staged chunk by the whole warp, several at a time where 16 bytes of each are aligned: neighbours in a row
   are neighbours in memory, whatever their alignment. */
static void copy_chunk(weft_hopper *h, const mover *mv, weft_tile_place place, int c, weft_kval lane) {
    weft_kernel *k = h->k;
    weft_kval corner[3], m = weft_k_extent(k, h->product.m), n = weft_k_extent(k, h->product.n),
                         out = h->index->results[c % h->results], end = weft_hopper_rows_end(h, place);
    (void)chunk_coordinates(h, mv, place, c / h->results, corner);
    int64_t known = weft_dim_divisor(k->dims, h->product.n);
    int lanes = known % 8 == 0 ? 8 : known % 2 == 0 ? 2 : 1, across = lanes > 1 ? 64 / lanes : 32, rows = 32 / across;
    weft_kval first = plus(h, weft_k_mul(k, place.batch, m), corner[1]),
              line = weft_k_div(k, lane, index_of(h, across));
    lane = weft_k_rem(k, lane, index_of(h, across));
    weft_kval row = plus(h, weft_k_for(k, index_of(h, 0), index_of(h, 64), index_of(h, rows), 4), line),
              swizzle = times(h, weft_k_and(k, row, index_of(h, 7)), 16);
    weft_kval row_at =
        plus(h, plus(h, mv->out, index_of(h, (int64_t)(c % h->outs) * HOPPER_CHUNK_BYTES)), times(h, row, 128));
    for (int part = 0; part < 64; part += across * lanes) {
        weft_kval column = plus(h, times(h, lane, lanes), index_of(h, part)), to = plus(h, corner[0], column);
        weft_kval at = plus(h, row_at, weft_k_xor(k, times(h, column, 2), swizzle));
        weft_kval value = weft_k_load(k, h->staging, weft_k_div(k, at, index_of(h, 2)), lanes, WEFT_KNONE, WEFT_KNONE);
        if (!k->failed) k->instrs[value].align_bytes = 2 * lanes;
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, plus(h, corner[1], row), end), weft_k_lt(k, to, n)));
        weft_k_store(k, out, plus(h, weft_k_mul(k, plus(h, first, row), n), to), WEFT_KNONE, value);
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 2 * lanes;
        weft_k_end(k);
    }
    weft_k_end(k);
}

static void emit_row_mover(weft_hopper *h, weft_kval consumer, weft_kval lane) {
    weft_kernel *k = h->k;
    mover mv = {consumer, times(h, consumer, (int64_t)h->outs * HOPPER_CHUNK_BYTES)};
    weft_kval phase = weft_k_var(k, weft_k_integer(k, WEFT_U32, 0)), leader = weft_k_eq(k, lane, index_of(h, 0)),
              one = weft_k_integer(k, WEFT_U32, 1);
    weft_k_if(k, leader);
    for (int buffer = 0; buffer < h->outs; buffer++)
        weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, h->staged, weft_hopper_staging(h, consumer, buffer), 0);
    weft_k_end(k);
    weft_kval tile = weft_hopper_tiles_for(h, weft_hopper_owner(h, consumer));
    weft_tile_place place = weft_hopper_tile_place(h, tile);
    for (int c = 0; c < chunks_of(h); c++) {
        int buffer = c % h->outs;
        if (c == narrow_chunks(h)) begin_rest(h, tile);
        weft_kval parity =
            weft_k_and(k, weft_k_binary(k, WEFT_K_shr, weft_k_get(k, phase), weft_k_integer(k, WEFT_U32, buffer)), one);
        weft_mbarrier_wait(k, h->written, weft_hopper_staging(h, consumer, buffer), parity);
        weft_k_set(k, phase, weft_k_xor(k, weft_k_get(k, phase), weft_k_integer(k, WEFT_U32, 1 << buffer)));
        copy_chunk(h, &mv, place, c, lane);
        weft_k_effect(k, WEFT_K_warp_sync, 0, NULL, 0, 0);
        weft_k_if(k, leader);
        weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, h->staged, weft_hopper_staging(h, consumer, buffer), 0);
        weft_k_end(k);
    }
    if (chunks_of(h) > narrow_chunks(h)) end_rest(h);
    weft_k_end(k);
}

void weft_hopper_emit_movers(weft_hopper *h, weft_kval thread) {
    weft_kernel *k = h->k;
    weft_kval warp = weft_k_div(k, thread, index_of(h, 32)),
              uniform = weft_kernel_emit(k, WEFT_K_warp_uniform, weft_ktype_of(k, warp), 1, &warp, 0, 0);
    weft_kval lane = weft_k_rem(k, thread, index_of(h, 32)), leader = weft_k_eq(k, lane, index_of(h, 0));
    weft_k_if(k, weft_k_and(k, weft_k_eq(k, uniform, index_of(h, 0)), leader));
    emit_producer(h);
    weft_k_end(k);
    if (!weft_hopper_staged(h)) return;
    weft_kval moves =
        weft_k_and(k, weft_k_lt(k, index_of(h, 0), uniform), weft_k_le(k, uniform, index_of(h, h->consumers)));
    weft_kval consumer = weft_k_sub(k, uniform, index_of(h, 1));
    weft_k_if(k, h->store == HOPPER_STORE_ROWS ? moves : weft_k_and(k, moves, leader));
    if (h->store == HOPPER_STORE_ROWS)
        emit_row_mover(h, consumer, lane);
    else
        emit_mover(h, consumer);
    weft_k_end(k);
}
