/* See compare.h. */
#include "cli/compare.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "ir/build.h"

static weft_tolerance_class class_of(const weft_node *node) {
    bool whole = node->result_count && !weft_dtype_is_float(node->results[0].type.dtype);
    bool complex = node->operand_count &&
                   (node->operands[0]->type.dtype == WEFT_C64 || node->operands[0]->type.dtype == WEFT_C128);
    const weft_op_info *info = weft_op_get(node->op);
    if (info->flags & WEFT_FLAG_VIEW || (whole && !complex)) return WEFT_TOLERANCE_EXACT;
    switch ((int)node->op) {
    case WEFT_OP_abs:
    case WEFT_OP_neg:
    case WEFT_OP_sign:
    case WEFT_OP_ceil:
    case WEFT_OP_floor:
    case WEFT_OP_round:
    case WEFT_OP_max:
    case WEFT_OP_min:
    case WEFT_OP_select:
    case WEFT_OP_convert:
    case WEFT_OP_bitcast:
    case WEFT_OP_constant:
    case WEFT_OP_iota:
    case WEFT_OP_gather:
    case WEFT_OP_sort:
    case WEFT_OP_top_k:
    case WEFT_OP_complex:
    case WEFT_OP_real:
    case WEFT_OP_imag:
    case WEFT_OP_state_read: return WEFT_TOLERANCE_EXACT;
    case WEFT_OP_add:
    case WEFT_OP_sub:
    case WEFT_OP_mul:
    case WEFT_OP_div:
    case WEFT_OP_rem:
    case WEFT_OP_sqrt: return complex ? WEFT_TOLERANCE_CHAIN : WEFT_TOLERANCE_ARITHMETIC;
    case WEFT_OP_scatter:
    case WEFT_OP_reduce:
    case WEFT_OP_cumulative:
    case WEFT_OP_reduce_window:
    case WEFT_OP_select_and_scatter:
    case WEFT_OP_dot_general:
    case WEFT_OP_ragged_dot:
    case WEFT_OP_convolution: return WEFT_TOLERANCE_SUM;
    default: return info->flags & WEFT_FLAG_ELEMENTWISE ? WEFT_TOLERANCE_FUNCTION : WEFT_TOLERANCE_CHAIN;
    }
}

static bool is_complex(weft_dtype dtype) { return dtype == WEFT_C64 || dtype == WEFT_C128; }
static weft_dtype part_of(weft_dtype dtype) {
    return dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype;
}

static double largest_of(const weft_tensor *tensor) {
    weft_dtype part = part_of(weft_tensor_dtype(tensor));
    int64_t count = weft_tensor_element_count(tensor) * (is_complex(weft_tensor_dtype(tensor)) ? 2 : 1);
    double largest = 0;
    for (int64_t i = 0; weft_dtype_is_float(part) && i < count; i++) {
        double x = fabs(weft_element_double(part, weft_tensor_data(tensor), i));
        if (isfinite(x) && x > largest) largest = x;
    }
    return largest;
}

cli_contract cli_contract_of(const weft_node *node, int input_count, weft_tensor *const *inputs) {
    cli_contract contract = {class_of(node), "cpu", 1, 1};
    for (int i = 0; i < input_count; i++) {
        double x = largest_of(inputs[i]);
        contract.terms = fmax(contract.terms, (double)weft_tensor_element_count(inputs[i]));
        contract.scale = fmax(contract.scale, x * x); /* terms are elements or products of two */
    }
    return contract;
}

cli_difference cli_compare(const weft_tensor *got, const weft_tensor *expected, const cli_contract *contract) {
    static const cli_contract graph = {WEFT_TOLERANCE_GRAPH, "cpu", 1, 1};
    if (!contract) contract = &graph;
    cli_difference d = {.element = -1};
    weft_dtype dtype = weft_tensor_dtype(expected), part = part_of(dtype);
    bool same = weft_tensor_dtype(got) == dtype && weft_tensor_rank(got) == weft_tensor_rank(expected);
    for (int i = 0; same && i < weft_tensor_rank(got); i++)
        same = weft_tensor_shape(got)[i] == weft_tensor_shape(expected)[i];
    if (!same) return (cli_difference){.worst = INFINITY, .element = -1, .differs = true};
    weft_tolerance tolerance = weft_tolerance_get(contract->class, part, contract->target);
    double scale = fmax(contract->scale, largest_of(expected));
    int64_t count = weft_tensor_element_count(expected) * (is_complex(dtype) ? 2 : 1);
    for (int64_t i = 0; i < count; i++) {
        double a, b, error;
        bool close;
        if (weft_dtype_is_float(part)) {
            a = weft_element_double(part, weft_tensor_data(got), i),
            b = weft_element_double(part, weft_tensor_data(expected), i);
            error = (isnan(a) && isnan(b)) || a == b ? 0 : fabs(a - b) / (1 + fabs(b));
            if (isnan(error) || isinf(a) != isinf(b)) error = INFINITY;
            close = weft_tolerance_close(tolerance, part, b, a, contract->terms, scale);
        } else {
            int64_t x = weft_element_i64(dtype, weft_tensor_data(got), i),
                    y = weft_element_i64(dtype, weft_tensor_data(expected), i);
            a = (double)x, b = (double)y, error = x == y ? 0 : fabs(a - b) + 1;
            close = x == y;
        }
        bool first = !close && !d.differs;
        if (first || (!d.differs && error > d.worst)) d.element = i, d.got = a, d.expected = b;
        if (error > d.worst) d.worst = error;
        d.differs |= !close;
    }
    return d;
}

static weft_status remember(void *self, const weft_node *node, weft_tensor *const *results) {
    cli_values *values = self;
    for (int i = 0; i < node->result_count; i++) {
        const weft_value *value = &node->results[i];
        if (weft_map_has(&values->tensors, &value, sizeof value))
            continue; /* bodies run several times: the first counts */
        if (!weft_map_put(&values->tensors, &value, sizeof value, results[i]))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "recording values");
        weft_tensor_retain(results[i]);
    }
    return NULL;
}

weft_status cli_values_record(weft_graph *graph, weft_tensor *const *inputs, cli_values *values) {
    weft_map_init(weft_allocator_system(), &values->tensors);
    weft_tensor *outputs[CLI_VALUES_MAX] = {0};
    for (int i = 0; i < weft_graph_input_count(graph); i++) {
        const weft_value *value = weft_graph_input_value(graph, i);
        if (!weft_map_put(&values->tensors, &value, sizeof value, inputs[i]))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "recording values");
        weft_tensor_retain(inputs[i]);
    }
    WEFT_TRY(weft_interpret_observed(graph, WEFT_INTERPRET_EXACT, weft_graph_input_count(graph), inputs,
                                     weft_graph_output_count(graph), outputs, remember, values),
             "recording values");
    for (int i = 0; i < weft_graph_output_count(graph); i++) weft_tensor_release(outputs[i]);
    return NULL;
}

void cli_values_release(cli_values *values) {
    size_t cursor = 0, bytes;
    const void *key;
    void *tensor;
    while (weft_map_next(&values->tensors, &cursor, &key, &bytes, &tensor)) weft_tensor_release(tensor);
    weft_map_deinit(&values->tensors);
}

weft_tensor *cli_values_find(const cli_values *values, const weft_value *value) {
    return weft_map_find(&values->tensors, &value, sizeof value);
}

typedef struct extraction {
    weft_graph *from, *to;
    weft_value_map map;
    const cli_values *values;
    weft_tensor **inputs;
    int input_count;
} extraction;

/* The piece's symbol for one of the graph: what data decide further up, inputs of the piece decide. */
static weft_dim cut_extent(extraction *x, weft_dim extent) {
    weft_dim_table *from = x->from->dims, *to = x->to->dims;
    for (int i = 0; i < weft_dim_symbol_count(from); i++) {
        const weft_symbol *s = weft_dim_symbol_get(from, i);
        bool data = extent == weft_dim_symbol_value(from, i) && s->origin == WEFT_SYMBOL_DATA;
        if (data && weft_dim_symbol_find(to, s->name) < 0)
            weft_dim_symbol(to, s->name, s->minimum, s->maximum, s->divisor, WEFT_SYMBOL_DECLARED);
    }
    return weft_dim_copy(from, extent, to);
}

static weft_status cut(extraction *x, weft_value *value) {
    weft_tensor *tensor = cli_values_find(x->values, value);
    if (!tensor) return WEFT_STATUS(WEFT_INTERNAL, "value %%%d was not recorded", value->id);
    if (x->input_count == CLI_VALUES_MAX) return WEFT_STATUS(WEFT_UNSUPPORTED, "the piece has too many inputs");
    char name[16];
    weft_dim dims[WEFT_MAX_RANK];
    for (int i = 0; i < value->type.rank; i++) dims[i] = cut_extent(x, value->type.dims[i]);
    snprintf(name, sizeof name, "v%d", value->id);
    weft_value *input = weft_graph_input(x->to, name, value->type.dtype, value->type.rank, dims);
    if (!weft_value_map_put(&x->map, value, input)) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "cutting a graph");
    weft_tensor_retain(x->inputs[x->input_count++] = tensor);
    return NULL;
}

static bool has_axis(const weft_value *value, weft_dim extent) {
    bool found = false;
    for (int i = 0; i < value->type.rank; i++) found |= value->type.dims[i] == extent;
    return found;
}

/* Every symbol of the piece must be an axis of some input: if none is, the graph's input that has it becomes one. */
static weft_status bind_symbols(extraction *x) {
    for (int i = 0; i < weft_dim_symbol_count(x->to->dims); i++) {
        const weft_symbol *symbol = weft_dim_symbol_get(x->to->dims, i);
        weft_dim extent = weft_dim_symbol_value(x->to->dims, i),
                 original = weft_dim_symbol_value(x->from->dims, weft_dim_symbol_find(x->from->dims, symbol->name));
        bool bound = symbol->origin == WEFT_SYMBOL_DATA;
        for (int n = 0; n < weft_graph_input_count(x->to); n++)
            bound |= has_axis(weft_graph_input_value(x->to, n), extent);
        for (int n = 0; !bound && n < weft_graph_input_count(x->from); n++) {
            weft_value *input = weft_graph_input_value(x->from, n);
            if (!has_axis(input, original)) continue;
            WEFT_TRY(cut(x, input), "cutting a graph");
            bound = true;
        }
    }
    return NULL;
}

static weft_status take(extraction *x, weft_node *node, int depth);

/* Makes a value available in the piece: with its producer, or as an input. */
static weft_status provide(extraction *x, weft_value *value, int depth) {
    if (weft_value_map_find(&x->map, value)) return NULL;
    bool inside = value->node && (depth > 0 || value->node->op == WEFT_OP_constant);
    return inside ? take(x, value->node, depth - 1) : cut(x, value);
}

static bool is_within(const weft_value *value, const weft_node *node) {
    const weft_block *block = value->node ? value->node->block : value->block;
    while (block->region->parent && block->region->parent != node) block = block->region->parent->block;
    return block->region->parent == node;
}

/* What the regions of `of` use from outside of it, those of `node` and nested ones. */
static weft_status provide_captures(extraction *x, const weft_node *of, const weft_node *node, int depth) {
    for (int r = 0; r < node->region_count; r++)
        for (const weft_node *n = node->regions[r]->block->first; n; n = n->next) {
            for (int i = 0; i < n->operand_count; i++)
                if (!is_within(n->operands[i], of)) WEFT_TRY(provide(x, n->operands[i], depth), "cutting a graph");
            WEFT_TRY(provide_captures(x, of, n, depth), "cutting a graph");
        }
    return NULL;
}

static weft_status take(extraction *x, weft_node *node, int depth) {
    for (int i = 0; i < node->operand_count; i++) WEFT_TRY(provide(x, node->operands[i], depth), "cutting a graph");
    WEFT_TRY(provide_captures(x, node, node, depth), "cutting a graph");
    weft_node *clone = weft_node_clone(x->to, node, &x->map);
    if (!clone) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "cutting a graph");
    for (int i = 0; i < node->result_count; i++)
        if (!weft_value_map_put(&x->map, &node->results[i], &clone->results[i]))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "cutting a graph");
    return NULL;
}

weft_status cli_extract(weft_graph *graph, const weft_node *node, int depth, const cli_values *values,
                        weft_graph **out_graph, weft_tensor **out_inputs, int *out_input_count) {
    WEFT_TRY(weft_graph_create(graph->context, "piece", out_graph), "cutting a graph");
    extraction x = {.from = graph, .to = *out_graph, .values = values, .inputs = out_inputs};
    weft_value_map_init(weft_allocator_system(), &x.map);
    weft_node *last = node->results[0].node;
    weft_status status = take(&x, last, depth);
    if (!status) status = bind_symbols(&x);
    for (int i = 0; !status && i < last->result_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        weft_graph_output(*out_graph, name, weft_value_map_find(&x.map, &last->results[i]));
    }
    *out_input_count = x.input_count;
    weft_value_map_deinit(&x.map);
    return status ? status : weft_graph_verify(*out_graph);
}

enum { AGAIN = 3 }; /* the last of them is a replay where the device records calls */

weft_status cli_check_graph(weft_graph *graph, const char *device, weft_tensor *const *inputs,
                            const cli_contract *contract, int *out_bad, cli_difference *out_difference) {
    int input_count = weft_graph_input_count(graph), output_count = weft_graph_output_count(graph);
    weft_tensor *expected[CLI_VALUES_MAX] = {0}, *got[CLI_VALUES_MAX] = {0}, *again[CLI_VALUES_MAX] = {0};
    weft_function *function = NULL;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = device;
    weft_status status = weft_graph_interpret(graph, input_count, inputs, output_count, expected);
    *out_bad = -1;
    *out_difference = (cli_difference){0};
    if (!status) status = weft_function_create(graph, &options, &function);
    if (!status) status = weft_function_call(function, input_count, inputs, output_count, got);
    for (int i = 0; !status && i < AGAIN; i++)
        status = weft_function_call(function, input_count, inputs, output_count, again);
    for (int i = 0; !status && i < output_count && *out_bad < 0; i++) {
        *out_difference = cli_compare(got[i], expected[i], contract);
        if (!out_difference->differs)
            out_difference->unstable =
                weft_tensor_bytes(got[i]) != weft_tensor_bytes(again[i]) ||
                memcmp(weft_tensor_data(got[i]), weft_tensor_data(again[i]), weft_tensor_bytes(got[i])) != 0;
        if (out_difference->differs || out_difference->unstable) *out_bad = i;
    }
    for (int i = 0; i < CLI_VALUES_MAX; i++)
        weft_tensor_release(expected[i]), weft_tensor_release(got[i]), weft_tensor_release(again[i]);
    weft_function_release(function);
    return status;
}
