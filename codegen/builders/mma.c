/* See mma.h. Letters: q = a quarter of a stage, 32 bytes of k, one multiplication deep; wm x wn = the outputs of a
   warp, mi fragments of 16 rows, ni of 8 columns. A stage of a side is tile * 128 bytes; a chunk is 16 of them. */
#include "codegen/builders/mma.h"

#include "codegen/builders/mma_wave.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/raster.h"
#include "codegen/tile/ring.h"

enum { ROW_BYTES = 128, QUARTERS = 4, PARTS = 3 /* of a stage's fetches: one a quarter, none in the last */ };

typedef enum fetch_kind {
    FETCH_COPY,   /* asynchronous copies along the rows of memory, which are the rows of shared memory */
    FETCH_TURNED, /* asynchronous copies of single 4-byte elements, which turns a side to run along k */
    FETCH_EACH    /* element by element */
} fetch_kind;

typedef struct mma_side {
    fetch_kind kind;
    bool along_k;            /* rows of shared memory run along k */
    int tile;                /* rows of the problem in a block */
    int chunks;              /* of 16 bytes, or elements when turned, that one thread fetches in a stage */
    int step;                /* rows of memory between them */
    int piece;               /* bytes of one copy */
    int base;                /* byte in a stage */
    weft_kval row, k, at;    /* of this thread's first chunk: row of the tile; k and byte in the stage's part */
    weft_kval cursor;        /* its element in memory at k = 0 */
    weft_kval fragment;      /* byte of this lane's row of fragment 0, quarter 0 */
    weft_kval buffer, words; /* words: regs of chunks under way, FETCH_EACH */
    weft_dim pitch, extent;
    int64_t period;
} mma_side;

typedef struct mma {
    weft_simt *s;
    weft_kernel *k;
    weft_dtype dtype;
    int bytes, bk, threads, warps_n, wm, wn, mi, ni, stages, stage_bytes;
    mma_side side[2];
    weft_kval shared, read_slot, write_slot;
    weft_kval lane, warp_m, warp_n;
    weft_kval a, b, d; /* regs: two sets of fragments; sums */
    weft_kval sums,
        scales; /* of blocks of k that have scales: regs: all sums; scales of the rows, then of the columns */
} mma;

static weft_kval index_of(const mma *x, int64_t value) { return weft_k_index(x->k, value); }
static weft_kval plus(const mma *x, weft_kval a, weft_kval b) { return weft_k_add(x->k, a, b); }
static weft_kval times(const mma *x, weft_kval a, int64_t b) { return weft_k_mul(x->k, a, index_of(x, b)); }
static weft_kval bits(const mma *x, weft_kval a, int64_t mask) { return weft_k_and(x->k, a, index_of(x, mask)); }
static weft_kval over(const mma *x, weft_kval a, int64_t b) { return weft_k_div(x->k, a, index_of(x, b)); }

bool weft_mma_takes(const weft_capability *capability, weft_dtype dtype, weft_dtype sum) {
    if (capability->cores) return weft_mma_wave_takes(capability, dtype, sum);
    if (sum != WEFT_F32 || !capability->mma_sync || !capability->ldmatrix || !capability->copy_async ||
        capability->warp != 32)
        return false;
    return dtype == WEFT_BF16 || dtype == WEFT_F16 || (dtype == WEFT_F32 && capability->relax_f32);
}

/* -- schedules */

typedef struct tile_choice {
    int bm, bn, threads, stages;
    double efficiency;
} tile_choice;

static const tile_choice choices[] = {{128, 128, 128, 3, 0.95}, {128, 256, 256, 3, 1.0},  {128, 256, 256, 4, 0.99},
                                      {256, 128, 256, 4, 0.98}, {128, 128, 256, 3, 0.85}, {64, 128, 128, 4, 0.75},
                                      {64, 64, 128, 4, 0.55}};
enum { CHOICES = sizeof choices / sizeof *choices };

static int64_t shared_bytes(const tile_choice *c) {
    int64_t ring = (int64_t)c->stages * (c->bm + c->bn) * ROW_BYTES, sums = (int64_t)c->bm * (c->bn + 8) * 4;
    return ring > sums ? ring : sums;
}

static int64_t sample(weft_dim extent, int64_t otherwise) { return weft_dim_is_number(extent) ? extent : otherwise; }

/* Time of all tiles in units of one full-rate tile of 64 x 64, blocks of a multiprocessor sharing it. */
static double cost_of(const weft_capability *capability, const tile_choice *c, int64_t m, int64_t n, int64_t batch) {
    int64_t tiles = (m + c->bm - 1) / c->bm * ((n + c->bn - 1) / c->bn) * batch;
    int64_t resident = capability->shared_bytes / shared_bytes(c), threads = 512 / c->threads;
    if (resident > threads) resident = threads;
    int64_t at_once = capability->multiprocessors * resident, whole = tiles / at_once, rest = tiles % at_once;
    int64_t last = (rest + capability->multiprocessors - 1) / capability->multiprocessors;
    /* fewer than 8 warps leave the unit waiting for fragments */
    double full = (double)c->bm * c->bn / 4096 / c->efficiency,
           alone = (double)(last * c->threads) < 256 ? 256.0 / (double)(last * c->threads) : 1;
    if (alone > 1.5) alone = 1.5;
    return (double)(whole * resident) * full + (rest ? (double)last * full * alone : 0);
}

/* Bytes that one asynchronous copy of a side may have; 0: none. */
int weft_mma_piece(const weft_dim_table *dims, const weft_mma_side *side, int bytes) {
    int64_t known = side->operand < 0 ? 1 : weft_dim_divisor(dims, side->pitch) * bytes;
    return known % 16 == 0 ? 16 : known % 8 == 0 ? 8 : known % 4 == 0 ? 4 : 0;
}

int weft_mma_propose(const weft_build_request *request, const char *name, weft_dim m, weft_dim n, weft_dim batch,
                     weft_dtype dtype, const weft_mma_side sides[2], int capacity, weft_schedule *out_schedules) {
    const weft_capability *capability = request->capability;
    if (capability->cores)
        return weft_mma_wave_propose(request, name, m, n, batch, dtype, sides, capacity, out_schedules);
    bool copied = true; /* else elements pass through registers, which the largest tiles of a warp have not */
    for (int i = 0; i < 2; i++)
        copied = copied && weft_mma_piece(request->graph->dims, &sides[i], weft_dtype_bits(dtype) / 8);
    double cost[CHOICES];
    int order[CHOICES], count = 0;
    for (int i = 0; i < CHOICES; i++) {
        if (shared_bytes(&choices[i]) > capability->shared_bytes) continue;
        if (!copied && choices[i].bm * choices[i].bn / choices[i].threads > 64) continue;
        cost[i] = cost_of(capability, &choices[i], sample(m, 1024), sample(n, 1024), sample(batch, 1));
        int at = count++;
        for (; at > 0 && cost[order[at - 1]] > cost[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (count > capacity) count = capacity;
    for (int i = 0; i < count; i++) {
        const tile_choice *c = &choices[order[i]];
        out_schedules[i] = (weft_schedule){.builder = name,
                                           .tile_m = c->bm,
                                           .tile_n = c->bn,
                                           .tile_k = ROW_BYTES,
                                           .threads = c->threads,
                                           .stages = c->stages,
                                           .raster = 8};
    }
    return count;
}

/* -- filling a stage */

static weft_kval first_row(const mma *x, int number) { return number ? x->s->n0 : x->s->m0; }

/* Byte of 16-byte column `column` of row `row` in a side's part of a stage. */
static weft_kval swizzled(const mma *x, weft_kval row, weft_kval column) {
    return plus(x, times(x, row, ROW_BYTES), times(x, weft_k_xor(x->k, column, bits(x, row, 7)), 16));
}

/* Where this thread's chunks lie: chunk i is `step` rows of memory below chunk i - 1; steps are multiples of 8, so that
   all lie in the same swizzled column (turned: step elements of k on). */
static void place_chunks(mma *x, int number) {
    mma_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval thread = x->s->thread;
    int lanes = 16 / x->bytes, across = side->kind == FETCH_TURNED ? side->tile
                                        : side->along_k            ? 8
                                                                   : side->tile / lanes;
    weft_kval column = weft_k_rem(k, thread, index_of(x, across)), line = over(x, thread, across);
    side->step = x->threads / across;
    if (side->kind == FETCH_TURNED) { /* line: of k, below 4 */
        side->row = column, side->k = line;
        side->at = plus(x, swizzled(x, column, index_of(x, 0)), times(x, line, 4));
    } else if (side->along_k) {
        side->row = line, side->k = times(x, column, lanes);
        side->at = swizzled(x, line, column);
    } else {
        side->row = times(x, column, lanes), side->k = line;
        side->at =
            plus(x, times(x, over(x, column, 8), (int64_t)x->bk * ROW_BYTES), swizzled(x, line, bits(x, column, 7)));
    }
    weft_kval row = plus(x, first_row(x, number), side->row), pitch = weft_k_extent(k, side->pitch);
    bool runs_k = x->s->along_k[number];
    side->cursor = runs_k ? plus(x, weft_k_mul(k, row, pitch), side->k) : plus(x, weft_k_mul(k, side->k, pitch), row);
    if (x->s->place) side->cursor = plus(x, side->cursor, runs_k ? x->s->k_first : weft_k_mul(k, x->s->k_first, pitch));
    weft_kval lines = weft_k_extent(k, runs_k ? side->extent : x->s->depth);
    if (x->s->batch == 1 || side->period == 1) return;
    weft_kval batch = side->period ? weft_k_rem(k, x->s->batch_index, index_of(x, side->period)) : x->s->batch_index;
    side->cursor = plus(x, side->cursor, weft_k_mul(k, batch, weft_k_mul(k, lines, pitch)));
}

static weft_kval row_of(const mma *x, int number, int i) {
    const mma_side *side = &x->side[number];
    bool moves = side->along_k && side->kind != FETCH_TURNED;
    return plus(x, first_row(x, number), moves ? plus(x, side->row, index_of(x, (int64_t)i * side->step)) : side->row);
}

static weft_kval k_of(const mma *x, int number, int i, weft_kval k0) {
    const mma_side *side = &x->side[number];
    bool moves = !side->along_k || side->kind == FETCH_TURNED;
    weft_kval k = plus(x, k0, side->k);
    return moves ? plus(x, k, index_of(x, (int64_t)i * side->step)) : k;
}

/* Byte of chunk i in shared memory. */
static weft_kval chunk_at(const mma *x, int number, int i, weft_kval slot) {
    const mma_side *side = &x->side[number];
    weft_kval at = plus(x, times(x, slot, x->stage_bytes), plus(x, side->at, index_of(x, side->base)));
    int on = i * side->step;
    if (side->kind != FETCH_TURNED) return plus(x, at, index_of(x, (int64_t)on * ROW_BYTES));
    return plus(x, weft_k_xor(x->k, at, index_of(x, on / 4 * 16)), index_of(x, on % 4 * 4));
}

/* Copies of a chunk, piece by piece: what is outside of the problem becomes zero. */
static void copy_chunk(const mma *x, int number, int i, weft_kval slot, weft_kval k0) {
    const mma_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval row = row_of(x, number, i), kk = k_of(x, number, i, k0), pitch = weft_k_extent(k, side->pitch);
    weft_kval extent = weft_simt_rows(x->s, number), depth = weft_simt_depth(x->s);
    bool runs_k = x->s->along_k[number];
    weft_kval line = runs_k ? row : kk, along = runs_k ? kk : row, lines = runs_k ? extent : depth,
              width = runs_k ? depth : extent;
    weft_kval exists = weft_k_lt(k, line, lines), to = chunk_at(x, number, i, slot);
    weft_kval from = plus(x, side->cursor, runs_k ? k0 : weft_k_mul(k, k0, pitch));
    from = plus(x, from, weft_k_mul(k, index_of(x, (int64_t)i * side->step), pitch));
    int pieces = side->kind == FETCH_TURNED ? 1 : 16 / side->piece, elements = side->piece / x->bytes;
    for (int j = 0; j < pieces; j++) {
        weft_kval by = index_of(x, (int64_t)j * elements), inside = weft_k_lt(k, plus(x, along, by), width);
        weft_kval operands[5] = {x->shared, plus(x, to, index_of(x, (int64_t)j * side->piece)), side->buffer,
                                 plus(x, from, by), weft_k_and(k, exists, inside)};
        weft_k_effect(k, WEFT_K_copy_async, 5, operands, side->piece, 0);
    }
}

/* An element of a side in the unit's form, as f32; 0 outside of the problem. */
static weft_kval element(const mma *x, int number, weft_kval row, weft_kval kk) {
    return weft_simt_element(x->s, number, row, kk, WEFT_F32);
}

/* A chunk's elements into its four words; `place` is where its registers are. */
static void read_chunk(const mma *x, int number, int i, int place, weft_kval k0) {
    const mma_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval row = row_of(x, number, i), kk = k_of(x, number, i, k0);
    int lanes = 4 / x->bytes; /* of a word */
    bool fours = side->along_k && x->s->along_k[number] && x->s->wide[number] && lanes == 2 && !x->s->place;
    weft_kval four = WEFT_KNONE;
    for (int word = 0; word < 4; word++) {
        weft_kval value[2], packed;
        if (fours && word % 2 == 0)
            four = weft_simt_four(x->s, number, row, plus(x, kk, index_of(x, 2 * word)), WEFT_F32);
        for (int lane = 0; lane < lanes; lane++) {
            weft_kval by = index_of(x, word * lanes + lane);
            value[lane] = fours           ? weft_k_extract(k, four, word % 2 * 2 + lane)
                          : side->along_k ? element(x, number, row, plus(x, kk, by))
                                          : element(x, number, plus(x, row, by), kk);
        }
        if (lanes == 2)
            packed = weft_kernel_emit(k, WEFT_K_pack, weft_kvector(WEFT_U32, 1), 2, value, x->dtype, 0);
        else
            packed = weft_k_bitcast(k, value[0], WEFT_U32);
        weft_k_set_at(k, side->words, index_of(x, 4 * place + word), packed);
    }
}

static void keep_chunk(const mma *x, int number, int i, int place, weft_kval slot) {
    const mma_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval at = over(x, chunk_at(x, number, i, slot), 4), value = WEFT_KNONE;
    for (int word = 0; word < 4; word++) {
        weft_kval one = weft_k_get_at(k, side->words, index_of(x, 4 * place + word));
        value = word ? weft_k_insert(k, value, word, one) : weft_k_splat(k, one, 4);
    }
    weft_k_store(k, x->shared, at, WEFT_KNONE, value);
    if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 16;
}

/* Part `part` of the fetches for the stage at k0; keeps false: what goes through registers is stored by keep_part. */
static void fetch_part(const mma *x, int part, weft_kval slot, weft_kval k0) {
    for (int number = 0; number < 2; number++) {
        const mma_side *side = &x->side[number];
        for (int i = part, place = 0; i < side->chunks; i += PARTS, place++) {
            size_t mark = weft_index_mark(x->s->index);
            if (side->kind == FETCH_EACH)
                read_chunk(x, number, i, place, k0);
            else
                copy_chunk(x, number, i, slot, k0);
            weft_index_release(x->s->index, mark);
        }
    }
}

static void keep_part(const mma *x, int part, weft_kval slot) {
    for (int number = 0; number < 2; number++)
        for (int i = part, place = 0; x->side[number].kind == FETCH_EACH && i < x->side[number].chunks;
             i += PARTS, place++)
            keep_chunk(x, number, i, place, slot);
}

/* -- multiplying a stage */

/* Byte of this lane's row of fragment 0 (16 rows by 32 bytes of k), quarter 0, in a side's part of a stage. A side:
   ldmatrix gives (rows 0-7, k 0), (rows 8-15, k 0), (rows 0-7, k 1), (rows 8-15, k 1) with k in halves of a quarter; B:
   columns 0-7 with both halves, then columns 8-15. */
static void place_fragments(mma *x, int number) {
    mma_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval first = number ? times(x, x->warp_n, x->wn) : times(x, x->warp_m, x->wm);
    weft_kval low = bits(x, x->lane, 7), eight = bits(x, over(x, x->lane, 8), 1), sixteen = over(x, x->lane, 16);
    weft_kval half = number ? sixteen : eight, k_half = number ? eight : sixteen;
    if (side->along_k) {
        weft_kval row = plus(x, plus(x, first, times(x, half, 8)), low);
        side->fragment = plus(x, times(x, row, ROW_BYTES), times(x, weft_k_xor(k, k_half, low), 16));
        return;
    }
    weft_kval depth = plus(x, times(x, k_half, 8), low), column = plus(x, bits(x, over(x, first, 8), 7), half);
    side->fragment =
        plus(x, plus(x, times(x, over(x, first, 64), (int64_t)x->bk * ROW_BYTES), times(x, depth, ROW_BYTES)),
             times(x, weft_k_xor(k, column, low), 16));
}

/* Fragment `block` of quarter q. What moves along a row of shared memory is an XOR of its column, 32 bytes at a time;
   what moves from row to row is an addition. */
static weft_kval fragment_at(const mma *x, int number, weft_kval stage, int block, int q) {
    const mma_side *side = &x->side[number];
    int flip = side->along_k ? q : block, rows = 16 * (side->along_k ? block : q);
    weft_kval at = plus(x, stage, plus(x, side->fragment, index_of(x, side->base)));
    return plus(x, weft_k_xor(x->k, at, index_of(x, 32 * flip)), index_of(x, (int64_t)rows * ROW_BYTES));
}

static void load_fragments(const mma *x, int q, int set) {
    weft_kernel *k = x->k;
    weft_kval stage = times(x, weft_k_get(k, x->read_slot), x->stage_bytes);
    for (int number = 0; number < 2; number++) {
        weft_kval regs = number ? x->b : x->a;
        int blocks = (number ? x->wn : x->wm) / 16;
        int form = WEFT_FRAGMENT_X4 | (x->side[number].along_k ? 0 : WEFT_FRAGMENT_TRANSPOSED);
        for (int block = 0; block < blocks; block++) {
            weft_kval operands[4] = {regs, index_of(x, 4 * (set * blocks + block)), x->shared,
                                     fragment_at(x, number, stage, block, q)};
            weft_k_effect(k, WEFT_K_frag_load, 4, operands, form, 0);
        }
    }
}

static void multiply(const mma *x, int set) {
    weft_matrix_unit unit = x->dtype == WEFT_BF16  ? WEFT_MMA_M16N8K16_BF16
                            : x->dtype == WEFT_F16 ? WEFT_MMA_M16N8K16_F16
                                                   : WEFT_MMA_M16N8K8_TF32;
    for (int i = 0; i < x->mi; i++)
        for (int j = 0; j < x->ni; j++) {
            weft_kval operands[6] = {x->d, index_of(x, 4 * (i * x->ni + j)),  x->a, index_of(x, 4 * (set * x->mi + i)),
                                     x->b, index_of(x, 2 * (set * x->ni + j))};
            weft_k_effect(x->k, WEFT_K_mma, 6, operands, unit, 0);
        }
}

static weft_kval next_slot(const mma *x, weft_kval slot) {
    weft_kval next = plus(x, slot, index_of(x, 1));
    return weft_k_select(x->k, weft_k_eq(x->k, next, index_of(x, x->stages)), index_of(x, 0), next);
}

/* The next stage is complete and everybody has read the last of this one. */
static void turn_stage(const mma *x) {
    weft_kernel *k = x->k;
    weft_k_effect(k, WEFT_K_copy_commit, 0, NULL, 0, 0);
    weft_k_effect(k, WEFT_K_copy_wait, 0, NULL, x->stages - 2, 0);
    weft_k_barrier(k);
    weft_k_set(k, x->read_slot, next_slot(x, weft_k_get(k, x->read_slot)));
    weft_k_set(k, x->write_slot, next_slot(x, weft_k_get(k, x->write_slot)));
}

/* -- blocks of k with scales: their sums are added up outside of the unit's */

/* Is this the last step of a block? */
static weft_kval ends_block(const mma *x, weft_kval step, weft_kval steps) {
    weft_kernel *k = x->k;
    weft_kval next = plus(x, step, index_of(x, 1)), per = index_of(x, x->s->scale_depth / x->bk);
    return weft_k_or(k, weft_k_eq(k, weft_k_rem(k, next, per), index_of(x, 0)), weft_k_eq(k, next, steps));
}

/* Row i of this lane, of 2 * mi. */
static weft_kval lane_row(const mma *x, int i) {
    weft_kval first = plus(x, x->s->m0, times(x, x->warp_m, x->wm));
    return plus(x, plus(x, first, over(x, x->lane, 4)), index_of(x, 8 * i));
}

static void load_scales(const mma *x, weft_kval step) {
    weft_kval block = over(x, step, x->s->scale_depth / x->bk);
    for (int i = 0; i < 2 * x->mi; i++)
        weft_k_set_at(x->k, x->scales, index_of(x, i), x->s->scale(x->s, 0, lane_row(x, i), block));
    weft_k_set_at(x->k, x->scales, index_of(x, 2 * x->mi), x->s->scale(x->s, 1, x->s->n0, block));
}

static void add_block(const mma *x) {
    weft_kernel *k = x->k;
    weft_kval column = weft_k_get_at(k, x->scales, index_of(x, 2 * x->mi)),
              zero = weft_k_constant_lanes(k, WEFT_F32, 0, 1);
    for (int i = 0; i < 2 * x->mi; i++) {
        weft_kval scale = weft_k_mul(k, weft_k_get_at(k, x->scales, index_of(x, i)), column);
        for (int j = 0; j < 2 * x->ni; j++) { /* pairs of columns of both rows of a fragment */
            weft_kval at = index_of(x, 4 * (i / 2 * x->ni + j / 2) + 2 * (i % 2) + j % 2);
            weft_kval sum = weft_k_mad(k, weft_k_get_at(k, x->d, at), scale, weft_k_get_at(k, x->sums, at));
            weft_k_set_at(k, x->sums, at, sum);
            weft_k_set_at(k, x->d, at, zero);
        }
    }
}

static void emit_loop(mma *x) {
    weft_kernel *k = x->k;
    weft_kval zero = index_of(x, 0), steps = weft_simt_steps(x->s, x->bk);
    for (int stage = 0; stage < x->stages - 1; stage++) {
        for (int part = 0; part < PARTS; part++) {
            fetch_part(x, part, index_of(x, stage), index_of(x, (int64_t)stage * x->bk));
            keep_part(x, part, index_of(x, stage));
        }
        weft_k_effect(k, WEFT_K_copy_commit, 0, NULL, 0, 0);
    }
    x->read_slot = weft_k_var(k, zero), x->write_slot = weft_k_var(k, index_of(x, x->stages - 1));
    weft_k_effect(k, WEFT_K_copy_wait, 0, NULL, x->stages - 2, 0);
    weft_k_barrier(k);
    load_fragments(x, 0, 0);
    weft_kval step = weft_k_for(k, zero, steps, index_of(x, 1), 0);
    size_t mark = weft_index_mark(x->s->index);
    weft_kval k0 = times(x, plus(x, step, index_of(x, x->stages - 1)), x->bk), slot = weft_k_get(k, x->write_slot);
    weft_kval ends = x->s->scale_depth ? ends_block(x, step, steps) : WEFT_KNONE;
    if (ends != WEFT_KNONE) {
        weft_k_if(k, ends);
        load_scales(x, step); /* under way while the step's products are made */
        weft_k_end(k);
    }
    for (int q = 0; q < QUARTERS; q++) {
        if (q < PARTS)
            fetch_part(x, q, slot, k0); /* past the end: zeros that nobody multiplies */
        else
            turn_stage(x);
        load_fragments(x, (q + 1) % QUARTERS, (q + 1) % 2);
        multiply(x, q % 2);
        if (q < PARTS) keep_part(x, q, slot);
    }
    if (ends != WEFT_KNONE) {
        weft_k_if(k, ends);
        add_block(x);
        weft_k_end(k);
    }
    weft_index_release(x->s->index, mark);
    weft_k_end(k);
    if (ends != WEFT_KNONE) x->d = x->sums;
    weft_k_effect(k, WEFT_K_copy_wait, 0, NULL, 0, 0);
    weft_k_barrier(k);
}

/* -- results */

/* Sums to shared memory, rows 8 words longer than a tile: neither side of the exchange meets a bank twice. */
static void stage_sums(const mma *x, int pitch) {
    weft_kernel *k = x->k;
    weft_kval row = plus(x, times(x, x->warp_m, x->wm), over(x, x->lane, 4)),
              column = plus(x, times(x, x->warp_n, x->wn), times(x, bits(x, x->lane, 3), 2));
    weft_kval corner = plus(x, times(x, row, pitch), column);
    for (int i = 0; i < x->mi; i++)
        for (int j = 0; j < x->ni; j++)
            for (int half = 0; half < 2; half++) {
                int reg = 4 * (i * x->ni + j) + 2 * half;
                weft_kval low = weft_k_get_at(k, x->d, index_of(x, reg)),
                          high = weft_k_get_at(k, x->d, index_of(x, reg + 1));
                weft_kval pair = weft_k_bitcast(k, weft_k_insert(k, weft_k_splat(k, low, 2), 1, high), WEFT_U32);
                weft_k_store(k, x->shared, plus(x, corner, index_of(x, (int64_t)(16 * i + 8 * half) * pitch + 8 * j)),
                             WEFT_KNONE, pair);
                if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 8;
            }
    weft_k_barrier(k);
}

static void emit_stores(const mma *x) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    int pitch = s->bn + 8, quads = s->bn / 4, rows = x->threads / quads;
    stage_sums(x, pitch);
    weft_kval m = weft_simt_rows(s, 0), n = weft_k_extent(k, s->n);
    weft_kval line = over(x, s->thread, quads), quad = times(x, weft_k_rem(k, s->thread, index_of(x, quads)), 4);
    weft_kval column = plus(x, s->n0, quad);
    weft_kval base = weft_k_for(k, index_of(x, 0), index_of(x, s->bm), index_of(x, rows), 2);
    size_t mark = weft_index_mark(s->index);
    weft_kval own = plus(x, base, line), row = plus(x, s->m0, own);
    weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
    weft_lane_index range = weft_lane_range(column, 4);
    weft_kval mask = weft_dim_divisor(k->dims, s->n) % 4 == 0 ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
    weft_kval sums = weft_k_load(k, x->shared, plus(x, times(x, own, pitch), quad), 4, WEFT_KNONE, WEFT_KNONE);
    if (!k->failed) k->instrs[sums].align_bytes = 16;
    s->store(s, row, range, mask, weft_k_bitcast(k, sums, WEFT_F32));
    weft_k_end(k);
    weft_index_release(s->index, mark);
    weft_k_end(k);
}

/* -- the kernel */

static void prepare_side(mma *x, int number, const weft_mma_side *from) {
    weft_simt *s = x->s;
    mma_side *side = &x->side[number];
    *side = (mma_side){.kind = FETCH_EACH,
                       .along_k = s->along_k[number] || x->bytes == 4,
                       .tile = number ? s->bn : s->bm,
                       .base = number ? s->bm * ROW_BYTES : 0,
                       .buffer = WEFT_KNONE,
                       .words = WEFT_KNONE,
                       .pitch = from->pitch,
                       .period = from->period,
                       .extent = number ? s->n : s->m};
    int piece = weft_mma_piece(x->k->dims, from, x->bytes);
    if (piece) {
        bool turned = side->along_k != s->along_k[number];
        side->kind = turned ? FETCH_TURNED : FETCH_COPY;
        side->piece = turned ? 4 : piece;
        if (s->index->operands[from->operand] == WEFT_KNONE)
            s->index->operands[from->operand] =
                weft_kernel_buffer(x->k, WEFT_ARGUMENT_OPERAND, from->operand, x->dtype, false, number ? "b" : "a");
        side->buffer = s->index->operands[from->operand];
    }
    side->chunks = side->tile * ROW_BYTES / (side->kind == FETCH_TURNED ? 4 : 16) / x->threads;
    if (side->kind == FETCH_EACH)
        side->words = weft_k_regs(x->k, WEFT_U32, 1, 4 * ((side->chunks + PARTS - 1) / PARTS));
}

static weft_status take_schedule(mma *x, const weft_schedule *schedule) {
    weft_simt *s = x->s;
    s->bm = schedule->tile_m, s->bn = schedule->tile_n;
    x->threads = schedule->threads, x->stages = schedule->stages;
    int warps_m = s->bm > 128 ? 4 : 2; /* a warp has 64 rows at most */
    x->warps_n = x->threads / 32 / warps_m;
    x->bk = s->bk = ROW_BYTES / x->bytes;
    bool good = (x->threads == 128 || x->threads == 256) && (s->bm == 64 || s->bm == 128 || s->bm == 256) &&
                (s->bn == 64 || s->bn == 128 || s->bn == 256) && s->bn / x->warps_n % 16 == 0 && x->stages >= 2 &&
                s->bm * 8 % x->threads == 0;
    tile_choice choice = {s->bm, s->bn, x->threads, x->stages, 1};
    if (!good || shared_bytes(&choice) > s->request->capability->shared_bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s: schedule %dx%d, %d threads, %d stages", s->request->name, s->bm,
                           s->bn, x->threads, x->stages);
    x->wm = s->bm / warps_m, x->wn = s->bn / x->warps_n, x->mi = x->wm / 16, x->ni = x->wn / 8;
    x->stage_bytes = (s->bm + s->bn) * ROW_BYTES;
    x->k->threads = x->threads;
    x->k->registers = 65536 / x->threads / (x->threads == 128 ? 2 : 1);
    x->shared = weft_k_shared(x->k, WEFT_U32, shared_bytes(&choice) / 4);
    return NULL;
}

static weft_status emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) {
    const weft_schedule *schedule = s->request->schedule;
    weft_kernel *k = s->k;
    mma x = {.s = s, .k = k, .dtype = dtype, .bytes = weft_dtype_bits(dtype) / 8};
    WEFT_TRY(take_schedule(&x, schedule), "building %s", s->request->name);
    for (int number = 0; number < 2; number++) prepare_side(&x, number, &sides[number]);
    weft_simt_place(s, schedule->raster);
    weft_kval warp = over(&x, s->thread, 32);
    x.lane = bits(&x, s->thread, 31);
    x.warp_m = over(&x, warp, x.warps_n), x.warp_n = weft_k_rem(k, warp, index_of(&x, x.warps_n));
    x.a = weft_k_regs(k, WEFT_U32, 1, 2 * 4 * x.mi), x.b = weft_k_regs(k, WEFT_U32, 1, 2 * 2 * x.ni);
    x.d = weft_k_regs(k, WEFT_F32, 1, 4 * x.mi * x.ni);
    for (int i = 0; i < 4 * x.mi * x.ni; i++)
        weft_k_set_at(k, x.d, index_of(&x, i), weft_k_constant_lanes(k, WEFT_F32, 0, 1));
    if (s->scale_depth) {
        x.sums = weft_k_regs(k, WEFT_F32, 1, 4 * x.mi * x.ni), x.scales = weft_k_regs(k, WEFT_F32, 1, 2 * x.mi + 1);
        for (int i = 0; i < 4 * x.mi * x.ni; i++)
            weft_k_set_at(k, x.sums, index_of(&x, i), weft_k_constant_lanes(k, WEFT_F32, 0, 1));
        for (int i = 0; i < 2 * x.mi + 1; i++)
            weft_k_set_at(k, x.scales, index_of(&x, i), weft_k_constant_lanes(k, WEFT_F32, 0, 1));
    }
    for (int number = 0; number < 2; number++) place_chunks(&x, number), place_fragments(&x, number);
    emit_loop(&x);
    emit_stores(&x);
    return NULL;
}

weft_status weft_mma_emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) {
    if (s->request->capability->cores) return weft_mma_wave_emit(s, dtype, sides);
    weft_status status = emit(s, dtype, sides), finish = weft_index_finish(s->index);
    if (!status) return finish;
    weft_status_release(finish);
    return status;
}
