/* Which output tiles a block of the Hopper matmul computes. Without a tail: first, first + stride, ... in the raster's
   order, of all tiles. With one, n = whole tiles of bn columns and up to 64 more: the narrow tiles at the right edge
   come last, and only to the blocks that the last round of whole tiles leaves idle, so that a few columns more do not
   cost a round of whole tiles. With k split, every tile is one for each part of k, parts of a tile next to each other.
   Where clusters have an even share of all steps instead, a cluster's first and last tile are its own in part.
   Rows at the end that would cost a round of tiles are the foot's, a kernel whose tiles begin below the others.
   Consumers that take turns have every other tile of the block. With parts of k in a cluster, its blocks have one tile.
   Read next: codegen/tile/raster.h. */
#include "codegen/builders/matmul_hopper.h"

static weft_kval index_of(weft_hopper *h, int64_t value) { return weft_k_index(h->k, value); }

static weft_dim rows_of_tiles(const weft_hopper *h) {
    weft_dim_table *dims = h->k->dims;
    return weft_dim_multiply(dims, weft_dim_divide_ceil(dims, h->rows, (int64_t)h->bm * h->cluster), h->product.batch);
}

void weft_hopper_tiles_prepare(weft_hopper *h) {
    weft_kernel *k = h->k;
    if (weft_hopper_by_rows(h)) return; /* weft_hopper_ragged_prepare */
    weft_dim n = h->tail ? h->product.n / h->bn * h->bn : h->product.n;
    h->raster = weft_raster_create(k, h->rows, n, h->product.batch, h->bm * h->cluster, h->bn, h->group);
    if (!h->tail) return;
    weft_kval zero = index_of(h, 0), one = index_of(h, 1), tails = weft_k_extent(k, rows_of_tiles(h));
    weft_kval busy = weft_k_rem(k, h->raster.tiles, h->stride); /* blocks of the last, partial round */
    weft_kval has_more = weft_k_lt(k, h->first, busy);
    h->whole = weft_k_add(k, weft_k_div(k, h->raster.tiles, h->stride), weft_k_select(k, has_more, one, zero));
    h->idle = weft_k_sub(k, h->stride, busy);
    h->spare = weft_k_sub(k, h->first, busy);
    weft_kval left = weft_k_max(k, weft_k_sub(k, weft_k_add(k, tails, weft_k_sub(k, h->idle, one)), h->spare), zero);
    h->tiles = weft_k_add(k, h->whole, weft_k_select(k, has_more, zero, weft_k_div(k, left, h->idle)));
}

/* From one tile to the next of the same owner. */
static weft_kval stride_of(weft_hopper *h, weft_kval owner) {
    if (h->tail) return index_of(h, 1);
    return owner == WEFT_KNONE ? h->stride : weft_k_mul(h->k, h->stride, index_of(h, h->consumers));
}

/* The first of all steps that this cluster has, and the one behind its last; tiles of h->steps each. */
static weft_kval share_of(weft_hopper *h, weft_kval *out_end) {
    weft_kernel *k = h->k;
    weft_kval begin = weft_k_mul(k, h->first, index_of(h, h->even)), all = weft_k_mul(k, h->raster.tiles, h->steps);
    *out_end = weft_k_min(k, weft_k_add(k, begin, index_of(h, h->even)), all);
    return begin;
}

weft_kval weft_hopper_tiles_for(weft_hopper *h, weft_kval owner) {
    if (h->even) {
        weft_kval end, begin = share_of(h, &end), one = index_of(h, 1);
        end = weft_k_div(h->k, weft_k_add(h->k, end, weft_k_sub(h->k, h->steps, one)), h->steps);
        return weft_k_for(h->k, weft_k_div(h->k, begin, h->steps), end, one, 0);
    }
    weft_kval tiles = h->tail ? h->tiles : weft_k_mul(h->k, h->raster.tiles, index_of(h, h->split));
    return weft_k_for(h->k, weft_hopper_tile_first(h, owner), tiles, stride_of(h, owner), 0);
}

weft_kval weft_hopper_tile_first(weft_hopper *h, weft_kval owner) {
    if (h->tail) return index_of(h, 0);
    return owner == WEFT_KNONE ? h->first : weft_k_add(h->k, h->first, weft_k_mul(h->k, owner, h->stride));
}

weft_kval weft_hopper_tile_next(weft_hopper *h, weft_kval tile, weft_kval owner) {
    return weft_k_add(h->k, tile, stride_of(h, owner));
}

weft_kval weft_hopper_tile_exists(weft_hopper *h, weft_kval tile) {
    return weft_k_lt(h->k, tile, h->tail ? h->tiles : h->raster.tiles);
}

weft_kval weft_hopper_tile_is_tail(weft_hopper *h, weft_kval tile) {
    return h->tail ? weft_k_le(h->k, h->whole, tile) : WEFT_KNONE;
}

weft_kval weft_hopper_rows_end(weft_hopper *h, weft_tile_place place) {
    return weft_hopper_by_rows(h) ? place.end : weft_k_extent(h->k, h->product.m);
}

weft_kval weft_hopper_tile_part(weft_hopper *h, weft_kval tile, weft_tile_place place, weft_kval *out_first,
                                weft_kval *out_end) {
    weft_kernel *k = h->k;
    *out_first = index_of(h, 0), *out_end = h->steps;
    if (weft_hopper_by_group(h)) {
        weft_kval rows = weft_k_sub(k, place.end, place.first), depth = index_of(h, h->bk);
        *out_end = weft_k_div(k, weft_k_add(k, rows, index_of(h, h->bk - 1)), depth);
    }
    if (h->split == 1 && h->join == 1) return index_of(h, 0);
    if (h->even) { /* the number of the part: of the clusters that have some of the tile */
        weft_kval before = weft_k_mul(k, tile, h->steps), end, begin = share_of(h, &end);
        *out_first = weft_k_max(k, weft_k_sub(k, begin, before), index_of(h, 0));
        *out_end = weft_k_min(k, weft_k_sub(k, end, before), h->steps);
        return weft_k_sub(k, h->first, weft_k_div(k, before, index_of(h, h->even)));
    }
    weft_kval split = index_of(h, h->join > 1 ? h->join : h->split),
              part = h->join > 1 ? h->part : weft_k_rem(k, tile, split);
    *out_first = weft_k_div(k, weft_k_mul(k, part, h->steps), split);
    *out_end = weft_k_div(k, weft_k_mul(k, weft_k_add(k, part, index_of(h, 1)), h->steps), split);
    return part;
}

weft_tile_place weft_hopper_tile_place(weft_hopper *h, weft_kval tile) {
    weft_kernel *k = h->k;
    if (h->ragged.node) return weft_hopper_ragged_place(h, tile);
    if (h->even) return weft_raster_place(k, &h->raster, tile);
    if (!h->tail) {
        weft_tile_place whole = weft_raster_place(k, &h->raster, weft_k_div(k, tile, index_of(h, h->split)));
        if (h->above != 0) whole.m = weft_k_add(k, whole.m, weft_k_extent(k, h->above));
        return whole;
    }
    weft_kval narrow = weft_hopper_tile_is_tail(h, tile), row;
    weft_tile_place place = weft_raster_place(k, &h->raster, weft_k_add(k, h->first, weft_k_mul(k, tile, h->stride)));
    row = weft_k_add(k, h->spare, weft_k_mul(k, weft_k_sub(k, tile, h->whole), h->idle));
    if (h->raster.batched) {
        place.batch = weft_k_select(k, narrow, weft_k_div(k, row, h->raster.tiles_m), place.batch);
        row = weft_k_rem(k, row, h->raster.tiles_m);
    }
    place.m = weft_k_select(k, narrow, weft_k_mul(k, row, index_of(h, h->raster.tile_m)), place.m);
    place.n = weft_k_select(k, narrow, index_of(h, h->product.n / h->bn * h->bn), place.n);
    return place;
}
