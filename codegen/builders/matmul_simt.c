/* matmul for any GPU by scalar multiply-adds: every type, shape and alignment, guarded loads, operands through shared
   memory. The builder behind the ones that are named after a matrix unit.

   Block: bm x bn outputs, 16 x 16 threads; a thread owns rows ty * 4 + 0..3 (+ 64) and columns tx * 4 + 0..3 (+ 64) as
   vectors of 4. K advances by bk; the next tile is fetched into registers while the last one is multiplied, two buffers
   of shared memory, one barrier a step. Sums run over k in order, one accumulator each. Shared: a[2][bk][bm],
   b[2][bk][bn] of the accumulator's type. */
#include <string.h>

#include "codegen/builders/plan.h"
#include "codegen/builders/product.h"
#include "codegen/tile/raster.h"

typedef struct simt_side {
    const weft_product_side *side;
    weft_kval memory, shared;    /* operand, tile */
    weft_kval fetched;           /* regs: elements on their way */
    int tile;                    /* bm or bn */
    weft_kval first, extent;     /* first row of the tile, rows in all */
    weft_kval row[8], column[8]; /* what each fetch of this thread reads: row of the tile, k of the step */
} simt_side;

typedef struct simt {
    const weft_build_request *request;
    weft_product product;
    weft_kernel *k;
    weft_index_context *index;
    int bm, bn, bk;
    weft_kval thread, batch, m0, n0, k_extent, sums;
    simt_side a, b;
} simt;

enum { SIMT_THREADS = 256 };

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    *out_reason = "a CPU";
    if (weft_capability_is_cpu(capability)) return false;
    if (!weft_product_find(graph, fusion, &product, out_reason)) return false;
    weft_dtype_kind kind = weft_dtype_kind_of(product.dtype);
    *out_reason = "operands that are no numbers, or complex ones";
    if (kind != WEFT_KIND_FLOAT && kind != WEFT_KIND_SIGNED && kind != WEFT_KIND_UNSIGNED) return false;
    *out_reason = "packed elements below 8 bits";
    if (weft_dtype_bits(product.dtype) < 8) return false;
    *out_reason = "a sum in a 16-bit float";
    if (weft_dtype_is_float(product.accumulate) && weft_dtype_bits(product.accumulate) < 32) return false;
    *out_reason = "64-bit sums on a target without 64-bit arithmetic";
    if (weft_dtype_bits(product.accumulate) == 64 &&
        !(weft_dtype_is_float(product.accumulate) ? capability->f64 : capability->i64))
        return false;
    *out_reason = NULL;
    return true;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    static const int tiles[] = {128, 64};
    weft_product product;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason)) return 0;
    int64_t m = weft_dim_is_number(product.m) ? product.m : 1024, n = weft_dim_is_number(product.n) ? product.n : 1024;
    int64_t blocks = ((m + 127) / 128) * ((n + 127) / 128),
            batch = weft_dim_is_number(product.batch) ? product.batch : 1;
    bool large = blocks * batch >= request->capability->multiprocessors && m > 64 && n > 64;
    int count = 0;
    for (int i = 0; i < 2 && count < capacity; i++) {
        int tile = tiles[large ? i : 1 - i], bytes = weft_dtype_bits(product.accumulate) / 8, bk = tile == 128 ? 8 : 16;
        if (2 * 2 * bk * tile * bytes > request->capability->shared_bytes) continue;
        out_schedules[count++] = (weft_schedule){.builder = "matmul-simt",
                                                 .tile_m = tile,
                                                 .tile_n = tile,
                                                 .tile_k = bk,
                                                 .threads = SIMT_THREADS,
                                                 .vector = 4,
                                                 .stages = 2,
                                                 .raster = 8};
    }
    return count;
}

static weft_kval index_of(simt *s, int64_t value) { return weft_k_index(s->k, value); }
static weft_kval plus(simt *s, weft_kval a, weft_kval b) { return weft_k_add(s->k, a, b); }
static weft_kval times(simt *s, weft_kval a, weft_kval b) { return weft_k_mul(s->k, a, b); }
static int fetches(const simt *s, const simt_side *side) { return side->tile * s->bk / SIMT_THREADS; }

/* Threads run along the axis that is contiguous in memory. */
static void place_fetches(simt *s, simt_side *side) {
    weft_kernel *k = s->k;
    int count = fetches(s, side), along = side->side->k_contiguous ? s->bk : side->tile;
    for (int i = 0; i < count; i++) {
        weft_kval element = plus(s, s->thread, index_of(s, (int64_t)i * SIMT_THREADS));
        weft_kval fast = weft_k_rem(k, element, index_of(s, along)), slow = weft_k_div(k, element, index_of(s, along));
        side->row[i] = side->side->k_contiguous ? slow : fast;
        side->column[i] = side->side->k_contiguous ? fast : slow;
    }
}

/* Elements of step k0 into registers; 0 outside. */
static void fetch(simt *s, simt_side *side, weft_kval k0) {
    weft_kernel *k = s->k;
    weft_kval pitch = weft_k_extent(k, side->side->pitch), whole = times(s, side->extent, s->k_extent);
    for (int i = 0; i < fetches(s, side); i++) {
        weft_kval row = plus(s, side->first, side->row[i]), column = plus(s, k0, side->column[i]);
        weft_kval slow = side->side->k_contiguous ? row : column, fast = side->side->k_contiguous ? column : row;
        weft_kval at = plus(s, plus(s, times(s, s->batch, whole), times(s, slow, pitch)), fast);
        weft_kval inside = weft_k_and(k, weft_k_lt(k, row, side->extent), weft_k_lt(k, column, s->k_extent));
        weft_kval safe = weft_k_select(k, inside, at, index_of(s, 0));
        weft_kval value =
            weft_index_load(s->index, side->memory, s->product.dtype, weft_lane_scalar(safe), 1, WEFT_KNONE);
        value = weft_k_convert(k, value, s->product.accumulate);
        weft_kval zero = weft_dtype_is_float(s->product.accumulate) ? weft_k_float(k, s->product.accumulate, 0)
                                                                    : weft_k_integer(k, s->product.accumulate, 0);
        weft_k_set_at(k, side->fetched, index_of(s, i), weft_k_select(k, inside, value, zero));
    }
}

static weft_kval buffer_at(simt *s, const simt_side *side, weft_kval buffer) {
    return times(s, buffer, index_of(s, (int64_t)s->bk * side->tile));
}

static void keep(simt *s, simt_side *side, weft_kval buffer) {
    for (int i = 0; i < fetches(s, side); i++) {
        weft_kval at = plus(s, buffer_at(s, side, buffer),
                            plus(s, times(s, side->column[i], index_of(s, side->tile)), side->row[i]));
        weft_k_store(s->k, side->shared, at, WEFT_KNONE, weft_k_get_at(s->k, side->fetched, index_of(s, i)));
    }
}

/* Four neighbours of one row of the shared tile. */
static weft_kval load_four(simt *s, simt_side *side, weft_kval buffer, int kk, int group, weft_kval lane) {
    weft_kval at = plus(s, buffer_at(s, side, buffer),
                        plus(s, times(s, lane, index_of(s, 4)), index_of(s, (int64_t)kk * side->tile + 64 * group)));
    weft_kval value = weft_k_load(s->k, side->shared, at, 4, WEFT_KNONE, WEFT_KNONE);
    if (!s->k->failed) s->k->instrs[value].align_bytes = 4 * weft_dtype_bits(s->product.accumulate) / 8;
    return value;
}

static void multiply(simt *s, weft_kval buffer, weft_kval tx, weft_kval ty) {
    weft_kernel *k = s->k;
    int rows = s->bm / 64, columns = s->bn / 64;
    bool fused = weft_dtype_is_float(s->product.accumulate);
    for (int kk = 0; kk < s->bk; kk++) {
        weft_kval a[2], b[2];
        for (int g = 0; g < rows; g++) a[g] = load_four(s, &s->a, buffer, kk, g, ty);
        for (int g = 0; g < columns; g++) b[g] = load_four(s, &s->b, buffer, kk, g, tx);
        for (int r = 0; r < 4 * rows; r++)
            for (int g = 0; g < columns; g++) {
                weft_kval at = index_of(s, r * columns + g), sum = weft_k_get_at(k, s->sums, at),
                          x = weft_k_extract(k, a[r / 4], r % 4);
                weft_k_set_at(k, s->sums, at,
                              fused ? weft_k_fma(k, x, b[g], sum) : weft_k_add(k, weft_k_mul(k, x, b[g]), sum));
            }
    }
}

static void index_at(simt *s, const weft_value *yield, weft_kval row, weft_lane_index column, weft_lane_index *out) {
    weft_dim n = s->product.n;
    int rank = yield->type.rank;
    weft_kval line = s->product.batch == 1 ? row : plus(s, times(s, s->batch, weft_k_extent(s->k, s->product.m)), row);
    if (rank >= 2 && weft_dim_known_equal(s->k->dims, yield->type.dims[rank - 1], n)) {
        weft_index_unflatten(s->index, rank - 1, yield->type.dims, weft_lane_scalar(line), 1, out);
        out[rank - 1] = column;
        return;
    }
    weft_lane_index flat = {plus(s, times(s, line, weft_k_extent(s->k, n)), column.base), 1, 1};
    weft_index_unflatten(s->index, rank, yield->type.dims, flat, 4, out);
}

static void emit_epilogue(simt *s, weft_kval tx, weft_kval ty) {
    weft_kernel *k = s->k;
    weft_kval m = weft_k_extent(k, s->product.m), n = weft_k_extent(k, s->product.n);
    const weft_value *dot = &s->product.dot->results[0];
    int columns = s->bn / 64;
    for (int r = 0; r < s->bm / 16; r++)
        for (int g = 0; g < columns; g++) {
            weft_kval row = plus(s, s->m0, plus(s, times(s, ty, index_of(s, 4)), index_of(s, 64 * (r / 4) + r % 4)));
            weft_kval column = plus(s, s->n0, plus(s, times(s, tx, index_of(s, 4)), index_of(s, 64 * g)));
            weft_k_if(k, weft_k_and(k, weft_k_lt(k, row, m), weft_k_lt(k, column, n)));
            size_t mark = weft_index_mark(s->index);
            weft_lane_index range = weft_lane_range(column, 4);
            int64_t known = weft_dim_divisor(k->dims, s->product.n);
            weft_kval mask = known % 4 == 0 ? WEFT_KNONE : weft_index_below(s->index, range, 4, n);
            weft_kval sum = weft_k_convert(k, weft_k_get_at(k, s->sums, index_of(s, r * columns + g)),
                                           weft_index_carrier(dot->type.dtype));
            weft_index_bind(s->index, dot, weft_index_round(s->index, dot->type.dtype, sum));
            for (int result = 0; result < s->request->fusion->result_count; result++) {
                weft_lane_index index[WEFT_MAX_RANK];
                index_at(s, weft_fusion_yield(s->request->fusion, result), row, range, index);
                weft_index_emit(s->index, result, index, 4, mask);
            }
            weft_index_release(s->index, mark);
            weft_k_end(k);
        }
}

static void emit(simt *s) {
    weft_kernel *k = s->k;
    weft_dtype sum = s->product.accumulate;
    s->a.shared = weft_k_shared(k, sum, 2LL * s->bk * s->bm);
    s->b.shared = weft_k_shared(k, sum, 2LL * s->bk * s->bn);
    s->thread = weft_k_thread(k);
    weft_raster raster = weft_raster_create(k, s->product.m, s->product.n, s->product.batch, s->bm, s->bn,
                                            s->request->schedule->raster > 0 ? s->request->schedule->raster : 8);
    weft_tile_place place = weft_raster_place(k, &raster, weft_k_block(k));
    s->batch = place.batch, s->m0 = place.m, s->n0 = place.n;
    s->k_extent = weft_k_extent(k, s->product.k);
    s->a.first = s->m0, s->a.extent = weft_k_extent(k, s->product.m);
    s->b.first = s->n0, s->b.extent = weft_k_extent(k, s->product.n);
    place_fetches(s, &s->a);
    place_fetches(s, &s->b);
    int sums = s->bm / 16 * (s->bn / 64);
    s->sums = weft_k_regs(k, sum, 4, sums);
    s->a.fetched = weft_k_regs(k, sum, 1, fetches(s, &s->a));
    s->b.fetched = weft_k_regs(k, sum, 1, fetches(s, &s->b));
    for (int i = 0; i < sums; i++) weft_k_set_at(k, s->sums, index_of(s, i), weft_k_constant_lanes(k, sum, 0, 4));
    weft_kval tx = weft_k_rem(k, s->thread, index_of(s, 16)), ty = weft_k_div(k, s->thread, index_of(s, 16)),
              zero = index_of(s, 0);
    fetch(s, &s->a, zero);
    fetch(s, &s->b, zero);
    keep(s, &s->a, zero);
    keep(s, &s->b, zero);
    weft_k_barrier(k);
    weft_kval buffer = weft_k_var(k, zero),
              steps = weft_k_extent(k, weft_dim_divide_ceil(k->dims, s->product.k, s->bk));
    weft_kval step = weft_k_for(k, zero, steps, index_of(s, 1), 0);
    size_t mark = weft_index_mark(s->index);
    weft_kval next = times(s, plus(s, step, index_of(s, 1)), index_of(s, s->bk)), now = weft_k_get(k, buffer),
              other = weft_k_sub(k, index_of(s, 1), now);
    fetch(s, &s->a, next); /* past the end: zeros that nobody multiplies */
    fetch(s, &s->b, next);
    multiply(s, now, tx, ty);
    keep(s, &s->a, other);
    keep(s, &s->b, other);
    weft_k_barrier(k);
    weft_k_set(k, buffer, other);
    weft_index_release(s->index, mark);
    weft_k_end(k);
    emit_epilogue(s, tx, ty);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_schedule *schedule = request->schedule;
    weft_index_context index;
    simt s = {
        .request = request, .index = &index, .bm = schedule->tile_m, .bn = schedule->tile_n, .bk = schedule->tile_k};
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &s.product, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-simt: %s", reason);
    if ((s.bm != 64 && s.bm != 128) || (s.bn != 64 && s.bn != 128) || s.bk < 4 || s.bk > 32 || s.bk % 4 ||
        s.bm * s.bk / SIMT_THREADS > 8 || s.bn * s.bk / SIMT_THREADS > 8)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-simt: schedule %dx%dx%d", s.bm, s.bn, s.bk);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    s.k = weft_plan_kernel(request, "");
    if (!s.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    s.k->threads = SIMT_THREADS;
    s.k->grid = weft_raster_count(s.k->dims, s.product.m, s.product.n, s.product.batch, s.bm, s.bn);
    WEFT_TRY(weft_index_init(request, s.k, &index), "building %s", request->name);
    simt_side *sides[2] = {&s.a, &s.b};
    for (int i = 0; i < 2; i++) {
        sides[i]->side = i ? &s.product.b : &s.product.a;
        sides[i]->tile = i ? s.bn : s.bm;
        int operand = sides[i]->side->operand;
        if (index.operands[operand] == WEFT_KNONE)
            index.operands[operand] = weft_kernel_buffer(s.k, WEFT_ARGUMENT_OPERAND, operand,
                                                         weft_index_storage(s.product.dtype), false, i ? "b" : "a");
        sides[i]->memory = index.operands[operand];
    }
    emit(&s);
    WEFT_TRY(weft_index_finish(&index), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, s.k);
}

extern const weft_builder weft_builder_matmul_simt;
const weft_builder weft_builder_matmul_simt = {
    .name = "matmul", .accepts = accepts, .propose = propose, .build = build};
