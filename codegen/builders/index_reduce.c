/* Reductions as loops in place: the value of reduce, arg_reduce and reduce_window at one index of the result, lanes
   along the kept axes. Sums run in the carrier in index order and round to the dtype once, at the end. Row kernels with
   lanes along the reduced axis: reduce.c. Read next: pointwise.c. */
#include <string.h>

#include "codegen/builders/index_internal.h"
#include "codegen/builders/plan.h"

static weft_op combiner(const char *kind, weft_dtype dtype) {
    bool predicate = dtype == WEFT_BOOL;
    if (!strcmp(kind, "sum")) return predicate ? WEFT_OP_or : WEFT_OP_add;
    if (!strcmp(kind, "product")) return predicate ? WEFT_OP_and : WEFT_OP_mul;
    if (!strcmp(kind, "max")) return predicate ? WEFT_OP_or : WEFT_OP_max;
    if (!strcmp(kind, "min")) return predicate ? WEFT_OP_and : WEFT_OP_min;
    return !strcmp(kind, "and") ? WEFT_OP_and : WEFT_OP_or;
}

/* The dtype whose arithmetic the accumulator has: no rounding below the carrier until the end. */
static weft_dtype accumulator(weft_dtype dtype) { return weft_index_carrier(dtype); }

weft_kval weft_index_combine(weft_index_context *c, const char *kind, weft_dtype dtype, weft_kval a, weft_kval b) {
    return weft_index_binary(c, combiner(kind, dtype), accumulator(dtype), a, b);
}

static bool has_infinity(weft_dtype dtype) {
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_F16 || dtype == WEFT_BF16 || dtype == WEFT_F8E5M2;
}

weft_kval weft_index_identity(weft_index_context *c, const char *kind, weft_dtype dtype, int lanes) {
    weft_kernel *k = c->kernel;
    weft_dtype carrier = weft_index_carrier(dtype);
    weft_op op = combiner(kind, dtype);
    bool is_float = weft_dtype_is_float(carrier);
    int bits = weft_dtype_bits(dtype);
    weft_kval result;
    if (op == WEFT_OP_mul) {
        result = is_float ? weft_k_float(k, carrier, 1) : weft_k_integer(k, carrier, 1);
    } else if (op == WEFT_OP_and) {
        result = weft_k_integer(k, carrier, carrier == WEFT_BOOL ? 1 : -1);
    } else if (op != WEFT_OP_max && op != WEFT_OP_min) {
        result = weft_index_zero(c, carrier);
    } else if (is_float) {
        double limit = (double)__builtin_inff();
        if (!has_infinity(dtype)) weft_index_float_limit(dtype, &limit);
        double lowest = dtype == WEFT_F8E8M0FNU ? 0x1p-127 : -limit; /* it has no sign */
        result = weft_k_float(k, carrier, op == WEFT_OP_max ? lowest : limit);
    } else {
        bool is_signed = weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED;
        uint64_t ones = ~(uint64_t)0 >> (64 - bits), top = (uint64_t)1 << (bits - 1);
        int64_t lowest = is_signed ? -(int64_t)(top - 1) - 1 : 0, highest = (int64_t)(is_signed ? top - 1 : ones);
        result = weft_k_integer(k, carrier, op == WEFT_OP_max ? lowest : highest);
    }
    return weft_k_splat(k, result, lanes);
}

/* Halves, then halves of halves: the order of weft_k_reduce, with NaN kept by max and min. */
weft_kval weft_index_combine_lanes(weft_index_context *c, const char *kind, weft_dtype dtype, weft_kval vector) {
    weft_kernel *k = c->kernel;
    weft_op op = combiner(kind, dtype);
    weft_ktype type = weft_ktype_of(k, vector);
    if (type.lanes == 1) return vector;
    weft_kop reduce = op == WEFT_OP_add   ? WEFT_K_reduce_add
                      : op == WEFT_OP_mul ? WEFT_K_reduce_mul
                      : op == WEFT_OP_max ? WEFT_K_reduce_max
                      : op == WEFT_OP_min ? WEFT_K_reduce_min
                      : op == WEFT_OP_and ? WEFT_K_reduce_and
                                          : WEFT_K_reduce_or;
    bool extreme = op == WEFT_OP_max || op == WEFT_OP_min;
    if (extreme && weft_dtype_is_float((weft_dtype)type.elem) && !weft_capability_is_cpu(k->capability)) {
        weft_kval parts[16]; /* GPUs: lanes are registers, and keeping NaN is one instruction */
        if (type.lanes <= 16) {
            for (int i = 0; i < type.lanes; i++) parts[i] = weft_k_extract(k, vector, i);
            for (int half = type.lanes / 2; half > 0; half /= 2)
                for (int i = 0; i < half; i++) parts[i] = weft_index_combine(c, kind, dtype, parts[i], parts[i + half]);
            return parts[0];
        }
    }
    weft_kval result = weft_k_reduce(k, reduce, vector);
    if (!extreme || !weft_dtype_is_float((weft_dtype)type.elem)) return result;
    weft_kval any = weft_k_reduce(k, WEFT_K_reduce_or, weft_k_ne(k, vector, vector));
    return weft_k_select(k, any, weft_k_float(k, (weft_dtype)type.elem, (double)__builtin_nanf("")), result);
}

weft_parts weft_index_combine_parts(weft_index_context *c, const char *kind, weft_dtype dtype, weft_parts a,
                                    weft_parts b) {
    if (weft_dtype_kind_of(dtype) != WEFT_KIND_COMPLEX)
        return weft_parts_one(weft_index_combine(c, kind, dtype, a.part[0], b.part[0]));
    weft_kernel *k = c->kernel;
    weft_kval ar = a.part[0], ai = a.part[1], br = b.part[0], bi = b.part[1];
    if (!strcmp(kind, "product"))
        return (weft_parts){{weft_k_sub(k, weft_k_mul(k, ar, br), weft_k_mul(k, ai, bi)),
                             weft_k_add(k, weft_k_mul(k, ar, bi), weft_k_mul(k, ai, br))}};
    return (weft_parts){{weft_k_add(k, ar, br), weft_k_add(k, ai, bi)}};
}

typedef struct accumulators {
    weft_kval variables[2];
} accumulators;

static accumulators start(weft_index_context *c, const char *kind, weft_dtype dtype, int lanes) {
    bool pair = weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX;
    weft_dtype part = pair ? weft_index_carrier(dtype) : dtype;
    accumulators a = {{weft_k_var(c->kernel, weft_index_identity(c, kind, part, lanes)), WEFT_KNONE}};
    if (pair) a.variables[1] = weft_k_var(c->kernel, weft_k_splat(c->kernel, weft_index_zero(c, part), lanes));
    return a;
}

static weft_parts current(weft_index_context *c, const accumulators *a) {
    weft_parts parts = weft_parts_one(weft_k_get(c->kernel, a->variables[0]));
    if (a->variables[1] != WEFT_KNONE) parts.part[1] = weft_k_get(c->kernel, a->variables[1]);
    return parts;
}

static void accumulate(weft_index_context *c, const char *kind, weft_dtype dtype, const accumulators *a,
                       weft_parts value) {
    weft_parts sum = weft_index_combine_parts(c, kind, dtype, current(c, a), value);
    for (int i = 0; i < 2; i++)
        if (a->variables[i] != WEFT_KNONE) weft_k_set(c->kernel, a->variables[i], sum.part[i]);
}

static weft_parts finish(weft_index_context *c, weft_dtype dtype, const accumulators *a) {
    weft_parts parts = current(c, a);
    if (weft_dtype_kind_of(dtype) != WEFT_KIND_COMPLEX) parts.part[0] = weft_index_round(c, dtype, parts.part[0]);
    return parts;
}

weft_parts weft_index_reduce(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_kernel *k = c->kernel;
    const weft_type *x = weft_operand_type(node, 0);
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    const char *kind = weft_node_string(node, WEFT_ATTR_kind, "sum");
    weft_point_axes(c, point);
    weft_point at = weft_point_like(point, x);
    accumulators a = start(c, kind, x->dtype, point->lanes);
    size_t mark = weft_index_mark(c);
    int loops = 0;
    for (int i = 0, kept = 0; i < x->rank; i++) {
        bool reduced = false;
        for (int j = 0; j < axes->count; j++) reduced |= axes->as.ints[j] == i;
        if (!reduced) {
            at.axis[i] = point->axis[kept++];
            continue;
        }
        at.axis[i] =
            weft_lane_scalar(weft_k_for(k, weft_k_index(k, 0), weft_ix_extent(c, x->dims[i]), weft_k_index(k, 1), 0));
        loops++;
    }
    accumulate(c, kind, x->dtype, &a, weft_index_evaluate(c, node->operands[0], at));
    weft_index_release(c, mark);
    while (loops-- > 0) weft_k_end(k);
    return finish(c, x->dtype, &a);
}

/* One axis of a window: the element's index, and a condition where it may fall on padding. */
static weft_lane_index window_axis(weft_index_context *c, const weft_node *node, int i, weft_lane_index result,
                                   weft_kval step, int lanes, weft_kval *condition) {
    weft_kernel *k = c->kernel;
    int64_t stride = weft_node_attribute(node, WEFT_ATTR_stride)->as.ints[i];
    int64_t dilation = weft_node_attribute(node, WEFT_ATTR_dilation)->as.ints[i];
    int64_t base = weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints[i];
    weft_dim low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims[i],
             high = weft_node_attribute(node, WEFT_ATTR_high)->as.dims[i];
    weft_dim_table *table = c->graph->dims;
    int64_t least, most_low, most_high;
    weft_dim_bounds(table, low, &least, &most_low);
    weft_dim_bounds(table, high, &least, &most_high);
    weft_lane_index at = weft_lane_multiply(c, result, stride, lanes);
    if (step != WEFT_KNONE) {
        weft_kval offset = weft_ix(c, WEFT_K_mul, step, weft_k_index(k, dilation));
        at = weft_lane_add(c, at, weft_lane_scalar(offset), lanes);
    }
    weft_dim back = weft_dim_subtract(table, weft_dim_number(table, 0), low);
    at = weft_lane_add(c, at, weft_lane_scalar(weft_ix_extent(c, back)), lanes);
    weft_kval inside = WEFT_KNONE, yes = weft_k_integer(k, WEFT_BOOL, 1);
    if (most_low > 0) inside = weft_k_xor(k, weft_lane_compare(c, WEFT_K_lt, at, weft_k_index(k, 0), lanes), yes);
    if (base > 1) {
        weft_lane_index rest = weft_lane_modulo(c, at, base, lanes, INT64_MAX);
        weft_kval whole = weft_lane_compare(c, WEFT_K_eq, rest, weft_k_index(k, 0), lanes);
        inside = inside == WEFT_KNONE ? whole : weft_k_and(k, inside, whole);
        at = weft_lane_divide(c, at, base, lanes, INT64_MAX);
    }
    if (most_high > 0 || base > 1) {
        weft_kval below =
            weft_lane_compare(c, WEFT_K_lt, at, weft_ix_extent(c, weft_operand_type(node, 0)->dims[i]), lanes);
        inside = inside == WEFT_KNONE ? below : weft_k_and(k, inside, below);
    }
    if (inside != WEFT_KNONE) *condition = *condition == WEFT_KNONE ? inside : weft_k_and(k, *condition, inside);
    return at;
}

enum { WINDOW_UNROLL = 16 };

weft_parts weft_index_reduce_window(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_kernel *k = c->kernel;
    const weft_type *x = weft_operand_type(node, 0);
    const int64_t *window = weft_node_attribute(node, WEFT_ATTR_window)->as.ints;
    const char *kind = weft_node_string(node, WEFT_ATTR_kind, "sum");
    weft_point_axes(c, point);
    weft_point at = weft_point_like(point, x);
    accumulators a = start(c, kind, x->dtype, point->lanes);
    size_t mark = weft_index_mark(c);
    int loops = 0;
    weft_kval condition = WEFT_KNONE;
    for (int i = 0; i < x->rank; i++) {
        weft_kval step = WEFT_KNONE;
        if (window[i] > 1) {
            step = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, window[i]), weft_k_index(k, 1),
                              window[i] <= WINDOW_UNROLL ? -1 : 0);
            loops++;
        }
        at.axis[i] = window_axis(c, node, i, point->axis[i], step, point->lanes, &condition);
    }
    bool branch = condition != WEFT_KNONE && weft_ktype_of(k, condition).lanes == 1;
    if (branch) weft_k_if(k, condition);
    if (condition != WEFT_KNONE && !branch) weft_point_restrict(c, &at, condition);
    weft_parts value = weft_index_evaluate(c, node->operands[0], at);
    if (condition != WEFT_KNONE && !branch)
        for (int i = 0; i < 2; i++)
            if (value.part[i] != WEFT_KNONE)
                value.part[i] = weft_index_select(c, condition, value.part[i],
                                                  i ? weft_index_zero(c, weft_index_carrier(x->dtype))
                                                    : weft_index_identity(c, kind, x->dtype, point->lanes));
    accumulate(c, kind, x->dtype, &a, value);
    weft_index_release(c, mark);
    if (branch) weft_k_end(k);
    while (loops-- > 0) weft_k_end(k);
    return finish(c, x->dtype, &a);
}

/* Does `value` replace `best`? A NaN replaces a number and is never replaced: the first NaN wins. */
static weft_kval replaces(weft_index_context *c, const weft_node *node, weft_dtype dtype, weft_kval value,
                          weft_kval best) {
    weft_kernel *k = c->kernel;
    bool largest = !strcmp(weft_node_string(node, WEFT_ATTR_kind, "max"), "max"),
         last = weft_node_int(node, WEFT_ATTR_select_last, 0);
    const char *direction = largest ? last ? "ge" : "gt" : last ? "le" : "lt";
    weft_kval better = weft_index_compare(c, direction, dtype, value, best);
    if (!weft_dtype_is_float(dtype)) return better;
    weft_kval nan = weft_k_and(k, weft_k_ne(k, value, value), weft_k_eq(k, best, best));
    return weft_k_or(k, better, nan);
}

weft_parts weft_index_arg_reduce(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_kernel *k = c->kernel;
    const weft_type *x = weft_operand_type(node, 0);
    int axis = (int)weft_node_int(node, WEFT_ATTR_axis, 0), lanes = point->lanes;
    weft_point_axes(c, point);
    weft_point at = weft_point_like(point, x);
    for (int i = 0; i < x->rank; i++)
        if (i != axis) at.axis[i] = point->axis[i < axis ? i : i - 1];
    at.axis[axis] = weft_lane_constant(c, 0);
    weft_parts first = weft_parts_splat(c, weft_index_evaluate(c, node->operands[0], at), lanes);
    weft_kval best = weft_k_var(k, first.part[0]), where = weft_k_var(k, weft_k_splat(k, weft_k_index(k, 0), lanes));
    size_t mark = weft_index_mark(c);
    weft_kval step = weft_k_for(k, weft_k_index(k, 1), weft_ix_extent(c, x->dims[axis]), weft_k_index(k, 1), 0);
    at.axis[axis] = weft_lane_scalar(step);
    weft_kval value = weft_parts_splat(c, weft_index_evaluate(c, node->operands[0], at), lanes).part[0],
              old = weft_k_get(k, best);
    weft_kval take = replaces(c, node, x->dtype, value, old);
    weft_k_set(k, best, weft_k_select(k, take, value, old));
    weft_k_set(k, where, weft_k_select(k, take, weft_k_splat(k, step, lanes), weft_k_get(k, where)));
    weft_index_release(c, mark);
    weft_k_end(k);
    return weft_parts_one(weft_k_convert(k, weft_k_get(k, where), WEFT_I64));
}
