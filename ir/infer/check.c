/* The checks of check.h. Read next: elementwise.c, the simplest family. */
#include "ir/infer/check.h"

#include <stdio.h>
#include <string.h>

bool weft_infer_fail(weft_infer *infer, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weft_graph_problem(infer->graph, "%s: %s", weft_op_get(infer->node->op)->name, text);
    return false;
}

static const char *arena_text(weft_infer *infer, weft_text *text) {
    const char *copy = weft_graph_copy_string(infer->graph, weft_text_string(text));
    weft_text_deinit(text);
    return copy ? copy : "?";
}

const char *weft_infer_type_text(weft_infer *infer, const weft_type *type) {
    weft_text text;
    weft_text_init(infer->graph->context->allocator, &text);
    weft_type_print(infer->graph, type, &text);
    return arena_text(infer, &text);
}

const char *weft_infer_dim_text(weft_infer *infer, weft_dim dim) {
    weft_text text;
    weft_text_init(infer->graph->context->allocator, &text);
    if (dim == WEFT_DIM_INVALID)
        weft_text_append(&text, "invalid");
    else
        weft_dim_print(infer->graph->dims, dim, &text);
    return arena_text(infer, &text);
}

bool weft_infer_emit(weft_infer *infer, weft_dtype dtype, int rank, const weft_dim *dims) {
    if (rank > WEFT_MAX_RANK) return weft_infer_fail(infer, "the result has rank %d, at most %d", rank, WEFT_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (dims[i] == WEFT_DIM_INVALID || dims[i] == WEFT_DIM_ANY)
            return weft_infer_fail(infer, "extent of result axis %d overflows", i);
        if (weft_dim_is_number(dims[i])) continue;
        int64_t minimum, maximum;
        weft_dim_bounds(infer->graph->dims, dims[i], &minimum, &maximum);
        if (maximum < 0)
            return weft_infer_fail(infer, "extent of result axis %d is negative: %s", i,
                                   weft_infer_dim_text(infer, dims[i]));
    }
    if (infer->result_count >= infer->result_capacity) return weft_infer_fail(infer, "too many results");
    weft_type type = weft_type_make(infer->graph, dtype, rank, dims);
    if (type.dtype == WEFT_INVALID) return false;
    infer->results[infer->result_count++] = type;
    return true;
}

bool weft_infer_emit_type(weft_infer *infer, const weft_type *type) {
    return weft_infer_emit(infer, type->dtype, type->rank, type->dims);
}

bool weft_dtype_allowed(weft_dtype dtype, int allowed) {
    switch (weft_dtype_kind_of(dtype)) {
    case WEFT_KIND_BOOL: return allowed & WEFT_ALLOW_BOOL;
    case WEFT_KIND_SIGNED:
    case WEFT_KIND_UNSIGNED: return allowed & WEFT_ALLOW_INTEGER;
    case WEFT_KIND_FLOAT: return allowed & WEFT_ALLOW_FLOAT;
    case WEFT_KIND_COMPLEX: return allowed & WEFT_ALLOW_COMPLEX;
    case WEFT_KIND_NONE:
    case WEFT_KIND_STRING: return false;
    }
    return false;
}

bool weft_infer_dtype(weft_infer *infer, int operand, int allowed) {
    weft_dtype dtype = weft_infer_operand(infer, operand)->dtype;
    if (weft_dtype_allowed(dtype, allowed)) return true;
    char wanted[64] = "";
    const char *names[] = {" bool", " integer", " float", " complex"};
    for (int i = 0; i < 4; i++)
        if (allowed & (1 << i)) strcat(wanted, names[i]);
    return weft_infer_fail(infer, "operand %d is %s; it takes:%s", operand, weft_dtype_name(dtype), wanted);
}

bool weft_infer_rank(weft_infer *infer, int operand, int minimum, int maximum) {
    int rank = weft_infer_operand(infer, operand)->rank;
    if (rank >= minimum && rank <= maximum) return true;
    const char *type = weft_infer_type_text(infer, weft_infer_operand(infer, operand));
    if (minimum == maximum) return weft_infer_fail(infer, "operand %d is %s, it needs rank %d", operand, type, minimum);
    return weft_infer_fail(infer, "operand %d is %s, it needs rank %d to %d", operand, type, minimum, maximum);
}

bool weft_infer_shapes_equal(weft_infer *infer, const weft_type *a, const weft_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!weft_graph_assume_equal(infer->graph, a->dims[i], b->dims[i])) return false;
    return true;
}

bool weft_infer_same_shape(weft_infer *infer, int a, int b) {
    const weft_type *x = weft_infer_operand(infer, a), *y = weft_infer_operand(infer, b);
    if (weft_infer_shapes_equal(infer, x, y)) return true;
    return weft_infer_fail(infer, "operand %d is %s, operand %d is %s; the shapes must be equal", a,
                           weft_infer_type_text(infer, x), b, weft_infer_type_text(infer, y));
}

bool weft_infer_same_type(weft_infer *infer, int a, int b) {
    const weft_type *x = weft_infer_operand(infer, a), *y = weft_infer_operand(infer, b);
    if (x->dtype == y->dtype && weft_infer_shapes_equal(infer, x, y)) return true;
    return weft_infer_fail(infer, "operand %d is %s, operand %d is %s; the types must be equal", a,
                           weft_infer_type_text(infer, x), b, weft_infer_type_text(infer, y));
}

bool weft_infer_axis(weft_infer *infer, weft_attribute_name name, int rank, int *out_axis) {
    int64_t axis = weft_infer_attribute(infer, name)->as.integer;
    if (axis < 0 || axis >= rank)
        return weft_infer_fail(infer, "%s %lld, the rank is %d", weft_attribute_string(name), (long long)axis, rank);
    *out_axis = (int)axis;
    return true;
}

bool weft_infer_axes(weft_infer *infer, weft_attribute_name name, int rank, bool ordered) {
    const weft_attribute *axes = weft_infer_attribute(infer, name);
    unsigned seen = 0;
    for (int i = 0; i < axes->count; i++) {
        int64_t axis = axes->as.ints[i];
        if (axis < 0 || axis >= rank)
            return weft_infer_fail(infer, "%s[%d] is %lld, the rank is %d", weft_attribute_string(name), i,
                                   (long long)axis, rank);
        if (seen & (1u << axis))
            return weft_infer_fail(infer, "%s names axis %lld twice", weft_attribute_string(name), (long long)axis);
        if (ordered && i > 0 && axis < axes->as.ints[i - 1])
            return weft_infer_fail(infer, "%s is not increasing", weft_attribute_string(name));
        seen |= 1u << axis;
    }
    return true;
}

bool weft_infer_count(weft_infer *infer, weft_attribute_name name, int count) {
    int have = weft_infer_attribute(infer, name)->count;
    if (have == count) return true;
    return weft_infer_fail(infer, "%s has %d entries, it needs %d", weft_attribute_string(name), have, count);
}

bool weft_infer_ints(weft_infer *infer, weft_attribute_name name, int count, int64_t minimum) {
    if (!weft_infer_count(infer, name, count)) return false;
    const int64_t *values = weft_infer_attribute(infer, name)->as.ints;
    for (int i = 0; i < count; i++)
        if (values[i] < minimum || values[i] > INT32_MAX)
            return weft_infer_fail(infer, "%s[%d] is %lld; it must be at least %lld and below 2^31",
                                   weft_attribute_string(name), i, (long long)values[i], (long long)minimum);
    return true;
}

bool weft_infer_flag(weft_infer *infer, weft_attribute_name name) {
    int64_t value = weft_infer_attribute(infer, name)->as.integer;
    if (value == 0 || value == 1) return true;
    return weft_infer_fail(infer, "%s is %lld; it must be 0 or 1", weft_attribute_string(name), (long long)value);
}

bool weft_infer_word(weft_infer *infer, weft_attribute_name name, const char *words) {
    const char *value = weft_infer_attribute(infer, name)->as.string;
    size_t length = strlen(value);
    for (const char *at = words; *at;) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, value, length) == 0) return true;
        at += word;
        at += strspn(at, " ");
    }
    return weft_infer_fail(infer, "%s is \"%.40s\"; it must be one of: %s", weft_attribute_string(name), value, words);
}

bool weft_infer_reduction(weft_infer *infer, weft_dtype dtype) {
    if (!weft_infer_word(infer, WEFT_ATTR_kind, "sum product max min and or")) return false;
    const char *kind = weft_infer_attribute(infer, WEFT_ATTR_kind)->as.string;
    int allowed = WEFT_ALLOW_NUMBER | WEFT_ALLOW_COMPLEX;
    if (kind[0] == 'm') allowed = WEFT_ALLOW_NUMBER;
    if (strcmp(kind, "and") == 0 || strcmp(kind, "or") == 0) allowed = WEFT_ALLOW_BOOL | WEFT_ALLOW_INTEGER;
    if (weft_dtype_allowed(dtype, allowed)) return true;
    return weft_infer_fail(infer, "%s of %s is not defined", kind, weft_dtype_name(dtype));
}

bool weft_infer_regions(weft_infer *infer, int count) {
    const weft_node *node = infer->node;
    if (node->region_count != count)
        return weft_infer_fail(infer, "%d regions, it needs %d", node->region_count, count);
    for (int i = 0; i < count; i++) {
        const weft_node *last = node->regions[i]->block->last;
        if (!last || last->op != WEFT_OP_yield) return weft_infer_fail(infer, "region %d does not end in yield", i);
    }
    return true;
}

weft_dim weft_window_extent(weft_graph *graph, const weft_window_axis *axis) {
    weft_dim_table *dims = graph->dims;
    weft_dim one = 1;
    weft_dim extent = axis->extent;
    if (axis->base_dilation != 1 && extent != 0)
        extent =
            weft_dim_add(dims, weft_dim_multiply(dims, weft_dim_subtract(dims, extent, one), axis->base_dilation), one);
    weft_dim padded = weft_dim_add(dims, weft_dim_add(dims, extent, axis->low), axis->high);
    int64_t reach = (axis->window - 1) * axis->dilation + 1;
    weft_dim room = weft_dim_subtract(dims, padded, reach);
    weft_dim count = weft_dim_add(dims, weft_dim_divide_floor(dims, room, axis->stride), one);
    int64_t minimum, maximum;
    if (count == WEFT_DIM_INVALID) return count;
    weft_dim_bounds(dims, count, &minimum, &maximum);
    return minimum < 0 ? weft_dim_maximum(dims, count, 0) : count;
}
