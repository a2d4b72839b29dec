/* Constant factors and terms behind products: y = conv(x, w) * s -> conv(x, w * s), y = dot(x, w) * s -> dot(x, w * s)
   for constant w and s, s varying along w's own free axes only; and what brings factors there: (x + b) * s ->
   x * s + b * s, (x + b) + c -> x + (b + c), (x * s) * t -> x * (s * t).

   These change roundings, not the sums' order: each result moves by a few units in the last place of its largest term.
   So they apply to f32 and f64 alone (narrow floats round w * s too coarsely), where the intermediate value has no
   other use, and only to constants: a training step's parameters are none. Read next: fold.c, which computes w * s. */
#include "base/tensor.h"
#include "passes/simplify/simplify.h"

enum { MAX_CONSTANT_ELEMENTS = 1 << 22 };

static bool is_wide_float(const weft_value *value) {
    return value->type.dtype == WEFT_F32 || value->type.dtype == WEFT_F64;
}

static const weft_tensor *constant_tensor(const weft_value *value) {
    const weft_node *node = weft_producer(value, WEFT_OP_constant);
    return node ? weft_node_attribute(node, WEFT_ATTR_value)->as.tensor : NULL;
}

static bool used_once(const weft_value *value) { return value->uses && !value->uses->next; }

/* A constant vector or scalar behind a broadcast. */
static weft_node *spread_constant(const weft_value *value) {
    weft_node *node = weft_producer(value, WEFT_OP_broadcast);
    return node && constant_tensor(node->operands[0]) && node->operands[0]->type.rank > 0 ? node : NULL;
}

/* Two broadcasts of constants that spread the same axes alike. */
static bool spread_alike(const weft_node *a, const weft_node *b) {
    const weft_attribute *x = weft_node_attribute(a, WEFT_ATTR_axes), *y = weft_node_attribute(b, WEFT_ATTR_axes);
    if (!weft_type_equal(&a->operands[0]->type, &b->operands[0]->type) || x->count != y->count) return false;
    for (int i = 0; i < x->count; i++)
        if (x->as.ints[i] != y->as.ints[i]) return false;
    return true;
}

/* op(a, b) of the constants behind two broadcasts, broadcast again; fold.c computes it. */
static weft_value *combine(weft_graph *graph, weft_op op, const weft_node *a, const weft_node *b) {
    weft_value *y = weft_emit_binary(graph, op, a->operands[0], b->operands[0]);
    const weft_type *type = &a->results[0].type;
    return weft_emit_broadcast(graph, y, type->rank, type->dims, weft_node_attribute(a, WEFT_ATTR_axes)->as.ints);
}

/* The constant operand of x op c, and x. */
static weft_node *constant_operand(const weft_node *node, weft_value **out_other) {
    for (int i = 0; i < 2; i++) {
        weft_node *spread = spread_constant(node->operands[i]);
        if (!spread) continue;
        *out_other = node->operands[1 - i];
        return spread;
    }
    return NULL;
}

/* (x + b) + c -> x + (b + c) */
weft_value *weft_rewrite_add_constants(weft_graph *graph, weft_node *node) {
    weft_value *sum, *x;
    const weft_node *c = constant_operand(node, &sum), *add, *b;
    if (!c || !is_wide_float(sum) || !used_once(sum) || !(add = weft_producer(sum, WEFT_OP_add))) return NULL;
    if (!(b = constant_operand(add, &x)) || !spread_alike(b, c)) return NULL;
    return weft_emit_binary(graph, WEFT_OP_add, x, combine(graph, WEFT_OP_add, b, c));
}

/* (x * s) * t -> x * (s * t); (x + b) * s -> x * s + b * s behind a product, which takes the factor in */
weft_value *weft_rewrite_multiply_constants(weft_graph *graph, weft_node *node) {
    weft_value *inner, *x;
    weft_node *s = constant_operand(node, &inner), *b;
    if (!s || !is_wide_float(inner) || !used_once(inner) || !inner->node) return NULL;
    if (inner->node->op != WEFT_OP_mul && inner->node->op != WEFT_OP_add) return NULL;
    if (!(b = constant_operand(inner->node, &x)) || !spread_alike(b, s)) return NULL;
    if (inner->node->op == WEFT_OP_mul)
        return weft_emit_binary(graph, WEFT_OP_mul, x, combine(graph, WEFT_OP_mul, b, s));
    if (!weft_producer(x, WEFT_OP_convolution) && !weft_producer(x, WEFT_OP_dot_general)) return NULL;
    if (!used_once(x)) return NULL;
    weft_value *product = weft_emit_binary(graph, WEFT_OP_mul, x, &s->results[0]);
    return weft_emit_binary(graph, WEFT_OP_add, product, combine(graph, WEFT_OP_mul, b, s));
}

/* w * s when s, spread along result axis `from`, is a vector along w's axis `to`. */
static weft_value *scaled(weft_graph *graph, weft_value *w, const weft_node *s, int64_t from, int64_t to) {
    const weft_attribute *axes = weft_node_attribute(s, WEFT_ATTR_axes);
    weft_value *vector = s->operands[0];
    const weft_tensor *tensor = constant_tensor(w);
    if (!tensor || !tensor->packed || tensor->element_count > MAX_CONSTANT_ELEMENTS) return NULL;
    int64_t kept = -1;
    for (int i = 0; i < axes->count; i++) {
        if (vector->type.dims[i] == 1) continue;
        if (axes->as.ints[i] != from) return NULL;
        kept = i;
    }
    if (kept < 0 || vector->type.dims[kept] != w->type.dims[to] || vector->type.dtype != w->type.dtype) return NULL;
    if (vector->type.rank > 1) vector = weft_emit_reshape(graph, vector, 1, &w->type.dims[to]);
    return weft_emit_binary(graph, WEFT_OP_mul, w, weft_emit_broadcast(graph, vector, w->type.rank, w->type.dims, &to));
}

/* The axis of the result that axis `axis` of the right operand becomes; -1 when it is contracted or a batch axis. */
static int64_t result_axis(const weft_node *dot, int64_t axis) {
    const weft_attribute *contract = weft_node_attribute(dot, WEFT_ATTR_rhs_contract),
                         *batch = weft_node_attribute(dot, WEFT_ATTR_rhs_batch);
    int64_t at = dot->operands[0]->type.rank - contract->count;
    for (int64_t i = 0; i <= axis; i++) {
        bool gone = false;
        for (int k = 0; k < contract->count; k++) gone |= contract->as.ints[k] == i;
        for (int k = 0; k < batch->count; k++) gone |= batch->as.ints[k] == i;
        if (i == axis) return gone ? -1 : at;
        at += !gone;
    }
    return -1;
}

/* product(x, w) * s -> product(x, w * s) */
weft_value *weft_rewrite_scale_into_weights(weft_graph *graph, weft_node *node) {
    weft_value *y;
    const weft_node *s = constant_operand(node, &y), *product = s ? y->node : NULL;
    if (!product || !is_wide_float(y) || !used_once(y)) return NULL;
    weft_value *w = NULL;
    if (product->op == WEFT_OP_convolution) {
        w = scaled(graph, product->operands[1], s, 1, 0);
    } else if (product->op == WEFT_OP_dot_general) {
        for (int axis = 0; axis < product->operands[1]->type.rank && !w; axis++) {
            int64_t from = result_axis(product, axis);
            if (from >= 0) w = scaled(graph, product->operands[1], s, from, axis);
        }
    }
    if (!w) return NULL;
    weft_value *operands[2] = {product->operands[0], w};
    return weft_build(graph, product->op, 2, operands, product->attribute_count, product->attributes);
}
