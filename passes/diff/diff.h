/* Differentiation of graphs.

   forward.c pushes tangents through nodes (jvp hooks); gradient.c runs forward into a region of its own and transposes
   the linear part of it, node by node from the end (reverse.c, transpose hooks), moving the rest out when it is needed
   (partial evaluation). Rules are in one file per family, beside each other: elementwise.c movement.c reduce.c dot.c
   attention.c norm.c convolution.c gather.c sort.c control.c custom.c. A tangent or cotangent NULL is zero. */
#ifndef WEFT_PASSES_DIFF_H
#define WEFT_PASSES_DIFF_H

#include "ir/emit.h"
#include "passes/function/function.h"

typedef struct weft_jvp_rule {
    weft_graph *graph;
    const weft_node *node;
    weft_value *const *tangents; /* by operand; NULL = zero; at least one, or a captured value's, is not */
    weft_value **out_tangents;   /* by result; NULL at entry */
    bool declined;               /* set by the hook of a derived op: take the decomposition */
    weft_value_map *all;         /* value -> tangent of everything so far, for captured values */
    bool linearize;              /* what does not depend on tangents will be moved out: keep it apart (control.c) */
} weft_jvp_rule;

struct weft_reversal;
typedef struct weft_transpose_rule {
    weft_graph *graph;
    const weft_node *node;         /* linear in some operands */
    const bool *linear;            /* by operand */
    weft_value *const *cotangents; /* by result; NULL = zero; at least one is not */
    weft_value **out_cotangents;   /* by operand, for linear ones; NULL at entry */
    struct weft_reversal *reverse; /* for captured values: weft_reversal_is_linear, weft_reversal_add */
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

/* Pushes tangents through nodes in their order; map: value -> tangent, seeded. New nodes go to the insertion point. */
void weft_diff_push(weft_graph *graph, weft_node *const *nodes, size_t count, weft_value_map *tangents, bool linearize);
/* Seeds the map; a problem where an input is no float or types differ. */
void weft_diff_seed(weft_graph *graph, weft_value_map *map, int count, weft_value *const *inputs,
                    weft_value *const *tangents);

/* x + y where NULL is zero. */
weft_value *weft_diff_sum(weft_graph *graph, weft_value *x, weft_value *y);
static inline weft_value *weft_diff_zeros(weft_graph *graph, const weft_value *like) {
    return weft_emit_splat_like(graph, 0, like);
}
/* The complex conjugate; x itself when it is not complex. Cotangents of complex values are pairs with the inner product
   Re u Re v + Im u Im v: the transpose of a product by c is the product by the conjugate of c. */
weft_value *weft_diff_conjugate(weft_graph *graph, weft_value *x);
/* For each update of a scatter the product of all others that go to the same element (scatter_product.c). */
weft_value *weft_diff_product_of_other_updates(weft_graph *graph, const weft_node *scatter);
/* Elements of x along axis at i64 indices of the result's shape (torch.gather). */
weft_value *weft_diff_take_along(weft_graph *graph, weft_value *x, weft_value *indices, int axis);
/* The node's attributes with operands replaced, at the insertion point: result 0. */
weft_value *weft_diff_same_op(weft_graph *graph, const weft_node *node, weft_value *const *operands);

#endif
