/* From a fused graph to a program: buffers, steps, kernels.

   lower.c walks blocks and makes buffers; lower_fusion.c asks builders for kernel plans (equal groups share one) and
   binds them; lower_control.c makes the regions of while, cond and scan; lower_state.c decides which states change in
   place; structure.c says when two groups are equal; lower_join.c makes one launch of small ones.
   The program refers to extents of its own table (copied expressions), so it outlives graph and kernels. */
#ifndef WEFT_COMPILE_LOWER_H
#define WEFT_COMPILE_LOWER_H

#include "base/program.h"
#include "codegen/builders/builder.h"
#include "codegen/target.h"
#include "ir/graph.h"

typedef struct weft_step_buffer {
    weft_step *steps;
    int count;
    size_t capacity;
} weft_step_buffer;

/* The nodes of the graph that a step comes from: one, or several that share a launch. */
typedef struct weft_step_nodes {
    int count;
    const weft_node *const *nodes;
} weft_step_nodes;

typedef struct weft_lowering {
    weft_graph *graph;
    const weft_capability *capability;
    const weft_target *target;
    int thread_count;
    bool keep_launches;
    weft_arena *arena;        /* of the program: outlives the lowering */
    weft_arena *kernel_arena; /* kernels and plans */
    weft_allocator allocator;
    weft_dim_table *dims; /* of the program */
    weft_map buffers;     /* value -> number + 1 */
    weft_map plans;       /* structure -> shared_plan */
    weft_map constants;   /* tensor -> number + 1 */

    weft_buffer *buffer_list;
    int buffer_count;
    size_t buffer_capacity;
    weft_step_buffer *regions;
    int region_count;
    size_t region_capacity;
    int region;            /* being filled */
    const weft_node *node; /* of the main block that is being lowered */
    weft_step_nodes *main_nodes;
    size_t main_node_capacity;
    weft_kernel **kernels;
    weft_program_kernel *kernel_records;
    int kernel_count;
    size_t kernel_capacity, kernel_record_capacity;
    weft_tensor **weights; /* by buffer, NULL for those without; borrowed from the graph */
    size_t weight_capacity;
    int64_t weights_bytes;
    int plan_count, join_count;
} weft_lowering;

typedef struct weft_lowered {
    weft_program_data *program;  /* in the arena */
    weft_kernel **kernels;       /* program->kernel_count; in the kernel arena */
    weft_step_nodes *main_nodes; /* by step of the main region; in the kernel arena */
    weft_tensor **weights;       /* by buffer: what a constant holds, a state starts with; else NULL; borrowed */
} weft_lowered;

typedef struct weft_lower_settings {
    int thread_count;   /* of the device */
    bool keep_launches; /* lower_join.c stays away */
} weft_lower_settings;

/* graph: after the pass fuse. arena: the program's. kernel_arena: may go once the kernels are compiled. */
weft_status weft_lower(weft_graph *graph, const weft_capability *capability, const weft_lower_settings *settings,
                       weft_arena *arena, weft_arena *kernel_arena, weft_lowered *out_lowered) WEFT_MUST_USE;
/* Ports and symbols of a graph, no steps: what the JIT needs to know. */
weft_status weft_lower_signature(weft_graph *graph, weft_arena *arena, weft_program_data **out_program) WEFT_MUST_USE;

/* Between the files of the lowering. */
/* Binds values that may lie in the memory of their state; after the ports, before the body. */
weft_status weft_lower_plan_states(weft_lowering *l) WEFT_MUST_USE;
weft_status weft_lower_block(weft_lowering *l, const weft_block *block) WEFT_MUST_USE;
weft_status weft_lower_fusion(weft_lowering *l, const weft_node *node) WEFT_MUST_USE;
weft_status weft_lower_add_kernel(weft_lowering *l, weft_kernel *kernel, int *out_number) WEFT_MUST_USE;
/* Once every region is there. */
weft_status weft_lower_join(weft_lowering *l) WEFT_MUST_USE;
weft_status weft_lower_while(weft_lowering *l, const weft_node *node) WEFT_MUST_USE;
weft_status weft_lower_cond(weft_lowering *l, const weft_node *node) WEFT_MUST_USE;
weft_status weft_lower_scan(weft_lowering *l, const weft_node *node) WEFT_MUST_USE;
weft_status weft_lower_add_buffer(weft_lowering *l, const weft_buffer *buffer, int *out_number) WEFT_MUST_USE;
weft_status weft_lower_add_step(weft_lowering *l, const weft_step *step) WEFT_MUST_USE;
weft_status weft_lower_add_region(weft_lowering *l, int *out_region) WEFT_MUST_USE;
weft_status weft_lower_bind(weft_lowering *l, const weft_value *value, int buffer) WEFT_MUST_USE;
/* Buffer of a value that exists. */
weft_status weft_lower_buffer(weft_lowering *l, const weft_value *value, int *out_number) WEFT_MUST_USE;
/* Buffer of a value about to be computed: a temporary, unless an output was bound to it before. */
weft_status weft_lower_result(weft_lowering *l, const weft_value *value, int *out_number) WEFT_MUST_USE;
weft_status weft_lower_copy(weft_lowering *l, int from, int to, const weft_type *type,
                            const char *location) WEFT_MUST_USE;
/* Bytes of a packed value, as an extent of the program; sizes that depend on data count at their bound. */
weft_status weft_lower_bytes(weft_lowering *l, const weft_type *type, weft_dim *out_bytes) WEFT_MUST_USE;
/* A graph extent in the program's table. */
weft_status weft_lower_extent(weft_lowering *l, weft_dim extent, weft_dim *out_extent) WEFT_MUST_USE;
/* Marks a buffer as used by the step that is added next to the main region. */
void weft_lower_touch(weft_lowering *l, int buffer);
const char *weft_lower_location(weft_lowering *l, const weft_node *node);

/* Text that two groups share exactly when the same kernels serve them. */
weft_status weft_structure_key(const weft_node *fusion, weft_text *key) WEFT_MUST_USE;

#endif
