/* Pointwise groups side by side: an optimizer updates each tensor by a group of its own, and a launch costs as much as
   the elements of a small one; between two launches a GPU drains and fills again, so there even a tensor of a million
   elements gains. Groups whose values only update states join, whatever their shapes: the builder deals the blocks of
   one launch to them. What a launch holds is bounded: joined updates keep their gradients in memory until the last one
   is there, and large tensors gain nothing. Read next: compile/lower_join.c, which joins launches of any kernels. */
#include "passes/fuse/fuse.h"

enum { BUFFERS_MAX = 88, NODES_MAX = 512, SPACES_MAX = 12 };

/* Elements of a tensor that joins, and of all together. */
typedef struct limits {
    int64_t tensor, total;
    int buffers;
} limits;

static const limits on_cpu = {1 << 18, 1 << 21, BUFFERS_MAX}, on_gpu = {1 << 23, 1 << 23, BUFFERS_MAX};

typedef struct bundle {
    int root, groups, written, read_count;
    int64_t elements;
    const weft_value *reads[BUFFERS_MAX];
} bundle;

/* Elements of a result; -1: not known, or more than may join. */
static int64_t elements_of(const weft_type *type, int64_t most) {
    int64_t count = 1;
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] < 0 || type->dims[i] > most) return -1;
        count *= type->dims[i];
        if (count > most) return -1;
    }
    return count;
}

static bool note_read(bundle *b, const weft_value *value) {
    for (int i = 0; i < b->read_count; i++)
        if (b->reads[i] == value) return true;
    if (b->read_count == BUFFERS_MAX) return false;
    b->reads[b->read_count++] = value;
    return true;
}

/* Is every use of the value outside its group the update of a state? */
static bool only_updates(weft_fuse *fuse, const weft_value *value, int root) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_fuse_item *user = weft_fuse_item_of(fuse, use->user);
        if (!user || user->node != use->user || user->role == WEFT_FUSE_VIEW) return false;
        if (weft_fuse_root(fuse, user->order) != root && use->user->op != WEFT_OP_state_update) return false;
    }
    return true;
}

/* What a group reads and writes, as a bundle of its own; false: the group may not join. */
static bool describe(weft_fuse *fuse, int root, const limits *most, bundle *out) {
    out->root = root, out->groups = 1, out->written = out->read_count = 0, out->elements = 0;
    if (fuse->items[root].anchor >= 0 || fuse->items[root].chain) return false;
    for (int i = root; i >= 0; i = fuse->items[i].next) {
        weft_node *node = fuse->items[i].node;
        if (fuse->items[i].role != WEFT_FUSE_POINT || fuse->items[i].effect) return false;
        for (int r = 0; r < node->result_count; r++) {
            if (!only_updates(fuse, &node->results[r], root)) return false;
            if (!weft_fuse_used_outside(fuse, &node->results[r], root)) continue;
            int64_t elements = elements_of(&node->results[r].type, most->tensor);
            if (elements < 0) return false;
            if (elements > out->elements) out->elements = elements;
            out->written++;
        }
        for (int o = 0; o < node->operand_count; o++) {
            const weft_value *source = weft_fuse_source(node->operands[o]);
            const weft_fuse_item *item = source->node ? weft_fuse_item_of(fuse, source->node) : NULL;
            bool inside = item && (item->role == WEFT_FUSE_COPY || weft_fuse_root(fuse, item->order) == root);
            if (!inside && !note_read(out, source)) return false;
        }
    }
    return out->written > 0;
}

/* The buffers of both together, and everything else that one launch has a limit for. */
static bool fits(weft_fuse *fuse, const bundle *open, const bundle *next, const limits *most) {
    int reads = open->read_count;
    for (int i = 0; i < next->read_count; i++) {
        bool shared = false;
        for (int j = 0; j < open->read_count && !shared; j++) shared = open->reads[j] == next->reads[i];
        reads += !shared;
    }
    return open->root >= 0 && reads + open->written + next->written <= most->buffers && open->groups < SPACES_MAX &&
           open->elements + next->elements <= most->total &&
           fuse->items[open->root].size + fuse->items[next->root].size <= NODES_MAX &&
           !weft_fuse_reaches_around(fuse, open->root, next->root) &&
           !weft_fuse_reaches_around(fuse, next->root, open->root);
}

void weft_fuse_side_by_side(weft_fuse *fuse) {
    const weft_capability *capability = fuse->capability;
    limits most = capability && capability->threads_max > 1 ? on_gpu : on_cpu;
    if (capability && capability->bindings_max) most.buffers = capability->bindings_max;
    bundle open = {.root = -1}, next;
    for (int i = 0; i < fuse->count; i++) {
        if (weft_fuse_root(fuse, i) != i || !describe(fuse, i, &most, &next)) continue;
        if (!fits(fuse, &open, &next, &most)) {
            open = next;
            continue;
        }
        weft_fuse_merge(fuse, open.root, next.root);
        for (int r = 0; r < next.read_count; r++) (void)note_read(&open, next.reads[r]);
        open.root = next.root, open.groups++, open.written += next.written, open.elements += next.elements;
    }
}
