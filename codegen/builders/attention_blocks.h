/* Which pairs of a tile of queries and a block of keys a bool mask shows that all heads share: sequences side by side,
   padding, any pattern. Two small kernels before attention leave, for each tile the list of its blocks or for each
   block the list of its tiles, the last one first, at least one, with a mark where everything is seen; attention walks
   the lists and masks only what is not marked, so that its time follows what is seen (the block masks of FlexAttention,
   Dong et al. 2024). Read next: attention_blocks.c. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_BLOCKS_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_BLOCKS_H

#include "codegen/builders/attention_score.h"

/* Temporaries, from `temp` on. */
enum { WEFT_ATTENTION_FLAGS, WEFT_ATTENTION_LISTS, WEFT_ATTENTION_COUNTS, WEFT_ATTENTION_TEMPS };

typedef struct weft_attention_pairs {
    const weft_build_request *request;
    weft_attention_forms forms; /* of no kernel */
    weft_dim queries, keys;
    int bm, bn;   /* queries of a tile, keys of a block */
    bool by_keys; /* a list for each block */
    int temp;
    /* in the kernel that walks the lists */
    weft_kernel *k;
    weft_kval lists, counts;
} weft_attention_pairs;

/* Does the mask get lists? */
bool weft_attention_lists(const weft_attention_forms *f);
void weft_attention_list_temps(const weft_attention_pairs *p, weft_kernel_plan *plan);
/* Launches `launch` and the one after it make the lists. */
weft_status weft_attention_add_lists(const weft_attention_pairs *p, weft_kernel_plan *plan, int launch) WEFT_MUST_USE;

void weft_attention_lists_declare(weft_attention_pairs *p, weft_kernel *k);
/* Where the list of tile or block `item` of a head (of all batches, `heads` in each) begins, and its length. */
weft_kval weft_attention_list(const weft_attention_pairs *p, weft_kval head, weft_dim heads, weft_kval item,
                              weft_kval *out_count);
/* Entry i; out_part: NULL, or receives whether some query of the tile does not see some key of the block. */
weft_kval weft_attention_listed(const weft_attention_pairs *p, weft_kval list, weft_kval i, weft_kval *out_part);

#endif
