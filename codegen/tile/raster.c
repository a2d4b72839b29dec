/* See raster.h. */
#include "codegen/tile/raster.h"

static weft_dim tiles_of(weft_dim_table *dims, weft_dim extent, int tile) {
    return weft_dim_divide_ceil(dims, extent, tile);
}

weft_dim weft_raster_count(weft_dim_table *dims, weft_dim m, weft_dim n, weft_dim batch, int tile_m, int tile_n) {
    weft_dim tiles = weft_dim_multiply(dims, tiles_of(dims, m, tile_m), tiles_of(dims, n, tile_n));
    return weft_dim_multiply(dims, tiles, batch);
}

weft_raster weft_raster_create(weft_kernel *k, weft_dim m, weft_dim n, weft_dim batch, int tile_m, int tile_n,
                               int group) {
    return (weft_raster){.tile_m = tile_m,
                         .tile_n = tile_n,
                         .group = group,
                         .tiles_m = weft_k_extent(k, tiles_of(k->dims, m, tile_m)),
                         .tiles_n = weft_k_extent(k, tiles_of(k->dims, n, tile_n)),
                         .tiles = weft_k_extent(k, weft_raster_count(k->dims, m, n, batch, tile_m, tile_n)),
                         .batched = batch != 1};
}

weft_tile_place weft_raster_place(weft_kernel *k, const weft_raster *raster, weft_kval tile) {
    weft_tile_place place = {.batch = weft_k_index(k, 0), .group = WEFT_KNONE, .first = WEFT_KNONE, .end = WEFT_KNONE};
    if (raster->batched) {
        weft_kval per_batch = weft_k_mul(k, raster->tiles_m, raster->tiles_n);
        place.batch = weft_k_div(k, tile, per_batch);
        tile = weft_k_rem(k, tile, per_batch);
    }
    weft_kval group = weft_k_index(k, raster->group), per_group = weft_k_mul(k, raster->tiles_n, group);
    weft_kval first = weft_k_mul(k, weft_k_div(k, tile, per_group), group);
    weft_kval rows = weft_k_min(k, weft_k_sub(k, raster->tiles_m, first), group), rest = weft_k_rem(k, tile, per_group);
    place.m = weft_k_mul(k, weft_k_add(k, first, weft_k_rem(k, rest, rows)), weft_k_index(k, raster->tile_m));
    place.n = weft_k_mul(k, weft_k_div(k, rest, rows), weft_k_index(k, raster->tile_n));
    return place;
}

weft_kval weft_raster_number(weft_kernel *k, const weft_raster *raster, weft_kval batch, weft_kval row,
                             weft_kval column) {
    weft_kval group = weft_k_index(k, raster->group), inside = weft_k_rem(k, row, group),
              first = weft_k_sub(k, row, inside);
    weft_kval rows = weft_k_min(k, weft_k_sub(k, raster->tiles_m, first), group);
    weft_kval number =
        weft_k_add(k, weft_k_mul(k, first, raster->tiles_n), weft_k_add(k, weft_k_mul(k, column, rows), inside));
    if (!raster->batched) return number;
    return weft_k_add(k, number, weft_k_mul(k, batch, weft_k_mul(k, raster->tiles_m, raster->tiles_n)));
}
