/* The values of graph values at import: extents, sizes, axes and everything computed from them.

   A small value is a list of elements: an integer extent (number or expression), an exact ratio of one (floats made
   from extents), a float number, or unknown. It is computed backwards over core nodes, each value once, so every
   operator that is lowered to core ops takes part without doing anything. What depends on constants alone and is
   larger, or uses other ops, is folded by the reference interpreter. Invariant: an element that is not unknown is
   exactly what the interpreter would compute. Read next: control.c. */
#include <math.h>
#include <string.h>

#include "base/tensor.h"
#include "frontend/onnx/symbolic.h"
#include "ir/interpret.h"

bool weft_onnx_dim_number(const weft_graph *graph, weft_dim dim, int64_t *out_number) {
    if (weft_dim_is_number(dim)) {
        *out_number = dim;
        return true;
    }
    if (dim == WEFT_DIM_INVALID || dim == WEFT_DIM_ANY) return false;
    weft_dim_node node = weft_dim_get(graph->dims, dim);
    *out_number = node.number;
    return node.kind == WEFT_DIM_NUMBER;
}

weft_dim weft_onnx_dim(weft_graph *graph, int64_t number) { return weft_dim_number(graph->dims, number); }

/* -- folding */

static bool is_small(const weft_value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->type.rank; i++) {
        if (!weft_dim_is_number(value->type.dims[i])) return false;
        if (value->type.dims[i] && count > WEFT_ONNX_FOLD_MAX / value->type.dims[i]) return false;
        count *= value->type.dims[i];
    }
    return true;
}

static weft_status run_node(weft_onnx_import_state *import, const weft_node *node, weft_tensor *const *inputs,
                            weft_tensor **results) {
    int count = weft_dim_symbol_count(import->graph->dims);
    int64_t *symbols = weft_onnx_allocate(import, (size_t)count + 1, sizeof *symbols);
    if (!symbols) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "symbols");
    weft_interpreter interpreter = {.graph = import->graph, .mode = WEFT_INTERPRET_EXACT, .symbols = symbols};
    weft_map_init(import->context->allocator, &interpreter.values);
    weft_map_init(import->context->allocator, &interpreter.states);
    weft_status status = weft_interpret_node(&interpreter, node, inputs, results);
    weft_map_deinit(&interpreter.values);
    weft_map_deinit(&interpreter.states);
    return status;
}

static bool can_fold(const weft_node *node) {
    if (node->region_count > 0 || (weft_op_get(node->op)->flags & WEFT_FLAG_EFFECT)) return false;
    for (int i = 0; i < node->result_count; i++)
        if (!is_small(&node->results[i])) return false;
    return node->op != WEFT_OP_dim && node->op != WEFT_OP_nonzero;
}

/* Evaluates value's node; every result is remembered. */
static weft_tensor *fold_node(weft_onnx_import_state *import, weft_value *value, int depth) {
    weft_node *node = value->node;
    if (!node || depth > 2000 || !can_fold(node)) return NULL;
    weft_tensor **inputs = weft_onnx_allocate(import, (size_t)node->operand_count + 1, sizeof *inputs);
    weft_tensor **results = weft_onnx_allocate(import, (size_t)node->result_count + 1, sizeof *results);
    if (!inputs || !results) return NULL;
    for (int i = 0; i < node->operand_count; i++) {
        weft_value *operand = node->operands[i];
        inputs[i] = weft_map_find(&import->folded, &operand, sizeof operand);
        if (!inputs[i]) inputs[i] = fold_node(import, operand, depth + 1);
        if (!inputs[i]) return NULL;
    }
    weft_status status = run_node(import, node, inputs, results);
    if (status) {
        weft_status_release(status);
        return NULL;
    }
    for (int i = 0; i < node->result_count; i++) {
        weft_value *result = &node->results[i];
        if (results[i] && !weft_map_put(&import->folded, &result, sizeof result, results[i])) {
            weft_tensor_release(results[i]);
            import->graph->out_of_memory = true;
        }
    }
    return weft_map_find(&import->folded, &value, sizeof value);
}

weft_tensor *weft_onnx_fold_constant(weft_onnx_import_state *import, weft_value *value) {
    if (value->node && value->node->op == WEFT_OP_constant)
        return weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    weft_tensor *known = weft_map_find(&import->folded, &value, sizeof value);
    return known ? known : fold_node(import, value, 0);
}

weft_tensor *weft_onnx_fold(weft_onnx_import_state *import, weft_value *value) {
    if (weft_value_is_poison(value)) return NULL;
    if (value->node && value->node->op == WEFT_OP_constant)
        return weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    weft_tensor *known = weft_map_find(&import->folded, &value, sizeof value);
    if (known) return known;
    /* values that follow extents are known although `dim` does not fold */
    const weft_onnx_symbolic *symbolic = weft_onnx_symbolic_of(import, value);
    if (symbolic) {
        weft_tensor *tensor = weft_onnx_symbolic_tensor(import, value, symbolic);
        if (tensor) {
            if (!weft_map_put(&import->folded, &value, sizeof value, tensor)) {
                weft_tensor_release(tensor);
                import->graph->out_of_memory = true;
                return NULL;
            }
            return tensor;
        }
    }
    return fold_node(import, value, 0);
}

/* -- questions of handlers */

static void visit_inputs(weft_onnx_import_state *import, weft_value *value, weft_map *seen, int depth, int *reported) {
    if (depth > 2000 || weft_map_has(seen, &value, sizeof value)) return;
    if (!weft_map_put(seen, &value, sizeof value, value)) return;
    if (value->block == import->graph->body->block && value->name) {
        (*reported)++;
        if (weft_map_has(&import->needed, value->name, strlen(value->name))) return;
        if (!weft_map_put(&import->needed, value->name, strlen(value->name), value)) return;
        if (import->options->need) import->options->need(import->options->need_self, value->name);
        return;
    }
    for (int i = 0; value->node && i < value->node->operand_count; i++)
        visit_inputs(import, value->node->operands[i], seen, depth + 1, reported);
}

void weft_onnx_need(weft_onnx_node *node, weft_value *value, const char *what) {
    if (weft_value_is_poison(value)) return;
    weft_map seen;
    weft_map_init(node->import->context->allocator, &seen);
    int reported = 0;
    visit_inputs(node->import, value, &seen, 0, &reported);
    weft_map_deinit(&seen);
    weft_onnx_problem(node,
                      reported ? "%s depends on the value of an input: give that input as a constant"
                               : "%s depends on values that are computed at run time",
                      what);
}

bool weft_onnx_try_extents(weft_onnx_import_state *import, weft_value *value, int capacity, int *out_count,
                           weft_dim *out_extents) {
    if (weft_value_is_poison(value)) return false;
    const weft_onnx_symbolic *symbolic = weft_onnx_symbolic_of(import, value);
    if (!symbolic || symbolic->count > capacity) return false;
    for (int i = 0; i < symbolic->count; i++) {
        if (symbolic->elements[i].kind != WEFT_ONNX_EXTENT) return false;
        out_extents[i] = symbolic->elements[i].extent;
    }
    *out_count = symbolic->count;
    return true;
}

bool weft_onnx_extents(weft_onnx_node *node, weft_value *value, int capacity, int *out_count, weft_dim *out_extents) {
    if (weft_onnx_try_extents(node->import, value, capacity, out_count, out_extents)) return true;
    weft_onnx_need(node, value, "a shape");
    return false;
}

bool weft_onnx_integers(weft_onnx_node *node, weft_value *value, int capacity, int *out_count, int64_t *out_values) {
    weft_dim *extents = weft_onnx_allocate(node->import, (size_t)capacity, sizeof *extents);
    if (!extents) return false;
    bool known = weft_onnx_try_extents(node->import, value, capacity, out_count, extents);
    for (int i = 0; known && i < *out_count; i++) known = weft_onnx_dim_number(node->graph, extents[i], &out_values[i]);
    if (!known) weft_onnx_need(node, value, "an integer");
    return known;
}

bool weft_onnx_numbers(weft_onnx_node *node, weft_value *value, int capacity, int *out_count, double *out_values) {
    weft_tensor *tensor = weft_onnx_fold(node->import, value);
    if (!tensor || weft_tensor_element_count(tensor) > capacity) {
        weft_onnx_need(node, value, "a number");
        return false;
    }
    *out_count = (int)weft_tensor_element_count(tensor);
    for (int i = 0; i < *out_count; i++)
        out_values[i] = weft_dtype_is_float(tensor->dtype) ? weft_element_double(tensor->dtype, tensor->data, i)
                                                           : (double)weft_element_i64(tensor->dtype, tensor->data, i);
    return true;
}

bool weft_onnx_extent(weft_onnx_node *node, weft_value *value, weft_dim *out_extent) {
    int count;
    if (!weft_onnx_extents(node, value, 1, &count, out_extent)) return false;
    if (count != 1) weft_onnx_problem(node, "one number is wanted where a list is empty");
    return count == 1;
}

bool weft_onnx_integer(weft_onnx_node *node, weft_value *value, int64_t *out_value) {
    int count;
    if (!weft_onnx_integers(node, value, 1, &count, out_value)) return false;
    if (count != 1) weft_onnx_problem(node, "one number is wanted where a list is empty");
    return count == 1;
}

bool weft_onnx_number(weft_onnx_node *node, weft_value *value, double *out_value) {
    int count;
    if (!weft_onnx_numbers(node, value, 1, &count, out_value)) return false;
    if (count != 1) weft_onnx_problem(node, "one number is wanted where a list is empty");
    return count == 1;
}

bool weft_onnx_try_integer(weft_onnx_import_state *import, weft_value *value, int64_t *out_value) {
    int count;
    weft_dim extent;
    return weft_onnx_try_extents(import, value, 1, &count, &extent) && count == 1 &&
           weft_onnx_dim_number(import->graph, extent, out_value);
}
