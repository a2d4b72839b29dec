/* Groups become `fusion` nodes, in an order that respects every dependency. Copied views and scalars are cloned into
   each region that uses them; a group's results are the values that others read. */
#include "passes/fuse/fuse.h"

#include <stdlib.h>

enum { DEPTH_MAX = 4000 };

typedef struct rewrite {
    weft_fuse *fuse;
    weft_value_map moved; /* values of groups -> results of their fusion */
    char *done;           /* by root: 0 not visited, 1 open, 2 emitted */
    weft_node *end;       /* nodes are put before it; NULL = at the end */
} rewrite;

static bool stays_inside(const weft_fuse_item *item) {
    return item->role == WEFT_FUSE_VIEW || item->role == WEFT_FUSE_COPY;
}

static weft_status emit_group(rewrite *r, int root, int depth);

static weft_status emit_value(rewrite *r, const weft_value *value, int root, int depth) {
    weft_value *source = weft_fuse_source(value);
    if (!source->node) return NULL;
    weft_fuse_item *item = weft_fuse_item_of(r->fuse, source->node);
    if (!item || source->node->block != r->fuse->block) return NULL;
    int other = weft_fuse_root(r->fuse, item->order);
    if (other == root || r->done[other] == 2) return NULL;
    return emit_group(r, other, depth + 1);
}

static weft_status emit_captured(rewrite *r, const weft_block *block, int root, int depth) {
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->operand_count; i++)
            WEFT_TRY(emit_value(r, node->operands[i], root, depth), "ordering groups");
        for (int i = 0; i < node->region_count; i++)
            WEFT_TRY(emit_captured(r, node->regions[i]->block, root, depth), "ordering groups");
    }
    return NULL;
}

/* `value` as seen inside the region under construction: an argument, or, when a copy is wanted, a clone of a copied
   view or scalar. */
static weft_value *inside(rewrite *r, weft_block *block, weft_value_map *map, weft_value *value, bool copy,
                          weft_value ***operands, size_t *count, size_t *capacity) {
    weft_value *found = weft_value_map_find(map, value);
    if (found) return found;
    weft_fuse_item *item = value->node && value->node->block == r->fuse->block ? value->node->note : NULL;
    if (item && copy && stays_inside(item)) {
        for (int i = 0; i < value->node->operand_count; i++) {
            weft_value *operand = inside(r, block, map, value->node->operands[i], true, operands, count, capacity);
            if (!operand) return NULL;
        }
        weft_node *clone = weft_node_clone(r->fuse->graph, value->node, map);
        return clone && weft_value_map_put(map, value, &clone->results[value->index]) ? &clone->results[value->index]
                                                                                      : NULL;
    }
    weft_value *outer = weft_value_map_find(&r->moved, value);
    if (!outer) outer = value;
    for (size_t i = 0; i < *count; i++)
        if ((*operands)[i] == outer)
            return weft_value_map_put(map, value, block->arguments[i]) ? block->arguments[i] : NULL;
    if (!WEFT_ARRAY_RESERVE(r->fuse->allocator, *operands, *capacity, *count + 1)) return NULL;
    weft_value *argument = weft_block_add_argument(block, &value->type, value->name);
    if (!argument || !weft_value_map_put(map, value, argument)) return NULL;
    (*operands)[(*count)++] = outer;
    return argument;
}

static int by_order(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Products and single ops read their operands from memory, but attention sees heads in it (heads.h) and evaluates its
   mask. */
static bool copies(const weft_node *node, weft_fuse_role role, int operand) {
    if (node->op == WEFT_OP_attention) return true;
    if (node->op == WEFT_OP_attention_backward) return operand != 4;
    return role != WEFT_FUSE_PRODUCT && role != WEFT_FUSE_SINGLE;
}

static weft_status build_fusion(rewrite *r, int root) {
    weft_fuse *fuse = r->fuse;
    weft_graph *graph = fuse->graph;
    int size = 0, *members = NULL;
    size_t member_capacity = 0, operand_count = 0, operand_capacity = 0, yield_count = 0, yield_capacity = 0;
    weft_value **operands = NULL, **yields = NULL;
    weft_value_map map;
    weft_value_map_init(fuse->allocator, &map);
    weft_status status = NULL;
    bool memory = WEFT_ARRAY_RESERVE(fuse->allocator, members, member_capacity, (size_t)fuse->items[root].size);
    for (int i = root; memory && i >= 0; i = fuse->items[i].next) members[size++] = i;
    if (memory) qsort(members, (size_t)size, sizeof *members, by_order);

    weft_region *region = memory ? weft_region_create(graph) : NULL;
    memory = memory && region;
    weft_place outside = memory ? weft_graph_place_end(graph, region->block) : (weft_place){0};
    for (int m = 0; memory && m < size; m++) {
        weft_node *node = fuse->items[members[m]].node;
        weft_fuse_role role = fuse->items[members[m]].role;
        for (int i = 0; memory && i < node->operand_count; i++)
            memory = inside(r, region->block, &map, node->operands[i], copies(node, role, i), &operands, &operand_count,
                            &operand_capacity) != NULL;
        graph->location = node->location;
        weft_node *clone = memory ? weft_node_clone(graph, node, &map) : NULL;
        memory = clone != NULL;
        for (int i = 0; memory && i < node->result_count; i++) {
            memory = weft_value_map_put(&map, &node->results[i], &clone->results[i]);
            /* builders of single ops expect every result */
            bool wanted =
                (role == WEFT_FUSE_SINGLE && size == 1) || weft_fuse_used_outside(fuse, &node->results[i], root);
            if (!memory || !wanted) continue;
            memory = WEFT_ARRAY_RESERVE(fuse->allocator, yields, yield_capacity, yield_count + 1);
            if (memory) yields[yield_count++] = &node->results[i];
        }
    }
    weft_value **inner = NULL;
    size_t inner_capacity = 0;
    memory = memory && WEFT_ARRAY_RESERVE(fuse->allocator, inner, inner_capacity, yield_count + 1);
    for (size_t i = 0; memory && i < yield_count; i++) inner[i] = weft_value_map_find(&map, yields[i]);
    memory = memory && weft_node_create(graph, WEFT_OP_yield, (int)yield_count, inner, 0, NULL, 0, NULL);
    if (memory) {
        graph->insertion = fuse->block;
        graph->insert_before = r->end;
        weft_attribute anchor = weft_attr_string(WEFT_ATTR_anchor, weft_fuse_anchor(fuse, root));
        weft_node *fusion =
            weft_node_create(graph, WEFT_OP_fusion, (int)operand_count, operands, 1, &anchor, 1, &region);
        memory = fusion && fusion->result_count == (int)yield_count;
        for (size_t i = 0; memory && i < yield_count; i++) {
            fusion->results[i].name = yields[i]->name;
            memory = weft_value_map_put(&r->moved, yields[i], &fusion->results[i]);
        }
    }
    weft_graph_place(graph, outside);
    if (!memory) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "fusing %d nodes", size);
    weft_free(fuse->allocator, inner, inner_capacity * sizeof *inner);
    weft_free(fuse->allocator, yields, yield_capacity * sizeof *yields);
    weft_free(fuse->allocator, operands, operand_capacity * sizeof *operands);
    weft_free(fuse->allocator, members, member_capacity * sizeof *members);
    weft_value_map_deinit(&map);
    return status;
}

static weft_status emit_group(rewrite *r, int root, int depth) {
    weft_fuse *fuse = r->fuse;
    if (r->done[root] == 2) return NULL;
    if (r->done[root] == 1 || depth > DEPTH_MAX)
        return WEFT_STATUS(WEFT_INTERNAL, "fusion groups depend on each other in a cycle");
    r->done[root] = 1;
    bool effect = fuse->items[root].effect;
    for (int i = root; i >= 0; i = fuse->items[i].next) {
        weft_node *node = fuse->items[i].node;
        for (int o = 0; o < node->operand_count; o++)
            WEFT_TRY(emit_value(r, node->operands[o], root, depth), "ordering groups");
        for (int k = 0; k < node->region_count; k++)
            WEFT_TRY(emit_captured(r, node->regions[k]->block, root, depth), "ordering groups");
        if (!effect) continue;
        for (int e = 0; e < root; e++) /* earlier effects first */
            if (fuse->items[e].effect) WEFT_TRY(emit_group(r, e, depth + 1), "ordering effects");
    }
    r->done[root] = 2;
    weft_fuse_item *item = &fuse->items[root];
    if (stays_inside(item)) return NULL;
    if (item->role != WEFT_FUSE_LEAVE) return build_fusion(r, root);
    weft_node_move(item->node, (weft_place){fuse->block, r->end});
    return NULL;
}

/* Old nodes of groups are unused now; copied ones may be. */
static void remove_replaced(weft_fuse *fuse) {
    for (int i = fuse->count - 1; i >= 0; i--) {
        weft_fuse_item *item = &fuse->items[i];
        if (item->role == WEFT_FUSE_LEAVE && item->node->op != WEFT_OP_constant) continue;
        bool used = false;
        for (int r = 0; r < item->node->result_count; r++) used |= weft_value_has_uses(&item->node->results[r]);
        if (!used) weft_node_remove(item->node);
    }
}

/* Is item `i` the last of its group, in the order of the block? */
static bool ends_group(weft_fuse *fuse, int i) {
    for (int m = weft_fuse_root(fuse, i); m >= 0; m = fuse->items[m].next)
        if (m > i) return false;
    return true;
}

weft_status weft_fuse_rewrite(weft_fuse *fuse) {
    rewrite r = {.fuse = fuse, .done = weft_allocate(fuse->allocator, (size_t)fuse->count + 1)};
    if (!r.done) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "fusing %d nodes", fuse->count);
    weft_value_map_init(fuse->allocator, &r.moved);
    weft_location location = fuse->graph->location;
    weft_node *last = fuse->block->last;
    r.end = last && (weft_op_get(last->op)->flags & WEFT_FLAG_TERMINATOR) ? last : NULL;
    weft_status status = NULL;
    for (int i = 0; i < fuse->count && !status; i++) {
        if (fuse->items[i].node == r.end) continue;
        /* A group has its place where its last node had it, or before the first that needs it: one that collects from
           many places would otherwise draw all of them to its first node, and keep what they make in memory. */
        if (ends_group(fuse, i)) status = emit_group(&r, weft_fuse_root(fuse, i), 0);
        /* A small constant that somebody keeps as a node must precede its users. */
        if (!status && fuse->items[i].role == WEFT_FUSE_COPY && fuse->items[i].node->op == WEFT_OP_constant)
            weft_node_move(fuse->items[i].node, (weft_place){fuse->block, fuse->block->first});
    }
    for (int i = 0; i < fuse->count && !status; i++) {
        weft_fuse_item *item = &fuse->items[i];
        if (stays_inside(item) || item->role == WEFT_FUSE_LEAVE) continue;
        for (int k = 0; k < item->node->result_count; k++) {
            weft_value *fused = weft_value_map_find(&r.moved, &item->node->results[k]);
            if (fused) weft_value_replace(&item->node->results[k], fused);
        }
    }
    if (!status) remove_replaced(fuse);
    fuse->graph->location = location;
    weft_value_map_deinit(&r.moved);
    weft_free(fuse->allocator, r.done, (size_t)fuse->count + 1);
    return status;
}
