/* What handlers read and set: inputs, attributes with the versions' fallbacks, outputs. Read next: operators.def. */
#include <string.h>

#include "frontend/onnx/import.h"

void weft_onnx_problem(const weft_onnx_node *node, const char *format, ...) {
    weft_text text;
    weft_text_init(node->import->context->allocator, &text);
    va_list arguments;
    va_start(arguments, format);
    weft_text_append_list(&text, format, arguments);
    va_end(arguments);
    weft_graph_problem(node->graph, "%s: %s", node->proto->op_type, weft_text_string(&text));
    weft_text_deinit(&text);
}

bool weft_onnx_has(const weft_onnx_node *node, int input) {
    return input < node->input_count && node->inputs[input] && node->inputs[input]->kind != WEFT_ONNX_NONE;
}

weft_value *weft_onnx_optional(weft_onnx_node *node, int input) {
    return weft_onnx_has(node, input) ? weft_onnx_input(node, input) : NULL;
}

weft_value *weft_onnx_input(weft_onnx_node *node, int input) {
    if (!weft_onnx_has(node, input)) {
        weft_onnx_problem(node, "input %d is missing", input);
        return weft_value_poison(node->graph);
    }
    if (node->inputs[input]->kind != WEFT_ONNX_TENSOR) {
        weft_onnx_problem(node, "input %d is a sequence where a tensor is wanted", input);
        return weft_value_poison(node->graph);
    }
    return node->inputs[input]->value;
}

bool weft_onnx_wants(const weft_onnx_node *node, int output) {
    return output < node->output_count && node->proto->output[output] && node->proto->output[output][0];
}

void weft_onnx_output(weft_onnx_node *node, int output, weft_value *value) {
    if (output < node->output_count) node->outputs[output] = weft_onnx_value_tensor(node->import, value);
}

static const Onnx__AttributeProto *find_in(size_t count, Onnx__AttributeProto *const *attributes, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (attributes[i]->name && strcmp(attributes[i]->name, name) == 0) return attributes[i];
    return NULL;
}

/* An attribute of a function body that refers to the call: the call's own, its function's default, or absent. */
static const Onnx__AttributeProto *resolve(const weft_onnx_frame *frame, const Onnx__AttributeProto *attribute) {
    while (attribute && attribute->ref_attr_name && attribute->ref_attr_name[0] && frame) {
        const char *name = attribute->ref_attr_name;
        attribute = find_in(frame->call->proto->n_attribute, frame->call->proto->attribute, name);
        if (!attribute) return find_in(frame->function->n_attribute_proto, frame->function->attribute_proto, name);
        frame = frame->outer;
    }
    return attribute;
}

const Onnx__AttributeProto *weft_onnx_attribute(const weft_onnx_node *node, const char *name) {
    return resolve(node->import->frame, find_in(node->proto->n_attribute, node->proto->attribute, name));
}

/* AttributeProto.type. Files of IR version 1 leave it out: whatever field is asked for counts then. */
typedef enum attribute_type { ANY = 0, FLOAT = 1, INT = 2, STRING = 3, INTS = 7 } attribute_type;

/* NULL when it is absent, or, with a problem, of another type: its value would be read as the field's zero. */
static const Onnx__AttributeProto *typed(const weft_onnx_node *node, const char *name, attribute_type type) {
    static const char *const names[] = {"any", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS"};
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, name);
    if (!attribute || !attribute->has_type || attribute->type == ANY || attribute->type == (int32_t)type)
        return attribute;
    weft_onnx_problem(node, "attribute %s has type %d, wanted %s (%d)", name, (int)attribute->type, names[type],
                      (int)type);
    return NULL;
}

bool weft_onnx_require(const weft_onnx_node *node, const char *name) {
    if (weft_onnx_attribute(node, name)) return true;
    weft_onnx_problem(node, "attribute %s is missing", name);
    return false;
}

int64_t weft_onnx_int(const weft_onnx_node *node, const char *name, int64_t fallback) {
    const Onnx__AttributeProto *attribute = typed(node, name, INT);
    return attribute ? attribute->i : fallback;
}

int weft_onnx_int32(const weft_onnx_node *node, const char *name, int fallback) {
    int64_t value = weft_onnx_int(node, name, fallback);
    if (value >= INT32_MIN && value <= INT32_MAX) return (int)value;
    weft_onnx_problem(node, "attribute %s is %lld", name, (long long)value);
    return fallback;
}

double weft_onnx_float(const weft_onnx_node *node, const char *name, double fallback) {
    const Onnx__AttributeProto *attribute = typed(node, name, FLOAT);
    return attribute ? (double)attribute->f : fallback;
}

const char *weft_onnx_string(const weft_onnx_node *node, const char *name, const char *fallback) {
    const Onnx__AttributeProto *attribute = typed(node, name, STRING);
    if (!attribute || !attribute->has_s) return fallback;
    char *text = weft_arena_copy_string(&node->import->arena, (const char *)attribute->s.data, attribute->s.len);
    if (!text) node->graph->out_of_memory = true;
    return text ? text : fallback;
}

bool weft_onnx_string_is(const weft_onnx_node *node, const char *name, const char *fallback, const char *value) {
    const char *text = weft_onnx_string(node, name, fallback);
    return text && strcmp(text, value) == 0;
}

bool weft_onnx_ints(const weft_onnx_node *node, const char *name, int *out_count, const int64_t **out_values) {
    const Onnx__AttributeProto *attribute = typed(node, name, INTS);
    *out_count = 0;
    *out_values = NULL;
    if (!attribute) return false;
    if (attribute->n_ints > 1 << 20) {
        weft_onnx_problem(node, "attribute %s has %zu entries", name, attribute->n_ints);
        return false;
    }
    *out_count = (int)attribute->n_ints;
    *out_values = attribute->ints;
    return true;
}

bool weft_onnx_ints_exact(const weft_onnx_node *node, const char *name, int count, int64_t fallback,
                          int64_t *out_values) {
    int given;
    const int64_t *values;
    for (int i = 0; i < count; i++) out_values[i] = fallback;
    if (!weft_onnx_ints(node, name, &given, &values) || given == 0) return true;
    if (given != count) {
        weft_onnx_problem(node, "attribute %s has %d entries, wanted %d", name, given, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        out_values[i] = values[i];
        if (values[i] > INT32_MAX || values[i] < INT32_MIN) {
            weft_onnx_problem(node, "attribute %s holds %lld", name, (long long)values[i]);
            return false;
        }
    }
    return true;
}

weft_dtype weft_onnx_dtype_attribute(const weft_onnx_node *node, const char *name, weft_dtype fallback) {
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, name);
    if (attribute && attribute->has_type && attribute->type != STRING) attribute = typed(node, name, INT);
    if (!attribute) return fallback;
    int64_t data_type = attribute->i;
    /* Cast-1 names the type in words */
    static const char *const words[] = {"UNDEFINED", "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                        "INT64",     "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
    if (attribute->has_s)
        for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
            if (attribute->s.len == strlen(words[i]) && memcmp(attribute->s.data, words[i], attribute->s.len) == 0)
                data_type = i;
    weft_dtype dtype = weft_onnx_dtype(data_type);
    if (dtype == WEFT_INVALID || dtype == WEFT_STRING) {
        weft_onnx_problem(node, "attribute %s asks for element type %lld, which kernels cannot hold", name,
                          (long long)data_type);
        return WEFT_INVALID;
    }
    return dtype;
}

bool weft_onnx_axes(weft_onnx_node *node, int input, const char *name, int *out_count, int64_t *out_axes, bool *ok) {
    *ok = true;
    *out_count = 0;
    if (input >= 0 && weft_onnx_has(node, input)) {
        *ok = weft_onnx_integers(node, weft_onnx_input(node, input), WEFT_MAX_RANK, out_count, out_axes);
        return true;
    }
    const int64_t *values;
    if (!weft_onnx_ints(node, name, out_count, &values)) return false;
    if (*out_count > WEFT_MAX_RANK) {
        weft_onnx_problem(node, "attribute %s has %d entries", name, *out_count);
        *ok = false;
        return true;
    }
    for (int i = 0; i < *out_count; i++) out_axes[i] = values[i];
    return true;
}

weft_value *weft_onnx_scalar_like(weft_graph *graph, const weft_value *x, double value) {
    return weft_value_is_poison(x) ? weft_value_poison(graph) : weft_scalar(graph, x->type.dtype, value);
}

weft_value *weft_onnx_wrap_indices(weft_graph *graph, weft_value *indices, weft_dim extent) {
    indices = weft_convert(graph, indices, WEFT_I64);
    weft_value *negative = weft_compare(graph, WEFT_LT, indices, weft_onnx_scalar_like(graph, indices, 0));
    return weft_where(graph, negative, weft_add(graph, indices, weft_extent(graph, extent)), indices);
}

weft_dtype weft_onnx_wide(weft_dtype dtype) {
    return weft_dtype_is_float(dtype) && weft_dtype_bits(dtype) < 32 ? WEFT_F32 : dtype;
}

weft_value *weft_onnx_widen(weft_graph *graph, weft_value *x) {
    return weft_value_is_poison(x) ? x : weft_convert(graph, x, weft_onnx_wide(x->type.dtype));
}

weft_value *weft_onnx_extents_value(weft_graph *graph, int count, const weft_dim *extents) {
    int64_t numbers[WEFT_MAX_RANK];
    bool known = count <= WEFT_MAX_RANK;
    for (int i = 0; known && i < count; i++) known = weft_onnx_dim_number(graph, extents[i], &numbers[i]);
    if (known) return weft_integers(graph, count, numbers);
    weft_value *parts[WEFT_MAX_RANK];
    for (int i = 0; i < count && i < WEFT_MAX_RANK; i++) parts[i] = weft_extent(graph, extents[i]);
    return weft_stack(graph, 0, count, parts);
}
