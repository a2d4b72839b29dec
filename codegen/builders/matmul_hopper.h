/* What the files of the Hopper matmul share. Shapes: A tile bm x bk, B tile bn x bk per stage, where bk elements are
   128 bytes (128 of 8 bits, 64 of 16, 32 of f32). The consumer warpgroups of a block either share a tile, 64 x bn of
   the output each, or take turns: each has whole tiles of `blocks` times 64 rows, every other one of the block's, and
   sends one while the other multiplies. An output leaves in chunks of 64 rows of 128 bytes. Read next: matmul_hopper.c;
   README.md has a line for each of its files. */
#ifndef WEFT_CODEGEN_BUILDERS_MATMUL_HOPPER_H
#define WEFT_CODEGEN_BUILDERS_MATMUL_HOPPER_H

#include "codegen/builders/index.h"
#include "codegen/builders/product.h"
#include "codegen/builders/ragged.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/epilogue.h"
#include "codegen/tile/layout.h"
#include "codegen/tile/raster.h"
#include "codegen/tile/ring.h"

enum {
    HOPPER_ROW_BYTES = 128,
    HOPPER_CHUNK_BYTES = 64 * 128,
    HOPPER_BOX_BYTES = 64 * 128,
    HOPPER_OUTS_MAX = 3,
    HOPPER_MANY_OUTS_MAX = 4, /* of f32 results of consumers that take turns, and of results that a companion's chunks
                                 land before: a whole tile's where it has no more, so that no consumer waits for what is
                                 on its way */
    HOPPER_SCALES_MAX = 4,    /* runs of columns of a tile */
    HOPPER_BLOCKS_MAX = 2,
    HOPPER_RESULTS_MAX = 2,
    HOPPER_SPLIT_MAX = 8,
    HOPPER_FOOT_MAX = 64,
    HOPPER_MAPS_MAX = 2 * (4 + HOPPER_RESULTS_MAX), /* of a kernel and its foot's */
    HOPPER_PROMOTED_MAX = 192,                      /* columns: two sets of sums in registers */
    HOPPER_SETS_MAX = 8
};

/* How a result leaves. */
typedef enum weft_hopper_store {
    HOPPER_STORE_DIRECT, /* from registers, pair by pair: other types, many results */
    HOPPER_STORE_PARTS,  /* f32 sums of one part of k, to a temporary that a second launch adds up */
    HOPPER_STORE_TENSOR, /* through shared memory and a tensor map */
    HOPPER_STORE_ROWS    /* through shared memory, rows by a whole warp: pitches that tensor maps cannot take */
} weft_hopper_store;

typedef struct weft_hopper {
    const weft_build_request *request;
    weft_product product;
    weft_ragged ragged; /* node NULL: a product of one piece */
    weft_kernel *k;
    weft_index_context *index;
    int tail; /* columns of the narrow tiles at the right edge, behind whole tiles of bn; 0 = none */
    int deep; /* of narrow tiles: steps of k in a slot of the ring, where it has room for two; of whole ones 1 */
    int foot; /* rows at the end, behind whole tiles, that a kernel of their own computes; 0 = none */
    weft_dim above, rows; /* of the result: those before this kernel's, and those that it has */
    int bm, bn, bk, consumers, cluster, stages, group, outs;
    bool turns;
    int blocks;        /* of 64 rows, in a consumer's part of a tile: 1 unless they take turns */
    int element_bytes; /* of an operand */
    int a_rows;        /* of one box of A, when its memory runs along k */
    int a_loaded;      /* bytes of A that a stage receives */
    weft_async_type unit;
    bool promote; /* sums of one stage are added to f32 sums outside of the matrix unit */
    int a_bytes, b_bytes, stage_bytes;
    weft_hopper_store store;
    int join;         /* parts of k in the blocks of a cluster, which then shares no operand; 1: none */
    int even;         /* steps of k that a cluster has, of any tiles one after another; 0: parts are equal */
    int split, parts; /* parts of k, at most; the temporary that holds their sums, [part, batch, m, n] */
    weft_kval parts_buffer;
    int companion;          /* operand whose tiles arrive in the output's staging; -1 */
    int packed_a, packed_b; /* temporary with a copy of the operand, rows padded; -1 = the operand itself */
    weft_dtype out_dtype;   /* of result 0 */
    int out_bytes, chunk;   /* of an element of every result that is staged: 2 or 4; columns of a chunk of it */
    int results;            /* of the fusion, when they are staged; else 1 */
    /* objects of the kernel */
    weft_kval map_a, map_b, map_out[HOPPER_RESULTS_MAX], map_companion, map_tail;
    weft_kval operands, staging; /* shared */
    weft_kval staged, written;   /* barriers of the staging buffers */
    weft_ring ring;
    weft_raster raster;
    weft_kval rank, first, stride, steps;
    weft_kval part, joined,
        arrived;                  /* with parts in a cluster: this block's; sums from all of them, and their barrier */
    weft_kval whole, idle, spare; /* with a tail: whole tiles of this block; blocks that have narrow ones; its number
                                     among them */
    weft_kval tiles;              /* with a tail: tiles of this block */
    weft_kval bounds, firsts;     /* ragged: shared, of each group and behind the last: its first row, its first tile */
} weft_hopper;

/* The tiles of one block, in order: a loop of three roles must see the same ones. A tile is a number that only these
   functions read. matmul_hopper_tiles.c. */
void weft_hopper_tiles_prepare(weft_hopper *h);
/* Opens the loop over this block's tiles. owner: where consumers take turns, the one whose tiles they are; WEFT_KNONE:
   all of the block's. */
weft_kval weft_hopper_tiles_for(weft_hopper *h, weft_kval owner);
weft_kval weft_hopper_tile_first(weft_hopper *h, weft_kval owner);
/* The next one of the same owner. */
weft_kval weft_hopper_tile_next(weft_hopper *h, weft_kval tile, weft_kval owner);
weft_kval weft_hopper_tile_exists(weft_hopper *h, weft_kval tile);
weft_tile_place weft_hopper_tile_place(weft_hopper *h, weft_kval tile);
/* Its part of k, and the steps from *out_first up to *out_end that make it. */
weft_kval weft_hopper_tile_part(weft_hopper *h, weft_kval tile, weft_tile_place place, weft_kval *out_first,
                                weft_kval *out_end);
/* Where the rows of a tile end: those of the result, or of the tile's group. */
weft_kval weft_hopper_rows_end(weft_hopper *h, weft_tile_place place);
/* Is it a narrow one? WEFT_KNONE: there are none. */
weft_kval weft_hopper_tile_is_tail(weft_hopper *h, weft_kval tile);

/* Behind those that the plan has. */
weft_status weft_hopper_make_maps(weft_hopper *h, weft_kernel_plan *plan) WEFT_MUST_USE;
/* Is the operand copied once, when the program is loaded? */
bool weft_hopper_is_constant(const weft_hopper *h, const weft_product_side *side);
static inline weft_dtype weft_hopper_dtype(const weft_hopper *h, const weft_product_side *side) {
    return side == &h->product.b ? h->product.dtype_b : h->product.dtype;
}

/* Bytes that a step of a narrow tile's B takes. */
static inline int weft_hopper_tail_bytes(const weft_hopper *h) {
    return h->product.b.k_contiguous ? h->tail * HOPPER_ROW_BYTES : HOPPER_BOX_BYTES;
}
/* Slots that `steps` steps of k take. */
static inline weft_kval weft_hopper_slots(weft_hopper *h, weft_kval steps, int deep) {
    if (deep == 1) return steps;
    weft_kval more = weft_k_add(h->k, steps, weft_k_index(h->k, deep - 1));
    return weft_k_div(h->k, more, weft_k_index(h->k, deep));
}

/* -- matmul_hopper_movers.c: the branch of warpgroup 0 */
void weft_hopper_emit_movers(weft_hopper *h, weft_kval thread);
/* Whose tiles a consumer, and its mover, walk through. */
static inline weft_kval weft_hopper_owner(const weft_hopper *h, weft_kval consumer) {
    return h->turns ? consumer : WEFT_KNONE;
}
/* Rows of the block's tile above those of a consumer. */
weft_kval weft_hopper_rows_above(weft_hopper *h, weft_kval consumer);
/* The number of a consumer's staging buffer, and of its two barriers. */
weft_kval weft_hopper_staging(weft_hopper *h, weft_kval consumer, int buffer);

/* -- matmul_hopper_ragged.c: products of groups of rows */
static inline bool weft_hopper_by_rows(const weft_hopper *h) { return h->ragged.node && h->ragged.by_rows; }
/* ... whose rows are contracted, a product for each group */
static inline bool weft_hopper_by_group(const weft_hopper *h) { return h->ragged.node && !h->ragged.by_rows; }
/* The product of a fusion, or the one that each group has; *out_ragged with node NULL: the former. */
bool weft_hopper_find(const weft_graph *graph, const weft_node *fusion, weft_product *out_product,
                      weft_ragged *out_ragged, const char **out_reason);
/* Before the roles, by all threads: where groups lie, in shared memory. */
void weft_hopper_ragged_prepare(weft_hopper *h, weft_kval thread);
weft_tile_place weft_hopper_ragged_place(weft_hopper *h, weft_kval tile);
/* Tiles that any offsets need at most. */
weft_dim weft_hopper_ragged_tiles(const weft_hopper *h);
/* By the consumers, behind their tiles: results of the rows of no group. thread: of the block's consumers. */
void weft_hopper_ragged_rest(weft_hopper *h, weft_kval thread);
enum {
    HOPPER_CLEARED_MAX = 192 /* columns of a tile */,
    HOPPER_GROUPS_MAX = 512,
    HOPPER_RAGGED_BYTES = 3 * 4 * (HOPPER_GROUPS_MAX + 1)
};

/* -- matmul_hopper_scales.c: a scaled_dot's scales in the registers of a consumer, whose lanes have two rows, 8 apart,
   and all columns of the tile in runs of `columns` that share a scale of B */
typedef struct weft_hopper_scales {
    int columns;
    weft_kval row[2], run[HOPPER_SCALES_MAX];           /* where scales of this tile start in memory */
    weft_kval next_row[2], next_run[HOPPER_SCALES_MAX]; /* variables: those of the step to come */
    weft_kval product[HOPPER_SCALES_MAX][2];            /* of the step */
} weft_hopper_scales;
/* Loads those of step `first`. row: the upper row of this lane. */
void weft_hopper_scales_begin(weft_hopper *h, weft_tile_place place, weft_kval row, weft_kval first,
                              weft_hopper_scales *out_scales);
/* At the start of a step: their products. */
void weft_hopper_scales_step(weft_hopper *h, weft_hopper_scales *scales);
/* While the unit works: loads those of step `next`, which need not exist. */
void weft_hopper_scales_load(weft_hopper *h, weft_kval next, const weft_hopper_scales *scales);
/* May this scaled_dot stay whole for this target? */
bool weft_hopper_scales_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability);

/* Emits the body of h->k: everything after the arguments. */
weft_status weft_hopper_emit(weft_hopper *h);
/* The launches that copy operands which tensor copies or the unit cannot take as they lie; sets h->packed_* and, where
   a copy turned it, h->product. The plan has more launches: the product, its foot, or what adds its parts. */
weft_status weft_hopper_plan_packing(weft_hopper *h, weft_kernel_plan *plan) WEFT_MUST_USE;
/* The body of a kernel that turns tiles of 64 x 64 through shared memory: [batch, depth, free] to [batch, free,
   padded], the first `depth` of each row; sets threads and grid. */
void weft_hopper_turn(weft_kernel *k, weft_kval from, weft_kval to, weft_dim batches, weft_dim depth, weft_dim free,
                      weft_dim padded);
/* -- matmul_hopper_join.c: parts of k in a cluster */
void weft_hopper_join_create(weft_hopper *h);
/* By one thread, before the cluster synchronises. */
void weft_hopper_join_init(weft_hopper *h);
/* The whole sums of this block's columns, bn / join of the tile's, in registers as a tile of that width has them. */
weft_kval weft_hopper_join(weft_hopper *h, weft_kval sums, weft_kval consumer, weft_kval warp, weft_kval lane);
/* The launch behind the product that adds the parts in their order and computes the results. */
weft_status weft_hopper_plan_sum(const weft_hopper *h, weft_kernel_plan *plan) WEFT_MUST_USE;
static inline bool weft_hopper_staged(const weft_hopper *h) {
    return h->store == HOPPER_STORE_TENSOR || h->store == HOPPER_STORE_ROWS;
}
/* Elements from one row of such a copy to the next. */
weft_dim weft_hopper_padded(const weft_hopper *h, weft_dim pitch);
/* -- matmul_hopper_schedule.c */
int weft_hopper_propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules);
/* Staging buffers of a consumer whose part of a tile is `chunks` chunks: they divide those, so that chunk c always uses
   buffer c % outs. */
int weft_hopper_outs(int chunks, int limit);
/* The most of them. staged: bytes of an element; slow: a companion's chunk is fetched into each first. */
static inline int weft_hopper_outs_limit(int staged, bool turns, bool slow) {
    return slow || (staged == 4 && turns) ? HOPPER_MANY_OUTS_MAX : HOPPER_OUTS_MAX;
}
/* Bytes of an element of results that leave through shared memory; 0: they leave from registers. */
int weft_hopper_staged_bytes(const weft_build_request *request, const weft_product *product);
/* Columns of narrow tiles that tiles of bn columns are worth: up to 64 behind whole tiles; 0: none. */
int weft_hopper_tail(const weft_build_request *request, const weft_product *product, int bn);
/* Columns of the tiles of 64 rows that the foot of a product has: one round of the machine if possible. */
int weft_hopper_foot_columns(const weft_capability *capability, const weft_product *product);
/* Shared memory of a configuration. */
int64_t weft_hopper_shared_bytes(int bm, int bn, int stages, int consumers, int outs);

#endif
