/* The parser of .wir: recursive descent, the inverse of print.c. Grammar by example in print.h.
   Invariant: text is not trusted. Every count is bounded by the bytes that are left, regions nest at most MAX_DEPTH
   deep, and the result has passed the verifier. */
#include <string.h>

#include "base/need.h"
#include "base/tensor.h"
#include "ir/build.h"
#include "ir/lexer.h"
#include "ir/print.h"
#include "ir/verify.h"

enum { MAX_DEPTH = 64, MAX_ITEMS = 1 << 20 };

typedef struct parser {
    weft_lexer lexer;
    weft_context *context;
    weft_graph *graph;
    const weft_tensor_source *tensors;
    weft_arena scratch;
    weft_map values; /* number -> weft_value* */
    int depth;
} parser;

/* A growing list in the scratch arena. */
typedef struct list {
    size_t count, capacity;
    void *items;
} list;

static void *list_add(parser *parse, list *into, size_t item_bytes) {
    if (into->count == into->capacity) {
        size_t capacity = into->capacity ? 2 * into->capacity : 8;
        void *items = capacity > MAX_ITEMS ? NULL : weft_arena_allocate_array(&parse->scratch, capacity, item_bytes);
        if (!items) {
            weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "a list");
            return NULL;
        }
        if (into->count) memcpy(items, into->items, into->count * item_bytes);
        into->items = items;
        into->capacity = capacity;
    }
    return (char *)into->items + into->count++ * item_bytes;
}

static bool fail_status(parser *parse, weft_status status) {
    if (!status) return true;
    weft_code code = weft_status_code(status);
    if (code == WEFT_INVALID_ARGUMENT) code = WEFT_INVALID_DATA; /* the text is wrong, not the caller */
    weft_lexer_fail(&parse->lexer, code, "%s", weft_status_message(status));
    weft_status_release(status);
    return false;
}

/* -- extents and types */

static bool parse_dim(parser *parse, weft_dim *out_dim) {
    const char *text;
    size_t bytes;
    *out_dim = 0;
    return weft_lexer_expression(&parse->lexer, &text, &bytes) &&
           fail_status(parse, weft_dim_parse(parse->graph->dims, text, bytes, out_dim));
}

/* [a, b, ...] */
static bool parse_dims(parser *parse, int limit, list *dims) {
    if (!weft_lexer_expect(&parse->lexer, "[")) return false;
    if (weft_lexer_take(&parse->lexer, "]")) return true;
    do {
        weft_dim *dim = list_add(parse, dims, sizeof *dim);
        if (!dim || !parse_dim(parse, dim)) return false;
        if (dims->count > (size_t)limit)
            return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "more than %d entries", limit);
    } while (weft_lexer_take(&parse->lexer, ","));
    return weft_lexer_expect(&parse->lexer, "]");
}

static bool parse_dtype(parser *parse, weft_dtype *out_dtype) {
    const char *word;
    size_t bytes;
    char name[32] = "";
    *out_dtype = WEFT_INVALID;
    if (!weft_lexer_word(&parse->lexer, &word, &bytes)) return false;
    if (bytes < sizeof name) memcpy(name, word, bytes);
    *out_dtype = weft_dtype_find(name);
    if (*out_dtype != WEFT_INVALID) return true;
    return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "\"%.*s\" is not a dtype", (int)(bytes < 40 ? bytes : 40),
                           word);
}

static bool parse_type(parser *parse, weft_type *out_type) {
    list dims = {0};
    *out_type = (weft_type){WEFT_INVALID, 0, NULL};
    if (!parse_dtype(parse, &out_type->dtype) || !parse_dims(parse, WEFT_MAX_RANK, &dims)) return false;
    out_type->rank = (int)dims.count;
    out_type->dims = dims.items;
    return true;
}

/* -- tensors */

static bool parse_element(parser *parse, weft_tensor *tensor, int64_t index) {
    double number;
    int64_t integer;
    weft_lexer *lexer = &parse->lexer;
    switch (weft_dtype_kind_of(tensor->dtype)) {
    case WEFT_KIND_FLOAT:
        if (!weft_lexer_double(lexer, &number)) return false;
        weft_element_set_double(tensor->dtype, tensor->data, index, number);
        return true;
    case WEFT_KIND_COMPLEX: {
        weft_dtype part = tensor->dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
        if (!weft_lexer_expect(lexer, "(") || !weft_lexer_double(lexer, &number)) return false;
        weft_element_set_double(part, tensor->data, 2 * index, number);
        if (!weft_lexer_expect(lexer, ",") || !weft_lexer_double(lexer, &number)) return false;
        weft_element_set_double(part, tensor->data, 2 * index + 1, number);
        return weft_lexer_expect(lexer, ")");
    }
    case WEFT_KIND_BOOL:
    case WEFT_KIND_SIGNED:
    case WEFT_KIND_UNSIGNED:
        if (!weft_lexer_integer(lexer, &integer)) return false;
        weft_element_set_i64(tensor->dtype, tensor->data, index, integer);
        if (weft_element_i64(tensor->dtype, tensor->data, index) == integer) return true;
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "%lld does not fit into %s", (long long)integer,
                               weft_dtype_name(tensor->dtype));
    case WEFT_KIND_NONE:
    case WEFT_KIND_STRING: break;
    }
    return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "%s has no elements in text", weft_dtype_name(tensor->dtype));
}

static bool parse_elements(parser *parse, weft_tensor *tensor) {
    if (!weft_lexer_expect(&parse->lexer, "[")) return false;
    for (int64_t i = 0; i < tensor->element_count; i++) {
        if (i && !weft_lexer_expect(&parse->lexer, ",")) return false;
        if (!parse_element(parse, tensor, i)) return false;
    }
    return weft_lexer_expect(&parse->lexer, "]");
}

/* dense f32[2] [1, 2] after "dense" */
static bool parse_dense(parser *parse, weft_tensor **out_tensor) {
    weft_type type;
    if (!parse_type(parse, &type)) return false;
    int64_t count = 1;
    for (int i = 0; i < type.rank; i++)
        if (!weft_dim_is_number(type.dims[i]) || __builtin_mul_overflow(count, type.dims[i], &count))
            return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "a constant's extents are numbers");
    /* an element takes a byte of text at least: nothing is allocated for elements that cannot follow */
    if (count > parse->lexer.end - parse->lexer.at)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%lld elements do not follow", (long long)count);
    if (!fail_status(parse, weft_tensor_create(parse->context, type.dtype, type.rank, type.dims, out_tensor)))
        return false;
    return parse_elements(parse, *out_tensor);
}

/* The caller releases *out_tensor, also on failure (it may be NULL). */
static bool parse_tensor(parser *parse, weft_tensor **out_tensor) {
    *out_tensor = NULL;
    if (weft_lexer_take(&parse->lexer, "dense")) return parse_dense(parse, out_tensor);
    const char *key;
    if (!weft_lexer_expect(&parse->lexer, "weights") || !weft_lexer_string(&parse->lexer, &key)) return false;
    if (!parse->tensors || !parse->tensors->get)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "weights \"%s\": no weights came with the text", key);
    return fail_status(parse, parse->tensors->get(parse->tensors->self, key, out_tensor));
}

/* -- attributes */

static bool parse_ints(parser *parse, bool floats, list *values) {
    if (!weft_lexer_expect(&parse->lexer, "[")) return false;
    if (weft_lexer_take(&parse->lexer, "]")) return true;
    do {
        void *value = list_add(parse, values, 8);
        if (!value) return false;
        if (floats ? !weft_lexer_double(&parse->lexer, value) : !weft_lexer_integer(&parse->lexer, value)) return false;
    } while (weft_lexer_take(&parse->lexer, ","));
    return weft_lexer_expect(&parse->lexer, "]");
}

static bool parse_attribute_value(parser *parse, weft_attribute *attribute) {
    list values = {0};
    bool right = false;
    switch (weft_attribute_kind_of(attribute->name)) {
    case WEFT_ATTR_KIND_INT: return weft_lexer_integer(&parse->lexer, &attribute->as.integer);
    case WEFT_ATTR_KIND_FLOAT: return weft_lexer_double(&parse->lexer, &attribute->as.number);
    case WEFT_ATTR_KIND_DTYPE: return parse_dtype(parse, &attribute->as.dtype);
    case WEFT_ATTR_KIND_STRING: return weft_lexer_string(&parse->lexer, &attribute->as.string);
    case WEFT_ATTR_KIND_TENSOR: return parse_tensor(parse, &attribute->as.tensor);
    case WEFT_ATTR_KIND_INTS: right = parse_ints(parse, false, &values); break;
    case WEFT_ATTR_KIND_FLOATS: right = parse_ints(parse, true, &values); break;
    case WEFT_ATTR_KIND_DIMS: right = parse_dims(parse, MAX_ITEMS, &values); break;
    }
    attribute->count = (int)values.count;
    attribute->as.ints = values.items;
    return right;
}

/* {name = value, ...} after the brace */
static bool parse_attributes(parser *parse, list *attributes) {
    do {
        const char *word;
        size_t bytes;
        if (!weft_lexer_word(&parse->lexer, &word, &bytes)) return false;
        weft_attribute_name name = weft_attribute_find(word, bytes);
        if (name == WEFT_ATTR_COUNT)
            return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "no attribute is called \"%.*s\"",
                                   (int)(bytes < 40 ? bytes : 40), word);
        weft_attribute *attribute = list_add(parse, attributes, sizeof *attribute);
        if (!attribute) return false;
        *attribute = (weft_attribute){.name = name};
        if (!weft_lexer_expect(&parse->lexer, "=") || !parse_attribute_value(parse, attribute)) return false;
    } while (weft_lexer_take(&parse->lexer, ","));
    return weft_lexer_expect(&parse->lexer, "}");
}

/* An opening brace starts attributes when "name =" follows, else a region. */
static bool attributes_follow(const parser *parse) {
    weft_lexer ahead = parse->lexer;
    const char *word;
    size_t bytes;
    if (!weft_lexer_take(&ahead, "{") || weft_lexer_at_end(&ahead) || strchr("(%}\"", *ahead.at)) return false;
    bool follows = weft_lexer_word(&ahead, &word, &bytes) && weft_lexer_take(&ahead, "=");
    weft_status_release(ahead.status);
    return follows;
}

/* -- values */

static bool parse_number(parser *parse, int64_t *out_number) {
    return weft_lexer_expect(&parse->lexer, "%") && weft_lexer_integer(&parse->lexer, out_number);
}

static bool parse_value(parser *parse, weft_value **out_value) {
    int64_t number;
    if (!parse_number(parse, &number)) return false;
    *out_value = weft_map_find(&parse->values, &number, sizeof number);
    return *out_value ? true
                      : weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%%%lld is not defined", (long long)number);
}

/* %1 "name" where a value is defined. */
typedef struct definition {
    int64_t number;
    const char *name;
} definition;

static bool parse_definition(parser *parse, definition *out) {
    out->name = NULL;
    if (!parse_number(parse, &out->number)) return false;
    return weft_lexer_peek(&parse->lexer, '"') ? weft_lexer_string(&parse->lexer, &out->name) : true;
}

static bool define(parser *parse, const definition *defined, weft_value *value) {
    if (weft_map_has(&parse->values, &defined->number, sizeof defined->number))
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%%%lld is defined twice", (long long)defined->number);
    if (defined->name && !value->name) value->name = weft_graph_copy_string(parse->graph, defined->name);
    if (weft_map_put(&parse->values, &defined->number, sizeof defined->number, value)) return true;
    return weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "%%%lld", (long long)defined->number);
}

/* -- nodes */

static bool parse_node(parser *parse);

static bool parse_region_arguments(parser *parse, weft_block *block) {
    if (!weft_lexer_take(&parse->lexer, "(")) return true;
    do {
        definition defined;
        weft_type type;
        if (!parse_definition(parse, &defined) || !weft_lexer_expect(&parse->lexer, ":") || !parse_type(parse, &type))
            return false;
        weft_value *argument = weft_block_add_argument(block, &type, defined.name);
        if (weft_value_is_poison(argument)) return weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "an argument");
        if (!define(parse, &defined, argument)) return false;
    } while (weft_lexer_take(&parse->lexer, ","));
    return weft_lexer_expect(&parse->lexer, ")");
}

/* The region's nodes up to its closing brace. */
static bool parse_region(parser *parse, weft_region **out_region) {
    weft_region *region = *out_region = weft_region_create(parse->graph);
    if (!region) return weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "a region");
    if (parse->depth >= MAX_DEPTH)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "regions nest deeper than %d", MAX_DEPTH);
    parse->depth++;
    weft_place old = weft_graph_place_end(parse->graph, region->block);
    bool right = parse_region_arguments(parse, region->block);
    while (right && !weft_lexer_take(&parse->lexer, "}")) right = parse_node(parse);
    weft_graph_place(parse->graph, old);
    parse->depth--;
    return right;
}

typedef struct node_text {
    list definitions, operands, attributes, regions;
    weft_op op;
} node_text;

/* %1, %2 = op %a, %b {attributes} {region} ... */
static bool parse_node_head(parser *parse, node_text *node) {
    if (weft_lexer_peek(&parse->lexer, '%')) {
        do {
            definition *defined = list_add(parse, &node->definitions, sizeof *defined);
            if (!defined || !parse_definition(parse, defined)) return false;
        } while (weft_lexer_take(&parse->lexer, ","));
        if (!weft_lexer_expect(&parse->lexer, "=")) return false;
    }
    const char *word;
    size_t bytes;
    if (!weft_lexer_word(&parse->lexer, &word, &bytes)) return false;
    node->op = weft_op_find(word, bytes);
    if (node->op == WEFT_OP_COUNT)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "no op is called \"%.*s\"",
                               (int)(bytes < 40 ? bytes : 40), word);
    /* a node without operands may be followed by one that starts with %: operands stand on the op's line */
    const char *after = word + bytes;
    while (after < parse->lexer.end && (*after == ' ' || *after == '\t')) after++;
    if (after == parse->lexer.end || *after != '%') return true;
    do {
        weft_value **operand = list_add(parse, &node->operands, sizeof *operand);
        if (!operand || !parse_value(parse, operand)) return false;
    } while (weft_lexer_take(&parse->lexer, ","));
    return true;
}

static bool parse_node_tail(parser *parse, node_text *node) {
    if (attributes_follow(parse) &&
        (!weft_lexer_expect(&parse->lexer, "{") || !parse_attributes(parse, &node->attributes)))
        return false;
    while (!parse->lexer.status && weft_lexer_take(&parse->lexer, "{")) {
        weft_region **region = list_add(parse, &node->regions, sizeof *region);
        if (!region || !parse_region(parse, region)) return false;
    }
    return !parse->lexer.status;
}

/* The types after the colon must be the inferred ones. */
static bool parse_result_types(parser *parse, const weft_node *node) {
    for (int i = 0; i < node->result_count; i++) {
        weft_type type;
        if (!weft_lexer_expect(&parse->lexer, i ? "," : ":") || !parse_type(parse, &type)) return false;
        if (weft_type_equal(&type, &node->results[i].type)) continue;
        weft_text text;
        weft_text_init(parse->context->allocator, &text);
        weft_type_print(parse->graph, &node->results[i].type, &text);
        weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%s: result %d is %s", weft_op_get(node->op)->name, i,
                        weft_text_string(&text));
        weft_text_deinit(&text);
        return false;
    }
    return true;
}

static bool parse_location(parser *parse, weft_location *out_location) {
    *out_location = (weft_location){.name = NULL};
    if (!weft_lexer_take(&parse->lexer, "at")) return true;
    const char *name;
    int64_t line = 0;
    if (!weft_lexer_string(&parse->lexer, &name)) return false;
    if (weft_lexer_take(&parse->lexer, ":") && !weft_lexer_integer(&parse->lexer, &line)) return false;
    if (line < 0 || line > INT32_MAX)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "line %lld", (long long)line);
    *out_location = (weft_location){.name = weft_graph_copy_string(parse->graph, name), .line = (int)line};
    return out_location->name ? true : weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "a location");
}

static bool make_node(parser *parse, const node_text *text) {
    weft_graph *graph = parse->graph;
    weft_node *node =
        weft_node_create(graph, text->op, (int)text->operands.count, text->operands.items, (int)text->attributes.count,
                         text->attributes.items, (int)text->regions.count, text->regions.items);
    if (graph->problem_count) return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%s", graph->problems[0].text);
    if (!node || !node->block) return weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "a node");
    const definition *defined = text->definitions.items;
    if ((size_t)node->result_count != text->definitions.count)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%s has %d results, %zu are named",
                               weft_op_get(node->op)->name, node->result_count, text->definitions.count);
    if (!parse_result_types(parse, node) || !parse_location(parse, &node->location)) return false;
    for (int i = 0; i < node->result_count; i++)
        if (!define(parse, &defined[i], &node->results[i])) return false;
    return true;
}

static bool parse_node(parser *parse) {
    node_text text = {0};
    bool right = parse_node_head(parse, &text) && parse_node_tail(parse, &text) && make_node(parse, &text);
    weft_attribute *attributes = text.attributes.items;
    for (size_t i = 0; i < text.attributes.count; i++)
        if (weft_attribute_kind_of(attributes[i].name) == WEFT_ATTR_KIND_TENSOR)
            weft_tensor_release(attributes[i].as.tensor);
    return right;
}

/* -- graph statements, after their keyword */

/* B in [1, 64] divisor 1 anonymous */
static bool parse_symbol(parser *parse) {
    weft_lexer *lexer = &parse->lexer;
    const char *name;
    int64_t minimum, maximum = INT64_MAX, divisor;
    if (!weft_lexer_name(lexer, &name) || !weft_lexer_expect(lexer, "in") || !weft_lexer_expect(lexer, "[") ||
        !weft_lexer_integer(lexer, &minimum) || !weft_lexer_expect(lexer, ","))
        return false;
    if (!weft_lexer_take(lexer, "inf") && !weft_lexer_integer(lexer, &maximum)) return false;
    if (!weft_lexer_expect(lexer, "]") || !weft_lexer_expect(lexer, "divisor") || !weft_lexer_integer(lexer, &divisor))
        return false;
    weft_symbol_origin origin = WEFT_SYMBOL_DECLARED;
    if (weft_lexer_take(lexer, "anonymous"))
        origin = WEFT_SYMBOL_ANONYMOUS;
    else if (weft_lexer_take(lexer, "data"))
        origin = WEFT_SYMBOL_DATA;
    if (minimum < 0 || maximum < minimum || divisor < 1)
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "symbol %s: need 0 <= minimum <= maximum and divisor >= 1",
                               name);
    if (weft_dim_symbol_find(parse->graph->dims, name) >= 0)
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "symbol %s is declared twice", name);
    if (weft_dim_symbol(parse->graph->dims, name, minimum, maximum, divisor, origin) != WEFT_DIM_INVALID) return true;
    return weft_lexer_fail(lexer, WEFT_OUT_OF_MEMORY, "symbol %s", name);
}

/* a == b, by "pass" at "file:12" */
static bool parse_guard(parser *parse) {
    weft_lexer *lexer = &parse->lexer;
    weft_condition condition;
    const char *pass, *location = "";
    if (!parse_dim(parse, &condition.lhs)) return false;
    if (weft_lexer_take(lexer, "=="))
        condition.relation = WEFT_RELATION_EQ;
    else if (weft_lexer_take(lexer, "!="))
        condition.relation = WEFT_RELATION_NE;
    else if (weft_lexer_take(lexer, "<="))
        condition.relation = WEFT_RELATION_LE;
    else if (weft_lexer_take(lexer, "<"))
        condition.relation = WEFT_RELATION_LT;
    else
        return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "expected a relation");
    if (!parse_dim(parse, &condition.rhs) || !weft_lexer_expect(lexer, ",") || !weft_lexer_expect(lexer, "by") ||
        !weft_lexer_string(lexer, &pass) || (weft_lexer_take(lexer, "at") && !weft_lexer_string(lexer, &location)))
        return false;
    if (weft_graph_assume(parse->graph, condition, pass, location)) return true;
    return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "the assumption does not hold");
}

/* @w : f32[4] = dense ... */
static bool parse_state(parser *parse) {
    const char *name;
    weft_type type;
    weft_tensor *initial = NULL;
    if (!weft_lexer_expect(&parse->lexer, "@") || !weft_lexer_name(&parse->lexer, &name) ||
        !weft_lexer_expect(&parse->lexer, ":") || !parse_type(parse, &type))
        return false;
    bool right = weft_lexer_take(&parse->lexer, "=") ? parse_tensor(parse, &initial) : true;
    if (right) weft_graph_add_state(parse->graph, name, &type, initial);
    weft_tensor_release(initial);
    if (right && parse->graph->problem_count)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%s", parse->graph->problems[0].text);
    return right;
}

/* %0 "x" : f32[B, 4] */
static bool parse_input(parser *parse) {
    definition defined;
    weft_type type;
    if (!parse_definition(parse, &defined) || !weft_lexer_expect(&parse->lexer, ":") || !parse_type(parse, &type))
        return false;
    if (!defined.name) return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "an input needs a name");
    weft_value *value = weft_graph_input(parse->graph, defined.name, type.dtype, type.rank, type.dims);
    if (parse->graph->problem_count)
        return weft_lexer_fail(&parse->lexer, WEFT_INVALID_DATA, "%s", parse->graph->problems[0].text);
    if (weft_value_is_poison(value))
        return weft_lexer_fail(&parse->lexer, WEFT_OUT_OF_MEMORY, "input %s", defined.name);
    return define(parse, &defined, value);
}

/* "y" %2 */
static bool parse_output(parser *parse) {
    const char *name;
    weft_value *value;
    if (!weft_lexer_string(&parse->lexer, &name) || !parse_value(parse, &value)) return false;
    weft_graph_output(parse->graph, name, value);
    return true;
}

static bool parse_statement(parser *parse) {
    weft_lexer *lexer = &parse->lexer;
    if (weft_lexer_take(lexer, "symbol")) return parse_symbol(parse);
    if (weft_lexer_take(lexer, "assume")) return parse_guard(parse);
    if (weft_lexer_take(lexer, "state")) return parse_state(parse);
    if (weft_lexer_take(lexer, "input")) return parse_input(parse);
    if (weft_lexer_take(lexer, "output")) return parse_output(parse);
    return parse_node(parse);
}

static bool parse_graph(parser *parse) {
    weft_lexer *lexer = &parse->lexer;
    const char *name;
    if (!weft_lexer_expect(lexer, "graph") || !weft_lexer_expect(lexer, "@") || !weft_lexer_name(lexer, &name) ||
        !fail_status(parse, weft_graph_create(parse->context, name, &parse->graph)) || !weft_lexer_expect(lexer, "{"))
        return false;
    while (!weft_lexer_take(lexer, "}"))
        if (lexer->status || !parse_statement(parse)) return false;
    if (!weft_lexer_at_end(lexer)) return weft_lexer_fail(lexer, WEFT_INVALID_DATA, "text after the graph");
    return fail_status(parse, weft_graph_verify(parse->graph));
}

weft_status weft_parse(weft_context *context, const char *text, size_t bytes, const weft_tensor_source *tensors,
                       weft_graph **out_graph) {
    *out_graph = NULL;
    parser parse = {.context = context, .tensors = tensors};
    weft_arena_init(context->allocator, &parse.scratch);
    weft_map_init(context->allocator, &parse.values);
    parse.lexer = (weft_lexer){.text = text, .at = text, .end = text + bytes, .arena = &parse.scratch};
    bool right = parse_graph(&parse);
    weft_map_deinit(&parse.values);
    weft_arena_deinit(&parse.scratch);
    if (right) {
        *out_graph = parse.graph;
        return NULL;
    }
    weft_graph_release(parse.graph);
    if (!parse.lexer.status) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "parsing a graph");
    return parse.lexer.status;
}

weft_status weft_graph_parse(weft_context *context, const char *text, size_t text_bytes, weft_graph **out_graph) {
    WEFT_NEED(out_graph, "out_graph");
    WEFT_NEED(context, "the context");
    WEFT_NEED_LIST(text, text_bytes, "the list of characters");
    return weft_parse(context, text, text_bytes, NULL, out_graph);
}
