/* The printer of .wir. Grammar by example in print.h; parse.c is its inverse.
   Invariant: values are numbered in the order they are printed (their ids change, nothing else does), so that equal
   graphs give equal text. */
#include "ir/print.h"

#include <string.h>

#include "base/need.h"
#include "base/tensor.h"
#include "ir/build.h"

enum { INLINE_BYTES = 64 };

typedef struct printer {
    weft_graph *graph;
    const weft_print_options *options;
    weft_text *text;
    int next_id; /* -1: keep the ids that values have */
} printer;

static void print_block(printer *print, const weft_block *block, int depth);

static void print_indent(printer *print, int depth) { weft_text_append(print->text, "%*s", 2 * depth, ""); }

/* -- names: bare where they are identifiers */

static bool is_identifier(const char *name) {
    if (!*name || (*name >= '0' && *name <= '9')) return false;
    for (; *name; name++) {
        bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || *name == '_';
        if (!letter && !(*name >= '0' && *name <= '9')) return false;
    }
    return true;
}

static void print_quoted(printer *print, const char *text) { weft_text_append_quoted(print->text, text, strlen(text)); }

static void print_name(printer *print, const char *name) {
    weft_text_append(print->text, "@");
    if (is_identifier(name))
        weft_text_append(print->text, "%s", name);
    else
        print_quoted(print, name);
}

/* A value where it is defined: it gets its number here. */
static void print_definition(printer *print, weft_value *value) {
    if (print->next_id >= 0) value->id = print->next_id++;
    weft_text_append(print->text, "%%%d", value->id);
    if (!value->name) return;
    weft_text_append(print->text, " ");
    print_quoted(print, value->name);
}

static void print_location(printer *print, const weft_location *location) {
    if (!print->options->locations || !location->name) return;
    weft_text_append(print->text, " at ");
    print_quoted(print, location->name);
    if (location->line) weft_text_append(print->text, ":%d", location->line);
}

/* -- tensors */

static void print_element(printer *print, const weft_tensor *tensor, const char *data, int64_t index) {
    switch (weft_dtype_kind_of(tensor->dtype)) {
    case WEFT_KIND_FLOAT: weft_text_append_double(print->text, weft_element_double(tensor->dtype, data, index)); return;
    case WEFT_KIND_COMPLEX: {
        weft_dtype part = tensor->dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
        weft_text_append(print->text, "(");
        weft_text_append_double(print->text, weft_element_double(part, data, 2 * index));
        weft_text_append(print->text, ", ");
        weft_text_append_double(print->text, weft_element_double(part, data, 2 * index + 1));
        weft_text_append(print->text, ")");
        return;
    }
    case WEFT_KIND_UNSIGNED:
        weft_text_append(print->text, "%llu", (unsigned long long)weft_element_i64(tensor->dtype, data, index));
        return;
    case WEFT_KIND_SIGNED:
    case WEFT_KIND_BOOL:
        weft_text_append(print->text, "%lld", (long long)weft_element_i64(tensor->dtype, data, index));
        return;
    case WEFT_KIND_NONE:
    case WEFT_KIND_STRING: return;
    }
}

/* Position in memory of the element with a row-major index. */
static int64_t element_offset(const weft_tensor *tensor, int64_t index) {
    if (tensor->packed) return index;
    int64_t offset = 0;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        offset += index % tensor->shape[i] * tensor->strides[i];
        index /= tensor->shape[i];
    }
    return offset;
}

static void print_dense(printer *print, const weft_tensor *tensor) {
    weft_text_append(print->text, "dense %s[", weft_dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->rank; i++)
        weft_text_append(print->text, "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
    weft_text_append(print->text, "] ");
    if (print->options->elide_constants && tensor->bytes > INLINE_BYTES) {
        weft_text_append(print->text, "...");
        return;
    }
    weft_text_append(print->text, "[");
    for (int64_t i = 0; i < tensor->element_count && !print->text->failed; i++) {
        if (i) weft_text_append(print->text, ", ");
        print_element(print, tensor, tensor->data, element_offset(tensor, i));
    }
    weft_text_append(print->text, "]");
}

static void print_tensor(printer *print, weft_tensor *tensor) {
    const weft_tensor_source *source = print->options->tensors;
    const char *key = source && source->put && tensor->bytes > INLINE_BYTES ? source->put(source->self, tensor) : NULL;
    if (!key) {
        print_dense(print, tensor);
        return;
    }
    weft_text_append(print->text, "weights ");
    print_quoted(print, key);
}

/* -- attributes */

static void print_value(printer *print, const weft_attribute *attribute) {
    weft_text *text = print->text;
    switch (weft_attribute_kind_of(attribute->name)) {
    case WEFT_ATTR_KIND_INT: weft_text_append(text, "%lld", (long long)attribute->as.integer); return;
    case WEFT_ATTR_KIND_FLOAT: weft_text_append_double(text, attribute->as.number); return;
    case WEFT_ATTR_KIND_DTYPE: weft_text_append(text, "%s", weft_dtype_name(attribute->as.dtype)); return;
    case WEFT_ATTR_KIND_STRING: print_quoted(print, attribute->as.string); return;
    case WEFT_ATTR_KIND_TENSOR: print_tensor(print, attribute->as.tensor); return;
    case WEFT_ATTR_KIND_INTS:
    case WEFT_ATTR_KIND_FLOATS:
    case WEFT_ATTR_KIND_DIMS: break;
    }
    weft_text_append(text, "[");
    for (int i = 0; i < attribute->count; i++) {
        if (i) weft_text_append(text, ", ");
        weft_attribute_kind kind = weft_attribute_kind_of(attribute->name);
        if (kind == WEFT_ATTR_KIND_INTS)
            weft_text_append(text, "%lld", (long long)attribute->as.ints[i]);
        else if (kind == WEFT_ATTR_KIND_FLOATS)
            weft_text_append_double(text, attribute->as.numbers[i]);
        else
            weft_dim_print(print->graph->dims, attribute->as.dims[i], text);
    }
    weft_text_append(text, "]");
}

static void print_attributes(printer *print, const weft_node *node) {
    for (int i = 0; i < node->attribute_count; i++) {
        weft_text_append(print->text, "%s%s = ", i ? ", " : " {", weft_attribute_string(node->attributes[i].name));
        print_value(print, &node->attributes[i]);
    }
    if (node->attribute_count) weft_text_append(print->text, "}");
}

/* -- nodes */

static void print_region(printer *print, const weft_region *region, int depth) {
    const weft_block *block = region->block;
    weft_text_append(print->text, " {");
    for (int i = 0; i < block->argument_count; i++) {
        weft_text_append(print->text, i ? ", " : " (");
        print_definition(print, block->arguments[i]);
        weft_text_append(print->text, " : ");
        weft_type_print(print->graph, &block->arguments[i]->type, print->text);
    }
    weft_text_append(print->text, block->argument_count ? ")\n" : "\n");
    print_block(print, block, depth + 1);
    print_indent(print, depth);
    weft_text_append(print->text, "}");
}

static void print_node(printer *print, const weft_node *node, int depth) {
    print_indent(print, depth);
    for (int i = 0; i < node->result_count; i++) {
        if (i) weft_text_append(print->text, ", ");
        print_definition(print, &node->results[i]);
    }
    weft_text_append(print->text, "%s%s", node->result_count ? " = " : "", weft_op_get(node->op)->name);
    for (int i = 0; i < node->operand_count; i++)
        weft_text_append(print->text, "%s%%%d", i ? ", " : " ", node->operands[i]->id);
    print_attributes(print, node);
    for (int i = 0; i < node->region_count; i++) print_region(print, node->regions[i], depth);
    for (int i = 0; i < node->result_count; i++) {
        weft_text_append(print->text, i ? ", " : " : ");
        weft_type_print(print->graph, &node->results[i].type, print->text);
    }
    print_location(print, &node->location);
    weft_text_append(print->text, "\n");
}

static void print_block(printer *print, const weft_block *block, int depth) {
    for (const weft_node *node = block->first; node && !print->text->failed; node = node->next) {
        if (node->op == WEFT_OP_yield && !block->region->parent) continue; /* the body's: printed as outputs */
        print_node(print, node, depth);
    }
}

/* -- graphs */

static void print_symbols(printer *print) {
    static const char *const origins[] = {
        [WEFT_SYMBOL_DECLARED] = "", [WEFT_SYMBOL_ANONYMOUS] = " anonymous", [WEFT_SYMBOL_DATA] = " data"};
    for (int i = 0; i < weft_dim_symbol_count(print->graph->dims); i++) {
        const weft_symbol *symbol = weft_dim_symbol_get(print->graph->dims, i);
        weft_text_append(print->text, "  symbol ");
        weft_dim_print(print->graph->dims, weft_dim_symbol_value(print->graph->dims, i), print->text);
        weft_text_append(print->text, " in [%lld, ", (long long)symbol->minimum);
        if (symbol->maximum == INT64_MAX)
            weft_text_append(print->text, "inf");
        else
            weft_text_append(print->text, "%lld", (long long)symbol->maximum);
        weft_text_append(print->text, "] divisor %lld%s\n", (long long)symbol->divisor, origins[symbol->origin]);
    }
}

static void print_guards(printer *print) {
    static const char *const relations[] = {
        [WEFT_RELATION_EQ] = "==", [WEFT_RELATION_NE] = "!=", [WEFT_RELATION_LT] = "<", [WEFT_RELATION_LE] = "<="};
    for (size_t i = 0; i < print->graph->guard_count; i++) {
        const weft_guard *guard = &print->graph->guards[i];
        weft_text_append(print->text, "  assume ");
        weft_dim_print(print->graph->dims, guard->condition.lhs, print->text);
        weft_text_append(print->text, " %s ", relations[guard->condition.relation]);
        weft_dim_print(print->graph->dims, guard->condition.rhs, print->text);
        weft_text_append(print->text, ", by ");
        print_quoted(print, guard->pass);
        if (print->options->locations && *guard->location) {
            weft_text_append(print->text, " at ");
            print_quoted(print, guard->location);
        }
        weft_text_append(print->text, "\n");
    }
}

static void print_states(printer *print) {
    for (size_t i = 0; i < print->graph->state_count; i++) {
        const weft_state_value *state = &print->graph->states[i];
        weft_text_append(print->text, "  state ");
        print_name(print, state->name);
        weft_text_append(print->text, " : ");
        weft_type_print(print->graph, &state->type, print->text);
        if (state->initial) {
            weft_text_append(print->text, " = ");
            print_tensor(print, state->initial);
        }
        weft_text_append(print->text, "\n");
    }
}

weft_status weft_print(weft_graph *graph, const weft_print_options *options, weft_text *text) {
    static const weft_print_options defaults = {0};
    printer print = {graph, options ? options : &defaults, text, 0};
    weft_text_append(text, "graph ");
    print_name(&print, graph->name);
    weft_text_append(text, " {\n");
    print_symbols(&print);
    print_guards(&print);
    print_states(&print);
    const weft_block *body = graph->body->block;
    for (int i = 0; i < body->argument_count; i++) {
        weft_text_append(text, "  input ");
        print_definition(&print, body->arguments[i]);
        weft_text_append(text, " : ");
        weft_type_print(graph, &body->arguments[i]->type, text);
        weft_text_append(text, "\n");
    }
    print_block(&print, body, 1);
    for (size_t i = 0; i < graph->output_count; i++) {
        weft_text_append(text, "  output ");
        print_quoted(&print, graph->output_names[i]);
        weft_text_append(text, " %%%d\n", graph->outputs[i]->id);
    }
    weft_text_append(text, "}\n");
    return weft_text_status(text);
}

weft_status weft_graph_print(weft_graph *graph, char **out_text) {
    WEFT_NEED(out_text, "out_text");
    *out_text = NULL;
    WEFT_NEED(graph, "the graph");
    weft_text text;
    weft_text_init(graph->context->allocator, &text);
    weft_status status = weft_graph_finish(graph);
    if (!status) status = weft_print(graph, &(weft_print_options){.locations = true}, &text);
    if (!status) {
        /* a copy of exactly its length, so that weft_string_release knows how much to free */
        char *copy = weft_allocate(graph->context->allocator, text.length + 1);
        if (copy)
            memcpy(copy, weft_text_string(&text), text.length + 1);
        else
            status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "text of graph %s", graph->name);
        *out_text = copy;
    }
    weft_text_deinit(&text);
    return status;
}
