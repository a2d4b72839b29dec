/* The evaluator's frame: context, memory of what was evaluated, dispatch. Invariant: an entry is visible code, so that
   a hit may be used at the insertion point; marks and releases keep it so. Read next: index_point.c, index_move.c. */
#include <stdio.h>
#include <string.h>

#include "codegen/builders/index_internal.h"

#include "codegen/kernel/verify.h"

enum { NEST_LIMIT = 2000 };

const weft_block *weft_fusion_block(const weft_node *fusion) { return fusion->regions[0]->block; }

const weft_value *weft_fusion_yield(const weft_node *fusion, int index) {
    return weft_fusion_block(fusion)->last->operands[index];
}

void weft_index_problem(weft_index_context *c, weft_code code, const char *format, ...) {
    if (c->problem) return;
    va_list arguments;
    va_start(arguments, format);
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    c->problem = WEFT_STATUS(code, "%s: %s", c->kernel->name, text);
}

weft_status weft_index_init(const weft_build_request *request, weft_kernel *kernel, weft_index_context *out_context) {
    const weft_node *fusion = request->fusion;
    const weft_block *block = weft_fusion_block(fusion);
    *out_context = (weft_index_context){
        .request = request, .graph = request->graph, .kernel = kernel, .arena = request->arena, .fusion = fusion};
    weft_index_context *c = out_context;
    c->operands = weft_arena_allocate_array(c->arena, (size_t)block->argument_count + 1, sizeof *c->operands);
    c->results = weft_arena_allocate_array(c->arena, (size_t)fusion->result_count + 1, sizeof *c->results);
    if (!c->operands || !c->results) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: index context", kernel->name);
    for (int i = 0; i < block->argument_count; i++) {
        c->operands[i] = WEFT_KNONE;
        if (!block->arguments[i]->uses) continue;
        weft_dtype storage = weft_index_storage(block->arguments[i]->type.dtype);
        const char *name = weft_arena_format(c->arena, "x%d", i);
        c->operands[i] = weft_kernel_buffer(kernel, WEFT_ARGUMENT_OPERAND, i, storage, false, name);
    }
    for (int i = 0; i < fusion->result_count; i++) {
        weft_dtype storage = weft_index_storage(fusion->results[i].type.dtype);
        const char *name = weft_arena_format(c->arena, "y%d", i);
        c->results[i] = weft_kernel_buffer(kernel, WEFT_ARGUMENT_RESULT, i, storage, true, name);
    }
    return NULL;
}

weft_status weft_index_finish(weft_index_context *c) {
    weft_status problem = c->problem;
    c->problem = NULL;
    if (problem) return problem;
    return weft_kernel_verify(c->kernel);
}

size_t weft_index_mark(const weft_index_context *c) { return c->entry_count; }

void weft_index_release(weft_index_context *c, size_t mark) {
    if (mark < c->entry_count) c->entry_count = mark;
}

/* Entries live in the arena: growth copies and leaves the old array to it. */
weft_index_entry *weft_index_push(weft_index_context *c) {
    if (c->entry_count == c->entry_capacity) {
        size_t capacity = c->entry_capacity ? c->entry_capacity * 2 : 64;
        weft_index_entry *entries = weft_arena_allocate_array(c->arena, capacity, sizeof *entries);
        if (!entries) {
            weft_index_problem(c, WEFT_OUT_OF_MEMORY, "index entries");
            return NULL;
        }
        if (c->entry_count) memcpy(entries, c->entries, c->entry_count * sizeof *entries);
        c->entries = entries;
        c->entry_capacity = capacity;
    }
    weft_index_entry *entry = &c->entries[c->entry_count++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

static bool same_kval(const weft_index_context *c, weft_kval a, weft_kval b) {
    if (a == b) return true;
    if (a == WEFT_KNONE || b == WEFT_KNONE) return false;
    int64_t x, y;
    return weft_k_is_constant(c->kernel, a, &x) && weft_k_is_constant(c->kernel, b, &y) && x == y &&
           weft_ktype_of(c->kernel, a).lanes == weft_ktype_of(c->kernel, b).lanes;
}

static bool same_lane_index(const weft_index_context *c, weft_lane_index a, weft_lane_index b) {
    return same_kval(c, a.base, b.base) && (a.stride == b.stride || weft_ktype_of(c->kernel, a.base).lanes > 1);
}

static bool same_place(const weft_index_context *c, const weft_point *a, const weft_point *b) {
    if (a->lanes != b->lanes || a->rank != b->rank) return false;
    if (a->has_flat && b->has_flat && same_lane_index(c, a->flat, b->flat)) return true;
    if (!a->has_axes || !b->has_axes) return false;
    for (int i = 0; i < a->rank; i++)
        if (!same_lane_index(c, a->axis[i], b->axis[i])) return false;
    return true;
}

static bool same_masks(const weft_point *a, const weft_point *b) {
    return a->edge == b->edge && a->scalar == b->scalar && a->vector == b->vector;
}

static const weft_index_entry *find(const weft_index_context *c, const weft_value *value, const weft_point *point) {
    for (size_t i = c->entry_count; i-- > 0;) {
        const weft_index_entry *entry = &c->entries[i];
        if (entry->value != value) continue;
        if (entry->anywhere) return entry;
        if (same_place(c, &entry->at, point) && same_masks(&entry->at, point)) return entry;
    }
    return NULL;
}

void weft_index_bind(weft_index_context *c, const weft_value *value, weft_kval registers) {
    weft_index_entry *entry = weft_index_push(c);
    if (!entry) return;
    entry->value = value;
    entry->anywhere = true;
    entry->parts = weft_parts_one(registers);
}

static weft_point outer_point(const weft_value *value, int lanes, weft_kval mask) {
    return (weft_point){.rank = value->type.rank,
                        .lanes = lanes,
                        .dims = value->type.dims,
                        .edge = mask,
                        .scalar = WEFT_KNONE,
                        .vector = WEFT_KNONE};
}

static weft_point axes_point(const weft_value *value, const weft_lane_index *index, int lanes, weft_kval mask) {
    weft_point point = outer_point(value, lanes, mask);
    point.has_axes = true;
    for (int i = 0; i < point.rank; i++) point.axis[i] = index[i];
    return point;
}

static weft_point flat_point(const weft_value *value, weft_lane_index position, int lanes, weft_kval mask) {
    weft_point point = outer_point(value, lanes, mask);
    point.has_flat = true;
    point.flat = position;
    return point;
}

void weft_index_bind_at(weft_index_context *c, const weft_value *value, const weft_lane_index *index, int lanes,
                        weft_kval mask, weft_kval registers) {
    weft_index_entry *entry = weft_index_push(c);
    if (!entry) return;
    entry->value = value;
    entry->at = axes_point(value, index, lanes, mask);
    entry->parts = weft_parts_one(registers);
}

weft_kval weft_index_zero(weft_index_context *c, weft_dtype carrier) {
    if (weft_dtype_is_float(carrier)) return weft_k_float(c->kernel, carrier, 0.0);
    return weft_k_integer(c->kernel, carrier, 0);
}

weft_parts weft_parts_splat(weft_index_context *c, weft_parts parts, int lanes) {
    for (int i = 0; i < 2; i++)
        if (parts.part[i] != WEFT_KNONE && weft_ktype_of(c->kernel, parts.part[i]).lanes != lanes)
            parts.part[i] = weft_k_splat(c->kernel, parts.part[i], lanes);
    return parts;
}

static weft_parts zero_parts(weft_index_context *c, weft_dtype dtype) {
    weft_kval zero = weft_index_zero(c, weft_index_carrier(dtype));
    bool pair = weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX;
    return (weft_parts){{zero, pair ? zero : WEFT_KNONE}};
}

bool weft_index_has_value(weft_op op) {
    if (weft_op_get(op)->flags & WEFT_FLAG_ELEMENTWISE) return true;
    static const weft_op ops[] = {
        WEFT_OP_constant,  WEFT_OP_iota,          WEFT_OP_dim,           WEFT_OP_reshape,
        WEFT_OP_transpose, WEFT_OP_broadcast,     WEFT_OP_slice,         WEFT_OP_reverse,
        WEFT_OP_pad,       WEFT_OP_concat,        WEFT_OP_dynamic_slice, WEFT_OP_dynamic_update_slice,
        WEFT_OP_gather,    WEFT_OP_reduce,        WEFT_OP_reduce_window, WEFT_OP_arg_reduce,
        WEFT_OP_rng_bits,  WEFT_OP_stop_gradient, WEFT_OP_yield};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i] == op) return true;
    return false;
}

static weft_parts evaluate_node(weft_index_context *c, const weft_node *node, weft_point *point) {
    if (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE) return weft_index_elementwise(c, node, point);
    switch ((int)node->op) {
    case WEFT_OP_constant:
    case WEFT_OP_iota:
    case WEFT_OP_dim: return weft_index_constant(c, node, point);
    case WEFT_OP_reshape:
    case WEFT_OP_transpose:
    case WEFT_OP_broadcast:
    case WEFT_OP_slice:
    case WEFT_OP_reverse:
    case WEFT_OP_pad:
    case WEFT_OP_concat: return weft_index_move(c, node, point);
    case WEFT_OP_dynamic_slice: return weft_index_dynamic_slice(c, node, point);
    case WEFT_OP_dynamic_update_slice: return weft_index_dynamic_update_slice(c, node, point);
    case WEFT_OP_gather: return weft_index_gather(c, node, point);
    case WEFT_OP_reduce: return weft_index_reduce(c, node, point);
    case WEFT_OP_reduce_window: return weft_index_reduce_window(c, node, point);
    case WEFT_OP_arg_reduce: return weft_index_arg_reduce(c, node, point);
    case WEFT_OP_rng_bits: return weft_index_rng_bits(c, node, point);
    case WEFT_OP_stop_gradient: return weft_index_evaluate(c, node->operands[0], *point);
    default:
        weft_index_problem(c, WEFT_UNSUPPORTED, "op %s has no value at an index", weft_op_get(node->op)->name);
        return zero_parts(c, node->results[0].type.dtype);
    }
}

weft_parts weft_index_evaluate(weft_index_context *c, const weft_value *value, weft_point point) {
    weft_dtype dtype = value->type.dtype;
    if (c->problem || c->kernel->failed) return zero_parts(c, dtype == WEFT_INVALID ? WEFT_F32 : dtype);
    if (point.lanes > 1 && weft_point_invariant(c, &point)) {
        point.lanes = 1;
        point.edge = point.vector = WEFT_KNONE;
    }
    const weft_index_entry *known = find(c, value, &point);
    if (known) return known->parts;
    if (c->nest >= NEST_LIMIT) {
        weft_index_problem(c, WEFT_UNSUPPORTED, "the fusion is more than %d ops deep", NEST_LIMIT);
        return zero_parts(c, dtype);
    }
    c->nest++;
    weft_parts parts;
    weft_point work = point;
    work.merge = weft_index_mergeable(c, value);
    if (value->node) {
        parts = evaluate_node(c, value->node, &work);
    } else if (value->block == weft_fusion_block(c->fusion) && c->operands[value->index] != WEFT_KNONE) {
        parts = weft_index_load_point(c, c->operands[value->index], dtype, work);
    } else {
        weft_index_problem(c, WEFT_INTERNAL, "a value from outside the fusion");
        parts = zero_parts(c, dtype);
    }
    c->nest--;
    weft_index_entry *entry = weft_index_push(c);
    if (entry) {
        entry->value = value;
        entry->at = point;
        entry->parts = parts;
    }
    return parts;
}

weft_kval weft_index_one(weft_index_context *c, const weft_value *value, const weft_point *point) {
    return weft_index_evaluate(c, value, *point).part[0];
}

weft_kval weft_index_value(weft_index_context *c, const weft_value *value, const weft_lane_index *index, int lanes,
                           weft_kval mask) {
    weft_parts parts = weft_index_evaluate(c, value, axes_point(value, index, lanes, mask));
    return weft_parts_splat(c, parts, lanes).part[0];
}

weft_kval weft_index_value_flat(weft_index_context *c, const weft_value *value, weft_lane_index position, int lanes,
                                weft_kval mask) {
    weft_parts parts = weft_index_evaluate(c, value, flat_point(value, position, lanes, mask));
    return weft_parts_splat(c, parts, lanes).part[0];
}

static void store(weft_index_context *c, int result, weft_point point, weft_parts parts) {
    parts = weft_parts_splat(c, parts, point.lanes);
    weft_index_store_point(c, c->results[result], c->fusion->results[result].type.dtype, point, parts);
}

void weft_index_store(weft_index_context *c, int result, const weft_lane_index *index, int lanes, weft_kval mask,
                      weft_kval value) {
    store(c, result, axes_point(&c->fusion->results[result], index, lanes, mask), weft_parts_one(value));
}

void weft_index_store_flat(weft_index_context *c, int result, weft_lane_index position, int lanes, weft_kval mask,
                           weft_kval value) {
    store(c, result, flat_point(&c->fusion->results[result], position, lanes, mask), weft_parts_one(value));
}

void weft_index_emit(weft_index_context *c, int result, const weft_lane_index *index, int lanes, weft_kval mask) {
    const weft_value *value = weft_fusion_yield(c->fusion, result);
    weft_point point = axes_point(value, index, lanes, mask);
    store(c, result, point, weft_index_evaluate(c, value, point));
}

void weft_index_emit_flat(weft_index_context *c, int result, weft_lane_index position, int lanes, weft_kval mask) {
    const weft_value *value = weft_fusion_yield(c->fusion, result);
    weft_point point = flat_point(value, position, lanes, mask);
    store(c, result, point, weft_index_evaluate(c, value, point));
}

void weft_index_emit_known(weft_index_context *c, int result, const weft_lane_index *index, weft_lane_index position,
                           int lanes, weft_kval mask) {
    const weft_value *value = weft_fusion_yield(c->fusion, result);
    weft_point point = axes_point(value, index, lanes, mask);
    point.has_flat = true;
    point.flat = position;
    store(c, result, point, weft_index_evaluate(c, value, point));
}
