/* Attention on units of whole wavefronts, and what it shares with the Hopper builder: where operands lie. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_WAVE_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_WAVE_H

#include "codegen/builders/attention_score.h"
#include "passes/fuse/heads.h"

bool weft_attention_wave_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability,
                                const char **out_reason);

/* attention_hopper.c. The argument of the fusion that holds an operand, as it is (out_view->base = the operand) or
   heads in tokens; NULL: computed in the group. */
const weft_value *weft_attention_memory(const weft_graph *graph, const weft_value *operand, weft_head_view *out_view);
/* The result leaves as [B, T, H, D]. */
bool weft_attention_tokens_first(const weft_node *fusion, const weft_node *node);
/* Do the operands come from memory and do the results go there as they are (or tokens first)? */
bool weft_attention_in_memory(const weft_graph *graph, const weft_node *fusion, const weft_node *node,
                              const char **out_reason);

#endif
