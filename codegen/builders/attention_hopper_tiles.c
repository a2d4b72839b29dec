/* Which tiles a block of attention_hopper.c computes, and in which order: known before it starts, so that sums and bits
   are the same every time.

   Tiles that read the same keys should run at the same time: then keys come from memory once and from the L2 cache for
   the others. Where all tiles are equally long, those of a head follow each other. With a causal mask they are not:
   tiles come longest first, and every other round of the blocks runs backwards, so that none always has the longer
   ones. This over all heads reads keys anew for every few rows of tiles; so heads are taken in sections whose keys fit
   the cache. A section whose tiles fill an even number of rounds but for the shortest ones leaves nobody idle: how many
   heads that are is counted here (8192 queries and keys, tiles of 128, 132 blocks: 4 heads, 256 tiles in two rounds).
   Read next: attention_hopper_consumer.c. */
#include "codegen/builders/attention_hopper.h"

#include <math.h>

/* -- how many heads make a section */

enum { SECTION_TILES = 1 << 15, BLOCKS_MAX = 1024 };
/* A tile begins and ends in about the time of this many blocks of keys. */
static const double TILE_COST = 1.6;
/* What keys in the cache are worth: more imbalance than this is not accepted for them. */
static const double WORTH = 1.04;

typedef struct section_problem {
    int64_t rows, heads, blocks; /* tiles of a head; all heads; blocks of the grid */
    int64_t queries, keys, right;
    int bm, bn;
} section_problem;

static double tile_cost(const section_problem *p, int64_t row) {
    int64_t end = (row + 1) * p->bm + p->keys - p->queries + p->right;
    end = end < 1 ? 1 : end > p->keys ? p->keys : end;
    return TILE_COST + (double)((end + p->bn - 1) / p->bn);
}

/* Adds what each block has to do in `times` sections of `width` heads. */
static void add_section(const section_problem *p, int64_t width, int64_t times, double *costs) {
    for (int64_t place = 0; place < width * p->rows; place++) {
        int64_t round = place / p->blocks, own = place % p->blocks;
        if (round % 2) own = p->blocks - 1 - own;
        costs[own] += (double)times * tile_cost(p, p->rows - 1 - place / width);
    }
}

/* The longest block's work over the mean. */
static double imbalance(const section_problem *p, int64_t width) {
    double costs[BLOCKS_MAX] = {0}, sum = 0, most = 0;
    add_section(p, width, p->heads / width, costs);
    add_section(p, p->heads % width, 1, costs);
    for (int64_t i = 0; i < p->blocks; i++) {
        sum += costs[i];
        most = fmax(most, costs[i]);
    }
    return most * (double)p->blocks / sum;
}

int64_t weft_attention_section(const weft_attention *a, int64_t blocks) {
    const weft_capability *capability = a->request->capability;
    if (!weft_dim_is_number(a->queries) || !weft_dim_is_number(a->keys) || !weft_dim_is_number(a->heads)) return 0;
    section_problem p = {.heads = a->heads,
                         .blocks = blocks,
                         .queries = a->queries,
                         .keys = a->keys,
                         .right = a->forms.right,
                         .bm = 64 * a->consumers,
                         .bn = a->bn};
    p.rows = (p.queries + p.bm - 1) / p.bm;
    int64_t group = weft_dim_is_number(a->group) ? a->group : 1;
    int64_t bytes = p.keys * 4 * a->columns, fit = capability->l2_bytes / 2 / (bytes / group + 1);
    if (fit >= p.heads || p.blocks > BLOCKS_MAX || p.rows * p.heads > ((int64_t)1 << 30)) return 0;
    int64_t best = 0;
    double least = WORTH;
    for (int64_t width = 1; width <= fit && width * p.rows <= SECTION_TILES; width++) {
        double own = imbalance(&p, width);
        if (own < least - 0.002) least = own, best = width;
    }
    return best;
}

/* -- the loops of a block */

static weft_kval backwards_when(weft_kernel *k, weft_kval round, weft_kval own, weft_kval stride) {
    weft_kval odd = weft_k_eq(k, weft_k_bits(k, round, 1), weft_k_index(k, 1));
    return weft_k_select(k, odd, weft_k_sub(k, weft_k_plus(k, stride, -1), own), own);
}

/* Tile of a place among all, longest rows first over all heads. */
static weft_kval over_all_heads(const weft_attention *a, weft_kval place) {
    weft_kernel *k = a->k;
    if (!a->causal) return place;
    weft_kval round = weft_k_div(k, place, a->stride), start = weft_k_mul(k, round, a->stride);
    weft_kval whole = weft_k_le(k, weft_k_add(k, start, a->stride), a->tiles);
    weft_kval turned = backwards_when(k, round, weft_k_sub(k, place, start), a->stride);
    return weft_k_select(k, whole, weft_k_add(k, start, turned), place);
}

/* Head and row, counted from the last one, of the tile that comes next. */
static void open_loops(weft_attention *a, weft_kval *out_head, weft_kval *out_row) {
    weft_kernel *k = a->k;
    weft_kval heads = weft_k_extent(k, a->heads), zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    if (!a->section) {
        weft_kval place = weft_k_for(k, a->first, a->tiles, a->stride, 0);
        bool near = a->together && !a->causal && !a->listed;
        weft_kval tile = over_all_heads(a, place), length = near ? a->tiles_q : heads;
        weft_kval major = weft_k_div(k, tile, length), minor = weft_k_rem(k, tile, length);
        *out_head = near ? major : minor, *out_row = near ? minor : major;
        return;
    }
    weft_kval section = weft_k_for(k, zero, heads, weft_k_index(k, a->section), 0);
    weft_kval width = weft_k_min(k, weft_k_index(k, a->section), weft_k_sub(k, heads, section));
    weft_kval count = weft_k_mul(k, width, a->tiles_q), rounds = weft_k_div(k, count, a->stride);
    weft_kval rest = weft_k_sub(k, count, weft_k_mul(k, rounds, a->stride)),
              last = backwards_when(k, rounds, a->first, a->stride);
    weft_kval own = weft_k_add(k, rounds, weft_k_select(k, weft_k_lt(k, last, rest), one, zero));
    weft_kval round = weft_k_for(k, zero, own, one, 0);
    weft_kval place = weft_k_add(k, weft_k_mul(k, round, a->stride), backwards_when(k, round, a->first, a->stride));
    *out_row = weft_k_div(k, place, width);
    *out_head = weft_k_add(k, section, weft_k_rem(k, place, width));
}

weft_attention_work weft_attention_tiles_begin(weft_attention *a) {
    weft_kernel *k = a->k;
    weft_attention_work work = {.list = WEFT_KNONE};
    int bm = 64 * a->consumers;
    weft_kval row, one = weft_k_index(k, 1);
    open_loops(a, &work.head, &row);
    work.key_head = weft_k_div(k, work.head, weft_k_extent(k, a->group)); /* (b H + h) / G = b Hkv + h / G */
    row = weft_k_sub(k, weft_k_sub(k, a->tiles_q, one), row);
    work.q0 = weft_k_mul(k, row, weft_k_index(k, bm));
    if (a->listed) {
        work.list = weft_attention_list(&a->pairs, work.head, a->forms.heads, row, &work.blocks);
        work.last = weft_attention_block(a, &work, weft_k_index(k, 0), NULL);
        return work;
    }
    weft_kval end = weft_attention_end_key(&a->forms, weft_k_plus(k, work.q0, bm - 1));
    work.blocks = weft_k_max(k, one, weft_k_div(k, weft_k_plus(k, end, a->bn - 1), weft_k_index(k, a->bn)));
    work.last = weft_k_sub(k, work.blocks, one);
    return work;
}

void weft_attention_tiles_end(weft_attention *a) {
    if (a->section) weft_k_end(a->k);
    weft_k_end(a->k);
}
