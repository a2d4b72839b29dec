/* Making fusion groups out of parts of others, after "fuse": what recompute.c and budget.c build with.

   Begin a region, say what its arguments stand for, copy nodes or whole values of older groups into it, end it.
   Without memory functions return false or NULL and the graph knows. Read next: region.c. */
#ifndef WEFT_PASSES_FUSE_REGION_H
#define WEFT_PASSES_FUSE_REGION_H

#include "ir/build.h"

enum { WEFT_FUSE_OPERANDS_MAX = 512, WEFT_FUSE_RESULTS_MAX = 256, WEFT_FUSE_YIELDS_MAX = WEFT_FUSE_RESULTS_MAX + 8 };

typedef struct weft_fuse_region {
    weft_graph *graph;
    weft_region *region;
    weft_value_map map; /* inner values of old groups -> those of the new region */
    int operand_count;
    weft_value *operands[WEFT_FUSE_OPERANDS_MAX];
    weft_place outside;
} weft_fuse_region;

bool weft_fuse_region_begin(weft_graph *graph, weft_fuse_region *out_region);
/* The argument for a value outside. */
weft_value *weft_fuse_region_argument(weft_fuse_region *region, weft_value *outer);
/* Copies a node whose operands are mapped. */
bool weft_fuse_region_copy_node(weft_fuse_region *region, const weft_node *node);
/* Copies what `value` of the group needs; operands of the group that are not mapped yet become arguments. */
bool weft_fuse_region_copy(weft_fuse_region *region, const weft_node *group, weft_value *value);
/* Ends the region with what these inner values were mapped to and puts the group before `before`. To be called also
   after a failure, with count -1. NULL without memory. */
weft_node *weft_fuse_region_end(weft_fuse_region *region, weft_node *before, const char *anchor, weft_location location,
                                int count, weft_value *const *inner);

static inline const char *weft_fuse_anchor_of(const weft_node *group) {
    return weft_node_string(group, WEFT_ATTR_anchor, "");
}
static inline weft_block *weft_fuse_inside(const weft_node *group) { return group->regions[0]->block; }
/* What the group's result is inside. */
static inline weft_value *weft_fuse_inner(const weft_node *group, int result) {
    return weft_fuse_inside(group)->last->operands[result];
}
/* Elements and bytes of a value; -1 where an extent is open or the number too large. */
int64_t weft_fuse_elements(const weft_type *type);
double weft_fuse_bytes(const weft_type *type);

#endif
