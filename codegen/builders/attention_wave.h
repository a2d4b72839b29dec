/* Attention on units of whole wavefronts. */
#ifndef WEFT_CODEGEN_BUILDERS_ATTENTION_WAVE_H
#define WEFT_CODEGEN_BUILDERS_ATTENTION_WAVE_H

#include "codegen/builders/attention_score.h"
#include "codegen/builders/attention_side.h"

/* Of attention and attention_backward. */
bool weft_attention_wave_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability,
                                const char **out_reason);

#endif
