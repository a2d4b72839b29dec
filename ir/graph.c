/* The graph object: lifetime, inputs, outputs, states, symbols, problems, and access to types and attributes.
   Invariant: every function survives a missing allocation (out_of_memory is sticky and reported by weft_graph_verify).
   Read next: build.c (nodes), verify.c. */
#include "ir/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/tensor.h"
#include "ir/build.h"
#include "ir/verify.h"

/* -- lifetime */

weft_status weft_graph_create(weft_context *context, const char *name, weft_graph **out_graph) {
    WEFT_NEED(out_graph, "out_graph");
    *out_graph = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(name, "the name");
    weft_graph *graph = weft_allocate(context->allocator, sizeof *graph);
    if (!graph) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "graph %s", name);
    atomic_init(&graph->references, 1);
    graph->context = context;
    weft_context_retain(context);
    weft_arena_init(context->allocator, &graph->arena);
    graph->poison.graph = graph;
    weft_status status = weft_dim_table_create(context->allocator, &graph->dims);
    if (!status) {
        graph->name = weft_graph_copy_string(graph, name ? name : "");
        graph->body = weft_region_create(graph);
        if (!graph->name || !graph->body) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "graph %s", name ? name : "");
    }
    if (status) {
        weft_graph_release(graph);
        return status;
    }
    graph->insertion = graph->body->block;
    *out_graph = graph;
    return NULL;
}

void weft_graph_retain(weft_graph *graph) {
    if (graph) atomic_fetch_add(&graph->references, 1);
}

void weft_graph_release(weft_graph *graph) {
    if (!graph || atomic_fetch_sub(&graph->references, 1) != 1) return;
    weft_context *context = graph->context;
    weft_allocator allocator = context->allocator;
    for (size_t i = 0; i < graph->tensor_count; i++) weft_tensor_release(graph->tensors[i]);
    weft_free(allocator, graph->tensors, graph->tensor_capacity * sizeof *graph->tensors);
    weft_free(allocator, graph->outputs, graph->output_capacity * sizeof *graph->outputs);
    weft_free(allocator, (void *)graph->output_names, graph->output_name_capacity * sizeof *graph->output_names);
    weft_free(allocator, graph->states, graph->state_capacity * sizeof *graph->states);
    weft_free(allocator, graph->guards, graph->guard_capacity * sizeof *graph->guards);
    weft_free(allocator, graph->problems, graph->problem_capacity * sizeof *graph->problems);
    weft_dim_table_release(graph->dims);
    weft_arena_deinit(&graph->arena);
    weft_free(allocator, graph, sizeof *graph);
    weft_context_release(context);
}

void *weft_graph_allocate(weft_graph *graph, size_t count, size_t item_bytes) {
    void *memory = weft_arena_allocate_array(&graph->arena, count, item_bytes);
    if (!memory) graph->out_of_memory = true;
    return memory;
}

const char *weft_graph_copy_string(weft_graph *graph, const char *text) {
    if (!text) return NULL;
    const char *copy = weft_arena_copy_string(&graph->arena, text, strlen(text));
    if (!copy) graph->out_of_memory = true;
    return copy;
}

weft_tensor *weft_graph_keep_tensor(weft_graph *graph, weft_tensor *tensor) {
    if (!WEFT_ARRAY_RESERVE(graph->context->allocator, graph->tensors, graph->tensor_capacity,
                            graph->tensor_count + 1)) {
        graph->out_of_memory = true;
        return NULL;
    }
    weft_tensor *kept = tensor;
    if (tensor->packed) {
        weft_tensor_retain(tensor);
    } else {
        weft_status status = weft_tensor_create(graph->context, tensor->dtype, tensor->rank, tensor->shape, &kept);
        weft_status_release(status);
        if (status) {
            graph->out_of_memory = true;
            return NULL;
        }
        weft_tensor_pack(tensor, kept->data);
    }
    graph->tensors[graph->tensor_count++] = kept;
    return kept;
}

/* -- problems */

bool weft_graph_report(weft_graph *graph, weft_status status) {
    bool reported = status != NULL;
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY)
        graph->out_of_memory = true;
    else if (status)
        weft_graph_problem(graph, "%s", weft_status_message(status));
    weft_status_release(status);
    return reported;
}

void weft_graph_problem(weft_graph *graph, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : weft_graph_allocate(graph, (size_t)length + 1, 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    if (!text || !WEFT_ARRAY_RESERVE(graph->context->allocator, graph->problems, graph->problem_capacity,
                                     graph->problem_count + 1)) {
        graph->out_of_memory = true;
        return;
    }
    graph->problems[graph->problem_count++] = (weft_problem){graph->location, text};
}

weft_graph *weft_graph_at(weft_graph *graph, const char *file, int line) {
    if (!graph->location.name || !file || strcmp(graph->location.name, file) != 0)
        graph->location.name = weft_graph_copy_string(graph, file);
    graph->location.line = line;
    return graph;
}

void weft_location_print(const weft_location *location, weft_text *text) {
    if (!location->name) return;
    weft_text_append(text, "%s", location->name);
    if (location->line) weft_text_append(text, ":%d", location->line);
}

weft_value *weft_value_poison(weft_graph *graph) { return &graph->poison; }

weft_status weft_graph_verify(weft_graph *graph) {
    WEFT_NEED(graph, "the graph");
    WEFT_TRY(weft_graph_finish(graph), "graph %s", graph->name);
    return weft_verify(graph);
}

/* -- symbols and extents */

weft_dim weft_graph_symbol(weft_graph *graph, const char *name, int64_t minimum, int64_t maximum, int64_t divisor) {
    if (!name || !name[0]) {
        weft_graph_problem(graph, "symbol: its name is missing");
        return WEFT_DIM_INVALID;
    }
    if (minimum < 0 || maximum < minimum || divisor < 1) {
        weft_graph_problem(graph,
                           "symbol %s: bounds [%lld, %lld] divisor %lld; need 0 <= minimum <= maximum, divisor >= 1",
                           name, (long long)minimum, (long long)maximum, (long long)divisor);
        return WEFT_DIM_INVALID;
    }
    weft_dim dim = weft_dim_symbol(graph->dims, name, minimum, maximum, divisor, WEFT_SYMBOL_DECLARED);
    if (dim == WEFT_DIM_INVALID) graph->out_of_memory = true;
    return dim;
}

weft_dim weft_dim_plus(weft_graph *graph, weft_dim a, weft_dim b) { return weft_dim_add(graph->dims, a, b); }
weft_dim weft_dim_minus(weft_graph *graph, weft_dim a, weft_dim b) { return weft_dim_subtract(graph->dims, a, b); }
weft_dim weft_dim_times(weft_graph *graph, weft_dim a, weft_dim b) { return weft_dim_multiply(graph->dims, a, b); }
weft_dim weft_dim_floor_divide(weft_graph *graph, weft_dim a, weft_dim b) {
    return weft_dim_divide_floor(graph->dims, a, b);
}

/* -- inputs, constants, outputs, states */

/* The symbol of an undeclared axis: the input's name made an identifier, and the axis. */
static weft_dim anonymous_symbol(weft_graph *graph, const char *name, int axis) {
    char symbol[64];
    size_t length = 0;
    for (const char *at = name; *at && length < 48; at++) {
        bool digit = *at >= '0' && *at <= '9';
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
        if (digit && length == 0) symbol[length++] = '_';
        symbol[length++] = digit || letter ? *at : '_';
    }
    snprintf(symbol + length, sizeof symbol - length, "%s%d", length ? "_" : "axis", axis);
    return weft_dim_symbol(graph->dims, symbol, 0, INT64_MAX, 1, WEFT_SYMBOL_ANONYMOUS);
}

weft_value *weft_graph_input(weft_graph *graph, const char *name, weft_dtype dtype, int rank, const weft_dim *shape) {
    if (!name) {
        weft_graph_problem(graph, "input: the name is missing");
        return weft_value_poison(graph);
    }
    if (rank > 0 && !shape) {
        weft_graph_problem(graph, "input %s: the shape is missing", name);
        return weft_value_poison(graph);
    }
    if (rank < 0 || rank > WEFT_MAX_RANK) {
        weft_graph_problem(graph, "input %s: rank %d; ranks go from 0 to %d", name, rank, WEFT_MAX_RANK);
        return weft_value_poison(graph);
    }
    if (dtype <= WEFT_INVALID || dtype >= WEFT_DTYPE_COUNT || dtype == WEFT_STRING) {
        weft_graph_problem(graph, "input %s: dtype %d cannot be in a graph", name, (int)dtype);
        return weft_value_poison(graph);
    }
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = shape[i] == WEFT_DIM_ANY ? anonymous_symbol(graph, name, i) : shape[i];
        if (weft_dim_is_valid(graph->dims, dims[i])) continue;
        weft_graph_problem(
            graph,
            "input %s: extent of axis %d is invalid (overflow, a symbol that was refused or one of another graph)",
            name, i);
        return weft_value_poison(graph);
    }
    for (int i = 0; i < graph->body->block->argument_count; i++) {
        const char *other = graph->body->block->arguments[i]->name;
        if (other && strcmp(other, name) == 0) weft_graph_problem(graph, "input %s: two inputs have that name", name);
    }
    weft_type type = weft_type_make(graph, dtype, rank, dims);
    return weft_block_add_argument(graph->body->block, &type, name);
}

weft_value *weft_graph_constant(weft_graph *graph, weft_tensor *tensor) {
    if (!tensor) {
        weft_graph_problem(graph, "constant: the tensor is missing");
        return weft_value_poison(graph);
    }
    weft_attribute value = weft_attr_tensor(WEFT_ATTR_value, tensor);
    return weft_build(graph, WEFT_OP_constant, 0, NULL, 1, &value);
}

weft_value *weft_graph_parameter(weft_graph *graph, const char *name, weft_tensor *initial) {
    weft_value *value = weft_graph_constant(graph, initial);
    if (!weft_value_is_poison(value)) value->name = weft_graph_copy_string(graph, name);
    return value;
}

void weft_graph_output(weft_graph *graph, const char *name, weft_value *value) {
    if (!value || value->graph != graph) {
        weft_graph_problem(graph, "output %s: the value is %s", name, value ? "of another graph" : "missing");
        return;
    }
    if (!name) {
        weft_graph_problem(graph, "output: the name is missing");
        return;
    }
    for (size_t i = 0; i < graph->output_count; i++)
        if (strcmp(graph->output_names[i], name) == 0)
            weft_graph_problem(graph, "output %s: two outputs have that name", name);
    const char *copy = weft_graph_copy_string(graph, name);
    weft_allocator allocator = graph->context->allocator;
    if (!copy || !WEFT_ARRAY_RESERVE(allocator, graph->outputs, graph->output_capacity, graph->output_count + 1) ||
        !WEFT_ARRAY_RESERVE(allocator, graph->output_names, graph->output_name_capacity, graph->output_count + 1)) {
        graph->out_of_memory = true;
        return;
    }
    graph->output_names[graph->output_count] = copy;
    graph->outputs[graph->output_count++] = value;
}

void weft_graph_add_state(weft_graph *graph, const char *name, const weft_type *type, weft_tensor *initial) {
    if (!name) {
        weft_graph_problem(graph, "state: the name is missing");
        return;
    }
    if (weft_graph_find_state(graph, name)) {
        weft_graph_problem(graph, "state %s: two states have that name", name);
        return;
    }
    if (initial) {
        bool fits = initial->dtype == type->dtype && initial->rank == type->rank;
        for (int i = 0; fits && i < type->rank; i++) fits = initial->shape[i] == type->dims[i];
        if (!fits) {
            weft_graph_problem(graph, "state %s: the initial tensor has another type", name);
            return;
        }
    }
    const char *copy = weft_graph_copy_string(graph, name);
    weft_type own = weft_type_make(graph, type->dtype, type->rank, type->dims);
    weft_tensor *kept = initial ? weft_graph_keep_tensor(graph, initial) : NULL;
    if (!copy || (initial && !kept) ||
        !WEFT_ARRAY_RESERVE(graph->context->allocator, graph->states, graph->state_capacity, graph->state_count + 1)) {
        graph->out_of_memory = true;
        return;
    }
    graph->states[graph->state_count++] = (weft_state_value){copy, own, kept};
}

void weft_graph_state(weft_graph *graph, const char *name, weft_tensor *initial) {
    if (!name || !initial) {
        weft_graph_problem(graph, "state %s: its %s is missing", name ? name : "", name ? "initial tensor" : "name");
        return;
    }
    weft_type type = weft_type_make(graph, initial->dtype, initial->rank, initial->shape);
    weft_graph_add_state(graph, name, &type, initial);
}

void weft_graph_state_zeros(weft_graph *graph, const char *name, weft_dtype dtype, int rank, const int64_t *shape) {
    bool right = name && rank >= 0 && rank <= WEFT_MAX_RANK && (rank == 0 || shape) && dtype > WEFT_INVALID &&
                 dtype < WEFT_DTYPE_COUNT && dtype != WEFT_STRING;
    for (int i = 0; right && i < rank; i++) right = shape[i] >= 0;
    if (!right) {
        weft_graph_problem(graph, "state %s: its name, dtype or shape cannot be that of a state", name ? name : "");
        return;
    }
    weft_type type = weft_type_make(graph, dtype, rank, shape);
    weft_graph_add_state(graph, name, &type, NULL);
}

const weft_state_value *weft_graph_find_state(const weft_graph *graph, const char *name) {
    for (size_t i = 0; i < graph->state_count; i++)
        if (strcmp(graph->states[i].name, name) == 0) return &graph->states[i];
    return NULL;
}

/* -- access */

/* Without a value, a graph or an entry of that number: nothing. */
weft_dtype weft_value_dtype(const weft_value *value) { return value ? value->type.dtype : WEFT_INVALID; }
int weft_value_rank(const weft_value *value) { return value ? value->type.rank : 0; }
weft_dim weft_value_dim(const weft_value *value, int axis) {
    return !value || axis < 0 || axis >= value->type.rank ? WEFT_DIM_INVALID : value->type.dims[axis];
}

int weft_graph_input_count(const weft_graph *graph) { return graph ? graph->body->block->argument_count : 0; }
weft_value *weft_graph_input_value(const weft_graph *graph, int index) {
    return index >= 0 && index < weft_graph_input_count(graph) ? graph->body->block->arguments[index] : NULL;
}
const char *weft_graph_input_name(const weft_graph *graph, int index) {
    const weft_value *value = weft_graph_input_value(graph, index);
    return value ? value->name : NULL;
}
int weft_graph_output_count(const weft_graph *graph) { return graph ? (int)graph->output_count : 0; }
const char *weft_graph_output_name(const weft_graph *graph, int index) {
    return index >= 0 && index < weft_graph_output_count(graph) ? graph->output_names[index] : NULL;
}
weft_value *weft_graph_output_value(const weft_graph *graph, int index) {
    return index >= 0 && index < weft_graph_output_count(graph) ? graph->outputs[index] : NULL;
}

const weft_attribute *weft_node_attribute(const weft_node *node, weft_attribute_name name) {
    for (int i = 0; i < node->attribute_count; i++)
        if (node->attributes[i].name == name) return &node->attributes[i];
    return NULL;
}

int64_t weft_node_int(const weft_node *node, weft_attribute_name name, int64_t fallback) {
    const weft_attribute *attribute = weft_node_attribute(node, name);
    return attribute ? attribute->as.integer : fallback;
}

double weft_node_float(const weft_node *node, weft_attribute_name name, double fallback) {
    const weft_attribute *attribute = weft_node_attribute(node, name);
    return attribute ? attribute->as.number : fallback;
}

const char *weft_node_string(const weft_node *node, weft_attribute_name name, const char *fallback) {
    const weft_attribute *attribute = weft_node_attribute(node, name);
    return attribute ? attribute->as.string : fallback;
}

weft_dtype weft_node_dtype(const weft_node *node, weft_attribute_name name, weft_dtype fallback) {
    const weft_attribute *attribute = weft_node_attribute(node, name);
    return attribute ? attribute->as.dtype : fallback;
}

/* -- types */

weft_type weft_type_make(weft_graph *graph, weft_dtype dtype, int rank, const weft_dim *dims) {
    weft_dim *copy = weft_graph_allocate(graph, (size_t)rank, sizeof *copy);
    if (!copy) return (weft_type){WEFT_INVALID, 0, NULL};
    if (rank) memcpy(copy, dims, (size_t)rank * sizeof *copy);
    return (weft_type){dtype, rank, copy};
}

weft_dim weft_type_count(weft_graph *graph, const weft_type *type) {
    weft_dim count = 1;
    for (int i = 0; i < type->rank; i++) count = weft_dim_multiply(graph->dims, count, type->dims[i]);
    return count;
}

bool weft_type_equal(const weft_type *a, const weft_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

void weft_type_print(const weft_graph *graph, const weft_type *type, weft_text *text) {
    weft_text_append(text, "%s[", weft_dtype_name(type->dtype));
    for (int i = 0; i < type->rank; i++) {
        if (i) weft_text_append(text, ", ");
        weft_dim_print(graph->dims, type->dims[i], text);
    }
    weft_text_append(text, "]");
}
