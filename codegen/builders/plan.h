/* What builders share beside the evaluator: making a kernel plan, and facts about a fusion that set tile sizes. */
#ifndef WEFT_CODEGEN_BUILDERS_PLAN_H
#define WEFT_CODEGEN_BUILDERS_PLAN_H

#include "codegen/builders/index.h"

/* A plan with zeroed launches and temporaries. */
weft_status weft_plan_init(const weft_build_request *request, int launches, int temps, weft_kernel_plan *out_plan) WEFT_MUST_USE;
/* A kernel named after the request and a suffix ("" for the only one). NULL = out of memory. */
weft_kernel *weft_plan_kernel(const weft_build_request *request, const char *suffix);
/* Launch `launch` is this kernel, always. */
weft_status weft_plan_set(const weft_build_request *request, weft_kernel_plan *plan, int launch, weft_kernel *kernel) WEFT_MUST_USE;

/* The pointwise builder: also what other builders fall back to for regions that have a value at an index. */
bool weft_pointwise_accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability, const char **out_reason);
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
/* All results empty for sure: nothing to launch. */
bool weft_fusion_is_empty(const weft_build_request *request);
/* An index of the last kept piece: lanes of the tail go one by one, or under a mask where masked memory is cheap. */
bool weft_tail_is_masked(const weft_build_request *request);
/* First op of the fusion with this code; NULL. */
const weft_node *weft_fusion_find(const weft_node *fusion, weft_op op);
/* max(1, floor(a / b)), b >= 1 */
weft_dim weft_dim_at_least_one(weft_dim_table *table, weft_dim dim);

#endif
