/* scaled_dot by mma.sync: what it takes. Read next: scaled_mma.c. */
#ifndef WEFT_CODEGEN_BUILDERS_SCALED_MMA_H
#define WEFT_CODEGEN_BUILDERS_SCALED_MMA_H

#include "codegen/builders/builder.h"

/* May this scaled_dot stay whole for this target? */
bool weft_scaled_mma_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability);

#endif
