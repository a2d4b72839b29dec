/* Where queries, keys, values and results of attention lie: [heads of all batches, rows, D], or heads in the features
   of tokens, [B, rows, X, D], of which X heads first ... are this side's (passes/fuse/heads.h). A side is reached by a
   tensor map, or line by line. Read next: attention_side.c. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_SIDE_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_SIDE_H

#include "codegen/builders/builder.h"
#include "codegen/kernel/build.h"
#include "passes/fuse/heads.h"

typedef struct weft_attention_side {
    weft_kval map; /* WEFT_KNONE: lines only */
    bool tokens_first;
    weft_dim batches, heads, rows, across; /* heads: of a batch; across: X */
    int64_t first;
} weft_attention_side;

/* The argument of the fusion that holds an operand, as it is (out_view->base = the operand) or heads in tokens; NULL:
   computed in the group. */
const weft_value *weft_attention_memory(const weft_graph *graph, const weft_value *operand, weft_head_view *out_view);
/* Are the first `count` operands in memory, and are all results of the fusion results of the node, as they are or with
   tokens first, each once? For attention and attention_backward. */
bool weft_attention_reaches(const weft_graph *graph, const weft_node *fusion, const weft_node *node, int count,
                            const char **out_reason);
/* The same of attention alone, with results in the node's order; only the first may have tokens first. */
bool weft_attention_in_memory(const weft_graph *graph, const weft_node *fusion, const weft_node *node,
                              const char **out_reason);
bool weft_attention_tokens_first(const weft_node *fusion, const weft_node *node);
/* The operand's side, without a map. */
weft_attention_side weft_attention_operand_side(const weft_graph *graph, const weft_value *operand);
/* Which result of the fusion result `index` of the node is: as it is, or with tokens first. -1: neither. */
int weft_attention_result(const weft_node *fusion, const weft_node *node, int index, bool *out_tokens_first);
/* The side of a result of this type [B, H, rows, D]. */
weft_attention_side weft_attention_result_side(const weft_type *type, bool tokens_first);

/* Declares a map of boxes of 64 columns and box_rows rows over buffer number `buffer` of the kernel; columns: D. */
void weft_attention_side_map(weft_attention_side *side, weft_kernel *k, weft_kernel_plan *plan, int buffer,
                             weft_dtype dtype, int columns, int box_rows, bool writes, const char *name);
/* Coordinates of column `column` of row `row` of a head (of all batches); returns their number, 3 or 4. */
int weft_attention_coordinates(weft_kernel *k, const weft_attention_side *side, int column, weft_kval row,
                               weft_kval head, weft_kval *out);
/* Which line of D elements of the memory a row is, and from one row to the next. */
weft_kval weft_attention_line(weft_kernel *k, const weft_attention_side *side, weft_kval row, weft_kval head);
weft_kval weft_attention_line_step(weft_kernel *k, const weft_attention_side *side);

#endif
