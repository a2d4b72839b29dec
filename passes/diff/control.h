/* What the derivatives of loops and branches share. control.c has forward mode, where tangents run beside values in one
   loop; control_linear.c takes loops and branches apart into one that computes values and residuals and one that is
   linear in tangents; control_transpose.c transposes the latter. */
#ifndef WEFT_PASSES_DIFF_CONTROL_H
#define WEFT_PASSES_DIFF_CONTROL_H

#include "passes/diff/reverse.h"

/* Values by position with their tangents; NULL = zero. */
typedef struct weft_dual_list {
    weft_value **values, **tangents;
    int count;
} weft_dual_list;

/* Copies the nodes of a block to the insertion point, its arguments mapped already; list: what its yield would yield
   (copied, tangents not set). */
bool weft_control_copy(weft_graph *graph, const weft_block *block, weft_value_map *map, weft_dual_list *list);
/* The tangents of the list's values. */
void weft_control_tangents(const weft_value_map *tangents, weft_dual_list *list);
void weft_control_yield(weft_graph *graph, int count, weft_value *const *values);
static inline weft_value *weft_control_or_zeros(weft_graph *graph, weft_value *tangent, const weft_value *like) {
    return tangent ? tangent : weft_diff_zeros(graph, like);
}
static inline int weft_scan_carries(const weft_node *scan) {
    return (int)weft_node_attribute(scan, WEFT_ATTR_k)->as.dims[0];
}
weft_node *weft_scan_build(weft_graph *graph, const weft_node *like, int carries, int count,
                           weft_value *const *operands, bool reverse, weft_region *region);
/* The type of one slice of a stacked value. */
static inline weft_type weft_slice_type(const weft_value *stacked) {
    return (weft_type){stacked->type.dtype, stacked->type.rank - 1, stacked->type.dims + 1};
}

void weft_linearize_scan(weft_jvp_rule *rule);
void weft_linearize_cond(weft_jvp_rule *rule);
/* A while with a bound, as a scan of that many trips. */
void weft_linearize_while(weft_jvp_rule *rule);

#endif
