/* Convolutions that are other products: no kernel for convolutions does them as well.

   Letters: x [N, C, S...], w [O, C/g, K...], y [N, O, T...].
   - One position in y, whose taps are all of x: a product of [N, C K] and [O, C K].
   - Transposed without overlap (base dilation = kernel, as decoders upsample): each y has one tap. A convolution of
     kernel 1 makes the K outputs of each input position as channels, which then move between the positions; the zeros
     in between are neither stored nor multiplied.
   Invariant: the sums keep their order over c. Read next: decompose.c. */
#include "passes/convolution.h"

#include "ir/emit.h"

static const int64_t *ints(const weft_node *node, weft_attribute_name name) {
    return weft_node_attribute(node, name)->as.ints;
}

static const weft_dim *dims(const weft_node *node, weft_attribute_name name) {
    return weft_node_attribute(node, name)->as.dims;
}

static int spatial_of(const weft_node *node) { return node->operands[0]->type.rank - 2; }

static bool is_one_position(const weft_node *node) {
    const weft_type *x = &node->operands[0]->type, *w = &node->operands[1]->type, *y = &node->results[0].type;
    if (weft_node_int(node, WEFT_ATTR_groups, 1) != 1) return false;
    for (int d = 0; d < spatial_of(node); d++) {
        if (y->dims[d + 2] != 1 || x->dims[d + 2] != w->dims[d + 2] || !weft_dim_is_number(w->dims[d + 2]))
            return false;
        bool padded = dims(node, WEFT_ATTR_low)[d] != 0 || dims(node, WEFT_ATTR_high)[d] != 0;
        bool spread = ints(node, WEFT_ATTR_dilation)[d] != 1 || ints(node, WEFT_ATTR_base_dilation)[d] != 1;
        if (padded || (spread && x->dims[d + 2] != 1)) return false;
    }
    return weft_dim_is_number(x->dims[1]);
}

static weft_value *one_position(weft_graph *graph, weft_node *node) {
    const weft_type *x = &node->operands[0]->type, *w = &node->operands[1]->type;
    weft_dim sum = x->dims[1];
    for (int i = 2; i < x->rank; i++) sum = weft_dim_multiply(graph->dims, sum, x->dims[i]);
    weft_value *left = weft_emit_reshape(graph, node->operands[0], 2, (weft_dim[]){x->dims[0], sum});
    weft_value *right = weft_emit_reshape(graph, node->operands[1], 2, (weft_dim[]){w->dims[0], sum});
    const int64_t contracted = 1;
    weft_dot_axes axes = {.contract_count = 1, .lhs_contract = &contracted, .rhs_contract = &contracted};
    weft_value *y = weft_emit_dot(graph, left, right, &axes, node->results[0].type.dtype,
                                  weft_node_dtype(node, WEFT_ATTR_accumulate, WEFT_INVALID));
    return weft_emit_reshape(graph, y, x->rank, node->results[0].type.dims);
}

static bool is_without_overlap(const weft_node *node) {
    const weft_type *w = &node->operands[1]->type;
    bool upsamples = false;
    if (2 * spatial_of(node) + 2 > WEFT_MAX_RANK) return false;
    for (int i = 0; i < w->rank; i++)
        if (!weft_dim_is_number(w->dims[i])) return false;
    for (int d = 0; d < spatial_of(node); d++) {
        int64_t kernel = w->dims[d + 2];
        if (ints(node, WEFT_ATTR_stride)[d] != 1 || ints(node, WEFT_ATTR_dilation)[d] != 1 ||
            ints(node, WEFT_ATTR_base_dilation)[d] != kernel || dims(node, WEFT_ATTR_low)[d] != kernel - 1 ||
            dims(node, WEFT_ATTR_high)[d] != kernel - 1)
            return false;
        upsamples |= kernel > 1;
    }
    return upsamples;
}

/* y[o, p * K + r] = sum over c of w[o, c, K - 1 - r] * x[c, p] */
static weft_value *without_overlap(weft_graph *graph, weft_node *node) {
    const weft_type *x = &node->operands[0]->type, *w = &node->operands[1]->type;
    int spatial = spatial_of(node);
    int64_t axes[WEFT_MAX_RANK], to_channels[WEFT_MAX_RANK] = {0}, to_positions[WEFT_MAX_RANK] = {0, 1}, taps = 1;
    int64_t ones[WEFT_MAX_RANK];
    weft_dim kernel[WEFT_MAX_RANK], split[WEFT_MAX_RANK] = {x->dims[0], w->dims[0]}, zeros[WEFT_MAX_RANK];
    for (int d = 0; d < spatial; d++) {
        axes[d] = d + 2;
        to_channels[d + 1] = d + 2;
        ones[d] = 1, zeros[d] = 0, kernel[d + 2] = 1;
        taps *= w->dims[d + 2];
        split[d + 2] = w->dims[d + 2], split[spatial + d + 2] = x->dims[d + 2];
        to_positions[2 * d + 2] = spatial + d + 2, to_positions[2 * d + 3] = d + 2;
    }
    to_channels[spatial + 1] = 1;
    kernel[0] = w->dims[0] * taps, kernel[1] = w->dims[1];
    weft_attribute reversed = weft_attr_ints(WEFT_ATTR_axes, spatial, axes);
    weft_value *weights = weft_build(graph, WEFT_OP_reverse, 1, &node->operands[1], 1, &reversed);
    weights = weft_emit_reshape(graph, weft_emit_transpose(graph, weights, to_channels), w->rank, kernel);
    weft_dtype accumulate = weft_node_dtype(node, WEFT_ATTR_accumulate, WEFT_INVALID);
    weft_attribute attributes[8] = {weft_attr_ints(WEFT_ATTR_stride, spatial, ones),
                                    weft_attr_dims(WEFT_ATTR_low, spatial, zeros),
                                    weft_attr_dims(WEFT_ATTR_high, spatial, zeros),
                                    weft_attr_ints(WEFT_ATTR_dilation, spatial, ones),
                                    weft_attr_ints(WEFT_ATTR_base_dilation, spatial, ones),
                                    weft_attr_int(WEFT_ATTR_groups, weft_node_int(node, WEFT_ATTR_groups, 1)),
                                    weft_attr_dtype(WEFT_ATTR_dtype, node->results[0].type.dtype),
                                    weft_attr_dtype(WEFT_ATTR_accumulate, accumulate)};
    weft_value *operands[2] = {node->operands[0], weights};
    weft_value *y = weft_build(graph, WEFT_OP_convolution, 2, operands, accumulate == WEFT_INVALID ? 7 : 8, attributes);
    y = weft_emit_transpose(graph, weft_emit_reshape(graph, y, 2 * spatial + 2, split), to_positions);
    return weft_emit_reshape(graph, y, x->rank, node->results[0].type.dims);
}

bool weft_convolution_is_other_product(const weft_node *node) {
    return node->op == WEFT_OP_convolution && (is_one_position(node) || is_without_overlap(node));
}

weft_value *weft_convolution_as_other_product(weft_graph *graph, weft_node *node) {
    return is_one_position(node) ? one_position(graph, node) : without_overlap(graph, node);
}
