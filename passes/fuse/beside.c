/* Sums of columns beside rows. The backward pass of a norm is a group of rows; the gradients of its scale and bias are
   sums over all rows of what that group reads, the gradient of a bias in front of it of what it writes. Apart, each of
   them brings the same tensors from memory once more. Here such a group of sums joins the group of rows when
   - it drops all axes that the rows keep, and everything it reads of X's shape the rows read or write too,
   - its operands are there when the rows run, and nobody needs its results before,
   - a builder says that it takes the joint group (weft_pass_context.claims).
   Order and values stay: the same operations in one region. Read next: order.c. */
#include "passes/fuse/beside.h"

#include <string.h>

#include "passes/fuse/region.h"

enum { READERS_MAX = 64 };

static int place_of(const weft_block *block, const weft_node *node) {
    while (node->block != block) node = node->block->region->parent;
    return (int)(intptr_t)node->note;
}

static const weft_node *first_reduce(const weft_node *group) {
    const weft_node *node = weft_fuse_inside(group)->first;
    while (node && node->op != WEFT_OP_reduce) node = node->next;
    return node;
}

static bool is_reduction(const weft_node *node) {
    return node->op == WEFT_OP_fusion && !strcmp(weft_fuse_anchor_of(node), "reduce") && first_reduce(node);
}

static bool same_dims(const weft_type *a, const weft_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static bool drops(const weft_node *reduce, int axis) {
    const weft_attribute *axes = weft_node_attribute(reduce, WEFT_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

/* Rows along the last axis: X, or NULL. */
static const weft_type *rows_of(const weft_node *group) {
    const weft_node *reduce = first_reduce(group);
    const weft_type *x = weft_operand_type(reduce, 0);
    bool last = weft_node_attribute(reduce, WEFT_ATTR_axes)->count == 1 && drops(reduce, x->rank - 1);
    return last && x->rank > 1 ? x : NULL;
}

/* Only sums of X's columns, and what is computed from them column by column. */
static bool sums_columns(const weft_node *group, const weft_type *x) {
    weft_dim columns = x->dims[x->rank - 1];
    for (const weft_node *node = weft_fuse_inside(group)->first; node; node = node->next) {
        if (node->op != WEFT_OP_reduce) continue;
        if (!same_dims(weft_operand_type(node, 0), x) || drops(node, x->rank - 1) ||
            weft_node_attribute(node, WEFT_ATTR_axes)->count != x->rank - 1)
            return false;
    }
    for (int i = 0; i < group->result_count; i++)
        if (group->results[i].type.rank != 1 || group->results[i].type.dims[0] != columns) return false;
    return true;
}

static bool reads(const weft_node *node, const weft_value *value) {
    for (int i = 0; i < node->operand_count; i++)
        if (node->operands[i] == value) return true;
    return false;
}

/* Are the operands of the sums at hand, the large ones among what the rows move anyway? */
static bool has_operands(const weft_block *block, const weft_node *rows, const weft_node *sums, const weft_type *x) {
    int64_t whole = weft_fuse_elements(x);
    for (int i = 0; i < sums->operand_count; i++) {
        const weft_value *operand = sums->operands[i];
        if (operand->node == rows) continue;
        if (operand->node && place_of(block, operand->node) >= place_of(block, rows)) return false;
        int64_t elements = weft_fuse_elements(&operand->type);
        if ((elements < 0 || elements * 16 > whole) && !reads(rows, operand)) return false;
    }
    return true;
}

static bool is_needed_before(const weft_block *block, const weft_node *rows, const weft_node *sums) {
    for (int i = 0; i < sums->result_count; i++)
        for (const weft_use *use = sums->results[i].uses; use; use = use->next)
            if (place_of(block, use->user) <= place_of(block, rows)) return true;
    return false;
}

/* The joint group in front of the rows, not yet used by anybody; NULL without memory. */
static weft_node *join(weft_graph *graph, weft_node *rows, weft_node *sums) {
    weft_fuse_region region;
    weft_value *yields[WEFT_FUSE_YIELDS_MAX];
    const weft_block *inside = weft_fuse_inside(sums);
    int count = 0;
    if (!weft_fuse_region_begin(graph, &region)) return NULL;
    bool right = true;
    for (int i = 0; i < rows->result_count && right; i++) {
        yields[count] = weft_fuse_inner(rows, i);
        right = weft_fuse_region_copy(&region, rows, yields[count++]);
    }
    for (int i = 0; i < sums->operand_count && right; i++) {
        weft_value *operand = sums->operands[i];
        weft_value *own = operand->node == rows
                              ? weft_value_map_find(&region.map, weft_fuse_inner(rows, operand->index))
                              : weft_fuse_region_argument(&region, operand);
        right = own && weft_value_map_put(&region.map, inside->arguments[i], own);
    }
    for (int i = 0; i < sums->result_count && right; i++) {
        yields[count] = weft_fuse_inner(sums, i);
        right = weft_fuse_region_copy(&region, sums, yields[count++]);
    }
    return weft_fuse_region_end(&region, rows, "reduce", rows->location, right ? count : -1, yields);
}

static void take_place(weft_node *joint, weft_node *rows, weft_node *sums) {
    for (int i = 0; i < rows->result_count; i++) {
        joint->results[i].name = rows->results[i].name;
        weft_value_replace(&rows->results[i], &joint->results[i]);
    }
    for (int i = 0; i < sums->result_count; i++) {
        joint->results[rows->result_count + i].name = sums->results[i].name;
        weft_value_replace(&sums->results[i], &joint->results[rows->result_count + i]);
    }
    joint->note = rows->note;
    weft_node_remove(sums);
    weft_node_remove(rows);
}

static bool add_reader(weft_node **list, int *count, weft_node *node) {
    for (int i = 0; i < *count; i++)
        if (list[i] == node) return true;
    if (*count == READERS_MAX) return false;
    list[(*count)++] = node;
    return true;
}

/* Groups of reductions that read something the rows read or write. */
static int find_readers(const weft_node *rows, weft_node **out_list) {
    int count = 0;
    for (int i = 0; i < rows->operand_count + rows->result_count; i++) {
        const weft_value *value = i < rows->operand_count ? rows->operands[i] : &rows->results[i - rows->operand_count];
        if (value->type.rank < 2) continue;
        for (const weft_use *use = value->uses; use; use = use->next)
            if (use->user != rows && use->user->block == rows->block && is_reduction(use->user))
                (void)add_reader(out_list, &count, use->user);
    }
    return count;
}

/* *group: the rows, or what they became. */
static weft_status visit(weft_pass_context *context, weft_block *block, weft_node **group) {
    weft_node *rows = *group;
    const weft_type *x = rows_of(rows);
    weft_node *readers[READERS_MAX];
    int count = x ? find_readers(rows, readers) : 0;
    for (int i = 0; i < count; i++) {
        weft_node *sums = readers[i];
        if (!sums_columns(sums, x) || !has_operands(block, rows, sums, x) || is_needed_before(block, rows, sums) ||
            rows->result_count + sums->result_count > WEFT_FUSE_RESULTS_MAX)
            continue;
        weft_node *joint = join(context->graph, rows, sums);
        if (!joint) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "sums of columns beside rows");
        if (!context->claims(context->graph, joint, context->capability)) {
            weft_node_remove(joint);
            continue;
        }
        take_place(joint, rows, sums);
        *group = rows = joint, x = rows_of(rows);
    }
    return NULL;
}

weft_status weft_fuse_beside(weft_pass_context *context, weft_block *block) {
    const weft_capability *capability = context->capability;
    if (!capability || !context->claims || capability->warp < 2 || capability->bindings_max ||
        capability->batch_invariant)
        return NULL;
    int place = 0;
    weft_status status = NULL;
    weft_location location = context->graph->location;
    for (weft_node *node = block->first; node; node = node->next) node->note = (void *)(intptr_t)++place;
    for (weft_node *node = block->first; node && !status; node = node->next)
        if (is_reduction(node)) status = visit(context, block, &node);
    for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
    context->graph->location = location;
    return status;
}
