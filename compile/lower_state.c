/* States in place: which reads are the state's memory itself, and which updates are written there by the kernel that
   computes them. What is not decided here is copied (lower.c).

   Invariant: from the moment a state's memory is written until the call ends, nobody reads a value that was bound to it
   before. A write happens at the update, or, in place, at the group that computes the new value; that group may read
   the old value there if it reads element by element what it writes, no later than it writes it. Pointwise groups and
   reductions evaluate a value once per index and store results in their order. Products too make each element of a
   result once, behind all of the sum, and what depends on the old value elementwise is no part of the sum; as they may
   look at it again for another result, only the new value itself may depend on it. Only states whose reads and updates
   all stand in the body itself are decided. */
#include "compile/lower.h"

#include <limits.h>
#include <string.h>

typedef struct state_plan {
    weft_lowering *l;
    const weft_block *body;
    const char *name;
    int buffer;
} state_plan;

static bool is_state_op(const weft_node *node, const char *name) {
    return (node->op == WEFT_OP_state_read || node->op == WEFT_OP_state_update) &&
           !strcmp(weft_node_string(node, WEFT_ATTR_name, ""), name);
}

static bool is_inside(const weft_node *node, const char *name) {
    for (int r = 0; r < node->region_count; r++)
        for (const weft_node *inner = node->regions[r]->block->first; inner; inner = inner->next)
            if (is_state_op(inner, name) || is_inside(inner, name)) return true;
    return false;
}

/* Position in the body of a node or of the node around it; notes hold them while states are planned. */
static int position(const state_plan *s, const weft_node *node) {
    while (node->block != s->body) node = node->block->region->parent;
    return (int)(intptr_t)node->note;
}

static bool is_alias(const state_plan *s, const weft_node *node) {
    return node->block == s->body && (node->op == WEFT_OP_reshape || node->op == WEFT_OP_optimization_barrier);
}

/* Where a value's memory is read last; INT_MAX = it is an output. */
static int last_use(const state_plan *s, const weft_value *value) {
    int last = 0;
    for (const weft_use *use = value->uses; use; use = use->next) {
        const weft_node *user = use->user;
        int at = is_alias(s, user) ? last_use(s, &user->results[user->op == WEFT_OP_reshape ? 0 : use->index])
                 : user->op == WEFT_OP_yield && user->block == s->body ? INT_MAX
                                                                       : position(s, user);
        if (at > last) last = at;
    }
    return last;
}

static bool same_dims(const weft_type *a, const weft_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

/* The results of a group that depend on a value: their numbers lie between these. */
typedef struct span {
    int first, last;
} span;

/* Does everything that depends on `value` in a group's region stay at its index? */
static bool stays_at_index(const weft_value *value, span *results) {
    for (const weft_use *use = value->uses; use; use = use->next) {
        weft_node *user = use->user;
        if (user->op == WEFT_OP_yield) {
            if (use->index < results->first) results->first = use->index;
            if (use->index > results->last) results->last = use->index;
            continue;
        }
        if (user->note) continue; /* seen */
        user->note = user;
        if (!(weft_op_get(user->op)->flags & WEFT_FLAG_ELEMENTWISE) ||
            !same_dims(&user->results[0].type, &value->type) || !stays_at_index(&user->results[0], results))
            return false;
    }
    return true;
}

/* May the group write `fresh` over the memory of `old`, which it reads? */
static bool reads_before_write(const state_plan *s, const weft_node *group, const weft_value *old,
                               const weft_value *fresh) {
    for (const weft_use *use = old->uses; use; use = use->next) {
        if (is_alias(s, use->user)) {
            int result = use->user->op == WEFT_OP_reshape ? 0 : use->index;
            if (!reads_before_write(s, group, &use->user->results[result], fresh)) return false;
        }
        if (use->user != group) continue;
        const char *anchor = weft_node_string(group, WEFT_ATTR_anchor, "");
        bool product = !strcmp(anchor, "matmul");
        if (!product && strcmp(anchor, "pointwise") != 0 && strcmp(anchor, "reduce") != 0) return false;
        if (!same_dims(&fresh->type, &old->type)) return false;
        const weft_block *block = group->regions[0]->block;
        span results = {INT_MAX, -1};
        bool stays = stays_at_index(block->arguments[use->index], &results);
        for (weft_node *node = block->first; node; node = node->next) node->note = NULL;
        if (!stays || results.first > fresh->index) return false;
        if (product && (results.first < fresh->index || results.last > fresh->index)) return false;
    }
    return true;
}

static bool is_bound(const state_plan *s, const weft_value *value) {
    return weft_map_find(&s->l->buffers, &value, sizeof value) != NULL;
}

/* The group result whose memory the update's operand is; NULL when something else made it or it has its memory. */
static const weft_value *fresh_value(const state_plan *s, const weft_node *update) {
    const weft_value *value = update->operands[0];
    while (value->node && is_alias(s, value->node) && value->node->op == WEFT_OP_reshape)
        value = value->node->operands[0];
    bool made = value->node && value->node->op == WEFT_OP_fusion && value->node->block == s->body;
    return made && !is_bound(s, value) ? value : NULL;
}

static weft_node *next_op(const state_plan *s, weft_node *node) {
    while (node && !is_state_op(node, s->name)) node = node->next;
    return node;
}

/* Where the memory is written for `update`, whose reads since the last write begin at `reads`. */
static int write_position(const state_plan *s, weft_node *reads, weft_node *update, int written,
                          const weft_value **out_fresh) {
    const weft_value *fresh = *out_fresh = fresh_value(s, update);
    if (!fresh) return position(s, update);
    int at = position(s, fresh->node);
    bool in_place = at > written;
    for (weft_node *read = reads; read != update && in_place; read = next_op(s, read->next)) {
        int last = last_use(s, &read->results[0]);
        in_place = position(s, read) < at && last <= at && !is_bound(s, &read->results[0]) &&
                   (last < at || reads_before_write(s, fresh->node, &read->results[0], fresh));
    }
    weft_node *later = next_op(s, update->next); /* the new value may be read until the next write */
    while (later && later->op != WEFT_OP_state_update) later = next_op(s, later->next);
    if (later) {
        const weft_value *next = fresh_value(s, later);
        in_place = in_place && last_use(s, fresh) <= (next ? position(s, next->node) - 1 : position(s, later));
    }
    if (!in_place) *out_fresh = NULL;
    return in_place ? at : position(s, update);
}

static weft_status plan_state(const state_plan *s) {
    int written = 0;
    for (weft_node *node = next_op(s, s->body->first); node;) {
        weft_node *update = node;
        while (update && update->op != WEFT_OP_state_update) update = next_op(s, update->next);
        const weft_value *fresh = NULL;
        int write = update ? write_position(s, node, update, written, &fresh) : INT_MAX;
        if (fresh) WEFT_TRY(weft_lower_bind(s->l, fresh, s->buffer), "state %s", s->name);
        for (; node != update; node = next_op(s, node->next)) {
            const weft_value *value = &node->results[0];
            if (!is_bound(s, value) && last_use(s, value) <= write && last_use(s, value) < INT_MAX)
                WEFT_TRY(weft_lower_bind(s->l, value, s->buffer), "state %s", s->name);
        }
        written = write;
        node = update ? next_op(s, update->next) : NULL;
    }
    return NULL;
}

weft_status weft_lower_plan_states(weft_lowering *l) {
    state_plan s = {.l = l, .body = l->graph->body->block};
    int count = 0;
    for (weft_node *node = s.body->first; node; node = node->next) node->note = (void *)(intptr_t)++count;
    weft_status status = NULL;
    for (int i = 0; i < l->buffer_count && !status; i++) {
        if (l->buffer_list[i].kind != WEFT_BUFFER_STATE) continue;
        s.name = l->graph->states[l->buffer_list[i].index].name;
        s.buffer = i;
        bool inside = false;
        for (const weft_node *node = s.body->first; node && !inside; node = node->next)
            inside = node->op != WEFT_OP_fusion && is_inside(node, s.name);
        if (!inside) status = plan_state(&s);
    }
    for (weft_node *node = s.body->first; node; node = node->next) node->note = NULL;
    return status;
}
