/* The pass "recompute": what a group writes for others is left out where the others can compute it again from less
   memory.

   Groups form along edges and know no bytes: a norm whose derivative follows later leaves centred and scaled copies of
   its input beside its result, an epilogue widens what its only reader could widen. Here a result of a group F moves
   into its readers when it is an elementwise function, of a few cheap operations, of
   - operands of F, which are in memory anyway,
   - values of F that are smaller or already written: sums of rows, the product itself in its own dtype,
   and the bytes that all take together get fewer. Only groups of plain loops take such a prologue (pointwise, reduce):
   the operands of an epilogue come from memory. Groups are visited from the last to the first, so that what leaves an
   epilogue is decided before what enters it. Option bytes=N: results of fewer bytes stay where they are (default
   262144). Values stay the same bits: the same operations run elsewhere. Invariant: every value of the block that was
   read is still computed, by the same operations from the same values. */
#include "passes/fuse/recompute.h"

#include "passes/fuse/beside.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/order.h"
#include "passes/fuse/region.h"

#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 48, LEAVES_MAX = 8, READERS_MAX = 16 };
static const double bytes_min = 1 << 18;

/* How a result is made: operations inside the group, in order, and what they start from. */
typedef struct chain {
    int count, leaf_count;
    const weft_node *nodes[CHAIN_MAX];
    weft_value *leaves[LEAVES_MAX]; /* arguments of the region, or values in it that the group then writes */
    double work;                    /* as bytes */
} chain;

typedef struct plan {
    weft_graph *graph;
    weft_node *group;
    double bytes_min;
    int bindings_max; /* 0 = no limit */
    int leaf_total;   /* of all that moves */
    int reader_count, extra_count;
    weft_node *readers[READERS_MAX];
    bool moved[WEFT_FUSE_RESULTS_MAX], pinned[WEFT_FUSE_RESULTS_MAX]; /* pinned: another one is computed from it */
    chain chains[WEFT_FUSE_RESULTS_MAX];
    weft_value *extra[LEAVES_MAX]; /* inner values that become results */
} plan;

/* -- sizes */

static bool same_dims(const weft_type *a, int rank, const weft_dim *dims) {
    if (a->rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (a->dims[i] != dims[i]) return false;
    return true;
}

/* -- groups */

static const weft_node *anchor_node(const weft_node *group) {
    for (const weft_node *node = weft_fuse_inside(group)->first; node; node = node->next) {
        weft_fuse_role role = weft_fuse_classify(node);
        if (role == WEFT_FUSE_REDUCE || role == WEFT_FUSE_PRODUCT) return node;
    }
    return NULL;
}

static bool writes_plainly(const weft_node *group) {
    const char *anchor = weft_fuse_anchor_of(group);
    return !strcmp(anchor, "pointwise") || !strcmp(anchor, "reduce") || !strcmp(anchor, "matmul") ||
           !strcmp(anchor, "convolution");
}

/* May the group write this inner value? Rows of a reduction, with or without the axes that are gone; a product. */
static bool may_write(const weft_node *group, const weft_value *value) {
    const weft_node *anchor = anchor_node(group);
    if (!anchor) return false;
    if (weft_fuse_classify(anchor) == WEFT_FUSE_PRODUCT) return value == &anchor->results[0];
    const weft_type *full = weft_operand_type(anchor, 0), *rows = &anchor->results[0].type;
    const weft_attribute *axes = weft_node_attribute(anchor, WEFT_ATTR_axes);
    weft_dim kept[WEFT_MAX_RANK];
    if (same_dims(&value->type, rows->rank, rows->dims)) return true;
    for (int i = 0; i < full->rank; i++) kept[i] = full->dims[i];
    for (int i = 0; i < axes->count; i++) kept[axes->as.ints[i]] = 1;
    return same_dims(&value->type, full->rank, kept);
}

/* -- chains */

static bool add_leaf(chain *c, weft_value *value) {
    for (int i = 0; i < c->leaf_count; i++)
        if (c->leaves[i] == value) return true;
    if (c->leaf_count == LEAVES_MAX) return false;
    c->leaves[c->leaf_count++] = value;
    return true;
}

/* The result of the group that holds the inner value and stays; -1 = none. */
static int kept_result(const plan *p, const weft_value *inner) {
    for (int i = 0; i < p->group->result_count; i++)
        if (!p->moved[i] && weft_fuse_inner(p->group, i) == inner) return i;
    return -1;
}

/* The same for many elements in a row: made of values that are spread over them. */
static bool is_spread(const weft_value *value, int64_t whole) {
    const weft_node *node = value->node;
    int64_t elements = weft_fuse_elements(&value->type);
    if (elements >= 0 && elements <= whole / 16) return true;
    if (!node) return false;
    bool point = weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE;
    if (!point && node->op != WEFT_OP_broadcast) return false;
    for (int i = 0; i < node->operand_count; i++)
        if (!is_spread(node->operands[i], whole)) return false;
    return true;
}

/* A simple operation on an element takes about as long as an eighth of a byte, a function as two bytes; once for
   several elements where it is the same for all of them. */
static double work_of(const weft_node *node, int64_t whole) {
    double each = weft_fuse_is_costly(node) ? 2 : 0.125;
    if (is_spread(&node->results[0], whole)) each /= 8;
    return each * (double)weft_fuse_elements(&node->results[0].type);
}

/* The chain behind `value`, part of that of `target`. near: it ends at other results that are written anyway, else it
   goes on to where they come from. */
static bool follow(chain *c, const plan *p, weft_value *value, const weft_value *target, bool near) {
    const weft_node *node = value->node;
    int64_t whole = weft_fuse_elements(&target->type);
    if (!node || (near && value != target && kept_result(p, value) >= 0)) return add_leaf(c, value);
    for (int i = 0; i < c->count; i++)
        if (c->nodes[i] == node) return true;
    weft_fuse_role role = weft_fuse_classify(node);
    int64_t elements = weft_fuse_elements(&value->type);
    bool small = elements >= 0 && elements <= whole / 16 && role != WEFT_FUSE_COPY;
    if (role == WEFT_FUSE_REDUCE || role == WEFT_FUSE_PRODUCT || (small && may_write(p->group, value)))
        return may_write(p->group, value) && add_leaf(c, value);
    bool point = role == WEFT_FUSE_POINT && (weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE);
    if ((!point && role != WEFT_FUSE_VIEW && role != WEFT_FUSE_COPY) || node->result_count != 1) return false;
    for (int i = 0; i < node->operand_count; i++)
        if (!follow(c, p, node->operands[i], target, near)) return false;
    if (c->count == CHAIN_MAX) return false;
    c->nodes[c->count++] = node;
    if (point) c->work += work_of(node, whole);
    return true;
}

/* -- readers */

/* Is the value, inside a group, read element by element, at its own place or through views that repeat nothing? */
static bool read_plainly(const weft_value *value) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_node *user = use->user;
        weft_fuse_role role = weft_fuse_classify(user);
        if (role == WEFT_FUSE_REDUCE) continue;
        if (role == WEFT_FUSE_POINT && (weft_op_get(user->op)->flags & WEFT_FLAG_ELEMENTWISE)) continue;
        if (role != WEFT_FUSE_VIEW || user->op == WEFT_OP_broadcast || !read_plainly(&user->results[0])) return false;
    }
    return true;
}

static bool may_compute(const weft_node *group, const weft_use *use) {
    const weft_node *reader = use->user;
    const char *anchor = reader->op == WEFT_OP_fusion ? weft_fuse_anchor_of(reader) : "";
    return reader->block == group->block && (!strcmp(anchor, "pointwise") || !strcmp(anchor, "reduce")) &&
           reader->operand_count <= WEFT_FUSE_OPERANDS_MAX - LEAVES_MAX &&
           reader->result_count <= WEFT_FUSE_RESULTS_MAX &&
           read_plainly(weft_fuse_inside(reader)->arguments[use->index]);
}

static bool reads(const weft_node *reader, const weft_value *value) {
    for (int i = 0; i < reader->operand_count; i++)
        if (reader->operands[i] == value) return true;
    return false;
}

static bool is_planned(const plan *p, const weft_value *inner) {
    for (int i = 0; i < p->extra_count; i++)
        if (p->extra[i] == inner) return true;
    return false;
}

/* Bytes that move when `reader` computes the result: what it has to read for that and did not read before. */
static double bytes_read(const plan *p, const chain *c, const weft_node *reader) {
    double bytes = 0;
    for (int i = 0; i < c->leaf_count; i++) {
        const weft_value *leaf = c->leaves[i];
        int kept = leaf->node ? kept_result(p, leaf) : -1;
        const weft_value *outer =
            leaf->node ? (kept >= 0 ? &p->group->results[kept] : NULL) : p->group->operands[leaf->index];
        bool known = false; /* planned leaves are read for another result already */
        for (int r = 0; r < p->reader_count; r++) known |= !outer && p->readers[r] == reader && is_planned(p, leaf);
        if (!known && !(outer && reads(reader, outer))) bytes += weft_fuse_bytes(&leaf->type);
    }
    return bytes;
}

static bool add_reader(plan *p, weft_node *reader) {
    for (int i = 0; i < p->reader_count; i++)
        if (p->readers[i] == reader) return true;
    if (p->reader_count == READERS_MAX) return false;
    p->readers[p->reader_count++] = reader;
    return true;
}

/* Buffers of a kernel, where a target limits them. */
static bool has_room(const plan *p, const weft_node *reader, int leaves) {
    int count = reader->operand_count + reader->result_count + p->leaf_total + leaves;
    return !p->bindings_max ||
           (count <= p->bindings_max &&
            p->group->operand_count + p->group->result_count + p->extra_count + leaves <= p->bindings_max);
}

/* Decides on one result, with the nearest leaves or the farthest. */
static void consider(plan *p, int index, bool near) {
    const weft_value *result = &p->group->results[index];
    chain *c = &p->chains[index];
    double own = weft_fuse_bytes(&result->type), before = own, after = 0;
    *c = (chain){0};
    if (own < p->bytes_min || !result->uses || p->pinned[index]) return;
    weft_value *inner = weft_fuse_inner(p->group, index);
    if (!inner->node || !follow(c, p, inner, inner, near) || !c->count) return;
    int readers = p->reader_count;
    for (const weft_use *use = result->uses; use; use = use->next) {
        if (!may_compute(p->group, use) || !has_room(p, use->user, c->leaf_count) || !add_reader(p, use->user)) {
            p->reader_count = readers;
            return;
        }
        before += own;
        after += bytes_read(p, c, use->user) + c->work;
    }
    int extra = p->extra_count;
    bool fits = true;
    for (int i = 0; i < c->leaf_count && fits; i++) {
        if (!c->leaves[i]->node || kept_result(p, c->leaves[i]) >= 0 || is_planned(p, c->leaves[i])) continue;
        after += weft_fuse_bytes(&c->leaves[i]->type);
        fits = p->extra_count < LEAVES_MAX;
        if (fits) p->extra[p->extra_count++] = c->leaves[i];
    }
    p->moved[index] = fits && after < 0.9 * before;
    if (!p->moved[index]) {
        p->extra_count = extra, p->reader_count = readers;
        return;
    }
    p->leaf_total += c->leaf_count;
    for (int i = 0; i < c->leaf_count; i++) {
        int kept = c->leaves[i]->node ? kept_result(p, c->leaves[i]) : -1;
        if (kept >= 0) p->pinned[kept] = true;
    }
}

/* -- rewriting */

/* The group with what is left of its results, then the inner values that its readers need: out_extra, as in `extra`. */
static weft_node *rebuild_group(plan *p, weft_value **out_extra) {
    weft_node *old = p->group;
    weft_value *yields[WEFT_FUSE_YIELDS_MAX];
    weft_fuse_region b;
    int count = 0, kept = 0;
    if (!weft_fuse_region_begin(p->graph, &b)) return NULL;
    bool memory = true;
    for (int i = 0; i < old->result_count; i++)
        if (!p->moved[i]) yields[count++] = weft_fuse_inner(old, i);
    kept = count;
    for (int i = 0; i < p->extra_count; i++) yields[count++] = p->extra[i];
    for (int i = 0; memory && i < count; i++) memory = weft_fuse_region_copy(&b, old, yields[i]);
    weft_node *made =
        weft_fuse_region_end(&b, old, weft_fuse_anchor_of(old), old->location, memory ? count : -1, yields);
    if (!made || !memory) return NULL;
    for (int i = 0, at = 0; i < old->result_count; i++) {
        if (p->moved[i]) continue;
        made->results[at].name = old->results[i].name;
        weft_value_replace(&old->results[i], &made->results[at++]);
    }
    for (int i = 0; i < p->extra_count; i++) out_extra[i] = &made->results[kept + i];
    return made;
}

/* The value outside that stands for a leaf. */
static weft_value *outer_of(const plan *p, const weft_node *made, weft_value *const *extra, const weft_value *leaf) {
    if (!leaf->node) return p->group->operands[leaf->index];
    for (int i = 0; i < p->extra_count; i++)
        if (p->extra[i] == leaf) return extra[i];
    for (int i = 0, at = 0; i < p->group->result_count; i++) {
        if (p->moved[i]) continue;
        if (weft_fuse_inner(p->group, i) == leaf) return &made->results[at];
        at++;
    }
    return NULL;
}

static bool copy_chain(weft_fuse_region *b, const plan *p, const weft_node *made, weft_value *const *extra,
                       const chain *c) {
    for (int i = 0; i < c->leaf_count; i++) {
        if (weft_value_map_find(&b->map, c->leaves[i])) continue;
        weft_value *outer = outer_of(p, made, extra, c->leaves[i]),
                   *inner = outer ? weft_fuse_region_argument(b, outer) : NULL;
        if (!inner || !weft_value_map_put(&b->map, c->leaves[i], inner)) return false;
    }
    for (int i = 0; i < c->count; i++)
        if (!weft_value_map_find(&b->map, &c->nodes[i]->results[0]) && !weft_fuse_region_copy_node(b, c->nodes[i]))
            return false;
    return true;
}

static int moved_result(const plan *p, const weft_value *value) {
    return value->node == p->group && p->moved[value->index] ? value->index : -1;
}

static bool rebuild_reader(const plan *p, const weft_node *made, weft_value *const *extra, weft_node *reader) {
    weft_block *block = weft_fuse_inside(reader);
    weft_value *yields[WEFT_FUSE_RESULTS_MAX];
    weft_fuse_region b;
    if (!weft_fuse_region_begin(p->graph, &b)) return false;
    bool memory = true;
    for (int i = 0; memory && i < block->argument_count; i++) {
        int moved = moved_result(p, reader->operands[i]);
        weft_value *value;
        if (moved >= 0) {
            memory = copy_chain(&b, p, made, extra, &p->chains[moved]);
            value = memory ? weft_value_map_find(&b.map, weft_fuse_inner(p->group, moved)) : NULL;
        } else {
            value = weft_fuse_region_argument(&b, reader->operands[i]);
        }
        memory = value && weft_value_map_put(&b.map, block->arguments[i], value);
    }
    for (const weft_node *node = block->first; memory && node != block->last; node = node->next)
        memory = weft_fuse_region_copy_node(&b, node);
    for (int i = 0; i < reader->result_count; i++) yields[i] = weft_fuse_inner(reader, i);
    weft_node *group = weft_fuse_region_end(&b, reader, weft_fuse_anchor_of(reader), reader->location,
                                            memory ? reader->result_count : -1, yields);
    if (!group || !memory) return false;
    for (int i = 0; i < reader->result_count; i++) {
        group->results[i].name = reader->results[i].name;
        weft_value_replace(&reader->results[i], &group->results[i]);
    }
    weft_node_remove(reader);
    return true;
}

static weft_status move_results(plan *p) {
    weft_value *extra[LEAVES_MAX];
    int left = p->extra_count;
    for (int i = 0; i < p->group->result_count; i++) left += !p->moved[i];
    weft_node *made = left ? rebuild_group(p, extra) : NULL;
    bool memory = made || !left;
    for (int i = 0; memory && i < p->reader_count; i++) memory = rebuild_reader(p, made, extra, p->readers[i]);
    if (!memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "moving values of a group into those that read them");
    weft_node_remove(p->group);
    return NULL;
}

static weft_status visit(weft_node *group, plan *p) {
    if (!writes_plainly(group) || group->result_count > WEFT_FUSE_RESULTS_MAX ||
        group->operand_count > WEFT_FUSE_OPERANDS_MAX - LEAVES_MAX)
        return NULL;
    p->group = group;
    p->reader_count = p->extra_count = p->leaf_total = 0;
    memset(p->moved, 0, sizeof p->moved), memset(p->pinned, 0, sizeof p->pinned);
    bool any = false, more = true;
    while (more) { /* what one result needs may pay for another */
        more = false;
        for (int i = 0; i < group->result_count; i++) {
            bool before = p->moved[i];
            if (!before) consider(p, i, false);
            if (!p->moved[i]) consider(p, i, true);
            more |= p->moved[i] && !before;
        }
        any |= more;
    }
    return any ? move_results(p) : NULL;
}

static weft_status visit_block(weft_block *block, plan *p) {
    for (weft_node *node = block->last, *next; node; node = next) {
        next = node->previous;
        for (int r = 0; r < node->region_count && node->op != WEFT_OP_fusion; r++)
            WEFT_TRY(visit_block(node->regions[r]->block, p), "in a region of %s", weft_op_get(node->op)->name);
        if (node->op == WEFT_OP_fusion) WEFT_TRY(visit(node, p), "at %s", weft_fuse_anchor_of(node));
    }
    return NULL;
}

weft_status weft_pass_recompute(weft_pass_context *context) {
    weft_allocator allocator = context->graph->context->allocator;
    weft_location location = context->graph->location;
    plan *p = weft_allocate(allocator, sizeof *p);
    if (!p) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a plan for a group");
    bool chosen = context->options && !strncmp(context->options, "bytes=", 6);
    *p = (plan){.graph = context->graph, .bytes_min = chosen ? strtod(context->options + 6, NULL) : bytes_min};
    p->bindings_max = context->capability ? context->capability->bindings_max : 0;
    /* bytes grow with the batch, and what joins a group of rows may change how its sums are cut into lanes */
    bool counts_batches = !chosen && context->capability && context->capability->batch_invariant;
    weft_status status = counts_batches ? NULL : visit_block(context->graph->body->block, p);
    if (!status) status = weft_fuse_beside(context, context->graph->body->block);
    if (!status) status = weft_fuse_order(context->graph, context->graph->body->block);
    weft_free(allocator, p, sizeof *p);
    context->graph->location = location;
    return status;
}
