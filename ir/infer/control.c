/* Result types of ops with regions, of terminators and of states. */
#include "ir/infer/check.h"

static const weft_node *region_yield(const weft_infer *infer, int region) {
    return infer->node->regions[region]->block->last;
}

static bool same_type(weft_infer *infer, const weft_type *a, const weft_type *b) {
    return a->dtype == b->dtype && weft_infer_shapes_equal(infer, a, b);
}

/* The arguments of a region are the given operands' types. */
static bool arguments_are_operands(weft_infer *infer, int region) {
    const weft_block *block = infer->node->regions[region]->block;
    int count = infer->node->operand_count;
    if (block->argument_count != count)
        return weft_infer_fail(infer, "region %d has %d arguments for %d operands", region, block->argument_count,
                               count);
    for (int i = 0; i < count; i++)
        if (!same_type(infer, weft_infer_operand(infer, i), &block->arguments[i]->type))
            return weft_infer_fail(infer, "argument %d of region %d is %s, the operand is %s", i, region,
                                   weft_infer_type_text(infer, &block->arguments[i]->type),
                                   weft_infer_type_text(infer, weft_infer_operand(infer, i)));
    return true;
}

static bool yields_predicate(weft_infer *infer, int region) {
    const weft_node *yield = region_yield(infer, region);
    if (yield->operand_count == 1 && yield->operands[0]->type.dtype == WEFT_BOOL && yield->operands[0]->type.rank == 0)
        return true;
    return weft_infer_fail(infer, "region %d must yield one bool scalar", region);
}

bool weft_infer_while(weft_infer *infer) {
    if (!weft_infer_regions(infer, 2) || !arguments_are_operands(infer, 0) || !arguments_are_operands(infer, 1) ||
        !yields_predicate(infer, 0))
        return false;
    if (weft_infer_attribute(infer, WEFT_ATTR_bound)->as.integer < -1)
        return weft_infer_fail(infer, "bound is negative; -1 means unknown");
    const weft_node *yield = region_yield(infer, 1);
    if (yield->operand_count != infer->node->operand_count)
        return weft_infer_fail(infer, "the body yields %d values for %d operands", yield->operand_count,
                               infer->node->operand_count);
    for (int i = 0; i < yield->operand_count; i++) {
        const weft_type *x = weft_infer_operand(infer, i);
        if (!same_type(infer, x, &yield->operands[i]->type))
            return weft_infer_fail(infer, "the body yields %s for operand %d of %s",
                                   weft_infer_type_text(infer, &yield->operands[i]->type), i,
                                   weft_infer_type_text(infer, x));
        if (!weft_infer_emit_type(infer, x)) return false;
    }
    return true;
}

bool weft_infer_cond(weft_infer *infer) {
    const weft_type *predicate = weft_infer_operand(infer, 0);
    if (!weft_infer_regions(infer, 2)) return false;
    if (predicate->dtype != WEFT_BOOL || predicate->rank != 0)
        return weft_infer_fail(infer, "operand 0 is %s; it must be a bool scalar",
                               weft_infer_type_text(infer, predicate));
    const weft_node *yes = region_yield(infer, 0), *no = region_yield(infer, 1);
    for (int i = 0; i < 2; i++)
        if (infer->node->regions[i]->block->argument_count != 0)
            return weft_infer_fail(infer, "region %d has arguments; branches capture what they use", i);
    if (yes->operand_count != no->operand_count)
        return weft_infer_fail(infer, "the branches yield %d and %d values", yes->operand_count, no->operand_count);
    for (int i = 0; i < yes->operand_count; i++) {
        const weft_type *a = &yes->operands[i]->type, *b = &no->operands[i]->type;
        if (!same_type(infer, a, b))
            return weft_infer_fail(infer, "result %d is %s in one branch, %s in the other", i,
                                   weft_infer_type_text(infer, a), weft_infer_type_text(infer, b));
        if (!weft_infer_emit_type(infer, a)) return false;
    }
    return true;
}

/* The region of a scan takes carries, then one slice of each stacked operand. */
static bool scan_arguments(weft_infer *infer, int carries, weft_dim trips) {
    const weft_block *block = infer->node->regions[0]->block;
    int count = infer->node->operand_count;
    if (block->argument_count != count)
        return weft_infer_fail(infer, "the region has %d arguments for %d operands", block->argument_count, count);
    for (int i = 0; i < count; i++) {
        weft_type expected = *weft_infer_operand(infer, i);
        if (i >= carries) {
            if (expected.rank < 1 || !weft_graph_assume_equal(infer->graph, expected.dims[0], trips))
                return weft_infer_fail(infer, "operand %d is %s; its axis 0 must be the trip count %s", i,
                                       weft_infer_type_text(infer, &expected), weft_infer_dim_text(infer, trips));
            expected = (weft_type){expected.dtype, expected.rank - 1, expected.dims + 1};
        }
        if (!same_type(infer, &expected, &block->arguments[i]->type))
            return weft_infer_fail(infer, "argument %d of the region is %s, expected %s", i,
                                   weft_infer_type_text(infer, &block->arguments[i]->type),
                                   weft_infer_type_text(infer, &expected));
    }
    return true;
}

bool weft_infer_scan(weft_infer *infer) {
    if (!weft_infer_regions(infer, 1) || !weft_infer_count(infer, WEFT_ATTR_k, 1) ||
        !weft_infer_count(infer, WEFT_ATTR_trips, 1) || !weft_infer_flag(infer, WEFT_ATTR_reverse))
        return false;
    weft_dim k = weft_infer_attribute(infer, WEFT_ATTR_k)->as.dims[0];
    weft_dim trips = weft_infer_attribute(infer, WEFT_ATTR_trips)->as.dims[0];
    const weft_node *yield = region_yield(infer, 0);
    if (k < 0 || k > infer->node->operand_count || k > yield->operand_count)
        return weft_infer_fail(infer, "k is %s with %d operands and %d yielded values", weft_infer_dim_text(infer, k),
                               infer->node->operand_count, yield->operand_count);
    if (!scan_arguments(infer, (int)k, trips)) return false;
    for (int i = 0; i < yield->operand_count; i++) {
        const weft_type *y = &yield->operands[i]->type;
        if (i < k) {
            if (!same_type(infer, weft_infer_operand(infer, i), y))
                return weft_infer_fail(infer, "carry %d is %s, the region yields %s", i,
                                       weft_infer_type_text(infer, weft_infer_operand(infer, i)),
                                       weft_infer_type_text(infer, y));
            if (!weft_infer_emit_type(infer, weft_infer_operand(infer, i))) return false;
            continue;
        }
        if (y->rank >= WEFT_MAX_RANK) return weft_infer_fail(infer, "stacked output %d has rank %d", i, y->rank + 1);
        weft_dim dims[WEFT_MAX_RANK] = {trips};
        for (int axis = 0; axis < y->rank; axis++) dims[axis + 1] = y->dims[axis];
        if (!weft_infer_emit(infer, y->dtype, y->rank + 1, dims)) return false;
    }
    return true;
}

bool weft_infer_fusion(weft_infer *infer) {
    if (!weft_infer_regions(infer, 1) || !arguments_are_operands(infer, 0)) return false;
    const weft_node *yield = region_yield(infer, 0);
    for (int i = 0; i < yield->operand_count; i++)
        if (!weft_infer_emit_type(infer, &yield->operands[i]->type)) return false;
    return true;
}

/* region's yield from `first` on has the types of the operands (results: of region 0's yield) that are floats. */
static bool yields_floats(weft_infer *infer, int region, int count, const weft_value *const *values, const char *what) {
    const weft_node *yield = region_yield(infer, region);
    int at = 0;
    for (int i = 0; i < count; i++) {
        if (!weft_dtype_is_float(values[i]->type.dtype)) continue;
        if (at >= yield->operand_count || !same_type(infer, &values[i]->type, &yield->operands[at]->type))
            return weft_infer_fail(infer, "region %d must yield %s for %s %d", region,
                                   weft_infer_type_text(infer, &values[i]->type), what, i);
        at++;
    }
    if (at == yield->operand_count) return true;
    return weft_infer_fail(infer, "region %d yields %d values for %d float %ss", region, yield->operand_count, at,
                           what);
}

/* Arguments of region 1 from *at on are the types of values, of the floats among them on request. */
static bool takes(weft_infer *infer, int *at, int count, const weft_value *const *values, bool floats) {
    const weft_block *block = infer->node->regions[1]->block;
    for (int i = 0; i < count; i++) {
        if (floats && !weft_dtype_is_float(values[i]->type.dtype)) continue;
        if (*at >= block->argument_count || !same_type(infer, &values[i]->type, &block->arguments[*at]->type))
            return weft_infer_fail(infer, "argument %d of region 1 must be %s", *at,
                                   weft_infer_type_text(infer, &values[i]->type));
        ++*at;
    }
    return true;
}

bool weft_infer_custom_gradient(weft_infer *infer) {
    const weft_node *node = infer->node;
    if (!weft_infer_word(infer, WEFT_ATTR_kind, "forward reverse linear")) return false;
    const char *kind = weft_infer_attribute(infer, WEFT_ATTR_kind)->as.string;
    bool linear = *kind == 'l', reverse = *kind == 'r';
    if (!weft_infer_regions(infer, linear ? 1 : 2)) return false;
    const weft_value *const *x = (const weft_value *const *)node->operands;
    if (linear) {
        const weft_block *block = node->regions[0]->block;
        if (!yields_floats(infer, 0, node->operand_count, x, "operand")) return false;
        for (int i = 0; i < block->argument_count; i++)
            if (!weft_infer_emit_type(infer, &block->arguments[i]->type)) return false;
        return true;
    }
    if (!arguments_are_operands(infer, 0)) return false;
    const weft_node *yield = region_yield(infer, 0);
    const weft_value *const *y = (const weft_value *const *)yield->operands;
    int at = 0;
    if (!takes(infer, &at, node->operand_count, x, false) ||
        (reverse && !takes(infer, &at, yield->operand_count, y, false)) ||
        !(reverse ? takes(infer, &at, yield->operand_count, y, true) : takes(infer, &at, node->operand_count, x, true)))
        return false;
    if (at != node->regions[1]->block->argument_count)
        return weft_infer_fail(infer, "region 1 has %d arguments, it takes %d", node->regions[1]->block->argument_count,
                               at);
    if (!(reverse ? yields_floats(infer, 1, node->operand_count, x, "operand")
                  : yields_floats(infer, 1, yield->operand_count, y, "result")))
        return false;
    for (int i = 0; i < yield->operand_count; i++)
        if (!weft_infer_emit_type(infer, &yield->operands[i]->type)) return false;
    return true;
}

bool weft_infer_yield(weft_infer *infer) {
    (void)infer;
    return true;
}

static const weft_state_value *named_state(weft_infer *infer) {
    const char *name = weft_infer_attribute(infer, WEFT_ATTR_name)->as.string;
    const weft_state_value *state = weft_graph_find_state(infer->graph, name);
    if (!state) weft_infer_fail(infer, "the graph has no state \"%s\"", name);
    return state;
}

bool weft_infer_state_read(weft_infer *infer) {
    const weft_state_value *state = named_state(infer);
    return state && weft_infer_emit_type(infer, &state->type);
}

bool weft_infer_state_update(weft_infer *infer) {
    const weft_state_value *state = named_state(infer);
    if (!state || same_type(infer, &state->type, weft_infer_operand(infer, 0))) return state != NULL;
    return weft_infer_fail(infer, "state \"%s\" is %s, the new value %s", state->name,
                           weft_infer_type_text(infer, &state->type),
                           weft_infer_type_text(infer, weft_infer_operand(infer, 0)));
}
