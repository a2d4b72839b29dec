/* The walk over a model: scopes, inputs, constants, nodes, functions, outputs.
   Invariant: when a function returns, import->scope, frame and the graph's insertion point are what they were.
   Read next: node.c (what handlers use), symbolic.c, control.c. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/need.h"
#include "frontend/onnx/import.h"

void *weft_onnx_allocate(weft_onnx_import_state *import, size_t count, size_t bytes) {
    void *memory = weft_arena_allocate_array(&import->arena, count, bytes);
    if (!memory) import->graph->out_of_memory = true;
    return memory;
}

/* -- values and names */

weft_onnx_value *weft_onnx_value_tensor(weft_onnx_import_state *import, weft_value *value) {
    weft_onnx_value *made = weft_onnx_allocate(import, 1, sizeof *made);
    if (made) *made = (weft_onnx_value){.kind = WEFT_ONNX_TENSOR, .value = value};
    return made;
}

weft_onnx_value *weft_onnx_value_sequence(weft_onnx_import_state *import, int count, weft_onnx_value *const *items) {
    weft_onnx_value *made = weft_onnx_allocate(import, 1, sizeof *made);
    weft_onnx_value **copy = weft_onnx_allocate(import, (size_t)count, sizeof *copy);
    if (!made || !copy) return NULL;
    if (count > 0) memcpy(copy, items, (size_t)count * sizeof *copy);
    *made = (weft_onnx_value){.kind = WEFT_ONNX_SEQUENCE, .count = count, .items = copy};
    return made;
}

weft_onnx_value *weft_onnx_value_none(weft_onnx_import_state *import) {
    weft_onnx_value *made = weft_onnx_allocate(import, 1, sizeof *made);
    if (made) *made = (weft_onnx_value){.kind = WEFT_ONNX_NONE};
    return made;
}

weft_onnx_value *weft_onnx_find(const weft_onnx_import_state *import, const char *name) {
    for (const weft_onnx_scope *scope = import->scope; scope; scope = scope->outer) {
        weft_onnx_value *value = weft_map_find(&scope->names, name, strlen(name));
        if (value) return value;
    }
    return NULL;
}

void weft_onnx_define(weft_onnx_import_state *import, const char *name, weft_onnx_value *value) {
    if (!value || !weft_map_put(&import->scope->names, name, strlen(name), value)) import->graph->out_of_memory = true;
}

/* The same for what the file may define once in a scope: initializers and outputs of nodes. */
static void define_once(weft_onnx_import_state *import, const char *name, weft_onnx_value *value) {
    if (weft_map_find(&import->scope->names, name, strlen(name)))
        weft_graph_problem(import->graph, "\"%s\" is defined twice", name);
    else
        weft_onnx_define(import, name, value);
}

weft_value *weft_onnx_constant(weft_onnx_import_state *import, weft_status status, weft_tensor *tensor,
                               const char *name) {
    if (status) {
        char text[512];
        weft_status_format(status, text, sizeof text);
        weft_graph_problem(import->graph, "%s", text);
        weft_status_release(status);
        return weft_value_poison(import->graph);
    }
    weft_value *value =
        name && *name ? weft_graph_parameter(import->graph, name, tensor) : weft_graph_constant(import->graph, tensor);
    weft_tensor_release(tensor);
    return value;
}

static void scope_begin(weft_onnx_import_state *import, weft_onnx_scope *scope, weft_onnx_scope *outer) {
    scope->outer = outer;
    weft_map_init(import->context->allocator, &scope->names);
    import->scope = scope;
}

static void scope_end(weft_onnx_import_state *import, weft_onnx_scope *scope, weft_onnx_scope *restore) {
    weft_map_deinit(&scope->names);
    import->scope = restore;
}

static void import_initializers(weft_onnx_import_state *import, const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *proto = graph->initializer[i];
        weft_tensor *tensor = NULL;
        weft_status status = weft_onnx_tensor_create(import->context, proto, &import->folder, &tensor);
        weft_value *value = weft_onnx_constant(import, status, tensor, proto->name);
        if (proto->name) define_once(import, proto->name, weft_onnx_value_tensor(import, value));
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *proto = graph->sparse_initializer[i];
        weft_tensor *tensor = NULL;
        const char *name = proto->values ? proto->values->name : NULL;
        weft_status status = weft_onnx_sparse_tensor_create(import->context, proto, &import->folder, &tensor);
        weft_value *value = weft_onnx_constant(import, status, tensor, name);
        if (name) define_once(import, name, weft_onnx_value_tensor(import, value));
    }
}

/* -- nodes */

/* Inlines a model-local function: its inputs are the call's, in a scope of its own. */
static void import_call(weft_onnx_node *node, const Onnx__FunctionProto *function) {
    weft_onnx_import_state *import = node->import;
    if (import->depth >= WEFT_ONNX_DEPTH_MAX) {
        weft_onnx_problem(node, "functions nest deeper than %d or call themselves", WEFT_ONNX_DEPTH_MAX);
        return;
    }
    import->depth++;
    weft_onnx_frame frame = {.outer = import->frame, .call = node, .function = function}, *old_frame = import->frame;
    weft_onnx_scope scope, *old_scope = import->scope;
    scope_begin(import, &scope, NULL);
    import->frame = &frame;
    for (size_t i = 0; i < function->n_input; i++) {
        weft_onnx_value *value = (int)i < node->input_count ? node->inputs[i] : NULL;
        weft_onnx_define(import, function->input[i], value ? value : weft_onnx_value_none(import));
    }
    weft_onnx_import_nodes(import, function->n_node, function->node);
    for (size_t i = 0; i < function->n_output && (int)i < node->output_count; i++)
        node->outputs[i] = weft_onnx_find(import, function->output[i]);
    import->frame = old_frame;
    scope_end(import, &scope, old_scope);
    import->depth--;
}

/* Inputs by name; false when one is undefined (a cycle, or a typo in the file). */
static bool bind_inputs(weft_onnx_node *node, weft_onnx_value **inputs) {
    for (int i = 0; i < node->input_count; i++) {
        const char *name = node->proto->input[i];
        inputs[i] = NULL;
        if (!name || !*name) continue;
        inputs[i] = weft_onnx_find(node->import, name);
        if (inputs[i]) continue;
        weft_onnx_problem(node, "input \"%s\" is not defined before this node", name);
        return false;
    }
    return true;
}

static void define_outputs(weft_onnx_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        const char *name = node->proto->output[i];
        if (!name || !*name) continue;
        if (!node->outputs[i]) {
            if (node->graph->problem_count == 0) weft_onnx_problem(node, "output %d is not supported", i);
            node->outputs[i] = weft_onnx_value_tensor(node->import, weft_value_poison(node->graph));
        }
        define_once(node->import, name, node->outputs[i]);
    }
}

static const char *location_of(const Onnx__NodeProto *proto) {
    if (proto->name && *proto->name) return proto->name;
    for (size_t i = 0; i < proto->n_output; i++)
        if (proto->output[i] && *proto->output[i]) return proto->output[i];
    return proto->op_type;
}

static void import_node(weft_onnx_import_state *import, const Onnx__NodeProto *proto) {
    weft_graph *graph = import->graph;
    if (proto->n_input > 100000 || proto->n_output > 100000 || import->node_budget-- <= 0) {
        weft_graph_problem(graph, "the model is too large when its functions and loops are written out");
        return;
    }
    weft_onnx_node node = {.import = import, .graph = graph, .proto = proto};
    node.input_count = (int)proto->n_input, node.output_count = (int)proto->n_output;
    node.version = weft_onnx_version(import->frame, import->model, proto->domain);
    weft_onnx_value **inputs = weft_onnx_allocate(import, proto->n_input + 1, sizeof *inputs);
    node.outputs = weft_onnx_allocate(import, proto->n_output + 1, sizeof *node.outputs);
    char *name = weft_arena_copy_string(&graph->arena, location_of(proto), strlen(location_of(proto)));
    if (!inputs || !node.outputs || !name) {
        graph->out_of_memory = true;
        return;
    }
    node.inputs = inputs;
    weft_location old = graph->location;
    graph->location = (weft_location){.name = name};
    const Onnx__FunctionProto *function = weft_onnx_function_find(import->model, proto);
    const weft_onnx_operator *row = weft_onnx_operator_find(proto->domain, proto->op_type);
    if (bind_inputs(&node, inputs)) {
        if (function)
            import_call(&node, function);
        else if (row)
            row->handler(&node);
        else
            weft_onnx_problem(&node, "unknown operator");
    }
    define_outputs(&node);
    graph->location = old;
}

void weft_onnx_import_nodes(weft_onnx_import_state *import, size_t count, Onnx__NodeProto *const *nodes) {
    for (size_t i = 0; i < count && !import->graph->out_of_memory && import->graph->problem_count < 200; i++)
        import_node(import, nodes[i]);
}

void weft_onnx_import_subgraph(weft_onnx_import_state *import, const Onnx__GraphProto *graph, int count,
                               weft_onnx_value *const *arguments, weft_onnx_value **results) {
    for (size_t i = 0; i < graph->n_output; i++) results[i] = NULL;
    if (import->depth >= WEFT_ONNX_DEPTH_MAX) {
        weft_graph_problem(import->graph, "subgraphs nest deeper than %d", WEFT_ONNX_DEPTH_MAX);
        return;
    }
    import->depth++;
    weft_onnx_scope scope, *old = import->scope;
    scope_begin(import, &scope, old);
    import_initializers(import, graph);
    for (size_t i = 0; i < graph->n_input && (int)i < count; i++)
        if (graph->input[i]->name) weft_onnx_define(import, graph->input[i]->name, arguments[i]);
    weft_onnx_import_nodes(import, graph->n_node, graph->node);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name;
        results[i] = name ? weft_onnx_find(import, name) : NULL;
        if (!results[i] && !import->graph->out_of_memory)
            weft_graph_problem(import->graph, "subgraph output \"%s\" is not defined", name ? name : "");
    }
    scope_end(import, &scope, old);
    import->depth--;
}

/* -- inputs and outputs of the model */

static bool parse_number(const char **at, int64_t *out) {
    int64_t value = 0;
    if (**at < '0' || **at > '9') return false;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (value > (INT64_MAX - 9) / 10) return false;
        value = value * 10 + (**at - '0');
    }
    *out = value;
    return true;
}

/* "1..64", "1..*", "32..960/32", "4". */
static bool parse_range(const char **at, weft_onnx_declared *out) {
    out->divisor = 1;
    if (!parse_number(at, &out->minimum)) return false;
    out->maximum = out->minimum;
    if (strncmp(*at, "..", 2) == 0) {
        *at += 2;
        out->maximum = INT64_MAX;
        if (**at == '*')
            (*at)++;
        else if (!parse_number(at, &out->maximum))
            return false;
    }
    if (**at == '/') {
        (*at)++;
        if (!parse_number(at, &out->divisor) || out->divisor < 1) return false;
    }
    return out->minimum <= out->maximum;
}

/* The entries of the option's list, all checked. */
static weft_status parse_declared(weft_onnx_import_state *import) {
    const char *list = import->options->dims ? import->options->dims : "";
    size_t count = 1;
    for (const char *at = list; *at; at++) count += *at == ',';
    import->declared = weft_arena_allocate_array(&import->arena, count, sizeof *import->declared);
    if (!import->declared) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "declared extents");
    for (const char *at = list; *at;) {
        weft_onnx_declared *entry = &import->declared[import->declared_count];
        const char *start = at;
        size_t length = strcspn(at, "=,");
        at += length;
        if (length == 0 || *at != '=')
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "dims: expected name=range at \"%s\"", start);
        at++;
        for (int i = 0; i < import->declared_count; i++)
            if (strlen(import->declared[i].name) == length && !memcmp(import->declared[i].name, start, length))
                return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "dims: %s is given twice", import->declared[i].name);
        if (!parse_range(&at, entry) || (*at && *at != ','))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "dims: \"%s\" is not 4, 1..64, 1..* or 32..960/32", start);
        entry->name = weft_arena_copy_string(&import->arena, start, length);
        if (!entry->name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "declared extents");
        import->declared_count++;
        if (*at == ',') at++;
    }
    return NULL;
}

/* NULL when the option does not name it. */
static const weft_onnx_declared *find_declared(weft_onnx_import_state *import, const char *name) {
    for (int i = 0; i < import->declared_count; i++)
        if (strcmp(import->declared[i].name, name) == 0) {
            import->declared[i].used = true;
            return &import->declared[i];
        }
    return NULL;
}

/* A misspelt name must not be ignored. */
static void check_declared(weft_onnx_import_state *import) {
    for (int i = 0; i < import->declared_count; i++)
        if (!import->declared[i].used)
            weft_graph_problem(import->graph, "dims: no input has an extent named %s", import->declared[i].name);
}

/* The extent that a name of the model stands for: one per name. */
static weft_dim named_dim(weft_onnx_import_state *import, const char *name) {
    weft_dim *known = weft_map_find(&import->symbols, name, strlen(name));
    if (known) return *known;
    char symbol[64];
    size_t length = 0;
    for (const char *at = name; *at && length < sizeof symbol - 1; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
        bool digit = *at >= '0' && *at <= '9';
        if (digit && length == 0) symbol[length++] = '_';
        if (length < sizeof symbol - 1) symbol[length++] = letter || digit ? *at : '_';
    }
    symbol[length] = 0;
    const weft_onnx_declared *declared = find_declared(import, name);
    weft_dim dim;
    /* messages show the symbol: its spelling is good too */
    if (!declared) declared = find_declared(import, symbol);
    if (declared && declared->minimum == declared->maximum)
        dim = declared->minimum;
    else if (declared)
        dim = weft_dim_symbol(import->graph->dims, length ? symbol : "dim", declared->minimum, declared->maximum,
                              declared->divisor, WEFT_SYMBOL_DECLARED);
    else
        dim = weft_dim_symbol(import->graph->dims, length ? symbol : "dim", 0, INT64_MAX, 1, WEFT_SYMBOL_ANONYMOUS);
    weft_dim *kept = weft_onnx_allocate(import, 1, sizeof *kept);
    if (!kept) return WEFT_DIM_INVALID;
    *kept = dim;
    if (!weft_map_put(&import->symbols, name, strlen(name), kept)) import->graph->out_of_memory = true;
    return dim;
}

/* "?", "-1" and "None" are exporters' words for an extent without a name. */
static bool names_an_extent(const char *text) {
    if (!text || strcmp(text, "None") == 0) return false;
    return (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '_';
}

/* What options->dims calls axis i of an input; NULL without memory. */
static const char *extent_label(weft_onnx_import_state *import, const char *input,
                                const Onnx__TensorShapeProto__Dimension *dim, size_t axis, bool own) {
    if (!own && names_an_extent(dim->dim_param)) return dim->dim_param;
    const char *label = weft_arena_format(&import->arena, "%s.%zu", input, axis);
    if (!label) import->graph->out_of_memory = true;
    return label;
}

/* own: extents get symbols of this input alone (items of a sequence may differ although their type names one). */
static weft_value *import_tensor_input(weft_onnx_import_state *import, const char *name,
                                       const Onnx__TypeProto__Tensor *type, bool own) {
    weft_graph *graph = import->graph;
    weft_dtype dtype = weft_onnx_dtype(type->elem_type);
    if (dtype == WEFT_INVALID || dtype == WEFT_STRING) {
        weft_graph_problem(graph, "input \"%s\" has elements of type %s: the host converts them first", name,
                           dtype == WEFT_STRING ? "string" : "unknown");
        return weft_value_poison(graph);
    }
    if (!type->shape) {
        if (import->options->need) import->options->need(import->options->need_self, name);
        weft_graph_problem(graph, "input \"%s\" has no rank in the file: give it as a constant", name);
        return weft_value_poison(graph);
    }
    if (type->shape->n_dim > WEFT_MAX_RANK) {
        weft_graph_problem(graph, "input \"%s\" has rank %zu, above %d", name, type->shape->n_dim, WEFT_MAX_RANK);
        return weft_value_poison(graph);
    }
    weft_dim shape[WEFT_MAX_RANK];
    for (size_t i = 0; i < type->shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[i];
        if (dim->has_dim_value && dim->dim_value >= 0) {
            shape[i] = dim->dim_value;
            continue;
        }
        const char *label = extent_label(import, name, dim, i, own);
        if (!label) return weft_value_poison(graph);
        shape[i] = named_dim(import, label);
    }
    return weft_graph_input(graph, name, dtype, (int)type->shape->n_dim, shape);
}

/* A constant of the options by that name, else an input of the graph. */
static weft_onnx_value *import_given_or_tensor(weft_onnx_import_state *import, const char *name,
                                               const Onnx__TypeProto__Tensor *type, bool own) {
    for (int i = 0; i < import->options->constant_count; i++) {
        if (strcmp(import->options->constant_names[i], name) != 0) continue;
        /* the declarations of its extents are satisfied */
        for (size_t k = 0; type->shape && k < type->shape->n_dim; k++) {
            const char *label = extent_label(import, name, type->shape->dim[k], k, own);
            if (label) (void)find_declared(import, label);
        }
        return weft_onnx_value_tensor(import, weft_graph_constant(import->graph, import->options->constants[i]));
    }
    return weft_onnx_value_tensor(import, import_tensor_input(import, name, type, own));
}

/* A sequence of a length that options->dims fixes ("x=3") enters as its items x.0, x.1 ... */
static weft_onnx_value *import_sequence_input(weft_onnx_import_state *import, const char *name,
                                              const Onnx__TypeProto *item) {
    weft_graph *graph = import->graph;
    const weft_onnx_declared *length = find_declared(import, name);
    if (!length || length->minimum != length->maximum || length->minimum > 1024 || !item || !item->tensor_type) {
        weft_graph_problem(
            graph, "input \"%s\" is a sequence: fix its length with dims \"%s=N\" (items must be tensors)", name, name);
        return weft_onnx_value_tensor(import, weft_value_poison(graph));
    }
    weft_onnx_value **items = weft_onnx_allocate(import, (size_t)length->minimum + 1, sizeof *items);
    for (int i = 0; items && i < (int)length->minimum; i++) {
        const char *part = weft_arena_format(&import->arena, "%s.%d", name, i);
        if (!part) graph->out_of_memory = true;
        items[i] = part ? import_given_or_tensor(import, part, item->tensor_type, true) : NULL;
        if (!items[i]) return NULL;
    }
    return items ? weft_onnx_value_sequence(import, (int)length->minimum, items) : NULL;
}

static void import_input(weft_onnx_import_state *import, const Onnx__ValueInfoProto *info) {
    const char *name = info->name;
    const Onnx__TypeProto *type = info->type;
    weft_onnx_value *value;
    bool left_out = false;
    if (type && type->optional_type) {
        /* an optional input is given unless dims says "x=0" */
        const weft_onnx_declared *count = find_declared(import, name);
        type = type->optional_type->elem_type;
        left_out = count && count->maximum == 0 && !(type && type->sequence_type);
    }
    if (left_out)
        value = weft_onnx_value_none(import);
    else if (type && type->tensor_type)
        value = import_given_or_tensor(import, name, type->tensor_type, false);
    else if (type && type->sequence_type)
        value = import_sequence_input(import, name, type->sequence_type->elem_type);
    else {
        weft_graph_problem(import->graph, "input \"%s\" is neither a tensor nor a sequence of tensors", name);
        value = weft_onnx_value_tensor(import, weft_value_poison(import->graph));
    }
    weft_onnx_define(import, name, value);
}

/* Before IR version 4 initializers are listed as inputs too: what has a value is none. */
static void import_inputs(weft_onnx_import_state *import, const Onnx__GraphProto *proto) {
    weft_map seen;
    weft_map_init(import->context->allocator, &seen);
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = proto->input[i]->name;
        if (!name || !*name) continue;
        if (weft_map_find(&seen, name, strlen(name)))
            weft_graph_problem(import->graph, "two inputs are called \"%s\"", name);
        else if (!weft_onnx_find(import, name))
            import_input(import, proto->input[i]);
        if (!weft_map_put(&seen, name, strlen(name), proto->input[i])) import->graph->out_of_memory = true;
    }
    weft_map_deinit(&seen);
}

/* The declared element type is what callers were told; shapes that files declare are often stale and have no say. */
static void check_output_type(weft_graph *graph, const Onnx__ValueInfoProto *info, const weft_value *value) {
    if (!info->type || !info->type->tensor_type || weft_value_is_poison(value)) return;
    weft_dtype declared = weft_onnx_dtype(info->type->tensor_type->elem_type);
    if (declared != WEFT_INVALID && declared != value->type.dtype)
        weft_graph_problem(graph, "output \"%s\" is declared %s and computed as %s", info->name,
                           weft_dtype_name(declared), weft_dtype_name(value->type.dtype));
}

static void import_outputs(weft_onnx_import_state *import, const Onnx__GraphProto *proto) {
    weft_graph *graph = import->graph;
    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = proto->output[i]->name;
        const weft_onnx_value *value = name ? weft_onnx_find(import, name) : NULL;
        if (!value)
            weft_graph_problem(graph, "output \"%s\" is not defined", name ? name : "");
        else if (value->kind == WEFT_ONNX_TENSOR)
            check_output_type(graph, proto->output[i], value->value), weft_graph_output(graph, name, value->value);
        else if (value->kind == WEFT_ONNX_SEQUENCE)
            /* a static list leaves as its elements, named x.0, x.1 ... */
            for (int k = 0; k < value->count; k++) {
                const char *part = weft_arena_format(&import->arena, "%s.%d", name, k);
                if (!part)
                    graph->out_of_memory = true;
                else if (value->items[k]->kind == WEFT_ONNX_TENSOR)
                    weft_graph_output(graph, part, value->items[k]->value);
                else
                    weft_graph_problem(graph, "output \"%s\" nests sequences", name);
            }
        else
            weft_graph_problem(graph, "output \"%s\" is an empty optional", name);
    }
}

/* Empties a block, regions first: outer values lose the uses inside. */
void weft_onnx_discard(weft_block *block) {
    while (block->last) {
        for (int i = 0; i < block->last->region_count; i++) weft_onnx_discard(block->last->regions[i]->block);
        weft_node_remove(block->last);
    }
}

/* Nodes that nothing uses go: shape arithmetic that became extents, weights that only folded values read. */
static void sweep(weft_block *block) {
    for (weft_node *node = block->last, *previous; node; node = previous) {
        previous = node->previous;
        bool used = (weft_op_get(node->op)->flags & (WEFT_FLAG_EFFECT | WEFT_FLAG_TERMINATOR)) != 0;
        for (int i = 0; !used && i < node->result_count; i++) used = weft_value_has_uses(&node->results[i]);
        for (int i = 0; i < node->region_count; i++) (used ? sweep : weft_onnx_discard)(node->regions[i]->block);
        if (!used) weft_node_remove(node);
    }
}

static void import_model(weft_onnx_import_state *import) {
    const Onnx__GraphProto *proto = import->model->graph;
    weft_onnx_scope scope;
    scope_begin(import, &scope, NULL);
    import->graph->location = (weft_location){.name = import->graph->name};
    import_initializers(import, proto);
    import_inputs(import, proto);
    check_declared(import);
    weft_onnx_import_nodes(import, proto->n_node, proto->node);
    import_outputs(import, proto);
    scope_end(import, &scope, NULL);
    if (!import->graph->out_of_memory && import->graph->problem_count == 0) sweep(import->graph->body->block);
}

static weft_status audit_status(weft_context *context, const Onnx__ModelProto *model) {
    weft_text text;
    weft_text_init(context->allocator, &text);
    weft_onnx_audit_model(model, &text);
    weft_status status = weft_text_status(&text);
    if (!status && text.length > 0)
        status = WEFT_STATUS(WEFT_UNSUPPORTED, "the model cannot be imported:\n%s", weft_text_string(&text));
    weft_text_deinit(&text);
    return status;
}

static void release_folded(weft_onnx_import_state *import) {
    size_t cursor = 0, key_bytes;
    const void *key;
    void *tensor;
    while (weft_map_next(&import->folded, &cursor, &key, &key_bytes, &tensor)) weft_tensor_release(tensor);
    weft_map_deinit(&import->folded);
}

static weft_status check_constants(const weft_onnx_options *options) {
    if (options->constant_count < 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%d constants are given", options->constant_count);
    WEFT_NEED_LIST(options->constant_names, options->constant_count, "the list of names of constants");
    WEFT_NEED_LIST(options->constants, options->constant_count, "the list of constants");
    for (int i = 0; i < options->constant_count; i++) {
        WEFT_NEED(options->constant_names[i], "the name of a constant");
        WEFT_NEED(options->constants[i], "the tensor of a constant");
    }
    return NULL;
}

static weft_status import_bytes(weft_context *context, const void *data, size_t bytes, weft_onnx_folder folder,
                                const weft_onnx_options *options, weft_graph **out_graph) {
    weft_onnx_options own = WEFT_ONNX_OPTIONS_INIT;
    WEFT_TRY(WEFT_OPTIONS_READ(own, options, WEFT_ONNX_OPTIONS_INIT), "options");
    weft_onnx_import_state import = {.context = context, .folder = folder, .options = &own};
    WEFT_TRY(check_constants(import.options), "options");
    import.node_budget = 1000000;
    weft_arena_init(context->allocator, &import.arena);
    weft_map_init(context->allocator, &import.symbols);
    weft_map_init(context->allocator, &import.symbolic);
    weft_map_init(context->allocator, &import.folded);
    weft_map_init(context->allocator, &import.needed);
    weft_status status = weft_onnx_model_unpack(&import.arena, data, bytes, &import.model);
    if (!status) status = parse_declared(&import);
    if (!status) status = audit_status(context, import.model);
    if (!status) {
        const char *name = import.model->graph->name;
        status = weft_graph_create(context, name && *name ? name : "onnx", &import.graph);
    }
    if (!status) {
        import_model(&import);
        status = weft_graph_verify(import.graph);
    }
    release_folded(&import);
    weft_map_deinit(&import.symbols);
    weft_map_deinit(&import.symbolic);
    weft_map_deinit(&import.needed);
    weft_arena_deinit(&import.arena);
    if (status)
        weft_graph_release(import.graph);
    else
        *out_graph = import.graph;
    return status;
}

weft_status weft_onnx_import_memory(weft_context *context, const void *data, size_t bytes, const char *folder,
                                    const weft_onnx_options *options, weft_graph **out_graph) {
    WEFT_NEED(out_graph, "out_graph");
    *out_graph = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED_LIST(data, bytes, "the list of bytes");
    return import_bytes(context, data, bytes, (weft_onnx_folder){.path = folder}, options, out_graph);
}

/* The path up to its last slash. */
static const char *folder_of(weft_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    return length ? weft_arena_copy_string(arena, path, length) : slash ? "/" : ".";
}

weft_status weft_onnx_import(weft_context *context, const char *path, const weft_onnx_options *options,
                             weft_graph **out_graph) {
    WEFT_NEED(out_graph, "out_graph");
    *out_graph = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_file file;
    WEFT_TRY(weft_file_map(path, &file), "importing %s", path);
    weft_arena arena;
    weft_arena_init(context->allocator, &arena);
    char *real = realpath(path, NULL);
    weft_onnx_folder folder = {.path = folder_of(&arena, path), .home = real ? folder_of(&arena, real) : NULL};
    weft_status status = folder.path ? import_bytes(context, file.data, file.bytes, folder, options, out_graph)
                                     : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "the path's folder");
    free(real);
    weft_arena_deinit(&arena);
    weft_file_unmap(&file);
    return weft_status_annotate(status, __FILE__, __LINE__, "importing %s", path);
}
