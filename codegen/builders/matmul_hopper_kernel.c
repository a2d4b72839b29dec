/* The kernel of matmul_hopper.c: barriers, roles, and the consumers: warpgroups with 64 x bn of accumulators each. A
   slot of the ring is released by a relaxed arrival, one step late, when the wgmma that read it is known complete.

   In turns: a consumer multiplies between two named barriers, in the order of the block's tiles, so that it never waits
   for a phase of the ring before the one in front of it is complete; it hands the turn on when its last product is
   issued, and its epilogue runs beside the other's products. Read next: matmul_hopper_epilogue.c;
   matmul_hopper_movers.c, warpgroup 0. */
#include "codegen/builders/matmul_hopper_consumer.h"

#include "codegen/kernel/matrix.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval times(weft_hopper *h, weft_kval a, int64_t b) { return weft_k_mul(h->k, a, index_of(h, b)); }
static weft_kval plus(weft_hopper *h, weft_kval a, weft_kval b) { return weft_k_add(h->k, a, b); }

/* -- a consumer */

static void release_slot(weft_hopper *h, const weft_hopper_consumer *c, weft_kval held) {
    weft_kernel *k = h->k;
    weft_k_if(k, weft_k_lt(k, c->lane, index_of(h, h->cluster)));
    if (h->cluster > 1)
        weft_mbarrier_arrive_cta(k, h->ring.empty, weft_k_get(k, held), c->lane);
    else
        weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, h->ring.empty, weft_k_get(k, held), 0);
    weft_k_end(k);
}

/* Moves of the descriptors, in 16-byte units, from one 32-byte step of k to the next (rows of memory along n or m: of
   16 elements). */
static int step_of(const weft_product_side *side) { return side->k_contiguous ? 2 : 16 * 128 / 16; }

static weft_kval make_operand(weft_hopper *h, weft_kval at, const weft_product_side *side) {
    int64_t layout = weft_operand_layout(128, side->k_contiguous ? 16 : HOPPER_BOX_BYTES, 1024);
    return weft_kernel_emit(h->k, WEFT_K_operand, weft_kvector(WEFT_U64, 1), 2, (weft_kval[]){h->operands, at}, layout,
                            0);
}

static int64_t unit_of(const weft_hopper *h) {
    return weft_async_unit(h->bn, h->unit,
                           (h->product.a.k_contiguous ? 0 : WEFT_ASYNC_A_TRANSPOSED) |
                               (h->product.b.k_contiguous ? 0 : WEFT_ASYNC_B_TRANSPOSED));
}

/* Of a stage of rows that a group contracts, those from `inside` on are the next group's: zeros in their place, in this
   consumer's A and in its share of B, before any consumer's unit reads them. */
static void clear_foreign_rows(weft_hopper *h, const weft_hopper_consumer *c, weft_kval at, weft_kval inside) {
    weft_kernel *k = h->k;
    weft_kval barrier = index_of(h, 1), thread = plus(h, times(h, c->warp, 32), c->lane);
    weft_k_if(k, weft_k_lt(k, inside, index_of(h, h->bk)));
    weft_kval from = plus(h, times(h, inside, HOPPER_ROW_BYTES), times(h, thread, 16));
    for (int box = -1; box < h->bn / 64; box += box < 0 ? 1 : h->consumers) {
        weft_kval number = box < 0 ? c->number : plus(h, c->number, index_of(h, h->bm / 64 + box));
        if (box >= 0 && box + h->consumers > h->bn / 64)
            weft_k_if(k, weft_k_lt(k, number, index_of(h, (h->bm + h->bn) / 64)));
        weft_kval base = plus(h, at, times(h, number, HOPPER_BOX_BYTES));
        weft_kval byte = weft_k_for(k, from, index_of(h, HOPPER_BOX_BYTES), index_of(h, 128 * 16), 0);
        weft_k_store(k, h->operands, plus(h, base, byte), WEFT_KNONE, weft_k_constant_lanes(k, WEFT_U8, 0, 16));
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 16;
        weft_k_end(k);
        if (box >= 0 && box + h->consumers > h->bn / 64) weft_k_end(k);
    }
    weft_k_effect(k, WEFT_K_fence_async, 0, NULL, 0, 0);
    weft_k_effect(k, WEFT_K_named_sync, 1, &barrier, 128 * h->consumers, 0);
    weft_k_end(k);
}

/* The four operations of one step of k, whose A and B lie there. first: what the first one adds to, as below. */
static void multiply_step(weft_hopper *h, const weft_hopper_consumer *c, weft_kval a, weft_kval b, weft_kval first,
                          int first_flag) {
    weft_kernel *k = h->k;
    const weft_product *p = &h->product;
    for (int i = 0; i < HOPPER_ROW_BYTES / 32 * h->blocks; i++) {
        int q = i / h->blocks, block = i % h->blocks;
        int64_t a_at = (int64_t)q * step_of(&p->a) + block * (HOPPER_BOX_BYTES / 16);
        weft_kval operands[6] = {c->d[block],
                                 index_of(h, 0),
                                 weft_k_add(k, a, weft_k_integer(k, WEFT_U64, a_at)),
                                 index_of(h, 0),
                                 weft_k_add(k, b, weft_k_integer(k, WEFT_U64, (int64_t)q * step_of(&p->b))),
                                 q ? WEFT_KNONE : first};
        weft_k_effect(k, WEFT_K_mma_async, 6, operands, unit_of(h) | (q ? 0 : first_flag), 0);
    }
}

/* The operations of one stage: of one step of k, or of `deep` in a narrow tile. inside: rows of it that are the
   group's, or WEFT_KNONE. first: what the first one adds to: WEFT_KNONE = d, a BOOL = d when it holds; with
   WEFT_ASYNC_FIRST nothing. */
static void multiply_stage(weft_hopper *h, const weft_hopper_consumer *c, weft_kval inside, weft_kval first,
                           int first_flag) {
    weft_kernel *k = h->k;
    const weft_product *p = &h->product;
    weft_kval at = times(h, weft_ring_slot(k, &c->ring), h->stage_bytes), a[2], b[2];
    weft_kval own = h->turns ? at : plus(h, at, times(h, c->number, HOPPER_BOX_BYTES));
    for (int i = 0; i < h->deep; i++) {
        int64_t b_at = (int64_t)h->deep * h->a_bytes + (int64_t)i * weft_hopper_tail_bytes(h);
        a[i] = make_operand(h, i ? plus(h, own, index_of(h, (int64_t)i * h->a_bytes)) : own, &p->a);
        b[i] = make_operand(h, plus(h, at, index_of(h, b_at)), &p->b);
    }
    weft_ring_wait_full(k, &c->ring);
    if (inside != WEFT_KNONE) clear_foreign_rows(h, c, at, inside);
    weft_k_effect(k, WEFT_K_mma_fence, 0, NULL, 0, 0);
    for (int i = 0; i < h->deep; i++) multiply_step(h, c, a[i], b[i], i ? WEFT_KNONE : first, i ? 0 : first_flag);
    weft_k_effect(k, WEFT_K_mma_commit, 0, NULL, 0, 0);
}

/* Waits until the other consumer has issued the products of the tile before. */
static void take_turn(weft_hopper *h, const weft_hopper_consumer *c) {
    weft_kval own = plus(h, c->number, index_of(h, 1));
    weft_k_effect(h->k, WEFT_K_named_sync, 1, &own, 256, 0);
}

/* To the consumer of the block's next tile, if there is one. */
static void pass_turn(weft_hopper *h, const weft_hopper_consumer *c, weft_kval next) {
    weft_kval other = weft_k_sub(h->k, index_of(h, 2), c->number);
    weft_k_if(h->k, weft_hopper_tile_exists(h, next));
    weft_k_effect(h->k, WEFT_K_named_arrive, 1, &other, 256, 0);
    weft_k_end(h->k);
}

/* A group without rows. */
static void clear_sums(weft_hopper *h, const weft_hopper_consumer *c) {
    for (int block = 0; block < h->blocks; block++)
        for (int r = 0; r < h->bn / 2; r++)
            weft_k_set_at(h->k, c->d[block], index_of(h, r), weft_k_constant_lanes(h->k, WEFT_F32, 0, 1));
}

/* d = the product of this consumer's rows; every slot but the last is released inside. next: the block's next tile. */
static void emit_main_loop(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, weft_kval begin,
                           weft_kval end, weft_kval next) {
    weft_kernel *k = h->k;
    bool by_group = weft_hopper_by_group(h);
    weft_kval inside = WEFT_KNONE;
    if (h->turns) take_turn(h, c);
    if (by_group) weft_k_if(k, weft_k_lt(k, begin, end));
    weft_kval held = weft_k_var(k, index_of(h, 0));
    weft_kval step = weft_k_for(k, begin, end, index_of(h, 1), 0);
    weft_kval slot = weft_ring_slot(k, &c->ring), later = weft_k_ne(k, step, begin);
    if (by_group) inside = weft_k_sub(k, weft_k_sub(k, place.end, place.first), times(h, step, h->bk));
    multiply_stage(h, c, inside, later, 0);
    weft_k_effect(k, WEFT_K_mma_wait, 0, NULL, 1, 0);
    weft_k_if(k, later);
    release_slot(h, c, held);
    weft_k_end(k);
    weft_k_set(k, held, slot);
    weft_ring_advance(k, &c->ring);
    weft_k_end(k);
    if (h->turns) pass_turn(h, c, next);
    weft_k_effect(k, WEFT_K_mma_wait, h->blocks, c->d, 0, 0);
    release_slot(h, c, held);
    if (by_group) {
        weft_k_else(k);
        clear_sums(h, c);
        weft_k_end(k);
    }
    if (h->turns) weft_ring_skip(k, &c->ring, h->steps);
}

/* The same with the sums of each stage taken out of the unit: while one consumer adds, the other multiplies. */
static void emit_promoting_loop(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, weft_kval m0,
                                weft_kval begin, weft_kval end) {
    weft_kernel *k = h->k;
    weft_hopper_scales scales;
    if (h->product.block) weft_hopper_scales_begin(h, place, plus(h, m0, c->row_lane), begin, &scales);
    for (int r = 0; r < h->bn / 2; r++)
        weft_k_set_at(k, *c->sums, index_of(h, r), weft_k_constant_lanes(k, WEFT_F32, 0, 1));
    weft_kval step = weft_k_for(k, begin, end, index_of(h, 1), 0);
    weft_kval held = weft_k_var(k, weft_ring_slot(k, &c->ring));
    if (h->product.block) weft_hopper_scales_step(h, &scales);
    multiply_stage(h, c, WEFT_KNONE, WEFT_KNONE, WEFT_ASYNC_FIRST);
    if (h->product.block) weft_hopper_scales_load(h, plus(h, step, index_of(h, 1)), &scales);
    weft_k_effect(k, WEFT_K_mma_wait, 1, c->d, 0, 0);
    release_slot(h, c, held);
    weft_ring_advance(k, &c->ring);
    for (int r = 0; r < h->bn / 2; r++) {
        weft_kval at = index_of(h, r), sum = weft_k_get_at(k, *c->sums, at), more = weft_k_get_at(k, *c->d, at);
        weft_place_pair here = weft_layout_at(&c->layout, r, 0, 0);
        if (h->product.block)
            sum = weft_k_mad(k, more, scales.product[here.column / scales.columns][here.row / 8], sum);
        else
            sum = weft_k_add(k, sum, more);
        weft_k_set_at(k, *c->sums, at, sum);
    }
    weft_k_end(k);
}

/* The consumer's part of one tile, h->bn columns of it. */
static void emit_tile(weft_hopper *h, weft_hopper_consumer *c, weft_kval tile, weft_tile_place place) {
    size_t mark = weft_index_mark(h->index);
    weft_kval m0 = plus(h, place.m, weft_hopper_rows_above(h, c->number));
    weft_hopper_places places;
    if (weft_hopper_staged(h)) weft_hopper_place_block(h, c, place, m0, &places);
    weft_kval begin, end, part = weft_hopper_tile_part(h, tile, place, &begin, &end);
    end = weft_hopper_slots(h, end, h->deep);
    if (h->promote)
        emit_promoting_loop(h, c, place, m0, begin, end);
    else
        emit_main_loop(h, c, place, begin, end, weft_hopper_tile_next(h, tile, WEFT_KNONE));
    weft_hopper_send_tile(h, c, place, m0, part, &places, mark);
}

static void make_sums(weft_hopper *h, weft_hopper_consumer *c) {
    for (int block = 0; block < h->blocks; block++) {
        c->d[block] = weft_k_regs(h->k, WEFT_F32, 1, h->bn / 2);
        c->sums[block] = h->promote ? weft_k_regs(h->k, WEFT_F32, 1, h->bn / 2) : c->d[block];
    }
}

/* The first turn is consumer 0's; consumer 1 begins behind the steps of the block's first tile. */
static void begin_turns(weft_hopper *h, const weft_hopper_consumer *c) {
    weft_kval first = index_of(h, 1);
    weft_k_if(h->k, weft_k_eq(h->k, c->number, first));
    weft_k_effect(h->k, WEFT_K_named_arrive, 1, &first, 256, 0);
    weft_ring_skip(h->k, &c->ring, h->steps);
    weft_k_end(h->k);
}

static void emit_consumer(weft_hopper *h, weft_kval thread) {
    weft_kernel *k = h->k;
    weft_kval group = weft_k_div(k, thread, index_of(h, 128));
    group = weft_kernel_emit(k, WEFT_K_warp_uniform, weft_ktype_of(k, group), 1, &group, 0, 0);
    weft_hopper_consumer c = {.number = weft_k_sub(k, group, index_of(h, 1)), .layout = weft_layout_wgmma_c(h->bn)};
    for (int i = 0; i < h->results; i++)
        c.epilogue[i] = weft_epilogue_create(h->index, &h->product.dot->results[0], h->product.m, h->product.n,
                                             h->product.batch, i);
    c.lane = weft_k_rem(k, thread, index_of(h, 32));
    c.warp = weft_k_rem(k, weft_k_div(k, thread, index_of(h, 32)), index_of(h, 4));
    c.row_lane = weft_layout_lane_row(k, &c.layout, c.lane, c.warp);
    c.column_lane = weft_layout_lane_column(k, &c.layout, c.lane, c.warp);
    weft_kval row = plus(h, times(h, c.warp, 16), weft_k_rem(k, c.lane, index_of(h, 16)));
    c.row_at = plus(h, times(h, c.number, (int64_t)h->outs * HOPPER_CHUNK_BYTES), times(h, row, 128));
    c.swizzle = weft_k_and(k, c.lane, index_of(h, 7));
    c.half = weft_k_div(k, c.lane, index_of(h, 16));
    c.fragment = weft_k_regs(k, WEFT_U32, 1, 4);
    c.packed = weft_k_regs(k, WEFT_U32, 1, 4);
    c.ready_phase = weft_k_var(k, weft_k_integer(k, WEFT_U32, 0));
    c.ring = weft_ring_begin(k, &h->ring);
    make_sums(h, &c);
    if (h->turns) begin_turns(h, &c);
    weft_kval tile = weft_hopper_tiles_for(h, weft_hopper_owner(h, c.number));
    weft_tile_place place = weft_hopper_tile_place(h, tile);
    if (!h->tail) {
        emit_tile(h, &c, tile, place);
    } else {
        weft_hopper whole = *h, narrow = *h;
        whole.deep = 1;
        weft_k_if(k, weft_k_lt(k, tile, h->whole));
        emit_tile(&whole, &c, tile, place);
        weft_k_else(k);
        narrow.bn = h->tail;
        c.layout = weft_layout_wgmma_c(h->tail);
        make_sums(&narrow, &c);
        emit_tile(&narrow, &c, tile, place);
        weft_k_end(k);
    }
    weft_k_end(k);
    if (weft_hopper_by_rows(h)) weft_hopper_ragged_rest(h, weft_k_sub(k, thread, index_of(h, 128)));
}

/* -- the block */

/* Rows of the A tiles that no copy writes: the unit reads them, and what comes of them is not stored. */
static void clear_rest(weft_hopper *h, weft_kval thread) {
    weft_kernel *k = h->k;
    int rest = (64 - h->a_rows) * HOPPER_ROW_BYTES, threads = k->threads;
    for (int stage = 0; stage < h->stages; stage++) {
        weft_kval at = weft_k_for(k, times(h, thread, 16), index_of(h, rest), index_of(h, (int64_t)16 * threads), 0);
        weft_kval to = plus(h, at, index_of(h, (int64_t)stage * h->stage_bytes + h->a_rows * HOPPER_ROW_BYTES));
        weft_k_store(k, h->operands, to, WEFT_KNONE, weft_k_constant_lanes(k, WEFT_U8, 0, 16));
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 16;
        weft_k_end(k);
    }
    weft_k_effect(k, WEFT_K_fence_async, 0, NULL, 0, 0);
}

static void emit_barriers(weft_hopper *h, weft_kval thread) {
    weft_kernel *k = h->k;
    if (h->a_loaded < h->a_bytes) clear_rest(h, thread);
    weft_k_if(k, weft_k_eq(k, thread, index_of(h, 0)));
    weft_k_effect(k, WEFT_K_map_prefetch, 1, &h->map_a, 0, 0);
    weft_k_effect(k, WEFT_K_map_prefetch, 1, &h->map_b, 0, 0);
    weft_ring_init(k, &h->ring, 1, h->cluster * (h->turns ? 1 : h->consumers) * 4);
    for (int i = 0; weft_hopper_staged(h) && i < h->consumers * h->outs; i++) {
        weft_mbarrier_emit(k, WEFT_K_mbarrier_init, h->staged, index_of(h, i), 1);
        weft_mbarrier_emit(k, WEFT_K_mbarrier_init, h->written, index_of(h, i), 4);
    }
    if (h->join > 1) weft_hopper_join_init(h);
    weft_k_effect(k, WEFT_K_mbarrier_init_fence, 0, NULL, 0, 0);
    weft_k_end(k);
    if (k->cluster > 1) weft_k_effect(k, WEFT_K_cluster_sync, 0, NULL, 0, 0);
    if (k->cluster == 1 || h->a_loaded < h->a_bytes) weft_k_barrier(k); /* a cluster's orders no memory */
}

weft_status weft_hopper_emit(weft_hopper *h) {
    weft_kernel *k = h->k;
    h->operands = weft_k_shared(k, WEFT_U8, (weft_dim)h->stages * h->stage_bytes);
    if (weft_hopper_staged(h)) {
        h->staging =
            weft_k_shared(k, h->out_dtype, (weft_dim)h->consumers * h->outs * HOPPER_CHUNK_BYTES / h->out_bytes);
        h->staged = weft_mbarrier_create(k, h->consumers * h->outs);
        h->written = weft_mbarrier_create(k, h->consumers * h->outs);
    }
    h->ring = weft_ring_create(k, h->stages);
    bool room = 2 * (h->a_bytes + weft_hopper_tail_bytes(h)) <= h->stage_bytes;
    h->deep = h->tail && room && !h->promote && h->a_loaded == h->a_bytes ? 2 : 1;
    weft_dtype index = k->capability->index_dtype;
    weft_kval thread = weft_k_thread(k), block = weft_k_block(k);
    weft_kval grid = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(index, 1), 0, NULL, 0, 0);
    if (h->join > 1) weft_hopper_join_create(h);
    weft_kval rank = k->cluster > 1 ? weft_kernel_emit(k, WEFT_K_cluster_rank, weft_kvector(index, 1), 0, NULL, 0, 0)
                                    : index_of(h, 0);
    h->rank = h->cluster > 1 ? rank : index_of(h, 0);
    h->part = rank;
    h->first = weft_k_div(k, block, index_of(h, k->cluster));
    h->stride = weft_k_div(k, grid, index_of(h, k->cluster));
    h->steps = weft_k_extent(k, weft_dim_divide_ceil(k->dims, h->product.k, h->bk));
    weft_hopper_tiles_prepare(h);
    if (h->ragged.node) weft_hopper_ragged_prepare(h, thread);
    emit_barriers(h, thread);
    /* movers of rows hold addresses and elements; consumers with two results want every register there is */
    int give = h->store == HOPPER_STORE_ROWS ? 56 : h->results > 1 ? 24 : 40, take = (3 * 168 - give) / 2;
    if (h->consumers == 1) give = take = 0;
    weft_k_effect(k, WEFT_K_role, 0, NULL, 1, give);
    weft_hopper_emit_movers(h, thread);
    weft_k_effect(k, WEFT_K_role, 0, NULL, h->consumers, take);
    emit_consumer(h, thread);
    weft_k_end(k);
    if (k->cluster > 1)
        weft_k_effect(k, WEFT_K_cluster_sync, 0, NULL, 0,
                      0); /* no block leaves while its peer may write to its memory */
    return NULL;
}
