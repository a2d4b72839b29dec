/* ONNX sequences and optionals: static lists of values, resolved at import. Read next: loss.c. */
#include <string.h>

#include "frontend/onnx/import.h"

static const weft_onnx_value *sequence_input(weft_onnx_node *node, int input) {
    if (!weft_onnx_has(node, input) || node->inputs[input]->kind != WEFT_ONNX_SEQUENCE) {
        weft_onnx_problem(node, "input %d is not a sequence known at import", input);
        return NULL;
    }
    return node->inputs[input];
}

/* Position from an input; fallback when not given; negative ones count from the end. limit: largest allowed. */
static bool position_of(weft_onnx_node *node, int input, int64_t fallback, int count, int limit, int *out) {
    int64_t at = fallback;
    if (weft_onnx_has(node, input) && !weft_onnx_integer(node, weft_onnx_input(node, input), &at)) return false;
    if (at < 0) at += count;
    if (at < 0 || at > limit) weft_onnx_problem(node, "position %lld of %d items", (long long)at, count);
    *out = (int)at;
    return at >= 0 && at <= limit;
}

void weft_onnx_import_sequence_empty(weft_onnx_node *node) {
    node->outputs[0] = weft_onnx_value_sequence(node->import, 0, NULL);
}

void weft_onnx_import_sequence_construct(weft_onnx_node *node) {
    for (int i = 0; i < node->input_count; i++)
        if (!node->inputs[i]) return;
    node->outputs[0] = weft_onnx_value_sequence(node->import, node->input_count, node->inputs);
}

void weft_onnx_import_sequence_insert(weft_onnx_node *node) {
    const weft_onnx_value *list = sequence_input(node, 0);
    int at;
    if (!list || !weft_onnx_has(node, 1) || !position_of(node, 2, list->count, list->count, list->count, &at)) return;
    weft_onnx_value **items = weft_onnx_allocate(node->import, (size_t)list->count + 1, sizeof *items);
    if (!items) return;
    for (int i = 0; i <= list->count; i++) items[i] = i == at ? node->inputs[1] : list->items[i > at ? i - 1 : i];
    node->outputs[0] = weft_onnx_value_sequence(node->import, list->count + 1, items);
}

void weft_onnx_import_sequence_erase(weft_onnx_node *node) {
    const weft_onnx_value *list = sequence_input(node, 0);
    int at;
    if (!list || !position_of(node, 1, list->count - 1, list->count, list->count - 1, &at)) return;
    weft_onnx_value **items = weft_onnx_allocate(node->import, (size_t)list->count + 1, sizeof *items);
    if (!items) return;
    for (int i = 0, next = 0; i < list->count; i++)
        if (i != at) items[next++] = list->items[i];
    node->outputs[0] = weft_onnx_value_sequence(node->import, list->count - 1, items);
}

void weft_onnx_import_sequence_at(weft_onnx_node *node) {
    const weft_onnx_value *list = sequence_input(node, 0);
    int at;
    if (list && position_of(node, 1, 0, list->count, list->count - 1, &at)) node->outputs[0] = list->items[at];
}

void weft_onnx_import_sequence_length(weft_onnx_node *node) {
    const weft_onnx_value *list = sequence_input(node, 0);
    if (list) weft_onnx_output(node, 0, weft_scalar_integer(node->graph, WEFT_I64, list->count));
}

void weft_onnx_import_concat_from_sequence(weft_onnx_node *node) {
    const weft_onnx_value *list = sequence_input(node, 0);
    if (!list) return;
    weft_value **values = weft_onnx_allocate(node->import, (size_t)list->count + 1, sizeof *values);
    if (!values) return;
    for (int i = 0; i < list->count; i++)
        values[i] = list->items[i]->kind == WEFT_ONNX_TENSOR ? list->items[i]->value : weft_value_poison(node->graph);
    if (!weft_onnx_require(node, "axis")) return;
    int axis = weft_onnx_int32(node, "axis", 0);
    bool stack = weft_onnx_int(node, "new_axis", 0) != 0;
    weft_onnx_output(node, 0,
                     stack ? weft_stack(node->graph, axis, list->count, values)
                           : weft_concat(node->graph, axis, list->count, values));
}

/* Parts of a scalar size, of given sizes, or of size one with the axis dropped. */
void weft_onnx_import_split_to_sequence(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *split = weft_onnx_optional(node, 1);
    if (weft_value_is_poison(x)) return;
    int64_t axis = weft_onnx_int(node, "axis", 0), extent, sizes[1024];
    int count = 0;
    if (axis < 0) axis += x->type.rank;
    if (axis < 0 || axis >= x->type.rank || !weft_onnx_dim_number(g, x->type.dims[axis], &extent)) {
        weft_onnx_problem(node, "wants a known extent on the axis");
        return;
    }
    bool drop = !split && !weft_onnx_int(node, "keepdims", 1), scalar = !split;
    int64_t step = 1;
    if (split) {
        if (weft_value_is_poison(split)) return;
        scalar = split->type.rank == 0;
        if (scalar ? !weft_onnx_integer(node, split, &step) : !weft_onnx_integers(node, split, 1024, &count, sizes))
            return;
    }
    if (scalar) {
        if (step < 1 || (extent + step - 1) / step > 1024) {
            weft_onnx_problem(node, "parts of %lld of an extent of %lld", (long long)step, (long long)extent);
            return;
        }
        for (int64_t at = 0; at < extent; at += step) sizes[count++] = extent - at < step ? extent - at : step;
    }
    weft_onnx_value **items = weft_onnx_allocate(node->import, (size_t)count + 1, sizeof *items);
    if (!items) return;
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        weft_value *part = weft_slice_axis(g, x, (int)axis, at, at + sizes[i]);
        items[i] = weft_onnx_value_tensor(node->import, drop ? weft_squeeze(g, part, 1, &axis) : part);
        at += sizes[i];
    }
    node->outputs[0] = weft_onnx_value_sequence(node->import, count, items);
}

/* The body once per item; further inputs are sequences of the same length or tensors that every call gets. */
void weft_onnx_import_sequence_map(weft_onnx_node *node) {
    weft_onnx_import_state *import = node->import;
    const weft_onnx_value *list = sequence_input(node, 0);
    const Onnx__AttributeProto *body = weft_onnx_attribute(node, "body");
    if (!list || !body || !body->g) return;
    size_t outputs = body->g->n_output;
    weft_onnx_value **arguments = weft_onnx_allocate(import, (size_t)node->input_count + 1, sizeof *arguments);
    weft_onnx_value **made = weft_onnx_allocate(import, outputs + 1, sizeof *made);
    weft_onnx_value **items = weft_onnx_allocate(import, outputs * (size_t)(list->count + 1) + 1, sizeof *items);
    if (!arguments || !made || !items) return;
    for (int k = 0; k < list->count; k++) {
        for (int i = 0; i < node->input_count; i++) {
            weft_onnx_value *input = node->inputs[i];
            if (!input || (input->kind == WEFT_ONNX_SEQUENCE && input->count != list->count)) {
                weft_onnx_problem(node, "input %d is not a sequence of %d items", i, list->count);
                return;
            }
            arguments[i] = input->kind == WEFT_ONNX_SEQUENCE ? input->items[k] : input;
        }
        weft_onnx_import_subgraph(import, body->g, node->input_count, arguments, made);
        for (size_t i = 0; i < outputs; i++) {
            if (!made[i]) return;
            items[i * (size_t)list->count + (size_t)k] = made[i];
        }
    }
    for (int i = 0; i < node->output_count && (size_t)i < outputs; i++)
        node->outputs[i] = weft_onnx_value_sequence(import, list->count, &items[(size_t)i * (size_t)list->count]);
}

/* -- optionals: a value or nothing */

void weft_onnx_import_optional(weft_onnx_node *node) {
    node->outputs[0] = node->input_count > 0 && node->inputs[0] ? node->inputs[0] : weft_onnx_value_none(node->import);
}

void weft_onnx_import_optional_get_element(weft_onnx_node *node) {
    if (weft_onnx_has(node, 0))
        node->outputs[0] = node->inputs[0];
    else
        weft_onnx_problem(node, "the optional is empty");
}

void weft_onnx_import_optional_has_element(weft_onnx_node *node) {
    weft_onnx_output(node, 0, weft_scalar_integer(node->graph, WEFT_BOOL, weft_onnx_has(node, 0)));
}
