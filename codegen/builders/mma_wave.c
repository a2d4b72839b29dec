/* See mma_wave.h. Letters: wm x wn = the outputs of a wavefront, mi x ni fragments of the unit's size; q = one depth of
   the unit; L = elements of 16 bytes. */
#include "codegen/builders/mma_wave.h"

#include "codegen/kernel/matrix.h"
#include "codegen/tile/raster.h"
#include "codegen/tile/ring.h"

enum { ROW_BYTES = 64, THREADS = 256, STAGES = 2, APART_BYTES = 16 /* between rows of matrices read whole */ };

typedef enum fetch_kind {
    FETCH_CHUNK,  /* 16 bytes along k at a time */
    FETCH_TURNED, /* blocks of 4 rows by `deep` elements of k, read along the rows */
    FETCH_EACH    /* element by element */
} fetch_kind;

typedef struct wave_side {
    fetch_kind kind;
    int tile;         /* rows of the problem in a block */
    int chunks;       /* of 16 bytes that one thread fetches in a stage (turned: 0) */
    int step;         /* rows (FETCH_EACH across k: columns of chunks) between them */
    int deep;         /* turned: elements of k of this thread's block */
    int piece;        /* bytes of one access to memory */
    int base;         /* element of a stage */
    bool across;      /* FETCH_EACH: neighbouring threads take neighbouring rows */
    weft_kval row, k; /* of this thread's first chunk or block, in the tile */
    weft_kval origin; /* element of memory where the batch starts */
    weft_kval buffer, words;
    weft_dim pitch, extent;
    int64_t period;
} wave_side;

typedef struct wave {
    weft_simt *s;
    weft_kernel *k;
    weft_dtype dtype;
    int64_t unit_id;
    const weft_wave_unit *unit;
    int bytes, lanes_16, wm, wn, mi, ni, pitch, stage; /* pitch, stage: elements of a row at most, of a stage */
    wave_side side[2];
    weft_kval shared, lane, wave_m, wave_n, line, group; /* line, group: lane % size, lane / size */
    weft_kval a, b, d;
    weft_kval sums; /* hidden spreads: a fragment of each wavefront in shared memory */
} wave;

static weft_kval index_of(const wave *x, int64_t value) { return weft_k_index(x->k, value); }
static weft_kval plus(const wave *x, weft_kval a, weft_kval b) { return weft_k_add(x->k, a, b); }
static weft_kval times(const wave *x, weft_kval a, int64_t b) { return weft_k_mul(x->k, a, index_of(x, b)); }
static weft_kval over(const wave *x, weft_kval a, int64_t b) { return weft_k_div(x->k, a, index_of(x, b)); }
static weft_kval modulo(const wave *x, weft_kval a, int64_t b) { return weft_k_rem(x->k, a, index_of(x, b)); }
static weft_kval shifted(const wave *x, weft_kval a, int bits) {
    return weft_k_binary(x->k, WEFT_K_shr, a, index_of(x, bits));
}

/* The unit that every tile can be cut into. */
static int64_t small_unit(const weft_capability *capability, weft_dtype dtype) {
    int64_t unit = weft_wave_unit_find(capability, dtype, 16);
    return unit ? unit : weft_hidden_unit_find(capability, dtype);
}
static bool is_hidden(const weft_wave_unit *unit) { return unit->spread == WEFT_SPREAD_HIDDEN; }

/* Rows that are an odd number of 16 bytes apart in fours of 16 bytes: lanes 8 i ... 8 i + 7, which are served together,
   take rows i and i + 4 of eight and meet no bank twice; i and i + 1 do. */
static weft_kval spread_rows(const wave *x, weft_kval line) {
    weft_kval eighth = modulo(x, line, 8), first = weft_k_sub(x->k, line, eighth);
    return plus(x, first, plus(x, over(x, eighth, 2), times(x, modulo(x, eighth, 2), 4)));
}

bool weft_mma_wave_takes(const weft_capability *capability, weft_dtype dtype, weft_dtype sum) {
    const weft_wave_unit *unit = weft_wave_unit_get(small_unit(capability, dtype));
    return unit && unit->sum == sum && capability->threads_max >= THREADS;
}

/* -- schedules */

typedef struct tile_choice {
    int bm, bn;
    double efficiency;
} tile_choice;

static const tile_choice choices[] = {{128, 128, 1.0}, {128, 64, 0.8}, {64, 64, 0.6}};
enum { CHOICES = sizeof choices / sizeof *choices };

/* Elements from one row to the next of a fragment of sums in shared memory: four more than it has, where there is room,
   so that eight rows meet no bank twice. */
static int sums_pitch(const weft_capability *capability, int bm, int bn) {
    int size = capability->cores == WEFT_CORES_COOPERATIVE8 ? 8 : 16, fragments = THREADS / capability->warp;
    int rows = STAGES * (bm + bn) * (ROW_BYTES + APART_BYTES);
    return size + (rows + fragments * size * (size + 4) * 4 <= capability->shared_bytes ? 4 : 0);
}

/* Rows of both stages, and where the spread is hidden a fragment of sums for each wavefront. */
static int shared_bytes(const weft_capability *capability, int bm, int bn) {
    if (!weft_cores_cooperative(capability->cores)) return STAGES * (bm + bn) * ROW_BYTES;
    int size = capability->cores == WEFT_CORES_COOPERATIVE8 ? 8 : 16, fragments = THREADS / capability->warp;
    return STAGES * (bm + bn) * (ROW_BYTES + APART_BYTES) + fragments * size * sums_pitch(capability, bm, bn) * 4;
}

static int64_t sample(weft_dim extent, int64_t otherwise) { return weft_dim_is_number(extent) ? extent : otherwise; }

/* Rounds of tiles over all processors, two blocks each, by the time of a tile. */
static double cost_of(const weft_capability *capability, const tile_choice *c, int64_t m, int64_t n, int64_t batch) {
    int64_t tiles = (m + c->bm - 1) / c->bm * ((n + c->bn - 1) / c->bn) * batch;
    int64_t at_once = 2 * (int64_t)capability->multiprocessors;
    return (double)((tiles + at_once - 1) / at_once) * c->bm * c->bn / c->efficiency;
}

int weft_mma_wave_propose(const weft_build_request *request, const char *name, weft_dim m, weft_dim n, weft_dim batch,
                          weft_dtype dtype, const weft_mma_side sides[2], int capacity, weft_schedule *out_schedules) {
    double cost[CHOICES];
    int order[CHOICES], count = 0, few = 0;
    if (capacity > 0 && weft_mma_wave_few_takes(request, m, dtype, sides))
        out_schedules[few++] = weft_mma_wave_few_schedule(request, name, m, n, batch);
    capacity -= few, out_schedules += few;
    for (int i = 0; i < CHOICES; i++) {
        if (shared_bytes(request->capability, choices[i].bm, choices[i].bn) > request->capability->shared_bytes)
            continue;
        cost[i] = cost_of(request->capability, &choices[i], sample(m, 1024), sample(n, 1024), sample(batch, 1));
        int at = count++;
        for (; at > 0 && cost[order[at - 1]] > cost[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (count > capacity) count = capacity;
    for (int i = 0; i < count; i++)
        out_schedules[i] = (weft_schedule){.builder = name,
                                           .tile_m = choices[order[i]].bm,
                                           .tile_n = choices[order[i]].bn,
                                           .tile_k = ROW_BYTES,
                                           .threads = THREADS,
                                           .stages = STAGES,
                                           .raster = 8};
    return few + count;
}

/* -- shared memory */

/* Element of a side's part of stage `slot` where element kk of row `row` lies, for matrices read whole. */
static weft_kval place_apart(const wave *x, int number, weft_kval slot, weft_kval row, weft_kval kk) {
    weft_kval start = plus(x, times(x, slot, x->stage), index_of(x, x->side[number].base));
    return plus(x, start, plus(x, times(x, row, x->pitch), kk));
}

/* Element of a side's part of stage `slot` where chunk `chunk` of row `row` lies, for all other units. */
static weft_kval place(const wave *x, int number, weft_kval slot, weft_kval row, weft_kval chunk) {
    weft_kernel *k = x->k;
    weft_kval mixed = weft_k_xor(k, shifted(x, row, 1), shifted(x, row, 3));
    weft_kval column = weft_k_xor(k, chunk, weft_k_and(k, mixed, index_of(x, 3)));
    weft_kval stage = plus(x, times(x, slot, x->stage), index_of(x, x->side[number].base));
    return plus(x, stage, plus(x, times(x, row, x->pitch), times(x, column, x->lanes_16)));
}

static void store_aligned(const wave *x, weft_kval at, weft_kval value, int align_bytes) {
    weft_k_store(x->k, x->shared, at, WEFT_KNONE, value);
    if (!x->k->failed) x->k->instrs[x->k->instr_count - 1].align_bytes = align_bytes;
}

/* -- fetching a stage */

static weft_kval first_row(const wave *x, int number) { return number ? x->s->n0 : x->s->m0; }

/* Lanes [at, at + count) of a vector set to the lanes of another. */
static weft_kval put_lanes(const wave *x, weft_kval into, int at, weft_kval from, int count) {
    for (int i = 0; i < count; i++)
        into = weft_k_insert(x->k, into, at + i, count == 1 ? from : weft_k_extract(x->k, from, i));
    return into;
}

static bool may_be_empty(const wave *x) {
    int64_t least, most;
    weft_dim_bounds(x->k->dims, x->s->depth, &least, &most);
    return least < 1;
}

/* `elements` of memory from `at` on, whose k is kk; 0 where kk lies behind the depth. */
static weft_kval read_piece(const wave *x, const wave_side *side, weft_kval at, weft_kval kk, int elements) {
    weft_kernel *k = x->k;
    bool whole = weft_dim_divisor(k->dims, x->s->depth) % (ROW_BYTES / x->bytes) == 0;
    weft_kval inside = whole ? WEFT_KNONE : weft_k_lt(k, kk, weft_k_extent(k, x->s->depth));
    weft_kval value = weft_k_load(k, side->buffer, at, elements, may_be_empty(x) ? inside : WEFT_KNONE, WEFT_KNONE);
    if (!k->failed) k->instrs[value].align_bytes = elements * x->bytes;
    if (whole) return value;
    return weft_k_select(k, inside, value, weft_k_constant_lanes(k, x->dtype, 0, elements));
}

/* min(value, extent - elements): reads of what does not exist go to the last that does. */
static weft_kval clamped(const wave *x, weft_kval value, weft_dim extent, int elements) {
    weft_kval last = weft_k_sub(x->k, weft_k_extent(x->k, extent), index_of(x, elements));
    return weft_k_min(x->k, value, last);
}

static void fetch_chunks(const wave *x, int number, weft_kval k0) {
    const wave_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval pitch = weft_k_extent(k, side->pitch);
    int elements = side->piece / x->bytes;
    for (int i = 0; i < side->chunks; i++) {
        weft_kval row = plus(x, first_row(x, number), plus(x, side->row, index_of(x, (int64_t)i * side->step)));
        weft_kval start = plus(x, side->origin, weft_k_mul(k, clamped(x, row, side->extent, 1), pitch));
        weft_kval value = weft_k_constant_lanes(k, x->dtype, 0, x->lanes_16);
        for (int j = 0; j < x->lanes_16; j += elements) {
            weft_kval kk = plus(x, plus(x, k0, side->k), index_of(x, j));
            weft_kval piece = read_piece(x, side, plus(x, start, clamped(x, kk, x->s->depth, elements)), kk, elements);
            value = elements == x->lanes_16 ? piece : put_lanes(x, value, j, piece, elements);
        }
        weft_k_set_at(k, side->words, index_of(x, i), value);
    }
}

static void fetch_turned(const wave *x, int number, weft_kval k0) {
    const wave_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval pitch = weft_k_extent(k, side->pitch), row = plus(x, first_row(x, number), side->row);
    int elements = side->piece / x->bytes;
    for (int i = 0; i < side->deep; i++) {
        weft_kval kk = plus(x, plus(x, k0, side->k), index_of(x, i));
        weft_kval start = plus(x, side->origin, weft_k_mul(k, clamped(x, kk, x->s->depth, 1), pitch));
        weft_kval value = weft_k_constant_lanes(k, x->dtype, 0, 4);
        for (int j = 0; j < 4; j += elements) {
            weft_kval at = plus(x, start, clamped(x, plus(x, row, index_of(x, j)), side->extent, elements));
            weft_kval piece = read_piece(x, side, at, kk, elements);
            value = elements == 4 ? piece : put_lanes(x, value, j, piece, elements);
        }
        weft_k_set_at(k, side->words, index_of(x, i), value);
    }
}

/* Row and k (of the stage) of chunk i. */
static void place_chunk(const wave *x, const wave_side *side, int i, weft_kval *out_row, weft_kval *out_k) {
    int64_t on = (int64_t)i * side->step;
    *out_row = side->across ? side->row : plus(x, side->row, index_of(x, on));
    *out_k = side->across ? plus(x, side->k, index_of(x, on * x->lanes_16)) : side->k;
}

static void fetch_each(const wave *x, int number, weft_kval k0) {
    const wave_side *side = &x->side[number];
    weft_kernel *k = x->k;
    for (int i = 0; i < side->chunks; i++) {
        weft_kval row, kk, value = weft_k_constant_lanes(k, x->dtype, 0, x->lanes_16);
        place_chunk(x, side, i, &row, &kk);
        row = plus(x, first_row(x, number), row), kk = plus(x, k0, kk);
        for (int lane = 0; lane < x->lanes_16; lane++) {
            size_t mark = weft_index_mark(x->s->index);
            value = weft_k_insert(k, value, lane,
                                  weft_simt_element(x->s, number, row, plus(x, kk, index_of(x, lane)), x->dtype));
            weft_index_release(x->s->index, mark);
        }
        weft_k_set_at(k, side->words, index_of(x, i), value);
    }
}

static void fetch(const wave *x, weft_kval k0) {
    for (int number = 0; number < 2; number++) {
        if (x->side[number].kind == FETCH_CHUNK)
            fetch_chunks(x, number, k0);
        else if (x->side[number].kind == FETCH_TURNED)
            fetch_turned(x, number, k0);
        else
            fetch_each(x, number, k0);
    }
}

/* -- keeping it in shared memory */

static void keep_turned(const wave *x, int number, weft_kval slot) {
    const wave_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval chunk = over(x, side->k, x->lanes_16), within = modulo(x, side->k, x->lanes_16);
    for (int r = 0; r < 4; r++) {
        weft_kval value = weft_k_constant_lanes(k, x->dtype, 0, side->deep);
        for (int i = 0; i < side->deep; i++) {
            weft_kval one = weft_k_extract(k, weft_k_get_at(k, side->words, index_of(x, i)), r);
            value = side->deep == 1 ? one : weft_k_insert(k, value, i, one);
        }
        weft_kval row = plus(x, side->row, index_of(x, r));
        weft_kval at = is_hidden(x->unit) ? place_apart(x, number, slot, row, side->k)
                                          : plus(x, place(x, number, slot, row, chunk), within);
        store_aligned(x, at, value, side->deep * x->bytes);
    }
}

static void keep(const wave *x, weft_kval slot) {
    for (int number = 0; number < 2; number++) {
        const wave_side *side = &x->side[number];
        if (side->kind == FETCH_TURNED) keep_turned(x, number, slot);
        for (int i = 0; i < side->chunks; i++) {
            weft_kval row, kk;
            place_chunk(x, side, i, &row, &kk);
            weft_kval at = is_hidden(x->unit) ? place_apart(x, number, slot, row, kk)
                                              : place(x, number, slot, row, over(x, kk, x->lanes_16));
            store_aligned(x, at, weft_k_get_at(x->k, side->words, index_of(x, i)), 16);
        }
    }
}

/* -- multiplying a stage */

static void load_fragments(const wave *x, int number, weft_kval slot, int q) {
    const weft_wave_unit *u = x->unit;
    int blocks = number ? x->ni : x->mi, groups = u->depth / (u->parts * u->part_lanes);
    weft_kval first = number ? times(x, x->wave_n, x->wn) : times(x, x->wave_m, x->wm);
    weft_kval group = groups > 1 ? x->group : index_of(x, 0);
    for (int block = 0; block < blocks; block++)
        for (int part = 0; part < u->parts; part++) {
            weft_kval row = plus(x, plus(x, first, x->line), index_of(x, (int64_t)block * u->size));
            weft_kval chunk = plus(x, times(x, group, u->parts), index_of(x, (int64_t)q * groups * u->parts + part));
            weft_kval value =
                weft_k_load(x->k, x->shared, place(x, number, slot, row, chunk), u->part_lanes, WEFT_KNONE, WEFT_KNONE);
            if (!x->k->failed) x->k->instrs[value].align_bytes = 16;
            weft_k_set_at(x->k, number ? x->b : x->a, index_of(x, (int64_t)block * u->parts + part), value);
        }
}

static void load_whole(const wave *x, int number, weft_kval slot, int q) {
    const weft_wave_unit *u = x->unit;
    int64_t form = weft_matrix_place(x->unit_id, number ? WEFT_MATRIX_B : WEFT_MATRIX_A, x->pitch);
    weft_kval first = number ? times(x, x->wave_n, x->wn) : times(x, x->wave_m, x->wm);
    for (int block = 0; block < (number ? x->ni : x->mi); block++) {
        weft_kval row = plus(x, first, index_of(x, (int64_t)block * u->size));
        weft_kval at = place_apart(x, number, slot, row, index_of(x, (int64_t)q * u->depth));
        weft_k_effect(x->k, WEFT_K_matrix_load, 4,
                      (weft_kval[]){number ? x->b : x->a, index_of(x, block), x->shared, at}, form, 0);
    }
}

static void multiply_whole(const wave *x, weft_kval slot) {
    for (int q = 0; q < ROW_BYTES / x->bytes / x->unit->depth; q++) {
        for (int number = 0; number < 2; number++) load_whole(x, number, slot, q);
        for (int i = 0; i < x->mi; i++)
            for (int j = 0; j < x->ni; j++)
                weft_k_effect(x->k, WEFT_K_mma, 6,
                              (weft_kval[]){x->d, index_of(x, (int64_t)i * x->ni + j), x->a, index_of(x, i), x->b,
                                            index_of(x, j)},
                              x->unit_id, 0);
    }
}

static void multiply(const wave *x, weft_kval slot) {
    const weft_wave_unit *u = x->unit;
    if (is_hidden(u)) {
        multiply_whole(x, slot);
        return;
    }
    for (int q = 0; q < ROW_BYTES / x->bytes / u->depth; q++) {
        for (int number = 0; number < 2; number++) load_fragments(x, number, slot, q);
        for (int i = 0; i < x->mi; i++)
            for (int j = 0; j < x->ni; j++) { /* a of the unit is side 1: see mma_wave.h */
                weft_kval operands[6] = {x->d, index_of(x, (int64_t)i * x->ni + j),
                                         x->b, index_of(x, (int64_t)j * u->parts),
                                         x->a, index_of(x, (int64_t)i * u->parts)};
                weft_k_effect(x->k, WEFT_K_mma, 6, operands, x->unit_id, 0);
            }
    }
}

static void emit_loop(const wave *x) {
    weft_kernel *k = x->k;
    weft_kval zero = index_of(x, 0), one = index_of(x, 1);
    int bk = ROW_BYTES / x->bytes;
    weft_kval steps = weft_k_extent(k, weft_dim_divide_ceil(k->dims, x->s->depth, bk));
    fetch(x, zero);
    keep(x, zero);
    weft_kval slot = weft_k_var(k, zero);
    weft_k_barrier(k);
    weft_kval step = weft_k_for(k, zero, steps, one, 0);
    size_t mark = weft_index_mark(x->s->index);
    weft_kval now = weft_k_get(k, slot), other = weft_k_sub(k, one, now), next = plus(x, step, one);
    weft_kval more = weft_k_lt(k, next, steps);
    weft_k_if(k, more);
    size_t inner = weft_index_mark(x->s->index);
    fetch(x, times(x, next, bk));
    weft_index_release(x->s->index, inner);
    weft_k_end(k);
    multiply(x, now);
    weft_k_if(k, more);
    keep(x, other);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_set(k, slot, other);
    weft_index_release(x->s->index, mark);
    weft_k_end(k);
}

/* -- results */

/* Sums 4 g ... 4 g + 3 of a fragment, which are neighbours along the row, and where they start. Lanes that hold every
   other one give half of theirs for half of the other group's first. */
static void exchange_turns(const wave *x, weft_kval sums, weft_kval out[8]) {
    weft_kernel *k = x->k;
    weft_kval low = weft_k_eq(k, x->group, index_of(x, 0));
    for (int i = 0; i < 4; i++) {
        weft_kval first = weft_k_extract(k, sums, i), second = weft_k_extract(k, sums, 4 + i);
        weft_kval got = weft_k_shuffle_xor(k, weft_k_select(k, low, second, first), 16);
        out[2 * i] = weft_k_select(k, low, first, got);
        out[2 * i + 1] = weft_k_select(k, low, got, second);
    }
}

static void store_fragment(const wave *x, int i, int j) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    const weft_wave_unit *u = x->unit;
    weft_kval sums = weft_k_get_at(k, x->d, index_of(x, (int64_t)i * x->ni + j)), each[16];
    if (u->spread == WEFT_SPREAD_TURNS)
        exchange_turns(x, sums, each);
    else
        for (int n = 0; n < u->sums; n++) each[n] = weft_k_extract(k, sums, n);
    weft_kval m = weft_k_extent(k, s->m), n = weft_k_extent(k, s->n);
    weft_kval row = plus(x, plus(x, s->m0, times(x, x->wave_m, x->wm)), plus(x, x->line, index_of(x, i * u->size)));
    weft_kval corner = plus(x, plus(x, s->n0, times(x, x->wave_n, x->wn)), index_of(x, j * u->size));
    int groups = u->lanes / u->size, apart = u->spread == WEFT_SPREAD_FOURS ? 4 * groups : 4,
        own = u->spread == WEFT_SPREAD_FOURS ? 4 : 8;
    for (int g = 0; g < u->sums / 4; g++) {
        size_t mark = weft_index_mark(s->index);
        weft_kval column = plus(x, corner, plus(x, times(x, x->group, own), index_of(x, g * apart)));
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
        weft_lane_index range = weft_lane_range(column, 4);
        weft_kval mask =
            weft_dim_divisor(k->dims, s->n) % 4 == 0 ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
        weft_kval four = weft_k_splat(k, each[4 * g], 4);
        for (int lane = 1; lane < 4; lane++) four = weft_k_insert(k, four, lane, each[4 * g + lane]);
        s->store(s, row, range, mask, four);
        weft_k_end(k);
        weft_index_release(s->index, mark);
    }
}

/* A hidden fragment through shared memory: each wavefront has room for one, of which a lane takes fours of neighbours.
 */
static void store_whole(const wave *x, int i, int j) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    const weft_wave_unit *u = x->unit;
    int quads = u->size / 4, turns = u->size * quads / u->lanes;
    weft_kval m = weft_k_extent(k, s->m), n = weft_k_extent(k, s->n);
    int pitch = sums_pitch(k->capability, s->bm, s->bn);
    weft_kval own = times(x, over(x, s->thread, u->lanes), (int64_t)u->size * pitch);
    weft_k_effect(k, WEFT_K_warp_sync, 0, NULL, 0, 0);
    weft_k_effect(k, WEFT_K_matrix_store, 4, (weft_kval[]){x->d, index_of(x, (int64_t)i * x->ni + j), x->sums, own},
                  weft_matrix_place(x->unit_id, WEFT_MATRIX_D, pitch), 0);
    weft_k_effect(k, WEFT_K_warp_sync, 0, NULL, 0, 0);
    for (int turn = 0; turn < turns; turn++) {
        size_t mark = weft_index_mark(s->index);
        weft_kval four = plus(x, x->lane, index_of(x, (int64_t)turn * u->lanes));
        weft_kval line = over(x, four, quads), quad = times(x, modulo(x, four, quads), 4);
        if (quads == 4 && pitch > u->size) line = spread_rows(x, line);
        weft_kval row = plus(x, plus(x, s->m0, times(x, x->wave_m, x->wm)), plus(x, line, index_of(x, i * u->size)));
        weft_kval column = plus(x, plus(x, s->n0, times(x, x->wave_n, x->wn)), plus(x, quad, index_of(x, j * u->size)));
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
        weft_lane_index range = weft_lane_range(column, 4);
        weft_kval mask =
            weft_dim_divisor(k->dims, s->n) % 4 == 0 ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
        weft_kval at = plus(x, own, plus(x, times(x, line, pitch), quad));
        weft_kval sums = weft_k_load(k, x->sums, at, 4, WEFT_KNONE, WEFT_KNONE);
        if (!k->failed) k->instrs[sums].align_bytes = 16;
        s->store(s, row, range, mask, sums);
        weft_k_end(k);
        weft_index_release(s->index, mark);
    }
}

/* -- the kernel */

static void prepare_side(wave *x, int number, const weft_mma_side *from) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    wave_side *side = &x->side[number];
    int bk = ROW_BYTES / x->bytes;
    *side = (wave_side){.kind = FETCH_EACH,
                        .tile = number ? s->bn : s->bm,
                        .base = number ? s->bm * x->pitch : 0,
                        .across = !s->along_k[number],
                        .buffer = WEFT_KNONE,
                        .pitch = from->pitch,
                        .period = from->period,
                        .extent = number ? s->n : s->m};
    side->piece = weft_mma_piece(k->dims, from, x->bytes);
    if (side->piece) {
        side->kind = s->along_k[number] ? FETCH_CHUNK : FETCH_TURNED;
        if (side->kind == FETCH_TURNED && side->piece > 4 * x->bytes) side->piece = 4 * x->bytes;
        if (s->index->operands[from->operand] == WEFT_KNONE)
            s->index->operands[from->operand] =
                weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, from->operand, x->dtype, false, number ? "b" : "a");
        side->buffer = s->index->operands[from->operand];
    }
    if (side->kind == FETCH_TURNED) {
        side->deep = side->tile * bk / (4 * THREADS);
        side->words = weft_k_regs(k, x->dtype, 4, side->deep);
        return;
    }
    side->chunks = side->tile * 4 / THREADS;
    side->step = side->kind == FETCH_EACH && side->across ? THREADS / side->tile : THREADS / 4;
    side->words = weft_k_regs(k, x->dtype, x->lanes_16, side->chunks);
}

/* Where this thread's part of a side lies in the tile and in memory. */
static void place_side(wave *x, int number) {
    wave_side *side = &x->side[number];
    weft_kernel *k = x->k;
    weft_kval thread = x->s->thread;
    if (side->kind == FETCH_TURNED && is_hidden(x->unit) && side->deep * x->bytes >= 8) {
        /* by k first: what two blocks of rows store meets no bank twice; blocks all of one k would, eight times */
        int deals = ROW_BYTES / (side->deep * x->bytes);
        side->row = times(x, over(x, thread, deals), 4);
        side->k = times(x, modulo(x, thread, deals), side->deep);
    } else if (side->kind == FETCH_TURNED)
        side->row = times(x, modulo(x, thread, side->tile / 4), 4),
        side->k = times(x, over(x, thread, side->tile / 4), side->deep);
    else if (side->kind == FETCH_EACH && side->across)
        side->row = modulo(x, thread, side->tile), side->k = times(x, over(x, thread, side->tile), x->lanes_16);
    else
        side->row = over(x, thread, 4), side->k = times(x, modulo(x, thread, 4), x->lanes_16);
    bool fours = side->kind == FETCH_CHUNK || (side->kind == FETCH_EACH && !side->across);
    if (is_hidden(x->unit) && fours) side->row = spread_rows(x, side->row);
    side->origin = index_of(x, 0);
    if (side->kind == FETCH_EACH || x->s->batch == 1 || side->period == 1) return;
    weft_kval lines = weft_k_extent(k, side->kind == FETCH_CHUNK ? side->extent : x->s->depth);
    weft_kval batch = side->period ? modulo(x, x->s->batch_index, side->period) : x->s->batch_index;
    side->origin = weft_k_mul(k, batch, weft_k_mul(k, lines, weft_k_extent(k, side->pitch)));
}

static weft_status take_schedule(wave *x, const weft_schedule *schedule) {
    weft_simt *s = x->s;
    const weft_capability *capability = s->request->capability;
    s->bm = schedule->tile_m, s->bn = schedule->tile_n, s->bk = ROW_BYTES / x->bytes;
    int waves_m = capability->warp == 64 ? 2 : capability->warp == 32 ? 4 : 8, waves_n = capability->warp < 32 ? 4 : 2;
    bool good = (s->bm == 64 || s->bm == 128) && (s->bn == 64 || s->bn == 128) && schedule->threads == THREADS &&
                shared_bytes(capability, s->bm, s->bn) <= capability->shared_bytes;
    if (!good)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s: schedule %dx%d, %d threads", s->request->name, s->bm, s->bn,
                           schedule->threads);
    x->wm = s->bm / waves_m, x->wn = s->bn / waves_n;
    x->unit_id = s->bm == 128 && x->wn % 32 == 0 && x->wm % 32 == 0 ? weft_wave_unit_find(capability, x->dtype, 32) : 0;
    if (!x->unit_id) x->unit_id = small_unit(capability, x->dtype);
    x->unit = weft_wave_unit_get(x->unit_id);
    if (!x->unit) return WEFT_STATUS(WEFT_INTERNAL, "%s: the target has no such unit", s->request->name);
    x->mi = x->wm / x->unit->size, x->ni = x->wn / x->unit->size;
    x->pitch = s->bk + (is_hidden(x->unit) ? APART_BYTES / x->bytes : 0);
    x->stage = (s->bm + s->bn) * x->pitch;
    x->k->threads = THREADS;
    x->k->grid = weft_raster_count(x->k->dims, s->m, s->n, s->batch, s->bm, s->bn);
    x->shared = weft_k_shared(x->k, x->dtype, (weft_dim)STAGES * x->stage);
    if (is_hidden(x->unit))
        x->sums =
            weft_k_shared(x->k, x->unit->sum,
                          (weft_dim)THREADS / x->unit->lanes * x->unit->size * sums_pitch(capability, s->bm, s->bn));
    return NULL;
}

static void place_lanes(wave *x) {
    weft_simt *s = x->s;
    weft_kernel *k = x->k;
    const weft_wave_unit *u = x->unit;
    weft_kval number = over(x, s->thread, u->lanes);
    x->lane = modulo(x, s->thread, u->lanes);
    int across = s->bn / x->wn;
    x->wave_m = over(x, number, across), x->wave_n = modulo(x, number, across);
    x->line = modulo(x, x->lane, u->size), x->group = over(x, x->lane, u->size);
    x->a = weft_k_regs(k, u->dtype, u->part_lanes, x->mi * u->parts);
    x->b = weft_k_regs(k, u->dtype, u->part_lanes, x->ni * u->parts);
    x->d = weft_k_regs(k, u->sum, u->sums, x->mi * x->ni);
    for (int i = 0; i < x->mi * x->ni; i++)
        weft_k_set_at(k, x->d, index_of(x, i), weft_k_constant_lanes(k, u->sum, 0, u->sums));
}

static weft_status emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) {
    const weft_schedule *schedule = s->request->schedule;
    weft_kernel *k = s->k;
    int bytes = weft_dtype_bits(dtype) / 8;
    wave x = {.s = s, .k = k, .dtype = dtype, .bytes = bytes, .lanes_16 = 16 / bytes};
    WEFT_TRY(take_schedule(&x, schedule), "building %s", s->request->name);
    for (int number = 0; number < 2; number++) prepare_side(&x, number, &sides[number]);
    s->thread = weft_k_thread(k);
    weft_raster raster =
        weft_raster_create(k, s->m, s->n, s->batch, s->bm, s->bn, schedule->raster > 0 ? schedule->raster : 8);
    weft_tile_place tile = weft_raster_place(k, &raster, weft_k_block(k));
    s->batch_index = tile.batch, s->m0 = tile.m, s->n0 = tile.n;
    place_lanes(&x);
    for (int number = 0; number < 2; number++) place_side(&x, number);
    emit_loop(&x);
    for (int i = 0; i < x.mi; i++)
        for (int j = 0; j < x.ni; j++) is_hidden(x.unit) ? store_whole(&x, i, j) : store_fragment(&x, i, j);
    return NULL;
}

weft_status weft_mma_wave_emit(weft_simt *s, weft_dtype dtype, const weft_mma_side sides[2]) {
    weft_status status =
                    s->request->schedule->tile_m < 64 ? weft_mma_wave_few_emit(s, dtype, sides) : emit(s, dtype, sides),
                finish = weft_index_finish(s->index);
    if (!status) return finish;
    weft_status_release(finish);
    return status;
}
