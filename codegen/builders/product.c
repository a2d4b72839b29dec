/* See product.h. */
#include "codegen/builders/product.h"

#include <string.h>

#include "codegen/builders/index.h"

typedef enum axis_role { AXIS_BATCH, AXIS_FREE, AXIS_CONTRACT } axis_role;

typedef struct side_axes {
    axis_role role[WEFT_MAX_RANK];
    int order[WEFT_MAX_RANK];  /* among the axes of its role, in the product's order */
    int memory[WEFT_MAX_RANK]; /* memory axis -> axis of the dot's operand */
    int rank;
} side_axes;

/* Follows transposes to the operand of the fusion: memory[i] = axis of `value` that is axis i in memory. */
static const weft_value *trace_operand(const weft_value *value, side_axes *axes) {
    axes->rank = value->type.rank;
    int position[WEFT_MAX_RANK]; /* axis of value -> axis of the traced value */
    for (int i = 0; i < axes->rank; i++) position[i] = i;
    while (value->node && value->node->op == WEFT_OP_transpose) {
        const weft_attribute *permutation = weft_node_attribute(value->node, WEFT_ATTR_permutation);
        for (int i = 0; i < axes->rank; i++) position[i] = (int)permutation->as.ints[position[i]];
        value = value->node->operands[0];
    }
    for (int i = 0; i < axes->rank; i++) axes->memory[position[i]] = i;
    return value;
}

/* Operands of scaled_dot: batch axes, rows, k. */
static void assign_leading(side_axes *axes) {
    for (int i = 0; i < axes->rank; i++) {
        axes->role[i] = i < axes->rank - 2 ? AXIS_BATCH : i == axes->rank - 2 ? AXIS_FREE : AXIS_CONTRACT;
        axes->order[i] = i < axes->rank - 2 ? i : 0;
    }
}

static void assign_roles(const weft_node *dot, bool lhs, side_axes *axes) {
    if (dot->op == WEFT_OP_scaled_dot) {
        assign_leading(axes);
        return;
    }
    const weft_attribute *batch = weft_node_attribute(dot, lhs ? WEFT_ATTR_lhs_batch : WEFT_ATTR_rhs_batch);
    const weft_attribute *contract = weft_node_attribute(dot, lhs ? WEFT_ATTR_lhs_contract : WEFT_ATTR_rhs_contract);
    for (int i = 0; i < axes->rank; i++) axes->role[i] = AXIS_FREE;
    for (int i = 0; i < batch->count; i++)
        axes->role[batch->as.ints[i]] = AXIS_BATCH, axes->order[batch->as.ints[i]] = i;
    for (int i = 0; i < contract->count; i++)
        axes->role[contract->as.ints[i]] = AXIS_CONTRACT, axes->order[contract->as.ints[i]] = i;
    int free = 0;
    for (int i = 0; i < axes->rank; i++)
        if (axes->role[i] == AXIS_FREE) axes->order[i] = free++;
}

static weft_dim extent_of(weft_dim_table *dims, const weft_value *value, const side_axes *axes, axis_role role) {
    weft_dim product = 1;
    for (int i = 0; i < axes->rank; i++)
        if (axes->role[i] == role) product = weft_dim_multiply(dims, product, value->type.dims[i]);
    return product;
}

/* Memory order must be batch, then free and contract as two runs, each in the product's order. */
static bool order_fits(const side_axes *axes, bool *out_k_contiguous) {
    int next[3] = {0, 0, 0}, runs = 0;
    axis_role last = AXIS_BATCH;
    *out_k_contiguous = true;
    for (int i = 0; i < axes->rank; i++) {
        int axis = axes->memory[i];
        axis_role role = axes->role[axis];
        if (axes->order[axis] != next[role]++) return false;
        if (role == last) continue;
        if (role == AXIS_BATCH || ++runs > 2) return false;
        last = role;
        *out_k_contiguous = role == AXIS_CONTRACT;
    }
    return true;
}

static void list_axes(const side_axes *axes, weft_product_side *side) {
    for (int i = 0; i < axes->rank; i++) {
        int *list = axes->role[i] == AXIS_BATCH  ? side->batch_axes
                    : axes->role[i] == AXIS_FREE ? side->free_axes
                                                 : side->contract_axes;
        list[axes->order[i]] = i;
        side->free_count += axes->role[i] == AXIS_FREE;
    }
}

static void describe_side(const weft_graph *graph, const weft_node *fusion, const weft_node *dot, bool lhs,
                          weft_product_side *side, weft_dim *out_free, weft_dim *out_k) {
    const weft_value *value = dot->operands[lhs ? 0 : 1], *source;
    side_axes axes;
    memset(&axes, 0, sizeof axes);
    source = trace_operand(value, &axes);
    assign_roles(dot, lhs, &axes);
    list_axes(&axes, side);
    *out_free = extent_of(graph->dims, value, &axes, AXIS_FREE);
    *out_k = extent_of(graph->dims, value, &axes, AXIS_CONTRACT);
    side->operand = -1;
    side->k_contiguous = axes.rank > 0 && axes.role[axes.memory[axes.rank - 1]] == AXIS_CONTRACT;
    if (source->node || source->block != weft_fusion_block(fusion)) return;
    side->dense = order_fits(&axes, &side->k_contiguous);
    side->operand = source->index;
    side->pitch = side->k_contiguous ? *out_k : *out_free;
}

static bool keeps_position(const weft_node *node) {
    return (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE) || node->op == WEFT_OP_reshape;
}

/* Values that depend on `from` and are used where a value moves: false. */
static bool positions_kept(const weft_block *block, const weft_value *from, bool *out_reached) {
    const weft_value *reached[64] = {from};
    int count = 1;
    *out_reached = false;
    for (const weft_node *node = block->first; node; node = node->next) {
        bool depends = false;
        for (int o = 0; o < node->operand_count; o++)
            for (int i = 0; i < count; i++) depends |= node->operands[o] == reached[i];
        if (!depends) continue;
        if (node->op == WEFT_OP_yield) {
            *out_reached = true;
            continue;
        }
        if (!keeps_position(node) || node->result_count != 1 || count == 64) return false;
        reached[count++] = &node->results[0];
    }
    return true;
}

static void count_axes(const weft_graph *graph, const weft_node *dot, weft_product *product) {
    const weft_type *a = &dot->operands[0]->type;
    product->batch = 1;
    if (dot->op == WEFT_OP_scaled_dot) {
        product->block = weft_node_attribute(dot, WEFT_ATTR_block)->as.ints;
        product->batch_count = a->rank - 2, product->contract_count = 1;
        for (int i = 0; i < a->rank - 2; i++)
            product->batch = weft_dim_multiply(graph->dims, product->batch, a->dims[i]);
        return;
    }
    const weft_attribute *batch = weft_node_attribute(dot, WEFT_ATTR_lhs_batch);
    product->batch_count = batch->count;
    product->contract_count = weft_node_attribute(dot, WEFT_ATTR_lhs_contract)->count;
    for (int i = 0; i < batch->count; i++)
        product->batch = weft_dim_multiply(graph->dims, product->batch, a->dims[batch->as.ints[i]]);
}

static bool is_f8(weft_dtype dtype) { return weft_dtype_is_float(dtype) && weft_dtype_bits(dtype) == 8; }

bool weft_product_find(const weft_graph *graph, const weft_node *fusion, weft_product *out_product,
                       const char **out_reason) {
    *out_product = (weft_product){0};
    const weft_block *block = weft_fusion_block(fusion);
    const weft_node *dot = NULL;
    for (const weft_node *node = block->first; node; node = node->next) {
        if (node->op != WEFT_OP_dot_general && node->op != WEFT_OP_scaled_dot) continue;
        *out_reason = "two products in one group";
        if (dot) return false;
        dot = node;
    }
    *out_reason = "no product in the group";
    if (!dot) return false;
    weft_dim k_of_b;
    out_product->dot = dot;
    out_product->dtype = dot->operands[0]->type.dtype;
    *out_reason = "operands of different types";
    out_product->dtype_b = dot->operands[1]->type.dtype;
    bool narrow = is_f8(out_product->dtype) && is_f8(out_product->dtype_b);
    if (out_product->dtype_b != out_product->dtype && !narrow) return false;
    weft_dtype standard = weft_dtype_bits(out_product->dtype) <= 16 && weft_dtype_is_float(out_product->dtype)
                              ? WEFT_F32
                              : out_product->dtype;
    out_product->accumulate = weft_node_dtype(dot, WEFT_ATTR_accumulate, standard);
    describe_side(graph, fusion, dot, true, &out_product->a, &out_product->m, &out_product->k);
    describe_side(graph, fusion, dot, false, &out_product->b, &out_product->n, &k_of_b);
    count_axes(graph, dot, out_product);
    bool reached;
    *out_reason = "the epilogue moves elements of the product";
    if (!positions_kept(block, &dot->results[0], &reached) || !reached) return false;
    *out_reason = "a result that does not have the product's shape";
    for (int i = 0; i < fusion->result_count; i++) {
        const weft_value *yield = weft_fusion_yield(fusion, i);
        weft_dim count = 1,
                 elements = weft_dim_multiply(graph->dims, out_product->batch,
                                              weft_dim_multiply(graph->dims, out_product->m, out_product->n));
        for (int d = 0; d < yield->type.rank; d++) count = weft_dim_multiply(graph->dims, count, yield->type.dims[d]);
        if (!weft_dim_known_equal(graph->dims, count, elements)) return false;
    }
    *out_reason = NULL;
    return true;
}

int weft_product_companion(const weft_node *fusion, const weft_product *product, weft_dtype dtype) {
    const weft_block *block = weft_fusion_block(fusion);
    const weft_type *shape = &product->dot->results[0].type;
    for (int i = 0; i < block->argument_count; i++) {
        const weft_value *argument = block->arguments[i];
        bool reached, same = argument->type.rank == shape->rank && argument->type.dtype == dtype;
        for (int d = 0; same && d < shape->rank; d++) same = argument->type.dims[d] == shape->dims[d];
        if (same && i != product->a.operand && i != product->b.operand && positions_kept(block, argument, &reached) &&
            reached)
            return i;
    }
    return -1;
}
