/* What the files of the Hopper attention share. Letters: T queries, S keys, D head dim, H query heads and Hkv key heads
   of a batch, G = H / Hkv. A tile is bm = 64 * consumers queries of one head; keys come in blocks of bn. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_HOPPER_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_HOPPER_H

#include "codegen/builders/attention_blocks.h"
#include "codegen/builders/attention_side.h"
#include "codegen/tile/layout.h"
#include "codegen/tile/spell.h"

/* schedule.way. Together: tiles that read the same keys run at the same time (attention_hopper_tiles.c). */
enum { WEFT_ATTENTION_TOGETHER = 1 };

typedef struct weft_attention {
    const weft_build_request *request;
    weft_kernel *k;
    weft_dtype dtype;
    weft_dim queries, keys, heads, group; /* heads: of all batches together; group: G */
    int width, columns;                   /* columns: D; width: what products take, a multiple of 16, zeros past D */
    bool together;                        /* schedule.way */
    int64_t section;                      /* heads whose tiles come before all others; 0: all of them */
    bool causal;                          /* later queries see more keys: tiles differ in length */
    double scale;                         /* of scores in the exponent, in base 2 */
    weft_attention_forms forms;
    int consumers, bn, stages, q_buffers; /* q_buffers: tiles whose queries are in shared memory at once */
    /* objects */
    weft_attention_side q, k_side, v, out;
    weft_kval lse; /* WEFT_KNONE where nobody asks for it */
    weft_kval q_memory, k_memory, v_memory;
    weft_ring q_ring, k_ring, v_ring;
    bool listed; /* tiles visit the blocks of their lists; else all within the window */
    weft_attention_pairs pairs;
    weft_kval tiles, tiles_q, first, stride, t, s; /* t, s: T and S as values */
} weft_attention;

/* Head of a tile, its key head, its first query, the last block of keys that it reads and how many down from there, or
   how many of its list. */
typedef struct weft_attention_work {
    weft_kval head, key_head, q0, last, blocks, list;
} weft_attention_work;
/* Does a builder take this node, attention or attention_backward? When not, *out_reason says why. */
bool weft_attention_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability,
                           const char **out_reason);
/* No window to the left: the pass decompose makes it a bool mask, whose lists of blocks the kernels walk. */
bool weft_attention_walks(const weft_node *node, const char **out_reason);
/* The block of step i of a tile; out_part: NULL, or receives whether its scores are to be masked, WEFT_KNONE: always.
 */
weft_kval weft_attention_block(const weft_attention *a, const weft_attention_work *work, weft_kval i,
                               weft_kval *out_part);
/* A loop over the tiles of a block, in order, around what is emitted between the two. */
weft_attention_work weft_attention_tiles_begin(weft_attention *a);
void weft_attention_tiles_end(weft_attention *a);
/* Heads of a section on a grid of so many blocks; 0: one of all heads. */
int64_t weft_attention_section(const weft_attention *a, int64_t blocks);
/* Head dim in whole boxes of 64 columns, as it lies in shared memory. */
int weft_attention_width(const weft_type *q);
void weft_attention_emit(weft_attention *a);
/* The consumer role: attention_hopper_consumer.c */
void weft_attention_consumer(weft_attention *a, weft_kval thread);

static inline int weft_attention_boxes(const weft_attention *a) { return (a->columns + 63) / 64; }
static inline int weft_attention_box_bytes(const weft_attention *a) { return a->bn * 128; }
static inline int weft_attention_kv_bytes(const weft_attention *a) {
    return weft_attention_boxes(a) * weft_attention_box_bytes(a);
}
static inline int weft_attention_q_bytes(const weft_attention *a) { /* of one consumer */
    return weft_attention_boxes(a) * 64 * 128;
}

#endif
