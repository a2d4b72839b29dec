/* Groups that free more memory than they take run as soon as they can: a product of a backward pass that gives the
   gradient of a weight needs an activation and the gradient behind it, both large, and makes one small tensor; left to
   where its result is used, behind the whole backward pass, it would keep both of every layer. Only the order changes.
 */
#include "passes/fuse/order.h"

#include "base/dtype.h"

typedef struct ordering {
    weft_allocator allocator;
    weft_block *block;
    size_t count;
    double *places; /* node->note points at a node's own; between two neighbours there is always room for one more */
} ordering;

static double place_of(const weft_node *node) { return *(const double *)node->note; }

/* The node of the block that `node` is, or lies in. */
static const weft_node *in_block(const ordering *o, const weft_node *node) {
    while (node && node->block != o->block) node = node->block->region->parent;
    return node;
}

/* Bytes of a temporary of this block; 0 for others and where an extent is open. */
static double bytes_of(const ordering *o, const weft_value *value) {
    int64_t count = 1;
    size_t bytes;
    if (!value->node || value->node->block != o->block || value->node->op != WEFT_OP_fusion) return 0;
    for (int i = 0; i < value->type.rank; i++)
        if (!weft_dim_is_number(value->type.dims[i]) || __builtin_mul_overflow(count, value->type.dims[i], &count))
            return 0;
    return weft_dtype_bytes(value->type.dtype, count, &bytes) ? (double)bytes : 0;
}

/* Does nobody but `user` read the value at its place or later? */
static bool ends_with(const ordering *o, const weft_value *value, const weft_node *user) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_node *other = in_block(o, use->user);
        if (!other || (other != user && place_of(other) > place_of(user))) return false;
    }
    return true;
}

static bool is_repeated(const weft_node *node, int operand) {
    for (int i = 0; i < operand; i++)
        if (node->operands[i] == node->operands[operand]) return true;
    return false;
}

/* Moves the group behind the last of its operands when that frees more than it takes. */
static void hoist(const ordering *o, weft_node *group) {
    weft_node *last = NULL;
    double frees = 0, takes = 0;
    for (int i = 0; i < group->operand_count; i++) {
        weft_value *operand = group->operands[i];
        if (operand->node && operand->node->block == o->block && (!last || place_of(operand->node) > place_of(last)))
            last = operand->node;
        if (!is_repeated(group, i) && ends_with(o, operand, group)) frees += bytes_of(o, operand);
    }
    for (int i = 0; i < group->result_count; i++) takes += bytes_of(o, &group->results[i]);
    if (!last || last->next == group || frees <= takes) return;
    double room = (place_of(last) + place_of(last->next)) / 2;
    if (!(room > place_of(last) && room < place_of(last->next))) return; /* out of numbers */
    weft_node_move(group, (weft_place){o->block, last->next});
    *(double *)group->note = room;
}

weft_status weft_fuse_order(weft_graph *graph, weft_block *block) {
    ordering o = {.allocator = graph->context->allocator, .block = block};
    for (const weft_node *node = block->first; node; node = node->next) o.count++;
    size_t bytes = o.count * sizeof *o.places;
    o.places = weft_allocate(o.allocator, bytes);
    if (!o.places) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "the order of %zu nodes", o.count);
    size_t at = 0;
    for (weft_node *node = block->first; node; node = node->next, at++) {
        o.places[at] = (double)at;
        node->note = &o.places[at];
    }
    for (weft_node *node = block->first, *next; node; node = next) {
        next = node->next;
        if (node->op == WEFT_OP_fusion) hoist(&o, node);
    }
    for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
    weft_free(o.allocator, o.places, bytes);
    return NULL;
}
