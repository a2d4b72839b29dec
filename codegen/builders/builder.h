/* Builders turn one fusion into kernels.

   A fusion is an ir node (op fusion) whose region holds the ops of one group: block arguments = operands, yield =
   results. A builder reads the region and a schedule, and makes a kernel plan: launches in order, each an ordered list
   of variants {conditions, kernel}, plus the temporaries they share. Kernels name their buffers by role (operand,
   result, temporary). Read next: index.h (an op tree evaluated at a point), then one builder: pointwise.c.

   Adding a builder: write <family>.c with a weft_builder record, add the record to builders.c. */
#ifndef WEFT_CODEGEN_BUILDER_H
#define WEFT_CODEGEN_BUILDER_H

#include "base/program.h"
#include "codegen/kernel/kernel.h"
#include "codegen/schedule/schedule.h"
#include "ir/graph.h"

typedef struct weft_plan_variant {
    int condition_count;
    const weft_condition *conditions; /* none for the last variant */
    weft_kernel *kernel;
} weft_plan_variant;

typedef struct weft_plan_launch {
    int variant_count;
    weft_plan_variant *variants;
    bool packs; /* reads constant operands only and writes temporaries marked persistent: runs at load when the operand
                   is a constant */
} weft_plan_launch;

typedef struct weft_plan_temp {
    weft_dim bytes;
    bool persistent; /* a packed form of operand `operand`: kept when that operand is a constant or parameter */
    int operand;
} weft_plan_temp;

typedef struct weft_kernel_plan {
    int launch_count, temp_count, map_count;
    weft_plan_launch *launches;
    weft_plan_temp *temps;
    weft_tensor_map *maps; /* `buffer` = index of the kernel's buffer argument */
} weft_kernel_plan;

typedef struct weft_build_request {
    weft_graph *graph;
    const weft_node *fusion;
    const weft_schedule *schedule;
    const weft_capability *capability;
    weft_arena *arena; /* the plan and its kernels live here */
    const char *name;  /* base of kernel names */
    int thread_count;  /* of the device the plan is for */
} weft_build_request;

typedef struct weft_builder {
    const char *name; /* anchor: the `anchor` attribute of the fusions it takes */
    /* Legal here? When not, *out_reason says why (borrowed); NULL: it is for another class of machines. */
    bool (*accepts)(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason);
    /* Candidate schedules, best first by the analytic model; at most capacity; returns their number (at least 1). */
    int (*propose)(const weft_build_request *request, int capacity, weft_schedule *out_schedules);
    weft_status (*build)(const weft_build_request *request, weft_kernel_plan *out_plan);
} weft_builder;

/* Does some builder take this derived op whole on this target? Then it is not to be written out in core ops. */
bool weft_builder_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability);

/* By anchor and target; NULL when none. One anchor may have several builders (matmul: cpu, simt-fma, simt-mma, hopper):
   the first that accepts is taken. */
const weft_builder *weft_builder_find(const char *anchor, const weft_graph *graph, const weft_node *fusion,
                                      const weft_capability *capability, const char **out_reason);

#endif
