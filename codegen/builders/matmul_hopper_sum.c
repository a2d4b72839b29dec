/* The end of a Hopper product whose k is split over blocks: each part left its f32 sums in a temporary, [part, batch,
   m, n]; this launch adds them, always in the order of the parts, and computes the epilogue. Equal schedules give equal
   bits. Tiles may have different numbers of parts. Read next: matmul_hopper.c, simt_product.h. */
#include "codegen/builders/matmul_hopper.h"
#include "codegen/builders/plan.h"
#include "codegen/builders/simt_product.h"

enum { SUM_THREADS = 256, SUM_LANES = 4 };

static weft_kval index_of(weft_kernel *k, int64_t value) { return weft_k_index(k, value); }

/* With uneven parts, how many the tile of this element has: clusters from the one that has its first step to the one
   that has its last. */
static weft_kval parts_at(const weft_hopper *h, weft_simt *s, weft_kval row, weft_kval column) {
    weft_kernel *k = s->k;
    int rows = h->bm * h->cluster;
    weft_raster raster = weft_raster_create(k, s->m, s->n, s->batch, rows, h->bn, h->group);
    weft_kval steps = index_of(k, (h->product.k + h->bk - 1) / h->bk), even = index_of(k, h->even);
    weft_kval tile = weft_raster_number(k, &raster, s->batch_index, weft_k_div(k, row, index_of(k, rows)),
                                        weft_k_div(k, column, index_of(k, h->bn)));
    weft_kval first = weft_k_mul(k, tile, steps), last = weft_k_add(k, first, weft_k_sub(k, steps, index_of(k, 1)));
    return weft_k_add(k, weft_k_sub(k, weft_k_div(k, last, even), weft_k_div(k, first, even)), index_of(k, 1));
}

/* One thread, four neighbours of a row. */
static void emit(const weft_hopper *h, weft_simt *s, weft_kval parts) {
    weft_kernel *k = s->k;
    weft_dim_table *dims = k->dims;
    weft_dim quads = weft_dim_divide_ceil(dims, s->n, SUM_LANES), rows = weft_dim_multiply(dims, s->batch, s->m),
             total = weft_dim_multiply(dims, rows, quads);
    k->threads = SUM_THREADS;
    k->grid = weft_dim_divide_ceil(dims, total, SUM_THREADS);
    weft_kval position = weft_k_add(k, weft_k_mul(k, weft_k_block(k), index_of(k, SUM_THREADS)), weft_k_thread(k));
    weft_k_if(k, weft_k_lt(k, position, weft_k_extent(k, total)));
    weft_kval line = weft_k_div(k, position, weft_k_extent(k, quads)), m = weft_k_extent(k, s->m),
              n = weft_k_extent(k, s->n);
    weft_kval column = weft_k_mul(k, weft_k_rem(k, position, weft_k_extent(k, quads)), index_of(k, SUM_LANES));
    s->batch_index = s->batch == 1 ? index_of(k, 0) : weft_k_div(k, line, m);
    weft_lane_index range = weft_lane_range(column, SUM_LANES);
    bool whole = weft_dim_divisor(dims, s->n) % SUM_LANES == 0;
    weft_kval mask = whole ? WEFT_KNONE : weft_index_below(s->index, range, SUM_LANES, n), sums = WEFT_KNONE;
    weft_kval at = weft_k_add(k, weft_k_mul(k, line, n), column), stride = weft_k_mul(k, weft_k_extent(k, rows), n);
    weft_kval each[8], row = s->batch == 1 ? line : weft_k_rem(k, line, m),
                       count = h->even ? parts_at(h, s, row, column) : WEFT_KNONE;
    for (int part = 0; part < h->split; part++) {
        weft_kval here = mask;
        if (h->even && part > 0) {
            weft_kval exists = weft_k_splat(k, weft_k_lt(k, index_of(k, part), count), SUM_LANES);
            here = whole ? exists : weft_k_and(k, mask, exists);
        }
        each[part] = weft_k_load(k, parts, weft_k_add(k, at, weft_k_mul(k, stride, index_of(k, part))), SUM_LANES, here,
                                 WEFT_KNONE);
        if (!k->failed) k->instrs[each[part]].align_bytes = whole ? 16 : 4;
    }
    for (int part = 0; part < h->split; part++) sums = part ? weft_k_add(k, sums, each[part]) : each[part];
    s->store(s, row, range, mask, sums);
    weft_k_end(k);
}

weft_status weft_hopper_plan_sum(const weft_hopper *h, weft_kernel_plan *plan) {
    const weft_build_request *request = h->request;
    weft_index_context index;
    weft_simt s;
    weft_kernel *k = weft_plan_kernel(request, "_sum");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, k, &index), "building %s", request->name);
    weft_kval parts = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, h->parts, WEFT_F32, false, "parts");
    weft_simt_product(&s, request, k, &index, &h->product);
    emit(h, &s, parts);
    WEFT_TRY(weft_index_finish(&index), "building %s", request->name);
    return weft_plan_set(request, plan, plan->launch_count - 1, k);
}
