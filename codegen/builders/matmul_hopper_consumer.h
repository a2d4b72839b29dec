/* A consumer warpgroup of the Hopper matmul, as its main loop and its epilogue see it. Read next:
   matmul_hopper_kernel.c, matmul_hopper_epilogue.c. */
#ifndef WEFT_CODEGEN_BUILDERS_MATMUL_HOPPER_CONSUMER_H
#define WEFT_CODEGEN_BUILDERS_MATMUL_HOPPER_CONSUMER_H

#include "codegen/builders/matmul_hopper.h"

typedef struct weft_hopper_consumer {
    weft_kval number, lane, warp; /* of the warpgroup */
    /* regs for each 64 rows: what wgmma adds to; what the epilogue reads: d, or f32 sums beside it */
    weft_kval d[HOPPER_BLOCKS_MAX], sums[HOPPER_BLOCKS_MAX];
    int block;                       /* of 64 rows, that is sent */
    weft_kval fragment, packed;      /* regs: 4 words of a companion; 4 words that leave */
    weft_kval row_lane, column_lane; /* of this lane in a 64 x bn tile */
    weft_kval row_at, swizzle, half; /* where this lane's row of a 16 x 16 block lies in staging */
    weft_kval ready_phase;
    weft_layout layout;
    weft_ring ring;
    weft_epilogue epilogue[HOPPER_RESULTS_MAX]; /* of each result that is staged */
} weft_hopper_consumer;

/* What a tile knows before its sums: rows of this lane, and pairs of columns. */
typedef struct weft_hopper_places {
    weft_epilogue_row rows[2];
    weft_lane_index columns[32];
    weft_kval masks[32];
} weft_hopper_places;

/* Of 64 rows from m0, before their sums are there. */
void weft_hopper_place_block(weft_hopper *h, const weft_hopper_consumer *c, weft_tile_place place, weft_kval m0,
                             weft_hopper_places *out);
/* The results of the consumer's part of a tile, its rows from m0 on; part: the number of this part of k. places: of its
   first 64 rows. What the evaluator remembers from `mark` on is forgotten. */
void weft_hopper_send_tile(weft_hopper *h, weft_hopper_consumer *c, weft_tile_place place, weft_kval m0, weft_kval part,
                           weft_hopper_places *places, size_t mark);

#endif
