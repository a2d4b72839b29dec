/* How large the elements of a random graph can get, from its nodes alone. A sum over terms of 1e8 that cancel to 1 is
   wrong in the first digit in every implementation: makers of ops that round take moderate values only
   (cli_fuzz_shallow), so that the tolerance of whole graphs holds. A bound may be too large, hardly too small. */
#include <math.h>

#include "cli/fuzz_generator.h"

static double bound(const cli_fuzz_generator *g, const weft_value *v);

static double largest_number(weft_dtype dtype) {
    return weft_dtype_is_float(dtype) ? INFINITY : ldexp(1, (int)weft_dtype_bits(dtype));
}

static double of_operands(const cli_fuzz_generator *g, const weft_node *node, int first) {
    double most = 0;
    for (int i = first; i < node->operand_count; i++) most = fmax(most, bound(g, node->operands[i]));
    return most;
}

static double of_constant(const weft_node *node) {
    const weft_tensor *tensor = weft_node_attribute(node, WEFT_ATTR_value)->as.tensor;
    weft_dtype dtype = weft_tensor_dtype(tensor);
    double most = 0;
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++)
        most =
            fmax(most, fabs(weft_dtype_is_float(dtype) ? weft_element_double(dtype, weft_tensor_data(tensor), i)
                                                       : (double)weft_element_i64(dtype, weft_tensor_data(tensor), i)));
    return most;
}

/* Sums of as many terms as the operand has elements for each of the result, or as one window. */
static double of_reduction(const cli_fuzz_generator *g, const weft_node *node, double terms) {
    double x = of_operands(g, node, 0);
    switch (weft_node_string(node, WEFT_ATTR_kind, "max")[0]) {
    case 's': return x * terms;
    case 'p': return pow(fmax(x, 1), terms);
    default: return x;
    }
}

static double of_product(const cli_fuzz_generator *g, const weft_node *node) {
    double terms = 1;
    const weft_type *x = weft_operand_type(node, 0);
    if (node->op == WEFT_OP_dot_general) {
        const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_lhs_contract);
        for (int i = 0; i < axes->count; i++) terms *= (double)cli_fuzz_largest(g, x->dims[axes->as.ints[i]]);
    } else {
        terms = (double)cli_fuzz_elements(g, node->operands[1]);
    }
    return bound(g, node->operands[0]) * bound(g, node->operands[1]) * terms;
}

static double of_branches(const cli_fuzz_generator *g, const weft_node *node, int result) {
    double most = 0;
    for (int r = 0; r < node->region_count; r++)
        most = fmax(most, bound(g, node->regions[r]->block->last->operands[result]));
    return most;
}

static double of_node(const cli_fuzz_generator *g, const weft_node *node, const weft_value *v) {
    double elements = (double)cli_fuzz_elements(g, v);
    switch ((int)node->op) {
    case WEFT_OP_constant: return of_constant(node);
    case WEFT_OP_iota:
    case WEFT_OP_dim:
    case WEFT_OP_arg_reduce: return CLI_FUZZ_ELEMENTS_MAX;
    case WEFT_OP_popcount: return 64;
    case WEFT_OP_tanh:
    case WEFT_OP_logistic:
    case WEFT_OP_erf:
    case WEFT_OP_sin:
    case WEFT_OP_cos:
    case WEFT_OP_sign:
    case WEFT_OP_softmax: return 1;
    case WEFT_OP_add:
    case WEFT_OP_sub: return bound(g, node->operands[0]) + bound(g, node->operands[1]);
    case WEFT_OP_mul: return bound(g, node->operands[0]) * bound(g, node->operands[1]);
    case WEFT_OP_and:
    case WEFT_OP_or:
    case WEFT_OP_div: return 2 * of_operands(g, node, 0);
    case WEFT_OP_rem: return bound(g, node->operands[1]);
    case WEFT_OP_select: return of_operands(g, node, 1);
    case WEFT_OP_bitcast:
    case WEFT_OP_rng_bits:
    case WEFT_OP_not:
    case WEFT_OP_xor:
    case WEFT_OP_shift_left:
    case WEFT_OP_shift_right_logical: return largest_number(v->type.dtype);
    case WEFT_OP_reduce:
        return of_reduction(g, node, (double)cli_fuzz_elements(g, node->operands[0]) / fmax(elements, 1));
    case WEFT_OP_cumulative: return of_reduction(g, node, elements);
    case WEFT_OP_reduce_window: return of_reduction(g, node, 81);
    case WEFT_OP_scatter:
    case WEFT_OP_select_and_scatter:
        return 4 * (bound(g, node->operands[0]) + bound(g, node->operands[node->operand_count - 1]));
    case WEFT_OP_dot_general:
    case WEFT_OP_convolution: return of_product(g, node);
    case WEFT_OP_cond: return of_branches(g, node, v->index);
    case WEFT_OP_abs:
    case WEFT_OP_neg:
    case WEFT_OP_max:
    case WEFT_OP_min:
    case WEFT_OP_gather:
    case WEFT_OP_sort:
    case WEFT_OP_convert:
    case WEFT_OP_while:
    case WEFT_OP_scan: return of_operands(g, node, 0);
    case WEFT_OP_top_k: return v->index ? CLI_FUZZ_ELEMENTS_MAX : of_operands(g, node, 0);
    default: break;
    }
    double x = of_operands(g, node, 0);
    return weft_op_get(node->op)->flags & WEFT_FLAG_VIEW ? x : 16 + pow(x, 1.5); /* pow(x, 1.5) is what is drawn */
}

static double bound(const cli_fuzz_generator *g, const weft_value *v) {
    for (int i = 0; i < g->count; i++)
        if (g->pool[i].value == v) return g->pool[i].largest;
    if (!v->node) return weft_dtype_is_float(v->type.dtype) ? 2 : 23; /* cli_fuzz_inputs */
    return fmin(of_node(g, v->node, v), largest_number(v->type.dtype));
}

double cli_fuzz_bound(const cli_fuzz_generator *g, const weft_value *v) { return bound(g, v); }
