/* Rewrites of elementwise ops. Splats (scalar constants, broadcast) stand second in commutative ops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "passes/simplify/simplify.h"

const weft_tensor *weft_splat(const weft_value *value) {
    while (value->node && (value->node->op == WEFT_OP_broadcast || value->node->op == WEFT_OP_reshape))
        value = value->node->operands[0];
    if (!value->node || value->node->op != WEFT_OP_constant) return NULL;
    const weft_tensor *tensor = weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    return tensor->element_count == 1 ? tensor : NULL;
}

static bool tensor_is(const weft_tensor *tensor, double number) {
    if (weft_dtype_is_float(tensor->dtype)) return weft_element_double(tensor->dtype, tensor->data, 0) == number;
    weft_dtype_kind kind = weft_dtype_kind_of(tensor->dtype);
    if (kind == WEFT_KIND_COMPLEX) return false;
    return weft_element_i64(tensor->dtype, tensor->data, 0) == (int64_t)number;
}

bool weft_splat_is(const weft_value *value, double number) {
    const weft_tensor *tensor = weft_splat(value);
    return tensor && tensor_is(tensor, number);
}

static bool is_integral(weft_dtype dtype) { return weft_dtype_is_integer(dtype) || dtype == WEFT_BOOL; }

/* c + x -> x + c; c < x -> x > c */
weft_value *weft_rewrite_commute_constant(weft_graph *graph, weft_node *node) {
    static const char *const mirrored[][2] = {{"lt", "gt"}, {"gt", "lt"}, {"le", "ge"},
                                              {"ge", "le"}, {"eq", "eq"}, {"ne", "ne"}};
    if (node->operand_count != 2 || !weft_splat(node->operands[0]) || weft_splat(node->operands[1])) return NULL;
    weft_value *a = node->operands[0], *b = node->operands[1];
    if (node->op == WEFT_OP_compare) {
        const char *direction = weft_node_string(node, WEFT_ATTR_direction, "eq");
        for (int i = 0; i < 6; i++)
            if (strcmp(mirrored[i][0], direction) == 0) return weft_emit_compare(graph, mirrored[i][1], b, a);
        return NULL;
    }
    if (!(weft_op_get(node->op)->flags & WEFT_FLAG_COMMUTATIVE)) return NULL;
    return weft_emit_binary(graph, node->op, b, a);
}

/* The scalar behind a broadcast of a scalar. */
static weft_value *broadcast_scalar(weft_value *value) {
    weft_node *broadcast = weft_producer(value, WEFT_OP_broadcast);
    return broadcast && broadcast->operands[0]->type.rank == 0 ? broadcast->operands[0] : NULL;
}

/* f(broadcast s, broadcast t) -> broadcast f(s, t) for scalars s, t */
weft_value *weft_rewrite_elementwise_of_scalars(weft_graph *graph, weft_node *node) {
    if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE) || node->operand_count > 3) return NULL;
    weft_value *scalars[3];
    for (int i = 0; i < node->operand_count; i++) {
        scalars[i] = broadcast_scalar(node->operands[i]);
        if (!scalars[i]) return NULL;
    }
    weft_value *y = weft_build(graph, node->op, node->operand_count, scalars, node->attribute_count, node->attributes);
    return weft_emit_broadcast(graph, y, node->results[0].type.rank, node->results[0].type.dims, NULL);
}

static bool all_ones(const weft_tensor *tensor) {
    if (tensor->dtype == WEFT_BOOL) return tensor_is(tensor, 1);
    if (!weft_dtype_is_integer(tensor->dtype)) return false;
    int64_t value = weft_element_i64(tensor->dtype, tensor->data, 0);
    int bits = weft_dtype_bits(tensor->dtype);
    return bits == 64 ? value == -1 : (value & ((1ll << bits) - 1)) == (1ll << bits) - 1;
}

/* x + 0, x - 0, x * 1, x / 1, x ^ 1, x or 0, x xor 0, x and ~0, x << 0 -> x */
weft_value *weft_rewrite_elementwise_identity(weft_graph *graph, weft_node *node) {
    (void)graph;
    if (node->operand_count != 2) return NULL;
    const weft_tensor *c = weft_splat(node->operands[1]);
    if (!c) return NULL;
    bool identity = false;
    switch ((int)node->op) {
    case WEFT_OP_add:
    case WEFT_OP_sub:
    case WEFT_OP_or:
    case WEFT_OP_xor:
    case WEFT_OP_shift_left:
    case WEFT_OP_shift_right_logical:
    case WEFT_OP_shift_right_arithmetic: identity = tensor_is(c, 0); break;
    case WEFT_OP_mul:
    case WEFT_OP_div:
    case WEFT_OP_pow: identity = tensor_is(c, 1); break;
    case WEFT_OP_and: identity = all_ones(c); break;
    default: break;
    }
    return identity ? node->operands[0] : NULL;
}

/* x * 0 and x and 0 -> 0, x or ~0 -> ~0, for integers and bool: floats have NaN */
weft_value *weft_rewrite_elementwise_absorbing(weft_graph *graph, weft_node *node) {
    (void)graph;
    if (node->operand_count != 2 || !is_integral(node->results[0].type.dtype)) return NULL;
    const weft_tensor *c = weft_splat(node->operands[1]);
    if (!c) return NULL;
    bool absorbing = ((node->op == WEFT_OP_mul || node->op == WEFT_OP_and) && tensor_is(c, 0)) ||
                     (node->op == WEFT_OP_or && all_ones(c));
    return absorbing ? node->operands[1] : NULL;
}

/* max, min, and, or (x, x) -> x; x - x and x xor x -> 0 for integers */
weft_value *weft_rewrite_elementwise_same_operands(weft_graph *graph, weft_node *node) {
    if (node->operand_count != 2 || node->operands[0] != node->operands[1]) return NULL;
    if (node->op == WEFT_OP_max || node->op == WEFT_OP_min || node->op == WEFT_OP_and || node->op == WEFT_OP_or)
        return node->operands[0];
    bool zero = (node->op == WEFT_OP_sub || node->op == WEFT_OP_xor) && is_integral(node->results[0].type.dtype);
    return zero ? weft_emit_splat_like(graph, 0, &node->results[0]) : NULL;
}

/* neg neg x, not not x -> x */
weft_value *weft_rewrite_double_negation(weft_graph *graph, weft_node *node) {
    (void)graph;
    if (node->op != WEFT_OP_neg && node->op != WEFT_OP_not) return NULL;
    weft_node *inner = weft_producer(node->operands[0], node->op);
    return inner ? inner->operands[0] : NULL;
}

/* x / 2^k -> x * 2^-k: exact while the reciprocal is a normal number of the dtype */
weft_value *weft_rewrite_divide_by_power_of_two(weft_graph *graph, weft_node *node) {
    weft_dtype dtype = node->results[0].type.dtype;
    const weft_tensor *c = weft_splat(node->operands[1]);
    if (!c || (dtype != WEFT_F32 && dtype != WEFT_F64 && dtype != WEFT_BF16 && dtype != WEFT_F16)) return NULL;
    double value = weft_element_double(dtype, c->data, 0);
    int exponent;
    if (!isfinite(value) || value == 0 || fabs(frexp(value, &exponent)) != 0.5) return NULL;
    if (abs(exponent) > (dtype == WEFT_F16 ? 13 : 125)) return NULL;
    return weft_emit_binary_scalar(graph, WEFT_OP_mul, node->operands[0], 1 / value);
}

/* x ^ 2 -> x * x */
weft_value *weft_rewrite_pow_of_small_exponent(weft_graph *graph, weft_node *node) {
    if (!weft_splat_is(node->operands[1], 2)) return NULL;
    return weft_emit_binary(graph, WEFT_OP_mul, node->operands[0], node->operands[0]);
}

/* select(true, a, b) -> a; select(p, a, a) -> a */
weft_value *weft_rewrite_select_known(weft_graph *graph, weft_node *node) {
    (void)graph;
    if (node->operands[1] == node->operands[2]) return node->operands[1];
    const weft_tensor *predicate = weft_splat(node->operands[0]);
    return predicate ? node->operands[tensor_is(predicate, 1) ? 1 : 2] : NULL;
}

/* select(not p, a, b) -> select(p, b, a) */
weft_value *weft_rewrite_select_of_not(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_not);
    return inner ? weft_emit_select(graph, inner->operands[0], node->operands[2], node->operands[1]) : NULL;
}

weft_value *weft_rewrite_convert_identity(weft_graph *graph, weft_node *node) {
    (void)graph;
    return node->operands[0]->type.dtype == node->results[0].type.dtype ? node->operands[0] : NULL;
}

/* Every value of `from` is a value of `to`. */
static bool holds(weft_dtype from, weft_dtype to) {
    if (from == to) return true;
    weft_dtype_kind a = weft_dtype_kind_of(from), b = weft_dtype_kind_of(to);
    int from_bits = weft_dtype_bits(from), to_bits = weft_dtype_bits(to);
    if (a == WEFT_KIND_BOOL) return b == WEFT_KIND_SIGNED || b == WEFT_KIND_UNSIGNED || to_bits >= 16;
    if (b == WEFT_KIND_FLOAT) {
        int significand = to == WEFT_F64 ? 53 : to == WEFT_F32 ? 24 : to == WEFT_F16 ? 11 : to == WEFT_BF16 ? 8 : 0;
        if (a == WEFT_KIND_SIGNED) return from_bits - 1 <= significand;
        if (a == WEFT_KIND_UNSIGNED) return from_bits <= significand;
        if (a == WEFT_KIND_FLOAT) {
            if (to == WEFT_F64) return true;
            if (to == WEFT_F32) return from_bits <= 16;
            return from_bits <= 8 && from != WEFT_F8E8M0FNU && to_bits == 16;
        }
        return false;
    }
    if (b == WEFT_KIND_SIGNED)
        return a == WEFT_KIND_SIGNED ? from_bits <= to_bits : a == WEFT_KIND_UNSIGNED && from_bits < to_bits;
    return a == WEFT_KIND_UNSIGNED && b == WEFT_KIND_UNSIGNED && from_bits <= to_bits;
}

/* convert(convert(x, mid), to) -> convert(x, to) when mid holds x exactly. Integers through floats saturate where
   direct conversion wraps: those only when `to` holds x as well. */
weft_value *weft_rewrite_convert_chain(weft_graph *graph, weft_node *node) {
    weft_node *inner = weft_producer(node->operands[0], WEFT_OP_convert);
    if (!inner) return NULL;
    weft_value *x = inner->operands[0];
    weft_dtype from = x->type.dtype, mid = inner->results[0].type.dtype, to = node->results[0].type.dtype;
    if (!holds(from, mid)) return NULL;
    if (weft_dtype_is_float(mid) && !weft_dtype_is_float(from) && weft_dtype_is_integer(to) && !holds(from, to))
        return NULL;
    if (from == to) return x;
    return weft_build(graph, WEFT_OP_convert, 1, &x, node->attribute_count, node->attributes);
}

/* A constant of equal elements -> broadcast of a scalar. Parameters (named constants) keep their tensor. */
weft_value *weft_rewrite_constant_splat(weft_graph *graph, weft_node *node) {
    const weft_tensor *tensor = weft_node_attribute(node, WEFT_ATTR_value)->as.tensor;
    size_t element = (size_t)weft_dtype_bits(tensor->dtype) / 8;
    if (tensor->rank == 0 || tensor->element_count == 0 || element == 0 || !tensor->packed || node->results[0].name)
        return NULL;
    const char *data = tensor->data;
    if (memcmp(data, data + element, tensor->bytes - element) != 0) return NULL;
    weft_tensor *scalar;
    weft_status status = weft_tensor_create_copy(graph->context, tensor->dtype, 0, NULL, data, &scalar);
    if (status) {
        graph->out_of_memory = true;
        weft_status_release(status);
        return NULL;
    }
    weft_value *constant = weft_graph_constant(graph, scalar);
    weft_tensor_release(scalar);
    return weft_emit_broadcast(graph, constant, node->results[0].type.rank, node->results[0].type.dims, NULL);
}

weft_value *weft_rewrite_dim_static(weft_graph *graph, weft_node *node) {
    weft_dim extent = weft_node_attribute(node, WEFT_ATTR_extent)->as.dims[0];
    if (!weft_dim_is_number(extent) || extent > (1ll << 53)) return NULL;
    return weft_emit_scalar(graph, WEFT_I64, (double)extent);
}
