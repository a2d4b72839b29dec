/* Builder "reduce": one or more reductions of one shape with pointwise work before, between and after. Takes the region
   apart (reduce.h); the loops are in reduce_rows.c, reduce_columns.c and reduce_split.c. Regions of another form are
   built by the pointwise builder, whose reductions are loops in place. Read next: reduce_rows.c. */
#include "codegen/builders/reduce.h"

#include <string.h>

static bool same(const weft_graph *graph, weft_dim a, weft_dim b) {
    return a == b || weft_dim_known_equal(graph->dims, a, b);
}

static bool same_dims(const weft_graph *graph, const weft_type *a, const weft_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!same(graph, a->dims[i], b->dims[i])) return false;
    return true;
}

static bool is_reduced(const weft_node *reduce, int axis) {
    const weft_attribute *axes = weft_node_attribute(reduce, WEFT_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

static bool result_form(const weft_graph *graph, const weft_node *reduce, const weft_type *type,
                        weft_reduce_form *out) {
    const weft_type *x = weft_operand_type(reduce, 0);
    if (same_dims(graph, type, x)) return *out = WEFT_REDUCE_FULL, true;
    if (same_dims(graph, type, &reduce->results[0].type)) return *out = WEFT_REDUCE_REDUCED, true;
    if (type->rank != x->rank) return false;
    for (int i = 0; i < x->rank; i++)
        if (!same(graph, type->dims[i], is_reduced(reduce, i) ? 1 : x->dims[i])) return false;
    return *out = WEFT_REDUCE_KEPT, true;
}

static bool same_reduction(const weft_graph *graph, const weft_node *a, const weft_node *b) {
    const weft_attribute *x = weft_node_attribute(a, WEFT_ATTR_axes), *y = weft_node_attribute(b, WEFT_ATTR_axes);
    if (x->count != y->count || !same_dims(graph, weft_operand_type(a, 0), weft_operand_type(b, 0))) return false;
    for (int i = 0; i < x->count; i++)
        if (x->as.ints[i] != y->as.ints[i]) return false;
    return true;
}

/* A value that depends on a reduction may only reach others through ops that keep rows rows. */
static bool moves_rows(const weft_graph *graph, const weft_node *node, const weft_node *reduce) {
    weft_reduce_form form, of;
    if (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE)
        return !result_form(graph, reduce, &node->results[0].type, &form);
    if (node->op == WEFT_OP_reduce || node->op == WEFT_OP_yield) return false;
    if (node->op != WEFT_OP_reshape && node->op != WEFT_OP_broadcast) return true;
    if (!result_form(graph, reduce, &node->results[0].type, &form)) return true;
    if (!result_form(graph, reduce, weft_operand_type(node, 0), &of)) return true;
    if (node->op == WEFT_OP_reshape) return form != of && (form == WEFT_REDUCE_FULL || of == WEFT_REDUCE_FULL);
    const int64_t *axes = weft_node_attribute(node, WEFT_ATTR_axes)->as.ints;
    if (form == WEFT_REDUCE_REDUCED) return of != WEFT_REDUCE_REDUCED;
    for (int i = 0, at = 0; i < weft_operand_type(reduce, 0)->rank; i++) {
        if (of == WEFT_REDUCE_REDUCED && is_reduced(reduce, i)) continue;
        if (axes[at++] != i) return true;
    }
    return false;
}

/* Does the value come from a reduce of other axes than the first one's, which drops the last axis alone? Such values
   are as long as that axis. */
static bool is_of_side(const weft_graph *graph, const weft_value *value, const weft_node *first) {
    const weft_node *node = value->node;
    const weft_type *x = weft_operand_type(first, 0);
    if (!node || node->block != first->block || value->type.rank != 1) return false;
    if (!same(graph, value->type.dims[0], x->dims[x->rank - 1])) return false;
    if (node->op == WEFT_OP_reduce) return !same_reduction(graph, first, node);
    for (int i = 0; i < node->operand_count; i++)
        if (is_of_side(graph, node->operands[i], first)) return true;
    return false;
}

static const weft_node *first_reduce(const weft_node *fusion) { return weft_fusion_find(fusion, WEFT_OP_reduce); }

/* Level of a value: how many reductions lie below it, one after another. */
static int level_of(const weft_value *value, const weft_block *block) {
    if (!value->node || value->node->block != block) return 0;
    return (int)(intptr_t)value->node->note;
}

/* Notes hold levels while the region is taken apart. */
static int set_levels(const weft_graph *graph, const weft_block *block, const weft_node *first) {
    int levels = 0;
    for (weft_node *node = block->first; node; node = node->next) {
        int level = 0;
        for (int i = 0; i < node->operand_count; i++) {
            int below = level_of(node->operands[i], block);
            level = below > level ? below : level;
        }
        if (node->op == WEFT_OP_reduce && same_reduction(graph, first, node)) level++;
        levels = level > levels ? level : levels;
        node->note = (void *)(intptr_t)level;
    }
    return levels;
}

static void clear_notes(const weft_block *block) {
    for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
}

/* Sums of columns stand beside rows that are the last axis: they drop all others. */
static bool is_side(const weft_graph *graph, const weft_node *first, const weft_node *node) {
    const weft_attribute *rows = weft_node_attribute(first, WEFT_ATTR_axes);
    const weft_type *x = weft_operand_type(first, 0);
    if (rows->count != 1 || rows->as.ints[0] != x->rank - 1 || !same_dims(graph, x, weft_operand_type(node, 0)))
        return false;
    return weft_node_attribute(node, WEFT_ATTR_axes)->count == x->rank - 1 && !is_reduced(node, x->rank - 1);
}

/* What follows a side sum is computed element by element on columns. */
static bool keeps_columns(const weft_node *node) {
    return node->op == WEFT_OP_yield || (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE);
}

static bool node_fits(const weft_graph *graph, const weft_node *node, const weft_node *first, bool sides) {
    bool depends = false;
    for (int i = 0; i < node->operand_count; i++) {
        if (sides && is_of_side(graph, node->operands[i], first)) return keeps_columns(node);
        depends |= level_of(node->operands[i], first->block) > 0;
    }
    return !depends || !moves_rows(graph, node, first);
}

static bool fits(const weft_graph *graph, const weft_node *fusion, bool sides) {
    const weft_block *block = weft_fusion_block(fusion);
    const weft_node *reduce = first_reduce(fusion);
    int count = 0, side_count = 0;
    bool right = reduce && !weft_fusion_stores_narrow(fusion);
    weft_reduce_form form;
    for (int i = 0; right && i < fusion->result_count; i++)
        right = (sides && is_of_side(graph, weft_fusion_yield(fusion, i), reduce)) ||
                result_form(graph, reduce, &fusion->results[i].type, &form);
    if (!right) return false;
    set_levels(graph, block, reduce);
    for (const weft_node *node = block->first; node && right; node = node->next) {
        if (node->op == WEFT_OP_reduce) {
            bool row = same_reduction(graph, reduce, node);
            right = row ? ++count <= WEFT_REDUCTIONS_MAX
                        : sides && is_side(graph, reduce, node) && ++side_count <= WEFT_REDUCE_SIDES_MAX;
            right = right && weft_dtype_kind_of(node->results[0].type.dtype) != WEFT_KIND_COMPLEX;
        }
        right = right && node_fits(graph, node, reduce, sides);
    }
    clear_notes(block);
    return right;
}

bool weft_reduction_fits(const weft_graph *graph, const weft_node *fusion) { return fits(graph, fusion, false); }
bool weft_reduction_fits_with_sides(const weft_graph *graph, const weft_node *fusion) {
    return fits(graph, fusion, true);
}

/* -- axes */

static void set_add(const weft_graph *graph, weft_axis_set *set, int axis, weft_dim dim, bool joins) {
    if (joins) set->merge |= (uint32_t)1 << (set->count - 1);
    set->axis[set->count] = axis;
    set->dims[set->count++] = dim;
    set->extent = weft_dim_multiply(graph->dims, set->extent, dim);
}

/* Boundaries of X that all accesses allow to merge, and that do not separate kept from reduced axes. */
static uint32_t merge_bits(weft_reduction *r) {
    const weft_node *reduce = r->nodes[0], *fusion = r->request->fusion;
    uint32_t bits = ~(uint32_t)0;
    for (int i = 0; i < r->count; i++) bits &= weft_index_mergeable(&r->c, r->nodes[i]->operands[0]);
    for (int i = 0; i < r->side_count; i++) bits &= weft_index_mergeable(&r->c, r->side[i]->operands[0]);
    for (int i = 0; i < fusion->result_count; i++) {
        if (r->forms[i] == WEFT_REDUCE_SIDE) continue;
        uint32_t own = weft_index_mergeable(&r->c, weft_fusion_yield(fusion, i));
        if (r->forms[i] == WEFT_REDUCE_FULL) bits &= own;
        for (int a = 0, at = 0; a + 1 < r->x->rank && r->forms[i] != WEFT_REDUCE_FULL; a++) {
            bool both = !is_reduced(reduce, a) && !is_reduced(reduce, a + 1);
            int boundary = r->forms[i] == WEFT_REDUCE_KEPT ? a : at;
            if (both && !(own >> boundary & 1)) bits &= ~((uint32_t)1 << a);
            at += !is_reduced(reduce, a);
        }
    }
    for (int a = 0; a + 1 < r->x->rank; a++)
        if (is_reduced(reduce, a) != is_reduced(reduce, a + 1)) bits &= ~((uint32_t)1 << a);
    return bits;
}

static void split_axes(weft_reduction *r) {
    const weft_graph *graph = r->request->graph;
    const weft_node *reduce = r->nodes[0];
    int last = r->x->rank - 1, first;
    while (last > 0 && r->x->dims[last] == 1) last--;
    r->kept.extent = r->outer.extent = r->lane_extent = 1;
    r->merge = merge_bits(r);
    for (first = last; first > 0 && (r->merge >> (first - 1) & 1);) first--;
    r->lane_axis = last;
    r->rows = last < 0 || is_reduced(reduce, last);
    for (int a = 0; a < r->x->rank; a++) {
        if (a >= first && a <= last) {
            r->lane_extent = weft_dim_multiply(graph->dims, r->lane_extent, r->x->dims[a]);
            continue;
        }
        weft_axis_set *set = is_reduced(reduce, a) ? &r->outer : &r->kept;
        bool joins = set->count && set->axis[set->count - 1] == a - 1 && (r->merge >> (a - 1) & 1);
        set_add(graph, set, a, r->x->dims[a], joins);
    }
}

void weft_axis_set_index(weft_reduction *r, const weft_axis_set *set, weft_kval at, weft_lane_index *index) {
    weft_lane_index own[WEFT_MAX_RANK];
    weft_index_unflatten_merged(&r->c, set->count, set->dims, set->merge, weft_lane_scalar(at), 1, own);
    for (int i = 0; i < set->count; i++) index[set->axis[i]] = own[i];
}

void weft_reduction_result_index(const weft_reduction *r, int result, const weft_lane_index *index,
                                 weft_lane_index *out) {
    int at = 0;
    for (int a = 0; a < r->x->rank; a++)
        if (r->forms[result] != WEFT_REDUCE_REDUCED || !is_reduced(r->nodes[0], a)) out[at++] = index[a];
}

void weft_reduction_emit_results(weft_reduction *r, weft_lane_index *index, int lanes, weft_kval mask) {
    weft_lane_index own[WEFT_MAX_RANK], at[WEFT_MAX_RANK];
    for (int a = 0; a < r->x->rank; a++)
        at[a] = is_reduced(r->nodes[0], a) ? weft_lane_scalar(weft_k_index(r->k, 0)) : index[a];
    for (int i = 0; i < r->request->fusion->result_count; i++) {
        if (r->forms[i] == WEFT_REDUCE_FULL || r->forms[i] == WEFT_REDUCE_SIDE) continue;
        weft_reduction_result_index(r, i, at, own);
        weft_index_emit(&r->c, i, own, lanes, mask);
    }
}

/* -- values kept from pass to pass */

static bool is_costly(weft_op op) {
    static const weft_op ops[] = {WEFT_OP_exp,   WEFT_OP_expm1,    WEFT_OP_log,   WEFT_OP_log1p, WEFT_OP_sin,
                                  WEFT_OP_cos,   WEFT_OP_tan,      WEFT_OP_asin,  WEFT_OP_acos,  WEFT_OP_atan,
                                  WEFT_OP_sinh,  WEFT_OP_cosh,     WEFT_OP_asinh, WEFT_OP_acosh, WEFT_OP_atanh,
                                  WEFT_OP_tanh,  WEFT_OP_logistic, WEFT_OP_erf,   WEFT_OP_pow,   WEFT_OP_rem,
                                  WEFT_OP_atan2, WEFT_OP_gather};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i] == op) return true;
    return false;
}

static int64_t scratch_budget(const weft_reduction *r) {
    const weft_capability *capability = r->request->capability;
    if (weft_capability_is_cpu(capability)) return capability->l2_bytes / 4;
    return capability->shared_bytes / 2 - 1024; /* two blocks on a processor: one loads while the other stores */
}

static bool keep(weft_reduction *r, const weft_value *value, uint32_t passes, int64_t *budget) {
    bool gpu = !weft_capability_is_cpu(r->request->capability);
    weft_dim_table *table = r->request->graph->dims;
    if (r->keep_count == WEFT_REDUCE_KEEP_MAX || !(passes & (passes - 1))) return false;
    if (!same_dims(r->request->graph, &value->type, r->x) || weft_dtype_kind_of(value->type.dtype) != WEFT_KIND_FLOAT)
        return false;
    weft_dtype own = value->type.dtype, dtype = weft_dtype_bits(own) < 8 || !gpu ? weft_index_carrier(own) : own;
    int64_t low, high, bytes = weft_dtype_bits(dtype) / 8;
    weft_dim_bounds(table, weft_dim_multiply(table, r->outer.extent, r->lane_extent), &low, &high);
    bool open = high == INT64_MAX && !gpu; /* sized at launch */
    if (!open && (high > *budget / bytes)) return false;
    if (!open) *budget -= high * bytes;
    r->keep[r->keep_count++] = (weft_reduce_keep){value, __builtin_ctz(passes), dtype, WEFT_KNONE};
    return true;
}

/* Backwards over the region: in which passes is each value evaluated? A costly one of several passes is kept by the
   first of them, and then its operands are needed in that one only. Once what each pass computes is settled. */
static void choose_kept(weft_reduction *r) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    bool gpu = !weft_capability_is_cpu(r->request->capability);
    int64_t budget = scratch_budget(r);
    uint32_t of_argument[64] = {0};
    if (!r->rows || block->argument_count > 64) return;
    for (weft_node *node = block->last; node; node = node->previous) node->note = NULL;
    for (weft_node *node = block->last; node; node = node->previous) {
        uint32_t passes = (uint32_t)(uintptr_t)node->note;
        if (node->op == WEFT_OP_reduce)
            for (int i = 0; i < r->count; i++)
                if (r->nodes[i] == node) passes = r->level[i] < 0 ? 0 : (uint32_t)1 << r->level[i];
        if (node->op != WEFT_OP_yield && is_costly(node->op) && keep(r, &node->results[0], passes, &budget))
            passes &= -passes;
        for (int i = 0; i < node->operand_count; i++) {
            const weft_value *operand = node->operands[i];
            uint32_t own = passes;
            if (node->op == WEFT_OP_yield) own = r->forms[i] == WEFT_REDUCE_FULL ? (uint32_t)1 << r->levels : 0;
            if (!operand->node)
                of_argument[operand->index] |= own;
            else
                operand->node->note = (void *)((uintptr_t)operand->node->note | own);
        }
    }
    for (int i = 0; gpu && i < block->argument_count; i++) keep(r, block->arguments[i], of_argument[i], &budget);
    clear_notes(block);
}

/* GPUs: as long as the longest row, which the budget has room for. */
void weft_reduction_make_scratch(weft_reduction *r) {
    weft_dim_table *table = r->request->graph->dims;
    weft_dim row = weft_dim_multiply(table, r->outer.extent, r->lane_extent);
    int64_t low, high;
    weft_dim_bounds(table, row, &low, &high);
    if (!weft_capability_is_cpu(r->request->capability)) row = weft_dim_number(table, high);
    for (int i = 0; i < r->keep_count; i++) r->keep[i].memory = weft_k_shared(r->k, r->keep[i].dtype, row);
}

/* -- one visit */

void weft_reduction_start(weft_reduction *r, int pass, int lanes, weft_kval *out_accumulators) {
    for (int i = 0; i < r->count; i++) {
        weft_dtype dtype = r->nodes[i]->results[0].type.dtype;
        bool mine = r->level[i] == pass;
        out_accumulators[i] =
            mine ? weft_k_var(r->k, weft_index_identity(&r->c, r->kind[i], dtype, lanes)) : WEFT_KNONE;
    }
}

void weft_reduction_visit(weft_reduction *r, int pass, const weft_lane_index *index, weft_lane_index position,
                          int lanes, weft_kval mask, const weft_kval *accumulators) {
    weft_index_context *c = &r->c;
    size_t mark = weft_index_mark(c);
    for (int i = 0; i < r->keep_count; i++) {
        const weft_reduce_keep *kept = &r->keep[i];
        if (kept->pass >= pass) continue;
        weft_index_bind_at(c, kept->value, index, lanes, mask,
                           weft_index_load(c, kept->memory, kept->dtype, position, lanes, mask));
    }
    for (int i = 0; i < r->count && pass < r->levels; i++) {
        if (r->level[i] != pass) continue;
        weft_dtype dtype = r->nodes[i]->results[0].type.dtype;
        weft_kval value = weft_index_value(c, r->nodes[i]->operands[0], index, lanes, mask);
        if (mask != WEFT_KNONE && r->rows)
            value = weft_index_select(c, mask, value, weft_index_identity(c, r->kind[i], dtype, lanes));
        weft_k_set(r->k, accumulators[i],
                   weft_index_combine(c, r->kind[i], dtype, weft_k_get(r->k, accumulators[i]), value));
    }
    for (int i = 0; i < r->keep_count; i++) {
        const weft_reduce_keep *kept = &r->keep[i];
        if (kept->pass != pass) continue;
        weft_kval value = weft_index_value(c, kept->value, index, lanes, mask);
        weft_index_store_buffer(c, kept->memory, kept->dtype, position, lanes, mask, value);
    }
    for (int i = 0; i < r->request->fusion->result_count && (pass == r->levels || r->full_early); i++)
        if (r->forms[i] == WEFT_REDUCE_FULL) weft_index_emit(c, i, index, lanes, mask);
    weft_index_release(c, mark);
}

void weft_reduction_fetch(weft_reduction *r, int pass, const weft_lane_index *index, int lanes) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    for (int a = 0; a < block->argument_count; a++) {
        const weft_value *argument = block->arguments[a];
        bool kept = !same_dims(r->request->graph, &argument->type, r->x);
        for (int i = 0; i < r->keep_count; i++) kept |= r->keep[i].value == argument && r->keep[i].pass < pass;
        if (!kept) (void)weft_index_value(&r->c, argument, index, lanes, WEFT_KNONE);
    }
}

int weft_reduction_row_arguments(const weft_reduction *r) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    int count = 0;
    for (int a = 0; a < block->argument_count; a++)
        count += same_dims(r->request->graph, &block->arguments[a]->type, r->x);
    return count;
}

int weft_reduction_widest_argument(const weft_reduction *r) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    int widest = 0;
    for (int a = 0; a < block->argument_count; a++) {
        int bytes = weft_dtype_bits(block->arguments[a]->type.dtype) / 8;
        if (same_dims(r->request->graph, &block->arguments[a]->type, r->x) && bytes > widest) widest = bytes;
    }
    return widest;
}

/* -- the builder */

/* Sums under way at once. */
static int choose_unroll(const weft_node *fusion, const weft_capability *capability) {
    int nodes = 0;
    if (capability->batch_invariant) return 2; /* whatever else the group holds */
    for (const weft_node *node = weft_fusion_block(fusion)->first; node; node = node->next) nodes++;
    return nodes <= 8 ? 4 : nodes <= 20 ? 2 : 1;
}

weft_status weft_reduction_init(const weft_build_request *request, const char *suffix, weft_reduction *r) {
    const weft_node *fusion = request->fusion;
    const weft_block *block = weft_fusion_block(fusion);
    *r = (weft_reduction){.request = request, .k = weft_plan_kernel(request, suffix), .keep_base = WEFT_KNONE};
    r->forms = weft_arena_allocate_array(request->arena, (size_t)fusion->result_count + 1, sizeof *r->forms);
    if (!r->k || !r->forms) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    r->lanes = request->schedule->vector > 0 ? request->schedule->vector : weft_fusion_lanes(request);
    r->unroll = weft_capability_is_cpu(request->capability) ? choose_unroll(fusion, request->capability) : 1;
    r->levels = set_levels(request->graph, block, weft_fusion_find(fusion, WEFT_OP_reduce));
    for (const weft_node *node = block->first; node; node = node->next) {
        if (node->op != WEFT_OP_reduce) continue;
        if (r->count && !same_reduction(request->graph, r->nodes[0], node)) {
            if (r->side_count < WEFT_REDUCE_SIDES_MAX) r->side[r->side_count++] = node;
            continue;
        }
        r->kind[r->count] = weft_node_string(node, WEFT_ATTR_kind, "sum");
        r->level[r->count] = (int)(intptr_t)node->note - 1;
        r->nodes[r->count++] = node;
    }
    r->x = weft_operand_type(r->nodes[0], 0);
    for (int i = 0; i < fusion->result_count; i++) {
        bool side = r->side_count && is_of_side(request->graph, weft_fusion_yield(fusion, i), r->nodes[0]);
        if (side) r->forms[i] = WEFT_REDUCE_SIDE;
        if (!side && !result_form(request->graph, r->nodes[0], &fusion->results[i].type, &r->forms[i])) {
            clear_notes(block);
            return WEFT_STATUS(WEFT_INTERNAL, "%s: result %d has no form of the reduction", request->name, i);
        }
        r->any_full |= r->forms[i] == WEFT_REDUCE_FULL;
        r->full_waits |= r->forms[i] == WEFT_REDUCE_FULL && level_of(weft_fusion_yield(fusion, i), block) > 0;
    }
    clear_notes(block);
    WEFT_TRY(weft_index_init(request, r->k, &r->c), "reduce");
    split_axes(r);
    return NULL;
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    if (!weft_fusion_is_empty(request) && weft_reduce_beside_fits(request->graph, request->fusion, request->capability))
        return weft_reduce_beside(request, out_plan);
    if (weft_fusion_is_empty(request) || !weft_reduction_fits(request->graph, request->fusion))
        return weft_pointwise_build(request, out_plan);
    weft_reduction *r = weft_arena_allocate(request->arena, sizeof *r);
    if (!r) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: reduction", request->name);
    WEFT_TRY(weft_reduction_init(request, "", r), "reduce");
    int pieces;
    if (weft_reduce_should_split(r, &pieces)) return weft_reduce_split(request, pieces, out_plan);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "reduce");
    weft_reduction_find_picks(r);
    choose_kept(r);
    if (r->rows)
        weft_reduce_rows(r);
    else
        weft_reduce_columns(r);
    WEFT_TRY(weft_index_finish(&r->c), "reduce");
    return weft_plan_set(request, out_plan, 0, r->k);
}

enum { PROPOSALS_MAX = 4 };

static bool is_held(weft_reduction *r) {
    weft_reduce_prepare_gpu(r);
    return weft_reduce_held_vectors(r) > 0;
}

/* Is a ring the better schedule? It leaves room for one block on a processor where two were. So it pays while rows are
   what the block waits for: vectors as long as a row (scale, bias) come from the L2 when they are needed, behind no
   ring, and with one block fewer of those bytes are under way. One vector still pays, two do not. Measured on an H200,
   rows of 50304: softmax 424 us against 437, with as many threads as without; RMS norm, one vector, 429 against 450
   with the most threads; layer norm, two, 500 against 488; what only reads rows 240 against 222. Of few rows a block
   has one. */
static bool ring_pays(const weft_reduction *r, bool *out_reads_vectors) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    bool integers = false;
    int64_t vectors = 0, rows = 0; /* bits an element of the row */
    for (int i = 0; i < block->argument_count; i++) {
        const weft_type *type = &block->arguments[i]->type;
        weft_dim count = weft_type_count(r->request->graph, type);
        integers |= !weft_dtype_is_float(type->dtype);
        if (same_dims(r->request->graph, type, r->x))
            rows += weft_dtype_bits(type->dtype);
        else if (count == r->lane_extent)
            vectors += weft_dtype_bits(type->dtype);
    }
    *out_reads_vectors = vectors > 0;
    return r->any_full && !integers && vectors <= rows && !r->request->capability->batch_invariant &&
           weft_dim_is_number(r->kept.extent) && r->kept.extent >= 4 * (int64_t)r->request->capability->multiprocessors;
}

/* Rings of two rows, where rows are too long for the registers of their threads: shorter ones come from many small
   blocks, of which some load while others compute, and a ring is 5 to 10 % slower (measured on an H200). */
static int propose_rings(const weft_build_request *request, int count, int capacity, weft_schedule *out_schedules) {
    weft_schedule base = out_schedules[0];
    weft_build_request own = *request;
    own.schedule = &base;
    weft_reduction *r = weft_arena_allocate(request->arena, sizeof *r);
    weft_status status = r ? weft_reduction_init(&own, "", r) : NULL;
    int pieces;
    if (!r || status || !r->rows || weft_reduce_should_split(r, &pieces) || is_held(r)) {
        bool pairs = !status && r && r->rows && !r->any_full && r->threads == request->capability->warp;
        weft_status_release(status);
        if (!pairs || count == capacity) return count;
        out_schedules[count] = base; /* two rows of a warp under way at once */
        out_schedules[count++].unroll = 2;
        return count;
    }
    weft_schedule all[PROPOSALS_MAX] = {base};
    int most = request->capability->threads_max, first = 0, found = 1;
    bool reads_vectors, pays = ring_pays(r, &reads_vectors);
    for (int threads = r->threads; threads <= most && found < PROPOSALS_MAX; threads *= 2) {
        r->threads = threads;
        if (!weft_row_ring_fits(r, 2)) continue;
        if (pays && (!first || reads_vectors)) first = found;
        all[found] = base;
        all[found].stages = 2, all[found++].threads = threads;
    }
    count = 0;
    out_schedules[count++] = all[first];
    for (int i = 0; i < found && count < capacity; i++)
        if (i != first) out_schedules[count++] = all[i];
    return count;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    int count = weft_propose_default(request, "reduce", out_schedules);
    if (weft_capability_is_cpu(request->capability) || !request->capability->copy_async ||
        weft_fusion_is_empty(request) || !weft_reduction_fits(request->graph, request->fusion))
        return count;
    return propose_rings(request, count, capacity, out_schedules);
}

const weft_builder weft_builder_reduce = {"reduce", weft_pointwise_accepts, propose, build};
