/* Values that need fewer digits than their dtype has, where the machine has fast approximations (capability fast_math).

   A value of f32 is coarse when every use of it ends in a rounding to 16 bits or fewer, by way of products, quotients
   and moves, which keep relative errors as they are: a softmax of bf16 computed in f32. exp may then be one hardware
   exponential of x log2(e), whose relative error is |x| 2^-24 and its own 2^-22: far below 2^-12, half a unit of f16,
   for every x whose exp f32 holds.
   An exp of x - max(x) that is only summed may be, too: x is at most 0, so the errors |x| 2^-24 exp(x) are less than
   2^-25 of the largest term.
   To such an exp, times a number, something may be added at one place of the row, as in cross-entropy's gradient
   (exp / sum - 1 there): where that cancels, x is 0, whose exponential is exact, or the quotient is at most a half.
   A quotient by a number that all lanes share is a product with its reciprocal when it is coarse. */
#include <math.h>
#include <string.h>

#include "base/tensor.h"
#include "codegen/builders/index_internal.h"
#include "codegen/kernel/math.h"

enum { DEPTH_MAX = 12 };

static bool is_sum(const weft_node *node) {
    return node->op == WEFT_OP_reduce && !strcmp(weft_node_string(node, WEFT_ATTR_kind, "sum"), "sum");
}

static const weft_node *producer(const weft_value *value) {
    while (value->node && (value->node->op == WEFT_OP_broadcast || value->node->op == WEFT_OP_reshape))
        value = value->node->operands[0];
    return value->node;
}

static bool is_zero(const weft_value *value) {
    const weft_node *constant = producer(value);
    if (!constant || constant->op != WEFT_OP_constant) return false;
    const weft_tensor *tensor = weft_node_attribute(constant, WEFT_ATTR_value)->as.tensor;
    return tensor->element_count == 1 && weft_element_double(tensor->dtype, tensor->data, 0) == 0;
}

/* Zero but where a number meets its place: select(i == label, a, 0). */
static bool is_at_one_place(const weft_value *value) {
    const weft_node *choice = value->node;
    if (!choice || choice->op != WEFT_OP_select || !is_zero(choice->operands[2])) return false;
    const weft_node *equal = choice->operands[0]->node;
    if (!equal || equal->op != WEFT_OP_compare || strcmp(weft_node_string(equal, WEFT_ATTR_direction, "eq"), "eq") != 0)
        return false;
    for (int side = 0; side < 2; side++)
        if (equal->operands[side]->node && equal->operands[side]->node->op == WEFT_OP_iota) return true;
    return false;
}

/* below: of an exp of what is at most 0; sums may be among its uses, and numbers at one place be added. */
static bool is_coarse(const weft_value *value, bool below, int depth) {
    if (depth == DEPTH_MAX || !value->uses) return false;
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_node *user = use->user;
        bool fine = false;
        switch ((int)user->op) {
        case WEFT_OP_convert: {
            weft_dtype to = user->results[0].type.dtype;
            fine = weft_dtype_is_float(to) && weft_dtype_bits(to) <= 16;
            break;
        }
        case WEFT_OP_mul:
        case WEFT_OP_div:
        case WEFT_OP_neg:
        case WEFT_OP_reshape:
        case WEFT_OP_broadcast:
        case WEFT_OP_transpose:
        case WEFT_OP_slice: fine = is_coarse(&user->results[0], below, depth + 1); break;
        case WEFT_OP_add:
            fine = below && is_at_one_place(user->operands[1 - use->index]) &&
                   is_coarse(&user->results[0], false, depth + 1);
            break;
        case WEFT_OP_reduce: fine = below && depth == 0 && is_sum(user); break;
        default: break;
        }
        if (!fine) return false;
    }
    return true;
}

/* a - max(a) along some axes: at most 0, or NaN. */
static bool is_below_maximum(const weft_value *value) {
    const weft_node *difference = value->node;
    if (!difference || difference->op != WEFT_OP_sub) return false;
    const weft_value *other = difference->operands[1];
    while (other->node && (other->node->op == WEFT_OP_broadcast || other->node->op == WEFT_OP_reshape))
        other = other->node->operands[0];
    return other->node && other->node->op == WEFT_OP_reduce && other->node->operands[0] == difference->operands[0] &&
           !strcmp(weft_node_string(other->node, WEFT_ATTR_kind, "sum"), "max");
}

bool weft_index_exp_is_coarse(const weft_index_context *c, const weft_node *exp) {
    if (!c->kernel->capability->fast_math || weft_index_carrier(exp->results[0].type.dtype) != WEFT_F32) return false;
    if (exp->results[0].type.dtype != WEFT_F32) return true; /* rounds at once */
    return is_coarse(&exp->results[0], is_below_maximum(exp->operands[0]), 0);
}

bool weft_index_quotient_is_coarse(const weft_index_context *c, const weft_node *div) {
    weft_dtype dtype = div->results[0].type.dtype;
    if (!c->kernel->capability->fast_math || weft_index_carrier(dtype) != WEFT_F32) return false;
    return dtype != WEFT_F32 || is_coarse(&div->results[0], false, 0);
}

/* b is brought away from the numbers whose reciprocal leaves the normal range, a by as much: where that overflows or
   vanishes, a / b does. No branches, so that compilers move what depends on b alone out of loops. */
weft_kval weft_index_divide_by_scalar(weft_index_context *c, weft_kval a, weft_kval b) {
    weft_kernel *k = c->kernel;
    weft_kval magnitude = weft_k_unary(k, WEFT_K_abs, b), one = weft_k_float(k, WEFT_F32, 1);
    weft_kval small = weft_k_lt(k, magnitude, weft_k_float(k, WEFT_F32, 0x1p-100));
    weft_kval large = weft_k_lt(k, weft_k_float(k, WEFT_F32, 0x1p100), magnitude);
    weft_kval scale = weft_k_select(k, small, weft_k_float(k, WEFT_F32, 0x1p64),
                                    weft_k_select(k, large, weft_k_float(k, WEFT_F32, 0x1p-64), one));
    weft_kval reciprocal = weft_k_unary(k, WEFT_K_rcp_fast, weft_k_mul(k, b, scale));
    return weft_k_mul(k, weft_k_mul(k, a, scale), reciprocal);
}
