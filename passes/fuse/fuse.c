/* The pass: every block of the graph, inner ones first. Read next: classify.c, group.c, chain.c,
   rewrite.c. */
#include "passes/fuse/fuse.h"

#include "ir/emit.h"
#include "ir/ops/attention.h"
#include "passes/fuse/heads.h"
#include "passes/fuse/network.h"

#include <string.h>

/* Has the target kernels of whole attention? */
static bool attends(const weft_fuse *fuse) {
    return fuse->capability && (fuse->capability->hopper || fuse->capability->cores != WEFT_CORES_NONE);
}

/* What attention leaves as tokens: join_heads puts it into memory, where read_tokens makes others read it. */
static bool is_tokens_of_attention(const weft_node *node) {
    return weft_is_head_transpose(node) && node->operands[0]->node && node->operands[0]->node->op == WEFT_OP_attention;
}

/* Does attention read this operand as heads in the features of tokens? What lies under the view is in memory then. */
static bool reads_heads(const weft_fuse *fuse, const weft_use *use) {
    bool forward = use->user->op == WEFT_OP_attention && use->index < 3 && attends(fuse);
    bool backward = use->user->op == WEFT_OP_attention_backward && use->index != 4 && use->index < 6 && attends(fuse);
    if (!forward && !backward) return false;
    const weft_value *value = use->user->operands[use->index];
    weft_head_view view;
    if (value->type.dims[2] == 1 || !weft_head_view_find(fuse->graph, value, &view)) return false;
    const weft_value *base = view.base;
    while (base->node && base->node->op == WEFT_OP_reshape) base = base->node->operands[0];
    return !base->node || weft_fuse_classify(base->node) != WEFT_FUSE_VIEW || is_tokens_of_attention(base->node);
}

/* Does attention evaluate this operand, its mask, at every score, or the key of its dropout? Attention that is still
   whole has a builder. */
static bool evaluates(const weft_fuse *fuse, const weft_use *use) {
    const weft_node *user = use->user;
    if (!attends(fuse) || (user->op != WEFT_OP_attention && user->op != WEFT_OP_attention_backward)) return false;
    return use->index == weft_attention_mask_at(user) || use->index == weft_attention_key_at(user);
}

/* A node that only masks read: copied with them, or a view behind one. */
static bool is_mask(const weft_fuse *fuse, const weft_node *node) {
    const weft_fuse_item *item = weft_fuse_item_of(fuse, node);
    if (!item || item->node != node) return false;
    if (item->mask) return true;
    if (item->role != WEFT_FUSE_VIEW) return false;
    const weft_use *use = node->results[0].uses;
    for (; use; use = use->next)
        if (!evaluates(fuse, use) && !is_mask(fuse, use->user)) return false;
    return node->results[0].uses != NULL;
}

/* Cheap elementwise masks are computed inside of every attention that reads them: as copies, in place of scores' worth
   of memory. Backwards, since what only such masks read goes with them. */
static void copy_masks(weft_fuse *fuse) {
    for (int i = fuse->count - 1; i >= 0; i--) {
        weft_fuse_item *item = &fuse->items[i];
        if (item->role != WEFT_FUSE_POINT || item->costly || item->node->result_count != 1 ||
            !(weft_op_get(item->node->op)->flags & WEFT_FLAG_ELEMENTWISE))
            continue;
        const weft_use *use = item->node->results[0].uses;
        bool copied = use != NULL;
        for (; use && copied; use = use->next) copied = evaluates(fuse, use) || is_mask(fuse, use->user);
        if (copied) item->role = WEFT_FUSE_COPY, item->mask = true;
    }
}

/* Attention and its backward pass may leave results as tokens: the transposes that make them become part of them.
   Beside the log-sum-exp only Hopper's builder knows. */
static void join_result(weft_fuse *fuse, int i, int result) {
    const weft_value *value = &fuse->items[i].node->results[result];
    const weft_use *use = value->uses;
    if (!use || use->next || value->type.rank != 4 || value->type.dims[2] == 1) return;
    weft_fuse_item *user = weft_fuse_item_of(fuse, use->user);
    if (!user || user->node != use->user || user->role != WEFT_FUSE_POINT || !weft_is_head_transpose(user->node))
        return;
    user->role = WEFT_FUSE_SINGLE; /* nothing else joins */
    weft_fuse_merge(fuse, user->order, weft_fuse_root(fuse, i));
}

static void join_heads(weft_fuse *fuse) {
    if (!attends(fuse)) return;
    for (int i = 0; i < fuse->count; i++) {
        const weft_node *node = fuse->items[i].node;
        bool hopper = fuse->capability->hopper;
        if (node->op == WEFT_OP_attention && (node->result_count == 1 || hopper)) join_result(fuse, i, 0);
        if (node->op == WEFT_OP_attention_backward)
            for (int r = 0; r < 3; r++) join_result(fuse, i, r);
    }
}

static bool needs_memory(const weft_fuse *fuse, const weft_value *value) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        weft_fuse_item *user = weft_fuse_item_of(fuse, use->user);
        if (!user || user->node != use->user) return true; /* captured by a region */
        switch (user->role) {
        case WEFT_FUSE_SINGLE:
            if (reads_heads(fuse, use) || evaluates(fuse, use)) break;
            return true;
        case WEFT_FUSE_LEAVE:
        case WEFT_FUSE_PRODUCT: return true;
        case WEFT_FUSE_POINT:
            if ((use->user->op == WEFT_OP_concat || use->user->op == WEFT_OP_pad) && !weft_network_is_constant(value))
                return true; /* a constant is as near as memory */
            if (use->user->op == WEFT_OP_rng_bits) return true;
            if ((use->user->op == WEFT_OP_gather || use->user->op == WEFT_OP_dynamic_slice) && use->index == 0)
                return true;
            break;
        case WEFT_FUSE_COPY:
        case WEFT_FUSE_VIEW:
        case WEFT_FUSE_NETWORK:
        case WEFT_FUSE_REDUCE: break;
        }
    }
    return false;
}

/* Views that someone needs in memory: a reshape stays a node (it costs nothing there), others are computed. The same
   for iota and dim. Backwards, since a view in memory needs its operand in memory. */
static void place_views(weft_fuse *fuse) {
    for (int i = fuse->count - 1; i >= 0; i--) {
        weft_fuse_item *item = &fuse->items[i];
        if (item->role != WEFT_FUSE_VIEW && item->role != WEFT_FUSE_COPY) continue;
        if (item->node->op == WEFT_OP_constant || !needs_memory(fuse, &item->node->results[0])) continue;
        item->role = item->node->op == WEFT_OP_reshape ? WEFT_FUSE_LEAVE : WEFT_FUSE_POINT;
    }
}

static bool has_effect(const weft_node *node) {
    if (weft_op_get(node->op)->flags & WEFT_FLAG_EFFECT) return true;
    for (int r = 0; r < node->region_count; r++)
        for (const weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            if (has_effect(inner)) return true;
    return false;
}

/* A product reads it, as it is or reshaped: it will be in memory. */
static bool feeds_product(const weft_value *value) {
    for (const weft_use *use = value->uses; use; use = use->next)
        if (weft_fuse_classify(use->user) == WEFT_FUSE_PRODUCT ||
            (use->user->op == WEFT_OP_reshape && feeds_product(&use->user->results[0])))
            return true;
    return false;
}

static bool comes_before(const weft_node *a, const weft_node *b) {
    while (a && a != b) a = a->next;
    return a != NULL;
}

/* The result of attention goes to a product as tokens and to the backward pass: that reads it from the tokens, so that
   one of both is in memory. */
static weft_status read_tokens(weft_graph *graph, weft_block *block) {
    static const int64_t order[4] = {0, 2, 1, 3};
    for (weft_node *node = block->first; node; node = node->next) {
        if (node->op != WEFT_OP_attention || node->result_count != 2 || node->results[0].type.dims[2] == 1) continue;
        weft_node *tokens = NULL, *backward = NULL;
        int uses = 0;
        for (const weft_use *use = node->results[0].uses; use; use = use->next, uses++) {
            if (weft_is_head_transpose(use->user)) tokens = use->user;
            if (use->user->op == WEFT_OP_attention_backward && use->index == 3) backward = use->user;
        }
        if (uses != 2 || !tokens || !backward || tokens->block != block || backward->block != block ||
            !feeds_product(&tokens->results[0]) || !comes_before(tokens, backward))
            continue;
        weft_place old = weft_graph_place_before(graph, backward);
        weft_location location = graph->location;
        graph->location = backward->location;
        weft_value *heads = weft_emit_transpose(graph, &tokens->results[0], order);
        graph->location = location;
        weft_graph_place(graph, old);
        if (weft_value_is_poison(heads)) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "attention's result from its tokens");
        weft_node_set_operand(backward, 3, heads);
    }
    return NULL;
}

static weft_status fuse_block(weft_graph *graph, weft_block *block, const weft_capability *capability) {
    weft_fuse fuse = {.graph = graph, .block = block, .allocator = graph->context->allocator, .capability = capability};
    if (capability && capability->hopper) WEFT_TRY(read_tokens(graph, block), "fusing");
    for (weft_node *node = block->first; node; node = node->next) {
        fuse.count++;
        for (int r = 0; r < node->region_count && node->op != WEFT_OP_fusion; r++) /* a group stays as it is */
            WEFT_TRY(fuse_block(graph, node->regions[r]->block, capability), "fusing a region of %s",
                     weft_op_get(node->op)->name);
    }
    size_t bytes = (size_t)fuse.count * sizeof *fuse.items, stack_bytes = (size_t)fuse.count * sizeof *fuse.stack;
    fuse.items = weft_allocate(fuse.allocator, bytes);
    fuse.stack = weft_allocate(fuse.allocator, stack_bytes);
    weft_status status =
        fuse.items && fuse.stack ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "fusing %d nodes", fuse.count);
    if (!status) {
        int i = 0, last_effect = -1;
        for (weft_node *node = block->first; node; node = node->next, i++) {
            weft_fuse_role role = weft_fuse_classify(node);
            bool anchor = role == WEFT_FUSE_REDUCE || role == WEFT_FUSE_PRODUCT;
            fuse.items[i] = (weft_fuse_item){.node = node,
                                             .role = role,
                                             .order = i,
                                             .parent = i,
                                             .next = -1,
                                             .last = i,
                                             .size = 1,
                                             .anchor = anchor ? i : -1,
                                             .costly = weft_fuse_is_costly(node),
                                             .random = node->op == WEFT_OP_rng_bits,
                                             .effect = has_effect(node),
                                             .next_effect = -1};
            node->note = &fuse.items[i];
            if (!fuse.items[i].effect) continue;
            if (last_effect >= 0) fuse.items[last_effect].next_effect = i;
            last_effect = i;
        }
        copy_masks(&fuse);
        place_views(&fuse);
        join_heads(&fuse);
        status = weft_fuse_network(&fuse);
        weft_fuse_group(&fuse);
        weft_fuse_chain(&fuse);
        weft_fuse_side_by_side(&fuse);
        if (!status) status = weft_fuse_rewrite(&fuse);
        for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
    }
    weft_free(fuse.allocator, fuse.stack, stack_bytes);
    weft_free(fuse.allocator, fuse.items, bytes);
    return status;
}

weft_status weft_pass_fuse(weft_pass_context *context) {
    return fuse_block(context->graph, context->graph->body->block, context->capability);
}
