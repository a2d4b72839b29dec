/* Differentiation of graphs.

   forward.c pushes tangents through nodes (jvp hooks); reverse.c runs forward into a region of its own, moves what does
   not depend on tangents out of it (partial evaluation), and transposes what is left, node by node from the end
   (transpose hooks). Rules are in one file per family, beside each other: elementwise.c movement.c reduce.c dot.c
   attention.c convolution.c gather.c sort.c. A tangent or cotangent NULL is zero. */
#ifndef WEFT_PASSES_DIFF_H
#define WEFT_PASSES_DIFF_H

#include "ir/emit.h"

typedef struct weft_jvp_rule {
    weft_graph *graph;
    const weft_node *node;
    weft_value *const *tangents; /* by operand; NULL = zero; at least one is not */
    weft_value **out_tangents;   /* by result; NULL at entry */
    bool declined;               /* set by the hook of a derived op: take the decomposition */
} weft_jvp_rule;

typedef struct weft_transpose_rule {
    weft_graph *graph;
    const weft_node *node;         /* linear in some operands */
    const bool *linear;            /* by operand */
    weft_value *const *cotangents; /* by result; NULL = zero; at least one is not */
    weft_value **out_cotangents;   /* by operand, for linear ones; NULL at entry */
} weft_transpose_rule;

typedef void (*weft_jvp_hook)(weft_jvp_rule *rule);
typedef void (*weft_transpose_hook)(weft_transpose_rule *rule);

#define HOOK(name) void weft_jvp_##name(weft_jvp_rule *rule);
#define NONE(reason)
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, ...) jvp
#include "ir/ops.def"
#undef WEFT_OP
#undef HOOK
#define HOOK(name) void weft_transpose_##name(weft_transpose_rule *rule);
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, decompose, jvp, transpose, ...)    \
    transpose
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK

/* The hook of an op, or NULL and the reason. */
weft_jvp_hook weft_jvp_get(weft_op op, const char **out_reason);
weft_transpose_hook weft_transpose_get(weft_op op, const char **out_reason);

/* Tangents of everything `value` needs; map: value -> tangent, seeded with the inputs'. New nodes go to the insertion
   point. Returns the tangent of value, NULL = zero. */
weft_value *weft_diff_forward(weft_graph *graph, weft_value *value, weft_value_map *tangents);

/* x + y where NULL is zero. */
weft_value *weft_diff_sum(weft_graph *graph, weft_value *x, weft_value *y);
static inline weft_value *weft_diff_zeros(weft_graph *graph, const weft_value *like) {
    return weft_emit_splat_like(graph, 0, like);
}
/* Elements of x along axis at i64 indices of the result's shape (torch.gather). */
weft_value *weft_diff_take_along(weft_graph *graph, weft_value *x, weft_value *indices, int axis);
/* The node's attributes with operands replaced, at the insertion point: result 0. */
weft_value *weft_diff_same_op(weft_graph *graph, const weft_node *node, weft_value *const *operands);

#endif
