/* What each op may do in fusion. Read next: group.c. */
#include "passes/fuse/fuse.h"

#include <string.h>

enum { COPIED_ELEMENTS_MAX = 16 };

static bool is_small_constant(const weft_node *node) {
    const weft_attribute *value = weft_node_attribute(node, WEFT_ATTR_value);
    return value && weft_tensor_element_count(value->as.tensor) <= COPIED_ELEMENTS_MAX;
}

weft_fuse_role weft_fuse_classify(const weft_node *node) {
    unsigned flags = weft_op_get(node->op)->flags;
    if (flags & WEFT_FLAG_ELEMENTWISE) return WEFT_FUSE_POINT;
    switch ((int)node->op) {
    case WEFT_OP_constant: return is_small_constant(node) ? WEFT_FUSE_COPY : WEFT_FUSE_LEAVE;
    case WEFT_OP_iota:
    case WEFT_OP_dim: return WEFT_FUSE_COPY;
    case WEFT_OP_reshape:
    case WEFT_OP_transpose:
    case WEFT_OP_broadcast:
    case WEFT_OP_slice:
    case WEFT_OP_reverse: return WEFT_FUSE_VIEW;
    case WEFT_OP_pad:
    case WEFT_OP_concat:
    case WEFT_OP_dynamic_slice:
    case WEFT_OP_rng_bits:
    case WEFT_OP_gather: return WEFT_FUSE_POINT;
    case WEFT_OP_reduce: return WEFT_FUSE_REDUCE;
    case WEFT_OP_dot_general:
    case WEFT_OP_ragged_dot:
    case WEFT_OP_scaled_dot:
    case WEFT_OP_convolution: return WEFT_FUSE_PRODUCT;
    case WEFT_OP_stop_gradient:
    case WEFT_OP_optimization_barrier: return WEFT_FUSE_LEAVE;
    default: break;
    }
    if (flags & (WEFT_FLAG_REGION | WEFT_FLAG_EFFECT | WEFT_FLAG_TERMINATOR)) return WEFT_FUSE_LEAVE;
    return WEFT_FUSE_SINGLE;
}

bool weft_fuse_is_costly(const weft_node *node) {
    switch ((int)node->op) {
    case WEFT_OP_abs:
    case WEFT_OP_neg:
    case WEFT_OP_sign:
    case WEFT_OP_ceil:
    case WEFT_OP_floor:
    case WEFT_OP_round:
    case WEFT_OP_not:
    case WEFT_OP_is_nan:
    case WEFT_OP_is_finite:
    case WEFT_OP_add:
    case WEFT_OP_sub:
    case WEFT_OP_mul:
    case WEFT_OP_max:
    case WEFT_OP_min:
    case WEFT_OP_and:
    case WEFT_OP_or:
    case WEFT_OP_xor:
    case WEFT_OP_shift_left:
    case WEFT_OP_shift_right_logical:
    case WEFT_OP_shift_right_arithmetic:
    case WEFT_OP_compare:
    case WEFT_OP_select:
    case WEFT_OP_convert:
    case WEFT_OP_bitcast:
    case WEFT_OP_complex:
    case WEFT_OP_real:
    case WEFT_OP_imag: return false;
    default: break;
    }
    return weft_fuse_classify(node) != WEFT_FUSE_VIEW && weft_fuse_classify(node) != WEFT_FUSE_COPY;
}
