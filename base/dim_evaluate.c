/* Evaluation, substitution and copies between tables. Recursion is bounded: entries have a largest depth and size. */
#include "base/dim_table.h"

static bool apply(weft_dim_kind kind, int64_t a, int64_t b, int64_t *out_value) {
    switch (kind) {
    case WEFT_DIM_ADD: return !__builtin_add_overflow(a, b, out_value);
    case WEFT_DIM_MULTIPLY: return !__builtin_mul_overflow(a, b, out_value);
    case WEFT_DIM_FLOOR_DIVIDE:
        if (b <= 0) return false;
        *out_value = a / b - (a % b < 0);
        return true;
    case WEFT_DIM_MODULO:
        if (b <= 0) return false;
        *out_value = a % b + (a % b < 0 ? b : 0);
        return true;
    case WEFT_DIM_MINIMUM: *out_value = a < b ? a : b; return true;
    case WEFT_DIM_MAXIMUM: *out_value = a > b ? a : b; return true;
    case WEFT_DIM_NUMBER:
    case WEFT_DIM_SYMBOL: break;
    }
    return false;
}

bool weft_dim_evaluate(const weft_dim_table *table, weft_dim dim, const int64_t *symbols, int64_t *out_value) {
    *out_value = dim;
    if (dim >= 0) return true;
    if (!weft_dim_is_usable(table, dim)) return false;
    const weft_dim_node *node = &weft_dim_entry_get(table, dim)->node;
    int64_t a, b;
    if (node->kind == WEFT_DIM_NUMBER) {
        *out_value = node->number;
        return true;
    }
    if (node->kind == WEFT_DIM_SYMBOL) {
        *out_value = symbols[node->a];
        return true;
    }
    return weft_dim_evaluate(table, node->a, symbols, &a) && weft_dim_evaluate(table, node->b, symbols, &b) &&
           apply(node->kind, a, b, out_value);
}

bool weft_dim_visit_symbols(const weft_dim_table *table, weft_dim dim, bool (*visit)(void *self, int symbol),
                            void *self) {
    if (dim >= 0 || !weft_dim_is_usable(table, dim)) return true;
    weft_dim_node node = weft_dim_get(table, dim);
    if (node.kind == WEFT_DIM_NUMBER) return true;
    if (node.kind == WEFT_DIM_SYMBOL) return visit(self, (int)node.a);
    return weft_dim_visit_symbols(table, node.a, visit, self) && weft_dim_visit_symbols(table, node.b, visit, self);
}

static weft_dim construct(weft_dim_table *table, weft_dim_kind kind, weft_dim a, weft_dim b) {
    switch (kind) {
    case WEFT_DIM_ADD: return weft_dim_add(table, a, b);
    case WEFT_DIM_MULTIPLY: return weft_dim_multiply(table, a, b);
    case WEFT_DIM_FLOOR_DIVIDE: return weft_dim_divide_floor(table, a, b);
    case WEFT_DIM_MODULO: return weft_dim_modulo(table, a, b);
    case WEFT_DIM_MINIMUM: return weft_dim_minimum(table, a, b);
    case WEFT_DIM_MAXIMUM: return weft_dim_maximum(table, a, b);
    case WEFT_DIM_NUMBER:
    case WEFT_DIM_SYMBOL: break;
    }
    return WEFT_DIM_INVALID;
}

weft_dim weft_dim_substitute(weft_dim_table *table, weft_dim dim, const weft_dim *replacement) {
    if (dim >= 0) return dim;
    if (!weft_dim_is_usable(table, dim)) return WEFT_DIM_INVALID;
    weft_dim_node node = weft_dim_get(table, dim);
    if (node.kind == WEFT_DIM_NUMBER) return dim;
    if (node.kind == WEFT_DIM_SYMBOL) return replacement[node.a] == WEFT_DIM_ANY ? dim : replacement[node.a];
    weft_dim a = weft_dim_substitute(table, node.a, replacement), b = weft_dim_substitute(table, node.b, replacement);
    return a == node.a && b == node.b ? dim : construct(table, node.kind, a, b);
}

static weft_dim copy_symbol(const weft_symbol *symbol, weft_dim_table *to) {
    int index = weft_dim_symbol_find(to, symbol->name);
    if (index >= 0) return weft_dim_symbol_value(to, index);
    return weft_dim_symbol(to, symbol->name, symbol->minimum, symbol->maximum, symbol->divisor, symbol->origin);
}

weft_dim weft_dim_copy(const weft_dim_table *from, weft_dim dim, weft_dim_table *to) {
    if (dim >= 0 || from == to || dim == WEFT_DIM_ANY) return dim;
    if (!weft_dim_is_usable(from, dim)) return WEFT_DIM_INVALID;
    weft_dim_node node = weft_dim_get(from, dim);
    if (node.kind == WEFT_DIM_NUMBER) return weft_dim_number(to, node.number);
    if (node.kind == WEFT_DIM_SYMBOL) return copy_symbol(from->symbols[node.a], to);
    weft_dim a = weft_dim_copy(from, node.a, to), b = weft_dim_copy(from, node.b, to);
    return construct(to, node.kind, a, b);
}
