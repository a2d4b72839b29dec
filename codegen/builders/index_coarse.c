/* Values that need fewer digits than their dtype has, where the machine has fast approximations (capability fast_math).

   A value of f32 is coarse when every use of it ends in a rounding to 16 bits or fewer, by way of products, quotients
   and moves, which keep relative errors as they are: a softmax of bf16 computed in f32. exp may then be one hardware
   exponential of x log2(e), whose relative error is |x| 2^-24 and its own 2^-22: far below 2^-12, half a unit of f16,
   for every x whose exp f32 holds.
   An exp of x - max(x) that is only summed may be, too: x is at most 0, so the errors |x| 2^-24 exp(x) are less than
   2^-25 of the largest term.
   A quotient by a number that all lanes share is a product with its reciprocal when it is coarse. */
#include <math.h>
#include <string.h>

#include "codegen/builders/index_internal.h"
#include "codegen/kernel/math.h"

enum { DEPTH_MAX = 12 };

static bool is_sum(const weft_node *node) {
    return node->op == WEFT_OP_reduce && !strcmp(weft_node_string(node, WEFT_ATTR_kind, "sum"), "sum");
}

/* sums: sums may be among the uses. */
static bool is_coarse(const weft_value *value, bool sums, int depth) {
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
        case WEFT_OP_slice: fine = is_coarse(&user->results[0], sums, depth + 1); break;
        case WEFT_OP_reduce: fine = sums && depth == 0 && is_sum(user); break;
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
