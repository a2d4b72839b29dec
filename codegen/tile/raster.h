/* The order of output tiles: `group` tile rows at a time, column by column, so that the tiles in flight share operands
   in the L2 cache. Batches follow one another. Persistent blocks take tiles first, first + stride, ... */
#ifndef WEFT_CODEGEN_TILE_RASTER_H
#define WEFT_CODEGEN_TILE_RASTER_H

#include "codegen/kernel/build.h"

typedef struct weft_raster {
    int tile_m, tile_n, group;         /* tile_m: of a whole cluster */
    weft_kval tiles_m, tiles_n, tiles; /* tiles: of all batches */
    bool batched;
} weft_raster;

typedef struct weft_tile_place {
    weft_kval m, n, batch; /* first row, first column; batch 0 when there is one */
    /* of products of groups of rows (ragged_dot), by those who find them; others leave them alone */
    weft_kval group, first, end; /* the group, its first row, the end of its rows */
} weft_tile_place;

weft_raster weft_raster_create(weft_kernel *k, weft_dim m, weft_dim n, weft_dim batch, int tile_m, int tile_n,
                               int group);
weft_tile_place weft_raster_place(weft_kernel *k, const weft_raster *raster, weft_kval tile);
/* The number of the tile at these rows and columns of tiles. */
weft_kval weft_raster_number(weft_kernel *k, const weft_raster *raster, weft_kval batch, weft_kval row,
                             weft_kval column);
/* The same number of tiles as an extent, for the grid. */
weft_dim weft_raster_count(weft_dim_table *dims, weft_dim m, weft_dim n, weft_dim batch, int tile_m, int tile_n);

#endif
