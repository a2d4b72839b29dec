/* See attention_wave_tile.h. */
#include "codegen/builders/attention_wave_tile.h"

enum { THREADS = WEFT_WAVE_THREADS, PAD = WEFT_WAVE_PAD, DEPTH = WEFT_WAVE_DEPTH, LANES_16 = WEFT_WAVE_LANES };

static weft_kval constant(const weft_wave_tile *t, int64_t value) { return weft_k_index(t->k, value); }

bool weft_wave_tile_init(weft_wave_tile *t, const weft_capability *capability, weft_dtype dtype, int columns) {
    int64_t unit = weft_wave_unit_find(capability, dtype, capability->warp == 64 ? 32 : 16);
    *t = (weft_wave_tile){.dtype = dtype,
                          .unit_id = unit,
                          .unit = weft_wave_unit_get(unit),
                          .columns = columns,
                          .width = columns <= 32   ? 32
                                   : columns <= 64 ? 64
                                                   : 128};
    return t->unit && t->unit->depth == DEPTH;
}

void weft_wave_tile_start(weft_wave_tile *t, weft_kernel *k) {
    const weft_wave_unit *u = t->unit;
    t->k = k;
    k->threads = THREADS;
    t->thread = weft_k_thread(k);
    weft_kval wave = weft_k_div(k, t->thread, constant(t, u->lanes));
    t->lane = weft_k_rem(k, t->thread, constant(t, u->lanes));
    t->line = weft_k_rem(k, t->lane, constant(t, u->size));
    t->group = weft_k_div(k, t->lane, constant(t, u->size));
    t->own = weft_k_add(k, weft_k_times(k, wave, u->size), t->line);
    t->a_regs = weft_k_regs(k, t->dtype, LANES_16, u->parts);
    t->b_regs = weft_k_regs(k, t->dtype, LANES_16, u->parts);
}

/* -- memory */

weft_kval weft_wave_load(const weft_wave_tile *t, weft_kval buffer, weft_kval start, weft_kval column, int lanes) {
    weft_kernel *k = t->k;
    bool whole = t->columns == t->width;
    weft_kval inside = whole ? WEFT_KNONE : weft_k_lt(k, column, constant(t, t->columns));
    weft_kval at = whole ? column : weft_k_select(k, inside, column, constant(t, 0));
    weft_kval value = weft_k_load(k, buffer, weft_k_add(k, start, at), lanes, WEFT_KNONE, WEFT_KNONE);
    if (!k->failed) k->instrs[value].align_bytes = 2 * lanes;
    return whole ? value : weft_k_select(k, inside, value, weft_k_constant_lanes(k, t->dtype, 0, lanes));
}

weft_kval weft_wave_shared_load(const weft_wave_tile *t, weft_kval shared, weft_kval at, int lanes) {
    weft_kval value = weft_k_load(t->k, shared, at, lanes, WEFT_KNONE, WEFT_KNONE);
    if (!t->k->failed) t->k->instrs[value].align_bytes = 2 * lanes;
    return value;
}

void weft_wave_shared_store(const weft_wave_tile *t, weft_kval shared, weft_kval at, weft_kval value, int lanes) {
    weft_k_store(t->k, shared, at, WEFT_KNONE, value);
    if (!t->k->failed) t->k->instrs[t->k->instr_count - 1].align_bytes = 2 * lanes;
}

weft_kval weft_wave_line(const weft_wave_tile *t, const weft_attention_side *side, weft_kval head, weft_kval row) {
    return weft_k_times(t->k, weft_attention_line(t->k, side, row, head), t->columns);
}

/* gfx11: a lane has every other of 16 columns; halves of a wavefront give each other half of theirs, and each then has
   eight neighbours. */
static weft_kval as_neighbours(const weft_wave_tile *t, weft_kval sums) {
    weft_kernel *k = t->k;
    weft_kval low = weft_k_eq(k, t->group, constant(t, 0)), out = sums;
    for (int i = 0; i < 4; i++) {
        weft_kval first = weft_k_extract(k, sums, i), second = weft_k_extract(k, sums, 4 + i);
        weft_kval other = weft_k_shuffle_xor(k, weft_k_select(k, low, second, first), 16);
        out = weft_k_insert(k, out, 2 * i, weft_k_select(k, low, first, other));
        out = weft_k_insert(k, out, 2 * i + 1, weft_k_select(k, low, other, second));
    }
    return out;
}

void weft_wave_store(const weft_wave_tile *t, weft_kval sums, weft_kval factor, weft_kval buffer, weft_kval start,
                     weft_kval exists) {
    weft_kernel *k = t->k;
    bool fours = t->unit->spread == WEFT_SPREAD_FOURS;
    int apart = fours ? 4 * (t->unit->lanes / t->unit->size) : 4;
    for (int tile = 0; tile < weft_wave_tiles(t, t->width); tile++) {
        weft_kval own = weft_k_reg(k, sums, tile);
        if (t->unit->spread == WEFT_SPREAD_TURNS) own = as_neighbours(t, own);
        for (int g = 0; g < t->unit->sums / 4; g++) {
            int64_t fixed = (int64_t)tile * t->unit->size + (int64_t)g * apart;
            weft_kval column = weft_k_plus(k, weft_k_times(k, t->group, fours ? 4 : 8), fixed), inside = exists;
            if (t->columns != t->width) inside = weft_k_and(k, exists, weft_k_lt(k, column, constant(t, t->columns)));
            weft_kval four = weft_k_splat(k, weft_k_extract(k, own, 4 * g), 4);
            for (int i = 1; i < 4; i++) four = weft_k_insert(k, four, i, weft_k_extract(k, own, 4 * g + i));
            four = weft_k_convert(k, weft_k_mul(k, four, factor), t->dtype);
            weft_k_if(k, inside);
            weft_k_store(k, buffer, weft_k_add(k, start, column), WEFT_KNONE, four);
            if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 8;
            weft_k_end(k);
        }
    }
}

/* -- tiles of the other side */

static int lanes_of(const weft_wave_tile *t, const weft_wave_block *block) {
    bool chunks = block->turned == WEFT_KNONE && t->width * block->rows >= LANES_16 * THREADS;
    return chunks ? LANES_16 : 4;
}

void weft_wave_block_init(const weft_wave_tile *t, weft_wave_block *block, int rows, bool plain, bool turned) {
    block->rows = rows;
    block->plain = plain ? weft_k_shared(t->k, t->dtype, (weft_dim)rows * (t->width + PAD)) : WEFT_KNONE;
    block->turned = turned ? weft_k_shared(t->k, t->dtype, (weft_dim)t->width * (rows + PAD)) : WEFT_KNONE;
    block->deep = t->width * rows / (lanes_of(t, block) * THREADS);
    block->words = weft_k_regs(t->k, t->dtype, lanes_of(t, block), block->deep);
}

/* Row and column of this thread's piece i: neighbouring rows where they are turned. */
static void place(const weft_wave_tile *t, const weft_wave_block *block, int i, weft_kval *out_row,
                  weft_kval *out_column) {
    weft_kernel *k = t->k;
    int lanes = lanes_of(t, block), across = t->width / lanes;
    *out_column = weft_k_times(k, weft_k_rem(k, t->thread, constant(t, across)), lanes);
    *out_row = weft_k_div(k, t->thread, constant(t, across));
    if (block->turned == WEFT_KNONE)
        *out_row = weft_k_plus(k, *out_row, (int64_t)i * (THREADS / across));
    else
        *out_row = weft_k_plus(k, weft_k_times(k, *out_row, block->deep), i);
}

void weft_wave_block_fetch(const weft_wave_tile *t, const weft_wave_block *block, weft_kval head, weft_kval first) {
    weft_kernel *k = t->k;
    weft_kval own, column, last = weft_k_plus(k, weft_k_extent(k, block->side.rows), -1);
    for (int i = 0; i < block->deep; i++) {
        place(t, block, i, &own, &column);
        weft_kval row = weft_k_min(k, weft_k_add(k, first, own), last);
        weft_kval start = weft_wave_line(t, &block->side, head, row);
        weft_k_set_reg(k, block->words, i, weft_wave_load(t, block->buffer, start, column, lanes_of(t, block)));
    }
}

/* One column of this thread's rows. */
static weft_kval column_of(const weft_wave_tile *t, const weft_wave_block *block, int column) {
    weft_kernel *k = t->k;
    weft_kval first = weft_k_extract(k, weft_k_reg(k, block->words, 0), column);
    if (block->deep == 1) return first;
    weft_kval turned = weft_k_splat(k, first, block->deep);
    for (int i = 1; i < block->deep; i++)
        turned = weft_k_insert(k, turned, i, weft_k_extract(k, weft_k_reg(k, block->words, i), column));
    return turned;
}

void weft_wave_block_keep(const weft_wave_tile *t, const weft_wave_block *block) {
    weft_kernel *k = t->k;
    weft_kval row, column;
    for (int i = 0; i < block->deep && block->plain != WEFT_KNONE; i++) {
        place(t, block, i, &row, &column);
        weft_kval at = weft_k_add(k, weft_k_times(k, row, t->width + PAD), column);
        weft_wave_shared_store(t, block->plain, at, weft_k_reg(k, block->words, i), lanes_of(t, block));
    }
    place(t, block, 0, &row, &column);
    for (int d = 0; d < 4 && block->turned != WEFT_KNONE; d++) {
        weft_kval at = weft_k_add(k, weft_k_times(k, weft_k_plus(k, column, d), block->rows + PAD), row);
        weft_wave_shared_store(t, block->turned, at, column_of(t, block, d), block->deep);
    }
}

void weft_wave_walk_emit(const weft_wave_walk *walk, weft_kernel *k, weft_kval start, weft_kval end, int rows) {
    walk->fetch(walk->of, weft_k_times(k, start, rows));
    walk->keep(walk->of);
    weft_k_barrier(k);
    weft_kval tile = weft_k_for(k, start, end, weft_k_index(k, 1), 0), first = weft_k_times(k, tile, rows);
    weft_kval more = weft_k_lt(k, weft_k_plus(k, tile, 1), end);
    weft_k_if(k, more);
    walk->fetch(walk->of, weft_k_plus(k, first, rows));
    weft_k_end(k);
    walk->multiply(walk->of, first);
    weft_k_barrier(k);
    weft_k_if(k, more);
    walk->keep(walk->of);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_end(k);
}

/* -- operands and products */

/* Where in 16 of depth this lane's operands start. */
static weft_kval depth_start(const weft_wave_tile *t) {
    int run = t->unit->parts * t->unit->part_lanes;
    return run == DEPTH ? constant(t, 0) : weft_k_times(t->k, t->group, run);
}

void weft_wave_operand(const weft_wave_tile *t, weft_kval regs, int first, weft_kval shared, weft_kval row, int step) {
    for (int part = 0; part < t->unit->parts; part++) {
        weft_kval at = weft_k_add(t->k, row, weft_k_plus(t->k, depth_start(t), step * DEPTH + part * LANES_16));
        weft_k_set_reg(t->k, regs, first + part, weft_wave_shared_load(t, shared, at, LANES_16));
    }
}

void weft_wave_own(const weft_wave_tile *t, weft_kval regs, weft_kval buffer, weft_kval start) {
    for (int step = 0; step < t->width / DEPTH; step++)
        for (int part = 0; part < t->unit->parts; part++) {
            weft_kval column = weft_k_plus(t->k, depth_start(t), step * DEPTH + part * LANES_16);
            weft_k_set_reg(t->k, regs, step * t->unit->parts + part,
                           weft_wave_load(t, buffer, start, column, LANES_16));
        }
}

void weft_wave_product(const weft_wave_tile *t, weft_kval sums, int at, weft_kval b, int first_b) {
    weft_kval operands[6] = {sums, constant(t, at), t->a_regs, constant(t, 0), b, constant(t, first_b)};
    weft_k_effect(t->k, WEFT_K_mma, 6, operands, t->unit_id, 0);
}

void weft_wave_multiply(const weft_wave_tile *t, weft_kval sums, int rows, weft_kval plain, weft_kval own) {
    weft_kernel *k = t->k;
    for (int n = 0; n < weft_wave_tiles(t, rows); n++)
        weft_k_set_reg(k, sums, n, weft_k_constant_lanes(k, WEFT_F32, 0, t->unit->sums));
    for (int step = 0; step < t->width / DEPTH; step++)
        for (int n = 0; n < weft_wave_tiles(t, rows); n++) {
            weft_kval row = weft_k_times(k, weft_k_plus(k, t->line, (int64_t)n * t->unit->size), t->width + PAD);
            weft_wave_operand(t, t->a_regs, 0, plain, row, step);
            weft_wave_product(t, sums, n, own, step * t->unit->parts);
        }
}

/* Neighbouring sums are neighbours in the operand, but on gfx11, whose halves of a wavefront have every other row each
   and both need all. */
void weft_wave_pack(const weft_wave_tile *t, weft_kval sums, int u) {
    weft_kernel *k = t->k;
    const weft_wave_unit *unit = t->unit;
    int per_tile = unit->size / DEPTH, count = unit->sums / per_tile, first = u % per_tile * count;
    weft_kval all = weft_k_reg(k, sums, u / per_tile), value[16];
    for (int i = 0; i < count; i++) value[i] = weft_k_convert(k, weft_k_extract(k, all, first + i), t->dtype);
    if (unit->spread == WEFT_SPREAD_TURNS) {
        weft_kval low = weft_k_eq(k, t->group, constant(t, 0)), both[16];
        for (int i = 0; i < count; i++) {
            weft_kval other = weft_k_shuffle_xor(k, value[i], 16);
            both[2 * i] = weft_k_select(k, low, value[i], other);
            both[2 * i + 1] = weft_k_select(k, low, other, value[i]);
        }
        for (int i = 0; i < 2 * count; i++) value[i] = both[i];
    }
    for (int part = 0; part < unit->parts; part++) {
        weft_kval word = weft_k_splat(k, value[8 * part], 8);
        for (int i = 1; i < 8; i++) word = weft_k_insert(k, word, i, value[8 * part + i]);
        weft_k_set_reg(k, t->b_regs, part, word);
    }
}

void weft_wave_columns(const weft_wave_tile *t, const weft_wave_block *block, int tile, int u) {
    weft_kernel *k = t->k;
    weft_kval row = weft_k_times(k, weft_k_plus(k, t->line, (int64_t)tile * t->unit->size), block->rows + PAD);
    if (t->unit->spread != WEFT_SPREAD_FOURS) {
        weft_wave_operand(t, t->a_regs, 0, block->turned, row, u);
        return;
    }
    weft_kval own = weft_k_add(k, weft_k_plus(k, row, (int64_t)u * DEPTH), weft_k_times(k, t->group, 4));
    weft_kval low = weft_wave_shared_load(t, block->turned, own, 4),
              high = weft_wave_shared_load(t, block->turned, weft_k_plus(k, own, 8), 4);
    weft_kval value = weft_k_splat(k, weft_k_extract(k, low, 0), 8);
    for (int i = 1; i < 8; i++) value = weft_k_insert(k, value, i, weft_k_extract(k, i < 4 ? low : high, i % 4));
    weft_k_set_reg(k, t->a_regs, 0, value);
}

int weft_wave_own_rows(const weft_wave_tile *t) {
    return t->unit->spread == WEFT_SPREAD_FOURS ? 4 : t->unit->spread == WEFT_SPREAD_TURNS ? 1 : 8;
}

weft_kval weft_wave_tile_row(const weft_wave_tile *t, weft_kval first, int n, int i) {
    weft_kval own = weft_k_add(t->k, first, weft_k_times(t->k, t->group, weft_wave_own_rows(t)));
    return weft_k_plus(t->k, own, (int64_t)n * t->unit->size + weft_wave_row(t->unit, 0, i));
}
