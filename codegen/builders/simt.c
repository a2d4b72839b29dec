/* See simt.h. */
#include "codegen/builders/simt.h"

#include "codegen/tile/raster.h"

/* Threads along one side of a block; each owns 4 neighbours of every 4 * side. */
static int side_of(int tile) { return tile < 64 ? tile / 4 : 16; }

int weft_simt_propose(const weft_build_request *request, const char *name, weft_dim m, weft_dim n, weft_dim batch,
                      weft_dtype sum, int capacity, weft_schedule *out_schedules) {
    static const int tiles[] = {128, 64, 32, 16}; /* the last two where a target has too few threads for the others */
    int64_t rows = weft_dim_is_number(m) ? m : 1024, columns = weft_dim_is_number(n) ? n : 1024,
            batches = weft_dim_is_number(batch) ? batch : 1;
    int64_t blocks = (rows + 127) / 128 * ((columns + 127) / 128) * batches;
    bool large = blocks >= request->capability->multiprocessors && rows > 64 && columns > 64;
    int count = 0;
    weft_condition small = weft_simt_is_small(request->graph->dims, request->capability, m, n, batch);
    if (weft_simt_has_small(request->capability, sum) && weft_dim_is_number(small.lhs) && small.lhs <= small.rhs &&
        count < capacity)
        out_schedules[count++] = weft_simt_small_schedule(name);
    if (count < capacity && weft_simt_simdgroup_schedule(request->capability, sum, name, &out_schedules[count]))
        count++;
    for (int i = 0; i < 4 && count < capacity && (i < 2 || count == 0); i++) {
        int tile = tiles[large || i > 1 ? i : 1 - i], bytes = weft_dtype_bits(sum) / 8, bk = tile == 128 ? 8 : 16,
            threads = side_of(tile) * side_of(tile);
        while (bk > 4 && 2 * 2 * bk * tile * bytes > request->capability->shared_bytes) bk /= 2; /* wide sums */
        if (2 * 2 * bk * tile * bytes > request->capability->shared_bytes || threads > request->capability->threads_max)
            continue;
        out_schedules[count++] = (weft_schedule){.builder = name,
                                                 .tile_m = tile,
                                                 .tile_n = tile,
                                                 .tile_k = bk,
                                                 .threads = threads,
                                                 .vector = 4,
                                                 .stages = 2,
                                                 .raster = 8};
    }
    return count;
}

static weft_kval index_of(weft_simt *s, int64_t value) { return weft_k_index(s->k, value); }
static weft_kval plus(weft_simt *s, weft_kval a, weft_kval b) { return weft_k_add(s->k, a, b); }
static weft_kval times(weft_simt *s, weft_kval a, int64_t b) { return weft_k_mul(s->k, a, index_of(s, b)); }
static int tile_of(const weft_simt *s, int side) { return side ? s->bn : s->bm; }
static int width(const weft_simt *s, int side) { return s->wide[side] ? 4 : 1; }
static int fetches(const weft_simt *s, int side) { return tile_of(s, side) * s->bk / s->k->threads / width(s, side); }

/* Which element of a tile, or which four, the i-th fetch of this thread is: threads run along the axis that is
   contiguous in memory; along k eight elements, a sector of 4-byte ones, then the rows, so that their stores meet no
   bank twice. */
static void place_fetch(weft_simt *s, int side, int i, weft_kval *out_row, weft_kval *out_k) {
    int each = width(s, side), along = (s->along_k[side] ? (s->bk % 8 ? s->bk : 8) : tile_of(s, side)) / each;
    weft_kval element = plus(s, s->thread, index_of(s, (int64_t)i * s->k->threads));
    weft_kval fast = weft_k_rem(s->k, element, index_of(s, along)),
              slow = weft_k_div(s->k, element, index_of(s, along));
    fast = times(s, fast, each);
    *out_row = s->along_k[side] ? slow : fast;
    *out_k = s->along_k[side] ? fast : slow;
    if (!s->along_k[side] || along * each == s->bk) return;
    weft_kval tile = index_of(s, tile_of(s, side));
    *out_row = weft_k_rem(s->k, slow, tile);
    *out_k = plus(s, fast, times(s, weft_k_div(s->k, slow, tile), along * each));
}

/* A limit that every place of a tile, or of a step, is below. */
static bool is_whole(weft_simt *s, weft_dim extent, int tile) {
    return weft_dim_divisor(s->k->dims, extent) % tile == 0;
}

weft_kval weft_simt_rows(const weft_simt *s, int side) {
    return side ? weft_k_extent(s->k, s->n) : s->place ? s->rows_end : weft_k_extent(s->k, s->m);
}

weft_kval weft_simt_depth(const weft_simt *s) { return s->place ? s->depth_end : weft_k_extent(s->k, s->depth); }

weft_kval weft_simt_steps(const weft_simt *s, int step) {
    weft_kernel *k = s->k;
    if (!s->place) return weft_k_extent(k, weft_dim_divide_ceil(k->dims, s->depth, step));
    return weft_k_div(k, weft_k_add(k, s->depth_end, weft_k_index(k, step - 1)), weft_k_index(k, step));
}

/* Where k, or rows that are found in the kernel, may be none: a legal place all the same. */
static weft_kval legal(const weft_simt *s, weft_kval at) { return weft_k_max(s->k, at, weft_k_index(s->k, 0)); }
static bool may_be_none(const weft_simt *s) {
    int64_t least, most;
    weft_dim_bounds(s->k->dims, s->depth, &least, &most);
    return least < 1 || s->place;
}

weft_kval weft_simt_element(weft_simt *s, int side, weft_kval row, weft_kval kk, weft_dtype as) {
    weft_kernel *k = s->k;
    weft_kval rows = weft_simt_rows(s, side), depth = weft_simt_depth(s), one = index_of(s, 1), inside = WEFT_KNONE;
    weft_kval last_row = weft_k_sub(k, rows, one), last_k = weft_k_sub(k, depth, one);
    if (s->place) last_row = legal(s, last_row);
    if (may_be_none(s)) last_k = legal(s, last_k);
    weft_kval exists = weft_k_and(k, weft_k_lt(k, row, rows), weft_k_lt(k, kk, depth));
    s->readable = may_be_none(s) ? exists : WEFT_KNONE;
    weft_kval value = s->load(s, side, weft_k_min(k, row, last_row), weft_k_min(k, kk, last_k), &inside);
    if (inside != WEFT_KNONE) exists = weft_k_and(k, exists, inside);
    return weft_k_select(k, exists, weft_k_convert(k, value, as), weft_k_constant_lanes(k, as, 0, 1));
}

weft_kval weft_simt_four(weft_simt *s, int side, weft_kval row, weft_kval kk, weft_dtype as) {
    weft_kernel *k = s->k;
    weft_kval rows = weft_simt_rows(s, side), depth = weft_simt_depth(s), one = index_of(s, 1), four = index_of(s, 4);
    weft_kval last_row = legal(s, weft_k_sub(k, rows, s->along_k[side] ? one : four)),
              last_k = legal(s, weft_k_sub(k, depth, s->along_k[side] ? four : one));
    weft_kval exists = weft_k_and(k, weft_k_lt(k, row, rows), weft_k_lt(k, kk, depth));
    weft_kval value = s->load_wide(s, side, weft_k_min(k, row, last_row), weft_k_min(k, kk, last_k));
    return weft_k_select(k, exists, weft_k_convert(k, value, as), weft_k_constant_lanes(k, as, 0, 4));
}

/* Elements of the step at k0 into registers, 0 outside of the problem: what is outside is read from the last row or k.
   Four at once are all inside or all outside. */
static void fetch(weft_simt *s, int side, weft_kval k0) {
    weft_kernel *k = s->k;
    int each = width(s, side);
    weft_kval rows = weft_simt_rows(s, side), depth = weft_simt_depth(s), first = side ? s->n0 : s->m0,
              end = index_of(s, each);
    weft_kval zero = weft_k_constant_lanes(k, s->sum, 0, each),
              last_row = weft_k_sub(k, rows, s->along_k[side] ? index_of(s, 1) : end),
              last_k = weft_k_sub(k, depth, s->along_k[side] ? end : index_of(s, 1));
    bool none = may_be_none(s), whole_rows = is_whole(s, side ? s->n : s->m, tile_of(s, side)) && (side || !s->place),
         whole_k = is_whole(s, s->depth, s->bk) && !none;
    if (s->place) last_row = legal(s, last_row);
    if (none) last_k = legal(s, last_k);
    for (int i = 0; i < fetches(s, side); i++) {
        weft_kval row, kk, inside = WEFT_KNONE, exists = WEFT_KNONE;
        place_fetch(s, side, i, &row, &kk);
        row = plus(s, first, row), kk = plus(s, k0, kk);
        if (!whole_rows) {
            exists = weft_k_lt(k, row, rows);
            row = weft_k_min(k, row, last_row);
        }
        if (!whole_k) {
            weft_kval within = weft_k_lt(k, kk, depth);
            exists = exists == WEFT_KNONE ? within : weft_k_and(k, exists, within);
            kk = weft_k_min(k, kk, last_k);
        }
        s->readable = none ? exists : WEFT_KNONE;
        weft_kval value = each > 1 ? s->load_wide(s, side, row, kk) : s->load(s, side, row, kk, &inside);
        if (inside != WEFT_KNONE) exists = exists == WEFT_KNONE ? inside : weft_k_and(k, exists, inside);
        value = weft_k_convert(k, value, s->sum);
        weft_k_set_at(k, s->fetched[side], index_of(s, i),
                      exists == WEFT_KNONE ? value : weft_k_select(k, exists, value, zero));
    }
}

void weft_simt_place(weft_simt *s, int raster_group) {
    weft_kernel *k = s->k;
    k->grid = s->place ? s->blocks : weft_raster_count(k->dims, s->m, s->n, s->batch, s->bm, s->bn);
    s->thread = weft_k_thread(k);
    if (s->place) {
        s->place(s);
        return;
    }
    weft_raster raster = weft_raster_create(k, s->m, s->n, s->batch, s->bm, s->bn, raster_group > 0 ? raster_group : 8);
    weft_tile_place place = weft_raster_place(k, &raster, weft_k_block(k));
    s->batch_index = place.batch, s->m0 = place.m, s->n0 = place.n;
}

weft_kval weft_simt_shared_at(weft_simt *s, int side, weft_kval buffer, weft_kval kk, weft_kval row) {
    if (s->turned && side == 0)
        return plus(s, times(s, buffer, (int64_t)s->bm * s->pitch[0]), plus(s, times(s, row, s->pitch[0]), kk));
    if (s->mixed[side]) row = weft_k_xor(s->k, row, times(s, weft_k_and(s->k, kk, index_of(s, 7)), 4));
    return plus(s, times(s, buffer, (int64_t)s->bk * s->pitch[side]), plus(s, times(s, kk, s->pitch[side]), row));
}

static void keep(weft_simt *s, int side, weft_kval buffer) {
    weft_kernel *k = s->k;
    bool scattered = s->along_k[side] != (s->turned && side == 0);
    for (int i = 0; i < fetches(s, side); i++) {
        weft_kval row, kk, value = weft_k_get_at(k, s->fetched[side], index_of(s, i));
        place_fetch(s, side, i, &row, &kk);
        if (!scattered || width(s, side) == 1) {
            weft_k_store(k, s->shared[side], weft_simt_shared_at(s, side, buffer, kk, row), WEFT_KNONE, value);
            if (width(s, side) > 1 && !k->failed)
                k->instrs[k->instr_count - 1].align_bytes = weft_dtype_bits(s->sum) / 2;
            continue;
        }
        for (int lane = 0; lane < 4; lane++) {
            weft_kval by = index_of(s, lane);
            weft_kval at = s->along_k[side] ? weft_simt_shared_at(s, side, buffer, plus(s, kk, by), row)
                                            : weft_simt_shared_at(s, side, buffer, kk, plus(s, row, by));
            weft_k_store(k, s->shared[side], at, WEFT_KNONE, weft_k_extract(k, value, lane));
        }
    }
}

/* Four neighbours of one k of the shared tile. */
static weft_kval load_four(weft_simt *s, int side, weft_kval buffer, weft_kval kk, int group, weft_kval lane) {
    weft_kval row = plus(s, times(s, lane, 4), index_of(s, 4 * side_of(tile_of(s, side)) * group));
    weft_kval value =
        weft_k_load(s->k, s->shared[side], weft_simt_shared_at(s, side, buffer, kk, row), 4, WEFT_KNONE, WEFT_KNONE);
    if (!s->k->failed) s->k->instrs[value].align_bytes = weft_dtype_bits(s->sum) / 2;
    return value;
}

static void multiply(weft_simt *s, weft_kval buffer, weft_kval tx, weft_kval ty) {
    weft_kernel *k = s->k;
    int rows = s->bm / (4 * side_of(s->bm)), columns = s->bn / (4 * side_of(s->bn));
    bool fused = weft_dtype_is_float(s->sum);
    weft_kval kk = weft_k_for(k, index_of(s, 0), index_of(s, s->bk), index_of(s, 1), -1);
    size_t mark = weft_index_mark(s->index);
    weft_kval a[2], b[2];
    for (int g = 0; g < rows; g++) a[g] = load_four(s, 0, buffer, kk, g, ty);
    for (int g = 0; g < columns; g++) b[g] = load_four(s, 1, buffer, kk, g, tx);
    for (int r = 0; r < 4 * rows; r++)
        for (int g = 0; g < columns; g++) {
            weft_kval at = index_of(s, r * columns + g), sum = weft_k_get_at(k, s->sums, at),
                      x = weft_k_extract(k, a[r / 4], r % 4);
            weft_k_set_at(k, s->sums, at,
                          fused ? weft_k_mad(k, x, b[g], sum) : weft_k_add(k, weft_k_mul(k, x, b[g]), sum));
        }
    weft_index_release(s->index, mark);
    weft_k_end(k);
}

static void emit_stores(weft_simt *s, weft_kval tx, weft_kval ty) {
    weft_kernel *k = s->k;
    weft_kval m = weft_simt_rows(s, 0), n = weft_k_extent(k, s->n);
    int down = 4 * side_of(s->bm), across = 4 * side_of(s->bn), columns = s->bn / across;
    bool whole = weft_dim_divisor(k->dims, s->n) % 4 == 0;
    for (int r = 0; r < s->bm / side_of(s->bm); r++)
        for (int g = 0; g < columns; g++) {
            weft_kval row = plus(s, s->m0, plus(s, times(s, ty, 4), index_of(s, down * (r / 4) + r % 4)));
            weft_kval column = plus(s, s->n0, plus(s, times(s, tx, 4), index_of(s, across * g)));
            weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
            size_t mark = weft_index_mark(s->index);
            weft_lane_index range = weft_lane_range(column, 4);
            weft_kval mask = whole ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
            s->store(s, row, range, mask, weft_k_get_at(k, s->sums, index_of(s, r * columns + g)));
            weft_index_release(s->index, mark);
            weft_k_end(k);
        }
}

/* Step t fetches tile t, multiplies tile t - 1 meanwhile, keeps tile t. One piece of code for both the first fetch and
   the others: compilers of WGSL take seconds for a fetch. */
static void emit_loop(weft_simt *s, weft_kval tx, weft_kval ty) {
    weft_kernel *k = s->k;
    weft_kval zero = index_of(s, 0), one = index_of(s, 1), steps = weft_simt_steps(s, s->bk);
    weft_kval buffer = weft_k_var(k, one), step = weft_k_for(k, zero, plus(s, steps, one), one, 0);
    size_t mark = weft_index_mark(s->index);
    weft_kval now = weft_k_get(k, buffer), other = weft_k_sub(k, one, now);
    int64_t least, most;
    weft_dim_bounds(k->dims, s->depth, &least, &most);
    bool whole = least > 0 && is_whole(s, s->depth, s->bk);
    weft_kval from = whole ? weft_k_min(k, step, weft_k_sub(k, steps, one)) : step;
    for (int side = 0; side < 2; side++)
        fetch(s, side, times(s, from, s->bk)); /* past the end: zeros or the last step again, not multiplied */
    weft_k_if(k, weft_k_lt(k, zero, step));
    if (s->turned)
        weft_simt_simdgroup_multiply(s, now);
    else
        multiply(s, now, tx, ty);
    weft_k_end(k);
    for (int side = 0; side < 2; side++) keep(s, side, other);
    weft_k_barrier(k);
    weft_k_set(k, buffer, other);
    weft_index_release(s->index, mark);
    weft_k_end(k);
}

/* Threads that run along k store to one row after another: four elements between the rows spread them over the banks;
   where there is no room for that, places are exchanged, which costs an instruction an access. */
static void choose_pitch(weft_simt *s) {
    if (s->turned) { /* eight elements more: four rows of a matrix of 8 x 8 lie in all banks */
        s->pitch[0] = s->bk + 8;
        s->pitch[1] = s->bn + 8;
        return;
    }
    int64_t element = 2LL * s->bk * weft_dtype_bits(s->sum) / 8, bytes = element * (s->bm + s->bn + 8);
    for (int side = 0; side < 2; side++) {
        bool room = bytes <= s->k->capability->shared_bytes;
        s->pitch[side] = tile_of(s, side) + (s->along_k[side] && room ? 4 : 0);
        s->mixed[side] = s->along_k[side] && !room && tile_of(s, side) >= 32;
    }
}

static weft_status emit(weft_simt *s) {
    const weft_schedule *schedule = s->request->schedule;
    weft_kernel *k = s->k;
    s->bm = schedule->tile_m, s->bn = schedule->tile_n, s->bk = schedule->tile_k;
    if (schedule->split > 1) {
        weft_simt_emit_small(s);
        return NULL;
    }
    bool good = s->bm == 16 || s->bm == 32 || s->bm == 64 || s->bm == 128;
    if (!good || s->bn != s->bm || s->bk < 4 || s->bk > 32 || s->bk % 4)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s: schedule %dx%dx%d", s->request->name, s->bm, s->bn, s->bk);
    s->turned = schedule->vector == 2;
    k->threads = s->turned ? schedule->threads : side_of(s->bm) * side_of(s->bn);
    /* wide sums where there is little shared memory: a step has less than four elements a thread */
    for (int side = 0; side < 2; side++) s->wide[side] &= tile_of(s, side) * s->bk % (4 * k->threads) == 0;
    /* two blocks a multiprocessor: 64 sums, 16 factors and what is fetched leave room in 128 registers, where it comes
       four at once: single elements take an address and a test each */
    if (s->bm == 128 && !s->turned && weft_dtype_bits(s->sum) == 32 && s->wide[0] && s->wide[1])
        k->registers = k->capability->registers / (2 * k->threads) / 8 * 8;
    choose_pitch(s);
    for (int side = 0; side < 2; side++)
        s->shared[side] = weft_k_shared(k, s->sum, 2LL * (s->turned && side == 0 ? s->bm : s->bk) * s->pitch[side]);
    weft_simt_place(s, schedule->raster);
    for (int side = 0; side < 2; side++) s->fetched[side] = weft_k_regs(k, s->sum, width(s, side), fetches(s, side));
    if (s->turned) {
        weft_simt_simdgroup_begin(s);
        emit_loop(s, WEFT_KNONE, WEFT_KNONE);
        weft_simt_simdgroup_store(s);
        return NULL;
    }
    int sums = s->bm / side_of(s->bm) * (s->bn / (4 * side_of(s->bn)));
    s->sums = weft_k_regs(k, s->sum, 4, sums);
    for (int i = 0; i < sums; i++) weft_k_set_at(k, s->sums, index_of(s, i), weft_k_constant_lanes(k, s->sum, 0, 4));
    weft_kval tx = weft_k_rem(k, s->thread, index_of(s, side_of(s->bn))),
              ty = weft_k_div(k, s->thread, index_of(s, side_of(s->bn)));
    emit_loop(s, tx, ty);
    emit_stores(s, tx, ty);
    return NULL;
}

weft_status weft_simt_emit(weft_simt *s) {
    weft_status status = emit(s), finish = weft_index_finish(s->index);
    if (!status) return finish;
    weft_status_release(finish);
    return status;
}
