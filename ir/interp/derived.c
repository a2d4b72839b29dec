/* Derived ops: the op is built again in a small graph of its own, with the operands' actual shapes, decomposed there
   and interpreted. So a decomposition is tested by every use of its op, whatever the enclosing graph looks like. */
#include "ir/decompose.h"
#include "ir/interp/interp.h"

/* Adds inputs, the decomposition and the output to `graph`. */
static weft_status build_decomposed(weft_graph *graph, const weft_node *node, weft_tensor *const *inputs,
                                    weft_value **operands) {
    for (int i = 0; i < node->operand_count; i++)
        operands[i] = weft_graph_input(graph, NULL, inputs[i]->dtype, inputs[i]->rank, inputs[i]->shape);
    weft_node *copy = weft_node_create(graph, node->op, node->operand_count, operands, node->attribute_count,
                                       node->attributes, 0, NULL);
    weft_decompose_hook decompose = weft_decompose_get(node->op);
    if (!decompose) return WEFT_STATUS(WEFT_INTERNAL, "%s has no decomposition", weft_op_get(node->op)->name);
    if (copy && copy->block) {
        weft_value *value = decompose(graph, copy, operands);
        weft_node_remove(copy);
        weft_graph_output(graph, "value", value);
    }
    return weft_graph_verify(graph);
}

weft_status weft_interp_derived(const weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    weft_graph *graph;
    WEFT_TRY(weft_graph_create(interpreter->graph->context, weft_op_get(node->op)->name, &graph), "decomposition");
    void *operands = NULL;
    weft_status status = weft_interp_scratch(interpreter, node->operand_count, sizeof(weft_value *), &operands);
    if (!status) status = build_decomposed(graph, node, inputs, operands);
    if (!status) status = weft_interpret(graph, interpreter->mode, node->operand_count, inputs, 1, results);
    weft_interp_scratch_free(interpreter, node->operand_count, sizeof(weft_value *), operands);
    weft_graph_release(graph);
    return status;
}
