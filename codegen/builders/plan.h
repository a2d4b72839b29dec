/* What builders share beside the evaluator: making a kernel plan, and facts about a fusion that set tile sizes. */
#ifndef WEFT_CODEGEN_BUILDERS_PLAN_H
#define WEFT_CODEGEN_BUILDERS_PLAN_H

#include "codegen/builders/index.h"

/* A plan with zeroed launches and temporaries. */
weft_status weft_plan_init(const weft_build_request *request, int launches, int temps,
                           weft_kernel_plan *out_plan) WEFT_MUST_USE;
/* Does an elementwise group read f32 that a group with f8e8m0fnu wrote, whose least is subnormal? */
bool weft_fusion_reads_powers(const weft_node *fusion);
/* A kernel named after the request and a suffix ("" for the only one). NULL = out of memory. */
weft_kernel *weft_plan_kernel(const weft_build_request *request, const char *suffix);
/* Launch `launch` is this kernel, always. */
weft_status weft_plan_set(const weft_build_request *request, weft_kernel_plan *plan, int launch,
                          weft_kernel *kernel) WEFT_MUST_USE;

/* The pointwise builder: also what other builders fall back to for regions that have a value at an index. */
bool weft_pointwise_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                            const char **out_reason);
weft_status weft_pointwise_build(const weft_build_request *request, weft_kernel_plan *out_plan) WEFT_MUST_USE;

/* A builder whose only schedule is "what fits the capability": fills the first candidate. */
int weft_propose_default(const weft_build_request *request, const char *builder, weft_schedule *out_schedules);

static inline bool weft_capability_is_cpu(const weft_capability *capability) { return capability->threads_max == 1; }
/* Bytes of the widest element that the fusion computes with in its lanes. */
int weft_fusion_element_bytes(const weft_node *fusion);
/* Does any value of the fusion have elements below 8 bits in a result? Their stores fill whole bytes. */
bool weft_fusion_stores_narrow(const weft_node *fusion);
/* Lanes of one vector for such elements: a power of two, at least 1. */
int weft_fusion_lanes(const weft_build_request *request);
/* No tensor is known to have more elements than the target's indices reach. */
bool weft_fusion_fits_index(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability);
/* All results empty for sure: nothing to launch. */
bool weft_fusion_is_empty(const weft_build_request *request);
/* An index of the last kept piece: lanes of the tail go one by one, or under a mask where masked memory is cheap. */
bool weft_tail_is_masked(const weft_build_request *request);
/* Does the region hold functions of dozens of instructions (erf, exp, tan ...)? Their code is not repeated for every
   register of a tile: sums go through a staging array and a loop. */
bool weft_fusion_is_long(const weft_node *fusion);
/* First op of the fusion with this code; NULL. */
const weft_node *weft_fusion_find(const weft_node *fusion, weft_op op);
/* max(1, floor(a / b)), b >= 1 */
weft_dim weft_dim_at_least_one(weft_dim_table *table, weft_dim dim);

/* Work that goes item by item: on CPUs a block loops over per_block items, on GPUs each thread has one. Sets grid and
   threads, opens the nest; item is the item's number. */
typedef struct weft_items {
    weft_kval item;
    size_t mark;
} weft_items;
weft_items weft_items_begin(weft_index_context *c, weft_dim count, weft_dim per_block);
void weft_items_end(weft_index_context *c, const weft_items *items);
/* About block_elements of work a block, when an item is `work` elements: items per block. */
weft_dim weft_items_per_block(const weft_build_request *request, weft_dim work);
/* The index of line `line` of a shape along `axis`: all axes but that one; index[axis] is left alone. */
void weft_line_index(weft_index_context *c, int rank, const weft_dim *dims, int axis, weft_kval line,
                     weft_lane_index *out_index);
/* Lines along an axis: product of the other extents. */
weft_dim weft_line_count(const weft_build_request *request, int rank, const weft_dim *dims, int axis);

/* A builder of one op: the only node of the region that has it. */
static inline const weft_node *weft_single_node(const weft_build_request *request, weft_op op) {
    return weft_fusion_find(request->fusion, op);
}
/* accepts hook: every result is yielded by the op that the anchor names; the rest of the region has values at an index.
 */
bool weft_single_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                         const char **out_reason);
int weft_single_propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules);

#endif
