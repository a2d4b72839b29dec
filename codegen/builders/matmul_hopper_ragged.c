/* Products of groups of rows (ragged_dot) in the Hopper matmul: the same kernel, but which tiles there are is known to
   the device alone. Before the roles part, all threads read the offsets and leave a table in shared memory: of each
   group its first row and its first tile. A tile's group is then found by halving, some shared reads, and blocks stay
   persistent over tiles of all groups. By rows, a tile may end before its box does: rows leave by warps, up to the
   group's end; boxes read rows of other groups, of which nothing is stored. Rows of no group are written behind the
   tiles. Where rows are contracted, tiles are those of a batched product whose k is the group's rows; of the last
   stage, rows that are not the group's become zeros before the unit reads them (matmul_hopper_kernel.c).
   Read next: matmul_hopper_tiles.c, ragged.h. */
#include "codegen/builders/matmul_hopper.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }
static weft_kval plus(weft_hopper *h, weft_kval a, weft_kval b) { return weft_k_add(h->k, a, b); }

bool weft_hopper_find(const weft_graph *graph, const weft_node *fusion, weft_product *out_product,
                      weft_ragged *out_ragged, const char **out_reason) {
    weft_ragged *r = out_ragged;
    const char *reason;
    if (!weft_ragged_find(graph, fusion, r, &reason)) {
        *r = (weft_ragged){0};
        return weft_product_find(graph, fusion, out_product, out_reason);
    }
    bool by_rows = r->by_rows;
    *out_product = (weft_product){.dot = r->node,
                                  .dtype = r->dtype,
                                  .dtype_b = weft_operand_type(r->node, 1)->dtype,
                                  .accumulate = WEFT_F32,
                                  .batch = by_rows ? 1 : r->groups,
                                  .m = by_rows ? r->rows : r->k,
                                  .n = r->n,
                                  .k = by_rows ? r->k : r->rows};
    out_product->a = (weft_product_side){.dense = true, .operand = r->x, .k_contiguous = by_rows, .pitch = r->k};
    out_product->b = (weft_product_side){
        .dense = true, .operand = r->w, .k_contiguous = r->w_along_k, .pitch = r->w_along_k ? r->k : r->n};
    return true;
}

/* Of element i. */
static weft_kval table_at(weft_hopper *h, weft_kval table, weft_kval i) {
    return weft_k_load(h->k, table, i, 1, WEFT_KNONE, WEFT_KNONE);
}

void weft_hopper_ragged_prepare(weft_hopper *h, weft_kval thread) {
    weft_kernel *k = h->k;
    const weft_ragged *r = &h->ragged;
    weft_dtype index = k->capability->index_dtype;
    weft_kval raw = weft_k_shared(k, index, r->groups + 1), zero = index_of(h, 0), one = index_of(h, 1);
    weft_kval end = index_of(h, r->groups + 1), threads = index_of(h, k->threads),
              size = index_of(h, h->bm * h->cluster);
    h->bounds = weft_k_shared(k, index, r->groups + 1), h->firsts = weft_k_shared(k, index, r->groups + 1);
    weft_kval g = weft_k_for(k, thread, end, threads, 0);
    size_t mark = weft_index_mark(h->index);
    weft_k_store(k, raw, g, WEFT_KNONE, weft_ragged_offset(h->index, r, g));
    weft_index_release(h->index, mark);
    weft_k_end(k);
    weft_k_barrier(k);
    g = weft_k_for(k, thread, end, threads, 0);
    weft_kval bound = weft_k_var(k, table_at(h, raw, zero)), tiles = weft_k_var(k, zero);
    weft_kval before = weft_k_for(k, one, plus(h, g, one), one, 0);
    weft_kval from = weft_k_get(k, bound), to = weft_k_max(k, from, table_at(h, raw, before));
    weft_kval more = weft_k_div(k, plus(h, weft_k_sub(k, to, from), weft_k_sub(k, size, one)), size);
    weft_k_set(k, tiles, plus(h, weft_k_get(k, tiles), more));
    weft_k_set(k, bound, to);
    weft_k_end(k);
    weft_k_store(k, h->bounds, g, WEFT_KNONE, weft_k_get(k, bound));
    weft_k_store(k, h->firsts, g, WEFT_KNONE, weft_k_get(k, tiles));
    weft_k_end(k);
    weft_k_barrier(k);
    if (!r->by_rows) return;
    h->raster.tiles_n = weft_k_extent(k, weft_dim_divide_ceil(k->dims, r->n, h->bn));
    h->raster.tiles = weft_k_mul(k, table_at(h, h->firsts, index_of(h, r->groups)), h->raster.tiles_n);
}

weft_tile_place weft_hopper_ragged_place(weft_hopper *h, weft_kval tile) {
    weft_kernel *k = h->k;
    const weft_ragged *r = &h->ragged;
    weft_kval one = index_of(h, 1), group, row = WEFT_KNONE;
    weft_tile_place place;
    if (r->by_rows) {
        row = weft_k_div(k, tile, h->raster.tiles_n);
        group = index_of(h, 0);
        int64_t step = 1;
        while (step < r->groups) step *= 2;
        for (step /= 2; step > 0; step /= 2) { /* the last group that starts at this tile or before it */
            weft_kval tried = plus(h, group, index_of(h, step)), inside = weft_k_min(k, tried, index_of(h, r->groups));
            weft_kval here = weft_k_and(k, weft_k_lt(k, tried, index_of(h, r->groups)),
                                        weft_k_le(k, table_at(h, h->firsts, inside), row));
            group = weft_k_select(k, here, tried, group);
        }
        place = (weft_tile_place){.n = weft_k_mul(k, weft_k_rem(k, tile, h->raster.tiles_n), index_of(h, h->bn)),
                                  .batch = index_of(h, 0)};
    } else {
        place = weft_raster_place(k, &h->raster, tile);
        group = weft_k_min(k, place.batch, index_of(h, r->groups - 1)); /* movers look one tile past the last */
    }
    place.group = group;
    place.first = table_at(h, h->bounds, group), place.end = table_at(h, h->bounds, plus(h, group, one));
    if (r->by_rows)
        place.m =
            plus(h, place.first,
                 weft_k_mul(k, weft_k_sub(k, row, table_at(h, h->firsts, group)), index_of(h, h->bm * h->cluster)));
    return place;
}

weft_dim weft_hopper_ragged_tiles(const weft_hopper *h) {
    weft_dim_table *dims = h->request->graph->dims;
    const weft_ragged *r = &h->ragged;
    int64_t size = (int64_t)h->bm * h->cluster;
    weft_dim rows = weft_dim_divide_floor(dims, weft_dim_add(dims, r->rows, r->groups * (size - 1)), size);
    return weft_dim_multiply(dims, rows, weft_dim_divide_ceil(dims, r->n, h->bn));
}

void weft_hopper_ragged_rest(weft_hopper *h, weft_kval thread) {
    weft_kernel *k = h->k;
    const weft_ragged *r = &h->ragged;
    weft_kval first = table_at(h, h->bounds, index_of(h, 0)), last = table_at(h, h->bounds, index_of(h, r->groups)),
              n = weft_k_extent(k, r->n), threads = index_of(h, 128 * h->consumers);
    weft_kval rows = plus(h, first, weft_k_sub(k, weft_k_extent(k, r->rows), last));
    weft_kval grid = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(k->capability->index_dtype, 1), 0, NULL, 0, 0);
    weft_kval start = plus(h, weft_k_mul(k, weft_k_block(k), threads), thread);
    weft_kval at = weft_k_for(k, start, weft_k_mul(k, rows, n), weft_k_mul(k, grid, threads), 0);
    size_t mark = weft_index_mark(h->index);
    weft_kval row = weft_k_div(k, at, n);
    row = weft_k_select(k, weft_k_lt(k, row, first), row, plus(h, weft_k_sub(k, row, first), last));
    weft_lane_index index[2] = {weft_lane_scalar(row), weft_lane_scalar(weft_k_rem(k, at, n))};
    const weft_value *sum = &r->node->results[0];
    weft_index_bind(h->index, sum, weft_k_constant_lanes(k, weft_index_carrier(sum->type.dtype), 0, 1));
    for (int i = 0; i < h->request->fusion->result_count; i++) weft_index_emit(h->index, i, index, 1, WEFT_KNONE);
    weft_index_release(h->index, mark);
    weft_k_end(k);
}
