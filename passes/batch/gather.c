/* gather, scatter and dynamic slices. One side in the batch: the batch is one more axis of the slices, or of the
   indices. Both: the batch's position becomes one more component of each index. Dynamic slices whose starts differ by
   element are a gather or a scatter. */
#include "passes/batch/batch.h"

typedef struct access {
    weft_value *x, *indices, *updates; /* updates NULL = gather */
    bool x_batched, indices_batched;   /* updates are as the result: with either, or by themselves */
    int offset_count, collapsed_count, map_count, index_axis;
    int64_t offset_axes[WEFT_MAX_RANK], collapsed_axes[WEFT_MAX_RANK], index_map[WEFT_MAX_RANK];
    weft_dim sizes[WEFT_MAX_RANK]; /* gather */
    const char *kind;              /* scatter */
} access;

static void shift(int *count, int64_t *axes, bool prepend) {
    for (int i = *count; i-- > 0;) axes[i + prepend] = axes[i] + 1;
    if (prepend) axes[0] = 0;
    *count += prepend;
}

/* [B, ...] indices with the number of the element as component 0. */
static weft_value *with_batch_component(weft_graph *g, weft_value *indices, int axis) {
    weft_dim dims[WEFT_MAX_RANK];
    if (weft_value_is_poison(indices)) return indices;
    for (int i = 0; i < indices->type.rank; i++) dims[i] = i == axis ? 1 : indices->type.dims[i];
    weft_value *parts[2] = {weft_emit_iota(g, indices->type.dtype, indices->type.rank, dims, 0), indices};
    return weft_emit_concat(g, axis, 2, parts);
}

/* An implicit component axis behind the last one becomes an axis of 1. rank: of one element's indices. */
static weft_value *explicit_component(weft_graph *g, weft_value *indices, bool is_last) {
    weft_dim dims[WEFT_MAX_RANK + 1];
    if (!is_last || weft_value_is_poison(indices)) return indices;
    for (int i = 0; i < indices->type.rank; i++) dims[i] = indices->type.dims[i];
    dims[indices->type.rank] = 1;
    return weft_emit_reshape(g, indices, indices->type.rank + 1, dims);
}

/* x and updates (of a scatter) are batches already unless only x is not and indices are. */
static weft_value *build(weft_graph *g, access *a, weft_dim extent) {
    int rank = a->x->type.rank; /* with the batch if x has it */
    bool component = a->x_batched && a->indices_batched;
    if (component) a->indices = with_batch_component(g, a->indices, a->index_axis + 1);
    if (a->indices_batched) a->index_axis++;
    shift(&a->offset_count, a->offset_axes, a->x_batched && !a->indices_batched);
    if (a->x_batched) {
        shift(&a->collapsed_count, a->collapsed_axes, component);
        shift(&a->map_count, a->index_map, component);
        for (int i = rank; i-- > 1;) a->sizes[i] = a->sizes[i - 1];
        a->sizes[0] = component ? 1 : extent;
    }
    weft_value *operands[3] = {a->x, a->indices, a->updates};
    weft_attribute attributes[5] = {weft_attr_ints(WEFT_ATTR_offset_axes, a->offset_count, a->offset_axes),
                                    weft_attr_ints(WEFT_ATTR_collapsed_axes, a->collapsed_count, a->collapsed_axes),
                                    weft_attr_ints(WEFT_ATTR_index_map, a->map_count, a->index_map),
                                    weft_attr_int(WEFT_ATTR_index_axis, a->index_axis),
                                    a->updates ? weft_attr_string(WEFT_ATTR_kind, a->kind)
                                               : weft_attr_dims(WEFT_ATTR_sizes, rank, a->sizes)};
    return weft_build(g, a->updates ? WEFT_OP_scatter : WEFT_OP_gather, a->updates ? 3 : 2, operands, 5, attributes);
}

static void copy_axes(const weft_node *node, weft_attribute_name name, int *count, int64_t *axes) {
    const weft_attribute *attribute = weft_node_attribute(node, name);
    *count = attribute->count;
    for (int i = 0; i < attribute->count; i++) axes[i] = attribute->as.ints[i];
}

static void read_attributes(const weft_node *node, access *a) {
    copy_axes(node, WEFT_ATTR_offset_axes, &a->offset_count, a->offset_axes);
    copy_axes(node, WEFT_ATTR_collapsed_axes, &a->collapsed_count, a->collapsed_axes);
    copy_axes(node, WEFT_ATTR_index_map, &a->map_count, a->index_map);
    a->index_axis = (int)weft_node_int(node, WEFT_ATTR_index_axis, 0);
}

void weft_batch_gather(weft_batch_rule *rule) {
    const weft_node *node = rule->node;
    access a = {.x = rule->operands[0], .x_batched = rule->is_batched[0], .indices_batched = rule->is_batched[1]};
    read_attributes(node, &a);
    const weft_attribute *sizes = weft_node_attribute(node, WEFT_ATTR_sizes);
    for (int i = 0; i < sizes->count; i++) a.sizes[i] = sizes->as.dims[i];
    a.indices = explicit_component(rule->graph, rule->operands[1], a.index_axis == node->operands[1]->type.rank);
    rule->out_batches[0] = build(rule->graph, &a, rule->extent);
}

void weft_batch_scatter(weft_batch_rule *rule) {
    const weft_node *node = rule->node;
    access a = {.x = weft_batch_operand(rule, 0),
                .updates = weft_batch_operand(rule, 2),
                .x_batched = true,
                .indices_batched = rule->is_batched[1],
                .kind = weft_node_string(node, WEFT_ATTR_kind, "")};
    read_attributes(node, &a);
    a.indices = explicit_component(rule->graph, rule->operands[1], a.index_axis == node->operands[1]->type.rank);
    rule->out_batches[0] = build(rule->graph, &a, rule->extent);
}

/* -- dynamic slices: starts are the operands from `first` on */

static bool starts_differ(const weft_batch_rule *rule, int first) {
    for (int i = first; i < rule->node->operand_count; i++)
        if (rule->is_batched[i]) return true;
    return false;
}

/* Starts that are the same: one more, 0, for the batch. Operands before them are batches. */
static weft_value *same_starts(weft_batch_rule *rule, int first, const weft_attribute *attribute) {
    weft_graph *g = rule->graph;
    int count = rule->node->operand_count;
    weft_value *operands[WEFT_MAX_RANK + 4];
    if (count + 1 > (int)(sizeof operands / sizeof *operands)) return weft_value_poison(g);
    for (int i = 0; i < first; i++) operands[i] = weft_batch_operand(rule, i);
    operands[first] = weft_emit_scalar(g, WEFT_I64, 0);
    for (int i = first; i < count; i++) operands[i + 1] = rule->operands[i];
    return weft_build(g, rule->node->op, count + 1, operands, attribute ? 1 : 0, attribute);
}

/* [B, rank] of i64: the starts of each element, held inside so that `sizes` fit. */
static weft_value *start_indices(weft_batch_rule *rule, int first, const weft_dim *sizes) {
    weft_graph *g = rule->graph;
    weft_value *columns[WEFT_MAX_RANK];
    const weft_type *x = &rule->node->operands[0]->type;
    weft_dim shape[2] = {rule->extent, 1};
    for (int i = 0; i < x->rank; i++) {
        weft_value *start = weft_emit_reshape(g, weft_batch_operand(rule, first + i), 2, shape);
        weft_value *last = weft_emit_binary(g, WEFT_OP_sub, weft_emit_extent(g, x->dims[i], WEFT_I64),
                                            weft_emit_extent(g, sizes[i], WEFT_I64));
        start = weft_emit_binary(g, WEFT_OP_min, weft_emit_binary_scalar(g, WEFT_OP_max, start, 0),
                                 weft_emit_broadcast_to(g, last, 2, shape));
        columns[i] = start;
    }
    return weft_emit_concat(g, 1, x->rank, columns);
}

static void whole_slices(access *a, int rank, const weft_dim *sizes) {
    a->offset_count = a->map_count = rank;
    a->index_axis = 0;
    for (int i = 0; i < rank; i++) a->offset_axes[i] = a->index_map[i] = i, a->sizes[i] = sizes[i];
}

void weft_batch_dynamic_slice(weft_batch_rule *rule) {
    const weft_attribute *sizes = weft_node_attribute(rule->node, WEFT_ATTR_sizes);
    if (!starts_differ(rule, 1)) {
        weft_attribute *attributes = weft_batch_attributes(rule);
        weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_sizes, rule->extent);
        rule->out_batches[0] = same_starts(rule, 1, attributes);
        return;
    }
    access a = {.x = rule->operands[0], .x_batched = rule->is_batched[0], .indices_batched = true};
    a.indices = start_indices(rule, 1, sizes->as.dims);
    whole_slices(&a, sizes->count, sizes->as.dims);
    rule->out_batches[0] = build(rule->graph, &a, rule->extent);
}

void weft_batch_dynamic_update_slice(weft_batch_rule *rule) {
    if (!starts_differ(rule, 2)) {
        rule->out_batches[0] = same_starts(rule, 2, NULL);
        return;
    }
    const weft_type *update = &rule->node->operands[1]->type;
    access a = {.x = weft_batch_operand(rule, 0),
                .updates = weft_batch_operand(rule, 1),
                .x_batched = true,
                .indices_batched = true,
                .kind = "set"};
    a.indices = start_indices(rule, 2, update->dims);
    whole_slices(&a, update->rank, update->dims);
    rule->out_batches[0] = build(rule->graph, &a, rule->extent);
}
