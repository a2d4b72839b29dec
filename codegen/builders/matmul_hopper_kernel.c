/* The kernel of matmul_hopper.c: barriers, roles, and the consumers: warpgroups with 64 x bn of accumulators each. A
   slot of the ring is released by a relaxed arrival, one step late, when the wgmma that read it is known complete.

   In turns: a consumer multiplies between two named barriers, in the order of the block's tiles, so that it never waits
   for a phase of the ring before the one in front of it is complete; it hands the turn on when its last product is
   issued, and its epilogue runs beside the other's products. Read next: matmul_hopper_movers.c, warpgroup 0. */
#include "codegen/builders/matmul_hopper.h"

#include "codegen/kernel/matrix.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval times(weft_hopper *h, weft_kval a, int64_t b) { return weft_k_mul(h->k, a, index_of(h, b)); }
static weft_kval plus(weft_hopper *h, weft_kval a, weft_kval b) { return weft_k_add(h->k, a, b); }

/* -- consumer */

typedef struct consumer {
    weft_kval number, lane, warp; /* of the warpgroup */
    /* regs for each 64 rows: what wgmma adds to; what the epilogue reads: d, or f32 sums beside it */
    weft_kval d[HOPPER_BLOCKS_MAX], sums[HOPPER_BLOCKS_MAX];
    int block;                       /* of 64 rows, that is sent */
    weft_kval fragment, packed;      /* regs: 4 words of a companion; 4 words that leave */
    weft_kval row_lane, column_lane; /* of this lane in a 64 x bn tile */
    weft_kval row_at, swizzle, half; /* where this lane's row of a 16 x 16 block lies in staging */
    weft_kval ready_phase;
    weft_layout layout;
    weft_ring ring;
    weft_epilogue epilogue[HOPPER_RESULTS_MAX]; /* of each result that is staged */
} consumer;

static void release_slot(weft_hopper *h, const consumer *c, weft_kval held) {
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
static void clear_foreign_rows(weft_hopper *h, const consumer *c, weft_kval at, weft_kval inside) {
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

/* The four operations of one stage. inside: rows of it that are the group's, or WEFT_KNONE. first: what the first one
   adds to: WEFT_KNONE = d, a BOOL = d when it holds; with WEFT_ASYNC_FIRST nothing. */
static void multiply_stage(weft_hopper *h, const consumer *c, weft_kval inside, weft_kval first, int first_flag) {
    weft_kernel *k = h->k;
    const weft_product *p = &h->product;
    weft_kval at = times(h, weft_ring_slot(k, &c->ring), h->stage_bytes);
    weft_kval a = make_operand(h, h->turns ? at : plus(h, at, times(h, c->number, HOPPER_BOX_BYTES)), &p->a),
              b = make_operand(h, plus(h, at, index_of(h, h->a_bytes)), &p->b);
    weft_ring_wait_full(k, &c->ring);
    if (inside != WEFT_KNONE) clear_foreign_rows(h, c, at, inside);
    weft_k_effect(k, WEFT_K_mma_fence, 0, NULL, 0, 0);
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
    weft_k_effect(k, WEFT_K_mma_commit, 0, NULL, 0, 0);
}

/* Waits until the other consumer has issued the products of the tile before. */
static void take_turn(weft_hopper *h, const consumer *c) {
    weft_kval own = plus(h, c->number, index_of(h, 1));
    weft_k_effect(h->k, WEFT_K_named_sync, 1, &own, 256, 0);
}

/* To the consumer of the block's next tile, if there is one. */
static void pass_turn(weft_hopper *h, const consumer *c, weft_kval next) {
    weft_kval other = weft_k_sub(h->k, index_of(h, 2), c->number);
    weft_k_if(h->k, weft_hopper_tile_exists(h, next));
    weft_k_effect(h->k, WEFT_K_named_arrive, 1, &other, 256, 0);
    weft_k_end(h->k);
}

/* A group without rows. */
static void clear_sums(weft_hopper *h, const consumer *c) {
    for (int block = 0; block < h->blocks; block++)
        for (int r = 0; r < h->bn / 2; r++)
            weft_k_set_at(h->k, c->d[block], index_of(h, r), weft_k_constant_lanes(h->k, WEFT_F32, 0, 1));
}

/* d = the product of this consumer's rows; every slot but the last is released inside. next: the block's next tile. */
static void emit_main_loop(weft_hopper *h, const consumer *c, weft_tile_place place, weft_kval begin, weft_kval end,
                           weft_kval next) {
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
static void emit_promoting_loop(weft_hopper *h, const consumer *c, weft_tile_place place, weft_kval m0, weft_kval begin,
                                weft_kval end) {
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

/* -- epilogue */

static weft_kval pair_of(weft_kernel *k, weft_kval x, weft_kval y) {
    return weft_k_insert(k, weft_k_splat(k, x, 2), 1, y);
}

static weft_kval sums_at(weft_hopper *h, const consumer *c, int reg) {
    return pair_of(h->k, weft_k_get_at(h->k, c->sums[c->block], index_of(h, reg)),
                   weft_k_get_at(h->k, c->sums[c->block], index_of(h, reg + 1)));
}

static weft_kval unpack(weft_hopper *h, weft_kval word, int half) {
    return weft_kernel_emit(h->k, WEFT_K_unpack, weft_kvector(WEFT_F32, 1), 1, &word, (int64_t)h->out_dtype | half << 8,
                            0);
}

/* Two neighbours of a result; companion: those of it. */
static weft_kval pair_value(weft_hopper *h, const consumer *c, const weft_epilogue *e, int reg,
                            const weft_lane_index *at, weft_kval mask, weft_kval companion) {
    weft_kval x = sums_at(h, c, reg);
    if (e->value == e->product) return x;
    if (h->companion >= 0)
        weft_index_bind(h->index, weft_fusion_block(h->request->fusion)->arguments[h->companion], companion);
    return weft_epilogue_value(e, x, at, 2, mask);
}

/* Two neighbours of a result of 16 bits as one packed word. */
static weft_kval packed_pair(weft_hopper *h, const consumer *c, const weft_epilogue *e, int reg,
                             const weft_lane_index *at, weft_kval mask, int word) {
    weft_kernel *k = h->k;
    weft_kval companion = WEFT_KNONE;
    if (h->companion >= 0) {
        weft_kval bits = weft_k_get_at(k, c->fragment, index_of(h, word));
        companion = pair_of(k, unpack(h, bits, 0), unpack(h, bits, 1));
    }
    weft_kval x = pair_value(h, c, e, reg, at, mask, companion);
    const weft_kinstr *rounded = weft_kernel_get(k, x);
    if (rounded->op == WEFT_K_convert &&
        weft_ktype_of(k, weft_koperand(k, rounded, 0)).elem == e->result) { /* rounded already: join the bits */
        weft_kval bits = weft_k_convert(k, weft_k_bitcast(k, weft_koperand(k, rounded, 0), WEFT_U16), WEFT_U32);
        return weft_k_or(k, weft_k_extract(k, bits, 0),
                         weft_k_binary(k, WEFT_K_shl, weft_k_extract(k, bits, 1), weft_k_integer(k, WEFT_U32, 16)));
    }
    weft_kval halves[2] = {weft_k_extract(k, x, 0), weft_k_extract(k, x, 1)};
    return weft_kernel_emit(k, WEFT_K_pack, weft_kvector(WEFT_U32, 1), 2, halves, e->result, 0);
}

/* Rows and columns past the end are computed from the last ones and dropped by the store. */
static weft_kval clamp(weft_hopper *h, weft_kval x, weft_dim extent, int tile, int last) {
    int64_t known = weft_dim_divisor(h->k->dims, extent);
    if (known == 0 || known % tile == 0) return x;
    return weft_k_min(h->k, x, weft_k_sub(h->k, weft_k_extent(h->k, extent), index_of(h, last)));
}

/* The same for rows: tiles of groups start anywhere. */
static weft_kval clamp_row(weft_hopper *h, weft_kval row) {
    if (!weft_hopper_by_rows(h)) return clamp(h, row, h->product.m, h->bm * h->cluster, 1);
    return weft_k_min(h->k, row, weft_k_sub(h->k, weft_k_extent(h->k, h->product.m), index_of(h, 1)));
}

/* Is a result more than the sums? */
static bool computes(const weft_hopper *h, const consumer *c) {
    bool more = false;
    for (int i = 0; i < h->results; i++) more |= c->epilogue[i].value != c->epilogue[i].product;
    return more;
}

/* What a tile knows before its sums: rows of this lane, and pairs of columns. */
typedef struct tile_places {
    weft_epilogue_row rows[2];
    weft_lane_index columns[32];
    weft_kval masks[32];
} tile_places;

static void place_rows(weft_hopper *h, const consumer *c, weft_tile_place place, weft_kval m0, tile_places *out) {
    for (int i = 0; i < 2; i++) {
        weft_kval row = clamp_row(h, plus(h, plus(h, m0, c->row_lane), index_of(h, 8 * i)));
        out->rows[i] = weft_epilogue_place_row(c->epilogue, place.batch, row);
    }
}

/* The column pairs of a chunk, and what the epilogue reads along them: in flight before the sums are needed. With an
   odd number of columns the last pair has one. */
static void place_columns(weft_hopper *h, const consumer *c, weft_tile_place place, int chunk, tile_places *out) {
    weft_kernel *k = h->k;
    bool even = weft_dim_divisor(k->dims, h->product.n) % 2 == 0;
    int first = h->chunk / 8 * chunk, end = first + h->chunk / 8 < h->bn / 8 ? first + h->chunk / 8 : h->bn / 8;
    for (int pair = first; pair < end; pair++) {
        weft_kval column = plus(h, plus(h, place.n, c->column_lane), index_of(h, 8 * pair));
        column = clamp(h, column, h->product.n, h->bn, even ? 2 : 1);
        out->columns[pair] = weft_lane_range(column, even ? 2 : 1);
        out->masks[pair] =
            even ? WEFT_KNONE : weft_index_below(h->index, out->columns[pair], 2, weft_k_extent(k, h->product.n));
        weft_lane_index at[WEFT_MAX_RANK];
        if (!even || !computes(h, c) || h->results > 1 || !out->rows[0].split)
            continue; /* masks would fill registers */
        weft_epilogue_at(c->epilogue, &out->rows[0], out->columns[pair], 2, at);
        weft_epilogue_hoist(c->epilogue, at, 2, out->masks[pair], true);
    }
}

static void hoist_rows(const weft_hopper *h, const consumer *c, const tile_places *places) {
    for (int i = 0; i < 2 && places->rows[0].split && computes(h, c); i++) {
        weft_lane_index at[WEFT_MAX_RANK];
        weft_epilogue_at(c->epilogue, &places->rows[i], places->columns[0], 2, at);
        weft_epilogue_hoist(c->epilogue, at, 2, places->masks[0], false);
    }
}

/* Of 64 rows from m0, before their sums are there. */
static void place_block(weft_hopper *h, const consumer *c, weft_tile_place place, weft_kval m0, tile_places *out) {
    place_rows(h, c, place, m0, out);
    place_columns(h, c, place, 0, out);
    hoist_rows(h, c, out);
}

static void fill_chunk(weft_hopper *h, const consumer *c, const weft_epilogue *e, const tile_places *places, int chunk,
                       int buffer) {
    weft_kernel *k = h->k;
    for (int j = 0; j < 4; j++) {
        weft_kval block = weft_k_xor(k, plus(h, c->half, index_of(h, 2 * j)), c->swizzle);
        weft_kval at =
            plus(h, c->row_at, plus(h, index_of(h, (int64_t)buffer * HOPPER_CHUNK_BYTES), times(h, block, 16)));
        if (h->companion >= 0)
            weft_k_effect(k, WEFT_K_frag_load, 4, (weft_kval[]){c->fragment, index_of(h, 0), h->staging, at},
                          WEFT_FRAGMENT_X4, 0);
        bool outside = 64 * chunk + 16 * j >= h->bn; /* of a narrow tile: nobody stores it, the copy looks at it */
        for (int word = 0; word < 4 && outside; word++)
            weft_k_set_at(k, c->packed, index_of(h, word), weft_k_integer(k, WEFT_U32, 0));
        for (int word = 0; word < 4 && !outside; word++) { /* word: columns 8 * (word / 2), rows 8 * (word % 2) */
            int reg = 32 * chunk + 8 * j + 2 * word, pair = 8 * chunk + 2 * j + word / 2;
            weft_lane_index index[WEFT_MAX_RANK];
            weft_epilogue_at(e, &places->rows[word % 2], places->columns[pair], 2, index);
            weft_k_set_at(k, c->packed, index_of(h, word), packed_pair(h, c, e, reg, index, places->masks[pair], word));
        }
        weft_k_effect(k, WEFT_K_frag_store, 4, (weft_kval[]){c->packed, index_of(h, 0), h->staging, at},
                      WEFT_FRAGMENT_X4, 0);
    }
}

/* The same with f32: each pair of a lane to its place, 8 columns of 16 rows of a warp at a time. */
static void fill_wide_chunk(weft_hopper *h, const consumer *c, const weft_epilogue *e, const tile_places *places,
                            int chunk, int buffer) {
    weft_kernel *k = h->k;
    weft_kval row = weft_k_div(k, c->lane, index_of(h, 4)), quad = weft_k_rem(k, c->lane, index_of(h, 4));
    weft_kval start = plus(h, times(h, c->number, (int64_t)h->outs * HOPPER_CHUNK_BYTES),
                           plus(h, times(h, c->warp, 16 * HOPPER_ROW_BYTES), times(h, row, HOPPER_ROW_BYTES)));
    weft_kval inside = times(h, weft_k_rem(k, quad, index_of(h, 2)), 8);
    for (int j = 0; j < 4; j++) {
        weft_kval unit = weft_k_xor(k, plus(h, weft_k_div(k, quad, index_of(h, 2)), index_of(h, 2 * j)), row);
        weft_kval left = plus(h, start, plus(h, times(h, unit, 16), inside));
        bool outside = h->chunk * chunk + 8 * j >= h->bn; /* of a narrow tile, as above */
        for (int half = 0; half < 2; half++) {
            int reg = 16 * chunk + 4 * j + 2 * half, pair = 4 * chunk + j;
            int64_t below = (int64_t)buffer * HOPPER_CHUNK_BYTES + 8 * half * HOPPER_ROW_BYTES;
            weft_kval at = weft_k_div(k, plus(h, left, index_of(h, below)), index_of(h, 4)), companion = WEFT_KNONE;
            weft_kval value = weft_k_constant_lanes(k, WEFT_F32, 0, 2);
            if (h->companion >= 0) {
                companion = weft_k_load(k, h->staging, at, 2, WEFT_KNONE, WEFT_KNONE);
                if (!k->failed) k->instrs[companion].align_bytes = 8;
            }
            if (!outside) {
                weft_lane_index index[WEFT_MAX_RANK];
                weft_epilogue_at(e, &places->rows[half], places->columns[pair], 2, index);
                value = pair_value(h, c, e, reg, index, places->masks[pair], companion);
            }
            weft_k_store(k, h->staging, at, WEFT_KNONE, value);
            if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 8;
        }
    }
}

static bool same_dims(const weft_type *a, const weft_type *b) {
    for (int i = 0; a->rank == b->rank && i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return a->rank == b->rank;
}

/* Loads the elements of operands that lie like the result: in flight before the arithmetic that needs the first. */
static void read_ahead(weft_hopper *h, const consumer *c, const weft_lane_index *at, weft_kval mask) {
    const weft_block *block = weft_fusion_block(h->request->fusion);
    for (int i = 0; i < block->argument_count; i++)
        if (i != h->product.a.operand && i != h->product.b.operand && i != h->companion &&
            same_dims(&block->arguments[i]->type, &c->epilogue->value->type))
            (void)weft_index_value(h->index, block->arguments[i], at, 2, mask);
}

/* The same for a chunk. Only rows whose index stands still are remembered by the evaluator. */
static void read_chunk_ahead(weft_hopper *h, const consumer *c, const tile_places *places, int chunk) {
    int first = h->chunk / 8 * chunk, end = first + h->chunk / 8 < h->bn / 8 ? first + h->chunk / 8 : h->bn / 8;
    for (int pair = first; pair < end && places->rows[0].split; pair++)
        for (int half = 0; half < 2; half++) {
            weft_lane_index at[WEFT_MAX_RANK];
            weft_epilogue_at(c->epilogue, &places->rows[half], places->columns[pair], 2, at);
            read_ahead(h, c, at, places->masks[pair]);
        }
}

static void send_through_staging(weft_hopper *h, consumer *c, weft_tile_place place, tile_places *places) {
    weft_kernel *k = h->k;
    weft_kval one = weft_k_integer(k, WEFT_U32, 1);
    int before = c->block * (h->bn / h->chunk) * h->results; /* chunks of this tile */
    for (int at = 0; h->chunk * (at / h->results) < h->bn; at++) {
        int buffer = (before + at) % h->outs, chunk = at / h->results;
        weft_kval barrier = weft_hopper_staging(h, c->number, buffer), phase = weft_k_get(k, c->ready_phase);
        if (at % h->results == 0 && h->chunk * (chunk + 1) < h->bn) place_columns(h, c, place, chunk + 1, places);
        if (at % h->results == 0) read_chunk_ahead(h, c, places, chunk);
        weft_mbarrier_wait(
            k, h->staged, barrier,
            weft_k_and(k, weft_k_binary(k, WEFT_K_shr, phase, weft_k_integer(k, WEFT_U32, buffer)), one));
        weft_k_set(k, c->ready_phase, weft_k_xor(k, phase, weft_k_integer(k, WEFT_U32, 1 << buffer)));
        const weft_epilogue *e = &c->epilogue[at % h->results];
        if (h->out_bytes == 4)
            fill_wide_chunk(h, c, e, places, chunk, buffer);
        else
            fill_chunk(h, c, e, places, chunk, buffer);
        weft_k_effect(k, WEFT_K_fence_async, 0, NULL, 0, 0);
        weft_k_effect(k, WEFT_K_warp_sync, 0, NULL, 0, 0);
        weft_k_if(k, weft_k_eq(k, c->lane, index_of(h, 0)));
        weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, h->written, barrier, 0);
        weft_k_end(k);
    }
}

/* All results at the pair of columns `range` of a line; where: its index in values of the product's shape. */
static void send_pair(weft_hopper *h, const consumer *c, const weft_epilogue_row *line, const weft_lane_index *where,
                      weft_lane_index range, weft_kval mask, int reg) {
    weft_kernel *k = h->k;
    const weft_value *dot = c->epilogue->product;
    size_t mark = weft_index_mark(h->index);
    weft_index_bind(h->index, dot, weft_index_round(h->index, dot->type.dtype, sums_at(h, c, reg)));
    for (int result = 0; result < h->request->fusion->result_count; result++) {
        if (same_dims(&weft_fusion_yield(h->request->fusion, result)->type, &c->epilogue->value->type)) {
            weft_index_emit(h->index, result, where, 2, mask);
        } else {
            weft_kval start = weft_k_mul(k, line->line, weft_k_extent(k, h->product.n));
            weft_index_emit_flat(h->index, result, (weft_lane_index){plus(h, start, range.base), 1, range.divisor}, 2,
                                 mask);
        }
    }
    weft_index_release(h->index, mark);
}

/* Results of other types, many results, rows that tensor copies cannot take: pairs go straight to memory, eight of a
   row at a time, `columns` in all. What lies past the end is computed from the last row and column and not stored. */
static void send_directly(weft_hopper *h, consumer *c, weft_tile_place place, weft_kval m0, int columns) {
    enum { AHEAD = 8 };
    weft_kernel *k = h->k;
    weft_kval n = weft_k_extent(k, h->product.n), m = weft_hopper_rows_end(h, place);
    bool even = weft_dim_divisor(k->dims, h->product.n) % 2 == 0;
    int pairs = columns / 8, batches = (pairs + AHEAD - 1) / AHEAD;
    for (int batch = 0; batch < 2 * batches; batch++) { /* of the upper row, then of the one 8 below */
        int half = batch / batches, first = batch % batches * AHEAD, count = pairs - first;
        weft_kval row = plus(h, plus(h, m0, c->row_lane), index_of(h, 8 * half));
        weft_epilogue_row line = weft_epilogue_place_row(c->epilogue, place.batch, clamp_row(h, row));
        weft_lane_index range[AHEAD], index[AHEAD][WEFT_MAX_RANK];
        weft_kval column[AHEAD], mask[AHEAD];
        size_t mark = weft_index_mark(h->index);
        if (count > AHEAD) count = AHEAD;
        for (int i = 0; i < count; i++) {
            column[i] = plus(h, plus(h, place.n, c->column_lane), index_of(h, 8 * (first + i)));
            range[i] = weft_lane_range(clamp(h, column[i], h->product.n, h->bn, even ? 2 : 1), even ? 2 : 1);
            mask[i] = even ? WEFT_KNONE : weft_index_below(h->index, range[i], 2, n);
            weft_epilogue_at(c->epilogue, &line, range[i], 2, index[i]);
            read_ahead(h, c, index[i], mask[i]);
        }
        for (int i = 0; i < count; i++) {
            weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column[i], n)));
            send_pair(h, c, &line, index[i], range[i], mask[i], 4 * (first + i) + 2 * half);
            weft_k_end(k);
        }
        weft_index_release(h->index, mark);
    }
}

/* Adds up the cluster's parts of this block's columns, and sends those. */
static void send_joined(weft_hopper *h, const consumer *c, weft_tile_place place, weft_kval m0) {
    int columns = h->bn / h->join;
    consumer own = *c;
    *own.sums = weft_hopper_join(h, *c->d, c->number, c->warp, c->lane);
    place.n = plus(h, place.n, times(h, h->part, columns));
    send_directly(h, &own, place, m0, columns);
}

/* Sums of one part of k, pairs of columns, to the temporary. */
static void send_part(weft_hopper *h, consumer *c, weft_tile_place place, weft_kval m0, weft_kval part) {
    weft_kernel *k = h->k;
    weft_kval n = weft_k_extent(k, h->product.n), m = weft_k_extent(k, h->product.m);
    weft_kval first = weft_k_mul(k, plus(h, weft_k_mul(k, part, weft_k_extent(k, h->product.batch)), place.batch), m);
    bool even = weft_dim_divisor(k->dims, h->product.n) % 2 == 0;
    for (int reg = 0; reg < h->bn / 2; reg += 2) {
        weft_place_pair constant = weft_layout_at(&c->layout, reg, 0, 0);
        weft_kval row = plus(h, plus(h, m0, c->row_lane), index_of(h, constant.row));
        weft_kval column = plus(h, plus(h, place.n, c->column_lane), index_of(h, constant.column));
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
        weft_kval mask = even ? WEFT_KNONE : weft_index_below(h->index, weft_lane_range(column, 2), 2, n);
        weft_k_store(k, h->parts_buffer, plus(h, weft_k_mul(k, plus(h, first, row), n), column), mask,
                     sums_at(h, c, reg));
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = even ? 8 : 4;
        weft_k_end(k);
    }
}

/* The consumer's part of one tile, h->bn columns of it. */
static void emit_tile(weft_hopper *h, consumer *c, weft_kval tile, weft_tile_place place) {
    size_t mark = weft_index_mark(h->index);
    weft_kval m0 = plus(h, place.m, weft_hopper_rows_above(h, c->number));
    tile_places places;
    if (weft_hopper_staged(h)) place_block(h, c, place, m0, &places);
    weft_kval begin, end, part = weft_hopper_tile_part(h, tile, place, &begin, &end);
    if (h->promote)
        emit_promoting_loop(h, c, place, m0, begin, end);
    else
        emit_main_loop(h, c, place, begin, end, weft_hopper_tile_next(h, tile, WEFT_KNONE));
    for (c->block = 0; c->block < h->blocks; c->block++) {
        weft_kval rows = plus(h, m0, index_of(h, 64 * c->block));
        if (c->block > 0) {
            weft_index_release(h->index, mark);
            mark = weft_index_mark(h->index);
            if (weft_hopper_staged(h)) place_block(h, c, place, rows, &places);
        }
        if (h->join > 1)
            send_joined(h, c, place, rows);
        else if (weft_hopper_staged(h))
            send_through_staging(h, c, place, &places);
        else if (h->store == HOPPER_STORE_PARTS)
            send_part(h, c, place, rows, part);
        else
            send_directly(h, c, place, rows, h->bn);
    }
    weft_index_release(h->index, mark);
}

static void make_sums(weft_hopper *h, consumer *c) {
    for (int block = 0; block < h->blocks; block++) {
        c->d[block] = weft_k_regs(h->k, WEFT_F32, 1, h->bn / 2);
        c->sums[block] = h->promote ? weft_k_regs(h->k, WEFT_F32, 1, h->bn / 2) : c->d[block];
    }
}

/* The first turn is consumer 0's; consumer 1 begins behind the steps of the block's first tile. */
static void begin_turns(weft_hopper *h, const consumer *c) {
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
    consumer c = {.number = weft_k_sub(k, group, index_of(h, 1)), .layout = weft_layout_wgmma_c(h->bn)};
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
        weft_k_if(k, weft_k_lt(k, tile, h->whole));
        emit_tile(h, &c, tile, place);
        weft_k_else(k);
        weft_hopper narrow = *h;
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
