/* ragged_dot inside a fusion, as builders see it, and where groups of rows lie: found in the kernel, from offsets in
   device memory, so that nobody has to wait for them. Letters: x [M, K], w [G, K, N] or [G, N, K] (or [M, N] where rows
   are contracted); a segment is a group, or the rows before the first or behind the last, which are products of
   nothing. Read next: ragged.c, ragged_simt.c, ragged_cpu.c. Immutable once found. */
#ifndef WEFT_CODEGEN_BUILDERS_RAGGED_H
#define WEFT_CODEGEN_BUILDERS_RAGGED_H

#include "codegen/builders/index.h"

typedef struct weft_ragged {
    const weft_node *node;
    bool by_rows; /* else rows are contracted: a product [K, N] for each group */
    bool w_along_k;
    weft_dtype dtype; /* of x and w */
    weft_dim rows, k, n, groups;
    int x, w, offsets; /* operands of the fusion */
} weft_ragged;

/* The only ragged_dot of the region, all operands in memory, its epilogue elementwise; false: *out_reason. */
bool weft_ragged_find(const weft_graph *graph, const weft_node *fusion, weft_ragged *out_ragged,
                      const char **out_reason);

/* By rows, each segment cut into tiles of `tile` rows: no more than so many. */
weft_dim weft_ragged_tiles(weft_dim_table *dims, const weft_ragged *r, int tile);

/* A tile: its rows from `first`, the segment's end, the group. Past the last tile first = end = 0. dead: the rows of no
   group (or no rows). */
typedef struct weft_ragged_tile {
    weft_kval group, first, end, dead;
} weft_ragged_tile;
weft_ragged_tile weft_ragged_find_tile(weft_index_context *c, const weft_ragged *r, weft_kval tile, int rows);

/* offsets[g], clamped to the rows, as an index. */
weft_kval weft_ragged_offset(weft_index_context *c, const weft_ragged *r, weft_kval g);
/* The rows of group g, [*out_first, *out_end). */
void weft_ragged_find_group(weft_index_context *c, const weft_ragged *r, weft_kval group, weft_kval *out_first,
                            weft_kval *out_end);

#endif
