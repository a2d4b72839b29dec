/* The problem of simt.h where there are few outputs: tiles of 64 x 64 would leave most processors idle, and each would
   wait for one step of k after another. Here a block makes 16 x 32 outputs and its eight warps share k: warp w takes
   k = 4 w .. 4 w + 3, then 32 further, reading straight from memory and the caches, without a barrier. Their sums meet
   in shared memory and are added in the order of the warps. Lane: rows lane / 8 + 4 i, columns lane % 8 + 8 j.
   Shared: sums[8][16][32] of the accumulator's type. Read next: convolution_simt.c. */
#include "codegen/builders/plan.h"
#include "codegen/builders/simt.h"
#include "codegen/tile/raster.h"

enum { ROWS = 16, COLUMNS = 32, WARPS = 8, STEP = 4, EACH = 4, SMALL_THREADS = 256, TILES_A_PROCESSOR = 3 };

static weft_kval index_of(weft_simt *s, int64_t value) { return weft_k_index(s->k, value); }
static weft_kval plus(weft_simt *s, weft_kval a, weft_kval b) { return weft_k_add(s->k, a, b); }
static weft_kval times(weft_simt *s, weft_kval a, int64_t b) { return weft_k_mul(s->k, a, index_of(s, b)); }

bool weft_simt_has_small(const weft_capability *capability, weft_dtype sum) {
    return !capability->batch_invariant && capability->warp == 32 && capability->threads_max >= SMALL_THREADS &&
           WARPS * ROWS * COLUMNS * weft_dtype_bits(sum) / 8 <= capability->shared_bytes;
}

weft_condition weft_simt_is_small(weft_dim_table *dims, const weft_capability *capability, weft_dim m, weft_dim n,
                                  weft_dim batch) {
    int64_t processors = capability->multiprocessors > 0 ? capability->multiprocessors : 64;
    return (weft_condition){.relation = WEFT_RELATION_LE,
                            .lhs = weft_raster_count(dims, m, n, batch, ROWS, COLUMNS),
                            .rhs = TILES_A_PROCESSOR * processors};
}

weft_schedule weft_simt_small_schedule(const char *name) {
    return (weft_schedule){.builder = name,
                           .tile_m = ROWS,
                           .tile_n = COLUMNS,
                           .tile_k = STEP,
                           .threads = SMALL_THREADS,
                           .vector = 4,
                           .raster = 8,
                           .split = WARPS};
}

/* Elements (row, k0 + u) of a side for the lane's four rows or columns; outside: 0. */
static void read(weft_simt *s, int side, const weft_kval *rows, const weft_kval *ks, const weft_kval *exists,
                 weft_kval (*out)[STEP]) {
    weft_kernel *k = s->k;
    weft_kval zero = weft_k_constant_lanes(k, s->sum, 0, 1);
    for (int i = 0; i < EACH; i++)
        for (int u = 0; u < STEP; u++) {
            weft_kval inside = WEFT_KNONE, value = s->load(s, side, rows[i], ks[u], &inside);
            value = weft_k_convert(k, value, s->sum);
            if (exists[u] != WEFT_KNONE) inside = inside == WEFT_KNONE ? exists[u] : weft_k_and(k, inside, exists[u]);
            out[i][u] = inside == WEFT_KNONE ? value : weft_k_select(k, inside, value, zero);
        }
}

static void emit_loop(weft_simt *s, weft_kval warp, const weft_kval *rows, const weft_kval *columns) {
    weft_kernel *k = s->k;
    bool whole = weft_dim_divisor(k->dims, s->depth) % STEP == 0, fused = weft_dtype_is_float(s->sum);
    weft_kval depth = weft_k_extent(k, s->depth), last = weft_k_sub(k, depth, index_of(s, 1));
    weft_kval k0 = weft_k_for(k, times(s, warp, STEP), depth, index_of(s, WARPS * STEP), 2);
    size_t mark = weft_index_mark(s->index);
    weft_kval ks[STEP], exists[STEP], a[EACH][STEP], b[EACH][STEP];
    for (int u = 0; u < STEP; u++) {
        ks[u] = plus(s, k0, index_of(s, u)), exists[u] = WEFT_KNONE;
        if (whole || u == 0) continue;
        exists[u] = weft_k_lt(k, ks[u], depth);
        ks[u] = weft_k_min(k, ks[u], last);
    }
    read(s, 0, rows, ks, exists, a);
    read(s, 1, columns, ks, exists, b);
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            weft_kval at = index_of(s, i * EACH + j), sum = weft_k_get_at(k, s->sums, at);
            for (int u = 0; u < STEP; u++)
                sum =
                    fused ? weft_k_mad(k, a[i][u], b[j][u], sum) : weft_k_add(k, weft_k_mul(k, a[i][u], b[j][u]), sum);
            weft_k_set_at(k, s->sums, at, sum);
        }
    weft_index_release(s->index, mark);
    weft_k_end(k);
}

/* A quarter of the threads and one more: four neighbours each, summed over the warps. */
static void emit_stores(weft_simt *s) {
    weft_kernel *k = s->k;
    weft_kval row = weft_k_div(k, s->thread, index_of(s, COLUMNS / 4)),
              column = times(s, weft_k_rem(k, s->thread, index_of(s, COLUMNS / 4)), 4);
    weft_kval m_at = plus(s, s->m0, row), n_at = plus(s, s->n0, column), n = weft_k_extent(k, s->n);
    weft_kval mine = weft_k_lt(k, s->thread, index_of(s, ROWS * COLUMNS / 4));
    mine = weft_k_and(k, mine, weft_k_and(k, weft_k_lt(k, m_at, weft_k_extent(k, s->m)), weft_k_lt(k, n_at, n)));
    weft_k_if(k, mine);
    size_t mark = weft_index_mark(s->index);
    weft_kval sum = WEFT_KNONE;
    for (int w = 0; w < WARPS; w++) {
        weft_kval at = plus(s, times(s, row, COLUMNS), plus(s, column, index_of(s, (int64_t)w * ROWS * COLUMNS)));
        weft_kval part = weft_k_load(k, s->shared[0], at, 4, WEFT_KNONE, WEFT_KNONE);
        if (!k->failed) k->instrs[part].align_bytes = weft_dtype_bits(s->sum) / 2;
        sum = sum == WEFT_KNONE ? part : weft_k_add(k, sum, part);
    }
    weft_lane_index range = weft_lane_range(n_at, 4);
    weft_kval mask = weft_dim_divisor(k->dims, s->n) % 4 == 0 ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
    s->store(s, m_at, range, mask, sum);
    weft_index_release(s->index, mark);
    weft_k_end(k);
}

void weft_simt_emit_small(weft_simt *s) {
    weft_kernel *k = s->k;
    weft_kval one = index_of(s, 1), rows[EACH], columns[EACH];
    k->threads = SMALL_THREADS;
    k->grid = weft_raster_count(k->dims, s->m, s->n, s->batch, ROWS, COLUMNS);
    s->shared[0] = weft_k_shared(k, s->sum, WARPS * ROWS * COLUMNS);
    s->thread = weft_k_thread(k), s->readable = WEFT_KNONE;
    weft_raster raster = weft_raster_create(k, s->m, s->n, s->batch, ROWS, COLUMNS, s->request->schedule->raster);
    weft_tile_place place = weft_raster_place(k, &raster, weft_k_block(k));
    s->batch_index = place.batch, s->m0 = place.m, s->n0 = place.n;
    weft_kval lane = weft_k_rem(k, s->thread, index_of(s, 32)), warp = weft_k_div(k, s->thread, index_of(s, 32));
    weft_kval r = weft_k_div(k, lane, index_of(s, 8)), c = weft_k_rem(k, lane, index_of(s, 8));
    weft_kval last_row = weft_k_sub(k, weft_k_extent(k, s->m), one), last = weft_k_sub(k, weft_k_extent(k, s->n), one);
    for (int i = 0; i < EACH; i++) {
        rows[i] = weft_k_min(k, plus(s, s->m0, plus(s, r, index_of(s, 4 * i))), last_row);
        columns[i] = weft_k_min(k, plus(s, s->n0, plus(s, c, index_of(s, 8 * i))), last);
    }
    s->sums = weft_k_regs(k, s->sum, 1, EACH * EACH);
    for (int i = 0; i < EACH * EACH; i++)
        weft_k_set_at(k, s->sums, index_of(s, i), weft_k_constant_lanes(k, s->sum, 0, 1));
    emit_loop(s, warp, rows, columns);
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            weft_kval at = plus(s, times(s, plus(s, r, index_of(s, 4 * i)), COLUMNS), plus(s, c, index_of(s, 8 * j)));
            at = plus(s, at, times(s, warp, ROWS * COLUMNS));
            weft_k_store(k, s->shared[0], at, WEFT_KNONE, weft_k_get_at(k, s->sums, index_of(s, i * EACH + j)));
        }
    weft_k_barrier(k);
    emit_stores(s);
}

weft_status weft_simt_plan(const weft_build_request *request, const weft_simt_extents *x, weft_simt_build build,
                           weft_kernel_plan *out_plan) {
    weft_dim_table *dims = request->graph->dims;
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    weft_plan_variant *variants = weft_arena_allocate_array(request->arena, 2, sizeof *variants);
    weft_condition *condition = weft_arena_allocate(request->arena, sizeof *condition);
    if (!variants || !condition) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    int64_t least, most;
    *condition = weft_simt_is_small(dims, request->capability, x->m, x->n, x->batch);
    weft_dim_bounds(dims, condition->lhs, &least, &most);
    /* sizes known only at launch: a kernel for either; the schedule is that of the larger ones */
    bool several = request->schedule->split <= 1 && weft_simt_has_small(request->capability, x->sum) &&
                   least <= condition->rhs && most > condition->rhs;
    int count = 0;
    if (several) {
        weft_schedule small = weft_simt_small_schedule(request->schedule->builder);
        weft_build_request own = *request;
        own.schedule = &small;
        WEFT_TRY(build(&own, "_small", &variants[count].kernel), "building %s", request->name);
        variants[count].condition_count = 1, variants[count++].conditions = condition;
    }
    WEFT_TRY(build(request, "", &variants[count].kernel), "building %s", request->name);
    out_plan->launches[0] = (weft_plan_launch){.variant_count = count + 1, .variants = variants};
    return NULL;
}
