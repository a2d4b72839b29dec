/* From the shapes of the inputs to the values of the symbols: ports, bounds, divisors and guards are all checked here,
   once per change of shape. */
#include <string.h>

#include "base/text.h"
#include "runtime/frame.h"

static const int64_t unbound = INT64_MIN;

/* A status whose message ends with an expression: "input x, axis 0 is 5, not B*4 = 8". */
static weft_status wrong_extent(const weft_program_data *data, const weft_port *port, int axis, int64_t found,
                                int64_t wanted) {
    weft_text text;
    weft_text_init(weft_dim_table_allocator(data->dims), &text);
    weft_dim_print(data->dims, port->dims[axis], &text);
    bool number = weft_dim_is_number(port->dims[axis]);
    weft_status status =
        number ? WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s: axis %d is %lld, not %lld", port->name, axis,
                             (long long)found, (long long)wanted)
               : WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s: axis %d is %lld, not %s = %lld", port->name, axis,
                             (long long)found, weft_text_string(&text), (long long)wanted);
    weft_text_deinit(&text);
    return status;
}

static weft_status bind_port(const weft_program_data *data, const weft_port *port, const weft_shape_view *input,
                             int64_t *symbols) {
    if (input->dtype != port->dtype)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s is %s, not %s", port->name, weft_dtype_name(input->dtype),
                           weft_dtype_name(port->dtype));
    if (input->rank != port->rank)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s has rank %d, not %d", port->name, input->rank, port->rank);
    for (int axis = 0; axis < port->rank; axis++) {
        weft_dim_node node = weft_dim_get(data->dims, port->dims[axis]);
        if (node.kind == WEFT_DIM_SYMBOL && symbols[node.a] == unbound) symbols[node.a] = input->shape[axis];
    }
    return NULL;
}

/* Second pass: every extent equals what its expression says. */
static weft_status check_port(const weft_program_data *data, const weft_port *port, const weft_shape_view *input,
                              const int64_t *symbols) {
    for (int axis = 0; axis < port->rank; axis++) {
        int64_t wanted;
        if (!weft_dim_evaluate(data->dims, port->dims[axis], symbols, &wanted))
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "input %s: axis %d overflows", port->name, axis);
        if (wanted != input->shape[axis]) return wrong_extent(data, port, axis, input->shape[axis], wanted);
    }
    return NULL;
}

static weft_status check_symbol(const weft_symbol *symbol, int64_t value) {
    if (value < symbol->minimum || value > symbol->maximum) {
        if (symbol->maximum == INT64_MAX)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "extent %s is %lld: below %lld", symbol->name, (long long)value,
                               (long long)symbol->minimum);
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "extent %s is %lld: not in [%lld, %lld]", symbol->name, (long long)value,
                           (long long)symbol->minimum, (long long)symbol->maximum);
    }
    if (value % symbol->divisor)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "extent %s is %lld: not a multiple of %lld", symbol->name,
                           (long long)value, (long long)symbol->divisor);
    return NULL;
}

/* Names the guard, who relied on it and the values of its symbols. */
typedef struct value_printer {
    const weft_program_data *data;
    const int64_t *symbols;
    weft_text *text;
    bool any;
} value_printer;

static bool print_value(void *self, int symbol) {
    value_printer *p = self;
    weft_text_append(p->text, "%s%s = %lld", p->any ? ", " : "", weft_dim_symbol_get(p->data->dims, symbol)->name,
                     (long long)p->symbols[symbol]);
    p->any = true;
    return true;
}

static weft_status guard_failed(const weft_program_data *data, const weft_guard *guard, const int64_t *symbols) {
    weft_text condition, values;
    weft_text_init(weft_dim_table_allocator(data->dims), &condition);
    weft_text_init(weft_dim_table_allocator(data->dims), &values);
    value_printer printer = {data, symbols, &values, false};
    weft_condition_print(data->dims, &guard->condition, &condition);
    if (!weft_dim_visit_symbols(data->dims, guard->condition.lhs, print_value, &printer) ||
        !weft_dim_visit_symbols(data->dims, guard->condition.rhs, print_value, &printer))
        values.failed = true;
    weft_status status = WEFT_STATUS(WEFT_GUARD_FAILED, "%s does not hold (%s); pass %s relied on it for %s",
                                     weft_text_string(&condition), weft_text_string(&values),
                                     guard->pass ? guard->pass : "?", guard->location ? guard->location : "?");
    weft_text_deinit(&condition);
    weft_text_deinit(&values);
    return status;
}

weft_status weft_program_bind_shapes(const weft_program_data *data, int input_count, const weft_shape_view *inputs,
                                     int64_t *symbols) {
    if (input_count != data->input_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s takes %d inputs, not %d", data->name, data->input_count,
                           input_count);
    int symbol_count = weft_dim_symbol_count(data->dims);
    for (int i = 0; i < symbol_count; i++) symbols[i] = unbound;
    weft_program_reset_data_symbols(data, symbols);
    for (int i = 0; i < input_count; i++)
        WEFT_TRY(bind_port(data, &data->inputs[i], &inputs[i], symbols), "binding %s", data->name);
    for (int i = 0; i < symbol_count; i++) {
        const weft_symbol *symbol = weft_dim_symbol_get(data->dims, i);
        if (symbols[i] == unbound)
            symbols[i] = symbol->minimum > 0 ? symbol->minimum : 0; /* nothing uses it: weft_program_check */
        else if (symbol->origin != WEFT_SYMBOL_DATA)
            WEFT_TRY(check_symbol(symbol, symbols[i]), "binding %s", data->name);
    }
    for (int i = 0; i < input_count; i++)
        WEFT_TRY(check_port(data, &data->inputs[i], &inputs[i], symbols), "binding %s", data->name);
    for (int i = 0; i < data->guard_count; i++)
        if (!weft_condition_holds(data->dims, &data->guards[i].condition, symbols))
            return guard_failed(data, &data->guards[i], symbols);
    return NULL;
}

enum { VIEWS_ON_STACK = 16 };

weft_status weft_program_bind(const weft_program_data *data, int input_count, weft_tensor *const *inputs,
                              int64_t *symbols) {
    weft_shape_view few[VIEWS_ON_STACK], *views = few;
    weft_allocator allocator = weft_dim_table_allocator(data->dims);
    size_t bytes = (size_t)(input_count < 0 ? 0 : input_count) * sizeof *views;
    if (input_count != data->input_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s takes %d inputs, not %d", data->name, data->input_count,
                           input_count);
    if (input_count > VIEWS_ON_STACK) views = weft_allocate(allocator, bytes);
    if (!views) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to bind %d inputs", input_count);
    weft_status status = NULL;
    for (int i = 0; i < input_count && !status; i++) {
        if (inputs[i])
            views[i] = (weft_shape_view){weft_tensor_dtype(inputs[i]), weft_tensor_rank(inputs[i]),
                                         weft_tensor_shape(inputs[i])};
        else
            status = WEFT_STATUS(WEFT_INVALID_ARGUMENT, "input %s is NULL", data->inputs[i].name);
    }
    if (!status) status = weft_program_bind_shapes(data, input_count, views, symbols);
    if (views != few) weft_free(allocator, views, bytes);
    return status;
}
