/* Derived ops: the op is built again in a small graph of its own, with the operands' actual shapes, decomposed there
   and interpreted. So a decomposition is tested by every use of its op, whatever the enclosing graph looks like. */
#include <stdio.h>

#include "ir/decompose.h"
#include "ir/interp/interp.h"

/* Adds inputs, the decomposition and its values as outputs to `graph`. */
static weft_status build_decomposed(weft_graph *graph, const weft_node *node, weft_tensor *const *inputs,
                                    weft_value **operands) {
    for (int i = 0; i < node->operand_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", i);
        operands[i] = weft_graph_input(graph, name, inputs[i]->dtype, inputs[i]->rank, inputs[i]->shape);
    }
    weft_node *copy = weft_node_create(graph, node->op, node->operand_count, operands, node->attribute_count,
                                       node->attributes, 0, NULL);
    if (!weft_op_decomposes(node->op))
        return WEFT_STATUS(WEFT_INTERNAL, "%s has no decomposition", weft_op_get(node->op)->name);
    if (copy && copy->block) {
        weft_value *values[WEFT_DECOMPOSED_MAX];
        int count = copy->result_count;
        weft_decompose(graph, copy, operands, values);
        weft_node_remove(copy);
        for (int i = 0; i < count; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "value%d", i);
            weft_graph_output(graph, name, values[i]);
        }
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
    if (!status)
        status = weft_interpret(graph, interpreter->mode, node->operand_count, inputs, node->result_count, results);
    weft_interp_scratch_free(interpreter, node->operand_count, sizeof(weft_value *), operands);
    weft_graph_release(graph);
    return status;
}
