/* rng_bits at an index: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
   A stream of 32-bit words by row-major index, independent of how the loop runs. */
#include "codegen/builders/index_internal.h"

weft_parts weft_index_rng_bits(weft_index_context *c, const weft_node *node, weft_point *point) {
    (void)point;
    weft_index_problem(c, WEFT_UNSUPPORTED, "rng_bits");
    return weft_parts_one(weft_index_zero(c, node->results[0].type.dtype));
}
