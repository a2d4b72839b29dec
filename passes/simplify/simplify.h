/* The pass "simplify": rewrites to a fixed point, then common subexpressions and dead code, until nothing changes.

   simplify.c has the table of rewrites, each by name, and the worklist. algebra.c, views.c, movement.c, product.c,
   scale.c, control.c hold the rewrites of their family; fold.c computes constants; cse.c and dce.c are the sweeps.
   Invariant: a rewrite keeps the type of every value it replaces, and the numbers bit for bit except the sign of a zero
   (x + 0) and NaN payloads. scale.c alone moves roundings: constants behind products go into them (f32 and f64). */
#ifndef WEFT_PASSES_SIMPLIFY_H
#define WEFT_PASSES_SIMPLIFY_H

#include "ir/emit.h"
#include "passes/pass.h"

weft_status weft_pass_simplify(weft_pass_context *context) WEFT_MUST_USE;

/* A rewrite of result 0 of a node. Returns NULL when it does not apply; the node's own result when it changed the node
   in place; else the value to use instead, new nodes built at the insertion point (before the node). */
typedef weft_value *(*weft_rewrite)(weft_graph *graph, weft_node *node);

typedef struct weft_rewrite_row {
    const char *name;
    weft_op op; /* WEFT_OP_COUNT = every op */
    weft_rewrite rewrite;
} weft_rewrite_row;

/* All rewrites, in the order they are tried; ends with a row without a name. */
extern const weft_rewrite_row weft_simplify_rewrites[];

#define WEFT_REWRITES(X)                                                                                               \
    X(commute_constant, WEFT_OP_COUNT)                                                                                 \
    X(elementwise_of_scalars, WEFT_OP_COUNT)                                                                           \
    X(elementwise_identity, WEFT_OP_COUNT)                                                                             \
    X(elementwise_absorbing, WEFT_OP_COUNT)                                                                            \
    X(elementwise_same_operands, WEFT_OP_COUNT)                                                                        \
    X(double_negation, WEFT_OP_COUNT)                                                                                  \
    X(divide_by_power_of_two, WEFT_OP_div)                                                                             \
    X(pow_of_small_exponent, WEFT_OP_pow)                                                                              \
    X(select_known, WEFT_OP_select)                                                                                    \
    X(select_of_not, WEFT_OP_select)                                                                                   \
    X(convert_identity, WEFT_OP_convert)                                                                               \
    X(convert_chain, WEFT_OP_convert)                                                                                  \
    X(constant_splat, WEFT_OP_constant)                                                                                \
    X(dim_static, WEFT_OP_dim)                                                                                         \
    X(reshape_identity, WEFT_OP_reshape)                                                                               \
    X(reshape_of_reshape, WEFT_OP_reshape)                                                                             \
    X(reshape_of_splat, WEFT_OP_reshape)                                                                               \
    X(transpose_identity, WEFT_OP_transpose)                                                                           \
    X(transpose_of_transpose, WEFT_OP_transpose)                                                                       \
    X(transpose_of_splat, WEFT_OP_transpose)                                                                           \
    X(transpose_of_unit_axes, WEFT_OP_transpose)                                                                       \
    X(broadcast_identity, WEFT_OP_broadcast)                                                                           \
    X(broadcast_of_broadcast, WEFT_OP_broadcast)                                                                       \
    X(broadcast_without_unit_axes, WEFT_OP_broadcast)                                                                  \
    X(slice_whole, WEFT_OP_slice)                                                                                      \
    X(slice_of_slice, WEFT_OP_slice)                                                                                   \
    X(slice_of_concat, WEFT_OP_slice)                                                                                  \
    X(slice_of_splat, WEFT_OP_slice)                                                                                   \
    X(reverse_trivial, WEFT_OP_reverse)                                                                                \
    X(pad_zero, WEFT_OP_pad)                                                                                           \
    X(concat_one, WEFT_OP_concat)                                                                                      \
    X(concat_empty, WEFT_OP_concat)                                                                                    \
    X(concat_of_concat, WEFT_OP_concat)                                                                                \
    X(concat_of_slices, WEFT_OP_concat)                                                                                \
    X(dynamic_slice_static, WEFT_OP_dynamic_slice)                                                                     \
    X(dynamic_update_slice_whole, WEFT_OP_dynamic_update_slice)                                                        \
    X(reduce_unit_axes, WEFT_OP_reduce)                                                                                \
    X(reduce_of_reduce, WEFT_OP_reduce)                                                                                \
    X(cumulative_unit_axis, WEFT_OP_cumulative)                                                                        \
    X(dot_of_transpose, WEFT_OP_dot_general)                                                                           \
    X(convolution_unit_axis, WEFT_OP_convolution)                                                                      \
    X(elementwise_of_reshaped_product, WEFT_OP_COUNT)                                                                  \
    X(add_constants, WEFT_OP_add)                                                                                      \
    X(multiply_constants, WEFT_OP_mul)                                                                                 \
    X(scale_into_weights, WEFT_OP_mul)                                                                                 \
    X(cond_known, WEFT_OP_cond)                                                                                        \
    X(scan_once, WEFT_OP_scan)                                                                                         \
    X(custom_gradient_inline, WEFT_OP_custom_gradient)                                                                 \
    X(stop_gradient_identity, WEFT_OP_stop_gradient)                                                                   \
    X(fold_constants, WEFT_OP_COUNT)

#define X(name, op) weft_value *weft_rewrite_##name(weft_graph *graph, weft_node *node);
WEFT_REWRITES(X)
#undef X

/* The scalar constant that a value repeats: itself or behind broadcasts and reshapes; NULL when it is none. */
const weft_tensor *weft_splat(const weft_value *value);
/* The value is a splat of this number (compared in the dtype). */
bool weft_splat_is(const weft_value *value, double number);
/* The producer when it is this op, else NULL. */
static inline weft_node *weft_producer(const weft_value *value, weft_op op) {
    return value->node && value->node->op == op ? value->node : NULL;
}

/* Only products read the transpose, and each can read its operand as it lies. */
bool weft_dots_take_transpose(const weft_node *transpose);

/* Sweeps; *changed is set when something was removed. */
weft_status weft_simplify_cse(weft_graph *graph, bool *changed) WEFT_MUST_USE;
void weft_simplify_dce(weft_graph *graph, bool *changed);
/* No results are used and the op has no effect: it may go. */
bool weft_node_is_dead(const weft_node *node);

#endif
