/* Constants: nodes whose operands are all constants are run by the reference interpreter, exactly.
   Results up to SMALL_BYTES always; larger ones when they take no more memory than the constants they replace and the
   work is bounded. What makes memory out of little (broadcast, iota) stays as it is; a broadcast constant counts as a
   constant beside one that is as large as the result. */
#include "ir/interpret.h"

#include "base/tensor.h"
#include "passes/simplify/simplify.h"

enum { SMALL_BYTES = 1 << 16, MAX_OPERANDS = 64, MAX_RESULTS = 8 };
static const int64_t max_work = 1 << 22; /* element operations */

static bool is_broadcast_constant(const weft_value *value) {
    return weft_producer(value, WEFT_OP_broadcast) && weft_producer(value->node->operands[0], WEFT_OP_constant);
}

static bool is_candidate(const weft_node *node) {
    unsigned flags = weft_op_get(node->op)->flags;
    if (flags & (WEFT_FLAG_EFFECT | WEFT_FLAG_REGION | WEFT_FLAG_TERMINATOR)) return false;
    if (node->operand_count == 0 || node->operand_count > MAX_OPERANDS || node->result_count > MAX_RESULTS)
        return false;
    if (node->op == WEFT_OP_broadcast || node->op == WEFT_OP_optimization_barrier) return false;
    if (node->op == WEFT_OP_transpose && weft_dots_take_transpose(node)) return false; /* weights stay as they lie */
    if (weft_node_attribute(node, WEFT_ATTR_symbol)) return false;
    bool full = false;
    for (int i = 0; i < node->operand_count; i++) {
        full |= weft_producer(node->operands[i], WEFT_OP_constant) != NULL;
        if (!weft_producer(node->operands[i], WEFT_OP_constant) &&
            !((flags & WEFT_FLAG_ELEMENTWISE) && is_broadcast_constant(node->operands[i])))
            return false;
    }
    return full;
}

/* The tensor of a constant or of what is broadcast. */
static weft_tensor *constant_of(const weft_value *value) {
    if (value->node->op == WEFT_OP_broadcast) value = value->node->operands[0];
    return weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
}

/* Bytes of the results; false when an extent is symbolic or they do not fit. */
static bool result_bytes(const weft_node *node, size_t *out_bytes, int64_t *out_elements) {
    *out_bytes = 0;
    *out_elements = 0;
    for (int i = 0; i < node->result_count; i++) {
        const weft_type *type = &node->results[i].type;
        int64_t count = 1;
        size_t bytes;
        for (int axis = 0; axis < type->rank; axis++)
            if (!weft_dim_is_number(type->dims[axis]) || __builtin_mul_overflow(count, type->dims[axis], &count))
                return false;
        if (!weft_dtype_bytes(type->dtype, count, &bytes) || !weft_size_add(*out_bytes, bytes, out_bytes)) return false;
        if (__builtin_add_overflow(*out_elements, count, out_elements)) return false;
    }
    return true;
}

/* A bound on element operations: products contract, windows overlap, sorts compare; all below elements * elements read.
 */
static bool work_is_bounded(const weft_node *node, int64_t result_elements) {
    int64_t read = 1, work = result_elements;
    for (int i = 0; i < node->operand_count; i++) {
        const weft_tensor *operand = constant_of(node->operands[i]);
        if (!operand->packed) return false; /* the interpreter takes packed ones */
        if (operand->element_count > read) read = operand->element_count;
    }
    bool repeated = node->op == WEFT_OP_dot_general || node->op == WEFT_OP_ragged_dot ||
                    node->op == WEFT_OP_convolution || node->op == WEFT_OP_reduce_window ||
                    weft_op_get(node->op)->class == WEFT_CLASS_DERIVED;
    if (repeated && __builtin_mul_overflow(work, read, &work)) return false;
    return work <= max_work && read <= max_work;
}

static bool is_worth(const weft_node *node) {
    size_t bytes, freed = 0;
    int64_t elements;
    if (!result_bytes(node, &bytes, &elements) || !work_is_bounded(node, elements)) return false;
    if (bytes <= SMALL_BYTES) return true;
    for (int i = 0; i < node->operand_count; i++)
        if (weft_producer(node->operands[i], WEFT_OP_constant) && !node->operands[i]->uses->next)
            freed += constant_of(node->operands[i])->bytes;
    return bytes <= freed;
}

static weft_status run(weft_graph *graph, const weft_node *node, weft_tensor **results) {
    weft_interpreter interpreter;
    weft_tensor *inputs[MAX_OPERANDS], *spread[MAX_OPERANDS] = {NULL};
    WEFT_TRY(weft_interpreter_init(graph, WEFT_INTERPRET_EXACT, &interpreter), "folding");
    weft_status status = NULL;
    for (int i = 0; i < node->operand_count && !status; i++) {
        const weft_node *producer = node->operands[i]->node;
        inputs[i] = constant_of(node->operands[i]);
        if (producer->op != WEFT_OP_broadcast) continue;
        status = weft_interpret_node(&interpreter, producer, &inputs[i], &spread[i]);
        inputs[i] = spread[i];
    }
    if (!status) status = weft_interpret_node(&interpreter, node, inputs, results);
    for (int i = 0; i < node->operand_count; i++) weft_tensor_release(spread[i]);
    weft_interpreter_deinit(&interpreter);
    return status;
}

weft_value *weft_rewrite_fold_constants(weft_graph *graph, weft_node *node) {
    weft_tensor *results[MAX_RESULTS] = {NULL};
    if (!is_candidate(node) || !is_worth(node)) return NULL;
    weft_status status = run(graph, node, results);
    if (status) { /* what cannot be computed (a singular matrix) is left to run time */
        if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) graph->out_of_memory = true;
        weft_status_release(status);
        return NULL;
    }
    weft_value *first = NULL;
    for (int i = 0; i < node->result_count; i++) {
        weft_value *constant = weft_graph_constant(graph, results[i]);
        weft_tensor_release(results[i]);
        if (i == 0)
            first = constant;
        else if (weft_type_equal(&constant->type, &node->results[i].type))
            weft_value_replace(&node->results[i], constant);
    }
    return first;
}
