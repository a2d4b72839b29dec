/* Which nodes share a kernel.

   Nodes are visited in execution order; each tries to join the groups of its operands. Two groups may merge when
   - the graph of groups stays acyclic,
   - every value of the merged group that others read can be written by its one iteration space:
     pointwise: all have one shape; reduce: the shape before the reduction, or after it with or without the reduced axes
     kept as 1; product: the shape of the product,
   - nothing costly is repeated: a producer behind a broadcast or a gather must be cheap.
   A value that depends on the group's reduction is only read at the row being computed: its views must keep rows rows
   (aligned below). */
#include "passes/fuse/fuse.h"

enum { GROUP_NODES_MAX = 96, GROUP_OPERANDS_MAX = 24 };

typedef enum form { FORM_OTHER, FORM_FULL, FORM_REDUCED, FORM_KEPT } form;

int weft_fuse_root(weft_fuse *fuse, int item) {
    while (fuse->items[item].parent != item)
        item = fuse->items[item].parent = fuse->items[fuse->items[item].parent].parent;
    return item;
}

weft_fuse_item *weft_fuse_item_of(const weft_fuse *fuse, const weft_node *node) {
    while (node && node->block != fuse->block) node = node->block->region->parent;
    return node ? node->note : NULL;
}

weft_value *weft_fuse_source(const weft_value *value) {
    weft_value *at = value->node ? &value->node->results[value->index] : value->block->arguments[value->index];
    while (at->node && at->node->note && ((weft_fuse_item *)at->node->note)->role == WEFT_FUSE_VIEW)
        at = at->node->operands[0];
    return at;
}

bool weft_fuse_used_outside(weft_fuse *fuse, const weft_value *value, int root) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        weft_fuse_item *user = weft_fuse_item_of(fuse, use->user);
        if (!user) return true;
        if (user->role == WEFT_FUSE_VIEW) {
            for (int i = 0; i < user->node->result_count; i++)
                if (weft_fuse_used_outside(fuse, &user->node->results[i], root)) return true;
        } else if (weft_fuse_root(fuse, user->order) != root || user->role == WEFT_FUSE_LEAVE) {
            return true;
        }
    }
    return false;
}

static int push_group(weft_fuse *fuse, int item, int except, int stamp, int depth) {
    int group = weft_fuse_root(fuse, item);
    if (group == except || fuse->items[group].stamp == stamp) return depth;
    fuse->items[group].stamp = stamp;
    fuse->stack[depth] = group;
    return depth + 1;
}

/* Pushes the groups that come after `group`: they read its results, directly or through copied views, or have the next
   effect. */
static int push_users(weft_fuse *fuse, int group, int except, int stamp, int depth) {
    for (int i = group; i >= 0; i = fuse->items[i].next) {
        weft_node *node = fuse->items[i].node;
        if (fuse->items[i].next_effect >= 0) depth = push_group(fuse, fuse->items[i].next_effect, except, stamp, depth);
        for (int r = 0; r < node->result_count; r++) {
            for (const weft_use *use = node->results[r].uses; use; use = use->next) {
                weft_fuse_item *user = weft_fuse_item_of(fuse, use->user);
                if (user) depth = push_group(fuse, user->order, except, stamp, depth);
            }
        }
    }
    return depth;
}

/* Is there a path from group `from` to group `to` through another group? Copied views are no groups: what they lead to
   directly belongs to the direct edges. */
bool weft_fuse_reaches_around(weft_fuse *fuse, int from, int to) {
    int stamp = ++fuse->stamp, depth = 0, start = 0;
    fuse->items[from].stamp = stamp;
    depth = push_users(fuse, from, to, stamp, depth);
    for (int i = 0; i < depth; i++) /* views reached from `from`: replaced by their users */
        if (fuse->items[fuse->stack[i]].role == WEFT_FUSE_VIEW)
            depth = push_users(fuse, fuse->stack[i], to, stamp, depth);
    for (int i = 0; i < depth; i++)
        if (fuse->items[fuse->stack[i]].role != WEFT_FUSE_VIEW) fuse->stack[start++] = fuse->stack[i];
    /* From here on a view may be entered again: only through another group. */
    stamp = ++fuse->stamp;
    fuse->items[from].stamp = stamp;
    for (int i = 0; i < start; i++) fuse->items[fuse->stack[i]].stamp = stamp;
    depth = start;
    while (depth > 0) {
        int group = fuse->stack[--depth];
        fuse->items[to].stamp = 0;
        depth = push_users(fuse, group, -1, stamp, depth);
        if (fuse->items[to].stamp == stamp) return true;
    }
    return false;
}

static bool same_dims(const weft_type *a, const weft_type *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static bool is_reduced_axis(const weft_node *reduce, int axis) {
    const weft_attribute *axes = weft_node_attribute(reduce, WEFT_ATTR_axes);
    for (int i = 0; i < axes->count; i++)
        if (axes->as.ints[i] == axis) return true;
    return false;
}

static form form_of(const weft_node *reduce, const weft_type *type) {
    const weft_type *full = weft_operand_type(reduce, 0);
    if (same_dims(type, full)) return FORM_FULL;
    if (same_dims(type, &reduce->results[0].type)) return FORM_REDUCED;
    if (type->rank != full->rank) return FORM_OTHER;
    for (int i = 0; i < full->rank; i++)
        if (type->dims[i] != (is_reduced_axis(reduce, i) ? 1 : full->dims[i])) return FORM_OTHER;
    return FORM_KEPT;
}

/* How a broadcast moves a value that depends on the reduction. */
static form form_after_broadcast(const weft_node *reduce, const weft_node *view, form before) {
    form after = form_of(reduce, &view->results[0].type);
    const weft_attribute *axes = weft_node_attribute(view, WEFT_ATTR_axes);
    if (after == FORM_OTHER || after == FORM_REDUCED) return FORM_OTHER;
    int rank = weft_operand_type(reduce, 0)->rank, at = 0;
    if (before == FORM_KEPT || before == FORM_FULL) return after; /* as many axes, increasing: each keeps its place */
    for (int i = 0; i < rank; i++) {
        if (is_reduced_axis(reduce, i)) continue;
        if (at >= axes->count || axes->as.ints[at++] != i) return FORM_OTHER;
    }
    return at == axes->count ? after : FORM_OTHER;
}

/* The form of `value`, a view of something that depends on the reduction; OTHER when rows do not stay rows. */
static form aligned(const weft_node *reduce, const weft_value *value) {
    weft_node *node = value->node;
    weft_fuse_item *item = node ? node->note : NULL;
    if (!item || item->role != WEFT_FUSE_VIEW) return form_of(reduce, &value->type);
    form before = aligned(reduce, node->operands[0]);
    if (before == FORM_OTHER) return FORM_OTHER;
    if (node->op == WEFT_OP_broadcast) return form_after_broadcast(reduce, node, before);
    if (node->op != WEFT_OP_reshape) return FORM_OTHER;
    form after = form_of(reduce, &value->type);
    if (after == before) return after;
    bool dropped = (before == FORM_REDUCED && after == FORM_KEPT) || (before == FORM_KEPT && after == FORM_REDUCED);
    return dropped ? after : FORM_OTHER;
}

static weft_fuse_item *group_item(weft_fuse *fuse, const weft_value *value, int root) {
    weft_value *source = weft_fuse_source(value);
    weft_fuse_item *item = source->node ? weft_fuse_item_of(fuse, source->node) : NULL;
    if (!item || source->node->block != fuse->block || item->role == WEFT_FUSE_COPY) return NULL;
    return weft_fuse_root(fuse, item->order) == root ? item : NULL;
}

/* Does the value of `item` depend on the anchor of the group `root`? */
static bool depends(const weft_fuse_item *item) {
    return item->dependent || item->role == WEFT_FUSE_REDUCE || item->role == WEFT_FUSE_PRODUCT;
}

/* May `node` be computed in the iteration space of the anchor, when its operands in group `root` depend on it? */
static bool fits_anchor(weft_fuse *fuse, const weft_node *node, int root, const weft_node *anchor) {
    bool product = weft_fuse_classify(anchor) == WEFT_FUSE_PRODUCT;
    form own = product
                   ? FORM_OTHER
                   : form_of(anchor, node->op == WEFT_OP_reduce ? weft_operand_type(node, 0) : &node->results[0].type);
    if (!product && own == FORM_OTHER) return false;
    const weft_type *result =
        &node->results[0].type; /* epilogues of products store elements of whole bytes, one each */
    if (product && (weft_dtype_kind_of(result->dtype) == WEFT_KIND_COMPLEX || weft_dtype_bits(result->dtype) < 8))
        return false;
    if (node->op == WEFT_OP_reduce) {
        if (own != FORM_FULL || !same_dims(&node->results[0].type, &anchor->results[0].type)) return false;
        const weft_attribute *a = weft_node_attribute(node, WEFT_ATTR_axes),
                             *b = weft_node_attribute(anchor, WEFT_ATTR_axes);
        if (a->count != b->count) return false;
        for (int i = 0; i < a->count; i++)
            if (a->as.ints[i] != b->as.ints[i]) return false;
    } else if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE)) {
        return false;
    }
    for (int i = 0; i < node->operand_count; i++) {
        weft_fuse_item *item = group_item(fuse, node->operands[i], root);
        if (!item || !depends(item)) continue;
        if (product) {
            if (weft_fuse_source(node->operands[i]) != node->operands[i] ||
                !same_dims(&node->operands[i]->type, &anchor->results[0].type))
                return false;
        } else if (aligned(anchor, node->operands[i]) != own) {
            return false;
        }
    }
    return true;
}

static bool any_dependent(weft_fuse *fuse, const weft_node *node, int root) {
    for (int i = 0; i < node->operand_count; i++) {
        weft_fuse_item *item = group_item(fuse, node->operands[i], root);
        if (item && depends(item)) return true;
    }
    return false;
}

/* On GPUs: does this reduction leave most of the machine idle unless it is cut into pieces, which a group that also
   writes values of the full shape is not? Rows take a block each, columns a thread for a few of them. */
static bool starves(const weft_fuse *fuse, const weft_node *reduce) {
    if (!fuse->capability || fuse->capability->threads_max == 1 || fuse->capability->batch_invariant) return false;
    const weft_type *full = weft_operand_type(reduce, 0);
    int64_t results = 1, all = 1;
    for (int i = 0; i < full->rank; i++) {
        if (!weft_dim_is_number(full->dims[i]) || __builtin_mul_overflow(all, full->dims[i], &all)) return false;
        if (!is_reduced_axis(reduce, i)) results *= full->dims[i];
    }
    int64_t blocks = full->rank && !is_reduced_axis(reduce, full->rank - 1) ? results / 256 : results;
    return all >= 1 << 16 && blocks < fuse->capability->multiprocessors / 2;
}

/* Every value that others read can be written by the iteration space of the two groups together. */
static bool outputs_fit(weft_fuse *fuse, int a, int b, const weft_node *anchor) {
    const weft_type *shape = NULL;
    bool starving = anchor && weft_fuse_classify(anchor) == WEFT_FUSE_REDUCE && starves(fuse, anchor);
    int nodes[2] = {a, b};
    fuse->items[a].parent = b; /* see the outside of the union */
    bool fit = true;
    for (int g = 0; g < 2 && fit; g++) {
        for (int i = nodes[g]; i >= 0 && fit; i = fuse->items[i].next) {
            weft_node *node = fuse->items[i].node;
            for (int r = 0; r < node->result_count && fit; r++) {
                const weft_type *type = &node->results[r].type;
                if (!weft_fuse_used_outside(fuse, &node->results[r], b)) continue;
                if (anchor && weft_fuse_classify(anchor) == WEFT_FUSE_REDUCE)
                    fit = form_of(anchor, type) != FORM_OTHER && !(starving && form_of(anchor, type) == FORM_FULL);
                else if (anchor)
                    fit = same_dims(type, &anchor->results[0].type);
                else if (!shape)
                    shape = type;
                else
                    fit = same_dims(type, shape);
            }
        }
    }
    for (int i = a; i >= 0; i = fuse->items[i].next)
        fuse->items[i].parent = a; /* finding roots shortened paths into b */
    return fit;
}

/* A broadcast between source and value: the source is computed several times. */
static bool repeats(const weft_value *value) {
    for (weft_node *node = value->node; node && node->note && ((weft_fuse_item *)node->note)->role == WEFT_FUSE_VIEW;
         node = node->operands[0]->node)
        if (node->op == WEFT_OP_broadcast) return true;
    return false;
}

/* Ops that read an operand at other elements than their own, or only sometimes: their operands come from memory. */
static bool reads_memory(const weft_node *node, int operand) {
    switch ((int)node->op) {
    case WEFT_OP_concat:
    case WEFT_OP_rng_bits:
    case WEFT_OP_pad: return true;
    case WEFT_OP_gather:
    case WEFT_OP_dynamic_slice: return operand == 0;
    default: return false;
    }
}

void weft_fuse_merge(weft_fuse *fuse, int a, int b) {
    weft_fuse_item *into = &fuse->items[b], *from = &fuse->items[a];
    from->parent = b;
    fuse->items[into->last].next = a;
    into->last = from->last;
    into->size += from->size;
    into->costly |= from->costly;
    into->random |= from->random;
    if (into->anchor < 0 || (from->anchor >= 0 && from->anchor < into->anchor))
        into->anchor = from->anchor >= 0 ? from->anchor : into->anchor;
}

/* A conversion to a wider dtype that a reduction reads: in the epilogue of a product it would double what goes through
   memory; the reduction does it when it loads. */
static bool widens_for_reduce(const weft_node *node) {
    if (node->op != WEFT_OP_convert ||
        weft_dtype_bits(node->results[0].type.dtype) <= weft_dtype_bits(weft_operand_type(node, 0)->dtype))
        return false;
    for (const weft_use *use = node->results[0].uses; use; use = use->next)
        if (use->user->op == WEFT_OP_reduce) return true;
    return false;
}

/* Tries to pull the producer of operand `index` of the item into its group. */
static void try_operand(weft_fuse *fuse, weft_fuse_item *item, int index) {
    weft_node *node = item->node;
    weft_value *value = node->operands[index], *source = weft_fuse_source(value);
    if (!source->node || source->node->block != fuse->block || reads_memory(node, index)) return;
    weft_fuse_item *producer = source->node->note;
    if (producer->role != WEFT_FUSE_POINT && producer->role != WEFT_FUSE_REDUCE && producer->role != WEFT_FUSE_PRODUCT)
        return;
    if (item->role == WEFT_FUSE_PRODUCT) return;
    int a = weft_fuse_root(fuse, producer->order), b = weft_fuse_root(fuse, item->order);
    if (a == b || fuse->items[a].size + fuse->items[b].size > GROUP_NODES_MAX) return;
    bool from_anchor = fuse->items[a].anchor >= 0, to_anchor = fuse->items[b].anchor >= 0;
    const weft_node *anchor = NULL;
    if (from_anchor)
        anchor = fuse->items[fuse->items[a].anchor].node;
    else if (to_anchor)
        anchor = fuse->items[fuse->items[b].anchor].node;

    if (from_anchor) {
        /* The item joins as part of the epilogue: only while it is alone or brings plain pointwise nodes along. */
        if (to_anchor && weft_fuse_classify(anchor) != WEFT_FUSE_REDUCE) return;
        if (to_anchor && (weft_fuse_classify(fuse->items[fuse->items[b].anchor].node) != WEFT_FUSE_REDUCE ||
                          fuse->items[b].size > 1))
            return;
        if (fuse->items[b].size > 1 && weft_fuse_classify(anchor) == WEFT_FUSE_PRODUCT) return;
        if (weft_fuse_classify(anchor) == WEFT_FUSE_PRODUCT && widens_for_reduce(node)) return;
        if (!fits_anchor(fuse, node, a, anchor)) return;
        if (depends(producer) && repeats(value) && aligned(anchor, value) == FORM_OTHER) return;
    } else if (to_anchor && (weft_fuse_classify(anchor) == WEFT_FUSE_PRODUCT || fuse->items[a].random)) {
        return; /* operands of an epilogue come from memory; a reduction's passes would each make the bits again */
    } else if (repeats(value) && fuse->items[a].costly) {
        return;
    }
    if (weft_fuse_reaches_around(fuse, a, b) || weft_fuse_reaches_around(fuse, b, a)) return;
    if (!outputs_fit(fuse, a, b, anchor)) return;
    weft_fuse_merge(fuse, a, b);
    if (item->role == WEFT_FUSE_POINT && any_dependent(fuse, node, weft_fuse_root(fuse, item->order)))
        item->dependent = true;
}

/* The operand whose producer is the last one before item `*before`, which becomes that producer; -1: none. Of two
   products that are added, the later one takes the addition: the other would have to wait for it. */
static int latest_operand(weft_fuse *fuse, const weft_fuse_item *item, int *before) {
    int found = -1, latest = -1;
    for (int o = 0; o < item->node->operand_count; o++) {
        const weft_value *source = weft_fuse_source(item->node->operands[o]);
        const weft_fuse_item *producer = source->node ? weft_fuse_item_of(fuse, source->node) : NULL;
        if (producer && producer->order < *before && producer->order > latest) found = o, latest = producer->order;
    }
    *before = latest;
    return found;
}

void weft_fuse_group(weft_fuse *fuse) {
    for (int i = 0; i < fuse->count; i++) {
        weft_fuse_item *item = &fuse->items[i];
        if (item->role != WEFT_FUSE_POINT && item->role != WEFT_FUSE_REDUCE) continue;
        for (int pass = 0; pass < 2; pass++) /* anchors first: an epilogue is worth more than a prologue */
            for (int before = fuse->count, o; (o = latest_operand(fuse, item, &before)) >= 0;) {
                bool anchored = fuse->items[weft_fuse_root(fuse, before)].anchor >= 0;
                if (anchored == (pass == 0)) try_operand(fuse, item, o);
            }
    }
}

const char *weft_fuse_anchor(const weft_fuse *fuse, int root) {
    const weft_fuse_item *item = &fuse->items[root];
    if (item->role == WEFT_FUSE_SINGLE) return weft_op_get(item->node->op)->name;
    if (item->role == WEFT_FUSE_NETWORK) return "network";
    if (item->chain) return "chain";
    if (item->anchor < 0) return "pointwise";
    switch ((int)fuse->items[item->anchor].node->op) {
    case WEFT_OP_reduce: return "reduce";
    case WEFT_OP_dot_general: return "matmul";
    default: return weft_op_get(fuse->items[item->anchor].node->op)->name;
    }
}
