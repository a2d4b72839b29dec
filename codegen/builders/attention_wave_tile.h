/* What attention and its backward pass for AMD's matrix units share: tiles in shared memory, and products whose sums
   are the next product's operands.

   A block has 128 rows of its own (queries, or keys), 256 threads; each lane has one of them, `line` of its wavefront,
   together with the other `groups` of lanes. It walks tiles of the other side's rows. A product's operand a are rows of
   the tile (or of the tile turned: columns), operand b the lanes' own rows, so sums have the own row as column and what
   a lane has of it is several of the tile's rows. To the next product those are operand b as they lie: to a product any
   order of its depth is the same, and the turned tile is read in the order that the sums have. Only gfx11, whose
   operands are held by both halves of a wavefront, exchanges them. W = D rounded up to 32, 64 or 128.
   Read next: attention_wave_tile.c, attention_wave.c, attention_backward_wave.c. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_WAVE_TILE_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_WAVE_TILE_H

#include "codegen/builders/attention_side.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/spell.h"

enum {
    WEFT_WAVE_THREADS = 256,
    WEFT_WAVE_OWN = 128,  /* own rows of a block */
    WEFT_WAVE_PAD = 8,    /* elements behind a row of shared memory: keeps rows apart in the banks */
    WEFT_WAVE_DEPTH = 16, /* of the unit */
    WEFT_WAVE_LANES = 8   /* of 16 bits in 16 bytes */
};

typedef struct weft_wave_tile {
    weft_kernel *k;
    weft_dtype dtype;
    int64_t unit_id;
    const weft_wave_unit *unit;
    int columns, width;          /* D, W */
    weft_kval thread, lane, own; /* own: row of the lane in the block */
    weft_kval line, group;       /* lane % size, lane / size */
    weft_kval a_regs, b_regs;    /* operands of one product */
} weft_wave_tile;

/* The unit for 16-bit operands of this head dim; false: the target has none of this depth. */
bool weft_wave_tile_init(weft_wave_tile *t, const weft_capability *capability, weft_dtype dtype, int columns);
/* The place of this thread, registers of operands. */
void weft_wave_tile_start(weft_wave_tile *t, weft_kernel *k);
static inline int weft_wave_tiles(const weft_wave_tile *t, int extent) { return extent / t->unit->size; }

/* -- memory */
/* `lanes` columns from `column` on of a row that starts at element `start`; zero from D on. */
weft_kval weft_wave_load(const weft_wave_tile *t, weft_kval buffer, weft_kval start, weft_kval column, int lanes);
weft_kval weft_wave_shared_load(const weft_wave_tile *t, weft_kval shared, weft_kval at, int lanes);
void weft_wave_shared_store(const weft_wave_tile *t, weft_kval shared, weft_kval at, weft_kval value, int lanes);
/* Element (row, 0) of a head of all batches. */
weft_kval weft_wave_line(const weft_wave_tile *t, const weft_attention_side *side, weft_kval head, weft_kval row);
/* `sums` of W columns for each own row, times a factor, to a row of memory; exists: is the row there? */
void weft_wave_store(const weft_wave_tile *t, weft_kval sums, weft_kval factor, weft_kval buffer, weft_kval start,
                     weft_kval exists);

/* -- tiles of the other side: each thread has `deep` rows of four columns, or, where nobody reads the tile turned and
   it has that many, `deep` chunks of eight columns */
typedef struct weft_wave_block {
    weft_attention_side side;
    weft_kval buffer;
    int rows, deep;
    weft_kval words;         /* registers on the way */
    weft_kval plain, turned; /* shared memory: rows of W + PAD; columns of rows + PAD. WEFT_KNONE: not kept so */
} weft_wave_block;

void weft_wave_block_init(const weft_wave_tile *t, weft_wave_block *block, int rows, bool plain, bool turned);
/* Rows from `first` on into registers; past the end of the side, its last row again. */
void weft_wave_block_fetch(const weft_wave_tile *t, const weft_wave_block *block, weft_kval head, weft_kval first);
void weft_wave_block_keep(const weft_wave_tile *t, const weft_wave_block *block);

/* A walk over tiles of the other side: the next one is on its way into registers while one is multiplied. first: its
   first row. */
typedef struct weft_wave_walk {
    void *of;                                 /* what the three get */
    void (*fetch)(void *of, weft_kval first); /* a tile into registers */
    void (*keep)(void *of);                   /* from there to shared memory */
    void (*multiply)(void *of, weft_kval first);
} weft_wave_walk;

/* Tiles from start to end - 1, of `rows` rows; the first one is fetched even where there is none. */
void weft_wave_walk_emit(const weft_wave_walk *walk, weft_kernel *k, weft_kval start, weft_kval end, int rows);

/* -- operands and products */
/* Step `step` of 16 columns of the row of shared memory that starts at `row`, into registers from `first` on. */
void weft_wave_operand(const weft_wave_tile *t, weft_kval regs, int first, weft_kval shared, weft_kval row, int step);
/* The lane's own row from memory, all W / 16 steps. */
void weft_wave_own(const weft_wave_tile *t, weft_kval regs, weft_kval buffer, weft_kval start);
/* sums[at] += a_regs b, b from register first_b on. */
void weft_wave_product(const weft_wave_tile *t, weft_kval sums, int at, weft_kval b, int first_b);
/* sums = plain tile times own rows: for each of `rows` rows of the tile. */
void weft_wave_multiply(const weft_wave_tile *t, weft_kval sums, int rows, weft_kval plain, weft_kval own);
/* Sums of 16 rows of the tile from `16 u` on as operand b_regs. */
void weft_wave_pack(const weft_wave_tile *t, weft_kval sums, int u);
/* a_regs: columns from `size * tile` on of a turned tile, 16 rows in the order of weft_wave_pack. */
void weft_wave_columns(const weft_wave_tile *t, const weft_wave_block *block, int tile, int u);

/* Row of the tile that sum i of fragment n has, without the lane's part: own_rows * group. */
int weft_wave_own_rows(const weft_wave_tile *t);
weft_kval weft_wave_tile_row(const weft_wave_tile *t, weft_kval first, int n, int i);

#endif
