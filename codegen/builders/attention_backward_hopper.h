/* What the files of the backward pass of the Hopper attention share. Letters: T queries, S keys, D head dim, H query
   heads and Hkv key heads of a batch, G = H / Hkv.

   Statistics (log-sum-exp in base 2, delta) and sums of dQ are padded: every head has whole tiles of bm queries.
   Reading order: attention_backward_hopper.c (the plan), _rows.c (before and after), _keys.c (dK and dV), _queries.c
   (dQ). */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_BACKWARD_HOPPER_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_BACKWARD_HOPPER_H

#include "codegen/builders/attention_blocks.h"
#include "codegen/builders/attention_draw.h"
#include "codegen/builders/attention_side.h"
#include "codegen/builders/plan.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/spell.h"
#include "codegen/tile/wgmma.h"

enum {
    WEFT_BACKWARD_KEYS = 128, /* of a block; two consumer warpgroups */
    WEFT_BACKWARD_ROWS = 64,  /* of a consumer */
    WEFT_BACKWARD_CONSUMERS = 2,
    WEFT_BACKWARD_THREADS = 384,
    WEFT_BACKWARD_GIVE = 24, /* registers a thread of the producer keeps, and a consumer has */
    WEFT_BACKWARD_TAKE = 240,
    WEFT_BACKWARD_GIVE_64 = 40, /* the same where the producer's addresses need more, as with D = 64 */
    WEFT_BACKWARD_TAKE_64 = 232
};

/* schedule.way. Turns: the consumers of the kernel of keys, or of queries, issue their products one after the other, so
   that one makes weights while the other multiplies. Two keys: keys and values of the next tile are loaded beside those
   in use. Separate: two kernels, and statistics come from "prepare", not from the kernel of queries. */
enum {
    WEFT_BACKWARD_TURNS = 1,
    WEFT_BACKWARD_TWO_KEYS = 2,
    WEFT_BACKWARD_TURNS_QUERIES = 4,
    WEFT_BACKWARD_SEPARATE = 8
};

/* Operands and results of attention_backward. */
enum { WEFT_BACKWARD_Q, WEFT_BACKWARD_K, WEFT_BACKWARD_V, WEFT_BACKWARD_O, WEFT_BACKWARD_LSE, WEFT_BACKWARD_DO };
enum { WEFT_BACKWARD_DQ, WEFT_BACKWARD_DK, WEFT_BACKWARD_DV, WEFT_BACKWARD_DS };
/* Temporaries of the plan. counters: the next tile of a kernel of keys, two of them. */
enum { WEFT_BACKWARD_LSE2, WEFT_BACKWARD_DELTA, WEFT_BACKWARD_COUNTERS, WEFT_BACKWARD_SUMS, WEFT_BACKWARD_TEMPS };

/* What a kernel of keys computes. Above 128 columns the sums of dK and dV do not fit the registers side by side. */
typedef enum weft_backward_part { WEFT_BACKWARD_BOTH, WEFT_BACKWARD_ONLY_DK, WEFT_BACKWARD_ONLY_DV } weft_backward_part;

typedef struct weft_backward {
    const weft_build_request *request;
    const weft_node *node;
    weft_kernel_plan *plan;
    weft_kernel *k; /* under construction */
    weft_dtype dtype;
    weft_dim queries, keys, heads, key_heads, group; /* heads, key_heads: of all batches together */
    weft_dim tiles, rows;                            /* of bm queries of a head; rows = bm * tiles */
    int width, columns; /* columns: D; width: 64, 128, 192 or 256 columns that a tile has, zeros past D */
    weft_backward_part part;
    int bm, way;
    bool causal;  /* later queries see more keys */
    bool sums;    /* dQ is added up by the kernel of keys */
    bool owned;   /* by one block for each key head, so in a fixed order; its last addition is the result */
    double scale; /* of scores */
    weft_attention_forms forms;
    bool listed; /* two kernels walk lists of what the mask shows: of blocks of keys for tiles of queries, and back */
    weft_attention_pairs query_pairs, key_pairs;
} weft_backward;

/* -- arguments of the kernel under construction. Maps name their memory by its number among the buffers. */
weft_kval weft_backward_operand(weft_backward *b, int operand, const char *name);
weft_kval weft_backward_temp(weft_backward *b, int temp, weft_dtype dtype, bool writes, const char *name);
/* An operand's or result's side through a map of boxes of box_rows rows: declares its buffer, then the map. */
weft_attention_side weft_backward_in(weft_backward *b, int operand, int box_rows, const char *name);
weft_attention_side weft_backward_out(weft_backward *b, int result, int box_rows, const char *name);
/* The same without a map; *out_memory: the buffer. */
weft_attention_side weft_backward_lines_in(weft_backward *b, int operand, const char *name, weft_kval *out_memory);
weft_attention_side weft_backward_lines_out(weft_backward *b, int result, const char *name, weft_kval *out_memory);
/* bm f32 at a time of the buffer declared last; zeros past the last query, whose dO is 0 too. */
weft_kval weft_backward_statistics_map(weft_backward *b, const char *name);
/* A length as an argument, even when it is a number: known trip counts would have loops written out and merged, and
   registers of products in flight moved. */
weft_kval weft_backward_length(weft_backward *b, weft_dim extent);

/* -- the kernels */
void weft_backward_prepare(weft_backward *b); /* statistics; clears sums and counters */
void weft_backward_finish(weft_backward *b);  /* dQ from its sums */
void weft_backward_keys(weft_backward *b);    /* dK, dV, sums of dQ: as b->part says */
void weft_backward_queries(weft_backward *b); /* statistics, dQ; clears counters */

/* -- what kernels with roles have in common */
/* Threads and registers; the grid is `tiles` blocks, at most one a processor. */
void weft_backward_start(weft_backward *b, weft_dim tiles);
/* The rows from `row` of a head: a box for each 64 columns, `box` bytes apart from byte `at`. */
void weft_backward_load(weft_backward *b, weft_kval memory, weft_kval at, int box, const weft_attention_side *side,
                        weft_kval barrier, weft_kval index, weft_kval row, weft_kval head);
/* A consumer's sums [64, D] times a factor as 16-bit rows in shared memory, `row_at`: byte of row lane % 16 of its
   warp; then, by one thread, from byte `at` of it through a map. */
void weft_backward_stage(weft_backward *b, weft_kval sums, double factor, weft_kval memory, weft_kval row_at,
                         weft_kval lane, int box);
void weft_backward_send(weft_backward *b, const weft_attention_side *side, weft_kval memory, weft_kval at, int box,
                        weft_kval row, weft_kval head);

/* -- spelling */
static inline int weft_backward_halves(const weft_backward *b) { return b->width / 64; }
static inline int64_t weft_backward_unit(const weft_backward *b, int n) {
    return weft_async_unit(n, b->dtype == WEFT_F16 ? WEFT_ASYNC_F16 : WEFT_ASYNC_BF16, 0);
}
/* The producer's addresses need more where it knows heads, and the consumers have it to spare. */
static inline bool weft_backward_gives_less(const weft_backward *b) {
    return b->width == 64 || !weft_attention_plain(&b->forms);
}
static inline int weft_backward_give(bool less) { return less ? WEFT_BACKWARD_GIVE_64 : WEFT_BACKWARD_GIVE; }
static inline int weft_backward_take(bool less) { return less ? WEFT_BACKWARD_TAKE_64 : WEFT_BACKWARD_TAKE; }
/* Key or query blocks whose heads share the L2 cache: as many heads side by side as fit. */
weft_kval weft_backward_together(weft_backward *b, weft_dim heads, weft_dim bytes_each);

/* Queries of a tile and keys of a block of the kernel of queries. */
enum { WEFT_BACKWARD_QUERY_TILE = 128 };
static inline bool weft_backward_wide(const weft_backward *b) { return b->width > 128; }
/* Above 128 columns: queries of a step of the kernels of keys, and keys of a block of the kernel of queries. Shared
   memory holds 128 rows of two operands and two stages of that many of the others, registers sums of 64 rows. */
static inline int weft_backward_wide_rows(int width, const weft_attention_forms *forms) {
    int more = (forms->mask != NULL) + (forms->cap > 0) + weft_attention_draws(forms);
    return more > 1 ? 16 : more == 1 ? 32 : width == 192 ? 64 : 48;
}
static inline int weft_backward_query_block(const weft_backward *b) { /* fewer where masks or draws need registers */
    if (weft_backward_wide(b)) return weft_backward_wide_rows(b->width, &b->forms);
    bool forms = !weft_attention_plain(&b->forms), draws = weft_attention_draws(&b->forms) && b->width > 64;
    return forms && draws ? WEFT_BACKWARD_KEYS / 4 : forms || draws ? WEFT_BACKWARD_KEYS / 2 : WEFT_BACKWARD_KEYS;
}

#endif
