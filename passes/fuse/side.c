/* Pointwise groups side by side: an optimizer updates each tensor by a group of its own, and small ones cost a launch
   more than their elements do. Groups whose values only update states join, whatever their shapes: the builder deals
   the blocks of one launch to them. Large tensors stay alone: their launch costs nothing beside them, and joined they
   would keep every gradient in memory until the last one is there. */
#include "passes/fuse/fuse.h"

enum { ELEMENTS_MAX = 1 << 18, BUFFERS_MAX = 64, NODES_MAX = 512, SPACES_MAX = 12 };

typedef struct bundle {
    int root, buffers, groups;
} bundle;

static bool is_small(const weft_type *type) {
    int64_t count = 1;
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] < 0 || type->dims[i] > ELEMENTS_MAX) return false;
        count *= type->dims[i];
        if (count > ELEMENTS_MAX) return false;
    }
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

/* Buffers of a group at most: what it reads, counted once a use, and what it writes. 0: the group may not join. */
static int buffers_of(weft_fuse *fuse, int root) {
    int count = 0, written = 0;
    if (fuse->items[root].anchor >= 0 || fuse->items[root].chain) return 0;
    for (int i = root; i >= 0; i = fuse->items[i].next) {
        weft_node *node = fuse->items[i].node;
        if (fuse->items[i].role != WEFT_FUSE_POINT || fuse->items[i].effect) return 0;
        for (int r = 0; r < node->result_count; r++) {
            if (!only_updates(fuse, &node->results[r], root)) return 0;
            if (!weft_fuse_used_outside(fuse, &node->results[r], root)) continue;
            if (!is_small(&node->results[r].type)) return 0;
            written++;
        }
        for (int o = 0; o < node->operand_count; o++) {
            const weft_value *source = weft_fuse_source(node->operands[o]);
            const weft_fuse_item *item = source->node ? weft_fuse_item_of(fuse, source->node) : NULL;
            bool inside = item && (item->role == WEFT_FUSE_COPY || weft_fuse_root(fuse, item->order) == root);
            count += !inside;
        }
    }
    return written ? count + written : 0;
}

void weft_fuse_side_by_side(weft_fuse *fuse) {
    int most = fuse->capability && fuse->capability->bindings_max ? fuse->capability->bindings_max : BUFFERS_MAX;
    bundle open = {-1, 0, 0};
    for (int i = 0; i < fuse->count; i++) {
        int root = weft_fuse_root(fuse, i), buffers = root == i ? buffers_of(fuse, root) : 0;
        if (!buffers) continue;
        bool fits = open.root >= 0 && open.buffers + buffers <= most && open.groups < SPACES_MAX &&
                    fuse->items[open.root].size + fuse->items[root].size <= NODES_MAX &&
                    !weft_fuse_reaches_around(fuse, open.root, root) &&
                    !weft_fuse_reaches_around(fuse, root, open.root);
        if (!fits) {
            open = (bundle){root, buffers, 1};
            continue;
        }
        weft_fuse_merge(fuse, open.root, root);
        open = (bundle){root, open.buffers + buffers, open.groups + 1};
    }
}
