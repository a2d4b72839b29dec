/* Symbolic evaluation of core ops, one element at a time. Only ops that shape arithmetic uses are here; others make
   unknown elements, which is always right. Read before: symbolic.h. */
#include <math.h>
#include <string.h>

#include "base/tensor.h"
#include "frontend/onnx/symbolic.h"

typedef weft_onnx_element element;

static element unknown(void) { return (element){.kind = WEFT_ONNX_UNKNOWN}; }
static element extent_of(weft_dim extent) {
    return extent == WEFT_DIM_INVALID ? unknown() : (element){.kind = WEFT_ONNX_EXTENT, .extent = extent};
}
static element number_of(double number) { return (element){.kind = WEFT_ONNX_NUMBER, .number = number}; }

/* A float from an extent and a factor; a plain number when the extent is one. */
static element ratio_of(weft_graph *g, weft_dim extent, int64_t numerator, int64_t denominator) {
    int64_t number;
    if (extent == WEFT_DIM_INVALID) return unknown();
    if (weft_onnx_dim_number(g, extent, &number))
        return number_of((double)number * (double)numerator / (double)denominator);
    return (element){.kind = WEFT_ONNX_RATIO, .extent = extent, .numerator = numerator, .denominator = denominator};
}

/* The fraction of a float with a small denominator that is a power of two, or whose inverse is an integer. */
static bool fraction_of(double number, int64_t *numerator, int64_t *denominator) {
    if (!(number > 0) || number > 1e6) return false;
    for (int64_t power = 1; power <= 4096; power *= 2)
        if (number * (double)power == floor(number * (double)power)) {
            *numerator = (int64_t)(number * (double)power), *denominator = power;
            return true;
        }
    return false;
}

static bool is_integer_type(weft_dtype dtype) { return weft_dtype_is_integer(dtype) || dtype == WEFT_BOOL; }

/* -- one operand */

static element convert_element(weft_graph *g, element x, weft_dtype from, weft_dtype to) {
    bool integer = is_integer_type(to);
    int64_t number;
    switch (x.kind) {
    case WEFT_ONNX_UNKNOWN: return x;
    case WEFT_ONNX_EXTENT:
        if (to == WEFT_BOOL && from != WEFT_BOOL)
            return weft_onnx_dim_number(g, x.extent, &number) ? extent_of(number != 0) : unknown();
        return integer ? x : ratio_of(g, x.extent, 1, 1);
    case WEFT_ONNX_RATIO: {
        if (!integer) return x;
        int64_t low, high;
        weft_dim scaled = weft_dim_multiply(g->dims, x.extent, weft_dim_number(g->dims, x.numerator));
        weft_dim_bounds(g->dims, scaled, &low, &high);
        /* truncation is the floor for what is not negative */
        return low >= 0 && to != WEFT_BOOL ? extent_of(weft_dim_divide_floor(g->dims, scaled, x.denominator))
                                           : unknown();
    }
    case WEFT_ONNX_NUMBER:
        if (!integer) {
            if (!weft_dtype_is_float(to) || weft_dtype_bits(to) < 16) return unknown();
            char bits[8];
            weft_element_set_double(to, bits, 0, x.number);
            return number_of(weft_element_double(to, bits, 0));
        }
        if (!(fabs(x.number) < 9e15)) return unknown();
        return extent_of(to == WEFT_BOOL ? x.number != 0 : weft_dim_number(g->dims, (int64_t)x.number));
    }
    return unknown();
}

static element round_ratio(weft_graph *g, element x, bool up) {
    weft_dim scaled = weft_dim_multiply(g->dims, x.extent, weft_dim_number(g->dims, x.numerator));
    weft_dim quotient = up ? weft_dim_divide_ceil(g->dims, scaled, x.denominator)
                           : weft_dim_divide_floor(g->dims, scaled, x.denominator);
    return ratio_of(g, quotient, 1, 1);
}

static element unary_element(weft_graph *g, weft_op op, element x, weft_dtype dtype) {
    int64_t number, low, high;
    if (x.kind == WEFT_ONNX_UNKNOWN) return x;
    if (op == WEFT_OP_floor || op == WEFT_OP_ceil) {
        if (x.kind == WEFT_ONNX_NUMBER) return number_of(op == WEFT_OP_ceil ? ceil(x.number) : floor(x.number));
        return x.kind == WEFT_ONNX_RATIO ? round_ratio(g, x, op == WEFT_OP_ceil) : x;
    }
    if (op == WEFT_OP_neg) {
        if (x.kind == WEFT_ONNX_NUMBER) return number_of(-x.number);
        return x.kind == WEFT_ONNX_EXTENT ? extent_of(weft_dim_subtract(g->dims, 0, x.extent)) : unknown();
    }
    if (op == WEFT_OP_abs && x.kind == WEFT_ONNX_EXTENT) {
        weft_dim_bounds(g->dims, x.extent, &low, &high);
        return low >= 0 ? x : high <= 0 ? extent_of(weft_dim_subtract(g->dims, 0, x.extent)) : unknown();
    }
    if (op == WEFT_OP_not && dtype == WEFT_BOOL && weft_onnx_dim_number(g, x.extent, &number))
        return extent_of(number == 0);
    if (x.kind == WEFT_ONNX_NUMBER && op == WEFT_OP_sqrt)
        return dtype == WEFT_F32 ? number_of((double)sqrtf((float)x.number)) : unknown();
    return unknown();
}

/* -- two operands */

static element integer_binary(weft_graph *g, weft_op op, weft_dim a, weft_dim b) {
    int64_t x, y, low_a, low_b, high;
    bool number = weft_onnx_dim_number(g, a, &x), numbers = weft_onnx_dim_number(g, b, &y) && number;
    weft_dim_bounds(g->dims, a, &low_a, &high);
    weft_dim_bounds(g->dims, b, &low_b, &high);
    bool floor_division = low_a >= 0 && low_b > 0;
    switch ((int)op) {
    case WEFT_OP_add: return extent_of(weft_dim_add(g->dims, a, b));
    case WEFT_OP_sub: return extent_of(weft_dim_subtract(g->dims, a, b));
    case WEFT_OP_mul: return extent_of(weft_dim_multiply(g->dims, a, b));
    case WEFT_OP_max: return extent_of(weft_dim_maximum(g->dims, a, b));
    case WEFT_OP_min: return extent_of(weft_dim_minimum(g->dims, a, b));
    case WEFT_OP_div:
        if (numbers && y != 0 && !(x == INT64_MIN && y == -1)) return extent_of(weft_dim_number(g->dims, x / y));
        if (floor_division) return extent_of(weft_dim_divide_floor(g->dims, a, b));
        weft_dim exact;
        if (weft_dim_divide_exact(g->dims, a, b, &exact)) return extent_of(exact);
        return unknown();
    case WEFT_OP_rem:
        if (numbers && y != 0 && y != -1) return extent_of(weft_dim_number(g->dims, x % y));
        return floor_division ? extent_of(weft_dim_modulo(g->dims, a, b)) : unknown();
    case WEFT_OP_and: return numbers ? extent_of(weft_dim_number(g->dims, x & y)) : unknown();
    case WEFT_OP_or: return numbers ? extent_of(weft_dim_number(g->dims, x | y)) : unknown();
    case WEFT_OP_xor: return numbers ? extent_of(weft_dim_number(g->dims, x ^ y)) : unknown();
    case WEFT_OP_pow:
        if (!numbers || y < 0 || y > 8) return unknown();
        weft_dim power = 1;
        for (int64_t i = 0; i < y; i++) power = weft_dim_multiply(g->dims, power, a);
        return extent_of(power);
    default: return unknown();
    }
}

static double round_to(weft_dtype dtype, double value) { return dtype == WEFT_F32 ? (double)(float)value : value; }

static element float_binary(weft_graph *g, weft_op op, element a, element b, weft_dtype dtype) {
    if (dtype != WEFT_F32 && dtype != WEFT_F64) return unknown();
    if (a.kind == WEFT_ONNX_NUMBER && b.kind == WEFT_ONNX_NUMBER) {
        double x = a.number, y = b.number;
        switch ((int)op) {
        case WEFT_OP_add: return number_of(round_to(dtype, x + y));
        case WEFT_OP_sub: return number_of(round_to(dtype, x - y));
        case WEFT_OP_mul: return number_of(round_to(dtype, x * y));
        case WEFT_OP_div: return number_of(round_to(dtype, x / y));
        case WEFT_OP_max: return number_of(x > y ? x : y);
        case WEFT_OP_min: return number_of(x < y ? x : y);
        default: return unknown();
        }
    }
    int64_t p, q;
    if (op == WEFT_OP_mul && a.kind == WEFT_ONNX_NUMBER) {
        element swap = a;
        a = b, b = swap;
    }
    bool scales = (op == WEFT_OP_mul || op == WEFT_OP_div) && a.kind == WEFT_ONNX_RATIO && b.kind == WEFT_ONNX_NUMBER;
    if (scales && fraction_of(b.number, &p, &q) && a.numerator < (1 << 20) && a.denominator < (1 << 20)) {
        if (op == WEFT_OP_mul) return ratio_of(g, a.extent, a.numerator * p, a.denominator * q);
        return ratio_of(g, a.extent, a.numerator * q, a.denominator * p);
    }
    /* a ratio of two extents that divide exactly */
    if (op == WEFT_OP_div && a.kind == WEFT_ONNX_RATIO && b.kind == WEFT_ONNX_RATIO) {
        weft_dim exact;
        if (weft_dim_divide_exact(g->dims, a.extent, b.extent, &exact) && a.numerator == a.denominator &&
            b.numerator == b.denominator)
            return ratio_of(g, exact, 1, 1);
    }
    return unknown();
}

static element binary_element(weft_graph *g, weft_op op, element a, element b, weft_dtype dtype) {
    if (a.kind == WEFT_ONNX_UNKNOWN || b.kind == WEFT_ONNX_UNKNOWN) return unknown();
    if (a.kind == WEFT_ONNX_EXTENT && b.kind == WEFT_ONNX_EXTENT) return integer_binary(g, op, a.extent, b.extent);
    return float_binary(g, op, a, b, dtype);
}

static bool holds(const char *direction, int order) {
    if (strcmp(direction, "eq") == 0) return order == 0;
    if (strcmp(direction, "ne") == 0) return order != 0;
    if (strcmp(direction, "lt") == 0) return order < 0;
    if (strcmp(direction, "le") == 0) return order <= 0;
    return strcmp(direction, "gt") == 0 ? order > 0 : order >= 0;
}

static element compare_element(weft_graph *g, const char *direction, element a, element b) {
    if (a.kind == WEFT_ONNX_NUMBER && b.kind == WEFT_ONNX_NUMBER) {
        if (isnan(a.number) || isnan(b.number)) return extent_of(strcmp(direction, "ne") == 0);
        return extent_of(holds(direction, (a.number > b.number) - (a.number < b.number)));
    }
    if (a.kind != WEFT_ONNX_EXTENT || b.kind != WEFT_ONNX_EXTENT) return unknown();
    int64_t low, high;
    weft_dim_bounds(g->dims, weft_dim_subtract(g->dims, a.extent, b.extent), &low, &high);
    bool when_low = holds(direction, (low > 0) - (low < 0)), when_high = holds(direction, (high > 0) - (high < 0));
    if (low == high) return extent_of(when_low);
    bool equality = strcmp(direction, "eq") == 0 || strcmp(direction, "ne") == 0;
    /* the order of the bounds decides when zero is not strictly between them; equality needs zero outside */
    if (equality) return low > 0 || high < 0 ? extent_of(when_low) : unknown();
    return when_low == when_high ? extent_of(when_low) : unknown();
}

static element reduce_elements(weft_graph *g, const char *kind, element a, element b, weft_dtype dtype) {
    if (strcmp(kind, "sum") == 0) return binary_element(g, WEFT_OP_add, a, b, dtype);
    if (strcmp(kind, "product") == 0) return binary_element(g, WEFT_OP_mul, a, b, dtype);
    if (strcmp(kind, "max") == 0) return binary_element(g, WEFT_OP_max, a, b, dtype);
    if (strcmp(kind, "min") == 0) return binary_element(g, WEFT_OP_min, a, b, dtype);
    return unknown();
}

/* -- whole values */

typedef struct evaluation {
    weft_onnx_import_state *import;
    weft_graph *graph;
    const weft_node *node;
    const weft_value *value;
    const weft_onnx_symbolic *operands[4];
    weft_onnx_symbolic *out;
} evaluation;

/* Row-major position -> address, and back for another shape. */
static void address_of(const weft_type *type, int position, int64_t *address) {
    for (int i = type->rank - 1; i >= 0; i--) {
        address[i] = position % type->dims[i];
        position /= (int)type->dims[i];
    }
}
static int position_of(const weft_type *type, const int64_t *address) {
    int64_t position = 0;
    for (int i = 0; i < type->rank; i++) position = position * type->dims[i] + address[i];
    return (int)position;
}

static bool number_dims(const weft_dim *dims, int count) {
    for (int i = 0; i < count; i++)
        if (!weft_dim_is_number(dims[i])) return false;
    return true;
}

/* Where element `position` of a movement op comes from; -1 = unknown. */
static int source_position(const evaluation *e, int position) {
    const weft_node *node = e->node;
    const weft_type *from = weft_operand_type(node, 0);
    int64_t to[WEFT_MAX_RANK] = {0}, at[WEFT_MAX_RANK] = {0};
    address_of(&e->value->type, position, to);
    switch ((int)node->op) {
    case WEFT_OP_reshape: return position;
    case WEFT_OP_transpose:
        for (int i = 0; i < from->rank; i++) at[weft_node_attribute(node, WEFT_ATTR_permutation)->as.ints[i]] = to[i];
        return position_of(from, at);
    case WEFT_OP_broadcast:
        for (int i = 0; i < from->rank; i++)
            at[i] = from->dims[i] == 1 ? 0 : to[weft_node_attribute(node, WEFT_ATTR_axes)->as.ints[i]];
        return position_of(from, at);
    case WEFT_OP_slice: {
        const weft_dim *start = weft_node_attribute(node, WEFT_ATTR_start)->as.dims;
        const int64_t *stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints;
        if (!number_dims(start, from->rank)) return -1;
        for (int i = 0; i < from->rank; i++) at[i] = start[i] + to[i] * stride[i];
        return position_of(from, at);
    }
    case WEFT_OP_reverse: {
        const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
        for (int i = 0; i < from->rank; i++) at[i] = to[i];
        for (int i = 0; i < axes->count; i++)
            at[axes->as.ints[i]] = from->dims[axes->as.ints[i]] - 1 - to[axes->as.ints[i]];
        return position_of(from, at);
    }
    default: return -1;
    }
}

static void evaluate_movement(evaluation *e) {
    for (int i = 0; i < e->out->count; i++) {
        int from = source_position(e, i);
        if (from >= 0 && e->operands[0] && from < e->operands[0]->count)
            e->out->elements[i] = e->operands[0]->elements[from];
    }
}

static void evaluate_concat(evaluation *e) {
    int axis = (int)weft_node_int(e->node, WEFT_ATTR_axis, 0);
    int64_t offset = 0;
    for (int k = 0; k < e->node->operand_count; k++) {
        const weft_type *type = weft_operand_type(e->node, k);
        const weft_onnx_symbolic *part = weft_onnx_symbolic_of(e->import, e->node->operands[k]);
        if (!number_dims(type->dims, type->rank)) return;
        for (int i = 0; part && i < part->count; i++) {
            int64_t address[WEFT_MAX_RANK] = {0};
            address_of(type, i, address);
            address[axis] += offset;
            e->out->elements[position_of(&e->value->type, address)] = part->elements[i];
        }
        offset += type->dims[axis];
    }
}

/* Rows picked from axis 0, as ONNX Gather makes them: one index component that addresses a collapsed axis 0. */
static void evaluate_gather(evaluation *e) {
    const weft_onnx_symbolic *x = e->operands[0], *index = e->operands[1];
    const weft_attribute *map = weft_node_attribute(e->node, WEFT_ATTR_index_map),
                         *collapsed = weft_node_attribute(e->node, WEFT_ATTR_collapsed_axes);
    const weft_type *type = weft_operand_type(e->node, 0), *index_type = weft_operand_type(e->node, 1);
    if (!x || !index || type->rank != 1 || map->count != 1 || collapsed->count != 1) return;
    if (weft_node_int(e->node, WEFT_ATTR_index_axis, 0) != index_type->rank - 1 ||
        index_type->dims[index_type->rank - 1] != 1)
        return;
    for (int i = 0; i < e->out->count && i < index->count; i++) {
        int64_t at;
        if (index->elements[i].kind != WEFT_ONNX_EXTENT ||
            !weft_onnx_dim_number(e->graph, index->elements[i].extent, &at))
            continue;
        if (at < 0) at = 0;
        if (at >= x->count) at = x->count - 1;
        if (at >= 0) e->out->elements[i] = x->elements[at];
    }
}

static void evaluate_reduce(evaluation *e) {
    const weft_type *from = weft_operand_type(e->node, 0);
    const weft_attribute *axes = weft_node_attribute(e->node, WEFT_ATTR_axes);
    const char *kind = weft_node_string(e->node, WEFT_ATTR_kind, "");
    if (!e->operands[0] || e->operands[0]->count == 0) {
        for (int i = 0; i < e->out->count && e->operands[0] && is_integer_type(e->value->type.dtype); i++)
            if (strcmp(kind, "sum") == 0 || strcmp(kind, "product") == 0)
                e->out->elements[i] = extent_of(kind[0] == 'p');
        return;
    }
    bool dropped[WEFT_MAX_RANK] = {false},
         *seen = weft_onnx_allocate(e->import, (size_t)e->out->count + 1, sizeof *seen);
    if (!seen) return;
    for (int i = 0; i < axes->count; i++) dropped[axes->as.ints[i]] = true;
    for (int i = 0; i < e->operands[0]->count; i++) {
        int64_t address[WEFT_MAX_RANK], kept[WEFT_MAX_RANK] = {0};
        address_of(from, i, address);
        int rank = 0;
        for (int k = 0; k < from->rank; k++)
            if (!dropped[k]) kept[rank++] = address[k];
        int to = position_of(&e->value->type, kept);
        element next = e->operands[0]->elements[i];
        e->out->elements[to] =
            seen[to] ? reduce_elements(e->graph, kind, e->out->elements[to], next, from->dtype) : next;
        seen[to] = true;
    }
}

static void evaluate_constant(evaluation *e) {
    const weft_tensor *tensor = weft_node_attribute(e->node, WEFT_ATTR_value)->as.tensor;
    weft_dtype dtype = tensor->dtype;
    if (!tensor->packed || weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX || dtype == WEFT_U64) return;
    for (int i = 0; i < e->out->count; i++)
        e->out->elements[i] = is_integer_type(dtype)
                                  ? extent_of(weft_dim_number(e->graph->dims, weft_element_i64(dtype, tensor->data, i)))
                                  : number_of(weft_element_double(dtype, tensor->data, i));
}

static void evaluate_iota(evaluation *e) {
    int axis = (int)weft_node_int(e->node, WEFT_ATTR_axis, 0);
    for (int i = 0; i < e->out->count; i++) {
        int64_t address[WEFT_MAX_RANK] = {0};
        address_of(&e->value->type, i, address);
        e->out->elements[i] =
            is_integer_type(e->value->type.dtype) ? extent_of(address[axis]) : number_of((double)address[axis]);
    }
}

static void evaluate_elementwise(evaluation *e) {
    const weft_onnx_symbolic *const *in = e->operands;
    const weft_node *node = e->node;
    weft_dtype dtype = node->operand_count ? weft_operand_type(node, 0)->dtype : WEFT_INVALID;
    for (int i = 0; i < e->out->count; i++) {
        element *out = &e->out->elements[i];
        element a = in[0] ? in[0]->elements[i] : unknown(), b = in[1] ? in[1]->elements[i] : unknown();
        int64_t chosen;
        if (node->op == WEFT_OP_convert)
            *out = convert_element(e->graph, a, dtype, e->value->type.dtype);
        else if (node->op == WEFT_OP_compare)
            *out = compare_element(e->graph, weft_node_string(node, WEFT_ATTR_direction, ""), a, b);
        else if (node->op == WEFT_OP_select) {
            if (a.kind == WEFT_ONNX_EXTENT && weft_onnx_dim_number(e->graph, a.extent, &chosen))
                *out = chosen ? b : in[2] ? in[2]->elements[i] : unknown();
        } else if (node->operand_count == 1)
            *out = unary_element(e->graph, node->op, a, dtype);
        else if (node->operand_count == 2)
            *out = binary_element(e->graph, node->op, a, b, dtype);
    }
}

static void evaluate_node(evaluation *e) {
    switch ((int)e->node->op) {
    case WEFT_OP_constant: evaluate_constant(e); break;
    case WEFT_OP_dim:
        e->out->elements[0] = extent_of(weft_node_attribute(e->node, WEFT_ATTR_extent)->as.dims[0]);
        break;
    case WEFT_OP_iota: evaluate_iota(e); break;
    case WEFT_OP_reshape:
    case WEFT_OP_transpose:
    case WEFT_OP_broadcast:
    case WEFT_OP_slice:
    case WEFT_OP_reverse: evaluate_movement(e); break;
    case WEFT_OP_concat: evaluate_concat(e); break;
    case WEFT_OP_gather: evaluate_gather(e); break;
    case WEFT_OP_reduce: evaluate_reduce(e); break;
    default:
        if (weft_op_get(e->node->op)->flags & WEFT_FLAG_ELEMENTWISE) evaluate_elementwise(e);
    }
}

/* What constants alone decide but no case here knows. */
static void fill_folded(evaluation *e) {
    for (int i = 0; i < e->out->count; i++)
        if (e->out->elements[i].kind != WEFT_ONNX_UNKNOWN) return;
    weft_tensor *tensor = weft_onnx_fold_constant(e->import, (weft_value *)(uintptr_t)e->value);
    weft_dtype dtype = tensor ? tensor->dtype : WEFT_INVALID;
    if (!tensor || dtype == WEFT_U64 || !(is_integer_type(dtype) || weft_dtype_is_float(dtype))) return;
    for (int i = 0; i < e->out->count; i++)
        e->out->elements[i] = is_integer_type(dtype)
                                  ? extent_of(weft_dim_number(e->graph->dims, weft_element_i64(dtype, tensor->data, i)))
                                  : number_of(weft_element_double(dtype, tensor->data, i));
}

const weft_onnx_symbolic *weft_onnx_symbolic_of(weft_onnx_import_state *import, weft_value *value) {
    const weft_onnx_symbolic *known = weft_map_find(&import->symbolic, &value, sizeof value);
    if (known) return known;
    if (weft_value_is_poison(value) || !value->node || import->evaluation_depth > 1000) return NULL;
    int64_t count = 1;
    for (int i = 0; i < value->type.rank; i++) {
        if (!weft_dim_is_number(value->type.dims[i])) return NULL;
        if (value->type.dims[i] > 0 && count > WEFT_ONNX_SYMBOLIC_MAX / value->type.dims[i]) return NULL;
        count *= value->type.dims[i];
    }
    weft_onnx_symbolic *out = weft_onnx_allocate(import, 1, sizeof *out + (size_t)count * sizeof *out->elements);
    if (!out) return NULL;
    out->count = (int)count;
    evaluation e = {.import = import, .graph = import->graph, .node = value->node, .value = value, .out = out};
    import->evaluation_depth++;
    for (int i = 0; i < value->node->operand_count && i < 4; i++)
        e.operands[i] = weft_onnx_symbolic_of(import, value->node->operands[i]);
    evaluate_node(&e);
    fill_folded(&e);
    import->evaluation_depth--;
    if (!weft_map_put(&import->symbolic, &value, sizeof value, out)) import->graph->out_of_memory = true;
    return out;
}

weft_tensor *weft_onnx_symbolic_tensor(weft_onnx_import_state *import, const weft_value *value,
                                       const weft_onnx_symbolic *symbolic) {
    weft_dtype dtype = value->type.dtype;
    int64_t number, shape[WEFT_MAX_RANK];
    if (!is_integer_type(dtype) && !weft_dtype_is_float(dtype)) return NULL;
    for (int i = 0; i < symbolic->count; i++) {
        const element *x = &symbolic->elements[i];
        bool known = x->kind == WEFT_ONNX_NUMBER ||
                     (x->kind == WEFT_ONNX_EXTENT && weft_onnx_dim_number(import->graph, x->extent, &number));
        if (!known) return NULL;
    }
    for (int i = 0; i < value->type.rank; i++) shape[i] = value->type.dims[i];
    weft_tensor *tensor;
    weft_status status = weft_tensor_create(import->context, dtype, value->type.rank, shape, &tensor);
    if (status) {
        weft_status_release(status);
        return NULL;
    }
    for (int i = 0; i < symbolic->count; i++) {
        const element *x = &symbolic->elements[i];
        if (x->kind == WEFT_ONNX_NUMBER)
            weft_element_set_double(dtype, tensor->data, i, x->number);
        else if (weft_onnx_dim_number(import->graph, x->extent, &number))
            weft_element_set_i64(dtype, tensor->data, i, number);
    }
    return tensor;
}
