/* Running a group of the block a second time, for the pass "budget": what that takes, and doing it.

   The copy stands in front of the first reader behind the peak, and every reader from there on takes its results. Its
   own operands have to be at hand there: they are when somebody else reads them still later, when they live across the
   peak anyway, when a copy of them stands near (which then may move forward), or when they are small. Else the group
   that made them runs again too, at most three deep. One function decides that for the estimate and for the rewrite, so
   that both agree. Read next: budget.c. */
#include "passes/fuse/budget.h"
#include "passes/fuse/fuse.h"

#include <string.h>

enum { DEPTH_MAX = 3 };

static const double launch_seconds = 1.5e-6;

typedef struct maker {
    weft_budget *b;
    int place;         /* the copies stand before the node of this place */
    weft_node *before; /* NULL: only the estimate */
    double gives;      /* bytes that are given up in return */
    double extra, seconds;
    bool dear;
    int groups;
} maker;

typedef struct source {
    weft_node *group;
    int count;
    const int *results;
    weft_value *product; /* MAPPED: what the results are computed from; NULL = from the group's operands */
    weft_value *written; /* the product in memory */
} source;

/* -- what a part of a group needs */

typedef struct needs {
    bool operand[WEFT_FUSE_OPERANDS_MAX];
    bool possible;
} needs;

static bool is_mapped(const weft_node *node) {
    weft_fuse_role role = weft_fuse_classify(node);
    return role == WEFT_FUSE_VIEW || role == WEFT_FUSE_COPY ||
           (role == WEFT_FUSE_POINT && weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE);
}

static void need(const weft_value *value, const weft_value *product, needs *n) {
    weft_node *node = value->node;
    if (value == product) return;
    if (!node) {
        n->operand[value->index] = true;
        return;
    }
    if (node->note) return; /* seen */
    node->note = node;
    n->possible &= !(weft_op_get(node->op)->flags & WEFT_FLAG_EFFECT) && (!product || is_mapped(node));
    for (int i = 0; i < node->operand_count; i++) need(node->operands[i], product, n);
}

/* Groups whose builders take any of their results alone. */
static bool may_leave_out(const weft_node *group) {
    const char *anchor = weft_fuse_anchor_of(group);
    return !strcmp(anchor, "pointwise") || !strcmp(anchor, "reduce") || !strcmp(anchor, "matmul") ||
           !strcmp(anchor, "convolution");
}

static void find_needs(const source *s, needs *n) {
    memset(n, 0, sizeof *n);
    n->possible = s->group->operand_count <= WEFT_FUSE_OPERANDS_MAX;
    if (!n->possible) return;
    if (may_leave_out(s->group))
        for (int i = 0; i < s->count; i++) need(weft_fuse_inner(s->group, s->results[i]), s->product, n);
    else
        for (int i = 0; i < s->group->result_count; i++) need(weft_fuse_inner(s->group, i), NULL, n);
    for (weft_node *node = weft_fuse_inside(s->group)->first; node; node = node->next) node->note = NULL;
    const weft_type *first = &s->group->results[s->results[0]].type;
    for (int i = 1; s->product && i < s->count; i++) { /* one pointwise group makes them all */
        const weft_type *other = &s->group->results[s->results[i]].type;
        n->possible &=
            other->rank == first->rank && !memcmp(other->dims, first->dims, (size_t)first->rank * sizeof *first->dims);
    }
}

/* -- what it takes */

static double product_operations(const weft_node *node) {
    double sum = 2 * (double)weft_fuse_elements(&node->results[0].type);
    if (node->op == WEFT_OP_dot_general) {
        const weft_attribute *contract = weft_node_attribute(node, WEFT_ATTR_lhs_contract);
        for (int i = 0; i < contract->count; i++) sum *= (double)node->operands[0]->type.dims[contract->as.ints[i]];
    } else if (node->op == WEFT_OP_convolution) {
        const weft_type *w = &node->operands[1]->type;
        sum *= (double)weft_fuse_elements(w) / (double)w->dims[0];
    } else { /* attention: scores and their product with values */
        const weft_type *k = &node->operands[1]->type;
        sum *= 2 * (double)k->dims[k->rank - 2] * (weft_node_int(node, WEFT_ATTR_causal, 0) ? 0.5 : 1);
    }
    return sum;
}

static bool is_product(const weft_node *node) {
    return node->op == WEFT_OP_dot_general || node->op == WEFT_OP_convolution || node->op == WEFT_OP_attention ||
           node->op == WEFT_OP_attention_backward;
}

static void add_time(maker *m, const source *s, const needs *n) {
    double bytes = s->product ? weft_fuse_bytes(&s->product->type) : 0, operations = 0;
    for (int i = 0; i < s->group->operand_count; i++)
        if (n->operand[i]) bytes += weft_fuse_bytes(&s->group->operands[i]->type);
    for (int i = 0; i < s->count; i++) bytes += weft_fuse_bytes(&s->group->results[s->results[i]].type);
    for (const weft_node *node = weft_fuse_inside(s->group)->first; node && !s->product; node = node->next)
        if (is_product(node)) operations += product_operations(node), m->dear = true;
    double moving = bytes / m->b->bytes_per_second, computing = operations / m->b->operations_per_second;
    m->seconds += launch_seconds + (moving > computing ? moving : computing);
    m->groups++;
}

/* -- operands at a place */

static bool run(maker *m, const source *s, int depth, weft_value **out_values);

static weft_value *newest_copy(const weft_budget *b, const weft_value *root) {
    for (size_t i = b->pair_count; i > 0; i--)
        if (b->pairs[i - 1].first == root) return b->pairs[i - 1].again;
    return NULL;
}

/* Was the state written before the place? */
static bool is_overwritten(const maker *m, const weft_node *read) {
    const char *name = weft_node_string(read, WEFT_ATTR_name, "");
    for (int at = 1; at < m->place; at++)
        if (m->b->nodes[at]->op == WEFT_OP_state_update &&
            !strcmp(weft_node_string(m->b->nodes[at], WEFT_ATTR_name, ""), name))
            return true;
    return false;
}

/* May the node stand at the place: are its operands there, and still in memory? */
static bool may_stand(const maker *m, const weft_node *node) {
    for (int i = 0; i < node->operand_count; i++) {
        weft_value *operand = node->operands[i];
        if (!operand->node) continue;
        if (weft_budget_place(m->b, operand->node) >= m->place) return false;
        weft_value *root = weft_budget_root(m->b, operand);
        if (root->node && weft_budget_bytes(m->b, root) > 0 && weft_budget_span_of(m->b, root).last < m->place)
            return false;
    }
    return true;
}

/* The value, or what has its bits, at the place; NULL = it cannot be had there. */
static weft_value *obtain(maker *m, weft_value *root, int depth) {
    weft_node *node = root->node;
    if (!node || node->op == WEFT_OP_constant) return root;
    if (node->op == WEFT_OP_state_read) return is_overwritten(m, node) ? NULL : root;
    weft_budget_span s = weft_budget_span_of(m->b, root);
    double bytes = weft_budget_bytes(m->b, root);
    if (s.last >= m->place || (bytes > 0 && s.last >= m->b->at)) return root;
    weft_value *copy = newest_copy(m->b, root);
    if (copy && weft_budget_place(m->b, copy->node) < m->place) return obtain(m, copy, depth);
    if (copy && may_stand(m, copy->node)) {
        if (m->before) weft_node_move(copy->node, (weft_place){m->b->block, m->before}), copy->node->note = NULL;
        return copy;
    }
    if (bytes <= 0) return NULL; /* the memory of a state, or of an unknown size */
    if (bytes * 16 <= m->gives) {
        m->extra += bytes;
        return root;
    }
    source again = {.group = node, .count = 1, .results = &root->index};
    weft_value *made[WEFT_FUSE_RESULTS_MAX] = {root};
    return node->op == WEFT_OP_fusion && depth < DEPTH_MAX && run(m, &again, depth + 1, made) ? made[0] : NULL;
}

static weft_value *obtain_operand(maker *m, weft_value *value, int depth) {
    weft_value *root = weft_budget_root(m->b, value), *found = obtain(m, root, depth);
    if (!found || found == root) return found ? value : NULL;
    if (value == root || !m->before) return found;
    weft_attribute shape = weft_attr_dims(WEFT_ATTR_shape, value->type.rank, value->type.dims);
    weft_place outside = weft_graph_place_before(m->b->graph, m->before);
    found = weft_build(m->b->graph, WEFT_OP_reshape, 1, &found, 1, &shape);
    weft_graph_place(m->b->graph, outside);
    return found;
}

/* -- the copy */

static weft_node *build(const maker *m, const source *s, const needs *n, weft_value *const *outer) {
    weft_fuse_region region;
    weft_value *yields[WEFT_FUSE_RESULTS_MAX];
    const weft_block *inside = weft_fuse_inside(s->group);
    bool all = !may_leave_out(s->group);
    int count = all ? s->group->result_count : s->count;
    if (!weft_fuse_region_begin(m->b->graph, &region)) return NULL;
    bool right = true;
    for (int i = 0; i < s->group->operand_count && right; i++) {
        weft_value *argument = n->operand[i] ? weft_fuse_region_argument(&region, outer[i]) : NULL;
        right = !n->operand[i] || (argument && weft_value_map_put(&region.map, inside->arguments[i], argument));
    }
    if (s->product && right) {
        weft_value *argument = weft_fuse_region_argument(&region, s->written);
        right = argument && weft_value_map_put(&region.map, s->product, argument);
    }
    for (int i = 0; i < count && right; i++) {
        yields[i] = weft_fuse_inner(s->group, all ? i : s->results[i]);
        right = weft_fuse_region_copy(&region, s->group, yields[i]);
    }
    return weft_fuse_region_end(&region, m->before, s->product ? "pointwise" : weft_fuse_anchor_of(s->group),
                                s->group->location, right ? count : -1, yields);
}

static bool remember(weft_budget *b, const weft_value *first, weft_value *again) {
    if (!WEFT_ARRAY_RESERVE(b->allocator, b->pairs, b->pair_capacity, b->pair_count + 1)) return false;
    b->pairs[b->pair_count++] = (weft_budget_pair){first, again};
    return true;
}

/* Makes (or weighs) the results of a part of a group at the place. out_values: count of them. */
static bool run(maker *m, const source *s, int depth, weft_value **out_values) {
    needs n;
    weft_value *outer[WEFT_FUSE_OPERANDS_MAX];
    find_needs(s, &n);
    for (int i = 0; i < s->group->operand_count && n.possible; i++) {
        outer[i] = n.operand[i] ? obtain_operand(m, s->group->operands[i], depth) : NULL;
        n.possible = !n.operand[i] || outer[i];
    }
    if (!n.possible) return false;
    add_time(m, s, &n);
    if (!m->before) return true;
    weft_node *made = build(m, s, &n, outer);
    for (int i = 0; made && i < s->count; i++) {
        int index = may_leave_out(s->group) ? i : s->results[i];
        out_values[i] = &made->results[index];
        if (!remember(m->b, &s->group->results[s->results[i]], out_values[i])) made = NULL;
    }
    if (!made) m->b->graph->out_of_memory = true;
    return made != NULL;
}

/* -- the product in memory */

static int result_with(const weft_node *group, const weft_value *inner) {
    for (int i = 0; i < group->result_count; i++)
        if (weft_fuse_inner(group, i) == inner) return i;
    return -1;
}

static void rename_pairs(weft_budget *b, const weft_value *from, weft_value *to) {
    for (size_t i = 0; i < b->pair_count; i++) {
        if (b->pairs[i].first == from) b->pairs[i].first = to;
        if (b->pairs[i].again == from) b->pairs[i].again = to;
    }
}

/* The value is gone: nothing stands for it, and it for nothing. */
static void forget_pairs(weft_budget *b, const weft_value *value) {
    size_t count = 0;
    for (size_t i = 0; i < b->pair_count; i++)
        if (b->pairs[i].first != value && b->pairs[i].again != value) b->pairs[count++] = b->pairs[i];
    b->pair_count = count;
}

/* The group with `extra` as another result, or, without one, with the results that have uses. NULL without memory. */
static weft_node *rebuild(weft_budget *b, weft_node *old, weft_value *extra) {
    weft_fuse_region region;
    weft_value *yields[WEFT_FUSE_YIELDS_MAX];
    int count = 0, at = 0;
    if (!weft_fuse_region_begin(b->graph, &region)) return NULL;
    for (int i = 0; i < old->result_count; i++)
        if (extra || weft_value_has_uses(&old->results[i])) yields[count++] = weft_fuse_inner(old, i);
    if (extra) yields[count++] = extra;
    bool right = true;
    for (int i = 0; i < count && right; i++) right = weft_fuse_region_copy(&region, old, yields[i]);
    weft_node *made =
        weft_fuse_region_end(&region, old, weft_fuse_anchor_of(old), old->location, right ? count : -1, yields);
    if (!made) return NULL;
    for (int i = 0; i < old->result_count; i++) {
        if (!extra && !weft_value_has_uses(&old->results[i])) {
            forget_pairs(b, &old->results[i]);
            continue;
        }
        made->results[at].name = old->results[i].name;
        rename_pairs(b, &old->results[i], &made->results[at]);
        weft_value_replace(&old->results[i], &made->results[at++]);
    }
    made->note = old->note;
    b->nodes[weft_budget_place(b, old)] = made;
    weft_node_remove(old);
    return made;
}

/* The first run of a group makes what is read before its second one. */
static bool drop_unused(weft_budget *b, weft_node *group) {
    int used = 0;
    for (int i = 0; i < group->result_count; i++) used += weft_value_has_uses(&group->results[i]);
    for (int i = 0; i < group->result_count && !used; i++) forget_pairs(b, &group->results[i]);
    if (!used) weft_node_remove(group);
    bool some = used && used < group->result_count && may_leave_out(group);
    return !some || rebuild(b, group, NULL) != NULL;
}

/* -- readers */

static bool is_read_from(const weft_budget *b, const weft_value *value, int place) {
    for (const weft_use *use = value->uses; use; use = use->next)
        if (weft_budget_place(b, use->user) >= place) return true;
    return false;
}

/* Readers from the place on take `to`. */
static bool redirect(const maker *m, weft_value *from, weft_value *to) {
    bool right = true;
    for (weft_use *use = from->uses, *next; use && right; use = next) {
        next = use->next;
        weft_node *user = use->user;
        bool alias =
            user->block == m->b->block && (user->op == WEFT_OP_reshape || user->op == WEFT_OP_optimization_barrier);
        if (weft_budget_place(m->b, user) >= m->place) {
            weft_node_set_operand(user, use->index, to);
        } else if (alias && user->note) { /* a view in front of the place, with readers behind it */
            weft_value *view = &user->results[user->op == WEFT_OP_reshape ? 0 : use->index], *other = to;
            if (!is_read_from(m->b, view, m->place)) continue;
            if (user->op == WEFT_OP_reshape) {
                weft_attribute shape = weft_attr_dims(WEFT_ATTR_shape, view->type.rank, view->type.dims);
                weft_place outside = weft_graph_place_before(m->b->graph, m->before);
                other = weft_build(m->b->graph, WEFT_OP_reshape, 1, &to, 1, &shape);
                weft_graph_place(m->b->graph, outside);
            }
            right = !weft_value_is_poison(other) && redirect(m, view, other);
        }
    }
    return right;
}

/* -- choices */

static weft_value *written_product(const weft_budget_choice *choice) {
    int index = result_with(choice->group, choice->product);
    return index >= 0 ? &choice->group->results[index] : NULL;
}

bool weft_budget_weigh(weft_budget *b, weft_budget_choice *choice) {
    maker m = {.b = b, .place = choice->place};
    source s = {.group = choice->group, .count = choice->count, .results = choice->results};
    weft_value *none[WEFT_FUSE_RESULTS_MAX];
    for (int i = 0; i < choice->count; i++)
        m.gives += weft_budget_bytes(b, &choice->group->results[choice->results[i]]);
    if (choice->way == WEFT_BUDGET_MAPPED) {
        s.product = choice->product, s.written = written_product(choice);
        for (int i = 0; i < choice->count; i++)
            if (weft_fuse_inner(choice->group, choice->results[i]) == choice->product) return false;
        if (s.written && !obtain(&m, s.written, 0)) return false;
        if (!s.written) m.extra += weft_fuse_bytes(&choice->product->type);
        if (choice->group->result_count == WEFT_FUSE_RESULTS_MAX) return false;
    }
    if (!run(&m, &s, 0, none)) return false;
    choice->freed = m.gives - m.extra, choice->seconds = m.seconds, choice->dear = m.dear;
    return choice->freed >= b->peak / 1000;
}

weft_status weft_budget_apply(weft_budget *b, const weft_budget_choice *choice) {
    weft_budget_choice own = *choice;
    maker m = {.b = b, .place = own.place, .before = b->nodes[own.place]};
    weft_value *made[WEFT_FUSE_RESULTS_MAX];
    for (int i = 0; i < own.count; i++) m.gives += weft_budget_bytes(b, &own.group->results[own.results[i]]);
    source s = {.count = own.count, .results = own.results};
    bool memory = true;
    if (own.way == WEFT_BUDGET_MAPPED) {
        s.written = written_product(&own);
        if (s.written) {
            s.written = obtain(&m, s.written, 0);
        } else {
            own.group = rebuild(b, own.group, own.product);
            memory = own.group != NULL;
            if (memory) own.product = weft_fuse_inner(own.group, own.group->result_count - 1);
            if (memory) s.written = written_product(&own);
        }
        s.product = own.product;
        memory = s.written != NULL;
    }
    s.group = own.group;
    memory = memory && run(&m, &s, 0, made);
    for (int i = 0; memory && i < own.count; i++) memory = redirect(&m, &own.group->results[own.results[i]], made[i]);
    memory = memory && drop_unused(b, own.group);
    if (!memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a group that runs again");
    b->groups += m.groups, b->seconds += m.seconds;
    return NULL;
}
