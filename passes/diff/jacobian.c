/* Whole Jacobians and Hessians: one direction for each element of one side, all directions as a batch. */
#include "ir/emit.h"
#include "passes/function/function.h"
#include "weft/transform.h"

/* [n, shape...], n elements: element k is 1 at the k-th position of a value like this one. */
static weft_value *basis(weft_graph *graph, const weft_value *like) {
    weft_dim count = weft_type_count(graph, &like->type), square[2] = {count, count}, dims[WEFT_MAX_RANK + 1] = {count};
    weft_value *equal = weft_emit_compare(graph, "eq", weft_emit_iota(graph, WEFT_I64, 2, square, 0),
                                          weft_emit_iota(graph, WEFT_I64, 2, square, 1));
    for (int i = 0; i < like->type.rank; i++) dims[i + 1] = like->type.dims[i];
    return weft_emit_reshape(graph, weft_emit_convert(graph, equal, like->type.dtype), like->type.rank + 1, dims);
}

static weft_value *shaped(weft_graph *graph, weft_value *flat, const weft_value *value, const weft_value *input) {
    weft_dim dims[WEFT_MAX_RANK];
    int at = 0;
    if (value->type.rank + input->type.rank > WEFT_MAX_RANK) {
        weft_graph_problem(graph, "a Jacobian of rank %d", value->type.rank + input->type.rank);
        return weft_value_poison(graph);
    }
    for (int i = 0; i < value->type.rank; i++) dims[at++] = value->type.dims[i];
    for (int i = 0; i < input->type.rank; i++) dims[at++] = input->type.dims[i];
    return weft_value_is_poison(flat) ? flat : weft_emit_reshape(graph, flat, at, dims);
}

weft_value *weft_jacobian_forward(weft_graph *graph, weft_value *value, weft_value *input) {
    weft_value *direction, *tangent, *directions, *columns;
    if (!weft_function_check(graph, "Jacobian: the value", 1, &value) ||
        !weft_function_check(graph, "Jacobian: the input", 1, &input))
        return weft_value_poison(graph);
    weft_linearize(graph, 1, &value, 1, &input, &direction, &tangent);
    directions = basis(graph, input);
    int last = value->type.rank;
    weft_vmap_options options = WEFT_VMAP_OPTIONS_INIT;
    options.out_axes = &last;
    weft_vmap_values(graph, &options, 1, &tangent, 1, &direction, &directions, &columns);
    return shaped(graph, columns, value, input);
}

weft_value *weft_jacobian_reverse(weft_graph *graph, weft_value *value, weft_value *input) {
    weft_value *cotangent, *gradient, *cotangents, *rows;
    if (!weft_function_check(graph, "Jacobian: the value", 1, &value) ||
        !weft_function_check(graph, "Jacobian: the input", 1, &input))
        return weft_value_poison(graph);
    cotangent = weft_placeholder_like(graph, value);
    weft_gradient(graph, value, cotangent, 1, &input, &gradient);
    cotangents = basis(graph, value);
    weft_vmap_values(graph, NULL, 1, &gradient, 1, &cotangent, &cotangents, &rows);
    return shaped(graph, rows, value, input);
}

weft_value *weft_hessian(weft_graph *graph, weft_value *value, weft_value *input) {
    weft_value *gradient;
    weft_gradient(graph, value, NULL, 1, &input, &gradient);
    return weft_jacobian_forward(graph, gradient, input);
}
