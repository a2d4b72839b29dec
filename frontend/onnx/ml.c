/* A few operators of ai.onnx.ml that are numeric. */
#include <string.h>

#include "base/tensor.h"
#include "frontend/onnx/import.h"

/* Columns of the last axis. */
void weft_onnx_import_array_feature_extractor(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(indices)) return;
    weft_dim all = WEFT_DIM_ANY;
    weft_onnx_output(node, 0, weft_take(g, x, weft_convert(g, weft_reshape(g, indices, 1, &all), WEFT_I64), -1));
}

void weft_onnx_import_binarizer(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    weft_value *above = weft_compare(g, WEFT_GT, x, weft_onnx_scalar_like(g, x, weft_onnx_float(node, "threshold", 0)));
    weft_onnx_output(node, 0, weft_convert(g, above, x->type.dtype));
}

/* A list attribute (tensor, integers or floats) as a vector value; NULL when the node has none of them. */
static weft_value *list_of(weft_onnx_node *node, const char *tensor_name, const char *ints_name,
                           const char *floats_name) {
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, tensor_name);
    weft_context *context = node->import->context;
    weft_tensor *tensor = NULL;
    weft_status status;
    int64_t count;
    if (attribute && attribute->t)
        status = weft_onnx_tensor_create(context, attribute->t, node->import->folder, &tensor);
    else if ((attribute = weft_onnx_attribute(node, ints_name)))
        count = (int64_t)attribute->n_ints,
        status = weft_tensor_create_copy(context, WEFT_I64, 1, &count, attribute->ints, &tensor);
    else if ((attribute = weft_onnx_attribute(node, floats_name)))
        count = (int64_t)attribute->n_floats,
        status = weft_tensor_create_copy(context, WEFT_F32, 1, &count, attribute->floats, &tensor);
    else
        return NULL;
    return weft_onnx_constant(node->import, status, tensor, NULL);
}

/* keys[i] -> values[i]; anything else -> the default. NaN keys match NaN. */
void weft_onnx_import_label_encoder(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *keys = list_of(node, "keys_tensor", "keys_int64s", "keys_floats"),
               *values = list_of(node, "values_tensor", "values_int64s", "values_floats");
    if (weft_value_is_poison(x) || !keys || !values || weft_value_is_poison(keys) || weft_value_is_poison(values)) {
        if (!keys || !values) weft_onnx_problem(node, "strings exist on the host only");
        return;
    }
    if (keys->type.rank != 1 || values->type.rank != 1 || keys->type.dims[0] != values->type.dims[0]) {
        weft_onnx_problem(node, "keys and values differ in number");
        return;
    }
    int64_t last = x->type.rank;
    weft_value *beside = weft_unsqueeze(g, x, 1, &last), *match = weft_compare(g, WEFT_EQ, beside, keys);
    if (weft_dtype_is_float(x->type.dtype))
        match = weft_or(g, match, weft_and(g, weft_is_nan(g, beside), weft_is_nan(g, keys)));
    weft_value *at = weft_arg_reduce(g, WEFT_MAX, weft_convert(g, match, WEFT_I32), x->type.rank, false, false);
    weft_value *any = weft_reduce(g, WEFT_OR, match, 1, &last, false);
    weft_value *fallback;
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, "default_tensor");
    if (attribute && attribute->t) {
        weft_tensor *tensor = NULL;
        weft_status status =
            weft_onnx_tensor_create(node->import->context, attribute->t, node->import->folder, &tensor);
        fallback = weft_reshape(g, weft_onnx_constant(node->import, status, tensor, NULL), 0, NULL);
    } else if (weft_dtype_is_float(values->type.dtype))
        fallback = weft_scalar(g, values->type.dtype, weft_onnx_float(node, "default_float", -0.0));
    else
        fallback = weft_scalar_integer(g, values->type.dtype, weft_onnx_int(node, "default_int64", -1));
    weft_onnx_output(node, 0, weft_where(g, any, weft_take(g, values, at, 0), fallback));
}
