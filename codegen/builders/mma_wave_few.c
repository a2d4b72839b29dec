/* Products of at most 32 rows on units of whole wavefronts, whose time is that of reading B once: no operand passes
   through shared memory, k is dealt to the wavefronts of a block.

   Block: 16 or 32 rows by 16 or 32 columns, 256 threads. Each wavefront takes every waves-th run of DEPTHS depths of
   the unit; a lane reads 16 bytes of a row at a time, which are its operand. Their sums meet in shared memory, are
   added in the order of the wavefronts, and leave as four neighbours of a row. Both sides run along k in rows of
   multiples of 16 bytes. Read next: mma_wave.h, codegen/kernel/matrix.h. */
#include "codegen/builders/mma_wave.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/spell.h"

enum { THREADS = 256, SIZE = 16, DEPTHS = 4, ROWS_MAX = 32, FRAGMENT = SIZE * SIZE };

typedef struct few_side {
    int fragments;
    weft_dim extent;
    weft_kval first, origin, buffer, regs; /* first: row of the problem; origin: element where the batch starts */
    weft_kval pitch;
} few_side;

typedef struct few {
    weft_simt *s;
    weft_kernel *k;
    weft_dtype dtype;
    int64_t unit_id;
    const weft_wave_unit *unit;
    int bytes, waves, fragments; /* fragments: of sums */
    few_side side[2];
    weft_kval wave, line, group, d, shared;
} few;

static weft_kval index_of(const few *x, int64_t value) { return weft_k_index(x->k, value); }

bool weft_mma_wave_few_takes(const weft_build_request *request, weft_dim m, weft_dtype dtype,
                             const weft_mma_side sides[2]) {
    weft_dim_table *dims = request->graph->dims;
    int bytes = weft_dtype_bits(dtype) / 8;
    int64_t least, most;
    /* a row's bits are not to depend on how many there are */
    if (request->capability->batch_invariant || !weft_wave_unit_find(request->capability, dtype, SIZE)) return false;
    weft_dim_bounds(dims, m, &least, &most);
    if (most > ROWS_MAX) return false;
    for (int i = 0; i < 2; i++) {
        if (sides[i].operand < 0 || !sides[i].along_k || weft_mma_piece(dims, &sides[i], bytes) != 16) return false;
        weft_dim_bounds(dims, sides[i].pitch, &least, &most); /* of rows along k: the extent of k */
        if (least < 1) return false;
    }
    return true;
}

/* Wider blocks read A less often; narrow ones are more, until they fill the processors. */
weft_schedule weft_mma_wave_few_schedule(const weft_build_request *request, const char *name, weft_dim m, weft_dim n,
                                         weft_dim batch) {
    int64_t least, rows, blocks = 1;
    weft_dim_bounds(request->graph->dims, m, &least, &rows);
    if (weft_dim_is_number(n)) blocks = n / 32;
    if (weft_dim_is_number(batch)) blocks *= batch;
    return (weft_schedule){.builder = name,
                           .tile_m = rows > SIZE ? 2 * SIZE : SIZE,
                           .tile_n = blocks >= 2 * (int64_t)request->capability->multiprocessors ? 2 * SIZE : SIZE,
                           .threads = THREADS,
                           .stages = 1,
                           .raster = 8};
}

/* -- operands */

static void place_side(few *x, int number, const weft_mma_side *from) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    few_side *side = &x->side[number];
    if (s->index->operands[from->operand] == WEFT_KNONE)
        s->index->operands[from->operand] =
            weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, from->operand, x->dtype, false, number ? "b" : "a");
    side->buffer = s->index->operands[from->operand];
    side->extent = number ? s->n : s->m;
    side->fragments = (number ? s->bn : s->bm) / SIZE;
    side->regs = weft_k_regs(k, x->dtype, x->unit->part_lanes, DEPTHS * side->fragments * x->unit->parts);
}

static void start_side(few *x, int number, const weft_mma_side *from) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    few_side *side = &x->side[number];
    side->first = number ? s->n0 : s->m0;
    side->pitch = weft_k_extent(k, from->pitch);
    side->origin = index_of(x, 0);
    if (s->batch == 1 || from->period == 1) return;
    weft_kval batch = from->period ? weft_k_rem(k, s->batch_index, index_of(x, from->period)) : s->batch_index;
    side->origin = weft_k_mul(k, batch, weft_k_mul(k, weft_k_extent(k, side->extent), side->pitch));
}

/* The lane's operands of `depth`, whose first k is k0: rows past the end are the last one again, k past the end 0. */
static void load_fragments(const few *x, const few_side *side, weft_kval k0, int depth, bool whole) {
    weft_kernel *k = x->k;
    const weft_wave_unit *u = x->unit;
    int run = u->parts * u->part_lanes;
    weft_kval own = u->depth == run ? index_of(x, 0) : weft_k_times(k, x->group, run);
    weft_kval last = weft_k_plus(k, weft_k_extent(k, side->extent), -1), end = weft_k_extent(k, x->s->depth);
    for (int f = 0; f < side->fragments; f++)
        for (int part = 0; part < u->parts; part++) {
            weft_kval row = weft_k_add(k, side->first, weft_k_plus(k, x->line, (int64_t)f * SIZE));
            weft_kval start = weft_k_add(k, side->origin, weft_k_mul(k, weft_k_min(k, row, last), side->pitch));
            weft_kval kk = weft_k_plus(k, weft_k_add(k, k0, own), (int64_t)depth * u->depth + part * u->part_lanes);
            weft_kval at = whole ? kk : weft_k_min(k, kk, weft_k_plus(k, end, -u->part_lanes));
            weft_kval value =
                weft_k_load(k, side->buffer, weft_k_add(k, start, at), u->part_lanes, WEFT_KNONE, WEFT_KNONE);
            if (!k->failed) k->instrs[value].align_bytes = 16;
            if (!whole)
                value = weft_k_select(k, weft_k_lt(k, kk, end), value,
                                      weft_k_constant_lanes(k, x->dtype, 0, u->part_lanes));
            weft_k_set_reg(k, side->regs, (depth * side->fragments + f) * u->parts + part, value);
        }
}

static void multiply(const few *x, int depth) {
    const few_side *a = &x->side[0], *b = &x->side[1];
    int parts = x->unit->parts;
    for (int i = 0; i < a->fragments; i++)
        for (int j = 0; j < b->fragments; j++) { /* a of the unit is side 1: see mma_wave.h */
            weft_kval operands[6] = {x->d,    index_of(x, (int64_t)i * b->fragments + j),
                                     b->regs, index_of(x, ((int64_t)depth * b->fragments + j) * parts),
                                     a->regs, index_of(x, ((int64_t)depth * a->fragments + i) * parts)};
            weft_k_effect(x->k, WEFT_K_mma, 6, operands, x->unit_id, 0);
        }
}

static void emit_loop(const few *x) {
    weft_kernel *k = x->k;
    int run = DEPTHS * x->unit->depth, step = run * x->waves;
    bool whole = weft_dim_divisor(k->dims, x->s->depth) % step == 0;
    weft_kval steps = weft_k_extent(k, weft_dim_divide_ceil(k->dims, x->s->depth, step));
    weft_kval turn = weft_k_for(k, index_of(x, 0), steps, index_of(x, 1), 0);
    weft_kval k0 = weft_k_times(k, weft_k_add(k, weft_k_times(k, turn, x->waves), x->wave), run);
    for (int depth = 0; depth < DEPTHS; depth++)
        for (int number = 0; number < 2; number++) load_fragments(x, &x->side[number], k0, depth, whole);
    for (int depth = 0; depth < DEPTHS; depth++) multiply(x, depth);
    weft_k_end(k);
}

/* -- results */

/* Where four neighbours `quad` of row `line` of a fragment lie: rows of 16, whose quads change places by the row, so
   that neither lanes of one quad nor lanes of one row meet in a bank. */
static weft_kval quad_at(const few *x, weft_kval line, weft_kval quad) {
    weft_kernel *k = x->k;
    weft_kval turn = weft_k_bits(k, weft_k_binary(k, WEFT_K_shr, line, index_of(x, 1)), 3);
    return weft_k_add(k, weft_k_times(k, line, SIZE), weft_k_times(k, weft_k_xor(k, quad, turn), 4));
}

static void store_shared(const few *x, weft_kval at, weft_kval value, int align_bytes) {
    weft_k_store(x->k, x->shared, at, WEFT_KNONE, value);
    if (!x->k->failed) x->k->instrs[x->k->instr_count - 1].align_bytes = align_bytes;
}

/* Fragments as [row of A, row of B], of every wavefront. A lane has fours of neighbours, on gfx11 every other one. */
static void keep_sums(const few *x) {
    weft_kernel *k = x->k;
    const weft_wave_unit *u = x->unit;
    weft_kval own = weft_k_times(k, x->wave, (int64_t)x->fragments * FRAGMENT);
    int step = u->spread == WEFT_SPREAD_TURNS ? 2 : 4; /* sums of a quad */
    for (int f = 0; f < x->fragments; f++) {
        weft_kval sums = weft_k_reg(k, x->d, f), start = weft_k_plus(k, own, (int64_t)f * FRAGMENT);
        for (int i = 0; i < u->sums; i += step) {
            weft_kval first = index_of(x, i / step); /* quad */
            if (u->spread == WEFT_SPREAD_FOURS) first = x->group;
            if (u->spread == WEFT_SPREAD_EIGHTS) first = weft_k_plus(k, weft_k_times(k, x->group, 2), i / step);
            weft_kval at = weft_k_add(k, start, quad_at(x, x->line, first));
            if (step == 4) {
                weft_kval four = weft_k_splat(k, weft_k_extract(k, sums, i), 4);
                for (int e = 1; e < 4; e++) four = weft_k_insert(k, four, e, weft_k_extract(k, sums, i + e));
                store_shared(x, at, four, 16);
                continue;
            }
            for (int e = 0; e < 2; e++)
                store_shared(x, weft_k_plus(k, weft_k_add(k, at, x->group), 2 * e), weft_k_extract(k, sums, i + e), 4);
        }
    }
}

/* Four neighbours of a row a thread. */
static void store_sums(const few *x) {
    enum { QUADS = FRAGMENT / 4 };
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    weft_kval m = weft_k_extent(k, s->m), n = weft_k_extent(k, s->n);
    weft_kval f = weft_k_div(k, s->thread, index_of(x, QUADS)), quad = weft_k_rem(k, s->thread, index_of(x, QUADS));
    weft_kval line = weft_k_div(k, quad, index_of(x, 4)), own = weft_k_rem(k, quad, index_of(x, 4)),
              four = weft_k_times(k, own, 4);
    weft_kval at = weft_k_add(k, weft_k_times(k, f, FRAGMENT), quad_at(x, line, own));
    weft_k_if(k, weft_k_lt(k, s->thread, index_of(x, x->fragments * QUADS)));
    weft_kval total = WEFT_KNONE;
    for (int wave = 0; wave < x->waves; wave++) {
        weft_kval sums = weft_k_load(k, x->shared, weft_k_plus(k, at, (int64_t)wave * x->fragments * FRAGMENT), 4,
                                     WEFT_KNONE, WEFT_KNONE);
        if (!k->failed) k->instrs[sums].align_bytes = 16;
        total = wave ? weft_k_add(k, total, sums) : sums;
    }
    weft_kval across = index_of(x, x->side[1].fragments);
    weft_kval row = weft_k_add(k, s->m0, weft_k_add(k, weft_k_times(k, weft_k_div(k, f, across), SIZE), line));
    weft_kval column = weft_k_add(k, s->n0, weft_k_add(k, weft_k_times(k, weft_k_rem(k, f, across), SIZE), four));
    weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
    weft_lane_index range = weft_lane_range(column, 4);
    weft_kval mask = weft_dim_divisor(k->dims, s->n) % 4 == 0 ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
    s->store(s, row, range, mask, total);
    weft_k_end(k);
    weft_k_end(k);
}

/* -- the kernel */

weft_status weft_mma_wave_few_emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) {
    const weft_schedule *schedule = s->request->schedule;
    const weft_capability *capability = s->request->capability;
    weft_kernel *k = s->k;
    few x = {.s = s, .k = k, .dtype = dtype, .bytes = weft_dtype_bits(dtype) / 8, .waves = THREADS / capability->warp};
    x.unit_id = weft_wave_unit_find(capability, dtype, SIZE);
    x.unit = weft_wave_unit_get(x.unit_id);
    s->bm = schedule->tile_m, s->bn = schedule->tile_n;
    bool good = x.unit && s->bm % SIZE == 0 && s->bn % SIZE == 0 && s->bm <= ROWS_MAX && s->bn <= ROWS_MAX;
    if (!good || schedule->threads != THREADS || s->place || !s->along_k[0] || !s->along_k[1])
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s: schedule %dx%d of few rows", s->request->name, s->bm, s->bn);
    k->threads = THREADS;
    x.fragments = s->bm / SIZE * (s->bn / SIZE);
    for (int number = 0; number < 2; number++) place_side(&x, number, &sides[number]);
    weft_simt_place(s, schedule->raster > 0 ? schedule->raster : 8);
    for (int number = 0; number < 2; number++) start_side(&x, number, &sides[number]);
    weft_kval lane = weft_k_rem(k, s->thread, index_of(&x, x.unit->lanes));
    x.wave = weft_k_div(k, s->thread, index_of(&x, x.unit->lanes));
    x.line = weft_k_rem(k, lane, index_of(&x, SIZE)), x.group = weft_k_div(k, lane, index_of(&x, SIZE));
    x.shared = weft_k_shared(k, x.unit->sum, (weft_dim)x.waves * x.fragments * FRAGMENT);
    x.d = weft_k_regs(k, x.unit->sum, x.unit->sums, x.fragments);
    for (int f = 0; f < x.fragments; f++)
        weft_k_set_reg(k, x.d, f, weft_k_constant_lanes(k, x.unit->sum, 0, x.unit->sums));
    emit_loop(&x);
    keep_sums(&x);
    weft_k_barrier(k);
    store_sums(&x);
    return NULL;
}
