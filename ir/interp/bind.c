/* Entering a graph: the inputs' shapes bind its symbols, and everything the graph declares about them is checked. */
#include "ir/interp/interp.h"

/* A symbol bound for the first time must respect its declaration; bound before, it must have that value. */
static weft_status bind_symbol(weft_interpreter *interpreter, int index, int64_t value) {
    const weft_symbol *symbol = weft_dim_symbol_get(interpreter->graph->dims, index);
    int64_t *slot = &interpreter->symbols[index];
    if (*slot != WEFT_SYMBOL_UNBOUND && *slot != value)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "symbol %s is %lld here and %lld at another input", symbol->name,
                           (long long)value, (long long)*slot);
    if (value < symbol->minimum || value > symbol->maximum)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "symbol %s is %lld, outside [%lld, %lld]", symbol->name, (long long)value,
                           (long long)symbol->minimum, (long long)symbol->maximum);
    if (symbol->divisor > 1 && value % symbol->divisor)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "symbol %s is %lld, not a multiple of %lld", symbol->name,
                           (long long)value, (long long)symbol->divisor);
    *slot = value;
    return NULL;
}

/* First pass: plain symbols. Second pass: numbers and expressions. */
static weft_status match_extent(weft_interpreter *interpreter, weft_dim dim, int64_t value, bool expressions) {
    bool symbol = !weft_dim_is_number(dim) && weft_dim_get(interpreter->graph->dims, dim).kind == WEFT_DIM_SYMBOL;
    if (symbol == expressions) return NULL;
    if (symbol) return bind_symbol(interpreter, (int)weft_dim_get(interpreter->graph->dims, dim).a, value);
    int64_t expected;
    WEFT_TRY(weft_interp_extent(interpreter, dim, &expected), "declared extent");
    if (expected != value)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the extent is %lld, declared is %lld", (long long)value,
                           (long long)expected);
    return NULL;
}

static weft_status match_input(weft_interpreter *interpreter, const weft_value *value, const weft_tensor *tensor,
                               bool expressions) {
    if (!tensor) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the tensor is missing");
    if (tensor->device) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the tensor is in device memory");
    if (tensor->dtype != value->type.dtype || tensor->rank != value->type.rank)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s of rank %d is given, %s of rank %d declared",
                           weft_dtype_name(tensor->dtype), tensor->rank, weft_dtype_name(value->type.dtype),
                           value->type.rank);
    for (int axis = 0; axis < tensor->rank; axis++)
        WEFT_TRY(match_extent(interpreter, value->type.dims[axis], tensor->shape[axis], expressions), "axis %d", axis);
    return NULL;
}

weft_status weft_interp_bind(weft_interpreter *interpreter, int input_count, weft_tensor *const *inputs) {
    const weft_block *block = interpreter->graph->body->block;
    if (input_count != block->argument_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%d inputs are given, the graph has %d", input_count,
                           block->argument_count);
    for (int i = 0; i < interpreter->symbol_count; i++) interpreter->symbols[i] = WEFT_SYMBOL_UNBOUND;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < input_count; i++)
            WEFT_TRY(match_input(interpreter, block->arguments[i], inputs[i], pass == 1), "input %s",
                     block->arguments[i]->name ? block->arguments[i]->name : "without a name");
    return weft_interp_check_guards(interpreter);
}

weft_status weft_interp_check_guards(const weft_interpreter *interpreter) {
    const weft_graph *graph = interpreter->graph;
    for (size_t i = 0; i < graph->guard_count; i++) {
        const weft_guard *guard = &graph->guards[i];
        if (weft_interp_unbound(interpreter, guard->condition.lhs) >= 0 ||
            weft_interp_unbound(interpreter, guard->condition.rhs) >= 0)
            continue; /* data-dependent: checked when the symbol is bound */
        if (weft_condition_holds(graph->dims, &guard->condition, interpreter->symbols)) continue;
        weft_text text;
        weft_text_init(graph->context->allocator, &text);
        weft_condition_print(graph->dims, &guard->condition, &text);
        weft_status status = WEFT_STATUS(WEFT_GUARD_FAILED, "%s does not hold (%s)", weft_text_string(&text),
                                         guard->location ? guard->location : "unknown place");
        weft_text_deinit(&text);
        return status;
    }
    return NULL;
}
