/* The epilogue of the Hopper matmul, in the registers of a consumer: what it needs from rows and columns before the
   sums are there; then results through shared memory, from registers, or as parts of sums. A result is evaluated where
   the unit left its sum (codegen/tile/epilogue.h). Read next: matmul_hopper_movers.c, where staged chunks leave. */
#include "codegen/builders/matmul_hopper_consumer.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval times(weft_hopper *h, weft_kval a, int64_t b) { return weft_k_mul(h->k, a, index_of(h, b)); }
static weft_kval plus(weft_hopper *h, weft_kval a, weft_kval b) { return weft_k_add(h->k, a, b); }

static weft_kval pair_of(weft_kernel *k, weft_kval x, weft_kval y) {
    return weft_k_insert(k, weft_k_splat(k, x, 2), 1, y);
}

static weft_kval sums_at(weft_hopper *h, const weft_hopper_consumer *c, int reg) {
    return pair_of(h->k, weft_k_get_at(h->k, c->sums[c->block], index_of(h, reg)),
                   weft_k_get_at(h->k, c->sums[c->block], index_of(h, reg + 1)));
}

static weft_kval unpack(weft_hopper *h, weft_kval word, int half) {
    return weft_kernel_emit(h->k, WEFT_K_unpack, weft_kvector(WEFT_F32, 1), 1, &word, (int64_t)h->out_dtype | half << 8,
                            0);
}

/* Two neighbours of a result; companion: those of it. */
static weft_kval pair_value(weft_hopper *h, const weft_hopper_consumer *c, const weft_epilogue *e, int reg,
                            const weft_lane_index *at, weft_kval mask, weft_kval companion) {
    weft_kval x = sums_at(h, c, reg);
    if (e->value == e->product) return x;
    if (h->companion >= 0)
        weft_index_bind(h->index, weft_fusion_block(h->request->fusion)->arguments[h->companion], companion);
    return weft_epilogue_value(e, x, at, 2, mask);
}

/* Two neighbours of a result of 16 bits as one packed word. */
static weft_kval packed_pair(weft_hopper *h, const weft_hopper_consumer *c, const weft_epilogue *e, int reg,
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
static bool computes(const weft_hopper *h, const weft_hopper_consumer *c) {
    bool more = false;
    for (int i = 0; i < h->results; i++) more |= c->epilogue[i].value != c->epilogue[i].product;
    return more;
}

static void place_rows(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, weft_kval m0,
                       weft_hopper_places *out) {
    for (int i = 0; i < 2; i++) {
        weft_kval row = clamp_row(h, plus(h, plus(h, m0, c->row_lane), index_of(h, 8 * i)));
        out->rows[i] = weft_epilogue_place_row(c->epilogue, place.batch, row);
    }
}

/* The column pairs of a chunk, and what the epilogue reads along them: in flight before the sums are needed. With an
   odd number of columns the last pair has one. */
static void place_columns(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, int chunk,
                          weft_hopper_places *out) {
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
        if (!even || !computes(h, c) || !out->rows[0].split) continue; /* masks would fill registers */
        weft_epilogue_at(c->epilogue, &out->rows[0], out->columns[pair], 2, at);
        weft_epilogue_hoist(c->epilogue, at, 2, out->masks[pair], true);
    }
}

static void hoist_rows(const weft_hopper *h, const weft_hopper_consumer *c, const weft_hopper_places *places) {
    for (int i = 0; i < 2 && places->rows[0].split && computes(h, c); i++) {
        weft_lane_index at[WEFT_MAX_RANK];
        weft_epilogue_at(c->epilogue, &places->rows[i], places->columns[0], 2, at);
        weft_epilogue_hoist(c->epilogue, at, 2, places->masks[0], false);
    }
}

void weft_hopper_place_block(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, weft_kval m0,
                             weft_hopper_places *out) {
    place_rows(h, c, place, m0, out);
    place_columns(h, c, place, 0, out);
    hoist_rows(h, c, out);
}

static void fill_chunk(weft_hopper *h, const weft_hopper_consumer *c, const weft_epilogue *e,
                       const weft_hopper_places *places, int chunk, int buffer) {
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

/* The same with f32: each pair of a lane to its place, 8 columns of 16 rows of a warp at a time. Two rows meet in each
   16 bytes of the banks, so lanes of odd rows take their second column first. */
static void fill_wide_chunk(weft_hopper *h, const weft_hopper_consumer *c, const weft_epilogue *e,
                            const weft_hopper_places *places, int chunk, int buffer) {
    weft_kernel *k = h->k;
    weft_kval row = weft_k_div(k, c->lane, index_of(h, 4)), quad = weft_k_rem(k, c->lane, index_of(h, 4));
    weft_kval start = plus(h, times(h, c->number, (int64_t)h->outs * HOPPER_CHUNK_BYTES),
                           plus(h, times(h, c->warp, 16 * HOPPER_ROW_BYTES), times(h, row, HOPPER_ROW_BYTES)));
    weft_kval inside = times(h, weft_k_rem(k, quad, index_of(h, 2)), 8), one = index_of(h, 1),
              parity = weft_k_and(k, row, one), odd = weft_k_eq(k, parity, one);
    for (int j = 0; j < 4; j++) {
        weft_kval unit = weft_k_xor(k, plus(h, weft_k_div(k, quad, index_of(h, 2)), index_of(h, 2 * j)), row);
        weft_kval left = plus(h, start, plus(h, times(h, unit, 16), inside));
        bool outside = h->chunk * chunk + 8 * j >= h->bn; /* of a narrow tile, as above */
        for (int half = 0; half < 2; half++) {
            int reg = 16 * chunk + 4 * j + 2 * half, pair = 4 * chunk + j;
            int64_t below = (int64_t)buffer * HOPPER_CHUNK_BYTES + 8 * half * HOPPER_ROW_BYTES;
            weft_kval at = weft_k_div(k, plus(h, left, index_of(h, below)), index_of(h, 4)), companion = WEFT_KNONE;
            weft_kval at_first = plus(h, at, parity), at_second = plus(h, at, weft_k_sub(k, one, parity));
            weft_kval value = weft_k_constant_lanes(k, WEFT_F32, 0, 2);
            if (h->companion >= 0) {
                weft_kval x = weft_k_load(k, h->staging, at_first, 1, WEFT_KNONE, WEFT_KNONE),
                          y = weft_k_load(k, h->staging, at_second, 1, WEFT_KNONE, WEFT_KNONE);
                companion = pair_of(k, weft_k_select(k, odd, y, x), weft_k_select(k, odd, x, y));
            }
            if (!outside) {
                weft_lane_index index[WEFT_MAX_RANK];
                weft_epilogue_at(e, &places->rows[half], places->columns[pair], 2, index);
                value = pair_value(h, c, e, reg, index, places->masks[pair], companion);
            }
            weft_kval x = weft_k_extract(k, value, 0), y = weft_k_extract(k, value, 1);
            weft_k_store(k, h->staging, at_first, WEFT_KNONE, weft_k_select(k, odd, y, x));
            weft_k_store(k, h->staging, at_second, WEFT_KNONE, weft_k_select(k, odd, x, y));
        }
    }
}

static bool same_dims(const weft_type *a, const weft_type *b) {
    for (int i = 0; a->rank == b->rank && i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return a->rank == b->rank;
}

/* Loads the elements of operands that lie like the result: in flight before the arithmetic that needs the first. */
static void read_ahead(weft_hopper *h, const weft_hopper_consumer *c, const weft_lane_index *at, weft_kval mask) {
    const weft_block *block = weft_fusion_block(h->request->fusion);
    for (int i = 0; i < block->argument_count; i++)
        if (i != h->product.a.operand && i != h->product.b.operand && i != h->companion &&
            same_dims(&block->arguments[i]->type, &c->epilogue->value->type))
            (void)weft_index_value(h->index, block->arguments[i], at, 2, mask);
}

/* The same for a chunk. Only rows whose index stands still are remembered by the evaluator. */
static void read_chunk_ahead(weft_hopper *h, const weft_hopper_consumer *c, const weft_hopper_places *places,
                             int chunk) {
    int first = h->chunk / 8 * chunk, end = first + h->chunk / 8 < h->bn / 8 ? first + h->chunk / 8 : h->bn / 8;
    for (int pair = first; pair < end && places->rows[0].split; pair++)
        for (int half = 0; half < 2; half++) {
            weft_lane_index at[WEFT_MAX_RANK];
            weft_epilogue_at(c->epilogue, &places->rows[half], places->columns[pair], 2, at);
            read_ahead(h, c, at, places->masks[pair]);
        }
}

static void send_through_staging(weft_hopper *h, weft_hopper_consumer *c, weft_tile_place place,
                                 weft_hopper_places *places) {
    weft_kernel *k = h->k;
    weft_kval one = weft_k_integer(k, WEFT_U32, 1);
    int before = c->block * (h->bn / h->chunk) * h->results; /* chunks of this tile */
    for (int at = 0; h->chunk * (at / h->results) < h->bn; at++) {
        int buffer = (before + at) % h->outs, chunk = at / h->results;
        weft_kval barrier = weft_hopper_staging(h, c->number, buffer), phase = weft_k_get(k, c->ready_phase);
        if (at % h->results == h->results - 1 && h->chunk * (chunk + 1) < h->bn)
            place_columns(h, c, place, chunk + 1, places);
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
static void send_pair(weft_hopper *h, const weft_hopper_consumer *c, const weft_epilogue_row *line,
                      const weft_lane_index *where, weft_lane_index range, weft_kval mask, int reg) {
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
static void send_directly(weft_hopper *h, weft_hopper_consumer *c, weft_tile_place place, weft_kval m0, int columns) {
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
static void send_joined(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, weft_kval m0) {
    int columns = h->bn / h->join;
    weft_hopper_consumer own = *c;
    *own.sums = weft_hopper_join(h, *c->d, c->number, c->warp, c->lane);
    place.n = plus(h, place.n, times(h, h->part, columns));
    send_directly(h, &own, place, m0, columns);
}

/* Sums of one part of k, pairs of columns, to the temporary. */
static void send_part(weft_hopper *h, weft_hopper_consumer *c, weft_tile_place place, weft_kval m0, weft_kval part) {
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

void weft_hopper_send_tile(weft_hopper *h, weft_hopper_consumer *c, weft_tile_place place, weft_kval m0, weft_kval part,
                           weft_hopper_places *places, size_t mark) {
    for (c->block = 0; c->block < h->blocks; c->block++) {
        weft_kval rows = plus(h, m0, index_of(h, 64 * c->block));
        if (c->block > 0) {
            weft_index_release(h->index, mark);
            mark = weft_index_mark(h->index);
            if (weft_hopper_staged(h)) weft_hopper_place_block(h, c, place, rows, places);
        }
        if (h->join > 1)
            send_joined(h, c, place, rows);
        else if (weft_hopper_staged(h))
            send_through_staging(h, c, place, places);
        else if (h->store == HOPPER_STORE_PARTS)
            send_part(h, c, place, rows, part);
        else
            send_directly(h, c, place, rows, h->bn);
    }
    weft_index_release(h->index, mark);
}
